"""Many streams, one after the other and at once, read, left and broken: nothing stays. `bench/soak.py` is longer."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from connect.talking import QUICK, ask, until
from interlingua.connect.client import Client
from interlingua.connect.transport import HttpTransport
from interlingua.testing import Cut, Server, Stall, Status
from interlingua.values.events import TextDelta

PROC = Path("/proc/self")
needs_proc = pytest.mark.skipif(not PROC.exists(), reason="memory and open files are read from /proc")


def memory() -> int:
    gc.collect()
    return int((PROC / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def open_files() -> int:
    return len(list((PROC / "fd").iterdir()))


def _alive(*kinds: str) -> Counter[str]:
    """How many values of these types there are."""
    gc.collect()
    return Counter(name for one in gc.get_objects() if (name := type(one).__name__) in kinds)


async def _whole(server: Server, client: Client, **how: Any) -> None:
    assert (await ask(server, client=client, **how).result()).text


async def _left(server: Server, client: Client, **how: Any) -> None:
    async for event in ask(server, client=client, **how):
        if isinstance(event, TextDelta):
            break


async def _aborted(server: Server, client: Client, **how: Any) -> None:
    signal = il.Abort()
    async for event in ask(server, client=client, signal=signal, **how):
        if isinstance(event, TextDelta):
            signal.abort()


async def _failed(server: Server, client: Client, **how: Any) -> None:
    await ask(server, "fail", client=client, **how).result()


def _reply(request: il.Request) -> Any:
    (message,) = request.context.messages
    return il.BadRequest("as you wish", status=400) if message.content == "fail" else "one two three four five six"


@needs_proc
async def test_case_118_a_thousand_streams_leave_nothing_behind() -> None:
    """Read, left, aborted and failed: memory is flat, and no task, thread, connection or file stays."""
    ways = (_whole, _whole, _left, _aborted, _failed)
    transport = HttpTransport()
    client = Client(transport=transport)
    signal = il.Abort()  # one that lives as long as the program
    before = _alive("ClientResponse", "Exchange", "Stream", "Watch")
    sizes = []
    with Server(keep=10, chunk=4) as server:
        server.answer(_reply)

        async def rounds(count: int) -> None:
            for _ in range(count):
                how: list[dict[str, Any]] = [{"signal": signal} if way is _whole else {} for way in ways]
                await asyncio.gather(*(way(server, client, **one) for way, one in zip(ways, how, strict=True)))

        await rounds(20)
        tasks, threads, files = len(asyncio.all_tasks()), threading.active_count(), open_files()
        for _ in range(4):
            await rounds(50)
            sizes.append(memory())
        await until(lambda: server.open_streams == 0)
        assert tasks == len(asyncio.all_tasks())
        assert threads == threading.active_count()
        assert files + 10 >= open_files()
        assert 10 >= server.open_connections
        assert {} == signal._callbacks
        assert sizes[-1] - sizes[0] < 3_000_000
        assert Counter() == _alive("ClientResponse", "Exchange", "Stream", "Watch") - before
        await transport.aclose()
        await until(lambda: server.open_connections == 0)


@needs_proc
async def test_two_hundred_streams_are_held_at_once() -> None:
    """All begun, none finished; then all left, and every upstream is closed."""
    transport = HttpTransport()
    client = Client(transport=transport)
    files = open_files()
    with Server(chunk=4) as server:
        server.say("Once upon a time", fault=Stall(after_events=4))
        streams = [ask(server, client=client) for _ in range(200)]
        reading = [asyncio.create_task(stream.result()) for stream in streams]
        await until(lambda: all(stream.partial.text for stream in streams), 60)
        assert 200 == server.open_streams == server.open_connections
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        await until(lambda: server.open_streams == 0, 20)
        assert 200 == len(server.disconnects)
        assert ["aborted"] * 200 == [stream.message.stop_reason for stream in streams if stream.message]
        await transport.aclose()
    assert files + 5 >= open_files()


async def test_case_119_failing_calls_leave_no_task_behind() -> None:
    """Retries, fallbacks and broken connections, a hundred times: no task is left, no generator open."""
    client = Client(retry=QUICK)
    with Server(keep=10, chunk=4) as server:
        for _ in range(100):
            server.clear()
            server.say("Once upon a time", fault=[Cut(after_events=2, times=1), Status(503, times=2)])
            assert "Once upon a time" == (await ask(server, client=client, retry=QUICK).result()).text
        gc.collect()
        await asyncio.sleep(0.05)
        assert {asyncio.current_task()} == asyncio.all_tasks()


async def test_case_121_the_catalogue_is_not_loaded_on_the_event_loop(tmp_path: Path, monkeypatch: Any) -> None:
    """The price list is read beside the loop: while it loads, the loop goes on."""
    from interlingua.connect import models as catalogue

    loaded_in: list[threading.Thread] = []
    load = catalogue.default

    def noted() -> Any:
        loaded_in.append(threading.current_thread())
        return load()

    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    monkeypatch.setattr(catalogue, "default", noted)
    with Server() as server:
        await ask(server).result()
    assert loaded_in
    assert loaded_in[0] is not threading.main_thread()


LARGE = """
import asyncio, sys
import interlingua as il

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024

async def ask(content):
    model = il.ModelDescriptor(id="m", api="openai-completions", provider="mine", base_url=sys.argv[1])
    await il.complete(model, [il.UserMessage(content=content)])

async def main():
    await ask("small")
    data = "QUJD" * (4 * 1024 * 1024)
    before = peak()
    await ask((il.ImageBlock(data=data, mime_type="image/png"),))
    print((peak() - before) / len(data))

asyncio.run(main())
"""


@needs_proc
def test_case_120_a_large_picture_is_not_copied_over_and_over() -> None:
    """Sixteen megabytes of base64: the process grows by the body that is sent and little more."""
    with Server(keep=1) as server:
        server.say("Seen")
        command = [sys.executable, "-c", LARGE, server.base_url("openai-completions")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "" == done.stderr
    assert float(done.stdout) < 4
