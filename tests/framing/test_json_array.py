"""One JSON document, streamed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framing.reading import cut, outcome, read
from interlingua.dialects.framing import Frame, JSONArray, JSONDocuments, text
from interlingua.values.errors import BadWire

EXAMPLES = {
    "7: an array of chunks": (b'[{"a": 1}\n,\r\n{"b": 2}]\n', [b'{"a": 1}', b'{"b": 2}']),
    "empty array": (b"[ ]", []),
    "brackets and quotes in strings": (
        b'[{"]}":"[{\\"}"},{"\\\\":"\\\\\\""}]',
        [b'{"]}":"[{\\"}"}', b'{"\\\\":"\\\\\\""}'],
    ),
    "nesting": (b'[{"a":[{"b":[]}]},[[],{}]]', [b'{"a":[{"b":[]}]}', b"[[],{}]"]),
    "1: padding before an object": (b'\n \n\n   {"a": [1, 2]}', [b'{"a": [1, 2]}']),
    "1: padding before an array": (b"  \r\n\t[{}]  ", [b"{}"]),
    "8: an error body": (b'{\n  "error": {"code": 400}\n}\n', [b'{\n  "error": {"code": 400}\n}']),
    "a string": (b' "[{" \n', [b'"[{"']),
    "plain text of some proxy": (b"upstream connect error [503]\n", [b"upstream connect error [503]"]),
    "not UTF-8": (b'[{"\xff":"\xfe"}]', [b'{"\xff":"\xfe"}']),
}


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(("wire", "documents"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_an_array_gives_its_elements_and_anything_else_itself(wire, documents, size):
    """
    The outer brackets, commas and padding are no part of a frame.
    """
    assert [Frame(document) for document in documents] == read(JSONArray(), *cut(wire, size))


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize("between", [b"", b"\n", b"\r\n\r\n "])
def test_documents_in_a_row_are_frames_of_their_own(between, size):
    """
    JSON lines under the label of JSON: each is a frame; a single document or array is read as ever.
    """
    documents = [b'{"a": [1]}', b'{\n "b": "}{"\n}', b"{}"]
    wire = between.join(documents) + between
    assert [Frame(document) for document in documents] == read(JSONDocuments(), *cut(wire, size))
    for alone, frames in EXAMPLES.values():
        assert [Frame(frame) for frame in frames] == read(JSONDocuments(), *cut(alone, size))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(['"', "\\", '\\"', "]", "}"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(
    elements=st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3) | st.lists(JSON, max_size=3), max_size=4),
    ascii=st.booleans(),
    indent=st.sampled_from([None, 2]),
    size=st.integers(min_value=1, max_value=50),
)
def test_any_array_of_objects_is_split_as_a_parser_would(elements, ascii, indent, size):
    """
    Decoding each frame gives what decoding the whole array gives.
    """
    wire = json.dumps(elements, ensure_ascii=ascii, indent=indent).encode(errors="surrogatepass")
    frames = read(JSONArray(), *cut(wire, size))
    assert elements == [json.loads(frame.data.decode(errors="surrogatepass")) for frame in frames]


def test_an_element_comes_with_its_last_byte():
    """
    Neither the comma nor the end of the array is waited for.
    """
    array = JSONArray()
    assert array.feed(b'[{"a": "}"') == []
    assert [Frame(b'{"a": "}"}')] == array.feed(b"}")
    assert [Frame(b"{}")] == array.feed(b" , {}")


def test_a_whole_object_comes_with_its_last_byte():
    """
    An error body does not have to wait until the connection closes.
    """
    assert [Frame(b'{"error": {}}')] == JSONArray().feed(b'{"error": {}}')


def test_a_chunk_of_any_size_is_read_in_windows():
    """
    A string, an escape and a frame may each be cut by the border of a window inside one large chunk.
    """
    for shift in range(3):
        element = b'{"a":"' + b"x" * (text._WINDOW - 10 + shift) + b'\\"\\\\","b":["' + b"\\\\" * 70_000 + b'"]}'
        assert [Frame(element), Frame(b"{}")] == read(JSONArray(), b"[" + element + b",{}]")


@pytest.mark.parametrize(
    ("wire", "frames", "fault"),
    [
        (b'[{"a": 1}, {"b": ', 1, "byte 17: the stream ends inside the value that starts at byte 11"),
        (b'{"a": "\\', 0, "byte 8: the stream ends inside the value that starts at byte 0"),
        (b" [{},", 1, "byte 5: the stream ends before the array does"),
        (b"[", 0, "byte 1: the stream ends before the array does"),
        (b"[{}, 1]", 1, "byte 5: expected an object in the array, or its end"),
        (b"[}", 0, "byte 1: expected an object in the array, or its end"),
        (b"[{}] {}", 1, "byte 5: the document has ended, but more follows"),
        (b"{}\n{}", 1, "byte 3: the document has ended, but more follows"),
        (
            b'[{},{"a":"0123456789012345678901234"}]',
            1,
            "byte 4: the document or element that starts here is longer than",
        ),
        (b"  0123456789012345678901234567890123", 0, "byte 2: the document or element that starts here is longer than"),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_fault_names_the_byte(wire, frames, fault, size):
    """
    What is cut off, misplaced or too long is BadWire, after the frames that came before it.
    """
    found, message = outcome(JSONArray(limit=30), cut(wire, size))
    assert frames == len(found)
    assert f"json: {fault}" in message


def test_endless_padding_is_not_held():
    """
    A provider may keep a connection alive with blanks for as long as it likes.
    """
    array = JSONArray(limit=30)
    for _ in range(100):
        array.feed(b"\n         ")
    assert [Frame(b"{}")] == array.feed(b"{}")


def test_depth_has_no_limit_here():
    """
    No recursion: the limit on nesting belongs to the JSON decoder.
    """
    deep = b"[" * 100_000 + b"]" * 100_000
    assert [Frame(deep)] == read(JSONArray(), b"[" + deep + b"]")
    with pytest.raises(BadWire):
        read_faulty(b"[" + deep)


def read_faulty(body: bytes) -> None:
    array = JSONArray()
    array.feed(body)
    array.close()
