"""LLaMA-Factory's rows in the style of chat completions: `messages` with a pair of answers, or with media.

Of a `chosen` and a `rejected` message the chosen one is on the path, the other a branch after the last of the messages.
`images`, `videos` and `audios` list files, which stand where the texts have `<image>`, `<video>` and `<audio>`. Rows
with neither, with a `label` (KTO) or not, are read as requests of chat completions, which they are.
"""

from typing import Any

from msgspec.structs import replace

from ...values.messages import TextBlock, UserMessage
from ...values.request import Conversation, Entry
from .reading import Documents, MediaPlacer, has_media, preference
from .wire_bodies import CHAT, request_in

API = "llamafactory-messages"


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and "content" in value


def _is_row(value: Any) -> bool:
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        return False
    return _is_pair(value) or has_media(value, _asked(messages))


def _is_pair(row: dict[str, Any]) -> bool:
    return _is_message(row.get("chosen")) and _is_message(row.get("rejected"))


def _asked(messages: list[Any]) -> list[str]:
    """The texts of a person, where media are marked."""
    texts = [message["content"] for message in messages if message["role"] == "user"]
    return [text for text in texts if isinstance(text, str)]


def _conversation(row: dict[str, Any]) -> Conversation:
    """One row."""
    asked = request_in(row["messages"], CHAT)
    prompt: list[Any] = [entry.message for entry in asked.entries]
    if has_media(row, _asked(row["messages"])):
        placer = MediaPlacer(row)
        prompt = [_with_media(message, placer) for message in prompt]
    conversation = Conversation(system=asked.system, system_role=asked.system_role)
    if _is_pair(row):
        answers = [[entry.message for entry in request_in([row[key]], CHAT).entries] for key in ("chosen", "rejected")]
        entries, head = preference(*([*prompt, *answer] for answer in answers))
        conversation = replace(conversation, entries=entries, head=head)
    else:
        conversation = replace(conversation, entries=tuple(Entry(message=message) for message in prompt))
    return conversation


def _with_media(message: Any, placer: MediaPlacer) -> Any:
    if not isinstance(message, UserMessage) or not isinstance(message.content, str):
        return message
    blocks = tuple(placer.blocks(message.content))
    return message if blocks == (TextBlock(text=message.content),) else replace(message, content=blocks)


FORMAT = Documents(
    API,
    _is_row,
    "`messages` with a `chosen` and a `rejected` message, or with files for their marks",
    path="$.messages",
).format(_conversation, rank=30)
