"""The limits and the family of a target model.

Models of one family can verify each other's signatures: another Claude verifies what one signed, on any provider.
"""

import re
from functools import cache

from msgspec.structs import replace

from ..values.request import ModelDescriptor
from .limits import TargetLimits, compat_limits
from .registry import WIRES

CLAUDE = "claude"
MISTRAL = r"mi[sx]tral|codestral|pixtral|devstral|magistral|ministral"

# The first pattern that matches a model id gives its family.
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
    """The family of a model, if it can be determined: by its id, else by the vendor of the wire."""
    return (_family_of(model) if model else None) or vendor(api) or model or None


@cache
def _family_of(model: str) -> str | None:
    return next((name for pattern, name in FAMILIES if re.search(pattern, model, re.IGNORECASE)), None)


def vendor(api: str | None) -> str | None:
    """The family of the models of a wire, if there is only one."""
    wire = WIRES.get(api or "")
    return wire.vendor if wire is not None else None


def owner(api: str | None) -> str | None:
    """The key of a wire in `extra`: the wire that it is a variant of, or its own name."""
    wire = WIRES.get(api or "")
    return wire.base if wire is not None else api


def limits_of(target: ModelDescriptor) -> TargetLimits:
    """The limits of a target: its wire's, refined by the model and by its `compat`."""
    wire = WIRES.get(target.api)
    if wire is not None:
        return wire.limits_for(target)
    return replace(TargetLimits(api=target.api), **compat_limits(target.compat or {}))
