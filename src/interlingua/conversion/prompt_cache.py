"""How much of a request a provider's prompt cache can read again, byte by byte, and what broke the rest.

Providers cache prefixes: tools first, then the system text, then the messages
(platform.claude.com/docs/en/build-with-claude/prompt-caching). A request is cut into these pieces in that order; up to
the first piece that differs, what was cached for the request before can be read again.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..values import jsontext

# Where wires say what comes before the messages, in the order in which it is cached; and where the messages are.
_HEADS = ("tools", "toolConfig", "tool_config", "system", "systemInstruction", "system_instruction", "instructions")
_BODIES = ("messages", "contents", "input")
# Markers say how far to cache and are no part of what is cached: they move on with each turn.
_MARKERS = frozenset({"cache_control", "prompt_cache_breakpoint"})


class Piece(NamedTuple):
    """A part of a request that is cached as one: its path, its JSON without cache markers, and what it is."""

    path: str
    data: bytes
    label: str


class Difference(NamedTuple):
    """The first difference: the piece as it is and as it was, and the byte in it from which on they differ."""

    piece: Piece
    was: Piece
    at: int


def prompt_pieces(body: Any) -> Iterator[Piece]:
    """The pieces of an encoded request, in the order in which they are cached."""
    if not isinstance(body, dict):
        return
    for key in _HEADS:
        if key in body:
            label = "the tools" if "tool" in key.lower() else "the system text"
            yield Piece(f"$.{key}", _without_markers(body[key]), label)
    for key in _BODIES:
        items = body.get(key)
        if isinstance(items, str):
            yield Piece(f"$.{key}", jsontext.write(items), "the input")
        for at, item in enumerate(items if isinstance(items, list) else ()):
            yield Piece(f"$.{key}[{at}]", _without_markers(item), f"message {at + 1}")


def _without_markers(value: Any) -> bytes:
    data = jsontext.write(value)
    return jsontext.write(_unmarked(value)) if b"cache" in data else data  # which is in the name of every marker


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name not in _MARKERS}
    if isinstance(value, list):
        return [_unmarked(item) for item in value if not (isinstance(item, dict) and item.keys() == {"cachePoint"})]
    return value


def shared_prefix(before: Sequence[Piece], now: Sequence[Piece]) -> tuple[int, Difference | None]:
    """How many bytes are the same, and the first difference; None where nothing of before was changed."""
    shared = 0
    for number, was in enumerate(before):
        piece = now[number] if number < len(now) else None
        if piece is not None and piece.data == was.data:
            shared += len(was.data)
            continue
        if piece is None:
            return shared, Difference(was, was, 0)
        at = _common_length(was.data, piece.data)
        return shared + at, Difference(piece, was, at)
    return shared, None


def _common_length(a: bytes, b: bytes) -> int:
    """The length of the common beginning."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
