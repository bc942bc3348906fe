"""LiteLLM's proxy as the provider: what our connectors make of somebody else's idea of three wires.

Two ways. Its mock answers need nothing behind it: text, errors, and the Anthropic wire unstreamed. And it can stand in
the middle: a connector speaks one wire to it, it speaks another to a local server, so that thinking, calls and streams
go through its own translation both ways. (Its mock cannot stream the Responses wire, nor calls on any.) Then the same
with the gateway in front of it, for clients of three wires.

Run by `make interop`, the proxy in an environment of its own.
"""

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateway_upstreams import CLIENTS, Served, gateway, leaving
from serving import Checks, environment, free_port, running

import interlingua as il
from interlingua.testing import Server, Stall

KEY = "sk-interop"
SAID = "Hello from the mock, in several pieces."
ERRORS = {
    "limited": ("litellm.RateLimitError", "RateLimited"),
    "too-long": ("litellm.ContextWindowExceededError", "ContextTooLong"),
    "broken": ("litellm.InternalServerError", "ProviderError"),
}
BEHIND = {"openai": "/v1", "anthropic": ""}  # what the proxy calls the providers behind it, and their paths
FRONTS = {"openai-compatible": "/v1", "anthropic-compatible": "", "openai": "/v1"}
WEATHER = il.ToolSpec(
    name="weather",
    description="How the weather is",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def config(upstream: Server) -> dict[str, Any]:
    def model(name: str, real: str, **more: Any) -> dict[str, Any]:
        return {"model_name": name, "litellm_params": {"model": real, "api_key": "none", **more}}

    return {
        "model_list": [
            model("words", "openai/gpt-4o", mock_response=SAID),
            *(model(name, "openai/gpt-4o", mock_response=said) for name, (said, _) in ERRORS.items()),
            *(model(f"behind-{kind}", f"{kind}/m", api_base=upstream.url + path) for kind, path in BEHIND.items()),
        ],
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"num_retries": 0, "drop_params": True},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }


@contextlib.contextmanager
def proxy(upstream: Server) -> Iterator[str]:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(json.dumps(config(upstream)))  # JSON is YAML
        programs = environment("litellm")
        command = [programs / "litellm", "--config", path, "--host", "127.0.0.1", "--port", str(port)]
        env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PATH": f"{programs}:{os.environ['PATH']}"}
        url = f"http://127.0.0.1:{port}"
        with running([*map(str, command), "--telemetry", "False"], f"{url}/health/liveliness", env=env):
            yield url


async def ask(url: str, front: str, model: str, context: Any, key: str = KEY) -> tuple[il.AssistantMessage, list[str]]:
    """The answer, and the kinds of the events that brought it."""
    options = {"base_url": url + FRONTS[front], "api_key": key, "retry": 0, "max_tokens": 200}
    stream = il.stream(f"{front}/{model}", context, **options)
    kinds = [type(event).__name__ for event in [event async for event in stream]]
    message = await stream.result()
    return message, [*kinds, type(stream.failure).__name__ if stream.failure else "well"]


async def mocked(checks: Checks, url: str) -> None:
    for front in ("openai-compatible", "anthropic-compatible"):
        message, kinds = await ask(url, front, "words", "hi")
        checks.same(f"{front}: text", (SAID, "stop"), (message.text, message.stop_reason))
        checks.same(f"{front}: one beginning, one end", (1, 1), (kinds.count("Start"), kinds.count("Done")))
        checks.same(f"{front}: usage is told", True, message.usage is not None and message.usage.output > 0)
        for model, (_, kind) in ERRORS.items():
            message, kinds = await ask(url, front, model, "hi")
            checks.same(f"{front}: {model}", ("error", ["Start", "Error", kind]), (message.stop_reason, kinds))
        message, kinds = await ask(url, front, "no-such-model", "hi")
        checks.same(f"{front}: a model that is not there", ["Start", "Error", "BadRequest"], kinds)
        message, kinds = await ask(url, front, "words", "hi", key="sk-wrong")
        checks.same(f"{front}: a wrong key", ("error", ["Start", "Error"]), (message.stop_reason, kinds[:2]))
    message, kinds = await ask(url, "openai-compatible", "words", "hi")
    checks.same("openai-compatible: the text comes in pieces", True, kinds.count("TextDelta") > 3)


async def in_the_middle(checks: Checks, url: str, upstream: Server) -> None:
    asked = il.Context(system="Be brief.", messages=(il.UserMessage(content="Weather in Paris?"),), tools=(WEATHER,))
    call = il.ToolCall(id="call_1", name="weather", arguments={"city": "Paris"})
    for front in FRONTS:
        for behind in BEHIND:
            what, model = f"{front} in front of {behind}", f"behind-{behind}"
            upstream.clear()
            upstream.answer([il.TextBlock(text="Let me look."), call], times=1)
            upstream.say("Sunny, 21 degrees.")
            message, kinds = await ask(url, front, model, asked)
            checks.same(f"{what}: a call", ("toolUse", "well"), (message.stop_reason, kinds[-1]))
            checks.same(
                f"{what}: its text and arguments",
                ("Let me look.", [("weather", {"city": "Paris"})]),
                (message.text, [(one.name, one.arguments) for one in message.tool_calls]),
            )
            if not message.tool_calls:
                continue
            result = il.ToolResultMessage(
                tool_call_id=message.tool_calls[0].id, tool_name="weather", content="21 degrees", is_error=False
            )
            turn = il.Context(system=asked.system, messages=(*asked.messages, message, result), tools=asked.tools)
            message, kinds = await ask(url, front, model, turn)
            checks.same(f"{what}: the answer after the result", "Sunny, 21 degrees.", message.text)
            heard = upstream.last.request.context.messages[-1] if upstream.last.request else None
            checks.same(f"{what}: the result arrived", True, "21 degrees" in str(getattr(heard, "content", "")))


# --- behind the gateway


REFUSALS = {"limited": 429, "too-long": 400, "broken": 500}


def settings(url: str) -> str:
    """The gateway's: each model of the proxy by each wire that it speaks, under a name of its own."""
    models = ("words", *ERRORS, *(f"behind-{kind}" for kind in BEHIND))
    lines = [
        f'[providers.{front}]\nbase_url = "{url}{path}"\napi_keys = ["env:PROXY_KEY"]' for front, path in FRONTS.items()
    ]
    for front in FRONTS:
        lines += [f'[aliases."{front}.{model}"]\ntargets = ["{front}/{model}"]\nretries = 0' for model in models]
    return "\n".join(lines)


def through_the_gateway(checks: Checks, served: Served, upstream: Server) -> int:
    """Returns the number of calls that reached the proxy."""
    made = 0
    for front in FRONTS:
        for kind in CLIENTS:
            for stream in (False, True):
                what = f"{kind.name}{', streamed,' if stream else ''} through the gateway by {front}"
                for behind in BEHIND:
                    upstream.clear()
                    upstream.call("weather", {"city": "Paris"}, text="Let me look.", times=1)
                    upstream.say("Sunny, 21 degrees.")
                    client = kind(served, f"{front}.behind-{behind}", stream=stream)
                    first = client.say("Weather in Paris?", limit=200, tool=True)
                    expected = ("Let me look.", [("weather", {"city": "Paris"})], kind.calls, True)
                    actual = (first.text, first.calls, first.stop, min(first.usage) > 0)
                    checks.same(f"{what} to {behind}: a call, and its usage", expected, actual)
                    made += 1
                    if not first.calls:
                        continue
                    client.result("21 degrees")
                    second = client.ask(limit=200, tool=False)
                    heard = upstream.last.request.context.messages[-1] if upstream.last.request else None
                    arrived = "21 degrees" in str(getattr(heard, "content", ""))
                    checks.same(f"{what} to {behind}: its result", ("Sunny, 21 degrees.", True), (second.text, arrived))
                    made += 1
                if front == "openai":
                    continue  # the mock has no streams on this wire
                for model, status in REFUSALS.items():
                    if stream and model == "broken":
                        continue  # after five failures the gateway would leave it alone
                    found, text = kind(served, f"{front}.{model}", stream=stream).refused("hi")
                    recognized = kind.too_long.lower() in text.lower() if model == "too-long" else True
                    checks.same(f"{what}: {model}", (status, True), (found, recognized))
                    made += 1
    return made


def left(checks: Checks, served: Served, upstream: Server, url: str) -> int:
    """Clients that leave a stream in its middle; returns how many."""
    port = int(url.rpartition(":")[2])
    for kind in CLIENTS:
        for front in FRONTS:
            upstream.clear()
            upstream.say("word " * 200, fault=Stall(after_events=20))
            leaving(checks, f"{kind.name} by {front}", kind(served, f"{front}.behind-openai"), port, 400)
    return len(CLIENTS) * len(FRONTS)


def main() -> None:
    checks = Checks("LiteLLM's proxy")
    with Server() as upstream, proxy(upstream) as url:
        asyncio.run(mocked(checks, url))
        asyncio.run(in_the_middle(checks, url, upstream))
        with gateway(settings(url), {"PROXY_KEY": KEY}) as served:
            made = through_the_gateway(checks, served, upstream)
            aborted = left(checks, served, upstream, url)
            for kind in CLIENTS:
                status, _ = kind(served, "no-such-model").refused("hi")
                checks.same(f"{kind.name}: a model that the gateway does not have", 404, status)
            usage = served.usage()
            expected = {"calls": made + aborted, "aborted": aborted}
            checks.same("the ledger has each call once", expected, {name: usage.get(name) for name in expected})
    checks.finish()


if __name__ == "__main__":
    main()
