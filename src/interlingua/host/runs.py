"""Sub-agents: tasks, states, and messages between a sub-agent and the session that started it."""

import asyncio
import time
import uuid
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..connect.results import Result, Spent
from ..tools.fs import context_bridge, local_bridge
from ..tools.tool import MissingContext, ToolContext, untrusted
from ..values.abort import Abort
from ..values.canonical import SELF
from ..values.errors import ToolInputError
from ..values.messages import TextBlock, UserMessage

Status: TypeAlias = Literal["queued", "running", "done", "failed", "killed", "timeout", "paused"]

SPAWN = "sessions_spawn"
TIMEOUT = "timeout"
_LARGEST_ATTACHMENTS = 5_000_000


class Spawning(Struct, frozen=True, kw_only=True):
    """Limits of sub-agents: depth, children per session, concurrent runs, and seconds."""

    depth: int = 1
    children: int = 5
    concurrent: int = 8
    seconds: float | None = None


class Task(Struct, frozen=True, kw_only=True):
    """The task of a sub-agent. Without `seconds` the host's limit applies; 0 is none."""

    text: str
    label: str | None = None
    agent_id: str | None = None
    model: str | None = None
    thinking: str | None = None
    cwd: str | None = None
    seconds: float | None = None
    mode: Literal["run", "session"] = "run"
    cleanup: Literal["keep", "delete"] = "keep"
    sandbox: Literal["inherit", "require"] = "inherit"
    context: Literal["isolated", "fork"] = "isolated"
    attachments: tuple[tuple[str, bytes], ...] = ()  # names and data of files
    mount: str | None = None


class AgentRun:
    """A sub-agent's run: its task, its state and its result."""

    def __init__(self, task: Task, key: str, parent: str | None, depth: int) -> None:
        self.id = str(uuid.uuid4())
        self.task = task
        self.key = key
        self.parent = parent
        self.depth = depth
        self.status: Status = "queued"
        self.created = time.time()
        self.started: float | None = None
        self.ended: float | None = None
        self.text = ""
        self.error: str | None = None
        self.spent = Spent()
        self.signal = Abort()
        self.work: asyncio.Task[None] | None = None

    @property
    def active(self) -> bool:
        return self.status in ("queued", "running")

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end up to the timeout; returns whether it has ended. Waiting never stops the run."""
        if self.work is not None and self.active:
            await asyncio.wait({self.work}, timeout=seconds)
        return not self.active

    def kill(self, reason: Any = None) -> None:
        """Stops it and its own sub-agents."""
        self.signal.abort(reason)


def conclude(run: AgentRun, result: Result) -> None:
    run.text, run.spent = result.text.strip(), result.spent
    run.status = "done" if result.reason == "done" else ended_by(run.signal) or "failed"
    if run.status != "done":
        run.error = f"it had {run.task.seconds or 'too few'} seconds" if run.status == "timeout" else why_ended(result)


def ended_by(signal: Abort) -> Status | None:
    if not signal.aborted:
        return None
    return "timeout" if signal.reason == TIMEOUT else "killed"


def why_ended(result: Result) -> str:
    if result.failure is not None:
        return str(result.failure)
    given = result.message.error_message if result.message is not None else None
    return given or f"the run ended: {result.reason}"


# --- messages ---------------------------------------------------------------------------------------------------------


def between(message: str, source: str | None, tool: str, run_id: str) -> UserMessage:
    """A message from one session to another. It has the user's role, and says that the user did not write it."""
    provenance = {"kind": "inter_session", "sourceTool": tool, "runId": run_id}
    if source is not None:
        provenance["sourceSessionKey"] = source
    given = f"[Message from the session {source}; the user did not write it.]\n{message}" if source else message
    text = message if tool in (SPAWN, "subagent") else given
    return UserMessage(
        content=(TextBlock(text=text),), timestamp=int(time.time() * 1000), extra={SELF: {"provenance": provenance}}
    )


def report(run: AgentRun) -> str:
    """Returns the message to a session about a sub-agent that has ended."""
    name = f"{run.task.label!r} " if run.task.label else ""
    took = (run.ended or 0) - (run.started or run.created)
    spent = f"{run.spent.tokens} tokens" + (f", ${run.spent.cost:.4f}" if run.spent.cost else "")
    ends = {"done": "is done", "timeout": "ran out of time"}
    head = (
        f"[The sub-agent {name}(run {run.id}, session {run.key}) {ends.get(run.status, 'failed')} after {took:.0f} s, "
        f"{spent}. The user did not write this, and has not seen it.]"
    )
    why = [f"Error: {run.error}"] if run.error else []
    body = [untrusted(run.text, "the sub-agent")] if run.text else ["(no output)"] if not why else []
    return "\n".join((head, *why, *body))


# --- where it works ---------------------------------------------------------------------------------------------------


def moved(context: ToolContext, cwd: str) -> ToolContext:
    """Returns the context in a directory below its own."""
    return replace(context, root=cwd, workspace_dir=cwd, bridge=local_bridge(cwd))


async def inside(context: ToolContext, cwd: str) -> str:
    """Returns the real path of the child's directory; it must be inside the parent's."""
    root = context.root or context.workspace_dir
    locate = getattr(context.bridge, "locate", None) if context.bridge is not None else None
    if context.bridge is None and root is not None:
        locate = local_bridge(root).locate
    if root is None or locate is None:
        raise ToolInputError("cwd: no local files available; leave it out")
    place = Path(root) / await locate(cwd)
    if not place.is_dir():
        raise ToolInputError(f"cwd: {cwd[:200]!r} is not a directory")
    return str(place)


async def stored(context: ToolContext, task: Task, run_id: str) -> list[str]:
    """Writes the attachments where the child can read them; returns their paths."""
    if not task.attachments:
        return []
    try:
        bridge = context_bridge(context)
    except MissingContext:
        raise ToolInputError("attachments: no local files available; put the text into the task") from None
    if sum(len(data) for _, data in task.attachments) > _LARGEST_ATTACHMENTS:
        raise ToolInputError(f"attachments: more than {_LARGEST_ATTACHMENTS} bytes in total")
    folder = (task.mount or f"attachments/{run_id[:8]}").rstrip("/")
    for name, data in task.attachments:
        await bridge.write_bytes(f"{folder}/{name}", data)
    return [f"{folder}/{name}" for name, _ in task.attachments]
