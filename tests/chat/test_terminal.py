"""The chat in a real terminal, driven by tmux: what is typed, what is seen."""

import base64
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chat.terminal import Terminal, needs_tmux
from connect.asking import PNG
from interlingua.sessions import Session
from interlingua.values.messages import UserMessage, text_of

pytestmark = needs_tmux

SLOW = {"text": "word " * 400, "chunk": 5, "delay": 0.05}
EXEC = {"name": "exec", "arguments": {"command": "echo begun >> log; echo printed"}}


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Any]:
    opened: list[Terminal] = []

    def terminal(script: list[Any], **how: Any) -> Terminal:
        opened.append(Terminal(tmp_path, script, **how))
        return opened[-1]

    yield terminal
    for one in opened:
        one.close()


def user_texts(terminal: Terminal) -> list[str]:
    """What the user said, on the way to the head."""
    found = (terminal.home / "agents/main/sessions").glob("*.jsonl")
    (path,) = [path for path in found if path.stat().st_size]
    with Session.open(path, read_only=True) as session:
        return [text_of(message.content) for message in session.messages if isinstance(message, UserMessage)]


def test_an_answer_streams_in_as_markdown_and_scrolls_by_once(terminals: Any) -> None:
    """Words appear before the answer is whole; afterwards every line stands once in what has scrolled by."""
    paragraphs = "\n\n".join(f"paragraph **{number}** of it" for number in range(60))
    terminal = terminals([{"thinking": "Let me see.", "text": paragraphs, "chunk": 20, "delay": 0.02}], rows=24)
    terminal.chat()
    terminal.type("tell me")
    half = terminal.wait_for(r"paragraph 5 of it")
    assert "paragraph 59" not in half
    terminal.wait_for(r"paragraph 59 of it[\s\S]*\n›")
    text = terminal.screen(scrolled=True)
    assert [f"paragraph {number} of it" for number in range(60)] == re.findall(r"paragraph \d+ of it", text)
    assert 1 == text.count("› tell me")
    assert "▸ thought for" in text
    assert re.search(r"debug/script · \d+ in, \d+ out · \$0\.0000 · context \d", terminal.screen())


def test_thinking_unfolds_with_a_key(terminals: Any) -> None:
    """Ctrl-T shows the last thought."""
    terminal = terminals([{"thinking": "A secret thought.", "text": "Yes."}])
    terminal.chat()
    terminal.type("is it?")
    terminal.wait_for(r"Yes\.")
    assert "A secret thought." not in terminal.screen()
    terminal.press("C-t")
    terminal.wait_for(r"A secret thought\.[\s\S]*thinking is unfolded")


def test_a_call_is_shown_asked_for_and_run_when_it_is_allowed(terminals: Any) -> None:
    """The diff stands above the question; output and escapes of a tool cannot touch the screen."""
    write = {"name": "write", "arguments": {"path": "a.txt", "content": "hello\n"}}
    evil = {"name": "exec", "arguments": {"command": "printf '\\033[2J\\033]0;x\\007clean\\n'; cat a.txt"}}
    terminal = terminals([{"text": "I write.", "calls": [write]}, {"calls": [evil]}, "All done."])
    terminal.chat()
    terminal.type("write it")
    screen = terminal.wait_for(r"allow write\? y yes · n no \(and why\) · a always write")
    assert "+hello" in screen
    assert not (terminal.root / "a.txt").exists()
    terminal.type("y")
    terminal.wait_for(r"allow exec\?")
    terminal.type("yes")
    screen = terminal.wait_for(r"All done\.")
    assert "hello\n" == (terminal.root / "a.txt").read_text()
    assert re.search(r"✓ exec.*\n\s+clean\n\s+hello", screen)
    assert "+hello" in screen


def test_a_running_command_shows_its_output_as_it_comes(terminals: Any) -> None:
    """The last lines, while it runs."""
    command = "for i in 1 2 3; do echo step $i; done; while [ ! -e go ]; do sleep 0.05; done; echo over"
    terminal = terminals([{"calls": [{"name": "exec", "arguments": {"command": command}}]}, "All done."])
    terminal.chat("--yes")
    terminal.type("run it")
    screen = terminal.wait_for(r"step 3")
    assert "All done." not in screen
    (terminal.root / "go").touch()
    terminal.wait_for(r"over[\s\S]*All done\.")


def test_what_is_typed_while_it_works_steers(terminals: Any) -> None:
    """It waits in sight until the agent reads it; Ctrl-C asks for it."""
    wait = {"name": "exec", "arguments": {"command": "while [ ! -e go ]; do sleep 0.05; done"}}
    terminal = terminals([{"text": "I wait.", "calls": [wait]}, "Understood."])
    terminal.chat("--yes")
    terminal.type("wait for me")
    terminal.wait_for(r"● exec while")
    terminal.type("first hint")
    terminal.wait_for(r"⇢ first hint")
    terminal.press("C-c")
    terminal.wait_for(r"what should it know\? ›")
    terminal.type("second hint")
    terminal.wait_for(r"⇢ second hint")
    (terminal.root / "go").touch()
    terminal.wait_for(r"› first hint[\s\S]*Understood\.")
    terminal.wait_for(r"› second hint")
    terminal.wait_until(lambda text: "⇢" not in text, "an empty queue")
    assert ["wait for me", "first hint", "second hint"] == user_texts(terminal)


def test_ctrl_c_twice_stops_and_what_came_is_kept(terminals: Any) -> None:
    """What was queued comes back for editing."""
    terminal = terminals([SLOW, "Another."])
    terminal.chat()
    terminal.type("talk")
    terminal.wait_for(r"word word")
    terminal.type("for later")
    terminal.wait_for(r"⇢ for later")
    terminal.press("C-c")
    terminal.press("C-c")
    terminal.wait_for(r"stopped; the partial answer is kept[\s\S]*› for later")
    terminal.press("Enter")
    terminal.wait_for(r"Another\.")
    assert ["talk", "for later"] == user_texts(terminal)


def test_branches_are_made_seen_and_changed(terminals: Any) -> None:
    """/branch, /tree and /undo; the words of a turn come back into the input."""
    terminal = terminals([])
    terminal.chat(model="debug/parrot-1")
    terminal.type("first thing")
    terminal.wait_for(r"\nfirst thing[\s\S]*\n›\s*\n debug")
    terminal.type("/branch start")
    terminal.wait_for(r"labelled start")
    terminal.type("on the one hand")
    terminal.wait_for(r"\non the one hand[\s\S]*\n›\s*\n debug")
    terminal.type("/undo")
    terminal.wait_for(r"\n› on the one hand\s*\n debug")
    terminal.press("C-c")
    terminal.type("on the other hand")
    terminal.wait_for(r"\non the other hand[\s\S]*\n›\s*\n debug")
    terminal.type("/tree")
    screen = terminal.wait_for(r"go to which entry\?")
    assert "model: first thing  [start]" in screen
    assert "· you: on the one hand" in screen
    assert "● model: on the other hand  ← here" in screen
    number = re.search(r"(\d+)\s+· model: on the one hand", screen)
    assert number is not None
    terminal.type(number[1])
    terminal.wait_until(lambda text: text.count("the head is there now") == 2, "where it stands, again", scrolled=True)
    assert ["first thing", "on the one hand"] == user_texts(terminal)


def test_another_model_takes_over(terminals: Any) -> None:
    """In the middle of a session; the status line names it, and a wrong command is answered with the nearest."""
    terminal = terminals(["From the script."])
    terminal.chat()
    terminal.type("hello")
    terminal.wait_for(r"From the script\.[\s\S]*\n›\s*\n debug")
    terminal.type("/modle x")
    terminal.wait_for(r"did you mean /model\?")
    terminal.type("/model debug/upper-parrot-1")
    terminal.wait_for(r"\n debug/upper-parrot-1 ·")
    terminal.type("shout this")
    terminal.wait_for(r"SHOUT THIS")


def test_lines_are_edited_completed_and_remembered(terminals: Any) -> None:
    """A backslash and Alt-Enter begin a new line, Tab completes, the arrow brings back, a paste is not sent."""
    terminal = terminals([])
    terminal.chat(model="debug/parrot-1")
    terminal.type("one\\")
    terminal.press("-l", "two")
    terminal.press("M-Enter")
    terminal.type("three")
    terminal.wait_for(r"\none\n?\s*two\s*three|\none two three")
    assert ["one\ntwo\nthree"] == user_texts(terminal)
    terminal.press("-l", "/tool")
    terminal.wait_for(r"List the tools")
    terminal.press("Tab")
    terminal.wait_for(r"› /tools")
    terminal.press("Enter")
    terminal.press("Enter")
    terminal.wait_for(r"asks first")
    terminal.press("Up")
    terminal.press("Up")
    terminal.press("Up")
    terminal.press("Up")
    terminal.wait_for(r"› one\n\s+two\n\s+three")
    terminal.press("C-c")
    terminal.paste("pasted one\npasted two")
    terminal.wait_for(r"› pasted one\n\s+pasted two")
    assert ["one\ntwo\nthree"] == user_texts(terminal)


def test_a_killed_chat_is_taken_up_where_it_was(terminals: Any) -> None:
    """A call that had begun is reported as unknown, not run again; the run goes on when the user wants it."""
    call = {"name": "exec", "arguments": {"command": "echo begun >> log; sleep 600"}}
    terminal = terminals([{"text": "I run.", "calls": [call]}, "Going on."])
    terminal.chat("--yes")
    terminal.type("run it")
    terminal.wait_until(lambda _: (terminal.root / "log").exists(), "a call that has begun")
    terminal.kill()
    terminal.press("-l", "stty sane; clear\n")
    terminal.chat("--resume")
    screen = terminal.wait_for(r"continue where it stopped\?")
    assert "started; outcome unknown" in screen
    assert "› run it" in screen
    terminal.type("y")
    terminal.wait_for(r"Going on\.")
    assert "begun\n" == (terminal.root / "log").read_text()


def test_a_pasted_image_is_attached(terminals: Any) -> None:
    """Its path becomes a mention in the input; in the argument of a command it stays a path."""
    terminal = terminals(["Yes."])
    (terminal.root / "my cat.png").write_bytes(base64.b64decode(PNG))
    terminal.chat()
    terminal.paste(f"{terminal.root}/my\\ cat.png")
    terminal.wait_for(r'› @"')
    terminal.type("what is it?")
    terminal.wait_for(r"\+ image[\s\S]*Yes\.")


def test_a_session_is_picked_from_a_list(terminals: Any) -> None:
    """With `--resume`, where there are several; what is typed narrows the list."""
    terminal = terminals(["Yes."])
    for prompt in ("plan the garden", "write a poem"):
        terminal.chat(prompt)
        terminal.wait_for(r"Yes\.")
        terminal.press("C-d")
        terminal.wait_for(r"resume with: [\s\S]*shell\$\s*$")
    terminal.start("--resume")
    screen = terminal.wait_for(r"type to search")
    assert screen.index("write a poem") < screen.index("plan the garden")
    terminal.press("-l", "garden")
    terminal.wait_until(lambda text: "garden" in text and "poem" not in text, "the garden alone")
    terminal.press("Enter")
    terminal.wait_for(r"the last exchange was:\s+› plan the garden")


def test_leaving_restores_the_terminal(terminals: Any) -> None:
    """By Ctrl-D, or by a signal in the middle of an answer: the shell echoes what is typed, as before."""
    terminal = terminals([SLOW])
    terminal.chat()
    terminal.press("C-d")
    terminal.wait_for(r"shell\$\s*$")
    terminal.chat()
    terminal.type("talk")
    terminal.wait_for(r"word word")
    terminal.signal(signal.SIGTERM)
    terminal.wait_for(r"resume with: interlingua chat --session [\w-]+\s+shell\$")
    terminal.type("stty -a | grep -o ' echo ' && echo state-$((40+2))")
    terminal.wait_for(r"echo\s*\n?state-42")
    assert ["talk"] == user_texts(terminal)
