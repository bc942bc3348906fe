"""DeepSeek: a conversation of its data export, a `mapping` of nodes whose messages are `fragments`.

The tree is that of ChatGPT's export, without a current node: the last leaf is where it stands. A fragment is a REQUEST
of the person, a RESPONSE of the model, or what it thought (THINK); others are files of the person's, or what the model
looked up.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...values.compact import IdSet
from ...values.messages import AssistantMessage, Block, OpaqueBlock, TextBlock, ThinkingBlock, UserMessage
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import body_of, fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from . import templates
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, read
from .reading import Documents, Node, parents_first, placed
from .reading import listed as listed_in
from .records import milliseconds

API = "deepseek-export"


_ANSWERS = ("RESPONSE", "TEMPLATE_RESPONSE")


_NODES = ("mapping", ".mapping")


class _Reader(Reader):
    """Reads the nodes of a conversation, which is given with or without them."""

    def __init__(self, wire: Record) -> None:
        self._title, self._end = optional(wire.get("title")), optional(wire.get("current_node"))
        self._known = IdSet()
        self._is_answer = bytearray()

    def order(self, records: Iterable[tuple[str, Record]]) -> "array[int] | None":
        """Also finds out which messages are answers, if they are not marked: the turns alternate."""
        parents: dict[str, str | None] = {}
        has_message = bytearray()
        links: list[tuple[str, str | None]] = []
        for key, node in records:
            parents[key] = optional(node.get("parent"))
            has_message.append(isinstance(node.get("message"), dict))
            links.append((optional(node.get("id")) or key, parents[key]))
            self._known.add(links[-1][0])
        order = parents_first(links)
        counted = dict(zip(parents, has_message, strict=True))
        depths: dict[str, int] = {}
        answers = bytearray(_depth(parents, counted, key, depths) % 2 == 0 for key in parents)
        self._is_answer = answers if order is None else bytearray(answers[at] for at in order)
        return order

    def entries(self, records: Iterable[tuple[str, Record]]) -> Iterator[Entry]:
        self.head, model = None, None
        for entry in placed(self._nodes(records), self._known):
            if isinstance(entry.message, AssistantMessage):
                model = entry.message.model or model
            if entry.id is not None and entry.id == self._end:
                self.head = entry.id
            yield entry
        self.about = Conversation(
            title=self._title, model=ModelDescriptor(id=model, provider="deepseek") if model else None
        )

    def _nodes(self, records: Iterable[tuple[str, Record]]) -> Iterator[Node]:
        for (key, node), answer in zip(records, self._is_answer, strict=True):
            record = node.get("message")
            messages = [*_messages(record, answer=bool(answer))] if isinstance(record, dict) else []
            yield optional(node.get("id")) or key, optional(node.get("parent")), messages


def _depth(parents: dict[str, str | None], counted: dict[str, int], key: str, known: dict[str, int]) -> int:
    """How many messages there are down to a node, its own included."""
    above: list[str] = []
    at: str | None = key
    while at is not None and at in parents and at not in known and len(above) <= len(parents):
        above.append(at)
        at = parents[at]
    depth = known.get(at or "", 0)
    for node in reversed(above):
        depth += counted[node]
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


DOCUMENTS = Documents(
    API, _is_conversation, "a `mapping` of nodes whose messages have `fragments`", "conversations", "$.mapping"
)


@reading(API)
def decode(data: Any) -> Conversation:
    """Decodes one conversation, single or in a list of one."""
    body = body_of(data, API)
    wire = DOCUMENTS.only(body)
    conversation = read(_Reader(wire), list(wire["mapping"].items()))
    return templates.keep(conversation, body, API, places=[_place(body)])


def _place(body: Any) -> str:
    return _NODES[isinstance(body, list)]


@reading(API)
def listed(header: Any, nodes: ReadAgain) -> SessionStream:
    """The same, one entry at a time."""
    place, wire = _place(header), header[0] if isinstance(header, list) else header
    return TemplateStream(_Reader(wire), nodes, API, place, header, keyed=True, places=[place])


def archive(members: Mapping[str, bytes]) -> Iterable[Any] | None:
    """The conversations of an export as it is downloaded: `conversations.json` beside `user.json`."""
    for name in members:
        if name.rpartition("/")[2] == "conversations.json" and _is_conversation(next(listed_in(members, name), None)):
            return listed_in(members, name)
    return None


FORMAT = templates.file_format(
    API,
    decode,
    detect=DOCUMENTS.detect,
    split=DOCUMENTS.split,
    archive=archive,
    rank=20,
    listed=ListedSession((), listed, nodes=_NODES),
)
