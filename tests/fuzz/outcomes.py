"""What may come out of a decoder, whatever went in."""

from collections.abc import Callable
from typing import Any

from interlingua.values.errors import BadWire, FormatError, ProviderError

# Everything that a wire may hold as an answer, an error or a request, in the small.
FRAGMENTS = (
    *(b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"\\u", b"\\ud800", b"null", b"true", b"NaN", b"1e999", b"-0"),
    *(b"data: ", b"event: ", b"\n", b"\r\n", b"\n\n", b"[DONE]", b"\x00", b"\xff", b"\xed\xa0\x80", b" "),
    *(
        b'"type":',
        b'"index":0',
        b'"delta":{',
        b'"content":[',
        b'"error":{"message":"x"}',
        b'"choices":[',
        b'"message":',
    ),
)


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The value that comes out, or the one kind of error that may: typed, with a text and a place."""
    try:
        return function(*args, **kwargs)
    except BadWire as error:
        assert error.message
        assert error.path.startswith("$")
        return error
    except FormatError as error:
        assert error.message
        assert error.path.startswith("$")
        return error
    except ProviderError as error:
        assert error.message
        return error
