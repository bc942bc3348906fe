"""What the two OpenAI wires share: data URLs, file types, model lists, embeddings, errors."""

import base64
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ..values.errors import InterlinguaError
from .limits import PDF
from .provider_errors import as_provider_error, code_of, status_of
from .wire import EmbeddingRoute

# platform.openai.com/docs/guides/file-inputs, Accepted file types: PDF, text and code, office documents.
_OFFICE = ("application/vnd.openxmlformats-*", "application/vnd.ms-*", "application/vnd.oasis.*", "application/msword")
FILE_TYPES = (PDF, "text/*", "application/json", "application/xml", "application/*+xml", "application/rtf", *_OFFICE)

# The service tier that a response names where its price is the ordinary one.
OrdinaryTier: TypeAlias = Literal["auto", "default"] | None

# Files and images inside the body are data URLs.
_DATA_URL = re.compile(r"data:([^;,\s]*)(?:;[^;,]*)*;base64,(.*)", re.DOTALL)


def read_data_url(url: str) -> tuple[str, str] | None:
    """The MIME type (without parameters, possibly empty) and the base64 text of a data URL; None for another URL."""
    found = _DATA_URL.fullmatch(url) if url.startswith("data:") else None
    return (found[1], found[2]) if found else None


def data_url(mime: str | None, data: str) -> str:
    """Base64 text as a data URL in its plain spelling: the inverse of `read_data_url`."""
    return f"data:{mime or ''};base64,{data}"


# RFC 2397: a data URL may have parameters before `;base64`, such as a file name or a charset.
def odd_prefix(url: str) -> str | None:
    """The prefix of a data URL whose MIME type has parameters, else None."""
    found = read_data_url(url)
    if found is None or data_url(*found) == url:
        return None
    return url[: len(url) - len(found[1])]


# platform.openai.com/docs/api-reference/models/list


def openai_models(names: Sequence[str]) -> dict[str, Any]:
    entries = [{"id": name, "object": "model", "created": 1700000000, "owned_by": "interlingua"} for name in names]
    return {"object": "list", "data": entries}


# Client headers that a gateway passes on; Codex sends the id of its conversation in two of them.
OPENAI_HEADERS = ("openai-beta", "session_id", "conversation_id", "idempotency-key", "x-client-request-id")


# platform.openai.com/docs/guides/rate-limits, Rate limits in headers: resets are durations.
def rate_headers(quotas: Mapping[str, Any]) -> dict[str, str]:
    """Rate limit headers."""
    headers: dict[str, str] = {}
    for what, quota in quotas.items():
        headers[f"x-ratelimit-limit-{what}"] = str(quota.limit)
        headers[f"x-ratelimit-remaining-{what}"] = str(quota.remaining)
        headers[f"x-ratelimit-reset-{what}"] = f"{quota.reset:.3f}s"
    return headers


# --- embeddings: platform.openai.com/docs/api-reference/embeddings ---------------------------------------------------


def _encode_texts(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    # `float` is the default of the API, but not of every host.
    body: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
    return body if dimensions is None else {**body, "dimensions": dimensions}


def _decode_vectors(body: Any) -> tuple[list[list[float]], int | None]:
    # The reference gives each vector its `index`, and promises no order.
    rows = sorted(body["data"], key=lambda row: row.get("index", 0))
    return [_vector(row["embedding"]) for row in rows], (body.get("usage") or {}).get("prompt_tokens")


def _vector(value: Any) -> list[float]:
    """A list of numbers, or base64 of little-endian floats, which some hosts send regardless of `encoding_format`."""
    if isinstance(value, str):
        raw = base64.b64decode(value, validate=True)
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))
    return [float(one) for one in value]


# The API reference allows 2,048 texts and 300,000 tokens per request; other hosts allow less.
EMBEDDINGS = EmbeddingRoute(
    path=lambda model: "/embeddings", encode=_encode_texts, decode=_decode_vectors, batch=lambda model: 256
)


ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    error = as_provider_error(error)
    status = status_of(error)
    kind = ERROR_TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request_error")
    return status, {"error": {"message": error.message, "type": kind, "param": None, "code": code_of(error)}}
