"""LibreChat: an exported conversation, a tree of messages that is flat (`parentMessageId`) or nested (`children`).

A message of old versions has its `text`; newer answers have `content` parts, in which a call stands with its output.
The tree begins at a parent of zeros, and the last message is where it stands.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import (
    Block,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    Usage,
    UserMessage,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import body_of, fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from . import templates
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, read
from .program_content import file_of
from .program_content import items as listed_in
from .reading import Node, Pairing, image_of, placed, plain_usage, rounds
from .records import milliseconds

API = "librechat"


class _Reader(Reader):
    """Reads the messages of a conversation, which is given without them."""

    def __init__(self, wire: Record, messages: ReadAgain) -> None:
        options = fields_of(wire.get("options"))
        model = optional(options.get("model")) or optional(wire.get("model"))
        self.about = Conversation(
            title=optional(wire.get("title")),
            system=optional(options.get("promptPrefix")) or optional(options.get("system")) or None,
            model=ModelDescriptor(id=model) if model else None,
        )
        self._known = set(_ids(messages()))

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        return placed(_nodes(records, Pairing()), self._known)


def _ids(messages: Iterable[Any]) -> Iterator[str]:
    for record in messages:
        if isinstance(record, dict):
            if isinstance(record.get("messageId"), str):
                yield record["messageId"]
            if isinstance(record.get("children"), list):
                yield from _ids(record["children"])


def _nodes(messages: Iterable[Any], pairs: Pairing, before: str | None = None) -> Iterator[Node]:
    for record in messages:
        if not isinstance(record, dict):
            continue
        id = optional(record.get("messageId"))
        parent = optional(record.get("parentMessageId")) if "parentMessageId" in record else before
        yield id, parent, _messages(record, pairs)
        if isinstance(record.get("children"), list):
            yield from _nodes(record["children"], pairs, id)
        else:
            before = id


def _messages(record: dict[str, Any], pairs: Pairing) -> list[Any]:
    when, text = milliseconds(record.get("createdAt")), record.get("text")
    parts = record.get("content")
    items = [*_items(parts, pairs, when)] if isinstance(parts, list) else []
    if isinstance(text, str) and (text or not items) and not any(isinstance(item, TextBlock) for item in items):
        items.append(TextBlock(text=text))
    if _is_users(record):
        return [UserMessage(content=(*_files(record.get("files")), *items), timestamp=when)]
    items += _files(record.get("attachments"))
    failures = [optional(part.get("error")) for part in listed_in(parts) if part.get("type") == "error"]
    failure = (optional(text) or "error") if record.get("error") is True else next(iter(failures), None)
    # packages/data-provider/src/schemas.ts, `unfinished`: the answer was saved before it was complete.
    stopped = "aborted" if record.get("unfinished") is True else None
    given: dict[str, Any] = {"timestamp": when, "model": optional(record.get("model")) or None}
    given |= {"error_message": failure, "stop_reason": "error" if failure else stopped}
    found: list[Any] = []
    usage: dict[str, Any] = {"usage": _usage(record)}
    while items:  # what the user wrote while the model worked stands among the parts of its answer
        end = next((at for at, item in enumerate(items) if isinstance(item, UserMessage)), len(items))
        found += rounds(items[:end], usage, **given) if end else []
        found += items[end : end + 1]
        items, usage = items[end + 1 :], {}
    return found or rounds((), usage, **given)


def _usage(record: dict[str, Any]) -> Usage | None:
    """The counts of an answer, which newer versions have in disjoint buckets: data-provider, `TResponseUsage`."""
    newer, older = fields_of(fields_of(record.get("metadata")).get("usage")), fields_of(record.get("usage"))
    counted = (newer.get(key) for key in ("input", "output", "cacheRead", "cacheWrite"))
    return plain_usage(*counted) or plain_usage(older.get("input_tokens"), older.get("output_tokens"))


def _is_users(record: dict[str, Any]) -> bool:
    made = record.get("isCreatedByUser")
    return made if isinstance(made, bool) else str(record.get("sender")).lower() == "user"


# packages/data-provider/src/types/runs.ts, `ContentTypes`.
_SHOWN = ("error", "agent_update", "activity_label")  # parts that are no content


def _items(parts: list[Any], pairs: Pairing, when: int | None) -> Iterator[Any]:
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        value = part.get(kind) if isinstance(kind, str) else None
        value = value["value"] if isinstance(value, dict) and isinstance(value.get("value"), str) else value
        if kind == "text" and isinstance(value, str):
            yield TextBlock(text=value)
        elif kind == "think" and isinstance(value, str):
            yield ThinkingBlock(thinking=value)
        elif kind == "tool_call" and isinstance(value, dict):
            yield from _call(value, pairs, when)
        elif kind == "image_file" and isinstance(value, dict) and isinstance(value.get("file_id"), str):
            yield ImageBlock(file_id=value["file_id"])
        elif kind == "image_url" and (found := image_of(value)) is not None:
            yield found
        elif kind in ("video_url", "input_audio") and (file := file_of(part)) is not None:
            yield file
        elif kind == "steer" and isinstance(value, str):
            yield UserMessage(content=value, timestamp=when)
        elif part is not None and kind not in _SHOWN:
            yield OpaqueBlock(dialect=API, value=part)


def _call(call: dict[str, Any], pairs: Pairing, when: int | None) -> Iterator[Any]:
    function = fields_of(call.get("function")) or call
    name, given = function.get("name"), function.get("args") if "args" in function else function.get("arguments")
    yield pairs.call(call.get("id"), name, given)
    output = function.get("output") if "output" in function else call.get("output")
    if isinstance(output, str):
        yield pairs.result(call.get("id"), name, output, timestamp=when)


def _files(given: Any) -> Iterable[Block]:
    for item in listed_in(given):
        kind, id = optional(item.get("type")), optional(item.get("file_id"))
        if id is not None and (kind or "").startswith("image/"):
            yield ImageBlock(file_id=id, mime_type=kind)
        elif id is not None:
            yield DocumentBlock(file_id=id, mime_type=kind, title=optional(item.get("filename")))


def _messages_in(value: Any) -> list[Any] | None:
    if not isinstance(value, dict) or not isinstance(value.get("conversationId"), str):
        return None
    messages = value.get("messages") if "messages" in value else value.get("messagesTree")
    if not isinstance(messages, list):
        return None
    return messages if all(map(_is_message, messages)) else None


def _is_message(item: Any) -> bool:
    return isinstance(item, dict) and "messageId" in item


def split(value: Any) -> list[Any] | None:
    """The conversations of a list of several."""
    several = isinstance(value, list) and len(value) > 1 and all(_messages_in(item) is not None for item in value)
    return value if several else None


@reading(API)
def decode(data: Any) -> Conversation:
    """One exported conversation."""
    body = body_of(data, API)
    wire = body[0] if isinstance(body, list) and len(body) == 1 else body
    if split(wire):
        raise BadWire(API, f"{len(wire)} conversations: take one of them")
    messages = _messages_in(wire)
    if messages is None:
        raise BadWire(API, "expected `messages` with a `messageId` beside a `conversationId`", "$.messages")
    return templates.keep(read(_Reader(wire, lambda: messages), messages), body, API)


@reading(API)
def listed(header: Record, messages: ReadAgain) -> SessionStream:
    """One exported conversation, one entry at a time; what is nested in a message is in memory with it."""
    if _messages_in(header) is None or not all(map(_is_message, messages())):
        raise BadWire(API, "expected `messages` with a `messageId` beside a `conversationId`", "$.messages")
    return TemplateStream(_Reader(header, messages), messages, API, "messages", header)


def detect(value: Any) -> str | None:
    """Whether a document is an exported conversation, or a list of them."""
    values = value if isinstance(value, list) else [value]
    if values and all(_messages_in(item) is not None for item in values):
        return "`messages` with a `messageId` beside a `conversationId`"
    return None


FORMAT = templates.file_format(
    API, decode, detect=detect, split=split, rank=20, listed=ListedSession(("messages",), listed)
)
