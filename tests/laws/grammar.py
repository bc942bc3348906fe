"""What a well-formed stream of events is, written down independently of the code that makes them."""

from collections.abc import Sequence
from typing import Any

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
from interlingua.values.folding import fold
from interlingua.values.messages import blocks_of

OPENING = {TextStart: "text", ThinkingStart: "thinking", ToolCallStart: "call", BlockStart: "block"}
ACCUMULATING = {TextDelta: "text", ThinkingDelta: "thinking", ToolCallDelta: "call"}
CLOSING = {TextEnd: "text", ThinkingEnd: "thinking", ToolCallEnd: "call", BlockEnd: "block"}


def faults(events: Sequence[StreamEvent]) -> list[str]:
    """Everything that is wrong with the order of the events; empty when they are well formed."""
    if not events:
        return ["there are no events"]
    found = []
    if not isinstance(events[0], Start):
        found.append("the first event is no start")
    if not isinstance(events[-1], Done | Error):
        found.append("the last event does not end the stream")
    opened: dict[int, str] = {}
    closed: set[int] = set()
    event: Any
    for at, event in enumerate(events):
        kind = type(event)
        if kind is Start and at:
            found.append(f"{at}: another start")
        elif kind in (Done, Error):
            if at < len(events) - 1:
                found.append(f"{at}: events after the end")
            found += [f"{at}: block {index} was never closed" for index in opened.keys() - closed]
        elif kind in OPENING:
            if event.content_index != len(opened):
                found.append(f"{at}: block {event.content_index} opens, expected {len(opened)}")
            opened[event.content_index] = OPENING[kind]
        elif kind in ACCUMULATING or kind in CLOSING:
            word = (ACCUMULATING | CLOSING)[kind]
            # Any block may turn out to be of another kind than it looked: then it ends as one that came whole.
            fits = opened.get(event.content_index) == word or (kind is BlockEnd and event.content_index in opened)
            if not fits or event.content_index in closed:
                found.append(f"{at}: {kind.__name__} for block {event.content_index}, which is no open {word}")
            if kind in CLOSING:
                closed.add(event.content_index)
    message = events[-1].message if isinstance(events[-1], Done) else getattr(events[-1], "error", None)
    if message is not None and not found and fold(events[:-1]).content != blocks_of(message.content):
        found.append(f"the message has {message.content}, its events amount to {fold(events[:-1]).content}")
    return found
