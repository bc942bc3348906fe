"""`litellm`: its asynchronous calls, the faster ones of the two.

`aresponses` passes the provider's own events on and builds no message, so it stands among the raw rows; the message of
a Responses stream is what `acompletion` makes of it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import httpx
import litellm
import msgspec
import openai
from litellm.llms.custom_httpx import llm_http_handler
from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

import limits
import worker
from conversation import Assistant, Call, Chat, Image, Result, Text, Thinking, User
from limits import Decoded
from peers.transport import canned

logging.disable(logging.CRITICAL)
litellm.suppress_debug_info = True

LOOP = asyncio.new_event_loop()
MODELS = {
    "anthropic": "anthropic/claude-opus-4-8",
    "openai": "openai/gpt-5",
    "responses": "openai/gpt-5",
    "gemini": "gemini/gemini-2.5-pro",
    "bedrock": "bedrock/converse/anthropic.claude-sonnet-4-20250514-v1:0",
}
AWS = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "aws_region_name": "us-east-1"}


def request(wire: str, chat: Chat) -> Callable[[], bytes]:
    transport = canned(httpx, wire)
    client = _client(wire, transport)
    common = {"model": MODELS[wire], "client": client, "api_key": "none", "max_retries": 0}
    if wire == "responses":
        body = limits.responses(chat) | common
        send: Callable[..., Any] = litellm.aresponses
    else:
        body = {"messages": _messages(chat), "tools": limits.openai(chat)["tools"], "max_tokens": chat.max_tokens}
        body |= common | (AWS if wire == "bedrock" else {})
        send = litellm.acompletion

    def call() -> bytes:
        LOOP.run_until_complete(send(**body))
        return transport.sent

    return call


def stream(wire: str, chunks: list[bytes]) -> Callable[[], Any]:
    options = _options(wire, chunks)
    if wire == "responses":
        options["model"] = "openai/responses/gpt-5"
        # On its way to this wire, `acompletion` forgets the client that it was given and asks for another.
        llm_http_handler.get_async_httpx_client = lambda **_: options["client"]

    async def read() -> Any:
        answer = await litellm.acompletion(messages=[{"role": "user", "content": "hi"}], **options)
        return litellm.stream_chunk_builder([chunk async for chunk in answer])

    return lambda: LOOP.run_until_complete(read())


def raw(wire: str, chunks: list[bytes]) -> Callable[[], Any]:
    options = _options(wire, chunks)

    async def read() -> Any:
        last = None
        async for event in await litellm.aresponses(input="hi", **options):
            last = event
        return last.response

    return lambda: LOOP.run_until_complete(read())


def _options(wire: str, chunks: list[bytes]) -> dict[str, Any]:
    client = _client(wire, canned(httpx, wire, chunks))
    return {"model": MODELS[wire], "client": client, "api_key": "none", "max_retries": 0, "stream": True}


def _client(wire: str, transport: Any) -> Any:
    if wire == "openai":
        return openai.AsyncOpenAI(api_key="none", http_client=httpx.AsyncClient(transport=transport), max_retries=0)
    return AsyncHTTPHandler(transport=transport)


def _messages(chat: Chat) -> list[dict[str, Any]]:
    messages = [{"role": "system", "content": chat.system}]
    for message in chat.messages:
        match message:
            case Result():
                messages.append({"role": "tool", "tool_call_id": message.call_id, "content": message.text})
            case User():
                messages.append({"role": "user", "content": [_part(block) for block in message.content]})
            case Assistant():
                messages.append(_assistant(message))
    return messages


def _part(block: Any) -> dict[str, Any]:
    if isinstance(block, Image):
        return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}
    return {"type": "text", "text": block.text}


def _assistant(message: Assistant) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": ""}
    for block in message.content:
        match block:
            case Text():
                wire["content"] += block.text
            case Thinking():
                thinking = {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
                wire.setdefault("thinking_blocks", []).append(thinking)
            case Call():
                function = {"name": block.name, "arguments": msgspec.json.encode(block.arguments).decode()}
                wire.setdefault("tool_calls", []).append({"id": block.id, "type": "function", "function": function})
    return wire


def decoded(answer: Any) -> Decoded:
    if hasattr(answer, "choices"):
        message = answer.choices[0].message
        calls = message.tool_calls or ()
        arguments = msgspec.json.decode(calls[0].function.arguments) if calls else None
        return Decoded(message.content or "", getattr(message, "reasoning_content", None) or "", arguments)
    found = Decoded()
    for item in answer.output:
        if item.type == "message":
            found.text += "".join(part.text for part in item.content)
        elif item.type == "reasoning":
            found.thinking += "".join(part.text for part in item.summary)
        elif item.type == "function_call":
            found.arguments = msgspec.json.decode(item.arguments)
    return found


if __name__ == "__main__":
    worker.serve({"request": request, "stream": stream, "raw": raw}, decoded)
