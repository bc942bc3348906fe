"""Whole answers: envelope, stop reason, usage."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire, ContextTooLong, Overloaded, RateLimited
from ...values.folding import settle
from ...values.losses import QUIET, Reporter, own_fields
from ...values.messages import AssistantMessage, Block, Cost, StopReason, TextBlock, Usage, blocks_of
from ...values.request import Request
from ..codec import Given, Quirks, response_decoder, response_encoder
from ..provider_errors import code_of, failure_of
from ..residual import (
    RESPONSE,
    an_object,
    count,
    generated_id,
    keeping,
    keeping_response,
    known_reason,
    model_names,
    named,
    number,
    optional,
    put_back,
    restored,
    whole,
)
from .content import decode_item, encode_items, grouped_items, id_stem
from .facts import API, REASONS, RESPONSE_SUPPORT, STOP_REASONS, WIRE_STOP_REASONS, decode_error
from .requests import encode_body

# --- wire to ours -----------------------------------------------------------------------------------------------------


@response_decoder(API)
def decode_response(body: Any, base: AssistantMessage, given: Given) -> AssistantMessage:
    """A whole answer."""
    wire = an_object(body, API)
    if "output" not in wire and (wire.get("type") == "error" or (wire.get("error") and "status" not in wire)):
        raise decode_error(0, wire)
    output = wire.get("output", [])
    if not isinstance(output, list):
        raise BadWire(API, f"expected a list of items, got {type(output).__name__}", "$.output")
    items = (an_object(item, API, f"$.output[{at}]") for at, item in enumerate(output))
    id = wire.get("id")
    content = tuple(
        block for at, item in enumerate(items) for _, block in decode_item(item, at, answer=True, response_id=id)
    )
    return decode_answer({**wire, "output": []} if "output" in wire else wire, content, base)


def decode_answer(wire: dict[str, Any], content: tuple[Block, ...], base: AssistantMessage) -> AssistantMessage:
    """The message with this content, which is already decoded, and the envelope `wire`."""
    stop = _wire_stop_reason(wire)
    reason = _reason(stop, wire.get("status"), content)
    error = wire.get("error")
    given = optional(error.get("message")) if isinstance(error, dict) else None
    failed = reason in ("error", "aborted")
    message = replace(
        base,
        content=content,
        **decode_envelope(wire, base),
        stop_reason=reason,
        stop_detail=stop,
        error_message=_explained(stop, content) if given is None and failed else given,
    )
    # The usage keeps a residual of its own, so encoding it gives what it was decoded from.
    return keeping_response(message, API, wire, _encode_answer(message, [], QUIET, usage=wire.get("usage")))


def decode_envelope(wire: Mapping[str, Any], base: AssistantMessage) -> dict[str, Any]:
    return {
        "response_id": optional(wire.get("id")) or None,
        **model_names(base, optional(wire.get("model")) or None),
        "timestamp": base.timestamp if base.timestamp is not None else _decode_time(wire.get("created_at")),
        "usage": decode_usage(wire.get("usage")),
    }


def _decode_time(seconds: Any) -> int | None:
    given = number(seconds)
    return round(given * 1000) if given else None


def _wire_stop_reason(wire: Mapping[str, Any]) -> str | None:
    """The reason of an incomplete answer, else the status."""
    status, details = optional(wire.get("status")), wire.get("incomplete_details")
    # …/responses/object, `incomplete_details`: null unless the status is `incomplete`.
    reason = optional(details.get("reason")) if isinstance(details, dict) and status == "incomplete" else None
    return reason or status


def _reason(stop: str | None, status: Any, content: tuple[Block, ...]) -> StopReason:
    known = known_reason(stop, STOP_REASONS) or ("length" if status == "incomplete" else None)
    # A refusal is a completed response.
    if known in (None, "stop"):
        for block in content:
            if isinstance(block, TextBlock) and block.refusal:
                return "error"
    return settle(known, content)


def _explained(stop: str | None, content: tuple[Block, ...]) -> str:
    refused = "".join(block.text for block in content if isinstance(block, TextBlock) and block.refusal)
    return f"the model refused: {refused}" if refused else f"the provider stopped: {stop or 'no reason given'}"


def decode_usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    given, made = wire.get("input_tokens_details"), wire.get("output_tokens_details")
    given = given if isinstance(given, dict) else {}
    read, written = count(given, "cached_tokens"), count(given, "cache_write_tokens")
    price = number(wire.get("cost"))
    usage = Usage.of(
        # …, `usage`: `input_tokens` includes cached tokens, `output_tokens` includes reasoning.
        max(count(wire, "input_tokens") - read - written, 0),
        count(wire, "output_tokens"),
        cache_read=read,
        cache_write=written,
        total_tokens=whole(wire.get("total_tokens")),
        reasoning=whole(made.get("reasoning_tokens")) if isinstance(made, dict) else None,
        cost=None if price is None else Cost(total=price),
    )
    return keeping(usage, API, wire, _encode_usage(usage) or {})


# --- ours to wire -----------------------------------------------------------------------------------------------------


@response_encoder(API, RESPONSE_SUPPORT)
def encode_response(
    message: AssistantMessage, report: Reporter, request: Request | None, quirks: Quirks
) -> dict[str, Any]:
    """The body of a whole answer."""
    body = answer_encoded(message, [], report, request)
    output = encode_items(blocks_of(message.content), report, stem=id_stem(body.get("id")))
    return {**body, "output": output} if output else body


def item_blocks(message: AssistantMessage) -> dict[str, list[Block]]:
    """The blocks of an answer by the id of their item, as `encode_response` writes it."""
    items = grouped_items(blocks_of(message.content), QUIET, stem=id_stem(message.response_id))
    return {item["id"]: blocks for item, blocks in items if isinstance(item, dict) and isinstance(item.get("id"), str)}


def answer_encoded(
    message: AssistantMessage, output: list[Any], report: Reporter, request: Request | None = None
) -> dict[str, Any]:
    """The answer with its items, and the settings of `request` unless the message came from this wire; what `request`
    refers to in any case, since a gateway may have sent that along instead of the reference."""
    body = _encode_answer(named(message, request), output, report)
    extra_fields = message.extra.get(API, {}) if message.extra else {}
    for key in own_fields(extra_fields):
        report.at(f"$.extra.{API}.{key}", key, "kept for a request's message, not for an answer", "record")
    if RESPONSE in extra_fields:
        return put_back(body, extra_fields[RESPONSE]) | _references(request)
    return body | _echoed(request) | _references(request)


def _encode_answer(
    message: AssistantMessage, output: list[Any], report: Reporter, *, usage: Any = None
) -> dict[str, Any]:
    """The envelope, with all required fields; unknown settings have their defaults.

    `usage` is the usage of the message as encoded, if it is known.
    """
    content = blocks_of(message.content)
    stop = encoded_stop(message, content)
    if report is not QUIET:
        _report_envelope(message, stop, content, report)
    explained = message.stop_reason in ("error", "aborted") and message.error_message == _explained(stop, content)
    error = None if message.error_message is None or explained else message.error_message
    return {
        "id": message.response_id or generated_id(message, "resp_"),
        "object": "response",
        "created_at": _encode_time(message.timestamp),
        "status": status_given(stop),
        # …: these fields are required and null where they do not apply; SDKs fail on a response without them.
        "error": None if error is None else {"code": _error_code(message), "message": error},
        "incomplete_details": {"reason": stop} if stop in REASONS else None,
        "instructions": None,
        "metadata": {},
        "model": message.response_model or message.model or "",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None if message.usage is None else usage or _encode_usage(message.usage),
    }


def _error_code(message: AssistantMessage) -> str:
    """The wire's code for the kind of failure."""
    # …/responses/object, `error.code`: an enum, in which `server_error` is what has no code of its own.
    failure = failure_of(message)
    return (
        code_of(failure) if isinstance(failure, ContextTooLong | RateLimited | Overloaded) else None
    ) or "server_error"


def status_given(stop: str) -> str:
    return "incomplete" if stop in REASONS else stop


def encoded_stop(message: AssistantMessage, content: tuple[Block, ...]) -> str:
    stop = message.stop_detail
    if stop in STOP_REASONS and _reason(stop, None, content) == message.stop_reason:
        return stop
    return WIRE_STOP_REASONS.get(message.stop_reason or "", "completed")


def _report_envelope(message: AssistantMessage, stop: str, content: tuple[Block, ...], report: Reporter) -> None:
    """Reports what decoding will not restore."""
    reason = _reason(stop, None, content)
    if reason != message.stop_reason:
        report.at("$.stopReason", "stop_reason", f"read back as {reason}", "weakened")
    if stop != message.stop_detail:
        report.at("$.stopDetail", "stop_detail", f"this wire's value is {stop}", "record")
    if message.error_message is None and reason in ("error", "aborted"):
        report.at("$.errorMessage", "error_message", "the wire's own text takes its place", "record")
    if message.timestamp is not None and _decode_time(_encode_time(message.timestamp)) != message.timestamp:
        report.at("$.timestamp", "timestamp", "not a time that this wire can write", "record")
    if message.response_model and message.response_model != message.model:
        report.at("$.model", "model", "the wire names only the model that answered", "record")
        report.at("$.responseModel", "response_model", "the wire names only the model that answered", "record")
    if message.usage is not None and message.usage.reasoning is None:
        report.at("$.usage.reasoning", "reasoning", "always counted on this wire", "record")
    if message.content is None or isinstance(message.content, str):
        report.at("$.content", "content", "answers are lists of items", "record")


def _encode_usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    wire = {
        "input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": usage.total_tokens,
    }
    if usage.cost is not None:
        wire["cost"] = usage.cost.total  # a field of OpenRouter
    return restored(wire, usage.extra, API) if usage.extra else wire


def _encode_time(timestamp: int | None) -> int:
    """Whole seconds, as OpenAI writes them."""
    return (timestamp or 0) // 1000


# Settings of a request that its response repeats: platform.openai.com/docs/api-reference/responses/object.
_ECHOED = (
    "background",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)


def _echoed(request: Request | None) -> dict[str, Any]:
    if request is None:
        return {}
    body = restored(encode_body(request, [], QUIET), request.extra, API)
    return {key: body[key] for key in _ECHOED if body.get(key) is not None}


def _references(request: Request | None) -> dict[str, Any]:
    """What a request continues, and whether in background. A conversation is an object in a response, and may be its
    id in a request."""
    given = request.extra.get(API, {}) if request is not None else {}
    names = ("background", "previous_response_id", "conversation")
    found = {name: given[name] for name in names if given.get(name) is not None}
    if isinstance(found.get("conversation"), str):
        found["conversation"] = {"id": found["conversation"]}
    return found
