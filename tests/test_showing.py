"""What notebooks show: static, escaped, short."""

import functools
import re
from typing import Any

import pytest

import interlingua as il
from interlingua.conversion import document
from interlingua.values.messages import CustomMessage, Message, OpaqueBlock
from interlingua.values.showing import losses_html

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)> ![x](http://t.example/p.png) ```\n\"'&"


def every_message() -> list[Message]:
    return [
        il.UserMessage([il.TextBlock(text=EVIL), il.ImageBlock(data='"><script>', mime_type="image/png")]),
        il.AssistantMessage(
            [
                il.ThinkingBlock(thinking=EVIL),
                il.TextBlock(text=EVIL),
                il.ToolCall(id="c1", name=EVIL, arguments={EVIL: EVIL}),
                il.OpaqueBlock(dialect="x", value=EVIL),
            ],
            model=EVIL,
            usage=il.Usage.of(1, 2, cost=il.Cost(total=0.5)),
        ),
        il.ToolResultMessage([il.DocumentBlock(url=f"http://x.example/{EVIL}")], tool_call_id="c1", is_error=True),
        il.SystemMessage(EVIL),
    ]


def test_nothing_that_a_message_holds_is_markup() -> None:
    """In any block of any message, and in a title."""
    conversation = il.Conversation(entries=tuple(il.Entry(message=one) for one in every_message()), title=EVIL)
    shown = [conversation._repr_html_(), *(one._repr_html_() for one in every_message())]
    for text in shown:
        assert "<script" not in text
        assert "<img src=x" not in text
        assert 'src="http' not in text
    assert "&lt;script&gt;" in shown[0]


def test_markdown_keeps_texts_in_fences() -> None:
    """A fence is longer than any in the text, so nothing ends it."""
    text = il.UserMessage(EVIL)._repr_markdown_()
    assert text.startswith("**user**\n\n````\n")
    assert text.endswith("\n````")


def test_pictures_are_shown_from_their_own_bytes() -> None:
    """Nothing is fetched."""
    shown = il.UserMessage([il.ImageBlock(data="QUJD", mime_type="image/png")])._repr_html_()
    assert 'src="data:image/png;base64,QUJD"' in shown
    assert "<img" not in il.UserMessage([il.ImageBlock(url="https://x.example/a.png")])._repr_html_()
    assert "<img" not in il.UserMessage([il.ImageBlock(data="QUJD", mime_type="image/svg+xml")])._repr_html_()


def test_long_things_are_cut_and_say_so() -> None:
    """A huge message keeps the notebook usable."""
    shown = il.UserMessage("x" * 1_000_000)._repr_html_()
    assert len(shown) < 50_000
    assert "further characters" in shown
    many = il.Conversation(entries=tuple(il.Entry(message=il.UserMessage("x")) for _ in range(1000)))
    assert "800 further messages" in many._repr_html_()


def test_losses_and_encoded_bodies_are_shown_as_tables() -> None:
    """With the place and the reason of each loss."""
    encoded = il.encode([il.UserMessage("hi")], "anthropic-messages")
    assert "<table>" in encoded._repr_html_()
    assert "the target requires one" in encoded._repr_html_()
    assert "nothing was lost" in losses_html(())


def test_reprs_are_short() -> None:
    """Fields that are not set are left out."""
    assert "UserMessage(content='hi')" == repr(il.UserMessage("hi"))
    assert "Options(temperature=1)" == repr(il.Options(temperature=1))
    agent = il.Agent("debug/parrot-1", ["read"])
    assert "Agent('debug/parrot-1', 1 tools, 0 messages)" == repr(agent)
    assert "debug/parrot-1" in agent._repr_html_()
    assert "hi" in agent.run_sync("hi")._repr_html_()


LONG = "x" * 100_000
DEEP = functools.reduce(lambda inner, _: {"": inner}, range(400), {})
CALL = il.ToolCall(id="1", name="t", arguments={"text": LONG, "rows": [*range(10_000)], "deep": DEEP})
ANSWER = il.AssistantMessage([il.TextBlock(LONG), il.ThinkingBlock(LONG), CALL], extra={"x": {"y": LONG}})
TOOL = il.ToolSpec(name="t", description=LONG, input_schema={"properties": {str(at): {} for at in range(1000)}})
CONTEXT = il.Context(system=LONG, messages=(il.UserMessage(LONG), ANSWER) * 500, tools=(TOOL,) * 50)
REQUEST = il.Request(model=il.ModelDescriptor(id="m", extra={"x": {"y": LONG}}), context=CONTEXT, extra={"x": LONG})


@pytest.mark.parametrize(
    "value",
    [
        *(CALL, ANSWER, TOOL, CONTEXT, REQUEST, il.Options(metadata={"x": LONG}, stop=("x",) * 10_000)),
        *(
            il.Entry(message=ANSWER),
            il.ToolResultMessage(LONG, tool_call_id="1"),
            il.Loss("$", "what", LONG, "dropped"),
        ),
        *(
            CustomMessage("note", {"x": LONG}),
            OpaqueBlock(dialect="d", value=[LONG] * 1000),
            il.adapt(REQUEST, "ollama"),
        ),
        *(il.encode(REQUEST, "openai"), il.events.Done("stop", ANSWER), il.events.TextDelta(0, LONG)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_repr_is_short(value: Any) -> None:
    """Long texts are cut and long lists counted, at any depth; the beginning is there."""
    shown = repr(value)
    assert len(shown) < 3000
    assert "… " in shown


def test_a_short_repr_is_whole() -> None:
    """It says what to write to make the value again."""
    context = il.Context(
        messages=(il.UserMessage("hi"),), tools=(il.ToolSpec(name="t", input_schema={"type": "object"}),)
    )
    expected = (
        "Context(messages=(UserMessage(content='hi'),), tools=(ToolSpec(name='t', input_schema={'type': 'object'}),))"
    )
    assert expected == repr(context)
    assert [("messages", context.messages), ("tools", context.tools)] == list(context.__rich_repr__())


def test_reprs_do_not_grow_with_what_is_in_a_value() -> None:
    """Files, conversations, results, wires: enough to see what it is, whatever its size."""
    picture = il.image(b"\x89PNG\r\n\x1a\n" + b"0" * 300_000)
    head = "iVBORw0KGgo" + "wMDA" * 17 + "w"
    assert f"ImageBlock(data='{head}… (400,012 characters)', mime_type='image/png')" == repr(picture)
    assert 1000 > len(repr(il.UserMessage([picture, document(b"text " * 1000, title="a.txt")])))
    assert 1000 > len("".join(map(str, picture.__rich_repr__())))
    assert "ImageBlock(url='https://x.example/a.png')" == repr(il.ImageBlock(url="https://x.example/a.png"))
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}] * 50}
    assert "Conversation(50 entries, model='gpt-5')" == repr(il.decode(body, "openai-completions"))
    assert "Result('hi', done, 1 answer)" == repr(il.Agent("debug/parrot-1").run_sync("hi"))
    assert 300 > len(repr(il.Agent("debug/parrot-1").run_sync("hi" * 1000)))
    assert "Wire('ollama-chat')" == repr(il.wire("ollama-chat"))
    assert "ToolRegistry(0 tools)" == repr(il.ToolRegistry())
    assert re.fullmatch(r"Client\(\d+ providers\)", repr(il.Client()))
