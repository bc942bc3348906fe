"""OpenAI's chat completions wire as one value."""

from typing import Any

from ...values import jsontext
from ...values.errors import ProviderError
from .. import openai_chat, shapes
from ..framing import write_sse
from ..limits import COMPLETIONS as LIMITS
from ..openai_shared import openai_models
from ..wire import Evidence, Http, Wire

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))


def _error_event(error: ProviderError, sent: int, body: Any) -> bytes:
    return write_sse(jsontext.write(body))


def _is_request(value: Any) -> bool:
    roles = shapes.roles(value)
    return bool(roles) and roles <= _ROLES


OPENAI_CHAT = Wire(
    api=openai_chat.API,
    codec=openai_chat,
    limits=LIMITS,
    http=Http(
        route=r"/chat/completions",
        route_rank=80,
        base="/v1",
        models_path="/models",
        list_models=openai_models,
        charset="; charset=utf-8",
        response_id="chatcmpl-",
        error_event=_error_event,
    ),
    evidence=(
        Evidence("event", 30, "chunks that have `choices`", shapes.has("choices")),
        Evidence("response", 30, "an answer with `choices`", shapes.has("choices")),
        Evidence("request", 80, "messages with the chat roles", _is_request),
    ),
    telemetry="openai",
)
