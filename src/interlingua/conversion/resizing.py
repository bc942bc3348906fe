"""Pictures made smaller, or brought into another file type, with Pillow (`pip install "interlingua[images]"`).

The same picture and the same limits give the same bytes, turn after turn: providers cache requests by their prefix.
Results are remembered, so that a picture of the history is worked on once in the life of a program, not once a turn.
"""

import base64
import hashlib
import io
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

from .pictures import look

MOST_PIXELS = 80_000_000  # decoded at up to four bytes each; a larger picture may be a decompression bomb
MOST_REMEMBERED = 64 * 1024 * 1024  # characters of base64

# The decoders that may see foreign data; Pillow has many more, for rare formats with a worse record.
_DECODERS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
_LOSSY = ("JPEG", "WEBP", "AVIF")
_QUALITIES = (85, 70, 50)
_SHRINK = 0.75  # of each side, as long as the file is too large
_LEAST_SIDE = 16


INSTALL = 'pip install "interlingua[images]" to have it resized'


class Limits(NamedTuple):
    """What a picture may be: the longer side and the area in pixels, the length of its base64."""

    side: int | None = None
    area: int | None = None
    length: int | None = None


class Resized(NamedTuple):
    """A picture within the limits. `frames` is how many the original had: only the first is left."""

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


def resized(data: str, limits: Limits) -> Resized | None:
    """The picture in this base64, within the limits, as PNG or JPEG; None where it cannot be read or is a bomb."""
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
        while sum(len(one.data) for one in _remembered.values() if one is not None) > MOST_REMEMBERED:
            _remembered.popitem(last=False)
    return made


_lock = threading.Lock()
_remembered: OrderedDict[tuple[bytes, Limits], Resized | None] = OrderedDict()


def _resized(data: str, limits: Limits) -> Resized | None:
    from PIL import Image

    known = look(data)
    if known is not None and known.width * known.height > MOST_PIXELS:
        return None
    try:
        raw = base64.b64decode(data, validate=True)
        with Image.open(io.BytesIO(raw), formats=_DECODERS) as file:
            if file.width * file.height > MOST_PIXELS:
                return None
            frames = getattr(file, "n_frames", 1)
            lossy = file.format in _LOSSY
            return _fitted(_pixels(file, limits), lossy, frames, limits)
    except Exception:  # a decoder answers a broken file with any error; it is noted, not raised
        return None


def _pixels(file: Any, limits: Limits) -> Any:
    """The first frame as it is meant to be seen: turned upright, in grey or colours, transparent only if it is."""
    from PIL import Image, ImageOps

    if file.format == "JPEG" and limits.side is not None:
        file.draft(None, (limits.side, limits.side))  # decodes at 1/2, 1/4 or 1/8 of the size, not below the limit
    image = ImageOps.exif_transpose(file)
    if image.mode.startswith("I;16"):  # converting would cut off at 255 instead of scaling
        image = image.convert("I").point([value >> 8 for value in range(65536)], "L")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema() == (255, 255):
            image = image.convert("RGB")
    elif image.mode not in ("L", "RGB"):
        image = image.convert("L" if image.mode in ("1", "I", "F") else "RGB")
    size = _size_within(image.size, limits)
    return image if size == image.size else image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)


def _size_within(size: tuple[int, int], limits: Limits) -> tuple[int, int]:
    """The largest size of the same shape; of a very thin picture one pixel is left."""
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


def _fitted(image: Any, lossy: bool, frames: int, limits: Limits) -> Resized | None:
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
    """The picture as a file, the best first: exact where the source was, JPEG only where nothing is transparent."""
    if not lossy or image.mode == "RGBA":
        yield "image/png", _saved(image, format="PNG")
    if image.mode != "RGBA":
        for quality in _QUALITIES:
            yield "image/jpeg", _saved(image, format="JPEG", quality=quality, optimize=True)


def _saved(image: Any, **how: Any) -> bytes:
    image.info.clear()  # comments, profiles and times of the original
    file = io.BytesIO()
    image.save(file, **how)
    return file.getvalue()
