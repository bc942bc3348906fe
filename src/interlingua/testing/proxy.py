"""A forward proxy for tests: tunnels with CONNECT, plain HTTP with absolute URLs; and a record of the traffic."""

import asyncio
import base64
import contextlib
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..values.errors import InterlinguaError
from .threads import ThreadedServer

_LONGEST_HEAD = 64 * 1024
_PIECE = 64 * 1024


@dataclass
class Passed:
    """One request through the proxy. For a tunnel, `target` is `host:port` and its traffic is only counted."""

    method: str
    target: str
    headers: dict[str, str] = field(repr=False)
    status: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


class _Head(NamedTuple):
    method: str
    target: str
    version: str
    headers: dict[str, str]
    lines: list[bytes]


class ProxyServer(ThreadedServer):
    """`with ProxyServer() as proxy:` and pass `proxy.url` to the client. With `auth`, it requires this user and
    password.

    Each plain HTTP request gets its own connection, so that every one is recorded.
    """

    def __init__(self, *, auth: tuple[str, str] | None = None, keep: int = 1000) -> None:
        super().__init__("interlingua-test-proxy")
        self._auth = auth
        self._server: asyncio.Server | None = None
        self._port = 0
        self._lock = threading.Lock()
        self._serving: set[asyncio.Task[Any]] = set()
        self._passed: deque[Passed] = deque(maxlen=keep)

    @property
    def url(self) -> str:
        """Its URL, without the credentials that it requires."""
        if self._port == 0:
            raise InterlinguaError("the proxy has not started; use `with ProxyServer() as proxy:`")
        return f"http://127.0.0.1:{self._port}"

    @property
    def passed(self) -> list[Passed]:
        """The last `keep` requests, oldest first, refused ones included."""
        with self._lock:
            return list(self._passed)

    def clear(self) -> None:
        with self._lock:
            self._passed.clear()

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LONGEST_HEAD)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        """Closes every connection, and waits until it is really closed."""
        if self._server is not None:
            self._server.close()
        serving = [*self._serving]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await asyncio.sleep(0)  # a closed transport is gone one iteration of the loop later

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            head = _parsed(await reader.readuntil(b"\r\n\r\n"))
            await self._pass(head, reader, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a peer disconnected, or never spoke HTTP: the traffic is recorded
        finally:
            await _closed(writer)

    async def _pass(self, head: _Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = Passed(head.method, head.target, head.headers)
        with self._lock:
            self._passed.append(passed)
        if not self._admits(head):
            return await _refuse(
                passed, writer, 407, 'Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="t"'
            )
        host, port, opening = _upstream(head)
        try:
            up_reader, up_writer = await asyncio.open_connection(host, port)
        except OSError:
            return await _refuse(passed, writer, 502, "Bad Gateway")
        try:
            passed.status = 200
            if opening:
                up_writer.write(opening)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both(_pump(reader, up_writer, passed, "bytes_up"), _pump(up_reader, writer, passed, "bytes_down"))
        finally:
            await _closed(up_writer)

    def _admits(self, head: _Head) -> bool:
        if self._auth is None:
            return True
        text = "Basic " + base64.b64encode(":".join(self._auth).encode()).decode()
        return head.headers.get("proxy-authorization") == text


def _parsed(data: bytes) -> _Head:
    first, *lines = data.rstrip(b"\r\n").split(b"\r\n")
    method, target, version = first.decode("latin-1").split(" ")
    pairs = (line.decode("latin-1").partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return _Head(method, target, version, headers, lines)


_HOP = (b"proxy-", b"connection:", b"keep-alive:")


def _upstream(head: _Head) -> tuple[str, int, bytes]:
    """Returns host, port and the bytes to send first; none for a tunnel."""
    if head.method == "CONNECT":
        host, _, port = head.target.rpartition(":")
        return host.strip("[]"), int(port), b""
    address = urlsplit(head.target)
    path = (address.path or "/") + (f"?{address.query}" if address.query else "")
    lines = [line for line in head.lines if not line.lower().startswith(_HOP)]
    first = f"{head.method} {path} {head.version}".encode("latin-1")
    opening = b"\r\n".join([first, *lines, b"Connection: close", b"", b""])
    return address.hostname or "", address.port or 80, opening


async def _refuse(passed: Passed, writer: asyncio.StreamWriter, status: int, text: str) -> None:
    passed.status = status
    writer.write(f"HTTP/1.1 {status} {text}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()


async def _both(up: Any, down: Any) -> None:
    """Runs until the upstream has sent everything, or either side has disconnected."""
    tasks = [asyncio.create_task(up), asyncio.create_task(down)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passed: Passed, counter: str) -> None:
    while data := await reader.read(_PIECE):
        setattr(passed, counter, getattr(passed, counter) + len(data))
        writer.write(data)
        await writer.drain()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
