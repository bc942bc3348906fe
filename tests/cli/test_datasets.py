"""Training sets and exports of any size through `interlingua convert`: packed, torn, interrupted."""

import fcntl
import gzip
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from cli.running import COMMAND, run
from interlingua.cli import bulk
from interlingua.cli.convert import command
from interlingua.conversion import arrays
from interlingua.conversion.sources import Source


def row(at: int, size: int = 200) -> dict[str, Any]:
    turns = [{"from": "human", "value": f"{at} " + "word " * (size // 5)}, {"from": "gpt", "value": f'"{at}" \\ }}]'}]
    return {"conversations": turns}


def converted(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and standard error of the command, run in this process."""
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stderr


def numbers(data: bytes) -> list[int]:
    """Which rows an output in OpenAI's form holds, in its order."""
    return [int(json.loads(line)["messages"][0]["content"].split()[0]) for line in data.splitlines()]


# --- arrays ----------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\[]{},: \n\u2028é', max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='k"\\]', max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)
ELEMENTS = st.lists(VALUES.filter(lambda value: isinstance(value, dict | list)), max_size=6)


@given(ELEMENTS, st.integers(1, 40), st.sampled_from([None, 2]))
def test_an_array_is_cut_at_its_elements_however_it_arrives(values: list[Any], size: int, indent: int | None) -> None:
    """Brackets and quotation marks inside strings are text."""
    data = json.dumps(values, indent=indent, ensure_ascii=False).encode()
    splitter, found = arrays.Splitter(), []
    for at in range(0, len(data), size):
        found += splitter.feed(data[at : at + size])
    assert values == [json.loads(element) for element in found]
    assert splitter.closed and b"" == splitter.rest.strip()


@pytest.mark.parametrize("indent", [None, 1], ids=["on one line", "indented"])
def test_a_large_array_is_read_element_by_element(tmp_path: Path, indent: int | None) -> None:
    """A bad element is named by its number; the others are read."""
    rows = [row(at, 4000) for at in range(600)]
    text = json.dumps(rows, indent=indent)
    assert len(text) > 2 * arrays.CHUNK
    path = tmp_path / "set.json"
    path.write_text(text.replace('"400 word', "400 word"))
    found = list(il.read(path))
    assert [at for at in range(600) if at != 400] == [int(c.path()[0].message.content.split()[0]) for c in found]  # type: ignore[union-attr]
    (problem,) = [problem for conversation in found for problem in conversation.problems]
    assert 401 == problem.line


@pytest.mark.parametrize(("end", "message"), [("", "cut off"), ("] []", "after the end")])
def test_an_array_that_is_not_whole_gives_what_there_is(tmp_path: Path, end: str, message: str) -> None:
    """And says what is wrong with the rest."""
    path, out = tmp_path / "set.json", tmp_path / "out.jsonl"
    path.write_text(json.dumps([row(at, 4000) for at in range(600)])[:-1] + end)
    code, err = converted(path, "-t", "openai-completions", "-o", out, "-j", "1")
    assert (1, True) == (code, message in err)
    assert list(range(600)) == numbers(out.read_bytes())


def test_an_element_that_is_too_large_ends_the_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small compressed file may hold one that would fill the memory; what comes before it is read."""
    monkeypatch.setattr(arrays, "MAX_ELEMENT", 3 << 20)
    path = tmp_path / "set.json.gz"
    path.write_bytes(gzip.compress(json.dumps([*(row(at, 4000) for at in range(600)), row(600, 8 << 20)]).encode()))
    found = list(il.read(path))
    (problem,) = [problem for conversation in found for problem in conversation.problems]
    assert (len(found), "larger than 3 MB; split it; 600 conversations" in problem.message) == (600, True)


# --- packed ----------------------------------------------------------------------------------------------------------

LINES = b"".join(json.dumps(row(at)).encode() + b"\n" for at in range(300))
HALVES = [LINES[: len(LINES) // 2], LINES[len(LINES) // 2 :]]


def zipped(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.jsonl", data)
    return file.getvalue()


PACKED = {
    "plain": LINES,
    "gzip": gzip.compress(LINES),
    "gzip in two members": b"".join(map(gzip.compress, HALVES)),
    "zstd": zstandard.ZstdCompressor().compress(LINES),
    "zstd in two frames": b"".join(map(zstandard.ZstdCompressor().compress, HALVES)),
    "zip": zipped(a=LINES),
    "gzip in a zip": zipped(a=gzip.compress(LINES)),
}


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"], ids=["to plain", "to gzip", "to zstd"])
@pytest.mark.parametrize("packing", PACKED)
def test_packed_files_go_through_whole(tmp_path: Path, packing: str, ending: str, monkeypatch: Any) -> None:
    """In pieces, in order; what is written is read again by this program and by others."""
    monkeypatch.setattr(bulk, "PIECE", 20_000)
    path, out = tmp_path / "in", tmp_path / f"out.jsonl{ending}"
    path.write_bytes(PACKED[packing])
    assert (0, "") == converted(path, "-t", "openai-finetune", "-o", out)
    data = out.read_bytes()
    if ending == ".gz":
        data = gzip.decompress(data)
    if ending == ".zst":
        data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    assert list(range(300)) == numbers(data)
    assert 300 == len(list(il.read(out)))


@pytest.mark.parametrize("change", ["shorter", "another", "longer"])
def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path, monkeypatch: Any, change: str) -> None:
    """Unless it grows: a part of it, or two halves, would look whole."""
    monkeypatch.setattr(bulk, "PIECE", 20_000)
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINES)
    task = bulk.PieceTask(None, "openai-finetune", None, strict=False, limit=1 << 20)
    found = bulk.run(enumerate(bulk.pieces(Source(path), task)), task, 1)
    count = next(found)[2].count
    if change == "shorter":
        os.truncate(path, 5000)
    elif change == "another":
        (tmp_path / "other").write_bytes(LINES)
        (tmp_path / "other").replace(path)
    else:
        path.write_bytes(LINES + LINES)
        assert 600 == count + sum(result.count for _, _, result in found)
        return
    with pytest.raises(il.InterlinguaError, match=r"in\.jsonl: the file was changed while it was read; try again"):
        list(found)


def test_a_line_longer_than_the_limit_is_passed_over(tmp_path: Path, monkeypatch: Any) -> None:
    """It is reported with its number, and never held; the lines behind it keep theirs."""
    monkeypatch.setattr(bulk, "PIECE", 50_000)
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = LINES.splitlines(keepends=True)
    lines[20] = json.dumps(row(20, 3 << 20)).encode() + b"\n"
    lines[200] = b"{torn\n"
    path.write_bytes(b"".join(lines))
    code, err = converted(path, "-t", "openai-finetune", "-o", out, "--max-size", "1", "-j", "1")
    assert 1 == code and "in.jsonl:21: a line of more than 1 MB" in err and "in.jsonl:201:" in err
    assert [at for at in range(300) if at not in (20, 200)] == numbers(out.read_bytes())


# --- errors and losses -----------------------------------------------------------------------------------------------


def torn(path: Path) -> Path:
    lines = LINES.splitlines()
    lines[100], lines[250] = b"{torn", b'{"conversations": 7}'
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_what_fails_is_skipped_ends_the_run_or_is_kept(tmp_path: Path) -> None:
    """As the user says; what is kept has its place, the reason and its text."""
    path, out = torn(tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    to = ("-t", "openai-finetune", "-o", out)
    out.write_text("precious")
    with pytest.raises(il.InterlinguaError, match=r"in.jsonl:101: .*--on-error skip"):
        converted(path, *to, "--on-error", "stop")
    assert "precious" == out.read_text() and ["in.jsonl", "out.jsonl"] == sorted(
        file.name for file in tmp_path.iterdir()
    )
    assert 1 == converted(path, *to)[0] and 298 == len(numbers(out.read_bytes()))
    assert 1 == converted(path, *to, "--on-error", "keep")[0]
    kept = [json.loads(line) for line in (tmp_path / "out.jsonl.errors.jsonl").read_text().splitlines()]
    assert [(101, "{torn"), (251, '{"conversations": 7}')] == [(one["line"], one["data"]) for one in kept]
    assert all(one["error"] and one["source"].endswith(f"in.jsonl:{one['line']}") for one in kept)


def test_many_errors_are_counted_not_listed(tmp_path: Path) -> None:
    """The first lines say what is wrong, the last how often."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINES + b'{"conversations": 7}\n' * 3000)
    code, err = converted(path, "-t", "openai-finetune", "-o", tmp_path / "out.jsonl")
    assert 1 == code and 60 > len(err.splitlines())
    assert "2,950 more" in err.splitlines()[-1]


def test_losses_of_many_conversations_are_grouped_with_examples(tmp_path: Path, monkeypatch: Any) -> None:
    """By place and reason, over all pieces."""
    monkeypatch.setattr(bulk, "PIECE", 5_000)
    path = tmp_path / "in.jsonl"
    body = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "colour": 0}]}
    path.write_text("".join(json.dumps(body) + "\n" for _ in range(500)))
    to = ("-f", "openai-finetune", "-t", "sharegpt", "-o", tmp_path / "out.jsonl")
    assert "500 dropped in 500 of 500 conversations; --report" in converted(path, *to)[1]
    err = converted(path, *to, "--report")[1]
    assert "500 lost in 500 of 500 conversations" in err
    assert "dropped" in err and "500 ×" in err and "$.messages[].extra.openai-finetune.colour" in err
    assert [f"in.jsonl:{n} $.messages[1].extra" in err for n in range(1, 6)] == [True] * 3 + [False] * 2


def test_nothing_is_said_of_losses_where_nothing_was_converted(tmp_path: Path) -> None:
    """Several conversations for a file that can have one, or none that can be read: there is the error alone."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINES)
    code, err = converted(path, "-t", "transcript", "-o", tmp_path / "out.jsonl", "--report")
    assert (1, True, False) == (code, "give a folder" in err, "nothing lost" in err)
    path.write_bytes(b"{torn\n")
    code, err = converted(path, "-t", "transcript", "-o", tmp_path / "out.jsonl", "--report")
    assert (1, False) == (code, "nothing lost" in err)


def test_progress_says_bytes_rate_and_conversations(tmp_path: Path) -> None:
    """Where there is no terminal, as lines, if asked for."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINES)
    done = run("convert", path, "-t", "openai-finetune", "-o", tmp_path / "out.jsonl", "--progress")
    assert "300 conversations, 0.1 MB of 0.1 MB (100 %), " in done.err and "MB/s" in done.err


# --- going on --------------------------------------------------------------------------------------------------------

# Converts as the command does, in small pieces; gets a signal at the n-th moment, before or after a line of the
# journal.
KILLED = """
import os, signal, sys
from interlingua.cli import bulk, convert, main, outputs
from interlingua.conversion import large_sessions
bulk.PIECE, convert.PARALLEL, large_sessions.LARGE = 20_000, 0, 40_000
count, write = 0, outputs.PieceJournal.write
def killing(*arguments):
    global count
    for step in (lambda: None, lambda: write(*arguments)):
        step()
        count += 1
        if count == int(sys.argv[1]):
            os.kill(os.getpid(), int(sys.argv[2]))
outputs.PieceJournal.write = killing
main(sys.argv[3:])
"""


def ended_by(signal: int, moment: int, *arguments: str | Path, jobs: int) -> "subprocess.CompletedProcess[bytes]":
    how = [KILLED, str(moment), str(int(signal))]
    command = [sys.executable, "-c", *how, "convert", *map(str, arguments), "--resume", "-j", str(jobs)]
    return subprocess.run(command, check=False, capture_output=True, timeout=120)


def killed_at(moment: int, *arguments: str | Path, jobs: int = 1) -> int:
    return ended_by(signal.SIGKILL, moment, *arguments, jobs=jobs).returncode


@pytest.mark.parametrize("packing", ["plain", "gzip", "zip"])
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, packing: str) -> None:
    """Killed again and again, the output is the same as in one go, and so is what it says at the end."""
    path = tmp_path / "in"
    torn(path)
    data = path.read_bytes()
    path.write_bytes({"plain": data, "gzip": gzip.compress(data), "zip": zipped(a=data)}[packing])
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    to = ("-t", "openai-finetune", "--on-error", "keep", "-o")
    expected = converted(path, *to, whole, "--resume")[1]
    for moment in (3, 2, 1, 4):
        assert -signal.SIGKILL == killed_at(moment, path, *to, out)
        assert not out.exists()
    done = run("convert", path, *to, out, "--resume")
    assert "another run" in done.err and 1 == done.code  # the pieces are of another size here
    assert 1 == killed_at(0, path, *to, out)
    assert whole.read_bytes() == out.read_bytes()
    assert Path(f"{whole}.errors.jsonl").read_bytes() == Path(f"{out}.errors.jsonl").read_bytes()
    assert 2 == len(expected.splitlines())
    assert [] == [file.name for file in tmp_path.iterdir() if file.name.startswith(".")]


@pytest.mark.parametrize("target", ["openai-finetune", "transcript"])
def test_a_killed_run_into_a_folder_goes_on(tmp_path: Path, target: str) -> None:
    """Files of the same name stay apart, and none is written twice."""
    for at in range(3):
        (tmp_path / str(at)).mkdir()
        (tmp_path / str(at) / "in.jsonl").write_bytes(LINES[: LINES.index(b"\n", 40_000 * (at + 1) // 3) + 1])
    inputs = sorted(tmp_path.glob("*/in.jsonl"))
    converted(*inputs, "-t", target, "-o", tmp_path / "whole")
    for moment in (2, 3, 1, 0):
        killed_at(moment, *inputs, "-t", target, "-o", tmp_path / "out")
    whole, out = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("whole", "out"))
    assert whole == out


# Converts as the command does, in small pieces; the kernel ends it when it writes beyond byte n of any file.
FULL = """
import resource, signal, sys
from interlingua.cli import bulk, convert, main
bulk.PIECE, convert.PARALLEL = 20_000, 0
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
main(sys.argv[2:])
"""


BAD = b'{"conversations": 7}\n' * 2000  # more than a piece


def ended_at(size: int, *arguments: str | Path) -> int:
    command = [sys.executable, "-c", FULL, str(size), "convert", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, timeout=120).returncode


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst", "out/"])
def test_a_run_that_ends_at_any_byte_goes_on(tmp_path: Path, monkeypatch: Any, name: str, jobs: str) -> None:
    """Nothing is lost or doubled, failures and the report included."""
    monkeypatch.setattr(bulk, "PIECE", 20_000)
    monkeypatch.chdir(tmp_path)
    coloured = LINES.replace(b'"from": "gpt"', b'"colour": 1, "from": "gpt"').splitlines(keepends=True)
    Path("a.jsonl").write_bytes(b"".join(coloured[:100]))
    Path("b.jsonl").write_bytes(BAD + b"".join(coloured[100:]))
    given = (
        "a.jsonl",
        "b.jsonl",
        "-f",
        "sharegpt",
        "-t",
        "openai-finetune",
        "--on-error",
        "keep",
        "--report",
        "-j",
        jobs,
        "-o",
    )
    code, err = converted(*given, f"whole/{name}")
    assert (1, True, True) == (code, "1,950 more" in err, "100 × " not in err and "300 × " in err)
    longest = max(map(len, written(tmp_path / "whole").values()))
    ends = [ended_at(longest * part // 100, *given, f"part/{name}", "--resume") for part in (90, 30, 60, 99)]
    assert -signal.SIGXFSZ in ends
    assert (code, err.replace("whole", "part")) == converted(*given, f"part/{name}", "--resume")
    assert written(tmp_path / "whole") == written(tmp_path / "part")


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", ["out.jsonl.gz", "out/"])
def test_a_run_that_is_interrupted_goes_on(tmp_path: Path, name: str, jobs: int) -> None:
    """By Ctrl-C, before or after a line of the journal: it says how, and does."""
    (tmp_path / "a.jsonl").write_bytes(LINES)
    (tmp_path / "b.jsonl").write_bytes(LINES)
    given = (tmp_path / "a.jsonl", tmp_path / "b.jsonl", "-t", "openai-finetune", "-o")
    assert 0 == killed_at(0, *given, f"{tmp_path}/whole/{name}")
    for moment in (3, 4):
        ended = ended_by(signal.SIGINT, moment, *given, f"{tmp_path}/part/{name}", jobs=jobs)
        assert 130 == ended.returncode and b"run the same command with --resume" in ended.stderr
    assert 0 == killed_at(0, *given, f"{tmp_path}/part/{name}", jobs=jobs)
    assert written(tmp_path / "whole") == written(tmp_path / "part")


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out/"])
def test_a_run_on_a_full_disk_goes_on(tmp_path: Path, monkeypatch: Any, name: str, jobs: str) -> None:
    """What is written stays, as after an interruption; the limit on the size of files stands for the disk."""
    monkeypatch.setattr(bulk, "PIECE", 20_000)
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_bytes(LINES)
    given = ("a.jsonl", "-t", "openai-finetune", "-j", jobs, "-o")
    assert (0, "") == converted(*given, f"whole/{name}")
    longest = max(map(len, written(tmp_path / "whole").values()))
    for part in (60, 90):
        command = [sys.executable, "-c", FULL.replace("SIG_DFL", "SIG_IGN"), str(longest * part // 100), "convert"]
        done = subprocess.run(
            [*command, *given, f"part/{name}", "--resume"], check=False, capture_output=True, timeout=120, text=True
        )
        assert 1 == done.returncode and "--resume to continue\n" in done.stderr, done.stderr
        assert 1 == done.stderr.count("File too large; ") and "Traceback" not in done.stderr
    assert (0, "") == converted(*given, f"part/{name}", "--resume")
    assert written(tmp_path / "whole") == written(tmp_path / "part")


def test_runs_into_one_folder_have_journals_of_their_own(tmp_path: Path) -> None:
    """A run that ends leaves the journal of one that was killed before it."""
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(LINES)
    to = ("-t", "openai-finetune", "-o", f"{tmp_path}/out/")
    assert -signal.SIGKILL == killed_at(3, tmp_path / "a.jsonl", *to)
    journals = list((tmp_path / "out").glob("*.progress"))
    assert 0 == killed_at(0, tmp_path / "b.jsonl", *to)
    assert journals == list((tmp_path / "out").glob("*.progress")) and 1 == len(journals)
    assert 0 == killed_at(0, tmp_path / "a.jsonl", *to)
    assert ["a.jsonl", "b.jsonl"] == sorted(written(tmp_path / "out"))
    assert 300 == len(numbers((tmp_path / "out" / "a.jsonl").read_bytes()))


def test_a_run_that_goes_on_is_not_resumed(tmp_path: Path) -> None:
    """Two processes would write the same files."""
    (tmp_path / "a.jsonl").write_bytes(LINES)
    given = (tmp_path / "a.jsonl", "-t", "openai-finetune", "-o", f"{tmp_path}/out/")
    assert -signal.SIGKILL == killed_at(3, *given)
    (journal,) = (tmp_path / "out").glob("*.progress")
    with journal.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ended = ended_by(signal.SIGKILL, 0, *given, jobs=1)
        assert 1 == ended.returncode and b"another process is writing this file" in ended.stderr
    assert 0 == killed_at(0, *given)
    assert 300 == len(numbers((tmp_path / "out" / "a.jsonl").read_bytes()))


def test_a_file_that_begins_with_failures_is_not_added_to_the_one_before(tmp_path: Path) -> None:
    """Where a run ended among the failures, the file before was still open."""
    (tmp_path / "a.jsonl").write_bytes(LINES[:1000])
    (tmp_path / "b.jsonl").write_bytes(BAD + LINES)
    given = (tmp_path / "a.jsonl", tmp_path / "b.jsonl", "-f", "sharegpt", "-t", "openai-finetune", "-o")
    converted(*given, tmp_path / "whole")
    assert -signal.SIGKILL == killed_at(4, *given, tmp_path / "out")  # after the first piece of the second file
    killed_at(0, *given, tmp_path / "out")
    assert written(tmp_path / "whole") == written(tmp_path / "out")


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("target", ["transcript", "openai-completions"])
def test_large_sessions_that_were_not_finished_leave_nothing(tmp_path: Path, target: str, jobs: int) -> None:
    """Each goes to a file of its own; with several processes, by way of a temporary one."""
    (tmp_path / "in").mkdir()
    for name in "abcdef":
        turns = [il.UserMessage(content=f"{name}{at} " + "word " * 40) for at in range(300)]
        conversation = il.Conversation(entries=tuple(il.Entry(message=turn) for turn in turns))
        (tmp_path / f"in/{name}.jsonl").write_bytes(il.encode(conversation, "claude-code").bytes())
    given = (tmp_path / "in", "-t", target, "-o")
    converted(*given, tmp_path / "whole")
    for moment in (3, 2):
        assert -signal.SIGKILL == killed_at(moment, *given, tmp_path / "out", jobs=jobs)
    assert 0 == killed_at(0, *given, tmp_path / "out", jobs=jobs)
    assert 6 == len(written(tmp_path / "whole"))
    assert written(tmp_path / "whole") == written(tmp_path / "out")


def test_a_run_killed_among_its_workers_leaves_none_behind(tmp_path: Path) -> None:
    """The parent alone is killed; the run goes on later, with every row once."""
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_bytes(b"".join(json.dumps(row(at, 1000)).encode() + b"\n" for at in range(10_000)))
    arguments = ["convert", str(path), "-t", "openai-finetune", "-o", str(out), "-j", "2"]
    process = subprocess.Popen([*COMMAND, *arguments], start_new_session=True)
    journal = tmp_path / ".out.jsonl.progress"
    while process.poll() is None and (not journal.exists() or 2 > len(journal.read_bytes().splitlines())):
        time.sleep(0.01)
    process.kill()
    process.wait()
    while True:  # workers end by themselves
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.01)
    assert not out.exists()
    assert (0, "") == converted(*arguments[1:], "--resume")
    assert list(range(10_000)) == numbers(out.read_bytes())


def test_what_cannot_go_on_is_refused(tmp_path: Path) -> None:
    """A changed input, or standard input."""
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_bytes(LINES)
    assert -signal.SIGKILL == killed_at(2, path, "-t", "openai-finetune", "-o", out)
    path.write_bytes(LINES + LINES)
    assert 1 == killed_at(0, path, "-t", "openai-finetune", "-o", out) and not out.exists()
    assert (0, "") == converted(path, "-t", "openai-finetune", "-o", out) and 600 == len(numbers(out.read_bytes()))
    assert 2 == run("convert", "-", "-t", "openai-finetune", "-o", out, "--resume", given=LINES).code


CHAT = [{"from": "user", "text": "Hi"}, {"from": "assistant", "text": "Yes"}]
MAPPING = "messages=chat,messages.role=from,messages.content=text"


@pytest.mark.parametrize("kind", ["lines", "array", "large array", "zip", "parquet"])
def test_columns_are_read_under_the_names_of_a_format(kind: str, tmp_path: Path) -> None:
    """Those of a row, and those of each of its messages."""
    rows = [{"chat": CHAT, "id": n, "note": "x" * (20_000 if kind == "large array" else 1)} for n in range(80)]
    path = tmp_path / {"parquet": "a.parquet", "zip": "a.zip"}.get(kind, "a.json")
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="NOT TESTED: pyarrow is not installed")
        importlib.import_module("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.jsonl", lines)
    else:
        path.write_text(lines if kind == "lines" else json.dumps(rows))
    done = run("convert", path, "-t", "sharegpt", "--columns", MAPPING)
    assert (0, 80) == (done.code, len(done.out.splitlines()))
    turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]
    assert turns == json.loads(done.out.splitlines()[-1])["conversations"]
    columns = dict(pair.split("=") for pair in MAPPING.split(","))
    assert 80 == len(list(il.read(path, columns=columns)))


def test_a_column_that_has_the_new_name_of_another_is_kept(tmp_path: Path) -> None:
    """They exchange their names, so that neither is lost."""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"messages": "a note", "chat": [{"role": "user", "content": "Hi"}]}) + "\n")
    (read,) = il.read(path, "openai-completions", columns={"messages": "chat"})
    assert ["Hi"] == [message.text for message in read.messages]
    assert {"messages": [{"role": "user", "content": "Hi"}], "chat": "a note"} == il.encode(
        read, "openai-completions"
    ).body


def test_columns_that_are_no_pairs_are_a_mistake(tmp_path: Path) -> None:
    """And are named as they were given."""
    (tmp_path / "a.jsonl").write_text("{}")
    done = run("convert", tmp_path / "a.jsonl", "-t", "sharegpt", "--columns", "messages")
    assert (2, True) == (done.code, "NAME=COLUMN" in done.err)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_conversations_are_written_as_columns(ending: str, tmp_path: Path) -> None:
    """Columns that only some rows have included; what is read again is what was converted."""
    pytest.importorskip("pyarrow", reason="NOT TESTED: pyarrow is not installed")
    tool = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
    rows = [
        {"messages": [{"role": "user", "content": f"Hi {n}"}, {"role": "assistant", "content": "Yes", "weight": 1}]}
        for n in range(1200)
    ]
    rows.append({**rows[0], "tools": [tool]})
    path, out = tmp_path / "a.jsonl", tmp_path / f"out.{ending}"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("convert", path, "-t", "openai-finetune", "-o", out)
    assert (0, "") == (done.code, done.out)
    read = list(il.read(out))
    assert 1201 == len(read)
    assert [rows[7], rows[-1]] == [il.encode(read[at], "openai-finetune").body for at in (7, -1)]


def test_what_has_no_columns_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    """A session, and rows of different types in one column."""
    pytest.importorskip("pyarrow", reason="NOT TESTED: pyarrow is not installed")
    path, out = tmp_path / "a.jsonl", tmp_path / "out.parquet"
    rows: list[Any] = [{"messages": [{"role": "user", "content": "Hi"}]}]
    rows.append({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for target in ("transcript", "openai-finetune"):
        done = run("convert", path, "-t", target, "-o", out)
        assert (1, True, False) == (done.code, "column" in done.err, out.exists())
