"""Every printer of the command line, given text that wants to steer the terminal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from interlingua.cli import group
from interlingua.values.errors import InterlinguaError
from interlingua.values.text import printable

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


# --- every command there is -------------------------------------------------------------------------------------------

# Commands that serve, wait for a person or load code: they are given what ends them at once.
ENDING = {
    "chat": [["-m", HOSTILE, "x"], ["-m", "debug/echo", "--tools", "none", HOSTILE], ["--session", HOSTILE, "x"]],
    "canvas open": [[HOSTILE]],
    "serve run": [["--config", HOSTILE], ["--port", HOSTILE]],
    "serve replay": [[], [HOSTILE], ["SESSION"], ["chat.jsonl", "--port", HOSTILE]],
    "tools serve": [["--http", HOSTILE], [HOSTILE]],
    "tools login": [[HOSTILE]],
    "auth login": [[HOSTILE], ["openai", "--key"]],
    "worker": [[HOSTILE], ["--database", HOSTILE]],
    "archive canvas": [[HOSTILE]],
    "plugins install": [["plugin"], [f"./{HOSTILE}"]],
    "demo": [["--help"]],
}
ANY = [[], ["--help"], [HOSTILE], [HOSTILE, HOSTILE], ["--json"], ["--json", HOSTILE], ["SESSION"], ["chat.jsonl"],
       [f"--{HOSTILE}"]]  # fmt: skip


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> list[str]:
    """The full names of all commands."""
    if not isinstance(command, click.Group):
        return [" ".join(path)]
    context = click.Context(command)
    found = []
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        found += leaves(below, (*path, name))
    return found


@pytest.fixture
def full(place: Path) -> Iterator[str]:
    """A home in which every list has an entry with hostile texts; the id of a session."""
    home = place / "home"
    runner = CliRunner()
    (home / "templates").mkdir(parents=True)
    (home / "templates/t.toml").write_text(f"prompt = {json.dumps(HOSTILE)}\nsystem = {json.dumps(HOSTILE)}\n")
    (home / "models.toml").write_text(f"[aliases]\na = {json.dumps(HOSTILE)}\n")
    (home / "mcp.toml").write_text(f"[servers.x]\ncommand = {json.dumps(HOSTILE)}\n")
    (home / "gateway.toml").write_text(f"[models]\na = {json.dumps(HOSTILE)}\n")
    for arguments in (
        ["sessions", "import", "chat.jsonl"], ["run", "-m", "debug/echo", HOSTILE], ["archive", "add", "chat.jsonl"],
        ["canvas", "keys", "add", HOSTILE], ["serve", "keys", "add", HOSTILE], ["models", "default", "debug/echo"],
    ):  # fmt: skip
        runner.invoke(group, arguments)
    listed = runner.invoke(group, ["sessions", "list", "--json"]).stdout
    found = json.loads(listed)
    assert found
    yield str(found[0]["id"])


def test_every_command_there_is_lets_no_text_steer_the_terminal(full: str, record_property: Any) -> None:
    """Each command, a new one too, with hostile words in every place, over a home of hostile texts."""
    names, tried = leaves(group), 0
    assert set(ENDING) <= set(names)
    assert len(names) > 60
    for name in names:
        for given in ENDING.get(name, ANY):
            arguments = [*name.split(), *(full if one == "SESSION" else one for one in given)]
            outcome = CliRunner().invoke(group, arguments, input="")
            # A document that goes into a pipe is exact: it is JSON, and what reads it is no terminal.
            text = outcome.stderr if "--json" in given and outcome.exit_code == 0 else outcome.output + outcome.stderr
            assert printable(text) == text, arguments
            problem = outcome.exception
            if problem is not None and not isinstance(problem, SystemExit | InterlinguaError | OSError):
                raise AssertionError(f"{arguments}: {problem!r}") from problem
            tried += 1
    record_property("tried", tried)


def test_an_error_line_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    """The last words of a command go through the same function."""
    from interlingua.cli import fail

    with pytest.raises(SystemExit):
        fail(HOSTILE)
    assert "interlingua: gnp[/x][link=x]:bomb:\n" == capsys.readouterr().err
