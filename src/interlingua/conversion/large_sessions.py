"""Session files too large to be one conversation in memory.

`line_messages` yields their messages line by line, in formats that have a `line_reader`: without path and branches.
`open_large` yields their entries as `decode` returns them, in formats that have a `stream`: it reads the file several
times, and keeps the ids of the entries.
"""

import contextlib
import sys
from array import array
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from msgspec.structs import replace

from ..dialects import FORMATS
from ..dialects.files import transcript
from ..dialects.foreign_blocks import understood
from ..dialects.wire import LineReader, SessionStream
from ..values import jsontext
from ..values.compact import IdNumbers
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Lines
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
)
from ..values.request import Conversation, Entry, Placer
from .detection import HEAD, Detection, detect, detect_name, holds_lines
from .sources import DAMAGED, DEFAULT_LIMIT, Problem, Source, first_objects, open_binary, read_lines, too_long

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
    """The format of a session file, by its first lines; None for a file that is not a session of JSON lines."""
    with contextlib.suppress(*DAMAGED, OSError), open_binary(source) as stream:
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
                value: Any = None
                message = too_long(limit)
                try:
                    value = jsontext.read(line) if len(line) <= limit else None
                    message = "expected an object" if len(line) <= limit else message
                except FormatError as error:
                    message = error.message
                if not isinstance(value, dict):
                    problems.append(Problem(f"{source.name}:{number}", message, number))
                    continue
                for _, one in line_reader.read(value):
                    # Records of a program are no messages, nor are the instructions of the whole session.
                    if not isinstance(one, CustomMessage) and not (
                        isinstance(one, SystemMessage) and one.timestamp is None
                    ):
                        yield LineMessage(one, answers.is_new(one))
        except DAMAGED as error:
            problems.append(Problem(source.name, f"damaged archive: {error}"))


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

    def __init__(self, dialect: str, stream: SessionStream) -> None:
        self.dialect = dialect
        self.about = stream.about  # the conversation without entries and head
        self._stream = stream

    def entries(self) -> Iterator[Entry]:
        """The entries, in order."""
        return self._stream.entries()

    def transcript(self) -> Iterator[bytes]:
        """The lines of a transcript."""
        for line in transcript.encode_lines(self.about, self.entries(), lambda: self._stream.head, IdNumbers()):
            yield jsontext.write(line) + b"\n"

    def path(self) -> bytearray:
        """For each entry, whether it is on the path from the root to the head."""
        placer = Placer(places=IdNumbers())
        parents = array("i")
        for entry in self.entries():
            parent = placer.add_entry(entry)
            parents.append(-1 if parent is None else parent)
        at = placer.stand if self._stream.head is None else placer.find(self._stream.head)
        flags = bytearray(len(parents))
        while at is not None and at >= 0:
            flags[at] = True
            at = parents[at]
        return flags

    def outline(self) -> Conversation:
        """The conversation with texts, arguments and data left out: what calls, results and the tree are."""
        entries = tuple(map(_Outline().entry, self.entries()))
        return replace(self.about, entries=entries, head=self._stream.head)


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
                return None
        with open_binary(source) as stream:
            dialect = dialect or detect_name(Lines(first_objects(stream)))
        form = FORMATS.get(dialect or "")
        found = form.stream(lines.read) if form is not None and form.stream is not None else None
    except (*DAMAGED, OSError, InterlinguaError):
        return None  # reading it as a whole says why
    if found is None or dialect is None or len(lines.problems) > lines.count:
        return None
    problems += lines.problems
    return LargeSession(dialect, found)


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
                value = message = None
                try:
                    value = jsontext.read(line) if len(line) <= self._limit else None
                except FormatError as error:
                    message = error.message
                if isinstance(value, dict):
                    count += 1
                    yield value
                else:
                    message = message or ("expected an object" if len(line) <= self._limit else too_long(self._limit))
                    problems.append(Problem(f"{self._source.name}:{number}", message, number))
        if is_first:
            self._size, self._advance, self.problems, self.count = size, None, problems, count


_TEXT, _THOUGHT = TextBlock(text="…"), ThinkingBlock(thinking="…")
_NOTHING: dict[str, Any] = {}  # one for all: the default is a new one each, of 64 bytes


class _Outline:
    """Entries with texts, arguments and data left out; those that are the same then are one object."""

    def __init__(self) -> None:
        self._shared: dict[Any, Any] = {}  # messages and content
        self._entries: dict[int, Entry] = {}  # by the id of a shared message

    def entry(self, entry: Entry) -> Entry:
        message: Any = entry.message
        if understood(message) is None:
            message = self._custom(message) if isinstance(message, CustomMessage) else self._message(message)
            if understood(message) is not None:
                message = entry.message
        if entry.id is entry.parent_id is None and not entry.parents and id(message) in self._entries:
            return self._entries[id(message)]
        return Entry(message=message, id=entry.id, parent_id=entry.parent_id, parents=entry.parents, extra=_NOTHING)

    def _custom(self, message: CustomMessage) -> Any:
        if "target" in message.fields:
            return CustomMessage(message.role, {"target": message.fields["target"]})
        return self._share((CustomMessage, message.role), CustomMessage(message.role, {}))

    def _message(self, message: Any) -> Any:
        content = message.content
        if isinstance(content, str):
            content = "…" if content.strip() else content
        elif content is not None:
            content = tuple(map(_outlined_block, content))
        if isinstance(message, ToolResultMessage):
            return ToolResultMessage(
                content=self._shared.setdefault(_shape(content), content),
                tool_call_id=message.tool_call_id,
                tool_name=message.tool_name and sys.intern(message.tool_name),
                is_error=message.is_error,
                extra=_NOTHING,
            )
        fields = {"stop_reason": message.stop_reason} if isinstance(message, AssistantMessage) else {}
        outlined = type(message)(content=content, extra=_NOTHING, **fields)
        if isinstance(content, tuple) and any(isinstance(block, ToolCall) for block in content):
            return outlined
        return self._share((type(message), _shape(content), *fields.values()), outlined)

    def _share(self, key: Any, message: Any) -> Any:
        found = self._shared.setdefault(key, message)
        if found is message:
            self._entries[id(message)] = Entry(message=message)
        return found


def _shape(content: Any) -> Any:
    """What distinguishes outlined content without calls."""
    return ("blocks", *map(type, content)) if isinstance(content, tuple) else ("text", content)


def _outlined_block(block: Any) -> Any:
    match block:
        case ThinkingBlock():
            return _THOUGHT
        case ToolCall():  # some wires have a second id of a call in its extra
            ids = {owner: kept["id"] for owner, kept in block.extra.items() if isinstance(kept, dict) and "id" in kept}
            extra = {owner: {"id": id} for owner, id in ids.items()} or _NOTHING
            return ToolCall(id=block.id, name=sys.intern(block.name), arguments=_NOTHING, extra=extra)
        case _:
            return _TEXT
