"""Full text search over markdown notes: an SQLite FTS5 index that follows the files.

The index is a cache: if it is missing, corrupt or of another version, it is rebuilt. Search ignores accents and English
endings. Scripts without word spacing (Chinese, Japanese, Thai, …) are indexed character by character, and a run
of characters is searched as a phrase, so that two characters are enough.
"""

import hashlib
import json
import os
import sqlite3
import stat
import threading
import time
import unicodedata
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from ..values.errors import ToolInputError
from ..values.regular import private_database
from ..values.text import UNSPACED, spaced

VERSION = 2
MAX_FILE_BYTES = 4_000_000

_CHUNK_CHARS = 1200
_SNIPPET_CHARS = 700
_MAX_TERMS = 24
_CANDIDATES = 100
_SETTLED_NS = 2_000_000_000  # a file modified this shortly before the read may change again with the same mtime

_SCHEMA = f"""
CREATE TABLE files (path TEXT PRIMARY KEY, mtime INTEGER, size INTEGER, hash BLOB, read INTEGER);
CREATE TABLE chunks (id INTEGER PRIMARY KEY, path TEXT NOT NULL, first INTEGER, last INTEGER, text TEXT);
CREATE INDEX chunks_by_path ON chunks (path);
CREATE VIRTUAL TABLE terms USING fts5 (heading, body, tokenize = 'porter unicode61 remove_diacritics 2');
PRAGMA user_version = {VERSION};
"""
_MATCHED = """
SELECT terms.rowid, -bm25(terms, 2.0, 1.0), chunks.path, chunks.first, chunks.last, chunks.text
FROM terms JOIN chunks ON chunks.id = terms.rowid
WHERE terms MATCH ? AND chunks.path IN (SELECT value FROM json_each(?))
ORDER BY bm25(terms, 2.0, 1.0), chunks.path, chunks.first LIMIT ?
"""


T = TypeVar("T")
Known: TypeAlias = tuple[int, int, bytes, int]


class NoteFile(Protocol):
    """One note. Both methods raise `OSError` or `ToolInputError` if it is unreadable."""

    def state(self) -> tuple[int, int]:
        """Its modification time in nanoseconds, and its size in bytes."""
        ...

    def read(self) -> tuple[bytes, tuple[int, int]]:
        """Its bytes, and its state at that moment."""
        ...


Notes: TypeAlias = Mapping[str, NoteFile]
"""Notes by absolute path. A shared index may contain more; only these are searched."""


class LocalNote:
    """A local note. `open` returns a descriptor; the caller confines it to its folder."""

    def __init__(self, open: Callable[[], int]) -> None:
        self._open = open

    def state(self) -> tuple[int, int]:
        descriptor = self._open()
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        return found.st_mtime_ns, found.st_size

    def read(self) -> tuple[bytes, tuple[int, int]]:
        with os.fdopen(self._open(), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ToolInputError("a memory note must be a regular file")
            refuse_large(found.st_size)
            return file.read(MAX_FILE_BYTES), (found.st_mtime_ns, found.st_size)


def refuse_large(size: int) -> None:
    """Raises `ToolInputError` for a note above the size limit."""
    if size > MAX_FILE_BYTES:
        raise ToolInputError(f"the note has {size} bytes, more than the limit of {MAX_FILE_BYTES}")


class Chunk(NamedTuple):
    """Lines `first` to `last` (from 1) of a file, and their headings."""

    first: int
    last: int
    heading: str
    text: str


class MemoryHit(Struct, frozen=True, kw_only=True, rename="camel"):
    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str


class MemoryIndex:
    """The index of notes, in the file `where`, or in memory if that is None or unusable.

    May be called from several threads; the file may be shared with other processes.
    """

    def __init__(self, where: Path | None) -> None:
        self.where = where
        self._lock = threading.Lock()
        self._own: sqlite3.Connection | None = None

    def search(self, notes: Notes, query: str, *, max_results: int, min_score: float = 0.0) -> list[MemoryHit]:
        """The best passages for the terms of `query`, best first; nothing in it is syntax."""
        terms = terms_of(query)
        hits = self._with_index(lambda db: _search(db, notes, terms, query))
        return [hit for hit in hits if hit.score >= min_score][:max_results]

    def _with_index(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on the file; on a new file if it is corrupt, in memory if it is not writable."""
        for _ in range(2):
            where = self.where
            if where is None:
                break
            try:
                with closing(_opened(where)) as db:
                    return work(db)
            except (sqlite3.OperationalError, OSError):
                self.where = None
            except sqlite3.DatabaseError:
                _delete(where)
        with self._lock:
            return work(self._in_memory())

    def _in_memory(self) -> sqlite3.Connection:
        if self._own is None:
            self._own = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            _prepare(self._own)
            weakref.finalize(self, self._own.close)
        return self._own


def _search(db: sqlite3.Connection, notes: Notes, terms: list[str], query: str) -> list[MemoryHit]:
    _refresh(db, notes)
    if not terms:
        return []
    rows = db.execute(_MATCHED, (" OR ".join(terms), json.dumps(list(notes)), _CANDIDATES)).fetchall()
    shares = _shares(db, terms, [row[0] for row in rows])
    return sorted(_scored(rows, shares, query), key=lambda hit: -hit.score)


def _refresh(db: sqlite3.Connection, notes: Notes) -> None:
    """Updates the index; writes nothing if no note changed."""
    known = {row[0]: row[1:] for row in db.execute("SELECT path, mtime, size, hash, read FROM files")}
    deleted = [path for path in known.keys() - notes.keys() if not os.path.lexists(path)]
    changed = [path for path, note in notes.items() if _changed(note, known.get(path))]
    if not deleted and not changed:
        return
    with db:
        db.execute("BEGIN IMMEDIATE")
        for path in deleted:
            _forget(db, path)
        for path in changed:
            _update(db, path, notes[path], known.get(path))


def chunks_of(text: str) -> list[Chunk]:
    """The text split at headings, and long sections at blank lines; blank lines at the ends are removed."""
    chunks: list[Chunk] = []
    trail: list[str] = []
    lines: list[str] = []
    first, size, fenced = 1, 0, False

    def close(next_line: int) -> None:
        nonlocal first, size
        while lines and not lines[-1].strip():
            lines.pop()
        if lines:
            heading = " › ".join(part for part in trail if part)
            chunks.append(Chunk(first, first + len(lines) - 1, heading, "\n".join(lines)))
        lines.clear()
        first, size = next_line, 0

    for number, line in enumerate(text.split("\n"), 1):
        level = 0 if fenced else _heading_level(line)
        if level or (size > _CHUNK_CHARS and not line.strip()) or size > 2 * _CHUNK_CHARS:
            close(number)
        if level:
            trail[level - 1 :] = [*[""] * (level - 1 - len(trail)), line.strip("# \t\r")]
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        lines.append(line)
        size += len(line) + 1
    close(text.count("\n") + 2)
    return chunks


def terms_of(query: str) -> list[str]:
    """FTS5 expressions, one per word of the query, quoted so that nothing in them is syntax."""
    tokens = dict.fromkeys(token for run in query.split() for token in _tokens(run))
    return [_term(token) for token in list(tokens)[:_MAX_TERMS]]


def _heading_level(line: str) -> int:
    marks = len(line) - len(line.lstrip("#"))
    return marks if 0 < marks <= 6 and line[marks : marks + 1] in ("", " ", "\t") else 0


def _tokens(run: str) -> Iterable[str]:
    """The tokens of a run without spaces: split at punctuation, and between scripts with and without spaces."""
    word, before = "", False
    for char in unicodedata.normalize("NFKC", run):
        now = UNSPACED.match(char) is not None
        if not (char.isalnum() or unicodedata.category(char)[0] in "MN"):
            if word:
                yield word
            word = ""
            continue
        if word and now != before:
            yield word
            word = ""
        word, before = word + char, now
    if word:
        yield word


def _term(word: str) -> str:
    """The expression for a word; from four letters on, also as a prefix (`deploy` finds `deployment`).

    The index contains Porter stems: a final y or e changes in the word's stem (`deploi`), but not in a longer word's.
    """
    if UNSPACED.match(word):
        return '"' + " ".join(word) + '"'
    if len(word) < 4:
        return f'"{word}"'
    start = word[:-1] if len(word) > 4 and word[-1] in "yeYE" else word
    return f'("{word}" OR "{start}"*)'


def _shares(db: sqlite3.Connection, terms: list[str], ids: list[int]) -> dict[int, float]:
    """For each candidate, the share of the query's terms that it contains."""
    counts = dict.fromkeys(ids, 0)
    places = ",".join("?" * len(ids))
    for term in terms:
        for (found,) in db.execute(
            f"SELECT rowid FROM terms WHERE terms MATCH ? AND rowid IN ({places})", (term, *ids)
        ):
            counts[found] += 1
    return {at: count / len(terms) for at, count in counts.items()}


def _scored(
    rows: list[tuple[int, float, str, int, int, str]], shares: Mapping[int, float], query: str
) -> Iterator[MemoryHit]:
    """Hits with a score: the share of the terms found, reduced by up to a third by rank; 1 is all terms in the best
    passage. bm25 itself has no scale, and is near zero for few notes."""
    best = max((row[1] for row in rows), default=0.0) or 1.0
    for at, rank, path, first, last, text in rows:
        score = shares[at] * (2 + max(rank, 0.0) / best) / 3
        yield MemoryHit(
            path=path, start_line=first, end_line=last, score=round(min(score, 1.0), 4), snippet=_snippet(text, query)
        )


def _snippet(text: str, query: str) -> str:
    """The part of a chunk around the first literal match."""
    text = text.strip("\n")
    if len(text) <= _SNIPPET_CHARS:
        return text
    low = text.lower()
    places = [low.find(word.lower()) for run in query.split() for word in _tokens(run)]
    at = min((place for place in places if place >= 0), default=0)
    start = max(0, min(at - _SNIPPET_CHARS // 3, len(text) - _SNIPPET_CHARS))
    end = start + _SNIPPET_CHARS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def _opened(where: Path) -> sqlite3.Connection:
    """A connection to the index file; readable by the owner only, never through a link."""
    private_database(where)
    db = sqlite3.connect(where, isolation_level=None, timeout=10.0, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        _prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection) -> None:
    """Creates missing tables. Raises `DatabaseError` for an index of another version."""
    if _version(db) == VERSION:
        return
    with db:
        db.execute("BEGIN IMMEDIATE")
        version = _version(db)
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"the index has version {version}")
        if version == 0:
            for statement in _SCHEMA.strip().split(";\n"):
                db.execute(statement)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _delete(where: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{where}{suffix}").unlink(missing_ok=True)


def _forget(db: sqlite3.Connection, path: str) -> None:
    db.execute("DELETE FROM terms WHERE rowid IN (SELECT id FROM chunks WHERE path = ?)", (path,))
    db.execute("DELETE FROM chunks WHERE path = ?", (path,))
    db.execute("DELETE FROM files WHERE path = ?", (path,))


def _changed(note: NoteFile, known: Known | None) -> bool:
    """Whether a note must be read again: its time or size differs, or it had not settled when it was last read."""
    try:
        state = note.state()
    except (OSError, ToolInputError):
        return known is not None
    return known is None or known[:2] != state or known[3] - known[0] <= _SETTLED_NS


def _update(db: sqlite3.Connection, path: str, note: NoteFile, known: Known | None) -> None:
    """Reads a note, and indexes it again if its content differs. An unreadable one is removed."""
    now = time.time_ns()
    try:
        data, state = note.read()
    except (OSError, ToolInputError):
        _forget(db, path)
        return
    digest = hashlib.blake2b(data, digest_size=16).digest()
    if known is None or known[2] != digest:
        _forget(db, path)
        _add(db, path, data.decode("utf-8", "replace").replace("\r\n", "\n"))
    db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", (path, *state, digest, now))


def _add(db: sqlite3.Connection, path: str, text: str) -> None:
    for chunk in chunks_of(text):
        made = db.execute(
            "INSERT INTO chunks (path, first, last, text) VALUES (?, ?, ?, ?)",
            (path, chunk.first, chunk.last, chunk.text),
        )
        db.execute(
            "INSERT INTO terms (rowid, heading, body) VALUES (?, ?, ?)",
            (made.lastrowid, spaced(f"{Path(path).stem} {chunk.heading}"), spaced(chunk.text)),
        )
