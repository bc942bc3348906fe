"""Running commands: one supervisor and one thread each, in tables that outlive the call that started them.

Nothing here is bound to an event loop, so a process started in one loop may be read in another. Each command has a
supervisor (supervisor.py) that ends its whole process tree; closing our end of its socket, by exiting for example, ends
it too. If the command kills its supervisor, processes with our marker in their environment are found and killed.
"""

import asyncio
import atexit
import contextlib
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import uuid
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from ..values.abort import Abort
from ..values.errors import ToolInputError
from .output import OutputBuffer
from .paths import name_bytes
from .supervisor import KILL, TERMINATE
from .tool import ToolContext

MARK = "INTERLINGUA_EXEC"
KEEP_SECONDS = 30 * 60.0
KEEP_FINISHED = 32
KEEP_BYTES = 512 * 1024 * 1024
MAX_RUNNING = 32
WINDOW = (40, 120)  # rows, columns: wide enough for most tables, short enough for a model

Input: TypeAlias = Literal["none", "pipe", "pty"]
Status: TypeAlias = Literal["running", "completed", "failed"]

_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))


class Launch(Struct, frozen=True, kw_only=True):
    """What to run: `argv`, and the `command` to display; `timeout` and `memory_bytes` 0 mean no limit."""

    command: str
    argv: Sequence[str]
    directory: str
    descriptor: int
    env: Mapping[str, str]
    input: Input = "none"
    timeout: float = 0
    grace: float = 2.0
    max_processes: int = 1024
    memory_bytes: int = 0
    log_bytes: int = 64 * 1024 * 1024


class Exit(Struct, frozen=True, kw_only=True):
    """How a command ended: its exit code (negative: a signal), and the reason if it was ended.

    `left` counts the processes that were still running when it exited by itself; they were ended too.
    """

    code: int | None
    left: int = 0
    reason: Literal["", "timeout", "killed", "processes", "lost"] = ""


class ProcessSession:
    """One command, from its start until it is removed."""

    def __init__(self, launch: Launch, log: Path) -> None:
        self.id = uuid.uuid4().hex[:8]
        self.command = launch.command
        self.directory = launch.directory
        self.started_at = time.time()
        self.pid: int | None = None
        self.exit: Exit | None = None
        self.ended = Abort()  # fires once, when `exit` is set
        self.seen = 0  # bytes read by `poll`
        self.last_output = time.monotonic()
        self._began = time.monotonic()
        self._finished: float | None = None
        self._lock = threading.Lock()
        self.output = OutputBuffer(log / f"{self.id}.log", launch.log_bytes)
        self.terminal = launch.input == "pty"
        try:
            self._start(launch)
        except BaseException:
            self.output.forget()
            raise

    def _start(self, launch: Launch) -> None:
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as handed:
            handed.callback(theirs.close)
            read, write, standard_in = _channels(launch.input, handed)
            self._read, self._write = read, write
            self._control = ours
            options = [theirs.fileno(), launch.descriptor, launch.timeout, launch.grace, launch.max_processes]
            options += [launch.memory_bytes, int(self.terminal)]
            head = [sys.executable, "-I", "-S", _SUPERVISOR, *map(str, options)]
            try:
                self._supervisor = subprocess.Popen(
                    [*map(os.fsencode, head), *map(name_bytes, launch.argv)],
                    stdin=standard_in[0],
                    stdout=standard_in[1],
                    stderr=standard_in[1],
                    env={name_bytes(name): name_bytes(value) for name, value in (*launch.env.items(), (MARK, self.id))},
                    pass_fds=(theirs.fileno(), launch.descriptor),
                    start_new_session=True,
                )
            except BaseException:
                self._close()
                raise
        self.running = threading.Thread(target=self._run, name=f"exec-{self.id}", daemon=True)
        self.running.start()

    @property
    def status(self) -> Status:
        if self.exit is None:
            return "running"
        return "completed" if self.exit.code == 0 and not self.exit.reason else "failed"

    @property
    def seconds(self) -> float:
        return (self._finished or time.monotonic()) - self._began

    @property
    def finished_ago(self) -> float:
        return 0.0 if self._finished is None else time.monotonic() - self._finished

    @property
    def writable(self) -> bool:
        return self.exit is None and self._write is not None

    def stop(self, *, at_once: bool = False) -> None:
        """Requests the end of the whole tree; `ended` fires when it has ended."""
        with contextlib.suppress(OSError):
            self._control.send(KILL if at_once else TERMINATE)

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end; False on timeout."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), seconds)
        return self.exit is not None

    async def write(self, data: bytes, seconds: float = 5.0) -> int:
        """Writes to the command's input until the timeout; returns the number of bytes written."""
        done, end = 0, time.monotonic() + seconds
        while done < len(data) and self.writable:
            taken = self._put(data[done : done + 4096])
            done += taken
            if not taken:
                if time.monotonic() > end:
                    break
                await asyncio.sleep(0.02)
        return done

    def _put(self, data: bytes) -> int:
        """Writes without blocking; the lock prevents the thread from closing the descriptor meanwhile."""
        with self._lock:
            if self._write is None:
                return 0
            try:
                return os.write(self._write, data)
            except BlockingIOError:
                return 0
            except OSError:
                self._close_input()
                return 0

    def close_input(self) -> None:
        """Ends the input: closes the pipe, or sends the terminal's end-of-file character."""
        if self.terminal:
            self._put(b"\x04")
        else:
            with self._lock:
                self._close_input()

    def _close_input(self) -> None:
        if self._write is not None and self._write != self._read:
            os.close(self._write)
        self._write = None

    def _run(self) -> None:
        """The thread: stores output until the supervisor reports the end."""
        reports = bytearray()
        reading = True
        waiting = select.poll()  # select() takes no descriptor above 1023, and a server has many
        control = self._control.fileno()
        for descriptor in (self._read, control):
            waiting.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if self._read in ready and not self._take():
                reading = False
                waiting.unregister(self._read)
            if control in ready:
                data = self._received()
                reports += data
                self._read_pid(reports)
                if not data:
                    break
        self._supervisor.wait()
        exit = _exit_of(bytes(reports))
        if exit is None:
            _kill_marked(self.id)
            exit = Exit(code=None, reason="lost")
        os.set_blocking(self._read, False)
        waiting.unregister(control)
        while reading and waiting.poll(0) and self._take():
            pass
        self._finished = time.monotonic()
        self.output.close()
        self._close()
        self.exit = exit
        self.ended.abort()

    def _received(self) -> bytes:
        """The supervisor's next report; a connection reset also means that it has ended."""
        try:
            return self._control.recv(4096)
        except OSError:
            return b""

    def _take(self) -> bool:
        """Reads once; False at the end (a terminal whose other side is closed raises EIO)."""
        try:
            data = os.read(self._read, 65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if data:
            self.output.append(data)
            self.last_output = time.monotonic()
        return bool(data)

    def _read_pid(self, reports: bytes | bytearray) -> None:
        first = bytes(reports).split(b"\n")[0].split()
        if self.pid is None and len(first) == 2 and first[0] == b"started":
            self.pid = int(first[1])

    def _close(self) -> None:
        with self._lock:
            self._control.close()
            self._close_input()
            os.close(self._read)


def _channels(kind: Input, handed: contextlib.ExitStack) -> tuple[int, int | None, tuple[int, int]]:
    """Our ends to read and write, and the command's input and output, which `handed` closes on our side."""
    if kind == "pty":
        ours, theirs = pty.openpty()
        handed.callback(os.close, theirs)
        termios.tcsetwinsize(theirs, WINDOW)
        os.set_blocking(ours, False)
        return ours, ours, (theirs, theirs)
    read, output = os.pipe()
    handed.callback(os.close, output)
    if kind == "none":
        null = os.open(os.devnull, os.O_RDONLY)
        handed.callback(os.close, null)
        return read, None, (null, output)
    source, write = os.pipe()
    handed.callback(os.close, source)
    os.set_blocking(write, False)
    return read, write, (source, output)


def _exit_of(reports: bytes) -> Exit | None:
    for line in reports.decode().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "ended":
            code, left, reason = rest.split(" ")
            return Exit(code=int(code) if code else None, left=int(left), reason=reason)  # type: ignore[arg-type]
    return None


def _kill_marked(mark: str) -> None:
    """Kills the processes with this session's marker, until several looks in a row find none.

    One look is not enough: between fork and the end of exec, `/proc/PID/environ` may read as empty.
    """
    quiet = 0
    for _ in range(200):
        found = marked(mark)
        quiet = 0 if found else quiet + 1
        if quiet == 10:
            return
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def marked(mark: str = "") -> list[int]:
    """The processes with a session's marker in their environment (of any session, by default)."""
    prefix = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(pair.startswith(prefix) for pair in (entry / "environ").read_bytes().split(b"\0")):
                found.append(int(entry.name))
    return found


class ProcessTable:
    """The commands of one agent in one conversation. `close` ends them all and deletes their logs."""

    def __init__(self, *, keep_finished: int = KEEP_FINISHED) -> None:
        self._keep_finished = keep_finished
        self._sessions: dict[str, ProcessSession] = {}
        self._log: Path | None = None
        _TABLES.add(self)

    def start(self, launch: Launch) -> ProcessSession:
        self.expire()
        if sum(session.exit is None for session in list(self._sessions.values())) >= MAX_RUNNING:
            raise ToolInputError(
                f"{MAX_RUNNING} commands are already running; end one (process, action kill) or wait for one"
            )
        session = ProcessSession(launch, self._folder())
        self._sessions[session.id] = session
        _BUSY.add(self)
        return session

    def temporary(self) -> Path:
        """A directory for the temporary files of all commands, for a sandbox without one."""
        self.expire()
        place = self._folder() / "tmp"
        place.mkdir(mode=0o700, exist_ok=True)
        return place

    def _folder(self) -> Path:
        if self._log is None:
            self._log = Path(tempfile.mkdtemp(prefix="interlingua-exec-"))
        return self._log

    def sessions(self) -> list[ProcessSession]:
        """All sessions, oldest first."""
        self.expire()
        return list(self._sessions.values())

    def get(self, id: str) -> ProcessSession | None:
        self.expire()
        return self._sessions.get(id)

    async def remove(self, id: str) -> bool:
        """Ends the command if it runs, and removes it and its log."""
        session = self._sessions.get(id)
        if session is None:
            return False
        session.stop()
        await session.wait(15)
        self._forget(session)
        return True

    def expire(self) -> None:
        """Removes finished sessions beyond the limits of age, number and bytes, the oldest first."""
        finished = [session for session in list(self._sessions.values()) if session.exit is not None]
        finished.sort(key=lambda session: -session.finished_ago)
        stored = sum(session.output.stored for session in finished)
        for at, session in enumerate(finished):
            surplus = len(finished) - at > self._keep_finished or stored > KEEP_BYTES
            if surplus or session.finished_ago > KEEP_SECONDS:
                stored -= session.output.stored
                self._forget(session)

    async def close(self) -> None:
        """Ends every command, waits for all, and deletes the logs."""
        sessions = list(self._sessions.values())
        for session in sessions:
            session.stop(at_once=True)
        await asyncio.gather(*(session.wait(15) for session in sessions))
        self._forget_all()

    def close_now(self) -> None:
        """`close` without an event loop, for interpreter exit."""
        sessions = list(self._sessions.values())
        for session in sessions:
            session.stop(at_once=True)
        end = time.monotonic() + 5.0
        for session in sessions:
            session.running.join(max(0.0, end - time.monotonic()))
        self._forget_all()

    def _forget(self, session: ProcessSession) -> None:
        self._sessions.pop(session.id, None)
        session.output.forget()
        if not self._sessions:
            _BUSY.discard(self)
            if self._log is not None:
                shutil.rmtree(self._log, ignore_errors=True)
                self._log = None

    def _forget_all(self) -> None:
        for session in list(self._sessions.values()):
            self._forget(session)


# A table is found by its key while any tool references it; while it has sessions, _BUSY references it, so that a host
# that recreates its tools for each turn does not lose running commands.
_Key: TypeAlias = tuple[str | None, str | None, str | None]
_BY_KEY: "weakref.WeakValueDictionary[_Key, ProcessTable]" = weakref.WeakValueDictionary()
_BUSY: set[ProcessTable] = set()
_TABLES: "weakref.WeakSet[ProcessTable]" = weakref.WeakSet()
_LOCK = threading.Lock()


def process_table(context: ToolContext) -> ProcessTable:
    """The table of this agent, conversation and root, shared by all tools of such contexts."""
    key = (context.agent_id, context.session_key, context.root or context.workspace_dir)
    with _LOCK:
        for other in list(_BUSY):
            other.expire()
        table = _BY_KEY.get(key)
        if table is None:
            table = _BY_KEY[key] = ProcessTable()
        return table


@atexit.register
def _close_all() -> None:
    for table in list(_TABLES):
        table.close_now()
