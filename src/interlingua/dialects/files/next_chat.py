"""NextChat (ChatGPT-Next-Web): a backup, its store `chat-next-web-store` with `sessions`, or one of them.

A session has a `topic`, `messages` of a role and content, and a `mask` with the model and messages that precede the
chat. Dates are written in the browser's language, and are not read. github.com/ChatGPTNextWeb/NextChat
"""

from typing import Any

from ...values.request import Conversation
from ..residual import body_of, optional, reading
from . import templates
from .chat_programs import Chats, chat, chat_messages, is_turn
from .program_content import inner, items

API = "next-chat"


def _is_session(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("topic"), str)
        and isinstance(value.get("mask"), dict)
        and isinstance(value.get("messages"), list)
        and all(map(is_turn, value["messages"]))
    )


CHATS = Chats(
    API,
    _is_session,
    lambda value: inner(value, "chat-next-web-store", "sessions"),
    "sessions with a `topic` and a `mask`",
)


@reading(API)
def decode(data: Any) -> Conversation:
    """One session, in a backup or by itself."""
    body = body_of(data, API)
    session = CHATS.only(body)
    model = optional(inner(session, "mask", "modelConfig", "model"))
    before = items(inner(session, "mask", "context"))
    messages = chat_messages([*before, *session["messages"]], model=model)
    return templates.keep(chat(messages, title=session["topic"], model=model), body, API)


FORMAT = templates.file_format(
    API, decode, detect=CHATS.detect, split=CHATS.split, array="chat-next-web-store.sessions", rank=20
)
