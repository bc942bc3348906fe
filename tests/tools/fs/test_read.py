"""`read`: pages, pictures, encodings, refusals."""

import base64
import io

import pytest

from interlingua import Abort
from interlingua.conversion.resizing import look
from interlingua.tools.core import read
from interlingua.tools.tool import FsBridge
from interlingua.values.errors import ToolInputError
from interlingua.values.messages import ImageBlock

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_lines_are_numbered(bridge: FsBridge, call):
    """As `cat -n` does; the numbers can be turned off."""
    await bridge.write_file("a", "one\ntwo\n")
    assert "     1\tone\n     2\ttwo" == (await call("read", path="a")).text
    assert "one\ntwo" == (await call("read", path="a", lineNumbers=False)).text


async def test_a_page_says_how_to_go_on(bridge: FsBridge, call):
    """Offset and limit choose lines; the notice names the next offset; the details have the numbers."""
    await bridge.write_file("a", "".join(f"line {number}\n" for number in range(1, 11)))
    result = await call("read", path="a", offset=3, limit=2)
    assert "     3\tline 3\n     4\tline 4\n\n[Lines 3–4 of 10. Use offset=5 to continue.]" == result.text
    truncation = result.details["truncation"]
    assert {
        "truncated": True,
        "truncatedBy": "lines",
        "totalLines": 10,
        "totalBytes": 71,
        "firstLine": 3,
        "outputLines": 2,
        "outputBytes": 28,
        "nextOffset": 5,
    } == truncation
    last = await call("read", path="a", offset=10)
    assert ("    10\tline 10", False) == (last.text, last.details["truncation"]["truncated"])


async def test_a_long_file_is_read_whole_page_by_page(bridge: FsBridge, call):
    """Following the offsets gives every line once, and no page is over the budget."""
    lines = [f"{number} {'x' * 90}" for number in range(3000)]
    await bridge.write_file("a", "\n".join(lines))
    offset, seen = 1, []
    while offset:
        result = await call("read", path="a", offset=offset, lineNumbers=False)
        truncation = result.details["truncation"]
        assert truncation["outputBytes"] <= read.PAGE_BYTES
        seen += result.text.split("\n")[: truncation["outputLines"]]
        offset = truncation["nextOffset"]
    assert lines == seen


async def test_a_line_without_end_is_cut(bridge: FsBridge, call):
    """The rest of the file can still be reached."""
    await bridge.write_file("a", "x" * 500_000 + "\nsecond\n")
    result = await call("read", path="a")
    assert len(result.text) < read.PAGE_BYTES + 500
    assert "Line 1 is 500,000 bytes long and was cut" in result.text
    assert 2 == result.details["truncation"]["nextOffset"]
    asked = await call("read", path="a", limit=10)
    assert len(asked.text) < read.MAX_PAGE_BYTES + 500


async def test_an_offset_past_the_end_is_an_error(bridge: FsBridge, call):
    """It says how long the file is."""
    await bridge.write_file("a", "one\n")
    with pytest.raises(ToolInputError, match=r"offset 2 is past the end, the file has 1 line$"):
        await call("read", path="a", offset=2)


async def test_an_empty_file_is_reported_as_empty(bridge: FsBridge, call):
    """Not an empty text, which models take for a failure."""
    await bridge.write_file("a", "")
    assert "(empty file)" == (await call("read", path="a")).text


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("grün\r\nzwei".encode(), "utf-8"),
        (b"\xef\xbb\xbf" + "grün\r\nzwei".encode(), "utf-8"),
        (b"\xff\xfe" + "grün\r\nzwei".encode("utf-16-le"), "utf-16-le"),
        (b"\xfe\xff" + "grün\r\nzwei".encode("utf-16-be"), "utf-16-be"),
        (b"\xff\xfe\x00\x00" + "grün\r\nzwei".encode("utf-32-le"), "utf-32-le"),
        ("grün\r\nzwei".encode("latin-1"), "latin-1"),
    ],
)
async def test_encodings_are_found_and_reported(bridge: FsBridge, call, data: bytes, encoding: str):
    """The text is the same; all but UTF-8 are named."""
    await bridge.write_bytes("a", data)
    result = await call("read", path="a", lineNumbers=False)
    assert "grün\nzwei" == "\n".join(result.text.split("\n")[:2])
    assert (encoding, "crlf") == (result.details["encoding"], result.details["lineEnding"])
    assert (encoding != "utf-8") == ("[" in result.text)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7\x00", "PDF document"),
        (b"PK\x03\x04\x00", "ZIP archive"),
        (bytes(range(256)), "unknown type"),
        (b"\x01\x02\x03\xff\xfe" * 9, "unknown type"),
    ],
)
async def test_binary_files_are_refused_with_type_and_size(bridge: FsBridge, call, data: bytes, kind: str):
    """The model learns what it is instead of seeing noise."""
    await bridge.write_bytes("a", data)
    with pytest.raises(ToolInputError, match=rf"^a: binary file \({kind}, {len(data)} bytes\)"):
        await call("read", path="a")


async def test_pictures_come_as_pictures(bridge: FsBridge, call):
    """By their bytes, whatever the name says."""
    await bridge.write_bytes("a.jpg", PNG)
    result = await call("read", path="a.jpg")
    assert f"Image a.jpg [image/png, 1×1, {len(PNG)} bytes]" == result.text
    assert ImageBlock(data=base64.b64encode(PNG).decode(), mime_type="image/png") == result.content[1]


async def test_what_is_only_named_a_picture_is_an_error(bridge: FsBridge, call):
    """Empty ones too."""
    for data in (b"", b"no picture"):
        await bridge.write_bytes("a.png", data)
        with pytest.raises(ToolInputError, match="named as an image, but not an image"):
            await call("read", path="a.png")


async def test_a_picture_that_is_too_large_and_cannot_be_made_smaller_is_an_error(bridge: FsBridge, call):
    """No provider would take it."""
    await bridge.write_bytes("a.png", PNG[:40] + bytes(read.MAX_PICTURE_BYTES))
    with pytest.raises(ToolInputError, match=r"image/png of 3,750,040 bytes"):
        await call("read", path="a.png")


async def test_a_picture_that_is_too_large_is_shown_smaller(bridge: FsBridge, call):
    """The header and the details say how it is, and how it is shown."""
    image = pytest.importorskip("PIL.Image").effect_noise((2400, 1800), 100)
    file = io.BytesIO()
    image.save(file, format="PNG")
    await bridge.write_bytes("a.png", file.getvalue())
    result = await call("read", path="a.png")
    assert result.text.startswith("Image a.png [image/png, 2400×1800, ")
    assert result.text.endswith(" bytes], shown as image/png of 2000×1500")
    assert (2400, {"mimeType": "image/png", "width": 2000, "height": 1500}) == (
        result.details["width"],
        result.details["shown"],
    )
    assert ("image/png", 2000, 1500) == look(result.content[1].data)


async def test_other_tools_name_for_the_path_works(bridge: FsBridge, call):
    """And without any, the error says what is missing."""
    await bridge.write_file("a", "x")
    assert "     1\tx" == (await call("read", file_path="a")).text
    with pytest.raises(ToolInputError, match=r"^path required"):
        await call("read")


async def test_a_missing_file_is_an_error_that_names_it(bridge: FsBridge, call):
    """On every bridge in the same words."""
    with pytest.raises(ToolInputError, match=r"^none\.txt: no such file or directory$"):
        await call("read", path="none.txt")


async def test_an_aborted_call_does_nothing(bridge: FsBridge, call):
    """Of reading and of writing alike."""
    await bridge.write_file("a", "x")
    signal = Abort()
    signal.abort("enough")
    calls = [
        ("read", {"path": "a"}),
        ("write", {"path": "a", "content": "y"}),
        ("edit", {"path": "a", "oldText": "x", "newText": "y"}),
        ("apply_patch", {"input": "*** Begin Patch\n*** Delete File: a\n*** End Patch"}),
        ("ls", {}),
        ("find", {"pattern": "*"}),
        ("grep", {"pattern": "x"}),
    ]
    for name, params in calls:
        with pytest.raises(ToolInputError, match="stopped: enough"):
            await call(name, signal=signal, **params)
    assert "x" == await bridge.read_file("a")
