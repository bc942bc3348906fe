"""`interlingua models`: lists models with limits, inputs and prices; the default model and aliases."""

import asyncio
import os
import sys
from collections.abc import Iterable
from typing import Any

import click

from ..connect import models as catalogue
from ..connect import prices as pricing
from ..connect.connector import HttpConnector
from ..connect.models import known_rows, own_notes
from ..connect.names import OFFLINE, full_name, is_chat, usable_providers
from ..connect.registry import models_of
from ..values.errors import FormatError, InterlinguaError, unknown
from ..values.places import home
from ..values.request import ModelDescriptor
from . import output
from .options import FAMILIES, JSON, CommandGroup, complete_models, complete_providers

_PRICES = ("input", "output", "cache_read", "cache_write")
_COLUMNS = (
    output.Column("model", whole=True),
    output.Column("context", True),
    output.Column("output", True, 3),
    output.Column("inputs", rank=4),
    output.Column("reasoning", rank=2),
    output.Column("$in", True),
    output.Column("$out", True),
    output.Column("$read", True, 5),
    output.Column("$write", True, 6),
)
_DEFAULT = "default"
_VARIABLE = "INTERLINGUA_MODEL"


class _Models(CommandGroup):
    """Runs `list`, unless the first argument is a command."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        is_command = args[0] in (*self.commands, "--help", "-h") if args else context.resilient_parsing  # completion
        return super().parse_args(context, args if is_command else ["list", *args])

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        listing = self.commands["list"]
        records = [record for one in listing.get_params(context) if (record := one.get_help_record(context))]
        with formatter.section("Options of list"):
            formatter.write_dl(records)
        self.format_commands(context, formatter)


@click.group("models", cls=_Models)
def command() -> None:
    """List the models that you can use; set the default model and aliases.

    `interlingua models [FILTER]…` is `interlingua models list`.
    """


@command.command("list")
@click.argument("terms", nargs=-1, metavar="[FILTER]…")
@click.option("-p", "--provider", shell_complete=complete_providers, help="Only the models of this provider.")
@click.option("-a", "--all", "everything", is_flag=True, help="Also models without a key, and models that do not chat.")
@click.option("--live", is_flag=True, help="Fetch the list from the provider.")
@click.option("--pager/--no-pager", default=None, help="Page the output; on a terminal by default, if it is long.")
@JSON
def list_(
    terms: tuple[str, ...], provider: str | None, everything: bool, live: bool, pager: bool | None, as_json: bool
) -> None:
    """List models: context window, maximum output, inputs, reasoning, dollars per million tokens.

    Lists the chat models of providers with a key. FILTER: texts that the provider, id or name must contain. Unknown
    values are `?`, and null in JSON. `$read` and `$write` are for the prompt cache; a price with `+` is higher for long
    inputs. The models of a local server (`-p ollama`) are fetched from it.
    """
    providers = [*known_rows(), *_of_plugins(), OFFLINE]
    if provider is not None and provider not in providers:
        raise FormatError(unknown("provider", provider, providers), "--provider")
    usable = usable_providers()
    failed = False
    if live or (provider is not None and _is_local(provider)):
        found, failed = _live([provider] if provider is not None else usable, terms)
    else:
        found = _listed([provider] if provider is not None else providers if everything else usable, terms)
    if not found and terms and provider is None and not everything and not live:
        found = _listed(providers, terms)
        if found:
            output.note("no key is found for these; `interlingua auth login PROVIDER` stores one")
    if not everything:
        found = [model for model in found if is_chat(model.id)]
    if as_json:
        output.print_json([_plain(model) for model in found])
    elif found:
        with output.paged(pager) as out:
            output.table(out, _COLUMNS, [[f"{model.provider}/{model.id}", *_cells(model)] for model in found])
        if not (terms or provider or everything) and usable == [OFFLINE]:
            output.note("no key is found; `interlingua auth login PROVIDER` stores one, --all lists every model")
    elif not failed and not terms:
        output.note("no models")
    if not found and terms and not failed:
        print(f"interlingua: {_no_match(' '.join(terms), provider)}", file=sys.stderr)
        failed = True
    if failed:
        sys.exit(1)


def _no_match(name: str, provider: str | None) -> str:
    """The message that no model matches, with suggestions."""
    from ..connect.client import default_client

    if provider is not None:
        ids = [model.id for model in _listed([provider], ())]
        return unknown("model", name, ids, listed=f"`interlingua models -p {provider}` lists them")
    try:
        means = full_name(name, default_client().connectors)
    except InterlinguaError as error:
        return str(error)
    return f"no listed model has {name!r} in its name; did you mean {means!r}?"


def _of_plugins() -> list[str]:
    from ..connect.client import default_client

    offline = (OFFLINE, "clawfice-debug")
    return [one for one in default_client().connectors.list_providers() if one not in (*known_rows(), *offline)]


def _is_local(provider: str) -> bool:
    """Whether only the provider knows its models: a local server."""
    from ..connect.client import default_client

    connector = default_client().connectors.get_by_provider(provider)
    row = connector.row if isinstance(connector, HttpConnector) else None
    return row is not None and row.keyless and row.prices is None


def _listed(providers: Iterable[str], terms: tuple[str, ...]) -> list[ModelDescriptor]:
    from ..connect.client import default_client

    known, found = catalogue.default(), []
    for provider in providers:
        if provider not in known_rows():
            connector = default_client().connectors.get_by_provider(provider)
            listed = models_of(connector) if connector is not None else ()
            found += [model for model in listed if all(term.lower() in f"{provider}/{model.id}" for term in terms)]
        else:
            found += known.models(provider, " ".join(terms))
    return found


def _live(providers: list[str], terms: tuple[str, ...]) -> tuple[list[ModelDescriptor], bool]:
    """Returns the providers' own lists, and the user's models; and whether a provider did not respond."""
    from ..connect.client import default_client
    from ..connect.listing import list_models

    known = catalogue.default()
    connectors = [default_client().connectors.get_by_provider(provider) for provider in providers]
    queried = [one for one in connectors if isinstance(one, HttpConnector)]

    async def ask() -> list[list[ModelDescriptor] | BaseException]:
        return await asyncio.gather(*(list_models(one, known) for one in queried), return_exceptions=True)

    found: list[ModelDescriptor] = []
    failed = False
    for connector, answer in zip(queried, asyncio.run(ask()), strict=True):
        own = known.models(connector.provider) if _is_local(connector.provider) else []
        if isinstance(answer, InterlinguaError):
            print(f"interlingua: {answer}", file=sys.stderr)
            failed = failed or not own
            answer = []
        elif isinstance(answer, BaseException):
            raise answer
        listed = {model.id for model in answer}
        found += sorted([*answer, *(model for model in own if model.id not in listed)], key=lambda model: model.id)
    texts = [f"{model.provider}/{model.id} {model.name or ''}".lower() for model in found]
    return [
        model for model, text in zip(found, texts, strict=True) if all(term.lower() in text for term in terms)
    ], failed


def _cells(model: ModelDescriptor) -> list[str]:
    prices = _prices(model)
    return [
        _size(model.context_window),
        _size(model.max_tokens),
        "?" if model.input is None else " ".join(model.input),
        _reasoning(model),
        *(_price(prices, name) for name in _PRICES),
    ]


def _reasoning(model: ModelDescriptor) -> str:
    if model.reasoning is None:
        return "?"
    if not model.reasoning:
        return "no"
    known = catalogue.levels(model)
    return f"{known[0]} to {known[-1]}" if len(known) > 2 else " ".join(known) or "yes"


def _size(tokens: int | None) -> str:
    return "?" if tokens is None else f"{tokens:,}"


def _prices(model: ModelDescriptor) -> pricing.Rates:
    return {} if model.cost is None else pricing.rates_of(model.cost)


def _price(rates: pricing.Rates, name: str) -> str:
    if name not in rates:
        return "?"
    rate = rates[name]
    return f"{rate[0][1]:g}" + ("+" if len(rate) > 1 else "")


def _plain(model: ModelDescriptor) -> dict[str, Any]:
    rates = _prices(model)
    return {
        "provider": model.provider,
        "id": model.id,
        "name": model.name,
        "contextWindow": model.context_window,
        "maxTokens": model.max_tokens,
        "input": model.input,
        "reasoning": model.reasoning,
        "levels": list(catalogue.levels(model)),
        "cost": {name: _steps(rate) for name, rate in rates.items()} or None,
        "deprecated": bool(model.extra.get(pricing.CATALOGUE, {}).get("deprecated")),
    }


def _steps(rate: pricing.Rate) -> list[dict[str, float]]:
    """A price and its tiers: each applies to requests with more input tokens than `above`."""
    return [{"above": start, "price": price} for start, price in rate]


# --- the default and the aliases --------------------------------------------------------------------------------------


@command.command("default")
@click.argument("model", required=False, shell_complete=complete_models)
@click.option("--remove", is_flag=True, help="Remove the default.")
@JSON
def default_(model: str | None, remove: bool, as_json: bool) -> None:
    """Show or set the default model."""
    if model is not None and remove:
        raise click.UsageError("a model and --remove exclude each other; give one")
    if remove:
        _removed(_DEFAULT)
        return
    if model is not None:
        _set(_DEFAULT, model)
        return
    variable, own = os.environ.get(_VARIABLE), own_notes().aliases.get(_DEFAULT)
    found = variable or own
    if as_json:
        output.print_json({"model": found, "source": _VARIABLE if variable else "models.toml" if own else None})
    elif found is None:
        raise FormatError("no default model; set one with `interlingua models default MODEL`", "models.toml")
    else:
        print(found)
        output.note(f"from {_VARIABLE}" if variable else f"from {home() / 'models.toml'}")


@command.group("aliases", invoke_without_command=True)
@JSON
@click.pass_context
def aliases(context: click.Context, as_json: bool) -> None:
    """List, set and remove model aliases."""
    if context.invoked_subcommand is not None:
        return
    own = own_notes().aliases
    families = {name: meant for name in FAMILIES if name not in own and (meant := _meaning(name)) is not None}
    if as_json:
        output.print_json({"aliases": own, "families": families})
        return
    rows = [(name, target, "models.toml") for name, target in own.items()]
    rows += [(name, target, "newest") for name, target in families.items()]
    columns = (output.Column("alias"), output.Column("model", whole=True), output.Column("from", rank=1))
    output.table(output.console(), columns, rows)


def _meaning(name: str) -> str | None:
    from ..connect.client import default_client

    try:
        return full_name(name, default_client().connectors)
    except InterlinguaError:
        return None


@aliases.command("set")
@click.argument("alias")
@click.argument("model", shell_complete=complete_models)
def set_(alias: str, model: str) -> None:
    """Set ALIAS to MODEL."""
    if not alias.strip() or "/" in alias:
        raise FormatError(f"{alias!r} cannot be an alias; use a name without a slash", "ALIAS")
    _set(alias, model)


@aliases.command("remove")
@click.argument(
    "alias", shell_complete=lambda *given: [name for name in own_notes().aliases if name.startswith(given[-1])]
)
def remove_(alias: str) -> None:
    """Remove an alias."""
    _removed(alias)


def _set(alias: str, model: str) -> None:
    from ..connect.client import default_client

    _, found = default_client().find(model)
    target = f"{found.provider}/{found.id}"
    catalogue.set_alias(alias, target)
    print(f"{alias}: {target}")


def _removed(alias: str) -> None:
    known = own_notes().aliases
    if alias not in known:
        raise FormatError(
            unknown("alias", alias, known, listed="`interlingua models aliases` lists them"), "models.toml"
        )
    catalogue.set_alias(alias, None)
    print(f"{alias}: removed")
