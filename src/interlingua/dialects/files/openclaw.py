"""OpenClaw session files: JSON lines, each an AgentMessage; or pi's tree of entries (versions 1 to 3).

Simple files have a message a line, in the form of the formal specification; where a line has `parentId`, that and `id`
are its place in a tree. Tree files begin with a `session` header and wrap each message in an entry with `id` and
`parentId`; the other entries (model changes, compactions, labels, …) are kept in their places as messages of their own
role. A file stands at its last line.

pi packs a provider's tokens into the fields that it has. A text's signature may hold the id and phase of a Responses
item, a thought's signature a whole reasoning item or the name of the wire field that it came in, a call's id the item's
id behind a bar, and a redacted thought a notice. Here each is where the wire's own dialect has it, and packed again on
the way back; the message's `api` says whose it is.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import ValidationError, convert
from msgspec.structs import replace

from ...values import jsontext
from ...values.compact import IdMap, IdSet, StringTable
from ...values.errors import BadWire, DialectError, FormatError
from ...values.losses import (
    QUIET,
    Encoded,
    Lines,
    Loss,
    Losses,
    Reporter,
    SupportTable,
    dropped,
    extra_losses,
    kept,
    own_fields,
    places,
    record,
    some,
    static_entry_losses,
    static_losses,
)
from ...values.messages import (
    AssistantMessage,
    Block,
    Content,
    Cost,
    CustomMessage,
    ImageBlock,
    Message,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from ...values.request import Context, Conversation, Entry, ModelDescriptor, Request
from .. import dialect
from ..registry import owner as owner_of
from ..residual import (
    count,
    each,
    is_null,
    keeping,
    number,
    optional,
    put_back,
    reading,
    report_other_sources,
    restored,
    same,
    string,
    whole,
    with_residual,
)
from ..wire import FileFormat, SessionStream
from .line_readers import OPEN_CALLS, LineReader
from .records import MEDIA, NO_CALL, SERVER_TOOLS, TOOLS, Shapes, lines_of, milliseconds

API = "openclaw"

# The wires whose items pi packs, and the name under which their dialects file what only they have.
RESPONSES = "openai-responses"
COMPLETIONS = "openai-completions"
NAMES = ("reasoning_content", "reasoning", "reasoning_text")  # fields that reasoning comes in on the chat wire
REDACTED = "[Reasoning redacted]"  # what pi shows in place of a redacted thought

STOP_REASONS = ("stop", "length", "toolUse", "error", "aborted")

# Hints of ours in `extra[API]`.
TREE = "~tree"  # of a conversation: its entries are wrapped
TIMED = "~timed"  # of an entry: the time of its message, which only the entry has
LINE = "~line"  # of an entry: not a message but another kind of line
SENT = "~sent"  # of an entry: the line of its own kind that pi sends as this message
BARE = "~bare"  # of an entry: a message without its wrapper, among wrapped ones
WRAPPED = "~wrapped"  # the reverse
ORDER = "~order"  # of a thought: the order of the keys in the packed item
SEALED = "~sealed"  # of a thought: it is packed into the call that follows; the order of its keys
FIELDS = "~fields"  # a hint of the chat wire's dialect: the names of the fields that a thought came in
HEADER = "header"  # of a conversation: the first line of a tree file

FIELD_SUPPORT: SupportTable = {
    **NO_CALL,
    **kept("TextBlock.text TextBlock.text_signature ThinkingBlock.thinking ThinkingBlock.thinking_signature"),
    **kept("ThinkingBlock.redacted ToolCall.name ToolCall.arguments ToolCall.thought_signature"),
    **some("ToolCall.id", "an id with a bar may read as two"),
    **dropped("TextBlock.citations TextBlock.cache ToolCall.cache ImageBlock.cache ToolResultMessage.cache"),
    **dropped("Citation.title Citation.url Citation.cited_text Citation.start Citation.end CacheMarker.ttl"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    **record("ToolCall.arguments_text", "arguments are an object, not text"),
    **dropped("ToolCall.parse_error", "arguments are an object; what is none is written as {}"),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id", "a picture is base64"),
    **dropped("ImageBlock.detail"),
    **some(f"{MEDIA} {SERVER_TOOLS}", "the format has no such block; it is dropped"),
    **some("OpaqueBlock.dialect OpaqueBlock.value", "only what stood in this format"),
    **kept("UserMessage.content UserMessage.timestamp AssistantMessage.content AssistantMessage.api"),
    **kept("AssistantMessage.provider AssistantMessage.model AssistantMessage.usage AssistantMessage.stop_reason"),
    **kept("AssistantMessage.error_message AssistantMessage.timestamp AssistantMessage.response_id"),
    **kept("AssistantMessage.response_model SystemMessage.content SystemMessage.timestamp"),
    **record("AssistantMessage.stop_detail", "only our own stop reason is written"),
    **record("UserMessage.origin", "messages do not name their origin"),
    **dropped("SystemMessage.developer", "one role for system messages"),
    **some("ToolResultMessage.tool_call_id", "the id is that of the call it answers"),
    **kept("ToolResultMessage.tool_name ToolResultMessage.content ToolResultMessage.details"),
    **kept("ToolResultMessage.is_error ToolResultMessage.timestamp CustomMessage.role CustomMessage.fields"),
    **some(TOOLS, "a session file does not hold the tools"),
    **dropped("Context.system_role", "a session file does not hold the system text"),
    **kept("Entry.id Entry.parent_id Conversation.entries"),
    **dropped("Entry.parents", "a line has one parent"),
    **some("Conversation.head", "a file stands at its last line"),
}


# --- blocks ----------------------------------------------------------------------------------------------------------


def _packed_by(api: str | None) -> str | None:
    """The wire whose items pi packs, where a message came over it or over a variant of it."""
    found = owner_of(api)
    return found if found in (RESPONSES, COMPLETIONS) else None


def decode_block(wire: Any, owner: str | None = None) -> Block:
    """One block, with what pi packed into it for the wire `owner` unpacked; what is not modelled stays as it is."""
    decode = _DECODERS.get(wire["type"]) if isinstance(wire, dict) and isinstance(wire.get("type"), str) else None
    if decode is not None:
        try:
            block: Block = decode(wire, owner)
            return keeping(block, API, wire, encode_block(block, QUIET, owner) or {})
        except (KeyError, TypeError, ValueError):
            pass
    return OpaqueBlock(dialect=API, value=wire)


def _decode_text(wire: dict[str, Any], owner: str | None) -> TextBlock:
    block = TextBlock(text=string(wire["text"]))
    signature = optional(wire.get("textSignature"))
    if owner == RESPONSES and signature:
        return with_residual(block, RESPONSES, **_unpack_signature(signature))
    return replace(block, text_signature=signature)


def _decode_thinking(wire: dict[str, Any], owner: str | None) -> ThinkingBlock:
    text, signature = string(wire["thinking"]), optional(wire.get("thinkingSignature"))
    if wire.get("redacted") is True:
        return ThinkingBlock(thinking="" if text == REDACTED else text, thinking_signature=signature, redacted=True)
    unpacked = _unpack_item(signature) if owner == RESPONSES and signature else None
    if unpacked is not None:
        return unpacked
    if owner == COMPLETIONS and signature in NAMES:
        block = ThinkingBlock(thinking=text)
        return block if signature == NAMES[0] else with_residual(block, COMPLETIONS, **{FIELDS: [signature]})
    return ThinkingBlock(thinking=text, thinking_signature=signature)


def _decode_image(wire: dict[str, Any], owner: str | None) -> ImageBlock:
    return ImageBlock(data=string(wire["data"]), mime_type=optional(wire.get("mimeType")))


def _decode_call(wire: dict[str, Any], owner: str | None) -> ToolCall:
    if not isinstance(wire["arguments"], dict):
        raise TypeError("arguments are an object")
    call = ToolCall(
        id=string(wire["id"]),
        name=string(wire["name"]),
        arguments=wire["arguments"],
        thought_signature=optional(wire.get("thoughtSignature")),
    )
    parts = _unpack_id(call.id) if owner == RESPONSES else None
    return call if parts is None else with_residual(replace(call, id=parts[0]), RESPONSES, id=parts[1])


_DECODERS: dict[str, Callable[[dict[str, Any], str | None], Any]] = {
    "text": _decode_text,
    "thinking": _decode_thinking,
    "image": _decode_image,
    "toolCall": _decode_call,
}


def encode_block(block: Block, report: Reporter, owner: str | None = None) -> Any:
    """Encodes a block; None, with a report, if the format has no place for it."""
    wire: dict[str, Any]
    match block:
        case TextBlock():
            wire = {"type": "text", "text": block.text}
            signature = _pack_signature(block, owner)
            if signature is not None:
                wire["textSignature"] = signature
            if owner == RESPONSES and block.text_signature:
                report.lost("text_signature", "it reads as the id of an item", "weakened")
        case ToolCall():
            wire = {"type": "toolCall", "id": _pack_id(block, owner), "name": block.name, "arguments": block.arguments}
            if owner == RESPONSES and wire["id"] == block.id and _unpack_id(block.id) is not None:
                report.lost("id", "it reads as a call's id and an item's", "weakened")
            if block.thought_signature is not None:
                wire["thoughtSignature"] = block.thought_signature
        case ThinkingBlock():
            wire = _encode_thinking(block, owner)
            if owner == COMPLETIONS and block.thinking_signature in NAMES and not block.redacted:
                report.lost("thinking_signature", "it reads as the name of a field", "weakened")
        case ImageBlock() if block.data is not None:
            wire = _encode_image(block, report)
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            report.lost(type(block).__name__, "the format has text, thinking, pictures as data, and calls")
            return None
    return restored(wire, block.extra, API) if block.extra else wire


def _encode_thinking(block: ThinkingBlock, owner: str | None) -> dict[str, Any]:
    text = REDACTED if block.redacted and not block.thinking else block.thinking
    wire: dict[str, Any] = {"type": "thinking", "thinking": text}
    signature = _pack_thought(block, owner)
    if signature is not None:
        wire["thinkingSignature"] = signature
    if block.redacted:
        wire["redacted"] = True
    return wire


def _encode_image(block: ImageBlock, report: Reporter) -> dict[str, Any]:
    report_other_sources(block, report)
    wire: dict[str, Any] = {"type": "image", "data": block.data}
    if block.mime_type is not None:
        wire["mimeType"] = block.mime_type
    return wire


# --- what pi packs ---------------------------------------------------------------------------------------------------


def _residual_for(block: Any, owner: str) -> dict[str, Any]:
    extra_fields = block.extra.get(owner) if block.extra else None
    return extra_fields if isinstance(extra_fields, dict) else {}


def _unpack_signature(signature: str) -> dict[str, str]:
    """The id and phase of a message item: JSON of version 1, or in old files the bare id."""
    if signature.startswith("{"):
        try:
            given = jsontext.read(signature)
        except FormatError:
            given = None
        if isinstance(given, dict) and given.get("v") == 1 and isinstance(given.get("id"), str):
            return {key: given[key] for key in ("id", "phase") if isinstance(given.get(key), str)}
    return {"id": signature}


def _pack_signature(block: TextBlock, owner: str | None) -> str | None:
    named = _residual_for(block, RESPONSES) if owner == RESPONSES else {}
    if block.text_signature is not None or not isinstance(named.get("id"), str):
        return block.text_signature
    phase = {"phase": named["phase"]} if isinstance(named.get("phase"), str) else {}
    return jsontext.compact({"v": 1, "id": named["id"], **phase})


def _unpack_id(id: str) -> tuple[str, str] | None:
    """The ids of a call and of its item, if both are there."""
    call, _, item = id.rpartition("|")
    return (call, item) if call and item.startswith("fc") else None


def _pack_id(call: ToolCall, owner: str | None) -> str:
    item = _residual_for(call, RESPONSES).get("id") if owner == RESPONSES else None
    packed = f"{call.id}|{item}"
    return packed if isinstance(item, str) and _unpack_id(packed) == (call.id, item) else call.id


def _unpack_item(signature: str) -> ThinkingBlock | None:
    """The thought in a packed reasoning item, as the wire's own dialect reads it."""
    try:
        item = jsontext.read(signature)
    except FormatError:
        return None
    if not isinstance(item, dict) or item.get("type") != "reasoning":
        return None
    ((_, block),) = _wire(RESPONSES).decode_item(item, 0, answer="id" in item)
    if not isinstance(block, ThinkingBlock):
        return None
    return block if _packed(block, list(_KEYS)) == signature else with_residual(block, API, **{ORDER: list(item)})


def _pack_thought(block: ThinkingBlock, owner: str | None) -> str | None:
    if owner == COMPLETIONS and block.thinking_signature is None and not block.redacted:
        return _pack_name(_residual_for(block, COMPLETIONS))
    extra_fields = _residual_for(block, RESPONSES)
    if owner != RESPONSES or block.redacted or (block.thinking_signature is None and "id" not in extra_fields):
        return block.thinking_signature
    return _packed(block, _residual_for(block, API).get(ORDER, _KEYS))


def _pack_name(extra_fields: dict[str, Any]) -> str | None:
    """The name of the field that a thought came in: the usual one, unless another is stored, or it came in details."""
    named = extra_fields.get(FIELDS, NAMES[:1])
    return named[0] if named[0] in NAMES and extra_fields.keys() <= {FIELDS} else None


def _packed(block: ThinkingBlock, order: Any) -> str:
    item = _wire(RESPONSES).encode_item(block, QUIET, 0, answer="id" in _residual_for(block, RESPONSES))
    return _in_order(item, order)


def _in_order(value: dict[str, Any], order: Any) -> str:
    keys = [key for key in order if key in value]
    return jsontext.compact({key: value[key] for key in [*keys, *(key for key in value if key not in keys)]})


_KEYS = ("id", "type", "summary", "encrypted_content")  # in the order of most items


def _wire(owner: str) -> Any:
    """The dialect of the wire that a value came from: only it knows its items."""
    return dialect(owner)


def _unsealed(wire: Any, owner: str | None) -> ThinkingBlock | None:
    """The sealed reasoning that OpenRouter gave for a call, and that pi keeps as the call's signature."""
    signature = wire.get("thoughtSignature") if isinstance(wire, dict) and owner == COMPLETIONS else None
    if not isinstance(signature, str) or not signature.startswith("{"):
        return None
    try:
        detail = jsontext.read(signature)
    except FormatError:
        return None
    if not isinstance(detail, dict) or detail.get("type") != "reasoning.encrypted":
        return None
    body = {"messages": [{"role": "assistant", "reasoning_details": [detail]}]}
    content = _wire(COMPLETIONS).decode_request(body).context.messages[0].content
    if not isinstance(content, tuple) or len(content) != 1 or not isinstance(content[0], ThinkingBlock):
        return None
    block = with_residual(content[0], API, **{SEALED: list(detail)})
    return block if _sealed(block) == signature else None


def _sealed(block: ThinkingBlock) -> str:
    message = AssistantMessage(content=(block,), api=COMPLETIONS)
    request = Request(model=ModelDescriptor(id=""), context=Context(messages=(message,)))
    (detail,) = _wire(COMPLETIONS).encode_request(request).body["messages"][0]["reasoning_details"]
    return _in_order(detail, block.extra[API][SEALED])


# --- messages --------------------------------------------------------------------------------------------------------


class _Calls:
    """The ids of the calls so far, as we have them and as the file does, where they differ: a result names its call.

    `ids`: those of a file that is too large for a `dict`.
    """

    def __init__(self, ids: StringTable | None = None) -> None:
        self.packed: dict[str, str] | IdMap = {} if ids is None else IdMap(ids)  # ours -> the file's
        self.plain: dict[str, str] | IdMap = {} if ids is None else IdMap(ids)  # the reverse

    def note(self, message: AssistantMessage) -> None:
        owner = _packed_by(message.api)
        for call in message.tool_calls:
            packed = _pack_id(call, owner)
            if packed != call.id:
                self.packed[call.id] = packed
                self.plain[packed] = call.id
            elif call.id in self.packed:
                self.packed[call.id] = packed


def decode_message(wire: dict[str, Any], calls: _Calls) -> Message | CustomMessage:
    """Decodes an AgentMessage; an unknown role becomes a CustomMessage."""
    role = wire["role"]
    message: Message | None = _usual_message(wire, role, calls)
    if message is not None:
        return message
    if role == "assistant":
        message = _decode_assistant(wire)
        calls.note(message)
    elif role == "user":
        message = UserMessage(content=_decode_content(wire), timestamp=whole(wire.get("timestamp")))
    elif role == "toolResult":
        message = _decode_result(wire, calls)
    elif role == "system":
        message = SystemMessage(content=_decode_content(wire), timestamp=whole(wire.get("timestamp")))
    else:
        return CustomMessage(role, {key: value for key, value in wire.items() if key != "role"})
    encoded = encode_message(message, QUIET, calls)
    given = {**wire, "content": encoded["content"]} if isinstance(wire.get("content"), list) else wire
    if isinstance(message, AssistantMessage) and message.usage is not None:
        given = {**given, "usage": encoded["usage"]}  # keeps its own residual
    return keeping(message, API, given, encoded)


# Most messages are as the formal specification shows them, and nothing is packed into them: these are our own JSON, and
# are read at C speed.
_OURS = {
    "user": Shapes(("role", "content"), ("timestamp",)),
    "toolResult": Shapes(("role", "toolCallId", "content", "isError"), ("toolName", "details", "timestamp")),
    "assistant": Shapes(
        ("role", "content"),
        ("api", "provider", "model", "usage", "stopReason", "errorMessage", "timestamp", "responseId", "responseModel"),
    ),
}
_MESSAGES: dict[str, Any] = {"user": UserMessage, "toolResult": ToolResultMessage, "assistant": AssistantMessage}
_USAGES = Shapes(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), ("cost", "reasoning"))
_COSTS = Shapes(("total",), ("input", "output", "cacheRead", "cacheWrite"))
_BLOCKS = {
    "text": Shapes(("type", "text")),
    "thinking": Shapes(("type", "thinking"), ("thinkingSignature",)),
    "toolCall": Shapes(("type", "id", "name", "arguments")),
    "image": Shapes(("type", "data", "mimeType")),
}


def _usual_message(wire: dict[str, Any], role: str, calls: _Calls) -> Any:
    """The message, if it is as we would write it; None for any other."""
    if role not in _OURS or _OURS[role][tuple(wire)] != () or None in wire.values():
        return None
    if type(wire.get("timestamp", 0)) is not int or not _are_usual(wire["content"]):
        return None
    if role == "assistant":
        api, content = wire.get("api", ""), wire["content"]
        if type(api) is not str or not _is_usual_usage(wire.get("usage")):
            return None
        if type(content) is list and any(map(_may_be_packed, content)) and _packed_by(api) is not None:
            return None
    elif role == "toolResult":
        id = wire["toolCallId"]
        if type(id) is not str or id in calls.plain or calls.packed.get(id, id) != id:
            return None
    try:
        message: Any = convert(wire, _MESSAGES[role])
    except ValidationError:
        return None
    if role == "assistant":
        calls.note(message)
    return message


def _are_usual(content: Any) -> bool:
    if type(content) is not list:
        return type(content) is str
    for block in content:
        kind = block.get("type") if type(block) is dict else None
        if type(kind) is not str or kind not in _BLOCKS or _BLOCKS[kind][tuple(block)] != () or None in block.values():
            return False
    return True


def _may_be_packed(block: dict[str, Any]) -> bool:
    """Whether a block may hold what pi packs: the signature of a thought, or an item's id in that of a call."""
    return block["type"] == "thinking" or (block["type"] == "toolCall" and "|" in str(block["id"]))


def _is_usual_usage(usage: Any) -> bool:
    if usage is None:
        return True
    if type(usage) is not dict or _USAGES[tuple(usage)] != ():
        return False
    cost = usage.get("cost", _NO_COST)
    if type(cost) is not dict or _COSTS[tuple(cost)] != () or None in cost.values():
        return False
    return all(type(number) is int for key, number in usage.items() if key != "cost")


_NO_COST = {"total": 0}


def _decode_content(wire: dict[str, Any], owner: str | None = None) -> Content:
    content = wire.get("content")
    if content is None or isinstance(content, str):
        return content
    blocks: list[Block] = []
    for sealed, block in each(content, "content", API, lambda wire: _decode_pair(wire, owner)):
        blocks += [block] if sealed is None else [sealed, block]
    return tuple(blocks)


def _decode_pair(wire: Any, owner: str | None) -> tuple[ThinkingBlock | None, Block]:
    """A block, and the sealed thought that was packed into it."""
    sealed = _unsealed(wire, owner)
    if sealed is None:
        return None, decode_block(wire, owner)
    return sealed, decode_block({key: value for key, value in wire.items() if key != "thoughtSignature"}, owner)


def _decode_assistant(wire: dict[str, Any]) -> AssistantMessage:
    api: str | None = optional(wire.get("api"))
    reason: Any = optional(wire.get("stopReason"))
    return AssistantMessage(
        content=_decode_content(wire, _packed_by(api)),
        api=api,
        provider=optional(wire.get("provider")),
        model=optional(wire.get("model")),
        usage=_decode_usage(wire.get("usage")),
        stop_reason=reason if reason in STOP_REASONS else None,
        error_message=optional(wire.get("errorMessage")),
        timestamp=whole(wire.get("timestamp")),
        response_id=optional(wire.get("responseId")),
        response_model=optional(wire.get("responseModel")),
    )


def _decode_result(wire: dict[str, Any], calls: _Calls) -> ToolResultMessage:
    # OpenClaw writes some results with `toolUseId`.
    call = optional(wire.get("toolCallId")) or optional(wire.get("toolUseId")) or ""
    return ToolResultMessage(
        tool_call_id=calls.plain.get(call, call),
        tool_name=optional(wire.get("toolName")),
        content=_decode_content(wire),
        details=wire.get("details"),
        is_error=wire.get("isError") is True,
        timestamp=whole(wire.get("timestamp")),
    )


def _decode_usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    usage = Usage(
        input=count(wire, "input"),
        output=count(wire, "output"),
        cache_read=count(wire, "cacheRead"),
        cache_write=count(wire, "cacheWrite"),
        total_tokens=count(wire, "totalTokens"),
        cost=_decode_cost(wire.get("cost")),
        reasoning=whole(wire.get("reasoning")),
    )
    return keeping(usage, API, wire, _encode_usage(usage))


def _decode_cost(wire: Any) -> Cost | None:
    total = number(wire.get("total")) if isinstance(wire, dict) else None
    if total is None:
        return None
    cost = Cost(
        input=number(wire.get("input")),
        output=number(wire.get("output")),
        cache_read=number(wire.get("cacheRead")),
        cache_write=number(wire.get("cacheWrite")),
        total=total,
    )
    return keeping(cost, API, wire, _encode_cost(cost))


def encode_message(message: Message, report: Reporter, calls: _Calls) -> dict[str, Any]:
    wire: dict[str, Any]
    match message:
        case AssistantMessage():
            wire = _encode_assistant(message, report)
        case UserMessage():
            wire = {"role": "user", "content": _encode_content(message.content, report)}
        case ToolResultMessage():
            wire = _encode_result(message, report, calls)
        case _:
            wire = {"role": "system", "content": _encode_content(message.content, report)}
    if message.timestamp is not None:
        wire["timestamp"] = message.timestamp
    return restored(wire, message.extra, API) if message.extra else wire


def _encode_content(content: Content, report: Reporter, owner: str | None = None) -> Any:
    if content is None or isinstance(content, str):
        return content
    encoded: list[Any] = []
    for at, block in enumerate(content):
        report.block = at
        if owner == COMPLETIONS and _is_packed(block, content[at + 1 : at + 2]):
            continue
        wire = encode_block(block, report, owner)
        if owner == COMPLETIONS and at and _is_packed(content[at - 1], (block,)):
            wire["thoughtSignature"] = _sealed(content[at - 1])  # type: ignore[arg-type]
        if wire is not None or is_null(block, API):
            encoded.append(wire)
    report.block = None
    return encoded


def _is_packed(block: Block, following: tuple[Block, ...]) -> bool:
    """Whether a sealed thought still stands before the call that it is packed into."""
    if not isinstance(block, ThinkingBlock) or SEALED not in _residual_for(block, API) or not block.redacted:
        return False
    return bool(following) and isinstance(following[0], ToolCall) and following[0].thought_signature is None


def _encode_assistant(message: AssistantMessage, report: Reporter) -> dict[str, Any]:
    content = _encode_content(message.content, report, _packed_by(message.api))
    encoded = {
        "role": "assistant",
        "content": content,
        "api": message.api,
        "provider": message.provider,
        "model": message.model,
        "usage": None if message.usage is None else _encode_usage(message.usage),
        "stopReason": message.stop_reason,
        "errorMessage": message.error_message,
        "responseId": message.response_id,
        "responseModel": message.response_model,
    }
    return {key: value for key, value in encoded.items() if value is not None or key == "content"}


def _encode_result(result: ToolResultMessage, report: Reporter, calls: _Calls) -> dict[str, Any]:
    if result.tool_call_id in calls.plain:
        report.lost("tool_call_id", "it reads as the ids of a call before", "weakened", field="toolCallId")
    wire: dict[str, Any] = {
        "role": "toolResult",
        "toolCallId": calls.packed.get(result.tool_call_id, result.tool_call_id),
    }
    if result.tool_name is not None:
        wire["toolName"] = result.tool_name
    wire["content"] = _encode_content(result.content, report)
    if result.details is not None:
        wire["details"] = result.details
    wire["isError"] = result.is_error
    return wire


def _encode_usage(usage: Usage) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": usage.total_tokens,
    }
    if usage.cost is not None:
        wire["cost"] = _encode_cost(usage.cost)
    if usage.reasoning is not None:
        wire["reasoning"] = usage.reasoning
    return restored(wire, usage.extra, API)


def _encode_cost(cost: Cost) -> dict[str, Any]:
    parts = {
        "input": cost.input,
        "output": cost.output,
        "cacheRead": cost.cache_read,
        "cacheWrite": cost.cache_write,
        "total": cost.total,
    }
    return restored({key: value for key, value in parts.items() if value is not None}, cost.extra, API)


# --- lines -----------------------------------------------------------------------------------------------------------


@reading(API)
def decode(data: Any) -> Conversation:
    """A session file: text, bytes, or the values of its lines."""
    lines = lines_of(data, API)
    extra_fields = _about(lines[0] if lines else {})
    entries = tuple(_entries(lines, extra_fields))
    return Conversation(entries=entries, title=_title(entries), extra={API: extra_fields} if extra_fields else {})


def _about(first: dict[str, Any]) -> dict[str, Any]:
    """What the first line states about the file."""
    extra_fields: dict[str, Any] = {}
    if _begins_tree(first):
        extra_fields[TREE] = True
        if first["type"] == "session":
            extra_fields[HEADER] = first
    return extra_fields


def _entries(
    lines: Iterable[dict[str, Any]], extra_fields: dict[str, Any], ids: StringTable | None = None
) -> Iterator[Entry]:
    tree, first = TREE in extra_fields, 1 if HEADER in extra_fields else 0
    calls = _Calls(ids)
    before: Entry | None = None
    for at, line in enumerate(itertools.islice(lines, first, None), first + 1):
        before = _decode_line(line, at, tree, calls, before)
        yield before


class _Stream:
    """The entries of a session file one at a time."""

    def __init__(self, lines: Callable[[], Iterable[dict[str, Any]]]) -> None:
        self._lines = lines
        self._extra_fields = _about(next(iter(lines()), {}))
        self.head: str | None = None  # a file stands at its last line
        self.about = Conversation(
            title=_title(self.entries()), extra={API: self._extra_fields} if self._extra_fields else {}
        )

    def entries(self) -> Iterator[Entry]:
        return _entries(self._lines(), self._extra_fields, StringTable())


@reading(API)
def stream(lines: Callable[[], Iterable[dict[str, Any]]]) -> SessionStream:
    """A session file, one entry at a time."""
    return _Stream(lines)


def _begins_tree(first: dict[str, Any]) -> bool:
    return isinstance(first.get("type"), str) and not isinstance(first.get("role"), str)


def _title(entries: Iterable[Entry]) -> str | None:
    """The name that the last `session_info` gives; an empty one takes it back."""
    name = None
    for entry in entries:
        given = _name_in(entry)
        name = name if given is None else given
    return name or None


def _name_in(entry: Entry) -> str | None:
    message: Any = entry.message
    if getattr(message, "role", "") != "session_info" or not isinstance(message.fields.get("name"), str):
        return None
    name: str = message.fields["name"]
    return name


def _decode_line(line: dict[str, Any], number: int, tree: bool, calls: _Calls, before: Entry | None) -> Entry:
    try:
        if tree and _WRAPPED[tuple(line)] == () and _is_usual_entry(line):
            message: Any = decode_message(line["message"], calls)
            if type(message) is CustomMessage and (sent := _sent(line)) is not None:
                return _sent_entry(line, sent, line["id"], line["parentId"])
            extra = {API: {"timestamp": line["timestamp"]}}
            return Entry(message=message, id=line["id"], parent_id=line["parentId"], extra=extra)
        if isinstance(line.get("role"), str) and not (tree and isinstance(line.get("type"), str)):
            return _decode_bare(line, tree, calls)
        if isinstance(line.get("type"), str):
            return _decode_wrapped(line, tree, calls, before)
    except DialectError as error:
        raise BadWire(API, f"line {number}: {error.message}", f"$[{number - 1}]{error.path[1:]}") from None
    raise BadWire(API, f"line {number}: neither a message with a role nor an entry with a type", f"$[{number - 1}]")


_WRAPPED = Shapes(("type", "id", "parentId", "timestamp", "message"))


def _is_usual_entry(line: dict[str, Any]) -> bool:
    """Whether an entry of these keys alone is as pi writes it, with a message that has its own time."""
    message, parent = line["message"], line["parentId"]
    if line["type"] != "message" or type(message) is not dict or type(message.get("role")) is not str:
        return False
    if type(line["id"]) is not str or not (parent is None or type(parent) is str) or "timestamp" not in message:
        return False
    return type(line["timestamp"]) is str and line["timestamp"] != ""


def _decode_bare(line: dict[str, Any], tree: bool, calls: _Calls) -> Entry:
    """A message without a wrapper. Only with `parentId` is its `id` a place in a tree: others number their lines."""
    hints = {API: {BARE: True}} if tree else {}
    parent = line.get("parentId")
    if "parentId" not in line or not isinstance(parent, str | None) or not isinstance(line.get("id"), str | None):
        return Entry(message=decode_message(line, calls), extra=hints)  # type: ignore[arg-type]
    message = decode_message({key: value for key, value in line.items() if key not in ("id", "parentId")}, calls)
    entry = Entry(message=message, id=line.get("id"), parent_id=parent, extra=hints)  # type: ignore[arg-type]
    return keeping(entry, API, {key: line[key] for key in ("id", "parentId") if key in line}, _place(entry))


def _decode_wrapped(line: dict[str, Any], tree: bool, calls: _Calls, before: Entry | None) -> Entry:
    """An entry of a tree file; one that holds no message is a message of its own kind.

    pi writes `parentId: null` for a root. Where the key is missing, the entry follows the one before, as in our own
    files; behind one without an id it can only do so without an id of its own.
    """
    message = line.get("message")
    hints: dict[str, Any] = {} if tree else {WRAPPED: True}
    if isinstance(line.get("timestamp"), str):
        hints["timestamp"] = line["timestamp"]
    place = {"id": optional(line.get("id")), "parent_id": optional(line.get("parentId"))}
    if before is not None and place["id"] is not None and "parentId" not in line:
        place = (
            {"id": place["id"], "parent_id": before.id} if before.id is not None else {"id": None, "parent_id": None}
        )
    sent = _sent(line) if tree else None
    if sent is not None:
        return _sent_entry(line, sent, **place)
    if line["type"] == "message" and isinstance(message, dict) and isinstance(message.get("role"), str):
        inner, moment = decode_message(message, calls), milliseconds(hints.get("timestamp"))
        if moment is not None and getattr(inner, "timestamp", moment) is None and "timestamp" not in message:
            inner, hints[TIMED] = replace(inner, timestamp=moment), moment  # type: ignore[type-var]
        entry = Entry(message=inner, **place)  # type: ignore[arg-type]
        entry = with_residual(entry, API, **hints) if hints else entry
        return keeping(entry, API, {**line, "message": None}, {**_wrapper(entry), "message": None})
    fields = {key: value for key, value in line.items() if key not in ("type", "id", "parentId", "role")}
    role = line["type"]
    if role in _ROLES:  # a type that would be taken for a message
        role, fields = LINE, {**fields, "type": line["type"]}
    entry = Entry(message=CustomMessage(role, fields), extra={API: {LINE: True}}, **place)  # type: ignore[arg-type]
    return keeping(entry, API, line, _line(entry))


_ROLES = ("user", "assistant", "toolResult", "system")


def _sent(line: dict[str, Any]) -> UserMessage | None:
    """What pi sends to the model of an entry that is no message of its own: coding-agent/src/core/messages.ts.

    That is what an extension put in, a command that the user ran with its output, and the summary of another branch.
    """
    record = line.get("message") if line["type"] == "message" else line
    if not isinstance(record, dict):
        return None
    kind = record.get("role") if line["type"] == "message" else line["type"]
    content: Content = None
    if kind in ("custom", "custom_message") and ("customType" in record and line["type"] != "custom"):
        content = _decode_content(record) if isinstance(record.get("content"), str | list) else None
    elif kind in ("branchSummary", "branch_summary") and isinstance(record.get("summary"), str):
        begun = "The following is a summary of a branch that this conversation came back from:"
        content = f"{begun}\n\n<summary>\n{record['summary']}</summary>"
    elif kind == "bashExecution" and isinstance(record.get("command"), str) and not record.get("excludeFromContext"):
        content = _ran(record)
    when = record.get("timestamp")
    moment = when if type(when) is int else milliseconds(line.get("timestamp"))
    return None if content is None else UserMessage(content=content, timestamp=moment, origin="program")


def _ran(record: dict[str, Any]) -> str:
    text = f"Ran `{record['command']}`\n"
    text += f"```\n{record['output']}\n```" if record.get("output") else "(no output)"
    if record.get("cancelled"):
        return text + "\n\n(command cancelled)"
    return text + (f"\n\nCommand exited with code {record['exitCode']}" if record.get("exitCode") else "")


def _sent_entry(line: dict[str, Any], sent: UserMessage, id: str | None, parent_id: str | None) -> Entry:
    hints = {"line": line, "place": [id, parent_id]}
    return Entry(message=sent, id=id, parent_id=parent_id, extra={API: {SENT: hints}})


def _sent_line(entry: Entry) -> dict[str, Any] | None:
    """The line of an entry that pi sends; None if the entry was changed since."""
    hints = entry.extra.get(API, {}).get(SENT) if entry.extra else None
    if hints is None or _sent(hints["line"]) != entry.message:
        return None
    is_placed = hints["place"] == [entry.id, entry.parent_id]
    return {**hints["line"], **({} if is_placed else _place(entry))}


def _place(entry: Entry) -> dict[str, Any]:
    """An entry's place in the tree; a root has a `parentId` of null."""
    if entry.id is None:
        return {} if entry.parent_id is None else {"parentId": entry.parent_id}
    return {"id": entry.id, "parentId": entry.parent_id}


def _wrapper(entry: Entry) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "message", **_place(entry)}
    given = entry.extra.get(API, {}).get("timestamp") if entry.extra else None
    when = given or _iso(getattr(entry.message, "timestamp", None))
    if when is not None:
        wire["timestamp"] = when
    return wire


def _iso(moment_ms: int | None) -> str | None:
    """The time of an entry, from that of its message: ISO 8601, where messages count milliseconds."""
    if moment_ms is None:
        return None
    try:
        moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _line(entry: Entry) -> dict[str, Any]:
    message: Any = entry.message
    return {"type": message.role, **_place(entry), **message.fields}


def encode(conversation: Conversation) -> Encoded:
    """The lines of a session file: a tree file if it was one, else a message a line."""
    report = Reporter()
    writer = TreeWriter(conversation, in_memory=True)
    lines = Lines(writer.begin())
    for entry, place in zip(conversation.entries, places(conversation), strict=True):
        report.root = place
        lines.append(writer.entry(entry, report))
    writer.close(conversation.head, report)
    return Encoded(lines, Losses(lambda: (*report.losses, *_unreported(conversation))))


class TreeWriter:
    """Encodes a conversation entry by entry.

    `about` is the conversation; its entries are not used. `in_memory`: they are few enough for a `dict`.
    """

    def __init__(self, about: Conversation, *, in_memory: bool = False) -> None:
        ids = None if in_memory else StringTable()
        self._about = about
        self._extra_fields = about.extra.get(API, {})
        self._calls = _Calls(ids)
        self._named: str | None = None  # what the entries give as the title
        self._known = IdSet(ids)
        self._last: str | None = None

    def begin(self) -> list[dict[str, Any]]:
        """The lines before the entries."""
        return [self._extra_fields[HEADER]] if HEADER in self._extra_fields else []

    def entry(self, entry: Entry, report: Reporter) -> dict[str, Any]:
        """The line of the next entry."""
        name = _name_in(entry)
        self._named = self._named if name is None else name
        self._known.add(entry.id)
        self._last = entry.id
        return _encode_entry(entry, bool(self._extra_fields.get(TREE)), report, self._calls)

    def note(self, entry: Entry) -> bool:
        """Every entry can be written by itself."""
        return True

    def look(self, at: int, entry: Entry, report: Reporter, *, is_head: bool) -> None:
        """Reports what is lost of the next entry."""
        self.entry(entry, report)

    def parts(self, entries: Iterable[Entry]) -> Iterator[bytes]:
        """The text of all lines."""
        writer = TreeWriter(self._about)
        lines = itertools.chain(writer.begin(), (writer.entry(entry, QUIET) for entry in entries))
        return (jsontext.write(line) + b"\n" for line in lines)

    def close(self, head: str | None, report: Reporter) -> None:
        """Reports what the lines do not contain, when all entries are written."""
        about = self._about
        if about.system is not None:
            report.at("$.system", "system", "a session file does not hold the system text")
        if about.tools is not None:
            report.at("$.tools", "tools", "a session file does not hold the tools")
        for key in own_fields(self._extra_fields):
            if key != HEADER:
                report.at(f"$.extra.{API}.{key}", key, "a session file has its header and its lines, nothing else")
        if head in self._known and head != self._last:
            report.at("$.head", "head", "a file stands at its last line")

    def entry_losses(self, entry: Entry, at: int, place: str) -> Iterator[Loss]:
        """The losses of an entry by the table, except what was packed."""
        packed = set(_executed(entry, place))
        return (loss for loss in static_entry_losses(entry, at, place, FIELD_SUPPORT, API) if loss.path not in packed)

    def losses(self, head: str | None) -> Iterator[Loss]:
        """The same beside the entries, when all of them are written."""
        kept = {"$.title"} if self._about.title == (self._named or None) else set()
        about = replace(self._about, entries=(), head=head)
        return (loss for loss in static_losses(about, FIELD_SUPPORT, API) if loss.path not in kept)


def _encode_entry(entry: Entry, tree: bool, report: Reporter, calls: _Calls) -> dict[str, Any]:
    message: Any = entry.message
    extra_fields = entry.extra.get(API, {}) if entry.extra else {}
    sent = _sent_line(entry) if SENT in extra_fields else None
    if sent is not None:
        return sent
    if TIMED in extra_fields and getattr(message, "timestamp", None) == extra_fields[TIMED]:
        message = replace(message, timestamp=None)  # its entry has the time
    if extra_fields.get(LINE) and isinstance(message, CustomMessage):
        return put_back(_line(entry), extra_fields)
    if isinstance(message, CustomMessage):
        encoded = {"role": message.role, **message.fields}
    else:
        encoded = encode_message(message, report, calls)
        if isinstance(message, AssistantMessage):
            calls.note(message)
    if extra_fields.get(WRAPPED) or (tree and not extra_fields.get(BARE)):
        return put_back({**_wrapper(entry), "message": encoded}, extra_fields)
    return {**put_back(_place(entry), extra_fields), **encoded}


def _unreported(conversation: Conversation) -> Iterator[Loss]:
    """The losses by the table, except what was packed."""
    packed = {
        path
        for entry, place in zip(conversation.entries, places(conversation), strict=True)
        for path in _executed(entry, place)
    }
    if conversation.title == _title(conversation.entries):
        packed.add("$.title")
    return (loss for loss in static_losses(conversation, FIELD_SUPPORT, API) if loss.path not in packed)


def _executed(entry: Entry, place: str) -> Iterator[str]:
    """The paths of what only the generating wire has, where pi's forms hold all of it."""
    message: Any = entry.message
    if _sent_line(entry) is not None:  # its line is of a kind that only the program writes
        yield f"{place}.origin"
    owner = _packed_by(message.api) if isinstance(message, AssistantMessage) else None
    if owner is None or not isinstance(message.content, tuple):
        return
    for at, block in enumerate(message.content):
        if owner in getattr(block, "extra", {}):
            packed = owner == COMPLETIONS and _is_packed(block, message.content[at + 1 : at + 2])
            if not packed:
                again = decode_block(encode_block(block, QUIET, owner), owner)
                packed = same(again.extra.get(owner), block.extra[owner])
            if packed:
                inner = f"{place}.content[{at}].extra.{owner}"
                yield from (loss.path for loss in extra_losses(owner, block.extra[owner], inner))


def detect(value: Any) -> str | None:
    """Whether lines are a session file: the header of a tree, its entries, or the specification's messages."""
    lines = value if isinstance(value, list) else [value]
    if not lines or not all(isinstance(line, dict) for line in lines):
        return None
    first = lines[0]
    if first.get("type") == "session" and isinstance(first.get("id"), str) and not isinstance(first.get("role"), str):
        if len(lines) > 1 and not any(map(_is_of_tree, lines[1:])):
            return None  # other programs begin with such a line, too
        return "a `session` header of a tree file"
    if not isinstance(value, Lines):
        return None
    if any(line.get("type") == "message" and isinstance(line.get("message"), dict) for line in lines[:1]):
        return "`message` entries of a tree file" if "role" in lines[0]["message"] else None
    if all(isinstance(line.get("role"), str) for line in lines) and any(map(_is_emitting, lines)):
        if any(map(_has_foreign_text, lines)):
            return None  # CodeBuddy's lines have the parts of the Responses API
        return "a message a line, with times and the role `toolResult` or an `api`"
    return None


def _is_of_tree(line: dict[str, Any]) -> bool:
    """Whether a line is an entry of a tree: it has an id, or it is one of version 1, which has none."""
    return isinstance(line.get("id"), str) or line.get("type") in ("message", "compaction", "model_change")


def _is_emitting(line: dict[str, Any]) -> bool:
    return (
        line["role"] == "toolResult"
        or (line["role"] == "assistant" and "api" in line and "stopReason" in line)
        or (line["role"] == "user" and whole(line.get("timestamp")) is not None)
    )


def _has_foreign_text(line: dict[str, Any]) -> bool:
    parts = line.get("content")
    kinds = [part.get("type") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return "input_text" in kinds or "output_text" in kinds


class _LineReader(LineReader):
    """A session file line by line."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        super().__init__(state)
        self._calls = _Calls()
        for packed, plain in self.state.get("calls", {}).items():
            self._calls.packed[plain], self._calls.plain[packed] = packed, plain
        self._before: Entry | None = None

    def messages(self, line: dict[str, Any]) -> list[tuple[str, Any]]:
        number = self.state["lines"] = self.state.get("lines", 0) + 1
        if number == 1:
            self.state["tree"] = _begins_tree(line)
            if self.state["tree"] and line["type"] == "session":
                return []
        entry = self._before = _decode_line(line, number, self.state["tree"], self._calls, self._before)
        self.title = _title([entry]) or self.title
        self._forget_calls()
        if entry.extra.get(API, {}).get(LINE) and line["type"] != "compaction":
            return []  # the program's own record
        return [(entry.id or "", entry.message)]

    def _forget_calls(self) -> None:
        """Keeps the packed ids of the latest calls; the others are as they stand."""
        packed, plain = self._calls.packed, self._calls.plain
        assert isinstance(packed, dict) and isinstance(plain, dict)
        while len(packed) > OPEN_CALLS:
            plain.pop(packed.pop(next(iter(packed))), None)
        self.state["calls"] = plain


FORMAT = FileFormat(
    name="openclaw",
    codec=sys.modules[__name__],
    detect=detect,
    lines=True,
    tree_writer=TreeWriter,
    line_reader=lambda first, state: _LineReader(state),
    stream=stream,
)
