"""A real local HTTP server that speaks every wire dialect, sends scripted replies, and fails on demand.

Responses are built by the dialects' own server side (`decode_request`, `StreamEncoder`, `encode_response`,
`encode_error`) and modified by `faults`; this module has only the socket, the queue of replies and the record of
requests.
"""

import asyncio
import inspect
import logging
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web
from multidict import CIMultiDictProxy

from ..conversion.adapting.adapter import adapt
from ..conversion.checks import check
from ..dialects import dialect
from ..dialects.registry import PathRoute, route, wire
from ..dialects.wire import JSON, SSE
from ..values import jsontext
from ..values.errors import BadRequest, InterlinguaError, ProviderError
from ..values.messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall
from ..values.request import ModelDescriptor, Request
from .faults import Answer, Fault, HangUp, Piece, Wait
from .replies import Answered, Reply, array, echo, frames, message_of
from .threads import ThreadedServer

log = logging.getLogger(__name__)

_LARGEST_BODY = 512 * 1024 * 1024


@dataclass(kw_only=True)
class Received:
    """One received request. `request` is None for an invalid one and for a model listing; `message` is the response.

    `error` is why it was refused, or what a reply's function raised. `index` counts all requests since the start.
    """

    index: int
    api: str
    method: str
    path: str
    headers: CIMultiDictProxy[str] = field(repr=False)  # contains keys
    body: bytes = field(repr=False)
    json: Any = field(default=None, repr=False)
    request: Request | None = field(default=None, repr=False)
    message: AssistantMessage | None = field(default=None, repr=False)
    error: str | None = None
    time: float


@dataclass(frozen=True)
class Disconnect:
    """A client that left before its response ended: when (by `time.monotonic`), and the `index` of its request."""

    time: float
    index: int


@dataclass
class _Entry:
    """A reply in the queue, and how often it was sent."""

    reply: Reply
    times: int | None
    faults: tuple[Fault, ...]
    chunk: int
    used: int = 0

    @property
    def affected(self) -> int:
        """How many requests its faults affect before the reply itself counts as sent."""
        return max((fault.times or 0 for fault in self.faults), default=0)

    def is_over(self, more: bool) -> bool:
        """Whether the next request gets another reply; the last one of the queue stays, unless it has `times`."""
        if self.times is not None:
            return self.used >= self.affected + self.times
        return more and self.used > self.affected

    def active(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.times is None or self.used < fault.times)


class Server(ThreadedServer):
    """Start it with `with` or `async with` (or `start` and `stop`); it runs in its own thread and event loop.

    By default it echoes the last user message. `chunk` is the size of its deltas in characters, `keep` how many
    requests it records, `models` its model listing. With `strict` it refuses what a provider would refuse, as
    `interlingua.check` finds it. With `tls` it serves HTTPS, and `ca_pem` is the authority to trust.
    """

    def __init__(
        self,
        *,
        chunk: int = 16,
        keep: int = 1000,
        models: Sequence[str] = ("test-model", "test-reasoner"),
        strict: bool = False,
        tls: bool = False,
        port: int = 0,
    ) -> None:
        super().__init__("interlingua-test-server")
        self.chunk = chunk
        self.models = tuple(models)
        self.strict = strict
        self._authority = _Authority() if tls else None
        self._port = port
        self._runner: web.AppRunner | None = None
        self._stopping = False
        self._changed = threading.Condition()
        self._queue: deque[_Entry] = deque()
        self._routes: dict[tuple[str, str], Any] = {}
        self._requests: deque[Received] = deque(maxlen=keep)
        self._disconnects: deque[Disconnect] = deque(maxlen=keep)
        self._awaited: deque[Disconnect] = deque(maxlen=keep)
        self._received = 0
        self._calls = 0
        self._streams = 0

    # --- addresses ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"Server({self.url!r})" if self._port else "Server(not started)"

    @property
    def url(self) -> str:
        """Its URL. A path without an api name is matched by its end (`/v1/messages`, `/api/chat`)."""
        if self._port == 0:
            raise InterlinguaError("the server has not started; use `with Server() as server:`")
        return f"{'https' if self._authority else 'http'}://127.0.0.1:{self._port}"

    def base_url(self, api: str) -> str:
        """The URL to which a dialect's `path` is appended; also the base URL for the vendors' own clients."""
        found = wire(api)
        return f"{self.url}/{found.api}{found.http.base}"

    @property
    def ca_pem(self) -> bytes:
        """The certificate of the authority that signed this server's (`tls=True`)."""
        if self._authority is None:
            raise InterlinguaError("this server has no TLS; create it with Server(tls=True)")
        return self._authority.pem

    # --- replies -----------------------------------------------------------------------------------------------------

    def answer(
        self,
        reply: Reply,
        *,
        times: int | None = None,
        fault: Fault | Iterable[Fault] = (),
        chunk: int | None = None,
    ) -> None:
        """Queues a reply: text, a block or several, a message, a ProviderError, or a function of the request.

        Each reply is for one request, or `times`; requests affected by a fault with its own `times` do not count. The
        last one stays, unless it has `times`: then the echo is back.
        """
        faults = tuple(fault) if isinstance(fault, Iterable) else (fault,)
        with self._changed:
            self._queue.append(_Entry(reply, times, faults, chunk or self.chunk))

    def say(self, text: str, *, thinking: str | None = None, **how: Any) -> None:
        """Queues text, after optional thinking; otherwise like `answer`."""
        thought: tuple[Block, ...] = (ThinkingBlock(thinking=thinking),) if thinking else ()
        self.answer((*thought, TextBlock(text=text)), **how)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
        text: str = "",
        **how: Any,
    ) -> None:
        """Queues a tool call, after optional text; otherwise like `answer`. A list of blocks is several at once."""
        with self._changed:
            self._calls += 1
            number = self._calls
        call = ToolCall(id=id or f"call_{number}", name=name, arguments=dict(arguments or {}))
        self.answer((TextBlock(text=text), call) if text else (call,), **how)

    def route(self, method: str, path: str, reply: Any) -> None:
        """Handles a path that no dialect has: with JSON, `(status, JSON)`, or a function from `Received` to either."""
        with self._changed:
            self._routes[method.upper(), path] = reply

    # --- recorded traffic --------------------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Received]:
        """The last `keep` requests, oldest first."""
        with self._changed:
            return list(self._requests)

    @property
    def last(self) -> Received:
        """The newest request."""
        with self._changed:
            if not self._requests:
                raise InterlinguaError("the server has received no request")
            return self._requests[-1]

    @property
    def disconnects(self) -> list[Disconnect]:
        """The clients that disconnected during a response."""
        with self._changed:
            return list(self._disconnects)

    @property
    def open_streams(self) -> int:
        """The number of responses being sent."""
        return self._streams

    @property
    def open_connections(self) -> int:
        """The number of open connections, idle ones included."""
        if self._runner is None:
            return 0
        return self._count() if self._thread.inside else self._thread.run(_awaited(self._count))

    def clear(self) -> None:
        """Clears recorded requests and queued replies."""
        with self._changed:
            for pending in (self._queue, self._requests, self._disconnects, self._awaited):
                pending.clear()
            self._routes.clear()

    def wait_for_disconnect(self, timeout: float = 5.0) -> Disconnect:
        """Blocks until a client disconnects during a response; each one is reported once.

        Do not call it in a thread whose event loop must close the connection: await `disconnected` there.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._awaited), timeout):
                raise TimeoutError(f"no client disconnected within {timeout} seconds")
            return self._awaited.popleft()

    async def disconnected(self, timeout: float = 5.0) -> Disconnect:
        """`wait_for_disconnect` for callers with an event loop."""
        return await asyncio.to_thread(self.wait_for_disconnect, timeout)

    def wait_for_requests(self, count: int, timeout: float = 5.0) -> None:
        """Blocks until so many requests have arrived since the start."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._received >= count, timeout):
                raise TimeoutError(f"{self._received} of {count} requests came within {timeout} seconds")

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        self._stopping = False
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # Handlers are cancelled when their client disconnects: that is how a disconnect is detected at once.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        tls = self._authority.server_context() if self._authority else None
        site = web.TCPSite(runner, "127.0.0.1", self._port, backlog=4096, ssl_context=tls)
        await site.start()
        self._runner = runner
        self._port = runner.addresses[0][1]

    async def _close(self) -> None:
        self._stopping = True
        runner, self._runner = self._runner, None
        if runner is not None:
            open_connections = [one.transport for one in runner.server.connections] if runner.server else []
            await runner.cleanup()
            for transport in open_connections:
                if transport is not None:
                    transport.abort()  # unread data would keep it open beyond the loop
            await asyncio.sleep(0)

    def _count(self) -> int:
        server = self._runner.server if self._runner else None
        return len(server.connections) if server else 0

    # --- one request -------------------------------------------------------------------------------------------------

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        matched = route(http.rel_url.raw_path, http.headers)
        received = self._record(http, await http.read(), matched)
        own = self._routes.get((http.method, http.path))
        if own is not None:
            reply = own(received) if callable(own) else own
            return _json(*(reply if isinstance(reply, tuple) else (200, reply)))
        if matched.listing and http.method == "GET":
            return _json(200, wire(matched.api).http.list_models(self.models))
        if not matched.known or http.method != "POST":
            return self._unknown(received)
        return await self._serve(http, received, await self._answer(received, matched, http.query))

    def _record(self, http: web.Request, body: bytes, matched: PathRoute) -> Received:
        """Records a request after decoding it: waiters find it complete."""
        received = Received(
            index=0,
            api=matched.api,
            method=http.method,
            path=http.rel_url.raw_path_qs,
            headers=http.headers,
            body=body,
            time=time.monotonic(),
        )
        try:
            received.json = jsontext.read(body) if body else None
            if matched.known and not matched.listing:
                received.request = self._decoded(body, matched)
        except InterlinguaError as error:
            received.error = str(error)
        with self._changed:
            received.index = self._received
            self._received += 1
            self._requests.append(received)
            self._changed.notify_all()
        return received

    def _decoded(self, body: bytes, matched: PathRoute) -> Request:
        codec = dialect(matched.api)
        request = codec.decode_request(body, model=matched.model, stream=matched.stream)
        if not request.context.messages:
            raise InterlinguaError("the request has no messages")
        findings = check(request, target=matched.api) if self.strict else ()
        wrong = [f"{finding.path}: {finding.message}" for finding in findings if finding.severity == "error"]
        if wrong:
            # Decoding undoes repairs, such as media moved out of results: a body that already has them is valid.
            repaired = adapt(request, ModelDescriptor(id=request.model.id, api=matched.api)).request
            if codec.encode_request(repaired).body != jsontext.read(body):
                raise InterlinguaError("; ".join(wrong))
        return request

    def _unknown(self, received: Received) -> web.StreamResponse:
        received.error = f"nothing answers {received.method} {received.path}"
        error = ProviderError(received.error, status=404)
        if not received.api:
            return _json(404, {"error": {"message": received.error, "type": "not_found"}})
        status, body, headers = wire(received.api).error_response(error)
        return web.Response(status=status, body=body, headers={**headers, "content-type": JSON})

    async def _answer(self, received: Received, matched: PathRoute, query: Mapping[str, str]) -> Answer:
        """Returns the answer to send: the queued reply, after its faults."""
        request = received.request
        if request is None:
            return _refused(received, BadRequest(received.error or "the request cannot be read", status=400))
        entry, faults = self._next()
        if any(fault.replaces for fault in faults):
            answer = self._blank(received, _streams(request, matched), query)
        else:
            given = await self._encoded(entry.reply, request, received)
            answer = self._encoded_answer(given, request, received, matched, query, entry.chunk)
        for fault in faults:
            answer = fault.apply(answer)
        return answer

    def _next(self) -> tuple[_Entry, tuple[Fault, ...]]:
        with self._changed:
            while self._queue and self._queue[0].is_over(more=len(self._queue) > 1):
                self._queue.popleft()
            entry = self._queue[0] if self._queue else _Entry(echo, None, (), self.chunk)
            faults = entry.active()
            entry.used += 1
        return entry, faults

    async def _encoded(self, reply: Reply, request: Request, received: Received) -> Answered:
        if not callable(reply):
            return reply
        try:
            given = reply(request)
            return await given if inspect.isawaitable(given) else given
        except ProviderError as error:
            return error
        except Exception as error:  # a test's own function
            log.exception("the function that makes the reply failed")
            received.error = f"{type(error).__name__}: {error}"
            return ProviderError(f"the function that makes the reply failed: {received.error}", status=500)

    def _encoded_answer(
        self,
        given: Answered,
        request: Request,
        received: Received,
        matched: PathRoute,
        query: Mapping[str, str],
        chunk: int,
    ) -> Answer:
        if isinstance(given, ProviderError):
            return _refused(received, given)
        codec = dialect(matched.api)
        stamp = int(time.time()) * 1000  # no wire is finer than seconds
        try:
            message = message_of(given, request, matched.api, received.index + 1, stamp)
            blank = self._blank(received, _streams(request, matched), query)
            if not blank.streamed:
                received.message = message
                return replace(blank, steps=(Piece(codec.encode_response(message).bytes(), True),))
        except InterlinguaError as error:
            received.error = str(error)
            return _refused(received, ProviderError(f"the reply cannot be encoded: {error}", status=500))
        received.message = message
        pieces = frames(wire(matched.api), message, request, chunk)
        return replace(blank, steps=array(pieces) if blank.content_type == JSON else pieces)

    def _blank(self, received: Received, streamed: bool, query: Mapping[str, str]) -> Answer:
        """Returns an empty answer of the right kind."""
        facts = wire(received.api).http
        kind = facts.content_type if streamed else JSON
        if streamed and facts.json_streams and query.get("alt") != "sse":
            kind = JSON
        charset = facts.charset if kind == SSE else ""
        headers = {"content-type": kind + charset, facts.request_id: f"req_test{received.index + 1}"}
        if kind == SSE:
            headers["cache-control"] = "no-cache"
        return Answer(api=received.api, headers=headers, content_type=kind, streamed=streamed, steps=())

    # --- sending -----------------------------------------------------------------------------------------------------

    async def _serve(self, http: web.Request, received: Received, answer: Answer) -> web.StreamResponse:
        self._streams += 1
        try:
            return await _send(http, answer)
        except ConnectionError:
            self._left(received)
            return web.Response()  # the client is gone
        except asyncio.CancelledError:
            if not self._stopping:
                self._left(received)
            raise
        finally:
            self._streams -= 1

    def _left(self, received: Received) -> None:
        gone = Disconnect(time.monotonic(), received.index)
        with self._changed:
            self._disconnects.append(gone)
            self._awaited.append(gone)
            self._changed.notify_all()


def _refused(received: Received, error: ProviderError) -> Answer:
    refusing = wire(received.api)
    status, body, headers = refusing.error_response(error)
    fields = {**headers, "content-type": JSON, refusing.http.request_id: f"req_test{received.index + 1}"}
    return Answer(
        api=received.api,
        status=status,
        headers=fields,
        content_type=JSON,
        streamed=False,
        steps=(Piece(body, True),),
    )


def _streams(request: Request, matched: PathRoute) -> bool:
    given = request.options.stream if matched.stream is None else matched.stream
    return wire(matched.api).http.stream_default if given is None else given


def _json(status: int, value: Any) -> web.Response:
    return web.Response(status=status, body=jsontext.write(value), content_type=JSON)


async def _awaited(call: Callable[[], int]) -> int:
    return call()


# --- TLS -------------------------------------------------------------------------------------------------------------


class _Authority:
    """A certificate authority for one test. It signs for this machine's names only, and nothing trusts it unless
    configured to.
    """

    def __init__(self) -> None:
        try:
            import trustme
        except ImportError:
            raise InterlinguaError('Server(tls=True) needs trustme; pip install "interlingua[testing]"') from None
        self._authority = trustme.CA()
        self._certificate = self._authority.issue_cert("127.0.0.1", "localhost")

    @property
    def pem(self) -> bytes:
        return self._authority.cert_pem.bytes()

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._certificate.configure_cert(context)
        return context


# --- sending an answer, step by step ---------------------------------------------------------------------------------

_NO_LINGER = struct.pack("ii", 1, 0)  # closing discards unsent data and resets the connection


async def _send(http: web.Request, answer: Answer) -> web.StreamResponse:
    if answer.delay:
        await asyncio.sleep(answer.delay)
    if answer.headers is None:
        return await _send_raw(http, answer)
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    if isinstance(answer.steps, tuple) and all(isinstance(step, Piece) for step in answer.steps):
        response.content_length = sum(len(step.data) for step in answer.steps if isinstance(step, Piece))
    await response.prepare(http)
    for step in answer.steps:
        match step:
            case Piece():
                await response.write(step.data)
                await asyncio.sleep(0)  # let others send, and let this client disconnect
            case Wait():
                await _silence(step.seconds)
            case HangUp():
                _close_connection(http, step.reset)
                return response
    await response.write_eof()
    return response


async def _send_raw(http: web.Request, answer: Answer) -> web.StreamResponse:
    for step in answer.steps:
        match step:
            case Piece():
                if http.transport is not None:
                    http.transport.write(step.data)
            case Wait():
                await _silence(step.seconds)
            case HangUp():
                _close_connection(http, step.reset)
    return web.Response()


async def _silence(seconds: float | None) -> None:
    if seconds is None:
        await asyncio.Event().wait()
    else:
        await asyncio.sleep(seconds)


def _close_connection(http: web.Request, reset: bool) -> None:
    """Closes the connection; aiohttp then finds it closed, and writes nothing more."""
    transport = http.transport
    if transport is None:
        return
    if reset:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()
    else:
        transport.close()
