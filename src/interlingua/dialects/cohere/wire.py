"""The `Wire` of Cohere's chat API."""

import re
from collections.abc import Sequence
from typing import Any

from ...values import jsontext
from ...values.errors import ProviderError
from .. import cohere, shapes
from ..framing import write_sse
from ..limits import TargetLimits
from ..wire import EmbeddingRoute, Evidence, Http, Wire

API = cohere.API


def _models(names: Sequence[str]) -> dict[str, Any]:
    # docs.cohere.com/reference/list-models: models have a `name`, no `id`, and the endpoints that they serve.
    return {"models": [{"name": name, "endpoints": ["chat"]} for name in names]}


def _error_event(error: ProviderError, sent: int, body: Any) -> bytes:
    # docs.cohere.com/reference/chat-stream: no event for errors: the last event has the reason ERROR.
    delta = {"error": body["message"], "finish_reason": "ERROR"}
    return write_sse(jsontext.write({"type": "message-end", "delta": delta}), "message-end")


# docs.cohere.com/reference/embed: at most 96 texts.
def _encode_texts(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    size = {} if dimensions is None else {"output_dimension": dimensions}
    return {
        "model": model,
        "texts": list(texts),
        # docs.cohere.com/reference/embed: required for models from v3 on.
        "input_type": "search_document",
        "embedding_types": ["float"],
        **size,
    }


def _decode_vectors(body: Any) -> tuple[list[list[float]], int | None]:
    tokens = ((body.get("meta") or {}).get("billed_units") or {}).get("input_tokens")
    return [[float(one) for one in row] for row in body["embeddings"]["float"]], tokens


_KINDS = re.compile("(?:message|content|citation|tool-call|tool-plan)-(?:start|delta|end)")


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and _KINDS.fullmatch(value["type"]) is not None


def _is_answer(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("message"), dict)
        and value.get("finish_reason") in cohere.STOP_REASONS
    )


# Option names that only Cohere has.
_OWN = frozenset(("p", "k", "strict_tools", "safety_mode", "citation_options"))


def _is_request(value: Any) -> bool:
    if isinstance(value, dict) and "messages" in value:
        if value.get("tool_choice") in ("REQUIRED", "NONE") or shapes.has_any(value, _OWN):
            return True
        if isinstance(value.get("documents"), list):
            return True
        if str(value.get("model", "")).startswith(("command", "c4ai-")):
            return True
    return any("tool_plan" in message for message in shapes.messages(value))


COHERE = Wire(
    api=API,
    codec=cohere,
    limits=TargetLimits(
        api=API,
        error_flag=False,
        later_system=True,
        images=("data", "url"),
        documents=(),
        # docs.cohere.com/reference/chat, tool message: text and documents.
        result_media=False,
        reasoning=("budget", "switch"),
        max_stop_sequences=5,  # docs.cohere.com/reference/chat, `stop_sequences`
        max_temperature=1.0,  # "temperature must be between 0 and 1.0 inclusive"
    ),
    vendor="cohere",
    calls_beside=True,
    http=Http(
        route=r"/v2/chat",
        models_path="/v1/models",
        list_models=_models,
        error_event=_error_event,
        embeddings=EmbeddingRoute(
            path=lambda model: "/v2/embed", encode=_encode_texts, decode=_decode_vectors, batch=lambda model: 96
        ),
    ),
    evidence=(
        Evidence("event", 30, "events of Cohere's stream", _is_event),
        Evidence("chunk", 30, "events of Cohere's stream", _is_event),
        Evidence("response", 30, "a `finish_reason` of Cohere's beside `message`", _is_answer),
        Evidence("request", 60, "Cohere's options, models or `tool_plan`", _is_request),
    ),
    telemetry="cohere",
)
