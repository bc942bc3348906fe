"""Sessions in one SQLite file."""

import contextlib
import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..values.places import private_folder
from ..values.regular import private_database
from .lease import Lease
from .sql import TABLES, SqlStore
from .store import SessionBusy, SessionError, typed
from .watching import PathWatch, Watch


def sqlite_store(path: Path | str) -> SqlStore:
    """The store in a SQLite file, created if missing."""
    with typed(path):
        place = Path(path).expanduser()
        private_folder(place.parent)
    return SqlStore(_Sqlite(place))


class _Sqlite:
    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        self._lock = threading.RLock()
        try:
            private_database(path)
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")  # a commit is on disk when it returns
            self._connection.execute("PRAGMA foreign_keys = ON")
            for table in TABLES:
                self._connection.execute(table.format(serial="INTEGER PRIMARY KEY", bytes="BLOB"))
        except (sqlite3.Error, OSError) as error:
            raise SessionError(f"{path}: not usable as a session database: {error}") from error

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            what = "not saved: " if self._connection.in_transaction else ""
            try:
                return self._connection.execute(statement, values).fetchall()
            except (sqlite3.Error, UnicodeError, OverflowError) as error:
                raise SessionError(f"{self.where}: {what}{error}") from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise SessionError(
                    f"{self.where}: not saved, earlier lines are intact: {error}; check the disk and append again"
                ) from error
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        """Ends the transaction; after some errors, a full disk among them, SQLite has ended it already."""
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

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
