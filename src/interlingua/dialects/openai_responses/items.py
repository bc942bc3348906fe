"""Items of answers: reasoning, calls and messages, and a model's words among them."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.folding import arguments_text, parse_arguments
from ...values.losses import Reporter
from ...values.messages import Block, OpaqueBlock, ServerToolCall, TextBlock, ThinkingBlock, ToolCall
from ..residual import JOINED, MESSAGE, optional, put_back, residual, string
from .assistant_encode import (
    decode_message,
    easy_message,
    encode_content_text,
    finish_message,
    is_string_content,
    message_item,
)
from .facts import API, AS_TEXT, CONTENT, CUSTOM, FORM, GENERATED, SERVER_CALLS, SUMMARY, Mint
from .response_residual import NO_HINTS, answered, filed, kind_of, residual_of

# --- wire to ours -----------------------------------------------------------------------------------------------------


def decode_item(
    wire: dict[str, Any], at: int, *, answer: bool = False, mint: Mint | None = None
) -> list[tuple[int, Block]]:
    """The blocks of an item at place `at`, each with its place among the item's parts.

    `answer` says that the item is of an answer, and not of the input, which may say less (see `held_of`). Whatever is
    not as this wire has it is kept as it is, opaque.
    """
    decode = _ITEMS.get(kind_of(wire))
    if decode is not None:
        try:
            return decode(wire, at, answer, mint or "call_{}".format)
        except (KeyError, TypeError, ValueError):
            pass
    return [(0, OpaqueBlock(dialect=API, value=wire))]


def _decode_reasoning(wire: dict[str, Any], at: int, answer: bool, mint: Mint) -> list[tuple[int, Block]]:
    texts: list[str] = []
    summary = _measured(wire.get("summary") or [], "summary_text", texts)
    content = _measured(wire["content"], "reasoning_text", texts) if isinstance(wire.get("content"), list) else None
    text = "\n\n".join(texts)
    block = ThinkingBlock(thinking=text, thinking_signature=optional(wire.get("encrypted_content")))
    hints = {SUMMARY: summary} if content is None else {SUMMARY: summary, CONTENT: content}
    if content is not None or summary != ([len(text)] if text else []):
        block = replace(block, extra={API: hints})
    extra_fields = residual_of(wire, _encoded_reasoning(block), "reasoning", at, answer)
    return [(0, replace(block, extra=filed(block.extra, extra_fields)))]


def _measured(parts: Any, kind: str, texts: list[str]) -> list[Any]:
    """How long the text of each part is, with what else the wire said of it; the texts are added to `texts`."""
    lengths: list[Any] = []
    for part in parts:
        text = string(part["text"])
        rest = residual(part, {"type": kind, "text": text})
        lengths.append([len(text), rest] if rest else len(text))
        texts.append(text)
    return lengths


def _decode_call(wire: dict[str, Any], at: int, answer: bool, mint: Mint) -> list[tuple[int, Block]]:
    id = optional(wire.get("call_id"))
    given = wire.get("arguments", "")
    hints: dict[str, Any] = {GENERATED: True} if id is None else {}
    provided: tuple[dict[str, Any], str | None, str | None]
    if wire["type"] == CUSTOM:
        provided = {"input": string(wire["input"])}, None, None
        hints[FORM] = CUSTOM
    elif isinstance(given, dict):  # some servers
        provided = given, None, None
    else:
        provided = parse_arguments(string(given))
        if answer and provided[1] is not None and not provided[1].strip():
            provided = {}, None, None  # no arguments; how that was spelled is not sent back
    block = ToolCall(
        id=mint(at) if id is None else id,
        name=string(wire["name"]),
        arguments=provided[0],
        arguments_text=provided[1],
        parse_error=provided[2],
        extra={API: hints} if hints else {},
    )
    extra_fields = residual_of(wire, encoded_call(block), wire["type"], at, answer)
    return [(0, replace(block, extra=filed(block.extra, extra_fields)) if extra_fields else block)]


def _decode_server_call(wire: dict[str, Any], at: int, answer: bool, mint: Mint) -> list[tuple[int, Block]]:
    kind = wire["type"]
    if wire.get("execution") == "client":
        raise ValueError("a call for the client to run")
    name, key = SERVER_CALLS[kind]
    given = wire.get(key) if key else None
    if kind in AS_TEXT and given is not None:
        arguments, _, broken = parse_arguments(string(given))
        given = arguments if broken is None and given.strip() else given
    block = ServerToolCall(
        id=string(wire["id"]),
        name=string(wire["name"]) if name is None else name,
        arguments=given,
        extra={API: {"type": kind}},
    )
    extra_fields = residual(wire, _encoded_server_call(block, kind))
    return [(0, replace(block, extra=filed(block.extra, extra_fields)))]


_ITEMS: dict[str, Callable[[dict[str, Any], int, bool, Mint], list[tuple[int, Block]]]] = {
    "message": decode_message,
    "reasoning": _decode_reasoning,
    "function_call": _decode_call,
    CUSTOM: _decode_call,
    **dict.fromkeys(SERVER_CALLS, _decode_server_call),
}


# --- ours to wire -----------------------------------------------------------------------------------------------------


def encode_items(content: tuple[Block, ...], report: Reporter, *, answer: bool = False) -> list[Any]:
    """The items that say these blocks; of an `answer`, with all that answers say of items."""
    items: list[Any] = []
    message: dict[str, Any] | None = None  # the item of the words before, if words were before
    unfinished: list[tuple[dict[str, Any], Mapping[str, Any]]] = []
    for at, block in enumerate(content):
        report.block = at
        if isinstance(block, TextBlock):
            extra_fields = (block.extra.get(API) if block.extra else None) or NO_HINTS
            if not answer and is_string_content(block, extra_fields):
                message = None
                items.append(easy_message(block, extra_fields, report))
                continue
            part = encode_content_text(block, report, answer=answer)
            if message is not None and extra_fields.get(JOINED):
                message["content"].append(part)
                continue
            message = message_item(extra_fields, [part], len(items), answer)
            items.append(message)
            if MESSAGE in extra_fields:
                unfinished.append((message, extra_fields[MESSAGE]))
            continue
        message = None
        item = encode_item(block, report, len(items), answer=answer)
        if item is not None:
            items.append(item)
    report.block = None
    for message, about in unfinished:
        finish_message(message, about)
    return items


def encode_item(block: Block, report: Reporter, at: int, *, answer: bool = False) -> Any:
    """The item that says one block, no words, at place `at` of the output; or None (reported)."""
    extra_fields = block.extra.get(API) if block.extra else None
    match block:
        case ToolCall():
            wire = encoded_call(block)
            kind = wire["type"]
        case ThinkingBlock():
            kind, wire = "reasoning", _encoded_reasoning(block)
        case ServerToolCall() if extra_fields and extra_fields.get("type") in SERVER_CALLS:
            if block.cache is not None:
                report.lost("cache", "answers cannot be marked", field="cache")
            kind, wire = "", _encoded_server_call(block, extra_fields["type"])
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            report.lost(type(block).__name__, "an answer of this wire cannot hold such a block")
            return None
    if extra_fields:
        wire = put_back(wire, extra_fields)
    return answered(wire, extra_fields or {}, kind, at) if answer else wire


def encoded_call(block: ToolCall) -> dict[str, Any]:
    extra_fields = block.extra.get(API) if block.extra else None
    if extra_fields and is_custom(block):
        wire = {"type": CUSTOM, "call_id": block.id, "name": block.name, "input": block.arguments["input"]}
    else:
        wire = {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments_text(block)}
    if extra_fields and extra_fields.get(GENERATED):
        del wire["call_id"]
    return wire


def is_custom(call: ToolCall) -> bool:
    if call.extra.get(API, {}).get(FORM) != CUSTOM:
        return False
    return call.arguments.keys() == {"input"} and isinstance(call.arguments["input"], str)


def _encoded_server_call(block: ServerToolCall, kind: str) -> dict[str, Any]:
    name, key = SERVER_CALLS[kind]
    wire: dict[str, Any] = {"type": kind, "id": block.id}
    if name is None:
        wire["name"] = block.name
    if key is not None and block.arguments is not None:
        spelled = kind in AS_TEXT and not isinstance(block.arguments, str)
        wire[key] = jsontext.compact(block.arguments) if spelled else block.arguments
    return wire


def _encoded_reasoning(block: ThinkingBlock) -> dict[str, Any]:
    summary, content = _reasoning_parts(block)
    wire: dict[str, Any] = {"type": "reasoning", "summary": summary}
    if content is not None:
        wire["content"] = content
    if block.thinking_signature is not None:
        wire["encrypted_content"] = block.thinking_signature
    return wire


def _reasoning_parts(block: ThinkingBlock) -> tuple[list[Any], list[Any] | None]:
    """The text in the parts in which it came, as long as it still has their lengths; else in one."""
    extra_fields = block.extra.get(API, {}) if block.extra else {}
    if SUMMARY not in extra_fields:
        return ([{"type": "summary_text", "text": block.thinking}] if block.thinking else []), None
    summary, content = extra_fields[SUMMARY], extra_fields.get(CONTENT)
    texts = _cut(block.thinking, [*summary, *(content or ())])
    if texts is None:
        if content and not summary:
            return [], [{"type": "reasoning_text", "text": block.thinking}]
        return [{"type": "summary_text", "text": block.thinking}], None if content is None else []
    encoded = _encoded_parts(texts, summary, "summary_text")
    return encoded, None if content is None else _encoded_parts(texts[len(summary) :], content, "reasoning_text")


def _cut(text: str, lengths: list[Any]) -> list[str] | None:
    """The inverse of joining with blank lines; None if these are not the lengths."""
    texts: list[str] = []
    at = 0
    for length in lengths:
        if texts:
            if not text.startswith("\n\n", at):
                return None
            at += 2
        end = at + (length if isinstance(length, int) else length[0])
        texts.append(text[at:end])
        at = end
    return texts if at == len(text) else None


def _encoded_parts(texts: list[str], lengths: list[Any], kind: str) -> list[Any]:
    encoded = []
    for text, length in zip(texts, lengths, strict=False):
        part = {"type": kind, "text": text}
        encoded.append(part if isinstance(length, int) else put_back(part, length[1]))
    return encoded
