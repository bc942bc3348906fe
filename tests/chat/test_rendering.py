"""What is drawn: safe, short, and in colour where that says something."""

import re
from typing import Any

import pytest
from rich.console import RenderableType

import interlingua as il
from interlingua.chat import rendering
from interlingua.chat.opening import Spending, by_model
from interlingua.chat.plain import plain_text
from interlingua.chat.screen import drawn
from interlingua.values.errors import AuthFailed, ContextTooLong, InterlinguaError, RateLimited
from interlingua.values.losses import Loss
from interlingua.values.messages import Cost, Usage

EVIL = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x9b1A\x08\x00\rover\u202ereversed"


def lines(*parts: RenderableType) -> list[str]:
    return plain_text(parts).splitlines()


def controls(text: str) -> str:
    """The controls in a drawing that are not rich's own colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).translate({ord("\n"): None})


DRAWINGS: list[Any] = [
    lambda text: rendering.markdown(text),
    lambda text: rendering.markdown(f"[{text}](http://{text})\n\n```\n{text}\n```"),
    lambda text: rendering.sent_by_user(text),
    lambda text: rendering.unfolded(text),
    lambda text: rendering.headline(text, {"command": text}),
    lambda text: rendering.headline("x", {text: text}),
    lambda text: rendering.last_lines(text, 5),
    lambda text: rendering.coloured_diff(f"+{text}\n-{text}"),
    lambda text: rendering.error_line(InterlinguaError(text)),
    lambda text: rendering.note(text),
    lambda text: rendering.table([(text, text)]),
    lambda text: rendering.loss_report("x", [Loss(text, text, text, "dropped")]),
    lambda text: rendering.finished_call(
        text, text, {"content": [{"text": text}]}, is_error=True, diff=None, seconds=1, announced=False
    ),
]


@pytest.mark.parametrize("draw", DRAWINGS)
def test_foreign_text_cannot_act_on_the_terminal(draw: Any) -> None:
    """Titles, cursor moves, erasures and reversed text are gone, whatever drew them."""
    text = controls(drawn([draw(EVIL)], 80))
    assert [] == [character for character in text if not character.isprintable()]
    assert "\u202e" not in text


def test_a_link_shows_where_it_leads() -> None:
    """No address hides behind a word."""
    assert ["here (https://example.com/)"] == lines(rendering.markdown("[here](https://example.com/)"))


def test_thinking_is_one_line_with_its_duration() -> None:
    """However long it was."""
    shown = lines(rendering.folded(72, "word\n" * 300))
    assert ["▸ thought for 1 min 12 s (1,500 characters; Ctrl-T or /thinking unfolds)"] == shown


def test_a_call_is_shown_by_its_main_argument() -> None:
    """The command, the path; else its arguments."""
    assert ["● exec make all"] == lines(rendering.headline("exec", {"command": "make\n  all", "timeout": 3}))
    assert ['● other {"a":1}'] == lines(rendering.headline("other", {"a": 1}))


def test_only_the_end_of_a_long_output_is_shown_and_the_rest_counted() -> None:
    """The end is where the error is."""
    shown = lines(rendering.last_lines("\n".join(map(str, range(100))), 3))
    assert ["  … 97 lines before", "  97", "  98", "  99"] == shown


def test_a_diff_has_colours() -> None:
    """Green is new, red is old."""
    text = drawn([rendering.coloured_diff("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same")], 80)
    assert "  \x1b[31m-old\x1b[0m\n" in text
    assert "  \x1b[32m+new\x1b[0m\n" in text


def test_what_is_wrapped_stays_within_its_indent() -> None:
    """The lines of a diff, and what they are wrapped into."""
    shown = drawn_lines(rendering.coloured_diff("+one two three"), 12)
    assert ["  +one two", "  three"] == [line.rstrip() for line in shown]


def drawn_lines(part: RenderableType, width: int) -> list[str]:
    return re.sub(r"\x1b\[[\d;]*m", "", drawn([part], width)).splitlines()


def test_parts_of_markdown_have_one_blank_line_between_them_and_none_around() -> None:
    """Lists, tables, quotes and code alike; blank lines within code stay."""
    code, table = "```python\na = 1\n\n\nb = 2\n```", "| a | b |\n|---|---|\n| 1 | 2 |"
    text = f"# Head\n\nwords\n\n- one\n- two\n\n{code}\n\n{table}\n\n> quote\n\nend\n"
    shown = [line.rstrip() for line in drawn_lines(rendering.markdown(text), 60)]
    assert ["Head", "", "words", "", " • one", " • two", "", " a = 1", "", "", " b = 2", ""] == shown[:12]
    assert ["a  b", "────", "1  2", "", "▌ quote", "", "end"] == shown[12:]


def test_what_a_call_changed_is_shown_instead_of_its_words() -> None:
    """From its result, or from what was known before it ran."""
    result = {"content": [{"type": "text", "text": "Edited."}], "details": {"diff": "-a\n+b"}}
    shown = rendering.finished_call(
        "edit", {"path": "x"}, result, is_error=False, diff=None, seconds=0.25, announced=False
    )
    assert ["● edit x  0.2 s", "  -a", "  +b"] == lines(shown)
    bare = {"content": [{"type": "text", "text": "Created."}]}
    shown = rendering.finished_call("write", {"path": "x"}, bare, is_error=False, diff="+n", seconds=1, announced=False)
    assert ["● write x  1.0 s", "  +n"] == lines(shown)


def test_a_call_that_was_shown_when_it_was_asked_for_is_not_shown_again() -> None:
    """Only what came of it."""
    bare = {"content": [{"type": "text", "text": "Created."}]}
    shown = rendering.finished_call("write", {"path": "x"}, bare, is_error=False, diff="+n", seconds=1, announced=True)
    assert ["  ✓ write  1.0 s"] == lines(shown)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (AuthFailed("no key"), "auth login"),
        (RateLimited("slow down"), "/model"),
        (ContextTooLong("too long"), "/compact"),
    ],
)
def test_an_error_is_one_line_with_what_to_do(error: Exception, remedy: str) -> None:
    """So that it can be done at once."""
    (line,) = drawn([rendering.error_line(error)], 400).splitlines()
    assert str(error) in line
    assert remedy in line


def test_an_unknown_price_is_reported_and_not_taken_for_nothing() -> None:
    """A sum with a part unknown is more than it seems."""
    cost = Cost(input=1, output=1, cache_read=0, cache_write=0, total=0.5)
    priced = il.AssistantMessage(content="a", model="m", provider="p", usage=Usage.of(input=5, output=2, cost=cost))
    unpriced = il.AssistantMessage(content="b", model="m", provider="p", usage=Usage.of(input=1, output=1))
    found = by_model([priced, unpriced, il.UserMessage(content="x")])["p/m"]
    assert ("$0.5000 + ?", 6, 3, 2) == (found.dollars, found.input, found.output, found.answers)
    assert "$0.0000" == Spending().dollars
