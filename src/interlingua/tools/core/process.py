"""`process`: follows, feeds and ends the commands that `exec` left running in the background."""

import asyncio
import shlex
import time
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ...values.messages import TextBlock
from ..output import plain, whole_characters
from ..params import read_arguments, schema_of
from ..processes import ProcessSession, ProcessTable, process_table
from ..tool import MissingContext, Tool, ToolContext, ToolResult, ToolUpdateCallback
from .exec import SHOWN_BYTES, ending

LOG_LINES = 200
MAX_LOG_LINES = 2000
MAX_POLL_MS = 30_000
IDLE_SECONDS = 15.0

_KEYS = {
    "enter": "\r",
    "return": "\r",
    "tab": "\t",
    "escape": "\x1b",
    "esc": "\x1b",
    "space": " ",
    "bspace": "\x7f",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "insert": "\x1b[2~",
    "delete": "\x1b[3~",
    "dc": "\x1b[3~",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "s-tab": "\x1b[Z",
    "btab": "\x1b[Z",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f3": "\x1bOR",
    "f4": "\x1bOS",
    "f5": "\x1b[15~",
    "f6": "\x1b[17~",
    "f7": "\x1b[18~",
    "f8": "\x1b[19~",
    "f9": "\x1b[20~",
    "f10": "\x1b[21~",
    "f11": "\x1b[23~",
    "f12": "\x1b[24~",
}

Action = Literal["list", "poll", "log", "write", "submit", "send-keys", "paste", "kill", "clear", "remove"]


class ProcessArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    action: Annotated[
        Action,
        Meta(
            description="list; poll (new output and state); log (lines of the log); write (data to its input); submit "
            "(data and Enter); send-keys (keys of a terminal); paste (text into a terminal); kill; clear (forget a "
            "finished one, or all of them); remove (end it and forget it)."
        ),
    ]
    session_id: Annotated[str, Meta(description="Which command; exec names it. All but list and clear need it.")] = ""
    data: Annotated[str, Meta(description="For write and submit.")] = ""
    eof: Annotated[bool, Meta(description="With write: close the input afterwards.")] = False
    keys: Annotated[
        tuple[str, ...], Meta(description="For send-keys: names as Enter, Up, C-c, M-x, F1, or characters.")
    ] = ()
    text: Annotated[str, Meta(description="For paste.")] = ""
    bracketed: Annotated[bool, Meta(description="For paste: mark it as pasted, so that programs do not run it.")] = True
    offset: (
        Annotated[int, Meta(description="For log: first line, from 0; default: the last lines.", ge=0)] | UnsetType
    ) = UNSET
    limit: Annotated[int, Meta(description="For log: how many lines.", ge=1)] = LOG_LINES
    timeout: Annotated[
        int, Meta(description=f"For poll: milliseconds to wait for new output, at most {MAX_POLL_MS}.", ge=0)
    ] = 0


def process_tool(context: ToolContext) -> Tool:
    """The tool for one context; it sees only the commands of such contexts."""
    if context.root is None and context.workspace_dir is None:
        raise MissingContext("root")
    return Tool(
        name="process",
        label="process",
        description="Follow, feed and end the commands that exec runs in the background.",
        parameters=schema_of(ProcessArguments),
        execute=_Processes(process_table(context)),
    )


class _Processes:
    """The tool's `execute`, over one table."""

    def __init__(self, table: ProcessTable) -> None:
        self.table = table

    async def __call__(
        self,
        tool_call_id: str,
        params: dict[str, Any],
        signal: Abort | None = None,
        on_update: ToolUpdateCallback | None = None,
    ) -> ToolResult:
        arguments = read_arguments("process", params, ProcessArguments)
        if arguments.action == "list":
            return self._list()
        if arguments.action == "clear" and not arguments.session_id:
            return await self._clear_finished()
        if not arguments.session_id:
            raise ToolInputError(f"process: {arguments.action} needs sessionId; action list shows the sessions")
        session = self.table.get(arguments.session_id)
        if session is None:
            return _failed(f"no session {arguments.session_id}; action list shows all")
        return await self._act(session, arguments, signal)

    async def _act(self, session: ProcessSession, arguments: ProcessArguments, signal: Abort | None) -> ToolResult:
        actions: dict[Action, Callable[[], Awaitable[ToolResult]]] = {
            "poll": lambda: _poll(session, arguments, signal),
            "log": lambda: asyncio.to_thread(_log, session, arguments),
            "write": lambda: _write(session, arguments.data, eof=arguments.eof),
            "submit": lambda: _write(session, arguments.data + ("\r" if session.terminal else "\n")),
            "send-keys": lambda: _send_keys(session, arguments.keys),
            "paste": lambda: _paste(session, arguments),
            "kill": lambda: _kill(session),
            "clear": lambda: self._clear(session),
            "remove": lambda: self._remove(session),
        }
        return await actions[arguments.action]()

    def _list(self) -> ToolResult:
        sessions = self.table.sessions()
        lines = [
            f"{session.id}  {_state(session):<22} {session.seconds:>8.1f} s  {_name(session)}" for session in sessions
        ]
        return ToolResult(
            content=(TextBlock(text="\n".join(lines) or "No commands."),),
            details={"status": "completed", "sessions": [_facts(session) for session in sessions]},
        )

    async def _clear(self, session: ProcessSession) -> ToolResult:
        if session.exit is None:
            return _failed(f"session {session.id} is running: kill it first, or use remove")
        return await self._remove(session)

    async def _clear_finished(self) -> ToolResult:
        finished = [session for session in self.table.sessions() if session.exit is not None]
        for session in finished:
            await self.table.remove(session.id)
        return _done(f"Forgot {len(finished)} finished commands.", {"removed": [session.id for session in finished]})

    async def _remove(self, session: ProcessSession) -> ToolResult:
        await self.table.remove(session.id)
        return _done(f"Session {session.id} is forgotten.", {"sessionId": session.id})


async def _poll(session: ProcessSession, arguments: ProcessArguments, signal: Abort | None) -> ToolResult:
    end = time.monotonic() + min(arguments.timeout, MAX_POLL_MS) / 1000
    over, data, passed = _new_output(session)
    while not data and not over and time.monotonic() < end:
        if signal is not None and signal.aborted:
            return _failed("aborted while waiting; the command runs on")
        await session.wait(0.05)
        over, data, passed = _new_output(session)
    session.seen += passed + len(data)
    gap = f"[… {passed:,} bytes passed over; see action log …]\n" if passed else ""
    shown = plain(data).strip("\n")
    state = " ".join(ending(session)) or ("(exit code 0)" if over else f"({_state(session)})")
    return ToolResult(
        content=(TextBlock(text=f"{gap}{shown or '(no new output)'}\n\n{state}"),),
        details={**_facts(session), "output": shown, "passedOver": passed},
    )


def _new_output(session: ProcessSession) -> tuple[bool, bytes, int]:
    """Whether the command has ended, its new output in whole characters, and the number of skipped bytes."""
    over = session.exit is not None
    data, passed = session.output.since(session.seen, SHOWN_BYTES)
    return over, data if over else whole_characters(data), passed


def _log(session: ProcessSession, arguments: ProcessArguments) -> ToolResult:
    """Lines of the log; the end from memory if the disk limit was reached."""
    limit = min(arguments.limit, MAX_LOG_LINES)
    start = None if arguments.offset is UNSET else arguments.offset
    stored = sum(1 for _ in session.output.lines())
    if start is not None:
        lines = list(islice(session.output.lines(), start, start + limit))
    elif session.output.complete:
        lines = list(deque(session.output.lines(), maxlen=limit))
    else:
        lines = session.output.since(0, SHOWN_BYTES)[0].splitlines(keepends=True)[-limit:]
    first = stored - len(lines) if start is None else start
    shown, cut = _fitting_lines(lines, SHOWN_BYTES, from_end=start is None)
    notes = [f"[lines {first}–{first + len(lines) - 1} of {stored}]" if session.output.complete and lines else ""]
    if not session.output.complete:
        notes.append(f"[the log has {session.output.stored:,} of {session.output.total:,} bytes, {stored} lines]")
    if cut:
        notes.append(f"[{cut} of these lines left out: ask for fewer]")
    text = plain(b"".join(shown)).strip("\n")
    return ToolResult(
        content=(TextBlock(text="\n".join([text or "(no output)", *filter(None, notes)])),),
        details={**_facts(session), "totalLines": stored, "offset": first, "lines": len(shown)},
    )


def _fitting_lines(lines: list[bytes], budget: int, *, from_end: bool) -> tuple[list[bytes], int]:
    """The lines that fit the budget, from one end, and the number of the others; at least one, truncated if needed."""
    shown: list[bytes] = []
    for line in reversed(lines) if from_end else lines:
        if shown and budget < len(line):
            break
        shown.append(line[: max(budget, 0)])
        budget -= len(line)
    if from_end:
        shown.reverse()
    return shown, len(lines) - len(shown)


async def _write(session: ProcessSession, text: str, *, eof: bool = False) -> ToolResult:
    if not session.writable:
        return _failed(
            f"session {session.id} has ended"
            if session.exit is not None
            else f"the input of session {session.id} is closed: only commands started with background or pty have one"
        )
    data = text.encode("utf-8", "replace")
    written = await session.write(data)
    if written < len(data):
        return _failed(f"the command read only {written:,} of {len(data):,} bytes", {"sessionId": session.id})
    if eof:
        session.close_input()
    return _done(f"Wrote {written:,} bytes{' and closed the input' if eof else ''}.", _facts(session))


async def _send_keys(session: ProcessSession, keys: tuple[str, ...]) -> ToolResult:
    if not keys:
        raise ToolInputError('process: send-keys needs keys, such as ["C-c"] or ["Up", "Enter"]')
    if not session.terminal:
        return _failed("send-keys needs a terminal: start the command with pty: true; a pipe takes write and submit")
    return await _write(session, "".join(_key(key) for key in keys))


async def _paste(session: ProcessSession, arguments: ProcessArguments) -> ToolResult:
    if not arguments.text:
        raise ToolInputError("process: paste needs text")
    # The end marker inside the text would end the paste early, and the rest would be typed.
    text = arguments.text.replace("\x1b[201~", "")
    return await _write(session, f"\x1b[200~{text}\x1b[201~" if session.terminal and arguments.bracketed else text)


async def _kill(session: ProcessSession) -> ToolResult:
    if session.exit is not None:
        return _failed(f"session {session.id} has ended already")
    session.stop()
    if not await session.wait(20):
        return _failed(f"session {session.id} does not end", _facts(session))
    return _done(f"Session {session.id} and all it started was ended.", _facts(session))


def _key(name: str) -> str:
    """The bytes a terminal sends for a key: `C-c`, `M-x`, `Up`; a single character is itself."""
    if len(name) == 1:
        return name
    known = _KEYS.get(name.lower())
    if known is not None:
        return known
    prefix, _, rest = name.partition("-")
    if prefix in ("C", "^") and len(rest) == 1 and "@" <= rest.upper() <= "_":
        return chr(ord(rest.upper()) & 0x1F)
    if prefix == "M" and rest:
        return "\x1b" + _key(rest)
    raise ToolInputError(f"process: unknown key {name!r}; use write for text, and Enter, Up, C-c, M-x, F1 for keys")


def _name(session: ProcessSession) -> str:
    """The name of a command in a list: its start, on one line."""
    try:
        argv = shlex.split(session.command, comments=True)
    except ValueError:
        argv = session.command.split()
    name = plain(" ".join(argv).encode("utf-8", "replace")).replace("\n", " ")
    return name if len(name) <= 60 else f"{name[:59]}…"


def _state(session: ProcessSession) -> str:
    exit = session.exit
    if exit is None:
        idle = time.monotonic() - session.last_output >= IDLE_SECONDS
        return "running, waits for input?" if idle and session.writable else "running"
    return exit.reason or f"exit code {exit.code}"


def _facts(session: ProcessSession) -> dict[str, Any]:
    return {
        "status": session.status,
        "sessionId": session.id,
        "name": _name(session),
        "command": session.command,
        "pid": session.pid,
        "cwd": session.directory,
        "exitCode": None if session.exit is None else session.exit.code,
        "startedAt": round(session.started_at * 1000),
        "durationMs": round(session.seconds * 1000),
        "totalBytes": session.output.total,
        "logPath": str(session.output.path),
    }


def _done(text: str, details: dict[str, Any]) -> ToolResult:
    return ToolResult(content=(TextBlock(text=text),), details={"status": "completed", **details})


def _failed(text: str, details: dict[str, Any] | None = None) -> ToolResult:
    return ToolResult(
        content=(TextBlock(text=f"process: {text}"),), details={**(details or {}), "status": "failed"}, is_error=True
    )
