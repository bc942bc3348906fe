"""Compaction: how much there is, where it may be cut, and that nothing kept is ever lost."""

from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.sessions import Session, compaction
from interlingua.sessions.compaction import context, context_tokens, cut, estimate, finished, summary_request
from interlingua.values.messages import AgentMessage
from sessions.making import answer, result, texts, used, user


def path_of(*messages: AgentMessage) -> tuple[il.Entry, ...]:
    return tuple(il.Entry(message=message, id=str(at)) for at, message in enumerate(messages))  # type: ignore[arg-type]


def compacted(summary: str, first_kept: str | None, **more: Any) -> il.CustomMessage:
    kept = {} if first_kept is None else {"firstKept": first_kept}
    return il.CustomMessage("compaction", {"summary": summary, **kept, **more})


def filler(tokens: int) -> str:
    return "abcd" * tokens


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (user(filler(10)), 10),
        (user("a"), 1),
        (user(""), 0),
        (il.UserMessage(content=None), 0),
        (il.UserMessage(content=(il.ImageBlock(data="x"), il.TextBlock(text="abcd"))), 1201),
        (il.ToolResultMessage(tool_call_id="x", content=(il.ImageBlock(data="x" * 9999),), is_error=False), 1200),
        (il.AssistantMessage(content=(il.ThinkingBlock(thinking=filler(3)),)), 3),
        (il.AssistantMessage(content=(il.ToolCall(id="x", name="abcd", arguments={"a": 1}),)), 3),  # 4 + 7 characters
        (il.CustomMessage("model", {"model": filler(50)}), 0),
        (il.CustomMessage("note", {"t": "abcde"}), 4),
    ],
)
def test_tokens_are_estimated_from_the_content(message: AgentMessage, tokens: int) -> None:
    """A quarter of the characters, and a round number for a picture, in whoever's message it is."""
    assert tokens == estimate(message)


def test_the_context_is_what_the_last_answer_reported_and_what_came_since() -> None:
    """Failed answers and zero usage tell nothing."""
    path = path_of(
        user(filler(5)),
        answer("x", usage=used(100)),
        user(filler(7)),
        answer("y", stop_reason="error", usage=used(9999)),
        answer("", stop_reason="aborted", usage=used(9999)),
        answer("abcd", usage=il.Usage.of(0, 0)),
    )
    assert 100 + 7 + 1 + 0 + 1 == context_tokens(path)


def test_without_usage_everything_is_estimated() -> None:
    """Summary included."""
    assert 12 == context_tokens(path_of(user(filler(5)), answer(filler(7))))
    assert context_tokens(path_of(user("a"), compacted(filler(100), None))) > 100


def test_usage_from_before_a_compaction_is_not_counted() -> None:
    """It tells of a context that is gone, and would compact again at once."""
    path = path_of(user("a"), answer("b", usage=used(90_000)), compacted("short", "1"), user("c"))
    assert context_tokens(path) < 100


def test_totals_are_summed_where_the_provider_gives_none() -> None:
    """All buckets."""
    usage = il.Usage(input=1, output=2, cache_read=3, cache_write=4, total_tokens=0)
    assert 10 == context_tokens(path_of(answer("x", usage=usage)))


def test_it_is_due_when_the_reserve_is_touched() -> None:
    """Not before."""
    assert not compaction.is_due(80, window=100, reserve=20)
    assert compaction.is_due(81, window=100, reserve=20)


def test_the_cut_keeps_about_as_much_as_was_asked_for() -> None:
    """At the nearest place behind which not too much stands."""
    path = path_of(*(maker(filler(10)) for _ in range(10) for maker in (user, answer)))
    found = cut(path, 35)
    assert found is not None
    assert "16" == found.first_kept
    assert path[:16] == found.summarize
    assert ((), None) == (found.prefix, found.previous)
    assert 200 == found.tokens_before


def test_what_fits_is_not_cut() -> None:
    """Nor is nothing, nor what was just compacted."""
    assert None is cut(path_of(user("a"), answer("b")), 1000)
    assert None is cut((), 10)
    assert None is cut(path_of(user(filler(50)), answer(filler(50)), compacted("s", "1")), 10)


def test_a_result_is_never_cut_from_its_call() -> None:
    """Not before it, not between parallel ones, not by words that came in between."""
    messages = (
        user(filler(50)),
        answer("", "one", "two"),
        result("one", filler(30)),
        user("steer"),
        result("two", filler(30)),
        answer("end"),
    )
    path = path_of(*messages)
    found = [cut(path, keep) for keep in range(1, 200)]
    assert {"1", "5"} == {one.first_kept for one in found if one is not None}


def test_calls_that_still_wait_stay_with_their_results_to_come() -> None:
    """Compacting in the middle of a batch keeps the batch."""
    path = path_of(user(filler(50)), answer("a"), user("b"), answer("", "one", "two"), result("one", filler(500)))
    found = cut(path, 10)
    assert found is not None and "3" == found.first_kept


def test_a_long_turn_is_divided_and_its_beginning_summed_up() -> None:
    """What came before the turn, and the first part of the turn, apart."""
    path = path_of(
        user("old"),
        answer("old"),
        user("new"),
        answer(filler(50), "x"),
        result("x"),
        answer(filler(50), "y"),
        result("y"),
    )
    found = cut(path, 20)
    assert found is not None
    assert ("5", path[:2], path[2:5]) == (found.first_kept, found.summarize, found.prefix)


def test_settings_before_the_cut_stay_with_what_they_are_for() -> None:
    """A change of model right before the first kept message is kept with it."""
    path = path_of(
        user(filler(50)), answer(filler(50)), il.CustomMessage("model", {"model": "m"}), user("b"), answer("c")
    )
    found = cut(path, 2)
    assert found is not None and "2" == found.first_kept


def test_no_valid_place_is_no_cut() -> None:
    """A history of nothing but results."""
    assert None is cut(path_of(result("a", filler(50)), result("b", filler(50))), 10)


def test_a_second_compaction_never_loses_what_the_first_kept() -> None:
    """Everything is in the summary's range or kept, once each."""
    messages: list[AgentMessage] = []
    for turn in range(8):
        messages += [user(f"q{turn}{filler(9)}"), answer(f"a{turn}{filler(9)}")]
    path = list(path_of(*messages))
    parse_place = 0
    for _ in range(3):
        found = cut(path, 45)
        assert found is not None
        first = next(at for at, entry in enumerate(path) if entry.id == found.first_kept)
        summed = [entry for entry in path[parse_place:first] if not compaction.is_bookkeeping(entry.message)]
        assert summed == [e for e in (*found.summarize, *found.prefix) if not compaction.is_bookkeeping(e.message)]
        parse_place = first
        path.append(il.Entry(message=compacted("S", found.first_kept), id=f"c{len(path)}"))  # type: ignore[arg-type]
        kept = [m for m in (e.message for e in path[first:]) if not compaction.is_bookkeeping(m)]
        assert kept == list(context(path)[1:])
        path += [il.Entry(message=maker(filler(20)), id=f"{len(path)}{maker.__name__}") for maker in (user, answer)]


def test_only_the_latest_summary_is_sent() -> None:
    """With what it kept, which may lie before the one before."""
    path = path_of(user("a"), user("b"), user("c"), compacted("one", "1"), user("d"), compacted("two", "2"), user("e"))
    seen = texts(context(path))
    assert "two" in seen[0] and "one" not in "".join(seen)
    assert ["c", "d", "e"] == seen[1:]


def test_a_compaction_that_names_nothing_on_the_path_keeps_nothing_before() -> None:
    """Unknown or none."""
    for first in (None, "elsewhere"):
        assert ["b"] == texts(context(path_of(user("a"), compacted("s", first), user("b"))))[1:]


def test_openclaws_compactions_are_understood() -> None:
    """They name the first kept entry otherwise."""
    theirs = il.CustomMessage("compaction", {"summary": "s", "firstKeptEntryId": "1"})
    assert ["b", "c"] == texts(context(path_of(user("a"), user("b"), theirs, user("c"))))[1:]


def test_signatures_from_before_the_cut_are_not_replayed() -> None:
    """Nor the thinking they seal; a turn of nothing else goes; later ones stay."""
    call = il.ToolCall(id="x", name="read", arguments={}, thought_signature="s")
    kept = il.AssistantMessage(
        content=(
            il.ThinkingBlock(thinking="hm", thinking_signature="s"),
            il.TextBlock(text="t", text_signature="s"),
            call,
        )
    )
    alone = il.AssistantMessage(content=(il.ThinkingBlock(thinking="hm", thinking_signature="s"),))
    seen = context(path_of(user("a"), kept, result("x"), alone, compacted("s", "1"), kept))
    plain = il.ToolCall(id="x", name="read", arguments={})
    assert (il.AssistantMessage(content=(il.TextBlock(text="t"), plain)), result("x"), kept) == seen[1:]


def test_bookkeeping_is_not_sent_to_a_model() -> None:
    """Messages of an application's own roles are left to the agent."""
    path = path_of(user("a"), il.CustomMessage("model", {"model": "m"}), il.CustomMessage("note", {"x": 1}))
    assert (user("a"), il.CustomMessage("note", {"x": 1})) == context(path)


def test_the_request_for_a_summary_shows_the_conversation_as_text() -> None:
    """Labelled, inside tags, with long results cut and counted, and nothing else cut."""
    path = path_of(
        il.UserMessage(content=(il.TextBlock(text="u" * 3000), il.ImageBlock(data="x"))),
        answer("say", "c1", thinking="hm"),
        result("c1", "r" * 2500),
        user(filler(100)),
    )
    found = cut(path, 50)
    assert found is not None
    asked = summary_request(found, focus="the tests")
    assert f"[User]: {'u' * 3000} [1 attached]" in asked
    assert "[Assistant thinking]: hm" in asked and "[Assistant]: say" in asked
    assert '[Assistant tool calls]: read(path="c1.py")' in asked
    assert f"[Tool result]: {'r' * 2000}\n[… 500 more characters]" in asked
    assert asked.index("<conversation>") < asked.index("</conversation>") < asked.index("## Goal")
    assert "the tests" in asked and "previous-summary" not in asked


def test_the_request_for_a_later_summary_brings_the_earlier_one_up_to_date() -> None:
    """The old summary is told once, in tags of its own."""
    path = path_of(user("a"), compacted("OLD", "0"), user(filler(9)), answer(filler(9)), user(filler(50)))
    found = cut(path, 40)
    assert found is not None
    asked = summary_request(found)
    assert 1 == asked.count("OLD") and "<previous-summary>\nOLD" in asked and "up to date" in asked


def test_a_divided_turn_is_asked_for_by_itself() -> None:
    """And joined to the summary."""
    path = path_of(user("go"), answer(filler(50), "x"), result("x"), answer(filler(50)))
    found = cut(path, 20)
    assert found is not None
    assert "[User]: go" in compaction.prefix_request_of(compaction.flat(found.prefix))
    text, _ = finished(found, "History.", "Prefix.")
    assert text.index("History.") < text.index("Prefix.")


def test_files_are_listed_and_carried_on() -> None:
    """Read only, or changed; with those of the summary before."""
    calls = (
        il.ToolCall(id="1", name="read", arguments={"path": "r.py"}),
        il.ToolCall(id="2", name="read", arguments={"file_path": "both.py"}),
        il.ToolCall(id="3", name="edit", arguments={"path": "both.py"}),
        il.ToolCall(id="4", name="write", arguments={"path": "w.py"}),
        il.ToolCall(id="5", name="exec", arguments={"path": "no"}),
    )
    before = {"readFiles": ["old.py", "w.py"], "modifiedFiles": ["m.py"]}
    path = path_of(
        user("a"),
        compacted("S", None, details=before),
        il.AssistantMessage(content=calls),
        *(result(call.id) for call in calls),
        user(filler(50)),
    )
    found = cut(path, 10)
    assert found is not None
    text, details = finished(found, "S2")
    assert {"readFiles": ["old.py", "r.py"], "modifiedFiles": ["both.py", "m.py", "w.py"]} == details
    assert "<read-files>\nold.py\nr.py\n</read-files>" in text and "<modified-files>" in text


@pytest.mark.parametrize("kept", [None, "0", "3"])
def test_the_end_of_the_context_is_the_end_of_the_whole(tmp_path: Path, kept: str | None) -> None:
    """However few entries are asked for; bookkeeping counts as no message."""
    with Session.open("s", home=tmp_path) as session:
        for at in range(5):
            session.append(user(f"{at}"), id=f"{at}")
        if kept is not None:
            session.compact("a summary", kept)
        session.append(answer("end"), id="end")
        whole = session.context_entries()
        for last in range(1, 9):
            assert whole[-last:] == session.context_entries(last=last)
        assert (6, 3) == (session.message_count(), session.message_count(to="2"))
