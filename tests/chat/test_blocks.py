"""Markdown in pieces: what is finished comes once, in order, and the tail stays short."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from interlingua.chat.rendering import MAX_CHARACTERS, MAX_LINES, Blocks, TextPiece

WORDS = st.sampled_from(
    [
        "word ",
        "\n",
        "\n\n",
        "```",
        "```python\n",
        "~~~\n",
        "- item\n",
        "  more\n",
        "| a | b |\n",
        "|---|---|\n",
        "# H\n",
        " ",
    ]
)
TEXTS = st.lists(WORDS, max_size=60).map("".join)


def cut(text: str, sizes: list[int]) -> list[TextPiece]:
    blocks, out, at = Blocks(), [], 0
    for size in itertools.cycle(sizes):
        if at >= len(text):
            break
        out += blocks.feed(text[at : at + size])
        at += size
    return out + blocks.close()


@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_nothing_is_lost_and_the_cuts_on_the_way_make_no_difference(text: str, sizes: list[int]) -> None:
    """However the text arrives, the pieces are the same, and together they are the text."""
    whole = cut(text, [len(text) or 1])
    assert text == "".join(piece.text for piece in whole)
    assert whole == cut(text, sizes)


def test_a_paragraph_is_finished_when_the_next_one_begins() -> None:
    """Not before: a line that follows directly would belong to it."""
    blocks = Blocks()
    assert blocks.feed("One\ntwo\n\n") == []
    assert blocks.feed("T") == [TextPiece("One\ntwo\n\n")]
    assert blocks.tail == TextPiece("T")


def test_code_is_not_cut_at_its_blank_lines() -> None:
    """A fence lasts until it is closed by its own kind."""
    text = "````\na\n\nb\n```\n\nc\n````\n\nend"
    assert [piece.text for piece in cut(text, [3])] == ["````\na\n\nb\n```\n\nc\n````\n\n", "end"]


def test_what_is_indented_goes_on_with_the_list() -> None:
    """A paragraph inside a list item is not a block of its own."""
    text = "- a\n\n  more of a\n\n- b\n"
    assert [piece.text for piece in cut(text, [4])] == ["- a\n\n  more of a\n\n", "- b\n"]


def test_long_code_is_shown_in_parts_that_are_code_each() -> None:
    """So that the tail stays short, whatever a model writes."""
    lines = "".join(f"line {number}\n" for number in range(200))
    pieces = cut(f"```python\n{lines}```\n", [50])
    assert all(piece.markdown.startswith("```python\n") for piece in pieces)
    assert all(piece.markdown.rstrip().endswith("```") for piece in pieces)
    assert [False, True] == [pieces[0].continues, pieces[1].continues]
    assert max(piece.text.count("\n") for piece in pieces) <= MAX_LINES


def test_a_long_table_keeps_its_head_in_each_part() -> None:
    """A part without the two first lines would not be a table."""
    rows = "".join(f"| {number} | x |\n" for number in range(150))
    pieces = cut(f"| a | b |\n|---|---|\n{rows}", [7])
    assert all(piece.markdown.startswith("| a | b |\n|---|---|\n") for piece in pieces)
    assert len(pieces) == 3


def test_the_tail_stays_short_in_a_line_without_end() -> None:
    """The work for a piece of text does not grow with what came before it."""
    blocks, longest = Blocks(), 0
    for _ in range(5_000):
        blocks.feed("word after word ")
        longest = max(longest, len(blocks.tail.text) if blocks.tail is not None else 0)
    assert longest <= MAX_CHARACTERS
