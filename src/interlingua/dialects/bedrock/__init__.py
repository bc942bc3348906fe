"""Amazon Bedrock Converse and ConverseStream. docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html

Bodies are those of the REST API, where blobs are base64 strings. Differences from our format:

- a block is an object whose only key names its kind (`{"text": …}`, `{"toolUse": …}`);
- a cache point is a block of its own, after the block that it marks;
- tool results are blocks inside user messages; one wire message may hold several results and user content (`~joined`);
- text with citations has a block of its own kind, `citationsContent`;
- the path has the model and whether to stream;
- fields of single model families (`thinking`, `top_k`) go into `additionalModelRequestFields`.

In reading order: `facts`, `content`, `requests`, `responses`; `wire` makes the `Wire` of them.
"""

from .content import decode_messages, encode_messages
from .facts import API, FIELD_SUPPORT, STOP_REASONS, UNEVEN, decode_error, encode_error
from .requests import decode, decode_request, encode, encode_request, path
from .responses import StreamDecoder, StreamEncoder, decode_response, encode_response, framing

__all__ = [
    "API", "FIELD_SUPPORT", "STOP_REASONS", "UNEVEN", "StreamDecoder", "StreamEncoder", "decode", "decode_error",
    "decode_messages", "decode_request", "decode_response", "encode", "encode_error", "encode_messages",
    "encode_request", "encode_response", "framing", "path",
]  # fmt: skip
