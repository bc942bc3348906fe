"""Full text search over sessions: a contentless SQLite FTS5 index that follows the logs.

The index does not store texts: the text of a hit is read from its session. It may be deleted at any time, and is
rebuilt. Each row has tags (session, store, role, tool, model, failed), so that a filter costs as much as another search
term. Rows are numbered in the order of indexing; the latest are found first.

Several programs share the file: each sees the sessions of its own stores. `archive_index.py` adds other programs' files
and the usage of their messages.
"""

import contextlib
import hashlib
import logging
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..values.errors import InterlinguaError
from ..values.places import private_folder
from ..values.regular import private_database
from ..values.text import spaced
from .cards import Card, CardState, Used, add_usage, used_by
from .reader import Line
from .session import Session
from .store import SessionInfo, Store
from .texts import KINDS, Filters, Query, SearchText, Snippet, Term, is_in, message_texts, snippet, terms_of, texts_of
from .tree import ENTRY

_log = logging.getLogger(__name__)

VERSION = 5
BATCH_LINES = 800
BATCH_CHARS = 4 << 20
PENDING = 16 << 20  # bytes of terms that FTS5 buffers: more than a batch has, so that each is one segment
SEGMENTS = 16  # segments of one level that FTS5 merges into one: fewer merges, and the segments of a batch are large
COUNTED = 10_000  # hits counted at most
COUNTED_SESSIONS = 1000  # hits whose sessions are counted
STALE_SHARE = 0.25  # share of unreferenced rows that triggers a rebuild
LEFT_ROWS = 1  # the `application_id` of an index in which some rows lead to no session
FREE_SHARE = 0.05  # share of free pages that is returned to the file system

_SCHEMA = f"""
CREATE TABLE sessions (
    n INTEGER PRIMARY KEY, store TEXT NOT NULL, agent TEXT NOT NULL, id TEXT NOT NULL, title TEXT, modified INTEGER,
    size INTEGER, lines INTEGER NOT NULL, last BLOB, state BLOB, card BLOB, file INTEGER, number INTEGER, project TEXT,
    messages INTEGER, models TEXT, started INTEGER, ended INTEGER, cost REAL, UNIQUE (store, agent, id));
CREATE INDEX sessions_file ON sessions (file);
CREATE TABLE texts (
    n INTEGER PRIMARY KEY, session INTEGER NOT NULL, line INTEGER NOT NULL, part INTEGER NOT NULL, at INTEGER,
    cost REAL);
CREATE TABLE files (
    n INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, device INTEGER, inode INTEGER, size INTEGER, modified INTEGER,
    reader INTEGER, covered INTEGER, state BLOB, sample BLOB, problems TEXT);
CREATE INDEX files_inode ON files (inode);
CREATE TABLE kept (n INTEGER PRIMARY KEY, session INTEGER NOT NULL, count INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX kept_session ON kept (session);
CREATE TABLE usage (
    n INTEGER PRIMARY KEY, session INTEGER NOT NULL, key BLOB NOT NULL, at INTEGER, model TEXT, input INTEGER,
    output INTEGER, cache_read INTEGER, cache_write INTEGER, reasoning INTEGER, cost REAL);
CREATE INDEX usage_session ON usage (session);
CREATE TABLE names (n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE terms USING fts5 (body, tags, content = '', tokenize = 'unicode61 remove_diacritics 2');
INSERT INTO terms (terms, rank) VALUES ('hashsize', {PENDING});
INSERT INTO terms (terms, rank) VALUES ('automerge', {SEGMENTS});
PRAGMA user_version = {VERSION};
"""


class TextHit(NamedTuple):
    store: str
    agent: str
    id: str
    title: str | None
    line: int
    text: SearchText
    snippet: list[Snippet]


class Results(NamedTuple):
    """Hits, the latest first. `total` and `sessions` are counted up to limits; `next` is the offset of more."""

    hits: list[TextHit]
    total: int
    sessions: int
    next: int | None


class IndexProgress(NamedTuple):
    """Indexed sessions, and all sessions."""

    done: int
    total: int


class IndexUnusable(InterlinguaError):
    """The file of the index cannot be read or written: locked, no space, no permission."""


class TextIndex:
    """The index in a file, over named `stores`. Thread-safe."""

    def __init__(self, path: Path, stores: Mapping[str, Store]) -> None:
        self._place = path
        self._path = path  # another one while the place cannot be written to
        self._stores = dict(stores)
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._reading = threading.Lock()
        self._names: dict[str, int] = {}
        self._shown_stores = tuple(self._stores)  # searched if a query names none

    # --- following ---------------------------------------------------------------------------------------------------

    def follow(
        self,
        *,
        agent: str | None = None,
        progress: Callable[[IndexProgress], object] = lambda progress: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> IndexProgress:
        """Updates the index for every session, the latest first; `stop` may interrupt it at any time.

        With `agent`, only the sessions of that agent are checked, the latest last: hits are in the order of rows.
        """
        sessions = [
            (name, whose, info)
            for name, store in self._stores.items()
            for whose in ([agent] if agent is not None else store.agents())
            for info in store.sessions(whose)
        ]
        sessions.sort(key=lambda one: one[2].modified, reverse=agent is None)
        done = IndexProgress(0, len(sessions))
        self._forget_missing({(name, whose, info.id) for name, whose, info in sessions}, agent)
        with self._reading_rows() as database:
            rows = database.execute("SELECT store, agent, id, size, modified FROM sessions")
            indexed = {(store, whose, id): (size, modified) for store, whose, id, size, modified in rows}
        for number, (name, whose, info) in enumerate(sessions, 1):
            if stop():
                break
            if indexed.get((name, whose, info.id)) != (info.size, info.modified):
                try:
                    self._follow_session(name, whose, info, stop)
                except IndexUnusable:
                    raise
                except (InterlinguaError, OSError):
                    pass  # an error in one session must not prevent indexing the others
            done = IndexProgress(number, len(sessions))
            progress(done)
        self._shrink(stop)
        return done

    def _follow_session(self, name: str, agent: str, info: SessionInfo, stop: Callable[[], bool]) -> None:
        known = self._known(name, agent, info.id)
        if known is not None and (known.size, known.modified) == (info.size, info.modified):
            return
        store = self._stores[name]
        with Session.open(info.id, agent=agent, store=store, read_only=True, create=False) as session:
            self._index(name, session, info, known, stop)

    def _index(
        self, name: str, session: Session, info: SessionInfo, known: "_Known | None", stop: Callable[[], bool]
    ) -> None:
        start = known.lines if known is not None else 0
        if known is not None and (start > session.line_count or (start and digest_of(session, start) != known.last)):
            self._forget(known.n)
            known, start = None, 0
        number = known.n if known is not None else self._new_session(name, session.agent, session.id)
        while start < session.line_count and not stop():
            start = self._add_batch(name, number, session, start)
        if start >= session.line_count:
            self._settle(number, info, session, start)

    def _add_batch(self, name: str, number: int, session: Session, start: int) -> int:
        """Indexes a batch of lines in one transaction; returns the next line number."""
        rows: list[tuple[int, SearchText]] = []
        used: list[Used] = []
        state = self._state(number)
        size, end = 0, start
        for line in session.lines(start, BATCH_LINES, revised=False):
            end = line.number + 1
            state.take(line)
            used += used_by(line.entry.message) if line.entry is not None else ()
            for text in texts_of(line):
                rows.append((line.number, text))
                size += len(text.text)
            if size > BATCH_CHARS:
                break
        with self._writing() as database:
            now = database.execute("SELECT lines FROM sessions WHERE n = ?", (number,)).fetchone()
            if now is None or now[0] != start:  # another process is indexing it
                return session.line_count
            first = self._next_row(database)
            numbered = list(enumerate(rows, first))
            database.executemany(
                "INSERT INTO texts (n, session, line, part, at, cost) VALUES (?, ?, ?, ?, ?, ?)",
                ((n, number, line, part_of(text), text.at, text.cost) for n, (line, text) in numbered),
            )
            database.executemany(
                "INSERT INTO terms (rowid, body, tags) VALUES (?, ?, ?)",
                ((n, spaced(text.text), self._tags(database, name, number, text)) for n, (_, text) in numbered),
            )
            add_usage(database, number, used)
            database.execute(
                "UPDATE sessions SET lines = ?, last = ?, state = ? WHERE n = ?",
                (end, digest_of(session, end), msgspec.msgpack.encode(state), number),
            )
        return end

    def _next_row(self, database: sqlite3.Connection) -> int:
        """Returns the number of the next row: also above rows without a session."""
        last = "MAX((SELECT COALESCE(MAX(n), 0) FROM texts), (SELECT COALESCE(MAX(id), 0) FROM terms_docsize))"
        return int(database.execute(f"SELECT {last} + 1").fetchone()[0])

    def _state(self, number: int) -> CardState:
        with self._reading_rows() as database:
            row = database.execute("SELECT state FROM sessions WHERE n = ?", (number,)).fetchone()
        known = row[0] if row is not None else None
        return CardState() if known is None else msgspec.msgpack.decode(known, type=CardState)

    def _tags(self, database: sqlite3.Connection, store: str, session: int, text: SearchText) -> str:
        """One tag for each attribute that a query can filter by."""
        tags = [f"s{session}", f"o{self._name(database, store)}", f"k{text.kind}"]
        for letter, name in (("r", text.role), ("t", text.tool), ("m", text.model)):
            if name:
                tags.append(f"{letter}{self._name(database, name)}")
        if text.is_error:
            tags.append("failed")
        return " ".join(tags)

    def _name(self, database: sqlite3.Connection, name: str) -> int:
        """A number for a name, since a name is not always one token."""
        known = self._names.get(name)
        if known is None:
            found = database.execute("SELECT n FROM names WHERE name = ?", (name,)).fetchone()
            if found is None:
                found = database.execute("INSERT INTO names (name) VALUES (?) RETURNING n", (name,)).fetchone()
            known = self._names[name] = int(found[0])
        return known

    def _settle(self, number: int, info: SessionInfo, session: Session, lines: int) -> None:
        card = self._state(number).card(session)
        values = {
            "title": info.title,
            "modified": info.modified,
            "size": info.size,
            "card": msgspec.msgpack.encode(card),
            "messages": info.messages,
            "models": msgspec.json.encode(card.models).decode(),
            "started": info.created,
            "ended": info.modified,
            "cost": card.cost,
        }
        with self._writing() as database:
            database.execute(
                f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in values)} WHERE n = ? AND lines = ?",
                (*values.values(), number, lines),
            )

    def _new_session(self, store: str, agent: str, id: str) -> int:
        with self._writing() as database:
            made = database.execute(
                "INSERT INTO sessions (store, agent, id, lines) VALUES (?, ?, ?, 0)"
                " ON CONFLICT (store, agent, id) DO UPDATE SET lines = lines RETURNING n",
                (store, agent, id),
            ).fetchone()
            return int(made[0])

    def _known(self, store: str, agent: str, id: str) -> "_Known | None":
        with self._reading_rows() as database:
            row = database.execute(
                "SELECT n, lines, last, size, modified FROM sessions WHERE store = ? AND agent = ? AND id = ?",
                (store, agent, id),
            ).fetchone()
        return None if row is None else _Known(*row)

    def card(self, store: str, agent: str, id: str) -> tuple[int, int, Card] | None:
        """Size, modification time and card of a session when it was last indexed."""
        with self._reading_rows() as database:
            row = database.execute(
                "SELECT size, modified, card FROM sessions WHERE store = ? AND agent = ? AND id = ?",
                (store, agent, id),
            ).fetchone()
        if row is None or row[2] is None:
            return None
        return row[0], row[1], msgspec.msgpack.decode(row[2], type=Card)

    # --- forgetting --------------------------------------------------------------------------------------------------

    def forget(self, store: str, agent: str, id: str, session: Session | None = None) -> None:
        """Removes a session. Given the `session` itself, its terms are erased from the index file at once."""
        known = self._known(store, agent, id)
        if known is None:
            return
        if session is not None and known.lines <= session.line_count:
            self._erase_terms(store, known, session)
        self._forget(known.n)

    def _erase_terms(self, store: str, known: "_Known", session: Session) -> None:
        """Deletes a session's rows; a contentless FTS5 table needs their original texts, read from the lines."""
        with self._writing() as database:
            rows = database.execute("SELECT n, line FROM texts WHERE session = ? ORDER BY n", (known.n,)).fetchall()
            texts = ((line.number, text) for line in _all_lines(session) for text in texts_of(line))
            for (n, number), (line, text) in zip(rows, texts, strict=False):
                if number != line:
                    return  # the lines have changed since: the rows stay, without a session
                # sqlite.org/fts5.html, The 'delete' command: other values than those that were inserted would damage
                # the index.
                values = (n, spaced(text.text), self._tags(database, store, known.n, text))
                database.execute("INSERT INTO terms (terms, rowid, body, tags) VALUES ('delete', ?, ?, ?)", values)
            database.execute("DELETE FROM texts WHERE session = ?", (known.n,))
            database.execute("INSERT INTO terms (terms) VALUES ('optimize')")  # overwrites the deleted terms

    def _forget(self, number: int) -> None:
        with self._writing() as database:
            _delete_rows(database, number)

    def _forget_missing(self, there: set[tuple[str, str, str]], agent: str | None = None) -> None:
        """Removes sessions that no longer exist; deletes the index once too many of its rows are unreferenced."""
        with self._writing() as database:
            for n, *key in database.execute("SELECT n, store, agent, id FROM sessions").fetchall():
                if tuple(key) not in there and key[0] in self._stores and agent in (None, key[1]):
                    _delete_rows(database, n)
            if database.execute("PRAGMA application_id").fetchone()[0] != LEFT_ROWS:
                return
            rows = database.execute("SELECT COUNT(*) FROM texts").fetchone()[0]
            indexed = database.execute("SELECT COUNT(*) FROM terms_docsize").fetchone()[0]
        if indexed > 1000 and rows < indexed * (1 - STALE_SHARE):
            self.delete()

    def _shrink(self, stop: Callable[[], bool]) -> None:
        """Returns pages freed by merged segments to the file system, a few at a time."""
        while not stop():
            with self._lock:
                database = self._opened()
                free, pages = (
                    database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count")
                )
                if free <= pages * FREE_SHARE:
                    return
                database.execute("PRAGMA incremental_vacuum(1000)").fetchall()

    def delete(self) -> None:
        """Removes the index; the next `follow` builds it again."""
        with self._lock, self._reading:
            is_temporary = self._temporary is not None
            self._close()
            self._names.clear()
            for suffix in () if is_temporary else ("", "-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    # --- searching ---------------------------------------------------------------------------------------------------

    def search(self, query: Query) -> Results:
        """The texts that match a query, the latest first."""
        return exact_or_prefixes(query, self._search)

    def filters(self) -> Filters:
        """The roles, tools and models of the indexed texts of this index's stores."""
        with self._reading_rows() as database:
            stores = self._store_tags(database, self._shown_stores)
            names = database.execute("SELECT n, name FROM names ORDER BY name").fetchall() if stores else []
            found: dict[str, list[str]] = {"r": [], "t": [], "m": []}
            # Terms of removed sessions stay until the index is rebuilt; their rows in `texts` do not.
            exists = "SELECT 1 FROM terms CROSS JOIN texts ON texts.n = terms.rowid WHERE terms MATCH ? LIMIT 1"
            for number, name in names:
                for letter, known in found.items():
                    matching = f"tags : {letter}{number} AND tags : {stores}"
                    if database.execute(exists, (matching,)).fetchone():
                        known.append(name)
        return Filters(*map(tuple, found.values()))

    def _search(self, query: Query, terms: list[Term], *, exact: bool) -> Results:
        with self._reading_rows() as database:
            matching = self._expression(database, query, terms, exact)
            if matching is None:
                return Results([], 0, 0, None)
            where, values = _conditions(query)
            rows = database.execute(
                "SELECT texts.n, texts.session, texts.line, texts.part FROM terms CROSS JOIN texts"
                f" ON texts.n = terms.rowid WHERE terms MATCH ? {where} ORDER BY terms.rowid DESC LIMIT ? OFFSET ?",
                (matching, *values, query.limit + 1, query.offset),
            ).fetchall()
            joined = f"terms CROSS JOIN texts ON texts.n = terms.rowid WHERE terms MATCH ? {where}"
            sessions = database.execute(
                f"SELECT COUNT(DISTINCT session) FROM (SELECT texts.session FROM {joined} LIMIT ?)",
                (matching, *values, COUNTED_SESSIONS),
            ).fetchone()[0]
            # The join is most of the time of counting, and only needed where rows have no session or are filtered.
            is_whole = not where and database.execute("PRAGMA application_id").fetchone()[0] != LEFT_ROWS
            counted = "terms WHERE terms MATCH ?" if is_whole else joined
            total = database.execute(
                f"SELECT COUNT(*) FROM (SELECT terms.rowid FROM {counted} LIMIT ?)", (matching, *values, COUNTED)
            ).fetchone()[0]
            names = {
                n: tuple(rest)
                for n, *rest in database.execute(
                    f"SELECT n, store, agent, id, title FROM sessions WHERE n IN ({','.join('?' * len(rows))})",
                    [row[1] for row in rows],
                )
            }
        hits = list(self._shown(rows[: query.limit], names, terms, exact))
        more = query.offset + query.limit if len(rows) > query.limit else None
        return Results(hits, total, sessions, more)

    def _expression(self, database: sqlite3.Connection, query: Query, terms: list[Term], exact: bool) -> str | None:
        """The FTS5 expression of a query; None if nothing can match."""
        tags: list[str] = []
        wanted = set(query.stores or self._shown_stores)
        if not query.sessions and not wanted >= _stores_in(database):
            stores = self._store_tags(database, wanted)
            if stores is None:
                return None
            tags.append(stores)
        if query.sessions:
            numbers = self._numbers(database, query)
            if not numbers:
                return None
            tags.append("(" + " OR ".join(f"s{number}" for number in numbers) + ")")
        for letter, name in (("r", query.role), ("t", query.tool), ("m", query.model)):
            if name is not None:
                found = database.execute("SELECT n FROM names WHERE name = ?", (name,)).fetchone()
                if found is None:
                    return None
                tags.append(f"{letter}{found[0]}")
        if query.is_error:
            tags.append("failed")
        included = [_fts(term, exact) for term in terms if not term.excluded]
        parts = [f"body : ({' AND '.join(included)})"] if included else []
        parts += [f"tags : {tag}" for tag in tags]
        if not parts:
            if any(term.excluded for term in terms):
                return None
            parts = ["tags : (" + " OR ".join(f"k{kind}" for kind in KINDS) + ")"]
        excluded = "".join(f" NOT body : {_fts(term, True)}" for term in terms if term.excluded)
        return f"({' AND '.join(parts)}){excluded}"

    def _store_tags(self, database: sqlite3.Connection, stores: Iterable[str]) -> str | None:
        """The FTS5 expression for rows of these stores; None if nothing of them is indexed."""
        known = [database.execute("SELECT n FROM names WHERE name = ?", (name,)).fetchone() for name in stores]
        numbers = sorted(row[0] for row in known if row is not None)
        return "(" + " OR ".join(f"o{number}" for number in numbers) + ")" if numbers else None

    def _numbers(self, database: sqlite3.Connection, query: Query) -> list[int]:
        found: list[int] = []
        for agent, id in query.sessions:
            rows = database.execute("SELECT n, store FROM sessions WHERE agent = ? AND id = ?", (agent, id))
            found += [n for n, store in rows if store in (query.stores or self._shown_stores)]
        return found

    def _shown(
        self,
        rows: list[tuple[int, int, int, int]],
        names: Mapping[int, tuple[Any, ...]],
        terms: list[Term],
        exact: bool,
    ) -> Iterator[TextHit]:
        """Hits with snippets read from the sessions; omits entries whose revised text no longer matches."""
        opened: dict[int, Session] = {}
        with contextlib.ExitStack() as stack:
            for n, number, line, part in rows:
                if number not in names:
                    continue
                store, agent, id, title = names[number]
                kept = self._kept_text(n) if store not in self._stores else None
                if kept is not None:
                    yield TextHit(store, agent, id, title, line, kept, snippet(kept.text, terms))
                    continue
                try:
                    if number not in opened:
                        session = Session.open(id, agent=agent, store=self._stores[store], read_only=True, create=False)
                        opened[number] = stack.enter_context(session)
                    text = text_at(opened[number], line, part)
                except (InterlinguaError, OSError, KeyError):
                    continue
                if text is None:
                    continue
                shown = snippet(text.text, terms)
                # If the log has been revised or replaced since, the index may refer to another text.
                is_certain = not text.entry or text.entry not in opened[number].marks.revisions
                if (is_certain and any(part.is_hit for part in shown)) or is_in(text.text, terms, exact=exact):
                    yield TextHit(store, agent, id, title, line, text, shown)

    def _kept_text(self, n: int) -> SearchText | None:
        """Returns the text of a row that the index itself stores."""
        return None

    # --- the file ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """An exclusive write transaction."""
        with self._lock:
            database = self._opened()
            try:
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
            except BaseException as error:
                self._names.clear()
                if database.in_transaction:  # a full disk may have ended it
                    database.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):
                    raise _unusable(self._path, error) from error
                raise

    @contextlib.contextmanager
    def _reading_rows(self) -> Iterator[sqlite3.Connection]:
        """A separate connection for reads: a search does not wait for indexing."""
        with self._reading:
            if self._reader is None:
                with self._lock:
                    self._opened()
                self._reader = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=30)
                self._reader.execute("PRAGMA query_only = ON")
            yield self._reader

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            if not _is_writable(self._path):
                _log.warning("%s: no write access; a temporary search index is used", self._path)
                self._temporary = tempfile.TemporaryDirectory()
                self._path = Path(self._temporary.name) / "canvas" / "search.db"
            self._database = _open(self._path)
        return self._database

    def close(self) -> None:
        with self._lock, self._reading:
            self._close()

    def _close(self) -> None:
        for connection in (self._database, self._reader):
            if connection is not None:
                connection.close()
        self._database = self._reader = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary, self._path = None, self._place


class _Known(NamedTuple):
    n: int
    lines: int
    last: bytes | None
    size: int | None
    modified: int | None


def _is_writable(path: Path) -> bool:
    """Whether a home exists that the index can be written to. Others are left to `_open`, which has the reason."""
    folder, home = path.parent, path.parent.parent
    if os.access(path, os.F_OK):
        return os.access(path, os.W_OK) and os.access(folder, os.W_OK)
    place = folder if os.access(folder, os.F_OK) else home
    return os.access(place, os.W_OK) or not os.access(place, os.R_OK)


def _open(path: Path) -> sqlite3.Connection:
    """Opens the index; creates it if missing, recreates it if corrupt or of another version."""
    for _ in range(2):
        private_folder(path.parent)
        private_database(path)
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        try:
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only counts before anything else is written
            # A search must not wait for the indexing of another process (sqlite.org/wal.html).
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA journal_size_limit = 4194304")  # otherwise the log keeps its maximum size
            database.execute("PRAGMA synchronous = NORMAL")  # lines lost in a power cut are indexed again
            # sqlite.org/pragma.html: deleted content is overwritten; texts of deleted sessions must not stay in free
            # pages.
            database.execute("PRAGMA secure_delete = ON")
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                database.execute("BEGIN IMMEDIATE")
                if database.execute("PRAGMA user_version").fetchone()[0] == 0:
                    for statement in _SCHEMA.strip().split(";\n"):
                        database.execute(statement)
                database.execute("COMMIT")
                version = VERSION
            if version == VERSION:
                return database
        except sqlite3.OperationalError as error:  # locked, no space, no permission: nothing is wrong with the file
            database.close()
            raise _unusable(path, error) from None
        except sqlite3.DatabaseError:
            pass
        database.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        time.sleep(0)
    raise InterlinguaError(f"{path}: not usable as a search index; delete it")


def _unusable(path: Path, error: sqlite3.OperationalError) -> IndexUnusable:
    """Returns the error for an index that cannot be read or written, with a remedy."""
    why = str(error)
    remedies = {"locked": "try again", "full": "free some space there, or use another home"}
    remedy = next((remedy for word, remedy in remedies.items() if word in why), "check the disk and the permissions")
    return IndexUnusable(f"{path}: the search index cannot be used: {why}; {remedy}")


def _stores_in(database: sqlite3.Connection) -> set[str]:
    """Returns the stores in the index: one index step for each."""
    found: set[str] = set()
    name = database.execute("SELECT MIN(store) FROM sessions").fetchone()[0]
    while name is not None:
        found.add(name)
        name = database.execute("SELECT MIN(store) FROM sessions WHERE store > ?", (name,)).fetchone()[0]
    return found


def _delete_rows(database: sqlite3.Connection, session: int) -> None:
    """Deletes the rows that link terms to a session; the terms themselves stay until the index is rebuilt."""
    if database.execute("DELETE FROM texts WHERE session = ?", (session,)).rowcount:
        database.execute(f"PRAGMA application_id = {LEFT_ROWS}")
    database.execute("DELETE FROM usage WHERE session = ?", (session,))
    database.execute("DELETE FROM sessions WHERE n = ?", (session,))


def _fts(term: Term, exact: bool) -> str:
    """The FTS5 expression of a term, quoted, so that nothing in it is syntax."""
    phrase = '"' + " ".join(word.replace('"', "") for word in term.tokens) + '"'
    return phrase if exact or len(term.tokens[-1]) < 2 else f"{phrase} *"


def _conditions(query: Query) -> tuple[str, list[Any]]:
    """The conditions that tags do not cover."""
    of_text = {"cost >= ?": query.min_cost, "at >= ?": query.since, "at <= ?": query.until}
    of_session = {
        "agent = ?": query.agent,
        "project = ?": query.project,
        "cost >= ?": query.min_total,
        "cost <= ?": query.max_total,
    }
    tests: dict[str, Any] = {f"AND texts.{test}": value for test, value in of_text.items()}
    tests |= {
        f"AND texts.session IN (SELECT n FROM sessions WHERE {test})": value for test, value in of_session.items()
    }
    given = {test: value for test, value in tests.items() if value is not None}
    return " ".join(given), [*given.values()]


def exact_or_prefixes(query: Query, search: Callable[..., Results]) -> Results:
    """What a search of an index finds; if nothing has the exact words, what has words that begin so."""
    terms = terms_of(query.text)
    results: Results = search(query, terms, exact=True)
    if not results.hits and not query.offset and any(not term.excluded for term in terms):
        results = search(query, terms, exact=False)
    return results


def part_of(text: SearchText) -> int:
    """Block and kind encoded in one number."""
    return (0 if text.block is None else text.block + 1) * 16 + KINDS.index(text.kind)


def text_at(session: Session, number: int, part: int) -> SearchText | None:
    """The current text of a row: of a revised entry, the latest version."""
    block, kind = divmod(part, 16)
    line = session.lines(number, 1)[0]
    found = [text for text in texts_of(line) if text.kind == KINDS[kind] and (text.block or 0) == max(0, block - 1)]
    if not found and line.entry is not None:
        found = list(message_texts(line.entry.id or "", line.entry.message))
    return found[0] if found else None


def digest_of(session: Session, lines: int) -> bytes:
    """A digest of the first and last of the indexed lines, to detect a replaced log."""
    first, last = session.raw(0), session.raw(lines - 1)
    return hashlib.blake2b(first[:4096] + b"\0" + last, digest_size=16).digest()


def _all_lines(session: Session) -> Iterator[Line]:
    for start in range(0, session.line_count, BATCH_LINES):
        for line in session.lines(start, BATCH_LINES, revised=False):
            if line.kind >= ENTRY or line.fields is not None or line.problem is not None:
                yield line
