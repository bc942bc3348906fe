"""`interlingua convert`: every kind of input, output and trouble."""

import gzip
import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard

import interlingua as il
from cli.running import COMMAND, run
from interlingua.cli import bulk
from interlingua.conversion.sources import Source

BODY = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
LINE = json.dumps(BODY)
CHAT = {"model": "gpt-x", "messages": [{"role": "user", "content": "Hi"}]}
STREAM = (
    'data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[]}}\n\n'
    'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\n'
    'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}\n\n'
    'data: {"type":"message_stop"}\n\n'
)
MESSAGE = '{"role":"user","content":"Hi","timestamp":1}'
RESULT = '{"role":"toolResult","toolCallId":"c","toolName":"t","content":[],"isError":false,"timestamp":2}'


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    "packed",
    [
        LINE.encode(),
        gzip.compress(LINE.encode()),
        zstandard.compress(LINE.encode()),
        b"\xef\xbb\xbf" + LINE.encode(),
        LINE.encode("utf-16"),
    ],
    ids=["plain", "gzip", "zstd", "with a byte order mark", "utf-16"],
)
def test_input_may_be_packed(tmp_path: Path, packed: bytes) -> None:
    """What a file is packed or spelled in does not matter."""
    done = run("convert", written(tmp_path / "in", packed), "-t", "openai-completions")
    assert (done.code, done.json["messages"]) == (0, BODY["messages"])


def test_standard_input_and_output_are_the_default() -> None:
    """`convert` works in a pipe."""
    done = run("convert", "-t", "openai-completions", given=LINE.encode())
    assert done.json["messages"] == BODY["messages"]


def test_an_archive_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Lines in a file called .zip would not be one."""
    done = run("convert", "-t", "openai-completions", "-o", "out.zip", given=LINE.encode(), cwd=tmp_path)
    assert 2 == done.code and "use .gz or .zst" in done.err and [] == list(tmp_path.iterdir())


def test_a_dash_is_standard_output(tmp_path: Path) -> None:
    """And not a file of that name."""
    done = run("convert", "-t", "openai-completions", "-o", "-", given=LINE.encode(), cwd=tmp_path)
    assert done.json["messages"] == BODY["messages"] and not list(tmp_path.iterdir())


def test_a_file_that_is_named_twice_is_one_file_in_a_folder(tmp_path: Path) -> None:
    """Not two bodies in one `.json`."""
    path, out = written(tmp_path / "in.json", LINE), tmp_path / "out"
    assert run("convert", path, path, "-t", "openai-completions", "-o", out).code == 0
    (made,) = out.iterdir()
    assert json.loads(made.read_bytes())["messages"] == BODY["messages"]


def test_each_line_may_be_a_conversation(tmp_path: Path) -> None:
    """A file of request bodies becomes a file of converted bodies, line for line."""
    done = run("convert", written(tmp_path / "in.jsonl", f"{LINE}\n\n{LINE}\n"), "-t", "openai-completions")
    assert [json.loads(line)["messages"] for line in done.out.splitlines()] == [BODY["messages"]] * 2


def test_one_bad_line_does_not_lose_the_rest(tmp_path: Path) -> None:
    """A bad line is reported with file and number, and the exit code says so."""
    path = written(tmp_path / "in.jsonl", f"{LINE}\n{{broken\n{LINE}\n")
    done = run("convert", path, "-t", "openai-completions")
    assert done.code == 1
    assert len(done.out.splitlines()) == 2
    assert f"{path}:2: not JSON" in done.err
    assert "Traceback" not in done.err


def test_one_bad_line_of_a_session_does_not_lose_the_rest(tmp_path: Path) -> None:
    """The good lines of a session file are one conversation."""
    path = written(tmp_path / "s.jsonl", f"{MESSAGE}\nnonsense\n{RESULT}\n")
    done = run("convert", path, "-t", "transcript")
    assert (done.code, len(done.out.splitlines())) == (1, 2)
    assert f"{path}:2" in done.err


def test_a_recorded_stream_is_an_answer(tmp_path: Path) -> None:
    """Server-sent events fold to the message that they amount to."""
    done = run("convert", written(tmp_path / "a.sse", STREAM), "-f", "anthropic-messages", "-t", "transcript")
    assert json.loads(done.out.splitlines()[-1])["content"] == [{"type": "text", "text": "Hi"}]


def test_a_folder_becomes_a_folder(tmp_path: Path) -> None:
    """Every conversation in a folder is converted into a file of its own; the same name twice is kept apart."""
    source = tmp_path / "in"
    (source / "deep").mkdir(parents=True)
    written(source / "a.json", LINE)
    written(source / "deep" / "a.json", LINE)
    written(source / "b.jsonl", f"{LINE}\n{LINE}\n")
    done = run("convert", source, "-t", "openai-completions", "-o", tmp_path / "out")
    assert done.code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a-2.json", "a.json", "b.jsonl"]


def test_many_files_are_shared_among_processes(tmp_path: Path) -> None:
    """The result does not depend on how many processes worked on it."""
    for at in range(20):
        written(tmp_path / f"{at:02}.json", json.dumps({**BODY, "max_tokens": at + 1}))
    outs = []
    for jobs in ("1", "2"):
        assert (
            run("convert", tmp_path / "*.json", "-t", "openai-completions", "-j", jobs, "-o", tmp_path / jobs).code == 0
        )
        outs.append([path.read_bytes() for path in sorted((tmp_path / jobs).iterdir())])
    assert outs[0] == outs[1]
    assert len(outs[0]) == 20


def test_the_report_says_what_was_lost_and_strict_refuses(tmp_path: Path) -> None:
    """`--report` goes to standard error; `--strict` turns the first loss into an error."""
    body = {**BODY, "top_k": 5}
    path = written(tmp_path / "a.json", json.dumps(body))
    output = run("convert", path, "-t", "openai-responses", "--report")
    assert "$.options.topK" in output.err and output.code == 0
    refused = run("convert", path, "-t", "openai-responses", "--strict")
    assert (refused.code, refused.out) == (1, "")
    assert "$.options.topK" in refused.err


def test_json_is_for_programs(tmp_path: Path) -> None:
    """`--json` holds the bodies, the losses and the errors."""
    path = written(tmp_path / "a.jsonl", f"{LINE}\n[\n")
    done = run("convert", path, "-t", "ollama-chat", "--json")
    assert done.json["results"][0]["body"]["messages"] == BODY["messages"]
    assert done.json["errors"][0]["source"] == f"{path}:2"


TROUBLE = {
    "binary": (bytes(range(256)), "not JSON"),
    "empty": (b"", "empty"),
    "truncated": (LINE[:-5].encode(), "not JSON"),
    "truncated gzip": (gzip.compress(LINE.encode() * 50)[:-20], "damaged archive"),
    "broken gzip": (b"\x1f\x8b\x08" + b"x" * 50, "damaged archive"),
    "broken zstd": (b"\x28\xb5\x2f\xfd" + b"x" * 50, "damaged archive"),
    "ten thousand levels": (b"[" * 10_000 + b"]" * 10_000, "nested deeper"),
    "a number": (b"42", "no known format"),
    "null": (b"null", "no known format"),
    "no conversation": (b'{"a": 1}', "no known format"),
    "NaN": (b'{"messages": [NaN]}', "not JSON"),
    "not a message": (b'{"model": "claude", "max_tokens": 1, "system": "x", "messages": [5]}', "messages[0]"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_is_one_clear_line(name: str, tmp_path: Path) -> None:
    """Bad input names the file and what is wrong; there is no traceback and no output."""
    data, expected = TROUBLE[name]
    path = written(tmp_path / "in.json", data)
    done = run("convert", path, "-t", "openai-completions")
    assert done.code == 1
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert str(path) in done.err and expected in done.err


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    """So is one that is not there."""
    done = run("convert", tmp_path / "none.json", "-t", "transcript")
    assert (done.code, done.err) == (1, f"interlingua: {tmp_path / 'none.json'}: No such file or directory\n")


def test_an_unreadable_file_does_not_stop_the_others(tmp_path: Path) -> None:
    """A folder in the place of a file stands for whatever the system refuses to open."""
    written(tmp_path / "a.json", LINE)
    (tmp_path / "b.json").symlink_to(tmp_path / "nowhere")
    done = run("convert", tmp_path / "a.json", tmp_path / "b.json", "-t", "openai-completions", "-o", tmp_path / "out")
    assert done.code == 1
    assert (tmp_path / "out" / "a.json").exists()
    assert "b.json: No such file" in done.err


def test_a_body_over_the_limit_is_refused_with_the_limit_named(tmp_path: Path) -> None:
    """What must become one body stops at a stated size."""
    path = written(tmp_path / "big.json", json.dumps({**BODY, "system": "x" * 2_000_000}, indent=1))
    done = run("convert", path, "-t", "openai-completions", "--max-size", "1")
    assert done.code == 1
    assert "larger than 1 MB" in done.err and "--max-size" in done.err


def test_a_full_disk_leaves_the_old_output(tmp_path: Path) -> None:
    """When writing fails, the file that was there is still there, and nothing half-written beside it."""
    path = written(tmp_path / "a.json", json.dumps({**BODY, "system": "x" * 200_000}))
    out = written(tmp_path / "out.json", "old")

    def little_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = run("convert", path, "-t", "openai-completions", "-o", out, preexec_fn=little_room)
    assert done.code == 1
    assert len(done.err.splitlines()) == 1 and "too large" in done.err.lower()
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "out.json"]


def large_session(path: Path, size: int) -> None:
    text = json.dumps({"role": "user", "content": "word " * 200, "timestamp": 1}, separators=(",", ":"))
    unit = f"{text}\n{RESULT}\n".encode()
    with path.open("wb") as stream:
        for _ in range(size // len(unit)):
            stream.write(unit)


def test_a_large_session_is_converted_line_by_line(tmp_path: Path) -> None:
    """The pieces that workers convert are put together in order; a bad line is named by its number in the file."""
    path = tmp_path / "large.jsonl"
    large_session(path, 40 << 20)
    lines = path.read_bytes().splitlines()
    lines[30_000] = b"{torn"
    path.write_bytes(b"\n".join(lines) + b"\n")
    done = run("convert", path, "-t", "transcript", "-o", tmp_path / "out.jsonl", "-j", "2")
    assert done.code == 1
    assert "large.jsonl:30001:" in done.err and len(done.err.splitlines()) == 1
    assert (tmp_path / "out.jsonl").read_bytes().splitlines() == lines[:30_000] + lines[30_001:]


def test_killed_half_way_it_leaves_no_output(tmp_path: Path) -> None:
    """The output appears whole or not at all."""
    path = tmp_path / "large.jsonl"
    large_session(path, 120 << 20)
    process = subprocess.Popen(
        [*COMMAND, "convert", str(path), "-t", "transcript", "-o", str(tmp_path / "out.jsonl")], start_new_session=True
    )
    while not list(tmp_path.glob(".out.jsonl.*")) and process.poll() is None:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out.jsonl").exists()


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """`| head` ends the program quietly."""
    path = tmp_path / "lines.jsonl"
    path.write_text(f"{LINE}\n" * 20_000)
    shell = f"{' '.join(map(repr, COMMAND))} convert {path} -t ollama-chat -j 1 | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr


THOUGHT = [{"type": "thinking", "thinking": "Hm.", "signature": "EqQBCgIYAhIk"}, {"type": "text", "text": "Yes"}]
LOSSY = json.dumps({**BODY, "messages": [*BODY["messages"], {"role": "assistant", "content": THOUGHT}]})  # type: ignore[misc]
ONE_EACH = ["transcript", "openclaw"]


@pytest.mark.parametrize("target", ONE_EACH)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("given", ["a file of lines", "several files", "an array"])
def test_many_conversations_never_become_one(tmp_path: Path, target: str, strict: bool, given: str) -> None:
    """A session file holds one: several are refused and nothing is touched; into a folder, each gets its own."""
    chat = json.dumps(CHAT)
    example = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    many = {
        "a file of lines": [written(tmp_path / "in.jsonl", f"{chat}\n{chat}\n")],
        "several files": [written(tmp_path / f"{at}.json", chat) for at in range(2)],
        "an array": [written(tmp_path / "set.json", json.dumps([example, example]))],
    }[given]
    out, command = written(tmp_path / "out.jsonl", "precious"), ("convert", *many, "-t", target)
    flags = ("--strict",) if strict else ()
    if len(many) == 1:
        done = run(*command, "-o", out, *flags)
        assert (1, "precious") == (done.code, out.read_text())
        assert "several conversations" in done.err and "-o FOLDER/" in done.err
    piped = run(*command, *flags)
    assert (1, "") == (piped.code, piped.out) and "-o FOLDER/" in piped.err
    assert 0 == run(*command, "-o", f"{tmp_path}/out/", *flags).code
    files = sorted((tmp_path / "out").iterdir())
    assert 2 == len(files)
    for file in files:
        (row,) = run("convert", file, "-f", target, "-t", "anthropic-messages", "--json").json["results"]
        assert 1 == sum(message["role"] == "user" for message in row["body"]["messages"])


@pytest.mark.parametrize("bad", ["", "{nonsense", '{"unknown": 1}'])
@pytest.mark.parametrize("target", ["openai-completions", "transcript"])
def test_a_failed_conversion_leaves_the_output_that_was_there(tmp_path: Path, bad: str, target: str) -> None:
    """Nothing came, so nothing takes its place; and without one, none is made."""
    out = written(tmp_path / "out.json", "precious")
    path = written(tmp_path / "in.json", bad)
    done = run("convert", path, "-t", target, "-o", out)
    assert (1, "precious") == (done.code, out.read_text())
    assert 1 == run("convert", path, "-t", target, "-o", tmp_path / "new.json").code
    assert ["in.json", "out.json"] == sorted(file.name for file in tmp_path.iterdir())


def test_a_large_file_of_which_nothing_can_be_read_replaces_nothing(tmp_path: Path) -> None:
    """By the way for large files, too."""
    path = written(tmp_path / "s.jsonl", (MESSAGE + "\n") * 2 + ("nonsense " * 100 + "\n") * 12_000)
    out = written(tmp_path / "out.jsonl", "precious")
    bad = written(tmp_path / "bad.jsonl", ("nonsense " * 100 + "\n") * 12_000)
    assert 1 == run("convert", bad, "-f", "transcript", "-t", "transcript", "-o", out).code
    assert "precious" == out.read_text()
    assert 1 == run("convert", path, "-f", "transcript", "-t", "transcript", "-o", out).code
    assert 2 == len(out.read_text().split())


@pytest.mark.parametrize("kind", ["the same name", "another way there", "a link", "a hard link", "standard input"])
def test_the_input_is_never_the_output(tmp_path: Path, kind: str) -> None:
    """Whatever the two are called."""
    path = written(tmp_path / "in.json", LINE)
    (tmp_path / "below").mkdir()
    out = {"another way there": tmp_path / "below" / ".." / "in.json", "the same name": path}.get(
        kind, tmp_path / "out"
    )
    if kind == "a link":
        out.symlink_to(path)
    if kind == "a hard link":
        out.hardlink_to(path)
    if kind == "standard input":
        with path.open("rb") as stream:
            done = run("convert", "-", "-t", "openai-completions", "-o", path, stdin=stream)
    else:
        done = run("convert", path, "-t", "openai-completions", "-o", out)
    assert 1 == done.code and "name another file" in done.err
    assert LINE == path.read_text()


def test_no_input_is_the_output_of_another(tmp_path: Path) -> None:
    """`a.json` becomes `a.jsonl`, which is read next: it is refused before it is gone."""
    written(tmp_path / "a.json", LINE)
    written(tmp_path / "a.jsonl", f"{MESSAGE}\n{RESULT}\n")
    before = (tmp_path / "a.jsonl").read_text()
    done = run("convert", "a.json", "a.jsonl", "-t", "transcript", "-o", ".", cwd=tmp_path)
    assert 1 == done.code and "a.jsonl" in done.err and "name another" in done.err
    assert before == (tmp_path / "a.jsonl").read_text()


def test_inputs_of_the_same_name_get_outputs_of_their_own(tmp_path: Path) -> None:
    """From different folders, and spelled in capitals."""
    for at, name in enumerate(["a.json", "a.json", "A.json"]):
        (tmp_path / str(at)).mkdir()
        written(tmp_path / str(at) / name, LINE)
    done = run("convert", *sorted(tmp_path.glob("*/*.json")), "-t", "openai-completions", "-o", tmp_path / "out")
    assert 0 == done.code
    assert ["A-3.json", "a-2.json", "a.json"] == sorted(file.name for file in (tmp_path / "out").iterdir())


def test_pipes_devices_links_and_modes_stay_what_they_are(tmp_path: Path) -> None:
    """Only a file is replaced: by another of the same mode, behind the link that led to it."""
    path = written(tmp_path / "in.json", LINE)
    to = ("-t", "openai-completions", "-o")
    shown = run("convert", path, *to, "/dev/stdout")
    assert (0, BODY["messages"]) == (shown.code, shown.json["messages"])
    assert 0 == run("convert", path, *to, "/dev/null").code and not Path("/dev/null").is_file()
    kept = written(tmp_path / "kept.json", "old")
    kept.chmod(0o640)
    (tmp_path / "link.json").symlink_to(kept)
    assert 0 == run("convert", path, *to, tmp_path / "link.json").code
    assert (tmp_path / "link.json").is_symlink() and BODY["messages"] == json.loads(kept.read_text())["messages"]
    assert 0o640 == kept.stat().st_mode & 0o777
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    assert 0 == run("convert", path, *to, tmp_path / "pipe").code
    assert BODY["messages"] == json.loads(reader.communicate(timeout=60)[0])["messages"]


def test_losses_are_counted_in_one_line_unless_they_are_listed(tmp_path: Path) -> None:
    """On standard error, by severity, with how to see them; nothing where nothing was lost, nothing for programs."""
    lossy, whole = written(tmp_path / "lossy.json", LOSSY), written(tmp_path / "whole.json", LINE)
    done = run("convert", lossy, "-t", "openai-completions")
    assert 0 == done.code and 1 == len(done.err.splitlines())
    assert f"{lossy} → openai-completions: 1 dropped; --report lists what was lost, --strict refuses\n" == done.err
    assert 1 == run("convert", lossy, "-t", "openai-completions", "--strict").code
    assert "" == run("convert", whole, "-t", "openai-completions").err
    assert "" == run("convert", lossy, "-t", "openai-completions", "--json").err
    assert "$.messages[1].content[0]" in run("convert", lossy, "-t", "openai-completions", "--report").err
    many = run("convert", lossy, whole, "-t", "openai-completions", "-o", tmp_path / "out")
    assert many.err.startswith("2 files → openai-completions: 1 dropped in 1 of 2 conversations; --report lists")


@pytest.mark.parametrize(
    ("alias", "name"),
    [("openai", "openai-completions"), ("anthropic", "anthropic-messages"), ("bedrock", "bedrock-converse-stream")],
)
def test_a_format_may_be_named_by_its_provider(alias: str, name: str) -> None:
    """The same bytes as with the full name; as the source, too."""
    done = run("convert", "-t", alias, given=LINE.encode())
    assert (0, run("convert", "-t", name, given=LINE.encode()).out) == (done.code, done.out)
    assert done.out == run("convert", "-f", alias, "-t", alias, given=done.out.encode()).out


@pytest.mark.parametrize(
    ("target", "model", "id"), [("openai", "gpt-4o-mini", "gpt-4o-mini"), ("anthropic", "anthropic/x", "x")]
)
def test_the_model_of_a_request_can_be_given(target: str, model: str, id: str) -> None:
    """With `--model`, in the request and not only in the report; a misspelt one writes nothing."""
    assert run("convert", "-t", target, "--model", model, given=LINE.encode()).json["model"] == id
    failed = run("convert", "-t", target, "--model", "claude-sonet", given=LINE.encode())
    assert (1, "") == (failed.code, failed.out) and "did you mean" in failed.err


HALF = {
    "one": (b'{"model":"m","messages":[{"role":"user","content":"a\\ud83d"}]}', "$.messages[0].content"),
    "rows": (b'{"messages":[{"role":"user","content":"a\\ud83d"}]}\n' * 2, "$.messages[0].content"),
    "session": (b'{"role":"user","content":"a"}\n{"role":"user","content":"a\\ud83d"}\n', "$[1].content"),
}


def copied(path: Path, monkeypatch: pytest.MonkeyPatch, **given: Any) -> bulk.PieceResult:
    """The result for a session that is large enough for its lines to be copied."""
    for limit in ("LARGE", "PIECE"):
        monkeypatch.setattr(bulk, limit, 1)
    given = {"origin": None, "target": "transcript", "model": None, "strict": False, "limit": 1 << 20, **given}
    task, source = bulk.PieceTask(**given), Source(path)
    result = bulk.PieceResult()
    for piece in bulk.pieces(source, task, copy=True):
        one = bulk.convert(piece, task)
        result.payload += one.payload + b"".join(payload for _, payload in one.sessions)
        result.problems += one.problems
        result.losses.merge(one.losses)
    return result


def test_half_a_surrogate_pair_is_a_loss_where_lines_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in strict mode: the line is refused."""
    session = '{"role":"session","version":1}\n' + HALF["session"][0].decode()
    path = written(tmp_path / "a.jsonl", session)
    done = copied(path, monkeypatch)
    assert ([], 1) == (done.problems, done.losses.lossy) and "\ufffd".encode() in done.payload
    (refused,) = copied(path, monkeypatch, strict=True).problems
    assert (3, True) == (refused.line, "$.content" in refused.message)


def test_copied_lines_keep_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that may have packed ids, and is converted for that."""
    lines = [
        {"role": "session", "version": 1},
        {"role": "user", "content": [{"type": "text", "text": "How | many?"}], "id": "u"},
        {"role": "assistant", "content": [{"type": "text", "text": "Two | three."}], "id": "a", "parentId": "u"},
    ]
    done = copied(written(tmp_path / "a.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines)), monkeypatch)
    made = [json.loads(line) for line in done.payload.splitlines()]
    assert [("u", None), ("a", "u")] == [(line["id"], line.get("parentId")) for line in made[1:]]


def test_a_pi_session_without_its_first_line_becomes_a_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines are no messages: a large one is not copied line by line."""
    message, time = {"role": "user", "content": "a"}, "2026-01-01T00:00:00Z"
    lines = [{"type": "message", "id": f"e{at}", "timestamp": time, "message": message} for at in (1, 2)]
    done = copied(written(tmp_path / "a.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines)), monkeypatch)
    assert ([], 2) == (done.problems, done.payload.count(b'"role":"user"'))


@pytest.mark.parametrize("layout", HALF)
def test_half_a_surrogate_pair_is_a_loss(tmp_path: Path, layout: str) -> None:
    """It is read as U+FFFD, which the report says; strict mode refuses it."""
    data, place = HALF[layout]
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    done = run("convert", path, "-t", "openai-responses", "--report")
    assert done.code == 0 and "\ufffd" in done.out and place in done.err
    refused = run("convert", path, "-t", "openai-responses", "--strict")
    assert (refused.code, refused.out) == (1, "") and place in refused.err


def test_the_name_says_whether_many_inputs_become_one_file(tmp_path: Path) -> None:
    """With the ending of a file they are its lines; else each has a file in a folder, also if it is the only one."""
    (tmp_path / "in").mkdir()
    written(tmp_path / "in/a.json", LINE)
    written(tmp_path / "in/b.json", LINE)
    to = ("-t", "openai-finetune", "-o")
    assert 0 == run("convert", "in", *to, "all.jsonl", cwd=tmp_path).code
    assert 2 == len((tmp_path / "all.jsonl").read_text().splitlines())
    assert 0 == run("convert", "in", *to, "all.parquet", cwd=tmp_path).code
    assert 2 == len(list(il.read(tmp_path / "all.parquet")))
    assert 0 == run("convert", "in", *to, "out.v2", cwd=tmp_path).code
    (tmp_path / "in/b.json").unlink()
    assert 0 == run("convert", "in", *to, "one", cwd=tmp_path).code
    assert (["a.json", "b.json"], ["a.json"]) == tuple(
        sorted(path.name for path in (tmp_path / folder).iterdir()) for folder in ("out.v2", "one")
    )
    refused = run("convert", "in/a.json", "all.jsonl", "-t", "transcript", "-o", "t.jsonl", cwd=tmp_path)
    assert refused.code == 1 and "-o FOLDER/" in refused.err and not (tmp_path / "t.jsonl").exists()


def test_output_below_the_input_is_not_converted_again(tmp_path: Path) -> None:
    """A second run gives the same; what is named is read, and so is a folder that is converted into itself."""
    written(tmp_path / "a.json", LINE)
    for place in ("out/", "all.jsonl"):
        runs = [run("convert", ".", "-t", "openai-finetune", "-o", place, cwd=tmp_path) for _ in range(2)]
        assert [0, 0] == [done.code for done in runs]
        assert "1 file is not read, as this is the output" in runs[1].err
        (tmp_path / "all.jsonl").unlink(missing_ok=True)
    assert ["a.json"] == [path.name for path in (tmp_path / "out").iterdir()]
    assert 0 == run("convert", ".", "-t", "transcript", "-o", ".", cwd=tmp_path / "out").code
    assert ["a.json", "a.jsonl"] == sorted(path.name for path in (tmp_path / "out").iterdir())
