"""A conversation of claude.ai, as its data export has it: `chat_messages` of `sender` human and assistant.

The export is a zip whose `conversations.json` is a list of these. `content` blocks are newer than `text`, which counts
where the blocks have none. An answer that used tools has their calls and results among its blocks: it is read as the
several responses that it was. `parent_message_uuid` and `current_leaf_message_uuid` make a tree, where present. Texts
out of attached files are documents beside what the person wrote.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ...values.errors import BadWire
from ...values.messages import Block, DocumentBlock, ImageBlock, TextBlock
from ...values.request import Conversation, ModelDescriptor
from ..residual import body_of, optional, reading
from . import templates
from .reading import Node, Pairing, anthropic_items, asked, ending, entries_of, listed, read_json, rounds
from .records import milliseconds

API = "claude-web-export"


def _nodes(wire: list[Any], model: str | None) -> Iterable[Node]:
    pairs = Pairing()
    before: str | None = None
    # Where no message names a parent, each follows the one before.
    linked = any(isinstance(record, dict) and isinstance(record.get("parent_message_uuid"), str) for record in wire)
    for record in wire:
        if not isinstance(record, dict):  # a null among the messages
            continue
        id = optional(record.get("uuid"))
        parent = optional(record.get("parent_message_uuid")) if linked and "parent_message_uuid" in record else before
        yield id, parent, _messages(record, pairs, model)
        before = id


def _messages(record: dict[str, Any], pairs: Pairing, model: str | None) -> list[Any]:
    when = milliseconds(record.get("created_at"))
    items = anthropic_items(record.get("content"), API, pairs, when)
    text = record.get("text")
    empty = not text and bool(items)  # an answer that ends with a result, say
    if isinstance(text, str) and not empty and not any(isinstance(item, TextBlock) and item.text for item in items):
        items = [item for item in items if not isinstance(item, TextBlock)] + [TextBlock(text=text)]
    if record.get("sender", record.get("role")) in ("human", "user"):  # tools that copy an export write `role`
        return asked([*_attached(record), *items], timestamp=when)
    return rounds(items, timestamp=when, model=optional(record.get("model")) or model)


def _attached(record: dict[str, Any]) -> Iterable[Block]:
    for item in record.get("attachments") or ():
        if isinstance(item, dict) and isinstance(item.get("extracted_content"), str):
            yield DocumentBlock(text=item["extracted_content"], title=optional(item.get("file_name")))
    for item in record.get("files_v2") or record.get("files") or ():
        if isinstance(item, dict) and item.get("file_kind") == "image" and isinstance(item.get("file_uuid"), str):
            yield ImageBlock(file_id=item["file_uuid"])


def _is_conversation(value: Any) -> bool:
    messages = value.get("chat_messages") if isinstance(value, dict) else None
    return isinstance(messages, list) and all(item is None or isinstance(item, dict) for item in messages)


def _listed(value: Any) -> list[Any] | None:
    """The conversations of a list, which may stand in an object under `conversations`."""
    given = value.get("conversations") if isinstance(value, dict) and not _is_conversation(value) else value
    return given if isinstance(given, list) and given and all(map(_is_conversation, given)) else None


def split(value: Any) -> list[Any] | None:
    """The conversations of a whole export, if it holds several."""
    listed = _listed(value)
    return listed if listed is not None and len(listed) > 1 else None


@reading(API)
def decode(data: Any) -> Conversation:
    """Decodes one conversation, single or in a list of one."""
    body = body_of(data, API)
    inside = _listed(body) or [body]
    if len(inside) > 1:
        raise BadWire(API, f"an export of {len(inside)} conversations: take one of them")
    wire = inside[0]
    if not _is_conversation(wire):
        raise BadWire(API, "expected a conversation with `chat_messages`", "$.chat_messages")
    model = optional(wire.get("model")) or None
    entries = entries_of(_nodes(wire["chat_messages"], model))
    title = wire.get("name") if "name" in wire else wire.get("title")
    conversation = Conversation(
        entries=entries,
        head=ending(entries, wire.get("current_leaf_message_uuid")),
        model=ModelDescriptor(id=model, provider="anthropic") if model else None,
        title=optional(title),
    )
    return templates.keep(conversation, body, API)


def detect(value: Any) -> str | None:
    """Whether a document is an export, or one conversation of it."""
    if _is_conversation(value):
        return "a conversation with `chat_messages`"
    if _listed(value) is not None:
        return "a list of conversations with `chat_messages`"
    return None


def archive(members: Mapping[str, bytes]) -> Iterable[Any] | None:
    """The conversations of an export as it is downloaded: `conversations.json`, beside `users.json` and others."""
    for name in members:
        if name.rpartition("/")[2] != "conversations.json":
            continue
        first = next(listed(members, name), None)
        if _is_conversation(first) or (first is None and _is_claudes(members) and read_json(members[name]) == []):
            return listed(members, name)
    return None


def _is_claudes(members: Mapping[str, bytes]) -> bool:
    """ChatGPT's export of no conversation is an empty list as well, beside a `user.json`."""
    return any(name.rpartition("/")[2] in ("users.json", "projects.json") for name in members)


FORMAT = templates.file_format(API, decode, detect=detect, split=split, archive=archive, rank=20)
