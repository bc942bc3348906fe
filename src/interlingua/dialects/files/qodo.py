"""Qodo Gen: the database of a project's chats, `.qodo/history.sqlite`, with `chat_threads` and `chat_messages`.

What the user wrote is in `userInput`, behind a `command` that is named here if it is more than a question. An answer is
in `data`: a text, an object with `content`, or a list of texts, files that the model wrote (`code_implementation`), and
calls (`tool_use`) with their results in `message`. A thread has no title; a model has only the name that is shown.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from ...values.messages import Message, TextBlock
from ..residual import fields_of, optional
from .line_sessions import ReadAgain, Reader, Record, RowReader, document_format
from .program_content import a_result, first, inner, moment, user
from .reading import Pairing, columns_of, ordered_rows, read_json, rounds, rows_of

API = "qodo"

_QUESTIONS = ("ask", "chat")


def _is_thread(value: Any) -> bool:
    found = value.get("messages") if isinstance(value, dict) and isinstance(value.get("thread"), dict) else None
    return isinstance(found, list) and all(map(_is_message, found))


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and "messageID" in value


def _reader(thread: Record, messages: ReadAgain) -> Reader | None:
    return _Reader() if _is_thread(thread) and all(map(_is_message, messages())) else None


class _Reader(RowReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        pairs = Pairing()
        return (one for record in records for one in _messages(record, pairs))


def _messages(record: dict[str, Any], pairs: Pairing) -> list[Message]:
    when = moment(record.get("createdAt"))
    if record.get("role") == "user":
        command, written = optional(inner(record.get("command"), "command")), optional(record.get("userInput")) or ""
        named = f"/{command}" if command and command not in _QUESTIONS else ""
        return [user(" ".join(part for part in (named, written) if part), when)]
    if record.get("role") != "assistant":
        return []
    given = record.get("data")
    parts = [one for item in (given if isinstance(given, list) else [given]) for one in _parts(item, pairs, when)]
    return rounds(parts, model=optional(record.get("modelLabel")), timestamp=when)


def _parts(item: Any, pairs: Pairing, when: int | None) -> Iterator[Any]:
    if isinstance(item, str):
        yield TextBlock(text=item)
    elif isinstance(item, dict) and item.get("type") == "tool_use":
        use = fields_of(item.get("toolUseData"))
        call = pairs.call(first(use, "identifier") or item.get("id"), use.get("tool"), use.get("args"))
        yield call
        if "message" in use:
            answer = read_json(use["message"])
            content = answer.get("content") if isinstance(answer, dict) and "content" in answer else use["message"]
            yield pairs.result(call.id, call.name, a_result("", content).content, use.get("isError"), timestamp=when)
    elif isinstance(item, dict):
        text = optional(first(item, "originalContent", "content"))
        if text and item.get("type") == "code_implementation":
            text = f"```{inner(item, 'artifactAttributes', 'language') or ''}\n{text}\n```"
        if text:
            yield TextBlock(text=text)


def detect(value: Any) -> str | None:
    """Whether a document is a thread of this program."""
    return "a `thread` and `messages` with a `messageID`" if _is_thread(value) and value["messages"] else None


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The threads of a `history.sqlite` that have messages."""
    needed = {"messageID", "threadID", "role", "data", "userInput"}
    return _threads(connection) if needed <= columns_of(connection, "chat_messages") else None


def _threads(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    query = "SELECT * FROM chat_messages WHERE threadID = ? ORDER BY createdAt, rowid"
    for thread in ordered_rows(connection, "chat_threads", "createdAt, rowid"):
        messages = [
            {**row, **{key: read_json(row[key]) for key in ("data", "command") if isinstance(row.get(key), str)}}
            for row in rows_of(connection, query, thread.get("id"))
        ]
        if messages:
            yield {"thread": thread, "messages": messages}


FORMAT = document_format(
    API, "messages", _reader, "a `thread` and its `messages`", detect=detect, database=database, rank=20
)
