"""Any bytes at all into every stream reader: events come out, well formed, and nothing is raised."""

import itertools
import tracemalloc

from hypothesis import given, note
from hypothesis import strategies as st

from fuzz.outcomes import FRAGMENTS
from interlingua.dialects import dialect
from interlingua.dialects.framing import DEFAULT_LIMIT, Frame
from interlingua.values import jsontext
from interlingua.values.errors import BadWire
from interlingua.values.events import Error
from interlingua.values.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from laws.grammar import faults
from laws.wires import decode_stream, every_dialect, frames_of, owner, stream_of, understood
from strategies import json_bytes, json_values, messages_for_answers, mutated

ANSWER = AssistantMessage(
    content=(
        ThinkingBlock(thinking="hm 🙂", thinking_signature="c2ln"),
        TextBlock(text='"é\n'),
        ToolCall(id="call_1", name="a", arguments={"a": [1, {"b": None}]}),
    ),
    stop_reason="toolUse",
)


@every_dialect
@given(body=st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(FRAGMENTS), max_size=20).map(b"".join)))
def test_any_bytes_end_in_an_error_event(name: str, body: bytes) -> None:
    """
    What is no stream at all is reported as one error event after a start.
    """
    events = decode_stream(dialect(name), [body])
    assert faults(events) == []
    assert isinstance(events[-1], Error)
    assert events[-1].error.error_message


@every_dialect
@given(values=st.lists(json_values().map(json_bytes), max_size=4), event=st.sampled_from(["", "error", "chunk", "x"]))
def test_any_json_in_frames_gives_well_formed_events(name: str, values: list[bytes], event: str) -> None:
    """
    Frames whose JSON has nothing to do with the wire.
    """
    assert faults(understood(dialect(name), [Frame(value, event) for value in values])) == []


@every_dialect
@given(data=st.data())
def test_frames_that_are_slightly_wrong_give_well_formed_events(name: str, data: st.DataObject) -> None:
    """
    A valid stream in which parts of the frames are missing, exchanged or of another type.
    """
    wire = dialect(name)
    frames = frames_of(wire, stream_of(wire, data.draw(messages_for_answers(owner(name))), 5))
    values = data.draw(mutated([json_value(frame) for frame in frames], 4))
    if isinstance(values, list):
        shells = itertools.chain(frames, itertools.repeat(Frame(b"")))
        wrong = [
            Frame(json_bytes(value), shell.event, shell.headers) for value, shell in zip(values, shells, strict=False)
        ]
        note(f"frames: {wrong!r}")
        assert faults(understood(wire, wrong)) == []


def json_value(frame: Frame) -> object:
    return None if frame.data == b"[DONE]" else jsontext.read(frame.data)


@every_dialect
def test_a_stream_cut_at_any_byte_ends_well_and_keeps_what_came(name: str) -> None:
    """
    Truncation at every single byte, also inside a character, an escape, a frame's header.
    """
    wire = dialect(name)
    body = stream_of(wire, ANSWER)
    text = ANSWER.text
    for at in range(len(body)):
        events = decode_stream(wire, [body[:at]])
        assert faults(events) == []
        last = events[-1]
        message = last.error if isinstance(last, Error) else last.message  # type: ignore[union-attr]
        assert text.startswith(message.text)


@every_dialect
def test_odd_json_inside_a_frame_ends_the_stream_with_an_error(name: str) -> None:
    """
    A nesting bomb, NaN and broken text inside a frame are an error event, at once.
    """
    for odd in (b"[" * 100_000, b'{"a":' * 100_000, b'{"a":NaN}', b"{", b"\xff", b'"', b""):
        events = understood(dialect(name), [Frame(odd)])
        assert faults(events) == []
        assert isinstance(events[-1], Error)


@every_dialect
def test_an_endless_frame_does_not_fill_the_memory(name: str) -> None:
    """
    A peer that never ends its line or document is refused at the limit, and what was held is given back.
    """
    framing = dialect(name).framing()
    chunk = b'{"a":"' + b"x" * (1 << 22)
    tracemalloc.start()
    try:
        for _ in range(2 * DEFAULT_LIMIT // len(chunk)):
            framing.feed(chunk)
        refused = False
    except BadWire:
        refused = True
    finally:
        current, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert refused
    assert current < 1 << 20
    assert most < 3 * DEFAULT_LIMIT
