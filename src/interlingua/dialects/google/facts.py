"""The words of generateContent, and what becomes of every field of ours."""

from collections.abc import Mapping
from typing import Any

from ...values.losses import SupportTable, bookkeeping, dropped, kept, record, some
from ...values.messages import StopReason

API = "google-generative-ai"
APIS = frozenset({API, "google-vertex", "google-gemini-cli"})  # with the variants
STOP_REASONS: dict[str, StopReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "OTHER",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "TOO_MANY_TOOL_CALLS",
            "MISSING_THOUGHT_SIGNATURE",
            "MALFORMED_RESPONSE",
            "MODEL_ARMOR",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "IMAGE_OTHER",
            "NO_IMAGE",
        ),
        "error",
    ),
}
# Older clients ask for enums as numbers: these are the words of the Gemini API. From SAFETY on, all are failures.
STOP_NUMBERS = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
)
WIRE_STOP_REASONS = {"stop": "STOP", "toolUse": "STOP", "length": "MAX_TOKENS", "error": "OTHER", "aborted": "OTHER"}
MODES: dict[str, Any] = {"AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
CHOICES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
FAILED_OUTCOMES = ("OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED")
CODE = "code_execution"
JSON = "application/json"


# Fields that only one form of an answer carries, as paths into the message: none here, the last chunk says it all.
UNEVEN: tuple[str, ...] = ()
FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text"),
    **some("TextBlock.text_signature", "not in tool results"),
    **dropped("TextBlock.citations Citation.title Citation.url Citation.cited_text Citation.start Citation.end"),
    **dropped("TextBlock.refusal", "a refusal is said as plain text"),
    **dropped("TextBlock.cache ImageBlock.cache AudioBlock.cache DocumentBlock.cache ToolCall.cache ToolSpec.cache"),
    **dropped("ServerToolCall.cache ServerToolResult.cache ToolResultMessage.cache CacheMarker.ttl"),
    **some(
        "ThinkingBlock.thinking ThinkingBlock.thinking_signature ThinkingBlock.redacted",
        "sealed thinking of another wire is dropped",
    ),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id", "see `_encode_media`"),
    **dropped("ImageBlock.detail"),
    **some("AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.file_id", "see `_encode_media`"),
    **dropped("AudioBlock.transcript"),
    **some(
        "DocumentBlock.data DocumentBlock.mime_type DocumentBlock.text DocumentBlock.url DocumentBlock.file_id",
        "see `_encode_media`",
    ),
    **dropped("DocumentBlock.title DocumentBlock.context DocumentBlock.citations"),
    **some("ToolCall.id", "an empty id is none"),
    **kept("ToolCall.name ToolCall.arguments ToolCall.thought_signature"),
    **record("ToolCall.arguments_text", "arguments travel as an object, not as text"),
    **dropped("ToolCall.parse_error", "arguments travel as an object; what is none is sent as {}"),
    **some(
        "ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolResult.tool_call_id"
        " ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content ServerToolResult.is_error"
        " OpaqueBlock.dialect OpaqueBlock.value",
        "only what this wire minted",
    ),
    **dropped("OpaqueBlock.extra", "an opaque block is said as it is"),
    **some("UserMessage.content AssistantMessage.content Context.system", "a string becomes a text part"),
    **some("ToolResultMessage.content ToolResultMessage.is_error", "see `_encode_result`"),
    **some("ToolResultMessage.tool_call_id", "an empty id is none"),
    **kept("ToolResultMessage.tool_name"),
    **some("SystemMessage.content SystemMessage.developer", "this wire has no later system messages"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **bookkeeping(API),
    **dropped("Context.system_role", "the system prompt has no role"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema"),
    **dropped("ToolSpec.strict"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.seed"),
    **kept("Options.service_tier Options.tool_choice Options.output_schema ToolChoice.mode OutputSchema.schema"),
    **some("ToolChoice.names", "no names beside `NONE`"),
    **some(
        "Options.reasoning Reasoning.effort Reasoning.budget Reasoning.enabled Reasoning.summary",
        "see `_encode_reasoning`",
    ),
    **some("Options.session_id", "only in Gemini CLI's envelope"),
    **kept("Options.stream"),  # said by the path, as the model is
    **dropped("Options.parallel_tools Options.cache_retention Options.metadata"),
    **dropped("OutputSchema.name OutputSchema.description OutputSchema.strict"),
    **dropped("OutputSchema.extra", "the schema has no object of its own in this wire"),
}

# The same for a message as an answer.
RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **kept("AssistantMessage.response_id AssistantMessage.model"),
    **some("AssistantMessage.usage AssistantMessage.stop_reason", "see `_report_answer`"),
    **some("AssistantMessage.stop_detail AssistantMessage.response_model", "said where the wire knows the word"),
    **some("AssistantMessage.error_message", "said with the reason of the stop"),
    **some(
        "TextBlock.citations Citation.title Citation.url Citation.cited_text Citation.start Citation.end",
        "only what the answer's own metadata says",
    ),
    **record("Usage.cost"),
}

# Keys of `extra[API]` that only this wire needs.
SNAKE = "~snake"  # places of names that the wire spelled in snake_case
GENERATED = "~minted"  # the wire gave no id
PART = "~part"  # the kind of part that a call or a result of Google's own tools is
KEY = "~key"  # where in a function's response its content stood; null: it was all of it
AS_JSON = "~json"  # text of a tool result that the wire has as a JSON value
FIELD = "~field"  # which field held a schema
UPPER = "~upper"  # its types were in capitals
ALONE = "~alone"  # fields where one value stood for a list of one
TEXT = "~text"  # the system prompt was a bare string
LIST = "~list"  # how a group of functions spelled its list
MODEL = "~model"  # the body named the model, with this prefix
ENVELOPE = "~envelope"  # what stood beside the body in its envelope
PLAIN = "~plain"  # a body without its envelope
CANDIDATE = "~candidate"  # residual of the candidate that became the message
OTHERS = "~others"  # the candidates after the first
NO_CANDIDATE = "~none"  # the answer had no candidate


def has_envelope(quirks: Mapping[str, Any] | None) -> bool:
    """Whether bodies are wrapped, as Gemini CLI's host has them."""
    return bool(quirks and quirks.get("envelope"))
