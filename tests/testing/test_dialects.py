"""Every wire: what goes in is decoded, what comes out is what the provider would send."""

import base64
import json
from typing import Any

import aiohttp
import pytest

import interlingua as il
from interlingua.dialects import WIRES
from interlingua.testing import ErrorEvent, Server
from interlingua.values.events import TextDelta
from testing.client import MODEL, Received, ask, decoded, request

every_wire = pytest.mark.parametrize("api", sorted(WIRES))
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
CALLS = (
    il.ToolCall(id="call_a", name="weather", arguments={"city": "Oslo"}),
    il.ToolCall(id="call_b", name="weather", arguments={"city": "Rome", "days": [1, 2]}),
)


def kinds(message: il.AssistantMessage) -> list[tuple[str, Any]]:
    """What a message holds that every wire can say."""
    requests: list[tuple[str, Any]] = []
    for block in message.content or ():
        match block:
            case il.TextBlock():
                requests.append(("text", block.text))
            case il.ThinkingBlock():
                requests.append(("thinking", block.thinking))
            case il.ToolCall():
                requests.append((block.name, block.arguments))
    return requests


@every_wire
async def test_the_echo_repeats_the_users_words(api: str) -> None:
    """Nothing told: the last user text comes back, in several deltas, and is on record as said."""
    text = "Grüße aus Tromsø, and a good long day to you!"
    with Server() as server:
        response = await ask(server, api, text)
    deltas = [event.delta for event in response.events if isinstance(event, TextDelta)]
    assert (text, "stop", "") == (response.message.text, response.message.stop_reason, response.failure)
    assert text == "".join(deltas)
    assert len(deltas) >= 3
    received = server.last
    assert (api, "POST", text) == (received.api, received.method, received.message.text)  # type: ignore[union-attr]


@every_wire
async def test_the_model_and_the_streaming_are_read_where_the_wire_says_them(api: str) -> None:
    """From the path or from the body."""
    with Server() as server:
        await ask(server, api, "Hi", stream=True)
        await ask(server, api, "Hi", stream=False)
    streamed, whole = (received.request for received in server.requests)
    assert streamed is not None
    assert whole is not None
    assert (MODEL, MODEL) == (streamed.model.id, whole.model.id)
    assert (True, True) == (bool(streamed.options.stream), not whole.options.stream)


@every_wire
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_thinking_text_and_parallel_calls_arrive(api: str, stream: bool) -> None:
    """One reply with all kinds of blocks is the same message, streamed or whole."""
    thinking = il.ThinkingBlock(thinking="Two cities to look up.", thinking_signature="c2lnbmVk")
    with Server(chunk=5) as server:
        server.answer([thinking, il.TextBlock(text="Let me look."), *CALLS])
        response = await ask(server, api, "Weather?", stream=stream)
    message = response.message if stream else il.dialect(api).decode_response(response.body, model=MODEL)
    expected = [
        ("thinking", "Two cities to look up."),
        ("text", "Let me look."),
        ("weather", {"city": "Oslo"}),
        ("weather", {"city": "Rome", "days": [1, 2]}),
    ]
    assert expected == kinds(message)
    assert "toolUse" == message.stop_reason
    assert 2 == len({call.id for call in message.tool_calls})


@every_wire
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_usage_is_counted_the_same_each_time(api: str, stream: bool) -> None:
    """Four characters to a token; the same for the same conversation."""
    with Server() as server:
        server.answer("x" * 40)
        response = [await ask(server, api, "y" * 80, stream=stream) for _ in range(2)]
    messages = [one.message if stream else il.dialect(api).decode_response(one.body, model=MODEL) for one in response]
    counted = [(m.usage.input, m.usage.output, m.usage.total_tokens) for m in messages if m.usage]
    assert [(20, 10, 30), (20, 10, 30)] == counted


@every_wire
async def test_the_replys_own_usage_and_stop_reason_stand(api: str) -> None:
    """What a message tells itself is not filled in."""
    usage = il.Usage.of(11, 7)
    with Server() as server:
        server.answer(il.AssistantMessage(content="cut sh", usage=usage, stop_reason="length"))
        response = await ask(server, api)
    message = response.message
    assert message.usage is not None
    assert (11, 7, "length") == (message.usage.input, message.usage.output, message.stop_reason)


@every_wire
async def test_images_and_tools_of_the_request_are_decoded(api: str) -> None:
    """The recorded request is in Interlingua's own terms."""
    image = il.ImageBlock(data=PIXEL, mime_type="image/png")
    tool = il.ToolSpec(name="weather", description="Looks", input_schema={"type": "object", "properties": {}})
    asked = request(api, il.TextBlock(text="What is this?"), image, system="Be brief.", tools=(tool,))
    with Server() as server:
        response = await ask(server, api, asked)
        got = server.last.request
    assert got is not None
    content = got.context.messages[0].content
    pictures = [block for block in content or () if isinstance(block, il.ImageBlock)]
    assert [(PIXEL, "image/png")] == [(p.data, p.mime_type or "image/png") for p in pictures]
    assert ("Be brief.", ["weather"]) == (got.context.system_prompt, [t.name for t in got.context.tools or ()])
    assert "What is this?" == response.message.text


ERRORS = [
    il.AuthFailed("no such key", status=401),
    il.RateLimited("slow down", status=429, retry_after=3.0),
    il.RateLimited("slow down", status=429, retry_after=0.25),
    il.Overloaded("busy", status=503),
    il.ContextTooLong("prompt is too long: 9 tokens > 8 maximum", status=400),
    il.BadRequest("what?", status=400),
]


@every_wire
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__name__}-{error.retry_after}")
async def test_errors_come_back_as_the_same_error(api: str, error: il.ProviderError) -> None:
    """Status, words, kind and wait survive the wire, streamed or not."""
    with Server() as server:
        server.answer(error)
        response = [await ask(server, api, stream=stream) for stream in (True, False)]
    for one in response:
        found = il.dialect(api).decode_error(one.status, one.body, one.headers)
        assert (type(error), error.status) == (type(found), found.status)
        assert found.message.endswith(error.message)  # behind the terms of its wire, if they are others
        assert error.retry_after == found.retry_after


@every_wire
@pytest.mark.parametrize("body", [b"{", b"[1, 2]", b"{}", b"\xff\xfe"], ids=["cut", "list", "empty", "binary"])
async def test_a_bad_request_is_refused_in_the_dialects_words(api: str, body: bytes) -> None:
    """400, an error that the dialect reads, and a record of what came."""
    wire = il.dialect(api)
    with Server() as server:
        async with aiohttp.ClientSession() as session:
            url = server.base_url(api) + wire.path(MODEL, True)
            async with session.post(url, data=body) as response:
                status, answer = response.status, await response.read()
    assert 400 == status
    assert isinstance(wire.decode_error(status, answer), il.BadRequest)
    received = server.last
    assert (api, body, None) == (received.api, received.body, received.request)
    assert received.error


# What the providers send; of a wire that is not named here, what its `Wire` says.
CONTENT_TYPES = {
    "anthropic-messages": "text/event-stream",
    "openai-completions": "text/event-stream",
    "google-generative-ai": "text/event-stream",
    "bedrock-converse-stream": "application/vnd.amazon.eventstream",
    "bedrock-invoke-anthropic": "application/vnd.amazon.eventstream",
    "ollama-chat": "application/x-ndjson",
    "openai-responses-websocket": "application/x-ndjson",
}


@every_wire
async def test_headers_are_the_providers(api: str) -> None:
    """Content types by wire and kind of answer, and a request id that counts up."""
    with Server() as server:
        streamed = await ask(server, api)
        whole = await ask(server, api, stream=False)
    assert CONTENT_TYPES.get(api, il.wire(api).http.content_type) == streamed.headers["Content-Type"].partition(";")[0]
    assert "application/json" == whole.headers["Content-Type"].partition(";")[0]
    assert "req_test1" in streamed.headers.values()
    assert "req_test2" in whole.headers.values()


@every_wire
async def test_models_are_listed(api: str) -> None:
    """The names are in the list, whatever its shape."""
    where = {
        "ollama-chat": "/api/tags",
        "anthropic-messages": "/v1/models",
        "bedrock-converse-stream": "/foundation-models",
    }
    path = where.get(api, "/models" if api.startswith("google") else il.wire(api).http.models_route)
    with Server(models=["one", "two"]) as server:
        async with aiohttp.ClientSession() as session, session.get(server.base_url(api) + path) as response:
            listed = await response.text()
    assert (200, True, True) == (response.status, '"one"' in listed or "/one" in listed, "two" in listed)


GOOGLE = ["google-generative-ai", "google-vertex", "google-gemini-cli"]


async def array_of(server: Server, api: str) -> Received:
    """A stream that was not asked to be events."""
    wire = il.dialect(api)
    body = wire.encode_request(request(api, "An array of several chunks, please")).bytes()
    url = server.base_url(api) + wire.path(MODEL, True).partition("?")[0]
    async with aiohttp.ClientSession() as session, session.post(url, data=body) as response:
        received = Received(response.status, dict(response.headers), [await response.read()])
    received.events = list(decoded(wire, received))
    return received


@pytest.mark.parametrize("api", GOOGLE)
async def test_google_streams_an_array_unless_asked_for_events(api: str) -> None:
    """Without `alt=sse` the stream is one JSON array, and the dialect's framing reads it."""
    with Server() as server:
        received = await array_of(server, api)
    assert "application/json" == received.headers["Content-Type"]
    assert "An array of several chunks, please" == received.message.text
    assert len(json.loads(received.body)) > 3


@pytest.mark.parametrize("api", GOOGLE)
@pytest.mark.parametrize("after", [0, 2])
async def test_an_error_ends_an_array_as_its_last_element(api: str, after: int) -> None:
    """The array is whole, and the decoder hears the error."""
    with Server() as server:
        server.answer("some words", chunk=3, fault=ErrorEvent("on fire", after_events=after))
        received = await array_of(server, api)
    assert (after + 1, "error") == (len(json.loads(received.body)), received.message.stop_reason)
    assert "on fire" in (received.message.error_message or "")


PLAIN = [
    ("/v1/messages", "anthropic-messages"),
    ("/v1/chat/completions", "openai-completions"),
    ("/chat/completions", "openai-completions"),
    ("/v1/responses", "openai-responses"),
    ("/backend-api/codex/responses", "openai-codex-responses"),
    ("/v1beta/models/m:generateContent", "google-generative-ai"),
    ("/v1/projects/p/locations/l/publishers/google/models/m:generateContent", "google-vertex"),
    ("/v1internal:generateContent", "google-gemini-cli"),
    ("/model/m/converse", "bedrock-converse-stream"),
    ("/model/m/invoke", "bedrock-invoke-anthropic"),
    ("/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", "vertex-anthropic"),
    ("/api/chat", "ollama-chat"),
    ("/v2/chat", "cohere-chat"),
    ("/v1beta/interactions", "google-interactions"),
]


@pytest.mark.parametrize(("path", "api"), PLAIN, ids=[path for path, _ in PLAIN])
async def test_a_path_without_the_name_of_an_api_is_understood_by_its_end(path: str, api: str) -> None:
    """So that the server can stand in for one provider at its bare address."""
    body = il.dialect(api).encode_request(request(api, "Who are you?", stream=False)).bytes()
    with Server() as server:
        async with aiohttp.ClientSession() as session, session.post(server.url + path, data=body) as response:
            answer = await response.read()
    assert (200, api) == (response.status, server.last.api)
    assert "Who are you?" == il.dialect(api).decode_response(answer).text


@pytest.mark.parametrize(
    ("path", "headers", "api"),
    [
        ("/v1/models", {}, "openai-completions"),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, "anthropic-messages"),
        ("/v1beta/models", {}, "google-generative-ai"),
        ("/api/tags", {}, "ollama-chat"),
        ("/foundation-models", {}, "bedrock-converse-stream"),
    ],
)
async def test_a_list_of_models_without_the_name_of_an_api_is_that_of_its_path(
    path: str, headers: dict[str, str], api: str
) -> None:
    """Two providers have the same path; the headers that one of them wants tell which is meant."""
    with Server() as server:
        async with aiohttp.ClientSession() as session, session.get(server.url + path, headers=headers) as response:
            listed = await response.json()
    assert WIRES[api].http.list_models(server.models) == listed


@every_wire
async def test_an_unknown_path_is_not_found(api: str) -> None:
    """404 in the dialect's shape, and on record."""
    with Server() as server:
        async with aiohttp.ClientSession() as session, session.post(f"{server.url}/{api}/nowhere") as response:
            body = await response.read()
    assert 404 == response.status
    assert "nothing answers POST" in il.dialect(api).decode_error(404, body).message
    assert server.last.error


async def test_a_strict_server_refuses_what_a_provider_would() -> None:
    """A tool result that answers no call is an error of the conversation, and says where."""
    orphan = il.ToolResultMessage(tool_call_id="call_x", content="42", is_error=False)
    asked = il.Request(
        model=il.ModelDescriptor(id=MODEL),
        context=il.Context(messages=(il.UserMessage(content="Hi"), orphan)),
        options=il.Options(stream=False, max_tokens=10),
    )
    with Server(strict=True) as server:
        response = await ask(server, "openai-completions", asked, stream=False)
        fine = await ask(server, "openai-completions", "Hi", stream=False)
    assert (400, 200) == (response.status, fine.status)
    assert "$.messages[1]" in response.body.decode()
