"""Where conversations come from: files, globs, folders, standard input; plain, gzip or zstd; bodies, lines, containers.

`read` gives the conversations of one file; the commands read the same `documents`.
"""

import glob
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import zstandard
from msgspec.structs import replace

from ..dialects.registry import canonical
from ..values import jsontext, request
from ..values.errors import FormatError, InterlinguaError
from ..values.regular import stream_regular
from ..values.request import Conversation
from . import containers
from .containers import SourceError
from .converting import decode, split, stands_alone
from .detection import Detection, detect, is_stream, value_of

STDIN = "-"
ENDINGS = (
    ".json",
    ".jsonl",
    ".ndjson",
    ".sse",
    ".txt",
    ".log",
    ".md",
    ".zip",
    ".eval",
    ".db",
    ".sqlite",
    ".vscdb",
    ".parquet",
    ".arrow",
)
PACKED = (".gz", ".zst")
DEFAULT_LIMIT = 512 * 1024 * 1024
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)


class Source(NamedTuple):
    """One input: a file, a member of a zip, or (without a path) a stream."""

    path: Path | None
    member: str | None = None

    @property
    def name(self) -> str:
        return ":".join(str(part) for part in self if part) or "<stdin>"

    @property
    def stem(self) -> str:
        """The name without its endings, for naming outputs."""
        if self.path is None:
            return "stdin"
        name = self.path.name if self.member is None else Path(self.member).name
        for ending in PACKED:
            name = name.removesuffix(ending)
        return name.rsplit(".", 1)[0] if name.endswith(ENDINGS) else name


class Document(NamedTuple):
    """One conversation's data, its line or number if the file holds several, and its format where that is known."""

    source: Source
    line: int | None
    data: Any
    dialect: str | None = None

    @property
    def name(self) -> str:
        return self.source.name if self.line is None else f"{self.source.name}:{self.line}"


class Problem(NamedTuple):
    """Something that could not be read; the rest goes on."""

    name: str
    message: str
    line: int | None = None


def expand(inputs: Iterable[str]) -> list[Source]:
    """Inputs as files: folders are searched, globs are matched, `-` (or nothing) is standard input."""
    sources: list[Source] = []
    for given in inputs or (STDIN,):
        if given == STDIN:
            sources.append(Source(None))
            continue
        path = Path(given)
        if path.is_dir():
            sources.extend(Source(p) for p in sorted(path.rglob("*")) if p.is_file() and _is_ours(p))
        elif path.exists() or not glob.has_magic(given):
            sources.append(Source(path))
        else:
            found = [Source(Path(p)) for p in sorted(glob.glob(given, recursive=True)) if Path(p).is_file()]  # noqa: PTH207
            if not found:
                raise SourceError(f"{given}: no file matches")
            sources.extend(found)
    return sources


def _is_ours(path: Path) -> bool:
    name = path.name.lower()
    for ending in PACKED:
        name = name.removesuffix(ending)
    return name.endswith(ENDINGS)


def open_binary(source: Source) -> IO[bytes]:
    """The plain bytes of a source, unpacked on the way."""
    if source.path is None:
        return _unpacked(sys.stdin.buffer)
    return _unpacked(stream_regular(source.path))


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    head = io.BufferedReader(raw) if not isinstance(raw, io.BufferedReader) else raw  # type: ignore[type-var]
    magic = head.peek(4)[:4]
    if magic.startswith(b"\x1f\x8b"):
        file = gzip.GzipFile(fileobj=head)
        file.myfileobj = head  # type: ignore[assignment]  # closed with it
        return file  # type: ignore[return-value]
    if magic == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(head))
    return head


def read_all(source: Source, limit: int = DEFAULT_LIMIT) -> bytes:
    """Everything in a source, as UTF-8; a clear error when it is packed wrongly or larger than `limit`."""
    try:
        with open_binary(source) as stream:
            data = stream.read(limit + 1)
    except _DAMAGED as error:
        raise SourceError(f"{source.name}: damaged archive: {error}") from None
    if len(data) > limit:
        raise SourceError(
            f"{source.name}: must become one body and is larger than {limit >> 20} MB; split it, or raise --max-size"
        )
    return as_utf8(data)


def as_utf8(data: bytes) -> bytes:
    """Bytes with their byte order mark honoured."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").encode()
    return data.removeprefix(b"\xef\xbb\xbf")


def unpacked(data: bytes) -> bytes:
    """The plain bytes of what may be packed."""
    try:
        with _unpacked(io.BufferedReader(io.BytesIO(data))) as stream:
            return as_utf8(stream.read())
    except _DAMAGED as error:
        raise SourceError(f"damaged archive: {error}") from None


def documents_of(data: bytes, name: str, dialect: str | None, problems: list[Problem]) -> Iterator[Document]:
    """As `documents`, of bytes that are in memory."""
    return documents(Source(Path(name)), dialect, problems, opened=io.BytesIO(data))


def documents(
    source: Source,
    dialect: str | None,
    problems: list[Problem],
    *,
    limit: int = DEFAULT_LIMIT,
    opened: IO[bytes] | None = None,
) -> Iterator[Document]:
    """The conversations in a source: one, one a line, or many in a container. What is unreadable goes to `problems`."""
    try:
        with _unpacked(opened) if opened is not None else open_binary(source) as stream:
            kind = containers.kind_of(stream.peek(16)[:16])  # type: ignore[attr-defined]
            if kind is not None:
                plain = isinstance(getattr(stream, "raw", None), io.FileIO) and opened is None
                yield from _contained(kind, source, stream, plain, dialect, problems, limit)
                return
            first, second = _first_line(stream), _first_line(stream)
            if second.strip() and _holds_a_conversation(first, dialect):
                yield from _line_documents(source, stream, first + second, problems, limit)
                return
            data = as_utf8(first + second + stream.read(limit + 1 - len(first) - len(second)))
    except _DAMAGED as error:
        problems.append(Problem(source.name, f"damaged archive: {error}"))
        return
    except OSError as error:
        problems.append(Problem(source.name, error.strerror or str(error)))
        return
    except SourceError as error:
        problems.append(Problem(source.name, str(error).removeprefix(f"{source.name}: ")))
        return
    if len(data) > limit:
        problems.append(Problem(source.name, _too_large(limit)))
        return
    value = _whole(source, data, problems)
    if value is None:
        return
    parts = split(value, dialect)
    for number, part in enumerate(parts, 1):
        yield Document(source, number if len(parts) > 1 else None, part)


def _too_large(limit: int) -> str:
    return f"must become one body and is larger than {limit >> 20} MB; split it, or raise --max-size"


def _contained(
    kind: str, source: Source, stream: IO[bytes], plain: bool, dialect: str | None, problems: list[Problem], limit: int
) -> Iterator[Document]:
    """The conversations in a zip, a database or columns; `plain` if the stream is the file of the source itself."""
    if kind == "sqlite":
        in_place = source.path if plain else None
        data = b"" if in_place is not None else stream.read(limit + 1)
        if len(data) > limit:
            raise SourceError(_too_large(limit))
        with containers.database(in_place, data, source.name) as connection:
            yield from _listed(source, containers.in_database(connection, dialect), "database")
        return
    if not stream.seekable():
        stream = io.BytesIO(stream.read(limit + 1))
    if kind in ("parquet", "arrow"):
        for number, row in enumerate(containers.rows(stream, kind, source.name), 1):
            yield Document(source, number, row)
        return
    members = containers.Members(stream, source.name, limit)
    found = containers.in_archive(members, dialect)
    if found is not None:
        yield from _listed(source, found, "zip")
        return
    # No format of its own: a folder of session files.
    for member in sorted(members):
        inner = Source(source.path, member)
        if _is_ours(Path(member)):
            yield from documents(inner, dialect, problems, limit=limit, opened=io.BytesIO(members[member]))
    if not any(_is_ours(Path(member)) for member in members):
        raise SourceError("no known format; no file in this zip holds conversations")


def _listed(source: Source, found: tuple[str, Iterable[Any]] | None, kind: str) -> Iterator[Document]:
    if found is None:
        raise SourceError(f"no known format; no reader knows this {kind}")
    name, values = found
    for number, value in enumerate(values, 1):
        yield Document(source, number, value, name)


def _first_line(stream: IO[bytes]) -> bytes:
    """Everything up to the end of the first line that says something."""
    lines = []
    while line := stream.readline(DEFAULT_LIMIT):
        lines.append(line)
        if line.strip():
            break
    return b"".join(lines)


def _holds_a_conversation(line: bytes, dialect: str | None) -> bool:
    """Whether the first line of a file is a conversation of its own, so that the others are too."""
    try:
        value = jsontext.read(as_utf8(line))
    except FormatError:
        return False
    if isinstance(value, list):
        return bool(value)
    if not isinstance(value, dict) or "role" in value:
        return False
    found = detect(value) if dialect is None else Detection(dialect, "told")
    return found is not None and stands_alone(value, found.dialect)


def _line_documents(
    source: Source, stream: IO[bytes], head: bytes, problems: list[Problem], limit: int
) -> Iterator[Document]:
    number = 0
    for block in (io.BytesIO(head), stream):
        for line in block:
            number += 1
            if not line.strip():
                continue
            if len(line) > limit:
                problems.append(
                    Problem(
                        f"{source.name}:{number}", f"a line of more than {limit >> 20} MB; raise --max-size", number
                    )
                )
                continue
            try:
                yield Document(source, number, jsontext.read(as_utf8(line) if number == 1 else line))
            except FormatError as error:
                problems.append(Problem(f"{source.name}:{number}", error.message, number))


def _whole(source: Source, data: bytes, problems: list[Problem]) -> Any:
    """A body, a recorded stream, a text, or the good lines of a session file."""
    if not data.strip():
        problems.append(Problem(source.name, "empty"))
        return None
    if is_stream(data):
        return data
    try:
        value = value_of(data)
    except FormatError as error:
        problems.append(Problem(source.name, error.message))
        return None
    torn = getattr(value, "problems", ())
    problems.extend(Problem(f"{source.name}:{one.line}", one.message, one.line) for one in torn)
    return value


# --- all conversations of a file -------------------------------------------------------------------------------------


def read(source: str | os.PathLike[str] | IO[bytes] | bytes, dialect: str | None = None) -> Iterator[Conversation]:
    """Every conversation of a file: JSON, JSON lines, text, a zip or an SQLite database, plain, gzip or zstd.

    What cannot be read is in the `problems` of the conversation it belongs to or stands beside, and the rest goes on; a
    file of which nothing can be read raises an `InterlinguaError`.
    """
    dialect = None if dialect is None else canonical(dialect)
    found: list[Problem] = []
    waiting: Conversation | None = None  # problems after the last conversation belong to it
    for document in _documents_in(source, dialect, found):
        try:
            conversation = decode(document.data, dialect or document.dialect)
        except InterlinguaError as error:
            if document.line is None:
                raise
            found.append(Problem(document.name, str(error), document.line))
            continue
        if waiting is not None:
            yield waiting
        waiting = _with_problems(conversation, found)
        found.clear()
    if waiting is not None:
        yield _with_problems(waiting, found)
    elif found:
        raise SourceError(f"{found[0].name}: {found[0].message}")


def _documents_in(source: Any, dialect: str | None, problems: list[Problem]) -> Iterator[Document]:
    if isinstance(source, bytes | bytearray):
        return documents(Source(None), dialect, problems, opened=io.BytesIO(source))
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        where = Source(None, name if isinstance(name, str) else None)
        return documents(where, dialect, problems, opened=io.BufferedReader(_Borrowed(source)))
    path = Path(source)
    if path.is_dir():
        raise SourceError(f"{path}: a folder; read each of its files, or use `interlingua show {path}`")
    return documents(Source(path), dialect, problems)


def _with_problems(conversation: Conversation, found: list[Problem]) -> Conversation:
    told = (request.Problem(message=problem.message, line=problem.line) for problem in found)
    every = tuple(dict.fromkeys((*conversation.problems, *told)))
    return conversation if len(every) == len(conversation.problems) else replace(conversation, problems=every)


class _Borrowed(io.RawIOBase):
    """A file of the caller's: read, and left open."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        if isinstance(data, str):
            raise SourceError("a file opened as text; open it with mode 'rb'")
        buffer[: len(data)] = data
        return len(data)
