"""The gateway as a server: its life, and the way of each request: read, admitted, dispatched or answered here, settled.

async with Gateway(Settings(listen=Listen(port=0))) as gateway:
    print(gateway.url)
"""

import asyncio
import contextlib
import os
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

from aiohttp import web
from msgspec.structs import replace

from ..connect.client import Client
from ..connect.registry import ConnectorRegistry
from ..connect.retry import Breaker
from ..connect.transport import HttpTransport, Transport
from ..dialects import WIRES
from ..dialects.provider_errors import as_provider_error, status_of
from ..dialects.wire import JSON, SSE
from ..serving.listener import listen_error, refuse_socket_in_use, stop_accepting
from ..values import jsontext
from ..values.errors import Aborted, BadRequest, InterlinguaError, Overloaded, TimedOut
from ..values.folding import unfold
from ..values.messages import AssistantMessage, Usage
from ..values.tokens import taken
from .background import Background, BackgroundRun, is_background, without_client
from .cache_breaks import SentPrompts
from .costs import reserve
from .dispatch import Dispatcher
from .endpoints import Endpoints, first_event, wants_stream
from .exchange import LOCAL, ClientKey, Exchange, Gate, Observer, Reservation
from .front import Front, HandedOver, PlainRequest
from .incoming import (
    LARGE_BODY,
    ClientRequest,
    Incoming,
    aside,
    identify,
    method_of,
    read_body,
    read_request,
    refuse_other_encodings,
    rephrase,
    secret_of,
)
from .operations import GatewayOperation, operation_of
from .passthrough import Passthrough
from .recall import Recall
from .references import References, keep_latest
from .replying import (
    LEFT,
    LOSSES,
    Channel,
    ClientReply,
    HttpChannel,
    SocketChannel,
    as_typed_error,
    error_answer,
    stopping_error,
)
from .routing import Router
from .settings import Settings
from .settlement import Settlement
from .sockets import HEARTBEAT, SocketLane, SocketLanes, SocketMessage

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_SHUTDOWN = 3.0  # seconds that open exchanges have when the gateway stops
_ENDING = 1.0  # seconds that clients then have to receive the error
_DEFAULTS = Settings()


class Gateway:
    """One address for every client format and every provider. `gate` decides who may ask what; without one, everybody
    who reaches the address may ask everything. `observers` see each exchange when it has ended."""

    def __init__(
        self,
        settings: Settings = _DEFAULTS,
        *,
        gate: Gate | None = None,
        observers: Sequence[Observer] = (),
        client: Client | None = None,
        transport: Transport | None = None,
        recall: Recall | None = None,
    ) -> None:
        self.settings = settings
        self.gate = gate
        self._settlement = Settlement(observers)
        self.routes: dict[tuple[str, str], Handler] = {}  # further paths: metrics, health
        self._own_transport = None if transport is not None else HttpTransport(remembers_proxies=True)
        self._transport: Transport = transport or self._own_transport or HttpTransport()
        self._client = client or Client(transport=self._transport)
        self.breaker = Breaker()
        self._router = Router(settings, self._client, self.breaker)
        self._listener: asyncio.Server | None = None
        self._socket_file: os.stat_result | None = None  # of a Unix socket
        self._front: Front | None = None
        self._address = ""
        self.recall = Recall(settings.recall_bytes) if recall is None else recall
        self._references = References(self.recall)
        self._background = Background(self.recall)
        self._endpoints = Endpoints(self._references, self._background)
        prompts = SentPrompts(settings.recall_bytes // 4) if settings.recall_bytes > 0 else None
        self._dispatcher = Dispatcher(self._transport, self.breaker, self._references, prompts)
        self._active: set[asyncio.Task[Any]] = set()  # each with an open exchange
        self._passthrough = Passthrough(self._transport, self._settlement, self._dispatcher, self._active)
        self._sockets: set[SocketLanes] = set()
        self._grace = _SHUTDOWN
        self._is_draining = False  # no new requests

    @property
    def connectors(self) -> ConnectorRegistry:
        """The connectors of its client; those of plugins are registered here before it is started."""
        return self._client.connectors

    @property
    def observers(self) -> list[Observer]:
        """What sees each exchange when it has ended; others may be added."""
        return self._settlement.observers

    # --- life

    async def start(self) -> None:
        """Resolves every alias, then listens."""
        await self._router.resolve()
        self._settlement.catalogue = self._router.catalogue
        tuple(WIRES.values())  # loaded now: the first request must not wait for it
        listen, limits = self.settings.listen, self.settings.limits
        handed_over = HandedOver(
            self.handle,
            first=limits.body_timeout,
            request_factory=self._request,
            access_log=None,
            max_line_size=limits.header,
            max_field_size=limits.header,
            tcp_keepalive=True,
        )
        front = Front(self._answer_plain, handed_over, lambda: self.settings.limits)
        tls = None
        if listen.tls_cert is not None:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            try:
                tls.load_cert_chain(listen.tls_cert, listen.tls_key)
            except OSError as error:
                files = " and ".join(filter(None, (listen.tls_cert, listen.tls_key)))
                raise InterlinguaError(f"cannot use {files} for TLS: {error.strerror}; check both PEM files") from None
        loop = asyncio.get_running_loop()
        try:
            if listen.unix is not None:
                refuse_socket_in_use(listen.unix)
                self._listener = await loop.create_unix_server(front, listen.unix, ssl=tls)
                self._socket_file = Path(listen.unix).stat()
                self._address = f"unix:{listen.unix}"
            else:
                reuse = listen.reuse_port or None
                self._listener = await loop.create_server(
                    front, listen.host, listen.port, ssl=tls, backlog=4096, reuse_port=reuse
                )
                host = f"[{listen.host}]" if ":" in listen.host else listen.host
                port = self._listener.sockets[0].getsockname()[1]
                self._address = f"http{'s' if tls else ''}://{host}:{port}"
        except OSError as error:
            if listen.unix is not None:
                raise listen_error(listen.unix, error, "path") from None
            raise listen_error(f"{listen.host}:{listen.port}", error) from None
        self._front = front

    async def drain(self, seconds: float) -> None:
        """Accepts no new connections, and waits for active exchanges, up to a timeout."""
        if self._listener is None:
            return
        await self._close_listener(self._listener)
        self._stop_sockets()
        await self._none_open(seconds)
        self._grace = 0.0  # it is over
        await self._settlement.flush()

    async def _none_open(self, seconds: float) -> None:
        """Waits until no exchange is open, up to a timeout."""
        deadline = time.monotonic() + seconds
        while self._active and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Closes the listener; after a short grace period, open exchanges end with an error in the client's wire."""
        if self._listener is not None:
            await self._close_listener(self._listener)
            self._listener = None
        if self._front is not None:
            await asyncio.sleep(0)  # what came before is under way now, not unused
            self._front.close_idle()
            self._stop_sockets()
            await self._none_open(self._grace)
            self._dispatcher.is_stopping = True
            for task in self._active:
                task.cancel()
            await self._none_open(_ENDING)
            await self._background.stop(_ENDING)
            await self._front.shutdown(max(self._grace, _ENDING))
            self._front = None
        await self._settlement.flush()
        if self._own_transport is not None:
            await self._own_transport.aclose()

    def _stop_sockets(self) -> None:
        """Closes idle WebSockets; others when their responses are complete."""
        self._is_draining = True
        for lanes in tuple(self._sockets):
            lanes.stop()

    async def _close_listener(self, listener: asyncio.Server) -> None:
        """Closes the listener, and removes the file of its Unix socket, unless it is another's by now."""
        await stop_accepting(*listener.sockets)
        listener.close()
        own, self._socket_file = self._socket_file, None  # removed once: a later file may get the same inode number
        if self.settings.listen.unix is not None and own is not None:
            path = Path(self.settings.listen.unix)
            with contextlib.suppress(OSError):
                if os.path.samestat(own, path.stat()):
                    path.unlink()

    async def reload(self, settings: Settings) -> None:
        """Applies other settings to new exchanges; active ones keep the old."""
        router = Router(settings, self._client, self.breaker)
        await router.resolve()
        self._router, self.settings = router, settings
        self._settlement.catalogue = router.catalogue

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def open_exchanges(self) -> int:
        """The number of exchanges that have not ended."""
        return len(self._active)

    @property
    def url(self) -> str:
        """The URL at which it listens."""
        return self._address

    def models(self, key: ClientKey = LOCAL) -> list[str]:
        """Returns the names of the models that a key may use."""
        return self._router.names(key)

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        if self._front is not None:
            self._front.server.silent.discard(protocol)
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=self.settings.limits.body
        )

    # --- one request

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        path = http.rel_url.raw_path
        if http.method == "HEAD" and path == "/":
            return web.Response()
        asked = operation_of(method_of(http), path, http.headers)
        exchange = _exchange(asked)
        is_surplus = self._front is not None and http.protocol in self._front.server.surplus
        channel = HttpChannel(http, closes=is_surplus)
        try:
            return await self._served(http, asked, exchange, channel)
        except ConnectionError:  # the client left: those of providers are typed
            raise
        except Exception as error:
            await self._send_error(http, exchange, error, channel)
            return channel.response

    async def _answer_plain(self, http: PlainRequest, asked: GatewayOperation, channel: Channel) -> None:
        """Answers one plain call."""
        exchange = _exchange(asked)
        try:
            exchange.key = await identify(http, asked.wire, self.gate, self.settings.listen)
            await self._converse(http, asked, exchange, channel)
        except ConnectionError:
            raise
        except Exception as error:
            await self._send_error(http, exchange, error, channel)

    async def _send_error(self, http: ClientRequest, exchange: Exchange, error: Exception, channel: Channel) -> None:
        failure = as_typed_error(exchange, error, secret_of(http))
        await self._refuse(exchange, failure)
        status, body, headers = error_answer(exchange, failure)
        await channel.send(status, {**ClientReply(channel, exchange).headers(), **headers}, body)

    async def _served(
        self, http: web.BaseRequest, asked: GatewayOperation, exchange: Exchange, channel: HttpChannel
    ) -> web.StreamResponse:
        own = self.routes.get((method_of(http), http.rel_url.raw_path))
        if own is not None:
            return await own(http)
        if channel.closes:
            raise Overloaded(
                f"more than {self.settings.limits.connections} connections are open; retry later",
                status=503,
                code="too_many_connections",
                retry_after=1.0,
            )
        exchange.key = await identify(http, asked.wire, self.gate, self.settings.listen)
        if asked.kind in ("call", "rephrased"):
            await self._converse(http, asked, exchange, channel)
            return channel.response
        is_upgrade = http.method == "GET" and http.headers.get("Upgrade", "").lower() == "websocket"
        if is_upgrade and asked.wire.http.stored_route is not None and _is_call(http.rel_url.raw_path):
            return await self._socket(http, asked, exchange)
        if asked.kind == "other":
            return await self._passthrough.answer(
                http, exchange, channel, self._router, self.gate, self.settings.limits
            )
        run = self._background.run(exchange.key.name, asked.id) if asked.kind == "stored" else None
        if run is not None and asked.part is None and http.method == "GET" and wants_stream(http.query):
            start, exchange.is_stream = first_event(http.query), True
            await run.deliver(self._shown(channel, exchange), start)
            return channel.response
        value = await self._endpoints.answer(http, asked, exchange, self._router, self.settings.limits)
        headers = ClientReply(channel, exchange).headers()
        if asked.kind == "stored" and (stored := self.recall.stored(exchange.key.name, asked.id)) and stored.losses:
            headers[LOSSES] = stored.losses
        if isinstance(value, bytes):
            return web.Response(body=value, content_type=SSE, charset="utf-8", headers=headers)
        return _json(value, headers)

    async def _refuse(self, exchange: Exchange, failure: InterlinguaError) -> None:
        exchange.error, exchange.status = failure, status_of(as_provider_error(failure))
        await self._settlement.close_refused(exchange)

    async def _converse(
        self, http: ClientRequest, asked: GatewayOperation, exchange: Exchange, channel: Channel
    ) -> None:
        if self._settlement.is_behind():
            await self._settlement.flush()  # backpressure: new requests wait until the backlog is written
        if isinstance(http, PlainRequest) and http.is_whole:
            body = http.arrived()
        else:
            body = await read_body(http, self.settings.limits)
        refuse_other_encodings(body)
        rephrased, received = None, body
        if asked.kind == "rephrased" and asked.wire.http.rephrased is not None:
            rephrased = asked.wire.http.rephrased
            body = await aside(len(body), rephrase, rephrased.request, body)
        incoming = await read_request(http, body, asked, exchange, self._references)
        if rephrased is not None:
            own = incoming.request.extra.get(asked.wire.base, {})
            is_own = any(name in own for name in rephrased.own_fields)
            incoming = replace(incoming, received=received, rephrased=rephrased if is_own else None)
        if is_background(incoming):
            await self._in_background(http, incoming, exchange, channel)
            return
        reply = ClientReply(
            channel,
            exchange,
            keep_alive=self.settings.keep_alive,
            send_timeout=self.settings.limits.send_timeout,
            as_array=incoming.as_array,
            rephrased=rephrased.answer if rephrased is not None else None,
            before_end=self._settlement.before_end,
        )
        if "prepares" in exchange.extra:
            await self._prepare(http, incoming, exchange, reply)
        else:
            await self._answer(http, incoming, exchange, reply)

    async def _in_background(
        self, http: ClientRequest, incoming: Incoming, exchange: Exchange, channel: Channel
    ) -> None:
        """Starts a response that goes on without its client, who gets its state, or its stream."""
        shown = replace(exchange)
        incoming = without_client(incoming, exchange)
        exchange.is_stream = True  # a long response outlasts the timeouts of an unstreamed one

        async def generate(run: BackgroundRun, admitted: asyncio.Future[None]) -> None:
            reply = ClientReply(run, exchange, before_end=self._settlement.before_end)
            await self._answer(http, incoming, exchange, reply, admitted)

        run, pending = await self._background.start(exchange, generate, shown.is_stream)
        reply = self._shown(channel, shown)
        if shown.is_stream:
            await run.deliver(reply)
        else:
            await reply.whole(pending.bytes())

    def _shown(self, channel: Channel, exchange: Exchange) -> ClientReply:
        """The reply to a client that looks at the exchange of another request."""
        limits = self.settings.limits
        return ClientReply(channel, exchange, keep_alive=self.settings.keep_alive, send_timeout=limits.send_timeout)

    async def _answer(
        self,
        http: ClientRequest,
        incoming: Incoming,
        exchange: Exchange,
        reply: ClientReply,
        admitted: asyncio.Future[None] | None = None,
    ) -> None:
        """Handles one exchange, from the checks to the settlement."""
        size = 0
        if self.gate is not None or self.settings.rules:
            given = (incoming.resolved or incoming.request).context
            if incoming.tokens is not None:
                size = incoming.tokens
            else:
                is_small = len(exchange.body) <= LARGE_BODY
                size = taken(given) if is_small else await asyncio.to_thread(taken, given)
        plan = await self._router.plan(exchange.asked_model, exchange.key, incoming.request, http.headers, size)
        reservation: Reservation | None = None
        if self.gate is not None:
            catalogue = self._router.catalogue
            reservation = await reserve(self.gate, catalogue, exchange, plan, incoming.request, size)
        if admitted is not None and not admitted.done():
            admitted.set_result(None)
        task = asyncio.current_task()
        assert task is not None
        self._active.add(task)
        longest, clock = self.settings.limits.total, None
        try:
            try:
                if longest is None:
                    await self._dispatcher.dispatch(exchange, incoming, plan, reply)
                else:
                    clock = asyncio.timeout(longest - (time.time() - exchange.started))
                    async with clock:
                        await self._dispatcher.dispatch(exchange, incoming, plan, reply)
            except ConnectionError:
                raise
            except Exception as error:  # no attempt has ended it: the client is still owed an end
                too_long = isinstance(error, TimeoutError) and clock is not None and clock.expired()
                message = f"the exchange took longer than {longest or 0:g} s; ask for less at once"
                await reply.fail(TimedOut(message) if too_long else as_typed_error(exchange, error, secret_of(http)))
        except (asyncio.CancelledError, ConnectionError) as left:  # the client's: those of the provider are typed
            if self._dispatcher.is_stopping and isinstance(left, asyncio.CancelledError):
                with contextlib.suppress(ConnectionError):
                    await reply.fail(stopping_error())
            if not reply.ended:  # a client may leave as soon as it has the end
                exchange.is_aborted = True
                exchange.error = exchange.error or Aborted(LEFT)
            if isinstance(left, asyncio.CancelledError):
                raise
        finally:
            reply.stop()
            self._active.discard(task)
            self._settlement.close(exchange, reservation)

    async def _socket(self, http: web.BaseRequest, asked: GatewayOperation, exchange: Exchange) -> web.StreamResponse:
        """Requests over a WebSocket: each message `response.create` is answered with its events."""
        socket = web.WebSocketResponse(max_msg_size=self.settings.limits.body, heartbeat=HEARTBEAT, timeout=_ENDING)
        try:
            await socket.prepare(http)
        except web.HTTPException as error:
            raise BadRequest(f"no WebSocket handshake: {error.text}; send version 13 and a key", status=400) from None

        async def respond(given: SocketMessage | InterlinguaError, lane: SocketLane) -> bool:
            one = replace(exchange, id=_new_id(), started=time.time(), extra={"lane": lane})
            reply = ClientReply(SocketChannel(http, socket, lane.name), one, before_end=self._settlement.before_end)
            try:
                await self._message(http, given, asked, one, reply)
            except ConnectionError:
                return False
            except Exception as error:
                failure = as_typed_error(one, error, secret_of(http))
                await self._refuse(one, failure)
                with contextlib.suppress(ConnectionError):
                    await reply.fail(failure)
            return True

        lanes = SocketLanes(socket, respond)
        self._sockets.add(lanes)
        try:
            await lanes.run()
        finally:
            self._sockets.discard(lanes)
        return socket

    async def _message(
        self,
        http: web.BaseRequest,
        given: SocketMessage | InterlinguaError,
        asked: GatewayOperation,
        exchange: Exchange,
        reply: ClientReply,
    ) -> None:
        """One message of a WebSocket, or why it cannot be read. Its key may have been revoked since the last one."""
        exchange.key = await identify(http, asked.wire, self.gate, self.settings.listen)
        if isinstance(given, InterlinguaError):
            raise given
        if self._is_draining:
            raise stopping_error()
        body, generates = given.request()
        if not generates:
            exchange.extra["prepares"] = True
        incoming = await read_request(http, body, GatewayOperation("call", asked.wire), exchange, self._references)
        incoming = replace(incoming, received=given.received)
        if "prepares" in exchange.extra:
            await self._prepare(http, incoming, exchange, reply)
        else:
            await self._answer(http, incoming, exchange, reply)

    async def _prepare(self, http: ClientRequest, incoming: Incoming, exchange: Exchange, reply: ClientReply) -> None:
        """Answers a request that is not to be generated, without a provider: a model to be loaded, or a response that
        the next request continues by its id.
        """
        await self._router.plan(exchange.asked_model, exchange.key, incoming.request, http.headers, 0)
        id = exchange.id.replace("req_", "resp_")
        answer = AssistantMessage(
            content=(),
            model=exchange.asked_model,
            response_id=id,
            usage=Usage.of(0, 0),
            stop_reason="stop",
            stop_detail="load" if incoming.wire.http.empty_loads else None,
            timestamp=int(exchange.started * 1000),
        )
        keep_latest(exchange, id, incoming.request, answer)
        if exchange.is_stream:
            encoder = incoming.wire.codec.StreamEncoder(request=exchange.with_references(incoming.request))
            await reply.end(b"".join(map(encoder.feed, unfold(answer))) + encoder.close())
        else:
            asked = exchange.with_references(incoming.request)
            await reply.whole(incoming.wire.codec.encode_response(answer, request=asked).bytes(), ())
        self._settlement.close(exchange, None)


def _new_id() -> str:
    """The id of an exchange. It begins with the time: the ledger's index of ids then grows at its end."""
    return f"req_{int(time.time() * 1000):012x}{random.getrandbits(64):016x}"


def _exchange(asked: GatewayOperation) -> Exchange:
    return Exchange(
        id=_new_id(),
        key=LOCAL,
        wire=asked.wire,
        asked_model=asked.model or "",
        is_stream=False,
        started=time.time(),
    )


def _is_call(path: str) -> bool:
    return operation_of("POST", path, {}).kind == "call"


def _json(value: Any, headers: Mapping[str, str]) -> web.Response:
    return web.Response(body=jsontext.write(value), content_type=JSON, headers=headers)
