"""A tree to ask, named branches, merges, revisions and notes: in files and in a database alike."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.sessions import (
    EntryExists,
    Session,
    SessionBusy,
    SessionError,
    SessionNotFound,
    StaleHead,
    StaleVersion,
    Store,
    save,
    store_at,
)
from interlingua.sessions.gc import collect_branches
from interlingua.values.messages import text_of
from sessions.making import answer, texts, user


def opened(store: Store, **how: Any) -> Session:
    return Session.open("s", store=store, **how)


def two_branches(session: Session) -> dict[str, str]:
    """q, with two answers, the second of which goes on; and a second root."""
    ids = {}
    for id, parent in (("q", None), ("a1", "q"), ("a2", "q"), ("b", "a2"), ("r", None)):
        ids[id] = session.append(user(id), id=id, parent_id=parent).id or ""
    return ids


def names(entries: Any) -> list[str]:
    return [entry.id for entry in entries]


def test_a_tree_can_be_asked(store: Store) -> None:
    """Roots, children, leaves, the path to any entry, and what came after one."""
    with opened(store) as session:
        two_branches(session)
        session.journal("tool_start", call_id="c")
        assert ["q", "r"] == names(session.roots())
        assert ["a1", "a2"] == names(session.children("q"))
        assert [] == names(session.children("a1"))
        assert ["a1", "b", "r"] == names(session.leaves()) == list(session.leaf_ids())
        assert ["q", "a2", "b"] == names(session.path(to="b"))
        assert ["a2", "b"] == names(session.path(to="b", last=2))
        assert ["q", "a1", "a2", "b", "r"] == names(session.entries())
        assert ["a2", "b"] == names(session.entries(since="a1", limit=2))
        with pytest.raises(SessionNotFound):
            session.path(to="nowhere")
        with pytest.raises(SessionNotFound):
            session.children("nowhere")


def test_asking_the_tree_reads_only_what_is_asked_for(tmp_path: Path) -> None:
    """The children of an entry are found in the index; of the file only their lines are read."""
    with Session.open("s", home=tmp_path) as session:
        for at in range(50):
            session.append(user(f"m{at}"), id=f"m{at}")
        session.append(user("fork"), id="fork", parent_id="m3")
        read: list[int] = []
        line = session._log.line
        session._log.line = lambda number: (read.append(number), line(number))[1]  # type: ignore[assignment, func-returns-value]
        assert ["m4", "fork"] == names(session.children("m3"))
        assert len(set(read)) <= 5


def test_a_branch_moves_with_what_is_committed_to_it(store: Store) -> None:
    """And the others stay; the session can be reopened on its branch."""
    with opened(store) as session:
        session.append(user("q"), id="q")
        session.checkout("main", create=True)
        session.append(answer("a"), id="a")
        session.set_branch("side", "q", description="another way")
        session.append(user("x"), id="x", branch="side")
        assert {"main": "a", "side": "x"} == {name: branch.head for name, branch in session.branches().items()}
        assert "another way" == session.branches()["side"].description
        assert "main" == session.current_branch
        session.checkout("main")
    with opened(store) as session:
        assert ("main", "a") == (session.current_branch, session.head)
        session.append(user("b"), id="b")
        assert "b" == session.branches()["main"].head
        session.rewind("q")
        assert session.current_branch is None
        session.append(user("nowhere in particular"))
        assert {"main": "b", "side": "x"} == {name: branch.head for name, branch in session.branches().items()}


def test_a_branch_moves_only_from_where_it_is_expected(store: Store) -> None:
    """Compare and set: of two who commit to the same head, the second is told where it is by now."""
    with opened(store) as session:
        session.set_branch("main", None, expect=None)
        first = session.append(user("1"), branch="main", expect=None)
        with pytest.raises(StaleHead) as stale:
            session.append(user("2"), branch="main", expect=None)
        assert first.id == stale.value.head
        assert 1 == len(list(session.entries()))
        with pytest.raises(StaleHead):
            session.set_branch("main", None, expect="nowhere")
        session.append(user("2"), branch="main", expect=first.id)
        assert ["1", "2"] == texts(session.messages)


def test_branches_that_are_not_there_are_refused(store: Store) -> None:
    """With what to do instead; a name that is taken away is free again."""
    with opened(store) as session:
        session.append(user("q"), id="q")
        for act in (lambda: session.checkout("x"), lambda: session.delete_branch("x")):
            with pytest.raises(SessionNotFound):
                act()
        with pytest.raises(SessionNotFound):
            session.append(user("y"), branch="x")
        with pytest.raises(SessionError):
            session.set_branch("  ", "q")
        session.set_branch("x", "q")
        session.delete_branch("x")
        assert {} == session.branches()


def test_a_commit_and_its_branch_are_written_together(tmp_path: Path) -> None:
    """In one write: no crash leaves a commit that its branch does not know."""
    with Session.open("s", home=tmp_path) as session:
        session.append(user("q"))
        session.checkout("main", create=True)
        writes: list[int] = []
        add = session._log.add
        session._log.add = lambda lines, *, sync: (writes.append(len(lines)), add(lines, sync=sync))[1]  # type: ignore[method-assign, func-returns-value]
        session.append(answer("a"))
        assert [2] == writes


def test_a_merge_names_its_further_parents(store: Store) -> None:
    """They are kept with the entry, survive being saved, and no path leads through them."""
    with opened(store) as session:
        two_branches(session)
        merged = session.append(user("both"), id="m", parent_id="a1", parents=["b"])
        assert ("a1", ("b",)) == (merged.parent_id, merged.parents)
        assert ["q", "a1", "m"] == names(session.path(to="m"))
        assert merged == session.entry("m")
        with pytest.raises(SessionNotFound):
            session.append(user("x"), parents=["nowhere"])
        whole = session.conversation()
        with save(whole, id="copy", store=store) as copy:
            assert ("b",) == copy.entry("m").parents
    assert il.load(il.dump(whole)) == whole
    assert ("b",) == next(e.parents for e in il.decode(il.encode(whole, "transcript").body).entries if e.id == "m")


def test_an_entry_is_revised_and_nothing_is_lost(store: Store) -> None:
    """Whoever reads sees the latest; every version stays; a stale one is refused with the present version."""
    with opened(store) as session:
        two_branches(session)
        assert 1 == session.revise("a2", answer("better"), version=0)
        with pytest.raises(StaleVersion) as stale:
            session.revise("a2", answer("worse"), version=0)
        assert 1 == stale.value.version
        assert 2 == session.revise("a2", answer("best"))
        assert ["q", "best", "b"] == [text_of(e.message.content) for e in session.path(to="b")]
        assert ["a2", "better", "best"] == [text_of(message.content) for message in session.versions("a2")]  # type: ignore[union-attr]
        assert (2, 0) == (session.version("a2"), session.version("q"))
        with pytest.raises(SessionNotFound):
            session.revise("nowhere", user("x"))
        with pytest.raises(SessionError):
            session.revise("q", il.CustomMessage("head", {"target": "q"}))
    with opened(store, read_only=True) as session:
        assert "best" == text_of(session.entry("a2").message.content)
        assert "best" in [text_of(entry.message.content) for entry in session.conversation().entries]


def test_notes_and_ratings_are_kept_with_an_entry(store: Store) -> None:
    """They can be taken back; what says nothing is refused."""
    with opened(store) as session:
        two_branches(session)
        remark = session.note("a1", "wrong number", by="me")
        session.note("a1", rating=-1)
        session.note("a2", "good", rating=1)
        assert ["wrong number", None] == [note.text for note in session.notes("a1")]
        assert (-1, 1) == (session.marks.rating("a1"), session.marks.rating("a2"))
        session.delete_note(remark.id)
        assert [None] == [note.text for note in session.notes("a1")]
        assert 2 == len(session.notes())
        for wrong in ({"rating": 5}, {"text": "  "}, {}):
            with pytest.raises(SessionError):
                session.note("a1", **wrong)  # type: ignore[arg-type]
        with pytest.raises(SessionNotFound):
            session.delete_note("nowhere")


def test_a_fork_takes_revisions_and_notes_along(store: Store) -> None:
    """Those of the entries that it has."""
    with opened(store) as session:
        two_branches(session)
        session.revise("q", user("Q"))
        session.note("q", "first")
        session.note("a1", "not taken along")
        with session.fork("b", id="f") as fork:
            assert ["Q", "a2", "b"] == texts(fork.messages)
            assert ["first"] == [note.text for note in fork.notes()]


def test_clearing_up_keeps_branches_notes_and_revisions(store: Store) -> None:
    """A named branch is a way that leads somewhere; what was said of entries that went goes with them."""
    with opened(store) as session:
        two_branches(session)
        session.set_branch("keep", "b", description="kept")
        session.note("b", "stays")
        session.note("a1", "goes")
        session.revise("b", user("B"))
        session.checkout("keep")
    assert collect_branches(store, "main", "s", delete=True).items > 0
    with opened(store) as session:
        assert ["q", "a2", "b"] == names(session.entries())
        assert ["q", "a2", "B"] == texts(session.messages)
        assert ("keep", "kept") == (session.current_branch, session.branches()["keep"].description)
        assert ["stays"] == [note.text for note in session.notes()]


def test_no_model_gets_marks(store: Store) -> None:
    """Branches, notes and revisions are the session's own affair."""
    with opened(store) as session:
        two_branches(session)
        session.set_branch("x", "b")
        session.note("b", "n")
        session.rewind("b")
        request = session.conversation().request()
        assert ["q", "a2", "b"] == texts(request.context.messages)


@pytest.mark.parametrize("role", ["branch", "note", "revision"])
def test_other_programs_messages_of_these_roles_stay_messages(store: Store, role: str) -> None:
    """Only a line that names a target, and has no id of its own, is a mark."""
    with opened(store) as session:
        session.append(user("q"), id="q")
        session.append(il.CustomMessage(role, {"text": "mine"}), id="c")
        session.append(user("b"), id="b")
        assert ["q", "c", "b"] == names(session.path())
        with pytest.raises(SessionError):
            session.append(il.CustomMessage(role, {"target": "q"}))


def test_an_id_that_is_taken_is_refused(store: Store) -> None:
    """With an error of its own, so that a server can say 409."""
    with opened(store) as session:
        session.append(user("q"), id="q")
        with pytest.raises(EntryExists):
            session.append(user("again"), id="q")


def test_lines_that_make_no_sense_change_nothing(tmp_path: Path) -> None:
    """Marks with wrong types, of entries that are not there, twice: the session reads on."""
    path = tmp_path / "s.jsonl"
    path.write_text(
        '{"role":"session","version":1,"id":"s"}\n'
        '{"role":"user","content":"q","id":"q"}\n'
        '{"role":"branch","target":5,"name":"x"}\n'
        '{"role":"branch","target":"q","name":7}\n'
        '{"role":"note","target":"nowhere","note":"n","text":"t"}\n'
        '{"role":"note","target":"q","note":null}\n'
        '{"role":"revision","target":"q","message":"no object"}\n'
        '{"role":"revision","target":"q","version":9,"message":{"role":"user","content":"Q"}}\n'
    )
    with Session.open(path) as session:
        assert ["Q"] == texts(session.messages)
        assert {"x": None} == {name: branch.head for name, branch in session.branches().items()}
        assert 1 == session.version("q")
        assert [] == list(session.notes("q"))


async def test_what_another_process_appends_is_followed(store: Store) -> None:
    """As it comes, and nothing twice."""
    with opened(store) as writer:
        first = writer.append(user("0"))
        with opened(store, read_only=True) as reader:
            found: list[str] = []

            async def follow() -> None:
                async for entry in reader.follow(since=first.id):
                    found.append(text_of(entry.message.content))
                    if len(found) == 20:
                        return

            task = asyncio.ensure_future(follow())
            for at in range(20):
                writer.append(user(str(at + 1)))
                await asyncio.sleep(0)
            await asyncio.wait_for(task, 20)
    assert [str(at + 1) for at in range(20)] == found


async def test_following_goes_on_when_the_file_is_replaced(tmp_path: Path) -> None:
    """Clearing up writes a new file: what was read is not read again, what comes is."""
    store = store_at(None, tmp_path)
    with Session.open("s", store=store) as writer:
        two_branches(writer)
        writer.rewind("b")
    with Session.open("s", store=store, read_only=True) as reader:
        following = reader.follow(since="r")  # which is cleared away
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0.05)
        collect_branches(store, "main", "s")
        with Session.open("s", store=store) as writer:
            writer.append(user("next"), id="next")
            found = await asyncio.wait_for(waiting, 20)
        assert "next" == found.id
        await following.aclose()


def test_a_busy_session_is_continued_in_a_linked_fork(store: Store) -> None:
    """It says whose it is, so that viewers can show both as one tree."""
    with opened(store) as writer:
        two_branches(writer)
        with pytest.raises(SessionBusy):
            opened(store)
        with opened(store, read_only=True) as reader, reader.fork("b", id="link", linked=True) as fork:
            fork.append(answer("on its own"))
    info = next(info for info in store.sessions("main") if info.id == "link")
    assert ("s", "b", True) == (info.forked_from, info.forked_at, info.linked)
