"""Field names, values and hints of Cohere's chat API, its support for each of our fields, and errors."""

from collections.abc import Mapping
from typing import Any

from ...values.errors import InterlinguaError, ProviderError
from ...values.losses import SupportTable, bookkeeping, dropped, kept, some
from ...values.messages import StopReason
from ..provider_errors import as_provider_error, error_text, joined_text, provider_error, status_of
from ..residual import json_or_text

API = "cohere-chat"

# docs.cohere.com/reference/chat, `finish_reason`.
STOP_REASONS: dict[str, StopReason] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "TOOL_CALL": "toolUse",
    "MAX_TOKENS": "length",
    "ERROR": "error",
    # Of API v1, which proxies still send.
    "ERROR_TOXIC": "error",
    "TIMEOUT": "error",
}
# No value of the reference means an abort by the client.
WIRE_STOP_REASONS = {
    "stop": "COMPLETE",
    "toolUse": "TOOL_CALL",
    "length": "MAX_TOKENS",
    "error": "ERROR",
    "aborted": "COMPLETE",
}

# Options that are one field each.
# docs.cohere.com/reference/chat: `p` and `k` are nucleus and top-k sampling; `stop_sequences` is a list of up to five.
OPTIONS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "p",
    "top_k": "k",
    "stop": "stop_sequences",
    "seed": "seed",
}

UNEVEN: tuple[str, ...] = ()  # streamed and whole answers have the same fields

# Hints of this wire in `extra[API]`.
PLAN = "~plan"  # thinking decoded from `tool_plan`
GENERATED = "~generated"  # the id is generated
PROMPT = "~system"  # residual of the system message that is the system prompt

ORDER = "a plan comes first, then texts and thoughts, then calls"
NO_BLOCK = "this wire has no such block"
_NO_PLACE = "an assistant message has texts, thoughts and calls; all others texts and pictures"

FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text"),
    **some("TextBlock.citations", "only the texts of an assistant message have sources"),
    **kept("Citation.title Citation.url Citation.cited_text Citation.start Citation.end"),
    **dropped("TextBlock.text_signature TextBlock.cache CacheMarker.ttl"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    **kept("ThinkingBlock.thinking"),
    # docs.cohere.com/docs/reasoning: thinking is plain text, sent back as it came.
    **dropped("ThinkingBlock.thinking_signature"),
    **some("ThinkingBlock.redacted", "redacted thinking has no text"),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.detail", "a picture is a URL, or data"),
    **some("ImageBlock.file_id", "a picture is a URL, or data"),
    **dropped("ImageBlock.cache"),
    **some(
        "AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.file_id AudioBlock.transcript AudioBlock.cache"
        " DocumentBlock.data DocumentBlock.mime_type DocumentBlock.text DocumentBlock.url DocumentBlock.file_id"
        " DocumentBlock.title DocumentBlock.context DocumentBlock.citations DocumentBlock.cache"
        " ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolCall.cache"
        " ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content"
        " ServerToolResult.is_error ServerToolResult.cache",
        NO_BLOCK,
    ),
    **some("OpaqueBlock.dialect OpaqueBlock.value", "only this wire's own"),
    **some("ToolCall.id", "an empty id is read as none"),
    **kept("ToolCall.name ToolCall.arguments ToolCall.arguments_text ToolCall.parse_error"),
    **dropped("ToolCall.thought_signature ToolCall.cache"),
    **some("UserMessage.content SystemMessage.content ToolResultMessage.content Context.system", _NO_PLACE),
    **some("AssistantMessage.content", ORDER),
    **bookkeeping(API),
    **some("ToolResultMessage.tool_call_id", "an empty id is read as none"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    # docs.cohere.com/reference/chat, `messages`: a tool message has `tool_call_id` and `content` only.
    **some("ToolResultMessage.is_error", "only the text shows that it failed"),
    **dropped("ToolResultMessage.cache"),
    **dropped("SystemMessage.developer Context.system_role", "one role for system messages"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema"),
    **dropped("ToolSpec.strict", "`strict_tools` is set for all tools together, in the request's extra"),
    **dropped("ToolSpec.cache"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.seed"),
    **kept("Options.stream Options.output_schema OutputSchema.schema"),
    # …, `response_format`: only `type` and `json_schema`.
    **dropped("OutputSchema.name OutputSchema.description OutputSchema.strict"),
    **some("Options.reasoning Reasoning.effort Reasoning.enabled Reasoning.budget", "a switch, with or without budget"),
    **dropped("Reasoning.summary"),
    **some("Options.tool_choice ToolChoice.mode ToolChoice.names", "tools are required, forbidden, or not mentioned"),
    # …/reference/chat has no field for these; `priority` orders requests, and is no tier.
    **dropped("Options.parallel_tools Options.cache_retention Options.session_id Options.service_tier"),
    **dropped("Options.metadata"),
    **dropped(
        "Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra",
        "what only this wire has in a request goes into the request's extra",
    ),
}

RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **some("AssistantMessage.usage", "all input is counted together, with what of it came from the cache"),
    **kept("AssistantMessage.stop_reason AssistantMessage.response_id"),
    **some("AssistantMessage.stop_detail AssistantMessage.error_message", "sent where the wire has a value for it"),
    **kept("Usage.input Usage.output Usage.cache_read Usage.reasoning"),
    # …, `usage`: `tokens`, `billed_units` and `cached_tokens`, no sum.
    **some("Usage.cache_write Usage.total_tokens Usage.cost", "the wire does not count it"),
}


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error response (`{"id": …, "message": …}`), or an error inside a stream (status 0)."""
    wire = given = json_or_text(body)
    while isinstance(given, dict):  # proxies wrap it in fields of their own
        given = next((given[key] for key in ("message", "error", "detail") if given.get(key)), None)
    return provider_error(joined_text(given, wire), status=status, headers=headers, body=wire)


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    given = as_provider_error(error)
    return status_of(given), {"message": error_text(given)}
