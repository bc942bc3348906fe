"""Media of tool results on wires whose results hold text only: a label per call, and back in the results when read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from interlingua.dialects.results import PLACEHOLDER
from interlingua.values.canonical import dump, load
from interlingua.values.messages import (
    AudioBlock,
    ImageBlock,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from interlingua.values.request import ModelDescriptor, Request
from strategies import PNG
from test_handover import CHAT, CLAUDE, GEMINI, HI, LLAMA, answer_from, request

MOVING = [CHAT, GEMINI, LLAMA, ModelDescriptor(id="gemini-2.5-pro", api="google-vertex")]
moving = pytest.mark.parametrize("target", MOVING, ids=lambda target: target.api)

OTHER = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFElEQVR4nGOcxmbFwMDAxMDAwMDAAAANHQEDK+mmyAAAAABJRU5ErkJggg=="
FIRST, SECOND = (ImageBlock(data=data, mime_type="image/png") for data in (PNG, OTHER))
SOUND = AudioBlock(data="UklGRiQAAABXQVZFZm10IA==", mime_type="audio/wav")


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(id=f"c{at}", name=name, arguments={"n": at}) for at, name in enumerate(names)]


def results(made: list[ToolCall], *contents: Any) -> list[ToolResultMessage]:
    return [
        ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=content, is_error=False)
        for call, content in zip(made, contents, strict=True)
    ]


def body_of(source: Request, target: ModelDescriptor) -> Any:
    wire = il.dialect(target.api)
    return json.loads(json.dumps(wire.encode_request(il.adapt(source, target).request).body))


def returned(body: Any, target: ModelDescriptor) -> Request:
    return il.dialect(target.api).decode_request(body, model=target.id)


def tool_results(source: Request) -> list[tuple[Any, ...]]:
    return [blocks_of(m.content) for m in source.context.messages if isinstance(m, ToolResultMessage)]


def pictured() -> Request:
    """A turn of three calls, two of which have pictures, and a turn of one that is nothing but a picture."""
    made, more = calls("shot", "search", "shot"), [ToolCall(id="d", name="shot", arguments={})]
    return request(
        HI,
        answer_from(CLAUDE, *made),
        *results(
            made,
            (TextBlock(text="one"), FIRST, SECOND),
            (TextBlock(text="two"),),
            (SECOND, TextBlock(text="three")),
        ),
        answer_from(CLAUDE, TextBlock(text="Hm"), *more),
        *results(more, (FIRST,)),
        UserMessage(content="And now?"),
        tools=None,
    )


@moving
def test_each_result_has_a_label_of_its_own_before_its_media(target: ModelDescriptor) -> None:
    """The model can tell which call a picture belongs to."""
    source = pictured()
    shown = [m for m in il.adapt(source, target).request.context.messages if isinstance(m, UserMessage)]
    flat = [block for message in shown for block in blocks_of(message.content)]
    assert [
        TextBlock(text="Hello"),
        TextBlock(text="Attached to tool result 1 (shot):"),
        FIRST,
        SECOND,
        TextBlock(text="Attached to tool result 3 (shot):"),
        SECOND,
        TextBlock(text="Attached to tool result 1 (shot):"),
        FIRST,
        TextBlock(text="And now?"),
    ] == flat


@moving
def test_what_we_sent_is_read_with_the_media_back_in_their_results(target: ModelDescriptor) -> None:
    """Behind the text of each result; a result of media only has no placeholder any more."""
    body = body_of(pictured(), target)
    assert PLACEHOLDER in json.dumps(body)
    read = returned(body, target)
    assert [
        (TextBlock(text="one"), FIRST, SECOND),
        (TextBlock(text="two"),),
        (TextBlock(text="three"), SECOND),
        (FIRST,),
    ] == tool_results(read)
    assert ["Hello", "And now?"] == [m.text for m in read.context.messages if isinstance(m, UserMessage)]


@moving
def test_what_was_gathered_is_written_as_it_came(target: ModelDescriptor) -> None:
    """Without adapting, through our own JSON; and the same when it is adapted again."""
    wire, body = il.dialect(target.api), body_of(pictured(), target)
    read = load(dump(returned(body, target)), Request)
    again, losses = wire.encode_request(read)
    assert body == json.loads(json.dumps(again))
    assert [loss for loss in losses if loss.severity != "record"] == []
    assert (
        body["messages" if "messages" in body else "contents"]
        == (body_of(read, target)["messages" if "messages" in body else "contents"])
    )


@moving
def test_what_was_gathered_goes_to_another_wire_inside_its_results(target: ModelDescriptor) -> None:
    """The detour over a wire that cannot hold them there costs only their order."""
    body = il.convert(body_of(pictured(), target), "anthropic-messages", target.api).body
    inner = [
        [part["type"] for part in block["content"]]
        for message in body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result" and isinstance(block["content"], list)
    ]
    assert [["text", "image", "image"], ["text", "image"], ["image"]] == [kinds for kinds in inner if "image" in kinds]


def test_sound_returns_too() -> None:
    """Where the wire takes it."""
    made = calls("record")
    source = request(HI, answer_from(CLAUDE, *made), *results(made, (TextBlock(text="Listen"), SOUND)))
    assert [(TextBlock(text="Listen"), SOUND)] == tool_results(returned(body_of(source, CHAT), CHAT))


@moving
def test_a_result_that_was_changed_since_is_written_as_it_is(target: ModelDescriptor) -> None:
    """The hint is about what was there; nothing is invented or lost."""
    wire = il.dialect(target.api)
    read = returned(body_of(pictured(), target), target)
    changed = tuple(
        replace(m, content=(*blocks_of(m.content), TextBlock(text="more"))) if isinstance(m, ToolResultMessage) else m
        for m in read.context.messages
    )
    body = json.dumps(wire.encode_request(replace(read, context=replace(read.context, messages=changed))).body)
    assert "Attached to" not in body
    assert 4 == body.count("more")


LOOKALIKES: list[tuple[Any, ...]] = [
    (TextBlock(text="Attached to tool result 1 (shot):"),),
    (TextBlock(text="Attached to tool result 7 (shot):"), FIRST),
    (TextBlock(text="Attached to tool result 1 (other):"), FIRST),
    (TextBlock(text="Attached to tool result 1 (shot):"), FIRST, TextBlock(text="and see")),
    (TextBlock(text="Attached to tool result 2 (shot):"), FIRST, TextBlock(text="Attached to tool result 1 (shot):")),
]


@moving
@pytest.mark.parametrize("content", LOOKALIKES, ids=range(len(LOOKALIKES)))
def test_what_only_looks_like_a_label_stays_the_users(target: ModelDescriptor, content: Any) -> None:
    """And comes back as it was."""
    made = calls("shot", "shot")
    source = request(HI, answer_from(CLAUDE, *made), *results(made, "a", "b"), UserMessage(content=content), tools=None)
    wire, body = il.dialect(target.api), body_of(source, target)
    read = returned(body, target)
    assert 2 == len([m for m in read.context.messages if isinstance(m, UserMessage)])
    assert body == json.loads(json.dumps(wire.encode_request(read).body))


def test_losses_of_what_was_gathered_have_their_places() -> None:
    """A detail that Gemini cannot say is found in the result that holds the picture now."""
    read = returned(body_of(pictured(), GEMINI), GEMINI)
    at = next(n for n, m in enumerate(read.context.messages) if isinstance(m, ToolResultMessage))
    content = blocks_of(read.context.messages[at].content)
    detailed = replace(read.context.messages[at], content=(*content[:-1], replace(content[-1], detail="low")))
    messages = (*read.context.messages[:at], detailed, *read.context.messages[at + 1 :])
    later = replace(messages[-1], content=(replace(FIRST, file_id="f"),))
    made = replace(read, context=replace(read.context, messages=(*messages[:-1], later)))
    paths = {loss.path for loss in il.dialect(GEMINI.api).encode_request(made).losses}
    assert f"$.messages[{at}].content[2].detail" in paths
    assert f"$.messages[{len(messages) - 1}].content[0].fileId" in paths


@st.composite
def conversations(draw: st.DrawFn) -> Request:
    messages: list[Any] = [HI]
    for turn in range(draw(st.integers(1, 3))):
        made = [
            ToolCall(id=f"t{turn}c{at}", name=draw(st.sampled_from(["shot", "look"])), arguments={})
            for at in range(draw(st.integers(1, 3)))
        ]
        texts = st.sampled_from(["", "text", PLACEHOLDER, "Attached to tool result 1 (shot):"]).map(
            lambda text: (TextBlock(text=text),) if text else ()
        )
        contents = [(*draw(texts), *draw(st.lists(st.sampled_from([FIRST, SECOND]), max_size=2))) for _ in made]
        messages += [answer_from(CLAUDE, *made), *results(made, *contents)]
        if draw(st.booleans()):
            messages.append(UserMessage(content=draw(st.sampled_from(["Go on", (TextBlock(text="So"), FIRST)]))))
    return request(*messages, tools=None)


@moving
@given(data=st.data())
def test_no_picture_changes_its_call_on_the_way_and_back(target: ModelDescriptor, data: st.DataObject) -> None:
    """Whatever the results hold: read again, each has its own pictures; written again, the body is the same."""
    source = data.draw(conversations())
    body = body_of(source, target)
    read = returned(body, target)
    assert body == json.loads(json.dumps(il.dialect(target.api).encode_request(load(dump(read), Request)).body))
    mine, theirs = (
        [[b for b in blocks if isinstance(b, ImageBlock)] for blocks in tool_results(r)] for r in (source, read)
    )
    assert mine == theirs
