"""The table of docs/switching-from-llm.md, run: the same task with `llm` and with `il`, against one local server.

Both commands of a row must succeed, ask the model the same, and print what the task is about.

Run by `make interop`, llm in an environment of its own.
"""

import base64
import functools
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from serving import HERE, Checks, environment

import interlingua as il
from interlingua.testing import Server
from interlingua.values.messages import text_of

PAGE = HERE.parent / "docs" / "switching-from-llm.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| `(.+?)` \| `(.+?)` \|$", re.MULTILINE)
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FILES = {
    "notes.txt": b"Buy milk and bread.\n",
    "style.md": b"Be brief.\n",
    "dot.png": base64.b64decode(DOT),
    "schema.json": json.dumps(SCHEMA).encode(),
    "tools.py": b'def area(width: int, height: int) -> int:\n    """The area."""\n    return width * height\n',
}
CODE = "First:\n```sh\nls\n```\nThen:\n```sh\npwd\n```\n"


class Task(NamedTuple):
    """What the model says in a row, and what both programs must print."""

    say: str = "Oslo it is."
    printed: str = ""
    call: tuple[str, dict[str, Any]] | None = None


# Rows that are about more than being sent; the others need no more than success and the same request.
TASKS = {
    2: Task(printed="Oslo it is."),
    14: Task(printed="secret"),
    15: Task(printed="secret"),
    18: Task(printed="Oslo it is."),
    19: Task(printed="Oslo it is."),
    21: Task(say=CODE, printed="ls"),
    22: Task(say=CODE, printed="pwd"),
    23: Task(say='{"name": "Rex", "age": 3}', printed="Rex"),
    24: Task(say='{"items": [{"name": "Rex", "age": 3}]}', printed="Rex"),
    25: Task(say='{"name": "Rex"}', printed="Rex"),
    36: Task(printed="sum"),
    37: Task(printed="Summarize: $input"),
    39: Task(say="Six.", printed="Six.", call=("area", {"width": 2, "height": 3})),
}


class Side:
    """One of the two programs, with a home of its own."""

    def __init__(self, name: str, path: Path, folder: Path, env: dict[str, str], latest: Callable[["Side"], str]):
        self.name = name
        self._env = {**os.environ, **env, "PATH": f"{path}:{os.environ['PATH']}"}
        self._folder = folder
        self._latest = latest

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        if "$ID" in command:
            self._env["ID"] = self._latest(self)
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self._folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


def main() -> None:
    checks = Checks("llm")
    rows = [(int(n), task, llm, ours) for n, task, llm, ours in ROW.findall(PAGE.read_text())]
    checks.same("rows of the table, numbered", [*range(1, len(rows) + 1)], [row[0] for row in rows])
    checks.same("at least 40 tasks", True, len(rows) >= 40)
    with tempfile.TemporaryDirectory() as scratch, Server() as server:
        folder = Path(scratch)
        for name, data in FILES.items():
            (folder / name).write_bytes(data)
        pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=scratch))
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        page = {"PAGE": f"http://127.0.0.1:{pages.server_port}/notes.txt"}
        theirs, ours = _llm(folder, server, page), _il(folder, server, page)
        for number, task, *commands in rows:
            _compare(checks, server, f"{number}. {task}", TASKS.get(number, Task()), theirs, ours, commands)
        pages.shutdown()
    checks.finish()


def _llm(folder: Path, server: Server, env: dict[str, str]) -> Side:
    home = folder / "llm"
    home.mkdir()
    model = {"model_id": "m", "model_name": "m", "api_base": server.base_url("openai-completions")}
    can = {"vision": True, "supports_schema": True, "supports_tools": True}
    (home / "extra-openai-models.yaml").write_text(json.dumps([{**model, **can}]))  # JSON is YAML

    def latest(side: Side) -> str:
        found: str = json.loads(side.run("llm logs -n 1 --json").stdout)[0]["conversation_id"]
        return found

    return Side("llm", environment("llm"), folder, {**env, "LLM_USER_PATH": str(home)}, latest)


def _il(folder: Path, server: Server, env: dict[str, str]) -> Side:
    home = folder / "il"
    home.mkdir()
    (home / "models.toml").write_text(
        f'[aliases]\nm = "local/m"\n\n[providers.local]\nlabel = "Local"\napi = "openai-completions"\n'
        f'base_url = "{server.base_url("openai-completions")}"\nkeyless = true\n'
    )

    def latest(side: Side) -> str:
        found: str = json.loads(side.run("il logs -n 1 --json").stdout)[0]["id"]
        return found

    return Side("il", Path(sys.executable).parent, folder, {**env, "INTERLINGUA_HOME": str(home)}, latest)


def _compare(
    checks: Checks, server: Server, what: str, task: Task, theirs: Side, ours: Side, commands: list[str]
) -> None:
    asked = []
    for side, command in zip((theirs, ours), commands, strict=True):
        server.clear()
        if task.call is not None:
            server.call(*task.call)
        server.say(task.say)
        done = side.run(command.replace("\\|", "|"))
        problem = "" if not done.returncode else f"exit code {done.returncode}: {done.stderr[-500:]}"
        if not problem and task.printed not in done.stdout:
            problem = f"no {task.printed!r} in {done.stdout[-500:]!r}"
        checks.same(f"{what}, with {side.name}", "", problem)
        asked.append([_request(one.request) for one in server.requests if one.request is not None])
    checks.same(f"{what}: the same requests", asked[0], asked[1])


def _request(request: il.Request) -> dict[str, Any]:
    """What a request asks. Of prompts the words: the one puts what is piped in before them, the other behind."""
    users = [message for message in request.context.messages if isinstance(message, il.UserMessage)]
    media = [
        type(block).__name__ for one in users for block in one.content if not isinstance(block, str | il.TextBlock)
    ]
    schema = request.options.output_schema
    return {
        "system": " ".join((request.context.system_prompt or "").split()),
        "prompts": [sorted(text_of(one.content).split()) for one in users],
        "media": media,
        "tools": sorted(tool.name for tool in request.context.tools or ()),
        "fields": sorted(schema.schema.get("properties", {})) if schema is not None and schema.schema else None,
        "temperature": request.options.temperature,
    }


if __name__ == "__main__":
    main()
