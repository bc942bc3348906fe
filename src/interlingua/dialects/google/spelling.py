"""Names in camelCase or snake_case: read either way, said as they were spelled."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from ...values.messages import Extra
from ..residual import S, put_back, residual, with_held
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


def restored(said: dict[str, Any], extra: Extra) -> dict[str, Any]:
    """`said` with the residual put back, and the names as the wire spelled them."""
    held = extra.get(API)
    if held:
        put_back(said, held)
        respelled(said, held)
    return said


def respelled(said: dict[str, Any], held: Mapping[str, Any]) -> None:
    for path in reversed(held.get(SNAKE, ())):  # inner names first, while the outer ones can be found
        _respell(said, path.split("."))


def keeping(
    value: S, wire: Mapping[str, Any], said: Mapping[str, Any], snakes: list[str] | None = None, **marks: Any
) -> S:
    """The value with what `said`, its own encoding, gets wrong about `wire`, beside hints that it already holds."""
    held = residual(wire, said)
    if snakes:
        marks[SNAKE] = snakes
    return with_held(value, API, **held, **marks) if held or marks else value
