"""In place of the network: keeps what was to be sent, gives a canned answer. Everything above it runs as it is."""

import json
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

# The smallest answer that each vendor's package accepts.
REPLIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "openai": {
        "id": "chatcmpl-01",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "gpt-5",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    },
    "responses": {
        "id": "resp_01",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": "gpt-5",
        "output": [
            {
                "id": "msg_01",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "ok", "annotations": []}],
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    },
    "gemini": {
        "candidates": [{"content": {"parts": [{"text": "ok"}], "role": "model"}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "gemini-2.5-pro",
    },
    "bedrock": {
        "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    },
}


def canned(http: ModuleType, wire: str, chunks: list[bytes] | None = None) -> Any:
    """A transport for clients of `http` (httpx or httpx2), sync and async: the reply, or the chunks of a stream.

    `.sent` is the body of the last request.
    """
    reply = json.dumps(REPLIES[wire]).encode()
    kind = "application/json" if chunks is None else "text/event-stream"

    class Pieces(http.SyncByteStream, http.AsyncByteStream):  # type: ignore[name-defined, misc]
        def __iter__(self) -> Iterator[bytes]:
            return iter(chunks or [reply])

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in chunks or [reply]:
                yield chunk

    class Transport(http.BaseTransport, http.AsyncBaseTransport):  # type: ignore[name-defined, misc]
        sent = b""

        def handle_request(self, request: Any) -> Any:
            self.sent = request.read()
            return http.Response(200, headers={"content-type": kind}, stream=Pieces(), request=request)

        async def handle_async_request(self, request: Any) -> Any:
            self.sent = await request.aread()
            return http.Response(200, headers={"content-type": kind}, stream=Pieces(), request=request)

    return Transport()
