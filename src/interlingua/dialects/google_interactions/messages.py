"""Steps of the input as messages: all steps of the model between two of the client are one answer."""

from collections.abc import Mapping
from typing import Any

from ...values import jsontext
from ...values.losses import QUIET, Reporter, own_fields
from ...values.messages import (
    AssistantMessage,
    Content,
    CustomMessage,
    Message,
    OpaqueBlock,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ..residual import (
    JOINED,
    MESSAGE,
    Mint,
    an_object,
    each,
    fields_of,
    keeping,
    optional,
    put_back,
    residual,
    residual_of,
    restored,
    string,
    with_residual,
)
from ..results import OpenCalls, split_results
from .content import decode_content, decode_outputs, decode_step, encode_content, encode_outputs, encode_steps
from .facts import API, GENERATED, INSIDE, ONE_ANSWER, TURN

# --- wire to ours ----------------------------------------------------------------------------------------------------


class _Turns(OpenCalls):
    def __init__(self, api: str, mint: Mint | None) -> None:
        super().__init__(mint)
        self.api = api

    def answer(self, steps: list[Any]) -> AssistantMessage:
        message = _decode_answer(steps, self)
        self.called(message)
        return message


def decode_messages(wire: Any, api: str = API, mint: Mint | None = None) -> tuple[Message, ...]:
    turns = _Turns(api, mint)
    messages: list[Message] = []
    answer: list[Any] = []
    # The input is one list of steps, without messages: what the model did between two steps of the client is one
    # answer.
    for step in each(wire, "input", API, lambda step: an_object(step, API)):
        if is_models(step):
            answer.append(step)
            continue
        if answer:
            messages.append(turns.answer(answer))
            answer = []
        messages += _decode_client(step, turns)
    if answer:
        messages.append(turns.answer(answer))
    return tuple(messages)


def is_models(step: Any) -> bool:
    """Whether a step is of the model: a thought, output or call."""
    kind = fields_of(step).get("type")
    if kind is None:
        return not isinstance(fields_of(step).get("role"), str)
    # `Step`: of all types only these two are the client's.
    return kind not in ("user_input", "function_result")


def _decode_client(step: dict[str, Any], turns: _Turns) -> list[Message]:
    try:
        if step.get("type") == "function_result":
            return [_decode_result(step, turns)]
        if step.get("type") == "user_input":
            return _decode_input(step, turns)
        # Turns of the first revision (until June 2026) had a role and no type.
        if step["role"] == "user" and isinstance(step.get("content"), str | list):
            return _decode_input(step, turns)
        if step["role"] == "model" and isinstance(step.get("content"), str | list):
            return [_decode_turn(step, turns)]
        return [CustomMessage(step["role"], {k: v for k, v in step.items() if k != "role"})]  # type: ignore[list-item]
    except (KeyError, TypeError, ValueError):
        return [UserMessage(content=(OpaqueBlock(dialect=API, value={"step": step}),))]


def _decode_input(step: dict[str, Any], turns: _Turns) -> list[Message]:
    items = step.get("content")
    if isinstance(items, list) and any(map(_is_result, items)):
        # Clients of the first revision put results among the contents of the user.
        pieces: list[Any] = split_results(items, _is_result, lambda item: _decode_result(item, turns), decode_content)
        pieces[1:] = [with_residual(piece, API, **{JOINED: True}) for piece in pieces[1:]]
        return [with_residual(pieces[0], API, **{INSIDE: True, MESSAGE: residual(step, _input(items))}), *pieces[1:]]
    content: Content = None
    if isinstance(items, list):
        content = tuple(map(decode_content, items))
        step = {**step, "content": [encode_content(block, QUIET) for block in content]}
    elif isinstance(items, str):
        content = (TextBlock(text=items),)
    message = UserMessage(content=content)
    return [keeping(message, API, step, _encode_input(content, QUIET))]


def _is_result(item: Any) -> bool:
    return fields_of(item).get("type") == "function_result"


def _input(items: list[Any]) -> dict[str, Any]:
    return {"type": "user_input", "content": items}


def _decode_turn(step: dict[str, Any], turns: _Turns) -> AssistantMessage:
    """A turn of the model, with contents and steps in one list."""
    items = step["content"]
    content = items if isinstance(items, str) else tuple(decode_outputs(items, turns.ids))
    rest = residual({k: v for k, v in step.items() if k != "content"}, {"role": "model"})
    message = AssistantMessage(content=content, api=turns.api, extra={API: {TURN: rest}})
    turns.called(message)
    return message


def _decode_result(step: dict[str, Any], turns: _Turns) -> ToolResultMessage:
    id, generated = turns.answered(step.get("call_id"))
    result = ToolResultMessage(
        tool_call_id=id,
        tool_name=optional(step.get("name")) if "name" in step else turns.names.get(id),
        content=_decode_outcome(step.get("result")),
        is_error=step.get("is_error") is True,
        extra={API: {GENERATED: True}} if generated else {},
    )
    if isinstance(step.get("result"), list) and isinstance(result.content, tuple):
        step = {**step, "result": [encode_content(block, QUIET) for block in result.content]}
    return keeping(result, API, step, _encode_result(result, {}, QUIET))


def _decode_outcome(wire: Any) -> Content:
    """A text, text and media, or any object, which is decoded as JSON text."""
    if wire is None or isinstance(wire, str):
        return wire
    # `FunctionResultStep.result`: a string, a list of texts and images, or an object.
    if isinstance(wire, list) and all(isinstance(item, dict) and "type" in item for item in wire):
        return tuple(map(decode_content, wire))
    return jsontext.compact(wire)


def _decode_answer(steps: list[Any], turns: _Turns) -> AssistantMessage:
    if len(steps) == 1 and _is_bare(steps[0]):
        step = steps[0]
        bare = AssistantMessage(content=None if step.get("content") is None else (), api=turns.api)
        return keeping(bare, API, step, _encode_bare(bare))
    blocks = tuple(block for step in steps for block in decode_step(step, turns.ids))
    return AssistantMessage(content=blocks, api=turns.api)


def _is_bare(step: Any) -> bool:
    """Whether a single step is an answer without blocks."""
    return step.get("type") == "model_output" and (step.get("content") is None or step["content"] == [])


def _encode_bare(message: AssistantMessage) -> dict[str, Any]:
    return {"type": "model_output", **({} if message.content is None else {"content": []})}


# --- ours to wire ----------------------------------------------------------------------------------------------------


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[Any]:
    """Encodes messages as steps."""
    steps: list[Any] = []
    calls: dict[str, ToolCall] = {}
    before: Message | None = None
    joined = False
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                _add_user(steps, message, before, report)
            case AssistantMessage():
                joined = joined or (
                    isinstance(before, AssistantMessage) and not (_is_turn(before) or _is_turn(message))
                )
                calls |= {block.id: block for block in blocks_of(message.content) if isinstance(block, ToolCall)}
                _add_answer(steps, message, report)
            case ToolResultMessage():
                _add_result(steps, message, before, calls, report)
            case CustomMessage():  # an unknown role of this wire
                steps.append({"role": message.role, **message.fields})
            case _:
                report.lost("system message", "this wire has no later system messages")
                continue
        before = message
    if joined:
        report.at("$.messages", "message", ONE_ANSWER, "weakened")
    return steps


def _is_turn(message: AssistantMessage) -> bool:
    return TURN in residual_of(message.extra, API) and message.content is not None


def _encode_input(content: Content, report: Reporter) -> dict[str, Any]:
    if content is None:
        return {"type": "user_input"}
    if isinstance(content, str):
        report.lost("content", "a string becomes a text", "record", field="content")
        return _input([{"type": "text", "text": content}])
    return _input(_encode_contents(content, report))


def _encode_contents(content: Content, report: Reporter) -> list[Any]:
    items = []
    for at, block in enumerate(blocks_of(content)):
        report.block = at
        item = encode_content(block, report)
        if item is not None:
            items.append(item)
    report.block = None
    return items


def _add_user(steps: list[Any], message: UserMessage, before: Message | None, report: Reporter) -> None:
    hints, content = residual_of(message.extra, API), message.content
    if isinstance(content, tuple) and len(content) == 1 and not hints:
        (block,) = content
        if isinstance(block, OpaqueBlock) and block.dialect == API and fields_of(block.value).keys() == {"step"}:
            steps.append(block.value["step"])
            return
    wire = _encode_input(content, report)
    if hints.get(JOINED) and _takes_contents(before, steps) and "content" in wire:
        steps[-1]["content"].extend(wire["content"])
    else:
        steps.append(put_back(put_back(wire, hints), hints.get(MESSAGE, {})))


def _takes_contents(before: Message | None, steps: list[Any]) -> bool:
    """Whether the latest step is of the user and can have more contents."""
    return (
        isinstance(before, UserMessage | ToolResultMessage)
        and steps[-1].get("type") != "function_result"
        and isinstance(steps[-1].get("content"), list)
    )


def _add_result(
    steps: list[Any],
    result: ToolResultMessage,
    before: Message | None,
    calls: Mapping[str, ToolCall],
    report: Reporter,
) -> None:
    hints = residual_of(result.extra, API)
    wire = _encode_result(result, calls, report)
    if hints.get(JOINED) and _takes_contents(before, steps):
        steps[-1]["content"].append(wire)
    elif hints.get(INSIDE) or hints.get(JOINED):
        steps.append(put_back(_input([wire]), hints.get(MESSAGE, {})))
    else:
        steps.append(wire)


def _encode_result(result: ToolResultMessage, calls: Mapping[str, ToolCall], report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "function_result"}
    call = calls.get(result.tool_call_id)
    generated = residual_of(result.extra, API).get(GENERATED)
    if not result.tool_call_id:
        report.lost("tool_call_id", "a result without an id is given that of a call", "record", field="toolCallId")
    elif not generated and not (call is not None and residual_of(call.extra, API).get(GENERATED)):
        wire["call_id"] = result.tool_call_id
    if result.tool_name is not None:
        wire["name"] = result.tool_name
    if result.content is not None:
        content = result.content
        wire["result"] = content if isinstance(content, str) else _encode_contents(content, report)
    # `FunctionResultStep.is_error`.
    if result.is_error:
        wire["is_error"] = True
    return restored(wire, result.extra, API) if result.extra else wire


def _add_answer(steps: list[Any], message: AssistantMessage, report: Reporter) -> None:
    if _is_turn(message):
        content = message.content
        items = content if isinstance(content, str) else encode_outputs(content or (), report)
        steps.append(put_back({"role": "model", "content": items}, message.extra[API][TURN]))
        return
    if isinstance(message.content, str):
        report.lost("content", "a string becomes a text", "record", field="content")
    blocks = blocks_of(message.content)
    made = encode_steps(blocks, report)
    if not made:
        wire = _encode_bare(message)
        steps.append(restored(wire, message.extra, API) if message.extra else wire)
        return
    if any(not is_models(step) for step in made):
        report.at("$.messages", "message", "a step of the client's ends the answer", "weakened")
    if len(made) == 1 and _is_bare(made[0]):
        report.lost("content", "an empty output is an answer without blocks", "weakened", field="content")
    steps += made
    for key in own_fields(message.extra.get(API)) if message.extra else ():
        report.lost(key, "an answer of several steps has no place for it", field=f"extra.{API}.{key}")


def text_alone(content: Any) -> str | None:
    """Returns the text if that is all the content."""
    if isinstance(content, list) and len(content) == 1 and fields_of(content[0]).keys() == {"type", "text"}:
        return string(content[0]["text"]) if content[0]["type"] == "text" else None
    return None
