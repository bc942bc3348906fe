"""Field names, values and hints of the Responses API, its support for each of our fields, and errors."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from ...values import jsontext
from ...values.errors import ProviderError
from ...values.losses import SupportTable, bookkeeping, dropped, kept, record, some
from ...values.messages import StopReason
from ..provider_errors import azure_code, provider_error
from ..residual import json_or_text, optional

API = "openai-responses"

# platform.openai.com/docs/api-reference/responses/object: `status`, or `incomplete_details.reason` if it is incomplete.
STOP_REASONS: dict[str, StopReason] = {
    "completed": "stop",
    "in_progress": "stop",
    "queued": "stop",
    "incomplete": "length",
    "failed": "error",
    "cancelled": "aborted",
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "error",
}
# Of these the reference has `max_output_tokens` and `content_filter`; `max_messages` came from a host.
REASONS = frozenset({"max_output_tokens", "max_messages", "content_filter"})
WIRE_STOP_REASONS = {"length": "max_output_tokens", "error": "failed", "aborted": "cancelled"}
# Options that are one field each.
# platform.openai.com/docs/api-reference/responses/create. Unlike Chat Completions, it has no `stop` and no `seed`.
OPTIONS = {
    "parallel_tools": "parallel_tool_calls",
    "max_tokens": "max_output_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
}
SERVICE = {"session_id": "prompt_cache_key", "service_tier": "service_tier"}
# `in-memory` is the spelling of older versions of the reference.
RETENTIONS: dict[Any, Literal["short", "long"]] = {"24h": "long", "in_memory": "short", "in-memory": "short"}

# Calls that the provider executes: our name of the tool (None: in the item), and the field with the arguments.
# …/responses/object, `output`: each of OpenAI's tools has an item type of its own, with its own name for what is asked.
# `x_search_call` is xAI's (docs.x.ai/docs/guides/tools).
SERVER_CALLS: dict[str, tuple[str | None, str | None]] = {
    "web_search_call": ("web_search", "action"),
    "file_search_call": ("file_search", "queries"),
    "code_interpreter_call": ("code_interpreter", "code"),
    "image_generation_call": ("image_generation", None),
    "tool_search_call": ("tool_search", "arguments"),
    "x_search_call": ("x_search", "arguments"),
    "mcp_call": (None, "arguments"),
}
AS_TEXT = frozenset({"mcp_call", "x_search_call"})  # arguments are JSON text
# Items of the client beside messages and results; all others are of the model.
CLIENTS = frozenset(
    {
        "computer_call_output",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        "mcp_approval_response",
        "additional_tools",
        "configuration_update",
        "compaction_trigger",
    }
)
# Items whose `status` is refused as input: "Unknown parameter: 'input[3].status'".
HIDDEN = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})
NULLS = frozenset(
    {"content", "encrypted_content", "phase", "namespace", "caller", "logprobs"}
)  # fields that are refused as input if null
# A custom tool takes a text: our argument `input`.
CUSTOM = "custom_tool_call"
# Both have `call_id` and `output`; the type must be that of the call.
RESULTS = ("function_call_output", "custom_tool_call_output")
# The keys of an annotation for its title, start and end.
# …/responses/object, `annotations`: a `file_citation` has one `index` in place of a range.
CITATIONS: dict[str, tuple[str | None, str | None, str | None]] = {
    "url_citation": ("title", "start_index", "end_index"),
    "container_file_citation": ("filename", "start_index", "end_index"),
    "file_citation": ("filename", None, None),
}

# Hints of this wire in `extra[API]`.
STRING = "~string"  # of a message item: whether its content was a string
PARTS = "~parts"  # of a message item: unknown parts with their indexes
SUMMARY = "~summary"  # of thinking: lengths of the parts of the summary
CONTENT = "~content"  # of thinking: lengths of the parts of the content
ITEM = "~item"  # of a user message: its block is an item, not a part
INPUT = "~input"  # of a request: the input was a string
TEXT = "~text"  # of a request: `text` where it asks for nothing
FORM = "~type"  # of a tool choice or a call: the less common of two forms

# Fields that differ between streamed and whole answers: none.
UNEVEN: tuple[str, ...] = ()

FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text Citation.title Citation.url Citation.start Citation.end"),
    # `refusal` and `output_text` with annotations are parts of output messages; input has `input_text`, `input_image`,
    # `input_file`.
    **some("TextBlock.refusal TextBlock.citations", "answers have them, and citations need a URL; input has neither"),
    # …/responses/create: `prompt_cache_breakpoint` is a field of the parts of input.
    **some("TextBlock.cache", "input can be marked, answers cannot"),
    **dropped("Citation.cited_text TextBlock.text_signature"),
    **kept("CacheMarker.ttl"),
    **kept("ThinkingBlock.thinking ThinkingBlock.thinking_signature"),
    # …/guides/reasoning: `encrypted_content` is there beside a summary or without one: there is no other kind of item.
    **dropped("ThinkingBlock.redacted", "sealed reasoning is reasoning without a summary"),
    **some(
        "ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id ImageBlock.detail ImageBlock.cache"
        " DocumentBlock.data DocumentBlock.mime_type DocumentBlock.url DocumentBlock.file_id DocumentBlock.title"
        " DocumentBlock.text DocumentBlock.cache AudioBlock.data AudioBlock.mime_type",
        "only in input, where a file is data or a reference, and only data has a type",
    ),
    **some("AudioBlock.url AudioBlock.file_id AudioBlock.cache", "sounds are data, and nothing else"),
    **dropped("AudioBlock.transcript DocumentBlock.context DocumentBlock.citations"),
    **kept("ToolCall.id ToolCall.name ToolCall.arguments ToolCall.arguments_text ToolCall.parse_error"),
    **dropped("ToolCall.thought_signature ToolCall.cache"),
    **some(
        "ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolCall.cache OpaqueBlock.dialect"
        " OpaqueBlock.value ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect"
        " ServerToolResult.content ServerToolResult.is_error ServerToolResult.cache",
        "only what this wire signed",
    ),
    **some("AssistantMessage.content", "answers in a row are one: the wire has nothing between them"),
    **some("SystemMessage.content", "the first one is the system prompt where there is no other"),
    **kept("UserMessage.content SystemMessage.developer CustomMessage.role CustomMessage.fields"),
    **bookkeeping(API),
    **kept("ToolResultMessage.tool_call_id ToolResultMessage.content"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    # …/responses/create, `input`: `function_call_output` has no flag; its `status` is no verdict on the tool.
    **some("ToolResultMessage.is_error", "an error is written into the text of the result"),
    **dropped("ToolResultMessage.cache"),
    **some("Context.system_role", "only a message has a role, and there may be none"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema ToolSpec.strict"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    # …/guides/prompt-caching: tools are part of the prefix that is cached, without a marker of their own.
    **dropped("ToolSpec.cache"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.parallel_tools Options.session_id"),
    **kept("Options.service_tier Options.metadata Options.stream Options.tool_choice Options.reasoning"),
    **kept("Options.output_schema ToolChoice.mode Reasoning.summary OutputSchema.schema"),
    **some("ToolChoice.names", "no tool at all cannot be narrowed"),
    **some("Reasoning.effort Reasoning.enabled", "one value means both"),
    **some("OutputSchema.name OutputSchema.description OutputSchema.strict", "only of a schema, not of any object"),
    **some("Options.cache_retention", "only that caches be kept for long"),
    **dropped("Options.top_k Options.stop Options.seed Reasoning.budget"),
    **dropped(
        "Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra",
        "what only this wire has in a request goes into the request's extra",
    ),
}

Mint: TypeAlias = Callable[[int], str]


RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **kept("AssistantMessage.usage AssistantMessage.response_id AssistantMessage.timestamp AssistantMessage.content"),
    **some(
        "AssistantMessage.stop_reason AssistantMessage.stop_detail AssistantMessage.error_message",
        "sent as the value that the wire has",
    ),
    **some("AssistantMessage.model AssistantMessage.response_model", "the wire names only the model that answered"),
    **kept("Usage.cost Cost.total"),
    **record("Cost.input Cost.output Cost.cache_read Cost.cache_write", "the wire has only the total"),
}


# --- errors: platform.openai.com/docs/guides/error-codes -------------------------------------------------------------


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error response, or the error event of a stream (status 0)."""
    wire = json_or_text(body)
    # …/responses-streaming/error: an error event has `code`, `message` and `param` at its top, an error body under
    # `error`.
    error = wire.get("error") if isinstance(wire, dict) else None
    if not isinstance(error, dict):
        error = wire if isinstance(wire, dict) else {}
    message = error.get("message")
    if not isinstance(message, str):
        given = wire.get("error", wire.get("detail")) if isinstance(wire, dict) else wire
        message = given if isinstance(given, str) else jsontext.compact(wire) if wire else ""
    code = optional(error.get("code")) or azure_code(error)
    if code is None and error.get("type") != "error":
        code = optional(error.get("type"))
    return provider_error(message, status=status, code=code, headers=headers, body=wire)
