"""Cohere's chat wire: what its places mean, and what comes back of them."""

from typing import Any

import interlingua as il
from interlingua.conversion import detect
from interlingua.dialects import dialect
from interlingua.dialects.framing import Frame
from interlingua.values import jsontext
from interlingua.values.folding import fold
from interlingua.values.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall, ToolResultMessage

wire = dialect("cohere-chat")

ANSWER: dict[str, Any] = {
    "id": "a-1",
    "message": {
        "role": "assistant",
        "tool_plan": "I look up the tide.",
        "tool_calls": [
            {"id": "tide_1", "type": "function", "function": {"name": "tide", "arguments": '{"port":"Oslo"}'}}
        ],
    },
    "finish_reason": "TOOL_CALL",
    "usage": {
        "billed_units": {"input_tokens": 20, "output_tokens": 9},
        "tokens": {"input_tokens": 120, "output_tokens": 30, "reasoning_tokens": 7},
        "cached_tokens": 100,
    },
}
SOURCE = {"type": "document", "id": "doc:0", "document": {"id": "doc:0", "title": "Tides", "text": "High at noon."}}
CITED: dict[str, Any] = {
    "id": "a-2",
    "message": {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "The document says it."},
            {"type": "text", "text": "It is high at noon."},
        ],
        "citations": [
            {
                "start": 6,
                "end": 18,
                "text": "high at noon",
                "sources": [SOURCE],
                "type": "TEXT_CONTENT",
                "content_index": 1,
            }
        ],
    },
    "finish_reason": "COMPLETE",
}


def streamed(*events: dict[str, Any]) -> AssistantMessage:
    decoder = wire.StreamDecoder(model="m")
    frames = [Frame(jsontext.write(event)) for event in events]
    return fold([event for frame in frames for event in decoder.feed(frame)] + decoder.close())


def test_a_plan_is_thinking_that_comes_before_the_calls() -> None:
    """It goes back as a plan; the usage is in disjoint buckets."""
    message = wire.decode_response(ANSWER)
    plan, call = message.content or ()
    assert isinstance(plan, ThinkingBlock) and isinstance(call, ToolCall)
    assert ("I look up the tide.", "tide_1", {"port": "Oslo"}) == (plan.thinking, call.id, call.arguments)
    assert message.usage is not None
    assert (20, 100, 30, 7) == tuple(
        getattr(message.usage, name) for name in ("input", "cache_read", "output", "reasoning")
    )
    assert "toolUse" == message.stop_reason
    assert ANSWER == wire.encode_response(message).body


def test_a_source_belongs_to_the_text_that_it_names() -> None:
    """`content_index` counts thoughts too; what only this wire says of a source comes back."""
    message = wire.decode_response(CITED)
    _, text = message.content or ()
    assert isinstance(text, TextBlock)
    (source,) = text.citations
    assert ("Tides", "High at noon.", "high at noon") == (
        source.title,
        source.cited_text,
        text.text[source.start : source.end],
    )
    assert CITED == wire.encode_response(message).body


def test_a_stream_brings_plan_calls_and_sources() -> None:
    """Calls without a delta have no arguments; a source may come behind the end of its text."""
    start = {"id": "s", "type": "message-start", "delta": {"message": {"role": "assistant", "content": []}}}
    call = {"id": "t_1", "type": "function", "function": {"name": "tide", "arguments": ""}}
    planned = streamed(
        start,
        {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "I look"}}},
        {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": " it up."}}},
        {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": call}}},
        {"type": "tool-call-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}},
    )
    assert ["I look it up."] == [block.thinking for block in planned.content or () if isinstance(block, ThinkingBlock)]
    assert [("t_1", {})] == [(call.id, call.arguments) for call in planned.tool_calls]
    citation = {"start": 0, "end": 2, "text": "It", "sources": [SOURCE], "type": "TEXT_CONTENT"}
    cited = streamed(
        start,
        {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "It is."}}}},
        {"type": "content-end", "index": 0},
        {"type": "citation-start", "index": 0, "delta": {"message": {"citations": citation}}},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
    )
    (text,) = cited.content or ()
    assert isinstance(text, TextBlock) and ["Tides"] == [source.title for source in text.citations]
    assert ("s", "stop") == (cited.response_id, cited.stop_reason)


def test_requests_answers_and_streams_are_recognised() -> None:
    """By options, models and a plan; a plain conversation stays one of the wires that all share."""
    messages = [{"role": "user", "content": "Hi"}]
    stream = b'event: message-start\ndata: {"type":"message-start","delta":{}}\n\n'
    for data in (
        ANSWER,
        stream,
        {"model": "command-a-03-2025", "messages": messages},
        {"model": "m", "messages": messages, "tool_choice": "REQUIRED"},
        {"messages": [*messages, ANSWER["message"]]},
    ):
        found = detect(data)
        assert found is not None and "cohere-chat" == found.dialect, data
    plain = detect({"model": "gpt-5", "messages": messages})
    assert plain is not None and "cohere-chat" != plain.dialect


def test_a_conversation_with_calls_from_elsewhere_is_accepted() -> None:
    """Options have names of their own here, and thinking of another model is left out."""
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 50,
        "top_p": 0.5,
        "system": "Be brief.",
        "tool_choice": {"type": "any"},
        "tools": [{"name": "tide", "input_schema": {"type": "object", "properties": {}}}],
        "messages": [
            {"role": "user", "content": "Tide?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                    {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "no", "is_error": True}],
            },
        ],
    }
    encoded = il.convert(body, "cohere-chat").body
    assert (50, 0.5, "REQUIRED") == (encoded["max_tokens"], encoded["p"], encoded["tool_choice"])
    roles = [message["role"] for message in encoded["messages"]]
    assert ["system", "user", "assistant", "tool"] == roles
    call = {"id": "toolu_1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    assert {"role": "assistant", "tool_calls": [call]} == encoded["messages"][2]
    read = wire.decode_request(encoded).context.messages[-1]
    assert isinstance(read, ToolResultMessage) and ("toolu_1", "tide") == (read.tool_call_id, read.tool_name)


def test_an_error_is_its_message() -> None:
    """Cohere's errors have a message and an id, and the status tells the kind."""
    error = wire.decode_error(401, {"id": "x", "message": "invalid api token"})
    assert isinstance(error, il.AuthFailed) and "invalid api token" == error.message
