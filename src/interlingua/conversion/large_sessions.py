"""Session files too large to be one conversation in memory.

`line_messages` yields their messages line by line, in formats that have a `line_reader`: without path and branches.
`open_large` yields their entries as `decode` returns them, in formats that have a `stream`: it reads the file several
times, and keeps the ids of the entries.
"""

import contextlib
import itertools
from array import array
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from msgspec.structs import replace

from ..dialects import FORMATS
from ..dialects.files import line_sessions, transcript
from ..dialects.wire import LineReader, ListedSession, SessionStream
from ..values import jsontext, request
from ..values.canonical import plain
from ..values.compact import IdNumbers
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Lines
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    SystemMessage,
)
from ..values.request import Entry, Placer
from .arrays import Splitter, parts
from .detection import HEAD, Detection, detect, detect_name, holds_lines
from .sources import (
    DAMAGED,
    DEFAULT_LIMIT,
    Problem,
    Source,
    first_objects,
    object_around,
    open_binary,
    read_lines,
    too_long,
)

LARGE = 32 << 20  # bytes: a conversation takes four to five times the size of its file
_ANSWERS = 20  # ids of answers to which further lines may belong: results of parallel calls stand between them


class LineMessage(NamedTuple):
    """A message of a line; `is_new` is False for a further part of the previous answer."""

    message: AgentMessage
    is_new: bool


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
            is_lines = holds_lines(stream.read(HEAD))
        listed = None if is_lines else ListedRecords.find(source, None)
        if listed is not None:
            return listed.detection
        with open_binary(source) as stream:
            found = detect(Lines(first_objects(stream)))
        form = FORMATS.get(found.dialect) if found is not None else None
        return found if form is not None and form.lines else None
    return None


def line_messages(
    source: Source,
    dialect: str | None,
    problems: list[Problem],
    *,
    limit: int = DEFAULT_LIMIT,
    advance: Callable[[int], None] | None = None,
) -> Iterator[LineMessage] | None:
    """The messages of a session file; None where its format is not read line by line. Torn lines go to `problems`."""
    try:
        with open_binary(source) as stream:
            first = Lines(first_objects(stream))
    except (*DAMAGED, OSError):
        return None  # reading it as a whole says why
    found = detect(first) if dialect is None else None
    form = FORMATS.get(dialect or (found.dialect if found is not None else ""))
    line_reader = form.line_reader(first, None) if first and form is not None and form.line_reader is not None else None
    if line_reader is None:
        return None
    return _messages(source, open_binary(source, advance), line_reader, problems, limit)


def _messages(
    source: Source, stream: IO[bytes], line_reader: LineReader, problems: list[Problem], limit: int
) -> Iterator[LineMessage]:
    answers = _Answers(line_reader.joins)
    with stream:
        try:
            for number, line in enumerate(read_lines(stream, limit), 1):
                if not line.strip():
                    continue
                values, message = _objects_in(line, limit)
                if message is not None:
                    problems.append(Problem(f"{source.name}:{number}", message, number))
                for _, one in itertools.chain.from_iterable(map(line_reader.read, values)):
                    # Records of a program are no messages, nor are the instructions of the whole session.
                    if not isinstance(one, CustomMessage) and not (
                        isinstance(one, SystemMessage) and one.timestamp is None
                    ):
                        yield LineMessage(one, answers.is_new(one))
        except DAMAGED as error:
            problems.append(Problem(source.name, f"damaged archive: {error}"))


def _objects_in(line: bytes, limit: int) -> tuple[list[dict[str, Any]], str | None]:
    """Returns the objects of a line, or why it has none."""
    if len(line) > limit:
        return [], too_long(limit)
    try:
        values = jsontext.read_line(line)
    except FormatError as error:
        return [], error.message
    return (values, None) if isinstance(values[0], dict) else ([], "expected an object")


class _Answers:
    """Knows which lines are further parts of an answer."""

    def __init__(self, joins: bool) -> None:
        self._joins = joins
        self._known: dict[str, None] = {}
        self._is_answering = False

    def is_new(self, message: AgentMessage) -> bool:
        if not isinstance(message, AssistantMessage):
            self._is_answering = False
            return True
        if message.response_id is None:
            if not self._joins:
                return True
            is_usage = message.content == () and message.usage is not None
            is_new = not is_usage and not self._is_answering
            self._is_answering = self._is_answering or not is_usage
            return is_new
        if message.response_id in self._known:
            return False
        self._known[message.response_id] = None
        if len(self._known) > _ANSWERS:
            del self._known[next(iter(self._known))]
        return True


# --- entries one at a time -------------------------------------------------------------------------------------------


class LargeSession:
    """A conversation whose entries are read from its file each time."""

    def __init__(
        self,
        dialect: str,
        stream: SessionStream,
        lines: Callable[[], Iterator[dict[str, Any]]],
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
        return isinstance(self._stream, line_sessions.TemplateStream)

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
        for line in transcript.encode_lines(self.about, self.entries(), lambda: self._stream.head, IdNumbers()):
            yield jsontext.write(line) + b"\n"

    def json(self) -> Iterator[bytes]:
        """The conversation as Interlingua JSON, in parts."""
        separator = b'{"entries":['
        for entry in self.entries():
            yield separator + jsontext.write(plain(entry))
            separator = b","
        rest = plain(replace(self.about, head=self._stream.head))
        fields = jsontext.write(rest)[1:]
        if separator != b",":
            yield b"{" + fields
        else:
            yield (b"]," if rest else b"]") + fields

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
    problems: list[Problem],
    *,
    limit: int = DEFAULT_LIMIT,
    advance: Callable[[int], None] | None = None,
) -> LargeSession | None:
    """A session file whose entries are read one at a time; None if it is read as a whole. Torn lines go to `problems`.

    `advance` receives the bytes that the first pass reads.
    """
    lines = _SessionLines(source, limit, advance)
    try:
        with open_binary(source) as stream:
            if not holds_lines(stream.read(HEAD)):
                return _open_listed(source, dialect)
        with open_binary(source) as stream:
            dialect = dialect or detect_name(Lines(first_objects(stream)))
        form = FORMATS.get(dialect or "")
        found = form.stream(lines.read) if form is not None and form.stream is not None else None
    except (*DAMAGED, OSError, InterlinguaError):
        return None  # reading it as a whole says why
    if found is None or dialect is None or len(lines.problems) > lines.count:
        return None
    problems += lines.problems
    session = LargeSession(dialect, found, lines.read)
    if lines.problems:
        torn = tuple(request.Problem(message=problem.message, line=problem.line) for problem in lines.problems)
        session.about = replace(session.about, problems=torn)
    return session


def _open_listed(source: Source, dialect: str | None) -> LargeSession | None:
    """A session that is one document with a list of messages."""
    found = ListedRecords.find(source, dialect)
    if found is None:
        return None
    stream = found.listed.stream(found.header, found.read)
    return None if stream is None else LargeSession(found.detection.dialect, stream, found.read, found)


class ListedRecords:
    """The items of the list in a document, read again and again. `header` is the document without them."""

    def __init__(self, source: Source, at: int, detection: Detection, listed: ListedSession, header: Any) -> None:
        self._source, self._at = source, at
        self.detection, self.listed, self.header = detection, listed, header

    @classmethod
    def find(cls, source: Source, dialect: str | None) -> "ListedRecords | None":
        """Those of a file; None if it is no such document. Its format is detected by the first two items."""
        forms = [form for form in FORMATS.values() if form.listed is not None and dialect in (None, form.name)]
        keys = {form.listed.key for form in forms if form.listed is not None}
        at, key, header = 0, "", dict[str, Any]()
        try:
            with open_binary(source) as stream:
                if stream.peek(1)[:1] == b"[":  # type: ignore[attr-defined]
                    first = list(itertools.islice(parts(stream, Splitter()), 2))
                else:
                    at, key, header, first = object_around(stream, keys)
            values = list(map(jsontext.read, first))
        except InterlinguaError:
            return None
        name = Detection(dialect, "given") if dialect else detect({**header, key: values} if key else values)
        form = FORMATS.get(name.dialect) if name is not None else None
        if form is None or form.listed is None or form.listed.key != key or header.get(key):
            return None
        assert name is not None
        return cls(source, at, name, form.listed, header)

    def read(self) -> Iterator[dict[str, Any]]:
        splitter = Splitter()
        with open_binary(self._source) as stream:
            stream.seek(self._at)
            for element in parts(stream, splitter):
                value = jsontext.read(element)
                if not isinstance(value, dict):
                    raise FormatError("expected an object", "$")
                yield value
        if splitter.tail:
            raise FormatError("expected an object", "$")

    @property
    def document(self) -> Any:
        """The document without its items."""
        return self.header if self.listed.key else []

    @property
    def place(self) -> tuple[str, ...]:
        """The keys of the list in the document."""
        return (self.listed.key,) if self.listed.key else ()


class _SessionLines:
    """The lines of a file, read again and again; those that it gets meanwhile are left out."""

    def __init__(self, source: Source, limit: int, advance: Callable[[int], None] | None) -> None:
        self._source = source
        self._limit = limit
        self._advance = advance
        self._size: int | None = None  # decompressed bytes, when they were all read
        self.problems: list[Problem] = []
        self.count = 0

    def read(self) -> Iterator[dict[str, Any]]:
        is_first, size, count = self._size is None, 0, 0
        problems: list[Problem] = []
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
                if type(value) is dict:
                    count += 1
                    yield value
                    continue
                values, message = _objects_in(line, self._limit)
                count += len(values)
                yield from values
                if message is not None:
                    problems.append(Problem(f"{self._source.name}:{number}", message, number))
        if is_first:
            self._size, self._advance, self.problems, self.count = size, None, problems, count
