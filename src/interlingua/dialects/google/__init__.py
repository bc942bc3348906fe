"""Gemini's generateContent and streamGenerateContent. ai.google.dev/api/generate-content

Differences from our format:

- a message has `parts` without a type; the data key of a part is its kind;
- any part may have a `thoughtSignature`, which does not make it a thought;
- calls and results may have no ids; results are parts of a user turn (`~joined`), and a result is an object, not text;
- functions are declared in groups;
- the path has the model and whether to stream;
- field names may be in snake_case, each on its own (protobuf's JSON mapping accepts both); `~snake` records where.

Variants have the same bodies on Vertex AI, and in the envelope of Cloud Code Assist, the host of Gemini CLI.

In reading order: `facts`, `content`, `messages`, `requests`, `answers`, `streams`; `wire` makes the `Wire` of them.
"""

from ..framing import sse_framing as framing
from .facts import API, FIELD_SUPPORT, STOP_REASONS, UNEVEN, decode_error, encode_error
from .messages import decode_messages, encode_messages, pieces_of
from .requests import decode, decode_request, encode, encode_request, path
from .responses import decode_response, encode_response
from .streams import StreamDecoder, StreamEncoder

__all__ = [
    "API", "FIELD_SUPPORT", "STOP_REASONS", "UNEVEN", "StreamDecoder", "StreamEncoder", "decode", "decode_error",
    "decode_messages", "decode_request", "decode_response", "encode", "encode_error", "encode_messages",
    "encode_request", "encode_response", "framing", "path", "pieces_of",
]  # fmt: skip
