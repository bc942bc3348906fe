"""Shared by the commands: groups that suggest the nearest command, common options, and shell completion of arguments.

Imports little: `logs` must start as fast as a shell history.
"""

import contextlib
import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from ..values.errors import InterlinguaError, unknown


class CommandGroup(click.Group):
    """A command group that suggests the nearest command."""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = arguments[0], self.list_commands(context)
        if name not in known and not name.startswith("-"):
            listed = f"`{context.command_path} --help` lists them"
            context.fail(unknown("command", name, known, listed=listed))
        return super().resolve_command(context, arguments)


CommandGroup.group_class = CommandGroup  # of nested groups

# --- options ---------------------------------------------------------------------------------------------------------

JSON = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
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
    import asyncio

    from ..plugins.installed import load_installed

    for problem in asyncio.run(load_installed()).problems:
        warn(str(problem))


# --- shell completion: of models, sessions, providers, tools. Errors offer nothing. ----------------------------------

_MAX_CANDIDATES = 400  # with more candidates a shell only asks whether to show them
# Model families that users refer to by these names; their ids are looked up.
FAMILIES = ("opus", "sonnet", "haiku", "gpt", "gpt-mini", "gpt-nano", "codex", "flash", "flash-lite", "grok")


def complete_models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Aliases, and the models of providers with a key; all models once a provider is typed."""
    from ..connect import models as catalogue
    from ..connect.client import default_client
    from ..connect.names import OFFLINE, usable_providers
    from ..connect.registry import models_of

    with contextlib.suppress(InterlinguaError, OSError):
        known, typed = catalogue.default(), incomplete.partition("/")[0] if "/" in incomplete else None
        providers = [typed] if typed else usable_providers()
        debug = default_client().connectors.get_by_provider(OFFLINE)
        names = [*known.overrides.aliases, *FAMILIES]
        for provider in providers:
            if provider == OFFLINE:
                names += [f"{OFFLINE}/{model.id}" for model in (models_of(debug) if debug is not None else ())]
            else:
                names += [f"{provider}/{id}" for id, _ in known.listed(provider)]
        if typed is None:
            names += [f"{provider}/" for provider in catalogue.known_rows() if provider not in providers]
        return [name for name in names if name.startswith(incomplete)][:_MAX_CANDIDATES]
    return []


def complete_providers(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The providers, those of models.toml included."""
    from ..connect.models import known_rows

    with contextlib.suppress(InterlinguaError, OSError):
        return [name for name in (*known_rows(), "debug") if name.startswith(incomplete)]
    return []


def complete_sessions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The ids of the selected agent's sessions, the latest first."""
    from ..sessions.files import FileStore

    is_of_runs = context.command_path.split()[1:2] in (["logs"], ["run"])
    with contextlib.suppress(InterlinguaError, OSError):
        found = FileStore().sessions("run" if is_of_runs else context.params.get("agent") or "main")
        return [info.id for info in found if info.id.startswith(incomplete)][:_MAX_CANDIDATES]
    return []


def complete_batches(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of the batches."""
    from ..connect import batch

    with contextlib.suppress(InterlinguaError, OSError):
        return [name for name in batch.names() if name.startswith(incomplete)]
    return []


def complete_programs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The programs whose histories are known by name, and files."""
    from ..sessions.programs import PROGRAMS

    names = [CompletionItem(name) for name in PROGRAMS if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


def complete_tool_choices(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of the core tools, and the profiles."""
    from ..tools.registry import PROFILES

    return [
        *complete_tools(context, parameter, incomplete),
        *(name for name in PROFILES if name.startswith(incomplete)),
    ]


def complete_tools(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of the core tools."""
    from ..tools.policy import core_tool_names

    with contextlib.suppress(InterlinguaError, OSError):
        return sorted(name for name in core_tool_names() if name.startswith(incomplete))
    return []
