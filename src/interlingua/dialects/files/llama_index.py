"""LlamaIndex: a chat store (`SimpleChatStore`), whose `store` has the messages of each chat under its key, or a memory
(`ChatMemoryBuffer`), which has such a store and the key of its chat.

A message has a role, and `blocks` of a `block_type`, in older versions `content`; calls and the id of a call that a
result answers are in `additional_kwargs` or among the blocks. github.com/run-llama/llama_index
`llama-index-core/llama_index/core/storage/chat_store`, `…/base/llms/types.py`
"""

from collections.abc import Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import Message
from ...values.request import Conversation
from ..residual import body_of, fields_of, optional, reading
from ..wire import Parts, RecordLists
from . import templates
from .chat_programs import chat, turn
from .program_content import first, inner, items
from .reading import Pairing, json_value, several

API = "llama-index"


def _is_message(value: Any) -> bool:
    known = isinstance(value, dict) and isinstance(value.get("role"), str) and "additional_kwargs" in value
    return known and ("blocks" in value or "content" in value)


def _chats(value: Any) -> dict[str, list[Any]] | None:
    memory = json_value(inner(value, "chat_store"))  # of a buffer, which has the key of its chat
    store = inner(value, "store") if memory is None else inner(memory, "store")
    if memory is not None:
        store = {key: chat for key, chat in fields_of(store).items() if key == inner(value, "chat_store_key")}
    lists = {key: chat for key, chat in store.items() if isinstance(chat, list)} if isinstance(store, dict) else {}
    chats = {key: chat for key, chat in lists.items() if any("role" in fields_of(item) for item in chat)}
    if not chats and inner(value, "class_name") == "SimpleChatStore":
        chats = lists  # no messages yet
    return chats if chats and all(_is_message(item) for chat in chats.values() for item in chat) else None


def _part(block: dict[str, Any]) -> dict[str, Any]:
    """A block under the names that other programs use."""
    match block.get("block_type"):
        case "thinking":
            return {"type": "thinking", "thinking": block.get("content")}
        case "tool_call":
            given = first(block, "tool_kwargs", "tool_arguments")
            return {"type": "tool_call", "id": block.get("tool_call_id"), "name": block.get("tool_name"), "args": given}
        case "image":
            url, data = optional(first(block, "url", "path")), optional(block.get("image"))
            mime = optional(block.get("image_mimetype")) or "image/png"
            return {"type": "image", "url": url or (f"data:{mime};base64,{data}" if data else None)}
    return {"type": block.get("block_type"), **block}


def _record(message: dict[str, Any]) -> dict[str, Any]:
    more = fields_of(message.get("additional_kwargs"))
    content = [_part(block) for block in items(message.get("blocks"))] if "blocks" in message else message["content"]
    record = {"role": message["role"], "content": content, "tool_call_id": more.get("tool_call_id")}
    return {**record, "tool_calls": more.get("tool_calls"), "name": more.get("name")}


def _messages(found: list[dict[str, Any]]) -> Iterator[Message]:
    pairs = Pairing()
    for message in found:
        role = message["role"].lower()
        yield from turn(
            {**_record(message), "role": {"chatbot": "assistant", "developer": "system"}.get(role, role)}, pairs
        )


@reading(API)
def decode(data: Any) -> Conversation:
    """One chat of a store."""
    body = body_of(data, API)
    chats = _chats(body)
    if chats is None or len(chats) != 1:
        raise BadWire(API, "expected a store with the messages of one chat")
    (found,) = chats.values()
    return templates.keep(chat(_messages(found)), body, API)


def detect(value: Any) -> str | None:
    """Whether a value is a store of chats."""
    return "a `store` of chats by their keys" if _chats(value) is not None else None


def split(value: Any) -> list[Any] | None:
    """Each chat in a store of its own, if there are several."""
    return several(PARTS, value) if _chats(value) is not None else None


def _stores(header: dict[str, Any], lists: RecordLists) -> Iterator[Any]:
    return ({**header, "store": {key: chat}} for key, chat in lists.fields("store"))


PARTS = Parts(_stores, nodes=("store",))
FORMAT = templates.file_format(API, decode, detect=detect, split=split, parts=PARTS, rank=20)
