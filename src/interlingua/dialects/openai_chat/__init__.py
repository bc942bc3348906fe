"""OpenAI Chat Completions, and the many hosts with compatible APIs. platform.openai.com/docs/api-reference/chat

How a host differs is data (`Compat`); no code asks for the name of a host. Differences from our format:

- an assistant message has a field for each kind of content (called tracks here: thinking, `content`, `refusal`,
  `tool_calls`, …) instead of a list, so the order between kinds is fixed. A stream has the real order, which is kept;
  encoding a message in another order reports a loss;
- thinking comes under several field names, sometimes under two at once, and at OpenRouter also as `reasoning_details`
  with signatures and encrypted payloads; the same text is read once.

Hints on messages: `~parts` (content was a list although a string would do), `~moved` (media of a result that were sent
after the results: see `results`), `~repeats` (fields that repeat the text of the details). On blocks: `~part` (one of
the parts of `content`), `~fields` and `~detail` (where thinking was), `~as`, `~plain`, `~prefix` and `~split` (spelling
of media and thinking), `~object` and `~custom` (the form of a call).

In reading order: `facts`, `content`, `messages`, `requests`, `responses`, `accumulators`, `streams`; `wire` makes the
`Wire` of them.
"""

from ..framing import sse_framing as framing
from ..openai_shared import encode_error
from .facts import API, FIELD_SUPPORT, STOP_REASONS, UNEVEN, decode_error
from .requests import decode, decode_request, encode, encode_request, path
from .responses import decode_response, encode_response
from .streams import StreamDecoder, StreamEncoder

__all__ = [
    "API", "FIELD_SUPPORT", "STOP_REASONS", "UNEVEN", "StreamDecoder", "StreamEncoder", "decode", "decode_error",
    "decode_request", "decode_response", "encode", "encode_error", "encode_request", "encode_response", "framing",
    "path",
]  # fmt: skip
