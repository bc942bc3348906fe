"""Laws 3, 4 and 6: streams mean the same however they are cut, the same as the whole, and always end well."""

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from interlingua.dialects import WIRES, dialect
from interlingua.dialects.framing import Frame
from interlingua.values.canonical import plain
from interlingua.values.events import Done, Error, StreamEvent
from interlingua.values.folding import fold
from interlingua.values.losses import Encoded
from interlingua.values.messages import AssistantMessage, TextBlock, ToolCall
from laws.grammar import faults
from laws.wires import (
    decode_stream,
    every_dialect,
    frames_of,
    owner,
    spelled,
    stream_of,
    streamed,
    through_json,
    understood,
)
from strategies import json_bytes, json_values, messages_for_answers

SIZES = st.sampled_from([None, 1, 2, 7])
GIVEN: dict[str, Any] = {"model": "some-model", "provider": "someone", "timestamp": 1}


# --- law 3 -----------------------------------------------------------------------------------------------------------


@every_dialect
@given(data=st.data(), places=st.lists(st.integers(0, 100_000), max_size=6))
def test_events_do_not_depend_on_how_the_bytes_are_cut(name: str, data: st.DataObject, places: list[int]) -> None:
    """
    However the body of a stream is cut, byte by byte included, the same events come out.
    """
    wire = dialect(name)
    body = stream_of(wire, data.draw(messages_for_answers(owner(name))), data.draw(SIZES))
    whole = decode_stream(wire, [body])
    assert whole == decode_stream(wire, cut_at(body, places))
    assert whole == decode_stream(wire, cut_by(body, 1 if len(body) < 2_000 else 3))


def cut_by(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def cut_at(body: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(borders)]


# --- law 4 -----------------------------------------------------------------------------------------------------------


@every_dialect
@given(data=st.data())
def test_a_stream_amounts_to_the_whole_answer(name: str, data: st.DataObject) -> None:
    """
    The same message sent as a stream, in pieces of any size, and sent whole is read as the same message.
    """
    wire = dialect(name)
    message = data.draw(messages_for_answers(owner(name)))
    encoded = wire.encode_response(message)
    whole = wire.decode_response(through_json(encoded.body), **GIVEN)
    if is_reordered(encoded):
        message = whole
    body = stream_of(wire, message, data.draw(SIZES))
    folded = fold(decode_stream(wire, [body], **GIVEN))
    note(f"stream: {body!r}\nwhole: {wire.encode_response(message).body!r}")
    assert spelled(even(whole, wire.UNEVEN)) == spelled(even(folded, wire.UNEVEN))


@every_dialect
@given(data=st.data())
def test_a_whole_answer_in_place_of_a_stream_is_read_as_such(name: str, data: st.DataObject) -> None:
    """
    A host that was asked for a stream and sends one JSON document is understood; the events are well formed.
    """
    wire = dialect(name)
    body = wire.encode_response(data.draw(messages_for_answers(owner(name)))).bytes()
    events = understood(wire, [Frame(body)], **GIVEN)
    assert faults(events) == []
    whole, folded = wire.decode_response(body, **GIVEN), fold(events)
    assert spelled(even(whole, wire.UNEVEN)) == spelled(even(folded, wire.UNEVEN))


def is_reordered(encoded: Encoded) -> bool:
    """Whether the wire has a place for each kind of block, and so an order of its own, which is not the message's."""
    return any(loss.what == "order" or (loss.path, loss.what) == ("$.content", "content") for loss in encoded.losses)


@every_dialect
@given(data=st.data())
def test_an_answer_that_was_read_streams_as_it_was(name: str, data: st.DataObject) -> None:
    """
    What one stream brought goes out again as a stream that brings the same, however the provider ended it.
    """
    wire = dialect(name)
    message = data.draw(messages_for_answers(owner(name)))
    reasons = sorted(getattr(wire, "STOP_REASONS", {}))
    body = through_json(wire.encode_response(message).body)
    for word in data.draw(st.lists(st.sampled_from(reasons), max_size=1)) if reasons else ():
        body = with_stop(body, word)
    read = wire.decode_response(body, **GIVEN)
    stream = stream_of(wire, read)
    folded = fold(decode_stream(wire, [stream], **GIVEN))
    note(f"body: {body!r}\nstream: {stream!r}")
    assert spelled(even(read, wire.UNEVEN)) == spelled(even(folded, wire.UNEVEN))


@every_dialect
@given(data=st.data(), other=st.sampled_from(sorted(WIRES)))
def test_an_answer_streams_on_to_readers_of_any_wire(name: str, data: st.DataObject, other: str) -> None:
    """
    Live events from any provider, written for this wire as they come, amount to the whole answer in this wire.
    """
    wire, source = dialect(name), dialect(other)
    message = data.draw(messages_for_answers(owner(other)).filter(is_no_refusal))
    events = decode_stream(source, [stream_of(source, message, data.draw(SIZES))], **GIVEN)
    encoded = wire.encode_response(fold(events))
    if is_reordered(encoded):
        return
    whole = wire.decode_response(through_json(encoded.body), **GIVEN)
    stream = streamed(wire, events)
    folded = fold(decode_stream(wire, [stream], **GIVEN))
    note(f"events: {events!r}\nstream: {stream!r}")
    # Deltas show the provider's own spelling of arguments.
    uneven = (*wire.UNEVEN, "$.content[].argumentsText", "$.content[].extra")
    for key in ("content", "stopReason", "usage"):  # the rest of an envelope may be known too late to be streamed
        assert spelled(even(whole, uneven).get(key)) == spelled(even(folded, uneven).get(key)), key


STOPS = ("stop_reason", "finish_reason", "finishReason", "stopReason", "done_reason")


def with_stop(body: Any, word: str) -> Any:
    """The body with the provider's word for the end exchanged, wherever this wire keeps it."""
    if isinstance(body, dict):
        return {key: word if key in STOPS else with_stop(value, word) for key, value in body.items()}
    return [with_stop(item, word) for item in body] if isinstance(body, list) else body


def even(message: AssistantMessage, uneven: tuple[str, ...]) -> Any:
    """The message's JSON without the paths that only one form of an answer carries: `$.content[].parseError`."""
    seen = plain(message)
    for path in uneven:
        without(seen, path.removeprefix("$.").split("."))
    return seen


def without(value: Any, names: list[str]) -> None:
    """Removes what the names lead to, and objects that are left empty by it."""
    if isinstance(value, list):
        for item in value:
            without(item, names)
    elif isinstance(value, dict) and (first := names[0].partition("[")[0]) in value:
        if names[1:]:
            without(value[first], names[1:])
        if not names[1:] or value[first] == {}:
            del value[first]


# --- law 6 -----------------------------------------------------------------------------------------------------------


def is_no_refusal(message: AssistantMessage) -> bool:
    """Whether the model gave an answer; where it declined, some wires call that an error."""
    return not any(isinstance(block, TextBlock) and block.refusal for block in message.content or ())


@every_dialect
@given(data=st.data())
def test_a_good_stream_is_well_formed_and_ends_well(name: str, data: st.DataObject) -> None:
    """
    One start, blocks that open and close, one end; the same grammar that every consumer relies on.
    """
    wire = dialect(name)
    message = data.draw(messages_for_answers(owner(name)).filter(is_no_refusal))
    events = decode_stream(wire, [stream_of(wire, message, data.draw(SIZES))])
    last = events[-1]
    assert faults(events) == []
    assert isinstance(last, Done), last
    assert message.stop_reason == last.reason == last.message.stop_reason


@every_dialect
@given(data=st.data())
def test_a_stream_that_is_cut_off_anywhere_still_ends_well(name: str, data: st.DataObject) -> None:
    """
    Cut after any frame, or inside one, the events are well formed, and what came is kept.
    """
    wire = dialect(name)
    body = stream_of(wire, data.draw(messages_for_answers(owner(name))), data.draw(st.sampled_from([None, 5])))
    frames = frames_of(wire, body)
    for count in range(0, len(frames), 1 + len(frames) // 30):
        assert faults(understood(wire, frames[:count])) == []
    for at in data.draw(st.lists(st.integers(0, len(body)), max_size=8)):
        assert faults(decode_stream(wire, [body[:at]])) == []


def damages(frames: list[Frame], chance: random.Random, garbage: bytes) -> Iterator[list[Frame]]:
    """The same stream after the accidents that upstreams have."""
    at = chance.randrange(len(frames) + 1)
    shuffled = frames[:]
    chance.shuffle(shuffled)
    yield [frame for frame in frames for _ in range(2)]  # every frame twice
    yield frames + frames  # the whole stream twice
    yield frames[:at] + frames[max(0, at - 1) :]  # one frame twice
    yield shuffled
    yield frames[::-1]
    yield frames[1:]  # the start is missing
    yield [*frames[:at], *frames[at + 1 :]]
    yield [*frames[:at], Frame(garbage), *frames[at:]]
    yield [*frames[:at], replace(frames[at - 1], data=garbage), *frames[at:]] if frames else []
    yield [*frames, *frames[-2:], *frames[-1:]]  # the end is told again


@every_dialect
@given(data=st.data(), garbage=st.one_of(st.binary(max_size=8), json_values().map(json_bytes)))
def test_a_damaged_stream_still_ends_well(name: str, data: st.DataObject, garbage: bytes) -> None:
    """
    Frames that repeat, go missing, change places or make no sense never break the grammar of the events.
    """
    wire = dialect(name)
    frames = frames_of(wire, stream_of(wire, data.draw(messages_for_answers(owner(name))), data.draw(SIZES)))
    for damaged in damages(frames, random.Random(data.draw(st.integers(0, 1000))), garbage):
        note(f"frames: {damaged!r}")
        assert faults(understood(wire, damaged)) == []
        each, together = wire.StreamDecoder(), wire.StreamDecoder()
        expected = [event for frame in damaged for event in each.feed(frame)]
        assert expected == together.feed_all(damaged)  # type: ignore[attr-defined]
        assert str(each.failure) == str(together.failure)


@every_dialect
@given(data=st.data())
def test_nothing_comes_after_the_end(name: str, data: st.DataObject) -> None:
    """
    Once the end was given, more input is ignored, and closing again gives nothing.
    """
    wire = dialect(name)
    frames = frames_of(wire, stream_of(wire, data.draw(messages_for_answers(owner(name)))))
    decoder = wire.StreamDecoder()
    events = [event for frame in frames for event in decoder.feed(frame)] + decoder.close()
    assert isinstance(events[-1], Done | Error)
    assert [event for frame in frames for event in decoder.feed(frame)] == []
    assert [] == decoder.close() == decoder.close("again") == decoder.close(aborted=True)


@every_dialect
@given(data=st.data(), aborted=st.booleans())
def test_closing_early_says_why_and_keeps_what_came(name: str, data: st.DataObject, aborted: bool) -> None:
    """
    A stream that its reader or the network ends carries the reason and the text so far.
    """
    wire = dialect(name)
    frames = frames_of(wire, stream_of(wire, data.draw(messages_for_answers(owner(name))), 1))
    decoder = wire.StreamDecoder()
    events = [event for frame in frames[: len(frames) // 2] for event in decoder.feed(frame)]
    if events and isinstance(events[-1], Done | Error):
        return
    before = fold(events).text
    events += decoder.close("the line went dead", aborted=aborted)
    last = events[-1]
    assert faults(events) == []
    assert isinstance(last, Error)
    assert ("aborted" if aborted else "error", "the line went dead", before) == (
        last.reason,
        last.error.error_message,
        last.error.text,
    )


# --- partials --------------------------------------------------------------------------------------------------------


@every_dialect
@given(data=st.data())
def test_each_partial_is_the_fold_of_the_events_so_far(name: str, data: st.DataObject) -> None:
    """
    The message so far, read from an event at once or after the stream is over, is what the events up to it amount to.
    """
    wire = dialect(name)
    frames = frames_of(wire, stream_of(wire, data.draw(messages_for_answers(owner(name))), data.draw(SIZES)))
    decoder = wire.StreamDecoder()
    events: list[StreamEvent] = []
    at_once: list[Any] = []
    for frame in frames:
        for event in decoder.feed(frame):
            events.append(event)
            at_once.append(getattr(event, "partial", None))
    for at, (event, partial) in enumerate(zip(events, at_once, strict=True)):
        assert partial == getattr(event, "partial", None)
        if partial is not None:
            assert fold(events[: at + 1]).content == partial.content


@every_dialect
def test_ids_are_generated_with_or_without_a_number(name: str) -> None:
    """
    A maker of ids may take the number of the call, or nothing; `uuid4` will do.
    """
    wire = dialect(name)
    call = ToolCall(id="given", name="look", arguments={})
    body = stream_of(wire, AssistantMessage(content=(call,), stop_reason="toolUse"))
    for mint in (lambda: "mine", lambda number: f"mine_{number}", "mine_{}".format):
        (made,) = fold(decode_stream(wire, [body], mint=mint)).tool_calls
        assert made.id
        assert made.name == "look"
