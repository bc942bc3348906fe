"""Error answers and the errors of a stream."""

import re
from collections.abc import Mapping
from typing import Any

from ...values.errors import InterlinguaError, ProviderError, seconds
from ..provider_errors import as_provider_error, error_of, joined_text, provider_error, status_of, word_status, worded
from ..residual import lenient, optional, whole


def is_error(wire: Any) -> bool:
    if isinstance(wire, list) and len(wire) == 1:
        wire = wire[0]
    return isinstance(wire, dict) and "error" in wire and "candidates" not in wire


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error answer, alone or in a list of one, or the error of a stream (status 0: the body has it)."""
    wire = lenient(body)
    first = wire[0] if isinstance(wire, list) and wire else wire
    error = error_of(first)
    found = provider_error(
        joined_text(error.get("message"), wire),
        status=status or whole(error.get("code")) or 0,
        code=_reason(error) or optional(error.get("status")),
        headers=headers,
        body=wire,
    )
    if found.retry_after is None:
        found.retry_after = _delay(error)
    return found


def _details(error: dict[str, Any]) -> list[dict[str, Any]]:
    details = error.get("details")
    return [item for item in details if isinstance(item, dict)] if isinstance(details, list) else []


def _reason(error: dict[str, Any]) -> str | None:
    """A wrong key is an invalid argument like any other, but for its reason."""
    return next((item["reason"] for item in _details(error) if item.get("reason") == "API_KEY_INVALID"), None)


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_TIME = r"([0-9]+(?:\.[0-9]+)?)\s*(ms|h|m|s)"
_WAIT = re.compile(rf"\b(?:reset|retry) (?:after|in) ((?:{_TIME}\s*)+)", re.IGNORECASE)


def _delay(error: dict[str, Any]) -> float | None:
    """Seconds to wait: from RetryInfo (google.rpc.Duration, which may be negative), else from the message's text."""
    given = next((item["retryDelay"] for item in _details(error) if isinstance(item.get("retryDelay"), str)), None)
    if given is None:
        found = _WAIT.search(str(error.get("message")))
        given = found[1] if found else ""
    times = re.findall(_TIME, given.lower())
    sign = -1 if given.lstrip().startswith("-") else 1
    return seconds(sign * sum(float(amount) * _UNITS[unit] for amount, unit in times)) if times else None


STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
CODES = {word: status for status, word in reversed(STATUSES.items())}


def error_body(code: int, message: str, word: str | None) -> dict[str, Any]:
    # Google's own client takes a chunk for an error only if `error` is its first key.
    return {"error": {"code": code, "message": message, **({"status": word} if word else {})}}


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    error = as_provider_error(error)
    status = status_of(error)
    word = STATUSES.get(word_status(error), "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    body = error_body(status, worded(error), word)
    if error.retry_after is not None:
        delay = f"{error.retry_after:.3f}".rstrip("0").rstrip(".")
        body["error"]["details"] = [
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{delay}s"},
        ]
    return status, body
