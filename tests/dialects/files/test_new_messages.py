"""LangChain messages and OpenTelemetry attributes that are made of any conversation."""

from typing import Any

import pytest

import interlingua as il
from interlingua.conversion import detect
from interlingua.values.messages import AssistantMessage, ToolCall, ToolResultMessage

SOURCE: dict[str, Any] = {
    "model": "gpt-5",
    "temperature": 0.5,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ],
        },
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"it"}'}},
                {"id": "c2", "type": "function", "function": {"name": "look", "arguments": '{"at":"that"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        {"role": "tool", "tool_call_id": "c2", "content": "a dog"},
        {"role": "assistant", "content": "A cat and a dog."},
    ],
}
TARGETS = ["langchain", "otel"]


def content(message: Any) -> Any:
    blocks = message.content if isinstance(message.content, tuple) else ()
    calls = [(block.id, block.name, block.arguments) for block in blocks if isinstance(block, ToolCall)]
    pictures = [block.data for block in blocks if hasattr(block, "data")]
    return message.role, il.UserMessage(content=message.content).text if message.content else "", calls, pictures


@pytest.mark.parametrize("target", TARGETS)
def test_a_conversation_is_written_and_read_again(target: str) -> None:
    """With system text, pictures, calls and their results; the result is recognised as what it is."""
    source = il.decode(SOURCE)
    body = il.encode(source, target).body
    found = detect(body)
    assert found is not None and target == found.dialect
    again = il.decode(body)
    assert source.system == again.system
    assert list(map(content, source.messages)) == list(map(content, again.messages))
    results = [message for message in again.messages if isinstance(message, ToolResultMessage)]
    assert [("c1", "look"), ("c2", "look")] == [(result.tool_call_id, result.tool_name) for result in results]


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_format_cannot_say_is_reported(target: str) -> None:
    """The options of the call have no place; strict mode refuses them."""
    losses = il.encode(il.decode(SOURCE), target).losses
    assert "$.options.temperature" in [loss.path for loss in losses if loss.severity == "dropped"]
    with pytest.raises(il.InterlinguaError, match="temperature"):
        il.encode(il.decode(SOURCE), target, strict=True)


@pytest.mark.parametrize("target", TARGETS)
def test_usage_counts_the_cached_part_once(target: str) -> None:
    """Both formats count it within the input; ours are disjoint buckets."""
    usage = il.Usage.of(7, 5, cache_read=20, reasoning=2)
    answer = AssistantMessage(content="Hi", model="m", usage=usage, stop_reason="stop")
    again = il.decode(il.encode([il.UserMessage(content="Hi"), answer], target).body)
    read = again.messages[-1]
    assert isinstance(read, AssistantMessage) and read.usage is not None
    assert (7, 20, 5, 2) == (read.usage.input, read.usage.cache_read, read.usage.output, read.usage.reasoning)
    assert "m" == read.model


def test_calls_without_valid_arguments_are_never_calls_of_langchain() -> None:
    """They are listed as invalid, with their text, so that no code runs them."""
    call = ToolCall(id="c", name="look", arguments={}, arguments_text='{"at', parse_error="cut off")
    body = il.encode([il.UserMessage(content="Hi"), AssistantMessage(content=(call,))], "langchain").body
    data = body[-1]["data"]
    assert ([], '{"at') == (data["tool_calls"], data["invalid_tool_calls"][0]["args"])


@pytest.mark.parametrize("target", TARGETS)
def test_a_file_that_was_read_comes_back_as_it_was(target: str) -> None:
    """What is made of other formats does not stand in for the file itself."""
    body = il.encode(il.decode(SOURCE), target).body
    assert body == il.encode(il.decode(body), target).body


@pytest.mark.parametrize("name", TARGETS)
def test_a_conversation_without_messages_has_its_losses(name: str) -> None:
    """Its body is of no format, and cannot be read again."""
    assert not il.encode(il.Conversation(), name).losses
    assert "$.title" in {loss.path for loss in il.encode(il.Conversation(title="Eggs"), name).losses}
