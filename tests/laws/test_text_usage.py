"""`Wire.text_usage` reads the usage of plain answers as decoding does, and leaves all others to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.dialects import WIRES
from interlingua.gateway.recall import _holds_more
from interlingua.values.messages import AssistantMessage, TextBlock, ToolCall, Usage
from laws.wires import owner
from strategies import messages_for_answers

WITH_TEXT_USAGE = [api for api, wire in WIRES.items() if wire.text_usage is not None and wire.base == api]
TEXT = AssistantMessage(
    content=(TextBlock(text="Hällo"),), model="m", stop_reason="stop", usage=Usage.of(10, 5), response_id="r1"
)


@pytest.mark.parametrize("api", WITH_TEXT_USAGE)
def test_the_usage_of_a_text_is_read(api: str) -> None:
    """
    The usual answer needs no decoding; one with a call does, and one that is cut off.
    """
    wire = WIRES[api]
    assert wire.text_usage is not None
    body = wire.codec.encode_response(TEXT).bytes()
    assert wire.codec.decode_response(body).usage == wire.text_usage(body) is not None
    call = AssistantMessage(
        content=(ToolCall(id="c1", name="f", arguments={}),), stop_reason="toolUse", usage=Usage.of(10, 5)
    )
    assert wire.text_usage(wire.codec.encode_response(call).bytes()) is None
    assert wire.text_usage(body[:-1]) is None


@pytest.mark.parametrize("api", WITH_TEXT_USAGE)
@given(data=st.data())
def test_it_is_the_usage_of_the_decoded_answer(api: str, data: st.DataObject) -> None:
    """
    Whatever an answer is: where its usage is read, it ended well, and there is nothing in it to be restored later.
    """
    wire = WIRES[api]
    assert wire.text_usage is not None
    body = wire.codec.encode_response(data.draw(messages_for_answers(owner(api)))).bytes()
    usage = wire.text_usage(body)
    if usage is not None:
        answer = wire.codec.decode_response(body)
        assert answer.usage == usage
        assert answer.stop_reason in ("stop", "length") and not _holds_more(answer)
