"""Anthropic Messages (`POST /v1/messages`). docs.claude.com/en/api/messages

Differences from our format:

- the system prompt is a top-level field, not a message;
- tool results are blocks inside user messages; one wire message may hold several results and user content, and the hint
  `~joined` records where results do not share a message as usual;
- thinking is signed, and redacted thinking is an encrypted payload without text.

Two variants have the same bodies at other hosts: Bedrock's InvokeModel (in AWS event-stream frames) and Vertex AI.

In reading order: `facts`, `content`, `requests`, `responses`; `wire` makes the `Wire` of them.
"""

from ..framing import sse_framing as framing
from .content import decode_messages, encode_messages
from .facts import API, FIELD_SUPPORT, STOP_REASONS, UNEVEN, decode_error, encode_error
from .requests import decode, decode_request, encode, encode_request, path
from .responses import StreamDecoder, StreamEncoder, decode_response, encode_response

__all__ = [
    "API", "FIELD_SUPPORT", "STOP_REASONS", "UNEVEN", "StreamDecoder", "StreamEncoder", "decode", "decode_error",
    "decode_messages", "decode_request", "decode_response", "encode", "encode_error", "encode_messages",
    "encode_request", "encode_response", "framing", "path",
]  # fmt: skip
