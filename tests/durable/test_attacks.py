"""Attacks on durable runs: ids that are paths, poisoned runs, exits, locked databases, leaks in logs."""

import logging
import os
import re
import signal
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("dbos", reason="the extra `durable` is not installed")

from durable.making import Yard
from interlingua.durable import RunError, Runs
from interlingua.durable.orders import Order
from interlingua.durable.place import RunPlace, presence
from interlingua.durable.runs import _run
from interlingua.sessions import SessionError
from interlingua.values.errors import TimedOut

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="starts and ends processes as POSIX does")

PATHS = (
    "../../etc/x", "/etc/x", "/tmp/x.jsonl", "~/x", "~root/x", "a/b", "..", ".", "", " ", "x\0y", "x\ny", "-x",
    ".hidden", "x" * 300, "C:\\x", "a\\b", "\ud800", "%2e%2e/x", "x/../../y", "file:///etc/x", "..jsonl/../x", "é",
    "\u202ex", 5, None, b"x", ["x"],
)  # fmt: skip


def test_no_id_is_a_path(yard: Yard, record_property: Any) -> None:
    """Ids of runs and sessions become file names; what could lead elsewhere is refused, before and behind the queue."""
    tried = 0
    mine = presence(yard.runs.place, "me")
    for name in PATHS:
        for how in ({"id": name}, {"session": name}, {"queue": name}, {"id": name, "session": name}):
            if None in how.values() and how.get("queue", "") is not None:
                continue  # the default
            with pytest.raises(RunError, match="invalid"):
                yard.runs.enqueue("go", agent="echo", **how)  # type: ignore[arg-type]
            tried += 1
        if isinstance(name, str):
            with pytest.raises(SessionError, match="invalid"):
                yard.runs.place.session(Order(id="x", agent="echo", session=name, prompt=()))
            with mine.dead(name):
                pass
            with pytest.raises(RunError):
                yard.runs.status(name)
            tried += 3
    mine.end()
    assert () == yard.runs.list()
    with pytest.raises(RunError, match="negative"):
        yard.runs.list(limit=-1)
    assert {"durable.sqlite"} == {path.name.partition("-")[0] for path in yard.home.iterdir() if path.is_file()}
    assert [] == [*(yard.home / "durable.sqlite.workers").glob("*")]
    record_property("tried", tried)


@pytest.mark.parametrize("agent", [5, None, b"x", ["echo"]])
def test_an_agent_that_is_no_name_is_refused(yard: Yard, agent: Any) -> None:
    """Before it is in the queue."""
    with pytest.raises(RunError, match="invalid agent"):
        yard.runs.enqueue("go", agent=agent)


def test_the_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Also one that was made before, and whatever the umask says."""
    before = os.umask(0)
    try:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "durable.sqlite").touch(0o644)
        for home in (tmp_path / "home", tmp_path / "new"):
            with Runs(home=home) as runs:
                runs.enqueue("secret", agent="echo")
                wide = [path for path in home.rglob("*") if path.stat().st_mode & 0o077]
                assert [] == wide
    finally:
        os.umask(before)


@pytest.mark.parametrize("plant", ["fifo", "folder", "link", "device"])
def test_a_database_that_is_no_regular_file_is_refused(tmp_path: Path, plant: str) -> None:
    """At once, and nothing is made behind a link."""
    path, target = tmp_path / "durable.sqlite", tmp_path / "elsewhere"
    if plant == "fifo":
        os.mkfifo(path)
    elif plant == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/null" if plant == "device" else target)
    with pytest.raises(RunError, match="a regular file is expected"):
        Runs(home=tmp_path)
    assert not target.exists()


def test_a_poisoned_run_takes_no_other_with_it(yard: Yard) -> None:
    """It kills its worker until it is given up; those beside it die with it at first, and are done all the same."""
    bad = yard.runs.enqueue("go", agent="killer")
    good = [yard.mark(turns=2, width=1, pause=0.3) for _ in range(3)]
    ends = []
    for _ in range(20):
        ends.append(yard.start("--give-up", "4", "--drain").wait(120))
        if ends[-1] == 0:
            break
    assert 0 == ends[-1] and {-signal.SIGKILL} == {*ends[:-1]}, yard.log()
    assert "failed" == yard.runs.status(bad).state
    assert "failed after 5 workers died with it" in (yard.runs.status(bad).error or "")
    for id in good:
        run = yard.runs.status(id)
        assert "done" == run.state and run.lives <= 4, f"{run}\n{yard.log()}"


WAYS = [
    f"{where} {way}"
    for where in ("plain", "task", "callback")
    for way in ("exit", "interrupt", "close", "cancel", "group", "own")
    if where != "callback" or way in ("exit", "interrupt")  # the event loop reports the others and goes on
]


def test_a_run_whose_factory_exits_fails_and_the_worker_goes_on(yard: Yard, record_property: Any) -> None:
    """It is not left as running for ever; those behind it are done."""
    bad = {way: yard.runs.enqueue("go", agent="quitter", arguments={"how": way}) for way in WAYS}
    good = yard.runs.enqueue("go", agent="echo")
    yard.drain()
    assert "done" == yard.runs.result(good, timeout=5).reason
    states = {way: yard.runs.status(id).state for way, id in bad.items()}
    assert dict.fromkeys(WAYS, "failed") == states, yard.log()
    record_property("tried", len(WAYS))


def test_a_row_that_is_unreadable_hides_no_other(yard: Yard) -> None:
    """Whatever is in the database, it can be listed and deleted."""
    good, bad = yard.mark(), yard.mark()
    with sqlite3.connect(yard.home / "durable.sqlite") as database:
        database.execute("UPDATE workflow_input SET inputs = '{\"x\": 1}' WHERE workflow_uuid = ?", [bad])
    database.close()
    assert {good, bad} == {run.id for run in yard.runs.list()}
    assert "unreadable" in (yard.runs.status(bad).error or "")
    yard.drain()
    assert ("done", "failed") == (yard.runs.status(good).state, yard.runs.status(bad).state)
    yard.runs.delete(bad)


@pytest.mark.parametrize("given", [None, 5, "x", [], {}, {"args": []}, {"args": [5]}, {"args": [{}]}, {"args": None}])
def test_any_stored_input_is_a_run_or_a_problem(given: Any) -> None:
    """Read by `list`, which shows the others too."""
    row = SimpleNamespace(
        workflow_id="x", status="ENQUEUED", input=given, output=None, error=None, queue_partition_key=None,
        queue_name=None, attributes=given, executor_id=None, created_at=1, updated_at=2,
    )  # fmt: skip
    run = _run(row)
    assert "queued" == run.state and "unreadable" in (run.error or "")


def test_conversation_text_is_in_no_message_and_no_log(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    """Errors of the database quote its statements, and those quote conversations."""
    secret = "the launch code is 0000"
    with sqlite3.connect(yard.home / "durable.sqlite") as database:
        database.execute("ALTER TABLE workflow_status RENAME TO elsewhere")
    database.close()
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RunError) as caught:
        yard.runs.enqueue(secret, agent="echo", arguments={"key": secret})
    assert "workflow_status" in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:
        assert secret not in str(error) and secret not in repr(error)
        error = error.__cause__
    assert secret not in caplog.text


def test_on_a_locked_database_an_operation_ends(tmp_path: Path) -> None:
    """With an error that says why; the same id again, when it is free, is one run."""
    with Runs(home=tmp_path, timeout=0.5) as runs:
        known = runs.enqueue("go", agent="echo")
        locker = sqlite3.connect(tmp_path / "durable.sqlite", isolation_level=None)
        locker.execute("BEGIN EXCLUSIVE")
        operations = [
            lambda: runs.enqueue("go", agent="echo", id="mine"),
            lambda: runs.cancel(known),
            lambda: runs.count(known, lives=1),
        ]
        for operation in operations:
            with pytest.raises(TimedOut, match="locked or unreachable"):
                operation()
        locker.execute("ROLLBACK")
        locker.close()
        runs.timeout = 60
        assert "mine" == runs.enqueue("go", agent="echo", id="mine")
        assert {known, "mine"} == {run.id for run in runs.list()}


def test_finished_runs_are_listed_and_deleted(yard: Yard) -> None:
    """Open ones are not; sessions stay."""
    done, failed = yard.runs.enqueue("go", agent="echo"), yard.runs.enqueue("go", agent="poison")
    yard.drain()
    waiting = yard.runs.enqueue("go", agent="echo", queue="other")
    with pytest.raises(RunError, match="cancel it before"):
        yard.runs.delete(waiting)
    session = yard.session(yard.runs.status(done))
    yard.runs.delete(done)
    with pytest.raises(RunError, match="no run"):
        yard.runs.status(done)
    with pytest.raises(RunError, match="no run"):
        yard.runs.delete(done)
    assert session.messages
    session.close()
    assert (0, 1) == (yard.runs.delete_finished(older_than=3600), yard.runs.delete_finished())
    assert [waiting] == [run.id for run in yard.runs.list()]
    assert failed not in {run.id for run in yard.runs.list()}


def test_nothing_private_of_dbos_is_used() -> None:
    """A private function may change with any release."""
    folder = Path(__file__).parents[2] / "src/interlingua/durable"
    texts = [path.read_text() for path in folder.glob("*.py")]
    assert any("DBOS" in text for text in texts)
    assert [] == [found for text in texts for found in re.findall(r"(?:DBOS|_client|dbos)\._\w+", text)]


def test_the_place_of_a_database_is_not_guessed() -> None:
    """An address of another kind is refused."""
    for address in ("mysql://x/y", "http://x", "x", "", "/etc/x", "file:x"):
        with pytest.raises(RunError, match="unknown database address"):
            RunPlace.of(address)
