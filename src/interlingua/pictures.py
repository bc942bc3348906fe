"""What a picture is and how large, from the first bytes of its base64: no decoder is needed to know that."""

import base64
import binascii
from typing import NamedTuple


class Picture(NamedTuple):
    """The media type and the size in pixels; zero where the head does not tell it."""

    mime_type: str
    width: int = 0
    height: int = 0


_HEAD = 64 * 1024  # a JPEG may carry a preview and colour profiles before its size


def look(data: str) -> Picture | None:
    """The picture in this base64; None when it is none of the four kinds that every provider takes."""
    try:
        head = base64.b64decode(data[: _HEAD // 4 * 4])
    except (binascii.Error, ValueError):
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return Picture("image/png", _big(head[16:20]), _big(head[20:24]))
    if head.startswith((b"GIF87a", b"GIF89a")):
        return Picture("image/gif", _little(head[6:8]), _little(head[8:10]))
    if head.startswith(b"\xff\xd8\xff"):
        return _jpeg(head)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    return None


def _big(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _little(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _jpeg(head: bytes) -> Picture:
    """The size is in the frame header: the first segment C0 to CF that is no table (C4, C8, CC)."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        kind = head[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            return Picture("image/jpeg", _big(head[at + 7 : at + 9]), _big(head[at + 5 : at + 7]))
        at += 2 + _big(head[at + 2 : at + 4])
    return Picture("image/jpeg")


def _webp(head: bytes) -> Picture:
    kind = head[12:16]
    if kind == b"VP8X":
        return Picture("image/webp", _little(head[24:27]) + 1, _little(head[27:30]) + 1)
    if kind == b"VP8L":
        bits = _little(head[21:25])
        return Picture("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    return Picture("image/webp", _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF)
