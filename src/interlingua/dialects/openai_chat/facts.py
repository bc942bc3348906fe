"""Field names, values and hints of Chat Completions, its support for each of our fields, usage and errors."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields as struct_fields

from ...values import jsontext
from ...values.errors import FormatError, ProviderError
from ...values.losses import Support, SupportTable, bookkeeping, dropped, kept, record, some
from ...values.messages import Cost, StopReason, Usage
from ...values.request import ModelDescriptor
from ..provider_errors import azure_code, provider_error
from ..residual import MESSAGE, RESPONSE, count, fields_of, json_or_text, keeping, number, optional, restored, whole

API = "openai-completions"

# The fields in which hosts put thinking, in the order in which they are read.
# The API reference has no field for thinking. `reasoning_content`: DeepSeek
# (api-docs.deepseek.com/guides/reasoning_model), xAI, Z.AI; `reasoning`: OpenRouter, Groq, Cerebras, Ollama.
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
DETAILS = "reasoning_details"
# The fields with content of an assistant message, in the order of decoding.
TRACKS = (*THOUGHTS, DETAILS, "content", "refusal", "audio", "images", "function_call", "tool_calls")
RANKS = {track: rank for rank, track in enumerate(TRACKS)}

# Hints of this wire in `extra[API]`: how a value was written, where the wire has several ways.
PARTS = "~parts"  # of an assistant message: its content is a list, though a string could express it
REPEATS = "~repeats"  # of an assistant message: the thinking fields that repeat the text of `reasoning_details`
INDEXED = "~indexed"  # of a whole answer: its calls have an `index`, as in streams
PART = "~part"  # of a block: it is a part of `content`, not a field of the message
FIELDS = "~fields"  # of thinking: the names of the fields that have it
DETAIL = "~detail"  # of thinking: the type of its item in `reasoning_details`
AS = "~as"  # of a part, a marker or an option: the less common of its forms
PLAIN = "~plain"  # of a part: a bare string in the place of an object
PREFIX = "~prefix"  # of media: an unusual beginning of the data URL
SPLIT = "~split"  # of thinking: the lengths of its chunks
OBJECT = "~object"  # of a call: arguments that are an object, not JSON text
CUSTOM = "~custom"  # of a call: it calls a custom tool, with free text
FLAT = "~flat"  # of a call that has no `function`: the key of its arguments
CHOICE = "~choice"  # of an answer: further fields of the choice
CHOICES = "~choices"  # of an answer: the choices after the first
NONE = "~none"  # of an answer: it has no choice
NO_MESSAGE = "~unsaid"  # of an answer: the choice has no message
# Options that are one field each; hosts have several names for the others.
SAMPLING = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k"}
# platform.openai.com/docs/api-reference/chat/create, `prompt_cache_key`: requests with one key reach one cache.
SERVICE = {"session_id": "prompt_cache_key", "service_tier": "service_tier"}

CACHE, BREAKPOINT = "cache_control", "prompt_cache_breakpoint"
MEDIA_RULE = "a part has one source: data with its type, a URL or, for files, an id"

# platform.openai.com/docs/api-reference/chat/object, `finish_reason`; and values of hosts: `model_length` (Mistral),
# `insufficient_system_resource` (DeepSeek), `sensitive`, `network_error` and `model_context_window_exceeded` (Z.AI).
STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "eos": "stop",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "length": "length",
    "model_length": "length",
    "content_filter": "error",
    "sensitive": "error",
    "error": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
    "model_context_window_exceeded": "error",  # the conversation does not fit: an overflow, not a short answer
}

# Fields that differ between streamed and whole answers, as paths into the message: a stream has another `object` and an
# `index` in all calls and details, as some hosts have in whole answers; one host has a `delta` beside the message.
UNEVEN: tuple[str, ...] = (
    f"$.content[].extra.{API}.~.index",
    f"$.extra.{API}.{RESPONSE}.~.object",
    f"$.extra.{API}.{RESPONSE}.{MESSAGE}.{INDEXED}",
    f"$.extra.{API}.{RESPONSE}.{CHOICE}.delta",
    f"$.extra.{API}.{RESPONSE}.{CHOICES}",
    f"$.extra.{API}.{RESPONSE}.{NO_MESSAGE}",
)

FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text TextBlock.refusal TextBlock.cache CacheMarker.ttl"),
    **some("TextBlock.citations", "sources belong to the first text of an assistant message"),
    **kept("Citation.title Citation.url Citation.cited_text Citation.start Citation.end"),
    **some("TextBlock.text_signature", "sent for the first text of an assistant message"),
    **some("ThinkingBlock.thinking", "sealed thinking has no text; blank thinking is not sent"),
    **kept("ThinkingBlock.thinking_signature ThinkingBlock.redacted"),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.detail", MEDIA_RULE),
    # …/chat/create, `messages`: `image_url` has a URL or a data URL, `file` has `file_id` or `file_data` with a
    # `filename`.
    **some("ImageBlock.file_id", "a picture is data or a URL"),
    **kept("ImageBlock.cache"),
    **some("AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.cache", MEDIA_RULE),
    # platform.openai.com/docs/guides/audio: an assistant message has `audio` with only the id of an earlier answer.
    **some("AudioBlock.file_id AudioBlock.transcript", "only for the sound of an answer"),
    **some("DocumentBlock.data DocumentBlock.mime_type DocumentBlock.text DocumentBlock.url", MEDIA_RULE),
    **some("DocumentBlock.file_id DocumentBlock.title", MEDIA_RULE),
    **kept("DocumentBlock.cache"),
    # …/chat/create, `messages`: a file has data or an id, and a name.
    **dropped("DocumentBlock.context DocumentBlock.citations"),
    **some("ToolCall.id", "an empty id is read as none"),
    **kept("ToolCall.name ToolCall.arguments ToolCall.arguments_text ToolCall.parse_error ToolCall.cache"),
    **kept("ToolCall.thought_signature"),
    **some(
        "ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolCall.cache"
        " ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content"
        " ServerToolResult.is_error ServerToolResult.cache",
        "this wire does not show what the provider's own tools do; the block is dropped",
    ),
    **some("OpaqueBlock.dialect OpaqueBlock.value", "only what this wire signed"),
    **kept("UserMessage.content SystemMessage.developer"),
    **some("AssistantMessage.content", "kinds have their own places: order and borders between blocks may change"),
    **some("SystemMessage.content", "a first system message is the system prompt"),
    **bookkeeping(API),
    **some("ToolResultMessage.tool_call_id", "an empty id is read as none"),
    **some("ToolResultMessage.content", "a string is read as one text"),
    **kept("ToolResultMessage.cache"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    # …/chat/create, tool message: `content` and `tool_call_id`.
    "ToolResultMessage.is_error": Support("dropped", "a tool message has no error flag", False),
    **some("Context.system_role", "`developer` is sent where the host has that role"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema ToolSpec.cache"),
    **some("ToolSpec.strict", "where the host knows strict schemas"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.seed"),
    **kept("Options.parallel_tools Options.session_id Options.service_tier Options.metadata Options.stream"),
    # …/chat/create, `prompt_cache_retention`: `in_memory` or `24h`; no value turns the cache off.
    **some("Options.cache_retention", "only that caches be kept for long"),
    **some("Options.reasoning Options.tool_choice Options.output_schema", "see their fields"),
    **some(
        "Reasoning.effort Reasoning.budget Reasoning.enabled",
        "a named effort, a budget or a switch, as the host has it",
    ),
    # Summaries are of the Responses API: a chat request has only `reasoning_effort`.
    **dropped("Reasoning.summary"),
    **kept("ToolChoice.mode"),
    # …, `tool_choice`: `allowed_tools` has a mode and a list of tools; a single function has a form of its own.
    **some("ToolChoice.names", "names narrow a choice that allows tools"),
    **kept("OutputSchema.schema"),
    **some(
        "OutputSchema.name OutputSchema.description OutputSchema.strict", "only beside a schema, which needs a name"
    ),
    **dropped(
        "Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra",
        "what only this wire has in a request goes into the request's extra",
    ),
}

RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **kept("AssistantMessage.usage AssistantMessage.response_id"),
    **some("AssistantMessage.model AssistantMessage.response_model", "one of them is sent"),
    **some("AssistantMessage.stop_reason AssistantMessage.stop_detail", "sent where the wire has a value for it"),
    **some("AssistantMessage.error_message", "sent where no value of the wire shows it"),
    # …/chat/object: `created` is in seconds.
    **some("AssistantMessage.timestamp", "written in whole seconds"),
    **kept("Usage.input Usage.output Usage.cache_read Usage.cache_write Usage.total_tokens Usage.reasoning Usage.cost"),
    **kept("Cost.input Cost.output Cost.total"),
    # OpenRouter's `cost` is a number, Perplexity's has parts: neither has one for the cache.
    **record("Cost.cache_read Cost.cache_write Cost.extra", "the price of the cache is not separate"),
}


# --- differences of hosts --------------------------------------------------------------------------------------------


class Compat(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a host differs from OpenAI's own service. The JSON names are those of `ModelDescriptor.compat`."""

    # platform.openai.com/docs/api-reference/chat/create, `store`: whether OpenAI keeps the answer. Other hosts refuse
    # the field.
    supports_store: bool | None = None  # True: send `store: false`
    supports_developer_role: bool | None = None  # True: send `developer` to reasoning models; False: never
    supports_reasoning_effort: bool = True
    reasoning_effort_map: dict[str, str | None] = {}  # our effort, or `off`, -> the host's value; null: none
    # …, `stream_options`: without `include_usage`, a stream has no usage. Some hosts refuse the field.
    supports_usage_in_streaming: bool = True
    # …/chat/create: `max_tokens` is deprecated and refused by o-series models; most other hosts know only that name.
    max_tokens_field: str = "max_completion_tokens"
    # docs.mistral.ai/api: the seed is called `random_seed`.
    seed_field: str = "seed"
    requires_tool_result_name: bool = False
    requires_content: bool = False  # an empty text in place of null, beside tool calls
    # openai: reasoning_effort · openrouter: reasoning{effort, max_tokens, enabled} · zai: thinking{type}
    # deepseek: thinking{type} and reasoning_effort · qwen: enable_thinking · qwen-chat-template: the same, nested
    thinking_format: str = "openai"
    supports_strict_mode: bool = True
    supports_long_cache_retention: bool = True
    open_router_routing: dict[str, Any] = {}
    vercel_gateway_routing: dict[str, Any] = {}
    reasoning_field: str = "reasoning_content"
    usage_includes_reasoning: bool | None = None  # whether completion_tokens include reasoning; None: by the total
    path: str = "/chat/completions"  # {model} is replaced by the model id


PLAIN_HOST = Compat()
_COMPAT_NAMES = frozenset(field.encode_name for field in struct_fields(Compat))


def compat_of(quirks: Mapping[str, Any] | None, model: ModelDescriptor | None = None) -> Compat:
    """The quirks of the variant, overridden by the `compat` of the model."""
    if not quirks and (model is None or not model.compat):
        return PLAIN_HOST
    fields = {**(quirks or {}), **((model and model.compat) or {})}
    named = fields.keys() & _COMPAT_NAMES
    if not named:
        return PLAIN_HOST
    try:
        return convert({name: fields[name] for name in named}, Compat)
    except ValidationError as error:
        raise FormatError(str(error), "$.model.compat") from None


# --- usage and cost --------------------------------------------------------------------------------------------------


def find_usage(envelope: Mapping[str, Any], choice: Mapping[str, Any]) -> Any:
    """The usage object: Groq also has it in `x_groq`, in some streams only there; Moonshot in the choice."""
    return envelope.get("usage") or fields_of(envelope.get("x_groq")).get("usage") or choice.get("usage")


# platform.openai.com/docs/api-reference/chat/object, `usage`: prompt_tokens includes cached tokens, completion_tokens
# includes reasoning. Hosts differ, which only the sum shows: see the branches.
def decode_usage(wire: Any, compat: Compat) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    if wire.keys() == _COUNTS and set(map(type, wire.values())) == {int}:
        prompt, output, total = (wire[name] for name in _COUNTS)
        if total == prompt + output:  # as local servers count: nothing is left for a residual
            return Usage(input=prompt, output=output, cache_read=0, cache_write=0, total_tokens=total)
    prompt, output = count(wire, "prompt_tokens"), count(wire, "completion_tokens")
    total = whole(wire.get("total_tokens"))
    read, written = _cached(wire)
    if max(read, written) > prompt or (read + written and total == prompt + output + read + written):
        prompt += read + written  # this host does not include the cache in the prompt
    elif read + written > prompt:
        written = 0  # this host includes cache writes in cache reads
    reasoning = whole(fields_of(wire.get("completion_tokens_details")).get("reasoning_tokens"))
    if reasoning:
        # Google Cloud, "Reasoning for Grok models": `reasoning_tokens` is apart from `completion_tokens`; the total has
        # both.
        is_apart = total == prompt + output + reasoning
        if compat.usage_includes_reasoning is not None:
            is_apart = not compat.usage_includes_reasoning
        output += reasoning if is_apart else 0
    usage = Usage.of(
        prompt - read - written,
        output,
        cache_read=read,
        cache_write=written,
        total_tokens=total,
        reasoning=reasoning,
        cost=_decode_cost(wire.get("cost")),
    )
    return keeping(usage, API, wire, encode_usage(usage, compat))


_COUNTS = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens")).keys()


def _cached(wire: Mapping[str, Any]) -> tuple[int, int]:
    """Cache reads and writes, under the names of each host."""
    details = fields_of(wire.get("prompt_tokens_details"))
    read = count(details, "cached_tokens")
    # DeepSeek: `prompt_cache_hit_tokens` (its misses are the rest); Moonshot: `cached_tokens` beside the counts;
    # LiteLLM and routers keep Anthropic's `cache_read_input_tokens`.
    for name in ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens"):
        read = read or count(wire, name)
    return read, count(details, "cache_write_tokens") or count(wire, "cache_creation_input_tokens")


def _decode_cost(wire: Any) -> Cost | None:
    """The cost in dollars: a number, or an object with its parts."""
    parts = wire if isinstance(wire, dict) else {"total_cost": wire}
    total, spent, made = (number(parts.get(f"{name}_cost")) for name in ("total", "input_tokens", "output_tokens"))
    return None if total is None else Cost(total=total, input=spent, output=made)


def encode_usage(usage: Usage, compat: Compat) -> dict[str, Any]:
    output = usage.output
    if usage.reasoning and compat.usage_includes_reasoning is False:
        output -= usage.reasoning
    wire: dict[str, Any] = {
        "prompt_tokens": usage.input + usage.cache_read + usage.cache_write,
        "completion_tokens": output,
        "total_tokens": usage.total_tokens,
    }
    if usage.cache_read or usage.cache_write:
        wire["prompt_tokens_details"] = {"cached_tokens": usage.cache_read}
        if usage.cache_write:
            wire["prompt_tokens_details"]["cache_write_tokens"] = usage.cache_write
    if usage.reasoning is not None:
        wire["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    if usage.cost is not None:
        cost = usage.cost
        parts = {"input_tokens_cost": cost.input, "output_tokens_cost": cost.output, "total_cost": cost.total}
        has_parts = cost.input is not None or cost.output is not None
        wire["cost"] = {k: v for k, v in parts.items() if v is not None} if has_parts else cost.total
    return restored(wire, usage.extra, API) if usage.extra else wire


# --- errors: platform.openai.com/docs/guides/error-codes -------------------------------------------------------------


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error response, an error inside a stream (status 0), or one with status 200."""
    wire = json_or_text(body)
    given = wire[0] if isinstance(wire, list) and wire else wire  # Google's compatible endpoint wraps it in a list
    # OpenAI has an object; hosts have a text, or the fields of the object at the top.
    error = given.get("error") if isinstance(given, dict) else None
    if not isinstance(error, dict):
        error = (
            {"message": error} if isinstance(error, str) else given if isinstance(given, dict) else {"message": given}
        )
    message = error.get("message") or error.get("detail")
    text = message if isinstance(message, str) else jsontext.compact(message or wire) if wire else ""
    # OpenRouter has the error body of the provider in `metadata.raw`.
    raw = fields_of(error.get("metadata")).get("raw")
    if raw:
        text = f"{text}: {raw if isinstance(raw, str) else jsontext.compact(raw)}"
    code = error.get("code")
    # openrouter.ai/docs/api/reference/errors-and-debugging: an error during the answer has HTTP status 200, and its own
    # status in `code`.
    if isinstance(code, int) and not isinstance(code, bool) and status in (0, 200):
        status = code if 400 <= code < 600 else status
    return provider_error(
        text,
        status=status,
        code=optional(code) or azure_code(error) or optional(error.get("type")) or (str(code) if code else None),
        headers=headers,
        body=wire,
    )
