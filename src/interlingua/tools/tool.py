"""Tool types: name, description, JSON Schema of the arguments, and a coroutine that runs the tool."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct
from msgspec.structs import force_setattr

from ..values.abort import Abort
from ..values.errors import FormatError
from ..values.interop import attribute, attributes, struct_of, with_arguments
from ..values.messages import AudioBlock, DocumentBlock, ImageBlock, TextBlock

ContentBlock: TypeAlias = TextBlock | ImageBlock | AudioBlock | DocumentBlock


class ToolResult(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A tool's result. The model reads `content`; `details` is for programs and never shown to it.

    `terminate` stops the agent after this batch of calls, if every result of the batch has it.
    """

    content: tuple[ContentBlock, ...] = ()
    details: Any = None
    is_error: bool = False
    terminate: bool = False

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))


ToolUpdateCallback: TypeAlias = Callable[[ToolResult], object]
"""Called with partial results while a tool runs; the final result replaces them."""


class Execute(Protocol):
    """Runs a tool with validated arguments; raise `ToolInputError` (or any exception) to report a failure."""

    def __call__(
        self,
        tool_call_id: str,
        params: dict[str, Any],
        signal: Abort | None = None,
        on_update: ToolUpdateCallback | None = None,
    ) -> Awaitable[ToolResult]: ...


ToolRun: TypeAlias = Callable[[dict[str, Any], Abort | None], Awaitable[ToolResult]]
_ARGUMENTS = ("tool_call_id", "params", "signal", "on_update")


def as_execute(run: ToolRun) -> Execute:
    """The `execute` of a tool that needs only its arguments and the signal."""

    async def execute(
        tool_call_id: str,
        params: dict[str, Any],
        signal: Abort | None = None,
        on_update: ToolUpdateCallback | None = None,
    ) -> ToolResult:
        return await run(params, signal)

    return execute


class Tool(Struct, frozen=True, kw_only=True):
    """A tool that a model may call. A `sequential` tool does not run in parallel with other calls of its batch.

    `execute` may omit the parameters `signal` and `on_update`, or only `on_update`, and may be synchronous; callers
    pass all four arguments and await the result if it is awaitable.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    execute: Execute
    label: str | None = None
    owner_only: bool = False
    sequential: bool = False

    def __post_init__(self) -> None:
        execute = with_arguments(self.execute, _ARGUMENTS, least=2, what=f"execute of the tool {self.name}")
        if execute is not self.execute:
            force_setattr(self, "execute", execute)


def as_tool(value: Any) -> Tool | None:
    """The tool, or one built from a mapping or object with `name` and `execute`; None for any other value."""
    if isinstance(value, Tool):
        return value
    if isinstance(value, type) or not callable(attribute(value, "execute")):
        return None
    fields = attributes(value, ("name", "description", "parameters", "execute", "label"))
    if not isinstance(fields.get("name"), str) or not fields["name"]:
        return None
    # Any truthy value restricts the tool, in either spelling: a restriction must not be lost to a typo.
    locked = {name: bool(attribute(value, name)) for name in ("owner_only", "sequential")}
    return Tool(**{"description": "", "parameters": {"type": "object", "properties": {}}} | fields | locked)


def tool_of(value: Any) -> Tool:
    """`as_tool`, but raises `FormatError` instead of returning None."""
    found = as_tool(value)
    if found is None:
        raise FormatError(f"not a tool: {value!r}; give a Tool, or a mapping or object with name and execute")
    return found


class FsStat(Struct, frozen=True, kw_only=True, rename="camel"):
    """File metadata."""

    is_file: bool
    is_directory: bool
    size: int
    mtime_ms: float


@runtime_checkable
class FsBridge(Protocol):
    """A file system for tools. Paths are relative to the bridge's root, with `/` between the parts.

    `write_file` creates parent directories; `stat` returns None for a missing path; names of directories end in `/`. A
    bridge that also has `read_bytes(path)` and `write_bytes(path, data)` supports files that are not UTF-8 text.
    """

    async def read_file(self, path: str) -> str: ...
    async def write_file(self, path: str, content: str) -> None: ...
    async def stat(self, path: str) -> FsStat | None: ...
    async def readdir(self, path: str) -> list[str]: ...
    async def unlink(self, path: str) -> None: ...
    async def mkdir(self, path: str) -> None: ...


class ToolContext(Struct, frozen=True, kw_only=True):
    """The context for tool factories. All fields are optional; a factory that misses one is skipped and reported.

    `complete` calls a model, like `interlingua.complete`; `sessions` and `channel` are the agent's own.
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
    canvas: Any = None

    @classmethod
    def of(cls, value: "ToolContext | Mapping[str, Any] | None") -> "ToolContext":
        """The context, or one built from a mapping (either spelling of the fields), or an empty one."""
        return cls() if value is None else struct_of(value, cls, "context")


ToolFactory: TypeAlias = Callable[[ToolContext], Any]
"""Returns a tool, a list of tools, or None for a context; anything that `as_tool` accepts; may be asynchronous."""

ToolProfile: TypeAlias = Literal["minimal", "coding", "messaging", "full"]


class ToolMeta(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A tool's metadata. `needs` names the required context fields."""

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
    """Raised by a factory that cannot create its tool; `fields` are the missing context fields."""

    def __init__(self, *fields: str) -> None:
        super().__init__(f"the context has no {' and no '.join(fields)}")
        self.fields = fields


def needed(context: ToolContext, *fields: str) -> None:
    """Raises `MissingContext` for those of `fields` that the context does not have."""
    missing = [name for name in fields if getattr(context, name) is None]
    if missing:
        raise MissingContext(*missing)
