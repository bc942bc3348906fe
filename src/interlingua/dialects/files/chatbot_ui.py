"""Chatbot UI: an export, `history` with its conversations beside `folders` and `prompts`.

A conversation has a `name`, its `model`, the system text in `prompt`, and `messages` of a role and text. The first
versions exported the list of conversations alone. github.com/mckaywrigley/chatbot-ui
"""

from typing import Any

from ...values.messages import AssistantMessage, Message
from ...values.request import Conversation
from ..residual import body_of, optional, reading
from . import templates
from .program_content import content_of, conversation_of, inner, items, user
from .reading import Documents

API = "chatbot-ui"


def _is_conversation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and isinstance(value.get("messages"), list)
        and ("folderId" in value or ("prompt" in value and isinstance(value.get("model"), dict)))
        and all(isinstance(item, dict) and "role" in item and "content" in item for item in value["messages"])
    )


def _is_export(value: Any) -> bool:
    found = value.get("history") if isinstance(value, dict) else None
    return isinstance(found, list) and bool(found) and all(map(_is_conversation, found))


def _is_one(value: Any) -> bool:
    return _is_conversation(value) or (_is_export(value) and len(value["history"]) == 1)


DOCUMENTS = Documents(API, _is_one, "a `name`, `messages` and a `folderId`", "conversations", "$.history")


def _messages(wire: dict[str, Any]) -> list[Message]:
    model = optional(inner(wire, "model", "id"))
    return [
        AssistantMessage(content=content_of(item["content"]), model=model)
        if item["role"] == "assistant"
        else user(content_of(item["content"]))
        for item in items(wire["messages"])
    ]


@reading(API)
def decode(data: Any) -> Conversation:
    """Decodes one conversation, single or in an export of one."""
    body = body_of(data, API)
    one = DOCUMENTS.only(body)
    wire = one["history"][0] if "history" in one else one
    system = optional(wire.get("prompt")) or None
    model = inner(wire, "model", "id")
    return templates.keep(conversation_of(_messages(wire), title=wire["name"], system=system, model=model), body, API)


def split(value: Any) -> list[Any] | None:
    """The conversations of an export, or of a list, if there are several."""
    return DOCUMENTS.split(value["history"] if _is_export(value) else value)


def detect(value: Any) -> str | None:
    """Whether a value is an export, a conversation of it, or several."""
    return "`history` of conversations with a `name` and `messages`" if _is_export(value) else DOCUMENTS.detect(value)


FORMAT = templates.file_format(API, decode, detect=detect, split=split, array="history", rank=20)
