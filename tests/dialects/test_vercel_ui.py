"""AI SDK UI messages: turns with their tools, taken apart into steps and put together again."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from dialects.trips import returned
from interlingua.dialects.files import vercel_ui
from interlingua.values.errors import BadWire
from interlingua.values.messages import text_of
from strategies import mutated, with_unknown_fields

WIRE = Path(__file__).parents[1] / "wire/vercel-ui"
CHAT, OLDER = SAMPLES = [json.loads((WIRE / name).read_text()) for name in ("chat.json", "older.json")]


@pytest.mark.parametrize("sample", [CHAT, CHAT["messages"], OLDER], ids=["chat", "list", "older"])
def test_messages_come_back_as_they_were(sample: Any) -> None:
    """Nothing is lost, and the format is told from its content."""
    assert returned("vercel-ui", sample) == sample
    assert list(vercel_ui.encode(vercel_ui.decode(sample)).losses) == []
    assert il.detect(sample).dialect == "vercel-ui"


def test_a_turn_is_steps_with_their_results() -> None:
    """Each step is an answer, then what its tools gave."""
    chat = vercel_ui.decode(CHAT)
    assert chat.system == (il.TextBlock(text="You are terse."),)
    asked, first, *results, second = chat.messages
    assert [type(block).__name__ for block in asked.content] == ["TextBlock", "ImageBlock", "DocumentBlock"]
    assert (asked.content[1].data, asked.content[2].url) == ("iVBORw0KGgo=", "https://example.org/a.pdf")
    assert (first.content[0].thinking_signature, first.api) == ("c2ln", "anthropic-messages")
    assert [call.name for call in first.tool_calls] == ["weather", "weather", "look"]
    assert [(r.tool_call_id, text_of(r.content), r.is_error) for r in results] == [
        ("call_1", '{"sky":"rain"}', False),
        ("call_2", "no such city", True),
        ("call_3", "a dot", False),
    ]
    assert (results[0].details, results[2].content[1].mime_type) == ({"sky": "rain"}, "image/png")
    assert [call.id for call in second.tool_calls] == ["call_4"]  # waits for approval: no result yet


def test_older_messages_are_read_too() -> None:
    """Text in `content`, tools in `toolInvocations` or in parts."""
    asked, answer, result, last, given, data = vercel_ui.decode(OLDER).messages
    assert (asked.content, answer.text, answer.tool_calls[0].arguments) == (
        "Is it raining in Oslo?",
        "It rains.",
        {"city": "Oslo"},
    )
    assert (result.content, given.details, last.thinking, data.role) == ("rain", [1], "Hm.", "data")


CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "look"}
GIVEN = {"type": "tool-result", "toolCallId": "c1", "toolName": "look"}
SIGNED = {"anthropic": {"signature": "c2ln"}}


@pytest.mark.parametrize(
    ("call", "result", "given"),
    [
        ({"input": {"at": 1}}, {"output": {"type": "text", "value": "a dot"}}, ("a dot", False)),
        ({"input": {"at": 1}}, {"output": {"type": "json", "value": {"x": 1}}}, ('{"x":1}', False)),
        ({"input": {"at": 1}}, {"output": {"type": "error-text", "value": "dark"}}, ("dark", True)),
        ({"args": {"at": 1}}, {"result": {"x": 1}}, ('{"x":1}', False)),
        ({"args": {"at": 1}}, {"result": "dark", "isError": True}, ("dark", True)),
    ],
)
@pytest.mark.parametrize("in_chat", [False, True])
def test_model_messages_are_read_with_their_calls(call: Any, result: Any, given: Any, in_chat: bool) -> None:
    """They look like those of a chat wire, which has no such parts, and return as they were."""
    thought = {"type": "reasoning", "text": "Hm.", "providerOptions": SIGNED}
    messages = [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image", "image": "iVBORw0KGgo="}]},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "I look."}, {**CALL, **call}]},
        {"role": "tool", "content": [{**GIVEN, **result}]},
        {"role": "assistant", "content": "A dot."},
    ]
    file = {"id": 7, "messages": messages} if in_chat else messages
    assert il.detect(file).dialect == "vercel-ui"
    (chat,) = il.read(json.dumps(file).encode())
    asked, answer, answered, last = chat.messages
    assert (chat.system, asked.content[1].data, last.text) == ("You are terse.", "iVBORw0KGgo=", "A dot.")
    assert (answer.content[0].thinking_signature, answer.tool_calls[0].arguments) == ("c2ln", {"at": 1})
    assert (answered.tool_call_id, answered.content, answered.is_error) == ("c1", *given)
    encoded = vercel_ui.encode(chat)
    assert (encoded.body, list(encoded.losses)) == (file, [])
    longer = replace(chat, entries=(*chat.entries, il.Entry(message=il.UserMessage(content="More"))))
    assert vercel_ui.encode(longer).body[-1]["parts"] == [{"type": "text", "text": "More"}]


def test_model_messages_may_be_json_lines() -> None:
    """Each line is a message, as programs log them; they return as lines."""
    call, result = {**CALL, "input": {"at": 1}}, {**GIVEN, "output": {"type": "text", "value": "a dot"}}
    messages = [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "Hm."}, call]},
        {"role": "tool", "content": [result]},
    ]
    file = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    detection = il.detect(file)
    assert detection is not None and detection.dialect == "vercel-ui"
    (chat,) = il.read(file)
    asked, answer, answered = chat.messages
    assert (asked.text, answer.thinking, answer.tool_calls[0].name) == ("Look", "Hm.", "look")
    assert (answered.tool_call_id, answered.text) == ("c1", "a dot")
    assert vercel_ui.encode(chat).body == messages


def test_text_that_was_changed_is_encoded_wherever_it_stands() -> None:
    """Messages on the way from `content` to `parts` say their text twice."""
    changed = il.load(il.dump(vercel_ui.decode(OLDER)).replace(b'"Yes."', b'"No."'), il.Conversation)
    third = vercel_ui.encode(changed).body[2]
    assert (third["content"], third["parts"][3]["text"]) == ("No.", "No.")


def test_a_result_that_was_changed_is_encoded_in_its_part() -> None:
    """An edited value replaces the one that the tool gave."""
    chat = il.dump(vercel_ui.decode(CHAT)).replace(b"no such city", b"try Oslo")
    part = vercel_ui.encode(il.load(chat, il.Conversation)).body["messages"][2]["parts"][4]
    assert (part["state"], part["errorText"]) == ("output-error", "try Oslo")


def test_a_tool_loop_of_another_wire_is_one_message() -> None:
    """Answers and results in a row are the steps of one turn."""
    loop = (
        il.UserMessage(content="Weather?"),
        il.AssistantMessage(content=(il.ToolCall(id="c1", name="w", arguments={"a": 1}),)),
        il.ToolResultMessage(tool_call_id="c1", tool_name="w", content="rain", is_error=False),
        il.AssistantMessage(content=(il.TextBlock(text="Rain."),)),
    )
    source = il.Conversation(entries=tuple(il.Entry(message=message) for message in loop))
    encoded, losses = vercel_ui.encode(source)
    assert encoded == [
        {"id": "msg-0", "role": "user", "parts": [{"type": "text", "text": "Weather?"}]},
        {
            "id": "msg-1",
            "role": "assistant",
            "parts": [
                {
                    "type": "tool-w",
                    "toolCallId": "c1",
                    "state": "output-available",
                    "input": {"a": 1},
                    "output": "rain",
                },
                {"type": "step-start"},
                {"type": "text", "text": "Rain."},
            ],
        },
    ]
    assert [(loss.path, loss.severity) for loss in losses] == [("$.messages[0].content", "record")]
    assert vercel_ui.decode(encoded).messages[1:] == loop[1:]


@given(st.data())
def test_whatever_is_encoded_comes_back_with_unknown_fields(data: st.DataObject) -> None:
    """Fields that we have never heard of return to their places, at any depth."""
    more = data.draw(with_unknown_fields(data.draw(st.sampled_from(SAMPLES))))
    assert returned("vercel-ui", more) == more


@given(st.sampled_from(SAMPLES).flatmap(mutated))
def test_anything_is_read_or_refused(value: Any) -> None:
    """Whatever comes in, decoding gives a conversation that says it again, or BadWire that names the place."""
    try:
        assert returned("vercel-ui", value) == value
    except BadWire as error:
        assert error.path.startswith("$")
