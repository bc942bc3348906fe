"""Values made in Python are checked before they are sent: wrong types and misplaced blocks are named."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

import interlingua as il
import strategies
from interlingua.testing import Server
from interlingua.values.canonical import check_context, check_messages
from interlingua.values.messages import (
    AssistantMessage,
    CustomMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from interlingua.values.request import Context

CALL = ToolCall(id="c1", name="f", arguments={})
HI = UserMessage(content="hi")
MALFORMED: dict[str, list[Any]] = {
    "messages[0].content[0]": [UserMessage(content=[CALL])],
    "messages[1].content[0]": [HI, SystemMessage(content=[ThinkingBlock(thinking="x")])],
    "messages[2].content[0]": [
        HI,
        AssistantMessage(content=[CALL]),
        ToolResultMessage(tool_call_id="c1", content=[CALL], is_error=False),
    ],
    "messages[0].content[0].text": [UserMessage(content=[TextBlock(text=42)])],  # type: ignore[arg-type]
    "messages[0].content[0].data": [UserMessage(content=[ImageBlock(data=b"x")])],  # type: ignore[arg-type]
    "messages[1].content[0].arguments": [HI, AssistantMessage(content=[replace(CALL, arguments="{}")])],
    "messages[1].is_error": [HI, ToolResultMessage(tool_call_id="c1", content="x", is_error="no")],  # type: ignore[arg-type]
    "messages[0].extra": [UserMessage(content="hi", extra=[1])],  # type: ignore[arg-type]
    "messages[0].content": [replace(HI, content=42)],
    "messages[1]": [HI, "and this"],
}


@dataclass
class Wrong:
    """Of a type that no field has."""


def _spoiled(value: Any) -> Any:
    """Every value that differs from this one in a single field of a wrong type, with the field's path."""
    for name in value.__struct_fields__:
        hint = str(type(value).__annotations__.get(name, ""))
        if "Any" not in hint and not (name == "value" or name == "details"):
            yield name, replace(value, **{name: Wrong()})


@given(strategies.contexts())
def test_what_can_be_decoded_is_never_refused_for_its_types(context):
    """
    Anything of the format itself passes; only calls and thinking outside answers are refused.
    """
    try:
        check_context(context)
    except il.FormatError as error:
        assert "only an AssistantMessage" in str(error) or "text must be a string" in str(error)


@given(strategies.contexts(), st.data())
def test_a_field_of_a_wrong_type_is_named(context, data):
    """
    Whatever field of whatever message or block it is.
    """
    places: list[tuple[str, Any]] = []
    for at, message in enumerate(context.messages):
        if isinstance(message, CustomMessage):
            continue
        places += [(f"messages[{at}].{name}", (at, None, made)) for name, made in _spoiled(message)]
        for number, block in enumerate(message.content if isinstance(message.content, tuple) else ()):
            path = f"messages[{at}].content[{number}]"
            places += [(f"{path}.{name}", (at, number, made)) for name, made in _spoiled(block)]
    if not places:
        return
    path, (at, number, made) = data.draw(st.sampled_from(places))
    message = context.messages[at]
    if number is not None:
        made = replace(message, content=(*message.content[:number], made, *message.content[number + 1 :]))
    messages = (*context.messages[:at], made, *context.messages[at + 1 :])
    with pytest.raises(il.FormatError) as refused:
        check_messages(messages)
    assert path == refused.value.path or "only an AssistantMessage" in str(refused.value)


@pytest.mark.parametrize("path", MALFORMED)
@pytest.mark.parametrize("ask", ["list", "Context", "stream", "agent"])
async def test_malformed_messages_are_refused_before_anything_is_sent(path, ask):
    """
    By every way of asking, with the place.
    """
    messages = MALFORMED[path]
    with Server() as server:
        server.say("never")
        where = {"api_key": "k", "base_url": server.base_url("anthropic-messages")}
        with pytest.raises(il.FormatError) as refused:
            if ask == "agent":
                await il.Agent(model="anthropic/m", messages=messages, **where).prompt("go on")
            elif ask == "stream":
                il.stream("anthropic/m", Context(messages=tuple(messages)), **where)
            else:
                await il.complete("anthropic/m", messages if ask == "list" else Context(messages=messages), **where)
        assert [] == server.requests
    assert refused.value.path == ("context" if path == "messages[1]" and ask == "list" else path)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"system": 42}, "system"),
        ({"system": ["words"]}, "system[0]"),
        ({"tools": ("exec",)}, "tools[0]"),
        ({"tools": "exec"}, "tools"),
        ({"messages": "hi"}, "messages"),
        ({"messages": HI}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 42}]}]}, "messages[0].content[0].text"),
    ],
)
async def test_a_malformed_context_is_refused(fields, path):
    """
    System text and tools are looked at as well, and messages that are given as JSON.
    """
    with pytest.raises(il.FormatError) as refused:
        await il.complete("debug/echo", Context(**{"messages": [HI], **fields}))
    assert path == refused.value.path


async def test_an_agent_refuses_a_malformed_prompt_and_goes_on():
    """
    Nothing of it is kept in the history.
    """
    agent = il.Agent(model="debug/parrot-1")
    with pytest.raises(il.FormatError, match="only an AssistantMessage"):
        await agent.prompt(UserMessage(content=[CALL]))
    assert [] == list(agent.messages)
    assert "done" == (await agent.prompt("hello")).reason


def test_every_struct_of_a_message_is_looked_at():
    """
    Nested values too: a marker, a citation, usage.
    """
    block = TextBlock(text="x", cache="5m")  # type: ignore[arg-type]
    for message in (UserMessage(content=[block]), AssistantMessage(content="x", usage={"input": 1})):  # type: ignore[arg-type]
        assert isinstance(message, Struct)
        with pytest.raises(il.FormatError, match="expected"):
            check_messages([message])
