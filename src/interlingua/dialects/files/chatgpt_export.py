"""One conversation of a ChatGPT export: a `mapping` of nodes, each with a message, its parent and its children.

The export (`conversations.json`) is a list of these; `split` takes it apart. A node is an entry under its own id, the
conversation stands at `current_node`. A message of the assistant to a `recipient` other than all is a call of that
tool, and messages of the role `tool` are what it gave; neither has an id of its own, so the call's node lends its id.
Nodes without a message, and messages of other kinds, are kept in their places as messages of their own role.
"""

import sys
from typing import Any

from ...values.errors import BadWire, Unsupported
from ...values.folding import arguments_text, parse_arguments
from ...values.losses import Encoded, Reporter, SupportTable
from ...values.messages import (
    AssistantMessage,
    Block,
    ImageBlock,
    Message,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import (
    an_object,
    body_of,
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
from ..wire import FileFormat
from . import records as _records
from .records import FILE, Records, is_null

API = "chatgpt-export"
RETURNED = True  # read and returned, not made from other formats

KIND = "~kind"  # of a message: its content type, where that is not `text`
NAMELESS = "~nameless"  # of an entry: its node stands under its id and does not repeat it
PLACES = "~places"  # of a conversation: the order of the nodes, where children stand before their parents
INPUT = "input"  # the one argument of a call whose words are no JSON object
LATEST = 10**11  # seconds; what is later is no time

FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


# --- content ---------------------------------------------------------------------------------------------------------


def _decode_content(content: dict[str, Any]) -> tuple[Block, ...]:
    """The parts of a content, whichever of its kinds it is."""
    kind = string(content["content_type"])
    if kind in ("text", "multimodal_text"):
        return tuple(map(_decode_part, content["parts"]))
    if kind in ("code", "execution_output", "tether_quote", "system_error"):
        return (TextBlock(text=string(content["text"])),)
    if kind == "thoughts":
        return tuple(map(_decode_thought, content["thoughts"]))
    if kind == "reasoning_recap":
        return (ThinkingBlock(thinking=string(content["content"])),)
    raise ValueError(f"unknown content_type {kind!r}")


def _decode_part(part: Any) -> Block:
    if isinstance(part, str):
        return TextBlock(text=part)
    if isinstance(part, dict) and part.get("content_type") == "image_asset_pointer":
        where = part.get("asset_pointer")
        if isinstance(where, str):
            image = ImageBlock(url=where) if where.startswith("https:") else ImageBlock(file_id=where)
            return keeping(image, API, part, _say_image(image))
    return OpaqueBlock(dialect=API, value=part)


def _decode_thought(wire: Any) -> Block:
    if not isinstance(wire, dict) or not isinstance(wire.get("content"), str):
        return OpaqueBlock(dialect=API, value=wire)
    block = ThinkingBlock(thinking=wire["content"])
    return keeping(block, API, wire, {"content": block.thinking})


def _say_image(block: ImageBlock) -> dict[str, Any]:
    where = block.url if block.file_id is None else block.file_id
    return {"content_type": "image_asset_pointer", "asset_pointer": where}


def _say_content(message: Message, report: Reporter) -> dict[str, Any]:
    kind = message.extra.get(API, {}).get(KIND, "text")
    blocks = message.content if isinstance(message.content, tuple) else (TextBlock(text=message.content or ""),)
    parts = []
    for at, block in enumerate(blocks):
        report.block = at
        part = _say_part(block, report)
        if part is not None or is_null(block, API):
            parts.append(part)
    report.block = None
    if kind in ("text", "multimodal_text"):
        return {"content_type": kind, "parts": parts}
    if kind == "thoughts":
        return {"content_type": kind, "thoughts": parts}
    text = "".join(part["content"] if isinstance(part, dict) else part for part in parts)
    return {"content_type": kind, "content" if kind == "reasoning_recap" else "text": text}


def _say_part(block: Block, report: Reporter) -> Any:
    match block:
        case TextBlock():
            return block.text
        case ThinkingBlock():
            return restored({"content": block.thinking}, block.extra, API)
        case ImageBlock() if block.file_id is not None or block.url is not None:
            return restored(_say_image(block), block.extra, API)
        case ToolCall():
            spoken = set(block.arguments) == {INPUT} and isinstance(block.arguments[INPUT], str)
            plain = spoken and block.extra.get(API, {}).get(KIND) == INPUT
            return block.arguments[INPUT] if plain else arguments_text(block)
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            report.lost(type(block).__name__, "the format has text, thoughts, pictures that were uploaded, and calls")
            return None


# --- nodes -----------------------------------------------------------------------------------------------------------


class _Nodes:
    """Reads nodes, and knows which call of a tool came last on the way to each."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[str, str]] = {}  # node -> tool name -> id of the call

    def decode(self, node: dict[str, Any]) -> list[Any]:
        parent = node.get("parent")
        known = self.calls.get(parent, {}) if isinstance(parent, str) else {}
        if isinstance(node.get("id"), str):
            self.calls[node["id"]] = known
        wire = node.get("message")
        if not isinstance(wire, dict):
            return []
        message = self._decode_message(node, wire, known)
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            self.calls[node["id"]] = {**known, call.name: call.id}
        return [message]

    def _decode_message(self, node: dict[str, Any], wire: dict[str, Any], known: dict[str, str]) -> Any:
        role, content = wire["author"]["role"], wire["content"]
        blocks = _decode_content(content)
        created = number(wire.get("create_time"))
        moment = None if created is None or abs(created) > LATEST else round(created * 1000)
        fields: dict[str, Any] = {"timestamp": moment}
        if content["content_type"] != "text":
            fields["extra"] = {API: {KIND: content["content_type"]}}
        if role == "user":
            return UserMessage(content=blocks, **fields)
        if role == "system":
            return SystemMessage(content=blocks, **fields)
        if role == "tool":
            name = optional(wire["author"].get("name"))
            # A tool answers under its own name where it was called by one of its functions.
            call = known.get(name or "") or next((known[key] for key in known if key.split(".")[0] == name), None)
            return ToolResultMessage(
                tool_call_id=call or string(node["id"]), tool_name=name, content=blocks, is_error=False, **fields
            )
        if role != "assistant":
            raise ValueError(f"unknown role {role!r}")
        tool = wire.get("recipient")
        if isinstance(tool, str) and tool != "all" and len(blocks) == 1 and isinstance(blocks[0], TextBlock):
            blocks = (_call(string(node["id"]), tool, blocks[0].text),)
        metadata = wire.get("metadata")
        model = optional(metadata.get("model_slug")) if isinstance(metadata, dict) else None
        return AssistantMessage(content=blocks, model=model, **fields)


def _call(id: str, tool: str, message: str) -> ToolCall:
    arguments, text, error = parse_arguments(message)
    if error is None and message.strip():
        return ToolCall(id=id, name=tool, arguments=arguments, arguments_text=text)
    return ToolCall(id=id, name=tool, arguments={INPUT: message}, extra={API: {KIND: INPUT}})


def _say_node(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
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
            if message.tool_calls:
                encoded["recipient"] = message.tool_calls[0].name
    if message.timestamp is not None:
        encoded["create_time"] = message.timestamp / 1000
    return {"message": {"author": author, "content": _say_content(message, report), **encoded}}


def _records_of() -> Records:
    return Records(API, _Nodes().decode, _say_node, keys=("id", "parent"))


# --- conversations ---------------------------------------------------------------------------------------------------


def split(value: Any) -> list[Any] | None:
    """The conversations of a whole export, if that is what the value is."""
    if isinstance(value, list) and value and all(map(_is_conversation, value)):
        return value
    return None


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
    records = _records_of()
    entries: list[Entry] = []
    nodes = {key: node for key, node in mapping.items() if isinstance(node, dict) and node.get("id", key) == key}
    for key in _in_order(nodes):
        (entry,) = records.read({**nodes[key], "id": key}, "node")
        entries.append(entry if "id" in nodes[key] else with_residual(entry, API, **{NAMELESS: True}))
    head = optional(wire.get("current_node"))
    conversation = Conversation(entries=tuple(entries), head=head, model=_model(wire, entries))
    extra_fields = residual(wire, {"mapping": nodes, **_say_about(conversation)})
    places = {PLACES: list(nodes)} if [entry.id for entry in entries] != list(nodes) else {}
    return Conversation(
        entries=conversation.entries,
        head=head,
        model=conversation.model,
        extra={API: {FILE: "list" if alone else "one", **places, **extra_fields}},
    )


def _model(wire: dict[str, Any], entries: list[Entry]) -> ModelDescriptor | None:
    given = optional(wire.get("default_model_slug"))
    models = [entry.message.model for entry in entries if isinstance(entry.message, AssistantMessage)]
    named = given or next((model for model in reversed(models) if model), None)
    return ModelDescriptor(id=named, provider="openai") if named else None


def _say_about(conversation: Conversation) -> dict[str, Any]:
    return {} if conversation.head is None else {"current_node": conversation.head}


def _in_order(nodes: dict[str, Any]) -> list[str]:
    """The nodes with parents before their children; otherwise as they stand."""
    out: dict[str, None] = {}
    for start in nodes:
        chain: dict[str, None] = {}
        key: Any = start
        while isinstance(key, str) and key in nodes and key not in out and key not in chain:
            chain[key] = None
            key = nodes[key].get("parent")
        out.update(dict.fromkeys(reversed(chain)))
    return list(out)


def encode(conversation: Conversation) -> Encoded:
    """The conversation that was read."""
    extra_fields = conversation.extra.get(API, {})
    if FILE not in extra_fields:
        raise Unsupported(API, f"a conversation of this format {_records.WHY}")
    records, losses = _records_of().write(conversation)
    nodes = {record["id"]: record for record in records}
    for entry, record in zip(conversation.entries, records, strict=True):
        if entry.extra[API].get(NAMELESS):
            del record["id"]
    order = [key for key in extra_fields.get(PLACES, ()) if key in nodes]
    mapping = {key: nodes[key] for key in (*order, *(key for key in nodes if key not in order))}
    body = put_back({"mapping": mapping, **_say_about(conversation)}, extra_fields)
    return Encoded([body] if extra_fields[FILE] == "list" else body, tuple(losses))


def detect(value: Any) -> str | None:
    """Whether a document is a conversation of an export, or a whole export."""
    found = split(value if isinstance(value, list) else [value])
    return "a `mapping` of nodes with `message` and `children`" if found else None


FORMAT = FileFormat(name="chatgpt-export", codec=sys.modules[__name__], detect=detect, split=split, writable=False)
