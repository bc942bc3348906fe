"""kill -9 of a gateway under load, with ledger and recording on: what was acknowledged is there, and once.

A call is acknowledged when its client has all of the answer, with status 200.
"""

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from gateway.conftest import settings_for
from interlingua.gateway import ClientKey, Gateway
from interlingua.gateway.exchange import Exchange
from interlingua.gateway.keys import ClientKeys
from interlingua.gateway.ledger import Ledger
from interlingua.sessions import Session, store_at
from interlingua.testing import Server

KILLS = int(os.environ.get("INTERLINGUA_KILLS", "4"))
CALLERS = 8
SERVE = """
import asyncio, sys
from pathlib import Path
from interlingua.gateway import Listen, Settings
from interlingua.gateway.service import Service
from interlingua.gateway.settings_file import LogSettings, RecordingSettings, ServeSettings

async def main(folder):
    settings = ServeSettings(
        gateway=Settings(listen=Listen(port=0)),
        log=LogSettings(access=f"{folder}/access.log"),
        recording=RecordingSettings(enabled=True, home=f"{folder}/home"),
    )
    async with Service(settings, Path(folder)) as service:
        print(service.gateway.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main(sys.argv[1]))
"""


async def ask(session: aiohttp.ClientSession, url: str, key: str, who: str, answered: Callable[[str], None]) -> None:
    """One caller, who asks again and again: whole answers, streams, and streams that it leaves."""
    for turn in itertools.count(1):
        stream = turn % 3 == 0
        body = {
            "model": "debug/echo",
            "max_tokens": 50,
            "stream": stream,
            "messages": [{"role": "user", "content": f"{who}, turn {turn}"}],
        }
        async with session.post(f"{url}/v1/messages", json=body, headers={"x-api-key": key}) as response:
            assert response.status == 200, await response.text()
            if not stream or turn % 2:
                await response.read()
                answered(response.headers["request-id"])
            else:
                answered("")


async def kill_under_load(folder: Path, run: int, keys: Sequence[str]) -> set[str]:
    """One gateway: started, and killed while its callers ask, after a random number of answers. Returns the calls that
    their clients know to be answered."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, str(folder), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    left, reached, known = [random.Random(run).randrange(1, 120)], asyncio.Event(), set[str]()

    def answered(id: str) -> None:
        known.add(id)
        left[0] -= 1
        if left[0] <= 0:
            process.send_signal(signal.SIGKILL)  # at once: nothing has time to be written
            reached.set()

    async with aiohttp.ClientSession() as session:
        callers = [
            asyncio.ensure_future(ask(session, url, keys[number % 2], f"run {run} caller {number}", answered))
            for number in range(CALLERS)
        ]
        try:
            async with asyncio.timeout(60):
                await reached.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()
            for one in callers:
                one.cancel()
            await asyncio.gather(*callers, return_exceptions=True)
    return known - {""}


async def ledger_ids(folder: Path, recovers: bool) -> list[str]:
    """The entries of the ledger, of which there is at most one of each exchange; the next gateway or this recovers
    those that the last one had not written."""
    for _ in range(100 if recovers else 0):
        ledger = Ledger(f"sqlite:{folder / 'gateway.db'}", folder)
        ledger.recover()
        await ledger.flush()
        await ledger.close()
        if not list(folder.glob("*.journal")):
            break
        # A recorder that the gateway was starting when it was killed has its files, and locks, until it runs.
        await asyncio.sleep(0.1)
    assert not (recovers and list(folder.glob("*.journal")))
    with closing(sqlite3.connect(folder / "gateway.db")) as database:
        assert ("ok",) == database.execute("PRAGMA integrity_check").fetchone()
        return [id for (id,) in database.execute("SELECT id FROM gateway_ledger")]


def answered(folder: Path) -> set[str]:
    """The requests in the access log that have an answer: it is written when they are with the recorder."""
    found = set()
    for line in (folder / "access.log").read_bytes().split(b"\n"):
        with contextlib.suppress(json.JSONDecodeError):  # a kill may cut a line
            record = json.loads(line)
            if record["status"] == 200 and not record.get("aborted"):
                found.add(record["id"])
    return found


def recorded(folder: Path) -> dict[str, list[str]]:
    """The entries of each session that is on disk."""
    store = store_at(None, folder / "home")
    found = {}
    for info in store.sessions("gateway"):
        with Session.open(info.id, agent="gateway", store=store, read_only=True) as session:
            found[info.id] = [entry.id or "" for entry in session.entries()]
    return found


def recorded_exchanges(folder: Path, known: dict[Path, tuple[int, set[str]]]) -> set[str]:
    """The exchanges whose answers are recorded; `known` has those of files that have not changed."""
    for path in (folder / "home").rglob("*.jsonl"):
        size = path.stat().st_size
        if known.get(path, (0, None))[0] != size:
            lines = path.read_bytes().split(b"\n")[:-1]  # what is cut has no end
            extras = [json.loads(line).get("entryExtra", {}) for line in lines]
            known[path] = (size, {extra["interlingua"]["gateway"]["exchange"] for extra in extras if extra})
    return set().union(*(ids for _, ids in known.values()))


async def drained(folder: Path, known: dict[Path, tuple[int, set[str]]]) -> set[str]:
    """What is not recorded of what was answered, after the recorder of a killed gateway had time to write it."""
    for _ in range(300):
        missing = answered(folder) - recorded_exchanges(folder, known)
        if not missing and not list((folder / "home").rglob("*.lock")):
            break
        await asyncio.sleep(0.1)
    return missing


class Seen:
    """Reads what the client has received when the gateway says that the end of a response follows."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self.before: list[bytes] = []
        self.tokens = 0

    def before_end(self, exchange: Exchange) -> None:
        self.tokens = exchange.usage.output if exchange.usage is not None else 0
        with contextlib.suppress(BlockingIOError):
            self.before.append(b"")
            self.before[-1] = self._client.recv(1 << 20)

    async def observe(self, exchange: Exchange) -> None: ...


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["anthropic-messages", "openai-completions", "debug/echo"])
async def test_the_end_of_an_answer_follows_its_entry(model: str, stream: bool) -> None:
    """
    An observer knows the usage before the client has the end: on the same wire, on another one, of a local model.
    """
    body = {"model": model, "max_tokens": 50, "stream": stream, "messages": [{"role": "user", "content": "Hi there"}]}
    data = json.dumps(body).encode()
    loop = asyncio.get_running_loop()
    with Server(strict=True) as upstream, socket.socket() as client:
        client.setblocking(False)
        seen = Seen(client)
        async with Gateway(settings_for(upstream), observers=[seen]) as gateway, asyncio.timeout(30):
            host = gateway.url.removeprefix("http://")
            head = f"POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(data)}\r\n\r\n"
            await loop.sock_connect(client, ("127.0.0.1", int(host.rpartition(":")[2])))
            await loop.sock_sendall(client, head.encode() + data)
            while not seen.before:
                await asyncio.sleep(0.01)
            (before,) = seen.before
            after = await loop.sock_recv(client, 1 << 20)
    end = b"message_stop" if stream else b'"type":"message"'
    assert seen.tokens > 0
    assert end not in before.replace(b" ", b"") and end in after.replace(b" ", b"")


async def test_kill_9_under_load_loses_no_acknowledged_entry_and_counts_none_twice(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """
    Gateways are killed at random moments while clients stream and leave; ledger and records are whole each time.
    """
    lost, doubled, before, acknowledged = 0, 0, dict[str, list[str]](), set[str]()
    known: dict[Path, tuple[int, set[str]]] = {}
    limited = ClientKey(name="limited", requests_per_minute=10**9, concurrency=10**6)
    keys = [ClientKeys(tmp_path / "keys.json").add(key) for key in (limited, ClientKey(name="free"))]
    for run in range(KILLS):
        acknowledged |= await kill_under_load(tmp_path, run, keys)
        is_recovered = run % 2 == 1 or run == KILLS - 1  # else by the next gateway
        ids = await ledger_ids(tmp_path, is_recovered)
        lost += len(acknowledged - set(ids)) if is_recovered else 0
        doubled += len(ids) - len(set(ids))
        lost += len(await drained(tmp_path, known))
        now = recorded(tmp_path)
        for id, entries in before.items():
            lost += len(set(entries) - set(now.get(id, ())))
        doubled += sum(len(entries) - len(set(entries)) for entries in now.values())
        before = now
    for name, value in (
        ("kills", KILLS),
        ("acknowledged", len(acknowledged) + sum(map(len, before.values()))),
        ("lost", lost),
        ("doubled", doubled),
    ):
        record_property(name, value)
    assert (0, 0) == (lost, doubled)
    assert before and acknowledged
