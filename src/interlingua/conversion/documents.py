"""Documents as they are found: bytes and text to JSON values, lines and recorded streams told apart."""

from typing import Any

from ..dialects.wire import AWS
from ..dialects.wire import SSE as EVENT_STREAM
from ..values import jsontext
from ..values.errors import BadWire, FormatError
from ..values.losses import Lines


def value_of(data: Any) -> Any:
    """JSON values: parsed if they are text, a list of them if the text is a line format."""
    if not isinstance(data, bytes | bytearray | str):
        return data
    try:
        return jsontext.read(data)
    except FormatError:
        lines = _lines(data)
        if lines is None:
            raise
        return Lines(lines)


def _lines(data: bytes | bytearray | str) -> list[Any] | None:
    # Not str.splitlines(): U+2028 may stand raw inside a JSON string.
    texts: list[Any] = [
        line for line in (data.split("\n") if isinstance(data, str) else data.split(b"\n")) if line.strip()
    ]
    if len(texts) < 2:
        return None
    values = []
    for number, line in enumerate(texts, 1):
        try:
            values.append(jsontext.read(line))
        except FormatError as error:
            if number == 1:
                return None
            raise BadWire("lines", f"line {number}: {error.message}") from None
    return values


def is_stream(data: Any) -> bool:
    """Whether data are a recorded stream: server-sent events, or AWS frames."""
    return stream_kind(data) is not None


def as_bytes(data: bytes | bytearray | str) -> bytes:
    return data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)


def stream_kind(data: Any) -> str | None:
    if not isinstance(data, bytes | bytearray | str):
        return None
    head = as_bytes(data[:4096])
    if head.lstrip(b"\xef\xbb\xbf\r\n\t ").startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return EVENT_STREAM
    # A frame begins with its length and that of its headers, a checksum, and the first header's name.
    size, headers = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:8], "big")
    return AWS if 16 <= headers + 16 <= size and b":" in head[12:14] and b"-type" in head[12:200] else None
