"""`interlingua tools`: lists, shows, runs and serves tools."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table
from rich.text import Text

from ..plugins import load_plugins
from ..tools import calling, catalog
from ..tools.fs import local_bridge
from ..tools.policy import ALLOW, ASK, ApprovalRequest
from ..tools.registry import PROFILES, Resolution, ToolRegistry
from ..tools.tool import Tool, ToolContext, ToolMeta, ToolResult
from ..tools.validation import form, shown
from ..values.errors import InterlinguaError
from ..values.messages import TextBlock
from . import output, tools_serve


@click.group("tools")
def command() -> None:
    """List, show, run or serve (MCP) the tools."""


command.add_command(tools_serve.command)


_PLUGINS = click.option(
    "--plugins", multiple=True, type=click.Path(path_type=Path, exists=True), help="Load the plugins of this directory."
)


@command.command("list")
@click.option("-p", "--profile", default="full", type=click.Choice(PROFILES), help="Only the tools of this profile.")
@click.option("-i", "--include", multiple=True, metavar="ID", help="Only these: ids, or groups such as group:fs.")
@click.option("-x", "--exclude", multiple=True, metavar="ID", help="Not these: ids, or groups.")
@_PLUGINS
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def list_command(
    profile: str, include: tuple[str, ...], exclude: tuple[str, ...], plugins: tuple[Path, ...], as_json: bool
) -> None:
    """List the tools, with the reason for those that are unavailable."""
    registry = _registry(plugins)
    metas = registry.select(profile, include=include or None, exclude=exclude)
    report = registry.report(_context(Path.cwd()))
    if as_json:
        output.say_json([_meta_json(meta, report) for meta in metas])
    else:
        _show_list(registry, metas, report)


@command.command("show")
@click.argument("name")
@_PLUGINS
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def show_command(name: str, plugins: tuple[Path, ...], as_json: bool) -> None:
    """Show a tool's description and parameters."""
    registry = _registry(plugins)
    tool = _tool(registry, name, _context(Path.cwd()))
    if as_json:
        output.say_json(_tool_json(tool))
    else:
        _show_tool(tool)


@command.command("run")
@click.argument("name")
@click.argument("arguments", default="{}", metavar="[JSON]")
@click.option(
    "--root", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".", help="The root directory."
)
@_PLUGINS
@click.option("--json", "as_json", is_flag=True, help="The whole result as JSON, for programs.")
@click.option("-y", "--yes", is_flag=True, help="Allow the call; reading is always allowed.")
def run_command(name: str, arguments: str, root: Path, plugins: tuple[Path, ...], as_json: bool, yes: bool) -> None:
    """Run a tool with JSON arguments (`-` reads them from standard input); progress goes to stderr."""
    context = _context(root)
    tool = _tool(_registry(plugins), name, context)
    given = output.typed_in() if arguments == "-" else arguments
    interactive = sys.stdin.isatty() and arguments != "-"
    result = asyncio.run(
        calling.call_tool(
            tool,
            "cli",
            given,
            context=context,
            policy=ALLOW if yes else ASK,
            approve=_approve if interactive else None,
            on_update=_Updates(),
        )
    )
    _show_result(result, as_json)
    if _refused(result) and not interactive:
        click.echo("interlingua: approval needs a terminal; allow the call with --yes", err=True)
    sys.exit(1 if result.is_error else 0)


# --- registry -------------------------------------------------------------------------------------------------------


def _registry(plugins: tuple[Path, ...]) -> ToolRegistry:
    registry = ToolRegistry(on_warning=_warn)
    catalog.discover_core_tools(registry, on_load_warning=_warn)
    if plugins:
        for problem in load_plugins(plugins, tools=registry).problems:
            _warn(str(problem))
    return registry


def _warn(message: str) -> None:
    click.echo(f"interlingua: {message}", err=True)


def _context(root: Path) -> ToolContext:
    place = str(root.resolve())
    return ToolContext(root=place, workspace_dir=place, bridge=local_bridge(place), complete=_complete)


async def _complete(*args: Any, **kwargs: Any) -> Any:
    from ..connect.client import complete

    return await complete(*args, **kwargs)


def _tool(registry: ToolRegistry, name: str, context: ToolContext) -> Tool:
    tool = asyncio.run(registry.aresolve(name, context))
    if tool is not None:
        return tool
    if name in registry:
        why = next((skipped.reason for skipped in registry.report(context).skipped if skipped.id == name), "")
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
        output.say_json(_result_json(result))
        return
    for block in result.content:
        if isinstance(block, TextBlock):
            click.echo(block.text)
        else:
            name = type(block).__name__.removesuffix("Block").lower()
            size = len(block.data or "") * 3 // 4
            click.echo(f"[{name} {block.mime_type or block.url}, {size:,} bytes]")


def _result_json(result: ToolResult) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(result, enc_hook=str)
    return {"content": [], "isError": False, **plain}


def _refused(result: ToolResult) -> bool:
    return result.is_error and isinstance(result.details, dict) and result.details.get("status") == 403
