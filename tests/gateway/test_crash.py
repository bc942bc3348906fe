"""kill -9 of a gateway under load, with ledger and recording on: what was acknowledged is there, and once."""

import asyncio
import itertools
import json
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp

from interlingua.gateway import ClientKey
from interlingua.gateway.keys import ClientKeys
from interlingua.sessions import Session, store_at

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


async def ask(session: aiohttp.ClientSession, url: str, key: str, who: str, answered: Callable[[], None]) -> None:
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
            if not stream or turn % 2:
                await response.read()
        answered()


async def kill_under_load(folder: Path, run: int, key: str) -> None:
    """One gateway: started, and killed while its callers ask, after a random number of answers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, str(folder), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    left, reached = [random.Random(run).randrange(1, 120)], asyncio.Event()

    def answered() -> None:
        left[0] -= 1
        if left[0] <= 0:
            reached.set()

    async with aiohttp.ClientSession() as session:
        callers = [
            asyncio.ensure_future(ask(session, url, key, f"run {run} caller {number}", answered))
            for number in range(CALLERS)
        ]
        try:
            async with asyncio.timeout(60):
                await reached.wait()
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()
            for one in callers:
                one.cancel()
            await asyncio.gather(*callers, return_exceptions=True)


def acknowledged(folder: Path) -> set[str]:
    """The requests whose line is in the access log: it is written after the ledger."""
    lines = (folder / "access.log").read_bytes().split(b"\n")[:-1]  # what is cut has no end
    records = [json.loads(line) for line in lines]
    return {record["id"] for record in records if record["attempts"]}


def answered(folder: Path) -> set[str]:
    """The requests in the access log that have an answer: it is written when they are with the recorder."""
    lines = (folder / "access.log").read_bytes().split(b"\n")[:-1]
    return {record["id"] for record in map(json.loads, lines) if record["status"] == 200 and not record.get("aborted")}


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


async def test_kill_9_under_load_loses_no_acknowledged_entry_and_counts_none_twice(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """
    Gateways are killed at random moments while clients stream and leave; ledger and records are whole each time.
    """
    lost, doubled, before = 0, 0, dict[str, list[str]]()
    known: dict[Path, tuple[int, set[str]]] = {}
    limited = ClientKey(name="crash", requests_per_minute=10**9, concurrency=10**6)
    key = ClientKeys(tmp_path / "keys.json").add(limited)
    for run in range(KILLS):
        await kill_under_load(tmp_path, run, key)
        with sqlite3.connect(tmp_path / "gateway.db") as database:
            rows = database.execute("SELECT id, day FROM gateway_ledger").fetchall()
            (whole,) = database.execute("PRAGMA integrity_check").fetchone()
        assert whole == "ok"
        ids = [id for id, _ in rows]
        lost += len(acknowledged(tmp_path) - set(ids))
        doubled += len(ids) - len(set(ids))
        lost += len(await drained(tmp_path, known))
        now = recorded(tmp_path)
        for id, entries in before.items():
            lost += len(set(entries) - set(now.get(id, ())))
        doubled += sum(len(entries) - len(set(entries)) for entries in now.values())
        before = now
    for name, value in (
        ("kills", KILLS),
        ("acknowledged", len(acknowledged(tmp_path)) + sum(map(len, before.values()))),
        ("lost", lost),
        ("doubled", doubled),
    ):
        record_property(name, value)
    assert (0, 0) == (lost, doubled)
    assert before and acknowledged(tmp_path)
