"""What is wrong with an input is said in one line: what, where and the remedy; exit code 1, nothing half-written."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.running import Outcome
from interlingua.cli import group
from interlingua.values.errors import BadWire, FormatError, InterlinguaError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a FIFO, an empty folder, and files that are not what is expected."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "home"))
    place = tmp_path / "place"
    (place / "folder").mkdir(parents=True)
    os.mkfifo(place / "fifo")
    (place / "bad.json").write_text("{not json")
    (place / "number.json").write_text("12")
    (place / "latin.py").write_bytes(b"# \xe9\n")
    (place / "notes.txt").write_text("nothing to see\n")
    monkeypatch.chdir(place)
    return place


def il(*arguments: str, given: str = "") -> Outcome:
    """Runs the command in this process; an error is the line that it would be."""
    done = CliRunner().invoke(group, arguments, input=given)
    error: Any = done.exception
    if error is None or isinstance(error, SystemExit):
        return Outcome(done.exit_code, done.stdout, done.stderr)
    assert isinstance(error, InterlinguaError), done.exc_info
    return Outcome(1, done.stdout, f"{done.stderr}interlingua: {error}\n")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("run -m debug/parrot-1 hi -a fifo", "fifo is a FIFO; attach a regular file"),
        ("run -m debug/parrot-1 hi -a folder", "folder is a folder; attach"),
        ("run -m debug/parrot-1 hi -a /dev/zero", "/dev/zero is a device; attach"),
        ("run -m debug/parrot-1 hi -a nofile", "nofile: no such file to attach"),
        ("run -m debug/parrot-1 hi -f folder", "folder: not readable as a fragment: is a folder"),
        ("run -m debug/parrot-1 hi -f ./fifo", "fifo: not readable as a fragment: is a FIFO"),
        ("run -m debug/parrot-1 hi --schema fifo", "not readable as a schema: is a FIFO"),
        ("run -m debug/parrot-1 hi --schema bad.json", "not a JSON Schema"),
        ("run -m debug/parrot-1 hi --schema number.json", "not a JSON Schema; use an object"),
        ("run -m debug/parrot-1 hi --schema a-b", "invalid field"),
        ("run -m debug/parrot-1 hi --prompt-file folder", "not readable as a prompt: is a folder"),
        ("run -m debug/parrot-1 hi --functions nofile.py", "nofile.py: No such file or directory; give a Python file"),
        ("run -m debug/parrot-1 hi --functions bad.json", "bad.json: not a Python file; give one that ends in .py"),
        ("run -m debug/parrot-1 hi --functions folder", "folder: is a folder"),
        ("run -m debug/parrot-1 hi --functions fifo", "fifo: is a FIFO"),
        ("run -m debug/parrot-1 hi --functions latin.py", "latin.py: not UTF-8"),
        ("archive add fifo", "fifo is a FIFO; give a regular file or a folder"),
        ("archive add /dev/zero", "/dev/zero is a device; give a regular file"),
        ("convert -t openai folder", "folder: no file to read in this folder"),
        ("show folder", "folder: no file to read in this folder"),
        ("stats folder", "folder: no file to read in this folder"),
        ("check folder", "folder: no file to read in this folder"),
        ("detect folder", "folder: no file to read in this folder"),
        ("batch submit bad.json -m debug/parrot-1 --jobs 1", "no conversation to ask a model about: bad.json"),
    ],
    ids=lambda value: (
        value.replace("run -m debug/parrot-1 hi ", "run ")[:40] if " -" in value or "add" in value else ""
    ),
)
def test_bad_input_is_one_line_that_says_what_and_where(arguments: str, wanted: str, place: Path) -> None:
    """No traceback, no place named twice, no session, source or batch left behind."""
    done = il(*arguments.split())
    assert done.code == 1 and wanted in done.err, done
    assert done.out == "" and len(done.err.splitlines()) == 1, done
    assert done.err.count("(at ") <= 1
    kept = [
        path for path in (place.parent / "home").rglob("*") if path.is_file() and path.suffix in (".jsonl", ".json")
    ]
    assert not kept


def test_code_of_functions_is_no_name_of_a_file(place: Path) -> None:
    """What is no file is code, whatever is in it."""
    done = il("run", "-m", "debug/parrot-1", "hi", "--functions", "def twice(n: int) -> int: return 2 * n")
    assert done.code == 0, done


def test_a_file_that_was_refused_is_not_indexed(place: Path) -> None:
    """Neither in the report nor in its bytes; what is wrong with it is said."""
    done = il("archive", "add", "notes.txt", "--json")
    report = json.loads(done.out)
    assert (1, 0, 0) == (done.code, report["indexed"], report["size"])
    assert ["failed"] == [problem["kind"] for problem in report["problems"]]


@pytest.mark.parametrize(
    ("inner", "path", "place"),
    [
        ("--schema", "--schema", "--schema"),
        ("bad.json", "INPUT", "bad.json"),
        ("$.a[3]", "--schema", "--schema $.a[3]"),
        ("$", "--schema", "--schema"),
        ("$.a", "$", "$.a"),
    ],
)
def test_an_error_that_quotes_another_names_one_place(inner: str, path: str, place: str) -> None:
    """The place of the inner one, which is the more exact; a path into a value with what holds the value."""
    quoted = FormatError("not a number", inner)
    for outer in (FormatError(f"x: {quoted}", path), BadWire("dialect", f"x: {quoted}", path)):
        assert str(outer).endswith(f"x: not a number (at {place})")
    assert str(FormatError("plain", path)) == f"plain (at {path})"
