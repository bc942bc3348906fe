"""The model's thinking: plain words in one of several fields, or entries with signatures and seals."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from ...values.messages import Block, OpaqueBlock, ThinkingBlock
from ..residual import optional, residual, restored, string
from .facts import API, DETAIL, DETAILS, FIELDS
from .hosts import Compat


def decode_detail(wire: Any, at: int) -> Block:
    """One entry of `reasoning_details`, the `at`th."""
    try:
        block, marks = DETAIL_DECODERS[wire["type"]](wire)
        block = replace(block, extra={API: marks}) if marks else block
        extra_fields = {**residual(wire, encode_detail(block, at)), **marks}
        return replace(block, extra={API: extra_fields}) if extra_fields else block
    except (KeyError, TypeError, ValueError, AttributeError):
        return OpaqueBlock(dialect=API, value={DETAILS: [wire]})


def _decode_detail_text(wire: dict[str, Any]) -> tuple[ThinkingBlock, dict[str, Any]]:
    text = "" if wire.get("text") is None else string(wire["text"])
    signature = optional(wire.get("signature"))
    marks = {DETAIL: "reasoning.text"} if signature is None else {}
    return ThinkingBlock(thinking=text, thinking_signature=signature), marks


def _decode_detail_summary(wire: dict[str, Any]) -> tuple[ThinkingBlock, dict[str, Any]]:
    return ThinkingBlock(thinking=string(wire["summary"])), {DETAIL: "reasoning.summary"}


def _decode_detail_sealed(wire: dict[str, Any]) -> tuple[ThinkingBlock, dict[str, Any]]:
    return ThinkingBlock(thinking="", thinking_signature=optional(wire.get("data")), redacted=True), {}


DETAIL_DECODERS: dict[str, Callable[[dict[str, Any]], tuple[ThinkingBlock, dict[str, Any]]]] = {
    "reasoning.text": _decode_detail_text,
    "reasoning.summary": _decode_detail_summary,
    "reasoning.encrypted": _decode_detail_sealed,
}


def encode_detail(block: ThinkingBlock, at: int) -> dict[str, Any]:
    """The entry; its index is said because clients put streamed entries together by it."""
    kind = "reasoning.encrypted" if block.redacted else (block.extra.get(API) or {}).get(DETAIL, "reasoning.text")
    wire: dict[str, Any] = {"type": kind}
    if block.redacted:
        if block.thinking_signature is not None:
            wire["data"] = block.thinking_signature
    else:
        wire[TEXTS.get(kind, "text")] = block.thinking
        if block.thinking_signature is not None:
            wire["signature"] = block.thinking_signature
    wire["index"] = at
    return restored(wire, block.extra, API)


TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}  # where an entry has its words


def is_detail(block: ThinkingBlock) -> bool:
    """Whether the thinking needs an entry of its own: signed, sealed, or with more than its words to say."""
    if block.thinking_signature is not None or block.redacted:
        return True
    extra_fields = block.extra.get(API) or {}
    return DETAIL in extra_fields or any(not key.startswith("~") for key in extra_fields)


def joined_text(details: Iterable[Block]) -> str:
    return "".join(block.thinking for block in details if isinstance(block, ThinkingBlock))


def usual_repeats(other_thoughts: bool, compat: Compat, *, answer: bool) -> list[str]:
    """The fields that repeat the words of details: in answers the usual one, for clients that know no details."""
    return [compat.reasoning_field] if answer and not other_thoughts else []


def plain_thought(text: str, names: list[str], compat: Compat) -> ThinkingBlock:
    return ThinkingBlock(thinking=text, extra={} if names == [compat.reasoning_field] else {API: {FIELDS: names}})


def text_in(details: list[Any]) -> str:
    """The words in some entries."""
    if len(details) == 1 and isinstance(details[0], dict):
        text = details[0].get("text") or details[0].get("summary")
        return text if isinstance(text, str) else ""
    return "".join(
        detail[word]
        for detail in details
        if isinstance(detail, dict)
        for word in ("text", "summary")
        if isinstance(detail.get(word), str)
    )
