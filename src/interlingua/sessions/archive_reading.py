"""Reads files for the archive: conversations, with their texts and usage."""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import replace

from .. import conversion
from ..conversion import sources
from ..conversion.large_sessions import LargeSession, is_large, open_large
from ..dialects.files.line_readers import OPEN_CALLS, LineReader
from ..dialects.registry import FORMATS
from ..values import jsontext
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Lines
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
    model_of,
    text_of,
)
from ..values.regular import stream_regular
from ..values.request import Conversation, Entry, is_aside
from ..values.text import as_utf8
from .archive_index import FAILED, READER, SKIPPED, ConversationPart, FileParts, FileProblem, KnownFile, Stamp
from .cards import Used, unattributed, used_by, used_in
from .programs import HEAD, project_of
from .texts import SearchText, message_texts

MAX_BODY = 512 << 20  # maximum bytes of a file that must be read as a whole
FLUSH_CHARS = 12 << 20  # characters per portion
ENTRIES = 200  # of a large session that are in memory
UNKNOWN = "no known format"
_TITLE = 80


def read_file(
    path: Path, dialect: str | None, stamp: Stamp, *, searched: bool = False, known: KnownFile | None = None
) -> Iterator[FileParts]:
    """Yields the parts of a file. Unreadable content is a problem of the file; nothing is raised.

    A file that was `searched`, found in a folder, need not be a conversation. A file of lines that has only grown since
    it was `known` is read from there on.
    """
    problems: list[FileProblem] = []
    waiting: list[ConversationPart] = []
    size, first, count = 0, True, 0
    try:
        head = _head(path)
        lines = _Lines.of(path, head, dialect, known)
        if lines is not None:
            yield from lines.read(stamp)
            return
        for part in _parts(path, dialect, project_of(path, head), problems):
            waiting.append(part)
            size, count = size + part.size, count + 1
            if size > FLUSH_CHARS:
                yield FileParts(str(path), stamp, waiting, first=first, last=False)
                waiting, size, first = [], 0, False
    except Exception as error:  # an error in one file must not prevent reading the others
        problems.append(FileProblem(_reason(error, path)))
    if not count:
        problems = [_failure(path, problems, searched)]
    yield FileParts(str(path), stamp, waiting, list(dict.fromkeys(problems)), first=first)


def _parts(
    path: Path, dialect: str | None, project: str | None, problems: list[FileProblem]
) -> Iterator[ConversationPart]:
    """The conversations of a file; of a large session, some entries at a time."""
    source = sources.Source(path)
    notes: list[sources.SourceProblem] = []
    session = open_large(source, dialect, notes, limit=MAX_BODY) if is_large(source) else None
    if session is not None:
        problems += (FileProblem(note.message, note.line) for note in notes)
        yield from _large_parts(session, project)
        return
    for number, (kind, conversation) in enumerate(conversations(path, dialect, problems)):
        problems += (FileProblem(note.message, note.line) for note in conversation.problems)
        yield part_of(number, kind, conversation, project)


def _large_parts(session: LargeSession, project: str | None) -> Iterator[ConversationPart]:
    about, entries = session.about, session.entries()
    rest = replace(about, usage=None)  # of the entries alone
    names: dict[str, str] = {}
    used: dict[bytes, Used] = {}
    last: AssistantMessage | None = None
    ended: int | None = None
    is_begun = is_titled = False
    while some := tuple(itertools.islice(entries, ENTRIES)):
        part = part_of(0, session.dialect, replace(rest, entries=some), project, names)
        ended = max((at for at in (ended, part.ended) if at is not None), default=None)
        yield part._replace(title=None if is_titled else part.title, ended=ended)
        is_begun, is_titled = True, is_titled or part.title is not None
        rest = replace(rest, title=None, system=None)
        if about.usage is not None:
            used.update((one.key, one) for one in part.used)
            last = next((e.message for e in reversed(some) if isinstance(e.message, AssistantMessage)), last)
        while len(names) > OPEN_CALLS:
            del names[next(iter(names))]
    missing = unattributed(about, list(used.values()), last)
    if missing is not None or not is_begun:
        part = part_of(0, session.dialect, rest, project)
        yield part._replace(title=None if is_titled else part.title, used=[] if missing is None else [missing])


def _failure(path: Path, problems: list[FileProblem], searched: bool) -> FileProblem:
    """Returns why nothing of a file could be read; it is skipped if it need not be a conversation."""
    found = problems[0] if problems else FileProblem("no conversation in it")
    plain = path.suffix.lower() in (".txt", ".md", ".log")  # these may contain any text
    return found._replace(kind=SKIPPED if searched and (plain or found.message.startswith(UNKNOWN)) else FAILED)


def conversations(path: Path, dialect: str | None, problems: list[FileProblem]) -> Iterator[tuple[str, Conversation]]:
    """Yields the conversations of a file with their dialects, numbered like those of an opened file on the canvas."""
    notes: list[sources.SourceProblem] = []
    for document in sources.documents(sources.Source(path), dialect, notes, limit=MAX_BODY):
        try:
            kind = dialect or document.dialect or _detected(document.data)
            yield kind, conversion.decode(document.data, kind)
        except InterlinguaError as error:
            problems.append(FileProblem(str(error), document.line))
        problems += (FileProblem(note.message, note.line) for note in notes)
        notes.clear()
    problems += (FileProblem(note.message, note.line) for note in notes)


def _detected(value: object) -> str:
    found = conversion.detect(value)
    if found is None:
        raise InterlinguaError(f"{UNKNOWN}; `interlingua dialects` lists those that can be read")
    return found.dialect


def part_of(
    number: int,
    dialect: str,
    conversation: Conversation,
    project: str | None,
    names: dict[str, str] | None = None,
) -> ConversationPart:
    """Returns a conversation as a part; `names` are the tools of calls, by the call, and get more of them."""
    messages = [entry.message for entry in conversation.entries if not is_aside(entry)]
    times = [at for message in messages if isinstance(at := getattr(message, "timestamp", None), int)]
    models = dict.fromkeys(filter(None, map(model_of, messages)))
    texts: list[SearchText] = []
    system = text_of(conversation.system) if conversation.system else ""
    if system:
        texts.append(SearchText("", None, "system", "system", system))
    if conversation.title:
        texts.append(SearchText("", None, "title", "", conversation.title))
    names = {} if names is None else names
    for entry in conversation.entries:
        message = entry.message
        if isinstance(message, AssistantMessage):
            names.update((call.id, call.name) for call in message.tool_calls)
        elif isinstance(message, ToolResultMessage) and message.tool_name is None:
            message = replace(message, tool_name=names.get(message.tool_call_id))
        if not _is_bookkeeping(entry):
            texts += message_texts(entry.id or "", message)
    return ConversationPart(
        number=number,
        dialect=dialect,
        title=_short(conversation.title or _first_text(conversation)),
        project=project,
        messages=sum(not isinstance(message, CustomMessage) for message in messages),
        models=tuple(models),
        started=min(times, default=None),
        ended=max(times, default=None),
        texts=texts,
        used=used_in(conversation),
    )


# Lines that are not messages, but have text of a person or a model.
_CONTENT_ROLES = frozenset({"user", "assistant", "response_item", "compaction", "compacted"})


def _is_bookkeeping(entry: Entry) -> bool:
    """Whether an entry is a program's own record (a snapshot, a screen event, …) that is not searched."""
    if not isinstance(entry.message, CustomMessage) or entry.message.role in _CONTENT_ROLES:
        return False
    return any(isinstance(kept, dict) and ("~record" in kept or "~line" in kept) for kept in entry.extra.values())


def _first_text(conversation: Conversation) -> str:
    """Returns the first text of the user."""
    return next((text for entry in conversation.entries if (text := _user_text(entry.message))), "")


def _user_text(message: AgentMessage) -> str:
    """Returns the text of a user message; "" for any other message."""
    is_user = isinstance(message, UserMessage) and message.origin is None
    return text_of(message.content).strip() if is_user else ""  # type: ignore[union-attr]


def _short(text: str) -> str | None:
    line = " ".join(text[: 8 * _TITLE].split())
    return (line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…") or None


def _head(path: Path) -> bytes:
    with stream_regular(path) as stream:
        return stream.read(4 * HEAD)  # Codex begins with its instructions


def _reason(error: Exception, path: Path) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, InterlinguaError):
        return str(error).removeprefix(f"{path}: ").removeprefix(f"{path} ")
    return f"cannot be read: {type(error).__name__}: {error}"


# --- files of lines --------------------------------------------------------------------------------------------------

BLOCK = 4 << 20  # bytes of lines per portion
MAX_LINE = 64 << 20
_FIRST = 64  # lines for detecting the format
_SAMPLE = 4096
_ANSWERS = 20  # ids of responses that may continue in later lines: results of parallel calls are in between


class _Lines:
    """Reads a file line by line, and from the last position when it has grown."""

    def __init__(
        self, path: Path, kind: str, line_reader: LineReader, head: bytes, at: int, state: dict[str, Any]
    ) -> None:
        self._path = path
        self._kind = kind
        self._reader = line_reader
        self._project = project_of(path, head)
        self._at = at
        self._state = state  # `lines` so far, the `last` message, whether it is `titled`
        self._problems: list[FileProblem] = []

    @classmethod
    def of(cls, path: Path, head: bytes, dialect: str | None, known: KnownFile | None) -> "_Lines | None":
        """Returns None for a file that must be read as a whole."""
        first = _objects(head)
        if not first:
            return None
        found = conversion.detect(Lines(first)) if dialect is None else None
        kind = dialect or (found.dialect if found is not None else "")
        form = FORMATS.get(kind)
        if form is None or form.line_reader is None:
            return None
        before = _continued(path, known)
        line_reader = form.line_reader(first, before["skim"] if before else None)
        if line_reader is None or known is None or before is None:
            return None if line_reader is None else cls(path, kind, line_reader, head, 0, {})
        return cls(path, kind, line_reader, head, known.covered or 0, before)

    def read(self, stamp: Stamp) -> Iterator[FileParts]:
        start = self._at
        with stream_regular(self._path) as stream:
            stream.seek(self._at)
            while True:
                part, end = self._block(stream)
                parts = [part] if part.texts or part.used or part.messages or not start else []
                yield FileParts(
                    str(self._path),
                    stamp,
                    parts,
                    self._problems if end else [],
                    first=not start,
                    last=end,
                    start=start,
                    covered=self._at,
                    sample=sample(stream, self._at),
                    state=msgspec.json.encode({**self._state, "skim": self._reader.state}),
                )
                if end:
                    return
                start = self._at

    def _block(self, stream: BinaryIO) -> tuple[ConversationPart, bool]:
        """Returns the content of the next lines, and whether they are the last."""
        found: list[tuple[str, AgentMessage]] = []
        self._reader.title = None
        size, is_last = 0, False
        while size < BLOCK:
            line = stream.readline(MAX_LINE)
            if not line:
                is_last = True
                break
            number = self._state["lines"] = self._state.get("lines", 0) + 1
            whole = line.endswith(b"\n")
            if not whole and len(line) >= MAX_LINE:
                self._note(f"a line of more than {MAX_LINE >> 20} MB", number)
                self._at += _passed(stream)
            elif line.strip():
                values = self._values(line, number, whole)
                if values is None and not whole:  # being written: read again when it is complete
                    self._state["lines"] = number - 1
                    is_last = True
                    break
                for value in values or ():
                    found += self._reader.read(value)
            self._at += len(line)
            size += len(line)
        return self._part(found), is_last

    def _values(self, line: bytes, number: int, whole: bool) -> list[dict[str, Any]] | None:
        try:
            values = jsontext.read_line(line)
        except FormatError as error:
            self._note(error.message if whole else "the last line is not complete", number)
            return None
        if not isinstance(values[0], dict):
            self._note(f"expected an object, got {type(values[0]).__name__}", number)
            return None
        return values

    def _note(self, message: str, line: int) -> None:
        self._problems.append(FileProblem(message, line))

    def _part(self, found: list[tuple[str, AgentMessage]]) -> ConversationPart:
        texts: list[SearchText] = []
        used: dict[bytes, Used] = {}
        messages = 0
        for id, message in found:
            texts += message_texts(id, message)
            for one in used_by(message):
                if one.key not in used or one.output >= used[one.key].output:
                    used[one.key] = one
            messages += self._is_new(message)
        title = self._reader.title
        if title is not None:
            texts.append(SearchText("", None, "title", "", title))
        elif not self._state.get("titled"):
            title = next((text for _, message in found if (text := _user_text(message))), None)
        self._state["titled"] = bool(self._state.get("titled") or title)
        times = [at for _, message in found if isinstance(at := getattr(message, "timestamp", None), int)]
        models = dict.fromkeys(model for _, message in found if (model := model_of(message)))
        return ConversationPart(
            number=0,
            dialect=self._kind,
            title=_short(title or ""),
            project=self._project,
            messages=messages,
            models=tuple(models),
            started=min(times, default=None),
            ended=max(times, default=None),
            texts=texts,
            used=list(used.values()),
        )

    def _is_new(self, message: AgentMessage) -> bool:
        """Whether a message is new, not a further line of the same response."""
        if isinstance(message, CustomMessage) or (isinstance(message, SystemMessage) and message.timestamp is None):
            return False  # a record, or the instructions of the whole conversation
        if not isinstance(message, AssistantMessage):
            self._state["answering"] = False
            return True
        if message.response_id is None:
            if not self._reader.joins:
                return True
            is_usage = message.content == () and message.usage is not None
            is_new = not is_usage and not self._state.get("answering")
            self._state["answering"] = self._state.get("answering") or not is_usage
            return is_new
        known: list[str] = self._state.setdefault("answers", [])
        if message.response_id in known:
            return False
        self._state["answers"] = [*known[-_ANSWERS:], message.response_id]
        return True


def _objects(head: bytes) -> list[dict[str, Any]]:
    """Returns the first lines of a file; none if they are not JSON objects."""
    found: list[dict[str, Any]] = []
    for line in as_utf8(head).split(b"\n")[:_FIRST]:
        if line.strip():
            try:
                values = jsontext.read_line(line)
            except FormatError:
                continue  # truncated, by its writer or by the end of the head
            if not isinstance(values[0], dict):
                return []
            found += values
    return found


def _continued(path: Path, known: KnownFile | None) -> dict[str, Any] | None:
    """Returns the state to continue from; None if the file is not the known one, grown."""
    if known is None or not known.covered or known.state is None or known.reader != READER:
        return None
    with stream_regular(path) as stream:
        if sample(stream, known.covered) != known.sample:
            return None
    state: dict[str, Any] = msgspec.json.decode(known.state)
    return state


def sample(stream: BinaryIO, covered: int) -> bytes:
    """A digest of the first and last bytes that were read, to detect a replaced file."""
    place = stream.tell()
    digest = hashlib.blake2b(str(covered).encode(), digest_size=16)
    for start in (0, max(0, covered - _SAMPLE)):
        stream.seek(start)
        digest.update(stream.read(min(_SAMPLE, covered - start)))
    stream.seek(place)
    return digest.digest()


def _passed(stream: BinaryIO) -> int:
    """Skips the rest of a line; returns its bytes."""
    size = 0
    while line := stream.readline(MAX_LINE):
        size += len(line)
        if line.endswith(b"\n"):
            break
    return size
