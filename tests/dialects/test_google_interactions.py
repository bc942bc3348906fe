"""Google's Interactions wire: steps as messages and back, whole and streamed."""

from typing import Any

import pytest

import interlingua as il
from interlingua.conversion import detect
from interlingua.dialects import dialect
from interlingua.dialects.framing import Frame
from interlingua.values import jsontext
from interlingua.values.folding import fold
from interlingua.values.messages import (
    AssistantMessage,
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    ServerToolCall,
    ServerToolResult,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

wire = dialect("google-interactions")

USAGE = {
    "total_tokens": 1373,
    "total_input_tokens": 22,
    "input_tokens_by_modality": [{"modality": "text", "tokens": 22}],
    "total_cached_tokens": 2,
    "total_output_tokens": 973,
    "total_tool_use_tokens": 129,
    "total_thought_tokens": 249,
}
ANSWER: dict[str, Any] = {
    "id": "v1_abc",
    "status": "requires_action",
    "usage": USAGE,
    "created": "2026-05-15T18:52:36Z",
    "updated": "2026-05-15T18:52:37Z",
    "service_tier": "standard",
    "steps": [
        {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "I look it up."}]},
        {
            "type": "model_output",
            "content": [
                {
                    "type": "text",
                    "text": "Flut in Köln?",
                    "annotations": [
                        {"type": "url_citation", "start_index": 8, "end_index": 13, "url": "https://a", "title": "A"}
                    ],
                },
                {"type": "image", "data": "iVBORw0KGgo=", "mime_type": "image/png"},
            ],
        },
        {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["tide"]}, "signature": ""},
        {"type": "google_search_result", "call_id": "s1", "result": [{"search_suggestions": "<div>"}], "signature": ""},
        {"type": "function_call", "id": "c1", "name": "tide", "arguments": {"port": "Oslo"}, "signature": "c2ln"},
    ],
    "object": "interaction",
    "model": "gemini-2.5-flash",
}
REQUEST: dict[str, Any] = {
    "model": "gemini-2.5-flash",
    "system_instruction": "Be brief.",
    "input": [
        {"type": "user_input", "content": [{"type": "text", "text": "Tide?"}]},
        *ANSWER["steps"],
        {"type": "function_result", "call_id": "c1", "name": "tide", "result": "high", "is_error": False},
        {"type": "user_input", "content": [{"type": "audio", "uri": "https://a/b.wav", "mime_type": "audio/wav"}]},
    ],
    "tools": [
        {"type": "function", "name": "tide", "description": "Tells it.", "parameters": {"type": "object"}},
        {"type": "google_search"},
    ],
    "generation_config": {
        "temperature": 0.5,
        "max_output_tokens": 50,
        "top_k": 3,
        "thinking_level": "low",
        "thinking_summaries": "auto",
        "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["tide"]}},
        "speech_config": [{"voice": "kore"}],
    },
    "response_format": [
        {"type": "text", "mime_type": "application/json", "schema": {"type": "object"}},
        {"type": "image", "aspect_ratio": "1:1"},
    ],
    "service_tier": "flex",
    "store": False,
    "stream": True,
}


def streamed(*events: dict[str, Any], **given: Any) -> AssistantMessage:
    decoder = wire.StreamDecoder(**given)
    frames = [Frame(jsontext.write(event)) for event in events]
    return fold([event for frame in frames for event in decoder.feed(frame)] + decoder.close())


def delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.delta", "index": index, "delta": fields}


def start(index: int, **step: Any) -> dict[str, Any]:
    return {"event_type": "step.start", "index": index, "step": step}


def stop(index: int) -> dict[str, Any]:
    return {"event_type": "step.stop", "index": index}


CREATED = {
    "event_type": "interaction.created",
    "interaction": {"id": "v1_abc", "status": "in_progress", "object": "interaction", "model": "gemini-2.5-flash"},
}


def completed(**fields: Any) -> dict[str, Any]:
    shell = {key: value for key, value in ANSWER.items() if key != "steps"}
    return {"event_type": "interaction.completed", "interaction": {**shell, **fields}}


def test_the_steps_of_an_answer_are_its_blocks() -> None:
    """Thoughts, contents, searches and calls in order; offsets of sources are characters; all of it goes back."""
    message = wire.decode_response(ANSWER)
    thought, text, picture, search, found, call = message.content or ()
    assert isinstance(thought, ThinkingBlock) and ("I look it up.", "c2ln") == (
        thought.thinking,
        thought.thinking_signature,
    )
    assert isinstance(text, TextBlock) and "Köln" == text.text[text.citations[0].start : text.citations[0].end]
    assert isinstance(picture, ImageBlock) and "image/png" == picture.mime_type
    assert isinstance(search, ServerToolCall) and ("google_search", {"queries": ["tide"]}) == (
        search.name,
        search.arguments,
    )
    assert isinstance(found, ServerToolResult) and ("s1", "google_search") == (found.tool_call_id, found.tool_name)
    assert isinstance(call, ToolCall) and ("c1", {"port": "Oslo"}, "c2ln") == (
        call.id,
        call.arguments,
        call.thought_signature,
    )
    assert ("toolUse", "v1_abc", 1778871156000) == (message.stop_reason, message.response_id, message.timestamp)
    assert ANSWER == wire.encode_response(message).body


def test_usage_is_counted_in_buckets_that_do_not_overlap() -> None:
    """What tools read is input, thoughts are output; the parts amount to the total that the wire states."""
    usage = wire.decode_response(ANSWER).usage
    assert usage is not None
    assert (149, 2, 1222, 249, 1373) == (
        usage.input,
        usage.cache_read,
        usage.output,
        usage.reasoning,
        usage.total_tokens,
    )


def test_a_request_is_read_and_comes_back() -> None:
    """All steps of the model between two of the client are one answer; unknown options stay in their place."""
    request = wire.decode_request(REQUEST)
    roles = [type(message) for message in request.context.messages]
    assert [UserMessage, AssistantMessage, ToolResultMessage, UserMessage] == roles
    result, last = request.context.messages[2:]
    assert isinstance(result, ToolResultMessage) and ("c1", "tide", "high") == (
        result.tool_call_id,
        result.tool_name,
        result.text,
    )
    assert isinstance(last.content, tuple) and isinstance(last.content[0], AudioBlock)
    options = request.options
    assert (50, 3, "low", "auto") == (
        options.max_tokens,
        options.top_k,
        options.reasoning and options.reasoning.effort,
        options.reasoning and options.reasoning.summary,
    )
    assert options.tool_choice is not None and ("required", ("tide",)) == (
        options.tool_choice.mode,
        options.tool_choice.names,
    )
    assert options.output_schema is not None and {"type": "object"} == options.output_schema.schema
    assert REQUEST == wire.encode_request(il.load(il.dump(request), il.Request)).body


@pytest.mark.parametrize(
    "given",
    [
        "Hi",
        {"type": "text", "text": "Hi"},
        [{"type": "text", "text": "Hi"}, {"type": "image", "uri": "gs://a/b", "resolution": "low"}],
        [{"type": "user_input", "content": "Hi"}],
        [{"role": "user", "content": "Hi"}, {"role": "model", "content": [{"type": "text", "text": "Yes?"}]}],
        [
            {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
            {"type": "function_call", "name": "a", "arguments": {}},
            {
                "type": "user_input",
                "content": [
                    {"type": "function_result", "result": {"answer": [1]}},
                    {"type": "text", "text": "And now?"},
                ],
            },
        ],
    ],
    ids=["text", "content", "contents", "text in a step", "turns with roles", "results among contents"],
)
def test_an_input_comes_back_in_the_form_it_had(given: Any) -> None:
    """A text, contents, steps, and turns of the first revision; longer conversations are steps."""
    body = {"model": "gemini-2.5-flash", "input": given}
    request = wire.decode_request(body)
    assert "Hi" == request.context.messages[0].text
    assert body == wire.encode_request(request).body
    longer = il.Context(messages=(*request.context.messages, UserMessage(content="More?")))
    steps = wire.encode_request(il.Request(model=request.model, context=longer, extra=request.extra)).body["input"]
    assert {"type": "user_input", "content": [{"type": "text", "text": "More?"}]} == steps[-1]


def test_a_result_without_an_id_answers_the_call_that_waits() -> None:
    """The wire requires ids; clients that leave them out are understood, and nothing is invented on the way back."""
    steps = [
        {"type": "function_call", "name": "a", "arguments": {}},
        {"type": "function_result", "result": {"x": 1}},
    ]
    answer, result = wire.decode_request({"input": steps}).context.messages
    assert isinstance(answer, AssistantMessage) and isinstance(result, ToolResultMessage)
    assert (answer.tool_calls[0].id, "a", '{"x":1}') == (result.tool_call_id, result.tool_name, result.text)


def test_an_agent_is_asked_in_place_of_a_model() -> None:
    """Until another model is chosen."""
    body = {"agent": "deep-research", "input": "Tides?", "background": True}
    request = wire.decode_request(body)
    assert "deep-research" == request.model.id
    assert body == wire.encode_request(request).body
    other = il.Request(model=il.ModelDescriptor(id="gemini-3-pro"), context=request.context, extra=request.extra)
    encoded = wire.encode_request(other).body
    assert ("gemini-3-pro", None) == (encoded.get("model"), encoded.get("agent"))


def test_a_stream_amounts_to_the_whole_answer() -> None:
    """Texts, summaries and arguments come in pieces; signatures, sources, pictures and searches at once."""
    text, picture = ANSWER["steps"][1]["content"]
    search, found = ANSWER["steps"][2:4]
    message = streamed(
        CREATED,
        {"event_type": "interaction.status_update", "interaction_id": "v1_abc", "status": "in_progress"},
        start(0, type="thought"),
        delta(0, type="thought_summary", content={"type": "text", "text": "I look"}),
        delta(0, type="thought_summary", content={"type": "text", "text": " it up."}),
        delta(0, type="thought_signature", signature="c2ln"),
        stop(0),
        start(1, type="model_output"),
        delta(1, type="text", text="Flut in "),
        delta(1, type="text", text="Köln?"),
        delta(1, type="text_annotation_delta", annotations=text["annotations"]),
        delta(1, **picture),
        stop(1),
        start(2, type="google_search_call", id="s1", signature=""),
        delta(2, type="google_search_call", arguments=search["arguments"]),
        stop(2),
        start(3, type="google_search_result", call_id="s1", signature=""),
        delta(3, type="google_search_result", result=found["result"]),
        stop(3),
        start(4, type="function_call", id="c1", name="tide", arguments={}, signature="c2ln"),
        delta(4, type="arguments_delta", arguments='{"port":'),
        delta(4, type="arguments_delta", arguments='"Oslo"}'),
        stop(4),
        completed(),
    )
    assert wire.decode_response(ANSWER) == message


def test_sounds_come_in_pieces_of_whole_bytes() -> None:
    """Their base64 is joined as bytes, not as text."""
    message = streamed(
        CREATED,
        start(0, type="model_output"),
        delta(0, type="audio", data="AQ==", mime_type="audio/l16", sample_rate=24000),
        delta(0, type="audio", data="AgM=", mime_type="audio/l16", sample_rate=24000),
        stop(0),
        completed(status="completed"),
    )
    (sound,) = message.content or ()
    assert isinstance(sound, AudioBlock) and "AQID" == sound.data


def test_a_stream_of_the_first_revision_is_read() -> None:
    """Its events have other names, a content is no step, and a call comes at once."""
    message = streamed(
        {"event_type": "interaction.start", "interaction": {"id": "v1_a", "status": "in_progress"}},
        {"event_type": "content.start", "index": 0, "content": {"type": "text"}},
        {"event_type": "content.delta", "index": 0, "delta": {"type": "text", "text": "Hi"}},
        {"event_type": "content.stop", "index": 0},
        {"event_type": "content.start", "index": 1, "content": {"type": "function_call"}},
        {
            "event_type": "content.delta",
            "index": 1,
            "delta": {"type": "function_call", "id": "c1", "name": "tide", "arguments": {"port": "Oslo"}},
        },
        {"event_type": "content.stop", "index": 1},
        {"event_type": "interaction.complete", "interaction": {"id": "v1_a", "status": "requires_action"}},
    )
    assert ("Hi", "toolUse") == (message.text, message.stop_reason)
    assert [("c1", "tide", {"port": "Oslo"})] == [(call.id, call.name, call.arguments) for call in message.tool_calls]


def test_an_answer_of_the_first_revision_comes_back() -> None:
    """It has `outputs`, contents and steps in one list; sent on, its blocks are steps."""
    old = {key: value for key, value in ANSWER.items() if key != "steps"}
    old["outputs"] = [ANSWER["steps"][0], {"type": "text", "text": "Hi"}, ANSWER["steps"][4]]
    message = wire.decode_response(old)
    assert ("Hi", "toolUse") == (message.text, message.stop_reason)
    assert old == wire.encode_response(message).body
    context = il.Context(messages=(UserMessage(content="a"), message))
    steps = wire.encode_request(il.Request(model=il.ModelDescriptor(id="m"), context=context)).body["input"]
    assert ["user_input", "thought", "model_output", "function_call"] == [step["type"] for step in steps]


@pytest.mark.parametrize(
    ("status", "reason"),
    [("completed", "stop"), ("incomplete", "length"), ("failed", "error"), ("cancelled", "aborted")],
)
def test_the_status_tells_how_an_answer_ended(status: str, reason: str) -> None:
    """Whole or streamed; of a failure the wire's own words are kept."""
    errors = {"errors": [{"code": "internal", "message": "on fire"}]} if status == "failed" else {}
    body = {**ANSWER, "status": status, "steps": [], **errors}
    message = wire.decode_response(body)
    assert reason == message.stop_reason
    assert body == wire.encode_response(message).body
    assert message == streamed(CREATED, completed(status=status, **errors))
    assert ("on fire" in (message.error_message or "")) == (status == "failed")


def test_a_stream_that_only_says_its_status_is_complete() -> None:
    """`interaction.completed` may be missing; a stream without either is cut off."""
    text = [CREATED, start(0, type="model_output"), delta(0, type="text", text="Hi"), stop(0)]
    update = {"event_type": "interaction.status_update", "interaction_id": "v1_abc", "status": "completed"}
    assert ("Hi", "stop") == (streamed(*text, update).text, streamed(*text, update).stop_reason)
    assert "error" == streamed(*text).stop_reason


def test_requests_answers_and_streams_are_recognised() -> None:
    """By steps, options and models; OpenAI's `input` stays OpenAI's."""
    stream = b"event: step.stop\ndata: " + jsontext.write(stop(0)) + b"\n\n"
    for data in (ANSWER, REQUEST, stream, REQUEST["input"], {"model": "gemini-3-pro", "input": "Hi"}):
        found = detect(data)
        assert found is not None and "google-interactions" == found.dialect, data
    other = detect({"model": "gpt-5", "input": [{"role": "user", "content": "Hi"}]})
    assert other is not None and "openai-responses" == other.dialect


def test_a_conversation_from_elsewhere_becomes_steps() -> None:
    """Results name their calls, errors stay errors, documents and videos have types of their own."""
    context = il.Context(
        system="Be brief.",
        messages=(
            UserMessage(
                content=(
                    DocumentBlock(data="JVBERi0xLjQK", mime_type="application/pdf"),
                    DocumentBlock(url="https://a/b.mp4", mime_type="video/mp4"),
                    TextBlock(text="Compare."),
                )
            ),
            AssistantMessage(content=(ToolCall(id="t1", name="tide", arguments={"a": 1}),), api="anthropic-messages"),
            ToolResultMessage(tool_call_id="t1", tool_name="tide", content="no", is_error=True),
        ),
    )
    body = wire.encode_request(il.Request(model=il.ModelDescriptor(id="gemini-3-pro"), context=context)).body
    assert ["document", "video", "text"] == [item["type"] for item in body["input"][0]["content"]]
    assert [
        {"type": "function_call", "id": "t1", "name": "tide", "arguments": {"a": 1}},
        {"type": "function_result", "call_id": "t1", "name": "tide", "result": "no", "is_error": True},
    ] == body["input"][1:]


def test_an_error_has_a_word_for_its_kind() -> None:
    """In an answer by its status, in a stream by the word alone."""
    body = {"error": {"message": "Invalid input at 'input[0]'.", "code": "invalid_request"}}
    assert isinstance(wire.decode_error(400, body), il.BadRequest)
    assert isinstance(wire.decode_error(0, body), il.BadRequest)
    number = {"error": {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED"}}
    assert isinstance(wire.decode_error(429, number), il.RateLimited)
