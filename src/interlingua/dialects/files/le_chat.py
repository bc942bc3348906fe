"""Mistral's Le Chat: a chat of its data export, a list of messages that name their `chatId`.

A message has a role, `content` or `contentChunks`, and the message that it answers in `parentId`; a `version` above 0
was written anew. The path ends at the newest message. help.mistral.ai, "How can I export my data?"
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from ...values.compact import IdSet
from ...values.errors import BadWire
from ...values.request import Conversation, Entry
from ..residual import body_of, optional, reading
from ..wire import ListedSession, SessionStream
from . import templates
from .chat_programs import is_turn, turn
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, by_time, read
from .program_content import moment
from .reading import Node, Pairing, placed

API = "le-chat"

_ROLES = ("user", "assistant", "system", "tool")


def _is_message(value: Any) -> bool:
    known = is_turn(value) and value["role"] in _ROLES
    return known and isinstance(value.get("chatId"), str) and "id" in value


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


class _Reader(Reader):
    """Reads the messages of a chat in the order of their times."""

    def __init__(self) -> None:
        self._known = IdSet()

    def order(self, records: Iterable[Record]) -> "array[int] | None":
        moments: list[int] = []
        for record in records:
            moments.append(moment(record.get("createdAt")) or 0)
            self._known.add(optional(record.get("id")))
        return by_time(moments)

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        return placed(self._nodes(records), self._known)

    def _nodes(self, records: Iterable[Record]) -> Iterator[Node]:
        pairs, before = Pairing(), None
        for message in records:
            id = optional(message.get("id"))
            yield id, optional(message["parentId"]) if "parentId" in message else before, turn(message, pairs)
            before = id


@reading(API)
def decode(data: Any) -> Conversation:
    """One chat."""
    body = body_of(data, API)
    if not _is_chat(body):
        raise BadWire(API, "expected a list of messages with a `chatId`")
    return templates.keep(read(_Reader(), body), body, API)


@reading(API)
def listed(header: Any, messages: ReadAgain) -> SessionStream | None:
    """One chat, one entry at a time."""
    return TemplateStream(_Reader(), messages, API, "") if all(map(_is_message, messages())) else None


def detect(value: Any) -> str | None:
    """Whether a document is a chat of this program."""
    return "messages with a `chatId`" if _is_chat(value) else None


FORMAT = templates.file_format(API, decode, detect=detect, rank=20, listed=ListedSession(("",), listed))
