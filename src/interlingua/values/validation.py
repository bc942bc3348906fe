"""Validates values that were constructed in Python: field types, and blocks that their message cannot have.

Decoded values do not need it: msgspec has checked them. Construction checks nothing and stays free; values are checked
before they are sent.
"""

from collections.abc import Iterable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from .errors import FormatError
from .messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    MessageBase,
    OpaqueBlock,
    ServerToolCall,
    ThinkingBlock,
    ToolCall,
)
from .request import Context

_MADE_BY_MODELS = (ToolCall, ServerToolCall, ThinkingBlock)


def check_context(context: Context) -> None:
    """Raises `FormatError`, with the path, for a context that cannot be sent."""
    _check_fields(context, "", without="messages")
    check_messages(context.messages)


def check_messages(messages: Iterable[AgentMessage], path: str = "messages") -> None:
    """Raises `FormatError`, with the path, for a message that cannot be sent."""
    for at, message in enumerate(messages):
        if isinstance(message, CustomMessage):
            continue
        if not isinstance(message, MessageBase):
            what = type(message).__name__
            raise FormatError(f"{what} is not a message; write UserMessage(content=…)", f"{path}[{at}]")
        _check_fields(message, f"{path}[{at}]")
        content: Any = message.content
        for number, block in enumerate(() if isinstance(content, str) else content or ()):
            where = f"{path}[{at}].content[{number}]"
            if isinstance(block, _MADE_BY_MODELS) and not isinstance(message, AssistantMessage):
                owner, what = type(message).__name__, type(block).__name__
                raise FormatError(f"{owner} with a {what}; only an AssistantMessage has these", where)
            if isinstance(block, OpaqueBlock) and isinstance(block.value, dict) and _is_text_without_text(block.value):
                raise FormatError(
                    f"text must be a string, not {type(block.value.get('text')).__name__}", f"{where}.text"
                )


def _is_text_without_text(wire: dict[str, Any]) -> bool:
    """Whether a block is a text block without text, which no format accepts: it would be dropped silently."""
    return wire.get("type") == "text" and not isinstance(wire.get("text"), str)


class _Field(NamedTuple):
    """A field's name, its accepted types, and those of its items if it is a tuple."""

    name: str
    types: tuple[type, ...]
    items: tuple[type, ...]
    is_optional: bool


def _check_fields(value: Struct, path: str, without: str = "") -> None:
    for name, types, items, is_optional in _fields(type(value)):
        given = getattr(value, name)
        if given is None or name == without:
            if given is None and not is_optional:
                raise _wrong(given, types, f"{path}.{name}")
            continue
        if not isinstance(given, types):
            raise _wrong(given, types, f"{path}.{name}")
        if isinstance(given, Struct):
            _check_fields(given, f"{path}.{name}")
        elif items and isinstance(given, (tuple, list)):
            for at, item in enumerate(given):
                if not isinstance(item, items):
                    raise _wrong(item, items, f"{path}.{name}[{at}]")
                if isinstance(item, Struct):
                    _check_fields(item, f"{path}.{name}[{at}]")


def _wrong(given: Any, types: tuple[type, ...], path: str) -> FormatError:
    expected = " or ".join(dict.fromkeys(kind.__name__ for kind in types if kind is not NoneType))
    return FormatError(f"expected {expected}, got {type(given).__name__}", path.removeprefix("."))


@cache
def _fields(kind: type[Struct]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    fields = []
    for name in kind.__struct_fields__:
        options = _options(hints[name])
        if Any in options:
            continue
        items = [item for option in options if get_origin(option) is tuple for item in _options(get_args(option)[0])]
        types = [runtime for option in options for runtime in _runtime(option)]
        checked = tuple(item for item in items if isinstance(item, type))
        fields.append(_Field(name, tuple(types), checked, NoneType in types))
    return tuple(fields)


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _runtime(hint: Any) -> tuple[type, ...]:
    origin = get_origin(hint) or hint
    if origin is Literal:
        return (str,)
    if origin is float:
        return (float, int)
    return (tuple, list) if origin is tuple else (origin,)
