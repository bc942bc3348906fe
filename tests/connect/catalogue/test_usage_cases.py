"""From each wire's own usage to dollars: the numbered hard cases of usage and cost."""

from typing import Any

import pytest

import interlingua as il
from interlingua.connect.models import Catalogue
from interlingua.connect.prices import Dated, PriceList, PriceRow, PriceSheet
from interlingua.values.messages import AssistantMessage, Cost
from interlingua.values.request import ModelDescriptor
from laws.wires import frames_of, stream_of, understood

RATES: dict[str, Any] = {
    "input": ((0, 3.0), (200_000, 6.0)),
    "output": ((0, 15.0), (200_000, 22.5)),
    "cache_read": ((0, 0.3), (200_000, 0.6)),
    "cache_write": ((0, 3.75), (200_000, 7.5)),
    "cache_write_1h": ((0, 6.0), (200_000, 12.0)),
}
KNOWN = Catalogue(
    PriceSheet((PriceList("openai", (PriceRow("m", None, None, False, ["equals", "m"], (Dated(RATES),)),)),)),
)
MODEL = ModelDescriptor(id="m", provider="openai")

# Of one request: 1,000 fresh, 8,000 read and 500 written (where the wire can say so), 200 of output.
BODIES: dict[str, dict[str, Any]] = {
    "anthropic-messages": {
        "id": "a",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 1_000,
            "cache_read_input_tokens": 8_000,
            "cache_creation_input_tokens": 500,
            "output_tokens": 200,
        },
    },
    "bedrock-converse-stream": {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
        "stopReason": "end_turn",
        "usage": {
            "inputTokens": 1_000,
            "outputTokens": 200,
            "totalTokens": 9_700,
            "cacheReadInputTokens": 8_000,
            "cacheWriteInputTokens": 500,
        },
    },
    "openai-completions": {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
        "usage": {
            "prompt_tokens": 9_500,
            "completion_tokens": 200,
            "total_tokens": 9_700,
            "prompt_tokens_details": {"cached_tokens": 8_000, "cache_write_tokens": 500},
            "completion_tokens_details": {"reasoning_tokens": 150},
        },
    },
    "openai-responses": {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [
            {
                "type": "message",
                "id": "msg",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
            }
        ],
        "usage": {
            "input_tokens": 9_500,
            "input_tokens_details": {"cached_tokens": 8_000, "cache_write_tokens": 500},
            "output_tokens": 200,
            "output_tokens_details": {"reasoning_tokens": 150},
            "total_tokens": 9_700,
        },
    },
    "google-generative-ai": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],
        "modelVersion": "m",
        "usageMetadata": {
            "promptTokenCount": 9_000,
            "cachedContentTokenCount": 8_000,
            "candidatesTokenCount": 50,
            "thoughtsTokenCount": 150,
            "totalTokenCount": 9_200,
        },
    },
    "ollama-chat": {
        "model": "m",
        "message": {"role": "assistant", "content": "Hi"},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 1_000,
        "eval_count": 200,
    },
}
WITHOUT_WRITES = {"google-generative-ai"}
WITHOUT_CACHE = {"ollama-chat"}
every_wire = pytest.mark.parametrize("name", sorted(BODIES))


def expected(name: str) -> Cost:
    read = 0.0 if name in WITHOUT_CACHE else 0.0024
    written = 0.0 if name in WITHOUT_CACHE | WITHOUT_WRITES else 0.001875
    total = 0.006 if not read else 0.0084 if not written else 0.010275
    return Cost(input=0.003, cache_read=read, cache_write=written, output=0.003, total=total)


def whole(name: str) -> AssistantMessage:
    return il.dialect(name).decode_response(BODIES[name])


def streamed(name: str) -> AssistantMessage:
    wire = il.dialect(name)
    return il.fold(understood(wire, frames_of(wire, stream_of(wire, whole(name), size=1))))


def cost_of(message: AssistantMessage) -> Cost:
    usage = KNOWN.priced(message, MODEL).usage
    assert usage is not None
    assert usage.cost is not None
    return usage.cost


@every_wire
def test_case_80_cache_writes_are_charged_once(name: str) -> None:
    """Each token of the wire's usage is in one bucket and costs that bucket's price."""
    assert expected(name) == cost_of(whole(name))


@every_wire
def test_case_81_streamed_and_whole_answers_cost_the_same(name: str) -> None:
    """Cache reads have their price in a stream as well."""
    assert cost_of(whole(name)) == cost_of(streamed(name))


def test_case_82_the_cache_is_not_counted_into_the_input_of_bedrock() -> None:
    """Neither in a stream, nor after a way through another wire, is cached input charged as fresh."""
    message = streamed("bedrock-converse-stream")
    assert 0.003 == cost_of(message).input
    for name in ("anthropic-messages", "openai-completions", "openai-responses"):
        wire = il.dialect(name)
        assert expected("bedrock-converse-stream") == cost_of(wire.decode_response(wire.encode_response(message).body))


def folded(name: str, frames: list[bytes], **closing: Any) -> AssistantMessage:
    wire = il.dialect(name)
    decoder, framing = wire.StreamDecoder(), wire.framing()
    events = [event for data in frames for frame in framing.feed(data) for event in decoder.feed(frame)]
    return il.fold(events + decoder.close(**closing))


def sse(*bodies: dict[str, Any]) -> list[bytes]:
    named = (
        (f"event: {body['type']}\n" if "type" in body else "", il.values.jsontext.write(body).decode())
        for body in bodies
    )
    return [f"{event}data: {data}\n\n".encode() for event, data in named]


def test_case_83_usage_that_grows_in_a_stream_is_charged_once() -> None:
    """Each chunk repeats the usage so far: the last one is the bill."""
    last = BODIES["google-generative-ai"]
    counts = last["usageMetadata"]
    accumulator = [
        {**last, "usageMetadata": {**counts, "candidatesTokenCount": n, "totalTokenCount": 9_150 + n}} for n in (10, 30)
    ]
    for body in accumulator:
        body["candidates"] = [{"content": {"role": "model", "parts": [{"text": "x"}]}}]
    message = folded("google-generative-ai", sse(*accumulator, last))
    assert expected("google-generative-ai") == cost_of(message)


START = {
    "type": "message_start",
    "message": {
        **BODIES["anthropic-messages"],
        "content": [],
        "stop_reason": None,
        "usage": {**BODIES["anthropic-messages"]["usage"], "output_tokens": 1},
    },
}
TEXT = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
]
END = [
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 200}},
    {"type": "message_stop"},
]


def test_case_84_input_of_the_start_and_output_of_the_end_are_both_charged() -> None:
    """A streamed answer of Anthropic's costs what its input costs, too."""
    assert expected("anthropic-messages") == cost_of(folded("anthropic-messages", sse(START, *TEXT, *END)))


def test_case_85_an_aborted_answer_costs_what_is_known_of_it() -> None:
    """The input was read and is charged, though the answer was cut off; nothing known has no cost."""
    message = folded("anthropic-messages", sse(START, *TEXT), aborted=True)
    assert "aborted" == message.stop_reason
    assert (0.003, 0.0024, 1 * 15 / 1e6) == (
        cost_of(message).input,
        cost_of(message).cache_read,
        cost_of(message).output,
    )
    nothing = il.fold(il.dialect("anthropic-messages").StreamDecoder().close(aborted=True))
    assert nothing is KNOWN.priced(nothing, MODEL)


def long_request(name: str, fresh: int, read: int) -> AssistantMessage:
    """An answer to a request of so much fresh and cached input."""
    usage: dict[str, Any] = {
        "openai-completions": {
            "prompt_tokens": fresh + read,
            "completion_tokens": 100,
            "total_tokens": fresh + read + 100,
            "prompt_tokens_details": {"cached_tokens": read, "text_tokens": fresh + read, "image_tokens": 50_000},
        },
        "anthropic-messages": {"input_tokens": fresh, "cache_read_input_tokens": read, "output_tokens": 100},
    }
    return il.dialect(name).decode_response({**BODIES[name], "usage": usage[name]})


@pytest.mark.parametrize("name", ["openai-completions", "anthropic-messages"])
@pytest.mark.parametrize(
    ("fresh", "read", "price"), [(120_000, 80_000, 3.0), (120_001, 80_000, 6.0), (1, 200_000, 6.0)]
)
def test_case_86_the_price_step_depends_on_the_true_input(name: str, fresh: int, read: int, price: float) -> None:
    """Cached tokens count once, and a breakdown beside them not at all."""
    assert fresh * price / 1e6 == cost_of(long_request(name, fresh, read)).input


@every_wire
def test_case_86_an_unknown_price_is_unknown(name: str) -> None:
    """For no wire is the cost of an unknown model zero."""
    message = whole(name)
    assert message is KNOWN.priced(message, ModelDescriptor(id="other", provider="openai"))
    assert message.usage is not None
    assert message.usage.cost is None
