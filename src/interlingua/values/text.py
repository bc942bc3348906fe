"""Untrusted text: hides invisible characters and control sequences, reads numbers; byte order marks, word breaks."""

import re
import unicodedata
from typing import Any

# ECMA-48: a string (OSC, DCS, SOS, PM, APC) runs to ST or BEL, a control sequence to its final byte; then two-character
# escapes. Each also has a one-character form above U+0080. An unfinished one loses its introducer only.
ESCAPES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
_DIRECTIONS = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt), the other format characters (category Cf) that
# show nothing, letters and signs whose glyph is empty, and the noncharacters, which no text has.
_NONCHARACTERS = r"\ufdd0-\ufdef" + "".join(f"\\U{plane:04x}fffe\\U{plane:04x}ffff" for plane in range(17))
_INVISIBLE = (
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    r"\ufff0-\ufffb\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_EMOJI = (
    r"\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934-\u2b55"
    r"\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING = r"\u0620-\u06d3\u0750-\u077f\u08a0-\u08c7"  # letters of Arabic script
_VIRAMA = r"\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u1039\u17d2"
# An invisible character is kept once where the script needs it: joiners inside emoji, between letters of Arabic script
# and after a virama (the CONTEXTJ rules of RFC 5892, A.1 and A.2), and the emoji variation selector, which follows a
# digit in a keycap only.
_NEEDED = (
    rf"(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])|(?<=[{_EMOJI}])\ufe0f|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    rf"|(?<=[{_VIRAMA}])[\u200c\u200d]"
    rf"|(?<=[{_JOINING}])\u200c(?=[{_JOINING}])"
)
_HIDDEN = re.compile(f"{_NEEDED}|([{_CONTROLS}{_DIRECTIONS}{_INVISIBLE}{_NONCHARACTERS}])")
_BLANKS = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800]")  # one look, many codes
_STEERING = re.compile(f"[{_CONTROLS}{_DIRECTIONS}\U000e0000-\U000e0fff]")
_PLAIN = re.compile(r"[\n\t -~]*")


def visible(text: str) -> str:
    """Removes characters that people do not see and models read: control and format characters, selectors, tags,
    fillers.

    Spaces of other widths become plain ones, line ends one kind.
    """
    if _PLAIN.fullmatch(text):
        return text
    text = re.sub("\r\n?|[\u2028\u2029]", "\n", text)
    return _BLANKS.sub(" ", _HIDDEN.sub(lambda match: "" if match[1] else match[0], text))


def printable(text: str) -> str:
    """Removes what controls a terminal: escape sequences, control characters, direction changes, tags.

    Each piece of a stream is safe by itself: the introducer of a sequence is removed wherever the sequence ends.
    """
    if _PLAIN.fullmatch(text):
        return text
    text = re.sub("\r\n?|[\u2028\u2029]", "\n", ESCAPES.sub("", text))
    return _STEERING.sub("", text)


def escaped(text: str) -> str:
    """Escapes terminal controls in JSON text with `\\u` escapes: the same value, safe to print."""
    return _STEERING.sub(lambda match: "".join(f"\\u{unit:04x}" for unit in _units(match[0])), text)


def _units(char: str) -> tuple[int, ...]:
    """Returns the UTF-16 code units of a character."""
    code = ord(char)
    return (code,) if code < 0x10000 else (0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF))


def natural(text: str | None, *, digits: int = 18) -> int | None:
    """Returns the number that a text of at most `digits` ASCII digits stands for; None for any other text.

    `int` alone raises on `²`, which is a digit, and on thousands of digits.
    """
    return int(text) if text is not None and len(text) <= digits and text.isascii() and text.isdecimal() else None


# Thai, Lao, Burmese, Khmer, CJK and kana. SQLite's unicode61 tokenizer would index a sentence of these as one token
# (sqlite.org/fts5.html#unicode61_tokenizer), so each character is a token.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u31a0-\u9fff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003347f]"
)


def spaced(text: str) -> str:
    """Returns the text as it is indexed: spaces around each character of a script without word spacing."""
    if text.isascii():
        return text
    return UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFKC", text))


def as_utf8(data: bytes) -> bytes:
    """Decodes by the byte order mark and returns UTF-8 bytes."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").encode()
    return data.removeprefix(b"\xef\xbb\xbf")


def unmarked(data: Any) -> Any:
    """Returns text and bytes without a byte order mark, bytes as UTF-8; anything else as it is."""
    if isinstance(data, bytes | bytearray):
        return as_utf8(bytes(data)) if data[:1] in (b"\xef", b"\xff", b"\xfe") else data
    return data.removeprefix("\ufeff") if type(data) is str else data
