"""How much of a request a provider's prompt cache can reuse, to the byte, and what invalidated the rest.

Providers cache prefixes: tools first, then the system text, then the messages
(platform.claude.com/docs/en/build-with-claude/prompt-caching). A request is split into these pieces in that order; the
cache of the previous request is valid up to the first piece that differs.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ..values import jsontext

# Where wires have the parts before the messages, in cache order; and where the messages are.
_HEADS = ("tools", "toolConfig", "tool_config", "system", "systemInstruction", "system_instruction", "instructions")
_BODIES = ("messages", "contents", "input")
# Markers only limit what is cached and are not part of it: they move with each turn.
_MARKERS = frozenset({"cache_control", "prompt_cache_breakpoint"})


class PromptPiece(NamedTuple):
    """A part of a request that is cached as one: its path, its JSON without cache markers, and its label."""

    path: str
    data: bytes
    label: str


class PromptDifference(NamedTuple):
    """The first difference: the new and the old piece, and the byte offset at which they differ."""

    piece: PromptPiece
    was: PromptPiece
    at: int


def prompt_pieces(body: Any) -> Iterator[PromptPiece]:
    """Returns the pieces of an encoded request, in cache order."""
    if not isinstance(body, dict):
        return
    for key in _HEADS:
        if key in body:
            label = "the tools" if "tool" in key.lower() else "the system text"
            yield PromptPiece(f"$.{key}", _without_markers(body[key]), label)
    for key in _BODIES:
        items = body.get(key)
        if isinstance(items, str):
            yield PromptPiece(f"$.{key}", jsontext.write(items), "the input")
        for at, item in enumerate(items if isinstance(items, list) else ()):
            yield PromptPiece(f"$.{key}[{at}]", _without_markers(item), f"message {at + 1}")


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def raw_pieces(body: bytes) -> list[msgspec.Raw]:
    """Returns the JSON of the pieces of a request as views of its body, without parsing them."""
    try:
        fields = _fields(body)
        found = [fields[key] for key in _HEADS if key in fields]
        for key in _BODIES:
            first = bytes(memoryview(fields[key])[:1]) if key in fields else b""
            if first == b"[":
                found += _items(fields[key])
            elif first == b'"':
                found.append(fields[key])
    except msgspec.DecodeError:  # JSON that only `jsontext` reads
        return [msgspec.Raw(piece.data) for piece in prompt_pieces(jsontext.read(body))]
    return found


def equal_pieces(before: Sequence[msgspec.Raw], now: Sequence[msgspec.Raw]) -> int:
    """Returns how many pieces at the beginning are equal, whatever their spelling and their cache markers."""
    for number, (was, piece) in enumerate(zip(before, now, strict=False)):
        if was != piece and _canonical(was) != _canonical(piece):
            return number
    return min(len(before), len(now))


def _canonical(piece: msgspec.Raw) -> bytes:
    return _without_markers(jsontext.read(bytes(piece)))


def _without_markers(value: Any) -> bytes:
    data = jsontext.write(value)
    return jsontext.write(_unmarked(value)) if b"cache" in data else data  # part of every marker's name


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name not in _MARKERS}
    if isinstance(value, list):
        return [_unmarked(item) for item in value if not (isinstance(item, dict) and item.keys() == {"cachePoint"})]
    return value


def shared_prefix(before: Sequence[PromptPiece], now: Sequence[PromptPiece]) -> tuple[int, PromptDifference | None]:
    """Returns the number of equal bytes, and the first difference; None if nothing was changed."""
    shared = 0
    for number, was in enumerate(before):
        piece = now[number] if number < len(now) else None
        if piece is not None and piece.data == was.data:
            shared += len(was.data)
            continue
        if piece is None:
            return shared, PromptDifference(was, was, 0)
        at = _common_length(was.data, piece.data)
        return shared + at, PromptDifference(piece, was, at)
    return shared, None


def _common_length(a: bytes, b: bytes) -> int:
    """Returns the length of the common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
