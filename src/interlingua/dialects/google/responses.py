"""Whole answers: candidates, envelope, stop reason, usage."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.folding import settle
from ...values.losses import Reporter
from ...values.messages import AssistantMessage, Block, StopReason, TextBlock, Usage, blocks_of
from ...values.request import Request
from ..codec import Given, Quirks, response_decoder, response_encoder
from ..residual import (
    RESPONSE,
    Ids,
    an_object,
    count,
    each,
    fields_of,
    generated_id,
    model_names,
    named,
    optional,
    own_stop_reason,
    put_back,
    reason_for,
    residual,
    residual_of,
    whole,
    with_residual,
)
from .content import decode_block, encode_content, with_citations, without_citations
from .facts import (
    API,
    APIS,
    CANDIDATE,
    ENVELOPE,
    NO_CANDIDATE,
    OTHERS,
    PLAIN,
    RESPONSE_SUPPORT,
    STOP_NUMBERS,
    STOP_REASONS,
    WIRE_STOP_REASONS,
    decode_error,
    has_envelope,
    is_error,
    keeping,
    restored,
)


@response_decoder(API)
def decode_response(body: Any, base: AssistantMessage, given: Given) -> AssistantMessage:
    """A whole answer: the first candidate; the others are kept in the residual."""
    if is_error(body):
        raise decode_error(0, body)
    outer, quirks = an_object(body, API), given.quirks
    wrapped = has_envelope(quirks) and isinstance(outer.get("response"), dict)
    wire = outer["response"] if wrapped else outer
    ids = Ids(given.mint)
    first = first_candidate(wire)
    parts = ((first or {}).get("content") or {}).get("parts")
    blocks = tuple(each(parts, "parts", API, lambda part: decode_block(part, ids))) if parts else ()
    message = decode_answer(wire, with_citations(blocks, first or {}), base)
    return with_envelope(message, outer, wrapped) if has_envelope(quirks) else message


def first_candidate(wire: dict[str, Any]) -> dict[str, Any] | None:
    candidates = wire.get("candidates")
    return an_object(candidates[0], API, "$.candidates[0]") if isinstance(candidates, list) and candidates else None


def with_envelope(message: AssistantMessage, outer: dict[str, Any], wrapped: bool) -> AssistantMessage:
    rest = {key: value for key, value in outer.items() if key != "response"} if wrapped else {}
    mark = {ENVELOPE: rest} if rest else {} if wrapped else {PLAIN: True}
    extra_fields = residual_of(message.extra, API).get(RESPONSE, {})
    return with_residual(message, API, **{RESPONSE: {**extra_fields, **mark}}) if mark else message


def decode_answer(wire: dict[str, Any], content: tuple[Block, ...], base: AssistantMessage) -> AssistantMessage:
    """The message with this content, which is already decoded, and the envelope `wire`."""
    first = first_candidate(wire)
    stop, reason = _decode_stop(wire, first, content)
    message = replace(
        base,
        content=content,
        **decode_envelope(wire, base),
        usage=decode_usage(wire.get("usageMetadata")),
        stop_reason=reason,
        stop_detail=stop,
        error_message=f"the provider stopped: {_stop_text(wire, first, stop)}" if reason == "error" else None,
    )
    extra_fields = _answer_residual(wire, first, message)
    return with_residual(message, API, **{RESPONSE: extra_fields}) if extra_fields else message


def _decode_stop(
    wire: dict[str, Any], first: dict[str, Any] | None, content: tuple[Block, ...]
) -> tuple[str | None, StopReason]:
    """The wire's stop reason and ours."""
    # …/api/generate-content, PromptFeedback: an answer to a blocked prompt has no candidates.
    if first is None:
        blocked = block_reason(wire)
        return blocked, "error" if blocked is not None else settle(None, content)
    stop = _stop_name(first.get("finishReason"))
    return stop, reason_for(stop, STOP_REASONS, content)


def block_reason(wire: dict[str, Any]) -> str | None:
    reason = fields_of(wire.get("promptFeedback")).get("blockReason")
    return None if reason is None else str(reason)


def _stop_name(stop: Any) -> str | None:
    number = whole(stop)
    if number is None:
        return optional(stop)
    # Google's generated client libraries ask for `$alt=json;enum-encoding=int`: enums are then numbers.
    return STOP_NUMBERS[number] if 0 <= number < len(STOP_NUMBERS) else str(number)


def _stop_text(wire: dict[str, Any], first: dict[str, Any] | None, stop: str | None) -> str:
    if first is not None:
        given = first.get("finishMessage")
    else:
        # Of Vertex AI only: the Gemini API has no text beside `blockReason`.
        given = fields_of(wire.get("promptFeedback")).get("blockReasonMessage")
    return given if isinstance(given, str) and given else stop or "no reason given"


def decode_envelope(wire: dict[str, Any], base: AssistantMessage) -> dict[str, Any]:
    response_id = optional(wire.get("responseId")) or None
    return {"response_id": response_id, **model_names(base, optional(wire.get("modelVersion")))}


def _answer_residual(wire: dict[str, Any], first: dict[str, Any] | None, message: AssistantMessage) -> dict[str, Any]:
    """The residual of the envelope; parts have their own."""
    candidates = wire.get("candidates")
    if first is None:
        return {**residual(wire, encode_envelope(message)), NO_CANDIDATE: True}
    extra_fields = residual({k: v for k, v in wire.items() if k != "candidates"}, encode_envelope(message))
    content = first.get("content")
    if isinstance(content, dict) and message.content:
        first = {**first, "content": {k: v for k, v in content.items() if k != "parts"}}
    inner = residual(first, _encode_candidate(message))
    if inner:
        extra_fields[CANDIDATE] = inner
    if len(candidates) > 1:  # type: ignore[arg-type]
        # `candidateCount` asks for several; a message is one of them.
        extra_fields[OTHERS] = candidates[1:]  # type: ignore[index]
    return extra_fields


def decode_usage(wire: Any) -> Usage | None:
    """ai.google.dev/api/generate-content, UsageMetadata: `promptTokenCount` includes cached content; tokens of tool use
    and of thoughts are counted separately.
    """
    if not isinstance(wire, dict):
        return None
    cached, thoughts = count(wire, "cachedContentTokenCount"), whole(wire.get("thoughtsTokenCount"))
    usage = Usage.of(
        # Results of Google's own tools, which the model read as input.
        count(wire, "promptTokenCount") - cached + count(wire, "toolUsePromptTokenCount"),
        count(wire, "candidatesTokenCount") + (thoughts or 0),
        cache_read=cached,
        total_tokens=whole(wire.get("totalTokenCount")),
        reasoning=thoughts,
    )
    return keeping(usage, wire, _encode_usage(usage))


def _encode_usage(usage: Usage) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "promptTokenCount": usage.input + usage.cache_read + usage.cache_write,
        "candidatesTokenCount": usage.output - (usage.reasoning or 0),
        "totalTokenCount": usage.total_tokens,
    }
    if usage.cache_read:
        wire["cachedContentTokenCount"] = usage.cache_read
    if usage.reasoning is not None:
        wire["thoughtsTokenCount"] = usage.reasoning
    return restored(wire, usage.extra) if usage.extra else wire


@response_encoder(API, RESPONSE_SUPPORT)
def encode_response(
    message: AssistantMessage, report: Reporter, request: Request | None, quirks: Quirks
) -> dict[str, Any]:
    """The body of a whole answer."""
    blocks = blocks_of(message.content)
    if not isinstance(message.content, tuple):
        report.lost("content", "content is a list of parts in this wire", "record", field="content")
    body = encode_answer(named(message, request), encode_content(blocks, report) or [])
    _report_answer(message, blocks, body, report)
    if has_envelope(quirks):
        body = _wrapped_answer(message, body)
    return body


def _wrapped_answer(message: AssistantMessage, body: dict[str, Any]) -> dict[str, Any]:
    extra_fields = residual_of(message.extra, API).get(RESPONSE, {})
    return body if extra_fields.get(PLAIN) else {"response": body, **extra_fields.get(ENVELOPE, {})}


def encode_answer(message: AssistantMessage, parts: list[Any]) -> dict[str, Any]:
    extra_fields: Mapping[str, Any] = residual_of(message.extra, API).get(RESPONSE, {})
    body: dict[str, Any] = {}
    if parts or message.content or not extra_fields.get(NO_CANDIDATE):
        candidate = put_back(_encode_candidate(message), extra_fields.get(CANDIDATE, {}))
        if parts:
            content = candidate.get("content")
            candidate["content"] = {**(content if isinstance(content, dict) else {"role": "model"}), "parts": parts}
        body["candidates"] = [candidate, *extra_fields.get(OTHERS, ())]
    return put_back(body | encode_envelope(message), extra_fields)


def _encode_candidate(message: AssistantMessage) -> dict[str, Any]:
    """A candidate without its parts."""
    # A candidate without parts still has its content's role.
    wire: dict[str, Any] = {"content": {"role": "model"}}
    if message.stop_reason is not None:
        wire["finishReason"] = wire_stop_reason(message)
        if wire["finishReason"] == "OTHER" and message.error_message and message.stop_detail is None:
            wire["finishMessage"] = message.error_message
    return wire


def encode_envelope(message: AssistantMessage) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if message.usage is not None:
        wire["usageMetadata"] = _encode_usage(message.usage)
    named = message.response_model or message.model
    if named:
        wire["modelVersion"] = named
    if message.response_id:
        wire["responseId"] = message.response_id
    elif message.api not in APIS:  # optional in Google's own answers
        wire["responseId"] = generated_id(message, "")
    return wire


def wire_stop_reason(message: AssistantMessage) -> str:
    return own_stop_reason(message, STOP_REASONS) or WIRE_STOP_REASONS[message.stop_reason or "stop"]


def _report_answer(
    message: AssistantMessage, blocks: tuple[Block, ...], body: dict[str, Any], report: Reporter
) -> None:
    if message.stop_reason == "aborted":
        report.lost("stop_reason", "an answer has no flag for an abort", "weakened", field="stopReason")
    if message.usage is not None and message.usage.cache_write:
        report.lost("cache_write", "counted as part of the prompt", "weakened", field="usage")
    if any(isinstance(block, TextBlock) and block.citations for block in blocks):
        back = with_citations(without_citations(blocks), first_candidate(body) or {})
        for at, (block, again) in enumerate(zip(blocks, back, strict=True)):
            if isinstance(block, TextBlock) and isinstance(again, TextBlock) and block.citations != again.citations:
                report.at(f"$.content[{at}].citations", "citations", "no place in this wire")
