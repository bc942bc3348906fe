"""A provider that thinks of nothing: replays ready-made answers over HTTP, so that its work is not measured.

The path of a request begins with what it wants: `/<wire>/<case>/…` for an answer in one go, `/<wire>/<case>.slowly/…`
for one event at a time. Each event is an HTTP chunk of its own, as providers send them.
"""

import asyncio
import functools
import sys
from typing import cast

from conversation import chunks

PAUSE = 0.001  # seconds between two events that come slowly: long enough that a reader wakes up for each
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
KINDS = {"ollama": b"application/x-ndjson"}


@functools.cache
def answer(wire: str, case: str) -> list[bytes]:
    events = [b"%x\r\n%s\r\n" % (len(event), event) for event in chunks(wire, case)]
    head = HEAD % KINDS.get(wire, b"text/event-stream; charset=utf-8")
    return [head, *events, b"0\r\n\r\n"]


@functools.cache
def in_one(wire: str, case: str) -> bytes:
    return b"".join(answer(wire, case))


class Replay(asyncio.Protocol):
    """One connection: answers each request once it is whole."""

    def __init__(self) -> None:
        self._received = b""
        self._slow: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, ended, body = self._received.partition(b"\r\n\r\n")
        if not ended or len(body) < _length(head):
            return
        self._received = b""
        _, wire, case, *_ = head.split(b" ", 2)[1].decode().split("/")
        if case.endswith(".slowly"):
            task = asyncio.create_task(self._slowly(answer(wire, case.removesuffix(".slowly"))))
            self._slow.add(task)
            task.add_done_callback(self._slow.discard)
        else:
            self._transport.write(in_one(wire, case))

    async def _slowly(self, events: list[bytes]) -> None:
        for event in events:
            self._transport.write(event)
            await asyncio.sleep(PAUSE)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Replay, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the one who asked for it goes away


if __name__ == "__main__":
    asyncio.run(main())
