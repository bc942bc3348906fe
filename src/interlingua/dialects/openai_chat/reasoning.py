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
    told = wire.get("reasoning")
    if not isinstance(told, dict):
        return None
    read = Reasoning(
        effort=optional(told.get("effort")), budget=whole(told.get("max_tokens")), enabled=flag(told.get("enabled"))
    )
    return None if read == Reasoning() else read


def _read_deepseek(wire: dict[str, Any]) -> Reasoning | None:
    effort, switched = optional(wire.get("reasoning_effort")), _read_zai(wire)
    if effort is None or switched is None:
        return None
    return replace(switched, effort=effort, enabled=switched.enabled and None)


def _read_zai(wire: dict[str, Any]) -> Reasoning | None:
    told = wire.get("thinking")
    if not isinstance(told, dict) or told.get("type") not in ("enabled", "disabled"):
        return None
    return _switched(told["type"] == "enabled", whole(told.get("budget_tokens")))


def _read_qwen(wire: dict[str, Any]) -> Reasoning | None:
    told = flag(wire.get("enable_thinking"))
    return None if told is None else _switched(told, whole(wire.get("thinking_budget")))


def _read_template(wire: dict[str, Any]) -> Reasoning | None:
    told = wire.get("chat_template_kwargs")
    switch = flag(told.get("enable_thinking")) if isinstance(told, dict) else None
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
    said = _REASONING_SAYERS.get(way, _say_effort)(reasoning, compat)
    body.update(said)
    read = decode_reasoning(said, compat)
    if read is None:
        report.at("$.options.reasoning", "reasoning", "this host has no word for it")
        return
    for name in ("effort", "budget", "enabled"):
        told, again = getattr(reasoning, name), getattr(read, name)
        if told != again:
            implied = name == "enabled" and (told is True or again is not None)
            why = "implied by the rest" if implied else "this host has no word for it"
            severity = "record" if implied else "dropped" if again is None else "weakened"
            report.at(f"$.options.reasoning.{name}", name, why, severity)  # type: ignore[arg-type]


def _say_effort(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    word = reasoning.effort
    if word is None and reasoning.enabled is False:
        word = "off" if "off" in compat.reasoning_effort_map else None
    if word is None or not compat.supports_reasoning_effort:
        return {}
    said = compat.reasoning_effort_map.get(word, word)
    return {} if said is None else {"reasoning_effort": said}


def _say_openrouter(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    told = {"effort": reasoning.effort, "max_tokens": reasoning.budget, "enabled": reasoning.enabled}
    said = {key: value for key, value in told.items() if value is not None}
    return {"reasoning": said} if said else {}


def _say_zai(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "disabled" if reasoning.enabled is False else "enabled"}
    if reasoning.budget is not None:
        told["budget_tokens"] = reasoning.budget
    return {"thinking": told}


def _say_deepseek(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    effort = _say_effort(reasoning, compat) if reasoning.effort is not None else {}
    return {**_say_zai(reasoning, compat), **effort}


def _say_qwen(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    said: dict[str, Any] = {"enable_thinking": reasoning.enabled is not False}
    if reasoning.budget is not None:
        said["thinking_budget"] = reasoning.budget
    return said


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
