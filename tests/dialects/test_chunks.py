"""Claude's events as chunks in AWS frames, and errors that a status tells better than a code."""

import base64

import pytest

import interlingua as il
from interlingua.dialects.framing import write_aws
from interlingua.values import jsontext

HOSTED = il.dialect("bedrock-invoke-anthropic")


def chunk(event: dict[str, str]) -> bytes:
    inside = base64.b64encode(jsontext.write(event)).decode()
    return write_aws("chunk", jsontext.write({"bytes": inside}))


def test_good_events_before_a_bad_one_are_not_lost() -> None:
    """They come first, however the bytes were cut; then the fault."""
    framing = HOSTED.framing()
    frames = framing.feed(chunk({"type": "ping"}) + write_aws("chunk", b"{broken") + chunk({"type": "ping"}))
    assert [b'{"type":"ping"}'] == [frame.data for frame in frames]
    with pytest.raises(il.BadWire, match="without a chunk"):
        framing.feed(chunk({"type": "ping"}))


@pytest.mark.parametrize(("status", "kind"), [(408, il.Overloaded), (413, il.ContextTooLong), (429, il.RateLimited)])
@pytest.mark.parametrize("wire", ["openai-completions", "anthropic-messages"])
def test_a_status_that_says_more_than_a_general_code_counts(wire: str, status: int, kind: type[Exception]) -> None:
    """`invalid_request_error` is the word for everything; the status is not."""
    body = {"error": {"type": "invalid_request_error", "code": "invalid_request_error", "message": "no"}}
    assert kind is type(il.dialect(wire).decode_error(status, body))
