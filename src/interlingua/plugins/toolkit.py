"""Toolkits: tools, connectors, extensions and plugins for a host in one call, each in its own registry."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..connect.client import builtin_connectors
from ..connect.registry import ConnectorRegistry
from ..tools.catalog import OnLoadWarning, discover_core_tools
from ..tools.registry import ToolRegistry
from ..values.interop import struct_of
from . import ExtensionInfo, Plugins, aload_plugins, discover_extensions, load_plugins
from .api import Logger
from .loading import TIMEOUT


class DiscoveryOptions(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which core tools to include. The extensions of the checkout `openclaw_root` are listed, not run."""

    openclaw_root: str | None = None
    include: Collection[str] | None = None
    exclude: Collection[str] | None = None
    on_load_warning: OnLoadWarning | None = None


class Toolkit:
    """The registries, the extensions and the plugins. Two toolkits share only the dialects of plugins.

    `await toolkit.ready` waits until everything is loaded; it already is, unless the toolkit was created with `lazy`.
    Awaiting the toolkit itself does the same, and returns the toolkit.
    """

    def __init__(self) -> None:
        self.tools = ToolRegistry()
        self.connectors = ConnectorRegistry()
        self.extensions: list[ExtensionInfo] = []
        self.plugins = Plugins()
        self._rest: Callable[[], Awaitable[None]] | None = None
        self._loading: asyncio.Task[None] | None = None

    @property
    def ready(self) -> "Ready":
        """Awaitable; errors while a lazy toolkit is loaded are raised here."""
        return Ready(self)

    def __await__(self) -> "Generator[Any, None, Toolkit]":
        yield from self.ready.__await__()
        return self

    def unload(self) -> None:
        """Removes what the plugins added, including their dialects."""
        self.plugins.unload()


class Ready:
    """An awaitable that is done when a toolkit is loaded; can be awaited repeatedly."""

    def __init__(self, toolkit: Toolkit) -> None:
        self._toolkit = toolkit

    def __await__(self) -> Generator[Any, None, None]:
        toolkit = self._toolkit
        if toolkit._rest is not None and toolkit._loading is None:
            toolkit._loading = asyncio.ensure_future(_rest_of(toolkit))
        if toolkit._loading is not None:
            yield from asyncio.shield(toolkit._loading).__await__()


async def _rest_of(toolkit: Toolkit) -> None:
    if toolkit._rest is not None:
        await toolkit._rest()


class _Plan(Struct, frozen=True, kw_only=True):
    """The contents of a toolkit to create."""

    discovery: DiscoveryOptions
    extensions_dir: str | os.PathLike[str] | None
    skip_core_tools: bool
    skip_builtin_connectors: bool
    plugins: tuple[str | os.PathLike[str], ...]
    loading: dict[str, Any]

    def begin(self) -> Toolkit:
        """Creates a toolkit with the core tools and the extensions, which is cheap."""
        toolkit = Toolkit()
        if not self.skip_core_tools:
            chosen = self.discovery
            discover_core_tools(
                toolkit.tools,
                include=chosen.include,
                exclude=chosen.exclude,
                on_load_warning=chosen.on_load_warning,
                openclaw_root=chosen.openclaw_root,
            )
        toolkit.extensions = discover_extensions(self.extensions_dir or self._root_extensions())
        return toolkit

    def connect(self, toolkit: Toolkit) -> None:
        if not self.skip_builtin_connectors:
            for connector in builtin_connectors():
                if not toolkit.connectors.has(connector.id):
                    toolkit.connectors.register(connector)

    def options(self, toolkit: Toolkit) -> dict[str, Any]:
        """Returns the options for loading plugins."""
        return {**self.loading, "tools": toolkit.tools, "connectors": toolkit.connectors}

    def _root_extensions(self) -> Path | None:
        root = self.discovery.openclaw_root
        return Path(root).expanduser() / "extensions" if root is not None else None


def create_toolkit(
    *,
    openclaw_root: str | None = None,
    tools: DiscoveryOptions | Mapping[str, Any] | None = None,
    extensions_dir: str | os.PathLike[str] | None = None,
    skip_core_tools: bool = False,
    skip_builtin_connectors: bool = False,
    lazy: bool = False,
    plugins: Iterable[str | os.PathLike[str]] = (),
    entry_points: bool = False,
    enabled_plugins: Collection[str] | None = None,
    disabled_plugins: Collection[str] | None = None,
    config: Mapping[str, Any] | None = None,
    replace: Collection[str] = (),
    logger: Logger | Mapping[str, Any] | None = None,
    timeout: float = TIMEOUT,
) -> Toolkit:
    """Creates a toolkit. `plugins` are search paths; with `entry_points`, plugins of installed packages are loaded too.

    The extensions of `openclaw_root`, or in `extensions_dir`, are listed by their manifests, and their code is not run:
    to load plugins from there, name the directory in `plugins`.

    With `lazy` the core tools and the extensions are available at once, connectors and plugins after `await
    toolkit.ready`. Plugins that register asynchronously need `create_toolkit_async`, or `lazy`.
    """
    plan = _Plan(
        discovery=_discovery(tools, openclaw_root),
        extensions_dir=extensions_dir,
        skip_core_tools=skip_core_tools,
        skip_builtin_connectors=skip_builtin_connectors,
        plugins=(plugins,) if isinstance(plugins, str | os.PathLike) else tuple(plugins),
        loading={
            "entry_points": entry_points,
            "enabled_plugins": enabled_plugins,
            "disabled_plugins": disabled_plugins,
            "config": config,
            "replace": replace,
            "logger": logger,
            "timeout": timeout,
        },
    )
    toolkit = plan.begin()
    if lazy:
        toolkit._rest = lambda: _finish(plan, toolkit)
        return toolkit
    plan.connect(toolkit)
    toolkit.plugins = load_plugins(plan.plugins, **plan.options(toolkit))
    return toolkit


async def create_toolkit_async(*, lazy: bool = False, **options: Any) -> Toolkit:
    """Like `create_toolkit`, also for plugins that register asynchronously. With `lazy`, it loads in the background."""
    toolkit = create_toolkit(lazy=True, **options)
    toolkit._loading = asyncio.ensure_future(_rest_of(toolkit))
    if not lazy:
        await toolkit.ready
    return toolkit


async def _finish(plan: _Plan, toolkit: Toolkit) -> None:
    plan.connect(toolkit)
    toolkit.plugins = await aload_plugins(plan.plugins, **plan.options(toolkit))


def _discovery(given: DiscoveryOptions | Mapping[str, Any] | None, openclaw_root: str | None) -> DiscoveryOptions:
    """Returns the options for core tools, from a mapping in either spelling; their own root takes precedence."""
    options = struct_of(given or {}, DiscoveryOptions, "tools")
    return options if options.openclaw_root else msgspec.structs.replace(options, openclaw_root=openclaw_root)
