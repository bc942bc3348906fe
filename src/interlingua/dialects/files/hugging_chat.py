"""HuggingChat: an export (a zip with `conversations.json`), or conversations of it: a tree of messages.

A message has `from`, `content`, and its `ancestors` and `children`; older conversations are a list without them. The
path ends at the last message. github.com/huggingface/chat-ui `src/lib/types/Message.ts`
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...values.request import Conversation, ModelDescriptor
from ..residual import body_of, optional, reading
from . import templates
from .chat_programs import Chats, is_turn, turn
from .program_content import items
from .reading import Node, Pairing, entries_of, listed

API = "hugging-chat"


def _is_conversation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("title"), str)
        and isinstance(value.get("messages"), list)
        and all(is_turn(message, "from") and "id" in message for message in value["messages"])
        and ("rootMessageId" in value or bool(value["messages"]))
    )


CHATS = Chats(API, _is_conversation, lambda value: None, "conversations with a `title` and messages of `from`")


def _nodes(messages: list[dict[str, Any]], model: str | None) -> Iterator[Node]:
    pairs, before = Pairing(), None
    for message in messages:
        id = optional(message.get("id"))
        above = message.get("ancestors")
        parent = (above[-1] if above else None) if isinstance(above, list) else before
        yield id, optional(parent), turn(message, pairs, model=model)
        before = id


@reading(API)
def decode(data: Any) -> Conversation:
    """One conversation."""
    body = body_of(data, API)
    one = CHATS.only(body)
    model = optional(one.get("model"))
    conversation = Conversation(
        entries=entries_of(_nodes(items(one["messages"]), model)),
        title=optional(one.get("title")) or None,
        system=optional(one.get("preprompt")) or None,
        model=ModelDescriptor(id=model) if model else None,
    )
    return templates.keep(conversation, body, API)


def archive(members: Mapping[str, bytes]) -> Iterable[Any] | None:
    """The conversations of an export as it is downloaded."""
    if "conversations.json" not in members or not _is_conversation(next(listed(members, "conversations.json"), None)):
        return None
    return listed(members, "conversations.json")


FORMAT = templates.file_format(API, decode, detect=CHATS.detect, split=CHATS.split, archive=archive, rank=20)
