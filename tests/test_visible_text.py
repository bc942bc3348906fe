"""Hidden text does not reach a model, and no text steers a terminal."""

import json
import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlingua.values.text import escaped, printable, visible

IGNORABLE = [
    *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0),
    *(*range(0xFFF0, 0xFFFC), *range(0x1BCA0, 0x1BCA4), 0x1D159, *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
    *(*range(0xFDD0, 0xFDF0), *(plane << 16 | last for plane in range(17) for last in (0xFFFE, 0xFFFF))),
]  # fmt: skip
SHOWN = {0x0600, 0x0601, 0x0602, 0x0603, 0x0604, 0x0605, 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD}
FORMATS = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs")]


def test_no_invisible_character_of_unicode_stays(record_property: Callable[[str, object], None]) -> None:
    """Every default ignorable, format and control character: alone, repeated, between letters, after an emoji."""
    codes = sorted({*IGNORABLE, *FORMATS} - SHOWN - {0x0A, 0x0D, 0x09})
    for char in map(chr, codes):
        assert "ab" == visible(f"a{char}b"), hex(ord(char))
        assert "ab" == visible(f"a{char * 3}b"), hex(ord(char))
        assert "\u2764 b" == visible(f"\u2764 {char}b"), hex(ord(char))
        assert visible(f"\u2764{char * 40}b") in ("\u2764b", "\u2764\ufe0fb"), hex(ord(char))
    record_property("tried", 4 * len(codes))


@given(st.binary(min_size=1, max_size=40), st.sampled_from(["zero width", "selectors", "tags", "joiners", "spaces"]))
def test_bits_in_invisible_characters_do_not_pass(data: bytes, way: str) -> None:
    """Bytes written as zero-width bits, variation selectors, tags, joiners or spaces leave no trace of themselves."""
    bits = "".join(f"{byte:08b}" for byte in data)
    selectors = "".join(chr(0xFE00 + byte if byte < 16 else 0xE0100 + byte - 16) for byte in data)
    carrier = {
        "zero width": "".join("\u200b" if bit == "0" else "\u200c" for bit in bits),
        "selectors": selectors,
        "tags": "".join(chr(0xE0000 + byte % 0x80) for byte in data),
        "joiners": "".join("\u200d" if bit == "0" else "\u2060" for bit in bits),
        "spaces": "",
    }[way]
    assert visible(f"good {carrier}day") == "good day"
    assert visible(f"good \U0001f60a{carrier} day") in ("good \U0001f60a day", "good \U0001f60a\ufe0f day")
    if way == "spaces":
        written = "x".join("\u2009" if bit == "0" else "\u200a" for bit in bits)
        assert set(visible(written)) <= {"x", " "}


@given(st.lists(st.booleans(), max_size=40), st.sampled_from("1#*a"))
def test_bits_in_selectors_after_digits_do_not_pass(bits: list[bool], base: str) -> None:
    """A digit has a selector in a keycap, and nowhere else."""
    carrier = "".join(base + ("\ufe0f" if bit else "") for bit in bits)
    assert base * len(bits) == visible(carrier)


@pytest.mark.parametrize("text", [
    "👨\u200d👩\u200d👧", "❤\ufe0f", "1\ufe0f⃣", "🏳\ufe0f\u200d🌈",
    "می\u200cخواهم", "क्\u200dष", "naïve café", "日本語　テキスト",
    "a\tb\nc", "ﬁ", "e\u0301", "אבג", "العربية", "𝒜", "½ ≤ ∞", "👍🏽",
])  # fmt: skip
def test_what_writing_needs_stays(text: str) -> None:
    """Emoji, Persian, Indic conjuncts, accents, other scripts."""
    assert text == visible(text) == printable(text)


SEQUENCES = [
    *("\x1b]52;c;cm0gLXJmIH4=\x07", "\x1b]52;c;cm0gLXJmIH4=\x1b\\"),
    *("\x9d52;c;eA==\x9c", "\x1b]0;title\x07", "\x1b]2;title\x07"),
    *("\x1bP1$tx\x1b\\", "\x90q#0;2;0\x9c", "\x1b_Gf=100;AAAA\x1b\\"),
    *("\x1b^pm\x1b\\", "\x1bXsos\x1b\\", "\x1b]8;;http://x\x07"),
    *("\x1b[2J", "\x9b2J", "\x1b[31m", "\x1b[8m", "\x1b[6n"),
    *("\x1b[c", "\x1b[>c", "\x1b[21t", "\x1b[?1049h", "\x1b[20;20H"),
    *("\x1bc", "\x1b#8", "\x1b(0", "\x1b="),
    *("\x1b[5i", "\x1b[?2004h", "\x1b]1337;File=:AA\x07", "\x1b]50;x\x07", "\x1b]4;1;?\x07"),
    *("\x1b", "\x1b\x1b]52;c;x\x07", "\x9b", "\x9d52;c;x", "\x1b]52;c;x"),
    *("\x08\x08\x08", "\x0b", "\x0c", "\x07", "\x0e", "\x0f"),
    *("\u202egnp.exe", "\u2066x\u2069", "\u200fx", "\u061c", "\ud800"),
    *("\U000e0041", "\x7f", "\x85", "\u2028", "\x1b[\x1b[2J2J"),
    *("\x1b]\x1b]52;c;x\x07\x07", "\x1b\n]52;c;x\x07", "\x1b[1;\x1b[31mx"),
    *("safe\rrm -rf", "\x1b[200~x\x1b[201~", "\x05", "\x9e\x9c"),
]  # fmt: skip


def steers(text: str) -> bool:
    """Whether a terminal would do something else than show the text."""
    bad = {*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    return any(ord(char) in bad - {0x0A, 0x09} for char in text)


@pytest.mark.parametrize("sequence", SEQUENCES, ids=ascii)
def test_no_sequence_steers_a_terminal(sequence: str) -> None:
    """Clipboard, titles, device strings, queries, cursor, colours, C1, direction, overwriting; also cut into pieces."""
    for text in (sequence, f"a{sequence}b", sequence * 3, sequence[::-1]):
        assert not steers(printable(text)), ascii(text)
        assert not steers(visible(text)), ascii(text)
    for at in range(len(sequence)):
        assert not steers(printable(sequence[:at]) + printable(sequence[at:]))


@settings(max_examples=500)
@given(st.lists(st.one_of(st.sampled_from(SEQUENCES), st.text(max_size=3)), max_size=6).map("".join))
@example("\x1b" * 5 + "]52;c;x\x07")
def test_no_text_steers_a_terminal(text: str) -> None:
    """Sequences in each other, cut off, with anything between them; and cleaning twice changes nothing."""
    assert not steers(printable(text))
    assert printable(text) == printable(printable(text))
    assert visible(text) == visible(visible(text))


@given(st.text())
def test_escaped_json_is_the_same_value(text: str) -> None:
    """On a terminal a JSON document is shown with escapes: it means the same, and steers nothing."""
    document = json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)
    assert json.loads(document) == json.loads(escaped(document))
    assert not steers(escaped(document))


@given(st.text(st.characters(exclude_categories=("Cc", "Cs", "Cf", "Mn", "Zs", "Zl", "Zp", "Cn", "Lo", "So"))))
def test_what_can_be_seen_stays(text: str) -> None:
    """Letters and signs of any script."""
    assert text == visible(text) == printable(text)
