"""Defects of the gateway itself: whichever of its functions raises, the client gets its own wire's error and the books
are closed."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import interlingua as il
from gateway.conftest import WIRES, settings_for
from interlingua.connect.retry import Breaker
from interlingua.connect.transport import HttpTransport
from interlingua.dialects.registry import WIRES as REGISTRY
from interlingua.gateway import ClientKey, Exchange, Gateway, costs, incoming, lanes, server, settlement
from interlingua.gateway.accounts import Accounts
from interlingua.gateway.front import PlainRequest
from interlingua.gateway.gate import KeyGate
from interlingua.gateway.keys import ClientKeys
from interlingua.gateway.lanes import Attempt
from interlingua.gateway.metrics import Metrics
from interlingua.gateway.recall import Recall
from interlingua.gateway.references import References
from interlingua.gateway.replying import ClientReply
from interlingua.gateway.routing import Place, Router
from interlingua.gateway.state import MemoryState
from interlingua.testing import Server, faults
from interlingua.values.events import Done, Error

SECRET = "sk-ant-" + "api03-" + "x" * 60
TEXT = "Hello, dear friend of mine, and a very good morning to you!"
TURN = [{"role": "user", "content": "Hi"}]
OTHER = {wire: "ollama-chat" if wire != "ollama-chat" else "anthropic-messages" for wire in WIRES}

# Every step of an exchange, in the order in which it is taken.
BEFORE: list[tuple[Any, str]] = [
    (server, "identify"),
    (KeyGate, "identify"),
    (PlainRequest, "arrived"),
    (incoming, "_decoded"),
    (References, "with_history"),
    (Recall, "restore"),
    (server, "taken"),
    (Router, "plan"),
    (costs, "longest_answer"),
    (KeyGate, "admit"),
    (Breaker, "check"),
    (Attempt, "run"),
    (lanes, "outgoing"),
    (lanes, "refuse_losses"),
    (ClientReply, "losing"),
    (Place, "access"),
    (lanes, "request_headers"),
    (HttpTransport, "send"),
    (lanes, "actual_type"),
]
WHOLE: list[tuple[Any, str]] = [
    (Attempt, "_decode"),
    (Attempt, "_answered"),
    (References, "remember"),
    (Recall, "remember"),
]
FORWARDED: list[tuple[Any, str]] = [(Attempt, "_forward")]  # a text on the same wire is not decoded
STREAMED: list[tuple[Any, str]] = [(Attempt, "_decoder"), (Attempt, "_answered"), (References, "remember")]
AFTER: list[tuple[Any, str]] = [(settlement, "charge"), (Breaker, "succeeded")]


def ask(wire: str, model: str, stream: bool) -> tuple[str, dict[str, Any]]:
    """The path and the body of a plain question in a client's wire."""
    match wire:
        case "openai-completions":
            return "/v1/chat/completions", {"model": model, "messages": TURN, "stream": stream}
        case "openai-responses":
            return "/v1/responses", {"model": model, "input": "Hi", "stream": stream}
        case "anthropic-messages":
            return "/v1/messages", {"model": model, "max_tokens": 99, "messages": TURN, "stream": stream}
        case "google-generative-ai":
            method = "streamGenerateContent?alt=sse" if stream else "generateContent"
            return f"/v1beta/models/{model}:{method}", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
        case "bedrock-converse-stream":
            method = "converse-stream" if stream else "converse"
            return f"/model/{model}/{method}", {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}
        case _:
            return "/api/chat", {"model": model, "messages": TURN, "stream": stream}


class Outcome:
    """What a client saw, read with the codec of its wire: an answer, or a failure of the wire's own form."""

    def __init__(self, wire: str, status: int, headers: Any, body: bytes, stream: bool) -> None:
        codec: Any = REGISTRY[wire].codec
        self.status, self.body = status, body
        self.id = headers.get(REGISTRY[wire].http.request_id, "")
        self.failure: Exception | None = None
        self.answer: il.AssistantMessage | None = None
        if status != 200:
            assert headers["Content-Type"].startswith("application/json"), body
            self.failure = codec.decode_error(status, body, headers)
        elif not stream:
            self.answer = codec.decode_response(body)
        else:
            framing, decoder = codec.framing(headers["Content-Type"].partition(";")[0]), codec.StreamDecoder()
            frames = [*framing.feed(body), *framing.close()]
            events = [event for frame in frames for event in decoder.feed(frame)]
            if not events or not isinstance(events[-1], Done | Error):
                events += decoder.close()
            assert isinstance(events[-1], Done | Error)
            if isinstance(events[-1], Done):
                self.answer = events[-1].message
            else:
                self.failure = decoder.failure


class Bench:
    """A gateway with a key that may have one request open at a time."""

    def __init__(self, upstream: Server, gateway: Gateway, metrics: Metrics, session: aiohttp.ClientSession) -> None:
        self.upstream, self.gateway, self.metrics, self._session = upstream, gateway, metrics, session
        self.seen: list[Exchange] = []
        self.on_received: Callable[[], None] = lambda: None

    async def observe(self, exchange: Exchange) -> None:
        self.seen.append(exchange)

    async def send(self, wire: str, model: str, stream: bool) -> Outcome:
        path, body = ask(wire, model, stream)
        async with self._session.post(self.gateway.url + path, json=body) as response:
            received = await response.read()
        self.on_received()
        return Outcome(wire, response.status, response.headers, received, stream)

    async def settled(self) -> None:
        """Until what was asked has ended, and the books of it are closed."""
        async with asyncio.timeout(20):
            while self.gateway.open_exchanges:
                await asyncio.sleep(0.001)
        await self.gateway._settlement.flush()


@contextlib.asynccontextmanager
async def bench(folder: Path, *faulty: faults.Fault) -> AsyncIterator[Bench]:
    keys = ClientKeys(folder / "keys.json")
    secret = keys.add(ClientKey(name="one", concurrency=1))
    metrics = Metrics()
    with Server(strict=True) as upstream:
        upstream.say(TEXT, **({"fault": faulty[0]} if faulty else {}))
        gate = KeyGate(keys, Accounts(MemoryState()))
        async with (
            Gateway(settings_for(upstream), gate=gate, observers=[metrics]) as gateway,
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {secret}"}) as session,
        ):
            made = Bench(upstream, gateway, metrics, session)
            gateway.observers.append(made)
            yield made


def raising(*_: Any, **__: Any) -> Any:
    raise RuntimeError(f"a defect that quotes {SECRET}")


async def check_failed(one: Bench, wire: str, model: str, stream: bool, log: pytest.LogCaptureFixture) -> Outcome:
    """Asks while something is broken: the error is the wire's own, has an id that the log has too, and no key."""
    log.clear()
    one.seen.clear()
    outcome = await one.send(wire, model, stream)
    await one.settled()
    assert isinstance(outcome.failure, il.ProviderError), outcome.body
    assert outcome.id.startswith("req_") and f"internal error in {outcome.id}" in str(outcome.failure)
    assert outcome.id in log.text and "a defect that quotes" in log.text
    assert SECRET not in log.text and SECRET.encode() not in outcome.body
    (exchange,) = one.seen
    assert (exchange.id, type(exchange.error).__name__) == (outcome.id, "InternalError")
    return outcome


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_defect_before_the_answer_is_an_error_of_the_clients_wire(
    wire: str, stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Whichever step raises: status 500 in the wire's form, in the log without keys, counted, and the key's place is free.
    """
    caplog.set_level(logging.ERROR)
    async with bench(tmp_path) as one:
        for model in (wire, OTHER[wire]):
            is_forwarded = model == wire and il.wire(wire).text_answer is not None
            for place, name in [*BEFORE, *(STREAMED if stream else FORWARDED if is_forwarded else WHOLE)]:
                if name == "_decoder" and not stream:
                    continue
                if name == "with_history" and il.wire(wire).http.stored_route is None:  # nothing is referred to
                    continue
                with monkeypatch.context() as patch:
                    patch.setattr(place, name, raising)
                    outcome = await check_failed(one, wire, model, stream, caplog)
                assert outcome.status == 500 or stream, (model, name)
                sound = await one.send(wire, model, stream)
                assert sound.answer is not None and sound.answer.text == TEXT, (model, name, sound.body)
                await one.settled()
        counted = one.metrics.exposition().decode()
        assert f'interlingua_gateway_errors_total{{wire="{wire}",error="InternalError"}}' in counted


@pytest.mark.parametrize("wire", WIRES)
async def test_a_defect_within_a_stream_ends_it_with_the_wires_error(
    wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Decoders, encoders and what looks at events may raise after the first piece went out: one stream, with one error.
    """
    caplog.set_level(logging.ERROR)
    begun = [False]
    written = ClientReply.write

    async def write(reply: ClientReply, data: bytes) -> None:
        await written(reply, data)
        begun[0] = begun[0] or reply.begun

    def later(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **options: Any) -> Any:
            return raising() if begun[0] else original(*given, **options)

        return step

    monkeypatch.setattr(ClientReply, "write", write)
    struck = 0
    async with bench(tmp_path, faults.Pace(seconds=0.01)) as one:
        one.on_received = lambda: begun.__setitem__(0, False)  # the answer is read with the same codecs
        for model in (wire, OTHER[wire]):
            for place, name in _within(wire, model):
                with monkeypatch.context() as patch:
                    patch.setattr(place, name, later(getattr(place, name)))
                    outcome = await check_failed(one, wire, model, True, caplog)
                struck += outcome.status == 200
                sound = await one.send(wire, model, True)
                assert sound.answer is not None and sound.answer.text == TEXT, (model, name, sound.body)
                await one.settled()
    assert struck


def _within(client: str, upstream: str) -> Iterator[tuple[Any, str]]:
    """What is called for each event on the way from one wire to another."""
    yield REGISTRY[upstream].codec.StreamDecoder, "feed"
    if client == upstream:
        yield Attempt, "_observe"
        yield lanes.Cutter, "feed"
    else:
        yield Attempt, "_play"
        yield REGISTRY[client].codec.StreamEncoder, "feed"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_defect_after_the_answer_costs_the_client_nothing(
    wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    The answer is whole, the log has the defect, and the next request is served.
    """
    caplog.set_level(logging.ERROR)
    async with bench(tmp_path) as one:
        for stream in (False, True):
            for place, name in AFTER:
                caplog.clear()
                with monkeypatch.context() as patch:
                    patch.setattr(place, name, raising)
                    outcome = await one.send(wire, OTHER[wire], stream)
                    await one.settled()
                assert outcome.answer is not None and outcome.answer.text == TEXT, outcome.body
                assert "a defect that quotes" in caplog.text and SECRET not in caplog.text


async def test_an_error_that_cannot_be_encoded_is_still_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    With a broken encoder of errors a client gets a plain one, or a broken connection in place of a clean end.
    """
    async with bench(tmp_path, faults.Pace(seconds=0.01)) as one:
        codec: Any = REGISTRY["anthropic-messages"].codec
        monkeypatch.setattr(codec, "encode_error", raising)
        with monkeypatch.context() as patch:
            patch.setattr(Router, "plan", raising)
            outcome = await one.send("anthropic-messages", "ollama-chat", False)
            assert outcome.status == 500 and b"internal error in req_" in outcome.body

        async def broken(attempt: Any, *_: Any) -> None:
            await attempt._reply._open()
            raising()

        monkeypatch.setattr(Attempt, "_play", broken)
        with pytest.raises(aiohttp.ClientError):
            await one.send("anthropic-messages", "ollama-chat", True)


async def test_a_defect_leaves_a_websocket_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    The message is answered with an error that has the id, and the next one with its answer.
    """
    async with bench(tmp_path) as one, one._session.ws_connect(f"{one.gateway.url}/v1/responses") as socket:
        asked = {"type": "response.create", "model": "ollama-chat", "input": "Hi"}
        with monkeypatch.context() as patch:
            patch.setattr(Router, "plan", raising)
            await socket.send_json(asked)
            failed = await socket.receive_json()
        assert (failed["type"], failed["status"]) == ("error", 500)
        assert "internal error in req_" in failed["error"]["message"] and SECRET not in caplog.text
        await socket.send_json(asked)
        while (await socket.receive_json())["type"] != "response.completed":
            pass
        (exchange, *_) = one.seen
        assert type(exchange.error).__name__ == "InternalError"


async def test_a_key_that_is_revoked_ends_its_websocket_requests(tmp_path: Path) -> None:
    """
    A socket that is open does not keep a key alive: the next message is refused.
    """
    keys = ClientKeys(tmp_path / "keys.json")
    secret = keys.add(ClientKey(name="one"))
    keys.add(ClientKey(name="two"))
    with Server(strict=True) as upstream:
        upstream.say(TEXT)
        async with (
            Gateway(settings_for(upstream), gate=KeyGate(keys, Accounts(MemoryState()))) as gateway,
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {secret}"}) as session,
            session.ws_connect(f"{gateway.url}/v1/responses") as socket,
        ):
            asked = {"type": "response.create", "model": "ollama-chat", "input": "Hi"}
            await socket.send_json(asked)
            while (await socket.receive_json())["type"] != "response.completed":
                pass
            keys.remove("one")
            await socket.send_json(asked)
            refused = await socket.receive_json()
            assert (refused["type"], refused["status"]) == ("error", 401)
        assert len(upstream.requests) == 1
