"""Replies: what of a run goes back to a channel, whole and while it streams."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from interlingua.host.replies import Cleaner, ReplyOptions, ReplyStream, replies, without_reasoning
from interlingua.values.canonical import dump
from interlingua.values.events import (
    AgentEnd,
    Done,
    Error,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Start,
    TextDelta,
    TextEnd,
)
from interlingua.values.messages import ReplyPayload


def answer(*content: Any, **how: Any) -> il.AssistantMessage:
    blocks = tuple(il.TextBlock(text=part) if isinstance(part, str) else part for part in content)
    return il.AssistantMessage(content=blocks, **{"stop_reason": "stop", **how})


def failed(message: str, *content: Any) -> il.AssistantMessage:
    return answer(*content, stop_reason="error", error_message=message)


def result(name: str = "read", text: str = "out", status: Any = None, **how: Any) -> il.ToolResultMessage:
    details = {"status": status} if status is not None else how.pop("details", None)
    fields = {"is_error": status is not None, "details": details, **how}
    return il.ToolResultMessage(tool_call_id="c", tool_name=name, content=(il.TextBlock(text=text),), **fields)


def shown(*run: Any, **options: Any) -> list[str | None]:
    return [reply.text for reply in replies(run, options=ReplyOptions(**options))]


def marks(reply: ReplyPayload) -> dict[str, Any]:
    found: dict[str, Any] = reply.extra.get("interlingua", {})
    return found


# --- silence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY",
        "  NO_REPLY\n",
        "no_reply",
        "No_Reply",
        "**NO_REPLY**",
        "`NO_REPLY`.",
        '"no_reply"',
        "```\nNO_REPLY\n```",
        "[[NO_REPLY]]",
        "HEARTBEAT_OK",
        "<think>should I answer?</think>NO_REPLY",
        "NO_REPLY NO_REPLY",
        "NO_",
        "NO_REPL",
        "no_rep",
        "HEARTBEAT_",
    ],
)
def test_a_silent_answer_gives_no_reply(text: str) -> None:
    """The token in any letters, decorated, or the beginning of it."""
    skipped: list[Any] = []
    assert [] == replies([answer(text)], on_skip=lambda reply, why: skipped.append(why))
    assert ["silent"] == skipped


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Done. NO_REPLY", "Done."),
        ("NO_REPLY\n\nDone.", "Done."),
        ("One NO_REPLY two", "One two"),
        ("One\nNO_REPLY\ntwo", "One\n\ntwo"),
        ("All well. **NO_REPLY**", "All well."),
        ("All well. HEARTBEAT_OK", "All well."),
        ("All well. NO_REP", "All well."),
        ("SAY NO_REPLYING", "SAY NO_REPLYING"),
        ("write to no_reply@example.org", "write to no_reply@example.org"),
        ("NOTE: mind the gap", "NOTE: mind the gap"),
    ],
)
def test_a_token_among_words_is_taken_out(text: str, expected: str) -> None:
    """And nothing else is."""
    assert [expected] == shown(answer(text))


@pytest.mark.parametrize("text", ["NO", "No", "no.", "N"])
def test_a_plain_no_is_an_answer_unless_it_was_cut_off(text: str) -> None:
    """What may be the beginning of the token counts as that only where more was to come."""
    assert [text] == shown(answer(text))
    assert [] == shown(answer("NO", stop_reason="length"))


def test_a_silent_answer_with_media_gives_the_media() -> None:
    """Without words."""
    (reply,) = replies([answer("NO_REPLY\nMEDIA:chart.png")])
    assert (None, "chart.png", ("chart.png",)) == (reply.text, reply.media_url, reply.media_urls)


def test_an_empty_answer_gives_no_reply() -> None:
    """Blanks neither."""
    skipped: list[Any] = []
    assert [] == replies([answer(" \n"), answer()], on_skip=lambda reply, why: skipped.append(why))
    assert ["empty", "empty"] == skipped


def test_a_host_may_have_its_own_tokens() -> None:
    """Then the others are words."""
    assert ["NO_REPLY"] == shown(answer("NO_REPLY"), tokens=("SHH",)) and [] == shown(answer("shh"), tokens=("SHH",))


# --- directives ------------------------------------------------------------------------------------------------------


def test_reply_tags_say_what_is_answered() -> None:
    """The message at hand, or another by its id; the tag itself is gone, and known to have been there."""
    current, other = replies(
        [answer("[[reply_to_current]] Yes."), answer("[[ reply_to: 42 ]]No way.")],
        options=ReplyOptions(current="m7"),
    )
    assert ("Yes.", "m7", True, True) == (
        current.text,
        current.reply_to_id,
        marks(current)["replyToTag"],
        marks(current)["replyToCurrent"],
    )
    assert ("No way.", "42", {"replyToTag": True}) == (other.text, other.reply_to_id, marks(other))


def test_media_lines_become_attachments() -> None:
    """Several, in order, each once; the first is `mediaUrl`; in code they are words."""
    text = "Look:\nMEDIA:a.png\nMEDIA: `https://example.org/b.png` \nMEDIA:a.png\nThere.\n```\nMEDIA:code.png\n```"
    (reply,) = replies([answer(text)])
    assert ("a.png", ("a.png", "https://example.org/b.png")) == (reply.media_url, reply.media_urls)
    assert "Look:\n\nThere.\n```\nMEDIA:code.png\n```" == reply.text
    assert b'"mediaUrl":"a.png"' in dump(reply)


@pytest.mark.parametrize(
    "place", ["../secret", "a/../../b", "data:image/png;base64,AAAA", "file:///etc/passwd", "js:x"]
)
def test_media_from_a_place_that_is_not_allowed_stay_words(place: str) -> None:
    """Nothing is sent from there, and nothing is lost in silence."""
    (reply,) = replies([answer(f"MEDIA:{place}\nok")])
    assert (f"MEDIA:{place}\nok", None) == (reply.text, reply.media_urls)


def test_a_host_may_judge_media_itself() -> None:
    """Only what it allows is attached."""
    options = ReplyOptions(allow_media=lambda place: place.startswith("out/"))
    (reply,) = replies([answer("MEDIA:out/a.png\nMEDIA:in/b.png")], options=options)
    assert (("out/a.png",), "MEDIA:in/b.png") == (reply.media_urls, reply.text)


def test_images_in_an_answer_are_media() -> None:
    """By their URL, or with their data."""
    (reply,) = replies(
        [answer("Here", il.ImageBlock(url="https://x.org/i.png"), il.ImageBlock(data="QQ==", mime_type="image/png"))]
    )
    assert ("https://x.org/i.png", "data:image/png;base64,QQ==") == reply.media_urls


def test_the_media_of_tools_go_out_for_trusted_tools_alone() -> None:
    """What another tool read may name files on purpose."""
    run = [result("web_fetch", "MEDIA:/etc/passwd"), result("draw", "MEDIA:drawing.png"), answer("Drawn.")]
    trusted = replies(run, options=ReplyOptions(media_tools=frozenset({"draw"})))
    assert [("drawing.png",), None] == [reply.media_urls for reply in trusted]
    assert [None] == [reply.media_urls for reply in replies(run)]


def test_the_voice_tag_holds_for_all_media_of_the_run() -> None:
    """And for nothing without media."""
    first, second, third = replies([answer("[[audio_as_voice]]\nMEDIA:a.ogg"), answer("MEDIA:b.ogg"), answer("Words.")])
    assert ({"audioAsVoice": True}, {"audioAsVoice": True}, {}) == (marks(first), marks(second), marks(third))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>secret</think>Hello", "Hello"),
        ("<Thinking>a\nb</thinking>\n\nHello", "Hello"),
        ("secret</think>Hello", "Hello"),
        ("Hello <think>secret", "Hello"),
        ("<final>Hello</final>", "Hello"),
        ("`<think>` opens it", "`<think>` opens it"),
        ("```\n<think>\n```", "```\n<think>\n```"),
        ("a < b and c > d", "a < b and c > d"),
    ],
)
def test_tags_of_reasoning_are_taken_out_with_what_they_hold(text: str, expected: str) -> None:
    """Unless they are quoted; a closing tag alone says that all before it was reasoning."""
    assert [expected] == shown(answer(text)) and expected == without_reasoning(text)


def test_control_characters_do_not_go_out() -> None:
    """They would steer a terminal, or hide words."""
    assert ["red [31mtext"] == shown(answer("red \x1b[31mtext\x00"))


# --- errors and tools ------------------------------------------------------------------------------------------------


def test_a_failed_run_says_so_first() -> None:
    """With what had come of the answer after it, and no text that repeats the error."""
    first, second = replies([failed("Rate limit exceeded", "Half an ans")])
    assert ("Rate limit exceeded", True, "Half an ans", None) == (
        first.text,
        first.is_error,
        second.text,
        second.is_error,
    )
    assert ["Rate limit exceeded"] == shown(failed("Rate limit exceeded", "Error:  rate limit  exceeded"))


def test_a_failure_that_was_made_good_is_not_reported() -> None:
    """Nor what had come of the answer that failed."""
    assert ["whole"] == shown(failed("overloaded", "ha"), answer("whole"))


def test_a_long_error_is_cut_and_an_empty_one_has_words() -> None:
    """A channel is no log."""
    assert 600 == len(shown(failed("x" * 5000))[0] or "") and ["The model failed without an error message."] == shown(
        failed("")
    )


def test_an_aborted_run_gives_what_had_come() -> None:
    """Whoever stopped it knows that it was stopped."""
    assert ["Half"] == shown(answer("Half", stop_reason="aborted", error_message="aborted"))


def test_a_tool_that_failed_is_reported_only_where_nothing_else_is() -> None:
    """And only if it was not called again with success."""
    broke = result("exec", "exec failed: disk full", status=500)
    assert ["exec failed: disk full"] == shown(broke, answer(""))
    assert True is replies([broke])[0].is_error
    assert ["Sorry."] == shown(broke, answer("Sorry."))
    assert [] == shown(broke, result("exec", "fine"), answer(""))
    assert ["read failed: gone"] == shown(result("read", "gone", status=500), result("exec", "ok"), answer(""))


@pytest.mark.parametrize("status", [400, 404, "cut", "skipped", "aborted"])
def test_an_error_that_only_teaches_the_model_is_hidden(status: Any) -> None:
    """A wrong argument, an unknown tool, a call that did not run."""
    assert [] == shown(result("read", "path required", status=status), answer(""))


def test_a_model_that_chose_silence_is_not_overruled_by_a_tool() -> None:
    """No notice."""
    assert [] == shown(result("exec", "broke", status=500), answer("NO_REPLY"))


def test_tools_are_summed_up_where_asked_for() -> None:
    """One line each, before the answers."""
    run = [result("read", "line one\nline two"), result("exec", "no", status=500), answer("Done.")]
    assert ["[read] line one", "[exec] failed: no", "Done."] == shown(*run, verbose=True)


def test_reasoning_is_shown_where_asked_for_and_marked() -> None:
    """Never by default."""
    message = answer(il.ThinkingBlock(thinking="Let me see."), "Four.")
    assert ["Four."] == shown(message)
    reasoning, texts = replies([message], options=ReplyOptions(reasoning=True))
    assert ("Let me see.", {"isReasoning": True}, "Four.") == (reasoning.text, marks(reasoning), texts.text)


def test_nothing_is_sent_twice() -> None:
    """Neither by the model, nor after its message tool has sent it here; elsewhere is another matter."""
    assert ["Hello"] == shown(answer("Hello"), answer(" hello "))
    sent = result("message", "{}", details={"status": "sent", "here": True, "text": "Hello"})
    away = result("message", "{}", details={"status": "sent", "here": False, "text": "Hello"})
    assert [] == shown(sent, answer("Hello")) and ["Hello"] == shown(away, answer("Hello"))


def test_every_answer_of_a_run_is_a_reply() -> None:
    """Those before calls of tools too, from messages or from events."""
    run = [il.UserMessage(content="go"), answer("Let me look."), result(), answer("Found it.")]
    assert ["Let me look.", "Found it."] == shown(*run)
    assert ["Let me look.", "Found it."] == shown(*map(MessageEnd, run), AgentEnd(tuple(run)))


def test_the_prefix_stands_once_before_the_first_words() -> None:
    """With the names of the model; not where it stands already, and not before reasoning."""
    run = [answer(il.ThinkingBlock(thinking="hm"), "One."), answer("Two.", model="m-1", provider="p")]
    assert ["hm", "[p/m-1] One.", "Two."] == shown(*run, prefix="[{provider}/{model}]", reasoning=True)
    assert ["bot: One."] == shown(answer("bot: One."), prefix="bot:")


# --- while it streams ------------------------------------------------------------------------------------------------


def streamed(pieces: list[str], message: il.AssistantMessage | None = None, **options: Any) -> tuple[str, ReplyStream]:
    stream = ReplyStream(ReplyOptions(**options))
    message = message or answer("".join(pieces))
    out = stream.feed(MessageStart(answer()))
    for piece in pieces:
        out += stream.feed(MessageUpdate(TextDelta(0, piece)))
    return out + stream.feed(MessageEnd(message)), stream


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_no_part_of_a_token_is_ever_shown(size: int) -> None:
    """Not even for a moment."""
    for text in ("NO_REPLY", "no_reply", "**NO_REPLY**", "<think>x</think>NO_REPLY"):
        stream = ReplyStream()
        stream.feed(Start())
        for at in range(0, len(text), size):
            assert "" == stream.feed(TextDelta(0, text[at : at + size]))
        assert "" == stream.feed(Done("stop", answer(text)))
        assert stream.reply is None


def test_words_are_shown_as_they_come() -> None:
    """Only what may become a directive is held back, and no longer than needed."""
    stream = ReplyStream()
    stream.feed(Start())
    assert ["Hel", "lo", "", " NOT so", "", " done"] == [
        stream.feed(TextDelta(0, piece)) for piece in ("Hel", "lo", " NO", "T so", " NO_RE", "PLY done")
    ]


def test_a_stream_and_its_end_give_the_same_reply_as_the_run() -> None:
    """Directives and media too."""
    text = "[[reply_to_current]]Look:\nMEDIA:a.png\nNO_REPLY that is all"
    out, stream = streamed([*text], current="m1")
    (expected,) = replies([answer(text)], options=ReplyOptions(current="m1"))
    assert expected == stream.reply and expected.text == out


def test_an_answer_that_came_whole_is_shown_at_its_end() -> None:
    """And one whose block came whole, at the end of the block."""
    out, stream = streamed([], answer("Hello NO_REPLY"))
    assert ("Hello", "Hello") == (out, stream.reply and stream.reply.text)
    other = ReplyStream()
    other.feed(Start())
    assert "Hello" == other.feed(TextDelta(0, "Hel")) + other.feed(TextEnd(0, "Hello"))


def test_a_stream_that_broke_does_not_show_half_a_token() -> None:
    """A whole one may end in `NO`, a broken one may not."""
    for event, expected in ((Done("stop", answer("a NO")), "a NO"), (Error("error", failed("x", "a NO")), "a")):
        stream = ReplyStream()
        stream.feed(Start())
        assert expected == stream.feed(TextDelta(0, "a NO")) + stream.feed(event)


def test_one_stream_follows_all_answers_of_a_run() -> None:
    """Each begins anew."""
    stream = ReplyStream()
    seen = []
    for text in ("NO_REPLY", "Hello", "[[reply_to:1]]Bye"):
        stream.feed(MessageStart(answer()))
        stream.feed(MessageUpdate(TextDelta(0, text)))
        stream.feed(MessageEnd(answer(text)))
        seen.append(stream.reply and (stream.reply.text, stream.reply.reply_to_id))
    assert [None, ("Hello", None), ("Bye", "1")] == seen


PIECES = st.lists(
    st.sampled_from(
        [
            "NO_REPLY",
            "NO",
            "_REPLY",
            "no_reply",
            "**",
            "`",
            "```\n",
            "\n",
            " ",
            "MEDIA:",
            "a.png",
            "..",
            "[[",
            "]]",
            "reply_to_current",
            "reply_to: 7",
            "<think>",
            "</think>",
            "<",
            "x",
            "Hello",
            "audio_as_voice",
            ".",
            "\r",
            "HEART",
            "BEAT_OK",
            "*",
            "é",
        ]
    ),
    max_size=12,
).map("".join)


@given(text=PIECES, cuts=st.lists(st.integers(1, 5), min_size=1, max_size=40), complete=st.booleans())
def test_however_a_text_is_cut_the_same_is_shown_and_no_token(text: str, cuts: list[int], complete: bool) -> None:
    """Split invariance; and what is shown never holds the token."""
    whole = Cleaner()
    expected = whole.feed(text) + whole.end(complete=complete)
    cut, out, at = Cleaner(), "", 0
    for size in cuts:
        out += cut.feed(text[at : at + size])
        at += size
    out += cut.feed(text[at:]) + cut.end(complete=complete)
    assert expected == out
    fields = ("media", "reply_to", "reply_to_current", "voice", "silent")
    assert [getattr(whole, name) for name in fields] == [getattr(cut, name) for name in fields]
    assert not re.search(r"(?<!\w)(NO_REPLY|HEARTBEAT_OK)(?!\w)", out)


@pytest.mark.parametrize(
    "text", ["*" * 50_000 + "x", "[[" * 25_000, "[[audio_as_voice]]" * 5_000, "```\n" * 12_000, "<" * 50_000]
)
def test_odd_texts_are_cleaned_in_linear_time(text: str) -> None:
    """Thousands of directives, or of what looks like them, take a moment."""
    cleaner = Cleaner()
    assert len(text) >= len(cleaner.feed(text) + cleaner.end())
