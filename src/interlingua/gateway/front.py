"""Client connections. Plain calls are parsed and answered here; all others are handed to aiohttp.

A plain call is a POST to a model path, in HTTP/1.1, with a length, each header once, and nothing that changes its
parsing (codings, upgrades, expectations). That is what clients send, a thousand times a second; aiohttp creates a dozen
objects and two tasks for each. Anything ambiguous is left to its parser.
"""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, InvalidURLError, LineTooLong
from aiohttp.tcp_helpers import tcp_keepalive
from multidict import CIMultiDict

from ..dialects.wire import JSON
from ..values import jsontext
from ..values.errors import BadRequest
from .operations import GatewayOperation, operation_of
from .replying import in_time
from .settings import ClientLimits

_log = logging.getLogger(__name__)

_IDLE = 3630.0  # seconds until an unused connection is closed: longer than any proxy keeps one, as aiohttp has it
_LINGER = 10.0  # seconds to read the rest of an unused body
_SURPLUS = 5.0  # seconds until a connection above the limit is closed, whatever it does
_LARGEST_NEXT = 64 * 1024  # bytes of requests that wait behind another
_HEAD = re.compile(
    rb"POST (/[!-\"$->@-~]*)(\?[!-\"$-~]*)? HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)+)\r\n"
)
_LENGTH = re.compile(rb"[0-9]{1,12}")
_LENGTH_LINE = re.compile(rb"\r\ncontent-length:[\t ]*([0-9]{1,12})[\t ]*\r\n", re.IGNORECASE)
# Headers that change how a request is read, or what becomes of the connection (RFC 9110 §7.8, §8.4, §10.1.1).
_SPECIAL = ("transfer-encoding", "content-encoding", "upgrade", "expect", "trailer", "te")


class PlainRequest:
    """A plain call: the parts of aiohttp's request that the gateway uses."""

    __slots__ = ("_arrived", "_left", "_parts", "head", "headers", "transport")
    method = "POST"

    def __init__(self, head: "PlainHead", length: int, transport: Any) -> None:
        self.head = head
        self.headers = head.headers
        self.transport = transport
        self._left = length
        self._parts: list[bytes] = []
        self._arrived: asyncio.Future[None] | None = None

    @property
    def path(self) -> str:
        return self.head.path

    @property
    def query(self) -> Mapping[str, str]:
        return dict(reversed(parse_qsl(self.head.query, keep_blank_values=True)))  # of several, the first counts

    @property
    def is_whole(self) -> bool:
        """Whether the whole body has arrived."""
        return not self._left

    async def read(self) -> bytes:
        """Returns the body."""
        if self._left:
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived
        return self.arrived()

    def arrived(self) -> bytes:
        """Returns the body so far."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def feed(self, data: bytes) -> bytes:
        """Adds bytes to the body; the rest belongs to the next request."""
        left = self._left
        self._parts.append(data if len(data) <= left else data[:left])
        self._left = max(0, left - len(data))
        if not self._left and self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
        return data[left:]


class PlainHead:
    """The head of a plain call, except the digits of its length: the next call of a client has the same one.

    `read`: what the gateway has read of the headers.
    """

    __slots__ = ("_after", "_before", "asked", "headers", "path", "query", "read")

    def __init__(
        self, before: bytes, after: bytes, asked: GatewayOperation, path: str, query: str, headers: CIMultiDict[str]
    ) -> None:
        self._before = before
        self._after = after
        self.asked = asked
        self.path = path
        self.query = query
        self.headers = headers  # without the length
        self.read: Any = None

    def length(self, data: bytes, limits: ClientLimits) -> tuple[int, int] | None:
        """Returns the length of the body and its offset, if these bytes begin with this head."""
        if not data.startswith(self._before):
            return None
        digits = _LENGTH.match(data, len(self._before))
        if digits is None or not data.startswith(self._after, digits.end()):
            return None
        length, start = int(digits[0]), digits.end() + len(self._after)
        return (length, start) if length <= limits.body and start <= limits.header else None


def read_head(data: bytes) -> PlainHead | None:
    """Parses the head of a plain call at the start of these bytes; None for anything else."""
    found = _HEAD.match(data)
    length = _LENGTH_LINE.search(data, 0, found.end()) if found is not None else None
    if found is None or length is None:
        return None
    asked = operation_of("POST", found[1].decode(), {})
    if asked.kind not in ("call", "rephrased"):
        return None
    headers: CIMultiDict[str] = CIMultiDict()
    for line in found[3].decode().split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        if name not in headers:
            headers[name] = value.strip(" \t")
        elif name.lower() != "user-agent":  # which some SDKs send twice, and nothing here depends on
            return None
    if (
        "Host" not in headers
        or any(name in headers for name in _SPECIAL)
        or headers.get("Connection", "keep-alive").lower() != "keep-alive"
    ):
        return None
    del headers["Content-Length"]
    query = found[2].decode()[1:] if found[2] else ""
    before, after = data[: length.start(1)], data[length.end(1) : found.end()]
    return PlainHead(before, after, asked, found[1].decode(), query, headers)


class PlainChannel:
    """The channel of the response to a plain call (`replying.Channel`)."""

    __slots__ = ("_connection", "_head", "begun", "ended")

    def __init__(self, connection: "ClientConnection") -> None:
        self._connection = connection
        self._head = b""  # of a stream, until its first bytes go out
        self.begun = False
        self.ended = False

    async def send(self, status: int, headers: Mapping[str, str], body: bytes, timeout: float | None = None) -> None:
        if self.begun:
            raise RuntimeError("the answer has begun: it cannot be sent in one piece")
        head = _head(status, {"Content-Type": JSON, **headers}, f"Content-Length: {len(body)}")
        self.begun = self.ended = True
        await self._connection.write(head + body, timeout)

    async def open(self, headers: Mapping[str, str]) -> None:
        self._head = _head(200, headers, "Transfer-Encoding: chunked")

    async def write(self, data: bytes) -> None:
        if data:
            head, self._head, self.begun = self._head, b"", True
            await self._connection.write(b"%b%x\r\n%b\r\n" % (head, len(data), data))

    async def end(self, data: bytes = b"", timeout: float | None = None) -> None:
        head, self._head, self.begun, self.ended = self._head, b"", True, True
        last = b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(data), data) if data else head + b"0\r\n\r\n"
        await self._connection.write(last, timeout)

    def abort(self) -> None:
        self._connection.transport.abort()


Answer: TypeAlias = Callable[[PlainRequest, GatewayOperation, PlainChannel], Awaitable[None]]
_REASONS = {status.value: status.phrase for status in HTTPStatus}


def _head(status: int, headers: Mapping[str, str], length: str) -> bytes:
    first = f"HTTP/1.1 {status} {_REASONS.get(status, '')}"
    text = "\r\n".join((first, *map(": ".join, headers.items()), f"Date: {_date()}", length, "\r\n"))
    if text.count("\n") != len(headers) + 4 or text.count("\r") != len(headers) + 4:
        raise ValueError("a header has a line break")
    return text.encode("utf-8", "replace")


_dated = (0, "")


def _date() -> str:
    """Returns the time as in headers, computed once a second."""
    global _dated
    now = int(time.time())
    if _dated[0] != now:
        _dated = (now, formatdate(now, usegmt=True))
    return _dated[1]


class ClientConnection(asyncio.Protocol):
    """One client connection, as long as only plain calls arrive."""

    __slots__ = (
        "_front",
        "_head",
        "_idle_timer",
        "_is_closing",
        "_is_paused",
        "_is_used",
        "_loop",
        "_next",
        "_request",
        "_used",
        "_writable",
        "task",
        "transport",
    )

    def __init__(self, front: "Front") -> None:
        self._front = front
        self._loop = front.loop
        self.transport: Any = None
        self._head: PlainHead | None = None  # of the last request
        self._request: PlainRequest | None = None
        self.task: asyncio.Task[None] | None = None
        self._next = b""  # came while a request was answered
        self._is_paused = False  # writing
        self._writable: asyncio.Future[None] | None = None
        self._is_closing = False
        self._is_used = False  # a request has been received
        self._used = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        tcp_keepalive(self.transport)
        self._front.connections.add(self)
        if self._front.is_full:
            self._front.server.surplus.add(self._hand_over(b""))
            self._loop.call_later(_SURPLUS, transport.close)
        else:
            # The first request must come soon, the next ones when they like.
            self._idle_timer = self._loop.call_later(self._front.limits().body_timeout, self._close_idle)

    def data_received(self, data: bytes) -> None:
        request = self._request
        if request is not None and not request.is_whole:
            data = request.feed(data)
            if request.is_whole and self.task is None:  # it was answered before
                self._ended()
        if self._request is not None:
            self._next += data
            if len(self._next) > _LARGEST_NEXT:
                self.transport.pause_reading()
        elif data:
            self._begin(data)

    def _begin(self, data: bytes) -> None:
        limits = self._front.limits()
        head = self._head
        found = head.length(data, limits) if head is not None else None
        if found is None:
            head = self._head = read_head(data)
            found = head.length(data, limits) if head is not None else None
        if head is None or found is None or self._is_closing:
            self._hand_over(data)
            return
        length, start = found
        request = self._request = PlainRequest(head, length, self.transport)
        self._is_used = True
        self._next = request.feed(data[start:])
        self.task = self._loop.create_task(self._answer(request, head.asked))

    async def _answer(self, request: PlainRequest, asked: GatewayOperation) -> None:
        channel = PlainChannel(self)
        try:
            await self._front.answer(request, asked, channel)
        except ConnectionError:
            pass  # the client is gone
        except Exception:
            _log.exception("a call of %s failed", asked.wire.api)
            if not channel.begun:
                with contextlib.suppress(ConnectionError):
                    await channel.send(500, {}, b'{"error": {"message": "internal error; see the gateway\'s log"}}')
        finally:
            self.task = None
            if not channel.ended:
                self.transport.abort()
            elif request.is_whole:
                self._ended()
            else:  # a client that still sends would not read an answer on a closed connection
                self._loop.call_later(_LINGER, self._stop_lingering, request)

    def _ended(self) -> None:
        """Ends a request and starts the next one, if it is here."""
        self._request = None
        self._used = self._loop.time()
        if self._is_closing:
            self.transport.close()
        elif self._next and not self.transport.is_closing():
            data, self._next = self._next, b""
            self.transport.resume_reading()
            self._begin(data)

    def _stop_lingering(self, request: PlainRequest) -> None:
        if self._request is request:
            self.transport.close()

    def _hand_over(self, data: bytes) -> Any:
        """Hands the connection to aiohttp."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._front.connections.discard(self)
        handler = self._front.server()
        self.transport.set_protocol(handler)
        handler.connection_made(self.transport)
        if data:
            handler.data_received(data)
        return handler

    def _close_idle(self) -> None:
        unused = self._loop.time() - self._used
        if self._request is None and (unused >= _IDLE or not self._is_used):
            self.transport.close()
        else:
            self._idle_timer = self._loop.call_later(max(1.0, _IDLE - unused), self._close_idle)

    def close(self) -> None:
        """Closes now, or when the active request has been answered."""
        self._is_closing = True
        if self._request is None:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._front.connections.discard(self)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._writable is not None and not self._writable.done():
            self._writable.set_exception(ConnectionResetError("the client left"))
        if self.task is not None:
            self.task.cancel()

    # --- writing

    async def write(self, data: bytes, timeout: float | None = None) -> None:
        """Sends bytes, and waits until the client accepts them, up to a timeout."""
        if self.transport.is_closing():
            raise ConnectionResetError("the client left")
        self.transport.write(data)
        if self._is_paused:
            self._writable = self._loop.create_future()
            await in_time(self._writable, timeout, self.transport.abort)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)


_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) (/[!-~]{0,4000}) HTTP/[0-9.]+\r?\n")
# Parser errors for invalid HTTP that quote none of its bytes: those may contain a key.
_UNQUOTED = re.compile(r"[A-Z][A-Za-z, -]*(?:'t [A-Za-z, -]*|'[A-Za-z-]+' header (?:found|in request))?")


class _Handler(web.RequestHandler):
    """aiohttp's connection handler; it answers invalid HTTP in the form of the path's wire."""

    __slots__ = ("_line",)

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._line: re.Match[bytes] | None = None  # the latest that was seen

    def data_received(self, data: bytes) -> None:
        self._line = _REQUEST_LINE.match(data) or self._line
        super().data_received(data)

    def log_exception(self, *args: Any, **options: Any) -> None:
        if not isinstance(options.get("exc_info"), web.RequestPayloadError):  # the client has its error
            super().log_exception(*args, **options)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError) or request.writer.output_size:
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, LineTooLong):
            failure = BadRequest("the head of the request is too large; send fewer or shorter headers", status=431)
        else:
            found = _UNQUOTED.match(exc.message) if not isinstance(exc, InvalidURLError) else None
            reason = found[0].strip() if found is not None else "the address cannot be read"
            failure = BadRequest(f"malformed HTTP request: {reason}; send HTTP/1.1, each header once", status=400)
        _log.info("%s", failure)
        line = self._line
        wire = operation_of(line[1].decode(), line[2].decode().partition("?")[0], {}).wire if line is not None else None
        headers: dict[str, str] = {}
        if wire is not None:
            status, body, headers = wire.error_response(failure)
        else:
            plain = {"error": {"type": "invalid_request_error", "message": str(failure)}}
            status, body = failure.status, jsontext.write(plain)
        response = web.Response(status=status, body=body, headers=headers, content_type=JSON)
        response.force_close()
        return response


class HandedOver(web.Server):
    """aiohttp's server. `surplus` are connections above the limit: their first request is refused."""

    def __init__(self, handler: Any, *, request_factory: Any, first: float, **options: Any) -> None:
        # A client that leaves ends its exchange at once.
        super().__init__(handler, request_factory=request_factory, handler_cancellation=True, **options)
        self._options = options  # of each connection
        self._first = first  # seconds until the first request must have come: headers in drips keep no place for ever
        self.surplus: set[Any] = set()
        self.silent: set[Any] = set()  # connections without a request yet
        self.count = 0

    def __call__(self) -> web.RequestHandler:
        return _Handler(self, loop=asyncio.get_running_loop(), auto_decompress=False, **self._options)

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self.count += 1
        self.silent.add(handler)
        asyncio.get_running_loop().call_later(self._first, self._close_silent, handler, transport)

    def _close_silent(self, handler: Any, transport: asyncio.Transport) -> None:
        if handler in self.silent:
            transport.close()

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self.surplus.discard(handler)
        self.silent.discard(handler)
        self.count -= 1


class Front:
    """All connections of a gateway: its own, and aiohttp's."""

    def __init__(self, answer: Answer, server: HandedOver, limits: Callable[[], ClientLimits]) -> None:
        self.answer = answer
        self.server = server
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.connections: set[ClientConnection] = set()

    def __call__(self) -> ClientConnection:
        return ClientConnection(self)

    @property
    def is_full(self) -> bool:
        return len(self.connections) + self.server.count > self.limits().connections

    def close_idle(self) -> None:
        """Closes idle connections; active ones when their request has been answered."""
        self.server.pre_shutdown()
        for connection in list(self.connections):
            connection.close()

    async def shutdown(self, seconds: float) -> None:
        """Closes all connections; active ones have a timeout."""
        self.close_idle()
        handed = asyncio.ensure_future(self.server.shutdown(seconds))
        tasks = [one.task for one in self.connections if one.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=seconds)
        await handed
        for connection in list(self.connections):
            connection.transport.abort()
