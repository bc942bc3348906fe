"""The short ways to say common things: content first, verbs that take messages, tools by name, runs without a loop."""

import logging
from pathlib import Path
from typing import Any

import pytest

import interlingua as il

MESSAGES = [il.UserMessage("hi"), il.AssistantMessage("hello"), il.UserMessage("bye")]


def test_content_comes_first() -> None:
    """For each message, as text or as blocks."""
    assert il.UserMessage(content="hi") == il.UserMessage("hi")
    block = il.TextBlock(text="hi")
    assert il.UserMessage(content=(block,)) == il.UserMessage([block])
    assert il.SystemMessage(content="be brief") == il.SystemMessage("be brief")
    assert il.AssistantMessage(content="x") == il.AssistantMessage("x")


def test_a_result_is_no_error_unless_it_says_so() -> None:
    """In Python; JSON always writes it."""
    result = il.ToolResultMessage("4", tool_call_id="c1")
    assert result.is_error is False
    assert b'"isError":false' in il.dump(result)


@pytest.mark.parametrize("given", [("a", "b"), (5,), ([5],)])
def test_what_is_no_content_is_refused(given: tuple[Any, ...]) -> None:
    """With what to write instead."""
    with pytest.raises(il.FormatError):
        il.UserMessage(*given)


def test_verbs_take_messages_contexts_requests_and_conversations() -> None:
    """All are one conversation."""
    context = il.Context(messages=MESSAGES)
    request = il.Request(model=il.ModelDescriptor(id=""), context=context)
    every: list[Any] = [MESSAGES, tuple(MESSAGES), context, request, il.Conversation.of(request)]
    for dialect in ("anthropic-messages", "openai-completions"):
        bodies = [il.encode(given, dialect).body for given in every]
        assert all(_without_model(bodies[0]) == _without_model(body) for body in bodies)
    adapted = [il.adapt(given, "anthropic-messages").request.context for given in every]
    assert all(one == adapted[0] for one in adapted)
    assert [()] * 5 == [il.check(given) for given in every]
    assert il.check([il.ToolResultMessage("lost", tool_call_id="c9")])


def _without_model(body: Any) -> Any:
    return {key: value for key, value in body.items() if key != "model"} if isinstance(body, dict) else body


def test_an_empty_list_is_no_conversation() -> None:
    """It is more likely a mistake."""
    with pytest.raises(il.FormatError, match="no messages"):
        il.adapt([], "anthropic-messages")


def test_tools_are_given_by_name(tmp_path: Path) -> None:
    """Core tools and groups of them, beside tools of one's own."""

    def double(n: int) -> int:
        """Doubles a number."""
        return 2 * n

    agent = il.Agent("debug/parrot-1", tools=["read", "group:fs", double], context={"root": str(tmp_path)})
    names = [one.name for one in agent.tools]
    assert {"read", "write", "double"} <= set(names)
    assert len(names) == len(set(names))
    with pytest.raises(il.FormatError, match=r"tools.*|read") as caught:
        il.Agent("debug/parrot-1", tools=["raed"])
    assert "read" in str(caught.value)


def test_an_agent_runs_without_an_event_loop() -> None:
    """The same run, waited for."""
    agent = il.Agent("debug/parrot-1")
    assert "hi" in agent.run_sync("hi").text
    assert "again" in agent.run_sync("again").text


async def test_a_failure_can_be_raised_and_is_never_silent(caplog: pytest.LogCaptureFixture) -> None:
    """Without listeners it is logged; with `raise_on_error` raised."""
    agent = il.Agent("nowhere/model", retries=0)
    with caplog.at_level(logging.WARNING, "interlingua"):
        result = await agent.prompt("hi")
    assert "error" == result.reason
    assert "the run failed" in caplog.text
    with pytest.raises(il.InterlinguaError, match="nowhere"):
        await agent.prompt("hi", raise_on_error=True)
