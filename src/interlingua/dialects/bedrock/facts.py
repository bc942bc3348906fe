"""Field names and values of Converse, and how well it supports each of our fields."""

from collections.abc import Mapping
from typing import Any

from ...values.errors import (
    AuthFailed,
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    InterlinguaError,
    Overloaded,
    ProviderError,
    RateLimited,
)
from ...values.losses import SupportTable, bookkeeping, dropped, kept, record, some
from ...values.messages import StopReason
from ..provider_errors import as_provider_error, code_status, error_text, joined_text, provider_error, status_of
from ..residual import json_or_text

API = "bedrock-converse-stream"
# API_runtime_Converse.html in the Bedrock API reference, Response elements: stopReason.
STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filtered": "error",
    "guardrail_intervened": "error",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
WIRE_STOP_REASONS = {
    "stop": "end_turn",
    "toolUse": "tool_use",
    "length": "max_tokens",
    "error": "content_filtered",
    "aborted": "end_turn",
}


# The fields of `inferenceConfig`: API_runtime_InferenceConfiguration.html in the Bedrock API reference.
INFERENCE = {"max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP", "stop": "stopSequences"}

# The wire's names of formats; the first name of a MIME type is used for content of other wires.
# API_runtime_ImageBlock.html, …_DocumentBlock.html, …_VideoBlock.html, …_AudioBlock.html: `format` is an enum, not a
# MIME type.
IMAGES = {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
DOCUMENTS = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
VIDEOS = {
    "mp4": "video/mp4",
    "mkv": "video/x-matroska",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "flv": "video/x-flv",
    "mpeg": "video/mpeg",
    "mpg": "video/mpeg",
    "wmv": "video/x-ms-wmv",
    "three_gp": "video/3gpp",
}
SOUNDS = {
    "mp3": "audio/mpeg",
    "mpeg": "audio/mpeg",
    "mpga": "audio/mpeg",
    "wav": "audio/wav",
    "ogg": "audio/ogg",
    "opus": "audio/opus",
    "flac": "audio/flac",
    "aac": "audio/aac",
    "x-aac": "audio/x-aac",
    "mp4": "audio/mp4",
    "m4a": "audio/mp4",
    "mkv": "audio/x-matroska",
    "mka": "audio/x-matroska",
    "webm": "audio/webm",
    "pcm": "audio/pcm",
}
ALIASES = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-m4a": "audio/mp4",
    "audio/m4a": "audio/mp4",
    "audio/x-flac": "audio/flac",
    "text/x-markdown": "text/markdown",
    "application/json": "text/plain",
    "application/xml": "text/plain",
}


# Fields that differ between streamed and whole answers: only a stream has arguments as text, which may be invalid JSON.
UNEVEN: tuple[str, ...] = ("$.content[*].argumentsText", "$.content[*].parseError")
FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text CacheMarker.ttl Citation.title Citation.url Citation.cited_text"),
    # API_runtime_SystemContentBlock.html and …_ToolResultContentBlock.html: smaller unions than ContentBlock.
    **some("TextBlock.citations", "not in system text and tool results"),
    **some(
        "TextBlock.cache ImageBlock.cache AudioBlock.cache DocumentBlock.cache ToolCall.cache ServerToolCall.cache"
        " ServerToolResult.cache",
        "not inside tool results",
    ),
    # API_runtime_CitationsContentBlock.html: a citation belongs to its block of text, without offsets.
    **dropped("Citation.start Citation.end TextBlock.text_signature"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    **some("ThinkingBlock.thinking", "redacted thinking has no text"),
    **kept("ThinkingBlock.thinking_signature ThinkingBlock.redacted"),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id", "see `_encode_media`"),
    **dropped("ImageBlock.detail"),
    **some("AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.file_id", "see `_encode_media`"),
    **dropped("AudioBlock.transcript"),
    **some(
        "DocumentBlock.data DocumentBlock.mime_type DocumentBlock.text DocumentBlock.url DocumentBlock.file_id",
        "see `_encode_media`",
    ),
    **some("DocumentBlock.title DocumentBlock.context DocumentBlock.citations", "a video has none"),
    **kept("ToolCall.id ToolCall.name ToolCall.arguments"),
    **record("ToolCall.arguments_text", "arguments travel as an object, not as text"),
    **dropped("ToolCall.parse_error", "arguments travel as an object; what is none is sent as {}"),
    **dropped("ToolCall.thought_signature"),
    **kept("ServerToolCall.id ServerToolCall.name ServerToolCall.arguments"),
    **some(
        "ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content"
        " ServerToolResult.is_error OpaqueBlock.dialect OpaqueBlock.value",
        "only what this wire signed",
    ),
    **some(
        "UserMessage.content AssistantMessage.content SystemMessage.content ToolResultMessage.content Context.system",
        "a string becomes a text block",
    ),
    **bookkeeping(API),
    **kept("ToolResultMessage.tool_call_id ToolResultMessage.is_error ToolResultMessage.cache"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    **dropped("SystemMessage.developer Context.system_role", "one role for system messages"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema ToolSpec.strict ToolSpec.cache"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.service_tier"),
    **kept("Options.stream"),  # in the path, like the model
    **some("Options.tool_choice ToolChoice.mode ToolChoice.names", "see `_encode_choice`"),
    **some("Options.reasoning Reasoning.effort Reasoning.budget Reasoning.enabled", "see `_encode_reasoning`"),
    **some("Reasoning.summary", "Claude's thinking can be asked for in summary"),
    # API_runtime_Converse.html: `requestMetadata` maps strings to strings, 16 at most.
    **some("Options.metadata", "values are strings"),
    **some("Options.output_schema", "there is no free-form JSON mode"),
    # API_runtime_JsonSchemaDefinition.html.
    **kept("OutputSchema.schema OutputSchema.name OutputSchema.description"),
    # API_runtime_InferenceConfiguration.html: four fields; all others are of a model, in
    # `additionalModelRequestFields`.
    **dropped("Options.seed Options.session_id Options.parallel_tools OutputSchema.strict"),
    **dropped("Options.cache_retention", "caching is asked for by cache points"),
    **dropped("Options.extra", "what only this wire has in a request goes into the request's extra"),
}

# The same for `encode_response`.
RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **dropped(
        "TextBlock.cache ImageBlock.cache AudioBlock.cache DocumentBlock.cache ToolCall.cache ServerToolCall.cache"
        " ServerToolResult.cache",
        "an answer has no cache points",
    ),
    **kept("AssistantMessage.usage AssistantMessage.stop_reason"),
    **some("AssistantMessage.stop_detail AssistantMessage.error_message", "sent where the wire has a value for it"),
    **kept("Usage.input Usage.output Usage.cache_read Usage.cache_write Usage.total_tokens"),
    # API_runtime_TokenUsage.html.
    **record("Usage.cost Usage.reasoning", "the wire does not count it"),
    **dropped("AssistantMessage.extra", "it is of the message as a request has it"),
}

# Hints of this wire in `extra[API]`.
PIECES = "~pieces"  # lengths of the wire's texts that are one text of ours
CITED = "~cited"  # the same for `citationsContent`; also marks such a block without citations
JSON = "~json"  # text of a tool result that the wire has as a JSON value
GUARDED = "~guarded"  # text that the wire marks for the guardrail
STRING = "~string"  # content was a string
FIELD = "~field"  # the field of `additionalModelRequestFields` that set the reasoning
SPELLED = "~spelled"  # the original text of the schema
EFFORT = "~effort"  # the field of the effort, if not the standard one
OFF_VALUE = "~off"  # in `Reasoning.extra`: the value to send instead of "disabled"
NOVA = "reasoningConfig"  # Nova's own reasoning settings
SUMMARIZED = "summarized"


# --- errors ----------------------------------------------------------------------------------------------------------


# API_runtime_ConverseStreamOutput.html: the exceptions that may come after the status 200.
EXCEPTIONS = frozenset(
    {
        "internalServerException",
        "modelStreamErrorException",
        "serviceUnavailableException",
        "throttlingException",
        "validationException",
    }
)


# The exception that ends a stream, by the kind of error:
# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html
EXCEPTION_OF: dict[type[ProviderError], str] = {
    RateLimited: "throttlingException",
    Overloaded: "serviceUnavailableException",
    AuthFailed: "accessDeniedException",
    BadRequest: "validationException",
    ContextTooLong: "validationException",
    ContentFiltered: "validationException",
}


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error response, or the exception of a stream (status 0). The type is in a header, rarely in the body."""
    wire = json_or_text(body)
    given = wire if isinstance(wire, dict) else {"message": wire}
    texts = (given.get(key) for key in ("message", "Message", "originalMessage"))
    message = next((text for text in texts if isinstance(text, str) and text), None)
    return provider_error(
        joined_text(message, wire),
        status=status,
        code=_code(given, headers or {}),
        headers=headers,
        body=wire,
    )


def _code(wire: dict[str, Any], headers: Mapping[str, str]) -> str | None:
    """`ValidationException`, from `ValidationException:http://…` in the header or `com.amazon…#…` in the body."""
    # restJson1 protocol (smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html): the header `X-Amzn-Errortype`, with
    # a URI after a colon that is ignored; else `__type` or `code` in the body, with a namespace before `#`.
    named = next((value for key, value in headers.items() if key.lower() == "x-amzn-errortype"), None)
    code = named or wire.get("__type") or wire.get("code")
    return code.rpartition("#")[2].partition(":")[0] or None if isinstance(code, str) else None


# API_runtime_Converse.html, Errors: each name has its status; 408 and 424 are failures of the model.
ERROR_TYPES = {
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    529: "ServiceUnavailableException",
}


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    error = as_provider_error(error)
    code = code_status(error)
    kind = ERROR_TYPES.get(code) or ("InternalServerException" if code >= 500 else "ValidationException")
    return status_of(error), {"__type": kind, "message": error_text(error)}
