"""Pictures made smaller: within the limits, the same each time, and never at any price."""

import base64
import io
import struct
import sys
import zlib
from typing import Any

import pytest

from interlingua.conversion import resizing
from interlingua.conversion.resizing import ImageLimits, look, resized

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    resizing._remembered.clear()


def saved(image: Any, kind: str = "PNG", **how: Any) -> str:
    file = io.BytesIO()
    image.save(file, format=kind, **how)
    return base64.b64encode(file.getvalue()).decode()


def opened(data: str) -> Any:
    return Image.open(io.BytesIO(base64.b64decode(data)))


def noise(width: int, height: int, mode: str = "RGB") -> Any:
    return Image.effect_noise((width, height), 100).convert(mode)


@pytest.mark.parametrize(
    ("image", "kind", "expected"),
    [
        (Image.new("RGB", (300, 150), "red"), "PNG", "image/png"),
        (Image.new("RGB", (300, 150), "red"), "JPEG", "image/jpeg"),
        (Image.new("RGB", (300, 150), "red"), "WEBP", "image/jpeg"),
        (Image.new("P", (300, 150), 3), "GIF", "image/png"),
        (Image.new("RGB", (300, 150), "red"), "BMP", "image/png"),
        (Image.new("RGB", (300, 150), "red"), "TIFF", "image/png"),
        (Image.new("CMYK", (300, 150)), "JPEG", "image/jpeg"),
        (Image.new("1", (300, 150)), "PNG", "image/png"),
        (Image.new("I;16", (300, 150), 40_000), "PNG", "image/png"),
        (Image.new("RGBA", (300, 150), (1, 2, 3, 100)), "PNG", "image/png"),
        (Image.new("RGBA", (300, 150), (1, 2, 3, 100)), "WEBP", "image/png"),
    ],
)
def test_every_kind_of_picture_is_brought_within_the_limits(image: Any, kind: str, expected: str) -> None:
    """The ratio stays; what was exact stays exact, what was lossy becomes a JPEG; colours survive."""
    made = resized(saved(image, kind), ImageLimits(side=100))
    assert made is not None
    assert (expected, 100, 50) == (made.mime_type, made.width, made.height)
    seen = look(made.data)
    assert seen is not None
    assert (expected, 100, 50) == seen


def test_the_same_picture_gives_the_same_bytes() -> None:
    """Also when it is worked on anew: a prompt cache reads bytes."""
    data, limits = saved(noise(300, 200)), ImageLimits(side=100, length=10_000)
    once = resized(data, limits)
    resizing._remembered.clear()
    assert (once is not None, once) == (True, resized(data, limits))


def test_a_picture_is_worked_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next turn finds it made; a failure is remembered too; other limits are other work."""
    worked: list[ImageLimits] = []
    real = resizing._resized

    def counting(data: str, limits: ImageLimits) -> Any:
        worked.append(limits)
        return real(data, limits)

    monkeypatch.setattr(resizing, "_resized", counting)
    data = saved(noise(60, 40))
    for _ in range(3):
        resized(data, ImageLimits(side=30))
        resized("iVBORw0KGgo=", ImageLimits(side=30))
    resized(data, ImageLimits(side=20))
    assert [ImageLimits(side=30), ImageLimits(side=30), ImageLimits(side=20)] == worked


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go first."""
    monkeypatch.setattr(resizing, "MAX_CACHED_CHARS", 5_000)
    for width in range(40, 60):
        resized(saved(noise(width, 30)), ImageLimits(side=30))
    kept = [one for one in resizing._remembered.values() if one is not None]
    assert 0 < sum(len(one.data) for one in kept) <= 5_000


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
@pytest.mark.parametrize("length", [400, 4_000, 40_000])
def test_a_file_that_is_too_long_becomes_shorter(mode: str, length: int) -> None:
    """By quality as far as that goes, then by size; what is transparent stays so."""
    image = noise(200, 100, mode)
    if mode == "RGBA":
        image.putalpha(noise(200, 100, "L"))
    made = resized(saved(image), ImageLimits(length=length))
    assert made is not None
    assert len(made.data) <= length
    assert ("RGBA" == mode) == opened(made.data).has_transparency_data
    assert None is resized(saved(image), ImageLimits(length=50))


def test_the_area_is_limited_too() -> None:
    """Some hosts count pixels."""
    made = resized(saved(Image.new("RGB", (400, 100))), ImageLimits(area=10_000))
    assert made is not None
    assert (200, 50) == (made.width, made.height)


def test_a_picture_is_turned_as_its_camera_was() -> None:
    """The note about it goes with the rest of the metadata."""
    image = Image.new("RGB", (300, 150), "red")
    exif = Image.Exif()
    exif[0x0112] = 6
    made = resized(saved(image, "JPEG", exif=exif, comment=b"secret"), ImageLimits(side=100))
    assert made is not None
    assert (50, 100) == (made.width, made.height)
    assert b"secret" not in base64.b64decode(made.data)
    assert not opened(made.data).getexif()


def test_of_an_animation_the_first_frame_is_left() -> None:
    """How many there were is known."""
    frames = [Image.new("RGB", (300, 150), colour) for colour in ("red", "green", "blue")]
    made = resized(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]), ImageLimits(side=100))
    assert made is not None
    assert 3 == made.frames
    assert (255, 0, 0) == opened(made.data).convert("RGB").getpixel((10, 10))


def test_sixteen_bits_of_grey_are_scaled() -> None:
    """Not cut off at white."""
    made = resized(saved(Image.new("I;16", (30, 30), 40_000)), ImageLimits(side=10))
    assert made is not None
    assert 40_000 >> 8 == opened(made.data).getpixel((5, 5))


def bomb(width: int, height: int) -> str:
    """A PNG of a few kilobytes that claims to have a great many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = zlib.compress(bytes(10_000_000), 9)
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")
    ).decode()


@pytest.mark.parametrize(
    "data",
    [
        bomb(30_000, 30_000),
        bomb(2**31 - 1, 2**31 - 1),
        saved(Image.new("RGB", (300, 150)))[:100],
        "no base64!",
        "",
        "é",
    ],
    ids=["bomb", "huge", "cut off", "no base64", "empty", "not ascii"],
)
def test_what_cannot_or_should_not_be_read_is_none(data: str) -> None:
    """No error, and no gigabytes of pixels."""
    assert None is resized(data, ImageLimits(side=100))


def test_without_pillow_nothing_is_resized(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra."""
    data = saved(Image.new("RGB", (300, 150)))
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert not resizing.is_available()
    assert None is resized(data, ImageLimits(side=100))
