"""The `google-genai` package. Contents are given in wire shape; it has no final message, so streams are raw chunks."""

from collections.abc import Callable
from typing import Any

import httpx2 as httpx
from google import genai
from google.genai import types

import limits
import worker
from conversation import Chat
from limits import Decoded
from peers.transport import canned

MODEL = "gemini-2.5-pro"


def request(wire: str, chat: Chat) -> Callable[[], bytes]:
    transport = canned(httpx, wire)
    client = _client(transport)
    body = limits.gemini(chat)
    config = {
        "system_instruction": body["systemInstruction"],
        "max_output_tokens": body["generationConfig"]["maxOutputTokens"],
        "tools": body["tools"],
        "automatic_function_calling": {"disable": True},
    }

    def call() -> bytes:
        client.models.generate_content(model=MODEL, contents=body["contents"], config=config)
        return transport.sent

    return call


def raw(wire: str, chunks: list[bytes]) -> Callable[[], Any]:
    client = _client(canned(httpx, wire, chunks))
    return lambda: list(client.models.generate_content_stream(model=MODEL, contents="hi"))


def _client(transport: Any) -> genai.Client:
    return genai.Client(
        api_key="none",
        http_options=types.HttpOptions(
            httpx_client=httpx.Client(transport=transport), httpx_async_client=httpx.AsyncClient(transport=transport)
        ),
    )


def decoded(answer: Any) -> Decoded:
    found = Decoded()
    for chunk in answer:
        for part in chunk.candidates[0].content.parts:
            if part.function_call:
                found.arguments = part.function_call.args
            elif part.thought:
                found.thinking += part.text
            else:
                found.text += part.text
    return found


if __name__ == "__main__":
    worker.serve({"request": request, "raw": raw}, decoded)
