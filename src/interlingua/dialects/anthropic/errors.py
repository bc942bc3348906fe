"""Error answers and the error event of a stream."""

from collections.abc import Mapping
from typing import Any

from ...values.errors import InterlinguaError, ProviderError
from ..provider_errors import as_provider_error, error_of, joined_text, provider_error, status_of, word_status, worded
from ..residual import lenient, optional


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error answer, or the error event of a stream (status 0)."""
    wire = lenient(body)
    error = error_of(wire)
    return provider_error(
        joined_text(error.get("message"), wire),
        status=status,
        code=optional(error.get("type")),
        headers=headers,
        body=wire,
    )


ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    error = as_provider_error(error)
    status = status_of(error)
    kind = ERROR_TYPES.get(word_status(error), "api_error")
    return status, {"type": "error", "error": {"type": kind, "message": worded(error)}}
