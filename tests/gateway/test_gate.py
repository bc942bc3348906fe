"""The gate: limits that hold exactly however calls overlap, on every store, and that refuse when the store is away."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stores import exchange, redis_server, used
from interlingua.gateway.accounts import NANO, Accounts, SpentAmounts
from interlingua.gateway.exchange import ClientKey
from interlingua.gateway.gate import KeyGate
from interlingua.gateway.keys import ClientKeys
from interlingua.gateway.ledger import Ledger
from interlingua.gateway.state import (
    MISSING,
    MemoryState,
    Postgres,
    SqliteState,
    StateError,
    StateStore,
    VersionedValue,
    open_state,
)
from interlingua.values.errors import AuthFailed, BadRequest, InterlinguaError, Overloaded, RateLimited
from interlingua.values.messages import Usage


class Clock:
    def __init__(self, now: float = 1_790_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def gate(store: StateStore, clock: Clock | None = None, **given: float) -> KeyGate:
    accounts = Accounts(store, clock=clock or Clock(), **given)  # type: ignore[arg-type]
    return KeyGate(ClientKeys(Path("/nonexistent/keys.json")), accounts)


async def outcome(gate: KeyGate, key: ClientKey, cost: float | None = 0.0, tokens: int = 0) -> str:
    try:
        await gate.admit(exchange(key), input_tokens=tokens, highest_cost=cost)
    except InterlinguaError as error:
        return getattr(error, "code", "") or type(error).__name__
    return "ok"


# --- each limit ------------------------------------------------------------------------------------------------------


async def test_a_rate_holds_for_every_span_of_a_minute() -> None:
    """The first requests free their place only when a minute has passed since them."""
    clock, key = Clock(), ClientKey(name="k", requests_per_minute=2)
    door = gate(MemoryState(), clock)
    assert ["ok", "ok", "rate_limit_exceeded"] == [await outcome(door, key) for _ in range(3)]
    with pytest.raises(RateLimited) as refused:
        await door.admit(exchange(key), input_tokens=0, highest_cost=0.0)
    assert refused.value.status == 429 and 60 <= (refused.value.retry_after or 0) <= 61
    clock.now += refused.value.retry_after or 0
    asked = exchange(key)
    await door.admit(asked, input_tokens=0, highest_cost=0.0)
    assert (2, 1) == (asked.quotas["requests"].limit, asked.quotas["requests"].remaining)


@given(st.lists(st.floats(0, 30), max_size=60), st.integers(1, 5))
async def test_in_no_minute_are_there_more_requests_than_the_limit(waits: list[float], limit: int) -> None:
    """Whenever the requests come, any sixty seconds have at most the limit of them; and none is refused that fits."""
    clock, key = Clock(), ClientKey(name="k", requests_per_minute=limit)
    door, admitted = gate(MemoryState(), clock), []
    for wait in waits:
        clock.now += wait
        recent = [at for at in admitted if clock.now - at <= 62]
        if await outcome(door, key) == "ok":
            admitted.append(clock.now)
        else:
            assert len(recent) >= limit
    for at in admitted:
        assert len([other for other in admitted if at <= other < at + 60]) <= limit


async def test_tokens_count_with_the_longest_answer_and_then_as_used() -> None:
    """An answer that was shorter than it might have been gives back the difference."""
    clock, key = Clock(), ClientKey(name="k", tokens_per_minute=100)
    door = gate(MemoryState(), clock)
    reservation = await door.admit(exchange(key), input_tokens=40, output_tokens=60, highest_cost=0.0)
    assert "rate_limit_exceeded" == await outcome(door, key, tokens=1)
    await reservation.settle(used(key, "x", 0.0, usage=Usage.of(40, 10)))
    assert ["ok", "rate_limit_exceeded"] == [await outcome(door, key, tokens=50) for _ in range(2)]


async def test_a_call_that_can_never_fit_is_told_so() -> None:
    """Waiting would not help, so no time is named."""
    with pytest.raises(BadRequest, match="this call exceeds it"):
        await gate(MemoryState()).admit(
            exchange(ClientKey(name="k", tokens_per_minute=10)), input_tokens=11, highest_cost=0.0
        )


async def test_a_budget_counts_what_is_put_aside_and_then_what_it_cost() -> None:
    """The last cent is promised once; a cheaper answer gives back the rest; an unknown cost takes all of it."""
    key, door = ClientKey(name="k", budget=1.0), gate(MemoryState())
    first = await door.admit(exchange(key), input_tokens=1, highest_cost=0.75)
    assert "rate_limit_exceeded" == await outcome(door, key, 0.3)
    await first.settle(used(key, "a", 0.25))
    second = await door.admit(exchange(key), input_tokens=1, highest_cost=0.5)
    await second.settle(used(key, "b", None))
    assert SpentAmounts(*[int(0.75 * NANO)] * 3) == await door.accounts.spent("k")
    third = await door.admit(exchange(key), input_tokens=1, highest_cost=0.25)
    await third.settle(exchange(key))  # no provider was reached
    assert "ok" == await outcome(door, key, 0.25)


async def test_only_a_spent_budget_tells_clients_to_stop() -> None:
    """Clients give up at `insufficient_quota`: what open calls have put aside may be free in a second, while what is
    spent is not, whatever is open."""
    key, door = ClientKey(name="k", budget=1.0, budget_period="day"), gate(MemoryState())
    await (await door.admit(exchange(key), input_tokens=1, highest_cost=0.5)).settle(used(key, "a", 0.5))
    await door.admit(exchange(key), input_tokens=1, highest_cost=0.25)
    for cost, code, waits in ((0.4, "rate_limit_exceeded", False), (0.6, "insufficient_quota", True)):
        with pytest.raises(RateLimited) as refused:
            await door.admit(exchange(key), input_tokens=1, highest_cost=cost)
        assert (code, waits) == (refused.value.code, (refused.value.retry_after or 0) > 60)


async def test_an_unknown_price_is_refused_where_there_is_a_budget() -> None:
    """What may cost anything cannot be put aside."""
    door = gate(MemoryState())
    assert "unknown_price" == await outcome(door, ClientKey(name="k", budget=1.0), None)
    assert "ok" == await outcome(door, ClientKey(name="k", concurrency=3), None)


@pytest.mark.parametrize(("period", "later"), [("day", 86_400.0), ("month", 31 * 86_400.0)])
async def test_a_budget_begins_anew_with_its_period(period: str, later: float) -> None:
    """Days and months are those of UTC; a total never begins anew."""
    clock = Clock()
    key = ClientKey(name="k", budget=1.0, budget_period=period)  # type: ignore[arg-type]
    door = gate(MemoryState(), clock)
    await (await door.admit(exchange(key), input_tokens=1, highest_cost=1.0)).settle(used(key, "a", 1.0))
    with pytest.raises(RateLimited) as refused:
        await door.admit(exchange(key), input_tokens=1, highest_cost=1.0)
    assert 0 < (refused.value.retry_after or 0) <= later
    clock.now += refused.value.retry_after or 0
    assert "ok" == await outcome(door, key, 1.0)
    assert "insufficient_quota" == await outcome(door, ClientKey(name="k", budget=1.0), 0.1)


async def test_open_calls_are_limited_until_they_settle() -> None:
    """Settling frees a place, once, however often it is called."""
    key, door = ClientKey(name="k", concurrency=2), gate(MemoryState())
    first, _ = [await door.admit(exchange(key), input_tokens=1, highest_cost=0.0) for _ in range(2)]
    assert "rate_limit_exceeded" == await outcome(door, key)
    await first.settle(exchange(key))
    await first.settle(exchange(key))
    assert ["ok", "rate_limit_exceeded"] == [await outcome(door, key) for _ in range(2)]


async def test_a_key_uses_the_models_that_it_names() -> None:
    """By the alias that was asked for, or by the provider's name."""
    door = gate(MemoryState())
    for patterns in (("test-*",), ("debug/*",), None):
        assert "ok" == await outcome(door, ClientKey(name="k", models=patterns))
    with pytest.raises(AuthFailed, match="may not use the model 'test-model'") as refused:
        await door.admit(exchange(ClientKey(name="k", models=("other",))), input_tokens=0, highest_cost=0.0)
    assert 403 == refused.value.status


# --- many at once ----------------------------------------------------------------------------------------------------


async def crowd(doors: list[KeyGate], key: ClientKey, calls: int, cost: float, actual: float) -> tuple[int, int]:
    """Calls through these gates at once: how many were let in, and the most that were open together."""
    admitted = open_calls = most = 0

    async def call(at: int) -> None:
        nonlocal admitted, open_calls, most
        try:
            reservation = await doors[at % len(doors)].admit(exchange(key), input_tokens=1, highest_cost=cost)
        except RateLimited:
            return
        admitted += 1
        open_calls += 1
        most = max(most, open_calls)
        await asyncio.sleep(0)
        open_calls -= 1
        await reservation.settle(used(key, f"x{at}", actual))

    await asyncio.gather(*(call(at) for at in range(calls)))
    return admitted, most


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 3), st.data())
async def test_no_overlap_of_calls_exceeds_a_limit(calls: int, limit: int, doors: int, data: st.DataObject) -> None:
    """Whatever the number of gateways and calls: no more are let in than the rate, open than the limit, or spent."""
    cents = data.draw(st.integers(1, 9))
    store = MemoryState()
    clock = Clock()
    gates = [gate(store, clock) for _ in range(doors)]
    rated = ClientKey(name="rated", requests_per_minute=limit)
    assert min(calls, limit) == (await crowd(gates, rated, calls, 0.0, 0.0))[0]
    narrow = ClientKey(name="narrow", concurrency=limit)
    assert (await crowd(gates, narrow, calls, 0.0, 0.0))[1] <= limit
    poor = ClientKey(name="poor", budget=limit * 0.1)
    admitted, _ = await crowd(gates, poor, calls, 0.1, cents / 100)
    spent = (await gates[0].accounts.spent("poor")).total
    assert admitted * cents * NANO // 100 == spent <= limit * NANO // 10
    for door in gates:
        await door.accounts.close()


async def test_two_gates_on_one_file_never_exceed_a_limit(tmp_path: Path) -> None:
    """Each has a connection of its own, as two processes would."""
    stores = [SqliteState(tmp_path / "gateway.db") for _ in range(2)]
    doors = [gate(store) for store in stores]
    key = ClientKey(name="k", requests_per_minute=150, budget=10.0)
    admitted, _ = await crowd(doors, key, 400, 0.1, 0.1)
    assert 100 == admitted
    assert 10 * NANO == (await doors[1].accounts.spent("k")).total
    for door, store in zip(doors, stores, strict=True):
        await door.accounts.close()
        await store.close()


async def test_the_ledger_and_the_limits_of_one_file_have_one_connection(tmp_path: Path) -> None:
    """What one of two writes, the other would have to read again. Whoever opened it closes it."""
    ledger = Ledger(f"sqlite:{tmp_path / 'gateway.db'}")
    store = open_state(f"sqlite:{tmp_path / 'gateway.db'}", ledger.database)
    other = open_state(f"sqlite:{tmp_path / 'other.db'}", ledger.database)
    assert isinstance(store, SqliteState) and store._file is ledger.database
    assert isinstance(other, SqliteState) and other._file is not ledger.database
    for one in (store, other):
        assert {} == await one.swap({"k": VersionedValue(0, b"x")})
        await one.close()
    assert [] == await ledger.usage()
    await ledger.close()


async def test_two_gates_on_one_redis_never_exceed_a_limit_and_refuse_without_it(tmp_path: Path) -> None:
    """1,000 calls at once through two gateways: the rate and the budget are met exactly; with Redis gone, none pass."""
    with redis_server(tmp_path) as server:
        stores = [open_state(server.address) for _ in range(2)]
        doors = [gate(store) for store in stores]
        rated = ClientKey(name="rated", requests_per_minute=300)
        assert 300 == (await crowd(doors, rated, 1000, 0.0, 0.0))[0]
        poor = ClientKey(name="poor", budget=25.0)
        assert 250 == (await crowd(doors, poor, 1000, 0.1, 0.1))[0]
        assert 25 * NANO == (await doors[0].accounts.spent("poor")).total
        slot = await doors[0].admit(
            exchange(free := ClientKey(name="free", budget=9.0)), input_tokens=1, highest_cost=1.0
        )
        server.stop()
        for door in doors:
            with pytest.raises(Overloaded) as refused:
                await door.admit(exchange(rated), input_tokens=1, highest_cost=0.0)
            assert (503, "state_unavailable") == (refused.value.status, refused.value.code)
            assert str(tmp_path) not in str(refused.value)
        await slot.settle(used(free, "late", 0.5))  # kept until Redis is back, empty
        server.start()
        for _ in range(100):
            if (await doors[1].accounts.spent("free")).total:
                break
            await asyncio.sleep(0.1)
        assert NANO // 2 == (await doors[1].accounts.spent("free")).total
        for door, store in zip(doors, stores, strict=True):
            await door.accounts.close()
            await store.close()


# --- when things break -----------------------------------------------------------------------------------------------


async def test_a_redis_that_refuses_is_not_one_that_does_not_answer(tmp_path: Path) -> None:
    """Who reads the log is not told to start a server that runs: other data are under the gateway's names."""
    from redis.asyncio import Redis

    with redis_server(tmp_path) as server:
        async with Redis.from_url(server.address) as other:
            await other.set("interlingua:gateway:mine", "other data")
        store = open_state(server.address)
        with pytest.raises(StateError, match=r"Redis refused: .*WRONGTYPE.*; check its data"):
            await store.swap({"mine": MISSING})
        await store.close()


class BreakingConnection:
    """A connection to PostgreSQL that may break: before a transaction begins, or within it."""

    closed = False

    def __init__(self, error: type[Exception]) -> None:
        self._error = error
        self.breaks: str | None = None

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        if self.breaks == "before":
            raise self._error("terminating connection due to administrator command")
        yield

    @contextlib.asynccontextmanager
    async def cursor(self) -> AsyncIterator[Any]:
        yield self

    async def execute(self, *_: Any) -> None: ...

    async def executemany(self, *_: Any) -> None:
        if self.breaks == "within":
            raise self._error("server closed the connection unexpectedly")

    async def close(self) -> None: ...


async def test_a_connection_that_broke_while_it_was_idle_fails_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart of PostgreSQL or of a proxy before it. What may have been done is not done again unseen."""
    psycopg = pytest.importorskip("psycopg")
    opened: list[BreakingConnection] = []

    async def connect(*_: Any, **__: Any) -> BreakingConnection:
        opened.append(BreakingConnection(psycopg.OperationalError))
        return opened[-1]

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", connect)
    database = Postgres("postgresql://localhost/x", ())
    await database.insert("INSERT", [(1,)])
    opened[-1].breaks = "before"
    await database.insert("INSERT", [(1,)])
    assert len(opened) == 2
    opened[-1].breaks = "within"
    with pytest.raises(StateError, match="server closed the connection"):
        await database.insert("INSERT", [(1,)])
    assert len(opened) == 2


class Flaky(MemoryState):
    """Fails as told: before a write is made, or after, when only the reply is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[str] = []
        self.swaps = 0

    async def swap(self, changes: Mapping[str, VersionedValue]) -> dict[str, VersionedValue]:
        self.swaps += 1
        await asyncio.sleep(0)
        failure = self.failures.pop(0) if self.failures else ""
        if failure == "before":
            raise StateError("away")
        reply = await super().swap(changes)
        if failure == "after":
            raise StateError("reply lost")
        return reply


@given(st.lists(st.sampled_from(["", "", "before", "after"]), max_size=30), st.integers(1, 25))
async def test_lost_replies_neither_forget_nor_repeat_anything(failures: list[str], calls: int) -> None:
    """After the store is back, exactly what was let in is spent, and nothing stays put aside."""
    store = Flaky()
    doors = [gate(store), gate(store)]
    key = ClientKey(name="k", budget=1000.0, concurrency=1000)
    total = 0

    async def call(at: int) -> None:
        nonlocal total
        try:
            reservation = await doors[at % 2].admit(exchange(key), input_tokens=1, highest_cost=5.0)
        except Overloaded:
            return
        await asyncio.sleep(0)
        await reservation.settle(used(key, f"x{at}", 1.0 + at))
        total += 1 + at

    from interlingua.gateway import accounts

    before, accounts._RETRY = accounts._RETRY, 0.0
    try:
        store.failures = list(failures)
        await asyncio.gather(*(call(at) for at in range(calls)))
        store.failures = []
        for door in doors:
            if door.accounts._writer is not None:
                await door.accounts._writer
        account = doors[0].accounts._decoded(await doors[0].accounts._read("k"))
    finally:
        accounts._RETRY = before
    assert total * NANO == account.spent.total
    assert {(0, 0)} >= {(share.calls, share.cost) for share in account.shares.values()}
    for door in doors:
        await door.accounts.close()


ROOMY = ClientKey(name="k", requests_per_minute=2000, tokens_per_minute=100_000, concurrency=400)


@given(
    st.lists(st.sampled_from(["", "", "before", "after"]), max_size=10),
    st.lists(st.tuples(st.integers(0, 1), st.floats(0, 0.7), st.integers(0, 300)), max_size=40),
)
async def test_calls_that_are_counted_ahead_are_counted_exactly(
    failures: list[str], calls: list[tuple[int, float, int]]
) -> None:
    """Whatever was put aside for calls to come: in the end what came is counted, and nothing stays open."""
    from interlingua.gateway import accounts

    store, clock = Flaky(), Clock()
    doors = [gate(store, clock), gate(store, clock)]
    admitted = tokens = 0
    before, accounts._RETRY = accounts._RETRY, 0.0
    try:
        store.failures = list(failures)
        for at, wait, size in calls:
            clock.now += wait
            try:
                reservation = await doors[at].admit(exchange(ROOMY), input_tokens=size, highest_cost=0.0)
            except Overloaded:
                continue
            await reservation.settle(used(ROOMY, "x", 0.0, usage=Usage.of(size // 2, 1)))
            admitted += 1
            tokens += size // 2 + 1
        store.failures = []
    finally:
        accounts._RETRY = before
    for door in doors:
        await door.accounts.close()
    account = doors[0].accounts._decoded(await doors[0].accounts._read("k"))
    # A request that was written and whose caller was refused, since the reply was lost, stays counted.
    assert 0 <= sum(account.requests.values()) - admitted <= failures.count("after")
    assert tokens == sum(account.tokens.values())
    assert {0} >= {share.calls for share in account.shares.values()}


async def test_a_key_that_asks_again_and_again_needs_few_writes() -> None:
    """Far from its limits, and the quotas go down by one each time; near them each call is written."""
    store, clock = Flaky(), Clock()
    door, remaining = gate(store, clock), []
    for _ in range(200):
        asked = exchange(ROOMY)
        await door.admit(asked, input_tokens=1, highest_cost=0.0)
        remaining.append(asked.quotas["requests"].remaining)
        await asyncio.sleep(0)
    assert list(range(1999, 1799, -1)) == remaining
    assert store.swaps < 60
    near = ClientKey(name="near", requests_per_minute=50)
    assert ["ok"] * 50 + ["rate_limit_exceeded"] == [await outcome(door, near) for _ in range(51)]
    await door.accounts.close()


async def test_calls_that_were_not_made_are_given_back_for_others() -> None:
    """When their second is over, another gateway may use all of the limit."""
    store, clock = MemoryState(), Clock()
    first, second = gate(store, clock), gate(store, clock)
    for _ in range(24):
        await outcome(first, ROOMY)
        await asyncio.sleep(0)
    assert first.accounts._ahead["k"].calls
    clock.now += 1
    await outcome(first, ROOMY)
    await first.accounts.close()
    account = second.accounts._decoded(await second.accounts._read("k"))
    assert 25 == sum(account.requests.values())


async def test_what_a_dead_gateway_put_aside_is_spent_when_its_lease_ends() -> None:
    """It may have been spent; a gateway that was only slow corrects it when it settles."""
    clock, store = Clock(), MemoryState()
    dead, alive = gate(store, clock, lease=10.0), gate(store, clock, lease=10.0)
    key = ClientKey(name="k", budget=10.0, concurrency=1)
    reservation = await dead.admit(exchange(key), input_tokens=1, highest_cost=4.0)
    assert "rate_limit_exceeded" == await outcome(alive, key, 1.0)
    clock.now += 11
    assert "ok" == await outcome(alive, key, 1.0)
    assert 4 * NANO == (await alive.accounts.spent("k")).total
    await reservation.settle(used(key, "x", 0.5))
    assert NANO // 2 == (await alive.accounts.spent("k")).total


async def test_a_clock_that_is_behind_opens_no_window_early() -> None:
    """Gateways whose clocks differ count in one time, the latest that any of them saw."""
    store, fast, slow = MemoryState(), Clock(), Clock()
    slow.now -= 45
    doors = [gate(store, fast), gate(store, slow)]
    key = ClientKey(name="k", requests_per_minute=3)
    for _ in range(3):
        assert "ok" == await outcome(doors[0], key)
    for _ in range(50):
        slow.now += 1
        assert "rate_limit_exceeded" == await outcome(doors[1], key)


async def test_a_caller_that_leaves_while_it_is_let_in_gives_back_its_place() -> None:
    """Cancelled before the reply, it holds nothing afterwards."""
    store = Flaky()
    door, key = gate(store), ClientKey(name="k", concurrency=1)
    leaving = asyncio.ensure_future(outcome(door, key))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    for _ in range(20):
        await asyncio.sleep(0)
    assert "ok" == await outcome(door, key)


async def test_an_account_that_the_store_lost_begins_with_what_the_ledger_knows() -> None:
    """A Redis that was emptied does not give a spent budget back."""

    async def known(name: str) -> SpentAmounts:
        return SpentAmounts(day=NANO, month=2 * NANO, total=3 * NANO)

    accounts = Accounts(MemoryState(), seed=known, clock=Clock())
    door = KeyGate(ClientKeys(Path("/nonexistent/keys.json")), accounts)
    for period, cost, expected in (
        ("day", 2.5, "ok"),
        ("month", 2.5, "insufficient_quota"),
        ("total", 0.5, "insufficient_quota"),
    ):
        key = ClientKey(name=period, budget=4.0 if period != "total" else 3.0, budget_period=period)  # type: ignore[arg-type]
        assert expected == await outcome(door, key, cost)


async def test_a_value_that_is_no_account_lets_nobody_in() -> None:
    """Damage is not taken for an empty account."""
    store = MemoryState()
    await store.swap({"k": VersionedValue(0, b"\xc1rubbish")})
    assert "state_unavailable" == await outcome(gate(store), ClientKey(name="k", concurrency=5))


async def test_a_call_that_no_period_has_room_for_is_not_told_to_wait() -> None:
    """Waiting for the next day would not help; fewer tokens do."""
    key, door = ClientKey(name="k", budget=1.0, budget_period="day"), gate(MemoryState())
    with pytest.raises(RateLimited, match="ask for fewer tokens") as refused:
        await door.admit(exchange(key), input_tokens=1, highest_cost=1.5)
    assert refused.value.retry_after is None
