"""Whatever an upstream does, the client's package sees one valid answer or its own error, never an empty success."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import fields
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import interlingua as il
from gateway.conftest import WIRES, settings_for
from gateway.sdks import CLIENTS, Client
from gateway.test_defects import ask
from interlingua.connect.stream import Timeouts
from interlingua.dialects import dialect
from interlingua.gateway import Alias, Exchange, Gateway, Listen, ProviderSettings, Settings, Target
from interlingua.testing import Server, faults
from interlingua.testing.threads import LoopThread

TEXT = "Hello, dear friend of mine, and a very good morning to you!"
CUT = (openai.APIConnectionError, anthropic.APIConnectionError)  # no answer, or one that did not end
QUICK = Timeouts(first=0.25, idle=0.25)  # for faults that would keep a gateway waiting
HARMLESS = [
    faults.Split(size=1),
    faults.Split(size=100_000),
    faults.Pace(seconds=0.001),
    faults.Stall(after_events=2, seconds=0.1, pings=True, every=0.02),
]
FATAL = [
    faults.Status(500, times=None),
    faults.Status(503, "<b>busy</b>", times=None),
    faults.Status(418, {"teapot": True}, times=None),
    faults.RateLimit(retry_after=1, times=None),
    faults.RateLimit(retry_after="soon", ms=20, times=None),
    faults.Refuse(),
    faults.Refuse(reset=True),
    faults.Empty(),
    faults.Html(),
    faults.Html(status=502),
    faults.Status(200, {}, times=None),
    faults.Garbage(),
    faults.Garbage(http=False),
    faults.SlowHeaders(seconds=3),
    faults.Stall(after_events=2),
    faults.Stall(after_events=2, pings=True),
    faults.Cut(after_events=2),
    faults.Cut(after_events=2, neat=True),
    faults.Cut(after_bytes=150, reset=True),
    faults.ErrorEvent(il.Overloaded("the server is overloaded"), after_events=2),
    faults.Corrupt(at_event=2, how="json"),
    faults.Corrupt(at_event=2, how="frame"),
    faults.NoTerminal(),
]
# Twice the same frame may be an answer that says so, or what the wire forbids. A byte that is no UTF-8 is U+FFFD in a
# stream of events (html.spec.whatwg.org, 9.2.6), and an error elsewhere.
REPEATED = [faults.Repeat(), *(faults.Repeat(at_event=at) for at in range(5)), faults.Corrupt(at_event=2, how="utf8")]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(strict=True) as server:
        yield server


@contextmanager
def running(server: Server, **settings: Any) -> Iterator[str]:
    thread = LoopThread("gateway-under-test")
    gateway = Gateway(settings_for(server, **settings))
    thread.start(gateway.start())
    try:
        yield gateway.url
    finally:
        thread.run(gateway.stop())
        thread.stop()


@pytest.fixture
def address(server: Server) -> Iterator[str]:
    """A gateway for one test: with one for all, the circuits of all upstreams would soon be open."""
    with running(server) as url:
        yield url


def name_of(fault: Any) -> str:
    given = [getattr(fault, field.name) for field in fields(fault) if field.name != "times"]
    values = [str(value)[:20] for value in given if value is not None and value is not False]
    return "-".join((type(fault).__name__, *values))


def test_every_fault_is_tried() -> None:
    """A fault that is added to `interlingua.testing` is tried here, too."""
    kinds = {kind for kind in vars(faults).values() if isinstance(kind, type) and hasattr(kind, "replaces")}
    known = {kind for kind in kinds if not kind.__name__.startswith("_") and kind is not faults.Fault}
    assert known == {type(fault) for fault in (*HARMLESS, *FATAL, *REPEATED)}


@pytest.mark.parametrize("fault", HARMLESS, ids=name_of)
@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.wire)
def test_harmless_faults_change_nothing(kind: type[Client], fault: faults.Fault, server: Server, address: str) -> None:
    """
    However the bytes arrive, the client reads the same answer.
    """
    for upstream in WIRES:
        server.clear()
        server.say(TEXT, fault=fault)
        with closing(kind(address, upstream, stream=True)) as client:
            assert client.say("Hi").text == TEXT, upstream


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("fault", FATAL, ids=name_of)
@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.wire)
def test_fatal_faults_are_the_clients_own_errors(
    kind: type[Client], fault: faults.Fault, stream: bool, server: Server
) -> None:
    """
    The package raises; where the fault spares an answer in one piece, it is whole.
    """
    silent = isinstance(fault, faults.Stall | faults.SlowHeaders)

    def check(client: Client) -> None:
        upstream = client.model
        # On a busy machine the quick gateway may give up before the upstream has read the request.
        for _ in range(40 if silent else 1):
            try:
                answer = client.say("Hi")
            except kind.errors as error:
                assert not isinstance(error, CUT), f"{upstream}: the gateway broke the connection"
                assert "Traceback" not in str(error)
                assert "upstream-key" not in str(error)
            else:
                assert answer.text == TEXT, f"{upstream}: an answer of {answer.text!r} passed as a success"
                assert not stream or isinstance(fault, faults.Corrupt), upstream
            if any(request.api == upstream for request in server.requests):
                return
        raise AssertionError(f"{upstream}: the fault was not tried")

    with running(server, **({"timeouts": QUICK} if silent else {})) as address, ExitStack() as stack:
        clients = [stack.enter_context(closing(kind(address, upstream, stream=stream))) for upstream in WIRES]
        for together in [clients] if silent else [[client] for client in clients]:  # who waits, waits at once
            server.clear()
            server.say(TEXT, fault=fault)
            with ThreadPoolExecutor(len(together)) as pool:
                list(pool.map(check, together))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.wire)
def test_a_gateway_that_stops_tells_the_clients_that_wait(kind: type[Client], stream: bool, server: Server) -> None:
    """
    When the time to drain is over, an open answer ends in the client's own error, on its wire and on others.
    """
    for upstream in (kind.wire, "google-generative-ai" if kind.wire == "ollama-chat" else "ollama-chat"):
        server.clear()
        server.say(TEXT, fault=faults.Stall(after_events=2 if stream else 0))
        thread = LoopThread("gateway-under-test")
        gateway = Gateway(settings_for(server))
        thread.start(gateway.start())
        with ThreadPoolExecutor(1) as pool, closing(kind(gateway.url, upstream, stream=stream)) as client:
            answering = pool.submit(client.say, "Hi")
            while not server.requests and not answering.done():
                time.sleep(0.01)
            thread.run(gateway.drain(0.2))
            thread.run(gateway.stop())
            with pytest.raises(kind.errors) as raised:
                answering.result(30)
        thread.stop()
        assert not isinstance(raised.value, CUT), f"{upstream}: the gateway broke the connection"
        assert "the gateway is stopping" in str(raised.value), upstream


EMPTY_STREAMS = {
    "openai-completions": b"data: [DONE]\n\n",
    "openai-responses": b"data: {}\n\n",
    "anthropic-messages": b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    "google-generative-ai": b'data: {"candidates":[]}\n\n',
    "ollama-chat": b'{"done":true}\n',
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.wire)
def test_a_stream_that_has_nothing_but_its_end_is_an_error(
    kind: type[Client], stream: bool, server: Server, address: str
) -> None:
    """
    No content and no reason why there is none: the client must not take that for an answer.
    """
    for upstream, frames in EMPTY_STREAMS.items():
        server.clear()
        server.say(TEXT, fault=faults.Status(200, frames, times=None))
        with closing(kind(address, upstream, stream=stream)) as client, pytest.raises(kind.errors) as raised:
            client.say("Hi")
        assert not isinstance(raised.value, CUT), f"{upstream}: the gateway broke the connection"


@pytest.mark.parametrize("fault", REPEATED, ids=name_of)
@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.wire)
def test_repeated_frames_and_odd_bytes_are_one_answer_or_the_clients_own_error(
    kind: type[Client], fault: faults.Fault, server: Server, address: str
) -> None:
    """
    Whatever an upstream repeats, the package reads one stream: nothing of the text is missing, nothing breaks it.
    """
    for upstream in WIRES:
        server.clear()
        server.say(TEXT, fault=fault)
        with closing(kind(address, upstream, stream=True)) as client:
            try:
                answer = client.say("Hi")
            except kind.errors as error:
                assert not isinstance(error, CUT), f"{upstream}: the gateway broke the connection"
            else:
                assert _is_spread(TEXT, answer.text), f"{upstream}: {answer.text!r}"


def _is_spread(text: str, among: str) -> bool:
    """Whether the letters of a text are all there, in their order, with others between them."""
    rest = iter(among)
    return all(letter in rest for letter in text)


async def _left_while(server: Server, gateway: Gateway, client: str, upstream: str) -> None:
    """A client that leaves while the upstream is silent."""
    path, body = ask(client, upstream, True)
    async with aiohttp.ClientSession() as session:
        asking = asyncio.ensure_future(session.post(gateway.url + path, json=body))
        await asyncio.to_thread(server.wait_for_requests, 1)
        await asyncio.sleep(0.05)
        asking.cancel()
        (answer,) = await asyncio.gather(asking, return_exceptions=True)
        if isinstance(answer, aiohttp.ClientResponse):
            answer.close()


class _Seen:
    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    async def observe(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)


@pytest.mark.parametrize("upstream", WIRES)
@pytest.mark.parametrize("client", WIRES)
async def test_a_client_that_leaves_closes_the_upstream(client: str, upstream: str) -> None:
    """
    The upstream's connection closes at once, and what had come is in the books as aborted.
    """
    seen = _Seen()
    with Server(strict=True) as server:
        server.say(TEXT, fault=faults.Stall(after_events=3))
        async with Gateway(settings_for(server), observers=[seen]) as gateway:
            await _left_while(server, gateway, client, upstream)
            await server.disconnected(timeout=60)
            async with asyncio.timeout(60):
                while not seen.exchanges:
                    await asyncio.sleep(0.01)
    (exchange,) = seen.exchanges
    assert exchange.is_aborted
    assert exchange.usage is None or exchange.is_estimated


async def test_a_client_that_leaves_before_the_headers_closes_the_upstream() -> None:
    """
    Also while nothing has come back yet.
    """
    with Server(strict=True) as server:
        server.say(TEXT, fault=faults.SlowHeaders(seconds=30))
        async with Gateway(settings_for(server)) as gateway:
            await _left_while(server, gateway, "openai-completions", "anthropic-messages")
            await server.disconnected(timeout=5.0)


async def test_silence_gets_keep_alives_of_the_clients_wire() -> None:
    """
    While a model thinks, the stream shows signs of life; an error that follows them is an event.
    """
    with Server(strict=True) as server:
        server.say(TEXT, fault=faults.SlowHeaders(seconds=1.0))
        settings = settings_for(server, keep_alive=0.1, timeouts=Timeouts(first=0.5, idle=0.5))
        async with Gateway(settings) as gateway, aiohttp.ClientSession() as session:
            body = {
                "model": "openai-completions",
                "max_tokens": 10,
                "stream": True,
                "messages": [{"role": "user", "content": "Hi"}],
            }
            async with session.post(f"{gateway.url}/v1/messages", json=body) as response:
                text = await response.text()
    assert response.status == 200
    assert text.startswith('event: ping\ndata: {"type": "ping"}\n\n')
    assert text.rstrip().splitlines()[-2] == "event: error"
    assert "no response within" in text


@pytest.mark.parametrize("upstream_api", WIRES)
async def test_an_error_in_the_place_of_a_stream_has_its_status(upstream_api: str) -> None:
    """
    Some hosts refuse a stream with status 200 and an error in JSON: packages repeat a call by its status.
    """

    error = dialect(upstream_api).encode_error(il.RateLimited("too many", status=429))[1]

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response(error)

    app = web.Application()
    app.router.add_post("/{path:.*}", refuse)
    async with TestServer(app) as host:
        provider = ProviderSettings(id="host", api=upstream_api, base_url=str(host.make_url("")), api_keys=("k",))
        alias = Alias(name="m", targets=(Target(model="host/test-model"),), retries=0)
        settings = Settings(providers=(provider,), aliases=(alias,), listen=Listen(port=0))
        async with Gateway(settings) as gateway, aiohttp.ClientSession() as client:
            for path, body in (
                ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                ("/v1/responses", {"input": "x"}),
            ):
                given = {"model": "m", "stream": True, **body}
                async with client.post(gateway.url + path, json=given) as reply:
                    text = await reply.text()
                expected = 500 if upstream_api == "ollama-chat" else 429  # which has no name for it
                assert reply.status == expected and "too many" in text, (path, reply.status, text)
                assert "application/json" == reply.content_type
