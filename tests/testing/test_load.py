"""Many streams: at once, and one after the other."""

import asyncio
import gc
import os
from pathlib import Path

import aiohttp
import pytest

import interlingua as il
from interlingua.testing import Server, Stall
from testing.client import MODEL, request

resource = pytest.importorskip("resource", reason="limits of open files are a matter of POSIX")


def call(server: Server, api: str, text: str) -> tuple[str, bytes]:
    wire = il.dialect(api)
    return server.base_url(api) + wire.path(MODEL, True), wire.encode_request(request(api, text)).bytes()


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 4096, reason="needs 4096 open files (ulimit -n)")
async def test_a_thousand_streams_are_held_at_once() -> None:
    """All of them begun and none finished, then all of them whole."""
    go = asyncio.Event()

    async def one(session: aiohttp.ClientSession, url: str, body: bytes) -> bytes:
        async with session.post(url, data=body) as response:
            first = await response.content.readany()
            started.append(1)
            await go.wait()
            return first + await response.content.read()

    started: list[int] = []
    with Server() as server:
        server.answer("a thousand at once", fault=Stall(after_events=3, seconds=2))
        url, body = call(server, "openai-completions", "Hi")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            tasks = [asyncio.create_task(one(session, url, body)) for _ in range(1000)]
            while len(started) < 1000:
                await asyncio.sleep(0.05)
            assert 1000 == server.open_connections
            go.set()
            bodies = await asyncio.gather(*tasks)
    assert 1000 == sum(body.endswith(b"data: [DONE]\n\n") for body in bodies)
    assert 1000 == len(server.requests)


STATM = Path("/proc/self/statm")


def memory() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(not STATM.exists(), reason="memory is read from /proc")
async def test_ten_thousand_streams_leave_nothing_behind() -> None:
    """Memory, connections and tasks are flat from the second thousand on; the record is bounded."""
    sizes: list[int] = []
    with Server(keep=100) as server:
        url, body = call(server, "anthropic-messages", "Hi")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=4)) as session:

            async def some(count: int) -> None:
                for _ in range(count):
                    async with session.post(url, data=body) as response:
                        assert b"message_stop" in await response.read()

            for _ in range(10):
                await asyncio.gather(*(some(250) for _ in range(4)))
                gc.collect()
                sizes.append(memory())
        assert (100, 9999, []) == (len(server.requests), server.last.index, server.disconnects)
        while server.open_connections:
            await asyncio.sleep(0.01)
        assert 0 == server.open_streams
    assert sizes[-1] - sizes[1] < 8 * 1024 * 1024
