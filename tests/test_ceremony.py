"""The short ways to say common things: content first, verbs that take messages, tools by name, runs without a loop."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.testing import Server

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


DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fccff0bf1e00058302"
    "7fc8c8bd290000000049454e44ae426082"
)


@pytest.mark.parametrize("as_stream", [False, True], ids=["complete", "stream"])
def test_system_text_and_pictures_are_given_beside_the_question(as_stream: bool, tmp_path: Path) -> None:
    """Whatever the question is: a text, messages, a context, a request or a conversation."""
    (tmp_path / "dot.png").write_bytes(DOT)
    context = il.Context(messages=[il.UserMessage("hi")])
    request = il.Request(model=il.ModelDescriptor(id="x"), context=context, options=il.Options(temperature=0.5))
    every: list[Any] = ["hi", [il.UserMessage("hi")], context, request, il.Conversation.of(request)]
    with Server(strict=True) as server:
        model = il.ModelDescriptor(id="m", api="openai-completions", base_url=server.base_url("openai-completions"))
        for given in every:
            asked: dict[str, Any] = {"system": "Be brief.", "images": [tmp_path / "dot.png", DOT], "api_key": "k"}
            if as_stream:
                il.sync.stream(model, given, **asked).result()
            else:
                il.sync.complete(model, given, **asked)
            sent = server.last.request
            assert sent is not None
            assert "Be brief." == sent.context.system_prompt
            (message,) = sent.context.messages
            assert ["text", "image", "image"] == [block.type for block in message.content or ()]  # type: ignore[union-attr]
            assert (0.5 if given in (request, every[-1]) else None) == sent.options.temperature
    assert il.UserMessage("hi") == context.messages[0]


async def test_pictures_stay_with_their_question_when_an_answer_is_sent_back() -> None:
    """They are sent once, with the first message."""
    async with Server(strict=True) as server:
        server.say("no number")
        server.say('{"value": 3}')
        model = il.ModelDescriptor(id="m", api="openai-completions", base_url=server.base_url("openai-completions"))
        assert 3 == (await il.complete(model, "how many?", images=DOT, system="Count.", output=int, api_key="k")).output
        first, _, last = server.last.request.context.messages  # type: ignore[union-attr]
        assert [2, 1] == [len(one.content) if not isinstance(one.content, str) else 1 for one in (first, last)]  # type: ignore[arg-type]
        assert "Count." == server.last.request.context.system_prompt  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (il.Context(system="a", messages=[il.UserMessage("hi")]), {"system": "b"}, "two system prompts"),
        ("hi", {"system": 5}, "a string or text blocks, not int"),
        ([il.AssistantMessage("hello")], {"images": DOT}, "the last one is assistant"),
        ("hi", {"images": ["nowhere.png"]}, "nowhere.png"),
    ],
    ids=["two", "type", "place", "file"],
)
def test_a_wrong_system_text_or_picture_is_refused_at_the_call(given: Any, options: Any, message: str) -> None:
    """Before anything is sent."""
    with pytest.raises(il.InterlinguaError, match=message):
        il.sync.complete("debug/parrot-1", given, **options)
    with pytest.raises(il.InterlinguaError, match=message):
        il.stream("debug/parrot-1", given, **options)


def test_a_block_says_its_type() -> None:
    """The word that JSON has for it."""
    blocks: list[Any] = [il.TextBlock(text="a"), il.ToolCall(id="c", name="n", arguments={}), il.image(DOT)]
    for block in blocks:
        assert json.loads(il.dump(block))["type"] == block.type
    assert ["text", "toolCall", "image"] == [block.type for block in blocks]


def test_a_misspelt_option_is_refused_with_the_one_that_is_meant() -> None:
    """Those that belong to the call itself included."""
    for wrong, meant in (("temprature", "temperature"), ("sytem", "system"), ("fallback", "fallbacks")):
        options: dict[str, Any] = {wrong: 1}
        with pytest.raises(il.InterlinguaError, match=f"unknown option '{wrong}'; did you mean '{meant}'"):
            il.sync.complete("debug/parrot-1", "hi", **options)


def test_a_message_as_json_is_a_question() -> None:
    """Alone, as in a list."""
    message = {"role": "user", "content": "hi"}
    assert (
        "hi" == il.sync.complete("debug/parrot-1", message).text == il.sync.complete("debug/parrot-1", [message]).text
    )


def test_a_stream_has_a_short_repr() -> None:
    """How far it has come."""
    stream = il.sync.stream("debug/parrot-1", "hi")
    assert "SyncStream(under way)" == repr(stream)
    stream.result()
    assert "SyncStream(stop)" == repr(stream)
