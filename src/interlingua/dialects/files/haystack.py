"""Haystack: chat messages as `ChatMessage.to_dict()` writes them, in a list, as `messages` of an agent or as `replies`.

The content of a message is a list of parts, each an object whose one key is its kind: `text`, `reasoning`, `tool_call`,
`tool_call_result`, `image` or `file`; pydantic writes them without it. `meta` has the model and the usage of an answer.
Before version 2.12 the keys were `_role`, `_content` and `_meta`.
github.com/deepset-ai/haystack `haystack/dataclasses/chat_message.py`
"""

from collections.abc import Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import DocumentBlock, ImageBlock, SystemMessage, TextBlock, ThinkingBlock
from ...values.request import Conversation
from ..residual import body_of, fields_of, optional, reading
from . import templates
from .chat_programs import chat
from .program_content import a_result, first, inner
from .reading import Pairing, asked, openai_usage, rounds

API = "haystack"

_ROLES = ("system", "user", "assistant", "tool")
# The kinds of parts, and the key of each by which a part is known that pydantic wrote
_KINDS = {
    "text": "text",
    "tool_call": "tool_name",
    "tool_call_result": "origin",
    "image": "base64_image",
    "reasoning": "reasoning_text",
    "file": "base64_data",
}
_RESULTS = ("text", "image", "file")  # in what a tool gave, which else is text


def _kind(part: Any) -> str | None:
    if not isinstance(part, dict) or "type" in part:
        return None
    return next((kind for kind, key in _KINDS.items() if kind in part or key in part), None)


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or first(value, "role", "_role") not in _ROLES:
        return False
    content = first(value, "content", "_content")
    return ("meta" in value or "_meta" in value) and isinstance(content, list) and all(map(_kind, content))


def _thread(body: Any) -> list[dict[str, Any]] | None:
    """The messages of a document in any of its forms."""
    found = body if isinstance(body, list) else inner(body, "messages") or inner(body, "replies") or [body]
    return found if isinstance(found, list) and found and all(map(_is_message, found)) else None


def _part(part: dict[str, Any], pairs: Pairing) -> Any:
    kind = _kind(part) or ""
    given = part if kind == "text" else fields_of(part.get(kind, part))
    match kind:
        case "text":
            return TextBlock(text=optional(given["text"]) or "")
        case "tool_call":
            return pairs.call(given.get("id"), given.get("tool_name"), given.get("arguments"))
        case "tool_call_result":
            origin, result = fields_of(given.get("origin")), given.get("result")
            parts = result if isinstance(result, list) and all(_kind(item) in _RESULTS for item in result) else None
            blocks = a_result("", result).content if parts is None else tuple(_part(item, pairs) for item in parts)
            return pairs.result(origin.get("id"), origin.get("tool_name"), blocks, given.get("error"))
        case "image":
            return ImageBlock(data=optional(given.get("base64_image")), mime_type=optional(given.get("mime_type")))
        case "reasoning":
            return ThinkingBlock(thinking=optional(given.get("reasoning_text")) or "")
    mime, title = optional(given.get("mime_type")), optional(given.get("filename"))
    return DocumentBlock(data=optional(given.get("base64_data")), mime_type=mime, title=title)


def _messages(thread: list[dict[str, Any]]) -> Iterator[Any]:
    pairs = Pairing()
    for message in thread:
        role, meta = first(message, "role", "_role"), fields_of(first(message, "meta", "_meta"))
        parts = [_part(part, pairs) for part in first(message, "content", "_content")]
        refusal = optional(meta.get("refusal"))
        if role == "assistant":
            parts += [TextBlock(text=refusal, refusal=True)] if refusal else []
            usage = openai_usage(meta.get("usage"))
            yield from rounds(parts, {"usage": usage} if usage else {}, model=optional(meta.get("model")))
        elif role == "system":
            yield SystemMessage(content=tuple(parts))
        else:
            yield from asked(parts)


@reading(API)
def decode(data: Any) -> Conversation:
    """The messages of one chat."""
    body = body_of(data, API)
    thread = _thread(body)
    if thread is None:
        raise BadWire(API, "expected messages with `meta`, and `content` of `text`, `tool_call` and other parts")
    return templates.keep(chat(_messages(thread)), body, API)


def detect(value: Any) -> str | None:
    """Whether a value is a message, or messages."""
    return "messages with `meta` and parts without a `type`" if _thread(value) is not None else None


def split(value: Any) -> list[Any] | None:
    """Each of several replies by itself: they answer the same."""
    replies = inner(value, "replies") if detect(value) and not inner(value, "messages") else None
    return [{**value, "replies": [reply]} for reply in replies] if replies and len(replies) > 1 else None


FORMAT = templates.file_format(API, decode, detect=detect, split=split, rank=40)
