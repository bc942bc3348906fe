"""Bytes of a file as text and back: the encoding is found, said, and kept when the file is written again."""

import codecs
import re
from typing import NamedTuple

from ...values.errors import ToolInputError
from ..paths import shown

# The longer marks first: UTF-32 begins with the mark of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile(b"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_MUCH_CONTROL = 0.05
_KINDS = (
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"\xca\xfe\xba\xbe", "Java class"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x00asm", "WebAssembly"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"RIFF", "RIFF media"),
)


class Text(NamedTuple):
    """Text without its byte order mark, and how it was written."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encoded(self, text: str, path: str) -> bytes:
        """Other text, written in the same way."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = shown(text[error.start : error.start + 1])
            raise ToolInputError(f"{shown(path)}: the file is {self.encoding}, which has no {bad!r}") from None


def decode(data: bytes) -> Text | None:
    """The text in `data`; None when it is binary. What is neither UTF-8 nor marked is taken as latin-1."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return Text(data[len(mark) :].decode(encoding), encoding, mark)
            except UnicodeDecodeError:
                break
    if b"\0" in data:
        return None
    try:
        return Text(data.decode())
    except UnicodeDecodeError:
        head = data[:8192]
        controls = len(_CONTROL.findall(head))
        return None if controls > len(head) * _MUCH_CONTROL else Text(data.decode("latin-1"), "latin-1")


def decode_text(data: bytes, path: str) -> Text:
    """The text of a file that must be text."""
    text = decode(data)
    if text is None:
        raise ToolInputError(f"{shown(path)}: binary file ({kind(data)}, {len(data):,} bytes), not text")
    return text


def kind(data: bytes) -> str:
    """What sort of binary file this is, in words."""
    if data[4:8] == b"ftyp":
        return "MP4 media"
    return next((name for magic, name in _KINDS if data.startswith(magic)), "unknown type")
