"""Whatever is done to a session, it reads as a tree in memory would; whatever is in a file, the doctor mends it."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from interlingua.sessions import Session, SessionNotFound, save
from interlingua.sessions.compaction import context
from interlingua.sessions.repair import examine
from interlingua.sessions.sql import sqlite_store
from interlingua.values.messages import AgentMessage
from sessions.making import answer, result, user
from strategies import conversations, messages

ACTS = ["append", "append", "append", "branch", "rewind", "label", "compact", "model", "reopen", "journal"]
STEPS = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 30)), max_size=25)


class Model:
    """The same in memory: entries by id, a head, labels."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[str | None, Any]] = {}
        self.head: str | None = None
        self.saved_head: str | None = None
        self.labels: dict[str, str] = {}

    def add(self, entry: il.Entry) -> None:
        assert entry.id is not None
        self.entries[entry.id] = (self.head, entry.message)
        self.head = self.saved_head = entry.id

    def pick(self, number: int) -> str | None:
        ids = [None, *self.entries]
        return ids[number % len(ids)]

    def path(self) -> list[str]:
        ids: list[str] = []
        at = self.head
        while at is not None:
            ids.append(at)
            at = self.entries[at][0]
        return ids[::-1]


def step(session: Session, model: Model, act: str, number: int) -> None:
    chosen = model.pick(number)
    match act:
        case "append":
            model.add(session.append(user(f"m{number}") if number % 2 else answer(f"a{number}", thinking="t")))
        case "model":
            model.add(session.set_model(f"model-{number}"))
        case "branch":
            session.branch(chosen)
            model.head = chosen
        case "rewind":
            session.rewind(chosen)
            model.head = model.saved_head = chosen
        case "label":
            text = f"l{number}" if number % 3 else None
            session.label(chosen, text)
            if chosen is not None:
                model.labels.pop(chosen, None)
                if text is not None:
                    model.labels[chosen] = text
        case "journal":
            session.journal("tool_start", call_id=str(number))
        case "compact":
            path = model.path()
            model.add(session.compact(f"s{number}", path[number % len(path)] if path else None))


def same(session: Session, model: Model) -> None:
    path = session.path()
    assert model.path() == [entry.id for entry in path]
    assert [model.entries[id] for id in model.path()] == [(entry.parent_id, entry.message) for entry in path]
    assert (model.head, model.labels) == (session.head, session.labels())
    assert list(model.entries) == [entry.id for entry in session.entries()]
    assert context(path) == session.context_messages()
    assert path[-3:] == session.path(last=3)


@given(STEPS)
def test_any_sequence_of_acts_equals_a_tree_in_memory(steps: list[tuple[str, int]]) -> None:
    """In a file and in a database; reopening forgets only a branch on which nothing was said."""
    with TemporaryDirectory() as folder:
        store = sqlite_store(Path(folder) / "s.db")
        for where in ({"home": folder}, {"store": store}):
            model, session = Model(), Session.open("s", **where)  # type: ignore[arg-type]
            for act, number in steps:
                if act == "reopen":
                    session.close()
                    session = Session.open("s", **where)  # type: ignore[arg-type]
                    model.head = model.saved_head
                else:
                    step(session, model, act, number)
            same(session, model)
            session.close()
            model.head = model.saved_head
            try:
                reader = Session.open("s", **where, read_only=True)  # type: ignore[arg-type]
            except SessionNotFound:  # nothing was ever said
                assert not model.entries
            else:
                with reader:
                    same(reader, model)
        store.close()


@given(st.lists(messages(), max_size=4))
def test_any_message_comes_back_as_it_was(originals: list[Any]) -> None:
    """Whatever the format can say, through the file."""
    with TemporaryDirectory() as folder:
        with Session.open("s", home=folder) as session:
            entries = [session.append(message) for message in originals if not _is_ours(message)]
        if not entries:
            return
        with Session.open("s", home=folder, read_only=True) as session:
            clean = [il.load(il.dump(entry.message), AgentMessage) for entry in entries]
            assert clean == [entry.message for entry in session.path()]


def _is_ours(message: Any) -> bool:
    """Roles and keys that mean something to the session itself."""
    if isinstance(message, il.CustomMessage):
        return message.role in {"session", "head", "label", "journal"} or bool(
            {"id", "parentId"} & message.fields.keys()
        )
    return bool({"id", "parentId", "entryExtra"} & message.extra.get("interlingua", {}).keys())


@given(conversations())
def test_any_conversation_can_be_kept(conversation: il.Conversation) -> None:
    """And its path leads over the same messages."""
    if any(_is_ours(entry.message) for entry in conversation.entries):
        return
    whole = il.load(il.dump(conversation))
    with TemporaryDirectory() as folder, save(whole, home=folder, id="s") as session:
        assert list(whole.messages) == [entry.message for entry in session.path()]


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                {"role": "session", "version": 1},
                {"role": "head", "target": "a"},
                {"role": "head", "target": None},
                {"role": "head", "target": "line-2"},
                {"role": "label", "target": "b", "label": "x"},
                {"role": "label", "target": "line-1", "label": "x"},
                {"role": "compaction", "summary": "s", "firstKept": "a"},
                {"role": "tool", "tool_call_id": "x", "content": "r"},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "r"}]},
                {"role": "assistant", "content": None, "tool_calls": []},
                {"role": "user", "content": 5},
                {"role": "toolResult", "content": "x"},
                {"role": "developer", "content": {"x": 1}},
                {"role": "tool", "content": [5]},
                {"role": "user", "content": [{"type": "image", "source": 5}, {"type": "tool_use"}], "parts": 1},
                {"role": "model", "parts": [{"text": "x"}]},
                {"role": "assistant"},
                b"{torn",
                b"",
                b'{"role":"user","content":"ha{"role":"user","content":"whole"}',
            ]
        ),
        st.builds(
            lambda role, content, id, parent: (
                {"role": role, "content": content}
                | ({} if id is None else {"id": id})
                | ({} if parent is None else {"parentId": parent})
            ),
            st.sampled_from(["user", "assistant", "note"]),
            st.sampled_from(["", "hi", None, [], [{"type": "text", "text": " "}], [{"type": "text", "text": "t"}]]),
            st.sampled_from([None, "a", "b", "c"]),
            st.sampled_from([None, "a", "b", "c", "line-1", "line-3"]),
        ),
        st.builds(
            lambda calls, id, parent, stop: (
                {
                    "role": "assistant",
                    "content": [{"type": "toolCall", "id": call, "name": "n", "arguments": {}} for call in calls],
                    "stopReason": stop,
                }
                | ({} if id is None else {"id": id})
                | ({} if parent is None else {"parentId": parent})
            ),
            st.lists(st.sampled_from(["", "x", "y"]), min_size=1, max_size=3),
            st.sampled_from([None, "a", "d"]),
            st.sampled_from([None, "a", "b"]),
            st.sampled_from(["toolUse", "toolUse", "error"]),
        ),
        st.builds(
            lambda call, id, parent: (
                {"role": "toolResult", "toolCallId": call, "content": "r", "isError": False}
                | ({} if id is None else {"id": id})
                | ({} if parent is None else {"parentId": parent})
            ),
            st.sampled_from(["", "x", "y", "z"]),
            st.sampled_from([None, "b", "e"]),
            st.sampled_from([None, "a", "d"]),
        ),
    ),
    max_size=14,
)


@given(LINES)
def test_what_the_doctor_gives_is_healthy(lines: list[Any]) -> None:
    """Mending twice is mending once; a model could go on from any end of it; a healthy file is not touched."""
    data = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    examined = examine(data)
    assert ((), examined.data) == examine(examined.data)
    if not examined.findings:
        assert data == examined.data
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        path.write_bytes(examined.data)
        with Session.open(path, read_only=True) as session:
            assert () == session.problems
            entries = list(session.entries())
            followed = {entry.parent_id for entry in entries}
            for entry in entries:
                session.branch(entry.id)
                assert entry.id in followed or () == session.unfinished_calls()


def test_repeated_acts_do_not_grow_the_path() -> None:
    """Bookkeeping beside the tree stays beside it."""
    with TemporaryDirectory() as folder, Session.open("s", home=folder) as session:
        session.append(user("a"))
        for at in range(50):
            session.journal("tool_start", call_id=str(at))
            session.label(None, str(at))
        session.append(result("x"))
        assert 2 == len(session.path())
