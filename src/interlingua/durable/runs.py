"""`Runs`: the client side of durable runs: enqueue, status, result, cancel, list."""

import itertools
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from ..agent.agent import Prompt
from ..values import jsontext
from ..values.canonical import build, plain
from ..values.errors import TimedOut
from ..values.messages import TextBlock, UserMessage
from .orders import QUEUE, WORKFLOW, Order, Outcome, Run, RunError, RunFailed, State
from .place import Place

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
_PAGE = 200  # rows that are read together
_LOOK = 0.2  # seconds between two looks at a run that is waited for


class Runs:
    """The runs of a database. Use it as a context manager, or call `close()`.

    `database` is `sqlite:FILE` or `postgresql://HOST/NAME`; by default a SQLite file under `home`.
    """

    def __init__(
        self, database: str | None = None, *, sessions: str | None = None, home: str | Path | None = None
    ) -> None:
        self.place = Place.of(database, sessions, home)
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
        name = id or _new_id()
        order = Order(
            id=name,
            agent=agent,
            session=session or name,
            prompt=_messages(prompt),
            queue=queue,
            arguments=arguments or {},
        )
        made: str = self._client.enqueue(
            {"workflow_name": WORKFLOW, "queue_name": queue, "workflow_id": name, "queue_partition_key": order.session},
            jsontext.read(jsontext.write(plain(order))),
        ).get_workflow_id()
        return made

    def status(self, id: str) -> Run:
        """The state of a run."""
        found = self._client.list_workflows(workflow_ids=[id], name=WORKFLOW)
        if not found:
            raise RunError(f"no run {id!r} in {self._where}")
        return _run(found[0])

    def result(self, id: str, *, timeout: float | None = None) -> Outcome:
        """Waits until a run has ended. Raises RunFailed if it failed or was cancelled, TimedOut after `timeout`."""
        until = None if timeout is None else time.monotonic() + timeout
        while (run := self.status(id)).state in _OPEN:
            if until is not None and time.monotonic() >= until:
                raise TimedOut(f"run {id} is still {run.state} after {timeout:g} s")
            time.sleep(_LOOK)
        if run.outcome is None:
            raise RunFailed(f"run {id} {_ended(run)}", run)
        return run.outcome

    def cancel(self, id: str) -> None:
        """Cancels a run: its worker stops the answer and the tools. A finished run is not changed."""
        self.status(id)
        self._client.cancel_workflow(id)

    def list(
        self, *, state: State | None = None, queue: str | None = None, session: str | None = None, limit: int = 100
    ) -> tuple[Run, ...]:
        """The latest runs first."""
        matching = (run for run in self._all(state) if queue in (None, run.queue) and session in (None, run.session))
        latest = itertools.islice(matching, limit)
        return tuple(sorted(latest, key=lambda run: (run.created or 0, run.id), reverse=True))

    def _all(self, state: State | None) -> Iterator[Run]:
        statuses = [status for status, meaning in _STATES.items() if state in (None, meaning)]
        for offset in itertools.count(step=_PAGE):
            rows = self._client.list_workflows(
                name=WORKFLOW, status=statuses, sort_desc=True, limit=_PAGE, offset=offset
            )
            yield from map(_run, rows)
            if len(rows) < _PAGE:
                return

    def close(self) -> None:
        self._client.destroy()

    def __enter__(self) -> "Runs":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _where(self) -> str:
        return str(self.place.file or "the PostgreSQL database")


def _run(row: Any) -> Run:
    order: Order = build(row.input["args"][0], Order)
    state = _STATES[row.status]
    return Run(
        id=row.workflow_id,
        state=state,
        agent=order.agent,
        session=order.session,
        queue=order.queue,
        lives=row.recovery_attempts or 0,
        worker=row.executor_id,
        created=row.created_at,
        updated=row.updated_at,
        outcome=build(row.output, Outcome) if state == "done" else None,
        error=_error(row) if state == "failed" else None,
    )


def _error(row: Any) -> str:
    if row.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
        return f"given up after {row.recovery_attempts} workers died with it; its session records what was done"
    return str(row.error) or type(row.error).__name__


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
