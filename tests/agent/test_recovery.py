"""Going on after a crash: what finished is not repeated, what was half done is reported as unknown, the rest is run.

INTERLINGUA_KILLS says how many processes are killed; the normal run kills a few dozen.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from agent.grammar import check_events, check_pairing, check_wires
from agent.making import agent_of, call, calling, events_of, results, roles, text_result, texts, tool_of
from interlingua.agent import Agent, Compaction
from interlingua.connect.debug import Step
from interlingua.sessions import Session
from interlingua.sessions.store import SessionBusy
from interlingua.tools.tool import ToolResult
from interlingua.values.events import AgentEvent

KILLS = int(os.environ.get("INTERLINGUA_KILLS", "40"))
LIVES = 4  # of one session, at least

SCRIPT = (
    calling(call("work", "a"), call("work", "b"), call("alone", "c"), text="Let me work"),
    calling(call("work", "d"), thinking="once more"),
    calling(call("work", "e"), call("nobody", "f"), call("alone", "g")),
    Step(text="All done."),
)
CALLS = ("a", "b", "c", "d", "e", "g")


def working(effects: list[str]) -> list[Any]:
    """Tools whose effect is a line; of those that run side by side, the first ends last."""

    async def run(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        effects.append(id)
        if id == "a":
            await asyncio.sleep(0.005)
        return text_result(f"did {id}")

    return [tool_of("work", run), tool_of("alone", run, sequential=True)]


def worker(session: Session, effects: list[str]) -> Agent:
    return agent_of(*SCRIPT, tools=working(effects), session=session)


async def whole_run(path: Path) -> list[str]:
    effects: list[str] = []
    with Session.open(path) as session:
        check_events(await events_of(worker(session, effects), "go"))
    return effects


async def test_a_run_leaves_its_journal_beside_its_messages(tmp_path: Path) -> None:
    """Each call is noted when it begins; a result that cannot be written yet is noted whole; nothing is in the way."""
    assert sorted(CALLS) == sorted(await whole_run(tmp_path / "s.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    notes = [(line["kind"], line["callId"]) for line in lines if line["role"] == "journal"]
    assert {("tool_start", id) for id in CALLS} | {("tool_end", "b"), ("tool_end", "f")} >= set(notes)
    assert {("tool_start", id) for id in CALLS} | {("tool_end", "b")} <= set(notes)
    with Session.open(tmp_path / "s.jsonl") as session:
        check_pairing(session.messages)
        assert "All done." == texts(session.messages)[-1]


async def test_case_109_a_session_gives_back_what_the_run_had(tmp_path: Path) -> None:
    """The messages are equal, opaque fields included, and so is the next request, byte for byte."""
    with Session.open(tmp_path / "s.jsonl") as session:
        agent = worker(session, [])
        await agent.prompt("go")
        signed = il.AssistantMessage(
            content=(il.ThinkingBlock(thinking="t", thinking_signature="c2ln"), il.TextBlock(text="x")),
            api="anthropic-messages",
            provider="anthropic",
            model="claude",
            stop_reason="stop",
            extra={"anthropic-messages": {"odd": [1]}},
        )
        agent.history.append(signed)
        before = tuple(agent.messages)
    with Session.open(tmp_path / "s.jsonl") as session:
        after = tuple(worker(session, []).messages)
    assert before == after
    bodies = [
        il.dialect("anthropic-messages").encode_request(il.adapt(request, "anthropic-messages").request).bytes()
        for request in (
            il.Request(model=il.ModelDescriptor(id="claude"), context=il.Context(messages=messages))  # type: ignore[arg-type]
            for messages in (before, after)
        )
    ]
    assert bodies[0] == bodies[1]


def known_of(lines: list[dict[str, Any]]) -> tuple[set[str], set[str]]:
    """The calls that the lines know to have begun, and those whose outcome they hold."""
    begun = {line["callId"] for line in lines if line.get("kind") == "tool_start"}
    ended = {line["callId"] for line in lines if line.get("kind") == "tool_end"}
    return begun, ended | {line["toolCallId"] for line in lines if line["role"] == "toolResult"}


@pytest.mark.parametrize("seed", [None, 1, 2])
async def test_a_run_goes_on_after_a_crash_at_every_line(tmp_path: Path, seed: int | None) -> None:
    """The file is cut at each line (and inside the next); the run is taken up and comes to its end."""
    await whole_run(tmp_path / "whole.jsonl")
    whole = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    for kept in range(2, len(whole) + 1):
        path = tmp_path / f"{kept}.jsonl"
        torn = (
            whole[kept][: random.Random(seed + kept).randrange(len(whole[kept]))] if seed and kept < len(whole) else b""
        )
        path.write_bytes(b"".join(whole[:kept]) + torn)
        begun, ended = known_of([json.loads(line) for line in whole[:kept]])
        effects: list[str] = []
        with Session.open(path) as session:
            agent = worker(session, effects)
            last = agent.messages[-1]
            if isinstance(last, il.AssistantMessage) and not last.tool_calls:
                continue
            events = await events_of(agent, None)
            check_events(events, resumed=True)
            messages = session.messages
        check_pairing(messages)
        assert "All done." == texts(messages)[-1], kept
        assert not begun & set(effects), "a call that had begun ran again"
        assert set(CALLS) - begun == set(effects), "a call that had not begun did not run"
        assert len(effects) == len(set(effects))
        outcomes = {result.tool_call_id: result for result in results(messages)}
        for id in begun - ended:
            assert "not known whether" in texts([outcomes[id]])[0]
            assert ({"status": "unknown"}, True) == (outcomes[id].details, outcomes[id].is_error)
        for id in ended & set(CALLS):
            assert f"did {id}" == texts([outcomes[id]])[0]


async def test_a_new_prompt_first_settles_what_was_under_way(tmp_path: Path) -> None:
    """Whoever prompts instead of continuing gets the same: results first, then the new words."""
    await whole_run(tmp_path / "s.jsonl")
    lines = (tmp_path / "s.jsonl").read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"tool_start"' in line)
    (tmp_path / "s.jsonl").write_bytes(b"".join(lines[: at + 1]))
    with Session.open(tmp_path / "s.jsonl") as session:
        agent = worker(session, [])
        check_events(await events_of(agent, "new words"), resumed=True)
        text_so_far = texts(session.messages)
        check_pairing(session.messages)
    assert text_so_far.index("did c") < text_so_far.index("new words")


async def test_a_resumed_turn_tells_the_answer_it_belongs_to(tmp_path: Path) -> None:
    """`turn_end` and the hooks see the whole answer, not only the calls that were left."""
    await whole_run(tmp_path / "s.jsonl")
    lines = (tmp_path / "s.jsonl").read_bytes().splitlines(keepends=True)
    first_result = next(number for number, line in enumerate(lines) if b'"toolResult"' in line)
    (tmp_path / "s.jsonl").write_bytes(b"".join(lines[: first_result + 1]))
    seen: list[il.AssistantMessage] = []
    with Session.open(tmp_path / "s.jsonl") as session:
        agent = worker(session, [])
        agent.before_tool_call = lambda before: seen.append(before.message)
        events = await events_of(agent, None)
    assert ["a", "b", "c"] == [one.id for one in seen[0].tool_calls]
    turn = next(event for event in events if type(event).__name__ == "TurnEnd")
    assert turn.message == seen[0]  # type: ignore[union-attr]


async def test_a_call_that_this_process_cut_off_is_not_run_again(tmp_path: Path) -> None:
    """What the journal of the open session knows counts, not only what it knew when it was opened."""
    begun = asyncio.Event()
    effects: list[str] = []

    async def stubborn(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        effects.append(id)
        begun.set()
        await asyncio.sleep(60)
        return text_result("never")

    with Session.open(tmp_path / "s.jsonl") as session:
        agent = agent_of(calling(call("x")), "went on", tools=[tool_of("x", stubborn)], session=session)
        running = asyncio.ensure_future(agent.prompt("go"))
        await begun.wait()
        for _ in range(2):
            running.cancel()
            await asyncio.sleep(0.005)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert "done" == (await agent.continue_()).reason
        assert ["x"] == effects
        assert "not known whether" in texts(results(session.messages))[0]


async def test_case_107_an_agent_holds_the_active_context_alone(tmp_path: Path) -> None:
    """After a compaction the entries before it are on disk, not in memory; the file has all of them."""
    with Session.open(tmp_path / "s.jsonl") as session:
        for at in range(100):
            session.append(il.UserMessage(content=f"question {at}"))
            last = session.append(il.AssistantMessage(content=f"answer {at}"))
        session.compact("All of it.", last.id)
        agent = agent_of(*["-"] * 300, session=session)
        assert 2 == len(agent.messages)
        await agent.prompt("go on")
        assert 4 == len(agent.messages)
        assert 202 == len([m for m in session.messages if not isinstance(m, il.CustomMessage)])


async def test_case_108_no_progress_is_written_down(tmp_path: Path) -> None:
    """Deltas and updates are told, not stored: the file has one line per message and at most two per call."""

    async def chatty(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        for at in range(1000):
            on_update(text_result(f"{at}"))
        return text_result("done")

    with Session.open(tmp_path / "s.jsonl") as session:
        agent = agent_of(calling(call("x")), Step(text=("w",) * 1000), tools=[tool_of("x", chatty)], session=session)
        await agent.prompt("go")
    lines = [json.loads(line)["role"] for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert ["session", "user", "assistant", "journal", "toolResult", "assistant"] == lines


async def test_case_110_what_a_summary_left_is_the_context_after_a_restart_too(tmp_path: Path) -> None:
    """An agent that is made anew, with the same settings, reads what the first one read, and sums up no second time."""

    async def write(text: str, most: int) -> str:
        summaries.append(text)
        return "What came before."

    summaries: list[str] = []
    how = Compaction(window=40, reserve=10, keep=1, summarise=write)
    with Session.open(tmp_path / "s.jsonl") as session:
        for at in range(9):
            session.append(il.UserMessage(content=f"question {at}"))
            session.append(il.AssistantMessage(content=f"answer {at}"))
        agent = agent_of("short", *["short"] * 9, session=session, compaction=how)
        await agent.prompt("go")
        before = texts(agent.messages)
    with Session.open(tmp_path / "s.jsonl") as session:
        again = agent_of("short", *["short"] * 9, session=session, compaction=how)
        assert before == texts(again.messages)
        assert "What came before." in before[0]
        assert 1 == len(summaries)


async def test_case_111_a_chain_of_calls_is_recorded_whole(tmp_path: Path) -> None:
    """Every answer and every result, by prompt and by iterator alike."""
    recorded = []
    for name, driven in (("prompt", False), ("run", True)):
        with Session.open(tmp_path / f"{name}.jsonl") as session:
            agent = worker(session, [])
            if driven:
                async for _ in agent.run("go"):
                    pass
            else:
                await agent.prompt("go")
            recorded.append(list(zip(roles(session.messages), texts(session.messages), strict=True)))
    assert recorded[0] == recorded[1]
    assert 12 == len(recorded[0])


async def test_case_113_a_second_agent_on_a_session_is_refused(tmp_path: Path) -> None:
    """While one writes, another cannot open it for writing; reading is always possible."""
    with Session.open(tmp_path / "s.jsonl") as session:
        await worker(session, []).prompt("go")
        with pytest.raises(SessionBusy):
            Session.open(tmp_path / "s.jsonl")
        with Session.open(tmp_path / "s.jsonl", read_only=True) as reader:
            assert session.messages == reader.messages


async def test_case_112_a_line_that_cannot_be_read_is_skipped_and_reported(tmp_path: Path) -> None:
    """The agent goes on with what can be read; the history that goes to the model is still valid."""
    await whole_run(tmp_path / "s.jsonl")
    lines = (tmp_path / "s.jsonl").read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"toolResult"' in line)
    lines[at] = b'{"role": "toolResult", broken\n'
    (tmp_path / "s.jsonl").write_bytes(b"".join(lines))
    with Session.open(tmp_path / "s.jsonl") as session:
        assert session.problems
        agent = agent_of(*["-"] * 9, session=session)
        assert "done" == (await agent.prompt("still there?")).reason
        check_wires(agent.messages)


@pytest.mark.parametrize("wrong", ["repair", "orphans"])
async def test_cases_27_and_29_a_history_that_does_not_pair_goes_out_paired(wrong: str) -> None:
    """Aborted calls, missing and stray results: one repair, on the way out; a second one changes nothing."""
    ask = il.AssistantMessage(content=(il.ToolCall(id="a", name="x", arguments={}),), stop_reason="aborted")
    stray = il.ToolResultMessage(tool_call_id="zz", tool_name="x", content="r", is_error=False)
    history: list[Any] = [il.UserMessage(content="go"), ask, il.UserMessage(content="again")]
    if wrong == "orphans":
        history += [il.AssistantMessage(content=ask.content, stop_reason="toolUse"), stray, stray]
    agent = agent_of(*["-"] * 9, messages=history)
    await agent.prompt("on")
    context = il.Context(messages=tuple(agent.messages))  # type: ignore[arg-type]
    for api in ("anthropic-messages", "openai-completions"):
        once = il.adapt(il.Request(model=il.ModelDescriptor(id="m", api=api), context=context), api).request
        check_pairing(once.context.messages)
        assert once == il.adapt(once, api).request


# --- real processes ---------------------------------------------------------------------------------------------------

CHILD = Path(__file__).with_name("child.py")
TURNS = 12


def live(path: Path, effects: Path, chance: random.Random | None) -> list[str]:
    """One life of the agent, killed at a random moment after a random number of messages: what was acknowledged.

    Without chance it is left alone and must come to the end.
    """
    arguments = [sys.executable, str(CHILD), str(path), str(effects), str(TURNS)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"ready\n" == process.stdout.readline(), process.stderr.read().decode()
        output = b""
        if chance is not None:
            for _ in range(chance.randrange(12)):
                output += process.stdout.readline()
            time.sleep(chance.uniform(0, 0.01))
            process.send_signal(signal.SIGKILL)
        output += process.stdout.read()
        failed = process.stderr.read().decode()
    assert chance is not None or b"end\n" in output, failed
    whole = output[: output.rfind(b"\n") + 1].decode().splitlines()
    return [line.removeprefix("ack ") for line in whole if line.startswith("ack ")]


@pytest.mark.skipif(sys.platform == "win32", reason="kills processes as POSIX does")
@pytest.mark.parametrize("seed", range(-(-KILLS // LIVES)))
def test_a_run_survives_being_killed_at_any_moment(tmp_path: Path, seed: int, record_property: Any) -> None:
    """Each life goes on where the last ended: what was acknowledged is there, no call runs twice, the run ends."""
    path, effects, chance = tmp_path / "s.jsonl", tmp_path / "effects", random.Random(seed)
    acknowledged: set[str] = set()
    for _ in range(LIVES):
        acknowledged.update(live(path, effects, chance))
        with Session.open(path) as session:
            assert acknowledged <= {entry.id for entry in session.entries()}
            assert [] == [
                problem for problem in session.problems if problem.line and "truncated" not in problem.message
            ]
    acknowledged.update(live(path, effects, None))
    with Session.open(path) as session:
        messages = session.messages
        assert acknowledged <= {entry.id for entry in session.entries()}
    check_pairing(messages)
    assert "All done." == texts(messages)[-1]
    runs = Counter(effects.read_text().splitlines())
    doubled = [id for id, times in runs.items() if times > 1]
    for name, value in (("kills", LIVES), ("acknowledged", len(acknowledged)), ("lost", 0), ("doubled", len(doubled))):
        record_property(name, value)
    assert [] == doubled
    wanted = {f"{turn}.{n}" for turn in range(TURNS) for n in range(turn % 4)}
    outcomes = {result.tool_call_id: texts([result])[0] for result in results(messages)}
    for id in wanted:
        assert id in runs or "not known whether" in outcomes[id]
        assert outcomes[id] == f"did {id}" or "not known whether" in outcomes[id]


async def test_events_of_a_resumed_run_begin_with_what_was_left(tmp_path: Path) -> None:
    """Known results are told as messages alone; calls that run are told as calls."""
    await whole_run(tmp_path / "s.jsonl")
    lines = (tmp_path / "s.jsonl").read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"tool_end"' in line)
    (tmp_path / "s.jsonl").write_bytes(b"".join(lines[: at + 1]))
    received: list[AgentEvent] = []
    with Session.open(tmp_path / "s.jsonl") as session:
        agent = worker(session, [])
        agent.subscribe(received.append)
        await agent.continue_()
    check_events(received, resumed=True)
    started = [event.tool_call_id for event in received if type(event).__name__ == "ToolExecutionStart"]
    assert ["c", "d", "e", "f", "g"] == sorted(started)
