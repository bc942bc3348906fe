"""What a tool is: a name, words for the model, a JSON Schema for its arguments, and a coroutine that runs it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from ..abort import Abort
from ..messages import AudioBlock, DocumentBlock, ImageBlock, TextBlock

ContentBlock: TypeAlias = TextBlock | ImageBlock | AudioBlock | DocumentBlock


class ToolResult(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a tool gives back. The model reads `content`; `details` is for programs and is never shown to it.

    `terminate` asks the agent to stop after this batch of calls, if every result of the batch asks so.
    """

    content: tuple[ContentBlock, ...] = ()
    details: Any = None
    is_error: bool = False
    terminate: bool = False

    @property
    def text(self) -> str:
        """The words of the result, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))


ToolUpdateCallback: TypeAlias = Callable[[ToolResult], object]
"""Called with a partial result while a tool runs; the final result is what counts."""


class Execute(Protocol):
    """Runs a tool. Arguments are valid when it is called; raise `ToolInputError` (or anything) to report a failure."""

    def __call__(
        self,
        tool_call_id: str,
        params: dict[str, Any],
        signal: Abort | None = None,
        on_update: ToolUpdateCallback | None = None,
    ) -> Awaitable[ToolResult]: ...


class Tool(Struct, frozen=True, kw_only=True):
    """A tool that a model may call. `sequential` keeps it from running beside the other calls of its batch."""

    name: str
    description: str
    parameters: dict[str, Any]
    execute: Execute
    label: str | None = None
    owner_only: bool = False
    sequential: bool = False


class FsStat(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a bridge knows of a path."""

    is_file: bool
    is_directory: bool
    size: int
    mtime_ms: float


@runtime_checkable
class FsBridge(Protocol):
    """A file system for tools. Paths are relative to the bridge's root, with `/` between the parts."""

    async def read_file(self, path: str) -> str: ...
    async def write_file(self, path: str, content: str) -> None: ...
    async def stat(self, path: str) -> FsStat | None: ...
    async def readdir(self, path: str) -> list[str]: ...
    async def unlink(self, path: str) -> None: ...
    async def mkdir(self, path: str) -> None: ...
    async def read_bytes(self, path: str) -> bytes: ...
    async def write_bytes(self, path: str, data: bytes) -> None: ...


class ToolContext(Struct, frozen=True, kw_only=True):
    """What tools are made from. All fields are optional; a factory that misses one is skipped, and the skip reported.

    `complete` asks a model, as `interlingua.complete` does; `sessions` and `channel` are the agent's own.
    """

    config: Mapping[str, Any] | None = None
    workspace_dir: str | None = None
    agent_dir: str | None = None
    agent_id: str | None = None
    session_key: str | None = None
    message_channel: str | None = None
    agent_account_id: str | None = None
    sandboxed: bool | None = None
    root: str | None = None
    bridge: FsBridge | None = None
    sender_is_owner: bool = True
    complete: Callable[..., Awaitable[Any]] | None = None
    sessions: Any = None
    channel: Any = None


ToolFactory: TypeAlias = Callable[[ToolContext], "Tool | list[Tool] | Awaitable[Tool | list[Tool] | None] | None"]

ToolProfile: TypeAlias = Literal["minimal", "coding", "messaging", "full"]


class ToolMeta(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A tool's place in the catalogue. `needs` names the context fields without which it cannot be made."""

    id: str
    label: str
    description: str
    section_id: str
    profiles: tuple[ToolProfile, ...]
    source: Literal["core", "plugin"]
    include_in_open_claw_group: bool = False
    plugin_id: str | None = None
    needs: tuple[str, ...] = ()


class ToolSection(Struct, frozen=True, kw_only=True):
    id: str
    label: str


class MissingContext(Exception):
    """Raised by a factory that cannot make its tool: names the context fields it misses."""

    def __init__(self, *fields: str) -> None:
        super().__init__(f"the context has no {' and no '.join(fields)}")
        self.fields = fields


def needed(context: ToolContext, *fields: str) -> None:
    """Raises `MissingContext` for those of `fields` that the context does not have."""
    missing = [name for name in fields if getattr(context, name) is None]
    if missing:
        raise MissingContext(*missing)
