"""What is noted for the way back stays here: no wire ever shows a hint of ours."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from interlingua.dialects import WIRES, dialect
from interlingua.dialects.framing import Frame
from interlingua.values import jsontext
from interlingua.values.folding import fold
from interlingua.values.messages import AssistantMessage, TextBlock
from interlingua.values.request import Request
from laws.wires import decode_stream, every_dialect, frames_of, owner, stream_of, streamed, through_json
from strategies import messages_for_answers, requests, usages, with_unknown_fields

# Made-up hints in every place where one may stand, of this wire and of others: none is for its readers.
HINTS = {"~": {"x": {"said": 1}}, "~x": {"~y": 1}, "~response": {"~z": 2, "~": {"id": {"said": "no"}}}}


def shown(value: Any) -> Iterator[str]:
    """The keys in a JSON value that look like hints."""
    if isinstance(value, dict):
        yield from (key for key in value if key.startswith("~"))
        for item in value.values():
            yield from shown(item)
    elif isinstance(value, list):
        for item in value:
            yield from shown(item)


def shown_in(frames: list[Frame]) -> list[str]:
    documents = [jsontext.read(frame.data) for frame in frames if frame.data.strip() != b"[DONE]"]
    return [key for document in documents for key in shown(document)] + [
        frame.event for frame in frames if frame.event.startswith("~")
    ]


@every_dialect
@given(data=st.data())
def test_no_hint_is_in_an_answer(name: str, data: st.DataObject) -> None:
    """
    Whatever an answer holds, as this wire read it or another did: neither its body nor its stream shows a hint.
    """
    wire = dialect(name)
    for source in (wire, dialect(data.draw(st.sampled_from(sorted(WIRES))))):
        own = owner(source.API)
        body = source.encode_response(data.draw(messages_for_answers(own))).body
        message = source.decode_response(without_tildes(data.draw(with_unknown_fields(through_json(body)))))
        for each in (message, with_hints(with_hints(message, owner(name)), own)):
            stream = stream_of(wire, each, data.draw(st.sampled_from([None, 3])))
            note(f"stream: {stream!r}")
            assert list(shown(wire.encode_response(each).body)) == []
            assert shown_in(frames_of(wire, stream)) == []
        passed_on = streamed(wire, decode_stream(source, [stream_of(source, message)]))
        note(f"passed on: {passed_on!r}")
        assert shown_in(frames_of(wire, passed_on)) == []


@every_dialect
@given(data=st.data())
def test_no_hint_is_in_a_request(name: str, data: st.DataObject) -> None:
    """
    Nor does a request show one, as it was read or with answers of this wire in it.
    """
    wire = dialect(name)
    body = through_json(wire.encode_request(data.draw(requests(owner(name), name))).body)
    read = wire.decode_request(without_tildes(data.draw(with_unknown_fields(body))))
    messages = tuple(
        with_hints(message, owner(name)) if isinstance(message, AssistantMessage) else message
        for message in read.context.messages
    )
    stored: Request = replace(read, context=replace(read.context, messages=messages))
    assert list(shown(wire.encode_request(read).body)) == list(shown(wire.encode_request(stored).body)) == []


def without_tildes(value: Any) -> Any:
    """The value without text that would look like a hint and is somebody's own."""
    if isinstance(value, dict):
        return {key.replace("~", "-"): without_tildes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_tildes(item) for item in value]
    return value.replace("~", "-") if isinstance(value, str) else value


def with_hints(message: AssistantMessage, own: str) -> AssistantMessage:
    content = message.content
    if isinstance(content, tuple):
        content = tuple(replace(block, extra=hinted(block.extra, own)) for block in content)
    return replace(message, content=content, extra=hinted(message.extra, own))


def hinted(extra: dict[str, Any], own: str) -> dict[str, Any]:
    return {**extra, own: {**HINTS, **extra.get(own, {})}, "somebody-else": HINTS}


ENVELOPES = st.builds(
    AssistantMessage,
    content=st.just((TextBlock(text="Hi"),)),
    model=st.sampled_from([None, "m"]),
    response_id=st.sampled_from([None, "r"]),
    timestamp=st.one_of(st.none(), st.integers(1_000, 4_000_000_000_000)),
    usage=st.one_of(st.none(), usages()),
    stop_reason=st.sampled_from(["stop", "length"]),
)


@every_dialect
@given(message=ENVELOPES)
def test_an_answer_as_we_say_it_leaves_nothing_to_note(name: str, message: AssistantMessage) -> None:
    """
    A residual is only what encoding would get wrong: what we said ourselves, whole or streamed, has none.
    """
    wire = dialect(name)
    body = wire.encode_response(message).bytes()
    note(f"body: {body!r}")
    whole, streamed = wire.decode_response(body), fold(decode_stream(wire, [stream_of(wire, message)]))
    assert {} == whole.extra == streamed.extra
    assert whole.timestamp == streamed.timestamp


@pytest.mark.parametrize(
    ("name", "created", "timestamp"),
    [
        ("openai-completions", {"created": 1_700_000_000}, 1_700_000_000_000),
        ("openai-responses", {"created_at": 1_700_000_000}, 1_700_000_000_000),
        ("google-interactions", {"created": "2023-11-14T22:13:20Z"}, 1_700_000_000_000),
        ("ollama-chat", {"created_at": "2023-11-14T22:13:20.123Z"}, 1_700_000_000_123),
        ("ollama-chat", {"created_at": "2023-11-14T14:13:20.123456789-08:00"}, 1_700_000_000_123),
    ],
)
def test_the_time_that_a_provider_gives_its_answer_is_the_message_s(
    name: str, created: dict[str, Any], timestamp: int
) -> None:
    """
    It is a field, for every other wire and file to have, not a residual; what the caller gives counts more.
    """
    wire = dialect(name)
    message = AssistantMessage(content=(TextBlock(text="Hi"),), stop_reason="stop", model="m", response_id="r")
    body = through_json(wire.encode_response(message).body) | created
    read = wire.decode_response(body)
    assert timestamp == read.timestamp
    assert body == wire.encode_response(read).body
    assert ("created" in str(read.extra)) == (len(str(created)) > 50)  # but for digits that a timestamp has not
    given = wire.decode_response(body, timestamp=5)
    assert (5, body) == (given.timestamp, wire.encode_response(given).body)
