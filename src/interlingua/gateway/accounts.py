"""Usage and reservations per key, exact across gateways: one value per key, changed by one pure function.

- A *rate* holds for every sliding minute: usage is counted per second, and the current second and the sixty before it
  must not exceed the limit.
- *Money* is counted in billionths of a dollar, as integers, so that sums do not depend on their order.
- A reservation belongs to one gateway and ends with its lease. A gateway that died may have spent it, so it then counts
  as spent.
- Concurrent operations are written together, and usage waits briefly for more. Each gateway numbers its writes in the
  value itself, so that after a lost reply it is known whether the last one was made: nothing is counted twice or lost.
- Far from its limits, a busy key gets calls *ahead*: they are reserved by one write, and calls within the same second
  need none. Unused ones are returned when the second is over.
"""

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from .exchange import ClientKey, Quota
from .state import StateError, StateStore, VersionedValue, WritePace, log_failure

NANO = 1_000_000_000  # of a dollar
LEASE = 60.0  # seconds until what a silent gateway put aside is taken as spent
FORGET = 3600.0  # seconds after which nothing is known any more of a gateway that is gone
WINDOW = 60  # seconds
_MAX_AHEAD = 1024  # calls
_WRITE_EVERY = 0.1  # seconds between writes of what was used, while no caller waits
_RETRY = 0.5  # seconds between attempts to write what was used, while the store is away


class _Share(Struct, array_like=True):
    """The reservations of one gateway."""

    number: int  # of its last write
    first: int  # calls that were put aside by writes before this are in it no more
    calls: int = 0
    cost: int = 0
    until: float = 0.0


class SpentAmounts(Struct, array_like=True):
    """Billionths of a dollar, in the current day, month and in total; days are UTC."""

    day: int = 0
    month: int = 0
    total: int = 0


class Account(Struct, array_like=True):
    """The usage of one key, as known to all gateways."""

    id: str = ""
    at: float = 0.0  # the latest time that any gateway saw: clocks differ, and none may turn back a window
    requests: dict[int, int] = field(default_factory=dict)  # by second
    tokens: dict[int, int] = field(default_factory=dict)
    date: str = ""  # of `spent`
    spent: SpentAmounts = field(default_factory=SpentAmounts)
    shares: dict[str, _Share] = field(default_factory=dict)

    def advance(self, now: float) -> None:
        """Advances to the present: drops old seconds, days and dead gateways."""
        self.at = max(self.at, now)
        horizon = int(self.at) - WINDOW
        for window in (self.requests, self.tokens):
            for second in [second for second in window if second < horizon]:
                del window[second]
        for name, share in list(self.shares.items()):
            if share.until < self.at:
                self.spend(share.cost)
                share.calls, share.cost, share.first = 0, 0, share.number + 1
            if share.until < self.at - FORGET:
                del self.shares[name]
        date = time.strftime("%Y-%m-%d", time.gmtime(self.at))
        if date != self.date:
            self.spent.day = 0
            if date[:7] != self.date[:7]:
                self.spent.month = 0
            self.date = date

    def spend(self, cost: int) -> None:
        self.spent.day += cost
        self.spent.month += cost
        self.spent.total += cost


class Refusal(Struct, frozen=True):
    """The limit that was reached, and the seconds until it is free; None: waiting does not help."""

    limit: str  # requests, tokens, concurrency, reserved (of a budget), budget
    message: str
    retry_after: float | None


class Admission(Struct, frozen=True):
    """The reservation of one call."""

    account: str
    number: int  # of the write that made it, in that account
    second: int
    tokens: int
    cost: int
    quotas: dict[str, Quota]


class _Admit(Struct):
    key: ClientKey
    tokens: int
    cost: int

    def apply(self, account: Account, share: _Share) -> Admission | Refusal:
        refusal = self._refusal(account)
        if refusal is not None:
            return refusal
        second = int(account.at)
        account.requests[second] = account.requests.get(second, 0) + 1
        account.tokens[second] = account.tokens.get(second, 0) + self.tokens
        share.calls += 1
        share.cost += self.cost
        return Admission(account.id, share.number, second, self.tokens, self.cost, _quotas(account, self.key))

    def _refusal(self, account: Account) -> Refusal | None:
        key = self.key
        calls = sum(share.calls for share in account.shares.values())
        if key.concurrency is not None and calls >= key.concurrency:
            return Refusal("concurrency", f"{calls} calls of the key {key.name!r} are open, its limit", 1.0)
        for name, limit, amount in (
            ("requests", key.requests_per_minute, 1),
            ("tokens", key.tokens_per_minute, self.tokens),
        ):
            if limit is not None:
                wait = _wait(getattr(account, name), limit, amount, account.at)
                if wait != 0:
                    return Refusal(name, f"the key {key.name!r} may use {limit:,} {name} a minute", wait)
        if key.budget is not None:
            spent = getattr(account.spent, key.budget_period)
            reserved = sum(share.cost for share in account.shares.values())
            # What open calls may cost counts as spent until they are settled: else calls at the same time would each
            # see all of the budget.
            if spent + reserved + self.cost > math.floor(key.budget * NANO):
                return _over_budget(key, spent, reserved, self.cost, account.at)
        return None


class Ahead(Struct):
    """Reserved calls that have not come yet, valid for one second. `offset`: how far the account's clock is ahead of
    the gateway's.
    """

    account: str
    number: int
    second: int
    offset: float
    calls: int
    tokens: int
    quotas: dict[str, Quota]  # when all of them are used

    def admit(self, tokens: int) -> Admission:
        """Takes one of the calls."""
        self.calls -= 1
        self.tokens -= tokens
        left = {"requests": self.calls, "tokens": self.tokens}
        quotas = {name: Quota(one.limit, one.remaining + left[name], one.reset) for name, one in self.quotas.items()}
        return Admission(self.account, self.number, self.second, tokens, 0, quotas)


class _Reserve(Struct):
    """Reserves calls ahead: a small part of each limit, and only while less than half of it is used. So no other
    call is refused because of them, unless a limit is reached within their second.
    """

    key: ClientKey
    calls: int
    tokens: int  # of each
    now: float

    def apply(self, account: Account, share: _Share) -> Ahead | None:
        key, calls, second = self.key, self.calls, int(account.at)
        open_calls = sum(share.calls for share in account.shares.values())
        for limit, used, each, part in (
            (key.concurrency, open_calls, 1, 20),
            (key.requests_per_minute, sum(account.requests.values()), 1, 100),
            (key.tokens_per_minute, sum(account.tokens.values()), max(1, self.tokens), 100),
        ):
            if limit is not None:
                calls = min(calls, limit // part // each, (limit // 2 - used) // each)
        if calls < 1:
            return None
        account.requests[second] = account.requests.get(second, 0) + calls
        account.tokens[second] = account.tokens.get(second, 0) + calls * self.tokens
        share.calls += calls
        offset = account.at - self.now
        return Ahead(account.id, share.number, second, offset, calls, calls * self.tokens, _quotas(account, key))


class _GiveBack(Struct):
    """Returns unused calls ahead."""

    ahead: Ahead

    def apply(self, account: Account, share: _Share) -> None:
        given = self.ahead
        if given.account != account.id:
            return
        if given.number >= share.first:
            share.calls -= given.calls
        for window, amount in ((account.requests, given.calls), (account.tokens, given.tokens)):
            if given.second in window:
                window[given.second] = max(0, window[given.second] - amount)


class _Settle(Struct):
    admission: Admission
    tokens: int
    cost: int

    def apply(self, account: Account, share: _Share) -> None:
        made = self.admission
        if made.account != account.id:  # the store lost the account: nothing of it is put aside any more
            account.spend(self.cost)
            return
        if made.number >= share.first:
            share.calls -= 1
            share.cost -= made.cost
            account.spend(self.cost)
        else:  # the lease has expired, and the cost was charged
            account.spend(self.cost - made.cost)
        if made.second in account.tokens:
            account.tokens[made.second] = max(0, account.tokens[made.second] + self.tokens - made.tokens)


def _wait(window: dict[int, int], limit: int, amount: int, now: float) -> float | None:
    """Returns the seconds until so much fits into the window, 0 if it does now; None: it never does."""
    # A sliding window of whole seconds: a fixed minute would let twice the limit through at its border.
    excess = sum(window.values()) + amount - limit
    if excess <= 0:
        return 0.0
    for second in sorted(window):
        excess -= window[second]
        if excess <= 0:
            return second + WINDOW + 1 - now
    return None


def _quotas(account: Account, key: ClientKey) -> dict[str, Quota]:
    limits = (("requests", key.requests_per_minute), ("tokens", key.tokens_per_minute))
    return {name: _quota(account, name, limit) for name, limit in limits if limit is not None}


def _quota(account: Account, name: str, limit: int) -> Quota:
    window: dict[int, int] = getattr(account, name)
    reset = max(window, default=int(account.at) - WINDOW) + WINDOW + 1 - account.at
    return Quota(limit, max(0, limit - sum(window.values())), max(0.0, reset))


def _over_budget(key: ClientKey, spent: int, reserved: int, cost: int, now: float) -> Refusal:
    message = (
        f"the key {key.name!r} has a budget of {budget_text(key.budget or 0)} ({key.budget_period}):"
        f" ${spent / NANO:,.4f} is spent, ${reserved / NANO:,.4f} put aside for open calls,"
        f" and this call may cost ${cost / NANO:,.4f}"
    )
    budget = (key.budget or 0) * NANO
    if spent + cost <= budget:  # there is room for it if the open calls cost less
        return Refusal("reserved", message, 1.0)
    return Refusal("budget", message, None if cost > budget else _until_next(key.budget_period, now))


def budget_text(dollars: float) -> str:
    """A budget in cents, or with all of its digits: few dollars are many calls."""
    return f"${dollars:,.2f}" if round(dollars, 2) == dollars else f"${dollars:,.9f}".rstrip("0")


def _until_next(period: str, now: float) -> float | None:
    """Returns the seconds until the next UTC day or month."""
    if period == "total":
        return None
    date = datetime.fromtimestamp(now, UTC)
    start = date.replace(hour=0, minute=0, second=0, microsecond=0)
    following = (
        start + timedelta(days=1) if period == "day" else (start.replace(day=1) + timedelta(days=32)).replace(day=1)
    )
    return following.timestamp() - now


class _Renew(Struct):
    """A write that only renews the lease."""

    def apply(self, account: Account, share: _Share) -> None:
        pass


_Operation: TypeAlias = _Admit | _Reserve | _GiveBack | _Settle | _Renew
_Outcome: TypeAlias = Admission | Refusal | Ahead | None
_URGENT = (_Admit, _Reserve)  # a caller waits for these
_DURABLE = (_Settle, _GiveBack)  # these must not be lost while the store is away
_Batch: TypeAlias = "dict[str, list[_Waiting]]"


class _Waiting(Struct, eq=False):
    operation: _Operation
    future: "asyncio.Future[_Outcome] | None" = None  # None: no caller waits for the write
    outcome: _Outcome = None  # what the last attempt to write it would give

    def resolve(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(self.outcome)


class _Unconfirmed(Struct):
    """A write without a reply."""

    number: int
    waiting: list[_Waiting]


class Accounts:
    """The accounts of all keys, as one gateway sees them. Used from one event loop.

    `seed` returns the ledger's data of a key whose account is not in the store: it is new, or the store lost it.
    """

    def __init__(
        self,
        store: StateStore,
        *,
        seed: Callable[[str], Awaitable[SpentAmounts]] | None = None,
        clock: Callable[[], float] = time.time,
        lease: float = LEASE,
    ) -> None:
        self.name = secrets.token_hex(8)  # of this gateway, among those that share the store
        self._store = store
        self._seed = seed
        self._clock = clock
        self._lease = lease
        self._known: dict[str, VersionedValue] = {}
        self._number = 0
        self._unconfirmed: dict[str, _Unconfirmed] = {}
        self._open: dict[str, int] = {}  # calls by account, whose lease is to be prolonged
        self._ahead: dict[str, Ahead] = {}
        self._reserving: set[str] = set()  # keys with a pending reservation of further calls
        self._wanted: dict[str, tuple[float, int]] = {}  # time and number of the last reservation of further calls
        self._waiting: _Batch = {}
        self._pace = WritePace(_WRITE_EVERY)
        self._submitted = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._renewer: asyncio.Task[None] | None = None

    async def admit(self, key: ClientKey, *, tokens: int, cost: int) -> Admission | Refusal:
        """Reserves a call. Raises `StateError` if that cannot be written."""
        ahead = self._ahead.get(key.name)
        if (
            ahead is not None
            and key.budget is None
            and ahead.calls
            and tokens <= ahead.tokens
            # Only within their second: the account counts them there, whenever they are used.
            and int(self._clock() + ahead.offset) == ahead.second
        ):
            self._open[key.name] = self._open.get(key.name, 0) + 1
            return ahead.admit(tokens)
        self._give_back(key.name)
        waiting = self._submit(key.name, _Admit(key, tokens, cost))
        self._reserve(key, tokens)
        try:
            # A caller that stops waiting must not stop the write: it contains operations of others.
            outcome = await asyncio.shield(waiting)
        except asyncio.CancelledError:
            waiting.add_done_callback(lambda done: self._release(key.name, done))
            raise
        assert isinstance(outcome, Admission | Refusal)
        if isinstance(outcome, Admission):
            self._open[key.name] = self._open.get(key.name, 0) + 1
            if self._renewer is None:
                self._renewer = asyncio.ensure_future(self._renew())
        return outcome

    def settle(self, name: str, admission: Admission, *, tokens: int, cost: int) -> "asyncio.Future[_Outcome]":
        """Replaces a call's reservation by its usage; the future ends when it is written. While the store is
        unavailable it is kept for later.
        """
        self._open[name] -= 1
        written = self._submit(name, _Settle(admission, tokens, cost))
        if self._unconfirmed:
            written.set_result(None)
        return written

    def settle_soon(self, name: str, admission: Admission, *, tokens: int, cost: int) -> None:
        """`settle` without waiting."""
        self._open[name] -= 1
        self._add(name, _Waiting(_Settle(admission, tokens, cost)))

    def _reserve(self, key: ClientKey, tokens: int) -> None:
        """Requests calls ahead, if the key was used within the last second too; twice as many each time."""
        now = self._clock()
        at, wanted = self._wanted.pop(key.name, (0.0, 1))
        self._wanted[key.name] = (now, min(2 * wanted, _MAX_AHEAD) if now - at < 1 else 1)
        if now - at >= 1 or key.budget is not None or key.name in self._reserving:
            return
        self._reserving.add(key.name)
        reserving = self._submit(key.name, _Reserve(key, wanted, tokens, now))
        reserving.add_done_callback(lambda done: self._take_ahead(key.name, done))

    def _take_ahead(self, name: str, done: "asyncio.Future[_Outcome]") -> None:
        self._reserving.discard(name)
        if done.cancelled() or done.exception() is not None or not isinstance(ahead := done.result(), Ahead):
            return
        self._give_back(name)
        self._ahead[name] = ahead
        remaining = ahead.second + 1 - ahead.offset - self._clock()
        asyncio.get_running_loop().call_later(max(0.0, remaining), self._expire, name, ahead)

    def _expire(self, name: str, ahead: Ahead) -> None:
        if self._ahead.get(name) is ahead:
            self._give_back(name)

    def _give_back(self, name: str) -> None:
        ahead = self._ahead.pop(name, None)
        if ahead is not None and (ahead.calls or ahead.tokens):
            self._add(name, _Waiting(_GiveBack(ahead)))

    async def spent(self, name: str) -> SpentAmounts:
        """Returns the current spending, without reservations."""
        if name in self._waiting:
            self._pace.hurry()
            with contextlib.suppress(StateError):
                await asyncio.shield(self._submit(name, _Renew()))  # written together with the others
        account = self._decoded(await self._read(name))
        account.advance(self._clock())
        return account.spent

    async def close(self) -> None:
        """Writes pending changes. What the store does not accept counts as spent when the lease ends."""
        if self._renewer is not None:
            self._renewer.cancel()
        for name in list(self._ahead):
            self._give_back(name)
        self._pace.hurry()
        if self._writer is not None and not self._writer.done():
            self._submitted.set()
            await asyncio.wait([self._writer], timeout=2 * _RETRY)
            self._writer.cancel()

    # --- writing -----------------------------------------------------------------------------------------------------

    def _submit(self, name: str, operation: _Operation) -> "asyncio.Future[_Outcome]":
        """Returns a future that ends when the operation is written."""
        future: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        self._add(name, _Waiting(operation, future))
        if isinstance(operation, _URGENT):
            self._pace.hurry()
        return future

    def _add(self, name: str, waiting: _Waiting) -> None:
        self._waiting.setdefault(name, []).append(waiting)
        self._submitted.set()
        if self._writer is None or self._writer.done():
            self._writer = asyncio.ensure_future(self._write())

    def _release(self, name: str, done: "asyncio.Future[_Outcome]") -> None:
        """Returns the reservation of a caller that has left."""
        if not done.cancelled() and done.exception() is None and isinstance(made := done.result(), Admission):
            self._add(name, _Waiting(_Settle(made, 0, 0)))

    async def _write(self) -> None:
        while self._waiting or self._unconfirmed:
            await self._pace.turn()
            self._submitted.clear()
            batch, self._waiting = self._waiting, {}
            for name in self._unconfirmed:
                batch.setdefault(name, [])
            try:
                while batch:
                    await self._attempt(batch)
            except StateError as error:
                self._postpone(batch, error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._submitted.wait(), _RETRY)

    async def _attempt(self, batch: _Batch) -> None:
        """Writes the changes that no other gateway overtook, and removes them from the batch."""
        for name in batch.keys() - self._known.keys():
            self._known[name] = await self._read(name)
            self._confirm(name, batch[name])
        self._number += 1
        changes = {}
        for name, waiting in batch.items():
            account = await self._opened(name)
            self._apply(account, waiting)
            changes[name] = VersionedValue(self._known[name].version, msgspec.msgpack.encode(account))
        try:
            others = await self._store.swap(changes)
        except StateError as error:
            for name, waiting in batch.items():
                # It is unknown which version the store has now: it is read before the next write.
                del self._known[name]
                self._unconfirmed[name] = _Unconfirmed(self._number, waiting)
                _refuse(waiting, error)
                batch[name] = []
            raise
        for name, change in changes.items():
            self._known[name] = others.get(name) or VersionedValue(change.version + 1, change.value)
            if name not in others:
                for one in batch.pop(name):
                    one.resolve()

    def _apply(self, account: Account, waiting: list[_Waiting]) -> None:
        account.advance(self._clock())
        share = account.shares.setdefault(self.name, _Share(self._number, self._number))
        # The number tells after a lost reply whether the write was made; the lease frees what a killed gateway had
        # reserved.
        share.number, share.until = self._number, account.at + self._lease
        for one in sorted(waiting, key=lambda one: isinstance(one.operation, _Reserve)):  # who is here comes first
            one.outcome = one.operation.apply(account, share)

    async def _opened(self, name: str) -> Account:
        account = self._decoded(self._known[name])
        if not account.id:
            account.id = secrets.token_hex(8)
            account.advance(self._clock())
            if self._seed is not None:
                account.spent = await self._seed(name)
        return account

    async def _read(self, name: str) -> VersionedValue:
        return (await self._store.swap({name: READ}))[name]

    def _decoded(self, stored: VersionedValue) -> Account:
        try:
            return _DECODER.decode(stored.value) if stored.version else Account()
        except msgspec.MsgspecError as error:
            raise StateError(f"{self._store.where}: not an account of a gateway: {error}; remove it") from None

    # --- while the store is away -------------------------------------------------------------------------------------

    def _postpone(self, batch: _Batch, error: StateError) -> None:
        """Refuses waiting callers; usage is kept for later."""
        log_failure("the limits of keys cannot be written", error)
        for name, waiting in batch.items():
            _refuse(waiting, error)
            used = [one for one in waiting if isinstance(one.operation, _DURABLE)]
            if used:
                self._waiting[name] = used + self._waiting.get(name, [])

    def _confirm(self, name: str, waiting: list[_Waiting]) -> None:
        """Undoes writes for refused callers; repeats unwritten usage."""
        doubt = self._unconfirmed.pop(name, None)
        if doubt is None:
            return
        share = self._decoded(self._known[name]).shares.get(self.name)
        was_written = share is not None and share.number >= doubt.number
        for one in reversed(doubt.waiting):
            # The caller was refused when the store did not reply, but its reservation was written.
            if was_written and isinstance(one.outcome, Admission):
                waiting.insert(0, _Waiting(_Settle(one.outcome, 0, 0), one.future))
            elif was_written and isinstance(one.outcome, Ahead):
                waiting.insert(0, _Waiting(_GiveBack(one.outcome), one.future))
            elif not was_written and isinstance(one.operation, _DURABLE):
                waiting.insert(0, one)

    async def _renew(self) -> None:
        while True:
            # Two renewals may fail before the lease ends.
            await asyncio.sleep(self._lease / 3)
            for name in [name for name, count in self._open.items() if count]:
                self._add(name, _Waiting(_Renew()))


def _refuse(waiting: list[_Waiting], error: StateError) -> None:
    for one in waiting:
        if one.future is None or one.future.done():
            continue
        if isinstance(one.operation, _DURABLE):
            one.future.set_result(None)
        else:
            one.future.set_exception(StateError(str(error)))


READ = VersionedValue(-1, b"")  # a version that no value has: a swap that only reads
_DECODER = msgspec.msgpack.Decoder(Account)
