"""LLM Canvas: a whole canvas (a tree of message nodes), a list of messages, or one message.

Blocks have the shapes of Anthropic's request parameters: text, pictures, `tool_use`, and in a user's message
`tool_result`. A node with results becomes several entries here; the last of them has the node's id, the others ids made
from it. A merge is one more child id, of a node whose parent is another. What a canvas stores of a node is its time and
its model (`meta`).

The system text is the first of a list of messages; on a canvas, the node that everything else hangs from.
"""

import itertools
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...values import jsontext
from ...values.compact import IdMap, IdNumbers, IdSet, StringTable
from ...values.errors import BadWire
from ...values.losses import (
    QUIET,
    Encoded,
    Loss,
    Reporter,
    Severity,
    SupportTable,
    dropped,
    encoded,
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
    CacheMarker,
    Content,
    CustomMessage,
    ImageBlock,
    Message,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ...values.request import Conversation, Entry, System, is_aside, is_system
from ..residual import (
    JOINED,
    MESSAGE,
    an_object,
    body_of,
    boolean,
    decode_typed,
    each,
    encode_blocks,
    keeping,
    number,
    optional,
    put_back,
    reading,
    report_other_sources,
    residual,
    restored,
    string,
    with_residual,
)
from ..results import is_tool_result
from ..wire import FileFormat
from .message_rules import in_canvas
from .records import MEDIA, NO_CALL, OWN, SERVER_TOOLS, TOOLS

API = "llm-canvas"

# Hints of ours in `extra[API]`.
CANVAS = "~canvas"  # of a conversation: it was a canvas
SINGLE = "~single"  # of a conversation: it was one message, not a list
ANSWER = "~answer"  # of a conversation: what stood around the canvas, as the server answers it
SYSTEM = "~system"  # of a conversation: the rest of the system node, or of the system message
EXPLICIT = "~explicit"  # of a result: success was written out, and not left to the default
MERGED = "~merged"  # of an entry: children of its node that have another parent
META = "~meta"  # of an entry: what else is in `meta`

FIELD_SUPPORT: SupportTable = {
    **NO_CALL,
    **kept("TextBlock.text TextBlock.cache CacheMarker.ttl ImageBlock.cache ToolCall.cache ToolResultMessage.cache"),
    **dropped("TextBlock.text_signature TextBlock.citations"),
    **dropped("Citation.title Citation.url Citation.cited_text Citation.start Citation.end"),
    **dropped("TextBlock.refusal", "a refusal is sent as plain text"),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id", "a picture is base64 or a URL"),
    **dropped("ImageBlock.detail"),
    **kept("ToolCall.id ToolCall.name ToolCall.arguments"),
    **record("ToolCall.arguments_text", "arguments are an object, not text"),
    **dropped("ToolCall.parse_error", "arguments are an object; what is none is written as {}"),
    **dropped("ToolCall.thought_signature"),
    **some(
        f"ThinkingBlock.thinking ThinkingBlock.thinking_signature ThinkingBlock.redacted {MEDIA} {SERVER_TOOLS}",
        "the canvas refuses such a block; it is dropped",
    ),
    **some("OpaqueBlock.dialect OpaqueBlock.value", "only what stood in this format"),
    **kept("UserMessage.content AssistantMessage.content SystemMessage.content"),
    **kept("ToolResultMessage.tool_call_id ToolResultMessage.content ToolResultMessage.is_error"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    **record("ToolResultMessage.details", "only the content is written"),
    **dropped("SystemMessage.developer", "one role for system messages"),
    **some("CustomMessage.role", "no such role here; only what stood in this format goes back"),
    **some(
        "UserMessage.timestamp AssistantMessage.timestamp ToolResultMessage.timestamp SystemMessage.timestamp"
        " AssistantMessage.model",
        "nodes of a canvas have it, a list of messages does not",
    ),
    **record(
        "AssistantMessage.api AssistantMessage.provider AssistantMessage.response_model AssistantMessage.usage"
        " AssistantMessage.stop_reason AssistantMessage.stop_detail AssistantMessage.error_message"
        " AssistantMessage.response_id UserMessage.origin",
        "a node has its time and its model, nothing else",
    ),
    **some(TOOLS, "a canvas does not hold the tools"),
    **dropped("Context.system_role", "one role for system messages"),
    **some("Entry.id Entry.parent_id", "every node has an id, and some get one"),
    **some("Entry.parents", "a node names its children, so a parent must be there"),
    **kept("Conversation.entries"),
    **some("Conversation.head", "a canvas stands at its last node"),
}


# --- blocks ----------------------------------------------------------------------------------------------------------


def decode_block(wire: Any, *, result: bool = False) -> Block:
    """One block; what this format does not have is kept as it is, opaque. Results hold text and pictures only."""
    return decode_typed(wire, _IN_RESULTS if result else _DECODERS, partial(encode_block, result=result), API)


def _decode_text(wire: dict[str, Any]) -> TextBlock:
    return TextBlock(text=string(wire["text"]), cache=_decode_cache(wire))


def _decode_image(wire: dict[str, Any]) -> ImageBlock:
    source = wire["source"]
    if source["type"] == "url":
        return ImageBlock(url=string(source["url"]), cache=_decode_cache(wire))
    if source["type"] != "base64":
        raise ValueError(source["type"])
    mime = optional(source.get("media_type"))
    return ImageBlock(data=string(source["data"]), mime_type=mime, cache=_decode_cache(wire))


def _decode_call(wire: dict[str, Any]) -> ToolCall:
    if not isinstance(wire["input"], dict):
        raise TypeError("the input of a tool is an object")
    return ToolCall(
        id=string(wire["id"]), name=string(wire["name"]), arguments=wire["input"], cache=_decode_cache(wire)
    )


_IN_RESULTS: dict[str, Callable[[dict[str, Any]], Any]] = {"text": _decode_text, "image": _decode_image}
_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {**_IN_RESULTS, "tool_use": _decode_call}


def _decode_cache(wire: dict[str, Any]) -> CacheMarker | None:
    marker = wire.get("cache_control")
    if not isinstance(marker, dict):
        return None
    cache = CacheMarker(ttl=optional(marker.get("ttl")))
    return keeping(cache, API, marker, _encode_cache(cache))


def encode_block(block: Block, report: Reporter, *, result: bool = False) -> Any:
    """Encodes a block; None, with a report, if the format has no place for it."""
    wire: dict[str, Any]
    match block:
        case TextBlock():
            wire = {"type": "text", "text": block.text}
        case ToolCall() if not result:
            wire = {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
        case ImageBlock() if block.data is not None or block.url is not None:
            wire = {"type": "image", "source": _encode_source(block, report)}
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            # The server refuses a whole message (422) for one block of another type: thinking, documents, audio.
            report.lost(type(block).__name__, "a canvas has text, pictures, calls and results")
            return None
    if block.cache is not None:
        wire["cache_control"] = _encode_cache(block.cache)
    return restored(wire, block.extra, API) if block.extra else wire


def _encode_source(block: ImageBlock, report: Reporter) -> dict[str, Any]:
    report_other_sources(block, report)
    if block.data is None:
        if block.mime_type is not None:
            report.lost("mime_type", "a URL is written without its type", field="mimeType")
        return {"type": "url", "url": block.url}
    return {"type": "base64", "media_type": block.mime_type, "data": block.data}


def _encode_cache(cache: CacheMarker) -> dict[str, Any]:
    wire = {"type": "ephemeral"}
    if cache.ttl is not None:
        wire["ttl"] = cache.ttl
    return restored(wire, cache.extra, API)


def _encode_content(content: Content, report: Reporter, *, result: bool = False) -> Any:
    if content is None or isinstance(content, str):
        return content
    return encode_blocks(content, partial(encode_block, result=result), report, API)


# --- messages --------------------------------------------------------------------------------------------------------


def _decode_message(wire: Any, names: dict[str, str]) -> list[Entry]:
    """One message; a user's message with tool results becomes several."""
    role = an_object(wire, API).get("role")
    message: Message
    match role:
        case "user":
            return _decode_user(wire, names)
        case "assistant":
            message = AssistantMessage(content=_decode_content(wire.get("content")))
            names.update((call.id, call.name) for call in message.tool_calls)
        case "system":
            message = SystemMessage(content=_decode_content(wire.get("content")))
        case str():
            fields = {key: value for key, value in wire.items() if key != "role"}
            return [Entry(message=CustomMessage(role, fields), extra={API: {OWN: True}})]  # type: ignore[arg-type]
        case _:
            raise BadWire(API, "a message needs a role: user, assistant or system", "$.role")
    return [Entry(message=_kept(message, wire))]


def _kept(message: Message, wire: dict[str, Any]) -> Message:
    emitted = _encoded_message(message, QUIET)
    given = {**wire, "content": emitted["content"]} if isinstance(wire.get("content"), list) else wire
    return keeping(message, API, given, emitted)


def _decode_content(content: Any, *, result: bool = False) -> Content:
    if content is None or isinstance(content, str):
        return content
    return tuple(each(content, "content", API, lambda block: decode_block(block, result=result)))


def _decode_user(wire: dict[str, Any], names: dict[str, str]) -> list[Entry]:
    content = wire.get("content")
    if not isinstance(content, list) or not any(is_tool_result(block) for block in content):
        return [Entry(message=_kept(UserMessage(content=_decode_content(content)), wire))]
    pieces: list[Message] = []
    for block in content:
        if is_tool_result(block):
            pieces.append(_decode_result(block, names))
        elif pieces and isinstance(pieces[-1], UserMessage):
            pieces[-1] = UserMessage(content=(*pieces[-1].content, decode_block(block)))  # type: ignore[misc]
        else:
            pieces.append(UserMessage(content=(decode_block(block),)))
    extra_fields = residual({**wire, "content": None}, {"role": "user", "content": None})
    if extra_fields:
        pieces[0] = with_residual(pieces[0], API, **{MESSAGE: extra_fields})
    return [Entry(message=piece, extra={API: {JOINED: True}} if at else {}) for at, piece in enumerate(pieces)]


def _decode_result(wire: dict[str, Any], names: dict[str, str]) -> ToolResultMessage:
    result = ToolResultMessage(
        tool_call_id=wire["tool_use_id"],
        tool_name=names.get(wire["tool_use_id"]),
        content=_decode_content(wire.get("content"), result=True),
        is_error=boolean(wire.get("is_error", False)),
        cache=_decode_cache(wire),
        extra={API: {EXPLICIT: True}} if wire.get("is_error") is False else {},
    )
    emitted = _encode_result(result, QUIET)
    given = {**wire, "content": emitted["content"]} if isinstance(wire.get("content"), list) else wire
    return keeping(result, API, given, emitted)


def _encode_result(result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.tool_call_id}
    if result.content is not None:
        wire["content"] = _encode_content(result.content, report, result=True)
    if result.is_error or (result.extra and result.extra.get(API, {}).get(EXPLICIT)):
        wire["is_error"] = result.is_error
    if result.cache is not None:
        wire["cache_control"] = _encode_cache(result.cache)
    return restored(wire, result.extra, API) if result.extra else wire


def _encoded_message(message: Message, report: Reporter) -> dict[str, Any]:
    # The server refuses the role `tool` (422): results are blocks of a user's message, as in Anthropic's requests.
    if isinstance(message, ToolResultMessage):
        extra_fields = message.extra.get(API, {}).get(MESSAGE, {}) if message.extra else {}
        return put_back({"role": "user", "content": [_encode_result(message, report)]}, extra_fields)
    role = "user" if isinstance(message, UserMessage) else "system"
    if isinstance(message, AssistantMessage):
        role = "assistant"
    wire = {"role": role, "content": _encode_content(message.content, report)}
    if not message.extra:
        return wire
    extra_fields = message.extra.get(API, {})
    return put_back(put_back(wire, extra_fields), extra_fields.get(MESSAGE, {}))


class _Encoded:
    """The messages encoded so far, each with the indexes of its entries."""

    def __init__(self, entries: tuple[Entry, ...], report: Reporter, ids: StringTable | None = None) -> None:
        """`ids`: those of a conversation that is too large for a `dict`."""
        self.messages: list[tuple[dict[str, Any], list[int]]] = []
        self._entries: Mapping[int, Entry] = dict(enumerate(entries))
        self._report = report
        self._names: IdMap | dict[str, str] = {} if ids is None else IdMap(ids)

    def encode_next(self, at: int, entry: Entry, report: Reporter) -> dict[str, Any] | None:
        """Encodes an entry that no other one joins, and forgets it; None if the format cannot hold its message."""
        self._entries, self._report = {at: entry}, report
        return self.messages.pop()[0] if self.encode(at) else None

    def encode(self, at: int) -> bool:
        """Encodes an entry's message, if the format can hold it."""
        entry = self._entries[at]
        message: Any = entry.message
        own = entry.extra.get(API, {}) if entry.extra else {}
        if isinstance(message, CustomMessage):
            if not own.get(OWN):
                severity: Severity = "record" if is_aside(entry) and "result" not in message.fields else "dropped"
                self._report.lost(message.role, "the roles are user, assistant and system", severity)
                return False
            self.messages.append(({"role": message.role, **message.fields}, [at]))
            return True
        self._note(message)
        if not (own.get(JOINED) and self._joins(at, message)):
            self.messages.append((_encoded_message(message, self._report), [at]))
        return True

    def _joins(self, at: int, message: Message) -> bool:
        """Puts the message into the one before it, if it is still a part of that."""
        if not self.messages or self.messages[-1][1][-1] != at - 1:
            return False
        wire, entries = self.messages[-1]
        before, entry = self._entries[at - 1], self._entries[at]
        if wire["role"] != "user" or not isinstance(wire["content"], list) or entry.parent_id not in (None, before.id):
            return False
        if isinstance(message, ToolResultMessage):
            wire["content"].append(_encode_result(message, self._report))
        elif isinstance(message, UserMessage) and isinstance(before.message, ToolResultMessage):
            if not isinstance(message.content, tuple):
                return False
            wire["content"].extend(_encode_content(message.content, self._report))
        else:
            return False
        entries.append(at)
        return True

    def _note(self, message: Message) -> None:
        if isinstance(message, AssistantMessage):
            self._names.update((call.id, call.name) for call in message.tool_calls)
        elif isinstance(message, ToolResultMessage):
            known = (None, self._names.get(message.tool_call_id))
            if message.tool_name not in known:
                self._report.lost("tool_name", "only the name of the call is known", "record", field="toolName")


# --- lists of messages -----------------------------------------------------------------------------------------------


@reading(API)
def decode(data: Any) -> Conversation:
    """A canvas (also as the server answers it, under `data`), a list of messages, or one message."""
    body = body_of(data, API)
    if isinstance(body, list):
        return _decode_list(body)
    wire = an_object(body, API)
    if "nodes" in wire:
        return _decode_canvas(wire)
    inner = wire.get("data")
    if isinstance(inner, dict) and "nodes" in inner:
        rest = {key: value for key, value in wire.items() if key != "data"}
        return with_residual(_decode_canvas(inner), API, **{ANSWER: rest})
    if "role" in wire:
        return with_residual(_decode_list([wire]), API, **{SINGLE: True})
    raise BadWire(API, "expected a canvas with `nodes`, a list of messages, or a message with a role")


def _decode_list(wire: list[Any]) -> Conversation:
    names: dict[str, str] = {}
    groups = each(wire, "messages", API, lambda message: _decode_message(message, names))
    entries = [entry for group in groups for entry in group]
    first = entries[0].message if entries else None
    if not isinstance(first, SystemMessage) or not is_system(first.content):
        return Conversation(entries=tuple(entries))
    conversation = Conversation(entries=tuple(entries[1:]), system=first.content)  # type: ignore[arg-type]
    extra_fields = first.extra.get(API)
    return with_residual(conversation, API, **{SYSTEM: extra_fields}) if extra_fields else conversation


def _system_message(system: System) -> dict[str, Any]:
    return {"role": "system", "content": _encode_content(system, QUIET)}


def encode(conversation: Conversation) -> Encoded:
    """A canvas where there is a tree; else the messages, as a list or alone."""
    report = Reporter()
    extra_fields = conversation.extra.get(API, {})
    placed = any(entry.id is not None or entry.parent_id is not None for entry in conversation.entries)
    if extra_fields.get(CANVAS) or placed:
        body: Any = _Canvas(conversation, report).body()
        if ANSWER in extra_fields:
            body = {**extra_fields[ANSWER], "data": body}
    else:
        body = _encode_list(conversation, report)
        if extra_fields.get(SINGLE) and len(body) == 1:
            body = body[0]
    if conversation.tools is not None:
        report.at("$.tools", "tools", _NO_TOOLS)
    return encoded(API, body, conversation, FIELD_SUPPORT, report.losses)


def _encode_list(conversation: Conversation, report: Reporter) -> list[dict[str, Any]]:
    out = _Encoded(conversation.entries, report)
    first: list[dict[str, Any]] = []
    if conversation.system is not None:
        extra_fields = conversation.extra.get(API, {}).get(SYSTEM, {})
        first = [put_back(_system_message(conversation.system), extra_fields)]
    for at, (entry, place) in enumerate(zip(conversation.entries, places(conversation), strict=True)):
        report.root = place
        wire = out.messages[-1][0] if out.encode(at) else None
        _check_listed(entry, wire, report, is_first=not first and len(out.messages) == 1)
    for key in own_fields(conversation.extra.get(API)):
        report.at(f"$.extra.{API}.{key}", key, "a list has messages, nothing else")
    return first + [wire for wire, _ in out.messages]


def _reads_as_system(message: dict[str, Any]) -> bool:
    return message.get("role") == "system" and is_system(_decode_content(message.get("content")))


def _check_listed(entry: Entry, wire: dict[str, Any] | None, report: Reporter, *, is_first: bool) -> None:
    """Reports what a list does not store of a message; `is_first`: it has no other one yet."""
    for field in ("timestamp", "model"):
        if getattr(entry.message, field, None) is not None:
            report.lost(field, "a list has no metadata of its messages", "record", field=field)
    if is_first and isinstance(entry.message, SystemMessage) and wire is not None and _reads_as_system(wire):
        report.lost("system", "a first system message is read as the system text", "weakened")
        report.at("$.system", "system", "the first message is read as it", "weakened")


# --- canvases --------------------------------------------------------------------------------------------------------


def _decode_canvas(wire: dict[str, Any]) -> Conversation:
    nodes = an_object(wire["nodes"], API, "$.nodes")
    names: dict[str, str] = {}
    children, further = _children(nodes), _merge_parents(nodes)
    entries: list[Entry] = []
    for key, node in nodes.items():
        try:
            pieces = _decode_node(key, an_object(node, API), children.get(key, []), names)
            if key in further:
                pieces[-1] = replace(pieces[-1], parents=tuple(further[key]))
            entries += pieces
        except BadWire as error:
            raise error.under(f"nodes.{key}") from None
    conversation = Conversation(entries=tuple(entries), extra={API: {CANVAS: True}})
    system = _system_node(nodes)
    if system is not None:
        conversation = _with_system(conversation, system)
    conversation = replace(conversation, head=_head(wire, entries))
    emitted = {"nodes": wire["nodes"]}  # nodes keep their own residuals
    return with_residual(conversation, API, **residual(wire, emitted))


@reading(API)
def decode_node(key: str, node: Any) -> list[Entry]:
    """The entries of one node without its canvas: a first system message is a message like the others."""
    try:
        return _decode_node(key, an_object(node, API), [], {})
    except BadWire as error:
        raise error.under(f"nodes.{key}") from None


def _children(nodes: dict[str, Any]) -> dict[str, list[str]]:
    """By node, the nodes that hang from it: those whose parent it is, and the merges that it is a source of."""
    out: dict[str, list[str]] = {}
    further = _merge_parents(nodes)
    for key, node in nodes.items():
        parent = node.get("parent_id") if isinstance(node, dict) else None
        for above in (*([parent] if isinstance(parent, str) else []), *further.get(key, ())):
            out.setdefault(above, []).append(key)
    return out


def _merge_parents(nodes: dict[str, Any]) -> dict[str, list[str]]:
    """By node, its further parents: a merge is named as a child by its sources, and itself names only its target."""
    out: dict[str, list[str]] = {}
    for key, node in nodes.items():
        given = node.get("child_ids") if isinstance(node, dict) else None
        for child in given if isinstance(given, list) else ():
            below = nodes.get(child) if isinstance(child, str) else None
            known = out.get(child, ()) if isinstance(child, str) else ()
            if isinstance(below, dict) and below.get("parent_id") != key and child != key and key not in known:
                out.setdefault(child, []).append(key)
    return out


def _decode_node(key: str, node: dict[str, Any], children: list[str], names: dict[str, str]) -> list[Entry]:
    """The entries of a node: the last one bears its id."""
    try:
        pieces = _decode_message(node.get("message"), names)
    except BadWire as error:
        raise error.under("message") from None
    meta = node.get("meta")
    pieces = [replace(piece, message=_with_meta(piece.message, meta)) for piece in pieces]
    ids = [f"{key}/{at}" for at in range(1, len(pieces))] + [key]
    parents = [optional(node.get("parent_id")), *ids]
    *parts, last = [
        replace(piece, id=id, parent_id=parent) for piece, id, parent in zip(pieces, ids, parents, strict=False)
    ]
    last = _with_rest(last, node, children)
    wire = {**node, "message": None}
    emitted = _node(key, optional(node.get("parent_id")), children, last)
    return [*parts, keeping(last, API, wire, emitted)]


def _with_meta(message: Any, meta: Any) -> Any:
    """The message with the time and the model of its node."""
    if not isinstance(meta, dict) or isinstance(message, CustomMessage):
        return message
    # The client writes Unix seconds, with a fraction, in each `meta`; the model is what the page shows of it.
    seconds = number(meta.get("timestamp"))
    if seconds is not None:
        message = replace(message, timestamp=round(seconds * 1000))
    if isinstance(message, AssistantMessage) and isinstance(meta.get("model"), str):
        message = replace(message, model=meta["model"])
    return message


def _with_rest(entry: Entry, node: dict[str, Any], children: list[str]) -> Entry:
    """The entry of a node with the node's other fields: children by merging, and the rest of `meta`."""
    extra_fields: dict[str, Any] = {}
    given = node.get("child_ids")
    if isinstance(given, list):
        merged = [id for id in given if isinstance(id, str) and id not in children]
        extra_fields |= {MERGED: merged} if merged else {}
    meta = node.get("meta")
    if isinstance(meta, dict):
        known = _meta(entry.message)
        rest = {key: value for key, value in meta.items() if key not in known}
        extra_fields |= {META: rest} if rest else {}
    return with_residual(entry, API, **extra_fields) if extra_fields else entry


def _meta(message: Any) -> dict[str, Any]:
    emitted: dict[str, Any] = {}
    if getattr(message, "timestamp", None) is not None:
        emitted["timestamp"] = _seconds(message.timestamp)
    if isinstance(message, AssistantMessage) and message.model is not None:
        emitted["model"] = message.model
    return emitted


def _seconds(milliseconds: int) -> float:
    try:
        return milliseconds / 1000
    except OverflowError:
        return 0.0


def _node(id: str, parent: str | None, children: list[str], entry: Entry) -> dict[str, Any]:
    """A node without its message."""
    extra_fields = entry.extra.get(API, {}) if entry.extra else {}
    return {
        "id": id,
        "message": None,
        "parent_id": parent,
        "child_ids": [*children, *extra_fields.get(MERGED, ())],
        "meta": {**_meta(entry.message), **extra_fields.get(META, {})} or None,
    }


def _system_node(nodes: dict[str, Any]) -> str | None:
    """The node that holds the system text: the first one, if all others hang from it."""
    roots = [key for key, node in nodes.items() if not isinstance(node.get("parent_id"), str)]
    first = next(iter(nodes), None)
    if first is None or roots != [first] or not isinstance(nodes[first].get("message"), dict):
        return None
    return first if _reads_as_system(nodes[first]["message"]) else None


def _with_system(conversation: Conversation, system: str) -> Conversation:
    node, *rest = conversation.entries
    entries = tuple(replace(entry, parent_id=None) if entry.parent_id == system else entry for entry in rest)
    message: Any = node.message
    about = {
        "id": system,
        "message": message.extra.get(API, {}),
        "node": node.extra.get(API, {}),
        "meta": _meta(message),
    }
    extra_fields = {key: value for key, value in about.items() if value}
    return with_residual(replace(conversation, system=message.content, entries=entries), API, **{SYSTEM: extra_fields})


def _head(canvas: dict[str, Any], entries: Iterable[Entry]) -> str | None:
    """The head of the branch that is checked out, where branches were written down beside the nodes."""
    # The published client has its branches in memory alone: a canvas that its server gives has none.
    branches = canvas.get("branches")
    known = branches.values() if isinstance(branches, dict) else branches if isinstance(branches, list) else ()
    named = {b["name"]: b.get("head_node_id") for b in known if isinstance(b, dict) and isinstance(b.get("name"), str)}
    current = canvas.get("current_branch")
    head = named.get(current if isinstance(current, str) else "main")
    return head if isinstance(head, str) and any(entry.id == head for entry in entries) else None


_SAME_ID = "another node has this id"
_NO_HEAD = "a canvas stands at its last node"
_NO_TOOLS = "a canvas does not hold the tools"
_ROOT_SYSTEM = "a system message that all else hangs from is read as the system text"


def _check_place(at: int, entry: Entry, parent: str | None, root: str | None, report: Reporter) -> None:
    if entry.id is None:
        report.at(f"$.entries[{at}].id", "id", "every node has an id", "record")
    if (entry.parent_id or root) != parent:
        report.at(f"$.entries[{at}].parentId", "parent_id", "it hangs from the node before", "record")


def _check_time(entry: Entry, last: Entry, report: Reporter) -> None:
    """The time of a node is that of its `last` entry, to the precision of a float."""
    message: Any = entry.message
    shown = _with_meta(UserMessage(content=None), _meta(last.message)).timestamp
    if getattr(message, "timestamp", None) != shown and not isinstance(message, CustomMessage):
        report.lost("timestamp", "a node has one time, in seconds", "weakened", field="timestamp")


def _system_node_of(id: str, children: list[str], system: System, about: Mapping[str, Any] = {}) -> dict[str, Any]:
    """The node of the system text; `about` is what was kept of it."""
    extra_fields = about.get("node", {})
    node = {
        "id": id,
        "message": put_back(_system_message(system), about.get("message", {})),
        "parent_id": None,
        "child_ids": [*children, *extra_fields.get(MERGED, ())],
        "meta": {**about.get("meta", {}), **extra_fields.get(META, {})} or None,
    }
    return put_back(node, extra_fields)


def _new_id(wanted: str, taken: set[str] | IdSet) -> str:
    """An id that no node has yet, added to those that are `taken`."""
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


class _Place(NamedTuple):
    """Where an entry stands on the canvas: its node, and that node's parent."""

    node: str
    parent: str | None


class _Canvas:
    """Writes a canvas: a node for each entry, or for the several that one node was read as."""

    def __init__(self, conversation: Conversation, report: Reporter) -> None:
        self._conversation = conversation
        self._entries = conversation.entries
        self._places = places(conversation)
        self._report = report
        self._residual = conversation.extra.get(API, {})
        self._taken = {entry.id for entry in self._entries if entry.id is not None}
        self._generated: dict[int, str] = {}  # by the identity of the entry
        about = self._residual.get(SYSTEM, {})
        self._root: str | None = None
        if conversation.system is not None:
            self._root = about["id"] if about.get("id") not in (None, *self._taken) else _new_id("system", self._taken)

    def body(self) -> dict[str, Any]:
        groups = self._groups()
        self._check_head(groups)
        nodes = self._nodes(groups)
        if self._root is None:
            self._check_system(nodes)
        body: dict[str, Any] = {} if self._residual.get(CANVAS) else self._about(nodes)
        body["nodes"] = nodes
        return put_back(body, self._residual)

    def _groups(self) -> list[tuple[dict[str, Any], list[int], _Place]]:
        """The fields of each node, the entries it stands for, and its place."""
        emitted = _Encoded(self._entries, self._report)
        stands: dict[str, str | None] = {}  # entry id -> the node that stands for it, or for its nearest ancestor
        generated: dict[int, str] = {}
        parents: dict[int, str | None] = {}
        before: str | None = None
        for at, (entry, place) in enumerate(zip(self._entries, self._places, strict=True)):
            self._report.root = place
            parent = self._parent(entry, stands, before)
            if entry.id is not None and entry.id in stands:
                self._report.lost("entry", _SAME_ID)
                continue
            if not emitted.encode(at):
                if entry.id is not None:
                    stands[entry.id] = parent
                continue
            generated[at] = self._generated[id(entry)] = entry.id or _new_id(f"node_{at}", self._taken)
            parents[at] = parent
            before = generated[at]
            if entry.id is not None:
                stands[entry.id] = entry.id
            _check_place(at, entry, parent, self._root, self._report)
        return [
            (wire, entries, _Place(generated[entries[-1]], parents[entries[0]])) for wire, entries in emitted.messages
        ]

    def _parent(self, entry: Entry, stands: dict[str, str | None], before: str | None) -> str | None:
        if entry.parent_id is not None:
            return stands.get(entry.parent_id, entry.parent_id)
        return self._root if entry.id is not None or before is None else before

    def _nodes(self, groups: list[tuple[dict[str, Any], list[int], _Place]]) -> dict[str, Any]:
        children: dict[str | None, list[str]] = {}
        known = {place.node for _, _, place in groups} | {self._root}
        for _, entries, place in groups:
            for above in (place.parent, *self._further(entries[-1], place, known)):
                children.setdefault(above, []).append(place.node)
        nodes: dict[str, Any] = {}
        if self._root is not None:
            about = self._residual.get(SYSTEM, {})
            nodes[self._root] = _system_node_of(
                self._root, children.get(self._root, []), self._conversation.system, about
            )
        for wire, entries, place in groups:
            entry = self._entries[entries[-1]]
            node = _node(place.node, place.parent, children.get(place.node, []), entry)
            node["message"] = wire
            self._check_meta(entries)
            nodes[place.node] = put_back(node, entry.extra.get(API, {})) if entry.extra else node
        return nodes

    def _further(self, at: int, place: _Place, known: set[str | None]) -> list[str]:
        """The nodes beside its parent that a node is a child of."""
        given = self._entries[at].parents
        emitted = [id for id in dict.fromkeys(given) if id in known and id not in (place.node, place.parent)]
        if tuple(emitted) != given:
            self._report.at(f"$.entries[{at}].parents", "parents", "a parent must be a node, each named once")
        return emitted

    def _check_meta(self, entries: list[int]) -> None:
        for at in entries:
            self._report.root = self._places[at]
            _check_time(self._entries[at], self._entries[entries[-1]], self._report)

    def _check_system(self, nodes: dict[str, Any]) -> None:
        """A system message that everything hangs from is read as the system text."""
        system = _system_node(nodes)
        if system is None:
            return
        self._report.at("$.system", "system", _ROOT_SYSTEM, "weakened")
        if len(nodes) == 1:
            self._report.at("$.head", "head", _ROOT_SYSTEM, "record")
        for at, (entry, place) in enumerate(zip(self._entries, self._places, strict=True)):
            if entry.id == system or (at == 0 and entry.id is None):
                self._report.at(place, "system", _ROOT_SYSTEM, "weakened")
            elif entry.parent_id == system:
                self._report.at(f"$.entries[{at}].parentId", "parent_id", _ROOT_SYSTEM, "record")

    def _check_head(self, groups: list[tuple[dict[str, Any], list[int], _Place]]) -> None:
        nodes = [place.node for _, _, place in groups]
        stated = _head(self._residual, self._entries) or (nodes[-1] if nodes else None)
        path = self._conversation.path()
        head = path[-1] if path else None
        if head is not None and (head.id or self._generated.get(id(head))) != stated:
            self._report.at("$.head", "head", _NO_HEAD)

    def _about(self, nodes: dict[str, Any]) -> dict[str, Any]:
        """A canvas's own fields, for a conversation that was none."""
        times = [node["meta"]["timestamp"] for node in nodes.values() if node["meta"] and "timestamp" in node["meta"]]
        return {
            "canvas_id": self._conversation.options.session_id or next(iter(nodes), ""),
            "created_at": min(times, default=0.0),
            "last_updated": max(times, default=0.0),
        }


class CanvasWriter:
    """Writes the same as `encode` for a conversation that is too large to be in memory.

    It takes three passes over the entries, since nodes name their children and a canvas its first and last time:
    `note` each entry, then `look` at each and `close`, then the `parts` of the text.
    """

    def __init__(self, about: Conversation) -> None:
        """`about` is the conversation; its entries are not used."""
        self._about = about
        self._ids = ids = StringTable()
        self._taken = IdSet(ids)
        self._stands = IdNumbers(ids)  # as in `_Canvas._groups`, by the numbers of the ids
        self._first, self._last = IdNumbers(ids), IdNumbers(ids)  # of the children of a node, as places in:
        self._children, self._next = array("i"), array("i")
        self._nodes, self._parents = array("i"), array("i")  # of each entry; -1 for none
        self._encoder = _Encoded((), QUIET, ids)
        self._root: str | None = None
        self._before: str | None = None  # the node before
        self._has_head = False
        self._head: str | None = None  # the node, or else the id, of the entry at the head
        self._times: tuple[float, float] | None = None
        self._roots = self._count = 0
        self._system: str | None = None  # the first node, if it may be read as the system text
        self._read_as_system: list[tuple[str, str, Severity]] = []  # the losses if it is
        self._is_placed = False  # whether there is a tree; else the messages are a list

    def note(self, entry: Entry) -> bool:
        """First pass. False for an entry that needs the others: of a canvas, or a merge."""
        self._taken.add(entry.id)
        self._is_placed = self._is_placed or entry.id is not None or entry.parent_id is not None
        return not self._about.extra.get(API) and not entry.extra.get(API) and not entry.parents

    def look(self, at: int, entry: Entry, report: Reporter, *, is_head: bool) -> None:
        """Second pass: finds the node of an entry, and reports what is lost of it."""
        if not self._is_placed:
            wire = self._encoder.encode_next(at, entry, report)
            self._count += wire is not None
            is_first = self._count == 1 and self._about.system is None
            _check_listed(entry, wire, report, is_first=is_first)
            return
        if not at and self._about.system is not None:
            self._root = _new_id("system", self._taken)
        parent = self._parent(entry)
        node = self._node_of(at, entry, parent, report)
        self._nodes.append(-1 if node is None else self._ids.number(node))
        self._parents.append(-1 if parent is None else self._ids.number(parent))
        if is_head:
            self._has_head, self._head = True, entry.id or node
        if node is not None:
            self._add_child(parent, node)
            _check_place(at, entry, parent, self._root, report)
            _check_time(entry, entry, report)
            self._add_time(entry)
            self._before = node
        if self._system is not None and (entry.id == self._system or (at == 0 and entry.id is None)):
            self._read_as_system.append((report.root, "system", "weakened"))
        elif self._system is not None and entry.parent_id == self._system:
            self._read_as_system.append((f"$.entries[{at}].parentId", "parent_id", "record"))

    def close(self, head: str | None, report: Reporter) -> None:
        """Reports what is lost beside the entries, when all were looked at."""
        if self._about.tools is not None:
            report.at("$.tools", "tools", _NO_TOOLS)
        if self._has_head and self._head != self._before:
            report.at("$.head", "head", _NO_HEAD)
        if self._system is not None and self._roots == 1:
            report.at("$.system", "system", _ROOT_SYSTEM, "weakened")
            if self._count == 1:
                report.at("$.head", "head", _ROOT_SYSTEM, "record")
            for path, what, severity in self._read_as_system:
                report.at(path, what, _ROOT_SYSTEM, severity)

    def entry_losses(self, entry: Entry, at: int, place: str) -> Iterable[Loss]:
        """The losses of an entry by the table."""
        return static_entry_losses(entry, at, place, FIELD_SUPPORT, API)

    def losses(self, head: str | None) -> Iterable[Loss]:
        """The same beside the entries."""
        return static_losses(replace(self._about, head=head), FIELD_SUPPORT, API)

    def parts(self, entries: Iterable[Entry]) -> Iterator[bytes]:
        """The text of the canvas, or of the list."""
        if not self._is_placed:
            given = () if self._about.system is None else (_system_message(self._about.system),)
            wires = (self._encoder.encode_next(0, entry, QUIET) for entry in entries)
            yield b"["
            for at, message in enumerate(itertools.chain(given, (wire for wire in wires if wire is not None))):
                yield b"," * bool(at) + jsontext.write(message)
            yield b"]"
            return
        name = self._root or next((self._ids.text(node) for node in self._nodes if node >= 0), "")
        created, updated = self._times or (0.0, 0.0)
        about = {"canvas_id": self._about.options.session_id or name, "created_at": created, "last_updated": updated}
        yield jsontext.write(about)[:-1] + b',"nodes":{'
        separator = b""
        if self._root is not None:
            yield _node_text(_system_node_of(self._root, [*self._children_of(self._root)], self._about.system))
            separator = b","
        for entry, node, parent in zip(entries, self._nodes, self._parents, strict=True):
            wire = self._encoder.encode_next(0, entry, QUIET) if node >= 0 else None
            if wire is not None:
                id, above = self._ids.text(node), None if parent < 0 else self._ids.text(parent)
                yield separator + _node_text({**_node(id, above, [*self._children_of(id)], entry), "message": wire})
                separator = b","
        yield b"}}"

    def _parent(self, entry: Entry) -> str | None:
        if entry.parent_id is not None:
            stands = self._stands.get(entry.parent_id, -1)
            return entry.parent_id if stands == -1 else None if stands is None else self._ids.text(stands)
        return self._root if entry.id is not None or self._before is None else self._before

    def _node_of(self, at: int, entry: Entry, parent: str | None, report: Reporter) -> str | None:
        """The node of an entry, if it has one."""
        if entry.id is not None and entry.id in self._stands:
            report.lost("entry", _SAME_ID)
            return None
        wire = self._encoder.encode_next(at, entry, report)
        if wire is None:
            if entry.id is not None:
                self._stands[entry.id] = None if parent is None else self._ids.number(parent)
            return None
        if entry.id is not None:
            self._stands[entry.id] = self._ids.number(entry.id)
        node = entry.id or _new_id(f"node_{at}", self._taken)
        if not self._count and self._about.system is None and _reads_as_system(wire):
            self._system = node
        self._count += 1
        self._roots += parent is None
        return node

    def _add_child(self, parent: str | None, node: str) -> None:
        if parent is None:
            return
        place, last = len(self._children), self._last.get(parent)
        self._children.append(self._ids.number(node))
        self._next.append(-1)
        if last is None:
            self._first[parent] = place
        else:
            self._next[last] = place
        self._last[parent] = place

    def _children_of(self, node: str) -> Iterator[str]:
        place = self._first.get(node)
        while place is not None and place >= 0:
            yield self._ids.text(self._children[place])
            place = self._next[place]

    def _add_time(self, entry: Entry) -> None:
        when = _meta(entry.message).get("timestamp")
        if when is not None:
            first, last = self._times or (when, when)
            self._times = min(first, when), max(last, when)


def _node_text(node: dict[str, Any]) -> bytes:
    return jsontext.write(node["id"]) + b":" + jsontext.write(node)


def detect(value: Any) -> str | None:
    """Whether a JSON document is a canvas; its messages alone are Anthropic's, and not claimed."""
    canvas = value.get("data") if isinstance(value, dict) and "nodes" not in value else value
    nodes = canvas.get("nodes") if isinstance(canvas, dict) else None
    if not isinstance(nodes, dict):
        return None
    if any(isinstance(node, dict) and "message" in node and "child_ids" in node for node in nodes.values()):
        return "`nodes` with a `message` and `child_ids`"
    return "`nodes` beside a `canvas_id`" if isinstance(canvas, dict) and "canvas_id" in canvas else None


FORMAT = FileFormat(
    name="llm-canvas",
    codec=sys.modules[__name__],
    detect=detect,
    tree_writer=CanvasWriter,
    mistakes=in_canvas,
)
