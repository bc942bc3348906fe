"""Chatbox: an export of its data, `session:ID` beside `chat-sessions-list`, or one session.

A message has `contentParts` (text, reasoning, pictures, calls with their results), in older versions `content`. Threads
that were closed stand in `threads`, each a history of its own; branches of a message stand in `messageForksHash`. Both
are kept, and the path has the open thread. github.com/chatboxai/chatbox `src/shared/types/session.ts`
"""

import sys
from typing import Any

from ...values.losses import Encoded, SupportTable
from ...values.request import Conversation
from ..residual import body_of, optional, reading
from ..wire import FileFormat
from . import records, templates
from .chat_programs import Chats, chat, chat_messages, is_turn
from .program_content import inner

API = "chatbox"
FIELD_SUPPORT: SupportTable = records.FIELD_SUPPORT


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
    found = [one for key, one in value.items() if key.startswith("session:") and inner(one, "messages")]
    return found or value.get("chat-sessions")


CHATS = Chats(API, _is_session, _sessions, "sessions with a `name` and messages of `contentParts`")


@reading(API)
def decode(data: Any) -> Conversation:
    """One session, in an export or by itself."""
    body = body_of(data, API)
    session = CHATS.only(body)
    model = optional(inner(session, "settings", "modelId")) or optional(inner(session, "settings", "model"))
    return templates.keep(chat(chat_messages(session["messages"], model=model), title=session["name"]), body, API)


def encode(conversation: Conversation) -> Encoded:
    """The session as it stood in the export."""
    return templates.give_back(conversation, API, decode)


FORMAT = FileFormat(
    name=API, codec=sys.modules[__name__], detect=CHATS.detect, split=CHATS.split, writable=False, rank=20
)
