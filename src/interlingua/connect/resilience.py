"""Trying again: which failures are worth it, how long to wait, and when to stop asking a provider that is down."""

import random
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from ..dialects._errors import OVERFLOW, is_overflow
from ..errors import (
    AuthFailed,
    BadRequest,
    BadWire,
    ContentFiltered,
    ContextTooLong,
    InterlinguaError,
    Overloaded,
    ProviderError,
    RateLimited,
    TransportError,
)
from ..messages import AssistantMessage

CIRCUIT_OPEN = "circuit_open"
# Rate limits that no waiting lifts.
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "credit_balance_too_low"})
# An error inside a stream has no status: these words say that it is the server's own.
_THEIRS = frozenset(
    {"api_error", "server_error", "internal_error", "internalserverexception", "modelstreamerrorexception"}
)


class Retry(Struct, frozen=True, kw_only=True):
    """How often to try and how long to wait: `base` seconds, doubled each time, up to `cap`, with full jitter.

    What the provider asks for (Retry-After) counts instead; more than `longest` seconds of it, and the failure is
    reported at once.
    """

    attempts: int = 3
    base: float = 0.5
    cap: float = 30.0
    longest: float = 60.0

    def wait(self, failure: BaseException | None, attempt: int) -> float:
        """Seconds to wait after the nth attempt failed."""
        asked = getattr(failure, "retry_after", None)
        if asked is not None:
            return float(asked) + random.uniform(0, min(0.25, asked / 10))
        return random.uniform(self.base / 2, min(self.cap, self.base * 2.0 ** (attempt - 1)))

    def again(self, failure: BaseException) -> bool:
        """Whether the same request may succeed a little later."""
        if getattr(failure, "code", None) == CIRCUIT_OPEN:
            return False
        return passing(failure) and (getattr(failure, "retry_after", None) or 0) <= self.longest


NEVER = Retry(attempts=1)


def passing(failure: BaseException) -> bool:
    """Whether a failure is of the moment: overload, rate limit, a broken connection, an error of the server's own."""
    if isinstance(failure, RateLimited):
        return failure.code not in _SPENT
    if isinstance(failure, Overloaded | TransportError | BadWire):
        return True
    kinds = (AuthFailed, ContextTooLong, ContentFiltered, BadRequest)
    if not isinstance(failure, ProviderError) or isinstance(failure, kinds):
        return False
    return failure.status >= 500 or (failure.code or "").lower() in _THEIRS


def overflow_wording(pattern: str) -> None:
    """Teaches the classifier another wording (a regular expression) of "the conversation does not fit"."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise InterlinguaError(f"{pattern!r} is no regular expression: {error}") from None
    if pattern not in OVERFLOW:
        OVERFLOW.append(pattern)


def overflowed(message: AssistantMessage, context_window: int | None = None) -> bool:
    """Whether an answer shows that the conversation did not fit: by its error, or by more input than the window holds.

    Some hosts cut the input in silence and answer as if all were well; their count of it gives them away.
    """
    if message.stop_reason == "error":
        return is_overflow(message.error_message or "") or is_overflow(message.stop_detail or "")
    usage = message.usage
    if message.stop_reason != "stop" or usage is None or context_window is None:
        return False
    return usage.input + usage.cache_read > context_window


def elsewhere(failure: BaseException) -> bool:
    """Whether another model may succeed where this one failed. A bad request is bad everywhere."""
    if isinstance(failure, BadRequest):
        return failure.status == 404  # no such model here
    return isinstance(failure, ProviderError | TransportError | BadWire) and not isinstance(failure, ContentFiltered)


class Breaker:
    """Stops calls to a target that keeps failing: after `failures` in a row none for `cooldown` seconds, then a probe.

    A call that was tried several times counts once. Only failures of the target count, not ours (a bad key, a bad
    request, too long a context): those show that it answers.
    """

    def __init__(
        self, failures: int = 5, cooldown: float = 30.0, clock: Callable[[], float] = time.monotonic, most: int = 1000
    ) -> None:
        self._failures = failures
        self._cooldown = cooldown
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._until: dict[tuple[str, str], float] = {}

    def check(self, provider: str, model: str) -> None:
        """Raises `Overloaded` while the target is to be left alone. The first call after that is the probe."""
        key = (provider, model)
        with self._lock:
            until = self._until.get(key)
            if until is None:
                return
            left = until - self._clock()
            if left <= 0:
                self._until[key] = self._clock() + self._cooldown  # others wait for the probe
                return
        raise Overloaded(
            f"{provider}/{model} failed {self._failures} times in a row and is left alone for {left:.0f} s more",
            code=CIRCUIT_OPEN,
            retry_after=left,
            provider=provider,
        )

    def succeeded(self, provider: str, model: str) -> None:
        with self._lock:
            self._counts.pop((provider, model), None)
            self._until.pop((provider, model), None)

    def failed(self, provider: str, model: str, failure: InterlinguaError) -> None:
        if not passing(failure) or isinstance(failure, RateLimited):
            if 0 < getattr(failure, "status", 0) < 500:  # it answers
                self.succeeded(provider, model)
            return
        if getattr(failure, "code", "") == CIRCUIT_OPEN:
            return
        key = (provider, model)
        with self._lock:
            self._counts[key] = count = self._counts.pop(key, 0) + 1
            if count >= self._failures:
                self._until[key] = self._clock() + self._cooldown
            if len(self._counts) > self._most:
                forgotten, _ = self._counts.popitem(last=False)
                self._until.pop(forgotten, None)
