"""Every exception of this package, and who is at fault.

InterlinguaError
├── FormatError          our own JSON is invalid (the path is in the message)
├── DialectError
│   ├── Unsupported      a dialect cannot encode this (our side)
│   └── BadWire          a peer sent what its own format forbids (their side)
├── TransportError       no response: connection refused or cut off
│   └── TimedOut         nothing was received within the timeout
├── Aborted              the caller stopped the call
├── ProviderError        the provider responded with an error
│   └── AuthFailed · RateLimited · Overloaded · ContextTooLong · ContentFiltered · BadRequest
│                                                └── CannotCompact   compaction cannot make it fit
├── SessionError         a session on disk cannot do what was requested (sessions/store.py)
│   └── SessionBusy · SessionDamaged · SessionNotFound
└── ToolInputError       status 400
    └── ToolAuthorizationError   status 403
"""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any


class InterlinguaError(Exception):
    """Base class of every exception that this package raises on purpose.

    `partial` is the AssistantMessage so far, where the error interrupted one.
    """

    partial: Any = None


class FormatError(InterlinguaError):
    """Our own JSON, or a value passed to us, is not valid in the format."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(_placed(message, path))
        self.message = message
        self.path = path


def _placed(message: str, path: str) -> str:
    """Adds the path to a message. A message that ends with another error's path keeps that one, which is more exact;
    a path into a value is prefixed with the value's owner.
    """
    found = _PLACE.search(message)
    if found is None:
        return f"{message} (at {path})"
    if not found[1].startswith("$") or path.startswith("$"):
        return message
    return f"{message[: found.start()]} (at {path if found[1] == '$' else f'{path} {found[1]}'})"


_PLACE = re.compile(r" \(at ([^()]+)\)$")


class DialectError(InterlinguaError):
    """A conversation cannot be read from or written to a dialect."""

    def __init__(self, dialect: str, message: str, path: str = "$") -> None:
        super().__init__(_placed(f"{dialect}: {message}", path))
        self.dialect = dialect
        self.message = message
        self.path = path

    def under(self, prefix: str) -> "DialectError":
        """Returns the same error seen from an enclosing value: `$.text` under `messages[2]` is `$.messages[2].text`."""
        return type(self)(self.dialect, self.message, f"$.{prefix}{self.path[1:]}")


class Unsupported(DialectError):
    """The dialect cannot encode this at all; a value that is only weakened is a Loss instead."""


class BadWire(DialectError):
    """Bytes or JSON that the peer's own format forbids."""


class TransportError(InterlinguaError):
    """No response was received: connection refused, cut off, or timed out."""


class NoConnection(TransportError):
    """No server at the address."""


class TimedOut(TransportError):
    """The peer sent nothing within the timeout."""


class Aborted(InterlinguaError):
    """The caller stopped the call; `reason` is the reason passed to the signal."""

    def __init__(self, reason: Any = None) -> None:
        super().__init__(f"aborted: {reason}" if reason is not None else "aborted")
        self.reason = reason


def seconds(value: Any) -> float | None:
    """Returns a delay in seconds, never negative; None if the value is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return max(0.0, float(value)) if math.isfinite(value) else None
    except OverflowError:  # an integer too large for a float
        return None


class ProviderError(InterlinguaError):
    """The provider responded with an error.

    `status` is the HTTP status (0 for an error inside a stream), `code` the provider's error code, `retry_after` the
    delay in seconds that the provider asked for (never negative, never infinite), `body` the response, parsed if it was
    JSON.
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
    """Too many requests or tokens; `retry_after` may give the delay."""


class Overloaded(ProviderError):
    """The provider is too busy; the same request may succeed later."""


class ContextTooLong(ProviderError):
    """The conversation does not fit the model's context window."""


class CannotCompact(ContextTooLong):
    """The conversation does not fit the model's context window, and compaction cannot make it fit."""


class ContentFiltered(ProviderError):
    """A safety filter refused the request or the response."""


class BadRequest(ProviderError):
    """The provider refused the request as invalid."""


class OutputInvalid(InterlinguaError):
    """No response of the model matched the requested output type; `partial` is the last one."""


class ToolInputError(InterlinguaError):
    """A tool was called with invalid arguments."""

    status: int = 400


class ToolAuthorizationError(ToolInputError):
    """The caller is not allowed to use this tool."""

    status: int = 403


def causes(error: BaseException) -> Iterator[BaseException]:
    """Returns the chain of exceptions behind an error, each once."""
    seen = {id(error)}
    below = error.__cause__ or error.__context__
    while below is not None and id(below) not in seen:
        seen.add(id(below))
        yield below
        below = below.__cause__ or below.__context__


# --- names that do not exist ------------------------------------------------------------------------------------------


def nearest(name: str, known: Iterable[str], limit: int = 3, cutoff: float = 0.6) -> list[str]:
    """Returns the known names closest to a misspelt one, ignoring case; best first."""
    import difflib  # slow to load, for errors alone

    folded: dict[str, str] = {}
    for one in known:
        folded.setdefault(one.lower(), one)
    close = difflib.get_close_matches(name.lower(), folded, limit, cutoff)
    starts = [one for one in sorted(folded, key=len) if len(name) > 2 and one.startswith(name.lower())]
    return [folded[one] for one in dict.fromkeys((*close, *starts))][:limit]


def unknown(kind: str, name: str, known: Iterable[str], *, listed: str | None = None) -> str:
    """The error message for an unknown name: suggestions, else all names (or `listed`: where they are listed)."""
    names = sorted(known)
    near = nearest(name, names)
    if near:
        remedy = f"did you mean {' or '.join(map(repr, near))}?"
    else:
        remedy = listed or f"valid {kind}s: {', '.join(names)}"
    return f"unknown {kind} {name!r}; {remedy}"
