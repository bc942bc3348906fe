"""Tools: what they are, the registry, the core tools, the rules under which they run."""

import importlib
from typing import Any

# Loaded on first use. The decorator is `interlingua.tool`; here that name is the module with the types.
_LATER = {
    "ApprovalRequest": "calling",
    "FsBridge": "tool",
    "FsStat": "tool",
    "MissingContext": "tool",
    "Tool": "tool",
    "ToolContext": "tool",
    "ToolFactory": "tool",
    "ToolMeta": "tool",
    "ToolProfile": "tool",
    "ToolRegistry": "registry",
    "ToolResult": "tool",
    "ToolSection": "tool",
    "ToolUpdateCallback": "tool",
    "assert_required_params": "params",
    "call_tool": "calling",
    "clean_schema_for_gemini": "schemas",
    "discover_core_tools": "catalog",
    "error_result": "results",
    "extract_tool_schema": "schemas",
    "extract_tool_schemas": "schemas",
    "get_core_sections": "catalog",
    "get_core_tool_catalog": "catalog",
    "image_result": "results",
    "json_result": "results",
    "normalize_schema": "schemas",
    "read_boolean_param": "params",
    "read_number_param": "params",
    "read_string_array_param": "params",
    "read_string_param": "params",
    "text_result": "results",
    "to_openrouter_schema": "schemas",
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
