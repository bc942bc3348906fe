"""One conversation of a ChatGPT export: a `mapping` of nodes, each with a message, its parent and its children.

The export (`conversations.json`) is a list of these; `split` takes it apart. A node is an entry under its own id, the
conversation stands at `current_node`. A message of the assistant to a `recipient` other than all is a call of that
tool, and messages of the role `tool` are what it gave; neither has an id of its own, so the call's node lends its id.
Nodes without a message, and messages of other kinds, are kept in their places as messages of their own role.
"""

import itertools
import re
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire, Unsupported
from ...values.folding import arguments_text, parse_arguments
from ...values.losses import Encoded, Reporter, SupportTable
from ...values.messages import (
    AssistantMessage,
    Block,
    ImageBlock,
    Message,
    OpaqueBlock,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import (
    ENCODED,
    an_object,
    body_of,
    encode_blocks,
    keeping,
    number,
    optional,
    put_back,
    reading,
    residual,
    restored,
    string,
    with_residual,
)
from ..wire import FileFormat, ListedSession, SessionStream
from . import records as _records
from .joining import apart, place
from .line_sessions import EntryStream, ReadAgain, Reader, Record, read
from .reading import listed as listed_in
from .records import FILE, Records, Shapes, milliseconds

API = "chatgpt-export"

KIND = "~kind"  # of a message: its content type, where that is not `text`
FIELD = "~field"  # of a message: the field of its text, where that is not the usual one for its kind
NAMELESS = "~nameless"  # of an entry: its node stands under its id and does not repeat it
PLACES = "~places"  # of a conversation: the order of the nodes, where children stand before their parents
INPUT = "input"  # the one argument of a call whose text is no JSON object
SYSTEM_ERROR = "system_error"  # the kind of what a tool gave if it failed
FILE_OF_ONE, FILE_OF_LIST = "one", "list"  # the file is a conversation, or a list of it
LATEST = 10**11  # seconds; what is later is no time

FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


# --- content ---------------------------------------------------------------------------------------------------------


# The field of a content's text, by its kind; a kind that is not here has it in one of these, too.
_FIELDS = {"thoughts": "thoughts", "tether_browsing_display": "result", "user_editable_context": "user_instructions"}
_FIELDS |= dict.fromkeys(("code", "execution_output", "tether_quote", SYSTEM_ERROR), "text")
_CONTEXT = ("user_profile", "user_instructions")  # what a person set for all conversations


def _field_of(content: dict[str, Any]) -> str:
    named = _FIELDS.get(content.get("content_type", ""), "parts")
    return next((field for field in (named, "parts", "text", "result") if field in content), named)


def _decode_content(content: dict[str, Any]) -> tuple[Block, ...]:
    """The parts of a content, whichever of its kinds it is."""
    kind = content.get("content_type")
    if kind == "reasoning_recap":
        raise ValueError("shown on the screen, and never read by a model")
    if kind == "user_editable_context":
        return tuple(TextBlock(text=string(content[field])) for field in _CONTEXT if field in content)
    field = _field_of(content)
    if field == "parts":
        return tuple(map(_decode_part, content["parts"]))
    if field == "thoughts":
        return tuple(map(_decode_thought, content["thoughts"]))
    return (TextBlock(text=string(content[field])),)


def _decode_part(part: Any) -> Block:
    if isinstance(part, str):
        return TextBlock(text=part)
    if isinstance(part, dict) and part.get("content_type") == "image_asset_pointer":
        where = part.get("asset_pointer")
        if isinstance(where, str):
            image = ImageBlock(url=where) if where.startswith("https:") else ImageBlock(file_id=where)
            return keeping(image, API, part, _encode_image(image))
    if (
        isinstance(part, dict)
        and part.get("content_type") == "audio_transcription"
        and isinstance(part.get("text"), str)
    ):
        block = TextBlock(text=part["text"], extra={API: {KIND: "audio_transcription"}})
        return keeping(block, API, part, _encode_transcription(block))
    return OpaqueBlock(dialect=API, value=part)


def _decode_thought(wire: Any) -> Block:
    key = next((key for key in ("content", "text") if isinstance(wire, dict) and isinstance(wire.get(key), str)), None)
    if key is None:
        return OpaqueBlock(dialect=API, value=wire)
    block = ThinkingBlock(thinking=wire[key], extra={API: {KIND: key}} if key != "content" else {})
    return keeping(block, API, wire, {key: block.thinking})


def _encode_transcription(block: TextBlock) -> dict[str, Any]:
    return {"content_type": "audio_transcription", "text": block.text}


def _encode_image(block: ImageBlock) -> dict[str, Any]:
    where = block.url if block.file_id is None else block.file_id
    return {"content_type": "image_asset_pointer", "asset_pointer": where}


# The blocks that a field of a content holds; any other field is a text.
_BLOCKS: dict[str, tuple[type[Block], ...]] = {
    "parts": (TextBlock, ImageBlock, OpaqueBlock),
    "thoughts": (ThinkingBlock, OpaqueBlock),
}


def _encode_content(message: Message, report: Reporter) -> dict[str, Any]:
    hints = message.extra.get(API, {})
    kind = hints.get(KIND, "text")
    blocks = message.content if isinstance(message.content, tuple) else (TextBlock(text=message.content or ""),)
    call = _call_in(message)
    if isinstance(message, ToolResultMessage) and message.is_error != (kind == SYSTEM_ERROR):
        if message.is_error and not all(isinstance(block, TextBlock) for block in blocks):
            report.lost("is_error", "an error is a text alone", "weakened", field="isError")
        else:
            kind, hints = SYSTEM_ERROR if message.is_error else "text", {}
    is_context = kind == "user_editable_context"
    field = hints.get(FIELD, _CONTEXT if is_context else _FIELDS.get(kind or "", "parts"))
    known = _BLOCKS.get("parts" if is_context else field, (TextBlock,))

    def encode(block: Block, report: Reporter) -> Any:
        if block is call or (call is None and isinstance(block, known)):
            return _encode_part(block, report)
        where = "beside a call" if call is not None else f"in a content of the kind {kind!r}"
        report.lost(type(block).__name__, f"the format has no place for it {where}")
        return None

    parts = encode_blocks(blocks, encode, report, API)
    named = {} if kind is None else {"content_type": kind}
    if is_context:
        if len(parts) > len(field):
            report.lost("content", f"the format has {len(field)} texts of this kind", field="content")
        return {**named, **dict(zip(field, parts, strict=False))}
    if field in _BLOCKS:
        return {**named, field: parts}
    return {**named, field: "".join(part for part in parts if isinstance(part, str))}


def _call_in(message: Message) -> ToolCall | None:
    """The call that a message is, if it does not begin with a text: a node holds one or the other."""
    blocks = blocks_of(message.content) if isinstance(message, AssistantMessage) else ()
    first = next((block for block in blocks if isinstance(block, TextBlock | ToolCall)), None)
    return first if isinstance(first, ToolCall) else None


def _encode_part(block: Block, report: Reporter) -> Any:
    match block:
        case TextBlock() if block.extra.get(API, {}).get(KIND) == "audio_transcription":
            return restored(_encode_transcription(block), block.extra, API)
        case TextBlock():
            return block.text
        case ThinkingBlock():
            key = block.extra.get(API, {}).get(KIND, "content")
            return restored({key: block.thinking}, block.extra, API)
        case ImageBlock() if block.file_id is not None or block.url is not None:
            return restored(_encode_image(block), block.extra, API)
        case ToolCall():
            is_input = set(block.arguments) == {INPUT} and isinstance(block.arguments[INPUT], str)
            plain = is_input and block.extra.get(API, {}).get(KIND) == INPUT and not _is_json(block.arguments[INPUT])
            return block.arguments[INPUT] if plain else arguments_text(block)
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            report.lost(type(block).__name__, "the format has text, thoughts, pictures that were uploaded, and calls")
            return None


# --- nodes -----------------------------------------------------------------------------------------------------------


class _Nodes:
    """Reads nodes, and knows which call of a tool came last on the way to each."""

    def __init__(self, parents: Mapping[str, str | None]) -> None:
        self._parents = parents
        self.calls: dict[str, dict[str, str]] = {}  # node -> tool name -> id of the call; "" is the last of them

    def usual(self, node: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        found = _usual(node)
        if found is not None:
            self._pass_calls(node)
        return found

    def _pass_calls(self, node: dict[str, Any]) -> dict[str, str]:
        """The calls on the way to a node, which are those on the way to what follows it."""
        parent = self._parents.get(node.get("id", ""))
        known = self.calls.get(parent, {}) if isinstance(parent, str) else {}
        if isinstance(node.get("id"), str):
            self.calls[node["id"]] = known
        return known

    def decode(self, node: dict[str, Any]) -> list[Any]:
        known = self._pass_calls(node)
        wire = node.get("message")
        if not isinstance(wire, dict):
            return []
        message = self._decode_message(node, wire, known)
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            self.calls[node["id"]] = {**known, call.name: call.id, "": call.id}
        return [message]

    def _decode_message(self, node: dict[str, Any], wire: dict[str, Any], known: dict[str, str]) -> Any:
        role, content = wire["author"]["role"], wire["content"]
        blocks = _decode_content(content)
        created = number(wire.get("create_time"))
        moment = None if created is None or abs(created) > LATEST else round(created * 1000)
        fields: dict[str, Any] = {"timestamp": moment or milliseconds(wire.get("create_time"))}
        kind = optional(content.get("content_type"))
        hints: dict[str, Any] = {} if kind == "text" else {KIND: kind}
        if kind == "user_editable_context":
            hints[FIELD] = [field for field in _CONTEXT if field in content]
        elif _field_of(content) != _FIELDS.get(kind or "", "parts"):
            hints[FIELD] = _field_of(content)
        if hints:
            fields["extra"] = {API: hints}
        metadata = wire["metadata"] if isinstance(wire.get("metadata"), dict) else {}
        if role == "user":
            hidden = metadata.get("is_visually_hidden_from_conversation") is True or kind == "user_editable_context"
            return UserMessage(content=blocks, origin="program" if hidden else None, **fields)
        if role == "system":
            return SystemMessage(content=blocks, **fields)
        if role == "tool":
            name = optional(wire["author"].get("name"))
            # A tool answers under its own name where it was called by one of its functions.
            related = (known[key] for key in reversed(known) if key.split(".")[0] == (name or "").split(".")[0])
            call = known.get(name or "") or next(related, known.get(""))
            return ToolResultMessage(
                tool_call_id=call or string(node["id"]),
                tool_name=name,
                content=blocks,
                is_error=kind == SYSTEM_ERROR,
                **fields,
            )
        if role != "assistant":
            raise ValueError(f"unknown role {role!r}")
        tool = wire.get("recipient")
        if isinstance(tool, str) and tool != "all" and len(blocks) == 1 and isinstance(blocks[0], TextBlock):
            blocks = (_call(string(node["id"]), tool, blocks[0].text),)
        slug, stopped = optional(metadata.get("model_slug")), _stop_reason(metadata)
        return AssistantMessage(content=blocks, model=slug, stop_reason=stopped, **fields)


def _stop_reason(metadata: dict[str, Any]) -> StopReason | None:
    """`length`; an answer that the person interrupted is sent on as it is, and so not called aborted."""
    details = metadata.get("finish_details")
    return "length" if isinstance(details, dict) and details.get("type") == "max_tokens" else None


# Nearly all nodes are a text of a person or of a model, with nothing unusual in it. They are read without encoding them
# again to see what that gets wrong, which takes most of the time.
_NODES = Shapes(("id", "parent", "message"))
_MESSAGES = Shapes(("author", "content", "create_time", "recipient"), ("metadata",))
_AUTHORS = Shapes(("role",))
_CONTENTS = Shapes(("content_type", "parts"))
_METADATA = Shapes((), ("model_slug",), ("is_visually_hidden_from_conversation",))


def _usual(node: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """The message of a usual node, and the other fields of the node; None for any other node."""
    beside, wire = _NODES[tuple(node)], node.get("message")
    if beside is None or type(wire) is not dict or not (node["parent"] is None or type(node["parent"]) is str):
        return None
    others, author, content = _MESSAGES[tuple(wire)], wire.get("author"), wire.get("content")
    if others is None or type(author) is not dict or type(content) is not dict or wire["recipient"] != "all":
        return None
    metadata, created = wire.get("metadata", {}), wire["create_time"]
    if type(metadata) is not dict or type(created) is not float or not 1 <= created < LATEST:
        return None
    names, details = _AUTHORS[tuple(author)], _METADATA[tuple(metadata)]
    if names is None or details is None or _CONTENTS[tuple(content)] != () or content["content_type"] != "text":
        return None
    parts, role, model = content["parts"], author["role"], metadata.get("model_slug")
    if type(parts) is not list or not all(type(part) is str for part in parts):
        return None
    inner: dict[str, Any] = {key: wire[key] for key in others}
    hints: dict[str, Any] = {}
    if names:
        hints["author"] = {"in": {key: author[key] for key in names}}
    moment = round(created * 1000)
    if moment / 1000 != created:
        hints["create_time"] = {ENCODED: moment / 1000, "wire": created}
    blocks = tuple(TextBlock(text=part) for part in parts)
    message: Any
    if role == "user":
        message = UserMessage(content=blocks, timestamp=moment)
    elif role == "assistant" and (type(model) is str or "model_slug" not in metadata):
        message = AssistantMessage(content=blocks, model=model, stop_reason=_stop_reason(metadata), timestamp=moment)
    else:
        return None
    if role == "assistant" and model is not None:
        if details:
            hints["metadata"] = {"in": {key: metadata[key] for key in details}}
    elif "metadata" in wire:
        inner["metadata"] = metadata
    if hints:
        inner["~"] = hints
    rest = {key: node[key] for key in beside}
    return message, {**rest, "~": {"message": {"in": inner}}} if inner else rest


def _is_json(text: str) -> bool:
    """Whether a text would be read as the arguments of a call."""
    return bool(text.strip()) and parse_arguments(text)[2] is None


def _call(id: str, tool: str, message: str) -> ToolCall:
    arguments, text, error = parse_arguments(message)
    if error is None and message.strip():
        return ToolCall(id=id, name=tool, arguments=arguments, arguments_text=text)
    return ToolCall(id=id, name=tool, arguments={INPUT: message}, extra={API: {KIND: INPUT}})


def _encode_node(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    (message,) = messages
    author: dict[str, Any] = {"role": "user"}
    encoded: dict[str, Any] = {"recipient": "all"}
    match message:
        case SystemMessage():
            author = {"role": "system"}
        case ToolResultMessage():
            author = {"role": "tool", "name": message.tool_name}
        case AssistantMessage():
            author = {"role": "assistant"}
            if message.model is not None:
                encoded["metadata"] = {"model_slug": message.model}
            call = _call_in(message)
            if call is not None:
                encoded["recipient"] = call.name
    if message.timestamp is not None:
        encoded["create_time"] = message.timestamp / 1000
    return {"message": {"author": author, "content": _encode_content(message, report), **encoded}}


def _records_of(parents: Mapping[str, str | None] = {}) -> Records:
    nodes = _Nodes(parents)
    return Records(API, nodes.decode, _encode_node, keys=("id", "parent"), usual=nodes.usual)


# --- conversations ---------------------------------------------------------------------------------------------------


def split(value: Any) -> list[Any] | None:
    """The conversations of a whole export, if that is what the value is."""
    return value if isinstance(value, list) and len(value) > 1 and all(map(_is_conversation, value)) else None


_EXPORT = re.compile(r"(.*/)?conversations(-\d+)?\.json")


def archive(members: Mapping[str, bytes]) -> Iterable[Any] | None:
    """The conversations of a zipped export, which may be divided over several files."""
    names = sorted(filter(_EXPORT.fullmatch, members))
    first = [one for name in names for one in itertools.islice(listed_in(members, name), 1)]
    if not first or not all(map(_is_conversation, first)):
        return None
    return (one for name in names for one in listed_in(members, name))


def _is_conversation(value: Any) -> bool:
    mapping = value.get("mapping") if isinstance(value, dict) else None
    return isinstance(mapping, dict) and all(map(_is_node, mapping.values()))


def _is_node(value: Any) -> bool:
    if not isinstance(value, dict) or not ("message" in value or "children" in value):
        return False
    return not isinstance(value.get("message"), dict) or "fragments" not in value["message"]  # DeepSeek's have these


@reading(API)
def decode(data: Any) -> Conversation:
    """One conversation, or an export that holds but one."""
    body = body_of(data, API)
    alone = isinstance(body, list)
    if alone:
        if len(body) != 1:
            raise BadWire(API, f"an export of {len(body)} conversations: take one of them")
        body = body[0]
    wire = an_object(body, API)
    mapping = an_object(wire.get("mapping"), API, "$.mapping")
    nodes = {key: node for key, node in mapping.items() if _is_named(key, node)}
    return read(_Reader(wire, nodes, FILE_OF_LIST if alone else FILE_OF_ONE), list(nodes.items()))


def _is_named(key: str, node: Any) -> bool:
    """Whether a node is one, under its own id."""
    return isinstance(node, dict) and node.get("id", key) == key


@reading(API)
def listed(header: Any, nodes: ReadAgain) -> SessionStream | None:
    """The same, one entry at a time."""
    alone = isinstance(header, list)
    wire = header[0] if alone else header
    if wire["mapping"] or not all(_is_named(*field) for field in nodes()):
        return None
    return EntryStream(_Reader(wire, {}, FILE_OF_LIST if alone else FILE_OF_ONE), nodes)


class _Reader(Reader):
    """Reads the nodes of a conversation, which is given with these, or without any."""

    def __init__(self, wire: Record, nodes: Record, file: str) -> None:
        self._wire, self._file = wire, file
        self._parents: dict[str, str | None] = {}
        self._places: list[str] | None = None
        self.head = optional(wire.get("current_node"))
        self._rest = residual(wire, {"mapping": nodes, **_encode_about(Conversation(head=self.head))})

    def order(self, records: Iterable[tuple[str, Record]]) -> "array[int] | None":
        self._parents = _parents(records)
        keys, in_order = list(self._parents), _in_order(self._parents)
        if keys == in_order:
            return None
        self._places = keys
        places = {key: at for at, key in enumerate(keys)}
        return array("Q", (places[key] for key in in_order))

    def entries(self, records: Iterable[tuple[str, Record]]) -> Iterator[Entry]:
        reading, named = _records_of(self._parents), optional(self._wire.get("default_model_slug"))
        last: str | None = None
        for key, node in records:
            (entry,) = reading.read({**node, "id": key}, "node")
            if isinstance(entry.message, AssistantMessage):
                last = entry.message.model or last
            entry = place(entry, self._parents[key], API)
            yield entry if "id" in node else with_residual(entry, API, **{NAMELESS: True})
        model, places = named or last, {} if self._places is None else {PLACES: self._places}
        self.about = Conversation(
            model=ModelDescriptor(id=model, provider="openai") if model else None,
            title=optional(self._wire.get("title")),
            extra={API: {FILE: self._file, **places, **self._rest}},
        )


def _encode_about(conversation: Conversation) -> dict[str, Any]:
    return {} if conversation.head is None else {"current_node": conversation.head}


def _parents(nodes: Iterable[tuple[str, Record]]) -> dict[str, str | None]:
    """The parent of each node, which some exports state only as children of the other."""
    above: dict[str, str] = {}
    parents: dict[str, str | None] = {}
    for key, node in nodes:
        above.update((child, key) for child in node.get("children") or () if isinstance(child, str))
        parents[key] = optional(node.get("parent"))
    parents = {key: parent or above.get(key) for key, parent in parents.items()}
    return {key: parent if parent in parents else None for key, parent in parents.items()}


def _in_order(nodes: dict[str, str | None]) -> list[str]:
    """The nodes with parents before their children; otherwise as they stand."""
    out: dict[str, None] = {}
    for start in nodes:
        chain: dict[str, None] = {}
        key: Any = start
        while isinstance(key, str) and key in nodes and key not in out and key not in chain:
            chain[key] = None
            key = nodes[key]
        out.update(dict.fromkeys(reversed(chain)))
    return list(out)


def encode(conversation: Conversation) -> Encoded:
    """The conversation that was read."""
    extra_fields = conversation.extra.get(API, {})
    if FILE not in extra_fields:
        raise Unsupported(API, f"a conversation of this format {_records.WHY}")
    records, losses = _records_of().write(replace(conversation, entries=tuple(apart(conversation.entries, API))))
    nodes = {record["id"]: record for record in records}
    for entry, record in zip(conversation.entries, records, strict=True):
        if entry.extra[API].get(NAMELESS):
            del record["id"]
    order = [key for key in extra_fields.get(PLACES, ()) if key in nodes]
    mapping = {key: nodes[key] for key in (*order, *(key for key in nodes if key not in order))}
    body = put_back({"mapping": mapping, **_encode_about(conversation)}, extra_fields)
    return Encoded([body] if extra_fields[FILE] == FILE_OF_LIST else body, tuple(losses))


def detect(value: Any) -> str | None:
    """Whether a document is a conversation of an export, or a whole export."""
    values = value if isinstance(value, list) else [value]
    found = values and all(map(_is_conversation, values))
    return "a `mapping` of nodes with `message` and `children`" if found else None


FORMAT = FileFormat(
    name="chatgpt-export",
    codec=sys.modules[__name__],
    detect=detect,
    split=split,
    archive=archive,
    writable=False,
    listed=ListedSession((), listed, nodes=("mapping", ".mapping")),
)
