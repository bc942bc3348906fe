"""Streams for clients: what they cannot carry is reported as for whole answers, and they bear an id and a name."""

from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from interlingua.dialects import WIRES, dialect
from interlingua.values import jsontext
from interlingua.values.canonical import dump, load
from interlingua.values.errors import FormatError
from interlingua.values.events import (
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from interlingua.values.folding import fold, unfold
from interlingua.values.messages import AssistantMessage, TextBlock, ToolCall, Usage
from interlingua.values.request import Context, ModelDescriptor, Request
from laws.wires import decode_stream, every_dialect, frames_of, owner, stream_of, streamed
from strategies import assistant_messages, messages_for_answers

# --- losses ----------------------------------------------------------------------------------------------------------


@every_dialect
@given(data=st.data())
def test_a_stream_reports_the_losses_of_the_whole_answer(name: str, data: st.DataObject) -> None:
    """
    At the end, and at any time before: what encoding the message so far would report.
    """
    wire = dialect(name)
    source = dialect(data.draw(st.sampled_from(sorted(WIRES))))
    message = data.draw(st.one_of(assistant_messages(), messages_for_answers(owner(source.API))))
    events = data.draw(
        st.sampled_from(
            [list(unfold(message)), decode_stream(source, [stream_of(source, message)], model="m", timestamp=7)]
        )
    )
    encoder = wire.StreamEncoder()
    assert () == encoder.losses
    for event in events[:-1]:
        encoder.feed(event)
    so_far = events[-2].partial
    note(f"events: {events!r}")
    assert encoder.losses == wire.encode_response(so_far).losses
    encoder.feed(events[-1])
    assert encoder.losses == wire.encode_response(fold(events)).losses
    encoder.close()
    assert encoder.losses == wire.encode_response(fold(events)).losses


@every_dialect
def test_events_from_elsewhere_report_their_losses_at_the_end(name: str) -> None:
    """
    Events that were read from JSON know the message at their end; until then nothing is known to be lost.
    """
    wire = dialect(name)
    message = AssistantMessage(content=(TextBlock(text="a", extra={"else": {"x": 1}}),), stop_reason="stop")
    encoder = wire.StreamEncoder()
    for event in unfold(message):
        encoder.feed(load(dump(event), StreamEvent))
    assert "$.content[0].extra.else.x" in [loss.path for loss in encoder.losses]


# --- ids and names ---------------------------------------------------------------------------------------------------

PLACES = {  # where a body and a stream say the id and the model
    "anthropic-messages": (("id", "model"), "message"),
    "bedrock-invoke-anthropic": (("id", "model"), "message"),
    "vertex-anthropic": (("id", "model"), "message"),
    "openai-completions": (("id", "model"), None),
    "openai-responses": (("id", "model"), "response"),
    "azure-openai-responses": (("id", "model"), "response"),
    "openai-codex-responses": (("id", "model"), "response"),
    "openai-responses-websocket": (("id", "model"), "response"),
    "google-generative-ai": (("responseId", "modelVersion"), None),
    "google-vertex": (("responseId", "modelVersion"), None),
    "google-gemini-cli": (("responseId", "modelVersion"), "response"),
    "google-interactions": (("id", "model"), "interaction"),
    "ollama-chat": (("model",), None),
}
ASKED = Request(model=ModelDescriptor(id="asked-model"), context=Context(messages=()))


@pytest.mark.parametrize("name", sorted(PLACES))
@pytest.mark.parametrize(
    "fields", [{}, {"response_id": "r", "model": "m"}, {"response_id": "r", "response_model": "m"}]
)
def test_an_answer_always_has_an_id_and_a_model(name: str, fields: dict[str, Any]) -> None:
    """
    Clients count on both: an id that the message lacks is made up, the same each time; the model is the one asked for.
    """
    wire = dialect(name)
    keys, inside = PLACES[name]
    message = AssistantMessage(content=(TextBlock(text="Hi"),), stop_reason="stop", timestamp=5, **fields)
    body = wire.encode_response(message, request=ASKED).body
    whole = body["response"] if name == "google-gemini-cli" else body
    expected = [fields.get("response_id") or whole[keys[0]]] if len(keys) > 1 else []
    expected.append("asked-model")
    assert all(expected)
    assert expected == [whole[key] for key in keys]
    encoder = wire.StreamEncoder(request=ASKED)
    stream = b"".join(map(encoder.feed, unfold(message)))
    for frame in frames_of(wire, stream):
        value = jsontext.read(frame.data) if frame.data.startswith(b"{") else {}
        shown = value.get(inside, {}) if inside else value
        if keys[0] in shown and shown.get("object") != "list":
            assert expected == [shown[key] for key in keys], value
    assert wire.decode_response(body).text == "Hi"


def test_generated_ids_differ_between_answers() -> None:
    """
    Another time, model or provider is another answer.
    """
    wire = dialect("anthropic-messages")
    message = AssistantMessage(content=(), stop_reason="stop", provider="p", model="m", timestamp=1)
    others = [replace(message, provider="q"), replace(message, model="n"), replace(message, timestamp=2)]
    ids = [wire.encode_response(each).body["id"] for each in (message, *others)]
    assert len({*ids}) == 4
    assert ids[0] == wire.encode_response(message).body["id"]


def test_the_first_event_tells_the_tokens_that_are_known() -> None:
    """
    Anthropic's clients read the input from `message_start`.
    """
    wire = dialect("anthropic-messages")
    usage = Usage.of(7, 5, cache_read=2)
    message = AssistantMessage(content=(TextBlock(text="Hi"),), stop_reason="stop", usage=usage)
    body = streamed(wire, unfold(message))
    first = jsontext.read(frames_of(wire, body)[0].data)["message"]["usage"]
    assert (7, 2, 0) == (first["input_tokens"], first["cache_read_input_tokens"], first["output_tokens"])
    assert usage == fold(decode_stream(wire, [body])).usage


@every_dialect
@pytest.mark.parametrize(
    "event",
    [
        TextDelta(3, "x"),
        ThinkingDelta(3, "x"),
        ToolCallDelta(3, "{}"),
        TextEnd(3, "x"),
        ToolCallEnd(3, ToolCall(id="a", name="b", arguments={})),
    ],
    ids=lambda event: type(event).__name__,
)
@pytest.mark.parametrize("begun", [True, False])
def test_an_event_of_a_block_that_never_started_is_taken_or_a_clear_error(
    name: str, event: StreamEvent, begun: bool
) -> None:
    """
    Wires that number their blocks cannot write it and say which block; never an error of Python's own.
    """
    encoder = dialect(name).StreamEncoder()
    if begun:
        encoder.feed(Start(AssistantMessage(content=())))
    try:
        encoder.feed(event)
    except FormatError as error:
        assert "block 3, which never started; pass the events from the start on" in str(error)
    encoder.close()
