"""Container files: zip, SQLite, Parquet and Arrow, opened read-only and within limits."""

import base64
import contextlib
import io
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import zstandard

from ..dialects.registry import FORMATS, ordered
from ..dialects.wire import Parts
from ..values import jsontext
from ..values.errors import FormatError, InterlinguaError
from . import arrays

# PKWARE APPNOTE, 4.3.7 and 4.3.16: a file begins with a local header, an empty archive with its end.
ZIP = b"PK\x03\x04"
EMPTY_ZIP = b"PK\x05\x06"
SQLITE = b"SQLite format 3\0"
PARQUET = b"PAR1"
ARROW = b"ARROW1"
BATCH = 500  # rows of a columnar file per batch
MAX_MEMBERS = 200_000
_PLAUSIBLE = 100  # times the packed size: text compresses to a fifth, a bomb to a thousandth
_ZSTD = 93  # the compression method of .eval files since Inspect 0.3.130; zipfile supports it from Python 3.14 on
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
)


class SourceError(InterlinguaError):
    """A file that cannot be read as the format that it appears to be."""


def kind_of(head: bytes) -> str | None:
    """Returns `zip`, `sqlite`, `parquet` or `arrow`, by the first bytes of a file."""
    if head.startswith((ZIP, EMPTY_ZIP)):
        return "zip"
    if head.startswith(PARQUET):
        return "parquet"
    if head.startswith(ARROW):
        return "arrow"
    return "sqlite" if head.startswith(SQLITE) else None


class Members(Mapping[str, bytes]):
    """The files in a zip by name, each read on access. Nothing is written to disk.

    No member may be larger than `limit`, by its real unpacked size, whatever the archive declares; nor may all of them
    that are read, unless their compression ratio is plausible (see `open`). The last one is cached: several formats
    inspect the same member to detect their own.
    """

    def __init__(self, file: IO[bytes], name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._last: tuple[str, bytes] = ("", b"")
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, struct.error) as error:
            raise SourceError(f"{name}: damaged zip: {error}") from None
        infos = [info for info in self._zip.infolist() if not info.is_dir()]
        if len(infos) > MAX_MEMBERS:
            raise SourceError(f"{name}: a zip of {len(infos)} files; the limit is {MAX_MEMBERS}")
        for info in infos:
            if info.filename.startswith(("/", "\\")) or ".." in info.filename.replace("\\", "/").split("/"):
                raise SourceError(f"{name}: {info.filename!r} leads out of the archive")
        self._infos = {info.filename: info for info in infos}
        size = file.seek(0, io.SEEK_END)  # members may overlap, so that each declares most of the archive as its own
        self._left = max(limit, _PLAUSIBLE * min(size, sum(info.compress_size for info in infos)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __getitem__(self, member: str) -> bytes:
        info = self._infos[member]
        if member == self._last[0]:
            return self._last[1]
        try:
            with self._open(info) as stream:
                data = stream.read(min(self._limit, self._left) + 1)
        except _DAMAGED as error:
            raise SourceError(f"{self._name}: {member}: {error}") from None
        if len(data) > min(self._limit, self._left):
            raise SourceError(f"{self._name}: {member}: {_bomb(self._limit)}")
        self._left -= len(data)
        self._last = (member, data)
        return data

    def open(self, member: str) -> IO[bytes]:
        """Opens a member as a stream, so that it may be larger than the limit if its compression ratio is plausible.

        Beyond the limit, more than 100 times the packed size is refused.
        """
        info = self._infos[member]
        try:
            return io.BufferedReader(_Member(self._open(info), info, f"{self._name}: {member}", self._limit), 1 << 16)
        except _DAMAGED as error:
            raise SourceError(f"{self._name}: {member}: {error}") from None

    def elements(self, member: str) -> Iterator[Any]:
        """Yields the objects in a member that is a JSON array; none of any other member."""
        with self.open(member) as stream:
            head = stream.peek(16).removeprefix(b"\xef\xbb\xbf").lstrip()  # type: ignore[attr-defined]
            if head.startswith(b"["):
                yield from map(jsontext.read, arrays.elements(stream, arrays.Splitter()))

    def tables(self, member: str, parts: Parts) -> tuple[Any, arrays.FileLists]:
        """The document of a member without its records, and the lists of these, in a temporary file."""
        with self.open(member) as stream:
            copy = arrays.spooled(stream, self._limit + 1)
        if copy.seek(0, io.SEEK_END) > self._limit:
            raise SourceError(f"{self._name}: {member}: {_bomb(self._limit)}")
        copy.seek(0)
        text, _ = arrays.outline(copy, parts.lists, parts.nodes)
        return jsontext.read(text), arrays.FileLists(copy, self._limit)

    def _open(self, info: zipfile.ZipInfo) -> IO[bytes]:
        # APPNOTE, 4.4.4: bit 0 means encrypted, which `zipfile` refuses with a text of its own.
        if info.compress_type != _ZSTD or info.flag_bits & 1:
            return self._zip.open(info)
        assert self._zip.fp is not None
        self._zip.fp.seek(info.header_offset)
        # APPNOTE, 4.3.7: the local header has its own extra field, whose length need not be that in the directory.
        header = self._zip.fp.read(30)  # signature to the lengths of the name and of the extra field
        if len(header) < 30 or header[:4] != ZIP:
            raise zipfile.BadZipFile("bad local header")
        self._zip.fp.seek(sum(struct.unpack("<HH", header[26:30])), io.SEEK_CUR)
        packed = io.BytesIO(self._zip.fp.read(info.compress_size))
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True))


class _Member(io.RawIOBase):
    """A member of a zip, decompressed within its limit; corruption is a SourceError."""

    def __init__(self, stream: IO[bytes], info: zipfile.ZipInfo, name: str, limit: int) -> None:
        self._stream = stream
        self._name = name
        self._limit = limit
        self._left = max(limit, _PLAUSIBLE * info.compress_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except _DAMAGED as error:
            raise SourceError(f"{self._name}: {error}") from None
        self._left -= len(data)
        if self._left < 0:
            raise SourceError(f"{self._name}: {_bomb(self._limit)}")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _bomb(limit: int) -> str:
    return f"unpacks to more than {limit >> 20} MB; raise --max-size if that is right"


def in_archive(members: Mapping[str, bytes], dialect: str | None) -> tuple[str, Iterable[Any]] | None:
    """Returns the format that recognises these members, and its documents."""
    for form in _candidates(dialect):
        with _guarded(form.name):
            documents = form.archive(members) if form.archive is not None else None
        if documents is not None:
            return form.name, _each(form.name, documents)
    return None


def _each(name: str, documents: Iterable[Any]) -> Iterator[Any]:
    """Yields the documents of a container, one by one."""
    with _guarded(name):
        yield from documents


@contextlib.contextmanager
def _guarded(name: str) -> Iterator[None]:
    """Converts any error of a reader, in a file that looks like one of its format, to a SourceError."""
    try:
        yield
    except FormatError as error:
        raise SourceError(f"invalid {name}: {error.message}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise SourceError(f"invalid {name}: {type(error).__name__}: {error}") from None


def in_database(connection: sqlite3.Connection, dialect: str | None) -> tuple[str, Iterable[Any]] | None:
    """Returns the format that recognises these tables, and its documents."""
    for form in _candidates(dialect):
        # A table or column that only some versions of a format have is not corruption.
        with contextlib.suppress(sqlite3.OperationalError), _guarded(form.name):
            documents = form.database(connection) if form.database is not None else None
            if documents is not None:
                return form.name, _each(form.name, documents)
    return None


def _candidates(dialect: str | None) -> list[Any]:
    if dialect is not None:
        return [FORMATS[dialect]] if dialect in FORMATS else []
    return list(ordered().formats)


@contextlib.contextmanager
def database(path: Path | None, data: bytes, name: str) -> Iterator[sqlite3.Connection]:
    """Opens a read-only connection to a file or to the bytes of one."""
    try:
        connection = _connected(path, data)
    except sqlite3.Error as error:
        raise SourceError(f"{name}: damaged database: {error}") from None
    with contextlib.closing(connection):
        # A hostile file can hold views and triggers that call functions or never end: see sqlite.org/security.html
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 512 << 20)
        try:
            computed = connection.execute(_COMPUTED).fetchone()
            connection.set_authorizer(_permit)
            if computed is not None:
                raise SourceError(f"{name}: table {computed[0]!r} has a computed column; only stored values are read")
            yield connection
        except sqlite3.Error as error:
            raise SourceError(f"{name}: damaged database: {error}") from None


def _connected(path: Path | None, data: bytes) -> sqlite3.Connection:
    if path is None:
        connection = sqlite3.connect(":memory:")
        connection.deserialize(data)
        return connection
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    log = path.with_name(path.name + "-wal")
    if not (log.exists() and log.stat().st_size):
        # sqlite.org/uri.html: `immutable` takes no lock, and needs no file beside the database.
        return sqlite3.connect(f"{address}&immutable=1", uri=True)
    # What a running program wrote last is in the log beside the file, which `immutable` would ignore.
    connection = sqlite3.connect(address, uri=True)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:  # the log's index cannot be created here: read the file alone
        connection.close()
        return sqlite3.connect(f"{address}&immutable=1", uri=True)
    return connection


# A column that is computed on reading can turn a few bytes into any number of gigabytes.
_COMPUTED = (
    "SELECT tables.name FROM sqlite_master AS tables JOIN pragma_table_xinfo(tables.name) AS columns"
    " WHERE tables.type = 'table' AND tables.sql NOT LIKE 'CREATE VIRTUAL%' AND columns.hidden > 1"
)
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION})


def _permit(action: int, first: str | None, second: str | None, schema: str | None, view: str | None) -> int:
    """Allows reading from tables, but not through views, which may hide any query."""
    return sqlite3.SQLITE_OK if action in _READING and view is None else sqlite3.SQLITE_DENY


# --- columns ---------------------------------------------------------------------------------------------------------


def rows(file: IO[bytes], kind: str, name: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a Parquet or Arrow file as JSON objects, in batches.

    A column has a value in every row, so an absent value is null in it: nulls are dropped.
    """
    pa = _pyarrow(name, kind)
    from pyarrow import ipc, parquet

    try:
        if kind == "parquet":
            batches: Iterable[Any] = parquet.ParquetFile(file).iter_batches(batch_size=BATCH)
        else:
            reader = ipc.open_file(file)
            batches = (reader.get_batch(at) for at in range(reader.num_record_batches))
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH):
                for row in batch.slice(start, BATCH).to_pylist():
                    yield _without_nulls(row)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise SourceError(f"{name}: damaged {kind} file: {error}") from None


COLUMNAR = {".parquet": "parquet", ".arrow": "arrow"}


def write_rows(lines: IO[bytes], out: IO[bytes], kind: str, name: str) -> None:
    """Writes JSON objects, one per line, as the rows of a Parquet or Arrow file, in batches.

    The columns are the union over all rows: rows are read twice, first for the columns and then for the values.
    """
    pa = _pyarrow(name, kind)
    from pyarrow import ipc, parquet

    try:
        schema = pa.schema([])
        for batch in _batches(lines):
            schema = pa.unify_schemas([schema, pa.table(columns_of(batch)).schema], promote_options="permissive")
        lines.seek(0)
        open_writer = parquet.ParquetWriter if kind == "parquet" else ipc.new_file
        with open_writer(out, schema) as writer:
            for batch in _batches(lines):
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SourceError(f"{name}: the rows have no common columns: {error}; write JSON lines") from None


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Returns the values of each column over all rows; `Table.from_pylist` only sees the columns of the first."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _batches(lines: IO[bytes]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for line in lines:
        batch.append(jsontext.read(line))
        if not isinstance(batch[-1], dict):
            raise SourceError(
                "a row of columns is an object; choose a format whose body is one, such as openai-finetune"
            )
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _pyarrow(name: str, kind: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise SourceError(f"{name}: pyarrow is missing for {kind} files; install interlingua[arrow]") from None
    return pyarrow


def _without_nulls(value: Any) -> Any:
    """Returns a row as JSON values: times as text, bytes as base64."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, str | int | float | bool | None):
        return value if value == value else None  # JSON has no NaN
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
