"""Durable runs on a real PostgreSQL server, started here: workers share a queue and are killed at random moments.

Run by `make interop`. The runs, and their sessions, are in the database. Skipped where no server is installed.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import interlingua as il
from interlingua.durable import Run, RunFailed, Runs
from interlingua.durable.place import AGENT
from interlingua.sessions import Session
from interlingua.values.messages import AgentMessage, text_of

sys.path.insert(0, str(Path(__file__).parent))
from postgres_sessions import programs, server

CREW = str(Path(__file__).parent.parent / "tests" / "durable" / "crew.py")
WORKERS, RUNS, KILLS = 3, 24, int(os.environ.get("INTERLINGUA_KILLS", "20"))
TURNS, WIDTH = 5, 2


class Yard:
    """The workers that were started, and the file in which tools leave traces."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.folder = folder
        self.file = folder / "traces"
        self.runs = Runs(address, home=folder)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.started = 0

    def start(self) -> None:
        program = [sys.executable, "-c", "from interlingua.cli import main; main()", "worker", CREW]
        how = ["--database", self.address, "--home", str(self.folder), "--poll", "0.2", "--concurrency", "3"]
        self.started += 1
        with (self.folder / f"worker-{self.started}.log").open("wb") as log:
            self.workers.append(subprocess.Popen([*program, *how], stdout=log, stderr=subprocess.STDOUT))

    def kill(self, worker: "subprocess.Popen[bytes]") -> None:
        self.workers.remove(worker)
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def mark(self, **how: object) -> str:
        arguments = {"file": str(self.file), "turns": TURNS, "width": WIDTH, "pause": 0.05, **how}
        return self.runs.enqueue("go", agent="marker", arguments=arguments)

    def traces(self) -> list[list[str]]:
        return [line.split() for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def close(self) -> None:
        for worker in [*self.workers]:
            self.kill(worker)
        self.runs.close()

    def messages(self, run: Run) -> tuple[AgentMessage, ...]:
        with Session.open(run.session, agent=AGENT, store=self.address, read_only=True, create=False) as session:
            return session.messages


def shared(yard: Yard) -> None:
    """Several workers, each run once, and nothing on this machine's disk."""
    ids = [yard.mark() for _ in range(RUNS)]
    for _ in range(WORKERS):
        yard.start()
    for id in ids:
        yard.runs.result(id, timeout=180)
    effects = Counter(call for word, call, _ in yard.traces() if word == "effect")
    check({*effects.values()} == {1} and len(effects) == RUNS * TURNS * WIDTH, f"{RUNS} runs, each tool once")
    hands = {pid for _, _, pid in yard.traces()}
    check(len(hands) == WORKERS, f"{WORKERS} workers shared them")
    check(not (yard.folder / "agents").exists(), "the sessions are in the database")


def killed(yard: Yard) -> None:
    """Workers die at random moments; others take up what they had."""
    chance, ids = random.Random(6), [yard.mark() for _ in range(4)]
    for _ in range(KILLS):
        victim = chance.choice(yard.workers)
        wait_for_work(yard, str(victim.pid), ids)
        time.sleep(chance.uniform(0, 0.4))
        yard.kill(victim)
        yard.start()
    for id in ids:
        yard.runs.result(id, timeout=180)
    unknown = sum(examine(yard, id) for id in ids)
    lives = sum(yard.runs.status(id).lives for id in ids)
    calls = len(ids) * TURNS * WIDTH
    check(lives > len(ids), f"{KILLS} kills: {len(ids)} runs were done in {lives} lives")
    check(0 < unknown < calls, f"of {calls} calls, {unknown} were half-run and reported; no effect is there twice")


def wait_for_work(yard: Yard, pid: str, ids: list[str]) -> None:
    """Until a worker is in the middle of something; there is always enough to do."""
    for _ in range(1200):
        while len(yard.runs.list(state="queued")) < 3:
            ids.append(yard.mark())
        if any(pid == who for _, _, who in yard.traces()):
            return
        time.sleep(0.05)
    sys.exit(f"PostgreSQL: worker {pid} got no run:\n{said(yard)}")


def examine(yard: Yard, id: str) -> int:
    """One result for each call; finished calls have one effect, half-run ones at most one. How many are half-run."""
    run = yard.runs.status(id)
    assert run.outcome is not None and run.outcome.text == "all done", f"{run}\n{said(yard)}"
    effects = Counter(call for word, call, _ in yard.traces() if word == "effect")
    results = [message for message in yard.messages(run) if isinstance(message, il.ToolResultMessage)]
    assert len(results) == TURNS * WIDTH == len({result.tool_call_id for result in results}), run
    for result in results:
        call = result.tool_call_id
        if call in run.outcome.unknown:
            assert effects[call] <= 1 and "not known" in text_of(result.content), call
        else:
            told = f"{effects[call]} effects, told: {text_of(result.content)}"
            assert effects[call] == 1 and text_of(result.content) == f"did {call}", f"{call}: {told}"
    return len(run.outcome.unknown)


def cancelled(yard: Yard) -> None:
    """A run that waits for ever is cancelled from here."""
    before = len(yard.traces())
    id = yard.runs.enqueue("go", agent="waiter", arguments={"file": str(yard.file), "calls": ["wait"]})
    wait(lambda: len(yard.traces()) > before, "the tool runs", yard)
    yard.runs.cancel(id)
    wait(lambda: yard.traces()[-1][0] == "stopped", "the tool was stopped", yard)
    try:
        yard.runs.result(id, timeout=5)
    except RunFailed as failed:
        check("was cancelled" in str(failed), "a cancelled run stops its tools")
    else:
        sys.exit("PostgreSQL: not so: a cancelled run has no result")


def poisoned(yard: Yard) -> None:
    bad, good = yard.runs.enqueue("go", agent="poison"), yard.mark()
    yard.runs.result(good, timeout=60)
    run = yard.runs.status(bad)
    check(run.state == "failed" and "always raises" in (run.error or ""), "a run that cannot be done fails alone")


def cut_off(yard: Yard) -> None:
    """Every connection is cut by the server while runs are under way: they go on, and nothing is done twice."""
    import psycopg

    ids = [yard.mark(turns=TURNS, pause=0.2) for _ in range(6)]
    before = len(yard.traces())
    wait(lambda: len(yard.traces()) > before, "the runs have begun", yard)
    with psycopg.connect(yard.address, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    for id in ids:
        yard.runs.result(id, timeout=180)
    unknown = sum(examine(yard, id) for id in ids)
    check(True, f"all connections cut: {len(ids)} runs went on, {unknown} calls reported as half-run")


def wait(holds: Callable[[], bool], what: str, yard: Yard) -> None:
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.05)
    sys.exit(f"PostgreSQL: not so: {what}\n{said(yard)}")


def said(yard: Yard) -> str:
    return "\n".join(log.read_text() for log in sorted(yard.folder.glob("worker-*.log")))


def check(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"PostgreSQL: not so: {what}")
    print(f"PostgreSQL: {what}", flush=True)


def main() -> None:
    place = programs()
    if place is None:
        print("PostgreSQL: SKIPPED, durable runs were not checked: no server is installed (initdb, pg_ctl)")
        return
    with server(place) as address, tempfile.TemporaryDirectory() as folder:
        yard = Yard(address, Path(folder))
        try:
            for part in (shared, killed, cancelled, poisoned, cut_off):
                part(yard)
        finally:
            yard.close()


if __name__ == "__main__":
    main()
