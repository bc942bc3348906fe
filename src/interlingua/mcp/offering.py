"""Resources and prompts that our server offers beside tools, and blocks in MCP's form."""

import asyncio
import base64
import contextlib
import inspect
import mimetypes
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from msgspec import Struct

from ..conversion.resizing import sniff
from ..values.errors import FormatError, InterlinguaError
from ..values.interop import describe
from ..values.messages import AssistantMessage, AudioBlock, ImageBlock, Message, TextBlock, UserMessage, blocks_of
from ..values.regular import read_regular

RESOURCE_NOT_FOUND = -32002  # MCP specification, server/resources, Error Handling
CHOICES = 100  # maximum values of a completion (server/utilities/completion)
MAX_FILE = 16 * 1024 * 1024
MAX_SUBSCRIPTIONS = 1024
POLL_INTERVAL = 1.0  # seconds between checks of subscribed resources

Read: TypeAlias = Callable[..., Any]


class Resource(Struct, frozen=True, kw_only=True):
    """A readable resource: `read` is its text, its bytes, or a function that returns them, perhaps asynchronous.

    A `uri` with variables in braces (`notes://{name}`) is a template: `read` receives their values by name. `version`
    returns a value that changes with the content, for subscribed clients; by default, the content is compared.
    """

    uri: str
    name: str
    read: str | bytes | Read
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    version: Read | None = None

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def match(self, uri: str) -> dict[str, str] | None:
        """Returns the values of the variables if the URI belongs to this resource."""
        if not self.is_template:
            return {} if uri == self.uri else None
        # RFC 6570, 3.2.2: a value is percent-encoded, `/` included, so it has no slash.
        parts = re.split(r"\{(\w+)\}", self.uri)
        pattern = "".join(f"(?P<{part}>[^/]+)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
        found = re.fullmatch(pattern, uri)
        return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}


class Argument(Struct, frozen=True, kw_only=True):
    """An argument of a prompt; `choices` are offered as completions."""

    name: str
    description: str | None = None
    required: bool = True
    choices: tuple[str, ...] = ()


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt for the client's user. `render` receives the arguments by name and returns a text, a message, or
    several.
    """

    name: str
    render: Callable[..., Any]
    title: str | None = None
    description: str | None = None
    arguments: tuple[Argument, ...] = ()


# --- resources --------------------------------------------------------------------------------------------------------


def resource_handlers(resources: Sequence[Resource]) -> dict[str, Any]:
    """The handlers of the official server; none if there is nothing to read."""
    if not resources:
        return {}
    watch = _Subscriptions(resources)

    async def listed(context: Any, params: Any) -> types.ListResourcesResult:
        # Templates have a list of their own (server/resources, Resource Templates).
        fixed = [one for one in resources if not one.is_template]
        return types.ListResourcesResult(resources=[types.Resource(uri=one.uri, **_about(one)) for one in fixed])

    async def templates(context: Any, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=one.uri, **_about(one)) for one in resources if one.is_template
            ]
        )

    async def read(context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        one, values = _found(resources, uri)
        return types.ReadResourceResult(contents=[await _contents(one, uri, values)])

    return {
        "on_list_resources": listed,
        "on_list_resource_templates": templates,
        "on_read_resource": read,
        "on_subscribe_resource": watch.subscribe,
        "on_unsubscribe_resource": watch.unsubscribe,
        "on_subscriptions_listen": watch.listen,
    }


def _found(resources: Sequence[Resource], uri: str) -> tuple[Resource, dict[str, str]]:
    for one in resources:
        values = one.match(uri)
        if values is not None:
            return one, values
    raise MCPError(RESOURCE_NOT_FOUND, f"no resource {uri}", {"uri": uri})


class _Subscriptions:
    """Notifies clients of changes of subscribed resources, which are polled.

    Until 2025-11-25 a client subscribes to a URI (server/resources, Subscriptions); since 2026-07-28 it listens on a
    stream of its own, which the official `ListenHandler` serves.
    """

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = resources
        self._sessions: dict[str, list[ServerSession]] = {}
        self._listened: Counter[str] = Counter()
        self._versions: dict[str, Any] = {}
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._looking: asyncio.Task[None] | None = None

    async def subscribe(self, context: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
        uri = str(params.uri)
        _found(self._resources, uri)
        others = self._other_sessions(uri, context.session)
        if sum(map(len, self._sessions.values())) >= MAX_SUBSCRIPTIONS:
            raise MCPError(types.INTERNAL_ERROR, f"more than {MAX_SUBSCRIPTIONS} subscriptions; unsubscribe from some")
        self._sessions[uri] = [*others, context.session]
        await self._look_at(uri)
        return types.EmptyResult()

    async def unsubscribe(self, context: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        uri = str(params.uri)
        self._sessions[uri] = self._other_sessions(uri, context.session)
        return types.EmptyResult()

    def _other_sessions(self, uri: str, session: ServerSession) -> list[ServerSession]:
        """The sessions of other clients. A session is created per request; its client's parameters stay the same."""
        return [one for one in self._sessions.get(uri, ()) if one.client_params is not session.client_params]

    async def listen(
        self, context: Any, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        uris = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        known = [uri for uri in uris if any(one.match(uri) is not None for one in self._resources)]
        self._listened.update(known)
        try:
            for uri in known:
                await self._look_at(uri)
            return await self._streams(context, params)
        finally:
            self._listened.subtract(known)

    async def _look_at(self, uri: str) -> None:
        """Records the version of a resource, so that later changes are reported."""
        if uri not in self._versions:
            self._versions[uri] = await self._version(uri)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while uris := [uri for uri in self._versions if self._sessions.get(uri) or self._listened[uri] > 0]:
            self._versions = {uri: self._versions[uri] for uri in uris}
            await asyncio.sleep(POLL_INTERVAL)
            for uri in uris:
                version = await self._version(uri)
                if version != self._versions[uri]:
                    self._versions[uri] = version
                    await self._notify(uri)
        self._versions = {}

    async def _version(self, uri: str) -> Any:
        one, values = _found(self._resources, uri)
        try:
            if one.version is not None:
                return await _awaited(one.version(**values))
            return await _awaited(one.read(**values)) if callable(one.read) else None
        except (InterlinguaError, OSError) as error:  # a deleted file has changed, too
            return describe(error)

    async def _notify(self, uri: str) -> None:
        for session in self._sessions.get(uri, ()):
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, MCPError):  # it is gone
                await session.send_resource_updated(uri)
        await self._bus.publish(ResourceUpdated(uri=uri))


def _about(one: Resource) -> dict[str, Any]:
    return {"name": one.name, "title": one.title, "description": one.description, "mime_type": one.mime_type}


async def _contents(one: Resource, uri: str, values: dict[str, str]) -> Any:
    try:
        given = await _awaited(one.read(**values) if callable(one.read) else one.read)
    except (InterlinguaError, OSError) as error:
        raise MCPError(types.INTERNAL_ERROR, f"{uri} cannot be read: {describe(error)}") from None
    if isinstance(given, bytes):
        # A content is either `text` or base64 in `blob` (server/resources, Resource Contents).
        blob = base64.b64encode(given).decode()
        return types.BlobResourceContents(uri=uri, mime_type=one.mime_type or sniff(blob), blob=blob)
    return types.TextResourceContents(uri=uri, mime_type=one.mime_type or "text/plain", text=str(given))


def file_resources(root: Path, patterns: Iterable[str]) -> list[Resource]:
    """Returns the files below `root` that match glob patterns, read on demand. Links out of the root are omitted."""
    root = root.resolve()
    found: dict[Path, Resource] = {}
    for pattern in patterns:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise FormatError(f"{pattern}: not a pattern of files below {root}", "--resources")
        for path in sorted(root.glob(pattern)):
            inside = path.resolve()
            if inside.is_file() and inside.is_relative_to(root):
                found.setdefault(inside, _file_resource(inside, root))
    return list(found.values())


def _file_resource(path: Path, root: Path) -> Resource:
    def read() -> str | bytes:
        # Since it was listed, the file may have been replaced by a link out of the root.
        if path.resolve() != path:
            raise FormatError(f"{path.name} has become a link")
        data = read_regular(path)
        if len(data) > MAX_FILE:
            raise FormatError(f"{path.name} has more than {MAX_FILE:,} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    def version() -> tuple[int, ...]:
        state = path.stat()
        return state.st_ino, state.st_size, state.st_mtime_ns

    kind, name = mimetypes.guess_type(path.name)[0], path.relative_to(root).as_posix()
    return Resource(uri=path.as_uri(), name=name, read=read, mime_type=kind, version=version)


# --- prompts ----------------------------------------------------------------------------------------------------------


def prompt_handlers(prompts: Sequence[Prompt]) -> dict[str, Any]:
    """The handlers of the official server; none if there are no prompts."""
    if not prompts:
        return {}
    by_name = {prompt.name: prompt for prompt in prompts}

    async def listed(context: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_offer(prompt) for prompt in prompts])

    async def get(context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = by_name.get(params.name)
        if prompt is None:
            # -32602, also for missing arguments (server/prompts, Error Handling).
            raise MCPError(types.INVALID_PARAMS, f"no prompt {params.name!r}; valid prompts: {', '.join(by_name)}")
        given = params.arguments or {}
        known = {argument.name for argument in prompt.arguments}
        missing = [one.name for one in prompt.arguments if one.required and one.name not in given]
        if missing:
            raise MCPError(types.INVALID_PARAMS, f"the prompt {prompt.name} needs {', '.join(missing)}")
        made = await _awaited(prompt.render(**{name: value for name, value in given.items() if name in known}))
        return types.GetPromptResult(description=prompt.description, messages=_messages(made))

    async def complete(context: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
        prompt = by_name.get(params.ref.name) if isinstance(params.ref, types.PromptReference) else None
        argument = next((one for one in prompt.arguments if one.name == params.argument.name), None) if prompt else None
        values = [one for one in (argument.choices if argument else ()) if one.startswith(params.argument.value)]
        return types.CompleteResult(
            completion=types.Completion(values=values[:CHOICES], total=len(values), has_more=len(values) > CHOICES)
        )

    return {"on_list_prompts": listed, "on_get_prompt": get, "on_completion": complete}


def _offer(prompt: Prompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=one.name, description=one.description, required=one.required)
        for one in prompt.arguments
    ]
    return types.Prompt(name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments)


def _messages(made: Any) -> list[types.PromptMessage]:
    """Returns the messages of a prompt: MCP has one block in each."""
    messages: Sequence[Message | str] = [made] if isinstance(made, str | UserMessage | AssistantMessage) else [*made]
    found = []
    for message in messages:
        is_text = isinstance(message, str)
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = (TextBlock(text=str(message)),) if is_text else blocks_of(message.content)  # type: ignore[union-attr]
        found += [types.PromptMessage(role=role, content=content_of(block)) for block in blocks]  # type: ignore[arg-type]
    return found


_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


def file_prompts(folder: Path) -> list[Prompt]:
    """Returns the Markdown and text files of a folder as prompts; `{{name}}` in one is an argument."""
    if not folder.is_dir():
        raise FormatError(f"{folder}: no such folder", "--prompts")
    return [
        _file_prompt(path) for path in sorted(folder.iterdir()) if path.suffix in (".md", ".txt") and path.is_file()
    ]


def _file_prompt(path: Path) -> Prompt:
    text = read_regular(path).decode(errors="replace")
    names = dict.fromkeys(_VARIABLE.findall(text))
    title = next((line.lstrip("# ").strip() for line in text.splitlines() if line.strip()), path.stem)

    def render(**given: str) -> str:
        return _VARIABLE.sub(lambda found: given.get(found[1], found[0]), text)

    return Prompt(
        name=path.stem,
        description=title[:200],
        arguments=tuple(Argument(name=name) for name in names),
        render=render,
    )


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


# --- blocks -----------------------------------------------------------------------------------------------------------


def content_of(block: Any) -> types.ContentBlock:
    """Returns a block in MCP form. Data without a type is typed by its bytes; a bare URL becomes text."""
    if isinstance(block, TextBlock):
        return types.TextContent(text=block.text)
    kind = block.mime_type or sniff(block.data or "") or "application/octet-stream"
    if block.data is not None and isinstance(block, ImageBlock):
        return types.ImageContent(data=block.data, mime_type=kind)
    if block.data is not None and isinstance(block, AudioBlock):
        return types.AudioContent(data=block.data, mime_type=kind)
    uri = getattr(block, "url", None) or f"document:{quote(getattr(block, 'title', None) or 'document')}"
    # MCP has no documents: they are embedded resources, which need a URI (server/tools, Embedded Resources).
    if block.data is not None:
        return types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, mime_type=kind, blob=block.data))
    text = getattr(block, "text", None)
    if text is not None:
        contents = types.TextResourceContents(uri=uri, mime_type=block.mime_type, text=text)
        return types.EmbeddedResource(resource=contents)
    name = type(block).__name__.removesuffix("Block").lower()
    return types.TextContent(text=f"[{name}: {block.url or block.file_id}]")
