"""The pytest fixture, in a project of a user's."""

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = 'pytest_plugins = ["interlingua.testing.plugin"]\n'
TESTS = """
import json
import urllib.request

SEEN = []


def ask(server):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": False})
    with urllib.request.urlopen(server.base_url("ollama-chat") + "/api/chat", body.encode(), timeout=10) as response:
        return json.load(response)["message"]["content"]


def test_first(interlingua_server):
    interlingua_server.say("told")
    SEEN.append(interlingua_server.url)
    assert "told" == ask(interlingua_server)


def test_each_test_has_its_own(interlingua_server):
    assert "Hi" == ask(interlingua_server)
    assert interlingua_server.url not in SEEN
    assert 1 == len(interlingua_server.requests)
"""


CONVERSATIONS = """
import interlingua as il
import pytest


@pytest.mark.conversations("saved/*.jsonl", "one.json")
def test_each_conversation(interlingua_conversation):
    assert "hello" == interlingua_conversation.messages[0].text


def test_a_session(interlingua_session):
    interlingua_session.append(il.UserMessage("hello"))
    assert 1 == len(interlingua_session.messages)
"""
ROW = '{"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes"}]}\n'


def run(folder: Path, tests: str) -> str:
    """Runs tests in a project that has the one line in its conftest.py, with warnings as errors."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_mine.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-v", "-W", "error", "-p", "no:cacheprovider", "-p", "no:asyncio", "."]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_fixture_gives_each_test_a_server(tmp_path: Path) -> None:
    """Each on a port of its own."""
    printed = run(tmp_path, TESTS)
    assert "2 passed" in printed, printed


def test_a_test_runs_for_each_conversation_of_the_files_it_names(tmp_path: Path) -> None:
    """Named by file and number, from files with one conversation or many."""
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/two.jsonl").write_text(ROW * 2)
    (tmp_path / "one.json").write_text(ROW)
    printed = run(tmp_path, CONVERSATIONS)
    assert "4 passed" in printed, printed
    assert "test_each_conversation[two.jsonl:2] PASSED" in printed


def test_a_pattern_without_files_is_an_error(tmp_path: Path) -> None:
    """A test that would run with nothing does not pass."""
    assert "no file matches 'saved/*.jsonl'" in run(tmp_path, CONVERSATIONS)
