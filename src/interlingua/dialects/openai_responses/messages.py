"""Items of input as messages: all items of the model between two of the client are one answer."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...values.losses import QUIET, Reporter, own_fields
from ...values.messages import (
    AssistantMessage,
    Content,
    CustomMessage,
    Message,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..codec import ANSWER, USER
from ..residual import an_object, keeping, put_back, restored, string
from .content import decode_content, decode_item, encode_content, encode_items, is_custom, kind_of
from .facts import API, CLIENTS, ITEM, RESULTS

# --- wire to ours -----------------------------------------------------------------------------------------------------


def decode_messages(wire: list[Any], api: str = API, first: int = 0) -> tuple[Message, ...]:
    """Decodes items: all items of the model between two of the client are one answer.

    `api` is set on the answers; `first` is the index of the first item after the system prompt.
    """
    return tuple(messages_in(wire, api, first))


# The API has no messages of several items: reasoning, texts and calls of a turn follow each other in one list, and only
# the client's next item shows where the turn ends.
def messages_in(wire: Iterable[Any], api: str = API, first: int = 0) -> Iterator[Message]:
    """The same one at a time."""
    calls: dict[str, ToolCall] = {}  # by either id; a repeated id refers to the latest call
    answer: list[tuple[int, dict[str, Any]]] = []
    for at, item in enumerate(itertools.islice(wire, first, None), first):
        if not isinstance(item, dict):
            an_object(item, API, f"$.input[{at}]")  # raises
        if _is_answers(item):
            answer.append((at, item))
            continue
        if answer:
            yield _decode_answer_items(answer, api, calls)
            answer = []
        yield _decode_input_item(item, calls)
    if answer:
        yield _decode_answer_items(answer, api, calls)


def _is_answers(item: Any) -> bool:
    """Whether an item is of the model: a message, a call or reasoning."""
    if not isinstance(item, dict):
        return True
    kind = kind_of(item)
    if kind == "message":
        return item.get("role") == "assistant" or not isinstance(item.get("role"), str)
    # The provider's own search is followed by its output, which is then of the model as well.
    if kind == "tool_search_output":
        return item.get("execution") != "client"
    return kind not in CLIENTS and kind not in RESULTS


def _decode_input_item(item: dict[str, Any], calls: Mapping[str, ToolCall]) -> Message:
    try:
        if kind_of(item) == "message":
            return _decode_input_message(item)
        if item["type"] in RESULTS:
            return _decode_result(item, calls)
    except (KeyError, TypeError, ValueError):
        pass
    return UserMessage(content=(OpaqueBlock(dialect=API, value=item),), extra={API: {ITEM: True}})


def _decode_input_message(item: dict[str, Any]) -> Message:
    role = item["role"]
    if role == "user":
        if len(item) == 2 and type(item.get("content")) is str:  # the usual text has no residual
            return replace(USER, extra={}, content=item["content"])
        user = replace(USER, extra={}, content=decode_content(item.get("content")))
        return keeping(user, API, item, encoded_message(role, user.content, QUIET))
    if role == "system" or role == "developer":
        system = SystemMessage(content=decode_content(item.get("content")), developer=role == "developer")
        return keeping(system, API, item, encoded_message(role, system.content, QUIET))
    return CustomMessage(role, {k: v for k, v in item.items() if k != "role"})  # type: ignore[return-value]


def _decode_result(item: dict[str, Any], calls: Mapping[str, ToolCall]) -> ToolResultMessage:
    id = string(item["call_id"])
    call = calls.get(id)
    result = ToolResultMessage(
        tool_call_id=id,
        tool_name=None if call is None else call.name,
        content=decode_content(item.get("output")),
        is_error=False,
    )
    return keeping(result, API, item, _encoded_result(result, call, QUIET))


def _decode_answer_items(
    items: list[tuple[int, dict[str, Any]]], api: str, calls: dict[str, ToolCall]
) -> AssistantMessage:
    if len(items) == 1 and _is_bare(items[0][1]):
        item = items[0][1]
        content = item.get("content")
        bare = AssistantMessage(content=() if content == [] else content, api=api)
        return keeping(bare, API, item, _encoded_bare(bare))
    blocks = tuple(block for at, item in items for _, block in decode_item(item, at))
    for block in blocks:
        if isinstance(block, ToolCall):
            _note_call(block, calls)
    return replace(ANSWER, extra={}, content=blocks, api=api)


def _is_bare(item: Mapping[str, Any]) -> bool:
    """Whether a single item is an answer without blocks: empty, or a string in a message with a type."""
    content = item.get("content")
    if isinstance(content, str):
        return item.get("type") == "message"
    return kind_of(item) == "message" and (content is None or content == [])


def _encoded_bare(message: AssistantMessage) -> dict[str, Any]:
    if isinstance(message.content, str):
        return {"type": "message", "role": "assistant", "content": message.content}
    return {"role": "assistant", "content": None if message.content is None else []}


def _note_call(call: ToolCall, calls: dict[str, ToolCall]) -> None:
    calls[call.id] = call
    # Some clients put the item's id into `call_id` of the result.
    item = call.extra.get(API, {}).get("id") if call.extra else None
    if isinstance(item, str):
        calls[item] = call


# --- ours to wire -----------------------------------------------------------------------------------------------------


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[Any]:
    """Encodes messages as items of input."""
    encoded: list[Any] = []
    calls: dict[str, ToolCall] = {}
    before: Message | None = None
    joined = False
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                encoded.append(_encode_user(message, report))
            case AssistantMessage():
                joined = joined or isinstance(before, AssistantMessage)
                _add_answer(encoded, message, calls, report)
            case ToolResultMessage():
                encoded.append(_encode_result(message, calls.get(message.tool_call_id), report))
            case SystemMessage():
                wire = encoded_message("developer" if message.developer else "system", message.content, report)
                encoded.append(restored(wire, message.extra, API) if message.extra else wire)
            case CustomMessage():
                encoded.append({"role": message.role, **message.fields})
        before = message
    if joined:
        report.at("$.messages", "message", "answers in a row are one on this wire", "weakened")
    return encoded


def encoded_message(role: str, content: Content, report: Reporter) -> dict[str, Any]:
    return {"role": role, "content": encode_content(content, report)}


def _encode_user(message: UserMessage, report: Reporter) -> Any:
    wire = encoded_message("user", message.content, report)
    if not message.extra:
        return wire
    residual = message.extra.get(API, {})
    if residual.get(ITEM) and isinstance(message.content, tuple) and len(message.content) == 1:
        block = message.content[0]
        if isinstance(block, OpaqueBlock) and block.dialect == API:
            return block.value
    return put_back(wire, residual)


def _encode_result(result: ToolResultMessage, call: ToolCall | None, report: Reporter) -> dict[str, Any]:
    if result.tool_name is not None and (call is None or call.name != result.tool_name):
        report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
    if result.is_error:
        report.lost("is_error", "an error is written into the text of the result", "weakened", field="isError")
    wire = _encoded_result(result, call, report)
    return restored(wire, result.extra, API) if result.extra else wire


def _encoded_result(result: ToolResultMessage, call: ToolCall | None, report: Reporter) -> dict[str, Any]:
    # …/guides/function-calling, Custom tools: a custom call is answered by `custom_tool_call_output`.
    custom = call is not None and bool(call.extra) and is_custom(call)
    wire: dict[str, Any] = {"type": RESULTS[custom], "call_id": result.tool_call_id}
    if result.content is not None:
        wire["output"] = encode_content(result.content, report)
    return wire


def _add_answer(encoded: list[Any], message: AssistantMessage, calls: dict[str, ToolCall], report: Reporter) -> None:
    content = message.content if isinstance(message.content, tuple) else ()
    items = encode_items(content, report)
    for block in content:
        if isinstance(block, ToolCall):
            _note_call(block, calls)
        elif isinstance(block, OpaqueBlock) and block.dialect == API and not _is_answers(block.value):
            report.at("$.messages", "message", "an item of the client's ends the answer", "weakened")
    if not items:
        wire = _encoded_bare(message)
        encoded.append(restored(wire, message.extra, API) if message.extra else wire)
        return
    if len(items) == 1 and isinstance(content[0], TextBlock) and isinstance(items[0]["content"], str):
        items[0].pop("type", None)  # else it would be decoded as an answer without blocks
    encoded += items
    for key in own_fields(message.extra.get(API)) if message.extra else ():
        report.lost(key, "an answer of several items has no place for it", field=f"extra.{API}.{key}")
