"""The generated part of docs/generations.md: requests by model generation, and their losses.

Nothing is written by hand: each cell is the output of `adapt` and the wire's encoder for the same request.
"""

from functools import cache
from itertools import groupby
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from msgspec.structs import replace

import interlingua as il
from interlingua.connect.connector import HttpConnector
from interlingua.connect.providers import PROVIDERS
from interlingua.dialects.generations import GENERATIONS, Generation
from interlingua.dialects.generations import row as known
from interlingua.dialects.registry import limits_of
from interlingua.values.jsontext import compact
from interlingua.values.losses import Loss
from interlingua.values.messages import CacheMarker

# The provider of the models in a row: the first prefix that matches the model's name.
SERVED = {
    "claude": "anthropic",
    "gpt-oss": "groq",
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "gemini": "google",
    "grok": "xai",
    "deepseek": "deepseek",
    "kimi": "moonshot",
    "minimax": "minimax",
    "glm": "zai",
    "qw": "ollama",
    "magistral": "mistral",
    "pixtral": "mistral",
    "llama": "groq",
    "nova": "amazon-bedrock",
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HELLO = il.UserMessage(content="Hello")
BEGUN = il.AssistantMessage(content=(il.TextBlock(text="Once"),))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
TOOL = il.ToolSpec(name="look", input_schema=SCHEMA, strict=True)


def sample(pattern: str, optional: bool = False) -> str:
    """A model id that a pattern matches: of choices the first, of characters the last, what may be left out or not."""
    return _sampled(_parser.parse(pattern), optional)


def _sampled(parsed: Any, optional: bool) -> str:
    out = ""
    for kind, value in parsed:
        match str(kind):
            case "LITERAL":
                out += chr(value)
            case "IN":
                out += _character(value)
            case "BRANCH":
                out += _sampled(value[1][0], optional)
            case "SUBPATTERN":
                out += _sampled(value[-1], optional)
            case "MAX_REPEAT":
                out += _sampled(value[2], optional) * max(value[0], optional)
            case other:
                raise ValueError(f"teach `sample` what {other} means")
    return out


def _character(choices: Any) -> str:
    kind, value = choices[-1]
    if str(kind) == "CATEGORY":
        return "9"
    return chr(value if str(kind) == "LITERAL" else value[1])


def served(row: Generation) -> tuple[str, il.ModelDescriptor]:
    name = next(name for name in (sample(row.pattern), sample(row.pattern, True)) if known(name) is row)
    provider = next(provider for start, provider in SERVED.items() if name.startswith(start))
    id = f"amazon.{name}-v1:0" if provider == "amazon-bedrock" else name
    model = HttpConnector(PROVIDERS[provider]).complete(il.ModelDescriptor(id=id))
    return provider, replace(model, input=row.input, max_tokens=row.max_output, reasoning=row.reasoning)


@cache
def sent(row: Generation, what: str) -> tuple[Any, tuple[Loss, ...]]:
    """The body for one of the requests below, and what was reported for more than the record."""
    _, model = served(row)
    asked: dict[str, Any] = {
        "nothing": {},
        "off": {"reasoning": "off"},
        "high": {"reasoning": "high"},
        "8000": {"reasoning": 8000},
        "sampling": {"temperature": 0.5, "top_p": 0.9, "top_k": 20},
        "forced": {"tool_choice": "required"},
        "forced high": {"tool_choice": "required", "reasoning": "high"},
        "caching": {"cache_retention": "short"},
    }.get(what, {})
    messages: tuple[Any, ...] = (HELLO, BEGUN) if what == "begun" else (HELLO,)
    if what == "image":
        messages = (il.UserMessage(content=(il.ImageBlock(data=PNG, mime_type="image/png"),)),)
    system = (il.TextBlock(text="Be brief.", cache=CacheMarker() if what == "marker" else None),)
    tools = (TOOL,) if what in ("strict", "forced", "forced high") else None
    request = il.Request(
        model=model,
        context=il.Context(system=system, messages=messages, tools=tools),
        options=il.Options(**{"max_tokens": 16_000, **asked}),
    )
    adapted = il.adapt(request, model, caching=what == "caching")
    body, losses = il.dialect(model.api).encode_request(adapted.request)
    lost = [loss for loss in (*adapted.losses, *losses) if loss.severity != "record" and "maxTokens" not in loss.path]
    return body, tuple(lost)


def cell(value: str, losses: tuple[Loss, ...]) -> str:
    why = "; ".join(dict.fromkeys(loss.why for loss in losses))
    return f"{value} ⚠ {why}" if why else value


def reasoning(row: Generation, what: str) -> str:
    body, losses = sent(row, what)
    return cell(leaves(changed(sent(row, "nothing")[0], body)) or "nothing", losses)


def changed(before: Any, after: Any) -> dict[str, Any]:
    return {key: value for key, value in after.items() if before.get(key) != value}


def leaves(value: Any, key: str = "") -> str:
    """The innermost keys and values of an object, in one line."""
    if isinstance(value, dict):
        return ", ".join(
            filter(None, (leaves(item, name) for name, item in value.items() if name != "maxOutputTokens"))
        )
    return f"`{key}: {value if isinstance(value, str) else compact(value)}`"


_LIMITS = ("maxOutputTokens", "num_predict")


def sampling(row: Generation) -> str:
    body, losses = sent(row, "sampling")
    emitted = compact(body)
    names = {"temperature": '"temperature":0.5', "top_p": ":0.9", "top_k": ":20"}
    return cell(", ".join(name for name, mark in names.items() if mark in emitted) or "none", losses)


def begun(row: Generation) -> str:
    _, losses = sent(row, "begun")
    asked = any(loss.what == "prefill" for loss in losses)
    return "⚠ asked to go on" if asked else "sent"


def strict(row: Generation) -> str:
    body, losses = sent(row, "strict")
    return cell("strict" if '"strict":true' in compact(body) else "without the claim", losses)


def forced(row: Generation) -> str:
    idle, thinking = (
        "⚠ left to the model" if any("toolChoice" in loss.path for loss in sent(row, what)[1]) else "forced"
        for what in ("forced", "forced high")
    )
    return idle if idle == thinking else f"{idle}; reasoning: {thinking}"


def image(row: Generation) -> str:
    if any(loss.what == "media" for loss in sent(row, "image")[1]):
        return "⚠ described in words"
    rules = limits_of(served(row)[1])
    limits = {
        f"{rules.max_images} at most": rules.max_images,
        f"{(rules.image_bytes or 0) / 1e6:.3g} MB": rules.image_bytes,
        f"{rules.image_side} px": rules.image_side,
    }
    return ", ".join(["sent", *(limit for limit, known in limits.items() if known)])


def caching(row: Generation) -> str:
    marker, placed = compact(sent(row, "marker")[0]), compact(sent(row, "caching")[0])
    markers = [word for word in ("cache_control", "cachePoint", "prompt_cache_breakpoint") if word in marker]
    value = f"`{markers[0]}`" if markers else "⚠ markers left out"
    return f"{value}, placed for agents" if any(word in placed for word in markers) else value


COLUMNS = {
    "generation": lambda row: f"**{row.name}**<br>{served(row)[0]}/{served(row)[1].id}",
    "reasoning off": lambda row: reasoning(row, "off"),
    "`high`": lambda row: reasoning(row, "high"),
    "8000 tokens": lambda row: reasoning(row, "8000"),
    "sampling": sampling,
    "begun answer": begun,
    "strict tool": strict,
    "forced tool": forced,
    "images": image,
    "cache markers": caching,
}


def table() -> str:
    """One table per provider that the models are shown with."""
    parts = []
    for provider, rows in groupby(GENERATIONS, key=lambda row: served(row)[0]):
        lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
        lines += ["| " + " | ".join(write(row).replace("|", "/") for write in COLUMNS.values()) + " |" for row in rows]
        parts.append(f"### {PROVIDERS[provider].label}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)
