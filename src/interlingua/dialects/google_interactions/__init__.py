"""Google's Interactions wire (`/v1beta/interactions`): ai.google.dev/api/interactions-api.

A conversation is a list of steps: what the user gave (`user_input`), what the model thought (`thought`), wrote
(`model_output`) and called (`function_call`), and what came of it (`function_result`). All steps of the model between
two of the client are one answer here.
"""

from .facts import API as API
from .facts import FIELD_SUPPORT as FIELD_SUPPORT
from .facts import RESPONSE_SUPPORT as RESPONSE_SUPPORT
from .facts import STOP_REASONS as STOP_REASONS
from .facts import UNEVEN as UNEVEN
from .facts import decode_error as decode_error
from .facts import encode_error as encode_error
from .requests import decode as decode
from .requests import decode_request as decode_request
from .requests import encode as encode
from .requests import encode_request as encode_request
from .requests import path as path
from .responses import StreamDecoder as StreamDecoder
from .responses import StreamEncoder as StreamEncoder
from .responses import decode_response as decode_response
from .responses import encode_response as encode_response
from .responses import framing as framing
