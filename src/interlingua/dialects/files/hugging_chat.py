"""HuggingChat: an export (a zip with `conversations.json`), or conversations of it: a tree of messages.

A message has `from`, `content`, and its `ancestors` and `children`; older conversations are a list without them. The
path ends at the last message. Thoughts are in `reasoning`, or marked in the content; a router names the model that
answered. github.com/huggingface/chat-ui `src/lib/types/Message.ts`
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...values.request import Conversation, ModelDescriptor
from ..residual import optional
from .chat_programs import is_turn, turn, with_thoughts
from .program_content import inner, items
from .reading import Documents, Node, Pairing, entries_of, listed

API = "hugging-chat"


def _is_conversation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("title"), str)
        and isinstance(value.get("messages"), list)
        and all(is_turn(message, "from") and "id" in message for message in value["messages"])
        and ("rootMessageId" in value or bool(value["messages"]))
    )


def _nodes(messages: list[dict[str, Any]], model: str | None) -> Iterator[Node]:
    pairs, before = Pairing(), None
    for message in messages:
        id = optional(message.get("id"))
        above = message.get("ancestors")
        parent = (above[-1] if above else None) if isinstance(above, list) else before
        answered = optional(inner(message, "routerMetadata", "model")) or model
        yield id, optional(parent), list(map(with_thoughts, turn(message, pairs, model=answered)))
        before = id


def _conversation(one: dict[str, Any]) -> Conversation:
    """One conversation."""
    model = optional(one.get("model"))
    return Conversation(
        entries=entries_of(_nodes(items(one["messages"]), model)),
        title=optional(one.get("title")) or None,
        system=optional(one.get("preprompt")) or None,
        model=ModelDescriptor(id=model) if model else None,
    )


def archive(members: Mapping[str, bytes]) -> Iterable[Any] | None:
    """The conversations of an export as it is downloaded."""
    if "conversations.json" not in members or not _is_conversation(next(listed(members, "conversations.json"), None)):
        return None
    return listed(members, "conversations.json")


FORMAT = Documents(API, _is_conversation, "conversations with a `title` and messages of `from`", "chats").format(
    _conversation, archive=archive, rank=20
)
