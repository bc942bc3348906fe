"""Answers in one piece: asked for by `complete`, or sent by a proxy where a stream was asked for."""

import json
from typing import Any

import pytest

import interlingua as il
from interlingua.connect.client import Client
from interlingua.connect.connector import HttpConnector
from interlingua.connect.providers import Provider
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.retry import Retry
from interlingua.dialects import WIRES
from interlingua.testing import Cut, Garbage, RateLimit, Server, Stall

WHOLE = {
    "anthropic-compatible": (
        "/v1/messages",
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "All at once."}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 4},
        },
    ),
    "openai-compatible": (
        "/chat/completions",
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": "All at once."}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        },
    ),
}


@pytest.mark.parametrize("provider", WHOLE)
async def test_an_answer_that_comes_whole_is_one_well_formed_stream(provider: str) -> None:
    """
    The body becomes events with one beginning and one end, and the message is the answer.
    """
    path, body = WHOLE[provider]
    with Server() as server:
        server.route("POST", path, body)
        stream = il.stream(f"{provider}/m", "hi", base_url=server.url, api_key="none", retry=0)
        kinds = [type(event).__name__ for event in [event async for event in stream]]
    assert ["Start", "TextStart", "TextDelta", "TextEnd", "Done"] == kinds
    assert stream.failure is None
    assert stream.message is not None
    assert ("All at once.", "stop") == (stream.message.text, stream.message.stop_reason)


@pytest.mark.parametrize("provider", WHOLE)
async def test_a_large_answer_that_comes_whole_is_read_whole(provider: str) -> None:
    """The bound on bodies of errors is not one on answers, which may hold pictures."""
    path, body = WHOLE[provider]
    text = "All at once. " * (2 * 1024 * 1024 // 13)
    with Server() as server:
        server.route("POST", path, json.loads(json.dumps(body).replace("All at once.", text)))
        answer = await il.complete(f"{provider}/m", "hi", base_url=server.url, api_key="none", retry=0)
    assert (len(text), True, "stop") == (len(answer.text), text == answer.text, answer.stop_reason)


FILTERED = {"index": 0, "finish_reason": "content_filter", "content_filter_results": {"hate": {"filtered": True}}}
PROMPTS = [{"prompt_index": 0, "content_filter_results": {"jailbreak": {"filtered": True, "detected": True}}}]


@pytest.mark.parametrize("body", [{"choices": [FILTERED]}, {"choices": [], "prompt_filter_results": PROMPTS}])
async def test_an_answer_that_azure_s_filter_took_is_a_filtered_one(body: dict[str, object]) -> None:
    """The choice has no message, or the prompt no choice: the error says which filter it was."""
    _, whole = WHOLE["openai-compatible"]
    with Server() as server:
        server.route("POST", "/chat/completions", {**whole, **body})
        with pytest.raises(il.ContentFiltered, match=r"content_filter \((hate|jailbreak)\)"):
            await il.complete("openai-compatible/m", "hi", base_url=server.url, api_key="none", retry=0)


# --- asked for in one piece ------------------------------------------------------------------------------------------

ANSWER = il.AssistantMessage(
    content=(
        il.TextBlock(text="Let me look."),
        il.ToolCall(id="call_1", name="look_up", arguments={"name": "ada", "limit": 3}),
    ),
    stop_reason="toolUse",
    usage=il.Usage.of(12, 34),
)
ASKED = il.Context(
    messages=(il.UserMessage(content="Who is Ada?"),),
    tools=(il.ToolSpec(name="look_up", description="Finds somebody.", input_schema={"type": "object"}),),
)
# The path says it on these wires, the body on the others.
UNSTREAMED_PATHS = {
    "google-generative-ai": ":generateContent",
    "google-vertex": ":generateContent",
    "google-gemini-cli": ":generateContent",
    "bedrock-converse-stream": "/converse",
    "bedrock-invoke-anthropic": "/invoke",
    "vertex-anthropic": ":rawPredict",
}


def asking(server: Server, api: str, **more: Any) -> tuple[Client, dict[str, Any]]:
    """A client that reaches the server over this wire, and the options of a call."""
    row = Provider(id="here", label="Here", api=api, base_url=server.base_url(api), auth="bearer")
    client = Client(connectors=ConnectorRegistry([HttpConnector(row)]), retry=Retry(attempts=2, base=0.001, cap=0.002))
    return client, {"api_key": "none", "timeout": 20, "max_tokens": 100, **more}


@pytest.mark.parametrize("api", WIRES)
async def test_complete_asks_for_the_answer_in_one_piece(server: Server, api: str) -> None:
    """No stream is asked for where the service does without; the message is the one that a stream amounts to."""
    server.answer(ANSWER)
    client, options = asking(server, api)
    whole = await client.complete("here/m", ASKED, **options)
    sent = server.last
    streamed = await client.stream("here/m", ASKED, **options).result()
    if il.wire(api).http.only_streams:
        assert sent.json["stream"] is True
    elif api in UNSTREAMED_PATHS:
        assert sent.path.partition("?")[0].endswith(UNSTREAMED_PATHS[api])
    else:
        assert sent.json["stream"] is False
        assert "stream_options" not in sent.json
    assert ("Let me look.", "toolUse") == (whole.text, whole.stop_reason)
    assert [("look_up", {"name": "ada", "limit": 3})] == [(call.name, call.arguments) for call in whole.tool_calls]
    assert (streamed.provider, streamed.model, streamed.api) == (whole.provider, whole.model, whole.api)
    assert streamed.usage is not None and whole.usage is not None
    assert (streamed.usage.input, streamed.usage.output) == (whole.usage.input, whole.usage.output)


@pytest.mark.parametrize("api", WIRES)
async def test_complete_streams_where_it_is_told_to(server: Server, api: str) -> None:
    """`stream=True` asks for events although only the message is wanted: a long answer keeps its connection alive."""
    server.say("Hello there")
    client, options = asking(server, api, stream=True)
    assert "Hello there" == (await client.complete("here/m", ASKED, **options)).text
    path = UNSTREAMED_PATHS.get(api)
    assert not server.last.path.partition("?")[0].endswith(path) if path else server.last.json["stream"] is True


@pytest.mark.parametrize("api", ["google-generative-ai", "ollama-chat", "openai-completions"])
async def test_calls_without_ids_get_unique_ones_in_every_answer(server: Server, api: str) -> None:
    """Where the wire gives none: two turns of one conversation never share an id."""
    without = {
        "google-generative-ai": {
            "candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}}]
        },
        "ollama-chat": {
            "model": "m",
            "message": {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "f", "arguments": {}}}],
            },
            "done": True,
        },
        "openai-completions": {
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "message": {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
                }
            ]
        },
    }[api]
    client, options = asking(server, api)
    await client.complete("here/m", ASKED, **options)
    server.route("POST", server.last.path.partition("?")[0], without)
    ids = [(await client.complete("here/m", ASKED, **options)).tool_calls[0].id for _ in range(2)]
    assert 2 == len(set(ids))


@pytest.mark.parametrize("api", WIRES)
async def test_an_answer_in_one_piece_is_tried_again(server: Server, api: str) -> None:
    """A limit, then an answer."""
    server.say("Hello there", fault=RateLimit(0, times=1))
    client, options = asking(server, api)
    assert "Hello there" == (await client.complete("here/m", ASKED, **options)).text
    assert 2 == len(server.requests)


@pytest.mark.parametrize(
    "fault", [Cut(after_bytes=20), Garbage(), Stall(after_events=0)], ids=["cut", "garbage", "stall"]
)
@pytest.mark.parametrize("api", WIRES)
async def test_an_answer_in_one_piece_that_breaks_is_a_typed_error(server: Server, api: str, fault: Any) -> None:
    """Cut, unreadable or never sent: raised, with the message so far, which is empty."""
    server.say("Hello there", fault=fault)
    client, options = asking(server, api, retry=0, timeout=0.5)
    with pytest.raises((il.TransportError, il.DialectError)) as raised:
        await client.complete("here/m", ASKED, **options)
    assert "error" == raised.value.partial.stop_reason


async def test_an_answer_in_one_piece_names_the_tools_of_the_conversation(server: Server) -> None:
    """A name that the wire does not take is another one there, and the old one in the answer."""
    tools = (il.ToolSpec(name="a tool.with an odd name", input_schema={"type": "object"}),)
    client, options = asking(server, "anthropic-messages")
    await client.complete("here/m", il.Context(messages=ASKED.messages, tools=tools), **options)
    wire_name = server.last.json["tools"][0]["name"]
    assert wire_name != tools[0].name
    server.answer(
        il.AssistantMessage(content=(il.ToolCall(id="1", name=wire_name, arguments={}),), stop_reason="toolUse")
    )
    answer = await client.complete("here/m", il.Context(messages=ASKED.messages, tools=tools), **options)
    assert [tools[0].name] == [call.name for call in answer.tool_calls]
