"""How output looks: in terminals of several widths, in pipes, without colours, in pagers."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import interlingua as il
from cli.running import on_terminal, run
from connect.asking import PNG
from interlingua.sessions import save

ESCAPE = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()=>][A-Z0-9]?)")
WORDS = "a line that goes on and on until it must be wrapped somewhere " * 4


def body(*messages: Any) -> dict[str, Any]:
    return {"model": "claude-opus-4-6", "max_tokens": 9, "messages": messages}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
CONVERSATION = body(
    {"role": "user", "content": [{"type": "text", "text": f"# Look\n\n{WORDS}"}, IMAGE]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "shot", "input": {}}]},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "b", "content": [IMAGE]},
            {"type": "tool_result", "tool_use_id": "a", "content": "one\ntwo"},
        ],
    },
    {"role": "assistant", "content": "Done."},
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(CONVERSATION))
    return path


def plain(shown: str) -> str:
    return ESCAPE.sub("", shown).replace("\r", "")


def test_a_pipe_gets_plain_lines_without_padding_or_wrapping(file: Path) -> None:
    """The text as it was written, two spaces before it; nothing behind it."""
    shown = run("show", file).out
    lines = shown.splitlines()
    assert "  # Look" in lines and f"  {WORDS.rstrip()}" in [line.rstrip() for line in lines]
    assert not [line for line in lines if line != line.rstrip() and not line.startswith(f"  {WORDS[:9]}")]
    assert "\x1b" not in shown
    for command in (("models", "--all"), ("stats", file), ("dialects",)):
        listed = run(*command).out.splitlines()
        assert [] == [line for line in listed if line != line.rstrip()][:3]


def test_images_are_named_and_results_stand_below_their_calls_of_one_turn(file: Path) -> None:
    """Also where the calls are in two messages and the results come in another order."""
    lines = [line.strip() for line in run("show", file).out.splitlines()]
    image = next(line for line in lines if line.startswith("[image: image/png, "))
    assert image.endswith(" bytes]")
    at = lines.index('→ read {"path":"x"}')
    assert ["← one", "two"] == lines[at + 1 : at + 3]
    assert f"← {image}" == lines[lines.index("→ shot {}") + 1]


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed: paging was NOT tested")
def test_only_what_is_longer_than_the_screen_waits_for_keys(file: Path, tmp_path: Path) -> None:
    """`less -RFX`: a short text is printed and the command ends; in a long one `q` leaves, without an error."""
    code, shown = on_terminal("show", file, rows=60, PAGER="")
    assert (0, True) == (code, "Done." in plain(shown))
    long = tmp_path / "long.json"
    long.write_text(json.dumps(body({"role": "user", "content": "\n\n".join(f"line {n}" for n in range(2000))})))
    code, shown = on_terminal("show", long, rows=20, keys=b"q", after=b":", PAGER="")
    assert (0, True, False) == (code, "line 3" in plain(shown), "line 1999" in plain(shown))
    code, shown = on_terminal("show", long, "--no-pager", rows=20, PAGER="")
    assert (0, True) == (code, "line 1999" in plain(shown))
    code, shown = on_terminal("show", long, rows=20, TERM="dumb", PAGER="")
    assert (0, True, False) == (code, "line 1999" in shown, "\x1b" in shown)


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_tables_fit_the_terminal(columns: int, tmp_path: Path) -> None:
    """Columns that matter less are left out and named; no line is wider than the screen, no name is cut."""
    env = {"INTERLINGUA_HOME": str(tmp_path), "ANTHROPIC_API_KEY": "sk-x", "PAGER": "cat"}
    code, shown = on_terminal("models", columns=columns, **env)
    lines = plain(shown).splitlines()
    assert 0 == code and max(map(len, lines)) <= columns
    assert any(line.startswith("anthropic/claude-3-7-sonnet-latest ") for line in lines)
    assert ("(no room for: " in plain(shown)) is (columns < 140)
    answers = [
        {"role": "assistant", "content": "x", "model": f"a-model-with-quite-a-name-{n}", "usage": {"input": 10**n}}
        for n in range(3)
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in [{"role": "user", "content": "x"}, *answers]))
    code, shown = on_terminal("stats", path, columns=columns, **env)
    assert 0 == code and max(map(len, plain(shown).splitlines())) <= columns


def test_no_color_means_none(file: Path) -> None:
    """https://no-color.org; emphasis without colour may stay."""
    code, shown = on_terminal("show", file, rows=80, PAGER="cat", NO_COLOR="1")
    assert 0 == code and not re.search(r"\x1b\[[0-9;]*\b3[0-7]\b[0-9;]*m", shown)


def test_long_work_shows_bytes_rate_and_time_left(tmp_path: Path) -> None:
    """On a terminal, for inputs of several megabytes; in a pipe nothing."""
    path = tmp_path / "big.jsonl"
    line = json.dumps(body({"role": "user", "content": "x" * 50_000}))
    path.write_text(f"{line}\n" * 240)
    code, shown = on_terminal("stats", path, columns=120)
    assert 0 == code
    assert re.search(r"counting.*MB.*MB/s.*\d+:\d\d:\d\d|counting.*MB", plain(shown).replace("\n", " "))
    assert "counting" not in run("stats", path).err


ROWS = [
    ("3e8f10a7c2d4", "anthropic/claude-sonnet-4-5", "Explain the harmonic constants of tides in one paragraph, please"),
    (
        "77d0c9e4b128",
        "google/gemini-2.5-flash",
        "潮汐表の英語の題名を三つ提案してください、短いものをお願いします、よろしく",
    ),
]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A home with two runs and two sessions."""
    for agent in ("run", "main"):
        for id, model, title in ROWS:
            provider, _, name = model.partition("/")
            entry = il.Entry(message=il.UserMessage(content=title))
            about = il.Conversation(model=il.ModelDescriptor(id=name, provider=provider), entries=(entry,))
            save(about, id=id, agent=agent, home=tmp_path).close()
    return tmp_path


@pytest.mark.parametrize("columns", [40, 60, 80, 140])
@pytest.mark.parametrize("command", ["logs", "sessions list", "sessions list --all", "archive list", "archive status"])
def test_lists_keep_each_row_on_one_line(command: str, columns: int, kept: Path) -> None:
    """However narrow the terminal and however wide the characters; ids are whole, titles are cut with a sign."""
    code, shown = on_terminal(*command.split(), columns=columns, INTERLINGUA_HOME=str(kept))
    lines = plain(shown).splitlines()
    assert 0 == code and len(lines) <= 3 + 2 * len(ROWS)
    if command != "archive status":  # a path is not cut
        assert max(map(cell_len, lines)) <= columns
        assert all(any(id[:8] in line for line in lines) for id, _, _ in ROWS)
        assert ("…" in shown) or columns == 140
    piped = run(*command.split(), env={**os.environ, "INTERLINGUA_HOME": str(kept)}).out
    assert "…" not in piped and [] == [line for line in piped.splitlines() if line != line.rstrip()]


def test_a_legacy_terminal_gets_look_alikes_of_our_symbols(file: Path, tmp_path: Path) -> None:
    """One ASCII character each, so that columns stay in line; what has none is escaped."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    for pager in ("cat", "less"):
        code, shown = on_terminal("show", file, rows=90, PAGER=pager, **ascii_only)
        assert 0 == code and shown.isascii() and "\\u" not in shown
        assert "> read" in plain(shown) and "< one" in plain(shown)
    code, shown = on_terminal("doctor", INTERLINGUA_HOME=str(tmp_path), **ascii_only)
    assert shown.isascii() and "\\u" not in shown and re.search(r"^\+ +version", plain(shown), re.MULTILINE)


def test_a_dumb_terminal_gets_no_escapes(file: Path, kept: Path) -> None:
    """Whatever is printed, progress included."""
    for command in ("show", "stats"):
        code, shown = on_terminal(command, file, TERM="dumb")
        assert 0 == code and "\x1b" not in shown and shown.strip()
    for arguments in ("logs", "models", "doctor", "sessions list", "archive list", "run -m debug/parrot-1 **hello**"):
        code, shown = on_terminal(*arguments.split(), TERM="dumb", INTERLINGUA_HOME=str(kept))
        assert 0 == code and "\x1b" not in shown and shown.strip(), arguments


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_a_report_of_losses_is_wrapped_in_its_columns(columns: int, file: Path, tmp_path: Path) -> None:
    """No line is wider than the terminal, and no word is torn."""
    code, shown = on_terminal(
        "convert", file, "-t", "openai-completions", "-o", tmp_path / "out.json", "--report", columns=columns
    )
    lines = plain(shown).splitlines()
    assert 0 == code and max(map(len, lines)) <= columns
    assert "dropped" in shown or "weakened" in shown


def test_a_progress_bar_fits_and_keeps_its_figures(tmp_path: Path) -> None:
    """Where there is no room, the bar is left out, not the time that is left."""
    path = tmp_path / "big.jsonl"
    line = json.dumps(body({"role": "user", "content": "x" * 50_000}))
    path.write_text(f"{line}\n" * 240)
    for columns in (60, 140):
        code, shown = on_terminal("stats", path, columns=columns)
        bars = [line for line in (plain(part) for part in re.split(r"[\r\n]", shown)) if "counting" in line]
        assert 0 == code and bars
        assert all(len(part) <= columns for part in bars)
        assert any(re.search(r"MB.* (\d+:\d\d:\d\d|-:--:--)", part) for part in bars)
        assert any("━" in part for part in bars) is (columns == 140)


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_long_name_of_a_model_has_a_line_of_its_own(columns: int, tmp_path: Path) -> None:
    """Its numbers are below it, in their columns; no other line is longer than the terminal."""
    code, shown = on_terminal("models", "sonnet", columns=columns, INTERLINGUA_HOME=str(tmp_path), PAGER="cat")
    lines = plain(shown).splitlines()
    lines = lines[next(at for at, line in enumerate(lines) if line.startswith("model ")) :]
    long = [at for at, line in enumerate(lines) if "/" in line and " " not in line]
    assert 0 == code and long and all(lines[at + 1].startswith(" ") for at in long)
    assert max(len(line) for at, line in enumerate(lines) if at not in long) <= columns


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_dialects_fit_the_terminal(columns: int) -> None:
    """Their descriptions are cut; in a pipe they are whole."""
    code, shown = on_terminal("dialects", columns=columns)
    assert 0 == code and max(map(len, plain(shown).splitlines())) <= columns
    assert "and the many hosts with compatible APIs" in run("dialects").out
