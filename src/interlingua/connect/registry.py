"""The connector registry, by id, provider or api; and adapters for foreign connectors.

A foreign connector is an object or a mapping with `id`, `provider`, `api` and `stream`; `label`, `models` and
`env_vars` are optional. `stream` returns our events, or those of the clawtools documents, as objects or as JSON, in an
async or plain iterable. They are normalized to a well-formed stream, exceptions become errors, and idle timeouts apply.
"""

import asyncio
import inspect
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

from msgspec.structs import replace

from ..values.abort import Abort
from ..values.canonical import build
from ..values.errors import Aborted, BadWire, FormatError, InterlinguaError, TransportError
from ..values.events import (
    BlockEnd,
    BlockStart,
    Done,
    Error,
    Event,
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..values.folding import CUT_OFF, EventRecorder
from ..values.interop import attribute, call_contained, describe, must_propagate, with_arguments
from ..values.messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall, blocks_of
from ..values.request import CallOptions, ModelDescriptor, Request, StreamOptions
from .auth.resolver import resolve_auth
from .connector import Connector
from .stream import AttemptWatch, Batch, Timeouts

_CLOSE_TIMEOUT = 1.0  # seconds that a connector may take to close


class ConnectorRegistry:
    """Connectors by id, in order of registration.

    Several may serve one provider: the latest applies, and when it is removed the previous one does again.
    """

    def __init__(self, connectors: "tuple[Connector, ...] | list[Connector]" = ()) -> None:
        self._connectors: dict[str, Connector] = {}
        self._order: dict[str, int] = {}  # id -> when it was last registered
        self._clock = 0
        self._latest: dict[str, Connector] = {}  # provider -> its connector; filled on lookup
        for connector in connectors:
            self.register(connector)

    def register(self, connector: Connector | Mapping[str, Any] | Any) -> None:
        """Adds a connector: an object or a mapping. One with the same id is replaced in place."""
        connector = as_connector(connector)
        self._clock += 1
        self._connectors[connector.id] = connector
        self._order[connector.id] = self._clock
        self._latest.clear()

    def unregister(self, id: str) -> bool:
        """Removes a connector; returns whether there was one."""
        self._order.pop(id, None)
        self._latest.clear()
        return self._connectors.pop(id, None) is not None

    def clear(self) -> None:
        self._connectors.clear()
        self._order.clear()
        self._latest.clear()

    def get(self, id: str) -> Connector | None:
        return self._connectors.get(id)

    def get_by_provider(self, provider: str) -> Connector | None:
        """Returns the last registered connector for this provider."""
        found = self._latest.get(provider)
        if found is None:
            serving = [one for one in self._connectors.values() if one.provider == provider]
            found = max(serving, key=lambda one: self._order[one.id], default=None)
            if found is not None:
                self._latest[provider] = found
        return found

    def get_by_api(self, api: str) -> list[Connector]:
        """Returns all connectors for this api, the last registered one last."""
        return sorted((one for one in self if one.api == api), key=lambda one: self._order[one.id])

    def find_model(self, id: str) -> list[tuple[Connector, ModelDescriptor]]:
        """Returns every connector whose catalogue has a model with exactly this id."""
        return [(one, model) for one in self for model in models_of(one) if model.id == id]

    def list_providers(self) -> "list[str]":
        return [*dict.fromkeys(one.provider for one in self)]

    def list(self) -> "list[Connector]":
        return [*self._connectors.values()]

    def has(self, id: str) -> bool:
        return id in self._connectors

    @property
    def size(self) -> int:
        return len(self._connectors)

    def __len__(self) -> int:
        return len(self._connectors)

    def __iter__(self) -> Iterator[Connector]:
        return iter([*self._connectors.values()])

    def __contains__(self, id: object) -> bool:
        return id in self._connectors


# --- foreign connectors ---------------------------------------------------------------------------------------------


def as_connector(value: Any) -> Connector:
    """Returns a connector: an object as it is, or built from a mapping. Raises `FormatError` with the missing names."""
    missing = [name for name in ("id", "provider", "api", "stream") if not _has(value, name)]
    if missing:
        raise FormatError(f"{value!r} is not a connector; it lacks {', '.join(missing)}")
    connector: Connector = MappedConnector(value) if isinstance(value, Mapping) else value
    return connector


def _has(value: Any, name: str) -> bool:
    if isinstance(value, Mapping):
        return value.get(name) is not None
    return hasattr(type(value), name) or hasattr(value, name)  # a property may be costly: it is not read here


class MappedConnector:
    """A connector given as a mapping."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.id: str = given["id"]
        self.label: str = given.get("label") or self.id
        self.provider: str = given["provider"]
        self.api: str = given["api"]
        self.models: Sequence[ModelDescriptor] = tuple(map(_described, given.get("models") or ()))
        self.env_vars: Sequence[str] = tuple(attribute(given, "env_vars", ()))
        self.stream = given["stream"]


def models_of(connector: Connector) -> Sequence[ModelDescriptor]:
    """Returns the models that a connector lists; none if it lists none."""
    return [_described(model) for model in getattr(connector, "models", None) or ()]


def listed_model(connector: Connector, id: str) -> ModelDescriptor | None:
    """The model of this id, if the connector lists it."""
    models = map(_described, getattr(connector, "models", None) or ())
    return next((model for model in models if model.id == id), None)


def _described(model: Any) -> ModelDescriptor:
    if isinstance(model, ModelDescriptor):
        return model
    found: ModelDescriptor = build(dict(model) if isinstance(model, Mapping) else model, ModelDescriptor, "models")
    return found


def opened(connector: Connector, request: Request, call: CallOptions) -> Any:
    """What the connector's `stream` returns. Without a key, the one in its environment variables is passed on."""
    # Options of a single wire become options again.
    wire_options = replace(request.options, extra=request.extra) if request.extra else request.options
    options = StreamOptions.of(wire_options, call)
    variables = getattr(connector, "env_vars", None)
    if variables is None:
        variables = tuple(attribute(connector, "env_vars", ()))
    if variables and options.api_key is None:
        found = resolve_auth(connector.provider, variables, env=options.env)
        options = replace(options, api_key=found.api_key if found is not None else None)
    stream = with_arguments(
        connector.stream, ("model", "context", "options"), what=f"stream of the connector {connector.id}"
    )
    return stream(request.model, request.context, options)


class Foreign:
    """A source of events from any async iterable. It runs in its own task, which is cancelled to end it."""

    def __init__(self, events: Any, base: AssistantMessage, id: str, signal: Abort | None, timeouts: Timeouts) -> None:
        self._events = events
        self._id = id
        self._signal = signal
        self._timeouts = timeouts
        self._guard = Guard(base, id)
        self._received: asyncio.Queue[Any] = asyncio.Queue()
        self._watch: AttemptWatch | None = None
        self.failure: InterlinguaError | None = None
        self.losses: Any = ()

    async def batches(self) -> AsyncGenerator[Batch, None]:
        watch = self._watch = AttemptWatch(self._signal, self._timeouts)
        pump = asyncio.create_task(self._pump())

        def stop() -> None:
            pump.cancel()
            self._received.put_nowait(None)  # whether or not the connector heeds it

        watch.reading(stop)
        try:
            while not self._guard.finished:
                received = await self._received.get()
                if watch.why is not None:
                    raise watch.why
                self._guard.feed(received)
                events = self._guard.take()
                watch.pause()
                if events:
                    yield events
                watch.resume()
        except InterlinguaError as failure:
            self.failure = failure
            yield self._guard.fail(str(failure), aborted=isinstance(failure, Aborted))
        finally:
            watch.finish()
            pump.cancel()
            await asyncio.wait([pump], timeout=_CLOSE_TIMEOUT)

    def cut(self, why: str) -> Batch:
        if self._watch is not None:
            self._watch.end(Aborted(why))
        return self._guard.fail(why, aborted=True)

    async def _pump(self) -> None:
        try:
            events = await self._events if inspect.isawaitable(self._events) else self._events
            try:
                async for event in _iterated(events):
                    self._received.put_nowait(event)
                self._received.put_nowait(TransportError(f"{CUT_OFF}: the connector {self._id} gave no done or error"))
            finally:
                close = getattr(events, "aclose", None)
                if close is not None:
                    await close()
        except InterlinguaError as failure:
            self._received.put_nowait(failure)
        except BaseException as error:
            if must_propagate(error):
                raise
            broken = TransportError(f"the connector {self._id} failed: {describe(error)}")
            broken.__cause__ = error
            self._received.put_nowait(broken)


async def _iterated(events: Any) -> AsyncIterator[Any]:
    """The events of an async iterable, or of a plain one, which may block and is read in a thread."""
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield event
        return
    if not isinstance(events, Iterable) or isinstance(events, str | bytes | Mapping):
        raise TypeError(f"stream must return an async iterable of events, not {type(events).__name__}")
    plain, end = iter(events), object()

    def following() -> Any:
        return next(plain, end)

    while (event := await asyncio.to_thread(call_contained, following)) is not end:
        yield event


_KINDS: dict[type, str] = {
    TextStart: "text",
    TextDelta: "text",
    TextEnd: "text",
    ThinkingStart: "thinking",
    ThinkingDelta: "thinking",
    ThinkingEnd: "thinking",
    ToolCallStart: "call",
    ToolCallDelta: "call",
    ToolCallEnd: "call",
}
_EMPTY: dict[str, Block] = {
    "text": TextBlock(text=""),
    "thinking": ThinkingBlock(thinking=""),
    "call": ToolCall(id="", name="", arguments={}),
}


class Guard:
    """Makes a well-formed stream of any events: adds a start, opens blocks, fills in the end.

    Streamed content takes precedence; blocks that only the last message has are added.
    """

    def __init__(self, base: AssistantMessage, id: str) -> None:
        self._record = EventRecorder(base)
        from ..dialects.files.clawtools import EventReader

        self._reader = EventReader(self._record, lambda: f"call_{uuid.uuid4().hex}")
        self._id = id

    @property
    def finished(self) -> bool:
        return self._record.finished

    def take(self) -> Batch:
        return self._record.take()

    def fail(self, why: str, *, aborted: bool) -> Batch:
        """The rest of a stream that ends here; nothing if it has ended."""
        self._record.fail(why, aborted=aborted)
        return self._record.take()

    def feed(self, event: Any) -> None:
        record = self._record
        match event:
            case InterlinguaError():
                raise event
            case Start():
                if event.partial is not None and not record.started:
                    record.note(**_given(event.partial))
                record.begin()
            case TextStart() | ThinkingStart() | ToolCallStart():
                record.open(self._key(event), event.block or _EMPTY[_KINDS[type(event)]])
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                record.delta(self._opened(event), event.delta)
            case TextEnd():
                self._close(event, event.block, TextBlock(text=event.content))
            case ThinkingEnd():
                self._close(event, event.block, ThinkingBlock(thinking=event.content))
            case ToolCallEnd():
                record.close(self._opened(event), event.tool_call)
            case BlockStart():
                record.begin()
            case BlockEnd():
                record.whole(("block", event.content_index), event.block)
            case Done():
                self._end(event.message, event.reason, None)
            case Error():
                self._end(event.error, event.reason, f"the connector {self._id} failed without an error message")
            case Event():
                raise BadWire(self._id, f"a connector yields stream events, not {type(event).__name__}")
            case Mapping() if _is_ours(event):
                self.feed(build(dict(event), StreamEvent))
            case _:
                self._foreign(event)

    def _foreign(self, event: Any) -> None:
        try:
            self._reader.feed(event)
        except BadWire as error:
            raise BadWire(self._id, f"a connector yields stream events; {error.message}", error.path) from None

    def _key(self, event: Any) -> Hashable:
        return _KINDS[type(event)], event.content_index

    def _opened(self, event: Any) -> Hashable:
        key = self._key(event)
        if not self._record.has(key):
            self._record.open(key, _EMPTY[_KINDS[type(event)]])
        return key

    def _close(self, event: Any, given: Block | None, plain: Block) -> None:
        key = self._opened(event)
        self._record.close(key, given or (None if self._record.text(key) else plain))

    def _end(self, message: AssistantMessage, reason: Any, otherwise: str | None) -> None:
        if not isinstance(message, AssistantMessage):
            raise BadWire(self._id, f"the last event must hold a message, not {type(message).__name__}")
        record = self._record
        record.begin()
        whole = blocks_of(message.content)
        for key in record.open_keys():
            record.close(key)
        for at in range(len(record.content), len(whole)):
            record.whole(("last", at), whole[at])
        record.end(
            replace(
                record.base,
                **_given(message),
                content=tuple(record.content),
                stop_reason=reason,
                error_message=message.error_message or otherwise,
            )
        )


def _is_ours(event: Mapping[str, Any]) -> bool:
    """Whether this is the JSON of one of our events: they number blocks, and end with a message."""
    return (
        "contentIndex" in event
        or any(isinstance(event.get(name), Mapping) for name in ("message", "partial"))
        or (event.get("type") == "error" and isinstance(event.get("error"), Mapping) and "role" in event["error"])
    )


def _given(message: AssistantMessage) -> dict[str, Any]:
    """The fields of a message beside its content."""
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return {
        name: value
        for name, value in fields.items()
        if value not in (None, {}) and name not in ("content", "stop_reason", "error_message")
    }
