"""ShareGPT's turns."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from dialects.trips import returned
from interlingua.dialects.files import sharegpt
from interlingua.values.errors import BadWire
from strategies import mutated, with_unknown_fields

LINES = (Path(__file__).parents[1] / "wire/sharegpt/examples.jsonl").read_text().splitlines()
PLAIN, TOOLS, PARALLEL = EXAMPLES = [json.loads(line) for line in LINES]


@pytest.mark.parametrize("line", LINES)
def test_an_example_comes_back_as_it_was(line: str) -> None:
    """Nothing is lost, and the shape is told from its content."""
    assert returned("sharegpt", line) == json.loads(line)
    assert list(sharegpt.encode(sharegpt.decode(line)).losses) == []
    assert il.detect(line).dialect == "sharegpt"


def test_a_first_system_turn_is_the_system_text() -> None:
    """And a top-level one is, too."""
    assert sharegpt.decode(PLAIN).system == "You are terse."
    assert sharegpt.decode(TOOLS).system == "You may use tools."


def test_calls_and_results_are_paired_in_their_order() -> None:
    """Ids are made up, and never said; a call right after words is one message with them."""
    _, called, result, _ = sharegpt.decode(TOOLS).messages
    assert (called.text, called.tool_calls[0].arguments) == ("Let me look.", {"city": "Oslo"})
    assert (result.tool_call_id, result.tool_name) == (called.tool_calls[0].id, "weather")
    both = sharegpt.decode(PARALLEL).messages
    assert [(message.tool_call_id, message.tool_name) for message in both[2:4]] == [("call_0", "a"), ("call_1", "b")]


def test_tools_are_read_from_text_and_from_a_list() -> None:
    """In either wrapper."""
    assert [tool.name for tool in sharegpt.decode(TOOLS).tools] == ["weather"]
    assert [tool.name for tool in sharegpt.decode(PARALLEL).tools] == ["a"]


ASKED, ANSWERED = {"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}


@pytest.mark.parametrize(
    "row",
    [
        {"conversations": [{"from": "Human", "value": "Hi"}, {"from": "Assistant", "value": "Hello"}]},
        {"conversations": [{"from": "user", "value": "Hi"}, {"from": "bot", "value": "Hello"}], "id": 1},
        {"conversations": [{"role": "user", "value": "Hi"}, {"role": "assistant", "value": "Hello"}]},
        {"conversations": [{"from": "user", "content": "Hi"}, {"from": "assistant", "content": "Hello"}]},
        {"messages": [ASKED, ANSWERED], "source": "x"},
        {"conversation": [ASKED, ANSWERED]},
        {"dialogue": [{"role": "human", "value": "Hi", "weight": 0}, {"role": "gpt", "value": "Hello"}]},
    ],
)
def test_rows_with_other_names_are_read_and_come_back(row: Any) -> None:
    """Axolotl and ms-swift name their columns, fields and speakers in several ways."""
    (conversation,) = il.read(json.dumps(row).encode())
    assert [message.role for message in conversation.messages] == ["user", "assistant"]
    assert [message.text for message in conversation.messages] == ["Hi", "Hello"]
    encoded = sharegpt.encode(conversation)
    assert (encoded.body, list(encoded.losses)) == (row, [])
    assert len(list(il.read(json.dumps([row, row]).encode()))) == 2


@pytest.mark.parametrize(
    "call",
    [
        '{"name": "f", "arguments": "{\\"a\\": 1}"}',
        '{"id": "c1", "name": "f", "arguments": {"a": 1}}',
        '{"name": "f", "parameters": {"a": 1}}',
        '[{"name": "f", "arguments": {"a": 1}}]',
        '[{"type": "function", "function": {"name": "f", "arguments": "{\\"a\\": 1}"}}]',
    ],
)
@pytest.mark.parametrize("kind", ["observation", "observations", "tool_response"])
def test_a_call_is_read_in_each_of_its_spellings(call: str, kind: str) -> None:
    """The result that follows is its own; the text comes back as it was."""
    row = {"conversations": [ASKED, {"from": "function_call", "value": call}, {"from": kind, "value": "9"}, ANSWERED]}
    _, called, result, _ = sharegpt.decode(row).messages
    assert (called.tool_calls[0].name, called.tool_calls[0].arguments) == ("f", {"a": 1})
    assert (result.tool_call_id, result.tool_name) == (called.tool_calls[0].id, "f")
    assert sharegpt.encode(sharegpt.decode(row)).body == row


def test_calls_beside_an_empty_text_are_one_turn() -> None:
    """Chat rows have `"content": ""` beside calls; a turn of it would be a second one of the model in a row."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [call]}]}
    turns = il.convert(body, "sharegpt", "openai-finetune").body["conversations"]
    assert [turn["from"] for turn in turns] == ["human", "function_call"]
    own = {"conversations": [ASKED, {"from": "gpt", "value": ""}, turns[1]]}
    assert sharegpt.encode(sharegpt.decode(own)).body == own


def test_the_rows_of_ms_swift_have_calls_as_messages() -> None:
    """`tool_call` and `tool_response` are roles beside `user` and `assistant`."""
    call = {"role": "tool_call", "content": '{"name": "f", "arguments": {"a": 1}}'}
    turns = [{"role": "user", "content": "Hi"}, call, {"role": "tool_response", "content": "9"}]
    row = {"tools": "[]", "messages": [*turns, {"role": "assistant", "content": "Hello"}]}
    (conversation,) = il.read(json.dumps(row).encode())
    assert [message.role for message in conversation.messages] == ["user", "assistant", "toolResult", "assistant"]
    assert sharegpt.encode(conversation).body == row


def test_arguments_that_were_changed_are_encoded_as_they_are_now() -> None:
    """The spelling of the call's text is a hint, not a copy."""
    example = sharegpt.decode(TOOLS)
    called = example.messages[1]
    call = replace(called.tool_calls[0], arguments={"city": "Rome"})
    entries = list(example.entries)
    entries[1] = il.Entry(message=replace(called, content=(called.content[0], call)))
    turns = sharegpt.encode(replace(example, entries=tuple(entries))).body["conversations"]
    assert turns[2] == {"from": "function_call", "value": '{"name":"weather","arguments":{"city":"Rome"}}'}


def test_a_tool_loop_of_another_wire_is_encoded() -> None:
    """Words, a call, its result; ids are mere bookkeeping."""
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "w", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "rain"}]},
        ],
    }
    encoded, losses = il.convert(body, "sharegpt", "anthropic-messages")
    assert encoded == {
        "conversations": [
            {"from": "human", "value": "Weather?"},
            {"from": "function_call", "value": '{"name":"w","arguments":{"a":1}}'},
            {"from": "observation", "value": "rain"},
        ]
    }
    reported = {loss.path: loss.severity for loss in losses}
    assert reported["$.messages[1].content[0].id"] == reported["$.messages[2].toolCallId"] == "record"
    assert reported["$.options.maxTokens"] == "dropped"


def test_a_set_is_taken_apart() -> None:
    """One of its conversations must be taken."""
    assert sharegpt.split(EXAMPLES) == EXAMPLES
    with pytest.raises(BadWire, match="take one"):
        sharegpt.decode(EXAMPLES)


@given(st.data())
def test_whatever_is_encoded_comes_back_with_unknown_fields(data: st.DataObject) -> None:
    """Fields that we have never heard of return to their places, at any depth."""
    more = data.draw(with_unknown_fields(data.draw(st.sampled_from(EXAMPLES))))
    assert returned("sharegpt", more) == more


@given(st.sampled_from(EXAMPLES).flatmap(mutated))
def test_anything_is_read_or_refused(value: Any) -> None:
    """Whatever comes in, decoding gives a conversation that says it again, or BadWire that names the place."""
    try:
        assert returned("sharegpt", value) == value
    except BadWire as error:
        assert error.path.startswith("$")
