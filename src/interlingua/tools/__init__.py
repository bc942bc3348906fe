"""Tools: their types, the registry, the core tools, and the policy under which they run."""

from typing import TYPE_CHECKING

from ..values.lazy import by_module, lazy_names

if TYPE_CHECKING:
    from .calling import ApprovalRequest, call_tool
    from .catalog import discover_core_tools, get_core_sections, get_core_tool_catalog
    from .params import (
        assert_required_params,
        read_boolean_param,
        read_number_param,
        read_string_array_param,
        read_string_param,
    )
    from .registry import ToolRegistry
    from .schemas import (
        clean_schema_for_gemini,
        extract_tool_schema,
        extract_tool_schemas,
        normalize_schema,
        to_openrouter_schema,
    )
    from .tool import (
        FsBridge,
        FsStat,
        MissingContext,
        Tool,
        ToolContext,
        ToolFactory,
        ToolMeta,
        ToolProfile,
        ToolResult,
        ToolSection,
        ToolUpdateCallback,
        error_result,
        image_result,
        json_result,
        text_result,
    )

__all__ = [
    "ApprovalRequest",
    "FsBridge",
    "FsStat",
    "MissingContext",
    "Tool",
    "ToolContext",
    "ToolFactory",
    "ToolMeta",
    "ToolProfile",
    "ToolRegistry",
    "ToolResult",
    "ToolSection",
    "ToolUpdateCallback",
    "assert_required_params",
    "call_tool",
    "clean_schema_for_gemini",
    "discover_core_tools",
    "error_result",
    "extract_tool_schema",
    "extract_tool_schemas",
    "get_core_sections",
    "get_core_tool_catalog",
    "image_result",
    "json_result",
    "normalize_schema",
    "read_boolean_param",
    "read_number_param",
    "read_string_array_param",
    "read_string_param",
    "text_result",
    "to_openrouter_schema",
]

# Loaded on first use. The decorator is `interlingua.tool`; here that name is the module with the types.
_LAZY = by_module(
    {
        "calling": "ApprovalRequest call_tool",
        "catalog": "discover_core_tools get_core_sections get_core_tool_catalog",
        "params": "assert_required_params read_boolean_param read_number_param read_string_array_param"
        " read_string_param",
        "registry": "ToolRegistry",
        "schemas": "clean_schema_for_gemini extract_tool_schema extract_tool_schemas normalize_schema"
        " to_openrouter_schema",
        "tool": "FsBridge FsStat MissingContext Tool ToolContext ToolFactory ToolMeta ToolProfile ToolResult"
        " ToolSection ToolUpdateCallback error_result image_result json_result text_result",
    }
)


if not TYPE_CHECKING:  # for type checkers every name exists
    __getattr__ = lazy_names(__name__, _LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
