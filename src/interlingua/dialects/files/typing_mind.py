"""TypingMind: an export, `data.chats`, or one of its chats, with a `chatTitle` and `messages`.

docs.typingmind.com, "Export Data". A message has a role and content; the model stands in the message or in the chat.
"""

from typing import Any

from ...values.request import Conversation
from ..residual import body_of, optional, reading
from . import templates
from .chat_programs import Chats, chat, chat_messages, is_turn
from .program_content import inner

API = "typing-mind"


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and ("chatTitle" in value or "chatID" in value)
        and isinstance(value.get("messages"), list)
        and all(map(is_turn, value["messages"]))
    )


CHATS = Chats(API, _is_chat, lambda value: inner(value, "data", "chats"), "chats with a `chatTitle` and `messages`")


@reading(API)
def decode(data: Any) -> Conversation:
    """One chat, in an export or by itself."""
    body = body_of(data, API)
    one = CHATS.only(body)
    model = optional(one.get("model")) or optional(inner(one, "modelInfo", "id"))
    system = optional(inner(one, "chatParams", "systemMessage")) or None
    found = chat(chat_messages(one["messages"], model=model), title=one.get("chatTitle"), model=model, system=system)
    return templates.keep(found, body, API)


FORMAT = templates.file_format(API, decode, detect=CHATS.detect, split=CHATS.split, array="data.chats", rank=20)
