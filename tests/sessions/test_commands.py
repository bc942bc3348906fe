"""`interlingua sessions` and `interlingua doctor`, as a user runs them."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.running import Outcome
from cli.running import run as run_command
from interlingua.sessions import Session
from sessions.making import answer, fill, result, texts, user, write_lines

HEY = {"role": "user", "content": "Hey"}
BODY = {
    "model": "claude-x",
    "max_tokens": 9,
    "system": "Be terse.",
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def ids(home: Path) -> list[str]:
    """A session with a branch."""
    with Session.open("work", home=home) as session:
        ids = fill(session, user("Read it"), answer("", "c1", model="m"), result("c1", "x = 1"), answer("It sets x."))
        session.rewind(ids[0])
        ids += fill(session, answer("Another way."))
        session.label(ids[3], "first try")
        return ids


def run(home: Path, *arguments: Any, **more: Any) -> Outcome:
    command, *rest = arguments
    return run_command("sessions", command, "--home", home, *rest, **more)


def test_list_shows_what_there_is(home: Path, ids: list[str]) -> None:
    """For people and for programs; an empty home is no error."""
    assert "no sessions\n" == run(home / "none", "list").out
    assert "no sessions of other; --all lists those of others\n" == run(home, "list", "--agent", "other").out
    shown = run(home, "list")
    assert "work" in shown.out and "Read it" in shown.out
    (row,) = run(home, "list", "--json").json
    assert ("work", "main", "Read it", 5, "m") == tuple(row[k] for k in ("id", "agent", "title", "messages", "model"))


def test_show_gives_the_path_the_tree_or_the_context(home: Path, ids: list[str]) -> None:
    """A session is named by its id, its beginning or its file."""
    shown = run(home, "show", "wo").out
    assert "Another way." in shown and "It sets x." not in shown
    drawn = run(home, "show", "work", "--tree").out
    assert f"{ids[3]}  assistant: It sets x.  [first try]" in drawn and f"● {ids[4]}" in drawn
    tree = run(home, "show", "work", "--tree", "--json").json
    assert (ids[4], ids) == (tree["head"], [entry["id"] for entry in tree["entries"]])
    path = home / "agents/main/sessions/work.jsonl"
    assert shown == run(home, "show", path).out == run(home, "show", "work", "--context").out


def test_a_name_that_fits_none_or_several_is_refused(home: Path, ids: list[str]) -> None:
    """One line that says what to do."""
    with Session.open("worm", home=home) as session:
        session.append(user("x"))
    several, none = run(home, "show", "wor"), run(home, "show", "zzz")
    assert (1, 1) == (several.code, none.code)
    assert ": work, worm;" in several.err and "sessions list" in none.err


def test_import_and_export_carry_any_format(home: Path, tmp_path: Path) -> None:
    """In through decode, out through encode, with the loss report."""
    source = tmp_path / "body.json"
    source.write_text(json.dumps(BODY))
    (row,) = run(home, "import", source, "--id", "new", "--json").json["sessions"]
    assert ("new", 2) == (row["id"], row["messages"])
    out = run(home, "export", "new", "-t", "anthropic-messages", "--json").json
    assert BODY == out["body"]
    assert {"record"} >= {loss["severity"] for loss in out["losses"]}
    place = tmp_path / "out.jsonl"
    done = run(home, "export", "new", "-t", "openclaw", "-o", place, "--report")
    assert (0, "") == (done.code, done.out)
    assert "system" in done.err
    with Session.open(place, read_only=True) as session:
        assert ["Hi", "Hello"] == texts(session.messages)


def test_import_twice_under_one_id_is_refused(home: Path, tmp_path: Path) -> None:
    """The session that is there is not touched."""
    source = tmp_path / "body.json"
    source.write_text(json.dumps(BODY))
    assert 0 == run(home, "import", source, "--id", "new").code
    again = run(home, "import", source, "--id", "new")
    assert 1 == again.code and "already" in again.err


def test_fork_makes_another_session(home: Path, ids: list[str]) -> None:
    """At the head, or where one says."""
    row = run(home, "fork", "work", "--at", ids[2], "--id", "other", "--json").json
    assert ("other", "work", ids[2]) == (row["id"], row["forkedFrom"], row["head"])
    with Session.open("other", home=home, read_only=True) as session:
        assert ["Read it", "", "x = 1"] == texts(session.messages)


def test_compact_asks_and_then_takes_the_summary(home: Path) -> None:
    """Without a summary the request is printed, for any model; with one, the session is compacted."""
    with Session.open("long", home=home) as session:
        fill(session, *(maker(f"{at} {'word ' * 200}") for at in range(6) for maker in (user, answer)))
    asked = run(home, "compact", "long", "--keep", 600)
    assert asked.code == 0 and "<conversation>" in asked.out and "## Goal" in asked.out
    row = run(home, "compact", "long", "--keep", 600, "--summary", "-", "--json", given=b"All about words.").json
    assert row["tokensAfter"] < row["tokensBefore"]
    with Session.open("long", home=home, read_only=True) as session:
        assert "All about words." in texts(session.context_messages())[0]
        assert 12 == len(session.messages)
    nothing = run(home, "compact", "long", "--summary", "x")
    assert 1 == nothing.code and "nothing to summarize" in nothing.err


def test_gc_clears_branches_when_asked(home: Path, ids: list[str]) -> None:
    """And says where the original is."""
    assert "--branches" in run(home, "gc", "work").err
    rows = run(home, "gc", "work", "--branches", "--json").json
    assert ["work", "blobs"] == [row["of"] for row in rows]
    with Session.open("work", home=home) as session:
        session.label(ids[3], None)
    (done, _) = run(home, "gc", "work", "--branches", "--json").json
    assert done["items"] > 0 and Path(done["kept"]).exists()
    with Session.open("work", home=home, read_only=True) as session:
        assert [ids[0], ids[4]] == [entry.id for entry in session.entries()]


def test_the_same_commands_work_on_a_database(home: Path, tmp_path: Path) -> None:
    """`--store` says where."""
    source = tmp_path / "body.json"
    source.write_text(json.dumps(BODY))
    where = ("--store", f"sqlite:{tmp_path / 's.db'}")
    assert 0 == run(home, "import", source, *where, "--id", "new").code
    assert ["new"] == [row["id"] for row in run(home, "list", *where, "--json").json]
    assert "Hello" in run(home, "show", "new", *where).out


def test_openclaws_sessions_are_listed_shown_and_exported(tmp_path: Path) -> None:
    """Another program's files, without writing beside them."""
    home = tmp_path / ".openclaw"
    folder = home / "agents/main/sessions"
    at = "2026-01-01T00:00:00Z"
    write_lines(
        folder / "tree.jsonl",
        {"type": "session", "version": 3, "id": "tree", "timestamp": at, "cwd": "/"},
        {
            "type": "message",
            "id": "a",
            "parentId": None,
            "timestamp": at,
            "message": {"role": "user", "content": "Hey"},
        },
    )
    assert "Hey" in run(home, "list").out
    assert "Hey" in run(home, "show", "tree").out
    assert 0 == run(home, "export", "tree", "-t", "transcript").code
    assert ["tree.jsonl"] == [path.name for path in folder.iterdir()]


def test_doctor_says_what_is_wrong_and_repairs_into_a_new_file(tmp_path: Path) -> None:
    """Line by line; 1 while it needs repair, 0 when it is healthy or was repaired; the file is never changed."""
    path = write_lines(tmp_path / "x.jsonl", HEY, b"{torn", {"role": "user", "content": ""})
    before = path.read_bytes()
    seen = run_command("doctor", path)
    assert 1 == seen.code and "line 2: not a JSON object" in seen.out and "-o" in seen.out
    new = tmp_path / "new.jsonl"
    done = run_command("doctor", path, "-o", new)
    assert 0 == done.code and "line 3: null or blank content → says" in done.out
    assert before == path.read_bytes()
    healthy = run_command("doctor", new, "--json")
    assert (0, True, []) == (healthy.code, healthy.json["healthy"], healthy.json["findings"])
    found = run_command("doctor", path, "--json").json["findings"]
    assert [(2, "bad-line"), (3, "blank")] == [(finding["line"], finding["what"]) for finding in found]


def test_doctor_writes_over_nothing(tmp_path: Path) -> None:
    """Not over the patient, and over another file only when told to."""
    path = write_lines(tmp_path / "x.jsonl", b"{torn")
    other = write_lines(tmp_path / "y.jsonl", b"mine")
    assert "give another file with -o" in run_command("doctor", path, "-o", path).err
    assert "--force" in run_command("doctor", path, "-o", other).err
    assert 0 == run_command("doctor", path, "-o", other, "--force").code
    assert 1 == run_command("doctor", tmp_path / "none.jsonl").code


def finished(home: Path) -> tuple[str, list[str]]:
    """A session with a call that ran, and the ids of its entries."""
    with Session.open("paid", home=home) as session:
        ids = fill(session, user("Pay"), answer("", "c1"))
        session.journal("tool_start", call_id="c1", name="read")
        ids += fill(session, result("c1", "paid"), answer("Done."))
        return session.id, ids


@pytest.mark.parametrize("how", ["fork", "export", "context"])
def test_a_copy_made_by_a_command_knows_which_calls_ran(home: Path, tmp_path: Path, how: str) -> None:
    """Forked, or exported and imported: a call whose result is not on the path has not become a new one."""
    id, ids = finished(home)
    assert 0 == run(home, "fork", id, "--at", ids[1], "--id", "copy").code
    if how != "fork":
        more = ["--context"] if how == "context" else []
        out = tmp_path / "copy.jsonl"
        assert 0 == run(home, "export", "copy", "-t", "transcript", "-o", out, *more).code
        assert 0 == run(home, "import", out, "--id", "again").code
    with Session.open("copy" if how == "fork" else "again", home=home, create=False) as session:
        (unfinished,) = session.unfinished_calls()
        assert unfinished.started and unfinished.ended
        assert "paid" == unfinished.result["content"][0]["text"]


def test_a_tree_shows_orphans_circles_and_double_ids_marked(home: Path, tmp_path: Path) -> None:
    """Each entry once, whatever its line says about its place."""
    path = write_lines(
        tmp_path / "odd.jsonl",
        {"role": "user", "content": "one", "id": "a"},
        {"role": "user", "content": "orphan", "id": "b", "parentId": "gone"},
        {"role": "user", "content": "circle", "id": "c", "parentId": "c"},
        {"role": "user", "content": "early", "id": "d", "parentId": "e"},
        {"role": "user", "content": "late", "id": "e", "parentId": "d"},
        {"role": "user", "content": "twin", "id": "a", "parentId": "a"},
        {"role": "user", "content": 42, "id": "x", "parentId": "a"},
        {"role": "user", "content": "below what cannot be read", "id": "f", "parentId": "x"},
    )
    shown = run(home, "show", path, "--tree")
    for text in ("one", "orphan", "circle", "early", "late", "twin", "below what cannot be read"):
        assert 1 == shown.out.count(f"user: {text}"), text
    assert "b  user: orphan  (parent 'gone' is not before it)" in shown.out
    assert "c  user: circle  (is its own parent)" in shown.out
    assert "d  user: early  (parent 'e' is not before it)" in shown.out
    assert "a  user: one  (line 6 has the same id)" in shown.out
    rows = run(home, "show", path, "--tree", "--json").json["entries"]
    assert ["a", "b", "c", "d"] == [row["id"] for row in rows if "problem" in row]


def test_the_tree_of_another_programs_file_is_shown_too(home: Path, tmp_path: Path) -> None:
    """With its orphans."""
    message = {"role": "user", "content": "x", "timestamp": 1}
    path = write_lines(
        tmp_path / "pi.jsonl",
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"},
        {"type": "message", "id": "a", "parentId": None, "message": message},
        {"type": "message", "id": "b", "parentId": "gone", "message": message},
        {"type": "label", "id": "l", "parentId": "b", "targetId": "a", "label": "start"},
        {"type": "message", "id": "c", "parentId": "l", "message": message},
    )
    shown = run(home, "show", path, "--tree").out.splitlines()
    assert ["│ a  user: x", "│ b  user: x  (parent 'gone' is not before it)", "● c  user: x"] == shown
