"""OpenAssistant's conversations (OASST): trees of a `prompt` with its `replies`, or their messages one by one.

People wrote all of it: `prompter` asks, `assistant` answers. The replies to a message were ranked; the path takes the
best of them each time, and the others are branches. Messages one by one name their parent and their tree.
huggingface.co/datasets/OpenAssistant/oasst1
"""

from collections.abc import Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Message, UserMessage
from ...values.request import Conversation, Entry
from ..residual import body_of, number, optional, reading
from ..wire import Parts, RecordLists
from . import templates
from .program_content import items
from .reading import Documents, Node, entries_of, several
from .records import milliseconds

API = "oasst"

_ROLES = ("prompter", "assistant")


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("message_id"), str)
        and isinstance(value.get("text"), str)
        and value.get("role") in _ROLES
    )


def _is_row(value: Any) -> bool:
    return _is_message(value) and "message_tree_id" in value


def _is_one(value: Any) -> bool:
    """Whether a value is a tree, or the messages of one."""
    if not isinstance(value, list):
        return isinstance(value, dict) and _is_message(value.get("prompt")) and "message_tree_id" in value
    return bool(value) and all(map(_is_row, value)) and len({row["message_tree_id"] for row in value}) == 1


DOCUMENTS = Documents(
    API, _is_one, "a `prompt` with its `replies`, or messages that name their tree", "trees", "$.prompt"
)


def _message(record: dict[str, Any]) -> Message:
    when = milliseconds(record.get("created_date"))
    if record["role"] == "prompter":
        return UserMessage(content=record["text"], timestamp=when)
    model = optional(record.get("model_name")) or None
    return AssistantMessage(content=record["text"], model=model, timestamp=when)


def _nodes(record: dict[str, Any], parent: str | None = None) -> Iterator[Node]:
    """The nodes of a tree, from the root on."""
    waiting = [(record, parent)]
    while waiting:
        one, above = waiting.pop()
        yield one["message_id"], above, [_message(one)]
        replies = [reply for reply in items(one.get("replies")) if _is_message(reply)]
        waiting += [(reply, one["message_id"]) for reply in reversed(replies)]


def _ranks(value: Any) -> dict[str, float]:
    """The rank of each message that has one, the best being 0."""
    waiting: list[Any] = [value["prompt"]] if isinstance(value, dict) else list(value)
    found = {}
    while waiting:
        one = waiting.pop()
        rank = number(one.get("rank"))
        if rank is not None:
            found[one["message_id"]] = rank
        waiting += [reply for reply in items(one.get("replies")) if _is_message(reply)]
    return found


def _head(entries: tuple[Entry, ...], ranks: dict[str, float]) -> str | None:
    """Where the best replies lead: those without a rank come after the others."""
    replies: dict[str | None, list[str]] = {}
    for entry in entries:
        replies.setdefault(entry.parent_id, []).append(entry.id or "")
    at: str | None = None
    while replies.get(at):
        at = min(replies[at], key=lambda id: ranks.get(id, float("inf")))
    return at


@reading(API)
def decode(data: Any) -> Conversation:
    """One tree."""
    body = body_of(data, API)
    value = DOCUMENTS.only(body)
    if isinstance(value, dict):
        nodes = _nodes(value["prompt"])
    else:
        nodes = ((row["message_id"], optional(row.get("parent_id")), [_message(row)]) for row in value)
    entries = entries_of(nodes)
    if len({entry.id for entry in entries}) < len(entries):
        raise BadWire(API, "two messages have the same id")
    conversation = Conversation(entries=entries, head=_head(entries, _ranks(value)))
    return templates.keep(conversation, body, API)


def split(value: Any) -> list[Any] | None:
    """The trees of a list, or the messages of each tree."""
    if DOCUMENTS.split(value):
        return list(value)
    if not isinstance(value, list) or not value or not all(map(_is_row, value)) or _is_one(value):
        return None
    return several(PARTS, value)


def detect(value: Any) -> str | None:
    """Whether a value is a tree, several, or their messages."""
    if isinstance(value, list) and value and all(map(_is_row, value)):
        return DOCUMENTS.shape
    return DOCUMENTS.detect(value)


def _tree_of(row: Any) -> Any:
    if not _is_row(row):
        raise BadWire(API, "expected messages with a `message_tree_id`")
    return row["message_tree_id"]


def _trees(header: list[Any], lists: RecordLists) -> Iterator[Any]:
    """The messages of each tree."""
    return map(type(header), lists.grouped(_tree_of, "").values())


PARTS = Parts(_trees, ("",))
FORMAT = templates.file_format(API, decode, detect=detect, split=split, parts=PARTS, mixed_lines=True, rank=20)
