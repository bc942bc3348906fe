"""The client's side of one exchange: an unstreamed response, or a stream with keep-alives and one end."""

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from aiohttp import web

from ..connect.auth.credentials import scrub
from ..connect.stream import scrubbed
from ..dialects.provider_errors import as_provider_error, status_of
from ..dialects.registry import cut_frames
from ..dialects.wire import JSON, SSE, Wire
from ..values import jsontext
from ..values.errors import InterlinguaError, Overloaded, ProviderError
from ..values.losses import Loss
from .exchange import Exchange

_log = logging.getLogger(__name__)

LOSSES = "x-interlingua-losses"
CACHE_BREAK = "x-interlingua-cache-break"
LEFT = "the client left"
STALLED = "the client does not read its answer"
_LONGEST_HEADER = 2000
_LONGEST_TRACE = 8000  # characters of a traceback in the log
# The SDKs of OpenAI and Anthropic retry a 5xx, unless this header says otherwise.
_NO_RETRY = {"x-should-retry": "false"}


class CredentialsRefused(ProviderError):
    """A provider refused the gateway's own credentials, or finds no credit on its account. For the client that is a
    failure of the server: a 401 would say that the client's key is wrong, a 402 that the client has to pay."""


class InternalError(InterlinguaError):
    """An internal error ended the exchange. Clients get status 500 and the id of the request."""


def describe_losses(losses: Sequence[Loss]) -> str:
    """Formats losses for a header: their number, then path, field and severity, up to the header limit."""
    text = f"{len(losses)}"
    for at, loss in enumerate(losses):
        item = f"{'; ' if at else ': '}{loss.path} {loss.what} {loss.severity}"
        if len(text) + len(item) > _LONGEST_HEADER:
            return text + "; …".encode("ascii", "replace").decode()
        text += item
    return "".join(char if " " <= char <= "~" else "?" for char in text)


class _Array:
    """Google's other stream form: one JSON array, sent element by element."""

    def __init__(self) -> None:
        self._before = b"["

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._elements(data))

    def _elements(self, data: bytes) -> Iterator[bytes]:
        for frame in cut_frames(data, SSE):
            if frame.startswith(b"data: "):
                yield self._before + frame.removeprefix(b"data: ").rstrip(b"\n")
                self._before = b",\r\n"

    def close(self) -> bytes:
        return b"[]" if self._before == b"[" else b"]"


class _Rephrased:
    """Lines of JSON, each rewritten."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer

    def feed(self, data: bytes) -> bytes:
        lines = (line for line in data.split(b"\n") if line.strip())
        return b"".join(jsontext.write(self._answer(jsontext.read(line))) + b"\n" for line in lines)

    def close(self) -> bytes:
        return b""


class Channel(Protocol):
    """The destination of a response: unstreamed, or as a stream that is opened, written and ended.

    A client that does not accept the last piece within `timeout` seconds is dropped with a `ConnectionResetError`.
    """

    async def send(
        self, status: int, headers: Mapping[str, str], body: bytes, timeout: float | None = None
    ) -> None: ...
    async def open(self, headers: Mapping[str, str]) -> None: ...
    async def write(self, data: bytes) -> None: ...
    async def end(self, data: bytes = b"", timeout: float | None = None) -> None: ...
    def abort(self) -> None:
        """Resets the connection."""


async def in_time(sending: Awaitable[object], timeout: float | None, abort: Callable[[], object]) -> None:
    """Waits for a client to accept sent data, up to a timeout."""
    try:
        async with asyncio.timeout(timeout):
            await sending
    except TimeoutError:
        abort()
        raise ConnectionResetError(STALLED) from None


class HttpChannel:
    """A response with aiohttp."""

    def __init__(self, http: web.BaseRequest, *, closes: bool = False) -> None:
        self._http = http
        self.closes = closes
        self.response: web.StreamResponse = web.Response()

    async def send(self, status: int, headers: Mapping[str, str], body: bytes, timeout: float | None = None) -> None:
        response = self.response = web.Response(status=status, body=body, headers=headers, content_type=JSON)
        if self.closes:
            response.force_close()
        await response.prepare(self._http)
        await in_time(response.write_eof(), timeout, self.abort)

    async def open(self, headers: Mapping[str, str]) -> None:
        self.response = web.StreamResponse(headers=headers)
        await self.response.prepare(self._http)

    async def write(self, data: bytes) -> None:
        await self.response.write(data)

    async def end(self, data: bytes = b"", timeout: float | None = None) -> None:
        await in_time(self.response.write_eof(data), timeout, self.abort)

    def abort(self) -> None:
        if self._http.transport is not None:
            self._http.transport.abort()


class SocketChannel:
    """A response over a WebSocket: each event of the stream is one text message, with the request's `stream_id`."""

    def __init__(self, http: web.BaseRequest, socket: web.WebSocketResponse, stream_id: str | None = None) -> None:
        self._http = http
        self._socket = socket
        self._begin = "{" if stream_id is None else f'{{"stream_id":"{stream_id}",'  # of each message

    async def send(self, status: int, headers: Mapping[str, str], body: bytes, timeout: float | None = None) -> None:
        """Sends an error before the first event; the socket stays open for the next request."""
        given = jsontext.read(body)
        error = given.get("error", given) if isinstance(given, dict) else given
        # platform.openai.com/docs/guides/websocket-mode: errors are messages of type `error`.
        text = jsontext.write({"type": "error", "status": status, "error": error}).decode()
        await in_time(self._socket.send_str(self._begin + text[1:]), timeout, self.abort)

    async def open(self, headers: Mapping[str, str]) -> None:
        pass

    async def write(self, data: bytes) -> None:
        for frame in cut_frames(data, SSE):
            for line in frame.split(b"\n"):
                if line.startswith(b"data: ") and line != b"data: [DONE]":
                    await self._socket.send_str(self._begin + line[7:].decode())

    async def end(self, data: bytes = b"", timeout: float | None = None) -> None:
        await in_time(self.write(data), timeout, self.abort)

    def abort(self) -> None:
        if self._http.transport is not None:
            self._http.transport.abort()


class ClientReply:
    """The response to the client. `begun` once a byte of it, not only a keep-alive, was sent."""

    def __init__(
        self,
        channel: Channel,
        exchange: Exchange,
        *,
        keep_alive: float | None = None,
        send_timeout: float | None = None,
        as_array: bool = False,
        rephrased: Callable[[Any], Any] | None = None,
        before_end: Callable[[Exchange], None] | None = None,
    ) -> None:
        self._channel = channel
        self._before_end = before_end
        self._exchange = exchange
        self._facts = exchange.wire.http
        self._form = _Array() if as_array else _Rephrased(rephrased) if rephrased is not None else None
        self._as_array = as_array
        self._losses: Sequence[Loss] = ()
        self._loop = asyncio.get_running_loop()
        self._idle = keep_alive if self._facts.ping and not as_array else None
        self._send_timeout = send_timeout
        self._latest = self._loop.time()
        self._sending: float | None = None  # since when the client takes nothing
        self._timer: asyncio.TimerHandle | None = None
        self._pinging: asyncio.Task[None] | None = None
        self.is_open = False  # the status line has gone out, be it with a keep-alive alone
        self.begun = False
        self.ended = False  # the client has all of the answer
        self.sent = 0  # writes, for wires that number their events
        if exchange.is_stream and (waits := [one for one in (self._idle, send_timeout) if one]):
            self._timer = self._loop.call_later(min(waits), self._ring)

    def headers(self, losses: Sequence[Loss] = ()) -> dict[str, str]:
        """The headers of every response: its id, the losses, the cause of a cache miss, the remaining rate limits."""
        headers = {self._facts.request_id: self._exchange.id}
        if losses:
            headers[LOSSES] = describe_losses(losses)
        if self._exchange.cache_break is not None:
            headers[CACHE_BREAK] = str(self._exchange.cache_break)
        if self._exchange.quotas and self._facts.rate_headers is not None:
            headers |= self._facts.rate_headers(self._exchange.quotas)
        return headers

    def ending(self) -> None:
        """To be called before the client has the end of the response, which is then complete."""
        before_end, self._before_end = self._before_end, None
        if before_end is not None:
            self._exchange.status = self._exchange.status or 200  # a stream that came in one piece is not yet open
            before_end(self._exchange)

    # --- in one piece

    async def whole(self, body: bytes, losses: Sequence[Loss] = ()) -> None:
        if isinstance(self._form, _Rephrased):
            body = self._form.feed(jsontext.compact(jsontext.read(body)).encode()).rstrip(b"\n")
        await self._send(200, body, self.headers(losses))

    async def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self._exchange.status = status
        self.begun = self.is_open = True
        self.ending()
        await self._channel.send(status, headers, body, self._send_timeout)
        self.ended = True

    # --- a stream

    def losing(self, losses: Sequence[Loss]) -> None:
        """Sets the losses of the request, for the headers of a stream that has not begun."""
        self._losses = losses

    async def write(self, data: bytes) -> None:
        """Sends a part of the response; parts passed together are sent together."""
        if not data:
            return
        self.begun = True
        self.sent += 1
        await self._write(data if self._form is None else self._form.feed(data))

    async def _write(self, data: bytes) -> None:
        # A keep-alive under way comes first: two writes at once would mix their bytes.
        if self._pinging is not None:
            await self._pinging
        if not self.is_open:
            await self._open()
        if self._exchange.first_byte is None:
            self._exchange.first_byte = time.time()
        self._sending = self._loop.time()
        await self._channel.write(data)
        self._sending = None
        self._latest = self._loop.time()

    async def _open(self) -> None:
        facts = self._facts
        kind = JSON if self._as_array else facts.content_type
        headers = {**self.headers(self._losses), "Content-Type": kind + (facts.charset if kind == SSE else "")}
        if kind == SSE:
            # RFC 9111, 5.2.2.4: no cache may answer another request with it.
            headers["Cache-Control"] = "no-cache"
            headers["X-Accel-Buffering"] = "no"  # nginx would keep events back
        # The status is sent with the first byte: a later failure can only be an event.
        self._exchange.status = 200
        self.is_open = True
        await self._channel.open(headers)

    def _ring(self) -> None:
        """Sends a keep-alive after a silence; drops a client that reads nothing."""
        now, due = self._loop.time(), []
        if self._send_timeout is not None:
            since = now if self._sending is None else self._sending
            if now >= since + self._send_timeout:
                self._channel.abort()  # its exchange ends as one whose client left
                return
            due.append(since + self._send_timeout)
        if self._idle is not None:
            next_ping = self._latest + self._idle
            if now >= next_ping:
                if self._pinging is None and self._sending is None:
                    self._pinging = self._loop.create_task(self._ping())
                next_ping = now + self._idle
            due.append(next_ping)
        self._timer = self._loop.call_at(min(due), self._ring)

    async def _ping(self) -> None:
        try:
            if not self.is_open:
                await self._open()
            await self._channel.write(self._facts.ping)
            self._latest = self._loop.time()
        except (ConnectionError, RuntimeError):  # the client is gone, which its handler notices itself
            pass
        finally:
            self._pinging = None

    async def end(self, data: bytes = b"") -> None:
        """Ends a stream, with its last part in the same write."""
        self.stop()
        if data:
            self.begun = True
            self.sent += 1
        if self._form is not None:
            data = (self._form.feed(data) if data else b"") + self._form.close()
        if self._pinging is not None:
            await self._pinging
        if not self.is_open:
            await self._open()
        if data and self._exchange.first_byte is None:
            self._exchange.first_byte = time.time()
        self.ending()
        await self._channel.end(data, self._send_timeout)
        self.ended = True

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def fail(self, error: InterlinguaError, encoder: Any = None) -> None:
        """Ends with an error in the client's own form: a status if none was sent, else an event."""
        self.stop()
        if self.ended:
            return
        self._exchange.error = error
        if not self.is_open:
            status, body, headers = error_answer(self._exchange, error)
            await self._send(status, body, {**self.headers(), **headers})
            return
        if self._pinging is not None:
            await self._pinging
        try:
            try:
                event = error_event(self._exchange.wire, error, self.sent, encoder, self._form)
            except Exception as defect:
                if encoder is None:
                    raise
                log_defect(f"{self._exchange.id} cannot be ended by its encoder", defect)
                event = error_event(self._exchange.wire, error, self.sent, None, self._form)
            await self._write(event)
            await self.end()
        except ConnectionError:
            raise
        except Exception as defect:
            # A stream that just stops would look whole in some wires: the connection breaks instead.
            log_defect(f"{self._exchange.id} cannot be ended", defect)
            self.ended = True
            self._channel.abort()


def as_typed_error(exchange: Exchange, error: Exception, *secrets: str | None) -> InterlinguaError:
    """Returns an error as a client may see it. An unexpected one is a defect of the gateway, and is logged."""
    if isinstance(error, InterlinguaError):
        return scrubbed(error, secrets)  # it may quote what the client sent
    log_defect(f"{exchange.id} failed", error, *secrets)
    return InternalError(f"internal error in {exchange.id}; see the gateway's log")


def stopping_error() -> Overloaded:
    """The error for a client whose exchange is open when the gateway stops."""
    return Overloaded("the gateway is stopping; send the request again", status=503, code="stopping")


def log_defect(what: str, error: Exception, *secrets: str | None) -> None:
    """Logs an unexpected error with its traceback, without keys."""
    trace = "".join(traceback.format_exception(error))[-_LONGEST_TRACE:]
    _log.error("%s: %s", what, scrub(trace, secrets=secrets))


def error_answer(exchange: Exchange, error: InterlinguaError) -> tuple[int, bytes, dict[str, str]]:
    """Returns status, body and headers of an error in the client's own form; a plain one if even that fails."""
    failure = as_provider_error(error)
    try:
        status, body, headers = exchange.wire.error_response(failure)
        return status, body, headers | _NO_RETRY if isinstance(error, CredentialsRefused) else headers
    except Exception as defect:
        log_defect(f"the error of {exchange.id} cannot be encoded", defect)
        plain = {"error": {"message": str(error), "type": "api_error"}}
        return status_of(failure), jsontext.write(plain), {}


def error_event(wire: Wire, error: InterlinguaError, sent: int, encoder: Any, form: Any = None) -> bytes:
    """Returns a failure inside a stream, in the wire's form."""
    if encoder is not None:
        data: bytes = encoder.fail(error)
    else:
        failure = as_provider_error(error)
        data = wire.http.error_event(failure, sent, wire.codec.encode_error(failure)[1])
    return data if form is None else form.feed(data)
