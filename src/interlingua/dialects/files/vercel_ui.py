"""AI SDK UI messages: a list of them, or a chat with `messages`; of version 5 and on (`parts`), or older (`content`).

An assistant's message holds a whole turn: text, reasoning and files, tools with what they gave, and `step-start` where
the model was asked anew. Here each step is an assistant's message followed by the results of its tools; on the way back
they are one again. Parts that are only for the screen (data, sources) stay as they are. Older messages have their text
in `content` and their tools in `toolInvocations`, or in parts of the type `tool-invocation`.

Model messages are read as well, with `tool-call` and `tool-result` parts: what the SDK sends to a model and gets back.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, Unsupported
from ...values.losses import QUIET, Encoded, Reporter, SupportTable, dropped, kept, record, some
from ...values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    Content,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    text_of,
)
from ...values.request import Conversation, Entry, System
from ..comparison import losses_of
from ..registry import CLAUDE, WIRES
from ..residual import (
    JOINED,
    an_object,
    body_of,
    keeping,
    optional,
    put_back,
    reading,
    residual,
    restored,
    same,
    string,
    with_residual,
)
from ..wire import FileFormat, ListedSession, Rows, SessionStream
from . import templates
from .line_sessions import EntryStream, ReadAgain, Reader, Record, read
from .records import LINEAR, METADATA, NO_CALL, RECORD, SERVER_TOOLS, TOOLS, Records
from .vercel_model import ModelReader, is_model_messages

API = "vercel-ui"

STEP = "~step"  # of an answer: it begins with `step-start`; the residual of that part
AS = "~as"  # of a call: the type of part that it came as, where that is not `tool-<name>`; of a thought, its key
TEXT = "~text"  # of a message with parts: its text stands in `content` once more
OLD = "~old"  # of a message: it has `content` and no parts
SYSTEM = "~system"  # of a conversation: residual of its first message, the system text
CHAT = "~chat"  # of a conversation: its messages stand in an object
MCP = "~mcp"  # of a result: residuals of what it was wrapped in

_MEDIA = "a file has a media type and one URL"
FIELD_SUPPORT: SupportTable = {
    **NO_CALL,
    **LINEAR,
    **kept("TextBlock.text ToolCall.id ToolCall.name ToolCall.arguments"),
    **dropped("TextBlock.text_signature TextBlock.citations TextBlock.cache CacheMarker.ttl"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    **dropped("Citation.title Citation.url Citation.cited_text Citation.start Citation.end"),
    **kept("ThinkingBlock.thinking"),
    **some("ThinkingBlock.thinking_signature ThinkingBlock.redacted", "sent for Anthropic's models"),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url AudioBlock.data AudioBlock.mime_type", _MEDIA),
    **some("AudioBlock.url DocumentBlock.data DocumentBlock.mime_type DocumentBlock.url DocumentBlock.title", _MEDIA),
    **dropped("ImageBlock.file_id AudioBlock.file_id DocumentBlock.file_id DocumentBlock.text", _MEDIA),
    **dropped("ImageBlock.detail ImageBlock.cache AudioBlock.transcript AudioBlock.cache"),
    **dropped("DocumentBlock.context DocumentBlock.citations DocumentBlock.cache"),
    **record("ToolCall.arguments_text", "arguments are an object, not text"),
    **dropped("ToolCall.parse_error ToolCall.thought_signature ToolCall.cache"),
    **some(f"{SERVER_TOOLS} OpaqueBlock.dialect OpaqueBlock.value", "only what stood in this format"),
    **some("UserMessage.content SystemMessage.content", "what has no part of its own is dropped"),
    **some("AssistantMessage.content", "what has no part of its own is dropped"),
    **kept("ToolResultMessage.tool_call_id ToolResultMessage.is_error"),
    **some("ToolResultMessage.content", "a tool gives any value; a failed one gives text"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    **some("ToolResultMessage.details", "only where the content is its text"),
    **dropped("ToolResultMessage.cache"),
    **dropped("SystemMessage.developer Context.system_role", "one role for system messages"),
    **some("CustomMessage.role CustomMessage.fields", "only what stood in this format goes back"),
    **record(METADATA, "a message has the metadata that the program gives it"),
    **dropped(TOOLS, "the tools are the server's business"),
}


# --- parts -----------------------------------------------------------------------------------------------------------


def _decode_part(part: Any) -> Block:
    """A part that is no tool; what is only for the screen stays as it is."""
    try:
        block = _block_in(part)
        if block is not None:
            encoded = _encode_part(block)
            extra_fields = None if encoded is None else residual(part, encoded)
            if extra_fields is not None:
                return with_residual(block, API, **extra_fields) if extra_fields else block
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    return OpaqueBlock(dialect=API, value=part)


def _block_in(part: dict[str, Any]) -> Block | None:
    match part["type"]:
        case "text":
            return TextBlock(text=string(part["text"]))
        case "reasoning":
            if "text" not in part:
                return ThinkingBlock(thinking=string(part["reasoning"]), extra={API: {AS: "reasoning"}})
            text = string(part["text"])
            about = part.get("providerMetadata")
            given = about.get("anthropic") if isinstance(about, dict) else None
            given = given if isinstance(given, dict) else {}
            if not text and isinstance(given.get("redactedData"), str):
                return ThinkingBlock(thinking="", thinking_signature=given["redactedData"], redacted=True)
            return ThinkingBlock(thinking=text, thinking_signature=optional(given.get("signature")))
        case "file":
            return _decode_file(string(part["mediaType"]), string(part["url"]), optional(part.get("filename")))
        case _:
            return None


def _decode_file(mime: str, url: str, name: str | None) -> Block:
    prefix = f"data:{mime};base64,"
    fields: dict[str, Any] = {"data": url[len(prefix) :]} if url.startswith(prefix) else {"url": url}
    if mime.startswith("image/"):
        return ImageBlock(mime_type=mime, **fields)
    if mime.startswith("audio/"):
        return AudioBlock(mime_type=mime, **fields)
    return DocumentBlock(mime_type=mime, title=name, **fields)


def _encode_part(block: Block) -> dict[str, Any] | None:
    """A part without its residual; None where the format has none for it."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ThinkingBlock():
            key = block.extra.get(API, {}).get(AS) or "text"  # older versions write `reasoning`
            encoded: dict[str, Any] = {"type": "reasoning", key: "" if block.redacted else block.thinking}
            if block.thinking_signature is not None:
                key = "redactedData" if block.redacted else "signature"
                encoded["providerMetadata"] = {"anthropic": {key: block.thinking_signature}}
            return encoded
        case ImageBlock() | AudioBlock() | DocumentBlock() if block.mime_type is not None:
            return _encode_file(block, block.mime_type)
        case _:
            return None


def _encode_file(block: ImageBlock | AudioBlock | DocumentBlock, mime: str) -> dict[str, Any] | None:
    url = block.url if block.data is None else f"data:{mime};base64,{block.data}"
    if url is None:
        return None
    title = block.title if isinstance(block, DocumentBlock) else None
    return {"type": "file", "mediaType": mime, "url": url, **({} if title is None else {"filename": title})}


def _encode_block(block: Block) -> Any:
    if isinstance(block, OpaqueBlock) and block.dialect == API:
        return block.value
    encoded = _encode_part(block)
    return None if encoded is None else restored(encoded, block.extra, API)


# --- tools -----------------------------------------------------------------------------------------------------------


def _decode_tool(part: Any) -> tuple[Block, list[Message]] | None:
    """A tool's part as a call and what it gave; None where it is of another kind, or not as it should be."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or part.get("providerExecuted") is True:
        return None
    inner = part.get("toolInvocation") if kind == "tool-invocation" else part
    if kind in ("tool-invocation", "dynamic-tool"):
        name = inner.get("toolName") if isinstance(inner, dict) else None
    else:
        name = kind.removeprefix("tool-") if kind.startswith("tool-") else None
    return _decode_invocation(inner, name, kind, part) if isinstance(name, str) else None


def _decode_invocation(
    inner: dict[str, Any], name: str, kind: str, whole: dict[str, Any]
) -> tuple[Block, list[Message]] | None:
    old = kind in ("tool-invocation", OLD)
    given, id = inner.get("args" if old else "input"), inner.get("toolCallId")
    if not isinstance(given, dict) or not isinstance(id, str):
        return None
    call = ToolCall(id=id, name=name, arguments=given)
    if kind != f"tool-{name}" or kind == "tool-invocation":
        call = with_residual(call, API, **{AS: kind})
    results: list[Message] = []
    state, output = inner.get("state"), "result" if old else "output"
    if state == ("result" if old else "output-available") and output in inner:
        results = [_decode_output(inner[output], call)]
    elif state == "output-error" and not old and isinstance(inner.get("errorText"), str):
        results = [ToolResultMessage(tool_call_id=id, tool_name=name, content=inner["errorText"], is_error=True)]
    return keeping(call, API, whole, _encode_call(call, results[0] if results else None)), results


def _decode_output(output: Any, call: ToolCall) -> ToolResultMessage:
    """What a tool gave: text, the content of an MCP server, or any value, which the model reads as JSON."""
    result = ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content="", is_error=False)
    if isinstance(output, str):
        return replace(result, content=output)
    if isinstance(output, dict) and isinstance(output.get("content"), list):
        extra_fields = {MCP: residual(output, {"content": output["content"]})}
        blocks = tuple(map(_decode_mcp, output["content"]))
        read = with_residual(replace(result, content=blocks), API, **extra_fields)
        if same(_encode_output(read), output):
            return read
    return replace(result, content=jsontext.compact(output), details=output)


def _decode_mcp(item: Any) -> Block:
    kind = item.get("type") if isinstance(item, dict) else None
    block: Block | None = None
    if kind == "text" and isinstance(item.get("text"), str):
        block = TextBlock(text=item["text"])
    elif kind in ("image", "audio") and isinstance(item.get("data"), str) and isinstance(item.get("mimeType"), str):
        block = (ImageBlock if kind == "image" else AudioBlock)(data=item["data"], mime_type=item["mimeType"])
    return (
        OpaqueBlock(dialect=API, value=item) if block is None else keeping(block, API, item, _encode_mcp(block) or {})
    )


def _encode_mcp(block: Block) -> dict[str, Any] | None:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ImageBlock() | AudioBlock() if block.data is not None and block.mime_type is not None:
            kind = "image" if isinstance(block, ImageBlock) else "audio"
            return {"type": kind, "data": block.data, "mimeType": block.mime_type}
        case _:
            return None


def _encode_output(result: ToolResultMessage) -> Any:
    if isinstance(result.content, tuple):
        items = []
        for block in result.content:
            if isinstance(block, OpaqueBlock) and block.dialect == API:
                items.append(block.value)
                continue
            item = _encode_mcp(block)
            if item is not None:
                items.append(restored(item, block.extra, API))
        return put_back({"content": items}, result.extra.get(API, {}).get(MCP, {}))
    if result.details is not None and result.content == jsontext.compact(result.details):
        return result.details
    return result.content


def _encode_call(call: ToolCall, result: Message | None) -> dict[str, Any]:
    """A tool's part without its residual."""
    kind = call.extra.get(API, {}).get(AS) or f"tool-{call.name}"
    given = result if isinstance(result, ToolResultMessage) else None
    if kind in ("tool-invocation", OLD):
        fields = {"toolCallId": call.id, "toolName": call.name, "args": call.arguments}
        inner = (
            {"state": "call", **fields}
            if given is None
            else {"state": "result", **fields, "result": _encode_output(given)}
        )
        return inner if kind == OLD else {"type": kind, "toolInvocation": inner}
    encoded: dict[str, Any] = {"type": kind, "toolCallId": call.id}
    if kind == "dynamic-tool":
        encoded["toolName"] = call.name
    if given is None:
        return {**encoded, "state": "input-available", "input": call.arguments}
    if given.is_error:
        return {**encoded, "state": "output-error", "input": call.arguments, "errorText": text_of(given.content)}
    return {**encoded, "state": "output-available", "input": call.arguments, "output": _encode_output(given)}


# --- messages --------------------------------------------------------------------------------------------------------


def _decode_message(wire: dict[str, Any]) -> list[Any]:
    """One UI message; a turn of several steps becomes several."""
    role, parts = wire.get("role"), wire.get("parts")
    if not isinstance(parts, list):
        return _decode_old(wire)
    messages: list[Message] = []
    if role in ("user", "system"):
        made = UserMessage if role == "user" else SystemMessage
        messages = [made(content=tuple(map(_decode_part, parts)))]
    elif role == "assistant":
        messages = [message for at, step in enumerate(_steps(parts)) for message in _decode_step(step, at)]
    if messages and "content" in wire and wire["content"] == _text_in(parts):
        messages[0] = with_residual(messages[0], API, **{TEXT: True})
    return messages


def _text_in(parts: list[Any]) -> str:
    """The text of parts, which versions on the way to parts repeat in `content`."""
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def _steps(parts: list[Any]) -> Iterator[list[Any]]:
    step: list[Any] = []
    for at, part in enumerate(parts):
        if at and isinstance(part, dict) and part.get("type") == "step-start":
            yield step
            step = []
        step.append(part)
    yield step


def _decode_step(parts: list[Any], at: int) -> list[Message]:
    blocks: list[Block] = []
    results: list[Message] = []
    hints: dict[str, Any] = {}
    if parts and isinstance(parts[0], dict) and parts[0].get("type") == "step-start":
        extra_fields = residual(parts[0], _START)
        hints = {STEP: extra_fields} if extra_fields or not at else {}  # later steps begin so by themselves
        parts = parts[1:]
    for part in parts:
        tool = _decode_tool(part)
        blocks.append(_decode_part(part) if tool is None else tool[0])
        results += [] if tool is None else tool[1]
    signed = any(isinstance(block, ThinkingBlock) and block.thinking_signature is not None for block in blocks)
    answer = AssistantMessage(content=tuple(blocks), api="anthropic-messages" if signed else None)
    return [with_residual(answer, API, **hints) if hints else answer, *results]


_START = {"type": "step-start"}


def _decode_old(wire: dict[str, Any]) -> list[Any]:
    """A message of older versions: text in `content`, tools beside it."""
    content, role, tools = wire.get("content"), wire.get("role"), wire.get("toolInvocations")
    if not isinstance(content, str) or role not in ("user", "system", "assistant") or "parts" in wire:
        return []
    hints = {API: {OLD: True}}
    if role != "assistant":
        return [(UserMessage if role == "user" else SystemMessage)(content=content, extra=hints)]
    if not isinstance(tools, list) or not tools:
        return [AssistantMessage(content=content, extra=hints)]
    read = [
        _decode_invocation(item, string(item["toolName"]), OLD, item) or (OpaqueBlock(dialect=API, value=item), [])
        for item in tools
    ]
    text: tuple[Block, ...] = (TextBlock(text=content),) if content else ()
    answer = AssistantMessage(content=(*text, *(call for call, _ in read)), extra=hints)
    return [answer, *(result for _, results in read for result in results)]


def _encode_message(messages: tuple[Message, ...], _: Reporter = QUIET) -> dict[str, Any]:
    """One UI message of one message of ours, or of the steps of a turn."""
    first = messages[0]
    if first.extra.get(API, {}).get(OLD):
        return _encode_old(messages)
    role, parts = _encode_parts(messages)
    text = {"content": _text_in(parts)} if first.extra.get(API, {}).get(TEXT) else {}
    return {"role": role, **text, "parts": parts}


def _encode_parts(messages: tuple[Message, ...]) -> tuple[str, list[Any]]:
    first = messages[0]
    if not isinstance(first, AssistantMessage | ToolResultMessage):
        role = "user" if isinstance(first, UserMessage) else "system"
        return role, _encode_blocks(first.content, {})
    results = {m.tool_call_id: m for m in reversed(messages) if isinstance(m, ToolResultMessage)}
    parts: list[Any] = []
    for at, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            begun = message.extra.get(API, {}).get(STEP) if message.extra else None
            if begun is not None or at:
                parts.append(put_back(dict(_START), begun or {}))
            parts += _encode_blocks(_signed(message), results)
    return "assistant", parts


def _signed(message: AssistantMessage) -> Content:
    """The content; a signature of another provider's would be taken for one of Anthropic's."""
    wire = WIRES.get(message.api or "")
    own = message.api in (None, API) or (wire is not None and CLAUDE in wire.limits.families)
    if not isinstance(message.content, tuple) or own:
        return message.content
    return tuple(
        replace(block, thinking_signature=None) if isinstance(block, ThinkingBlock) else block
        for block in message.content
    )


def _encode_blocks(content: Content, results: dict[str, ToolResultMessage]) -> list[Any]:
    encoded = []
    for block in blocks_of(content):
        if isinstance(block, ToolCall):
            encoded.append(restored(_encode_call(block, results.pop(block.id, None)), block.extra, API))
            continue
        part = _encode_block(block)
        if part is not None or (isinstance(block, OpaqueBlock) and block.dialect == API):
            encoded.append(part)
    return encoded


def _encode_old(messages: tuple[Message, ...]) -> dict[str, Any]:
    first = messages[0]
    if not isinstance(first, AssistantMessage):
        return {"role": "user" if isinstance(first, UserMessage) else "system", "content": text_of(first.content)}
    results = {m.tool_call_id: m for m in reversed(messages) if isinstance(m, ToolResultMessage)}
    tools = tuple(block for block in blocks_of(first.content) if not isinstance(block, TextBlock))
    encoded: dict[str, Any] = {"role": "assistant", "content": text_of(first.content)}
    return {**encoded, "toolInvocations": _encode_blocks(tools, results)} if tools else encoded


# --- chats -----------------------------------------------------------------------------------------------------------


@reading(API)
def decode(data: Any) -> Conversation:
    """A list of messages, or a chat with `messages`."""
    body = body_of(data, API)
    is_list = isinstance(body, list)
    wire = {"messages": body} if is_list else an_object(body, API)
    if not isinstance(wire.get("messages"), list):
        raise BadWire(API, "expected a list of messages, or a chat with `messages`", "$.messages")
    if is_model_messages(wire["messages"]):
        return templates.keep(read(ModelReader(API), wire["messages"]), body, API)
    return read(_Reader(None if is_list else wire), wire["messages"])


@reading(API)
def listed(header: Record, messages: ReadAgain) -> SessionStream | None:
    """UI messages, one entry at a time."""
    if any(is_model_messages([message]) for message in messages()):
        return None
    return EntryStream(_Reader(header or None), messages)


class _Reader(Reader):
    """Reads the messages of a chat, or (None) of a list."""

    def __init__(self, chat: Record | None) -> None:
        self._chat = chat

    def entries(self, records: Iterable[Any]) -> Iterator[Entry]:
        chat, system = self._chat, None
        extra_fields = {} if chat is None else {CHAT: True, **residual(chat, {"messages": chat["messages"]})}
        first: Entry | None = None
        for entry in self._entries(records):
            if first is None:
                first = entry
                system = _system_in(entry.message.content) if isinstance(entry.message, SystemMessage) else None
                if system is not None:
                    extra_fields[SYSTEM] = {**entry.extra[API], OLD: isinstance(system, str)}
                    continue
            yield entry
        self.about = Conversation(system=system, extra={API: extra_fields} if extra_fields else {})

    def _entries(self, messages: Iterable[Any]) -> Iterator[Entry]:
        records = Records(API, _decode_message, _encode_message)
        for at, message in enumerate(messages):
            place = f"$[{at}]" if self._chat is None else f"$.messages[{at}]"
            role = an_object(message, API, place).get("role")
            yield from records.read(message, role if isinstance(role, str) else "message")


def _system_in(content: Content) -> System:
    """The content, if it can be the system text: text parts, and nothing else."""
    if isinstance(content, tuple):
        text = tuple(block for block in content if isinstance(block, TextBlock))
        return text if len(text) == len(content) else None
    return content


def encode(conversation: Conversation) -> Encoded:
    """The list of messages; the chat, if that is what was read."""
    if templates.FILE in conversation.extra.get(API, {}):
        try:
            return templates.give_back(conversation, API, decode)
        except Unsupported:  # it has grown: UI messages say what the model messages do not
            conversation = replace(conversation, extra={k: v for k, v in conversation.extra.items() if k != API})
    extra_fields = conversation.extra.get(API, {})
    encoded: list[dict[str, Any]] = []
    places: list[int] = []
    if conversation.system is not None:
        encoded.append(_encode_system(conversation.system, extra_fields.get(SYSTEM)))
    for turn in _turns(conversation):
        group = [(at, entry) for at, entry in turn if _is_encoded(entry.message, turn)]
        if not group:
            continue
        first: Any = group[0][1].message
        beside = group[0][1].extra.get(API, {})
        if isinstance(first, CustomMessage):
            wire = dict(first.fields)
        else:
            named = {} if beside.get(RECORD) else {"id": f"msg-{len(encoded)}"}
            wire = {**named, **_encode_message(tuple(entry.message for _, entry in group))}
        encoded.append(put_back(wire, beside))
        places += [at for at, _ in group]
    body: Any = put_back({"messages": encoded}, extra_fields) if extra_fields.get(CHAT) else encoded
    return Encoded(body, losses_of(conversation, places, lambda: decode(body), FIELD_SUPPORT, API))


def _encode_system(system: System, extra_fields: dict[str, Any] | None) -> dict[str, Any]:
    if extra_fields and extra_fields.get(OLD):
        return put_back({"role": "system", "content": text_of(system)}, extra_fields)
    encoded = {"role": "system", "parts": _encode_blocks(system, {})}
    return put_back(encoded, extra_fields) if extra_fields is not None else {"id": "msg-0", **encoded}


def _turns(conversation: Conversation) -> Iterator[list[tuple[int, Entry]]]:
    """The messages of one UI message: what was one before, or answers and results in a row."""
    group: list[tuple[int, Entry]] = []
    for at, entry in enumerate(conversation.path()):
        message: Any = entry.message
        beside = entry.extra.get(API, {})
        if isinstance(message, CustomMessage) and not beside.get(RECORD):
            continue
        joins = beside.get(JOINED, not beside.get(RECORD) and isinstance(message, ToolResultMessage | AssistantMessage))
        if group and not (joins and isinstance(group[-1][1].message, ToolResultMessage | AssistantMessage)):
            yield group
            group = []
        group.append((at, entry))
    if group:
        yield group


def _is_encoded(message: Any, group: list[tuple[int, Entry]]) -> bool:
    """Whether a message of a turn is in it: a result stands in its call, so it needs one before it."""
    if not isinstance(message, ToolResultMessage):
        return True
    answers = [entry.message for _, entry in group if isinstance(entry.message, AssistantMessage)]
    return any(call.id == message.tool_call_id for answer in answers for call in answer.tool_calls)


def detect(value: Any) -> str | None:
    """Detects UI messages: `parts` of the SDK's types, or `toolInvocations`."""
    messages = value.get("messages") if isinstance(value, dict) else value if isinstance(value, list) else None
    if is_model_messages(messages):
        return "messages with `tool-call` and `tool-result` parts"
    if type(messages) is not list or not messages or not all(map(_is_message, messages)):
        return None
    if all(isinstance(message.get("parts"), list) and isinstance(message.get("id"), str) for message in messages):
        kinds = [part.get("type") for message in messages for part in message["parts"] if isinstance(part, dict)]
        return "messages with an `id` and typed `parts`" if all(isinstance(kind, str) for kind in kinds) else None
    return "messages with `toolInvocations`" if any("toolInvocations" in message for message in messages) else None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and value.get("role") in ("user", "assistant", "system", "data")


FORMAT = FileFormat(
    name="vercel-ui",
    codec=sys.modules[__name__],
    detect=detect,
    rows=Rows(number=lambda message, at: {**message, "id": f"msg-{at}"}, whole_turns=True),
    listed=ListedSession(("", "messages"), listed),
)
