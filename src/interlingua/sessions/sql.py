"""Sessions in a database, one row per line: in a SQLite file, or in PostgreSQL, shared by many hosts (needs the extra
`postgres`).
"""

import contextlib
import hashlib
import itertools
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..values.errors import FormatError
from ..values.places import private_folder
from ..values.regular import private_database, reason
from .lease import Lease
from .store import Deleted, Log, SessionBusy, SessionError, SessionInfo, SessionNotFound, SessionProblem, typed
from .summary import summary
from .tree import BAD, BLANK, ENTRY, ROOT, LinePlace, head_after, parse_place, place, position
from .watching import PathWatch, ThreadWatch, Watch

if TYPE_CHECKING:
    import psycopg

TABLES = (
    """CREATE TABLE IF NOT EXISTS sessions (
        number {serial}, agent TEXT NOT NULL, id TEXT NOT NULL, modified BIGINT NOT NULL, UNIQUE (agent, id))""",
    """CREATE TABLE IF NOT EXISTS lines (
        session BIGINT NOT NULL REFERENCES sessions (number) ON DELETE CASCADE, n INTEGER NOT NULL,
        kind SMALLINT NOT NULL, parent INTEGER NOT NULL, orphan SMALLINT NOT NULL, id TEXT, line {bytes} NOT NULL,
        PRIMARY KEY (session, n))""",
    "CREATE INDEX IF NOT EXISTS lines_by_id ON lines (session, id, n)",
    "CREATE INDEX IF NOT EXISTS lines_by_kind ON lines (session, kind, n)",
    "CREATE INDEX IF NOT EXISTS lines_by_parent ON lines (session, parent, n)",
    """CREATE TABLE IF NOT EXISTS blobs (
        agent TEXT NOT NULL, name TEXT NOT NULL, wanted DOUBLE PRECISION NOT NULL, data {bytes} NOT NULL,
        PRIMARY KEY (agent, name))""",
)
_ITSELF = "WHERE number = ? AND agent = ? AND id = ?"
_BLOCK, _BLOCKS = 64, 4  # lines per fetched block, and cached blocks


class Database(Protocol):
    """The operations that differ between the two engines."""

    where: str

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]: ...
    def transaction(self) -> AbstractContextManager[None]:
        """An exclusive transaction, or a part of the one that it is in; raises SessionError on failure."""
        ...

    def grouped(self) -> AbstractContextManager[None]:
        """One transaction for writes to several sessions, where others cannot wait for a part of it."""
        ...

    def sync(self) -> None: ...
    def notify(self, session: int) -> None:
        """Notifies watchers of a session when the transaction commits."""
        ...

    def watch(self, session: int) -> Watch: ...
    def lease(self, agent: str, id: str) -> Callable[[], None]:
        """Takes the write lock and returns its release function; raises SessionBusy."""
        ...

    def close(self) -> None: ...


class SqlLog:
    """One session's rows."""

    def __init__(
        self, database: Database, agent: str, id: str, number: int, release: Callable[[], None] | None = None
    ) -> None:
        self.where = f"{database.where}: {agent}/{id}"
        self.problems: list[SessionProblem] = []
        self.generation = 0
        self._database = database
        self._release = release
        self._number = number
        self._named = agent, id
        self._count = 0
        self._head = ROOT
        self._blocks: dict[int, dict[int, tuple[LinePlace, bytes]]] = {}
        self.refresh()

    def __len__(self) -> int:
        return self._count

    @property
    def head(self) -> int:
        return self._head

    def refresh(self) -> None:
        last = "SELECT n, kind, parent FROM lines WHERE session = ? ORDER BY n DESC LIMIT 1"
        for number, kind, parent in self._rows(last):
            self._count, self._head = number + 1, head_after(number, kind, parent)

    def rebuild(self) -> None:
        self.generation += 1
        self._blocks.clear()
        self.refresh()

    def place(self, number: int) -> LinePlace:
        return self._fetched(number)[0]

    def line(self, number: int) -> bytes:
        return self._fetched(number)[1]

    def _fetched(self, number: int) -> tuple[LinePlace, bytes]:
        block = self._blocks.get(number // _BLOCK, {})
        if number not in block:
            first = number // _BLOCK * _BLOCK
            span = "SELECT n, kind, parent, orphan, line FROM lines WHERE session = ? AND n BETWEEN ? AND ?"
            block = {
                n: (LinePlace(kind, parent, bool(orphan)), bytes(line))
                for n, kind, parent, orphan, line in self._rows(span, first, first + _BLOCK - 1)
            }
            self._blocks.pop(number // _BLOCK, None)
            while len(self._blocks) >= _BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[number // _BLOCK] = block
        if number not in block:
            raise SessionNotFound(f"{self.where}: no line {number}")
        return block[number]

    def find(self, id: str) -> int | None:
        named = "SELECT n FROM lines WHERE session = ? AND id = ? ORDER BY n DESC LIMIT 1"
        for (number,) in self._rows(named, id):
            return int(number)
        at = position(id)
        bare = "SELECT n FROM lines WHERE session = ? AND n = ? AND id IS NULL AND kind >= ?"
        return at if at is not None and self._rows(bare, at, ENTRY) else None

    def numbers(self, *kinds: int, first: int | None = None, last: int | None = None) -> list[int]:
        limit = last if last is not None else first
        order = ("DESC" if last is not None else "ASC") + (f" LIMIT {int(limit)}" if limit is not None else "")
        marks = ", ".join("?" * len(kinds))
        statement = f"SELECT n FROM lines WHERE session = ? AND kind IN ({marks}) ORDER BY n {order}"
        return sorted(number for (number,) in self._rows(statement, *kinds))

    def count(self, *kinds: int) -> int:
        marks = ", ".join("?" * len(kinds))
        return int(self._rows(f"SELECT COUNT(*) FROM lines WHERE session = ? AND kind IN ({marks})", *kinds)[0][0])

    def orphans(self) -> list[int]:
        return [number for (number,) in self._rows("SELECT n FROM lines WHERE session = ? AND orphan = 1 ORDER BY n")]

    def children(self, number: int) -> list[int]:
        below = "SELECT n FROM lines WHERE session = ? AND parent = ? AND kind >= ? ORDER BY n"
        return [n for (n,) in self._rows(below, number, ENTRY)]

    def leaves(self) -> list[int]:
        ends = """SELECT n FROM lines AS above WHERE session = ? AND kind >= ? AND NOT EXISTS
            (SELECT 1 FROM lines WHERE session = above.session AND parent = above.n AND kind >= ?) ORDER BY n"""
        return [n for (n,) in self._rows(ends, ENTRY, ENTRY)]

    def add(self, lines: Sequence[bytes], *, sync: bool) -> int:
        if self._release is None:
            raise SessionError(f"{self.where}: opened read-only; open it for writing, or fork it")
        first, head = self._count, self._head
        try:
            with self._database.transaction():
                self._modified()
                head = _insert(self._database, self._number, lines, first, head, self.find)
                self._database.notify(self._number)
        except SessionError:
            if not self._is_saved(first, lines):
                raise
        self._count, self._head = first + len(lines), head
        return first

    def _modified(self) -> None:
        """Sets its time. By its name, too: the number of one that was never committed may be another's by now."""
        written = f"UPDATE sessions SET modified = ? {_ITSELF} RETURNING number"
        if not self._database.rows(written, int(time.time() * 1000), self._number, *self._named):
            raise SessionError(f"{self.where}: not saved: the session was deleted; open it again")

    @contextlib.contextmanager
    def grouped(self) -> Iterator[None]:
        raised: Exception | None = None
        try:
            with self._database.transaction():
                try:
                    yield
                except Exception as error:  # what was appended before it is kept
                    raised = error
        except BaseException:
            self._count, self._head = 0, ROOT
            self.rebuild()
            raise
        if raised is not None:
            raise raised

    def _is_saved(self, first: int, lines: Sequence[bytes]) -> bool:
        """Whether a commit that was reported as failed took place: the server's response may have been lost."""
        try:
            found = self._rows("SELECT line FROM lines WHERE session = ? AND n >= ? ORDER BY n", first)
        except SessionError:
            return False
        return [bytes(line) for (line,) in found] == [*lines]

    def sync(self) -> None:
        if self._release is not None:
            self._database.sync()

    def watch(self) -> Watch:
        return self._database.watch(self._number)

    def close(self) -> None:
        if self._release is not None:
            release, self._release = self._release, None
            try:
                if not self._count:  # no line was ever written
                    with contextlib.suppress(SessionError):
                        # Another writer may have created it meanwhile.
                        empty = f"{_ITSELF} AND NOT EXISTS (SELECT 1 FROM lines WHERE session = number)"
                        self._database.rows(f"DELETE FROM sessions {empty}", self._number, *self._named)
            finally:
                release()

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._database.rows(statement, self._number, *values)


def _insert(
    database: Database, session: int, lines: Sequence[bytes], first: int, head: int, find: Callable[[str], int | None]
) -> int:
    """Inserts lines from number `first`, and returns the number of the head after them."""
    into = "INSERT INTO lines (session, n, kind, parent, orphan, id, line) VALUES (?, ?, ?, ?, ?, ?, ?)"
    added: dict[str, int] = {}
    for number, raw in enumerate(lines, first):
        (kind, parent, orphan), id = _placed(raw, head, lambda name: added[name] if name in added else find(name))
        database.rows(into, session, number, kind, parent, int(orphan), id, raw)
        head = head_after(number, kind, parent)
        if id is not None:
            added[id] = number
    return head


def _placed(raw: bytes, head: int, find: Callable[[str], int | None]) -> tuple[LinePlace, str | None]:
    if not raw.strip():
        return LinePlace(BLANK, head), None
    try:
        line = parse_place(raw)
    except FormatError:
        return LinePlace(BAD, head), None
    found = place(line, head, find)
    return found, line.id if found.kind >= ENTRY and isinstance(line.id, str) else None


_DELETED = ".deleted-"


def _deleted(name: str) -> Deleted | None:
    """The deleted session that has this name in the table; None for one that is not deleted."""
    id, sign, at = name.rpartition(_DELETED)
    return Deleted(id, int(at)) if sign and at.isdecimal() else None


def _check_names(agent: str, id: str) -> None:
    for name, what in ((agent, "agent"), (id, "session")):
        if not isinstance(name, str) or not name.isprintable() or not name:
            raise SessionError(f"invalid {what} name {name!r}; use letters, digits and ._-")


class SqlStore:
    """Sessions in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def database(self) -> Database:
        """The connection, for other data in the same database."""
        return self._database

    def agents(self) -> list[str]:
        return [agent for (agent,) in self._database.rows("SELECT DISTINCT agent FROM sessions ORDER BY agent")]

    def sessions(self, agent: str) -> list[SessionInfo]:
        return [self._info(agent, *row) for row in self._listed(agent) if _deleted(row[1]) is None]

    def _listed(self, agent: str, which: str = "", *values: str) -> list[tuple[Any, ...]]:
        """Number, id, time and size of each session."""
        size = "(SELECT COALESCE(SUM(LENGTH(line) + 1), 0) FROM lines WHERE session = number)"
        statement = (
            f"SELECT number, id, modified, {size} FROM sessions WHERE agent = ? {which} ORDER BY modified DESC, id"
        )
        return self._database.rows(statement, agent, *values)

    def _info(self, agent: str, number: int, id: str, modified: int, size: int) -> SessionInfo:
        base = SessionInfo(id=id, agent=agent, modified=modified, size=int(size), where=self._database.where)
        return summary(SqlLog(self._database, agent, id, number), base)

    def open(self, agent: str, id: str, *, write: bool, create: bool) -> Log:
        _check_names(agent, id)
        release = self._database.lease(agent, id) if write else None
        try:
            return SqlLog(self._database, agent, id, self._number(agent, id, write and create), release)
        except BaseException:
            if release is not None:
                release()
            raise

    def _number(self, agent: str, id: str, create: bool) -> int:
        there = "SELECT number FROM sessions WHERE agent = ? AND id = ?"
        found = self._database.rows(there, agent, id)
        if not found and create:
            into = "INSERT INTO sessions (agent, id, modified) VALUES (?, ?, ?)"
            with self._database.transaction():
                self._database.rows(into, agent, id, int(time.time() * 1000))
            found = self._database.rows(there, agent, id)
        if not found:
            raise SessionNotFound(f"{self._database.where}: no session {id!r} of agent {agent!r}")
        return int(found[0][0])

    def create(self, agent: str, id: str, lines: Callable[[], Sequence[bytes]]) -> bool:
        _check_names(agent, id)
        into = (
            "INSERT INTO sessions (agent, id, modified) VALUES (?, ?, ?) ON CONFLICT (agent, id) DO NOTHING"
            " RETURNING number"
        )
        with self._database.transaction():
            found = self._database.rows(into, agent, id, int(time.time() * 1000))
            for (number,) in found:
                _insert(self._database, number, lines(), 0, ROOT, lambda name: None)
                self._database.notify(number)
        return bool(found)

    def grouped(self) -> AbstractContextManager[None]:
        return self._database.grouped()

    def sync(self, agent: str, ids: Sequence[str]) -> None:
        self._database.sync()

    def blobs(self, agent: str) -> "SqlBlobs":
        return SqlBlobs(self._database, agent)

    def texts(self, agent: str) -> Iterator[bytes]:
        for (number,) in self._database.rows("SELECT number FROM sessions WHERE agent = ?", agent):
            log = SqlLog(self._database, agent, str(number), number)
            yield from map(log.line, range(len(log)))

    def replace(self, agent: str, id: str, by: str, *, keep: bool) -> str | None:
        backup = self._free(agent, f"{id}.before-gc") if keep else None
        with self._database.transaction():
            if backup is None:
                self._delete(agent, id)
            else:
                self._rename(agent, id, backup)
            self._rename(agent, by, id)
        return backup

    def delete(self, agent: str, id: str) -> None:
        with self._database.transaction():
            self._delete(agent, id)

    def _delete(self, agent: str, id: str) -> None:
        old = "(SELECT number FROM sessions WHERE agent = ? AND id = ?)"
        self._database.rows(f"DELETE FROM lines WHERE session = {old}", agent, id)
        self._database.rows("DELETE FROM sessions WHERE agent = ? AND id = ?", agent, id)

    # --- deleting ----------------------------------------------------------------------------------------------------

    def trash(self, agent: str, id: str) -> Deleted:
        one = Deleted(id, int(time.time() * 1000))
        with self._database.transaction():
            while self._exists(agent, f"{id}{_DELETED}{one.at}"):
                one = Deleted(id, one.at + 1)  # another session of the name was deleted in the same millisecond
            self._rename(agent, id, f"{id}{_DELETED}{one.at}")
        return one

    def trashed(self, agent: str) -> list[Deleted]:
        rows = self._database.rows("SELECT id FROM sessions WHERE agent = ? ORDER BY id", agent)
        return [one for (name,) in rows if (one := _deleted(name)) is not None]

    def trashed_info(self, agent: str, one: Deleted) -> SessionInfo:
        for number, _, modified, size in self._listed(agent, "AND id = ?", f"{one.id}{_DELETED}{one.at}"):
            return self._info(agent, number, one.id, modified, size)
        raise SessionNotFound(f"{self._database.where}: no deleted session {one.id!r} of agent {agent!r}")

    def trashed_texts(self, agent: str, one: Deleted) -> Iterator[bytes]:
        for name in self._remains(agent, one):
            log = SqlLog(self._database, agent, name, self._number(agent, name, False))
            yield from map(log.line, range(len(log)))

    def _remains(self, agent: str, one: Deleted) -> list[str]:
        """The session and its backups, unless a new session has taken its name."""
        names = [name for (name,) in self._database.rows("SELECT id FROM sessions WHERE agent = ?", agent)]
        aside = [] if one.id in names else [name for name in names if name.startswith(f"{one.id}.before-gc-")]
        return [f"{one.id}{_DELETED}{one.at}", *aside]

    def untrash(self, agent: str, one: Deleted) -> None:
        with self._database.transaction():
            if self._exists(agent, one.id):
                raise SessionBusy(f"{agent}/{one.id}", "another session of the same name")
            self._rename(agent, f"{one.id}{_DELETED}{one.at}", one.id)

    def purge(self, agent: str, one: Deleted) -> None:
        names = self._remains(agent, one)
        with self._database.transaction():
            for name in names:
                self._delete(agent, name)

    def _free(self, agent: str, base: str) -> str:
        names = {info for (info,) in self._database.rows("SELECT id FROM sessions WHERE agent = ?", agent)}
        return next(name for name in (f"{base}-{n}" for n in itertools.count(1)) if name not in names)

    def _exists(self, agent: str, id: str) -> bool:
        return bool(self._database.rows("SELECT 1 FROM sessions WHERE agent = ? AND id = ?", agent, id))

    def _rename(self, agent: str, id: str, to: str) -> None:
        self._database.rows("UPDATE sessions SET id = ? WHERE agent = ? AND id = ?", to, agent, id)

    def close(self) -> None:
        self._database.close()


class SqlBlobs:
    """Blobs as rows."""

    def __init__(self, database: Database, agent: str) -> None:
        self._database = database
        self._agent = agent

    def put(self, name: str, data: bytes) -> None:
        put = """INSERT INTO blobs (agent, name, wanted, data) VALUES (?, ?, ?, ?)
            ON CONFLICT (agent, name) DO UPDATE SET wanted = excluded.wanted"""
        with self._database.transaction():
            self._database.rows(put, self._agent, name, time.time(), data)

    def get(self, name: str) -> bytes | None:
        found = self._database.rows("SELECT data FROM blobs WHERE agent = ? AND name = ?", self._agent, name)
        data = bytes(found[0][0]) if found else None
        return data if data is not None and hashlib.sha256(data).hexdigest() == name else None

    def names(self, unused_for: float = 0) -> list[str]:
        before = time.time() - unused_for if unused_for else time.time() + 1
        rows = self._database.rows("SELECT name FROM blobs WHERE agent = ? AND wanted < ?", self._agent, before)
        return [name for (name,) in rows]

    def delete(self, names: Iterable[str]) -> None:
        with self._database.transaction():
            for name in names:
                self._database.rows("DELETE FROM blobs WHERE agent = ? AND name = ?", self._agent, name)


# --- SQLite -----------------------------------------------------------------------------------------------------------


def sqlite_store(path: Path | str) -> SqlStore:
    """The store in a SQLite file, created if missing."""
    with typed(path):
        place = Path(path).expanduser()
        private_folder(place.parent)
    return SqlStore(_Sqlite(place))


def _identity(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_dev, about.st_ino


class _Sqlite:
    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        self._lock = threading.RLock()
        self._depth = 0  # of transactions
        self._connect()

    def _connect(self) -> None:
        path = self._path
        try:
            private_database(path)
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
            # sqlite.org/wal.html: readers do not block the writer, nor it them.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")  # a commit is on disk when it returns
            # sqlite.org/foreignkeys.html, 2: off unless each connection turns it on.
            self._connection.execute("PRAGMA foreign_keys = ON")
            for table in TABLES:
                self._connection.execute(table.format(serial="INTEGER PRIMARY KEY", bytes="BLOB"))
            self._file = _identity(path)
        except (sqlite3.Error, OSError) as error:
            why = reason(error) if isinstance(error, OSError) else error
            raise SessionError(f"{path}: not usable as a session database: {why}") from error

    def _follow(self) -> None:
        """Opens the file again if it was deleted or replaced: SQLite would go on with one that nobody can find."""
        with contextlib.suppress(OSError):
            if _identity(self._path) == self._file:
                return
        self._connection.close()  # first, since both have one log (sqlite.org/howtocorrupt.html, 2.4)
        self._connect()

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            what = "not saved: " if self._depth else ""
            try:
                return self._connection.execute(statement, values).fetchall()
            except (sqlite3.Error, UnicodeError, OverflowError) as error:
                raise SessionError(f"{self.where}: {what}{error}") from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            if self._depth and not self._connection.in_transaction:  # see `_roll_back`
                raise SessionError(f"{self.where}: not saved: an earlier error ended the transaction")
            if not self._depth:
                self._follow()
            # sqlite.org/lang_transaction.html: IMMEDIATE takes the write lock at once; a transaction that reads first
            # may fail when it writes. sqlite.org/lang_savepoint.html: savepoints nest, the latest of a name counts.
            begin, end = ("SAVEPOINT part", "RELEASE part") if self._depth else ("BEGIN IMMEDIATE", "COMMIT")
            self._depth += 1
            try:
                self._connection.execute(begin)
                yield
                self._connection.execute(end)
            except sqlite3.Error as error:
                self._roll_back()
                raise SessionError(
                    f"{self.where}: not saved, earlier lines are intact: {error}; check the disk and append again"
                ) from error
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._depth -= 1

    def _roll_back(self) -> None:
        """Ends the transaction, or undoes a part; after some errors, a full disk among them, SQLite has ended it all
        already (sqlite.org/lang_transaction.html, 3).
        """
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK" if self._depth == 1 else "ROLLBACK TO part")
                if self._depth > 1:
                    self._connection.execute("RELEASE part")

    def grouped(self) -> AbstractContextManager[None]:
        return self.transaction()

    def sync(self) -> None:
        """Does nothing: in WAL mode with `synchronous = FULL` every commit is synced (sqlite.org/pragma.html)."""

    def notify(self, session: int) -> None:
        """Does nothing: watchers see the write to the WAL file."""

    def watch(self, session: int) -> Watch:
        return PathWatch([self._path.with_name(f"{self._path.name}-wal"), self._path])

    def lease(self, agent: str, id: str) -> Callable[[], None]:
        name = hashlib.sha256(f"{agent}\0{id}".encode()).hexdigest()[:24]
        place = self._path.with_name(f"{self._path.name}.locks") / f"{name}.lock"
        try:
            with typed(place):
                return Lease.take(place).release
        except SessionBusy as busy:
            raise SessionBusy(f"{self.where}: {agent}/{id}", busy.owner) from None

    def close(self) -> None:
        self._connection.close()


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def postgres_store(address: str) -> SqlStore:
    """The store in a PostgreSQL database: `postgresql://user@host/name`."""
    return SqlStore(_Postgres(address))


class _Postgres:
    """The write lock is an advisory lock: the server releases it when its owner's connection ends."""

    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise SessionError('PostgreSQL needs a driver; pip install "interlingua[postgres]"') from None
        self._psycopg = psycopg
        self._address = address
        self._lock = threading.RLock()
        self._connection = self._connect()
        self._leases: psycopg.Connection[Any] | None = None
        self._leased: set[int] = set()  # keys of locks
        info = self._connection.info
        self.where = f"postgresql://{info.host}/{info.dbname}"
        with self.transaction():
            self.rows(
                "SELECT pg_advisory_xact_lock(?)", _key("tables", "")
            )  # two processes may create the tables at once
            for table in TABLES:
                self.rows(table.format(serial="BIGSERIAL PRIMARY KEY", bytes="BYTEA"))

    def _connect(self) -> "psycopg.Connection[Any]":
        try:
            return self._psycopg.connect(self._address, autocommit=True, options=_ALIVE)
        except self._psycopg.Error as error:
            raise SessionError(f"cannot reach the session database: {error}") from error

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                # psycopg's placeholder. Statements must have no question mark and no percent sign of their own.
                found = self._connection.execute(statement.replace("?", "%s"), values or None)
            except self._psycopg.Error as error:
                raise SessionError(f"{getattr(self, 'where', 'PostgreSQL')}: {error}") from error
            return found.fetchall() if found.description is not None else []

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                with self._connection.transaction():
                    yield
                    # A failed statement aborts the transaction, whose COMMIT is then a ROLLBACK without an error
                    # (postgresql.org/docs/current/sql-commit.html).
                    if self._connection.info.transaction_status is self._psycopg.pq.TransactionStatus.INERROR:
                        raise SessionError(f"{self.where}: not saved: an earlier error ended the transaction")
            except self._psycopg.Error as error:
                raise SessionError(f"{self.where}: not saved: {error}") from error

    def grouped(self) -> AbstractContextManager[None]:
        """Each write is a transaction: two groups with the same sessions in another order would wait for each other
        (postgresql.org/docs/current/explicit-locking.html, Deadlocks), and the server commits those of many at once.
        """
        return contextlib.nullcontext()

    def sync(self) -> None:
        """Does nothing: a commit is on the server's disk when it returns."""

    def notify(self, session: int) -> None:
        # postgresql.org/docs/current/sql-notify.html: delivered when the transaction commits, never if it fails.
        self.rows("SELECT pg_notify(?, ?)", _CHANNEL, str(session))

    def watch(self, session: int) -> Watch:
        """Listens for notifications on a separate connection."""
        connection = self._connect()
        connection.execute(f"LISTEN {_CHANNEL}")

        def block(seconds: float) -> bool:
            try:
                return any(
                    notification.payload == str(session)
                    for notification in connection.notifies(timeout=seconds, stop_after=1)
                )
            except self._psycopg.Error:
                return True  # the next read raises the error

        return ThreadWatch(block, connection.close)

    def lease(self, agent: str, id: str) -> Callable[[], None]:
        """Takes the lock on a connection for all locks of this store: servers allow few, 100 by default."""
        key = _key(agent, id)
        with self._lock:
            try:
                if self._leases is None or self._leases.closed:
                    self._leases = self._connect()
                # postgresql.org/docs/current/explicit-locking.html, Advisory Locks: held until the end of the
                # connection, and granted again to one that has it.
                taken = key not in self._leased and self._leases.execute(
                    "SELECT pg_try_advisory_lock(%s)", [key]
                ).fetchone() == (True,)
            except self._psycopg.Error as error:
                raise SessionError(f"no response from the session database: {error}") from error
            if not taken:
                raise SessionBusy(f"{self.where}: {agent}/{id}", self._owner(agent, id))
            self._leased.add(key)
        return lambda: self._release(key)

    def _release(self, key: int) -> None:
        with self._lock, contextlib.suppress(self._psycopg.Error):  # the connection's end has released it
            self._leased.discard(key)
            if self._leases is not None:
                self._leases.execute("SELECT pg_advisory_unlock(%s)", [key])

    def _owner(self, agent: str, id: str) -> str | None:
        # postgresql.org/docs/current/view-pg-locks.html: a bigint key is shown as its high half in `classid` and its
        # low half in `objid`.
        key = _key(agent, id) & (2**64 - 1)
        who = """SELECT a.pid, a.client_addr, a.backend_start FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = ? AND l.objid::bigint = ?"""
        for pid, address, since in self.rows(who, key >> 32, key & 0xFFFFFFFF):
            return f"connection {pid} from {address or 'this host'}, since {since:%Y-%m-%d %H:%M:%S}"
        return None

    def close(self) -> None:
        self._connection.close()
        if self._leases is not None:
            self._leases.close()


_CHANNEL = "interlingua_sessions"

# The server detects a writer whose machine lost power within 30 s, and releases its locks.
_ALIVE = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=4"


def _key(agent: str, id: str) -> int:
    digest = hashlib.sha256(f"interlingua\0{agent}\0{id}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
