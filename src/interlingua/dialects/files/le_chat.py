"""Mistral's Le Chat: a chat of its data export, a list of messages that name their `chatId`.

A message has a role, `content` or `contentChunks`, and the message that it answers in `parentId`; a `version` above 0
was written anew. The path ends at the newest message. help.mistral.ai, "How can I export my data?"
"""

import sys
from collections.abc import Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.losses import Encoded, SupportTable
from ...values.request import Conversation
from ..residual import body_of, optional, reading
from ..wire import FileFormat
from . import records, templates
from .chat_programs import is_turn, turn
from .program_content import moment
from .reading import Node, Pairing, entries_of

API = "le-chat"
FIELD_SUPPORT: SupportTable = records.FIELD_SUPPORT


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(is_turn(one) and isinstance(one.get("chatId"), str) and "id" in one for one in value)
    )


def _nodes(messages: list[dict[str, Any]]) -> Iterator[Node]:
    pairs, before = Pairing(), None
    for message in sorted(messages, key=lambda one: moment(one.get("createdAt")) or 0):
        id = optional(message.get("id"))
        yield id, optional(message["parentId"]) if "parentId" in message else before, turn(message, pairs)
        before = id


@reading(API)
def decode(data: Any) -> Conversation:
    """One chat."""
    body = body_of(data, API)
    if not _is_chat(body):
        raise BadWire(API, "expected a list of messages with a `chatId`")
    return templates.keep(Conversation(entries=entries_of(_nodes(body))), body, API)


def encode(conversation: Conversation) -> Encoded:
    """The chat that was read."""
    return templates.give_back(conversation, API, decode)


def detect(value: Any) -> str | None:
    """Whether a document is a chat of this program."""
    return "messages with a `chatId`" if _is_chat(value) else None


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, writable=False, rank=20)
