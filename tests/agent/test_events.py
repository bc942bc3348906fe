"""The order of events, the state while a run goes on, and who hears what when."""

import asyncio
import contextlib
from typing import Any

import pytest

import interlingua as il
from agent.grammar import check_events, check_pairing
from agent.making import (
    agent_of,
    call,
    calling,
    events_of,
    labels_of,
    messages_of,
    noted,
    roles,
    text_result,
    texts,
    tool_of,
)
from interlingua.agent import Agent
from interlingua.connect.debug import Step
from interlingua.tools.tool import ToolResult
from interlingua.values.events import (
    AgentEnd,
    AgentEvent,
    Done,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)


async def test_a_plain_prompt_is_one_turn() -> None:
    """The turn begins before the prompt; the answer is told piece by piece."""
    agent = agent_of(Step(text=("Hel", "lo")))
    events = await events_of(agent, "hi")
    assert [
        "agent_start",
        "turn_start",
        *messages_of("user", "assistant"),
        "turn_end",
        "agent_end",
    ] == labels_of(events)
    assert ["Hel", "lo"] == [
        event.assistant_message_event.delta
        for event in events
        if isinstance(event, MessageUpdate) and isinstance(event.assistant_message_event, TextDelta)
    ]
    check_events(events)
    assert ["hi", "Hello"] == texts(agent.messages)


async def test_an_update_carries_the_message_so_far() -> None:
    """`message` of an update is what had come by then, not what came later."""
    agent = agent_of(Step(text=("a", "b", "c")))
    seen = [
        il.values.messages.text_of(event.message.content)
        for event in await events_of(agent)
        if isinstance(event, MessageUpdate) and isinstance(event.assistant_message_event, TextDelta)
    ]
    assert ["a", "ab", "abc"] == seen


async def test_calls_are_emitted_between_the_answer_and_the_end_of_its_turn() -> None:
    """Start, end, result message; then the turn ends and the next begins."""
    note, _ = noted()
    agent = agent_of(calling(call("note", "a", n=1)), "done", tools=[note])
    events = await events_of(agent)
    assert [
        "agent_start",
        "turn_start",
        *messages_of("user", "assistant"),
        "tool_execution_start a",
        "tool_execution_end a",
        *messages_of("toolResult"),
        "turn_end",
        "turn_start",
        *messages_of("assistant"),
        "turn_end",
        "agent_end",
    ] == labels_of(events)
    check_events(events)
    start = next(event for event in events if isinstance(event, ToolExecutionStart))
    end = next(event for event in events if isinstance(event, ToolExecutionEnd))
    assert {"n": 1} == start.args
    assert ([{"type": "text", "text": "noted"}], False) == (end.result["content"], end.is_error)


async def test_agent_end_has_the_messages_of_this_run_alone() -> None:
    """Prompts, injected input, answers and results; not the history from before."""
    agent = agent_of("one", "two")
    await agent.prompt("first")
    events = await events_of(agent, "second")
    end = events[-1]
    assert isinstance(end, AgentEnd)
    assert ["second", "two"] == texts(end.messages)
    assert "done" == end.reason


async def test_injected_input_opens_the_next_turn() -> None:
    """A steering message is told inside the new turn, before the answer to it."""
    note, _ = noted()
    agent = agent_of(calling(call("note", "a")), "done", tools=[note])

    def steer(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart):
            agent.steer("and another thing")

    agent.subscribe(steer)
    events = await events_of(agent)
    assert ["turn_end", "turn_start", *messages_of("user", "assistant")] == labels_of(events)[-8:-2]
    check_events(events)
    check_pairing(agent.messages)


async def test_an_error_ends_the_run_in_order() -> None:
    """The failed answer ends, its turn ends, the run ends; nothing else happens."""
    agent = agent_of(Step(text="It began", error="no", status=400))
    events = await events_of(agent)
    assert [*messages_of("user", "assistant"), "turn_end", "agent_end"] == labels_of(events)[2:]
    check_events(events)
    last = agent.messages[-1]
    assert isinstance(last, il.AssistantMessage)
    assert ("error", "It began") == (last.stop_reason, il.values.messages.text_of(last.content))
    assert agent.state.error is not None


async def test_calls_of_a_failed_answer_are_not_run_and_queues_stay_full() -> None:
    """Whatever a failed answer asked for, nothing of it happens."""
    note, seen = noted()
    agent = agent_of(calling(call("note", "a"), error="no", status=400), tools=[note])
    agent.follow_up("later")
    result = await agent.prompt("go")
    assert ("error", []) == (result.reason, seen)
    assert ["later"] == texts(agent.take_queued())


async def test_continuing_tells_nothing_of_the_history() -> None:
    """A history that ends with a user's message is answered without telling that message again."""
    agent = agent_of("answer", messages=[il.UserMessage(content="asked before")])
    events = await events_of(agent, None)
    assert ["agent_start", "turn_start", *messages_of("assistant"), "turn_end", "agent_end"] == labels_of(events)
    check_events(events)


async def test_continuing_answers_results_and_messages_of_an_applications_own() -> None:
    """After results or a custom message the model is asked; what it reads of the latter is the application's affair."""
    before = [
        il.UserMessage(content="go"),
        il.AssistantMessage(content=(il.ToolCall(id="a", name="x", arguments={}),), stop_reason="toolUse"),
        il.ToolResultMessage(tool_call_id="a", tool_name="x", content="r", is_error=False),
    ]
    assert "done" == (await agent_of("-", "after the result", messages=before).continue_()).reason
    custom = [*before[:1], il.CustomMessage("custom", {"content": "note"})]
    assert "done" == (await agent_of("after the note", messages=custom).continue_()).reason


async def test_there_must_be_something_to_continue() -> None:
    """An empty history, or a finished answer with nothing queued, cannot be continued."""
    agent = agent_of("done")
    with pytest.raises(il.InterlinguaError, match="history is empty"):
        await agent.continue_()
    await agent.prompt("go")
    with pytest.raises(il.InterlinguaError, match="last response is finished"):
        await agent.continue_()
    assert not agent.running


class Silent:
    """A client whose stream has no `start` event."""

    def stream(self, model: Any, context: Any, **options: Any) -> "Silent":
        self.message = il.AssistantMessage(content=(il.TextBlock(text="at once"),), stop_reason="stop")
        self.failure = None
        return self

    async def __aiter__(self) -> Any:
        yield Done("stop", self.message)


async def test_an_answer_without_a_start_is_started_just_before_its_end() -> None:
    """However little a stream says, the message starts and ends."""
    events = await events_of(Agent("debug/x", client=Silent()))
    check_events(events)
    starts = [event.message for event in events if isinstance(event, MessageStart)]
    assert ["go", "at once"] == texts(starts)


# --- the state --------------------------------------------------------------------------------------------------------


async def test_the_state_follows_the_run() -> None:
    """Streaming until the end was heard; the message under way; the calls under way."""
    note, _ = noted()
    agent = agent_of(calling(call("note", "a"), text=("wo", "rds")), "done", tools=[note])
    seen: list[Any] = []

    def look(event: AgentEvent) -> None:
        state = agent.state
        match event:
            case MessageUpdate(assistant_message_event=TextDelta()):
                seen.append(il.values.messages.text_of(state.stream_message.content))  # type: ignore[union-attr]
            case MessageEnd(message=il.AssistantMessage()):
                seen.append((state.stream_message, roles(agent.messages)[-1]))
            case ToolExecutionStart() | ToolExecutionEnd():
                seen.append(set(state.pending_tool_calls))
            case AgentEnd():
                seen.append((state.is_streaming, agent.running))
            case _:
                pass

    agent.subscribe(look)
    await agent.prompt("go")
    assert ["wo", "words", (None, "assistant"), {"a"}, set(), "done", (None, "assistant"), (True, True)] == seen
    state = agent.state
    assert (False, None, set(), None) == (
        state.is_streaming,
        state.stream_message,
        state.pending_tool_calls,
        state.error,
    )


async def test_the_error_of_a_run_is_gone_in_the_next() -> None:
    """A new run clears it."""
    agent = agent_of(Step(error="broken", status=400), "fine")
    await agent.prompt("go")
    assert "broken" in str(agent.state.error)
    await agent.prompt("again")
    assert agent.state.error is None


async def test_a_hook_sees_the_answer_in_the_history() -> None:
    """The answer is kept before its calls are prepared."""
    note, _ = noted()
    seen: list[str] = []
    agent = agent_of(calling(call("note")), "done", tools=[note])
    agent.before_tool_call = lambda before: seen.append(roles(agent.messages)[-1])
    await agent.prompt("go")
    assert ["assistant"] == seen


# --- listeners --------------------------------------------------------------------------------------------------------


async def test_listeners_are_waited_for_one_event_at_a_time() -> None:
    """A slow listener holds the run up; nobody hears an event before the one before it was heard by all."""
    note, _ = noted("x")
    agent = agent_of(calling(call("x", "a"), call("x", "b")), "done", tools=[note])
    first: list[AgentEvent] = []
    second: list[AgentEvent] = []

    async def slow(event: AgentEvent) -> None:
        await asyncio.sleep(0.001)
        first.append(event)

    def quick(event: AgentEvent) -> None:
        assert len(first) == len(second) + 1
        second.append(event)

    agent.subscribe(slow)
    agent.subscribe(quick)
    await agent.prompt("go")
    assert first == second
    check_events(first)


async def test_a_listener_that_fails_is_reported_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the run nor the other listeners notice; without anybody to tell, it is logged."""
    agent, failures = agent_of("done", "done"), list[Exception]()

    def broken(event: AgentEvent) -> None:
        raise ValueError("a bug")

    agent.subscribe(broken)
    assert "done" == (await agent.prompt("go")).reason
    assert "a bug" in caplog.text
    agent._on_listener_error = failures.append
    check_events(await events_of(agent))
    assert failures
    assert {"a bug"} == {str(failure) for failure in failures}


@pytest.mark.parametrize("error", [SystemExit(2), asyncio.CancelledError(), BaseException("odd")])
async def test_a_listener_cannot_end_the_host(error: BaseException) -> None:
    """Nor can whoever is told of its failure."""
    agent = agent_of("done")

    def fail(_: Any) -> None:
        raise error

    agent.subscribe(fail)
    agent._on_listener_error = fail
    assert "done" == (await agent.prompt("go")).reason


async def test_a_listener_may_leave() -> None:
    """`subscribe` gives the way out, and using it twice is no mistake."""
    agent, received = agent_of("done"), list[AgentEvent]()
    forget = agent.subscribe(received.append)
    forget()
    forget()
    await agent.prompt("go")
    assert [] == received


async def test_the_agent_is_idle_when_the_end_was_delivered() -> None:
    """`wait_for_idle` and `prompt` return after the listeners of `agent_end`."""
    agent, order = agent_of("done"), list[str]()

    async def slow(event: AgentEvent) -> None:
        if isinstance(event, AgentEnd):
            await asyncio.sleep(0.02)
            order.append("end heard")

    agent.subscribe(slow)
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.sleep(0)
    await agent.wait_for_idle()
    order.append("idle")
    await running
    assert ["end heard", "idle"] == order


async def test_an_agent_runs_one_prompt_at_a_time() -> None:
    """A second prompt, a continuation, a reset and an iterator are refused while one runs, and do no harm."""
    agent, release = agent_of(Step(text=("a", "b", "c"))), asyncio.Event()
    agent.subscribe(lambda _: release.wait())
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.sleep(0.005)
    for attempt in (agent.prompt("no"), agent.continue_(), anext(agent.run("no"))):
        with pytest.raises(il.InterlinguaError, match="while the agent is running"):
            await attempt
    with pytest.raises(il.InterlinguaError, match="cannot reset"):
        agent.reset()
    release.set()
    assert "abc" == (await running).text
    agent.reset()
    assert [] == agent.messages


async def test_an_agent_that_could_not_begin_can_be_prompted_again() -> None:
    """What is wrong with its set-up is raised, and the agent is idle as before."""
    agent = agent_of("done")
    agent.tools = [object()]  # type: ignore[list-item]
    for _ in range(2):
        with pytest.raises(AttributeError, match="name"):
            await agent.prompt("go")
        assert (False, False) == (agent.running, agent.state.is_streaming)
        await asyncio.wait_for(agent.wait_for_idle(), 20)
    agent.tools = []
    assert "done" == (await agent.prompt("go")).text


# --- as an iterator ---------------------------------------------------------------------------------------------------


async def test_a_run_can_be_gone_through() -> None:
    """The iterator has the same events as a listener."""
    agent, received = agent_of("done"), list[AgentEvent]()
    agent.subscribe(received.append)
    events = [event async for event in agent.run("go")]
    assert received == events
    check_events(events)


async def test_a_run_goes_no_further_than_its_reader() -> None:
    """The next thing happens when the event before was taken."""
    note, seen = noted()
    agent = agent_of(calling(call("note")), "done", tools=[note])
    async for event in agent.run("go"):
        if isinstance(event, MessageEnd) and isinstance(event.message, il.AssistantMessage):
            await asyncio.sleep(0.01)
            assert [] == seen
            break
    else:
        pytest.fail("the run had no answer")
    await agent.wait_for_idle()


async def test_of_two_runs_begun_together_one_is_refused_and_the_other_goes_on() -> None:
    """The reader of the refused one has left, and nobody waits for it."""
    agent = agent_of("done")

    async def read(prompt: str) -> list[AgentEvent]:
        return [event async for event in agent.run(prompt)]

    first, second = (asyncio.ensure_future(read(prompt)) for prompt in ("one", "two"))
    done, _ = await asyncio.wait({first, second}, timeout=10)
    assert {first, second} == done
    check_events(first.result())
    with pytest.raises(il.InterlinguaError, match="while the agent is running"):
        second.result()
    assert ["one", "done"] == texts(agent.messages)


async def test_case_91_leaving_a_run_aborts_it() -> None:
    """Whoever leaves the loop stops the answer; what had come is kept, marked as aborted."""
    agent = agent_of(Step(text=("a", "b", "c", "d"), delay=0.02))
    async with contextlib.aclosing(agent.run("go")) as events:
        async for event in events:
            if isinstance(event, MessageUpdate) and isinstance(event.assistant_message_event, TextDelta):
                break
    await agent.wait_for_idle()
    last = agent.messages[-1]
    assert isinstance(last, il.AssistantMessage)
    assert "aborted" == last.stop_reason
    assert il.values.messages.text_of(last.content) in ("a", "ab")


async def test_an_iterator_without_a_prompt_continues() -> None:
    """And raises what `continue_` raises."""
    agent = agent_of("answer", messages=[il.UserMessage(content="asked")])
    check_events([event async for event in agent.run()])
    with pytest.raises(il.InterlinguaError, match="nothing to continue"):
        await anext(agent.run())


async def test_a_prompt_may_be_text_with_pictures_a_message_or_several() -> None:
    """Text becomes a list: the text first, then the pictures."""
    picture = il.ImageBlock(data="AAAA", mime_type="image/png")
    agent = agent_of("1", "2", "3")
    await agent.prompt("look", images=[picture])
    await agent.prompt(il.UserMessage(content="as it is"))
    await agent.prompt([il.UserMessage(content="one"), il.UserMessage(content="two")])
    users = [message for message in agent.messages if isinstance(message, il.UserMessage)]
    assert (il.TextBlock(text="look"), picture) == users[0].content
    assert ["as it is", "one", "two"] == texts(users[1:])


async def test_events_read_as_json() -> None:
    """Each event of a run has the JSON of the format, and is read from it again."""
    note, _ = noted()
    agent = agent_of(calling(call("note", "a"), thinking="hm"), "done", tools=[note])
    for event in await events_of(agent):
        assert il.load(il.dump(event), AgentEvent) == event


async def test_a_turn_ends_with_its_answer_and_results() -> None:
    """`turn_end` has what was said in the turn."""

    async def two(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        return text_result(id)

    agent = agent_of(calling(call("x", "a"), call("x", "b")), "done", tools=[tool_of("x", two)])
    ends = [event for event in await events_of(agent) if isinstance(event, TurnEnd)]
    assert [["a", "b"], []] == [texts(end.tool_results) for end in ends]


async def test_updates_of_a_long_answer_copy_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 pieces of an answer: the message so far is computed only when somebody looks at it."""
    from interlingua.values import events, partials

    computed = 0

    def counted(log: Any, at: int) -> Any:
        nonlocal computed
        computed += 1
        return partials.snapshot(log, at)

    monkeypatch.setattr(events, "snapshot", counted)
    agent = agent_of(Step(text=("word ",) * 20_000))
    received = [event for event in await events_of(agent) if isinstance(event, MessageUpdate)]
    assert (True, 0) == (len(received) >= 20_000, computed)
    assert "word word " == texts([received[2].message])[0]  # type: ignore[list-item]
    assert 1 == computed
