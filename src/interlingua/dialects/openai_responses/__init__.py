"""OpenAI Responses. Knows nothing of HTTP, keys, clocks or other dialects.

Shapes that differ from ours: a conversation is a flat list of items, so an answer is every item between two of the
user's (reasoning, messages, calls): these are one message here, a block for each item, and for each part of a message
item. What the wire says of such an item is on its first block, and `~joined` on the others. Reasoning comes in parts;
the block has them joined by blank lines, and hints say how long each is. Calls have two ids: ours is the one that
results name (`call_id`), the item's own is in `extra`.

An item of an answer may go back as input, but not all of it: its status, for one, is refused. So the residual of an
answer's item is in two places, and what lies under `~response` is never sent.

A stream is put together as the wire's own items and read as the whole answer would be, so both give equal messages by
construction. Also, as Variants, the same bodies at Azure's and at the Codex backend's address, and as messages of a
WebSocket, one a line.

In reading order: `facts`, `content`, `messages`, `requests`, `answers`, `decoding` and `encoding`; none knows those
after it.
"""

from .answers import decode_response, encode_response
from .content import decode_item, encode_item
from .decoding import StreamDecoder, framing
from .encoding import StreamEncoder
from .facts import API, FIELD_SUPPORT, STOP_REASONS, UNEVEN, decode_error, encode_error
from .messages import decode_messages, encode_messages
from .requests import decode, decode_request, encode, encode_request, path

__all__ = [
    "API",
    "FIELD_SUPPORT",
    "STOP_REASONS",
    "UNEVEN",
    "StreamDecoder",
    "StreamEncoder",
    "decode",
    "decode_error",
    "decode_item",
    "decode_messages",
    "decode_request",
    "decode_response",
    "encode",
    "encode_error",
    "encode_item",
    "encode_messages",
    "encode_request",
    "encode_response",
    "framing",
    "path",
]
