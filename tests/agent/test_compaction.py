"""Making room: within a tool loop, in parts, again and again, after a restart; and what cannot be made smaller."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlingua as il
from agent.grammar import check_pairing, check_wires
from agent.making import agent_of, call, calling, noted, text_result, texts, tool_of
from interlingua.agent import Agent, Compaction
from interlingua.agent.compaction import SMALLEST_PIECE, UNKNOWN_WINDOW
from interlingua.canvas.targets import window_of
from interlingua.connect.client import Client
from interlingua.connect.retry import NEVER
from interlingua.sessions import Session, compaction
from interlingua.testing import Server
from interlingua.values.errors import CannotCompact
from interlingua.values.messages import AgentMessage

SUMMARY = "## Goal\nTo go on."


class Writer:
    """Writes summaries, and keeps what it was asked."""

    def __init__(self, window: int | None = None, summary: str = SUMMARY) -> None:
        self.asked: list[str] = []
        self._window = window
        self._summary = summary

    async def __call__(self, prompt: str, most: int) -> str:
        if self._window is not None and len(prompt) > self._window * 4:
            raise il.ContextTooLong("too long")
        self.asked.append(prompt)
        return self._summary


def filler(tokens: int, mark: str = "word") -> str:
    return f"{mark} " + "abc " * tokens


def turns(count: int, tokens: int = 20) -> list[Any]:
    return [
        message
        for at in range(count)
        for message in (
            il.UserMessage(content=f"question {at} {filler(tokens)}"),
            il.AssistantMessage(content=f"answer {at} {filler(tokens)}"),
        )
    ]


# --- thinking --------------------------------------------------------------------------------------------------------


def refused(body: dict[str, Any]) -> bool:
    """Whether Claude refuses a request with a budget for thinking: an open tool turn must begin with thinking.

    platform.claude.com/docs/en/build-with-claude/extended-thinking, "Preserving thinking blocks".
    """
    messages = body["messages"]
    if body.get("thinking", {}).get("type") != "enabled" or not is_results(messages[-1]):
        return False
    start = max(at for at, one in enumerate(messages) if one["role"] == "user" and not is_results(one))
    first = next(one for one in messages[start:] if one["role"] == "assistant")
    return first["content"][0]["type"] not in ("thinking", "redacted_thinking")


def is_results(message: dict[str, Any]) -> bool:
    content = message["content"]
    return message["role"] == "user" and isinstance(content, list) and content[-1]["type"] == "tool_result"


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("interleaved", [True, False])
async def test_a_turn_that_was_cut_is_sent_as_claude_takes_it(stored: bool, interleaved: bool, tmp_path: Path) -> None:
    """With thinking on, in the middle of a tool loop, however often room is made in it."""
    note, _ = noted()
    writer = Writer()
    async with Server() as server:
        for at in range(12):
            thinking = il.ThinkingBlock(thinking="Hm.", thinking_signature=f"sig{at}")
            blocks = (il.TextBlock(text=filler(100)), il.ToolCall(id=f"c{at}", name="note", arguments={}))
            server.answer((thinking, *blocks) if interleaved or at == 0 else blocks, times=1)
        server.answer("done")
        session = Session.open(tmp_path / "s.jsonl") if stored else None
        agent = Agent(
            "anthropic/claude-sonnet-4-5",
            [note],
            client=Client(retry=NEVER),
            session=session,
            reasoning=2000,
            max_tokens=8000,
            api_key="k",
            base_url=server.base_url("anthropic-messages"),
            compaction=Compaction(window=1500, reserve=500, keep=200, summarise=writer),
        )
        result = await agent.prompt("go")
        bodies = [json.loads(received.body) for received in server.requests]
    assert ("done", 13) == (result.reason, len(bodies))
    assert len(writer.asked) > 1
    assert [False] * 13 == [refused(body) for body in bodies]
    assert {"enabled", "disabled"} >= {body.get("thinking", {}).get("type", "disabled") for body in bodies}
    if session is not None:
        assert {f"sig{at}" for at in range(12 if interleaved else 1)} == signatures(session.messages)
        session.close()


def signatures(messages: Any) -> set[str]:
    return {
        block.thinking_signature
        for message in messages
        if isinstance(message, il.AssistantMessage)
        for block in il.values.messages.blocks_of(message.content)
        if isinstance(block, il.ThinkingBlock)
    }


def test_what_followed_reasoning_does_not_name_it_once_it_is_gone() -> None:
    """OpenAI refuses an item that it knows to have followed reasoning which is not sent; unsigned thinking stays."""
    own = {"openai-responses": {"id": "fc_1", "status": "completed"}}
    message = il.AssistantMessage(
        content=(
            il.ThinkingBlock(thinking="hm", thinking_signature="sealed", extra={"openai-responses": {"id": "rs_1"}}),
            il.ToolCall(id="c", name="x", arguments={}, extra=own),
        )
    )
    kept = compaction.unsigned(message)
    assert isinstance(kept, il.AssistantMessage)
    assert {"openai-responses": {"status": "completed"}} == kept.tool_calls[0].extra
    plain = il.AssistantMessage(content=(il.ThinkingBlock(thinking="hm"), il.ToolCall(id="c", name="x", arguments={})))
    assert plain == compaction.unsigned(plain)


# --- what does not fit at once ---------------------------------------------------------------------------------------


async def test_a_summary_that_one_request_cannot_hold_is_written_in_parts() -> None:
    """Each part goes on from the summary of those before; nothing is left out, and no request is too large."""
    writer = Writer()
    history = turns(100, 60)
    agent = agent_of("x", messages=history, compaction=Compaction(window=2000, reserve=500, keep=200, summarise=writer))
    done = await agent.compact()
    assert done is not None
    assert len(writer.asked) > 5
    assert all(len(asked) < 2000 * 4 for asked in writer.asked)
    assert [SUMMARY in asked for asked in writer.asked] == [False, *[True] * (len(writer.asked) - 1)]
    kept = texts(agent.messages)[1:]
    shown = "".join(writer.asked)
    assert [] == [text for text in texts(history) if text not in kept and text[:40] not in shown]


async def test_a_part_that_is_refused_is_divided_again() -> None:
    """The estimate may be wrong: of other scripts, or of a model with a smaller window."""
    writer = Writer(window=1200)
    agent = agent_of("x", messages=turns(60, 60), compaction=Compaction(window=50_000, keep=200, summarise=writer))
    assert await agent.compact() is not None
    assert len(writer.asked) > 2


async def test_a_writer_that_takes_nothing_is_an_error_and_nothing_is_changed() -> None:
    """It does not go on for ever."""
    history = turns(20, 60)
    agent = agent_of("x", messages=history, compaction=Compaction(keep=100, summarise=Writer(window=0)))
    with pytest.raises(CannotCompact, match="no request for a summary is short enough"):
        await agent.compact()
    assert history == list(agent.messages)


@pytest.mark.parametrize("stored", [True, False])
async def test_a_huge_result_is_summed_up_whole_and_the_run_goes_on(stored: bool, tmp_path: Path) -> None:
    """A call cannot be cut from its result: the turn is summed up, with all of a result that nobody has read yet."""
    lines = [f"line {at} {filler(20)}" for at in range(3000)]
    read = tool_of("read", lambda *_: text_result("\n".join(lines)))
    writer = Writer()
    session = Session.open(tmp_path / "s.jsonl") if stored else None
    how = Compaction(window=20_000, reserve=4000, keep=2000, summarise=writer)
    steps = [calling(call("read"), text="I read it."), "done"]
    agent = agent_of(lambda request: steps.pop(0), tools=[read], session=session, compaction=how)
    result = await agent.prompt("What is in the file?")
    assert ("done", "done") == (result.reason, texts(agent.messages)[-1])
    assert len(writer.asked) > 3
    shown = "".join(writer.asked)
    assert [] == [line for line in lines[:: len(lines) // 50] if line[:12] not in shown]
    assert "What is in the file?" in shown
    assert [il.UserMessage, il.AssistantMessage] == [type(message) for message in agent.messages]
    check_wires(agent.messages)
    if session is not None:
        assert "\n".join(lines) in texts(session.messages)
        session.close()


async def test_a_prompt_that_alone_is_too_large_is_summed_up() -> None:
    """The user's own words, in parts."""
    writer = Writer()
    agent = agent_of("done", compaction=Compaction(window=5000, reserve=1000, keep=500, summarise=writer))
    result = await agent.prompt(f"Translate this: {filler(20_000)} the very end")
    assert "done" == result.reason
    assert "Translate this" in writer.asked[0]
    assert "the very end" in writer.asked[-1]


# --- what cannot be made to fit --------------------------------------------------------------------------------------


PICTURE = il.ImageBlock(data="iVBORw0KGgo=", mime_type="image/png")


@pytest.mark.parametrize(
    ("history", "options", "why"),
    [
        ([il.UserMessage(content=(il.TextBlock(text=filler(9000)), PICTURE))], {}, "holds pictures or files"),
        (turns(3), {"system": filler(9000)}, "the system text and the tools leave no room"),
        (
            [
                il.UserMessage(content=filler(9000)),
                il.AssistantMessage(content=(il.ToolCall(id="c", name="x", arguments={}),)),
            ],
            {},
            "it waits for results",
        ),
    ],
)
async def test_what_cannot_be_made_smaller_is_a_typed_error(
    history: list[AgentMessage], options: dict[str, Any], why: str
) -> None:
    """That says why; nothing is changed."""
    how = Compaction(window=5000, reserve=1000, keep=500, summarise=Writer())
    agent = agent_of("x", messages=history, compaction=how, **options)
    with pytest.raises(CannotCompact, match=why):
        await agent.compact()
    assert history == list(agent.messages)


async def test_a_run_that_cannot_make_room_ends_with_that_error() -> None:
    """The provider's refusal is its cause."""

    def reply(request: il.Request) -> Any:
        return il.ContextTooLong("too long", status=400)

    agent = agent_of(reply, compaction=Compaction(window=5000, reserve=1000, keep=500, summarise=Writer()))
    result = await agent.prompt([il.UserMessage(content=(il.TextBlock(text="look"), PICTURE))])
    assert ("error", CannotCompact) == (result.reason, type(result.failure))
    assert isinstance(result.failure.__cause__, il.ContextTooLong)  # type: ignore[union-attr]
    assert "cannot compact" in str(result.failure)


async def test_a_run_whose_summary_fails_ends_with_that_error(caplog: pytest.LogCaptureFixture) -> None:
    """Also when whoever writes it wants to end the host."""

    async def broken(text: str, most: int) -> str:
        raise SystemExit("no summary today")

    def reply(request: il.Request) -> Any:
        return il.ContextTooLong("too long", status=400)

    agent = agent_of(reply, messages=turns(6), compaction=Compaction(keep=1, summarise=broken))
    result = await agent.prompt("go")
    assert isinstance(result.failure, CannotCompact)
    assert "no summary today" in str(result.failure)


async def test_a_summary_that_saves_nothing_is_not_stored() -> None:
    """Else room would be made again before every answer."""
    history = turns(6, 200)
    writer = Writer(summary=filler(9000))
    agent = agent_of("x", messages=history, compaction=Compaction(window=2000, reserve=500, keep=100, summarise=writer))
    with pytest.raises(CannotCompact, match="not shorter than the text it replaces"):
        await agent.compact()
    assert history == list(agent.messages)


# --- what it says ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False])
async def test_a_compaction_says_how_much_it_saved(stored: bool, tmp_path: Path) -> None:
    """Tokens before and after, in the result and in the session; None where nothing is old enough."""
    session = Session.open(tmp_path / "s.jsonl") if stored else None
    how = Compaction(keep=100, summarise=Writer())
    agent = agent_of("x", messages=turns(50, 60), session=session, system=filler(50), compaction=how)
    done = await agent.compact(focus="the tests")
    assert done is not None
    assert 50 * 2 * 60 < done.tokens_before < 50 * 2 * 90
    assert 100 < done.tokens_after < 600
    assert done.saved == done.tokens_before - done.tokens_after
    assert SUMMARY in done.summary
    assert await agent.compact() is None
    if session is not None:
        (entry,) = [one.message for one in session.path() if isinstance(one.message, il.CustomMessage)]
        assert (done.tokens_before, done.tokens_after) == (entry.fields["tokensBefore"], entry.fields["tokensAfter"])
        session.close()


async def test_what_answers_reported_counts_more_than_an_estimate() -> None:
    """The size is the provider's own count, and what is kept is judged by it."""
    history = turns(20, 60)
    history[-1] = il.AssistantMessage(content="answer", usage=il.Usage.of(180_000, 10))
    agent = agent_of("x", messages=history, compaction=Compaction(window=200_000, summarise=Writer()))
    done = await agent.compact()
    assert done is not None
    assert 180_010 == done.tokens_before
    assert done.tokens_after < 60_000


async def test_a_small_window_leaves_room_for_an_answer() -> None:
    """The reserve is never more than half of it, so that not every turn sums up."""
    writer = Writer()
    agent = agent_of("one", "two", compaction=Compaction(window=8192, summarise=writer))
    await agent.prompt("go")
    await agent.prompt("go on")
    assert [] == writer.asked


async def test_attachments_are_named_in_what_is_summed_up() -> None:
    """A summary cannot hold them; the text of a document is shown."""
    writer = Writer()
    report = il.DocumentBlock(data="JVBERi0=", mime_type="application/pdf", title="report.pdf")
    notes = il.DocumentBlock(text="the notes themselves", title="notes.txt")
    history = [il.UserMessage(content=(il.TextBlock(text="Look:"), PICTURE, report, notes)), *turns(5, 60)]
    agent = agent_of("x", messages=history, compaction=Compaction(keep=100, summarise=writer))
    assert await agent.compact() is not None
    assert "[3 attached] (image image/png, document report.pdf application/pdf, document notes.txt)" in writer.asked[0]
    assert "the notes themselves" in writer.asked[0]


# --- again, and later ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False])
async def test_a_second_compaction_brings_the_first_up_to_date(stored: bool, tmp_path: Path) -> None:
    """What the first kept is summed up or kept again, once; the earlier summary is shown once, as what it is."""
    writer = Writer()
    session = Session.open(tmp_path / "s.jsonl") if stored else None
    how = Compaction(keep=150, summarise=writer)
    agent = agent_of(*["x"] * 99, messages=turns(20, 60), session=session, compaction=how)
    assert await agent.compact() is not None
    first = len(writer.asked)
    kept = texts(agent.messages)[1:]
    for message in turns(20, 60):
        agent.history.append(message)
    assert await agent.compact() is not None
    asked = "".join(writer.asked[first:])
    assert (1, True) == (asked.count("<previous-summary>"), f"<previous-summary>\n{SUMMARY}" in asked)
    assert [] == [text for text in kept if text[:20] not in asked]
    assert "too long to keep in full" not in asked
    if session is not None:
        session.close()


async def test_a_session_goes_on_after_a_compaction_in_a_tool_loop(tmp_path: Path) -> None:
    """Made anew, the agent reads what the first one read, runs what was not run, and can make room again."""
    effects: list[str] = []

    async def work(id: str, params: Any) -> str:
        effects.append(id)
        return filler(200)

    how = Compaction(window=1500, reserve=500, keep=200, summarise=Writer())
    steps = [*(calling(call("work", f"c{at}"), text=filler(50)) for at in range(8)), "done"]
    tools = [tool_of("work", work)]

    def script() -> Any:
        return lambda request: steps[min(len(effects), 8)]

    with Session.open(tmp_path / "s.jsonl") as session:
        first = agent_of(script(), tools=tools, session=session, compaction=how, limits=il.agent.Limits(turns=5))
        await first.prompt("go")
        before = list(first.messages)
    with Session.open(tmp_path / "s.jsonl") as session:
        second = agent_of(script(), tools=tools, session=session, compaction=how)
        assert before == list(second.messages)
        result = await second.continue_()
        check_pairing(second.messages)
        check_wires(second.messages)
        assert ("done", [f"c{at}" for at in range(8)]) == (result.reason, effects)
        assert 8 == sum(isinstance(message, il.ToolResultMessage) for message in session.messages)


CHILD = """
import asyncio, os, signal, sys
from agent.making import agent_of
from interlingua.agent import Compaction
from interlingua.sessions import Session

async def main(path, when):
    with Session.open(path) as session:
        async def write(text, most):
            if when == "while it is written":
                os.kill(os.getpid(), signal.SIGKILL)
            return "What came before."
        how = Compaction(window=2000, reserve=500, keep=200, summarise=write)
        agent = agent_of("x", session=session, compaction=how)
        append = session.append
        def killed(message):
            entry = append(message)
            if getattr(message, "role", None) == "compaction":
                os.kill(os.getpid(), signal.SIGKILL)
            return entry
        if when == "when it is stored":
            session.append = killed
        await agent.prompt("my words")

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("when", ["while it is written", "when it is stored"])
async def test_a_kill_during_a_compaction_costs_nothing(when: str, tmp_path: Path) -> None:
    """The session has every message, the prompt too, and goes on; the summary is there whole or not at all."""
    path = tmp_path / "s.jsonl"
    history = turns(20, 60)
    with Session.open(path) as session:
        for message in history:
            session.append(message)
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    done = subprocess.run(
        [sys.executable, str(script), str(path), when],
        env={"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert -9 == done.returncode, done.stderr
    writer = Writer()
    with Session.open(path) as session:
        spoken = [message for message in session.messages if not isinstance(message, il.CustomMessage)]
        assert [*texts(history), "my words"] == texts(spoken)
        how = Compaction(window=2000, reserve=500, keep=200, summarise=writer)
        agent = agent_of(lambda request: "here I am", session=session, compaction=how)
        result = await agent.continue_()
    assert ("done", "here I am") == (result.reason, texts(agent.messages)[-1])
    assert (when == "while it is written") == bool(writer.asked)


# --- the law ---------------------------------------------------------------------------------------------------------


@st.composite
def loops(draw: st.DrawFn) -> list[AgentMessage]:
    """Histories with tool loops, answered throughout, some of them thoughtful."""
    messages: list[AgentMessage] = []
    count = 0
    for _ in range(draw(st.integers(1, 5))):
        messages.append(il.UserMessage(content=filler(draw(st.integers(1, 80)), "ask")))
        for _ in range(draw(st.integers(0, 4))):
            size = draw(st.integers(1, 3))
            calls = tuple(il.ToolCall(id=f"c{count + at}", name="x", arguments={}) for at in range(size))
            thinking = (il.ThinkingBlock(thinking="hm", thinking_signature="s"),) * draw(st.integers(0, 1))
            messages.append(
                il.AssistantMessage(
                    content=(*thinking, *calls),
                    api="anthropic-messages",
                    model="claude-sonnet-4-5",
                    provider="anthropic",
                )
            )
            messages += [
                il.ToolResultMessage(
                    tool_call_id=one.id,
                    tool_name="x",
                    content=filler(draw(st.integers(1, 300)), one.id),
                    is_error=False,
                )
                for one in calls
            ]
            count += size
        if draw(st.booleans()):
            messages.append(il.AssistantMessage(content="so"))
    return messages


@settings(max_examples=60, deadline=None)
@given(history=loops(), window=st.integers(600, 4000), overflowed=st.booleans())
async def test_what_is_left_of_any_history_can_be_sent(
    history: list[AgentMessage], window: int, overflowed: bool
) -> None:
    """Calls and results stay paired, Claude takes it while it thinks, and it is smaller where it must be."""
    how = Compaction(window=window, reserve=300, keep=100, summarise=Writer())
    agent = agent_of("x", messages=history)
    try:
        done = await how.compact(agent, overflowed=overflowed)
    except CannotCompact:
        assert history == list(agent.messages)
        return
    check_pairing(agent.messages)
    if done is not None and overflowed:
        assert done.saved > 0
    context = il.Context(messages=tuple(agent.messages))  # type: ignore[arg-type]
    model = il.ModelDescriptor(id="claude-sonnet-4-5", api="anthropic-messages", provider="anthropic")
    asked = il.Request(model=model, context=context, options=il.Options(reasoning=2000, max_tokens=8000))  # type: ignore[arg-type]
    adapted, _ = il.adapt(asked, model)[:2]
    body = il.dialect("anthropic-messages").encode_request(adapted).body
    assert not refused(body)
    results = [m for m in agent.messages if isinstance(m, il.ToolResultMessage)]
    assert all(result.tool_call_id in json.dumps(body) for result in results)
    assert "No result was recorded" not in json.dumps(body)


def test_pieces_hold_all_of_a_conversation() -> None:
    """Parted between messages where that can be done, and within one that is too long."""
    entries = [il.Entry(message=message, id=str(at)) for at, message in enumerate(turns(10, 40))]
    entries.append(il.Entry(message=il.UserMessage(content="é" * 5000), id="long"))
    found = compaction.pieces(entries, SMALLEST_PIECE)
    assert all(len(piece.encode()) <= SMALLEST_PIECE * 3 + 20 for piece in found)
    assert 5000 == sum(piece.count("é") for piece in found)
    assert compaction.flat(entries[:-1]) in "\n\n".join(found)


# --- the window of the model -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sonnet", "claude-sonnet-4-5", "mine", "anthropic/claude-sonnet-4-5"])
async def test_room_is_made_by_the_window_of_the_model_that_a_name_means(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A family, a bare id, an alias: not the window of a model that nobody knows, which is smaller here."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    (tmp_path / "models.toml").write_text('[aliases]\nmine = "anthropic/claude-sonnet-4-5"\n')
    agent = Agent(model=name, messages=[il.UserMessage(content=filler(UNKNOWN_WINDOW))])
    assert not await Compaction(reserve=0).due(agent)
    assert await Compaction(reserve=0).due(Agent(model="nobody/knows", messages=agent.history.messages))


def test_the_canvas_knows_the_window_of_a_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same resolver as a call has."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    known = window_of("anthropic", "claude-sonnet-4-5")
    assert known[0] is not None and known == window_of(None, "claude-sonnet-4-5")
    assert window_of(None, "sonnet")[0] is not None and (None, None) == window_of(None, "nobody knows")
