"""A connection to a server, owned by its own task: reopened if it broke, closed when unused."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT

from .._version import __version__
from ..values.decompression import Decompressor, is_compressed
from ..values.errors import TimedOut, TransportError
from .stdio import Ending, HttpServer, Server, stdio_transport

CONNECT_SECONDS = 30.0
SHUT_SECONDS = 10.0
PAGES = 300
TOOLS = 1000

_log = logging.getLogger(__name__)


class Connection:
    """A client of one server. A call on a broken connection reopens it, once."""

    def __init__(self, server: Server, *, timeout: float, max_bytes: int) -> None:
        self.server = server
        self.timeout = timeout
        self._max_bytes = max_bytes
        self._client: Client | None = None
        self._ending = Ending()
        self._keeper: asyncio.Task[None] | None = None
        self._close = asyncio.Event()
        self._opening = asyncio.Lock()
        self._changed = False

    async def __aenter__(self) -> "Connection":
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shut()

    async def list_tools(self) -> list[types.Tool]:
        """The tools that the server offers, each once: a name that is listed again is the same tool.

        Cursors are opaque, and a listing ends with a page that has none (MCP specification, server/utilities,
        Pagination): one that comes back would never end.
        """
        client, label = await self._connected(), self.server.label
        found: dict[str, types.Tool] = {}
        seen: set[str] = set()
        cursor: str | None = None
        for number in range(1, PAGES + 1):
            page = await self._answered(client.list_tools(cursor=cursor, cache_mode="bypass"))
            for tool in page.tools:
                if found.setdefault(tool.name, tool) != tool:
                    _log.warning("the MCP server %s lists %r twice, differently; the first is used", label, tool.name)
            if len(found) > TOOLS:
                raise TransportError(f"the MCP server {label} offers more than {TOOLS} tools")
            cursor = page.next_cursor
            if cursor is None:
                return list(found.values())
            if cursor in seen:
                raise TransportError(
                    f"the MCP server {label} lists tools in a loop: page {number} leads back to the cursor {cursor!r}, "
                    "which was followed before; its listing must be repaired"
                )
            seen.add(cursor)
        raise TransportError(f"the MCP server {label} lists tools without an end: {PAGES} pages were read")

    async def call(self, name: str, arguments: dict[str, Any], progress: ProgressFnT | None) -> types.CallToolResult:
        """The response to a call. A call during which the connection broke is not repeated: it may have had effects.

        The result is not checked against the tool's output schema: a server's patterns could take forever.
        """
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))
        for attempt in (1, 2):
            client, ending = await self._connected(), self._ending
            try:
                answer: types.CallToolResult = await self._answered(
                    client.session.send_request(request, types.CallToolResult, self.timeout, None, progress)
                )
            except _SessionLost:
                if attempt == 2:
                    raise
                ending.end("the session was ended")  # the one that was used: another call may have opened a new one
            else:
                return answer
        raise AssertionError("unreachable")

    # --- the connection task ---

    async def _connected(self) -> Client:
        async with self._opening:
            if self._client is None or self._ending.over or self._keeper is None or self._keeper.done():
                await self._shut()
                await self._open()
        assert self._client is not None
        return self._client

    async def _open(self) -> None:
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._close = asyncio.Event()
        self._ending = Ending()
        self._keeper = asyncio.create_task(self._keep(opened, self._close, self._ending))
        try:
            self._client = await asyncio.wait_for(asyncio.shield(opened), CONNECT_SECONDS)
        except TimeoutError:
            await self._shut()
            raise TimedOut(
                f"the MCP server {self.server.label} did not start within {CONNECT_SECONDS:g} s{self._ending}"
            ) from None
        except BaseException:
            await self._shut()
            raise

    async def _keep(self, opened: "asyncio.Future[Client]", close: asyncio.Event, ending: Ending) -> None:
        """Keeps the connection open. One task must enter and leave it (a rule of anyio's cancel scopes)."""
        try:
            info = types.Implementation(name="interlingua", version=__version__)
            async with Client(
                self._transport(ending),
                read_timeout_seconds=self.timeout,
                message_handler=self._notified,
                client_info=info,
                cache=None,
            ) as client:
                if not opened.done():
                    opened.set_result(client)
                await close.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # groups of whatever the transport raises
            ending.end(_first(error))
        finally:
            ending.end()
            if not opened.done():
                message = f"the MCP server {self.server.label} could not be reached{ending}"
                opened.set_exception(TransportError(message))
                opened.exception()

    async def _notified(self, message: Any) -> None:
        """Warns that the list of tools has changed since it was read."""
        if isinstance(message, types.ToolListChangedNotification) and not self._changed:
            self._changed = True
            _log.warning("the MCP server %s changed its tools; open it again to use the new list", self.server.label)

    async def _shut(self) -> None:
        began, self._client = self._client is not None, None
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        self._close.set()
        await asyncio.wait({keeper}, timeout=SHUT_SECONDS if began else 0)
        if not keeper.done():
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper

    def _transport(self, ending: Ending) -> Transport:
        if isinstance(self.server, HttpServer):
            return _http_transport(self.server, self._max_bytes)
        return stdio_transport(self.server, ending, self._max_bytes)

    async def _answered(self, request: Any) -> Any:
        """The response; raises our errors for failures."""
        label = self.server.label
        try:
            return await request
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise TransportError(f"the MCP server {label} ended before it answered{self._ending}") from None
            if error.code == types.REQUEST_TIMEOUT:
                raise TimedOut(f"no response from the MCP server {label} within {self.timeout:g} s") from None
            if error.code == types.INVALID_REQUEST and error.message == "Session terminated":
                raise _SessionLost(f"the MCP server {label} ended the session") from None
            raise TransportError(f"the MCP server {label} refused: {error.message}") from None
        except (ValueError, RuntimeError) as error:  # pydantic's errors are ValueErrors
            raise TransportError(f"the MCP server {label} answered what MCP does not allow: {_short(error)}") from error


class _SessionLost(TransportError):
    """The server has dropped the session, without processing the request."""


@contextlib.asynccontextmanager
async def _http_transport(server: HttpServer, max_bytes: int) -> AsyncGenerator[Any, None]:
    timeout = httpx2.Timeout(30.0, read=None)  # the session has its own clock
    headers = {"Accept-Encoding": "identity", **server.headers}
    async with httpx2.AsyncClient(headers=headers, timeout=timeout) as client:
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
                    await asyncio.sleep(0)  # a few bytes may stand for many: let timeouts count

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
