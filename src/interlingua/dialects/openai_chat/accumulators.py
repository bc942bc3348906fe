"""What a stream gives in fragments: JSON values, and calls."""

from collections.abc import Iterable
from typing import Any

from ...values.messages import Block
from .content import decode_call
from .facts import THOUGHTS

# --- JSON values in fragments ----------------------------------------------------------------------------------------

STRINGS = frozenset({*THOUGHTS, "content", "refusal"})
ACCUMULATING = frozenset({*STRINGS, "arguments", "input", "data", "transcript", "text", "summary"})


class _Pieces(list[str]):
    """The fragments of a string."""


def merge_delta(known: dict[str, Any], delta: dict[str, Any], accumulator: Iterable[str]) -> None:
    """Merges a delta: strings under these names are appended, lists joined by `index`, other values replaced."""
    for key, value in delta.items():
        before = known.get(key)
        if isinstance(value, str) and key in accumulator and before:
            if isinstance(before, _Pieces):
                before.append(value)
            else:
                known[key] = _Pieces([str(before), value])
        elif isinstance(value, dict) and isinstance(before, dict):
            merge_delta(before, value, accumulator)
        elif isinstance(value, list) and isinstance(before, list):
            for item in value:
                # In deltas, entries of a list that belong together have the same `index`; those without one are
                # complete.
                index = item.get("index") if isinstance(item, dict) else None
                alike = (other for other in reversed(before) if isinstance(other, dict) and other.get("index") == index)
                found = None if index is None else next(alike, None)
                if found is None:
                    before.append(item)
                else:
                    merge_delta(found, item, accumulator)
        # Later chunks repeat fields as null or "", which must not replace the value.
        elif key not in known or (value is not None and not (value == "" and before)):
            known[key] = value


def joined(value: Any) -> Any:
    """A value with all fragments joined."""
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {key: joined(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}
    return [joined(item) for item in value] if isinstance(value, list) else value


# --- calls -----------------------------------------------------------------------------------------------------------


class CallParts:
    """The deltas of one call so far."""

    __slots__ = ("id", "key", "name", "pieces", "wire")

    def __init__(self) -> None:
        self.wire: dict[str, Any] = {}
        self.pieces: list[str] = []
        self.key: int | None = None
        self.id: str | None = None
        self.name: str | None = None

    def is_custom(self) -> bool:
        return "custom" in self.wire

    def finished(self, wire: dict[str, Any]) -> Block:
        return decode_call(wire, lambda: self.id or "", answer=True)

    def note(self, delta: dict[str, Any]) -> None:
        """Records the fields of a delta beside argument text. Names are replaced, not appended; blanks are ignored."""
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
        """The call as known at its start, without arguments."""
        if self.is_custom():
            return {**self.wire, "custom": {**self.wire["custom"], "input": ""}}
        return {**self.wire, "function": {**self.wire["function"], "arguments": "{}"}}

    def whole(self) -> dict[str, Any]:
        """The call as in a whole answer."""
        for kind, field in (("function", "arguments"), ("custom", "input")):
            if kind in self.wire and self.pieces:
                return {**self.wire, kind: {**self.wire[kind], field: "".join(self.pieces)}}
        return self.wire


def begins_another(call: CallParts, text: str | None, name: Any, arguments: Any) -> bool:
    """Whether a delta with a known index begins another call: some hosts reuse an index.

    It does with another id and a name, or no other field; another id with arguments only is a host that changes ids.
    """
    if text is not None and call.id is not None and text != call.id:
        return bool(name) or not arguments
    return text is None and bool(name and call.name and name != call.name and call.pieces)
