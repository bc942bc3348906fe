"""AWS event stream, `application/vnd.amazon.eventstream`, as Bedrock streams it.

    total length (4) | headers length (4) | CRC of these 8 (4) | headers | payload | CRC of all before (4)

All integers are big-endian. A header is a name (length in 1 byte), a type (1 byte) and a value; the ten types are in
the Smithy specification: https://smithy.io/2.0/aws/amazon-eventstream.html
"""

import struct
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar
from uuid import UUID
from zlib import crc32

from ...values.errors import FormatError
from .text import DEFAULT_LIMIT, Frame, Framing

_PRELUDE = struct.Struct("!III")
_CRC = struct.Struct("!I")
_OVERHEAD = _PRELUDE.size + _CRC.size

_TRUE, _FALSE, _BYTE_ARRAY, _STRING, _TIMESTAMP, _UUID = 0, 1, 6, 7, 8, 9
_INT32, _INT64 = 4, 5
_INTEGERS = {2: struct.Struct("!b"), 3: struct.Struct("!h"), _INT32: struct.Struct("!i"), _INT64: struct.Struct("!q")}
_INTEGERS[_TIMESTAMP] = _INTEGERS[_INT64]

_NAME_HEADERS = {"event": ":event-type", "exception": ":exception-type", "error": ":error-code"}


class AWSEventStream(Framing):
    """Reads messages and verifies both checksums; no frame comes from a damaged message.

    `Frame.event` is the event type, the exception type or the error code, by the kind of message; `Frame.headers` has
    them all, with timestamps as milliseconds and UUIDs as 16 bytes. The lengths in the prelude are checked before their
    bytes arrive. The limit is for one message.
    """

    name: ClassVar[str] = "aws"

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        super().__init__(limit)
        self._awaited = _PRELUDE.size

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        if self._buffer or len(chunk) < self._awaited:
            self._buffer += chunk
            if len(self._buffer) < self._awaited:
                return
            chunk = self._take()
        self._buffer += chunk[self._read_messages(chunk, frames) :]

    def _read_messages(self, chunk: bytes, frames: list[Frame]) -> int:
        """Read the whole messages at the front, and return where the first unfinished one starts."""
        start, size = 0, len(chunk)
        while size - start >= _PRELUDE.size:
            total, headers_length, checksum = _PRELUDE.unpack_from(chunk, start)
            if crc32(chunk[start : start + 8]) != checksum:
                raise self._broken("the checksum of the prelude does not match", self._offset)
            self._check_lengths(total, headers_length)
            if size - start < total:
                self._awaited = total
                return start
            end = start + total - _CRC.size
            if crc32(chunk[start:end]) != _CRC.unpack_from(chunk, end)[0]:
                raise self._broken("the checksum of the message does not match", self._offset)
            payload_start = start + _PRELUDE.size + headers_length
            event, headers = self._read_headers(chunk[start + _PRELUDE.size : payload_start])
            frames.append(Frame(chunk[payload_start:end], event, headers))
            start += total
            self._offset += total
        self._awaited = _PRELUDE.size
        return start

    # Before the rest has come: a forged length would otherwise make the reader wait and buffer without end.
    def _check_lengths(self, total: int, headers_length: int) -> None:
        if total < _OVERHEAD or headers_length > total - _OVERHEAD:
            raise self._broken(
                f"a message of {total} bytes cannot hold {headers_length} bytes of headers", self._offset
            )
        if total > self._limit:
            raise self._too_long(f"the message of {total} bytes that starts here", self._offset)

    def _read_headers(self, block: bytes) -> tuple[str, dict[str, Any]]:
        """Returns the name of the event, and the headers."""
        try:
            if len(block) > _COMMON_LENGTH:
                return _decode_headers(block)
            event, headers = _decode_common_headers(block)
        except (ValueError, struct.error) as fault:
            raise self._broken(f"the headers cannot be read: {fault}", self._offset + _PRELUDE.size) from fault
        # The cached mapping is shared: a caller that changed it would change later frames.
        return event, headers.copy()

    def _finish(self, frames: list[Frame]) -> None:
        if self._buffer:
            what = "a prelude" if self._awaited == _PRELUDE.size else "a message"
            raise self._broken(
                f"the stream ends after {len(self._buffer)} of the {self._awaited} bytes of {what}", self._offset
            )


def _event_name(headers: dict[str, Any]) -> str:
    kind = headers.get(":message-type", "event")
    name = headers.get(_NAME_HEADERS.get(kind, ":event-type") if isinstance(kind, str) else ":event-type")
    return name if isinstance(name, str) else ""


def _decode_headers(block: bytes) -> tuple[str, dict[str, Any]]:
    """The name of the event, and all headers; ValueError or struct.error if the block is not made of whole headers."""
    headers: dict[str, Any] = {}
    at = 0
    while at < len(block):
        end = at + 1 + block[at]
        name = _slice(block, at + 1, end).decode()
        # smithy.io/2.0/aws/amazon-eventstream.html: header names are unique within a message.
        if name in headers:
            raise ValueError(f"duplicate header {name!r}")
        headers[name], at = _decode_value(block, end)
    return _event_name(headers), headers


# A stream has few different header blocks; decoding each again would be most of the work.
_COMMON_LENGTH = 256
_decode_common_headers = lru_cache(maxsize=128)(_decode_headers)


def _decode_value(block: bytes, at: int) -> tuple[Any, int]:
    """The value whose type byte is at this place, and where it ends."""
    kind = _slice(block, at, at + 1)[0]
    at += 1
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in _INTEGERS:
        number = _INTEGERS[kind]
        return number.unpack_from(block, at)[0], at + number.size
    if kind == _UUID:
        return _slice(block, at, at + 16), at + 16
    if kind not in (_BYTE_ARRAY, _STRING):
        raise ValueError(f"{kind} is not a header type")
    end = at + 2 + int.from_bytes(_slice(block, at, at + 2))
    value = _slice(block, at + 2, end)
    return (value.decode() if kind == _STRING else value), end


def _slice(block: bytes, start: int, end: int) -> bytes:
    if end > len(block):
        raise ValueError("the last one is cut off")
    return block[start:end]


def write_aws(
    event_type: str,
    payload: bytes,
    *,
    message_type: str = "event",
    content_type: str = "application/json",
    extra_headers: Mapping[str, Any] | None = None,
) -> bytes:
    """One message: an "event", an "exception" or an "error", named by `event_type`.

    Extra headers, whose names must not be the three given otherwise, are written by the type of the value: bool, int
    (in 32 bits, or in 64 when it needs them), str, bytes, `datetime` or `UUID`.
    """
    headers = _encode_common_headers(message_type, event_type, content_type)
    if extra_headers:
        headers += b"".join(_encode_header(name, value) for name, value in extra_headers.items())
    lengths = struct.pack("!II", _OVERHEAD + len(headers) + len(payload), len(headers))
    message = lengths + _CRC.pack(crc32(lengths)) + headers + payload
    return message + _CRC.pack(crc32(message))


@lru_cache(maxsize=128)
def _encode_common_headers(message_type: str, event_type: str, content_type: str) -> bytes:
    if message_type not in _NAME_HEADERS:
        raise FormatError(f"{message_type!r} is not a message type; use one of {', '.join(_NAME_HEADERS)}")
    named = {_NAME_HEADERS[message_type]: event_type, ":content-type": content_type, ":message-type": message_type}
    return b"".join(_encode_header(name, value) for name, value in named.items())


def _encode_header(name: str, value: Any) -> bytes:
    encoded = name.encode()
    try:
        return bytes([len(encoded)]) + encoded + _encode_value(value)
    except (ValueError, struct.error) as fault:
        raise FormatError(f"the header {name!r} cannot be written: {fault}") from fault


def _encode_value(value: Any) -> bytes:
    match value:
        case bool():
            return bytes([_TRUE if value else _FALSE])
        case int():
            kind = _INT32 if -(2**31) <= value < 2**31 else _INT64
            return bytes([kind]) + _INTEGERS[kind].pack(value)
        case str():
            encoded = value.encode()
            return struct.pack("!BH", _STRING, len(encoded)) + encoded
        case bytes():
            return struct.pack("!BH", _BYTE_ARRAY, len(value)) + value
        case datetime():
            return struct.pack("!Bq", _TIMESTAMP, round(value.timestamp() * 1000))
        case UUID():
            return bytes([_UUID]) + value.bytes
        case _:
            raise ValueError(f"no header type for {type(value).__name__}")
