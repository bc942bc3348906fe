"""What is wrong with an input is said in one line: what, where and the remedy; exit code 1, nothing half-written."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.running import COMMAND, Outcome, run
from interlingua import UserMessage
from interlingua.cli import group
from interlingua.sessions import Session
from interlingua.sessions.files import CATALOGUE, _write_catalogue
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
        ("convert -t openai folder", "folder: no readable file in this folder"),
        ("show folder", "folder: no readable file in this folder"),
        ("stats folder", "folder: no readable file in this folder"),
        ("check folder", "folder: no readable file in this folder"),
        ("detect folder", "folder: no readable file in this folder"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rn",), "unknown command 'rn'; did you mean 'run'? (see interlingua --help)"),
        (("logs", "serch"), "unknown command 'serch'; did you mean 'search'? (see interlingua logs --help)"),
        (("run", "--modle", "x"), "no such option '--modle'"),
        (("run", "--temperature", "hot", "x"), "invalid value for '--temperature': 'hot' is not a valid float"),
        (("run", "-o", "x"), "option '-o' requires 2 arguments"),
        (("completion",), "missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish"),
        (("convert", "x.json"), "missing option '-t' / '--to'"),
        (("logs", "delete"), "give sessions, --before DAYS, or --all"),
        (("--nope",), "no such option '--nope'"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_a_wrong_command_line_is_reported_in_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """With where its help is."""
    done = run(*arguments, env={**os.environ, "INTERLINGUA_HOME": str(tmp_path)})
    assert (2, "", 1) == (done.code, done.out, len(done.err.splitlines()))
    assert done.err.startswith(f"interlingua: {message}") and "--help)" in done.err


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_standard_streams_may_be_closed(closed: str, tmp_path: Path) -> None:
    """A command then reads or writes nothing there; no file of ours gets their numbers."""
    command = " ".join(map(shlex.quote, [*COMMAND, "run", "-q", "-m", "debug/parrot-1", "hello"]))
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path)}
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, check=False, timeout=120, env=env)
    assert (0, b"") == (done.returncode, done.stderr)
    assert (b"" if ">&-" in closed.split() else b"hello\n") == done.stdout
    (kept,) = (tmp_path / "agents" / "run" / "sessions").glob("*.jsonl")
    assert all(json.loads(line)["role"] for line in kept.read_text().splitlines())


@pytest.mark.parametrize(
    ("home", "message"),
    [("a-file", "a-file is a file, not a folder"), ("/proc/nowhere", "cannot create a folder in /proc")],
)
def test_a_home_that_cannot_be_made_is_named(home: str, message: str, tmp_path: Path) -> None:
    """Nothing is said of a session, of which nobody spoke."""
    (tmp_path / "a-file").write_text("x")
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path / home)}
    done = run("run", "-q", "-m", "debug/parrot-1", "hello", env=env, given=b"")
    assert (1, "", 1) == (done.code, done.out, len(done.err.splitlines()))
    assert message in done.err


def test_a_run_that_has_not_ended_is_not_continued(tmp_path: Path) -> None:
    """The message says what can be done on the command line."""
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path)}
    run("run", "-q", "-m", "debug/parrot-1", "one", env=env, given=b"")
    (path,) = (tmp_path / "agents" / "run" / "sessions").glob("*.jsonl")
    with Session.open(path.stem, agent="run", home=tmp_path):
        done = run("run", "-q", "-c", "two", env=env, given=b"")
        assert (1, "", 1) == (done.code, done.out, len(done.err.splitlines()))
        assert f"run {path.stem} has not ended (process {os.getpid()}" in done.err and "--cid ID" in done.err
        assert "two\n" == run("run", "-q", "-c", "-n", "two", env=env, given=b"").out


def test_a_template_needs_a_name(tmp_path: Path) -> None:
    """Nothing is sent instead."""
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path)}
    done = run("run", "-q", "-m", "debug/parrot-1", "--save-template", "", "hello", env=env, given=b"")
    assert (1, "") == (done.code, done.out)
    assert "invalid template name ''" in done.err


def test_an_mcp_server_that_cannot_start_is_reported_in_one_line(tmp_path: Path) -> None:
    """Of its traceback, the exception."""
    server = f"{shlex.quote(sys.executable)} -c 'import nowhere_at_all'"
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path)}
    done = run("run", "-q", "-m", "debug/parrot-1", "--mcp", server, "hello", env=env, given=b"")
    assert (1, "", 1) == (done.code, done.out, len(done.err.splitlines()))
    assert "could not be reached: exit status 1; stderr: ModuleNotFoundError: No module named" in done.err


def test_a_line_that_is_no_message_of_an_editor_is_reported_in_one_line(tmp_path: Path) -> None:
    """And the next one is read."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path)}
    given = b"{no json\n" + json.dumps(hello).encode() + b"\n"
    done = run("chat", "--acp", "-m", "debug/parrot-1", env=env, given=given)
    assert (0, 1) == (done.code, len(done.err.splitlines()))
    assert "Error parsing JSON-RPC message: Expecting property name" in done.err


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["table", "json"])
def test_stats_of_what_cannot_be_read_are_the_error_alone(tmp_path: Path, options: tuple[str, ...]) -> None:
    """No summary of zeros; of several files, those that can be read are counted."""
    bad, good = tmp_path / "bad.json", tmp_path / "good.json"
    bad.write_text("{not json")
    good.write_text('[{"role": "user", "content": "hi"}]')
    for name in (tmp_path / "missing.json", bad):
        done = run("stats", name, *options)
        assert (1, "") == (done.code, done.out) and name.name in done.err, done
    both = run("stats", good, tmp_path / "missing.json", *options)
    assert 1 == both.code and "1" in both.out and "missing.json" in both.err
    assert 0 == run("stats", good, *options).code


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="!!!! bwrap is NOT INSTALLED: no read-only home is tested")
@pytest.mark.parametrize("has_index", [False, True], ids=["without an index", "with one"])
def test_a_home_that_is_mounted_read_only_is_searched(tmp_path: Path, has_index: bool) -> None:
    """With a temporary index, which is gone afterwards; a line on standard error says so."""
    if subprocess.run(["bwrap", "--dev-bind", "/", "/", "true"], capture_output=True, check=False).returncode:
        pytest.skip("bwrap cannot make a namespace on this machine")
    home, scratch = tmp_path / "home", tmp_path / "tmp"
    scratch.mkdir()
    with Session.open("s", home=home) as session:
        session.append(UserMessage(content="a needle here"))
    (home / "archive.json").write_text('{"sources": []}')
    env = {**os.environ, "INTERLINGUA_HOME": str(home), "TMPDIR": str(scratch)}
    if has_index:
        assert 0 == run("sessions", "search", "needle", env=env).code
    before = sorted(path.name for path in home.rglob("*"))
    program = Path(sys.executable).parent / "interlingua"
    for command in (
        "sessions search needle",
        "sessions totals",
        "archive search needle",
        "archive list",
        "archive totals",
    ):
        done = subprocess.run(
            ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(home), str(home), str(program), *command.split()],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, (command, done.stderr)
        assert "temporary search index" in done.stderr and 1 == len(done.stderr.splitlines()), done.stderr
        assert "search" not in command or "needle" in done.stdout, (command, done.stdout)
    assert before == sorted(path.name for path in home.rglob("*")) and [] == list(scratch.iterdir())


def test_a_list_of_sessions_that_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    """It is a cache: a home that is mounted read-only is listed without it."""
    (tmp_path / "file").write_text("x")
    _write_catalogue(tmp_path / "file" / CATALOGUE, {})
    assert "x" == (tmp_path / "file").read_text()


@pytest.mark.parametrize("level", ["bogus", "High", "1.5 k"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "Hi", "-m", "debug/echo", "--reasoning"),
        ("run", "Hi", "-m", "debug/echo", "-o", "reasoning"),
        ("chat", "Hi", "-m", "debug/echo", "--reasoning"),
        ("batch", "submit", "-", "-m", "debug/echo", "--reasoning"),
    ],
)
def test_an_unknown_level_of_reasoning_is_refused_before_anything_is_sent(
    arguments: tuple[str, ...], level: str
) -> None:
    """
    With the valid ones; no answer is printed.
    """
    done = run(*arguments, level, given=b'{"messages": [{"role": "user", "content": "Hi"}]}')
    assert 0 != done.code and "" == done.out
    assert "reasoning" in done.err and "Traceback" not in done.err
    assert repr(level) in done.err and "'xhigh'" in done.err


_WITHOUT_PRIVILEGES = """
import ctypes, os, sys
if sys.platform == "linux":  # root reads every folder unless it gives up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    for capability in 1, 2:
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("command", ["stats", "convert -t openai", "sessions import", "archive add"])
def test_a_folder_that_cannot_be_read_is_named(command: str, tmp_path: Path) -> None:
    """With what lies beside it, which is read."""
    (tmp_path / "in" / "locked").mkdir(parents=True)
    (tmp_path / "in" / "a.json").write_text('{"messages": [{"role": "user", "content": "Hi"}]}')
    (tmp_path / "in" / "locked").chmod(0)
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path / "home")}
    given = [sys.executable, "-c", _WITHOUT_PRIVILEGES, *COMMAND, *command.split(), "in"]
    done = subprocess.run(given, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    (tmp_path / "in" / "locked").chmod(0o700)
    refused = [line for line in done.stderr.splitlines() if "locked: Permission denied" in line]
    assert (1, 1) == (done.returncode, len(refused)) and done.stdout, done
