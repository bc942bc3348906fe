"""Messages. Tool results are blocks inside user messages; one wire message may hold several, and words beside them."""

from typing import Any

from ...values.errors import BadWire
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ..residual import an_object, each, keeping, residual, residual_of, restored
from ..results import apart, marked, say_result, say_user
from .content import decode_block, decode_cache, decode_content, encode_cache, encode_content
from .facts import API


def decode_messages(wire: Any, api: str = API) -> tuple[Message, ...]:
    """Wire messages as ours; a user message with tool results becomes several. `api` is who minted the answers."""
    names: dict[str, str] = {}  # call id -> tool name; a repeated id means the latest call
    groups = each(wire, "messages", API, lambda message: _decode_message(message, names, api))
    return tuple(message for group in groups for message in group)


def _decode_message(wire: Any, names: dict[str, str], api: str) -> list[Message]:
    role = an_object(wire, API).get("role")
    content = wire.get("content")
    if role == "user":
        return _decode_user(wire, content, names)
    if role == "assistant":
        message = AssistantMessage(content=decode_content(content), api=api)
        for call in message.tool_calls:
            names[call.id] = call.name
        return [keeping(message, API, wire, _encode_message("assistant", message, QUIET))]
    if role == "system":
        system = SystemMessage(content=decode_content(content))
        return [keeping(system, API, wire, _encode_message("system", system, QUIET))]
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: user, assistant or system", "$.role")
    return [CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})]  # type: ignore[list-item]


def _decode_user(wire: dict[str, Any], content: Any, names: dict[str, str]) -> list[Message]:
    if not isinstance(content, list) or not any(_is_result(block) for block in content):
        user = UserMessage(content=decode_content(content))
        return [keeping(user, API, wire, _encode_message("user", user, QUIET))]
    pieces = apart(content, _is_result, lambda block: _decode_result(block, names), decode_block)
    # A first result is always marked as the first, as if others stood before it.
    return marked(pieces, residual(wire, {"role": "user", "content": content}), pieces[0], API)


def _is_result(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and block.get("type") == "tool_result"
        and isinstance(block.get("tool_use_id"), str)
        and isinstance(block.get("content", ""), str | list | None)
        and isinstance(block.get("is_error", False), bool)
    )


def _decode_result(wire: dict[str, Any], names: dict[str, str]) -> ToolResultMessage:
    result = ToolResultMessage(
        tool_call_id=wire["tool_use_id"],
        tool_name=names.get(wire["tool_use_id"]),
        content=decode_content(wire.get("content")),
        is_error=wire.get("is_error", False),
        cache=decode_cache(wire),
    )
    return keeping(result, API, wire, _encode_result(result, QUIET))


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Our messages as the wire's; results of one turn share a user message."""
    encoded: list[dict[str, Any]] = []
    before: Message | None = None
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        report.message = at
        if type(message) is AssistantMessage:
            encoded.append(_encode_message("assistant", message, report))
            for block in blocks_of(message.content):
                if type(block) is ToolCall:
                    names[block.id] = block.name
        elif type(message) is ToolResultMessage:
            if message.tool_name is not None and names.get(message.tool_call_id) != message.tool_name:
                report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
            say_result(encoded, [_encode_result(message, report)], residual_of(message.extra, API), before)
        elif type(message) is UserMessage:
            say_user(encoded, _encode_message("user", message, report), residual_of(message.extra, API), before)
        elif isinstance(message, SystemMessage):
            encoded.append(_encode_message("system", message, report))
        elif isinstance(message, CustomMessage):  # the wire's own unknown role; others are reported by the table
            encoded.append({"role": message.role, **message.fields})
        before = message
    return encoded


def _encode_message(
    role: str, message: UserMessage | AssistantMessage | SystemMessage, report: Reporter
) -> dict[str, Any]:
    encoded = {"role": role, "content": encode_content(message.content, report)}
    return restored(encoded, message.extra, API) if message.extra else encoded


def _encode_result(result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.tool_call_id}
    if result.content is not None:
        wire["content"] = encode_content(result.content, report)
    if result.is_error:
        wire["is_error"] = True
    if result.cache is not None:
        wire["cache_control"] = encode_cache(result.cache)
    return restored(wire, result.extra, API) if result.extra else wire
