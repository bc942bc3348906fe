"""Input sources: files, globs, folders and standard input; plain, gzip or zstd; bodies, JSON lines and containers.

`read` yields the conversations of one file; the commands read the same `documents`.
"""

import contextlib
import glob
import gzip
import io
import itertools
import logging
import os
import sys
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import zstandard
from msgspec.structs import replace

from ..dialects import FORMATS
from ..dialects.files.templates import is_unshared
from ..dialects.registry import canonical, ordered
from ..dialects.residual import fields_of
from ..dialects.wire import FileFormat
from ..values import jsontext, request
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Lines, Text
from ..values.regular import stream_regular
from ..values.request import Conversation
from ..values.text import as_utf8
from . import containers
from .arrays import CHUNK, FIRST, FileLists, Listing, Splitter, elements, outline, parts, spooled, with_lists
from .containers import SourceError
from .converting import decode, divided, split, stands_alone, with_repairs
from .detection import (
    HEAD,
    MAX_LINE,
    Detection,
    detect,
    detect_name,
    detect_text,
    gc_paused,
    holds_lines,
    is_stream,
    lines_in,
    value_of,
)
from .subagents import files_of_subagents, relatives_of, spawned, subagents_of

_log = logging.getLogger(__name__)

STDIN = "-"
DATABASES = (".db", ".sqlite", ".sqlite3", ".vscdb")
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
    ".traj",
    *DATABASES,
    ".parquet",
    ".arrow",
)
PACKED = (".gz", ".zst")
HIDDEN = (".aider.chat.history.md",)  # conversations in hidden files; others are a program's own
DEFAULT_LIMIT = 512 * 1024 * 1024
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)
UNREADABLE = (*DAMAGED, OSError, SourceError)


class Source(NamedTuple):
    """One input: a file, a member of a zip, or (without a path) a stream."""

    path: Path | None
    member: str | None = None

    @property
    def name(self) -> str:
        return ":".join(str(part) for part in self if part) or "<stdin>"

    @property
    def stem(self) -> str:
        """The name without its suffixes, for naming outputs."""
        if self.path is None:
            return "stdin"
        name = self.path.name if self.member is None else Path(self.member).name
        for ending in PACKED:
            name = name.removesuffix(ending)
        return name.rsplit(".", 1)[0] if name.endswith(ENDINGS) else name


class Document(NamedTuple):
    """One conversation's data, its line or number if the file holds several, and its format if known.

    `repaired` are the paths of texts in it with characters that are no Unicode, which are read as U+FFFD.
    """

    source: Source
    line: int | None
    data: Any
    dialect: str | None = None
    repaired: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.source.name if self.line is None else f"{self.source.name}:{self.line}"


class SourceProblem(NamedTuple):
    """Something that could not be read; the rest is still read."""

    name: str
    message: str
    line: int | None = None


def expand(inputs: Iterable[str]) -> list[Source]:
    """Expands inputs to files: searches folders, matches globs; `-` (or nothing) is standard input."""
    sources: list[Source] = []
    for given in inputs or (STDIN,):
        if given == STDIN:
            sources.append(Source(None))
            continue
        path = Path(given)
        if path.is_dir():
            inside = _files_below(path)
            if not inside:
                raise SourceError(f"{given}: no readable file in this folder; name files with other extensions")
            sources.extend(inside)
        elif path.exists() or not glob.has_magic(given):
            sources.append(Source(path))
        else:
            found = [Source(Path(p)) for p in sorted(glob.glob(given, recursive=True)) if Path(p).is_file()]  # noqa: PTH207
            if not found:
                raise SourceError(f"{given}: no file matches")
            sources.extend(found)
    return sources


def _files_below(folder: Path) -> list[Source]:
    """The files that may be ours; and the folders that cannot be read, which reading them reports."""
    refused = list[Path]()
    walked = os.walk(folder, onerror=lambda error: refused.append(Path(error.filename)))
    inside = [Path(where, name) for where, _, names in walked for name in names]
    found = [path for path in inside if is_ours(path) and path.is_file()]
    return [Source(path) for path in sorted(found + refused)]


def is_ours(path: Path) -> bool:
    name = path.name.lower()
    for ending in PACKED:
        name = name.removesuffix(ending)
    return name.endswith(ENDINGS)


def is_followed(path: Path) -> bool:
    """Whether a file in a folder that is indexed or watched may hold conversations."""
    name = path.name.lower()
    return is_ours(path) and (not name.startswith(".") or name in HIDDEN)


def open_binary(source: Source, advance: Callable[[int], None] | None = None) -> IO[bytes]:
    """Opens a source as decompressed bytes. `advance` receives the number of bytes of each read."""
    stream = stream_regular(source.path) if source.path is not None else None
    if advance is None or stream is None:
        return open_stream(stream)
    with stream:
        return open_stream(io.BufferedReader(_Counted(os.dup(stream.fileno()), advance)))


class _Counted(io.FileIO):
    """A file that reports how much of it is read."""

    def __init__(self, descriptor: int, advance: Callable[[int], None]) -> None:
        super().__init__(descriptor, "rb")
        self._advance = advance

    def readinto(self, buffer: Any, /) -> int | None:
        count = super().readinto(buffer)
        self._advance(count or 0)
        return count

    def readall(self) -> bytes:
        data = super().readall() or b""
        self._advance(len(data))
        return data


def open_stream(raw: IO[bytes] | None) -> IO[bytes]:
    """Decompresses a stream (None: standard input)."""
    raw = sys.stdin.buffer if raw is None else raw
    head = io.BufferedReader(raw) if not isinstance(raw, io.BufferedReader) else raw  # type: ignore[type-var]
    magic = head.peek(4)[:4]
    # RFC 1952, 2.3.1: ID1 and ID2.
    if magic.startswith(b"\x1f\x8b"):
        file = gzip.GzipFile(fileobj=head)
        file.myfileobj = head  # type: ignore[assignment]  # closed with it
        return file  # type: ignore[return-value]
    # RFC 8878, 3.1.1: the magic number of a frame. A file may have several frames, of which a reader takes one by
    # default.
    if magic == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(head, read_across_frames=True))
    return head


def read_all(source: Source) -> bytes:
    """Reads a whole source as UTF-8; raises a clear error if it is corrupt or larger than `DEFAULT_LIMIT`."""
    try:
        with open_binary(source) as stream:
            data = stream.read(DEFAULT_LIMIT + 1)
    except DAMAGED as error:
        raise SourceError(f"{source.name}: damaged archive: {error}") from None
    if len(data) > DEFAULT_LIMIT:
        raise SourceError(f"{source.name}: must become one body and is larger than {DEFAULT_LIMIT >> 20} MB; split it")
    return as_utf8(data)


def unpacked(data: bytes) -> bytes:
    """Decompresses bytes if they are compressed."""
    try:
        with open_stream(io.BufferedReader(io.BytesIO(data))) as stream:
            return as_utf8(stream.read())
    except DAMAGED as error:
        raise SourceError(f"damaged archive: {error}") from None


def documents_of(data: bytes, name: str, dialect: str | None, problems: list[SourceProblem]) -> Iterator[Document]:
    """Like `documents`, for bytes in memory."""
    return documents(Source(Path(name)), dialect, problems, opened=io.BytesIO(data))


def documents(
    source: Source,
    dialect: str | None,
    problems: list[SourceProblem],
    *,
    limit: int = DEFAULT_LIMIT,
    opened: IO[bytes] | None = None,
    advance: Callable[[int], None] | None = None,
    columns: Mapping[str, str] = {},
    decoded: bool = False,
) -> Iterator[Document]:
    """Yields the conversations in a source: one, one per line, or many in a container. Unreadable parts go to
    `problems`.

    With `decoded`, the data of a file that its format reads at once is the `Conversation`.
    """
    inside = _documents(source, dialect, problems, limit, opened, advance, columns, decoded)
    while True:
        with jsontext.Repairs() as repaired:
            document = next(inside, None)
        if document is None:
            return
        yield document._replace(repaired=tuple(dict.fromkeys(repaired))) if repaired else document


def _documents(
    source: Source,
    dialect: str | None,
    problems: list[SourceProblem],
    limit: int,
    opened: IO[bytes] | None,
    advance: Callable[[int], None] | None,
    columns: Mapping[str, str],
    decoded: bool,
) -> Iterator[Document]:
    try:
        with open_stream(opened) if opened is not None else open_binary(source, advance) as stream:
            with jsontext.Repairs():  # what is read here is read again
                found = look(stream, dialect, columns, limit)
            if found.kind != "whole":
                if found.kind == "lines":
                    inside = _line_documents(source, found.stream, problems, limit)
                elif found.kind == "array":
                    inside = _element_documents(source, found, problems)
                elif found.kind == "object":
                    inside = _element_parts(source, found, problems)
                elif found.kind == "parts":
                    inside = _part_documents(source, found, problems)
                elif found.kind == "sections":
                    inside = _section_documents(source, found, limit)
                else:
                    plain = isinstance(getattr(stream, "raw", None), io.FileIO) and opened is None
                    yield from _contained(found.kind, source, stream, plain, dialect, problems, limit, columns)
                    return
                for document in inside:
                    yield document._replace(data=renamed(document.data, columns)) if columns else document
                return
            at_once = decoded and not columns
            value = known = None
            size = _size(stream)
            if size is not None and size > limit:  # known before any of it is read
                problems.append(SourceProblem(source.name, _too_large(limit)))
                return
            if size is not None:  # JSON lines are read line by line: their bytes are not kept in memory
                known = _read_at_once(stream, dialect) if at_once else None
                value = lines_in(stream) if known is None else known[0]
                stream.seek(0)
                data = as_utf8(stream.read(limit + 1)) if value is None else b""
            else:
                data = as_utf8(found.stream.read(limit + 1))
                known = _read_at_once(io.BytesIO(data), dialect) if at_once and len(data) <= limit else None
    except UNREADABLE as error:
        problems.append(unreadable(source, error))
        return
    if len(data) > limit:
        problems.append(SourceProblem(source.name, _too_large(limit)))
        return
    if known is not None:
        yield Document(source, None, *known)
        return
    value = _whole(source, data, problems) if value is None else _noted(source, value, problems)
    del data  # the consumer may take long
    if value is None:
        return
    parts = split(renamed(value, columns), dialect)
    for number, part in enumerate(parts, 1):
        yield Document(source, number if len(parts) > 1 else None, part)


def unreadable(source: Source, error: Exception) -> SourceProblem:
    """Returns the problem of a source that cannot be read."""
    if isinstance(error, DAMAGED):
        return SourceProblem(source.name, f"damaged archive: {error}")
    if isinstance(error, OSError):
        return SourceProblem(source.name, error.strerror or str(error))
    return SourceProblem(source.name, str(error).removeprefix(f"{source.name}: "))


def _size(stream: IO[bytes]) -> int | None:
    """The bytes of a plain file, which can be read a second time; None for what is packed, or no file."""
    if not isinstance(getattr(stream, "raw", None), io.FileIO | io.BytesIO) or not stream.seekable():
        return None
    place = stream.tell()
    size = stream.seek(0, io.SEEK_END)
    stream.seek(place)
    return size


def _read_at_once(stream: IO[bytes], dialect: str | None) -> tuple[Conversation, str] | None:
    """Returns the conversation of a file whose format reads all lines at once, and the format.

    None leaves the stream at its beginning.

    Lines are read one by one, so that the bytes of the file are not in memory beside the values.
    """
    stream.seek(0)
    if dialect is None:
        with jsontext.Repairs():
            dialect = detect_name(Lines(first_objects(stream)))
        stream.seek(0)
    form = FORMATS.get(dialect) if dialect is not None else None
    found = None
    if form is not None and form.read is not None:
        with gc_paused():
            found = form.read(stream)
    stream.seek(0)
    return None if found is None or form is None else (found, form.name)


_FIRST = 64  # lines, or bytes, by which the format of a session is detected
_FIRST_BYTES = 1 << 16


def first_objects(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The first lines of a stream, as far as they are JSON objects."""
    size = 0
    for _ in range(_FIRST):
        line = stream.readline(MAX_LINE)  # of a document on one line, only its beginning
        size += len(line)
        text = line.lstrip()
        if text:
            if not text.startswith(b"{"):
                return
            try:
                yield from jsontext.read_line(line)
            except FormatError:
                return
        if not line or size > _FIRST_BYTES:
            return


def renamed(value: Any, columns: Mapping[str, str]) -> Any:
    """Renames the columns of a row, or of each of a list of rows: `{"messages": "chat"}` reads `chat` as `messages`.

    A dotted name applies to the items of a list: `{"messages.role": "from"}` reads `from` of each message.
    """
    if not columns:
        return value
    if isinstance(value, list):
        made = [renamed(row, columns) for row in value]
        return Lines(made) if isinstance(value, Lines) else made
    if not isinstance(value, dict):
        return value
    names = {column: name for name, column in columns.items() if "." not in name and column in value}
    # A column that already has the new name of another swaps names with it, so that none is lost.
    freed = {name: column for column, name in names.items()}
    row = {names.get(key, freed.get(key, key)): item for key, item in value.items()}
    for name, column in columns.items():
        head, _, key = name.partition(".")
        if key and isinstance(row.get(head), list):
            row[head] = [renamed(item, {key: column}) for item in row[head]]
    return row


def _too_large(limit: int) -> str:
    return (
        f"larger than {limit >> 20} MB, and would be in memory as a whole; split it, or convert it with a larger"
        " --max-size or to a wire, `claude-code` or `codex-cli`, for which sessions of most programs are read entry by"
        " entry"
    )


def _contained(
    kind: str,
    source: Source,
    stream: IO[bytes],
    plain: bool,
    dialect: str | None,
    problems: list[SourceProblem],
    limit: int,
    columns: Mapping[str, str],
) -> Iterator[Document]:
    """Yields the conversations in a zip, a database or a columnar file; `plain` if the stream is the source's own
    file.
    """
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
            yield Document(source, number, renamed(row, columns))
        return
    members = containers.Members(stream, source.name, limit)
    found = containers.in_archive(members, dialect)
    if found is not None:
        yield from _listed(source, found, "zip")
        return
    # Not a format of its own: a folder of session files.
    for member in sorted(members):
        inner = Source(source.path, member)
        if is_ours(Path(member)):
            opened = members.open(member)
            yield from documents(inner, dialect, problems, limit=limit, opened=opened, columns=columns)
    if not any(is_ours(Path(member)) for member in members):
        raise SourceError("no known format; no file in this zip holds conversations")


def _listed(source: Source, found: tuple[str, Iterable[Any]] | None, kind: str) -> Iterator[Document]:
    if found is None:
        raise SourceError(f"no known format; no reader knows this {kind}")
    name, values = found
    for number, value in enumerate(values, 1):
        yield Document(source, number, value, name)


class Look(NamedTuple):
    """The layout of the conversations in a source.

    `kind`: `lines` (each a conversation), `array` (of conversations), `object` (around an array of them), `parts`
    (whose records stand apart), `sections` of a text, the kind of a container, or `whole`. `stream` holds the whole
    source; for an array, what follows `elements`, its first elements.
    `form` is the format of an object, of parts or of a text; `header` the document without the `lists` of its parts.
    """

    kind: str
    stream: IO[bytes]
    elements: tuple[bytes, ...] = ()
    splitter: Splitter | None = None
    form: FileFormat | None = None
    header: Any = None
    lists: FileLists | None = None


def look(stream: IO[bytes], dialect: str | None, columns: Mapping[str, str] = {}, limit: int = DEFAULT_LIMIT) -> Look:
    """Detects the layout of the conversations from the beginning of a decompressed stream.

    A large document that is packed is copied to a temporary file, unless it is larger than `limit`.
    """
    head = stream.peek(16)[:16]  # type: ignore[attr-defined]
    kind = containers.kind_of(head)
    if kind is not None:
        return Look(kind, stream)
    if as_utf8(head).lstrip().startswith(b"["):
        found, head = _large_array(stream, dialect, columns)
        if found is None and not columns and _size(stream) is not None:
            stream.seek(0)
            found, head = _large_parts(stream, dialect, limit), b""
        if found is not None:
            return found
        stream = _prefixed(head, stream)
    elif not columns and as_utf8(head).lstrip().startswith(b"{"):
        found = _large_parts(stream, dialect, limit) or _large_object(stream, dialect, limit)
        if found is not None:
            return found
    else:
        form = _large_text(stream, dialect)
        if form is not None:
            return Look("sections", stream, form=form)
    is_packed = _size(stream) is None
    first, second = (_first_line(stream, MAX_LINE if is_packed else DEFAULT_LIMIT) for _ in range(2))
    is_lines = first.endswith(b"\n") and second.strip() and _holds_a_conversation(first, dialect, columns)
    stream = _prefixed(first + second, stream)
    if is_lines or not is_packed:
        return Look("lines" if is_lines else "whole", stream)
    head = stream.read(LARGE_OBJECT)
    if len(head) < LARGE_OBJECT:
        return Look("whole", io.BufferedReader(io.BytesIO(head)))
    copy = spooled(_prefixed(head, stream), limit + 1)
    return Look("whole", copy) if (_size(copy) or 0) > limit else look(copy, dialect, columns)


def holds_several(stream: IO[bytes], dialect: str) -> bool:
    """Whether a large document holds several conversations. It has little in memory, also of a document of one line: a
    list whose first two are larger than a chunk is left to the reader of its format, which takes one.
    """
    if as_utf8(stream.peek(16)[:16]).lstrip().startswith(b"["):  # type: ignore[attr-defined]
        found, _ = _large_array(stream, dialect, {}, CHUNK)
        stream.seek(0)
    else:
        found = _large_object(stream, dialect, DEFAULT_LIMIT)
    return found is not None or _large_parts(stream, dialect, DEFAULT_LIMIT) is not None


_FIRST_ELEMENTS = 64 << 20  # bytes: a file whose first two conversations are larger is read as a whole


def _large_array(
    stream: IO[bytes], dialect: str | None, columns: Mapping[str, str], limit: int = _FIRST_ELEMENTS
) -> tuple[Look | None, bytes]:
    """Returns the layout of an array of conversations that is larger than a chunk, split element by element.

    Otherwise None, and the bytes that were read. Formats recognise an array by two elements at least, and one element
    may be larger than a chunk: up to `limit` bytes are read at a time.
    """
    splitter = Splitter()
    parts: list[bytes] = []
    found: list[bytes] = []
    size = CHUNK
    while len(found) < 2 and not splitter.closed and size <= limit:
        data = stream.read(size)
        parts.append(data)
        if len(data) < size:  # all of it is here
            return None, b"".join(parts)
        try:
            found += splitter.feed(data if len(parts) > 1 else as_utf8(data))
        except FormatError:
            return None, b"".join(parts)  # reading it as a whole reports why
        size *= 2
    if len(found) < 2 or splitter.closed:
        return None, b"".join(parts)
    try:
        values = [renamed(jsontext.read(element), columns) for element in found]
        split_values = split(values, dialect)
    except InterlinguaError:
        return None, b"".join(parts)
    same = len(split_values) == len(values) and all(a is b for a, b in zip(split_values, values, strict=True))
    return (Look("array", stream, tuple(found), splitter), b"") if same else (None, b"".join(parts))


LARGE_OBJECT = 32 << 20  # bytes: smaller ones are read as a whole


def _large_object(stream: IO[bytes], dialect: str | None, limit: int) -> Look | None:
    """Returns the layout of a large file that is one object around lists of conversations, or of their records."""
    if not _is_large_file(stream):
        return None
    forms: dict[str, list[FileFormat]] = {}
    nodes: dict[str, list[FileFormat]] = {}
    for form in _formats(dialect):
        for key in form.parts.lists if form.parts is not None else filter(None, (form.array,)):
            forms.setdefault(key, []).append(form)  # several programs call it `conversations`
        for key in form.parts.nodes if form.parts is not None else ():
            nodes.setdefault(key, []).append(form)
    try:
        header, lists = object_around(stream, forms, nodes)
        value = with_lists(header, {key: one.values() for key, one in lists.items()})
        name = dialect or detect_name(value)
        for key, one in lists.items():
            for form in () if one.is_mixed else (nodes if one.is_keyed else forms)[key]:
                if form.array is not None and divided(form, value) is not None:
                    return Look("object", stream, form=form)
                if form.parts is not None and form.name == name:
                    stream.seek(0)
                    header, _ = object_around(stream, form.parts.lists, form.parts.nodes)
                    return _several(form, header, FileLists(stream, limit), stream)
    except InterlinguaError:
        pass
    finally:
        stream.seek(0)
    return None


def _formats(dialect: str | None) -> Iterable[FileFormat]:
    return ordered().formats if dialect is None else filter(None, (FORMATS.get(dialect),))


def _is_large_file(stream: IO[bytes]) -> bool:
    """Whether a stream is at the beginning of a large file that can be read again."""
    size = _size(stream)
    return size is not None and size >= LARGE_OBJECT and not stream.tell()


def _large_parts(stream: IO[bytes], dialect: str | None, limit: int) -> Look | None:
    """Returns the layout of a large file whose records, in lists or lines, are those of several conversations."""
    if not _is_large_file(stream):
        return None
    head = stream.read(CHUNK)
    stream.seek(0)
    is_lines, lists = not as_utf8(head).lstrip().startswith(b"["), FileLists(stream, limit)
    try:
        for form in _formats(dialect):
            inner = [key for key in form.parts.lists if ".." in key] if form.parts is not None else ()
            if any(b'"%s"' % key.partition(".")[0].encode() in head for key in inner):
                first = list(itertools.islice(lists.records(*inner), FIRST))
                if first and (dialect or detect_name(first)) == form.name:
                    return _several(form, {}, lists, stream)
            for node in form.parts.nodes if form.parts is not None else ():
                if node.endswith("*") and b'"%s' % node[:-1].encode() in head:
                    header, fields = lists.outlined(node)
                    if (dialect or detect_name({**header, **fields})) == form.name:
                        return _several(form, header, lists, stream)
        if is_lines and not holds_lines(stream):
            return None
        stream.seek(0)
        lists, first = FileLists(stream, limit, lines=is_lines), Lines() if is_lines else list[Any]()
        first += first_objects(stream) if is_lines else itertools.islice(lists.records(""), FIRST)
        found = FORMATS.get(dialect or detect_name(first) or "")
        if found is not None and found.parts is not None and "" in found.parts.lists:
            return _several(found, type(first)(), lists, stream)
    except InterlinguaError:
        pass
    finally:
        stream.seek(0)
    return None


def _several(form: FileFormat, header: Any, lists: FileLists, stream: IO[bytes]) -> Look | None:
    """Returns the layout of a file of several conversations; None if there is one, or any is not of the format."""
    assert form.parts is not None
    try:
        several = len(list(itertools.islice(form.parts.read(header, lists), 2))) == 2
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError, RecursionError):
        return None
    return Look("parts", stream, form=form, header=header, lists=lists) if several else None


def _large_text(stream: IO[bytes], dialect: str | None) -> FileFormat | None:
    """Returns the format of a large text that holds several conversations."""
    size = _size(stream)
    if size is None or size < LARGE_OBJECT or stream.tell():
        return None
    found = detect_text(stream.read(HEAD)) if dialect is None else Detection(dialect, "given")
    stream.seek(0)
    form = FORMATS.get(found.dialect) if found is not None else None
    return form if form is not None and form.text and form.sections is not None else None


def text_lines(stream: IO[bytes], limit: int) -> Iterator[str]:
    """Yields the lines of a text with their ends."""
    for number, line in enumerate(read_lines(stream, limit)):
        if len(line) > limit:
            raise SourceError(too_long(limit))
        yield (line if number else line.removeprefix(b"\xef\xbb\xbf")).decode("utf-8", "replace")


def _section_documents(source: Source, found: Look, limit: int) -> Iterator[Document]:
    """Yields the conversations of a text, as its format divides it."""
    assert found.form is not None and found.form.sections is not None
    sections = found.form.sections(text_lines(found.stream, limit))
    first = next(sections, "")
    others = enumerate(sections, 2)
    second = next(others, None)
    yield Document(source, None if second is None else 1, Text(first))
    for number, text in itertools.chain(filter(None, (second,)), others):
        yield Document(source, number, Text(text))


def object_around(
    stream: IO[bytes], keys: Container[str], nodes: Container[str] = ()
) -> tuple[Any, dict[str, Listing]]:
    """Returns a document without the elements of its arrays at these keys and its objects at `nodes`, and those."""
    text, lists = outline(stream, keys, nodes)
    value = jsontext.read(text)
    return value if isinstance(value, list) else fields_of(value), lists


def _element_parts(source: Source, found: Look, problems: list[SourceProblem]) -> Iterator[Document]:
    """Yields the conversations of an object around an array, as its format splits it."""
    assert found.form is not None and found.form.array is not None and found.form.split is not None
    key = found.form.array
    header, lists = object_around(found.stream, (key,))
    found.stream.seek(lists[key].begin)
    for number, element in enumerate(parts(found.stream, Splitter()), 1):
        try:
            value = jsontext.read(element)
        except FormatError as error:
            problems.append(SourceProblem(f"{source.name}:{number}", error.message, number))
            continue
        # Formats only divide what has several conversations.
        several = divided(found.form, with_lists(header, {key: [value, value]}))
        if several:
            yield Document(source, number, several[0], found.form.name)
        else:
            problems.append(SourceProblem(f"{source.name}:{number}", f"no conversation of {found.form.name}", number))


def _part_documents(source: Source, found: Look, problems: list[SourceProblem]) -> Iterator[Document]:
    """Yields the conversations whose records stand apart."""
    assert found.form is not None and found.form.parts is not None and found.lists is not None
    for place, message in found.lists.problems.items():
        line = place if isinstance(place, int) else None
        problems.append(SourceProblem(source.name if line is None else f"{source.name}:{line}", message, line))
    for number, part in enumerate(found.form.parts.read(found.header, found.lists), 1):
        yield Document(source, number, part, found.form.name)


def _first_line(stream: IO[bytes], limit: int) -> bytes:
    """Returns everything up to the end of the first line that is not blank."""
    lines = []
    while line := stream.readline(limit):
        lines.append(line)
        if line.strip():
            break
    return b"".join(lines)


def _prefixed(head: bytes, stream: IO[bytes]) -> IO[bytes]:
    """Returns a stream with the bytes that were read from it put back."""
    return io.BufferedReader(_Prefixed(head, stream), CHUNK) if head else stream


class _Prefixed(io.RawIOBase):
    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head = io.BytesIO(head)
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._head.readinto(buffer) or self._stream.readinto(buffer)  # type: ignore[attr-defined]


def _holds_a_conversation(line: bytes, dialect: str | None, columns: Mapping[str, str]) -> bool:
    """Whether the first line of a file is a whole conversation, and so are the others."""
    try:
        value = renamed(jsontext.read(as_utf8(line)), columns)
    except FormatError:
        return False
    if isinstance(value, list):
        return bool(value)
    if not isinstance(value, dict) or "role" in value:
        return False
    found = detect(value) if dialect is None else Detection(dialect, "given")
    return found is not None and stands_alone(found.dialect)


def read_lines(stream: IO[bytes], limit: int) -> Iterator[bytes]:
    """Yields the lines of a stream; `limit` + 1 bytes of a longer line, so that it is recognised as too long."""
    while line := stream.readline(limit + 1):
        yield line
        while len(line) > limit and not line.endswith(b"\n"):
            line = stream.readline(limit)
            if not line:
                return


def too_long(limit: int, what: str = "line") -> str:
    return f"a {what} of more than {limit >> 20} MB; raise --max-size"


def _line_documents(source: Source, stream: IO[bytes], problems: list[SourceProblem], limit: int) -> Iterator[Document]:
    for number, line in enumerate(read_lines(stream, limit), 1):
        if not line.strip():
            continue
        if len(line) > limit:
            problems.append(SourceProblem(f"{source.name}:{number}", too_long(limit), number))
            continue
        try:
            for value in jsontext.read_line(as_utf8(line) if number == 1 else line):
                yield Document(source, number, value)
        except FormatError as error:
            problems.append(SourceProblem(f"{source.name}:{number}", error.message, number))


def _element_documents(source: Source, found: Look, problems: list[SourceProblem]) -> Iterator[Document]:
    number = 0
    try:
        for element in all_elements(found):
            number += 1
            try:
                yield Document(source, number, jsontext.read(element))
            except FormatError as error:
                problems.append(SourceProblem(f"{source.name}:{number}", error.message, number))
    except FormatError as error:
        problems.append(SourceProblem(source.name, f"{error.message}; {number} conversations before that were read"))


def all_elements(found: Look) -> Iterator[bytes]:
    """Yields the elements of an array from the first on. Raises `FormatError` if the array is incomplete."""
    assert found.splitter is not None
    yield from found.elements
    yield from elements(found.stream, found.splitter)


def _whole(source: Source, data: bytes, problems: list[SourceProblem]) -> Any:
    """Returns a body, a recorded stream, a text, or the valid lines of a session file."""
    if not data or data.isspace():
        problems.append(SourceProblem(source.name, "empty"))
        return None
    if is_stream(data):
        return data
    try:
        value = value_of(data)
    except FormatError as error:
        problems.append(SourceProblem(source.name, error.message))
        return None
    if value is None:
        problems.append(SourceProblem(source.name, "no known format: the file is `null`"))
    return _noted(source, value, problems)


def _noted(source: Source, value: Any, problems: list[SourceProblem]) -> Any:
    """Returns the value; adds its truncated lines to the problems."""
    torn = getattr(value, "problems", ())
    problems.extend(SourceProblem(f"{source.name}:{one.line}", one.message, one.line) for one in torn)
    return value


# --- all conversations of a file -------------------------------------------------------------------------------------


def read(
    source: str | os.PathLike[str] | IO[bytes] | bytes,
    dialect: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    subagents: bool = False,
) -> Iterator[Conversation]:
    """Yields every conversation of a file: JSON, JSON lines, text, zip or SQLite; plain, gzip or zstd.

    With `subagents`, sub-agent conversations follow the conversation that started them, from the same file or from
    files of their own; `extra["interlingua"]["spawnedBy"]` names the session, the entry and the call that started them,
    where known.

    Unreadable parts are in the `problems` of the conversation that they belong to, and reading continues; a file that
    is entirely unreadable raises an `InterlinguaError`. `columns` maps a format's column names to the file's:
    `{"messages": "chat", "messages.role": "from"}` reads rows whose messages are under `chat`.
    """
    found = _conversations_in(source, dialect, columns or {})
    if not subagents:
        yield from found
        return
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    for conversation in found:
        yield from _with_subagents(conversation, path, dialect, set())


def _with_subagents(
    conversation: Conversation,
    path: Path | None,
    dialect: str | None,
    seen: set[Path],
    above: Conversation | None = None,
) -> Iterator[Conversation]:
    """Yields a conversation, linked to the one that started it, and its sub-agents."""
    relations = relatives_of(conversation, path or Path())
    if above is None or relations.parent is not None:
        yield spawned(conversation, relations, above)
        yield from subagents_of(conversation)
    for file in files_of_subagents(relations, path) if path is not None else ():
        if file not in seen:
            seen.add(file)
            for child in _readable(file, dialect):
                if relatives_of(child, file).parent == relations.id:
                    yield from _with_subagents(child, file, dialect, seen, conversation)


def _readable(path: Path, dialect: str | None) -> Iterator[Conversation]:
    """Yields the conversations of a sub-agent's file; an unreadable one does not prevent reading its parent."""
    try:
        yield from _conversations_in(path, dialect, {})
    except InterlinguaError as error:
        _log.warning("%s: a sub-agent that cannot be read: %s", path, error)


_AS_USUAL = contextlib.nullcontext()


def _conversations_in(source: Any, dialect: str | None, columns: Mapping[str, str]) -> Iterator[Conversation]:
    dialect = None if dialect is None else canonical(dialect)
    found: list[SourceProblem] = []
    waiting: Conversation | None = None  # problems after the last conversation belong to it
    documents = _documents_in(source, dialect, found, columns)
    while True:
        # The values of a large file are checked for cycles once, when only the conversation is left. Later
        # conversations of a file are small.
        with gc_paused() if waiting is None else _AS_USUAL:
            document = next(documents, None)
            if document is None:
                break
            repaired, line = document.repaired, document.line
            token = is_unshared.set(True)
            try:
                conversation = (
                    document.data
                    if type(document.data) is Conversation
                    else decode(document.data, dialect or document.dialect)
                )
            except InterlinguaError as error:
                if line is None:
                    raise
                found.append(SourceProblem(document.name, str(error), line))
                continue
            finally:
                is_unshared.reset(token)
                del document
        if waiting is not None:
            yield waiting
        waiting = _with_problems(with_repairs(conversation, repaired, line), found)
        found.clear()
    if waiting is not None:
        yield _with_problems(waiting, found)
    elif found:
        raise SourceError(f"{found[0].name}: {found[0].message}")


def _documents_in(
    source: Any, dialect: str | None, problems: list[SourceProblem], columns: Mapping[str, str]
) -> Iterator[Document]:
    if isinstance(source, bytes | bytearray):
        return documents(Source(None), dialect, problems, opened=io.BytesIO(source), columns=columns, decoded=True)
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        where = Source(None, name if isinstance(name, str) else None)
        opened = io.BufferedReader(_Borrowed(source))
        return documents(where, dialect, problems, opened=opened, columns=columns, decoded=True)
    if not isinstance(source, str | os.PathLike):
        raise FormatError(f"a source must be a path, bytes or an open file, not {type(source).__name__}", "source")
    path = Path(source)
    if path.is_dir():
        raise SourceError(f"{path}: a folder; read each of its files, or use `interlingua show {path}`")
    return documents(Source(path), dialect, problems, columns=columns, decoded=True)


def _with_problems(conversation: Conversation, found: list[SourceProblem]) -> Conversation:
    if not found:
        return conversation
    problems = (request.Problem(message=problem.message, line=problem.line) for problem in found)
    every = tuple(dict.fromkeys((*conversation.problems, *problems)))
    return conversation if len(every) == len(conversation.problems) else replace(conversation, problems=every)


class _Borrowed(io.RawIOBase):
    """The caller's file: read, and left open."""

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


def only_conversation(name: str, dialect: str | None = None) -> Conversation:
    """Returns the only conversation of an input; raises if there is none or several."""
    found = expand([name])
    if len(found) != 1:
        raise InterlinguaError(f"{name}: {len(found)} files; give a file with one conversation")
    problems: list[SourceProblem] = []
    inside = list(documents(found[0], dialect, problems))
    if problems or len(inside) != 1:
        why = problems[0].message if problems else f"{len(inside)} conversations; give a file with one"
        raise InterlinguaError(f"{name}: {why}")
    document = inside[0]
    try:
        return decode(document.data, dialect or document.dialect)
    except InterlinguaError as error:
        raise InterlinguaError(f"{name}: {str(error).removeprefix('detect: ')}") from error
