"""Anthropic Messages: wire and meaning side by side."""

import base64
import json
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.dialects import anthropic as wire
from interlingua.dialects.framing import AWSEventStream, write_aws
from interlingua.values import jsontext
from interlingua.values.events import BlockEnd, BlockStart, Done, Error, Start, TextDelta, TextStart, ToolCallDelta
from interlingua.values.folding import unfold
from interlingua.values.messages import CacheMarker, ServerToolCall, ServerToolResult
from interlingua.values.request import OutputSchema, Reasoning, Request, ToolChoice

API = wire.API
EPHEMERAL = {"type": "ephemeral"}
MARK = CacheMarker()
PNG = "iVBORw0KGgo="

BLOCKS: dict[str, tuple[dict[str, Any], Any]] = {
    "text": ({"type": "text", "text": "Hi"}, il.TextBlock(text="Hi")),
    "cached text": (
        {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        il.TextBlock(text="Hi", cache=CacheMarker(ttl="1h")),
    ),
    "thinking": (
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        il.ThinkingBlock(thinking="Hm", thinking_signature="c2ln"),
    ),
    "thinking with a signature and no words": (
        {"type": "thinking", "thinking": "", "signature": "c2ln"},
        il.ThinkingBlock(thinking="", thinking_signature="c2ln"),
    ),
    "redacted thinking": (
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
        il.ThinkingBlock(thinking="", thinking_signature="c2VhbGVk", redacted=True),
    ),
    "call": (
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"n": 2**70}},
        il.ToolCall(id="t1", name="add", arguments={"n": 2**70}),
    ),
    "picture": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        il.ImageBlock(data=PNG, mime_type="image/png"),
    ),
    "picture by address": (
        {"type": "image", "source": {"type": "url", "url": "https://example.invalid/a.png"}},
        il.ImageBlock(url="https://example.invalid/a.png"),
    ),
    "uploaded picture": (
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        il.ImageBlock(file_id="file_1"),
    ),
    "document": (
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "words"},
            "title": "Notes",
            "context": "old",
            "citations": {"enabled": True},
            "cache_control": EPHEMERAL,
        },
        il.DocumentBlock(
            text="words", mime_type="text/plain", title="Notes", context="old", citations=True, cache=MARK
        ),
    ),
    "search by the provider": (
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        ServerToolCall(id="s1", name="web_search", arguments={"query": "x"}),
    ),
    "what the provider found": (
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u", "encrypted_content": "e"}]},
        ServerToolResult(
            tool_call_id="s1", tool_name="web_search", dialect=API, content=[{"url": "u", "encrypted_content": "e"}]
        ),
    ),
    "a block of tomorrow": (
        {"type": "hologram", "depth": [3]},
        il.OpaqueBlock(dialect=API, value={"type": "hologram", "depth": [3]}),
    ),
    "text that is no text": (
        {"type": "text", "text": 5},
        il.OpaqueBlock(dialect=API, value={"type": "text", "text": 5}),
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_means_what_it_says_and_comes_back(name: str) -> None:
    """
    Each wire block is one block of the format, and the block says the same again.
    """
    wire_block, block = BLOCKS[name]
    body = {"messages": [{"role": "assistant", "content": [wire_block]}]}
    request = wire.decode_request(body)
    assert (block,) == request.context.messages[0].content
    assert body == wire.encode_request(il.load(il.dump(request), Request)).body


def test_citations_return_with_their_sealed_indexes() -> None:
    """
    A citation has its title, address and words; what only this wire knows of it stays with it.
    """
    cited = {
        "type": "web_search_result_location",
        "cited_text": "so it is",
        "url": "https://example.invalid",
        "title": "A page",
        "encrypted_index": "c2VhbGVk",
    }
    body = {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "Yes.", "citations": [cited]}]}]}
    request = wire.decode_request(body)
    ((block,),) = [message.content for message in request.context.messages]
    assert ("A page", "so it is") == (block.citations[0].title, block.citations[0].cited_text)
    assert body == wire.encode_request(request).body


@pytest.mark.parametrize(("field", "key", "value"), [("title", "title", "New"), ("url", "url", "https://b.invalid/")])
def test_a_citation_that_was_changed_is_sent_as_changed(field: str, key: str, value: str) -> None:
    """
    The fields of a citation are written from its values, not from what the wire had.
    """
    cited = {"type": "web_search_result_location", "cited_text": "so it is", "encrypted_index": "x"}
    cited |= {"url": "https://a.invalid/", "title": "A page"}
    block = il.dialect(API).decode_response({"content": [{"type": "text", "text": "Yes.", "citations": [cited]}]})
    (text,) = block.content
    citation = replace(text.citations[0], **{field: value})  # type: ignore[union-attr, arg-type, index]
    sent = wire.encode_response(replace(block, content=(replace(text, citations=(citation,)),)))  # type: ignore[arg-type]
    assert [{**cited, key: value}] == sent.body["content"][0]["citations"]
    without = replace(citation, **{field: None})  # type: ignore[arg-type]
    sent = wire.encode_response(replace(block, content=(replace(text, citations=(without,)),)))  # type: ignore[arg-type]
    assert [{name: given for name, given in cited.items() if name != key}] == sent.body["content"][0]["citations"]


OPTIONS: dict[str, tuple[dict[str, Any], il.Options]] = {
    "budget": ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, il.Options(reasoning=2000)),
    "adaptive": ({"thinking": {"type": "adaptive"}}, il.Options(reasoning=True)),
    "off": ({"thinking": {"type": "disabled"}}, il.Options(reasoning="off")),
    "effort": (
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        il.Options(reasoning="high"),
    ),
    "any tool": ({"tool_choice": {"type": "any"}}, il.Options(tool_choice="required")),
    "one tool": ({"tool_choice": {"type": "tool", "name": "add"}}, il.Options(tool_choice="add")),
    "one call at a time": (
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        il.Options(parallel_tools=False),
    ),
    "schema": (
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        il.Options(output_schema={"type": "object"}),
    ),
    "sampling": (
        {"temperature": 0.5, "top_p": 1, "top_k": 3, "stop_sequences": ["END"]},
        il.Options(temperature=0.5, top_p=1, top_k=3, stop=("END",)),
    ),
    "the rest": (
        {"service_tier": "auto", "metadata": {"user_id": "u"}, "stream": True, "cache_control": EPHEMERAL},
        il.Options(service_tier="auto", metadata={"user_id": "u"}, stream=True, cache_retention="short"),
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_mean_what_they_say_and_come_back(name: str) -> None:
    """
    What several wires can ask for is an option of the format.
    """
    fields, options = OPTIONS[name]
    body = {"messages": [], **fields}
    assert options == wire.decode_request(body).options
    assert body == wire.encode_request(il.Request(model=il.ModelDescriptor(id=""), context=il.Context(messages=()), options=options)).body  # fmt: skip  # noqa: E501


TURNS: dict[str, list[dict[str, Any]]] = {
    "two results in one turn": [
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "2"}], "is_error": True},
    ],
    "a result and words": [
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "text", "text": "Go on."},
    ],
    "words before a result": [
        {"type": "text", "text": "Here:"},
        {"type": "tool_result", "tool_use_id": "a", "content": "1", "is_error": False, "cache_control": EPHEMERAL},
    ],
    "a result without content": [{"type": "tool_result", "tool_use_id": "a"}],
    "a result that is none": [{"type": "tool_result", "tool_use_id": 5}],
}


@pytest.mark.parametrize("name", TURNS)
def test_a_user_turn_with_results_comes_back_in_one_piece(name: str) -> None:
    """
    Results are messages of their own; that they shared a turn is remembered, and what is unknown in it kept.
    """
    body = {"messages": [{"role": "user", "content": TURNS[name], "mood": "calm"}]}
    request = il.load(il.dump(wire.decode_request(body)), Request)
    assert body == wire.encode_request(request).body


def test_results_of_a_turn_share_a_message_by_default() -> None:
    """
    A conversation from elsewhere says parallel results together, as the wire wants them.
    """
    results = tuple(il.ToolResultMessage(tool_call_id=i, content="x", is_error=False) for i in ("a", "b"))
    body = wire.encode_request(il.Request(model=il.ModelDescriptor(id=""), context=il.Context(messages=results))).body
    assert [["a", "b"]] == [[block["tool_use_id"] for block in message["content"]] for message in body["messages"]]


def test_a_changed_value_is_not_overruled_by_how_it_was_spelled() -> None:
    """
    The hint that a result said `is_error: false` is worth nothing once it is an error.
    """
    block = {"type": "tool_result", "tool_use_id": "a", "content": "1", "is_error": False}
    request = wire.decode_request({"messages": [{"role": "user", "content": [block]}]})
    import msgspec

    failed = msgspec.structs.replace(request.context.messages[0], is_error=True)
    context = msgspec.structs.replace(request.context, messages=(failed,))
    body = wire.encode_request(msgspec.structs.replace(request, context=context)).body
    assert body["messages"][0]["content"][0]["is_error"] is True


# --- streams ---------------------------------------------------------------------------------------------------------

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 9,
            "cache_read_input_tokens": 4,
            "cache_creation_input_tokens": 2,
            "output_tokens": 1,
        },
    },
}
STOP = {"type": "message_stop"}


def opened(block: dict[str, Any], at: int = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": at, "content_block": block}


def grown(at: int = 0, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": at, "delta": delta}


def closed(at: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": at}


def ended(reason: str = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def decode_stream(*events: dict[str, Any]) -> list[Any]:
    framing, decoder = wire.framing(), wire.StreamDecoder()
    body = b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)
    return [e for frame in framing.feed(body) + framing.close() for e in decoder.feed(frame)] + decoder.close()


def test_a_stream_is_read_live_and_ends_with_the_whole_message() -> None:
    """
    Deltas come as they arrive; usage is that of the start, overwritten by that of the end.
    """
    events = decode_stream(
        START,
        {"type": "ping"},
        opened({"type": "thinking", "thinking": "", "signature": ""}),
        grown(type="thinking_delta", thinking="Hm"),
        grown(type="signature_delta", signature="c2ln"),
        closed(),
        opened({"type": "tool_use", "id": "t1", "name": "add", "input": {}}, 1),
        grown(1, type="input_json_delta", partial_json='{"n": '),
        grown(1, type="input_json_delta", partial_json="1}"),
        closed(1),
        ended("tool_use", output_tokens=7),
        STOP,
    )
    assert ['{"n": ', "1}"] == [event.delta for event in events if isinstance(event, ToolCallDelta)]
    message = il.fold(events)
    assert message.content == (
        il.ThinkingBlock(thinking="Hm", thinking_signature="c2ln"),
        il.ToolCall(id="t1", name="add", arguments={"n": 1}),
    )
    assert ("toolUse", "tool_use") == (message.stop_reason, message.stop_detail)
    assert (9, 7, 4, 2, 22) == (
        message.usage.input,
        message.usage.output,
        message.usage.cache_read,
        message.usage.cache_write,
        message.usage.total_tokens,
    )


TROUBLE: dict[str, tuple[list[dict[str, Any]], str]] = {
    "cut off": ([START, opened({"type": "text", "text": ""}), grown(type="text_delta", text="Hal")], "ended before"),
    "an error event": (
        [START, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}],
        "Overloaded",
    ),
    "refused": ([START, ended("refusal"), STOP], "refusal"),
    "an event without a type": ([START, {"type": None}, grown(type="text_delta")], "KeyError"),
    "nothing at all": ([], "ended before"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_ends_in_one_error_that_keeps_what_came(name: str) -> None:
    """
    Whatever goes wrong, the last event is an error with a message, and only the last.
    """
    sent, expected = TROUBLE[name]
    *before, last = decode_stream(*sent)
    assert isinstance(last, Error)
    assert expected in (last.error.error_message or "")
    assert not any(isinstance(event, Error) for event in before)
    assert last.error.text == "".join(event.delta for event in before if isinstance(event, TextDelta))


def test_arguments_cut_by_the_limit_are_kept_and_not_executed() -> None:
    """
    Half an object is no object: the text is kept, the arguments are empty, and the reason is `length`.
    """
    call = opened({"type": "tool_use", "id": "t1", "name": "add", "input": {}})
    message = il.fold(
        decode_stream(START, call, grown(type="input_json_delta", partial_json='{"n": 1'), ended("max_tokens"), STOP)
    )
    (made,) = message.tool_calls
    assert ("length", {}, '{"n": 1') == (message.stop_reason, made.arguments, made.arguments_text)
    assert made.parse_error


def test_the_same_bodies_travel_in_aws_frames() -> None:
    """
    The variant names no model in the body, and wraps each event of a stream in a frame with its checksum.
    """
    variant = il.dialect("bedrock-invoke-anthropic")
    message = il.AssistantMessage(content=(il.TextBlock(text="Hi"),), stop_reason="stop", model="claude-x")
    encoder = variant.StreamEncoder()
    body = b"".join(map(encoder.feed, unfold(message))) + encoder.close()
    payloads = [json.loads(frame.data) for frame in AWSEventStream().feed(body)]
    assert "message_start" == json.loads(base64.b64decode(payloads[0]["bytes"]))["type"]
    framing, decoder = variant.framing(), variant.StreamDecoder()
    events = [event for frame in framing.feed(body) + framing.close() for event in decoder.feed(frame)]
    assert "Hi" == il.fold(events + decoder.close()).text
    request = il.Request(model=il.ModelDescriptor(id="claude-x"), context=il.Context(messages=()))
    assert {"messages": [], "anthropic_version": "bedrock-2023-05-31"} == variant.encode_request(request).body
    assert variant.path("a:0", True) == "/model/a%3A0/invoke-with-response-stream"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"type": "error", "error": {"type": "authentication_error", "message": "no"}}, il.AuthFailed),
        (429, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, il.RateLimited),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, il.Overloaded),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}, il.ContextTooLong),  # noqa: E501
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}, il.BadRequest),
        (500, b"<html>oops</html>", il.ProviderError),
    ],
)  # fmt: skip
def test_errors_are_typed(status: int, body: Any, kind: type) -> None:
    """
    By status, by the provider's code, and by wording where these say too little.
    """
    error = wire.decode_error(status, body, {"retry-after": "2"})
    assert (kind, status, 2.0) == (type(error), error.status, error.retry_after)
    assert wire.encode_error(error)[0] == status


USUAL_ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 1,
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 3,
        "output_tokens": 4,
    },
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"id": ""},
        {"id": 1},
        {"type": "other"},
        {"role": "model"},
        {"model": ""},
        {"model": None},
        {"content": None},
        {"content": "Hello"},
        {"stop_reason": "unheard_of"},
        {"stop_reason": None},
        {"stop_reason": "tool_use"},
        {"stop_sequence": "END"},
        {"usage": None},
        {"usage": {"input_tokens": True, "output_tokens": 1.0}},
        {"usage": {**USUAL_ANSWER["usage"], "output_tokens": True}},
        {"usage": {**USUAL_ANSWER["usage"], "output_tokens": 4.0}},
        {"usage": {**USUAL_ANSWER["usage"], "service_tier": "standard"}},
        {"container": None},
    ],
)
@pytest.mark.parametrize("model", [None, "claude", "alias"])
def test_usual_answers_and_those_beside_them_return_as_they_came(change: dict[str, Any], model: str | None) -> None:
    """
    The fast way for answers without a residual takes no answer that has one.
    """
    body = {**USUAL_ANSWER, **change}
    answer = wire.decode_response(body, model=model)
    assert jsontext.same(wire.encode_response(answer).body, body)
    assert bool(change) or not (answer.extra or (answer.usage and answer.usage.extra))
    shuffled = dict(reversed(body.items()))
    assert jsontext.same(wire.encode_response(wire.decode_response(shuffled, model=model)).body, body)


# --- what this wire cannot say ---------------------------------------------------------------------------------------


def asked(options: il.Options, *messages: Any) -> Request:
    return il.Request(model=il.ModelDescriptor(id=""), context=il.Context(messages=messages), options=options)


UNSAID: dict[str, tuple[il.Options, dict[str, Any], list[tuple[str, str]]]] = {
    "no caching": (il.Options(cache_retention="none"), {}, [("$.options.cacheRetention", "record")]),
    "an hour of caching": (il.Options(cache_retention="long"), {"cache_control": {**EPHEMERAL, "ttl": "1h"}}, []),
    "a budget for no thinking": (
        il.Options(reasoning=Reasoning(enabled=False, budget=2000)),
        {"thinking": {"type": "disabled"}},
        [("$.options.reasoning.budget", "record")],
    ),
    "nothing about thinking": (il.Options(reasoning=Reasoning()), {}, [("$.options.reasoning", "record")]),
    "on, with a budget": (
        il.Options(reasoning=Reasoning(enabled=True, budget=2000)),
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        [("$.options.reasoning.enabled", "record")],
    ),
    "on, with an effort": (
        il.Options(reasoning=Reasoning(enabled=True, effort="low")),
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        [("$.options.reasoning.enabled", "record")],
    ),
    "a summary": (
        il.Options(reasoning=Reasoning(enabled=True, summary="auto")),
        {"thinking": {"type": "adaptive", "display": "summarized"}},
        [],
    ),
    "a long summary": (
        il.Options(reasoning=Reasoning(enabled=True, summary="detailed")),
        {"thinking": {"type": "adaptive", "display": "summarized"}},
        [("$.options.reasoning.summary", "weakened")],
    ),
    "a summary of no thinking": (
        il.Options(reasoning=Reasoning(enabled=False, summary="auto")),
        {"thinking": {"type": "disabled"}},
        [("$.options.reasoning.summary", "dropped")],
    ),
    "a summary of nothing": (
        il.Options(reasoning=Reasoning(summary="auto")),
        {},
        [("$.options.reasoning", "record"), ("$.options.reasoning.summary", "dropped")],
    ),
    "one of two tools": (
        il.Options(tool_choice=ToolChoice(mode="required", names=("a", "b"))),
        {"tool_choice": {"type": "any"}},
        [("$.options.toolChoice.names", "weakened")],
    ),
    "one tool, if any": (
        il.Options(tool_choice=ToolChoice(mode="auto", names=("a",))),
        {"tool_choice": {"type": "auto"}},
        [("$.options.toolChoice.names", "weakened")],
    ),
    "auto, and parallel calls": (
        il.Options(tool_choice="auto", parallel_tools=True),
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": False}},
        [("$.options.toolChoice", "weakened")],
    ),
    "one tool, once": (
        il.Options(tool_choice="add", parallel_tools=False),
        {"tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": True}},
        [],
    ),
    "JSON of any form": (
        il.Options(output_schema=OutputSchema()),
        {},
        [("$.options.outputSchema", "dropped")],
    ),
    "an effort and a schema": (
        il.Options(reasoning="low", output_schema={"type": "object"}),
        {
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        },
        [],
    ),
    "metadata of this wire": (il.Options(metadata={"user_id": "u"}), {"metadata": {"user_id": "u"}}, []),
    "metadata of others": (
        il.Options(metadata={"user_id": "u", "trace": "t"}),
        {"metadata": {"user_id": "u"}},
        [("$.options.metadata", "weakened")],
    ),
}


@pytest.mark.parametrize("name", UNSAID)
def test_options_that_the_wire_cannot_express_are_reported(name: str) -> None:
    """
    With their path, and as a record where nothing changes for the model.
    """
    options, fields, lost = UNSAID[name]
    body, losses = wire.encode_request(asked(options))
    assert body == {"messages": [], **fields}
    assert [(loss.path, loss.severity) for loss in losses] == lost


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        (
            {"thinking": {"type": "between_tools"}},
            il.Options(reasoning=Reasoning(enabled=False, extra={API: {"~off": "between_tools"}})),
        ),
        ({"output_config": {"effort": "low"}}, il.Options(reasoning=Reasoning(effort="low"))),
        ({"thinking": {"type": "new"}, "output_config": {"effort": "low"}}, il.Options(reasoning="low")),
        ({"thinking": {"type": "enabled"}}, il.Options()),
        ({"tool_choice": {"type": "tool"}}, il.Options()),
        ({"tool_choice": {"type": "none"}}, il.Options(tool_choice="none")),
        ({"tool_choice": "auto"}, il.Options()),
        (
            {"output_format": {"type": "json_schema", "schema": {"type": "object"}}},
            il.Options(output_schema=OutputSchema(schema={"type": "object"}, extra={API: {"field": "output_format"}})),
        ),
    ],
)
def test_options_that_are_spelled_otherwise_come_back(fields: dict[str, Any], options: il.Options) -> None:
    """
    What is unknown is no option, and returns to this wire as it came.
    """
    body = {"messages": [], **fields}
    request = wire.decode_request(body)
    assert request.options == options
    assert wire.encode_request(request).body == body


BLOCK_LOSSES: dict[str, tuple[Any, list[Any], list[tuple[str, str]]]] = {
    "sound": (il.AudioBlock(data="AAAA", mime_type="audio/wav"), [], [("$.messages[0].content[0]", "AudioBlock")]),
    "another wire's block": (
        il.OpaqueBlock(dialect="other", value={"type": "x"}),
        [],
        [("$.messages[0].content[0]", "OpaqueBlock")],
    ),
    "a picture of nothing": (il.ImageBlock(), [], [("$.messages[0].content[0]", "ImageBlock")]),
    "two sources": (
        il.ImageBlock(data=PNG, mime_type="image/png", url="https://example.invalid/a.png", file_id="f"),
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}],
        [("$.messages[0].content[0].url", "url"), ("$.messages[0].content[0].fileId", "file_id")],
    ),
    "redacted thinking with a text": (
        il.ThinkingBlock(thinking="Hm", thinking_signature="c2ln", redacted=True),
        [{"type": "redacted_thinking", "data": "c2ln"}],
        [("$.messages[0].content[0].thinking", "thinking")],
    ),
    "redacted thinking": (
        il.ThinkingBlock(thinking="", thinking_signature="c2ln", redacted=True),
        [{"type": "redacted_thinking", "data": "c2ln"}],
        [],
    ),
    "unsigned thinking": (il.ThinkingBlock(thinking="Hm"), [{"type": "thinking", "thinking": "Hm"}], []),
    "redacted thinking without its payload": (
        il.ThinkingBlock(thinking="", redacted=True),
        [],
        [("$.messages[0].content[0]", "ThinkingBlock")],
    ),
    "a failed server tool": (
        ServerToolResult(tool_call_id="s", tool_name="web_search", content=[], is_error=True, dialect=API),
        [{"type": "web_search_tool_result", "tool_use_id": "s", "content": [], "is_error": True}],
        [],
    ),
    "a text without a type": (
        il.DocumentBlock(text="words"),
        [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}],
        [("$.messages[0].content[0].mimeType", "mime_type")],
    ),
}


@pytest.mark.parametrize("name", BLOCK_LOSSES)
def test_blocks_that_the_wire_cannot_express_are_reported(name: str) -> None:
    """
    A block, or the part of it that is left out.
    """
    block, content, lost = BLOCK_LOSSES[name]
    message = il.AssistantMessage(content=(block,)) if "thinking" in name or "tool" in name else None
    body, losses = wire.encode_request(asked(il.Options(), message or il.UserMessage(content=(block,))))
    assert body["messages"][0]["content"] == content
    assert [(loss.path, loss.what) for loss in losses] == lost


def test_a_role_that_is_new_comes_back_and_none_is_refused() -> None:
    """
    A message of an unknown role is kept whole; one without a role is no message.
    """
    body = {"messages": [{"role": "tool_runner", "content": "x", "a": 1}]}
    request = wire.decode_request(body)
    assert request.context.messages == (il.CustomMessage("tool_runner", {"content": "x", "a": 1}),)
    assert wire.encode_request(request).body == body
    with pytest.raises(il.BadWire, match="message without a role") as refused:
        wire.decode_request({"messages": [{"content": "x"}]})
    assert "role" in (refused.value.path or "")


# --- streams that are unusual ----------------------------------------------------------------------------------------


def test_a_block_that_was_never_closed_ends_before_the_next_of_its_index() -> None:
    """
    As some proxies send it.
    """
    text = {"type": "text", "text": ""}
    message = il.fold(
        decode_stream(
            *(START, opened(text), grown(type="text_delta", text="a"), opened(text)),
            *(grown(type="text_delta", text="b"), closed(), ended(), STOP),
        )
    )
    assert message.content == (il.TextBlock(text="a"), il.TextBlock(text="b"))


def test_redacted_thinking_citations_and_unknown_deltas_are_read() -> None:
    """
    Citations gather on their text; a delta of an unknown kind adds its fields to the block.
    """
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0}
    sent = [
        *(START, opened({"type": "redacted_thinking", "data": "c2ln"}), closed()),
        *(opened({"type": "text", "text": ""}, 1), grown(1, type="text_delta", text="So.")),
        *(
            grown(1, type="citations_delta", citation=cited),
            grown(1, type="citations_delta", citation=cited),
            closed(1),
        ),
        *({**ended(output_tokens=3), "context_management": {"applied_edits": []}}, STOP),
    ]
    message = il.fold(decode_stream(*sent))
    sealed, text = message.content or ()
    assert sealed == il.ThinkingBlock(thinking="", thinking_signature="c2ln", redacted=True)
    assert isinstance(text, il.TextBlock)
    assert ["x", "x"] == [citation.cited_text for citation in text.citations or ()]
    assert wire.encode_response(message).body["context_management"] == {"applied_edits": []}


def test_a_delta_without_a_start_opens_its_block() -> None:
    """
    The kind of the delta says which.
    """
    message = il.fold(
        decode_stream(
            *(START, grown(type="thinking_delta", thinking="Hm"), closed()),
            *(grown(1, type="text_delta", text="So."), closed(1), ended(), STOP),
        )
    )
    assert message.content == (il.ThinkingBlock(thinking="Hm"), il.TextBlock(text="So."))


def test_a_result_has_the_name_of_its_call_and_its_failure() -> None:
    """
    Names are those of earlier calls.
    """
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "add", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "x"}], "is_error": True}
    body = {"messages": [call, {"role": "user", "content": [result]}]}
    request = wire.decode_request(body)
    found = request.context.messages[1]
    assert isinstance(found, il.ToolResultMessage)
    assert (found.tool_name, found.is_error, found.text) == ("add", True, "x")
    assert wire.encode_request(request).body == body


def test_an_answer_that_is_whole_although_a_stream_was_asked_for_is_read() -> None:
    """
    In one frame: the message of the wire.
    """
    answer = {**START["message"], "content": [{"type": "text", "text": "So."}], "stop_reason": "end_turn"}
    message = il.fold(decode_stream(answer))
    assert (message.text, message.stop_reason) == ("So.", "stop")


def test_an_error_without_a_kind_of_event_is_an_error() -> None:
    """
    Only its `error` marks it; as an answer it is raised.
    """
    error = {"error": {"type": "overloaded_error", "message": "Overloaded"}}
    decoder = wire.StreamDecoder()
    (frame,) = wire.framing().feed(b"data: " + json.dumps(error).encode() + b"\n\n")
    *_, last = [*decoder.feed(frame), *decoder.close()]
    assert isinstance(last, Error) and "Overloaded" in (last.error.error_message or "")
    with pytest.raises(il.Overloaded):
        wire.decode_response({"type": "error", **error})


def written(*events: Any) -> list[dict[str, Any]]:
    """The events of the wire for ours."""
    encoder = wire.StreamEncoder()
    body = b"".join(map(encoder.feed, events)) + encoder.close()
    return [json.loads(frame.data) for frame in wire.framing().feed(body)]


def test_what_no_delta_carries_is_written_before_the_end_of_a_block() -> None:
    """
    Citations one by one, the signature, and other fields of the block.
    """
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0}
    blocks = [
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        {"type": "thinking", "thinking": "", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
        {"type": "text", "text": "So.", "citations": [cited, cited]},
        {"type": "text", "text": "On.", "new": 1},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"n": 1}},
    ]
    message = wire.decode_response({**START["message"], "content": blocks, "stop_reason": "end_turn"})
    events = written(*unfold(message))
    assert [(e["index"], e.get("content_block") or e.get("delta")) for e in events if "index" in e] == [
        (0, {"type": "thinking", "thinking": "", "signature": ""}),
        (0, {"type": "thinking_delta", "thinking": "Hm"}),
        (0, {"type": "signature_delta", "signature": "c2ln"}),
        (0, None),
        (1, {"type": "thinking", "thinking": "", "signature": ""}),
        (1, {"type": "signature_delta", "signature": "c2ln"}),
        (1, None),
        (2, {"type": "redacted_thinking", "data": "c2VhbGVk"}),
        (2, None),
        (3, {"type": "text", "text": ""}),
        (3, {"type": "text_delta", "text": "So."}),
        (3, {"type": "citations_delta", "citation": cited}),
        (3, {"type": "citations_delta", "citation": cited}),
        (3, None),
        (4, {"type": "text", "text": ""}),
        (4, {"type": "text_delta", "text": "On."}),
        (4, {"type": "block_delta", "new": 1}),
        (4, None),
        (5, {"type": "tool_use", "id": "t1", "name": "add", "input": {}}),
        (5, {"type": "input_json_delta", "partial_json": '{"n":1}'}),
        (5, None),
    ]
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


def test_blocks_that_the_wire_does_not_have_leave_no_gap() -> None:
    """
    Those that come whole, and those that turn out to be of another kind.
    """
    sound = il.AudioBlock(data="AAAA", mime_type="audio/wav")
    own = il.OpaqueBlock(dialect=API, value={"type": "new", "a": 1})
    begun = [Start(il.AssistantMessage(content=())), BlockStart(0), BlockEnd(0, sound)]
    events = written(
        *(*begun, TextStart(1), TextDelta(1, "a"), BlockEnd(1, own), TextStart(2), BlockEnd(2, sound)),
        *(BlockStart(3), BlockEnd(3, own), Done("stop", il.AssistantMessage(content=(), stop_reason="stop"))),
    )
    assert [(e["type"].removeprefix("content_block_"), e["index"]) for e in events if "index" in e] == [
        *(("start", 0), ("delta", 0), ("stop", 0), ("start", 1), ("stop", 1)),
        *(("start", 2), ("stop", 2)),
        *(("start", 3), ("stop", 3)),
    ]


def test_an_error_in_aws_frames_is_an_error_event() -> None:
    """
    Named by its frame; a frame that is no JSON is refused after what came before it.
    """
    invoke = il.dialect("bedrock-invoke-anthropic")
    error = write_aws("throttlingException", b'{"message":"Slow down"}', message_type="exception")
    (frame,) = invoke.framing().feed(error)
    assert json.loads(frame.data) == {
        "type": "error",
        "error": {"type": "throttlingException", "message": "Slow down"},
    }
    framing = invoke.framing()
    good = write_aws("chunk", jsontext.write({"bytes": base64.b64encode(b"{}").decode()}))
    assert [frame.data for frame in framing.feed(good + write_aws("chunk", b"["))] == [b"{}"]
    with pytest.raises(il.BadWire, match="AWS frame without a chunk"):
        framing.feed(good)
    with pytest.raises(il.BadWire, match="AWS frame without a chunk"):
        invoke.framing().feed(write_aws("chunk", b"["))


def test_the_end_of_a_stream_without_a_count_keeps_the_estimate_of_its_beginning() -> None:
    """
    Clients take the last number that they get: zero would say that the conversation is empty.
    """
    model = il.ModelDescriptor(id="m")
    asked = il.Request(model=model, context=il.Context(messages=(il.UserMessage(content="How is the weather?"),)))
    answer = il.AssistantMessage(content=(il.TextBlock(text="cold wind"),), stop_reason="stop")
    encoder = il.dialect("anthropic-messages").StreamEncoder(request=asked)
    data = b"".join(map(encoder.feed, unfold(answer))) + encoder.close()
    events = [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]
    first = events[0]["message"]["usage"]
    last = next(event["usage"] for event in events if event["type"] == "message_delta")
    assert 0 < first["input_tokens"] == last["input_tokens"]
    assert 0 == first["output_tokens"] < last["output_tokens"]
