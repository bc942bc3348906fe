"""Attocode's unified messages: a list of them, the same with the options of a chat, or one `ChatResponse`.

Roles are `system`, `user`, `assistant` and `tool`. Content is a string, or text and image blocks where a prompt is
cached; calls stand beside it (`toolCalls`), and so may results (`toolResults`); a `tool` message answers one call. The
first message, when it is a system message, is the conversation's system text. Thinking exists in responses only.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, FormatError
from ...values.folding import settle
from ...values.losses import QUIET, Encoded, Loss, Reporter, SupportTable, dropped, encoded, kept, places, record, some
from ...values.losses import SYSTEM as SYSTEM_PATH
from ...values.messages import (
    AssistantMessage,
    Block,
    CacheMarker,
    Content,
    Cost,
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
from ...values.request import Conversation, Entry, ModelDescriptor, Options, System, ToolSpec, is_system
from ..residual import (
    BARE,
    JOINED,
    RESPONSE,
    S,
    an_object,
    body_of,
    count,
    each,
    encode_tools,
    flag,
    is_null,
    keeping,
    keeping_response,
    number,
    optional,
    put_back,
    reading,
    reason_for,
    report_other_sources,
    residual,
    restored,
    string,
    strings,
    whole,
    with_residual,
)
from ..wire import FileFormat, ListedSession, Rows, SessionStream
from .line_sessions import EntryStream, ReadAgain, Reader, read
from .message_rules import in_attocode
from .records import LINEAR, MEDIA, METADATA, NO_CALL, OWN, SERVER_TOOLS

API = "attocode"

# Hints of ours in `extra[API]`.
AS = "~as"  # the wrapper that a tool came in
BLOCKS = "~blocks"  # content was a list where a string would have done
CALL = "~call"  # an item of `toolCalls` that is no call
GROUP = "~group"  # the first of several that shared a message; on a result, that message's role and residual
ERROR = "~error"  # the error, as `toolResults` has it beside a different content
SHOWN = "~shown"  # the last block of a result is its error; whether null, text or blocks stood before it
ITEM = "~item"  # residual of the item of `toolResults` that a tool message repeats itself in
SYSTEM = "~system"  # residual of the system message

# The page of Attocode's message format, Response Format: a `ChatResponse` has these and no other.
STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
}
WIRE_STOP_REASONS = {"stop": "end_turn", "toolUse": "tool_use", "length": "max_tokens"}

FIELD_SUPPORT: SupportTable = {
    **NO_CALL,
    **LINEAR,
    **kept("TextBlock.text TextBlock.cache ImageBlock.cache"),
    **dropped("TextBlock.text_signature TextBlock.citations"),
    **dropped("Citation.title Citation.url Citation.cited_text Citation.start Citation.end CacheMarker.ttl"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id", "a picture is base64 or a URL"),
    **dropped("ImageBlock.detail"),
    **kept("ToolCall.id ToolCall.name ToolCall.arguments ToolCall.parse_error"),
    **record("ToolCall.arguments_text", "arguments are an object, not text"),
    **dropped("ToolCall.thought_signature ToolCall.cache"),
    **some(
        "ThinkingBlock.thinking ThinkingBlock.thinking_signature ThinkingBlock.redacted",
        "messages have no thinking; the block is dropped",
    ),
    **some(f"{MEDIA} {SERVER_TOOLS}", "the format has no such block; it is dropped"),
    **some("OpaqueBlock.dialect OpaqueBlock.value", "only what stood in this format"),
    **some(
        "UserMessage.content AssistantMessage.content SystemMessage.content",
        "calls stand beside the content, after it",
    ),
    **kept("ToolResultMessage.tool_call_id ToolResultMessage.is_error"),
    **some("ToolResultMessage.content", "a result among others is one text"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    **some("ToolResultMessage.details", "only where the content is its text"),
    **dropped("ToolResultMessage.cache SystemMessage.developer"),
    **some("CustomMessage.role", "no such role here; only what stood in this format goes back"),
    **record(METADATA, "messages have no metadata"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema"),
    **some("ToolSpec.strict", "written in the wrapper that has it"),
    **dropped("ToolSpec.cache"),
    **some("ToolSpec.dialect ToolSpec.value", "only what stood in this format"),
    **dropped("Context.system_role", "one role for system messages"),
    **kept("Options.max_tokens Options.temperature Options.stop"),
    **some("ModelDescriptor.id", "an empty name is left out"),
}


# --- content ---------------------------------------------------------------------------------------------------------


def decode_block(wire: Any) -> Block:
    """One content block; what this format does not have is kept as it is, opaque."""
    kind = wire.get("type") if isinstance(wire, dict) else None
    try:
        if kind == "text":
            text = TextBlock(text=string(wire["text"]), cache=_decode_cache(wire))
            return keeping(text, API, wire, encode_block(text, QUIET))
        if kind == "image":
            image = ImageBlock(**_decode_source(wire["source"]), cache=_decode_cache(wire))
            return keeping(image, API, wire, encode_block(image, QUIET))
    except (KeyError, TypeError, ValueError):
        pass
    return OpaqueBlock(dialect=API, value=wire)


def _decode_source(source: dict[str, Any]) -> dict[str, Any]:
    # The address of a picture stands in `data`, as its base64 would.
    where = {"base64": "data", "url": "url"}[source["type"]]
    return {where: string(source["data"]), "mime_type": optional(source.get("media_type"))}


def _decode_cache(wire: dict[str, Any]) -> CacheMarker | None:
    marker = wire.get("cache_control")
    return keeping(CacheMarker(), API, marker, _CACHE) if isinstance(marker, dict) else None


_CACHE = {"type": "ephemeral"}  # the only marker of a `ContentBlock`


def _decode_call(wire: Any) -> Block:
    try:
        call = ToolCall(
            id=string(wire["id"]),
            name=string(wire["name"]),
            arguments=_object(wire["arguments"]),
            # Arguments that cannot be parsed are {}; the call stays, with the reason, so that its result has a pair.
            parse_error=optional(wire.get("parseError")),
        )
        return keeping(call, API, wire, _encode_call(call))
    except (KeyError, TypeError, IndexError):
        return OpaqueBlock(dialect=API, value=wire, extra={API: {CALL: True}})


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("arguments are an object")
    return value


def encode_block(block: Block, report: Reporter) -> Any:
    """Encodes a content block; None, with a report, if the format has no place for it."""
    wire: dict[str, Any]
    match block:
        case TextBlock():
            wire = {"type": "text", "text": block.text}
        case ImageBlock() if block.data is not None or block.url is not None:
            wire = {"type": "image", "source": _encode_source(block, report)}
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            report.lost(type(block).__name__, "the format has text, pictures and calls")
            return None
    if block.cache is not None:
        wire["cache_control"] = restored(dict(_CACHE), block.cache.extra, API)
    return restored(wire, block.extra, API) if block.extra else wire


def _encode_source(block: ImageBlock, report: Reporter) -> dict[str, Any]:
    report_other_sources(block, report)
    wire: dict[str, Any] = {"type": "url" if block.data is None else "base64"}
    if block.mime_type is not None:
        wire["media_type"] = block.mime_type
    wire["data"] = block.url if block.data is None else block.data
    return wire


def _encode_call(call: Block) -> Any:
    if isinstance(call, OpaqueBlock):
        return call.value
    assert isinstance(call, ToolCall)
    wire: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": call.arguments}
    if call.parse_error is not None:
        wire["parseError"] = call.parse_error
    return restored(wire, call.extra, API) if call.extra else wire


def _is_call(block: Block) -> bool:
    return isinstance(block, ToolCall) or (isinstance(block, OpaqueBlock) and CALL in block.extra.get(API, {}))


def _decode_content(wire: dict[str, Any]) -> tuple[Content, bool]:
    """A message's content with its calls in it, and whether that was a list where a string would have done."""
    given, calls = wire.get("content"), wire.get("toolCalls")
    text: Content = given if given is None or isinstance(given, str) else _decode_blocks(given)
    if not isinstance(calls, list) or not calls:
        return text, False
    made = tuple(each(calls, "toolCalls", API, _decode_call))
    if isinstance(text, tuple):
        return (*text, *made), _as_text(text, [encode_block(block, QUIET) for block in text]) is not None
    return ((TextBlock(text=text), *made) if text else made), False


def _decode_blocks(wire: Any) -> tuple[Block, ...]:
    return tuple(each(wire, "content", API, decode_block))


def _as_text(blocks: tuple[Block, ...], emitted: list[Any]) -> str | None:
    """The string that is equivalent to these blocks; None if only blocks will do."""
    if not blocks:
        return ""
    if (
        len(emitted) == 1
        and isinstance(blocks[0], TextBlock)
        and blocks[0].text
        and emitted[0].keys() == {"type", "text"}
    ):
        return blocks[0].text
    return None


def _encode_content(wire: dict[str, Any], content: Content, report: Reporter, *, blocks: bool) -> None:
    """Puts content, and the calls in it, into a message."""
    if content is None or isinstance(content, str):
        wire["content"] = content
        return
    texts, emitted, calls = [], [], []
    for at, block in enumerate(content):
        report.block = at
        if _is_call(block):
            calls.append(_encode_call(block))
            continue
        item = encode_block(block, report)
        if item is not None or is_null(block, API):
            texts.append(block)
            emitted.append(item)
            if calls:
                report.block = None
                report.lost("order", "calls stand after the text", "weakened", field="content")
    report.block = None
    text = _as_text(tuple(texts), emitted) if calls and not blocks else None
    wire["content"] = emitted if text is None else text
    if calls:
        wire["toolCalls"] = calls


# --- messages --------------------------------------------------------------------------------------------------------


def _decode_message(wire: Any, names: dict[str, str]) -> list[Entry]:
    """One message; with results beside its content it becomes several."""
    role = an_object(wire, API).get("role")
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: system, user, assistant or tool", "$.role")
    if role not in ("system", "user", "assistant", "tool"):
        fields = {key: value for key, value in wire.items() if key != "role"}
        return [Entry(message=CustomMessage(role, fields), extra={API: {OWN: True}})]  # type: ignore[arg-type]
    results = _results_in(wire)
    if results is None:
        return [Entry(message=_decode_single(role, wire, names))]
    rest = {key: value for key, value in wire.items() if key != "toolResults"}
    if role in ("system", "assistant"):
        first = with_residual(_decode_single(role, rest, names), API, **{GROUP: {}})
        pieces = [_decode_item(item, names) for item in results]
        return _entries([first, *(with_residual(piece, API, **{JOINED: True}) for piece in pieces)])
    pieces = [_decode_item(item, names) for item in results]
    text = role == "user" and bool(rest.get("content"))
    emitted = {"role": role, "content": rest.get("content") if text else ""}
    first = with_residual(pieces[0], API, **{GROUP: {"role": role, "held": residual(rest, emitted)}})
    joined = [with_residual(piece, API, **{JOINED: True}) for piece in pieces[1:]]
    users: list[Message] = [UserMessage(content=_decode_content(rest)[0])] if text else []
    return _entries([first, *joined, *(with_residual(message, API, **{JOINED: True}) for message in users)])


def _entries(messages: list[Message]) -> list[Entry]:
    return [Entry(message=message) for message in messages]


def _results_in(wire: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The results beside the content, where they are what the message is about."""
    results = wire.get("toolResults")
    if not isinstance(results, list) or not results or isinstance(wire.get("toolCallId"), str):
        return None
    if wire.get("role") == "user" and "toolCalls" in wire:
        return None
    proper = all(isinstance(item, dict) and isinstance(item.get("callId"), str) for item in results)
    return results if proper else None


def _decode_single(role: str, wire: dict[str, Any], names: dict[str, str]) -> Message:
    content, blocks = _decode_content(wire)
    hints = {API: {BLOCKS: True}} if blocks else {}
    message: Message
    if role == "assistant":
        message = AssistantMessage(content=content, extra=hints)
        names.update((call.id, call.name) for call in message.tool_calls)
    elif role == "tool":
        message = _decode_answer_to_call(wire, content, names, hints)
    elif role == "system":
        message = SystemMessage(content=content, extra=hints)
    else:
        message = UserMessage(content=content, extra=hints)
    return _kept(message, wire, _encode_single(message, QUIET))


def _kept(value: S, wire: dict[str, Any], emitted: dict[str, Any]) -> S:
    """The value with its residual beside the hints that it holds already; lists keep their own, item by item."""
    lists = (key for key in ("content", "toolCalls", "toolResults") if isinstance(wire.get(key), list))
    return keeping(value, API, wire, emitted, [key for key in lists if isinstance(emitted.get(key), list)])


def _decode_answer_to_call(
    wire: dict[str, Any], content: Content, names: dict[str, str], hints: dict[str, Any]
) -> ToolResultMessage:
    call = optional(wire.get("toolCallId")) or ""
    result = ToolResultMessage(
        tool_call_id=call, tool_name=names.get(call), content=content, is_error=False, extra=hints
    )
    items = wire.get("toolResults")
    item = items[0] if isinstance(items, list) and len(items) == 1 else None
    if not isinstance(item, dict) or item.get("callId") != call or not isinstance(item.get("error"), str):
        return result
    if text_of(content).strip() and text_of(content) != item["error"]:  # the model got a text of its own
        result = with_residual(replace(result, is_error=True), API, **{ERROR: item["error"]})
    else:
        result = _with_error(result, item["error"])
    extra_fields = residual(item, _encode_error(result))
    return with_residual(result, API, **{ITEM: extra_fields}) if extra_fields else result


def _encode_error(result: ToolResultMessage) -> dict[str, Any]:
    """How a tool message marks its failure, for which it has no field: once more, as a result with an error."""
    content, error = _without_error(result)
    error = result.extra.get(API, {}).get(ERROR, text_of(content)) if error is None else error
    return {"callId": result.tool_call_id, "result": None, "error": error}


def _with_error(result: ToolResultMessage, error: str) -> ToolResultMessage:
    """The result with what went wrong in its content, where every model reads it."""
    content = result.content
    if text_of(content) == error:
        return replace(result, is_error=True)
    shape = "null" if content is None else "text" if isinstance(content, str) else "blocks"
    before = () if content == "" else blocks_of(content)
    shown = replace(result, content=(*before, TextBlock(text=error)), is_error=True)
    return with_residual(shown, API, **{SHOWN: shape})


def _without_error(result: ToolResultMessage) -> tuple[Content, str | None]:
    """The content as it stood before the error was added to it, and the error; None where none was."""
    content, shape = result.content, result.extra.get(API, {}).get(SHOWN)
    last = content[-1] if isinstance(content, tuple) and content else None
    if shape is None or not result.is_error or not isinstance(content, tuple) or not isinstance(last, TextBlock):
        return content, None
    before = content[:-1]
    if shape == "null" and not before:
        return None, last.text
    if shape == "text" and len(before) <= 1 and all(block == TextBlock(text=text_of((block,))) for block in before):
        return text_of(before), last.text
    return before, last.text


def _decode_item(wire: dict[str, Any], names: dict[str, str]) -> ToolResultMessage:
    """An item of `toolResults`. A result that is no text is shown to the model as its JSON."""
    given, error = wire.get("result"), optional(wire.get("error"))
    content = given if given is None or isinstance(given, str) else _json_of(given)
    result = ToolResultMessage(
        tool_call_id=wire["callId"],
        tool_name=names.get(wire["callId"]),
        content=error if given is None else content,
        details=None if isinstance(given, str) else given,
        is_error=error is not None,
    )
    if error is not None:
        result = _with_error(result, error)
    extra_fields = residual(wire, _encode_item(result, QUIET))
    return with_residual(result, API, **{ITEM: extra_fields}) if extra_fields else result


def _json_of(value: Any) -> str:
    try:
        return jsontext.compact(value)
    except FormatError as error:
        raise BadWire(API, error.message, "$.toolResults") from None


def _encode_item(result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    extra_fields = result.extra.get(API, {})
    content, error = _without_error(result)
    if isinstance(content, tuple):
        report.lost("content", "a result among others is one text", "weakened", field="content")
        content = text_of(content)
    emitted: Any = content
    if result.details is not None:
        if content == jsontext.compact(result.details):
            emitted = result.details
        else:
            report.lost("details", "only the content is written", "record", field="details")
    wire = {"callId": result.tool_call_id, "result": emitted}
    if result.is_error:
        wire |= {"result": None, "error": content} if error is None else {"error": error}
    return put_back(wire, extra_fields.get(ITEM, {}))


def _encode_single(message: Message, report: Reporter) -> dict[str, Any]:
    extra_fields = message.extra.get(API, {}) if message.extra else {}
    blocks = bool(extra_fields.get(BLOCKS))
    wire: dict[str, Any] = {"role": _ROLES[type(message)]}
    if isinstance(message, ToolResultMessage):
        wire["toolCallId"] = message.tool_call_id
        _encode_content(wire, _without_error(message)[0], report, blocks=blocks)
        if message.details is not None:
            report.lost("details", "only the content is written", "record", field="details")
        if message.is_error:
            wire["toolResults"] = [put_back(_encode_error(message), extra_fields.get(ITEM, {}))]
    else:
        _encode_content(wire, message.content, report, blocks=blocks)
    return put_back(wire, extra_fields) if extra_fields else wire


_ROLES: dict[type, str] = {
    UserMessage: "user",
    AssistantMessage: "assistant",
    ToolResultMessage: "tool",
    SystemMessage: "system",
}


class _Messages:
    """The messages encoded so far; results that shared a message are put together again."""

    def __init__(self, report: Reporter) -> None:
        self.wire: list[dict[str, Any]] = []
        self._report = report
        self._names: dict[str, str] = {}
        self._open: dict[str, Any] | None = None  # the message that takes what is joined to it

    def append(self, message: Message) -> None:
        extra_fields = message.extra.get(API, {}) if message.extra else {}
        if isinstance(message, ToolResultMessage):
            self._check_name(message)
        elif isinstance(message, AssistantMessage):
            self._names.update((call.id, call.name) for call in message.tool_calls)
        if extra_fields.get(JOINED) and self._open is not None and self._joined(message, self._open):
            return
        if GROUP in extra_fields and isinstance(message, ToolResultMessage):
            group = extra_fields[GROUP]
            wire = put_back({"role": group["role"], "content": ""}, group["held"])
            wire["toolResults"] = [_encode_item(message, self._report)]
        else:
            wire = _encode_single(message, self._report)
        self._open = wire if GROUP in extra_fields else None
        self.wire.append(wire)

    def append_custom(self, message: CustomMessage) -> None:
        self._open = None
        self.wire.append({"role": message.role, **message.fields})

    def _joined(self, message: Message, wire: dict[str, Any]) -> bool:
        if isinstance(message, ToolResultMessage):
            wire.setdefault("toolResults", []).append(_encode_item(message, self._report))
        elif isinstance(message, UserMessage) and wire["role"] == "user":
            _encode_content(wire, message.content, self._report, blocks=False)
        else:
            return False
        return True

    def _check_name(self, result: ToolResultMessage) -> None:
        if result.tool_name is not None and self._names.get(result.tool_call_id) != result.tool_name:
            self._report.lost("tool_name", "only the name of the call is known", "record", field="toolName")


# --- chats -----------------------------------------------------------------------------------------------------------


@reading(API)
def decode(data: Any) -> Conversation:
    """A list of messages, a chat (`messages` with its options), or a single `ChatResponse`."""
    body = body_of(data, API)
    if isinstance(body, dict) and "messages" not in body and "role" not in body and "content" in body:
        entry = Entry(message=decode_response(body), extra={API: {RESPONSE: True}})
        return Conversation(entries=(entry,))
    wire = {"messages": body} if isinstance(body, list) else an_object(body, API)
    if "messages" not in wire:
        raise BadWire(API, "expected messages, a chat with `messages`, or a response with `content`")
    if not isinstance(wire["messages"], list):
        raise BadWire(API, f"expected a list, got {type(wire['messages']).__name__}", "$.messages")
    return read(_Reader(wire, bare=isinstance(body, list)), wire["messages"])


@reading(API)
def listed(header: dict[str, Any], messages: ReadAgain) -> SessionStream:
    """Messages, or a chat, one entry at a time."""
    return EntryStream(_Reader(header, bare=not header), messages)


class _Reader(Reader):
    """Reads the messages of a chat, which is given with or without them. The first is the system text, if it is one."""

    def __init__(self, wire: dict[str, Any], *, bare: bool) -> None:
        tools = wire.get("tools")
        model = optional(wire.get("model"))
        about = Conversation(
            tools=tuple(each(tools, "tools", API, _decode_tool)) if isinstance(tools, list) else None,
            model=ModelDescriptor(id=model) if model else None,
            options=Options(
                max_tokens=whole(wire.get("maxTokens")),
                temperature=number(wire.get("temperature")),
                stop=strings(wire.get("stopSequences")),
            ),
        )
        own = ("messages", "tools")  # they keep their own residuals
        emitted = _encode_chat(about, QUIET)
        self._chat = with_residual(about, API, **{BARE: True}) if bare else keeping(about, API, wire, emitted, own)

    def entries(self, records: Iterable[Any]) -> Iterator[Entry]:
        names: dict[str, str] = {}  # call id -> tool name
        self.about = self._chat
        for at, given in enumerate(records):
            (group,) = each([given], "messages", API, lambda message: _decode_message(message, names), at)
            first = group[0].message if not at else None
            if isinstance(first, SystemMessage) and is_system(first.content):
                self.about = _with_system(self._chat, first)
                group = group[1:]
            yield from group


def _with_system(conversation: Conversation, message: SystemMessage) -> Conversation:
    extra_fields = message.extra.get(API)
    conversation = replace(conversation, system=message.content)
    return with_residual(conversation, API, **{SYSTEM: extra_fields}) if extra_fields else conversation


def encode(conversation: Conversation) -> Encoded:
    """Encodes a chat; a bare list or a response if that was decoded and holds everything."""
    path = conversation.path()
    extra_fields = conversation.extra.get(API, {})
    if len(path) == 1 and path[0].extra.get(API, {}).get(RESPONSE) and isinstance(path[0].message, AssistantMessage):
        report = Reporter()
        body = _encode_response(path[0].message, report)
        return encoded(API, body, conversation, RESPONSE_SUPPORT, report.losses)
    report = Reporter()
    body = _encode_chat(conversation, report)
    if extra_fields.get(BARE) and body.keys() == {"messages"}:
        return encoded(API, body["messages"], conversation, FIELD_SUPPORT, report.losses)
    return encoded(API, restored(body, conversation.extra, API), conversation, FIELD_SUPPORT, report.losses)


def _encode_chat(conversation: Conversation, report: Reporter) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if conversation.model is not None:
        if conversation.model.id:
            body["model"] = conversation.model.id
        else:
            report.at("$.model.id", "id", "an empty name is left out", "record")
    body["messages"] = _encode_messages(conversation, report)
    if conversation.tools is not None:
        body["tools"] = _encode_tools(conversation.tools, report)
    options = conversation.options
    if options.max_tokens is not None:
        body["maxTokens"] = options.max_tokens
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.stop is not None:
        body["stopSequences"] = list(options.stop)
    return body


def _encode_messages(conversation: Conversation, report: Reporter) -> list[dict[str, Any]]:
    out = _Messages(report)
    if conversation.system is not None:
        extra_fields = conversation.extra.get(API, {}).get(SYSTEM, {})
        out.wire.append(put_back(_encode_system(conversation.system), extra_fields))
    for at, entry in enumerate(conversation.path()):
        report.message = at
        message: Any = entry.message
        if isinstance(message, CustomMessage):
            if entry.extra.get(API, {}).get(OWN):
                out.append_custom(message)
            else:
                report.lost(message.role, "the roles are system, user, assistant and tool")
            continue
        out.append(message)
        if isinstance(message, SystemMessage) and len(out.wire) == 1 and is_system(_decode_content(out.wire[0])[0]):
            report.lost("system", "a first system message is read as the system text", "weakened")
            report.at("$.system", "system", "the first message is read as it", "weakened")
    return out.wire


def _encode_system(system: System) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "system"}
    _encode_content(wire, system, QUIET, blocks=True)
    return wire


def _decode_tool(wire: Any) -> ToolSpec:
    """A tool in any of the wrappers: `input_schema`, `parameters`, or OpenAI's `function`."""
    an_object(wire, API)
    inner = wire.get("function") if wire.get("type") == "function" else wire
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return ToolSpec(name=optional(wire.get("type")) or "", dialect=API, value=wire)
    wrapper = "function" if inner is not wire else "parameters" if "parameters" in wire else None
    tool = ToolSpec(
        name=inner["name"],
        description=optional(inner.get("description")),
        input_schema=inner.get("parameters" if wrapper else "input_schema"),
        strict=flag(inner.get("strict")) if wrapper == "function" else None,
        extra={API: {AS: wrapper}} if wrapper else {},
    )
    return _kept(tool, wire, _encode_tool(tool))


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    wrapper = spec.extra.get(API, {}).get(AS)
    tool: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        tool["description"] = spec.description
    if spec.input_schema is not None:
        tool["parameters" if wrapper else "input_schema"] = spec.input_schema
    if spec.strict is not None and wrapper == "function":
        tool["strict"] = spec.strict
    wire = {"type": "function", "function": tool} if wrapper == "function" else tool
    return restored(wire, spec.extra, API)


def _encode_tools(specs: tuple[ToolSpec, ...], report: Reporter) -> list[Any]:
    for at, spec in enumerate(specs):
        if spec.strict is not None and spec.dialect is None and spec.extra.get(API, {}).get(AS) != "function":
            report.at(f"$.tools[{at}].strict", "strict", "the wrapper used inside has no such flag")
    return encode_tools(specs, API, _encode_tool, report)


def flattened(conversation: Conversation) -> tuple[Conversation, tuple[Loss, ...]]:
    """Text blocks as plain strings, as a provider without cache markers gets them; and what that cost.

    For OpenAI's own service, whose translation the format describes so. Content with pictures in it stays a list.
    """
    report = Reporter(SYSTEM_PATH)
    system = _flat(conversation.system, report)
    entries = []
    for entry, place in zip(conversation.entries, places(conversation), strict=True):
        report.root = place
        message: Any = entry.message
        if not isinstance(message, CustomMessage):
            content = _flat(message.content, report)
            message = message if content is message.content else replace(message, content=content)
        entries.append(entry if message is entry.message else replace(entry, message=message))
    return replace(conversation, system=system, entries=tuple(entries)), tuple(report.losses)


def _flat(content: Any, report: Reporter) -> Any:
    if not isinstance(content, tuple):
        return content
    message = tuple(block for block in content if not _is_call(block))
    calls = tuple(block for block in content if _is_call(block))
    if not message or not all(isinstance(block, TextBlock) for block in message):
        return content
    if content != (*message, *calls) or (calls and message == (TextBlock(text=text_of(message)),)):
        return content
    for at, block in enumerate(message):
        if block.cache is not None:
            report.block = at
            report.lost("cache", "a plain string has no cache markers", field="cache")
    report.block = None
    field = None if report.root == SYSTEM_PATH else "content"
    report.lost("content", "structured content becomes a string", "weakened", field=field)
    text = text_of(message)
    return (TextBlock(text=text), *calls) if calls else text


# --- responses -------------------------------------------------------------------------------------------------------


@reading(API)
def decode_response(
    body: Any, *, model: str | None = None, provider: str | None = None, timestamp: int | None = None
) -> AssistantMessage:
    """A `ChatResponse`: the one shape in which every provider's answer comes."""
    wire = an_object(body_of(body, API), API)
    thinking, text, calls = optional(wire.get("thinking")), optional(wire.get("content")), wire.get("toolCalls")
    content: list[Block] = [ThinkingBlock(thinking=thinking)] if thinking else []
    content += [TextBlock(text=text)] if text else []
    content += each(calls, "toolCalls", API, _decode_call) if isinstance(calls, list) else []
    named, word = optional(wire.get("model")), optional(wire.get("stopReason"))
    message = AssistantMessage(
        content=tuple(content),
        provider=provider,
        model=model or named,
        response_model=named if model and named != model else None,
        usage=_decode_usage(wire.get("usage")),
        stop_reason=reason_for(word, STOP_REASONS, tuple(content)),
        stop_detail=word,
        timestamp=timestamp,
    )
    emitted = _encode_response_fields(message, QUIET)
    given = {**wire, "toolCalls": emitted["toolCalls"]} if "toolCalls" in emitted else wire
    return keeping_response(message, API, given, emitted)


def encode_response(message: AssistantMessage) -> Encoded:
    """The `ChatResponse` of an answer."""
    report = Reporter("$")
    return encoded(API, _encode_response(message, report), message, RESPONSE_SUPPORT, report.losses)


def _encode_response(message: AssistantMessage, report: Reporter) -> dict[str, Any]:
    return put_back(_encode_response_fields(message, report), message.extra.get(API, {}).get(RESPONSE, {}))


def _encode_response_fields(message: AssistantMessage, report: Reporter) -> dict[str, Any]:
    content = _encode_answer(message.content, report)
    wire: dict[str, Any] = {"content": content["content"]}
    if content["toolCalls"]:
        wire["toolCalls"] = content["toolCalls"]
    if message.usage is not None:
        wire["usage"] = _encode_usage(message.usage)
    named = message.response_model or message.model
    if named is not None:
        wire["model"] = named
    word = _stop_word(message, report)
    if word is not None:
        wire["stopReason"] = word
    if content["thinking"]:
        wire["thinking"] = content["thinking"]
    return wire


def _encode_answer(content: Content, report: Reporter) -> dict[str, Any]:
    """Thinking, text and calls apart. An answer is read as one thought, one text, then the calls."""
    if not isinstance(content, tuple):
        report.lost("content", "an answer is read as blocks", "record", field="content")
    thoughts, texts, calls, order = [], [], [], []
    for at, block in enumerate(blocks_of(content)):
        report.block = at
        if isinstance(block, ThinkingBlock) and block.thinking and not block.redacted:
            thoughts.append(block.thinking)
            order.append(0)
        elif isinstance(block, TextBlock) and block.text:
            texts.append(block.text)
            order.append(1)
        elif _is_call(block):
            calls.append(_encode_call(block))
            order.append(2)
        else:
            report.lost(type(block).__name__, "a response has thinking, text and calls")
    report.block = None
    if order != sorted(order) or len(thoughts) > 1 or len(texts) > 1:
        report.lost("content", "a response has one thought, one text, then the calls", "weakened", field="content")
    return {"content": "".join(texts), "thinking": "\n\n".join(thoughts), "toolCalls": calls}


def _stop_word(message: AssistantMessage, report: Reporter) -> str | None:
    word = message.stop_detail
    if word in STOP_REASONS and settle(STOP_REASONS[word], blocks_of(message.content)) == message.stop_reason:
        return word
    emitted = WIRE_STOP_REASONS.get(message.stop_reason or "")
    if message.stop_reason is not None and emitted is None:
        report.lost("stop_reason", "no flag for failure", field="stopReason")
    return emitted


def _decode_usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    cost = number(wire.get("cost"))
    # …, OpenRouter Translation: tokens that were read from the cache are `cachedTokens` there.
    usage = Usage.of(
        count(wire, "inputTokens"),
        count(wire, "outputTokens"),
        cache_read=count(wire, "cacheReadTokens" if "cacheReadTokens" in wire else "cachedTokens"),
        cache_write=count(wire, "cacheWriteTokens"),
        total_tokens=whole(wire.get("totalTokens")),
        cost=None if cost is None else Cost(total=cost),
    )
    return keeping(usage, API, wire, _encode_usage(usage))


def _encode_usage(usage: Usage) -> dict[str, Any]:
    wire: dict[str, Any] = {"inputTokens": usage.input, "outputTokens": usage.output}
    if usage.cache_read:
        wire["cacheReadTokens"] = usage.cache_read
    if usage.cache_write:
        wire["cacheWriteTokens"] = usage.cache_write
    if usage.total_tokens != usage.input + usage.output + usage.cache_read + usage.cache_write:
        wire["totalTokens"] = usage.total_tokens
    if usage.cost is not None:
        wire["cost"] = usage.cost.total
    return restored(wire, usage.extra, API)


RESPONSE_SUPPORT: SupportTable = {
    **FIELD_SUPPORT,
    **kept("ThinkingBlock.thinking AssistantMessage.usage AssistantMessage.model"),
    **kept("Usage.input Usage.output Usage.cache_read Usage.cache_write Usage.total_tokens Usage.cost Cost.total"),
    **record("Cost.input Cost.output Cost.cache_read Cost.cache_write Cost.extra", "only the total is written"),
    **record("Usage.reasoning", "not counted apart"),
    **dropped("ThinkingBlock.thinking_signature TextBlock.cache"),
    **some("AssistantMessage.stop_reason AssistantMessage.stop_detail", "sent where there is a value for it"),
    **some("AssistantMessage.response_model", "written in place of the model"),
}


def detect(value: Any) -> str | None:
    """Whether a JSON document is Attocode's: `toolCalls` or `toolCallId` on its four roles, or a `ChatResponse`."""
    messages = value.get("messages") if isinstance(value, dict) else value if type(value) is list else None
    if isinstance(messages, list):
        if not all(isinstance(message, dict) and message.get("role") in _ROLES.values() for message in messages):
            return None
        if any(isinstance(message.get("toolCalls"), list) for message in messages):
            return "messages with `toolCalls`"
        if any(message["role"] == "tool" and "toolCallId" in message for message in messages):
            return "`tool` messages with a `toolCallId`"
        return "messages with `toolResults`" if any("toolResults" in message for message in messages) else None
    if isinstance(value, dict) and isinstance(value.get("content"), str) and "role" not in value:
        usage = value.get("usage")
        if value.get("stopReason") in STOP_REASONS or (isinstance(usage, dict) and "inputTokens" in usage):
            return "a response with `content` beside `stopReason` or `usage.inputTokens`"
    return None


FORMAT = FileFormat(
    name="attocode",
    codec=sys.modules[__name__],
    detect=detect,
    calls_beside=True,
    rows=Rows(),
    mistakes=in_attocode,
    listed=ListedSession(("messages", ""), listed),
)
