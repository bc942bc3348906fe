"""Transcripts: every line comes back, whatever wrote it."""

import json
from typing import Any

import pytest

import interlingua as il
from interlingua.dialects import transcript
from interlingua.errors import BadWire

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


@pytest.mark.parametrize("raw", [json.dumps(line).encode() for lines in FILES.values() for line in lines])
def test_a_line_may_be_copied_by_itself(raw: bytes) -> None:
    """The fast way and the slow way mean the same."""
    assert json.loads(raw) == json.loads(transcript.copy_line(raw))


def test_a_bad_line_is_named() -> None:
    """By its number."""
    with pytest.raises(BadWire, match="line 2"):
        transcript.decode(b'{"role":"user","content":"Hi"}\n{torn\n')
