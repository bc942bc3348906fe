"""Files that are read and returned: a conversation keeps its file as a template with holes where its texts stood.

Exports and logs have much that no conversation holds, in shapes that change with every release. A format that is read
through a template is its decoder alone: whatever the decoder takes out of the file (texts, thinking, arguments, data of
pictures, the title) becomes a reference to the place where it now is, and all else stays as it was. Encoding fills the
holes again, so the file comes back as equal JSON, and what was changed since is written as it is now. Changes that no
hole holds are reported as losses; new messages are refused: it is not known how the program would write them.

    return templates.keep(Conversation(entries=...), body, API)  # in decode
    FORMAT = templates.file_format(API, decode, detect=detect)

A hole is `{"~": [entry, block, field]}`, `{"~": [entry, field]}`, `{"~": [field]}` (of the conversation) or `{"~":
["request", wire]}` (all of it, as a request); an object of the file that looks like one is written `{"~": {"as":
object}}`. A transcript has the records of a file in lines of their own: `{"~": {"lines": number}}` stands for a list
of them, and `{"~": {"fields": number}}` for an object, of which each line has a key and its value.
"""

import hashlib
import itertools
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol, TypeAlias

from msgspec.structs import replace

from ...values.canonical import DeferredList
from ...values.compact import StringTable
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
from ..wire import FileFormat
from . import records as _records

WHY = _records.WHY

FILE = "~file"  # of a conversation: the template of its file, in a list of one
LINE = "~lines"  # of a conversation: its file is JSON lines
COUNT = "~entries"  # of a conversation: how many entries the file holds
PLACES = "~places"  # of a conversation: where records are in its file, if not in its lists (keys of `ListedSession`)
RECORD = "record"  # the field of a custom message that holds a record of the file as it is
PLACEHOLDER = "~"
REQUEST = "request"
LINES, FIELDS = "lines", "fields"
LONG = 12  # characters: a text this long that stands in the file twice is the same text
FIRST = 5  # records of a file that are its beginning
NEAR = 100  # entries: so far from one another are those of a record
FAR = 1000  # entries that are in memory beside these, at most
is_unshared: ContextVar[bool] = ContextVar(
    "is_unshared", default=False
)  # nobody else has, and can change, what is decoded
WINDOW = 4 << 20  # characters, about: records of a large file whose texts may be in an entry that is not read yet

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
    conversation: Conversation,
    body: Any,
    api: str,
    *,
    lines: bool = False,
    places: Sequence[str] = (),
    request: tuple[Any, str] | None = None,
) -> Conversation:
    """The conversation with its file: `body`, of whose very objects it was made; `lines` if it is a list of JSON lines.

    `places` are where its records are, if not in the lists of the document. `request` is the object in it that a wire's
    dialect read as this conversation, with the wire's name: the dialect encodes it again, so that nothing of it is kept
    here.
    """
    lines = lines or isinstance(body, Lines)
    if request is not None:
        made = [_with_placeholders(body, {id(request[0]): [REQUEST, request[1]]}, {})]
    elif lines or is_unshared.get():  # many programs read files and never return them
        body, noted = [*body] if lines else body, [*_changeable(conversation.entries)]
        made = DeferredList([body], partial(_template, body, conversation, noted))
    else:
        made = [_with_placeholders(body, *_places(conversation))]
    kept: dict[str, Any] = {FILE: made, COUNT: len(conversation.entries)}
    if lines:
        kept[LINE] = True
    if places:
        kept[PLACES] = list(places)
    return with_residual(conversation, api, **kept) if conversation.extra else replace(conversation, extra={api: kept})


def give_back(conversation: Conversation, api: str, decode: Callable[[Any], Conversation]) -> Encoded:
    """The file that was read, with the texts that the conversation has now."""
    kept = conversation.extra.get(api, {})
    if FILE not in kept:
        raise Unsupported(api, f"a conversation of this format {WHY}")
    if missing := sum(line_counts({api: kept})):
        raise Unsupported(api, f"{missing} records of the file are not in the transcript that was read; read the file")
    entries = [entry for entry in conversation.entries if not is_aside(entry)]
    if len(entries) != kept.get(COUNT):
        raise Unsupported(api, f"a message of this format {WHY}", f"$.entries[{kept.get(COUNT)}]")
    try:
        body = _filled(kept[FILE][0], replace(conversation, entries=tuple(entries)), entries)
    except (IndexError, AttributeError, KeyError, TypeError) as error:
        raise Unsupported(api, f"a block of this format {WHY}: {error}", "$.entries") from None
    body = Lines(body) if kept.get(LINE) else body
    return Encoded(body, Losses(lambda: tuple(_changes(conversation, decode(body), api))))


class _Codec:
    """The two ways between a file and a conversation that keeps it; the docstring is that of the format's module."""

    FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT

    def __init__(self, api: str, decode: Callable[[Any], Conversation]) -> None:
        self.API, self.decode = api, decode
        self.__doc__ = sys.modules[decode.__module__].__doc__

    def encode(self, conversation: Conversation) -> Encoded:
        """The file that was read."""
        return give_back(conversation, self.API, self.decode)


def file_format(api: str, decode: Callable[[Any], Conversation], **fields: Any) -> FileFormat:
    """A format of which only what was read is encoded, unless the fields of the `FileFormat` have a `write`."""
    return FileFormat(name=api, codec=_Codec(api, decode), writable="write" in fields, **fields)


# --- lists of records ------------------------------------------------------------------------------------------------


class LongList:
    """A list that is too large to be in memory: its items are read each time.

    `is_keyed`: it is an object, whose items are keys with values.
    """

    def __init__(self, length: int, items: Callable[[], Iterable[Any]], *, is_keyed: bool = False) -> None:
        self._length, self._items, self.is_keyed = length, items, is_keyed

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    @classmethod
    def of(cls, value: list[Any] | dict[str, Any]) -> "LongList":
        """The same of a value in memory."""
        if isinstance(value, dict):
            return cls(len(value), value.items, is_keyed=True)
        return cls(len(value), lambda: value)


def beginning(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The `extra` of a conversation with the first records of its file alone."""

    def first(records: LongList) -> Any:
        some = itertools.islice(records, FIRST)
        return dict(some) if records.is_keyed else list(some)

    return _with_lists(extra, first)


def apart(extra: Mapping[str, Any], mark: Callable[[LongList], Any]) -> tuple[dict[str, Any], list[LongList]]:
    """The `extra` of a conversation with a mark in place of each list of records, and the lists."""
    lists: list[LongList] = []

    def marked(records: LongList) -> Any:
        if not len(records):
            return {} if records.is_keyed else []
        lists.append(records)
        return mark(records)

    return _with_lists(extra, marked), lists


def line_mark(records: LongList) -> dict[str, Any]:
    """Stands for records that are in lines of their own."""
    return {PLACEHOLDER: {FIELDS if records.is_keyed else LINES: len(records)}}


def line_counts(extra: Mapping[str, Any]) -> list[int]:
    """The lengths of the lists of records that are in lines of their own."""
    counts: list[int] = []
    joined(extra, lambda count, is_keyed: counts.append(count))
    return counts


def joined(extra: Mapping[str, Any], take: Callable[[int, bool], Any]) -> dict[str, Any]:
    """The `extra` of a conversation with the lists that are in lines of their own.

    `take` returns the next records, given their number and whether they are those of an object.
    """

    def unmarked(value: Any, is_place: bool) -> Any:
        place = value.get(PLACEHOLDER) if isinstance(value, dict) and len(value) == 1 else None
        if not isinstance(place, dict) or len(place) != 1:
            return value
        ((kind, number),) = place.items()
        is_count = kind in (LINES, FIELDS) and type(number) is int and 0 < number < 1 << 40
        return take(number, kind == FIELDS) if is_count else value

    return _changed(extra, unmarked)


def _with_lists(extra: Mapping[str, Any], change: Callable[[LongList], Any]) -> dict[str, Any]:
    """The `extra` with changed lists of records."""

    def changed(value: Any, is_place: bool) -> Any:
        if isinstance(value, LongList):
            return change(value)
        is_list = isinstance(value, list) or (is_place and isinstance(value, dict) and not _is_mark(value))
        return change(LongList.of(value)) if is_list else value

    return _changed(extra, changed)


def _is_mark(value: dict[str, Any]) -> bool:
    return value.keys() == {PLACEHOLDER}


def _changed(extra: Mapping[str, Any], change: Callable[[Any, bool], Any]) -> dict[str, Any]:
    """The `extra` with changed records: the list that a file is, those of an object that it is, or at its `PLACES`.

    `change` is called with whether a value is at such a place, where it may be an object.
    """

    def changed(kept: Any) -> Any:
        if not isinstance(kept, dict) or not isinstance(kept.get(FILE), list) or len(kept[FILE]) != 1:
            return kept
        body, places = kept[FILE][0], kept.get(PLACES)
        if isinstance(places, list) and all(isinstance(place, str) for place in places):
            made = body
            for place in places:
                made = put(made, place, lambda value: change(value, True))
        elif isinstance(body, dict) and not _is_mark(body):
            made = {key: change(value, False) for key, value in body.items()}
        else:
            made = change(body, False)
        return {**kept, FILE: [made]}

    return {owner: changed(kept) for owner, kept in extra.items()}


def places_in(body: Any, keys: Iterable[str]) -> list[str]:
    """Those of the keys that a document has."""
    found: list[Any] = []

    def is_there(key: str) -> bool:
        found.clear()
        put(body, key, found.append)
        return bool(found) and isinstance(found[0], dict | list)

    return list(filter(is_there, keys))


def put(body: Any, place: str, change: Callable[[Any], Any]) -> Any:
    """The document with what is at a place of its records changed; as it is, if it has no such place."""
    return _put_at(body, place.split(".") if place else [], change)


def _put_at(value: Any, steps: list[str], change: Callable[[Any], Any]) -> Any:
    if not steps:
        return change(value)
    if not steps[0]:
        return [_put_at(value[0], steps[1:], change)] if isinstance(value, list) and len(value) == 1 else value
    if not isinstance(value, dict) or steps[0] not in value:
        return value
    return {**value, steps[0]: _put_at(value[steps[0]], steps[1:], change)}


# --- the beginning of a file -----------------------------------------------------------------------------------------


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

    def kept(self, about: Conversation, api: str, *, lines: bool, places: Sequence[str] = ()) -> Conversation:
        """The conversation with the beginning of its file; `lines` if it is JSON lines; `places` as in `keep`."""
        objects, contents = _places(replace(about, entries=()))
        body = _with_placeholders(self._body, self._objects | objects, self._contents | contents)
        kept = {FILE: [body], COUNT: self._count, **({LINE: True} if lines else {})}
        kept |= {PLACES: list(places)} if places else {}
        return with_residual(about, api, **beginning({api: kept})[api])


# --- a large file ----------------------------------------------------------------------------------------------------


class EntryReader(Protocol):
    """Reads entries from records; `about` is known when they are exhausted."""

    about: Conversation

    def entries(self, records: Iterable[Any]) -> Iterator[Entry]:
        """The entries, in order."""
        ...


class RecordOrder:
    """Records that are read in another order than they are in the file: `numbers` are those of their places there."""

    def __init__(self, numbers: "array[int]", read: Callable[[Iterable[int]], Iterable[Any]]) -> None:
        self.numbers, self._read = numbers, read

    def read(self) -> Iterable[Any]:
        return self._read(self.numbers)

    def ranks(self) -> "array[int]":
        """By the place of a record in the file: its number in this order."""
        ranks = array("Q", bytes(8 * len(self.numbers)))
        for rank, number in enumerate(self.numbers):
            ranks[number] = rank
        return ranks


def _value_in(record: Any) -> Any:
    return record[1] if isinstance(record, tuple) else record


class LargeTemplate:
    """The template that `keep` makes of a file, with one record at a time in memory.

    A first pass notes which values of each record the conversation has, and where: some 12 bytes a value, and 50 for a
    long text. A value whose entry comes more than `WINDOW` after its record is a hole only if it is a long text.
    `header` is the document around the records, if they are not all of the file; here, its template. Records that are
    the fields of an object are keys with values.
    """

    def __init__(
        self, reader: EntryReader, records: Callable[[], Iterable[Any]], header: Any, order: "RecordOrder | None" = None
    ) -> None:
        """`reader` has read the records once, in this order."""
        self._records, self._order = records, order
        self._ends = array("Q")  # by record, where its holes end:
        self._numbers = array("I")  # the number of the value in its record
        self._codes = array("Q")  # the place of its text, see `_code`
        self._digests, self._digest_codes = StringTable(), array("Q")  # of long texts, and their first places
        self._window: deque[_Record] = deque()
        self._size = 0  # of the window
        self._known: dict[int, tuple[_Record, int]] = {}  # by identity: the number of a value in its record
        about = reader.about
        self._like_about = {text for text in (about.title, about.system) if isinstance(text, str) and len(text) > 1}
        found: list[tuple[int, int, str]] = []  # texts like those of `about`: record or -1, number, text
        for code, text in enumerate((about.title, about.system)):
            if isinstance(text, str):
                self._note_text(text, code)
        around = _Record(header)
        self._open(around, -1, found)
        for value, place in _values(reader.entries(self._noted(found))):
            self._note(value, _code(place))
        while self._window:
            self._close()
        codes = {id(text): code for code, text in ((1, reader.about.system), (0, reader.about.title))}
        self._of_about: dict[int, dict[int, int]] = {}
        for at, number, text in found:
            if id(text) in codes:
                self._of_about.setdefault(at, {})[number] = codes[id(text)]
        objects = around.objects({**around.holes, **self._of_about.get(-1, {})})
        self.header = _with_placeholders(header, objects, self)

    def __len__(self) -> int:
        return len(self._ends)

    def records(self) -> Iterator[Any]:
        """The templates of the records; reads the file again."""
        ranks: Iterable[int] = range(len(self)) if self._order is None else self._order.ranks()
        for at, (record, rank) in enumerate(zip(self._records(), ranks, strict=True)):
            value = _value_in(record)
            begin, end = self._ends[rank - 1] if rank else 0, self._ends[rank]
            holes = dict(zip(self._numbers[begin:end], self._codes[begin:end], strict=True))
            objects = _Record(value).objects({**holes, **self._of_about.get(at, {})})
            made = _with_placeholders(value, objects, self)
            yield (record[0], made) if isinstance(record, tuple) else made

    def beside(self, value: Any) -> Any:
        """The template of a value that repeats texts of the records."""
        return _with_placeholders(value, {}, self)

    def get(self, text: str) -> list[Any] | None:
        """The first place of a long text."""
        number = self._digests.find(_digest(text))
        return None if number is None else _place(self._digest_codes[number])

    def _noted(self, found: list[tuple[int, int, str]]) -> Iterator[Any]:
        """The records, while their values are known."""
        order = self._order
        records = enumerate(self._records()) if order is None else zip(order.numbers, order.read(), strict=True)
        for at, value in records:
            record = _Record(_value_in(value))
            self._open(record, at, found)
            self._window.append(record)
            self._size += record.size
            while self._size > WINDOW and len(self._window) > 1:
                self._close()
            yield value

    def _open(self, record: "_Record", at: int, found: list[tuple[int, int, str]]) -> None:
        """Lets the values of a record be known."""
        self._known.update((id(value), (record, number)) for number, value in enumerate(record.values))
        found += ((at, n, text) for n, text in enumerate(record.texts) if text in self._like_about)

    def _close(self) -> None:
        """Ends the first record of the window."""
        record = self._window.popleft()
        self._size -= record.size
        for value in record.values:
            del self._known[id(value)]
        self._numbers.extend(record.holes)
        self._codes.extend(record.holes.values())
        self._ends.append(len(self._codes))

    def _note(self, value: Any, code: int) -> None:
        if isinstance(value, str):
            self._note_text(value, code)
        if isinstance(value, str | dict | list) and id(value) in self._known:
            record, number = self._known[id(value)]
            record.holes.setdefault(number, code)

    def _note_text(self, text: str, code: int) -> None:
        if len(text) >= LONG and self._digests.number(_digest(text)) == len(self._digest_codes):
            self._digest_codes.append(code)


class _Record:
    """A record of a large file: its values that may be holes, and the places of those that are, by number."""

    def __init__(self, value: Any) -> None:
        self.values = list(_parts(value))
        self.holes: dict[int, int] = {}

    @property
    def texts(self) -> Iterator[str]:
        """The values; "" for those that are no text."""
        return (value if type(value) is str else "" for value in self.values)

    @property
    def size(self) -> int:
        return 100 * len(self.values) + sum(map(len, self.texts))

    def objects(self, codes: Mapping[int, int]) -> "_Places":
        return {id(self.values[number]): _place(code) for number, code in codes.items()}


def _parts(value: Any) -> Iterator[Any]:
    """The texts, objects and lists in a value that may be holes, in their order."""
    if isinstance(value, str):
        if len(value) > 1:  # shorter ones are one object wherever they stand
            yield value
    elif value and isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            if type(item) not in _PLAIN:
                yield from _parts(item)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest().decode("latin-1")


class LargeFilling:
    """The records of a large file with the texts that its entries have now; these are read one at a time.

    The texts of a record are in entries near those of the records before. Other entries, as the first of many with the
    same text, stay in memory; if there are too many of them, `is_local` is False.
    """

    def __init__(self, about: Conversation, entries: Callable[[], Iterator[Entry]], records: Iterable[Any]) -> None:
        self._about, self._entries, self._records = about, entries, records
        far: set[int] = set()
        reach = 0
        for record in records:
            for number in _entry_numbers(_value_in(record)):
                if abs(number - reach) > NEAR:
                    far.add(number)
                reach = max(reach, number) if number <= reach + NEAR else reach
            if len(far) > FAR:
                break
        self.is_local = len(far) <= FAR
        self._far = {at: entry for at, entry in enumerate(entries()) if at in far} if far and self.is_local else {}

    def records(self) -> Iterator[Any]:
        """The filled records; reads the entries again."""
        known = dict(self._far)
        entries = enumerate(self._entries())
        first, last = 0, -1  # of the entries near the record
        for record in self._records:
            for number in _entry_numbers(_value_in(record)):
                while number not in known and (read := next(entries, None)) is not None:
                    last = read[0]
                    known[last] = read[1]
            filled = _filled(_value_in(record), self._about, known)
            yield (record[0], filled) if isinstance(record, tuple) else filled
            while first < last - 2 * NEAR:
                if first not in self._far:
                    del known[first]
                first += 1

    def fill(self, value: Any) -> Any:
        """What is around the records, filled."""
        numbers = set(_entry_numbers(value))
        found = {at: entry for at, entry in enumerate(self._entries()) if at in numbers} if numbers else {}
        return _filled(value, self._about, found)


def _entry_numbers(template: Any) -> Iterator[int]:
    """The numbers of the entries that a template has holes for."""
    if isinstance(template, dict):
        place = template.get(PLACEHOLDER) if len(template) == 1 else None
        if isinstance(place, list):
            if len(place) > 1 and type(place[0]) is int:
                yield place[0]
            return
        for value in template.values():
            yield from _entry_numbers(value)
    elif isinstance(template, list):
        for value in template:
            yield from _entry_numbers(value)


# --- holes -----------------------------------------------------------------------------------------------------------


_Places: TypeAlias = dict[Any, list[Any]]
_NAMES = tuple(dict.fromkeys(("title", "system", "content", RECORD, *itertools.chain(*_FIELDS.values()))))
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}


def _code(place: list[Any]) -> int:
    """A place as a number: of the title 0, of the system text 1."""
    entry, block = (0, 0) if len(place) == 1 else (place[0] + 1, place[1] + 1 if len(place) == 3 else 0)
    return entry << 29 | block << 5 | _NUMBERS[place[-1]]


def _place(code: int) -> list[Any]:
    entry, block, name = code >> 29, code >> 5 & 0xFFFFFF, _NAMES[code & 31]
    return [name] if not entry else [entry - 1, block - 1, name] if block else [entry - 1, name]


def _template(body: Any, conversation: Conversation, noted: list[Any]) -> list[Any]:
    return [_with_placeholders(body, *_places(conversation, iter(noted)))]


def _places(conversation: Conversation, noted: Iterator[Any] | None = None) -> tuple[_Places, _Places]:
    """Where the conversation has each text, by the identity of the file's value and, if it is long, by its content."""
    objects: _Places = {}
    texts: _Places = {}
    about = ((getattr(conversation, field), [field]) for field in ("title", "system"))
    _put(itertools.chain(about, _values(conversation.entries, noted)), objects, texts)
    return objects, texts


def _changeable(entries: Iterable[Entry]) -> Iterator[Any]:
    """Values that are others when a program changes a dict in an entry: records of custom messages, argument texts."""
    for entry in entries:
        message: Any = entry.message
        if type(message) is CustomMessage:
            yield message.fields.get(RECORD)
        elif type(message.content) is not str:
            for block in message.content or ():
                if type(block) is ToolCall:
                    yield arguments_text(block)


def _put(values: Iterable[tuple[Any, list[Any]]], objects: _Places, texts: _Places) -> None:
    """Adds the places of values that have none."""
    for value, place in values:
        if type(value) is str:
            size = len(value)
            if size > 1:  # shorter ones are one object wherever they stand
                objects.setdefault(id(value), place)
                if size >= LONG:
                    texts.setdefault(value, place)
        elif value and type(value) in (dict, list):
            objects.setdefault(id(value), place)


def _values(entries: Iterable[Entry], noted: Iterator[Any] | None = None) -> Iterator[tuple[Any, list[Any]]]:
    """The values of entries that may stand in a file, with their places; `noted` are those of `_changeable`."""
    for at, entry in enumerate(entries):
        message: Any = entry.message
        if type(message) is CustomMessage:
            yield message.fields.get(RECORD) if noted is None else next(noted), [at, RECORD]
            continue
        content = message.content
        if type(content) is str:
            yield content, [at, "content"]
            continue
        for number, block in enumerate(content or ()):
            if type(block) is TextBlock:  # most are
                yield block.text, [at, number, "text"]
                continue
            for field in _FIELDS[type(block)]:
                is_noted = noted is not None and field == "arguments_text"
                yield next(noted) if is_noted else _field(block, field), [at, number, field]  # type: ignore[arg-type]


def _field(block: Block, field: str) -> Any:
    return arguments_text(block) if isinstance(block, ToolCall) and field != "arguments" else getattr(block, field)


class _Texts(Protocol):
    def get(self, text: str) -> list[Any] | None: ...


def _with_placeholders(value: Any, objects: _Places, texts: _Texts) -> Any:
    """A value of the file with a hole wherever something stands that the conversation has; else the value itself."""
    place = objects.get(id(value))
    if place is None and isinstance(value, str) and len(value) >= LONG:
        place = texts.get(value)
    if place is not None:
        return {PLACEHOLDER: place}
    return _inside(value, objects.get, texts.get) if isinstance(value, (dict, list, tuple)) else value


_Find: TypeAlias = Callable[[Any], list[Any] | None]  # the place of an object's identity, or of a long text


def _inside(value: Any, find: _Find, find_text: _Find) -> Any:
    """The same for the values inside an object or a list. Every value of a file passes here: strings without a call."""
    changed: Any = None
    is_object = type(value) is dict
    for key, item in value.items() if is_object else enumerate(value):
        kind = type(item)
        if kind is str:  # most are
            # A long text is a hole wherever it stands; if it is there twice, each has the place of its own object.
            place = find_text(item) if len(item) >= LONG else find(id(item))
            if place is None:
                continue
            made: Any = {PLACEHOLDER: find(id(item)) or place}
        elif kind is dict or kind is list or kind is tuple:
            place = find(id(item))
            made = {PLACEHOLDER: place} if place is not None else _inside(item, find, find_text)
            if made is item:
                continue
        else:
            continue
        if changed is None:
            changed = value.copy() if is_object else [*value]
        changed[key] = made
    if changed is None:
        changed = [*value] if type(value) is tuple else value
    return {PLACEHOLDER: {"as": changed}} if is_object and len(value) == 1 and PLACEHOLDER in value else changed


_PLAIN = frozenset({int, float, bool, type(None)})


def _filled(value: Any, about: Conversation, entries: Any) -> Any:
    """A template filled with the texts of `entries`, by number."""
    if isinstance(value, dict):
        if value.keys() != {PLACEHOLDER}:
            return {key: _filled(item, about, entries) for key, item in value.items()}
        place = value[PLACEHOLDER]
        if isinstance(place, dict):
            return {key: _filled(item, about, entries) for key, item in place["as"].items()}
        return _at(about, entries, place)
    return [_filled(item, about, entries) for item in value] if isinstance(value, list) else value


def _at(about: Conversation, entries: Any, place: list[Any]) -> Any:
    if len(place) == 1:
        return getattr(about, place[0])
    if place[0] == REQUEST:
        return dialect(place[1]).encode(about).body
    message: Any = entries[place[0]].message
    if len(place) == 3:
        return _field(message.content[place[1]], place[2])
    return message.fields[RECORD] if place[1] == RECORD else getattr(message, place[1])


# --- what no hole holds ----------------------------------------------------------------------------------------------


def _changes(source: Conversation, again: Conversation, api: str) -> Iterator[Loss]:
    entries: list[Entry] = [entry for entry in source.entries if not is_aside(entry)]
    if len(entries) != len(again.entries):
        yield Loss("$.entries", "entries", "the file is read as other messages now", "weakened")
        return
    yield from entry_losses(source, entries, again, _records.FIELD_SUPPORT, api)
