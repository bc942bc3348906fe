"""Law 2: nothing is lost in silence, and nothing is reported lost that is still there."""

from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields, replace

import interlingua.values.messages
import interlingua.values.request
from interlingua.dialects import Dialect, dialect
from interlingua.values.canonical import dump, load
from interlingua.values.errors import Unsupported
from interlingua.values.losses import without_records
from interlingua.values.messages import (
    AssistantMessage,
    Block,
    CacheMarker,
    Citation,
    Message,
    SystemMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from interlingua.values.request import (
    Context,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    ToolChoice,
    ToolSpec,
)
from laws.differences import answer_view, differing, is_under, view
from laws.wires import every_dialect, fields_outside, owner, spelled, through_json
from strategies import messages_for_answers, requests, wellformed_requests, with_unknown_fields

MARK = "changed since"


def accounted(wire: Dialect, source: Request, own: str) -> tuple[list[str], list[str]]:
    """The differences that no loss covers, and the losses without a difference."""
    body, losses = wire.encode_request(source)
    note(f"source: {dump(source).decode()}\nbody: {body!r}\nlosses: {losses!r}")
    reported = sorted({loss.path for loss in losses})
    again = wire.decode_request(through_json(body), **fields_outside(wire, source))
    return unaccounted(differing(view(source, own), view(again, own), reported, own), reported)


@every_dialect
@given(data=st.data())
def test_losses_without_bookkeeping_are_the_other_losses(name: str, data: st.DataObject) -> None:
    """
    They are found by a faster look at requests and answers: it overlooks nothing that the walk finds.
    """
    wire, own = dialect(name), owner(name)
    message = data.draw(messages_for_answers(own))
    for encode, source in ((wire.encode_request, data.draw(requests(own, name))), (wire.encode_response, message)):
        expected = tuple(loss for loss in encode(source).losses if loss.severity != "record")
        assert expected == without_records(encode(source).losses)


def unaccounted(found: set[str], reported: list[str]) -> tuple[list[str], list[str]]:
    silent = sorted(path for path in found if not any(is_under(path, loss) for loss in reported))
    idle = [loss for loss in reported if not any(is_under(path, loss) or is_under(loss, path) for path in found)]
    return silent, idle


@every_dialect
@given(data=st.data())
def test_every_difference_is_reported_and_every_report_is_a_difference(name: str, data: st.DataObject) -> None:
    """
    What a request says and what is read back from the wire differ exactly where losses are reported.
    """
    source = data.draw(requests(owner(name), name))
    assert accounted(dialect(name), source, owner(name)) == ([], [])


@every_dialect
@given(data=st.data())
def test_what_an_answer_says_is_lost_only_with_a_report(name: str, data: st.DataObject) -> None:
    """
    The same for the content of a whole answer; its envelope is the wire's own.
    """
    wire, own = dialect(name), owner(name)
    message = data.draw(messages_for_answers(own))
    body, losses = wire.encode_response(message)
    note(f"body: {body!r}\nlosses: {losses!r}")
    reported = [loss.path for loss in losses if loss.path.startswith("$.content")]
    again = wire.decode_response(through_json(body))
    before, after = (answer_view(each, own).get("content", []) for each in (message, again))
    assert unaccounted(differing(before, after, reported, own, "$.content"), reported) == ([], [])


@every_dialect
@given(data=st.data())
def test_ordinary_conversations_lose_only_what_is_reported(name: str, data: st.DataObject) -> None:
    """
    The same for conversations as providers accept them.
    """
    source = data.draw(wellformed_requests(own=owner(name)))
    assert accounted(dialect(name), source, owner(name)) == ([], [])


@every_dialect
@given(data=st.data())
def test_what_was_changed_since_is_not_overruled_by_how_it_was_spelled(name: str, data: st.DataObject) -> None:
    """
    A request that was read, changed and written again says the change, whatever the wire looked like before.
    """
    wire, own = dialect(name), owner(name)
    source = data.draw(st.one_of(wellformed_requests(own=own), requests(own, name)))
    body = data.draw(with_unknown_fields(through_json(wire.encode_request(source).body)))
    note(f"read: {body!r}")
    read = load(dump(wire.decode_request(body)), Request)
    messages = read.context.messages
    places = [at for at, message in enumerate(messages) if changed(message) != message]
    if places:
        at = data.draw(st.sampled_from(places))
        edited = (*messages[:at], changed(messages[at]), *messages[at + 1 :])
        source = replace(read, context=replace(read.context, messages=edited))
        assert accounted(wire, source, own) == ([], [])


def changed(message: Any) -> Any:
    """The message with another text, other arguments, the opposite outcome."""
    if not isinstance(message, UserMessage | AssistantMessage | SystemMessage | ToolResultMessage):
        return message
    content = message.content
    if isinstance(content, str):
        content = MARK
    elif content is not None:
        content = tuple(map(changed_block, content))
    if isinstance(message, ToolResultMessage):
        return replace(message, content=content, is_error=not message.is_error)
    return replace(message, content=content)


def changed_block(block: Block) -> Block:
    if isinstance(block, TextBlock):
        return replace(block, text=MARK)
    if isinstance(block, ToolCall):
        return replace(block, arguments={"changed": [MARK]}, parse_error=None)
    return block


@every_dialect
@given(data=st.data())
def test_an_answer_can_be_sent_back_in_the_next_request(name: str, data: st.DataObject) -> None:
    """
    What an answer said is in the next request, or reported; fields of its envelope are not echoed.
    """
    wire, own = dialect(name), owner(name)
    body = through_json(wire.encode_response(data.draw(messages_for_answers(own))).body)
    answer = load(dump(wire.decode_response({**body, "x_envelope": 1})), AssistantMessage)
    context = Context(messages=(UserMessage(content="a"), answer, UserMessage(content="b")))
    source = Request(model=ModelDescriptor(id="m"), context=context)
    note(f"answer: {body!r}")
    assert accounted(wire, source, own) == ([], [])
    assert "x_envelope" not in spelled(wire.encode_request(source).body)


@every_dialect
@given(data=st.data())
def test_strict_mode_refuses_exactly_what_would_be_lost(name: str, data: st.DataObject) -> None:
    """
    Strict encoding raises Unsupported when anything but bookkeeping is lost, naming the place, and only then.
    """
    wire = dialect(name)
    source = data.draw(st.one_of(requests(owner(name), name), wellformed_requests(own=owner(name))))
    body, losses = wire.encode_request(source)
    real = {loss.path for loss in losses if loss.severity != "record"}
    if real:
        with pytest.raises(Unsupported) as refused:
            wire.encode_request(source, strict=True)
        assert refused.value.path in real
    else:
        assert body == wire.encode_request(source, strict=True).body


@every_dialect
@given(data=st.data())
def test_losses_have_path_what_and_why(name: str, data: st.DataObject) -> None:
    """
    Every loss names its place, what is lost, and why.
    """
    for loss in dialect(name).encode_request(data.draw(requests(owner(name), name))).losses:
        assert loss.path.startswith("$.")
        assert loss.what
        assert loss.why
        assert loss.severity in ("dropped", "weakened", "record")


VALUES: tuple[Any, ...] = (*Block.__args__, *Message.__args__, Citation, CacheMarker, ToolSpec, ToolChoice, Reasoning)
VALUES = (*VALUES, OutputSchema, Options, ModelDescriptor)
ANYWHERE = [
    struct
    for module in (interlingua.values.messages, interlingua.values.request)
    for struct in vars(module).values()
    if isinstance(struct, type) and issubclass(struct, Struct)
]


def names_of(*structs: type) -> set[str]:
    return {f"{struct.__name__}.{field.name}" for struct in structs for field in fields(struct)}


@every_dialect
def test_field_support_names_every_field(name: str) -> None:
    """
    A field that is added to the format is named in the table of each dialect.
    """
    table = dialect(name).FIELD_SUPPORT
    needed = {field for field in names_of(*VALUES) if not field.endswith(".extra")} | {"Context.system_role"}
    assert sorted(needed - table.keys()) == []


@every_dialect
def test_field_support_names_nothing_else(name: str) -> None:
    """
    A misspelled row would say nothing about anything.
    """
    known = names_of(*ANYWHERE) | {"CustomMessage.role", "CustomMessage.fields"}
    assert sorted(dialect(name).FIELD_SUPPORT.keys() - known) == []


@every_dialect
def test_every_support_that_loses_has_a_reason(name: str) -> None:
    """
    The loss matrix is printed from the table; a row without a reason would puzzle its reader.
    """
    assert (
        sorted(
            key for key, support in dialect(name).FIELD_SUPPORT.items() if support.kind != "kept" and not support.why
        )
        == []
    )
