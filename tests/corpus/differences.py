"""Where two JSON values differ, in words."""

from typing import Any

MOST = 12
_SHOWN = 160


def differences(expected: Any, actual: Any, path: str = "$") -> list[str]:
    """The places where two JSON values are not the same. Key order is nothing; `1` is `1.0`, and not `true`."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return [
            found
            for key in [*expected, *(key for key in actual if key not in expected)]
            for found in _in_key(expected, actual, key, path)
        ]
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return _in_list(expected, actual, path)
    if expected == actual and isinstance(expected, bool) is isinstance(actual, bool):
        return []
    return [f"{path}: expected {shown(expected)}, got {shown(actual)}"]


def _in_key(expected: dict[str, Any], actual: dict[str, Any], key: str, path: str) -> list[str]:
    place = f"{path}.{key}"
    if key not in actual:
        return [f"{place}: missing; expected {shown(expected[key])}"]
    if key not in expected:
        return [f"{place}: not expected; got {shown(actual[key])}"]
    return differences(expected[key], actual[key], place)


def _in_list(expected: Any, actual: Any, path: str) -> list[str]:
    found = [
        d for at, (a, b) in enumerate(zip(expected, actual, strict=False)) for d in differences(a, b, f"{path}[{at}]")
    ]
    if len(expected) != len(actual):
        found.append(f"{path}: expected {len(expected)} items, got {len(actual)}")
    return found


def shown(value: Any) -> str:
    """A value, short enough for a line."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
