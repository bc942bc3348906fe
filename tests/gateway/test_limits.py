"""Limits of one exchange and of the server, and what is written when exchanges have ended."""

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from gateway.conftest import settings_for
from gateway.test_routing import BODY, Seen, chained, posted
from interlingua.connect.models import default
from interlingua.connect.stream import Timeouts
from interlingua.gateway import (
    LOCAL,
    Alias,
    ClientKey,
    ClientLimits,
    Exchange,
    Gateway,
    Listen,
    ProviderSettings,
    Settings,
    Target,
    incoming,
)
from interlingua.gateway.costs import highest_cost, longest_answer, requested_tier
from interlingua.gateway.metrics import Metrics
from interlingua.gateway.service import Service
from interlingua.gateway.settings_file import ServeSettings
from interlingua.testing import Server, faults
from interlingua.values.messages import AssistantMessage, TextBlock, Usage, text_of
from interlingua.values.request import ModelCost

ECHO = {"model": "debug/echo", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}


class Admitting:
    """A gate that lets everything pass, and keeps what would be reserved."""

    def __init__(self) -> None:
        self.costs: list[float | None] = []

    async def identify(self, secret: str | None) -> ClientKey:
        return LOCAL

    async def admit(
        self, exchange: Exchange, *, input_tokens: int, output_tokens: int = 0, highest_cost: float | None
    ) -> None:
        self.costs.append(highest_cost)


def priced_chain(first: Server, second: Server) -> Settings:
    """Two priced targets, of two providers whose requests have fields of their own."""
    return Settings(
        listen=Listen(port=0),
        providers=(
            ProviderSettings(id="anthropic", base_url=first.base_url("anthropic-messages"), api_keys=("one",)),
            ProviderSettings(
                id="openai",
                api="openai-completions",
                base_url=second.base_url("openai-completions"),
                api_keys=("two",),
            ),
        ),
        aliases=(
            Alias(
                name="chain",
                targets=(Target(model="anthropic/claude-sonnet-4-5"),),
                fallbacks=(Target(model="openai/gpt-4o"),),
                retries=0,
            ),
        ),
    )


async def test_a_reported_cost_is_added_to_that_of_earlier_attempts(tmp_path: Path) -> None:
    """
    Each attempt is charged as its own provider says or lists, once; ledger and metrics have the same sum.
    """
    usage = Usage.of(3, 4, extra={"openai-completions": {"cost": 0.25}})
    seen = Seen()
    with Server(strict=True, chunk=4) as first, Server(strict=True) as second:
        first.say("Nobody sees this.", fault=faults.Cut(after_events=2))
        second.answer(AssistantMessage(content=(TextBlock(text="Good morning."),), usage=usage))
        settings = ServeSettings(gateway=priced_chain(first, second))
        async with Service(settings, tmp_path) as service:
            service.gateway.observers.append(seen)
            for stream in (True, False):
                await posted(service.gateway, "/v1/messages", {**BODY, "stream": stream})
            (row,) = await service.ledger.usage(())
            shown = service.metrics.exposition().decode()
    streamed, whole = (exchange.cost for exchange in seen.exchanges)
    ((_, lost),) = seen.exchanges[0].discarded
    assert lost.input > 0 and whole == 0.25
    assert streamed is not None and 0.25 < streamed < 0.26
    (cost,) = (line.split()[-1] for line in shown.splitlines() if line.startswith("interlingua_gateway_cost_dollars"))
    assert row.cost == float(cost) == pytest.approx(streamed + whole, abs=1e-9)


@pytest.mark.parametrize("tier", [None, "priority"])
async def test_a_service_tier_has_its_own_price(tier: str | None) -> None:
    """
    What a faster tier costs is in the ledger, and counts for the budget.
    """
    seen = Seen()
    with Server(strict=True) as first, Server(strict=True) as second:
        second.answer(AssistantMessage(content=(TextBlock(text="Good morning."),), usage=Usage.of(1000, 1000)))
        async with Gateway(priced_chain(first, second), observers=[seen]) as gateway:
            asked = {**BODY, "model": "openai/gpt-4o", **({"service_tier": tier} if tier else {})}
            await posted(gateway, "/v1/chat/completions", asked)
    (exchange,) = seen.exchanges
    assert exchange.cost is not None
    assert (tier is not None) == (exchange.cost > (1000 * 2.5 + 1000 * 10) / 1e6)


HI = {"input": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(("asked", "given"), [(None, "priority"), ("flex", "default"), (None, "default")])
async def test_the_tier_of_the_response_has_the_last_word(asked: str | None, given: str) -> None:
    """
    A project may have another default tier, and a tier without capacity is replaced by the ordinary one.
    """
    seen, residual = Seen(), {"~response": {"service_tier": given}}
    answer = AssistantMessage(
        content=(TextBlock(text="Good morning."),),
        usage=Usage.of(1000, 1000),
        extra={"openai-completions": residual, "openai-responses": residual},
    )
    with Server(strict=True) as first, Server(strict=True) as second:
        second.answer(answer)
        asks: Any = {"store": False, **({"service_tier": asked} if asked else {}), "model": "openai/gpt-4o"}
        for path, content in (("/v1/chat/completions", {"messages": BODY["messages"]}), ("/v1/responses", HI)):
            settings = priced_chain(first, second)
            if "input" in content:
                api = "openai-responses"
                own = replace(settings.providers[1], api=api, base_url=second.base_url(api))
                settings = replace(settings, providers=(settings.providers[0], own))
            async with Gateway(settings, observers=[seen]) as gateway:
                await posted(gateway, path, {**asks, **content})
    ordinary = (1000 * 2.5 + 1000 * 10) / 1e6
    assert 2 == len(seen.exchanges)
    for exchange in seen.exchanges:
        assert exchange.cost is not None and exchange.lane == "same"
        assert exchange.cost > ordinary if given == "priority" else exchange.cost == pytest.approx(ordinary)


async def test_a_router_has_the_price_of_the_model_that_it_chose() -> None:
    """
    Its own name has none; the response says which model it was, also where it is only forwarded.
    """
    seen = Seen()
    with Server(strict=True) as server:
        usage = Usage.of(1000, 1000)
        server.answer(AssistantMessage(content=(TextBlock(text="Hi."),), usage=usage, response_model="openai/gpt-4o"))
        base, asks = server.base_url("openai-completions"), {"usage": {"include": True}, "messages": BODY["messages"]}
        router = ProviderSettings(id="openrouter", base_url=base, api_keys=("one",))
        async with Gateway(Settings(listen=Listen(port=0), providers=(router,)), observers=[seen]) as gateway:
            await posted(gateway, "/v1/chat/completions", {**asks, "model": "openrouter/openrouter/auto"})
    (exchange,) = seen.exchanges
    assert exchange.lane == "same" and exchange.cost == pytest.approx((1000 * 2.5 + 1000 * 10) / 1e6)


SERVED: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    # the model, its door, what the request asks for, and what the answer tells of it
    "chat": ("openai/gpt-4o", "/v1/chat/completions", {"service_tier": "priority"}, {"service_tier": "priority"}),
    "not granted": ("openai/gpt-4o", "/v1/chat/completions", {"service_tier": "priority"}, {"service_tier": "default"}),
    "cheaper": ("openai/gpt-4o", "/v1/chat/completions", {"service_tier": "flex"}, {"service_tier": "default"}),
    "region": ("anthropic/claude-sonnet-4-5", "/v1/messages", {"inference_geo": "us"}, {}),
    "not sent": ("anthropic/claude-sonnet-4-5", "/v1/chat/completions", {"service_tier": "priority"}, {}),
    "ordinary": ("anthropic/claude-sonnet-4-5", "/v1/messages", {"service_tier": "auto"}, {}),
}


@pytest.mark.parametrize("case", SERVED)
async def test_what_is_reserved_is_at_least_what_is_charged(case: str) -> None:
    """
    In whatever tier the provider serves a request, and although all of its input is written to a cache for an hour.
    """
    model, path, asks, tells = SERVED[case]
    seen, gate = Seen(), Admitting()
    usage = Usage.of(1, 100)
    if model.startswith("anthropic"):
        place = {name: value for name, value in asks.items() if name == "inference_geo"}
        detail = {"cache_creation": {"ephemeral_1h_input_tokens": 1}, **place}
        usage = Usage.of(0, 100, cache_write=1, extra={"anthropic-messages": detail})
    answer = AssistantMessage(
        content=(TextBlock(text="Good morning."),),
        usage=usage,
        extra={"openai-completions": {"~response": tells}} if tells else {},
    )
    with Server(strict=True) as first, Server(strict=True) as second:
        first.answer(answer)
        second.answer(answer)
        async with Gateway(priced_chain(first, second), gate=gate, observers=[seen]) as gateway:
            status, text = await posted(gateway, path, {**BODY, "model": model, "max_tokens": 100, **asks})
    assert status == 200, text
    (exchange,), (reserved,) = seen.exchanges, gate.costs
    assert exchange.cost is not None and reserved is not None
    assert 0 < exchange.cost <= reserved * 1.000001, (exchange.cost, reserved)


async def test_a_tier_of_unknown_price_has_no_highest_cost() -> None:
    """
    Then a key with a budget is refused, before anything is sent. A wire that has no tiers is not charged for one.
    """
    model = il.ModelDescriptor(id="claude-sonnet-4-5", provider="anthropic", api="anthropic-messages")
    fast = il.dialect("anthropic").decode_request({"messages": [], "speed": "fast"}, model="m")
    assert "fast" == requested_tier(model, fast)
    assert default().highest_cost(model, 10, 10, "fast") is None
    bedrock = replace(model, provider="amazon-bedrock", api="bedrock-converse-stream")
    body = {"messages": [], "performanceConfig": {"latency": "optimized"}, "serviceTier": {"type": "priority"}}
    asked = il.dialect("bedrock").decode_request(body, model="m")
    assert "priority+latency=optimized" == requested_tier(bedrock, asked)
    standard = il.dialect("bedrock").decode_request({"messages": [], "performanceConfig": {"latency": "standard"}})
    assert requested_tier(bedrock, standard) is None
    assert requested_tier(replace(model, api="ollama-chat"), asked) is None
    assert requested_tier(model, asked) is None


async def test_the_model_of_unknown_price_is_named_also_where_it_is_a_fallback(tmp_path: Path) -> None:
    """
    The name of the alias does not say whose price to add.
    """
    alias = Alias(
        name="best",
        targets=(Target(model="anthropic/claude-sonnet-4-5"),),
        fallbacks=(Target(model="ollama/tomorrow"),),
    )
    provider = ProviderSettings(id="anthropic", base_url="http://127.0.0.1:9", api_keys=("one",))
    settings = ServeSettings(gateway=Settings(listen=Listen(port=0), providers=(provider,), aliases=(alias,)))
    async with Service(settings, tmp_path) as service, aiohttp.ClientSession() as session:
        key = service.keys.add(ClientKey(name="ci", budget=1.0))
        url, body = f"{service.gateway.url}/v1/messages", {**BODY, "model": "best"}
        async with session.post(url, json=body, headers={"x-api-key": key}) as response:
            text = await response.text()
    assert 400 == response.status and "the price of 'ollama/tomorrow' is not known" in text


@pytest.mark.parametrize("asks", [False, True])
async def test_usage_of_a_chat_stream_is_requested_whoever_asks_for_it(asks: bool) -> None:
    """
    Also where the provider's requests have fields of their own, so that the client's bytes are not sent on. A client
    that did not ask for usage does not get it.
    """
    seen = Seen()
    with Server(strict=True) as first, Server(strict=True) as second:
        second.answer(AssistantMessage(content=(TextBlock(text="Good morning."),), usage=Usage.of(30, 40)))
        async with Gateway(priced_chain(first, second), observers=[seen]) as gateway:
            option = {"stream_options": {"include_usage": True}} if asks else {}
            asked = {**BODY, "model": "openai/gpt-4o", "stream": True, **option}
            _, text = await posted(gateway, "/v1/chat/completions", asked)
    (exchange,) = seen.exchanges
    assert exchange.lane == "translated"
    assert (exchange.usage, exchange.is_estimated) == (Usage.of(30, 40), False)
    assert asks == ("prompt_tokens" in str(text))


async def test_a_call_that_is_refused_here_is_not_in_the_ledger(tmp_path: Path) -> None:
    """
    No provider has been called: a request that would lose too much for its key is no call.
    """
    marked = [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]
    with Server(strict=True) as first, Server(strict=True) as second:
        async with Service(ServeSettings(gateway=chained(first, second)), tmp_path) as service:
            key = service.keys.add(ClientKey(name="strict", max_losses="none"))
            body = {**BODY, "model": "two/test-model", "messages": [{"role": "user", "content": marked}]}
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{service.gateway.url}/v1/messages", json=body, headers={"x-api-key": key}) as response,
            ):
                status, text = response.status, await response.text()
            rows = await service.ledger.usage(())
        assert not first.requests and not second.requests
    assert 400 == status and "cache" in text and not [row for row in rows if row.calls]


async def test_a_stream_that_fails_is_an_error_and_one_that_is_left_is_not(tmp_path: Path) -> None:
    """
    The sums of the ledger say so, although the client had the status 200.
    """
    with Server(strict=True, chunk=4) as first, Server(strict=True) as second:
        async with (
            Service(ServeSettings(gateway=chained(first, second)), tmp_path) as service,
            aiohttp.ClientSession() as session,
        ):
            first.say("A long answer that breaks.", fault=faults.Cut(after_events=6))
            for _ in range(2):
                status, _ = await posted(service.gateway, "/v1/messages", {**BODY, "stream": True})
                assert 200 == status
            for stream in (True, False):
                first.clear()
                first.say("A long answer.", fault=faults.Stall(6, 30.0) if stream else faults.SlowHeaders(30.0))
                body = {**BODY, "stream": stream}
                asking = asyncio.ensure_future(session.post(f"{service.gateway.url}/v1/messages", json=body))
                if stream:
                    (await asking).close()
                else:
                    while not first.requests:
                        await asyncio.sleep(0.01)
                    asking.cancel()
                while service.gateway.open_exchanges:
                    await asyncio.sleep(0.01)
            (row,) = await service.ledger.usage(())
    assert (4, 2, 2) == (row.calls, row.errors, row.aborted)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_that_is_not_answered_in_time_has_used_its_input(stream: bool) -> None:
    """At each target that had it; a host that is not there has had nothing."""
    seen = Seen()
    with Server(strict=True) as first, Server(strict=True) as second:
        settings = priced_chain(first, second)
        gone = replace(settings.providers[0], id="gone", api="anthropic-messages", base_url="http://127.0.0.1:9")
        both = replace(settings.aliases[0], name="both", fallbacks=())
        nobody = replace(settings.aliases[0], name="nobody", targets=(Target(model="gone/claude-sonnet-4-5"),))
        settings = replace(
            settings,
            providers=(*settings.providers, gone),
            aliases=(*settings.aliases, both, nobody),
            timeouts=Timeouts(first=3.0),
        )
        async with Gateway(settings, observers=[seen]) as gateway:
            statuses = []
            for alias in ("chain", "both", "nobody"):
                first.say("Late.", fault=faults.SlowHeaders(30.0))
                second.say("In time.")
                statuses.append((await posted(gateway, "/v1/messages", {**BODY, "model": alias, "stream": stream}))[0])
    assert [200, 504, 200] == statuses
    chain, alone, other = seen.exchanges
    assert alone.usage is not None and alone.usage.input > 0 == alone.usage.output
    assert alone.is_estimated and alone.cost is not None and alone.cost > 0
    assert chain.is_estimated and [alone.usage] == [used for _, used in chain.discarded]
    assert not other.discarded and not other.is_estimated


@pytest.mark.parametrize("stream", [True, False])
async def test_the_use_of_a_model_in_this_process_is_counted_when_the_client_leaves(stream: bool) -> None:
    """
    As that of any other: what came of its answer is known, and its tokens are estimated.
    """
    seen = Seen()
    body = {"model": "debug/slow-1", "stream": stream, "messages": [{"role": "user", "content": "a long text " * 20}]}
    async with (
        Gateway(Settings(listen=Listen(port=0)), observers=[seen]) as gateway,
        aiohttp.ClientSession() as session,
    ):
        asking = asyncio.ensure_future(session.post(f"{gateway.url}/v1/chat/completions", json=body))
        if stream:
            reply = await asking
            while b"Slow" not in await reply.content.readany():
                pass
            reply.close()
        else:
            while not gateway.open_exchanges:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)  # some of the answer is there
            asking.cancel()
        while gateway.open_exchanges:
            await asyncio.sleep(0.01)
    (exchange,) = seen.exchanges
    assert exchange.is_aborted and exchange.is_estimated and exchange.usage is not None
    assert exchange.usage.input > 20 and exchange.usage.output > 0
    assert exchange.answer is not None and text_of(exchange.answer.content).startswith("Slow")


async def test_what_is_passed_on_is_counted_when_the_client_leaves() -> None:
    """
    The provider has the input of an embedding, and charges it.
    """
    seen, asked = Seen(), asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        asked.set()
        await asyncio.sleep(30)
        return web.json_response({})

    app = web.Application()
    app.router.add_post("/v1/embeddings", wait)
    async with TestServer(app) as host:
        url = str(host.make_url("/v1"))
        provider = ProviderSettings(id="host", api="openai-completions", base_url=url, api_keys=("k",))
        settings = Settings(providers=(provider,), open_models=True, listen=Listen(port=0))
        async with Gateway(settings, observers=[seen]) as gateway, aiohttp.ClientSession() as session:
            body = {"model": "host/embedder", "input": "some text " * 20}
            asking = asyncio.ensure_future(session.post(f"{gateway.url}/v1/embeddings", json=body))
            await asked.wait()
            asking.cancel()
            while not seen.exchanges:
                await asyncio.sleep(0.01)
    (exchange,) = seen.exchanges
    assert exchange.is_aborted and exchange.is_estimated
    assert exchange.usage is not None and exchange.usage.input > 20


async def test_what_a_discarded_attempt_used_is_counted() -> None:
    """
    The first model broke off before the client saw anything: its input is charged, beside the second's.
    """
    seen = Seen()
    with Server(strict=True, chunk=4) as first, Server(strict=True) as second:
        first.say("Nobody sees this.", fault=faults.Cut(after_events=2))
        second.say("Good morning.")
        async with Gateway(chained(first, second), observers=[seen]) as gateway:
            status, _ = await posted(gateway, "/v1/messages", {**BODY, "stream": True})
    (exchange,) = seen.exchanges
    assert (status, exchange.attempts) == (200, 2)
    ((model, used),) = exchange.discarded
    assert model.provider == "one" and used.input > 0
    assert exchange.answer is not None and exchange.answer.text == "Good morning."
    assert exchange.answer.usage is not None and exchange.usage is not None
    assert exchange.usage.input == exchange.answer.usage.input + used.input
    assert exchange.usage.output == exchange.answer.usage.output + used.output
    assert exchange.is_estimated


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_an_exchange_ends_when_its_time_is_over(stream: bool) -> None:
    """
    Whatever it waits for: a 504 in the client's wire, or its error event; nobody is said to have left.
    """
    seen = Seen()
    with Server(strict=True) as upstream:
        upstream.say("Never to the end.", fault=faults.Stall(after_events=4 if stream else 0))
        longest = 2.5 if stream else 0.3  # a stream must have begun by then, on a busy machine too
        settings = replace(settings_for(upstream), limits=ClientLimits(total=longest))
        async with Gateway(settings, observers=[seen]) as gateway:
            body = {**BODY, "model": "anthropic-messages", "stream": stream}
            status, got = await posted(gateway, "/v1/messages", body)
    (exchange,) = seen.exchanges
    assert isinstance(exchange.error, il.TimedOut) and not exchange.is_aborted
    assert f"longer than {longest:g} s".encode() in got
    assert status == (200 if stream else 504)
    assert not stream or b"event: error" in got


async def test_connections_above_the_limit_are_refused() -> None:
    """
    With the client's own error, and the connection is closed; a place that is free again is given away.
    """
    settings = Settings(listen=Listen(port=0), limits=ClientLimits(connections=1))
    async with Gateway(settings) as gateway:
        host, port = gateway.url.removeprefix("http://").split(":")
        _, first = await asyncio.open_connection(host, int(port))
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{gateway.url}/v1/messages", json=ECHO) as response:
                error = await response.json()
                assert (response.status, response.headers["Connection"]) == (503, "close")
            assert "more than 1 connections" in error["error"]["message"]
            first.close()
            await first.wait_closed()
            async with asyncio.timeout(20):
                while (await session.post(f"{gateway.url}/v1/messages", json=ECHO)).status != 200:
                    await asyncio.sleep(0.01)


async def test_a_large_request_is_decoded_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Small ones are not worth a thread.
    """
    threads: list[bool] = []
    decode = incoming._decoded

    def decoded(*given: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return decode(*given)

    monkeypatch.setattr(incoming, "_decoded", decoded)
    large = {**ECHO, "messages": [{"role": "user", "content": "many words " * 10_000}]}
    async with Gateway(Settings(listen=Listen(port=0))) as gateway:
        statuses = [(await posted(gateway, "/v1/messages", body))[0] for body in (ECHO, large)]
    assert (statuses, threads) == ([200, 200], [True, False])


class Books:
    """An observer that is slow, and takes what ended together at once."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def observe(self, exchange: Exchange) -> None:
        raise AssertionError("observe_all is called instead")

    async def observe_all(self, exchanges: Sequence[Exchange]) -> None:
        await asyncio.sleep(0.05)
        self.calls.append([one.id for one in exchanges])


class Failing:
    async def observe(self, exchange: Exchange) -> None:
        raise RuntimeError("no disk")


async def test_what_has_ended_is_in_the_books_when_the_gateway_has_stopped() -> None:
    """
    Each exchange once, in fewer calls than exchanges; nobody waits for a slow observer, and a failing one harms none.
    """
    books, seen = Books(), Seen()
    observers = [Failing(), books, seen]
    async with Gateway(Settings(listen=Listen(port=0)), observers=observers) as gateway:
        answers = await asyncio.gather(*(posted(gateway, "/v1/messages", ECHO) for _ in range(20)))
    assert [200] * 20 == [status for status, _ in answers]
    assert "Hi" in json.loads(answers[0][1])["content"][0]["text"]
    ids = [id for call in books.calls for id in call]
    assert len(ids) == len(set(ids)) == 20 and len(books.calls) < 20
    assert sorted(ids) == sorted(one.id for one in seen.exchanges)


CHOICES: dict[str, Any] = {  # how each wire asks for several answers
    "openai-completions": lambda choices: {"messages": [], "n": choices, "max_tokens": 7},
    "google-generative-ai": lambda choices: {
        "contents": [],
        "generationConfig": {"candidateCount": choices, "maxOutputTokens": 7},
    },
}


@given(st.integers(max_value=0), st.sampled_from(sorted(CHOICES)), st.integers(2, 50))
def test_nothing_that_a_client_asks_makes_a_call_look_cheap(limit: int, api: str, choices: int) -> None:
    """
    A limit of zero or less is none, and each of several choices may be as long as the limit.
    """
    cost = ModelCost(input=1.0, output=2.0, cache_read=0.1, cache_write=1.2)
    model = il.ModelDescriptor(id="m", provider="p", max_tokens=1000, cost=cost)
    place: Any = SimpleNamespace(model=model, wire=il.wire("openai-completions"))
    asked = il.Request(model=model, context=il.Context(messages=()))
    known = default()
    most = highest_cost(known, place, asked, 10, longest_answer(place, asked))
    assert most is not None and most > 0
    odd = replace(asked, options=il.Options(max_tokens=limit))
    assert most == highest_cost(known, place, odd, 10, longest_answer(place, odd))
    several = il.dialect(api).decode_request(CHOICES[api](choices), model="m")
    assert 7 * choices == longest_answer(place, several)


async def test_headers_in_drips_do_not_keep_a_connection() -> None:
    """
    Without a first request within the time for bodies it is closed; one that has asked stays open.
    """
    settings = Settings(listen=Listen(port=0), limits=ClientLimits(body_timeout=0.3))
    async with Gateway(settings) as gateway:
        host, port = gateway.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        used, asking = await asyncio.open_connection(host, int(port))
        asking.write(b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b" 200 " in await used.readuntil(b"\r\n\r\n")
        writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: 127")
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        asking.write(b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b" 200 " in await used.readuntil(b"\r\n\r\n")
        writer.close()
        asking.close()


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/api/generate"])
async def test_other_large_bodies_are_read_beside_the_event_loop_too(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whoever counts tokens of megabytes holds nobody up.
    """
    threads: list[bool] = []
    parse = incoming.json_object

    def parsed(body: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return parse(body)

    monkeypatch.setattr(incoming, "json_object", parsed)
    text = "many words " * 10_000
    body = {**ECHO, "messages": [{"role": "user", "content": text}], "prompt": text, "stream": False}
    async with Gateway(Settings(listen=Listen(port=0))) as gateway:
        assert (await posted(gateway, path, body))[0] == 200
    assert threads == [False]


async def test_made_up_models_do_not_fill_the_numbers() -> None:
    """
    A provider takes any name; beyond some hundreds they are counted together.
    """
    metrics = Metrics()
    for number in range(2000):
        exchange = Exchange(
            id=f"req_{number}",
            key=LOCAL,
            wire=il.wire("openai-completions"),
            asked_model="m",
            is_stream=False,
            started=0.0,
            attempts=1,
            model=il.ModelDescriptor(id=f"made-up-{number}", provider="openai"),
        )
        await metrics.observe(exchange)
    lines = metrics.exposition().decode().splitlines()
    counted = [line for line in lines if line.startswith("interlingua_gateway_attempts_total{")]
    assert len(counted) <= 501
    assert 2000 == sum(float(line.rpartition(" ")[2]) for line in counted)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_client_that_does_not_read_is_left(stream: bool) -> None:
    """
    It keeps no provider's connection and no place of its key: its exchange ends as if it had gone.
    """
    seen = Seen()
    with Server(strict=True, chunk=1 << 16) as upstream:
        upstream.say("x" * 30_000_000)
        settings = replace(settings_for(upstream), limits=ClientLimits(send_timeout=0.5))
        async with Gateway(settings, observers=[seen]) as gateway:
            host, port = gateway.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
            body = json.dumps({**BODY, "model": "openai-completions", "stream": stream}).encode()
            head = f"POST /v1/messages HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            assert b" 200 " in await reader.readline()
            async with asyncio.timeout(60):
                while not seen.exchanges or upstream.open_streams:
                    await asyncio.sleep(0.05)
            assert gateway.open_exchanges == 0
            writer.transport.abort()
    assert seen.exchanges[0].is_aborted
