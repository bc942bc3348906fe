"""One exchange through the gateway, and the protocols of the gate and the observers.

The routes and lanes fill an `Exchange` on the way; the gate, the ledger, the recorder, the metrics and the access log
read it. None of them handles single events: a stream is observed when it has ended, however it ended.
"""

import functools
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from ..connect.auth.credentials import Scrubber
from ..dialects.wire import Wire
from ..values.errors import InterlinguaError
from ..values.losses import Loss
from ..values.messages import AssistantMessage, Usage
from ..values.request import ModelDescriptor, Request
from .cache_breaks import CacheBreak
from .handover import BrokenOff

Lane: TypeAlias = Literal["same", "translated", "passed"]
_LONGEST_NAME = 200  # characters


class ClientKey(Struct, frozen=True, kw_only=True):
    """A client key and its limits; None means no limit. `LOCAL` is any client of a gateway without keys."""

    name: str
    models: tuple[str, ...] | None = None  # aliases or `provider/model` patterns with `*`
    max_losses: Literal["any", "minor", "none"] = "any"
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None
    budget: float | None = None  # US dollars in a `budget_period`
    budget_period: Literal["day", "month", "total"] = "total"
    expires: float | None = None  # seconds since 1970
    passthrough: bool = False  # may use paths of a wire that the gateway only passes on

    def allows(self, *names: str) -> bool:
        """Whether the key may use a model, by any of its names (the requested alias, `provider/model`)."""
        if self.models is None:
            return True
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.models)


LOCAL = ClientKey(name="local", passthrough=True)


class Quota(Struct, frozen=True):
    """The rest of a key's limit, for response headers. `reset`: seconds until all of it is free."""

    limit: int
    remaining: int
    reset: float


class Exchange(Struct, kw_only=True, eq=False):
    """One request: the client's input, the responding model, and the outcome. Times are seconds since 1970."""

    id: str
    key: ClientKey
    wire: Wire  # the client's
    asked_model: str  # as the client wrote it
    is_stream: bool
    started: float
    request: Request | None = None
    references: dict[str, Any] | None = None  # `extra` of a request whose history `request` has instead
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)  # of the client, those that belong to the request; no key
    session: str | None = None  # the client's own name for the conversation, where a header or the body has one
    lane: Lane = "translated"
    model: ModelDescriptor | None = None  # that responded, or was called last
    unpriced: ModelDescriptor | None = None  # that may be called, and whose price is not known
    attempts: int = 0
    losses: tuple[Loss, ...] = ()  # without bookkeeping (severity `record`), which the exchange itself has
    cache_break: CacheBreak | None = None  # where the prompt differs from what was sent before
    # The response, whole, or its part until it ended; or what decodes it. Read it as `answer`.
    response: "AssistantMessage | DeferredAnswer | None" = None
    # Attempts that failed before the client received anything: their model and usage.
    discarded: tuple[tuple[ModelDescriptor, Usage], ...] = ()
    earlier: tuple[BrokenOff, ...] = ()  # who broke off before the last one went on
    usage: Usage | None = None
    is_counted: bool = False  # `usage` and `cost` are final
    is_estimated: bool = False  # the usage is ours: the stream was cut or the client left before the provider's came
    cost: float | None = None  # None: the price is not known
    status: int = 0
    error: InterlinguaError | None = None
    is_aborted: bool = False  # by the client
    quotas: dict[str, Quota] = field(default_factory=dict)  # `requests`, `tokens`: set by the gate, where limited
    first_byte: float | None = None
    finished: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def answer(self) -> AssistantMessage | None:
        """The response, whole, or its part until it ended. One that was only forwarded is decoded when it is read."""
        if isinstance(self.response, DeferredAnswer):
            self.response = self.response()
        return self.response

    @answer.setter
    def answer(self, answer: AssistantMessage | None) -> None:
        self.response = answer

    def with_references(self, request: Request) -> Request:
        """The request with the ids of what it continues, which its response repeats."""
        return request if self.references is None else replace(request, extra={**request.extra, **self.references})


class DeferredAnswer(Struct, eq=False, gc=False):
    """An answer that is decoded when it is first needed. `model` is the one that it names.

    Many are kept for later requests: nothing in them refers back to them, so the garbage collector need not visit them.
    """

    decode: Callable[[bytes, int], AssistantMessage]
    body: bytes
    timestamp: int
    model: str | None = None
    decoded: AssistantMessage | None = None

    def __call__(self) -> AssistantMessage:
        if self.decoded is None:
            self.decoded, self.body = self.decode(self.body, self.timestamp), b""
        return self.decoded


class Reservation(Protocol):
    """The reservation of one exchange, until its usage is known."""

    async def settle(self, exchange: Exchange) -> None:
        """Called exactly once, also if the provider failed or the client left; never raises.

        It reads `usage` and `cost`, the sum over all charged attempts. No usage and no response means that nothing was
        used; usage without a cost, that the reservation counts as spent. A reservation that also has
        `settle_soon(exchange)`, which does not wait, gets that call instead.
        """


class Gate(Protocol):
    """Decides before dispatch. It refuses with a typed error (`AuthFailed`, `RateLimited` …) or raises if it cannot
    decide: the gateway fails closed.
    """

    async def identify(self, secret: str | None) -> ClientKey:
        """Returns the key of a request."""

    async def admit(
        self, exchange: Exchange, *, input_tokens: int, output_tokens: int = 0, highest_cost: float | None
    ) -> Reservation:
        """Reserves a request, its tokens and its maximum cost (None: unknown; refused if there is a budget).

        `output_tokens` is the maximum output of the request. It reads the key, `asked_model`, `model` and
        `unpriced` of the exchange, and fills `quotas`.
        """


class Observer(Protocol):
    """Sees each exchange once, when it has ended. A failing observer costs its own record and a line in the log.

    An observer that also has `observe_all(exchanges)` gets what ended together in one call of that instead. One that
    has `note(exchange)`, which waits for nothing, gets each exchange by that alone; where it writes later, `backlog`
    says how many are not written, `flush` waits for them, and `written` does without hurry: the others come after it.
    With `catch_up`, requests wait for that instead of `flush` when the backlog exceeds 1,000. One that has
    `before_end(exchange)` gets it, with its usage, before the client has the end of the response.
    """

    async def observe(self, exchange: Exchange) -> None: ...


@functools.lru_cache(maxsize=1024)
def safe_name(text: str) -> str:
    """Returns a name that a client chose, as it may be kept: truncated, and without anything that looks like a key."""
    return _SCRUBBER(text[:_LONGEST_NAME])


_SCRUBBER = Scrubber(())
