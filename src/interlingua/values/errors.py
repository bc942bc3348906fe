"""Every error this package raises, and who is at fault.

InterlinguaError
├── FormatError          our own JSON is wrong (the path is in the message)
├── DialectError
│   ├── Unsupported      we asked a dialect to say what it cannot (our side)
│   └── BadWire          a peer sent what its own format forbids (their side)
├── TransportError       no answer came: refused, cut off
│   └── TimedOut         nothing was received for too long
├── Aborted              the caller stopped the call
├── ProviderError        an answer came and it is an error
│   └── AuthFailed · RateLimited · Overloaded · ContextTooLong · ContentFiltered · BadRequest
│                                                └── CannotCompact   nor can it be made to fit
├── SessionError         a session on disk cannot do what was asked (sessions/store.py)
│   └── SessionBusy · SessionDamaged · SessionNotFound
└── ToolInputError       status 400
    └── ToolAuthorizationError   status 403
"""

import math
import re
from collections.abc import Iterator
from typing import Any


class InterlinguaError(Exception):
    """The root: catch this to catch whatever the package raises on purpose.

    `partial` is the answer so far, as an AssistantMessage, where the error broke one off.
    """

    partial: Any = None


class FormatError(InterlinguaError):
    """Our own JSON, or a value given to us, is not what the format allows."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(_placed(message, path))
        self.message = message
        self.path = path


def _placed(message: str, path: str) -> str:
    """A message with its place. One that ends with the text of another error has that error's place already, which is
    the more exact one; a path into a value is named with what holds the value."""
    found = _PLACE.search(message)
    if found is None:
        return f"{message} (at {path})"
    if not found[1].startswith("$") or path.startswith("$"):
        return message
    return f"{message[: found.start()]} (at {path if found[1] == '$' else f'{path} {found[1]}'})"


_PLACE = re.compile(r" \(at ([^()]+)\)$")


class DialectError(InterlinguaError):
    """A conversation could not cross the border of a dialect."""

    def __init__(self, dialect: str, message: str, path: str = "$") -> None:
        super().__init__(_placed(f"{dialect}: {message}", path))
        self.dialect = dialect
        self.message = message
        self.path = path

    def under(self, prefix: str) -> "DialectError":
        """The same error, seen from an enclosing place: `$.text` under `messages[2]` is `$.messages[2].text`."""
        return type(self)(self.dialect, self.message, f"$.{prefix}{self.path[1:]}")


class Unsupported(DialectError):
    """The dialect has no way to say this at all; what is merely weakened is a Loss instead."""


class BadWire(DialectError):
    """Bytes or JSON that the peer's own format forbids."""


class TransportError(InterlinguaError):
    """No answer came: connection refused, cut off, timed out."""


class TimedOut(TransportError):
    """The peer was silent for longer than it may be."""


class Aborted(InterlinguaError):
    """The caller stopped the call; `reason` is what the signal was given."""

    def __init__(self, reason: Any = None) -> None:
        super().__init__(f"aborted: {reason}" if reason is not None else "aborted")
        self.reason = reason


def seconds(value: Any) -> float | None:
    """A wait in seconds: none below zero, and None for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return max(0.0, float(value)) if math.isfinite(value) else None
    except OverflowError:  # an integer that no float can hold
        return None


class ProviderError(InterlinguaError):
    """The provider answered, and the answer is an error.

    `status` is the HTTP status (0 when the error came inside a stream), `code` the provider's own word for it,
    `retry_after` seconds if the provider asked to wait (never negative, never infinite), `body` what it sent, parsed
    where it was JSON.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str | None = None,
        retry_after: float | None = None,
        body: Any = None,
        provider: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.retry_after = seconds(retry_after)
        self.body = body
        self.provider = provider


class AuthFailed(ProviderError):
    """The key is missing, wrong, or not allowed to do this."""


class RateLimited(ProviderError):
    """Too many requests or tokens for now; `retry_after` may say for how long."""


class Overloaded(ProviderError):
    """The provider is too busy; the same request may succeed later."""


class ContextTooLong(ProviderError):
    """The conversation does not fit the model's context window."""


class CannotCompact(ContextTooLong):
    """The conversation does not fit the model's context window, and cannot be summed up so that it does."""


class ContentFiltered(ProviderError):
    """A safety filter refused the request or the answer."""


class BadRequest(ProviderError):
    """The provider understood the request and will not serve it as it is."""


class OutputInvalid(InterlinguaError):
    """The model's answers never fitted the type that was asked for; `partial` is the last of them."""


class ToolInputError(InterlinguaError):
    """A tool was called with arguments it cannot use."""

    status: int = 400


class ToolAuthorizationError(ToolInputError):
    """The caller may not use this tool."""

    status: int = 403


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exceptions behind an error, each once."""
    seen = {id(error)}
    below = error.__cause__ or error.__context__
    while below is not None and id(below) not in seen:
        seen.add(id(below))
        yield below
        below = below.__cause__ or below.__context__
