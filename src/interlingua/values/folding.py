"""Folds events into a message and back, and the recorder that every stream decoder writes through.

The recorder enforces the event grammar, whatever the upstream sends: one start, blocks that open before their deltas
and close once, one terminal event and nothing after it. The work per delta does not grow with the message.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from . import jsontext
from .errors import FormatError
from .events import (
    BlockEnd,
    BlockStart,
    Done,
    Error,
    Start,
    StreamEvent,
    StreamPart,
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
from .messages import AssistantMessage, Block, StopReason, TextBlock, ThinkingBlock, ToolCall, Usage, blocks_of
from .partials import PartialLog, extended, snapshot

CUT_OFF = "the stream ended before the response was complete"

_DELTAS: dict[type, type[TextDelta] | type[ThinkingDelta] | type[ToolCallDelta]] = {
    TextBlock: TextDelta,
    ThinkingBlock: ThinkingDelta,
    ToolCall: ToolCallDelta,
}
_DELTA_EVENTS = (TextDelta, ThinkingDelta, ToolCallDelta)
_EMPTY_TEXT = TextBlock(text="")
_EMPTY_THINKING = ThinkingBlock(thinking="")


def fold(events: Iterable[StreamEvent]) -> AssistantMessage:
    """Returns the message that the events describe.

    That is the terminal event's message if there is one; otherwise the content so far, as an error.
    """
    log = PartialLog()
    if not isinstance(events, Iterable):
        raise FormatError(f"events must be a list of stream events, not {type(events).__name__}", "events")
    for event in events:
        if isinstance(event, _DELTA_EVENTS):
            log += (event.content_index, event.delta)
        elif isinstance(event, Done):
            return event.message
        elif isinstance(event, Error):
            return event.error
        else:
            log.extend(_entries(event))
    try:
        so_far = snapshot(log, len(log))
    except KeyError as index:
        raise FormatError(f"a delta of block {index}, which never started; pass the events from the start on") from None
    return replace(so_far, stop_reason="error", error_message=CUT_OFF)


def unfold(message: AssistantMessage, *, size: int | None = None) -> Iterator[StreamEvent]:
    """Yields the stream events of `message`, with deltas of at most `size` characters."""
    recorder = EventRecorder(
        replace(message, content=(), usage=_at_the_start(message.usage), stop_reason=None, stop_detail=None)
    )
    for key, block in enumerate(blocks_of(message.content)):
        recorder.whole(key, block, size=size)
        yield from recorder.take()
    recorder.end(message)
    yield from recorder.take()


def _at_the_start(usage: Usage | None) -> Usage | None:
    """The usage that a provider reports before the response begins."""
    if usage is None:
        return None
    read = usage.input + usage.cache_read + usage.cache_write
    return replace(usage, output=0, total_tokens=read, reasoning=None, cost=None)


def parse_arguments(text: str, place: str | None = None) -> tuple[dict[str, Any], str | None, str | None]:
    """Parses argument text to `(arguments, arguments_text, parse_error)`, the fields of a ToolCall.

    Blank text means no arguments. The text is kept only if it differs from compact JSON. A caller that does not keep
    it names the `place` of the arguments, for `jsontext.Repairs`.
    """
    value, error = _read_arguments(text, place)
    return value, (None if error is None and jsontext.is_compact(text, value) else text), error


def _read_arguments(text: str, place: str | None = None) -> tuple[dict[str, Any], str | None]:
    """Returns the arguments (empty if the text is blank or invalid) and the error of an invalid text."""
    if not text.strip():
        return {}, None
    try:
        value = jsontext.read(text, place)
    except FormatError as error:
        return {}, error.message
    return (value, None) if isinstance(value, dict) else ({}, "the arguments are not a JSON object")


def arguments_text(call: ToolCall) -> str:
    """Returns a call's arguments as text: the wire's own spelling if it is still equal, else compact JSON."""
    if call.arguments_text is not None and jsontext.same(_read_arguments(call.arguments_text)[0], call.arguments):
        return call.arguments_text
    return jsontext.compact(call.arguments)


class _Slot:
    __slots__ = ("block", "closed", "delta", "index", "pieces")

    def __init__(self, index: int, block: Block) -> None:
        self.index = index
        self.block = block
        self.delta = _DELTAS.get(type(block))
        self.pieces: list[str] = []
        self.closed = False


class EventRecorder:
    """Records one message's events and its log. Keys identify blocks in the wire's own terms (an index, an item id)."""

    __slots__ = ("_at", "_slots", "base", "content", "finished", "log", "out", "restore", "scrub", "started")

    def __init__(self, base: AssistantMessage) -> None:
        self.base = base
        self.log = PartialLog([base])
        self.out: list[StreamEvent] = []
        self.content: list[Block] = []
        self.started = False
        self.finished = False
        self.restore: Callable[[Block], Block] | None = None  # restores the conversation's form; see `adapt`
        self.scrub: Callable[[AssistantMessage], AssistantMessage] | None = None  # filters out what must not be shown
        self._slots: dict[Hashable, _Slot] = {}
        self._at = -1

    def take(self) -> list[StreamEvent]:
        """Returns the events since the last call."""
        out, self.out = self.out, []
        return out

    def begin(self) -> None:
        """Emits the start event, once."""
        if not self.started:
            self.started = True
            self.out.append(Start(self.base))

    def note(self, **fields: Any) -> None:
        """Sets fields of the message beside its content."""
        base = replace(self.base, **fields)
        self.base = base if self.scrub is None else self.scrub(base)
        self.log.append(self.base)

    def is_open(self, key: Hashable) -> bool:
        slot = self._slots.get(key)
        return slot is not None and not slot.closed

    def has(self, key: Hashable) -> bool:
        """Whether a block with this key was ever opened."""
        return key in self._slots

    def open_keys(self) -> list[Hashable]:
        return [key for key, slot in self._slots.items() if not slot.closed]

    def block(self, key: Hashable) -> Block:
        """Returns the block as opened, amended or closed; without the deltas of an open block."""
        return self._slots[key].block

    def text(self, key: Hashable) -> str:
        """Returns the joined deltas of a block so far: call it once, at the end."""
        return "".join(self._slots[key].pieces)

    def open(self, key: Hashable, block: Block) -> None:
        """Opens a block; text inside it counts as its first delta.

        An open block with the same key is closed first. A block that is delivered whole appears in no snapshot before
        its end.
        """
        self.begin()
        if self.is_open(key):
            self.close(key)
        block, first = emptied(self.restore(block) if self.restore is not None else block)
        slot = _Slot(len(self.content), block)
        self._slots[key] = slot
        self.content.append(block)
        if slot.delta is not None:
            self.log.append((slot.index, block, True))
            self._at = slot.index
        self._emit(_start_event(slot.index, block))
        if first:
            self.delta(key, first)

    def delta(self, key: Hashable, text: str) -> None:
        """Appends a delta to an open block. Deltas for a closed block, and empty ones, are ignored."""
        slot = self._slots[key]
        if not text or slot.closed or slot.delta is None:
            return
        if type(text) is not str:
            raise TypeError(f"a delta must be text, not {type(text).__name__}")
        slot.pieces.append(text)
        log = self.log
        if slot.index != self._at:
            self._at = slot.index
            log.append(slot.index)
        log.append(text)
        event = slot.delta(slot.index, text)
        place = event.__dict__
        place["_log"] = log
        place["_at"] = len(log)
        self.out.append(event)

    def close(self, key: Hashable, block: Block | None = None) -> None:
        """Closes a block once: with the finished `block`, or with its accumulated deltas."""
        slot = self._slots[key]
        if slot.closed:
            return
        if block is None:
            block = _finished(slot.block, "".join(slot.pieces))
        elif not slot.pieces:
            self.delta(key, emptied(block)[1])  # sent at the start or end, without a delta
        if self.restore is not None:
            block = self.restore(block)
        slot.closed = True
        slot.block = block
        self.content[slot.index] = block
        self.log.append((slot.index, block, False))
        # A block that turned out to be of another type than the one it was opened as ends like one delivered whole.
        alike = _DELTAS.get(type(block)) is slot.delta
        self._emit(_end_event(slot.index, block) if alike else BlockEnd(slot.index, block))

    def whole(self, key: Hashable, block: Block, *, size: int | None = None) -> None:
        """Emits a complete block: its start, its text as one delta (or several of `size`), its end."""
        empty, text = emptied(block)
        self.open(key, empty)
        for at in range(0, len(text), size or len(text) or 1):
            self.delta(key, text[at : at + size] if size else text)
        self.close(key, block)

    def finish(self, reason: StopReason | None, detail: str | None = None, error_message: str | None = None) -> None:
        """Emits the terminal event; later calls do nothing. `reason` None means an unknown stop reason."""
        if self.finished:
            return
        for key in self.open_keys():
            self.close(key)
        content = tuple(self.content)
        settled = settle(reason, content)
        if settled == "error" and error_message is None:
            error_message = f"the provider stopped: {detail or 'no reason given'}"
        self.end(
            replace(self.base, content=content, stop_reason=settled, stop_detail=detail, error_message=error_message)
        )

    def fail(self, error_message: str, *, aborted: bool = False, detail: str | None = None) -> None:
        """Emits the terminal event of a stream that failed; the content so far is kept."""
        self.finish("aborted" if aborted else "error", detail, error_message)

    def end(self, message: AssistantMessage) -> None:
        """Emits the terminal event for a complete message."""
        if self.finished:
            return
        self.begin()
        self.finished = True
        if self.restore is not None:
            message = replace(message, content=tuple(map(self.restore, blocks_of(message.content))))
        if self.scrub is not None:
            message = self.scrub(message)
        reason = message.stop_reason or "stop"
        if reason == "error" or reason == "aborted":
            self.out.append(Error(reason, message))
        else:
            self.out.append(Done(reason, message))

    def _emit(self, event: StreamPart) -> None:
        place = event.__dict__
        place["_log"] = self.log
        place["_at"] = len(self.log)
        self.out.append(event)  # type: ignore[arg-type]


def settle(reason: StopReason | None, content: tuple[Block, ...]) -> StopReason:
    """Returns the stop reason that the content supports.

    Any complete call means toolUse, unless the response was truncated, failed or aborted. An unknown reason (None) is a
    stop if there is usable content, else an error.
    """
    if reason in ("length", "error", "aborted"):
        return reason
    if ToolCall in map(type, content):
        return "toolUse"
    if reason is None and not content:
        return "error"
    return "stop"


def emptied(block: Block) -> tuple[Block, str]:
    """Returns a block as it opens, and the text of its deltas."""
    if isinstance(block, TextBlock):
        return replace(block, text=""), block.text
    if isinstance(block, ThinkingBlock):
        return replace(block, thinking=""), block.thinking
    if isinstance(block, ToolCall):
        empty = replace(block, arguments={}, arguments_text=None, parse_error=None)
        spelled = arguments_text(block) if block.arguments or block.arguments_text else ""
        return empty, spelled
    return block, ""


def _finished(block: Block, text: str) -> Block:
    if isinstance(block, ToolCall):
        arguments, spelled, error = parse_arguments(text)
        return replace(block, arguments=arguments, arguments_text=spelled or None, parse_error=error)
    return extended(block, text)


def is_bare(block: Block) -> bool:
    """Whether a block has only its text."""
    if isinstance(block, TextBlock):
        return block == TextBlock(text=block.text)
    return isinstance(block, ThinkingBlock) and block == ThinkingBlock(thinking=block.thinking)


def _start_event(index: int, block: Block) -> StreamPart:
    if isinstance(block, TextBlock):
        return TextStart(index, None if is_bare(block) else block)
    if isinstance(block, ThinkingBlock):
        return ThinkingStart(index, None if is_bare(block) else block)
    if isinstance(block, ToolCall):
        return ToolCallStart(index, block)
    return BlockStart(index)


def _end_event(index: int, block: Block) -> StreamPart:
    if isinstance(block, TextBlock):
        return TextEnd(index, block.text, None if is_bare(block) else block)
    if isinstance(block, ThinkingBlock):
        return ThinkingEnd(index, block.thinking, None if is_bare(block) else block)
    if isinstance(block, ToolCall):
        return ToolCallEnd(index, block)
    return BlockEnd(index, block)


def _entries(event: StreamEvent) -> list[Any]:
    """Returns the log entries of an event: the inverse of how the recorder creates events."""
    match event:
        case Start():
            return [event.partial] if event.partial else []
        case TextStart():
            return [(event.content_index, event.block or _EMPTY_TEXT, True)]
        case ThinkingStart():
            return [(event.content_index, event.block or _EMPTY_THINKING, True)]
        case ToolCallStart():
            return [(event.content_index, event.block or ToolCall(id="", name="", arguments={}), True)]
        case ToolCallEnd():
            return [(event.content_index, event.tool_call, False)]
        case TextEnd():
            return [(event.content_index, event.block or TextBlock(text=event.content), False)]
        case ThinkingEnd():
            return [(event.content_index, event.block or ThinkingBlock(thinking=event.content), False)]
        case BlockEnd():
            return [(event.content_index, event.block, False)]
        case StreamPart():
            return []
        case _:
            raise FormatError(f"a stream event is expected, not {type(event).__name__}", "events")
