"""What a well-formed stream of events is, as findings."""

from collections.abc import Iterable

from interlingua.values.events import (
    BlockEnd,
    BlockStart,
    Done,
    Error,
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
from interlingua.values.folding import parse_arguments
from interlingua.values.messages import Block, TextBlock, ThinkingBlock, blocks_of

_KINDS: dict[type, str] = {
    **dict.fromkeys((TextStart, TextDelta, TextEnd), "text"),
    **dict.fromkeys((ThinkingStart, ThinkingDelta, ThinkingEnd), "thinking"),
    **dict.fromkeys((ToolCallStart, ToolCallDelta, ToolCallEnd), "tool call"),
    **dict.fromkeys((BlockStart, BlockEnd), "block"),
}
_STARTS = (TextStart, ThinkingStart, ToolCallStart, BlockStart)
_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)


def faults(events: Iterable[StreamEvent]) -> list[str]:
    """What is wrong with these events: one start first, blocks that open, grow and close once, one end."""
    grammar = _Grammar()
    for at, event in enumerate(events):
        grammar.see(at, event)
    if not grammar.ended:
        grammar.faults.append("no terminal event")
    return grammar.faults


class _Grammar:
    def __init__(self) -> None:
        self.faults: list[str] = []
        self.started = False
        self.ended = False
        self.open: dict[int, str] = {}
        self.pieces: dict[int, list[str]] = {}
        self.blocks: list[Block | None] = []

    def see(self, at: int, event: StreamEvent) -> None:
        fault = self._fault(event)
        if fault:
            self.faults.append(f"event {at} ({type(event).__name__}): {fault}")

    def _fault(self, event: StreamEvent) -> str | None:
        if self.ended:
            return "comes after the end"
        if isinstance(event, Start):
            again, self.started = self.started, True
            return "a second start" if again else None
        if not self.started:
            return "comes before the start"
        if isinstance(event, Done | Error):
            return self._end(event)
        if isinstance(event, _STARTS):
            return self._open(event.content_index, _KINDS[type(event)])
        if self.open.get(event.content_index) != _KINDS[type(event)]:
            return f"no {_KINDS[type(event)]} is open at {event.content_index}"
        if isinstance(event, _DELTAS):
            self.pieces[event.content_index].append(event.delta)
            return None if event.delta else "an empty delta"
        return self._close(event)

    def _open(self, index: int, kind: str) -> str | None:
        if index != len(self.blocks):
            return f"opens block {index}, the next is {len(self.blocks)}"
        self.blocks.append(None)
        self.open[index] = kind
        self.pieces[index] = []
        return None

    def _close(self, event: StreamEvent) -> str | None:
        assert isinstance(event, TextEnd | ThinkingEnd | ToolCallEnd | BlockEnd)
        del self.open[event.content_index]
        text = "".join(self.pieces.pop(event.content_index))
        block: Block
        if isinstance(event, ToolCallEnd):
            block = event.tool_call
            amount = parse_arguments(text)[0] == block.arguments
        elif isinstance(event, TextEnd):
            block = event.block or TextBlock(text=event.content)
            amount = text == event.content == block.text
        elif isinstance(event, ThinkingEnd):
            block = event.block or ThinkingBlock(thinking=event.content)
            amount = text == event.content == block.thinking
        else:
            block, amount = event.block, True
        self.blocks[event.content_index] = block
        return None if amount else f"the deltas of block {event.content_index} do not amount to what closes it"

    def _end(self, event: Done | Error) -> str | None:
        self.ended = True
        if self.open:
            return f"blocks {sorted(self.open)} are still open"
        message = event.message if isinstance(event, Done) else event.error
        if message.stop_reason != event.reason:
            return f"reason {event.reason!r}, but the message says {message.stop_reason!r}"
        if blocks_of(message.content) != tuple(self.blocks):
            return "the message holds other blocks than were closed"
        return None
