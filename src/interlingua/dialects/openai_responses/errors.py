"""Error answers."""

from collections.abc import Mapping
from typing import Any

from ...values import jsontext
from ...values.errors import InterlinguaError, ProviderError
from ..provider_errors import as_provider_error, azure_code, code_of, provider_error, status_of
from ..residual import lenient, optional


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error answer, or the error event of a stream (status 0)."""
    wire = lenient(body)
    error = wire.get("error") if isinstance(wire, dict) else None
    if not isinstance(error, dict):
        error = wire if isinstance(wire, dict) else {}
    message = error.get("message")
    if not isinstance(message, str):
        given = wire.get("error", wire.get("detail")) if isinstance(wire, dict) else wire
        message = given if isinstance(given, str) else jsontext.compact(wire) if wire else ""
    code = optional(error.get("code")) or azure_code(error)
    if code is None and error.get("type") != "error":
        code = optional(error.get("type"))
    return provider_error(message, status=status, code=code, headers=headers, body=wire)


ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    error = as_provider_error(error)
    status = status_of(error)
    kind = ERROR_TYPES.get(status, "server_error")
    return status, {"error": {"message": error.message, "type": kind, "param": None, "code": code_of(error)}}
