"""Gemini's wire as one value, and its relatives: Vertex AI, and the envelope of Cloud Code Assist."""

from collections.abc import Sequence
from typing import Any

from ...values import jsontext
from ...values.errors import FormatError, ProviderError
from .. import google, shapes
from ..framing import write_sse
from ..limits import GOOGLE as LIMITS
from ..wire import Evidence, Http, Wire

_VERBS = "generateContent|streamGenerateContent"
_MODELS = r"/(?:models|publishers/[^/]+/models)"


def _models(names: Sequence[str]) -> dict[str, Any]:
    verbs = ["generateContent", "streamGenerateContent"]
    limits = {"inputTokenLimit": 1048576, "outputTokenLimit": 65536}
    entries = [
        {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": verbs, **limits} for name in names
    ]
    return {"models": entries}


def _error_event(error: ProviderError, sent: int, body: Any) -> bytes:
    return write_sse(jsontext.write(body))


def _is_request(value: Any) -> bool:
    if isinstance(value, dict):
        return "contents" in value
    return any(isinstance(message.get("parts"), list) and "id" not in message for message in shapes.messages(value))


def _token_and_project(key: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Cloud Code Assist's credential is a token and a project in one JSON text; the project goes into the envelope."""
    try:
        both = jsontext.read(key)
    except FormatError:
        return key, body
    if not isinstance(both, dict):
        return key, body
    project = both.get("projectId")
    return str(both.get("token", "")), ({**body, "project": project} if project else body)


def _evidence(rank: int) -> tuple[Evidence, ...]:
    return (
        Evidence("event", rank, "chunks that have `candidates`", lambda v: v.keys() & {"candidates", "promptFeedback"}),
        Evidence("chunk", rank, "an array of chunks that have `candidates`", shapes.has("candidates")),
        Evidence("response", rank - 30, "an answer with `candidates`", shapes.has("candidates")),
        Evidence("response", rank - 30, "an answer with `promptFeedback`", shapes.has("promptFeedback")),
        Evidence("request", rank - 30, "`contents` with `parts`", _is_request),
    )


GOOGLE = Wire(
    api=google.API,
    codec=google,
    limits=LIMITS,
    http=Http(
        route=rf"/((?:models|tunedModels)/[^:]+?):({_VERBS})",
        route_rank=30,
        base="/v1beta",
        model_prefix="models/",
        auth="x-goog-api-key",
        models_route=_MODELS,
        models_path="/models?pageSize=1",
        list_models=_models,
        json_streams=True,
        streaming="streamGenerateContent",
        request_id="x-goog-request-id",
        error_event=_error_event,
    ),
    evidence=_evidence(50),
    telemetry="gcp.gemini",
)
VERTEX = GOOGLE.variant(
    "google-vertex",
    quirks={"publisher": "google"},
    limits={"max_images": 3000, "image_bytes": 7_000_000 * 4 // 3},
    http={
        "route": rf"/((?:publishers/[^/]+/models|endpoints|models)/[^:]+?):({_VERBS})",
        "route_rank": 40,
        "base": "/v1/projects/test/locations/us-central1",
        "model_prefix": "publishers/google/models/",
        "auth": "google",
        "models_path": None,
    },
    evidence=_evidence(51),
    telemetry="gcp.vertex_ai",
)
GEMINI_CLI = GOOGLE.variant(
    "google-gemini-cli",
    quirks={"envelope": True},
    http={
        "route": rf"/v1internal(?P<none>):({_VERBS})",
        "route_rank": 10,
        "base": "",
        "auth": "bearer",
        "unpack_key": _token_and_project,
        "models_path": None,
    },
    evidence=(
        Evidence("event", 40, "an envelope around `candidates`", lambda v: "candidates" in v["response"]),
        Evidence("response", 10, "an envelope around `candidates`", lambda v: "candidates" in v["response"]),
        Evidence("request", 10, "an envelope with `request.contents`", lambda v: "contents" in v["request"]),
    ),
)
