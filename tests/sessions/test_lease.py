"""One writer at a time, with real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlingua.sessions import Session, SessionBusy, SessionError, lease
from interlingua.sessions.lease import Lease, Owner
from sessions.making import texts, user

WRITER = """
import sys, time
import interlingua as il
from interlingua.sessions import Session
session = Session.open(sys.argv[1])
session.append(il.UserMessage(content="from the child"))
print("open", flush=True)
sys.stdin.read()
session.close()
"""

RACER = """
import sys
import interlingua as il
from interlingua.sessions import Session, SessionBusy
done = busy = 0
while done < 20:
    try:
        with Session.open(sys.argv[1]) as session:
            for _ in range(5):
                session.append(il.UserMessage(content=f"{sys.argv[2]}.{done}"))
                done += 1
    except SessionBusy:
        busy += 1
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the session open for writing."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "x.jsonl")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "open\n" == process.stdout.readline()
        yield process
        process.kill()


def test_case_113_a_second_process_gets_busy_and_may_read_or_fork(child: subprocess.Popen[str], tmp_path: Path) -> None:
    """The error names the owner; reading and forking work meanwhile."""
    path = tmp_path / "x.jsonl"
    with pytest.raises(SessionBusy, match=f"process {child.pid} on ") as caught:
        Session.open(path)
    assert child.pid == caught.value.owner.pid
    with Session.open(path, read_only=True) as reader:
        assert ["from the child"] == texts(reader.messages)
        with reader.fork() as other:
            other.append(user("mine"))
            assert ["from the child", "mine"] == texts(other.messages)


def test_a_dead_owner_is_recovered_at_once(child: subprocess.Popen[str], tmp_path: Path) -> None:
    """kill -9 leaves a lock file; the next writer takes it, and says so."""
    path = tmp_path / "x.jsonl"
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert path.with_suffix(".lock").exists()
    with Session.open(path) as session:
        assert [f"process {child.pid} on" in problem.message for problem in session.problems] == [True]
        session.append(user("mine"))
        assert ["from the child", "mine"] == texts(session.messages)
    assert not path.with_suffix(".lock").exists()


def test_a_writer_that_closes_leaves_no_lock(child: subprocess.Popen[str], tmp_path: Path) -> None:
    """The next one is told of nothing."""
    child.communicate("")
    with Session.open(tmp_path / "x.jsonl") as session:
        assert () == session.problems


def test_two_writers_that_race_lose_nothing(tmp_path: Path) -> None:
    """Real processes, each opening and closing: every acknowledged line is there once, on one path."""
    path = tmp_path / "x.jsonl"
    racers = [subprocess.Popen([sys.executable, "-c", RACER, str(path), name]) for name in ("a", "b", "c")]
    assert [0, 0, 0] == [racer.wait(timeout=120) for racer in racers]
    with Session.open(path, read_only=True) as session:
        contents = texts(session.messages)
        assert sorted(f"{name}.{at}" for name in "abc" for at in range(20)) == sorted(contents)
        assert () == session.problems
    assert len(path.read_bytes().splitlines()) == 61


def test_a_reused_process_number_is_not_taken_for_the_owner(tmp_path: Path) -> None:
    """The lock says when its owner began."""
    mine = Owner.current()
    assert not mine.is_dead
    assert Owner(mine.pid, mine.host, "1", mine.token, mine.since).is_dead is (mine.started is not None)
    assert Owner(2**22 - 1, mine.host, None, "", 0).is_dead
    assert not Owner(1, "elsewhere", None, "", 0).is_dead


def test_without_kernel_locks_the_lock_files_existence_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A live owner is busy, a dead one is recovered, a silent one of another host after a while."""
    monkeypatch.setattr(lease, "fcntl", None)
    path = tmp_path / "x.lock"
    first = Lease.take(path)
    with pytest.raises(SessionBusy):
        Lease.take(path)
    first.release()
    gone = {"pid": 2**22 - 1, "host": first.owner.host, "started": None, "token": "t", "since": 0.0}
    path.write_text(json.dumps(gone))
    Lease.take(path).release()
    path.write_text(json.dumps({**gone, "host": "elsewhere"}))
    with pytest.raises(SessionBusy, match="elsewhere"):
        Lease.take(path)
    os.utime(path, (time.time() - 3600,) * 2)
    Lease.take(path).release()


def test_a_writer_whose_lock_was_removed_stops_writing(tmp_path: Path) -> None:
    """Somebody else may write by now."""
    path = tmp_path / "x.jsonl"
    with Session.open(path) as session:
        session.append(user("one"))
        path.with_suffix(".lock").unlink()
        with Session.open(path) as other:
            other.append(user("two"))
            with pytest.raises(SessionError, match="open the session again"):
                session.append(user("three"))
        with Session.open(path, read_only=True) as reader:
            assert ["one", "two"] == texts(reader.messages)


def test_a_fork_of_the_writing_process_may_not_write(tmp_path: Path) -> None:
    """The child of `os.fork` holds the same file, not the right to it."""
    program = f"""
import os, sys, warnings
warnings.simplefilter("ignore")
import interlingua as il
from interlingua.sessions import Session, SessionError
session = Session.open({str(tmp_path / "x.jsonl")!r})
session.append(il.UserMessage(content="parent"))
if os.fork() == 0:
    try:
        session.append(il.UserMessage(content="child"))
    except SessionError:
        os._exit(7)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert 7 == subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode


def test_a_lock_that_outlives_its_owner_in_a_forked_child_is_broken(tmp_path: Path) -> None:
    """The owner is dead and its child may not write: the session is free."""
    path = tmp_path / "x.jsonl"
    program = f"""
import os, sys, time
import interlingua as il
from interlingua.sessions import Session
session = Session.open({str(path)!r})
session.append(il.UserMessage(content="parent"))
child = os.fork()
if child == 0:
    os.close(1)
    time.sleep(30)
    os._exit(0)
print(child, flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60, stdout=subprocess.PIPE, close_fds=True
    )
    orphan = int(done.stdout)
    try:
        with Session.open(path) as session:
            session.append(user("next"))
            assert ["parent", "next"] == texts(session.messages)
    finally:
        os.kill(orphan, signal.SIGKILL)
