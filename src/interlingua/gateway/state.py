"""Shared state of gateways: named values with compare-and-swap.

A store knows nothing of limits. A gateway reads a value, computes the next one and swaps it in; if another gateway was
faster, the swap returns the current value, and the computation is repeated. So one pure function decides, whichever
store is used, and no two gateways can both spend the last cent.

SQLite is the default: one file, for the gateways of one machine. Redis and PostgreSQL (extras) serve several machines.
"""

import asyncio
import contextlib
import logging
import math
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ..values.errors import InterlinguaError, Overloaded
from ..values.places import private_folder
from ..values.regular import private_database, reason

if TYPE_CHECKING:
    import psycopg

_log = logging.getLogger(__name__)

T = TypeVar("T")
STORE_TIMEOUT = 5.0  # seconds to wait for a locked database, or for a server's reply
_COPY_WAIT = 100  # milliseconds that readers may keep the log from being begun anew
_CHECKPOINT = 8 << 20  # bytes of write-ahead log after which it is copied into the database


class StateError(InterlinguaError):
    """The store cannot be read or written now: nothing that depends on it may be allowed."""


def unavailable(message: str, error: Exception) -> Overloaded:
    """Returns a server error for the client; the cause is in the log."""
    log_failure(message, error)
    remedy = "try again, or see the gateway's log"
    return Overloaded(f"{message}; {remedy}", status=503, code="state_unavailable", retry_after=1.0)


_REMIND = 60.0  # seconds between two log lines about the same failure
_logged: dict[str, float] = {}


def log_failure(message: str, error: Exception) -> None:
    """Logs the failure of a store, once a minute: as long as it lasts, every request meets it."""
    now = time.monotonic()
    if now - _logged.get(message, -math.inf) > _REMIND:
        _logged[message] = now
        _log.error("%s: %s", message, error)


class VersionedValue(NamedTuple):
    """A value and its version; a missing one has version 0."""

    version: int
    value: bytes


MISSING = VersionedValue(0, b"")


class StateStore(Protocol):
    """Values that several gateways share."""

    where: str

    async def swap(self, changes: Mapping[str, VersionedValue]) -> dict[str, VersionedValue]:
        """Replaces each value that still has the given version; returns the others in their current state.

        Raises `StateError` if the store does not reply; it is then unknown which values were replaced.
        """

    async def close(self) -> None: ...


class WritePace:
    """Batches writes: the first is immediate, the next `seconds` later, or when hurried."""

    def __init__(self, seconds: float = 0.03) -> None:
        self._seconds = seconds
        self._latest = -seconds
        self._is_hurried = False
        self._waiter: asyncio.Future[None] | None = None

    async def turn(self) -> None:
        """Waits until it is time for a write."""
        loop = asyncio.get_running_loop()
        remaining = self._latest + self._seconds - loop.time()
        if remaining > 0 and not self._is_hurried:
            self._waiter = loop.create_future()
            timer = loop.call_later(remaining, self._wake)  # `wait_for` would make a task of it
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._is_hurried = False
        self._latest = loop.time()

    def hurry(self) -> None:
        """A caller waits for pending writes."""
        self._is_hurried = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class MemoryState:
    """Values in memory."""

    where = "memory"

    def __init__(self) -> None:
        self._values: dict[str, VersionedValue] = {}

    async def swap(self, changes: Mapping[str, VersionedValue]) -> dict[str, VersionedValue]:
        others = {}
        for name, (version, value) in changes.items():
            now = self._values.get(name, MISSING)
            if now.version == version:
                self._values[name] = VersionedValue(version + 1, value)
            else:
                others[name] = now
        return others

    async def close(self) -> None:
        pass


class StateDatabase(Protocol):
    """Tables, for more than single values. Placeholders are `?`."""

    where: str

    async def insert(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None: ...

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]: ...

    async def close(self) -> None: ...


# --- SQLite ----------------------------------------------------------------------------------------------------------


class SqliteFile:
    """A database that only its owner can read, written from an event loop without blocking it.

    Transactions are short and run on the loop's own thread: sqlite3 releases the GIL at each statement, and a second
    thread would wait for it each time. A locked database is retried later. In WAL mode with `synchronous = NORMAL` a
    commit survives the end of the process, and a power cut may undo the last ones
    (sqlite.org/pragma.html#pragma_synchronous); only the checkpoint waits for the disk, and runs in a thread.
    """

    def __init__(self, path: Path | str, tables: tuple[str, ...]) -> None:
        self.path = Path(path).expanduser()
        self.where = str(self.path)
        self._checkpoint: asyncio.Task[None] | None = None
        self._written = 0
        try:
            private_folder(self.path.parent)
            private_database(self.path)
            self.path.chmod(0o600)
            self._connection = self._connect()
            # sqlite.org/wal.html: readers and the writer do not block each other.
            self._connection.execute("PRAGMA journal_mode = WAL")
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from None
        self.create(*tables)

    def create(self, *tables: str) -> None:
        """Creates missing tables."""
        try:
            self._connection.execute(f"PRAGMA busy_timeout = {int(STORE_TIMEOUT * 1000)}")
            for table in tables:
                self._connection.execute(table)
            self._connection.execute("PRAGMA busy_timeout = 0")
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _unusable(self, error: sqlite3.Error | OSError) -> StateError:
        if isinstance(error, OSError):
            where, why = str(error.filename or self.path), reason(error)
            return StateError(why if where in why else f"{where}: {why}")
        return StateError(f"{self.path}: not usable as the gateway's database: {error}; {_remedy(error)}")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=STORE_TIMEOUT)
        connection.execute("PRAGMA synchronous = NORMAL")
        # sqlite.org/wal.html, 3.1: an automatic checkpoint would run inside a commit, on the event loop.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Returns the result of `work`, after its changes are committed; it may be called again if the database is
        locked.
        """
        return await self._attempt(lambda: self._transaction(work))

    async def insert(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        await self.write(lambda connection: connection.executemany(statement, rows))

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._attempt(lambda: self._connection.execute(statement, values).fetchall())

    async def _attempt(self, work: Callable[[], T]) -> T:
        deadline, wait = time.monotonic() + STORE_TIMEOUT, 0.001
        while True:
            try:
                return work()
            except sqlite3.Error as error:
                if not _is_locked(error) or time.monotonic() > deadline:
                    raise StateError(f"{self.where}: {error}; {_remedy(error)}") from None
            await asyncio.sleep(wait)
            wait = min(wait * 2, 0.05)

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # sqlite.org/lang_transaction.html: a deferred transaction that reads first may fail with SQLITE_BUSY when it
        # writes, without a wait.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(self._connection)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._written += 1
        if self._written % 256 == 0 and self._checkpoint is None:
            self._checkpoint = asyncio.ensure_future(self._copy_log())
        return result

    async def _copy_log(self) -> None:
        try:
            await asyncio.to_thread(self._copy_log_now)
        finally:
            self._checkpoint = None

    def _copy_log_now(self) -> None:
        log = self.path.with_name(f"{self.path.name}-wal")
        with contextlib.suppress(OSError, sqlite3.Error):  # tried again later; commits report a full disk themselves
            if log.stat().st_size < _CHECKPOINT:
                return
            connection = self._connect()
            try:
                # RESTART keeps writers out, for as long as the disk and other readers take. So nearly all is copied
                # before it, which no caller waits for (sqlite.org/pragma.html#pragma_wal_checkpoint).
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                connection.execute(f"PRAGMA busy_timeout = {_COPY_WAIT}")
                connection.execute("PRAGMA wal_checkpoint(RESTART)")
            finally:
                connection.close()

    async def close(self) -> None:
        if self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self._connection.close()


def _is_locked(error: sqlite3.Error) -> bool:
    # The low byte is the primary code: SQLITE_BUSY has kinds such as SQLITE_BUSY_SNAPSHOT (sqlite.org/rescode.html).
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _remedy(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return {
        sqlite3.SQLITE_FULL: "free space on its disk",
        sqlite3.SQLITE_IOERR: "check its disk",
        sqlite3.SQLITE_BUSY: "end the program that keeps it locked",
        sqlite3.SQLITE_READONLY: "make it writable",
        sqlite3.SQLITE_CORRUPT: "move it away or repair it",
        sqlite3.SQLITE_NOTADB: "move it away",
    }.get(code, "check the file")


_STATE_TABLE = (
    "CREATE TABLE IF NOT EXISTS gateway_state (name TEXT PRIMARY KEY, version INTEGER NOT NULL, value BLOB NOT NULL)"
    " WITHOUT ROWID"
)


class SqliteState:
    """Values in a SQLite file, for the gateways of one machine.

    If the file is already open (`beside`), its connection serves both: with two connections, each would have to read
    the other's writes again.
    """

    def __init__(self, path: Path | str, beside: SqliteFile | None = None) -> None:
        self._is_shared = beside is not None and beside.path == Path(path).expanduser()
        if beside is not None and self._is_shared:
            self._file = beside
            self._file.create(_STATE_TABLE)
        else:
            self._file = SqliteFile(path, (_STATE_TABLE,))
        self.where = self._file.where

    async def swap(self, changes: Mapping[str, VersionedValue]) -> dict[str, VersionedValue]:
        return await self._file.write(lambda connection: _swap(connection, changes))

    async def close(self) -> None:
        if not self._is_shared:
            await self._file.close()


def _swap(connection: sqlite3.Connection, changes: Mapping[str, VersionedValue]) -> dict[str, VersionedValue]:
    others = {}
    for name, (version, value) in changes.items():
        if version:
            update = "UPDATE gateway_state SET version = version + 1, value = ? WHERE name = ? AND version = ?"
            done = connection.execute(update, (value, name, version))
        else:
            done = connection.execute("INSERT OR IGNORE INTO gateway_state VALUES (?, 1, ?)", (name, value))
        if not done.rowcount:
            found = connection.execute("SELECT version, value FROM gateway_state WHERE name = ?", (name,)).fetchone()
            others[name] = VersionedValue(*found) if found else MISSING
    return others


# --- Redis -----------------------------------------------------------------------------------------------------------

# One script is one atomic act (redis.io/docs/latest/develop/programmability/eval-intro). It names one key, so that a
# cluster can run it too.
_SWAP = """
local now = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
if now ~= tonumber(ARGV[1]) then return {now, redis.call('HGET', KEYS[1], 'value') or ''} end
redis.call('HSET', KEYS[1], 'version', now + 1, 'value', ARGV[2])
return {-1, ''}
"""


def redis_failure(where: str, error: Exception) -> StateError:
    """The error for what Redis did not do: it does not answer, or it refuses (other data, no memory, no permission)."""
    from redis.exceptions import ResponseError

    if isinstance(error, ResponseError):
        return StateError(f"{where}: Redis refused: {error}; check its data, its memory and the user's permissions")
    return StateError(f"{where}: no reply from Redis: {error or type(error).__name__}; start it")


class RedisState:
    """Values in Redis, for gateways on several machines. Needs the extra `redis`."""

    def __init__(self, address: str, *, prefix: str = "interlingua:gateway:", timeout: float = STORE_TIMEOUT) -> None:
        try:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError:
            raise StateError('Redis needs a client; pip install "interlingua[redis]"') from None
        try:
            self._redis = Redis.from_url(
                address,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=Retry(NoBackoff(), 0),  # a script that may have run must not be run again unseen
            )
        except ValueError as error:
            raise StateError(f"not an address of Redis: {without_password(address)}: {error}") from None
        self.where = without_password(address)
        self._prefix = prefix
        self._script = self._redis.register_script(_SWAP)

    async def swap(self, changes: Mapping[str, VersionedValue]) -> dict[str, VersionedValue]:
        from redis.exceptions import NoScriptError, RedisError

        try:
            # Each script is atomic by itself; MULTI would need all keys in one slot of a cluster.
            pipeline = self._redis.pipeline(transaction=False)
            for name, (version, value) in changes.items():
                pipeline.evalsha(self._script.sha, 1, self._prefix + name, version, value)
            try:
                replies = await pipeline.execute()
            except NoScriptError:  # the server is new or was restarted; none of the scripts has run
                await self._redis.script_load(_SWAP)
                return await self.swap(changes)
        except (RedisError, OSError, TimeoutError) as error:
            raise redis_failure(self.where, error) from None
        return {
            name: VersionedValue(int(version), bytes(value))
            for name, (version, value) in zip(changes, replies, strict=True)
            if int(version) >= 0
        }

    async def close(self) -> None:
        await self._redis.aclose()


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


class Postgres:
    """One connection to PostgreSQL, reopened after it broke. Requires the extra `postgres`."""

    def __init__(self, address: str, tables: tuple[str, ...]) -> None:
        try:
            import psycopg
        except ImportError:
            raise StateError('PostgreSQL needs a driver; pip install "interlingua[postgres]"') from None
        self._psycopg = psycopg
        self._address = address
        self._tables = tables
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._lock = asyncio.Lock()
        self.where = without_password(address)

    async def insert(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        async def work(cursor: "psycopg.AsyncCursor[Any]") -> None:
            await cursor.executemany(statement.replace("?", "%s"), rows)

        await self.transaction(work)

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        async def work(cursor: "psycopg.AsyncCursor[Any]") -> list[tuple[Any, ...]]:
            return await (await cursor.execute(statement.replace("?", "%s"), values)).fetchall()

        return await self.transaction(work)

    async def transaction(self, work: "Callable[[psycopg.AsyncCursor[Any]], Awaitable[T]]") -> T:
        async with self._lock:
            while True:
                was_open, is_begun = self._connection is not None, False
                try:
                    async with asyncio.timeout(STORE_TIMEOUT):
                        connection = await self._connected()
                        async with connection.transaction(), connection.cursor() as cursor:
                            is_begun = True
                            return await work(cursor)
                except (self._psycopg.Error, OSError, TimeoutError) as error:
                    await self._drop()
                    if was_open and not is_begun and not isinstance(error, TimeoutError):
                        continue  # it broke while nobody used it (a restart, a proxy): a new one may work
                    message = str(error).strip().partition("\n")[0] or "no reply"
                    raise StateError(f"{self.where}: {message}; start PostgreSQL or check the address") from None

    async def _connected(self) -> "psycopg.AsyncConnection[Any]":
        if self._connection is None or self._connection.closed:
            self._connection = await self._psycopg.AsyncConnection.connect(self._address, autocommit=True)
            async with self._connection.transaction():
                await self._connection.execute("SELECT pg_advisory_xact_lock(7203918)")  # gateways that start at once
                for table in self._tables:
                    await self._connection.execute(table)
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(self._psycopg.Error, OSError):
                await connection.close()

    async def close(self) -> None:
        async with self._lock:
            await self._drop()


_POSTGRES_STATE = (
    "CREATE TABLE IF NOT EXISTS gateway_state (name TEXT PRIMARY KEY, version BIGINT NOT NULL, value BYTEA NOT NULL)"
)


class PostgresState:
    """Values in PostgreSQL, for gateways on several machines."""

    def __init__(self, address: str) -> None:
        self._database = Postgres(address, (_POSTGRES_STATE,))
        self.where = self._database.where

    async def swap(self, changes: Mapping[str, VersionedValue]) -> dict[str, VersionedValue]:
        async def work(cursor: "psycopg.AsyncCursor[Any]") -> dict[str, VersionedValue]:
            others = {}
            for name in sorted(changes):  # in one order: two gateways must not wait for each other
                version, value = changes[name]
                if version:
                    update = (
                        "UPDATE gateway_state SET version = version + 1, value = %s WHERE name = %s AND version = %s"
                    )
                    await cursor.execute(update, (value, name, version))
                else:
                    insert = "INSERT INTO gateway_state VALUES (%s, 1, %s) ON CONFLICT DO NOTHING"
                    await cursor.execute(insert, (name, value))
                if not cursor.rowcount:
                    await cursor.execute("SELECT version, value FROM gateway_state WHERE name = %s", (name,))
                    found = await cursor.fetchone()
                    others[name] = VersionedValue(found[0], bytes(found[1])) if found else MISSING
            return others

        return await self._database.transaction(work)

    async def close(self) -> None:
        await self._database.close()


# --- which -----------------------------------------------------------------------------------------------------------


def open_state(address: str, beside: StateDatabase | None = None) -> StateStore:
    """Opens the store at `sqlite:FILE`, `redis://…`, `rediss://…`, `postgresql://…` or `memory:`. `beside`: an open
    database, which is used if it is the same file; its opener closes it.
    """
    scheme, _, rest = address.partition(":")
    match scheme:
        case "memory":
            return MemoryState()
        case "sqlite":
            return SqliteState(rest, beside if isinstance(beside, SqliteFile) else None)
        case "redis" | "rediss" | "unix":
            return RedisState(address)
        case "postgresql" | "postgres":
            return PostgresState(address)
    raise StateError(
        f"unknown store {without_password(address)!r}; use sqlite:FILE, redis://…, postgresql://… or memory:"
    )


def without_password(address: str) -> str:
    """Returns an address without its credentials, for display."""
    scheme, separator, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}" if separator else scheme


def open_database(address: str, tables: tuple[str, ...]) -> StateDatabase:
    """Opens the database at `sqlite:FILE` or `postgresql://…`, with these tables."""
    scheme, _, rest = address.partition(":")
    if scheme == "sqlite":
        return SqliteFile(rest, tables)
    if scheme in ("postgresql", "postgres"):
        return Postgres(address, tables)
    raise StateError(f"unknown database {without_password(address)!r}; use sqlite:FILE or postgresql://…")
