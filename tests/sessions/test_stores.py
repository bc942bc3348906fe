"""Stores by their address, and what is said when one cannot be used."""

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import interlingua as il
from interlingua.sessions import Session, SessionBusy, SessionError, Store, save, store_at
from interlingua.sessions.files import CATALOGUE, FileStore
from interlingua.sessions.sql import sqlite_store
from sessions.making import fill, texts, user


def test_a_store_is_named_by_its_address(tmp_path: Path) -> None:
    """Files by default; a store that is given is taken as it is."""
    files = FileStore(tmp_path)
    assert files is store_at(files)
    assert isinstance(store_at(None, tmp_path), FileStore)
    for address in (f"sqlite:{tmp_path / 'a.db'}", f"sqlite://{tmp_path / 'a.db'}"):
        with Session.open("s", store=address) as session:
            session.append(user("Hi"))
    with Session.open("s", store=f"sqlite:{tmp_path / 'a.db'}", read_only=True) as session:
        assert ["Hi", "Hi"] == texts(session.messages)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are a matter of POSIX")
@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_nobody_else_may_read_what_a_store_writes(tmp_path: Path, kind: str) -> None:
    """The sessions, the database with its log, and the list, whose titles are words of the conversations."""
    before = os.umask(0o022)
    try:
        store = store_at(None, tmp_path) if kind == "files" else store_at(f"sqlite:{tmp_path / 's.db'}")
        with Session.open("s", store=store) as session:
            session.append(user("Hi"))
            assert ["Hi"] == [info.title for info in store.sessions("main")]
            written = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
        store.close()
    finally:
        os.umask(before)
    assert {"s.jsonl", CATALOGUE} <= {*written} if kind == "files" else "s.db" in written
    assert dict.fromkeys(written, 0o600) == written


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_messages_are_numbered_along_their_paths(tmp_path: Path, kind: str) -> None:
    """Each on its own branch; what is no message, or is not here, has no number, and is not counted."""
    store = store_at(None, tmp_path) if kind == "files" else store_at(f"sqlite:{tmp_path / 's.db'}")
    with Session.open("s", store=store) as session:
        session.append(user("1"), id="1")
        session.append(il.CustomMessage(role="snapshot", fields={}), id="record")
        session.append(user("2"), id="2")
        session.append(il.CustomMessage(role="compaction", fields={"summary": "short"}), id="compaction")
        session.append(user("3"), id="3")
        session.append(user("another second"), id="2b", parent_id="record")
        session.append(user("another third"), id="3b", parent_id="2b")
        ids = ["3b", "record", "3", "1", "compaction", "2", "missing", "2b"]
        assert {"1": 1, "2": 2, "3": 3, "2b": 2, "3b": 3} == session.message_numbers(ids)
    store.close()


def test_a_conversation_that_is_not_saved_whole_is_not_there(store: Store, tmp_path: Path) -> None:
    """Half of it would look like all of it; a session that was there before stays."""
    entries = [il.Entry(message=user(text)) for text in "abc"]
    ids = {"": "1"}
    with pytest.raises(KeyError):
        save(il.Conversation(entries=tuple(entries)), new_id=lambda: ids.pop(""), id="s", store=store)
    assert [] == store.sessions("main") and [] == [*tmp_path.rglob("s.*")]
    with save(il.Conversation(entries=(entries[0],)), id="s", store=store) as session:
        session.fork(id="fork").close()
        with pytest.raises(SessionError, match="already exists"):
            session.fork(id="fork")
    with pytest.raises(SessionError, match="already exists"):
        save(il.Conversation(), id="s", store=store)
    assert {"s", "fork"} == {info.id for info in store.sessions("main")}


def test_an_unknown_address_is_refused() -> None:
    """With those that are known."""
    with pytest.raises(SessionError, match="sqlite:FILE or postgresql"):
        store_at("ftp://x")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """And not overwritten."""
    path = tmp_path / "notes.db"
    path.write_text("my notes, which are long enough to be no header of a database " * 20)
    before = path.read_bytes()
    with pytest.raises(SessionError, match="not usable as a session database"):
        store_at(f"sqlite:{path}")
    assert before == path.read_bytes()


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra by its name."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SessionError, match=r'pip install "interlingua\[postgres\]"'):
        store_at("postgresql://localhost/none")


def test_postgresql_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    """No driver's exception comes through."""
    pytest.importorskip("psycopg")
    with pytest.raises(SessionError, match="cannot reach the session database"):
        store_at(f"postgresql://nobody@/none?host={tmp_path}")


def test_two_writers_of_one_row_cannot_both_be_acknowledged(tmp_path: Path) -> None:
    """Where a lease was lost, the database itself refuses the second line of the same number."""
    path = tmp_path / "s.db"
    with Session.open("s", store=f"sqlite:{path}") as session:
        session.append(user("one"))
        other = sqlite3.connect(path)
        line = b'{"role":"user","content":"two","id":"x"}'
        other.execute("INSERT INTO lines VALUES (1, 2, 9, 1, 0, 'x', ?)", [line])
        other.commit()
        other.close()
        with pytest.raises(SessionError, match="not saved"):
            session._log.add([b'{"role":"user","content":"three"}'], sync=False)
        session.append(user("three"))
        assert ["one", "two", "three"] == texts(session.messages)


LOOK = """
import sys
from concurrent.futures import ThreadPoolExecutor
from interlingua.sessions import Session
with Session.open("s", store=sys.argv[1], read_only=True) as session:
    print(session.messages)
"""


def test_opening_a_sqlite_store_again_takes_no_lock_from_those_that_are_open(tmp_path: Path) -> None:
    """Closing a descriptor of a database drops all locks of its process; another process would then delete the log."""
    address = f"sqlite:{tmp_path}/s.db"
    command = [sys.executable, "-c", LOOK, address]
    with Session.open("s", store=address) as session:
        session.append(user("one"))
        with pytest.raises(SessionBusy):
            Session.open("s", store=address)
        for text in ("two", "three"):
            subprocess.run(command, check=True, timeout=60, capture_output=True)
            session.append(user(text))
        seen = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    assert "three" in seen.stdout


def test_a_session_is_created_in_one_write_unless_it_exists(tmp_path: Path) -> None:
    """An existing one stays as it is, and nothing but the session is left in the folder."""
    store = FileStore(tmp_path)
    line = b'{"role":"user","content":"Hi","id":"a"}'
    assert store.create("main", "s", lambda: [line])
    assert not store.create("main", "s", lambda: [b"{}"])
    store.sync("main", ["s", "deleted"])
    assert line + b"\n" == store.path("main", "s").read_bytes()
    assert ["s.jsonl"] == [path.name for path in store.folder("main").iterdir()]
    assert 0o600 == store.path("main", "s").stat().st_mode & 0o777
    with Session.open("s", store=store) as session:
        session.append(user("again"))
        assert ["Hi", "again"] == texts(session.messages)


def test_a_session_that_fails_to_be_created_leaves_nothing(tmp_path: Path) -> None:
    """Neither the session nor its parts."""
    store = FileStore(tmp_path)
    store.create("main", "first", list)

    def broken() -> list[bytes]:
        raise ValueError("no lines")

    with pytest.raises(SessionError):
        store.create("main", "s", broken)
    assert ["first.jsonl"] == [path.name for path in store.folder("main").iterdir()]


def test_of_many_that_create_a_session_one_does(tmp_path: Path) -> None:
    """And those that open it meanwhile find it whole, or make their own."""
    store = FileStore(tmp_path)

    def work(number: int) -> int:
        created = 0
        for id in map(str, range(60)):
            if number:
                line = b'{"role":"user","content":"%d","id":"c%d"}' % (number, number)
                created += store.create("main", id, lambda line=line: [line])  # type: ignore[misc]
            else:
                with Session.open(id, store=store) as session:
                    session.append(user("opened"), id="o")
        return created

    with ThreadPoolExecutor(4) as pool:
        created = sum(pool.map(work, range(4)))
    found = []
    for id in map(str, range(60)):
        with Session.open(id, store=store, read_only=True) as session:
            assert not session.problems
            assert "opened" == texts(session.messages)[-1]
            found += [text for text in texts(session.messages) if text != "opened"]
    assert created == len(found)


def test_a_database_creates_a_session_at_once_unless_it_exists(tmp_path: Path) -> None:
    """With its tree; of several processes that create it, one does."""
    stores = [store_at(f"sqlite:{tmp_path / 's.db'}") for _ in range(3)]
    first, second = b'{"role":"user","content":"Hi","id":"a"}', b'{"role":"user","content":"Yes","id":"b"}'

    def create(at: int) -> int:
        return sum(stores[at].create("main", str(id), lambda: [first, second]) for id in range(40))

    with ThreadPoolExecutor(3) as pool:
        assert 40 == sum(pool.map(create, range(3)))
    with pytest.raises(SessionError, match="invalid session name"):
        stores[0].create("main", "a\0b", lambda: [first])
    with pytest.raises(ZeroDivisionError):
        stores[0].create("main", "broken", lambda: [b"%d" % (1 // 0)])
    for id in range(40):
        with Session.open(str(id), store=stores[id % 3]) as session:
            session.append(user("again"))
            assert ["Hi", "Yes", "again"] == texts(session.messages)
    assert 40 == len(stores[0].sessions("main"))
    for store in stores:
        store.close()


def test_a_group_in_a_database_is_one_commit(tmp_path: Path) -> None:
    """Others see all of it or nothing; what was appended before an error of the caller is kept."""
    address = f"sqlite:{tmp_path / 's.db'}"
    with Session.open("s", store=address) as session, Session.open("t", store=session.store) as other:
        fill(session, user("a"))
        with Session.open("s", store=address, read_only=True) as seen:
            with session.store.grouped(), session.grouped():
                session.append(user("b"))
                other.append(user("x"))
                session.append(user("c"))
                assert ["a"] == texts(seen.messages)
                assert ["a", "b", "c"] == texts(session.messages)
            seen.refresh()
            assert ["a", "b", "c"] == texts(seen.messages)
            with pytest.raises(ZeroDivisionError), session.grouped():
                session.append(user("d"))
                raise ZeroDivisionError
            seen.refresh()
            assert ["a", "b", "c", "d"] == texts(seen.messages)


@pytest.mark.parametrize("size", [20_000, 3_000_000], ids=["in the middle", "at the end"])
def test_a_group_that_a_full_database_ends_leaves_nothing(tmp_path: Path, size: int) -> None:
    """Neither in the file nor in the session, which goes on from what was there before."""
    store = sqlite_store(tmp_path / "s.db")
    database = store.database
    with Session.open("s", store=store) as session:
        fill(session, user("a"))
        ((pages,),) = database.rows("PRAGMA page_count")
        database.rows(f"PRAGMA max_page_count = {pages + 20}")
        with pytest.raises(SessionError, match="not saved"), session.grouped():
            session.append(user("b"))
            with pytest.raises(SessionError):
                session.append(user("c" * size))
                session.append(user("d" * 200_000))
            session.append(user("e" * 20_000))
        database.rows("PRAGMA max_page_count = 100000")
        assert ["a"] == texts(session.messages)
        session.append(user("f"))
        assert ["a", "f"] == texts(session.messages)
    with Session.open("s", store=store, read_only=True) as session:
        assert ["a", "f"] == texts(session.messages)
        assert not session.problems
    store.close()


@pytest.mark.parametrize("name", ["another", "s"])
def test_a_session_that_was_never_committed_leaves_others_alone(tmp_path: Path, name: str) -> None:
    """SQLite gives its number to the next session: neither its lines nor its end are that one's."""
    store, others = (sqlite_store(tmp_path / "s.db") for _ in range(2))
    with pytest.raises(ZeroDivisionError), store.grouped():
        session = Session.open("s", store=store)
        raise ZeroDivisionError
    lines = [b'{"role":"session","id":"s"}', b'{"role":"user","content":"a","id":"a"}']
    assert others.create("main", name, lambda: lines)
    if name == "another":
        with pytest.raises(SessionError, match="deleted; open it again"):
            session.append(user("b"))
    session.close()
    with Session.open(name, store=others) as other:
        assert ["a"] == texts(other.messages)
    for one in (store, others):
        one.close()
