"""One run on its session, without a queue: what a worker finds there, and what it makes of it."""

from pathlib import Path
from typing import Any

import pytest

import durable.crew as _crew  # noqa: F401  (its agents are named)
import interlingua as il
from interlingua.durable.orders import Order, Outcome, RunFailed
from interlingua.durable.worker import executed
from interlingua.sessions import Session, SessionError
from interlingua.values.messages import AgentMessage, text_of

PROMPT = il.UserMessage(content="go")


def order(agent: str, **arguments: Any) -> Order:
    return Order(id="r", agent=agent, session="s", prompt=(PROMPT,), arguments=arguments)


async def taken_up(folder: Path, asked: Order, *messages: AgentMessage, journal: tuple[str, ...] = ()) -> Outcome:
    """The outcome of a run in whose session this was said already."""
    with Session.open("s", home=folder) as session:
        for at, message in enumerate(messages):
            session.append(message, id="r.0" if at == 0 else None)
        for call in journal:
            session.journal("tool_start", call_id=call, name="mark")
        return await executed(asked, session, il.Abort())


def texts(folder: Path) -> list[str]:
    with Session.open("s", home=folder, read_only=True) as session:
        return [text_of(message.content) for message in session.messages]  # type: ignore[union-attr]


def calling(*ids: str) -> il.AssistantMessage:
    calls = tuple(il.ToolCall(id=id, name="mark", arguments={}) for id in ids)
    used = il.Usage(input=3, output=4, cache_read=0, cache_write=0, total_tokens=7)
    return il.AssistantMessage(content=calls, stop_reason="toolUse", usage=used)


async def test_a_finished_run_is_only_read(tmp_path: Path) -> None:
    """Its worker died after the last answer: nothing is asked again."""
    answer = il.AssistantMessage(content="as before", stop_reason="stop")
    outcome = await taken_up(tmp_path, order("echo"), PROMPT, answer)
    assert ("done", "as before", 1) == (outcome.reason, outcome.text, outcome.turns)
    assert ["go", "as before"] == texts(tmp_path)


async def test_a_failed_answer_is_asked_for_again(tmp_path: Path) -> None:
    """What was cut off is no end; the prompt is not said twice."""
    broken = il.AssistantMessage(content="half an ans", stop_reason="aborted")
    outcome = await taken_up(tmp_path, order("echo"), PROMPT, broken)
    assert outcome.text.endswith('You said: "go"')
    assert ["go", "half an ans", outcome.text] == texts(tmp_path)


async def test_a_final_answer_that_is_not_of_the_schema_is_sent_back(tmp_path: Path) -> None:
    """The correction goes on where the worker died before it."""
    wrong = il.AssistantMessage(content="well", stop_reason="stop")
    outcome = await taken_up(tmp_path, order("judge"), PROMPT, wrong)
    assert {"verdict": "guilty"} == outcome.output
    assert "Your answer does not match the requested format" in texts(tmp_path)[2]


async def test_calls_are_answered_even_where_a_limit_is_reached(tmp_path: Path) -> None:
    """The last answer that the limit allows has its calls run; then the run ends, with all that its lives used."""
    asked = order("limited", file=str(tmp_path / "traces"), turns=1)
    outcome = await taken_up(tmp_path, asked, PROMPT, calling("a", "b"), journal=("a",))
    assert ("limit: 1 turns", 1, 7, ("a",)) == (outcome.reason, outcome.turns, outcome.tokens, outcome.unknown)
    assert ["effect b"] == [line.rpartition(" ")[0] for line in (tmp_path / "traces").read_text().splitlines()[1:]]


async def test_a_limit_that_was_reached_stays_reached(tmp_path: Path) -> None:
    """No life of a run gets more than is left."""
    asked = order("limited", file=str(tmp_path / "traces"), turns=1)
    result = il.ToolResultMessage(tool_call_id="a", content="did a", is_error=False)
    outcome = await taken_up(tmp_path, asked, PROMPT, calling("a"), result)
    assert ("limit: 1 turns", 1) == (outcome.reason, outcome.turns)
    assert 3 == len(texts(tmp_path))


async def test_what_an_earlier_run_left_open_is_answered_and_not_run(tmp_path: Path) -> None:
    """Calls of a run that was given up: begun ones are unknown, the others did not run; then the prompt is said."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="earlier"))
        session.append(calling("a", "b", "c"))
        session.journal("tool_start", call_id="a", name="mark")
        session.journal("tool_start", call_id="b", name="mark")
        done = {"role": "toolResult", "toolCallId": "b", "content": "did b", "isError": False}
        session.journal("tool_end", call_id="b", name="mark", result=done)
        outcome = await executed(order("echo"), session, il.Abort())
    assert () == outcome.unknown  # of this run
    contents = texts(tmp_path)
    assert ("not known" in contents[2], contents[3], "was not run" in contents[4], contents[5]) == (
        True,
        "did b",
        True,
        "go",
    )


async def test_a_model_that_fails_fails_the_run(tmp_path: Path) -> None:
    """With what the model said."""
    with pytest.raises(RunFailed, match="no such model"):
        await taken_up(tmp_path, order("failing"))


async def test_a_session_that_cannot_be_written_is_not_the_runs_fault(tmp_path: Path) -> None:
    """It is raised as it is, so that the run can be tried again."""
    with Session.open("s", home=tmp_path) as session:
        session.append(PROMPT, id="r.0")
    with Session.open("s", home=tmp_path, read_only=True) as session, pytest.raises(SessionError):
        await executed(order("echo"), session, il.Abort())
