"""Google's generateContent and streamGenerateContent. Knows nothing of HTTP, keys, clocks or other dialects.

Shapes that differ from ours: a message is `parts` without types, identified by their one data key; any part may be
signed (`thoughtSignature`), and a signature does not make a part a thought; calls and results may lack ids, and results
are parts of a user turn (hint `~joined`); a result is an object, not text; functions are declared in groups; model and
streaming are given in the path. Names may be spelled in snake_case, one by one: where they were is a hint (`~snake`).

Also, as Variants, the same bodies at Vertex AI, and in the envelope of Gemini CLI's host (Cloud Code Assist).

To read in this order: facts, spelling, content, messages, requests, citations, answers, streams; errors beside them.
"""

from .answers import decode_response, encode_response
from .content import decode_block, encode_block
from .facts import API, FIELD_SUPPORT, STOP_REASONS, UNEVEN, WIRE_STOP_REASONS, decode_error, encode_error
from .messages import decode_messages, encode_messages
from .requests import decode, decode_request, encode, encode_request, path
from .streams import StreamDecoder, StreamEncoder, framing

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
