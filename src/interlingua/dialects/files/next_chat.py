"""NextChat (ChatGPT-Next-Web): a backup, its store `chat-next-web-store` with `sessions`, or one of them.

A session has a `topic`, `messages` of a role and content, and a `mask` with the model and messages that precede the
chat. Dates are written in the browser's language, and are not read. github.com/ChatGPTNextWeb/NextChat
"""

from typing import Any

from ...values.request import Conversation
from ..residual import optional
from .chat_programs import chat, chat_messages, is_turn
from .program_content import inner, items
from .reading import Documents

API = "next-chat"


def _is_session(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("topic"), str)
        and isinstance(value.get("mask"), dict)
        and isinstance(value.get("messages"), list)
        and all(map(is_turn, value["messages"]))
    )


def _conversation(session: dict[str, Any]) -> Conversation:
    """One session."""
    model = optional(inner(session, "mask", "modelConfig", "model"))
    before = items(inner(session, "mask", "context"))
    messages = chat_messages([*before, *session["messages"]], model=model)
    return chat(messages, title=session["topic"], model=model)


FORMAT = Documents(
    API,
    _is_session,
    "sessions with a `topic` and a `mask`",
    "chats",
    inside=lambda value: inner(value, "chat-next-web-store", "sessions"),
).format(_conversation, array="chat-next-web-store.sessions", rank=20)
