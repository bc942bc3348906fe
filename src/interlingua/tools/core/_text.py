"""File bytes to text and back: detects the encoding, and keeps it on writing."""

import codecs
import difflib
import operator
import re
from collections.abc import Iterable, Sequence
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


class DecodedText(NamedTuple):
    """Text without its byte order mark, and its encoding."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encoded(self, text: str, path: str) -> bytes:
        """Other text in the same encoding."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = shown(text[error.start : error.start + 1])
            raise ToolInputError(f"{shown(path)}: the file is {self.encoding}, which has no {bad!r}") from None


def decode(data: bytes) -> DecodedText | None:
    """The text in `data`; None if it is binary. Without a byte order mark and not UTF-8, it is read as latin-1."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return DecodedText(data[len(mark) :].decode(encoding), encoding, mark)
            except UnicodeDecodeError:
                break
    if b"\0" in data:
        return None
    try:
        return DecodedText(data.decode())
    except UnicodeDecodeError:
        head = data[:8192]
        controls = len(_CONTROL.findall(head))
        return None if controls > len(head) * _MUCH_CONTROL else DecodedText(data.decode("latin-1"), "latin-1")


def decode_text(data: bytes, path: str) -> DecodedText:
    """The text of a file that must be text."""
    text = decode(data)
    if text is None:
        raise ToolInputError(f"{shown(path)}: binary file ({kind(data)}, {len(data):,} bytes), not text")
    return text


def kind(data: bytes) -> str:
    """A description of the type of a binary file."""
    if data[4:8] == b"ftyp":
        return "MP4 media"
    return next((name for magic, name in _KINDS if data.startswith(magic)), "unknown type")


# Lines, line endings and diffs.

_CONTEXT = 3
_DIFF_BYTES = 256 * 1024


class LineChange(NamedTuple):
    """The lines from `first` up to `last`, counted from 0, become `lines`."""

    first: int
    last: int
    lines: list[str]


def split_lines(text: str) -> list[str]:
    """The lines without their endings; only a line feed ends a line, so that line numbers agree with other programs."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def raw_lines(text: str) -> list[str]:
    """The lines without their line feed; a line that ends in CRLF keeps the carriage return."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def line_ending_at(text: str, offset: int) -> str:
    """The ending of the line at an offset; of the line before it, where that line has none."""
    end = text.find("\n", offset)
    if end < 0:
        end = text.rfind("\n", 0, offset)
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def with_endings(new: str, old: str, default: str) -> str:
    """New text with the line endings of the text that it replaces.

    A line that stays or replaces another keeps that ending; an additional line gets that of the line before it.
    """
    lines, before = new.split("\n"), old.split("\n")
    had = ["\r\n" if line.endswith("\r") else "\n" for line in before[:-1]]
    endings: list[str] = []
    if len(set(had)) < 2:
        endings = [had[0] if had else default] * (len(lines) - 1)
    else:
        texts = [line.removesuffix("\r") for line in before[:-1]]
        for _, a1, a2, b1, b2 in difflib.SequenceMatcher(None, texts, lines[:-1], autojunk=False).get_opcodes():
            for at in range(a1, a1 + b2 - b1):
                endings.append(had[at] if at < a2 else endings[-1] if endings else default)
    return "".join(map(operator.add, lines[:-1], endings)) + lines[-1]


def line_ending(text: str) -> str:
    """The ending that most lines have."""
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def trimmed(old: Sequence[str], change: LineChange) -> LineChange:
    """The change without unchanged lines at its start and end."""
    first, last, lines = change
    head = 0
    while first + head < last and head < len(lines) and old[first + head] == lines[head]:
        head += 1
    tail = 0
    while first + head < last - tail and head + tail < len(lines) and old[last - tail - 1] == lines[-tail - 1]:
        tail += 1
    return LineChange(first + head, last - tail, lines[head : len(lines) - tail])


def unified(path: str, old: Sequence[str], changes: Iterable[LineChange], new_path: str | None = None) -> str:
    """A unified diff of ordered, disjoint changes; truncated if it is very long."""
    out = [f"--- a/{path}", f"+++ b/{new_path or path}"]
    size, shift = 0, 0
    for group in _groups(changes):
        hunk, added = _hunk(old, group, shift)
        shift += added
        out += hunk
        size += sum(map(len, hunk))
        if size > _DIFF_BYTES:
            out.append("… the rest of the diff is left out")
            break
    return "\n".join(out) + "\n"


def _groups(changes: Iterable[LineChange]) -> list[list[LineChange]]:
    """Groups of changes whose contexts overlap."""
    groups: list[list[LineChange]] = []
    for change in changes:
        if groups and change.first - groups[-1][-1].last <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunk(old: Sequence[str], group: list[LineChange], shift: int) -> tuple[list[str], int]:
    start = max(0, group[0].first - _CONTEXT)
    end = min(len(old), group[-1].last + _CONTEXT)
    body, at = list[str](), start
    for first, last, lines in group:
        body += [" " + line for line in old[at:first]]
        body += ["-" + line for line in old[first:last]]
        body += ["+" + line for line in lines]
        at = last
    body += [" " + line for line in old[at:end]]
    added = sum(len(change.lines) - (change.last - change.first) for change in group)
    before, after = end - start, end - start + added
    head = f"@@ -{_range(start, before)} +{_range(start + shift, after)} @@"
    return [head, *body], added


def _range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"
