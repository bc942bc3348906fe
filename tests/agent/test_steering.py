"""Input that comes while a run goes on: where it is said, and what becomes of it when it cannot be."""

import asyncio
from typing import Any

import pytest

import interlingua as il
from agent.grammar import check_events, check_pairing
from agent.making import (
    Asked,
    agent_of,
    call,
    calling,
    client_of,
    events_of,
    noted,
    results,
    text_result,
    texts,
    tool_of,
)
from interlingua.agent import Agent
from interlingua.connect.debug import Step
from interlingua.tools.tool import ToolResult
from interlingua.values.events import AgentEvent, MessageEnd, ToolExecutionEnd


def steering_after_first_call(agent: Agent, *inputs: str) -> None:
    """Has the agent steered when its first call has ended."""
    waiting = list(inputs)

    def hear(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionEnd):
            while waiting:
                agent.steer(waiting.pop(0))

    agent.subscribe(hear)


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_case_102_input_is_sent_only_where_every_call_has_its_result(mode: Any) -> None:
    """A message that comes in the middle of a batch is said after all its results, and the next request has it."""
    note, seen = noted()
    script = Asked(calling(call("note", "a"), call("note", "b")), "done")
    agent = Agent("debug/script", [note], client=client_of(script), tool_execution=mode)
    steering_after_first_call(agent, "wait, also this")
    check_events(await events_of(agent))
    assert 2 == len(seen)
    assert ["go", "", "noted", "noted", "wait, also this", "done"] == texts(agent.messages)
    assert "wait, also this" == texts(script.last.context.messages)[-1]
    check_pairing(agent.messages)


async def test_case_104_calls_that_were_not_begun_can_be_skipped() -> None:
    """With `on_steering="skip"` each has a result that says so, in words that blame nobody."""
    note, seen = noted()
    agent = agent_of(
        calling(call("note", "a"), call("note", "b"), call("note", "c")),
        "done",
        tools=[note],
        tool_execution="sequential",
        on_steering="skip",
    )
    steering_after_first_call(agent, "stop that")
    check_events(await events_of(agent))
    assert 1 == len(seen)
    skipped = results(agent.messages)[1:]
    assert [True, True] == [result.is_error for result in skipped]
    assert {"This call was skipped: new input arrived before it started. It did not run."} == set(texts(skipped))
    assert "user" not in texts(skipped)[0].lower()
    assert ["stop that", "done"] == texts(agent.messages)[-2:]
    check_pairing(agent.messages)


async def test_a_batch_that_runs_is_not_skipped() -> None:
    """Calls that run side by side have all begun: they finish."""
    both = asyncio.Barrier(2)

    async def run(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        await both.wait()
        agent.steer("now")
        return text_result("ran")

    agent = agent_of(
        calling(call("x", "a"), call("x", "b")), "done", "done", tools=[tool_of("x", run)], on_steering="skip"
    )
    check_events(await events_of(agent))
    assert ["ran", "ran"] == texts(results(agent.messages))


async def test_case_28_the_words_of_results_that_we_write_blame_nobody() -> None:
    """Skipped, cut short, unknown, not run: none claims that a user did it, each says whether the call ran."""
    from interlingua.agent import batch

    for text in (batch.SKIPPED, batch.CUT_SHORT, batch.UNKNOWN, batch.NOT_RUN):
        assert "user" not in text.lower()
        assert "not run" in text or "not known" in text


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("one-at-a-time", ["go", "", "noted", "one", "first", "two", "second"]),
        ("all", ["go", "", "noted", "one", "two", "first"]),
    ],
)
async def test_queued_input_is_sent_one_at_a_time_or_all_at_once(mode: Any, expected: list[str]) -> None:
    """As the mode of the queue has it."""
    note, _ = noted()
    agent = agent_of(calling(call("note")), "first", "second", "third", tools=[note], steering_mode=mode)
    steering_after_first_call(agent, "one", "two")
    check_events(await events_of(agent))
    assert expected == texts(agent.messages)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("one-at-a-time", ["go", "1", "one", "2", "two", "3"]),
        ("all", ["go", "1", "one", "two", "2"]),
    ],
)
async def test_follow_ups_are_sent_when_the_agent_would_stop(mode: Any, expected: list[str]) -> None:
    """Each begins a turn of the same run."""
    agent = agent_of("1", "2", "3", follow_up_mode=mode)
    agent.follow_up("one")
    agent.follow_up("two")
    check_events(await events_of(agent))
    assert expected == texts(agent.messages)


async def test_what_steers_comes_before_what_follows() -> None:
    """Steering is read at the beginning and at each turn's end; follow-ups only when nothing else is left."""
    note, _ = noted()
    agent = agent_of(calling(call("note")), "1", "2", "3", tools=[note])
    agent.follow_up("later")
    agent.steer("at once")
    steering_after_first_call(agent, "sooner")
    check_events(await events_of(agent))
    assert ["go", "at once", "", "noted", "sooner", "1", "later", "2"] == texts(agent.messages)


async def test_steering_while_the_last_answer_streams_is_answered_in_the_same_run() -> None:
    """It is seen at the end of the turn."""
    agent = agent_of(Step(text=("a", "b")), "answered")

    def hear(event: AgentEvent) -> None:
        if isinstance(event, MessageEnd) and texts([event.message]) == ["ab"]:
            agent.steer("and?")

    agent.subscribe(hear)
    check_events(await events_of(agent))
    assert ["go", "ab", "and?", "answered"] == texts(agent.messages)


async def test_case_103_after_an_abort_nothing_runs_and_queued_input_is_given_back() -> None:
    """Both queues are as they were; whoever queued gets their words back."""
    agent = agent_of(Step(text=("a", "b", "c"), delay=60), "never said by itself")
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.sleep(0.03)
    agent.steer("steering")
    agent.follow_up("follow-up")
    agent.abort()
    assert "aborted" == (await running).reason
    await asyncio.sleep(0.01)
    assert (False, 2) == (agent.running, len(agent.messages))
    assert agent.has_queued
    assert ["steering", "follow-up"] == texts(agent.take_queued())
    assert not agent.has_queued


async def test_case_103_input_that_made_calls_be_skipped_is_given_back_too() -> None:
    """Input that was seen in the middle of a batch is not lost when the batch is aborted."""
    note, _ = noted()
    agent = agent_of(
        calling(call("note", "a"), call("note", "b")),
        tools=[note],
        tool_execution="sequential",
        on_steering="skip",
    )
    steering_after_first_call(agent, "my words")
    agent.subscribe(lambda event: agent.abort() if isinstance(event, ToolExecutionEnd) and agent.has_queued else None)
    assert "aborted" == (await agent.prompt("go")).reason
    assert ["my words"] == texts(agent.take_queued())
    check_pairing(agent.messages)


async def test_continuing_drains_steering_first_and_then_follow_ups() -> None:
    """After a finished answer, one input at a time where the mode says so."""
    agent = agent_of("1", "2", "3", "4")
    await agent.prompt("go")
    for text in ("s1", "s2"):
        agent.steer(text)
    agent.follow_up("f")
    check_events(await events_of(agent, None))
    assert ["go", "1", "s1", "2", "s2", "3", "f", "4"] == texts(agent.messages)


async def test_input_queued_while_nothing_runs_starts_nothing() -> None:
    """It waits for the next run."""
    agent = agent_of("1", "2")
    agent.steer("queued")
    await asyncio.sleep(0.01)
    assert ([], True) == (list(agent.messages), agent.has_queued)
    await agent.prompt("go")
    assert ["go", "queued", "1"] == texts(agent.messages)


async def test_messages_may_be_queued_as_they_are() -> None:
    """A message, a list, or text."""
    agent = agent_of("1", "2")
    agent.follow_up([il.UserMessage(content="a"), il.CustomMessage("note", {"x": 1})])
    await agent.prompt("go")
    assert ["go", "1", "a", "note", "2"] == texts(agent.messages)
