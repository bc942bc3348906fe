"""Chatbox: an export of its data, `session:ID` beside `chat-sessions-list`, or one session.

A message has `contentParts` (text, reasoning, pictures, calls with their results), in older versions `content`. Threads
that were closed stand in `threads`, each a history of its own; branches of a message stand in `messageForksHash`. Both
are kept, and the path has the open thread. github.com/chatboxai/chatbox `src/shared/types/session.ts`
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ...values.messages import Message
from ...values.request import Conversation
from ..residual import body_of, optional, reading
from ..wire import ListedSession, Parts, RecordLists, SessionStream
from . import templates
from .chat_programs import chat_messages, is_turn, without_prompt
from .line_sessions import ReadAgain, Record, RowReader, TemplateStream, read
from .program_content import first, inner, items
from .reading import Documents, Tables

API = "chatbox"
FAILURES = ("error", "errorCode")  # messages that have one are not sent again


def _is_session(value: Any) -> bool:
    messages = value.get("messages") if isinstance(value, dict) else None
    return (
        isinstance(messages, list)
        and isinstance(value.get("name"), str)
        and bool(messages)
        and all(map(is_turn, messages))
        and any("contentParts" in message or "aiProvider" in message for message in messages)
    )


def _sessions(value: Any) -> list[Any] | None:
    if not isinstance(value, dict) or not ("chat-sessions-list" in value or "chat-sessions" in value):
        return None
    return list(_stored(value, Tables(value)))


def _stored(header: dict[str, Any], lists: RecordLists) -> Iterator[Any]:
    """The sessions that have messages; those of older versions are in a list."""
    if "chat-sessions-list" not in header:
        return lists.records("chat-sessions")
    return (one for _, one in lists.fields("session:*") if inner(one, "messages"))


DOCUMENTS = Documents(
    API, _is_session, "sessions with a `name` and messages of `contentParts`", "chats", inside=_sessions
)


@reading(API)
def decode(data: Any) -> Conversation:
    """One session, in an export or by itself."""
    body = body_of(data, API)
    session = DOCUMENTS.only(body)
    return templates.keep(read(_Reader(session), session["messages"]), body, API)


@reading(API)
def listed(header: Record, messages: ReadAgain) -> SessionStream | None:
    """One session by itself, one entry at a time."""
    is_own = isinstance(header.get("name"), str) and DOCUMENTS.inside(header) is None and all(map(is_turn, messages()))
    return TemplateStream(_Reader(header), messages, API, "messages", header) if is_own else None


class _Reader(RowReader):
    """Reads the messages of a session, which is given with or without them."""

    def __init__(self, session: Record) -> None:
        settings = inner(session, "settings")
        self._model = optional(inner(settings, "modelId")) or optional(inner(settings, "model"))
        self.fields = {"title": session["name"]}

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        texts: list[str] = []
        yield from without_prompt(chat_messages(map(_with_files, records), model=self._model, failures=FAILURES), texts)
        self.fields["system"] = "\n\n".join(texts) or None


def _with_files(record: Record) -> Record:
    """A message whose files, pages and (in older versions) pictures are among its parts."""
    given: list[Any] = [{"type": "image", **one} for one in items(record.get("pictures"))]
    for key in ("files", "links"):
        for one in items(record.get(key)):
            name, url = first(one, "name", "title"), first(one, "url", "storageKey", "name")
            given.append({"type": "file", "name": name, "url": url, "mimeType": one.get("fileType")})
    if not given:
        return record
    parts = record.get("contentParts")
    parts = parts if isinstance(parts, list) else [{"type": "text", "text": record.get("content")}]
    return {**record, "contentParts": [*parts, *given]}


FORMAT = templates.file_format(
    API,
    decode,
    detect=DOCUMENTS.detect,
    split=DOCUMENTS.split,
    parts=Parts(_stored, ("chat-sessions",), ("session:*",)),
    rank=20,
    listed=ListedSession(("messages",), listed),
)
