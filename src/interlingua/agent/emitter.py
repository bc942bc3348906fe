"""Emits agent events in order, and closes open ones when a run fails."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

from ..values.events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from ..values.messages import AgentMessage, AssistantMessage, Message, ToolResultMessage

Emit: TypeAlias = Callable[[AgentEvent], Awaitable[None]]


class EventEmitter:
    """Delivers events in order, one at a time, to every listener."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._order = asyncio.Lock()
        self._in_turn = False
        self._message: MessageStart | MessageUpdate | None = None  # the latest version of a message that has not ended
        self._given = 0  # messages
        self._running: list[ToolExecutionStart] = []
        self._answer: AssistantMessage | None = None
        self._results: list[ToolResultMessage] = []

    async def __call__(self, event: AgentEvent) -> None:
        async with self._order:
            self._follow(event)
            await self._emit(event)

    def resume(self, answer: AssistantMessage) -> None:
        """Marks the current turn as belonging to a response of an earlier run."""
        self._answer = answer

    def _follow(self, event: AgentEvent) -> None:
        match event:
            case TurnStart():
                self._in_turn, self._answer, self._results = True, None, []
            case TurnEnd():
                self._in_turn = False
            case MessageStart() | MessageUpdate():
                self._message = event
            case MessageEnd():
                self._message = None
                self._given += 1
                self._encoded(event.message)
            case ToolExecutionStart():
                self._running.append(event)
            case ToolExecutionEnd():
                self._running = [one for one in self._running if one.tool_call_id != event.tool_call_id]
            case _:
                pass

    def _encoded(self, message: AgentMessage) -> None:
        if isinstance(message, AssistantMessage):
            self._answer = message
        elif isinstance(message, ToolResultMessage):
            self._results.append(message)

    def tail(
        self, kept: Sequence[AgentMessage], broken: Callable[[AssistantMessage | None], AssistantMessage]
    ) -> Iterator[AgentEvent]:
        """Returns the events that close everything that is open.

        `kept` are the messages stored in this run, emitted or not; `broken` builds the response of a turn that has
        none, from its partial content.
        """
        for call in self._running:
            result = {"content": [{"type": "text", "text": "The run failed before this call ended."}]}
            yield ToolExecutionEnd(call.tool_call_id, call.tool_name, result, True)
        opened = self._message.message if self._message is not None else None
        for message in kept[self._given :]:
            yield from self._whole(message, opened)
            opened = None
        if not self._in_turn:
            return
        if self._answer is None:
            yield from self._whole(broken(opened if isinstance(opened, AssistantMessage) else None), opened)
        yield TurnEnd(self._answer, tuple(self._results))  # type: ignore[arg-type]

    def _whole(self, message: AgentMessage, opened: Message | None) -> Iterator[AgentEvent]:
        if opened is None:
            yield MessageStart(message)  # type: ignore[arg-type]
        self._encoded(message)
        yield MessageEnd(message)  # type: ignore[arg-type]
