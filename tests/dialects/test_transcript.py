"""Transcripts: every line comes back, whatever wrote it."""

import copy
import io
import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from interlingua.dialects.files import transcript
from interlingua.values.errors import BadWire

USER: dict[str, Any] = {"role": "user", "content": "Hi", "id": "a"}
ANSWER: dict[str, Any] = {"role": "assistant", "content": [], "id": "b", "parentId": "a"}
OTHER: dict[str, Any] = {"role": "assistant", "content": [], "id": "c", "parentId": "a"}
FILES: dict[str, list[dict[str, Any]]] = {
    "messages alone": [{"role": "user", "content": "Hi"}],
    "a tree with a head": [USER, ANSWER, OTHER, {"role": "head", "target": "b"}],
    "a session line": [{"role": "session", "version": 1, "systemPrompt": "Be terse."}, USER],
    "a bare session line": [{"role": "session", "version": 1}, USER],
    "a version of tomorrow": [{"role": "session", "version": 7, "systemPrompt": "x", "mood": 3}, USER],
    "a session line without a version": [{"role": "session", "systemPrompt": "x"}],
    "a head in the middle": [USER, {"role": "head", "target": "a"}, ANSWER],
    "a head that says more": [USER, {"role": "head", "target": "a", "why": "undo"}],
    "a head without a target": [USER, {"role": "head"}],
    "other roles": [{"role": "label", "target": "a", "label": "start"}, {"role": "compaction", "summary": "…"}],
    "unknown fields": [{**USER, "mood": {"deep": [1]}}, {**ANSWER, "entryExtra": {"x": {"y": 1}}}],
    "ids without parents": [USER, {"role": "assistant", "content": [], "id": "b"}, {**USER, "id": "c"}],
    "ids behind bare lines": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [], "id": "b"}],
    "a root that says so": [{**USER, "parentId": None}, ANSWER],
    "a second root": [USER, ANSWER, {**USER, "id": "c", "parentId": None}],
    "lines named by their number": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "one"},
        {"role": "head", "target": "line-1"},
        {"role": "assistant", "content": "two", "id": "x", "parentId": "line-1"},
        {"role": "head", "target": "line-2"},
    ],
    "a journal": [USER, ANSWER, {"role": "journal", "kind": "tool_start", "callId": "x", "parentId": "b"}, OTHER],
    "before the first": [USER, {"role": "head", "target": None}],
    "places that are none": [{"role": "note", "id": 5, "parentId": {"a": 1}}],
    "nothing": [],
}


@pytest.mark.parametrize("name", FILES)
def test_every_line_comes_back(name: str) -> None:
    """Through our JSON, in order, with what is not known in place."""
    text = "".join(json.dumps(line) + "\n" for line in FILES[name]).encode()
    conversation = il.load(il.dump(transcript.decode(text)))
    assert FILES[name] == list(transcript.encode(conversation).body)


def test_the_head_is_where_the_conversation_stands() -> None:
    """The path leads from the root to the head, past the other branch."""
    conversation = transcript.decode(FILES["a tree with a head"])
    assert ["a", "b"] == [entry.id for entry in conversation.path()]


def test_a_line_with_an_id_and_no_parent_follows_the_line_before() -> None:
    """As one without either does; only `null` makes a root."""
    for name, ids in (
        ("ids without parents", ["a", "b", "c"]),
        ("ids behind bare lines", ["line-1", "b"]),
        ("a second root", ["c"]),
        ("lines named by their number", ["line-1", "line-2"]),
        ("a journal", ["a", "c"]),
        ("before the first", []),
    ):
        assert ids == [entry.id for entry in transcript.decode(FILES[name]).path()], name


def test_what_is_moved_says_its_place() -> None:
    """A line that left it to its position says it when the position has changed."""
    conversation = transcript.decode(FILES["ids behind bare lines"])
    more = il.Entry(message=il.UserMessage(content="First"))
    moved = list(transcript.encode(il.Conversation(entries=(more, *conversation.entries))).body)
    assert [None, "line-1", "b"] == [line.get("id") for line in moved]
    assert ["line-1", "b"] == [entry.id for entry in transcript.decode(moved).path()]


@pytest.mark.parametrize("raw", [json.dumps(line).encode() for lines in FILES.values() for line in lines])
def test_a_line_may_be_copied_by_itself(raw: bytes) -> None:
    """The fast way and the slow way mean the same."""
    assert json.loads(raw) == json.loads(transcript.copy_line(raw))


ODD = st.sampled_from(
    [
        None,
        True,
        1,
        1.5,
        2**70,
        "",
        "a",
        "b",
        "line-1",
        "\u00e9\u2028",
        "\ud800",
        'x,"id":"z"}',
        [],
        ["a"],
        {},
        {"id": "x"},
    ]
)
KEYS = st.sampled_from(
    ["role", "content", "id", "parentId", "parents", "entryExtra", "timestamp", "target", "extra", "isError", "mood"]
)


@given(data=st.data())
def test_a_file_is_read_at_once_as_it_is_line_by_line(data: st.DataObject) -> None:
    """Whatever its lines have for values, in whichever order and spacing; what cannot be read at once is left alone."""
    lines = copy.deepcopy(data.draw(st.sampled_from(list(FILES.values()))))
    lines += copy.deepcopy(data.draw(st.lists(st.sampled_from([USER, ANSWER, OTHER]), max_size=2)))
    for line in lines:
        for key in data.draw(st.lists(KEYS, max_size=2)):
            line.pop(key, None)
            line[key] = data.draw(ODD)
    spaces = data.draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = "\n".join(json.dumps(line, separators=spaces, ensure_ascii=data.draw(st.booleans())) for line in lines)
    raw = text.encode("utf-8", "surrogatepass")[: data.draw(st.sampled_from([None, -1, -9]))]
    read = transcript.read(io.BytesIO(raw))
    if read is not None:
        assert repr(transcript.decode(raw)) == repr(read)


def test_what_a_session_writes_is_read_at_once() -> None:
    """And so by `read`, with and without the name of the format."""
    lines = [{"role": "session", "version": 1, "title": "T"}, USER, ANSWER, OTHER, {"role": "head", "target": "b"}]
    raw = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
    expected = transcript.decode(raw)
    with patch.object(transcript, "decode_entry", wraps=transcript.decode_entry) as slow:
        assert expected == transcript.read(io.BytesIO(raw))
        assert [expected] == list(il.read(raw)) == list(il.read(raw, "transcript"))
    assert all(given.args[0]["role"] == "head" for given in slow.call_args_list)


def test_a_bad_line_is_named() -> None:
    """By its number."""
    with pytest.raises(BadWire, match="line 2"):
        transcript.decode(b'{"role":"user","content":"Hi"}\n{torn\n')


def test_records_of_another_program_do_not_make_a_transcript_its_file() -> None:
    """They are lines of the transcript as they were; its own first line counts."""
    lines = [
        {"type": "init", "session_id": "s", "model": "gemini-x"},
        {"type": "message", "role": "user", "content": "Hi"},
        {"type": "message", "role": "assistant", "content": "Hello"},
    ]
    conversation = il.decode("\n".join(map(json.dumps, lines)))
    text = il.encode(conversation, "transcript").bytes()
    assert b'"session_id"' in text
    found = il.detect(text)
    assert found is not None and found.dialect == "transcript"
    assert ["Hi", "Hello"] == [message.text for message in il.decode(text).messages if message.text]
