"""What the `sessions` commands do, as functions: the same for files and databases."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua import sessions
from interlingua.sessions import Session, SessionError, SessionNotFound, operations
from interlingua.sessions.operations import Where
from sessions.making import answer, fill, texts, user, write_lines

BODY = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(params=["files", "sqlite", "open"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Where]:
    """A place for sessions: files, the address of a database, a store that is open."""
    home, address = tmp_path / "home", f"sqlite:{tmp_path / 's.db'}"
    if request.param == "files":
        yield Where(home=home)
    elif request.param == "sqlite":
        yield Where(store=address)
    else:
        store = sessions.store_at(address)
        yield Where(store=store)
        store.close()


@pytest.fixture
def ids(where: Where) -> list[str]:
    """A session `work` with a branch, and a later one `other`."""
    with Session.open("work", **where) as session:
        ids = fill(session, user("Which city?"), answer("Oslo", model="m-1", usage=il.Usage.of(10, 2)))
        session.rewind(ids[0])
        ids += fill(session, answer("Bergen", model="m-2", usage=il.Usage.of(10, 3)))
    with Session.open("other", **where) as session:
        fill(session, user("Something else"))
    return ids


def test_sessions_are_listed_found_and_read(where: Where, ids: list[str]) -> None:
    """By id, by its beginning; the whole tree, the path, or what the model reads."""
    listed = sessions.list_sessions(home=where.get("home"), store=where.get("store"))
    assert {"work", "other"} == {info.id for info in listed}
    assert listed[:1] == sessions.list_sessions(None, limit=1, home=where.get("home"), store=where.get("store"))
    assert ["work"] == sessions.find_sessions("wo", **where)
    assert {"work", "other"} == set(sessions.find_sessions(**where))
    assert [] == sessions.find_sessions([], **where)
    tree = sessions.read_session("work", **where)
    assert ["Which city?", "Oslo", "Bergen"] == texts([entry.message for entry in tree.entries])
    for view in ("path", "context"):
        found = sessions.read_session("wo", view=view, **where)
        assert ["Which city?", "Bergen"] == texts([entry.message for entry in found.entries])
    assert ["Bergen"] == texts([e.message for e in sessions.read_session("work", view="path", last=1, **where).entries])
    with sessions.open_session("work", write=True, **where) as session:
        session.append(user("More"))
    assert "More" == sessions.read_session("work", **where).entries[-1].message.text


def test_sessions_are_searched_and_counted(where: Where, ids: list[str]) -> None:
    """Also in a database, which has no index on disk."""
    found = sessions.search_sessions("bergen", **where)
    assert [("work", ids[2])] == [(hit.id, hit.text.entry) for hit in found.hits]
    assert 0 == sessions.search_sessions("bergen", model="m-1", **where).total
    totals = sessions.session_totals(**where)
    assert {"m-1": 2, "m-2": 3} == {row.name: row.output for row in totals.rows}
    assert [5] == [row.output for row in totals.all]
    assert 1 == len(sessions.session_totals("day", **where).all)


def test_a_conversation_of_another_format_is_imported_and_exported(where: Where, tmp_path: Path) -> None:
    """What cannot be read is a problem beside the rest; an export says what was lost."""
    good, bad = tmp_path / "body.json", tmp_path / "bad.json"
    good.write_text(json.dumps(BODY))
    bad.write_text("{")
    done = sessions.import_sessions([good, bad], **where)
    (row,) = done.sessions
    assert (str(good), 1) == (row.source, row.messages)
    assert [str(bad)] == [problem.name for problem in done.problems]
    encoded = sessions.export_session(row.id, "anthropic-messages", **where)
    assert BODY == encoded.body
    target = tmp_path / "out.json"
    sessions.export_session(row.id, "openai-completions", output=target, **where)
    assert {"role": "user", "content": "Hi"} == json.loads(target.read_text())["messages"][0]
    with pytest.raises(SessionError, match="nothing to import"):
        sessions.import_sessions([], **where)


def test_a_session_is_forked_and_compacted(where: Where, ids: list[str]) -> None:
    """A summary is a text, or what a function makes of the request for it; every entry stays."""
    forked = sessions.fork_session("work", ids[1], id="fork", **where)
    assert ("fork", ids[1], "work") == (forked.id, forked.head, forked.forked_from)
    with Session.open("long", **where) as session:
        fill(session, *(make(f"{at} {'word ' * 200}") for at in range(6) for make in (user, answer)))
    asked = sessions.summary_request("long", keep=600, focus="words", **where)
    assert "<conversation>" in asked.prompt and "words" in asked.prompt
    seen: list[str] = []

    def summarize(prompt: str) -> str:
        seen.append(prompt)
        return "All about words."

    done = sessions.compact_session("long", summarize, keep=600, focus="words", **where)
    assert ([asked.prompt], asked.first_kept) == (seen, done.first_kept)
    assert done.tokens_after < done.tokens_before == asked.tokens_before
    found = sessions.read_session("long", view="context", **where)
    assert "All about words." in texts([found.entries[0].message])[0]
    assert 13 == len(sessions.read_session("long", **where).entries)
    with pytest.raises(SessionError, match="nothing to summarize"):
        sessions.compact_session("long", "x", **where)


def test_sessions_are_deleted_restored_and_purged(where: Where, ids: list[str]) -> None:
    """By name or by age; what is purged is gone; an empty list deletes nothing."""
    assert {} == sessions.delete_sessions([], **where).until
    assert [] == sessions.find_sessions(before=datetime.datetime(2000, 1, 1), **where)
    tomorrow = datetime.datetime.now() + datetime.timedelta(days=1)
    old = sessions.find_sessions(before=tomorrow, **where)
    assert {"work", "other"} == set(old)
    done = sessions.delete_sessions(old, **where)
    assert set(old) == {*done.until} and all(done.until.values())
    assert [] == sessions.find_sessions(**where)
    assert {"work", "other"} == {one.id for one in sessions.deleted_sessions(**where)}
    assert ["work"] == [one.id for one in sessions.restore_sessions("wo", **where)]
    assert ["work"] == sessions.find_sessions(**where)
    assert {"work": None} == sessions.delete_sessions("work", purge=True, **where).until
    assert ["other"] == [one.id for one in sessions.deleted_sessions(**where)]
    assert 0 == sessions.purge_sessions(**where).sessions
    assert 1 == sessions.purge_sessions(everything=True, **where).sessions
    assert [] == sessions.deleted_sessions(**where)


def test_dead_branches_are_collected_when_asked_for(where: Where, ids: list[str]) -> None:
    """With a backup unless it is declined."""
    assert {} == sessions.collect_garbage(**where).sessions
    done = sessions.collect_garbage("work", branches=True, **where)
    assert done.sessions["work"].items >= 1 and not done.problems
    assert ["Which city?", "Bergen"] == texts([e.message for e in sessions.read_session("work", **where).entries])
    with pytest.raises(SessionError, match="branches=True"):
        sessions.collect_garbage("work", **where)


def test_a_session_in_use_is_a_problem_beside_the_others(where: Where, ids: list[str]) -> None:
    """The others are deleted."""
    with Session.open("work", **where):
        done = sessions.delete_sessions(["work", "other"], **where)
    assert (["other"], ["work"]) == ([*done.until], [problem.name for problem in done.problems])


def test_a_broken_file_is_repaired_into_a_new_one(tmp_path: Path) -> None:
    """The file itself is not changed, and nothing is overwritten unasked."""
    broken = write_lines(tmp_path / "broken.jsonl", {"role": "user", "content": "Hi"}, b'{"role": "assis')
    before = broken.read_bytes()
    found = sessions.repair_session(broken)
    assert found.findings == sessions.repair_session(before).findings != ()
    repaired = tmp_path / "repaired.jsonl"
    sessions.repair_session(broken, repaired)
    assert (before, ()) == (broken.read_bytes(), sessions.repair_session(repaired).findings)
    with pytest.raises(SessionError, match="already exists"):
        sessions.repair_session(broken, repaired)
    with pytest.raises(SessionError, match="input file"):
        sessions.repair_session(broken, broken, overwrite=True)
    with pytest.raises(il.InterlinguaError, match="not a session file"):
        sessions.repair_session(b"Dear diary")


def test_a_session_file_is_given_by_its_path(tmp_path: Path) -> None:
    """As a path or a text; also one that another program wrote."""
    path = write_lines(tmp_path / "chat.jsonl", {"role": "user", "content": "Hi", "id": "q"})
    for name in (path, str(path)):
        assert ["Hi"] == texts([entry.message for entry in sessions.read_session(name).entries])
    assert operations.foreign_file(path) is None


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda home: sessions.read_session(home=home), "no session of agent 'main' yet"),
        (lambda home: sessions.read_session("none", home=home), "no session 'none' of agent 'main'"),
        (lambda home: sessions.read_session(hoem=home), "unknown option 'hoem'; did you mean 'home'"),
        (lambda home: sessions.list_sessions(limit=-1, home=home), "limit -1 is negative"),
        (lambda home: sessions.list_sessions(store="mysql:x"), "unknown store address"),
        (lambda home: sessions.restore_sessions("none", home=home), "no deleted session 'none'"),
    ],
    ids=["empty", "unknown", "option", "limit", "store", "restore"],
)
def test_a_wrong_call_says_what_to_do(attempt: Any, message: str, tmp_path: Path) -> None:
    """As a typed error; nothing is created."""
    with pytest.raises(SessionError, match=message):
        attempt(tmp_path / "home")
    assert [] == [*tmp_path.iterdir()]


def test_an_ambiguous_name_and_an_unknown_view_are_refused(tmp_path: Path) -> None:
    """With what there is."""
    for name in ("work", "worm"):
        with Session.open(name, home=tmp_path) as session:
            session.append(user("x"))
    with pytest.raises(SessionError, match="ambiguous session 'wor': work, worm"):
        sessions.fork_session("wor", home=tmp_path)
    view: Any = "paths"
    with pytest.raises(SessionError, match="unknown view 'paths'; valid views: tree, path, context"):
        sessions.read_session("work", view=view, home=tmp_path)
    with pytest.raises(SessionNotFound):
        sessions.export_session("none", "transcript", home=tmp_path)
