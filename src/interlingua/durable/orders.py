"""What is asked of workers: orders, their results, and the named factories that make agents."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from ..agent import Agent
from ..agent.history import Stored
from ..sessions import Session
from ..values.errors import InterlinguaError
from ..values.interop import describe, must_propagate
from ..values.messages import AgentMessage, Value

# Agents that another process can make: a factory has a name, and takes JSON.


F = TypeVar("F", bound=Callable[..., Any])

_factories: dict[str, Callable[..., Any]] = {}


def agent(name: str) -> Callable[[F], F]:
    """Names a factory: a function, or coroutine function, that takes a session and JSON arguments and gives an Agent.

    The agent must be made with that session: it is what another worker goes on from.
    """

    def named(factory: F) -> F:
        _factories[name] = factory
        return factory

    return named


def load(source: str) -> None:
    """Runs a module, or a Python file, that names agents."""
    try:
        _run_factory(source)
    except RunError:
        raise
    except BaseException as error:  # whatever somebody's module does when it is loaded
        if must_propagate(error):
            raise
        raise RunError(f"{source}: it cannot be loaded: {describe(error)}") from error


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
    """The agent of this name at work on a session."""
    result = _factory(name)(session, **arguments)
    agent = await result if inspect.isawaitable(result) else result
    if not isinstance(agent, Agent):
        raise RunError(f"the factory of agent {name!r} gave {type(agent).__name__}, not an Agent")
    if not isinstance(agent.history, Stored) or agent.history.session is not session:
        raise RunError(f"the factory of agent {name!r} must hand its session on: Agent(…, session=session)")
    return agent


def _factory(name: str) -> Callable[..., Any]:
    """A factory by its name, or by where it is: `package.module:function`."""
    if name in _factories:
        return _factories[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        known = ", ".join(sorted(_factories)) or "none"
        raise RunError(f"this worker knows no agent called {name!r} (it knows: {known}); have it load its module")
    found = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    factory: Callable[..., Any] = found  # type: ignore[assignment]
    return factory


# What is asked of workers, and what comes of it, as values that go through a database.


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


class Order(Value, frozen=True, kw_only=True):
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


class Outcome(Value, frozen=True, kw_only=True):
    """What came of a run, over all its lives. `unknown` are calls of which nobody knows whether they took effect."""

    reason: str
    text: str = ""
    output: Any = None
    turns: int = 0
    tokens: int = 0
    cost: float | None = None
    unknown: tuple[str, ...] = ()


class Run(Value, frozen=True, kw_only=True):
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
