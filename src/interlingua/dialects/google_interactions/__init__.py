"""Google's Interactions API (`POST /v1beta/interactions`). ai.google.dev/api/interactions-api

A conversation is a list of steps: user input (`user_input`), thoughts (`thought`), output (`model_output`), calls
(`function_call`) and their results (`function_result`). All steps of the model between two of the client are one
assistant message in our format.

In reading order: `facts`, `content`, `messages`, `requests`, `responses`; `wire` makes the `Wire` of them.
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
