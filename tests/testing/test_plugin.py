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


def test_the_fixture_gives_each_test_a_server(tmp_path: Path) -> None:
    """One line in conftest.py, with warnings as errors."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_mine.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:asyncio", "."]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
