"""The listener of gateway and canvas: what it accepted before it stops is answered or closed, never left open."""

import asyncio
import gc
import socket

import pytest
from aiohttp import web

from interlingua.gateway import Gateway, Listen, Settings
from interlingua.serving.listener import Listener


def connect(port: int, sent: bytes = b"") -> socket.socket:
    """A client whose connection is in the server's queue: the system takes it, the event loop has not seen it."""
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    client.sendall(sent)
    return client


def received(client: socket.socket) -> bytes:
    """All that comes until the connection ends, in whatever way."""
    with client:
        try:
            return b"".join(iter(lambda: client.recv(4096), b""))
        except ConnectionError:
            return b""


@pytest.mark.parametrize("steps", range(6))
async def test_a_connection_that_is_accepted_while_it_stops_is_closed(steps: int) -> None:
    """At whichever step of the event loop the stop comes: between accepting and the first byte, too."""
    listener = Listener(web.Application())
    await listener.start()
    client = connect(listener.port)
    for _ in range(steps):
        await asyncio.sleep(0)
    await listener.stop()
    assert b"" == received(client)
    gc.collect()  # a socket that nobody closed is a warning, which fails the test


@pytest.mark.parametrize("steps", range(2, 6))
async def test_a_request_that_was_accepted_before_a_drain_is_answered(steps: int) -> None:
    """The gateway takes no new connection; the one that it has gets its response."""
    async with Gateway(Settings(listen=Listen(port=0))) as gateway:
        host = gateway.url.removeprefix("http://")
        request = f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        client = connect(int(host.partition(":")[2]), request.encode())
        for _ in range(steps):
            await asyncio.sleep(0)
        await gateway.drain(5)
        await gateway.stop()
    assert received(client).startswith(b"HTTP/1.1 200 ")
    gc.collect()
