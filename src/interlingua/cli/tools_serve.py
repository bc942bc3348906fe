"""`interlingua tools serve`: the tools as an MCP server."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import click

from ..plugins.installed import open_installed, tool_config
from ..tools.catalog import discover_core_tools
from ..tools.fs import local_bridge
from ..tools.policy import ASK, READ_ONLY, Policy, Rule
from ..tools.registry import PROFILES, ToolRegistry
from ..tools.tool import Tool, ToolContext
from ..values.errors import InterlinguaError
from ..values.text import natural
from .options import BARE, HOME, MCP, PLUGINS, warn

TOKEN = "INTERLINGUA_MCP_TOKEN"


@click.command("serve")
@click.option("--stdio", "over_stdio", is_flag=True, help="Serve over standard input and output (the default).")
@click.option("--http", "address", metavar="HOST:PORT", help="Serve over HTTP, at /mcp; port 0 selects a free one.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="The root directory of the tools.",
)
@click.option("-p", "--profile", default="full", type=click.Choice(PROFILES), help="Only the tools of this profile.")
@click.option("-i", "--include", multiple=True, metavar="ID", help="Only these: ids, or groups such as group:fs.")
@click.option("-x", "--exclude", multiple=True, metavar="ID", help="Not these: ids, or groups.")
@click.option("--allow", multiple=True, metavar="TOOL", help="Allow a tool, or a group, that does more than read.")
@click.option("--ask", is_flag=True, help="Have the client ask its user about calls that do more than read.")
@click.option("--resources", multiple=True, metavar="GLOB", help="Offer files below the root, such as docs/*.md.")
@click.option(
    "--prompts", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Offer the files of a directory."
)
@PLUGINS
@MCP
@BARE
@HOME
def command(
    over_stdio: bool,
    address: str | None,
    root: Path,
    profile: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    allow: tuple[str, ...],
    ask: bool,
    resources: tuple[str, ...],
    prompts: Path | None,
    plugins: tuple[Path, ...],
    servers: tuple[str, ...],
    bare: bool,
) -> None:
    """Serve the tools over MCP. Read-only tools are allowed, others with --allow.

    HTTP is limited to this machine unless INTERLINGUA_MCP_TOKEN is set; clients must then send it as a bearer token.
    """
    if over_stdio and address is not None:
        raise click.UsageError("--stdio and --http exclude each other; give one")
    base = ASK if ask else READ_ONLY
    policy = Policy(
        rules=(*base.rules, *(Rule(action="allow", tool=name) for name in allow)),
        default=base.default,
        root=str(root.resolve()),
    )
    choice = _Choice(profile, include or None, exclude, plugins, servers, bare)
    asyncio.run(_serve(choice, policy, _context(root), address, _Offer(root, resources, prompts)))


class _Offer(NamedTuple):
    """What is offered beside tools: files as resources, and files as prompts."""

    root: Path
    resources: tuple[str, ...]
    prompts: Path | None


class _Choice(NamedTuple):
    """Which tools to serve."""

    profile: str
    include: tuple[str, ...] | None
    exclude: tuple[str, ...]
    plugins: tuple[Path, ...]
    servers: tuple[str, ...]
    bare: bool

    @contextlib.asynccontextmanager
    async def tools(self, context: ToolContext) -> AsyncGenerator[list[Tool], None]:
        registry = ToolRegistry(on_warning=warn)
        discover_core_tools(registry, on_load_warning=warn)
        async with contextlib.AsyncExitStack() as stack:
            if not self.bare:
                servers = self.servers or None
                await stack.enter_async_context(
                    open_installed(tools=registry, paths=self.plugins, servers=servers, on_problem=warn)
                )
            yield await registry.aresolve_all(context, profile=self.profile, include=self.include, exclude=self.exclude)


def _context(root: Path) -> ToolContext:
    place = str(root.resolve())
    return ToolContext(root=place, workspace_dir=place, bridge=local_bridge(place), config=tool_config())


def _report(tools: list[Tool], others: list[str]) -> None:
    if not tools:
        raise InterlinguaError("no tools to serve; allow some with --allow, or include others")
    warn(f"serving {', '.join(tool.name for tool in tools)}")
    if others:
        warn(f"not allowed: {', '.join(others)} (see --allow)")


async def _serve(choice: _Choice, policy: Policy, context: ToolContext, address: str | None, offer: _Offer) -> None:
    from ..mcp import approve_by_asking, make_server, serve_http, serve_stdio
    from ..mcp.offering import file_prompts, file_resources

    async with choice.tools(context) as chosen:
        tools = [tool for tool in chosen if policy.decide(tool.name, {}).action != "deny"]
        _report(tools, [tool.name for tool in chosen if tool not in tools])
        server: Any = make_server(
            tools,
            policy=policy,
            context=context,
            approve=approve_by_asking,
            resources=file_resources(offer.root, offer.resources),
            prompts=file_prompts(offer.prompts) if offer.prompts is not None else (),
        )
        if address is None:
            await serve_stdio(server)
            return
        host, port = _parted(address)
        token = os.environ.get(TOKEN) or None
        await serve_http(server, host, port, token=token, on_ready=lambda url: warn(f"at {url}"))


def _parted(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    number = natural(port, digits=5)
    if number is None or number > 65535:
        raise click.UsageError(f"invalid address {address!r}; use HOST:PORT, such as 127.0.0.1:8000")
    return host.strip("[]") or "127.0.0.1", int(port)
