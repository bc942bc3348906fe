"""What is asked of workers, and what comes of it, as values that go through a database."""

from typing import Any, Literal, TypeAlias

from ..values.errors import InterlinguaError
from ..values.messages import AgentMessage, Wire

WORKFLOW = "interlingua.run"
QUEUE = "runs"

State: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]


class RunError(InterlinguaError):
    """Something is wrong with a run, or with what was asked about it."""


class RunFailed(RunError):
    """A run came to no good end; `run` says what is known of it."""

    def __init__(self, message: str, run: "Run | None" = None) -> None:
        super().__init__(message)
        self.run = run


class Order(Wire, frozen=True, kw_only=True):
    """A run as it was asked for. Its id names the entries of its prompt, so no life of the run asks twice."""

    id: str
    agent: str
    session: str
    prompt: tuple[AgentMessage, ...]
    queue: str = QUEUE
    arguments: dict[str, Any] = {}

    @property
    def entry_ids(self) -> tuple[str, ...]:
        return tuple(f"{self.id}.{at}" for at in range(len(self.prompt)))


class Outcome(Wire, frozen=True, kw_only=True):
    """What came of a run, over all its lives. `unknown` are calls of which nobody knows whether they took effect."""

    reason: str
    text: str = ""
    output: Any = None
    turns: int = 0
    tokens: int = 0
    cost: float | None = None
    unknown: tuple[str, ...] = ()


class Run(Wire, frozen=True, kw_only=True):
    """A run as it stands. `lives` counts the workers that had it; times are milliseconds."""

    id: str
    state: State
    agent: str
    session: str
    queue: str
    lives: int = 0
    worker: str | None = None
    created: int | None = None
    updated: int | None = None
    outcome: Outcome | None = None
    error: str | None = None
