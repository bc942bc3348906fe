"""What a well-formed row of agent events is, what a paired history is, and whether every wire can say it."""

from collections import Counter
from collections.abc import Iterable, Sequence

import interlingua as il
from interlingua.dialects import WIRES
from interlingua.values.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from interlingua.values.messages import AgentMessage

FAILED = ("error", "aborted")


class _Turn:
    """One turn as it is told: input, the answer, its calls and their results."""

    def __init__(self, resumed: bool) -> None:
        self.resumed = resumed
        self.open: AgentMessage | None = None
        self.answer: il.AssistantMessage | None = None
        self.running: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.results: list[il.ToolResultMessage] = []

    def take(self, event: AgentEvent) -> None:
        match event:
            case MessageStart():
                assert self.open is None, "a message starts while another is open"
                self.open = event.message
            case MessageUpdate():
                assert isinstance(self.open, il.AssistantMessage), "only an open answer is updated"
            case MessageEnd():
                assert self.open is not None, "a message ends that was not started"
                assert type(self.open) is type(event.message)
                self.open = None
                self.message_ended(event.message)
            case ToolExecutionStart():
                assert self.answer is not None or self.resumed, "a call starts before its answer ended"
                assert self.answer is None or self.answer.stop_reason not in FAILED, "a failed answer calls nothing"
                self.running[event.tool_call_id] += 1
            case ToolExecutionUpdate():
                assert self.running[event.tool_call_id], "an update of a call that does not run"
            case ToolExecutionEnd():
                assert self.running[event.tool_call_id], "the end of a call that does not run"
                self.running[event.tool_call_id] -= 1
                self.ended[event.tool_call_id] += 1
            case _:
                raise AssertionError(f"{event} inside a turn")

    def message_ended(self, message: AgentMessage) -> None:
        if isinstance(message, il.ToolResultMessage):
            assert self.answer is not None or self.resumed, "a result before its answer"
            if not self.resumed:
                assert self.ended[message.tool_call_id], "a result before its call ended"
            self.results.append(message)
        elif isinstance(message, il.AssistantMessage):
            assert self.answer is None, "two answers in one turn"
            self.answer = message
        else:
            assert self.answer is None, "input after the answer"
            assert not self.results, "input among the results"

    def end(self, event: TurnEnd, broken: bool) -> None:
        assert self.open is None, "a turn ends with an open message"
        assert not +self.running, "a turn ends while a call runs"
        assert tuple(self.results) == event.tool_results
        assert isinstance(event.message, il.AssistantMessage)
        if not self.resumed:
            assert self.answer == event.message, "a turn ends with the answer that was told in it"
        wanted = [call.id for call in event.message.tool_calls if event.message.stop_reason not in FAILED]
        given = [result.tool_call_id for result in self.results]
        if not broken:
            assert given == (wanted[-len(given) :] if self.resumed and given else wanted), "results in call order"


def check_events(events: Sequence[AgentEvent], *, resumed: bool = False, broken: bool = False) -> None:
    """Raises AssertionError unless this is the row of events of one run.

    `resumed`: the first turn may be that of an answer from before; `broken`: the run broke where nothing may break, so
    calls may lack results.
    """
    assert isinstance(events[0], AgentStart), "the first event is agent_start"
    assert isinstance(events[-1], AgentEnd), "the last event is agent_end"
    turn: _Turn | None = None
    turns = 0
    for event in events[1:-1]:
        if isinstance(event, TurnStart):
            assert turn is None, "a turn starts inside another"
            turn = _Turn(resumed and turns == 0)
            turns += 1
        elif isinstance(event, TurnEnd):
            assert turn is not None, "a turn ends that was not started"
            turn.end(event, broken)
            turn = None
        else:
            assert turn is not None, f"{event} outside a turn"
            turn.take(event)
    assert turn is None, "the last turn did not end"
    assert turns, "a run has a turn"
    new = [event.message for event in events if isinstance(event, MessageEnd)]
    assert tuple(new) == events[-1].messages, "agent_end has all messages that were told, and no others"


def check_pairing(messages: Iterable[AgentMessage]) -> None:
    """Raises AssertionError unless every call has one result, right behind its answer and in call order."""
    wanted: list[str] = []
    for message in messages:
        if isinstance(message, il.ToolResultMessage):
            assert wanted and wanted[0] == message.tool_call_id, f"a stray result: {message.tool_call_id}"
            wanted.pop(0)
            continue
        assert not wanted, f"calls without results: {wanted}"
        if isinstance(message, il.AssistantMessage) and message.stop_reason not in FAILED:
            wanted = [call.id for call in message.tool_calls]
    assert not wanted, f"calls without results: {wanted}"


def check_wires(messages: Iterable[AgentMessage], tools: Sequence[il.ToolSpec] = ()) -> None:
    """Raises AssertionError unless every wire can say the history, after `adapt`."""
    from interlingua.agent.history import for_models

    context = il.Context(messages=tuple(for_models(messages)), tools=tuple(tools) or None)
    for name in WIRES:
        request = il.Request(model=il.ModelDescriptor(id="m", api=name), context=context)
        adapted = il.adapt(request, name).request
        assert [] == [found for found in il.check(adapted, target=name) if found.severity == "error"], name
        assert il.dialect(name).encode_request(adapted).body, name
