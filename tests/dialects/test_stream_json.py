"""What Gemini CLI and Codex print for programs: JSON lines of a run."""

import json
from pathlib import Path

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
