"""Where two requests differ, in the terms of loss paths: `$.messages[3].content[0].citations`.

A dialect may leave out a block or a message that it cannot say, so that what follows moves up: lists are aligned, and
an item may only be missing where a loss says so.
"""

from collections.abc import Collection
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import fields, replace

from interlingua.dialects.residual import RESPONSE
from interlingua.values.folding import parse_arguments
from interlingua.values.messages import AssistantMessage, Block, CustomMessage, ToolCall, blocks_of
from interlingua.values.request import Request
from laws.wires import spelled


def view(request: Request, owner: str) -> dict[str, Any]:
    """The request as nested JSON values under the names that loss paths use.

    What `owner`, the dialect under test, noted about shapes is left out: its hints are no part of what is said.
    """
    context = request.context
    parts = {
        "model": request.model,
        "system": context.system,
        "systemRole": context.system_role,
        "messages": context.messages,
        "tools": context.tools,
        "options": request.options,
    }
    seen = {name: _seen(part, owner) for name, part in parts.items() if part is not None}
    seen["extra"] = _seen_extra(request.extra, owner)
    seen["context"] = {"extra": _seen_extra(context.extra, owner)}
    return seen


def answer_view(message: AssistantMessage, owner: str) -> dict[str, Any]:
    """The same for a single answer, with what only answers carry, which is kept apart, in its place."""
    blocks = tuple(_with_response(block, owner) for block in blocks_of(message.content))
    seen: dict[str, Any] = _seen(replace(message, content=blocks), owner)
    return seen


def _with_response(block: Block, owner: str) -> Block:
    residual = block.extra.get(owner, {})
    if RESPONSE not in residual:
        return block
    return replace(block, extra={**block.extra, owner: {**residual[RESPONSE], **residual}})


def _seen(value: Any, owner: str) -> Any:
    if isinstance(value, Struct):
        return _seen_struct(value, owner)
    if isinstance(value, tuple):
        return [_seen(item, owner) for item in value]
    if isinstance(value, CustomMessage):
        return {"role": value.role, **value.fields}
    return value


def _seen_struct(value: Struct, owner: str) -> dict[str, Any]:
    tag = type(value).__struct_config__.tag
    out: dict[str, Any] = {"": tag} if tag else {}
    for field in fields(type(value)):
        item = getattr(value, field.name)
        if field.name == "extra":
            seen = _seen_extra(item, owner)
            if seen:
                out["extra"] = seen
        elif item is not None and (item != field.default or field.required):
            out[field.encode_name] = _seen(item, owner)
    if isinstance(value, ToolCall) and _is_stale(value):
        out.pop("argumentsText", None)
    return out


def _is_stale(call: ToolCall) -> bool:
    """Whether the arguments were changed since the wire spelled them."""
    if call.arguments_text is None:
        return False
    return spelled(parse_arguments(call.arguments_text)[0]) != spelled(call.arguments)


def _seen_extra(extra: dict[str, Any], owner: str) -> dict[str, Any]:
    out = {}
    for name, residual in extra.items():
        if name == owner and isinstance(residual, dict):
            residual = {key: item for key, item in residual.items() if not key.startswith("~")}
        if residual:
            out[name] = residual
    return out


def differing(a: Any, b: Any, losses: Collection[str], owner: str, path: str = "$") -> set[str]:
    """The paths at which `b` differs from `a`, with lists aligned so that the fewest differences are unexplained."""
    return _Comparison(losses, owner).paths(a, b, path)


def is_under(path: str, loss: str) -> bool:
    return path == loss or path.startswith((f"{loss}.", f"{loss}["))


# What a decoder knows by itself and adds where the source said nothing: the wire's name, the name of the call answered.
_FILLED_IN = ("api", "toolName")
_MISPLACED = 100  # an item that went missing without a loss is worse than many that changed


class _Comparison:
    def __init__(self, losses: Collection[str], owner: str) -> None:
        self._losses = losses
        self._owner = owner

    def _unexplained(self, paths: Collection[str], weight: int = 1) -> int:
        return weight * sum(not any(is_under(path, loss) for loss in self._losses) for path in paths)

    def paths(self, a: Any, b: Any, path: str) -> set[str]:
        if isinstance(a, dict) and isinstance(b, dict):
            return self._in_objects(a, b, path)
        if isinstance(a, list) and isinstance(b, list):
            return self._in_lists(a, b, path)
        return set() if spelled(a) == spelled(b) else {path}

    def _in_objects(self, a: dict[str, Any], b: dict[str, Any], path: str) -> set[str]:
        if a.get("") != b.get(""):
            return {path}  # another kind of value
        if path.endswith(f".extra.{self._owner}"):
            b = {key: b[key] for key in b if key in a}  # the wire's own additions lose nothing
        if path.endswith(".extra") and self._owner in b and self._owner not in a:
            b = {key: b[key] for key in b if key != self._owner}
        found: set[str] = set()
        for key in a.keys() | b.keys():
            inner = f"{path}.{key}"
            if key in a and key in b:
                found |= self.paths(a[key], b[key], inner)
            elif key in _FILLED_IN and key in b:
                continue
            elif key == "extra" and key in b:
                found |= self.paths({}, b[key], inner)
            else:
                found |= self._all_of(a[key], inner) if key in a else {inner}
        return found

    def _all_of(self, value: Any, path: str) -> set[str]:
        """A part that is missing, named as finely as losses may name it."""
        if any(is_under(loss, path) and loss != path for loss in self._losses):
            if isinstance(value, dict):
                return set().union(*(self._all_of(value[key], f"{path}.{key}") for key in value if key)) or {path}
            if isinstance(value, list):
                return {f"{path}[{at}]" for at in range(len(value))} or {path}
        return {path}

    def _in_lists(self, a: list[Any], b: list[Any], path: str) -> set[str]:
        """The best alignment, by the number of differences without a loss."""

        @cache
        def best(i: int, j: int) -> tuple[int, int, frozenset[str]]:
            if i == len(a) and j == len(b):
                return 0, 0, frozenset()
            options = []
            if i < len(a) and j < len(b):
                options.append((1, self.paths(a[i], b[j], f"{path}[{i}]"), best(i + 1, j + 1)))
            if i < len(a):
                options.append((_MISPLACED, {f"{path}[{i}]"}, best(i + 1, j)))
            if j < len(b):
                options.append((_MISPLACED, {path}, best(i, j + 1)))
            scored = [
                (self._unexplained(here, weight) + rest[0], len(here) + rest[1], frozenset(here) | rest[2])
                for weight, here, rest in options
            ]
            return min(scored, key=lambda option: option[:2])

        if spelled(a) == spelled(b):
            return set()
        return set(best(0, 0)[2])
