"""Shared recall stores: bytes by name, for several workers or gateways.

Names are digests that begin with the key's, so nothing here identifies the owner. Values expire after `RETENTION`
seconds, the undo period of a deleted session. The oldest are dropped first where a table is beyond its limit.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from .state import STORE_TIMEOUT, StateDatabase, StateError, open_database, redis_failure, without_password

RETENTION = 7 * 86_400  # seconds
_SWEEP = 3600.0  # seconds between deletions of expired rows
# sqlite.org/limits.html, SQLITE_MAX_VARIABLE_NUMBER: 999 before 3.32.
_AT_ONCE = 500  # names in one query
_TABLE = (
    "CREATE TABLE IF NOT EXISTS gateway_recall"
    " (name TEXT PRIMARY KEY, value BYTEA NOT NULL, size BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL)"
)
_WRITE = (
    "INSERT INTO gateway_recall VALUES (?, ?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value, size = excluded.size, at = excluded.at"
)
_TRIM = (
    "DELETE FROM gateway_recall WHERE name IN (SELECT name FROM"
    " (SELECT name, SUM(size) OVER (ORDER BY at DESC, name) AS total FROM gateway_recall) AS sized WHERE total > ?)"
)
_EXPIRE = "DELETE FROM gateway_recall WHERE at < ?"
# One statement: a second writer waits for the row and appends to what the first has written.
_APPEND = (
    "UPDATE gateway_recall SET value = value || ?, size = size + ?, at = ? WHERE name = ? AND at >= ? RETURNING size"
)
_DELETE = "DELETE FROM gateway_recall WHERE name = ?"


class RecallStore(Protocol):
    """Values by name, each UTF-8 text. Each method raises `StateError` if the store does not reply."""

    async def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """Returns the existing ones."""

    async def write(self, values: Mapping[str, bytes]) -> None: ...

    async def append(self, name: str, value: bytes) -> None:
        """Adds to the end of a value in one step, whoever else does. A missing one stays missing; one that outgrows the
        limit is deleted.
        """

    async def delete(self, names: Sequence[str]) -> None: ...

    async def close(self) -> None: ...


class TableRecall:
    """Values in a table of SQLite or PostgreSQL, at most `limit` bytes of them."""

    def __init__(self, database: StateDatabase, limit: int) -> None:
        self._database = database
        self._limit = limit
        self._written = 0  # since the table was cut
        self._swept = 0.0

    async def read(self, names: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for at in range(0, len(names), _AT_ONCE):
            asked = names[at : at + _AT_ONCE]
            marks = ", ".join("?" for _ in asked)
            select = f"SELECT name, value FROM gateway_recall WHERE name IN ({marks}) AND at >= ?"
            rows = await self._database.rows(select, *asked, time.time() - RETENTION)
            # What SQLite appends to is text afterwards (sqlite.org/lang_expr.html, the operator ||).
            found |= {name: value.encode() if isinstance(value, str) else bytes(value) for name, value in rows}
        return found

    async def write(self, values: Mapping[str, bytes]) -> None:
        now = time.time()
        rows = [(name, value, len(value), now) for name, value in values.items() if len(value) <= self._limit]
        if rows:
            await self._database.insert(_WRITE, rows)
        await self._trim(sum(map(len, values.values())), now)

    async def append(self, name: str, value: bytes) -> None:
        now = time.time()
        rows = await self._database.rows(_APPEND, value, len(value), now, name, now - RETENTION)
        if rows and rows[0][0] > self._limit:
            await self.delete([name])
        await self._trim(len(value), now)

    async def _trim(self, written: int, now: float) -> None:
        """Deletes what is expired, and the oldest beyond the limit; both from time to time."""
        self._written += written
        if now - self._swept > _SWEEP:
            self._swept = now
            await self._database.insert(_EXPIRE, [(now - RETENTION,)])
        if self._written > self._limit // 10:
            self._written = 0
            await self._database.insert(_TRIM, [(self._limit,)])

    async def delete(self, names: Sequence[str]) -> None:
        await self._database.insert(_DELETE, [(name,) for name in names])

    async def close(self) -> None:
        await self._database.close()


# One script is one atomic act (redis.io/docs/latest/develop/programmability/eval-intro).
_APPEND_EXISTING = """
if redis.call('EXISTS', KEYS[1]) == 0 then return end
if redis.call('APPEND', KEYS[1], ARGV[1]) > tonumber(ARGV[2]) then redis.call('DEL', KEYS[1])
else redis.call('EXPIRE', KEYS[1], ARGV[3]) end
"""


class RedisRecall:
    """Values in Redis, each for `RETENTION` seconds and of at most `limit` bytes; its `maxmemory` bounds all of them.
    Needs the extra `redis`.
    """

    def __init__(self, address: str, limit: int, *, prefix: str = "interlingua:recall:") -> None:
        try:
            from redis.asyncio import Redis
        except ImportError:
            raise StateError('Redis needs a client; pip install "interlingua[redis]"') from None
        try:
            self._redis = Redis.from_url(address, socket_timeout=STORE_TIMEOUT, socket_connect_timeout=STORE_TIMEOUT)
        except ValueError as error:
            raise StateError(f"not an address of Redis: {without_password(address)}: {error}") from None
        self._where = without_password(address)
        self._prefix = prefix
        self._limit = limit
        self._append = self._redis.register_script(_APPEND_EXISTING)

    async def read(self, names: Sequence[str]) -> dict[str, bytes]:
        from redis.exceptions import RedisError

        try:
            values = await self._redis.mget([self._prefix + name for name in names]) if names else []
        except (RedisError, OSError, TimeoutError) as error:
            raise redis_failure(self._where, error) from None
        return {name: bytes(value) for name, value in zip(names, values, strict=True) if isinstance(value, bytes)}

    async def write(self, values: Mapping[str, bytes]) -> None:
        from redis.exceptions import RedisError

        try:
            pipeline = self._redis.pipeline(transaction=False)
            for name, value in values.items():
                pipeline.set(self._prefix + name, value, ex=RETENTION)
            await pipeline.execute()
        except (RedisError, OSError, TimeoutError) as error:
            raise redis_failure(self._where, error) from None

    async def append(self, name: str, value: bytes) -> None:
        from redis.exceptions import RedisError

        try:
            await self._append(keys=[self._prefix + name], args=[value, self._limit, RETENTION])
        except (RedisError, OSError, TimeoutError) as error:
            raise redis_failure(self._where, error) from None

    async def delete(self, names: Sequence[str]) -> None:
        from redis.exceptions import RedisError

        try:
            await self._redis.delete(*(self._prefix + name for name in names))
        except (RedisError, OSError, TimeoutError) as error:
            raise redis_failure(self._where, error) from None

    async def close(self) -> None:
        await self._redis.aclose()


def open_recall(address: str, limit: int) -> RecallStore:
    """Opens the store at `sqlite:FILE`, `redis://…`, `rediss://…` or `postgresql://…`."""
    if address.partition(":")[0] in ("redis", "rediss", "unix"):
        return RedisRecall(address, limit)
    return TableRecall(open_database(address, (_TABLE,)), limit)
