"""`Runs`: the client of durable runs: enqueue, status, result, cancel, list, delete."""

import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ..agent.agent import Prompt
from ..sessions import SessionError
from ..sessions.files import check_name
from ..values import jsontext
from ..values.canonical import build, plain
from ..values.errors import InterlinguaError, TimedOut
from ..values.messages import TextBlock, UserMessage
from .orders import QUEUE, WORKFLOW, Order, Outcome, Run, RunError, RunFailed, State
from .place import TIMEOUT, RunPlace

if TYPE_CHECKING:
    import builtins

T = TypeVar("T")

_STATES: dict[str, State] = {
    "ENQUEUED": "queued",
    "DELAYED": "queued",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "CANCELLED": "cancelled",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
}
_OPEN = ("queued", "running")
_PAGE = 200  # rows per query
_POLL_INTERVAL = 0.2  # seconds between polls of a run


class Runs:
    """The runs of a database. Use it as a context manager, or call `close()`.

    `database` is `sqlite:FILE` or `postgresql://HOST/NAME`; by default a SQLite file under `home`. An operation on a
    database that is locked or unreachable for `timeout` seconds raises TimedOut.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        sessions: str | None = None,
        home: str | Path | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.place = RunPlace.of(database, sessions, home)
        self.timeout = timeout
        self._client = self.place.client()

    def enqueue(
        self,
        prompt: Prompt,
        *,
        agent: str,
        arguments: dict[str, Any] | None = None,
        session: str | None = None,
        id: str | None = None,
        queue: str = QUEUE,
    ) -> str:
        """Enqueues a run and returns its id. Runs of one session are executed one after another, in this order.

        `agent` is a name that the workers know, or `module:factory`; `arguments` are JSON, for the factory. Without a
        `session` the run gets one of its own, with the id of the run. The same `id` twice is one run.
        """
        name = _new_id() if id is None else id
        for given, what in ((name, "run"), (name if session is None else session, "session"), (queue, "queue")):
            _check(given, what)
        if not isinstance(agent, str):
            raise RunError(f"invalid agent {agent!r}; give the name of an agent, or module:factory")
        order = Order(
            id=name,
            agent=agent,
            session=name if session is None else session,
            prompt=_messages(prompt),
            queue=queue,
            arguments=arguments or {},
        )
        data = jsontext.read(jsontext.write(plain(order)))
        where = {
            "workflow_name": WORKFLOW,
            "queue_name": queue,
            "workflow_id": name,
            "queue_partition_key": order.session,
        }
        made: str = self._ask(lambda: self._client.enqueue(where, data).get_workflow_id())  # type: ignore[arg-type]
        return made

    def status(self, id: str) -> Run:
        """The state of a run."""
        return _run(self.row(id))

    def row(self, id: str) -> Any:
        """The run as the database has it."""
        _check(id, "run")
        found = self._ask(lambda: self._client.list_workflows(workflow_ids=[id], name=WORKFLOW))
        if not found:
            raise RunError(f"no run {id!r} in {self.place.where}")
        return found[0]

    def result(self, id: str, *, timeout: float | None = None) -> Outcome:
        """Waits until a run has ended. Raises RunFailed if it failed or was cancelled, TimedOut after `timeout`."""
        until = None if timeout is None else time.monotonic() + timeout
        while (run := self.status(id)).state in _OPEN:
            if until is not None and time.monotonic() >= until:
                raise TimedOut(f"run {id} is still {run.state} after {timeout:g} s")
            time.sleep(_POLL_INTERVAL)
        if run.outcome is None:
            raise RunFailed(f"run {id} {_ended(run)}", run)
        return run.outcome

    def cancel(self, id: str) -> None:
        """Cancels a run: its worker stops the answer and the tools. A finished run is not changed."""
        self.status(id)
        self._ask(lambda: self._client.cancel_workflow(id))

    def delete(self, id: str) -> None:
        """Deletes a finished run; its session stays. Raises RunError if it is queued or running: cancel it first."""
        if (run := self.status(id)).state in _OPEN:
            raise RunError(f"run {id} is {run.state}; cancel it before deleting it")
        self._ask(lambda: self._client.delete_workflow(id))

    def delete_finished(self, *, older_than: float = 0) -> int:
        """Deletes the runs that ended more than `older_than` seconds ago and returns how many; their sessions stay."""
        before = (time.time() - older_than) * 1000
        ended = [run.id for run in self._all(None) if run.state not in _OPEN and (run.updated or 0) <= before]
        for first in range(0, len(ended), _PAGE):
            self._ask(lambda: self._client.delete_workflows(ended[first : first + _PAGE]))  # noqa: B023
        return len(ended)

    def list(
        self, *, state: State | None = None, queue: str | None = None, session: str | None = None, limit: int = 100
    ) -> tuple[Run, ...]:
        """The latest runs first."""
        if limit < 0:
            raise RunError(f"limit {limit} is negative; give 0 or more")
        matching = (run for run in self._all(state) if queue in (None, run.queue) and session in (None, run.session))
        latest = itertools.islice(matching, limit)
        return tuple(sorted(latest, key=lambda run: (run.created or 0, run.id), reverse=True))

    def _all(self, state: State | None) -> Iterator[Run]:
        statuses = [status for status, meaning in _STATES.items() if state in (None, meaning)]
        for offset in itertools.count(step=_PAGE):
            rows = self._page(statuses, offset)
            yield from map(_run, rows)
            if len(rows) < _PAGE:
                return

    def _page(self, statuses: "builtins.list[str]", offset: int) -> "builtins.list[Any]":
        return self._ask(
            lambda: self._client.list_workflows(
                name=WORKFLOW, status=statuses, sort_desc=True, limit=_PAGE, offset=offset
            )
        )

    def has_open(self, queue: str) -> bool:
        """Whether a run is queued or running. In one query: between two, a run may change from one to the other."""
        open_ = [status for status, meaning in _STATES.items() if meaning in _OPEN]
        return bool(
            self._ask(
                lambda: self._client.list_workflows(
                    name=WORKFLOW, status=open_, queue_name=queue, limit=1, load_input=False, load_output=False
                )
            )
        )

    def running(self) -> "builtins.list[Any]":
        """The rows of runs that a worker has, without their messages."""
        return self._ask(
            lambda: self._client.list_workflows(name=WORKFLOW, status="PENDING", load_input=False, load_output=False)
        )

    def resume(self, id: str, queue: str) -> None:
        """Puts a run whose worker is dead back into its queue."""
        self._ask(lambda: self._client.resume_workflow(id, queue_name=queue))

    def count(self, id: str, **counts: int) -> None:
        """Saves how often a run started (`lives`) and was released cleanly (`left`)."""
        self._ask(lambda: self._client.update_workflow_attributes(id, {**counts}, merge=True))

    def register_queue(self, name: str, **how: Any) -> None:
        """Creates a queue, or changes its limits."""
        self._ask(lambda: self._client.register_queue(name, **how))

    def _ask(self, operation: Callable[[], T]) -> T:
        return self.place.within(self.timeout, operation)

    def close(self) -> None:
        self._client.destroy()

    def __enter__(self) -> "Runs":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _run(row: Any) -> Run:
    state = _STATES.get(row.status, "failed")
    outcome, error = None, (str(row.error) or type(row.error).__name__) if state == "failed" else None
    try:
        order: Order = build(row.input["args"][0], Order)
        outcome = build(row.output, Outcome) if state == "done" else None
    except (InterlinguaError, LookupError, TypeError) as problem:  # one bad row does not hide the others
        order = Order(id=row.workflow_id, agent="", session=row.queue_partition_key or "", prompt=())
        state = "failed" if state == "done" else state
        error = error or f"the stored run is unreadable: {problem}"
    return Run(
        id=row.workflow_id,
        state=state,
        agent=order.agent,
        session=order.session,
        queue=row.queue_name or order.queue,
        lives=counts_of(row)[0],
        worker=row.executor_id,
        created=row.created_at,
        updated=row.updated_at,
        outcome=outcome,
        error=error,
    )


def counts_of(row: Any) -> tuple[int, int]:
    """Returns how often a run started, and how often a worker released it cleanly; otherwise its worker died."""
    found = row.attributes if isinstance(row.attributes, dict) else {}
    lives, left = found.get("lives"), found.get("left")
    return lives if isinstance(lives, int) else 0, left if isinstance(left, int) else 0


def _check(name: str, what: str) -> None:
    """Raises RunError for a name that could not be a file name: runs, sessions and workers have files."""
    try:
        check_name(name, what)
    except SessionError as error:
        raise RunError(str(error)) from None


def _ended(run: Run) -> str:
    return "was cancelled" if run.state == "cancelled" else f"failed: {run.error}"


def _messages(prompt: Prompt) -> tuple[Any, ...]:
    if isinstance(prompt, str):
        return (UserMessage(content=(TextBlock(text=prompt),), timestamp=int(time.time() * 1000)),)
    messages = tuple(prompt) if isinstance(prompt, list | tuple) else (prompt,)
    if not messages:
        raise RunError("no prompt; give a text, a message, or several")
    return messages


def _new_id() -> str:
    """A new id. Ids sort by time: the queue orders runs of the same second by them."""
    return f"{time.time_ns() // 1000:x}-{secrets.token_hex(4)}"
