"""OpenAI's training data: examples and preferences."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from dialects.trips import returned
from interlingua.dialects.files import openai_finetune
from interlingua.values.errors import BadWire
from interlingua.values.messages import text_of
from strategies import mutated, with_unknown_fields

LINES = (Path(__file__).parents[1] / "wire/openai-finetune/examples.jsonl").read_text().splitlines()
WEIGHED, TOOLS, PREFERENCE, PICTURE = EXAMPLES = [json.loads(line) for line in LINES]


@pytest.mark.parametrize("line", LINES)
def test_an_example_comes_back_as_it_was(line: str) -> None:
    """Nothing is lost, and a line is told from its content where only training data looks so."""
    assert returned("openai-finetune", line) == json.loads(line)
    assert list(openai_finetune.encode(openai_finetune.decode(line)).losses) == []
    assert il.detect(line).dialect == "openai-finetune"


def test_bookkeeping_of_a_session_is_not_a_branch() -> None:
    """Strict mode does not refuse the session."""
    lines = [
        {"role": "session", "version": 1},
        {"role": "user", "content": "Hi", "id": "a", "parentId": None},
        {"role": "label", "target": "a", "label": "here"},
        {"role": "assistant", "content": "Yes", "id": "b", "parentId": "a"},
    ]
    conversation = il.decode("\n".join(map(json.dumps, lines)), "transcript")
    losses = il.encode(conversation, "openai-finetune", strict=True).losses
    assert [("$.entries[1]", "label")] == [(loss.path, loss.what) for loss in losses if "bookkeeping" in loss.why]


def test_a_weight_belongs_to_the_training_data() -> None:
    """No request to the model carries it, and that is reported."""
    example = openai_finetune.decode(WEIGHED)
    assert [m.extra["openai-finetune"]["weight"] for m in example.messages if hasattr(m, "stop_reason")] == [0, 1]
    body, losses = il.encode(example, "openai-completions")
    assert "weight" not in json.dumps(body)
    assert "$.messages[1].extra.openai-finetune.weight" in {loss.path for loss in losses}


def test_tools_and_options_are_read() -> None:
    """As the chat wire has them."""
    example = openai_finetune.decode(TOOLS)
    assert ([tool.name for tool in example.tools], example.options.parallel_tools) == (["weather"], False)
    assert example.messages[2].tool_name == "weather"


def test_a_preference_is_two_branches() -> None:
    """The conversation stands at the end of the preferred one."""
    preference = openai_finetune.decode(PREFERENCE)
    assert [text_of(message.content) for message in preference.messages] == ["Say hello.", "Hello!"]
    other = preference.entries[2]
    assert (other.id, other.parent_id, other.message.text) == ("non_preferred_output-0", "input-0", "No.")


def test_the_call_is_no_part_of_an_example() -> None:
    """Model and options are reported; the messages are said."""
    asked = il.Conversation(
        entries=(il.Entry(message=il.UserMessage(content="Hi")),),
        model=il.ModelDescriptor(id="gpt-4o"),
        options=il.Options(temperature=0.5, parallel_tools=True),
    )
    body, losses = openai_finetune.encode(asked)
    assert body == {"messages": [{"role": "user", "content": "Hi"}], "parallel_tool_calls": True}
    assert {loss.path for loss in losses} == {"$.model.id", "$.options.temperature"}


@given(st.data())
def test_whatever_is_encoded_comes_back_with_unknown_fields(data: st.DataObject) -> None:
    """Fields that we have never heard of return to their places, at any depth."""
    more = data.draw(with_unknown_fields(data.draw(st.sampled_from(EXAMPLES))))
    assert returned("openai-finetune", more) == more


@given(st.sampled_from(EXAMPLES).flatmap(mutated))
def test_anything_is_read_or_refused(value: Any) -> None:
    """Whatever comes in, decoding gives a conversation that says it again, or BadWire that names the place."""
    try:
        assert returned("openai-finetune", value) == value
    except BadWire as error:
        assert error.path.startswith("$")


def test_records_of_another_program_are_no_part_of_an_example() -> None:
    """A trainer knows no such role: they are left out and reported; an unknown role of an example returns."""
    entries = (
        il.Entry(message=il.UserMessage(content="Hi")),
        il.Entry(message=il.CustomMessage("turn_context", {"cwd": "/"})),  # type: ignore[arg-type]
        il.Entry(message=il.AssistantMessage(content=(il.TextBlock("Hello"), il.ThinkingBlock("Hm")))),
    )
    body, losses = openai_finetune.encode(il.Conversation(entries=entries))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]
    found = [(loss.path, loss.severity) for loss in losses]
    assert found == [("$.messages[1]", "dropped"), ("$.messages[2].content", "weakened")]
    strange = {"messages": [{"role": "critic", "mood": "good"}, {"role": "user", "content": "Hi"}]}
    assert returned("openai-finetune", strange) == strange
