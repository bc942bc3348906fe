"""The user's own say about models and providers: one file, `models.toml` in the home folder.

Every part is optional. A provider that is not built in becomes a row of its own; of one that is, only what is written
changes. Models that no price list knows are listed under `models`, corrections of known ones under `overrides`.
"""

import functools
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ..values.errors import FormatError
from ..values.places import home
from .prices.rates import BUCKETS, Rate, Rates
from .providers import PROVIDERS, Provider

Dollars = Annotated[float, Meta(ge=0)]
Tokens = Annotated[int, Meta(gt=0)]


class _Notes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is not a known key is refused: a typing error must not go unseen."""


class Step(_Notes, frozen=True, kw_only=True):
    """Prices of requests with more input than `above`; those that are not written stay."""

    above: Tokens
    input: Dollars | None = None
    output: Dollars | None = None
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None


class Prices(_Notes, frozen=True, kw_only=True):
    """Dollars per million tokens; `web_search` per thousand searches. What is not written is unknown."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None
    input_audio: Dollars | None = None
    output_audio: Dollars | None = None
    web_search: Dollars | None = None
    tiers: tuple[Step, ...] = ()

    def rates(self) -> Rates:
        steps = sorted(self.tiers, key=lambda step: step.above)
        fields = {
            name: price
            for name in self.__struct_fields__
            if name != "tiers" and (price := getattr(self, name)) is not None
        }
        return {name: self._rate(name, price, steps) for name, price in fields.items()}

    def _rate(self, name: str, base: float, steps: list[Step]) -> Rate:
        if name not in (*BUCKETS, "cache_write_1h"):
            return ((0, base),)
        stepped = ((step.above, getattr(step, name)) for step in steps)
        return ((0, base), *((above, price) for above, price in stepped if price is not None))


class ModelNotes(_Notes, frozen=True, kw_only=True):
    """Facts about a model. `like` names another (`provider/id`) whose facts and prices hold where none is written.

    `service_tiers` are the prices of other services than the ordinary one, by their names (`flex`, `batch`,
    `provisioned_throughput`); what is not written there is unknown.
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
    """A provider of the user's own, or changes to one that is built in. `prices` names the price list that it uses."""

    label: str | None = None
    api: str | None = None
    base_url: str | None = None
    env: tuple[str, ...] | None = None
    keyless: bool | None = None
    headers: dict[str, str] | None = None
    compat: dict[str, Any] | None = None
    prices: str | None = None
    models: tuple[CustomModel, ...] = ()
    overrides: dict[str, ModelNotes] = {}

    def notes(self, model_id: str) -> ModelNotes | None:
        given = self.overrides.get(model_id)
        return given or next((model for model in self.models if model.id == model_id), None)


class Overrides(Struct, frozen=True):
    """The file's content. `aliases` are short names for `provider/id`."""

    aliases: dict[str, str] = {}
    providers: dict[str, ProviderNotes] = {}


ROW_FIELDS = ("label", "api", "base_url", "env", "keyless", "headers", "compat", "prices")


def providers_from(overrides: Overrides) -> list[dict[str, Any]]:
    """The fields of each provider's row that the user wrote, with its `id`; `label` and `api` of a new one included."""
    return [
        {"id": name}
        | {field: value for field in ROW_FIELDS if (value := getattr(notes, field)) is not None}
        | ({} if notes.label or name in _built_in() else {"label": name})
        for name, notes in overrides.providers.items()
        if name not in _built_in() or any(getattr(notes, field) is not None for field in ROW_FIELDS)
    ]


def load_overrides(path: Path | str | None = None) -> Overrides:
    """The user's file; empty if there is none. Raises FormatError naming the line."""
    place = Path(path) if path is not None else home() / "models.toml"
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Overrides()
    except UnicodeDecodeError as error:
        raise FormatError(f"{place}: not UTF-8: {error.reason}") from None
    try:
        return _read(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{place}: not TOML: {error}") from None
    except _Mistake as mistake:
        raise FormatError(f"{place}: line {_line(text, mistake)}: {mistake.said}", mistake.path) from None


class _Mistake(Exception):
    """Something in the file that is TOML, but makes no sense here."""

    def __init__(self, text: str, path: str) -> None:
        super().__init__(text, path)
        self.said, self.path = text, path


def _read(table: dict[str, Any]) -> Overrides:
    """Each part on its own, so that a mistake is named by the keys that lead to it."""
    for key in table.keys() - {"aliases", "providers"}:
        raise _Mistake(f"unknown key `{key}`; there are `aliases` and `providers`", "$")
    aliases = _convert(table.get("aliases", {}), dict[str, str], "$.aliases")
    for name, target in aliases.items():
        if "/" not in target:
            raise _Mistake(f"an alias stands for `provider/model`, not for `{target}`", f"$.aliases.{name}")
    providers: dict[str, ProviderNotes] = {}
    for name, given in _table(table.get("providers", {}), "$.providers").items():
        providers[name] = _provider(name, given)
    return Overrides(aliases, providers)


def _provider(name: str, given: Any) -> ProviderNotes:
    path = f"$.providers.{name}"
    given = dict(_table(given, path))
    corrected = {
        model: _convert(notes, ModelNotes, f"{path}.overrides.{model}")
        for model, notes in _table(given.pop("overrides", {}), f"{path}.overrides").items()
    }
    notes: ProviderNotes = msgspec.structs.replace(_convert(given, ProviderNotes, path), overrides=corrected)
    if name not in _built_in() and notes.api is None and any(given):
        raise _Mistake("a provider of your own needs `api`, the wire that it speaks", path)
    for model, about in [*((m.id, m) for m in notes.models), *corrected.items()]:
        if about.like is not None and "/" not in about.like:
            raise _Mistake(f"`like` names `provider/model`, not `{about.like}`", f"{path}.{model}.like")
    return notes


def _built_in() -> frozenset[str]:
    from .providers import ROWS

    return frozenset(row.id for row in ROWS)


def _table(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Mistake("expected a table", path)
    return value


def _convert(value: Any, kind: Any, path: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        raise _Mistake(text, path + where.rstrip("`")) from None


def _line(text: str, mistake: _Mistake) -> int:
    """The first line with which the file, read up to there, has this mistake."""
    lines = text.splitlines()
    for count in range(1, len(lines) + 1):
        try:
            _read(tomllib.loads("\n".join(lines[:count])))
        except tomllib.TOMLDecodeError:
            continue
        except _Mistake as found:
            if found.args == mistake.args:
                return count
    return len(lines)


# --- the file of this machine ----------------------------------------------------------------------------------------


def own_notes() -> Overrides:
    """The user's own file about models, read again when it has changed."""
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
    """Rows that the user wrote: new providers, and built-in ones with changes."""
    rows = []
    for given in providers_from(own_notes()):
        known = PROVIDERS.get(given["id"])
        rows.append(replace(known, **_over(known, given)) if known else Provider(**given))
    return rows


def _over(known: Provider, fields: dict[str, Any]) -> dict[str, Any]:
    """Changes to a built-in row; headers and ways of the host are added to its own."""
    joined: dict[str, Any] = {
        name: {**getattr(known, name), **fields[name]} for name in ("headers", "compat") if name in fields
    }
    return {**fields, **joined}


def known_rows() -> dict[str, Provider]:
    """The built-in rows with the user's changes, and the user's own."""
    return {**PROVIDERS, **{row.id: row for row in own_rows()}}
