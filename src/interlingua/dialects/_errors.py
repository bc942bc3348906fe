"""Provider answers that are errors, as typed errors. One classifier for all dialects: by status, code, then wording."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from .. import jsontext
from ..errors import (
    AuthFailed,
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    Overloaded,
    ProviderError,
    RateLimited,
)

# Wordings of "the conversation does not fit" seen at providers and servers. Users may append their own.
OVERFLOW: list[str] = [
    r"prompt is too long",
    r"input is too long",
    r"exceeds? the context window",
    r"exceeds? context limit",
    r"input token count.*exceeds the maximum",
    r"input tokens exceed",
    r"maximum prompt length is \d+",
    r"reduce the length of the messages",
    r"maximum context length",
    r"exceeds the limit of \d+",
    r"exceeds the available context size",
    r"greater than the context length",
    r"context window exceeds limit",
    r"context[_ ]?window[_ ]?exceeded",
    r"exceeded model token limit",
    r"too large for model with \d+ maximum context length",
    r"model_context_window_exceeded",
    r"context[_ ]length[_ ]exceeded",
    r"token limit exceeded",
    r"request_too_large",
    r"maximum allowed input length",
    r"configured context size",
    r"too many (input )?tokens",
    r"^(400|413) .*\(no body\)",
]
# Throttling texts speak of tokens too ("too many tokens, please wait"): these are never an overflow.
_THROTTLING = re.compile(r"rate.?limit|throttl|too many requests|quota|please wait|per minute|per day", re.IGNORECASE)

_CODES: dict[str, type[ProviderError]] = {
    "authentication_error": AuthFailed,
    "permission_error": AuthFailed,
    "invalid_api_key": AuthFailed,
    "api_key_invalid": AuthFailed,
    "unauthenticated": AuthFailed,
    "permission_denied": AuthFailed,
    "accessdeniedexception": AuthFailed,
    "unrecognizedclientexception": AuthFailed,
    "expiredtokenexception": AuthFailed,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "insufficient_quota": RateLimited,
    "resource_exhausted": RateLimited,
    "throttlingexception": RateLimited,
    "toomanyrequestsexception": RateLimited,
    "servicequotaexceededexception": RateLimited,
    "overloaded_error": Overloaded,
    "server_overloaded": Overloaded,
    "unavailable": Overloaded,
    "serviceunavailableexception": Overloaded,
    "modelnotreadyexception": Overloaded,
    "context_length_exceeded": ContextTooLong,
    "request_too_large": ContextTooLong,
    "content_filter": ContentFiltered,
    "content_policy_violation": ContentFiltered,
    "responsibleaipolicyviolation": ContentFiltered,
    "invalid_request_error": BadRequest,
    "invalid_argument": BadRequest,
    "failed_precondition": BadRequest,
    "validationexception": BadRequest,
    "not_found_error": BadRequest,
    "not_found": BadRequest,
    "resourcenotfoundexception": BadRequest,
}
_STATUSES: dict[int, type[ProviderError]] = {
    401: AuthFailed,
    403: AuthFailed,
    408: Overloaded,
    413: ContextTooLong,
    429: RateLimited,
    502: Overloaded,
    503: Overloaded,
    504: Overloaded,
    529: Overloaded,
}


def error_of(wire: Any) -> dict[str, Any]:
    """The error that a body holds: under `error`, else the body itself; what is no object is its message."""
    error = wire.get("error") if isinstance(wire, dict) else None
    if isinstance(error, dict):
        return error
    return wire if isinstance(wire, dict) else {"message": wire}


def words_of(message: Any, wire: Any) -> str:
    """What an error says: its message, else the whole body."""
    return message if isinstance(message, str) else jsontext.compact(wire) if wire else ""


def azure_code(error: Mapping[str, Any]) -> str | None:
    """The code inside Azure's `innererror`, which alone says that a filter refused the prompt where `code` is null."""
    inner = error.get("innererror")
    code = inner.get("code") if isinstance(inner, dict) else None
    return code if isinstance(code, str) else None


def is_overflow(message: str) -> bool:
    """Whether an error text says that the conversation does not fit the context window."""
    if _THROTTLING.search(message):
        return False
    return any(re.search(pattern, message, re.IGNORECASE) for pattern in OVERFLOW)


def provider_error(
    message: str,
    *,
    status: int = 0,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    provider: str | None = None,
) -> ProviderError:
    """The typed error for what a provider said."""
    kind = _kind(status, (code or "").lower(), message)
    return kind(
        message or f"HTTP {status}",
        status=status,
        code=code,
        retry_after=retry_after(headers or {}),
        body=body,
        provider=provider,
    )


def _kind(status: int, code: str, message: str) -> type[ProviderError]:
    by_code = _CODES.get(code)
    if by_code in (None, BadRequest) and status not in (401, 403, 429) and is_overflow(f"{code} {message}".strip()):
        return ContextTooLong
    if by_code is not None and not (by_code is BadRequest and status in _STATUSES):
        return by_code
    if status in _STATUSES:
        return _STATUSES[status]
    return BadRequest if 400 <= status < 500 else ProviderError


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or an HTTP date)."""
    lower = {key.lower(): value for key, value in headers.items()}
    try:
        if "retry-after-ms" in lower:
            return max(0.0, float(lower["retry-after-ms"]) / 1000)
        value = lower.get("retry-after")
        if value is None:
            return None
        if re.fullmatch(r"\s*[\d.]+\s*", value):
            return float(value)
        when = parsedate_to_datetime(value)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def status_of(error: ProviderError) -> int:
    """The HTTP status to answer with for an error that may have come without one."""
    if error.status:
        return error.status
    for kind, status in (
        (AuthFailed, 401),
        (RateLimited, 429),
        (Overloaded, 503),
        (ContextTooLong, 400),
        (ContentFiltered, 400),
        (BadRequest, 400),
    ):
        if isinstance(error, kind):
            return status
    return 500
