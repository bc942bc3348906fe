"""A session file and the value that it is read as agree on who follows whom."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlingua as il
from interlingua.dialects.files import transcript
from interlingua.sessions import Session, save
from interlingua.sessions.repair import examine
from sessions.making import texts, write_lines

NAMES = st.sampled_from(["a", "b", "c", "line-1", "line-2", "line-3", "gone"])


@st.composite
def lines(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Messages, heads, labels and journal lines that say all kinds of things about their places."""
    out: list[dict[str, Any]] = []
    for at in range(draw(st.integers(1, 8))):
        role = draw(st.sampled_from(["user", "user", "user", "head", "label", "journal", "compaction", "session"]))
        line: dict[str, Any] = {"role": role}
        if role in ("user", "compaction"):
            line |= {"content": f"m{at}"} if role == "user" else {"summary": f"m{at}"}
            if draw(st.booleans()):
                line["id"] = draw(st.one_of(NAMES, st.just(f"id{at}")))
            if draw(st.booleans()):
                line["parentId"] = draw(st.one_of(NAMES, st.sampled_from([f"id{n}" for n in range(8)]), st.none()))
        elif role == "head":
            line["target"] = draw(st.one_of(NAMES, st.sampled_from([f"id{n}" for n in range(8)]), st.none()))
        else:
            line |= {"kind": "x"} if role == "journal" else {"label": "x"} if role == "label" else {"version": 1}
            if draw(st.booleans()):
                line["parentId"] = draw(st.one_of(NAMES, st.sampled_from([f"id{n}" for n in range(8)])))
        out.append(line)
    return out


def contents_of(messages: Any) -> list[Any]:
    return [m.content if isinstance(m, il.UserMessage) else m.fields.get("summary") for m in messages]


@settings(max_examples=300, deadline=None)
@given(given_lines=lines())
def test_a_file_and_its_value_have_the_same_path(given_lines: list[dict[str, Any]], tmp_path_factory: Any) -> None:
    """Whatever ids, parents, heads and positions its lines have; and the lines come back as they were."""
    path = write_lines(tmp_path_factory.mktemp("places") / "s.jsonl", *given_lines)
    conversation = transcript.decode(path.read_bytes())
    with Session.open(path, read_only=True, create=False) as session:
        assert contents_of(entry.message for entry in session.path()) == contents_of(conversation.messages)
        whole = session.conversation()
    assert contents_of(whole.messages) == contents_of(conversation.messages)
    assert given_lines == list(transcript.encode(il.load(il.dump(conversation))).body)
    again = transcript.decode(transcript.encode(whole).bytes())
    assert contents_of(again.messages) == contents_of(conversation.messages)
    with save(whole, home=path.parent) as copy:
        assert contents_of(entry.message for entry in copy.path()) == contents_of(conversation.messages)


@settings(max_examples=150, deadline=None)
@given(given_lines=lines())
def test_a_fork_has_the_path_of_its_source(given_lines: list[dict[str, Any]], tmp_path_factory: Any) -> None:
    """At each entry that can be named."""
    path = write_lines(tmp_path_factory.mktemp("forks") / "s.jsonl", *given_lines)
    with Session.open(path) as session:
        ids = {entry.id for entry in session.entries()}
        for id in ids:
            session.branch(id)
            with session.fork(id) as other:
                assert texts(entry.message for entry in session.path()) == texts(
                    entry.message for entry in other.path()
                )


def test_files_that_were_put_together_are_not_one_conversation() -> None:
    """A second session line begins another: what stood before it is a branch, and reported where it is lost."""
    file = [{"role": "session", "version": 1}, {"role": "user", "content": "one", "id": "a"}]
    conversation = transcript.decode([*file, {**file[0]}, {"role": "user", "content": "two", "id": "b"}])
    assert ["two"] == texts(conversation.messages)
    encoded = il.encode(conversation, "anthropic-messages")
    assert ["$.entries[0]"] == [loss.path for loss in encoded.losses if loss.severity == "dropped"]


def test_a_second_root_is_written_as_one(tmp_path: Path) -> None:
    """It says that it has no parent; otherwise it would follow the line before."""
    with Session.open(tmp_path / "s.jsonl") as session:
        session.append(il.UserMessage(content="one"))
        session.append(il.UserMessage(content="two"), parent_id=None)
        session.append(il.UserMessage(content="three"))
    with Session.open(tmp_path / "s.jsonl") as session:
        assert ["two", "three"] == texts(session.messages)
    conversation = il.decode((tmp_path / "s.jsonl").read_bytes())
    assert ["two", "three"] == texts(conversation.messages)
    with save(conversation, home=tmp_path) as copy:
        assert ["two", "three"] == texts(copy.messages)
    assert () == examine((tmp_path / "s.jsonl").read_bytes()).findings


@pytest.mark.parametrize("ids", [("a", "b", "c"), (None, "b", "c"), ("a", None, "c")])
def test_a_line_with_an_id_and_no_parent_follows_the_line_before(tmp_path: Path, ids: tuple[str | None, ...]) -> None:
    """In a session, in its value, and in the doctor's eyes."""
    path = write_lines(
        tmp_path / "s.jsonl",
        *({"role": "user", "content": f"m{at}"} | ({"id": id} if id else {}) for at, id in enumerate(ids)),
    )
    with Session.open(path) as session:
        assert ["m0", "m1", "m2"] == texts(session.messages)
        session.append(il.UserMessage(content="m3"))
        assert ["m0", "m1", "m2", "m3"] == texts(session.messages)
    assert ["m0", "m1", "m2", "m3"] == texts(il.decode(path.read_bytes(), "transcript").messages)
    assert () == examine(path.read_bytes()).findings


def test_wrapped_and_uuid_lines_without_a_parent_follow_the_line_before() -> None:
    """So do those of OpenClaw's and Claude Code's files; and they come back as they were."""
    message = {"role": "user", "content": "x", "timestamp": 1}
    pi = [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"},
        *({"type": "message", "id": id, "message": message} for id in "abc"),
    ]
    claude = [
        {"type": "user", "uuid": id, "sessionId": "s", "message": {"role": "user", "content": "x"}} for id in "abc"
    ]
    for name, file in (("openclaw", pi), ("claude-code", claude)):
        data = "".join(json.dumps(line) + "\n" for line in file)
        conversation = il.load(il.dump(il.decode(data, name)))
        assert ["a", "b", "c"] == [entry.id for entry in conversation.path()], name
        assert file == list(il.encode(conversation, name).body), name
