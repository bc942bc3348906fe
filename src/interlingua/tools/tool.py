"""What a tool is: a name, words for the model, a JSON Schema for its arguments, and a coroutine that runs it."""

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


_ARGUMENTS = ("tool_call_id", "params", "signal", "on_update")


class Tool(Struct, frozen=True, kw_only=True):
    """A tool that a model may call. `sequential` keeps it from running beside the other calls of its batch.

    `execute` may leave out `signal` and `on_update`, or `on_update` alone, and may return its result without a
    coroutine; whoever calls it passes all four and awaits what can be awaited.
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
    """A tool as it is, or made of a mapping or an object that has at least `name` and `execute`; None for others."""
    if isinstance(value, Tool):
        return value
    if isinstance(value, type) or not callable(attribute(value, "execute")):
        return None
    fields = attributes(value, ("name", "description", "parameters", "execute", "label"))
    if not isinstance(fields.get("name"), str) or not fields["name"]:
        return None
    # Anything truthy restricts the tool, under either name: what was meant as a lock must not be lost as a typo.
    locked = {name: bool(attribute(value, name)) for name in ("owner_only", "sequential")}
    return Tool(**{"description": "", "parameters": {"type": "object", "properties": {}}} | fields | locked)


def tool_of(value: Any) -> Tool:
    """As `as_tool`; raises `FormatError` for what is no tool."""
    found = as_tool(value)
    if found is None:
        raise FormatError(f"{value!r} is no tool; give a Tool, or a mapping or object with name and execute")
    return found


class FsStat(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a bridge knows of a path."""

    is_file: bool
    is_directory: bool
    size: int
    mtime_ms: float


@runtime_checkable
class FsBridge(Protocol):
    """A file system for tools. Paths are relative to the bridge's root, with `/` between the parts.

    `write_file` makes the directories above; `stat` gives None where nothing is; a directory's name ends in `/`. One
    that also has `read_bytes(path)` and `write_bytes(path, data)` can hold files that are not UTF-8 text.
    """

    async def read_file(self, path: str) -> str: ...
    async def write_file(self, path: str, content: str) -> None: ...
    async def stat(self, path: str) -> FsStat | None: ...
    async def readdir(self, path: str) -> list[str]: ...
    async def unlink(self, path: str) -> None: ...
    async def mkdir(self, path: str) -> None: ...


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
    canvas: Any = None

    @classmethod
    def of(cls, value: "ToolContext | Mapping[str, Any] | None") -> "ToolContext":
        """A context as it is, of a mapping with its fields in either spelling, or an empty one."""
        return cls() if value is None else struct_of(value, cls, "context")


ToolFactory: TypeAlias = Callable[[ToolContext], Any]
"""Makes a tool, several or none (None) for a context; each as `as_tool` takes it; it may be asynchronous."""

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
