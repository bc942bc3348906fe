"""`Worker`: takes runs from the queue and executes them, each in its own thread with its own event loop.

DBOS distributes the runs and stores their outcomes. The worker also checks every second what DBOS does not track: runs
that it no longer owns (cancelled, or reassigned), and workers that died with active runs.

The session is the only record of what was done. For the queue a run is one unit: workflow steps would be a second
journal that could disagree with the first.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import signal as signals
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec.structs import replace

from ..agent import Agent, Limits
from ..agent.batch import NOT_RUN, UNKNOWN, result_message
from ..agent.history import StoredHistory
from ..connect.results import Spent
from ..sessions import Session, SessionBusy, SessionError, SessionNotFound
from ..tools.tool import ToolResult
from ..values.abort import Abort
from ..values.canonical import build, plain
from ..values.errors import InterlinguaError
from ..values.interop import describe, must_propagate
from ..values.messages import AgentMessage, AssistantMessage, TextBlock, ToolResultMessage, text_of
from .orders import QUEUE, WORKFLOW, Order, Outcome, RunError, RunFailed, load, made
from .place import NAME, RunPlace, presence
from .runs import Runs, counts_of


async def executed(order: Order, session: Session, signal: Abort) -> Outcome:
    """Runs to the end. Raises RunFailed if the agent could not be created or its model failed; SessionError if the
    session could not be written: the run may then be retried.
    """
    agent = await _made(order, session)
    _begin(order, session)
    agent.history.reload()
    before = _since_prompt(order, session)
    limits = agent.limits
    reason = limits.reached(_spent(before)) if before else None
    if session.unfinished_calls() or (reason is None and _is_open(agent)):
        agent.limits = _remaining_limits(limits, _spent(before))
        result = await agent.continue_(signal=signal)
        reason = _named(result.reason, limits, _spent(_since_prompt(order, session)))
        if reason == "error":
            raise _failure(result.failure, agent)
    return _outcome(reason or "done", agent, _since_prompt(order, session))


async def _made(order: Order, session: Session) -> Agent:
    try:
        return await made(order.agent, session, order.arguments)
    except SessionError:
        raise
    except BaseException as error:  # raised by the agent factory
        if must_propagate(error):
            raise
        text = str(error) or "no message"
        raise RunFailed(f"agent {order.agent!r} could not be created: {type(error).__name__}: {text}") from error


def _begin(order: Order, session: Session) -> None:
    """Appends the prompt to the session, unless it is there: its entry ids derive from the run's id."""
    for name, message in zip(order.entry_ids, order.prompt, strict=True):
        if _has(session, name):
            continue
        if name == order.entry_ids[0]:
            _close_open_calls(session)
        session.append(message, id=name)


def _has(session: Session, name: str) -> bool:
    try:
        session.entry(name)
    except SessionNotFound:
        return False
    return True


def _close_open_calls(session: Session) -> None:
    """Adds results for open calls of an earlier run; none of them is executed."""
    history = StoredHistory(session)
    for unfinished in session.unfinished_calls():
        call = unfinished.call
        provided = unfinished.result
        if isinstance(provided, dict):
            result: ToolResultMessage = build(provided, ToolResultMessage)
        else:
            status, text = ("unknown", UNKNOWN) if unfinished.started else ("aborted", NOT_RUN)
            given = ToolResult(content=(TextBlock(text=text),), details={"status": status}, is_error=True)
            result = result_message(call, given)
        history.append(result)


def _since_prompt(order: Order, session: Session) -> tuple[AgentMessage, ...]:
    """The messages of this run."""
    path = session.path()
    ours = {*order.entry_ids}
    first = next((at for at, entry in enumerate(path) if entry.id in ours), 0)
    return tuple(entry.message for entry in path[first:] if entry.id not in ours)


def _spent(messages: Sequence[AgentMessage]) -> Spent:
    """The usage of all answers of the run, over all workers."""
    spent = Spent()
    for message in messages:
        if isinstance(message, AssistantMessage):
            spent.add(message)
    return spent


def _remaining_limits(limits: Limits, spent: Spent) -> Limits:
    """The remaining limits. Seconds count per life; an unknown cost leaves nothing."""
    return replace(
        limits,
        turns=None if limits.turns is None else limits.turns - spent.turns,
        tokens=None if limits.tokens is None else limits.tokens - spent.tokens,
        cost=None if limits.cost is None else 0.0 if spent.cost is None else limits.cost - spent.cost,
    )


def _named(reason: str, limits: Limits, spent: Spent) -> str:
    """The reason with the agent's own limit, not the remaining one."""
    return limits.reached(spent) or reason if reason.startswith("limit: ") else reason


def _is_open(agent: Agent) -> bool:
    """Whether the model must continue; a final answer that does not match the output schema is sent back."""
    last = agent.messages[-1]
    if not isinstance(last, AssistantMessage) or last.stop_reason in ("error", "aborted"):
        return True
    problem = agent.verify(last)
    if problem is not None:
        agent.follow_up(f"Your answer does not match the requested format: {problem} Answer again with the JSON only.")
    return problem is not None


def _failure(failure: Exception | None, agent: Agent) -> Exception:
    if isinstance(failure, SessionError):
        return failure
    return RunFailed(str(failure or agent.state.error or "the agent failed without a reason"))


def _outcome(reason: str, agent: Agent, messages: Sequence[AgentMessage]) -> Outcome:
    spent = _spent(messages)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    text = text_of(answers[-1].content) if answers else ""
    return Outcome(
        reason=reason,
        text=text,
        output=agent.output.read(answers[-1]).value if agent.output is not None and reason == "done" else None,
        turns=spent.turns,
        tokens=spent.tokens,
        cost=spent.cost,
        unknown=tuple(
            message.tool_call_id
            for message in messages
            if isinstance(message, ToolResultMessage) and _is_unknown(message.details)
        ),
    )


def _is_unknown(details: Any) -> bool:
    return isinstance(details, dict) and details.get("status") == "unknown"


_log = logging.getLogger(__name__)

VERSION = "interlingua-1"  # the format of a run in the database: workers of one version are compatible
_BUSY = 0.5  # seconds between attempts for a session that another program writes
_TRIES = 4  # for a session that cannot be written
_SUSPECT = 2  # after this many deaths a run starts alone in its worker, so that it cannot take others down
_ALONE = 600.0  # seconds that a suspect runs alone
_WAIT_ALONE = 60.0  # seconds that it waits to be alone
_RECORDING = 10.0  # seconds that DBOS may take to record an outcome
_NO_LIMIT = 1_000_000  # DBOS's own limit: a resumed run counts as new there; `give_up` is ours
_REPORTED_HERE = "Exception encountered in background workflow"


class _Left(BaseException):
    """Ends a run's thread without an outcome: the run is no longer ours, or is left to another worker.

    Not an Exception, since DBOS records those as the outcome of the run.
    """


class _Life:
    """A run while this worker has it."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.signal = Abort()
        self.session: Session | None = None
        self.left: str | None = None
        self._loop = asyncio.get_running_loop()

    def leave(self, why: str, *, silently: bool = False) -> None:
        """Stops the run, from any thread. Current work ends cleanly and is recorded in the session; not with
        `silently`, because another worker writes there.
        """
        if self.left is None:
            self.left = why
            with contextlib.suppress(RuntimeError):  # it has just ended, and its loop with it
                self._loop.call_soon_threadsafe(self._stop, why, silently)

    def _stop(self, why: str, silently: bool) -> None:
        if silently and self.session is not None:
            self.session.close()
        self.signal.abort(why)


class Worker:
    """Executes runs, from `start()` to `stop()`, or as a context manager. One per process, a limit of DBOS.

    `concurrency` is the number of concurrent runs per worker, `total` that of all workers together; the worker that
    starts last decides for all. `load` names modules or files that register agents. A run is retried up to `give_up`
    times; if its worker dies each time, the run is considered the cause.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        sessions: str | None = None,
        home: str | Path | None = None,
        load: Iterable[str] = (),
        queue: str = QUEUE,
        concurrency: int = 4,
        total: int | None = None,
        poll: float = 1.0,
        grace: float = 10.0,
        give_up: int = 20,
    ) -> None:
        self.place = RunPlace.of(database, sessions, home)
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._load = tuple(load)
        self._queue = queue
        self._concurrency = concurrency
        self._total = total
        self._poll = poll
        self._grace = grace
        self._give_up = give_up
        self._lives: dict[str, _Life] = {}
        self._begun: set[str] = set()  # active runs
        self._left: set[str] = set()  # runs for other workers
        self._suspects: list[str] = []  # runs that wait to run alone, or do
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._watch: threading.Thread | None = None

    # --- start and stop ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts taking runs, including those of dead workers."""
        for source in self._load:
            load(source)
        self._runs = Runs(self.place.database, sessions=self.place.sessions, home=self.place.home)
        try:
            self._presence = presence(self.place, self.name)
            try:
                self._launch()
            except BaseException:
                self._presence.end()
                raise
        except BaseException:
            self._runs.close()
            raise
        self._watch = threading.Thread(target=self._supervise, name="interlingua-worker", daemon=True)
        self._watch.start()

    def _launch(self) -> None:
        from dbos import DBOS, DBOSPortableJSONSerializer

        logging.getLogger("dbos").addFilter(_unreported)
        # A queue partition per session: one run at a time, in order.
        self._runs.register_queue(
            self._queue,
            partition_concurrency=1,
            worker_concurrency=self._concurrency,
            global_concurrency=self._total,
            polling_interval_sec=self._poll,
        )
        DBOS(
            config={
                "name": NAME,
                "system_database_url": self.place.url,
                "application_version": VERSION,
                "executor_id": self.name,
                "serializer": DBOSPortableJSONSerializer(),
                "run_migrations": False,
                "log_level": "WARNING",
            }
        )
        if DBOS.executor_id != self.name:
            raise RunError("DBOS is already running in this process; start the worker in a separate process")

        def execute_run(order_data: Any) -> Any:
            return self._execute_run(order_data)

        try:
            DBOS.workflow(name=WORKFLOW, max_recovery_attempts=_NO_LIMIT)(execute_run)
            DBOS.listen_queues([self._queue])
            DBOS.launch()
        except BaseException:
            DBOS.destroy(destroy_registry=True)
            raise

    def stop(self) -> None:
        """Takes no more runs, gives current ones `grace` seconds, and leaves the rest to other workers."""
        if self._watch is None:
            return
        self._stopping.set()
        if not self._idle(self._grace):
            for life in [*self._lives.values()]:
                life.leave("the worker stops")
            if not self._idle(self._grace):
                _log.warning("these runs do not stop: %s", ", ".join(self._lives))
        self._await_outcomes()
        from dbos import DBOS

        DBOS.destroy(destroy_registry=True)
        self._watch.join()
        self._watch = None
        self._presence.end()
        self._runs.close()

    def _idle(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._lives, seconds)

    def _await_outcomes(self) -> None:
        """Waits until the runs that ended here are recorded as such: DBOS does it after their last step, and others
        would repeat what is not."""
        deadline = time.monotonic() + _RECORDING
        with contextlib.suppress(InterlinguaError):  # the database is away: they are resumed where they ended
            while time.monotonic() < deadline:
                own = {row.workflow_id for row in self._runs.running() if row.executor_id == self.name}
                if own <= self._left | self._lives.keys():
                    return
                time.sleep(0.05)

    def __enter__(self) -> "Worker":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self, *, drain: bool = False) -> None:
        """Runs until `halt()` is called; or, with `drain`, until the queue is empty."""
        with self:
            while not self._stopping.wait(self._poll):
                if drain and not self._runs.has_open(self._queue):
                    return

    def halt(self) -> None:
        """Makes `run()` return; callable from any thread or signal handler."""
        self._stopping.set()

    # --- one run ----------------------------------------------------------------------------------------------------

    def _execute_run(self, order_data: dict[str, Any]) -> dict[str, Any]:
        """The workflow: one life of a run."""
        order: Order = build(order_data, Order)
        try:
            outcome = asyncio.run(self._life(order))
        except Exception as error:
            _log.info("%s: failed: %s", order.id, error)
            raise
        except BaseException as error:  # otherwise DBOS would leave the run as running forever
            _log.info("%s: failed: %s", order.id, describe(error))
            raise RunFailed(f"ended by {describe(error)}") from error
        if outcome is None:
            self._left.add(order.id)
            raise _Left
        _log.info("%s: %s", order.id, outcome.reason)
        fields: dict[str, Any] = plain(outcome)
        return fields

    async def _life(self, order: Order) -> Outcome | None:
        """The outcome of a run; None if it was left to another worker."""
        life = _Life(order.id)
        with self._registered(life):
            if self._stopping.is_set():
                return None
            _log.info("%s: agent %s, session %s", order.id, order.agent, order.session)
            try:
                outcome = await self._retry_writes(order, life)
            except Exception as error:
                if life.left is None:
                    raise RunFailed(_text(error)) from error
            if life.left is not None:
                _log.info("%s: left: %s", order.id, life.left)
                self._note_left(order.id)
                return None
            return outcome

    def _note_left(self, id: str) -> None:
        """Records a clean release: the run did not kill its worker."""
        with contextlib.suppress(InterlinguaError):
            lives, left = counts_of(self._runs.row(id))
            self._runs.count(id, lives=lives, left=left + 1)

    @contextlib.contextmanager
    def _registered(self, life: _Life) -> Iterator[None]:
        with self._changed:
            self._lives[life.id] = life
        try:
            yield
        finally:
            with self._changed:
                if self._lives.get(life.id) is life:
                    del self._lives[life.id]
                self._changed.notify_all()

    async def _retry_writes(self, order: Order, life: _Life) -> Outcome:
        """Retries if a session could not be written: the database may have been unavailable."""
        failures = 0
        while True:
            try:
                with await self._session(order, life) as life.session:
                    async with self._turn(order, life):
                        return await executed(order, life.session, life.signal)
            except self.place.transient_errors as error:
                failures += 1
                if failures == _TRIES or life.left is not None:
                    raise
                _log.warning("%s: %s; retrying", order.id, error)
                await _pause(2.0 ** (failures - 1), life.signal)
            finally:
                life.session = None

    async def _session(self, order: Order, life: _Life) -> Session:
        """The session for writing, once its current writer has ended."""
        while life.left is None:
            try:
                return self.place.session(order)
            except SessionBusy as busy:
                _log.info("%s: waits: %s", order.id, busy)
                await _pause(_BUSY, life.signal)
        raise RunError(life.left)

    @contextlib.asynccontextmanager
    async def _turn(self, order: Order, life: _Life) -> AsyncIterator[None]:
        """Starts a run and counts it; a run with which several workers died runs alone for a time.

        A run that waits here has not started, and is not blamed if the worker dies.
        """
        lives, left = await asyncio.to_thread(lambda: counts_of(self._runs.row(order.id)))
        deaths = lives - left
        if deaths > self._give_up:
            raise RunFailed(f"failed after {deaths} workers died with it; its session has the completed work")
        is_suspect = deaths >= max(1, min(_SUSPECT, self._give_up))
        await self._admitted(life, is_suspect)
        timer = asyncio.get_running_loop().call_later(_ALONE, self._end_isolation, life.id)
        try:
            await asyncio.to_thread(self._runs.count, order.id, lives=lives + 1, left=left)
            yield
        finally:
            timer.cancel()
            self._end_isolation(life.id)
            with self._changed:
                self._begun.discard(life.id)

    async def _admitted(self, life: _Life, is_suspect: bool) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _WAIT_ALONE
        if is_suspect:
            with self._changed:
                self._suspects.append(life.id)
        while True:
            if self._total is None or await asyncio.to_thread(self._is_in_total, life.id):
                with self._changed:
                    first = self._suspects[:1] == [life.id]
                    may_begin = first and not self._begun if is_suspect else not self._suspects
                    if may_begin or (first and loop.time() > until):
                        self._begun.add(life.id)
                        return
            if life.left is not None:
                self._end_isolation(life.id)
                raise RunError(life.left)
            await _pause(self._poll / 4, life.signal)

    def _is_in_total(self, id: str) -> bool:
        """Whether a run is within the total limit of all workers.

        On SQLite two workers that poll the queue at once may each take a run: the later one waits here.
        """
        rows = [row for row in self._runs.running() if row.queue_name == self._queue]
        ids = [row.workflow_id for row in sorted(rows, key=lambda row: (row.created_at or 0, row.workflow_id))]
        return id not in ids or ids.index(id) < (self._total or 1)

    def _end_isolation(self, id: str) -> None:
        """Allows other runs beside a suspect again."""
        with self._changed:
            if id in self._suspects:
                self._suspects.remove(id)

    # --- supervision -----------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        while True:
            try:
                self._look()
            except Exception:  # the database may come back
                _log.exception("supervision of runs failed; retrying")
            if self._stopping.wait(self._poll):
                return

    def _look(self) -> None:
        self._presence.keep()
        mine = [*self._lives.values()]
        owners = {row.workflow_id: row.executor_id for row in self._runs.running()}
        for life in mine:
            if owners.get(life.id) != self.name:
                self._release_lost(life)
        for worker in sorted({owner for owner in owners.values() if owner not in (None, self.name)}):
            with self._presence.dead(worker) as is_dead:
                if is_dead:
                    self._resume_runs_of(worker)

    def _resume_runs_of(self, worker: str) -> None:
        """Puts runs back into the queue; listed again, since another worker may have been faster."""
        for row in self._runs.running():
            if row.executor_id == worker:
                _log.info("%s: resumed, its worker %s died", row.workflow_id, worker)
                self._runs.resume(row.workflow_id, row.queue_name or self._queue)

    def _release_lost(self, life: _Life) -> None:
        """Releases a run that is no longer ours: cancelled, or reassigned because our lock was lost."""
        state = self._runs.status(life.id).state
        if state == "cancelled":
            life.leave("it was cancelled")
        elif state in ("queued", "running"):
            life.leave("it was reassigned to another worker", silently=True)


def run_worker(database: str | None = None, *, drain: bool = False, **how: Any) -> None:
    """Runs a worker until SIGTERM or Ctrl-C, or until the queue is empty. Takes the arguments of `Worker`."""
    worker = Worker(database, **how)
    before = {number: signals.signal(number, lambda *_: worker.halt()) for number in (signals.SIGTERM, signals.SIGINT)}
    try:
        worker.run(drain=drain)
    finally:
        for number, handler in before.items():
            signals.signal(number, handler)


async def _pause(seconds: float, signal: Abort) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(signal.wait(), seconds)


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, RunFailed | SessionError) else f"{type(error).__name__}: {error}"


def _unreported(record: logging.LogRecord) -> bool:
    """Suppresses DBOS's traceback of failed runs, which are logged in one line here."""
    return not str(record.msg).startswith(_REPORTED_HERE)
