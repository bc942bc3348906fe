"""Token prices: the price lists, and the cost over disjoint buckets.

A rate is dollars per million tokens, in tiers: `((0, 3.0), (200_000, 6.0))` is 3, and 6 for *all* tokens of a request
whose total input (uncached, cache reads and cache writes) is above 200,000. A nonempty bucket without a rate makes the
whole cost unknown, never zero.

The price lists are those of genai-prices in a compact form: which models each lists, for which ids, at which rates and
when. Importing that package takes a third of a second and 30 MB, mostly for libraries that fetch and validate price
lists; the lists themselves are small. So they are read once per version of the package, and cached in one file (`keep`)
that loads in milliseconds. Without that file, or if it cannot be written, they are read from the package.

Ids are matched by the package's own rules, with one difference: if a rule only checks how an id begins, ends or what it
contains, the rest of the id must not name a sibling. `claude-opus-4-7-mini` is not `claude-opus-4-7`.
"""

import contextlib
import functools
import importlib.util
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from math import fsum
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import DecodeError, Struct, msgpack

from ..conversion.local_files import atomic
from ..dialects import WIRES
from ..dialects.wire import UsageDetail
from ..values.messages import AssistantMessage, Cost, Usage
from ..values.places import private_folder
from ..values.regular import read_regular
from ..values.request import ModelCost

Rate: TypeAlias = tuple[tuple[int, float], ...]
Rates: TypeAlias = Mapping[str, Rate]

# Under this name `ModelCost.extra` and `Cost.extra` hold what the plain numbers cannot express.
CATALOGUE = "catalogue"

# The names of rates: those of the buckets, then parts of a bucket that some models price apart (else as the bucket).
BUCKETS = ("input", "output", "cache_read", "cache_write")
PARTS = ("cache_write_1h", "input_audio", "cache_read_audio", "output_audio", "output_image", "output_reasoning")
# The counts in `UsageDetail` that are part of a bucket, in the order in which they are charged.
_PARTS_OF = {
    "input": ("input_audio",),
    "cache_read": ("cache_read_audio",),
    "cache_write": ("cache_write_1h",),
    "output": ("output_audio", "output_image"),
}

# Words for the ordinary service, which change no price.
ORDINARY_TIERS = frozenset({"", "default", "auto", "standard", "standard_only", "on_demand"})
# Factors by price list and tier, for models whose price list does not name the tier's own prices. Where a provider
# documents none for a tier, its price is unknown.
TIER_FACTORS: dict[str, dict[str, float]] = {
    "openai": {"flex": 0.5, "priority": 2.0, "batch": 0.5},  # flex is charged like a batch, a batch half
    "anthropic": {"batch": 0.5, "inference_geo=us": 1.1},  # of every token price, the cache's included
    "google": {"flex": 0.5, "batch": 0.5},  # ai.google.dev/gemini-api/docs/optimization; priority: 75 to 100 % more
    "groq": {"flex": 1.0},
    "aws": {"batch": 0.5},  # aws.amazon.com/bedrock/pricing: batches cost half of what calls on demand do
}
# Lists whose factors are not published for cached tokens: those of Google's batches are discounted for some models.
FACTORS_FOR_FRESH = frozenset({"google", "aws"})


def total(usage: Usage, rates: Rates, factor: float = 1.0) -> Cost | None:
    """Returns the cost of one request, or None if a required price is unknown."""
    if rates.keys().isdisjoint(BUCKETS):
        return None
    given, size = usage_detail(usage), usage.input + usage.cache_read + usage.cache_write
    sums: dict[str, float] = {}
    for bucket, names in _PARTS_OF.items():
        tokens = getattr(usage, bucket)
        if tokens <= 0:
            sums[bucket] = 0.0
            continue
        parts = [(name, getattr(given, name)) for name in names] if given is not _NO_DETAIL else []
        # Few models price reasoning apart: elsewhere it costs what other output does.
        if bucket == "output" and usage.reasoning and "output_reasoning" in rates:
            parts.insert(0, ("output_reasoning", usage.reasoning))
        cost = _charged(tokens, parts, bucket, rates, size)
        if cost is None:
            return None
        sums[bucket] = cost * factor
    fees = _fees(given, rates)
    if fees is None:
        return None
    extra = {CATALOGUE: {"fees": fees}} if fees else {}
    return Cost(**sums, total=fsum((*sums.values(), fees)), extra=extra)


def highest_rates(tariffs: Sequence[tuple[Rates, float] | None]) -> Rates | None:
    """Returns the highest rates of several tariffs (rates and their factor) for any token of the input, of input with
    audio, and of the output, and the highest fee for 1000 requests; None if one of them is unknown."""
    known = [one for one in tariffs if one is not None]
    if len(known) < len(tariffs) or not all(rates.keys() >= {"input", "output"} for rates, _ in known):
        return None
    highest: dict[str, Rate] = {}
    for name, parts in _HIGHEST.items():
        found = [(rates[part], factor) for rates, factor in known for part in parts if part in rates]
        starts = {0, *(start for rate, _ in found for start, _ in rate)}
        prices = {start: [at_size(rate, start + 1) * factor for rate, factor in found] for start in starts}
        highest[name] = tuple((start, max(prices[start], default=0.0)) for start in sorted(starts))
    if highest["input_audio"] == highest["input"]:
        del highest["input_audio"]
    return highest


_HIGHEST = {
    "input": ("input", "cache_write", "cache_write_1h", "cache_read"),
    "input_audio": ("input", "cache_write", "cache_write_1h", "cache_read", "input_audio", "cache_read_audio"),
    "output": ("output", "output_audio", "output_image", "output_reasoning"),
    "request": ("request",),
}


def _charged(rest: int, parts: list[tuple[str, int]], bucket: str, rates: Rates, size: int) -> float | None:
    """What a bucket costs, part by part and then the rest of it.

    No part is larger than what is left: a wire that reports too much adds none.
    """
    millionths = 0.0
    for name, given in parts:
        tokens = min(given, rest)
        if tokens <= 0:
            continue
        rest -= tokens
        rate = rates.get(name)
        # A one-hour write costs more than a short one, by an unknown amount; other parts cost what the bucket does.
        if rate is None and name != "cache_write_1h":
            rate = rates.get(bucket)
        if rate is None:
            return None
        millionths += at_size(rate, size) * tokens
    if rest > 0:
        if bucket not in rates:
            return None
        millionths += at_size(rates[bucket], size) * rest
    return millionths / 1_000_000


def _fees(given: UsageDetail, rates: Rates) -> float | None:
    fees = at_size(rates["request"], 0) / 1000 if "request" in rates else 0.0
    if given.web_searches:
        if "web_search" not in rates:
            return None
        fees += at_size(rates["web_search"], 0) * given.web_searches / 1000
    return fees


def at_size(rate: Rate, size: int) -> float:
    """Returns the rate for a request with so much input: a tier applies only above its threshold."""
    price = rate[0][1]
    if len(rate) > 1:
        for start, stepped in rate[1:]:
            if size > start:
                price = stepped
    return price


# --- usage beyond the buckets -----------------------------------------------------------------------------------------


def usage_detail(usage: Usage) -> UsageDetail:
    """Returns the detailed counts in the residual of a usage."""
    for api, residual in usage.extra.items():
        wire = WIRES.get(api)
        if wire is not None and wire.usage_detail is not None and isinstance(residual, dict):
            return wire.usage_detail(_with_hints(residual))
    return _NO_DETAIL


_NO_DETAIL = UsageDetail()


def reported_cost(usage: Usage) -> Cost | None:
    """Returns the cost that the provider reports with the response (OpenRouter does, on every wire)."""
    for residual in usage.extra.values():
        given = residual.get("cost") if isinstance(residual, dict) else None
        if isinstance(given, int | float) and not isinstance(given, bool) and given >= 0:
            return Cost(total=given)
    return None


def service_tier(message: AssistantMessage) -> str | None:
    """Returns the service tier of the response, which may differ from the requested one."""
    usage = message.usage
    named = usage_detail(usage).tiers if usage is not None and usage.extra else ()
    return joined_tiers(*_envelope_tiers(message), *named) if named or message.extra else None


def joined_tiers(*names: str) -> str | None:
    """Returns the name of several tiers at once, as prices are listed: `flex+inference_geo=us`."""
    special = [tier for tier in names if tier and tier.lower() not in ORDINARY_TIERS]
    return "+".join(dict.fromkeys(special)) or next(iter(names), None)


def _envelope_tiers(message: AssistantMessage) -> Iterator[str]:
    for api, residual in message.extra.items():
        envelope = residual.get("~response") if isinstance(residual, dict) else None
        if isinstance(envelope, dict):
            # OpenAI and Anthropic report the tier that served the request, which may not be the one that was asked for.
            tier = envelope.get("service_tier") or envelope.get("serviceTier")
            tier = tier.get("type") if isinstance(tier, dict) else tier
            if isinstance(tier, str):
                yield tier
            wire = WIRES.get(api)
            if wire is not None and wire.modes is not None:
                yield from wire.modes(envelope)


def _with_hints(residual: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the residual of a usage, with the fields of partly decoded objects (`~`) merged in."""
    hints = residual.get("~")
    if not isinstance(hints, dict):
        return residual
    return {**residual, **{key: hint["in"] for key, hint in hints.items() if isinstance(hint, dict) and "in" in hint}}


# --- prices in the descriptor of a model ------------------------------------------------------------------------------


def model_cost(rates: Rates) -> ModelCost | None:
    """Returns rates as a descriptor holds them: the lowest tier in the four numbers, everything else under `catalogue`.

    The format requires a number for each cache price. An unknown one is set to the input price and listed in `unknown`,
    so that nothing is computed from it.
    """
    if "input" not in rates or "output" not in rates:
        return None
    numbers = {name: rates.get(name, rates["input"])[0][1] for name in BUCKETS}
    more: dict[str, Any] = {
        "rates": {name: [list(step) for step in rate] for name, rate in rates.items() if _is_more(name, rate)}
    }
    unknown = [name for name in ("cache_read", "cache_write") if name not in rates]
    if unknown:
        more["unknown"] = unknown
    return ModelCost(**numbers, extra={CATALOGUE: {key: value for key, value in more.items() if value}})


def _is_more(name: str, rate: Rate) -> bool:
    return name not in BUCKETS or len(rate) > 1


def rates_of(cost: ModelCost) -> Rates:
    """The inverse of `model_cost`."""
    more = cost.extra.get(CATALOGUE, {})
    flat: dict[str, Rate] = {
        name: ((0, float(getattr(cost, name))),) for name in BUCKETS if name not in more.get("unknown", ())
    }
    stepped = more.get("rates", {})
    return flat | {name: tuple((int(start), float(price)) for start, price in rate) for name, rate in stepped.items()}


# --- the price lists --------------------------------------------------------------------------------------------------

FORMAT = 1  # of the cached file

# The package's names for the rates that a conversation can run up.
RATES = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "input_audio_mtok": "input_audio",
    "cache_audio_read_mtok": "cache_read_audio",
    "output_audio_mtok": "output_audio",
    "output_image_mtok": "output_image",
    "output_reasoning_mtok": "output_reasoning",
    "web_searches_kcount": "web_search",
    "requests_kcount": "request",
}

# What distinguishes a model from its siblings: a rest of an id with one of these is another model's.
SIBLINGS = re.compile(
    r"(?<![a-z0-9])(mini|nano|micro|lite|small|medium|large|xl|pro|plus|max|ultra|turbo|fast|flash|highspeed|air|instant"
    r"|image|audio|tts|stt|live|realtime|transcribe|translate|search|research|codex|coder|embed|embedding|vision|vl"
    r"|guard|safeguard|distill|base|instruct|thinking|reasoning|reasoner|cyber|online|free|nitro|floor|extended)"
    r"(?![a-z0-9])"
)


class Dated(Struct, frozen=True, array_like=True):
    """Rates, and when they hold: from a day on, or daily between two times (UTC)."""

    rates: dict[str, Rate]
    since: str | None = None
    daily: tuple[str, str] | None = None

    def holds(self, at: datetime) -> bool:
        if self.since is not None:
            return at.date().isoformat() >= self.since
        if self.daily is not None:
            (start, end), now = self.daily, at.time().isoformat("seconds")
            return start <= now < end if start <= end else now >= start or now < end
        return True


class PriceRow(Struct, frozen=True, array_like=True):
    """A model on a price list. Of several valid prices the last applies; `tiers` are those of other service tiers."""

    id: str
    name: str | None
    context_window: int | None
    deprecated: bool
    match: list[Any]
    prices: tuple[Dated, ...]
    tiers: dict[str, tuple[Dated, ...]] = {}

    def rates(self, at: datetime, tier: str | None = None) -> dict[str, Rate] | None:
        """Returns the rates at that time; None if the list has no prices for that service tier."""
        at = at.astimezone(UTC)
        holding = [dated for dated in self.prices if dated.holds(at)] or list(self.prices[:1])
        rates = holding[-1].rates if holding else {}
        if tier is None:
            return rates
        reported = [dated.rates for dated in self.tiers.get(tier, ()) if dated.holds(at)]
        return functools.reduce(operator.or_, reversed(reported), rates) if reported else None  # the first one counts

    @property
    def api_id(self) -> str:
        """An id that the provider takes: some lists name a row for several regions, or without the path it needs."""
        there = self.id.removeprefix("regional.")
        for name in (there, f"us.{there}", self.id, *_equals(self.match)):
            if _matches(self.match, name.lower()):
                return name
        return self.id


class PriceList(Struct, frozen=True, array_like=True):
    """The models of one provider, and the lists of others whose models it serves too."""

    id: str
    rows: tuple[PriceRow, ...]
    others: tuple[str, ...] = ()


class PriceSheet:
    """All price lists, with an index and a lookup cache."""

    def __init__(self, lists: tuple[PriceList, ...]) -> None:
        self.lists = {one.id: one for one in lists}
        self._exact: dict[str, dict[str, PriceRow]] = {}
        self.find = lru_cache(maxsize=8192)(self._find)

    def _find(self, list_id: str, model_id: str) -> PriceRow | None:
        """The row for a model id in that list, or in the lists of those whose models it serves."""
        one = self.lists.get(list_id)
        if one is None:
            return None
        for name in _spellings(model_id):
            for each in (one, *(self.lists[other] for other in one.others if other in self.lists)):
                row = self._exactly(each).get(name) or _loosely(each, name)
                if row is not None:
                    return row
        return None

    def _exactly(self, one: PriceList) -> dict[str, PriceRow]:
        index = self._exact.get(one.id)
        if index is None:
            index = {}
            for row in one.rows:
                index.setdefault(row.id.lower(), row)
            for row in one.rows:
                for name in _equals(row.match):
                    index.setdefault(name, row)
            self._exact[one.id] = index
        return index


def _spellings(model_id: str) -> Iterator[str]:
    """The id, then the same without what a host puts around it: resource names, a date that is written otherwise."""
    name = model_id.lower()
    yield name
    if name.startswith("arn:") or "models/" in name:
        name = name.rsplit("/", 1)[-1]
        yield name
    dashed = re.sub(r"-(20\d{2})(\d{2})(\d{2})$", r"-\1-\2-\3", name)
    if dashed != name:
        yield dashed
    if "@" in name:
        yield name.partition("@")[0]


def _equals(rule: list[Any]) -> Iterator[str]:
    kind, asked = rule
    if kind == "equals":
        yield asked
    elif kind == "or":
        for each in asked:
            yield from _equals(each)


def _loosely(one: PriceList, name: str) -> PriceRow | None:
    return next((row for row in one.rows if _matches(row.match, name)), None)


def _matches(rule: list[Any], name: str) -> bool:
    kind, asked = rule
    match kind:
        case "equals":
            return bool(name == asked)
        case "or":
            return any(_matches(each, name) for each in asked)
        case "and":
            return all(_matches(each, name) for each in asked)
        case "regex":
            return re.search(asked, name) is not None
        case "starts_with":
            return name.startswith(asked) and not _is_sibling("", asked, name[len(asked) :])
        case "ends_with":
            return name.endswith(asked) and not _is_sibling(name[: -len(asked)], asked, "")
        case "contains":
            before, found, after = name.partition(asked)
            return bool(found) and not _is_sibling(before, asked, after)
    return False


def _is_sibling(before: str, asked: str, after: str) -> bool:
    """Whether the text around a match makes it the id of another model: a sibling's name, or a longer number."""
    if SIBLINGS.search(f"{before.rsplit('/', 1)[-1]} {after}"):
        return True
    tail, head = re.search(r"\d+$", asked), re.match(r"\d+", after)
    # `4-1` and `0` are `4-10`, a version; `2025` and `0514` are a day.
    return tail is not None and head is not None and len(tail[0] + head[0]) < 4


# --- loading: from the package, or from the cached file ---------------------------------------------------------------


def load(keep: Path | None = None) -> PriceSheet:
    """Loads the price sheet, from the file in the folder `keep` if it has the package's version."""
    place = _place(keep)
    if place is not None:
        with contextlib.suppress(OSError, DecodeError):
            return PriceSheet(_PRICES_DECODER.decode(read_regular(place, follow=False)))
    lists = from_package()
    if place is not None:
        with contextlib.suppress(OSError):
            _write(place, msgpack.encode(lists))
    return PriceSheet(lists)


_PRICES_DECODER = msgpack.Decoder(tuple[PriceList, ...])


def _place(keep: Path | None) -> Path | None:
    """Returns the path of the cached file; its name changes with the package's data."""
    spec = importlib.util.find_spec("genai_prices") if keep is not None else None
    if keep is None or spec is None or spec.origin is None:
        return None
    try:
        data = Path(spec.origin).with_name("data.py").stat()
    except OSError:
        return None
    return keep / f"prices-{FORMAT}-{data.st_size:x}-{data.st_mtime_ns:x}.msgpack"


def _write(place: Path, data: bytes) -> None:
    """Writes the file atomically, and deletes those of other versions."""
    private_folder(place.parent)
    if not place.is_file():  # a pipe in its place would be written to, and waited for
        place.unlink(missing_ok=True)
    with atomic(place, private=True) as file:
        file.write(data)
    for old in place.parent.glob("prices-*.msgpack"):
        if old != place:
            old.unlink(missing_ok=True)


def from_package() -> tuple[PriceList, ...]:
    """Returns the price lists of genai-prices."""
    from genai_prices.data_snapshot import get_snapshot

    return tuple(
        PriceList(one.id, tuple(map(_row, one.models)), tuple(one.fallback_model_providers or ()))
        for one in get_snapshot().providers
    )


def _row(model: Any) -> PriceRow:
    prices = model.prices if isinstance(model.prices, list) else [model]
    tiers: dict[str, tuple[Dated, ...]] = {}
    for variant in model.price_variants or ():
        if len(variant.when) == 1:
            ((key, word),) = variant.when.items()
            if key in ("service_tier", "processing"):
                tiers[word] = (*tiers.get(word, ()), _dated(variant))
    return PriceRow(
        model.id,
        model.name,
        model.context_window,
        bool(model.deprecated),
        _rule(model.match),
        tuple(map(_dated, prices)),
        tiers,
    )


def _rule(clause: Any) -> list[Any]:
    """A rule as `[kind, pattern]`; texts are compared in lower case."""
    ((kind, asked),) = vars(clause).items()
    kind = kind.rstrip("_")
    if isinstance(asked, list):
        return [kind, [_rule(each) for each in asked]]
    return [kind, asked if kind == "regex" else asked.lower()]


def _dated(priced: Any) -> Dated:
    when: Any = getattr(priced, "constraint", None)
    rates = {
        ours: _rate(value) for theirs, ours in RATES.items() if (value := vars(priced.prices).get(theirs)) is not None
    }
    if hasattr(when, "start_date"):
        return Dated(rates, since=when.start_date.isoformat())
    if hasattr(when, "start_time"):
        return Dated(rates, daily=(_utc(when.start_time), _utc(when.end_time)))
    return Dated(rates)


def _rate(value: Any) -> Rate:
    if hasattr(value, "tiers"):
        return ((0, float(value.base)), *((tier.start, float(tier.price)) for tier in value.tiers))
    return ((0, float(value)),)


def _utc(time: Any) -> str:
    if time.tzinfo is not None:
        time = datetime.combine(datetime(2000, 1, 2), time).astimezone(UTC).time()
    return str(time.isoformat("seconds"))
