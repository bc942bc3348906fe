"""Losses by comparison: a conversation and what was read back of it."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.dialects.comparison import OTHER_PARENT, entry_losses, losses_of
from interlingua.values.losses import Support, SupportTable, dropped, record
from interlingua.values.request import Conversation, Entry, Options

CALL = il.ToolCall(id="c", name="f", arguments={"a": 1}, arguments_text='{"a": 1}')
ANSWER = il.AssistantMessage(content=(CALL,), response_id="", stop_reason="toolUse")
SOURCE = Conversation(
    entries=(
        Entry(id="q", message=il.UserMessage(content="Hi")),
        Entry(id="a", parent_id="q", message=ANSWER),
        Entry(id="b", parent_id="q", message=il.AssistantMessage(content="Hello", stop_reason="stop")),
    ),
    head="a",
    model=il.ModelDescriptor(id="m"),
    extra={"other": {"a": 1}, "own": {"b": 2}},
)
PATH = [0, 1]
READ = replace(SOURCE, entries=SOURCE.entries[:2])


def compared(again: Conversation, support: SupportTable | None = None, source: Conversation = SOURCE) -> list[Any]:
    """Path, what and severity of the losses, but for the branch that no list has."""
    found = losses_of(source, PATH, lambda: again, support or {}, "own")
    return [(one.path, one.what, one.severity) for one in found if one.what != "branch"]


def answered(**fields: Any) -> Conversation:
    """What was read, with other fields of the answer."""
    return replace(READ, entries=(READ.entries[0], replace(READ.entries[1], message=replace(ANSWER, **fields))))


def asked(content: Any) -> Conversation:
    """What was read, with another question."""
    return replace(READ, entries=(replace(READ.entries[0], message=il.UserMessage(content=content)), READ.entries[1]))


def test_what_returns_is_no_loss() -> None:
    """
    Only the entry that is not on the path to the head has no place, and nothing of it is compared.
    """
    (branch,) = losses_of(SOURCE, PATH, lambda: READ, {}, "own")
    assert ("$.entries[2]", "branch", "dropped") == (branch.path, branch.what, branch.severity)


@pytest.mark.parametrize(
    ("again", "support", "expected"),
    [
        (asked((il.TextBlock(text="Hi"),)), {}, [("$.messages[0].content", "content", "record")]),
        (asked("Ho"), {}, [("$.messages[0].content", "content", "weakened")]),
        (asked((il.TextBlock(text="Ho"),)), {}, [("$.messages[0].content", "content", "weakened")]),
        (asked(()), {}, [("$.messages[0].content", "content", "weakened")]),
        (answered(response_id=None), {}, [("$.messages[1].responseId", "response_id", "weakened")]),
        (
            answered(response_id=None),
            {"AssistantMessage.response_id": Support("kept")},
            [("$.messages[1].responseId", "response_id", "weakened")],
        ),
        (
            answered(response_id=None),
            dropped("AssistantMessage.response_id", "no ids"),
            [("$.messages[1].responseId", "response_id", "dropped")],
        ),
        (
            answered(response_id=None),
            record("AssistantMessage.response_id", "no ids"),
            [("$.messages[1].responseId", "response_id", "record")],
        ),
        (
            answered(content=(replace(CALL, arguments_text=None),)),
            {},
            [("$.messages[1].content[0].argumentsText", "arguments_text", "weakened")],
        ),
        (replace(READ, extra={"own": {"b": 2}}), {}, [("$.extra.other.a", "a", "dropped")]),
        (replace(READ, extra={"other": {"a": 1}}), {}, [("$.extra.own.b", "b", "dropped")]),
        (replace(READ, model=None), {}, [("$.model.id", "id", "weakened")]),
    ],
)
def test_a_difference_is_a_loss_of_its_kind(again: Conversation, support: SupportTable, expected: list[Any]) -> None:
    """
    As the table has it; what should have returned is weakened, and a text in another form is bookkeeping.
    """
    assert expected == compared(again, support)


DOCUMENT = il.DocumentBlock(data="aGk=", mime_type="application/pdf")
PARTS = (il.TextBlock(text="a"), DOCUMENT, il.TextBlock(text="b"))


@pytest.mark.parametrize(
    ("given", "left", "expected"),
    [
        (PARTS, (PARTS[0], PARTS[2]), [("[1]", "DocumentBlock", "dropped")]),
        (
            PARTS,
            (),
            [("[0]", "TextBlock", "dropped"), ("[1]", "DocumentBlock", "dropped"), ("[2]", "TextBlock", "dropped")],
        ),
        (PARTS[:2], "a", [("[1]", "DocumentBlock", "dropped"), ("", "content", "record")]),
        (
            PARTS[:2],
            "c",
            [("[0].text", "text", "weakened"), ("[1]", "DocumentBlock", "dropped"), ("", "content", "record")],
        ),
        ((DOCUMENT,), "", [("[0]", "DocumentBlock", "dropped"), ("", "content", "record")]),
        ((il.TextBlock(text=""),), "", [("", "content", "record")]),
        ((DOCUMENT,), None, [("[0]", "DocumentBlock", "dropped"), ("", "content", "record")]),
        (PARTS, (il.TextBlock(text="ab"),), [("", "content", "weakened")]),
    ],
)
def test_blocks_that_a_format_leaves_out_are_named(given: Any, left: Any, expected: list[tuple[str, str, str]]) -> None:
    """
    If the others were read back; which of several texts are missing is not guessed.
    """
    source = replace(SOURCE, entries=(asked(given).entries[0], *SOURCE.entries[1:]))
    place = "$.messages[0].content"
    assert [(place + path, *rest) for path, *rest in expected] == compared(asked(left), source=source)


def test_arguments_that_were_changed_need_not_their_text() -> None:
    """
    It says what they were; every other field of the call is compared.
    """
    changed = answered(content=(replace(CALL, arguments={"a": 2}),))
    source = replace(SOURCE, entries=(*changed.entries, SOURCE.entries[2]))
    without = (replace(CALL, arguments={"a": 2}, arguments_text=None, thought_signature="s"),)
    expected = [("$.messages[1].content[0].thoughtSignature", "thought_signature", "weakened")]
    assert expected == compared(answered(content=without), source=source)


def test_a_model_without_an_id_is_bookkeeping() -> None:
    """
    Where the file has none either.
    """
    source = replace(SOURCE, model=il.ModelDescriptor(id=""))
    assert [("$.model.id", "id", "record")] == compared(replace(READ, model=None), source=source)
    assert [] == compared(replace(READ, model=il.ModelDescriptor(id="")), source=source)


def tree_losses(again: Conversation, source: Conversation = SOURCE) -> list[tuple[str, str]]:
    entries: Sequence[Entry] = source.entries
    return [(one.path, one.why) for one in entry_losses(source, entries, again, {}, "own")]


def test_the_entries_of_a_tree_are_compared_one_by_one() -> None:
    """
    Their messages, their parents, and what the conversation says beside them.
    """
    assert [] == tree_losses(SOURCE)
    first, second, third = SOURCE.entries
    moved = replace(SOURCE, entries=(first, second, replace(third, parent_id="a")))
    assert [("$.entries[2].parentId", OTHER_PARENT)] == tree_losses(moved)
    other = replace(SOURCE, title="T", head="b", options=Options(max_tokens=5))
    assert {"$.title", "$.head", "$.options.maxTokens"} == {path for path, _ in tree_losses(other)}
