"""What files are, told from a few bytes of their base64."""

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.conversion import resizing
from interlingua.conversion.resizing import Picture, look, sniff

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 640, 480)
FRAME = b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 480, 640)
JPEG = b"\xff\xd8\xff\xe0\0\x10" + bytes(14) + FRAME
WEBP = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
BMP = b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"

FILES: list[tuple[bytes, str | None]] = [
    (PNG, "image/png"),
    (GIF, "image/gif"),
    (JPEG, "image/jpeg"),
    (WEBP, "image/webp"),
    (BMP, "image/bmp"),
    (b"II*\0\x08\0\0\0", "image/tiff"),
    (b"\0\0\0\x18ftypheic\0\0\0\0", "image/heic"),
    (b"\0\0\0\x18ftypavif\0\0\0\0", "image/avif"),
    (b"\0\0\0\x18ftypM4A \0\0\0\0", "audio/mp4"),
    (b"\0\0\0\x18ftypisom\0\0\0\0", "video/mp4"),
    (b"%PDF-1.7\n", "application/pdf"),
    (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
    (b"ID3\x04\0\0\0\0\0\0", "audio/mpeg"),
    (b"\xff\xfb\x90\x64\0\0", "audio/mpeg"),
    (b"fLaC\0\0\0\x22", "audio/flac"),
    (b"OggS\0\x02", "audio/ogg"),
    (b"FORM\0\0\0\0AIFFCOMM", "audio/aiff"),
    (b"BMW is a maker of cars", None),
    (b"ID3 tags are metadata", None),
    (b"\xff\xfb\xff\xff no frame", None),
    (b"PK\x03\x04", None),
    (b"RIFF\0\0\0\0AVI LIST", None),
    (b"Hello", None),
    (b"", None),
]


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(("raw", "kind"), FILES)
def test_a_file_is_what_its_first_bytes_say(raw: bytes, kind: str | None) -> None:
    """Signatures tell pictures, sound, film and PDF; text that begins like one is none."""
    assert kind == sniff(encoded(raw))
    assert kind == sniff(encoded(raw + bytes(10_000)))


@pytest.mark.parametrize("raw", [PNG, GIF, JPEG, WEBP], ids=["png", "gif", "jpeg", "webp"])
def test_the_size_of_a_picture_is_read_from_its_head(raw: bytes) -> None:
    """Of all four kinds that every provider takes."""
    seen = look(encoded(raw))
    assert seen is not None
    assert (640, 480) == (seen.width, seen.height)


def test_a_preview_before_the_size_of_a_jpeg_is_skipped() -> None:
    """However many segments and fill bytes stand before the frame header."""
    preview = b"\xff\xe1\xff\xff" + bytes(65533)
    large = b"\xff\xd8" + preview * 50 + b"\xff\xff\xff\x01" + FRAME
    assert Picture("image/jpeg", 640, 480) == look(encoded(large))
    assert Picture("image/jpeg") == look(encoded(b"\xff\xd8" + preview))


def test_only_the_bytes_that_are_looked_at_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred megabytes of film or picture cost as much as a kilobyte."""
    decoded: list[int] = []
    real = base64.b64decode

    def counting(data: Any, *how: Any) -> bytes:
        decoded.append(len(data))
        return real(data, *how)

    monkeypatch.setattr(resizing.base64, "b64decode", counting)
    preview = b"\xff\xe1\xff\xff" + bytes(65533)
    for raw in (JPEG[:2] + preview * 20 + FRAME + bytes(3_000_000), PNG + bytes(3_000_000)):
        assert look(encoded(raw)) is not None
    assert sum(decoded) < 1000


@given(st.one_of(st.text(max_size=80), st.binary(max_size=80).map(encoded)))
def test_no_text_makes_it_fail(data: str) -> None:
    """Base64 or not, there is an answer."""
    seen = look(data)
    assert seen is None or seen.mime_type == sniff(data)
