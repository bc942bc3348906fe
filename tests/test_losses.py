"""What a conversion could not carry: named field by field, by the table that is asked and no other."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from interlingua.values import losses
from interlingua.values.losses import Loss, dropped, static_losses
from interlingua.values.messages import CacheMarker, Citation, TextBlock, UserMessage
from interlingua.values.request import Context, Conversation, Entry, ModelDescriptor, Request
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
    assert Loss(f"{envelope}.x_b", "x_b", "only openai-completions can say it", "record") == lost[f"{envelope}.x_b"]


def test_fields_of_an_entry_are_lost_by_their_names() -> None:
    """
    A request has no entries: what other formats say of one is named.
    """
    entry = Entry(message=UserMessage(content="a"), id="1", extra={"openclaw": {"label": "x", "time": 1}})
    lost = {loss.path for loss in il.encode(Conversation(entries=(entry,)), "anthropic-messages").losses}
    assert {f"$.entries[0].extra.openclaw.{key}" for key in ("label", "time")} <= lost


@given(st.lists(st.sets(st.sampled_from(["citations", "cache", "refusal"])), min_size=2, max_size=20))
def test_losses_follow_the_table_that_is_asked(tables: list[set[str]]) -> None:
    """
    However many tables come and go, each report is by its own: none is found again under another's address.
    """
    block = TextBlock(text="a", citations=(Citation(),), cache=CacheMarker(), refusal=True)
    for names in tables:
        table = dropped(" ".join(f"TextBlock.{name}" for name in names))
        assert names == {loss.what for loss in static_losses(block, table, "x")}
        del table


def test_what_is_remembered_of_tables_does_not_grow() -> None:
    """
    A table that is made for one report leaves nothing behind.
    """
    block = TextBlock(text="a", refusal=True)
    list(static_losses(block, {}, "x"))
    before = losses._fields.cache_info().currsize
    for at in range(100):
        list(static_losses(block, dropped("TextBlock.refusal", f"reason {at}"), "x"))
    assert before == losses._fields.cache_info().currsize
