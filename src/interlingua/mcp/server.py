"""Our tools as an MCP server. Every call goes through `call_tool`: validated, and checked against the policy."""

import asyncio
import contextlib
import functools
import hmac
import inspect
import ipaddress
import socket
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, cast

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPDeprecationWarning

from .._version import __version__
from ..tools.calling import Approve, Judge, call_tool
from ..tools.policy import READ_ONLY, ApprovalRequest
from ..tools.schemas import normalize_schema
from ..tools.tool import Tool, ToolContext, ToolResult, tool_of
from ..tools.validation import shown
from ..values.errors import InterlinguaError
from .offering import Prompt, Resource, content_of, prompt_handlers, resource_handlers

PATH = "/mcp"


def make_server(
    tools: Iterable[Tool | Mapping[str, Any]],
    *,
    policy: Judge = READ_ONLY,
    context: ToolContext | None = None,
    approve: Approve | None = None,
    resources: Iterable[Resource] = (),
    prompts: Iterable[Prompt] = (),
    name: str = "interlingua",
    instructions: str | None = None,
) -> Server[Any]:
    """Returns a server with these tools, resources and prompts.

    Tools that the policy denies are listed, and refused when called. Pass `approve_by_asking` as `approve` to ask the
    user of the client. While a tool runs, `current_session()` is its client, and `log` sends it log messages.
    """
    offered = {tool.name: tool for tool in map(tool_of, tools)}
    one_by_one = asyncio.Lock()

    async def list_tools(_: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_offer(tool) for tool in offered.values()])

    async def call(request: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = offered.get(params.name)
        if tool is None:
            # The specification answers unknown tools with a protocol error; only an error in the result is certain to
            # reach the model, which can correct the name (server/tools, Error Handling).
            text = f"unknown tool {params.name!r}; available tools: {', '.join(offered)}"
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
        updates = _Updates(request.session)
        async with one_by_one if tool.sequential else contextlib.nullcontext():
            token = _session.set(cast(ServerSession, _CallSession(request.session, request.request_id)))
            try:
                result = await call_tool(
                    tool,
                    f"mcp_{uuid.uuid4().hex}",
                    params.arguments or {},
                    on_update=updates,
                    context=context,
                    policy=policy,
                    approve=approve,
                )
            finally:
                _session.reset(token)
        # No progress is sent after the response (basic/utilities/progress): the last update goes first.
        await updates.sent()
        return _answer(result)

    handlers: dict[str, Any] = {"on_list_tools": list_tools, "on_call_tool": call, "on_set_logging_level": _set_level}
    handlers |= resource_handlers([*resources]) | prompt_handlers([*prompts])
    with warnings.catch_warnings():
        # Clients of versions before 2026-07-28 still set a level; newer ones request logs per request.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        return Server(name, version=__version__, instructions=instructions, **handlers)


_session: ContextVar[ServerSession | None] = ContextVar("mcp_session", default=None)


class _CallSession:
    """A session whose requests and notifications belong to one call.

    They are sent on the stream of that call's response. The package's default is the client's own stream (GET), where
    whatever is sent before the client has opened it is lost, and the call waits forever.
    """

    def __init__(self, session: ServerSession, request_id: types.RequestId | None) -> None:
        self._session = session
        self._request_id = request_id

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if inspect.ismethod(found) and "related_request_id" in inspect.signature(found).parameters:
            return functools.partial(found, related_request_id=self._request_id)
        return found


def current_session() -> ServerSession | None:
    """Returns the session of the client whose call is running; None outside a call."""
    return _session.get()


async def log(level: types.LoggingLevel, data: Any, logger: str | None = None) -> None:
    """Sends a log message to the client whose call is running; does nothing outside a call."""
    session = _session.get()
    if session is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            sending = session.send_log_message(level, data, logger)
        await sending


async def approve_by_asking(request: ApprovalRequest) -> bool:
    """Asks the user of the client whether a call may run, by elicitation. A client without elicitation refuses."""
    session = _session.get()
    wanted = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    if session is None or not session.check_client_capability(wanted):
        return False
    schema = {
        "type": "object",
        # A form is a flat object of primitive fields (client/elicitation, Requested Schema).
        "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": False}},
        "required": ["allow"],
    }
    text = f"{request.tool_name} {shown(request.params, 2000)}\n{request.reason}"
    answer = await session.elicit_form(text, schema)
    return answer.action == "accept" and bool((answer.content or {}).get("allow"))


async def _set_level(context: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Accepts a level. All log messages of tools are sent: there are few, and the client filters."""
    return types.EmptyResult()


def _offer(tool: Tool) -> types.Tool:
    schema = normalize_schema(tool.parameters)
    # `inputSchema` must have `type: "object"`, even for tools without parameters (server/tools, Tool).
    return types.Tool(
        name=tool.name, title=tool.label, description=tool.description, input_schema={"type": "object", **schema}
    )


def _answer(result: ToolResult) -> types.CallToolResult:
    """Returns the content only: `details` are for programs, and an MCP client would show them to its model."""
    return types.CallToolResult(content=[content_of(block) for block in result.content], is_error=result.is_error)


class _Updates:
    """Sends partial results as progress notifications, with the text as message."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._count = 0
        self._sending: asyncio.Task[None] | None = None
        self._latest: str | None = None

    def __call__(self, partial: ToolResult) -> None:
        self._count += 1
        self._latest = partial.text[-1000:]
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        """Sends the latest update, repeatedly: a slow client misses some, and blocks nothing."""
        while self._latest is not None:
            message, self._latest = self._latest, None
            # The value must increase with each notification, and the total may be unknown (basic/utilities/progress).
            await self._session.report_progress(float(self._count), None, message)

    async def sent(self) -> None:
        if self._sending is not None:
            await self._sending


# --- serving ----------------------------------------------------------------------------------------------------------


async def serve_stdio(server: Server[Any]) -> None:
    """Serves one client over standard input and output, until it closes them."""
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


async def serve_http(
    server: Server[Any],
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    token: str | None = None,
    on_ready: Callable[[str], object] | None = None,
) -> None:
    """Serves over streamable HTTP at `/mcp`, until cancelled. `on_ready` receives the URL.

    Only programs of this machine are served, unless there is a `token`, which clients then send as a bearer token.
    """
    import uvicorn

    local = _is_local(host)
    if token is None and not local:
        raise InterlinguaError(f"{host} is reachable from other machines; set a token, or serve on 127.0.0.1")
    # A web page can reach local servers by DNS rebinding (basic/transports, Security Warning): for this host, the
    # official package refuses other values of `Host` and `Origin`.
    app: Any = server.streamable_http_app(streamable_http_path=PATH, host="127.0.0.1" if local else host)
    if token is not None:
        app = _Guarded(app, token)
    listening = _listen(host, port)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on", timeout_graceful_shutdown=2)
    serving = uvicorn.Server(config)
    running = asyncio.ensure_future(serving.serve(sockets=[listening]))
    try:
        while not serving.started and not running.done():
            await asyncio.sleep(0.01)
        if on_ready is not None and not running.done():
            shown = f"[{host}]" if ":" in host else host
            on_ready(f"http://{shown}:{listening.getsockname()[1]}{PATH}")
        await asyncio.shield(running)
    finally:
        serving.should_exit = True
        await asyncio.wait({running}, timeout=10)
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise InterlinguaError(f"cannot serve on {host}:{port}: {error.strerror}") from None
    return listening


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Guarded:
    """Requires the bearer token."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers") or ()).get(b"authorization", b"")
        # Compared in constant time: the duration must not tell how much of a guess is right. RFC 6750, 3: a 401 names
        # the scheme.
        if scope["type"] == "http" and not hmac.compare_digest(given, self._expected):
            await send({"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]})
            await send({"type": "http.response.body", "body": b"bearer token required\n"})
            return
        await self._app(scope, receive, send)
