"""What is known of a target model beyond its description: the limits of its wire, and whose model it is.

A family says whose signatures a model can verify: what one Claude signed, another Claude verifies, whoever serves it.
"""

import re
from functools import cache

from msgspec.structs import replace

from ..values.request import ModelDescriptor
from .limits import TargetLimits, compat_limits
from .registry import WIRES

CLAUDE = "claude"
MISTRAL = r"mi[sx]tral|codestral|pixtral|devstral|magistral|ministral"

# The first pattern that matches a model's id names its family.
FAMILIES: tuple[tuple[str, str], ...] = (
    (r"claude", CLAUDE),
    (r"gemini", "gemini"),
    (r"gpt|codex|(?:^|[/.])o[134](?:-|$)", "openai"),
    (r"deepseek", "deepseek"),
    (r"qwen|qwq", "qwen"),
    (MISTRAL, "mistral"),
    (r"grok", "grok"),
    (r"kimi|moonshot", "kimi"),
    (r"glm", "glm"),
    (r"minimax", "minimax"),
    (r"nova", "nova"),
    (r"llama", "llama"),
)


def family(model: str | None, api: str | None) -> str | None:
    """Whose model this is, if that can be determined: by its id, else by the vendor whose models the wire serves."""
    return (_family_of(model) if model else None) or vendor(api) or model or None


@cache
def _family_of(model: str) -> str | None:
    return next((name for pattern, name in FAMILIES if re.search(pattern, model, re.IGNORECASE)), None)


def vendor(api: str | None) -> str | None:
    """The family of the models that a wire serves, where it serves one."""
    wire = WIRES.get(api or "")
    return wire.vendor if wire is not None else None


def owner(api: str | None) -> str | None:
    """The name under which `extra` keeps what a wire has: that of the wire it is a variant of, or its own."""
    wire = WIRES.get(api or "")
    return wire.base if wire is not None else api


def limits_of(target: ModelDescriptor) -> TargetLimits:
    """The limits of a target: its wire's, refined by the model and by its `compat`."""
    wire = WIRES.get(target.api)
    if wire is not None:
        return wire.limits_for(target)
    return replace(TargetLimits(api=target.api), **compat_limits(target.compat or {}))
