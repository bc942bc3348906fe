"""The Model Context Protocol: tools from MCP servers, and our tools as an MCP server. Requires the extra `mcp`."""

import importlib
from typing import TYPE_CHECKING, Any

from ..values.errors import InterlinguaError

if TYPE_CHECKING:
    from .client import ServerPrompt, ServerResource, ServerTools, mcp_tools
    from .connection import Elicitation
    from .oauth import OAuth
    from .offering import Argument, Prompt, Resource
    from .server import approve_by_asking, current_session, log, make_server, serve_http, serve_stdio
    from .stdio import HttpServer, StdioServer

# Loaded on first use: the official package is large.
_LATER = {
    "Argument": "offering",
    "Elicitation": "connection",
    "HttpServer": "stdio",
    "OAuth": "oauth",
    "Prompt": "offering",
    "Resource": "offering",
    "ServerPrompt": "client",
    "ServerResource": "client",
    "ServerTools": "client",
    "StdioServer": "stdio",
    "approve_by_asking": "server",
    "current_session": "server",
    "log": "server",
    "make_server": "server",
    "mcp_tools": "client",
    "serve_http": "server",
    "serve_stdio": "server",
}


if not TYPE_CHECKING:  # for type checkers every name exists

    def __getattr__(name: str) -> Any:
        module = _LATER.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            found = importlib.import_module(f".{module}", __name__)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("interlingua"):
                raise
            raise InterlinguaError(
                f'MCP needs a package that is not installed ({error.name}); pip install "interlingua[mcp]"'
            ) from None
        value = getattr(found, name)
        globals()[name] = value
        return value


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
