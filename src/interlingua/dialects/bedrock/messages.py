"""Messages. Tool results are blocks inside user messages; one wire message may hold several, and words beside them."""

from typing import Any, TypeVar

from msgspec.structs import replace

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
)
from ..residual import an_object, each, keeping, put_back, residual, residual_of, restored, with_residual
from ..results import marked, say_result, say_user
from .content import (
    decode_block,
    decode_cache,
    decode_content,
    decode_result_block,
    encode_cache,
    encode_content,
    encode_result_content,
    takes_cache,
    with_points,
)
from .facts import API, STRING


def decode_messages(wire: Any) -> tuple[Message, ...]:
    """Wire messages as ours; a user message with tool results becomes several."""
    names: dict[str, str] = {}  # call id -> tool name; a repeated id means the latest call
    messages: list[Message] = []

    def read(message: Any) -> None:
        messages.extend(_decode_message(message, names, messages[-1] if messages else None))

    each(wire, "messages", API, read)
    return tuple(messages)


def _decode_message(wire: Any, names: dict[str, str], before: Message | None) -> list[Message]:
    role = an_object(wire, API).get("role")
    content = wire.get("content")
    if role == "user":
        if isinstance(content, list) and any(map(_is_result, content)):
            extra_fields = residual(wire, {"role": "user", "content": content})
            return marked(_decode_results(content, names), extra_fields, before, API)
        return [_plain(UserMessage(content=decode_content(content)), "user", wire)]
    if role == "assistant":
        message = AssistantMessage(content=decode_content(content), api=API)
        for call in message.tool_calls:
            names[call.id] = call.name
        return [_plain(message, role, wire)]
    if role == "system":
        return [_plain(SystemMessage(content=decode_content(content)), role, wire)]
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: user, assistant or system", "$.role")
    return [CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})]  # type: ignore[list-item]


M = TypeVar("M", UserMessage, AssistantMessage, SystemMessage)


def _plain(message: M, role: str, wire: dict[str, Any]) -> M:
    """A message that is one wire message, with what its encoding gets wrong."""
    if isinstance(message.content, str):
        message = with_residual(message, API, **{STRING: True})
    return keeping(message, API, wire, _encoded_message(role, message, QUIET))


def _decode_results(content: list[Any], names: dict[str, str]) -> list[Message]:
    pieces: list[Message] = []
    terms: list[Any] = []
    for item in content:
        cache = decode_cache(item)
        if cache is not None and not terms and pieces and takes_cache(pieces[-1]):
            pieces[-1] = replace(pieces[-1], cache=cache)
        elif _is_result(item):
            _append_text(pieces, terms)
            terms = []
            pieces.append(_decode_result(item, names))
        else:
            terms.append(item)
    _append_text(pieces, terms)
    return pieces


def _append_text(pieces: list[Message], terms: list[Any]) -> None:
    if terms:
        pieces.append(UserMessage(content=tuple(with_points(terms, decode_block))))


def _is_result(block: Any) -> bool:
    given = block.get("toolResult") if isinstance(block, dict) else None
    return (
        isinstance(given, dict)
        and isinstance(given.get("toolUseId"), str)
        and isinstance(given.get("content", []), list | None)
        # Only results of the provider's own tools say their type (`nova_code_interpreter_result`).
        and (not isinstance(given.get("type"), str) or given["type"] == "tool_result")
    )


def _decode_result(wire: dict[str, Any], names: dict[str, str]) -> ToolResultMessage:
    given = wire["toolResult"]
    content = given.get("content")
    result = ToolResultMessage(
        tool_call_id=given["toolUseId"],
        tool_name=names.get(given["toolUseId"]),
        content=None if content is None else tuple(map(decode_result_block, content)),
        is_error=given.get("status") == "error",
    )
    return keeping(result, API, wire, _encode_result(result, QUIET))


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Our messages as the wire's; results of one turn share a user message."""
    encoded: list[dict[str, Any]] = []
    before: Message | None = None
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                say_user(encoded, _encoded_message("user", message, report), residual_of(message.extra, API), before)
            case AssistantMessage():
                encoded.append(_encoded_message("assistant", message, report))
                for block in message.content if isinstance(message.content, tuple) else ():
                    if isinstance(block, ToolCall):
                        names[block.id] = block.name
            case ToolResultMessage():
                if message.tool_name is not None and names.get(message.tool_call_id) != message.tool_name:
                    report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
                blocks = [_encode_result(message, report)]
                if message.cache is not None:
                    blocks.append(encode_cache(message.cache))
                say_result(encoded, blocks, residual_of(message.extra, API), before)
            case SystemMessage():
                encoded.append(_encoded_message("system", message, report))
            case CustomMessage():  # the wire's own unknown role goes back; others are reported by the table
                encoded.append({"role": message.role, **message.fields})
        before = message
    return encoded


def _encoded_message(
    role: str, message: UserMessage | AssistantMessage | SystemMessage, report: Reporter
) -> dict[str, Any]:
    content: Any = message.content
    if not message.extra:
        return {"role": role, "content": encode_content(content, report)}
    extra_fields = residual_of(message.extra, API)
    if not (extra_fields.get(STRING) and isinstance(content, str)):
        content = encode_content(content, report)
    return put_back({"role": role, "content": content}, extra_fields)


def _encode_result(result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    inner: dict[str, Any] = {
        "toolUseId": result.tool_call_id,
        "content": encode_result_content(result.content, report),
    }
    if result.is_error:  # a plain success goes without saying: only some models know the field
        inner["status"] = "error"
    return restored({"toolResult": inner}, result.extra, API) if result.extra else {"toolResult": inner}
