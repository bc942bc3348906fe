"""Servers that others wrote as sources of tools: two in Python, two in TypeScript, over stdio and over HTTP.

Run by `make interop`; the servers are in environments of their own. Those in TypeScript are left out without Node.
"""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

from interlingua import Abort
from interlingua.mcp import StdioServer, mcp_tools
from interlingua.tools import call_tool, extract_tool_schemas
from interlingua.values.messages import ImageBlock

ENVIRONMENTS = Path(__file__).parent / ".envs"
PYTHON = ENVIRONMENTS / "mcp" / "bin"
NODE = ENVIRONMENTS / "mcp-node" / "node_modules" / ".bin"


@asynccontextmanager
async def opened(server, **options):
    async with mcp_tools(server, trusted=True, **options) as tools:
        specs, _ = extract_tool_schemas(tools, "google-generative-ai")
        assert len(specs) == len(tools) > 0
        yield {tool.name: tool for tool in tools}


async def called(tool, **arguments):
    result = await call_tool(tool, "1", arguments)
    assert not result.is_error, result.text
    return result


async def time() -> str:
    async with opened(StdioServer(command=str(PYTHON / "mcp-server-time")), prefix="clock") as tools:
        assert list(tools) == ["clock_convert_time", "clock_get_current_time"]
        now = await called(tools["clock_get_current_time"], timezone="Europe/Berlin")
        assert re.search(r"\d{4}-\d\d-\d\dT", now.text), now.text
        wrong = await call_tool(tools["clock_get_current_time"], "2", {"timezone": "Moon/Crater"})
        assert wrong.is_error, wrong
        return f"mcp-server-time: {len(tools)} tools"


async def git() -> str:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        Path(folder, "new.txt").write_text("new")
        async with opened(StdioServer(command=str(PYTHON / "mcp-server-git"))) as tools:
            status = await called(tools["git_status"], repo_path=folder)
            assert "new.txt" in status.text, status.text
            return f"mcp-server-git: {len(tools)} tools"


async def files() -> str:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        async with opened(StdioServer(command=str(NODE / "mcp-server-filesystem"), args=(str(place),))) as tools:
            await called(tools["write_file"], path=str(place / "a.txt"), content="hello")
            assert (place / "a.txt").read_text() == "hello"
            read = await called(tools["read_text_file"], path=str(place / "a.txt"))
            assert read.text == "hello", read
            outside = await call_tool(tools["read_text_file"], "2", {"path": "/etc/passwd"})
            assert outside.is_error, outside
            return f"server-filesystem: {len(tools)} tools"


async def everything(server, way: str) -> str:
    """The reference server: every kind of content, structured results, progress, cancelling."""
    async with opened(server) as tools:
        assert (await called(tools["echo"], message="hi")).text == "Echo: hi"
        assert "5" in (await called(tools["get-sum"], a=2, b="3")).text
        picture = await called(tools["get-tiny-image"])
        assert any(isinstance(block, ImageBlock) for block in picture.content), picture
        weather = await called(tools["get-structured-content"], location="Chicago")
        assert "temperature" in weather.details["structuredContent"], weather
        links = await called(tools["get-resource-links"], count=2)
        assert [block["type"] for block in links.details["content"]] == ["resource_link"] * 2, links
        heard = []
        await call_tool(
            tools["trigger-long-running-operation"], "1", {"duration": 0.4, "steps": 2}, on_update=heard.append
        )
        assert heard and heard[-1].details["progress"] == 2, heard
        signal = Abort()
        asyncio.get_running_loop().call_later(0.5, signal.abort, "enough")
        slow = {"duration": 60, "steps": 2}
        stopped = await call_tool(tools["trigger-long-running-operation"], "2", slow, signal=signal)
        assert stopped.is_error and "enough" in stopped.text, stopped
        return f"server-everything over {way}: {len(tools)} tools"


async def everything_over_http() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        *(str(NODE / "mcp-server-everything"), "streamableHttp"),
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await listening(port)
        return await everything(f"http://127.0.0.1:{port}/mcp", "HTTP")
    finally:
        server.kill()
        await server.wait()


async def listening(port: int) -> None:
    for _ in range(500):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    sys.exit(f"nobody listens on {port}")


async def main() -> None:
    print(await time())
    print(await git() if shutil.which("git") else "mcp-server-git: left out, there is no git")
    if not (NODE / "mcp-server-everything").exists():
        print("servers in TypeScript: left out, they are not installed (there is no npm)")
        return
    print(await files())
    program = StdioServer(command=str(NODE / "mcp-server-everything"), args=("stdio",))
    print(await everything(program, "stdio"))
    print(await everything_over_http())


if __name__ == "__main__":
    asyncio.run(main())
