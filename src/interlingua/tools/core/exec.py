"""`exec`: runs a shell command in the workspace, and leaves no process behind."""

import asyncio
import os
import signal as signals
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ...values.abort import Abort
from ...values.errors import ToolAuthorizationError, ToolInputError
from ...values.messages import TextBlock
from ..access import home_below
from ..output import OutputBuffer, plain, whole_characters
from ..params import read_arguments, schema_of
from ..paths import name_bytes, name_text, root_bytes
from ..processes import Launch, ProcessSession, ProcessTable, process_table
from ..sandbox import HOME, LANDLOCK_ENV, Sandbox, SandboxStatus, requested, sandbox_status, sandboxed, scrubbed
from ..tool import NO_OUTPUT, MissingContext, Tool, ToolContext, ToolResult, ToolUpdateCallback, read_settings

SHOWN_BYTES = 32 * 1024
UPDATE_BYTES = 4 * 1024
UPDATE_SECONDS = 0.1
MAX_COMMAND_BYTES = 100_000  # Linux limits one argument to 128 KiB (MAX_ARG_STRLEN, execve(2))
MAX_TIMEOUT = 7 * 24 * 3600.0

_REASONS = {
    "timeout": "timeout after {seconds:.0f} s: the command and all it started was ended",
    "killed": "ended on request, with all it started",
    "processes": "ended: it started too many processes",
    "lost": "the command killed its supervisor; what could be found of it was ended",
}
_SHELLS = (("/bin/bash", "--noprofile", "--norc", "-c"), ("/usr/bin/bash", "--noprofile", "--norc", "-c"))


class ExecSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings of `exec`.

    `sandbox`: `auto` uses bubblewrap or Landlock if one works, `required` refuses without, `off` uses neither.
    `network`, `read_only`, `writable`: what a sandboxed command may access beside its root.
    `env`: names or patterns of further variables that commands inherit; see `sandbox.scrubbed`.
    `timeout_sec` is the default timeout of a foreground command, `background_timeout_sec` that of a command which moved
    to the background after `yield_ms`. `memory_mb` is the limit of each process (0: none), `tmp_mb` that of each
    temporary directory of the sandbox.
    """

    sandbox: Literal["auto", "required", "off"] = "auto"
    network: bool = False
    read_only: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout_sec: float = 120.0
    background_timeout_sec: float = 1800.0
    yield_ms: int = 10_000
    grace_sec: float = 2.0
    max_processes: int = 1024
    memory_mb: int = 4096
    tmp_mb: int = 1024
    log_bytes: int = 64 * 1024 * 1024


class ExecArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="The shell command, run by bash (else sh) without login files.")]
    workdir: Annotated[str, Meta(description="Directory to run in, inside the root; default: the workspace.")] = ""
    env: Annotated[dict[str, str], Meta(description="Further environment variables.")] = {}
    timeout: (
        Annotated[float, Meta(description="Seconds until the command and all it started is ended.", gt=0)] | UnsetType
    ) = UNSET
    background: Annotated[bool, Meta(description="Return at once; follow it with the process tool.")] = False
    yield_ms: (
        Annotated[
            int,
            Meta(description="Milliseconds until the command continues in the background; 0: wait for its end.", ge=0),
        ]
        | UnsetType
    ) = UNSET
    pty: Annotated[bool, Meta(description="Give it a terminal, for programs that insist on one.")] = False


def exec_tool(context: ToolContext) -> Tool | None:
    """The tool for one context; None on systems without POSIX processes."""
    if os.name != "posix":
        return None
    root = context.root or context.workspace_dir
    if root is None:
        raise MissingContext("root")
    runner = _Runner(root, context.workspace_dir or root, _settings(context), process_table(context))
    return Tool(
        name="exec",
        label="exec",
        description=_description(runner.settings, runner.status),
        parameters=schema_of(ExecArguments),
        execute=runner,
    )


def _settings(context: ToolContext) -> ExecSettings:
    settings = read_settings("exec", ExecSettings, context)
    if context.sandboxed is not None:
        settings = msgspec.structs.replace(settings, sandbox="required" if context.sandboxed else "off")
    return settings


def _description(settings: ExecSettings, status: SandboxStatus) -> str:
    network = "with network" if settings.network else "without network"
    place = (
        f"Commands are {status.reason}: only the root is writable, {network}."
        if status.available
        else f"Commands are {status.reason}."
    )
    return (
        "Run a shell command. Output is stdout and stderr together. A command that runs longer than yieldMs "
        f"(default {settings.yield_ms}) continues in the background: follow it with the process tool, by sessionId. "
        "Start servers with background: true; what a command leaves running with & is ended when the command ends. "
        f"Without a timeout, a foreground command may take {settings.timeout_sec:g} s (yieldMs: 0), one that went to "
        f"the background {settings.background_timeout_sec:g} s, a background one any time. {place}"
    )


class _Runner:
    """The tool's `execute` for one context."""

    def __init__(self, root: str, workspace: str, settings: ExecSettings, table: ProcessTable) -> None:
        self.root = name_text(os.path.realpath(root_bytes(root)))
        self.workspace = name_text(os.path.realpath(root_bytes(workspace)))
        self.settings = settings
        self.table = table
        self.status = self._sandbox()

    def _sandbox(self) -> SandboxStatus:
        if self.settings.sandbox == "off":
            return SandboxStatus(available=False, reason="not sandboxed: switched off")
        if self.root == "/":
            return SandboxStatus(available=False, reason="not sandboxed: the root is /, so that nothing lies outside")
        status = sandbox_status()
        places = (self.root, *self.settings.read_only, *self.settings.writable)
        if status.available and status.program is None and any(home_below(place) is not None for place in places):
            # Landlock permits whole directories and takes nothing out of them.
            reason = "not sandboxed: Interlingua's own folder is inside the root, and only bubblewrap can hide it"
            return SandboxStatus(available=False, reason=reason)
        return status

    async def __call__(
        self,
        tool_call_id: str,
        params: dict[str, Any],
        signal: Abort | None = None,
        on_update: ToolUpdateCallback | None = None,
    ) -> ToolResult:
        arguments = read_arguments("exec", params, ExecArguments)
        _check_command(arguments.command)
        if signal is not None and signal.aborted:
            raise ToolInputError("exec: aborted before the command was started")
        session = self._start(arguments)
        if arguments.background:
            while session.pid is None and not await session.wait(0.02):
                pass
            return self._running(session) if session.exit is None else self._result(session)
        yield_ms = self._yield_ms(arguments)
        foreground_seconds = min(max(yield_ms, 10), 120_000) / 1000 if yield_ms else None
        try:
            await _follow(session, foreground_seconds, signal, self._reporter(session, on_update))
        except asyncio.CancelledError:
            session.stop()
            raise
        if session.exit is None and signal is not None and signal.aborted:
            session.stop()
            await session.wait(self.settings.grace_sec + 15)
            return self._result(session, aborted=True)
        return self._running(session) if session.exit is None else self._result(session)

    def _start(self, arguments: ExecArguments) -> ProcessSession:
        env = self._environment(arguments)
        directory, descriptor = self._directory(arguments.workdir)
        try:
            return self.table.start(
                Launch(
                    command=arguments.command,
                    argv=self._argv(arguments.command, directory),
                    directory=directory,
                    descriptor=descriptor,
                    env=env,
                    input="pty" if arguments.pty else "pipe" if arguments.background else "none",
                    timeout=self._timeout(arguments),
                    grace=self.settings.grace_sec,
                    max_processes=self.settings.max_processes,
                    memory_bytes=self.settings.memory_mb << 20,
                    log_bytes=self.settings.log_bytes,
                )
            )
        except OSError as error:
            raise ToolInputError(f"exec: the command could not be started: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _timeout(self, arguments: ExecArguments) -> float:
        if arguments.timeout is not UNSET:
            return min(arguments.timeout, MAX_TIMEOUT)
        if arguments.background:
            return 0
        return self.settings.background_timeout_sec if self._yield_ms(arguments) else self.settings.timeout_sec

    def _yield_ms(self, arguments: ExecArguments) -> int:
        return self.settings.yield_ms if arguments.yield_ms is UNSET else arguments.yield_ms

    def _argv(self, command: str, directory: str) -> list[str]:
        shell = next((list(shell) for shell in _SHELLS if Path(shell[0]).exists()), ["/bin/sh", "-c"])
        argv = [*shell, command]
        if self.status.available:
            sandbox = Sandbox(
                root=self.root,
                network=self.settings.network,
                read_only=self.settings.read_only,
                writable=self.settings.writable,
                tmp_bytes=self.settings.tmp_mb << 20,
                temporary=self._temporary(),
            )
            return sandboxed(argv, self.status.program, sandbox, directory)
        if self.settings.sandbox == "required":
            raise ToolAuthorizationError(
                f"exec: this context requires sandboxed commands, but they would be {self.status.reason}.  "
                "Remove the cause (apt install bubblewrap) or allow commands outside a sandbox"
            )
        return argv

    def _environment(self, arguments: ExecArguments) -> dict[str, str]:
        inherited = scrubbed(os.environ, self.settings.env).items()
        env = {name: name_text(os.fsencode(value)) for name, value in inherited} | requested(arguments.env)
        env["TERM"] = "xterm-256color" if arguments.pty else "dumb"
        if self.status.available:
            temporary = self._temporary()
            env |= {"HOME": temporary or HOME, "TMPDIR": temporary or "/tmp"} | (LANDLOCK_ENV if temporary else {})
        return env

    def _temporary(self) -> str | None:
        """The temporary directory of commands that share /tmp with the rest of the machine: under Landlock alone."""
        return None if self.status.program is not None else str(self.table.temporary())

    def _directory(self, workdir: str) -> tuple[str, int]:
        """The directory to run in, as an open descriptor, so that it is the checked one even if its path changes."""
        path = os.path.join(self.workspace, workdir)  # noqa: PTH118 - Path would swallow a trailing ".."
        if "\0" in path:
            raise ToolInputError("exec: workdir contains a NUL character")
        try:
            descriptor = os.open(os.path.realpath(name_bytes(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolInputError(f"exec: workdir {workdir or path}: {error.strerror}") from None
        real = _opened(descriptor, path)
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            os.close(descriptor)
            raise ToolAuthorizationError(f"exec: workdir {workdir or path} is outside the root {self.root}")
        return real, descriptor

    def _reporter(self, session: ProcessSession, on_update: ToolUpdateCallback | None) -> Callable[[], None] | None:
        if on_update is None:
            return None

        def report() -> None:
            tail, _ = session.output.since(0, UPDATE_BYTES)
            on_update(ToolResult(content=(TextBlock(text=plain(tail)),), details=self._details(session, "running")))

        return report

    def _details(self, session: ProcessSession, status: str) -> dict[str, Any]:
        return {
            "status": status,
            "sessionId": session.id,
            "pid": session.pid,
            "cwd": session.directory,
            "startedAt": round(session.started_at * 1000),
            "durationMs": round(session.seconds * 1000),
            "totalBytes": session.output.total,
            "logPath": str(session.output.path),
            "sandbox": self.status.reason,
        }

    def _running(self, session: ProcessSession) -> ToolResult:
        tail, passed = session.output.since(0, UPDATE_BYTES)
        tail = whole_characters(tail)
        session.seen = 0 if passed else len(tail)
        shown = plain(tail).strip("\n")
        text = (
            f"The command is running in the background (session {session.id}, pid {session.pid}). "
            f"Follow it with the process tool: poll, log, write or kill, with sessionId {session.id}."
        )
        return ToolResult(
            content=(TextBlock(text=f"{shown}\n\n{text}" if shown else text),),
            details={**self._details(session, "running"), "tail": shown},
        )

    def _result(self, session: ProcessSession, *, aborted: bool = False) -> ToolResult:
        shown, truncated = shown_output(session.output, session.id)
        notes = ["(aborted: the command and all it started was ended)"] if aborted else ending(session)
        exit = session.exit
        failed = aborted or session.status != "completed"
        details = {
            **self._details(session, "failed" if failed else "completed"),
            "exitCode": None if exit is None else exit.code,
            "timedOut": exit is not None and exit.reason == "timeout",
            "aborted": aborted,
            "leftBehind": 0 if exit is None else exit.left,
            "aggregated": shown,
            "truncated": truncated,
            "logComplete": session.output.complete,
        }
        text = "\n\n".join([shown or NO_OUTPUT, *notes])
        return ToolResult(content=(TextBlock(text=text),), details=details, is_error=failed)


async def _follow(
    session: ProcessSession, foreground_seconds: float | None, signal: Abort | None, report: Callable[[], None] | None
) -> None:
    """Waits for the end, the signal, or the timeout; reports new output at most ten times a second."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(woken.set)

    forget = [session.ended.on_abort(wake)]
    if signal is not None:
        forget.append(signal.on_abort(wake))
    end = float("inf") if foreground_seconds is None else time.monotonic() + foreground_seconds
    reported = 0
    try:
        while not woken.is_set() and (left := end - time.monotonic()) > 0:
            pause = min(left, UPDATE_SECONDS) if report else (None if foreground_seconds is None else left)
            try:
                await asyncio.wait_for(woken.wait(), pause)
            except TimeoutError:
                if report and session.output.total > reported:
                    reported = session.output.total
                    report()
    finally:
        for call in forget:
            call()


def shown_output(output: OutputBuffer, session_id: str) -> tuple[str, bool]:
    """The output for the model: all of it, or both ends and where to read the rest."""
    head, between, tail = output.ends(SHOWN_BYTES)
    if not between:
        return plain(head).strip("\n"), False
    where = f"read it with process, action log, sessionId {session_id}"
    if not output.complete:
        why = output.problem or f"limit of {output.limit:,} bytes reached"
        where += f"; the log has only the first {output.stored:,} of {output.total:,} bytes ({why})"
    gap = f"[… {between:,} bytes left out; {where} …]"
    return f"{plain(head)}\n{gap}\n{plain(tail)}".strip("\n"), True


def ending(session: ProcessSession) -> list[str]:
    """How a finished command ended, as text for the model; empty if it succeeded."""
    exit = session.exit
    if exit is None:
        return []
    notes = []
    if exit.reason:
        notes.append(f"({_REASONS[exit.reason].format(seconds=session.seconds)})")
    elif exit.code is not None and exit.code < 0:
        notes.append(f"(ended by {_signal_name(-exit.code)})")
    elif exit.code:
        notes.append(f"(exit code {exit.code})")
    if exit.left:
        notes.append(
            f"({exit.left} process{'es' * (exit.left > 1)} left running by the command ended with it; "
            "to keep one running, start it with background: true, without &)"
        )
    return notes


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _check_command(command: str) -> None:
    if not command.strip():
        raise ToolInputError("exec: command must not be empty")
    if "\0" in command:
        raise ToolInputError("exec: command contains a NUL character; remove it")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise ToolInputError("exec: unpaired surrogate in command; send valid Unicode") from None
    if size > MAX_COMMAND_BYTES:
        raise ToolInputError(
            f"exec: command has {size:,} bytes, more than {MAX_COMMAND_BYTES:,}; write it to a file and run that"
        )


def _opened(descriptor: int, path: str) -> str:
    """The real path of an open directory."""
    try:
        return name_text(os.readlink(f"/proc/self/fd/{descriptor}".encode()))  # noqa: PTH115
    except OSError:
        return name_text(os.path.realpath(name_bytes(path)))
