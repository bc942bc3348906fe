"""Interlingua: one conversation format for LLMs, and lossless, honest codecs to and from every wire."""

import importlib
from typing import TYPE_CHECKING, Any

from . import events
from .dialects import DIALECTS, dialect, wire
from .values.abort import Abort
from .values.canonical import dump, load
from .values.errors import (
    Aborted,
    AuthFailed,
    BadRequest,
    BadWire,
    CannotCompact,
    ContentFiltered,
    ContextTooLong,
    DialectError,
    FormatError,
    InterlinguaError,
    Overloaded,
    ProviderError,
    RateLimited,
    TimedOut,
    ToolAuthorizationError,
    ToolInputError,
    TransportError,
    Unsupported,
)
from .values.events import AgentEvent, AssistantMessageEvent, StreamEvent
from .values.folding import fold, unfold
from .values.losses import Encoded, Loss
from .values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    CacheMarker,
    Citation,
    Cost,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    ImageContent,
    Message,
    OpaqueBlock,
    ReplyPayload,
    ServerToolCall,
    ServerToolResult,
    StopReason,
    SystemMessage,
    TextBlock,
    TextContent,
    ThinkingBlock,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from .values.request import (
    Api,
    AuthMode,
    CallOptions,
    Context,
    Conversation,
    Entry,
    KnownApi,
    ModelCost,
    ModelDescriptor,
    Options,
    OutputSchema,
    ProviderConfig,
    Reasoning,
    Request,
    ResolvedAuth,
    StreamContext,
    StreamOptions,
    ToolChoice,
    ToolSpec,
)

if TYPE_CHECKING:
    from .agent import Agent
    from .connect.auth.resolver import AuthResolver
    from .connect.client import Client, complete, stream
    from .connect.connector import Connector
    from .connect.registry import ConnectorRegistry
    from .conversion import convert, decode, encode
    from .conversion.adapting.adapter import Adapted, adapt
    from .conversion.checks import Finding, check
    from .conversion.detection import Detection, detect
    from .plugins import ExtensionInfo, LoadedPlugin, PluginDefinition, load_plugins
    from .plugins.toolkit import create_toolkit
    from .sessions.session import Session
    from .tools.decorator import tool
    from .tools.registry import ToolRegistry
    from .tools.tool import (
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
    )

__version__ = "0.1.0"

# Loaded on first use, so that importing the package stays light.
_LATER = {
    "AuthResolver": "connect.auth.resolver",
    "ExtensionInfo": "plugins",
    "FsBridge": "tools.tool",
    "FsStat": "tools.tool",
    "LoadedPlugin": "plugins",
    "PluginDefinition": "plugins",
    "Tool": "tools.tool",
    "ToolContext": "tools.tool",
    "ToolFactory": "tools.tool",
    "ToolMeta": "tools.tool",
    "ToolProfile": "tools.tool",
    "ToolResult": "tools.tool",
    "ToolSection": "tools.tool",
    "ToolUpdateCallback": "tools.tool",
    "Adapted": "conversion.adapting.adapter",
    "Agent": "agent",
    "Client": "connect.client",
    "Connector": "connect.connector",
    "ConnectorRegistry": "connect.registry",
    "Detection": "conversion.detection",
    "Finding": "conversion.checks",
    "adapt": "conversion.adapting.adapter",
    "check": "conversion.checks",
    "complete": "connect.client",
    "convert": "conversion.converting",
    "create_toolkit": "plugins.toolkit",
    "decode": "conversion.converting",
    "detect": "conversion.detection",
    "encode": "conversion.converting",
    "load_plugins": "plugins",
    "Session": "sessions.session",
    "stream": "connect.client",
    "sync": "sync:",
    "tool": "tools.decorator",
    "ToolRegistry": "tools.registry",
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = importlib.import_module(f".{module.rstrip(':')}", __name__)
    value = found if module.endswith(":") else getattr(found, name)
    globals()[name] = value
    return value


__all__ = [
    "DIALECTS",
    "Abort",
    "Aborted",
    "Adapted",
    "Agent",
    "AgentEvent",
    "AgentMessage",
    "Api",
    "AssistantMessage",
    "AssistantMessageEvent",
    "AudioBlock",
    "AuthFailed",
    "AuthMode",
    "AuthResolver",
    "BadRequest",
    "BadWire",
    "CacheMarker",
    "CallOptions",
    "CannotCompact",
    "Citation",
    "Client",
    "Connector",
    "ConnectorRegistry",
    "ContentFiltered",
    "Context",
    "ContextTooLong",
    "Conversation",
    "Cost",
    "CustomMessage",
    "Detection",
    "DialectError",
    "DocumentBlock",
    "Encoded",
    "Entry",
    "ExtensionInfo",
    "Finding",
    "FormatError",
    "FsBridge",
    "FsStat",
    "ImageBlock",
    "ImageContent",
    "InterlinguaError",
    "KnownApi",
    "LoadedPlugin",
    "Loss",
    "Message",
    "ModelCost",
    "ModelDescriptor",
    "OpaqueBlock",
    "Options",
    "OutputSchema",
    "Overloaded",
    "PluginDefinition",
    "ProviderConfig",
    "ProviderError",
    "RateLimited",
    "Reasoning",
    "ReplyPayload",
    "Request",
    "ResolvedAuth",
    "ServerToolCall",
    "ServerToolResult",
    "Session",
    "StopReason",
    "StreamContext",
    "StreamEvent",
    "StreamOptions",
    "SystemMessage",
    "TextBlock",
    "TextContent",
    "ThinkingBlock",
    "ThinkingContent",
    "TimedOut",
    "Tool",
    "ToolAuthorizationError",
    "ToolCall",
    "ToolChoice",
    "ToolContext",
    "ToolFactory",
    "ToolInputError",
    "ToolMeta",
    "ToolProfile",
    "ToolRegistry",
    "ToolResult",
    "ToolResultMessage",
    "ToolSection",
    "ToolSpec",
    "ToolUpdateCallback",
    "TransportError",
    "Unsupported",
    "Usage",
    "UserMessage",
    "adapt",
    "check",
    "complete",
    "convert",
    "create_toolkit",
    "decode",
    "detect",
    "dialect",
    "dump",
    "encode",
    "events",
    "fold",
    "load",
    "load_plugins",
    "stream",
    "sync",
    "tool",
    "unfold",
    "wire",
]
