"""Frames that are decoded late: in the end the answer is the same as if each had been decoded by itself."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import interlingua as il
from interlingua.gateway.fast_frames import FrameDecoder
from interlingua.values.events import Done, Error
from interlingua.values.folding import unfold

APIS = ("anthropic-messages", "openai-completions", "openai-responses", "google-generative-ai")
TEXTS = st.text(st.sampled_from('ab "\\/\n{}:,ping\té\ud83d\ude00'.encode("utf-16", "surrogatepass").decode("utf-16")))


def frames_of(api: str, message: il.AssistantMessage, size: int) -> list[bytes]:
    encoder = il.wire(api).codec.StreamEncoder()
    return [frame for event in unfold(message, size=size) if (frame := encoder.feed(event))] + [encoder.close()]


def decoded(api: str, chunks: list[bytes], deferred: bool) -> tuple[Any, int]:
    """The last event, and how many frames were decoded."""
    codec, count = il.wire(api).codec, 0

    class Counting(codec.StreamDecoder):  # type: ignore[name-defined, misc]
        def feed(self, frame: Any) -> Any:
            nonlocal count
            count += 1
            return super().feed(frame)

    framing, decoder = codec.framing(), Counting(model="m", timestamp=0)
    frames, events = FrameDecoder(framing, decoder), []
    for chunk in chunks:
        if deferred:
            events += frames.feed(chunk)[0]
        else:
            events += [event for frame in framing.feed(chunk) for event in decoder.feed(frame)]
    events += frames.flush()
    return (events + decoder.close())[-1], count


@pytest.mark.parametrize("api", APIS)
@given(st.data())
def test_an_answer_does_not_depend_on_when_its_frames_are_decoded(api: str, data: st.DataObject) -> None:
    """Texts, thoughts and calls in pieces of any size, with pings between, cut between any two frames."""
    call = il.ToolCall(id="call_1", name="ping", arguments={"text": data.draw(TEXTS)})
    texts = [il.TextBlock(text=text) for text in data.draw(st.lists(TEXTS.filter(bool), max_size=2))]
    message = il.AssistantMessage(content=(*texts, call), stop_reason="toolUse", usage=il.Usage.of(3, 4))
    frames = frames_of(api, message, data.draw(st.integers(1, 6)))
    for at in data.draw(st.lists(st.integers(0, len(frames)), max_size=4)):
        frames.insert(at, b'event: ping\ndata: {"type": "ping"}\n\n' if api == APIS[0] else b": ping\n\n")
    borders = sorted({0, *data.draw(st.lists(st.integers(0, len(frames)), max_size=40)), len(frames)})
    chunks = [b"".join(frames[start:end]) for start, end in pairwise(borders)]
    late, at_once = decoded(api, chunks, True)[0], decoded(api, frames, False)[0]
    assert late == at_once and isinstance(late, Done | Error)


@pytest.mark.parametrize("together", [1, 7, 1000])
@pytest.mark.parametrize("api", ["anthropic-messages", "openai-completions"])
def test_frames_of_plain_text_are_decoded_as_one(api: str, together: int) -> None:
    """A hundred pieces of text cost no more than a few frames, also where they arrive together."""
    message = il.AssistantMessage(content=(il.TextBlock(text="words and " * 100),), stop_reason="stop")
    frames = frames_of(api, message, 10)
    chunks = [b"".join(frames[at : at + together]) for at in range(0, len(frames), together)]
    last, count = decoded(api, chunks, True)
    assert isinstance(last, Done) and message.text == last.message.text
    assert count < 10 < 100 < len(frames)


@given(st.binary(max_size=40))
@example(b'","x":"')
@example(b"\\u00")
@example(b"\\")
@example(b"\xc3")
def test_what_is_no_text_is_decoded_at_once(piece: bytes) -> None:
    """Whatever stands where the text was: it is decoded before it passes, unless it is plain text."""
    before, after = frame_of(b"\0").split(b"\0")
    framing, decoder = il.wire(APIS[0]).codec.framing(), il.wire(APIS[0]).codec.StreamDecoder()
    frames = FrameDecoder(framing, decoder)
    frames.feed(frame_of(b"one"))
    frames.feed(frame_of(b"two"))
    assert ([], True) == frames.feed(frame_of(b"three"))
    _, left = frames.feed(before + piece + after)
    plain = all(32 <= byte < 127 for byte in piece) and b'"' not in piece.replace(b'\\"', b"")
    assert plain or not left


def frame_of(text: bytes) -> bytes:
    data = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"}}' % text
    return b"event: content_block_delta\ndata: " + data + b"\n\n"
