"""Typed errors from provider error responses: one classifier for all dialects, by status, code, then message."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..values import jsontext
from ..values.errors import (
    Aborted,
    AuthFailed,
    BadRequest,
    BadWire,
    ContentFiltered,
    ContextTooLong,
    DialectError,
    FormatError,
    InterlinguaError,
    Overloaded,
    ProviderError,
    RateLimited,
    TimedOut,
    ToolInputError,
    TransportError,
    seconds,
)
from ..values.messages import AssistantMessage, TextBlock, blocks_of

# Messages of providers and servers for a conversation that exceeds the context window. Users may append their own.
OVERFLOW: list[str] = [
    r"prompt (is )?too long",
    r"input is too long",
    r"exceeds? the context window",
    r"exceeds? context limit",
    r"input token count.*exceeds the maximum",
    r"input tokens exceed",
    r"maximum prompt length is \d+",
    r"reduce the length of the messages",
    r"max(imum)? context length",
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
_LONGEST = 8_000  # characters of a message that are read
# Messages about rate limits mention tokens too ("too many tokens, please wait"): they are never an overflow.
_THROTTLING = re.compile(r"rate.?limit|throttl|too many requests|quota|please wait|per minute|per day", re.IGNORECASE)

# Values with which providers stop an answer or refuse a request because a filter or the model declined it.
# Anthropic: stop_reason. OpenAI and Azure: finish_reason, incomplete_details.reason, error.code. Bedrock: stopReason.
# Google: finishReason and promptFeedback.blockReason. The last three are error codes of OpenAI and Alibaba.
FILTERED = frozenset(
    {"refusal", "sensitive", "content_filter", "content_filtered", "content_policy_violation", "guardrail_intervened"}
    | {"safety", "recitation", "language", "blocklist", "prohibited_content", "spii", "model_armor", "jailbreak"}
    | {"image_safety", "image_prohibited_content", "image_recitation", "responsibleaipolicyviolation"}
    | {"image_content_policy_violation", "moderation_blocked", "data_inspection_failed"}
)
# The same where only the message shows it: Anthropic and Bedrock ("Output blocked by content filtering policy"), Azure
# ("content management policy"), OpenAI ("flagged as potentially violating our usage policy", "rejected … by our safety
# system"), xAI ("Content violates usage guidelines"), OpenRouter ("requires moderation … your input was flagged"),
# DeepSeek, Moonshot, Alibaba, Z.AI.
_DECLINED = re.compile(
    r"content (management|filter(ing)?|moderation|safety|usage) policy|blocked by content filter"
    r"|flagged as potentially violating|your (input|prompt|request) was flagged"
    r"|violat\w+ (our |the |xai'?s )?(content|usage|safety) (polic|guideline)"
    r"|rejected (by|as a result of) (our|the) safety system|considered high risk|content exists risk"
    r"|contains? inappropriate content|unsafe or sensitive content|prompt was blocked|model refused:",
    re.IGNORECASE,
)

# Of the error pages of each API, in lower case: Anthropic's and OpenAI's codes, google.rpc.Code, AWS exceptions.
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
    # OpenAI: no credit is left. The status is 429, though waiting does not help.
    "insufficient_quota": RateLimited,
    "resource_exhausted": RateLimited,
    "throttlingexception": RateLimited,
    "toomanyrequestsexception": RateLimited,
    "servicequotaexceededexception": RateLimited,
    "overloaded_error": Overloaded,
    "server_overloaded": Overloaded,
    "server_is_overloaded": Overloaded,
    "slow_down": Overloaded,
    "unavailable": Overloaded,
    "serviceunavailableexception": Overloaded,
    "modelnotreadyexception": Overloaded,
    "context_length_exceeded": ContextTooLong,
    "request_too_large": ContextTooLong,
    **dict.fromkeys(FILTERED, ContentFiltered),
    "invalid_request_error": BadRequest,
    "invalid_request": BadRequest,
    "invalid_prompt": BadRequest,
    "invalid_argument": BadRequest,
    "out_of_range": BadRequest,
    "failed_precondition": BadRequest,
    "validationexception": BadRequest,
    "model_not_found": BadRequest,
    "not_found_error": BadRequest,
    "not_found": BadRequest,
    "resourcenotfoundexception": BadRequest,
}
# RFC 9110, 15.5 and 15.6. 413 is Anthropic's `request_too_large`; 529 is Anthropic's own, for overload.
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
    """The error object of a body: `error`, else the body itself; any other value is its message."""
    error = wire.get("error") if isinstance(wire, dict) else None
    if isinstance(error, dict):
        return error
    return wire if isinstance(wire, dict) else {"message": wire}


def joined_text(message: Any, wire: Any) -> str:
    """The text of an error: its message, else the whole body."""
    return message if isinstance(message, str) else jsontext.compact(wire) if wire else ""


def azure_code(error: Mapping[str, Any]) -> str | None:
    """The code in Azure's `innererror`, the only sign of a filtered prompt if `code` is null."""
    # learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter: `innererror.code` is
    # `ResponsibleAIPolicyViolation`.
    inner = error.get("innererror")
    code = inner.get("code") if isinstance(inner, dict) else None
    return code if isinstance(code, str) else None


def _read(message: str) -> str:
    """The part of an error message that is classified: its beginning and its end. Providers quote what they refuse, so
    that a client could choose a text which takes minutes to search."""
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST * 3 // 4]} {message[-_LONGEST // 4 :]}"


def is_overflow(message: str) -> bool:
    """Whether an error message means that the conversation exceeds the context window."""
    message = _read(message)
    if _THROTTLING.search(message):
        return False
    return any(re.search(pattern, message, re.IGNORECASE) for pattern in OVERFLOW)


def is_filtered(message: str) -> bool:
    """Whether an error message means that a filter or the model declined the request or the answer."""
    return _DECLINED.search(_read(message)) is not None


def provider_error(
    message: str,
    *,
    status: int = 0,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
) -> ProviderError:
    """The typed error for a provider's error response."""
    kind = _kind(status, (code or "").lower(), message, body)
    wait = retry_after(headers or {})
    if wait is None and kind is RateLimited:  # on other responses these headers do not ask for a delay
        wait = limit_reset(headers or {})
    if not message:
        message = f"HTTP {status}"
        if 200 < status < 400:  # redirects are not followed: they would take the key along
            message += " instead of an answer; check the base URL"
    return kind(message, status=status, code=code, retry_after=wait, body=body)


def failure_of(message: AssistantMessage) -> InterlinguaError:
    """The typed error of an answer that ended with `error` or `aborted`."""
    text, detail = message.error_message or "the answer ended in an error", message.stop_detail
    if message.stop_reason == "aborted":
        return Aborted(text)
    refused = any(isinstance(block, TextBlock) and block.refusal for block in blocks_of(message.content))
    if refused or (detail or "").lower() in FILTERED or is_filtered(text) or _is_blocked(message):
        return ContentFiltered(text, code=detail)
    return provider_error(text, code=detail)


def _is_blocked(message: AssistantMessage) -> bool:
    """Whether Google blocked the prompt. Its set of values is open (`OTHER`, numbers), so the field decides."""
    answers = (residual.get("~response") for residual in message.extra.values() if isinstance(residual, dict))
    feedback = (answer.get("promptFeedback") for answer in answers if isinstance(answer, dict))
    return any(isinstance(given, dict) and given.get("blockReason") is not None for given in feedback)


def _kind(status: int, code: str, message: str, body: Any) -> type[ProviderError]:
    named = _CODES.get(code)
    # A filter's message decides before the code: OpenAI and Azure send `invalid_request_error` with it.
    if status not in (401, 429) and named is not RateLimited and is_filtered(message):
        return ContentFiltered
    # OpenAI has a code for a conversation that is too long; from most others only the text shows it.
    if status not in (401, 403, 429) and named in (None, BadRequest) and is_overflow(f"{code} {message}".strip()):
        return ContextTooLong
    # OpenAI uses `invalid_request_error` for wrong keys and rate limits too: there the status is more specific.
    if named is not None and not (named is BadRequest and status < 500 and status in _STATUSES):
        return named
    if 400 <= status < 500:
        return _STATUSES.get(status, BadRequest)
    return _passed_on(message, body) or _STATUSES.get(status, ProviderError)


# Gateways pass on upstream errors as a 5xx of their own, or inside a stream that began with 200: with the upstream
# status as a number (OpenRouter, Google), or in the message as SDKs print it ("Error code: 400 - {…}", "400 Client
# Error", "litellm.BadRequestError: …").
_STATUS_IN_TEXT = re.compile(
    r"^\W*(4[0-9]{2})\b(?=[\s:,{-])"
    r"|\b(?:error(?: code)?|status(?:[ _]?code)?|http(?:/[0-9.]+)?(?: status| error)?|returned|responded with)\b"
    r"[\"'\s:=(]{1,4}(4[0-9]{2})\b"
    r"|[\"']code[\"']\s*:\s*[\"']?(4[0-9]{2})\b"
    r"|\b(4[0-9]{2}) (?:client error|bad request)\b",
    re.IGNORECASE,
)
_CODE_IN_TEXT = re.compile(r"\b(?:[a-z]+(?:_[a-z]+)+|[a-z]+(?:error|exception))\b", re.IGNORECASE)
_SDK_ERRORS: dict[str, type[ProviderError]] = {
    "badrequesterror": BadRequest,
    "unprocessableentityerror": BadRequest,
    "notfounderror": BadRequest,
    "contentpolicyviolationerror": ContentFiltered,
    "contextwindowexceedederror": ContextTooLong,
}


def _passed_on(message: str, body: Any) -> type[ProviderError] | None:
    """The kind of the upstream error that a server error passes on, or None."""
    inner, message = _inner_status(body), _read(message)
    if inner is None and (found := _STATUS_IN_TEXT.search(message)):
        inner = int(next(filter(None, found.groups())))
    if inner is not None:
        return _STATUSES.get(inner, BadRequest)
    codes = (name.lower() for name in _CODE_IN_TEXT.findall(message))
    return next((kind for code in codes if (kind := _CODES.get(code) or _SDK_ERRORS.get(code))), None)


def _inner_status(body: Any) -> int | None:
    """The upstream status of a refused request, if the error has it as a number."""
    first = body[0] if isinstance(body, list) and body else body
    error = error_of(first)
    for name in ("code", "status", "status_code"):
        value = error.get(name)
        if isinstance(value, int | str) and re.fullmatch(r"4[0-9]{2}", str(value)):
            return int(value)
    return None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait: `retry-after-ms`, else `retry-after`, in seconds or as a date (RFC 9110, 10.2.3).

    A past date or a negative number is 0; an invalid value is None.
    """
    lower = {key.lower(): value for key, value in headers.items()}
    # `retry-after-ms` is of Azure and OpenAI, and finer; their SDKs read it first.
    milliseconds, value = _number(lower.get("retry-after-ms")), lower.get("retry-after")
    if milliseconds is not None:
        return seconds(milliseconds / 1000)
    given = _number(value)
    return given if given is not None else _until(value)


# Reset headers: `x-ratelimit-reset-requests` is a duration at OpenAI and Groq ("6m0s"), `x-ratelimit-reset` a time at
# OpenRouter (milliseconds) and GitHub (seconds); Anthropic's are RFC 3339 dates.
# platform.openai.com/docs/guides/rate-limits, console.groq.com/docs/rate-limits, docs.claude.com/en/api/rate-limits
_RESET = re.compile(r"(?:x-ratelimit-reset(?P<openai>-[a-z-]+)?|anthropic-ratelimit-(?P<anthropic>[a-z-]+)-reset)")
_DURATION = re.compile(r"\s*(-?)((?:[0-9]+(?:\.[0-9]+)?(?:ms|h|m|s|d))+)\s*")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_EPOCH = 1e9  # larger numbers are Unix times in seconds, or in milliseconds if 1000 times larger


def limit_reset(headers: Mapping[str, str]) -> float | None:
    """Seconds until a limit resets: the latest of the exhausted limits, else the soonest of all."""
    lower = {key.lower(): value for key, value in headers.items()}
    named: list[float] = []
    used_up: list[float] = []
    for name, value in lower.items():
        found = _RESET.fullmatch(name)
        wait = _wait(value) if found else None
        if found is None or wait is None:
            continue
        left = f"anthropic-ratelimit-{found['anthropic']}-remaining"
        if found["anthropic"] is None:
            left = f"x-ratelimit-remaining{found['openai'] or ''}"
        # Providers report all limits on each response: only an exhausted one has refused the request.
        (used_up if _number(lower.get(left)) == 0 else named).append(wait)
    return max(used_up) if used_up else min(named, default=None)


def _wait(value: str) -> float | None:
    """A duration, a time or a date as seconds from now."""
    number = _number(value)
    if number is not None:
        if number < _EPOCH:
            return number
        return seconds((number if number < 1000 * _EPOCH else number / 1000) - datetime.now(UTC).timestamp())
    if given := _DURATION.fullmatch(value):
        parts = re.findall(r"([0-9.]+)(ms|h|m|s|d)", given[2])
        total = seconds(sum(float(amount) * _UNITS[unit] for amount, unit in parts))
        return 0.0 if given[1] else total
    try:
        when = datetime.fromisoformat(value.strip())
    except ValueError:
        return _until(value)
    try:
        return seconds((when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except OverflowError:
        return None


def _number(value: Any) -> float | None:
    if not isinstance(value, str) or not re.fullmatch(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*", value):
        return None
    return seconds(float(value))


def _until(value: Any) -> float | None:
    from email.utils import parsedate_to_datetime  # slow to load, rarely needed

    try:
        when = parsedate_to_datetime(value)
        return seconds((when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError, AttributeError):  # not a date, or outside the calendar
        return None


def error_text(error: ProviderError, overflow: str | None = None) -> str:
    """The message of an error, for wires where only the message shows a filter or an overflow.

    `overflow`: the sentence by which clients of the wire recognize an overflow; None: any that we recognize.
    """
    if isinstance(error, ContentFiltered) and not is_filtered(error.message):
        return f"Output blocked by content filtering policy: {error.message}"
    if isinstance(error, ContextTooLong) and not _says(error.message, overflow):
        return f"{overflow or 'prompt is too long'}: {error.message}"
    return error.message


def _says(message: str, overflow: str | None) -> bool:
    if overflow is None:
        return is_overflow(message)
    at = 0
    for word in overflow.split():  # each after the one before; `.*` between them would try every combination
        found = re.compile(rf"\b{word}\b", re.IGNORECASE).search(message, at)
        if found is None:
            return False
        at = found.end()
    return True


def code_status(error: ProviderError) -> int:
    """The status that selects the error code, for wires with one code per status and none for a filter."""
    status = status_of(error)
    return 400 if isinstance(error, ContentFiltered | ContextTooLong) and status != 413 else status


def code_of(error: ProviderError) -> str | None:
    """The code of an error, for wires where the code shows a filter or an overflow."""
    own, code = _OPENAI_NAMES.get(type(error)), (error.code or "").lower()
    known = _CODES.get(code) is type(error) and (code in _OPENAI_CODES or code in FILTERED)
    return error.code if own is None or known or code in _SPENT else own


# Codes that clients of OpenAI's wires act on, in an error or at the end of a stream (`server_is_overloaded`: Codex).
_OPENAI_NAMES: dict[type[ProviderError], str] = {
    ContentFiltered: "content_filter",
    ContextTooLong: "context_length_exceeded",
    RateLimited: "rate_limit_exceeded",
    Overloaded: "server_is_overloaded",
}
_OPENAI_CODES = frozenset(
    {"context_length_exceeded", "request_too_large", "rate_limit_exceeded", "insufficient_quota", "slow_down"}
    | {"server_is_overloaded", "server_overloaded"}
)
# Exhausted credit keeps its code: with another one clients would retry.
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "credit_balance_too_low"})


def as_provider_error(error: InterlinguaError) -> ProviderError:
    """Any error as a `ProviderError` with a status: an upstream failure, or a bad request."""
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, Aborted):
        return ProviderError(str(error.reason or "aborted"), status=499)  # nginx: client closed request
    message = str(error)
    if isinstance(error, TimedOut):
        return ProviderError(message, status=504)
    if isinstance(error, TransportError | BadWire):
        return ProviderError(message, status=502)
    if isinstance(error, FormatError | DialectError | ToolInputError):
        return BadRequest(message, status=getattr(error, "status", 400))
    return ProviderError(message, status=500)


def status_of(error: ProviderError) -> int:
    """The HTTP status for an error that may have none, or that came inside a response with status 200."""
    if error.status >= 400:
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
    return 502 if error.status > 200 else 500
