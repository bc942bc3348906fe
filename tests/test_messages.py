"""Messages that make no sense are refused where they are made, and where they would be saved."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.json import Decoder, encode

import interlingua as il
from interlingua.sessions import Session

TEXT = il.TextBlock(text="x")
NO_CONTENT: list[Any] = [42, 1.5, True, b"x", {"type": "text"}, TEXT, object()]
NO_BLOCKS: list[Any] = ["x", None, 42, b"x", {"type": "text", "text": "x"}, [TEXT], il.UserMessage(content="x")]
MAKERS = {
    "user": lambda content: il.UserMessage(content=content),
    "assistant": lambda content: il.AssistantMessage(content=content),
    "system": lambda content: il.SystemMessage(content=content),
    "toolResult": lambda content: il.ToolResultMessage(tool_call_id="c", content=content, is_error=False),
}


@pytest.mark.parametrize("role", MAKERS)
@pytest.mark.parametrize("content", NO_CONTENT)
def test_content_that_is_none_is_refused_at_once(role: str, content: Any) -> None:
    """Not sent as an empty message; the error says what to write."""
    with pytest.raises(il.FormatError, match=r"a string or blocks, not .*; write a TextBlock"):
        MAKERS[role](content)


@pytest.mark.parametrize("role", MAKERS)
@pytest.mark.parametrize("block", NO_BLOCKS)
@pytest.mark.parametrize("kind", [list, tuple])
def test_what_is_no_block_is_refused_with_its_place(role: str, block: Any, kind: type) -> None:
    """Strings, JSON objects, nested lists, other messages."""
    with pytest.raises(il.FormatError, match=r"is not a block; write TextBlock.*content\[1\]"):
        MAKERS[role](kind([TEXT, block]))


@pytest.mark.parametrize("role", MAKERS)
def test_content_that_makes_sense_is_taken(role: str) -> None:
    """A string, nothing, blocks; a list of blocks becomes a tuple."""
    assert [None, "", "x", (), (TEXT,), (TEXT,)] == [
        MAKERS[role](content).content for content in (None, "", "x", [], [TEXT], (TEXT,))
    ]


def test_the_one_field_of_a_block_and_the_messages_of_a_context_may_be_given_by_position() -> None:
    """The same value, the same JSON in the same order; other fields have names, and one value has one place."""
    assert [il.TextBlock(text="x"), il.ThinkingBlock(thinking="x")] == [il.TextBlock("x"), il.ThinkingBlock("x")]
    message = il.UserMessage([il.TextBlock("x", text_signature="s")])
    assert b'{"role":"user","content":[{"type":"text","text":"x","textSignature":"s"}]}' == encode(message)
    assert il.Context(messages=(message,), system="s") == il.Context([message], system="s")
    for make in (lambda: il.TextBlock("x", "y"), lambda: il.TextBlock("x", text="y"), il.TextBlock):  # type: ignore[misc,call-arg]
        with pytest.raises(TypeError):
            make()
    for mistake in (lambda: il.Context([message], [message]), lambda: il.Context([message], messages=[])):  # type: ignore[misc,call-arg]
        with pytest.raises(il.FormatError, match="one list of messages"):
            mistake()


def test_decoding_does_not_pay_for_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder makes messages itself; whatever it reads has the right type already."""
    monkeypatch.setattr("interlingua.values.messages.checked_content", lambda *_: pytest.fail("checked while decoding"))
    raw = b'{"role":"user","content":[{"type":"text","text":"x"}]}'
    assert (TEXT,) == Decoder(il.UserMessage).decode(raw).content


BAD_FIELDS: list[tuple[Any, str]] = [
    (il.AssistantMessage(content=(il.ToolCall(id="c", name="f", arguments="{}"),)), "content[0].arguments"),  # type: ignore[arg-type]
    (il.AssistantMessage(content="x", usage=il.Usage.of("1", "2", total_tokens=3)), "usage.input"),  # type: ignore[arg-type]
    (il.AssistantMessage(content=(il.TextBlock(text=5),)), "content[0].text"),  # type: ignore[arg-type]
    (il.AssistantMessage(content="x", stop_reason="done"), "stopReason"),  # type: ignore[arg-type]
    (il.UserMessage(content="x", timestamp="now"), "timestamp"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("message", "place"), BAD_FIELDS, ids=[place for _, place in BAD_FIELDS])
def test_a_message_that_could_not_be_read_again_is_not_saved(tmp_path: Path, message: Any, place: str) -> None:
    """The error names the field, and the session is as it was."""
    with Session.open(tmp_path / "s.jsonl") as session:
        session.append(il.UserMessage(content="before"))
        with pytest.raises(il.FormatError) as caught:
            session.append(message)
        assert f"$.{place}" == caught.value.path
        assert 1 == len(session.messages) and () == session.problems


@pytest.mark.parametrize("message", ["hi", None, TEXT, 5])
def test_what_is_no_message_is_not_saved(tmp_path: Path, message: Any) -> None:
    """A clear error, and no file."""
    with (
        Session.open(tmp_path / "s.jsonl") as session,
        pytest.raises(il.FormatError, match="a message must be a UserMessage"),
    ):
        session.append(message)
    assert not (tmp_path / "s.jsonl").exists()


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("x.png", "cannot read"),
        (b"\x89PNG", "is not an image"),
        (Path("x.png"), "cannot read"),
        ({"type": "image"}, "dict is not a file"),
        (None, "NoneType is not a file"),
    ],
)
async def test_what_is_no_picture_is_refused_before_anything_is_asked(image: Any, message: str) -> None:
    """The error says what it is and where; the history is as it was."""
    agent = il.Agent("debug/parrot-1")
    for images in ([image], image) if isinstance(image, str | bytes) else ([image],):
        with pytest.raises(il.FormatError, match=rf"{message}.*images\[0\]"):
            await agent.prompt("look", images=images)
    assert [] == list(agent.messages)
