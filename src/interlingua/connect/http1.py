"""A minimal HTTP/1.1 client, without the per-request overhead and import time of a general one.

One call at a time per connection, which is kept alive for the next one (RFC 9112). Redirects, cookies, proxies and
compression are not supported: `HttpTransport` decides which calls may use it. Responses are parsed strictly: an
ambiguous length, or unexpected bytes, close the connection.
"""

import asyncio
import contextlib
import re
import select
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from aiohappyeyeballs import start_connection
from multidict import CIMultiDict

from ..values.errors import FormatError, NoConnection, TimedOut, TransportError

if TYPE_CHECKING:
    from yarl import URL

KEEP_ALIVE = 30.0  # seconds that an unused connection stays open
_LARGEST_HEAD = 256 * 1024
_LARGEST_BUFFER = 256 * 1024  # unread bytes of a response
_LONGEST_LINE = 4096  # of a chunk's length with its extensions
_REMEMBERED = 512  # heads of requests
# Bytes that are read at a time: few at first, so that the first event does not wait for the rest of a burst; more once
# the buffer was filled.
_FIRST_READ, _LARGEST_READ = 4096, 256 * 1024

Address: TypeAlias = tuple[str, str, int]  # scheme, host, port


class Malformed(Exception):
    """Bytes that are not HTTP/1.1. `content`: the valid part of the same body before them."""

    def __init__(self, message: str, content: bytes = b"") -> None:
        super().__init__(message)
        self.content = content


# --- reading, without a connection ------------------------------------------------------------------------------------

_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?")
# Atomic, so that the time it takes grows no faster than a head that is refused.
_HEADER = r"(?>\r\n([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*+((?:[^\r\n\0]*[^\r\n\0 \t])?)[ \t]*+)"
_EACH_HEADER, _ALL_HEADERS = re.compile(_HEADER), re.compile(f"{_HEADER}*+")
_LENGTH = re.compile(r"[0-9]{1,15}")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\r\n]*)?\r\n")


class Body(Protocol):
    """The body after a head. `surplus`: the bytes after its end."""

    ended: bool
    surplus: bytes

    def feed(self, data: bytes) -> bytes:
        """Returns the content in these bytes. Raises `Malformed`."""


class SizedBody:
    """A body of known length."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.ended = not length
        self.surplus = b""

    def feed(self, data: bytes) -> bytes:
        left = self._left
        if len(data) < left:
            self._left = left - len(data)
            return data
        self.ended, self.surplus = True, data[left:]
        return data[:left]


class EndlessBody:
    """A body that ends with its connection."""

    ended = False
    surplus = b""

    def feed(self, data: bytes) -> bytes:
        return data


class ChunkedBody:
    """A chunked body (RFC 9112 §7.1), however its bytes are split. Trailers are skipped."""

    def __init__(self) -> None:
        self._rest = b""  # of a line that is not whole
        self._left = 0  # bytes of the present chunk that are to come, its line break included
        self._is_last = False
        self.ended = False
        self.surplus = b""

    def feed(self, data: bytes) -> bytes:
        if self._rest:
            data, self._rest = self._rest + data, b""
        elif not self._left and not self._is_last and data.endswith(b"\r\n"):
            line = _CHUNK_LINE.match(data)
            if line is not None and 0 < int(line[1], 16) == len(data) - line.end() - 2:
                return data[line.end() : -2]  # one whole chunk, as most events arrive
        parts: list[bytes] = []
        at, end, left, is_usual = 0, len(data), self._left, not self._is_last
        while at < end and not self._is_last:
            if not left:
                if is_usual:
                    is_usual = False
                    contents, at = _usual_chunks(data, at)
                    parts += contents
                line = _CHUNK_LINE.match(data, at)
                # RFC 9112, 7.1.1: chunk extensions may be ignored, but not without a bound.
                if line is None:
                    if end - at > _LONGEST_LINE or data.find(b"\n", at) >= 0:
                        raise Malformed(f"not the length of a chunk: {data[at : at + 20]!r}", b"".join(parts))
                    self._rest = data[at:]
                    break
                left, at = int(line[1], 16) + 2, line.end()
                if left == 2:
                    self._is_last, left = True, 0
                    break
            border = at + left - 2
            if border > at:
                parts.append(data[at:border])
            if border + 2 > end:
                left = 2 if border < end else left - (end - at)
                self._rest = data[border:end]  # half a line break, or nothing
                break
            # RFC 9112, 7.1: chunk data ends with CRLF. Anything else means that the length was wrong.
            if not data.startswith(b"\r\n", border):
                raise Malformed("a chunk longer than its stated length", b"".join(parts))
            at, left = border + 2, 0
        self._left = left
        if self._is_last:
            self._skip_trailers(data[at:])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _skip_trailers(self, data: bytes) -> None:
        if data.startswith(b"\r\n"):
            self.ended, self.surplus = True, data[2:]
        elif (end := data.find(b"\r\n\r\n")) >= 0:
            self.ended, self.surplus = True, data[end + 4 :]
        elif len(data) > _LARGEST_HEAD:
            raise Malformed(f"more than {_LARGEST_HEAD} bytes after the last chunk")
        else:
            self._rest = data


def _usual_chunks(data: bytes, at: int) -> tuple[list[bytes], int]:
    """Returns the content of chunks that begin here, as long as they are without line breaks, but for the last one; and
    where the rest begins. A stream of events may have hundreds of them in one read.
    """
    lines = (data[at:] if at else data).split(b"\r\n")
    del lines[-4:]  # a chunk that may not be whole, or the last
    sizes, contents = lines[0::2], lines[1::2]
    del sizes[len(contents) :]
    if not contents or sizes != [b"%x" % len(content) for content in contents] or b"0" in sizes:
        return [], at
    return contents, at + sum(map(len, sizes)) + sum(map(len, contents)) + 4 * len(contents)


def parse_head(head: bytes) -> tuple[int, CIMultiDict[str], bool]:
    """The status, the headers, and whether the connection may be used again, of a head without its empty line."""
    # RFC 9110, 5.5: values may hold bytes above 127, which have no defined encoding: kept as they are.
    text = head.decode("utf-8", "surrogateescape")
    first = text.partition("\r\n")[0]
    status = _STATUS_LINE.fullmatch(first)
    if status is None:
        raise Malformed(f"not a status line: {first[:40]!r}")
    if _ALL_HEADERS.fullmatch(text, len(first)) is None:  # another line break, a fold or a NUL in it is no match
        valid = _ALL_HEADERS.match(text, len(first))
        raise Malformed(f"not a header: {text[valid.end() if valid else 0 :].lstrip()[:40]!r}")
    headers = CIMultiDict(_EACH_HEADER.findall(text, len(first)))
    # RFC 9112, 9.3: connections persist in HTTP/1.1 unless `close` is among the options; in 1.0 only by agreement.
    keeps = status[1] == "1" and not any("close" in value.lower() for value in headers.getall("Connection", ()))
    return int(status[2]), headers, keeps


def body_of(method: str, status: int, headers: CIMultiDict[str]) -> Body:
    """Returns the body after a head (RFC 9112 §6.3). Ambiguous heads are refused."""
    # RFC 9112, 6.3, 1: no body, whatever the headers state.
    if method == "HEAD" or status in (204, 304):
        return SizedBody(0)
    codings, lengths = headers.getall("Transfer-Encoding", ()), headers.getall("Content-Length", ())
    if codings:
        # RFC 9112, 6.1: a coding that is not understood leaves the end of the body unknown.
        if len(codings) > 1 or codings[0].lower() != "chunked":
            raise Malformed(f"an unknown coding of the body: {', '.join(codings)[:40]!r}")
        return ChunkedBody()
    # RFC 9112, 6.3, 8: a response without a length ends with the connection.
    if not lengths:
        return EndlessBody()
    # RFC 9112, 6.3, 5: several values, even equal ones in a list, are refused here: providers send one.
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise Malformed(f"not a length: {', '.join(lengths)[:40]!r}")
    return SizedBody(int(lengths[0]))


# --- connections ------------------------------------------------------------------------------------------------------


class Http1Pool:
    """The connections of one event loop, by address; as many as there are calls."""

    def __init__(self, context: ssl.SSLContext | None, connect: float) -> None:
        self._context = context  # None: the system's authorities, read when they are needed
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._idle: dict[Address, deque[Http1Connection]] = {}
        self._open: set[Http1Connection] = set()
        self._heads: dict[tuple[Any, ...], bytes] = {}
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def send(self, method: str, url: "URL", headers: Mapping[str, str], body: bytes | None) -> "Http1Reply":
        """Returns the response, once its head has arrived."""
        address = (url.scheme, url.raw_host or "", url.port or 0)
        head = self._head(method, url, headers, body)
        connection = self._take(address) or await self._connected(address)
        reply = Http1Reply(connection, method, self._loop)
        try:
            if body is None or len(body) <= _LARGEST_BUFFER:
                connection.ask(head + body if body else head, reply)
            else:
                connection.ask(head, reply)
                await connection.send_rest(body)
            await reply.begun
        except TransportError as error:
            raise TransportError(f"no answer from {_shown(address)}: {error}") from None
        except BaseException:
            reply.close()
            raise
        return reply

    def _take(self, address: Address) -> "Http1Connection | None":
        """Takes the most recently used connection: the others may be closed soon."""
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.is_usable():
                return connection
            connection.transport.abort()
        return None

    async def _connected(self, address: Address) -> "Http1Connection":
        if address[0] == "https" and self._context is None:
            self._context = ssl.create_default_context()
        try:
            async with asyncio.timeout(self._connect):
                return await self._open_connection(address)
        except TimeoutError as error:
            raise TimedOut(f"no connection to {_shown(address)} within {self._connect:g} s") from error
        except (OSError, UnicodeError) as error:  # a name that cannot be one is a UnicodeError
            kind = TransportError if isinstance(error, ssl.SSLError) else NoConnection
            raise kind(f"no answer from {_shown(address)}: {error or type(error).__name__}") from error

    async def _open_connection(self, address: Address) -> "Http1Connection":
        """Opens a connection. `create_connection` alone may leak a socket when it is cancelled."""
        scheme, host, port = address
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:  # a name
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # RFC 8305: IPv6 and IPv4 are tried side by side, a quarter of a second apart.
        sock = await start_connection(found, happy_eyeballs_delay=0.25, loop=self._loop)
        try:
            _, connection = await self._loop.create_connection(
                lambda: Http1Connection(self, address),
                sock=sock,
                ssl=self._context if scheme == "https" else None,
                server_hostname=host if scheme == "https" else None,
            )
        except BaseException:
            sock.close()
            raise
        return connection

    def _head(self, method: str, url: "URL", headers: Mapping[str, str], body: bytes | None) -> bytes:
        """Returns the request line and headers; cached for calls that differ only in their bodies."""
        key = (method, url, *headers.items())
        head = self._heads.get(key)
        if head is None:
            lines = [f"{method} {url.raw_path_qs} HTTP/1.1"]
            # RFC 9112, 3.2: required in HTTP/1.1, with the port unless it is the scheme's own.
            if not any(name.lower() == "host" for name in headers):
                lines.append(f"Host: {url.host_port_subcomponent}")
            lines += [f"{name}: {value}" for name, value in headers.items()]
            if any(mark in line for line in lines for mark in "\r\n\0"):
                raise FormatError("a header or the key has a character that HTTP forbids; remove it", "headers")
            head = ("\r\n".join(lines) + "\r\n").encode("utf-8", "surrogateescape")
            if len(self._heads) >= _REMEMBERED:
                self._heads.clear()
            self._heads[key] = head
        return head + b"\r\n" if body is None else b"%bContent-Length: %d\r\n\r\n" % (head, len(body))

    def add(self, connection: "Http1Connection") -> None:
        self._open.add(connection)

    def release(self, connection: "Http1Connection") -> None:
        """Keeps the connection of an ended call for the next one."""
        connection.idle_since = self._loop.time()
        self._idle.setdefault(connection.address, deque()).append(connection)
        if self._sweep_timer is None:
            self._sweep_timer = self._loop.call_later(KEEP_ALIVE, self._sweep)

    def remove(self, connection: "Http1Connection") -> None:
        self._open.discard(connection)
        idle = self._idle.get(connection.address, ())
        if connection in idle:
            self._idle[connection.address].remove(connection)

    def _sweep(self) -> None:
        """Closes connections that were idle for too long."""
        latest = self._loop.time() - KEEP_ALIVE
        for address, idle in list(self._idle.items()):
            while idle and idle[0].idle_since <= latest:
                idle.popleft().transport.close()
            if not idle:
                del self._idle[address]
        self._sweep_timer = self._loop.call_later(KEEP_ALIVE / 2, self._sweep) if self._idle else None

    def close(self) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        with contextlib.suppress(RuntimeError):  # the event loop is gone, and the connections with it
            for connection in list(self._open):
                connection.transport.abort()
        self._idle.clear()


class Http1Connection(asyncio.BufferedProtocol):
    """One request and its response at a time."""

    __slots__ = (
        "_body",
        "_buffer",
        "_input",
        "_keeps",
        "_pool",
        "_received",
        "_reply",
        "_sending",
        "_writable",
        "address",
        "idle_since",
        "transport",
    )

    def __init__(self, pool: Http1Pool, address: Address) -> None:
        self._pool = pool
        self.address = address
        self.idle_since = 0.0
        self.transport: Any = None
        self._reply: Http1Reply | None = None
        self._buffer = memoryview(bytearray(_FIRST_READ))  # what the event loop reads into
        self._received = b""  # of a head that is not whole
        self._body: Body | None = None
        self._keeps = True
        self._sending = False  # a large body is on its way
        self._input: Any = None  # shows whether data has arrived that the event loop has not read
        self._writable: asyncio.Future[None] | None = None  # set while the peer accepts no more data

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        # A model may be silent for minutes: the kernel notices when its host is gone.
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(select, "poll"):
                self._input = select.poll()
                self._input.register(sock.fileno(), select.POLLIN)
        self._pool.add(self)

    def is_usable(self) -> bool:
        """Whether the next call may use it. The server may have closed it while the event loop was blocked."""
        return not self.transport.is_closing() and not (self._input is not None and self._input.poll(0))

    def ask(self, request: bytes, reply: "Http1Reply") -> None:
        self._reply, self._body, self._received = reply, None, b""
        if len(self._buffer) > _FIRST_READ:
            self._buffer = memoryview(bytearray(_FIRST_READ))
        self.transport.write(request)

    async def send_rest(self, body: bytes) -> None:
        """Sends a large body in pieces, as fast as the peer accepts it; stops when the response has ended."""
        whole, self._sending = memoryview(body), True
        for at in range(0, len(body), _LARGEST_BUFFER):
            if self._reply is None:
                break
            self.transport.write(whole[at : at + _LARGEST_BUFFER])
            if self._writable is not None:
                await self._writable
        self._sending = False

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        if nbytes == len(self._buffer) < _LARGEST_READ:
            self._buffer = memoryview(bytearray(4 * nbytes))
        self.data_received(data)

    def data_received(self, data: bytes) -> None:
        reply = self._reply
        if reply is None:  # unsolicited: the next call would take it for its response
            self.transport.abort()
            return
        try:
            if self._body is None:
                data = self._begin(reply, self._received + data)
            if self._body is None:
                return
            content = self._body.feed(data) if data else b""
        except Malformed as error:
            if error.content:
                reply.add(error.content)
            self._fail(f"the server sent no HTTP/1.1: {error}")
            return
        if content:
            reply.add(content)
        if self._body.ended:
            self._end(self._body.surplus)

    def _begin(self, reply: "Http1Reply", data: bytes) -> bytes:
        """Parses the head; the rest belongs to the body."""
        while (end := data.find(b"\r\n\r\n")) >= 0:
            status, headers, self._keeps = parse_head(data[:end])
            data = data[end + 4 :]
            if status >= 200:
                self._body = body_of(reply.method, status, headers)
                # With both, the chunks count, and the connection is not to be trusted (RFC 9112 §6.1).
                self._keeps = self._keeps and not ("Transfer-Encoding" in headers and "Content-Length" in headers)
                reply.begin(status, headers)
                return data
            if status == 101:
                raise Malformed("an unrequested protocol switch")
            # Other 1xx responses precede the final one (RFC 9110 §15.2).
        if len(data) > _LARGEST_HEAD:
            raise Malformed(f"a head of more than {_LARGEST_HEAD} bytes")
        self._received = data
        return b""

    def _end(self, surplus: bytes) -> None:
        """Ends a complete response."""
        reply, self._reply = self._reply, None
        assert reply is not None
        reply.finish()
        # After surplus bytes, or an unfinished request, the connection is out of sync.
        if self._sending or self.transport.get_write_buffer_size():
            self.transport.abort()
            self.resume_writing()
        elif self._keeps and not surplus:
            self._pool.release(self)
        else:
            self.transport.close()

    def _fail(self, why: str) -> None:
        reply, self._reply = self._reply, None
        self.transport.abort()
        self.resume_writing()
        if reply is not None:
            reply.break_off(why)

    def connection_lost(self, error: Exception | None) -> None:
        self._pool.remove(self)
        if self._reply is not None and error is None and isinstance(self._body, EndlessBody):
            self._reply.finish()
            self._reply = None
            self.resume_writing()
        else:
            self._fail(str(error or "") or "the server closed the connection")

    def drop(self) -> None:
        """Closes the connection before its response has ended."""
        self._fail("the connection was closed here")


class Http1Reply:
    """A response whose body is still arriving: a `Reply` of `transport`."""

    __slots__ = (
        "_connection",
        "_failure",
        "_is_whole",
        "_loop",
        "_parts",
        "_size",
        "_waiter",
        "begun",
        "headers",
        "method",
        "status",
    )

    def __init__(self, connection: Http1Connection, method: str, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0
        self._is_whole = False
        self._failure = ""
        self._waiter: asyncio.Future[None] | None = None
        self.begun: asyncio.Future[None] = loop.create_future()
        self.method = method
        self.status = 0
        self.headers: Mapping[str, str] = {}

    # --- for its reader

    @property
    def ended(self) -> bool:
        """Whether the whole body has been read."""
        return self._is_whole and not self._parts

    @property
    def arrived(self) -> int:
        """Bytes that `chunk` returns at once."""
        return self._size

    async def chunk(self) -> bytes:
        while True:
            parts = self._parts
            if parts:
                data = parts[0] if len(parts) == 1 else b"".join(parts)
                parts.clear()
                if self._size >= _LARGEST_BUFFER and not self._is_whole:
                    self._connection.transport.resume_reading()
                self._size = 0
                return data
            if self._is_whole:
                return b""
            if self._failure:
                raise TransportError(f"the connection broke: {self._failure}")
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def close(self) -> None:
        if not self._is_whole and not self._failure:
            self._connection.drop()

    # --- for its connection

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers
        if not self.begun.done():
            self.begun.set_result(None)

    def add(self, content: bytes) -> None:
        self._parts.append(content)
        before = self._size
        self._size = before + len(content)
        # A reader that is slower than the provider: TCP makes the provider wait, in place of our memory.
        if before < _LARGEST_BUFFER <= self._size:
            self._connection.transport.pause_reading()
        self._wake()

    def finish(self) -> None:
        self._is_whole = True
        if self._size >= _LARGEST_BUFFER:  # the next response on this connection belongs to another call
            self._connection.transport.resume_reading()
        self._wake()

    def break_off(self, why: str) -> None:
        self._failure = why
        if not self.begun.done():
            self.begun.set_exception(TransportError(why))
            self.begun.exception()  # the caller may have left
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _shown(address: Address) -> str:
    scheme, host, port = address
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}" if port == {"http": 80, "https": 443}.get(scheme) else f"{scheme}://{host}:{port}"
