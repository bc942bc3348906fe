"""Workers as real processes, and what they left behind."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import interlingua as il
from interlingua.durable import Run, Runs
from interlingua.durable.place import AGENT
from interlingua.sessions import Session
from interlingua.values.messages import text_of

Found = TypeVar("Found")

CREW = str(Path(__file__).with_name("crew.py"))
WORKER = "from interlingua.cli import main; main()"


class Yard:
    """A home with runs, the workers that were started for them, and the file in which tools leave traces."""

    def __init__(self, home: Path, database: str | None = None) -> None:
        self.home = home
        self.database = database
        self.file = str(home / "traces")
        self.runs = Runs(database, home=home)
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str) -> "subprocess.Popen[bytes]":
        """A worker of its own process, in the background."""
        where = ["--home", str(self.home), *(["--database", self.database] if self.database else [])]
        command = [sys.executable, "-c", WORKER, "worker", CREW, "--poll", "0.1", "--grace", "5", *where, *options]
        with (self.home / f"worker-{len(self.workers)}.log").open("wb") as log:
            worker = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.workers.append(worker)
        return worker

    def drain(self) -> None:
        """A worker that does all that is left."""
        worker = self.start("--drain")
        assert 0 == worker.wait(120), self.log()

    def kill(self, worker: "subprocess.Popen[bytes]") -> None:
        """As the system does when memory is short."""
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def freeze(self, worker: "subprocess.Popen[bytes]") -> None:
        """Stops a worker where it holds no lock of the SQLite database, which would stop all others with it."""
        while True:
            worker.send_signal(signal.SIGSTOP)
            os.waitpid(worker.pid, os.WUNTRACED)  # the signal has reached every thread
            with contextlib.closing(sqlite3.connect(self.home / "durable.sqlite", timeout=0)) as database:
                try:
                    database.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    worker.send_signal(signal.SIGCONT)
                    time.sleep(0.01)
                else:
                    return

    def mark(self, **how: Any) -> str:
        """A run whose tools leave traces."""
        return self.runs.enqueue("go", agent="marker", arguments={"file": self.file, **how})

    def log(self) -> str:
        return "\n".join(log.read_text() for log in sorted(self.home.glob("worker-*.log")))

    def traces(self, word: str | None = None) -> list[tuple[str, str, int]]:
        """What tools left: word, call, process."""
        if not Path(self.file).exists():
            return []
        lines = [line.split() for line in Path(self.file).read_text().splitlines()]
        return [(one, call, int(pid)) for one, call, pid in lines if word in (None, one)]

    def effects(self) -> "Counter[str]":
        return Counter(call for _, call, _ in self.traces("effect"))

    def session(self, run: Run) -> Session:
        store = self.database if self.database and self.database.startswith("postgres") else None
        return Session.open(run.session, agent=AGENT, home=self.home, store=store, read_only=True, create=False)

    def results(self, id: str) -> dict[str, str]:
        """What the model was told of each call; each has one result."""
        with self.session(self.runs.status(id)) as session:
            assert () == session.unfinished_calls()
            found = [message for message in session.messages if isinstance(message, il.ToolResultMessage)]
        outputs = {message.tool_call_id: text_of(message.content) for message in found}
        assert len(found) == len(outputs)
        return outputs

    def close(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                self.kill(worker)
        self.runs.close()


def check(yard: Yard, id: str, calls: int) -> int:
    """A run that was killed over and over: done, each call answered once, no effect twice. How many are unknown."""
    run = yard.runs.status(id)
    assert ("done", "all done") == (run.state, run.outcome and run.outcome.text), f"{run}\n{yard.log()}"
    assert run.outcome is not None
    effects, begun = yard.effects(), Counter(call for _, call, _ in yard.traces("begun"))
    results = yard.results(id)
    assert calls == len(results)
    for call, text in results.items():
        if call in run.outcome.unknown:
            assert "not known" in text
            assert effects[call] <= 1 and begun[call] <= 1
        else:
            assert f"did {call}" == text
            assert 1 == effects[call] == begun[call]
    return len(run.outcome.unknown)


def until(holds: Callable[[], Found], what: str, seconds: float = 60) -> Found:
    """Waits until something is so, and gives what it was."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
    return found
