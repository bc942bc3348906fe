"""Error answers and the exceptions of a stream."""

from collections.abc import Mapping
from typing import Any

from ...values.errors import (
    AuthFailed,
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    InterlinguaError,
    Overloaded,
    ProviderError,
    RateLimited,
)
from ..provider_errors import as_provider_error, joined_text, provider_error, status_of, word_status, worded
from ..residual import lenient

EXCEPTIONS = frozenset(
    {
        "internalServerException",
        "modelStreamErrorException",
        "serviceUnavailableException",
        "throttlingException",
        "validationException",
    }
)


# What ends a stream, by the kind of error:
# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html
EXCEPTION_OF: dict[type[ProviderError], str] = {
    RateLimited: "throttlingException",
    Overloaded: "serviceUnavailableException",
    AuthFailed: "accessDeniedException",
    BadRequest: "validationException",
    ContextTooLong: "validationException",
    ContentFiltered: "validationException",
}


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error answer, or the exception of a stream (status 0). The header names the error; the body rarely does."""
    wire = lenient(body)
    given = wire if isinstance(wire, dict) else {"message": wire}
    terms = (given.get(key) for key in ("message", "Message", "originalMessage"))
    message = next((word for word in terms if isinstance(word, str) and word), None)
    return provider_error(
        joined_text(message, wire),
        status=status,
        code=_code(given, headers or {}),
        headers=headers,
        body=wire,
    )


def _code(wire: dict[str, Any], headers: Mapping[str, str]) -> str | None:
    """`ValidationException`, from `ValidationException:http://…` in the header or `com.amazon…#…` in the body."""
    named = next((value for key, value in headers.items() if key.lower() == "x-amzn-errortype"), None)
    code = named or wire.get("__type") or wire.get("code")
    return code.rpartition("#")[2].partition(":")[0] or None if isinstance(code, str) else None


ERROR_TYPES = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    529: "ServiceUnavailableException",
}


def encode_error(error: InterlinguaError) -> tuple[int, Any]:
    error = as_provider_error(error)
    status = status_of(error)
    return status, {"__type": ERROR_TYPES.get(word_status(error), "InternalServerException"), "message": worded(error)}
