"""Session files too large to be one conversation in memory.

`open_large` yields their entries as `decode` returns them, in formats that have a `stream`: it reads the file several
times, and keeps the ids of the entries.
"""

import contextlib
import io
import itertools
import secrets
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeAlias

from msgspec.structs import replace

from ..dialects import FORMATS
from ..dialects.files import templates, transcript
from ..dialects.wire import ListedSession, PartialStream, SessionStream
from ..values import jsontext, request
from ..values.canonical import plain
from ..values.compact import IdNumbers, StringTable
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Lines
from ..values.request import Conversation, Entry, Placer
from .arrays import (
    CHUNK,
    FIRST,
    Listing,
    Splitter,
    elements,
    first_of,
    parts,
    placed_parts,
    read_element,
    with_lists,
)
from .containers import SourceError
from .converting import decode
from .detection import HEAD, Detection, detect, detect_name, detect_text, holds_lines
from .sources import (
    DAMAGED,
    DEFAULT_LIMIT,
    Source,
    SourceProblem,
    documents,
    first_objects,
    object_around,
    open_binary,
    read_lines,
    text_lines,
    too_long,
)

LARGE = 32 << 20  # bytes: a conversation takes four to five times the size of its file


def is_large(source: Source, least: int | None = None) -> bool:
    """Whether a source is a file of at least so many bytes (`LARGE`)."""
    least = LARGE if least is None else least
    try:
        return source.path is not None and source.member is None and source.path.stat().st_size >= least
    except OSError:
        return False


def detect_large(source: Source) -> Detection | None:
    """The format of a session file, by its first lines or messages; None for a file that is no session."""
    with contextlib.suppress(*DAMAGED, OSError):
        with open_binary(source) as stream:
            found = detect_text(stream.read(HEAD))
        if found is not None:
            return found if _open_text(source, found.dialect, DEFAULT_LIMIT) is not None else None
        with open_binary(source) as stream:
            is_lines = holds_lines(stream)
        if not is_lines:
            listed = ListedRecords.find(source, None)
            return None if listed is None else listed.detection
        with open_binary(source) as stream:
            found = detect(Lines(first_objects(stream)))
        form = FORMATS.get(found.dialect) if found is not None else None
        return found if form is not None and form.lines else None
    return None


def _objects_in(line: bytes, limit: int, first: int) -> tuple[list[dict[str, Any]], str | None]:
    """Returns the objects of a line, or why it has none; `first` is the index of the first."""
    if len(line) > limit:
        return [], too_long(limit)
    try:
        values = jsontext.read_line(line, first)
    except FormatError as error:
        return [], error.message
    return (values, None) if isinstance(values[0], dict) else ([], "expected an object")


def json_parts(items: Iterable[Any], *, keyed: bool) -> Iterator[bytes]:
    """The JSON text of a list, or of an object of keys with values, in parts."""
    separator = b"{" if keyed else b"["
    for item in items:
        yield separator + (jsontext.write({item[0]: item[1]})[1:-1] if keyed else jsontext.write(item))
        separator = b","
    yield (b"" if separator == b"," else separator) + (b"}" if keyed else b"]")


class LargeSession:
    """A conversation whose entries are read from its file each time."""

    def __init__(
        self,
        dialect: str,
        stream: SessionStream,
        lines: Callable[[], Iterator[Any]],
        listed: "ListedRecords | None" = None,
    ) -> None:
        """`listed`: the lines are the items of a list in a document."""
        self.dialect = dialect
        self.listed = listed
        self.about = stream.about  # the conversation without entries and head
        self.lines = lines
        self._stream = stream

    @property
    def is_partial(self) -> bool:
        """Whether `about` lacks records of the file, which a transcript and Interlingua's JSON hold."""
        return isinstance(self._stream, PartialStream)

    def described(self) -> Conversation:
        """`about` with all records of the file."""
        stream = self._stream
        return replace(self.about, extra=stream.extra()) if isinstance(stream, PartialStream) else self.about

    @property
    def is_as_read(self) -> bool:
        """Whether `about` is that of the file."""
        return replace(self.about, problems=()) == self._stream.about

    @property
    def head(self) -> str | None:
        """The id of the current entry, when the entries are read; None if it is the last."""
        return self._stream.head

    def entries(self) -> Iterator[Entry]:
        """The entries, in order."""
        return self._stream.entries()

    def transcript(self) -> Iterator[bytes]:
        """The lines of a transcript."""
        about = self.described()
        for line in transcript.encode_lines(about, self.entries(), lambda: self._stream.head, IdNumbers()):
            yield jsontext.write(line) + b"\n"

    def json(self) -> Iterator[bytes]:
        """The conversation as Interlingua JSON, in parts."""
        separator = b'{"entries":['
        for entry in self.entries():
            yield separator + jsontext.write(plain(entry))
            separator = b","
        about = replace(self.described(), head=self._stream.head)
        mark = secrets.token_hex(16)
        extra, lists = templates.apart(about.extra, lambda records: mark)
        rest = plain(replace(about, extra=extra))
        first, *others = jsontext.write(rest)[1:].split(jsontext.write(mark))
        yield (b"{" if separator != b"," else b"]," if rest else b"]") + first
        for records, after in zip(lists, others, strict=True):
            yield from json_parts(records, keyed=records.is_keyed)
            yield after

    def path(self) -> bytearray:
        """For each entry, whether it is on the path from the root to the head."""
        return self.walk(lambda at, entry, is_next: None)

    def walk(self, visit: Callable[[int, Entry, bool], None]) -> bytearray:
        """Calls `visit` with the index of each entry, the entry, and whether it continues the line of those before it.

        Returns the same as `path`. A conversation without branches is one line.
        """
        return self.tree(visit)[0]

    def tree(self, visit: Callable[[int, Entry, bool], None]) -> tuple[bytearray, "array[int]"]:
        """The same, and the index of each entry's parent, or -1."""
        placer = Placer(places=IdNumbers())
        parents = array("i")
        last: int | None = None  # of the line
        for at, entry in enumerate(self.entries()):
            parent = placer.add_entry(entry)
            parents.append(-1 if parent is None else parent)
            is_next = parent == last and placer.stand == at
            last = at if is_next else last
            visit(at, entry, is_next)
        stand = placer.stand if self._stream.head is None else placer.find(self._stream.head)
        flags = bytearray(len(parents))
        while stand is not None and stand >= 0:
            flags[stand] = True
            stand = parents[stand]
        return flags, parents


def open_large(
    source: Source,
    dialect: str | None,
    problems: list[SourceProblem],
    *,
    limit: int = DEFAULT_LIMIT,
    advance: Callable[[int], None] | None = None,
) -> LargeSession | None:
    """A session file whose entries are read one at a time; None if it is read as a whole. Torn lines go to `problems`.

    `advance` receives the bytes that the first pass reads.
    """
    lines = _SessionLines(source, limit, advance)
    try:
        text = _open_text(source, dialect, limit)
        if text is not None:
            return text
        with open_binary(source) as stream:
            if not holds_lines(stream):
                return _open_listed(source, dialect)
        with open_binary(source) as stream, jsontext.Repairs():  # they are read again
            dialect = dialect or detect_name(Lines(first_objects(stream)))
        form = FORMATS.get(dialect or "")
        found = form.stream(lines.read) if form is not None and form.stream is not None else None
    except (*DAMAGED, OSError, InterlinguaError):
        return None  # reading it as a whole reports why
    if found is None or dialect is None or len(lines.problems) > lines.count:
        return None
    problems += lines.problems
    session = LargeSession(dialect, found, lines.read)
    if lines.problems:
        torn = tuple(request.Problem(message=problem.message, line=problem.line) for problem in lines.problems)
        session.about = replace(session.about, problems=(*torn, *session.about.problems))
    return session


def conversations(
    source: Source,
    dialect: str | None,
    problems: list[SourceProblem],
    advance: Callable[[int], None] | None = None,
) -> Iterator[tuple[str, Conversation | LargeSession]]:
    """The conversations of a file, each with its name; a large session is not read into memory."""
    session = open_large(source, dialect, problems, advance=advance) if is_large(source) else None
    if session is not None:
        yield source.name, session
        return
    for document in documents(source, dialect, problems, advance=advance):
        try:
            yield document.name, decode(document.data, dialect or document.dialect)
        except InterlinguaError as error:
            problems.append(SourceProblem(document.name, str(error)))


def _open_text(source: Source, dialect: str | None, limit: int) -> LargeSession | None:
    """A session that is a text."""
    with open_binary(source) as stream:
        found_text = detect_text(stream.read(HEAD)) if dialect is None else Detection(dialect, "given")
    form = FORMATS.get(found_text.dialect) if found_text is not None else None
    if form is None or not form.text or form.stream is None:
        return None
    version = _version(source)

    def lines() -> Iterator[str]:
        _refuse_changes(source, version)
        with open_binary(source) as stream:
            yield from text_lines(stream, limit)

    found = form.stream(lines)
    return None if found is None else LargeSession(form.name, found, lines)


def _open_listed(source: Source, dialect: str | None) -> LargeSession | None:
    """A session that is one document with a list of messages."""
    found = ListedRecords.find(source, dialect)
    if found is None:
        return None
    stream = found.listed.stream(found.header, found)
    return None if stream is None else LargeSession(found.detection.dialect, stream, found, found)


class ListedRecords:
    """The items of the list in a document, read again and again.

    `header` is the document without the items of its `lists`: that of the messages, at `key`, and those beside it.
    """

    def __init__(self, source: Source, detection: Detection, listed: ListedSession, key: str) -> None:
        self._source = source
        self.detection, self.listed, self.key = detection, listed, key
        self.header: Any = {}
        self.lists = {} if key else {"": 0}  # by key: where it begins in the file
        self._repaired: list[str] = []
        self._version = _version(source)
        self._places: tuple[array[int], array[int]] | None = None  # where the items begin, and their lengths
        self._is_checked = False

    @classmethod
    def find(cls, source: Source, dialect: str | None) -> "ListedRecords | None":
        """Those of a file; None if it is no such document. Its format is detected by the first items."""
        forms = [form.listed for form in FORMATS.values() if form.listed is not None and dialect in (None, form.name)]
        try:
            found = _outlined(source, forms) or _beginning(source)
        except InterlinguaError:
            return None
        header, lists, repaired = found
        with jsontext.Repairs():  # they are read again
            try:
                values = {key: one.values() for key, one in lists.items()}
                beginning = with_lists(header, values) if "" not in values else values[""]
            except InterlinguaError:
                return None
        name = Detection(dialect, "given") if dialect else detect(beginning)
        form = FORMATS.get(name.dialect) if name is not None else None
        listed = form.listed if form is not None else None
        key = _key_of(listed, lists) if listed is not None else None
        if name is None or listed is None or key is None:
            return None
        records = cls(source, name, listed, key)
        records._place(header, lists, values)
        jsontext.repairs().keep([*repaired, *records._repaired])
        return records

    @property
    def is_keyed(self) -> bool:
        """Whether the items are fields of an object."""
        return self.key in self.listed.nodes

    def _place(self, header: Any, lists: dict[str, Listing], values: dict[str, Any]) -> None:
        """Notes where the lists are; others are part of the document."""
        for key, one in lists.items():
            if not key:
                continue
            if key == self.key:
                self.lists[key] = one.begin
            elif key in self.listed.beside and not one.is_mixed:
                self.lists[key] = one.begin
                header = with_lists(header, {key: values[key]})
            else:
                with _open_at(self._source, one.begin) as stream, jsontext.Repairs() as repaired:
                    value = jsontext.read(stream.read(one.end - one.begin))
                header = with_lists(header, {key: value})
                self._repaired += [path_to(key) + path[1:] for path in repaired]
        self.header = header

    @property
    def beside(self) -> tuple[str, ...]:
        """The keys of the lists beside the messages."""
        return tuple(key for key in self.lists if key != self.key)

    def __call__(self) -> Iterator[Any]:
        """The messages; of an object, its keys with their values."""
        if not self.is_keyed:
            for value in self.items(self.key):
                if not isinstance(value, dict):
                    raise FormatError("expected an object", "$")
                yield value
            return
        known = None if self._is_checked else StringTable()
        for at, (key, value) in enumerate(self.items(self.key)):
            if known is not None and known.number(key) != at:
                raise FormatError(f"the key {key} is there twice", "$")
            if not isinstance(value, dict):
                raise FormatError("expected an object", "$")
            yield key, value
        self._is_checked = True

    def items(self, key: str) -> Iterator[Any]:
        """The items of a list."""
        self._refuse_changes()
        is_keyed = key in self.listed.nodes
        splitter, repairs = Splitter(keyed=is_keyed), jsontext.repairs()
        read, place = read_element(is_keyed), path_to(key)
        with _open_at(self._source, self.lists[key]) as stream:
            # Nothing follows a list that is all of the file.
            for at, element in enumerate((parts if key else elements)(stream, splitter)):
                value = read(element)
                if repairs:
                    repairs.place(place if is_keyed else f"{place}[{at}]")
                yield value
        if splitter.is_mixed:
            raise FormatError("expected an object", "$")

    def pick(self, numbers: Iterable[int]) -> Iterator[Any]:
        """The messages with these numbers, in this order. Raises `FormatError` for a file that is packed."""
        self._refuse_changes()
        begins, lengths = self._places = self._places or self._find_places()
        read, place, repairs = read_element(self.is_keyed), path_to(self.key), jsontext.repairs()
        with open_binary(self._source) as stream:
            for number in numbers:
                stream.seek(begins[number])
                value = read(stream.read(lengths[number]))
                if repairs:
                    repairs.place(place if self.is_keyed else f"{place}[{number}]")
                yield value

    def _find_places(self) -> tuple["array[int]", "array[int]"]:
        begin, splitter = self.lists[self.key], Splitter(keyed=self.is_keyed)
        begins, lengths = array("Q"), array("Q")
        with _open_at(self._source, begin) as stream:
            if not isinstance(getattr(stream, "raw", None), io.FileIO):
                raise FormatError("records of a packed file are read in their order alone", "$")
            for place, element in placed_parts(stream, splitter):
                begins.append(begin + place)
                lengths.append(len(element))
        return begins, lengths

    def _refuse_changes(self) -> None:
        _refuse_changes(self._source, self._version)


def _key_of(listed: ListedSession, lists: dict[str, Listing]) -> str | None:
    """Where the messages are."""
    keys = (
        key
        for keys, is_keyed in ((listed.keys, False), (listed.nodes, True))
        for key in keys
        if key in lists and lists[key].is_keyed == is_keyed
    )
    return next(keys, None)


_Outlined: TypeAlias = tuple[Any, dict[str, Listing], list[str]]


def _outlined(source: Source, forms: Iterable[ListedSession]) -> _Outlined | None:
    """A document without the items of its lists, the lists, and where characters were replaced in it.

    None for a list of several.
    """
    forms = list(forms)
    keys = {key for listed in forms for key in (*listed.keys, *listed.beside)}
    nodes = {key for listed in forms for key in listed.nodes}
    with open_binary(source) as stream, jsontext.Repairs() as repaired:
        is_list = stream.peek(1)[:1] == b"["  # type: ignore[attr-defined]
        try:
            header, lists = object_around(stream, keys, nodes)
        except InterlinguaError:
            if is_list:
                return None
            raise
    return None if is_list and not lists else (header, lists, repaired)


def _beginning(source: Source) -> _Outlined:
    """The same of a file that is the list itself."""
    with open_binary(source) as stream:
        first = first_of(itertools.islice(parts(stream, Splitter()), FIRST))
    return {}, {"": Listing(0, 0, first, False)}, []


def path_to(key: str) -> str:
    """The path of a list in a document, by its key."""
    return "$" + "".join(f".{step}" if step else "[0]" for step in key.split(".")) if key else "$"


def _refuse_changes(source: Source, version: tuple[int, int] | None) -> None:
    """Raises if a file is not the same as before."""
    if _version(source) != version:
        raise SourceError(f"{source.name}: the file was changed while it was read; try again")


def _version(source: Source) -> tuple[int, int] | None:
    """Tells whether a file is the same as before; None if the source is none."""
    try:
        found = source.path.stat() if source.path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_size, found.st_mtime_ns)


def _open_at(source: Source, place: int) -> IO[bytes]:
    """Opens a source at a place of its decompressed bytes."""
    stream = open_binary(source)
    if stream.seekable():
        stream.seek(place)
    while (rest := place - stream.tell()) > 0 and stream.read(min(rest, CHUNK)):
        pass
    return stream


class _SessionLines:
    """The lines of a file, read again and again; those that it gets meanwhile are left out."""

    def __init__(self, source: Source, limit: int, advance: Callable[[int], None] | None) -> None:
        self._source = source
        self._limit = limit
        self._advance = advance
        self._size: int | None = None  # decompressed bytes, when they were all read
        self.problems: list[SourceProblem] = []
        self.count = 0

    def read(self) -> Iterator[dict[str, Any]]:
        is_first, size, count = self._size is None, 0, 0
        problems: list[SourceProblem] = []
        repairs = jsontext.repairs()
        with open_binary(self._source, self._advance) as stream:
            for number, line in enumerate(read_lines(stream, self._limit), 1):
                if self._size is not None:
                    line = line[: self._size - size]
                size += len(line)
                if line.isspace() or not line:
                    continue
                try:
                    value = jsontext.read(line) if len(line) <= self._limit else None
                except FormatError:
                    value = None
                if repairs:
                    repairs.place(f"$[{count}]")
                if type(value) is dict:
                    count += 1
                    yield value
                    continue
                values, message = _objects_in(line, self._limit, count)
                count += len(values)
                yield from values
                if message is not None:
                    problems.append(SourceProblem(f"{self._source.name}:{number}", message, number))
        if is_first:
            self._size, self._advance, self.problems, self.count = size, None, problems, count
