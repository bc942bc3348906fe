"""`interlingua archive`: every program's conversations in one search, opened in `show`, `chat` and on the canvas."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.running import COMMAND, Outcome, run
from interlingua.testing import Server
from sessions.histories import asked, claude_session, codex_session, write_lines

Archive = Callable[..., Outcome]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    places = {
        "CLAUDE_CONFIG_DIR": "claude",
        "CODEX_HOME": "codex",
        "GEMINI_CLI_HOME": "gemini",
        "INTERLINGUA_HOME": "home",
    }
    return {**os.environ, "TZ": "UTC", **{name: str(tmp_path / place) for name, place in places.items()}}


@pytest.fixture
def archive(tmp_path: Path, env: dict[str, str]) -> Archive:
    return lambda *arguments: run("archive", *arguments, cwd=tmp_path, env=env)


def test_histories_are_added_searched_listed_summed_and_removed(archive: Archive, tmp_path: Path) -> None:
    """The way of a new user, each step for people and for programs."""
    claude_session(tmp_path / "claude")
    codex_session(tmp_path / "codex")
    done = archive("add", "claude-code", "codex-cli")
    assert (0, "2 files indexed") == (done.code, done.out[:15]), done
    hit = archive("search", "flippers", "--json").json["hits"][0]
    assert ("claude-code", "garden", "assistant") == (hit["tool"], hit["project"], hit["role"])
    assert hit["id"][:10] in archive("search", "flippers").out
    assert "nothing found" in archive("search", "flippers", "--tool", "codex-cli").out
    assert {"claude-code", "codex-cli"} == {one["tool"] for one in archive("list", "--json").json}
    assert "heron" in archive("list", "--project", "pond").out
    totals = archive("totals", "--json").json
    assert {"2026-03-01", "2026-03-02"} == {row["name"] for row in totals["day"]}
    assert 3 == totals["all"]["answers"] and totals["all"]["cost"] > 0
    assert "gpt-5" in archive("totals", "--by", "model").out
    assert ["claude-code", "codex-cli"] == [row["source"] for row in archive("status", "--json").json["sources"]]
    assert "1 file removed" in archive("remove", "codex-cli").out
    assert "nothing found" in archive("search", "heron").out


def test_hits_that_were_not_all_counted_are_not_said_to_be_all(archive: Archive, tmp_path: Path) -> None:
    """Counting ends at a limit, of which the last line tells."""
    rows = [{"messages": [{"role": "user", "content": "walrus"}] * 100}] * 101
    write_lines(tmp_path / "many.jsonl", rows)
    assert 0 == archive("add", "many.jsonl").code
    assert "at least 10,000 hits in at least 10 conversations" in archive("search", "walrus", "--no-update").out


def test_a_search_finds_what_was_written_a_moment_ago(archive: Archive, tmp_path: Path) -> None:
    """A search brings the index up to date first, unless told not to."""
    claude_session(tmp_path / "claude")
    archive("add", "claude-code")
    claude_session(tmp_path / "claude", "two", topic="puffin")
    assert "nothing found" in archive("search", "puffin", "--no-update").out
    assert "puffin" in archive("search", "puffin").out


def test_a_find_opens_in_show(archive: Archive, tmp_path: Path) -> None:
    """The conversation of a hit, by the id that the search prints."""
    claude_session(tmp_path / "claude")
    archive("add", "claude-code")
    id = archive("search", "flippers", "--json").json["hits"][0]["id"]
    assert "three walruss in the harbour" in archive("show", id[:10]).out
    assert 4 == len(archive("show", id, "--json").json["entries"])


def test_a_find_goes_on_in_chat_on_another_model(archive: Archive, tmp_path: Path, env: dict[str, str]) -> None:
    """Another provider's model gets the whole conversation, every answered tool result in its place."""
    path = claude_session(tmp_path / "claude")
    before = path.read_bytes()
    archive("add", "claude-code")
    id = archive("search", "flippers", "--json").json["hits"][0]["id"]
    with Server() as server:
        server.say("they dive, too")
        env |= {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.base_url("openai-completions")}
        options = ("-m", "openai-chat/gpt-4o-mini", "--tools", "none")
        done = run("archive", "chat", id, "and how deep?", *options, cwd=tmp_path, env=env, given=b"")
        assert "they dive, too" in done.out, done
        messages = server.last.json["messages"]
    assert ["user", "assistant", "tool", "assistant", "user"] == [m["role"] for m in messages if m["role"] != "system"]
    (result,) = [message for message in messages if message["role"] == "tool"]
    (call,) = [call for message in messages for call in message.get("tool_calls", ())]
    assert (call["id"], "three walruss in the harbour") == (result["tool_call_id"], result["content"])
    assert before == path.read_bytes()


def test_a_find_opens_on_the_canvas(archive: Archive, tmp_path: Path, env: dict[str, str]) -> None:
    """The canvas starts at the conversation of the hit."""
    claude_session(tmp_path / "claude")
    archive("add", "claude-code")
    id = archive("search", "flippers", "--json").json["hits"][0]["id"]
    command = [*COMMAND, "archive", "canvas", id, "--no-open", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as canvas:
        assert canvas.stdout is not None
        address = canvas.stdout.readline()
        canvas.terminate()
    assert f"file~{id}" in address


def test_a_watch_follows_what_programs_write(archive: Archive, tmp_path: Path, env: dict[str, str]) -> None:
    """With --watch, a new session is indexed without another command."""
    claude_session(tmp_path / "claude")
    command = [*COMMAND, "archive", "add", "claude-code", "--watch", "--json"]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Where the tests themselves run in the background, SIGINT is ignored, and children inherit that.
    streams["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, cwd=tmp_path, env=env, **streams) as watch:
        assert watch.stdout is not None and watch.stderr is not None
        assert 1 == json.loads(watch.stdout.readline())["indexed"]
        assert "watching" in watch.stderr.readline()
        claude_session(tmp_path / "claude", "two", topic="puffin")
        assert 1 == json.loads(watch.stdout.readline())["indexed"]
        watch.send_signal(signal.SIGINT)
    assert archive("search", "puffin", "--no-update", "--json").json["hits"]


def test_killed_while_adding_it_completes_on_the_next_run(
    archive: Archive, tmp_path: Path, env: dict[str, str]
) -> None:
    """kill -9 at any moment: the next run completes the index, and nothing is in it twice."""
    for number in range(120):
        lines = [asked(f"u{at}", None if not at else f"u{at - 1}", f"line {at} of the egret " * 30) for at in range(20)]
        write_lines(tmp_path / "h" / f"s{number}.jsonl", lines)
    for pause in (0.5, 0.8, 1.1):
        with subprocess.Popen([*COMMAND, "archive", "add", "h"], cwd=tmp_path, env=env) as adding:
            time.sleep(pause)
            adding.kill()
    done = archive("add", "h", "--json").json
    assert 120 == done["indexed"] + done["unchanged"]
    found = archive("search", "egret", "-n", "1", "--json").json
    assert (2400, 120) == (found["total"], len(archive("list", "-n", "500", "--json").json))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "claude-cod"), "did you mean claude-code?"),
        (("add", "nowhere"), "no such file or folder"),
        (("remove", "nowhere"), "no source of the archive"),
        (("show", "ffff"), "no conversation 'ffff' in the archive"),
        (("search", "x", "--since", "soon"), "invalid date 'soon'"),
        (("totals", "--tool", "Bash"), "totals are by program"),
    ],
    ids=["program", "file", "remove", "show", "date", "totals"],
)
def test_a_wrong_argument_is_one_line_with_a_remedy(archive: Archive, arguments: tuple[str, ...], message: str) -> None:
    """No traceback, exit code not 0, and what to do."""
    done = archive(*arguments)
    assert done.code and message in done.err and "Traceback" not in done.err, done


def test_a_file_that_cannot_be_read_is_named_each_time(archive: Archive, tmp_path: Path) -> None:
    """The command fails for a given file that holds no conversation, also when it is unchanged."""
    (tmp_path / "bad.json").write_text('{"name": "x"}')
    for _ in range(2):
        done = archive("add", "bad.json")
        assert done.code == 1 and "bad.json: no known format" in done.err, done
