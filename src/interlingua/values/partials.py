"""The log of a stream, and the message that it amounts to at any point.

A decoder appends to one list; nothing is joined or parsed until somebody asks. An entry is one of:

- `str`: a piece for the block that is current;
- `int`: from here on, this content index is current;
- `(index, block, open)`: a block opened (as far as it is known) or closed (finished);
- `AssistantMessage`: the fields beside the content, as known from here on.
"""

from typing import Any, TypeAlias

import jiter
from msgspec.structs import replace

from .messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall

Log: TypeAlias = list[Any]


def snapshot(log: Log, at: int) -> AssistantMessage:
    """The message after the first `at` entries of the log."""
    base = AssistantMessage(content=())
    blocks: dict[int, Block] = {}
    pieces: dict[int, list[str]] = {}
    current = 0
    for entry in log[:at]:
        kind = type(entry)
        if kind is str:
            pieces[current].append(entry)
        elif kind is int:
            current = entry
        elif kind is tuple:
            index, block, is_open = entry
            blocks[index] = block
            if is_open:
                pieces[index] = []
                current = index
            else:
                pieces.pop(index, None)
        else:
            base = entry
    for index, texts in pieces.items():
        blocks[index] = grown(blocks[index], "".join(texts))
    return replace(base, content=tuple(blocks[index] for index in sorted(blocks)))


def grown(block: Block, text: str) -> Block:
    """An open block with the text that has come so far; arguments as far as they can be read."""
    if isinstance(block, TextBlock):
        return replace(block, text=block.text + text)
    if isinstance(block, ThinkingBlock):
        return replace(block, thinking=block.thinking + text)
    if isinstance(block, ToolCall) and text:
        return replace(block, arguments=partial_arguments(text))
    return block


def partial_arguments(text: str) -> dict[str, Any]:
    """The object that an unfinished JSON text amounts to, `{}` when it cannot be read as one."""
    value = partial_value(text)
    return value if isinstance(value, dict) else {}


def partial_value(text: str) -> Any:
    """What an unfinished JSON text amounts to; None when it cannot be read."""
    try:
        return jiter.from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings", cache_mode="none")
    except ValueError:
        return None
