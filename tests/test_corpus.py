"""Recorded provider traffic through every dialect, where the corpus lies beside the repository."""

import pytest

from corpus.cases import DIALECT_OF, corpus
from corpus.differences import differences
from corpus.grammar import faults
from corpus.runner import Report, run
from corpus.sessions import run_sessions, sessions
from interlingua.values.events import BlockStart, Done, Start, TextDelta, TextEnd, TextStart, ThinkingEnd
from interlingua.values.messages import AssistantMessage, TextBlock

needs_corpus = pytest.mark.skipif(
    not corpus().is_dir(), reason=f"NO RECORDED TRAFFIC at {corpus()}: say where it is with INTERLINGUA_CORPUS"
)


@pytest.fixture(scope="module")
def report() -> Report:
    return run()


@needs_corpus
@pytest.mark.parametrize("api", DIALECT_OF)
def test_recorded_traffic_means_what_the_vendors_say_and_comes_back_as_it_was(api, report):
    """
    Requests and answers return unchanged, streams amount to what the official packages see, and they read ours.
    """
    failures = [f"{f.case} {f.check}: {f.findings[0]}" for f in report.of(api)]
    assert failures == []
    assert sum(count for (of, _), count in report.passed.items() if of == api) > 0


@pytest.mark.skipif(
    not sessions().is_dir(), reason=f"NO SESSION FILES at {sessions()}: say where they are with INTERLINGUA_SESSIONS"
)
def test_session_files_hold_what_their_programs_show():
    """
    Detection, counts, texts, usage, titles, models, times, branches, return trip, results kept on two wires.
    """
    report = run_sessions()
    passed, every = report.counts()
    assert report.failures() == []
    assert every > 2000 and passed / every >= 0.99


@pytest.mark.parametrize(
    ("expected", "actual", "places"),
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, []),
        ({"a": 1}, {"a": True}, ["$.a"]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": None}, {}, ["$.a"]),
        ({}, {"a": None}, ["$.a"]),
        ([1, 2], [1], ["$"]),
        ([{"a": "x"}], [{"a": "y"}], ["$[0].a"]),
    ],
)
def test_json_values_differ_where_their_json_does(expected, actual, places):
    """
    The comparison behind every round trip tells apart what JSON tells apart, and names the place.
    """
    assert places == [found.split(": ")[0] for found in differences(expected, actual)]


def done(*texts: str) -> Done:
    return Done("stop", AssistantMessage(content=tuple(TextBlock(text=t) for t in texts), stop_reason="stop"))


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ([Start(), TextStart(0), TextDelta(0, "hi"), TextEnd(0, "hi"), done("hi")], None),
        ([TextStart(0), done()], "before the start"),
        ([Start(), Start(), done()], "a second start"),
        ([Start(), TextDelta(0, "hi"), done()], "no text is open"),
        ([Start(), TextStart(1), done()], "the next is 0"),
        ([Start(), TextStart(0), TextDelta(0, ""), TextEnd(0, ""), done("")], "an empty delta"),
        ([Start(), TextStart(0), TextDelta(0, "hi"), TextEnd(0, "ho"), done("ho")], "do not amount"),
        ([Start(), TextStart(0), done("")], "still open"),
        ([Start(), BlockStart(0), ThinkingEnd(0, ""), done()], "no thinking is open"),
        ([Start(), TextStart(0), TextEnd(0, ""), done("hi")], "other blocks"),
        ([Start(), done(), done()], "after the end"),
        ([Start()], "no terminal event"),
    ],
)
def test_the_grammar_of_events_is_guarded(events, fault):
    """
    The checker behind every stream sees each way to break the grammar.
    """
    found = faults(events)
    assert (found == []) if fault is None else fault in found[0]
