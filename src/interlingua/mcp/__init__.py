"""The Model Context Protocol: tools from MCP servers, and our tools as an MCP server. Requires the extra `mcp`."""

from typing import TYPE_CHECKING, Any

from ..values.errors import InterlinguaError
from ..values.lazy import by_module, lazy_names

if TYPE_CHECKING:
    from .client import ServerPrompt, ServerResource, ServerTools, mcp_tools
    from .connection import Elicitation
    from .oauth import OAuth
    from .offering import Argument, Prompt, Resource
    from .server import approve_by_asking, current_session, log, make_server, serve_http, serve_stdio
    from .stdio import HttpServer, StdioServer

# Loaded on first use: the official package is large.
_LAZY = by_module(
    {
        "client": "ServerPrompt ServerResource ServerTools mcp_tools",
        "connection": "Elicitation",
        "oauth": "OAuth",
        "offering": "Argument Prompt Resource",
        "server": "approve_by_asking current_session log make_server serve_http serve_stdio",
        "stdio": "HttpServer StdioServer",
    }
)


if not TYPE_CHECKING:  # for type checkers every name exists
    _find = lazy_names(__name__, _LAZY)

    def __getattr__(name: str) -> Any:
        try:
            return _find(name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("interlingua"):
                raise
            raise InterlinguaError(
                f'MCP needs a package that is not installed ({error.name}); pip install "interlingua[mcp]"'
            ) from None


__all__ = [
    "Argument",
    "Elicitation",
    "HttpServer",
    "OAuth",
    "Prompt",
    "Resource",
    "ServerPrompt",
    "ServerResource",
    "ServerTools",
    "StdioServer",
    "approve_by_asking",
    "current_session",
    "log",
    "make_server",
    "mcp_tools",
    "serve_http",
    "serve_stdio",
]
