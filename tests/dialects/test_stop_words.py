"""Why an answer ended, in whatever words a host says it."""

import json
from typing import Any

import pytest

import interlingua as il
from interlingua.dialects.framing import Frame

CALL = {"id": "c1", "type": "function", "index": 0, "function": {"name": "f", "arguments": '{"a": 1}'}}
CUT_CALL = {**CALL, "function": {"name": "f", "arguments": '{"a": '}}

LIMITS = ["length", "max_tokens", "MAX_TOKENS", "max-tokens", "model_length", "max_output_tokens", "MAX_LENGTH"]
FAILURES = ["content_filter", "SAFETY", "refusal", "error", "abort", "MALFORMED_FUNCTION_CALL"]


def chat(word: str | None, call: dict[str, Any] | None = None, text: str | None = "Hi") -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **({"tool_calls": [call]} if call else {})}
    return {
        "id": "x",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": word}],
    }


def whole(body: dict[str, Any], api: str = "openai-completions") -> il.AssistantMessage:
    return il.dialect(api).decode_response(body)


def streamed(body: dict[str, Any]) -> il.AssistantMessage:
    (choice,) = body["choices"]
    decoder = il.dialect("openai-completions").StreamDecoder()
    chunk = {"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": choice["message"]}]}
    end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    frames = [Frame(json.dumps(part).encode()) for part in (chunk, end)] + [Frame(b"[DONE]")]
    return il.fold([*(event for frame in frames for event in decoder.feed(frame)), *decoder.close()])


@pytest.mark.parametrize("read", [whole, streamed])
@pytest.mark.parametrize("call", [None, CALL, CUT_CALL], ids=["text", "call", "cut call"])
@pytest.mark.parametrize(("word", "reason"), [(w, "length") for w in LIMITS] + [(w, "error") for w in FAILURES])
def test_a_limit_is_a_limit_and_a_failure_a_failure_in_any_words(word: str, reason: str, call: Any, read: Any) -> None:
    """
    Hosts pass on the words of the model's own provider; complete calls do not turn them into a good end.
    """
    message = read(chat(word, call))
    assert (reason, word) == (message.stop_reason, message.stop_detail)


@pytest.mark.parametrize("read", [whole, streamed])
@pytest.mark.parametrize(
    ("call", "text", "reason"),
    [(None, "Hi", "stop"), (None, None, "error"), (CALL, None, "length"), (CUT_CALL, "Hi", "length")],
)
def test_a_word_that_nobody_knows_is_judged_by_what_came(call: Any, text: str | None, reason: str, read: Any) -> None:
    """
    Text is a stop, nothing is an error; an answer with calls may have been cut, so it ends as length and none runs.
    """
    assert read(chat("who_knows", call, text)).stop_reason == reason


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("anthropic-messages", {"type": "message", "role": "assistant", "content": [], "stop_reason": "MAX_TOKENS"}),
        ("anthropic-messages", {"type": "message", "role": "assistant", "content": [], "stop_reason": "length"}),
        ("google-generative-ai", {"candidates": [{"content": {"parts": []}, "finishReason": "max_tokens"}]}),
        ("google-generative-ai", {"candidates": [{"content": {"parts": []}, "finishReason": "length"}]}),
        (
            "bedrock-converse-stream",
            {"output": {"message": {"role": "assistant", "content": []}}, "stopReason": "length"},
        ),
        ("ollama-chat", {"message": {"role": "assistant", "content": "Hi"}, "done": True, "done_reason": "max_tokens"}),
        ("openai-responses", {"object": "response", "output": [], "status": "incomplete"}),
        (
            "openai-responses",
            {
                "object": "response",
                "output": [],
                "status": "incomplete",
                "incomplete_details": {"reason": "max_tokens"},
            },
        ),
        (
            "openai-responses",
            {"object": "response", "output": [], "status": "incomplete", "incomplete_details": {"reason": "who_knows"}},
        ),
    ],
)
def test_other_wires_know_each_others_words_for_the_limit(api: str, body: dict[str, Any]) -> None:
    """
    Servers that speak like Anthropic, Google or Ollama say the limit in words of others; they come back as they were.
    """
    message = whole(body, api)
    assert message.stop_reason == "length"
    assert il.dialect(api).encode_response(message).body == body
