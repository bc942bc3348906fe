"""Retries, keys in rotation, weights, breakers; and clients that leave, whatever the gateway is doing for them."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from msgspec.structs import replace

import interlingua as il
from gateway.conftest import WIRES, settings_for
from interlingua.gateway import Alias, Exchange, Gateway, ProviderSettings, Settings, Target
from interlingua.gateway.ledger import Ledger
from interlingua.gateway.replying import ClientReply
from interlingua.testing import Server, faults

BODY = {"model": "chain", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
LONG = 30.0  # seconds: longer than any test waits


class Seen:
    """The exchanges that have ended."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._changed = asyncio.Event()

    async def observe(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self._changed.set()

    async def one(self) -> Exchange:
        async with asyncio.timeout(10):
            await self._changed.wait()
        return self.exchanges[0]


def chained(first: Server, second: Server, *, provider: dict[str, Any] | None = None, **alias: Any) -> Settings:
    """An alias that leads to one server, and from there to another of another wire."""
    return replace(
        settings_for(first),
        providers=(
            ProviderSettings(
                id="one", api="anthropic-messages", base_url=first.base_url("anthropic-messages"), **(provider or {})
            ),
            ProviderSettings(id="two", api="openai-completions", base_url=second.base_url("openai-completions")),
        ),
        aliases=(
            Alias(
                name="chain",
                **{
                    "targets": (Target(model="one/test-model"),),
                    "fallbacks": (Target(model="two/test-model"),),
                    "retries": 0,
                    **alias,
                },
            ),
        ),
    )


async def post(gateway: Gateway, body: Any = BODY, path: str = "/v1/messages") -> int:
    async with aiohttp.ClientSession() as session, session.post(gateway.url + path, json=body) as response:
        await response.read()
        return response.status


async def test_a_target_is_asked_again_as_often_as_the_alias_says() -> None:
    """
    A failure of the moment is retried; a bad request is not.
    """
    with Server(strict=True) as server, Server(strict=True) as other:
        settings = chained(server, other, retries=2, fallbacks=())
        async with Gateway(settings) as gateway:
            server.say("Well.", fault=faults.Status(500, times=2))
            assert (await post(gateway), len(server.requests)) == (200, 3)
            server.clear()
            server.say("Well.", fault=faults.Status(500, times=3))
            assert (await post(gateway), len(server.requests)) == (500, 3)
            server.clear()
            server.answer(il.BadRequest("no such thing", status=400))
            assert (await post(gateway), len(server.requests)) == (400, 1)


async def test_keys_take_turns_and_a_refused_key_gives_way_to_the_next() -> None:
    """
    Also without retries: another key is not another try.
    """
    with Server(strict=True) as server, Server(strict=True) as other:
        keys = {"api_keys": ("first-key", "second-key", "third-key")}
        async with Gateway(chained(server, other, provider=keys, fallbacks=())) as gateway:
            for _ in range(6):
                assert await post(gateway) == 200
            used = Counter(received.headers["x-api-key"] for received in server.requests)
            assert used == {"first-key": 2, "second-key": 2, "third-key": 2}
            for code in (401, 402, 429):
                server.clear()
                server.say("Well.", fault=faults.Status(code, times=2))
                assert await post(gateway) == 200
                assert len({received.headers["x-api-key"] for received in server.requests}) == 3
            server.clear()
            server.say("Well.", fault=faults.Status(401, times=None))
            assert (await post(gateway), len(server.requests)) == (502, 3)


def asking(api: str, stream: bool) -> tuple[str, Any]:
    """The path and the body of a request in a wire, for the alias of the same name."""
    wire = il.wire(api)
    request = il.Request(
        model=il.ModelDescriptor(id=api, api=api),
        context=il.Context(messages=(il.UserMessage(content="Hi"),)),
        options=il.Options(max_tokens=50, stream=stream),
    )
    return wire.http.base + wire.codec.path(api, stream), wire.codec.encode_request(request).body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", WIRES)
async def test_refused_credentials_of_the_gateway_are_no_fault_of_the_client(
    api: str, stream: bool, upstream: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """
    The client has a status of the server, with the provider's name and words and no invitation to retry; the log has
    it once, and the observers the kind of the error.
    """
    seen = Seen()
    path, body = asking(api, stream)
    async with Gateway(settings_for(upstream), observers=[seen]) as gateway, aiohttp.ClientSession() as session:
        for status in (401, 403):
            upstream.clear()
            upstream.answer(il.AuthFailed("no such key", status=status))
            async with session.post(gateway.url + path, json=body) as response:
                text = await response.text()
                assert (response.status, response.headers["x-should-retry"]) == (502, "false")
                assert f"up-{api}/test-model refused the gateway's credentials: no such key" in text
    assert {type(one.error).__name__ for one in seen.exchanges} == {"CredentialsRefused"}
    assert [record.message for record in caplog.records].count(
        f"up-{api}/test-model refused the gateway's credentials (status 401): no such key; check the keys of its"
        " provider"
    ) == 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", WIRES)
async def test_an_account_without_credit_is_no_fault_of_the_client(
    api: str, stream: bool, upstream: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A 402 would tell the client to pay; it is the gateway's account.
    """
    path, body = asking(api, stream)
    upstream.say("Well.", fault=faults.Status(402, times=None))
    async with (
        Gateway(settings_for(upstream)) as gateway,
        aiohttp.ClientSession() as session,
        session.post(gateway.url + path, json=body) as response,
    ):
        text = await response.text()
    assert (response.status, response.headers["x-should-retry"]) == (502, "false")
    assert f"up-{api}/test-model finds no credit on the gateway's account" in text
    assert [record.message.rpartition("; ")[2] for record in caplog.records] == ["pay its provider"]


@pytest.mark.parametrize("api", WIRES[:4])  # streams of Bedrock and Ollama have no kind for it
async def test_credentials_that_are_refused_inside_a_stream_are_the_gateways(api: str, upstream: Server) -> None:
    """
    Also where the bytes of a stream are only forwarded.
    """
    path, body = asking(api, True)
    error = faults.ErrorEvent(il.AuthFailed("no such key"), after_events=4)
    upstream.say("Hello you there", fault=[faults.Pace(seconds=0.02), error], chunk=3)
    async with (
        Gateway(settings_for(upstream)) as gateway,
        aiohttp.ClientSession() as session,
        session.post(gateway.url + path, json=body) as response,
    ):
        body = await response.read()
    assert response.status == 200
    assert b"refused the gateway's credentials" in body
    assert not any(word in body for word in (b"authentication", b"UNAUTHENTICATED", b"AccessDenied", b"401"))


async def test_refused_credentials_lead_to_the_next_candidate(caplog: pytest.LogCaptureFixture) -> None:
    """
    The client has its answer, and the operator is told.
    """
    with Server(strict=True) as server, Server(strict=True) as other:
        server.answer(il.AuthFailed("no such key", status=401))
        async with Gateway(chained(server, other)) as gateway:
            assert (await post(gateway), len(other.requests)) == (200, 1)
    assert "one/test-model refused the gateway's credentials" in caplog.text


async def test_an_sdk_asks_once_where_credentials_are_refused(upstream: Server) -> None:
    """
    OpenAI's SDK retries server errors twice, but not this one; and it does not speak of the user's key.
    """
    upstream.answer(il.AuthFailed("no such key", status=401))
    async with (
        Gateway(settings_for(upstream)) as gateway,
        openai.AsyncOpenAI(api_key="mine", base_url=f"{gateway.url}/v1") as client,
    ):
        with pytest.raises(openai.InternalServerError, match="refused the gateway's credentials"):
            await client.responses.create(model="openai-responses", input="Hi")
    assert len(upstream.requests) == 1


async def test_conversations_are_shared_out_by_weight() -> None:
    """
    Three to one; a target without weight gets none.
    """
    with Server(strict=True, keep=1000) as first, Server(strict=True, keep=1000) as second:
        weighted = (Target(model="one/test-model", weight=3), Target(model="two/test-model", weight=1))
        without = (*weighted, Target(model="one/test-reasoner", weight=0))
        async with Gateway(chained(first, second, targets=without, fallbacks=())) as gateway:
            for number in range(120):
                question = [{"role": "user", "content": f"Question {number}"}]
                assert await post(gateway, {**BODY, "messages": question}) == 200
        assert len(first.requests) + len(second.requests) == 120
        assert 70 <= len(first.requests) <= 110
        assert {received.json["model"] for received in first.requests} == {"test-model"}


async def test_a_target_that_keeps_failing_is_left_alone() -> None:
    """
    After five failures in a row only the fallback is asked; without one, the client is told at once.
    """
    with Server(strict=True, keep=1000) as first, Server(strict=True, keep=1000) as second:
        first.answer("", fault=faults.Status(500, times=None))
        async with Gateway(chained(first, second)) as gateway:
            assert [await post(gateway) for _ in range(9)] == [200] * 9
            assert (len(first.requests), len(second.requests)) == (5, 9)
        first.clear()
        first.answer("", fault=faults.Status(500, times=None))
        async with Gateway(chained(first, second, fallbacks=())) as gateway:
            assert [await post(gateway) for _ in range(7)] == [500] * 5 + [503] * 2
            assert len(first.requests) == 5


async def leaving(gateway: Gateway, when: Callable[[], Awaitable[Any]], *, stream: bool = True) -> None:
    """A client that leaves as soon as something has happened."""
    async with aiohttp.ClientSession() as session:
        asking = asyncio.ensure_future(session.post(f"{gateway.url}/v1/messages", json={**BODY, "stream": stream}))
        await when()
        asking.cancel()
        (answer,) = await asyncio.gather(asking, return_exceptions=True)
        if isinstance(answer, aiohttp.ClientResponse):
            answer.close()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_client_that_leaves_while_a_fallback_is_asked_closes_it(stream: bool) -> None:
    """
    The second upstream's connection closes; the exchange is booked as aborted, once.
    """
    seen = Seen()
    with Server(strict=True) as first, Server(strict=True) as second:
        first.answer(il.Overloaded("busy", status=529))
        second.say("Too late.", fault=faults.SlowHeaders(seconds=LONG))
        async with Gateway(chained(first, second), observers=[seen]) as gateway:
            await leaving(gateway, lambda: asyncio.to_thread(second.wait_for_requests, 1), stream=stream)
            await second.disconnected(timeout=10)
            exchange = await seen.one()
    assert exchange.is_aborted and len(seen.exchanges) == 1
    assert exchange.model is not None and exchange.model.provider == "two"


async def test_a_client_that_leaves_between_two_tries_ends_them() -> None:
    """
    No further request goes out.
    """
    seen = Seen()
    with Server(strict=True) as server, Server(strict=True) as other:
        server.say("Well.", fault=faults.RateLimit(retry_after=9, times=None))
        settings = chained(server, other, retries=3, fallbacks=())
        async with Gateway(settings, observers=[seen]) as gateway:
            await leaving(gateway, lambda: asyncio.to_thread(server.wait_for_requests, 1))
            exchange = await seen.one()
            assert gateway.open_exchanges == 0
        assert len(server.requests) == 1
    assert exchange.is_aborted and exchange.attempts == 1


async def test_a_client_that_leaves_while_it_waits_for_its_turn_leaves_the_queue() -> None:
    """
    The next in the queue gets the turn, and nothing was asked for the one that left.
    """
    seen = Seen()
    with Server(strict=True) as server, Server(strict=True) as other:
        server.say("Slow.", fault=faults.SlowHeaders(seconds=LONG), times=1)
        server.say("Quick.")
        settings = chained(server, other, provider={"concurrency": 1}, fallbacks=())
        async with Gateway(settings, observers=[seen]) as gateway:
            first = asyncio.ensure_future(post(gateway))
            await asyncio.to_thread(server.wait_for_requests, 1)

            async def waits() -> None:
                async with asyncio.timeout(10):
                    while gateway.open_exchanges < 2:
                        await asyncio.sleep(0.01)

            await leaving(gateway, waits)
            assert (await seen.one()).is_aborted
            assert len(server.requests) == 1
            next_one = asyncio.ensure_future(post(gateway))
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            async with asyncio.timeout(10):
                assert await next_one == 200
        assert len(server.requests) == 2


@dataclass(frozen=True)
class Unended:
    """All events, and no end of the body."""

    times: int | None = None
    replaces: bool = False

    def apply(self, answer: faults.Answer) -> faults.Answer:
        return dataclasses.replace(answer, steps=(*answer.steps, faults.Wait(None)))


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_a_client_that_leaves_when_it_has_the_last_event_has_not_aborted(path: str) -> None:
    """
    SDKs close the connection at `[DONE]`, while the gateway waits for the end of the upstream's body.
    """
    seen = Seen()
    last = {"/v1/messages": b"message_stop", "/v1/chat/completions": b"[DONE]"}[path]
    with Server(strict=True) as server:
        server.say("A whole answer.", fault=Unended())
        async with Gateway(chained(server, server), observers=[seen]) as gateway:
            async with aiohttp.ClientSession() as session:
                answer = await session.post(f"{gateway.url}{path}", json={**BODY, "stream": True})
                received = b""
                async with asyncio.timeout(10):
                    while last not in received:
                        received += await answer.content.readany()
                answer.close()
            exchange = await seen.one()
        assert (exchange.is_aborted, exchange.error, exchange.status) == (False, None, 200)
        assert exchange.answer is not None and exchange.answer.text == "A whole answer."


LEAVING: dict[str, tuple[str, faults.Fault | None]] = {
    "waiting": ("plain", faults.SlowHeaders(seconds=LONG)),
    "streaming": ("plain", faults.Stall(after_events=4)),
    "retrying": ("plain", faults.RateLimit(retry_after=9, times=None)),
    "falling back": ("chain", faults.SlowHeaders(seconds=LONG)),
}


@pytest.mark.parametrize("state", LEAVING)
async def test_a_client_that_leaves_is_in_the_ledger_and_the_upstream_is_closed_first(
    state: str, tmp_path: Path
) -> None:
    """
    One entry, aborted, with an estimate of the input and of what had come; no upstream stays open. `bench/aborts.py`
    measures times.
    """
    ledger, order = Ledger(f"sqlite:{tmp_path / 'ledger.db'}"), list[str]()
    model, fault = LEAVING[state]

    class Booked:
        async def observe(self, exchange: Exchange) -> None:
            await ledger.observe(exchange)
            order.append("booked")

    with Server(strict=True) as server, Server(strict=True) as busy:
        server.say("An answer that nobody reads to its end.", fault=fault)
        busy.answer(il.Overloaded("busy", status=529))
        settings = chained(busy, server)
        plain = Alias(name="plain", targets=(Target(model="two/test-model"),), retries=3)
        settings = replace(settings, aliases=(*settings.aliases, plain))
        async with Gateway(settings, observers=[Booked()]) as gateway:

            async def reached() -> None:
                await asyncio.to_thread(server.wait_for_requests, 1)
                if state == "streaming":
                    async with asyncio.timeout(10):
                        while not any(one.sent for one in replies):
                            await asyncio.sleep(0.01)

            replies = list[ClientReply]()
            with pytest.MonkeyPatch.context() as patch:
                made = ClientReply.__init__

                def noting(reply: ClientReply, *given: Any, **options: Any) -> None:
                    made(reply, *given, **options)
                    replies.append(reply)

                patch.setattr(ClientReply, "__init__", noting)
                body = {**BODY, "model": model, "stream": True}
                async with aiohttp.ClientSession() as session:
                    asking = asyncio.ensure_future(session.post(f"{gateway.url}/v1/messages", json=body))
                    await reached()
                    asking.cancel()
                    (answer,) = await asyncio.gather(asking, return_exceptions=True)
                    if isinstance(answer, aiohttp.ClientResponse):
                        answer.close()
            if state != "retrying":
                await server.disconnected(timeout=10)
            async with asyncio.timeout(10):
                while not order:
                    await asyncio.sleep(0.01)
            assert server.open_streams == 0 and gateway.open_exchanges == 0
        assert len(server.requests) == 1
    (row,) = await ledger.usage(())
    await ledger.close()
    assert (row.calls, row.aborted) == (1, 1)
    if state != "retrying":
        assert (row.estimated, row.input > 0, row.output > 0) == (1, True, state == "streaming")


PDF = "JVBERi0xLjQKJSBhIGRvY3VtZW50Cg=="
DOCUMENTS: dict[str, tuple[str, Any]] = {
    "anthropic-messages": (
        "/v1/messages",
        {
            "max_tokens": 9,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                            "cache_control": {"type": "ephemeral"},
                        },
                        {"type": "text", "text": "Read."},
                    ],
                }
            ],
        },
    ),
    "openai-completions": (
        "/v1/chat/completions",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "file",
                            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
                        },
                        {"type": "text", "text": "Read."},
                    ],
                }
            ]
        },
    ),
    "openai-responses": (
        "/v1/responses",
        {
            "input": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "input_file",
                            "filename": "a.pdf",
                            "file_data": f"data:application/pdf;base64,{PDF}",
                        },
                        {"type": "input_text", "text": "Read."},
                    ],
                }
            ]
        },
    ),
    "google-generative-ai": (
        "/v1beta/models/MODEL:generateContent",
        {
            "contents": [
                {
                    "role": "user",
                    "parts": [{"inlineData": {"mimeType": "application/pdf", "data": PDF}}, {"text": "Read."}],
                }
            ]
        },
    ),
    "bedrock-converse-stream": (
        "/model/MODEL/converse",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"document": {"format": "pdf", "name": "a", "source": {"bytes": PDF}}},
                        {"text": "Read."},
                        {"cachePoint": {"type": "default"}},
                    ],
                }
            ]
        },
    ),
}


@pytest.mark.parametrize("upstream_api", WIRES)
@pytest.mark.parametrize("client", DOCUMENTS)
async def test_documents_and_cache_marks_reach_the_model_or_are_reported(
    client: str, upstream_api: str, gateway: Gateway, upstream: Server
) -> None:
    """
    Nothing is lost in silence: what did not arrive is in the header of losses.
    """
    path, body = DOCUMENTS[client]
    if "MODEL" not in path:
        body = {**body, "model": upstream_api, "stream": False}
    async with (
        aiohttp.ClientSession() as session,
        session.post(gateway.url + path.replace("MODEL", upstream_api), json=body) as response,
    ):
        assert response.status == 200, await response.text()
        losses = response.headers.get("x-interlingua-losses", "")
    sent = upstream.last.body
    assert PDF.encode() in sent or "$.messages[0].content" in losses, losses
    if client in ("anthropic-messages", "bedrock-converse-stream"):
        marked = any(name in sent for name in (b"cache_control", b"cachePoint", b"prompt_cache"))
        assert marked or "cache" in losses or PDF.encode() not in sent, losses
