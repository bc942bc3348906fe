"""Agents that another process can make: a factory has a name, and takes JSON."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..agent import Agent
from ..agent.stored import Stored
from ..sessions import Session
from ..values.containment import describe, must_propagate
from .orders import RunError

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
        _run(source)
    except RunError:
        raise
    except BaseException as error:  # whatever somebody's module does when it is loaded
        if must_propagate(error):
            raise
        raise RunError(f"{source}: it cannot be loaded: {describe(error)}") from error


def _run(source: str) -> None:
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
