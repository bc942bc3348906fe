"""Orders for workers, their outcomes, and the registry of agent factories."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from ..agent import Agent
from ..agent.history import StoredHistory
from ..sessions import Session
from ..values.errors import InterlinguaError
from ..values.interop import describe, must_propagate
from ..values.messages import AgentMessage, Value

# Agents that another process can create: a factory has a name, and takes JSON.


F = TypeVar("F", bound=Callable[..., Any])

_factories: dict[str, Callable[..., Any]] = {}


def agent(name: str) -> Callable[[F], F]:
    """Registers a factory: a (coroutine) function that takes a session and JSON arguments and returns an Agent.

    The agent must use that session: another worker resumes from it.
    """

    def named(factory: F) -> F:
        _factories[name] = factory
        return factory

    return named


def load(source: str) -> None:
    """Loads a module or Python file that registers agents."""
    try:
        _run_factory(source)
    except RunError:
        raise
    except BaseException as error:  # anything that the module raises on import
        if must_propagate(error):
            raise
        raise RunError(f"{source}: not loadable: {describe(error)}") from error


def _run_factory(source: str) -> None:
    if not source.endswith(".py"):
        importlib.import_module(source)
        return
    path = Path(source).expanduser().absolute()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise RunError(f"{source}: no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)


async def made(name: str, session: Session, arguments: dict[str, Any]) -> Agent:
    """Creates the agent of this name for a session."""
    result = _factory(name)(session, **arguments)
    agent = await result if inspect.isawaitable(result) else result
    if not isinstance(agent, Agent):
        raise RunError(f"the factory of agent {name!r} returned {type(agent).__name__}, not an Agent")
    if not isinstance(agent.history, StoredHistory) or agent.history.session is not session:
        raise RunError(f"the factory of agent {name!r} must use its session; return Agent(…, session=session)")
    return agent


def _factory(name: str) -> Callable[..., Any]:
    """A factory by its name, or by its location: `package.module:function`."""
    if name in _factories:
        return _factories[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        known = ", ".join(sorted(_factories)) or "none"
        raise RunError(f"unknown agent {name!r} (known: {known}); have the worker load its module")
    found = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    factory: Callable[..., Any] = found  # type: ignore[assignment]
    return factory


# Orders and outcomes, as values stored in a database.


WORKFLOW = "interlingua.run"
QUEUE = "runs"

State: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]


class RunError(InterlinguaError):
    """An invalid run or request."""


class RunFailed(RunError):
    """A run failed or was cancelled; `run` is its state."""

    def __init__(self, message: str, run: "Run | None" = None) -> None:
        super().__init__(message)
        self.run = run


class Order(Value, frozen=True, kw_only=True):
    """A requested run. The entry ids of its prompt derive from its id, so the prompt is appended only once."""

    id: str
    agent: str
    session: str
    prompt: tuple[AgentMessage, ...]
    queue: str = QUEUE
    arguments: dict[str, Any] = {}

    @property
    def entry_ids(self) -> tuple[str, ...]:
        return tuple(f"{self.id}.{at}" for at in range(len(self.prompt)))


class Outcome(Value, frozen=True, kw_only=True):
    """The outcome of a run, over all its lives. `unknown` are calls with an unknown effect."""

    reason: str
    text: str = ""
    output: Any = None
    turns: int = 0
    tokens: int = 0
    cost: float | None = None
    unknown: tuple[str, ...] = ()


class Run(Value, frozen=True, kw_only=True):
    """The state of a run. `lives` counts the workers that had it; times are milliseconds."""

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
