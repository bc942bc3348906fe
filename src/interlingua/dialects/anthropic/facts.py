"""Field names and values of the Messages API, and how well it supports each of our fields."""

from collections.abc import Mapping
from typing import Any

from ...values.errors import InterlinguaError, ProviderError
from ...values.losses import SupportTable, bookkeeping, dropped, kept, record, some
from ...values.messages import StopReason
from ..provider_errors import (
    as_provider_error,
    code_status,
    error_of,
    error_text,
    joined_text,
    provider_error,
    status_of,
)
from ..residual import json_or_text, optional

API = "anthropic-messages"
# platform.claude.com/docs/en/build-with-claude/handling-stop-reasons. `pause_turn` pauses a long turn of server tools:
# the client sends the answer back to continue it.
STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "compaction": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "error",
    "sensitive": "error",
}
# platform.claude.com/docs/en/api/messages, `stop_reason`: a whole answer always has one, and none means an abort or a
# fault. A fault is sent as `refusal`: with any other value the answer would look as if the model had ended it.
WIRE_STOP_REASONS = {
    "stop": "end_turn",
    "toolUse": "tool_use",
    "length": "max_tokens",
    "error": "refusal",
    "aborted": "end_turn",
}
# Options that are one field each.
OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "stop_sequences",
    "service_tier": "service_tier",
}
# …, `tool_choice`: `any` is what other providers call `required`; `tool` names one tool. No value names several.
CHOICES = {"auto": "auto", "none": "none", "required": "any"}
OFF_VALUE = "~off"  # in `Reasoning.extra`: the value to send instead of "disabled"
SUMMARIZED = "summarized"


# Fields that differ between streamed and whole answers, as paths into the message: a stream has arguments as text,
# which may be invalid JSON; a whole answer has an object.
UNEVEN: tuple[str, ...] = ("$.content[].argumentsText", "$.content[].parseError")
FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text TextBlock.cache CacheMarker.ttl"),
    # A citation has no offsets into the answer: it belongs to the text block that it is in
    # (platform.claude.com/docs/en/build-with-claude/citations).
    **some("TextBlock.citations Citation.title Citation.url Citation.cited_text", "only citations of this wire"),
    **dropped("Citation.start Citation.end TextBlock.text_signature"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    **some("ThinkingBlock.thinking", "redacted thinking has only its sealed payload"),
    # The signature proves that the text is the model's: a block is sent back with it, and unchanged
    # (…/build-with-claude/thinking).
    **kept("ThinkingBlock.thinking_signature ThinkingBlock.redacted"),
    **some(
        "ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id DocumentBlock.data DocumentBlock.text"
        " DocumentBlock.mime_type DocumentBlock.url DocumentBlock.file_id",
        "a block has one source, and only data and text have a type",
    ),
    **kept("ImageBlock.cache"),
    **dropped("ImageBlock.detail"),
    **some(
        "AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.file_id AudioBlock.transcript AudioBlock.cache",
        "this wire has no audio; the block is dropped",
    ),
    **kept("DocumentBlock.title DocumentBlock.context DocumentBlock.citations DocumentBlock.cache"),
    **kept("ToolCall.id ToolCall.name ToolCall.arguments ToolCall.cache"),
    **record("ToolCall.arguments_text", "arguments travel as an object, not as text"),
    **dropped("ToolCall.parse_error", "arguments travel as an object; what is none is sent as {}"),
    **dropped("ToolCall.thought_signature"),
    **kept("ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolCall.cache"),
    **some(
        "ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content"
        " ServerToolResult.is_error ServerToolResult.cache OpaqueBlock.dialect OpaqueBlock.value",
        "only what this wire signed",
    ),
    **kept("UserMessage.content AssistantMessage.content SystemMessage.content"),
    **bookkeeping(API),
    **kept(
        "ToolResultMessage.tool_call_id ToolResultMessage.content ToolResultMessage.is_error ToolResultMessage.cache"
    ),
    # …/api/messages: `tool_result` refers to its call by `tool_use_id`, and has no name.
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    # …/api/messages: `system` is a field of the request beside `messages`.
    **dropped("SystemMessage.developer Context.system_role", "one role for system messages"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema ToolSpec.strict ToolSpec.cache"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.service_tier"),
    **kept("Options.stream ToolChoice.mode Reasoning.effort OutputSchema.schema"),
    **some("Reasoning.budget Reasoning.enabled Reasoning.summary", "see `encode_reasoning`"),
    **some("Options.parallel_tools Options.tool_choice ToolChoice.names", "see `encode_choice`"),
    **some("Options.reasoning Options.output_schema Options.metadata Options.cache_retention", "see `encode_options`"),
    **dropped("Options.seed Options.session_id"),
    # …/build-with-claude/structured-outputs: a format is only `type` and `schema`, and always strict.
    **dropped("OutputSchema.name OutputSchema.description OutputSchema.strict"),
    **dropped(
        "Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra",
        "what only this wire has in a request goes into the request's extra",
    ),
}

# The same for `encode_response`.
RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **kept("AssistantMessage.usage AssistantMessage.stop_reason AssistantMessage.response_id AssistantMessage.model"),
    **some("AssistantMessage.stop_detail AssistantMessage.response_model", "sent where the wire has a value for it"),
    **record("Usage.cost"),
}


# --- errors: docs.claude.com/en/api/errors ---------------------------------------------------------------------------


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error response, or the error event of a stream (status 0)."""
    wire = json_or_text(body)
    error = error_of(wire)
    return provider_error(
        joined_text(error.get("message"), wire),
        status=status,
        code=optional(error.get("type")),
        headers=headers,
        body=wire,
    )


# `overloaded_error` has the status 529, which no RFC defines (…/api/errors); other providers' 503 means the same.
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    error = as_provider_error(error)
    status = status_of(error)
    code = code_status(error)
    kind = ERROR_TYPES.get(code, "invalid_request_error" if 400 <= code < 500 else "api_error")
    # Claude Code compacts a conversation when it reads this.
    text = error_text(error, "prompt is too long")
    return status, {"type": "error", "error": {"type": kind, "message": text}}
