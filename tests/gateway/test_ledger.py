"""The ledger: sums in disjoint buckets, each exchange once, and nothing lost that was acknowledged."""

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from gateway.stores import exchange, used
from interlingua.gateway import Gateway, Listen, ProviderSettings, Settings, state
from interlingua.gateway import ledger as ledgers
from interlingua.gateway.accounts import NANO, Accounts
from interlingua.gateway.exchange import ClientKey
from interlingua.gateway.gate import KeyGate
from interlingua.gateway.keys import ClientKeys
from interlingua.gateway.ledger import Ledger, LedgerEntry
from interlingua.gateway.state import MemoryState, SqliteState, StateError
from interlingua.values.errors import Overloaded
from interlingua.values.folding import unfold
from interlingua.values.messages import AssistantMessage, Usage

KILLS = int(os.environ.get("INTERLINGUA_KILLS", "8"))
KEY = ClientKey(name="ci")


def at(path: Path) -> Ledger:
    return Ledger(f"sqlite:{path / 'gateway.db'}")


async def test_usage_is_summed_by_key_model_and_day_in_disjoint_buckets(tmp_path: Path) -> None:
    """Input excludes the cache; costs are exact; what was estimated, cut off or has no price is counted as such."""
    ledger = at(tmp_path)
    await ledger.observe(used(KEY, "a", 0.1))
    await ledger.observe(used(KEY, "b", 0.2, is_estimated=True, is_aborted=True))
    await ledger.observe(used(ClientKey(name="other"), "c", None))
    rows = await ledger.usage(("key",))
    assert [("ci", 2, 20, 10, 6, 4, 0.3, 0, 1, 1), ("other", 1, 10, 5, 3, 2, 0.0, 1, 0, 0)] == [
        (
            row.key,
            row.calls,
            row.input,
            row.output,
            row.cache_read,
            row.cache_write,
            row.cost,
            row.unpriced,
            row.estimated,
            row.aborted,
        )
        for row in rows
    ]
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert [(today, "debug/test-model", 2)] == [
        (row.day, row.model, row.calls) for row in await ledger.usage(("day", "model"), key="ci", since=today)
    ]
    assert [] == await ledger.usage((), since="2999-01-01")
    assert int(0.3 * NANO) == (await ledger.spent("ci")).total
    assert 0o600 == stat.S_IMODE((tmp_path / "gateway.db").stat().st_mode)
    await ledger.close()


async def test_a_failed_call_that_used_nothing_has_no_unknown_price(tmp_path: Path) -> None:
    """Adding a price would change nothing; without one are calls that were answered, or used tokens."""
    ledger, nothing = at(tmp_path), Usage.of(0, 0)
    for one, status in (
        (used(KEY, "a", None, usage=None, error=il.ProviderError("no", status=500)), 500),
        (used(KEY, "b", None, usage=None, is_aborted=True), 0),
        (used(KEY, "c", None, usage=nothing), 200),
        (used(KEY, "d", None, is_aborted=True), 0),
    ):
        one.status = status
        await ledger.observe(one)
    (row,) = await ledger.usage(())
    await ledger.close()
    assert (4, 1, 2, 2) == (row.calls, row.errors, row.aborted, row.unpriced)


async def test_a_stream_that_comes_in_one_piece_is_no_error(tmp_path: Path) -> None:
    """Its entry is written before anything is sent, and has the status that the client gets."""
    answer = AssistantMessage(content="Hello", usage=Usage.of(1, 1), stop_reason="stop", response_id="msg_1", model="m")
    encoder = il.dialect("anthropic-messages").StreamEncoder()
    events = b"".join(map(encoder.feed, unfold(answer))) + encoder.close()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"hello")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + b"%x\r\n%b\r\n" % (len(events), events))
        await asyncio.sleep(0.1)  # the end of the body comes later than the last event
        writer.write(b"0\r\n\r\n")
        writer.close()

    upstream = await asyncio.start_server(respond, "127.0.0.1", 0)
    settings = Settings(
        providers=(
            ProviderSettings(
                id="up",
                api="anthropic-messages",
                base_url=f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}",
                api_keys=("k",),
            ),
        ),
        listen=Listen(port=0),
    )
    ledger = Ledger(f"sqlite:{tmp_path / 'gateway.db'}", tmp_path)
    body = {"model": "up/m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    async with (
        Gateway(settings, observers=[ledger]) as gateway,
        aiohttp.ClientSession() as client,
        client.post(f"{gateway.url}/v1/messages", json=body) as response,
    ):
        assert b"message_stop" in await response.read()
    assert [(1, 0)] == [(row.calls, row.errors) for row in await ledger.usage(())]
    await ledger.close()
    upstream.close()
    await upstream.wait_closed()


async def test_an_exchange_counts_once_however_often_it_is_observed(tmp_path: Path) -> None:
    """The id of the exchange is the id of the entry, over restarts too."""
    for _ in range(2):
        ledger = at(tmp_path)
        await asyncio.gather(*(ledger.observe(used(KEY, "same", 1.0)) for _ in range(10)))
        assert [1] == [row.calls for row in await ledger.usage(())]
        await ledger.close()


async def test_what_reached_no_provider_is_not_in_the_ledger(tmp_path: Path) -> None:
    """A refused request used nothing."""
    ledger = at(tmp_path)
    await ledger.observe(exchange(KEY, status=429))
    assert [] == await ledger.usage(())
    await ledger.close()


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 10**6), st.none() | st.floats(0, 5)))
)
async def test_sums_are_exact_under_concurrency(calls: list[tuple[str, int, int, float | None]]) -> None:
    """However the writes overlap, over two connections, each sum is that of its entries."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ledgers = [at(Path(folder)) for _ in range(2)]
        tokens: Counter[str] = Counter()
        costs: Counter[str] = Counter()
        for key, _, size, cost in calls:
            tokens[key] += size
            costs[key] += round((cost or 0) * NANO)
        await asyncio.gather(
            *(
                ledgers[number % 2].observe(used(ClientKey(name=key), f"x{number}", cost, usage=Usage.of(size)))
                for number, (key, _, size, cost) in enumerate(calls)
            )
        )
        rows = await ledgers[0].usage(("key",))
        assert dict(tokens) == {row.key: row.input for row in rows}
        assert {key: cost / NANO for key, cost in costs.items()} == {row.key: row.cost for row in rows}
        for ledger in ledgers:
            await ledger.close()


# --- the journal -----------------------------------------------------------------------------------------------------

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from gateway.stores import used
from interlingua.gateway.exchange import ClientKey
from interlingua.gateway.ledger import Ledger

async def main(folder):
    ledger = Ledger(f"sqlite:{folder / 'gateway.db'}", folder)
    ledger.recover()
    for number in range(3):
        await ledger.observe(used(ClientKey(name="ci"), f"written{number}", 1.0))
    for number in range(5000):  # more than one file holds
        ledger.before_end(used(ClientKey(name="ci"), f"ended{number}", 1.0))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_entries_of_a_killed_gateway_are_written_once_by_the_next(tmp_path: Path) -> None:
    """Those of a gateway that runs are its own; one that was cut while it was written is none."""
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], env={**os.environ, "PYTHONPATH": "tests"}, timeout=60
    )
    assert -signal.SIGKILL == ran.returncode
    left = sorted(tmp_path.glob("*.journal"))
    assert len(left) > 1 and {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in left}
    with left[0].open("ab") as file:
        file.write(b'\n{"id":"cut","at":1')
    address = f"sqlite:{tmp_path / 'gateway.db'}"
    running = Ledger(address, tmp_path)
    running.before_end(used(KEY, "running", 1.0))
    for expected in (5000, 0):
        ledger = Ledger(address, tmp_path)
        assert expected == ledger.recover()
        assert [5003] == [row.calls for row in await ledger.usage(())]
        await ledger.close()
    other = Ledger(f"sqlite:{tmp_path / 'other.db'}", tmp_path)
    assert 0 == other.recover()
    await other.close()
    assert 1 == len(list(tmp_path.glob("*.journal")))
    await running.observe(used(KEY, "running", 1.0))
    assert [5004] == [row.calls for row in await running.usage(())]
    await running.close()
    assert [] == list(tmp_path.glob("*.journal"))


async def test_a_journal_does_not_grow_with_what_is_in_the_database(tmp_path: Path) -> None:
    """It is emptied with each write; a file that is full is deleted when the last of its entries is written."""
    ledger = Ledger(f"sqlite:{tmp_path / 'gateway.db'}", tmp_path)
    slow = used(KEY, "slow", 1.0)
    ledger.before_end(slow)  # its client takes the end of its answer slowly
    for batch in range(30):
        for number in range(200):
            ledger.note(used(KEY, f"x{batch}-{number}", 1.0))
        await ledger.flush()
    assert 2 == len(list(tmp_path.glob("*.journal")))
    await ledger.observe(slow)
    assert [0] == [path.stat().st_size for path in tmp_path.glob("*.journal")]
    assert [6001] == [row.calls for row in await ledger.usage(())]
    await ledger.close()


async def test_without_a_journal_the_ledger_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A folder that cannot be written costs one line in the log, not the calls."""
    (tmp_path / "file").touch()
    ledger = Ledger(f"sqlite:{tmp_path / 'gateway.db'}", tmp_path / "file")
    for number in range(3):
        await ledger.observe(used(KEY, f"x{number}", 1.0))
    assert [3] == [row.calls for row in await ledger.usage(())]
    assert 1 == caplog.text.count("the journal of the ledger cannot be written")
    await ledger.close()


# --- a database in trouble -------------------------------------------------------------------------------------------


async def test_a_locked_database_is_waited_for_without_stopping_the_loop(tmp_path: Path) -> None:
    """While another program writes, other work goes on; then the entry is written."""
    ledger = at(tmp_path)
    other = sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(ledger.observe(used(KEY, "a", 1.0)))
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert not writing.done()
    other.execute("COMMIT")
    await writing
    assert [1] == [row.calls for row in await ledger.usage(())]
    other.close()
    await ledger.close()


async def test_nobody_waits_while_the_log_is_copied_under_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who reads keeps the log from being begun anew, and must not keep others from writing meanwhile."""
    monkeypatch.setattr(state, "_CHECKPOINT", 1)
    store = SqliteState(tmp_path / "gateway.db")
    await store.swap({"a": state.MISSING})
    reader = sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM gateway_state").fetchall()
    await store.swap({"b": state.MISSING})
    copying = asyncio.ensure_future(asyncio.to_thread(store._file._copy_log_now))
    async with asyncio.timeout(state.STORE_TIMEOUT - 1):
        while not copying.done():
            await store.swap({"c": state.MISSING})
            await asyncio.sleep(0.005)
    reader.close()
    await store.close()


async def test_while_the_ledger_cannot_be_written_nothing_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the entry is kept and the gate refuses; with space again, it is written and the gate opens."""
    monkeypatch.setattr(ledgers, "_RETRY", 0.01)
    ledger = at(tmp_path)
    gate = KeyGate(ClientKeys(tmp_path / "keys.json"), Accounts(MemoryState()), ledger)
    connection = ledger.database._connection  # type: ignore[attr-defined]
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    # SQLite reports its own limit as a disk does: SQLITE_FULL.
    many = [used(KEY, f"{number}-{'x' * 2000}", 1.0) for number in range(10)]
    await asyncio.gather(*(ledger.observe(one) for one in many))
    assert "free space on its disk" in str(ledger.failure)
    with pytest.raises(Overloaded) as refused:
        await gate.admit(exchange(KEY), input_tokens=1, highest_cost=0.0)
    assert 503 == refused.value.status
    connection.execute("PRAGMA max_page_count = 1000000")
    assert ledger._writer is not None
    await ledger._writer
    await gate.admit(exchange(KEY), input_tokens=1, highest_cost=0.0)
    assert [10] == [row.calls for row in await ledger.usage(())]
    await ledger.close()


async def test_a_lock_that_is_never_released_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the file and the remedy, after the time that one waits."""
    monkeypatch.setattr(state, "STORE_TIMEOUT", 0.05)
    store = SqliteState(tmp_path / "gateway.db")
    other = sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StateError, match=r"gateway\.db: database is locked; end the program"):
        await store.swap({"k": state.VersionedValue(0, b"x")})
    other.close()
    await store.close()


def test_what_is_no_database_is_a_typed_error(tmp_path: Path) -> None:
    """It is left as it is."""
    path = tmp_path / "gateway.db"
    path.write_bytes(b"not a database, but a letter" * 100)
    before = path.read_bytes()
    with pytest.raises(StateError, match="not usable as the gateway's database"):
        Ledger(f"sqlite:{path}")
    assert before == path.read_bytes()
    with pytest.raises(StateError, match="is a file, not a folder") as refused:  # it is the folder that is wrong
        Ledger(f"sqlite:{path}/folder/gateway.db")
    assert "move it away" not in str(refused.value)


@pytest.mark.parametrize("address", ["", "mysql://user:secret@host/x", "redis://user:secret@host/0", "nonsense"])
def test_an_unknown_database_is_refused_without_its_password(address: str) -> None:
    """The message may reach a log."""
    with pytest.raises(StateError) as refused:
        Ledger(address)
    assert "secret" not in str(refused.value)


# --- kill -9 ---------------------------------------------------------------------------------------------------------

WRITER = """
import asyncio, sys
from interlingua.gateway.ledger import LedgerEntry, Ledger

async def main(path, run):
    ledger = Ledger(f"sqlite:{path}")
    async def one(number):
        await ledger.append(LedgerEntry(id=f"{run}-{number}", at=0, day="2026-01-01", key="k", model="m", asked="m",
                                        wire="w", status=200, attempts=1, input=1, cost=1))
        print(number, flush=True)
    number = 0
    while True:
        await asyncio.gather(*(one(number + at) for at in range(7)))
        number += 7

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


async def test_kill_9_loses_no_acknowledged_entry_and_repeats_none(tmp_path: Path) -> None:
    """Processes are killed at random points; what they had reported as written is there, once."""
    path = tmp_path / "gateway.db"
    acknowledged: set[str] = set()
    for run in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(run)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(random.Random(run).randrange(1, 60))]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.readlines()
        process.wait()
        process.stdout.close()
        acknowledged |= {f"{run}-{int(line)}" for line in lines if line.endswith(b"\n")}
    ledger = Ledger(f"sqlite:{path}")
    found = [id for (id,) in await ledger.database.rows("SELECT id FROM gateway_ledger")]
    assert acknowledged <= set(found) and len(found) == len(set(found))
    for id in sorted(acknowledged)[:50]:  # a gateway that repeats what it is not certain of changes nothing
        await ledger.append(
            LedgerEntry(id=id, at=0, day="2026-01-01", key="k", model="m", asked="m", wire="w", status=200, attempts=1)
        )
    rows = await ledger.usage(())
    assert [(len(found), len(found))] == [(row.calls, row.input) for row in rows]
    await ledger.close()
    shutil.rmtree(tmp_path)
