"""The marks around a stranger's text."""

from hypothesis import given
from hypothesis import strategies as st

from interlingua.tools.tool import untrusted, visible


@given(st.text())
def test_the_text_stands_between_marks_that_it_does_not_hold(text):
    """
    Whatever it is, it is there once, whole, and the word of the marks is not in it.
    """
    wrapped = untrusted(text, "somewhere")
    word = wrapped.split("<<<UNTRUSTED ", 1)[1].split(">>>", 1)[0]
    assert wrapped.endswith(f"<<<UNTRUSTED {word}>>>\n{text}\n<<<END UNTRUSTED {word}>>>")
    assert word not in text


def test_the_word_is_another_each_time():
    """
    A thousand calls, a thousand words.
    """
    assert 1000 == len({untrusted("x", "y") for _ in range(1000)})


def test_what_cannot_be_seen_goes():
    """
    Escapes, direction marks, tags, halves of characters; line ends become one kind.
    """
    hidden = "a\x1b\x00\x7f\x9b\u202e\u2069\ud800\U000e0041\U000e01efb\r\nc\rd\te"
    assert "ab\nc\nd\te" == visible(hidden)
    assert "\u200d" in visible("👨\u200d👩")
