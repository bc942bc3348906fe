"""Capabilities of each model generation: inputs, reasoning, sampling, prefill, forced and strict tools.

A small table, maintained by hand because price lists do not have these facts. A row has only what the vendor documents;
anything else is unknown, and so is a model that no row matches. The first row whose pattern matches the whole bare id
wins. Users override it per model: `reasoning` in `models.toml`, and `compat` with the fields of `Generation` in
camelCase. `adapt` uses it, and the docs print it.
"""

import re
from functools import cache, lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from ..values.errors import FormatError
from ..values.request import ModelDescriptor

TEXT = ("text",)
TEXT_AND_IMAGES = ("text", "image")
PAGES = ("text", "image", "document")
ALL_MODALITIES = ("text", "image", "audio", "video", "document")
CLIPS = ("text", "image", "video")

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")  # weakest first
THREE = EFFORTS[2:5]
FOUR = EFFORTS[1:5]
LOW_TO_XHIGH = EFFORTS[2:6]
LOW_TO_MAX = EFFORTS[2:]

# free: temperature and top_p. either: one of the two. idle: only while the model does not reason.
# none: never; a value other than the default is refused or silently ignored.
Sampling: TypeAlias = Literal["free", "either", "idle", "none"]
# always: also while it reasons. idle: not with a reasoning budget. never: `required` is refused.
Forcing: TypeAlias = Literal["always", "idle", "never"]


class Generation(Struct, frozen=True, kw_only=True, rename="camel"):
    """One row. None means unknown; an empty `efforts` means that the model accepts no levels."""

    name: str = ""
    pattern: str = ""
    # Inputs, and the longest answer.
    input: tuple[str, ...] | None = None
    max_output: int | None = None
    context: int | None = None  # if the price lists have none
    # Reasoning.
    reasoning: bool | None = None
    efforts: tuple[str, ...] | None = None  # weakest first; `none` among them turns reasoning off
    budget: tuple[int, int] | None = None  # minimum and maximum budget; None: it accepts no budget
    adaptive: bool | None = None  # reasoning can be turned on without an amount
    can_be_off: bool | None = None
    on_by_default: bool | None = None
    off_up_to: str | None = None  # the highest effort that is accepted with reasoning off
    off_value: str | None = None  # the wire's value for the least reasoning, if "off" is refused
    hides_thinking: bool = False  # its thinking comes without text unless a summary is requested
    bound_thinking: bool = False  # signed reasoning is accepted from the same model only
    # Other options.
    sampling: Sampling | None = None
    top_k: bool | None = None
    stop: bool | None = None
    parallel_tools: bool | None = None
    prefill: bool | None = None  # the last message may be a prefill of the answer
    forced_tools: Forcing | None = None
    strict: bool | None = None  # strict tools and output schemas
    custom_tools: bool | None = None
    cache_breakpoints: bool = False  # it accepts OpenAI's cache markers


def _claude(name: str, pattern: str, **facts: Any) -> Generation:
    return Generation(name=name, pattern=rf"claude-({pattern}){_DATED}", **{"top_k": True, "stop": True, **facts})


_DATED = r"(-\d{8}|-\d{4}-\d{2}-\d{2}|-latest)?"

# --- Anthropic: platform.claude.com/docs, the pages on thinking, effort and migration ---
# Before 3.7 no thinking. Up to 4.5 `enabled` with a budget of at least 1024, below max_tokens; then neither sampling
# nor forced tools nor a prefill.
_BUDGETED: dict[str, Any] = {
    "reasoning": True,
    "efforts": (),
    "adaptive": False,
    "can_be_off": True,
    "on_by_default": False,
    "sampling": "either",
    "prefill": True,
    "forced_tools": "idle",
    "strict": True,
}
# From 4.6 `adaptive` with an effort; a budget still works on 4.6 and is refused from 4.7 on. No prefill from 4.6 on.
_ADAPTIVE: dict[str, Any] = {**_BUDGETED, "adaptive": True, "prefill": False}
# From 4.7 on every temperature, top_p and top_k but the default is refused.
_UNSAMPLED: dict[str, Any] = {
    **_ADAPTIVE,
    "efforts": LOW_TO_MAX,
    "sampling": "none",
    "top_k": False,
    "forced_tools": "always",
    "hides_thinking": True,
    "max_output": 128_000,
}
_BY_DEFAULT: dict[str, Any] = {**_UNSAMPLED, "on_by_default": True}
_ALWAYS: dict[str, Any] = {**_BY_DEFAULT, "can_be_off": False, "forced_tools": "never"}

# --- OpenAI: platform.openai.com/docs, the guide on reasoning and the pages of the models ---
_GPT: dict[str, Any] = {
    "reasoning": False,
    "sampling": "free",
    "top_k": False,
    "stop": True,
    "strict": True,
    "custom_tools": False,
}
# Reasoning models refuse sampling and stop sequences while they reason.
_REASONER: dict[str, Any] = {
    "input": TEXT_AND_IMAGES,
    "reasoning": True,
    "efforts": THREE,
    "adaptive": True,
    "can_be_off": False,
    "on_by_default": True,
    "sampling": "none",
    "top_k": False,
    "stop": False,
    "forced_tools": "always",
    "strict": True,
    "custom_tools": True,
}
_OPT_IN: dict[str, Any] = {
    **_REASONER,
    "efforts": ("none", *LOW_TO_XHIGH),
    "adaptive": False,
    "can_be_off": True,
    "on_by_default": False,
    "sampling": "idle",
    "max_output": 128_000,
}
_OPT_OUT: dict[str, Any] = {**_OPT_IN, "adaptive": True, "on_by_default": True}

# --- Google: ai.google.dev/gemini-api/docs/thinking ---
_GEMINI: dict[str, Any] = {
    "input": ALL_MODALITIES,
    "reasoning": True,
    "adaptive": True,
    "on_by_default": True,
    "sampling": "free",
    "max_output": 65_536,
    "context": 1_048_576,
}
# Gemini 3 takes a level, and thinking cannot be turned off.
_LEVELLED: dict[str, Any] = {**_GEMINI, "efforts": FOUR, "can_be_off": False}

# --- others ---
_PLAIN: dict[str, Any] = {"input": TEXT, "reasoning": False}
_SWITCHED: dict[str, Any] = {  # reasoning is on or off
    "input": TEXT,
    "reasoning": True,
    "efforts": (),
    "adaptive": True,
    "can_be_off": True,
    "on_by_default": True,
}
_FIXED: dict[str, Any] = {**_SWITCHED, "can_be_off": False}  # it always reasons; the amount cannot be set

GENERATIONS: tuple[Generation, ...] = (
    # Anthropic
    _claude(
        "Claude 2",
        r"(2|v2|instant)([.-]\d)*",
        input=TEXT,
        reasoning=False,
        sampling="free",
        prefill=True,
        strict=False,
    ),
    _claude(
        "Claude 3",
        r"3-(opus|sonnet|haiku)",
        input=TEXT_AND_IMAGES,
        reasoning=False,
        max_output=4096,
        sampling="free",
        prefill=True,
        forced_tools="always",
        strict=False,
    ),
    _claude(
        "Claude 3.5",
        r"3[.-]5-(sonnet|haiku)",
        input=PAGES,
        reasoning=False,
        max_output=8192,
        sampling="free",
        prefill=True,
        forced_tools="always",
        strict=False,
    ),
    _claude(
        "Claude 3.7",
        r"3[.-]7-sonnet",
        **{**_BUDGETED, "sampling": "free", "strict": False},
        input=PAGES,
        max_output=64_000,
        budget=(1024, 63_999),
    ),
    _claude(
        "Claude Opus 4",
        r"opus-4([.-]0)?|4-opus",
        **{**_BUDGETED, "strict": False},
        input=PAGES,
        max_output=32_000,
        budget=(1024, 31_999),
    ),
    _claude("Claude Opus 4.1", r"opus-4[.-]1", **_BUDGETED, input=PAGES, max_output=32_000, budget=(1024, 31_999)),
    _claude(
        "Claude Sonnet 4",
        r"sonnet-4([.-]0)?|4-sonnet",
        **{**_BUDGETED, "strict": False},
        input=PAGES,
        max_output=64_000,
        budget=(1024, 63_999),
    ),
    _claude(
        "Claude Sonnet and Haiku 4.5",
        r"(sonnet|haiku)-4[.-]5",
        **_BUDGETED,
        input=PAGES,
        max_output=64_000,
        budget=(1024, 63_999),
    ),
    _claude(
        "Claude Opus 4.5",
        r"opus-4[.-]5",
        **{**_BUDGETED, "efforts": THREE},
        input=PAGES,
        max_output=64_000,
        budget=(1024, 63_999),
    ),
    _claude(
        "Claude Sonnet 4.6",
        r"sonnet-4[.-]6",
        **{**_ADAPTIVE, "efforts": (*THREE, "max")},
        input=PAGES,
        max_output=64_000,
        budget=(1024, 63_999),
    ),
    _claude(
        "Claude Opus 4.6",
        r"opus-4[.-]6",
        **{**_ADAPTIVE, "efforts": (*THREE, "max")},
        input=PAGES,
        max_output=128_000,
        budget=(1024, 127_999),
    ),
    _claude("Claude Opus 4.7 and 4.8", r"opus-4[.-][78]", **_UNSAMPLED, input=PAGES),
    _claude("Claude Sonnet 5", r"sonnet-5", **_BY_DEFAULT, input=TEXT_AND_IMAGES),
    _claude("Claude Opus 5", r"opus-5", **_BY_DEFAULT, input=TEXT_AND_IMAGES, off_up_to="high"),
    _claude("Claude Haiku 5.5", r"haiku-5[.-]5", **_BY_DEFAULT, off_up_to="high", bound_thinking=True),
    # "disabled" is refused; `between_tools` is the least that it can think.
    _claude(
        "Claude Sonnet 5.5",
        r"sonnet-5[.-]5",
        **{**_BY_DEFAULT, "forced_tools": "never"},
        off_up_to="high",
        off_value="between_tools",
        bound_thinking=True,
    ),
    _claude("Claude Fable and Mythos 5", r"(fable|mythos)-(5|preview)", **_ALWAYS),
    _claude(
        "Claude Opus 5.5, Fable and Mythos 5.1", r"opus-5[.-]5|(fable|mythos)-5[.-][12]", **_ALWAYS, bound_thinking=True
    ),
    # Later models: as the newest of them, without limits.
    Generation(
        name="later Claude models",
        pattern=r"claude-(opus|sonnet|haiku|fable|mythos)-([5-9]|\d\d)([.-]\d)?" + _DATED,
        **{**_ALWAYS, "max_output": None, "stop": True},
        bound_thinking=True,
    ),
    # OpenAI
    Generation(name="GPT-3.5", pattern=r"gpt-3\.5-turbo(-\d{4})?", **_GPT, input=TEXT, max_output=4096),
    Generation(name="GPT-4", pattern=r"gpt-4(-0314|-0613)?", **_GPT, input=TEXT, max_output=8192),
    Generation(name="GPT-4 Turbo", pattern=rf"gpt-4-turbo{_DATED}", **_GPT, input=TEXT_AND_IMAGES, max_output=4096),
    Generation(
        name="GPT-4.1", pattern=rf"gpt-4\.1(-mini|-nano)?{_DATED}", **_GPT, input=TEXT_AND_IMAGES, max_output=32_768
    ),
    Generation(name="GPT-4o, May 2024", pattern=r"gpt-4o-2024-05-13", **_GPT, input=TEXT_AND_IMAGES, max_output=4096),
    Generation(name="GPT-4o", pattern=rf"gpt-4o(-mini)?{_DATED}", **_GPT, input=TEXT_AND_IMAGES, max_output=16_384),
    Generation(name="GPT-5 Chat", pattern=r"gpt-5-chat(-latest)?", **_GPT, input=TEXT_AND_IMAGES, max_output=16_384),
    # These reason at a fixed effort.
    Generation(
        name="GPT-5.1 to 5.3 Chat",
        pattern=r"gpt-5\.\d-chat(-latest)?",
        **{**_REASONER, "efforts": ("medium",)},
        max_output=16_384,
    ),
    Generation(
        name="GPT-5", pattern=rf"gpt-5(-mini|-nano)?{_DATED}", **{**_REASONER, "efforts": FOUR}, max_output=128_000
    ),
    Generation(
        name="GPT-5 Pro", pattern=rf"gpt-5-pro{_DATED}", **{**_REASONER, "efforts": ("high",)}, max_output=272_000
    ),
    Generation(name="GPT-5 Codex", pattern=r"gpt-5(\.1)?-codex", **_REASONER, max_output=128_000),
    Generation(
        name="GPT-5 Codex Mini",
        pattern=r"gpt-5(\.1)?-codex-mini",
        **{**_REASONER, "efforts": ("medium", "high")},
        max_output=128_000,
    ),
    Generation(
        name="GPT-5.1 Codex Max and 5.2 Codex",
        pattern=r"gpt-5\.(1-codex-max|2-codex)",
        **{**_REASONER, "efforts": LOW_TO_XHIGH},
        max_output=128_000,
    ),
    Generation(name="GPT-5.1", pattern=rf"gpt-5\.1{_DATED}", **{**_OPT_IN, "efforts": ("none", *THREE)}),
    Generation(name="GPT-5.2 to 5.4", pattern=rf"gpt-5\.([24](-mini|-nano)?|3(-codex)?){_DATED}", **_OPT_IN),
    Generation(name="GPT-5.5", pattern=rf"gpt-5\.5(-mini|-nano)?{_DATED}", **_OPT_OUT),
    Generation(
        name="GPT-5.2 to 5.5 Pro",
        pattern=rf"gpt-5\.[245]-pro{_DATED}",
        **{**_REASONER, "efforts": ("medium", "high", "xhigh")},
        max_output=128_000,
    ),
    Generation(
        name="GPT-5.6 and 6",
        pattern=rf"gpt-(5\.6|6)(-sol|-terra|-luna)?{_DATED}",
        **{**_OPT_OUT, "efforts": ("none", *LOW_TO_MAX), "cache_breakpoints": True},
    ),
    Generation(
        name="GPT-6.1",
        pattern=rf"gpt-6\.1-sol{_DATED}",
        **{**_OPT_OUT, "efforts": None, "can_be_off": None, "cache_breakpoints": True},
    ),
    Generation(
        name="o1-mini, o1-preview",
        pattern=rf"o1-(mini|preview){_DATED}",
        **{**_REASONER, "input": TEXT, "efforts": (), "strict": False, "custom_tools": False},
        max_output=65_536,
        parallel_tools=False,
    ),
    Generation(
        name="o3-mini",
        pattern=rf"o3-mini{_DATED}",
        **{**_REASONER, "input": TEXT, "custom_tools": False},
        max_output=100_000,
        parallel_tools=False,
    ),
    Generation(
        name="o1, o3, o4-mini",
        pattern=rf"(o1|o1-pro|o3|o3-pro|o4-mini){_DATED}",
        **{**_REASONER, "custom_tools": False},
        max_output=100_000,
        parallel_tools=False,
    ),
    Generation(
        name="gpt-oss",
        pattern=r"gpt-oss[-:](120b|20b)(-1)?(-cloud)?",
        input=TEXT,
        reasoning=True,
        efforts=THREE,
        adaptive=True,
        can_be_off=False,
        on_by_default=True,
    ),
    # Google
    Generation(
        name="Gemini 2.0",
        pattern=r"gemini-2\.0-flash(-lite)?(-001)?",
        input=ALL_MODALITIES,
        reasoning=False,
        max_output=8192,
        sampling="free",
    ),
    Generation(
        name="Gemini 2.5 Pro",
        pattern=r"gemini-2\.5-pro",
        **_GEMINI,
        efforts=(),
        budget=(128, 32_768),
        can_be_off=False,
    ),
    Generation(
        name="Gemini 2.5 Flash",
        pattern=r"gemini-2\.5-flash",
        **_GEMINI,
        efforts=(),
        budget=(1, 24_576),
        can_be_off=True,
    ),
    Generation(
        name="Gemini 2.5 Flash-Lite",
        pattern=r"gemini-2\.5-flash-lite",
        **{**_GEMINI, "on_by_default": False},
        efforts=(),
        budget=(512, 24_576),
        can_be_off=True,
    ),
    Generation(name="Gemini 3 Pro", pattern=r"gemini-3-pro(-preview)?", **{**_LEVELLED, "efforts": ("low", "high")}),
    Generation(
        name="Gemini 3.1 Pro, 3.7 Flash",
        pattern=r"gemini-3\.(1-pro|7-flash)(-preview)?(-customtools)?",
        **{**_LEVELLED, "efforts": THREE},
    ),
    Generation(
        name="Gemini 3 Flash, 3.1 Flash-Lite, 3.5 and 3.6 Flash",
        pattern=r"gemini-(3-flash|3\.1-flash-lite|3\.[56]-flash)(-preview)?",
        **_LEVELLED,
    ),
    Generation(
        name="later Gemini 3 models",
        pattern=r"gemini-3(\.\d+)?-(pro|flash|flash-lite)(-preview)?",
        **{**_LEVELLED, "efforts": THREE, "max_output": None, "context": None},
    ),
    # xAI: docs.x.ai/docs/guides/reasoning. Reasoning models refuse stop sequences.
    Generation(name="Grok 3", pattern=r"grok-3(-fast)?(-latest|-beta)?", **_PLAIN),
    Generation(
        name="Grok 3 mini",
        pattern=r"grok-3-mini(-fast)?(-latest|-beta)?",
        **{**_FIXED, "efforts": ("low", "high")},
        stop=False,
    ),
    Generation(
        name="Grok 4 without reasoning",
        pattern=r"grok-4(\.20|[.-]1)?(-fast|-\d{4})?-non-reasoning(-latest)?",
        input=TEXT_AND_IMAGES,
        reasoning=False,
    ),
    Generation(
        name="Grok 4",
        pattern=r"grok-4(\.20|[.-]1)?(-fast)?(-\d{4})?(-reasoning)?(-latest)?",
        **{**_FIXED, "input": TEXT_AND_IMAGES},
        stop=False,
    ),
    Generation(
        name="Grok 4.3",
        pattern=r"grok-4\.3(-latest)?",
        **{**_SWITCHED, "input": TEXT_AND_IMAGES, "efforts": ("none", *THREE)},
        stop=False,
    ),
    Generation(
        name="Grok 4.5",
        pattern=r"grok-4\.5(-latest)?",
        **{**_FIXED, "input": TEXT_AND_IMAGES, "efforts": THREE},
        stop=False,
    ),
    Generation(name="Grok Code", pattern=r"grok-code-fast-1(-0825)?", **_FIXED, stop=False),
    # DeepSeek: api-docs.deepseek.com. A model that reasons silently ignores sampling options.
    Generation(
        name="DeepSeek Chat", pattern=r"deepseek-chat", **{**_SWITCHED, "on_by_default": False}, sampling="idle"
    ),
    Generation(name="DeepSeek Reasoner", pattern=r"deepseek-(reasoner|r1)(:\w+)?|r1", **_FIXED, sampling="none"),
    Generation(
        name="DeepSeek V4",
        pattern=r"deepseek-v4-(flash|pro)",
        **{**_SWITCHED, "efforts": ("high", "max")},
        sampling="idle",
    ),
    # Open weights, whose hosts set limits of their own
    Generation(name="Kimi K2 Thinking", pattern=r"kimi-k2-thinking(-turbo)?", **_FIXED),
    Generation(name="Kimi K2", pattern=r"kimi-k2(-instruct)?(-0905|-0711)?(-preview)?", **_PLAIN),
    Generation(name="Kimi K2.5", pattern=r"kimi-k2\.[56]", **{**_SWITCHED, "input": CLIPS}),
    Generation(name="MiniMax M2", pattern=r"minimax-m2(\.\d)?(-highspeed)?", input=TEXT, reasoning=True),
    Generation(name="GLM 4.5 to 5.1", pattern=r"glm-(4\.[567]|5|5\.1)(-air|-flash|-flashx|-turbo)?", **_SWITCHED),
    Generation(name="GLM 4.5V", pattern=r"glm-4\.[56]v", **{**_SWITCHED, "input": CLIPS}),
    Generation(name="GLM 5.2", pattern=r"glm-5\.2", **{**_SWITCHED, "efforts": LOW_TO_XHIGH}),
    Generation(name="GLM 5.3", pattern=r"glm-5\.3", **{**_FIXED, "efforts": ("low", "high", "max")}),
    Generation(
        name="QwQ, Qwen 3 Thinking",
        pattern=r"qwq(-32b)?(:\w+)?|qwen-?3-[\w.-]*thinking[\w.-]*",
        **{**_FIXED, "input": None},
    ),
    Generation(name="Qwen 3 Coder and Instruct", pattern=r"qwen-?3-([\w.-]*instruct[\w.-]*|coder[\w.:-]*)", **_PLAIN),
    Generation(name="Qwen 3", pattern=r"qwen-?3([:-][\w.]+(-a\d+b)?)?", **{**_SWITCHED, "input": None}),
    Generation(name="Magistral", pattern=r"magistral-(small|medium)(-\d{4}|-latest)?", **{**_FIXED, "input": None}),
    Generation(name="Pixtral", pattern=r"pixtral-(12b|large)(-\d{4}|-latest)?", input=TEXT_AND_IMAGES, reasoning=False),
    Generation(
        name="Llama 3",
        pattern=r"llama-?3[.-][13]-(8b|70b|405b)(-instruct|-instant|-versatile)?(-v1)?",
        **_PLAIN,
    ),
    Generation(
        name="Llama 4",
        pattern=r"llama-?4-(scout|maverick)(-17b)?(-16e|-128e)?(-instruct)?(-v1)?",
        input=TEXT_AND_IMAGES,
        reasoning=False,
    ),
    # Amazon: docs.aws.amazon.com/nova. The first generation does not reason.
    Generation(name="Nova", pattern=r"nova-(micro|lite|pro|premier)", reasoning=False, strict=False),
    Generation(
        name="Nova 2",
        pattern=r"nova-2-(lite|pro|omni)",
        reasoning=True,
        efforts=THREE,
        adaptive=False,
        can_be_off=True,
        on_by_default=False,
    ),
)
UNKNOWN = Generation()

# Prefixes and suffixes that hosts add to a model name.
_REGION = re.compile(
    r"^((us|eu|apac|jp|au|us-gov|global)\.)?(anthropic|meta|mistral|deepseek|openai|amazon|google|qwen)\."
)
_SUFFIX = re.compile(r"(-v\d+)?:\d+$|(?<=\d)-v\d+$|:(free|thinking|nitro|floor|online|extended|beta|exacto|cloud)$")


def bare(model_id: str) -> str:
    """The bare model name, without the path, region, version suffix or routing suffix that hosts add."""
    name = model_id.lower().rsplit("/", 1)[-1]
    return _SUFFIX.sub("", _REGION.sub("", name)).replace("@", "-")


@lru_cache(maxsize=4096)
def row(model_id: str) -> Generation | None:
    """Returns the row of a model, for any provider."""
    name = bare(model_id)
    return next((found for pattern, found in _compiled() if pattern.fullmatch(name)), None)


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], Generation], ...]:
    return tuple((re.compile(row.pattern), row) for row in GENERATIONS)


_NAMES = {field.encode_name: field.name for field in fields(Generation)[2:]}
CATALOGUE = "catalogue"  # key in `extra` for what a descriptor has no field for


def generation(model: ModelDescriptor) -> Generation:
    """The row of a model, with the overrides of its description."""
    noted = model.extra.get(CATALOGUE, {}) if model.extra else {}
    found = row(noted.get("like") or model.id) or UNKNOWN
    encoded: dict[str, Any] = {}
    if model.reasoning is not None and model.reasoning != found.reasoning:
        encoded["reasoning"] = model.reasoning
    if "levels" in noted and tuple(noted["levels"]) != found.efforts:
        encoded["efforts"] = tuple(noted["levels"])
    encoded |= _host_efforts(model, found)
    for name in _NAMES.keys() & (model.compat or {}).keys():
        encoded[_NAMES[name]] = _converted(name, (model.compat or {})[name])
    return replace(found, **encoded) if encoded else found


def _host_efforts(model: ModelDescriptor, found: Generation) -> dict[str, Any]:
    """The levels of effort that the host accepts, by the map in its `compat`."""
    levels = (model.compat or {}).get("reasoningEffortMap")
    if not isinstance(levels, dict) or not levels:
        return {}
    taken = {word for word, host_level in levels.items() if host_level is not None}
    known = {*(found.efforts or ()), *taken} - (levels.keys() - taken)
    return {"efforts": tuple(word for word in EFFORTS if word in known)}


def _converted(name: str, value: Any) -> Any:
    try:
        return getattr(msgspec.convert({name: value}, Generation), _NAMES[name])
    except msgspec.ValidationError as error:
        raise FormatError(str(error), "$.model.compat") from None
