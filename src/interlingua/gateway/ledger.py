"""The ledger of usage and cost: one entry per exchange that reached a provider, summed by key, model and day.

Tokens are in the disjoint buckets of `Usage`; money is in billionths of a dollar. Writing an entry is idempotent: its
id is that of the exchange. `observe` returns when the entry is in the database, or when it cannot be written now; then
it is kept, `failure` is the reason, and the gate refuses requests until it is written.

Entries are written to the database in batches. With a journal, each is in that before the client has the end of the
response: an entry of which a client knows survives the end of the process, and the next one writes it.
"""

import asyncio
import contextlib
import functools
import hashlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import astuple

from ..dialects.provider_errors import as_provider_error, status_of
from ..values.messages import Usage
from .accounts import NANO, SpentAmounts
from .exchange import Exchange, safe_name
from .journal import Journal
from .state import StateDatabase, StateError, WritePace, open_database

_log = logging.getLogger(__name__)

Column: TypeAlias = Literal["day", "key", "model"]
COLUMNS: tuple[Column, ...] = ("day", "key", "model")
_RETRY = 1.0  # seconds

_TABLES = (
    """CREATE TABLE IF NOT EXISTS gateway_ledger (
    id TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL, day TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    asked TEXT NOT NULL, wire TEXT NOT NULL, status INTEGER NOT NULL, attempts INTEGER NOT NULL,
    input BIGINT NOT NULL, output BIGINT NOT NULL, cache_read BIGINT NOT NULL, cache_write BIGINT NOT NULL,
    reasoning BIGINT NOT NULL, cost BIGINT, estimated INTEGER NOT NULL, aborted INTEGER NOT NULL,
    seconds DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS gateway_ledger_day ON gateway_ledger (key, day)",
)


class LedgerEntry(Struct, frozen=True, kw_only=True):
    """One exchange. `cost` in billionths of a dollar, None if the price is unknown."""

    id: str
    at: float
    day: str
    key: str
    model: str
    asked: str
    wire: str
    status: int
    attempts: int
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: int | None = None
    estimated: bool = False
    aborted: bool = False
    seconds: float = 0.0


class UsageRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sum. `cost` in dollars, of the calls with a known price; `unpriced` counts the others, except
    failed calls that used nothing. `errors` are calls that failed, also within their stream; those whose client left
    are `aborted`.
    """

    day: str | None = None
    key: str | None = None
    model: str | None = None
    calls: int
    errors: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    cost: float
    unpriced: int
    estimated: int
    aborted: int


def charged_cost(exchange: Exchange) -> int | None:
    """Returns billionths of a dollar; None: unknown."""
    return None if exchange.cost is None else round(exchange.cost * NANO)


def entry_of(exchange: Exchange) -> LedgerEntry:
    usage, model = exchange.usage, exchange.model
    finished = exchange.finished if exchange.finished is not None else exchange.started
    used = usage or _NO_USAGE
    return LedgerEntry(
        id=exchange.id,
        at=finished,
        day=_day(int(finished // 86_400)),
        key=exchange.key.name,
        model=safe_name(f"{model.provider}/{model.id}" if model is not None else exchange.asked_model),
        asked=safe_name(exchange.asked_model),
        wire=exchange.wire.api,
        status=_outcome(exchange),
        attempts=exchange.attempts,
        cost=charged_cost(exchange),
        estimated=exchange.is_estimated,
        aborted=exchange.is_aborted,
        seconds=finished - exchange.started,
        input=used.input,
        output=used.output,
        cache_read=used.cache_read,
        cache_write=used.cache_write,
        reasoning=used.reasoning or 0,
    )


def _outcome(exchange: Exchange) -> int:
    """The status of an exchange: of a stream that failed after it began, that of the failure."""
    if exchange.error is None or exchange.status >= 400:
        return exchange.status
    return status_of(as_provider_error(exchange.error))


@functools.lru_cache(maxsize=8)
def _day(number: int) -> str:
    """The date of UTC so many days after 1970 began."""
    return time.strftime("%Y-%m-%d", time.gmtime(number * 86_400))


_NO_USAGE = Usage.of(0, 0)
_FIELDS = LedgerEntry.__struct_fields__
_INSERT = (
    f"INSERT INTO gateway_ledger ({', '.join(_FIELDS)}) VALUES ({', '.join('?' * len(_FIELDS))})"
    # An entry may come twice, from the journal of a killed process and from the gateway: the first one stands.
    " ON CONFLICT (id) DO NOTHING"
)
_SUMS = """count(*), sum(CASE WHEN aborted = 0 AND (status >= 400 OR status = 0) THEN 1 ELSE 0 END),
    sum(input), sum(output), sum(cache_read), sum(cache_write), sum(reasoning), sum(cost),
    sum(CASE WHEN cost IS NULL AND (status BETWEEN 1 AND 399 OR input + output + cache_read + cache_write > 0)
        THEN 1 ELSE 0 END), sum(estimated), sum(aborted)"""


class Ledger:
    """The entries in a database: `sqlite:FILE`, or `postgresql://…` for several gateways."""

    def __init__(self, address: str, journal: Path | None = None) -> None:
        """`journal`: the folder of the journals of all gateways that share it."""
        self.database: StateDatabase = open_database(address, _TABLES)
        self.where = self.database.where
        self._journal: Journal[LedgerEntry] | None = None
        if journal is not None:
            # Gateways of one folder may have different ledgers.
            name = hashlib.blake2b(self.where.encode(), digest_size=8).hexdigest()
            self._journal = Journal(journal, f"ledger-{name}", LedgerEntry)
        self._is_journaling = True
        self._journaled: dict[str, LedgerEntry] = {}  # by id, of exchanges that are about to end
        self.failure: StateError | None = None
        self._waiting: list[LedgerEntry] = []
        self._attempted: list[asyncio.Future[None]] = []  # of those who wait for the next attempt to write
        self._writer: asyncio.Task[None] | None = None
        self._pace = WritePace()

    def recover(self) -> int:
        """Adds the entries of gateways that were killed; returns how many. Those that are in the database stay as they
        are.
        """
        entries = self._journal.adopt() if self._journal is not None else []
        for entry in entries:
            self._add(entry)
        return len(entries)

    async def observe(self, exchange: Exchange) -> None:
        self.note(exchange)
        await self.flush()

    def before_end(self, exchange: Exchange) -> None:
        """Writes an exchange to the journal, if there is one."""
        if self._journal is None or not (exchange.attempts or exchange.usage is not None):
            return
        entry = entry_of(exchange)
        try:
            self._journal.add(entry)
            self._journaled[entry.id] = entry
            self._is_journaling = True
        except OSError as error:
            if self._is_journaling:
                _log.error("the journal of the ledger cannot be written: %s; a crash may lose the last entries", error)
            self._is_journaling = False

    def note(self, exchange: Exchange) -> None:
        """Adds an exchange; it is written soon, together with others."""
        if not (exchange.attempts or exchange.usage is not None):
            return
        if exchange.id not in self._journaled:  # the client received no end
            self.before_end(exchange)
        entry = self._journaled.pop(exchange.id, None)
        # A client may have left with the end of its response on the way.
        self._add(entry if entry is not None and entry.aborted is exchange.is_aborted else entry_of(exchange))

    async def append(self, entry: LedgerEntry) -> None:
        """Writes an entry, together with concurrent ones."""
        self._add(entry)
        await self.flush()

    def _add(self, entry: LedgerEntry) -> None:
        self._waiting.append(entry)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.ensure_future(self._write())

    @property
    def backlog(self) -> int:
        """The number of unwritten entries."""
        return len(self._waiting)

    async def flush(self) -> None:
        """Waits until all entries so far are written, or cannot be written now."""
        self._pace.hurry()
        await self.written()

    async def written(self) -> None:
        """Like `flush`, but gives entries the time to be written together with others."""
        if self._waiting:
            attempted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._attempted.append(attempted)
            await attempted

    async def _write(self) -> None:
        while self._waiting:
            await self._pace.turn()
            batch, attempted, self._attempted = list(self._waiting), self._attempted, []
            try:
                await self.database.insert(_INSERT, list(map(_row, batch)))
                self.failure = None
                del self._waiting[: len(batch)]
                if self._journal is not None:
                    self._journal.done(batch)
            except StateError as error:
                if self.failure is None:
                    _log.error("%s; nothing is served until it can be written", error)
                self.failure = error
            if not self._waiting:  # no further caller is waiting
                attempted, self._attempted = attempted + self._attempted, []
            for one in attempted:
                if not one.done():
                    one.set_result(None)
            if self.failure is not None:
                await asyncio.sleep(_RETRY)

    async def usage(
        self,
        by: Sequence[Column] = COLUMNS,
        *,
        since: str | None = None,
        until: str | None = None,
        key: str | None = None,
        model: str | None = None,
    ) -> list[UsageRow]:
        """Sums by these columns; days as `2026-01-31`, both included."""
        await self.flush()
        given = (("day >= ?", since), ("day <= ?", until), ("key = ?", key), ("model = ?", model))
        conditions = [(test, value) for test, value in given if value is not None]
        where = f"WHERE {' AND '.join(test for test, _ in conditions)}" if conditions else ""
        columns = [column for column in COLUMNS if column in by]
        names = "".join(f"{column}, " for column in columns)
        group = f"GROUP BY {', '.join(columns)} ORDER BY {', '.join(columns)}" if columns else ""
        rows = await self.database.rows(
            f"SELECT {names}{_SUMS} FROM gateway_ledger {where} {group}", *(value for _, value in conditions)
        )
        return [_sum(columns, row) for row in rows if row[len(columns)]]

    async def spent(self, key: str) -> SpentAmounts:
        """Returns what a key has spent today, this month and in total."""
        await self.flush()
        today = time.strftime("%Y-%m-%d", time.gmtime())
        rows = await self.database.rows(
            """SELECT sum(CASE WHEN day = ? THEN cost ELSE 0 END), sum(CASE WHEN day >= ? THEN cost ELSE 0 END),
            sum(cost) FROM gateway_ledger WHERE key = ?""",
            today,
            f"{today[:7]}-01",
            key,
        )
        return SpentAmounts(*(int(value or 0) for value in rows[0]))

    async def close(self) -> None:
        """Writes pending entries, as far as possible."""
        self._pace.hurry()
        if self._writer is not None and not self._writer.done():
            await asyncio.wait([self._writer], timeout=_RETRY)
            self._writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writer
        if self._waiting:
            _log.error("%s: %d entries could not be written: %s", self.where, len(self._waiting), self.failure)
        if self._journal is not None:
            self._journal.close()
        await self.database.close()


def _row(entry: LedgerEntry) -> tuple[Any, ...]:
    *values, estimated, aborted, seconds = astuple(entry)
    return (*values, int(estimated), int(aborted), seconds)  # PostgreSQL takes no truth values for integers


def _sum(columns: Sequence[Column], row: tuple[Any, ...]) -> UsageRow:
    names = (*columns, *UsageRow.__struct_fields__[len(COLUMNS) :])
    found: dict[str, Any] = {name: value or 0 for name, value in zip(names, row, strict=True)}
    sums = {name: int(value) for name, value in found.items() if name not in columns}
    return UsageRow(**(found | sums | {"cost": sums["cost"] / NANO}))
