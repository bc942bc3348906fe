"""LLaMA-Factory's rows in the style of chat completions: `messages` with a pair of answers, or with media.

Of a `chosen` and a `rejected` message the chosen one is on the path, the other a branch after the last of the messages.
`images`, `videos` and `audios` list files, which stand where the texts have `<image>`, `<video>` and `<audio>`. Rows
with neither, with a `label` (KTO) or not, are read as requests of chat completions, which they are.

In a row of ms-swift the answer at the end of the `messages` is the chosen one; beside them is the other, the text of
`rejected_response`, or the whole other conversation in `rejected_messages` (with its own `rejected_images`). Lists of
several such answers are a branch each.
swift.readthedocs.io/en/latest/Customization/Custom-dataset.html
"""

import itertools
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ...values.messages import TextBlock, UserMessage
from ...values.request import Conversation, Entry
from ..residual import fields_of
from .reading import Documents, MediaPlacer, has_media, preference, read_json, rejected_answers
from .wire_bodies import CHAT, request_in

API = "llamafactory-messages"


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and "content" in value


def _is_row(value: Any) -> bool:
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        return False
    return _is_pair(value) or _has_rejected(value, messages) or has_media(value, _asked(messages))


def _is_pair(row: dict[str, Any]) -> bool:
    return _is_message(row.get("chosen")) and _is_message(row.get("rejected"))


def _has_rejected(row: dict[str, Any], messages: list[Any]) -> bool:
    """Whether a row of ms-swift has another answer beside the one at the end of its messages."""
    text, others = row.get("rejected_response"), row.get("rejected_messages")
    if not (text or others) or not all(
        message["role"] in _ROLES for message in messages
    ):  # calls in turns of their own are ShareGPT's
        return False
    texts, conversations = rejected_answers(text, others)
    if texts:
        return bool(messages[-1]["role"] == "assistant")
    return bool(conversations) and all(map(_is_message, itertools.chain(*conversations)))


_ROLES = ("system", "user", "assistant", "tool")


def _asked(messages: list[Any]) -> list[str]:
    """The texts of a person, where media are marked."""
    texts = [message["content"] for message in messages if message["role"] == "user"]
    return [text for text in texts if isinstance(text, str)]


def _conversation(row: dict[str, Any]) -> Conversation:
    """One row."""
    tools = read_json(row["tools"]) if isinstance(row.get("tools"), str) else row.get("tools")
    offered = isinstance(tools, list) and all("function" in fields_of(tool) for tool in tools)
    asked = request_in({"messages": row["messages"], **({"tools": tools} if offered else {})}, CHAT)
    prompt = _placed(asked, row["messages"], row)
    conversation = Conversation(system=asked.system, system_role=asked.system_role, tools=asked.tools)
    if _is_pair(row):
        answers = [[entry.message for entry in request_in([row[key]], CHAT).entries] for key in ("chosen", "rejected")]
        entries, head = preference(*([*prompt, *answer] for answer in answers))
    elif _has_rejected(row, row["messages"]):
        entries, head = preference(prompt, *_rejected(row))
    else:
        entries, head = tuple(Entry(message=message) for message in prompt), None
    return replace(conversation, entries=entries, head=head)


def _rejected(row: dict[str, Any]) -> Iterator[list[Any]]:
    """The other messages of a row of ms-swift."""
    texts, conversations = rejected_answers(row.get("rejected_response"), row.get("rejected_messages"))
    asked = row["messages"][:-1]
    images = row.get("rejected_images") or row.get("images")
    for given in [[*asked, {"role": "assistant", "content": text}] for text in texts] or conversations:
        yield _placed(request_in(given, CHAT), given, {**row, "images": images})


def _placed(conversation: Conversation, messages: list[Any], row: dict[str, Any]) -> list[Any]:
    """The messages, with the files of the row in the places of their marks."""
    found: list[Any] = [entry.message for entry in conversation.entries]
    if not has_media(row, _asked(messages)):
        return found
    placer = MediaPlacer(row)
    return [_with_media(message, placer) for message in found]


def _with_media(message: Any, placer: MediaPlacer) -> Any:
    if not isinstance(message, UserMessage) or not isinstance(message.content, str):
        return message
    blocks = tuple(placer.blocks(message.content))
    return message if blocks == (TextBlock(text=message.content),) else replace(message, content=blocks)


FORMAT = Documents(
    API,
    _is_row,
    "`messages` with a chosen and a rejected answer, or with files for their marks",
    path="$.messages",
).format(_conversation, rank=30)
