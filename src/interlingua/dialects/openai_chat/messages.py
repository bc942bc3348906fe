"""Messages: decoding and encoding, one to one."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AssistantMessage,
    Block,
    Content,
    CustomMessage,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..codec import ANSWER, USER
from ..residual import ENCODED, GENERATED, HINTS, an_object, each, optional, put_back, residual, restored
from ..results import Layout, encoded, gathered
from .assistant import decode_assistant, encode_assistant, is_detail
from .content import ResultPairing, decode_cache, decode_call, decode_part, encode_call, encode_part, put_cache, real_id
from .facts import API, PARTS, Compat

LAYOUT = Layout(API)
M = TypeVar("M", UserMessage, SystemMessage, ToolResultMessage)

_RESULT = ToolResultMessage(content=None, tool_call_id="", is_error=False)


def decode_messages(wire: list[Any], api: str, compat: Compat, mint: Any = None) -> tuple[Message, ...]:
    """Decodes messages. `api` is set on the answers."""
    pairing = ResultPairing(mint)
    read = tuple(each(wire, "messages", API, lambda message: _decode_message(message, pairing, api, compat)))
    return gathered(read, LAYOUT)


def _decode_message(wire: Any, pairing: ResultPairing, api: str, compat: Compat) -> Message:
    role = (wire if type(wire) is dict else an_object(wire, API)).get("role")
    if role == "user":
        user = replace(USER, extra={}, content=_decode_content(wire.get("content")))
        if len(wire) == 2 and "content" in wire:
            return user
        return _with_residual(user, wire, plain_message("user", user.content))
    if role == "assistant":
        return _decode_assistant(wire, pairing, api, compat)
    if role == "tool":
        return _decode_result(wire, pairing)
    # platform.openai.com/docs/api-reference/chat/create: `developer` replaces `system` for o1 and newer models.
    if role in ("system", "developer"):
        system = SystemMessage(content=_decode_content(wire.get("content")), developer=role == "developer")
        return _with_residual(system, wire, plain_message(role, system.content))
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: system, developer, user, assistant or tool", "$.role")
    return CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})  # type: ignore[return-value]


def _decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadWire(API, f"expected a string or a list, got {type(content).__name__}", "$.content")
    return tuple(map(decode_part, content))


def _with_residual(value: M, wire: dict[str, Any], emitted: dict[str, Any], marks: dict[str, Any] | None = None) -> M:
    """The message with its residual; parts have their own."""
    if isinstance(wire.get("content"), list) and isinstance(emitted.get("content"), list):
        wire = {**wire, "content": emitted["content"]}
    extra_fields = {**residual(wire, emitted), **(marks or {})}
    return replace(value, extra={API: extra_fields}) if extra_fields else value


def plain_message(role: str, content: Content) -> dict[str, Any]:
    return {"role": role, "content": encode_content(content, QUIET)}


def _decode_assistant(wire: dict[str, Any], pairing: ResultPairing, api: str, compat: Compat) -> AssistantMessage:
    pairing.turn()
    content = wire.get("content")
    if len(wire) == 2 and (content is None or isinstance(content, str)) and "content" in wire:
        return replace(ANSWER, extra={}, content=None if content is None else (TextBlock(text=content),), api=api)
    blocks, extra_fields = _decode_simply(wire, content, pairing.mint) or decode_assistant(
        wire, compat, pairing.mint, answer=False
    )
    for call in blocks:
        if isinstance(call, ToolCall):
            pairing.made(None if (call.extra.get(API) or {}).get(GENERATED) else call.id, call.id, call.name)
    if blocks or isinstance(content, list):
        return replace(ANSWER, content=blocks, api=api, extra={API: extra_fields} if extra_fields else {})
    extra_fields = residual(wire, {"role": "assistant", "content": None})  # null, or no content
    return replace(ANSWER, content=None, api=api, extra={API: extra_fields} if extra_fields else {})


_SIMPLE = frozenset({"role", "content", "tool_calls", "weight"})  # `weight` is in training rows


def _decode_simply(
    wire: dict[str, Any], content: Any, mint: Callable[[], str]
) -> tuple[tuple[Block, ...], dict[str, Any]] | None:
    """Fast path of `decode_assistant` for plain text and calls; None for any other message."""
    calls = wire.get("tool_calls", ())
    if not (content is None or (type(content) is str and content)) or not wire.keys() <= _SIMPLE:
        return None
    blocks: list[Block] = [] if content is None else [TextBlock(text=content)]
    if "tool_calls" in wire:
        if type(calls) is not list or not calls:
            return None
        blocks += [decode_call(call, mint) for call in calls]
    if not blocks:
        return None
    extra_fields: dict[str, Any] = {"weight": wire["weight"]} if "weight" in wire else {}
    if "content" not in wire:
        extra_fields[HINTS] = {"content": {ENCODED: None}}
    return tuple(blocks), extra_fields


def _decode_result(wire: dict[str, Any], pairing: ResultPairing) -> ToolResultMessage:
    content = wire.get("content")
    blocks = (TextBlock(text=content),) if isinstance(content, str) else _decode_content(content)
    given = wire.get("tool_call_id")
    is_bare = len(wire) == 3 and isinstance(content, str) and given is not None  # with its role, these are all
    call_id, name = pairing.answered(given)
    result = replace(
        _RESULT,
        tool_call_id=pairing.mint() if call_id is None else call_id,
        tool_name=name if name is not None else optional(wire.get("name")),
        content=blocks,
        cache=None if is_bare else decode_cache(wire),
    )
    if is_bare and call_id is not None and call_id == given:
        return result
    marks: dict[str, Any] = {} if call_id == given else {GENERATED: True}
    emitted = _encode_result_message(result, {}, QUIET)
    if isinstance(content, list) and not (
        isinstance(emitted["content"], list) and len(emitted["content"]) == len(content)
    ):
        marks[PARTS] = True
        emitted = _encode_result_message(result, marks, QUIET)
    return _with_residual(result, wire, emitted, marks)


def encode_messages(messages: tuple[Message, ...], compat: Compat, report: Reporter) -> list[dict[str, Any]]:
    """Encodes messages; media of tool results are moved after them."""
    return encoded(messages, LAYOUT, lambda found: _encode_messages(found, compat, report), report)


def _encode_messages(messages: tuple[Message, ...], compat: Compat, report: Reporter) -> list[dict[str, Any]]:
    """Encodes messages one to one."""
    emitted: list[dict[str, Any]] = []
    pairing = ResultPairing()
    unnamed: dict[str, Any] = {}  # calls of this turn without a wire id, and its spelling
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                wire = {"role": "user", "content": encode_content(message.content, report)}
                emitted.append(restored(wire, message.extra, API) if message.extra else wire)
            case AssistantMessage():
                emitted.append(_encode_assistant(message, compat, report))
                unnamed = _begin_turn(message, pairing, report)
            case ToolResultMessage():
                emitted.append(_encode_result(message, pairing, unnamed, compat, report))
            case SystemMessage():
                wire = {"role": _system_role(message.developer, compat, report), "content": None}
                wire["content"] = encode_content(message.content, report)
                emitted.append(restored(wire, message.extra, API) if message.extra else wire)
            case CustomMessage():
                emitted.append({"role": message.role, **message.fields})
    return emitted


def encode_content(content: Content, report: Reporter) -> Any:
    if content is None or isinstance(content, str):
        return content
    emitted: list[Any] = []
    for at, block in enumerate(content):
        if type(block) is TextBlock and is_plain(block):
            emitted.append({"type": "text", "text": block.text})
        else:
            report.block = at
            emitted += encode_part(block, report)
    report.block = None
    return emitted


def is_plain(block: TextBlock) -> bool:
    """Whether a block has only text."""
    return not (
        block.extra or block.refusal or block.citations or block.cache is not None or block.text_signature is not None
    )


def _system_role(developer: bool, compat: Compat, report: Reporter) -> str:
    if developer and compat.supports_developer_role is False:
        report.lost("developer", "this host knows only the role `system`", "weakened", field="developer")
        return "system"
    return "developer" if developer else "system"


def _begin_turn(message: AssistantMessage, pairing: ResultPairing, report: Reporter) -> dict[str, Any]:
    """Records the calls of an assistant message; returns those without a wire id, and its spelling."""
    unnamed: dict[str, Any] = {}
    pairing.turn()
    content = message.content
    if content is None or isinstance(content, str):
        return unnamed
    for at, block in enumerate(content):
        if type(block) is ToolCall:
            call_id = wire_id = block.id
            if block.extra and (block.extra.get(API) or {}).get(GENERATED):
                wire_id = encode_call(block).get("id")  # type: ignore[assignment]
                if real_id(wire_id) is None:
                    unnamed[call_id] = wire_id
            if real_id(wire_id) is None:
                call_id = pairing.mint()  # as decoding does
                if unnamed and call_id != block.id:
                    report.block = at
                    report.lost("id", "the host gave the call none, and another is made up", "record", field="id")
                    report.block = None
            pairing.made(wire_id, call_id, block.name)
    return unnamed


def _encode_assistant(message: AssistantMessage, compat: Compat, report: Reporter) -> dict[str, Any]:
    content = message.content
    extra_fields = message.extra.get(API) if message.extra else None
    emitted: dict[str, Any] | None = None
    if content is None:
        emitted = {"role": "assistant", "content": None}
    elif isinstance(content, str):
        emitted = {"role": "assistant", "content": content}
        report.lost("content", "a string is read as one text", "record", field="content")
    elif not extra_fields:
        emitted = _encode_simply(content, compat)
    if emitted is None:
        emitted = encode_assistant(content, extra_fields or {}, compat, report, answer=False)  # type: ignore[arg-type]
    if extra_fields:
        emitted = put_back(emitted, extra_fields)
    # …/chat/create: `content` is required unless the message has calls; these hosts refuse null beside them too.
    if compat.requires_content and emitted.get("content") is None:
        emitted["content"] = ""
        report.lost("content", "this host requires a text", "record", field="content")
    return emitted


def _encode_simply(content: tuple[Block, ...], compat: Compat) -> dict[str, Any] | None:
    """Fast path for plain thinking, text and calls in this order; None for any other content."""
    text = thought = None
    calls: list[dict[str, Any]] = []
    for block in content:
        kind = type(block)
        if kind is ToolCall:
            if not block.id or block.id == "null":  # type: ignore[union-attr]
                return None
            calls.append(encode_call(block))  # type: ignore[arg-type]
        elif kind is TextBlock:
            if text is not None or calls or not is_plain(block):  # type: ignore[arg-type]
                return None
            text = block.text  # type: ignore[union-attr]
        elif kind is ThinkingBlock:
            if text is not None or thought is not None or calls or block.extra or is_detail(block):  # type: ignore
                return None
            thought = block.thinking  # type: ignore[union-attr]
            if not thought:
                return None
        else:
            return None
    if not content:
        return None
    emitted: dict[str, Any] = {"role": "assistant", "content": text}
    if thought is not None:
        emitted[compat.reasoning_field] = thought
    if calls:
        emitted["tool_calls"] = calls
    return emitted


def _encode_result(
    result: ToolResultMessage, pairing: ResultPairing, unnamed: dict[str, Any], compat: Compat, report: Reporter
) -> dict[str, Any]:
    extra_fields = result.extra.get(API) or {} if result.extra else {}
    emitted = _encode_result_message(result, extra_fields, report)
    if result.tool_call_id in unnamed and not extra_fields.get(GENERATED):
        # A call without a wire id: its result has none either.
        emitted["tool_call_id"] = unnamed[result.tool_call_id]
        if emitted["tool_call_id"] is None:
            del emitted["tool_call_id"]
    if extra_fields:
        emitted = put_back(emitted, extra_fields)
    given = emitted.get("tool_call_id")
    call_id, name = pairing.answered(given)
    # The API reference has no `name` here; early versions of Mistral's API required it.
    if compat.requires_tool_result_name and result.tool_name is not None:
        emitted.setdefault("name", result.tool_name)
    if name is None:
        name = optional(emitted.get("name"))
    if (pairing.mint() if call_id is None else call_id) != result.tool_call_id:
        severity = "record" if result.tool_call_id in unnamed else "weakened"
        report.lost("tool_call_id", "it is read as that of a call without an id", severity, field="toolCallId")  # type: ignore[arg-type]
    if result.tool_name is not None and name != result.tool_name:
        report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
    return emitted


def _encode_result_message(
    result: ToolResultMessage, extra_fields: Mapping[str, Any], report: Reporter
) -> dict[str, Any]:
    content: Any = result.content
    if isinstance(content, str):
        report.lost("content", "a string is read as one text", "record", field="content")
    elif content is not None:
        # A string and one text part mean the same (…/chat/create); the string is what every host accepts.
        first = content[0] if len(content) == 1 and not extra_fields.get(PARTS) else None
        if type(first) is TextBlock and is_plain(first):
            content = first.text
        else:
            content = encode_content(content, report)
    wire: dict[str, Any] = {"role": "tool", "tool_call_id": result.tool_call_id, "content": content}
    if result.cache is not None:
        put_cache(wire, result.cache)
    return wire
