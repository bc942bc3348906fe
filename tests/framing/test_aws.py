"""AWS event streams, with botocore's parser as the oracle."""

import struct
from datetime import UTC, datetime
from uuid import UUID
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given, settings
from hypothesis import strategies as st

from framing.reading import cut, outcome, read
from interlingua.dialects.framing import AWSEventStream, Frame, write_aws
from interlingua.values.errors import BadWire, FormatError


def message(
    headers: bytes, payload: bytes = b"", *, total: int | None = None, headers_length: int | None = None
) -> bytes:
    """A message with right checksums, whatever its lengths and headers say."""
    total = 16 + len(headers) + len(payload) if total is None else total
    lengths = struct.pack("!II", total, len(headers) if headers_length is None else headers_length)
    body = lengths + struct.pack("!I", crc32(lengths)) + headers + payload
    return body + struct.pack("!I", crc32(body))


def header(name: str, kind: int, value: bytes) -> bytes:
    return bytes([len(name.encode())]) + name.encode() + bytes([kind]) + value


def text(value: str) -> bytes:
    return struct.pack("!H", len(value.encode())) + value.encode()


def by_botocore(stream: bytes) -> list[tuple[dict, bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(stream)
    return [(found.headers, found.payload) for found in buffer]


def pairs(frames: list[Frame]) -> list[tuple[dict, bytes]]:
    return [(frame.headers, frame.data) for frame in frames]


ALL_TYPES = message(
    b"".join(
        [
            header("true", 0, b""),
            header("false", 1, b""),
            header("byte", 2, struct.pack("!b", -7)),
            header("short", 3, struct.pack("!h", -700)),
            header("integer", 4, struct.pack("!i", -70_000)),
            header("long", 5, struct.pack("!q", -(2**40))),
            header("bytes", 6, struct.pack("!H", 3) + b"\x00\xff\n"),
            header("string", 7, text("schön")),
            header("timestamp", 8, struct.pack("!q", 1_700_000_000_000)),
            header("uuid", 9, bytes(range(16))),
        ]
    ),
    b'{"a":1}',
)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_all_ten_header_types_are_read(size):
    """
    Values are Python's own: timestamps as milliseconds, UUIDs as their bytes, as botocore has them.
    """
    headers = {
        "true": True,
        "false": False,
        "byte": -7,
        "short": -700,
        "integer": -70_000,
        "long": -(2**40),
        "bytes": b"\x00\xff\n",
        "string": "schön",
        "timestamp": 1_700_000_000_000,
        "uuid": bytes(range(16)),
    }
    frames = read(AWSEventStream(), *cut(ALL_TYPES * 2, size))
    assert [Frame(b'{"a":1}', "", headers)] * 2 == frames
    assert by_botocore(ALL_TYPES * 2) == pairs(frames)


header_values = st.one_of(
    st.booleans(),
    st.integers(min_value=-(2**63), max_value=2**63 - 1),
    st.text(max_size=20),
    st.binary(max_size=20),
)
messages = st.builds(
    write_aws,
    st.text(max_size=20),
    st.binary(max_size=60),
    message_type=st.sampled_from(["event", "exception", "error"]),
    content_type=st.sampled_from(["application/json", ""]),
    extra_headers=st.dictionaries(st.text(min_size=1, max_size=10).filter(lambda name: name[0] != ":"), header_values),
)


@settings(max_examples=100, deadline=None)
@given(wire=st.lists(messages, max_size=4).map(b"".join), size=st.integers(min_value=1, max_value=300))
def test_botocore_reads_what_we_write_as_we_do(wire, size):
    """
    Written messages mean the same to both parsers, values and their types alike.
    """
    frames = read(AWSEventStream(), *cut(wire, size))
    assert repr(by_botocore(wire)) == repr(pairs(frames))


@settings(max_examples=100, deadline=None)
@given(
    headers=st.lists(
        st.builds(header, st.sampled_from(["a", "bc", ":event-type"]), st.integers(0, 10), st.binary(max_size=18))
        | st.binary(max_size=6),
        max_size=3,
    ).map(b"".join)
)
def test_headers_that_we_accept_are_those_botocore_sees(headers):
    """
    Any header bytes under good checksums are either refused or read as botocore reads them.
    """
    wire = message(headers)
    frames, fault = outcome(AWSEventStream(), [wire])
    if frames:
        assert by_botocore(wire) == pairs(frames)
    else:
        assert "aws: byte 12: the headers cannot be read" in fault


@pytest.mark.parametrize(
    ("message_type", "name_header"),
    [("event", ":event-type"), ("exception", ":exception-type"), ("error", ":error-code")],
)
def test_a_frame_is_named_by_its_kind(message_type, name_header):
    """
    Events have a type, exceptions too, and errors a code.
    """
    (frame,) = read(AWSEventStream(), write_aws("name", b"{}", message_type=message_type))
    headers = {name_header: "name", ":content-type": "application/json", ":message-type": message_type}
    assert Frame(b"{}", "name", headers) == frame
    assert list(headers) == list(frame.headers)


@pytest.mark.parametrize(
    ("headers", "event"),
    [
        (b"", ""),
        (header(":event-type", 7, text("x")), "x"),
        (header(":event-type", 4, b"\x00\x00\x00\x01"), ""),
        (header(":message-type", 0, b"") + header(":event-type", 7, text("x")), "x"),
        (header(":message-type", 7, text("news")) + header(":event-type", 7, text("x")), "x"),
        (header(":message-type", 7, text("exception")) + header(":event-type", 7, text("x")), ""),
    ],
)
def test_a_name_that_is_missing_or_odd_is_no_fault(headers, event):
    """
    Such a frame has an empty name, and its headers to look at.
    """
    assert event == read(AWSEventStream(), message(headers))[0].event


def test_headers_of_equal_frames_are_not_shared():
    """
    Changing the headers of one frame leaves the next alone.
    """
    first, second = read(AWSEventStream(), write_aws("x", b"1") + write_aws("x", b"2"))
    first.headers.clear()
    assert second.headers[":event-type"] == "x"


@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_a_damaged_byte_never_gives_a_frame(change):
    """
    Wherever one byte is changed, the messages before come out, the damaged one does not, and the fault is named.
    """
    good, victim = write_aws("first", b"{}"), write_aws("contentBlockDelta", b'{"delta":{"text":"Hi"}}')
    for place in range(len(victim)):
        damaged = bytearray(victim)
        damaged[place] ^= change
        frames, fault = outcome(AWSEventStream(), [good + bytes(damaged)])
        assert [Frame(b"{}", "first", frames[0].headers)] == frames
        part = "prelude" if place < 12 else "message"
        assert fault.startswith(f"aws: byte {len(good)}: the checksum of the {part} does not match")


def test_a_message_cut_off_anywhere_is_a_fault():
    """
    The end of the stream inside a message is told with the bytes that came and those that should have.
    """
    wire = write_aws("x", b"{}")
    for length in range(1, len(wire)):
        awaited = "12 bytes of a prelude" if length < 12 else f"{len(wire)} bytes of a message"
        frames, fault = outcome(AWSEventStream(), [wire[:length]])
        assert frames == []
        assert fault.startswith(f"aws: byte 0: the stream ends after {length} of the {awaited}")


@pytest.mark.parametrize(
    ("prelude", "fault"),
    [
        (message(b"", total=15), "a message of 15 bytes cannot hold 0 bytes of headers"),
        (message(b"", total=0), "a message of 0 bytes cannot hold 0 bytes of headers"),
        (message(b"", total=20, headers_length=5), "a message of 20 bytes cannot hold 5 bytes of headers"),
        (message(b"", headers_length=2**32 - 1), "cannot hold 4294967295 bytes of headers"),
        (message(b"", total=2**32 - 1), "the message of 4294967295 bytes that starts here is longer than the limit"),
        (message(b"", total=1001), "the message of 1001 bytes that starts here is longer than the limit of 1000 bytes"),
    ],
)
def test_sizes_are_checked_before_their_bytes_are_awaited(prelude, fault):
    """
    Twelve bytes with impossible claims are refused at once.
    """
    stream = AWSEventStream(limit=1000)
    assert stream.feed(prelude[:11]) == []
    with pytest.raises(BadWire, match=fault):
        stream.feed(prelude[11:12])


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        (header("a", 10, b""), "10 is not a header type"),
        (header("a", 0, b"") * 2, "duplicate header 'a'"),
        (b"\x05abc", "the last one is cut off"),
        (b"\x01a", "the last one is cut off"),
        (header("a", 7, b"\x00"), "the last one is cut off"),
        (header("a", 7, b"\x00\x05abc"), "the last one is cut off"),
        (header("a", 9, bytes(15)), "the last one is cut off"),
        (header("a", 5, bytes(7)), "buffer"),
        (header("a", 7, b"\x00\x01\xff"), "utf-8"),
        (b"\x01\xff\x00", "utf-8"),
        (header("a", 6, b"\x01\x00" + bytes(256)) + b"\x01", "the last one is cut off"),
    ],
)
def test_headers_that_cannot_be_read_are_a_fault(headers, fault):
    """
    Good checksums do not excuse headers that are no headers.
    """
    with pytest.raises(BadWire, match=f"byte 12: the headers cannot be read: .*{fault}"):
        AWSEventStream().feed(message(headers, b"{}"))


def test_extra_headers_are_written_by_the_type_of_their_value():
    """
    Each Python type has one header type, integers two.
    """
    moment, unique = datetime(2024, 1, 2, tzinfo=UTC), UUID(int=7)
    extra = {"b": True, "i": -1, "l": 2**31, "s": "é", "y": b"\x00", "t": moment, "u": unique}
    wire = write_aws("x", b"", extra_headers=extra)
    written = {"b": True, "i": -1, "l": 2**31, "s": "é", "y": b"\x00", "t": 1_704_153_600_000, "u": unique.bytes}
    assert written == {name: by_botocore(wire)[0][0][name] for name in extra}


@pytest.mark.parametrize(
    "extra", [{"a": 2**63}, {"a": "x" * 65_536}, {"a": None}, {"n" * 256: True}, {"a": 1.5}, {"a": "\ud800"}]
)
def test_a_header_that_cannot_be_written_is_refused(extra):
    """
    What has no header type, or does not fit it, is our fault and named.
    """
    with pytest.raises(FormatError, match=r"the header .* cannot be written"):
        write_aws("x", b"", extra_headers=extra)


def test_an_unknown_message_type_is_refused():
    """
    Only the three kinds of message can be written.
    """
    with pytest.raises(FormatError, match="'news' is not a message type; use one of event, exception, error"):
        write_aws("x", b"", message_type="news")
