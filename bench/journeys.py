"""How far a reader travels: files, functions and file switches on four journeys through the package, and its size.

python bench/journeys.py            a line per journey, each number beside that of the commit `BASE`
python bench/journeys.py --json     the present numbers for programs

A journey is traced with `sys.setprofile`. A switch is counted each time a call leads from one file of the package into
another, so it says how often somebody who follows the code must open another file. Every journey runs once before it
is traced, so that lazy imports and caches do not count; and several times then, of which the shortest counts, since a
response may arrive in several pieces on a busy machine.
"""

import ast
import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import interlingua as il
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector, ScriptedCall, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.testing import Server

ROOT = str(Path(il.__file__).parent)
RUNS = 5
# The same journeys before the package was consolidated.
BASE = "a65481f"
BEFORE = {
    "one streamed call": {"calls": 561, "switches": 215, "files": 35},
    "one convert": {"calls": 692, "switches": 187, "files": 32},
    "one agent turn with a tool": {"calls": 888, "switches": 353, "files": 28},
    "one append": {"calls": 41, "switches": 20, "files": 9},
}


class Trace:
    """Counts calls into the package while it is active, in this thread alone."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.functions: set[tuple[str, str]] = set()

    def __enter__(self) -> "Trace":
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: Any, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(ROOT) and "/testing/" not in name:
            self.files.append(name)
            self.functions.add((name, frame.f_code.co_qualname))

    def row(self) -> dict[str, int]:
        switches = sum(1 for here, there in zip(self.files, self.files[1:], strict=False) if here != there)
        return {
            "calls": len(self.files),
            "switches": switches,
            "files": len(set(self.files)),
            "functions": len(self.functions),
        }


async def streamed_call(server: Server) -> None:
    server.say("Hello there, this is an answer of a few words.")
    model = il.ModelDescriptor(
        id="m", provider="anthropic", api="anthropic-messages", base_url=server.base_url("anthropic-messages")
    )
    async for _ in il.stream(model, "Hello", api_key="k"):
        pass


async def conversion(server: Server) -> None:
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "What is in a.txt?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.txt"}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "hello"}]},
        ],
    }
    list(il.convert(body, "openai-responses").losses)


async def agent_turn(server: Server) -> None:
    def look(path: str) -> str:
        """Look at a file."""
        return f"{path} is empty"

    call = Step(calls=(ScriptedCall(name="look", arguments={"path": "a.txt"}),))
    client = Client(connectors=ConnectorRegistry([DebugConnector((call, "It is empty."))]))
    result = await il.Agent("debug/script", [look], client=client).prompt("What is in a.txt?")
    assert result.text == "It is empty."


async def append(server: Server) -> None:
    with tempfile.TemporaryDirectory() as home:
        session = il.Session.open("journey", home=home)
        session.append(il.UserMessage(content="Hello"))
        with Trace() as trace:
            session.append(il.UserMessage(content="Hello again"))
        session.close()
    _appended.append(trace)


_appended: list[Trace] = []
JOURNEYS: dict[str, Callable[[Server], Awaitable[None]]] = {
    "one streamed call": streamed_call,
    "one convert": conversion,
    "one agent turn with a tool": agent_turn,
    "one append": append,
}


def sizes() -> dict[str, int]:
    paths = sorted(Path(ROOT).rglob("*.py"))
    texts = [path.read_text() for path in paths]
    functions = sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for text in texts for node in ast.walk(ast.parse(text))
    )
    return {
        "files": len(paths),
        "lines": sum(text.count("\n") for text in texts),
        "functions": functions,
        "public names": len(il.__all__),
    }


async def main() -> dict[str, Any]:
    rows: dict[str, Any] = {}
    with Server() as server:
        for name, journey in JOURNEYS.items():
            await journey(server)
            runs = []
            for _ in range(RUNS):
                with Trace() as trace:
                    await journey(server)
                runs.append((_appended[-1] if journey is append else trace).row())
            rows[name] = min(runs, key=lambda row: row["switches"])
    return {"size": sizes(), "journeys": rows}


if __name__ == "__main__":
    found = asyncio.run(main())
    if "--json" in sys.argv:
        print(json.dumps(found))
    else:
        print("  ".join(f"{value:,} {name}" for name, value in found["size"].items()))
        print(f"{'':28}(in brackets: at {BASE})")
        for name, row in found["journeys"].items():
            cells = [
                f"{value:6,} {what}" + (f" ({BEFORE[name][what]:,})" if what in BEFORE[name] else "")
                for what, value in row.items()
            ]
            print(f"{name:28}" + "  ".join(cells))
