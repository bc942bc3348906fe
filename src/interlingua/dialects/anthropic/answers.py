"""Whole answers: the envelope, why it stopped, and what it used."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.losses import QUIET, Encoded, Reporter, encoded
from ...values.messages import AssistantMessage, Content, Usage, blocks_of
from ...values.request import Request
from ..residual import (
    RESPONSE,
    an_object,
    api_of,
    body_of,
    count,
    fields_of,
    generated_id,
    keeping,
    named,
    optional,
    own_word,
    put_back,
    reading,
    reason_for,
    residual,
    restored,
    whole,
    with_residual,
)
from .content import decode_content, encode_content
from .errors import decode_error
from .facts import API, RESPONSE_SUPPORT, STOP_REASONS, WIRE_STOP_REASONS


@reading(API)
def decode_response(
    body: Any,
    *,
    model: str | None = None,
    provider: str | None = None,
    timestamp: int | None = None,
    quirks: Mapping[str, Any] | None = None,
) -> AssistantMessage:
    """A whole answer."""
    wire = an_object(body_of(body, API), API)
    if wire.get("type") == "error" or ("error" in wire and "content" not in wire):
        raise decode_error(0, wire)
    base = AssistantMessage(content=(), api=api_of(quirks, API), provider=provider, model=model, timestamp=timestamp)
    return decode_answer(wire, decode_content(wire.get("content")), base)


def decode_answer(wire: dict[str, Any], content: Content, base: AssistantMessage) -> AssistantMessage:
    """The message whose envelope is `wire` and whose content is read already."""
    word = optional(wire.get("stop_reason"))
    reason = reason_for(word, STOP_REASONS, blocks_of(content))
    message = replace(
        base,
        content=content,
        **decode_envelope(wire, base),
        stop_reason=reason,
        stop_detail=word,
        error_message=f"the provider stopped: {_refusal(wire, word)}" if reason == "error" else None,
    )
    blocks = wire.get("content")  # a list keeps its own residuals, block by block
    emitted = _encode_answer(message, blocks if isinstance(blocks, list) else encode_content(blocks_of(content), QUIET))
    extra_fields = residual(wire, emitted)
    return with_residual(message, API, **{RESPONSE: extra_fields}) if extra_fields else message


def decode_envelope(wire: dict[str, Any], base: AssistantMessage) -> dict[str, Any]:
    named = optional(wire.get("model"))
    return {
        "response_id": optional(wire.get("id")) or None,
        "model": base.model or named,
        "response_model": named if base.model and named != base.model else None,
        "usage": decode_usage(wire.get("usage")),
    }


def _refusal(wire: dict[str, Any], word: str | None) -> str:
    given = fields_of(wire.get("stop_details")).get("explanation")
    return given if isinstance(given, str) else word or "no reason given"


def decode_usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    usage = Usage.of(
        count(wire, "input_tokens"),
        count(wire, "output_tokens"),
        cache_read=count(wire, "cache_read_input_tokens"),
        cache_write=count(wire, "cache_creation_input_tokens"),
        reasoning=whole(fields_of(wire.get("output_tokens_details")).get("thinking_tokens")),
    )
    return keeping(usage, API, wire, _encode_usage(usage))


def _encode_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    wire: dict[str, Any] = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
    if usage.reasoning is not None:
        wire["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return restored(wire, usage.extra, API)


def encode_response(
    message: AssistantMessage, *, request: Request | None = None, quirks: Mapping[str, Any] | None = None
) -> Encoded:
    """The body of a whole answer."""
    report = Reporter("$")
    content = encode_content(blocks_of(message.content), report)
    body = whole_answer(named(message, request), content)
    return encoded(API, body, message, RESPONSE_SUPPORT, report.losses, spoken=api_of(quirks, API))


def whole_answer(message: AssistantMessage, content: Any) -> dict[str, Any]:
    return put_back(_encode_answer(message, content), message.extra.get(API, {}).get(RESPONSE, {}))


def _encode_answer(message: AssistantMessage, content: Any) -> dict[str, Any]:
    return {
        "id": message.response_id or generated_id(message, "msg_"),
        "type": "message",
        "role": "assistant",
        "model": message.response_model or message.model or "",
        "content": content,
        "stop_reason": own_word(message, STOP_REASONS) or WIRE_STOP_REASONS.get(message.stop_reason or ""),
        "stop_sequence": None,
        "usage": _encode_usage(message.usage),
    }
