"""What holds for every framing: the cut does not matter, limits hold, cost is linear, faults come in one way."""

import json
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framing.reading import CountingBuffer, cut, cut_at, outcome, read, soup
from interlingua.dialects.framing import (
    NDJSON,
    SSE,
    AWSEventStream,
    Frame,
    Framing,
    JSONArray,
    text,
    write_aws,
    write_ndjson,
    write_sse,
)
from interlingua.values.errors import BadWire


class Case(NamedTuple):
    framing: type[Framing]
    body: bytes  # three frames
    bodies: st.SearchStrategy[bytes]
    endless: tuple[bytes, bytes]  # a beginning, and what then never stops
    long: bytes  # one frame of about 100,000 bytes
    broken: bytes  # one frame, then a fault


DOCUMENTS = [b'{"text":"a\\"}]"}', b'{"n":[1,{"m":[]}]}', b"{}"]

CASES = {
    "sse": Case(
        SSE,
        b"".join(write_sse(document, "delta") for document in DOCUMENTS),
        soup(
            *(b"data", b"data: ", b"event: x\n", b"event: x\ndata: y\n\n", b"data: z\n\n", b"id: 1\r\n", b"retry: 9"),
            *(b":", b" ", b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\xef\xbb\xbf", b"\xff", b"\x00", b"{}"),
        ),
        (b"data: ", b"xx"),
        b"data: " + b"x" * 100_000 + b"\n\n",
        b"data: 1\n\ndata: " + b"x" * 200,
    ),
    "sse of many lines": Case(
        SSE,
        b"".join(b"data: %b\r\nevent: delta\r\n\r\n" % document for document in DOCUMENTS),
        st.lists(st.builds(write_sse, st.binary(max_size=9), st.sampled_from(["", "a", "é"]))).map(b"".join),
        (b"event: x\n", b"data\n"),
        b"data: x\n" * 12_500 + b"\n",
        b"data: 1\r\n\r\n" + b"data: x\n" * 100,
    ),
    "ndjson": Case(
        NDJSON,
        b"".join(map(write_ndjson, DOCUMENTS)),
        soup(b"{}", b'"a"', b"\n", b"\r", b"\r\n", b" ", b"\xff"),
        (b"", b"xx"),
        b"x" * 100_000 + b"\n",
        b"{}\n" + b"x" * 200,
    ),
    "json array": Case(
        JSONArray,
        b" \r\n[" + b" ,\n".join(DOCUMENTS) + b"]\n",
        st.tuples(
            st.sampled_from([b"", b"\n [", b"["]),
            soup(
                b"{", b"}", b"[", b"]", b'"', b"\\", b'"a"', b",", b" ", b'{"a":1}', b'{"\\"]":[]},', b"null", b"\xff"
            ),
        ).map(b"".join),
        (b'[{"a":"', b"xx"),
        b'[{"a":["' + b'x","' * 25_000 + b'"]}]',
        b"[{},1]",
    ),
    "json document": Case(
        JSONArray,
        b"[" + b",".join(DOCUMENTS) + b"]",
        st.builds(
            json.dumps,
            st.recursive(
                st.none() | st.integers() | st.text(max_size=5),
                lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
                max_leaves=8,
            ).map(lambda value: [{"": value}, [value]]),
            indent=st.sampled_from([None, 1]),
        ).map(str.encode),
        (b'{"a":', b"[["),
        b'{"a":"' + b"\\\\" * 50_000 + b'"}',
        b"[[]}",
    ),
    "aws": Case(
        AWSEventStream,
        b"".join(write_aws("delta", document) for document in DOCUMENTS),
        st.lists(
            st.builds(write_aws, st.text(max_size=5), st.binary(max_size=9)) | st.binary(max_size=3), max_size=4
        ).map(b"".join),
        (b"", b"\x00\x00\x10\x00"),
        write_aws("delta", b"x" * 100_000),
        write_aws("delta", b"{}") + b"?" * 16,
    ),
}

every_framing = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@every_framing
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 4096])
def test_frames_do_not_depend_on_the_size_of_the_chunks(case, size):
    """
    However a body is cut, its frames are the same.
    """
    assert [frame.data for frame in read(case.framing(), *cut(case.body, size))] == DOCUMENTS


@every_framing
@settings(max_examples=100, deadline=None)
@given(data=st.data(), places=st.lists(st.integers(min_value=0), max_size=8), limit=st.sampled_from([0, 5, 24, 1000]))
def test_the_outcome_does_not_depend_on_the_cuts(case, data, places, limit):
    """
    Frames and fault are the same for the whole body, for any pieces of it, and byte by byte; limits included.
    """
    body = data.draw(case.bodies)
    whole = outcome(case.framing(limit), [body])
    assert whole == outcome(case.framing(limit), cut_at(body, places))
    assert whole == outcome(case.framing(limit), cut(body, 1))


@every_framing
@settings(max_examples=100, deadline=None)
@given(chunks=st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_give_frames_or_bad_wire(case, chunks):
    """
    Nothing but BadWire is ever raised, and the cut does not matter for garbage either.
    """
    assert outcome(case.framing(), [b"".join(chunks)]) == outcome(case.framing(), chunks)


@every_framing
@pytest.mark.parametrize("size", [2, 64, 1000])
def test_what_never_ends_is_refused_before_it_fills_memory(case, size):
    """
    At most the limit and one chunk are ever held, and the message says where and what to do.
    """
    start, more = case.endless
    framing = case.framing(limit=500)
    buffers = [value for value in vars(framing).values() if isinstance(value, bytearray)]
    with pytest.raises(BadWire, match=r"byte \d+: .*") as raised:
        for chunk in cut(start + more * 2000, size):
            framing.feed(chunk)
            assert sum(map(len, buffers)) <= 500 + size
    assert case.framing is AWSEventStream or "pass a larger limit to " in str(raised.value)


@every_framing
@pytest.mark.parametrize("size", [1, 7])
def test_many_small_chunks_cost_no_more_than_their_bytes(case, size, monkeypatch):
    """
    Each byte of a long frame is moved and looked at a fixed number of times, however small the pieces.
    """
    framing = case.framing()
    buffers = [CountingBuffer()]
    framing._residual = buffers[0]
    if isinstance(framing, SSE):
        framing._data = CountingBuffer()
        buffers.append(framing._data)
    looked_at = 0
    find_end = text._end

    def counted(pattern, window, at):
        nonlocal looked_at
        looked_at += len(window) - at
        return find_end(pattern, window, at)

    monkeypatch.setattr(text, "_end", counted)
    assert len(read(framing, *cut(case.long, size))) == 1
    assert len(case.long) * 5 > sum(buffer.moved for buffer in buffers)
    assert len(case.long) * 5 > looked_at


@every_framing
def test_frames_before_a_fault_are_not_lost_to_it(case):
    """
    When a chunk has a whole frame and then a fault, the frame is returned and the next call raises.
    """
    framing = case.framing(limit=100)
    assert len(framing.feed(case.broken)) == 1
    with pytest.raises(BadWire):
        framing.close()


@every_framing
def test_after_a_fault_there_is_nothing_more(case):
    """
    BadWire is raised once; what is fed later is ignored, and closing is harmless.
    """
    framing = case.framing(limit=100)
    framing.feed(case.broken)
    with pytest.raises(BadWire):
        framing.feed(b"")
    assert framing.feed(case.body) == []
    assert framing.close() == []


@every_framing
def test_after_the_end_there_is_nothing_more(case):
    """
    A closed framing ignores input and can be closed again.
    """
    framing = case.framing()
    read(framing, case.body)
    assert framing.feed(case.body) == []
    assert framing.close() == []


@every_framing
def test_an_empty_body_has_no_frames(case):
    """
    No bytes, or empty chunks, are no fault: what an empty answer means is for the dialect to say.
    """
    assert read(case.framing()) == []
    assert read(case.framing(), b"", b"") == []


def test_frames_are_plain_values():
    """
    Equal content is an equal frame, and only the data is required.
    """
    assert Frame(b"{}") == Frame(b"{}", "", None)
    assert Frame(b"{}", "delta") != Frame(b"{}")
