"""Sessions that are read in one pass over their records: all of them in memory, or entry by entry if a file is large.

A format has a `Reader`. It yields an entry as soon as no later record can change it, so `decode` collects its entries
and `stream` hands them on. What depends on records that follow is found by an earlier pass.

    FORMAT = line_format(API, lambda lines: _Reader(), detect=detect)  # JSON lines
    FORMAT = document_format(API, "messages", _reader, "a thread with `messages`", detect=detect)
"""

import itertools
import operator
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from msgspec.structs import replace

from ...values.errors import BadWire, FormatError, InterlinguaError
from ...values.messages import AssistantMessage, Extra, Message
from ...values.request import Conversation, Entry
from ..residual import body_of, reading
from ..wire import FileFormat, ListedSession, SessionStream
from . import templates
from .program_content import conversation_of, inner
from .records import lines_of, objects_in

Record: TypeAlias = dict[str, Any]
ReadAgain: TypeAlias = Callable[[], Iterable[Any]]  # reads the records of a file again
T = TypeVar("T")


@runtime_checkable
class Listed(Protocol):
    """The same of a document; of records that are fields of an object, it reads the keys with the values.

    `beside` are the keys of lists that repeat the records.
    """

    beside: tuple[str, ...]

    def __call__(self) -> Iterable[Any]: ...
    def items(self, key: str) -> Iterator[Any]:
        """The items of a list."""
        ...

    def pick(self, numbers: Iterable[int]) -> Iterator[Any]:
        """The records with these numbers, in this order."""
        ...


class Reader(ABC):
    """Reads a session from its first record to its last, again and again.

    `about` (without entries and head), `head` and `parents` are known when the entries are exhausted. `parents`: the
    entries are messages alone, and this is the place of each one's parent, or -1; None if they are in a row.
    """

    about = Conversation()
    head: str | None = None
    parents: "array[int] | None" = None

    @abstractmethod
    def entries(self, records: Iterable[Any]) -> Iterator[Entry]:
        """The entries, in order."""

    def order(self, records: Iterable[Any]) -> "array[int] | None":
        """The numbers of the records in the order in which `entries` is given them; None if they are in it."""
        return None


def by_time(moments: Sequence[Any]) -> "array[int] | None":
    """The order of records by these; None if they are in it."""
    order = array("Q", sorted(range(len(moments)), key=moments.__getitem__))
    return None if all(map(operator.eq, order, itertools.count())) else order


class RowReader(Reader):
    """Reads messages in a row. `fields` are those of the conversation, known when the messages are exhausted.

    The model is the one that answered last, unless the fields name one.
    """

    fields: dict[str, Any] = {}

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        model: str | None = None
        for message in self.messages(records):
            if isinstance(message, AssistantMessage) and message.model:
                model = message.model
            yield Entry(message=message)
        self.about = conversation_of((), **{**self.fields, "model": self.fields.get("model") or model})

    @abstractmethod
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        """The messages, in order."""


class TreeReader(RowReader):
    """Reads messages of a log that can take them back: those stay in the tree, off the path.

    `messages` adds a place to the tree for each message. The fields name the model.
    """

    def __init__(self) -> None:
        self.tree = Branches()

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        self.tree = tree = Branches()
        yield from (Entry(message=message) for message in self.messages(records))
        self.about = conversation_of((), **self.fields)
        self.parents, self.head = (None, None) if tree.is_row else (tree.parents, tree.head)


class Branches:
    """The places of messages in a log: the parent of each, or -1, and the path of those that count."""

    def __init__(self) -> None:
        self.parents = array("i")
        self.path = array("i")
        self.is_row = True

    def add(self, message: T) -> T:
        """Puts a message at the end of the path, and returns it."""
        at = len(self.parents)
        self.parents.append(self.path[-1] if self.path else -1)
        self.path.append(at)
        return message

    def cut(self, number: int) -> None:
        """Takes back all but the first messages of the path."""
        if number < len(self.path):
            del self.path[number:]
            self.is_row = False

    @property
    def head(self) -> str | None:
        return f"m{self.path[-1]}" if self.path and self.path[-1] != len(self.parents) - 1 else None


def _placed(entries: Iterable[Entry], parents: "array[int] | None") -> Iterable[Entry]:
    """The entries with ids and parents, if there are branches."""
    if parents is None:
        return entries
    return (
        Entry(message=entry.message, id=f"m{at}", parent_id=None if parent < 0 else f"m{parent}")
        for at, (entry, parent) in enumerate(zip(entries, parents, strict=True))
    )


def read(reader: Reader, records: list[Any]) -> Conversation:
    """The conversation of records in memory."""
    order = reader.order(records)
    entries = tuple(reader.entries(records if order is None else [records[at] for at in order]))
    return replace(reader.about, entries=tuple(_placed(entries, reader.parents)), head=reader.head)


def read_lines(reader: Reader, raws: Iterable[bytes], api: str) -> Conversation | None:
    """The conversation of a file, no line of which is in memory for longer than needed; None if they have to be."""

    @reading(api)
    def entries() -> tuple[Entry, ...]:
        return tuple(reader.entries(objects_in(raws, api)))

    try:
        found = entries()
    except InterlinguaError:
        return None
    return replace(reader.about, entries=found, head=reader.head)


class EntryStream:
    """A session one entry at a time."""

    def __init__(self, reader: Reader, records: ReadAgain) -> None:
        self._reader, self._records = reader, records
        numbers = reader.order(records())
        if numbers is not None and not isinstance(records, Listed):
            raise FormatError("the records are in another order than their messages; read the file", "$")
        self._order = None if numbers is None else templates.RecordOrder(numbers, records.pick)  # type: ignore[attr-defined]
        self.about = self._survey()
        self.head, self._parents = reader.head, reader.parents

    def _survey(self) -> Conversation:
        for _ in self._reader.entries(self._in_order()):
            pass
        return self._reader.about

    def _in_order(self) -> Iterable[Any]:
        return self._records() if self._order is None else self._order.read()

    def entries(self) -> Iterator[Entry]:
        return iter(_placed(self._reader.entries(self._in_order()), self._parents))


class TemplateStream(EntryStream):
    """The same of a file that is kept as a template: `about` has its beginning, since all of it is large.

    The file is JSON lines; or a document, given as `header`, with the records at a key, or ("") a list of them.
    `keyed`: the records are the fields of an object at the key. `places` as in `templates.keep`.
    """

    def __init__(
        self,
        reader: Reader,
        records: ReadAgain,
        api: str,
        key: str | None = None,
        header: Any = None,
        *,
        keyed: bool = False,
        places: Sequence[str] = (),
    ) -> None:
        self._api, self._key, self._header, self._keyed, self._places = api, key, header or {}, keyed, places
        self._template: templates.LargeTemplate | None = None
        super().__init__(reader, records)

    def _survey(self) -> Conversation:
        records = iter(self._records())
        first = list(itertools.islice(records, templates.FIRST))
        beginning = templates.Beginning(self._around(dict(first) if self._keyed else first))
        if self._order is None:
            given: Iterable[Any] = itertools.chain(first, records)
        else:  # those of the beginning are the same objects
            placed = zip(self._order.numbers, self._order.read(), strict=True)
            given = (first[at] if at < len(first) else record for at, record in placed)
        beginning.read(self._reader.entries(given))
        return beginning.kept(self._reader.about, self._api, lines=self._key is None, places=self._places)

    def _around(self, records: Any) -> Any:
        """The document with these records."""
        return templates.put(self._header, self._key, lambda _: records) if self._key else records

    def extra(self) -> Extra:
        """That of `about`, with all of the file."""
        if self._template is None:
            self._template = templates.LargeTemplate(self._reader, self._records, self._header, self._order)
        template = self._template
        records = templates.LongList(len(template), template.records, is_keyed=self._keyed)
        kept = self.about.extra[self._api]
        body = templates.put(template.header, self._key, lambda _: records) if self._key else records
        listed = self._records
        if isinstance(listed, Listed):
            for key in listed.beside:
                body = templates.put(body, key, partial(self._repeated, listed, key, template))
        return {**self.about.extra, self._api: {**kept, templates.FILE: [body]}}

    def _repeated(self, listed: Listed, key: str, template: templates.LargeTemplate, _: Any) -> templates.LongList:
        """A list that repeats the records."""
        count = sum(1 for _ in listed.items(key))
        return templates.LongList(count, lambda: map(template.beside, listed.items(key)))


def line_format(api: str, reader: Callable[[ReadAgain], Reader], **fields: Any) -> FileFormat:
    """A format of JSON lines that are kept as a template, with more fields of its `FileFormat`.

    `reader` returns what reads the lines of a session, or raises `BadWire` if they are not of the format.
    """

    @reading(api)
    def decode(data: Any) -> Conversation:
        lines = lines_of(data, api)
        return templates.keep(read(reader(lambda: lines), lines), lines, api, lines=True)

    @reading(api)
    def stream(lines: ReadAgain) -> SessionStream:
        return TemplateStream(reader(lines), lines, api)

    decode.__module__ = reader.__module__
    return templates.file_format(api, decode, lines=True, stream=stream, **fields)


def document_format(
    api: str, key: str, reader: Callable[[Record, ReadAgain], Reader | None], shape: str, **fields: Any
) -> FileFormat:
    """The same of one JSON document with a list of records at `key`; errors name the expected `shape`.

    `reader` is given the document, of a large file without the records, and what reads them; it returns None if they
    are not of the format.
    """

    def checked(document: Any, records: ReadAgain) -> Reader:
        found = reader(document, records) if isinstance(inner(document, key), list) else None
        if found is None:
            raise BadWire(api, f"expected {shape}")
        return found

    @reading(api)
    def decode(data: Any) -> Conversation:
        body = body_of(data, api)
        records = inner(body, key)
        return templates.keep(read(checked(body, lambda: records), records), body, api)

    @reading(api)
    def listed(header: Record, records: ReadAgain) -> SessionStream:
        return TemplateStream(checked(header, records), records, api, key, header)

    decode.__module__ = reader.__module__
    return templates.file_format(api, decode, listed=ListedSession((key,), listed), **fields)
