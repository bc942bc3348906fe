"""What comes in pieces: JSON values, and calls."""

from collections.abc import Iterable
from typing import Any

from ..residual import whole
from .facts import STRINGS

ACCUMULATING = frozenset({*STRINGS, "arguments", "input", "data", "transcript", "text", "summary"})


class Pieces(list[str]):
    """A string that still grows."""


def grow(known: dict[str, Any], delta: dict[str, Any], accumulator: Iterable[str]) -> None:
    """Puts a delta into what is known: strings under `growing` names grow, lists are joined by `index`, rest is set."""
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


class CallAccumulator:
    """A call under way. It opens when its id and its name are known and all calls before it are open."""

    __slots__ = ("id", "key", "name", "pieces", "wire")

    def __init__(self) -> None:
        self.wire: dict[str, Any] = {}
        self.pieces: list[str] = []
        self.key: int | None = None
        self.id: str | None = None
        self.name: str | None = None

    def is_known(self) -> bool:
        return self.key is None and bool(self.id and self.name)

    def is_custom(self) -> bool:
        return "custom" in self.wire

    def hear(self, delta: dict[str, Any]) -> None:
        """Notes what a delta says beside argument text. Names are set, not appended; nothing is unsaid by a blank."""
        for key, value in delta.items():
            if key == "function" or key == "custom":
                inner = self.wire.setdefault(key, {})
                for name, given in (value or {}).items():
                    if name not in inner or (given and name not in ("arguments", "input")):
                        inner[name] = given
                if self.name:
                    inner["name"] = self.name
            elif key == "id":
                self.wire[key] = self.id or value
            elif key != "index" and (key not in self.wire or value):
                self.wire[key] = value

    def known(self) -> dict[str, Any]:
        """The call as far as it is known when it opens, its arguments yet to come."""
        if self.is_custom():
            return {**self.wire, "custom": {**self.wire["custom"], "input": ""}}
        return {**self.wire, "function": {**self.wire["function"], "arguments": "{}"}}

    def whole(self) -> dict[str, Any]:
        """The call as a whole answer would show it."""
        for kind, grown in (("function", "arguments"), ("custom", "input")):
            if kind in self.wire and self.pieces:
                return {**self.wire, kind: {**self.wire[kind], grown: "".join(self.pieces)}}
        return self.wire


def index_of(given: Any) -> int | None:
    """The number of a call: some hosts spell it as a string."""
    if isinstance(given, str) and given.isdecimal():
        return int(given)
    return whole(given)


def begins_another(call: CallAccumulator, text: str | None, name: Any, arguments: Any) -> bool:
    """Whether a delta for a known number begins another call: hosts give one number to several calls.

    Another id with a name, or with nothing else, does; another id with arguments alone is a host that changes ids.
    """
    if text is not None and call.id is not None and text != call.id:
        return bool(name) or not arguments
    return text is None and bool(name and call.name and name != call.name and call.pieces)
