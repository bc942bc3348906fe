"""The chat in pipes and in terminals that can do nothing: lines in, plain text out, no escapes."""

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from cli.running import COMMAND, Outcome, run
from interlingua.sessions import Session
from interlingua.values.messages import text_of

WRITE = {"text": "I write.", "calls": [{"name": "write", "arguments": {"path": "a.txt", "content": "hello\n"}}]}


def environment(folder: Path, script: list[Any] | None = None, **more: str) -> dict[str, str]:
    if script is not None:
        (folder / "script.json").write_text(json.dumps(script))
    given = {"INTERLINGUA_HOME": str(folder / "home"), "INTERLINGUA_DEBUG_SCRIPT": str(folder / "script.json")}
    return {**os.environ, **given, **more}


def talk(folder: Path, lines: str, *arguments: str, script: list[Any] | None = None, **more: str) -> Outcome:
    model = () if script is None else ("-m", "debug/script")
    env = environment(folder, script, **more)
    return run("chat", "--root", folder, *model, *arguments, given=lines.encode(), env=env)


def sessions(folder: Path) -> list[Path]:
    return sorted((folder / "home/agents/main/sessions").glob("*.jsonl"))


def test_a_pipe_gets_the_answer_alone(tmp_path: Path) -> None:
    """Everything else is on standard error, and nothing has an escape in it."""
    done = talk(tmp_path, "hi\n/quit\n", script=[{"thinking": "Hm.", "text": ["Hel", "lo.\x1b[31m"]}])
    assert (0, "Hello.[31m\n") == (done.code, done.out)
    assert "▸ thought for" in done.err
    assert "> " in done.err
    assert "\x1b" not in done.out + done.err


def test_without_a_key_the_offline_model_answers_and_that_is_reported(tmp_path: Path) -> None:
    """Nobody takes an echo for a model."""
    done = talk(tmp_path, "hi\n")
    assert 'You said: "hi"' in done.out
    assert "no key found, using the offline debug model" in done.err
    assert "this is a debug model" in done.err


def test_the_next_line_waits_for_the_answer_before_it(tmp_path: Path) -> None:
    """In a pipe nothing steers and nothing is cut off: not by /quit, not by the end."""
    script = [{"text": "First answer.", "chunk": 2, "delay": 0.05}, {"text": "Second answer.", "chunk": 2}]
    done = talk(tmp_path, "one\ntwo\n/quit\nthree\n", script=script)
    assert "First answer.\nSecond answer.\n" == done.out
    again = talk(tmp_path, "one\ntwo", script=script)
    assert "First answer.\nSecond answer.\n" == again.out


def test_a_call_is_allowed_by_the_next_line(tmp_path: Path) -> None:
    """The diff is shown, the question is asked, the answer is read."""
    done = talk(tmp_path, "write\ny\n", script=[WRITE, "Done."])
    assert "hello\n" == (tmp_path / "a.txt").read_text()
    assert "+hello" in done.err
    assert "allow write? y yes · n no (and why) · a always write" in done.err
    assert "I write.\nDone.\n" == done.out


@pytest.mark.parametrize(("option", "there"), [("--yes", True), ("--ask", False), ("--read-only", False)])
def test_where_nobody_can_answer_only_yes_allows(tmp_path: Path, option: str, there: bool) -> None:
    """At the end of the input a question is a no."""
    done = talk(tmp_path, "write\n", option, script=[WRITE, "Done."])
    assert there == (tmp_path / "a.txt").exists()
    assert "I write.\nDone.\n" == done.out


def test_the_prompt_may_be_an_argument_and_lines_may_go_on(tmp_path: Path) -> None:
    """A backslash at the end joins the next line."""
    done = talk(tmp_path, "two\\\nlines\n", "one", "-m", "debug/parrot-1", "--tools", "none")
    assert "one\ntwo\nlines\n" == done.out
    assert "no tools" in done.err


def test_a_session_is_taken_up_by_its_id_or_as_the_latest(tmp_path: Path) -> None:
    """With its model and its system text."""
    talk(tmp_path, "remember\n", "-m", "debug/parrot-1", "-s", "Be brief.")
    (path,) = sessions(tmp_path)
    done = talk(tmp_path, "again\n", "--resume")
    assert "again\n" == done.out
    assert "remember" in done.err
    assert f"resume with: interlingua chat --session {path.stem}" in done.err
    done = talk(tmp_path, "x\n", "--session", path.stem[:13], "-m", "debug/sys-echo-1")
    assert "Be brief." in done.out
    assert [path] == sessions(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--resume",), "no session to resume"),
        (("--session", "x"), "no session 'x'"),
        (("--session", "x", "--new"), "--session, --resume and --new exclude each other"),
        (("--root", "/nowhere"), "does not exist"),
    ],
)
def test_a_wrong_start_is_one_line(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    """With what to do, and without a traceback."""
    done = talk(tmp_path, "", *arguments)
    assert done.code != 0
    assert text in done.err
    assert "Traceback" not in done.err


def test_a_failed_answer_is_reported_and_fails_the_pipe(tmp_path: Path) -> None:
    """One line with a remedy; the exit code says it, too."""
    done = talk(tmp_path, "hi\n", script=[{"error": "the key is wrong", "status": 401}])
    assert 1 == done.code
    (line,) = [line for line in done.err.splitlines() if line.startswith("✗")]
    assert "the key is wrong" in line


def test_a_chat_without_messages_is_not_offered_again(tmp_path: Path) -> None:
    """Neither when it ends nor as the latest."""
    done = talk(tmp_path, "/help\n/quit\n")
    assert 0 == done.code
    assert "/compact" in done.out
    assert "resume with" not in done.err
    assert "no session to resume" in talk(tmp_path, "", "--resume").err


def wait_until(wanted: Any) -> None:
    until = time.monotonic() + 60
    while not wanted():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.02)


def started(folder: Path, script: list[Any], *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*COMMAND, "chat", "--root", str(folder), "-m", "debug/script", *arguments],
        env=environment(folder, script),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_ctrl_c_in_a_pipe_stops_the_answer_and_keeps_what_came(tmp_path: Path) -> None:
    """Nobody is there to steer; the exit code is that of an interrupt."""
    script = [{"text": "word " * 2000, "chunk": 5, "delay": 0.01}]
    with started(tmp_path, script) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert b"word" == process.stdout.read(4)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert 130 == process.returncode
    (path,) = sessions(tmp_path)
    with Session.open(path, read_only=True) as session:
        last = session.messages[-1]
    assert isinstance(last, il.AssistantMessage)
    assert "aborted" == last.stop_reason
    assert "word" in text_of(last.content)


def test_a_killed_chat_is_taken_up_and_a_half_run_call_is_not_run_again(tmp_path: Path) -> None:
    """What it did is unknown: that is said, the model is told, and the run goes on."""
    command = "echo begun >> log; sleep 600"
    script = [{"text": "I run.", "calls": [{"name": "exec", "arguments": {"command": command}}]}, "Going on."]
    with started(tmp_path, script, "--yes") as process:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        wait_until((tmp_path / "log").exists)
        process.kill()
        process.communicate(timeout=60)
    done = talk(tmp_path, "y\n", "--resume", script=script)
    assert "started; outcome unknown" in done.err
    assert "continue where it stopped? y yes · n no" in done.err
    assert "Going on.\n" == done.out
    assert "begun\n" == (tmp_path / "log").read_text()


def test_a_dumb_terminal_gets_no_escapes_and_what_is_typed_meanwhile_steers(tmp_path: Path) -> None:
    """With a keyboard, a line may come at any time."""
    script = [
        {"text": "one two three four", "chunk": 2, "delay": 0.2, "calls": [{"name": "ls", "arguments": {"path": "."}}]},
        "Steered.",
    ]
    here, there = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "chat", "--root", str(tmp_path), "-m", "debug/script"],
        env=environment(tmp_path, script, TERM="dumb"),
        stdin=there,
        stdout=there,
        stderr=there,
        start_new_session=True,
    )
    os.close(there)
    seen = ""

    def read_until(text: str) -> None:
        nonlocal seen
        while text not in seen:
            seen += os.read(here, 4096).decode()

    read_until("> ")
    os.write(here, b"go\n")
    read_until("one ")
    os.write(here, b"and hurry\n")
    read_until("Steered.")
    read_until("> ")
    os.write(here, b"\x04")
    assert 0 == process.wait(60)
    os.close(here)
    assert "\x1b" not in seen
    (path,) = sessions(tmp_path)
    with Session.open(path, read_only=True) as session:
        texts = [text_of(message.content) for message in session.messages if isinstance(message, il.UserMessage)]
    assert ["go", "and hurry"] == texts
