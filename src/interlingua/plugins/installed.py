"""Opens what the user has installed, the same way for every program.

Plugins are installed packages, folders in `<home>/plugins`, and named directories; MCP servers are those of
`<home>/mcp.toml`. Anything that is broken, blocked or missing is reported as a problem, and affects nothing else.
`<home>/plugins.toml` disables plugins and configures them:

    disabled = ["tides"]
    timeout = 60          # seconds for the import of a plugin, and for its registration
    [config.weather]
    unit = "F"

`<home>/tools.toml` has the settings of the core tools, a table for each: see `tools.settings`.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ..connect.registry import ConnectorRegistry
from ..connect.tables import Mistake, convert, read_tables
from ..tools.fs import local_bridge
from ..tools.registry import ToolRegistry
from ..tools.tool import Tool, ToolContext, ToolMeta, check_settings
from ..values.errors import FormatError, InterlinguaError
from ..values.places import has_package_plugins, home
from .hooks import Hooks
from .loading import PluginProblem, Plugins, SearchPath, aload_plugins

FOLDER = "plugins"
FILE = "plugins.toml"
TOOLS_FILE = "tools.toml"
SERVER_SECONDS = 20.0  # seconds for a server to start and list its tools


class PluginSettings(Struct, frozen=True, kw_only=True):
    """The user's `plugins.toml`."""

    disabled: tuple[str, ...] = ()
    timeout: Annotated[float, Meta(gt=0)] = 10.0
    config: dict[str, dict[str, Any]] = {}


def tool_config() -> dict[str, Any]:
    """The configuration of core tools for a `ToolContext`: `tools.toml` in the home folder, a table for each tool."""
    return {"tools": read_tables(home() / TOOLS_FILE, _tool_tables) or {}}


def context_at(root: Path, *, sandboxed: bool | None = None) -> ToolContext:
    """Returns the context of tools below a root, with the user's configuration of tools."""
    place = str(root)
    return ToolContext(
        root=place,
        workspace_dir=place,
        bridge=local_bridge(place),
        complete=_complete,
        config=tool_config(),
        sandboxed=sandboxed,
    )


async def _complete(*args: Any, **kwargs: Any) -> Any:
    from ..connect.client import complete

    return await complete(*args, **kwargs)


def _tool_tables(given: dict[str, Any]) -> dict[str, Any]:
    try:
        check_settings({"tools": given})
    except FormatError as error:
        raise Mistake(error.message, error.path or "") from None
    return given


class Installed:
    """The plugins, their hooks, and the tools of MCP servers; `problems`: what could not be opened, and why."""

    def __init__(self, plugins: Plugins, tools: ToolRegistry) -> None:
        self.plugins = plugins
        self.tools = tools
        self.hooks = Hooks(plugins)
        self.servers: dict[str, list[Tool]] = {}
        self.failed_servers: dict[str, str] = {}  # MCP servers that could not be opened, with the reason
        self.problems: list[str] = [str(problem) for problem in plugins.problems]

    @classmethod
    def nothing(cls) -> "Installed":
        """For programs that run without installed plugins."""
        return cls(Plugins(), ToolRegistry())

    async def resolve(self, context: ToolContext | None = None) -> list[Tool]:
        """Returns the tools of plugins and servers that the context allows."""
        added = [meta.id for meta in self.tools if meta.source == "plugin"]
        return await self.tools.aresolve_all(context, include=added) if added else []


class _Silent:
    """A silent logger: errors are among the problems."""

    def debug(self, message: object) -> None: ...

    info = warning = error = debug


async def load_installed(
    *,
    tools: ToolRegistry | None = None,
    connectors: ConnectorRegistry | None = None,
    paths: Iterable[SearchPath] = (),
) -> Plugins:
    """Loads the plugins: of packages, of the home folder, and of further `paths`; connectors go to the default client.

    A plugin of `paths` takes precedence over an installed one with the same id.
    """
    settings, problem = PluginSettings(), None
    try:
        settings = read_tables(home() / FILE, lambda given: convert(given, PluginSettings, "")) or settings
    except FormatError as error:
        place = str(home() / FILE)
        text = error.message.removeprefix(f"{place}: ")
        problem = PluginProblem(path=place, plugin_id=None, stage="config", message=text)
    if connectors is None:
        from ..connect.client import default_client

        connectors = default_client().connectors
    plugins = await aload_plugins(
        [*paths, home() / FOLDER],
        disabled_plugins=settings.disabled,
        config=settings.config,
        tools=tools,
        connectors=connectors,
        entry_points=has_package_plugins(),
        timeout=settings.timeout,
        logger=_Silent(),
    )
    if problem is not None:
        plugins.problems.insert(0, problem)
    return plugins


@contextlib.asynccontextmanager
async def open_installed(
    *,
    tools: ToolRegistry | None = None,
    connectors: ConnectorRegistry | None = None,
    paths: Iterable[SearchPath] = (),
    servers: Sequence[str] | None = None,
    on_problem: Callable[[str], object] | None = None,
    elicit: Any = None,
    authorize: Any = None,
) -> AsyncGenerator[Installed, None]:
    """Opens everything that is installed, within the context: tools in `tools`, connectors in the default client.

    `servers` are the MCP servers to use: all enabled ones of `mcp.toml` for None, or names in it, URLs, commands.
    `elicit` and `authorize` pass their questions and logins to the user; see `mcp_tools`. Only an unknown name raises.
    Tools of a server are prefixed with its name, and are in the section `mcp:NAME`.
    """
    tools = ToolRegistry() if tools is None else tools
    wanted = _servers(servers)
    installed = Installed(await load_installed(tools=tools, connectors=connectors, paths=paths), tools)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(installed.plugins.unload)
        if wanted is not None:
            installed.problems += wanted.problems
            opened = await asyncio.gather(*(_opened(stack, one, elicit, authorize) for one in wanted.servers))
            for one, found in zip(wanted.servers, opened, strict=True):
                if isinstance(found, str):
                    installed.failed_servers[one.name] = found
                    installed.problems.append(f"{found}; its tools are not available")
                else:
                    installed.servers[one.name] = found
                    installed.problems += _register(stack, tools, one.name, found)
        if on_problem is not None:
            for problem in installed.problems:
                on_problem(problem)
        yield installed


def _servers(names: Sequence[str] | None) -> Any:
    """Returns the servers to open; None if there are none, so that no MCP code is imported."""
    if (names is None and not (home() / "mcp.toml").exists()) or (names is not None and not names):
        return None
    from ..mcp.settings import chosen_servers, read_servers

    return chosen_servers(names, read_servers())


async def _opened(stack: contextlib.AsyncExitStack, one: Any, elicit: Any, authorize: Any) -> list[Tool] | str:
    """Returns the tools of a server, open until the stack is closed; or the reason if there are none."""
    try:
        from ..mcp import mcp_tools

        context = mcp_tools(one.server, **one.options, elicit=elicit, authorize=authorize)
        tools = await asyncio.wait_for(context.__aenter__(), SERVER_SECONDS)
    except TimeoutError:
        return f"the MCP server {one.name} did not start within {SERVER_SECONDS:g} s; check its command or address"
    except (InterlinguaError, OSError) as error:
        # Its own errors name it by its command or address; the user knows it by its name in the file.
        return re.sub(r"^(the MCP server \S+ |)", f"the MCP server {one.name}: ", str(error), count=1)
    stack.push_async_exit(context)
    return tools


def _register(stack: contextlib.AsyncExitStack, registry: ToolRegistry, name: str, tools: list[Tool]) -> list[str]:
    """Adds a server's tools to the registry until the stack is closed; returns those that were refused."""
    section = f"mcp:{name}"
    registry.register_section({"id": section, "label": f"MCP server {name}"})
    problems = []
    for tool in tools:
        if registry.find(tool.name) is not None:
            problems.append(f"the MCP server {name}: tool {tool.name} already exists; give the server a prefix")
            continue
        label, id = tool.label or tool.name, tool.name
        meta = ToolMeta(
            id=id,
            label=label,
            description=tool.description,
            section_id=section,
            profiles=("full",),
            source="plugin",
            plugin_id=section,
        )
        registry.register(tool, meta)
        stack.callback(registry.unregister, id)
    return problems
