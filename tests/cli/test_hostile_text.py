"""Every printer of the command line, given text that wants to steer the terminal."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlingua.cli import group
from interlingua.values.visible_text import printable

HOSTILE = "\x1b]52;c;cm0=\x07\x1b]0;title\x07\x1bPq\x1b\\\x9b2J\x9d52;c;x\x9c\x1b[8m\u202egnp\u2066[/x][link=x]:bomb:"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a conversation whose every text is hostile: prompts, answers, names of tools, models and ids."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    call = {"type": "toolCall", "id": HOSTILE, "name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}
    text = f"# {HOSTILE}\n[x](http://{HOSTILE})"
    answer = {
        "role": "assistant",
        "model": HOSTILE,
        "provider": HOSTILE,
        "api": "anthropic-messages",
        "stopReason": "toolUse",
        "content": [{"type": "thinking", "thinking": HOSTILE}, {"type": "text", "text": text}, call],
        "usage": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2},
    }
    result = {
        "role": "toolResult",
        "toolCallId": HOSTILE,
        "toolName": HOSTILE,
        "isError": True,
        "content": [{"type": "text", "text": HOSTILE}],
    }
    messages = [{"role": "user", "content": HOSTILE}, answer, result]
    lines = [json.dumps(message, ensure_ascii=False) for message in messages]
    (tmp_path / "chat.jsonl").write_text("\n".join(lines))
    (tmp_path / "other.jsonl").write_text(lines[0])
    (tmp_path / "bad.jsonl").write_text(f'{{"role": "{HOSTILE}"')
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    manifest = {"id": "hostile", "name": HOSTILE, "version": HOSTILE, "entry": "main.py", "description": HOSTILE}
    (plugin / "plugin.json").write_text(json.dumps(manifest, ensure_ascii=False))
    (plugin / "main.py").write_text(f"raise RuntimeError({HOSTILE!r})\n")
    return tmp_path


COMMANDS = [
    *(["show", "chat.jsonl"], ["show", "--thinking", "--full", "chat.jsonl"], ["show", "--plain", "chat.jsonl"]),
    *(["check", "chat.jsonl"], ["check", "bad.jsonl"], ["detect", "chat.jsonl", "bad.jsonl"], ["stats", "chat.jsonl"]),
    *(["diff", "chat.jsonl", "other.jsonl"], ["convert", "chat.jsonl", "--to", "ollama", "--report", "-o", "x"]),
    *(["sessions", "import", "chat.jsonl"], ["sessions", "list"], ["sessions", "show", HOSTILE]),
    *(["plugins", "list"], ["plugins", "new", HOSTILE], ["tools", "show", HOSTILE], ["models", HOSTILE]),
    *(["run", "--model", "debug/echo", HOSTILE], ["run", "--model", HOSTILE, "x"], ["doctor", "bad.jsonl"]),
    *(["doctor", "chat.jsonl"], ["show", HOSTILE], [HOSTILE], ["show", "--from", HOSTILE], ["convert", HOSTILE]),
    *(["stats", HOSTILE], ["check", HOSTILE], ["plugins", "check", "plugin"]),
]  # fmt: skip


@pytest.mark.parametrize(
    "arguments", COMMANDS, ids=lambda given: " ".join(given).encode("ascii", "replace").decode()[:40]
)
def test_no_printer_lets_text_steer_the_terminal(place: Path, arguments: list[str]) -> None:
    """Results, tables, notes, errors and usage lines hold no escape, no control and no direction; nothing crashes."""
    outcome = CliRunner().invoke(group, arguments, catch_exceptions=True)
    text = outcome.output + outcome.stderr
    assert printable(text) == text
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        from interlingua.cli import fail

        with pytest.raises(SystemExit):
            fail(str(outcome.exception))
    assert "MarkupError" not in repr(outcome.exception)


def test_an_error_line_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    """The last words of a command go through the same function."""
    from interlingua.cli import fail

    with pytest.raises(SystemExit):
        fail(HOSTILE)
    assert "interlingua: gnp[/x][link=x]:bomb:\n" == capsys.readouterr().err
