"""Runs a plugin's code: imports it, finds out how it wants to be registered, and keeps what it raises in its place."""

import importlib.util
import re
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias

from .. import jsontext
from ..errors import FormatError, InterlinguaError
from ..tools.tool import Tool
from ..tools.validation import validated
from .api import PluginApi, PluginDefinition

Stage: TypeAlias = Literal["discover", "manifest", "config", "entry", "import", "register", "add", "unload"]
Steps: TypeAlias = Generator[Awaitable[Any], Any, None]


class Failed(Exception):
    """A plugin that cannot be loaded: how far it came, and why."""

    def __init__(self, stage: Stage, message: str) -> None:
        super().__init__(message)
        self.stage = stage


class Exited(InterlinguaError):
    """A plugin wanted to end the process."""


def contained(stage: Stage, run: Callable[[], Any]) -> Any:
    """What a plugin's code gives. Whatever it raises fails this plugin only, `sys.exit` included."""
    try:
        return run()
    except (KeyboardInterrupt, Failed):
        raise
    except BaseException as error:
        raise Failed(stage, said(error)) from error


def imported(id: str, entry: Path, folder: Path) -> ModuleType:
    """The plugin's module, under a name of its own; beneath it, the other files of the folder (`from . import x`)."""
    name = base = "interlingua_plugin_" + re.sub(r"\W", "_", id)
    count = 1
    while name in sys.modules:
        count += 1
        name = f"{base}_{count}"
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
    """What a module, an object, a class or a function says of how it is registered."""
    if isinstance(value, PluginDefinition):
        return value
    if isinstance(value, Tool) or _is_connector(value):
        return PluginDefinition(register=_registering(value))
    if isinstance(value, type):
        return definition_of(contained("import", value))
    found = _of_names(value)
    if found is not None:
        return found
    if callable(value):
        return PluginDefinition(register=value)
    held = getattr(value, "plugin", None)
    if held is not None and held is not value:
        return definition_of(held)
    raise Failed("entry", "there is no function register(api), nor activate(api), nor a `plugin` that has one")


def _of_names(value: Any) -> PluginDefinition | None:
    register = next((one for name in ("register", "activate") if callable(one := getattr(value, name, None))), None)
    if register is None:
        return None
    told: dict[str, Any] = {
        name: given
        for name in ("id", "name", "description", "version")
        if isinstance(given := getattr(value, name, None), str) and not isinstance(value, ModuleType)
    }
    schema = getattr(value, "config_schema", None)
    end = next((one for name in ("unregister", "deactivate") if callable(one := getattr(value, name, None))), None)
    return PluginDefinition(
        **told, config_schema=schema if isinstance(schema, dict) else None, register=register, unregister=end
    )


def _is_connector(value: Any) -> bool:
    return not isinstance(value, type | ModuleType) and all(
        hasattr(value, name) for name in ("id", "provider", "api", "stream")
    )


def _registering(value: Any) -> Callable[[PluginApi], None]:
    def register(api: PluginApi) -> None:
        if isinstance(value, Tool):
            api.register_tool(value)
        else:
            api.register_connector(value)

    return register


def registered(definition: PluginDefinition, api: PluginApi) -> Steps:
    register = definition.register or definition.activate
    if register is None:
        raise Failed("entry", "the definition has neither register nor activate")
    try:
        answer = contained("register", lambda: register(api))
        if isinstance(answer, Awaitable):
            try:
                yield answer
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                raise Failed("register", said(error)) from error
    finally:
        api._over = True


def settings_of(id: str, schema: dict[str, Any] | None, config: Mapping[str, Any]) -> dict[str, Any]:
    """The plugin's part of the configuration, valid by its schema."""
    given = config.get(id, {})
    if not isinstance(given, Mapping):
        raise Failed("config", f"the configuration of {id} is no object")
    try:
        own: dict[str, Any] = jsontext.read(jsontext.write(dict(given)))
        valid, problems = validated(schema, own) if schema is not None else (own, [])
    except FormatError as error:
        raise Failed("config", f"the configuration cannot be checked: {error.message}") from None
    if problems:
        raise Failed("config", f"the configuration of {id} is wrong: {'; '.join(problems)}")
    return valid


def drop(waiting: Awaitable[Any]) -> None:
    """Ends what will not be awaited."""
    for name in ("close", "cancel"):
        if end := getattr(waiting, name, None):
            end()
            return


def said(error: BaseException) -> str:
    """What an error says; a plugin's own may fail even at that."""
    if isinstance(error, FormatError):
        return error.message
    try:
        words = str(error)
    except Exception:
        words = ""
    if isinstance(error, Exited):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
