"""Sessions in one SQLite file."""

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .lease import Lease
from .sql import TABLES, SqlStore
from .store import SessionBusy, SessionError
from .watching import PathWatch, Watch


def sqlite_store(path: Path | str) -> SqlStore:
    """The store in a SQLite file, created if missing."""
    place = Path(path).expanduser()
    place.parent.mkdir(parents=True, exist_ok=True)
    return SqlStore(_Sqlite(place))


class _Sqlite:
    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        self._lock = threading.RLock()
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # readable by the owner only
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            for table in TABLES:
                self._connection.execute(table.format(serial="INTEGER PRIMARY KEY", bytes="BLOB"))
        except (sqlite3.Error, OSError) as error:
            raise SessionError(f"{path}: not usable as a session database: {error}") from error

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise SessionError(f"{self.where}: not saved: {error}") from error

    def sync(self) -> None:
        """Checkpoints, which syncs the write-ahead log (sqlite.org/wal.html)."""
        self.rows("PRAGMA wal_checkpoint(PASSIVE)")

    def notify(self, session: int) -> None:
        """Does nothing: watchers see the write to the WAL file."""

    def watch(self, session: int) -> Watch:
        return PathWatch([self._path.with_name(f"{self._path.name}-wal"), self._path])

    def lease(self, agent: str, id: str) -> Callable[[], None]:
        name = hashlib.sha256(f"{agent}\0{id}".encode()).hexdigest()[:24]
        try:
            return Lease.take(self._path.with_name(f"{self._path.name}.locks") / f"{name}.lock").release
        except SessionBusy as busy:
            raise SessionBusy(f"{self.where}: {agent}/{id}", busy.owner) from None

    def close(self) -> None:
        self._connection.close()
