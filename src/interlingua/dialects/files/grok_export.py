"""Grok: an export of `conversations`, each a `conversation` and its `responses`, or with plain `messages`.

A response says who sent it (`human`, or the assistant in any spelling) and which it answers. `message` is its text,
`thinking_trace` what the model thought, `metadata.requestModelDetails.modelId` the model that a person asked.
"""

from collections.abc import Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Block, ImageBlock, SystemMessage, TextBlock, ThinkingBlock, UserMessage
from ...values.request import Conversation, ModelDescriptor
from ..residual import body_of, fields_of, optional, reading
from . import templates
from .reading import Node, ending, entries_of, seconds
from .records import milliseconds

API = "grok-export"


def _nodes(wire: dict[str, Any]) -> Iterator[Node]:
    before, model = None, None
    for item in wire["responses"] if "responses" in wire else wire.get("messages") or ():
        record = item["response"] if isinstance(item, dict) and isinstance(item.get("response"), dict) else item
        if not isinstance(record, dict):
            continue
        id = optional(record.get("response_id")) or optional(record.get("responseId")) or optional(record.get("_id"))
        keys = [key for key in ("parent_response_id", "parentResponseId") if key in record]
        parent = optional(record[keys[0]]) if keys else before
        details = fields_of(fields_of(record.get("metadata")).get("requestModelDetails"))
        model = optional(record.get("model")) or optional(details.get("modelId")) or model
        yield id, parent, [_message(record, model)]
        before = id


def _message(record: dict[str, Any], model: str | None) -> Any:
    sender = str(record.get("sender") or record.get("role")).lower()
    text = record.get("message") if "message" in record else record.get("content")
    when = _moment(record.get("create_time") or record.get("createTime") or record.get("timestamp"))
    blocks: list[Block] = [
        ImageBlock(url=item) if item.startswith("https:") else ImageBlock(file_id=item)
        for key in ("image_attachments", "generated_image_urls")
        for item in record.get(key) or ()
        if isinstance(item, str)
    ]
    texts = [TextBlock(text=text)] if isinstance(text, str) else []
    if sender in ("human", "user"):
        return UserMessage(content=(*blocks, *texts), timestamp=when)
    if sender == "system":
        return SystemMessage(content=tuple(texts), timestamp=when)
    trace = record.get("thinking_trace")
    thought = [ThinkingBlock(thinking=trace)] if isinstance(trace, str) and trace else []
    return AssistantMessage(content=(*thought, *texts, *blocks), model=model, timestamp=when)


def _moment(value: Any) -> int | None:
    """A moment as text, as a number, or as MongoDB's export writes it."""
    inner = fields_of(fields_of(value).get("$date")).get("$numberLong")
    if isinstance(inner, str) and inner.lstrip("-").isdigit():
        return int(inner)
    return milliseconds(value) if isinstance(value, str) else seconds(value)


def _is_conversation(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("responses"), list):
        return isinstance(value.get("conversation"), dict)
    messages = value.get("messages")
    named = isinstance(value.get("title"), str) and isinstance(messages, list) and "role" not in value
    return named and all(isinstance(item, dict) and "role" in item and "content" in item for item in messages or ())


def _conversations(value: Any) -> list[Any] | None:
    """The conversations of an export. A list of turns is ShareGPT's."""
    found = value.get("conversations") if isinstance(value, dict) else None
    return found if isinstance(found, list) and found and all(map(_is_conversation, found)) else None


def split(value: Any) -> list[Any] | None:
    """The conversations of a whole export, if it holds several: each as an export of one, by which it is known."""
    found = _conversations(value)
    return [{"conversations": [one]} for one in found] if found is not None and len(found) > 1 else None


@reading(API)
def decode(data: Any) -> Conversation:
    """Decodes one conversation, single or in a list of one."""
    body = body_of(data, API)
    found = _conversations(body)
    if found is not None and len(found) > 1:
        raise BadWire(API, f"an export of {len(found)} conversations: take one of them")
    wire = found[0] if found else body
    if not _is_conversation(wire):
        raise BadWire(API, "expected `conversations` of a `conversation` and its `responses`", "$.conversations")
    about = fields_of(wire.get("conversation")) or wire
    entries = entries_of(_nodes(wire))
    models = [entry.message.model for entry in entries if isinstance(entry.message, AssistantMessage)]
    model = next((model for model in reversed(models) if model), None)
    conversation = Conversation(
        entries=entries,
        head=ending(entries, about.get("leaf_response_id")),
        title=optional(about.get("title")),
        model=ModelDescriptor(id=model, provider="xai") if model else None,
    )
    return templates.keep(conversation, body, API)


def detect(value: Any) -> str | None:
    """Whether a document is an export, or one conversation of it."""
    if _conversations(value) is not None:
        return "`conversations` with `responses` or titled `messages`"
    if isinstance(value, dict) and "responses" in value and _is_conversation(value):
        return "a `conversation` and its `responses`"
    return None


FORMAT = templates.file_format(API, decode, detect=detect, split=split, array="conversations", rank=20)
