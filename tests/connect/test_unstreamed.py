"""A stream was asked for, and the server sends the whole answer as one JSON body: some proxies do."""

import json

import pytest

import interlingua as il
from interlingua.testing import Server

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
