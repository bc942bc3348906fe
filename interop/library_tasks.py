"""The table of library tasks in docs/comparison.md, run: each package in an environment of its own, against one server.

Every task must give the result that it is about, and the server must have been asked for it. A package that has no way
for a task leaves it out. Run by `make interop`.
"""

import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from serving import HERE, Checks, environment

import interlingua as il
from interlingua.testing import RateLimit, Server, SlowHeaders
from interlingua.values.messages import text_of

sys.path.append(str(HERE / "library_tasks"))
from tasks import PARTICIPANTS, TASKS, lines_of

MARK = "@@ "
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
ADA = {"name": "Ada Lovelace", "born": 1815}
BABBAGE = {"name": "Charles Babbage", "born": 1791}

Script = Callable[[Server], None]


def fitting(value: Any) -> Callable[[il.Request], Any]:
    """A reply with a value as the request asks for it: by the schema of an answer, or as the arguments of a tool."""

    def reply(request: il.Request) -> Any:
        tools, schema = request.context.tools or (), request.options.output_schema
        given: Any = tools[0].input_schema if tools else schema.schema if schema is not None else {}
        names = [*(given or {}).get("properties", {})]
        found = {names[0]: value} if isinstance(value, list) and names else value
        return il.ToolCall(id="call_1", name=tools[0].name, arguments=found) if tools else json.dumps(found)

    return reply


def says(*texts: str, **how: Any) -> Script:
    def script(server: Server) -> None:
        for text in texts:
            server.say(text, **how)

    return script


def calls(name: str, arguments: dict[str, Any], *texts: str, times: int | None = None) -> Script:
    def script(server: Server) -> None:
        server.call(name, arguments, times=times)
        for text in texts:
            server.say(text)

    return script


def replies(*given: Any, **how: Any) -> Script:
    def script(server: Server) -> None:
        for reply in given:
            server.answer(reply, **how)

    return script


def embeddings(server: Server) -> None:
    def reply(received: Any) -> Any:
        rows = [{"object": "embedding", "index": at, "embedding": [0.5, 0.5]} for at in range(2)]
        return {"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 4, "total_tokens": 4}}

    for api in ("openai-completions", "openai-responses"):
        server.route("POST", server.base_url(api).removeprefix(server.url) + "/embeddings", reply)


def busy_unless_claude(request: il.Request) -> Any:
    return "Yes." if "claude" in request.model.id else il.Overloaded("busy", status=503)


AREA = {"width": 2, "height": 3}
SCRIPTS: dict[str, Script] = {
    "ask": says("Oslo."),
    "system": says("Yes."),
    "stream": says("Oslo it is, of course."),
    "options": says("Yes."),
    "many": says("Yes."),
    "conversation": says("Hello, Ada.", "Ada."),
    "typed": replies(fitting(ADA)),
    "typed_list": replies(fitting([ADA, BABBAGE])),
    "ask_again": replies("Ada, I think.", fitting(ADA)),
    "partial": replies(fitting(ADA), chunk=4),
    "picture": says("A dot."),
    "document": says("Nothing."),
    "tool": calls("area", AREA, "Six."),
    "tool_error": calls("broken", {"width": 1}, "Sorry."),
    "approve": calls("area", AREA, "As you wish."),
    "limit": calls("area", AREA),
    "watch": calls("area", AREA, "Six."),
    "other_provider": says("Oslo."),
    "hand_over": calls("area", AREA, "Six.", "Twelve."),
    "fallback": replies(busy_unless_claude),
    "retry": says("Yes.", fault=RateLimit(retry_after=0.2)),
    "timeout": says("Late.", fault=SlowHeaders(3.0)),
    "rate_limit": replies(il.RateLimited("slow down", retry_after=7.0)),
    "usage": says("Yes."),
    "cost": says("Yes."),
    "thinking": says("Because.", thinking="Hm."),
    "embed": embeddings,
    "save": says("Hello, Ada.", "Ada."),
    "offline": says("not asked"),
    "convert": says("not asked"),
}


def outcome(name: str, result: Any, server: Server) -> Any:
    """What is to be compared: the result, and what the server was asked."""
    asked = [one for one in server.requests if one.request is not None]
    last = asked[-1].request if asked else None
    messages = last.context.messages if last else ()
    results = [text_of(m.content) for m in messages if isinstance(m, il.ToolResultMessage)]
    blocks = [type(block).__name__ for m in messages if not isinstance(m.content, str) for block in m.content or ()]
    match name:
        case "system":
            return result, last and last.context.system_prompt
        case "stream":
            return "".join(result), len([piece for piece in result if piece]) > 1
        case "options":
            return result, last and (last.options.temperature, last.options.max_tokens)
        case "many":
            return result, len(asked)
        case "conversation" | "save":
            return result, [text_of(m.content) for m in messages]
        case "ask_again":
            return result, len(asked)
        case "partial":
            return result[1], any("born" not in one for one in result[0] if one)
        case "picture":
            return result, "ImageBlock" in blocks
        case "document":
            return result, "DocumentBlock" in blocks
        case "tool":
            return result, results
        case "tool_error":
            return result, ["no such width" in text for text in results]
        case "approve":
            return result, [text == "6" for text in results]
        case "limit":
            return result, len(asked)
        case "other_provider":
            return result, asked[-1].api
        case "hand_over":
            return result, asked[-1].api, results
        case "fallback":
            return result, asked[-1].api
        case "usage":
            return [number > 0 for number in result]
        case "thinking":
            return result, bool(last and last.options.reasoning)
        case "convert":
            return result.get("system") and True, [one["role"] for one in result["messages"]]
    return result


CLAUDE_WIRE = "anthropic-messages"
EXPECTED: dict[str, Any] = {
    "ask": "Oslo.",
    "system": ("Yes.", "Be brief."),
    "stream": ("Oslo it is, of course.", True),
    "options": ("Yes.", (0.2, 50)),
    "many": (["Yes."] * 3, 3),
    "conversation": ("Ada.", ["My name is Ada.", "Hello, Ada.", "What is my name?"]),
    "typed": ADA,
    "typed_list": [ADA, BABBAGE],
    "ask_again": (ADA, 2),
    "partial": (ADA, True),
    "picture": ("A dot.", True),
    "document": ("Nothing.", True),
    "tool": ("Six.", ["6"]),
    "tool_error": ("Sorry.", [True]),
    "approve": (["As you wish.", ["area"]], [False]),
    "limit": (True, 2),
    "watch": ["Six.", ["area"]],
    "other_provider": ("Oslo.", CLAUDE_WIRE),
    "hand_over": ("Twelve.", CLAUDE_WIRE, ["6"]),
    "fallback": ("Yes.", CLAUDE_WIRE),
    "retry": "Yes.",
    "timeout": "timeout",
    "rate_limit": 7,
    "usage": [True, True],
    "cost": True,
    "thinking": ([["Hm."], "Because."], True),
    "embed": 2,
    "save": ("Ada.", ["My name is Ada.", "Hello, Ada.", "What is my name?"]),
    "offline": "Hello",
    "convert": (True, ["user", "assistant", "user"]),
}


WIRES = {"with_interlingua": "openai-responses", "with_sdks": "openai-responses"}  # the API of OpenAI that they prefer


class Participant:
    """A package in its environment, in a folder with the files of the tasks."""

    def __init__(self, module: str, server: Server, folder: Path) -> None:
        ours = module == "with_interlingua"
        python = Path(sys.executable) if ours else environment(module.removeprefix("with_")) / "python"
        openai = server.base_url(WIRES.get(module, "openai-completions"))
        env = {
            **os.environ,
            "INTERLINGUA_HOME": str(folder / "home"),
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": openai,
            "OPENAI_API_BASE": openai,
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": server.base_url("anthropic-messages"),
            "ANTHROPIC_API_BASE": server.base_url("anthropic-messages"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it is fetched
        }
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, HERE / "library_tasks" / f"{module}.py"],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def run(self, task: str) -> Any:
        """The result of a task; a text with the error if it failed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{task}\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(MARK):
                found = json.loads(line.removeprefix(MARK))
                return found["result"] if "result" in found else found["error"]
        self._log.seek(0)
        return f"ended: {self._log.read().decode(errors='replace')[-2000:]}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


@contextlib.contextmanager
def participating(module: str, server: Server) -> Iterator[Participant]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "dot.png").write_bytes(base64.b64decode(DOT))
        (folder / "a.pdf").write_bytes(PDF)
        participant = Participant(module, server, folder)
        try:
            yield participant
        finally:
            participant.close()


def main(only: list[str]) -> None:
    checks = Checks("library tasks")
    checks.same("at least 30 tasks", True, len(TASKS) >= 30)
    with Server() as server:
        for module, title in PARTICIPANTS.items():
            if only and module not in only:
                continue
            with participating(module, server) as participant:
                for name in lines_of(module):
                    server.clear()
                    SCRIPTS[name](server)
                    result = participant.run(name)
                    try:
                        found = outcome(name, result, server)
                    except (TypeError, IndexError, KeyError, AttributeError):  # of another shape: an error
                        found = result
                    checks.same(f"{title}: {TASKS[name]}", EXPECTED[name], found)
    checks.finish()


if __name__ == "__main__":
    main(sys.argv[1:])
