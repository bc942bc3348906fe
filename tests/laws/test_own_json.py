"""Our own JSON loses nothing: not a value, and not what a newer version of the format may add."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from interlingua.canonical import dump, load
from interlingua.events import AgentEvent, StreamEvent
from interlingua.folding import fold, unfold
from interlingua.messages import (
    AgentMessage,
    AssistantMessage,
    Block,
    CacheMarker,
    Citation,
    CustomMessage,
    ReplyPayload,
    TextBlock,
    Usage,
)
from interlingua.request import (
    Context,
    Conversation,
    Entry,
    ModelDescriptor,
    Options,
    Request,
    ToolSpec,
)
from laws.wires import spelled
from strategies import with_unknown_fields

TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "agent event": (AgentEvent, strategies.agent_events()),
    "block": (Block, strategies.blocks()),
    "cache marker": (CacheMarker, strategies.cache_markers()),
    "citation": (Citation, strategies.citations()),
    "context": (Context, strategies.contexts()),
    "conversation": (Conversation, strategies.conversations()),
    "entry": (Entry, strategies.entries()),
    "message": (AgentMessage, strategies.messages()),
    "model": (ModelDescriptor, strategies.models()),
    "options": (Options, strategies.options()),
    "reply": (ReplyPayload, strategies.reply_payloads()),
    "request": (Request, strategies.requests()),
    "stream event": (StreamEvent, strategies.stream_events()),
    "tool": (ToolSpec, strategies.tool_specs()),
    "usage": (Usage, strategies.usages()),
}
GROWING = sorted(TYPES.keys() - {"agent event", "stream event"})  # events have no place for what they do not know


@pytest.mark.parametrize("kind", sorted(TYPES))
@given(data=st.data())
def test_what_is_written_is_read_back_equal(kind: str, data: st.DataObject) -> None:
    """
    Every value of the format survives its own JSON, and is written the same way each time.
    """
    of, values = TYPES[kind]
    value = data.draw(values)
    written = dump(value)
    again = load(written, of)
    assert value == again
    assert written == dump(again) == dump(value)


@pytest.mark.parametrize("kind", GROWING)
@given(data=st.data())
def test_unknown_keys_stay_where_they_were(kind: str, data: st.DataObject) -> None:
    """
    A key that this version does not know is written back in its place.
    """
    of, values = TYPES[kind]
    told = data.draw(with_unknown_fields(load(dump(data.draw(values)), Any)))
    written = dump(load(strategies.json_bytes(told), of))
    assert spelled(told) == spelled(load(written, Any))


@given(st.lists(strategies.unknown_keys(), min_size=1, max_size=3))
def test_unknown_blocks_and_roles_stay_where_they_were(held: list[dict[str, Any]]) -> None:
    """
    A block or a role of a newer version is carried along untouched.
    """
    newer = [{"type": "x_newer", **keys} for keys in held]
    told = {
        "messages": [
            {"role": "x_newer", **held[0]},
            {"role": "user", "content": [{"type": "text", "text": "a"}, *newer]},
            {"role": "toolResult", "toolCallId": "1", "content": newer, "isError": False},
        ]
    }
    assert spelled(told) == spelled(load(dump(load(strategies.json_bytes(told), Context)), Any))


@pytest.mark.parametrize("role", ["toolResult", "user", "~user", "~~system", "~x", "~", ""])
@given(fields=strategies.unknown_keys())
def test_a_foreign_role_that_looks_like_ours_stays_foreign(role: str, fields: dict[str, Any]) -> None:
    """
    A message of another format whose role means something else here is not taken for one of ours.
    """
    message = CustomMessage(role, fields)
    assert load(dump(message), AgentMessage) == message
    told = {"role": role, **fields}
    if role not in ("toolResult", "user"):
        assert spelled(load(dump(load(strategies.json_bytes(told), AgentMessage)), Any)) == spelled(told)


@given(strategies.assistant_messages(), st.sampled_from([None, 1, 3]))
def test_a_message_is_the_fold_of_its_events(message: AssistantMessage, size: int | None) -> None:
    """
    A message taken apart into events, of any size, and put together again is the same message.
    """
    assert message == fold(unfold(message, size=size))


@given(strategies.assistant_messages(), st.sampled_from([None, 1, 3]))
def test_events_amount_to_the_same_message_after_a_trip_through_json(
    message: AssistantMessage, size: int | None
) -> None:
    """
    What another process folds from the events' JSON is the message, even when it missed the terminal event.
    """
    events = [load(dump(event), StreamEvent) for event in unfold(message, size=size)]
    assert message == fold(events)
    cut_off = fold(events[:-1])
    if isinstance(message.content, tuple):
        assert message.content == cut_off.content
    assert cut_off.stop_reason == "error"


@given(strategies.messages_for_answers())
def test_an_event_shows_the_message_so_far_in_its_json_when_asked(message: AssistantMessage) -> None:
    """
    Event JSON has no `partial` unless asked for; with it, it is still an event to those who know it.
    """
    for event in unfold(message):
        partial = getattr(event, "partial", None)
        if partial is not None:
            shown = load(dump(event, partial=True), Any)
            assert partial == load(strategies.json_bytes(shown["partial"]), AssistantMessage)


def test_a_key_of_ours_inside_extra_does_not_shadow_the_field() -> None:
    """
    Text that merely contains our name takes the slow way and comes out the same.
    """
    value = TextBlock(text='"interlingua"', extra={"some-other": {"interlingua": {"text": "no"}}})
    assert value == load(dump(value), TextBlock)
