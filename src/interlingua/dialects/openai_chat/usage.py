"""Tokens and dollars, under the names and in the ways that hosts count them."""

from collections.abc import Mapping
from typing import Any

from ...values.messages import Cost, Usage
from ..residual import count, keeping, number, restored, whole
from .facts import API
from .hosts import Compat


def find_usage(envelope: Mapping[str, Any], choice: Mapping[str, Any]) -> Any:
    """Groq has it in a field of its own too, and in some streams only there; Moonshot inside the choice."""
    if envelope.get("usage"):
        return envelope["usage"]
    groq = envelope.get("x_groq")
    return (groq.get("usage") if isinstance(groq, dict) else None) or choice.get("usage")


def decode_usage(wire: Any, compat: Compat) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    prompt, output, total = (
        count(wire, "prompt_tokens"),
        count(wire, "completion_tokens"),
        whole(wire.get("total_tokens")),
    )
    read, written = _cached(wire)
    if max(read, written) > prompt or (read + written and total == prompt + output + read + written):
        prompt += read + written  # this host counts the cache beside the prompt
    elif read + written > prompt:
        written = 0  # this host counts what it wrote among what it read
    details = wire.get("completion_tokens_details")
    reasoning = whole(details.get("reasoning_tokens")) if isinstance(details, dict) else None
    if reasoning and _is_apart(compat, prompt, output, reasoning, total):
        output += reasoning
    usage = Usage.of(
        prompt - read - written,
        output,
        cache_read=read,
        cache_write=written,
        total_tokens=total,
        reasoning=reasoning,
        cost=_decode_cost(wire.get("cost")),
    )
    return keeping(usage, API, wire, encode_usage(usage, compat))


def _cached(wire: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens read from and written to the cache, under the names that hosts have for them."""
    given = wire.get("prompt_tokens_details")
    details = given if isinstance(given, dict) else {}
    read = count(details, "cached_tokens")
    for name in ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens"):
        read = read or count(wire, name)
    return read, count(details, "cache_write_tokens") or count(wire, "cache_creation_input_tokens")


def _is_apart(compat: Compat, prompt: int, output: int, reasoning: int, total: int | None) -> bool:
    """Whether the host counts thinking beside the output and not in it (xAI); if nobody says, the total tells."""
    if compat.usage_includes_reasoning is not None:
        return not compat.usage_includes_reasoning
    return total == prompt + output + reasoning


def _decode_cost(wire: Any) -> Cost | None:
    """Dollars, as a number or with its parts."""
    if isinstance(wire, dict):
        total, spent, made = (number(wire.get(f"{name}_cost")) for name in ("total", "input_tokens", "output_tokens"))
        return None if total is None else Cost(total=total, input=spent, output=made)
    total = number(wire)
    return None if total is None else Cost(total=total)


def encode_usage(usage: Usage, compat: Compat) -> dict[str, Any]:
    output = usage.output
    if usage.reasoning and compat.usage_includes_reasoning is False:
        output -= usage.reasoning
    wire: dict[str, Any] = {
        "prompt_tokens": usage.input + usage.cache_read + usage.cache_write,
        "completion_tokens": output,
        "total_tokens": usage.total_tokens,
    }
    if usage.cache_read or usage.cache_write:
        wire["prompt_tokens_details"] = {"cached_tokens": usage.cache_read}
        if usage.cache_write:
            wire["prompt_tokens_details"]["cache_write_tokens"] = usage.cache_write
    if usage.reasoning is not None:
        wire["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    if usage.cost is not None:
        wire["cost"] = _encode_cost(usage.cost)
    return restored(wire, usage.extra, API) if usage.extra else wire


def _encode_cost(cost: Cost) -> Any:
    if cost.input is None and cost.output is None:
        return cost.total
    parts = {"input_tokens_cost": cost.input, "output_tokens_cost": cost.output, "total_cost": cost.total}
    return {key: value for key, value in parts.items() if value is not None}
