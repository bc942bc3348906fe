"""Recorded traffic through the gateway, client and provider of one wire: what comes is what goes."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import aiohttp
import pytest
from aiohttp import web
from msgspec import Struct
from yarl import URL

from gateway.conftest import WIRES
from interlingua.gateway import Alias, Exchange, Gateway, Listen, ProviderSettings, Settings, Target
from interlingua.gateway.exchange import DeferredAnswer
from interlingua.testing import Server
from interlingua.values.losses import Loss
from interlingua.values.messages import text_of
from laws.test_odd_answers import HALF, Halved, reported

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FOLDERS = {  # of recordings, and the wire that client and provider speak
    "anthropic-messages": "anthropic-messages",
    "openai-completions": "openai-completions",
    "openrouter": "openai-completions",
    "groq": "openai-completions",
    "openai-responses": "openai-responses",
    "google-generative-ai": "google-generative-ai",
    "bedrock-converse-stream": "bedrock-converse-stream",
    "ollama": "ollama-chat",
}
PATHS = {
    "anthropic-messages": "/v1/messages",
    "openai-completions": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "ollama-chat": "/api/chat",
}
_NAMED = re.compile(rb'("(?:model|modelVersion)"\s*:\s*)"[^"]*"')


class Recorded(Struct):
    id: str
    model: str | None
    url_path: str
    request: Any
    response: dict[str, Any]
    streaming: bool

    def is_call(self, api: str) -> bool:
        """Whether it is a call of a model: some recordings of a folder list models or count tokens."""
        try:
            return bool(place(self, api)[1])
        except (AssertionError, KeyError, TypeError):
            return False

    @property
    def body(self) -> bytes:
        body: str = self.response["body"]
        return base64.b64decode(body) if self.response["encoding"] == "base64" else body.encode()


def recorded(folder: str) -> Iterator[Recorded]:
    """The exchanges of a folder that a client can repeat: a request, and an answer to it."""
    for path in sorted((CORPUS / folder).glob("*.json")):
        given = json.loads(path.read_text())
        if given["request"] is None or given["response"]["status"] != 200 or not given["response"]["body"]:
            continue
        yield Recorded(**{name: given[name] for name in Recorded.__struct_fields__})


class Upstream:
    """Answers with the bytes of one recording, and keeps what it was sent."""

    def __init__(self) -> None:
        self.now: Recorded | None = None
        self.body = b""

    async def handle(self, http: web.BaseRequest) -> web.Response:
        assert self.now is not None
        self.body = await http.read()
        return web.Response(body=self.now.body, headers={"Content-Type": self.now.response["content_type"]})


class Lanes:
    def __init__(self) -> None:
        self.last: Exchange | None = None

    async def observe(self, exchange: Exchange) -> None:
        self.last = exchange


@asynccontextmanager
async def between(api: str, models: set[str], lanes: Lanes) -> AsyncIterator[tuple[Upstream, str]]:
    upstream = Upstream()
    runner = web.ServerRunner(web.Server(upstream.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    settings = Settings(
        listen=Listen(port=0),
        providers=(ProviderSettings(id="up", api=api, base_url=url, api_keys=("upstream-key",)),),
        aliases=tuple(Alias(name=name, targets=(Target(model=f"up/{name}"),), retries=0) for name in sorted(models)),
    )
    try:
        async with Gateway(settings, observers=[lanes]) as gateway:
            yield upstream, gateway.url
    finally:
        await runner.cleanup()


def place(one: Recorded, api: str) -> tuple[str, str]:
    """The path of a recorded call at the gateway, and the model that it names."""
    if api == "google-generative-ai":
        found = re.search(r"models/([^:/]+):(\w+)", one.url_path)
        assert found is not None
        return f"/v1beta/models/{found[1]}:{found[2]}" + ("?alt=sse" if "alt=sse" in one.url_path else ""), found[1]
    if api == "bedrock-converse-stream":
        found = re.search(r"model/(.+)/(converse(?:-stream)?)$", one.url_path)
        assert found is not None
        return f"/model/{found[1]}/{found[2]}", unquote(found[1])
    return PATHS[api], one.request["model"]


def without_usage_option(body: bytes) -> Any:
    value = json.loads(body)
    return {name: part for name, part in value.items() if name != "stream_options"}


def contents(stream: bytes) -> list[bytes]:
    """The lines of a stream, but those that only bring usage."""
    lines = unnamed(stream).replace(b',"usage":null', b"").split(b"\n")
    return [line for line in lines if line and b"usage" not in line]


def unnamed(body: bytes) -> bytes:
    """An answer without the model's name."""
    return _NAMED.sub(rb'\1"-"', body)


@pytest.mark.parametrize("folder", FOLDERS)
async def test_recorded_traffic_passes_byte_for_byte_on_one_wire(folder: str) -> None:
    """
    Request and answer arrive as they were sent, but for the model's name; what needs a repair is the exception.
    """
    if not CORPUS.is_dir():
        pytest.skip("!!!! the recorded traffic is NOT THERE (../shared/corpus): byte equality is not tested")
    api = FOLDERS[folder]
    calls = [(one, *place(one, api)) for one in recorded(folder) if one.is_call(api)]
    lanes, same = Lanes(), 0
    async with (
        between(api, {model for _, _, model in calls}, lanes) as (upstream, url),
        aiohttp.ClientSession() as session,
    ):
        for one, path, _ in calls:
            upstream.now, body = one, json.dumps(one.request).encode()
            async with session.post(URL(url + path, encoded=True), data=body) as response:
                answer = await response.read()
            assert lanes.last is not None
            if response.status != 200 or lanes.last.lane != "same":
                continue
            same += 1
            if upstream.body == body:
                assert unnamed(answer) == unnamed(one.body), one.id
            else:  # usage was asked for on the client's behalf, and taken out of the answer
                assert without_usage_option(upstream.body) == without_usage_option(body), one.id
                assert contents(answer) == contents(one.body), one.id
    assert calls and same / len(calls) > 0.75, f"{same} of {len(calls)} passed unchanged"


async def test_blank_lines_before_an_answer_pass() -> None:
    """
    OpenRouter keeps a silent connection open with blank lines: they are bytes of the answer.
    """
    answer = (
        b'\n         \n\n{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop",'
    )
    answer += b'"message":{"role":"assistant","content":"Hi"}}]}'
    response = {"status": 200, "encoding": "utf-8", "body": answer.decode(), "content_type": "application/json"}
    one = Recorded(id="", model="m", url_path="", request={}, response=response, streaming=False)
    async with between("openai-completions", {"m"}, Lanes()) as (upstream, url), aiohttp.ClientSession() as session:
        upstream.now = one
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        async with session.post(url + "/v1/chat/completions", json=body) as got:
            assert await got.read() == answer


async def test_reasoning_of_a_model_that_the_gateway_does_not_know_goes_back_to_it() -> None:
    """
    Sealed reasoning, and reasoning that the provider stores under its id, are sent back as the client sent them.
    """
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"}
    stored = {"type": "reasoning", "id": "rs_1", "summary": []}
    call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "nothing"}
    answer = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "grok-4.3"}
    answer["output"] = [
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    ]
    response = {"status": 200, "encoding": "utf-8", "body": json.dumps(answer), "content_type": "application/json"}
    one = Recorded(id="", model="m", url_path="", request={}, response=response, streaming=False)
    for thought in (sealed, stored):
        body = {"model": "grok-4.3", "input": [{"role": "user", "content": "Hi"}, thought, call, result]}
        lanes = Lanes()
        async with between("openai-responses", {"grok-4.3"}, lanes) as (upstream, url):
            upstream.now = one
            async with aiohttp.ClientSession() as session, session.post(url + "/v1/responses", json=body) as got:
                assert got.status == 200, await got.text()
        assert json.loads(upstream.body) == body


async def test_the_header_names_no_loss_where_nothing_is_lost(gateway: Gateway, upstream: Server) -> None:
    """
    Who was asked, and when, is in no wire: that is no loss to a client, and is not recorded as one.
    """
    losses: list[tuple[Loss, ...]] = []

    class Losses:
        async def observe(self, exchange: Exchange) -> None:
            losses.append(exchange.losses)

    gateway.observers.append(Losses())
    body = {"model": "openai-completions", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{gateway.url}/v1/messages", json=body) as plain:
            assert "x-interlingua-losses" not in plain.headers
        lossy_body = {**body, "model": "ollama-chat", "metadata": {"user_id": "u"}}
        async with session.post(f"{gateway.url}/v1/messages", json=lossy_body) as lossy:
            assert "metadata" in lossy.headers.get("x-interlingua-losses", "")
    await gateway.drain(1.0)
    assert [[], ["metadata"]] == [[loss.what for loss in found] for found in losses]


@pytest.mark.parametrize(("path", "api"), [("/messages", "anthropic-messages"), ("/responses", "openai-responses")])
async def test_a_forwarded_text_is_decoded_only_for_those_who_read_it(
    path: str, api: str, gateway: Gateway, upstream: Server
) -> None:
    """
    Its usage is counted all the same, and where clients may refer to it, it is found by its id.
    """
    upstream.say("Hello.")
    lanes = Lanes()
    gateway.observers.append(lanes)
    given = [{"role": "user", "content": "Hi"}]
    body: dict[str, Any] = {"model": api, "max_tokens": 9, "messages": given}
    if path == "/responses":
        body = {"model": api, "input": given}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{gateway.url}/v1{path}", json=body) as got:
            answer = await got.json()
        usage = answer["usage"]
        while (exchange := lanes.last) is None:
            await asyncio.sleep(0.01)
        if path == "/responses":
            async with session.get(f"{gateway.url}/v1/responses/{answer['id']}") as stored:
                assert (await stored.json())["output"] == answer["output"]
            reference = {"type": "item_reference", "id": answer["output"][0]["id"]}
            again = {**body, "input": [*given, reference, *given]}
            for model in (api, "ollama-chat"):
                async with session.post(f"{gateway.url}/v1/responses", json={**again, "model": model}) as got:
                    assert got.status == 200
            assert upstream.last.request is not None
            texts = [text_of(message.content) for message in upstream.last.request.context.messages]
            assert texts == ["Hi", "Hello.", "Hi"]
    assert isinstance(exchange.response, DeferredAnswer) and exchange.lane == "same"
    assert exchange.usage is not None and usage["output_tokens"] == exchange.usage.output > 0
    assert exchange.answer is not None and exchange.answer is exchange.response
    assert ("Hello.", exchange.usage) == (exchange.answer.text, exchange.answer.usage)


@pytest.mark.parametrize("path", ["/v1/messages", "/api/generate"])
async def test_half_a_surrogate_pair_is_a_loss_on_another_wire(path: str, gateway: Gateway, upstream: Server) -> None:
    """
    It is valid JSON, and no Unicode: on the same wire it goes on as it came.
    """
    own, other = "anthropic-messages", "google-generative-ai"
    place = "$.messages[0].content"
    body = rb'{"model": "%b", "max_tokens": 9, "messages": [{"role": "user", "content": "a\ud83d"}]}'
    if path == "/api/generate":
        place, body = "$.prompt", rb'{"model": "%b", "stream": false, "prompt": "a\ud83d"}'
    async with aiohttp.ClientSession() as session:
        async with session.post(gateway.url + path, data=body % other.encode()) as got:
            assert f"{place} text weakened" in got.headers.get("x-interlingua-losses", ""), await got.text()
        assert upstream.last.request is not None
        assert "a\ufffd" == text_of(upstream.last.request.context.messages[0].content)
        async with session.post(gateway.url + path, data=body.replace(rb"\ud83d", b"") % other.encode()) as got:
            assert place not in got.headers.get("x-interlingua-losses", "")
        if path == "/v1/messages":
            async with session.post(gateway.url + path, data=body % own.encode()) as got:
                assert got.status == 200 and "x-interlingua-losses" not in got.headers
            assert rb"a\ud83d" in upstream.last.body


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize("stream", [False, True])
async def test_half_a_surrogate_pair_in_an_answer_is_a_loss_on_another_wire(
    api: str, stream: bool, gateway: Gateway, upstream: Server
) -> None:
    """
    On the same wire the provider's bytes go on as they came, so nothing is lost.
    """
    upstream.say("a ~half~ pair", fault=Halved())
    lanes = Lanes()
    gateway.observers.append(lanes)
    body = {"model": api, "stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/v1/chat/completions", json=body) as got,
    ):
        answer, told = await got.read(), got.headers.get("x-interlingua-losses", "")
    while (exchange := lanes.last) is None:
        await asyncio.sleep(0.01)
    is_same = api == "openai-completions"
    assert (HALF in answer, "\ufffd".encode() in answer) == (is_same, not is_same)
    assert bool(reported(exchange.losses)) == (not is_same)
    assert ("text weakened" in told) == (not is_same and not stream)


NAMES = {"plain": b'"model"', "first": b'"\\u006dodel"', "middle": b'"mod\\u0065l"', "upper": b'"mode\\u006C"'}


@pytest.mark.parametrize("name", NAMES)
async def test_a_second_model_in_a_body_reaches_no_provider(name: str, gateway: Gateway, upstream: Server) -> None:
    """
    It is refused, and one in another spelling is renamed: the key was checked for one model alone.
    """
    upstream.say("Fine.")
    rest = b'"messages": [{"role": "user", "content": "Hi"}]}'
    body = b'{%s: "openai-completions", %s' % (NAMES[name], rest)
    second = body.replace(b"{", b'{"model": "forbidden", ', 1)
    url = f"{gateway.url}/v1/chat/completions"
    async with aiohttp.ClientSession() as session:
        async with session.post(url, data=second) as refused:
            assert (400, "$.model") == (refused.status, (await refused.json())["error"]["message"][-8:-1])
        assert not upstream.requests
        async with session.post(url, data=body) as response:
            assert response.status == 200, await response.text()
    assert "test-model" == upstream.last.json["model"]
