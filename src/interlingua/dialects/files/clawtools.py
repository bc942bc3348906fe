"""clawtools conversations: a `StreamContext`, or a bare list of its messages. Knows nothing of providers.

Roles are `user`, `assistant` and `toolResult`; a call is a `toolCall` block; a result is a message with text and image
blocks. The type of a user's or assistant's block is open, and what the layer below reads there is what the formal
specification shows: thinking and signatures travel too. What a message says about itself (times, usage, its model)
has no place here.

`project` gives the events of the clawtools stream protocol, `unproject` reads them. `mistakes` explains the shapes of
other wires that people write here; `decode` reads all of them without loss, so that they can be explained.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any, NamedTuple

from ...values.compact import IdMap
from ...values.errors import BadWire
from ...values.events import (
    Done,
    Error,
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ...values.folding import CUT_OFF, EventRecorder, parse_arguments
from ...values.interop import attribute
from ...values.losses import QUIET, Encoded, Reporter, SupportTable, dropped, encoded, kept, record, some
from ...values.messages import (
    AssistantMessage,
    Block,
    Content,
    CustomMessage,
    ImageBlock,
    OpaqueBlock,
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
from ...values.request import Conversation, Entry, System, ToolSpec
from .. import shapes
from ..foreign_blocks import (
    CALL_KEYS,
    CALL_TYPES,
    IMAGE_KEYS,
    IMAGE_TYPES,
    OTHER_ROLES,
    RESULT_KEYS,
    RESULT_ROLES,
    RESULT_TYPES,
    SYSTEM_ROLES,
    TEXT_TYPES,
    call_parts,
    first,
    result_parts,
    shown,
)
from ..openai_shared import data_url, read_data_url
from ..residual import (
    BARE,
    an_object,
    body_of,
    decode_typed,
    each,
    encode_blocks,
    encode_tools,
    keeping,
    list_of,
    optional,
    reading,
    report_other_sources,
    restored,
    string,
    with_residual,
)
from ..wire import Evidence, FileFormat, ListedSession, Rows, SessionStream
from .line_sessions import EntryStream, ReadAgain, Reader, read
from .records import LINEAR, MEDIA, METADATA, NO_CALL, OWN, SERVER_TOOLS

API = "clawtools"

# Hints of ours in `extra[API]`.
AS = "~as"  # the block type that a picture came as
TEXT = "~text"  # a result whose content was not a list of blocks

FIELD_SUPPORT: SupportTable = {
    **kept("TextBlock.text TextBlock.text_signature ThinkingBlock.thinking ThinkingBlock.thinking_signature"),
    **kept("ThinkingBlock.redacted ToolCall.id ToolCall.name ToolCall.arguments ToolCall.thought_signature"),
    **dropped("TextBlock.citations TextBlock.cache ToolCall.cache ImageBlock.cache ToolResultMessage.cache"),
    **dropped("Citation.title Citation.url Citation.cited_text Citation.start Citation.end CacheMarker.ttl"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    **record("ToolCall.arguments_text", "arguments are an object, not text"),
    **dropped("ToolCall.parse_error", "arguments are an object; what is none is written as {}"),
    **some(
        "ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id ImageBlock.detail",
        "a picture is base64 with its type, or, outside results, a URL",
    ),
    **some(f"{MEDIA} {SERVER_TOOLS}", "the format has no such block; it is dropped"),
    **some("OpaqueBlock.dialect OpaqueBlock.value", "only what stood in this format"),
    **kept("UserMessage.content AssistantMessage.content"),
    **kept("ToolResultMessage.tool_call_id ToolResultMessage.tool_name ToolResultMessage.is_error"),
    **some("ToolResultMessage.content", "text and image blocks; a string is written as a block"),
    **kept("ToolResultMessage.details"),
    **some("SystemMessage.content CustomMessage.role", "no such role here; only what stood in this format goes back"),
    **dropped("SystemMessage.developer", "no such role here"),
    **record(METADATA, "messages have no metadata"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema"),
    **dropped("ToolSpec.strict ToolSpec.cache"),
    **some("ToolSpec.dialect ToolSpec.value", "only what stood in this format"),
    **dropped("Context.system_role", "the system prompt has no role"),
    **NO_CALL,
    **LINEAR,
}


# --- blocks ----------------------------------------------------------------------------------------------------------


def decode_block(wire: Any, *, result: bool = False) -> Block:
    """One content block; what this format does not have is kept as it is, opaque. Results hold text and images only."""
    return decode_typed(wire, _IN_RESULTS if result else _DECODERS, partial(encode_block, result=result), API)


def _decode_text(wire: dict[str, Any]) -> TextBlock:
    return TextBlock(text=string(wire["text"]), text_signature=optional(wire.get("textSignature")))


def _decode_thinking(wire: dict[str, Any]) -> ThinkingBlock:
    return ThinkingBlock(
        thinking=string(wire["thinking"]),
        thinking_signature=optional(wire.get("thinkingSignature")),
        redacted=wire.get("redacted") is True,
    )


def _decode_image(wire: dict[str, Any]) -> ImageBlock:
    return ImageBlock(data=string(wire["data"]), mime_type=optional(wire.get("mimeType")))


def _decode_image_url(wire: dict[str, Any]) -> ImageBlock:
    given = wire["image_url"]
    url, detail = string(given["url"]), optional(given.get("detail"))
    inline = read_data_url(url)
    if inline is None:
        return ImageBlock(url=url, detail=detail)
    return ImageBlock(mime_type=inline[0], data=inline[1], detail=detail, extra={API: {AS: "image_url"}})


def _decode_call(wire: dict[str, Any]) -> ToolCall:
    if not isinstance(wire["arguments"], dict):
        raise TypeError("arguments are an object")
    return ToolCall(
        id=string(wire["id"]),
        name=string(wire["name"]),
        arguments=wire["arguments"],
        thought_signature=optional(wire.get("thoughtSignature")),
    )


_IN_RESULTS: dict[str, Callable[[dict[str, Any]], Any]] = {"text": _decode_text, "image": _decode_image}
_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    **_IN_RESULTS,
    "image_url": _decode_image_url,  # OpenAI's, as in the example of `UserMessage`
    "thinking": _decode_thinking,
    "toolCall": _decode_call,
}


def encode_block(block: Block, report: Reporter, *, result: bool = False) -> Any:
    """Encodes a block; None, with a report, if the format has no place for it."""
    wire: dict[str, Any]
    match block:
        case TextBlock():
            wire = {"type": "text", "text": block.text}
            if block.text_signature is not None:
                wire["textSignature"] = block.text_signature
        case ToolCall() if not result:
            wire = {"type": "toolCall", "id": block.id, "name": block.name, "arguments": block.arguments}
            if block.thought_signature is not None:
                wire["thoughtSignature"] = block.thought_signature
        case ThinkingBlock() if not result:
            wire = {"type": "thinking", "thinking": block.thinking}
            if block.thinking_signature is not None:
                wire["thinkingSignature"] = block.thinking_signature
            if block.redacted:
                wire["redacted"] = True
        case ImageBlock() if block.data is not None or (block.url is not None and not result):
            wire = _encode_image(block, report, result)
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            report.lost(type(block).__name__, "a result holds text and images" if result else "no such block here")
            return None
    return restored(wire, block.extra, API) if block.extra else wire


def _encode_image(block: ImageBlock, report: Reporter, result: bool) -> dict[str, Any]:
    report_other_sources(block, report)
    by_url = block.data is None or (block.extra.get(API, {}).get(AS) == "image_url" and block.mime_type is not None)
    if not by_url or result:
        if block.detail is not None:
            report.lost("detail", "sent for pictures by URL only", field="detail")
        wire: dict[str, Any] = {"type": "image", "data": block.data}
        if block.mime_type is not None:
            wire["mimeType"] = block.mime_type
        return wire
    if block.data is not None:
        url = data_url(block.mime_type or "", block.data)
    else:
        url = block.url or ""
        if block.mime_type is not None:
            report.lost("mime_type", "a URL is written without its type", field="mimeType")
        if read_data_url(url) is not None:
            report.lost("url", "a data URL is read as the data in it", "weakened")
    image_url = {"url": url}
    if block.detail is not None:
        image_url["detail"] = block.detail
    return {"type": "image_url", "image_url": image_url}


def _encode_content(content: Content, report: Reporter, *, result: bool = False) -> Any:
    if content is None or isinstance(content, str):
        return content
    return encode_blocks(content, partial(encode_block, result=result), report, API)


# --- messages --------------------------------------------------------------------------------------------------------


def _decode_message(wire: Any, names: dict[str, str]) -> Entry:
    """One message in its entry. Wrong shapes are read too: `mistakes` explains them, and they go back as they came."""
    role = an_object(wire, API).get("role")
    message: UserMessage | AssistantMessage | ToolResultMessage | SystemMessage
    match role:
        case "user":
            message = UserMessage(content=_decode_content(wire.get("content")))
        case "assistant":
            message = AssistantMessage(content=_decode_content(wire.get("content")))
            names.update((call.id, call.name) for call in message.tool_calls)
        case "toolResult":
            message = _decode_result(wire, names)
        case "system":
            message = SystemMessage(content=_decode_content(wire.get("content")), extra={API: {OWN: True}})
        case str():
            fields = {key: value for key, value in wire.items() if key != "role"}
            return Entry(message=CustomMessage(role, fields), extra={API: {OWN: True}})  # type: ignore[arg-type]
        case _:
            raise BadWire(API, "a message needs a role: user, assistant or toolResult", "$.role")
    emitted = _encode_message(message, QUIET) or {}
    given = {**wire, "content": emitted["content"]} if isinstance(wire.get("content"), list) else wire
    return Entry(message=keeping(message, API, given, emitted))


def _decode_content(content: Any, *, result: bool = False) -> Content:
    if content is None or isinstance(content, str):
        return content
    return tuple(each(content, "content", API, lambda block: decode_block(block, result=result)))


def _decode_result(wire: dict[str, Any], names: dict[str, str]) -> ToolResultMessage:
    content = _decode_content(wire.get("content"), result=True)
    call = optional(wire.get("toolCallId")) or ""
    return ToolResultMessage(
        tool_call_id=call,
        tool_name=optional(wire.get("toolName")) or names.get(call),
        content=content,
        details=wire.get("details"),
        is_error=wire.get("isError") is True,
        extra={} if isinstance(content, tuple) else {API: {TEXT: True}},
    )


def _encode_message(message: Any, report: Reporter) -> dict[str, Any] | None:
    match message:
        case UserMessage():
            wire = {"role": "user", "content": _encode_content(message.content, report)}
        case AssistantMessage():
            wire = {"role": "assistant", "content": _encode_content(message.content, report)}
        case ToolResultMessage():
            wire = _encode_result(message, report)
        case SystemMessage() if message.extra.get(API, {}).get(OWN):
            wire = {"role": "system", "content": _encode_content(message.content, report)}
        case _:
            report.lost(getattr(message, "role", "system"), "the roles are user, assistant and toolResult")
            return None
    return restored(wire, message.extra, API) if message.extra else wire


def _encode_result(result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "toolResult", "toolCallId": result.tool_call_id}
    if result.tool_name is not None:
        wire["toolName"] = result.tool_name
    if isinstance(result.content, tuple) or result.extra.get(API, {}).get(TEXT):
        wire["content"] = _encode_content(result.content, report, result=True)
    else:
        report.lost("content", "a result is a list of blocks", "record", field="content")
        wire["content"] = _encode_content(blocks_of(result.content), report, result=True)
    wire["isError"] = result.is_error
    if result.details is not None:
        wire["details"] = result.details
    return wire


# --- contexts --------------------------------------------------------------------------------------------------------


class _Reader(Reader):
    """Reads the messages of a context, which is given with or without them."""

    def __init__(self, context: dict[str, Any], *, bare: bool) -> None:
        tools = context.get("tools")
        about = Conversation(
            system=optional(context.get("systemPrompt")),
            tools=tuple(each(tools, "tools", API, decode_tool)) if isinstance(tools, list) else None,
        )
        emitted = _encode_context(about, QUIET)
        own = ("messages", "tools")  # they keep their own residuals
        self.about = with_residual(about, API, **{BARE: True}) if bare else keeping(about, API, context, emitted, own)

    def entries(self, records: Iterable[Any]) -> Iterator[Entry]:
        names: dict[str, str] = {}  # call id -> tool name
        for at, given in enumerate(records):
            yield from each([given], "messages", API, lambda message: _decode_message(message, names), at)


@reading(API)
def decode(data: Any) -> Conversation:
    """A `StreamContext`, or a bare list of messages."""
    body = body_of(data, API)
    wire = {"messages": body} if isinstance(body, list) else an_object(body, API)
    if "messages" not in wire:
        raise BadWire(API, "a context needs `messages`", "$.messages")
    if not isinstance(wire["messages"], list):
        raise BadWire(API, f"expected a list, got {type(wire['messages']).__name__}", "$.messages")
    return read(_Reader(wire, bare=isinstance(body, list)), wire["messages"])


@reading(API)
def listed(header: dict[str, Any], messages: ReadAgain) -> SessionStream:
    """The same, one entry at a time."""
    return EntryStream(_Reader(header, bare=not header), messages)


def encode(conversation: Conversation) -> Encoded:
    """The context; or the bare list, if that is what was read and the messages are all there is."""
    report = Reporter()
    body = _encode_context(conversation, report)
    if conversation.extra.get(API, {}).get(BARE) and body.keys() == {"messages"}:
        return encoded(API, body["messages"], conversation, FIELD_SUPPORT, report.losses)
    return encoded(API, restored(body, conversation.extra, API), conversation, FIELD_SUPPORT, report.losses)


def _encode_context(conversation: Conversation, report: Reporter) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if conversation.system is not None:
        body["systemPrompt"] = _encode_system(conversation.system, report)
    body["messages"] = messages = []
    for at, entry in enumerate(conversation.path()):
        report.message = at
        message = entry.message
        if isinstance(message, CustomMessage) and entry.extra.get(API, {}).get(OWN):
            messages.append({"role": message.role, **message.fields})
        else:
            emitted = _encode_message(message, report)
            if emitted is not None:
                messages.append(emitted)
    if conversation.tools is not None:
        body["tools"] = encode_tools(conversation.tools, API, _encode_tool, report)
    return body


def _encode_system(system: System, report: Reporter) -> str:
    if not isinstance(system, str):
        report.at("$.system", "system", "the system prompt is one string", "weakened")
    return text_of(system)


def decode_tool(wire: Any) -> ToolSpec:
    name = an_object(wire, API).get("name")
    if not isinstance(name, str):
        inner = wire.get("function")
        named = inner.get("name") if isinstance(inner, dict) else wire.get("type")
        return ToolSpec(name=optional(named) or "", dialect=API, value=wire)
    tool = ToolSpec(name=name, description=optional(wire.get("description")), input_schema=wire.get("input_schema"))
    return keeping(tool, API, wire, _encode_tool(tool))


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        wire["description"] = spec.description
    if spec.input_schema is not None:
        wire["input_schema"] = spec.input_schema
    return restored(wire, spec.extra, API)


def detect(value: Any) -> str | None:
    """Whether a JSON document is a clawtools context: `toolResult` messages, `toolCall` blocks, or a `systemPrompt`."""
    messages = value.get("messages") if isinstance(value, dict) else value if type(value) is list else None
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return None
    if any(message.get("role") == "toolResult" for message in messages):
        return "messages with the role `toolResult`"
    if any(_is_call(block) for message in messages for block in list_of(message.get("content"))):
        return "`toolCall` blocks"
    # LM Studio has a `systemPrompt`, too, beside versions of messages.
    have_roles = all("role" in message for message in messages)
    if have_roles and isinstance(value, dict) and isinstance(value.get("systemPrompt"), str):
        return "`messages` beside a `systemPrompt`"
    return None


def _is_call(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "toolCall"


# --- events ----------------------------------------------------------------------------------------------------------


def project(event: StreamEvent, *, ids: MutableMapping[int, str] | None = None) -> dict[str, Any] | None:
    """The event as the clawtools stream protocol has it; None for what it does not have.

    The protocol has nothing to distinguish calls by. Later versions put the call's id on `toolcall_start` and
    `toolcall_delta` where it is known: pass a dict, one for each stream, to have that.
    """
    match event:
        case TextDelta():
            return {"type": "text_delta", "delta": event.delta}
        case ThinkingDelta():
            return {"type": "thinking_delta", "delta": event.delta}
        case ToolCallDelta():
            return {"type": "toolcall_delta", "delta": event.delta} | _known_id(ids, event.content_index)
        case TextEnd():
            return {"type": "text_end", "content": event.content}
        case ThinkingEnd():
            return {"type": "thinking_end", "content": event.content}
        case ToolCallStart():
            if ids is not None and event.block is not None and event.block.id:
                ids[event.content_index] = event.block.id
            return {"type": "toolcall_start"} | _known_id(ids, event.content_index)
        case ToolCallEnd(tool_call=call):
            return {"type": "toolcall_end", "toolCall": {"id": call.id, "name": call.name, "arguments": call.arguments}}
        case Start():
            return {"type": "start"}
        case Done():
            return _projected_end(event)
        case Error():
            return {"type": "error", "error": event.error.error_message or f"the provider failed: {event.reason}"}
        case _:
            return None


def _known_id(ids: MutableMapping[int, str] | None, index: int) -> dict[str, str]:
    return {"id": ids[index]} if ids is not None and index in ids else {}


def _projected_end(event: Done) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "done", "stopReason": event.reason}
    usage = event.message.usage
    if usage is not None:
        out["usage"] = {"inputTokens": usage.input, "outputTokens": usage.output}
    return out


def unproject(events: Iterable[Any]) -> Iterator[StreamEvent]:
    """Returns the stream events of clawtools protocol events: the inverse of `project`."""
    recorder = EventRecorder(AssistantMessage(content=()))
    reader = EventReader(recorder)
    for event in events:
        reader.feed(event)
        yield from recorder.take()
    recorder.fail(CUT_OFF)
    yield from recorder.take()


class EventReader:
    """Writes the events of one clawtools stream into a recorder.

    An event is a mapping or an object, its names in either spelling. The protocol does not number blocks: text and
    thinking continue until they end or another block begins; a call is known by its id, where events have one, and is
    otherwise the one that was begun first and has not ended. Types that are not known are passed over, as the protocol
    wants it. `mint` makes the id of a call that has none.
    """

    def __init__(self, recorder: EventRecorder, mint: Callable[[], str] | None = None) -> None:
        self._recorder = recorder
        self._mint = mint or (lambda: f"call_{self._count}")
        self._count = 0
        self._running: tuple[str, int] | None = None  # the text or thinking that deltas go to
        self._calls: dict[int, str | None] = {}  # calls that have not ended, by key, with their ids

    def feed(self, event: Any) -> None:
        """Processes one event. Raises `BadWire` for an unknown event."""
        kind = attribute(event, "type")
        if not isinstance(kind, str):
            raise BadWire(API, f"a stream event has a type, {type(event).__name__} {event!r:.100} has none", "$.type")
        if self._recorder.finished:
            return
        match kind:
            case "start":
                self._recorder.begin()
            case "text_start" | "thinking_start":
                self._begin(kind.partition("_")[0])
            case "text_delta" | "thinking_delta":
                self._recorder.delta(self._begun(kind.partition("_")[0]), self._delta(event))
            case "text_end" | "thinking_end":
                self._end(kind.partition("_")[0], attribute(event, "content"))
            case "toolcall_start":
                self._begin_call(attribute(event, "id"))
            case "toolcall_delta":
                self._recorder.delta(self._call(attribute(event, "id"), last=True), self._delta(event))
            case "toolcall_end":
                self._end_call(attribute(event, "tool_call"))
            case "done":
                self._done(event)
            case "error":
                self._recorder.fail(_error_text(attribute(event, "error")))

    def _begin(self, kind: str) -> tuple[str, int]:
        self._interrupt()
        self._count += 1
        self._running = (kind, self._count)
        self._recorder.open(self._running, TextBlock(text="") if kind == "text" else ThinkingBlock(thinking=""))
        return self._running

    def _begun(self, kind: str) -> tuple[str, int]:
        running = self._running
        return running if running is not None and running[0] == kind else self._begin(kind)

    def _end(self, kind: str, content: Any) -> None:
        if (self._running is None or self._running[0] != kind) and not content:
            return  # its deltas have ended already, or there were none
        key = self._begun(kind)
        if isinstance(content, str) and not self._recorder.text(key):  # it came without deltas
            self._recorder.delta(key, content)
        self._interrupt()

    def _interrupt(self) -> None:
        if self._running is not None:
            self._recorder.close(self._running)
            self._running = None

    def _begin_call(self, id: Any) -> int:
        self._interrupt()
        self._count += 1
        self._calls[self._count] = optional(id)
        self._recorder.open(self._count, ToolCall(id=optional(id) or "", name="", arguments={}))
        return self._count

    def _call(self, id: Any, *, last: bool) -> int:
        """The call that an event belongs to; it is begun if it was not."""
        named = [key for key, known in self._calls.items() if known is not None and known == id]
        nameless = [key for key, known in self._calls.items() if known is None or id is None]
        found = named or nameless
        return found[-1 if last else 0] if found else self._begin_call(id)

    def _end_call(self, call: Any) -> None:
        if call is None:
            raise BadWire(API, "toolcall_end has no toolCall", "$.toolCall")
        id, given = optional(attribute(call, "id")), attribute(call, "arguments", {})
        key = self._call(id, last=False)
        id = id or self._calls.pop(key, None) or self._mint()
        self._calls.pop(key, None)
        arguments, text, problem = parse_arguments(given) if isinstance(given, str) else (given, None, None)
        if not isinstance(arguments, Mapping):
            raise BadWire(API, f"the arguments of a call are an object, not {type(given).__name__}", "$.toolCall")
        block = ToolCall(
            id=id,
            name=str(attribute(call, "name", "")),
            arguments=dict(arguments),
            arguments_text=text,
            parse_error=problem,
            thought_signature=optional(attribute(call, "thought_signature")),
        )
        self._recorder.close(key, block)

    def _done(self, event: Any) -> None:
        self._interrupt()
        usage = _usage(attribute(event, "usage"))
        if usage is not None:
            self._recorder.note(usage=usage)
        word = attribute(event, "stop_reason", attribute(event, "reason"))
        reason = word if word in ("stop", "toolUse", "length", "error", "aborted") else None
        self._recorder.finish(reason, None if reason else optional(word))

    def _delta(self, event: Any) -> str:
        value = attribute(event, "delta", "")
        if not isinstance(value, str):
            raise BadWire(API, f"delta is text, not {type(value).__name__}", "$.delta")
        return value


def _usage(given: Any) -> Usage | None:
    """`{inputTokens, outputTokens}`, either of which may be unknown."""
    counts = [attribute(given, name) for name in ("input_tokens", "output_tokens")]
    known = [count if isinstance(count, int) else 0 for count in counts]
    return Usage.of(*known) if any(isinstance(count, int) for count in counts) else None


def _error_text(error: Any) -> str:
    text = error if isinstance(error, str) else attribute(error, "message", None if error is None else str(error))
    return str(text) if text else "the connector failed and gave no reason"


# --- mistakes --------------------------------------------------------------------------------------------------------


class ShapeMistake(NamedTuple):
    """The path of a mistake, such as another wire's shape, with a message and the remedy."""

    path: str
    message: str
    remedy: str


def mistakes(value: Any, messages: Iterable[Any] | None = None) -> list[ShapeMistake]:
    """Every shape of another wire in a context or a list of messages, and what to write instead.

    `messages` are those of a context that is given without them.
    Pictures as `image_url` are right in a user's message, as the format's own page shows them, and nowhere else.
    """
    body = body_of(value, API)
    if isinstance(body, list):
        return list(_in_messages(body if messages is None else messages, "$"))
    return list(_in_context(an_object(body, API), messages))


def _in_context(context: dict[str, Any], messages: Iterable[Any] | None) -> Iterator[ShapeMistake]:
    for key in ("system", "systemInstruction", "system_instruction", "instructions"):
        if key in context:
            yield ShapeMistake(
                f"$.{key}",
                f"the system text is in `{key}`",
                f"write it as `systemPrompt`: {_joined_text(context[key])}",
            )
    if "messages" not in context:
        for key in ("contents", "input"):
            if isinstance(context.get(key), list):
                yield ShapeMistake(f"$.{key}", f"the messages are in `{key}`", "name the list `messages`")
                yield from _in_messages(context[key], f"$.{key}")
    yield from _in_messages(list_of(context.get("messages")) if messages is None else messages, "$.messages")
    for at, tool in enumerate(list_of(context.get("tools"))):
        yield from _in_tool(tool, f"$.tools[{at}]", at)


Names = dict[str, str] | IdMap  # call id -> tool name, for remedies that can be pasted


def _in_messages(messages: Iterable[Any], path: str) -> Iterator[ShapeMistake]:
    names: Names = {}
    for at, message in enumerate(messages):
        note_names(message, names)
        yield from mistakes_in(message, f"{path}[{at}]", at, names)


def mistakes_in(message: Any, path: str, at: int, names: Names) -> Iterator[ShapeMistake]:
    """Every shape of another wire in one message; `names` are those that `note_names` found in it and before it."""
    if not isinstance(message, dict):
        yield ShapeMistake(path, f"message {at} is not an object", 'write {"role": "user", "content": "…"}')
        return
    role = optional(message.get("role"))
    if role in RESULT_ROLES:
        text = f"message {at} has the role `{role}`: results have the role `toolResult`"
        yield ShapeMistake(path, text, f"write {_right_result(message, names)}")
        return
    yield from _in_role(message, role, path, at, names)
    if role == "toolResult":
        yield from _in_result(message, path, at, names)
    for key in ("tool_calls", "toolCalls"):
        for place, call in enumerate(list_of(message.get(key))):
            text = f"message {at} has its call {place} in a top-level `{key}`"
            yield ShapeMistake(f"{path}.{key}[{place}]", text, f"put {_right_call(call)} into `content`")
    for key in ("function_call", "functionCall"):
        if isinstance(message.get(key), dict):
            text = f"message {at} has its call in a top-level `{key}`"
            yield ShapeMistake(f"{path}.{key}", text, f"put {_right_call(message[key])} into `content`")
    if "parts" in message:
        yield ShapeMistake(
            f"{path}.parts", f"message {at} has `parts`", "name the list `content`, of blocks with a `type`"
        )
    for key in ("content", "parts"):
        for place, block in enumerate(list_of(message.get(key))):
            yield from _in_block(block, role, f"{path}.{key}[{place}]", f"block {place} of message {at}", names)


def _in_role(message: dict[str, Any], role: str | None, path: str, at: int, names: Names) -> Iterator[ShapeMistake]:
    if role in ("user", "assistant", "toolResult"):
        return
    if role in SYSTEM_ROLES:
        text = f"message {at} has the role `{role}`: the system text is not a message"
        yield ShapeMistake(
            f"{path}.role", text, f"write it as the context's `systemPrompt`: {_joined_text(message.get('content'))}"
        )
    elif role in OTHER_ROLES:
        yield ShapeMistake(
            f"{path}.role", f"message {at} has the role `{role}`", f'write "role": "{OTHER_ROLES[role]}"'
        )
    elif role is None and optional(message.get("type")) in CALL_TYPES:
        text = f"item {at} is a call outside a message"
        remedy = f'write {{"role": "assistant", "content": [{_right_call(message)}]}}'
        yield ShapeMistake(path, text, remedy)
    elif role is None and optional(message.get("type")) in RESULT_TYPES:
        yield ShapeMistake(path, f"item {at} is a result without a role", f"write {_right_result(message, names)}")
    else:
        text = f"message {at} has the role `{role}`" if role is not None else f"message {at} has no role"
        yield ShapeMistake(f"{path}.role", text, "the roles are `user`, `assistant` and `toolResult`")


def _in_result(message: dict[str, Any], path: str, at: int, names: Names) -> Iterator[ShapeMistake]:
    right = f"write {_right_result(message, names)}"
    for wrong, name in (
        ("tool_call_id", "toolCallId"),
        ("tool_use_id", "toolCallId"),
        ("toolUseId", "toolCallId"),
        ("tool_name", "toolName"),
        ("is_error", "isError"),
    ):
        if wrong in message and name not in message:
            yield ShapeMistake(f"{path}.{wrong}", f"message {at} has `{wrong}`: the field is `{name}`", right)
    for name, kind in (("toolCallId", str), ("toolName", str), ("isError", bool), ("content", list)):
        if not isinstance(message.get(name), kind) and not any(wrong in message for wrong in _MISSPELLED.get(name, ())):
            text = f"message {at} has no `{name}` of the right kind ({_KINDS[kind]})"
            yield ShapeMistake(f"{path}.{name}", text, right)


_KINDS = {str: "a string", bool: "true or false", list: "a list of blocks"}
_MISSPELLED = {
    "toolCallId": ("tool_call_id", "tool_use_id", "toolUseId"),
    "toolName": ("tool_name",),
    "isError": ("is_error",),
}


def _in_block(block: Any, role: Any, path: str, where: str, names: Names) -> Iterator[ShapeMistake]:
    if not isinstance(block, dict):
        yield ShapeMistake(path, f"{where} is not an object", f"write {_right_text(block)}")
        return
    kind = optional(block.get("type"))
    inner = next((key for key in (*CALL_KEYS, *RESULT_KEYS, *IMAGE_KEYS) if isinstance(block.get(key), dict)), None)
    if kind in CALL_TYPES or (kind is None and inner in CALL_KEYS):
        call = block[inner] if inner and kind is None else block
        yield ShapeMistake(
            path, f"{where} is a `{kind or inner}`: calls are `toolCall` blocks", f"write {_right_call(call)}"
        )
    elif kind in RESULT_TYPES or (kind is None and inner in RESULT_KEYS):
        result = block[inner] if inner and kind is None else block
        text = f"{where} is a `{kind or inner}`: a result is a message of its own"
        yield ShapeMistake(path, text, f"write {_right_result(result, names)}")
    elif kind in TEXT_TYPES or (kind is None and isinstance(block.get("text"), str)):
        text = f"{where} is `{kind}`" if kind else f"{where} has no `type`"
        yield ShapeMistake(path, text, f"write {_right_text(block.get('text'))}")
    elif kind in IMAGE_TYPES or (kind is None and inner in IMAGE_KEYS):
        yield from _in_image(block, role, path, where)
    elif kind == "toolCall" and not isinstance(block.get("arguments"), dict):
        yield ShapeMistake(f"{path}.arguments", f"{where} has no arguments object", f"write {_right_call(block)}")
    elif kind is None:
        yield ShapeMistake(path, f"{where} has no `type`", 'a block has a `type`: "text", "image" or "toolCall"')


def _in_image(block: dict[str, Any], role: Any, path: str, where: str) -> Iterator[ShapeMistake]:
    kind, given = block.get("type"), block.get("image_url")
    right = isinstance(block.get("data"), str) and isinstance(block.get("mimeType"), str)
    if kind == "image_url":
        right = role == "user" and isinstance(given, dict) and isinstance(given.get("url"), str)
    if not right:
        provided = f"{where} has a picture as `{kind}`" if kind else f"{where} is a picture without a `type`"
        yield ShapeMistake(path, provided, f"write {_right_image(block, role)}")


def _in_tool(tool: Any, path: str, at: int) -> Iterator[ShapeMistake]:
    if not isinstance(tool, dict):
        yield ShapeMistake(path, f"tool {at} is not an object", "write " + _right_tool({}))
        return
    for wrapper in ("function", "toolSpec"):
        if isinstance(tool.get(wrapper), dict):
            yield ShapeMistake(path, f"tool {at} is wrapped in `{wrapper}`", f"write {_right_tool(tool[wrapper])}")
            return
    for key in ("functionDeclarations", "function_declarations"):
        if isinstance(tool.get(key), list):
            right = ", ".join(_right_tool(inner) for inner in tool[key] if isinstance(inner, dict))
            yield ShapeMistake(path, f"tool {at} is a list of `{key}`", f"write {right}")
            return
    for key in _SCHEMA_KEYS[1:]:
        if key in tool and "input_schema" not in tool:
            yield ShapeMistake(f"{path}.{key}", f"tool {at} has its schema in `{key}`", f"write {_right_tool(tool)}")


_SCHEMA_KEYS = ("input_schema", "parameters", "inputSchema", "parametersJsonSchema")


# What to write instead, from whatever the wrong shape holds.


def note_names(message: Any, names: Names) -> None:
    """Adds the calls in a message: their tools, by id."""
    if not isinstance(message, dict):
        return
    calls = [
        message.get("function_call"),
        *list_of(message.get("tool_calls")),
        *list_of(message.get("toolCalls")),
        message,
    ]
    for block in list_of(message.get("content")) + list_of(message.get("parts")):
        if isinstance(block, dict):
            calls += [block, *(block.get(key) for key in CALL_KEYS)]
    for call in calls:
        if isinstance(call, dict):
            identity, name, _ = call_parts(call)
            if isinstance(identity, str) and isinstance(name, str) and call.get("role") != "toolResult":
                names.setdefault(identity, name)


def _right_call(call: Any) -> str:
    identity, name, given = call_parts(call) if isinstance(call, dict) else (None, None, None)
    arguments = parse_arguments(given)[0] if isinstance(given, str) else given if isinstance(given, dict) else {}
    return shown({"type": "toolCall", "id": identity or "…", "name": name or "…", "arguments": arguments})


def _right_result(result: dict[str, Any], names: Names) -> str:
    identity, name, content, failed = result_parts(result)
    name = name or names.get(identity if isinstance(identity, str) else "")
    return shown(
        {
            "role": "toolResult",
            "toolCallId": identity or "…",
            "toolName": name or "…",
            "content": [_short_text(_text_in(content))],
            "isError": failed,
        }
    )


def _right_text(text: Any) -> str:
    return shown(_short_text(text if isinstance(text, str) else "…"))


def _right_image(block: dict[str, Any], role: Any) -> str:
    source = next((block[key] for key in ("source", *IMAGE_KEYS) if isinstance(block.get(key), dict)), block)
    given = block.get("image_url")
    url = given.get("url") if isinstance(given, dict) else given if isinstance(given, str) else source.get("url")
    if isinstance(url, str) and not url.startswith("data:") and role == "user":
        return shown({"type": "image_url", "image_url": {"url": url}})
    inline = read_data_url(url) if isinstance(url, str) else None
    mime = inline[0] if inline else first(source, "mimeType", "mime_type", "media_type") or "image/…"
    return shown({"type": "image", "data": "<base64>", "mimeType": mime})


def _right_tool(tool: dict[str, Any]) -> str:
    schema = first(tool, *_SCHEMA_KEYS)
    if isinstance(schema, dict) and isinstance(schema.get("json"), dict):
        schema = schema["json"]
    description = tool.get("description") or "…"
    return shown({"name": tool.get("name") or "…", "description": description, "input_schema": schema or {}})


def _short_text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text if len(text) <= 60 else f"{text[:59]}…"}


def _text_in(content: Any) -> str:
    """The text of a result, however it is wrapped."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [item.get("text") for item in content if isinstance(item, dict)]
        return "".join(text for text in texts if isinstance(text, str)) or "…"
    return "…" if content is None else shown(content)


def _joined_text(content: Any) -> str:
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        content = content["parts"]
    return shown(_short_text(_text_in(content))["text"])


FORMAT = FileFormat(
    name="clawtools",
    codec=sys.modules[__name__],
    detect=detect,
    rows=Rows(),
    listed=ListedSession(("messages", ""), listed),
    evidence=(
        Evidence(
            "plain",
            40,
            "plain messages",
            lambda v: shapes.is_plain(v, "user", "assistant") and not shapes.has_any(v, frozenset(("model",))),
        ),
    ),
)
