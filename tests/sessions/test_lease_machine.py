"""Two processes and one session, in every order that hypothesis finds: opened, written, closed, killed, read."""

import tempfile
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from interlingua.sessions import Session
from sessions.lease_workers import Worker
from sessions.making import texts

WHO = st.sampled_from(["a", "b"])
tried = 0


class OneWriter(RuleBasedStateMachine):
    """The model: who may write, which lines were acknowledged, and which may be there or not."""

    by_file: ClassVar[bool] = True

    @initialize()
    def begin(self) -> None:
        self.place = tempfile.TemporaryDirectory()
        folder = Path(self.place.name)
        self.path = folder / "s.jsonl"
        self.store = None if self.by_file else f"sqlite:{folder / 's.sqlite'}"
        target = str(self.path) if self.by_file else "s"
        self.workers = {name: Worker(target, self.store) for name in "ab"}
        self.owner: str | None = None  # who has the lock
        self.opened: set[str] = set()  # who believes to have it
        self.lines: list[tuple[str, bool]] = []  # each with whether it was acknowledged
        self.at = 0

    def teardown(self) -> None:
        for worker in getattr(self, "workers", {}).values():
            worker.end()
        if hasattr(self, "place"):
            self.place.cleanup()

    def line(self) -> str:
        global tried
        tried += 1
        self.at += 1
        return f"line {self.at}"

    @rule(who=WHO)
    def open(self, who: str) -> None:
        """One at a time; the second handle of a process is refused like another process."""
        expected = "ok" if self.owner is None else "busy"
        assert expected == self.workers[who].ask("open")
        if expected == "ok":
            self.owner = who
            self.opened.add(who)

    @rule(who=WHO)
    def append(self, who: str) -> None:
        """Only the owner's line is written; it is there once it was acknowledged."""
        text = self.line()
        answer = self.workers[who].ask("append", text)
        assert answer == ("ok" if who == self.owner else "error")
        if answer == "ok":
            self.lines.append((text, True))

    @rule(who=WHO)
    def close(self, who: str) -> None:
        """The next one may write."""
        answer = self.workers[who].ask("close")
        assert answer == ("ok" if who in self.opened else "error")
        self.opened.discard(who)
        if self.owner == who:
            self.owner = None

    @rule(who=WHO)
    def kill(self, who: str) -> None:
        """A dead owner owns nothing."""
        self.workers[who].kill()
        self.forget(who)

    @rule(who=WHO, number=st.integers(1, 5))
    def kill_while_writing(self, who: str, number: int) -> None:
        """Lines that nobody acknowledged are there once, or not at all."""
        sent = [self.line() for _ in range(number)]
        for text in sent:
            self.workers[who].send("append", text)
        self.workers[who].kill()
        if who == self.owner:
            self.lines += [(text, False) for text in sent]
        self.forget(who)

    @precondition(lambda self: self.by_file and self.owner is not None)
    @rule()
    def remove_the_lock(self) -> None:
        """Whoever had it finds out before it writes; anybody may take it."""
        self.path.with_suffix(".lock").unlink()
        self.owner = None

    def forget(self, who: str) -> None:
        self.opened.discard(who)
        if self.owner == who:
            self.owner = None

    @invariant()
    def every_acknowledged_line_is_there_once_and_in_order(self) -> None:
        """Seen by a third process that only reads."""
        if not getattr(self, "lines", None):
            return
        target: Any = self.path if self.by_file else "s"
        with Session.open(target, store=self.store, read_only=True) as reader:
            found = texts(reader.messages)
        assert len(found) == len(set(found))
        self.lines = [(text, known) for text, known in self.lines if known or text in found]
        assert [text for text, _ in self.lines] == found


class OneWriterInSqlite(OneWriter):
    """The same with sessions in SQLite."""

    by_file = False


HOW = settings(max_examples=10, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))


def test_two_processes_and_one_session_file_lose_and_double_nothing(record_property: Any) -> None:
    """Whatever they do in whatever order: one writer at a time, every acknowledged line once."""
    before = tried
    run_state_machine_as_test(OneWriter, settings=HOW)
    record_property("tried", tried - before)


def test_two_processes_and_one_session_in_sqlite_lose_and_double_nothing(record_property: Any) -> None:
    """The same laws hold for the other store."""
    before = tried
    run_state_machine_as_test(OneWriterInSqlite, settings=HOW)
    record_property("tried", tried - before)
