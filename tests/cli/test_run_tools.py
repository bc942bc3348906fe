"""Runs with tools: core tools, functions, plugins and MCP servers; allowed, asked for, denied."""

import json
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from cli.running import COMMAND, Outcome, run
from interlingua.cli.run_tools import functions_of
from interlingua.testing import Server
from interlingua.values.errors import FormatError
from interlingua.values.messages import text_of

CODE = '''
import math

def area(width: float, height: float) -> float:
    """The area of a rectangle."""
    return _product(width, height)

def _product(a: float, b: float) -> float:
    return a * b
'''


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(chunk=6) as server:
        yield server


@pytest.fixture
def server(running: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    running.clear()
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-1")
    return running


def at(server: Server) -> tuple[str, ...]:
    return ("-m", "anthropic/m-1", "--base-url", server.base_url("anthropic-messages"))


def ask(server: Server, *arguments: str | Path, **options: Any) -> Outcome:
    return run("run", *arguments, *at(server), **{"given": b"", **options})


def offered(server: Server) -> set[str]:
    request = server.last.request
    assert request is not None
    return {tool.name for tool in request.context.tools or ()}


def result(server: Server) -> il.ToolResultMessage:
    request = server.last.request
    assert request is not None
    (found,) = [message for message in request.context.messages if isinstance(message, il.ToolResultMessage)]
    return found


def test_a_core_tool_reads_and_the_run_goes_on_with_it(server: Server, tmp_path: Path) -> None:
    """Reading needs no approval; the calls are shown beside the answer; -c has the tool again."""
    (tmp_path / "notes.txt").write_text("The password is swordfish.")
    server.call("read", {"path": "notes.txt"})
    server.say("It is swordfish.")
    done = ask(server, "What is the password?", "-T", "read", "--root", tmp_path)
    assert (0, "It is swordfish.\n") == (done.code, done.out), done.err
    assert '→ read({"path":"notes.txt"})' in done.err and "swordfish" in done.err
    assert {"read"} == offered(server) and "swordfish" in text_of(result(server).content)
    server.say("You are welcome.")
    assert 0 == ask(server, "-c", "Thanks", "--root", tmp_path).code
    assert {"read"} == offered(server)
    server.say("Fine.")
    assert 0 == ask(server, "-c", "Thanks", "-T", "none").code


def test_a_call_that_changes_something_is_denied_without_a_terminal(server: Server, tmp_path: Path) -> None:
    """And the user is told how to allow it; with --yes it runs."""
    for more, is_there in (((), False), (("-y",), True)):
        server.clear()
        server.call("write", {"path": "new.txt", "content": "x"})
        server.say("Done.")
        done = ask(server, "Write it", "-T", "write", "--root", tmp_path, *more, start_new_session=True)
        assert (0, is_there) == (done.code, (tmp_path / "new.txt").exists()), done.err
        assert is_there != ("--yes" in done.err) and is_there != result(server).is_error


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_terminal_is_asked_even_if_the_input_is_a_pipe(server: Server, tmp_path: Path, answer: str) -> None:
    """`cat task | il run -T write`: the answer comes from the keyboard."""
    server.call("write", {"path": "new.txt", "content": "x"})
    server.say("Done.")
    command = [*COMMAND, "run", "Do:", "-T", "write", "--root", str(tmp_path), *at(server)]
    process, terminal = pty.fork()
    if not process:
        line = f"echo it | {' '.join(map(_quoted, command))} 2>/dev/tty"
        os.execvp("sh", ["sh", "-c", line])
    seen = b""
    while b"allow write?" not in seen:
        seen += os.read(terminal, 1000)
    os.write(terminal, f"{answer}\n".encode())
    try:
        while part := os.read(terminal, 1000):
            seen += part
    except OSError:  # the terminal is closed
        pass
    _, status = os.waitpid(process, 0)
    assert (0, answer == "y") == (status, (tmp_path / "new.txt").exists()), seen.decode()


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def test_functions_of_a_file_are_tools(server: Server, tmp_path: Path) -> None:
    """Its public functions, with their types and descriptions."""
    (tmp_path / "shapes.py").write_text(CODE)
    server.call("area", {"width": 2, "height": 3})
    server.say("Six.")
    done = ask(server, "-q", "Area?", "--functions", tmp_path / "shapes.py", "-y")
    assert (0, "Six.\n") == (done.code, done.out), done.err
    assert {"area"} == offered(server) and "6" in text_of(result(server).content)


def test_functions_are_read_from_code_and_hide_nothing() -> None:
    """Names with an underscore and imports are no tools; code that fails is an error."""
    assert ["area"] == [one.name for one in functions_of(CODE)]
    for code in ("x = 1", "def f(:\n", "raise ValueError('no')", "import sys; sys.exit(3)", "no_such_file.py"):
        with pytest.raises(FormatError, match="--functions"):
            functions_of(code)


def test_an_unknown_tool_is_an_error_before_anything_is_sent(server: Server) -> None:
    """With the one that was probably meant."""
    done = ask(server, "Hi", "-T", "raed")
    assert (1, "", 0) == (done.code, done.out, len(server.requests))
    assert "'read'" in done.err and 1 == len(done.err.splitlines())


def test_an_mcp_server_and_a_plugin_bring_tools(server: Server, tmp_path: Path) -> None:
    """A server by its command; a directory of plugins."""
    plugin = tmp_path / "plugins" / "tides"
    plugin.mkdir(parents=True)
    (plugin / "interlingua.plugin.json").write_text(json.dumps({"id": "tides"}))
    (plugin / "plugin.py").write_text(
        "import interlingua as il\n\n@il.tool\ndef tide(port: str) -> str:\n"
        '    """The tide."""\n    return "high"\n\n\ndef register(api):\n    api.register_tool(tide)\n'
    )
    (tmp_path / "a.txt").write_text("from a server")
    serve = "from interlingua.cli import main; main()"
    mcp = f"{sys.executable} -c '{serve}' tools serve --root {tmp_path} -i read"
    server.call("tide", {"port": "Oslo"})
    server.say("High.")
    done = ask(server, "-q", "Tide?", "--mcp", mcp, "--plugins", tmp_path / "plugins", "-y")
    assert (0, "High.\n") == (done.code, done.out), done.err
    names = offered(server)
    assert "tide" in names and any("read" in name for name in names), names
    for command in ("no-such-program-here", "no-such-program-here --verbose"):
        broken = ask(server, "Hi", "--mcp", command)
        assert (1, "") == (broken.code, broken.out) and "no-such-program-here" in broken.err


def test_a_run_with_too_many_turns_stops_and_says_so(server: Server, tmp_path: Path) -> None:
    """Exit code 1, and how to go on."""
    for _ in range(3):
        server.call("ls", {"path": "."})
    done = ask(server, "Look", "-T", "ls", "--max-turns", "2", "--root", tmp_path)
    assert 1 == done.code and "2 turns" in done.err and "run -c" in done.err


def test_events_of_a_run_with_tools_are_json_lines(server: Server, tmp_path: Path) -> None:
    """Those of the streams, and of the tools between them."""
    server.call("ls", {"path": "."})
    server.say("Empty.")
    done = ask(server, "Look", "-T", "ls", "--events", "--root", tmp_path)
    kinds = [json.loads(line)["type"] for line in done.out.splitlines()]
    assert kinds.index("toolcall_end") < kinds.index("tool_execution_end") < kinds.index("text_delta")
