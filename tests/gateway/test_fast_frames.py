"""Frames that are decoded late: in the end the answer is the same as if each had been decoded by itself."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import interlingua as il
from interlingua.dialects.framing import Frame
from interlingua.dialects.wire import SSE
from interlingua.gateway.fast_frames import FrameDecoder
from interlingua.values.events import Done, Error, TextDelta
from interlingua.values.folding import unfold

APIS = ("anthropic-messages", "openai-completions", "openai-responses", "google-generative-ai", "ollama-chat")
AWS_API = "bedrock-converse-stream"
TEXTS = st.text(st.sampled_from('ab "\\/\n{}:,ping\té\ud83d\ude00'.encode("utf-16", "surrogatepass").decode("utf-16")))


def frames_of(api: str, message: il.AssistantMessage, size: int) -> list[bytes]:
    encoder = il.wire(api).codec.StreamEncoder()
    return [frame for event in unfold(message, size=size) if (frame := encoder.feed(event))] + [encoder.close()]


def frame_decoder(api: str, framing: Any, decoder: Any) -> FrameDecoder:
    facts = il.wire(api).http
    border = b"\n\n" if facts.content_type == SSE else b"\n"
    return FrameDecoder(framing, decoder, varying=facts.varying, border=border)


def decoded(api: str, chunks: list[bytes], deferred: bool) -> tuple[Any, int]:
    """The last event, and how many frames were decoded."""
    codec, count = il.wire(api).codec, 0

    class Counting(codec.StreamDecoder):  # type: ignore[name-defined, misc]
        def feed(self, frame: Any) -> Any:
            nonlocal count
            count += 1
            return super().feed(frame)

    framing, decoder = codec.framing(), Counting(model="m", timestamp=0)
    frames, events = frame_decoder(api, framing, decoder), []
    for chunk in chunks:
        if deferred and api == AWS_API:
            events += frames.feed_frames(framing.feed(chunk))[0]
        elif deferred:
            events += frames.feed(chunk)[0]
        else:
            events += [event for frame in framing.feed(chunk) for event in decoder.feed(frame)]
    events += frames.flush()
    return (events + decoder.close())[-1], count


def varied(api: str, frames: list[bytes], data: st.DataObject) -> list[bytes]:
    """The frames with the fields that real services vary from one to the next, and their line ends."""
    fields = {
        "openai-completions": lambda at: b'"obfuscation":"%b"' % (b"x" * (at % 4)),
        "openai-responses": lambda at: b'"obfuscation":"%b"' % (b"x" * (at % 3)),
        "google-generative-ai": lambda at: (
            b'"usageMetadata": {"promptTokenCount": 3,"candidatesTokenCount": %d,"totalTokenCount": %d}' % (at, at + 3)
        ),
        "ollama-chat": lambda at: b'"created_at":"2025-01-01T00:00:%02dZ"' % (at % 60),
    }
    field = fields.get(api)
    if field is not None and data.draw(st.booleans()):
        frames = [
            frame.replace(b"{", b"{%b," % field(at), 1) if b"{" in frame and b"usageMetadata" not in frame else frame
            for at, frame in enumerate(frames)
        ]
    if api == "google-generative-ai" and data.draw(st.booleans()):
        frames = [frame.replace(b"\n\n", b"\r\n\r\n") for frame in frames]
    return frames


@pytest.mark.parametrize("api", [*APIS, AWS_API])
@given(st.data())
def test_an_answer_does_not_depend_on_when_its_frames_are_decoded(api: str, data: st.DataObject) -> None:
    """Texts, thoughts and calls in pieces of any size, with pings between, cut between any two frames."""
    call = il.ToolCall(id="call_1", name="ping", arguments={"text": data.draw(TEXTS)})
    texts = [il.TextBlock(text=text) for text in data.draw(st.lists(TEXTS.filter(bool), max_size=2))]
    message = il.AssistantMessage(content=(*texts, call), stop_reason="toolUse", usage=il.Usage.of(3, 4))
    frames = varied(api, frames_of(api, message, data.draw(st.integers(1, 6))), data)
    pings = {APIS[0]: b'event: ping\ndata: {"type": "ping"}\n\n', AWS_API: b"", "ollama-chat": b"\n"}
    for at in data.draw(st.lists(st.integers(0, len(frames)), max_size=4)):
        frames.insert(at, pings.get(api, b": ping\n\n"))
    borders = sorted({0, *data.draw(st.lists(st.integers(0, len(frames)), max_size=40)), len(frames)})
    chunks = [b"".join(frames[start:end]) for start, end in pairwise(borders)]
    late, at_once = decoded(api, chunks, True)[0], decoded(api, frames, False)[0]
    assert late == at_once and isinstance(late, Done | Error)


@pytest.mark.parametrize("together", [1, 7, 1000])
@pytest.mark.parametrize("api", [*APIS, AWS_API])
def test_frames_of_plain_text_are_decoded_as_one(api: str, together: int) -> None:
    """A hundred pieces of text cost no more than a few frames, also where they arrive together."""
    message = il.AssistantMessage(content=(il.TextBlock(text="words and " * 100),), stop_reason="stop")
    frames = frames_of(api, message, 10)
    chunks = [b"".join(frames[at : at + together]) for at in range(0, len(frames), together)]
    last, count = decoded(api, chunks, True)
    assert isinstance(last, Done) and message.text == last.message.text
    assert count < 20 < 100 < len(frames)


@given(st.binary(max_size=40))
@example(b'","x":"')
@example(b"\\u00")
@example(b"\\")
@example(b"\xc3")
def test_what_is_no_text_is_decoded_at_once(piece: bytes) -> None:
    """Whatever stands where the text was: it is decoded before it passes, unless it is plain text."""
    before, after = frame_of(b"\0").split(b"\0")
    framing, decoder = il.wire(APIS[0]).codec.framing(), il.wire(APIS[0]).codec.StreamDecoder()
    frames = frame_decoder(APIS[0], framing, decoder)
    frames.feed(frame_of(b"one"))
    frames.feed(frame_of(b"two"))
    assert ([], True) == frames.feed(frame_of(b"three"))
    _, left = frames.feed(before + piece + after)
    plain = all(32 <= byte < 127 for byte in piece) and b'"' not in piece.replace(b'\\"', b"")
    assert plain or not left


def frame_of(text: bytes) -> bytes:
    data = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"}}' % text
    return b"event: content_block_delta\ndata: " + data + b"\n\n"


def test_a_frame_with_more_than_the_text_is_decoded_by_itself() -> None:
    """Its text is there once, also where it begins as the frames before it did."""
    codec = il.wire(AWS_API).codec
    message = il.AssistantMessage(content=(il.TextBlock(text="one two tri "),), stop_reason="stop")
    frames = codec.framing().feed(b"".join(frames_of(AWS_API, message, 4)))
    texts = [frame for frame in frames if frame.event == "contentBlockDelta"]
    at = frames.index(texts[-1]) + 1

    def with_odd(rest: bytes) -> list[Any]:
        odd = Frame(texts[-1].data.replace(b"tri ", b"odd ") + rest, texts[-1].event, texts[-1].headers)
        late = frame_decoder(AWS_API, codec.framing(), codec.StreamDecoder(model="m", timestamp=0))
        return late.feed_frames([*frames[:at], odd, *frames[at:]])[0]

    assert "".join(event.delta for event in with_odd(b" ") if isinstance(event, TextDelta)) == "one two tri odd "
    assert isinstance(with_odd(b"}")[-1], Error)
