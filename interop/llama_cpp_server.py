"""llama.cpp as the provider: its Python server with a model of chance, made here, through the `llama-cpp` row.

The model's words mean nothing, but everything around them is real: tokens one by one, limits, and grammars that make
even this model call a tool or keep to a schema. Then the same server behind the gateway, for clients of three wires.

Run by `make interop`, the server in an environment of its own.
"""

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from gateway_upstreams import CLIENTS, Anthropic, Client, Gemini, Served, gateway, leaving
from serving import HERE, Checks, environment, free_port, running

import interlingua as il

MODEL = "llama-cpp/chance"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Paris"]}, "warm": {"type": "boolean"}},
    "required": ["city", "warm"],
}
QUESTION = "How is the weather?"
ASKED = il.Context(system="Be brief.", messages=(il.UserMessage(content=QUESTION),))


class Asking:
    """Calls to the server, with the same chance each time."""

    def __init__(self, url: str) -> None:
        self._options: dict[str, Any] = {"base_url": url, "retry": 0, "temperature": 0.0, "seed": 1, "max_tokens": 24}

    def stream(self, context: Any = ASKED, **options: Any) -> Any:
        return il.stream(MODEL, context, **{**self._options, **options})

    async def answer(self, context: Any = ASKED, **options: Any) -> tuple[il.AssistantMessage, list[str], Any]:
        stream = self.stream(context, **options)
        kinds = [type(event).__name__ for event in [event async for event in stream]]
        return await stream.result(), kinds, stream.failure


async def text(checks: Checks, asking: Asking) -> None:
    message, kinds, _ = await asking.answer()
    checks.same("text comes token by token", (24, 1, 1), tuple(map(kinds.count, ("TextDelta", "Start", "Done"))))
    checks.same("it stops where it was told to", "length", message.stop_reason)
    again, _, _ = await asking.answer()
    checks.same("the same seed says the same", message.text, again.text)
    word = message.text.split()[3]
    shorter, _, _ = await asking.answer(stop=(word,))
    checks.same("a stop sequence ends it", ("stop", False), (shorter.stop_reason, word in shorter.text))
    turns = il.Context(messages=(*ASKED.messages, message, il.UserMessage(content="And tomorrow?")))
    more, _, failure = await asking.answer(turns)
    checks.same("a second turn", (None, True), (failure, bool(more.text)))
    checks.same("two at once", [message.text] * 2, [m.text for m, _, _ in await _both(asking)])


async def _both(asking: Asking) -> Any:
    return await asyncio.gather(asking.answer(), asking.answer())


async def constrained(checks: Checks, asking: Asking) -> None:
    message, _, failure = await asking.answer(on_payload=_with_schema, max_tokens=100)
    checks.same("a schema is kept to", (None, True), (failure, _fits(message.text)))
    tool = il.ToolSpec(name="weather", description="How the weather is", input_schema=SCHEMA)
    asked = il.Context(messages=ASKED.messages, tools=(tool,))
    message, kinds, failure = await asking.answer(asked, tool_choice="weather", max_tokens=100)
    calls = message.tool_calls
    checks.same("a tool is called", (None, "toolUse", ["weather"]), (failure, message.stop_reason, _names(calls)))
    checks.same("with arguments that fit, in pieces", (True, True), (_fits(calls), kinds.count("ToolCallDelta") > 1))
    if calls:
        said = il.AssistantMessage(content=(calls[0],))  # beside a bare call it takes an empty text, but not null
        result = il.ToolResultMessage(
            tool_call_id=calls[0].id, tool_name="weather", content="21 degrees", is_error=False
        )
        after = il.Context(messages=(*asked.messages, said, result), tools=asked.tools)
        message, _, failure = await asking.answer(after, tool_choice="none")
        checks.same("and takes the result", (None, True), (failure, bool(message.text)))


def _with_schema(body: dict[str, Any], model: il.ModelDescriptor) -> dict[str, Any]:
    """This server has a way of its own to say a schema, and refuses the usual one."""
    return {**body, "response_format": {"type": "json_object", "schema": SCHEMA}}


def _names(calls: Any) -> list[str]:
    return [call.name for call in calls]


def _fits(found: Any) -> bool:
    try:
        value = json.loads(found) if isinstance(found, str) else found[0].arguments
    except (ValueError, IndexError):
        return False
    return value.get("city") in ("Oslo", "Paris") and isinstance(value.get("warm"), bool)


async def failures(checks: Checks, asking: Asking) -> None:
    # It answers 200 and then hangs up: why, it does not say.
    _, kinds, failure = await asking.answer("rain " * 2000)
    checks.same("a conversation that is too long", "TransportError", type(failure).__name__)
    checks.same("is one well-formed stream", ["Start", "Error"], kinds)
    # It closes that connection without saying so, and a call that comes at once may still meet it.
    stream = asking.stream(max_tokens=400, retry=2)
    async for event in stream:
        if type(event).__name__ == "TextDelta":
            break
    await stream.aclose()
    left = await stream.result()
    checks.same("a stream that is left keeps what came", ("aborted", True), (left.stop_reason, bool(left.text)))
    message, _, failure = await asking.answer()
    checks.same("and the server serves on", (None, True), (failure, bool(message.text)))


async def all_of(checks: Checks, url: str) -> dict[type[Client], str]:
    """Returns what the server answers the clients of the gateway."""
    asking = Asking(url)
    for part in (text, constrained, failures):
        await part(checks, asking)
    answers = {}
    for kind in CLIENTS:
        # Gemini's contents are lists of parts, which the server's template prints as such: another prompt.
        content: Any = (il.TextBlock(text=QUESTION),) if kind is Gemini else QUESTION
        answer, _, _ = await asking.answer(il.Context(messages=(il.UserMessage(content=content),)))
        answers[kind] = answer.text
    return answers


# --- behind the gateway


def through_the_gateway(checks: Checks, served: Served, port: int, expected: dict[type[Client], str]) -> None:
    calls = 0
    for kind in CLIENTS:
        for stream in (False, True):
            what = f"{kind.name}{', streamed,' if stream else ''} through the gateway"

            def client(model: str = "chance", *, stream: bool = stream, kind: type[Client] = kind) -> Client:
                return kind(served, model, stream=stream)

            found = client().say(QUESTION)
            checks.same(f"{what}: text", (expected[kind], kind.length), (found.text, found.stop))
            # The server counts nothing in streams. Anthropic's clients expect a number: theirs is an estimate.
            counted = not stream or kind is Anthropic
            checks.same(f"{what}: usage", (counted,) * 2, (found.usage[0] > 0, found.usage[1] > 0))
            turns = client()
            called = turns.say(QUESTION, limit=100, tool=True)
            names = [name for name, _ in called.calls]
            checks.same(f"{what}: a call", (["weather"], kind.calls), (names, called.stop))
            if called.calls:
                checks.same(f"{what}: its arguments", True, called.calls[0][1].get("city") in ("Oslo", "Paris"))
                turns.beside("Let me look.")  # the server takes no bare call
                turns.result("21 degrees")
                checks.same(f"{what}: after its result", True, bool(turns.ask(tool=False).text))
            status, text = client().refused("rain " * 2000)
            if stream:  # it answers 200 and then hangs up
                checks.same(f"{what}: too long", 502, status)
            else:
                checks.same(f"{what}: too long", (400, True), (status, kind.too_long.lower() in text.lower()))
            checks.same(f"{what}: an unknown model", 404, client("no-such-model").refused("hi")[0])
            calls += 4
        leaving(checks, kind.name, kind(served, "chance"), port, 400)
        calls += 1
    usage = served.usage()
    expected_usage = {"calls": calls, "aborted": len(CLIENTS)}
    checks.same("the ledger has each call once", expected_usage, {name: usage.get(name) for name in expected_usage})


def main() -> None:
    checks = Checks("llama.cpp")
    python, port = environment("llama_cpp") / "python", free_port()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "chance.gguf"
        subprocess.run([python, HERE / "tiny_llama.py", model], check=True, stdout=subprocess.DEVNULL)
        command = [python, "-m", "llama_cpp.server", "--model", model, "--host", "127.0.0.1", "--port", port]
        url = f"http://127.0.0.1:{port}/v1"
        with running(
            [*map(str, command), "--n_ctx", "512", "--n_threads", "1", "--interrupt_requests", "False"], f"{url}/models"
        ):
            expected = asyncio.run(all_of(checks, url))
            settings = f'aliases.chance = "{MODEL}"\n[providers.llama-cpp]\nbase_url = "{url}"\n'
            with gateway(settings) as served:
                through_the_gateway(checks, served, port, expected)
    checks.finish()


if __name__ == "__main__":
    main()
