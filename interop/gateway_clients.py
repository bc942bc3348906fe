"""Other people's client libraries in front of the gateway: `llm`, pydantic-ai, LangChain, the Vercel AI SDK, pi-ai.

Each streams a call of a tool, sends its result, reads the answer and asks again, in every client format that it speaks,
in front of all six upstream wires. All runs in a network namespace that has only loopback. Run by `make interop`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from gateway_programs import UPSTREAMS, loopback_only, settings
from serving import HERE, Checks, environment

import interlingua as il
from interlingua.gateway import Gateway
from interlingua.testing import Server
from interlingua.testing.threads import LoopThread
from interlingua.values.messages import text_of

NODE = HERE / ".envs" / "gateway-programs"
EXPECTED = ("It is sunny in Paris.", "It said: sunny in Paris")


def script(request: il.Request) -> Any:
    """The model: calls the tool, says what it returned, and says it again."""
    messages = request.context.messages
    results = [text_of(m.content) for m in messages if isinstance(m, il.ToolResultMessage)]
    if not results:
        call = il.ToolCall(id="call_1", name="weather", arguments={"city": "Paris"})
        return [il.TextBlock(text="One moment."), call]
    found = re.search(r"sunny in \w+", results[-1])
    seen = found.group() if found else f"nothing in {results}"
    asked = text_of(messages[-1].content) if isinstance(messages[-1], il.UserMessage) else ""
    return f"It said: {seen}" if "what did the tool say" in asked else f"It is {seen}."


def answers(command: list[str]) -> list[dict[str, str]]:
    """What each client of a program reported."""
    with tempfile.TemporaryDirectory() as home:
        env = {"HOME": home, "PATH": os.environ["PATH"], "LLM_USER_PATH": home}
        done = subprocess.run(command, env=env, capture_output=True, timeout=300, cwd=home)
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith("{")]
    if not lines:
        return [{"client": command[1], "error": done.stderr.decode(errors="replace")[-2000:]}]
    return [json.loads(line) for line in lines]


def main() -> None:
    loopback_only()
    upstreams = [api for api in sys.argv[1:] if api in UPSTREAMS] or list(UPSTREAMS)
    checks = Checks("client libraries through the gateway")
    thread = LoopThread("gateway")
    beside = shutil.copy(HERE / "gateway_clients.mjs", NODE)  # imports are looked up beside the file
    node = [str(NODE / "node_modules" / ".bin" / "node"), str(beside)]
    python = [str(environment("gateway_clients") / "python"), str(HERE / "gateway_client_libraries.py")]
    with Server(strict=True) as upstream:
        gateway = Gateway(settings(upstream))
        thread.start(gateway.start())
        upstream.answer(script)
        for api in upstreams:
            for command in (node, python):
                for told in answers([*command, gateway.url, api]):
                    actual = told.get("error") or (told["text"].strip()[-len(EXPECTED[0]) :], told["second"].strip())
                    checks.same(f"{told['client']} in front of {api}", EXPECTED, actual)
        thread.run(gateway.stop())
        thread.stop()
    checks.finish()


if __name__ == "__main__":
    main()
