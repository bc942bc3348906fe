"""How much to think, in the words of each kind of host."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ...values.losses import Reporter
from ...values.request import Reasoning
from ..residual import flag, optional, whole
from .facts import API, AS
from .hosts import Compat


def decode_reasoning(wire: dict[str, Any], compat: Compat) -> Reasoning | None:
    """How much to think, in whichever of the hosts' ways it is said."""
    for way, read in _REASONING_WAYS.items():
        reasoning = read(wire)
        if reasoning is not None:
            return reasoning if way == compat.thinking_format else replace(reasoning, extra={API: {AS: way}})
    return None


def _read_openrouter(wire: dict[str, Any]) -> Reasoning | None:
    given = wire.get("reasoning")
    if not isinstance(given, dict):
        return None
    read = Reasoning(
        effort=optional(given.get("effort")), budget=whole(given.get("max_tokens")), enabled=flag(given.get("enabled"))
    )
    return None if read == Reasoning() else read


def _read_deepseek(wire: dict[str, Any]) -> Reasoning | None:
    effort, switched = optional(wire.get("reasoning_effort")), _read_zai(wire)
    if effort is None or switched is None:
        return None
    return replace(switched, effort=effort, enabled=switched.enabled and None)


def _read_zai(wire: dict[str, Any]) -> Reasoning | None:
    given = wire.get("thinking")
    if not isinstance(given, dict) or given.get("type") not in ("enabled", "disabled"):
        return None
    return _switched(given["type"] == "enabled", whole(given.get("budget_tokens")))


def _read_qwen(wire: dict[str, Any]) -> Reasoning | None:
    given = flag(wire.get("enable_thinking"))
    return None if given is None else _switched(given, whole(wire.get("thinking_budget")))


def _read_template(wire: dict[str, Any]) -> Reasoning | None:
    given = wire.get("chat_template_kwargs")
    switch = flag(given.get("enable_thinking")) if isinstance(given, dict) else None
    return None if switch is None else _switched(switch, None)


def _read_openai(wire: dict[str, Any]) -> Reasoning | None:
    effort = optional(wire.get("reasoning_effort"))
    if effort is None:
        return None
    return Reasoning(effort=effort, enabled=False if effort == "none" else None)


def _switched(on: bool, budget: int | None) -> Reasoning:
    """A switch; where a budget says that thinking is on, nothing else need."""
    return Reasoning(budget=budget, enabled=None if on and budget is not None else on)


# Where several ways are mixed, the first that says something is read; the others stay in the residual.
_REASONING_WAYS: dict[str, Callable[[dict[str, Any]], Reasoning | None]] = {
    "openrouter": _read_openrouter,
    "deepseek": _read_deepseek,
    "zai": _read_zai,
    "qwen": _read_qwen,
    "qwen-chat-template": _read_template,
    "openai": _read_openai,
}


def encode_reasoning(body: dict[str, Any], reasoning: Reasoning, compat: Compat, report: Reporter) -> None:
    way = (reasoning.extra.get(API) or {}).get(AS) or compat.thinking_format
    encoded = _REASONING_SAYERS.get(way, _say_effort)(reasoning, compat)
    body.update(encoded)
    read = decode_reasoning(encoded, compat)
    if read is None:
        report.at("$.options.reasoning", "reasoning", "this host has no word for it")
        return
    for name in ("effort", "budget", "enabled"):
        given, again = getattr(reasoning, name), getattr(read, name)
        if given != again:
            implied = name == "enabled" and (given is True or again is not None)
            why = "implied by the rest" if implied else "this host has no word for it"
            severity = "record" if implied else "dropped" if again is None else "weakened"
            report.at(f"$.options.reasoning.{name}", name, why, severity)  # type: ignore[arg-type]


def _say_effort(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    word = reasoning.effort
    if word is None and reasoning.enabled is False:
        word = "off" if "off" in compat.reasoning_effort_map else None
    if word is None or not compat.supports_reasoning_effort:
        return {}
    encoded = compat.reasoning_effort_map.get(word, word)
    return {} if encoded is None else {"reasoning_effort": encoded}


def _say_openrouter(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    fields = {"effort": reasoning.effort, "max_tokens": reasoning.budget, "enabled": reasoning.enabled}
    encoded = {key: value for key, value in fields.items() if value is not None}
    return {"reasoning": encoded} if encoded else {}


def _say_zai(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": "disabled" if reasoning.enabled is False else "enabled"}
    if reasoning.budget is not None:
        fields["budget_tokens"] = reasoning.budget
    return {"thinking": fields}


def _say_deepseek(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    effort = _say_effort(reasoning, compat) if reasoning.effort is not None else {}
    return {**_say_zai(reasoning, compat), **effort}


def _say_qwen(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    encoded: dict[str, Any] = {"enable_thinking": reasoning.enabled is not False}
    if reasoning.budget is not None:
        encoded["thinking_budget"] = reasoning.budget
    return encoded


def _say_template(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    return {"chat_template_kwargs": {"enable_thinking": reasoning.enabled is not False}}


_REASONING_SAYERS: dict[str, Callable[[Reasoning, Compat], dict[str, Any]]] = {
    "openai": _say_effort,
    "openrouter": _say_openrouter,
    "zai": _say_zai,
    "deepseek": _say_deepseek,
    "qwen": _say_qwen,
    "qwen-chat-template": _say_template,
}
