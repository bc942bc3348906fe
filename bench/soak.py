"""Many streams in one process against a server in another: is memory flat, is anything left, how soon is leaving seen?

python bench/soak.py [--streams 10000] [--at-once 1000] [--leave 500]
"""

import argparse
import asyncio
import gc
import multiprocessing
import multiprocessing.connection
import os
import resource
import statistics
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import interlingua as il
from interlingua.connect.client import Client
from interlingua.connect.stream import Stream
from interlingua.connect.transport import HttpTransport
from interlingua.testing import Server, Stall
from interlingua.values.events import TextDelta

API = "anthropic-messages"
ANSWER = "Once upon a time there was a stream that was read to its end. " * 4
CLOSED_WITHIN = 0.1  # seconds after leaving until the server sees it


class Seen(NamedTuple):
    """What the server has open, and when clients left it, by the clock that all processes share."""

    connections: int
    streams: int
    gone: list[float]


def serve(pipe: "multiprocessing.connection.Connection") -> None:
    """The server's process: does what it is told, and tells what it saw."""
    _allow_many_files()
    with Server(keep=2000, chunk=16) as server:
        pipe.send(server.base_url(API))
        while (order := pipe.recv()) != "end":
            if order == "whole":
                server.clear()
                server.say(ANSWER)
            elif order == "hang":
                server.clear()
                server.say(ANSWER, fault=Stall(after_events=4))
            gone = [one.time for one in server.disconnects]
            pipe.send(Seen(server.open_connections, server.open_streams, gone))


def _allow_many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def memory() -> float:
    """Megabytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


class Soak:
    """One client, one server, and the way between them."""

    def __init__(self, pipe: "multiprocessing.connection.Connection") -> None:
        self._pipe = pipe
        self._url = pipe.recv()
        self._transport = HttpTransport()
        self._client = Client(transport=self._transport)

    def order(self, what: str) -> Seen:
        self._pipe.send(what)
        seen: Seen = self._pipe.recv()
        return seen

    def ask(self, **how: Any) -> Stream:
        return self._client.stream("anthropic/m", "Hi", api_key="key-of-nobody", base_url=self._url, retry=0, **how)

    async def until(self, what: str, seconds: float = 30) -> None:
        """Until the server has no stream, or no connection, open."""
        async with asyncio.timeout(seconds):
            while getattr(self.order("look"), what):
                await asyncio.sleep(0.01)

    async def one_after_another(self, count: int) -> None:
        """Twenty at a time, read, left and aborted in turn."""
        self.order("whole")
        ways = (self._read, self._read, self._read, self._leave, self._abort)
        await asyncio.gather(*(ways[number % 5]() for number in range(100)))
        print(f"{count} streams, 20 at a time (3 of 5 read, 1 left, 1 aborted):")
        tasks, threads, begun = len(asyncio.all_tasks()), threading.active_count(), time.perf_counter()
        sizes = [memory()]
        for part in range(10):
            for _ in range(count // 200):
                await asyncio.gather(*(ways[number % 5]() for number in range(20)))
            sizes.append(memory())
            print(f"  {(part + 1) * count // 10:>7} {sizes[-1]:8.1f} MB")
        seconds = time.perf_counter() - begun
        await self.until("streams")
        print(f"  growth after the first tenth: {sizes[-1] - sizes[1]:+.1f} MB; {count / seconds:.0f} streams a second")
        print(f"  left: {len(asyncio.all_tasks()) - tasks} tasks, {threading.active_count() - threads} threads")

    async def _read(self) -> None:
        assert ANSWER == (await self.ask().result()).text

    async def _leave(self) -> None:
        async for event in self.ask():
            if isinstance(event, TextDelta):
                break

    async def _abort(self) -> None:
        signal = il.Abort()
        async for event in self.ask(signal=signal):
            if isinstance(event, TextDelta):
                signal.abort()

    async def at_once(self, count: int) -> None:
        """So many held open, then all left."""
        self.order("hang")
        before = memory()
        streams = [self.ask() for _ in range(count)]
        begun = time.perf_counter()
        reading = [asyncio.create_task(stream.result()) for stream in streams]
        while not all(stream.partial.text for stream in streams):
            await asyncio.sleep(0.05)
        seen = self.order("look")
        print(f"{count} streams at once: {seen.streams} held over {seen.connections} connections", end="")
        print(f" after {time.perf_counter() - begun:.1f} s, {(memory() - before) * 1e3 / count:.0f} kB each")
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        await self.until("streams")
        print(f"  all left: {len(self.order('look').gone)} disconnects seen")

    async def leaving(self, count: int) -> None:
        """How long after the reader left the server sees it, one at a time."""
        delays = []
        for _ in range(count):
            self.order("hang")
            async for event in self.ask():
                if isinstance(event, TextDelta):
                    break
            left = time.monotonic()
            seen: list[float] = []
            while not seen:
                await asyncio.sleep(0.001)
                seen = self.order("look").gone
            delays.append(seen[0] - left)
        delays.sort()
        late = sum(delay > CLOSED_WITHIN for delay in delays)
        print(f"leaving, until the server sees it ({count} times):", end=" ")
        print(f"p50 {statistics.median(delays) * 1e3:.1f} ms, p99 {delays[int(count * 0.99)] * 1e3:.1f} ms,", end=" ")
        print(f"max {delays[-1] * 1e3:.1f} ms; {late} later than {CLOSED_WITHIN * 1e3:.0f} ms")

    async def close(self) -> None:
        await self._transport.aclose()
        await self.until("connections")
        print(f"after closing the client: {self.order('look').connections} connections")
        self._pipe.send("end")


async def soak(pipe: "multiprocessing.connection.Connection", streams: int, at_once: int, leave: int) -> None:
    run = Soak(pipe)
    await run.one_after_another(streams)
    await run.at_once(at_once)
    await run.leaving(leave)
    await run.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=1_000)
    parser.add_argument("--leave", type=int, default=500)
    given = parser.parse_args()
    _allow_many_files()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    asyncio.run(soak(ours, given.streams, given.at_once, given.leave))
    server.join(10)


if __name__ == "__main__":
    main()
