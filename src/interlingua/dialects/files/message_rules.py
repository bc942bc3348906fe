"""What is wrong in messages of Attocode and of LLM Canvas: other wires' shapes, and fields of another kind.

The rules are those of the documents that define the two: each names where a call, a result and a text stand, and what
fields they have. A mistake comes with what to write instead.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...values.folding import parse_arguments
from ..foreign_blocks import CALL_TYPES, RESULT_TYPES, call_parts, result_parts, shown
from .clawtools import ShapeMistake

Kinds = Mapping[str, tuple[type, ...]]  # the fields that a value must have


class _Rules(NamedTuple):
    """One format: its roles, its blocks by type, and how it writes calls and results."""

    roles: tuple[str, ...]
    blocks: Mapping[str, Kinds]
    call: Callable[[str, str, dict[str, Any]], Any]
    call_place: str
    result: Callable[[str, Any, bool], Any]
    optional_content: bool


_NAMES: dict[type, str] = {str: "a string", dict: "an object", list: "a list", bool: "true or false"}
# Other wires' names for roles, and what is meant by them.
_MEANT = {"human": "user", "model": "assistant", "ai": "assistant", "gpt": "assistant", "developer": "system"}
_RESULT_ROLES = ("tool", "function", "toolResult", "tool_result")
_CALLS = ("tool_calls", "toolCalls", "function_call", "functionCall")


def _in_message(message: Any, path: str, rules: _Rules) -> Iterator[ShapeMistake]:
    if not isinstance(message, dict):
        yield ShapeMistake(path, "a message is an object", 'write {"role": "user", "content": "…"}')
        return
    role, content = message.get("role"), message.get("content")
    if role not in rules.roles:
        yield _wrong_role(message, path, rules)
    for key in _CALLS:
        if key in message and key != rules.call_place:
            calls = message[key] if isinstance(message[key], list) else [message[key]]
            right = ", ".join(_right_call(call, rules) for call in calls)
            yield ShapeMistake(f"{path}.{key}", f"calls are in `{key}`", f"write {right} in `{rules.call_place}`")
    if isinstance(content, list):
        for at, block in enumerate(content):
            yield from _in_block(block, f"{path}.content[{at}]", rules)
    elif not isinstance(content, str) and not (rules.optional_content and content is None):
        text = "the content is missing" if content is None else f"the content is no text: {type(content).__name__}"
        yield ShapeMistake(f"{path}.content", text, "write a string, or a list of blocks with a `type`")


def _wrong_role(message: dict[str, Any], path: str, rules: _Rules) -> ShapeMistake:
    role = message.get("role")
    text = "the message has no role" if role is None else f"unknown role {shown(role)}"
    if role in _RESULT_ROLES:
        return ShapeMistake(f"{path}.role", text, f"write {_right_result(message, rules)}")
    meant = _MEANT.get(role) if isinstance(role, str) else None
    roles = ", ".join(f"`{name}`" for name in rules.roles)
    return ShapeMistake(f"{path}.role", text, f'write "role": "{meant}"' if meant else f"the roles are {roles}")


def _in_block(block: Any, path: str, rules: _Rules) -> Iterator[ShapeMistake]:
    given = block.get("type") if isinstance(block, dict) else None
    kind = given if isinstance(given, str) else ""
    known = rules.blocks.get(kind)
    if known is not None:
        yield from _in_fields(block, path, known, f"the `{kind}` block")
        inner = block.get("content")
        for at, item in enumerate(inner if kind == "tool_result" and isinstance(inner, list) else ()):
            yield from _in_block(item, f"{path}.content[{at}]", rules)
    elif kind in CALL_TYPES:
        yield ShapeMistake(path, f"calls are no `{kind}` blocks", f"write {_right_call(block, rules)}")
    elif kind in RESULT_TYPES:
        yield ShapeMistake(path, f"results are no `{kind}` blocks", f"write {_right_result(block, rules)}")
    elif isinstance(block, dict) and isinstance(block.get("text"), str):
        right = shown({"type": "text", "text": block["text"]})
        yield ShapeMistake(path, f"texts are no {shown(given)} blocks", f"write {right}")
    else:
        kinds = ", ".join(f"`{name}`" for name in rules.blocks)
        yield ShapeMistake(path, f"unknown block type {shown(given)}", f"the types of blocks are {kinds}")


def _in_fields(value: dict[str, Any], path: str, kinds: Kinds, what: str) -> Iterator[ShapeMistake]:
    for name, allowed in kinds.items():
        if not isinstance(value.get(name), allowed):
            right = " or ".join(_NAMES[kind] for kind in allowed)
            yield ShapeMistake(
                f"{path}.{name}", f"{what} has no `{name}` that is {right}", f"write `{name}` as {right}"
            )


def _right_call(call: Any, rules: _Rules) -> str:
    id, name, given = call_parts(call) if isinstance(call, dict) else (None, None, None)
    arguments = parse_arguments(given)[0] if isinstance(given, str) else given if isinstance(given, dict) else {}
    return shown(rules.call(id or "…", name or "…", arguments))


def _right_result(result: dict[str, Any], rules: _Rules) -> str:
    id, _, content, failed = result_parts(result)
    return shown(rules.result(id or "…", content if isinstance(content, str) else "…", failed))


# --- Attocode --------------------------------------------------------------------------------------------------------

_ATTOCODE = _Rules(
    roles=("system", "user", "assistant", "tool"),
    blocks={"text": {"text": (str,)}, "image": {"source": (dict,)}},
    call=lambda id, name, arguments: {"id": id, "name": name, "arguments": arguments},
    call_place="toolCalls",
    result=lambda id, content, failed: {"role": "tool", "toolCallId": id, "content": content},
    optional_content=True,  # beside calls and results; see below
)
_CALL: Kinds = {"id": (str,), "name": (str,), "arguments": (dict,)}
_MISSPELLED = {"tool_call_id": "toolCallId", "tool_use_id": "toolCallId", "tool_results": "toolResults"}
_STOPS = ("end_turn", "tool_use", "max_tokens", "stop_sequence")


def in_attocode(value: Any, messages: Iterable[Any] | None = None) -> Iterator[ShapeMistake]:
    """The mistakes in a list of messages, in a chat with its options, or in a `ChatResponse`.

    `messages` are those of a value that is given without them.
    """
    if messages is None:
        given = value.get("messages") if isinstance(value, dict) else value
        messages = given if isinstance(given, list) else ()
    place = "$.messages" if isinstance(value, dict) else "$"
    for at, message in enumerate(messages):
        yield from _in_message(message, f"{place}[{at}]", _ATTOCODE)
        if isinstance(message, dict):
            yield from _beside(message, f"{place}[{at}]")
    if isinstance(value, dict) and "messages" not in value:
        yield from _in_calls(value, "$")
        if "stopReason" in value and value["stopReason"] not in _STOPS:
            reasons = ", ".join(f"`{word}`" for word in _STOPS)
            yield ShapeMistake("$.stopReason", f"unknown stop reason {shown(value['stopReason'])}", f"write {reasons}")


def _beside(message: dict[str, Any], path: str) -> Iterator[ShapeMistake]:
    """What stands beside the content of a message: its calls, its results, the call that it answers."""
    for wrong, right in _MISSPELLED.items():
        if wrong in message:
            yield ShapeMistake(f"{path}.{wrong}", f"the field is `{right}`, not `{wrong}`", f"write it as `{right}`")
    yield from _in_calls(message, path)
    results = message.get("toolResults")
    if "toolResults" in message and not isinstance(results, list):
        yield ShapeMistake(f"{path}.toolResults", "the results are no list", "write a list of results")
    for at, result in enumerate(results if isinstance(results, list) else ()):
        if not isinstance(result, dict) or not isinstance(result.get("callId"), str):
            right = shown({"callId": "…", "result": "…"})
            yield ShapeMistake(f"{path}.toolResults[{at}]", "the result names no call", f"write {right}")
        elif "error" in result and not isinstance(result["error"], str):
            yield ShapeMistake(f"{path}.toolResults[{at}].error", "the error is no text", "write `error` as a string")
    answers = isinstance(message.get("toolCallId"), str) or bool(results)
    if message.get("role") == "tool" and not answers and not _MISSPELLED.keys() & message.keys():
        yield ShapeMistake(f"{path}.toolCallId", "the result names no call", "write the call's id as `toolCallId`")
    if message.get("content") is None and not message.get("toolCalls") and not results:
        yield ShapeMistake(
            f"{path}.content", "the content is missing", "write a string, or a list of blocks with a `type`"
        )


def _in_calls(value: dict[str, Any], path: str) -> Iterator[ShapeMistake]:
    calls = value.get("toolCalls")
    if "toolCalls" in value and not isinstance(calls, list):
        yield ShapeMistake(f"{path}.toolCalls", "the calls are no list", "write a list of calls")
    for at, call in enumerate(calls if isinstance(calls, list) else ()):
        place = f"{path}.toolCalls[{at}]"
        if not isinstance(call, dict) or not all(isinstance(call.get(key), kinds) for key, kinds in _CALL.items()):
            yield ShapeMistake(
                place, "a call has an id, a name and an arguments object", f"write {_right_call(call, _ATTOCODE)}"
            )


# --- LLM Canvas ------------------------------------------------------------------------------------------------------

_CANVAS = _Rules(
    roles=("user", "assistant", "system"),
    blocks={
        "text": {"text": (str,)},
        "tool_use": {"id": (str,), "name": (str,), "input": (dict,)},
        "tool_result": {"tool_use_id": (str,), "content": (str, list)},
        "image": {"source": (dict,)},
    },
    call=lambda id, name, arguments: {"type": "tool_use", "id": id, "name": name, "input": arguments},
    call_place="content",
    result=lambda id, content, failed: {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": id, "content": content, **({"is_error": True} if failed else {})}
        ],
    },
    optional_content=False,
)


def in_canvas(value: Any) -> Iterator[ShapeMistake]:
    """The mistakes in a canvas, alone or under `data`, or in a list of its messages."""
    if isinstance(value, list):
        for at, message in enumerate(value):
            yield from _in_message(message, f"$[{at}]", _CANVAS)
        return
    wrapped = isinstance(value, dict) and "nodes" not in value
    canvas, root = (value.get("data"), "$.data") if wrapped else (value, "$")
    given = canvas.get("nodes") if isinstance(canvas, dict) else None
    nodes = given if isinstance(given, dict) else {}
    for key, node in nodes.items():
        path = f"{root}.nodes.{key}"
        if isinstance(node, dict):
            yield from _in_message(node.get("message"), f"{path}.message", _CANVAS)
            yield from _in_node(key, node, path, nodes)


def _in_node(key: str, node: dict[str, Any], path: str, nodes: Mapping[str, Any]) -> Iterator[ShapeMistake]:
    if node.get("id", key) != key:
        yield ShapeMistake(f"{path}.id", f"the node is filed as {shown(key)}", f'write "id": {shown(key)}')
    parent, children = node.get("parent_id"), node.get("child_ids", [])
    if parent is not None and not (isinstance(parent, str) and parent in nodes):
        remedy = "name a node of this canvas, or null for a beginning"
        yield ShapeMistake(f"{path}.parent_id", f"no node {shown(parent)}", remedy)
    for at, child in enumerate(children if isinstance(children, list) else ()):
        if not isinstance(child, str) or child not in nodes:
            yield ShapeMistake(f"{path}.child_ids[{at}]", f"no node {shown(child)}", "name nodes of this canvas")
