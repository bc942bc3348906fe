"""The Agent Client Protocol over standard input and output: editors as front ends of the agent. Requires the extra
`acp`.

Each session of the editor is an agent with a session in the home folder, in the folder that the editor names. Approval
requests go to the editor's user. See https://agentclientprotocol.com.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import acp
from acp import helpers, schema
from msgspec.structs import replace

from .._version import __version__
from ..agent import Agent, Compaction
from ..plugins.installed import Installed, open_installed
from ..sessions import Session, SessionError
from ..sessions.files import FileStore
from ..tools.catalog import discover_core_tools
from ..tools.policy import ALLOW, ASK, EDIT, READ_ONLY, ApprovalRequest
from ..tools.registry import ToolRegistry
from ..tools.tool import as_result
from ..values.errors import FormatError, InterlinguaError
from ..values.events import (
    AgentEvent,
    MessageUpdate,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    text_of,
)
from ..values.text import visible
from . import approval
from .chat import ChatSettings, session_model, tool_context
from .opening import AGENT, RECENT, named
from .rendering import main_argument, one_line

SYSTEM = (
    "You are a helpful agent in an editor. You work in the folder {root}; your tools see nothing outside it. "
    "Say briefly what you do and what the result is. Answers are shown as Markdown."
)
# The modes that the editor's user can choose; the ids are the options of `interlingua chat`.
MODES = {
    "ask": ("Ask", "Ask before calls that change something.", ASK),
    "edit": ("Edit", "Allow changes of files in the folder; ask before commands.", EDIT),
    "read-only": ("Read only", "Allow reading only.", READ_ONLY),
    "yes": ("Allow all", "Allow every call without asking.", ALLOW),
}
# The kinds of calls that editors have icons for.
KINDS: dict[str, Any] = {
    "read": "read",
    "ls": "read",
    "write": "edit",
    "edit": "edit",
    "apply_patch": "edit",
    "grep": "search",
    "find": "search",
    "memory_search": "search",
    "web_search": "search",
    "exec": "execute",
    "process": "execute",
    "web_fetch": "fetch",
}
OPTIONS = (
    schema.PermissionOption(option_id="once", name="Allow", kind="allow_once"),
    schema.PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
    schema.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
)
MAX_TEXT = 100_000  # maximum characters of a result in the editor


class EditorSession:
    """One conversation of an editor: an agent in a folder, and what is installed."""

    def __init__(
        self, client: Any, session: Session, settings: ChatSettings, mode: str, stack: contextlib.AsyncExitStack
    ) -> None:
        self.session = session
        self.settings = settings
        self.mode = mode
        self.stack = stack
        self.permissions = approval.Permissions(settings.policy)
        self._client = client
        context = tool_context(settings)
        registry = ToolRegistry(on_warning=lambda message: None)
        discover_core_tools(registry)
        own = registry.resolve_by_profile(settings.profile, context) if settings.profile != "none" else []
        self.agent: Agent[Any] = Agent(
            settings.model or session_model(session) or settings.usual_model(),
            [*own, *settings.added],
            system=settings.system or session.base.system or SYSTEM.format(root=settings.root),
            session=session,
            context=context,
            policy=self.permissions,
            approve=self._approve,
            compaction=Compaction(),
            **settings.options,
        )
        self.agent.subscribe(self._show)
        settings.hooks.attach(self.agent)

    async def prompt(self, message: UserMessage) -> schema.PromptResponse:
        result = await self.agent.prompt(message)
        if result.reason == "error":
            raise acp.RequestError(-32603, str(result.failure or self.agent.state.error or "the run failed"))
        last = result.message
        if result.reason == "done" and last is not None and last.stop_reason == "length":
            return schema.PromptResponse(stop_reason="max_tokens")
        known = {"done": "end_turn", "aborted": "cancelled"}
        return schema.PromptResponse(stop_reason=known.get(result.reason, "max_turn_requests"))  # type: ignore[arg-type]

    def set_mode(self, mode: str) -> None:
        self.mode = mode
        self.permissions = approval.Permissions(replace(MODES[mode][2], root=str(self.settings.root)))
        self.agent.policy = self.permissions

    async def replay(self) -> None:
        """Sends the conversation so far to the editor."""
        for message in [entry.message for entry in self.session.path()]:
            for update in _replayed(message):
                await self.update(update)

    async def update(self, update: Any) -> None:
        await self._client.session_update(self.session.id, update)

    async def close(self) -> None:
        self.agent.abort("closed")
        await self.agent.wait_for_idle()
        self.session.close()
        await self.stack.aclose()

    async def _show(self, event: AgentEvent) -> None:
        match event:
            case MessageUpdate(assistant_message_event=TextDelta(delta=delta)):
                await self.update(helpers.update_agent_message_text(delta))
            case MessageUpdate(assistant_message_event=ThinkingDelta(delta=delta)):
                await self.update(helpers.update_agent_thought_text(delta))
            case ToolExecutionStart():
                await self.update(_started(event.tool_call_id, event.tool_name, event.args, "in_progress"))
            case ToolExecutionUpdate():
                shown = _shown(as_result(event.partial_result).content)
                await self.update(helpers.update_tool_call(event.tool_call_id, status="in_progress", content=shown))
            case ToolExecutionEnd():
                status: Any = "failed" if event.is_error else "completed"
                shown = _shown(as_result(event.result).content)
                await self.update(helpers.update_tool_call(event.tool_call_id, status=status, content=shown))

    async def _approve(self, request: ApprovalRequest) -> bool:
        """Asks the editor's user. An `always` allows similar calls for the rest of this session."""
        if self.permissions.decide(request.tool_name, request.params).action == "allow":
            return True  # allowed by an `always` meanwhile
        rule = approval.standing_rule(request.tool_name, request.params)
        call = schema.ToolCallUpdate(
            tool_call_id=request.tool_call_id,
            title=_title(request.tool_name, request.params),
            kind=KINDS.get(request.tool_name, "other"),
            status="pending",
            raw_input=request.params,
        )
        options = [option for option in OPTIONS if rule is not None or option.option_id != "always"]
        answer = await self._client.request_permission(self.session.id, call, options)
        chosen = getattr(answer.outcome, "option_id", None)
        if chosen == "always" and rule is not None:
            self.permissions.allow(rule)
        return chosen in ("once", "always")


class EditorAgent:
    """The agent side of the protocol: sessions by id. `settings` are those of the command line, for every session."""

    def __init__(
        self, settings: ChatSettings, mode: str, paths: Sequence[Path] = (), servers: Sequence[str] | None = None
    ) -> None:
        self._settings = settings
        self._mode = mode
        self._paths = tuple(paths)
        self._servers = servers
        self._client: Any = None
        self._sessions: dict[str, EditorSession] = {}

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **_: Any
    ) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=True, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(), close=schema.SessionCloseCapabilities()
                ),
            ),
            agent_info=schema.Implementation(name="interlingua", title="Interlingua", version=__version__),
            auth_methods=[],
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Nothing to do: keys are those of `interlingua auth`."""
        return schema.AuthenticateResponse()

    async def new_session(
        self, cwd: str, additional_directories: Any = None, mcp_servers: Any = None, **_: Any
    ) -> schema.NewSessionResponse:
        made = await self._open(cwd, mcp_servers, lambda: Session.open(agent=AGENT))
        return schema.NewSessionResponse(session_id=made.session.id, modes=_modes(made.mode))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> schema.LoadSessionResponse:
        if session_id in self._sessions:
            await self._sessions.pop(session_id).close()
        made = await self._open(cwd, mcp_servers, lambda: Session.open(named(session_id), agent=AGENT, create=False))
        await made.replay()
        return schema.LoadSessionResponse(modes=_modes(made.mode))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        found = [info for info in await asyncio.to_thread(FileStore().sessions, AGENT) if info.messages][:RECENT]
        place = cwd or str(Path.cwd())
        return schema.ListSessionsResponse(
            sessions=[schema.SessionInfo(session_id=info.id, cwd=place, title=info.title) for info in found]
        )

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        if mode_id not in MODES:
            raise _refused(f"unknown mode {mode_id!r}; valid modes: {', '.join(MODES)}")
        self._session(session_id).set_mode(mode_id)
        return schema.SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        session = self._session(session_id)
        if session.agent.running:
            raise _refused("the session is already running; cancel it first, or wait")
        content = tuple(map(_block, prompt))
        if not content:
            raise _refused("empty prompt; send text")
        try:
            return await session.prompt(UserMessage(content=content))
        except InterlinguaError as error:
            raise acp.RequestError(-32603, str(error)) from None

    async def cancel(self, session_id: str, **_: Any) -> None:
        if session_id in self._sessions:
            self._sessions[session_id].agent.abort("cancelled by the editor")

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        self._session(session_id)
        await self._sessions.pop(session_id).close()
        return schema.CloseSessionResponse()

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **_: Any) -> Any:
        raise _refused(f"unknown option {config_id!r}; this agent has no options")

    async def fork_session(self, session_id: str, cwd: str, **_: Any) -> Any:
        raise acp.RequestError.method_not_found("session/fork")

    async def resume_session(self, session_id: str, cwd: str, **_: Any) -> Any:
        raise acp.RequestError.method_not_found("session/resume")

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignores unknown extensions, as the protocol requires."""

    async def close(self) -> None:
        while self._sessions:
            await self._sessions.popitem()[1].close()

    def _session(self, id: str) -> EditorSession:
        if id not in self._sessions:
            raise _refused(f"no session {id!r}; create or load it first")
        return self._sessions[id]

    async def _open(self, cwd: str, servers: Any, opened: Callable[[], Session]) -> EditorSession:
        root = Path(cwd)
        if not root.is_absolute() or not root.is_dir():
            raise _refused(f"not a folder: {cwd}; give the absolute path of one")
        policy = replace(MODES[self._mode][2], root=str(root))
        settings = replace(self._settings, root=root, policy=policy)
        async with contextlib.AsyncExitStack() as stack:
            try:
                found = await stack.enter_async_context(self._installed())
                added = [*await found.resolve(tool_context(settings)), *await _editors_tools(stack, servers or ())]
                settings = replace(settings, added=tuple(added), hooks=found.hooks)
                session = await asyncio.to_thread(opened)
                made = EditorSession(self._client, session, settings, self._mode, stack.pop_all())
            except (InterlinguaError, SessionError, OSError) as error:
                raise _refused(str(error)) from None
        self._sessions[session.id] = made
        return made

    def _installed(self) -> "contextlib.AbstractAsyncContextManager[Installed]":
        if self._servers == ():
            return contextlib.nullcontext(Installed.nothing())
        return open_installed(paths=self._paths, servers=self._servers)


def _in_one_line(record: logging.LogRecord) -> bool:
    """Logs the exception of a record in its line. The package logs tracebacks for lines that are no JSON."""
    if record.exc_info and record.exc_info[1] is not None:
        record.msg, record.args = f"{record.getMessage()}: {record.exc_info[1]}", ()
        record.exc_info = None
    return True


async def run(agent: EditorAgent) -> None:
    """Serves one editor, until it closes the streams."""
    try:
        # The package counts `session/close` as unstable; editors send it to agents that announce it.
        logging.getLogger().addFilter(_in_one_line)
        await acp.run_agent(agent, use_unstable_protocol=True)  # type: ignore[arg-type]
    finally:
        await agent.close()


def _refused(message: str) -> acp.RequestError:
    return acp.RequestError(-32602, message)


def _modes(current: str) -> schema.SessionModeState:
    modes = [schema.SessionMode(id=id, name=name, description=about) for id, (name, about, _) in MODES.items()]
    return schema.SessionModeState(current_mode_id=current, available_modes=modes)


async def _editors_tools(stack: contextlib.AsyncExitStack, servers: Sequence[Any]) -> list[Any]:
    """Returns the tools of the editor's MCP servers. A failure is an error: the user configured the server."""
    tools: list[Any] = []
    for server in servers:
        from ..mcp import mcp_tools

        given: Mapping[str, Any]
        if isinstance(server, schema.McpServerStdio):
            given = {"command": server.command, "args": server.args, "env": {one.name: one.value for one in server.env}}
        elif isinstance(server, schema.HttpMcpServer):
            given = {"url": server.url, "headers": {one.name: one.value for one in server.headers}}
        else:
            raise FormatError(f"the MCP server {server.name} needs an unsupported transport; use stdio or HTTP")
        taken = {tool.name for tool in tools}
        tools += await stack.enter_async_context(mcp_tools(given, prefix=server.name, taken=taken))
    return tools


def _block(block: Any) -> Any:
    """Converts a block of the editor's prompt. An embedded file is a document; a link stays a link."""
    match block:
        case schema.TextContentBlock():
            return TextBlock(text=block.text)
        case schema.ImageContentBlock():
            return ImageBlock(data=block.data, mime_type=block.mime_type)
        case schema.AudioContentBlock():
            return AudioBlock(data=block.data, mime_type=block.mime_type)
        case schema.ResourceContentBlock():
            return TextBlock(text=f"[{block.title or block.name}]({block.uri})")
        case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as resource):
            return TextBlock(text=f'<file path="{_path(resource.uri)}">\n{resource.text}\n</file>')
        case schema.EmbeddedResourceContentBlock(resource=schema.BlobResourceContents() as resource):
            kind = resource.mime_type or "application/octet-stream"
            if kind.startswith("image/"):
                return ImageBlock(data=resource.blob, mime_type=kind)
            return DocumentBlock(data=resource.blob, mime_type=kind, title=Path(_path(resource.uri)).name)
    raise _refused(f"unsupported block: {type(block).__name__}")


def _path(uri: str) -> str:
    found = urlsplit(uri)
    return unquote(found.path) if found.scheme == "file" else uri


def _title(name: str, params: Any) -> str:
    """Returns the title of a call: the tool, and its file or command."""
    return one_line(f"{name} {main_argument(params) or ''}".strip())[:200]


def _started(id: str, name: str, params: Any, status: Any) -> schema.ToolCallStart:
    return helpers.start_tool_call(
        id, _title(name, params), kind=KINDS.get(name, "other"), status=status, raw_input=params
    )


def _shown(content: Any) -> list[Any]:
    """Converts a result's blocks for the editor."""
    blocks: list[Any] = []
    for block in blocks_of(content):
        if isinstance(block, TextBlock):
            blocks.append(helpers.text_block(visible(block.text)[:MAX_TEXT]))
        elif isinstance(block, ImageBlock) and block.data is not None:
            blocks.append(helpers.image_block(block.data, block.mime_type or "image/png"))
    return [helpers.tool_content(block) for block in blocks]


def _replayed(message: AgentMessage) -> list[Any]:
    """Converts a message of the session to updates for an editor that loads it."""
    if isinstance(message, UserMessage):
        return [helpers.update_user_message_text(text_of(message.content))]
    if isinstance(message, ToolResultMessage):
        status: Any = "failed" if message.is_error else "completed"
        return [helpers.update_tool_call(message.tool_call_id, status=status, content=_shown(message.content))]
    if not isinstance(message, AssistantMessage):
        return []
    updates: list[Any] = []
    for block in blocks_of(message.content):
        match block:
            case TextBlock() if block.text:
                updates.append(helpers.update_agent_message_text(block.text))
            case ThinkingBlock() if block.thinking:
                updates.append(helpers.update_agent_thought_text(block.thinking))
            case ToolCall():
                updates.append(_started(block.id, block.name, block.arguments, "pending"))
    return updates
