"""Field names, values and hints of the Interactions API, its support for each of our fields, and errors."""

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
from ..residual import json_or_text, optional, whole

API = "google-interactions"

# ai.google.dev/api/interactions-api, `Interaction.status`. Background interactions are `queued` or `in_progress`.
STOP_REASONS: dict[str, StopReason] = {
    "completed": "stop",
    "requires_action": "toolUse",
    "incomplete": "length",
    "budget_exceeded": "length",
    "requires_continuation": "length",
    "failed": "error",
    "cancelled": "aborted",
    "in_progress": "stop",
    "queued": "stop",
}
WIRE_STOP_REASONS = {
    "stop": "completed",
    "toolUse": "requires_action",
    "length": "incomplete",
    "error": "failed",
    "aborted": "cancelled",
}
RUNNING = frozenset({"in_progress", "queued"})

# Fields that differ between streamed and whole answers: only a stream has arguments as text.
UNEVEN: tuple[str, ...] = ("$.content[].argumentsText", "$.content[].parseError")

# `Content.type`; any other type is a step.
CONTENTS = frozenset({"text", "image", "audio", "document", "video"})
RESOLUTIONS = frozenset({"low", "medium", "high", "ultra_high"})
JSON = "application/json"
# The fields of `generation_config` that are one option each.
CONFIG = {
    "max_tokens": "max_output_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "stop_sequences",
    "seed": "seed",
}
# …, `ToolChoiceType`. `validated` is `auto` with arguments that follow the schema.
MODES: dict[Any, Any] = {"auto": "auto", "validated": "auto", "any": "required", "none": "none"}
CHOICES = {"auto": "auto", "required": "any", "none": "none"}
# The keys of an annotation for its title and URL.
# …, `Annotation`: a union by type, each with its own names.
CITATIONS = {
    "url_citation": ("title", "url"),
    "file_citation": ("file_name", "document_uri"),
    "place_citation": ("name", "url"),
}

# Hints of this wire in `extra[API]`.
INPUT = "~input"  # of a request: the input was a text, one content or a list of contents
AGENT = "~agent"  # of a request: the agent, named in place of a model
GENERATED = "~generated"  # the id is generated
CITATION = "~type"  # the type of a citation, if it is not that of a URL
STEP = "~step"  # residual of the `model_output` that a block begins
SHARED = "~shared"  # a block in the `model_output` of the block before it
INSIDE = "~inside"  # a result inside `user_input`
SERVER = "~server"  # a call of a built-in tool
OUTPUTS = "~outputs"  # an answer of the first revision, which had `outputs` and no steps
TURN = "~turn"  # residual of a turn of the first revision, which had a role and no type

NO_BLOCK = "this wire has no such content"
ONE_ANSWER = "answers in a row are one on this wire"

FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text TextBlock.citations Citation.title Citation.url Citation.start Citation.end"),
    **dropped("Citation.cited_text TextBlock.text_signature CacheMarker.ttl"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    # Caching is implicit, or by `cached_content`, a cache made before: no block is marked.
    **dropped("TextBlock.cache ImageBlock.cache AudioBlock.cache DocumentBlock.cache ToolCall.cache ToolSpec.cache"),
    **dropped("ServerToolCall.cache ServerToolResult.cache ToolResultMessage.cache"),
    **some("ThinkingBlock.thinking ThinkingBlock.thinking_signature", "only an answer of the model has thoughts"),
    # ai.google.dev/gemini-api/docs/interactions/thinking: a thought has a signature, and a summary only if there is
    # one.
    **dropped("ThinkingBlock.redacted", "sealed thinking is thinking without a summary"),
    **some(
        "ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id AudioBlock.data AudioBlock.mime_type"
        " AudioBlock.url AudioBlock.file_id DocumentBlock.data DocumentBlock.mime_type DocumentBlock.url"
        " DocumentBlock.file_id DocumentBlock.text",
        "media are data or a URI",
    ),
    **some("ImageBlock.detail", "a resolution is low, medium, high or ultra_high"),
    # `AudioContent`, `DocumentContent`: a MIME type, and data or a URI.
    **dropped("AudioBlock.transcript DocumentBlock.title DocumentBlock.context DocumentBlock.citations"),
    **some("ToolCall.id", "an empty id is read as none"),
    **kept("ToolCall.name ToolCall.arguments ToolCall.thought_signature"),
    # `FunctionCallStep.arguments` is an object.
    **record("ToolCall.arguments_text", "arguments travel as an object, not as text"),
    **dropped("ToolCall.parse_error", "arguments travel as an object; what is none is sent as {}"),
    **some(
        "ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolResult.tool_call_id"
        " ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content ServerToolResult.is_error"
        " OpaqueBlock.dialect OpaqueBlock.value",
        "only what this wire gave",
    ),
    **dropped("OpaqueBlock.extra", "an opaque block is written as it is"),
    **some("UserMessage.content", "a string becomes a text"),
    **some("AssistantMessage.content", ONE_ANSWER),
    **some("SystemMessage.content SystemMessage.developer", "this wire has no later system messages"),
    **some("ToolResultMessage.tool_call_id", "an empty id is read as none"),
    **some("ToolResultMessage.content", "a result is a text, or texts and media"),
    **kept("ToolResultMessage.tool_name ToolResultMessage.is_error CustomMessage.role CustomMessage.fields"),
    **bookkeeping(API),
    # …, `system_instruction` is a string.
    **some("Context.system", "the system instruction is one string"),
    **dropped("Context.system_role", "the system instruction has no role"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema"),
    # `Function`: name, description and parameters.
    **dropped("ToolSpec.strict"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.seed"),
    **kept("Options.stream Options.service_tier Options.tool_choice ToolChoice.mode"),
    **some("ToolChoice.names", "no tool at all cannot be narrowed"),
    **kept("Options.output_schema OutputSchema.schema"),
    **some("Options.reasoning Reasoning.effort Reasoning.summary", "a level, and whether there are summaries"),
    # …, `GenerationConfig`: `thinking_level` and `thinking_summaries`.
    **dropped("Reasoning.enabled Reasoning.budget", "how much to think is a level on this wire"),
    **dropped("Options.parallel_tools Options.cache_retention Options.session_id Options.metadata"),
    **dropped("OutputSchema.name OutputSchema.description OutputSchema.strict"),
    **dropped(
        "Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra",
        "what only this wire has in a request goes into the request's extra",
    ),
}

RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **kept("AssistantMessage.usage AssistantMessage.response_id AssistantMessage.timestamp AssistantMessage.content"),
    **some(
        "AssistantMessage.stop_reason AssistantMessage.stop_detail AssistantMessage.error_message",
        "sent as the value that the wire has",
    ),
    **some("AssistantMessage.model AssistantMessage.response_model", "the wire names only the model that answered"),
    **kept("Usage.input Usage.output Usage.cache_read Usage.reasoning Usage.total_tokens"),
    **some("Usage.cache_write", "the wire does not count it"),
    **record("Usage.cost"),
}


# Errors: `{"error": {"code": …, "message": …}}`, in responses and events. The code is a string; errors of the API front
# end have a number, and the string as `status`, as in google.rpc.Status.
CODES = {
    400: "invalid_request",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    413: "request_too_large",
    429: "resource_exhausted",
    499: "cancelled",
    503: "unavailable",
    504: "deadline_exceeded",
    529: "unavailable",
}


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error response, or the error event of a stream (status 0)."""
    wire = json_or_text(body)
    error = error_of(wire[0] if isinstance(wire, list) and wire else wire)
    return provider_error(
        joined_text(error.get("message"), wire),
        status=status or whole(error.get("code")) or 0,
        code=optional(error.get("code")) or optional(error.get("status")),
        headers=headers,
        body=wire,
    )


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    given = as_provider_error(error)
    status = status_of(given)
    code = CODES.get(code_status(given), "internal" if status >= 500 else "invalid_request")
    return status, {"error": {"message": error_text(given), "code": code}}
