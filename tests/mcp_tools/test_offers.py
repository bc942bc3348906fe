"""Resources, prompts, questions, logs and logins: as a client of others and as a server for others."""

import asyncio
import contextlib
import json
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

pytest.importorskip("mcp")

import mcp_types as types
from mcp import Client, MCPError

from interlingua import AssistantMessage, FormatError, ImageBlock, TextBlock, TransportError, UserMessage, tool
from interlingua.mcp import (
    Argument,
    Elicitation,
    HttpServer,
    Prompt,
    Resource,
    StdioServer,
    approve_by_asking,
    current_session,
    log,
    make_server,
    mcp_tools,
)
from interlingua.mcp.client import ServerTools
from interlingua.mcp.oauth import OAuth, TokenFile
from interlingua.mcp.offering import file_prompts, file_resources
from interlingua.tools import call_tool
from interlingua.tools.policy import ALLOW, ASK
from interlingua.values.messages import text_of

HERE = Path(__file__).parent


@contextlib.asynccontextmanager
async def asking(**options: Any) -> AsyncIterator[ServerTools]:
    server = StdioServer(command=sys.executable, args=(str(HERE / "asking.py"),))
    async with mcp_tools(server, **{"trusted": True} | options) as tools:
        yield tools


def named(tools: ServerTools, name: str) -> Any:
    return next(one for one in tools if one.name == name)


# --- servers of others ------------------------------------------------------------------------------------------------


async def test_resources_and_prompts_of_a_server_are_read() -> None:
    """Listed with their templates, read as blocks without hidden characters; a prompt is a list of messages."""
    async with asking() as tools:
        assert "Ask before you book." == tools.instructions
        assert [("notes://today", False), ("notes://{day}/picture", True)] == [
            (one.uri, one.is_template) for one in await tools.resources()
        ]
        (text,) = await tools.read_resource("notes://today")
        assert TextBlock(text="buy milk") == text
        (picture,) = await tools.read_resource("notes://monday/picture")
        assert isinstance(picture, ImageBlock) and "image/png" == picture.mime_type
        with pytest.raises(TransportError, match="refused"):
            await tools.read_resource("notes://nowhere/at/all")
        (prompt,) = await tools.prompts()
        assert ("greet", {"name": True, "tone": False}) == (prompt.name, prompt.arguments)
        asked, answered = await tools.prompt("greet", {"name": "Ada"})
        assert isinstance(asked, UserMessage) and "Greet Ada, be kind." == text_of(asked.content)
        assert isinstance(answered, AssistantMessage) and "Dear …" == text_of(answered.content)


async def test_a_model_reads_resources_by_two_tools_if_it_may() -> None:
    """Only with `resources`; what they give is a stranger's text, between marks."""
    async with asking() as tools:
        assert "read_resource" not in [one.name for one in tools]
    async with asking(resources=True, prefix="n", trusted=False) as tools:
        listed = await call_tool(named(tools, "n_list_resources"), "1", {})
        assert "notes://today" in listed.text
        read = await call_tool(named(tools, "n_read_resource"), "2", {"uri": "notes://today"})
        assert "buy milk" in read.text and "buy milk" != read.text
        missing = await call_tool(named(tools, "n_read_resource"), "3", {"uri": "notes://x/y/z"})
        assert missing.is_error


@pytest.mark.parametrize(
    "answer, expected",
    [
        ({"name": "Ada"}, "accept: Booking(name='Ada', people=2)"),
        ({"name": "Ada", "people": 5}, "accept: Booking(name='Ada', people=5)"),
        (None, "decline"),
        (ValueError("nobody is here"), "cancel"),
    ],
    ids=["defaults", "all", "no", "fails"],
)
async def test_questions_of_a_server_reach_the_user(answer: Any, expected: str) -> None:
    """With what the schema gives as defaults; a no is a no, and a failure of ours a cancellation."""
    seen: list[Elicitation] = []

    async def elicit(question: Elicitation) -> Any:
        seen.append(question)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with asking(elicit=elicit) as tools:
        result = await call_tool(named(tools, "book"), "1", {})
    assert expected in result.text
    (question,) = seen
    assert "For whom?" == question.message and question.schema is not None
    assert {"name", "people"} == set(question.schema["properties"])


async def test_without_somebody_to_ask_questions_are_refused() -> None:
    """A server that asks nevertheless gets an error, and its tool fails."""
    async with asking() as tools:
        assert (await call_tool(named(tools, "book"), "1", {})).is_error


async def test_log_messages_of_a_server_are_received(caplog: pytest.LogCaptureFixture) -> None:
    """By `on_log`, or else by Python's logging at the same level."""
    received: list[tuple[str, str]] = []
    async with asking(on_log=lambda level, text: received.append((level, text))) as tools:
        await call_tool(named(tools, "noisy"), "1", {})
    assert [("warning", "the oven is hot")] == [(level, text.rpartition(": ")[2]) for level, text in received]
    async with asking() as tools:
        await call_tool(named(tools, "noisy"), "1", {})
    assert any("the oven is hot" in record.getMessage() and "WARNING" == record.levelname for record in caplog.records)


# --- our server -------------------------------------------------------------------------------------------------------


@tool
async def chatty() -> str:
    """Logs, and says whether there is a session."""
    await log("notice", {"step": 1}, "kitchen")
    return str(current_session() is not None)


@tool
def wipe(path: str) -> str:
    """Deletes."""
    return f"wiped {path}"


def greeting(name: str) -> list[UserMessage]:
    return [UserMessage(content=(ImageBlock(data="AAAA", mime_type="image/png"), TextBlock(text=f"hello {name}")))]


async def slow_note(day: str) -> str:
    await asyncio.sleep(0)
    return f"on {day}"


OFFER: dict[str, Any] = {
    "resources": [
        Resource(uri="a://text", name="text", read="words"),
        Resource(uri="a://bytes", name="bytes", read=lambda: b"\x89PNG\r\n\x1a\n"),
        Resource(uri="a://{day}/note", name="note", read=slow_note, mime_type="text/markdown"),
    ],
    "prompts": [Prompt(name="greet", arguments=(Argument(name="name", choices=("Ada", "Alan")),), render=greeting)],
}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_our_server_offers_resources_and_prompts(mode: str) -> None:
    """To the official client, of the versions before and after 2026-07-28."""
    async with Client(make_server([chatty], policy=ALLOW, **OFFER), mode=mode) as client:
        assert ["a://text", "a://bytes"] == [str(one.uri) for one in (await client.list_resources()).resources]
        templates = (await client.list_resource_templates()).resource_templates
        assert ["a://{day}/note"] == [one.uri_template for one in templates]
        (text,) = (await client.read_resource("a://text")).contents
        assert isinstance(text, types.TextResourceContents) and "words" == text.text
        (data,) = (await client.read_resource("a://bytes")).contents
        assert isinstance(data, types.BlobResourceContents) and "image/png" == data.mime_type
        (note,) = (await client.read_resource("a://5%2F6/note")).contents
        assert isinstance(note, types.TextResourceContents) and "on 5/6" == note.text
        with pytest.raises(MCPError, match="no resource a://none"):
            await client.read_resource("a://none")
        found = await client.get_prompt("greet", {"name": "Ada"})
        assert ["image", "text"] == [one.content.type for one in found.messages]
        for wrong, given in (("greet", {}), ("nobody", {"name": "x"})):
            with pytest.raises(MCPError):
                await client.get_prompt(wrong, given)
        reference = types.PromptReference(name="greet")
        completed = await client.complete(reference, {"name": "name", "value": "Al"})
        assert ["Alan"] == completed.completion.values


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_subscribers_are_notified_of_changes_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until they unsubscribe; what does not exist cannot be subscribed to."""
    monkeypatch.setattr("interlingua.mcp.offering.POLL_INTERVAL", 0.01)
    path = tmp_path / "notes.md"
    path.write_text("one")
    notified: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            notified.put_nowait(str(message.params.uri))

    server = make_server([], resources=file_resources(tmp_path, ["*.md"]))
    async with Client(server, message_handler=hear, mode="legacy") as client:
        assert client.server_capabilities.resources is not None and client.server_capabilities.resources.subscribe
        await client.subscribe_resource(path.as_uri())
        path.write_text("another text")
        assert path.as_uri() == await asyncio.wait_for(notified.get(), 30)
        path.unlink()
        assert path.as_uri() == await asyncio.wait_for(notified.get(), 30)
        with pytest.raises(MCPError, match="no resource a://none"):
            await client.subscribe_resource("a://none")
        await client.unsubscribe_resource(path.as_uri())


async def test_listeners_of_the_new_protocol_are_notified_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a stream of their own, for the addresses that they name."""
    monkeypatch.setattr("interlingua.mcp.offering.POLL_INTERVAL", 0.01)
    path = tmp_path / "notes.md"
    path.write_text("one")
    server = make_server([], resources=file_resources(tmp_path, ["*.md"]))
    async with Client(server) as client, client.listen(resource_subscriptions=[path.as_uri()]) as events:
        path.write_text("another text")
        event = await anext(aiter(events))
        assert path.as_uri() == str(event.uri)  # type: ignore[union-attr]


async def test_a_server_without_resources_and_prompts_offers_none() -> None:
    """Nothing is announced that is not there."""
    async with Client(make_server([chatty])) as client:
        assert client.server_capabilities.resources is None and client.server_capabilities.prompts is None


async def test_a_tool_of_our_server_logs_to_its_client() -> None:
    """While a call runs the session is at hand; outside of one, logging does nothing."""
    received: list[types.LoggingMessageNotificationParams] = []

    async def note(params: types.LoggingMessageNotificationParams) -> None:
        received.append(params)

    async with Client(make_server([chatty], policy=ALLOW), logging_callback=note, log_level="info") as client:
        answer = await client.call_tool("chatty")
        assert [types.TextContent(text="True")] == answer.content
    assert [("notice", "kitchen", {"step": 1})] == [(one.level, one.logger, one.data) for one in received]
    await log("info", "nobody listens")
    assert current_session() is None


@pytest.mark.parametrize(
    "content, expected", [({"allow": True}, "wiped x"), ({"allow": False}, "denied"), (None, "denied")]
)
async def test_the_user_of_the_client_approves_calls(content: Any, expected: str) -> None:
    """A policy that asks has the client ask; only an explicit yes runs the call."""
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        action: Any = "decline" if content is None else "accept"
        return types.ElicitResult(action=action, content=content)

    server = make_server([wipe], policy=ASK, approve=approve_by_asking)
    async with Client(server, mode="legacy", elicitation_callback=elicit) as client:
        answer = await client.call_tool("wipe", {"path": "x"})
    text = str(answer.content[0])
    assert (expected in text) if expected != "denied" else ("wiped" not in text and answer.is_error)
    assert 1 == len(asked) and "wipe" in asked[0]


async def test_a_client_that_cannot_ask_declines() -> None:
    """Nothing runs because nobody was there."""
    async with Client(make_server([wipe], policy=ASK, approve=approve_by_asking), mode="legacy") as client:
        assert (await client.call_tool("wipe", {"path": "x"})).is_error


def test_files_below_a_root_are_resources(tmp_path: Path) -> None:
    """By pattern; links that lead out, and patterns that do, are not followed; binary files are bytes."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "a.md").write_text("# A")
    (root / "docs" / "b.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "secret").write_text("secret")
    (root / "docs" / "link").symlink_to(tmp_path / "secret")
    found = {one.name: one for one in file_resources(root, ["docs/*", "**/*.md"])}
    assert {"docs/a.md", "docs/b.bin"} == set(found)
    assert callable(found["docs/a.md"].read) and callable(found["docs/b.bin"].read)
    assert ("# A", b"\xff\xfe\x00") == (found["docs/a.md"].read(), found["docs/b.bin"].read())
    (root / "docs" / "a.md").unlink()
    (root / "docs" / "a.md").symlink_to(tmp_path / "secret")
    with pytest.raises(FormatError, match="become a link"):
        found["docs/a.md"].read()
    for pattern in ("../*", "/etc/*"):
        with pytest.raises(FormatError, match="not a pattern"):
            file_resources(root, [pattern])


def test_files_of_a_folder_are_prompts(tmp_path: Path) -> None:
    """Variables in double braces are arguments, and what is given is not expanded again."""
    (tmp_path / "review.md").write_text("# Review\nLook at {{ file }} and {{other}}; {{file}} first.")
    (tmp_path / "ignored.py").write_text("{{x}}")
    (prompt,) = file_prompts(tmp_path)
    assert ("review", "Review", ["file", "other"]) == (
        prompt.name,
        prompt.description,
        [one.name for one in prompt.arguments],
    )
    assert "# Review\nLook at {{other}} and b; {{other}} first." == prompt.render(file="{{other}}", other="b")


# --- logins -----------------------------------------------------------------------------------------------------------


class Guarded:
    """An MCP server and its authorization server in one, which registers clients and counts what it is asked."""

    def __init__(self) -> None:
        self.tokens = 0
        self.url = ""

    async def __aenter__(self) -> "Guarded":
        app = web.Application()
        app.router.add_get("/.well-known/oauth-protected-resource{rest:.*}", self.resource)
        app.router.add_get("/.well-known/oauth-authorization-server{rest:.*}", self.metadata)
        app.router.add_post("/register", self.register)
        app.router.add_get("/authorize", self.authorize)
        app.router.add_post("/token", self.token)
        app.router.add_post("/mcp", self.mcp)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def resource(self, request: web.Request) -> web.Response:
        return web.json_response({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})

    async def metadata(self, request: web.Request) -> web.Response:
        places = {f"{name}_endpoint": f"{self.url}/{path}" for name, path in (("authorization", "authorize"),)}
        places |= {"token_endpoint": f"{self.url}/token", "registration_endpoint": f"{self.url}/register"}
        return web.json_response(
            {
                "issuer": self.url,
                **places,
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def register(self, request: web.Request) -> web.Response:
        return web.json_response({**await request.json(), "client_id": "us"}, status=201)

    async def authorize(self, request: web.Request) -> web.Response:
        query = request.query
        if query.get("deny"):
            raise web.HTTPFound(f"{query['redirect_uri']}?error=access_denied&state={query['state']}")
        raise web.HTTPFound(f"{query['redirect_uri']}?code=c0de&state={query['state']}")

    async def token(self, request: web.Request) -> web.Response:
        assert "c0de" == (await request.post())["code"]
        self.tokens += 1
        return web.json_response({"access_token": "t0ken", "token_type": "Bearer", "expires_in": 3600})

    async def mcp(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer t0ken":
            where = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource"'
            return web.Response(status=401, headers={"WWW-Authenticate": where})
        asked = await request.json()
        if "id" not in asked:
            return web.Response(status=202)
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "open", "inputSchema": {"type": "object"}}]},
        }
        result = results.get(asked["method"])
        answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], **answer})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


async def browse(url: str) -> None:
    import aiohttp

    async with aiohttp.ClientSession() as browser, browser.get(url) as page:
        assert 200 == page.status


async def test_a_login_is_asked_for_once_and_kept(home: Path) -> None:
    """The user agrees in a browser, the tokens are stored for the user alone, and later connections need nobody."""
    async with Guarded() as guarded:
        server = HttpServer(url=f"{guarded.url}/mcp")
        with pytest.raises(TransportError, match=r"login required; run: interlingua tools login http"):
            async with mcp_tools(server):
                pass
        async with mcp_tools(server, authorize=browse) as tools:
            assert ["open"] == [one.name for one in tools]
        async with mcp_tools(server) as tools:
            assert ["open"] == [one.name for one in tools]
        assert 1 == guarded.tokens
        file = TokenFile(server.url, OAuth())
        assert "t0ken" == json.loads(file.path.read_text())["tokens"]["access_token"]
        assert 0o600 == stat.S_IMODE(file.path.stat().st_mode)
        assert file.forget() and not file.forget()


async def test_a_refused_login_says_so(home: Path) -> None:
    """The reason of the authorization server reaches the user."""

    async def refuse(url: str) -> None:
        await browse(f"{url}&deny=1")

    async with Guarded() as guarded:
        with pytest.raises(TransportError, match="the login was refused: access_denied"):
            async with mcp_tools(HttpServer(url=f"{guarded.url}/mcp"), authorize=refuse):
                pass
