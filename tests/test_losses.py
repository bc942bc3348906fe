"""What a conversion could not carry: named field by field, by the table that is asked and no other."""

from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from interlingua.dialects import WIRES
from interlingua.values import losses
from interlingua.values.losses import Loss, dropped, static_losses
from interlingua.values.messages import (
    AssistantMessage,
    CacheMarker,
    Citation,
    CustomMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from interlingua.values.request import Context, Conversation, Entry, ModelDescriptor, Options, Request, ToolSpec
from laws.wires import every_dialect, owner
from strategies import json_values

NAMES = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)


@every_dialect
@given(fields=st.dictionaries(NAMES, json_values(), min_size=1, max_size=4), own=st.booleans())
def test_each_field_of_an_extra_is_lost_by_its_name(name: str, fields: dict[str, Any], own: bool) -> None:
    """
    What only another dialect can say is reported key by key, wherever it stands; what this one can say is not.
    """
    holder = owner(name) if own else "somebody-else"
    block = TextBlock(text="a", extra={holder: fields})
    context = Context(messages=(UserMessage(content=(block,), extra={holder: fields}),))
    request = Request(model=ModelDescriptor(id="m"), context=context, extra={holder: fields})
    found = il.dialect(name).encode_request(request).losses
    places = ("$", "$.messages[0]", "$.messages[0].content[0]")
    expected = {(f"{place}.extra.somebody-else.{key}", key) for place in places for key in fields}
    assert (set() if own else expected) == {(loss.path, loss.what) for loss in found if "somebody-else" in loss.path}
    assert all(loss.path.rpartition(".")[2] in fields for loss in found if ".extra." in loss.path)


def test_fields_of_an_answer_s_envelope_are_lost_by_their_names() -> None:
    """
    What the provider said beside its answer is bookkeeping, and each field of it is named.
    """
    wire = il.dialect("openai-completions")
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi", "x_a": 1}, "finish_reason": "stop"}
    answer = wire.decode_response({"id": "a", "model": "m", "choices": [choice], "system_fingerprint": "f", "x_b": 2})
    lost = {loss.path: loss for loss in il.dialect("anthropic-messages").encode_response(answer).losses}
    envelope = "$.extra.openai-completions.~response"
    assert {f"{envelope}.system_fingerprint", f"{envelope}.x_b", f"{envelope}.~message.x_a"} <= lost.keys()
    assert Loss(f"{envelope}.x_b", "x_b", "only openai-completions supports it", "record") == lost[f"{envelope}.x_b"]


def test_fields_of_an_entry_are_lost_by_their_names() -> None:
    """
    A request has no entries: what other formats say of one is named.
    """
    entry = Entry(message=UserMessage(content="a"), id="1", extra={"openclaw": {"label": "x", "time": 1}})
    lost = {loss.path for loss in il.encode(Conversation(entries=(entry,)), "anthropic-messages").losses}
    assert {f"$.entries[0].extra.openclaw.{key}" for key in ("label", "time")} <= lost


def test_losses_follow_the_table_that_is_asked() -> None:
    """
    However many tables come and go, each report is by its own: none is found again under another's address.
    """
    block = TextBlock(text="a", citations=(Citation(),), cache=CacheMarker(), refusal=True)
    for field in ("citations", "cache", "refusal"):
        tables = [{**dropped(f"TextBlock.{field}")} for _ in range(30)]
        for table in tables:
            assert [field] == [loss.what for loss in static_losses(block, table, "x")]
        del tables, table  # the next ones get the memory of these, unless it is still in use


def test_what_is_remembered_of_tables_does_not_grow() -> None:
    """
    A table that is made for one report leaves nothing behind.
    """
    block = TextBlock(text="a", refusal=True)
    list(static_losses(block, {}, "x"))
    before = losses.field_rows.cache_info().currsize
    for at in range(100):
        list(static_losses(block, dropped("TextBlock.refusal", f"reason {at}"), "x"))
    assert before == losses.field_rows.cache_info().currsize


# --- the walk over a source ------------------------------------------------------------------------------------------

MODEL = ModelDescriptor(id="m", api="x")
BROKEN = "a\ud800"


def found(source: Any, table: dict[str, losses.Support] | None = None, **how: Any) -> list[tuple[str, str, str]]:
    return [(loss.path, loss.what, loss.severity) for loss in static_losses(source, table or {}, "x", **how)]


def test_every_part_of_a_request_has_its_path() -> None:
    call = ToolCall(id="c", name="look", arguments={"deep": [BROKEN]})
    context = Context(
        system=(TextBlock(text=BROKEN),),
        system_role="developer",
        messages=(UserMessage(content=BROKEN), AssistantMessage(content=(TextBlock(text="fine: ä"), call))),
        tools=(ToolSpec(name=BROKEN),),
        extra={"y": {"a": 1}},
    )
    source = Request(
        model=replace(MODEL, name=BROKEN), context=context, options=Options(stop=(BROKEN,)), extra={"x": {"b": 1}}
    )
    assert found(source, dropped("Context.system_role")) == [
        ("$.model.name", "text", "weakened"),
        ("$.system[0].text", "text", "weakened"),
        ("$.systemRole", "system_role", "dropped"),
        ("$.messages[0].content", "text", "weakened"),
        ("$.messages[1].content[1].arguments", "text", "weakened"),
        ("$.tools[0].name", "text", "weakened"),
        ("$.options.stop[0]", "text", "weakened"),
        ("$.context.extra.y.a", "a", "dropped"),
    ]


def ordinary(content: Any = "Hi", **fields: Any) -> Request:
    tool = ToolSpec(name="look", input_schema=fields.pop("schema", {"type": "object"}))
    context = Context(messages=(UserMessage(content="Hi"), AssistantMessage(content=content)), tools=(tool,))
    return Request(model=MODEL, context=context, options=Options(**fields))


@pytest.mark.parametrize(
    "source",
    {
        "text": ordinary(BROKEN),
        "block": ordinary((TextBlock(text=BROKEN),)),
        "arguments": ordinary((ToolCall(id="c", name="look", arguments={"deep": [BROKEN]}),)),
        "key of arguments": ordinary((ToolCall(id="c", name="look", arguments={BROKEN: 1}),)),
        "schema": ordinary(schema={"type": "object", "description": BROKEN}),
        "stop": ordinary(stop=("a", BROKEN)),
        "metadata": ordinary(metadata={"a": BROKEN}),
    }.values(),
)
@pytest.mark.parametrize("name", ["anthropic-messages", "openai-completions", "google-generative-ai", "ollama-chat"])
def test_a_single_broken_text_is_reported_wherever_it_stands(name: str, source: Request) -> None:
    """In a request that has nothing else to report; the quick look before the long one does not overlook it."""
    encoder = il.dialect(name)
    usual = losses.without_records(encoder.encode_request(ordinary()).losses)
    found = losses.without_records(encoder.encode_request(source).losses)
    assert len(found) > len(usual) == 0


@pytest.mark.parametrize("name", ["anthropic-messages", "openai-completions", "google-generative-ai", "ollama-chat"])
def test_a_broken_text_with_no_other_beside_it_is_reported(name: str) -> None:
    broken = AssistantMessage(content=(TextBlock(text=BROKEN),))
    assert losses.without_records(il.dialect(name).encode_response(broken).losses)


def test_every_part_of_a_conversation_has_its_path() -> None:
    entry = Entry(message=UserMessage(content=BROKEN), id="2", parent_id="1", parents=("1",), extra={"y": {"b": 1}})
    source = Conversation(
        entries=(Entry(message=UserMessage(content="a"), id="1"), entry),
        head="2",
        model=replace(MODEL, name=BROKEN),
        system=BROKEN,
        system_role="developer",
        tools=(ToolSpec(name=BROKEN),),
        options=Options(stop=(BROKEN,)),
        title="t",
        usage=Usage(input=1, output=1, cache_read=0, cache_write=0, total_tokens=2),
        extra={"y": {"c": 1}, "context": {"x": {"d": 1}}},
    )
    names = "Context.system_role Entry.id Entry.parent_id Entry.parents Conversation.head"
    assert found(source, dropped(names)) == [
        ("$.model.name", "text", "weakened"),
        ("$.system", "text", "weakened"),
        ("$.systemRole", "system_role", "dropped"),
        ("$.entries[0].id", "id", "dropped"),
        ("$.messages[1].content", "text", "weakened"),
        ("$.entries[1].id", "id", "dropped"),
        ("$.entries[1].parentId", "parent_id", "dropped"),
        ("$.entries[1].parents", "parents", "dropped"),
        ("$.entries[1].extra.y.b", "b", "dropped"),
        ("$.head", "head", "dropped"),
        ("$.title", "title", "record"),
        ("$.usage", "usage", "record"),
        ("$.tools[0].name", "text", "weakened"),
        ("$.options.stop[0]", "text", "weakened"),
        ("$.extra.y.c", "c", "dropped"),
        ("$.context.extra.x.d", "d", "dropped"),
    ]


def test_what_is_beside_the_path_is_lost_as_a_branch_or_as_bookkeeping() -> None:
    """A result that only the journal has is lost; one that a message has too is not."""
    entries = [
        Entry(message=UserMessage(content="a"), id="1"),
        Entry(message=UserMessage(content="other"), id="2", parent_id="1"),
        Entry(message=ToolResultMessage(tool_call_id="told", content="r", is_error=False), id="3", parent_id="1"),
        Entry(message=CustomMessage("journal", {"callId": "told", "result": {}})),
        Entry(message=CustomMessage("journal", {"callId": "untold", "result": {}})),
        Entry(message=CustomMessage("label", {"target": "1"})),
    ]
    source = Conversation(entries=tuple(entries), head="3")
    aside = {at for at, entry in enumerate(entries) if losses.is_aside(entry)}
    assert aside == {3, 4, 5}
    assert found(source, dropped("Conversation.entries")) == [
        ("$.entries[1]", "branch", "dropped"),
        ("$.entries[3]", "journal", "record"),
        ("$.entries[4]", "journal", "dropped"),
        ("$.entries[5]", "label", "record"),
    ]


def test_a_role_of_an_application_is_lost_unless_the_format_has_such_roles() -> None:
    source = Context(messages=(CustomMessage("narrator", {"text": "x"}),))
    lost = [("$.messages[0]", "narrator", "dropped")]
    assert found(source) == lost
    assert found(source, dropped("CustomMessage.role")) == lost
    assert found(source, losses.kept("CustomMessage.role")) == []


def test_a_value_that_decoding_restores_is_not_lost() -> None:
    """Such as the name of the wire; or that of its variant, when it encodes."""
    table = losses.record("ModelDescriptor.api", unless="x")
    assert found(MODEL, table) == []
    assert found(MODEL, table, variant="z") == [("$.api", "api", "record")]
    assert found(replace(MODEL, api="z"), table, variant="z") == []
    assert found(replace(MODEL, api="z"), table) == [("$.api", "api", "record")]
    assert found(MODEL, losses.record("ModelDescriptor.api", unless="y")) == [("$.api", "api", "record")]


def test_defaults_and_empty_values_are_not_lost() -> None:
    block = TextBlock(text="", citations=(), refusal=False)
    assert found(block, dropped("TextBlock.citations TextBlock.refusal")) == []
    assert found(replace(block, refusal=True), losses.some("TextBlock.refusal", "some")) == []


def test_an_extra_of_the_wire_is_lost_where_its_table_drops_it() -> None:
    """Its fields, not how they were spelled; those of other wires are what they would be anywhere."""
    block = TextBlock(text="a", extra={"x": {"own": 1, "~as": 2}, "y": {"other": 1}, "z": 5, "none": None})
    others = [("$.extra.y.other", "other", "dropped"), ("$.extra.z", "z", "dropped")]
    assert found(block) == others
    assert found(block, dropped("TextBlock.extra")) == [("$.extra.x.own", "own", "dropped"), *others]
    assert found(block, losses.record("TextBlock.extra")) == [
        ("$.extra.x.own", "own", "record"),
        ("$.extra.y.other", "other", "record"),
        ("$.extra.z", "z", "record"),
    ]


def test_how_another_wire_spelled_a_value_is_bookkeeping() -> None:
    block = TextBlock(text="a", extra={"y": {"~as": 2, "~": {"b": 1}, "~response": {"id": 1, "~deep": {"c": 1}}}})
    assert found(block) == [
        ("$.extra.y.~as", "spelling", "record"),
        ("$.extra.y.~", "spelling", "record"),
        ("$.extra.y.~response.id", "id", "record"),
        ("$.extra.y.~response.~deep.c", "c", "record"),
    ]


@pytest.mark.parametrize(
    ("owner", "key", "value", "what", "severity"),
    [
        ("y", "z", None, "z", "record"),
        ("y", "n", None, "n", "record"),
        ("y", "n", 1, "n", "record"),
        ("y", "n", 2, "n", "dropped"),
        ("y", "n", True, "n", "dropped"),
        ("y", "z", 1, "z", "dropped"),
        ("y", "synthetic", True, "synthetic", "dropped"),
        ("interlingua", "synthetic", True, "synthetic", "record"),
        ("interlingua", "z", 1, "z", "dropped"),
        ("y", "~choices", [], "spelling", "record"),
        ("y", "~response", {}, "spelling", "record"),
    ],
)
def test_a_field_that_says_nothing_is_bookkeeping(owner: str, key: str, value: Any, what: str, severity: str) -> None:
    """A null, a default that clients state, our own mark, an empty record."""
    found = losses.extra_losses(owner, {key: value}, "$.extra", "why")
    assert [(loss.path, loss.what, loss.severity) for loss in found] == [(f"$.extra.{key}", what, severity)]


def test_fields_inside_what_is_bookkeeping_have_no_loss_of_their_own() -> None:
    """The reason is that of the caller, if there is one."""
    inner = {"~": {"a": {"in": {"z": 1}}}}
    assert [*losses.extra_losses("y", {"~response": {**inner, "b": 1}}, "$.y", "not sent")] == [
        Loss("$.y.~response.~", "spelling", "how y spelled it", "record"),
        Loss("$.y.~response.b", "b", "not sent", "record"),
    ]
    assert [*losses.extra_losses("y", 5, "$.y")] == [Loss("$.y", "y", "only y supports it", "dropped")]


def test_a_model_that_is_asked_again_has_the_same_losses() -> None:
    """Also another model at the address of one that is gone, and however many there were."""
    table = dropped("ModelDescriptor.name")
    for at in range(600):
        source = Request(model=ModelDescriptor(id="m", name=f"n{at}" if at % 3 else None), context=Context(messages=()))
        expected = [("$.model.name", "name", "dropped")] if at % 3 else []
        assert [found(source, table), found(source, table)] == [expected, expected]
    assert len(losses._table(table).models) <= losses._MODELS


# --- reports and results ---------------------------------------------------------------------------------------------


def test_a_report_has_the_path_of_its_position() -> None:
    report = losses.Reporter()
    report.lost("a", "why")
    report.message, report.block = 2, 1
    report.lost("b", "why", "weakened", field="cache")
    system, answer = losses.Reporter(losses.SYSTEM), losses.Reporter("$")
    system.block = answer.block = 0
    system.lost("c", "why")
    answer.lost("d", "why", field="text")
    assert [*report.losses, *system.losses, *answer.losses] == [
        Loss("$.messages[0]", "a", "why", "dropped"),
        Loss("$.messages[2].content[1].cache", "b", "why", "weakened"),
        Loss("$.system[0]", "c", "why", "dropped"),
        Loss("$.content[0].text", "d", "why", "dropped"),
    ]
    report.add([Loss("$.model", "e", "why", "dropped")])
    assert [loss.what for loss in report.losses] == ["a", "b", "e"]
    losses.QUIET.lost("e", "why")
    assert losses.QUIET.losses == []


def test_losses_are_a_sequence_that_is_found_once() -> None:
    calls: list[int] = []
    loss, other = Loss("$.a", "a", "why", "dropped"), Loss("$.b", "b", "why", "record")

    def find() -> tuple[Loss, ...]:
        calls.append(1)
        return (loss, other)

    sequence = losses.Losses(find)
    assert calls == []
    assert (sequence[0], sequence[1:], len(sequence), list(sequence)) == (loss, (other,), 2, [loss, other])
    assert sequence == (loss, other) and sequence == losses.Losses(lambda: (loss, other))
    assert sequence != [loss, other] and sequence != (loss,)
    assert sequence == ANY  # another value may know better
    assert repr(sequence) == repr((loss, other))
    assert calls == [1]


def test_strict_encoding_raises_the_first_loss_that_is_not_bookkeeping() -> None:
    block = TextBlock(text="a", refusal=True, cache=CacheMarker())
    table = {**losses.record("TextBlock.cache"), **dropped("TextBlock.refusal", "no refusals")}
    reported = [Loss("$.text", "text", "why", "weakened")]
    result = losses.encoded("x", {}, block, table, reported)
    assert [loss.path for loss in result.losses] == ["$.text", "$.refusal", "$.cache"]
    with pytest.raises(il.Unsupported, match="text: why") as raised:
        losses.encoded("x", {}, block, table, reported, strict=True)
    assert raised.value.path == "$.text"
    with pytest.raises(il.Unsupported, match="refusal: no refusals"):
        losses.encoded("x", {}, block, table, [], strict=True)
    bookkeeping = losses.encoded("x", {}, replace(block, refusal=False), table, [], strict=True)
    assert [loss.severity for loss in bookkeeping.losses] == ["record"]


def test_a_body_becomes_bytes_by_its_kind() -> None:
    assert losses.Encoded({"a": [1]}, ()).bytes() == b'{"a":[1]}'
    assert losses.Encoded(losses.Lines([{"a": 1}, {"b": 2}]), ()).bytes() == b'{"a":1}\n{"b":2}\n'
    assert losses.Encoded(losses.Text("ä\ud800"), ()).bytes() == "ä\ufffd".encode()


HI = [{"role": "user", "content": "Hi"}]
NESTED: dict[str, tuple[str, dict[str, Any]]] = {  # an unknown field inside an object of which others are known
    "options.mirostat": ("ollama-chat", {"messages": HI, "options": {"temperature": 0.5, "mirostat": 1}}),
    "metadata.team": ("anthropic-messages", {"messages": HI, "metadata": {"user_id": "u", "team": "t"}}),
    "json_schema.x": (
        "openai-completions",
        {
            "messages": HI,
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "x": 1}},
        },
    ),
    "stream_options.x": (
        "openai-completions",
        {"messages": HI, "stream": True, "stream_options": {"include_usage": True, "x": 1}},
    ),
    "reasoning.x": ("openai-responses", {"input": "Hi", "reasoning": {"effort": "low", "x": 1}}),
    "text.verbosity": (
        "openai-responses",
        {"input": "Hi", "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": {}}}},
    ),
    "text": ("openai-responses", {"input": "Hi", "text": {"verbosity": "low", "format": {"type": "text"}}}),
    "inferenceConfig.x": ("bedrock-converse-stream", {"messages": [], "inferenceConfig": {"maxTokens": 5, "x": 1}}),
}


@pytest.mark.parametrize(
    ("message", "path", "what"),
    [
        (UserMessage(content="a\ud83d"), "$.messages[0].content", "text"),
        (UserMessage(content=(TextBlock(text="ä\ud83d"),)), "$.messages[0].content[0].text", "text"),
        (
            AssistantMessage(content="a", extra={"openai-completions": {"~choices": [{"index": 1}]}}),
            "$.messages[0].extra.openai-completions.~choices",
            "answers",
        ),
        (
            AssistantMessage(content="a", extra={"google-generative-ai": {"~others": [{"index": 1}]}}),
            "$.messages[0].extra.google-generative-ai.~others",
            "answers",
        ),
        (
            AssistantMessage(
                content="a", extra={"openai-completions": {"~": {"audio": {"in": {"voice": 1, "~spelled": 2}}}}}
            ),
            "$.messages[0].extra.openai-completions.~.audio.in.voice",
            "audio.voice",
        ),
        (UserMessage(content="a", extra={"other": 5}), "$.messages[0].extra.other", "other"),
        (AssistantMessage(content="a", extra={"other": {"~n": 1, "m": 2}}), "$.messages[0].extra.other.m", "m"),
    ],
    ids=["a string", "a block", "choices", "candidates", "a field inside", "no object", "beside a number"],
)
def test_a_loss_is_found_without_looking_for_bookkeeping(message: Any, path: str, what: str) -> None:
    """
    The quick look before the long one takes nothing for bookkeeping that is none.
    """
    source = Request(model=ModelDescriptor(id="m"), context=Context(messages=(message,)))
    found = losses.without_records(il.dialect("anthropic-messages").encode_request(source).losses)
    assert [(path, what)] == [(loss.path, loss.what) for loss in found]


@pytest.mark.parametrize("what", NESTED)
def test_an_unknown_field_inside_a_known_object_is_a_loss(what: str) -> None:
    """
    It is no spelling: elsewhere it is dropped, and strict mode says so. The wire that has it keeps it.
    """
    api, body = NESTED[what]
    conversation = il.decode(body, api)
    assert body == il.encode(conversation, api).body
    for other in WIRES:
        if WIRES[other].base != api:
            lost = [loss for loss in il.encode(conversation, other).losses if loss.what == what]
            assert ["dropped"] == [loss.severity for loss in lost], other
            assert lost[0].path.startswith(f"$.extra.{api}.")
    with pytest.raises(il.Unsupported):
        il.encode(conversation, "google-generative-ai" if api != "google-generative-ai" else "ollama-chat", strict=True)


def test_an_unknown_field_without_a_value_is_none() -> None:
    """
    As at the top of a request: null sets nothing.
    """
    body = {"messages": HI, "options": {"temperature": 0.5, "mirostat": None}}
    encoded = il.encode(il.decode(body, "ollama-chat"), "openai-completions")
    assert all(loss.severity == "record" for loss in encoded.losses)
