"""Names in camelCase or snake_case: read either way, said as they were spelled."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from ...values.messages import Extra
from ..residual import S, put_back, residual, with_residual
from .facts import API, SNAKE

Names: TypeAlias = dict[str, tuple[str, Any]]  # any spelling -> (camelCase, names inside)


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _names(plain: str, **nested: Names) -> Names:
    inner: dict[str, Names] = {**{name: {} for name in plain.split()}, **nested}
    return {spelled: (name, inner[name]) for name in inner for spelled in (name, _snake(name))}


PART_NAMES = _names(
    "thoughtSignature functionCall functionResponse executableCode codeExecutionResult",
    inlineData=_names("mimeType"),
    fileData=_names("mimeType fileUri"),
    toolCall=_names("toolType"),
    toolResponse=_names("toolType"),
)
DECLARATION_NAMES = _names("parametersJsonSchema")
REQUEST_NAMES = _names(
    "systemInstruction serviceTier sessionId",
    toolConfig=_names("", functionCallingConfig=_names("allowedFunctionNames")),
    generationConfig=_names(
        "topP topK maxOutputTokens stopSequences responseMimeType responseSchema responseJsonSchema",
        thinkingConfig=_names("includeThoughts thinkingBudget thinkingLevel"),
    ),
)


def camel(wire: dict[str, Any], names: Names, snakes: list[str], path: str = "") -> dict[str, Any]:
    """The object with the names that are read here in camelCase; `snakes` gets the places that had them otherwise."""
    out: dict[str, Any] = {}
    for key, value in wire.items():
        name, inner = names.get(key, (key, None))
        if name != key:
            if name in wire:  # said twice: the other spelling is unknown
                out[key] = value
                continue
            snakes.append(path + name)
        out[name] = camel(value, inner, snakes, f"{path}{name}.") if inner and isinstance(value, dict) else value
    return out


def _respell(place: dict[str, Any], path: list[str]) -> None:
    """Puts one name back into snake_case; objects on the way are copied, for they may not be ours to change."""
    name = path[0]
    if name not in place:
        return
    if len(path) == 1:
        place[_snake(name)] = place.pop(name)
    elif isinstance(place[name], dict):
        place[name] = dict(place[name])
        _respell(place[name], path[1:])


def restored(encoded: dict[str, Any], extra: Extra) -> dict[str, Any]:
    """`said` with the residual put back, and the names as the wire spelled them."""
    extra_fields = extra.get(API)
    if extra_fields:
        put_back(encoded, extra_fields)
        respelled(encoded, extra_fields)
    return encoded


def respelled(encoded: dict[str, Any], extra_fields: Mapping[str, Any]) -> None:
    for path in reversed(extra_fields.get(SNAKE, ())):  # inner names first, while the outer ones can be found
        _respell(encoded, path.split("."))


def keeping(
    value: S, wire: Mapping[str, Any], encoded: Mapping[str, Any], snakes: list[str] | None = None, **marks: Any
) -> S:
    """The value with what `said`, its own encoding, gets wrong about `wire`, beside hints that it already holds."""
    extra_fields = residual(wire, encoded)
    if snakes:
        marks[SNAKE] = snakes
    return with_residual(value, API, **extra_fields, **marks) if extra_fields or marks else value
