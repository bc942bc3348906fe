"""What tokens cost: rates with their tiers, and the sum over disjoint buckets. Knows no model and no provider.

A rate is dollars per million tokens, in steps: `((0, 3.0), (200_000, 6.0))` is 3, and 6 for *all* tokens of a request
whose whole input (fresh, read from and written to the cache) is above 200,000. What is not priced is unknown: a bucket
that holds tokens and has no rate makes the whole cost unknown, never zero.
"""

from collections.abc import Mapping
from math import fsum
from typing import Any, TypeAlias

from ...dialects import WIRES
from ...dialects.wire import UsageDetail
from ...values.messages import AssistantMessage, Cost, Usage
from ...values.request import ModelCost

Rate: TypeAlias = tuple[tuple[int, float], ...]
Rates: TypeAlias = Mapping[str, Rate]

# Under this name `ModelCost.extra` and `Cost.extra` hold what the plain numbers cannot say.
CATALOGUE = "catalogue"

# The names of rates: those of the buckets, then parts of a bucket that some models price apart (else as the bucket).
BUCKETS = ("input", "output", "cache_read", "cache_write")
PARTS = ("cache_write_1h", "input_audio", "cache_read_audio", "output_audio", "output_image", "output_reasoning")
FEES = ("web_search", "request")  # dollars per thousand

# Words for the ordinary service, which change no price.
ORDINARY_TIERS = frozenset({"", "default", "auto", "standard", "standard_only", "on_demand"})
# Factors by price list and tier, for models whose price list does not name the tier's own prices. Where a provider
# documents none for a tier, its price is unknown.
TIER_FACTORS: dict[str, dict[str, float]] = {
    "openai": {"flex": 0.5, "priority": 2.0, "batch": 0.5},  # flex is charged like a batch, a batch half
    "anthropic": {"batch": 0.5, "inference_geo=us": 1.1},  # of every token price, the cache's included
    "google": {"flex": 0.5, "batch": 0.5},  # ai.google.dev/gemini-api/docs/optimization; priority: 75 to 100 % more
    "groq": {"flex": 1.0},
}
# Lists whose factors are not told for cached tokens: those of Google's batches are discounted for some models only.
FACTORS_FOR_FRESH = frozenset({"google"})


def total(usage: Usage, rates: Rates, factor: float = 1.0) -> Cost | None:
    """The cost of one request, or None if a price that it needs is unknown."""
    if not any(name in rates for name in BUCKETS):
        return None
    given, size = usage_detail(usage), usage.input + usage.cache_read + usage.cache_write
    reasoning = usage.reasoning or 0 if "output_reasoning" in rates else 0
    amounts: dict[str, tuple[int, dict[str, int]]] = {
        "input": (usage.input, {"input_audio": given.input_audio}),
        "cache_read": (usage.cache_read, {"cache_read_audio": given.cache_read_audio}),
        "cache_write": (usage.cache_write, {"cache_write_1h": given.cache_write_1h}),
        "output": (
            usage.output,
            {
                "output_reasoning": reasoning,
                "output_audio": given.output_audio,
                "output_image": given.output_image,
            },
        ),
    }
    sums: dict[str, float] = {}
    for bucket, (tokens, parts) in amounts.items():
        charged = _charged(tokens, parts, bucket, rates, size) if tokens > 0 else 0.0
        if charged is None:
            return None
        sums[bucket] = charged * factor
    fees = _fees(given, rates)
    if fees is None:
        return None
    extra = {CATALOGUE: {"fees": fees}} if fees else {}
    return Cost(**sums, total=fsum((*sums.values(), fees)), extra=extra)


def _charged(rest: int, parts: Mapping[str, int], bucket: str, rates: Rates, size: int) -> float | None:
    """What a bucket costs, part by part and then the rest of it.

    No part is larger than what is left: a wire that tells too much adds none.
    """
    millionths = 0.0
    for name, given in (*parts.items(), (bucket, rest)):
        tokens = rest if name == bucket or given > rest else given
        if tokens <= 0:
            continue
        rest -= tokens
        rate = rates.get(name)
        # A one-hour write is dearer than a short one, by how much is not known; other parts cost what the bucket does.
        if rate is None and name != "cache_write_1h":
            rate = rates.get(bucket)
        if rate is None:
            return None
        millionths += at_size(rate, size) * tokens
    return millionths / 1_000_000


def _fees(given: UsageDetail, rates: Rates) -> float | None:
    fees = at_size(rates["request"], 0) / 1000 if "request" in rates else 0.0
    if given.web_searches:
        if "web_search" not in rates:
            return None
        fees += at_size(rates["web_search"], 0) * given.web_searches / 1000
    return fees


def at_size(rate: Rate, size: int) -> float:
    """The rate for a request with so much input: a step is taken only above its threshold."""
    price = rate[0][1]
    for start, stepped in rate[1:]:
        if size > start:
            price = stepped
    return price


# --- what wires tell beyond the buckets -------------------------------------------------------------------------------


def usage_detail(usage: Usage) -> UsageDetail:
    """The finer counts in what the wire's codec kept of its usage."""
    for api, residual in usage.extra.items():
        wire = WIRES.get(api)
        if wire is not None and wire.usage_detail is not None and isinstance(residual, dict):
            return wire.usage_detail(_with_hints(residual))
    return UsageDetail()


def reported_cost(usage: Usage) -> Cost | None:
    """The cost that the provider itself told with the answer (OpenRouter does, on every wire it speaks)."""
    for residual in usage.extra.values():
        given = residual.get("cost") if isinstance(residual, dict) else None
        if isinstance(given, int | float) and not isinstance(given, bool) and given >= 0:
            return Cost(total=given)
    return None


def service_tier(message: AssistantMessage) -> str | None:
    """Which service answered, as the answer tells it; it may differ from the one asked for."""
    named = usage_detail(message.usage).tiers if message.usage is not None else ()
    given = [tier for tier in (_envelope_tier(message), *named) if tier is not None]
    special = [tier for tier in given if tier and tier.lower() not in ORDINARY_TIERS]
    return "+".join(dict.fromkeys(special)) or next(iter(given), None)


def _envelope_tier(message: AssistantMessage) -> str | None:
    for residual in message.extra.values():
        envelope = residual.get("~response") if isinstance(residual, dict) else None
        if isinstance(envelope, dict):
            tier = envelope.get("service_tier") or envelope.get("serviceTier")
            tier = tier.get("type") if isinstance(tier, dict) else tier
            if isinstance(tier, str):
                return tier
    return None


def _with_hints(residual: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a codec kept of its usage, with the keys of objects that it understood in part (`~`) among the others."""
    hints = residual.get("~")
    if not isinstance(hints, dict):
        return residual
    return {**residual, **{key: hint["in"] for key, hint in hints.items() if isinstance(hint, dict) and "in" in hint}}


# --- as the descriptor of a model says it -----------------------------------------------------------------------------


def model_cost(rates: Rates) -> ModelCost | None:
    """Rates as a descriptor holds them: the lowest step in the four numbers, everything else under `catalogue`.

    The format wants a number for each cache price. Where it is unknown, the input's stands there, and `unknown` names
    it, so that nothing is computed from it.
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
