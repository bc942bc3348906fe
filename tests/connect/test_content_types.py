"""A body is read as what it is: by its first bytes, whatever its content type claims."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

import interlingua as il
from interlingua.connect.client import Client
from interlingua.dialects import WIRES
from interlingua.dialects.framing import actual_type, write_sse
from interlingua.testing import Server, Split
from interlingua.testing.faults import Answer, Piece
from laws.grammar import faults
from laws.wires import decode_stream, frames_of

REPLY = il.AssistantMessage(
    content=(il.TextBlock(text="The answer."), il.ToolCall(id="call_1", name="look", arguments={"at": [1, "x"]})),
    usage=il.Usage.of(7, 3),
    stop_reason="toolUse",
)
LABELS = ["application/json", "text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream", ""]


@dataclass(frozen=True)
class Labelled:
    """The answer under any content type, its frames written otherwise, after padding."""

    times: ClassVar[None] = None
    replaces: ClassVar[bool] = False

    label: str
    form: str = "as it is"
    padding: bytes = b""

    def apply(self, answer: Answer) -> Answer:
        body = b"".join(step.data for step in answer.steps if isinstance(step, Piece))
        if self.form != "as it is":
            body = self._written(answer.api, body)
        steps = (Piece(self.padding), Piece(body, True)) if self.padding else (Piece(body, True),)
        return replace(answer, headers={**(answer.headers or {}), "content-type": self.label}, steps=steps)

    def _written(self, api: str, body: bytes) -> bytes:
        wire = il.dialect(api)
        if self.form == "whole":
            return wire.encode_response(il.fold(decode_stream(wire, [body]))).bytes()
        frames = [frame for frame in frames_of(wire, body) if frame.data != b"[DONE]"]
        if self.form == "events":
            return b"".join(write_sse(frame.data, frame.event) for frame in frames)
        if api == "bedrock-converse-stream":  # the name of the event stands around it
            return b"".join(b'{"%s":%s}\n' % (frame.event.encode(), frame.data) for frame in frames)
        return b"".join(frame.data + b"\n" for frame in frames)


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.clear()
    return running


async def asked(server: Server, api: str, *more: Any) -> il.AssistantMessage:
    """The answer that comes of it, as the caller sees it, without what differs from call to call."""
    server.answer(REPLY, fault=more)
    model = il.ModelDescriptor(id="m", api=api, provider="somewhere", base_url=server.base_url(api))
    stream = Client().stream(model, "Hi", api_key="none", timeout=20, retry=0)
    assert faults([event async for event in stream]) == []
    assert stream.failure is None, stream.failure
    assert stream.message is not None
    return stream.message


def seen(message: il.AssistantMessage) -> Any:
    blocks = [(type(b).__name__, getattr(b, "text", getattr(b, "arguments", None))) for b in message.content or ()]
    usage = message.usage
    return blocks, message.stop_reason, usage and (usage.input, usage.output)


@pytest.mark.parametrize("api", sorted(WIRES))
@pytest.mark.parametrize("label", LABELS)
async def test_a_stream_is_read_whatever_its_label(server: Server, api: str, label: str) -> None:
    """
    Events labelled as JSON, AWS frames labelled as events, or nothing at all: the same answer comes out.
    """
    expected = seen(await asked(server, api))
    assert expected == seen(await asked(server, api, Labelled(label)))
    assert expected == seen(await asked(server, api, Labelled(label), Split(1)))


@pytest.mark.parametrize("api", sorted(WIRES))
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("form", ["whole", "lines", "events"])
async def test_an_answer_is_read_in_any_form(server: Server, api: str, label: str, form: str) -> None:
    """
    An answer that comes whole, as JSON lines or as server-sent events is read, also under a wrong label and padding.
    """
    expected = seen(await asked(server, api))
    assert expected == seen(await asked(server, api, Labelled(label, form)))
    assert expected == seen(await asked(server, api, Labelled(label, form, b" \n\n ")))


@pytest.mark.parametrize("api", sorted(WIRES))
async def test_a_page_for_people_is_told_from_an_answer(server: Server, api: str) -> None:
    """
    A web page under the label of an answer is an error that says what to look at.
    """
    server.answer("Hi", fault=Page())
    model = il.ModelDescriptor(id="m", api=api, provider="somewhere", base_url=server.base_url(api))
    with pytest.raises(il.BadWire, match="got a web page instead of an answer; check the base URL"):
        await Client().complete(model, "Hi", api_key="none", timeout=20, retry=0)


@dataclass(frozen=True)
class Page(Labelled):
    """A login page, under the label of the wire."""

    label: str = ""

    def apply(self, answer: Answer) -> Answer:
        return replace(answer, steps=(Piece(b"\n<!DOCTYPE html><html>Please log in.</html>", True),))


HEADS = [
    (b"", None),
    (b" \r\n\t", None),
    (b"\xef\xbb\xbf", None),
    (b"d", None),
    (b"dat", None),
    (b"data:", "text/event-stream"),
    (b"\xef\xbb\xbfevent: x", "text/event-stream"),
    (b"\n: ping", "text/event-stream"),
    (b" {", "application/json"),
    (b"[", "application/json"),
    (b"<", "text/html"),
    (b"\x00\x00\x00\x80", "application/vnd.amazon.eventstream"),
    (b"upstream error", "text/plain"),
    (b"datum", "text/plain"),
]


@pytest.mark.parametrize(("head", "kind"), HEADS)
def test_the_first_bytes_tell_the_type(head: bytes, kind: str | None) -> None:
    """
    As few bytes as will do; what they do not contradict stays as declared.
    """
    assert kind == actual_type(head, "text/plain")
    if kind == "application/json":
        assert actual_type(head, "application/x-ndjson") == "application/x-ndjson"
