"""Folding events into a message and back, and the recorder that every stream decoder writes through."""

from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.values.events import (
    BlockEnd,
    BlockStart,
    Done,
    Error,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from interlingua.values.folding import CUT_OFF, EventRecorder, arguments_text, parse_arguments, settle, unfold
from interlingua.values.messages import (
    AssistantMessage,
    CacheMarker,
    Cost,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
)

EMPTY = AssistantMessage(content=())
IMAGE = ImageBlock(data="AAAA", mime_type="image/png")
CALL = ToolCall(id="c1", name="look", arguments={"at": 1})


# --- fold ------------------------------------------------------------------------------------------------------------


def test_a_stream_without_its_end_is_an_error_with_the_content_so_far() -> None:
    """Blocks that were open are kept with what came of them; what their starts said is part of them."""
    start = Start(AssistantMessage(content=(), model="m"))
    text, thought = TextBlock(text="", cache=CacheMarker()), ThinkingBlock(thinking="", thinking_signature="c2ln")
    events = [
        start,
        ThinkingStart(0, thought),
        ThinkingDelta(0, "Hm"),
        TextStart(1, text),
        TextDelta(1, "So"),
        ToolCallStart(2, replace(CALL, arguments={})),
        ToolCallDelta(2, '{"at": 1'),
    ]
    assert il.fold(events) == AssistantMessage(
        content=(replace(thought, thinking="Hm"), replace(text, text="So"), CALL),
        model="m",
        stop_reason="error",
        error_message=CUT_OFF,
    )


def test_starts_and_ends_may_have_no_block() -> None:
    """As in clawtools' events: a text is then what its end says, a call has neither id nor name before its end."""
    begun = [Start(), ThinkingStart(0), TextStart(1), TextDelta(1, "S"), ToolCallStart(2)]
    assert il.fold(begun).content == (
        ThinkingBlock(thinking=""),
        TextBlock(text="S"),
        ToolCall(id="", name="", arguments={}),
    )
    ended = [*begun, ThinkingEnd(0, "Hm"), TextEnd(1, "So"), ToolCallEnd(2, CALL)]
    assert il.fold(ended).content == (ThinkingBlock(thinking="Hm"), TextBlock(text="So"), CALL)


def test_the_block_of_an_end_is_the_block() -> None:
    """It has more than the deltas: signatures, citations; and blocks that come whole have an end only."""
    text, thought = TextBlock(text="So", cache=CacheMarker()), ThinkingBlock(thinking="Hm", thinking_signature="c2ln")
    events = [
        ThinkingStart(0),
        ThinkingEnd(0, "Hm", thought),
        TextStart(1),
        TextEnd(1, "So", text),
        BlockStart(2),
        BlockEnd(2, IMAGE),
    ]
    assert il.fold(events).content == (thought, text, IMAGE)


def test_the_terminal_event_has_the_last_word() -> None:
    whole = AssistantMessage(content="all", stop_reason="stop")
    failed = AssistantMessage(content="some", stop_reason="aborted")
    assert il.fold([TextStart(0), TextDelta(0, "x"), Done("stop", whole)]) == whole
    assert il.fold([TextStart(0), TextDelta(0, "x"), Error("aborted", failed)]) == failed


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (5, "events must be a list of stream events, not int"),
        (["text"], "a stream event is expected, not str"),
        ([TextDelta(3, "x")], "a delta of block 3, which never started"),
    ],
)
def test_what_is_no_stream_is_refused(events: Any, message: str) -> None:
    with pytest.raises(il.FormatError, match=message):
        il.fold(events)


# --- unfold ----------------------------------------------------------------------------------------------------------


def test_a_stream_starts_with_the_usage_that_is_known_then() -> None:
    """The input, and no output; cost and reasoning are known at the end."""
    usage = Usage(input=5, output=7, cache_read=3, cache_write=2, total_tokens=17, reasoning=4, cost=Cost(total=0.1))
    message = AssistantMessage(content="x", usage=usage, stop_reason="stop", stop_detail="end_turn")
    start, *_, done = unfold(message)
    assert isinstance(start, Start) and isinstance(done, Done)
    assert start.partial == AssistantMessage(
        content=(), usage=Usage(input=5, output=0, cache_read=3, cache_write=2, total_tokens=10)
    )
    assert done.message == message


def test_a_message_is_unfolded_block_by_block() -> None:
    """With one delta each, or several of the wanted size; a block without text has none."""
    message = AssistantMessage(content=(ThinkingBlock(thinking="Hm."), TextBlock(text="So."), CALL, IMAGE))
    events = list(unfold(message))
    assert [type(event) for event in events] == [
        *(Start, ThinkingStart, ThinkingDelta, ThinkingEnd, TextStart, TextDelta, TextEnd),
        *(ToolCallStart, ToolCallDelta, ToolCallEnd, BlockStart, BlockEnd, Done),
    ]
    assert events[7] == ToolCallStart(2, replace(CALL, arguments={}))
    assert [event.delta for event in unfold(message, size=2) if hasattr(event, "delta")] == [
        *("Hm", "."),
        *("So", "."),
        *('{"', "at", '":', "1}"),
    ]
    assert [type(event) for event in unfold(AssistantMessage(content=(TextBlock(text=""),)))] == [
        *(Start, TextStart, TextEnd, Done)
    ]


def test_the_text_of_arguments_is_streamed_as_it_was_spelled() -> None:
    """And is no part of the call before its end."""
    call = ToolCall(id="c", name="n", arguments={}, arguments_text="{ not json", parse_error="bad")
    events = list(unfold(AssistantMessage(content=(call,), stop_reason="toolUse")))
    assert events[1:4] == [
        ToolCallStart(0, ToolCall(id="c", name="n", arguments={})),
        ToolCallDelta(0, "{ not json"),
        ToolCallEnd(0, call),
    ]


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}', ({"a": 1}, None, None)),
        ('{"a": 1}', ({"a": 1}, '{"a": 1}', None)),
        ("", ({}, "", None)),
        (" ", ({}, " ", None)),
        ("[1]", ({}, "[1]", "the arguments are not a JSON object")),
    ],
)
def test_the_text_of_arguments_is_kept_where_it_is_not_compact(text: str, expected: Any) -> None:
    assert parse_arguments(text) == expected


def test_arguments_that_are_no_json_have_an_error() -> None:
    arguments, text, error = parse_arguments('{"a": ')
    assert (arguments, text) == ({}, '{"a": ')
    assert error


def test_the_spelling_of_changed_arguments_is_dropped() -> None:
    call = ToolCall(id="c", name="n", arguments={"a": 1}, arguments_text='{"a": 1}')
    assert arguments_text(call) == '{"a": 1}'
    assert arguments_text(replace(call, arguments={"a": 2})) == '{"a":2}'
    assert arguments_text(replace(call, arguments_text=None)) == '{"a":1}'


# --- the recorder ----------------------------------------------------------------------------------------------------


def test_a_block_that_is_opened_again_is_closed_first() -> None:
    """With the text inside the new one as its first delta."""
    recorder = EventRecorder(EMPTY)
    recorder.open("a", TextBlock(text=""))
    recorder.delta("a", "one")
    recorder.open("a", TextBlock(text="two"))
    recorder.finish("stop")
    assert recorder.take() == [
        Start(EMPTY),
        *(TextStart(0), TextDelta(0, "one"), TextEnd(0, "one")),
        *(TextStart(1), TextDelta(1, "two"), TextEnd(1, "two")),
        Done("stop", AssistantMessage(content=(TextBlock(text="one"), TextBlock(text="two")), stop_reason="stop")),
    ]
    assert recorder.take() == []


def test_a_closed_block_takes_no_more() -> None:
    recorder = EventRecorder(EMPTY)
    recorder.open(0, TextBlock(text=""))
    assert (recorder.is_open(0), recorder.has(0), recorder.has(1), recorder.is_open(1)) == (True, True, False, False)
    recorder.delta(0, "So")
    recorder.delta(0, "")
    assert recorder.open_keys() == [0]
    recorder.close(0)
    recorder.take()
    recorder.delta(0, "late")
    recorder.close(0)
    assert (recorder.take(), recorder.text(0), recorder.block(0)) == ([], "So", TextBlock(text="So"))
    assert (recorder.is_open(0), recorder.has(0), recorder.open_keys()) == (False, True, [])


def test_nothing_follows_the_terminal_event() -> None:
    recorder = EventRecorder(EMPTY)
    recorder.finish("stop")
    recorder.finish("length")
    recorder.fail("no")
    recorder.end(AssistantMessage(content="x"))
    assert [type(event) for event in recorder.take()] == [Start, Done]


def test_a_delta_is_text() -> None:
    recorder = EventRecorder(EMPTY)
    recorder.open(0, TextBlock(text=""))
    with pytest.raises(TypeError, match="a delta must be text, not int"):
        recorder.delta(0, 5)  # type: ignore[arg-type]


def test_text_that_comes_with_the_end_is_a_delta_too() -> None:
    """If there was none before."""
    recorder = EventRecorder(EMPTY)
    recorder.open(0, TextBlock(text=""))
    recorder.close(0, TextBlock(text="So"))
    recorder.open(1, TextBlock(text="S"))
    recorder.close(1, TextBlock(text="So"))
    assert recorder.take()[1:] == [
        *(TextStart(0), TextDelta(0, "So"), TextEnd(0, "So")),
        *(TextStart(1), TextDelta(1, "S"), TextEnd(1, "So")),
    ]


def test_a_block_that_became_another_kind_ends_as_a_whole_one() -> None:
    recorder = EventRecorder(EMPTY)
    recorder.open(0, TextBlock(text=""))
    recorder.close(0, IMAGE)
    assert recorder.take()[1:] == [TextStart(0), BlockEnd(0, IMAGE)]


def test_arguments_are_parsed_when_the_call_ends() -> None:
    recorder = EventRecorder(EMPTY)
    for key, pieces in enumerate((('{"at"', ":1}"), ('{"at": 1}',), ("{",), ())):
        recorder.open(key, ToolCall(id=f"c{key}", name="look", arguments={}))
        for piece in pieces:
            recorder.delta(key, piece)
    recorder.finish(None)
    message = il.fold(recorder.take())
    calls = [(call.arguments, call.arguments_text, bool(call.parse_error)) for call in message.tool_calls]
    assert calls == [({"at": 1}, None, False), ({"at": 1}, '{"at": 1}', False), ({}, "{", True), ({}, None, False)]
    assert message.stop_reason == "toolUse"


def test_deltas_of_several_blocks_may_alternate() -> None:
    """The partial of each event has what came before it, of every block."""
    recorder = EventRecorder(EMPTY)
    for key in (0, 1):
        recorder.open(key, TextBlock(text=""))
    for key, piece in ((0, "a"), (1, "b"), (1, "c"), (0, "d")):
        recorder.delta(key, piece)
    deltas = [event for event in recorder.take() if isinstance(event, TextDelta)]
    texts = [tuple(block.text for block in event.partial.content) for event in deltas]  # type: ignore[union-attr]
    assert texts == [("a", ""), ("a", "b"), ("a", "bc"), ("ad", "bc")]


def test_partials_may_be_read_in_any_order() -> None:
    """The partial of an early event does not change when that of a later one was read before."""
    recorder = EventRecorder(EMPTY)
    recorder.open(0, TextBlock(text=""))
    for piece in "abc":
        recorder.delta(0, piece)
    deltas = [event for event in recorder.take() if isinstance(event, TextDelta)]
    for order in ((2, 0, 1), (1, 0, 2), (0, 1, 2)):
        assert ["abc"[: at + 1] for at in order] == [deltas[at].partial.text for at in order]  # type: ignore[union-attr]


@pytest.mark.parametrize("empty", [TextBlock(text=""), ToolCall(id="c", name="write", arguments={})], ids=type)
def test_partials_of_long_blocks_do_not_depend_on_those_read_before(empty: Any) -> None:
    """Nor on the order; long arguments are parsed again only now and then, so a sixteenth of them may be missing."""

    def deltas() -> list[Any]:
        recorder = EventRecorder(EMPTY)
        recorder.open(0, empty)
        for piece in ('{"text":"', *["walrus " * 300] * 30, '"}'):
            recorder.delta(0, piece)
        return [event for event in recorder.take() if isinstance(event, TextDelta | ToolCallDelta)]

    def read(event: Any) -> str:
        (block,) = event.partial.content
        return block.text if isinstance(block, TextBlock) else str(block.arguments.get("text", ""))

    size, events = 0, deltas()
    for at, event in enumerate(events):
        size += len(event.delta)
        assert read(event) == read(deltas()[at])
        written = size if isinstance(event, TextDelta) else size - len('{"text":"')
        assert written * 15 / 16 - 2 <= len(read(event)) <= written
        assert len(read(event)) >= written - 2 or (size > 16 * 1024 and isinstance(event, ToolCallDelta))
    assert {len(read(event)) for event in reversed(events)} == {len(read(event)) for event in events}


def test_blocks_are_in_the_order_of_their_indices() -> None:
    """Whatever the order in which they start; text that comes later stays with its block."""
    events = [Start(EMPTY), TextStart(2), TextDelta(2, "c"), TextStart(0), TextStart(1), TextDelta(0, "a")]
    events += [TextDelta(1, "b"), TextDelta(2, "d"), TextEnd(0, "a")]
    assert ["a", "b", "cd"] == [block.text for block in il.fold(events).content]  # type: ignore[union-attr]


def test_fields_beside_the_content_are_in_later_partials() -> None:
    recorder = EventRecorder(EMPTY)
    recorder.open(0, TextBlock(text="a"))
    recorder.note(response_id="r1")
    recorder.delta(0, "b")
    first, second = (event for event in recorder.take() if isinstance(event, TextDelta))
    assert (first.partial.response_id, second.partial.response_id) == (None, "r1")
    recorder.finish("stop")
    assert il.fold(recorder.take()).response_id == "r1"


def test_a_block_that_comes_whole_is_in_no_partial_before_its_end() -> None:
    recorder = EventRecorder(EMPTY)
    recorder.open(0, IMAGE)
    recorder.close(0, IMAGE)
    start, end = recorder.take()[1:]
    assert (start, end) == (BlockStart(0), BlockEnd(0, IMAGE))
    assert (start.partial.content, end.partial.content) == ((), (IMAGE,))  # type: ignore[union-attr]


def test_every_block_and_the_message_are_restored_and_scrubbed() -> None:
    """Names of tools as the conversation has them; nothing that must not be shown."""
    recorder = EventRecorder(EMPTY)
    recorder.restore = lambda block: replace(block, name="look up!") if isinstance(block, ToolCall) else block
    recorder.scrub = lambda message: replace(message, error_message="***") if message.error_message else message
    recorder.whole(0, CALL)
    recorder.note(error_message="key")
    assert recorder.base.error_message == "***"
    recorder.end(AssistantMessage(content=(CALL,), stop_reason="error", error_message="key"))
    start, _, end, error = recorder.take()[1:]
    assert isinstance(start, ToolCallStart) and isinstance(end, ToolCallEnd) and isinstance(error, Error)
    assert start.block is not None
    assert {start.block.name, end.tool_call.name, error.error.tool_calls[0].name} == {"look up!"}
    assert error.error.error_message == "***"


# --- the stop reason -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "content", "settled"),
    [
        ("stop", (), "stop"),
        ("stop", (CALL,), "toolUse"),
        ("toolUse", (TextBlock(text="x"),), "stop"),
        ("length", (CALL,), "length"),
        ("error", (CALL,), "error"),
        ("aborted", (CALL,), "aborted"),
        (None, (), "error"),
        (None, (TextBlock(text="x"),), "stop"),
        (None, (CALL,), "toolUse"),
    ],
)
def test_a_stop_reason_is_settled_by_the_content(reason: Any, content: Any, settled: str) -> None:
    assert settle(reason, content) == settled


@pytest.mark.parametrize(
    ("given", "detail", "message"),
    [
        ((None, "weird"), "weird", "the provider stopped: weird"),
        ((None,), None, "the provider stopped: no reason given"),
        (("error", "filter", "too rude"), "filter", "too rude"),
    ],
)
def test_a_stop_that_is_an_error_has_a_message(given: Any, detail: str | None, message: str) -> None:
    recorder = EventRecorder(EMPTY)
    recorder.finish(*given)
    assert recorder.take()[-1] == Error(
        "error", AssistantMessage(content=(), stop_reason="error", stop_detail=detail, error_message=message)
    )


@pytest.mark.parametrize(("aborted", "reason"), [(False, "error"), (True, "aborted")])
def test_a_stream_that_failed_keeps_what_came(aborted: bool, reason: str) -> None:
    recorder = EventRecorder(EMPTY)
    recorder.open(0, TextBlock(text="So"))
    recorder.fail("no", aborted=aborted, detail="d")
    last = recorder.take()[-1]
    assert isinstance(last, Error)
    assert (last.reason, last.error.text, last.error.stop_detail) == (reason, "So", "d")
    assert (last.error.stop_reason, last.error.error_message) == (reason, "no")
