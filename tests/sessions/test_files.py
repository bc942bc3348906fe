"""Session files: torn tails, bad and foreign lines, a full disk, the index and the catalogue."""

import errno
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.sessions import Session, SessionDamaged, SessionError, files
from interlingua.sessions.files import FileLog, FileStore
from interlingua.sessions.index import Index, Record, StaleIndex, check_of
from interlingua.sessions.tree import ENTRY
from sessions.making import answer, fill, lines_of, read_lines, texts, user, write_lines


@pytest.fixture(autouse=True)
def _small_sessions_have_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_INDEXED", 1)


USER: dict[str, Any] = {"role": "user", "content": "Hi", "id": "a"}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "Hello", "id": "b", "parentId": "a"}


def test_files_are_where_the_specification_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`<home>/agents/<agent>/sessions/<id>.jsonl`, the session's line first, then a message a line."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    with Session.open("abc", agent="coder") as session:
        session.append(user("Hi", timestamp=5))
    path = tmp_path / "agents/coder/sessions/abc.jsonl"
    first, second = read_lines(path)
    assert ("session", 1, "abc", "coder") == tuple(first[key] for key in ("role", "version", "id", "agentId"))
    assert {"role": "user", "content": "Hi", "timestamp": 5} == {k: v for k, v in second.items() if k != "id"}
    assert 0o600 == path.stat().st_mode & 0o777


def test_a_session_file_is_a_transcript_that_any_part_can_read(tmp_path: Path) -> None:
    """The dialect sees the same path, whatever stands beside the tree."""
    with Session.open("s", home=tmp_path) as session:
        ids = fill(session, user("a"), answer("b"), user("c"))
        session.rewind(ids[1])
        session.label(ids[0], "x")
        fill(session, user("d"), answer("e"))
        session.label(ids[1], "y")
        session.journal("tool_start", call_id="z")
        spoken = [
            m for m in il.decode(Path(session.where).read_bytes()).messages if not isinstance(m, il.CustomMessage)
        ]
        assert list(session.messages) == spoken


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a\0b", "x" * 300])
def test_a_name_cannot_lead_elsewhere(tmp_path: Path, name: str) -> None:
    """Neither an id nor an agent."""
    store = FileStore(tmp_path)
    for place in (lambda: store.path("main", name), lambda: store.path(name, "s")):
        with pytest.raises(SessionError, match=r"invalid (session|agent) name"):
            place()


def test_a_file_of_bare_messages_is_read_and_continued(tmp_path: Path) -> None:
    """A line without id follows the line before; what is appended follows the last."""
    path = write_lines(tmp_path / "x.jsonl", {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})
    before = path.read_bytes()
    with Session.open(path) as session:
        assert ["a", "b"] == texts(session.messages)
        assert "line-2" == session.head
        session.append(user("c"))
    with Session.open(path) as session:
        assert ["a", "b", "c"] == texts(session.messages)
        session.rewind("line-1")
        session.append(answer("d"))
        assert ["a", "d"] == texts(session.messages)
    assert path.read_bytes().startswith(before)
    assert ["a", "b", "c"] == texts(il.decode(b"\n".join(path.read_bytes().splitlines()[:3])).messages)


def test_a_fork_of_bare_messages_can_be_rewound(tmp_path: Path) -> None:
    """Names by line number follow their lines into the new file."""
    path = write_lines(tmp_path / "x.jsonl", *({"role": "user", "content": text} for text in "abc"))
    with Session.open(path) as session:
        session.compact("S", "line-2")
        session.label("line-3", "three")
        session.append(user("d"))
        with session.fork() as other:
            assert ["a", "b", "c", "d"] == texts(other.messages)
            assert texts(session.context_messages()) == texts(other.context_messages())
            assert {"line-4": "three"} == other.labels()


def test_another_programs_tree_is_not_written_to(tmp_path: Path) -> None:
    """It is imported instead."""
    path = write_lines(tmp_path / "x.jsonl", {"type": "session", "version": 3, "id": "s"})
    before = path.read_bytes()
    with pytest.raises(SessionError, match="import it"):
        Session.open(path)
    assert before == path.read_bytes()
    assert not path.with_suffix(".lock").exists()


# --- torn tails ------------------------------------------------------------------------------------------------------


def test_case_105_a_torn_tail_is_moved_aside_and_appends_begin_on_a_fresh_line(tmp_path: Path) -> None:
    """Every whole line stays, the half one is kept apart, and it is reported."""
    path = write_lines(tmp_path / "x.jsonl", USER, ANSWER)
    path.write_bytes(path.read_bytes() + b'{"role":"user","content":"ha')
    with Session.open(path) as session:
        assert ["the last line was truncated (28 bytes): moved to x.torn-1"] == [p.message for p in session.problems]
        session.append(user("next"))
    assert b'{"role":"user","content":"ha' == (tmp_path / "x.torn-1").read_bytes()
    with Session.open(path) as session:
        assert ["Hi", "Hello", "next"] == texts(session.messages)
        assert () == session.problems


def test_a_second_torn_tail_does_not_overwrite_the_first(tmp_path: Path) -> None:
    """Each has a file of its own."""
    path = write_lines(tmp_path / "x.jsonl", USER)
    for part in (b"{one", b"{two"):
        with path.open("ab") as stream:
            stream.write(part)
        Session.open(path).close()
    assert [b"{one", b"{two"] == [(tmp_path / f"x.torn-{n}").read_bytes() for n in (1, 2)]


def test_a_last_line_that_only_lacks_its_newline_is_kept(tmp_path: Path) -> None:
    """Other programs write none."""
    path = write_lines(tmp_path / "x.jsonl", USER)
    path.write_bytes(path.read_bytes() + json.dumps(ANSWER).encode())
    with Session.open(path) as session:
        session.append(user("next"))
        assert ["Hi", "Hello", "next"] == texts(session.messages)


def test_torn_at_every_byte_all_acknowledged_lines_are_there(tmp_path: Path) -> None:
    """Wherever the last lines are cut, what was whole before the cut is read, and the session goes on."""
    path = tmp_path / "x.jsonl"
    with Session.open(path) as session:
        fill(session, user("one"), answer("zwei ✓"), user("three"))
    whole = path.read_bytes()
    contents = ["one", "zwei ✓", "three"]
    ends = [at for at, byte in enumerate(whole) if byte == 10]
    for cut in range(ends[0] + 1, len(whole) + 1):
        torn = tmp_path / f"cut-{cut}.jsonl"
        torn.write_bytes(whole[:cut])
        lines = sum(end < cut for end in ends) - 1 + (cut in ends[1:])  # with only its newline missing, a line is whole
        with Session.open(torn) as session:
            session.append(user("next"))
            assert [*contents[:lines], "next"] == texts(session.messages)
        with Session.open(torn, read_only=True) as session:
            assert [*contents[:lines], "next"] == texts(session.messages)


def test_a_reader_leaves_a_torn_tail_alone(tmp_path: Path) -> None:
    """It reports it, and reads the rest."""
    path = write_lines(tmp_path / "x.jsonl", USER)
    path.write_bytes(path.read_bytes() + b'{"ro')
    before = path.read_bytes()
    with Session.open(path, read_only=True) as session:
        assert ["Hi"] == texts(session.messages)
        assert ["line 2: the last line has no newline (4 bytes): ignored"] == list(map(str, session.problems))
    assert [path] == list(tmp_path.iterdir()) and before == path.read_bytes()


def test_an_existing_file_is_never_rewritten(tmp_path: Path) -> None:
    """Not even one that is no session at all."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"not json\n\nnot either\n")
    with Session.open(path) as session:
        session.append(user("Hi"))
        assert ["Hi"] == texts(session.messages)
        assert [1, 3] == [problem.line for problem in session.problems]
    assert path.read_bytes().startswith(b"not json\n\nnot either\n")


# --- bad and foreign lines -------------------------------------------------------------------------------------------


def test_case_112_reading_skips_bad_lines_and_what_would_drop_them_refuses(tmp_path: Path) -> None:
    """The session is not empty, the line is named, and a fork that would lose it is refused."""
    path = write_lines(tmp_path / "x.jsonl", USER, b"{torn", ANSWER, b"[1]", {"role": "user", "content": 5, "id": "z"})
    before = path.read_bytes()
    with Session.open(path) as session:
        assert ["Hi", "Hello"] == texts(entry.message for entry in session.entries())
        assert {2, 4, 5} == {problem.line for problem in session.problems}
        session.branch("b")
        with pytest.raises(SessionDamaged, match=r"line 2 .*doctor"):
            session.fork()
        session.branch("a")
        session.fork(id="ok").close()
    assert path.read_bytes().startswith(before)


def test_foreign_lines_survive_byte_for_byte(tmp_path: Path) -> None:
    """Unknown roles and keys, odd spacing and spelling."""
    odd = [
        b'{ "role" : "user" , "content":"\\u00e4", "id":"a", "mood": {"deep":[1.10, 1e3]} }',
        b'{"role":"weather","rain":true,"id":"b","parentId":"a"}\r',
        b"",
        b'{"id":"c","role":"assistant","parentId":"b","content":[{"type":"hologram","x":1}]}',
    ]
    path = write_lines(tmp_path / "x.jsonl", *odd)
    with Session.open(path) as session:
        session.append(user("next"))
        assert ["ä", "weather", "", "next"] == texts(session.messages)
        with session.fork(id="f") as other:
            copied = Path(other.where).read_bytes().split(b"\n")[1:4]
    assert lines_of(*odd) == path.read_bytes()[: len(lines_of(*odd))]
    assert [odd[0], odd[1], odd[3]] == copied


def test_an_orphan_follows_the_line_before_and_is_reported(tmp_path: Path) -> None:
    """The history behind a lost parent is not lost."""
    path = write_lines(tmp_path / "x.jsonl", USER, {**ANSWER, "parentId": "lost"}, {"role": "head", "target": "gone"})
    with Session.open(path, read_only=True) as session:
        assert ["Hi", "Hello"] == texts(session.messages)
        assert [2, 3] == [problem.line for problem in session.problems]


def test_no_path_runs_in_circles(tmp_path: Path) -> None:
    """Parents that come later, or are the line itself, are none."""
    path = write_lines(
        tmp_path / "x.jsonl",
        {**USER, "parentId": "b"},
        ANSWER,
        {"role": "user", "content": "c", "id": "c", "parentId": "c"},
    )
    with Session.open(path, read_only=True) as session:
        assert ["Hi", "Hello", "c"] == texts(session.messages)


def test_a_message_cannot_take_the_names_of_its_place(tmp_path: Path) -> None:
    """It would be read as another entry."""
    with Session.open("s", home=tmp_path) as session, pytest.raises(il.FormatError, match="parentId"):
        session.append(il.CustomMessage("note", {"parentId": "x"}))


# --- a full disk -----------------------------------------------------------------------------------------------------

FULL = """
import resource, sys
from pathlib import Path
import interlingua as il
from interlingua.sessions import Session, SessionError
path, session = Path(sys.argv[1]), Session.open(sys.argv[1])
session.append(il.UserMessage(content="one"))
size = path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
try:
    session.append(il.UserMessage(content="x" * 500))
except SessionError as error:
    print(error)
assert size == path.stat().st_size, "the half line is gone"
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
session.append(il.UserMessage(content="two"))
session.close()
"""


def test_a_full_disk_costs_the_line_and_nothing_else(tmp_path: Path) -> None:
    """The append fails with what to do; after that the session goes on."""
    path = tmp_path / "x.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "not saved, earlier lines are intact: File too large" in done.stdout and "x.jsonl" in done.stdout
    with Session.open(path) as session:
        assert (["one", "two"], ()) == (texts(session.messages), session.problems)


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of 256 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    """Appends fail cleanly, reading works, and when there is room again the session goes on where it was."""
    filler = small_disk / "filler"
    with Session.open("s", home=small_disk) as session:
        session.append(user("one"))
        filler.write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize))
        for _ in range(3):
            with pytest.raises(SessionError, match="No space left"):
                session.append(user("y" * 10_000))
        assert ["one"] == texts(session.messages)
        filler.unlink()
        session.append(user("two"))
    with Session.open("s", home=small_disk) as session:
        assert (["one", "two"], ()) == (texts(session.messages), session.problems)


# --- the index -------------------------------------------------------------------------------------------------------


def test_an_index_that_does_not_fit_is_made_anew(tmp_path: Path) -> None:
    """Damaged, of another file, or of the same file before it was edited in place."""
    path = tmp_path / "x.jsonl"
    with Session.open(path) as session:
        fill(session, user("aaaa"), answer("bbbb"))
    index = path.with_suffix(".idx")
    good = index.read_bytes()
    for wrong in (b"", b"junk", good[:50], good[:60] + b"\0" * 60, good[:-1]):
        index.write_bytes(wrong)
        with Session.open(path, read_only=True) as session:
            assert ["aaaa", "bbbb"] == texts(session.messages)
    index.write_bytes(good)
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"cccc"))
    with Session.open(path, read_only=True) as session:
        assert ["cccc", "bbbb"] == texts(session.messages)
    path.write_bytes(path.read_bytes().replace(b'"cccc"', b'"long words"'))
    with Session.open(path, read_only=True) as session:
        assert ["long words", "bbbb"] == texts(session.messages)


def test_an_index_whose_records_are_wrong_is_found_out_on_reading(tmp_path: Path) -> None:
    """The header may vouch for records that a power cut never wrote."""
    path = tmp_path / "x.jsonl"
    with Session.open(path) as session:
        ids = fill(session, user("a"), answer("b"), user("c"), answer("d"))
    index = path.with_suffix(".idx")
    good = bytearray(index.read_bytes())
    record = len(good) - 24
    for at, value in ((0, 7), (8, 3), (12, 1), (12, 200), (16, 99), (20, 0), (20, 2)):
        wrong = bytearray(good)
        wrong[record + at] = value
        index.write_bytes(wrong)
        with Session.open(path, read_only=True) as session:
            assert ["a", "b", "c", "d"] == texts(session.messages)
            assert ids[3] == session.head


def test_a_wrong_record_further_up_is_found_out_too(tmp_path: Path) -> None:
    """Beyond what loading checks: the line is not the one meant, or does not follow that entry."""
    path = tmp_path / "x.jsonl"
    with Session.open(path) as session:
        fill(session, *(user(str(at)) for at in range(600)))
    index = path.with_suffix(".idx")
    good = index.read_bytes()
    record = len(good) - 590 * 24
    for at, value in ((0, 7), (8, 3), (12, 1), (16, 99), (20, 0), (20, 2)):
        wrong = bytearray(good)
        wrong[record + at] = value
        index.write_bytes(wrong)
        with Session.open(path, read_only=True) as session:
            assert [str(at) for at in range(600)] == texts(session.messages)


def test_an_index_that_vanishes_while_the_session_is_open_is_written_whole(tmp_path: Path) -> None:
    """Not with a hole where it was."""
    path = tmp_path / "x.jsonl"
    with Session.open(path) as session:
        fill(session, user("a"), answer("b"))
    with Session.open(path) as session:
        session.append(user("c"))
        path.with_suffix(".idx").unlink()
    with Session.open(path) as session:
        assert ["a", "b", "c"] == texts(session.messages)


def test_a_file_that_is_removed_under_a_writer_is_noticed(tmp_path: Path) -> None:
    """Nothing is acknowledged that no file holds."""
    path = tmp_path / "x.jsonl"
    with Session.open(path) as session:
        session.append(user("a"))
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(SessionError, match="removed or replaced"):
            session.append(user("b"))


def test_the_index_saves_reading_what_was_read_before(tmp_path: Path) -> None:
    """Opening reads the tail alone, and what was appended since."""
    path = tmp_path / "x.jsonl"
    with Session.open(path) as session:
        fill(session, *(user("x" * 1000) for _ in range(200)))
    with path.open("ab") as stream:
        stream.write(json.dumps({"role": "user", "content": "new"}).encode() + b"\n")
    seen: list[int] = []
    log = FileLog(path)
    try:
        assert 202 == len(log)
        seen.append(log.numbers(9, last=1)[0])
    finally:
        log.close()
    assert [201] == seen


def test_lines_appended_by_programs_that_know_no_lease_are_taken_in(tmp_path: Path) -> None:
    """What is appended next follows them."""
    path = tmp_path / "x.jsonl"
    with Session.open(path) as session:
        session.append(user("a"))
        with path.open("ab") as stream:
            stream.write(b'{"role":"assistant","content":"foreign"}\n')
        session.append(user("b"))
        assert ["a", "foreign", "b"] == texts(session.messages)


def test_case_107_memory_is_bounded_by_the_context(tmp_path: Path) -> None:
    """A session of 60 MB is opened, and its context read and continued, in a small fraction of that."""
    path = tmp_path / "x.jsonl"
    filler = "word " * 2000
    with path.open("wb") as stream:
        parent = None
        for at in range(6000):
            line = {"role": "user" if at % 2 else "assistant", "content": filler, "id": f"e{at}", "parentId": parent}
            parent = f"e{at}"
            stream.write(json.dumps({k: v for k, v in line.items() if v is not None}).encode() + b"\n")
    with Session.open(path) as session:
        session.compact("So far.", "e5990")
        session.append(user("now"))
    program = f"""
import resource
from interlingua.sessions import Session
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Session.open({str(path)!r}) as session:
    assert len(session.context_messages()) == 12
    assert len(session.path(last=5)) == 5
    session.append(session.context_messages()[-1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert path.stat().st_size > 60_000_000
    assert int(done.stdout) < 8_000  # KB


@pytest.mark.parametrize("own", [True, False], ids=["its own store", "a store that is given"])
def test_a_session_that_cannot_be_synced_is_closed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    """The failure is told, and the next writer may begin."""
    how: Any = {"home": tmp_path} if own else {"store": FileStore(tmp_path)}
    session = Session.open("a", **how)
    session.append(user("one"))
    with monkeypatch.context() as patched, pytest.raises((OSError, SessionError), match="Input/output error"):
        patched.setattr(os, "fsync", failing_disk)
        session.close()
    with Session.open("a", **how) as again:
        again.append(user("two"))
        assert ["one", "two"] == texts(again.messages)


def failing_disk(descriptor: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


# --- listing ---------------------------------------------------------------------------------------------------------


def test_the_list_follows_what_changed(tmp_path: Path) -> None:
    """From the catalogue, which is refreshed by looking at times and sizes."""
    store = FileStore(tmp_path)
    for name in ("a", "b"):
        with Session.open(name, store=store) as session:
            session.append(user(name))
    assert {"a": 1, "b": 1} == {info.id: info.messages for info in store.sessions("main")}
    assert (store.folder("main") / files.CATALOGUE).exists()
    with Session.open("a", store=store) as session:
        session.append(answer("more"))
    store.path("main", "b").unlink()
    (store.folder("main") / "notes.txt").write_text("no session")
    assert {"a": 2} == {info.id: info.messages for info in store.sessions("main")}
    (store.folder("main") / files.CATALOGUE).write_bytes(b"junk")
    assert {"a": 2} == {info.id: info.messages for info in store.sessions("main")}


def test_openclaws_home_is_read_and_never_written(tmp_path: Path) -> None:
    """Both of its formats are listed; nothing appears in it."""
    home = tmp_path / ".openclaw"
    folder = home / "agents/main/sessions"
    write_lines(folder / "simple.jsonl", {"role": "user", "content": "Plain", "timestamp": 1})
    write_lines(
        folder / "tree.jsonl",
        {"type": "session", "version": 3, "id": "tree", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/"},
        {"type": "message", "id": "a", "parentId": None, "message": {"role": "user", "content": "Treed"}},
    )
    before = sorted(folder.iterdir())
    rows = {info.id: info.title for info in FileStore(home).sessions("main")}
    assert {"simple": "Plain", "tree": "Treed"} == rows
    with Session.open("simple", home=home, read_only=True) as session:
        assert ["Plain"] == texts(session.messages)
    assert before == sorted(folder.iterdir())


def test_the_limit_of_open_files_is_not_reached_by_listing(tmp_path: Path) -> None:
    """Every file that is looked at is closed."""
    store = FileStore(tmp_path)
    folder = store.folder("main")
    for at in range(300):
        write_lines(folder / f"{at}.jsonl", {"role": "user", "content": str(at)})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(file.name) for file in Path("/dev/fd").iterdir()) + 100, hard))
    try:
        assert 300 == len(store.sessions("main"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- groups ----------------------------------------------------------------------------------------------------------


def test_a_group_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside, everything is there to read and to build on; the file has it when the group ends."""
    writes: list[int] = []
    write = os.write
    with Session.open("s", home=tmp_path) as session:
        first = session.append(user("a"))
        before = Path(session.where).read_bytes()
        monkeypatch.setattr(os, "write", lambda file, data: writes.append(len(data)) or write(file, data))
        with session.grouped():
            second = session.append(answer("b"), id="b")
            session.set_branch("x", "b")
            session.append(user("c"), branch="x", expect="b")
            session.revise("b", answer("B"))
            with session.grouped():
                session.append(user("d"), parent_id=first.id)
            assert (["a", "d"], ["B", "c"]) == (
                texts(session.messages),
                texts([session.entry("b").message, _end(session)]),
            )
            assert before == Path(session.where).read_bytes()
        assert (1, second.id) == (len(writes), session.children(first.id or "")[0].id)
        monkeypatch.undo()
        seen = texts(session.messages), session.branches()["x"].head, texts([session.entry("b").message])
    with Session.open("s", home=tmp_path, read_only=True) as session:
        assert seen == (texts(session.messages), session.branches()["x"].head, texts([session.entry("b").message]))


def _end(session: Session) -> Any:
    return session.entry(session.branches()["x"].head or "").message


def test_a_group_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the file nor in memory, marks included; the next append is as if it had not been."""

    def full(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Session.open("s", home=tmp_path) as session:
        fill(session, user("a"))
        before = Path(session.where).read_bytes()
        with (
            pytest.raises(SessionError, match=r"s\.jsonl: not saved, .*: No space left"),
            session.grouped(),
        ):
            session.append(answer("lost"), id="lost")
            session.set_branch("lost", "lost")
            monkeypatch.setattr(os, "write", full)
        monkeypatch.undo()
        assert (before, {}) == (Path(session.where).read_bytes(), session.branches())
        session.append(answer("b"), id="lost")
        assert ["a", "b"] == texts(session.messages)


def test_a_group_does_not_overtake_another_program(tmp_path: Path) -> None:
    """What it wrote meanwhile is kept, and the group is refused: its lines were placed without knowing."""
    with Session.open("s", home=tmp_path) as session:
        fill(session, user("a"))
        with pytest.raises(SessionError, match="another program wrote"), session.grouped():
            session.append(answer("b"))
            with Path(session.where).open("ab") as stream:
                stream.write(json.dumps({"role": "user", "content": "x", "id": "x"}).encode() + b"\n")
        session.append(answer("c"))
        assert ["a", "x", "c"] == texts(session.messages)


def test_what_was_appended_before_an_error_in_a_group_is_kept(tmp_path: Path) -> None:
    """A group is for speed; it does not take back what succeeded."""
    with Session.open("s", home=tmp_path) as session:
        with pytest.raises(ZeroDivisionError), session.grouped():
            session.append(user("a"))
            raise ZeroDivisionError
        assert ["a"] == [line["content"] for line in read_lines(Path(session.where))[1:]]


# --- long sessions ---------------------------------------------------------------------------------------------------


def test_the_index_of_a_long_session_says_what_was_added(tmp_path: Path) -> None:
    """Whatever is in memory in another form: by number, by id, by parent and by kind, also after a save and a load."""
    source = random.Random(7)
    added: list[Record] = []
    index = Index()
    for number in range(3000):
        kind, parent, id = source.randrange(15), source.randrange(-1, number), f"e{source.randrange(2000)}"
        length = source.choice([0, 7, 300, 70_000, 1 << 27])
        flags = int(source.random() < 0.01)
        added.append(Record(index.covered, length, parent, check_of(id), kind, flags))
        index.add(length, parent, id, kind, flags)
    path = tmp_path / "s.jsonl"
    path.touch()
    os.truncate(path, index.covered)
    with path.open("rb") as stream:
        index.save(tmp_path / "s.idx", stream.fileno())
        found = path.stat()
        loaded = Index.load(tmp_path / "s.idx", stream.fileno(), found.st_size, found.st_mtime_ns)
        assert loaded is not None
        loaded.add(5, 2999, "late", 9)
        loaded.save(tmp_path / "s.idx", stream.fileno())
    entries = [number for number, one in enumerate(added) if one.kind >= ENTRY]
    parents = {added[number].parent for number in entries}
    for one in (index, loaded):
        assert added == [one[number] for number in range(3000)]
        assert [n for n in entries if n not in parents] == [n for n in one.leaves() if n < 3000 and n != 2999]
        assert [n for n, record in enumerate(added) if record.flags] == one.orphans()
        assert [n for n, record in enumerate(added) if record.kind in (3, 9)] == [
            n for n in one.numbers(3, 9) if n < 3000
        ]
        for id in ("e0", "e1", "e1999", "none"):
            named = [n for n in reversed(entries) if added[n].check == check_of(id)]
            assert named == [*one.candidates(id)]
        for parent in (-1, 0, 1, 1023, 1024, 2500):
            assert [n for n in entries if added[n].parent == parent] == one.children(parent)
    with pytest.raises(StaleIndex):
        index[3000]


def test_readers_of_one_file_have_its_index_in_common(tmp_path: Path) -> None:
    """A canvas reads a long session several times at once: for the tree, for the list, for the search."""
    path = tmp_path / "s.jsonl"
    write_lines(path, *({"role": "user", "content": "x", "id": f"e{number}"} for number in range(2100)))
    first, second = FileLog(path), FileLog(path)
    assert 2 == len(first._index._segments)
    for one, other in zip(first._index._segments, second._index._segments, strict=True):
        assert one is other
    first.close()
    assert b'"e3"' in second.line(3)
    second.close()


def test_a_small_session_leaves_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines are read faster than an index is loaded; a longer one gets its index."""
    monkeypatch.setattr(files, "_INDEXED", 32)
    for count, has_index in ((5, False), (40, True)):
        path = tmp_path / f"{count}.jsonl"
        with Session.open(path) as session:
            fill(session, *(user("x") for _ in range(count)))
        assert has_index == path.with_suffix(".idx").exists()
        with Session.open(path, read_only=True) as session:
            assert count == len(session.messages)


_KILLED = """
import os, sys
from interlingua.sessions.files import FileStore
os.link = lambda *_: os._exit(9)
FileStore(sys.argv[1]).create("main", "s", lambda: [b"{}"])
"""


def test_new_sessions_of_a_killed_process_are_removed_after_a_day(tmp_path: Path) -> None:
    """Until then they may belong to a process that writes; other files are not touched."""
    assert 9 == subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False).returncode
    store = FileStore(tmp_path)
    (left,) = store.folder("main").iterdir()
    assert left.name.endswith(".part")
    other = left.with_name("notes.part")
    other.write_text("mine")
    for age, expected in ((3600, [left, other]), (2 * 86_400, [other])):
        for path in (left, other):
            os.utime(path, (time.time() - age,) * 2)
        assert [] == store.sessions("main")
        assert expected == sorted(store.folder("main").glob("*.part"))
