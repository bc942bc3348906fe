"""Runs from the queue to their end, by workers in processes of their own."""

import itertools
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos", reason="the extra `durable` is not installed")

from dbos._sys_db import SystemDatabase

import interlingua as il
from durable.making import CREW, Yard, until
from interlingua.durable import Outcome, RunError, RunFailed, Runs, Worker
from interlingua.durable.orders import QUEUE
from interlingua.durable.place import AGENT, RunPlace
from interlingua.sessions import Session
from interlingua.values.errors import FormatError, TimedOut
from interlingua.values.messages import text_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="starts and ends processes as POSIX does")


def test_a_run_is_carried_out_by_another_process(yard: Yard) -> None:
    """What was enqueued here is done there; the session holds what was said, under the run's own id."""
    id = yard.runs.enqueue("Hello", agent="echo")
    assert "queued" == yard.runs.status(id).state
    yard.drain()
    outcome = yard.runs.result(id, timeout=5)
    assert ("done", 1) == (outcome.reason, outcome.turns)
    assert outcome.text.endswith('You said: "Hello"')
    run = yard.runs.status(id)
    assert ("done", id, 1) == (run.state, run.session, run.lives)
    with yard.session(run) as session:
        assert ["Hello", outcome.text] == [text_of(message.content) for message in session.messages]  # type: ignore[union-attr]


def test_prompts_of_any_shape_arrive_as_they_were(yard: Yard) -> None:
    """Messages, several at once, odd characters, custom roles: the session has each once, in order."""
    picture = il.ImageBlock(data="aGk=", mime_type="image/png")
    prompt = [
        il.CustomMessage("note", {"number": 2**70}),
        il.UserMessage(content=(il.TextBlock(text="null \0, quote ', ünï 漢"), picture), timestamp=5),
    ]
    id = yard.runs.enqueue(prompt, agent="echo")
    yard.drain()
    assert "done" == yard.runs.result(id).reason
    with yard.session(yard.runs.status(id)) as session:
        assert prompt == [*session.messages[:2]]


def test_runs_of_one_session_follow_each_other_in_order(yard: Yard) -> None:
    """One conversation, however many workers: each run is answered before the next is asked."""
    ids = [yard.runs.enqueue(f"question {n}", agent="echo", session="talk") for n in range(4)]
    workers = [yard.start(), yard.start()]
    for id in ids:
        assert "done" == yard.runs.result(id, timeout=60).reason
    for worker in workers:
        worker.terminate()
    with yard.session(yard.runs.status(ids[0])) as session:
        texts = [text_of(message.content) for message in session.messages]  # type: ignore[union-attr]
    assert [f"question {n}" for n in range(4)] == texts[::2]
    assert all(f'"question {n}"' in answer for n, answer in enumerate(texts[1::2]))


def test_two_workers_share_the_runs(yard: Yard) -> None:
    """Each run is carried out once, by one of the two, and both have some."""
    ids = [yard.mark(turns=3, width=1) for _ in range(10)]
    workers = [yard.start("--concurrency", "1"), yard.start("--concurrency", "1")]
    for id in ids:
        assert "done" == yard.runs.result(id, timeout=90).reason
    assert {f"{id}/{turn}/0": 1 for id in ids for turn in range(3)} == yard.effects()
    assert {worker.pid for worker in workers} == {pid for _, _, pid in yard.traces()}
    assert all(1 == yard.runs.status(id).lives for id in ids)


def test_all_workers_together_keep_to_the_total(yard: Yard) -> None:
    """With a total of one, no two runs overlap, whoever has them."""
    ids = [yard.mark(turns=2, width=1, pause=0.05) for _ in range(4)]
    for _ in range(2):
        yard.start("--total", "1", "--concurrency", "1")
    for id in ids:
        yard.runs.result(id, timeout=90)
    in_order = [call.split("/")[0] for _, call, _ in yard.traces()]
    assert len(ids) == 1 + sum(one != two for one, two in itertools.pairwise(in_order))


BAD = {
    "poison": "agent 'poison' could not be created: ValueError: this factory always raises",
    "nobody": "unknown agent 'nobody'",
    "no.such.module:factory": "ModuleNotFoundError",
    "forgetful": "must use its session",
    "failing": "no such model",
}


def test_runs_that_cannot_be_done_fail_alone(yard: Yard) -> None:
    """Their status says why; the runs behind them are done."""
    bad = {agent: yard.runs.enqueue("go", agent=agent) for agent in BAD}
    good = yard.runs.enqueue("go", agent="echo")
    yard.drain()
    for agent, error in BAD.items():
        with pytest.raises(RunFailed, match="failed: ") as caught:
            yard.runs.result(bad[agent], timeout=5)
        assert error in str(caught.value)
        run = yard.runs.status(bad[agent])
        assert "failed" == run.state and run.error is not None and error in run.error
    assert "done" == yard.runs.result(good, timeout=5).reason


def test_a_session_goes_on_after_a_run_that_failed(yard: Yard) -> None:
    """The next run of the same session is not held up."""
    yard.runs.enqueue("one", agent="poison", session="talk")
    later = yard.runs.enqueue("two", agent="echo", session="talk")
    yard.drain()
    assert yard.runs.result(later).text.endswith('You said: "two"')


def test_a_run_that_kills_its_workers_is_given_up(yard: Yard) -> None:
    """After so many dead workers the run is taken for the cause; the status says so."""
    id = yard.runs.enqueue("go", agent="killer")
    for _ in range(2):
        assert -signal.SIGKILL == yard.start("--give-up", "1").wait(60), yard.log()
    assert 0 == yard.start("--give-up", "1", "--drain").wait(60), yard.log()
    run = yard.runs.status(id)
    assert "failed" == run.state and run.error is not None and "workers died with it" in run.error


def test_a_cancelled_run_stops_its_tools(yard: Yard) -> None:
    """The tool is told to stop, its result is kept, the run ends as cancelled, and the worker goes on."""
    id = yard.runs.enqueue("go", agent="waiter", arguments={"file": yard.file, "calls": ["wait"]})
    worker = yard.start()
    until(lambda: yard.traces("begun"), "the tool runs")
    yard.runs.cancel(id)
    assert "cancelled" == yard.runs.status(id).state
    until(lambda: yard.traces("stopped"), "the tool was stopped")
    with pytest.raises(RunFailed, match="was cancelled"):
        yard.runs.result(id)
    after = yard.runs.enqueue("more", agent="echo", session=id)
    assert "done" == yard.runs.result(after, timeout=60).reason
    assert {f"{id}/wait": "stopped in order"} == yard.results(after)
    assert worker.poll() is None


def test_a_cancelled_run_in_the_queue_never_begins(yard: Yard) -> None:
    """Nothing of it is carried out."""
    id = yard.mark()
    yard.runs.cancel(id)
    yard.drain()
    assert ("cancelled", []) == (yard.runs.status(id).state, yard.traces())


def test_a_stopped_worker_leaves_its_runs_to_the_next(yard: Yard) -> None:
    """SIGTERM: what does not end in time is stopped in order and taken up by the worker that starts next."""
    id = yard.runs.enqueue("go", agent="waiter", arguments={"file": yard.file, "calls": ["mark", "wait"]})
    worker = yard.start("--grace", "0.2")
    until(lambda: any(call.endswith("wait") for _, call, _ in yard.traces("begun")), "the tool runs")
    worker.terminate()
    assert 0 == worker.wait(60), yard.log()
    assert "running" == yard.runs.status(id).state
    yard.drain()
    outcome = yard.runs.result(id, timeout=5)
    assert ("done", "went on", ()) == (outcome.reason, outcome.text, outcome.unknown)
    assert {f"{id}/mark": f"did {id}/mark", f"{id}/wait": "stopped in order"} == yard.results(id)
    assert {f"{id}/mark": 1} == yard.effects()
    assert 2 == yard.runs.status(id).lives


def test_a_worker_lets_short_runs_end_before_it_stops(yard: Yard) -> None:
    """Within the grace, a run in hand is finished by the worker that has it."""
    id = yard.mark(turns=3, pause=0.1)
    worker = yard.start("--grace", "30")
    until(lambda: yard.traces("begun"), "the run has begun")
    worker.terminate()
    assert 0 == worker.wait(60)
    assert ("done", 1) == (yard.runs.status(id).state, yard.runs.status(id).lives)


def test_a_run_that_has_ended_is_recorded_before_its_worker_stops(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: the next worker would begin it again."""
    record, has_ended = SystemDatabase.update_workflow_outcome, threading.Event()

    def slow(*given: Any, **named: Any) -> None:
        has_ended.set()
        time.sleep(1.0)
        record(*given, **named)

    monkeypatch.setattr(SystemDatabase, "update_workflow_outcome", slow)
    with Worker(home=yard.home, load=[CREW], poll=0.05):
        id = yard.runs.enqueue("go", agent="echo")
        assert has_ended.wait(60)
    assert "done" == yard.runs.status(id).state


def test_a_session_that_somebody_else_writes_is_waited_for(yard: Yard) -> None:
    """A person in the session keeps the run out until they leave."""
    with Session.open("talk", agent=AGENT, home=yard.home) as session:
        session.append(il.UserMessage(content="I am here"))
        session.append(il.AssistantMessage(content="So I see"))
        id = yard.runs.enqueue("And I", agent="echo", session="talk")
        yard.start()
        until(lambda: "waits: " in yard.log(), "the worker waits")
        assert "running" == yard.runs.status(id).state
    assert "done" == yard.runs.result(id, timeout=60).reason


def test_limits_hold_for_a_run_over_all_its_lives(yard: Yard) -> None:
    """Each life has what the ones before left; a limit is named as the agent has it."""
    id = yard.runs.enqueue("go", agent="limited", arguments={"file": yard.file, "turns": 6})
    worker = yard.start()
    until(lambda: len(yard.traces("effect")) >= 2, "two turns are done")
    yard.kill(worker)
    yard.drain()
    outcome = yard.runs.result(id, timeout=5)
    assert ("limit: 6 turns", 6) == (outcome.reason, outcome.turns)
    assert len(yard.results(id)) == 6


def test_a_run_that_changes_its_state_is_not_overlooked(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that does all that is left asks while another puts the run of a dead one back into the queue."""
    id = yard.mark(turns=6)
    worker = yard.start()
    until(lambda: yard.traces("effect"), "a turn is done")
    yard.kill(worker)
    assert "running" == yard.runs.status(id).state
    listed = yard.runs._client.list_workflows

    def resumed_meanwhile(**asked: Any) -> Any:
        found = listed(**asked)
        yard.runs._client.resume_workflow(id, queue_name=QUEUE)
        return found

    monkeypatch.setattr(yard.runs._client, "list_workflows", resumed_meanwhile)
    assert yard.runs.has_open(QUEUE)
    monkeypatch.undo()
    assert "queued" == yard.runs.status(id).state
    assert yard.runs.has_open(QUEUE) and not yard.runs.has_open("another")
    yard.drain()
    assert not yard.runs.has_open(QUEUE)


def test_a_final_answer_of_a_schema_comes_with_the_outcome(yard: Yard) -> None:
    """As the agent gives it, corrections included."""
    id = yard.runs.enqueue("go", agent="judge")
    yard.drain()
    outcome = yard.runs.result(id, timeout=5)
    assert ({"verdict": "guilty"}, 2) == (outcome.output, outcome.turns)


def test_the_same_id_twice_is_one_run(yard: Yard) -> None:
    """Whoever does not know whether its call came through may call again."""
    ids = {yard.runs.enqueue("go", agent="marker", id="mine", arguments={"file": yard.file}) for _ in range(2)}
    yard.drain()
    assert {"mine"} == ids
    assert [1] * 6 == [*yard.effects().values()]


def test_runs_are_listed_by_state_queue_and_session(yard: Yard) -> None:
    """The latest first; runs of another queue are left alone."""
    one, two = yard.runs.enqueue("a", agent="echo", session="s"), yard.runs.enqueue("b", agent="poison")
    other = yard.runs.enqueue("c", agent="echo", queue="other")
    assert [other, two, one] == [run.id for run in yard.runs.list()]
    yard.drain()
    assert [one] == [run.id for run in yard.runs.list(state="done")]
    assert [two] == [run.id for run in yard.runs.list(state="failed", queue="runs")]
    assert [other] == [run.id for run in yard.runs.list(state="queued")]
    assert [one] == [run.id for run in yard.runs.list(session="s", limit=1)]


def test_what_is_missing_is_reported(yard: Yard) -> None:
    """A run nobody knows, a wait that is over, an empty prompt, an address that is none."""
    with pytest.raises(RunError, match="no run 'x'"):
        yard.runs.cancel("x")
    with pytest.raises(TimedOut, match=r"still queued after 0\.1 s"):
        yard.runs.result(yard.mark(), timeout=0.1)
    with pytest.raises(RunError, match="no prompt"):
        yard.runs.enqueue([], agent="echo")
    with pytest.raises(FormatError):
        yard.runs.enqueue("go", agent="echo", arguments={"x": object()})
    with pytest.raises(RunError, match="unknown database address"):
        RunPlace.of("mysql://host/name")
    with pytest.raises(RunError, match="no such Python file"):
        Worker(home=yard.home, load=[str(yard.home / "missing.py")]).start()


def test_many_may_make_the_database_at_once(tmp_path: Path) -> None:
    """The tables are made once, whoever comes first."""
    from concurrent.futures import ThreadPoolExecutor

    def enqueue(n: int) -> str:
        with Runs(home=tmp_path) as runs:
            return runs.enqueue(str(n), agent="echo")

    with ThreadPoolExecutor(4) as pool:
        ids = {*pool.map(enqueue, range(8))}
    with Runs(home=tmp_path) as runs:
        assert ids == {run.id for run in runs.list()}


def test_a_worker_may_live_beside_other_work(yard: Yard) -> None:
    """In a program of one's own: from `start` to `stop`, and again."""
    for word in ("one", "two"):
        with Worker(home=yard.home, load=[CREW], poll=0.05):
            id = yard.runs.enqueue(word, agent="echo")
            assert yard.runs.result(id, timeout=60).text.endswith(f'You said: "{word}"')
        with pytest.raises(RunError, match="DBOS is already running"), Worker(home=yard.home), Worker(home=yard.home):
            pass
    assert {"done"} == {run.state for run in yard.runs.list()}


def test_values_of_runs_are_json(yard: Yard) -> None:
    """For programs: a run and its outcome go through JSON and back."""
    id = yard.runs.enqueue("go", agent="echo")
    yard.drain()
    outcome = yard.runs.result(id)
    assert outcome == il.load(il.dump(outcome), Outcome)


def test_a_missing_engine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents can be named without it; runs say what to install."""
    program = "import sys, interlingua.durable; sys.exit('dbos' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode
    monkeypatch.setitem(sys.modules, "dbos", None)
    with pytest.raises(RunError, match=r'pip install "interlingua\[durable\]"'):
        Runs(home=tmp_path)
