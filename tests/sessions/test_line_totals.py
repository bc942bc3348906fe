"""Large session files are counted line by line, with the same result as their conversation."""

from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.conversion.large_sessions import detect_large, is_large, line_messages
from interlingua.conversion.sources import Problem, Source
from interlingua.sessions.cards import Totals

WIRE = Path(__file__).parents[1] / "wire"
FILES = sorted(
    path for name in ("claude-code", "codex-cli", "qwen-code", "droid") for path in (WIRE / name).glob("*.jsonl")
)


def plain(totals: Totals) -> dict[str, Any]:
    """The counts, without the lines of a program's own kinds."""
    found = totals.plain()
    spoken = ("user", "assistant", "toolResult", "system")
    return {**found, "messages": {role: n for role, n in found["messages"].items() if role in spoken}}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_lines_are_counted_as_their_conversation(path: Path) -> None:
    """Answers of several lines once, their usage once, and how they ended."""
    problems: list[Problem] = []
    messages = line_messages(Source(path), None, problems)
    if messages is None:
        pytest.skip("this file is read as a whole")
    by_line, whole = Totals(), Totals()
    by_line.add_messages(messages)
    for conversation in il.read(path):
        whole.add_conversation(conversation)
    assert plain(whole) == plain(by_line)


def test_a_torn_line_is_a_problem(tmp_path: Path) -> None:
    """The others are counted."""
    good = '{"role":"user","content":"Hi","id":"a","parentId":null}\n'
    path = tmp_path / "t.jsonl"
    path.write_text('{"role":"session","version":1}\n' + good + '{"role":\n' + "42\n")
    problems: list[Problem] = []
    totals = Totals()
    totals.add_messages(line_messages(Source(path), None, problems) or ())
    assert totals.messages["user"] == 1
    assert [3, 4] == [problem.line for problem in problems]


def test_the_format_of_a_large_session_is_in_its_first_lines(tmp_path: Path) -> None:
    """A file of a gigabyte is not read for that; one that is no session in lines is left to others."""
    path = tmp_path / "t.jsonl"
    with path.open("wb") as file:
        file.write((b'{"role":"session","version":1}\n' + b'{"role":"user","content":"Hi"}\n') * 100)
        file.truncate(1 << 30)
    assert is_large(Source(path))
    found = detect_large(Source(path))
    assert found is not None and found.dialect == "transcript"
    path.write_text('{"messages": []}')
    assert detect_large(Source(path)) is None
