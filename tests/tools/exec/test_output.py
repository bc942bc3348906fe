"""How output is kept and cleaned, without any process."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.tools.output import HEAD_BYTES, TAIL_BYTES, OutputBuffer, plain, whole_characters


@given(st.text(max_size=50), st.integers(0, 200))
def test_a_cut_character_waits_for_its_rest(text: str, cut: int) -> None:
    """However UTF-8 is cut, whole characters come first and nothing is lost."""
    data = text.encode("utf-8", "replace")
    first = whole_characters(data[:cut])
    assert text.encode("utf-8", "replace").decode().startswith(first.decode())
    assert data.decode() == (first + data[len(first) :]).decode()
    assert len(data[:cut]) - len(first) < 4


@given(st.binary(max_size=300))
def test_cleaned_text_holds_no_control_but_newline_and_tab(data: bytes) -> None:
    """Whatever the bytes, no control character and no escape survives, and cleaning twice changes nothing."""
    text = plain(data)
    assert not [char for char in text if (ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160]
    assert text == plain(text.encode()) or "binary output" in plain(text.encode())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        (b"\x1b[", ""),
        (b"\x1b]unfinished", "unfinished"),
        (b"a\x1bcb", "ab"),
        (b"_\x08b_\x08o", "bo"),
        (b"old\rnew\n", "new\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"tab\tkept\n", "tab\tkept\n"),
    ],
)
def test_what_a_terminal_would_show(data: bytes, text: str) -> None:
    """Escapes vanish, overwriting is done, text stays."""
    assert text == plain(data)


def test_hostile_sequences_cost_linear_time() -> None:
    """Unfinished sequences without end are no trap for the cleaner."""
    for unit in (b"\x1b[0", b"\x1b]", b"\x1bP", b"\x08", b"\r", b"\xc2\x9b0"):
        assert isinstance(plain(unit * 50_000), str)


def test_both_ends_are_kept_and_the_middle_is_counted(tmp_path: Path) -> None:
    """Memory holds the two ends; together with the gap they are the whole."""
    output = OutputBuffer(tmp_path / "log", limit=10_000_000)
    whole = b"".join(b"%07d\n" % number for number in range(200_000))
    for at in range(0, len(whole), 5000):
        output.append(whole[at : at + 5000])
    head, between, tail = output.ends(20_000)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(whole) == len(head) + between + len(tail)
    assert len(head) + len(tail) <= 20_000
    assert len(output._head) <= HEAD_BYTES
    assert len(output._tail) <= 2 * TAIL_BYTES + 5000
    output.close()
    assert whole == (tmp_path / "log").read_bytes()
    assert output.complete


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """When the log cannot be written, output is still counted and shown, and the reason is kept."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    output = OutputBuffer(tmp_path / "log", limit=1000)
    assert output._file is not None
    output._file.close()
    output._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115, PTH123
    output.append(b"words")
    assert (b"words", 0, b"") == output.ends(100)
    assert ("No space left on device", False) == (output.problem, output.complete)
    output.close()
