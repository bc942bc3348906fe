"""kill -9 at chosen and at random moments: another worker finishes the run, and nothing that was done is done again.

INTERLINGUA_KILLS says how often; the normal run does it a dozen times.
"""

import functools
import os
import random
import signal
import sys
import time
from typing import Any

import pytest

pytest.importorskip("dbos", reason="the extra `durable` is not installed")

from durable.making import Yard, check, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills processes as POSIX does")

KILLS = int(os.environ.get("INTERLINGUA_KILLS", "12"))


@pytest.mark.parametrize(
    ("calls", "mode"),
    [
        (["wait"], "parallel"),
        (["mark", "wait"], "sequential"),  # between two tools: the first has its result in the session
        (["wait", "mark"], "parallel"),  # the second finished before its turn: its result is in the journal alone
    ],
)
def test_a_half_run_tool_is_reported_and_a_finished_one_is_not_run_again(
    yard: Yard, calls: list[str], mode: str
) -> None:
    """A worker that is already there takes the run up and goes on to its end."""
    id = yard.runs.enqueue("go", agent="waiter", arguments={"file": yard.file, "calls": calls, "mode": mode})
    first = yard.start()
    until(lambda: any(call.endswith("wait") for _, call, _ in yard.traces("begun")), "the tool runs")
    until(lambda: len(yard.effects()) == len(calls) - 1, "the other tool is done")
    second = yard.start()
    time.sleep(0.3)
    yard.kill(first)
    outcome = yard.runs.result(id, timeout=60)
    assert ("done", "went on", (f"{id}/wait",)) == (outcome.reason, outcome.text, outcome.unknown)
    results = yard.results(id)
    assert "It is not known whether this call took effect" in results.pop(f"{id}/wait")
    assert {f"{id}/{name}": f"did {id}/{name}" for name in calls if name == "mark"} == results
    assert {1} >= {*yard.effects().values()}
    assert second.poll() is None and 2 == yard.runs.status(id).lives


def test_random_kills_do_nothing_twice(yard: Yard, record_property: Any) -> None:
    """Workers share many runs and die at any moment; at the end each run is done, and no effect is there twice."""
    chance, ids, killed = random.Random(4), list[str](), 0
    workers = [yard.start("--concurrency", "3") for _ in range(2)]

    def works(pid: int) -> bool:
        """Whether a worker has begun a tool; there is always enough to do."""
        while len(yard.runs.list(state="queued")) < 3:
            ids.append(yard.mark(turns=6, width=2, pause=0.03))
        return any(pid == who for _, _, who in yard.traces())

    while killed < KILLS:
        victim = workers.pop(chance.randrange(len(workers)))
        until(functools.partial(works, victim.pid), "the worker works")
        time.sleep(chance.uniform(0, 0.3))
        yard.kill(victim)
        killed += 1
        workers.append(yard.start("--concurrency", "3"))
    for id in ids:
        yard.runs.result(id, timeout=120)
    unknown = sum(check(yard, id, 12) for id in ids)
    for name, value in (("kills", killed), ("acknowledged", 12 * len(ids)), ("lost", 0), ("doubled", 0)):
        record_property(name, value)  # `check` has seen that each call was answered once and had no effect twice
    lives = sum(yard.runs.status(id).lives for id in ids)
    assert lives > len(ids), "no run was taken up by another worker"
    assert 0 < unknown < 12 * len(ids)


def test_a_run_that_is_cancelled_when_its_worker_is_dead_leaves_a_whole_session(yard: Yard) -> None:
    """The next run of the session is told what is known of the calls, and none of them is run."""
    how = {"file": yard.file, "calls": ["wait", "mark"], "mode": "sequential"}
    id = yard.runs.enqueue("go", agent="waiter", arguments=how)
    worker = yard.start()
    until(lambda: yard.traces("begun"), "the tool runs")
    yard.kill(worker)
    yard.runs.cancel(id)
    after = yard.runs.enqueue("more", agent="echo", session=id)
    yard.drain()
    assert ("cancelled", "done") == (yard.runs.status(id).state, yard.runs.status(after).state)
    results = yard.results(after)
    assert "not known" in results[f"{id}/wait"] and "was not run" in results[f"{id}/mark"]
    assert not yard.effects()


def test_a_worker_that_was_wrongly_given_up_lets_go_without_a_word(yard: Yard) -> None:
    """Its sign of life was lost while it lived: the other waits for the session, then alone writes there."""
    id = yard.runs.enqueue("go", agent="waiter", arguments={"file": yard.file, "calls": ["wait"]})
    first = yard.start()
    until(lambda: yard.traces("begun"), "the tool runs")
    yard.freeze(first)
    for lock in (yard.home / "durable.sqlite.workers").glob("*.lock"):
        lock.unlink()
    second = yard.start()
    until(lambda: "waits: " in yard.log(), "the second waits for the session")
    first.send_signal(signal.SIGCONT)
    outcome = yard.runs.result(id, timeout=60)
    assert ("done", "went on", (f"{id}/wait",)) == (outcome.reason, outcome.text, outcome.unknown)
    assert "not known" in yard.results(id)[f"{id}/wait"]
    until(lambda: yard.traces("stopped"), "the first has stopped its tool")
    assert first.poll() is None and second.poll() is None
    assert "left: it was reassigned to another worker" in yard.log()


def test_a_kill_before_anything_was_done_asks_once(yard: Yard) -> None:
    """Killed at the very beginning, over and over: the prompt is in the session once."""
    id = yard.mark(turns=1, width=1)
    chance = random.Random(7)
    for _ in range(3):
        worker = yard.start()
        until(lambda: "running" in (yard.runs.status(id).state, "done"), "it is taken")
        time.sleep(chance.uniform(0, 0.05))
        yard.kill(worker)
    yard.drain()
    check(yard, id, 1)
    with yard.session(yard.runs.status(id)) as session:
        assert 1 == sum(entry.id == f"{id}.0" for entry in session.entries())
        assert 4 == len(session.messages)
