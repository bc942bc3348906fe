"""Our own JSON loses nothing: not a value, and not what a newer version of the format may add."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from interlingua.values.canonical import dump, load
from interlingua.values.errors import FormatError
from interlingua.values.events import AgentEvent, MessageUpdate, StreamEvent, TextDelta
from interlingua.values.folding import fold, unfold
from interlingua.values.messages import (
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
from interlingua.values.request import Context, Conversation, Entry, ModelDescriptor, Options, Request, ToolSpec
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
ACCUMULATING = sorted(TYPES.keys() - {"agent event", "stream event"})  # events have no place for what they do not know


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


@pytest.mark.parametrize("kind", ACCUMULATING)
@given(data=st.data())
def test_unknown_keys_stay_where_they_were(kind: str, data: st.DataObject) -> None:
    """
    A key that this version does not know is written back in its place.
    """
    of, values = TYPES[kind]
    value = data.draw(with_unknown_fields(load(dump(data.draw(values)), Any)))
    written = dump(load(strategies.json_bytes(value), of))
    assert spelled(value) == spelled(load(written, Any))


@given(st.lists(strategies.unknown_keys(), min_size=1, max_size=3))
def test_unknown_blocks_and_roles_stay_where_they_were(blocks: list[dict[str, Any]]) -> None:
    """
    A block or a role of a newer version is carried along untouched.
    """
    newer = [{"type": "x_newer", **keys} for keys in blocks]
    value = {
        "messages": [
            {"role": "x_newer", **blocks[0]},
            {"role": "user", "content": [{"type": "text", "text": "a"}, *newer]},
            {"role": "toolResult", "toolCallId": "1", "content": newer, "isError": False},
        ]
    }
    assert spelled(value) == spelled(load(dump(load(strategies.json_bytes(value), Context)), Any))


@pytest.mark.parametrize("role", ["toolResult", "user", "~user", "~~system", "~x", "~", ""])
@given(fields=strategies.unknown_keys())
def test_a_foreign_role_that_looks_like_ours_stays_foreign(role: str, fields: dict[str, Any]) -> None:
    """
    A message of another format whose role means something else here is not taken for one of ours.
    """
    message = CustomMessage(role, fields)
    assert load(dump(message), AgentMessage) == message
    value = {"role": role, **fields}
    if role not in ("toolResult", "user"):
        assert spelled(load(dump(load(strategies.json_bytes(value), AgentMessage)), Any)) == spelled(value)


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


@given(strategies.messages_for_answers(), st.sampled_from([None, 1, 3]), st.booleans())
def test_both_forms_of_an_event_are_read_as_the_same_event(
    message: AssistantMessage, size: int | None, as_update: bool
) -> None:
    """
    Event JSON has no `partial` and no `message` unless asked for; with them, an equal event is read.
    """
    of: Any = AgentEvent if as_update else StreamEvent
    for part in unfold(message, size=size):
        event: Any = MessageUpdate(part) if as_update else part
        bare, full = dump(event), dump(event, partial=True)
        again = load(full, of)
        assert event == load(bare, of) == again
        assert (bare, full) == (dump(again), dump(again, partial=True))
        shown = "message" if as_update else "partial"
        assert getattr(event, shown, None) == getattr(again, shown, None)
        if as_update:
            assert "message" in load(full, Any)


@given(st.one_of(strategies.stream_events(), strategies.agent_events()))
def test_any_event_can_be_asked_to_show_the_message_so_far(event: Any) -> None:
    """
    An event that knows no message so far is written as it is, and what is written is read back.
    """
    of: Any = StreamEvent if isinstance(event, StreamEvent) else AgentEvent
    again = load(dump(event, partial=True), of)
    assert dump(event, partial=True) == dump(again, partial=True)
    assert getattr(event, "message", None) == getattr(again, "message", None)


PARTIAL = {"role": "assistant", "content": [], "api": "a", "provider": "p", "model": "m", "timestamp": 1}
TEXT = {**PARTIAL, "content": [{"type": "text", "text": "Hi", "textSignature": "s"}]}
THOUGHT = {**PARTIAL, "content": [{"type": "thinking", "thinking": "Hm", "thinkingSignature": "s"}]}
CALL = {"type": "toolCall", "id": "c", "name": "look", "arguments": {"at": 1}}
CALLING = {**PARTIAL, "content": [{**CALL, "arguments": {}}]}
SPECIFIED: list[dict[str, Any]] = [
    {"type": "start", "partial": PARTIAL},
    {"type": "done", "reason": "stop", "message": TEXT},
    {"type": "done", "reason": "aborted", "message": TEXT},
    {"type": "error", "reason": "aborted", "error": TEXT},
    {"type": "error", "reason": "error", "error": TEXT},
    {"type": "text_start", "contentIndex": 0, "partial": PARTIAL},
    {"type": "text_delta", "contentIndex": 0, "delta": "Hi", "partial": TEXT},
    {"type": "text_end", "contentIndex": 0, "content": "Hi", "partial": TEXT},
    {"type": "thinking_start", "contentIndex": 0, "partial": PARTIAL},
    {"type": "thinking_delta", "contentIndex": 0, "delta": "Hm", "partial": THOUGHT},
    {"type": "thinking_end", "contentIndex": 0, "content": "Hm", "partial": THOUGHT},
    {"type": "toolcall_start", "contentIndex": 0, "partial": CALLING},
    {"type": "toolcall_delta", "contentIndex": 0, "delta": '{"at":', "partial": CALLING},
    {"type": "toolcall_end", "contentIndex": 0, "toolCall": CALL, "partial": CALLING},
]


@pytest.mark.parametrize("wire_event", SPECIFIED, ids=lambda wire_event: wire_event["type"])
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("message", [None, TEXT, {"role": "x_newer", "x": 1}])
def test_events_as_the_formal_specification_writes_them_are_read(
    wire_event: dict[str, Any], bare: bool, message: dict[str, Any] | None
) -> None:
    """
    Each stream event with and without `partial`, alone and in a `message_update` with and without `message`.
    """
    if bare:
        wire_event = {key: value for key, value in wire_event.items() if key != "partial"}
    event = load(strategies.json_bytes(wire_event), StreamEvent)
    partial = wire_event.get("partial")
    assert getattr(event, "partial", None) == (None if partial is None else load_message(partial))
    written = load(dump(event, partial=True), Any)
    assert wire_event == {key: value for key, value in written.items() if key != "block"}
    update: dict[str, Any] = {"type": "message_update", "assistantMessageEvent": wire_event}
    if message is not None:
        update["message"] = message
    read = load(strategies.json_bytes(update), AgentEvent)
    assert event == read.assistant_message_event
    shown = message or partial or wire_event.get("message") or wire_event.get("error")
    assert read.message == (None if shown is None else load_message(shown))


def load_message(value: dict[str, Any]) -> Any:
    return load(strategies.json_bytes(value), AgentMessage)


def test_what_only_the_partial_of_an_event_tells_is_in_its_block() -> None:
    """
    The specification's events have no `block`: a call's id and name, and a signature, are taken from `partial`.
    """
    read = {event["type"]: load(strategies.json_bytes(event), StreamEvent) for event in SPECIFIED}
    started = fold([read["start"], read["toolcall_start"]])
    assert ("c", "look") == (started.tool_calls[0].id, started.tool_calls[0].name)
    assert "s" == read["text_end"].block.text_signature == read["thinking_end"].block.thinking_signature
    assert read["text_start"].block is None


def test_events_without_their_beginning_are_refused() -> None:
    """
    A delta of a block that never started cannot be put together: the error says what to pass.
    """
    with pytest.raises(FormatError, match=r"block 3, which never started; pass the events from the start on"):
        fold([TextDelta(3, "x")])


def test_a_key_of_ours_inside_extra_does_not_shadow_the_field() -> None:
    """
    Text that merely contains our name takes the slow way and comes out the same.
    """
    value = TextBlock(text='"interlingua"', extra={"some-other": {"interlingua": {"text": "no"}}})
    assert value == load(dump(value), TextBlock)
