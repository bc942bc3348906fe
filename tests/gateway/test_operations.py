"""Paths beside the calls: models, counts, stored responses, conversations, WebSockets, what is passed on."""

import asyncio
import base64
import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import ollama
import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from google import genai
from google.genai.types import HttpOptions
from msgspec.structs import replace

import interlingua as il
from gateway.conftest import WIRES, settings_for
from gateway.sdks import PNG
from interlingua.connect.stream import Timeouts
from interlingua.gateway import (
    Alias,
    ClientKey,
    ClientLimits,
    Exchange,
    Gateway,
    Listen,
    ProviderSettings,
    RoutingRule,
    Settings,
    Target,
)
from interlingua.gateway.accounts import Accounts
from interlingua.gateway.gate import KeyGate
from interlingua.gateway.keys import ClientKeys
from interlingua.gateway.ledger import Ledger
from interlingua.gateway.metrics import Metrics
from interlingua.gateway.state import MemoryState
from interlingua.testing import Server, faults
from interlingua.testing.threads import LoopThread
from interlingua.values.errors import Overloaded
from interlingua.values.messages import Usage
from laws.test_odd_answers import TEXT


async def asked(gateway: Gateway, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, gateway.url + path, json=body, **options) as response,
    ):
        text = await response.text()
        return response.status, json.loads(text) if text else None


MESSAGES = [{"role": "user", "content": "Hello there, how are you?"}]
COUNTS = {
    "/v1/messages/count_tokens": ({"model": "m", "messages": MESSAGES}, "input_tokens"),
    "/v1beta/models/m:countTokens": (
        {"contents": [{"role": "user", "parts": [{"text": "Hello there"}]}]},
        "totalTokens",
    ),
    "/v1/responses/input_tokens": ({"model": "m", "input": "Hello there"}, "input_tokens"),
    "/model/m/count-tokens": (
        {"input": {"converse": {"messages": [{"role": "user", "content": [{"text": "Hello there"}]}]}}},
        "inputTokens",
    ),
}


@pytest.mark.parametrize("path", COUNTS)
async def test_tokens_are_counted_in_each_form(path: str, gateway: Gateway) -> None:
    """
    An estimate, in the answer of the client's protocol.
    """
    body, field = COUNTS[path]
    status, answer = await asked(gateway, "POST", path, body)
    assert status == 200
    assert 0 < answer[field] < 20


LISTS = {
    "/v1/models": lambda answer: [entry["id"] for entry in answer["data"]],
    "/v1beta/models": lambda answer: [entry["name"].removeprefix("models/") for entry in answer["models"]],
    "/api/tags": lambda answer: [entry["name"] for entry in answer["models"]],
    "/foundation-models": lambda answer: [entry["modelId"] for entry in answer["modelSummaries"]],
}


@pytest.mark.parametrize("path", LISTS)
async def test_models_are_listed_in_each_form(path: str, gateway: Gateway) -> None:
    """
    Aliases first, then the offline models; no limits that nobody knows.
    """
    status, answer = await asked(gateway, "GET", path)
    assert status == 200
    names = LISTS[path](answer)
    assert names[0] == "openai-completions"
    assert "debug/parrot-1" in names
    assert not {"inputTokenLimit", "outputTokenLimit", "context_length"} & set(re.findall(r"\w+", str(answer)))


async def test_one_model_is_looked_up(gateway: Gateway) -> None:
    """
    Also one with a slash in its name; an unknown one is not found.
    """
    assert (await asked(gateway, "GET", "/v1/models/debug/parrot-1"))[1]["id"] == "debug/parrot-1"
    assert (await asked(gateway, "GET", "/v1/models/anthropic-messages"))[1]["id"] == "anthropic-messages"
    assert (await asked(gateway, "GET", "/v1/models/nothing"))[0] == 404


async def test_a_model_exists_where_a_call_with_its_name_is_routed(upstream: Server, tmp_path: Path) -> None:
    """
    The lists do not have all models of a provider: what is not listed is looked up as it is called. A key sees its own.
    """
    keys = ClientKeys(tmp_path / "keys.json")
    given = {"headers": {"Authorization": f"Bearer {keys.add(ClientKey(name='ci', models=('up-*/*',)))}"}}
    name, settings = "up-openai-completions/a/model-of-today", settings_for(upstream)
    rule = RoutingRule(to="ollama-chat", model="up-*/ruled")
    async with Gateway(replace(settings, rules=(rule,)), gate=KeyGate(keys, Accounts(MemoryState()))) as gateway:
        assert (await asked(gateway, "GET", f"/v1/models/{name}", **given))[1]["id"] == name
        assert (await asked(gateway, "GET", f"/v1/models/{quote(name, safe='')}", **given))[1]["id"] == name
        assert (await asked(gateway, "GET", f"/v1beta/models/{name}", **given))[1]["name"] == f"models/{name}"
        assert "capabilities" in (await asked(gateway, "POST", "/api/show", {"model": name}, **given))[1]
        assert (await asked(gateway, "GET", "/v1/models/up-nobody/ruled", **given))[0] == 200
        for other in ("up-nobody/model", "up-nobody", "ollama-chat", "debug/parrot-1"):
            assert (await asked(gateway, "GET", f"/v1/models/{other}", **given))[0] == 404
            assert (await asked(gateway, "POST", "/api/show", {"model": other}, **given))[0] == 404
        assert not upstream.requests
    async with Gateway(replace(settings, open_models=False)) as gateway:
        assert (await asked(gateway, "GET", f"/v1/models/{name}"))[0] == 404


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_googles_package_finds_the_models_below_any_version(version: str, upstream: Server) -> None:
    """
    Its stable version has OpenAI's path for the list, `/v1/models`: the header with the key tells them apart.
    """
    thread = LoopThread("gateway-under-test")
    gateway = Gateway(settings_for(upstream))
    thread.start(gateway.start())
    try:
        options = HttpOptions(base_url=gateway.url, api_version=version)
        with closing(genai.Client(api_key="client-key", http_options=options)) as client:
            names = [model.name for model in client.models.list(config={"page_size": 4})]
            assert [f"models/{name}" for name in gateway.models()] == names
            assert "models/openai-completions" == client.models.get(model="openai-completions").name
            assert client.models.count_tokens(model="openai-completions", contents="Hello there").total_tokens
            assert "Hello" == client.models.generate_content(model="openai-completions", contents="Hello").text
    finally:
        thread.run(gateway.stop())
        thread.stop()


@pytest.mark.parametrize("stream", [False, True])
def test_googles_package_reads_and_returns_signatures_that_are_not_base64(stream: bool, upstream: Server) -> None:
    """
    It reads bytes, and Google's are: those of other providers reach it in base64 and return to them as they were.
    """
    thread = LoopThread("gateway-under-test")
    gateway = Gateway(settings_for(upstream))
    thread.start(gateway.start())
    try:
        options = HttpOptions(base_url=gateway.url)
        with closing(genai.Client(api_key="client-key", http_options=options)) as client:
            upstream.answer([il.ThinkingBlock(thinking="Hm.", thinking_signature="sig 1"), il.TextBlock(text="Yes.")])
            call: dict[str, Any] = {"model": "anthropic-messages", "contents": "Hello"}
            models = client.models
            answers = models.generate_content_stream(**call) if stream else [models.generate_content(**call)]
            parts = [part for answer in answers for part in answer.candidates[0].content.parts or ()]
            assert any(part.thought_signature for part in parts)
            contents = [{"role": "user", "parts": [{"text": "Hello"}]}, {"role": "model", "parts": parts}]
            models.generate_content(**{**call, "contents": [*contents, {"role": "user", "parts": [{"text": "Sure?"}]}]})
    finally:
        thread.run(gateway.stop())
        thread.stop()
    assert upstream.last.request is not None
    (answer,) = [one for one in upstream.last.request.context.messages if isinstance(one, il.AssistantMessage)]
    assert ["sig 1"] == [one.thinking_signature for one in answer.content if isinstance(one, il.ThinkingBlock)]


async def test_ollamas_own_paths_answer(gateway: Gateway, upstream: Server) -> None:
    """
    Version, details of a model, and a prompt without messages, streamed and whole.
    """
    assert "version" in (await asked(gateway, "GET", "/api/version"))[1]
    assert {"models": []} == (await asked(gateway, "GET", "/api/ps"))[1]
    assert "capabilities" in (await asked(gateway, "POST", "/api/show", {"model": "debug/parrot-1"}))[1]
    assert (await asked(gateway, "POST", "/api/show", {"model": "nothing"}))[0] == 404
    upstream.say("Good morning.")
    body = {"model": "anthropic-messages", "prompt": "Hi", "stream": False}
    status, answer = await asked(gateway, "POST", "/api/generate", body)
    assert (status, answer["response"], answer["done"]) == (200, "Good morning.", True)
    assert "message" not in answer
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/api/generate", json={**body, "stream": True}) as response,
    ):
        lines = [json.loads(line) async for line in response.content]
    assert "".join(line["response"] for line in lines) == "Good morning."


GENERATE_ONLY: dict[str, Any] = {
    "context": [1, 2, 3],
    "raw": True,
    "template": "{{ .Prompt }}",
    "suffix": "return x",
    "width": 64,
    "height": 64,
    "steps": 4,
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", [*(api for api in WIRES if api != "ollama-chat"), "debug/echo"])
async def test_what_only_ollamas_prompts_have_is_refused_elsewhere(
    model: str, stream: bool, gateway: Gateway, upstream: Server
) -> None:
    """
    Status 400 that names the field: an answer without it would look right and be wrong. Values that set nothing are
    left out.
    """
    body = {"model": model, "prompt": "Hi", "stream": stream}
    for field, value in GENERATE_ONLY.items():
        status, answer = await asked(gateway, "POST", "/api/generate", {**body, field: value})
        assert status == 400 and f"`{field}`" in answer["error"], answer
    assert [] == upstream.requests
    unset = {field: type(value)() for field, value in GENERATE_ONLY.items()}
    for given in (unset, dict.fromkeys(unset)):
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{gateway.url}/api/generate", json={**body, **given}) as response,
        ):
            assert response.status == 200, await response.text()
            assert not any(field in response.headers.get("x-interlingua-losses", "") for field in unset)


@pytest.mark.parametrize("model", WIRES)
async def test_a_prompt_keeps_what_every_model_understands(model: str, gateway: Gateway, upstream: Server) -> None:
    """
    System text, pictures, format, options and thinking are those of the call. `keep_alive`, which only Ollama has, is
    passed on to it and a loss elsewhere.
    """
    body = {
        "model": model,
        "prompt": "What is it?",
        "system": "Be brief.",
        "images": [base64.b64encode(PNG).decode()],
        "format": {"type": "object", "properties": {"it": {"type": "string"}}, "required": ["it"]},
        "options": {"temperature": 0.5, "num_predict": 3000},
        "think": False,
        "keep_alive": "5m",
        "stream": False,
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/api/generate", json=body) as response,
    ):
        assert response.status == 200, await response.text()
        losses = response.headers.get("x-interlingua-losses", "")
    request = upstream.last.request
    assert request is not None
    assert "Be brief." == request.context.system_prompt
    (message,) = request.context.messages
    assert ["image", "text"] == sorted(block.type for block in message.content)
    assert (0.5, 3000) == (request.options.temperature, request.options.max_tokens)
    if "outputSchema" not in losses:
        assert request.options.output_schema is not None
    if model == "ollama-chat":
        assert "5m" == json.loads(upstream.last.body)["keep_alive"]
    else:
        assert "keep_alive dropped" in losses


@pytest.mark.parametrize("field", GENERATE_ONLY)
async def test_ollamas_prompts_reach_an_ollama_server_as_they_are(field: str) -> None:
    """
    By the endpoint that knows them. The answer comes back in its own form, streamed and whole, with the context.
    """
    received: list[Any] = []

    async def generate(request: web.Request) -> web.StreamResponse:
        received.append(await request.json())
        last = {"done": True, "done_reason": "stop", "context": [7, 8], "prompt_eval_count": 3, "eval_count": 2}
        base = {"model": received[-1]["model"], "created_at": "2025-01-01T00:00:00Z"}
        if not received[-1]["stream"]:
            return web.json_response({**base, "response": "def f", "thinking": "Hm.", **last})
        parts = [{"thinking": "Hm.", "response": ""}, {"response": "def "}, {"response": "f"}, {"response": "", **last}]
        lines = [json.dumps({**base, "done": False, **part}) + "\n" for part in parts]
        return web.Response(text="".join(lines), content_type="application/x-ndjson")

    app = web.Application()
    app.router.add_post("/api/generate", generate)
    async with TestServer(app) as server:
        settings = Settings(
            providers=(ProviderSettings(id="up", api="ollama-chat", base_url=str(server.make_url("")).rstrip("/")),),
            aliases=(Alias(name="m", targets=(Target(model="up/coder"),), retries=0),),
            listen=Listen(port=0),
        )
        async with Gateway(settings) as gateway, ollama.AsyncClient(host=gateway.url) as client:
            given: dict[str, Any] = {field: GENERATE_ONLY[field], "keep_alive": "5m", "options": {"mirostat": 1}}
            answer = await client.generate("m", "Hi", system="Be brief.", images=[PNG], **given)
            assert ("m", "def f", "Hm.", [7, 8]) == (answer.model, answer.response, answer.thinking, answer.context)
            parts = [part async for part in await client.generate("m", "Hi", stream=True, **given)]
    assert ["Hm."] == [part.thinking for part in parts if part.thinking]
    assert "def f" == "".join(part.response or "" for part in parts)
    assert ([7, 8], "stop") == (parts[-1].context, parts[-1].done_reason)
    whole, streamed = received
    assert {"model": "coder", "prompt": "Hi", "stream": True, **given} == streamed
    assert {**streamed, "stream": False, "system": "Be brief.", "images": [base64.b64encode(PNG).decode()]} == whole


async def test_head_of_the_root_answers(gateway: Gateway) -> None:
    """
    Programs look there whether anybody listens.
    """
    assert (await asked(gateway, "HEAD", "/"))[0] == 200


@pytest.mark.parametrize("upstream_api", ["openai-responses", "anthropic-messages", "ollama-chat"])
async def test_previous_responses_are_known_to_any_provider(
    upstream_api: str, gateway: Gateway, upstream: Server
) -> None:
    """
    A response is continued by its id, looked up, listed and deleted, whoever answered.
    """
    upstream.say("I am fine.")
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        first = await client.responses.create(model=upstream_api, input="How are you?")
        second = await client.responses.create(model=upstream_api, input="And now?", previous_response_id=first.id)
        assert second.output_text == "I am fine."
        request = upstream.last.request
        assert request is not None
        texts = [il.text_of(m.content) if hasattr(il, "text_of") else m.content for m in request.context.messages]
        assert len(texts) == 3
        assert (await client.responses.retrieve(first.id)).output_text == "I am fine."
        items = [item async for item in client.responses.input_items.list(second.id)]
        assert len(items) == 1
        await client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(first.id)
        with pytest.raises(openai.BadRequestError, match="not found"):
            await client.responses.create(model=upstream_api, input="And?", previous_response_id=first.id)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_host_that_numbers_no_responses_mixes_no_conversations(
    stream: bool, gateway: Gateway, upstream: Server
) -> None:
    """
    Some hosts give every response the same id. Clients refer to each by one of its own.
    """
    upstream.answer(lambda request: il.AssistantMessage("Yes.", response_id="chatcmpl-A1"))
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:

        async def respond(text: str, **given: Any) -> str:
            given |= {"model": "openai-completions", "input": text}
            if not stream:
                return (await client.responses.create(**given)).id
            async with client.responses.stream(**given) as events:
                (id,) = {event.response.id async for event in events if hasattr(event, "response")}
                return id

        first, second = await respond("Is it raining?"), await respond("Is it late?")
        assert first != second
        await respond("Why?", previous_response_id=first)
    request = upstream.last.request
    assert request is not None
    assert ["Is it raining?", "Yes.", "Why?"] == [message.text for message in request.context.messages]


@pytest.mark.parametrize("upstream_api", ["openai-responses", "anthropic-messages", "debug/echo"])
async def test_a_response_names_what_it_continues(upstream_api: str, gateway: Gateway) -> None:
    """
    The id of the previous response or of the conversation is in the response, in its events and when it is looked up.
    """
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        first = await client.responses.create(model=upstream_api, input="One?")
        second = await client.responses.create(model=upstream_api, input="Two?", previous_response_id=first.id)
        async with client.responses.stream(
            model=upstream_api, input="Three?", previous_response_id=second.id, store=True
        ) as stream:
            started = [event.response async for event in stream if event.type == "response.created"]
            third = await stream.get_final_response()
        looked_up = [await client.responses.retrieve(id) for id in (first.id, second.id, third.id)]
        assert [None, first.id, second.id] == [one.previous_response_id for one in looked_up]
        assert [first.id, second.id, second.id] == [one.previous_response_id for one in (second, *started, third)]
        conversation = (await client.conversations.create()).id
        for given in (conversation, {"id": conversation}):
            answer = await client.responses.create(model=upstream_api, input="Four?", conversation=given)
            assert answer.conversation is not None and answer.conversation.id == conversation
            assert answer.previous_response_id is None


async def test_what_a_request_continues_is_counted_with_it(gateway: Gateway) -> None:
    """
    The tokens of a previous response and of a conversation are input; one that does not exist is refused.
    """
    long = "a b c d e f g h " * 50
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        first = await client.responses.create(model="debug/echo", input=long)
        item = {"type": "message", "role": "user", "content": long}
        conversation = await client.conversations.create(items=[item])  # type: ignore[list-item]
        count = client.responses.input_tokens.count
        alone = (await count(model="debug/echo", input="And?")).input_tokens
        continued = await count(model="debug/echo", input="And?", previous_response_id=first.id)
        added = await count(model="debug/echo", input="And?", conversation=conversation.id)
        assert alone < 10 and continued.input_tokens > added.input_tokens > 100
        with pytest.raises(openai.BadRequestError, match="not found"):
            await count(model="debug/echo", input="And?", previous_response_id="resp_9")


async def test_a_path_below_responses_that_is_no_id_is_passed_on(gateway: Gateway, upstream: Server) -> None:
    """
    `/responses/compact` belongs to the provider: no stored response is posted to.
    """
    upstream.route("POST", "/openai-responses/v1/responses/compact", {"object": "response.compaction"})
    status, answer = await asked(gateway, "POST", "/v1/responses/compact", {"model": "openai-responses", "input": "x"})
    assert (200, {"object": "response.compaction"}) == (status, answer)


async def test_a_conversation_grows_with_each_response(gateway: Gateway, upstream: Server) -> None:
    """
    Responses that name a conversation continue it.
    """
    upstream.say("Yes.")
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        conversation = await client.conversations.create()
        for text in ("One?", "Two?", "Three?"):
            await client.responses.create(model="anthropic-messages", input=text, conversation=conversation.id)
        request = upstream.last.request
        assert request is not None
        assert len(request.context.messages) == 5


async def test_conversations_keep_what_they_were_given(gateway: Gateway, upstream: Server) -> None:
    """
    Metadata, the time of creation and all items are as they were given or answered, page by page.
    """
    upstream.say("Yes.")
    note = {"type": "message", "role": "user", "content": "A note."}
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        made = await client.conversations.create(items=[note], metadata={"topic": "rain"})  # type: ignore[list-item]
        assert made.metadata == {"topic": "rain"}
        named: dict[str, Any] = {"model": "anthropic-messages", "conversation": made.id}
        for text in ("One?", "Two?"):
            await client.responses.create(input=text, **named)
        added = await client.conversations.items.create(made.id, items=[note])  # type: ignore[list-item]
        assert [item.type for item in added.data] == ["message"]
        listed = [item async for item in client.conversations.items.list(made.id, limit=2, order="asc")]
        texts = [item.content[0].text for item in listed]  # type: ignore[union-attr]
        assert texts == ["A note.", "One?", "Yes.", "Two?", "Yes.", "A note."]
        newest = [item.id async for item in client.conversations.items.list(made.id)]
        assert newest == [item.id for item in reversed(listed)] and newest[0] == added.data[0].id
        found = await client.conversations.items.retrieve(listed[1].id or "", conversation_id=made.id)
        assert found == listed[1]
        changed = await client.conversations.update(made.id, metadata={"topic": "sun"})
        assert changed.metadata == {"topic": "sun"} and changed.created_at == made.created_at
        assert await client.conversations.retrieve(made.id) == changed
        with pytest.raises(openai.NotFoundError, match="only grow"):
            await client.conversations.items.delete(newest[0] or "", conversation_id=made.id)
        with pytest.raises(openai.NotFoundError, match="item with id 'item_9' not found"):
            await client.conversations.items.retrieve("item_9", conversation_id=made.id)
        for wrong in ({"limit": "0"}, {"limit": "x"}, {"order": "up"}, {"after": "item_9"}):
            with pytest.raises(openai.BadRequestError, match=next(iter(wrong))):
                await client.conversations.items.list(made.id, extra_query=wrong)
        for body, place in (
            ({"items": [5]}, r"items\[0\]"),
            ({"items": "x"}, "items"),
            ({"metadata": [1]}, "metadata"),
        ):
            with pytest.raises(openai.BadRequestError, match=place):
                await client.conversations.create(extra_body=body)
        await client.conversations.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await client.conversations.items.list(made.id)


async def test_turns_at_once_are_all_in_their_conversation(gateway: Gateway, upstream: Server) -> None:
    """
    Neither replaces the other; a conversation that is deleted meanwhile stays deleted.
    """
    upstream.say("Yes.", fault=faults.SlowHeaders(0.1, times=None))
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        conversation = await client.conversations.create()
        create, named = client.responses.create, {"model": "anthropic-messages", "conversation": conversation.id}
        await asyncio.gather(create(input="One?", **named), create(input="Two?", **named))
        await create(input="Three?", **named)
        request = upstream.last.request
        assert request is not None
        asked_before = [m.text for m in request.context.messages if isinstance(m, il.UserMessage)]
        assert {"One?", "Two?"} == set(asked_before[:-1]) and "Three?" == asked_before[-1]
        turn = asyncio.ensure_future(create(input="Four?", **named))
        await asyncio.to_thread(upstream.wait_for_requests, 4)
        await client.conversations.delete(conversation.id)
        await turn
        with pytest.raises(openai.NotFoundError):
            await client.conversations.retrieve(conversation.id)


async def test_what_cannot_be_continued_is_refused(gateway: Gateway, upstream: Server) -> None:
    """
    Two histories at once, and items that only their provider has: none is ignored.
    """
    upstream.say("Yes.")
    items = [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "And?"}]
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        first = await client.responses.create(model="anthropic-messages", input="One?")
        conversation = await client.conversations.create()
        both: dict[str, Any] = {"previous_response_id": first.id, "conversation": conversation.id}
        with pytest.raises(openai.BadRequestError, match="exclude each other"):
            await client.responses.create(model="anthropic-messages", input="Two?", **both)
        with pytest.raises(openai.NotFoundError, match="item with id 'msg_1' not found"):
            await client.responses.create(model="anthropic-messages", input=items)  # type: ignore[arg-type]
        await client.responses.create(model="openai-responses", input=items)  # type: ignore[arg-type]
        assert upstream.last.json["input"] == items


@pytest.mark.parametrize("model", ["anthropic-messages", "openai-responses"])
async def test_a_stored_response_is_streamed_again(model: str, gateway: Gateway, upstream: Server) -> None:
    """
    A client that lost its connection has the events after the last one that it saw.
    """
    upstream.answer((il.TextBlock(text="I look."), il.ToolCall(id="call_1", name="look", arguments={"city": "Oslo"})))
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        first = await client.responses.create(model=model, input="Weather?")
        events = [event async for event in await client.responses.retrieve(first.id, stream=True)]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        last = events[-1]
        assert last.type == "response.completed" and last.response.output == first.output
        assert last.response.id == first.id
        stream = await client.responses.retrieve(first.id, stream=True, starting_after=4)
        assert [event async for event in stream] == events[5:]
        assert [
            event async for event in await client.responses.retrieve(first.id, stream=True, starting_after=999)
        ] == []
        with pytest.raises(openai.BadRequestError, match="starting_after: expected a sequence number, got '-1'"):
            await client.responses.retrieve(first.id, stream=True, starting_after=-1)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("resp_none", stream=True)


async def test_references_to_items_are_resolved_for_other_providers(gateway: Gateway, upstream: Server) -> None:
    """
    Clients send the ids of items that they believe to be stored: the calls and texts behind them reach any provider.
    """
    upstream.call("look", {"city": "Oslo"})
    upstream.say("Rain.")
    upstream.say("Bring a coat.")
    tools: Any = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        items: list[Any] = [{"role": "user", "content": "Weather?"}]
        first = await client.responses.create(model="anthropic-messages", input=items, tools=tools)
        (call,) = first.output
        assert call.type == "function_call"
        items += [{"type": "item_reference", "id": call.id}]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": "grey"}]
        second = await client.responses.create(model="anthropic-messages", input=items, tools=tools)
        items += [{"type": "item_reference", "id": second.output[0].id}, {"role": "user", "content": "And?"}]
        for model in ("anthropic-messages", "ollama-chat", "openai-responses"):
            await client.responses.create(model=model, input=items, tools=tools)
            sent = upstream.last.request
            assert sent is not None
            roles = [(message.role, getattr(message, "text", "")) for message in sent.context.messages]
            assert [role for role, _ in roles] == ["user", "assistant", "toolResult", "assistant", "user"]
            assert isinstance(sent.context.messages[1], il.AssistantMessage)
            assert [call.name for call in sent.context.messages[1].tool_calls] == ["look"] and roles[3][1] == "Rain."
        await client.responses.delete(second.id)
        with pytest.raises(openai.NotFoundError, match="not found"):
            await client.responses.create(model="anthropic-messages", input=items, tools=tools)


async def test_references_are_left_to_the_provider_that_has_the_items(gateway: Gateway, upstream: Server) -> None:
    """
    It may have stored more than it returned; any other provider gets the items themselves.
    """
    upstream.say("Rain.")
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        first = await client.responses.create(model="openai-responses", input="Weather?")
        items: Any = [{"type": "item_reference", "id": first.output[0].id}, {"role": "user", "content": "And?"}]
        await client.responses.create(model="openai-responses", input=items)
        assert items == upstream.last.json["input"]
        await client.responses.create(model="anthropic-messages", input=items)
        assert "Rain." in str(upstream.last.json["messages"])


async def test_responses_are_created_over_a_websocket(gateway: Gateway, upstream: Server) -> None:
    """
    Each `response.create` is answered with the events of its stream; an error leaves the socket open.
    """
    upstream.say("Good morning.")
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        await socket.send_json({"type": "response.create", "model": "nothing", "input": "Hi"})
        assert (await socket.receive_json())["type"] == "error"
        for _ in range(2):
            await socket.send_json({"type": "response.create", "model": "anthropic-messages", "input": "Hi"})
            kinds = []
            while not kinds or kinds[-1] != "response.completed":
                kinds.append((await socket.receive_json())["type"])
            assert kinds[0] == "response.created"
            assert "response.output_text.delta" in kinds


@pytest.mark.parametrize(
    "message",
    [
        '{"type": "response.cancel"}',
        '{"type": "response.steer", "input": "Hi"}',
        '{"type": {"a": [1]}}',
        '{"type": null}',
        "{}",
        '"response.create"',
        "{",
        '{"type": "response.create", "model": "debug/echo", "input": "Hi", "input": "Ho"}',
    ],
)
async def test_an_unknown_message_of_a_websocket_is_answered_in_its_turn(message: str, gateway: Gateway) -> None:
    """
    With a typed error that says what to send, after the response that runs, which it does not end; the socket stays
    open.
    """
    create = {"type": "response.create", "model": "debug/echo", "input": "Hi"}
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{gateway.url}/v1/responses") as socket:
        await socket.send_json(create)
        await socket.send_str(message)
        await socket.send_json(create)
        events = await received(socket, 3)
    ends = [event for event in events if event["type"] in ("response.completed", "error")]
    assert ["response.completed", "error", "response.completed"] == [event["type"] for event in ends]
    error = ends[1]["error"]
    assert (400, "invalid_request_error") == (ends[1]["status"], error["type"])
    if "response." in message[:30] and "create" not in message:
        assert "send response.create" in error["message"] and "close the WebSocket" in error["message"]


async def test_pings_of_a_websocket_are_answered_while_a_model_thinks(gateway: Gateway, upstream: Server) -> None:
    """
    A client that pings does not give up the socket before the response.
    """
    upstream.say("Good morning.", fault=faults.Stall(3, seconds=1.0))
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses", heartbeat=0.2) as socket,
    ):
        await socket.send_json({"type": "response.create", "model": "anthropic-messages", "input": "Hi"})
        kinds = [(await socket.receive_json())["type"]]
        while kinds[-1] != "response.completed":
            kinds.append((await socket.receive_json())["type"])


@pytest.mark.parametrize("at", [0, 3], ids=["before the answer", "within it"])
async def test_a_websocket_that_is_closed_ends_its_response(gateway: Gateway, upstream: Server, at: int) -> None:
    """
    The provider's stream is closed with the socket, not when it has ended, and what was used is in the ledger.
    """
    ended: list[Exchange] = []
    gateway.observers.append(_Ended(ended))
    upstream.say("Good morning.", fault=faults.Stall(at, seconds=30.0))
    async with aiohttp.ClientSession() as session, asyncio.timeout(10):
        socket = await session.ws_connect(f"{gateway.url}/v1/responses")
        for _ in range(2):  # the second waits for the first, and is never asked
            await socket.send_json({"type": "response.create", "model": "anthropic-messages", "input": "Hi"})
        while not upstream.open_streams:
            await asyncio.sleep(0.01)
        closing = asyncio.ensure_future(socket.close())  # waits for the gateway's own close
        while gateway.open_exchanges or upstream.open_streams or not ended:
            await asyncio.sleep(0.01)
        await closing
    assert [(True, 1)] == [(one.is_aborted, one.attempts) for one in ended]
    assert 1 == len(upstream.requests)


@pytest.mark.parametrize("model", ["openai-responses", "anthropic-messages"])
async def test_a_websocket_continues_its_latest_response(model: str, gateway: Gateway, upstream: Server) -> None:
    """
    Also one that is not stored, which another socket does not know, and one that was only prepared, which no provider
    was asked for.
    """

    async def create(socket: aiohttp.ClientWebSocketResponse, **given: Any) -> Any:
        await socket.send_json({"type": "response.create", "model": model, "store": False, **given})
        while (event := await socket.receive_json())["type"] not in ("response.completed", "error"):
            pass
        return event

    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
        session.ws_connect(f"{gateway.url}/v1/responses") as other,
    ):
        prepared = await create(socket, input=[], instructions="Be brief.", generate=False)
        assert ("response.completed", []) == (prepared["type"], prepared["response"]["output"])
        assert [] == upstream.requests
        assert "error" == (await create(socket, input="Hi", model="nothing", generate=False))["type"]
        upstream.say("Hello.")
        first = await create(socket, input="Hi", previous_response_id=prepared["response"]["id"])
        assert "error" == (await create(other, input="And?", previous_response_id=first["response"]["id"]))["type"]
        upstream.say("Well.")
        second = await create(socket, input="And?", previous_response_id=first["response"]["id"])
        assert "response.completed" == second["type"]
    sent = [request.body.decode() for request in upstream.requests]
    assert [1, 1] == [sum(text in body for body in sent[1:]) for text in ("Hello.", "And?")]
    assert 2 == len(sent) and '"generate"' not in "".join(sent)


async def received(socket: aiohttp.ClientWebSocketResponse, ends: int) -> list[Any]:
    """The events of a socket, until so many responses have ended."""
    events: list[Any] = []
    while sum(event["type"] in ("response.completed", "error") for event in events) < ends:
        events.append(await socket.receive_json(timeout=20))
    return events


async def test_the_streams_of_a_websocket_are_answered_at_once(gateway: Gateway, upstream: Server) -> None:
    """
    A stalled one does not hold up another. Each event has the `stream_id` of its request; those without one have none.
    No provider sees it.
    """
    upstream.say("Slow.", fault=faults.Stall(3, seconds=30.0))
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{gateway.url}/v1/responses") as socket:
        create = {"type": "response.create", "input": "Hi"}
        await socket.send_json({**create, "model": "anthropic-messages", "stream_id": "slow"})
        while not upstream.open_streams:
            await asyncio.sleep(0.01)
        upstream.clear()
        upstream.say("Good morning.")
        for name in ("a", "b.2", None):
            given = {} if name is None else {"stream_id": name}
            await socket.send_json({**create, "model": "openai-responses", **given})
        events = await received(socket, 3)
        own = [event for event in events if event.get("stream_id") != "slow"]
        for name in ("a", "b.2", None):
            of_it = [event for event in own if event.get("stream_id") == name]
            assert ("response.created", "response.completed") == (of_it[0]["type"], of_it[-1]["type"])
            text = "".join(event["delta"] for event in of_it if event["type"] == "response.output_text.delta")
            assert "Good morning." == text
            assert 1 == len({event["response"]["id"] for event in of_it if "response" in event})
            assert ("stream_id" in of_it[0]) == (name is not None)
        assert not any(event["type"] == "response.completed" for event in events if event.get("stream_id") == "slow")
    assert not any(b"stream_id" in request.body for request in upstream.requests)


async def test_requests_of_one_stream_are_answered_in_order(gateway: Gateway, upstream: Server) -> None:
    """
    One after another, never mixed; and so are those that name none.
    """
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{gateway.url}/v1/responses") as socket:
        for given, is_nested in (({}, False), ({"stream_id": "a"}, False), ({"stream_id": "b"}, True)):
            for at in range(5):
                body = {"model": "debug/echo", "input": f"Number {at}", **given}
                await socket.send_json({"type": "response.create", **({"response": body} if is_nested else body)})
            events = await received(socket, 5)
            texts: list[str] = []
            for event in events:
                assert given.get("stream_id") == event.get("stream_id")
                if event["type"] == "response.created":
                    texts.append("")
                elif event["type"] == "response.output_text.delta":
                    texts[-1] += event["delta"]
            assert [at for at, text in enumerate(texts) if f"Number {at}" in text] == list(range(5))


async def test_a_stream_continues_the_latest_response_of_another(gateway: Gateway, upstream: Server) -> None:
    """
    A conversation is forked, although it is not stored: each stream keeps its own latest response.
    """
    upstream.say("Hello.")
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{gateway.url}/v1/responses") as socket:
        create = {"type": "response.create", "model": "anthropic-messages", "store": False}
        await socket.send_json({**create, "input": "Hi", "stream_id": "main"})
        first = (await received(socket, 1))[-1]["response"]["id"]
        for name in ("fork", "main"):
            await socket.send_json({**create, "input": name, "previous_response_id": first, "stream_id": name})
            last = (await received(socket, 1))[-1]
            assert ("response.completed", name) == (last["type"], last["stream_id"])
        await socket.send_json({**create, "input": "?", "previous_response_id": first, "stream_id": "fork"})
        assert "previous_response_not_found" == (await received(socket, 1))[-1]["error"]["code"]


@pytest.mark.parametrize("name", ["", " ", "a b", "é", 'x"y', "a" * 257, 5, True, ["a"], {}])
async def test_an_invalid_stream_of_a_websocket_is_refused(name: Any, gateway: Gateway, upstream: Server) -> None:
    """
    With an error event that says what is valid; the socket stays open.
    """
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{gateway.url}/v1/responses") as socket:
        create = {"type": "response.create", "model": "debug/echo", "input": "Hi"}
        await socket.send_json({**create, "stream_id": name})
        (refused,) = await received(socket, 1)
        assert ("invalid_stream_id", 400) == (refused["error"]["code"], refused["status"])
        assert "stream_id" not in refused and "letters" in refused["error"]["message"]
        await socket.send_json({**create, "stream_id": "a" * 256})
        assert "response.completed" == (await received(socket, 1))[-1]["type"]


async def test_a_websocket_has_so_many_streams(gateway: Gateway) -> None:
    """
    Known ones can be used again; requests without one are not counted.
    """
    create = {"type": "response.create", "model": "debug/echo", "input": "Hi"}
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{gateway.url}/v1/responses") as socket:
        for at in range(32):
            await socket.send_json({**create, "stream_id": f"s{at}"})
        assert all(event["type"] != "error" for event in await received(socket, 32))
        for given, kind in (
            ({"stream_id": "s32"}, "error"),
            ({"stream_id": "s7"}, "response.completed"),
            ({}, "response.completed"),
        ):
            await socket.send_json({**create, **given})
            last = (await received(socket, 1))[-1]
            assert kind == last["type"] and (
                kind != "error" or last["error"]["code"] == "websocket_stream_limit_reached"
            )


@pytest.mark.parametrize("way", ["drain", "stop"])
async def test_an_idle_websocket_is_closed_when_the_gateway_stops(way: str, upstream: Server) -> None:
    """
    At once, with the code for it (1001), whether or not it has been used. A response under way is completed first, and
    requests that wait behind it are refused.
    """
    gateway = Gateway(settings_for(upstream))
    await gateway.start()
    create = {"type": "response.create", "model": "anthropic-messages", "input": "Hi"}
    async with aiohttp.ClientSession() as session, asyncio.timeout(20):
        unused = await session.ws_connect(f"{gateway.url}/v1/responses")
        used = await session.ws_connect(f"{gateway.url}/v1/responses")
        busy = await session.ws_connect(f"{gateway.url}/v1/responses")
        await used.send_json({**create, "model": "debug/echo"})
        await received(used, 1)
        upstream.say("Good morning.", fault=faults.Stall(3, seconds=1.0))
        for _ in range(2):
            await busy.send_json(create)
        while not upstream.open_streams:
            await asyncio.sleep(0.01)
        stopping = asyncio.ensure_future(gateway.drain(10) if way == "drain" else gateway.stop())
        for socket in (unused, used):
            assert aiohttp.WSMsgType.CLOSE == (await socket.receive()).type
            assert 1001 == socket.close_code
        events = await received(busy, 2)
        assert ["response.completed", "error"] == [
            e["type"] for e in events if e["type"] in ("response.completed", "error")
        ]
        assert 503 == events[-1]["status"] and "is stopping" in events[-1]["error"]["message"]
        assert aiohttp.WSMsgType.CLOSE == (await busy.receive()).type and 1001 == busy.close_code
        await stopping
        await gateway.stop()
    assert 1 == len(upstream.requests)


async def test_a_websocket_that_does_not_answer_does_not_hold_up_the_end(upstream: Server) -> None:
    """
    A client that never confirms the close is cut off after a moment; the time is that of one, not of all after another.
    """
    gateway = Gateway(settings_for(upstream))
    await gateway.start()
    host, port = gateway.url.removeprefix("http://").split(":")
    head = "GET /v1/responses HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    clients = []
    for _ in range(20):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.format(f"{host}:{port}").encode())
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        clients.append((reader, writer))
    async with asyncio.timeout(10):
        await gateway.stop()
        for reader, writer in clients:
            assert (await reader.read())[2:4] == (1001).to_bytes(2, "big")
            writer.close()


class _Ended:
    def __init__(self, ended: list[Exchange]) -> None:
        self._ended = ended

    async def observe(self, exchange: Exchange) -> None:
        self._ended.append(exchange)


async def test_other_paths_are_passed_on_where_the_key_may(upstream: Server) -> None:
    """
    Embeddings reach the provider of their model; a key without the permission finds nothing there.
    """
    upstream.route("POST", "/openai-completions/v1/embeddings", lambda received: {"asked": received.json["model"]})
    body = {"model": "openai-completions", "input": "text"}
    async with Gateway(settings_for(upstream)) as gateway:
        assert await asked(gateway, "POST", "/v1/embeddings", body) == (200, {"asked": "test-model"})
        assert (await asked(gateway, "POST", "/v1/%2e%2e/secret", body))[0] == 404
    async with Gateway(settings_for(upstream), gate=_Gate(ClientKey(name="plain"))) as gateway:
        status, answer = await asked(gateway, "POST", "/v1/embeddings", body)
        assert status == 404 and "--passthrough" in answer["error"]["message"]


async def test_what_is_passed_on_is_in_the_ledger_and_errors_are_the_wires_own(
    upstream: Server, tmp_path: Path
) -> None:
    """
    Reported tokens are counted, others estimated; a refusal of the provider quotes no key.
    """
    path = "/openai-completions/v1/embeddings"
    key = "sk-proj-" + "x" * 40
    answers: list[Any] = [
        {"data": [], "usage": {"prompt_tokens": 7, "total_tokens": 7}},
        {"data": []},
        (401, {"error": {"message": f"incorrect key: {key}", "type": "auth"}}),
    ]
    upstream.route("POST", path, lambda received: answers.pop(0))
    ledger, metrics = Ledger(f"sqlite:{tmp_path / 'ledger.db'}"), Metrics()
    body = {"model": "openai-completions", "input": "text " * 40}
    async with Gateway(settings_for(upstream), observers=[ledger, metrics]) as gateway:
        assert (await asked(gateway, "POST", "/v1/embeddings", body))[0] == 200
        assert (await asked(gateway, "POST", "/v1/embeddings", body))[0] == 200
        status, refused = await asked(gateway, "POST", "/v1/embeddings", body)
        assert status == 502 and "incorrect key" in refused["error"]["message"] and key not in str(refused)
    (row,) = await ledger.usage(("model",))
    assert (row.model, row.calls, row.errors, row.estimated) == ("up-openai-completions/test-model", 3, 1, 1)
    assert row.input == 7 + len(json.dumps(body)) // 4
    counted = metrics.exposition().decode()
    assert 'lane="passed",status="502"} 1' in counted and 'error="CredentialsRefused"} 1' in counted
    await ledger.close()


STREAMED = (
    'data: {"choices": [{"text": "a"}], "usage": null}\n\n'
    'data: {"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 9}}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"usage": {"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 20}}}, 20),
        ({"usage": {"input_tokens": 50, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 20}}}, 20),
        ({"usage": {"input_tokens": 50, "output_tokens": 9, "input_tokens_details": [1]}}, 0),
        ({"usageMetadata": {"promptTokenCount": 50, "candidatesTokenCount": 9}}, 0),
        ({"results": [], "meta": {"billed_units": {"input_tokens": 50, "output_tokens": 9}}}, 0),
        ({"embeddings": [], "prompt_eval_count": 50, "eval_count": 9}, 0),
        (STREAMED, 0),
    ],
)
async def test_the_usage_of_other_paths_is_counted_in_each_form(answer: Any, expected: int) -> None:
    """
    Images, embeddings and completions of each provider name their tokens in its own way, streams in their last event.
    """

    async def provider(http: web.Request) -> web.Response:
        return web.json_response(answer) if isinstance(answer, dict) else web.Response(text=answer)

    app = web.Application()
    app.router.add_post("/v1/completions", provider)
    ended: list[Exchange] = []
    async with TestServer(app) as server:
        own = ProviderSettings(id="own", api="openai-completions", base_url=f"{server.make_url('/v1')}")
        settings = Settings(providers=(own,), listen=Listen(port=0))
        async with Gateway(settings, observers=[_Ended(ended)]) as gateway, aiohttp.ClientSession() as session:
            body = {"model": "own/test-model", "prompt": "text " * 40}
            async with session.post(f"{gateway.url}/v1/completions", json=body) as response:
                assert 200 == response.status
                await response.read()
    assert (Usage.of(50 - expected, 9, cache_read=expected), False) == (ended[0].usage, ended[0].is_estimated)


@pytest.mark.parametrize("form", ["application/json", "text/event-stream"])
async def test_a_request_on_another_path_ends_before_the_gateway(form: str) -> None:
    """
    A drain waits for it. When the time is over it ends in an error of its wire, or as a stream that is broken off.
    """
    go_on, begun, is_stream = asyncio.Event(), asyncio.Event(), form != "application/json"

    async def provider(http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": form})
        if is_stream:
            await response.prepare(http)
            await response.write(b"data: {}\n\n")
        begun.set()
        await go_on.wait()
        await response.prepare(http)
        await response.write(b"{}")
        return response

    app = web.Application()
    app.router.add_post("/v1/embeddings", provider)
    body = {"model": "own/test-model", "input": "text"}
    async with TestServer(app) as server, aiohttp.ClientSession() as session, asyncio.timeout(20):
        own = ProviderSettings(id="own", api="openai-completions", base_url=f"{server.make_url('/v1')}")
        for seconds in (10.0, 0.1):
            ended: list[Exchange] = []
            gateway = Gateway(Settings(providers=(own,), listen=Listen(port=0)), observers=[_Ended(ended)])
            await gateway.start()
            asking = asyncio.ensure_future(session.post(f"{gateway.url}/v1/embeddings", json=body))
            await begun.wait()
            if is_stream:
                await asking
            draining = asyncio.ensure_future(gateway.drain(seconds))
            await asyncio.sleep(0.3)
            assert draining.done() == (seconds < 1)
            if seconds > 1:
                go_on.set()
            await draining
            await gateway.stop()
            response = await asking
            if seconds > 1:
                assert 200 == response.status and (await response.read()).endswith(b"{}")
                assert ended[0].error is None
            elif is_stream:
                with pytest.raises(aiohttp.ClientError):
                    await response.read()
            else:
                assert 503 == response.status and "is stopping" in (await response.json())["error"]["message"]
            assert 0 == gateway.open_exchanges
            go_on.clear()
            begun.clear()
        assert isinstance(ended[0].error, Overloaded) and not ended[0].is_aborted and ended[0].is_estimated


@pytest.mark.parametrize("way", ["whole", "client leaves", "provider breaks", "silence", "total"])
@pytest.mark.parametrize("form", ["text/event-stream", "application/x-ndjson"])
async def test_a_stream_on_another_path_arrives_as_it_comes(form: str, way: str) -> None:
    """
    Its usage is counted as it passes, also before a client leaves, which closes the call of the provider. A stream that
    breaks, is silent or takes too long does not look whole.
    """
    go_on, closed = asyncio.Event(), asyncio.Event()
    first = {"choices": [{"text": "a"}], "usage": {"prompt_tokens": 40, "completion_tokens": 1}}
    last = {"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 9}}
    begin, end = (b"data: ", b"\n\n") if "event" in form else (b"", b"\n")
    pieces = [begin + json.dumps(one).encode() + end for one in (first, last)]

    async def provider(http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": form})
        await response.prepare(http)
        await response.write(pieces[0][:9])
        await response.write(pieces[0][9:])
        try:
            await go_on.wait()
            if way == "provider breaks":
                assert http.transport is not None
                http.transport.abort()
            await response.write(pieces[1])
        finally:
            closed.set()
        return response

    app = web.Application()
    app.router.add_post("/v1/completions", provider)
    ended: list[Exchange] = []
    async with TestServer(app, handler_cancellation=True) as server, asyncio.timeout(20):
        timeouts = Timeouts(first=10, idle=0.3 if way == "silence" else 10)
        url = f"{server.make_url('/v1')}"
        own = ProviderSettings(id="own", api="openai-completions", base_url=url, timeouts=timeouts, concurrency=1)
        limits = ClientLimits(total=0.3 if way == "total" else None)
        settings = Settings(providers=(own,), listen=Listen(port=0), limits=limits)
        async with Gateway(settings, observers=[_Ended(ended)]) as gateway, aiohttp.ClientSession() as session:
            call = {"model": "own/test-model", "prompt": "text " * 40, "stream": True}
            async with session.post(f"{gateway.url}/v1/completions", json=call) as response:
                assert form == response.headers["Content-Type"]
                assert pieces[0] == await response.content.readexactly(len(pieces[0]))
                if way in ("whole", "provider breaks"):
                    go_on.set()
                if way == "whole":
                    assert pieces[1] == await response.read()
                elif way != "client leaves":
                    with pytest.raises(aiohttp.ClientError):
                        await response.read()
            await closed.wait()
            while not ended:
                await asyncio.sleep(0.01)
    (exchange,) = ended
    assert exchange.is_aborted is (way == "client leaves")
    assert (exchange.error is None) is (way == "whole")
    assert (Usage.of(50, 9) if way == "whole" else Usage.of(40, 1)) == exchange.usage
    assert exchange.is_estimated is (way != "whole")


async def test_errors_of_passed_on_paths_have_the_form_of_the_path(upstream: Server) -> None:
    """
    Whichever wire the provider speaks: its client reads the one of the path.
    """
    async with Gateway(settings_for(upstream)) as gateway:
        for path, name in (("/api/embed", "anthropic-messages"), ("/v1/embeddings", "ollama-chat")):
            status, answer = await asked(gateway, "POST", path, {"model": name, "input": "text"})
            assert status == 404 and isinstance(answer["error"], str if path == "/api/embed" else dict)


async def test_a_model_in_the_path_is_passed_on_without_the_clients_key(upstream: Server) -> None:
    """
    Gemini's clients name the model in the path and may send their key in the query, which no provider gets to see.
    """
    upstream.route(
        "POST",
        "/google-generative-ai/v1beta/models/test-model:batchEmbedContents",
        lambda received: {"got": received.json, "path": received.path},
    )
    body = {"requests": [{"model": "models/google-generative-ai", "content": {"parts": [{"text": "models"}]}}]}
    path = "/v1beta/models/google-generative-ai:batchEmbedContents?key=il-secret&alt=json"
    async with Gateway(settings_for(upstream)) as gateway:
        status, answer = await asked(gateway, "POST", path, body)
        own = await asked(gateway, "POST", "/v1beta/models/up-google-generative-ai/test-model:batchEmbedContents", {})
    assert status == 200 and answer["got"]["requests"][0]["model"] == "models/test-model"
    assert "il-secret" not in answer["path"]
    assert (200, {}) == (own[0], own[1].get("got"))


async def test_what_is_passed_on_is_refused_where_there_is_a_budget(upstream: Server, tmp_path: Path) -> None:
    """
    Nobody knows what it may cost: a key with a budget gets 400, and the provider is not asked.
    """
    upstream.route("POST", "/openai-completions/v1/embeddings", lambda received: {"data": []})
    keys = ClientKeys(tmp_path / "keys.json")
    headers = {
        name: f"Bearer {keys.add(ClientKey(name=name, passthrough=True, budget=budget, requests_per_minute=1))}"
        for name, budget in (("rich", 5.0), ("free", None))
    }
    body = {"model": "openai-completions", "input": "text"}
    async with Gateway(settings_for(upstream), gate=KeyGate(keys, Accounts(MemoryState()))) as gateway:
        given = {"headers": {"Authorization": headers["rich"]}}
        status, refused = await asked(gateway, "POST", "/v1/embeddings", body, **given)
        message = refused["error"]["message"]
        assert status == 400 and "is not known" in message and message.endswith("; use a key without a budget")
        assert not upstream.requests
        given = {"headers": {"Authorization": headers["free"]}}
        assert (await asked(gateway, "POST", "/v1/embeddings", body, **given))[0] == 200
        assert (await asked(gateway, "POST", "/v1/embeddings", body, **given))[0] == 429


class _Settled:
    async def settle(self, exchange: Exchange) -> None: ...


class _Gate:
    """Everybody is one key."""

    def __init__(self, key: ClientKey) -> None:
        self._key = key

    async def identify(self, secret: str | None) -> ClientKey:
        return self._key

    async def admit(self, exchange: Exchange, **_: Any) -> _Settled:
        return _Settled()


async def test_a_key_finds_only_its_models(upstream: Server) -> None:
    """
    Others are refused, in the form of the client's protocol, and not listed.
    """
    key = ClientKey(name="narrow", models=("anthropic-*",))
    async with Gateway(settings_for(upstream), gate=_Gate(key)) as gateway:
        names = [entry["id"] for entry in (await asked(gateway, "GET", "/v1/models"))[1]["data"]]
        assert names == ["anthropic-messages"]
        body = {"model": "ollama-chat", "messages": MESSAGES}
        assert (await asked(gateway, "POST", "/v1/chat/completions", body))[0] == 403


async def test_a_strict_key_refuses_what_would_be_lost(upstream: Server) -> None:
    """
    With the list of losses; a request that loses nothing passes.
    """
    key = ClientKey(name="strict", max_losses="none")
    async with Gateway(settings_for(upstream), gate=_Gate(key)) as gateway:
        body = {"model": "anthropic-messages", "max_tokens": 9, "messages": MESSAGES, "logit_bias": {"50256": -100}}
        status, answer = await asked(gateway, "POST", "/v1/chat/completions", body)
        assert status == 400
        assert "logit_bias" in answer["error"]["message"]
        body["logit_bias"] = None  # says nothing, so nothing is lost
        assert (await asked(gateway, "POST", "/v1/chat/completions", body))[0] == 200


@pytest.mark.parametrize("wire", WIRES)
async def test_half_a_surrogate_pair_in_arguments_is_a_loss_where_they_are_an_object(
    wire: str, gateway: Gateway, upstream: Server
) -> None:
    """
    A wire that has them as text gets the client's own; a strict key is refused at the others.
    """
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": TEXT}}
    given = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    messages = [*given, {"role": "tool", "tool_call_id": "call_1", "content": "b"}]
    body = {"model": wire, "max_tokens": 9, "messages": messages, "tools": tools}
    path, is_text = "$.messages[1].content[0].arguments.a[0]", wire.startswith("openai")
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/v1/chat/completions", json=body) as got,
    ):
        assert got.status == 200, await got.text()
        assert (f"{path} text weakened" in got.headers.get("x-interlingua-losses", "")) == (not is_text)
    assert (rb"\\ud83d" in upstream.last.body) == is_text
    async with Gateway(settings_for(upstream), gate=_Gate(ClientKey(name="strict", max_losses="none"))) as strict:
        status, answer = await asked(strict, "POST", "/v1/chat/completions", body)
    assert (path in str(answer), status == 200) == (not is_text, is_text)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_picture_in_a_result_reaches_every_provider(wire: str, upstream: Server) -> None:
    """
    Where a wire's results hold no media it follows them, which a key for minor losses allows: nothing is dropped.
    """
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    messages = [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "text", "text": "Seen"}, {"type": "image", "source": source}],
                }
            ],
        },
    ]
    tool = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
    body = {"model": wire, "max_tokens": 99, "messages": messages, "tools": [tool]}
    async with Gateway(settings_for(upstream), gate=_Gate(ClientKey(name="k", max_losses="minor"))) as gateway:
        status, answer = await asked(gateway, "POST", "/v1/messages", body)
    assert status == 200, answer
    assert source["data"] in upstream.last.body.decode()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", b"{nonsense"),
        ("/v1/messages", b'{"model": "m", "messages": 5}'),
        ("/v1/responses", b"[]"),
        ("/v1beta/models/m:generateContent", b'{"contents": "x"'),
        ("/model/m/converse", b'"text"'),
        ("/api/chat", b"{}"),
    ],
)
async def test_bad_bodies_are_the_clients_fault(path: str, body: bytes, gateway: Gateway) -> None:
    """
    Status 400 and an error in the form of the path's protocol.
    """
    async with aiohttp.ClientSession() as session, session.post(gateway.url + path, data=body) as response:
        assert response.status == 400, await response.text()
        assert isinstance(await response.json(), dict)


DOORS = {  # path, path of a stream, the field of what is asked, a message in it
    "openai-completions": ("/v1/chat/completions", "/v1/chat/completions", "messages", {"role": "user"}),
    "openai-responses": ("/v1/responses", "/v1/responses", "input", {"role": "user"}),
    "anthropic-messages": ("/v1/messages", "/v1/messages", "messages", {"role": "user"}),
    "google-generative-ai": (
        "/v1beta/models/{}:generateContent",
        "/v1beta/models/{}:streamGenerateContent",
        "contents",
        {"role": "user"},
    ),
    "bedrock-converse-stream": ("/model/{}/converse", "/model/{}/converse-stream", "messages", {"role": "user"}),
    "ollama-chat": ("/api/chat", "/api/chat", "messages", {"role": "user"}),
    "generate": ("/api/generate", "/api/generate", "prompt", None),
}


@pytest.mark.parametrize("odd", ["true", 1, [], {"include_usage": True}])
async def test_a_stream_that_is_no_boolean_is_refused(gateway: Gateway, upstream: Server, odd: Any) -> None:
    """
    The client would get an answer of another form than it reads. Nothing (`null`) is the wire's default.
    """
    for path, body in (
        ("/v1/chat/completions", {"messages": MESSAGES}),
        ("/v1/responses", {"input": "Hello"}),
        ("/v1/messages", {"max_tokens": 9, "messages": MESSAGES}),
        ("/api/chat", {"messages": MESSAGES}),
        ("/api/generate", {"prompt": "Hello"}),
    ):
        status, answer = await asked(gateway, "POST", path, {"model": "anthropic-messages", "stream": odd, **body})
        assert status == 400 and "$.stream: expected true or false" in json.dumps(answer), path
    assert not upstream.requests
    body = {"model": "debug/echo", "stream": None, "messages": MESSAGES}
    assert (await asked(gateway, "POST", "/v1/chat/completions", body))[0] == 200


NUMBERS = {  # a number among the options of each wire, and an option that is true or false, or a list
    "openai-completions": (("max_tokens",), ("parallel_tool_calls",)),
    "openai-responses": (("max_output_tokens",), ("tools",)),
    "anthropic-messages": (("temperature",), ("stop_sequences",)),
    "google-generative-ai": (("generationConfig", "maxOutputTokens"), ("generationConfig", "stopSequences")),
    "bedrock-converse-stream": (("inferenceConfig", "topP"), ("inferenceConfig", "stopSequences")),
    "ollama-chat": (("options", "num_predict"), ("tools",)),
}


def with_option(api: str, path: tuple[str, ...], value: Any) -> Any:
    """A request of a wire with one option."""
    request = il.Request(
        model=il.ModelDescriptor(id="m", api=api),
        context=il.Context(messages=(il.UserMessage(content="Hi"),)),
        options=il.Options(max_tokens=50),
    )
    body = {**il.wire(api).codec.encode_request(request).body, **({"stream": False} if api == "ollama-chat" else {})}
    inner = body if len(path) == 1 else body.setdefault(path[0], {})
    inner[path[-1]] = value
    return body


@pytest.mark.parametrize("api", NUMBERS)
async def test_options_of_a_wrong_type_are_refused_with_their_path(
    api: str, gateway: Gateway, upstream: Server
) -> None:
    """
    The client's own provider refuses them. A provider of another wire would not get them, and answer at any length.
    """
    for target in ("ollama-chat" if api != "ollama-chat" else "openai-responses", "debug/echo"):
        path = DOORS[api][0].format(target.replace("/", "%2F"))
        for option, odd in zip(NUMBERS[api], ("many", 7), strict=True):
            body = {**with_option(api, option, odd), "model": target}
            status, answer = await asked(gateway, "POST", path, body)
            assert (status, f"$.{'.'.join(option)}: expected" in json.dumps(answer)) == (400, True), (option, answer)
            assert not upstream.requests
            # Nothing is the default; what the wire does not know, or knows in another form, is reported as before.
            for field, other in ((option, None), (("unknown_field",), 7), (("tool_choice",), {"type": "of_tomorrow"})):
                if field == ("tool_choice",) and api not in ("openai-completions", "openai-responses"):
                    continue
                body = {**with_option(api, field, other), "model": "debug/echo"}
                assert (await asked(gateway, "POST", DOORS[api][0].format("debug%2Fecho"), body))[0] == 200, field


async def test_options_of_a_wrong_type_are_the_providers_on_its_own_wire(gateway: Gateway, upstream: Server) -> None:
    """
    It may know more than its documentation says.
    """
    body = {"model": "anthropic-messages", "max_tokens": 9, "messages": MESSAGES, "temperature": "hot"}
    assert (await asked(gateway, "POST", "/v1/messages", body))[0] == 200
    assert json.loads(upstream.last.body)["temperature"] == "hot"


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
@pytest.mark.parametrize("value", [5, True, "", "x", [1], {}, {"id": [1]}, {"id": {}}])
async def test_a_reference_of_any_type_is_refused(field: str, value: Any, gateway: Gateway) -> None:
    """
    With the status of one that is not found.
    """
    body = {"model": "debug/echo", "input": "Hi", field: value}
    status, answer = await asked(gateway, "POST", "/v1/responses", body)
    assert status == (400 if field == "previous_response_id" else 404) and "not found" in answer["error"]["message"]


@pytest.mark.parametrize("field", ["prompt", "system"])
@pytest.mark.parametrize("odd", [5, ["Hi"], {"text": "Hi"}, False])
async def test_a_prompt_that_is_no_text_is_refused_by_its_own_name(field: str, odd: Any, gateway: Gateway) -> None:
    """
    Its client has sent no messages.
    """
    body = {"model": "debug/echo", "prompt": "Hi", field: odd}
    status, answer = await asked(gateway, "POST", "/api/generate", body)
    assert status == 400 and answer["error"].startswith(f"$.{field}: expected text, got {type(odd).__name__}")


LOADING = {"ollama-chat": "message", "generate": "response"}  # doors where an empty request loads the model


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("door", LOADING)
async def test_a_model_is_loaded_by_an_empty_request(
    door: str, stream: bool, gateway: Gateway, upstream: Server
) -> None:
    """
    As `ollama run` begins: an answer of nothing, and no provider is called. An unknown model is not found.
    """
    path, _, field, _ = DOORS[door]
    for given in ({}, {field: "" if door == "generate" else []}):
        status, answer = await asked(gateway, "POST", path, {"model": "openai-completions", "stream": stream, **given})
        assert status == 200 and answer["done"] and answer["done_reason"] == "load"
        assert answer[LOADING[door]] in ("", {"role": "assistant", "content": ""})
    assert (await asked(gateway, "POST", path, {"model": "nosuch", "stream": stream}))[0] == 404
    assert [] == upstream.requests


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["openai-completions", "anthropic-messages", "debug/echo"])
@pytest.mark.parametrize("door", DOORS)
async def test_a_request_that_asks_nothing_is_refused(
    door: str, model: str, stream: bool, gateway: Gateway, upstream: Server
) -> None:
    """
    Whether the field is missing, empty or of a wrong type: status 400 that names it, and no provider is called.
    """
    whole, streaming, field, message = DOORS[door]
    path = (streaming if stream else whole).format(model.replace("/", "%2F"))
    values: list[Any] = [None, [], 5, [5], [None], [[]]]
    if message is None:
        values += [""]
    elif not model.startswith("debug"):  # those read whatever they are given
        values += [{}, [message], [message | {"role": "zebra"}], [message | {"content": []}]]
        # What only the client's own wire knows, a provider of that wire judges itself.
        values += [[message | {"content": [{}]}], [message | {"content": [{"text": 5}]}]] if door != model else []
    for given in ({}, {"a": 1}, *({field: value} for value in values)):
        if door in LOADING and given.get(field) in (None, [], ""):
            continue
        body = {"model": model, "stream": stream, "max_tokens": 9, **given}
        status, answer = await asked(gateway, "POST", path, body)
        assert status == 400, (given, answer)
        assert field in json.dumps(answer) or "$.messages" in json.dumps(answer), (given, answer)
    assert [] == upstream.requests


@pytest.mark.parametrize("path", COUNTS)
async def test_nothing_is_not_counted(path: str, gateway: Gateway) -> None:
    """
    A count of a request without messages is refused, as the request itself is.
    """
    for body in ({"model": "m"}, {"model": "m", "input": {"converse": {}}}, {"contents": []}):
        status, answer = await asked(gateway, "POST", path, body)
        assert status == 400, answer


async def test_a_system_text_among_messages_or_a_stored_history_is_enough(gateway: Gateway, upstream: Server) -> None:
    """
    A system message alone, an input that is only a reference, and no input after a stored response are requests.
    """
    system = [{"role": "system", "content": "Say hello."}]
    for path in ("/v1/chat/completions", "/api/chat"):
        body = {"model": "anthropic-messages", "stream": False, "messages": system}
        assert 200 == (await asked(gateway, "POST", path, body))[0]
    _, first = await asked(gateway, "POST", "/v1/responses", {"model": "ollama-chat", "input": system})
    again = {"model": "anthropic-messages", "previous_response_id": first["id"]}
    assert 200 == (await asked(gateway, "POST", "/v1/responses", again))[0]
    item = {"model": "openai-completions", "input": [{"type": "item_reference", "id": first["output"][0]["id"]}]}
    assert 200 == (await asked(gateway, "POST", "/v1/responses", item))[0]


async def test_only_background_responses_can_be_cancelled(gateway: Gateway, upstream: Server) -> None:
    """
    A finished response says why it cannot be cancelled; one that does not exist is not found.
    """
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        done = await client.responses.create(model="ollama-chat", input="Hi")
        with pytest.raises(openai.BadRequestError, match="only background responses"):
            await client.responses.cancel(done.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.cancel("resp_unknown")


@pytest.mark.parametrize("model", ["openai-completions", "anthropic-messages", "google-generative-ai", "debug/echo"])
@pytest.mark.parametrize("door", DOORS)
async def test_a_body_that_is_not_utf_8_is_refused(door: str, model: str, gateway: Gateway, upstream: Server) -> None:
    """
    No provider is asked, of the same wire or another. Escaped halves of surrogate pairs, which JavaScript writes, are
    valid JSON.
    """
    path, _, field, _ = DOORS[door]
    question: Any = "~" if field in ("prompt", "input") else [{"role": "user", "content": "~"}]
    if field == "contents":
        question = [{"role": "user", "parts": [{"text": "~"}]}]
    elif door == "bedrock-converse-stream":
        question = [{"role": "user", "content": [{"text": "~"}]}]
    body = json.dumps({"model": model, "stream": False, "max_tokens": 9, field: question}).encode()
    url = gateway.url + path.format(model.replace("/", "%2F"))
    async with aiohttp.ClientSession() as session:
        for text in (b"caf\xe9", b"\xed\xa0\x80", b"\xc0\xaf", b"\xff\xfe"):
            async with session.post(url, data=body.replace(b"~", text)) as response:
                assert response.status == 400 and "UTF-8" in await response.text()
        assert [] == upstream.requests
        for valid in ("café".encode(), rb"\ud83d"):
            async with session.post(url, data=body.replace(b"~", valid)) as response:
                assert response.status == 200, await response.text()


@pytest.mark.parametrize(
    ("method", "path", "api"),
    [
        ("GET", "/api/generate", "ollama-chat"),
        ("GET", "/api/chat", "ollama-chat"),
        ("GET", "/v1/responses/resp_1/nothing", "openai-responses"),
        ("PUT", "/v1/responses", "openai-responses"),
        ("GET", "/v1/chat/completions/1", "openai-completions"),
        ("DELETE", "/v1/messages/batches/1", "anthropic-messages"),
        ("GET", "/model/m/converse", "bedrock-converse-stream"),
        ("PUT", "/v1beta/models/m:generateContent/x", "google-generative-ai"),
        ("PUT", "/v1beta/models/m:countTokens", "google-generative-ai"),
    ],
)
async def test_an_error_has_the_form_of_the_nearest_path(method: str, path: str, api: str, gateway: Gateway) -> None:
    """
    Also where the method is wrong, or the path goes on.
    """
    status, answer = await asked(gateway, method, path)
    failure = il.BadRequest(f"nothing answers {method} {path}; check the base URL of the client", status=404)
    assert (404, il.dialect(api).encode_error(failure)[1]) == (status, answer)


@pytest.mark.parametrize(
    ("path", "headers", "api"),
    [
        ("/v1/files", {}, "openai-completions"),
        ("/v1/files", {"Authorization": "Bearer x"}, "openai-completions"),
        ("/v1/files", {"anthropic-version": "2023-06-01"}, "anthropic-messages"),
        ("/v1/files", {"x-api-key": "x"}, "anthropic-messages"),
        ("/v1/organizations/me", {"X-Api-Key": "x", "Anthropic-Version": "2023-06-01"}, "anthropic-messages"),
        ("/v1/files", {"x-goog-api-key": "x"}, "google-generative-ai"),
        ("/openai/v1/files", {"api-key": "x"}, "openai-completions"),
        ("/v1beta/files", {}, "google-generative-ai"),
        ("/api/nothing", {}, "ollama-chat"),
        ("/model/nothing", {}, "bedrock-converse-stream"),
        ("/v2/nothing", {}, "cohere-chat"),
        ("/nothing", {}, "openai-completions"),
        ("/", {"anthropic-version": "2023-06-01"}, "anthropic-messages"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_the_error_of_an_unknown_path_has_the_form_of_its_client(
    method: str, path: str, headers: dict[str, str], api: str, gateway: Gateway
) -> None:
    """
    By the headers of its SDK, else by the beginning of the path.
    """
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, gateway.url + path, json={}, headers=headers) as response,
    ):
        answer = await response.json(content_type=None)
    failure = il.BadRequest(f"nothing answers {method} {path}; check the base URL of the client", status=404)
    assert (404, il.dialect(api).encode_error(failure)[1]) == (response.status, answer)


PAGED: dict[str, tuple[str, Any, Any]] = {  # the list, the names on a page, the query of the next page
    "anthropic": (
        "/v1/models?limit={}",
        lambda page: [entry["id"] for entry in page["data"]],
        lambda page: f"&after_id={page['last_id']}" if page["has_more"] else None,
    ),
    "google": (
        "/v1beta/models?pageSize={}",
        lambda page: [entry["name"].removeprefix("models/") for entry in page["models"]],
        lambda page: f"&pageToken={page['nextPageToken']}" if "nextPageToken" in page else None,
    ),
}


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("wire", PAGED)
async def test_models_are_listed_in_pages(wire: str, size: int, gateway: Gateway) -> None:
    """
    Each name once, in the same order, and no page is longer than it was asked for.
    """
    path, names_of, next_of = PAGED[wire]
    headers = {"anthropic-version": "2023-06-01"}
    names, query = [], ""
    while query is not None:
        status, page = await asked(gateway, "GET", path.format(size) + query, headers=headers)
        assert status == 200 and 0 < len(names_of(page)) <= size
        names += names_of(page)
        query = next_of(page)
    assert gateway.models() == names


@pytest.mark.parametrize("size", ["0", "-1", "abc", "1.5", "²"])
@pytest.mark.parametrize("wire", PAGED)
async def test_a_page_that_does_not_exist_is_refused(wire: str, size: str, gateway: Gateway) -> None:
    """
    A size that is none, or a place that no page has.
    """
    headers = {"anthropic-version": "2023-06-01"}
    path = PAGED[wire][0]
    assert 400 == (await asked(gateway, "GET", path.format(size), headers=headers))[0]
    for place in (
        ("&after_id=nothing", "&before_id=nothing") if wire == "anthropic" else ("&pageToken=zz", "&pageToken=999")
    ):
        assert 400 == (await asked(gateway, "GET", path.format(3) + place, headers=headers))[0]


async def test_models_before_one_are_the_last_of_them(gateway: Gateway) -> None:
    """
    As Anthropic's clients go back a page.
    """
    names = gateway.models()
    path = f"/v1/models?limit=2&before_id={names[3]}"
    _, page = await asked(gateway, "GET", path, headers={"anthropic-version": "2023-06-01"})
    assert (names[1:3], True) == ([entry["id"] for entry in page["data"]], page["has_more"])


@pytest.mark.parametrize("path", LISTS)
async def test_a_key_without_a_model_has_an_empty_list(path: str, upstream: Server) -> None:
    """
    In each protocol's form; Anthropic's has no first and no last.
    """
    async with Gateway(settings_for(upstream), gate=_Gate(ClientKey(name="none", models=("nothing",)))) as gateway:
        for headers in ({}, {"anthropic-version": "2023-06-01"}):
            status, answer = await asked(gateway, "GET", path, headers=headers)
            assert (200, []) == (status, LISTS[path](answer))


STATED = {  # requests of clients that state defaults
    "/v1/messages": {
        "model": "openai-completions",
        "max_tokens": 50,
        "tools": [{"name": "look", "input_schema": {"type": "object", "properties": {}}}],
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "look", "input": {}}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "grey", "is_error": False}],
            },
        ],
    },
    "/v1/chat/completions": {
        "model": "anthropic-messages",
        "n": 1,
        "max_tokens": 50,
        "messages": [{"role": "user", "content": "Hi"}],
    },
    "/v1/responses": {
        "model": "anthropic-messages",
        "max_output_tokens": 50,
        "include": [],
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
    },
    "/v1beta/models/anthropic-messages:generateContent": {
        "generationConfig": {"candidateCount": 1, "maxOutputTokens": 50},
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
    },
    "/model/openai-completions/converse": {
        "inferenceConfig": {"maxTokens": 50},
        "toolConfig": {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]},
        "messages": [
            {"role": "user", "content": [{"text": "Hi"}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "call_1", "name": "look", "input": {}}}]},
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "call_1", "content": [{"text": "grey"}], "status": "success"}}
                ],
            },
        ],
    },
}


@pytest.mark.parametrize("path", STATED)
async def test_a_strict_key_allows_defaults_that_are_only_stated(path: str, upstream: Server) -> None:
    """
    Many clients send them with every request, and the other wire means the same without them.
    """
    async with Gateway(settings_for(upstream), gate=_Gate(ClientKey(name="strict", max_losses="none"))) as gateway:
        status, answer = await asked(gateway, "POST", path, STATED[path])
    assert status == 200, answer
