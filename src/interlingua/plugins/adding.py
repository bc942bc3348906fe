"""Puts what a plugin registered where it is used, and takes it back."""

import inspect
import weakref
from collections.abc import Awaitable, Callable, Collection
from functools import cache, partial
from typing import Any

from ..connect.registry import ConnectorRegistry
from ..dialects import DIALECTS
from ..tools.catalog import get_core_tool_catalog
from ..tools.policy import GROUPS
from ..tools.registry import ToolRegistry
from ..tools.tool import ToolContext, ToolFactory, ToolMeta, as_tool
from ..values.containment import describe, must_propagate
from ..values.errors import FormatError
from ..values.interop import with_arguments
from .api import PluginApi, PluginFactory, PluginTool
from .layers import PluginDialect, connector_layer, dialect_layer, tool_layer


class Additions:
    """What one plugin added, so that it can be taken back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def add(
        self,
        api: PluginApi,
        tools: ToolRegistry | None,
        connectors: ConnectorRegistry | None,
        replace: Collection[str],
    ) -> list[str]:
        """Adds everything that may be added; returns what was refused, and why."""
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
            except BaseException as error:  # of a connector's or a tool's own code, as well
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
        self._lay(tools, registering, given.id)

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
        self._lay(tools, registering, id)

    def _lay(self, tools: ToolRegistry, registering: ToolRegistry, id: str) -> None:
        self._undo.append(tool_layer(tools).lay(id, registering._entries[id]))

    def _add_connector(
        self, api: PluginApi, connectors: ConnectorRegistry, connector: Any, replace: Collection[str]
    ) -> None:
        if connectors.has(connector.id) and connector.id not in replace:
            raise FormatError(f"there is a connector {connector.id} already: allow it with replace={[connector.id]!r}")
        before = connectors.get_by_provider(connector.provider)
        if before is not None:
            api.logger.warning(f"{connector.id} now serves the provider {connector.provider}, instead of {before.id}")
        self._undo.append(connector_layer(connectors).lay(connector.id, connector))

    def _add_dialect(self, name: str, dialect: Any, replace: Collection[str]) -> None:
        if name in DIALECTS and name not in replace:
            raise FormatError(f"there is a dialect {name} already: allow it with replace={[name]!r}")
        self._undo.append(dialect_layer.lay(name, PluginDialect(name, dialect)))


@cache
def reserved() -> frozenset[str]:
    """The names of core tools, there or not: policies trust them."""
    return frozenset(
        (*(meta.id for meta in get_core_tool_catalog()), *(name for some in GROUPS.values() for name in some))
    )


def _refuse_taken(tools: ToolRegistry, name: str, replace: Collection[str]) -> None:
    if name in replace or not (name in reserved() or tools._find(name) is not None):
        return
    raise FormatError(f"there is a tool {name} already, and it stays: allow it with replace={[name]!r}")


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
    """The factory, whose tools are refused where they would take the place of another's."""

    call = with_arguments(factory, ("context",), what=f"the factory {id}")

    def checked(made: Any) -> Any:
        tools = registry()
        for given in made if isinstance(made, list | tuple) else [made]:
            tool = as_tool(given)
            if tool is None or tools is None or tool.name in replace:
                continue
            other = tools._find(tool.name)
            if tool.name in reserved() or (other is not None and other.meta.id != id):
                raise FormatError(f"it made a tool {tool.name}, and there is one already")
        return made

    async def awaited(made: Awaitable[Any]) -> Any:
        return checked(await made)

    def make(context: ToolContext) -> Any:
        made = call(context)
        return awaited(made) if inspect.isawaitable(made) else checked(made)

    return make
