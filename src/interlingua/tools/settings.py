"""Settings of the core tools, in one shape: a mapping from the name of a tool to its settings.

    il.Agent(model, ["exec"], tool_settings={"exec": {"network": True}})
    il.ToolContext(root=".", config={"tools": {"exec": {"network": True}}})

The programs read the same from `tools.toml` in the home folder, a table for each tool. Names of settings are in
snake_case or camelCase. An unknown tool or setting is refused, with a suggestion.
"""

import importlib
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ..values.errors import FormatError
from ..values.spelling import nearest, unknown
from .tool import ToolContext

S = TypeVar("S", bound=Struct)

CONFIG = "tools"  # the key of the settings in `ToolContext.config`

# The tools with settings, and the location of their types. `memory` is for memory_search and memory_get.
_TYPES = {
    "exec": "core.exec:ExecSettings",
    "image": "core.image:ImageSettings",
    "memory": "core.memory:MemorySettings",
    "web_fetch": "core.web_fetch:WebFetchSettings",
    "web_search": "core.web_search:WebSearchSettings",
}
# Locations in earlier versions, at the top of the configuration; still read.
_EARLIER = {"imageModel": "image", "memory": "memory", "webFetch": "web_fetch", "webSearch": "web_search"}


def read_settings(tool: str, kind: type[S], context: ToolContext) -> S:
    """Returns the settings of a tool as its type. Raises `FormatError` that names an unknown or invalid one."""
    return _read(tool, kind, _by_tool(context.config).get(tool, {}))


def check_settings(config: Mapping[str, Any] | None, others: Collection[str] = ()) -> None:
    """Raises `FormatError` for an unknown tool, or an invalid setting of one. `others` are tools that check their
    own.
    """
    for name in config or {}:
        if name in _TYPES and name not in _EARLIER and name not in others:
            raise FormatError(f"settings of {name} outside {CONFIG!r}; write {{{CONFIG!r}: {{{name!r}: …}}}}", "config")
    for tool, given in _by_tool(config).items():
        if tool in _TYPES:
            module, _, name = _TYPES[tool].partition(":")
            _read(tool, getattr(importlib.import_module(f".{module}", __package__), name), given)
        elif tool not in others:
            raise FormatError(unknown("tool", str(tool), (*_TYPES, *others)), f"config.{CONFIG}")


def with_settings(context: ToolContext, settings: Mapping[str, Any] | None) -> ToolContext:
    """Returns the context with the settings of tools replaced, after validation."""
    if not settings:
        return context
    config = {**(context.config or {}), CONFIG: {**_by_tool(context.config), **_mapping(settings, "tool_settings")}}
    check_settings(config)
    return msgspec.structs.replace(context, config=config)


def _by_tool(config: Mapping[str, Any] | None) -> dict[str, Any]:
    config = config or {}
    earlier = {tool: config[key] for key, tool in _EARLIER.items() if config.get(key) is not None}
    if "image" in earlier:  # the model, or a mapping with `primary` and `fallbacks`
        given = earlier["image"]
        given = given if isinstance(given, Mapping) else {"primary": given}
        earlier["image"] = {"model" if key == "primary" else key: value for key, value in given.items()}
    return {**earlier, **_mapping(config.get(CONFIG) or {}, f"config.{CONFIG}")}


def _read(tool: str, kind: type[S], given: Any) -> S:
    path = f"config.{CONFIG}.{tool}"
    names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    own: dict[str, Any] = {}
    for name, value in _mapping({} if given is None else given, path).items():
        key = names.get(name, name)
        if key not in names.values():
            spelled = names if str(name).islower() else names.values()  # in the user's own spelling
            near = nearest(str(name), spelled, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"valid settings: {', '.join(names)}"
            raise FormatError(f"unknown setting {name!r} of {tool}; {hint}", path)
        own[key] = value
    try:
        return msgspec.convert(own, kind)
    except msgspec.ValidationError as error:
        raise FormatError(f"invalid settings of {tool}: {error}", path) from None


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise FormatError(f"{path} must be a mapping, not {type(value).__name__}", path)
    return value
