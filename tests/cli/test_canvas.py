"""`interlingua canvas`: what it opens, where it listens, and its keys."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

from cli.running import COMMAND, run

MESSAGES = {"model": "gpt-5", "messages": [{"role": "user", "content": "Is it raining?"}]}


class Page:
    """A browser that follows the printed address."""

    def __init__(self, address: str) -> None:
        self.base = address.partition("?")[0].partition("/s/")[0].rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with self._opener.open(address, timeout=20) as response:
            self.landed = response.geturl()

    def ask(self, path: str, body: dict[str, Any] | None = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json", **headers})
        try:
            with self._opener.open(request, timeout=20) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def get(self, path: str) -> Any:
        status, found = self.ask(path)
        assert status == 200, found
        return found


@contextlib.contextmanager
def serving(*arguments: str | Path, home: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The command in a process of its own, and the address that it prints."""
    command = [*COMMAND, "canvas", *map(str, arguments), "--no-open", "--port", "0", "--home", str(home)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()


def test_a_file_opens_at_the_printed_address_and_a_signal_ends_it(tmp_path: Path) -> None:
    """One session is shown at once; SIGTERM ends the server with success."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(MESSAGES))
    with serving(path, home=tmp_path / "home") as (address, process):
        page = Page(address)
        assert page.landed.endswith("/canvas") and "token" not in page.landed
        [found] = page.get("/api/sessions")["sessions"]
        assert (found["title"], found["writtenAs"]) == ("Is it raining?", "openai-completions")
        assert Page(address).ask("/api/sessions")[0] == 401  # the token worked once
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_what_cannot_be_opened_is_reported_and_the_rest_opens(tmp_path: Path) -> None:
    """A folder may hold other things than conversations."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "chat.json").write_text(json.dumps(MESSAGES))
    (tmp_path / "logs" / "cut.json").write_text('{"nothing": [')
    with serving(tmp_path / "logs", home=tmp_path / "home") as (address, process):
        assert [one["title"] for one in Page(address).get("/api/sessions")["sessions"]] == ["Is it raining?"]
        process.terminate()
        assert "cut.json" in process.communicate(timeout=20)[1]


def test_nothing_to_open_is_an_error(tmp_path: Path) -> None:
    """A name that is neither a file nor a session."""
    done = run("canvas", "no-such-thing", "--no-open", "--home", tmp_path)
    assert (done.code, done.out) == (1, "") and "nothing to open in no-such-thing; name files" in done.err


def test_a_program_that_is_not_known_cannot_be_watched(tmp_path: Path) -> None:
    """The error names those that are."""
    done = run("canvas", "--watch", "copilot", "--no-open", "--home", tmp_path)
    assert done.code == 1 and "claude-code, codex-cli, gemini-cli" in done.err


def test_a_history_is_watched_and_clients_have_a_port(tmp_path: Path) -> None:
    """--watch names a folder; --client-port opens the second listener and says where."""
    (tmp_path / "logs").mkdir()
    with serving("--watch", tmp_path / "logs", "--client-port", "0", home=tmp_path / "home") as (address, process):
        assert process.stderr is not None
        listener = process.stderr.readline().strip().rpartition(" ")[2]
        with urllib.request.urlopen(f"{listener}/api/v1/health", timeout=20) as response:
            assert json.load(response)["status"] == "healthy"
        kinds = [source["kind"] for source in Page(address).get("/api/sources")["sources"]]
        assert kinds == ["home", "file", "watch"]


def test_tools_are_lent_only_when_asked_for(tmp_path: Path) -> None:
    """--tools names a profile; --root alone is a mistake."""
    with serving("--tools", "coding", "--root", tmp_path, home=tmp_path / "home") as (address, _):
        names = {tool["name"] for tool in Page(address).get("/api/tools")["tools"]}
        assert {"read", "write"} <= names
    with serving(home=tmp_path / "home") as (address, _):
        assert Page(address).get("/api/tools").get("tools", []) == []
    assert run("canvas", "--root", tmp_path, "--no-open").code == 2


def test_without_keys_it_listens_on_this_machine_alone(tmp_path: Path) -> None:
    """The error says how to make a key."""
    done = run("canvas", "--host", "0.0.0.0", "--port", "0", "--no-open", "--home", tmp_path)
    assert done.code == 1 and "interlingua canvas keys add NAME" in done.err


def test_keys_are_made_listed_used_and_removed(tmp_path: Path) -> None:
    """A key is printed once and kept as a digest; once removed it lets nobody in, not by its cookie either."""
    made = run("canvas", "keys", "add", "ci", "--scope", "read", "--home", tmp_path)
    key = made.out.strip()
    assert made.code == 0 and key.startswith("il-")
    assert run("canvas", "keys", "add", "ci", "--home", tmp_path).code == 1
    [listed] = run("canvas", "keys", "list", "--json", "--home", tmp_path).json
    assert (listed["name"], listed["scope"]) == ("ci", "read")
    kept = tmp_path / "canvas" / "keys.json"
    assert key not in kept.read_text() and kept.stat().st_mode & 0o777 == 0o600
    with serving("--host", "0.0.0.0", home=tmp_path) as (address, _):
        base = address.partition("/?")[0].replace("0.0.0.0", "127.0.0.1")
        program, browser, bearer = Page(base), Page(base), {"Authorization": f"Bearer {key}"}
        assert program.ask("/api/me", **bearer)[0] == 200
        assert program.ask("/api/sessions", {"title": "new"}, **bearer)[0] == 403  # it may only read
        assert browser.ask("/api/login", {"key": key})[0] == 200
        assert browser.ask("/api/me")[0] == 200
        assert run("canvas", "keys", "remove", "ci", "--home", tmp_path).code == 0
        assert program.ask("/api/me", **bearer)[0] == 401
        assert browser.ask("/api/me")[0] == 401
    assert run("canvas", "keys", "remove", "ci", "--home", tmp_path).code == 1
    assert "no keys" in run("canvas", "keys", "list", "--home", tmp_path).out


def test_export_writes_nothing_until_it_is_decided_what_becomes_of_finds(tmp_path: Path) -> None:
    """Every find is listed with its surroundings; without a terminal the choice must have been made."""
    path, out = tmp_path / "chat.json", tmp_path / "out.html"
    path.write_text(
        json.dumps({"model": "m", "messages": [{"role": "user", "content": "Write to ada@lovelace.example!"}]})
    )
    given = ("canvas", "export", path, "-o", out, "--home", tmp_path / "home")
    refused = run(*given)
    assert refused.code == 1 and not out.exists() and "give --redact suggested, all or none" in refused.err
    assert "email: Write to ada@lovelace.example !" in refused.err
    assert run(*given, "--redact", "suggested").code == 0
    assert b"ada@lovelace.example" not in out.read_bytes() and b"[email 1]" in out.read_bytes()
    assert run(*given, "--redact", "none").code == 0
    assert b"ada@lovelace.example" in out.read_bytes()


def test_the_ending_of_a_file_says_its_format(tmp_path: Path) -> None:
    """.html, .md and .json; others are named with --to. An input is never overwritten."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(MESSAGES))
    home = ("--home", tmp_path / "home")
    assert run("canvas", "export", path, "-o", tmp_path / "out.md", *home).code == 0
    assert "Is it raining?" in (tmp_path / "out.md").read_text()
    assert run("canvas", "export", path, "-o", tmp_path / "out.jsonl", *home).code == 2
    assert run("canvas", "export", path, "-o", tmp_path / "out.jsonl", "-t", "anthropic-messages", *home).code == 0
    assert run("canvas", "export", path, "-o", path, *home).code == 1
    assert json.loads(path.read_text()) == MESSAGES


def test_the_demo_ends_with_a_canvas_where_a_terminal_is(tmp_path: Path) -> None:
    """The printed address shows the demo's session; Ctrl-C ends it. Without a terminal the demo just ends."""
    control, terminal = pty.openpty()
    process = subprocess.Popen([*COMMAND, "demo"], stdin=terminal, stdout=terminal, stderr=terminal, cwd=tmp_path)
    os.close(terminal)
    try:
        printed = ""
        while (found := re.search(r"http://\S+token=[\w-]+", printed)) is None or not printed.endswith("\n"):
            printed += os.read(control, 4096).decode(errors="replace")
        page = Page(found[0])
        assert "/s/own~main~demo/canvas" in page.landed
        assert page.get("/api/sessions/own~main~demo")["messages"] > 5
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(control)
    done = run("demo", cwd=tmp_path)
    assert done.code == 0 and "token=" not in done.out


def test_a_format_that_does_not_exist_has_a_remedy(tmp_path: Path) -> None:
    """As `convert` says it: the nearest names, or all of them. Aliases are formats, too."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(MESSAGES))
    given = ("canvas", "export", path, "-o", tmp_path / "out", "--home", tmp_path / "home")
    near, far = run(*given, "-t", "markdwn"), run(*given, "-t", "nosuch")
    assert (2, 2) == (near.code, far.code) and not (tmp_path / "out").exists()
    assert "unknown format 'markdwn'; did you mean 'markdown'?" in near.err
    assert all(name in far.err for name in ("html", "preferences", "openai-responses"))
    assert run(*given, "-t", "anthropic").code == 0


def test_preferences_without_ratings_are_no_empty_file(tmp_path: Path) -> None:
    """It says so, and what to do; nothing is written."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(MESSAGES))
    out = tmp_path / "out.jsonl"
    done = run("canvas", "export", path, "-o", out, "-t", "preferences", "--home", tmp_path / "home")
    assert done.code == 1 and not out.exists()
    assert "rated differently, nothing was written; rate some in a canvas" in done.err
