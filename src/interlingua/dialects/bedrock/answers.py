"""Whole answers: the envelope, why it stopped, and what it used."""

from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, Reporter, encoded
from ...values.messages import AssistantMessage, Block, Usage
from ...values.request import Request
from ..residual import (
    RESPONSE,
    an_object,
    body_of,
    count,
    each,
    fields_of,
    keeping,
    optional,
    own_word,
    put_back,
    reading,
    reason_for,
    residual,
    residual_of,
    restored,
    whole,
    with_residual,
)
from .content import decode_block, encode_content
from .errors import decode_error
from .facts import API, RESPONSE_SUPPORT, STOP_REASONS, WIRE_STOP_REASONS


@reading(API)
def decode_response(
    body: Any, *, model: str | None = None, provider: str | None = None, timestamp: int | None = None
) -> AssistantMessage:
    """A whole answer."""
    wire = an_object(body_of(body, API), API)
    if "output" not in wire:
        raise decode_error(0, wire)
    content = an_object(an_object(wire["output"], API, "$.output")["message"], API, "$.output.message")["content"]
    base = AssistantMessage(content=(), api=API, provider=provider, model=model, timestamp=timestamp)
    return decode_answer(wire, tuple(each(content, "output.message.content", API, decode_block)), base)


def decode_answer(wire: dict[str, Any], content: tuple[Block, ...], base: AssistantMessage) -> AssistantMessage:
    """The message whose envelope is `wire` and whose content is read already."""
    word = optional(wire.get("stopReason"))
    reason = reason_for(word, STOP_REASONS, content)
    message = replace(
        base,
        content=content,
        usage=decode_usage(wire.get("usage")),
        stop_reason=reason,
        stop_detail=word,
        error_message=f"the provider stopped: {_stop_text(wire, word)}" if reason == "error" else None,
    )
    extra_fields = residual(wire, _encode_answer(message, wire["output"]["message"]["content"]))
    return with_residual(message, API, **{RESPONSE: extra_fields}) if extra_fields else message


def _stop_text(wire: dict[str, Any], word: str | None) -> str:
    """The word for the end, and the guardrail's reason where it gives one."""
    reason = fields_of(fields_of(wire.get("trace")).get("guardrail")).get("actionReason")
    given = word or "no reason given"
    return f"{given}: {reason}" if isinstance(reason, str) else given


def decode_usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    # `inputTokens` excludes what was read from or written to the cache; `totalTokens` counts everything.
    usage = Usage.of(
        count(wire, "inputTokens"),
        count(wire, "outputTokens"),
        cache_read=count(wire, "cacheReadInputTokens"),
        cache_write=count(wire, "cacheWriteInputTokens"),
        total_tokens=whole(wire.get("totalTokens")),
    )
    return keeping(usage, API, wire, _encode_usage(usage))


def _encode_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    wire: dict[str, Any] = {
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "totalTokens": usage.total_tokens,
    }
    if usage.cache_read:
        wire["cacheReadInputTokens"] = usage.cache_read
    if usage.cache_write:
        wire["cacheWriteInputTokens"] = usage.cache_write
    return restored(wire, usage.extra, API)


def encode_response(message: AssistantMessage, *, request: Request | None = None) -> Encoded:
    """The body of a whole answer; this wire names neither the model nor the answer."""
    report = Reporter("$")
    content = encode_content(message.content, report, points=False)
    return encoded(API, whole_answer(message, content), message, RESPONSE_SUPPORT, report.losses)


def whole_answer(message: AssistantMessage, content: list[Any]) -> dict[str, Any]:
    return put_back(_encode_answer(message, content), residual_of(message.extra, API).get(RESPONSE, {}))


def _encode_answer(message: AssistantMessage, content: list[Any]) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": own_word(message, STOP_REASONS) or WIRE_STOP_REASONS.get(message.stop_reason or ""),
        "usage": _encode_usage(message.usage),
        "metrics": {"latencyMs": 0},  # clients of this wire count on its being there
    }
