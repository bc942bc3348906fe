"""Agent events as renderables: finished parts, which are printed once, and the part in progress."""

import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from rich.console import RenderableType
from rich.text import Text

from ..values.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    StreamEvent,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from ..values.messages import AssistantMessage, TextBlock, ThinkingBlock, UserMessage, blocks_of
from .rendering import (
    LIVE_LINES,
    Blocks,
    TextPiece,
    duration,
    finished_call,
    folded,
    headline,
    last_lines,
    markdown,
    one_line,
    result_text,
    sent_by_user,
    unfolded,
)

_SHOWN_THOUGHTS = 600  # characters of unfolded thinking in progress


class _Running(Struct):
    name: str
    arguments: Any
    since: float
    output: str = ""


class Display:
    """Handles events in order. `diffs` are the changes of calls by id, for results that do not contain them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.open_thoughts = False
        self.last_thought = ""
        self.diffs: dict[str, str] = {}
        self._clock = clock
        self._blocks = Blocks()
        self._thought: list[str] | None = None
        self._since = 0.0  # start of the current thought or wait
        self._streamed = False
        self._preparing: str | None = None
        self._waiting = False
        self._broken: str | None = None
        self._shown: list[str] = []  # the printed part of the current response
        self._repeated: list[str] = []  # the printed part of the previous, truncated response
        # The last piece of a text: a retry rewrites it if the response was truncated.
        self._pending: list[TextPiece] = []
        self._running: dict[str, _Running] = {}
        self._announced: set[str] = set()
        self._residual: set[str] = set()
        self._before: str | None = None  # the kind of the last part

    def approval(self, call_id: str, part: RenderableType) -> list[RenderableType]:
        """The approval request of a call; until `answered`, it is not shown as running."""
        self._announced.add(call_id)
        self._residual.add(call_id)
        return self._spaced("call", part)

    def answered(self, call_id: str) -> None:
        self._residual.discard(call_id)
        if (running := self._running.get(call_id)) is not None:
            running.since = self._clock()

    def handle(self, event: AgentEvent) -> list[RenderableType]:
        """The parts that this event completes."""
        match event:
            case AgentStart():
                self._before = self._broken = None
            case TurnStart():
                self._wait()
                return self._retry()
            case MessageStart():
                self._streamed = False
                if isinstance(event.message, UserMessage):
                    return self._spaced("user", sent_by_user(event.message.content))
            case MessageUpdate():
                return self._stream(event.assistant_message_event)
            case MessageEnd():
                return self._end(event.message) if isinstance(event.message, AssistantMessage) else []
            case ToolExecutionStart():
                self._waiting = False
                self._running[event.tool_call_id] = _Running(event.tool_name, event.args, self._clock())
            case ToolExecutionUpdate():
                if (running := self._running.get(event.tool_call_id)) is not None:
                    running.output = result_text(event.partial_result)
            case ToolExecutionEnd():
                return self._ended(event)
            case AgentEnd():
                left = self._take_pending()
                self._repeated, self._shown = [], []
                self._waiting = False
                self._running.clear()
                self._announced.clear()
                self._residual.clear()
                self.diffs.clear()
                return left
            case _:
                pass
        return []

    def live(self) -> list[RenderableType]:
        """The part in progress."""
        parts: list[tuple[str, RenderableType]] = []
        if self._thought is not None:
            parts.append(("thought", self._thinking()))
        tail = self._blocks.tail
        pieces = [*([tail] if tail is not None else []), *self._pending]
        parts += [("text", markdown(piece.markdown)) for piece in pieces if piece.text.strip()]
        if self._preparing is not None:
            parts.append(("call", Text(f"● {self._preparing} …", "dim cyan")))
        parts += [("call", self._call(running)) for id, running in self._running.items() if id not in self._residual]
        if not parts and self._waiting:
            waited = duration(self._clock() - self._since)
            parts.append(("wait", Text(f"· waiting for the model, {waited}", "dim")))
        # Separated from the text above exactly as when it is finished, so that nothing jumps.
        shown: list[RenderableType] = []
        before = self._before
        for kind, part in parts:
            joined = kind == "text" and pieces[0].continues and not shown
            if not joined and before is not None and (kind != before or kind == "text"):
                shown.append(Text(""))
            shown.append(part)
            before = kind
        return shown

    # --- an answer ---------------------------------------------------------------------------------------------------

    def _stream(self, event: StreamEvent) -> list[RenderableType]:
        self._streamed, self._waiting = True, False
        return [*self._take_pending(), *self._block(event)]

    def _block(self, event: StreamEvent) -> list[RenderableType]:
        match event:
            case ThinkingStart():
                self._thought, self._since = [], self._clock()
            case ThinkingDelta():
                if self._thought is None:
                    self._thought, self._since = [], self._clock()
                self._thought.append(event.delta)
            case ThinkingEnd():
                return self._finished_thinking(event.content)
            case TextDelta():
                return self._written(self._blocks.feed(event.delta))
            case TextEnd():
                self._pending = self._blocks.close()
            case ToolCallStart():
                self._preparing = one_line(event.block.name if event.block is not None else "a call", 60)
            case _:
                pass
        return []

    def _finished_thinking(self, text: str) -> list[RenderableType]:
        seconds = self._clock() - self._since if self._thought is not None else None
        self._thought = None
        if not text.strip():
            return []
        self.last_thought = text
        return self._spaced("thought", unfolded(text) if self.open_thoughts else folded(seconds, text))

    def _written(self, pieces: list[TextPiece]) -> list[RenderableType]:
        """Yields the pieces of a text, without those that a retry repeats."""
        parts: list[RenderableType] = []
        for piece in pieces:
            if not piece.text.strip():
                continue
            self._shown.append(piece.markdown)
            if self._repeated and self._repeated.pop(0) == piece.markdown:
                continue
            self._repeated.clear()
            parts += self._spaced("text", markdown(piece.markdown), joined=piece.continues)
        return parts

    def _take_pending(self) -> list[RenderableType]:
        pending, self._pending = self._pending, []
        return self._written(pending)

    def _end(self, message: AssistantMessage) -> list[RenderableType]:
        parts: list[RenderableType] = []
        if self._thought is not None:  # truncated
            parts += self._finished_thinking("".join(self._thought))
        if not self._streamed:
            parts += self._whole(message)
        self._preparing = None
        self._broken = message.error_message if message.stop_reason == "error" else None
        self._pending += self._blocks.close()
        return parts if self._broken is not None else [*parts, *self._take_pending()]

    def _whole(self, message: AssistantMessage) -> list[RenderableType]:
        """An answer without deltas."""
        parts: list[RenderableType] = []
        for block in blocks_of(message.content):
            if isinstance(block, ThinkingBlock):
                parts += self._finished_thinking(block.thinking)
            elif isinstance(block, TextBlock):
                parts += self._written([*self._blocks.feed(block.text), *self._blocks.close()])
        return parts

    def _retry(self) -> list[RenderableType]:
        broken, self._broken = self._broken, None
        self._pending = []
        self._repeated, self._shown = (self._shown if broken is not None else []), []
        if broken is None:
            return []
        return self._spaced("note", Text(f"the answer was cut off ({one_line(broken)}); retrying", "yellow"))

    def _wait(self) -> None:
        self._waiting, self._since = True, self._clock()

    def _thinking(self) -> Text:
        text = "".join((self._thought or [])[-_SHOWN_THOUGHTS:])[-_SHOWN_THOUGHTS:]
        if self.open_thoughts and text.strip():
            return unfolded(text)
        return folded(self._clock() - self._since, "", running=True)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call(self, running: _Running) -> Text:
        shown = headline(running.name, running.arguments)
        shown.append(f"  {duration(self._clock() - running.since)}", "dim")
        if running.output.strip():
            shown.append("\n")
            shown.append_text(last_lines(running.output, LIVE_LINES))
        return shown

    def _ended(self, event: ToolExecutionEnd) -> list[RenderableType]:
        running = self._running.pop(event.tool_call_id, None)
        since = running.since if running is not None else self._clock()
        part = finished_call(
            event.tool_name,
            running.arguments if running is not None else {},
            event.result,
            is_error=event.is_error,
            diff=self.diffs.get(event.tool_call_id),
            seconds=self._clock() - since,
            announced=event.tool_call_id in self._announced,
        )
        return self._spaced("call", part)

    def _spaced(self, kind: str, part: RenderableType, *, joined: bool = False) -> list[RenderableType]:
        """Adds a blank line before a part, if the previous part is of another kind or a paragraph."""
        apart = not joined and self._before is not None and (kind != self._before or kind == "text")
        self._before = kind
        return [Text(""), part] if apart else [part]
