"""Other programs' files in the search index: their texts, conversations and usage.

A file is tracked by its size and time. Its texts are stored compressed, because a JSON document or a zip cannot be read
from the middle, and are deleted with it. Files are written in transactions of several; a large file takes several
transactions, and counts as indexed after the last: after a crash it is indexed again, so nothing is duplicated.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import zstandard

from ..conversion.sources import DATABASES
from ..values.errors import InterlinguaError
from ..values.text import spaced
from .cards import GROUPS, Price, Total, Used, add_usage, totals
from .store import Store
from .text_index import TextIndex, part_of
from .texts import Query, SearchText

ARCHIVE = "archive"
OURS = "interlingua"  # the program name of this home's own sessions
NOTE, FAILED, SKIPPED = "note", "failed", "skipped"
READER = 3  # version of the reader: incremented when reading changes
BLOCK_CHARS = 64 << 10  # characters per compressed block: a hit reads one block
_TEXTS = msgspec.msgpack.Decoder(list[tuple[SearchText, str]])


class Stamp(NamedTuple):
    """The state of a file, for detecting changes."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path, found: os.stat_result | None = None) -> "Stamp":
        """For an SQLite database, its write-ahead log counts too: the file itself changes later."""
        found = path.stat() if found is None else found
        size, modified = found.st_size, found.st_mtime_ns
        if path.suffix in DATABASES:
            with contextlib.suppress(OSError):
                log = path.with_name(path.name + "-wal").stat()
                size, modified = size + log.st_size, max(modified, log.st_mtime_ns)
        return cls(found.st_dev, found.st_ino, size, modified)


class FileProblem(NamedTuple):
    """A file that could not be read: partly (`NOTE`) or at all (`FAILED`); `SKIPPED` was found in a folder."""

    message: str
    line: int | None = None
    kind: str = NOTE


class ConversationPart(NamedTuple):
    """A conversation that was read, or its next lines. `number` counts the conversations of a file."""

    number: int
    dialect: str
    title: str | None
    project: str | None
    messages: int
    models: tuple[str, ...]
    started: int | None
    ended: int | None
    texts: list[SearchText]
    used: list[Used]

    @property
    def size(self) -> int:
        return sum(len(text.text) for text in self.texts)


class FileParts(NamedTuple):
    """Parts of a file to be written. `first` replaces earlier parts; `last` marks the file as complete.

    For a file of lines these are the bytes from `start` to `covered`; `state` is needed to continue reading from there.
    """

    path: str
    stamp: Stamp
    parts: list[ConversationPart]
    problems: list[FileProblem] = []
    first: bool = True
    last: bool = True
    start: int = 0
    covered: int | None = None
    sample: bytes | None = None
    state: bytes | None = None


class KnownFile(NamedTuple):
    """A file of the index; `stamp` is None if it was not indexed to its end."""

    n: int
    path: str
    stamp: Stamp | None
    reader: int | None
    covered: int | None
    sample: bytes | None
    state: bytes | None
    problems: tuple[FileProblem, ...]


class Archived(NamedTuple):
    """A conversation in a list; `path` is None for a session of this home."""

    id: str
    tool: str
    title: str | None
    project: str | None
    messages: int
    models: tuple[str, ...]
    started: int | None
    ended: int | None
    cost: float | None
    path: str | None
    number: int

    @property
    def tool_name(self) -> str:
        """The program that wrote it."""
        return self.tool if self.path is not None else OURS


class ArchiveIndex(TextIndex):
    """The search index with the files of other programs. `price` returns the cost of responses that state none."""

    def __init__(self, path: Path, stores: Mapping[str, Store], price: Price | None = None) -> None:
        super().__init__(path, stores)
        self._price = price
        self._shown_stores = (*stores, ARCHIVE)
        self._packer = zstandard.ZstdCompressor(level=1)
        self._unpacker = zstandard.ZstdDecompressor()

    # --- writing -----------------------------------------------------------------------------------------------------

    def files(self) -> dict[str, KnownFile]:
        """The files of the index by path."""
        with self._reading_rows() as database:
            rows = database.execute(
                "SELECT n, path, device, inode, size, modified, reader, covered, sample, state, problems FROM files"
            ).fetchall()
        return {row[1]: _known(row) for row in rows}

    def write(self, several: Iterable[FileParts]) -> None:
        """Writes parts of files, in one transaction."""
        with self._writing() as database:
            for one in several:
                self._write_file(database, one)

    def _write_file(self, database: sqlite3.Connection, one: FileParts) -> None:
        row = database.execute("SELECT n, covered FROM files WHERE path = ?", (one.path,)).fetchone()
        if one.first and row is not None:
            self._erase_file(database, row[0])
            row = None
        if not one.first and (row is None or (row[1] or 0) != one.start):
            return  # another process has indexed it meanwhile
        if row is None:
            made = database.execute("INSERT INTO files (path) VALUES (?) RETURNING n", (one.path,))
            row = (made.fetchone()[0],)
        file = row[0]
        touched = {self._write_part(database, file, one.path, part) for part in one.parts}
        for session in touched:
            database.execute(
                "UPDATE sessions SET cost = (SELECT SUM(cost) FROM"
                " (SELECT MAX(cost) AS cost FROM usage WHERE session = ? GROUP BY key)) WHERE n = ?",
                (session, session),
            )
        if one.last:
            problems = msgspec.json.encode(one.problems).decode()
            database.execute(
                "UPDATE files SET device = ?, inode = ?, size = ?, modified = ?, problems = ? WHERE n = ?",
                (*one.stamp, problems, file),
            )
        else:
            database.execute("UPDATE files SET size = NULL WHERE n = ?", (file,))
        database.execute(
            "UPDATE files SET reader = ?, covered = ?, sample = ?, state = ? WHERE n = ?",
            (READER, one.covered, one.sample, one.state, file),
        )

    def _write_part(self, database: sqlite3.Connection, file: int, path: str, part: ConversationPart) -> int:
        session = self._session_of(database, file, path, part)
        first = self._next_row(database)
        known: dict[tuple[Any, ...], str] = {}
        tagged: list[tuple[SearchText, str]] = []
        for text in part.texts:
            attributes = (text.kind, text.role, text.tool, text.model, text.is_error)
            tags = known.get(attributes)
            if tags is None:
                tags = known[attributes] = self._tags(database, ARCHIVE, session, text)
            tagged.append((text, tags))
        database.executemany(
            "INSERT INTO texts (n, session, line, part, at, cost) VALUES (?, ?, ?, ?, ?, ?)",
            ((n, session, 0, part_of(text), text.at, text.cost) for n, (text, _) in enumerate(tagged, first)),
        )
        database.executemany(
            "INSERT INTO terms (rowid, body, tags) VALUES (?, ?, ?)",
            ((n, spaced(text.text), tags) for n, (text, tags) in enumerate(tagged, first)),
        )
        for block in _blocks(tagged):
            data = self._packer.compress(msgspec.msgpack.encode(block))
            values = (first, session, len(block), data)
            database.execute("INSERT INTO kept (n, session, count, data) VALUES (?, ?, ?, ?)", values)
            first += len(block)
        add_usage(database, session, part.used, self._price)
        return session

    def _session_of(self, database: sqlite3.Connection, file: int, path: str, part: ConversationPart) -> int:
        """The row number of a conversation; the row is created with its first part and updated with the others."""
        row = database.execute(
            "SELECT n, models FROM sessions WHERE file = ? AND number = ?", (file, part.number)
        ).fetchone()
        if row is None:
            made = database.execute(
                "INSERT INTO sessions (store, agent, id, lines, file, number, messages, models)"
                " VALUES (?, ?, ?, 0, ?, ?, 0, '[]') RETURNING n, models",
                (ARCHIVE, part.dialect, conversation_id(path, part.number), file, part.number),
            )
            row = made.fetchone()
        number, known = int(row[0]), msgspec.json.decode(row[1], type=tuple[str, ...])
        models = msgspec.json.encode(tuple(dict.fromkeys((*known, *part.models)))).decode()
        database.execute(
            "UPDATE sessions SET title = COALESCE(?, title), project = COALESCE(project, ?), models = ?,"
            " messages = messages + ?, started = COALESCE(MIN(started, ?), started, ?), ended = COALESCE(?, ended)"
            " WHERE n = ?",
            (part.title, part.project, models, part.messages, part.started, part.started, part.ended, number),
        )
        return number

    def forget_files(self, paths: Iterable[str]) -> None:
        """Removes missing files and their texts."""
        for path in paths:
            with self._writing() as database:
                row = database.execute("SELECT n FROM files WHERE path = ?", (path,)).fetchone()
                if row is not None:
                    self._erase_file(database, row[0])

    def _erase_file(self, database: sqlite3.Connection, file: int) -> None:
        for (session,) in database.execute("SELECT n FROM sessions WHERE file = ?", (file,)).fetchall():
            blocks = database.execute("SELECT n, count, data FROM kept WHERE session = ?", (session,)).fetchall()
            for first, count, data in blocks:
                database.executemany(
                    "INSERT INTO terms (terms, rowid, body, tags) VALUES ('delete', ?, ?, ?)",
                    ((n, spaced(text.text), tags) for n, (text, tags) in enumerate(self._unpacked(data), first)),
                )
                database.execute("DELETE FROM texts WHERE n BETWEEN ? AND ?", (first, first + count - 1))
            for table in ("kept", "usage"):
                database.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
            database.execute("DELETE FROM sessions WHERE n = ?", (session,))
        database.execute("DELETE FROM files WHERE n = ?", (file,))

    def move_file(self, file: KnownFile, path: str) -> None:
        """Sets the new path of a moved file."""
        with self._writing() as database:
            database.execute("UPDATE files SET path = ? WHERE n = ?", (path, file.n))
            for n, number in database.execute("SELECT n, number FROM sessions WHERE file = ?", (file.n,)).fetchall():
                database.execute("UPDATE sessions SET id = ? WHERE n = ?", (conversation_id(path, number), n))

    # --- reading -----------------------------------------------------------------------------------------------------

    def _kept_text(self, n: int) -> SearchText | None:
        with self._reading_rows() as database:
            row = database.execute(
                "SELECT n, count, data FROM kept WHERE n <= ? ORDER BY n DESC LIMIT 1", (n,)
            ).fetchone()
        if row is None or n >= row[0] + row[1]:
            return None
        texts = self._unpacked(row[2])
        return texts[n - int(row[0])][0]

    def _unpacked(self, data: bytes) -> list[tuple[SearchText, str]]:
        return _TEXTS.decode(self._unpacker.decompress(data))

    def conversations(self, query: Query, *, id: str | None = None) -> list[Archived]:
        """Returns conversations that match the filters of a query, the latest first; `id` is a prefix of an id."""
        where, values = _filters(query)
        if id is not None:
            where, values = f"{where} AND sessions.id >= ? AND sessions.id < ?", [*values, id, id + "\U0010ffff"]
        with self._reading_rows() as database:
            rows = database.execute(
                "SELECT id, agent, title, project, messages, models, started, ended, cost, path, number FROM sessions"
                f" LEFT JOIN files ON files.n = sessions.file WHERE {where}"
                " ORDER BY COALESCE(ended, started, sessions.modified) DESC, id LIMIT ? OFFSET ?",
                (*values, query.limit, query.offset),
            ).fetchall()
        return [_archived(*row) for row in rows]

    def names(self) -> dict[str, int]:
        """Returns the programs in the index, with their number of conversations."""
        with self._reading_rows() as database:
            rows = database.execute("SELECT agent, COUNT(*) FROM sessions WHERE store = ? GROUP BY agent", (ARCHIVE,))
            return dict(rows.fetchall())

    def counts(self) -> dict[int, int]:
        """Returns the number of conversations of each file."""
        with self._reading_rows() as database:
            rows = database.execute("SELECT file, COUNT(*) FROM sessions WHERE file IS NOT NULL GROUP BY file")
            return dict(rows.fetchall())

    def totals(self, group: str, query: Query) -> list[Total]:
        """Returns tokens and cost by day, model, project or tool, each response counted once."""
        if group not in GROUPS:
            raise InterlinguaError(f"unknown group {group!r}; valid groups: {', '.join(GROUPS)}")
        where, values = _filters(query, "usage.at")
        if query.model is not None:
            where, values = f"{where} AND usage.model = ?", [*values, query.model]
        with self._reading_rows() as database:
            return totals(database, group, where, values)

    def size(self) -> int:
        """Returns the size of the index on disk in bytes."""
        found = (Path(f"{self._path}{suffix}") for suffix in ("", "-wal", "-shm"))
        return sum(path.stat().st_size for path in found if path.exists())


def conversation_id(path: str, number: int) -> str:
    """Returns the id of a conversation of a file: the same as on the canvas."""
    return hashlib.blake2b(f"{path}#{number}".encode("utf-8", "surrogateescape"), digest_size=10).hexdigest()


def _filters(query: Query, time: str = "COALESCE(ended, started, sessions.modified)") -> tuple[str, list[Any]]:
    """The conditions of a query on conversations."""
    marks = ",".join("?" * len(query.stores))
    parts, values = [f"store IN ({marks})"], list[Any](query.stores)
    for condition, value in (
        ("sessions.agent = ?", query.agent),
        ("sessions.project = ?", query.project),
        ("sessions.cost >= ?", query.min_total),
        ("sessions.cost <= ?", query.max_total),
        (f"{time} >= ?", query.since),
        (f"{time} <= ?", query.until),
        ("EXISTS (SELECT 1 FROM json_each(sessions.models) WHERE value = ?)", query.model),
    ):
        if value is not None:
            parts.append(condition)
            values.append(value)
    return " AND ".join(parts), values


def _archived(
    id: str, tool: str, title: str | None, project: str | None, messages: int | None, models: str | None, *rest: Any
) -> Archived:
    started, ended, cost, path, number = rest
    names = msgspec.json.decode(models or "[]", type=tuple[str, ...])
    return Archived(id, tool, title, project, messages or 0, names, started, ended, cost, path, number or 0)


def _known(row: tuple[Any, ...]) -> KnownFile:
    n, path, device, inode, size, modified, reader, covered, sample, state, problems = row
    stamp = None if size is None else Stamp(device, inode, size, modified)
    found = msgspec.json.decode(problems or "[]", type=tuple[FileProblem, ...])
    return KnownFile(n, path, stamp, reader, covered, sample, state, found)


def _blocks(tagged: list[tuple[SearchText, str]]) -> Iterator[list[tuple[SearchText, str]]]:
    """The texts in blocks of about `BLOCK_CHARS` characters."""
    block: list[tuple[SearchText, str]] = []
    size = 0
    for one in tagged:
        block.append(one)
        size += len(one[0].text)
        if size >= BLOCK_CHARS:
            yield block
            block, size = [], 0
    if block:
        yield block
