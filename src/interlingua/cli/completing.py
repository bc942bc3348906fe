"""Shell completion of arguments: models, sessions, providers, tools. Errors offer nothing."""

import contextlib

import click

from ..values.errors import InterlinguaError

_MOST = 400  # with more candidates a shell only asks whether to show them


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
        names = [*known.overrides.aliases]
        for provider in providers:
            if provider == OFFLINE:
                names += [f"{OFFLINE}/{model.id}" for model in (models_of(debug) if debug is not None else ())]
            else:
                names += [f"{provider}/{id}" for id, _ in known.listed(provider)]
        if typed is None:
            names += [f"{provider}/" for provider in catalogue.known_rows() if provider not in providers]
        return [name for name in names if name.startswith(incomplete)][:_MOST]
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

    with contextlib.suppress(InterlinguaError, OSError):
        found = FileStore().sessions(context.params.get("agent") or "main")
        return [info.id for info in found if info.id.startswith(incomplete)][:_MOST]
    return []


def complete_tools(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of the core tools."""
    from ..tools.policy import core_tool_names

    with contextlib.suppress(InterlinguaError, OSError):
        return sorted(name for name in core_tool_names() if name.startswith(incomplete))
    return []
