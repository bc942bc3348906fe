"""Whatever a command writes into the home folder, and whichever command is the first: 0700 and 0600."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import interlingua as il
from cli.running import run
from interlingua.cli import group
from interlingua.sessions import Session

LINES = [
    {"role": "user", "content": "hello"},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "stopReason": "stop",
        "api": "anthropic-messages",
    },
]
PLUGIN = {"id": "plain", "name": "plain", "version": "1", "configSchema": {"type": "object"}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that is not there yet, nor the folders above it; files are as wide as their maker lets them be."""
    home = tmp_path / "some" / "where" / "home"
    monkeypatch.setenv("INTERLINGUA_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    (tmp_path / "agents.py").write_text("")
    (tmp_path / "plugin").mkdir(mode=0o755)
    (tmp_path / "plugin/interlingua.plugin.json").write_text(json.dumps(PLUGIN))
    (tmp_path / "plugin/__init__.py").write_text("def register(api):\n    pass\n")
    before = os.umask(0)
    yield home
    os.umask(before)


def wide(home: Path) -> list[str]:
    """What others may read or write, with its mode."""
    top = home.parents[1]
    found = [(path, path.lstat().st_mode) for path in (top, *top.rglob("*")) if not path.is_symlink()]
    return [f"{path.relative_to(top)} {mode:o}" for path, mode in found if mode & 0o077]


COMMANDS: dict[str, list[list[str]]] = {
    "run": [["run", "-m", "debug/echo", "hi"], ["run", "-c", "again"]],
    "run --save": [["run", "-m", "debug/echo", "--save", "mine", "hi"]],
    "chat": [["chat", "-m", "debug/echo", "--tools", "none", "hi"]],
    "logs off": [["logs", "off"], ["logs", "list"]],
    "models default": [["models", "default", "debug/echo"]],
    "models aliases set": [["models", "aliases", "set", "a", "debug/echo"], ["models", "aliases", "remove", "a"]],
    "models list": [["models", "list", "--all"]],
    "auth login": [["auth", "login", "openai", "--key"]],
    "sessions import": [["sessions", "import", "chat.jsonl"], ["sessions", "list"], ["sessions", "search", "hello"]],
    "sessions delete": [["sessions", "import", "chat.jsonl"], ["sessions", "delete", "ID"], ["sessions", "restore"]],
    "sessions fork": [
        ["sessions", "import", "chat.jsonl"],
        ["sessions", "fork", "ID"],
        ["sessions", "gc", "--branches", "ID"],
    ],
    "archive add": [["archive", "add", "chat.jsonl"], ["archive", "search", "hello"], ["archive", "totals"]],
    "batch submit": [["batch", "submit", "chat.jsonl", "-m", "debug/echo", "--jobs", "1", "--reask"]],
    "plugins install": [["plugins", "install", "plugin"], ["plugins", "list"], ["plugins", "uninstall", "-y", "plain"]],
    "canvas keys add": [["canvas", "keys", "add", "k"], ["canvas", "keys", "remove", "k"]],
    "serve keys add": [["serve", "keys", "add", "k"], ["serve", "keys", "rotate", "k"], ["serve", "usage"]],
    "doctor": [["doctor"]],
    "worker": [["worker", "agents.py", "--drain"]],
    "demo": [["demo"]],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_the_first_to_write_makes_private_files(home: Path, name: str) -> None:
    """With the widest umask there is, after each of its steps."""
    for step in COMMANDS[name]:
        arguments = [_session(home) if one == "ID" else one for one in step]
        if name == "chat":  # which wants real streams
            done = run(*arguments, given=b"")
            assert done.code == 0, done.err
        else:
            outcome = CliRunner().invoke(group, arguments, input="sk-" + "a" * 40 + "\n")
            assert outcome.exit_code == 0, (arguments, outcome.output, outcome.exception)
        if (home.parents[1]).exists():
            assert [] == wide(home), arguments


def _session(home: Path) -> str:
    return next(home.rglob("*.jsonl")).stem


def sessions_with_blobs(home: Path) -> None:
    image = il.ImageBlock(data="A" * 100_000, mime_type="image/png")
    with Session.open("s") as session:
        session.append(il.UserMessage(content=(image,)))


def sessions_in_sqlite(home: Path) -> None:
    with Session.open("s", store=f"sqlite:{home}/sessions/s.db") as session:
        session.append(il.UserMessage(content="x"))


def durable_runs(home: Path) -> None:
    pytest.importorskip("dbos", reason="the extra `durable` is not installed")
    from interlingua.durable import Runs

    with Runs() as runs:
        runs.enqueue("go", agent="a")


def tokens_of_mcp_servers(home: Path) -> None:
    from interlingua.mcp.oauth import OAuth, TokenFile

    TokenFile("https://mcp.example", OAuth())._write(tokens={"access_token": "t"})


def ledger_and_access_log(home: Path) -> None:
    from interlingua.gateway.access_log import AccessLog
    from interlingua.gateway.ledger import Ledger

    async def use() -> None:
        await Ledger(f"sqlite:{home}/gateway/ledger.db").close()

    asyncio.run(use())
    AccessLog(str(home / "gateway/access.log")).close()


def price_lists(home: Path) -> None:
    from interlingua.connect.models import warm

    asyncio.run(warm())


@pytest.mark.parametrize(
    "use",
    [sessions_with_blobs, sessions_in_sqlite, durable_runs, tokens_of_mcp_servers, ledger_and_access_log, price_lists],
)
def test_a_feature_that_is_the_first_to_write_makes_private_files(home: Path, use: Callable[[Path], Any]) -> None:
    """The same for what programs use without the command line."""
    use(home)
    assert [] == wide(home)
