"""Cohere's chat API, version 2 (`POST /v2/chat`). docs.cohere.com/reference/chat

A message has a list of text and thinking items. Beside it are its calls (`tool_calls`), the plan that led to them
(`tool_plan`) and the sources of its text (`citations`). A plan is read as thinking before the other blocks; calls come
last.

In reading order: `facts`, `content`, `requests`, `responses`; `wire` makes the `Wire` of them.
"""

from ..framing import sse_framing as framing
from .facts import API, FIELD_SUPPORT, STOP_REASONS, UNEVEN, decode_error, encode_error
from .requests import decode, decode_request, encode, encode_request, path
from .responses import StreamDecoder, StreamEncoder, decode_response, encode_response

__all__ = [
    "API", "FIELD_SUPPORT", "STOP_REASONS", "UNEVEN", "StreamDecoder", "StreamEncoder", "decode", "decode_error",
    "decode_request", "decode_response", "encode", "encode_error", "encode_request", "encode_response", "framing",
    "path",
]  # fmt: skip
