"""Server-sent events, held against the text of the specification."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framing.reading import cut, outcome, read, soup
from interlingua.dialects.framing import SSE, Frame, write_sse
from interlingua.values.errors import BadWire, FormatError

BOM = b"\xef\xbb\xbf"

EXAMPLES = {
    # The examples of section 9.2.6.
    "three comments and messages": (
        b"data: This is the first message.\n\n"
        b"data: This is the second message, it\ndata: has two lines.\n\n"
        b"data: This is the third message.\n\n",
        [
            Frame(b"This is the first message."),
            Frame(b"This is the second message, it\nhas two lines."),
            Frame(b"This is the third message."),
        ],
    ),
    "named events": (
        b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent: add\ndata: 113411\n\n",
        [Frame(b"73857293", "add"), Frame(b"2153", "remove"), Frame(b"113411", "add")],
    ),
    "stock ticker": (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Frame(b"YHOO\n+2\n10")]),
    "comment, ids, and only one space stripped": (
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        [Frame(b"first event"), Frame(b"second event"), Frame(b" third event")],
    ),
    "empty data is data": (b"data\n\ndata\ndata\n\n", [Frame(b""), Frame(b"\n")]),
    "space after the colon is ignored": (b"data:test\n\ndata: test\n\n", [Frame(b"test"), Frame(b"test")]),
    # Corners of section 9.2.5.
    "byte order mark at the start": (BOM + b"data: a\n\n", [Frame(b"a")]),
    "byte order mark later": (b"data: a\n\n" + BOM + b"data: b\n\n", [Frame(b"a")]),
    "two byte order marks": (BOM + BOM + b"data: a\n\n", []),
    "no data, no event": (b"event: ping\n\nid: 7\n\nretry: 10\n\n\n\n", []),
    "name of an event without data is forgotten": (b"event: ping\n\ndata: a\n\n", [Frame(b"a")]),
    "name is forgotten after its event": (b"event: x\ndata: a\n\ndata: b\n\n", [Frame(b"a", "x"), Frame(b"b")]),
    "last name wins": (b"event: x\nevent: y\ndata: a\n\n", [Frame(b"a", "y")]),
    "name taken back": (b"event: x\nevent\ndata: a\n\n", [Frame(b"a")]),
    "unknown and malformed fields": (
        b"foo: bar\nretry: soon\nData: no\n data: no\nid: \x00\ndata: a\n\n",
        [Frame(b"a")],
    ),
    "colons in the value": (b"data: a: b\n\nevent:a:b\ndata::\n\n", [Frame(b"a: b"), Frame(b":", "a:b")]),
    "a name that is not UTF-8": (b"event: \xff\ndata: \xff\n\n", [Frame(b"\xff", "\ufffd")]),
    "other line separators are text": (
        b"data: a\x0b\x0c\x1c\x85b\xe2\x80\xa8c\n\n",
        [Frame(b"a\x0b\x0c\x1c\x85b\xe2\x80\xa8c")],
    ),
    # What providers do, by number in the list of oddities.
    "2: comments between events and inside them": (
        b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\ndata: a\n:\ndata: b\n\n:\n\n",
        [Frame(b"a\nb")],
    ),
    "4: the name after the data": (b"data: {}\nevent: response.created\n\n", [Frame(b"{}", "response.created")]),
    "5: no names, and a marker at the end": (b"data: {}\n\ndata: [DONE]\n\n", [Frame(b"{}"), Frame(b"[DONE]")]),
    "6: one newline at the end": (b"data: {}\n\ndata: [DONE] \n", [Frame(b"{}"), Frame(b"[DONE] ")]),
    "6: no newline at the end": (b"event: x\ndata: {}", [Frame(b"{}", "x")]),
    "8: a plain JSON body": (b'{"type":"error","error":{"message":"no"}}', []),
    "9: no marker at the end": (b'data: {"finish_reason":"stop"}\n\n', [Frame(b'{"finish_reason":"stop"}')]),
}


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize(("wire", "frames"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_a_stream_means_what_the_specification_says(wire, frames, line_end, size):
    """
    Each example gives its frames with each of the three line ends (oddity 3), cut anywhere.
    """
    assert frames == read(SSE(), *cut(wire.replace(b"\n", line_end), size))


def by_the_specification(stream: bytes) -> list[Frame]:
    """The algorithm of section 9.2.6, word by word and without a thought for speed; our departure is the last line."""
    frames, data, event = [], b"", b""
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(BOM))
    for line in [*lines, b""]:
        if line == b"":
            if data:
                frames.append(Frame(data.removesuffix(b"\n"), event.decode("utf-8", "replace")))
            data, event = b"", b""
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data += value + b"\n"
        elif field == b"event":
            event = value
    return frames


EVENTS = [
    # What the short ways take.
    b"data: a\n\n",
    b"data: b\r\n\r\n",
    b"event: x\ndata: c\n\n",
    b"event: x\r\ndata: d\r\n\r\n",
    b"event: y\ndata: e\n\n",
    b"data: \n\n",
    b"data: 012345678901234567890\n\n",
    b"event: x\ndata: 0123456789\n\n",
    # What only looks like it.
    b"data:f\n\n",
    b"data: g\nevent: z\n\n",
    b"event: x\ndata: h\ndata: i\n\n",
    b"event: x\nid: 1\n\n",
    b"event: x\n\n",
    b"data: j\revent: k\n\n",
    b"data: l\rdata: m\r\n\r\n",
    b"event: x\ndata: n\r\n\n",
    b"data: o\nd",
    b"data: p\r",
    b"data: q",
    b": ping\n\n",
    b"\n",
    b"\r\n",
    b"\r",
]


@settings(max_examples=200, deadline=None)
@given(chunks=st.lists(st.sampled_from(EVENTS), max_size=12))
def test_the_short_ways_give_what_the_long_way_gives(chunks):
    """
    Events that arrive one per chunk or all at once are taken by shortcuts, and those never change the meaning.
    """
    expected = by_the_specification(b"".join(chunks))
    assert expected == read(SSE(), *chunks)
    assert expected == read(SSE(), b"".join(chunks))


@settings(max_examples=200, deadline=None)
@given(chunks=st.lists(st.sampled_from(EVENTS), max_size=12), limit=st.sampled_from([0, 8, 16, 20, 25]))
def test_the_short_ways_keep_the_limit(chunks, limit):
    """
    An event that is too long is refused in the same words, whichever way it is taken.
    """
    expected = outcome(SSE(limit), cut(b"".join(chunks), 1))
    assert expected == outcome(SSE(limit), chunks)
    assert expected == outcome(SSE(limit), [b"".join(chunks)])


@settings(max_examples=100, deadline=None)
@given(
    body=soup(
        b"data", b"event", b"id", b":", b": ", b" ", b"a", b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", BOM, b"\xc3"
    ),
    size=st.integers(min_value=1, max_value=20),
)
def test_any_stream_means_what_the_specification_says(body, size):
    """
    Whatever the fields, line ends and cuts, the frames are those of the specification's own algorithm.
    """
    assert by_the_specification(body) == read(SSE(), *cut(body, size))


@pytest.mark.parametrize("at", range(1, 40))
def test_a_line_end_may_be_cut_in_two(at):
    """
    CR and LF of one pair that arrive in two chunks are one line end (oddity 3), and nothing is waited for.
    """
    wire = b"event: x\r\ndata: {}\r\n\r\ndata: 1\r\n\r\n"
    assert [Frame(b"{}", "x"), Frame(b"1")] == read(SSE(), wire[:at], wire[at:])


def test_an_event_is_not_held_back_for_a_possible_line_feed():
    """
    A CR ends the line at once; the LF that may follow is skipped when it comes.
    """
    sse = SSE()
    assert [Frame(b"1")] == sse.feed(b"data: 1\r\n\r")
    assert sse.feed(b"\n") == []
    assert [Frame(b"2")] == sse.feed(b"data: 2\r\n\r\n")


def test_an_event_comes_with_its_blank_line_and_not_before():
    """
    A later line may still belong to the event (oddity 4), so only the blank line ends it.
    """
    sse = SSE()
    assert sse.feed(b"data: {}\n") == []
    assert sse.feed(b"event: x\n") == []
    assert [Frame(b"{}", "x")] == sse.feed(b"\n")


@pytest.mark.parametrize(
    ("wire", "offset"),
    [
        (b"data: 1\n\ndata: " + b"x" * 50, 9),
        (b"data: 1\n\n" + b"data: xx\n" * 9, 9 + 9 * 8),
        (b"data: 1\n\n" + b"data: xx\r\n" * 9, 9 + 10 * 8),
        (b"data: 1\r\r: " + b"x" * 50, 9),
        (b"event: " + b"x" * 50, 0),
        (b"event: 01234567890123456789\n: 345678\n: 34567890a\n", 37),
    ],
)
def test_a_limit_names_the_line_that_broke_it(wire, offset):
    """
    The offset in the message is where the line starts that was too much for its event.
    """
    for size in (1, 10, 1000):
        fault = outcome(SSE(limit=30), cut(wire, size))[1]
        assert (
            f"sse: byte {offset}: the event with the line that starts here is longer than the limit of 30 bytes"
            in fault
        )


def test_a_closed_stream_ignores_the_most_common_event_too():
    """
    The shortest way does not lead past the end.
    """
    sse = SSE()
    read(sse, b"data: 1\n\n", b"data: 2\n\n")
    assert sse.feed(b"data: 3\n\n") == []


@pytest.mark.parametrize("together", [False, True])
def test_a_whole_event_in_one_chunk_may_still_be_too_long(together):
    """
    That an event arrived at once does not excuse its length.
    """
    chunks = [b"data: 1\n\n", b"data: 2\n\n", b"data: " + b"3" * 50 + b"\n\n"]
    frames, fault = outcome(SSE(limit=30), [b"".join(chunks)] if together else chunks)
    assert [Frame(b"1"), Frame(b"2")] == frames
    assert "sse: byte 18: the event with the line that starts here is longer than" in fault


def test_a_limit_is_for_one_event_and_not_for_the_stream():
    """
    Any number of events may pass, also in one chunk that is larger than the limit.
    """
    assert len(read(SSE(limit=30), b"event: x\ndata: 123456\n\n" * 100)) == 100
    assert len(read(SSE(limit=30), *[b"event: x\ndata: 123456\n\n"] * 100)) == 100


def test_comments_that_keep_a_connection_alive_are_not_held():
    """
    A provider may send comments for as long as it likes.
    """
    assert [Frame(b"{}")] == read(SSE(limit=30), *[b": keep-alive\n"] * 100, b"data: {}\n\n")


def test_a_long_name_is_not_remembered():
    """
    What is kept between events stays small, whatever the names.
    """
    sse = SSE()
    wire = b"event: " + b"x" * 1000 + b"\ndata: {}\n\n"
    assert [Frame(b"{}", "x" * 1000)] * 3 == read(sse, wire, wire, wire)
    assert len(sse._head) < 300


@pytest.mark.parametrize(
    ("data", "event", "wire"),
    [
        (b"{}", "", b"data: {}\n\n"),
        (b"{}", "ping", b"event: ping\ndata: {}\n\n"),
        (b"", "", b"data: \n\n"),
        (b"a\nb\n", "x", b"event: x\ndata: a\ndata: b\ndata: \n\n"),
        (b" a", "é", "event: é\ndata:  a\n\n".encode()),
    ],
)
def test_an_event_is_written_as_it_is_read(data, event, wire):
    """
    The wire of each event is fixed, and reading it gives the event back.
    """
    assert wire == write_sse(data, event)
    assert [Frame(data, event)] == read(SSE(), wire)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=40), event=st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=9))
def test_what_was_written_is_read_back(data, event):
    """
    Any data and any name survive, but for CR, which no event can carry and which becomes LF.
    """
    assert [Frame(re.sub(rb"\r\n?", b"\n", data), event)] == read(SSE(), b"\n", write_sse(data, event))


@pytest.mark.parametrize("event", ["a\nb", "a\rdata: b"])
def test_a_name_cannot_smuggle_in_a_line(event):
    """
    A line break in an event name is refused.
    """
    with pytest.raises(FormatError, match="line break"):
        write_sse(b"{}", event)


def test_a_fault_says_which_framing_and_what_to_do():
    """
    The message is enough to act on.
    """
    with pytest.raises(BadWire) as raised:
        SSE(limit=3).feed(b"data: {}")
    assert (raised.value.dialect, raised.value.message) == (
        "sse",
        "byte 0: the event with the line that starts here is longer than the limit of 3 bytes; "
        "pass a larger limit to SSE if the peer really sends this",
    )
