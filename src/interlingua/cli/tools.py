"""`interlingua tools`: lists, shows, runs and serves tools."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.table import Table
from rich.text import Text

from ..plugins.installed import context_at, open_installed
from ..tools import calling, catalog
from ..tools.policy import ALLOW, ASK, ApprovalRequest
from ..tools.registry import PROFILES, Resolution, ToolRegistry
from ..tools.tool import Tool, ToolContext, ToolMeta, ToolResult
from ..tools.validation import form, shown
from ..values.errors import InterlinguaError
from ..values.messages import TextBlock
from . import output, tools_serve
from .options import BARE, HOME, JSON, MCP, PLUGINS, CommandGroup, complete_tools, warn

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group("tools", cls=CommandGroup)
def command() -> None:
    """List, show, run or serve (MCP) the tools."""


command.add_command(tools_serve.command)


def _installed(command: _Command) -> _Command:
    """Adds the options that select installed plugins and servers."""
    return PLUGINS(MCP(BARE(HOME(command))))


@command.command("list")
@click.option("-p", "--profile", default="full", type=click.Choice(PROFILES), help="Only the tools of this profile.")
@click.option("-i", "--include", multiple=True, metavar="ID", help="Only these: ids, or groups such as group:fs.")
@click.option("-x", "--exclude", multiple=True, metavar="ID", help="Not these: ids, or groups.")
@_installed
@JSON
def list_command(
    profile: str, include: tuple[str, ...], exclude: tuple[str, ...], as_json: bool, **wanted: Any
) -> None:
    """List the tools, with the reason for those that are unavailable."""

    async def listed() -> None:
        async with _registry(**wanted) as registry:
            metas = registry.select(profile, include=include or None, exclude=exclude)
            report = await registry.areport(context_at(Path.cwd().resolve()))
            if as_json:
                output.print_json([_meta_json(meta, report) for meta in metas])
            else:
                _show_list(registry, metas, report)

    asyncio.run(listed())


@command.command("show")
@click.argument("name", shell_complete=complete_tools)
@_installed
@JSON
def show_command(name: str, as_json: bool, **wanted: Any) -> None:
    """Show a tool's description and parameters."""

    async def found() -> Tool:
        async with _registry(**wanted) as registry:
            return await _tool(registry, name, context_at(Path.cwd().resolve()))

    tool = asyncio.run(found())
    if as_json:
        output.print_json(_tool_json(tool))
    else:
        _show_tool(tool)


@command.command("run")
@click.argument("name", shell_complete=complete_tools)
@click.argument("arguments", default="{}", metavar="[JSON]")
@click.option(
    "--root", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".", help="The root directory."
)
@_installed
@click.option("--json", "as_json", is_flag=True, help="The whole result as JSON, for programs.")
@click.option("-y", "--yes", is_flag=True, help="Allow the call; reading is always allowed.")
def run_command(name: str, arguments: str, root: Path, as_json: bool, yes: bool, **wanted: Any) -> None:
    """Run a tool with JSON arguments (`-` reads them from standard input); progress goes to stderr."""
    context = context_at(root.resolve())
    interactive = sys.stdin.isatty() and arguments != "-"

    async def called() -> ToolResult:
        async with _registry(**wanted) as registry:
            tool = await _tool(registry, name, context)
            return await calling.call_tool(
                tool,
                "cli",
                output.typed_in() if arguments == "-" else arguments,
                context=context,
                policy=ALLOW if yes else ASK,
                approve=_approve if interactive else None,
                on_update=_Updates(),
            )

    result = asyncio.run(called())
    _show_result(result, as_json)
    if _refused(result) and not interactive:
        click.echo("interlingua: approval needs a terminal; allow the call with --yes", err=True)
    sys.exit(1 if result.is_error else 0)


@command.command("login")
@click.argument("server", metavar="SERVER")
@HOME
def login_command(server: str) -> None:
    """Log in at an MCP server that requires it: a name in mcp.toml, or a URL. Opens a browser, and stores the login."""

    async def login() -> int:
        from ..mcp import mcp_tools
        from ..mcp.settings import chosen_servers, read_servers

        (one,) = chosen_servers((server,), read_servers()).servers
        async with mcp_tools(one.server, **one.options, authorize=_browse) as tools:
            return len(tools)

    click.echo(f"{server}: logged in; {asyncio.run(login())} tools")


@command.command("logout")
@click.argument("server", metavar="SERVER")
@HOME
def logout_command(server: str) -> None:
    """Remove the login at an MCP server."""
    from ..mcp.oauth import OAuth, TokenFile
    from ..mcp.settings import chosen_servers, read_servers

    (one,) = chosen_servers((server,), read_servers()).servers
    if not TokenFile(one.server.get("url", ""), OAuth()).forget():
        raise InterlinguaError(f"no stored login at {server}")
    click.echo(f"{server}: logged out")


async def _browse(url: str) -> None:
    """Opens the URL of a login; printed too, for a browser elsewhere."""
    import webbrowser

    click.echo(f"open this address to log in: {url}", err=True)
    await asyncio.to_thread(webbrowser.open, url)


# --- registry -------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _registry(
    plugins: tuple[Path, ...], servers: tuple[str, ...], bare: bool
) -> AsyncGenerator[ToolRegistry, None]:
    """The core tools, and those of plugins and MCP servers."""
    registry = ToolRegistry(on_warning=warn)
    catalog.discover_core_tools(registry, on_load_warning=warn)
    if bare:
        yield registry
        return
    async with open_installed(tools=registry, paths=plugins, servers=servers or None, on_problem=warn):
        yield registry


async def _tool(registry: ToolRegistry, name: str, context: ToolContext) -> Tool:
    tool = await registry.aresolve(name, context)
    if tool is not None:
        return tool
    if name in registry:
        why = next((skipped.reason for skipped in (await registry.areport(context)).skipped if skipped.id == name), "")
        raise InterlinguaError(f"tool {name!r} is unavailable: {why or 'its factory returned nothing'}")
    raise InterlinguaError(f"unknown tool {name!r}; available tools: {', '.join(meta.id for meta in registry)}")


def _approve(request: ApprovalRequest) -> bool:
    click.echo(f"{request.tool_name} {shown(request.params, 2000)}\n{request.reason}", err=True)
    return click.confirm("Run it?", err=True)


# --- output ---------------------------------------------------------------------------------------------------------


def _meta_json(meta: ToolMeta, report: Resolution) -> dict[str, Any]:
    skipped = next((skipped for skipped in report.skipped if skipped.id == meta.id), None)
    plain: dict[str, Any] = msgspec.to_builtins(meta)
    why = {} if skipped is None else {"reason": skipped.reason, "missing": list(skipped.missing)}
    return {**plain, "available": skipped is None, **why}


def _show_list(registry: ToolRegistry, metas: list[ToolMeta], report: Resolution) -> None:
    reasons = {skipped.id: skipped.reason for skipped in report.skipped}
    out = output.console()
    for section in registry.list_by_section():
        shown_here = [meta for meta in section.tools if meta in metas]
        if not shown_here:
            continue
        out.print(Text(section.label, style="bold"))
        table = Table(box=None, show_header=False)
        for meta in shown_here:
            why = f" (unavailable: {reasons[meta.id]})" if meta.id in reasons else ""
            table.add_row(
                meta.id, Text.assemble(meta.description, (why, "yellow")), Text(" ".join(meta.profiles), "dim")
            )
        out.print(table)


def _tool_json(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "label": tool.label or tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "ownerOnly": tool.owner_only,
        "sequential": tool.sequential,
    }


def _show_tool(tool: Tool) -> None:
    out = output.console()
    out.print(Text(tool.name, style="bold"))
    out.print(Text(tool.description))
    properties = tool.parameters.get("properties") or {}
    required = tool.parameters.get("required") or ()
    table = Table(box=None, show_header=False)
    for name, schema in properties.items():
        need = "required" if name in required else ""
        table.add_row(name, Text(form(schema)), need, Text(str(schema.get("description", "")), style="dim"))
    if properties:
        out.print(table)


class _Updates:
    """Prints the progress of a tool; of growing text, only the new part."""

    def __init__(self) -> None:
        self._before = ""

    def __call__(self, partial: ToolResult) -> None:
        text = partial.text
        new = text.removeprefix(self._before) if self._before else text
        self._before = text
        if new:
            click.echo(new, nl=not new.endswith("\n"), err=True)


def _show_result(result: ToolResult, as_json: bool) -> None:
    if as_json:
        output.print_json({"content": [], "isError": False, **msgspec.to_builtins(result, enc_hook=str)})
        return
    for block in result.content:
        if isinstance(block, TextBlock):
            click.echo(block.text)
        else:
            name = type(block).__name__.removesuffix("Block").lower()
            size = len(block.data or "") * 3 // 4
            click.echo(f"[{name} {block.mime_type or block.url}, {size:,} bytes]")


def _refused(result: ToolResult) -> bool:
    return result.is_error and isinstance(result.details, dict) and result.details.get("status") == 403
