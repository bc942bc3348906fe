"""Calls and results in another wire's values, at every entrance: read as what they mean, and said to be mistaken."""

import contextlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from agent.making import noted
from interlingua import clawtools
from interlingua.conversion.adapting.work import NO_RESULT
from interlingua.dialects import DIALECTS
from interlingua.testing import Server
from interlingua.values.errors import FormatError
from interlingua.values.messages import AssistantMessage, CustomMessage, ImageBlock, ToolResultMessage, UserMessage

USER = {"role": "user", "content": "Hi"}
CALLED = {
    "role": "assistant",
    "content": [{"type": "toolCall", "id": "c1", "name": "note", "arguments": {"q": "ASKED"}}],
}
RESULT = {
    "role": "toolResult",
    "toolCallId": "c1",
    "toolName": "note",
    "content": [{"type": "text", "text": "FOUND"}],
    "isError": False,
}
TOOL_ROLE = {"role": "tool", "tool_call_id": "c1", "content": "FOUND"}
TOOL_RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "FOUND"}]}
TOOL_USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "note", "input": {"q": "ASKED"}}]}
TOOL_CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "note", "arguments": '{"q": "ASKED"}'}}],
}
# The four rows of the clawtools page of mistakes, and those of two wires in one conversation.
MIXED = {
    "OpenAI's tool role": [USER, CALLED, TOOL_ROLE],
    "Anthropic's tool_result": [USER, CALLED, TOOL_RESULT],
    "Anthropic's tool_use": [USER, TOOL_USE, RESULT],
    "OpenAI's tool_calls": [USER, TOOL_CALLS, RESULT],
    "tool_use and the tool role": [USER, TOOL_USE, TOOL_ROLE],
    "tool_calls and tool_result": [USER, TOOL_CALLS, TOOL_RESULT],
}
every_mix = pytest.mark.parametrize("messages", MIXED.values(), ids=MIXED.keys())


def asked(server: Server) -> str:
    return server.last.body.decode()


def has_both(body: str) -> bool:
    return "ASKED" in body and "FOUND" in body and NO_RESULT not in body


CONTEXTS: dict[str, Any] = {
    "a list": lambda messages: messages,
    "a context as JSON": lambda messages: {"messages": messages},
    "a StreamContext": lambda messages: clawtools.StreamContext(messages=messages),
    "values and JSON": lambda messages: [UserMessage(content="Hi"), *messages[1:]],
    "a request": lambda messages: il.Request(
        model=il.ModelDescriptor(id="m"), context=il.Context(messages=tuple(messages))
    ),
    "a conversation": lambda messages: il.decode(messages, "clawtools"),
}


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS.keys())
@every_mix
async def test_what_is_asked_is_what_was_meant(messages: list[Any], context: Any) -> None:
    """`complete` and `stream` send the call with its result, however the conversation is given."""
    with Server() as server:
        how: dict[str, Any] = {"base_url": server.url, "api_key": "none", "retry": 0}
        await il.complete("openai-compatible/m", context(messages), **how)
        assert has_both(asked(server))
        await il.stream("anthropic-compatible/m", context(messages), **how).result()
        assert has_both(asked(server))


@every_mix
async def test_an_agent_takes_up_what_was_meant_and_runs_nothing_again(messages: list[Any], tmp_path: Path) -> None:
    """The result is there, so the call has run; whether the history is given, prompted or in a session."""
    note, seen = noted()
    with Server() as server:
        how: dict[str, Any] = {"base_url": server.url, "api_key": "none"}
        await il.Agent("openai-compatible/m", [note], messages=messages, **how).prompt("go on")
        assert has_both(asked(server))
        await il.Agent("openai-compatible/m", [note], **how).prompt(messages)
        assert has_both(asked(server))
        with il.Session.open("appended", home=tmp_path) as session:
            for message in messages:
                session.append(message)
            await il.Agent("openai-compatible/m", [note], session=session, **how).prompt("go on")
            assert has_both(asked(server))
            assert il.check(Path(session.where).read_bytes()) == ()
        written = tmp_path / "written.jsonl"
        written.write_text("".join(json.dumps(message) + "\n" for message in messages))
        with il.Session.open(written) as session:
            await il.Agent("openai-compatible/m", [note], session=session, **how).prompt("go on")
            assert has_both(asked(server))
    assert seen == []


@every_mix
def test_reading_another_wires_words_is_reported(messages: list[Any]) -> None:
    """In the losses of a conversion, which strict mode raises, and in the findings of a check."""
    conversation = il.decode(messages, "clawtools")
    assert "shape" in {loss.what for loss in il.encode(conversation, "anthropic-messages").losses}
    with pytest.raises(il.Unsupported, match="shape"):
        il.encode(conversation, "anthropic-messages", strict=True)
    assert [finding.severity for finding in il.check(messages, "clawtools")].count("error") >= 1
    assert il.encode(conversation, "clawtools").body == messages


@pytest.mark.parametrize("dialect", ["openai-completions", "anthropic-messages"])
def test_other_formats_may_hold_foreign_words_too(dialect: str) -> None:
    """A chat list with Anthropic's blocks, an Anthropic list with `tool_calls`: `check` finds it, `adapt` reads it."""
    mixed = [USER, TOOL_USE, TOOL_ROLE] if dialect != "anthropic-messages" else [USER, TOOL_CALLS, TOOL_RESULT]
    conversation = il.decode(mixed, dialect)
    for target in ("openai-completions", "google-generative-ai", "bedrock-converse-stream"):
        body = json.dumps(il.dialect(target).encode_request(il.adapt(conversation.request(), target).request).body)
        assert has_both(body)
    assert il.check(mixed, dialect) != ()


def test_several_results_in_one_message_are_several_entries(tmp_path: Path) -> None:
    """What Anthropic says in one message of the user is appended as results and text; the last entry is returned."""
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": id} for id in ("c1", "c2")]
    with il.Session.open("several", home=tmp_path) as session:
        session.append(USER)
        last = session.append({"role": "user", "content": [*blocks, {"type": "text", "text": "And now?"}]}, id="last")
        kinds = [type(entry.message).__name__ for entry in session.path()]
    assert (["UserMessage", "ToolResultMessage", "ToolResultMessage", "UserMessage"], "last") == (kinds, last.id)


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_text_among_the_blocks_is_a_block(role: str) -> None:
    """Libraries accept it; no wire does."""
    messages = [
        USER,
        {"role": "assistant", "content": "x"},
        {"role": role, "content": ["FOUND", {"type": "text", "text": "y"}]},
    ]
    for dialect in ("openai-completions", "anthropic-messages"):
        for target in ("openai-completions", "anthropic-messages", "google-generative-ai"):
            adapted = il.adapt(il.decode(messages, dialect).request(), target).request.context.messages[-1]
            assert [block.text for block in adapted.content] == ["FOUND", "y"]  # type: ignore[union-attr]


TWICE = {
    "OpenAI's, and a block": {"type": "tool_call", "tool_call_id": "c1", "name": "note", "arguments": "{}"},
    "OpenAI's, and Anthropic's": {"type": "tool_use", "id": "c1", "name": "note", "input": {"q": "ASKED"}},
}


@pytest.mark.parametrize("block", TWICE.values(), ids=TWICE.keys())
@pytest.mark.parametrize("dialect", ["openai-completions", "anthropic-messages"])
@pytest.mark.parametrize("target", ["openai-completions", "anthropic-messages", "google-generative-ai"])
def test_a_call_that_a_message_states_twice_is_one_call(block: Any, dialect: str, target: str) -> None:
    """In its content and beside it, as some exporters write; the result may be a block of its own, too."""
    output = {"type": "tool_output", "text": "FOUND"}
    result = {"role": "tool", "tool_call_id": "c1", "content": [output]}
    messages = [USER, {**TOOL_CALLS, "content": [block]}, result]
    body = json.dumps(il.encode(il.decode({"messages": messages}, dialect), target).body)
    assert body.count("FOUND") == 1 and NO_RESULT not in body
    assert body.count('"note"') <= 2  # the call, and the name of its result on a wire that states it


def test_pictures_and_other_content_of_a_foreign_result_are_kept() -> None:
    """Text stays text, a picture a picture, and what is neither is said as JSON."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    content = [{"type": "text", "text": "FOUND"}, picture, {"rows": 3}]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": content}]}
    request = il.adapt(il.decode([USER, CALLED, result], "clawtools").request(), "anthropic-messages").request
    (tool_result,) = [message for message in request.context.messages if isinstance(message, ToolResultMessage)]
    text, image, rest = tool_result.content or ()
    assert ("FOUND", '{"rows":3}') == (text.text, rest.text)  # type: ignore[union-attr]
    assert image == ImageBlock(data="aGk=", mime_type="image/png")


@pytest.mark.parametrize(
    ("message", "roles"),
    [
        ({"role": "model", "parts": [{"text": "x"}, {"functionCall": {"name": "f", "args": {}}}]}, ["assistant"]),
        ({"role": "ai", "content": "x", "tool_calls": [{"id": "c9", "name": "f", "args": {}}]}, ["assistant"]),
        ({"role": "human", "content": "x"}, ["user"]),
        ({"role": "developer", "content": "x"}, ["system"]),
        ({"role": "toolResult", "tool_call_id": "c1", "content": [{"type": "text", "text": "x"}]}, ["toolResult"]),
        ({"role": "model", "provider": "anthropic", "modelId": "m"}, []),
        ({"role": "narrator", "content": "x"}, []),
        ({"role": "tool", "state": "on"}, []),
    ],
)
def test_roles_of_other_wires_are_read_and_an_applications_own_are_not(message: Any, roles: list[str]) -> None:
    """A role is another wire's only if the message says what that wire says; the rest is no model's business."""
    request = il.decode([USER, CALLED, RESULT, message], "clawtools").request()
    adapted = il.adapt(request, "openai-completions").request.context.messages
    found = [m for m in adapted[3:] if not (isinstance(m, ToolResultMessage) and "No result" in str(m.content))]
    if roles == ["toolResult"]:  # the second for one call: the first is sent
        assert [loss.what for loss in il.adapt(request, "openai-completions").losses].count("tool result") == 1
    else:
        assert roles == [type(m).__struct_config__.tag for m in found]


@pytest.mark.parametrize("wrong", ["text", 42, None, ["user", "Hi"]])
def test_what_is_no_message_is_refused_and_nothing_is_stored(wrong: Any, tmp_path: Path) -> None:
    """A typed error before anything is written."""
    with il.Session.open("refused", home=tmp_path) as session:
        session.append(USER)
        with pytest.raises(FormatError, match="a message must be"):
            session.append(wrong)
        assert len(session.path()) == 1
    with pytest.raises(FormatError, match="a message must be"):
        il.Agent("debug/script", messages=[wrong])


def test_reading_foreign_words_into_a_history_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An agent has no report of losses: the log names what was read."""
    with caplog.at_level(logging.WARNING):
        agent = il.Agent("debug/script", messages=[USER, TOOL_USE, TOOL_ROLE])
    assert [AssistantMessage, ToolResultMessage] == [type(message) for message in agent.messages[1:]]
    assert ["`tool_use`", "the role `tool`"] == [record.args[0] for record in caplog.records]  # type: ignore[index]


def test_an_applications_own_message_stays_its_own(tmp_path: Path) -> None:
    """A custom role is stored as it is."""
    with il.Session.open("own", home=tmp_path) as session:
        session.append({"role": "narrator", "content": "x"})
        assert [CustomMessage("narrator", {"content": "x"})] == [entry.message for entry in session.path()]


def test_every_loss_of_a_message_in_other_words_has_a_place() -> None:
    """A call that stood beside the content has no block in the source: what happens to it is under its message."""
    request = il.decode([USER, TOOL_CALLS, RESULT], "clawtools").request()
    losses = il.adapt(request, il.ModelDescriptor(id="gemini-3-pro", api="google-generative-ai")).losses
    assert [] == [loss.path for loss in losses if not loss.path.startswith("$")]


FOREIGN = {
    "request": {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
    },
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    "rows": [{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}],
}


@pytest.mark.parametrize("sample", FOREIGN)
@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_file_of_another_format_is_never_read_as_empty(name: str, sample: str) -> None:
    """Where its format is named wrongly, it is refused with the one that it looks like, or its messages are there."""
    data = json.dumps(FOREIGN[sample]).encode()
    for read in (lambda: [il.decode(data, name)], lambda: list(il.read(data, name))):
        with contextlib.suppress(il.InterlinguaError):
            for found in read():
                assert [entry for entry in found.entries if not isinstance(entry.message, CustomMessage)]
