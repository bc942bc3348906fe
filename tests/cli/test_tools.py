"""`interlingua tools`: the tools listed, shown and run by hand."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from cli.running import COMMAND, run
from interlingua.tools.catalog import GROUPS, ROWS

IDS = [row.id for row in ROWS]


def test_the_tools_are_listed_by_section() -> None:
    """With their labels, words and profiles."""
    listed = run("tools", "list")
    assert 0 == listed.code
    lines = listed.out.splitlines()
    assert lines.index("Files") < lines.index("Web") and "Sessions" not in lines[: lines.index("Web")]
    assert any(line.split()[0] == "read" and line.rstrip().endswith("coding") for line in lines if line.strip())


def test_programs_get_the_list_as_json() -> None:
    """Each tool with its place, and whether it can be used here."""
    listed = run("tools", "list", "--json").json
    assert IDS == [tool["id"] for tool in listed]
    assert {"id", "label", "description", "sectionId", "profiles", "source", "available"} <= set(listed[0])
    assert all(tool["available"] or tool["reason"] for tool in listed)


def test_the_list_is_narrowed_by_profile_and_groups() -> None:
    """Ids and groups in, ids and groups out."""
    narrowed = run("tools", "list", "--profile", "coding", "-i", "group:fs", "-i", "web_fetch", "-x", "ls", "--json")
    assert [name for name in GROUPS["fs"] if name != "ls"] == [tool["id"] for tool in narrowed.json]


def test_an_unknown_group_is_reported() -> None:
    """Nothing matches, and the user hears why."""
    listed = run("tools", "list", "--include", "group:nothing", "--json")
    assert (0, []) == (listed.code, listed.json)
    assert "unknown group 'group:nothing'" in listed.err


def test_a_tool_is_shown_with_what_it_takes() -> None:
    """Its words and its parameters; for programs the whole schema."""
    shown = run("tools", "show", "read").out
    assert "read" == shown.splitlines()[0] and "path" in shown and "required" in shown
    plain = run("tools", "show", "read", "--json").json
    assert ("read", "object", False) == (plain["name"], plain["parameters"]["type"], plain["ownerOnly"])


def test_an_unknown_tool_is_one_line() -> None:
    """What there is instead, and exit code 1."""
    for command in ("show", "run"):
        unknown = run("tools", command, "reed")
        assert (1, "", 1) == (unknown.code, unknown.out, len(unknown.err.splitlines()))
        assert "unknown tool 'reed'" in unknown.err


def test_a_tool_is_run_in_a_root(tmp_path: Path) -> None:
    """The result goes to standard output; reading needs no leave."""
    (tmp_path / "note.txt").write_text("hello there\n")
    done = run("tools", "run", "read", '{"path": "note.txt"}', "--root", tmp_path)
    assert (0, "", True) == (done.code, done.err, "hello there" in done.out)
    given = run("tools", "run", "read", "-", "--root", tmp_path, "--json", given=b'{"path": "note.txt"}')
    assert (False, "text") == (given.json["isError"], given.json["content"][0]["type"])


def test_a_bad_call_says_what_is_wrong(tmp_path: Path) -> None:
    """As a model would be told, with exit code 1."""
    for arguments, expected in (
        ('{"paht": "a"}', "path: is required"),
        ("[1]", "not a JSON object"),
        ("{", "not a JSON object"),
    ):
        done = run("tools", "run", "read", arguments, "--root", tmp_path)
        assert 1 == done.code and expected in done.out
    failed = run("tools", "run", "read", '{"path": "nowhere"}', "--root", tmp_path, "--json")
    assert (1, True) == (failed.code, failed.json["isError"])


def test_what_changes_something_needs_leave(tmp_path: Path) -> None:
    """Without a terminal to ask at, only `--yes` allows it."""
    arguments = json.dumps({"path": "new.txt", "content": "x"})
    refused = run("tools", "run", "write", arguments, "--root", tmp_path)
    assert (1, False) == (refused.code, (tmp_path / "new.txt").exists())
    assert "needs approval" in refused.out and "--yes" in refused.err
    allowed = run("tools", "run", "write", arguments, "--root", tmp_path, "--yes")
    assert (0, "x") == (allowed.code, (tmp_path / "new.txt").read_text())


@pytest.mark.parametrize(("answer", "written"), [(b"y\n", True), (b"n\n", False)])
def test_at_a_terminal_the_user_is_asked(tmp_path: Path, answer: bytes, written: bool) -> None:
    """With what will run and why it is asked; the answer decides."""
    master, slave = pty.openpty()
    try:
        with subprocess.Popen(
            [*COMMAND, "tools", "run", "write", '{"path": "new.txt", "content": "x"}', "--root", str(tmp_path)],
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            os.write(master, answer)
            out, err = process.communicate(timeout=60)
    finally:
        os.close(master)
        os.close(slave)
    assert written is (tmp_path / "new.txt").exists()
    assert (0 if written else 1) == process.returncode
    assert b"Run it?" in err and b"new.txt" in err and (written or b"not approved" in out)


@pytest.mark.skipif(os.name != "posix", reason="exec needs POSIX processes")
def test_updates_are_streamed_to_standard_error(tmp_path: Path) -> None:
    """What a command says on the way is seen there; the result is on standard output alone."""
    command = "echo first; sleep 1; echo second"
    done = run("tools", "run", "exec", json.dumps({"command": command}), "--root", tmp_path, "--yes")
    assert 0 == done.code, done.out + done.err
    assert "first" in done.err and done.out.index("first") < done.out.index("second")


def test_the_tools_of_plugins_can_be_listed_and_run(tmp_path: Path) -> None:
    """With --plugins; a broken plugin is said and stops nobody."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "interlingua.plugin.json").write_text("{")
    assert 0 == run("plugins", "new", "tides", "--dir", tmp_path).code
    ran = run("tools", "run", "tides_reverse", '{"text": "abc"}', "--yes", "--plugins", tmp_path)
    assert (0, "cba") == (ran.code, ran.out.strip())
    assert "broken" in ran.err
