"""Failures in passing are tried again, finished calls are not; a history that does not fit is summed up once."""

import asyncio
from typing import Any

import pytest

import interlingua as il
from agent.grammar import check_events, check_pairing
from agent.making import AT_ONCE, Asked, agent_of, call, calling, client_of, events_of, noted, results, texts
from interlingua.agent import Agent, Compaction, Limits
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.retry import Retry
from interlingua.sessions import Session


async def test_a_passing_failure_is_tried_again_and_finished_calls_are_not() -> None:
    """An answer that breaks off is asked for again; what was done before is done once."""
    note, seen = noted()
    agent = agent_of(
        calling(call("note", "a")),
        calling(call("note", "lost"), text="It be", error="the connection broke", status=503),
        Step(text="It be", error="busy", status=529),
        "done",
        tools=[note],
    )
    check_events(await events_of(agent))
    assert 1 == len(seen)
    assert ["go", "", "noted", "It be", "It be", "done"] == texts(agent.messages)
    check_pairing(agent.messages)


async def test_what_failed_before_it_began_is_tried_again_by_the_client_alone() -> None:
    """Two layers that both try again would multiply: three tries are three requests."""
    asked: list[il.Request] = []

    def busy(request: il.Request) -> Step:
        asked.append(request)
        return Step(error="busy", status=529)

    client = Client(connectors=ConnectorRegistry([DebugConnector(busy)]), retry=AT_ONCE)
    result = await Agent("debug/script", client=client).prompt("go")
    assert ("error", 3) == (result.reason, len(asked))


async def test_trying_again_ends() -> None:
    """After so many failures in a row the run ends with the last one; success in between starts the count anew."""
    note, _ = noted()
    failure = Step(text="It be", error="busy", status=503)
    agent = agent_of(failure, failure, calling(call("note")), failure, failure, "done", tools=[note])
    assert "done" == (await agent.prompt("go")).reason
    hopeless = agent_of(lambda request: failure)
    result = await hopeless.prompt("go")
    assert ("error", 3) == (result.reason, result.spent.turns)
    assert isinstance(result.failure, il.ProviderError)
    assert "busy" in str(hopeless.state.error)


async def test_a_failure_that_will_not_pass_is_not_tried_again() -> None:
    """A bad request is bad the second time too."""
    agent = agent_of(lambda request: Step(error="no such field", status=400))
    assert 1 == (await agent.prompt("go")).spent.turns


async def test_a_failure_may_be_tried_never() -> None:
    """`retries=0`."""
    agent = agent_of(lambda request: Step(text="It be", error="busy", status=503), retries=0)
    assert 1 == (await agent.prompt("go")).spent.turns


async def test_the_pause_before_another_try_can_be_aborted() -> None:
    """The prompt waits for its retries; an abort does not wait for the pause."""
    agent = agent_of(
        lambda request: Step(text="It be", error="busy", status=503), retries=Retry(attempts=3, base=120, cap=120)
    )
    running = asyncio.ensure_future(events_of(agent))
    while not agent.messages or texts(agent.messages) == ["go"]:
        await asyncio.sleep(0.001)
    assert not running.done()
    agent.abort()
    events = await running
    check_events(events)
    assert "aborted" == events[-1].reason  # type: ignore[union-attr]


async def test_wall_time_holds_for_the_pause_too() -> None:
    """A run does not outlive its limit by waiting."""
    slow = Retry(attempts=3, base=120, cap=120)
    agent = agent_of(
        lambda request: Step(text="It be", error="busy", status=503), retries=slow, limits=Limits(seconds=0.05)
    )
    assert "limit: 0.05 s" == (await agent.prompt("go")).reason


def overflowing(window: int) -> Any:
    """A model that holds only so many messages."""

    def reply(request: il.Request) -> Any:
        messages = [m for m in request.context.messages if not isinstance(m, il.AssistantMessage) or m.content]
        return il.ContextTooLong("too long", status=400) if len(messages) > window else "it fits"

    return reply


def summing(summaries: list[str]) -> Compaction:
    async def write(prompt: str, most: int) -> str:
        summaries.append(prompt)
        return "What was said before."

    return Compaction(window=1_000_000, keep=1, summarise=write)


def long_history() -> list[Any]:
    turns = [(il.UserMessage(content=f"question {at}"), il.AssistantMessage(content="answer")) for at in range(6)]
    return [message for turn in turns for message in turn]


async def test_a_history_that_does_not_fit_is_summed_up_once() -> None:
    """Then the same question is asked again."""
    summaries: list[str] = []
    agent = agent_of(overflowing(6), messages=long_history(), compaction=summing(summaries))
    check_events(await events_of(agent))
    assert ("it fits", 1) == (texts(agent.messages)[-1], len(summaries))


async def test_a_history_that_never_fits_ends_the_run() -> None:
    """Room is made once, not for ever; without compaction the overflow is the end."""
    summaries: list[str] = []
    agent = agent_of(overflowing(0), messages=long_history(), compaction=summing(summaries))
    result = await agent.prompt("go")
    assert ("error", 1) == (result.reason, len(summaries))
    assert isinstance(result.failure, il.ContextTooLong)
    plain = await agent_of(overflowing(0), messages=long_history()).prompt("go")
    assert ("error", 1) == (plain.reason, plain.spent.turns)


async def test_case_106_a_summary_that_fails_leaves_the_history_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    """The run ends with the overflow, in order; nothing that was said is lost."""

    async def broken(prompt: str, most: int) -> str:
        raise ValueError("no summary today")

    history = long_history()
    agent = agent_of(overflowing(0), messages=history, compaction=Compaction(keep=1, summarise=broken))
    check_events(await events_of(agent))
    assert history == list(agent.messages)[: len(history)]
    assert "no summary today" in caplog.text


async def test_the_prompt_is_kept_before_room_is_made(tmp_path: Any) -> None:
    """A crash while the summary is written does not cost the user's words."""
    kept: list[list[str]] = []

    async def write(prompt: str, most: int) -> str:
        with Session.open(tmp_path / "s.jsonl", read_only=True) as reader:
            kept.append(texts(reader.messages)[-1:])
        return "Before."

    with Session.open(tmp_path / "s.jsonl") as session:
        for message in long_history():
            session.append(message)
        how = Compaction(window=10, reserve=1, keep=1, summarise=write)
        agent = agent_of("it fits", "it fits", *["it fits"] * 9, session=session, compaction=how)
        check_events(await events_of(agent, "my words"))
    assert ["my words"] == kept[0]


async def test_a_retry_asks_for_the_same_history() -> None:
    """The second request has what the first had; the failed answer is for the transcript."""
    script = Asked(Step(text="half", error="busy", status=503), "whole")
    agent = Agent("debug/script", client=client_of(script), retries=AT_ONCE)
    await agent.prompt("go")
    sent = [il.adapt(request, "anthropic-messages").request.context.messages for request in script.requests]
    assert sent[0] == sent[1]
    assert 3 == len(agent.messages)
    assert [] == results(agent.messages)


async def test_room_is_made_in_the_middle_of_a_run() -> None:
    """Not only before it: a run of many turns must not grow until a provider refuses it, or cuts it in silence."""
    note, _ = noted()
    written: list[str] = []

    async def summarise(prompt: str, most: int) -> str:
        written.append(prompt)
        return "what was before"

    script = [calling(call("note", str(at)), text="word " * 100) for at in range(12)]
    compaction = Compaction(window=1500, reserve=500, keep=200, summarise=summarise)
    agent = agent_of(lambda request: script.pop(0) if script else "done", tools=[note], compaction=compaction)
    result = await agent.prompt("go")
    assert "done" == result.reason
    assert written
    assert len(agent.messages) < 20
