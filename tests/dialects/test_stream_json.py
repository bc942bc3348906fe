"""What Gemini CLI and Codex print for programs: JSON lines of a run."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.dialects.files import codex_exec, gemini_stream

WIRE = Path(__file__).parents[1] / "wire"
GEMINI = (WIRE / "gemini-stream/run.jsonl").read_bytes()
CODEX = (WIRE / "codex-exec-stream/run.jsonl").read_bytes()


def lines(data: bytes) -> list[object]:
    return [json.loads(line) for line in data.splitlines()]


def test_deltas_of_gemini_are_one_text_and_calls_up_to_the_first_result_one_answer() -> None:
    """And come back as the lines that they were, through our own JSON."""
    (session,) = il.read(GEMINI)
    assert ["user", "assistant", "toolResult", "toolResult", "assistant"] == [
        m.role for m in session.messages if not isinstance(m, il.CustomMessage)
    ]
    answer = next(m for m in session.messages if isinstance(m, il.AssistantMessage))
    assert ("I will count.", ["run_shell_command", "read_file"]) == (answer.text, [c.name for c in answer.tool_calls])
    assert ("gemini-x", 2) == (answer.model, len(answer.tool_calls))
    assert lines(GEMINI) == gemini_stream.encode(il.load(il.dump(session))).body


def test_the_total_of_gemini_includes_thoughts() -> None:
    """They are in the total alone; input includes what was cached."""
    (session,) = il.read(GEMINI)
    assert (40, 30, 60) == (session.usage.input, session.usage.output, session.usage.cache_read)  # type: ignore[union-attr]


def test_a_call_of_codex_stands_with_what_it_gave() -> None:
    """Commands and calls of servers; what is on its way, and lists of things to do, are no messages."""
    (session,) = il.read(CODEX)
    assert ["item_2", "item_3"] == [m.tool_call_id for m in session.messages if isinstance(m, il.ToolResultMessage)]
    assert ["12\n", "Found"] == [m.text for m in session.messages if isinstance(m, il.ToolResultMessage)]
    assert (40, 20, 60) == (session.usage.input, session.usage.output, session.usage.cache_read)  # type: ignore[union-attr]
    assert lines(CODEX) == codex_exec.encode(il.load(il.dump(session))).body
    assert "No result was recorded" not in il.encode(session, "openai-completions").bytes().decode()


def test_a_text_that_was_changed_is_written_as_it_is_now() -> None:
    """Pieces are cut only where the text still has their length."""
    (session,) = il.read(GEMINI)
    entries = list(session.entries)
    at = next(
        n for n, e in enumerate(entries) if isinstance(e.message, il.AssistantMessage) and not e.message.tool_calls
    )
    longer = il.AssistantMessage(content=(il.TextBlock(text="Twelve lines."),))
    entries[at] = il.Entry(message=longer, extra=entries[at].extra)
    changed = il.Conversation(entries=tuple(entries), extra=session.extra)
    assert "Twelve lines." in json.dumps(list(gemini_stream.encode(changed).body))


def edited(session: il.Conversation, at: int, **fields: Any) -> il.Conversation:
    """The session with these fields of a message changed."""
    message: Any = replace(session.entries[at].message, **fields)  # type: ignore[type-var]
    entries = [*session.entries]
    entries[at] = replace(entries[at], message=message)
    return replace(session, entries=tuple(entries))


def changed_lines(before: bytes, session: il.Conversation, name: str) -> tuple[list[Any], list[Any]]:
    """The lines that are not in the file any more, and the new ones; all others are in their order."""
    old, encoded = lines(before), il.encode(session, name, adapt=False)
    assert not encoded.losses
    new = [*encoded.body]
    assert [line for line in old if line in new] == [line for line in new if line in old]
    return [line for line in old if line not in new], [line for line in new if line not in old]


def test_an_edited_answer_of_gemini_has_its_texts_and_calls() -> None:
    """Each block has the lines that it was read from; what was removed has none, what was added one of its own."""
    (session,) = il.read(GEMINI)
    first, second, third = session.entries[2].message.content  # type: ignore[union-attr]
    longer = edited(session, 2, content=(il.TextBlock(text="I will count all."), second, third))
    assert [line["content"] for line in changed_lines(GEMINI, longer, "gemini-stream")[1]] == ["count all."]
    shorter = edited(session, 2, content=(il.TextBlock(text="I"), second, third))
    assert [line["content"] for line in changed_lines(GEMINI, shorter, "gemini-stream")[1]] == ["I", ""]
    silent = edited(session, 2, content=(second, third))
    gone, new = changed_lines(GEMINI, silent, "gemini-stream")
    assert ([line["content"] for line in gone], new) == (["I will ", "count."], [])
    talking = edited(session, 2, content=(first, second, third, il.TextBlock(text="Wait.")))
    gone, new = changed_lines(GEMINI, il.load(il.dump(talking)), "gemini-stream")
    assert (gone, [line["content"] for line in new]) == ([], ["Wait."])
    again = il.decode(il.encode(talking, "gemini-stream").bytes())
    assert again.messages[2].content == talking.messages[2].content  # type: ignore[union-attr]
    spoken = edited(session, 2, content="Never mind.")
    assert [line["content"] for line in changed_lines(GEMINI, spoken, "gemini-stream")[1]] == ["Never m", "ind."]


def test_several_edited_answers_of_gemini_stay_in_their_order() -> None:
    """One has more lines than it was read from, one fewer, and one of a single line several."""
    run: list[dict[str, Any]] = [{"type": "init", "session_id": "s", "model": "gemini-x"}]
    run += [{"type": "message", "role": "user", "content": "Count"}]
    for number in (1, 2):
        run += [{"type": "message", "role": "assistant", "content": f"Step {number}.", "delta": True}]
        run += [{"type": "tool_use", "tool_name": "ls", "tool_id": f"c{number}", "parameters": {}}]
        run += [{"type": "tool_result", "tool_id": f"c{number}", "status": "success", "output": f"{number}"}]
    run += [{"type": "message", "role": "assistant", "content": "Twelve.", "delta": True}]
    run += [{"type": "result", "status": "success"}]
    for second, line in enumerate(run):
        line["timestamp"] = f"2026-01-01T00:00:{second:02}.000Z"
    session = gemini_stream.decode(run)
    answers = [n for n, entry in enumerate(session.entries) if isinstance(entry.message, il.AssistantMessage)]
    content: list[Any] = [session.entries[n].message.content for n in answers]  # type: ignore[union-attr]
    call = il.ToolCall(id="c3", name="ls", arguments={})
    changed = ((*content[0], il.TextBlock(text="Wait.")), content[1][1:], (*content[2], call))
    for at, blocks in zip(answers, changed, strict=True):
        session = edited(session, at, content=blocks)
    for given in (session, il.load(il.dump(session))):
        encoded = il.encode(given, "gemini-stream", adapt=False)
        assert not encoded.losses
        assert [line.get("content") or line.get("tool_id") or line["type"] for line in encoded.body] == (
            ["init", "Count", "Step 1.", "c1", "Wait.", "c1", "c2", "c2", "Twelve.", "c3", "result"]
        )
        again = gemini_stream.decode([*encoded.body]).messages
        assert changed == tuple(message.content for message in again if isinstance(message, il.AssistantMessage))


def test_a_result_of_gemini_may_be_emptied() -> None:
    """The message of its error is not its text again."""
    (session,) = il.read(GEMINI)
    (new,) = changed_lines(GEMINI, edited(session, 4, content=""), "gemini-stream")[1]
    assert (new["output"], new["error"]["message"]) == ("", "no such file")


def test_what_gemini_has_no_line_for_is_reported_where_it_is() -> None:
    (session,) = il.read(GEMINI)
    thought = il.ThinkingBlock(thinking="Hm.")
    message: Any = session.entries[5].message
    losses = il.encode(edited(session, 5, content=(*message.content, thought)), "gemini-stream", adapt=False).losses
    assert [(loss.path, loss.what) for loss in losses] == [("$.messages[5].content", "ThinkingBlock")]


def test_an_edited_answer_of_codex_has_its_items() -> None:
    """Each block is the item that it was read from; what was removed is gone, and the rest is as it was."""
    (session,) = il.read(CODEX)
    message: Any = session.entries[2].message
    thought, text, call = message.content
    gone, new = changed_lines(CODEX, edited(session, 2, content=(text, call)), "codex-exec-stream")
    assert ([line["item"]["id"] for line in gone], new) == (["item_0"], [])
    added = edited(session, 2, content=(thought, text, il.TextBlock(text="Wait."), call))
    gone, new = changed_lines(CODEX, il.load(il.dump(added)), "codex-exec-stream")
    assert (gone, new) == ([], [{"type": "item.completed", "item": {"type": "agent_message", "text": "Wait."}}])
    moved = il.encode(edited(session, 2, content=(call, text)), "codex-exec-stream", adapt=False)
    assert [(loss.path, loss.what) for loss in moved.losses] == [("$.messages[2]", "content")]
    assert [line for line in moved.body if line in lines(CODEX)][1:] == lines(CODEX)[1:2] + lines(CODEX)[3:]


def item(id: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": id, "type": kind, **fields}}


def started(id: str) -> dict[str, Any]:
    return {"type": "item.started", "item": {"id": id, "type": "command_execution", "command": "wc"}}


def command(id: str) -> dict[str, Any]:
    return item(id, "command_execution", command="wc")


RUN = [
    item("a", "reasoning", text="Count."),
    item("b", "agent_message", text="Wait."),
    item("c", "command_execution", command="wc", aggregated_output="12"),
    *(started("d"), command("d"), started("e"), command("e"), item("f", "reasoning", text="Twelve.")),
]
NEW = il.TextBlock(text="New.")


def written(content: dict[int, list[Any]]) -> list[str]:
    """The lines when these messages have these blocks."""
    session = codex_exec.decode(RUN)
    for at, blocks in content.items():
        session = edited(session, at, content=tuple(blocks))
    (body, losses), again = codex_exec.encode(session), codex_exec.encode(il.load(il.dump(session)))
    assert (body, losses) == (again.body, ())
    return [*map(named, body)]


def named(line: Any) -> str:
    """The id or the text of an item, in brackets where it began."""
    name: str = line["item"].get("id") or line["item"]["text"]
    return f"({name})" if line["type"] == "item.started" else name


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (0, "(d) New. d (e) e f"),
        (1, "(d) d New. (e) e f"),
        (2, "(d) d (e) e New. f"),
        (3, "(d) d (e) e f New."),
    ],
)
@pytest.mark.parametrize("before", ["a b c", "a c", "a b New. c", "New. New. a b c", "c"])
def test_lines_among_the_items_of_an_answer_stay_there(before: str, place: int, expected: str) -> None:
    """Whatever was added to it, and whatever the answer before it has more or less."""
    session = codex_exec.decode(RUN)
    answers = [n for n, entry in enumerate(session.entries) if isinstance(entry.message, il.AssistantMessage)]
    first, second = (list(session.entries[n].message.content) for n in answers)  # type: ignore[union-attr, arg-type]
    blocks = {**dict(zip("abc", first, strict=True)), "New.": NEW}
    content = {answers[0]: [blocks[name] for name in before.split()], answers[1]: second}
    assert written(content) == [*before.split(), "(d)", "d", "(e)", "e", "f"]
    content[answers[1]] = [*second[:place], NEW, *second[place:]]
    assert written(content) == [*before.split(), *expected.split()]
    content[answers[1]] = [block for at, block in enumerate(second) if at != place]
    left = [name for name in ("(d)", "d", "(e)", "e", "f") if name != ("d", "e", "f", "")[place]]
    assert written(content) == [*before.split(), *left]


def test_lines_stay_among_the_items_of_an_answer_when_messages_before_it_are_removed() -> None:
    lines = [*RUN[:2], started("c"), *RUN[2:]]
    session = codex_exec.decode(lines)
    begun = [n for n, entry in enumerate(session.entries) if isinstance(entry.message, il.CustomMessage)][1]
    left = (*session.entries[: begun - 1], *session.entries[begun + 1 :])  # without a result, and what began then
    assert isinstance(session.entries[begun - 1].message, il.ToolResultMessage)
    body = codex_exec.encode(replace(session, entries=left)).body
    assert [*map(named, body)] == ["a", "b", "(c)", "c", "d", "(e)", "e", "f"]


def test_pieces_of_a_text_may_be_empty() -> None:
    run = [{"type": "message", "role": "assistant", "content": text, "delta": True} for text in ("", "Wal", "", "rus")]
    session = gemini_stream.decode(run)
    assert [message.text for message in session.messages] == ["Walrus"]  # type: ignore[union-attr]
    assert gemini_stream.encode(session).body == run
    longer = edited(session, 0, content=(il.TextBlock(text="Walruses"),))
    assert [line["content"] for line in gemini_stream.encode(longer).body] == ["", "Wal", "", "ruses"]


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("call", "New. own", "a New. d"),
        ("call", "New. New. own New.", "a New. New. d New."),
        ("call", "own New.", "a d New."),
        ("text", "own New.", "a b New."),
        ("text", "own New. New.", "a b New. New."),
        ("text", "", "a"),
    ],
)
def test_an_answer_of_one_line_may_have_more_blocks_or_none(kind: str, content: str, expected: str) -> None:
    """A call keeps its line, wherever it is now; a text is in the first line."""
    asked = item("a", "todo_list", items=[])
    lines = [asked, {**(command("d") if kind == "call" else RUN[1]), "sent": 1}]
    session = codex_exec.decode(lines)
    (own,) = session.entries[1].message.content  # type: ignore[union-attr]
    changed = edited(session, 1, content=tuple(own if name == "own" else NEW for name in content.split()))
    body = codex_exec.encode(changed).body
    assert [*map(named, body)] == expected.split()
    assert [line for line in body if "sent" in line] == (lines[1:] if content else [])


def test_edited_results_of_codex_are_in_their_items() -> None:
    """The text of what a server gave, and whether a call failed; what an item has no field for is reported."""
    (session,) = il.read(CODEX)
    at = [n for n, entry in enumerate(session.entries) if isinstance(entry.message, il.ToolResultMessage)]
    for failed, status, code in ((True, "failed", 1), (False, "completed", 0)):
        session = edited(session, at[0], is_error=failed)
        items = [line["item"] for line in il.encode(session, "codex-exec-stream").body if "item" in line]
        assert [(i["status"], i["exit_code"]) for i in items if "exit_code" in i][1:] == [(status, code)]
    (new,) = changed_lines(CODEX, edited(session, at[1], content="Nothing"), "codex-exec-stream")[1]
    assert new["item"]["result"] == {"content": [{"type": "text", "text": "Nothing"}], "structured_content": None}
    answer: Any = session.entries[at[1] - 1].message
    (call,) = answer.content
    more = edited(session, at[1] - 1, content=(replace(call, arguments={**call.arguments, "limit": 1}),))
    (loss,) = il.encode(more, "codex-exec-stream", adapt=False).losses
    assert (loss.path, loss.what) == (f"$.messages[{at[1] - 1}]", "arguments")


@pytest.mark.parametrize(
    ("code", "status"), [(0, "completed"), (1, "failed"), (2, "failed"), (None, "declined"), (0, "x")]
)
def test_a_command_of_codex_returns_as_it_ended(code: Any, status: str) -> None:
    item = {"id": "i", "type": "command_execution", "command": "ls", "aggregated_output": "", "exit_code": code}
    given = [{"type": "item.completed", "item": {**item, "status": status}}]
    session = codex_exec.decode(given)
    assert codex_exec.encode(il.load(il.dump(session))).body == given
    result: Any = session.entries[1].message
    assert result.is_error == (status == "failed")
    again: Any = codex_exec.decode([*codex_exec.encode(edited(session, 1, is_error=not result.is_error)).body])
    assert again.entries[1].message.is_error != result.is_error
