"""An error that is told on means the same to its next reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.dialects import dialect
from interlingua.errors import (
    AuthFailed,
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    Overloaded,
    ProviderError,
    RateLimited,
)
from laws.wires import every_dialect, through_json
from strategies import texts

KINDS = {401: AuthFailed, 403: AuthFailed, 400: BadRequest, 404: BadRequest, 429: RateLimited, 503: Overloaded}


@every_dialect
@given(status=st.sampled_from([*KINDS, 500, 418]), message=texts().filter(str.strip))
def test_an_error_keeps_its_status_and_its_words(name: str, status: int, message: str) -> None:
    """
    An error written by a gateway and read by a client of the same wire has the same status and message.
    """
    wire = dialect(name)
    told, body = wire.encode_error(ProviderError(message, status=status))
    again = wire.decode_error(told, through_json(body))
    assert (status, message) == (told, again.message)


@every_dialect
@pytest.mark.parametrize("status", sorted(KINDS))
def test_an_error_keeps_its_kind(name: str, status: int) -> None:
    """
    What was a wrong key, too many requests or a busy server is still that.
    """
    wire = dialect(name)
    told, body = wire.encode_error(KINDS[status]("no", status=status))
    assert isinstance(wire.decode_error(told, through_json(body)), KINDS[status])


@every_dialect
@pytest.mark.parametrize("kind", sorted(set(KINDS.values()), key=lambda kind: kind.__name__))
def test_an_error_that_came_inside_a_stream_gets_a_status(name: str, kind: type[ProviderError]) -> None:
    """
    An error without a status is answered with the one that says the same.
    """
    wire = dialect(name)
    told, body = wire.encode_error(kind("no"))
    assert 400 <= told < 600
    assert isinstance(wire.decode_error(told, through_json(body)), kind)


@every_dialect
@pytest.mark.parametrize("kind", [ContentFiltered, ContextTooLong])
@given(
    status=st.sampled_from([0, 400, 403, 413, 500, 503]), message=texts().filter(str.strip), code=st.none() | texts()
)
def test_a_filter_and_an_overflow_keep_their_kind(
    name: str, kind: type[ProviderError], status: int, message: str, code: str | None
) -> None:
    """
    What was refused or too long is still that, in the code of the wire or in its words, and says what it said.
    """
    if kind is ContextTooLong and status == 403:
        return  # a key that may not do this: no wire says otherwise
    wire = dialect(name)
    told, body = wire.encode_error(kind(message, status=status, code=code))
    again = wire.decode_error(told, through_json(body))
    assert kind is type(again)
    assert again.message.endswith(message)
