"""What a provider's HTTP side adds to its dialect: addresses, headers, list of models, pings, errors inside a stream.

The dialects know nothing of HTTP, so these facts are here, one row per wire, and nowhere else.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from ..dialects import dialect
from ..dialects.framing import write_aws, write_ndjson, write_sse
from ..dialects.provider_errors import error_of
from ..values import jsontext
from ..values.errors import BadRequest, ContentFiltered, ContextTooLong, Overloaded, ProviderError, RateLimited

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
AWS = "application/vnd.amazon.eventstream"
JSON = "application/json"


@dataclass(frozen=True, kw_only=True)
class WireFacts:
    """One wire over HTTP. `route` matches the end of a path: its groups are the model and the verb, where they exist.

    `base` goes between the server's own address and the dialect's `path`; `streaming` is the verb that asks for a
    stream where the path tells; `stream_default` what a body without `stream` means.
    """

    route: str
    base: str = ""
    models: str = r"/v1/models"
    list_models: Callable[[Sequence[str]], dict[str, Any]]
    content_type: str = SSE
    charset: str = ""
    streaming: str | None = None
    stream_default: bool = False
    request_id: str = "x-request-id"
    response_id: str
    ping: bytes = b": ping\n\n"
    usage_first: bool = False
    error_event: Callable[[ProviderError, int, Any], bytes]


# --- lists of models -------------------------------------------------------------------------------------------------


def _openai_models(names: Sequence[str]) -> dict[str, Any]:
    entries = [{"id": name, "object": "model", "created": 1700000000, "owned_by": "interlingua"} for name in names]
    return {"object": "list", "data": entries}


def _anthropic_models(names: Sequence[str]) -> dict[str, Any]:
    born = "2025-01-01T00:00:00Z"
    entries = [{"type": "model", "id": name, "display_name": name, "created_at": born} for name in names]
    return {"data": entries, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def _google_models(names: Sequence[str]) -> dict[str, Any]:
    verbs = ["generateContent", "streamGenerateContent"]
    limits = {"inputTokenLimit": 1048576, "outputTokenLimit": 65536}
    entries = [
        {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": verbs, **limits} for name in names
    ]
    return {"models": entries}


def _ollama_models(names: Sequence[str]) -> dict[str, Any]:
    details = {"format": "gguf", "family": "test", "parameter_size": "1B", "quantization_level": "Q4_0"}
    born = "2025-01-01T00:00:00Z"
    entries = [
        {"name": name, "model": name, "modified_at": born, "size": 1, "digest": "0" * 64, "details": details}
        for name in names
    ]
    return {"models": entries}


def _bedrock_models(names: Sequence[str]) -> dict[str, Any]:
    arn = "arn:aws:bedrock:us-east-1::foundation-model/"
    entries = [
        {
            "modelArn": arn + name,
            "modelId": name,
            "modelName": name,
            "providerName": "Interlingua",
            "inputModalities": ["TEXT"],
            "outputModalities": ["TEXT"],
            "responseStreamingSupported": True,
        }
        for name in names
    ]
    return {"modelSummaries": entries}


# --- errors inside a stream ------------------------------------------------------------------------------------------
# Each takes the error, the number of events sent so far, and the body that the dialect writes for the error.


def _anthropic_error(error: ProviderError, sent: int, body: Any) -> bytes:
    return write_sse(jsontext.write(body), "error")


def _completions_error(error: ProviderError, sent: int, body: Any) -> bytes:
    return write_sse(jsontext.write(body))


def _responses_error(error: ProviderError, sent: int, body: Any) -> bytes:
    given = body["error"]
    event = {
        "type": "error",
        "sequence_number": sent,
        "code": given["code"] or given["type"],
        "message": given["message"],
        "param": None,
    }
    return write_sse(jsontext.write(event), "error")


def _ollama_error(error: ProviderError, sent: int, body: Any) -> bytes:
    return write_ndjson(jsontext.write(body))


def _bedrock_error(error: ProviderError, sent: int, body: Any) -> bytes:
    kinds: tuple[tuple[type[ProviderError], str], ...] = (
        (RateLimited, "throttlingException"),
        (Overloaded, "serviceUnavailableException"),
        (BadRequest, "validationException"),
        (ContentFiltered, "validationException"),
        (ContextTooLong, "validationException"),
    )
    name = next((name for kind, name in kinds if isinstance(error, kind)), "internalServerException")
    return write_aws(name, jsontext.write({"message": error_of(body)["message"]}), message_type="exception")


# --- the rows --------------------------------------------------------------------------------------------------------

_GOOGLE_MODELS = r"/(?:models|publishers/[^/]+/models)"
_RESPONSES = {
    "route": r"/responses",
    "models": r"/models",
    "list_models": _openai_models,
    "charset": "; charset=utf-8",
    "response_id": "resp_",
    "error_event": _responses_error,
}
_GOOGLE = {
    "models": _GOOGLE_MODELS,
    "list_models": _google_models,
    "streaming": "streamGenerateContent",
    "request_id": "x-goog-request-id",
    "response_id": "",
    "error_event": _completions_error,
}
_BEDROCK = {
    "models": r"/foundation-models",
    "list_models": _bedrock_models,
    "content_type": AWS,
    "request_id": "x-amzn-requestid",
    "error_event": _bedrock_error,
}
_ROWS: dict[str, dict[str, Any]] = {
    "anthropic-messages": {
        "route": r"/messages",
        "list_models": _anthropic_models,
        "charset": "; charset=utf-8",
        "request_id": "request-id",
        "response_id": "msg_",
        "ping": write_sse(b'{"type": "ping"}', "ping"),
        "usage_first": True,
        "error_event": _anthropic_error,
    },
    "openai-completions": {
        "route": r"/chat/completions",
        "base": "/v1",
        "models": r"/models",
        "list_models": _openai_models,
        "charset": "; charset=utf-8",
        "response_id": "chatcmpl-",
        "error_event": _completions_error,
    },
    "openai-responses": {**_RESPONSES, "base": "/v1"},
    "azure-openai-responses": {**_RESPONSES, "base": "/openai/v1", "request_id": "apim-request-id"},
    "openai-codex-responses": {**_RESPONSES, "base": "/backend-api"},
    "google-generative-ai": {
        **_GOOGLE,
        "route": r"/((?:models|tunedModels)/[^:]+?):(generateContent|streamGenerateContent)",
        "base": "/v1beta",
    },
    "google-vertex": {
        **_GOOGLE,
        "route": r"/((?:publishers/[^/]+/models|endpoints|models)/[^:]+?):(generateContent|streamGenerateContent)",
        "base": "/v1/projects/test/locations/us-central1",
    },
    "google-gemini-cli": {**_GOOGLE, "route": r"/v1internal(?P<none>):(generateContent|streamGenerateContent)"},
    "bedrock-converse-stream": {
        **_BEDROCK,
        "route": r"/model/([^/]+)/(converse|converse-stream)",
        "streaming": "converse-stream",
        "response_id": "",
        "ping": b"",  # the wire has none: a silence is a silence
    },
    "bedrock-invoke-anthropic": {
        **_BEDROCK,
        "route": r"/model/([^/]+)/(invoke|invoke-with-response-stream)",
        "streaming": "invoke-with-response-stream",
        "response_id": "msg_bdrk_",
        "ping": write_aws("chunk", b'{"bytes":"eyJ0eXBlIjoicGluZyJ9"}'),
        "usage_first": True,
    },
    "ollama-chat": {
        "route": r"/api/chat",
        "models": r"/api/tags",
        "list_models": _ollama_models,
        "content_type": NDJSON,
        "stream_default": True,
        "response_id": "",
        "ping": b"\n",
        "error_event": _ollama_error,
    },
}
FACTS: dict[str, WireFacts] = {api: WireFacts(**row) for api, row in _ROWS.items()}


# --- routes ----------------------------------------------------------------------------------------------------------


class Route(NamedTuple):
    """What a path asks for. `model` and `stream` are None where the body tells them; `api` is empty at a loss."""

    api: str
    listing: bool = False
    known: bool = True
    model: str | None = None
    stream: bool | None = None


# Paths without the name of an api in front: several wires share an address, and the most particular comes first.
_GUESSES = (
    "google-gemini-cli",
    "google-generative-ai",
    "google-vertex",
    "bedrock-converse-stream",
    "bedrock-invoke-anthropic",
    "ollama-chat",
    "anthropic-messages",
    "openai-completions",
    "openai-responses",
)


def route(raw_path: str) -> Route:
    """What is asked for: by the name of the api at the front of the path, else by its end alone."""
    first, _, rest = raw_path.lstrip("/").partition("/")
    if first in FACTS:
        return _matched(first, f"/{rest}") or Route(first, known=False)
    if "/codex/" in raw_path:
        return _matched("openai-codex-responses", raw_path) or Route("", known=False)
    if "/publishers/" in raw_path:
        return _matched("google-vertex", raw_path) or Route("", known=False)
    found = (_matched(api, raw_path) for api in _GUESSES)
    return next((one for one in found if one), Route("", known=False))


def _matched(api: str, path: str) -> Route | None:
    facts = FACTS[api]
    asked = re.search(f"{facts.route}/?$", path)
    if asked is None:
        return Route(api, listing=True) if re.search(f"{facts.models}/?$", path) else None
    if facts.streaming is None:
        return Route(api)
    name, verb = asked.groups()
    model = unquote(name).removeprefix("models/") if name else None
    if api == "google-vertex" and model:
        model = model.removeprefix("publishers/google/models/")
    return Route(api, model=model, stream=verb == facts.streaming)


# --- bodies ----------------------------------------------------------------------------------------------------------


def cut_frames(data: bytes, content_type: str) -> Iterator[bytes]:
    """What an encoder wrote, one frame of the wire at a time."""
    if content_type == AWS:
        at = 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 4])
            yield data[at : at + length]
            at += length
    else:
        border = b"\n\n" if content_type == SSE else b"\n"
        for frame in data.split(border)[:-1]:
            yield frame + border


def error_body(api: str, error: ProviderError) -> tuple[int, bytes, dict[str, str]]:
    """An error answer as this provider gives it: status, body, and the headers that belong to it."""
    status, body = dialect(api).encode_error(error)
    headers = retry_headers(error.retry_after)
    if FACTS[api].content_type == AWS and isinstance(body, dict):
        headers["x-amzn-errortype"] = str(body.get("__type", "InternalServerException"))
    return status, jsontext.write(body), headers


def retry_headers(seconds: float | None) -> dict[str, str]:
    """`retry-after` in whole seconds, rounded up; the exact wait beside it where that differs."""
    if seconds is None:
        return {}
    whole = int(-(-seconds // 1))
    exact = {} if whole == seconds else {"retry-after-ms": str(round(seconds * 1000))}
    return {"retry-after": str(whole), **exact}
