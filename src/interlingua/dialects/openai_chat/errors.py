"""Answers that are errors, and errors inside answers."""

from collections.abc import Mapping
from typing import Any

from ...values import jsontext
from ...values.errors import InterlinguaError, ProviderError
from ..provider_errors import as_provider_error, azure_code, code_of, provider_error, status_of
from ..residual import lenient, optional


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error answer, an error inside a stream (status 0), or one that came with status 200."""
    wire = lenient(body)
    given = wire[0] if isinstance(wire, list) and wire else wire  # Google's endpoint wraps it in a list
    error = given.get("error") if isinstance(given, dict) else None
    if not isinstance(error, dict):
        error = (
            {"message": error} if isinstance(error, str) else given if isinstance(given, dict) else {"message": given}
        )
    message = error.get("message") or error.get("detail")
    text = message if isinstance(message, str) else jsontext.compact(message or wire) if wire else ""
    code = error.get("code")
    if isinstance(code, int) and not isinstance(code, bool) and status in (0, 200):
        status = code if 400 <= code < 600 else status
    return provider_error(
        _with_details(text, error),
        status=status,
        code=optional(code) or azure_code(error) or optional(error.get("type")) or (str(code) if code else None),
        headers=headers,
        body=wire,
    )


def _with_details(text: str, error: Mapping[str, Any]) -> str:
    """OpenRouter says in `metadata.raw` what the provider behind it said."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not raw:
        return text
    return f"{text}: {raw if isinstance(raw, str) else jsontext.compact(raw)}"


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
