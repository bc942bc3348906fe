"""TypingMind: an export, `data.chats`, or one of its chats, with a `chatTitle` and `messages`.

docs.typingmind.com, "Export Data". A message has a role and content; the model stands in the message or in the chat.
"""

from typing import Any

from ...values.request import Conversation
from ..residual import optional
from .chat_programs import chat, chat_messages, is_turn
from .program_content import inner
from .reading import Documents

API = "typing-mind"


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and ("chatTitle" in value or "chatID" in value)
        and isinstance(value.get("messages"), list)
        and all(map(is_turn, value["messages"]))
    )


def _conversation(one: dict[str, Any]) -> Conversation:
    """One chat."""
    model = optional(one.get("model")) or optional(inner(one, "modelInfo", "id"))
    system = optional(inner(one, "chatParams", "systemMessage")) or None
    return chat(chat_messages(one["messages"], model=model), title=one.get("chatTitle"), model=model, system=system)


FORMAT = Documents(
    API,
    _is_chat,
    "chats with a `chatTitle` and `messages`",
    "chats",
    inside=lambda value: inner(value, "data", "chats"),
).format(_conversation, array="data.chats", rank=20)
