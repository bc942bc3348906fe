"""Clients of three wires in front of `interlingua serve`, which has somebody else's server as its upstream.

The gateway is a process of its own, with a key and a ledger; the clients are the vendors' packages. Used by
llama_cpp_server.py and litellm_proxy.py, which say what the server behind the gateway answers.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai
from google import genai
from google.genai import errors as google_errors
from google.genai import types
from serving import Checks, free_port, running

PROGRAM = Path(sys.executable).with_name("interlingua")
CLOSES = 2.0  # seconds: less than a server keeps an unused connection open
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Paris"], "type": "string"}},
    "required": ["city"],
}
DESCRIPTION = "How the weather is"


class Served(NamedTuple):
    """A gateway that runs."""

    url: str
    key: str
    home: str

    def usage(self) -> dict[str, Any]:
        """The sum of its ledger, of all models."""
        command = [PROGRAM, "serve", "usage", "--json", "--by", "key", "--home", self.home]
        rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return dict(rows[0]) if rows else {}


@contextlib.contextmanager
def gateway(settings: str, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """`interlingua serve` with these settings (TOML), until the block ends."""
    with tempfile.TemporaryDirectory() as home:
        Path(home, "gateway.toml").write_text(settings)
        add = [PROGRAM, "serve", "keys", "add", "interop", "--home", home]
        key = subprocess.run(add, check=True, capture_output=True, text=True).stdout.strip()
        url = f"http://127.0.0.1:{(port := free_port())}"
        command = [PROGRAM, "serve", "run", "--port", str(port), "--home", home, "--drain", "2"]
        with running(command, f"{url}/healthz", env={**os.environ, **(env or {})}):
            yield Served(url, key, home)


class Answer(NamedTuple):
    text: str
    calls: list[tuple[str, Any]]  # name and arguments
    stop: str  # as the wire says it
    usage: tuple[int, int]


class Client:
    """One conversation with a model of the gateway, by one of the vendors' packages."""

    name = ""
    length = calls = ""  # the wire's words for these ends
    too_long = ""  # what a client of this wire recognizes
    errors: type[Exception]

    def __init__(self, served: Served, model: str, *, stream: bool = False) -> None:
        self.model, self.stream, self.history = model, stream, list[Any]()
        self.connect(served.url, served.key)

    def connect(self, url: str, key: str) -> None: ...

    def user(self, text: str) -> None: ...

    def beside(self, text: str) -> None:
        """Puts a text before the call of the last answer."""

    def result(self, text: str) -> None:
        """The result of the last answer's call."""

    def ask(self, *, limit: int = 24, tool: bool | None = None) -> Answer:
        """`tool`: the weather must be called; False: it is there, and must not be; None: there is none."""
        raise NotImplementedError

    def pieces(self, limit: int) -> Iterator[str]:
        """The texts of a stream. Closing the iterator leaves it."""
        raise NotImplementedError

    def say(self, text: str, **options: Any) -> Answer:
        self.user(text)
        return self.ask(**options)

    def refused(self, text: str) -> tuple[int, str]:
        """The status and the text of the error that a question ends with; 0 if it is answered."""
        try:
            answer = self.say(text)
        except self.errors as error:
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            return int(status or 0), f"{getattr(error, 'code', '')} {error}"  # OpenAI's package prints no code
        return 0, answer.text


class OpenAI(Client):
    name, length, calls, too_long = "OpenAI Chat", "length", "tool_calls", "context_length_exceeded"
    errors = openai.APIError

    def connect(self, url: str, key: str) -> None:
        self._client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60)

    def user(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def beside(self, text: str) -> None:
        self.history[-1]["content"] = text

    def result(self, text: str) -> None:
        self.history.append({"role": "tool", "tool_call_id": self.history[-1]["tool_calls"][0]["id"], "content": text})

    def _options(self, limit: int, tool: bool | None) -> dict[str, Any]:
        options = {"model": self.model, "messages": self.history, "max_tokens": limit, "temperature": 0}
        if tool is not None:
            function = {"name": "weather", "description": DESCRIPTION, "parameters": SCHEMA}
            forced = {"type": "function", "function": {"name": "weather"}}
            options |= {
                "tools": [{"type": "function", "function": function}],
                "tool_choice": forced if tool else "none",
            }
        return options

    def ask(self, *, limit: int = 24, tool: bool | None = None) -> Answer:
        options = self._options(limit, tool)
        if not self.stream:
            done = self._client.chat.completions.create(**options)
            choice, usage = done.choices[0], done.usage
            text, stop = choice.message.content or "", choice.finish_reason
            calls = [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls or ()]
        else:
            text, stop, usage, parts = "", "", None, dict[int, list[str]]()
            with self._client.chat.completions.create(
                stream=True, stream_options={"include_usage": True}, **options
            ) as stream:
                for chunk in stream:
                    usage = chunk.usage or usage
                    for choice in chunk.choices:
                        text += choice.delta.content or ""
                        stop = choice.finish_reason or stop
                        for call in choice.delta.tool_calls or ():
                            kept = parts.setdefault(call.index, [call.id, "", ""])
                            kept[1] = kept[1] or call.function.name or ""  # llama.cpp repeats it in each chunk
                            kept[2] += call.function.arguments or ""
            calls = [(id, name, given) for id, name, given in parts.values()]
        said: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            said["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": given}}
                for id, name, given in calls
            ]
        self.history.append(said)
        counted = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        return Answer(text, [(name, json.loads(given)) for _, name, given in calls], stop, counted)

    def pieces(self, limit: int) -> Iterator[str]:
        with self._client.chat.completions.create(stream=True, **self._options(limit, None)) as stream:
            for chunk in stream:
                yield from (choice.delta.content for choice in chunk.choices if choice.delta.content)


class Anthropic(Client):
    name, length, calls, too_long = "Anthropic", "max_tokens", "tool_use", "prompt is too long"
    errors = anthropic.APIError

    def connect(self, url: str, key: str) -> None:
        self._client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=60)

    def user(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def beside(self, text: str) -> None:
        self.history[-1]["content"].insert(0, {"type": "text", "text": text})

    def result(self, text: str) -> None:
        id = next(block["id"] for block in self.history[-1]["content"] if block["type"] == "tool_use")
        self.history.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]})

    def _options(self, limit: int, tool: bool | None) -> dict[str, Any]:
        # Without `temperature` in its types, for models that take none: llama.cpp's needs it to say the same each time.
        extra = {"temperature": 0}
        options = {"model": self.model, "messages": self.history, "max_tokens": limit, "extra_body": extra}
        if tool is not None:
            options["tools"] = [{"name": "weather", "description": DESCRIPTION, "input_schema": SCHEMA}]
            options["tool_choice"] = {"type": "tool", "name": "weather"} if tool else {"type": "none"}
        return options

    def ask(self, *, limit: int = 24, tool: bool | None = None) -> Answer:
        if self.stream:
            with self._client.messages.stream(**self._options(limit, tool)) as stream:
                done = stream.get_final_message()
        else:
            done = self._client.messages.create(**self._options(limit, tool))
        content = [block.model_dump(include={"type", "text", "id", "name", "input"}) for block in done.content]
        self.history.append({"role": "assistant", "content": content})
        return Answer(
            "".join(block.text for block in done.content if block.type == "text"),
            [(block.name, block.input) for block in done.content if block.type == "tool_use"],
            done.stop_reason or "",
            (done.usage.input_tokens, done.usage.output_tokens),
        )

    def pieces(self, limit: int) -> Iterator[str]:
        with self._client.messages.stream(**self._options(limit, None)) as stream:
            yield from stream.text_stream


class Gemini(Client):
    name, length, calls, too_long = "Gemini", "MAX_TOKENS", "STOP", "exceeds the maximum number of tokens"
    errors = google_errors.APIError

    def connect(self, url: str, key: str) -> None:
        self._client = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=url, timeout=60_000))

    def user(self, text: str) -> None:
        self.history.append(types.Content(role="user", parts=[types.Part.from_text(text=text)]))

    def beside(self, text: str) -> None:
        self.history[-1].parts.insert(0, types.Part.from_text(text=text))

    def result(self, text: str) -> None:
        call = next(part.function_call for part in self.history[-1].parts if part.function_call)
        given = types.FunctionResponse(name=call.name, id=call.id, response={"output": text})
        self.history.append(types.Content(role="user", parts=[types.Part(function_response=given)]))

    def _given(self, limit: int, tool: bool | None) -> dict[str, Any]:
        config = types.GenerateContentConfig(
            max_output_tokens=limit,
            temperature=0,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        if tool is not None:
            weather = types.FunctionDeclaration(name="weather", description=DESCRIPTION, parameters_json_schema=SCHEMA)
            forced = types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["weather"]
            )
            never = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.NONE)
            config.tools = [types.Tool(function_declarations=[weather])]
            config.tool_config = types.ToolConfig(function_calling_config=forced if tool else never)
        return {"model": self.model, "contents": self.history, "config": config}

    def ask(self, *, limit: int = 24, tool: bool | None = None) -> Answer:
        given = self._given(limit, tool)
        if self.stream:
            chunks = list(self._client.models.generate_content_stream(**given))
        else:
            chunks = [self._client.models.generate_content(**given)]
        candidates = [candidate for chunk in chunks for candidate in chunk.candidates or ()]
        parts = [part for one in candidates for part in (one.content.parts if one.content else None) or ()]
        self.history.append(types.Content(role="model", parts=[p for p in parts if p.text or p.function_call]))
        usage = chunks[-1].usage_metadata
        counted = (usage.prompt_token_count or 0, usage.candidates_token_count or 0) if usage else (0, 0)
        stop = candidates[-1].finish_reason.value if candidates and candidates[-1].finish_reason else ""
        calls = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
        return Answer("".join(part.text or "" for part in parts), calls, stop, counted)

    def pieces(self, limit: int) -> Iterator[str]:
        try:
            for chunk in self._client.models.generate_content_stream(**self._given(limit, None)):
                if chunk.text:
                    yield chunk.text
        finally:
            self._client.close()  # the package keeps the connection of a stream that is left


CLIENTS: tuple[type[Client], ...] = (OpenAI, Anthropic, Gemini)


def leaving(checks: Checks, what: str, client: Client, port: int, limit: int) -> None:
    """A client that leaves a stream closes the gateway's connection to the server at this port."""
    client.user("How is the weather?")
    pieces = client.pieces(limit)
    first = next(pieces)
    during = connections(port)
    pieces.close()  # type: ignore[attr-defined]
    start = time.monotonic()
    while connections(port) and time.monotonic() < start + CLOSES:
        time.sleep(0.002)
    took = time.monotonic() - start
    checks.same(f"{what}: a stream that is left", (True, 1, 0), (bool(first), during, connections(port)))
    print(f"       closed at the upstream after {took * 1000:.0f} ms")


def connections(port: int) -> int:
    """The established connections to a port of this machine."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[2].endswith(f":{port:04X}") and line[3] == "01" for line in lines)
