"""Clearing up: what is dead goes, what is named stays, and a failure leaves everything as it was."""

import base64
import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlingua as il
from interlingua.sessions import Session, SessionDamaged, SessionError, Store, gc
from interlingua.sessions.files import FileStore
from interlingua.sessions.gc import collect_blobs, collect_branches
from sessions.making import answer, fill, texts, user, write_lines

PICTURE = il.ImageBlock(data=base64.b64encode(os.urandom(90_000)).decode(), mime_type="image/png")


def grown(store: Store) -> tuple[list[str], list[str]]:
    """A session with a dead branch, a labelled one, and journal lines."""
    with Session.open("s", store=store) as session:
        first = fill(session, user("a"), answer("dead"), user("dead too"))
        session.rewind(first[0])
        second = fill(session, answer("named"))
        session.label(second[0], "keep me")
        session.label(None, "Title")
        session.rewind(first[0])
        third = fill(session, answer("b"), user("c"))
        session.journal("tool_start", call_id="gone")
        return [first[0], *third], second


def test_case_108_dead_branches_and_progress_go_and_the_rest_stays(store: Store) -> None:
    """The way to the head, labelled branches, labels and the name; the original is kept."""
    path, named = grown(store)
    before = list(store.texts("main"))
    done = collect_branches(store, "main", "s")
    assert done.items > 0 and done.size > 0 and done.kept is not None
    with Session.open("s", store=store, create=False) as session:
        assert path == [entry.id for entry in session.path()]
        assert {*path, *named} == {entry.id for entry in session.entries()}
        assert ({named[0]: "keep me"}, "Title") == (session.labels(), session.title)
        session.append(user("d"))
        assert ["a", "b", "c", "d"] == texts(session.messages)
    assert set(before) <= set(store.texts("main"))
    assert 0 == collect_branches(store, "main", "s").items


def test_nothing_is_kept_when_that_is_asked_for(store: Store) -> None:
    """`delete`."""
    grown(store)
    assert None is collect_branches(store, "main", "s", delete=True).kept
    assert b"dead" not in b"".join(store.texts("main"))


def test_case_106_the_session_stays_as_it_was_when_the_new_one_reads_otherwise(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written, verified, then switched: never removed first."""
    path, _ = grown(store)
    before = list(store.texts("main"))
    monkeypatch.setattr(gc, "_live_lines", lambda session: iter([b'{"role":"user","content":"wrong","id":"x"}']))
    with pytest.raises(SessionDamaged, match="not changed"):
        collect_branches(store, "main", "s")
    assert before == list(store.texts("main"))
    with Session.open("s", store=store, create=False) as session:
        assert path == [entry.id for entry in session.path()]


def test_case_106_a_compaction_removes_nothing(store: Store) -> None:
    """The old transcript is there whatever becomes of the summary."""
    with Session.open("s", store=store) as session:
        ids = fill(session, user("a"), answer("b"))
        session.compact("A poor summary", None)
        assert 1 == len(session.context_messages())
        session.rewind(ids[1])
        assert ["a", "b"] == texts(session.context_messages())


def test_damage_and_entries_without_ids_are_refused(tmp_path: Path) -> None:
    """They would be lost, or no longer be found."""
    store = FileStore(tmp_path)
    bad = write_lines(store.path("main", "bad"), {"role": "user", "content": "a", "id": "a"}, b"{torn")
    bare = write_lines(store.path("main", "bare"), {"role": "user", "content": "a"})
    before = bad.read_bytes(), bare.read_bytes()
    with pytest.raises(SessionDamaged, match=r"line 2 .*doctor"):
        collect_branches(store, "main", "bad")
    with pytest.raises(SessionError, match="line-1 has no id"):
        collect_branches(store, "main", "bare")
    assert before == (bad.read_bytes(), bare.read_bytes())


def test_a_session_that_is_being_written_is_not_cleared(store: Store) -> None:
    """It is busy."""
    grown(store)
    with Session.open("s", store=store), pytest.raises(SessionError, match="locked for writing"):
        collect_branches(store, "main", "s")


def test_a_call_under_way_keeps_its_journal(store: Store) -> None:
    """Whoever goes on must know that it had started."""
    with Session.open("s", store=store) as session:
        ids = fill(session, user("a"), answer("x"))
        session.rewind(ids[0])
        session.append(answer("", "c"))
        session.journal("tool_start", call_id="c")
    collect_branches(store, "main", "s")
    with Session.open("s", store=store) as session:
        assert [True] == [call.started for call in session.unfinished_calls()]


def test_blobs_go_when_no_line_names_them(store: Store) -> None:
    """Of no session, and of no kept original; young ones stay a while."""
    with Session.open("s", store=store) as session:
        session.append(user("a"))
        at = session.head
        session.append(il.UserMessage(content=(PICTURE,)))
        session.rewind(at)
        session.append(answer("b"))
    assert 0 == collect_blobs(store, "main", grace=0).items
    collect_branches(store, "main", "s", delete=True)
    assert 0 == collect_blobs(store, "main").items
    assert (1, 90_000) == collect_blobs(store, "main", grace=0.000001)[:2]
    assert [] == store.blobs("main").names()


def test_blobs_of_kept_originals_stay(store: Store) -> None:
    """The original would not be one without them."""
    with Session.open("s", store=store) as session:
        session.append(user("a"))
        at = session.head
        session.append(il.UserMessage(content=(PICTURE,)))
        session.rewind(at)
        session.append(answer("b"))
    collect_branches(store, "main", "s")
    assert 0 == collect_blobs(store, "main", grace=0.000001).items


def test_a_blob_that_is_wanted_again_while_sessions_are_read_stays(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line that names it came after its session was looked at; one that nobody wants goes all the same."""
    other = il.ImageBlock(data=base64.b64encode(os.urandom(80_000)).decode(), mime_type="image/png")
    with Session.open("gone", store=store) as session:
        session.append(il.UserMessage(content=(PICTURE, other)))
    store.delete("main", "gone")
    aged(tmp_path)
    read = store.texts

    def texts_and_a_new_session(agent: str) -> Iterator[bytes]:
        yield from read(agent)
        with Session.open("late", store=store) as session:
            session.append(il.UserMessage(content=(PICTURE,)))

    monkeypatch.setattr(store, "texts", texts_and_a_new_session)
    assert (1, 80_000) == collect_blobs(store, "main")[:2]
    with Session.open("late", store=store, read_only=True) as session:
        assert ((il.UserMessage(content=(PICTURE,)),), ()) == (session.messages, session.problems)


def aged(home: Path) -> None:
    """Makes every blob look as if nobody had put it for years."""
    for blob in home.glob("agents/main/blobs/*"):
        os.utime(blob, (1, 1))
    if (home / "sessions.db").exists():
        with contextlib.closing(sqlite3.connect(home / "sessions.db", isolation_level=None)) as database:
            database.execute("UPDATE blobs SET wanted = 1")
