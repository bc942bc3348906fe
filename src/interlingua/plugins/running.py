"""Runs a plugin's code, containing its exceptions; adds its registrations to the registries, and removes them again.

Each step runs in its own thread with a timeout: a thread that does not return is abandoned, and ends with the process.
So Ctrl-C reaches the host, and never a plugin.
"""

import contextvars
import importlib.util
import inspect
import logging
import re
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from ..connect.connector import Connector
from ..connect.registry import ConnectorRegistry
from ..dialects import DIALECTS, registry
from ..dialects.wire import FileFormat, Wire
from ..tools.policy import core_tool_names
from ..tools.registry import ToolRegistry
from ..tools.tool import ToolContext, ToolFactory, ToolMeta, as_tool
from ..tools.validation import validated
from ..values import jsontext
from ..values.errors import FormatError
from ..values.interop import attribute, attributes, describe, must_propagate, with_arguments
from .api import PluginApi, PluginDefinition, PluginFactory, PluginTool

Stage: TypeAlias = Literal["discover", "manifest", "config", "entry", "import", "register", "add", "hook", "unload"]


class PluginWork(NamedTuple):
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


async def registered(
    definition: PluginDefinition, api: PluginApi, wait: Callable[[PluginWork | Awaitable[Any]], Awaitable[Any]]
) -> None:
    register = definition.register or definition.activate
    if register is None:
        raise Failed("entry", "the definition has neither register nor activate")
    try:
        # Inspecting the parameters of an object may also run its code.
        answer = await wait(PluginWork("register", lambda: with_arguments(register, ("api",), what="register")(api)))
        if isinstance(answer, Awaitable):
            await wait(answer)
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


# --- registrations ----------------------------------------------------------------------------------------------------
# Registries with layers: a covered value returns when the covering plugin is removed, in any order.


_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


class LayeredRegistry(Generic[_Value]):
    """A registry with the values that plugins have pushed over each name, the lowest first."""

    def __init__(
        self, get: Callable[[str], _Value | None], put: Callable[[str, _Value], None], drop: Callable[[str], object]
    ) -> None:
        self.get = get
        self._put = put
        self._drop = drop
        self._layers: dict[str, list[_Value]] = {}

    def push(self, name: str, value: _Value) -> Callable[[], None]:
        """Puts a value under a name; returns a function that removes it again."""
        layers = self._layers.setdefault(name, [])
        below = self.get(name)
        if below is not None and not (layers and layers[-1] is below):
            layers.append(below)
        layers.append(value)
        self._put(name, value)
        return lambda: self._pop(name, value)

    def _pop(self, name: str, value: _Value) -> None:
        layers = self._layers.get(name, [])
        kept = [layer for layer in layers if layer is not value]
        if len(kept) == len(layers):
            return
        self._layers[name] = kept
        if self.get(name) is not value:
            return  # something was pushed over it
        if kept:
            self._put(name, kept[-1])
        else:
            self._drop(name)
            del self._layers[name]


def tool_layer(registry: ToolRegistry) -> LayeredRegistry[Any]:
    """The entries of a tool registry, by id."""
    return _layer_of(
        registry, lambda: LayeredRegistry(registry.entry, lambda _, entry: registry.put(entry), registry.unregister)
    )


def connector_layer(registry: ConnectorRegistry) -> LayeredRegistry[Connector]:
    """The connectors of a registry, by id."""
    return _layer_of(
        registry,
        lambda: LayeredRegistry(registry.get, lambda _, connector: registry.register(connector), registry.unregister),
    )


def _layer_of(registry: Any, make: Callable[[], LayeredRegistry[Any]]) -> LayeredRegistry[Any]:
    """Returns the layers of a registry, stored on it."""
    layers: LayeredRegistry[Any] | None = vars(registry).get("_layers")
    if layers is None:
        layers = vars(registry)["_layers"] = make()
    return layers


dialect_layer: LayeredRegistry[Wire | FileFormat] = LayeredRegistry(
    registry.registered, lambda _, value: registry.register(value), registry.unregister
)
"""Dialects are registered for the whole process."""


class PluginDialect:
    """A plugin's dialect. Detection asks every dialect: one that fails gives no evidence."""

    def __init__(self, name: str, dialect: Any) -> None:
        self._name = name
        self._dialect = dialect

    def sniff(self, value: Any) -> Any:
        return self._call_test("sniff", value)

    def split(self, value: Any) -> Any:
        return self._call_test("split", value)

    def _call_test(self, question: str, value: Any) -> Any:
        ask = getattr(self._dialect, question, None)
        if ask is None:
            return None
        try:
            return ask(value)
        except Exception:
            _log.warning("the dialect %s failed in %s", self._name, question, exc_info=True)
            return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)


class Additions:
    """The additions of one plugin, so that they can be removed."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def add(
        self,
        api: PluginApi,
        tools: ToolRegistry | None,
        connectors: ConnectorRegistry | None,
        replace: Collection[str],
    ) -> list[str]:
        """Adds everything that is allowed; returns what was refused, and why."""
        refused: list[str] = []
        wanted: list[Callable[[], None]] = []
        if tools is not None:
            wanted += [partial(self._add_tool, api, tools, tool, replace) for tool in api._tools]
            wanted += [
                partial(self._add_factory, api, tools, at, factory, replace)
                for at, factory in enumerate(api._factories)
            ]
        if connectors is not None:
            wanted += [partial(self._add_connector, api, connectors, one, replace) for one in api._connectors]
        wanted += [partial(self._add_dialect, name, dialect, replace) for name, dialect in api._dialects.items()]
        for add in wanted:
            try:
                add()
            except BaseException as error:  # raised by a connector's or a tool's own code, as well
                if must_propagate(error):
                    raise
                refused.append(describe(error))
        return refused

    def take_back(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _add_tool(self, api: PluginApi, tools: ToolRegistry, given: PluginTool, replace: Collection[str]) -> None:
        for name in dict.fromkeys((given.id, given.tool.name)):
            _refuse_taken(tools, name, replace)
        registering = ToolRegistry()
        meta = _meta(api, given.id, given.tool.label or given.tool.name, given.tool.description)
        registering.register(given.tool, meta, optional=given.optional)
        self._push(tools, registering, given.id)

    def _add_factory(
        self, api: PluginApi, tools: ToolRegistry, at: int, given: PluginFactory, replace: Collection[str]
    ) -> None:
        id = given.names[0] if given.names else f"{api.id}/{at + 1}"
        for name in dict.fromkeys((id, *given.names)):
            _refuse_taken(tools, name, replace)
        registering = ToolRegistry()
        meta = _meta(api, id, id, f"Made by the plugin {api.name}")
        guarded = _guarded(given.factory, weakref.ref(tools), id, replace)
        registering.register_factory(guarded, meta, names=given.names, optional=given.optional)
        self._push(tools, registering, id)

    def _push(self, tools: ToolRegistry, registering: ToolRegistry, id: str) -> None:
        self._undo.append(tool_layer(tools).push(id, registering.entry(id)))

    def _add_connector(
        self, api: PluginApi, connectors: ConnectorRegistry, connector: Any, replace: Collection[str]
    ) -> None:
        if connectors.has(connector.id) and connector.id not in replace:
            raise FormatError(f"connector {connector.id} already exists; allow it with replace={[connector.id]!r}")
        before = connectors.get_by_provider(connector.provider)
        if before is not None:
            api.logger.warning(f"{connector.id} now serves the provider {connector.provider}, instead of {before.id}")
        self._undo.append(connector_layer(connectors).push(connector.id, connector))

    def _add_dialect(self, name: str, dialect: Any, replace: Collection[str]) -> None:
        if name in DIALECTS and name not in replace:
            raise FormatError(f"dialect {name} already exists; allow it with replace={[name]!r}")
        value = dialect if isinstance(dialect, Wire | FileFormat) else PluginDialect(name, dialect)
        self._undo.append(dialect_layer.push(name, registry.as_value(name, value)))


def _refuse_taken(tools: ToolRegistry, name: str, replace: Collection[str]) -> None:
    if name in replace or not (name in core_tool_names() or tools.find(name) is not None):
        return
    raise FormatError(f"tool {name} already exists; allow it with replace={[name]!r}")


def _meta(api: PluginApi, id: str, label: str, description: str) -> ToolMeta:
    return ToolMeta(
        id=id,
        label=label,
        description=description,
        section_id=f"plugin:{api.id}",
        profiles=("full",),
        source="plugin",
        plugin_id=api.id,
    )


def _guarded(
    factory: ToolFactory, registry: "weakref.ref[ToolRegistry]", id: str, replace: Collection[str]
) -> ToolFactory:
    """Wraps a factory: its tools are refused if they would replace another's."""

    call = with_arguments(factory, ("context",), what=f"the factory {id}")

    def checked(made: Any) -> Any:
        tools = registry()
        for given in made if isinstance(made, list | tuple) else [made]:
            tool = as_tool(given)
            if tool is None or tools is None or tool.name in replace:
                continue
            other = tools.find(tool.name)
            if tool.name in core_tool_names() or (other is not None and other.meta.id != id):
                raise FormatError(f"it created tool {tool.name}, which already exists")
        return made

    async def awaited(made: Awaitable[Any]) -> Any:
        return checked(await made)

    def make(context: ToolContext) -> Any:
        made = call(context)
        return awaited(made) if inspect.isawaitable(made) else checked(made)

    return make
