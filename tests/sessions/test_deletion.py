"""Deleting a session: undone within a period, and afterwards nothing of it is left."""

import base64
import time
from pathlib import Path

import pytest

import interlingua as il
from interlingua.sessions import (
    Session,
    SessionBusy,
    SessionNotFound,
    Store,
    delete_sessions,
    purge_sessions,
)
from interlingua.sessions.gc import (
    collect_blobs,
    collect_branches,
    delete,
    find_deleted,
    purge,
    purge_one,
    restore,
)
from interlingua.sessions.store import Deleted, own_key, view_path
from interlingua.sessions.text_index import TextIndex
from interlingua.sessions.texts import Query
from sessions.making import texts, user


def picture(fill: bytes) -> il.ImageBlock:
    return il.ImageBlock(data=base64.b64encode(fill * 100_000).decode(), mime_type="image/png")


def ids(store: Store) -> list[str]:
    return sorted(info.id for info in store.sessions("main"))


def test_a_deleted_session_is_gone_and_comes_back_as_it_was(store: Store) -> None:
    """Not listed, not opened; restored with every line, branch and picture."""
    with Session.open("s", store=store) as session:
        session.append(il.UserMessage(content=(picture(b"a"), il.TextBlock(text="Hello"))), id="q")
        session.set_branch("main", "q")
        before = session.conversation()
    delete(store, "main", "s")
    assert [] == ids(store)
    with pytest.raises(SessionNotFound):
        Session.open("s", store=store, create=False)
    collect_blobs(store, "main", grace=0)
    restore(store, "main", "s")
    with Session.open("s", store=store, read_only=True) as session:
        assert before == session.conversation() and "q" == session.branches()["main"].head


def test_two_sessions_of_one_name_that_are_deleted_at_once_can_both_be_restored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second must not take the place of the first."""
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    for text in ("first", "second"):
        with Session.open("s", store=store) as session:
            session.append(user(text))
        delete(store, "main", "s")
    restored = []
    for _ in range(2):
        restore(store, "main", "s")
        with Session.open("s", store=store, read_only=True) as session:
            restored += texts(session.messages)
        store.delete("main", "s")
    assert ["second", "first"] == restored


def test_a_session_that_has_the_name_by_now_is_not_replaced(store: Store) -> None:
    """Another process may have begun it at the same moment."""
    with Session.open("s", store=store) as session:
        session.append(user("old"))
    delete(store, "main", "s")
    with Session.open("s", store=store) as session:
        session.append(user("new"))
    with pytest.raises(SessionBusy, match="same name"):
        store.untrash("main", find_deleted(store, "main", "s"))
    with Session.open("s", store=store, read_only=True) as session:
        assert ["new"] == texts(session.messages)


def test_after_the_period_everything_of_it_is_removed(store: Store) -> None:
    """Its lines, what was set aside of it, and blobs that nobody else names."""
    shared = picture(b"s")
    with Session.open("gone", store=store) as session:
        root = session.append(il.UserMessage(content=(picture(b"g"), shared)))
        session.append(user("dead end"))
        session.append(user("way"), parent_id=root.id)
    with Session.open("stays", store=store) as session:
        session.append(il.UserMessage(content=(shared,)))
    collect_branches(store, "main", "gone")
    assert 2 == len(store.blobs("main").names())
    delete(store, "main", "gone")
    assert 0 == purge(store).sessions, "within the period"
    assert (1, 1) == purge(store, now=time.time() + 8 * 24 * 3600, grace=0)
    assert ["stays"] == ids(store) and 1 == len(store.blobs("main").names())
    with pytest.raises(SessionNotFound):
        restore(store, "main", "gone")
    assert not any(b"dead end" in text for text in store.texts("main"))


def test_the_view_state_is_removed_with_the_last_session_of_the_name(store: Store, tmp_path: Path) -> None:
    """It stays while the session can be restored, and while another one has the name."""
    view = view_path(tmp_path, own_key("main", "s"))
    view.parent.mkdir(parents=True)
    view.write_text("{}")
    for text in ("first", "second"):
        with Session.open("s", store=store) as session:
            session.append(user(text))
        delete(store, "main", "s")
    first, _ = sorted(store.trashed("main"), key=lambda one: one.at)
    purge_one(store, "main", first, home=tmp_path)
    assert view.exists(), "the second one can be restored"
    restore(store, "main", "s")
    with Session.open("other", store=store) as session:
        session.append(user("text"))
    delete(store, "main", "other")
    assert 1 == purge(store, undo=0, home=tmp_path, now=time.time() + 1).sessions and view.exists(), "another name"
    delete(store, "main", "s")
    assert 1 == purge(store, undo=0, home=tmp_path, now=time.time() + 1).sessions and not view.exists()


def test_purging_from_the_command_line_removes_the_view_state(tmp_path: Path) -> None:
    """Without a canvas that runs, for files and for a database."""
    for where in (None, f"sqlite:{tmp_path / 's.db'}"):
        for at_once in (True, False):
            with Session.open("s", home=tmp_path, store=where) as session:
                session.append(user("text"))
            view = view_path(tmp_path, own_key("main", "s"))
            view.parent.mkdir(parents=True, exist_ok=True)
            view.write_text("{}")
            delete_sessions("s", purge=at_once, home=tmp_path, store=where)
            assert at_once != view.exists()
            purge_sessions(everything=True, home=tmp_path, store=where)
            assert not view.exists()


def test_a_session_that_is_written_is_not_deleted(store: Store) -> None:
    """The writer goes on undisturbed."""
    with Session.open("s", store=store) as session:
        session.append(user("Hello"))
        with pytest.raises(SessionBusy):
            delete(store, "main", "s")
        session.append(user("still here"))
    assert ["s"] == ids(store)
    with pytest.raises(SessionNotFound):
        delete(store, "main", "nothing")


def test_a_name_that_is_taken_again_is_not_overwritten(store: Store) -> None:
    """The new session stays; the old one is not restored over it, and its purge leaves the new one alone."""
    for text in ("old", "new"):
        with Session.open("s", store=store) as session:
            session.append(user(text))
        if text == "old":
            delete(store, "main", "s")
    with pytest.raises(SessionBusy):
        restore(store, "main", "s")
    purge(store, undo=0, now=time.time() + 1)
    with Session.open("s", store=store, read_only=True) as session:
        assert ["new"] == texts(session.messages)


def test_a_deleted_session_is_listed_with_its_title(store: Store) -> None:
    """Title, messages and size as before; of two deletions of one name, either can be restored."""
    for text in ("first", "second"):
        with Session.open("s", store=store) as session:
            session.append(user(text))
            session.label(None, f"The {text}")
        (info,) = store.sessions("main")
        delete(store, "main", "s")
        found = store.trashed_info("main", find_deleted(store, "main", "s"))
        assert (info.id, info.title, info.messages, info.size) == (found.id, found.title, found.messages, found.size)
        time.sleep(0.002)  # deletions are identified by their millisecond
    old, new = sorted(store.trashed("main"), key=lambda one: one.at)
    assert new == find_deleted(store, "main", "s")
    restore(store, "main", "s", at=old.at)
    assert ["The first"] == [info.title for info in store.sessions("main")]
    for missing in (old, Deleted("s", 1), Deleted("none", old.at)):
        with pytest.raises(SessionNotFound):
            store.trashed_info("main", missing)
        with pytest.raises(SessionNotFound):
            purge_one(store, "main", missing)
    assert [new] == store.trashed("main")


def test_its_words_are_no_longer_found_at_once(store: Store, tmp_path: Path) -> None:
    """And found again when it is restored."""
    index = TextIndex(tmp_path / "search.db", {"own": store})
    with Session.open("s", store=store) as session:
        session.append(user("needle"))
    index.follow()
    delete(store, "main", "s", index=index)
    assert 0 == index.search(Query(text="needle")).total
    restore(store, "main", "s")
    index.follow()
    assert 1 == index.search(Query(text="needle")).total
    index.close()
