"""Amazon Bedrock Converse and ConverseStream, as JSON on the REST wire: blobs are base64 strings.

Shapes that differ from ours: a block is an object with one key that names its kind; a cache point is a block of its
own, after the one it marks; tool results are blocks inside user messages (hint `~joined`, as one wire message may hold
several results and user content); cited text has a block of its own. Model and stream are in the path, and
what only some models understand (thinking, top_k) travels in `additionalModelRequestFields`.

In reading order: `facts`, `content`, `requests`, `responses`.
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
