"""`interlingua models`: lists models with limits, inputs and prices."""

from typing import Any

import click
from rich.table import Table

from ..connect import models as catalogue
from ..connect import prices as pricing
from ..connect.debug import DebugConnector
from ..connect.providers import PROVIDERS
from ..values.errors import FormatError
from ..values.request import ModelDescriptor
from . import output

_PRICES = ("input", "output", "cache_read", "cache_write")
_WIDE = 400
OFFLINE = "debug"


@click.command("models")
@click.argument("terms", nargs=-1, metavar="[FILTER]…")
@click.option("-p", "--provider", help="Only the models of this provider.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(terms: tuple[str, ...], provider: str | None, as_json: bool) -> None:
    """List models: context window, maximum output, inputs, reasoning, dollars per million tokens.

    FILTER: words that the provider, id or name must contain. Unknown values are `?`, and null in JSON. `$read` and
    `$write` are for the prompt cache; a price with `+` is higher for long inputs.
    """
    known = catalogue.default()
    if provider is not None and provider not in {**PROVIDERS, **known.overrides.providers, OFFLINE: None}:
        raise FormatError(
            f"unknown provider {provider!r}; valid providers: {', '.join((*PROVIDERS, OFFLINE))}", "--provider"
        )
    found = known.models(provider, " ".join(terms)) if provider != OFFLINE else []
    if provider in (None, OFFLINE):
        found += [model for model in DebugConnector().models if all(term in model.id for term in terms)]
    if as_json:
        output.say_json([_plain(model) for model in found])
    elif found:
        out = output.console()
        out.width = _WIDE  # never truncate cells
        out.print(_table(found))
    else:
        output.console(err=True).print("no model matches")


def _table(found: list[ModelDescriptor]) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("model", no_wrap=True)
    for column in ("context", "output"):
        table.add_column(column, justify="right")
    table.add_column("inputs")
    table.add_column("reasoning")
    for column in ("$in", "$out", "$read", "$write"):
        table.add_column(column, justify="right")
    for model in found:
        table.add_row(f"{model.provider}/{model.id}", *_cells(model))
    return table


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
