"""Retries: which failures are retryable, the delay between attempts, and the circuit breaker."""

import random
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from ..dialects.provider_errors import OVERFLOW, is_overflow
from ..values.errors import (
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
    seconds,
)
from ..values.messages import AssistantMessage

CIRCUIT_OPEN = "circuit_open"
_FIRST_WAIT = 0.5  # seconds to wait for a limited target that gives no delay
_LONGEST_WAIT = 86_400.0  # the maximum: a wrong clock at the target must not block it for the rest of the process
# Rate limits that no waiting lifts.
# platform.openai.com/docs/guides/error-codes: 429 with `insufficient_quota` means that the credit is used up.
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "credit_balance_too_low"})
# An error inside a stream has no status: these codes mark it as the server's own.
_THEIRS = frozenset(
    {"api_error", "server_error", "internal_error", "internalserverexception", "modelstreamerrorexception"}
)


class Retry(Struct, frozen=True, kw_only=True):
    """The retry settings: `base` seconds, doubled each time, up to `cap`, with full jitter.

    The provider's Retry-After takes precedence; beyond `longest` seconds, the failure is reported at once.
    """

    attempts: int = 3
    base: float = 0.5
    cap: float = 30.0
    longest: float = 60.0

    def wait(self, failure: BaseException | None, attempt: int) -> float:
        """Returns the delay after the nth attempt failed."""
        asked = wait_of(failure)
        if asked is not None:
            # A little more than asked for: clients that were refused together would come back together.
            return asked + random.uniform(0, min(0.25, asked / 10))
        # Full jitter (aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter), but never at once.
        return random.uniform(self.base / 2, min(self.cap, self.base * 2.0 ** (attempt - 1)))

    def again(self, failure: BaseException) -> bool:
        """Whether the same request may succeed later."""
        # Nothing was sent: to wait here would only hold the caller until the probe.
        if getattr(failure, "code", None) == CIRCUIT_OPEN:
            return False
        return passing(failure) and (wait_of(failure) or 0) <= self.longest


NEVER = Retry(attempts=1)


def wait_of(failure: BaseException | None) -> float | None:
    """Returns the delay that a failure requests, if any: `retry_after` may be set to anything after the fact."""
    return seconds(getattr(failure, "retry_after", None))


def asks_to_wait(failure: BaseException) -> bool:
    """Whether a target requests a delay: it rate-limits, or sends Retry-After."""
    return isinstance(failure, RateLimited) or (passing(failure) and wait_of(failure) is not None)


def passing(failure: BaseException) -> bool:
    """Whether a failure is transient: overload, rate limit, a broken connection, a server error."""
    if isinstance(failure, RateLimited):
        return failure.code not in _SPENT
    if isinstance(failure, Overloaded | TransportError | BadWire):
        return True
    kinds = (AuthFailed, ContextTooLong, ContentFiltered, BadRequest)
    if not isinstance(failure, ProviderError) or isinstance(failure, kinds):
        return False
    # RFC 9110, 15.6: the server's own fault. A request with a side effect is not a concern: a model call has none.
    return failure.status >= 500 or (failure.code or "").lower() in _THEIRS


def overflow_wording(pattern: str) -> None:
    """Adds a pattern (a regular expression) for "context too long" errors."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise InterlinguaError(f"not a regular expression: {pattern!r}: {error}") from None
    if pattern not in OVERFLOW:
        OVERFLOW.append(pattern)


def overflowed(message: AssistantMessage, context_window: int | None = None) -> bool:
    """Whether a response shows that the context was too long: by its error, or by more input than the window holds.

    Some hosts truncate the input silently and respond normally; their reported usage shows it.
    """
    if message.stop_reason == "error":
        return is_overflow(message.error_message or "") or is_overflow(message.stop_detail or "")
    usage = message.usage
    if message.stop_reason != "stop" or usage is None or context_window is None:
        return False
    # Ollama drops the beginning of a conversation that exceeds `num_ctx`, and reports no error.
    return usage.input + usage.cache_read > context_window


# "No such model here", in the codes of providers: all that is wrong with such a request is where it went.
_NOT_HERE = frozenset({"404", "model_not_found", "not_found_error", "not_found", "resourcenotfoundexception"})


# Anthropic and OpenRouter: no credit, in an answer with this status or inside a stream.
_UNPAID = frozenset({"402", "billing_error"})


def is_unpaid(failure: BaseException) -> bool:
    """Whether an account has no credit at a provider (HTTP 402); OpenAI's 429 of that kind is `RateLimited`."""
    return isinstance(failure, ProviderError) and (failure.status == 402 or failure.code in _UNPAID)


def elsewhere(failure: BaseException) -> bool:
    """Whether another model may succeed where this one failed. A bad request fails everywhere."""
    if isinstance(failure, BadRequest):
        return failure.status == 404 or (failure.code or "").lower() in _NOT_HERE or is_unpaid(failure)
    # A filter of another provider might let it pass; whether that is wanted is for the caller to decide.
    return isinstance(failure, ProviderError | TransportError | BadWire) and not isinstance(failure, ContentFiltered)


class CallTarget(NamedTuple):
    """The target of a call: a model at a base URL. Rate limits apply to the `account` there; failures do not."""

    provider: str
    model: str
    address: str = ""
    account: str = ""

    @property
    def place(self) -> "CallTarget":
        return self._replace(account="")

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class Breaker:
    """A circuit breaker: stops calls to a failing target, and tracks targets that requested a delay.

    After `failures` in a row it is open for `cooldown` seconds, then allows a probe. A call that was retried counts
    once. Only failures of the target count, not ours (a bad key, a bad request, too long a context): those show that it
    responds. A target that asks for a delay, or rate-limits, is skipped that long by calls with a fallback; without a
    stated delay, for half a second, doubled each time, up to `cooldown`.
    """

    def __init__(
        self,
        failures: int = 5,
        cooldown: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        max_entries: int = 1000,
    ) -> None:
        self._failures = failures
        self._cooldown = cooldown
        self._clock = clock
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._counts: OrderedDict[CallTarget, int] = OrderedDict()
        self._until: dict[CallTarget, float] = {}
        self._waits: OrderedDict[CallTarget, tuple[int, float]] = OrderedDict()  # how many in a row, and until when

    def check(self, target: CallTarget) -> None:
        """Raises `Overloaded` while the circuit is open. The first call after that is the probe."""
        # Read without the lock: a call that begins at the same moment as the circuit opens is one more, as it would be
        # a microsecond earlier.
        if not self._until:
            return
        key = target.place
        with self._lock:
            until = self._until.get(key)
            if until is None:
                return
            left = until - self._clock()
            if left <= 0:
                self._until[key] = self._clock() + self._cooldown  # others wait for the probe
                return
        raise Overloaded(
            f"circuit open for {target} after {self._failures} failures in a row; retry in {left:.0f} s",
            code=CIRCUIT_OPEN,
            retry_after=left,
            provider=target.provider,
        )

    def check_wait(self, target: CallTarget) -> None:
        """Raises `RateLimited` while a requested delay is not over."""
        with self._lock:
            _, until = self._waits.get(target, (0, 0.0))
            left = until - self._clock()
        if left > 0:
            raise RateLimited(
                f"{target} requested a pause; retry in {left:.0f} s",
                code=CIRCUIT_OPEN,
                retry_after=left,
                provider=target.provider,
            )

    def succeeded(self, target: CallTarget) -> None:
        if self._counts or self._waits:
            with self._lock:
                self._close(target.place)
                self._waits.pop(target, None)

    def failed(self, target: CallTarget, failure: InterlinguaError) -> None:
        if getattr(failure, "code", "") == CIRCUIT_OPEN:
            return
        key = target.place
        with self._lock:
            if asks_to_wait(failure):
                self._wait(target, wait_of(failure))
            if passing(failure) and not isinstance(failure, RateLimited):
                self._count(key)
            elif isinstance(failure, RateLimited) or 0 < getattr(failure, "status", 0) < 500:  # it responds
                self._close(key)

    def _count(self, key: CallTarget) -> None:
        self._counts[key] = count = self._counts.pop(key, 0) + 1
        if count >= self._failures:
            self._until[key] = self._clock() + self._cooldown
        if len(self._counts) > self._max_entries:
            # The oldest: base URLs may come from callers, so that the number of targets has no natural bound.
            forgotten, _ = self._counts.popitem(last=False)
            self._until.pop(forgotten, None)

    def _close(self, key: CallTarget) -> None:
        self._counts.pop(key, None)
        self._until.pop(key, None)

    def _wait(self, key: CallTarget, asked: float | None) -> None:
        count = self._waits.pop(key, (0, 0.0))[0] + 1
        usual = min(self._cooldown, _FIRST_WAIT * 2.0 ** min(count - 1, 30))
        self._waits[key] = (count, self._clock() + min(usual if asked is None else asked, _LONGEST_WAIT))
        if len(self._waits) > self._max_entries:
            self._waits.popitem(last=False)
