"""Stopping a run: at any moment, by signal or by cancellation, it ends in order and keeps what had come."""

import asyncio
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
    noted,
    results,
    roles,
    text_result,
    texts,
    tool_of,
    waiting,
)
from interlingua.connect.debug import Step
from interlingua.tools.tool import ToolResult
from interlingua.values.abort import Abort
from interlingua.values.events import (
    AgentEnd,
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)


async def test_case_92_an_abort_keeps_what_had_come_of_the_answer() -> None:
    """The partial answer is in the history and in the events, with the stop reason that says why."""
    agent = agent_of(Step(text=("It is ", "half ", "said"), delay=0.01))
    agent.subscribe(lambda event: agent.abort() if isinstance(event, MessageUpdate) else None)
    events = await events_of(agent)
    check_events(events)
    last = agent.messages[-1]
    assert isinstance(last, il.AssistantMessage)
    assert "aborted" == last.stop_reason
    assert "It is half said".startswith(il.values.messages.text_of(last.content))
    assert events[-1] == AgentEnd(tuple(agent.messages), "aborted")  # type: ignore[arg-type]


async def test_an_abort_during_calls_adds_no_empty_answer() -> None:
    """After the results the run ends: the model is not asked once more only to be stopped."""
    wait, begun = waiting()
    agent = agent_of(calling(call("wait")), "never said", tools=[wait])
    running = asyncio.ensure_future(events_of(agent))
    await begun.wait()
    agent.abort()
    check_events(await running)
    assert ["user", "assistant", "toolResult"] == roles(agent.messages)


async def test_an_abort_between_the_calls_and_the_next_answer_ends_the_run() -> None:
    """At the end of the turn, before the next begins."""
    note, _ = noted()
    agent = agent_of(calling(call("note")), "never said", tools=[note])
    agent.subscribe(lambda event: agent.abort() if isinstance(event, TurnEnd) else None)
    check_events(await events_of(agent))
    assert ["user", "assistant", "toolResult"] == roles(agent.messages)


async def test_an_abort_after_the_last_answer_changes_nothing() -> None:
    """The run was done, and says so."""
    agent = agent_of("all said")
    agent.subscribe(lambda event: agent.abort() if isinstance(event, TurnEnd) else None)
    assert ("done", "all said") == ((result := await agent.prompt("go")).reason, result.text)


async def test_a_signal_from_outside_stops_the_run_and_is_not_fired_by_it() -> None:
    """`signal=` stops it; `agent.abort` stops this run alone."""
    signal = Abort()
    agent = agent_of(Step(text=("a", "b"), delay=60), Step(text=("a", "b"), delay=60))
    running = asyncio.ensure_future(agent.prompt("go", signal=signal))
    await asyncio.sleep(0.01)
    agent.abort()
    assert "aborted" == (await running).reason
    assert not signal.aborted
    running = asyncio.ensure_future(agent.prompt("again", signal=signal))
    await asyncio.sleep(0.01)
    signal.abort()
    assert "aborted" == (await running).reason


async def test_a_run_that_is_stopped_before_it_begins_keeps_the_prompt() -> None:
    """Nothing is asked; the events are whole."""
    signal = Abort()
    signal.abort("never mind")
    agent = agent_of("never said")
    check_events(await events_of(agent, "go", signal=signal))
    assert (["go", ""], ["user", "assistant"]) == (texts(agent.messages), roles(agent.messages))


async def test_an_aborted_run_can_go_on() -> None:
    """`continue_` asks again; the stopped answer stays in the history."""
    agent = agent_of(Step(text=("a", "b"), delay=0.01), "whole")
    agent.subscribe(lambda event: agent.abort() if isinstance(event, MessageUpdate) else None)
    await agent.prompt("go")
    agent._listeners.clear()
    check_events(await events_of(agent, None))
    assert ["user", "assistant", "assistant"] == roles(agent.messages)
    assert "whole" == texts(agent.messages)[-1]


KINDS = [TurnStart, MessageStart, MessageUpdate, MessageEnd, ToolExecutionStart, ToolExecutionEnd, TurnEnd]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("how", ["abort", "cancel", "cancel twice"])
async def test_whenever_a_run_is_stopped_its_events_are_whole(kind: type, how: str) -> None:
    """By abort or by cancelling the task, at any kind of event: the rest is told, and calls have their results."""
    wait, _ = waiting()
    note, _ = noted()
    received: list[AgentEvent] = []
    calls = [call("note")] if kind is TurnEnd else [call("note"), call("wait")]
    agent = agent_of(calling(*calls, text=("so", "me")), "done", tools=[wait, note])

    async def stop(event: AgentEvent) -> None:
        received.append(event)
        if isinstance(event, kind) and not any(isinstance(one, kind) for one in received[:-1]):
            if how == "abort":
                agent.abort()
            else:
                running.cancel()
                await asyncio.sleep(0)
                if how == "cancel twice":
                    running.cancel()
            await asyncio.sleep(0.001)

    agent.subscribe(stop)
    running = asyncio.ensure_future(agent.prompt("go"))
    try:
        await running
    except asyncio.CancelledError:
        assert how != "abort"
    assert not agent.running
    check_events(received, broken=how == "cancel twice")
    if how != "cancel twice":
        check_pairing(agent.messages)


async def test_cancelling_the_task_stops_tools_and_keeps_their_results() -> None:
    """It is an abort that is raised again: nothing is half done in the history."""
    wait, begun = waiting()
    agent = agent_of(calling(call("wait")), "never said", tools=[wait])
    running = asyncio.ensure_future(agent.prompt("go"))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ["stopped in order"] == texts(results(agent.messages))
    check_pairing(agent.messages)


async def test_a_run_in_a_timeout_ends_in_time() -> None:
    """`asyncio.timeout` stops a run as a cancellation does."""
    agent = agent_of(Step(text=("x",) * 10_000, delay=60))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await agent.prompt("go")
    assert not agent.running
    assert "assistant" == roles(agent.messages)[-1]


async def test_a_call_that_was_cut_off_hard_is_not_run_again() -> None:
    """A second cancellation does not wait for the tool; continuing reports the call as unknown."""
    begun = asyncio.Event()
    runs: list[str] = []

    async def stubborn(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        runs.append(id)
        begun.set()
        await asyncio.sleep(60)
        return text_result("never")

    agent = agent_of(calling(call("x")), "went on", tools=[tool_of("x", stubborn)])
    received: list[AgentEvent] = []
    agent.subscribe(received.append)
    running = asyncio.ensure_future(agent.prompt("go"))
    await begun.wait()
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0.005)
    with pytest.raises(asyncio.CancelledError):
        await running
    check_events(received, broken=True)
    check_events(await events_of(agent, None), resumed=True)
    assert (["x"], "went on") == (runs, texts(agent.messages)[-1])
    assert "not known whether" in texts(results(agent.messages))[0]
    check_pairing(agent.messages)


async def test_a_tool_gets_the_reason() -> None:
    """The reason of the abort reaches the tool's signal."""
    reasons: list[Any] = []
    begun = asyncio.Event()

    async def run(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        begun.set()
        reasons.append(await signal.wait())
        return text_result("ok")

    agent = agent_of(calling(call("x")), tools=[tool_of("x", run)])
    running = asyncio.ensure_future(agent.prompt("go"))
    await begun.wait()
    agent.abort("because")
    await running
    assert ["because"] == reasons


async def test_a_listener_may_abort() -> None:
    """From inside an event, without a deadlock."""
    agent = agent_of(calling(call("x", "a"), call("x", "b")), "never", tools=[noted("x")[0]])
    agent.subscribe(lambda event: agent.abort() if isinstance(event, ToolExecutionStart) else None)
    events = await events_of(agent)
    check_events(events)
    assert "agent_end" == labels_of(events)[-1]


@pytest.mark.parametrize("count", range(1, 24))
async def test_a_reader_of_events_that_is_cancelled_ends_the_run(count: int) -> None:
    """Also when the next event is there already: the run, which waits for its reader, does not wait forever."""
    note, _ = noted()
    agent = agent_of(calling(call("note"), text=("so", "me")), "done", tools=[note])
    received = 0

    async def read() -> None:
        nonlocal received
        async for _ in agent.run("go"):
            received += 1
            if received == count:
                asyncio.get_running_loop().call_soon(reading.cancel)

    reading = asyncio.ensure_future(read())
    await asyncio.wait({reading}, timeout=5)
    assert reading.done()
    assert not agent.running
    check_pairing(agent.messages)


@pytest.mark.parametrize("count", range(1, 12))
async def test_a_reader_that_cancels_itself_ends_the_run(count: int) -> None:
    """As a timeout does that passes while an event is handled."""
    note, _ = noted()
    agent = agent_of(calling(call("note")), "done", tools=[note])

    async def read() -> None:
        received = 0
        async for _ in agent.run("go"):
            received += 1
            if received == count:
                reading.cancel()

    reading = asyncio.ensure_future(read())
    await asyncio.wait({reading}, timeout=5)
    assert reading.done()
    assert not agent.running
    check_pairing(agent.messages)
