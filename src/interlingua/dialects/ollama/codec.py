"""Ollama's chat API: the codec of `POST /api/chat`. github.com/ollama/ollama/blob/main/docs/api.md

Differences from our format:

- a message has one text, one thinking text, a list of base64 images and a list of calls, without an order between them;
  they are decoded as thinking, text, images, calls;
- calls and results often have no ids: they are generated, paired by occurrence within the turn, and never sent back;
- arguments are objects; calls in OpenAI's shape, with arguments as text, are kept in that shape.

A stream is newline-delimited JSON: partial answers, the last one with `done`; calls are never split. The decoder
assembles the wire's whole answer and decodes that.
"""

import base64
import binascii
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, InterlinguaError, ProviderError
from ...values.folding import CUT_OFF, arguments_text, parse_arguments
from ...values.losses import (
    QUIET,
    REPLACED,
    SYSTEM,
    Reporter,
    SupportTable,
    bookkeeping,
    dropped,
    kept,
    repaired_arguments,
    some,
)
from ...values.messages import (
    AssistantMessage,
    Block,
    Content,
    CustomMessage,
    ImageBlock,
    Message,
    OpaqueBlock,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    blocks_of,
    text_of,
)
from ...values.request import (
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    System,
)
from ..codec import (
    ANSWER,
    CONTEXT,
    USER,
    Given,
    Quirks,
    conversation_codec,
    decode_function_tool,
    encode_function_tool,
    is_usual,
    read_options,
    report_first_system,
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
    write_options,
)
from ..framing import Frame, ndjson_framing, write_ndjson
from ..provider_errors import as_provider_error, error_text, joined_text, provider_error, status_of
from ..residual import (
    GENERATED,
    RESPONSE,
    Ids,
    Mint,
    an_object,
    count,
    decode_time,
    decode_tools,
    each,
    encode_time,
    encode_tools,
    fields_of,
    json_or_text,
    keeping,
    keeping_response,
    model_names,
    named,
    optional,
    own_path,
    own_stop_reason,
    put_back,
    reason_for,
    residual,
    residual_of,
    restored,
    whole,
    with_residual,
)
from ..results import Layout, OpenCalls, gathered
from ..results import encoded as encode_gathered
from ..streaming import Decoder, Encoder

API = "ollama-chat"
LAYOUT = Layout(API, mixed=False, strings=True)

# `load` and `unload` answer a request without messages. `error` is not a value of the wire, which has an error line.
STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "load": "stop",
    "unload": "stop",
    "error": "error",
}
WIRE_STOP_REASONS = {"stop": "stop", "toolUse": "stop", "length": "length", "error": "error", "aborted": "stop"}

UNEVEN: tuple[str, ...] = ()  # streamed and whole answers have the same fields

_WHOLE = "the wire has one text, one thinking, pictures and calls, in this order"
_NO_BLOCK = "this wire has no such block"
FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text"),
    # api/types.go, Message: strings, bare data and calls, so no other fields of ours have a place.
    **dropped("TextBlock.text_signature TextBlock.citations TextBlock.cache"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    **dropped("Citation.title Citation.url Citation.cited_text Citation.start Citation.end CacheMarker.ttl"),
    **kept("ThinkingBlock.thinking"),
    # …: `thinking` is a string, sent back as it came.
    **dropped("ThinkingBlock.thinking_signature"),
    **some("ThinkingBlock.redacted", "redacted thinking has no text"),
    **some("ImageBlock.data ImageBlock.url ImageBlock.file_id", "pictures are sent as data only"),
    # api/types.go, ImageData: bytes, in JSON as base64.
    **some("ImageBlock.mime_type", "pictures are bare data; their type is read from it"),
    **dropped("ImageBlock.detail ImageBlock.cache"),
    **some(
        "AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.file_id AudioBlock.transcript AudioBlock.cache",
        _NO_BLOCK,
    ),
    **some(
        "DocumentBlock.data DocumentBlock.mime_type DocumentBlock.text DocumentBlock.url DocumentBlock.file_id"
        " DocumentBlock.title DocumentBlock.context DocumentBlock.citations DocumentBlock.cache",
        _NO_BLOCK,
    ),
    **some("ToolCall.id", "no id is sent where none is known"),
    **kept("ToolCall.name ToolCall.arguments"),
    **some("ToolCall.arguments_text ToolCall.parse_error", "only calls in OpenAI's shape have arguments as text"),
    **dropped("ToolCall.thought_signature ToolCall.cache"),
    **some("ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolCall.cache", _NO_BLOCK),
    **some(
        "ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content"
        " ServerToolResult.is_error ServerToolResult.cache",
        _NO_BLOCK,
    ),
    **some("OpaqueBlock.dialect OpaqueBlock.value", "only what this wire signed"),
    **some(
        "UserMessage.content AssistantMessage.content SystemMessage.content ToolResultMessage.content Context.system",
        _WHOLE,
    ),
    **bookkeeping(API),
    # docs/modelfile.mdx, PARAMETER num_ctx: the window is set by each request, as models are loaded with it.
    **kept("ModelDescriptor.context_window"),
    **some("ToolResultMessage.tool_call_id", "no id is sent where the wire had none"),
    **kept("ToolResultMessage.tool_name"),
    **some("ToolResultMessage.is_error", "only the text shows that it failed"),
    **dropped("ToolResultMessage.cache"),
    # docs/api.md, `role`: `system`, `user`, `assistant` or `tool`.
    **dropped("SystemMessage.developer Context.system_role", "one role for system messages"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema"),
    **dropped("ToolSpec.strict ToolSpec.cache"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.seed"),
    **kept("Options.stream Options.output_schema OutputSchema.schema"),
    # docs/api.md, `format`: "json", or the schema itself.
    **dropped("OutputSchema.name OutputSchema.description OutputSchema.strict"),
    **some("Options.reasoning Reasoning.effort Reasoning.enabled Reasoning.budget", "see `_encode_reasoning`"),
    **dropped("Reasoning.summary"),
    # api/types.go, ChatRequest: no field for it, nor for calls in parallel.
    **dropped("Options.tool_choice ToolChoice.mode ToolChoice.names", "tools are always the model's choice"),
    **dropped("Options.parallel_tools Options.cache_retention Options.session_id Options.service_tier"),
    **dropped("Options.metadata"),
    **dropped("TextBlock.extra ThinkingBlock.extra ImageBlock.extra", "a string has no other keys"),
    **dropped(
        "Options.extra Reasoning.extra OutputSchema.extra",
        "what only this wire has in a request goes into the request's extra",
    ),
}

# Hints of this wire in `extra[API]`.
TEXT = "~text"  # the arguments were text
FIELD = "~field"  # the field of thinking, if it is not `thinking`
PROMPT = "~system"  # residual of the system message that is the system prompt


# --- content: wire to ours -------------------------------------------------------------------------------------------


def _decode_parts(wire: dict[str, Any], ids: Ids) -> tuple[Block, ...]:
    """The blocks of a message: thinking, text, images, calls."""
    return (*_decode_text(wire), *_decode_pictures(wire.get("images")), *_decode_calls(wire.get("tool_calls"), ids))


def _decode_text(wire: dict[str, Any]) -> Iterator[Block]:
    field, text = _thinking_field(wire), wire.get("content")
    if field is not None:
        yield _thought(wire[field], field)
    if text is not None and not isinstance(text, str):
        raise BadWire(API, f"content must be a string, not {type(text).__name__}", "$.content")
    if text:
        yield TextBlock(text=text)


# Servers that also have an OpenAI-compatible API use other names.
_THINKING_FIELDS = ("thinking", "reasoning_content", "reasoning")


def _thinking_field(wire: dict[str, Any]) -> str | None:
    """The field of a message with thinking; the same text under several names is read once."""
    for field in _THINKING_FIELDS:
        if field in wire and isinstance(wire[field], str) and wire[field]:
            return field
    return None


def _thought(thinking: str, field: str) -> ThinkingBlock:
    return ThinkingBlock(thinking=thinking, extra={} if field == "thinking" else {API: {FIELD: field}})


def _decode_pictures(wire: Any) -> Iterator[Block]:
    for item in wire if isinstance(wire, list) else ():
        if isinstance(item, str):
            yield ImageBlock(data=item, mime_type=_sniffed(item))
        else:
            yield OpaqueBlock(dialect=API, value={"images": item})


def _decode_calls(wire: Any, ids: Ids) -> Iterator[Block]:
    for item in wire if isinstance(wire, list) else ():
        yield _decode_call(item, ids)


def _decode_call(wire: Any, ids: Ids) -> Block:
    function = wire.get("function") if isinstance(wire, dict) else None
    given = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not _is_arguments(given):
        return OpaqueBlock(dialect=API, value={"tool_calls": wire})
    # api/types.go, ToolCall: `id` is omitted if empty; releases before it had the field send none.
    id, generated = ids.take(wire.get("id"))
    hints = {GENERATED: True} if generated else {}
    if isinstance(given, str):  # in OpenAI's shape
        arguments, text, broken = parse_arguments(given)
        hints[TEXT] = True
    else:
        arguments, text, broken = given or {}, None, None
    call = ToolCall(
        id=id,
        name=function["name"],
        arguments=arguments,
        arguments_text=text,
        parse_error=broken,
        extra={API: hints} if hints else {},
    )
    return keeping(call, API, wire, _encode_call(call, QUIET))


def _is_arguments(value: Any) -> bool:
    return value is None or isinstance(value, dict | str)


# Base64 prefixes of common image formats.
_MAGIC = {"iVBORw0KGgo": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "Qk": "image/bmp"}


def _sniffed(data: str) -> str | None:
    """The MIME type by the data: the wire has no field for it."""
    for magic, mime in _MAGIC.items():
        if data.startswith(magic):
            return mime
    try:
        head = base64.b64decode(data[:16])
    except (binascii.Error, ValueError):
        return None
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


# --- content: ours to wire -------------------------------------------------------------------------------------------


class _Parts:
    """The fields of a message; `in_order` is whether decoding them gives the same order of blocks."""

    __slots__ = ("calls", "field", "in_order", "pictures", "texts", "thoughts")

    def __init__(self) -> None:
        self.field = "thinking"
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.pictures: list[Any] = []
        self.calls: list[Any] = []
        self.in_order = True

    def add(self, block: Block, report: Reporter) -> None:
        match block:
            case TextBlock():
                self.in_order &= bool(block.text) and not (self.texts or self.pictures or self.calls)
                self.texts.append(block.text)
            case ThinkingBlock() if not block.redacted:
                before = self.thoughts or self.texts or self.pictures or self.calls
                self.in_order &= bool(block.thinking) and not before
                self.thoughts.append(block.thinking)
                self.field = residual_of(block.extra, API).get(FIELD, "thinking")
            case ToolCall():
                self.calls.append(_encode_call(block, report))
            case ImageBlock() if block.data is not None:
                self.in_order &= not self.calls
                self.pictures.append(_encode_picture(block, report))
            case OpaqueBlock() if block.dialect == API and _is_item(block.value, "images"):
                self.in_order &= not self.calls
                self.pictures.append(block.value["images"])
            case OpaqueBlock() if block.dialect == API and _is_item(block.value, "tool_calls"):
                self.calls.append(block.value["tool_calls"])
            case ImageBlock():
                report.lost("image", "pictures are sent as data only")
            case ThinkingBlock():
                report.lost("thinking", "redacted thinking has no text")
            case _:
                report.lost(type(block).__name__, _NO_BLOCK)

    def encoded(self) -> dict[str, Any]:
        # api/types.go, Message: `content` is always there, "" beside calls or thinking.
        wire: dict[str, Any] = {"content": "".join(self.texts)}
        thinking = "".join(self.thoughts)
        if thinking:
            wire[self.field] = thinking
        if self.pictures:
            wire["images"] = self.pictures
        if self.calls:
            wire["tool_calls"] = self.calls
        return wire

    def is_text(self) -> bool:
        return not (self.thoughts or self.pictures or self.calls)


def _is_item(value: Any, of: str) -> bool:
    return isinstance(value, dict) and value.keys() == {of}


def _encode_content(content: Content, report: Reporter) -> dict[str, Any]:
    """Content as the fields of a message; a string stays a string."""
    if isinstance(content, str):
        return {"content": content}
    parts = _encode_blocks(content or (), report)
    if not parts.in_order:
        report.lost("content", _WHOLE, "weakened", field="content")
    elif parts.is_text():
        report.lost("content", "text alone is a string in this wire", "record", field="content")
    return parts.encoded()


def _encode_blocks(blocks: tuple[Block, ...], report: Reporter) -> _Parts:
    parts = _Parts()
    for at, block in enumerate(blocks):
        report.block = at
        parts.add(block, report)
    report.block = None
    return parts


def _encode_picture(block: ImageBlock, report: Reporter) -> Any:
    for field, value in (("url", block.url), ("fileId", block.file_id)):
        if value is not None:
            report.lost(field, "pictures are sent as data only", field=field)
    if block.mime_type != _sniffed(block.data or ""):
        report.lost("mime_type", "its type is read from the data", "record", field="mimeType")
    return block.data


def _encode_call(call: ToolCall, report: Reporter) -> dict[str, Any]:
    extra_fields = residual_of(call.extra, API)
    arguments: Any = call.arguments
    if extra_fields.get(TEXT):
        arguments = arguments_text(call)
    elif call.arguments_text is not None or call.parse_error is not None:
        _report_text(call, report)
    wire: dict[str, Any] = {"function": {"name": call.name, "arguments": arguments}}
    if not extra_fields.get(GENERATED):
        if call.id:
            wire["id"] = call.id
        else:
            report.lost("id", "a call without an id is given one", "record", field="id")
    return put_back(wire, extra_fields)


def _report_text(call: ToolCall, report: Reporter) -> None:
    if call.arguments_text is not None:
        report.lost("arguments_text", "arguments travel as an object, not as text", "record", field="argumentsText")
        for path in repaired_arguments(call):
            report.lost("text", REPLACED, "weakened", field=path[2:])
    if call.parse_error is not None:
        report.lost("parse_error", "arguments travel as an object; what is none is sent as {}", field="parseError")


# --- messages --------------------------------------------------------------------------------------------------------


def decode_messages(wire: Any, mint: Mint | None = None, api: str = API) -> tuple[Message, ...]:
    """Decodes messages one to one."""
    turn = OpenCalls(mint)
    return gathered(tuple(each(wire, "messages", API, lambda message: _decode_message(message, turn, api))), LAYOUT)


def _decode_message(wire: Any, turn: OpenCalls, api: str) -> Message:
    role = an_object(wire, API).get("role")
    if role == "tool":
        return _decode_result(wire, turn)
    if role == "user":
        return _plain(replace(USER, extra={}, content=_decode_content(wire, turn.ids)), role, wire)
    if role == "assistant":
        message = replace(ANSWER, extra={}, content=_decode_content(wire, turn.ids), api=api)
        turn.called(message)
        return _plain(message, role, wire)
    if role == "system":
        return _plain(SystemMessage(content=_decode_content(wire, turn.ids)), role, wire)
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: system, user, assistant or tool", "$.role")
    return CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})  # type: ignore[return-value]


def _decode_content(wire: dict[str, Any], ids: Ids) -> Content:
    """Text alone stays a string."""
    blocks = _decode_parts(wire, ids)
    if len(blocks) > 1 or (blocks and not isinstance(blocks[0], TextBlock)):
        return blocks
    return optional(wire.get("content"))


M = TypeVar("M", UserMessage, AssistantMessage, SystemMessage)


def _plain(message: M, role: str, wire: dict[str, Any]) -> M:
    return keeping(message, API, wire, {"role": role, **_encode_content(message.content, QUIET)})


def _decode_result(wire: dict[str, Any], turn: OpenCalls) -> ToolResultMessage:
    # api/types.go, Message: a result is paired by `tool_name`, in newer releases also by `tool_call_id`.
    given = wire.get("tool_name", wire.get("name"))  # OpenAI has `name`
    name = optional(given)
    content = _decode_content(wire, turn.ids)
    id, generated = turn.answered(wire.get("tool_call_id"), name)
    result = ToolResultMessage(
        tool_call_id=id,
        tool_name=name if name is not None else turn.names.get(id),
        content=content,
        is_error=False,
        extra={API: {GENERATED: True}} if generated else {},
    )
    return keeping(result, API, wire, _encode_result(result, QUIET))


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Encodes messages; media of tool results are moved after them."""
    return encode_gathered(messages, LAYOUT, lambda found: _encode_messages(found, report), report)


def _encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Encodes messages one to one."""
    emitted: list[dict[str, Any]] = []
    generated: set[str] = set()  # generated ids of the latest answer with calls
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                emitted.append(_encoded_message("user", message, report))
            case AssistantMessage():
                emitted.append(_encoded_message("assistant", message, report))
                generated = _generated(message.content, generated)
            case ToolResultMessage():
                emitted.append(_encode_result(message, report, generated))
            case SystemMessage():
                emitted.append(_encoded_message("system", message, report))
            case CustomMessage():  # an unknown role of this wire
                emitted.append({"role": message.role, **message.fields})
    return emitted


def _encoded_message(
    role: str, message: UserMessage | AssistantMessage | SystemMessage, report: Reporter
) -> dict[str, Any]:
    emitted = {"role": role, **_encode_content(message.content, report)}
    return restored(emitted, message.extra, API) if message.extra else emitted


def _generated(content: Content, before: set[str]) -> set[str]:
    calls = [block for block in content if isinstance(block, ToolCall)] if isinstance(content, tuple) else []
    return {call.id for call in calls if residual_of(call.extra, API).get(GENERATED)} if calls else before


def _encode_result(
    result: ToolResultMessage, report: Reporter, generated: Collection[str] = frozenset()
) -> dict[str, Any]:
    wire = {"role": "tool", **_encode_content(result.content, report)}
    if result.tool_name is not None:
        wire["tool_name"] = result.tool_name
    if (
        result.tool_call_id
        and result.tool_call_id not in generated
        and not residual_of(result.extra, API).get(GENERATED)
    ):
        wire["tool_call_id"] = result.tool_call_id
    elif not result.tool_call_id:
        report.lost("tool_call_id", "a result without an id is given that of a call", "record", field="toolCallId")
    if result.is_error:
        report.lost("is_error", "only the text shows that it failed", "weakened", field="isError")
    return restored(wire, result.extra, API) if result.extra else wire


# --- requests --------------------------------------------------------------------------------------------------------


@request_decoder(API)
def decode_request(body: Any, given: Given) -> Request:
    """A chat request. `mint` generates ids for calls without one."""
    wire = an_object(body, API)
    messages = wire.get("messages")
    prompt = messages[0] if isinstance(messages, list) and messages and _is_prompt(messages[0]) else None
    read = decode_messages(messages, given.mint, given.api) if "messages" in wire else ()
    context = replace(
        CONTEXT,
        system=prompt["content"] if prompt else None,
        messages=read[1:] if prompt else read,
        tools=decode_tools(wire.get("tools"), API, lambda tool: decode_function_tool(tool, API)),
        extra={},
    )
    model = _with_window(given.model_of(wire.get("model")), wire.get("options"))
    if prompt is None and "messages" in wire and wire.get("model") and is_usual(wire, _USUAL):
        length = wire["options"].get("num_predict") if "options" in wire else None
        if given == (API, None, None, None, None) and ("options" not in wire or _is_length(wire["options"])):
            return Request(model=model, context=context, options=Options(max_tokens=length, stream=wire.get("stream")))
    request = Request(model=model, context=context, options=_decode_options(wire, given))
    bare = replace(request, context=replace(context, messages=()))
    request = keeping(request, API, wire, encode_request(bare, quirks=given.quirks).body, ("messages",))
    extra_fields = residual(prompt, {"role": "system", "content": prompt["content"]}) if prompt else None
    return with_residual(request, API, **{PROMPT: extra_fields}) if extra_fields else request


_USUAL = {"model": str, "messages": list, "stream": bool, "options": dict}


def _is_length(options: dict[str, Any]) -> bool:
    """Whether the only option is the length of the answer."""
    length = options.get("num_predict")
    return len(options) == 1 and type(length) is int and length >= 0


def _with_window(model: ModelDescriptor, options: Any) -> ModelDescriptor:
    """The model with the context window that the request sets by `num_ctx`."""
    window = whole(options.get("num_ctx")) if isinstance(options, dict) else None
    return model if window is None or window < 1 else replace(model, context_window=window)


def _is_prompt(wire: Any) -> bool:
    """Whether a first message is the system prompt: a system message with text only."""
    return (
        isinstance(wire, dict)
        and wire.get("role") == "system"
        and isinstance(wire.get("content"), str)
        and not any(wire.get(key) for key in (*_THINKING_FIELDS, "images", "tool_calls"))
    )


# The fields of `options` in a request: docs/api.md, Generate a chat completion; docs/modelfile.mdx, PARAMETER.
_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "max_tokens": "num_predict",
    "stop": "stop",
}


def _decode_options(wire: dict[str, Any], given: Given) -> Options:
    options = fields_of(wire.get("options"))
    given_options = read_options(options, _OPTIONS)
    # docs/modelfile.mdx, PARAMETER num_predict: -1 is infinite generation.
    if (given_options["max_tokens"] or 0) < 0:
        given_options["max_tokens"] = None
    return Options(
        **given_options,
        reasoning=_decode_reasoning(wire.get("think")),
        output_schema=_decode_schema(wire.get("format")),
        stream=given.stream_of(wire),
    )


def _decode_reasoning(wire: Any) -> Reasoning | None:
    # docs/api.md, `think`: on or off, or a level: `low`, `medium`, `high` or `max`.
    if isinstance(wire, bool):
        return Reasoning(enabled=wire)
    return Reasoning(effort=wire) if isinstance(wire, str) and wire else None


def _decode_schema(wire: Any) -> OutputSchema | None:
    # docs/api.md: JSON mode; the prompt has to ask for JSON, too.
    if wire == "json":
        return OutputSchema()
    return OutputSchema(schema=wire) if wire is not None and not isinstance(wire, str) else None


@request_encoder(API, FIELD_SUPPORT)
def encode_request(request: Request, report: Reporter, quirks: Quirks) -> dict[str, Any]:
    """The body of a chat request."""
    context, options = request.context, request.options
    body: dict[str, Any] = {}
    if request.model.id:
        body["model"] = request.model.id
    body["messages"] = encode_messages(context.messages, report)
    if context.system is not None:
        prompt = {"role": "system", "content": _encode_system(context.system, report)}
        body["messages"].insert(0, put_back(prompt, residual_of(request.extra, API).get(PROMPT, {})))
    elif body["messages"] and _is_prompt(body["messages"][0]):
        report_first_system(report)
    if context.tools is not None:
        body["tools"] = encode_tools(context.tools, API, lambda spec: encode_function_tool(spec, API), report)
    _encode_options(body, options, request.model.context_window, report)
    return restored(body, request.extra, API)


def _encode_system(system: System, report: Reporter) -> str:
    if not isinstance(system, str):
        joined = len(system or ()) > 1
        report.at(SYSTEM, "system", "the system prompt is one string", "weakened" if joined else "record")
    return text_of(system)


def _encode_options(body: dict[str, Any], options: Options, window: int | None, report: Reporter) -> None:
    # docs/modelfile.mdx, PARAMETER num_ctx: without it the server uses a small window and silently truncates the
    # beginning of a longer conversation.
    if window is not None and window < 1:
        report.at("$.model.contextWindow", "context_window", "num_ctx must be positive", "record")
    emitted: dict[str, Any] = {"num_ctx": window} if window and window > 0 else {}
    write_options(emitted, options, _OPTIONS)
    if options.output_schema is not None:
        schema = options.output_schema.schema
        body["format"] = "json" if schema is None else schema
    if options.reasoning is not None:
        _encode_reasoning(body, options.reasoning, report)
    # api/types.go, ChatRequest: a stream is the default.
    if options.stream is not None:
        body["stream"] = options.stream
    if emitted:
        body["options"] = emitted


def _encode_reasoning(body: dict[str, Any], reasoning: Reasoning, report: Reporter) -> None:
    if reasoning.enabled is False:
        body["think"] = False
        if reasoning.effort is not None or reasoning.budget is not None:
            report.at("$.options.reasoning", "reasoning", "thinking is off", "record")
    elif reasoning.effort:
        body["think"] = reasoning.effort
        if reasoning.budget is not None:
            report.at("$.options.reasoning.budget", "budget", "an effort is sent, no budget")
        if reasoning.enabled:
            report.at("$.options.reasoning.enabled", "enabled", "implied by the effort", "record")
    elif reasoning.enabled or reasoning.budget is not None:
        body["think"] = True
        if reasoning.budget is not None:
            report.at("$.options.reasoning", "budget", "thinking is on or off, without a budget", "weakened")
    else:
        report.at("$.options.reasoning", "reasoning", "nothing to send", "record")


# --- answers ---------------------------------------------------------------------------------------------------------

RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **some("AssistantMessage.usage", "only all input and all output are counted"),
    **kept("AssistantMessage.stop_reason AssistantMessage.model"),
    **some("AssistantMessage.stop_detail AssistantMessage.response_model", "sent where the wire has a value for it"),
    **some("AssistantMessage.error_message", "sent where the wire has a value for it"),
    **some("AssistantMessage.timestamp", "a time that the calendar has"),
    # api/types.go, Metrics: `prompt_eval_count` and `eval_count`.
    **some("Usage.input Usage.cache_read Usage.cache_write Usage.total_tokens", "all input is counted as one"),
    **kept("Usage.output"),
    **some("Usage.cost Usage.reasoning", "the wire does not count it"),
    **dropped("Usage.extra AssistantMessage.extra", "it is not of an answer as this wire has it"),
}


@response_decoder(API)
def decode_response(body: Any, base: AssistantMessage, given: Given) -> AssistantMessage:
    """A whole answer."""
    wire = an_object(body, API)
    if "error" in wire and "message" not in wire:
        raise decode_error(0, wire)
    return _decode_answer(wire, _decode_parts(an_object(wire["message"], API, "$.message"), Ids(given.mint)), base)


def _decode_answer(wire: dict[str, Any], content: tuple[Block, ...], base: AssistantMessage) -> AssistantMessage:
    """The message with this content, which is already decoded, and the body `wire`."""
    stop = optional(wire.get("done_reason"))
    # `done` is false in all parts of a stream but the last; in a whole answer that means it was cut.
    cut_off = wire.get("done") is False
    reason = "error" if cut_off else reason_for(stop, STOP_REASONS, content)
    problem = CUT_OFF if cut_off else f"the provider stopped: {stop or 'no reason given'}"
    message = replace(
        base,
        content=content,
        **_decode_envelope(wire, base),
        usage=_decode_usage(wire),
        stop_reason=reason,
        stop_detail=stop,
        error_message=problem if reason == "error" else None,
    )
    return keeping_response(message, API, wire, _encode_answer(message, _encode_blocks(content, QUIET)))


def _decode_envelope(wire: dict[str, Any], base: AssistantMessage) -> dict[str, Any]:
    return {
        **model_names(base, optional(wire.get("model")) or None),
        # RFC 3339 with nanoseconds, Go's time.Time.
        "timestamp": base.timestamp if base.timestamp is not None else decode_time(wire.get("created_at")),
    }


def _decode_usage(wire: dict[str, Any]) -> Usage | None:
    # api/types.go, Metrics: counts of 0 are omitted.
    if whole(wire.get("prompt_eval_count")) is None and whole(wire.get("eval_count")) is None:
        return None
    return Usage.of(count(wire, "prompt_eval_count"), count(wire, "eval_count"))


@response_encoder(API, RESPONSE_SUPPORT)
def encode_response(
    message: AssistantMessage, report: Reporter, request: Request | None, quirks: Quirks
) -> dict[str, Any]:
    """The body of a whole answer."""
    parts = _encode_blocks(blocks_of(message.content), report)
    if not parts.in_order:
        report.lost("content", _WHOLE, "weakened", field="content")
    elif not isinstance(message.content, tuple):
        report.lost("content", "content is read as blocks", "record", field="content")
    if message.usage is not None and message.usage != replace(_counted(message.usage), extra=message.usage.extra):
        report.at("$.usage", "usage", "only all input and all output are counted", "record")
    if message.timestamp is not None and encode_time(message.timestamp) is None:
        report.at("$.timestamp", "timestamp", "outside the calendar", "record")
    return _whole_answer(named(message, request), parts)


def _whole_answer(message: AssistantMessage, parts: _Parts) -> dict[str, Any]:
    return put_back(_encode_answer(message, parts), residual_of(message.extra, API).get(RESPONSE, {}))


def _encode_answer(message: AssistantMessage, parts: _Parts) -> dict[str, Any]:
    body: dict[str, Any] = {"model": message.response_model or message.model or ""}
    created = encode_time(message.timestamp)
    if created is not None:
        body["created_at"] = created
    body["message"] = {"role": "assistant", **parts.encoded()}
    body["done"] = True
    body["done_reason"] = own_stop_reason(message, STOP_REASONS) or WIRE_STOP_REASONS.get(message.stop_reason or "")
    if message.usage is not None:
        counted = _counted(message.usage)
        body["prompt_eval_count"] = counted.input
        body["eval_count"] = counted.output
    return body


def _counted(usage: Usage) -> Usage:
    """Usage as the wire counts it: cached tokens are input."""
    return Usage.of(usage.input + usage.cache_read + usage.cache_write, usage.output)


# --- streams ---------------------------------------------------------------------------------------------------------


framing = ndjson_framing
_TEXT, _THINKING = "text", "thinking"  # the two kinds of blocks with deltas


class StreamDecoder(Decoder):
    """Decodes the frames of a streamed answer."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._ids = Ids(self._mint)
        self._shell: dict[str, Any] = {}  # the wire's answer without its message
        self._message: dict[str, Any] = {}  # the wire's message without accumulating fields
        self._open_key: tuple[str, int] | None = None  # the key of the open block: its kind, and a number
        self._calls: list[Any] = []
        self._pictures: list[Any] = []
        self._logprobs: list[Any] = []
        self._last: dict[str, Any] = {}  # the message of the latest chunk

    def _read(self, value: Any, frame: Frame) -> None:
        message = value.get("message")
        if message and value.get("done") is False and len(message) == 2 and "role" in message:
            text = message.get("content")
            # Fast path: a chunk with only more text for the open block.
            open_key = self._open_key
            if (
                text
                and open_key
                and open_key[0] is _TEXT
                and len(value) == 2 + ("model" in value) + ("created_at" in value)
            ):
                self._record.delta(open_key, text)
                return
        self._chunk(value, message)

    def _chunk(self, value: dict[str, Any], message: Any) -> None:
        # docs/api/errors.mdx: an error after the first line is a line of its own; the status is 200 by then.
        if "error" in value and message is None:
            self._failed(decode_error(0, value))
            return
        self._note_envelope(value)
        if message is not None:
            self._append_delta(dict(message))
        # The last line has `done`, the reason and the counts.
        if value.get("done") is True:
            self._finish()

    def _note_envelope(self, value: dict[str, Any]) -> None:
        """Merges the envelope of a chunk: later values replace earlier ones, but `logprobs` accumulate."""
        first = not self._record.started
        for key, given in value.items():
            if key == "logprobs" and isinstance(given, list):
                self._logprobs += given
            elif key != "message":
                self._shell[key] = given
        if first:
            self._record.note(**_decode_envelope(self._shell, self._given))
            self._record.begin()

    def _append_delta(self, message: dict[str, Any]) -> None:
        field, text = _thinking_field(message), message.get("content")
        if field is not None:
            self._append_text(_THINKING, message[field], _thought("", field))
        if text:
            self._append_text(_TEXT, text, TextBlock(text=""))
        for block in _decode_pictures(message.get("images")):
            self._add_block(block, self._pictures)
        calls = message.get("tool_calls")
        for item in calls if isinstance(calls, list) else ():
            self._add_block(_decode_call(item, self._ids), self._calls)
        self._message = {**self._message, **{key: given for key, given in message.items() if key not in _ACCUMULATING}}
        self._last = message

    def _append_text(self, kind: str, text: str, block: Block) -> None:
        """Adds a delta; a delta of the other kind closes the open block, so that the order is kept."""
        if self._open_key is None or self._open_key[0] is not kind:
            self._end_growth()
            self._open_key = (kind, len(self._record.content))
            self._record.open(self._open_key, block)
        self._record.delta(self._open_key, text)

    def _end_growth(self) -> None:
        if self._open_key is not None:
            self._record.close(self._open_key)
            self._open_key = None

    def _add_block(self, block: Block, sort: list[Any]) -> None:
        """Adds a whole block."""
        self._end_growth()
        sort.append(block)
        self._record.whole((len(self._pictures), len(self._calls)), block)

    def _complete(self) -> bool:
        return False  # only `done` ends an answer

    def _finish(self) -> None:
        self._end_growth()
        blocks = tuple(self._record.content)
        self._record.end(_decode_answer(self._whole(blocks), blocks, self._given))

    def _whole(self, blocks: tuple[Block, ...]) -> dict[str, Any]:
        emitted = _encode_blocks(blocks, QUIET).encoded()
        last = self._last
        accumulated = {
            key: emitted.get(key) or last.get(key) for key in _ACCUMULATING if emitted.get(key) or key in last
        }
        wire = {**self._shell, "message": {**self._message, **accumulated}}
        return {**wire, "logprobs": self._logprobs} if self._logprobs else wire


_ACCUMULATING = ("content", *_THINKING_FIELDS, "images", "tool_calls")


class StreamEncoder(Encoder):
    """Encodes a streamed answer. Images and calls are sent at the end, because text comes before them."""

    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._base: dict[str, Any] = {}
        self._blocks: list[Block] = []
        self._fields: dict[int, str | None] = {}  # the field of thinking; None: redacted, not sent

    def _start(self, message: AssistantMessage) -> bytes:
        whole = _whole_answer(message, _Parts())
        self._base = {key: whole[key] for key in ("model", "created_at") if key in whole}
        return b""

    def _text(self, index: int, text: str) -> bytes:
        return self._chunk({"content": text})

    def _thinking(self, index: int, text: str) -> bytes:
        field = self._fields.get(index, "thinking")
        return self._chunk({"content": "", field: text}) if field is not None else b""

    def _open_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        self._fields[index] = None if block.redacted else residual_of(block.extra, API).get(FIELD, "thinking")
        return b""

    def _end_call(self, index: int, call: Block) -> bytes:
        self._blocks.append(call)
        return b""

    _end_block = _end_call

    def _chunk(self, message: dict[str, Any]) -> bytes:
        return _line({**self._base, "message": {"role": "assistant", **message}, "done": False})

    def _end(self, message: AssistantMessage) -> bytes:
        parts = _encode_blocks(tuple(self._blocks), QUIET)
        out = self._chunk({"content": "", "images": parts.pictures}) if parts.pictures else b""
        for call in parts.calls:
            # api/types.go, ToolCall: arguments are an object, so that a call cannot come in fragments.
            out += self._chunk({"content": "", "tool_calls": [call]})
        answer = _whole_answer(message, _encode_blocks(blocks_of(message.content), QUIET))
        rest = {key: given for key, given in answer["message"].items() if key not in _ACCUMULATING or not given}
        if answer["message"].get("content"):
            rest["content"] = ""
        return out + _line({**answer, "message": rest, "done": True})

    def _is_stop(self, message: AssistantMessage) -> bool:
        answer = _whole_answer(message, _Parts())
        return message.stop_detail is not None and answer.get("done_reason") == message.stop_detail

    def _failure(self, error: ProviderError) -> bytes:
        return _line({"error": error_text(error)})


def _line(value: dict[str, Any]) -> bytes:
    return write_ndjson(jsontext.write(value))


# --- errors, path, conversations -------------------------------------------------------------------------------------


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error response, or the error line of a stream (status 0)."""
    wire = given = json_or_text(body)
    while isinstance(given, dict):  # usually `{"error": …}`; proxies have other fields
        given = next((given[key] for key in ("error", "message", "detail") if given.get(key)), None)
    return provider_error(
        joined_text(given, wire),
        status=status,
        headers=headers,
        body=wire,
    )


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    given = as_provider_error(error)
    return status_of(given), {"error": error_text(given)}


def path(model: str, stream: bool, *, quirks: Quirks = None) -> str:
    return own_path(quirks, model) or "/api/chat"


decode, encode = conversation_codec(API, decode_request, encode_request)
