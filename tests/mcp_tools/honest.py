"""A server made with the official package, as others write them: `honest.py` over stdio, `honest.py PORT` over HTTP."""

import asyncio
import os
import socket
import sys

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("honest")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ToolError("it was bound to fail")


@server.tool()
def read() -> str:
    """Has the name of a core tool."""
    return "not a file"


@server.tool()
def environment() -> list[str]:
    """The names of the variables that the server was given."""
    return sorted(os.environ)


@server.tool(structured_output=False)
def show() -> types.CallToolResult:
    """One block of each kind."""
    blob = types.BlobResourceContents(uri="file:///x/b%20c.zip", mime_type="application/zip", blob="AAAA")
    sound = types.BlobResourceContents(uri="file:///s", mime_type="audio/mpeg", blob="EEEE")
    unnamed = types.BlobResourceContents(uri="mem:", mime_type="application/octet-stream", blob="JVBERi0x")
    picture = types.BlobResourceContents(uri="file:///p", mime_type="image/png", blob="BBBB")
    return types.CallToolResult(
        content=[
            types.TextContent(text="words"),
            types.ImageContent(data="CCCC", mime_type="image/png"),
            types.AudioContent(data="DDDD", mime_type="audio/wav"),
            types.ResourceLink(name="link", uri="file:///l", mime_type="text/plain"),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="file:///t", text="inside")),
            types.EmbeddedResource(resource=blob),
            types.EmbeddedResource(resource=picture),
            types.EmbeddedResource(resource=sound),
            types.EmbeddedResource(resource=unnamed),
        ],
        structured_content={"n": 1},
    )


@server.tool()
async def count(ctx: Context, to: int) -> str:
    """Counts, and says so."""
    for at in range(to):
        await ctx.report_progress(at + 1, to, f"at {at + 1}")
    return "done"


@server.tool()
async def wait(path: str) -> str:
    """Writes `begun` to a file, and `cancelled` when it is cancelled."""
    with open(path, "w") as file:  # noqa: PTH123
        file.write("begun")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        with open(path, "w") as file:  # noqa: PTH123
            file.write("cancelled")
        raise
    return "never"


@server.tool()
def crash() -> str:
    """Ends the server."""
    print("out of cheese", file=sys.stderr, flush=True)
    os._exit(7)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        # The port may be reserved by a socket that does not listen.
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(("127.0.0.1", int(sys.argv[1])))
        uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run([listening])
    else:
        server.run("stdio")
