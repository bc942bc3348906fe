"""A connector that somebody else wrote: its events put in order, its exceptions made errors, its silence watched."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Hashable
from typing import Any

from msgspec.structs import replace

from ..abort import Abort
from ..errors import Aborted, BadWire, InterlinguaError, TransportError
from ..events import (
    BlockEnd,
    BlockStart,
    Done,
    Error,
    Start,
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
from ..folding import CUT_OFF, Recorder
from ..messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall, blocks_of
from .exchange import Batch
from .watching import Timeouts, Watch

_LONGEST_GOODBYE = 1.0  # seconds that a connector may take to end when it is told to


class Foreign:
    """A source of events from any async iterable. It runs in a task of its own, which is cancelled to end it."""

    def __init__(self, events: Any, base: AssistantMessage, id: str, signal: Abort | None, timeouts: Timeouts) -> None:
        self._events = events
        self._id = id
        self._signal = signal
        self._timeouts = timeouts
        self._guard = Guard(base, id)
        self._heard: asyncio.Queue[Any] = asyncio.Queue()
        self._watch: Watch | None = None
        self.failure: InterlinguaError | None = None
        self.losses: Any = ()

    async def batches(self) -> AsyncGenerator[Batch, None]:
        watch = self._watch = Watch(self._signal, self._timeouts)
        pump = asyncio.create_task(self._pump())

        def stop() -> None:
            pump.cancel()
            self._heard.put_nowait(None)  # whether or not the connector heeds it

        watch.reading(stop)
        try:
            while not self._guard.finished:
                heard = await self._heard.get()
                if watch.why is not None:
                    raise watch.why
                self._guard.feed(heard)
                watch.progress()
                if events := self._guard.take():
                    yield events
        except InterlinguaError as failure:
            self.failure = failure
            yield self._guard.fail(str(failure), aborted=isinstance(failure, Aborted))
        finally:
            watch.finish()
            pump.cancel()
            await asyncio.wait([pump], timeout=_LONGEST_GOODBYE)

    def cut(self, why: str) -> Batch:
        if self._watch is not None:
            self._watch.end(Aborted(why))
        return self._guard.fail(why, aborted=True)

    async def _pump(self) -> None:
        try:
            events = await self._events if inspect.isawaitable(self._events) else self._events
            try:
                async for event in events:
                    self._heard.put_nowait(event)
                self._heard.put_nowait(TransportError(CUT_OFF))
            finally:
                close = getattr(events, "aclose", None)
                if close is not None:
                    await close()
        except InterlinguaError as failure:
            self._heard.put_nowait(failure)
        except Exception as error:
            broken = TransportError(f"the connector {self._id} failed: {error!r}")
            broken.__cause__ = error
            self._heard.put_nowait(broken)


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
    """Makes a well-formed stream of whatever events come: a start is added, a block opened, an end filled in.

    What was streamed counts; blocks that only the last message holds are added to it.
    """

    def __init__(self, base: AssistantMessage, id: str) -> None:
        self._record = Recorder(base)
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
                    record.note(**_told(event.partial))
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
                self._end(event.error, event.reason, f"the connector {self._id} failed and did not say why")
            case _:
                raise BadWire(self._id, f"a connector yields stream events, not {type(event).__name__}")

    def _key(self, event: Any) -> Hashable:
        return _KINDS[type(event)], event.content_index

    def _opened(self, event: Any) -> Hashable:
        key = self._key(event)
        if not self._record.has(key):
            self._record.open(key, _EMPTY[_KINDS[type(event)]])
        return key

    def _close(self, event: Any, told: Block | None, plain: Block) -> None:
        key = self._opened(event)
        self._record.close(key, told or (None if self._record.text(key) else plain))

    def _end(self, message: AssistantMessage, reason: Any, otherwise: str | None) -> None:
        if not isinstance(message, AssistantMessage):
            raise BadWire(self._id, f"the last event holds no message but {type(message).__name__}")
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
                **_told(message),
                content=tuple(record.content),
                stop_reason=reason,
                error_message=message.error_message or otherwise,
            )
        )


def _told(message: AssistantMessage) -> dict[str, Any]:
    """What a message says beside its content."""
    said = {name: getattr(message, name) for name in message.__struct_fields__}
    return {
        name: value
        for name, value in said.items()
        if value not in (None, {}) and name not in ("content", "stop_reason", "error_message")
    }
