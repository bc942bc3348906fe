"""Arguments that Google streams as values of paths: `$.place.name` is "Bos", and goes on.

They amount to an object, and, as long as they come in the order of a JSON text, to that text piece by piece.
"""

import re
from itertools import pairwise
from typing import Any, TypeAlias

from ...values import jsontext

Path: TypeAlias = list[str | int]

_VALUES = ("stringValue", "numberValue", "boolValue")  # `nullValue` is the rest
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


class _Pieces(list[str]):
    """A string that is still growing."""


class PartialArguments:
    """Takes the pieces of one call's arguments; the work for each does not grow with those before it."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._at: Path = []  # where the text has come to
        self._in_string = False
        self._orderly = True

    def add(self, piece: dict[str, Any]) -> str:
        """Takes one piece; gives the JSON text that it brings."""
        path = _steps(piece["jsonPath"])
        value = next((piece[key] for key in _VALUES if key in piece), None)
        goes_on = isinstance(value, str) and bool(piece.get("willContinue"))
        if self._in_string and isinstance(value, str) and path == self._at:
            self._found(path).append(value)
            self._in_string = goes_on
            return self._encoded(jsontext.compact(value)[1:-1] + ("" if goes_on else '"'))
        container, step = self._container(path), path[-1]
        if _has(container, step):
            return self._again(container, step, value)
        text = self._text_between(path)
        _put(container, step, value)
        self._at, self._in_string = path, goes_on
        spelled = jsontext.compact(value)
        return self._encoded(text + (spelled[:-1] if goes_on else spelled))

    def rest(self) -> str:
        """The end of the text."""
        if not self._at:
            return ""
        return self._encoded(('"' if self._in_string else "") + _closers(self._at))

    def value(self) -> dict[str, Any]:
        """All arguments so far."""
        return _joined(self._root)  # type: ignore[no-any-return]

    def _encoded(self, text: str) -> str:
        return text if self._orderly else ""

    def _again(self, container: Any, step: Any, value: Any) -> str:
        """A value that was given before: text goes on, anything else is replaced. A text cannot go back there."""
        if isinstance(value, str) and isinstance(container[step], _Pieces):
            container[step].append(value)
            if not value:
                return ""
        else:
            container[step] = _Pieces([value]) if isinstance(value, str) else value
        self._orderly = False
        return ""

    def _text_between(self, path: Path) -> str:
        """From the last value to the place of the next: what closes, the comma, what opens."""
        depth = 0
        while depth < min(len(path), len(self._at)) and path[depth] == self._at[depth]:
            depth += 1
        text = '"' if self._in_string else ""
        text += _closers(self._at[depth + 1 :]) + "," if self._at else "{"
        for at in range(depth, len(path)):
            step = path[at]
            if isinstance(step, str):
                text += jsontext.compact(step) + ":"
            if at + 1 < len(path):
                text += "{" if isinstance(path[at + 1], str) else "["
        return text

    def _container(self, path: Path) -> Any:
        """The object or list that the last step leads out of, made on the way if need be."""
        place: Any = self._root
        for step, following in pairwise(path):
            if not _has(place, step):
                _put(place, step, {} if isinstance(following, str) else [])
            place = place[step]
        if isinstance(place, _Pieces) or not isinstance(place, dict if isinstance(path[-1], str) else list):
            raise TypeError(f"{path} leads into a value")
        return place

    def _found(self, path: Path) -> Any:
        place: Any = self._root
        for step in path:
            place = place[step]
        return place


def _has(container: Any, step: Any) -> bool:
    return step in container if isinstance(container, dict) else step < len(container)


def _put(container: Any, step: Any, value: Any) -> None:
    stored = _Pieces([value]) if isinstance(value, str) else value
    if isinstance(container, dict):
        container[step] = stored
    elif step == len(container):
        container.append(stored)
    else:
        raise IndexError(f"item {step} of a list of {len(container)}")


def _steps(path: str) -> Path:
    """`$.a[0].b` as `["a", 0, "b"]`."""
    steps: Path = []
    at = 1
    while found := _STEP.match(path, at):
        steps.append(int(found[2]) if found[2] else found[1] or found[3] or found[4] or "")
        at = found.end()
    if at < len(path) or not path.startswith("$") or not steps or isinstance(steps[0], int):
        raise ValueError(f"{path!r} is no path into arguments")
    return steps


def _closers(path: Path) -> str:
    return "".join("}" if isinstance(step, str) else "]" for step in reversed(path))


def _joined(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {key: _joined(inner) for key, inner in value.items()}
    return list(map(_joined, value)) if isinstance(value, list) else value
