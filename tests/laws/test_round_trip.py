"""Law 1: what a dialect said comes back as it was, through our own JSON, whatever else was in it."""

from itertools import pairwise
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from interlingua.dialects import Dialect, dialect
from interlingua.values.canonical import dump, load
from interlingua.values.messages import AssistantMessage, UserMessage
from interlingua.values.request import Context, Conversation, ModelDescriptor, Request, ToolSpec
from laws.wires import every_dialect, owner, spelled, through_json
from strategies import messages_for_answers, requests, unknown_keys, wellformed_requests, with_unknown_fields


def returned_request(wire: Dialect, body: Any) -> Any:
    """The body after decoding, our JSON, and encoding."""
    note(f"body: {body!r}")
    return wire.encode_request(load(dump(wire.decode_request(body)), Request)).body


def returned_response(wire: Dialect, body: Any) -> Any:
    note(f"body: {body!r}")
    return wire.encode_response(load(dump(wire.decode_response(body)), AssistantMessage)).body


@every_dialect
@given(data=st.data())
def test_a_request_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    """
    A request in the dialect's own words, whatever is in it, returns equal: every signature byte for byte.
    """
    wire = dialect(name)
    source = data.draw(st.one_of(requests(owner(name), name), wellformed_requests(own=owner(name), thinking=True)))
    body = through_json(wire.encode_request(source).body)
    assert spelled(body) == spelled(returned_request(wire, body))


@every_dialect
@given(data=st.data())
def test_unknown_fields_of_a_request_come_back(name: str, data: st.DataObject) -> None:
    """
    Fields that we have never heard of return to their places, at any depth.
    """
    wire = dialect(name)
    source = data.draw(st.one_of(requests(owner(name), name), wellformed_requests(own=owner(name))))
    body = data.draw(with_unknown_fields(through_json(wire.encode_request(source).body)))
    assert spelled(body) == spelled(returned_request(wire, body))


@every_dialect
@given(data=st.data())
def test_an_answer_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    """
    A whole answer returns equal, with and without fields that we have never heard of.
    """
    wire = dialect(name)
    body = through_json(wire.encode_response(data.draw(messages_for_answers(owner(name)))).body)
    assert spelled(body) == spelled(returned_response(wire, body))
    more = data.draw(with_unknown_fields(body))
    assert spelled(more) == spelled(returned_response(wire, more))


@every_dialect
@given(data=st.data())
def test_a_conversation_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    """
    The same request, read and written as a conversation.
    """
    wire = dialect(name)
    source = data.draw(wellformed_requests(own=owner(name)))
    body = data.draw(with_unknown_fields(through_json(wire.encode_request(source).body)))
    note(f"body: {body!r}")
    conversation = load(dump(wire.decode(body)), Conversation)
    assert spelled(body) == spelled(through_json(wire.encode(conversation).body))


@every_dialect
@given(value=unknown_keys(), order=st.permutations(range(3)))
def test_tools_that_the_provider_runs_come_back(name: str, value: dict[str, Any], order: list[int]) -> None:
    """
    A definition that only this wire understands stays untouched, in its place among the other tools.
    """
    wire = dialect(name)
    theirs = ToolSpec(name="x_search", dialect=owner(name), value={"type": "x_search", **value})
    specs = (ToolSpec(name="a", input_schema={"type": "object"}), theirs, ToolSpec(name="b", description="c"))
    context = Context(messages=(UserMessage(content="a"),), tools=tuple(specs[at] for at in order))
    body = through_json(wire.encode_request(Request(model=ModelDescriptor(id="m"), context=context)).body)
    assert spelled(body) == spelled(returned_request(wire, body))
    assert owner(name) in [tool.dialect for tool in wire.decode_request(body).context.tools or ()]


@every_dialect
@given(data=st.data())
def test_encoding_gives_the_same_bytes_each_time(name: str, data: st.DataObject) -> None:
    """
    Equal requests give equal bytes, so that a provider's prompt cache is hit; the source is left as it was.
    """
    wire = dialect(name)
    source = data.draw(requests(owner(name), name))
    before = dump(source)
    first = wire.encode_request(source).bytes()
    assert first == wire.encode_request(load(before, Request)).bytes()
    assert before == dump(source)


@every_dialect
@given(data=st.data())
def test_longer_conversations_begin_with_the_bytes_of_shorter_ones(name: str, data: st.DataObject) -> None:
    """
    Encoding is append-only: more messages change nothing before them, except that the last turn may grow.
    """
    wire = dialect(name)
    source = data.draw(st.one_of(requests(owner(name), name), wellformed_requests(own=owner(name), turns=2)))
    messages = source.context.messages
    bodies = [
        wire.encode_request(replace(source, context=replace(source.context, messages=messages[:count]))).body
        for count in range(len(messages) + 1)
    ]
    for shorter, longer in pairwise(bodies):
        note(f"shorter: {shorter!r}\nlonger: {longer!r}")
        assert grows_into(shorter, longer)


def grows_into(shorter: Any, longer: Any) -> bool:
    """Whether `longer` is `shorter` with more at the end of its lists; of an object that was last, the lists too."""
    if spelled_in_order(shorter) == spelled_in_order(longer):
        return True
    if isinstance(shorter, dict) and isinstance(longer, dict):
        kept = [key for key in longer if key in shorter]
        added = [longer[key] for key in longer if key not in shorter]
        return (
            list(shorter) == kept
            and all(isinstance(value, list) for value in added)
            and all(grows_into(shorter[key], longer[key]) for key in shorter)
        )
    if not isinstance(shorter, list) or not isinstance(longer, list) or len(longer) < len(shorter):
        return False
    *settled, last = shorter or [None]
    return not shorter or (
        spelled_in_order(settled) == spelled_in_order(longer[: len(settled)]) and grows_into(last, longer[len(settled)])
    )


def spelled_in_order(value: Any) -> str:
    return repr(value)
