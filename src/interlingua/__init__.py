"""One conversation format for LLMs, and lossless codecs between it and every wire and transcript format.

Convert    detect decode read encode convert check adapt; dialect wire; dump load fold
Call       complete stream embed Client Stream Retry Abort; sync has the same for programs without an event loop
Work       Agent Limits Session; tool Tool ToolContext ToolResult ToolRegistry; load_plugins create_toolkit
Messages   UserMessage AssistantMessage ToolResultMessage SystemMessage CustomMessage
Blocks     TextBlock ThinkingBlock ImageBlock AudioBlock DocumentBlock ToolCall OpaqueBlock; image
Requests   Request Context Options CallOptions Reasoning ModelDescriptor ToolSpec Conversation Entry Usage Cost
Results    Encoded Loss Detection Finding; events has the events of streams and agents
Errors     InterlinguaError and its tree: FormatError DialectError Unsupported BadWire TransportError TimedOut
           ProviderError AuthFailed RateLimited Overloaded ContextTooLong ContentFiltered BadRequest
           ToolInputError ToolAuthorizationError

Rarer types are in their packages, such as `interlingua.values.request`; the names of the clawtools documents are in
`interlingua.clawtools`.
"""

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from . import events
from ._version import __version__ as __version__
from .values.abort import Abort
from .values.canonical import dump, load
from .values.errors import (
    AuthFailed,
    BadRequest,
    BadWire,
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
from .values.folding import fold
from .values.losses import Encoded, Loss
from .values.messages import (
    AssistantMessage,
    AudioBlock,
    Cost,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from .values.request import (
    CallOptions,
    Context,
    Conversation,
    Entry,
    ModelDescriptor,
    Options,
    Reasoning,
    Request,
    ToolSpec,
)

if TYPE_CHECKING:
    from . import sync
    from .agent.agent import Agent
    from .agent.loop import Limits
    from .connect.client import Client, complete, stream
    from .connect.embeddings import embed
    from .connect.results import Result as Result
    from .connect.retry import Retry
    from .connect.stream import Stream
    from .conversion import audio as audio
    from .conversion import document as document
    from .conversion.adapting.adapter import adapt
    from .conversion.attachments import image
    from .conversion.checks import Finding, check
    from .conversion.converting import convert, decode, encode
    from .conversion.detection import Detection, detect
    from .conversion.sources import read
    from .dialects import DIALECTS as DIALECTS
    from .dialects.registry import dialect, wire
    from .plugins.loading import load_plugins
    from .plugins.toolkit import create_toolkit
    from .sessions.session import Session
    from .tools.decorator import tool
    from .tools.registry import ToolRegistry
    from .tools.tool import Tool, ToolContext, ToolResult
    from .values.errors import Aborted as Aborted
    from .values.errors import OutputInvalid as OutputInvalid
    from .values.messages import Message as Message

# Loaded on first use, so that importing the package imports no HTTP client, and a short command no dialects.
_LAZY = {
    "Agent": "agent.agent",
    "Client": "connect.client",
    "Detection": "conversion.detection",
    "Finding": "conversion.checks",
    "Limits": "agent.loop",
    "Retry": "connect.retry",
    "Session": "sessions.session",
    "Stream": "connect.stream",
    "Tool": "tools.tool",
    "ToolContext": "tools.tool",
    "ToolRegistry": "tools.registry",
    "ToolResult": "tools.tool",
    "adapt": "conversion.adapting.adapter",
    "check": "conversion.checks",
    "complete": "connect.client",
    "convert": "conversion.converting",
    "create_toolkit": "plugins.toolkit",
    "decode": "conversion.converting",
    "detect": "conversion.detection",
    "dialect": "dialects.registry",
    "embed": "connect.embeddings",
    "encode": "conversion.converting",
    "image": "conversion.attachments",
    "load_plugins": "plugins.loading",
    "read": "conversion.sources",
    "stream": "connect.client",
    "tool": "tools.decorator",
    "wire": "dialects.registry",
}
# Names that left the root for their packages; the old spelling works, with a DeprecationWarning, also in type checks.
_MOVED = {
    "DIALECTS": "dialects",
    "Aborted": "values.errors",
    "Message": "values.messages",
    "OutputInvalid": "values.errors",
    "Result": "connect.results",
    "audio": "conversion",
    "document": "conversion",
}


if not TYPE_CHECKING:  # for type checkers every name exists

    def __getattr__(name: str) -> Any:
        if name == "sync":
            value = importlib.import_module(".sync", __name__)
        elif name in _LAZY:
            value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
        elif name in _MOVED:
            home = f"{__name__}.{_MOVED[name]}"
            warnings.warn(f"interlingua.{name} is deprecated; use {home}.{name}", DeprecationWarning, stacklevel=2)
            return getattr(importlib.import_module(home), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, loaded or not: what completion and `help` show."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


__all__ = [
    "Abort",
    "Agent",
    "AssistantMessage",
    "AudioBlock",
    "AuthFailed",
    "BadRequest",
    "BadWire",
    "CallOptions",
    "Client",
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
    "Finding",
    "FormatError",
    "ImageBlock",
    "InterlinguaError",
    "Limits",
    "Loss",
    "ModelDescriptor",
    "OpaqueBlock",
    "Options",
    "Overloaded",
    "ProviderError",
    "RateLimited",
    "Reasoning",
    "Request",
    "Retry",
    "Session",
    "Stream",
    "SystemMessage",
    "TextBlock",
    "ThinkingBlock",
    "TimedOut",
    "Tool",
    "ToolAuthorizationError",
    "ToolCall",
    "ToolContext",
    "ToolInputError",
    "ToolRegistry",
    "ToolResult",
    "ToolResultMessage",
    "ToolSpec",
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
    "embed",
    "encode",
    "events",
    "fold",
    "image",
    "load",
    "load_plugins",
    "read",
    "stream",
    "sync",
    "tool",
    "wire",
]
