"""The `anthropic` package. It is given a body in wire shape, so its cost is pure overhead of the SDK."""

from collections.abc import Callable
from typing import Any

import anthropic
import httpx2 as httpx

import limits
import worker
from conversation import Chat
from limits import Decoded
from peers.transport import canned

MODEL = "claude-opus-4-8"


def request(wire: str, chat: Chat) -> Callable[[], bytes]:
    transport = canned(httpx, wire)
    client = _client(transport)
    body = limits.anthropic(chat) | {"model": MODEL}

    def call() -> bytes:
        client.messages.create(**body)
        return transport.sent

    return call


def stream(wire: str, chunks: list[bytes]) -> Callable[[], Any]:
    client = _client(canned(httpx, wire, chunks))

    def call() -> Any:
        with client.messages.stream(
            model=MODEL, max_tokens=100, messages=[{"role": "user", "content": "hi"}]
        ) as answer:
            return answer.get_final_message()

    return call


def _client(transport: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="none", http_client=httpx.Client(transport=transport), max_retries=0)


def decoded(message: Any) -> Decoded:
    found = Decoded()
    for block in message.content:
        if block.type == "text":
            found.text += block.text
        elif block.type == "thinking":
            found.thinking += block.thinking
        elif block.type == "tool_use":
            found.arguments = block.input
    return found


if __name__ == "__main__":
    worker.serve({"request": request, "stream": stream}, decoded)
