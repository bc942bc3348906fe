"""Pictures, sounds and documents from paths, bytes, open files and addresses, checked when they are made."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.conversion import audio, document

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n%..."
WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(40)


def test_a_picture_is_made_from_whatever_holds_it(tmp_path: Path) -> None:
    """A path as text or as `Path`, bytes, an open file: one block."""
    place = tmp_path / "dot.png"
    place.write_bytes(PNG)
    expected = il.ImageBlock(data=base64.b64encode(PNG).decode(), mime_type="image/png")
    with place.open("rb") as stream:
        made = [il.image(place), il.image(str(place)), il.image(PNG), il.image(bytearray(PNG)), il.image(stream)]
    made.append(il.image(place.as_uri()))
    assert [expected] * 6 == made


def test_an_address_is_passed_on() -> None:
    """Nothing is fetched here."""
    assert il.ImageBlock(url="https://example.com/a.png") == il.image("https://example.com/a.png")
    assert il.DocumentBlock(url="https://example.com/a.pdf", title="A") == document(
        "https://example.com/a.pdf", title="A"
    )
    assert "data:image/png;base64,AAAA" == il.image("data:image/png;base64,AAAA").url


def test_the_bytes_tell_the_type_and_not_the_name(tmp_path: Path) -> None:
    """A PNG that is called JPEG is a PNG."""
    place = tmp_path / "dot.jpg"
    place.write_bytes(PNG)
    assert "image/png" == il.image(place).mime_type


def test_documents_are_text_where_they_are(tmp_path: Path) -> None:
    """Others are data of their type."""
    place = tmp_path / "notes.md"
    place.write_text("# Notes", "utf-8")
    assert ("# Notes", "notes.md") == (document(place).text, document(place).title)
    assert "application/pdf" == document(PDF).mime_type
    assert "audio/wav" == audio(WAV).mime_type


@pytest.mark.parametrize(
    ("make", "source", "message"),
    [
        (il.image, PDF, "not an image"),
        (il.image, b"", "empty"),
        (il.image, b"hello", "not an image"),
        (audio, PNG, "not audio"),
        (document, b"\0\1\2", "unknown type"),
        (il.image, 5, "is not a file"),
        (il.image, None, "is not a file"),
        (il.image, "missing.png", "cannot read 'missing.png'"),
        (il.image, "a\0b.png", "cannot read"),
        (il.image, "/", "not a regular file"),
        (il.image, "/dev/zero", "not a regular file"),
    ],
)
def test_what_is_none_is_refused_where_it_is_made(make: Any, source: Any, message: str) -> None:
    """What it is, and what to do."""
    with pytest.raises(il.FormatError, match=message):
        make(source)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """It might never end."""
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(il.FormatError, match="not a regular file"):
        il.image(tmp_path / "pipe.png")


async def test_an_agent_takes_pictures_by_path(tmp_path: Path) -> None:
    """One or several, of any form; a wrong one is named by its place."""
    place = tmp_path / "dot.png"
    place.write_bytes(PNG)
    agent = il.Agent("debug/parrot-1")
    await agent.prompt("look", images=[place, PNG, il.image(PNG)])
    assert 3 == sum(isinstance(block, il.ImageBlock) for block in agent.messages[0].content)
    with pytest.raises(il.FormatError, match=r"images\[1\]"):
        await agent.prompt("look", images=[place, tmp_path / "none.png"])
