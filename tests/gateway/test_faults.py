"""Whatever an upstream does, the client's package sees one valid answer or its own error, never an empty success."""

import asyncio
from collections.abc import Iterator
from contextlib import closing

import aiohttp
import pytest

import interlingua as il
from gateway.conftest import WIRES, settings_for
from gateway.sdks import CLIENTS, Client
from interlingua.connect.stream import Timeouts
from interlingua.gateway import Exchange, Gateway
from interlingua.testing import Server, faults
from interlingua.testing.threads import LoopThread

TEXT = "Hello, dear friend of mine, and a very good morning to you!"
QUICK = Timeouts(first=0.25, idle=0.25)
HARMLESS = [faults.Split(size=1), faults.Split(size=100_000), faults.Pace(seconds=0.001)]
FATAL = [
    faults.Status(500, times=None),
    faults.RateLimit(retry_after=1, times=None),
    faults.Refuse(),
    faults.Refuse(reset=True),
    faults.Empty(),
    faults.Html(),
    faults.Garbage(),
    faults.Garbage(http=False),
    faults.SlowHeaders(seconds=3),
    faults.Stall(after_events=2),
    faults.Cut(after_events=2),
    faults.Cut(after_events=2, neat=True),
    faults.Cut(after_bytes=150, reset=True),
    faults.ErrorEvent(il.Overloaded("the server is overloaded"), after_events=2),
    faults.Corrupt(at_event=2, how="json"),
    faults.Corrupt(at_event=2, how="frame"),
    faults.NoTerminal(),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(strict=True) as server:
        yield server


@pytest.fixture(scope="module")
def address(server: Server) -> Iterator[str]:
    thread = LoopThread("gateway-under-test")
    gateway = Gateway(settings_for(server, timeouts=QUICK))
    thread.start(gateway.start())
    yield gateway.url
    thread.run(gateway.stop())
    thread.stop()


@pytest.mark.parametrize("fault", HARMLESS, ids=repr)
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
@pytest.mark.parametrize("fault", FATAL, ids=repr)
@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.wire)
def test_fatal_faults_are_the_clients_own_errors(
    kind: type[Client], fault: faults.Fault, stream: bool, server: Server, address: str
) -> None:
    """
    The package raises; where the fault spares an answer in one piece, it is whole.
    """
    for upstream in WIRES:
        server.clear()
        server.say(TEXT, fault=fault)
        with closing(kind(address, upstream, stream=stream)) as client:
            try:
                answer = client.say("Hi")
            except Exception as error:
                assert "Traceback" not in str(error)
                assert "upstream-key" not in str(error)
            else:
                assert answer.text == TEXT, f"{upstream}: an answer of {answer.text!r} passed as a success"
                assert not stream or isinstance(fault, faults.Corrupt), upstream


async def _left_while(server: Server, gateway: Gateway, upstream: str) -> None:
    """A client that leaves while the upstream is silent."""
    body = {"model": upstream, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    async with aiohttp.ClientSession() as session:
        asking = asyncio.ensure_future(session.post(f"{gateway.url}/v1/chat/completions", json=body))
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
async def test_a_client_that_leaves_closes_the_upstream(upstream: str) -> None:
    """
    The upstream's connection closes at once, and what had come is in the books as aborted.
    """
    seen = _Seen()
    with Server(strict=True) as server:
        server.say(TEXT, fault=faults.Stall(after_events=3))
        async with Gateway(settings_for(server), observers=[seen]) as gateway:
            await _left_while(server, gateway, upstream)
            await server.disconnected(timeout=5.0)
            async with asyncio.timeout(5):
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
            await _left_while(server, gateway, "anthropic-messages")
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
