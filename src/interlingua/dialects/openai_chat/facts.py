"""What Chat Completions has: its words, its places, our hints about them, and what becomes of each of our fields."""

from ...values.losses import Support, SupportTable, bookkeeping, dropped, kept, record, some
from ...values.messages import StopReason
from ..residual import MESSAGE, RESPONSE

API = "openai-completions"

# Where hosts put the words of the model's thinking; a message that has several is read in this order.
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
DETAILS = "reasoning_details"
# The places of an assistant message, in the order in which a whole one is read.
TRACKS = (*THOUGHTS, DETAILS, "content", "refusal", "audio", "images", "function_call", "tool_calls")
RANKS = {track: rank for rank, track in enumerate(TRACKS)}

PARTS, REPEATS, INDEXED = "~parts", "~repeats", "~indexed"
PART, FIELDS, DETAIL, AS, PLAIN, PREFIX, SPLIT = "~part", "~fields", "~detail", "~as", "~plain", "~prefix", "~split"
OBJECT, CUSTOM, GENERATED, CHOICE, CHOICES, NONE = "~object", "~custom", "~minted", "~choice", "~choices", "~none"
UNSAID = "~unsaid"  # the choice has no message at all
FILTERED = "content_filter"

CACHE, BREAKPOINT = "cache_control", "prompt_cache_breakpoint"
MEDIA_RULE = "a part has one source: data with its type, a URL or, for files, an id"

STRINGS = frozenset({*THOUGHTS, "content", "refusal"})

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
    "model_context_window_exceeded": "error",  # the conversation did not fit: the word is what tells an overflow
}
WIRE_STOP_REASONS = {"stop": "stop", "toolUse": "tool_calls", "length": "length", "error": "error", "aborted": "stop"}
PIECES = "~pieces"  # what came of a string that is still growing, beside the keys of its object

# What only one form of an answer carries, as paths into the message: a stream has its own word for `object` and numbers
# all calls and details, as some hosts do in whole answers; one host puts a `delta` beside the message of a whole one.
UNEVEN: tuple[str, ...] = (
    f"$.content[].extra.{API}.~.index",
    f"$.extra.{API}.{RESPONSE}.~.object",
    f"$.extra.{API}.{RESPONSE}.{MESSAGE}.{INDEXED}",
    f"$.extra.{API}.{RESPONSE}.{CHOICE}.delta",
    f"$.extra.{API}.{RESPONSE}.{CHOICES}",
    f"$.extra.{API}.{RESPONSE}.{UNSAID}",
)

FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text TextBlock.refusal TextBlock.cache CacheMarker.ttl"),
    **some("TextBlock.citations", "sources belong to the first text of an assistant message"),
    **kept("Citation.title Citation.url Citation.cited_text Citation.start Citation.end"),
    **some("TextBlock.text_signature", "carried for the first text of an assistant message"),
    **some("ThinkingBlock.thinking", "sealed thinking has no words; blank thinking is not said"),
    **kept("ThinkingBlock.thinking_signature ThinkingBlock.redacted"),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.detail", MEDIA_RULE),
    **some("ImageBlock.file_id", "a picture is data or a URL"),
    **kept("ImageBlock.cache"),
    **some("AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.cache", MEDIA_RULE),
    **some("AudioBlock.file_id AudioBlock.transcript", "only for the sound of an answer"),
    **some("DocumentBlock.data DocumentBlock.mime_type DocumentBlock.text DocumentBlock.url", MEDIA_RULE),
    **some("DocumentBlock.file_id DocumentBlock.title", MEDIA_RULE),
    **kept("DocumentBlock.cache"),
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
    **some("OpaqueBlock.dialect OpaqueBlock.value", "only what this wire minted"),
    **kept("UserMessage.content SystemMessage.developer"),
    **some("AssistantMessage.content", "kinds have their own places: order and borders between blocks may change"),
    **some("SystemMessage.content", "a first system message is the system prompt"),
    **bookkeeping(API),
    **some("ToolResultMessage.tool_call_id", "an empty id is read as none"),
    **some("ToolResultMessage.content", "a string is read as one text"),
    **kept("ToolResultMessage.cache"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    "ToolResultMessage.is_error": Support("dropped", "a tool message cannot say that it is an error", False),
    **some("Context.system_role", "`developer` is said, where the host knows that role"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema ToolSpec.cache"),
    **some("ToolSpec.strict", "where the host knows strict schemas"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.seed"),
    **kept("Options.parallel_tools Options.session_id Options.service_tier Options.metadata Options.stream"),
    **some("Options.cache_retention", "only that caches be kept for long"),
    **some("Options.reasoning Options.tool_choice Options.output_schema", "see their fields"),
    **some(
        "Reasoning.effort Reasoning.budget Reasoning.enabled",
        "an effort word, a budget or a switch, as the host has it",
    ),
    **dropped("Reasoning.summary"),
    **kept("ToolChoice.mode"),
    **some("ToolChoice.names", "names narrow a choice that allows tools"),
    **kept("OutputSchema.schema"),
    **some(
        "OutputSchema.name OutputSchema.description OutputSchema.strict", "only beside a schema, which needs a name"
    ),
    **dropped(
        "Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra",
        "what only this wire can say of a request goes into the request's extra",
    ),
}

RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **kept("AssistantMessage.usage AssistantMessage.response_id"),
    **some("AssistantMessage.model AssistantMessage.response_model", "one of them is said"),
    **some("AssistantMessage.stop_reason AssistantMessage.stop_detail", "said where the wire knows the word"),
    **some("AssistantMessage.error_message", "said where no word of the wire tells"),
    **some("AssistantMessage.timestamp", "told in whole seconds"),
    **kept("Usage.input Usage.output Usage.cache_read Usage.cache_write Usage.total_tokens Usage.reasoning Usage.cost"),
    **kept("Cost.input Cost.output Cost.total"),
    **record("Cost.cache_read Cost.cache_write Cost.extra", "the price of the cache is not told apart"),
}
