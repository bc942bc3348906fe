"""Whole answers, and the envelope that streamed answers share with them."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.losses import Reporter
from ...values.messages import AssistantMessage, Block, StopReason, TextBlock, ToolCall, Usage, blocks_of
from ...values.request import Request
from ..codec import Given, Quirks, response_decoder, response_encoder
from ..residual import (
    MESSAGE,
    RESPONSE,
    an_object,
    each,
    fields_of,
    generated_id,
    known_reason,
    list_of,
    model_names,
    named,
    optional,
    put_back,
    reason_for,
    residual,
    whole,
    with_residual,
)
from .content import ResultPairing
from .facts import (
    API,
    CHOICE,
    CHOICES,
    NO_MESSAGE,
    NONE,
    RESPONSE_SUPPORT,
    STOP_REASONS,
    Compat,
    compat_of,
    decode_error,
    decode_usage,
    encode_usage,
    find_usage,
)
from .messages import decode_assistant, encode_assistant

_FILTERED = "content_filter"
_WIRE_STOP_REASONS = {"stop": "stop", "toolUse": "tool_calls", "length": "length", "error": "error", "aborted": "stop"}


def read_answer(
    envelope: dict[str, Any],
    choice: dict[str, Any] | None,
    content: tuple[Block, ...],
    beside: dict[str, Any],
    base: AssistantMessage,
    compat: Compat,
    usage: Usage | None = None,
) -> AssistantMessage:
    """The message with this content, which is already decoded; `choice` is None if the answer has none."""
    stop = optional((choice or {}).get("finish_reason"))
    if choice is None and filters_of(envelope):
        stop = _FILTERED
    reason = reason_of(stop, content)
    message = replace(
        base,
        content=content,
        **decode_envelope(envelope, base),
        usage=usage or decode_usage(find_usage(envelope, choice or {}), compat),
        stop_reason=reason,
        stop_detail=stop,
        error_message=_error_message(stop, choice or envelope, content) if reason == "error" else None,
    )
    # The usage keeps a residual of its own, so encoding it gives what it was decoded from.
    encoded = encode_envelope(message, compat, usage=envelope.get("usage"))
    extra_fields = {**residual(envelope, encoded), **beside}
    if choice is None:
        extra_fields[NONE] = True
    elif rest := residual(choice, _encode_choice_shell(message)):
        extra_fields[CHOICE] = rest
    return with_residual(message, API, **{RESPONSE: extra_fields}) if extra_fields else message


def reason_of(stop: str | None, content: tuple[Block, ...]) -> StopReason:
    """Our stop reason. A refusal is an error, whatever `finish_reason` is."""
    # …/guides/structured-outputs, Refusals: a refusal has `finish_reason: stop`, and its text in `refusal`.
    for block in content:
        if isinstance(block, TextBlock) and block.refusal:
            return "error"
    # An unknown value may mean that the answer was cut off: its calls must not run.
    if stop and known_reason(stop, STOP_REASONS) is None and any(isinstance(block, ToolCall) for block in content):
        return "length"
    return reason_for(stop, STOP_REASONS, content)


def _error_message(stop: str | None, choice: Mapping[str, Any], content: tuple[Block, ...]) -> str:
    message = fields_of(choice.get("error")).get("message")
    if isinstance(message, str):
        return message
    refusal = "".join(block.text for block in content if isinstance(block, TextBlock) and block.refusal)
    if refusal:
        return f"the model refused: {refusal}"
    filters = ", ".join(filters_of(choice)) if stop == _FILTERED else ""
    return f"the provider stopped: {stop or 'no reason given'}{filters and f' ({filters})'}"


def filters_of(wire: Mapping[str, Any]) -> list[str]:
    """The names of Azure's filters that removed content, of a choice or of the prompts: `hate`, `jailbreak`, …

    https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter
    """
    names: dict[str, None] = {}
    for holder in (wire, *map(fields_of, list_of(wire.get("prompt_filter_results")))):
        # Azure uses both spellings.
        results = holder.get("content_filter_results") or holder.get("content_filter_result")
        for name, result in fields_of(results).items():
            if fields_of(result).get("filtered") is True:
                names[name] = None
    return list(names)


def decode_envelope(wire: Mapping[str, Any], base: AssistantMessage) -> dict[str, Any]:
    timestamp = base.timestamp
    if timestamp is None and (created := whole(wire.get("created"))):  # 0 from hosts that do not know the time
        timestamp = created * 1000
    return {
        "response_id": optional(wire.get("id")) or None,
        **model_names(base, optional(wire.get("model")) or None),
        "timestamp": timestamp,
    }


def response_residual(message: AssistantMessage) -> dict[str, Any]:
    return (message.extra.get(API) or {}).get(RESPONSE) or {}


def whole_answer(message: AssistantMessage, compat: Compat, report: Reporter) -> dict[str, Any]:
    extra_fields = response_residual(message)
    body = put_back(encode_envelope(message, compat), extra_fields)
    if extra_fields.get(NONE):
        return body
    choice = put_back(_encode_choice_shell(message), extra_fields.get(CHOICE) or {})
    if message.content or not extra_fields.get(NO_MESSAGE):
        rest = extra_fields.get(MESSAGE) or {}
        content = blocks_of(message.content)
        choice["message"] = put_back(encode_assistant(content, rest, compat, report, answer=True), rest)
    body["choices"] = [choice, *(extra_fields.get(CHOICES) or ())]
    return body


def encode_envelope(message: AssistantMessage, compat: Compat, *, usage: Any = None) -> dict[str, Any]:
    """The answer without its choices; `usage` is the usage of the message as encoded, if it is known."""
    wire = {
        "id": message.response_id or generated_id(message, "chatcmpl-"),
        "object": "chat.completion",
        "created": (message.timestamp or 0) // 1000,
        "model": message.response_model or message.model or "",
    }
    if message.usage is not None:
        wire["usage"] = usage or encode_usage(message.usage, compat)
    return wire


def _encode_choice_shell(message: AssistantMessage) -> dict[str, Any]:
    """A choice without its message."""
    stop = wire_stop_reason(message)
    wire: dict[str, Any] = {"index": 0, "finish_reason": stop}
    if stop == "error" and message.error_message is not None:
        wire["error"] = {"message": message.error_message}
    return wire


def wire_stop_reason(message: AssistantMessage) -> str | None:
    stop, content = message.stop_detail, blocks_of(message.content)
    if stop in STOP_REASONS and reason_of(stop, content) == message.stop_reason:
        return stop
    if message.stop_reason == "error" and reason_of("stop", content) == "error":
        return "stop"  # the refusal shows the failure
    return _WIRE_STOP_REASONS.get(message.stop_reason or "")


@response_decoder(API)
def decode_response(body: Any, base: AssistantMessage, given: Given) -> AssistantMessage:
    """A whole answer: the first choice; the others are kept in the residual."""
    wire = an_object(body, API)
    if wire.get("error"):  # some hosts send errors with status 200
        raise decode_error(0, wire)
    compat, choices = compat_of(given.quirks), wire.get("choices")
    envelope = {key: value for key, value in wire.items() if key != "choices"}
    # Azure sends `choices: []` where its filter blocked the prompt.
    if not choices:
        empty = wire if "choices" in wire else envelope
        return read_answer(empty, None, (), {}, base, compat)
    choice, *others = each(choices, "choices", API, lambda item: an_object(item, API))
    beside: dict[str, Any] = {CHOICES: others} if others else {}
    is_failed = bool(choice.get("error")) or STOP_REASONS.get(optional(choice.get("finish_reason")) or "") == "error"
    if choice.get("message") is None and is_failed:  # Azure, for a choice that was filtered completely
        return read_answer(envelope, choice, (), {**beside, NO_MESSAGE: True}, base, compat)
    wire_message = an_object(choice.get("message"), API, "$.choices[0].message")
    content, extra_fields = decode_assistant(wire_message, compat, ResultPairing(given.mint).mint, answer=True)
    if extra_fields:
        beside[MESSAGE] = extra_fields
    rest = {key: value for key, value in choice.items() if key != "message"}
    return read_answer(envelope, rest, content, beside, base, compat)


@response_encoder(API, RESPONSE_SUPPORT)
def encode_response(
    message: AssistantMessage, report: Reporter, request: Request | None, quirks: Quirks
) -> dict[str, Any]:
    """The body of a whole answer."""
    body = whole_answer(named(message, request), compat_of(quirks), report)
    stop = wire_stop_reason(message)
    if message.stop_reason is None or reason_of(stop, blocks_of(message.content)) != message.stop_reason:
        report.at("$.stopReason", "stop_reason", "the wire has no value for it", "weakened")
    if stop != message.stop_detail:
        report.at("$.stopDetail", "stop_detail", "another wire's value", "record")
    if message.timestamp is not None and (message.timestamp % 1000 or not message.timestamp):
        report.at("$.timestamp", "timestamp", "written in whole seconds", "record")
    if message.response_model is not None and message.model is not None:
        report.at("$.model", "model", "the model that answered is written, not the one that was asked", "record")
    return body
