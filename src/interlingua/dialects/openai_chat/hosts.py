"""What hosts do differently, as data."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields as struct_fields

from ...values.errors import FormatError
from ...values.request import ModelDescriptor


class Compat(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a host departs from OpenAI's own service. The JSON names are those of `ModelDescriptor.compat`."""

    supports_store: bool | None = None  # True: say `store: false`, so that nothing is kept
    supports_developer_role: bool | None = None  # True: reasoning models get `developer`; False: nobody does
    supports_reasoning_effort: bool = True
    reasoning_effort_map: dict[str, str | None] = {}  # our word -> the host's, null where it has none; `off` too
    supports_usage_in_streaming: bool = True
    max_tokens_field: str = "max_completion_tokens"
    seed_field: str = "seed"
    requires_tool_result_name: bool = False
    # openai: reasoning_effort · openrouter: reasoning{effort, max_tokens, enabled} · zai: thinking{type}
    # deepseek: thinking{type} and reasoning_effort · qwen: enable_thinking · qwen-chat-template: the same, nested
    thinking_format: str = "openai"
    supports_strict_mode: bool = True
    supports_long_cache_retention: bool = True
    open_router_routing: dict[str, Any] = {}
    vercel_gateway_routing: dict[str, Any] = {}
    reasoning_field: str = "reasoning_content"
    usage_includes_reasoning: bool | None = None  # whether completion_tokens count the thinking; None: see the total
    path: str = "/chat/completions"  # {model} is the model's id


PLAIN_HOST = Compat()
_COMPAT_NAMES = frozenset(field.encode_name for field in struct_fields(Compat))


def compat_of(quirks: Mapping[str, Any] | None, model: ModelDescriptor | None = None) -> Compat:
    """The host's ways: the quirks of the variant, overruled field by field by what the model's description says."""
    if not quirks and (model is None or not model.compat):
        return PLAIN_HOST
    fields = {**(quirks or {}), **((model and model.compat) or {})}
    try:
        return convert({name: fields[name] for name in fields.keys() & _COMPAT_NAMES}, Compat)
    except ValidationError as error:
        raise FormatError(str(error), "$.model.compat") from None
