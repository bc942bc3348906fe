"""Hermes Agent: a session as JSON (`session_ID.json`), as JSON lines behind a `session_meta`, or in its `state.db`.

Messages are those of OpenAI's chat wire, with `reasoning` beside the content. The database has the title and the usage
of a session; a document of it is `{"session": …, "messages": […]}`. github.com/NousResearch/hermes-agent
"""

import itertools
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.losses import Lines
from ...values.messages import Message
from ...values.request import Conversation
from ..residual import fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from . import templates
from .chat_programs import chat_messages, without_prompt
from .line_sessions import ReadAgain, Record, RowReader, TemplateStream, read
from .program_content import items, openai_tools
from .reading import columns_of, document_of, ordered_rows, plain_usage, read_json, rows_of

API = "hermes"

META = "session_meta"


def _is_session(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("messages"), list)
        and isinstance(value.get("session_id"), str)
        and ("session_start" in value or "platform" in value)
        and all(isinstance(one, dict) and "role" in one for one in value["messages"])
    )


def _is_stored(value: Any) -> bool:
    stored = isinstance(value, dict) and isinstance(value.get("messages"), list)
    return stored and "source" in fields_of(value.get("session"))


def _is_lines(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and fields_of(value[0]).get("role") == META


def _session(body: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A session and its messages."""
    if _is_lines(body):
        return body[0], items(body[1:])
    if _is_stored(body):
        return body["session"], items(body["messages"])
    if _is_session(body):
        return body, items(body["messages"])
    raise BadWire(API, "expected a session with `session_id` and `messages`")


@reading(API)
def decode(data: Any) -> Conversation:
    """One session."""
    body = document_of(data, API)
    about, messages = _session(body)
    return templates.keep(read(_Reader(about), messages), body, API, lines=isinstance(body, Lines))


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """A session of JSON lines, one entry at a time."""
    _session(list(itertools.islice(lines(), 1)))
    return TemplateStream(_Reader(), lines, API)


class _Reader(RowReader):
    """Reads the messages of a session; without `about`, the first record is about it."""

    def __init__(self, about: Record | None = None) -> None:
        self._about = about

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        records = iter(records)
        about = next(records) if self._about is None else self._about
        model, system = optional(about.get("model")), optional(about.get("system_prompt"))
        texts = [system] if system else []
        yield from without_prompt(chat_messages(records, model=model), texts)
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        self.fields = {
            "title": about.get("title"),
            "model": model,
            "system": "\n\n".join(texts) or None,
            "usage": plain_usage(*map(about.get, names)),
            "tools": openai_tools(about.get("tools")),
        }


@reading(API)
def listed(header: Record, records: ReadAgain) -> SessionStream:
    """A session as JSON, one entry at a time."""
    about, _ = _session({**header, "messages": []})
    if not _is_stored({**header, "messages": []}) and not all("role" in message for message in records()):
        raise BadWire(API, "expected a session with `session_id` and `messages`")
    return TemplateStream(_Reader(about), records, API, "messages", header)


def detect(value: Any) -> str | None:
    """Whether a document is a session of this program."""
    known = _is_session(value) or _is_stored(value) or _is_lines(value)
    return "a session with `session_id` and `messages`" if known else None


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The sessions of a `state.db`."""
    sessions, messages = columns_of(connection, "sessions"), columns_of(connection, "messages")
    known = {"source", "started_at"} <= sessions and {"session_id", "tool_calls", "tool_call_id"} <= messages
    return _stored(connection) if known else None


def _stored(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for session in ordered_rows(connection, "sessions", "started_at, id"):
        messages = []
        for row in rows_of(connection, "SELECT * FROM messages WHERE session_id = ? ORDER BY id", session["id"]):
            calls = read_json(row.get("tool_calls"))
            messages.append({key: value for key, value in {**row, "tool_calls": calls}.items() if value is not None})
        if messages:
            yield {"session": session, "messages": messages}


FORMAT = templates.file_format(
    API,
    decode,
    detect=detect,
    database=database,
    lines=True,
    rank=20,
    stream=stream,
    listed=ListedSession(("messages",), listed),
)
