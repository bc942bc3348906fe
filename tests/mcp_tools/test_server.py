"""Our tools as an MCP server, called by the official client."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters

from interlingua import Abort, AudioBlock, DocumentBlock, ImageBlock, InterlinguaError, TextBlock, tool
from interlingua.mcp import approve_by_asking, current_session, log, make_server, mcp_tools, serve_http
from interlingua.tools import Tool, ToolResult, ToolUpdateCallback, call_tool
from interlingua.tools.policy import ALLOW, ASK


@tool
def shout(text: str, times: int = 1) -> str:
    """Says it loudly.

    Args:
        text: what to say
    """
    return text.upper() * times


@tool
def picture() -> ToolResult:
    """A picture of something."""
    return ToolResult(
        content=(TextBlock(text="here"), ImageBlock(data="AAAA", mime_type="image/png")), details={"x": 1}
    )


@tool
async def climb(steps: int, on_update: ToolUpdateCallback) -> str:
    """Goes up."""
    for step in range(steps):
        on_update(ToolResult(content=(TextBlock(text=f"step {step + 1}"),)))
        await asyncio.sleep(0.01)
    return "top"


@asynccontextmanager
async def serving(tools: list[Tool], token: str | None = None, **options: Any) -> AsyncIterator[str]:
    """The address of a server of these tools."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = make_server(tools, **options)
    task = asyncio.create_task(serve_http(server, token=token, on_ready=ready.set_result))
    try:
        yield await ready
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_lists_and_calls_our_tools_over_http(mode: str) -> None:
    """Names, words and schemas arrive; arguments are mended, mistakes explained; old and new protocol alike."""
    async with serving([shout, picture], policy=ALLOW) as url, Client(url, mode=mode) as client:
        listed = (await client.list_tools()).tools
        assert [("shout", "Says it loudly."), ("picture", "A picture of something.")] == [
            (one.name, one.description) for one in listed
        ]
        assert {"type": "string", "description": "what to say"} == listed[0].input_schema["properties"]["text"]
        result = await client.call_tool("shout", {"text": "hi", "times": "2"})
        assert ([types.TextContent(text="HIHI")], False) == (result.content, result.is_error)
        wrong = await client.call_tool("shout", {"texts": 1})
        assert wrong.is_error
        assert "The arguments for shout are wrong" in wrong.content[0].text  # type: ignore[union-attr]
        unknown = await client.call_tool("whisper", {})
        assert (True, "unknown tool 'whisper'; available tools: shout, picture") == (
            unknown.is_error,
            unknown.content[0].text,  # type: ignore[union-attr]
        )
        shown = await client.call_tool("picture")
        assert [types.TextContent(text="here"), types.ImageContent(data="AAAA", mime_type="image/png")] == shown.content
        assert shown.structured_content is None


@tool
def files() -> ToolResult:
    """One of each kind."""
    return ToolResult(
        content=(
            AudioBlock(data="AAAA", mime_type="audio/wav"),
            DocumentBlock(data="JVBERi0x", title="a b.pdf"),
            DocumentBlock(text="words", url="https://x.example/w"),
            ImageBlock(url="https://x.example/p.png"),
        )
    )


async def test_media_of_every_kind_reach_the_client() -> None:
    """Sound as sound, documents as embedded resources, an address as text; nothing is served as what it is not."""
    async with serving([files], policy=ALLOW) as url, Client(url) as client:
        result = await client.call_tool("files")
    pdf = types.BlobResourceContents(uri="document:a%20b.pdf", mime_type="application/pdf", blob="JVBERi0x")
    assert [
        types.AudioContent(data="AAAA", mime_type="audio/wav"),
        types.EmbeddedResource(resource=pdf),
        types.EmbeddedResource(resource=types.TextResourceContents(uri="https://x.example/w", text="words")),
        types.TextContent(text="[image: https://x.example/p.png]"),
    ] == result.content


async def test_what_only_reads_is_allowed_and_nothing_else() -> None:
    """Without a policy of its own, a server runs the tools that read."""
    async with serving([shout]) as url, Client(url) as client:
        result = await client.call_tool("shout", {"text": "hi"})
    assert result.is_error
    assert "shout is not allowed" in result.content[0].text  # type: ignore[union-attr]


async def test_updates_are_progress() -> None:
    """Partial results reach the client as progress, in order, up to the last one."""
    received: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        received.append(message)

    async with serving([climb], policy=ALLOW) as url, Client(url, mode="legacy") as client:
        result = await client.call_tool("climb", {"steps": 5}, progress_callback=hear)
    assert [types.TextContent(text="top")] == result.content
    assert (sorted(received, key=str), "step 5") == (received, received[-1])


async def test_a_client_that_cancels_stops_the_tool() -> None:
    """The tool's signal fires."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def endless(signal: Abort) -> str:
        """Waits to be stopped."""
        begun.set()
        await signal.wait()
        stopped.set()
        return "stopped"

    async with serving([endless], policy=ALLOW) as url, Client(url) as client:
        calling = asyncio.create_task(client.call_tool("endless"))
        await asyncio.wait_for(begun.wait(), 20)
        calling.cancel()
        await asyncio.wait({calling})
        await asyncio.wait_for(stopped.wait(), 20)


async def test_tools_that_must_not_run_side_by_side_do_not() -> None:
    """A sequential tool waits for the one before."""
    running: list[int] = []

    @tool(sequential=True)
    async def alone() -> str:
        """Counts those who run."""
        running.append(1)
        most = len(running)
        await asyncio.sleep(0.05)
        running.pop()
        return str(most)

    async with serving([alone], policy=ALLOW) as url, Client(url) as client:
        results = await asyncio.gather(*(client.call_tool("alone") for _ in range(3)))
    assert ["1"] * 3 == [result.content[0].text for result in results]  # type: ignore[union-attr]


async def test_a_token_is_asked_for() -> None:
    """Without the token nothing is said; with it, our own client gets the tools."""
    async with serving([shout], token="s3cret", policy=ALLOW) as url:
        async with httpx2.AsyncClient() as client:
            for headers in ({}, {"Authorization": "Bearer wrong"}):
                refused = await client.post(url, json={}, headers=headers)
                assert (401, "Bearer") == (refused.status_code, refused.headers["www-authenticate"])
        server = {"url": url, "headers": {"Authorization": "Bearer s3cret"}}
        async with mcp_tools(server, trusted=True) as (found,):
            assert "HI" == (await call_tool(found, "1", {"text": "hi"})).text


async def test_other_machines_are_not_served_without_a_token() -> None:
    """Serving to the network needs a token; and a page in a browser cannot reach a local server by another name."""
    with pytest.raises(InterlinguaError, match="set a token"):
        await serve_http(make_server([shout]), "0.0.0.0")
    async with serving([shout], policy=ALLOW) as url, httpx2.AsyncClient() as client:
        foreign = await client.post(url, json={}, headers={"Host": "evil.example"})
        browser = await client.post(url, json={}, headers={"Origin": "http://evil.example"})
    assert (421, 403) == (foreign.status_code, browser.status_code)


async def test_a_port_that_is_taken_is_an_error() -> None:
    """It names the place."""
    async with serving([shout]) as url:
        port = int(url.split(":")[2].split("/")[0])
        with pytest.raises(InterlinguaError, match=f"cannot serve on 127.0.0.1:{port}"):
            await serve_http(make_server([shout]), port=port)


# --- the command ------------------------------------------------------------------------------------------------------

SERVE = "from interlingua.cli.tools_serve import command; command()"


def parameters(root: Path, *options: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=["-c", SERVE, "--root", str(root), *options])


async def test_the_command_serves_a_directory_over_stdio(tmp_path: Path) -> None:
    """By default only what reads is there, and it reads below the root alone."""
    (tmp_path / "note.txt").write_text("remember the milk")
    async with Client(parameters(tmp_path, "-i", "group:fs")) as client:
        assert ["read", "ls", "find", "grep"] == [one.name for one in (await client.list_tools()).tools]
        result = await client.call_tool("read", {"path": "note.txt"})
        assert "remember the milk" in result.content[0].text  # type: ignore[union-attr]
        outside = await client.call_tool("read", {"path": "/etc/passwd"})
        assert outside.is_error
        assert "root:" not in outside.content[0].text  # type: ignore[union-attr]


async def test_the_command_serves_what_is_allowed_and_plugins_too(tmp_path: Path) -> None:
    """--allow adds tools, of plugins as well."""
    folder = tmp_path / "plugins" / "parrot"
    folder.mkdir(parents=True)
    (folder / "interlingua.plugin.json").write_text('{"id": "parrot"}')
    (folder / "plugin.py").write_text(
        "from interlingua import tool\n@tool\ndef echo(text: str) -> str:\n    return text\n"
        "def register(api): api.register_tool(echo)\n"
    )
    options = [
        "--allow",
        "write",
        "--allow",
        "echo",
        "--plugins",
        str(tmp_path / "plugins"),
        "-i",
        "write",
        "-i",
        "echo",
    ]
    async with Client(parameters(tmp_path, *options)) as client:
        assert ["write", "echo"] == [one.name for one in (await client.list_tools()).tools]
        await client.call_tool("write", {"path": "new.txt", "content": "made"})
        echoed = await client.call_tool("echo", {"text": "polly"})
    assert ("made", "polly") == ((tmp_path / "new.txt").read_text(), echoed.content[0].text)  # type: ignore[union-attr]


async def test_the_command_serves_over_http(tmp_path: Path) -> None:
    """It says where, serves, and ends when it is interrupted."""
    (tmp_path / "note.txt").write_text("remember")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVE, "--root", str(tmp_path), "--http", "127.0.0.1:0"), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    url = ""
    while not url:
        line = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
        assert line
        url = line.partition("at ")[2].strip() if "http://" in line else ""
    async with Client(url) as client:
        result = await client.call_tool("ls", {})
        assert "note.txt" in result.content[0].text  # type: ignore[union-attr]
    process.terminate()
    await process.stderr.read()
    await asyncio.wait_for(process.wait(), 20)


@tool
async def consult() -> str:
    """Logs, and asks the user."""
    await log("info", "asking")
    session = current_session()
    assert session is not None
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    return str((await session.elicit_form("Who?", schema)).content)


async def test_questions_travel_on_the_stream_of_their_call() -> None:
    """A client may open its own stream later than it calls, or never: what a call sends must not be lost there."""
    async with serving([consult], policy=ASK, approve=approve_by_asking) as url:
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as client:

            def message(id: int | None, **fields: Any) -> dict[str, Any]:
                return {"jsonrpc": "2.0", **({} if id is None else {"id": id}), **fields}

            info = {"name": "x", "version": "1"}
            params = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": info}
            begun = await client.post(url, json=message(1, method="initialize", params=params))
            client.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
            await client.post(url, json=message(None, method="notifications/initialized"))
            call = message(2, method="tools/call", params={"name": "consult", "arguments": {}})
            seen = []
            async with client.stream("POST", url, json=call) as answer:
                async for line in answer.aiter_lines():
                    if not line.startswith("data: {"):
                        continue
                    event = json.loads(line[6:])
                    seen.append(event.get("method", "result"))
                    if event.get("method") == "elicitation/create":
                        result = {"action": "accept", "content": {"allow": True, "name": "Ada"}}
                        await client.post(url, json=message(event["id"], result=result))
                    elif "result" in event:
                        assert "Ada" in event["result"]["content"][0]["text"]
    assert ["elicitation/create", "notifications/message", "elicitation/create", "result"] == seen
