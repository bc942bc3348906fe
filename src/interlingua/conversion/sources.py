"""Where a command's input comes from: files, globs, folders, standard input; plain, gzip or zstd; bodies or lines."""

import glob
import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import zstandard

from ..values import jsontext
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Lines
from .converting import split, stands_alone
from .detection import Detection, detect, is_stream

STDIN = "-"
ENDINGS = (".json", ".jsonl", ".ndjson", ".sse", ".txt", ".log")
PACKED = (".gz", ".zst")
DEFAULT_LIMIT = 512 * 1024 * 1024


class SourceError(InterlinguaError):
    """A file that cannot be read as what it claims to be."""


class Source(NamedTuple):
    """One input."""

    path: Path | None

    @property
    def name(self) -> str:
        return str(self.path) if self.path else "<stdin>"

    @property
    def stem(self) -> str:
        """The name without its endings, for naming outputs."""
        if self.path is None:
            return "stdin"
        name = self.path.name
        for ending in PACKED:
            name = name.removesuffix(ending)
        return name.rsplit(".", 1)[0] if name.endswith(ENDINGS) else name


class Document(NamedTuple):
    """One conversation's data, and its line or number if the file holds several."""

    source: Source
    line: int | None
    data: Any

    @property
    def name(self) -> str:
        return self.source.name if self.line is None else f"{self.source.name}:{self.line}"


class Problem(NamedTuple):
    """Something that could not be read; the rest goes on."""

    name: str
    message: str


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
    return _unpacked(source.path.open("rb"))


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    head = io.BufferedReader(raw) if not isinstance(raw, io.BufferedReader) else raw  # type: ignore[type-var]
    magic = head.peek(4)[:4]
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=head)  # type: ignore[return-value]
    if magic == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(head))
    return head


def read_all(source: Source, limit: int = DEFAULT_LIMIT) -> bytes:
    """Everything in a source, as UTF-8; a clear error when it is packed wrongly or larger than `limit`."""
    try:
        with open_binary(source) as stream:
            data = stream.read(limit + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
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
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
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
    """The conversations in a source: one, or one a line. What cannot be read is added to `problems`."""
    try:
        with opened or open_binary(source) as stream:
            first, second = _first_line(stream), _first_line(stream)
            if second.strip() and _holds_a_conversation(first, dialect):
                yield from _line_documents(source, stream, first + second, problems, limit)
                return
            data = as_utf8(first + second + stream.read(limit + 1 - len(first) - len(second)))
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        problems.append(Problem(source.name, f"damaged archive: {error}"))
        return
    except OSError as error:
        problems.append(Problem(source.name, error.strerror or str(error)))
        return
    if len(data) > limit:
        message = f"must become one body and is larger than {limit >> 20} MB; split it, or raise --max-size"
        problems.append(Problem(source.name, message))
        return
    value = _whole(source, data, problems)
    parts = split(value, dialect) if value is not None else []
    for number, part in enumerate(parts, 1):
        yield Document(source, number if len(parts) > 1 else None, part)


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
                problems.append(Problem(f"{source.name}:{number}", f"a line of more than {limit >> 20} MB"))
                continue
            try:
                yield Document(source, number, jsontext.read(as_utf8(line) if number == 1 else line))
            except FormatError as error:
                problems.append(Problem(f"{source.name}:{number}", error.message))


def _whole(source: Source, data: bytes, problems: list[Problem]) -> Any:
    """A body, a recorded stream, or the good lines of a session file."""
    if not data.strip():
        problems.append(Problem(source.name, "empty"))
        return None
    if is_stream(data):
        return data
    try:
        return jsontext.read(data)
    except FormatError as error:
        values = _good_lines(source, data, problems)
        if not values:
            problems.append(Problem(source.name, error.message))
            return None
        return values


def _good_lines(source: Source, data: bytes, problems: list[Problem]) -> Lines:
    """Line values of a session file; bad lines become problems, unless no line is good: then it is no line file."""
    values = Lines()
    bad: list[Problem] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = jsontext.read(line)
        except FormatError as error:
            bad.append(Problem(f"{source.name}:{number}", error.message))
            continue
        if isinstance(value, dict):
            values.append(value)
        else:
            bad.append(Problem(f"{source.name}:{number}", "expected an object"))
    if values:
        problems.extend(bad)
    return values
