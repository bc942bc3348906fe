"""Runs a plugin's code: imports it, finds its definition, and contains its exceptions.

Each step runs in its own thread with a timeout: a thread that does not return is abandoned, and ends with the process.
So Ctrl-C reaches the host, and never a plugin.
"""

import contextvars
import importlib.util
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias

from ..tools.tool import as_tool
from ..tools.validation import validated
from ..values import jsontext
from ..values.errors import FormatError
from ..values.interop import attribute, attributes, describe, with_arguments
from .api import PluginApi, PluginDefinition

Stage: TypeAlias = Literal["discover", "manifest", "config", "entry", "import", "register", "add", "hook", "unload"]


class Work(NamedTuple):
    """Plugin code to run, and its stage."""

    stage: Stage
    run: Callable[[], Any]

    def start(self) -> "Future[Any]":
        """Runs it in a thread; returns the result, or why it failed."""
        future: Future[Any] = Future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                future.set_result(context.run(contained, self.stage, self.run))
            except Failed as failed:
                future.set_exception(failed)

        threading.Thread(target=work, name=f"plugin-{self.stage}", daemon=True).start()
        return future

    def overdue(self, seconds: float) -> "Failed":
        return Failed(self.stage, f"{self.stage} took longer than {seconds:g} s and was given up")


Steps: TypeAlias = Generator[Work | Awaitable[Any], Any, None]
"""Yields work for a thread or awaitables, and receives the results."""


class Failed(Exception):
    """A plugin that cannot be loaded: the stage, and the reason."""

    def __init__(self, stage: Stage, message: str) -> None:
        super().__init__(message)
        self.stage = stage


def contained(stage: Stage, run: Callable[[], Any]) -> Any:
    """Runs a plugin's code. Any exception fails this plugin only: Ctrl-C is not delivered in its thread."""
    try:
        return run()
    except Failed:
        raise
    except BaseException as error:
        raise Failed(stage, describe(error)) from error


def free_name(id: str) -> str:
    """Returns an unused name for a plugin's module."""
    name = base = "interlingua_plugin_" + re.sub(r"\W", "_", id)
    count = 1
    while name in sys.modules:
        count += 1
        name = f"{base}_{count}"
    return name


def imported(name: str, entry: Path, folder: Path) -> ModuleType:
    """Imports the plugin's module under its own name; below it, the other files of the folder (`from . import x`)."""
    spec = importlib.util.spec_from_file_location(name, entry, submodule_search_locations=[str(folder.resolve())])
    if spec is None or spec.loader is None:
        raise Failed("entry", f"{entry.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        forget(name)
        raise
    return module


def forget(name: str) -> None:
    for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
        del sys.modules[known]


def definition_of(value: Any) -> PluginDefinition:
    """Returns the definition in a module, an object, a class or a function."""
    if isinstance(value, PluginDefinition):
        return value
    if as_tool(value) is not None or _is_connector(value):
        return PluginDefinition(register=_registering(value))
    if isinstance(value, type):
        return definition_of(contained("import", value))
    found = _of_names(value)
    if found is not None:
        return found
    if callable(value):
        return PluginDefinition(register=value)
    pending = attribute(value, "plugin")
    if pending is not None and pending is not value:
        return definition_of(pending)
    raise Failed("entry", "no function register(api) or activate(api), and no `plugin` with one")


def _of_names(value: Any) -> PluginDefinition | None:
    register = _first(value, "register", "activate")
    if register is None:
        return None
    named = () if isinstance(value, ModuleType) else ("id", "name", "description", "version")
    about: dict[str, Any] = {name: one for name, one in attributes(value, named).items() if isinstance(one, str)}
    schema = attribute(value, "config_schema")
    return PluginDefinition(
        **about,
        config_schema=schema if isinstance(schema, dict) else None,
        register=register,
        unregister=_first(value, "unregister", "deactivate"),
    )


def _first(value: Any, *names: str) -> Callable[..., Any] | None:
    return next((one for name in names if callable(one := attribute(value, name))), None)


def _is_connector(value: Any) -> bool:
    return not isinstance(value, type | ModuleType) and all(
        attribute(value, name) is not None for name in ("id", "provider", "api", "stream")
    )


def _registering(value: Any) -> Callable[[PluginApi], None]:
    def register(api: PluginApi) -> None:
        if as_tool(value) is not None:
            api.register_tool(value)
        else:
            api.register_connector(value)

    return register


def registered(definition: PluginDefinition, api: PluginApi) -> Steps:
    register = definition.register or definition.activate
    if register is None:
        raise Failed("entry", "the definition has neither register nor activate")
    try:
        # Inspecting the parameters of an object may also run its code.
        answer = yield Work("register", lambda: with_arguments(register, ("api",), what="register")(api))
        if isinstance(answer, Awaitable):
            yield answer
    finally:
        api._over = True


def settings_of(id: str, schema: dict[str, Any] | None, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the plugin's part of the configuration, validated by its schema."""
    given = config.get(id, {})
    if not isinstance(given, Mapping):
        raise Failed("config", f"the configuration of {id} is not an object")
    try:
        own: dict[str, Any] = jsontext.read(jsontext.write(dict(given)))
        valid, problems = validated(schema, own) if schema is not None else (own, [])
    except FormatError as error:
        raise Failed("config", f"the configuration cannot be checked: {error.message}") from None
    if problems:
        raise Failed("config", f"invalid configuration of {id}: {'; '.join(problems)}")
    return valid
