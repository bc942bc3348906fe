"""A connection to a server, owned by its own task: reopened if it broke, closed when unused."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeAlias

import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from msgspec import Struct

from .._version import __version__
from ..values import jsontext
from ..values.decompression import Decompressor, is_compressed
from ..values.errors import TimedOut, TransportError
from ..values.interop import describe
from ..values.text import visible
from .oauth import SECONDS as LOGIN_SECONDS
from .oauth import Authorize, provider
from .stdio import Ending, HttpServer, Server, stdio_transport

CONNECT_SECONDS = 30.0
SHUT_SECONDS = 10.0
PAGES = 300
TOOLS = 1000

_log = logging.getLogger(__name__)


class Elicitation(Struct, frozen=True, kw_only=True):
    """A server's question to the user: a form with a JSON Schema of flat fields, or a URL to visit."""

    server: str
    message: str
    schema: dict[str, Any] | None = None
    url: str | None = None


Elicit: TypeAlias = Callable[[Elicitation], Awaitable[Mapping[str, Any] | bool | None]]
"""Answers a question: the fields' values, True (accept, with the defaults), or None to decline."""
OnLog: TypeAlias = Callable[[str, str], object]
"""Receives the level and the text of a server's log messages."""

LOG_LEVEL: types.LoggingLevel = "info"
MAX_LOG = 2_000
MAX_QUESTION = 8_000
# The levels of syslog (MCP specification, server/utilities/logging) as Python's.
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


class Connection:
    """A client of one server. A call on a broken connection reopens it, once."""

    def __init__(
        self,
        server: Server,
        *,
        timeout: float,
        max_bytes: int,
        elicit: Elicit | None = None,
        on_log: OnLog | None = None,
        authorize: Authorize | None = None,
    ) -> None:
        self.server = server
        self.timeout = timeout
        self._elicit = elicit
        self._on_log = on_log or self._log
        self._authorize = authorize
        self._max_bytes = max_bytes
        self._client: Client | None = None
        self._ending = Ending()
        self._connection_task: asyncio.Task[None] | None = None
        self._close = asyncio.Event()
        self._opening = asyncio.Lock()
        self._changed = False

    async def __aenter__(self) -> "Connection":
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shut()

    async def list_tools(self) -> list[types.Tool]:
        """Returns the tools that the server offers, each once: a repeated name is the same tool."""
        return await self._list("tools", lambda client: client.list_tools, lambda tool: str(tool.name))

    async def list_resources(self) -> list[types.Resource]:
        if (await self._connected()).server_capabilities.resources is None:
            return []
        return await self._list("resources", lambda client: client.list_resources, lambda one: str(one.uri))

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        if (await self._connected()).server_capabilities.resources is None:
            return []
        return await self._list(
            "resource_templates", lambda client: client.list_resource_templates, lambda one: str(one.uri_template)
        )

    async def list_prompts(self) -> list[types.Prompt]:
        if (await self._connected()).server_capabilities.prompts is None:
            return []
        return await self._list("prompts", lambda client: client.list_prompts, lambda prompt: str(prompt.name))

    async def _list(self, what: str, listing: Callable[[Client], Any], key: Callable[[Any], str]) -> list[Any]:
        """Returns all pages of a listing.

        Cursors are opaque, and a listing ends with a page that has none (MCP specification, server/utilities,
        Pagination): a repeated cursor would never end.
        """
        client, label = await self._connected(), self.server.label
        named = what.replace("_", " ")
        found: dict[str, Any] = {}
        seen: set[str] = set()
        cursor: str | None = None
        for number in range(1, PAGES + 1):
            page = await self._answered(listing(client)(cursor=cursor, cache_mode="bypass"))
            for one in getattr(page, what):
                if found.setdefault(key(one), one) != one:
                    _log.warning("the MCP server %s lists %r twice, differently; the first is used", label, key(one))
            if len(found) > TOOLS:
                raise TransportError(f"the MCP server {label} offers more than {TOOLS} {named}")
            cursor = page.next_cursor
            if cursor is None:
                return list(found.values())
            if cursor in seen:
                raise TransportError(
                    f"the MCP server {label} lists {named} in a loop: page {number} repeats the cursor "
                    f"{cursor!r}; report it to the server's author"
                )
            seen.add(cursor)
        raise TransportError(f"the MCP server {label} lists {named} endlessly; stopped after {PAGES} pages")

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        answer: types.ReadResourceResult = await self._answered(
            (await self._connected()).read_resource(uri, cache_mode="bypass")
        )
        return answer

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> types.GetPromptResult:
        answer: types.GetPromptResult = await self._answered((await self._connected()).get_prompt(name, arguments))
        return answer

    @property
    def instructions(self) -> str | None:
        """The server's usage instructions."""
        return self._client.instructions if self._client is not None else None

    async def call(self, name: str, arguments: dict[str, Any], progress: ProgressFnT | None) -> types.CallToolResult:
        """Returns the response to a call. A call is not repeated if the connection broke: it may have had effects.

        The result is not validated against the tool's output schema: a server's patterns could take forever.
        """
        for attempt in (1, 2):
            client, ending = await self._connected(), self._ending
            try:
                answer: types.CallToolResult = await self._answered(
                    client.call_tool(name, arguments, read_timeout_seconds=self.timeout, progress_callback=progress)
                )
            except _SessionLost:
                if attempt == 2:
                    raise
                ending.end("the session was ended")  # the session that was used: another call may have opened a new one
            else:
                return answer
        raise AssertionError("unreachable")

    # --- the connection task ---

    async def _connected(self) -> Client:
        async with self._opening:
            if (
                self._client is None
                or self._ending.over
                or self._connection_task is None
                or self._connection_task.done()
            ):
                await self._shut()
                await self._open()
        assert self._client is not None
        return self._client

    async def _open(self) -> None:
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._close = asyncio.Event()
        self._ending = Ending()
        self._connection_task = asyncio.create_task(self._keep(opened, self._close, self._ending))
        seconds = CONNECT_SECONDS if self._authorize is None else CONNECT_SECONDS + LOGIN_SECONDS
        try:
            self._client = await asyncio.wait_for(asyncio.shield(opened), seconds)
        except TimeoutError:
            await self._shut()
            raise TimedOut(
                f"the MCP server {self.server.label} did not start within {seconds:g} s{self._ending}"
            ) from None
        except BaseException:
            await self._shut()
            raise

    async def _keep(self, opened: "asyncio.Future[Client]", close: asyncio.Event, ending: Ending) -> None:
        """Keeps the connection open. The same task must enter and leave it (a rule of anyio's cancel scopes)."""
        try:
            info = types.Implementation(name="interlingua", version=__version__)
            async with Client(
                self._transport(ending),
                read_timeout_seconds=self.timeout,
                message_handler=self._notified,
                elicitation_callback=self._elicited if self._elicit is not None else None,
                logging_callback=self._logged,
                log_level=LOG_LEVEL,
                client_info=info,
                # A server can ask during a call only on a connection with the handshake of versions before 2026-07-28;
                # servers of the official package that do (`Context.elicit`) fail on a newer one.
                mode="auto" if self._elicit is None else "legacy",
                cache=None,
            ) as client:
                setattr(client.session, "validate_tool_result", _unchecked)  # noqa: B010 - a method
                if not opened.done():
                    opened.set_result(client)
                await close.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # groups of anything that the transport raises
            ending.end(_first(error))
        finally:
            ending.end()
            if not opened.done():
                message = f"the MCP server {self.server.label} could not be reached{ending}"
                opened.set_exception(TransportError(message))
                opened.exception()

    async def _elicited(self, context: Any, params: Any) -> types.ElicitResult:
        """Passes a server's question to the user. Omitted fields get the defaults of the schema."""
        assert self._elicit is not None
        schema = getattr(params, "requested_schema", None)
        question = Elicitation(
            server=self.server.label,
            message=visible(params.message)[:MAX_QUESTION],
            schema=schema,
            url=getattr(params, "url", None),
        )
        try:
            answer = await self._elicit(question)
        except Exception as error:
            _log.warning("a question of the MCP server %s was not answered: %s", self.server.label, describe(error))
            # `cancel`: the user made no choice; `decline`: the user refused (client/elicitation, Response Actions).
            return types.ElicitResult(action="cancel")
        if answer is None or answer is False:
            return types.ElicitResult(action="decline")
        # A question with a URL has no form: the server learns the result by itself, and `accept` has no `content`
        # (client/elicitation, URL Mode).
        if schema is None:
            return types.ElicitResult(action="accept")
        given = answer if isinstance(answer, Mapping) else {}
        return types.ElicitResult(action="accept", content={**defaults_of(schema), **given})

    async def _logged(self, params: types.LoggingMessageNotificationParams) -> None:
        text = params.data if isinstance(params.data, str) else jsontext.compact(params.data)
        self._on_log(params.level, visible(f"{params.logger}: {text}" if params.logger else text)[:MAX_LOG])

    def _log(self, level: str, text: str) -> None:
        _log.log(_LEVELS.get(level, logging.INFO), "the MCP server %s: %s", self.server.label, text)

    async def _notified(self, message: Any) -> None:
        """Warns that the list of tools has changed since it was read."""
        if isinstance(message, types.ToolListChangedNotification) and not self._changed:
            self._changed = True
            _log.warning("the MCP server %s changed its tools; open it again to use the new list", self.server.label)

    async def _shut(self) -> None:
        began, self._client = self._client is not None, None
        task, self._connection_task = self._connection_task, None
        if task is None:
            return
        # The transport's own cleanup comes first, as it ends the program in order; the cancel is for one that hangs.
        self._close.set()
        await asyncio.wait({task}, timeout=SHUT_SECONDS if began else 0)
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _transport(self, ending: Ending) -> Transport:
        if isinstance(self.server, HttpServer):
            return _http_transport(self.server, self._max_bytes, self._authorize)
        return stdio_transport(self.server, ending, self._max_bytes)

    async def _answered(self, request: Any) -> Any:
        """Returns the response; raises our own errors for failures."""
        label = self.server.label
        try:
            return await request
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise TransportError(f"the MCP server {label} ended before it answered{self._ending}") from None
            if error.code == types.REQUEST_TIMEOUT:
                raise TimedOut(f"no response from the MCP server {label} within {self.timeout:g} s") from None
            # A server answers 404 to a session that it has ended; the client opens a new one (basic/transports, Session
            # Management, until 2025-11-25). The official package turns the 404 into this error.
            if error.code == types.INVALID_REQUEST and error.message == "Session terminated":
                raise _SessionLost(f"the MCP server {label} ended the session") from None
            raise TransportError(f"the MCP server {label} refused: {error.message}") from None
        except (ValueError, RuntimeError) as error:  # pydantic's errors are ValueErrors
            raise TransportError(f"the MCP server {label} sent an invalid response: {_short(error)}") from error


async def _unchecked(name: str, result: types.CallToolResult) -> None:
    """Replaces the validation of results against the server's output schema, whose patterns could take forever."""


def defaults_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the defaults of a form's fields (SEP-1034)."""
    fields = schema.get("properties")
    if not isinstance(fields, Mapping):
        return {}
    return {
        name: field["default"] for name, field in fields.items() if isinstance(field, Mapping) and "default" in field
    }


class _SessionLost(TransportError):
    """The server dropped the session, without processing the request."""


@contextlib.asynccontextmanager
async def _http_transport(server: HttpServer, max_bytes: int, authorize: Authorize | None) -> AsyncGenerator[Any, None]:
    timeout = httpx2.Timeout(30.0, read=None)  # the session has its own timeout
    # The limit counts received bytes, which says little of compressed ones: what a server compresses nevertheless is
    # decompressed before it is counted.
    headers = {"Accept-Encoding": "identity", **server.headers}
    has_key = any(name.lower() == "authorization" for name in headers)
    auth = None if has_key else provider(server.url, server.oauth, authorize)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth) as client:
        client.event_hooks = {"response": [_bounding(max_bytes)]}
        async with streamable_http_client(server.url, http_client=client, max_sse_event_size=max_bytes) as streams:
            yield streams


def _bounding(max_bytes: int) -> Any:
    """Limits the size of responses, decompressed. Events are limited one by one elsewhere."""

    async def bound(response: httpx2.Response) -> None:
        encoding = response.headers.pop("content-encoding", None)
        decompressor = Decompressor(encoding, 16 * max_bytes) if encoding and is_compressed(encoding) else None
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        if decompressor is not None or not is_stream:
            response.stream = _Bounded(response.stream, None if is_stream else max_bytes, decompressor)

    return bound


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, limit: int | None, decompressor: Decompressor | None) -> None:
        self._stream = stream
        self._limit = limit
        self._decompressor = decompressor

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        seen = 0
        async for chunk in self._stream:
            for piece in (chunk,) if self._decompressor is None else self._decompressed(chunk):
                seen += len(piece)
                if self._limit is not None and seen > self._limit:
                    raise httpx2.StreamError(f"the response exceeds {self._limit:,} bytes")
                yield piece
                if self._decompressor is not None:
                    await asyncio.sleep(0)  # a few bytes may decompress to many: yield, so that timeouts apply

    def _decompressed(self, chunk: bytes) -> Iterator[bytes]:
        assert self._decompressor is not None
        try:
            yield from self._decompressor.feed(chunk)
        except TransportError as error:
            raise httpx2.StreamError(str(error)) from None

    async def aclose(self) -> None:
        await self._stream.aclose()


def _first(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return _short(error)


def _short(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 500 else f"{text[:500]}…"
