"""Images: type and size from the first bytes; resizing and conversion with Pillow."""

import base64
import binascii
import hashlib
import io
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# Type and size of an image from a few bytes of its base64, without a decoder.
#
# Only the inspected bytes are decoded, however large the file is.


class Picture(NamedTuple):
    """The media type and the size in pixels; zero if the header does not have it."""

    mime_type: str
    width: int = 0
    height: int = 0


def look(data: str) -> Picture | None:
    """Returns the image in this base64; None unless it is one of the four types that every provider accepts."""
    kind = sniff(data) or ""
    return Picture(kind, *_SIZES[kind](data)) if kind in _SIZES else None


def is_animated(data: str) -> bool:
    """Whether a GIF's header declares looping frames, as animations do."""
    return b"NETSCAPE2.0" in _read(data, 0, 1024)  # after the header and the colour table, 13 to 781 bytes


def sniff(data: str) -> str | None:
    """Returns the media type that the first bytes of this base64 show; None for text, archives and unknown data.

    Signatures of less than three bytes are not trusted: `BM` and MP3 frame headers need more evidence.
    """
    head = _read(data, 0, 36)
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return kind
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return "audio/aiff"
    if head[4:8] == b"ftyp":  # ISO base media: the brand distinguishes images from audio and video
        return _BRANDS.get(head[8:12], "video/mp4")
    if head[:2] == b"BM" and head[6:10] == bytes(4) and _little(head[14:18]) in _BMP_HEADERS:
        return "image/bmp"
    return "audio/mpeg" if _is_mpeg_audio(head) else None


_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"ID3\x02", "audio/mpeg"),
    (b"ID3\x03", "audio/mpeg"),
    (b"ID3\x04", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_BRANDS = {
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1"), "image/heif"),
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"M4A ", b"M4B "), "audio/mp4"),
    b"qt  ": "video/quicktime",
}
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)  # valid lengths of a bitmap's second header


def _is_mpeg_audio(head: bytes) -> bool:
    """A frame header of layer III (ISO 11172-3, 2.4.1.3): sync, and no field with a reserved value."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2 or head[1] & 0x18 == 0x08:
        return False
    bit_rate, sampling = head[2] >> 4, head[2] >> 2 & 3
    return 0 < bit_rate < 15 and sampling != 3 and head[3] & 3 != 2


def _read(data: str, at: int, count: int) -> bytes:
    """Returns `count` bytes from offset `at`; fewer at the end, none if this is not base64."""
    first = at // 3
    piece = data[first * 4 : ((at + count + 2) // 3) * 4]
    try:
        return base64.b64decode(piece + "=" * (-len(piece) % 4))[at - first * 3 :][:count]
    except (binascii.Error, ValueError):
        return b""


def _big(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _little(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


# --- sizes -----------------------------------------------------------------------------------------------------------


def _png(data: str) -> tuple[int, int]:
    # W3C PNG, 11.2.1: IHDR is the first chunk, with width and height at bytes 16 and 20.
    head = _read(data, 16, 8)
    return _big(head[:4]), _big(head[4:])


def _gif(data: str) -> tuple[int, int]:
    head = _read(data, 6, 4)
    return _little(head[:2]), _little(head[2:])


def _jpeg(data: str) -> tuple[int, int]:
    """Reads the size from the frame header: the first segment C0 to CF that is not a table (C4, C8, CC).

    Previews and colour profiles, which may be megabytes, come before it and are skipped unread.
    """
    at = 2
    for _ in range(_MAX_SEGMENTS):
        segment = _read(data, at, 9)
        if len(segment) < 9 or segment[0] != 0xFF:
            break
        # ITU-T T.81, B.1.1: a marker is FF and a code; most have a length of two bytes, which counts itself.
        kind = segment[1]
        if kind == 0xFF:  # a fill byte before the marker
            at += 1
        elif kind == 0x01 or 0xD0 <= kind <= 0xD7:  # markers without a length
            at += 2
        elif 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            return _big(segment[7:9]), _big(segment[5:7])
        else:
            at += 2 + max(2, _big(segment[2:4]))
    return 0, 0


_MAX_SEGMENTS = 1000


def _webp(data: str) -> tuple[int, int]:
    head = _read(data, 0, 30)
    # RFC 9649, 2.5 to 2.7: the size is in VP8X, or in the header of the lossless or lossy bitstream, less one in the
    # first two.
    kind = head[12:16]
    if kind == b"VP8X":
        return _little(head[24:27]) + 1, _little(head[27:30]) + 1
    if kind == b"VP8L":
        bits = _little(head[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF


_SIZES: dict[str, Callable[[str], tuple[int, int]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}


# Resizing and type conversion of images with Pillow (`pip install "interlingua[images]"`).
#
# The same image and limits give the same bytes, turn after turn: providers cache requests by their prefix. Results are
# cached, so an image of the history is processed once per process, not once per turn.


MAX_PIXELS = 80_000_000  # decoded at up to four bytes each; a larger image may be a decompression bomb
MAX_CACHED_CHARS = 64 * 1024 * 1024  # characters of base64

# The decoders that may see foreign data; Pillow has many more, for rare formats with a worse security record.
_DECODERS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
_LOSSY = ("JPEG", "WEBP", "AVIF")
_QUALITIES = (85, 70, 50)
_SHRINK = 0.75  # applied to each side while the file is too large
_LEAST_SIDE = 16


INSTALL = 'pip install "interlingua[images]" to have it resized'


class ImageLimits(NamedTuple):
    """Limits of an image: the longer side and the area in pixels, the length of its base64."""

    side: int | None = None
    area: int | None = None
    length: int | None = None


class Resized(NamedTuple):
    """A resized image. `frames` is the number of frames of the original: only the first is kept."""

    data: str
    mime_type: str
    width: int
    height: int
    frames: int = 1


def is_available() -> bool:
    """Whether Pillow is installed."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        return False
    return True


def resized(data: str, limits: ImageLimits) -> Resized | None:
    """Returns the image in this base64 within the limits, as PNG or JPEG; None if it is unreadable or a bomb."""
    if not is_available() or not data.isascii():
        return None
    key = hashlib.blake2b(data.encode(), digest_size=32).digest(), limits
    with _lock:
        if key in _remembered:
            _remembered.move_to_end(key)
            return _remembered[key]
    made = _resized(data, limits)
    with _lock:
        _remembered[key] = made
        while sum(len(one.data) for one in _remembered.values() if one is not None) > MAX_CACHED_CHARS:
            _remembered.popitem(last=False)
    return made


_lock = threading.Lock()
_remembered: OrderedDict[tuple[bytes, ImageLimits], Resized | None] = OrderedDict()


def _resized(data: str, limits: ImageLimits) -> Resized | None:
    from PIL import Image

    known = look(data)
    if known is not None and known.width * known.height > MAX_PIXELS:
        return None
    try:
        raw = base64.b64decode(data, validate=True)
        with Image.open(io.BytesIO(raw), formats=_DECODERS) as file:
            if file.width * file.height > MAX_PIXELS:
                return None
            frames = getattr(file, "n_frames", 1)
            lossy = file.format in _LOSSY
            return _fitted(_pixels(file, limits), lossy, frames, limits)
    except Exception:  # a decoder may raise any error for an invalid file; it is cached, not raised
        return None


def _pixels(file: Any, limits: ImageLimits) -> Any:
    """Returns the first frame as displayed: upright, in greyscale or colour, with transparency only if it has any."""
    from PIL import Image, ImageOps

    if file.format == "JPEG" and limits.side is not None:
        file.draft(None, (limits.side, limits.side))  # decodes at 1/2, 1/4 or 1/8 of the size, not below the limit
    image = ImageOps.exif_transpose(file)
    if image.mode.startswith("I;16"):  # converting would clip at 255 instead of scaling
        image = image.convert("I").point([value >> 8 for value in range(65536)], "L")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema() == (255, 255):
            image = image.convert("RGB")
    elif image.mode not in ("L", "RGB"):
        image = image.convert("L" if image.mode in ("1", "I", "F") else "RGB")
    size = _size_within(image.size, limits)
    return image if size == image.size else image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)


def _size_within(size: tuple[int, int], limits: ImageLimits) -> tuple[int, int]:
    """Returns the largest size with the same aspect ratio; at least one pixel per side."""
    width, height = size
    factor = min(
        1.0,
        (limits.side or math.inf) / max(width, height),
        math.sqrt((limits.area or math.inf) / (width * height)),
    )
    if factor < 1:
        width, height = max(1, int(width * factor)), max(1, int(height * factor))
    if limits.area is not None:
        width, height = min(width, max(1, limits.area // height)), min(height, max(1, limits.area // width))
    return width, height


def _fitted(image: Any, lossy: bool, frames: int, limits: ImageLimits) -> Resized | None:
    from PIL import Image

    while True:
        for kind, raw in _encodings(image, lossy):
            if limits.length is None or 4 * ((len(raw) + 2) // 3) <= limits.length:
                return Resized(base64.b64encode(raw).decode(), kind, image.width, image.height, frames)
        if max(image.size) <= _LEAST_SIDE:
            return None
        size = max(1, int(image.width * _SHRINK)), max(1, int(image.height * _SHRINK))
        image = image.resize(size, Image.Resampling.LANCZOS)


def _encodings(image: Any, lossy: bool) -> Iterator[tuple[str, bytes]]:
    """Yields encodings of the image, the best first: lossless if the source was, JPEG only without transparency."""
    if not lossy or image.mode == "RGBA":
        yield "image/png", _saved(image, format="PNG")
    if image.mode != "RGBA":
        for quality in _QUALITIES:
            yield "image/jpeg", _saved(image, format="JPEG", quality=quality, optimize=True)


def _saved(image: Any, **how: Any) -> bytes:
    image.info.clear()  # metadata of the original is dropped
    file = io.BytesIO()
    image.save(file, **how)
    return file.getvalue()
