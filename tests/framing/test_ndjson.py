"""Newline-delimited JSON."""

import json

import pytest

from framing.reading import cut, outcome, read
from interlingua.dialects.framing import NDJSON, Frame, write_ndjson

EXAMPLES = {
    "lines": (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    "CRLF": (b"{}\r\n[]\r\n", [b"{}", b"[]"]),
    "no line end at the end": (b"{}\n[]", [b"{}", b"[]"]),
    "blank lines": (b"\n\r\n  \n{}\n\n\t\n[]\n\n", [b"{}", b"[]"]),
    "padding": (b"  {} \n", [b"{}"]),
    "a lone CR ends no line": (b"{\r}\n", [b"{\r}"]),
    "line separators of Unicode end no line": ('"\u2028\x85"\n'.encode(), ['"\u2028\x85"'.encode()]),
}


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("wire", "documents"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_each_line_with_something_on_it_is_a_frame(wire, documents, size):
    """
    Line ends and blanks around a document are no part of it.
    """
    assert [Frame(document) for document in documents] == read(NDJSON(), *cut(wire, size))


def test_a_line_comes_as_soon_as_it_ends():
    """
    Nothing is held back once the line feed is there.
    """
    ndjson = NDJSON()
    assert ndjson.feed(b'{"a"') == []
    assert [Frame(b'{"a":1}')] == ndjson.feed(b":1}\n{")


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_a_limit_names_the_line_that_broke_it(size):
    """
    The offset in the message is where the line starts.
    """
    frames, fault = outcome(NDJSON(limit=10), cut(b"0123456789\n0123\n0123456789-\n", size))
    assert [Frame(b"0123456789"), Frame(b"0123")] == frames
    assert "ndjson: byte 16: the line that starts here is longer than the limit of 10 bytes" in fault


def test_a_document_is_written_as_one_line():
    """
    Line breaks, which in JSON only stand between tokens, become spaces.
    """
    assert write_ndjson(b"{}") == b"{}\n"
    assert write_ndjson(b'{\n"a": \r1}') == b'{ "a":  1}\n'
    line = write_ndjson(json.dumps("\\\u2028\u2029\x85é", ensure_ascii=False).encode())
    assert len(line.decode().splitlines()) == 1 and json.loads(line) == "\\\u2028\u2029\x85é"
