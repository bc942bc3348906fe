"""The tools of MCP servers as Interlingua tools."""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import mcp_types as types
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ..conversion.resizing import sniff
from ..tools.calling import failure
from ..tools.decorator import tool
from ..tools.policy import core_tool_names
from ..tools.tool import ContentBlock, Execute, Tool, ToolResult, ToolUpdateCallback, untrusted, visible
from ..values import jsontext
from ..values.abort import Abort
from ..values.errors import TransportError
from ..values.messages import (
    AssistantMessage,
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    UserMessage,
)
from .connection import Connection, Elicit, OnLog
from .oauth import Authorize
from .stdio import Server, server_of

MAX_MESSAGE = 32 * 1024 * 1024
MAX_TEXT = 400_000  # maximum characters of a result for the model
MAX_DESCRIPTION = 8_000
MAX_LABEL = 200
TIMEOUT = 120.0
_BETWEEN_UPDATES = 0.05

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def mcp_tools(
    server: Server | str | Mapping[str, Any],
    *,
    prefix: str | None = None,
    taken: Collection[str] = (),
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    timeout: float = TIMEOUT,
    max_bytes: int = MAX_MESSAGE,
    trusted: bool = False,
    resources: bool = False,
    elicit: Elicit | None = None,
    on_log: OnLog | None = None,
    authorize: Authorize | None = None,
) -> AsyncGenerator["ServerTools", None]:
    """Returns the tools of a server, by name, within the context.

    `server` is a `StdioServer`, an `HttpServer`, a URL, or a mapping with `command` or `url`. Names get the `prefix`,
    if there is one; a name that is `taken`, or that of a core tool, is changed. `include` and `exclude` take the
    server's own names. `timeout` is the idle timeout of one call. Text from a server is untrusted and marked as such,
    like a web page, unless the server is `trusted`.

    With `resources`, a server that has any also gets the tools `list_resources` and `read_resource`. `elicit` answers
    the server's questions to the user, `on_log` receives the level and text of its log messages (default: `logging`),
    and `authorize` shows the user the URL of a login.
    """
    async with Connection(
        server_of(server), timeout=timeout, max_bytes=max_bytes, elicit=elicit, on_log=on_log, authorize=authorize
    ) as connection:
        listed = await connection.list_tools()
        selected = [tool for tool in listed if (include is None or tool.name in include) and tool.name not in exclude]
        tools = ServerTools(connection, trusted)
        tools += _tools(connection, selected, prefix, taken, trusted)
        if resources and include is None and await _has_resources(tools):
            tools += _resource_tools(tools, prefix, {*taken, *(tool.name for tool in tools)})
        yield tools


async def _has_resources(server: "ServerTools") -> bool:
    """Whether there is anything to read: the official package announces resources even for servers without any."""
    try:
        return bool(await server.resources())
    except TransportError as error:
        _log.warning("its resources are omitted: %s", error)
        return False


class ServerResource(Struct, frozen=True, kw_only=True):
    """A resource of a server; `is_template` if its `uri` has variables (RFC 6570)."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    is_template: bool = False


class ServerPrompt(Struct, frozen=True, kw_only=True):
    """A prompt of a server; `arguments` are names and whether they are required."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: dict[str, bool] = {}


class ServerTools(list[Tool]):
    """The tools of a server, and its resources and prompts."""

    def __init__(self, connection: Connection, trusted: bool) -> None:
        super().__init__()
        self._connection = connection
        self._trusted = trusted

    @property
    def instructions(self) -> str | None:
        """The server's usage instructions: untrusted text."""
        return _text(self._connection.instructions)

    async def resources(self) -> list[ServerResource]:
        """Returns the resources, and the resource templates."""
        plain = [_resource(one, str(one.uri)) for one in await self._connection.list_resources()]
        templates = await self._connection.list_resource_templates()
        return plain + [_resource(one, str(one.uri_template), is_template=True) for one in templates]

    async def read_resource(self, uri: str) -> tuple[ContentBlock, ...]:
        """Returns the contents of a resource, as blocks."""
        return self._cleaned(
            [
                TextBlock(text=one.text) if isinstance(one, types.TextResourceContents) else _file(one)
                for one in (await self._connection.read_resource(uri)).contents
            ]
        )

    async def prompts(self) -> list[ServerPrompt]:
        """Returns the prompts that the server offers to the user."""
        return [
            ServerPrompt(
                name=one.name,
                title=_text(one.title),
                description=_text(one.description),
                arguments={argument.name: bool(argument.required) for argument in one.arguments or ()},
            )
            for one in await self._connection.list_prompts()
        ]

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[Message]:
        """Returns the messages of a prompt. The user chose it, so they are not marked as untrusted."""
        found = await self._connection.get_prompt(name, dict(arguments or {}))
        return [_message(one) for one in found.messages]

    def _cleaned(self, blocks: list[ContentBlock]) -> tuple[ContentBlock, ...]:
        return tuple(_cleaned(block, self._trusted) for block in _bounded(blocks))


def _resource(one: Any, uri: str, *, is_template: bool = False) -> ServerResource:
    return ServerResource(
        uri=uri,
        name=visible(one.name),
        title=_text(one.title),
        description=_text(one.description),
        mime_type=one.mime_type,
        is_template=is_template,
    )


def _text(given: str | None) -> str | None:
    return None if given is None else visible(given)[:MAX_DESCRIPTION]


def _message(one: types.PromptMessage) -> Message:
    block: Any = _cleaned(_block(one.content), True)
    if one.role == "user":
        return UserMessage(content=(block,))
    # Two roles exist, and a message has one block (MCP specification, server/prompts).
    return AssistantMessage(content=(block,))


def _resource_tools(server: ServerTools, prefix: str | None, used: set[str]) -> list[Tool]:
    """The tools for resources: list them, and read one."""

    async def listed() -> list[dict[str, Any]]:
        return [to_builtins(one) for one in await server.resources()]

    async def read(uri: str) -> ToolResult:
        return ToolResult(content=await server.read_resource(uri))

    made: list[Tool] = []
    for name, about, function in (
        ("list_resources", "Lists the resources of the server: their addresses, and what is in them.", listed),
        ("read_resource", "Reads a resource of the server, by its address (`uri`).", read),
    ):
        own = _free(_plain(f"{prefix}_{name}" if prefix else name), {*used, *core_tool_names()})
        made.append(tool(name=own, description=about)(function))
    return made


def _tools(
    connection: Connection, listed: Iterable[types.Tool], prefix: str | None, taken: Collection[str], trusted: bool
) -> list[Tool]:
    used = {*taken, *core_tool_names()}
    made = []
    for one in sorted(listed, key=lambda one: one.name):
        name = _free(_plain(f"{prefix}_{one.name}" if prefix else one.name), used)
        used.add(name)
        made.append(
            Tool(
                name=name,
                label=visible(one.title or one.name)[:MAX_LABEL],
                description=visible(one.description or "")[:MAX_DESCRIPTION],
                parameters=_visible(one.input_schema),
                execute=_execute(connection, one.name, name, trusted),
            )
        )
    return made


def _visible(value: Any) -> Any:
    """Returns a value with all its texts sanitized: schemas are untrusted text of the server, too."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): _visible(item) for key, item in value.items()}
    return [_visible(item) for item in value] if isinstance(value, list) else value


def _plain(name: str) -> str:
    """Returns the name with only the characters that providers allow."""
    # MCP has these characters, and up to 128 of them (server/tools, Tool Names); OpenAI's limit is 64. A dot is
    # replaced for providers that refuse it when a request is adapted.
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64] or "tool"


def _free(name: str, used: Collection[str]) -> str:
    if name not in used:
        return name
    candidates = (f"mcp_{name}"[:64], *(f"{name[:60]}_{count}" for count in range(2, len(used) + 3)))
    return next(candidate for candidate in candidates if candidate not in used)


def _execute(connection: Connection, theirs: str, ours: str, trusted: bool) -> Execute:
    async def execute(
        tool_call_id: str,
        params: dict[str, Any],
        signal: Abort | None = None,
        on_update: ToolUpdateCallback | None = None,
    ) -> ToolResult:
        progress = _Progress(on_update) if on_update is not None else None
        calling = asyncio.ensure_future(connection.call(theirs, params, progress))
        loop = asyncio.get_running_loop()
        stop = partial(_cancel_once, calling)
        forget = signal.on_abort(lambda: loop.call_soon_threadsafe(stop)) if signal is not None else None
        try:
            await asyncio.wait({calling})
            return result_of(calling.result(), trusted=trusted)
        except TransportError as error:
            return failure(ours, str(error), 502)
        except asyncio.CancelledError:
            stop()
            if signal is None or not signal.aborted or not calling.done():
                raise
            return failure(ours, f"{ours} was stopped: {signal.reason or 'aborted'}", "aborted")
        finally:
            if forget is not None:
                forget()

    return execute


def _cancel_once(calling: "asyncio.Task[Any]") -> None:
    """Cancels a call once: a second cancel would interrupt the notification of the server."""
    if not calling.cancelling():
        calling.add_done_callback(lambda done: done.cancelled() or done.exception())
        calling.cancel()


class _Progress:
    """Forwards progress, rate-limited."""

    def __init__(self, callback: ToolUpdateCallback) -> None:
        self._callback = callback
        self._last = float("-inf")

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        now = time.monotonic()
        if now - self._last < _BETWEEN_UPDATES and progress != total:
            return
        self._last = now
        given = visible(message or "") or (f"{progress:g}" if total is None else f"{progress:g} of {total:g}")
        details = {"progress": progress, "total": total, "message": message}
        self._callback(ToolResult(content=(TextBlock(text=given[:MAX_TEXT]),), details=details))


# --- results ----------------------------------------------------------------------------------------------------------


def result_of(answer: types.CallToolResult, *, trusted: bool = False) -> ToolResult:
    """Converts a server's response to a result: text and media for the model, the rest in `details`.

    `details` holds `structuredContent`, if any, and under `content` the URIs and annotations of links and resources,
    which blocks cannot express, without the data.
    """
    blocks = [_block(block) for block in answer.content]
    structured = answer.structured_content
    # "A tool that returns structured content SHOULD also return the serialized JSON in a TextContent block" (MCP
    # specification, server/tools, Structured Content). Where a server did not, the model gets the JSON from here.
    if structured is not None and not any(isinstance(block, TextBlock) and block.text.strip() for block in blocks):
        blocks = [block for block in blocks if not isinstance(block, TextBlock)]
        blocks.insert(0, TextBlock(text=jsontext.write(structured).decode()))
    details: dict[str, Any] = {}
    if structured is not None:
        details["structuredContent"] = structured
    described = [_described(block) for block in answer.content if isinstance(block, _REFERRING)]
    if described:
        details["content"] = described
    content = tuple(_cleaned(block, trusted) for block in _bounded(blocks))
    # `isError` is a failure that the model sees and can correct; protocol errors are raised as `TransportError`
    # (server/tools, Error Handling).
    return ToolResult(content=content, details=details or None, is_error=answer.is_error)


def _cleaned(block: ContentBlock, trusted: bool) -> ContentBlock:
    """Returns a block without hidden characters; text of a server that is not trusted is marked."""
    if isinstance(block, TextBlock):
        text = visible(block.text)
        return TextBlock(text=text if trusted or not text.strip() else untrusted(text, "an MCP server"))
    return replace(block, title=visible(block.title)) if isinstance(block, DocumentBlock) and block.title else block


def _block(block: types.ContentBlock) -> ContentBlock:
    match block:
        case types.TextContent():
            return TextBlock(text=block.text)
        case types.ImageContent():
            # Media is base64 with a required MIME type (server/tools, Image Content, Audio Content).
            return ImageBlock(data=block.data, mime_type=block.mime_type)
        case types.AudioContent():
            return AudioBlock(data=block.data, mime_type=block.mime_type)
        # A link is not the content: it may be read with `resources/read`, or not be listed at all (server/tools,
        # Resource Links).
        case types.ResourceLink():
            about = f"\n{block.description}" if block.description else ""
            return TextBlock(text=f"[{block.title or block.name}: {block.uri}{_kind(block.mime_type)}]{about}")
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return TextBlock(text=f"[{resource.uri}]\n{resource.text}")
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            return _file(resource)
    raise AssertionError(f"unsupported block: {block!r}")


def _file(resource: types.BlobResourceContents) -> ContentBlock:
    """Returns a binary resource as a block, by its type, or by its bytes if the type is generic."""
    kind = resource.mime_type or ""
    if kind.partition(";")[0].strip().lower() in ("", "application/octet-stream"):
        kind = sniff(resource.blob) or kind
    if kind.startswith("image/"):
        return ImageBlock(data=resource.blob, mime_type=kind)
    if kind.startswith("audio/"):
        return AudioBlock(data=resource.blob, mime_type=kind)
    name = unquote(urlsplit(resource.uri).path).rstrip("/").rpartition("/")[2]
    return DocumentBlock(data=resource.blob, mime_type=kind or None, title=name or resource.uri)


_REFERRING = (types.ResourceLink, types.EmbeddedResource)


def _described(block: types.ContentBlock) -> dict[str, Any]:
    value: dict[str, Any] = block.model_dump(by_alias=True, mode="json", exclude_none=True)
    if isinstance(block, types.EmbeddedResource):
        value["resource"] = {key: item for key, item in value["resource"].items() if key not in ("text", "blob")}
    return value


def _kind(mime_type: str | None) -> str:
    return f" ({mime_type})" if mime_type else ""


def _bounded(blocks: list[ContentBlock]) -> tuple[ContentBlock, ...]:
    """Returns the blocks with their text limited, and a note for omitted text."""
    left = MAX_TEXT
    limited: list[ContentBlock] = []
    for block in blocks:
        if isinstance(block, TextBlock) and len(block.text) > left:
            cut = len(block.text) - left
            block = TextBlock(text=f"{block.text[:left]}\n[{cut:,} more characters were left out]")
        if isinstance(block, TextBlock):
            left = max(0, left - len(block.text))
        limited.append(block)
    return tuple(limited)
