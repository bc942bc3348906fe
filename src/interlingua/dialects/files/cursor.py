"""Cursor: the lines of an agent's transcript, and the chats in its databases `state.vscdb` and `store.db`.

A line has a `role` and a `message` whose `content` is text or blocks in Anthropic's style; results of tools stand in
lines of the user. In the database a chat is `composerData:ID` with its messages beside it, one `bubbleId:ID:BUBBLE`
each; a bubble of type 1 is the person's, of type 2 the model's, and a call stands in its bubble with its result. A
document of the database is `{"composer": …, "bubbles": […]}`, which is also what a chat goes back to.

The command line writes one `store.db` per chat (`~/.cursor/chats/WORKSPACE/CHAT/store.db`): `meta` has the chat's name,
model and `latestRootBlobId`, as JSON in hexadecimal; `blobs` has values by their hash. The root is a Protocol Buffers
message whose field 1 is the hash of each message, in order; a message is JSON as in Vercel's AI SDK. The document is
`{"agent": …, "messages": […]}`.
"""

import itertools
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire
from ...values.messages import (
    Block,
    ImageBlock,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    text_of,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from ..codec import USER
from ..residual import fields_of, list_of, optional, reading
from ..wire import ListedSession, SessionStream
from . import templates
from .line_sessions import ReadAgain, Reader, Record, RowReader, TemplateStream, read
from .reading import Pairing, anthropic_items, asked, document_of, kept_record, plain_usage, read_json, rounds, seconds
from .records import lines_of, milliseconds

API = "cursor"

PERSON, MODEL = 1, 2  # kinds of bubbles


# --- lines -----------------------------------------------------------------------------------------------------------


def _line_messages(line: dict[str, Any], pairs: Pairing) -> list[Any]:
    message, when = fields_of(line.get("message")), _moment(line)
    role = line.get("role") or message.get("role")
    if role not in ("user", "assistant"):
        return [kept_record(API, str(role or line.get("type") or "line"), line)]
    content = message.get("content")
    if isinstance(content, str) and role == "user":
        return [replace(USER, extra={}, content=content, timestamp=when)]
    items = anthropic_items(content, API, pairs, when)
    if role == "user":
        return asked(items, timestamp=when)
    return rounds(items, timestamp=when, model=optional(message.get("model")) or optional(line.get("model")))


class _LineReader(Reader):
    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        pairs = Pairing()
        return (Entry(message=message) for line in records for message in _line_messages(line, pairs))


def _moment(record: dict[str, Any]) -> int | None:
    for key in ("timestamp", "createdAt"):
        found = milliseconds(record.get(key)) if isinstance(record.get(key), str) else seconds(record.get(key))
        if found is not None:
            return found
    return None


# --- the database ----------------------------------------------------------------------------------------------------


def _bubble_messages(bubble: dict[str, Any], pairs: Pairing, model: str | None) -> list[Any]:
    when = _moment(bubble) or _moment(fields_of(bubble.get("timingInfo")))
    text = optional(bubble.get("text")) or ""
    if bubble.get("type") == PERSON:
        return [replace(USER, extra={}, content=(*_pictures(bubble), TextBlock(text=text)), timestamp=when)]
    if bubble.get("type") != MODEL:
        return [kept_record(API, "bubble", bubble)]
    items: list[Any] = []
    for thought in (bubble.get("thinking"), *list_of(bubble.get("allThinkingBlocks"))):
        given = thought.get("text") if isinstance(thought, dict) else thought
        if isinstance(given, str) and given:
            items.append(
                ThinkingBlock(thinking=given, thinking_signature=optional(fields_of(thought).get("signature")))
            )
    if text:
        items.append(TextBlock(text=text))
    items += _tool(fields_of(bubble.get("toolFormerData")), pairs, when)
    counts, about = fields_of(bubble.get("tokenCount")), fields_of(bubble.get("modelInfo"))
    model = optional(bubble.get("modelType")) or optional(about.get("modelName")) or model
    usage = plain_usage(counts.get("inputTokens"), counts.get("outputTokens"))
    return rounds(items, {"usage": usage}, timestamp=when, model=model)


def _tool(data: dict[str, Any], pairs: Pairing, when: int | None) -> Iterator[Any]:
    if not isinstance(data.get("name"), str):
        return
    given = data.get("rawArgs") if data.get("rawArgs") else data.get("params")
    yield pairs.call(data.get("toolCallId"), data["name"], given)
    result = data.get("result")
    if isinstance(result, str) or data.get("status") in ("completed", "error", "cancelled"):
        content = result if isinstance(result, str) else None
        yield pairs.result(data.get("toolCallId"), data["name"], content, data.get("status") == "error", timestamp=when)


def _pictures(bubble: dict[str, Any]) -> Iterator[Block]:
    for image in list_of(bubble.get("images")):
        if isinstance(image, dict) and isinstance(image.get("data"), str):
            yield ImageBlock(data=image["data"], mime_type=optional(image.get("mimeType")) or "image/png")
        elif isinstance(image, dict) and isinstance(image.get("path"), str):
            yield ImageBlock(file_id=image["path"])


class _ChatReader(Reader):
    """Reads the bubbles of a chat, which is given with or without them."""

    def __init__(self, body: Record) -> None:
        composer = fields_of(body.get("composer"))
        self._model = model = optional(fields_of(composer.get("modelConfig")).get("modelName"))
        title = optional(composer.get("name"))
        self.about = Conversation(title=title, model=ModelDescriptor(id=model) if model else None)

    def entries(self, records: Iterable[Any]) -> Iterator[Entry]:
        pairs, bubbles = Pairing(), (record for record in records if isinstance(record, dict))
        return (Entry(message=one) for bubble in bubbles for one in _bubble_messages(bubble, pairs, self._model))


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The chat of a `store.db`; or those of a `state.vscdb`: composers, and the panel's tabs of old versions."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    stored = _stored_chat(connection) if {"blobs", "meta"} <= tables else None
    if stored is not None:
        return stored
    if tables.isdisjoint({"cursorDiskKV", "ItemTable"}):
        return None
    tabs = _tabs(connection) if "ItemTable" in tables else iter(())
    if "cursorDiskKV" in tables:
        return itertools.chain(_composers(connection), tabs)
    first = next(tabs, None)  # VS Code has this table, too
    return None if first is None else itertools.chain([first], tabs)


def _composers(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    rows = "SELECT key, value FROM cursorDiskKV WHERE key >= ? AND key < ? ORDER BY rowid"
    # Databases of 1 GB are common: only the keys are in memory, and one chat.
    keys = "SELECT rowid, key FROM cursorDiskKV WHERE key >= ? AND key < ? ORDER BY rowid"
    for row, key in connection.execute(keys, ("composerData:", "composerData;")).fetchall():
        (value,) = connection.execute("SELECT value FROM cursorDiskKV WHERE rowid = ?", (row,)).fetchone()
        composer = read_json(value)
        if not isinstance(composer, dict):
            continue
        id = key.partition(":")[2]
        stored = {
            name.rpartition(":")[2]: bubble
            for name, text in connection.execute(rows, (f"bubbleId:{id}:", f"bubbleId:{id};"))
            if isinstance(bubble := read_json(text), dict)
        }
        headers = list_of(composer.get("fullConversationHeadersOnly"))
        order = [header["bubbleId"] for header in headers if isinstance(header, dict) and "bubbleId" in header]
        bubbles = [stored[name] for name in order if name in stored] if headers else list(stored.values())
        bubbles = bubbles or [item for item in list_of(composer.get("conversation")) if isinstance(item, dict)]
        if bubbles:
            yield {"composer": {"composerId": id, **composer}, "bubbles": bubbles}


def _tabs(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    rows = connection.execute(
        "SELECT value FROM ItemTable WHERE key LIKE 'workbench.panel.aichat.view.aichat.chatdata%'"
    )
    for (value,) in rows:
        for tab in list_of(fields_of(read_json(value)).get("tabs")):
            bubbles = [
                {**bubble, "type": PERSON if bubble.get("type") == "user" else MODEL}
                for bubble in list_of(fields_of(tab).get("bubbles"))
                if isinstance(bubble, dict)
            ]
            if bubbles:
                yield {"composer": {"name": tab.get("chatTitle"), "composerId": tab.get("tabId")}, "bubbles": bubbles}


# --- the database of the command line --------------------------------------------------------------------------------

_ID = 32  # bytes of a hash
_MESSAGES = 1  # the field of the root with the hashes of the messages
MAX_CHAT = 256 * 1024 * 1024  # bytes of all messages, repeated ones too


def _stored_chat(connection: sqlite3.Connection) -> list[Any] | None:
    """The chat of a `store.db`; None if it is a database of another program."""
    agent = next(filter(_is_agent, map(_from_hex, connection.execute("SELECT value FROM meta"))), None)
    if agent is None:
        return None
    if not agent["latestRootBlobId"]:
        return []  # nothing was asked yet
    root = _blob(connection, agent["latestRootBlobId"])
    if root is None:
        raise BadWire(API, "the root of the chat is missing; copy `store.db-wal` with `store.db`")
    messages = _stored_blobs(connection, root)
    return [{"agent": agent, "messages": [message for message in messages if isinstance(message, dict)]}]


def _stored_blobs(connection: sqlite3.Connection, root: bytes) -> list[Any]:
    """The messages by their hashes, of which the same one may be named many times."""
    found: dict[bytes, tuple[Any, int]] = {}
    messages, size = [], 0
    for id in _hashes(root):
        if id not in found:
            data = _blob(connection, id.hex())
            found[id] = read_json(data), len(data or b"")
        message, length = found[id]
        size += length
        if size > MAX_CHAT:
            raise BadWire(API, f"the chat has more than {MAX_CHAT:,} bytes")
        messages.append(message)
    return messages


def _from_hex(row: tuple[Any, ...]) -> Any:
    try:
        return read_json(bytes.fromhex(row[0]))
    except (TypeError, ValueError):
        return None


def _is_agent(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("latestRootBlobId"), str)


def _blob(connection: sqlite3.Connection, id: str) -> bytes | None:
    found = connection.execute("SELECT data FROM blobs WHERE id = ?", (id,)).fetchone()
    data = found[0] if found is not None else None
    return data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else None


def _hashes(root: bytes) -> Iterator[bytes]:
    """The hashes of the messages. protobuf.dev/programming-guides/encoding: a key and a value for each field."""
    at = 0
    while at < len(root):
        key, at = _varint(root, at)
        field, kind = key >> 3, key & 7
        if kind == 2:  # bytes, with their length
            length, at = _varint(root, at)
            if field == _MESSAGES and length == _ID:
                yield root[at : at + length]
            at += length
        elif kind == 0:
            _, at = _varint(root, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise BadWire(API, f"unknown kind {kind} of a field in the root of the chat")
    if at > len(root):
        raise BadWire(API, "the root of the chat is cut off")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to 64 bits, and where it ends."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte, at = data[at], at + 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise BadWire(API, "an unterminated number in the root of the chat")


class _StoredReader(RowReader):
    """Reads the messages of a chat, which is given with or without them."""

    def __init__(self, body: Record) -> None:
        agent = fields_of(body["agent"])
        self.fields = {"title": agent.get("name"), "model": optional(agent.get("lastUsedModel"))}

    def messages(self, records: Iterable[Any]) -> Iterator[Any]:
        pairs, given = Pairing(), (record for record in records if isinstance(record, dict))
        self.fields["system"] = None
        for at, message in enumerate(given):
            if not at and message.get("role") == "system":
                self.fields["system"] = text_of(_stored_text(message.get("content")))
            else:
                yield from _stored_messages(message, pairs)


def _stored_messages(message: dict[str, Any], pairs: Pairing) -> list[Any]:
    role, content = message.get("role"), message.get("content")
    if role == "user":
        blocks = _stored_text(content)
        text = text_of(blocks)
        # The first message describes the computer; what a person asks is in `user_query`.
        is_context = text.lstrip().startswith(_CONTEXT) and "<user_query>" not in text
        return [replace(USER, extra={}, content=blocks, origin="program" if is_context else None)]
    if role == "system":
        return [SystemMessage(content=_stored_text(content))]
    if role not in ("assistant", "tool"):
        return [kept_record(API, str(role), message)]
    items: list[Any] = []
    models = [_model_of(message)]
    for item in [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content):
        items += _stored_item(fields_of(item), pairs)
        models.append(_model_of(fields_of(item)))
    if role == "tool":
        return asked(items)
    return rounds(items, model=next(filter(None, models), None))


_CONTEXT = ("<user_info>", "<system_reminder>", "<rules>", "<git_status>", "<open_and_recently_viewed_files>")


def _model_of(value: dict[str, Any]) -> str | None:
    return optional(fields_of(fields_of(value.get("providerOptions")).get("cursor")).get("modelName"))


def _stored_item(item: dict[str, Any], pairs: Pairing) -> Iterator[Any]:
    match item.get("type"):
        case "reasoning":
            text, signature = optional(item.get("text")) or "", optional(item.get("signature"))
            yield ThinkingBlock(thinking=text, thinking_signature=signature or None)
        case "redacted-reasoning":
            yield ThinkingBlock(thinking="", thinking_signature=optional(item.get("data")), redacted=True)
        case "tool-call":
            yield pairs.call(item.get("toolCallId"), item.get("toolName"), item.get("args", item.get("input")))
        case "tool-result":
            given = item.get("result", item.get("output"))
            content = given if isinstance(given, str | None) else jsontext.compact(given)
            yield pairs.result(item.get("toolCallId"), item.get("toolName"), content, item.get("isError"))
        case _:
            yield from _stored_text([item])


def _stored_text(content: Any) -> tuple[Block, ...]:
    """Texts and pictures; what else there is stays as it is."""
    if isinstance(content, str):
        return (TextBlock(text=content),)
    blocks: list[Block] = []
    for item in list_of(content):
        fields = fields_of(item)
        if fields.get("type") == "text" and isinstance(fields.get("text"), str):
            blocks.append(TextBlock(text=fields["text"]))
        elif fields.get("type") == "image" and isinstance(fields.get("image"), str):
            mime = optional(fields.get("mimeType")) or optional(fields.get("mediaType")) or "image/png"
            blocks.append(ImageBlock(data=fields["image"], mime_type=mime))
        else:
            blocks.append(OpaqueBlock(dialect=API, value=item))
    return tuple(blocks)


# --- files -----------------------------------------------------------------------------------------------------------


@reading(API)
def decode(data: Any) -> Conversation:
    """The lines of a transcript, or a chat of the database."""
    body = document_of(data, API)
    if isinstance(body, dict) and "bubbles" in body:
        return templates.keep(read(_ChatReader(body), list_of(body["bubbles"])), body, API)
    if _is_stored(body):
        return templates.keep(read(_StoredReader(body), body["messages"]), body, API)
    lines = lines_of(body, API)
    return templates.keep(read(_LineReader(), lines), lines, API, lines=True)


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """The lines of a transcript, one entry at a time."""
    return TemplateStream(_LineReader(), lines, API)


@reading(API)
def listed(header: Record, records: ReadAgain) -> SessionStream | None:
    """A chat of the database, one entry at a time."""
    if isinstance(header.get("bubbles"), list):
        return TemplateStream(_ChatReader(header), records, API, "bubbles", header)
    is_own = "bubbles" not in header and _is_stored(header)
    return TemplateStream(_StoredReader(header), records, API, "messages", header) if is_own else None


def _is_stored(value: Any) -> bool:
    return isinstance(value, dict) and _is_agent(value.get("agent")) and isinstance(value.get("messages"), list)


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("role") not in ("user", "assistant"):
        return False
    message = value.get("message")
    return isinstance(message, dict) and isinstance(message.get("content"), str | list) and "type" not in value


def _is_event(value: Any) -> bool:
    """A line about the run, such as `turn_ended`."""
    return (
        isinstance(value, dict) and isinstance(value.get("type"), str) and value.keys().isdisjoint(("role", "message"))
    )


def detect(value: Any) -> str | None:
    """Whether a document is a transcript: lines with the role beside the message."""
    if isinstance(value, dict) and isinstance(value.get("bubbles"), list) and isinstance(value.get("composer"), dict):
        return "`bubbles` beside a `composer`"
    if _is_stored(value):
        return "`messages` beside an `agent` with a `latestRootBlobId`"
    lines = [value] if isinstance(value, dict) else value
    if isinstance(lines, list) and any(map(_is_line, lines)) and all(_is_line(one) or _is_event(one) for one in lines):
        return "lines of a `role` and a `message` with `content`"
    return None


FORMAT = templates.file_format(
    API,
    decode,
    detect=detect,
    database=database,
    lines=True,
    rank=30,
    stream=stream,
    listed=ListedSession(("bubbles", "messages"), listed),
)
