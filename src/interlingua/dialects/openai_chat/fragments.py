"""JSON values that come in pieces."""

from collections.abc import Iterable
from typing import Any

from .facts import STRINGS

ACCUMULATING = frozenset({*STRINGS, "arguments", "input", "data", "transcript", "text", "summary"})


class Pieces(list[str]):
    """A string that still grows."""


def grow(known: dict[str, Any], delta: dict[str, Any], accumulator: Iterable[str]) -> None:
    """Puts a delta into what is known: strings under these names grow, lists are joined by `index`, the rest is set."""
    for key, value in delta.items():
        before = known.get(key)
        if isinstance(value, str) and key in accumulator and before:
            if isinstance(before, Pieces):
                before.append(value)
            else:
                known[key] = Pieces([str(before), value])
        elif isinstance(value, dict) and isinstance(before, dict):
            grow(before, value, accumulator)
        elif isinstance(value, list) and isinstance(before, list):
            for item in value:
                _grow_item(before, item, accumulator)
        elif key not in known or (value is not None and not (value == "" and before)):
            known[key] = value


def _grow_item(known: list[Any], item: Any, accumulator: Iterable[str]) -> None:
    index = item.get("index") if isinstance(item, dict) else None
    if index is not None:
        for other in reversed(known):
            if isinstance(other, dict) and other.get("index") == index:
                grow(other, item, accumulator)
                return
    known.append(item)


def joined(value: Any) -> Any:
    """A value with everything that grew as plain strings."""
    if isinstance(value, Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {key: joined(item) for key, item in value.items()}
    return [joined(item) for item in value] if isinstance(value, list) else value
