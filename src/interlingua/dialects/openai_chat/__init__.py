"""OpenAI Chat Completions, as OpenAI and the many hosts that copied it speak it.

Knows nothing of HTTP, keys, clocks or other dialects. What hosts do differently is data (`Compat`), never a name.

Shapes that differ from ours: an assistant message is no list but has a place for each kind of content ("tracks":
thinking, `content`, `refusal`, `tool_calls`, …), so the order between kinds is the wire's own; a stream shows the order
in which the model spoke, and it is kept. A whole message in another order than the wire's is reported. Thinking
comes under several names, sometimes under two at once, and at OpenRouter also as `reasoning_details` with signatures
and sealed payloads: a text is read once.

Hints on messages: `~parts` (content as a list although a string would do), `~moved` (media of a result that stood
behind the results: see `result_media`), `~repeats` (fields that repeat the text of
the details); on blocks: `~part` (a part of `content`), `~fields` and `~detail` (where thinking stood),
`~as`, `~plain`, `~prefix`, `~split` (spelling of media and thinking), `~object` and `~custom` (how a call was made),
`~minted` (an id of ours).
"""

from .answers import decode_response, encode_response
from .decoding import StreamDecoder, framing
from .encoding import StreamEncoder
from .facts import (
    API,
    FIELD_SUPPORT,
    STOP_REASONS,
    UNEVEN,
    WIRE_STOP_REASONS,
    Compat,
    compat_of,
    decode_error,
    encode_error,
)
from .requests import decode, decode_request, encode, encode_request, path

__all__ = [
    "API",
    "FIELD_SUPPORT",
    "STOP_REASONS",
    "UNEVEN",
    "WIRE_STOP_REASONS",
    "Compat",
    "StreamDecoder",
    "StreamEncoder",
    "compat_of",
    "decode",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode",
    "encode_error",
    "encode_request",
    "encode_response",
    "framing",
    "path",
]
