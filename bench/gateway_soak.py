"""A million requests through one gateway: is its memory flat, is anything left open, is every one in the ledger?

python bench/gateway_soak.py [--requests 1000000] [--callers 32]

The gateway runs in a process of its own with keys, limits and ledger, in front of the upstream of `gateway_servers.py`.
Of 20 requests 12 are plain on the same wire, 4 plain and translated, 2 streams of 100 events, 1 a stream that the
client leaves, 1 refused. It takes about 20 minutes on two cores. The exit code is 1 where memory grew or a request is
missing.
"""

import argparse
import asyncio
import sys
import time
from typing import Any

from gateway import ASK, CHAT, MESSAGES, Caller, Server, request_of, servers
from gateway_servers import HELD

GROWTH = 10.0  # megabytes after the first tenth that are still flat
PARTS = 10


class Refused(Caller):
    """A caller whose requests are refused: any status is an answer."""

    def data_received(self, data: bytes) -> None:
        self._received += data
        if b"\r\n\r\n" in self._received and self._done is not None and not self._done.done():
            self._done.set_result(None)


class Soak:
    """Callers that share one counter of requests."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.done = 0
        self.charged = 0
        stream = {**ASK, "stream": True}
        stalled = {**stream, "messages": [{"role": "user", "content": HELD}]}
        self._plain = request_of(MESSAGES, server.key, ASK)
        self._translated = request_of(CHAT, server.key, ASK)
        self._stream = request_of(CHAT, server.key, stream)
        self._stalled = request_of(MESSAGES, server.key, stalled)
        self._refused = request_of(MESSAGES, server.key, {**ASK, "model": "nothing"})

    async def connected(self, request: bytes, kind: type[Caller] = Caller) -> Any:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(lambda: kind(request), "127.0.0.1", self._server.port))[1]

    async def until(self, limit: int, number: int) -> None:
        """One caller: asks in turn until so many have been asked by all."""
        plain, translated, stream = [
            await self.connected(request) for request in (self._plain, self._translated, self._stream)
        ]
        refused = await self.connected(self._refused, Refused)
        turns = [*[plain] * 12, *[translated] * 4, *[stream] * 2, refused, None]
        turns = turns[number % 20 :] + turns[: number % 20]  # not all at once
        at = 0
        while self.done < limit:
            self.done += 1
            caller = turns[at % 20]
            at += 1
            self.charged += caller is not refused
            if caller is None:
                await self._leave()
            else:
                await caller.ask()
        for caller in (plain, translated, stream, refused):
            caller.transport.close()

    async def _leave(self) -> None:
        caller = await self.connected(self._stalled)
        caller.transport.write(self._stalled)
        while not caller.first:
            await asyncio.sleep(0.002)
        caller.transport.abort()


async def soak(requests: int, callers: int) -> bool:
    with servers() as running:
        server = await running.get("gateway")
        run = Soak(server)
        begun, sizes, limit = time.monotonic(), [], 0
        print(f"{requests} requests by {callers} callers")
        for part in range(1, PARTS + 1):
            limit = requests * part // PARTS
            await asyncio.gather(*(run.until(limit, number) for number in range(callers)))
            sizes.append(server.memory())
            rate = run.done / (time.monotonic() - begun)
            print(f"  {run.done:>9} {sizes[-1]:8.1f} MB {rate:7.0f} a second", flush=True)
        entries = await _in_the_ledger(server, run.charged)
        growth = sizes[-1] - sizes[0]
        print(f"growth after the first tenth: {growth:+.1f} MB; in the ledger: {entries} of {run.charged}")
        return growth < GROWTH and entries == run.charged


async def _in_the_ledger(server: Server, expected: int) -> int:
    """What the gateway's own numbers say that it charged, once all is written."""
    counted = -1
    for _ in range(100):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % server.port)
        text = (await reader.read()).decode()
        writer.close()
        name = "interlingua_gateway_attempts_total{"
        counted = sum(int(float(line.rpartition(" ")[2])) for line in text.splitlines() if line.startswith(name))
        if counted >= expected:
            break
        await asyncio.sleep(0.1)
    return counted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--callers", type=int, default=32)
    given = parser.parse_args()
    return 0 if asyncio.run(soak(given.requests, given.callers)) else 1


if __name__ == "__main__":
    sys.exit(main())
