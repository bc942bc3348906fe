"""OpenAI Responses (`POST /v1/responses`). platform.openai.com/docs/api-reference/responses

A conversation is a flat list of items. All items of the model between two of the client (reasoning, messages, calls)
are one assistant message in our format, with a block for each item and for each part of a message item:

- the fields of an item are on its first block; the other blocks of a message item have `~joined`;
- reasoning comes in parts; the block has them joined by blank lines, and hints record the length of each;
- calls have two ids: ours is `call_id`, which results refer to; the id of the item is in `extra`.

An item of an answer may be sent back as input, but not all of its fields: `status`, for one, is refused. So the
residual of such an item is in two places, and what is under `~response` is never sent.

A stream is assembled into the wire's items and decoded as a whole answer, so both give equal messages. Variants have
the same bodies on Azure, at the Codex backend, and as messages of a WebSocket, one a line.

In reading order: `facts`, `content`, `messages`, `requests`, `answers`, `decoding`, `encoding`; `wire` makes the `Wire`
of them.
"""

from ..framing import sse_framing as framing
from ..openai_shared import encode_error
from .content import decode_item, encode_item
from .facts import API, FIELD_SUPPORT, STOP_REASONS, UNEVEN, decode_error
from .messages import decode_messages, encode_messages, messages_in
from .requests import decode, decode_request, encode, encode_request, path
from .responses import decode_response, encode_response
from .streams import StreamDecoder, StreamEncoder

__all__ = [
    "API", "FIELD_SUPPORT", "STOP_REASONS", "UNEVEN", "StreamDecoder", "StreamEncoder", "decode", "decode_error",
    "decode_item", "decode_messages", "decode_request", "decode_response", "encode", "encode_error", "encode_item",
    "encode_messages", "encode_request", "encode_response", "framing", "messages_in", "path",
]  # fmt: skip
