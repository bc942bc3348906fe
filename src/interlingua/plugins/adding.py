"""Adds a plugin's registrations to the registries, and removes them again."""

import inspect
import logging
import weakref
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Generic, TypeVar

from ..connect.connector import Connector
from ..connect.registry import ConnectorRegistry
from ..dialects import DIALECTS, registry
from ..dialects.wire import FileFormat, Wire
from ..tools.policy import core_tool_names
from ..tools.registry import ToolRegistry
from ..tools.tool import ToolContext, ToolFactory, ToolMeta, as_tool
from ..values.errors import FormatError
from ..values.interop import describe, must_propagate, with_arguments
from .api import PluginApi, PluginFactory, PluginTool

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
