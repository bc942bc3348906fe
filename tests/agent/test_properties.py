"""Whatever models answer, tools do and people interrupt: events in order, a paired history that every wire can say."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

import interlingua as il
from agent.grammar import check_events, check_pairing, check_wires
from agent.making import AT_ONCE, client_of, text_result, tool_of
from interlingua.agent import Agent, Limits, Verdict
from interlingua.connect.debug import ScriptedCall, Step
from interlingua.sessions import Session
from interlingua.tools.tool import Tool, ToolResult
from interlingua.values.events import AgentEvent

NUMBER = {"n": {"type": "integer"}}


def tools(runs: list[str]) -> list[Tool]:
    """One tool for each way in which a call can end."""

    async def ok(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        runs.append(id)
        return text_result("ok", details={"n": params["n"]})

    async def failing(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        return text_result("failed", is_error=True)

    async def raising(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        raise RuntimeError("raised")

    async def slow(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        for at in range(3):
            on_update(text_result(f"{at}"))
            await asyncio.sleep(0.0005)
        return text_result("slow")

    async def waiting(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        try:
            await asyncio.wait_for(signal.wait(), 0.003)
        except TimeoutError:
            return text_result("waited")
        return text_result("stopped", is_error=True)

    async def silent(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        return ToolResult(terminate=True)

    kinds = {"ok": ok, "failing": failing, "raising": raising, "slow": slow, "waiting": waiting, "silent": silent}
    made = [tool_of(name, run, **NUMBER) for name, run in kinds.items()]
    return [*made, tool_of("alone", slow, sequential=True, **NUMBER)]


NAMES = [tool.name for tool in tools([])]
short_texts = st.text(st.characters(codec="utf-8"), max_size=12)
calls = st.builds(
    ScriptedCall,
    name=st.sampled_from([*NAMES, *NAMES, "nobody", "odd name!"]),
    id=st.sampled_from(["a", "b", "c", "d", "call|e/" + "x" * 70, None]),
    arguments=st.sampled_from([{"n": 1}, {"n": 1}, {"n": "2"}, {"n": "many"}, {}]),
    text=st.sampled_from([None, None, None, "", '{"n": 3}', '{"n": ', "[1]", "nonsense"]),
)
answers = st.builds(
    Step,
    text=st.none() | short_texts | st.tuples(short_texts, short_texts, short_texts),
    thinking=st.none() | short_texts,
    calls=st.lists(calls, max_size=4).map(tuple),
    error=st.sampled_from([None, None, None, None, "it broke"]),
    status=st.sampled_from([400, 503]),
    stop=st.sampled_from([None, None, None, "length"]),
    interleaved=st.booleans(),
    delay=st.sampled_from([0.0, 0.0, 0.0005]),
)
actions = st.sampled_from(["abort", "steer", "steer", "follow up", "cancel", "look"])


class Story(NamedTuple):
    answers: list[Step]
    interruptions: dict[int, str]  # at the nth event that is heard
    runs: list[str]  # "prompt" or "continue"
    how: dict[str, Any]
    stored: bool
    slow_listener: bool


stories = st.builds(
    Story,
    answers=st.lists(answers, max_size=6),
    interruptions=st.dictionaries(st.integers(0, 60), actions, max_size=4),
    runs=st.lists(st.sampled_from(["prompt", "continue"]), min_size=1, max_size=3),
    how=st.fixed_dictionaries(
        {
            "tool_execution": st.sampled_from(["parallel", "sequential"]),
            "on_steering": st.sampled_from(["finish", "skip"]),
            "steering_mode": st.sampled_from(["one-at-a-time", "all"]),
            "follow_up_mode": st.sampled_from(["one-at-a-time", "all"]),
            "limits": st.sampled_from([Limits(turns=8), Limits(turns=8), Limits(turns=2), Limits(turns=8, tokens=300)]),
            "before_tool_call": st.sampled_from([None, None, lambda call: Verdict(block=call.call.id == "b")]),
        }
    ),
    stored=st.booleans(),
    slow_listener=st.booleans(),
)


async def tell(story: Story, session: Session | None) -> None:
    """Lives a story through, checking each run."""
    ran: list[str] = []
    script = [*story.answers, *["and so on"] * 40]
    agent = Agent("debug/script", tools(ran), client=client_of(script), session=session, retries=AT_ONCE, **story.how)
    received: list[AgentEvent] = []
    number = 0

    async def interrupt(event: AgentEvent) -> None:
        nonlocal number
        received.append(event)
        match story.interruptions.get(number):
            case "abort":
                agent.abort("enough")
            case "cancel":
                running.cancel()
            case "steer":
                agent.steer(f"steering {number}")
            case "follow up":
                agent.follow_up(f"following {number}")
            case "look":
                assert agent.state.is_streaming
                assert agent.state.stream_message is None or type(event).__name__.startswith(("Message", "Tool"))
            case _:
                pass
        number += 1
        if story.slow_listener:
            await asyncio.sleep(0)

    agent.subscribe(interrupt)
    for kind in story.runs:
        received.clear()
        pending = agent._pending() is not None
        running = asyncio.ensure_future(agent.prompt("go") if kind == "prompt" else agent.continue_())
        try:
            await running
        except asyncio.CancelledError:
            assert "cancel" in story.interruptions.values()
        except il.InterlinguaError as error:
            assert "nothing to continue" in str(error)
            assert [] == received
            continue
        assert not agent.running
        check_events(received, resumed=pending)
        check_pairing(agent.messages)
    check_pairing(agent.messages)
    check_wires(agent.messages)
    if session is not None:
        assert tuple(agent.messages) == session.messages


@settings(max_examples=150)
@given(stories)
def test_every_story_is_well_formed(story: Story) -> None:
    """Event order, pairing and every wire, after each run of a story; a session holds the same as the memory."""
    with tempfile.TemporaryDirectory() as folder:
        if not story.stored:
            asyncio.run(tell(story, None))
            return
        with Session.open(Path(folder) / "s.jsonl", sync="never") as session:
            asyncio.run(tell(story, session))
            before = session.messages
        with Session.open(Path(folder) / "s.jsonl") as again:
            assert before == again.messages
            assert () == again.unfinished_calls()
