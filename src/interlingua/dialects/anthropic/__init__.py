"""Anthropic Messages. Knows nothing of HTTP, keys, clocks or other dialects.

Shapes that differ from ours: the system prompt is a top-level field; tool results are blocks inside user messages (one
wire message may hold several results and user content: hint `~joined`); thinking is signed; redacted thinking is a
sealed payload.

Also, as a Variant, the same bodies in AWS event-stream frames (Bedrock's InvokeModel): no `model`, no `stream`.

To read in this order: facts, content, messages, requests, answers, streams; errors and chunks beside them.
"""

from .content import decode_block, decode_messages, encode_block, encode_messages
from .facts import API, FIELD_SUPPORT, STOP_REASONS, UNEVEN, WIRE_STOP_REASONS, decode_error, encode_error
from .requests import decode, decode_request, encode, encode_request, path
from .responses import StreamDecoder, StreamEncoder, decode_response, encode_response, framing

__all__ = [
    "API",
    "FIELD_SUPPORT",
    "STOP_REASONS",
    "UNEVEN",
    "WIRE_STOP_REASONS",
    "StreamDecoder",
    "StreamEncoder",
    "decode",
    "decode_block",
    "decode_error",
    "decode_messages",
    "decode_request",
    "decode_response",
    "encode",
    "encode_block",
    "encode_error",
    "encode_messages",
    "encode_request",
    "encode_response",
    "framing",
    "path",
]
