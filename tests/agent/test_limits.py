"""Limits end a run with a clear reason, and leave a history that can go on."""

from typing import Any

import pytest

import interlingua as il
from agent.grammar import check_events, check_pairing
from agent.making import AT_ONCE, Asked, agent_of, call, calling, client_of, events_of, noted, texts, waiting
from interlingua.agent import Agent, Limits
from interlingua.agent.loop import Spent
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.values.events import TurnEnd


def always_calling(request: il.Request) -> Step:
    """A model that never stops."""
    return calling(call("note", f"c{len(request.context.messages)}"), usage={"input": 90, "output": 10})


def priced(dollars: float | None) -> Any:
    """A model that never stops and costs this much per answer; None is unknown."""
    cost = None if dollars is None else il.Cost(input=dollars, output=0, cache_read=0, cache_write=0, total=dollars)

    def reply(request: il.Request) -> il.AssistantMessage:
        block = il.ToolCall(id=f"c{len(request.context.messages)}", name="note", arguments={})
        return il.AssistantMessage(content=(block,), usage=il.Usage.of(10, 10, cost=cost))

    return reply


@pytest.mark.parametrize(
    ("model", "limits", "answers", "reason"),
    [
        (always_calling, Limits(turns=3), 3, "limit: 3 turns"),
        (always_calling, Limits(tokens=250), 3, "limit: 250 tokens"),
        (priced(0.25), Limits(cost=0.7), 3, "limit: $0.7"),
        (priced(None), Limits(cost=5), 1, "limit: $5 (the price of a response is unknown)"),
    ],
    ids=["turns", "tokens", "cost", "unknown cost"],
)
async def test_a_limit_ends_a_run_with_its_reason(model: Any, limits: Limits, answers: int, reason: str) -> None:
    """After the answer that reached it and its calls: pairing is valid, and no further answer is asked for."""
    note, seen = noted()
    agent = agent_of(model, tools=[note], limits=limits)
    events = await events_of(agent)
    check_events(events)
    check_pairing(agent.messages)
    assert (answers, reason) == (len(seen), events[-1].reason)  # type: ignore[union-attr]


def test_a_run_is_limited_unless_one_says_otherwise() -> None:
    """A model that never stops is stopped after 200 answers; nothing else is limited by itself."""
    assert Limits(turns=200, tokens=None, cost=None, seconds=None) == Limits()


@pytest.mark.parametrize("limits", [Limits(turns=0), Limits(tokens=0), Limits(cost=0.0), Limits(turns=-1)], ids=repr)
async def test_a_limit_of_which_nothing_is_left_asks_for_nothing(limits: Limits) -> None:
    """The prompt is kept, the model is not asked, the events are whole."""
    script = Asked("never said")
    agent = Agent("debug/script", client=client_of(script), limits=limits)
    events = await events_of(agent)
    check_events(events)
    assert ([], "go") == (script.requests, texts(agent.messages)[0])
    assert events[-1].reason.startswith("limit: ")  # type: ignore[union-attr]


async def test_a_run_that_is_done_is_not_over_a_limit() -> None:
    """The last allowed answer may be the last one needed."""
    agent = agent_of("done", limits=Limits(turns=1))
    assert "done" == (await agent.prompt("go")).reason


async def test_input_that_came_at_the_limit_stays_queued() -> None:
    """It was not said, so it is given back."""
    note, _ = noted()
    agent = agent_of(always_calling, tools=[note], limits=Limits(turns=1))
    agent.follow_up("more")
    agent.subscribe(lambda event: agent.steer("now") if isinstance(event, TurnEnd) else None)
    assert "limit: 1 turns" == (await agent.prompt("go")).reason
    assert ["now", "more"] == texts(agent.take_queued())


async def test_wall_time_cuts_off_an_answer() -> None:
    """What had come is kept; the reason is the limit."""
    agent = agent_of(Step(text=("x",) * 1000, delay=0.01), limits=Limits(seconds=0.05))
    events = await events_of(agent)
    check_events(events)
    assert "limit: 0.05 s" == events[-1].reason  # type: ignore[union-attr]
    assert set(texts(agent.messages)[-1]) <= {"x"}


async def test_wall_time_stops_a_tool() -> None:
    """The tool hears of it, and its result is kept."""
    wait, _ = waiting()
    agent = agent_of(calling(call("wait")), "never", tools=[wait], limits=Limits(seconds=0.05))
    events = await events_of(agent)
    check_events(events)
    assert "limit: 0.05 s" == events[-1].reason  # type: ignore[union-attr]
    check_pairing(agent.messages)


async def test_after_a_limit_the_run_can_go_on() -> None:
    """Each run has limits of its own."""
    note, seen = noted()
    agent = agent_of(always_calling, tools=[note], limits=Limits(turns=2))
    await agent.prompt("go")
    check_events(await events_of(agent, None))
    assert 4 == len(seen)


async def test_what_a_run_used_is_reported() -> None:
    """Answers, tokens and dollars of this run; a cost that is not known is None, never zero."""
    agent = agent_of(
        calling(call("x"), usage={"input": 5, "output": 5}), Step(text="d", usage={"input": 1, "output": 1})
    )
    spent = (await agent.prompt("go")).spent
    assert Spent(turns=2, tokens=12, cost=0.0) == spent
    cached = agent_of(Step(text="d", usage={"input": 1, "output": 1, "cacheRead": 9, "cacheWrite": 4}))
    spent = (await cached.prompt("go")).spent
    assert (15, 9, 4) == (spent.tokens, spent.cache_read, spent.cache_write)
    unknown = agent_of(priced(None), limits=Limits(turns=1))
    assert (await unknown.prompt("go")).spent.cost is None


async def test_an_answer_that_failed_before_it_came_has_no_unknown_price() -> None:
    """A refusal at the door costs nothing and does not end a run that watches its cost."""
    replies = iter([il.Overloaded("busy", status=529), "done"])
    client = Client(connectors=ConnectorRegistry([DebugConnector(lambda request: next(replies))]), retry=AT_ONCE)
    agent = Agent("debug/script", client=client, limits=Limits(cost=1.0))
    assert "done" == (await agent.prompt("go")).reason
