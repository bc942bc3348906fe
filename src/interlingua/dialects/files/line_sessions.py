"""Sessions that are read in one pass over their records: all of them in memory, or entry by entry if a file is large.

A format has a `Reader`. It yields an entry as soon as no later record can change it, so `decode` collects its entries
and `stream` hands them on. What depends on records that follow is found by an earlier pass.
"""

import itertools
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from msgspec.structs import replace

from ...values.messages import AssistantMessage, Message
from ...values.request import Conversation, Entry
from . import templates
from .program_content import conversation_of

Record: TypeAlias = dict[str, Any]
ReadAgain: TypeAlias = Callable[[], Iterable[Record]]  # reads the records of a file again


class Reader(ABC):
    """Reads a session from its first record to its last, again and again.

    `about` (without entries and head), `head` and `parents` are known when the entries are exhausted. `parents`: the
    entries are messages alone, and this is the place of each one's parent, or -1; None if they are in a row.
    """

    about = Conversation()
    head: str | None = None
    parents: "array[int] | None" = None

    @abstractmethod
    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        """The entries, in order."""


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

    def add(self, message: Message) -> Message:
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


def read(reader: Reader, records: list[Record]) -> Conversation:
    """The conversation of records in memory."""
    entries = tuple(reader.entries(records))
    return replace(reader.about, entries=tuple(_placed(entries, reader.parents)), head=reader.head)


class EntryStream:
    """A session one entry at a time."""

    def __init__(self, reader: Reader, records: ReadAgain) -> None:
        self._reader, self._records = reader, records
        self.about = self._survey()
        self.head, self._parents = reader.head, reader.parents

    def _survey(self) -> Conversation:
        for _ in self._reader.entries(self._records()):
            pass
        return self._reader.about

    def entries(self) -> Iterator[Entry]:
        return iter(_placed(self._reader.entries(self._records()), self._parents))


class TemplateStream(EntryStream):
    """The same of a file that is kept as a template: `about` has its beginning, since all of it is large.

    The file is JSON lines; or an object, given as `header`, with the records at a key, or ("") a list of them.
    """

    def __init__(
        self, reader: Reader, records: ReadAgain, api: str, key: str | None = None, header: Record | None = None
    ) -> None:
        self._api, self._key, self._header = api, key, header
        super().__init__(reader, records)

    def _survey(self) -> Conversation:
        records = iter(self._records())
        first = list(itertools.islice(records, templates.FIRST))
        beginning = templates.Beginning({**(self._header or {}), self._key: first} if self._key else first)
        beginning.read(self._reader.entries(itertools.chain(first, records)))
        return beginning.kept(self._reader.about, self._api, lines=self._key is None)
