"""Field names and values of generateContent, and how well it supports each of our fields."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from ...values.errors import InterlinguaError, ProviderError, seconds
from ...values.losses import SupportTable, bookkeeping, dropped, kept, record, some
from ...values.messages import Extra, StopReason
from ..provider_errors import (
    as_provider_error,
    code_status,
    error_of,
    error_text,
    joined_text,
    provider_error,
    status_of,
)
from ..residual import S, json_or_text, optional, put_back, residual, whole, with_residual

API = "google-generative-ai"
APIS = frozenset({API, "google-vertex", "google-gemini-cli"})  # the wire and its variants
# ai.google.dev/api/generate-content, FinishReason.
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
# The names of numeric enum values, which older clients request. All from SAFETY on are failures.
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
# A call ends with `STOP` like a text: there is no reason for tool use (ai.google.dev/api/generate-content,
# FinishReason).
WIRE_STOP_REASONS = {"stop": "STOP", "toolUse": "STOP", "length": "MAX_TOKENS", "error": "OTHER", "aborted": "OTHER"}
# The fields of `generationConfig` that are one option each: ai.google.dev/api/generate-content, GenerationConfig.
CONFIG = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "stop": "stopSequences",
    "seed": "seed",
}
# ai.google.dev/api/caching, FunctionCallingConfig. `VALIDATED` is `AUTO` with arguments that follow the schema.
MODES: dict[str, Any] = {"AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
CHOICES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
# …, CodeExecutionResult, Outcome.
FAILED_OUTCOMES = ("OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED")
CODE = "code_execution"
JSON = "application/json"


# Fields that differ between streamed and whole answers: none.
UNEVEN: tuple[str, ...] = ()
FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text"),
    **some("TextBlock.text_signature", "not in tool results"),
    # …, Candidate: sources are metadata beside the content of an answer; contents of a request have none.
    **dropped("TextBlock.citations Citation.title Citation.url Citation.cited_text Citation.start Citation.end"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    # ai.google.dev/gemini-api/docs/caching: a cache is implicit, or an object of its own that `cachedContent` names.
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
    # ai.google.dev/api/caching, Blob and FileData: a MIME type, and data or an address.
    **dropped("DocumentBlock.title DocumentBlock.context DocumentBlock.citations"),
    **some("ToolCall.id", "an empty id is none"),
    **kept("ToolCall.name ToolCall.arguments ToolCall.thought_signature"),
    # …/api/caching, FunctionCall: `args` is a Struct, that is an object.
    **record("ToolCall.arguments_text", "arguments travel as an object, not as text"),
    **dropped("ToolCall.parse_error", "arguments travel as an object; what is none is sent as {}"),
    **some(
        "ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolResult.tool_call_id"
        " ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content ServerToolResult.is_error"
        " OpaqueBlock.dialect OpaqueBlock.value",
        "only what this wire signed",
    ),
    **dropped("OpaqueBlock.extra", "an opaque block is written as it is"),
    **some("UserMessage.content AssistantMessage.content Context.system", "a string becomes a text part"),
    **some("ToolResultMessage.content ToolResultMessage.is_error", "see `_encode_result`"),
    **some("ToolResultMessage.tool_call_id", "an empty id is none"),
    **kept("ToolResultMessage.tool_name"),
    # …/api/caching, Content: the role is `user` or `model`; the system prompt is the request's `systemInstruction`.
    **some("SystemMessage.content SystemMessage.developer", "this wire has no later system messages"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **bookkeeping(API),
    **dropped("Context.system_role", "the system prompt has no role"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema"),
    # …, FunctionDeclaration: no flag; the mode `VALIDATED` holds for all functions.
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
    **kept("Options.stream"),  # in the path, like the model
    # No field forbids calls in parallel.
    **dropped("Options.parallel_tools Options.cache_retention Options.metadata"),
    # …/api/generate-content, GenerationConfig: `responseJsonSchema` is the schema itself.
    **dropped("OutputSchema.name OutputSchema.description OutputSchema.strict"),
    **dropped("OutputSchema.extra", "the schema has no object of its own in this wire"),
}

# The same for `encode_response`.
RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **kept("AssistantMessage.response_id AssistantMessage.model"),
    **some("AssistantMessage.usage AssistantMessage.stop_reason", "see `_report_answer`"),
    **some("AssistantMessage.stop_detail AssistantMessage.response_model", "sent where the wire has a value for it"),
    **some("AssistantMessage.error_message", "sent with the stop reason"),
    **some(
        "TextBlock.citations Citation.title Citation.url Citation.cited_text Citation.start Citation.end",
        "only what the answer's own metadata contains",
    ),
    **record("Usage.cost"),
}

# Hints of this wire in `extra[API]`.
URL_SAFE = "~urlSafe"  # the data was URL-safe base64
SNAKE = "~snake"  # paths of names in snake_case
PART = "~part"  # the kind of part of a built-in call or result
KEY = "~key"  # the key of the content in a function response; null: the whole response
AS_JSON = "~json"  # text of a tool result that the wire has as a JSON value
FIELD = "~field"  # the field of a schema
UPPER = "~upper"  # its types are in upper case
ALONE = "~alone"  # fields with a single value instead of a list
TEXT = "~text"  # the system prompt was a string
LIST = "~list"  # the spelling of the list of a group of functions
MODEL = "~model"  # the body had the model, with this prefix
ENVELOPE = "~envelope"  # the fields beside the body in its envelope
PLAIN = "~plain"  # a body without its envelope
CANDIDATE = "~candidate"  # residual of the candidate that became the message
OTHERS = "~others"  # the candidates after the first
NO_CANDIDATE = "~none"  # the answer had no candidate


def has_envelope(quirks: Mapping[str, Any] | None) -> bool:
    """Whether bodies are in the envelope of Cloud Code Assist."""
    return bool(quirks and quirks.get("envelope"))


# protobuf.dev/programming-guides/json: parsers accept names in camelCase and in snake_case.


Names: TypeAlias = dict[str, tuple[str, Any]]  # any spelling -> (camelCase, names inside)


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _names(plain: str, **nested: Names) -> Names:
    inner: dict[str, Names] = {**{name: {} for name in plain.split()}, **nested}
    return {spelled: (name, inner[name]) for name in inner for spelled in (name, _snake(name))}


PART_NAMES = _names(
    "thoughtSignature functionCall functionResponse executableCode codeExecutionResult",
    inlineData=_names("mimeType"),
    fileData=_names("mimeType fileUri"),
    toolCall=_names("toolType"),
    toolResponse=_names("toolType"),
)
DECLARATION_NAMES = _names("parametersJsonSchema")
REQUEST_NAMES = _names(
    "systemInstruction serviceTier sessionId",
    toolConfig=_names("", functionCallingConfig=_names("allowedFunctionNames")),
    generationConfig=_names(
        "topP topK maxOutputTokens stopSequences responseMimeType responseSchema responseJsonSchema",
        thinkingConfig=_names("includeThoughts thinkingBudget thinkingLevel"),
    ),
)


def camel(wire: dict[str, Any], names: Names, snakes: list[str], path: str = "") -> dict[str, Any]:
    """The object with known names in camelCase; appends the paths of names in snake_case to `snakes`."""
    out: dict[str, Any] = {}
    for key, value in wire.items():
        name, inner = names.get(key, (key, None))
        if name != key:
            if name in wire:  # both spellings: this one is an unknown field
                out[key] = value
                continue
            snakes.append(path + name)
        out[name] = camel(value, inner, snakes, f"{path}{name}.") if inner and isinstance(value, dict) else value
    return out


def _restore_snake_case(place: dict[str, Any], path: list[str]) -> None:
    """Puts one name back into snake_case. Objects on the path are copied, because they may be shared."""
    name = path[0]
    if name not in place:
        return
    if len(path) == 1:
        place[_snake(name)] = place.pop(name)
    elif isinstance(place[name], dict):
        place[name] = dict(place[name])
        _restore_snake_case(place[name], path[1:])


def restored(encoded: dict[str, Any], extra: Extra) -> dict[str, Any]:
    """Puts the residual and the original spelling of names back into `encoded`."""
    extra_fields = extra.get(API)
    if extra_fields:
        put_back(encoded, extra_fields)
        respelled(encoded, extra_fields)
    return encoded


def respelled(encoded: dict[str, Any], extra_fields: Mapping[str, Any]) -> None:
    for path in reversed(extra_fields.get(SNAKE, ())):  # inner names first
        _restore_snake_case(encoded, path.split("."))


def keeping(
    value: S, wire: Mapping[str, Any], encoded: Mapping[str, Any], snakes: list[str] | None = None, **marks: Any
) -> S:
    """`residual.keeping` for this wire, with the names in snake_case and further hints."""
    extra_fields = residual(wire, encoded)
    if snakes:
        marks[SNAKE] = snakes
    return with_residual(value, API, **extra_fields, **marks) if extra_fields or marks else value


# --- errors: google.rpc.Status, cloud.google.com/apis/design/errors --------------------------------------------------


def is_error(wire: Any) -> bool:
    if isinstance(wire, list) and len(wire) == 1:
        wire = wire[0]
    return isinstance(wire, dict) and "error" in wire and "candidates" not in wire


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error response, possibly in a list of one, or the error of a stream (status 0)."""
    wire = json_or_text(body)
    # streamGenerateContent without `alt=sse` answers with an array, and so do its errors.
    first = wire[0] if isinstance(wire, list) and wire else wire
    error = error_of(first)
    found = provider_error(
        joined_text(error.get("message"), wire),
        status=status or whole(error.get("code")) or 0,
        code=_reason(error) or optional(error.get("status")),
        headers=headers,
        body=wire,
    )
    if found.retry_after is None:
        found.retry_after = _delay(error)
    return found


def _details(error: dict[str, Any]) -> list[dict[str, Any]]:
    details = error.get("details")
    return [item for item in details if isinstance(item, dict)] if isinstance(details, list) else []


def _reason(error: dict[str, Any]) -> str | None:
    """The reason in ErrorInfo that distinguishes a wrong key from other invalid arguments."""
    # google.rpc.ErrorInfo. A wrong key has the status 400, where 401 would be expected.
    return next((item["reason"] for item in _details(error) if item.get("reason") == "API_KEY_INVALID"), None)


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_TIME = r"([0-9]+(?:\.[0-9]+)?)\s*(ms|h|m|s)"
_WAIT = re.compile(rf"\b(?:reset|retry) (?:after|in) ((?:{_TIME}\s*)+)", re.IGNORECASE)


def _delay(error: dict[str, Any]) -> float | None:
    """Seconds to wait, from RetryInfo (a google.rpc.Duration, possibly negative), else from the message."""
    # google.rpc.RetryInfo; Cloud Code Assist has the time in the text only: "Your quota will reset after 39s".
    given = next((item["retryDelay"] for item in _details(error) if isinstance(item.get("retryDelay"), str)), None)
    if given is None:
        found = _WAIT.search(str(error.get("message")))
        given = found[1] if found else ""
    times = re.findall(_TIME, given.lower())
    sign = -1 if given.lstrip().startswith("-") else 1
    return seconds(sign * sum(float(amount) * _UNITS[unit] for amount, unit in times)) if times else None


# google.rpc.Code names the HTTP status of each. 413 and 529 have no name of their own.
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
# Of two statuses with one name, the one that google.rpc.Code states stands.
CODES = {name: status for status, name in reversed(STATUSES.items())}


def error_body(code: int, message: str, name: str | None) -> dict[str, Any]:
    # google-genai treats a chunk as an error only if `error` is its first key.
    return {"error": {"code": code, "message": message, **({"status": name} if name else {})}}


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    error = as_provider_error(error)
    status = status_of(error)
    name = STATUSES.get(code_status(error), "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    body = error_body(status, error_text(error, "input token count exceeds the maximum number of tokens"), name)
    if error.retry_after is not None:
        delay = f"{error.retry_after:.3f}".rstrip("0").rstrip(".")
        body["error"]["details"] = [
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{delay}s"},
        ]
    return status, body
