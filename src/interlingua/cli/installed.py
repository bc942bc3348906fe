"""Options for installed plugins and MCP servers."""

import asyncio
import os
from pathlib import Path

import click

PLUGINS = click.option(
    "--plugins", multiple=True, type=click.Path(path_type=Path, exists=True), help="Load the plugins of this directory."
)
MCP = click.option(
    "--mcp", "servers", multiple=True, metavar="SERVER", help="Use this MCP server only: a name in mcp.toml, or a URL."
)
BARE = click.option("--no-plugins", "bare", is_flag=True, help="Use no installed plugins and MCP servers.")


def _use_home(context: click.Context, option: click.Parameter, given: Path | None) -> Path | None:
    """Sets the home folder of this process, and of its children."""
    if given is not None:
        os.environ["INTERLINGUA_HOME"] = str(given.expanduser().absolute())
    return given


HOME = click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_use_home,
    is_eager=True,
    expose_value=False,
    help="The directory of Interlingua; default: ~/.interlingua.",
)


def warn(message: str) -> None:
    click.echo(f"interlingua: {message}", err=True)


def load_plugins() -> None:
    """Loads the installed plugins for commands that use formats and models: dialects and connectors.

    Their tools, hooks and servers are for the commands with an agent.
    """
    from ..plugins.installed import load_installed

    for problem in asyncio.run(load_installed()).problems:
        warn(str(problem))
