"""Files that are read and returned: a conversation keeps its file as a template with holes where its texts stood.

Exports and logs say much that no conversation holds, in shapes that change with every release. A format that is read
through a template is its decoder alone: whatever the decoder takes out of the file (texts, thinking, arguments, data of
pictures, the title) becomes a reference to the place where it now is, and all else stays as it was. Encoding fills the
holes again, so the file comes back as equal JSON, and what was changed since is written as it is now. Changes that no
hole holds are reported as losses; new messages are refused, since nothing says how the program would have written them.

    return templates.keep(Conversation(entries=...), body, API)      # in decode
    return templates.give_back(conversation, API, decode)            # in encode

A hole is `{"~": [entry, block, field]}`, `{"~": [entry, field]}`, `{"~": [field]}` (of the conversation) or `{"~":
["request", wire]}` (all of it, as a request); an object of the file that looks like one is written `{"~": {"as":
object}}`.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from ...values.errors import Unsupported
from ...values.folding import arguments_text
from ...values.losses import Encoded, Lines, Loss, Losses, SupportTable
from ...values.messages import (
    AudioBlock,
    Block,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    TextBlock,
    ThinkingBlock,
    ToolCall,
)
from ...values.request import Conversation, Entry, is_aside
from .. import dialect
from ..comparison import entry_losses
from ..residual import with_residual
from . import records as _records

FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT
WHY = _records.WHY

FILE = "~file"  # of a conversation: the template of its file, in a list of one
LINE = "~lines"  # of a conversation: its file is JSON lines
COUNT = "~entries"  # of a conversation: how many entries the file holds
RECORD = "record"  # the field of a custom message that holds a record of the file as it is
PLACEHOLDER = "~"
REQUEST = "request"
LONG = 12  # characters: a text this long that stands in the file twice is the same text
FIRST = 5  # records of a file that are its beginning

_FIELDS: dict[type, tuple[str, ...]] = {
    TextBlock: ("text",),
    ThinkingBlock: ("thinking", "thinking_signature"),
    ImageBlock: ("data", "url", "file_id"),
    AudioBlock: ("data", "url", "file_id", "transcript"),
    DocumentBlock: ("data", "text", "url", "file_id"),
    ToolCall: ("arguments", "arguments_text"),
    ServerToolCall: ("arguments",),
    ServerToolResult: ("content",),
    OpaqueBlock: ("value",),
}


def keep(
    conversation: Conversation, body: Any, api: str, *, lines: bool = False, request: tuple[Any, str] | None = None
) -> Conversation:
    """The conversation with its file: `body`, of whose very objects it was made; `lines` if it is a list of JSON lines.

    `request` is the object in it that a wire's dialect read as this conversation, with the wire's name: the dialect
    says it again, so that nothing of it is kept here.
    """
    places: tuple[_Places, _Places] = (
        _places(conversation) if request is None else ({id(request[0]): [REQUEST, request[1]]}, {})
    )
    kept: dict[str, Any] = {FILE: [_with_placeholders(body, *places)], COUNT: len(conversation.entries)}
    if lines or isinstance(body, Lines):
        kept[LINE] = True
    return with_residual(conversation, api, **kept)


def give_back(conversation: Conversation, api: str, decode: Callable[[Any], Conversation]) -> Encoded:
    """The file that was read, with the texts that the conversation has now."""
    kept = conversation.extra.get(api, {})
    if FILE not in kept:
        raise Unsupported(api, f"a conversation of this format {WHY}")
    entries = [entry for entry in conversation.entries if not is_aside(entry)]
    if len(entries) != kept.get(COUNT):
        raise Unsupported(api, f"a message of this format {WHY}", f"$.entries[{kept.get(COUNT)}]")
    try:
        body = _filled(kept[FILE][0], replace(conversation, entries=tuple(entries)))
    except (IndexError, AttributeError, KeyError, TypeError) as error:
        raise Unsupported(api, f"a block of this format {WHY}: {error}", "$.entries") from None
    body = Lines(body) if kept.get(LINE) else body
    return Encoded(body, Losses(lambda: tuple(_changes(conversation, decode(body), api))))


# --- the beginning of a file -----------------------------------------------------------------------------------------


def beginning(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The `extra` of a conversation with the first records of its file alone."""
    return {owner: _begun(kept) for owner, kept in extra.items()}


def _begun(kept: Any) -> Any:
    if not isinstance(kept, dict) or not isinstance(kept.get(FILE), list):
        return kept
    first = body = kept[FILE][0]
    if isinstance(body, dict):
        first = {key: value[:FIRST] if isinstance(value, list) else value for key, value in body.items()}
    elif isinstance(body, list):
        first = body[:FIRST]
    return {**kept, FILE: [first]}


class Beginning:
    """The template of the beginning of a file, whose entries are given one at a time."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._ids, self._texts = set[int](), set[str]()
        self._objects: _Places = {}
        self._contents: _Places = {}
        self._count = 0
        self._note(body)

    def _note(self, value: Any) -> None:
        if isinstance(value, str):
            self._ids.add(id(value))
            self._texts.add(value)
        elif isinstance(value, dict | list):
            self._ids.add(id(value))
            for item in value.values() if isinstance(value, dict) else value:
                self._note(item)

    def read(self, entries: Iterable[Entry]) -> None:
        """Reads all entries."""
        _put(filter(self._is_known, _values(self._counted(entries))), self._objects, self._contents)

    def _is_known(self, placed: tuple[Any, list[Any]]) -> bool:
        value = placed[0]
        return id(value) in self._ids or (isinstance(value, str) and value in self._texts)

    def _counted(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for self._count, entry in enumerate(entries, 1):
            yield entry

    def kept(self, about: Conversation, api: str, *, lines: bool) -> Conversation:
        """The conversation with the beginning of its file; `lines` if it is JSON lines."""
        objects, contents = _places(replace(about, entries=()))
        body = _with_placeholders(self._body, self._objects | objects, self._contents | contents)
        kept = {FILE: [body], COUNT: self._count, **({LINE: True} if lines else {})}
        return with_residual(about, api, **_begun(kept))


# --- holes -----------------------------------------------------------------------------------------------------------


_Places: TypeAlias = dict[Any, list[Any]]


def _places(conversation: Conversation) -> tuple[_Places, _Places]:
    """Where the conversation has each text, by the identity of the file's value and, if it is long, by its content."""
    objects: _Places = {}
    texts: _Places = {}
    about = ((getattr(conversation, field), [field]) for field in ("title", "system"))
    _put(itertools.chain(about, _values(conversation.entries)), objects, texts)
    return objects, texts


def _put(values: Iterable[tuple[Any, list[Any]]], objects: _Places, texts: _Places) -> None:
    """Adds the places of values that have none."""
    for value, place in values:
        if isinstance(value, str):
            if len(value) > 1:  # shorter ones are one object wherever they stand
                objects.setdefault(id(value), place)
                if len(value) >= LONG:
                    texts.setdefault(value, place)
        elif value and isinstance(value, dict | list):
            objects.setdefault(id(value), place)


def _values(entries: Iterable[Entry]) -> Iterator[tuple[Any, list[Any]]]:
    for at, entry in enumerate(entries):
        message: Any = entry.message
        if isinstance(message, CustomMessage):
            yield message.fields.get(RECORD), [at, RECORD]
            continue
        content = message.content
        if isinstance(content, str):
            yield content, [at, "content"]
            continue
        for number, block in enumerate(content or ()):
            if type(block) is TextBlock:  # most are
                yield block.text, [at, number, "text"]
                continue
            for field in _FIELDS[type(block)]:
                yield _field(block, field), [at, number, field]


def _field(block: Block, field: str) -> Any:
    return arguments_text(block) if isinstance(block, ToolCall) and field != "arguments" else getattr(block, field)


def _with_placeholders(value: Any, objects: _Places, texts: _Places) -> Any:
    """A value of the file with a hole wherever something stands that the conversation has."""
    kind = type(value)
    if kind is str:
        place = objects.get(id(value))
        if place is None and len(value) >= LONG:
            place = texts.get(value)
        return value if place is None else {PLACEHOLDER: place}
    if kind is dict:
        place = objects.get(id(value))
        if place is not None:
            return {PLACEHOLDER: place}
        # What is no text and holds none has no hole; most of a file's values are such, or short texts.
        inner = {
            key: item if type(item) in _PLAIN else _with_placeholders(item, objects, texts)
            for key, item in value.items()
        }
        return {PLACEHOLDER: {"as": inner}} if inner.keys() == {PLACEHOLDER} else inner
    if isinstance(value, list | tuple):
        place = objects.get(id(value))
        if place is not None:
            return {PLACEHOLDER: place}
        return [item if type(item) in _PLAIN else _with_placeholders(item, objects, texts) for item in value]
    return value


_PLAIN = frozenset({int, float, bool, type(None)})


def _filled(value: Any, conversation: Conversation) -> Any:
    if isinstance(value, dict):
        if value.keys() != {PLACEHOLDER}:
            return {key: _filled(item, conversation) for key, item in value.items()}
        place = value[PLACEHOLDER]
        if isinstance(place, dict):
            return {key: _filled(item, conversation) for key, item in place["as"].items()}
        return _at(conversation, place)
    return [_filled(item, conversation) for item in value] if isinstance(value, list) else value


def _at(conversation: Conversation, place: list[Any]) -> Any:
    if len(place) == 1:
        return getattr(conversation, place[0])
    if place[0] == REQUEST:
        return dialect(place[1]).encode(conversation).body
    message: Any = conversation.entries[place[0]].message
    if len(place) == 3:
        return _field(message.content[place[1]], place[2])
    return message.fields[RECORD] if place[1] == RECORD else getattr(message, place[1])


# --- what no hole holds ----------------------------------------------------------------------------------------------


def _changes(source: Conversation, again: Conversation, api: str) -> Iterator[Loss]:
    entries: list[Entry] = [entry for entry in source.entries if not is_aside(entry)]
    if len(entries) != len(again.entries):
        yield Loss("$.entries", "entries", "the file is read as other messages now", "weakened")
        return
    yield from entry_losses(source, entries, again, FIELD_SUPPORT, api)
