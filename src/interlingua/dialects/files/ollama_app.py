"""Ollama's desktop app: the chats of its database (`db.sqlite`), each `{"chat": …, "messages": […]}`.

A message has its `thinking` and `model_name`; calls stand in the table `tool_calls`, pictures and files in
`attachments`. What a tool gave is a message of the role `tool`. github.com/ollama/ollama `app/store/database.go`
"""

import base64
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.messages import DocumentBlock, ImageBlock, Message, UserMessage, blocks_of
from ...values.request import Conversation
from ..residual import fields_of, optional
from .chat_programs import chat, turn
from .program_content import inner, items
from .reading import Documents, Pairing, columns_of, ordered_rows, read_json, rows_of

API = "ollama-app"

_PICTURES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}


def _is_chat(value: Any) -> bool:
    known = "title" in fields_of(inner(value, "chat")) and isinstance(inner(value, "messages"), list)
    return known and all(isinstance(one, dict) and "chat_id" in one and "role" in one for one in value["messages"])


def _messages(records: list[dict[str, Any]]) -> Iterator[Message]:
    pairs = Pairing()
    for record in records:
        named = {**record, "model": record.get("model_name"), "content": optional(record.get("content")) or []}
        for message in turn(named, pairs):
            files = tuple(map(_attached, items(record.get("attachments"))))
            if files and isinstance(message, UserMessage):
                message = replace(message, content=(*blocks_of(message.content), *files))
            yield message


def _attached(file: dict[str, Any]) -> Any:
    name, data = optional(file.get("filename")) or "", optional(file.get("data")) or ""
    mime = _PICTURES.get(name.rpartition(".")[2].lower())
    return ImageBlock(data=data, mime_type=mime) if mime else DocumentBlock(data=data, title=name)


def _conversation(one: dict[str, Any]) -> Conversation:
    """One chat."""
    return chat(_messages(one["messages"]), title=one["chat"].get("title"))


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The chats of a database."""
    chats, messages = columns_of(connection, "chats"), columns_of(connection, "messages")
    known = {"id", "title"} <= chats and {"chat_id", "role", "content", "thinking", "model_name"} <= messages
    return _stored(connection) if known else None


def _stored(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    calls, files = columns_of(connection, "tool_calls"), columns_of(connection, "attachments")
    for row in ordered_rows(connection, "chats", "created_at, rowid"):
        messages = []
        for message in rows_of(connection, "SELECT * FROM messages WHERE chat_id = ? ORDER BY id", row["id"]):
            own = {key: value for key, value in message.items() if value not in (None, "")}
            made = rows_of(connection, _OF.format("tool_calls"), message["id"]) if calls else ()
            own["tool_calls"] = list(map(_call, made))
            stored = rows_of(connection, _OF.format("attachments"), message["id"]) if files else ()
            own["attachments"] = [
                {"filename": file["filename"], "data": base64.b64encode(file["data"] or b"").decode()}
                for file in stored
            ]
            messages.append({key: value for key, value in own.items() if value != []})
        yield {"chat": {"id": row["id"], "title": row["title"]}, "messages": messages}


_OF = "SELECT * FROM {} WHERE message_id = ? ORDER BY id"


def _call(row: dict[str, Any]) -> dict[str, Any]:
    arguments = row.get("function_arguments")
    read = read_json(arguments)
    return {"type": "function", "function": {"name": row.get("function_name"), "arguments": read or arguments}}


FORMAT = Documents(API, _is_chat, "a `chat` beside its `messages`", "chats").format(
    _conversation, database=database, rank=30
)
