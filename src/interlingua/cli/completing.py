"""Shell completion of arguments: models, sessions, providers, tools. Errors offer nothing."""

import contextlib

import click
from click.shell_completion import CompletionItem

from ..values.errors import InterlinguaError

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
