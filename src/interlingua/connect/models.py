"""The model catalogue: which models exist, what they support and what a request costs. Unknown stays unknown.

Prices and context windows come from the price lists (`prices`); input types, reasoning and maximum output from the
table of model generations (`generations`); the user's file, `models.toml` in the home folder, takes precedence. Nothing
is loaded before it is needed; on an event loop, `await warm()` first.

Every part of that file is optional. A new provider becomes a row; of a built-in one, only the written fields change.
Models that no price list has are listed under `models`, corrections of known ones under `overrides`.
"""

import asyncio
import functools
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from ..conversion.local_files import atomic
from ..dialects import generations
from ..dialects.generations import UNKNOWN, Generation
from ..values.errors import FormatError, ProviderError, TransportError
from ..values.messages import AssistantMessage, Cost, Usage
from ..values.places import home, private_folder
from ..values.regular import open_regular, read_regular
from ..values.request import ModelCost, ModelDescriptor
from . import prices as pricing
from .prices import (
    BUCKETS,
    CATALOGUE,
    FACTORS_FOR_FRESH,
    ORDINARY_TIERS,
    TIER_FACTORS,
    PriceRow,
    PriceSheet,
    Rate,
    Rates,
)
from .providers import PROVIDERS, Provider
from .tables import Mistake, convert, read_tables, refuse_unknown, table

# --- the user's file --------------------------------------------------------------------------------------------------


Dollars = Annotated[float, Meta(ge=0)]
Tokens = Annotated[int, Meta(gt=0)]


class _Notes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown keys are refused, so that typos are noticed."""


class PriceStep(_Notes, frozen=True, kw_only=True):
    """Prices of requests with more input than `above`; unwritten ones stay."""

    above: Tokens
    input: Dollars | None = None
    output: Dollars | None = None
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None


class Prices(_Notes, frozen=True, kw_only=True):
    """Dollars per million tokens; `web_search` per thousand searches. Unwritten prices are unknown."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None
    input_audio: Dollars | None = None
    output_audio: Dollars | None = None
    web_search: Dollars | None = None
    tiers: tuple[PriceStep, ...] = ()

    def rates(self) -> Rates:
        steps = sorted(self.tiers, key=lambda step: step.above)
        fields = {
            name: price
            for name in self.__struct_fields__
            if name != "tiers" and (price := getattr(self, name)) is not None
        }
        return {name: self._rate(name, price, steps) for name, price in fields.items()}

    def _rate(self, name: str, base: float, steps: list[PriceStep]) -> Rate:
        if name not in (*BUCKETS, "cache_write_1h"):
            return ((0, base),)
        stepped = ((step.above, getattr(step, name)) for step in steps)
        return ((0, base), *((above, price) for above, price in stepped if price is not None))


class ModelNotes(_Notes, frozen=True, kw_only=True):
    """Facts about a model. `like` names another (`provider/id`) whose facts and prices apply where none is written.

    `service_tiers` are the prices of other service tiers, by name (`flex`, `batch`, `provisioned_throughput`);
    unwritten ones are unknown.
    """

    name: str | None = None
    context_window: Tokens | None = None
    max_tokens: Tokens | None = None
    input: tuple[str, ...] | None = None
    reasoning: bool | tuple[str, ...] | None = None
    cost: Prices | None = None
    service_tiers: dict[str, Prices] = {}
    like: str | None = None
    api: str | None = None
    base_url: str | None = None
    headers: dict[str, str] | None = None
    compat: dict[str, Any] | None = None


class CustomModel(ModelNotes, frozen=True, kw_only=True):
    id: str


class ProviderNotes(_Notes, frozen=True, kw_only=True):
    """A new provider, or changes to a built-in one. `prices` names the price list that it uses; `settings` fill its
    URL (`region`) and batch settings (`s3`, `role`), if no variable does.
    """

    label: str | None = None
    api: str | None = None
    base_url: str | None = None
    env: tuple[str, ...] | None = None
    keyless: bool | None = None
    headers: dict[str, str] | None = None
    compat: dict[str, Any] | None = None
    prices: str | None = None
    settings: dict[str, str] | None = None
    models: tuple[CustomModel, ...] = ()
    overrides: dict[str, ModelNotes] = {}

    def notes(self, model_id: str) -> ModelNotes | None:
        given = self.overrides.get(model_id)
        return given or next((model for model in self.models if model.id == model_id), None)


class Overrides(Struct, frozen=True):
    """The file's content. `aliases` are short names for `provider/id`."""

    aliases: dict[str, str] = {}
    providers: dict[str, ProviderNotes] = {}


ROW_FIELDS = ("label", "api", "base_url", "env", "keyless", "headers", "compat", "prices", "settings")


def providers_from(overrides: Overrides) -> list[dict[str, Any]]:
    """The fields of each provider's row that the user wrote, with its `id`; `label` and `api` of a new one included."""
    return [
        {"id": name}
        | {field: value for field in ROW_FIELDS if (value := getattr(notes, field)) is not None}
        | ({} if notes.label or name in PROVIDERS else {"label": name})
        for name, notes in overrides.providers.items()
        if name not in PROVIDERS or any(getattr(notes, field) is not None for field in ROW_FIELDS)
    ]


def load_overrides(path: Path | str | None = None) -> Overrides:
    """Loads the user's file; empty if there is none. Raises FormatError with the line."""
    place = Path(path) if path is not None else home() / "models.toml"
    return read_tables(place, _read) or Overrides()


def _read(given: dict[str, Any]) -> Overrides:
    """Reads each part separately, so that an error names its keys."""
    refuse_unknown(given, ("aliases", "providers"), "$")
    aliases = convert(given.get("aliases", {}), dict[str, str], "$.aliases")
    for name, target in aliases.items():
        if "/" not in target:
            raise Mistake(f"an alias stands for `provider/model`, not for `{target}`", f"$.aliases.{name}")
    providers: dict[str, ProviderNotes] = {}
    for name, notes in table(given.get("providers", {}), "$.providers").items():
        providers[name] = _provider(name, notes)
    return Overrides(aliases, providers)


def _provider(name: str, given: Any) -> ProviderNotes:
    path = f"$.providers.{name}"
    given = dict(table(given, path))
    corrected = {
        model: convert(notes, ModelNotes, f"{path}.overrides.{model}")
        for model, notes in table(given.pop("overrides", {}), f"{path}.overrides").items()
    }
    notes: ProviderNotes = msgspec.structs.replace(convert(given, ProviderNotes, path), overrides=corrected)
    refuse_unknown(notes.settings or {}, PROVIDERS[name].settings if name in PROVIDERS else (), f"{path}.settings")
    if name not in PROVIDERS and notes.api is None and any(given):
        raise Mistake("a custom provider needs `api`, its wire", path)
    for model, about in [*((m.id, m) for m in notes.models), *corrected.items()]:
        if about.like is not None and "/" not in about.like:
            raise Mistake(f"`like` names `provider/model`, not `{about.like}`", f"{path}.{model}.like")
    return notes


def set_alias(name: str, target: str | None, path: Path | None = None) -> bool:
    """Writes or removes an alias in the user's file; returns whether that changed anything. The rest is unchanged."""
    import fcntl

    place = path or home() / "models.toml"
    private_folder(place.parent)
    with os.fdopen(open_regular(place.parent / ".models.lock", os.O_RDWR | os.O_CREAT), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two programs may add an alias at once
        before = load_overrides(place)
        if before.aliases.get(name) == target:
            return False
        text = read_regular(place).decode() if place.exists() else ""
        changed = _with_alias(text, name, target)
        wanted = {key: value for key, value in (before.aliases | {name: target}).items() if value is not None}
        if _aliases_in(changed) != wanted:  # written in a way that lines do not show, as an inline table
            raise FormatError(
                f"{place}: cannot change the alias {name!r} here; edit the file by hand", f"$.aliases.{name}"
            )
        with atomic(place, private=True) as stream:
            stream.write(changed.encode())
    return True


def _with_alias(text: str, name: str, target: str | None) -> str:
    key = name if re.fullmatch(r"[\w-]+", name, re.ASCII) else _quoted(name)
    line = None if target is None else f"{key} = {_quoted(target)}"
    lines = text.splitlines()
    start = next((at for at, one in enumerate(lines) if re.fullmatch(r"\s*\[\s*aliases\s*\]\s*(#.*)?", one)), None)
    if start is None:
        return text if line is None else "\n".join(["[aliases]", line, *([""] if lines else []), *lines, ""])
    end = next((at for at in range(start + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    named = re.compile(rf"\s*({re.escape(key)}|{re.escape(_quoted(name))}|'{re.escape(name)}')\s*=")
    at = next((at for at in range(start + 1, end) if named.match(lines[at])), None)
    new = [] if line is None else [line]
    lines[start + 1 if at is None else at : start + 1 if at is None else at + 1] = new
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()  # a JSON string is a basic string of TOML


def _aliases_in(text: str) -> dict[str, str] | None:
    import tomllib

    try:
        return _read(tomllib.loads(text)).aliases
    except (tomllib.TOMLDecodeError, Mistake):
        return None


# --- the file of this machine ----------------------------------------------------------------------------------------


def own_notes() -> Overrides:
    """Returns the user's own file about models, reloaded when it has changed."""
    path = _notes_path(home())
    try:
        return _notes_at(path, path.stat().st_mtime_ns)
    except OSError:
        return _NOTHING


_NOTHING = Overrides()


@functools.lru_cache(maxsize=4)
def _notes_path(home: Path) -> Path:
    return home / "models.toml"


@functools.lru_cache(maxsize=4)
def _notes_at(path: Path, changed: int) -> Overrides:
    return load_overrides(path)


def own_rows() -> list[Provider]:
    """Returns the user's rows: new providers, and built-in ones with changes."""
    rows = []
    for given in providers_from(own_notes()):
        known = PROVIDERS.get(given["id"])
        rows.append(replace(known, **_over(known, given)) if known else Provider(**given))
    return rows


def _over(known: Provider, fields: dict[str, Any]) -> dict[str, Any]:
    """Applies changes to a built-in row; headers, quirks and settings are merged."""
    joined: dict[str, Any] = {
        name: {**getattr(known, name), **fields[name]} for name in ("headers", "compat") if name in fields
    }
    if "settings" in fields:
        given = {name: replace(known.settings[name], default=value) for name, value in fields["settings"].items()}
        joined["settings"] = {**known.settings, **given}
    return {**fields, **joined}


def known_rows() -> dict[str, Provider]:
    """Returns the built-in rows with the user's changes, and the user's own."""
    return {**PROVIDERS, **{row.id: row for row in own_rows()}}


# --- the catalogue ----------------------------------------------------------------------------------------------------

# Hosts that give a model less room than its maker does, by rules of their own.
TRIMMED = frozenset({"github-copilot"})
# Price lists hold all models of a vendor; not every API of the vendor serves all of them.
_SERVED_ELSEWHERE = (("google google-interactions", r"claude-.*|.*-maas"), ("google-gemini-cli", r"(?!gemini-).*"))
NOT_HERE = {provider: pattern for providers, pattern in _SERVED_ELSEWHERE for provider in providers.split()}


class Catalogue:
    """Price lists, model generations and the user's file, combined."""

    def __init__(self, sheet: PriceSheet, overrides: Overrides | None = None) -> None:
        self.sheet = sheet
        self.overrides = overrides or Overrides()
        # Needed for every call, and constant within a minute.
        self._described_at = functools.lru_cache(maxsize=4096)(self._describe)
        self._rates_at = functools.lru_cache(maxsize=4096)(self._find_rates)
        self.listed = functools.cache(self._find_listed)
        self._highest: dict[tuple[int, str | None], tuple[ModelDescriptor, Rates | None]] = {}
        self._highest_at: datetime | None = None

    def resolve(self, reference: str) -> tuple[str | None, str]:
        """Returns provider and model of an alias or of `provider/model`; the provider is None if none is named."""
        reference = self.overrides.aliases.get(reference, reference)
        provider, _, model_id = reference.partition("/")
        if model_id and (provider in PROVIDERS or provider in self.overrides.providers):
            return provider, model_id
        return None, reference

    def describe(self, provider: str, model_id: str) -> ModelDescriptor | None:
        """Returns the known data of a model, or None."""
        return self._described_at(provider, model_id, _moment(None))

    def _describe(self, provider: str, model_id: str, at: datetime) -> ModelDescriptor | None:
        original = self._original(provider, model_id)[1]
        priced, facts = self._row(provider, model_id), generations.row(original)
        notes = [(host, notes) for host, _, notes in self._chain(provider, model_id) if notes is not None]
        if priced is None and facts is None and not notes:
            return None
        found = _described(provider, model_id, priced, facts)
        if original != model_id:
            found = replace(found, extra={CATALOGUE: {**found.extra.get(CATALOGUE, {}), "like": original}})
        rates = self._rates(provider, model_id, at, None)
        if rates is not None:
            found = replace(found, cost=pricing.model_cost(rates))
        for host, each in reversed(notes):
            found = _corrected(found, each, own=host == provider)
        return found

    def models(self, provider: str | None = None, filter: str | None = None) -> list[ModelDescriptor]:
        """Returns all models of a provider, or of all; those whose provider, id or name contains every word of
        `filter`.
        """
        terms = (filter or "").lower().split()
        chosen = [provider] if provider is not None else list({**PROVIDERS, **self.overrides.providers})
        described = (self.describe(name, model_id) for name in chosen for model_id in sorted(self._ids(name)))
        return [model for model in described if model is not None and _has(model, terms)]

    def _find_listed(self, provider: str) -> tuple[tuple[str, bool], ...]:
        """Returns the ids of a provider's models, and whether each is deprecated. Fast: describes none."""
        rows = self.sheet.lists.get(self._list(provider))
        old = {row.api_id for row in rows.rows if row.deprecated} if rows is not None else set()
        return tuple((id, id in old) for id in sorted(self._ids(provider)))

    def serves(self, provider: str, model_id: str) -> bool:
        """Whether the provider lists this id, in any spelling of its price list."""
        about, row = self._provider_notes(provider), self._row(provider, model_id)
        if about is not None and about.notes(model_id) is not None:
            return True
        if provider in NOT_HERE and re.fullmatch(NOT_HERE[provider], model_id):
            return False
        return row is not None and _answers(row)

    def embeddings(self, provider: str) -> list[str]:
        """Returns the ids of a provider's embedding models: by their names, and those of the user's file."""
        one, about = self.sheet.lists.get(self._list(provider)), self._provider_notes(provider)
        ids = {row.api_id for row in one.rows if _is_embedding(row)} if one is not None else set()
        return sorted(ids | {model.id for model in about.models} if about is not None else ids)

    def makes_vectors(self, provider: str, model_id: str) -> bool:
        """Whether the provider lists this id, in any spelling of its price list, as an embedding model."""
        row = self._row(provider, model_id)
        return row is not None and _is_embedding(row)

    def cost(
        self,
        usage: Usage,
        model: ModelDescriptor | str,
        provider: str | None = None,
        at: datetime | int | None = None,
        *,
        service_tier: str | None = None,
    ) -> Cost | None:
        """Returns the cost of a request at that time (default: now; a number is milliseconds), or None if unknown.

        Prices of the descriptor itself take precedence over the lists.
        """
        if isinstance(model, str):
            named, model_id = (provider, model) if provider is not None else self.resolve(model)
            found = None if named is None else self._listed(named, model_id, _moment(at), _special(service_tier))
        else:
            found = self._tariff(model, provider or model.provider, _moment(at), _special(service_tier))
        return None if found is None else pricing.total(usage, *found)

    def highest_cost(
        self,
        model: ModelDescriptor,
        input_tokens: int,
        output_tokens: int,
        service_tier: str | None = None,
        *,
        audio: Callable[[], bool] = lambda: True,
    ) -> float | None:
        """Returns the most dollars that so many tokens may cost now, or None if unknown.

        Whatever is cached, and in the ordinary service too: a provider need not grant the requested tier. `audio`:
        whether there is some in the input, asked where it has a price of its own.
        """
        now = _moment(None)
        if now is not self._highest_at or len(self._highest) >= 4096:
            self._highest_at, self._highest = now, {}
        key = (id(model), service_tier)
        cached = self._highest.get(key)
        if cached is None:
            found = [self._tariff(model, model.provider, now, tier) for tier in {None, _special(service_tier)}]
            # The model is kept alive, so that its id stays unique.
            cached = self._highest[key] = (model, pricing.highest_rates(found))
        rates = cached[1]
        if rates is None:
            return None
        read = rates["input_audio" if "input_audio" in rates and audio() else "input"]
        read_at, written_at = pricing.at_size(read, input_tokens), pricing.at_size(rates["output"], input_tokens)
        fee = pricing.at_size(rates["request"], 0) / 1000
        return (input_tokens * read_at + output_tokens * written_at) / 1_000_000 + fee

    def priced(
        self, message: AssistantMessage, model: ModelDescriptor, service_tier: str | None = None
    ) -> AssistantMessage:
        """Returns the message with its cost, if known. An existing cost is never recomputed.

        `service_tier` is the requested one: it applies if the response does not report its tier.
        """
        usage = message.usage
        if usage is None or usage.cost is not None:
            return message
        found = self.charged(usage, model, message, service_tier)
        return message if found is None else replace(message, usage=replace(usage, cost=found))

    def charged(
        self, usage: Usage, model: ModelDescriptor, message: AssistantMessage | None, service_tier: str | None = None
    ) -> Cost | None:
        """Returns the cost of a response, or of a part of one: as reported, else by its tier; None if unknown."""
        if usage.cost is not None:
            return usage.cost
        if (found := pricing.reported_cost(usage)) is not None:
            return found
        if message is None and not usage.extra:
            return self.cost(usage, model, service_tier=service_tier)
        if message is None or message.usage is not usage:
            message = AssistantMessage(content=(), usage=usage) if message is None else replace(message, usage=usage)
        at, tier = message.timestamp, pricing.service_tier(message) or service_tier
        found = self.cost(usage, model, at=at, service_tier=tier)
        if found is None and message.response_model and not self._is_known(model.provider, model.id):
            # A router's own name (`auto`) has no price; the model that it chose has.
            found = self.cost(usage, message.response_model, model.provider, at, service_tier=tier)
        return found

    # --- where a model's facts and prices are ---

    def _provider_notes(self, provider: str) -> ProviderNotes | None:
        return self.overrides.providers.get(provider)

    def _chain(self, provider: str, model_id: str) -> Iterator[tuple[str, str, ModelNotes | None]]:
        """The model, then the one that it is like, and so on."""
        seen: set[tuple[str, str]] = set()
        while (provider, model_id) not in seen:
            seen.add((provider, model_id))
            about = self._provider_notes(provider)
            notes = about.notes(model_id) if about is not None else None
            yield provider, model_id, notes
            if notes is None or notes.like is None:
                return
            provider, _, model_id = notes.like.partition("/")

    def _noted(self, provider: str, model_id: str) -> Iterator[ModelNotes]:
        return (notes for _, _, notes in self._chain(provider, model_id) if notes is not None)

    def _original(self, provider: str, model_id: str) -> tuple[str, str]:
        *_, (provider, model_id, _) = self._chain(provider, model_id)
        return provider, model_id

    def _list(self, provider: str) -> str:
        """The price list that a provider uses."""
        about, row = self._provider_notes(provider), PROVIDERS.get(provider)
        if about is not None and about.prices is not None:
            return about.prices
        return (row.prices or "") if row is not None else provider

    def _row(self, provider: str, model_id: str) -> PriceRow | None:
        provider, model_id = self._original(provider, model_id)
        return self.sheet.find(self._list(provider), model_id)

    def _is_known(self, provider: str, model_id: str) -> bool:
        return self._row(provider, model_id) is not None or any(self._noted(provider, model_id))

    def _rates(self, provider: str, model_id: str, at: datetime, tier: str | None) -> Rates | None:
        return self._rates_at(provider, model_id, at, tier)

    def _find_rates(self, provider: str, model_id: str, at: datetime, tier: str | None) -> Rates | None:
        for notes in self._noted(provider, model_id):
            given = next((prices for name, prices in notes.service_tiers.items() if name.lower() == tier), None)
            if given is not None:
                return given.rates()
            if notes.cost is not None:
                return notes.cost.rates() if tier is None else None
        row = self._row(provider, model_id)
        return row.rates(at, tier) if row is not None else None

    def _tariff(
        self, model: ModelDescriptor, provider: str, at: datetime, tier: str | None
    ) -> tuple[Rates, float] | None:
        """The rates of a model in a service tier, and their factor; those of the descriptor itself come first."""
        if model.cost is not None and CATALOGUE not in model.cost.extra:
            return _in_tier(pricing.rates_of(model.cost), self._list(model.provider), tier)
        found = self._listed(provider, model.id, at, tier)
        if found is None and model.cost is not None and not self._is_known(provider, model.id):
            return _in_tier(pricing.rates_of(model.cost), self._list(model.provider), tier)
        return found

    def _listed(self, provider: str, model_id: str, at: datetime, tier: str | None) -> tuple[Rates, float] | None:
        rates = self._rates(provider, model_id, at, tier)
        if rates is not None:
            return rates, 1.0
        rates = self._rates(provider, model_id, at, None) if tier is not None else None
        return None if rates is None else _in_tier(rates, self._list(provider), tier)

    def _ids(self, provider: str) -> set[str]:
        one, about = self.sheet.lists.get(self._list(provider)), self._provider_notes(provider)
        ids = {row.api_id for row in one.rows if _answers(row)} if one is not None else set()
        if provider in NOT_HERE:
            ids = {name for name in ids if not re.fullmatch(NOT_HERE[provider], name)}
        return ids if about is None else ids | {model.id for model in about.models} | set(about.overrides)


def _special(service_tier: str | None) -> str | None:
    """A service tier that may change the price."""
    name = (service_tier or "").lower()
    return None if name in ORDINARY_TIERS else name


def _in_tier(rates: Rates, list_id: str, tier: str | None) -> tuple[Rates, float] | None:
    """Rates of the ordinary service, and their factor in a tier."""
    if tier is None:
        return rates, 1.0
    factor = TIER_FACTORS.get(list_id, {}).get(tier)
    if list_id in FACTORS_FOR_FRESH:
        rates = {name: rate for name, rate in rates.items() if not name.startswith("cache_")}
    return None if factor is None else (rates, factor)


def _answers(row: PriceRow) -> bool:
    """Whether a row may be a model to talk to: what is sold, but not by the token of output, is not."""
    return not row.prices or not row.prices[-1].rates or "output" in row.prices[-1].rates


def _is_embedding(row: PriceRow) -> bool:
    return "embed" in row.id.lower()


def _described(provider: str, model_id: str, priced: PriceRow | None, known: Generation | None) -> ModelDescriptor:
    facts = known or UNKNOWN
    more: dict[str, Any] = {"levels": list(facts.efforts)} if facts.efforts else {}
    if priced is not None and priced.deprecated:
        more["deprecated"] = True
    limits = (facts.context, facts.max_output) if provider not in TRIMMED else (None, None)
    return ModelDescriptor(
        id=model_id,
        name=priced.name if priced is not None else None,
        provider=provider,
        reasoning=facts.reasoning,
        input=facts.input,
        context_window=(priced.context_window if priced is not None else None) or limits[0],
        max_tokens=limits[1],
        extra={CATALOGUE: more} if more else {},
    )


_FACTS = ("name", "context_window", "max_tokens", "input")
_WAYS = ("api", "base_url", "headers", "compat")


def _corrected(model: ModelDescriptor, notes: ModelNotes, own: bool) -> ModelDescriptor:
    """Returns the model with the notes applied. Notes of another provider apply to facts, not to the access."""
    names = _FACTS + (_WAYS if own else ())
    fields: dict[str, Any] = {name: value for name in names if (value := getattr(notes, name)) is not None}
    if notes.reasoning is not None:
        fields["reasoning"] = bool(notes.reasoning)
        fields["extra"] = _with_levels(model, () if isinstance(notes.reasoning, bool) else notes.reasoning)
    return replace(model, **fields)


def _with_levels(model: ModelDescriptor, levels: tuple[str, ...]) -> dict[str, Any]:
    more = {key: value for key, value in model.extra.get(CATALOGUE, {}).items() if key != "levels"}
    if levels:
        more["levels"] = list(levels)
    return {CATALOGUE: more} if more else {}


def _has(model: ModelDescriptor, terms: list[str]) -> bool:
    text = f"{model.provider}/{model.id} {model.name or ''}".lower()
    return all(word in text for word in terms)


def _moment(at: datetime | int | None) -> datetime:
    """The minute of a time, by default the present one: prices differ at most from one minute to the next."""
    if isinstance(at, datetime):
        return at.replace(second=0, microsecond=0, tzinfo=at.tzinfo or UTC)
    try:
        return _minute(int((time.time() if at is None else at / 1000) // 60))
    except (OverflowError, ValueError, OSError):  # a time that has no calendar
        return _moment(None)


@functools.lru_cache(maxsize=64)
def _minute(number: int) -> datetime:
    return datetime.fromtimestamp(number * 60, UTC)


def levels(model: ModelDescriptor) -> tuple[str, ...]:
    """The levels of effort that the model is known to take."""
    return tuple(model.extra.get(CATALOGUE, {}).get("levels", ()))


# --- the catalogue of this machine ------------------------------------------------------------------------------------

_LOADED: dict[Path, Catalogue] = {}
_LOADING = threading.Lock()


def default() -> Catalogue:
    """Returns the catalogue with the user's file, loaded on first use and then cached."""
    place = home()
    found = _LOADED.get(place)
    if found is None:
        with _LOADING:
            found = _LOADED.get(place)
            if found is None:
                found = _LOADED[place] = Catalogue(pricing.load(place / "cache"), load_overrides(place / "models.toml"))
    return found


async def warm() -> Catalogue:
    """`default` without blocking the event loop while loading."""
    found = _LOADED.get(home())
    return found if found is not None else await asyncio.to_thread(default)


def reload() -> None:
    """Clears the cache: the next use reads `models.toml` again."""
    _LOADED.clear()


def resolve(reference: str) -> tuple[str | None, str]:
    """See `Catalogue.resolve`."""
    return default().resolve(reference)


def describe(provider: str, model_id: str) -> ModelDescriptor | None:
    """See `Catalogue.describe`."""
    return default().describe(provider, model_id)


def models(provider: str | None = None, filter: str | None = None) -> list[ModelDescriptor]:
    """See `Catalogue.models`."""
    return default().models(provider, filter)


def cost(
    usage: Usage,
    model: ModelDescriptor | str,
    provider: str | None = None,
    at: datetime | int | None = None,
    *,
    service_tier: str | None = None,
) -> Cost | None:
    """See `Catalogue.cost`."""
    return default().cost(usage, model, provider, at, service_tier=service_tier)


def priced(message: AssistantMessage, model: ModelDescriptor, service_tier: str | None = None) -> AssistantMessage:
    """See `Catalogue.priced`."""
    return default().priced(message, model, service_tier)


# --- OpenRouter -------------------------------------------------------------------------------------------------------


async def openrouter_generation(
    fetch: Callable[[str], Awaitable[Any]], id: str, *, waits: Sequence[float] = (0.1, 0.3, 0.6)
) -> Cost | None:
    """Returns the cost from OpenRouter's record of a response, if the response itself has none.

    `fetch` takes a path below OpenRouter's base URL and returns the JSON body. The record appears shortly after the
    response, so it is polled. A free call costs 0; None means unknown.
    """
    path = f"/generation?id={quote(id, safe='')}"
    for wait in (0.0, *waits):
        if wait:
            await asyncio.sleep(wait)
        try:
            found = _generation_cost(await fetch(path))
        except (ProviderError, TransportError, FormatError):
            continue
        if found is not None:
            return found
    return None


def _generation_cost(body: Any) -> Cost | None:
    record = body.get("data") if isinstance(body, dict) else None
    if not isinstance(record, dict):
        return None
    for name in ("total_cost", "usage"):
        dollars = record.get(name)
        if isinstance(dollars, int | float) and not isinstance(dollars, bool) and dollars >= 0:
            return Cost(total=dollars)
    return None


# --- models as rows of a table: the snake_case spelling that clawtools stores, beside the camelCase of our JSON -------

_FIELDS = tuple(field.name for field in fields(ModelDescriptor) if field.name not in ("cost", "extra"))
_PRICES = tuple(field.name for field in fields(ModelCost) if field.name != "extra")


def serialize_model(model: ModelDescriptor) -> dict[str, Any]:
    """Returns the row of a model. Unknown facts have no key."""
    row = {name: value for name in _FIELDS if (value := getattr(model, name)) is not None}
    if model.input is not None:
        row["input"] = list(model.input)
    if model.cost is not None:
        row["cost"] = {name: getattr(model.cost, name) for name in _PRICES}
    return row


def deserialize_model(row: Mapping[str, Any]) -> ModelDescriptor:
    """Returns the model of a row. A null counts as absent, and other columns are ignored."""
    given = {name: value for name in _FIELDS if (value := row.get(name)) is not None}
    cost = row.get("cost")
    if cost is not None:
        given["cost"] = {
            _camel(name): value
            for name in _PRICES
            if isinstance(cost, Mapping) and (value := cost.get(name)) is not None
        }
    try:
        return msgspec.convert({_camel(name): value for name, value in given.items()}, ModelDescriptor)
    except msgspec.ValidationError as error:
        raise FormatError(f"not a model: {error}") from None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
