"""Costs of calls: reserved at their highest before a call, charged by its usage after it."""

import math
from collections.abc import Sequence

from ..connect.models import Catalogue
from ..connect.prices import joined_tiers
from ..dialects import WIRES
from ..values.errors import InterlinguaError
from ..values.messages import AssistantMessage, AudioBlock, Message, Usage, blocks_of
from ..values.request import ModelDescriptor, Request
from .exchange import DeferredAnswer, Exchange, Gate, Reservation
from .handover import estimated_usage
from .routing import Place, Plan


async def reserve(
    gate: Gate, catalogue: Catalogue | None, exchange: Exchange, plan: Plan, request: Request, input_tokens: int
) -> Reservation:
    """Reserves a request at the gate, with the most that it may cost at any place of its plan."""
    longest, highest = 0, 0.0
    unpriced: ModelDescriptor | None = None
    for place in plan.places:
        tokens = longest_answer(place, request)
        cost = highest_cost(catalogue, place, request, input_tokens, tokens)
        unpriced = place.model if cost is None and unpriced is None else unpriced
        longest, highest = max(longest, tokens or 0), max(highest, cost or 0.0)
    exchange.model, exchange.unpriced = plan.places[0].model, unpriced
    return await gate.admit(
        exchange,
        input_tokens=input_tokens,
        output_tokens=longest,
        highest_cost=highest if unpriced is None else None,
    )


def longest_answer(place: Place, request: Request) -> int | None:
    """The most tokens that an answer may have, all its choices together. Zero and below mean no limit to some hosts
    (LM Studio, llama.cpp), and must not make a call look cheap."""
    asked = request.options.max_tokens
    longest = asked if asked is not None and asked > 0 else place.model.max_tokens or place.model.context_window
    return None if longest is None else longest * _choices(request)


def _choices(request: Request) -> int:
    """Returns the requested number of responses: `n` of OpenAI Chat, `candidateCount` of Google."""
    largest = None
    for residual in (*request.extra.values(), *request.options.extra.values()):
        for given in (residual.get("n"), residual.get("candidateCount")):
            if type(given) is int and (largest is None or given > largest):
                largest = given
    return 1 if largest is None else largest


def highest_cost(
    catalogue: Catalogue | None, place: Place, request: Request, input_tokens: int, output_tokens: int | None
) -> float | None:
    """The most that a request may cost at a place, in dollars; None where its prices are not known."""
    if place.model.cost is None:
        return 0.0 if place.wire is None else None
    if output_tokens is None or catalogue is None:
        return None
    tier = requested_tier(place.model, request)
    return catalogue.highest_cost(
        place.model, input_tokens, output_tokens, tier, audio=lambda: _has_audio(request.context.messages)
    )


def requested_tier(model: ModelDescriptor, request: Request) -> str | None:
    """What may change the price of a request at a model: its service tier, speed or region, as far as they are sent."""
    tier, extra = request.options.service_tier, request.extra
    if tier is None and not extra:
        return None
    wire = WIRES.get(model.api)
    if wire is None:
        return None
    if tier is not None:
        valid = wire.limits_for(model).tiers
        if wire.codec.FIELD_SUPPORT["Options.service_tier"].kind != "kept" or (valid is not None and tier not in valid):
            tier = None
    modes = wire.modes(extra.get(wire.base, {})) if wire.modes is not None else ()
    return joined_tiers(*(() if tier is None else (tier,)), *modes)


def _has_audio(messages: Sequence[Message]) -> bool:
    return any(
        isinstance(block, AudioBlock) for message in messages for block in blocks_of(getattr(message, "content", None))
    )


def charge(exchange: Exchange, catalogue: Catalogue | None) -> None:
    """Sets usage and cost: as reported, else estimated from the request and the response."""
    if exchange.earlier:
        exchange.losses += tuple(one.loss for one in exchange.earlier)
    response, request = exchange.response, exchange.request
    answer = response if isinstance(response, AssistantMessage) else None
    usage = answer.usage if answer is not None else exchange.usage
    if answer is not None and request is not None and (usage is None or answer.stop_reason in ("error", "aborted")):
        counted = estimated_usage(answer, request, sum(one.usage.output for one in exchange.earlier))
        exchange.is_estimated = counted is not usage
        usage = counted
    charged = [*exchange.discarded, *[(one.model, one.usage) for one in exchange.earlier]]
    exchange.is_estimated = exchange.is_estimated or bool(charged)
    if usage is not None and exchange.model is not None:
        charged.append((exchange.model, usage))
    if not charged:
        exchange.usage = usage
        return
    exchange.usage = charged[-1][1]
    for _, used in charged[:-1]:
        exchange.usage = _sum(exchange.usage, used)
    try:
        costs = [_cost(catalogue, model, used, answer if used is usage else None, request) for model, used in charged]
        named = response.model if isinstance(response, DeferredAnswer) else None
        if costs[-1] is None and named not in (None, charged[-1][0].id):
            # A router's own name has no price; the model that it chose has.
            costs[-1] = _cost(catalogue, *charged[-1], exchange.answer, request)
    except InterlinguaError:  # a broken price list must not cost the answer
        return
    exchange.cost = None if None in costs else math.fsum([cost for cost in costs if cost is not None])


def _cost(
    catalogue: Catalogue | None,
    model: ModelDescriptor,
    used: Usage,
    answer: AssistantMessage | None,
    request: Request | None,
) -> float | None:
    """Returns dollars: as the provider reports them, else by the price list and the service tier."""
    if catalogue is None:
        return None
    tier = requested_tier(model, request) if request is not None else None
    cost = catalogue.charged(used, model, answer, tier)
    return None if cost is None else cost.total


def _sum(usage: Usage, other: Usage) -> Usage:
    thought = [usage.reasoning, other.reasoning]
    return Usage.of(
        usage.input + other.input,
        usage.output + other.output,
        cache_read=usage.cache_read + other.cache_read,
        cache_write=usage.cache_write + other.cache_write,
        reasoning=None if thought == [None, None] else sum(filter(None, thought)),
        extra=usage.extra,
    )
