"""`interlingua run --edit`: the prompt is written in a real editor program, on a real terminal."""

import json
import stat
from pathlib import Path

import pytest

from cli.running import on_terminal, run

RUN = ("run", "-m", "debug/parrot-1", "--quiet", "--plain", "-e")


def editor(folder: Path, body: str, name: str = "editor") -> str:
    """A program that edits the file that it is given; `$1` is its path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def edited(folder: Path, body: str, *arguments: str, **env: str) -> tuple[int, str]:
    given = {"INTERLINGUA_HOME": str(folder / "home"), "EDITOR": editor(folder, body), "VISUAL": "", **env}
    code, shown = on_terminal(*RUN, *arguments, **given)
    return code, shown.replace("\r\n", "\n")


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "home").glob("agents/run/sessions/*.jsonl"))


def test_what_is_written_in_the_editor_is_sent(tmp_path: Path) -> None:
    """All of its lines, in UTF-8; the file is a Markdown file, so that editors colour it."""
    code, shown = edited(tmp_path, 'case "$1" in *.md) printf "Größe 日本\\n\\nand more\\n" > "$1";; esac')
    assert (0, "Größe 日本\n\nand more\n") == (code, shown)
    [session] = kept(tmp_path)
    asked = [json.loads(line) for line in session.read_text("utf-8").splitlines()]
    assert "Größe 日本\n\nand more" in [line.get("content") for line in asked]


def test_the_editor_begins_with_the_prompt_that_was_given(tmp_path: Path) -> None:
    """It may be changed, or saved as it is."""
    assert (0, "Good evening\n") == edited(tmp_path, 'sed -i s/morning/evening/ "$1"', "Good morning")
    assert (0, "Good morning\n") == edited(tmp_path, "true", "Good morning")


@pytest.mark.parametrize("body", ["true", ': > "$1"', 'printf " \\n\\n" > "$1"'], ids=["unsaved", "empty", "blank"])
def test_nothing_written_is_nothing_sent(body: str, tmp_path: Path) -> None:
    """One line, an exit code, and no run in the log."""
    code, shown = edited(tmp_path, body)
    assert 1 == code and shown.startswith("interlingua: the text from the editor is empty; nothing was sent")
    assert [] == kept(tmp_path)


def test_an_editor_that_fails_or_is_missing_is_named(tmp_path: Path) -> None:
    """The prompt is not sent; there is no traceback."""
    code, shown = edited(tmp_path, 'echo text > "$1"; exit 3', "hello")
    assert 1 == code and str(tmp_path / "editor") in shown and "Traceback" not in shown
    code, shown = edited(tmp_path, "true", "hello", VISUAL=str(tmp_path / "missing"))
    assert 1 == code and str(tmp_path / "missing") in shown and "Traceback" not in shown
    assert [] == kept(tmp_path)


def test_visual_comes_before_editor_and_may_have_arguments(tmp_path: Path) -> None:
    """As `code --wait`."""
    program = editor(tmp_path, 'echo "$1 was given" > "$2"', "visual")
    assert (0, "--wait was given\n") == edited(tmp_path, "exit 9", VISUAL=f"{program} --wait")


def test_without_a_terminal_no_editor_is_started(tmp_path: Path) -> None:
    """It would wait for nobody."""
    mark = tmp_path / "started"
    done = run(*RUN, "hello", given=b"", env={"PATH": "/usr/bin:/bin", "EDITOR": editor(tmp_path, f"touch {mark}")})
    assert 1 == done.code and "the editor needs a terminal; give the prompt as an argument" in done.err
    assert not mark.exists()
