"""A provider that repeats the key in its answers does not get it into errors, answers or telemetry."""

import asyncio
import json
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import interlingua as il

KEY = "sk-key-0123456789abcdefghij"
ERROR = {"message": f"bad key {KEY}", "code": KEY, "type": KEY, "param": KEY, KEY: [KEY]}
BODIES: list[tuple[int, Any]] = [
    (400, {"error": ERROR}),
    (401, {"error": ERROR}),
    (429, {"type": "error", "error": ERROR, "request_id": KEY}),
    (500, {"error": {"code": 500, "status": KEY, "message": KEY, "details": [{"reason": KEY}]}}),
    (403, {"message": KEY, "__type": KEY}),
    (404, KEY),
    (200, {"error": ERROR}),
    (200, {"id": KEY, "model": KEY, "choices": [{"index": 0, "finish_reason": KEY, "message": {"content": "hi"}}]}),
    (200, {"id": KEY, "type": "message", "role": "assistant", "model": KEY, "content": [], "stop_reason": KEY}),
    (200, {"id": KEY, "status": "failed", "error": {"code": KEY, "message": KEY}, "output": []}),
    (200, {"candidates": [{"finishReason": KEY, "finishMessage": KEY, "content": {"parts": [{"text": "x"}]}}]}),
    (200, {"promptFeedback": {"blockReason": KEY, "blockReasonMessage": KEY}, "responseId": KEY}),
]


@asynccontextmanager
async def answering(status: int, body: Any) -> AsyncIterator[str]:
    """A server that gives one answer to every request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} {KEY}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    "model", ["openai/gpt-4o-chat", "anthropic/claude-x", "google/gemini-x", "groq/x", "openai/gpt-4o"]
)
@pytest.mark.parametrize(("status", "body"), BODIES, ids=range(len(BODIES)))
async def test_a_key_that_a_provider_repeats_is_hidden(model: str, status: int, body: Any) -> None:
    """In the text, code and body of errors, in the whole message with stop detail, and in the printed traceback."""
    async with answering(status, body) as address:
        try:
            stream = il.stream(model, "hi", base_url=address, api_key=KEY, retry=False)
            events = [event async for event in stream]
            shown = repr(events[-1]) + repr(getattr(stream, "failure", None))
            message = await stream.result()
            shown += repr((message.stop_detail, message.error_message, message.response_id, message.response_model))
        except il.InterlinguaError as error:
            shown = "".join(traceback.format_exception(error)) + repr(vars(error))
    assert KEY not in shown


@pytest.mark.parametrize("url", [
    "ftp://user:pa55word@host.example/v1", "FTP://u:pa55word@h", "ssh://u:pa55%40word@h", "//u:pa55word@h", "file:///pa55word",
    "http://u:pa55word@h:99999/", "http://u:pa55@word@[::bad/", "javascript:pa55word", "gopher://u:pa55word@h", "http://",
    "ftp://u:pa55/word@h", "ftp://u:pa55?word@h", "ws://u:pa55word@h", "http://u:pa55word@:80/",
])  # fmt: skip
async def test_an_address_that_cannot_be_called_is_not_repeated(url: str) -> None:
    """A typed error says what is wrong with it; the password in it is in no message and no traceback."""
    with pytest.raises(il.InterlinguaError) as caught:
        await il.complete("openai/gpt-4o", "hi", base_url=url, api_key=KEY)
    shown = "".join(line for line in traceback.format_exception(caught.value) if "base_url=" not in line)
    assert "pa55" not in shown
    assert "pa55" not in repr(vars(caught.value))
