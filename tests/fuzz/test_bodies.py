"""Any JSON at all into every decoding arrow: a value, or one typed error that names the place."""

from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from fuzz.outcomes import FRAGMENTS, outcome
from interlingua.dialects import WIRES, Dialect, dialect
from interlingua.values.canonical import dump, load
from interlingua.values.errors import InterlinguaError, ProviderError
from interlingua.values.events import Done, Error
from interlingua.values.messages import AssistantMessage
from interlingua.values.request import Conversation, Request
from laws.wires import decode_stream, every_dialect, owner, spelled, stream_of, through_json
from strategies import json_values, messages_for_answers, mutated, requests, wellformed_requests


def read_every_way(wire: Dialect, body: Any) -> None:
    """The body through all arrows; whatever is understood can also be stored."""
    for decode, of in (
        (wire.decode_request, Request),
        (wire.decode_response, AssistantMessage),
        (wire.decode, Conversation),
    ):
        value = outcome(decode, body)
        if not isinstance(value, InterlinguaError):
            assert value == load(dump(value), of)
    for status in (0, 200, 400, 429, 500):
        error = wire.decode_error(status, body, {"retry-after": "soon", "x": "y"})
        assert isinstance(error, ProviderError)
        assert error.message
        assert isinstance(error.status, int)
        outcome(wire.encode_error, error)


@every_dialect
@given(body=json_values())
def test_any_json_is_understood_or_refused(name: str, body: Any) -> None:
    """
    JSON that has nothing to do with the wire.
    """
    read_every_way(dialect(name), body)


@every_dialect
@given(body=st.one_of(st.binary(max_size=40), st.lists(st.sampled_from(FRAGMENTS), max_size=15).map(b"".join)))
def test_any_bytes_are_understood_or_refused(name: str, body: bytes) -> None:
    """
    Bytes that may not even be JSON, also as text.
    """
    read_every_way(dialect(name), body)
    read_every_way(dialect(name), body.decode("utf-8", "surrogateescape"))


@every_dialect
@given(data=st.data())
def test_a_request_that_is_slightly_wrong_comes_back_or_is_refused(name: str, data: st.DataObject) -> None:
    """
    A request with parts missing, exchanged or of another type; what is understood all the same also returns the same.
    """
    wire = dialect(name)
    source = data.draw(st.one_of(requests(owner(name), name), wellformed_requests(own=owner(name))))
    body = data.draw(mutated(through_json(wire.encode_request(source).body)))
    note(f"body: {body!r}")
    read_every_way(wire, body)
    request = outcome(wire.decode_request, body)
    if isinstance(request, Request):
        assert spelled(body) == spelled(wire.encode_request(load(dump(request), Request)).body)


@every_dialect
@given(data=st.data())
def test_an_answer_that_is_slightly_wrong_comes_back_or_is_refused(name: str, data: st.DataObject) -> None:
    """
    The same for whole answers. Each wire writes what was understood, whole and as a stream, that its decoder takes.
    """
    wire = dialect(name)
    body = data.draw(mutated(through_json(wire.encode_response(data.draw(messages_for_answers(owner(name)))).body)))
    note(f"body: {body!r}")
    read_every_way(wire, body)
    message = outcome(wire.decode_response, body)
    if isinstance(message, AssistantMessage):
        assert spelled(body) == spelled(wire.encode_response(load(dump(message), AssistantMessage)).body)
        for target in (name, data.draw(st.sampled_from(sorted(WIRES)))):
            outcome(dialect(target).encode_response, message)
            events = decode_stream(dialect(target), [stream_of(dialect(target), message)])
            assert isinstance(events[-1], Error if message.stop_reason == "error" else Done | Error)


@every_dialect
def test_repeated_keys_and_odd_numbers_do_not_stop_a_reader(name: str) -> None:
    """
    Bodies that only a careless peer writes.
    """
    wire = dialect(name)
    for body in (
        b'{"messages":[],"messages":[]}',
        b'{"model":"a","model":1}',
        b'{"messages":[{"role":"user","content":"a","content":NaN}]}',
        b'{"max_tokens":1e400}',
        b'{"max_tokens":' + b"9" * 5000 + b"}",
        b'{"a":"\\ud800"}',
        b"",
        b"[]",
        b"[[]]",
        b"null",
    ):
        read_every_way(wire, body)
