"""How soon an upstream is closed when a client of the gateway leaves: while it waits, streams, retries, falls back.

python bench/aborts.py [--times 200]

The gateway with keys, limits and ledger runs in one process, the upstream in another. By the clock that all processes
share: from the client's close to the moment at which the upstream sees it, and until the use is in the ledger.
"""

import argparse
import asyncio
import json
import multiprocessing
import multiprocessing.connection
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import interlingua as il
from interlingua.gateway import Alias, ClientKey, Listen, ProviderSettings, Settings, Target
from interlingua.gateway.service import Service
from interlingua.gateway.settings_file import ServeSettings
from interlingua.testing import Server, faults

TEXT = "Once upon a time there was an answer that nobody read to its end. " * 3
WITHIN = 0.1  # seconds
LONG = 60.0
CASES = {
    "before the headers": faults.SlowHeaders(seconds=LONG),
    "within a stream": faults.Stall(after_events=4),
    "at a fallback": faults.SlowHeaders(seconds=LONG),
    "between two tries": faults.RateLimit(retry_after=8, times=None),
}


def serve(pipe: "multiprocessing.connection.Connection") -> None:
    """The upstream's process: one server fails at once, the other does what it is told and says what it saw."""
    with Server(keep=5000) as server, Server(keep=5000) as busy:
        busy.answer(il.Overloaded("busy", status=529))
        pipe.send((server.base_url("anthropic-messages"), busy.base_url("openai-completions")))
        while (order := pipe.recv()) is not None:
            if order in CASES:
                server.clear()
                server.say(TEXT, fault=CASES[order])
            pipe.send((len(server.requests), [one.time for one in server.disconnects]))


def settings(address: str, busy: str) -> Settings:
    return Settings(
        listen=Listen(port=0),
        providers=(
            ProviderSettings(id="one", api="anthropic-messages", base_url=address, api_keys=("k",)),
            ProviderSettings(id="busy", api="openai-completions", base_url=busy, api_keys=("k",)),
        ),
        aliases=(
            Alias(name="plain", targets=(Target(model="one/m"),), retries=3),
            Alias(name="chain", targets=(Target(model="busy/m"),), fallbacks=(Target(model="one/m"),), retries=0),
        ),
    )


class Bench:
    """One gateway, one upstream, one case at a time."""

    def __init__(self, pipe: "multiprocessing.connection.Connection", service: Service, key: str) -> None:
        self._pipe, self._service, self._key = pipe, service, key
        self.closed: list[float] = []
        self.booked: list[float] = []

    def order(self, what: str) -> tuple[int, list[float]]:
        self._pipe.send(what)
        seen: tuple[int, list[float]] = self._pipe.recv()
        return seen

    async def leave(self, case: str, calls: int) -> None:
        """Asks, waits until the upstream is where the case wants it, leaves, and measures."""
        self.order(case)
        url = self._service.gateway.url.removeprefix("http://")
        host, _, port = url.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps(
            {
                "model": "chain" if case == "at a fallback" else "plain",
                "max_tokens": 100,
                "stream": True,
                "messages": [{"role": "user", "content": "Hi"}],
            }
        ).encode()
        head = f"POST /v1/messages HTTP/1.1\r\nHost: {url}\r\nx-api-key: {self._key}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        if case == "within a stream":
            await reader.readuntil(b"text_delta")
        while not self.order("look")[0]:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.02)  # the answer of the upstream has arrived
        left = time.monotonic()
        writer.transport.abort()
        if case != "between two tries":  # there nothing of the upstream is open
            seen: list[float] = []
            while not seen:
                await asyncio.sleep(0.001)
                seen = self.order("look")[1]
            self.closed.append(seen[0] - left)
        while True:
            (row,) = await self._service.ledger.usage(()) or [None]
            if row is not None and row.calls >= calls:
                assert row.aborted == calls, row
                break
            await asyncio.sleep(0.001)
        self.booked.append(time.monotonic() - left)


def spread(seconds: list[float]) -> str:
    if not seconds:
        return f"{'-':>10}{'-':>10}{'-':>10}{'-':>8}"
    ordered = sorted(seconds)
    late = sum(one > WITHIN for one in ordered)
    figures = (statistics.median(ordered), ordered[int(len(ordered) * 0.99)], ordered[-1])
    return "".join(f"{figure * 1e3:>8.1f}ms" for figure in figures) + f"{late:>8}"


async def measure(pipe: "multiprocessing.connection.Connection", times: int) -> None:
    address, busy = pipe.recv()
    print(f"client gone, until … ({times} times each)   p50       p99       max    later than {WITHIN * 1e3:.0f} ms")
    with tempfile.TemporaryDirectory() as folder:
        async with Service(ServeSettings(gateway=settings(address, busy)), Path(folder)) as service:
            key = service.keys.add(ClientKey(name="bench", concurrency=50, tokens_per_minute=10**9))
            done = 0
            for case in CASES:
                bench: Any = Bench(pipe, service, key)
                for _ in range(times):
                    done += 1
                    await bench.leave(case, done)
                print(f"{case:20} upstream closed {spread(bench.closed)}")
                print(f"{'':20} in the ledger   {spread(bench.booked)}", flush=True)
            assert service.gateway.open_exchanges == 0
    pipe.send(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    given = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    upstream = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    upstream.start()
    asyncio.run(measure(ours, given.times))
    upstream.join(10)


if __name__ == "__main__":
    main()
