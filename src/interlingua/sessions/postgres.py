"""Sessions in PostgreSQL, shared by many hosts. Needs the extra `postgres`."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .sql import TABLES, SqlStore
from .store import SessionBusy, SessionError
from .watching import ThreadWatch, Watch

if TYPE_CHECKING:
    import psycopg


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
                found = self._connection.execute(statement.replace("?", "%s"), values or None)
            except self._psycopg.Error as error:
                raise SessionError(f"{getattr(self, 'where', 'PostgreSQL')}: {error}") from error
            return found.fetchall() if found.description is not None else []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                with self._connection.transaction():
                    yield
            except self._psycopg.Error as error:
                raise SessionError(f"{self.where}: not saved: {error}") from error

    def sync(self) -> None:
        """Does nothing: a commit is on the server's disk when it returns."""

    def notify(self, session: int) -> None:
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
        """Takes the lock on a separate connection, so that two sessions of one process exclude each other too."""
        connection = self._connect()
        try:
            taken = connection.execute("SELECT pg_try_advisory_lock(%s)", [_key(agent, id)]).fetchone()
        except self._psycopg.Error as error:
            connection.close()
            raise SessionError(f"no response from the session database: {error}") from error
        if not taken or not taken[0]:
            connection.close()
            raise SessionBusy(f"{self.where}: {agent}/{id}", self._owner(agent, id))
        return connection.close

    def _owner(self, agent: str, id: str) -> str | None:
        key = _key(agent, id) & (2**64 - 1)
        who = """SELECT a.pid, a.client_addr, a.backend_start FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = ? AND l.objid::bigint = ?"""
        for pid, address, since in self.rows(who, key >> 32, key & 0xFFFFFFFF):
            return f"connection {pid} from {address or 'this host'}, since {since:%Y-%m-%d %H:%M:%S}"
        return None

    def close(self) -> None:
        self._connection.close()


_CHANNEL = "interlingua_sessions"

# The server detects a writer whose machine lost power within 30 s, and releases its locks.
_ALIVE = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=4"


def _key(agent: str, id: str) -> int:
    digest = hashlib.sha256(f"interlingua\0{agent}\0{id}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
