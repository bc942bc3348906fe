"""DeepSeek: a conversation of its data export, a `mapping` of nodes whose messages are `fragments`.

The tree is that of ChatGPT's export, without a current node: the last leaf is where it stands. A fragment is a REQUEST
of the person, a RESPONSE of the model, or what it thought (THINK); others are files of the person's, or what the model
looked up.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...values.losses import Encoded, SupportTable
from ...values.messages import AssistantMessage, Block, OpaqueBlock, TextBlock, ThinkingBlock, UserMessage
from ...values.request import Conversation, ModelDescriptor
from ..residual import body_of, fields_of, optional, reading
from ..wire import FileFormat
from . import records, templates
from .reading import Documents, Node, ending, entries_of, listed
from .records import milliseconds

API = "deepseek-export"
FIELD_SUPPORT: SupportTable = records.FIELD_SUPPORT


_ANSWERS = ("RESPONSE", "TEMPLATE_RESPONSE")


def _nodes(mapping: dict[str, Any]) -> Iterator[Node]:
    depths: dict[str, int] = {}
    for key, node in mapping.items():
        record = node.get("message")
        yield (
            optional(node.get("id")) or key,
            optional(node.get("parent")),
            [*_messages(record, answer=_depth(mapping, key, depths) % 2 == 0)] if isinstance(record, dict) else [],
        )


def _depth(mapping: dict[str, Any], key: str, known: dict[str, int]) -> int:
    """How many messages there are down to a node, its own included."""
    above: list[str] = []
    at: str | None = key
    while at is not None and at in mapping and at not in known and len(above) <= len(mapping):
        above.append(at)
        at = optional(mapping[at].get("parent"))
    depth = known.get(at or "", 0)
    for node in reversed(above):
        depth += isinstance(mapping[node].get("message"), dict)
        known[node] = depth
    return depth


def _messages(record: dict[str, Any], *, answer: bool) -> Iterator[Any]:
    when, model = milliseconds(record.get("inserted_at")), optional(record.get("model")) or None
    fragments = record.get("fragments")
    asked: list[Block] = []
    answered: list[Block] = []
    given = list(fragments) if isinstance(fragments, list) else list(_older(record, answer))
    is_asked = any(fields_of(fragment).get("type") == "REQUEST" for fragment in given)
    for fragment in given:
        kind, text = fields_of(fragment).get("type"), fields_of(fragment).get("content")
        if kind == "REQUEST" and isinstance(text, str):
            asked.append(TextBlock(text=text))
        elif kind == "THINK" and isinstance(text, str):
            answered.append(ThinkingBlock(thinking=text))
        elif kind in _ANSWERS and isinstance(text, str):
            answered.append(TextBlock(text=text))
        elif fragment is not None:  # a file of the person's, or what the model looked up
            (asked if is_asked else answered).append(OpaqueBlock(dialect=API, value=fragment))
    if asked or not answered:
        yield UserMessage(content=tuple(asked), timestamp=when)
    if answered:
        yield AssistantMessage(content=tuple(answered), model=model, timestamp=when)


def _older(record: dict[str, Any], answer: bool) -> Iterable[dict[str, Any]]:
    """The same of exports before fragments: `content` and `reasoning_content`; without a role the turns alternate."""
    if str(record["role"]).upper() == "USER" if "role" in record else not answer:
        return [{"type": "REQUEST", "content": record.get("content")}]
    thought = record.get("reasoning_content") or record.get("thinking_content")
    return [
        *([{"type": "THINK", "content": thought}] if thought else []),
        {"type": "RESPONSE", "content": record.get("content")},
    ]


def _is_conversation(value: Any) -> bool:
    mapping = value.get("mapping") if isinstance(value, dict) else None
    if not isinstance(mapping, dict) or not all(isinstance(node, dict) for node in mapping.values()):
        return False
    messages = [fields_of(node.get("message")) for node in mapping.values()]
    if any("author" in message for message in messages):  # ChatGPT's
        return False
    return any("fragments" in message or "reasoning_content" in message for message in messages) or (
        "inserted_at" in value and not any(messages)
    )


DOCUMENTS = Documents(API, _is_conversation, "a `mapping` of nodes whose messages have `fragments`", "conversations")


@reading(API)
def decode(data: Any) -> Conversation:
    """Decodes one conversation, single or in a list of one."""
    body = body_of(data, API)
    wire = DOCUMENTS.only(body, "$.mapping")
    entries = entries_of(_nodes(wire["mapping"]))
    models = [entry.message.model for entry in entries if isinstance(entry.message, AssistantMessage)]
    model = next((model for model in reversed(models) if model), None)
    conversation = Conversation(
        entries=entries,
        head=ending(entries, wire.get("current_node")),
        title=optional(wire.get("title")),
        model=ModelDescriptor(id=model, provider="deepseek") if model else None,
    )
    return templates.keep(conversation, body, API)


def encode(conversation: Conversation) -> Encoded:
    """The conversation as it stood in the export."""
    return templates.give_back(conversation, API, decode)


def archive(members: Mapping[str, bytes]) -> Iterable[Any] | None:
    """The conversations of an export as it is downloaded: `conversations.json` beside `user.json`."""
    for name in members:
        if name.rpartition("/")[2] == "conversations.json" and _is_conversation(next(listed(members, name), None)):
            return listed(members, name)
    return None


FORMAT = FileFormat(
    name=API,
    codec=sys.modules[__name__],
    detect=DOCUMENTS.detect,
    split=DOCUMENTS.split,
    archive=archive,
    writable=False,
    rank=20,
)
