"""The names of the clawtools documents, in snake_case; their examples run with these, with JSON in either spelling.

    from interlingua import clawtools
>
    ct = clawtools.create_clawtools({"skipBuiltinConnectors": True})
    bridge = clawtools.create_node_bridge("/my/project")
    tools = ct.tools.resolve_all({"workspaceDir": "/my/project", "root": "/my/project", "bridge": bridge})

A name that this package also has is the same object. `project` and `unproject` translate stream events.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypedDict

from msgspec import Struct, structs

from .connect.auth.resolver import AuthResolver, resolve_auth
from .connect.client import builtin_connectors
from .connect.connector import Connector
from .connect.models import deserialize_model, serialize_model
from .connect.registry import ConnectorRegistry
from .dialects.files.clawtools import mistakes, project, unproject
from .plugins import (
    ExtensionInfo,
    LoadedPlugin,
    PluginApi,
    PluginDefinition,
    PluginLoaderOptions,
    aload_plugins,
    discover_extensions,
    get_extension_path,
    list_channel_extensions,
    list_provider_extensions,
    load_plugins,
    toolkit,
)
from .plugins.manifest import Manifest as PluginManifest
from .plugins.toolkit import DiscoveryOptions
from .plugins.toolkit import Toolkit as Clawtools
from .tools import catalog, schemas
from .tools.catalog import get_core_sections, get_core_tool_catalog
from .tools.fs import create_node_bridge
from .tools.params import (
    assert_required_params,
    read_boolean_param,
    read_number_param,
    read_string_array_param,
    read_string_param,
)
from .tools.registry import ToolRegistry
from .tools.schemas import clean_schema_for_gemini, extract_tool_schema, normalize_schema
from .tools.tool import (
    ContentBlock,
    FsBridge,
    FsStat,
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
from .values.errors import ToolAuthorizationError, ToolInputError
from .values.events import StreamEvent
from .values.interop import struct_of
from .values.messages import AssistantMessage, ImageContent, TextContent, ToolResultMessage, UserMessage
from .values.request import (
    Api,
    AuthMode,
    KnownApi,
    ModelCost,
    ModelDescriptor,
    ProviderConfig,
    ResolvedAuth,
    StreamContext,
    StreamOptions,
    ToolSpec,
)

ConversationMessage: TypeAlias = UserMessage | AssistantMessage
ContextMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage
JsonSchema: TypeAlias = dict[str, Any]
SerializedModel: TypeAlias = dict[str, Any]


class UsageInfo(TypedDict, total=False):
    """Usage in the protocol's events; an absent count is unknown, not zero."""

    inputTokens: int
    outputTokens: int


class StringParamOptions(TypedDict, total=False):
    """Keyword arguments of `read_string_param`."""

    required: bool
    trim: bool
    label: str
    allow_empty: bool


class NumberParamOptions(TypedDict, total=False):
    """Keyword arguments of `read_number_param`."""

    required: bool
    integer: bool
    label: str


class BooleanParamOptions(TypedDict, total=False):
    """Keyword arguments of `read_boolean_param`; the documents call its default `defaultValue`."""

    required: bool
    default: bool
    label: str


class ClawtoolsOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """The options of a toolkit."""

    openclaw_root: str | None = None
    tools: DiscoveryOptions | Mapping[str, Any] | None = None
    extensions_dir: str | None = None
    skip_core_tools: bool = False
    skip_builtin_connectors: bool = False
    lazy: bool = False


def create_clawtools(options: ClawtoolsOptions | Mapping[str, Any] | None = None, **more: Any) -> Clawtools:
    """Creates a toolkit with the core tools, the built-in connectors and the list of extensions. It may be awaited."""
    return toolkit.create_toolkit(**_fields(options, ClawtoolsOptions), **more)


create_clawtools_sync = create_clawtools_async = create_clawtools


def discover_core_tools(
    registry: ToolRegistry, options: DiscoveryOptions | Mapping[str, Any] | None = None, **more: Any
) -> None:
    """Registers the selected core tools; they are created when they are resolved."""
    catalog.discover_core_tools(registry, **_fields(options, DiscoveryOptions), **more)


async def discover_core_tools_async(
    registry: ToolRegistry, options: DiscoveryOptions | Mapping[str, Any] | None = None, **more: Any
) -> None:
    """`discover_core_tools` as a coroutine; it never waits."""
    discover_core_tools(registry, options, **more)


async def discover_builtin_connectors() -> list[Connector]:
    """Returns the built-in connectors, each a separate object."""
    return builtin_connectors().list()


discover_builtin_connectors_async = discover_builtin_connectors


def extract_tool_schemas(tools: Iterable[Any], provider_or_api: str | None = None) -> list[ToolSpec]:
    """Returns the tools for a `StreamContext`; `interlingua.tools.extract_tool_schemas` also returns the losses."""
    return schemas.extract_tool_schemas(tools, provider_or_api)[0]


def _fields(options: Any, kind: type[Struct]) -> dict[str, Any]:
    """Returns the fields of options, by argument names."""
    given = struct_of(options or {}, kind, "options")
    return {name: value for name, value in structs.asdict(given).items() if value is not None}


__all__ = [
    "Api",
    "AssistantMessage",
    "AuthMode",
    "AuthResolver",
    "BooleanParamOptions",
    "Clawtools",
    "ClawtoolsOptions",
    "Connector",
    "ConnectorRegistry",
    "ContentBlock",
    "ContextMessage",
    "ConversationMessage",
    "DiscoveryOptions",
    "ExtensionInfo",
    "FsBridge",
    "FsStat",
    "ImageContent",
    "JsonSchema",
    "KnownApi",
    "LoadedPlugin",
    "ModelCost",
    "ModelDescriptor",
    "NumberParamOptions",
    "PluginApi",
    "PluginDefinition",
    "PluginLoaderOptions",
    "PluginManifest",
    "ProviderConfig",
    "ResolvedAuth",
    "SerializedModel",
    "StreamContext",
    "StreamEvent",
    "StreamOptions",
    "StringParamOptions",
    "TextContent",
    "Tool",
    "ToolAuthorizationError",
    "ToolContext",
    "ToolFactory",
    "ToolInputError",
    "ToolMeta",
    "ToolProfile",
    "ToolRegistry",
    "ToolResult",
    "ToolResultMessage",
    "ToolSection",
    "ToolUpdateCallback",
    "UsageInfo",
    "UserMessage",
    "aload_plugins",
    "assert_required_params",
    "clean_schema_for_gemini",
    "create_clawtools",
    "create_clawtools_async",
    "create_clawtools_sync",
    "create_node_bridge",
    "deserialize_model",
    "discover_builtin_connectors",
    "discover_builtin_connectors_async",
    "discover_core_tools",
    "discover_core_tools_async",
    "discover_extensions",
    "error_result",
    "extract_tool_schema",
    "extract_tool_schemas",
    "get_core_sections",
    "get_core_tool_catalog",
    "get_extension_path",
    "image_result",
    "json_result",
    "list_channel_extensions",
    "list_provider_extensions",
    "load_plugins",
    "mistakes",
    "normalize_schema",
    "project",
    "read_boolean_param",
    "read_number_param",
    "read_string_array_param",
    "read_string_param",
    "resolve_auth",
    "serialize_model",
    "text_result",
    "unproject",
]
