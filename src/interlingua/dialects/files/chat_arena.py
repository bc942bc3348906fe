"""Chats that were collected with the public (LMSYS-Chat, WildChat): rows of a `conversation` beside its `model`.

Rows of the Chatbot Arena are two conversations, `conversation_a` and `conversation_b`, of two models that were asked
the same: the one that won is on the path, the first where none did, and the other is a branch where they part.
huggingface.co/datasets/lmsys/lmsys-chat-1m, …/allenai/WildChat-1M
"""

from typing import Any

from msgspec.structs import replace

from ...values.messages import AssistantMessage, Message
from ...values.request import Conversation, ModelDescriptor
from ..residual import optional
from .program_content import first, inner, moment
from .reading import Documents, preference
from .wire_bodies import CHAT, request_in

API = "chat-arena"

_SIDES = ("a", "b")
_IDS = ("conversation_id", "conversation_hash", "question_id")


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and isinstance(item.get("role"), str) and "content" in item for item in value)
    )


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict) or not any(isinstance(value.get(key), str) for key in _IDS):
        return False
    if isinstance(value.get("model"), str):
        return _is_chat(value.get("conversation"))
    return all(
        isinstance(value.get(f"model_{side}"), str) and _is_chat(value.get(f"conversation_{side}")) for side in _SIDES
    )


def _messages(chat: list[Any], model: Any, when: int | None) -> list[Message]:
    """The messages of a chat; each may have a time of its own, else the row's is that of the last answer."""
    found = [entry.message for entry in request_in(chat, CHAT).entries]
    if len(found) == len(chat):
        found = [
            replace(message, timestamp=moment(item.get("timestamp"))) for message, item in zip(found, chat, strict=True)
        ]
    named = [replace(one, model=optional(model)) if isinstance(one, AssistantMessage) else one for one in found]
    if named and all(message.timestamp is None for message in named):
        named[-1] = replace(named[-1], timestamp=when)
    return named


def _conversation(row: dict[str, Any]) -> Conversation:
    """One row."""
    when = moment(first(row, "timestamp", "tstamp"))
    if "conversation" in row:
        sides = [""]
    else:
        winner = str(row.get("winner")).removeprefix("model_")
        sides = ["_b", "_a"] if winner == "b" else ["_a", "_b"]
    chats = [_messages(row[f"conversation{side}"], row[f"model{side}"], when) for side in sides]
    entries, head = preference(*chats)
    model = ModelDescriptor(id=inner(row, f"model{sides[0]}"))
    return Conversation(entries=entries, head=head, model=model)


FORMAT = Documents(API, _is_row, "a `conversation` beside its `model`, or two of them", path="$.conversation").format(
    _conversation, rank=40
)
