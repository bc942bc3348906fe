"""The `openai` package: Chat Completions and Responses. Bodies are given in wire shape."""

from collections.abc import Callable
from typing import Any

import httpx2 as httpx
import msgspec
import openai

import limits
import worker
from conversation import Chat
from limits import Decoded
from peers.transport import canned


def request(wire: str, chat: Chat) -> Callable[[], bytes]:
    transport = canned(httpx, wire)
    client = _client(transport)
    create = client.chat.completions.create if wire == "openai" else client.responses.create
    body = limits.BODIES[wire](chat)

    def call() -> bytes:
        create(**body)
        return transport.sent

    return call


def stream(wire: str, chunks: list[bytes]) -> Callable[[], Any]:
    client = _client(canned(httpx, wire, chunks))

    def chat() -> Any:
        with client.chat.completions.stream(model="gpt-5", messages=[{"role": "user", "content": "hi"}]) as answer:
            return answer.get_final_completion()

    def responses() -> Any:
        with client.responses.stream(model="gpt-5", input="hi") as answer:
            return answer.get_final_response()

    return chat if wire == "openai" else responses


def _client(transport: Any) -> openai.OpenAI:
    return openai.OpenAI(api_key="none", http_client=httpx.Client(transport=transport), max_retries=0)


def decoded(answer: Any) -> Decoded:
    if hasattr(answer, "choices"):
        message = answer.choices[0].message
        calls = message.tool_calls or ()
        thinking = getattr(message, "reasoning_content", None) or ""
        return Decoded(message.content or "", thinking, _parsed(calls[0].function.arguments) if calls else None)
    found = Decoded()
    for item in answer.output:
        if item.type == "message":
            found.text += "".join(part.text for part in item.content)
        elif item.type == "reasoning":
            found.thinking += "".join(part.text for part in item.summary)
        elif item.type == "function_call":
            found.arguments = _parsed(item.arguments)
    return found


def _parsed(arguments: str) -> Any:
    return msgspec.json.decode(arguments)


if __name__ == "__main__":
    worker.serve({"request": request, "stream": stream}, decoded)
