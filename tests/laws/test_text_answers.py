"""`Wire.text_answer` reads plain answers as decoding does, and leaves all others to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.dialects import WIRES
from interlingua.gateway.recall import _holds_more
from interlingua.values import jsontext
from interlingua.values.messages import AssistantMessage, TextBlock, ToolCall, Usage
from laws.wires import owner
from strategies import messages_for_answers

WITH_TEXT_ANSWER = [api for api, wire in WIRES.items() if wire.text_answer is not None and wire.base == api]
NAMES_TIER = ("openai-completions", "openai-responses", "bedrock-converse-stream")  # beside the usage
TEXT = AssistantMessage(
    content=(TextBlock(text="Hällo"),), model="m", stop_reason="stop", usage=Usage.of(10, 5), response_id="r1"
)


@pytest.mark.parametrize("api", WITH_TEXT_ANSWER)
def test_the_usage_of_a_text_is_read(api: str) -> None:
    """
    The usual answer needs no decoding; one with a call does, and one that is cut off.
    """
    wire = WIRES[api]
    assert wire.text_answer is not None
    body = wire.codec.encode_response(TEXT).bytes()
    found = wire.text_answer(body)
    assert found is not None and found.usage == wire.codec.decode_response(body).usage
    assert found.model in (None, "m") and found.id in ("", "r1")
    call = AssistantMessage(
        content=(ToolCall(id="c1", name="f", arguments={}),), stop_reason="toolUse", usage=Usage.of(10, 5)
    )
    assert wire.text_answer(wire.codec.encode_response(call).bytes()) is None
    assert wire.text_answer(body[:-1]) is None


@pytest.mark.parametrize("api", WITH_TEXT_ANSWER)
@given(data=st.data())
def test_it_is_the_usage_of_the_decoded_answer(api: str, data: st.DataObject) -> None:
    """
    Whatever an answer is: where it is read, it ended well and has the ordinary price. There is nothing in it to be
    restored later, or it is stored under its id, its text and the ids of its items.
    """
    wire = WIRES[api]
    assert wire.text_answer is not None
    body = wire.codec.encode_response(data.draw(messages_for_answers(owner(api)))).bytes()
    found = wire.text_answer(body)
    if found is not None:
        answer = wire.codec.decode_response(body)
        assert answer.usage == found.usage
        assert answer.stop_reason in ("stop", "length") and (found.id or not _holds_more(answer))
        if found.id:
            assert (found.id, found.text) == (answer.response_id, answer.text) and wire.http.item_blocks is not None
            assert found.items == tuple(wire.http.item_blocks(answer))


@pytest.mark.parametrize("api", WITH_TEXT_ANSWER)
def test_an_answer_of_another_tier_is_decoded(api: str) -> None:
    """
    Its price is in the whole answer.
    """
    wire = WIRES[api]
    assert wire.text_answer is not None
    body = wire.codec.encode_response(TEXT).body
    for tier in ("flex", {"type": "priority"}):
        found = wire.text_answer(jsontext.write({**body, "service_tier": tier, "serviceTier": tier}))
        assert found is None or api not in NAMES_TIER
