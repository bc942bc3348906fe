"""The supervisor process of a command: starts it, and ends its whole process tree.

It runs standalone (`python -I -S supervisor.py …`), so it imports nothing from this package. It is the *subreaper* of
the command (prctl(2)): a descendant that detaches (setsid, double fork, nohup, disown) becomes a child of this process.
So the tree has ended when no child is left.

It ends the tree when the command's shell exits, on timeout, on too many processes, on request, and when the other end
of its control socket closes, that is, when the host process dies.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TICK = 0.25
LINGER = 0.3  # seconds for leftover processes to finish by themselves, such as the `>(sed …)` of a bash line
TIMEOUT = 10.0  # then give up: only a process of another user, or one stuck in the kernel, survives SIGKILL

TERMINATE, KILL = b"T", b"K"


class Process:
    """One line of the process table."""

    __slots__ = ("group", "name", "parent", "pid")

    def __init__(self, pid: int, parent: int, group: int, name: str) -> None:
        self.pid, self.parent, self.group, self.name = pid, parent, group, name


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _processes() -> list[Process]:
    if not Path("/proc/self/stat").exists():
        return _processes_by_ps()
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - the fast one: it runs in a race against forks
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # A process names itself, in any bytes.
                before, _, after = os.fsdecode(file.read()).rpartition(")")
                state, parent, group = after.split()[:3]
                if state != "Z":
                    found.append(Process(int(name), int(parent), int(group), before.partition("(")[2]))
    return found


def _processes_by_ps() -> list[Process]:
    found = []
    from subprocess import PIPE, run  # not needed on Linux, where each command waits for this program to start

    for line in run(["/bin/ps", "-axo", "pid=,ppid=,pgid=,comm="], stdout=PIPE, check=False).stdout.splitlines():
        pid, parent, group, name = os.fsdecode(line).split(None, 3)
        found.append(Process(int(pid), int(parent), int(group), name.strip()))
    return found


def _descendants() -> list[Process]:
    """All descendants of this process."""
    below: dict[int, list[Process]] = {}
    for process in _processes():
        below.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [os.getpid()]
    while waiting:
        children = below.pop(waiting.pop(), [])
        found += children
        waiting += [child.pid for child in children]
    return found


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _kill_children() -> None:
    """Kills the direct children, fast: a process that forks and exits in a chain is always one of them."""
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123
        for pid in file.read().split():
            _kill(int(pid), signal.SIGKILL)


def _signal_all(number: int) -> None:
    """Signals the whole tree; groups first, since a group is signalled atomically and no fork escapes."""
    tree = [process for process in _descendants() if number == signal.SIGKILL or process.name != "bwrap"]
    if number == signal.SIGKILL:
        for group in {process.group for process in tree} - {os.getpgrp()}:
            _kill(-group, number)
    for process in tree:
        _kill(process.pid, number)
        if number != signal.SIGKILL:
            _kill(process.pid, signal.SIGCONT)


def _tasks() -> int:
    """The number of tasks on the machine: a cheap check before counting our own."""
    try:
        with open("/proc/loadavg", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[3].partition(b"/")[2])
    except OSError:
        return 0


class SupervisedCommand:
    """The command's process, its exit status, and whether its tree has ended."""

    def __init__(self, pid: int, control: int, wake: int) -> None:
        self.pid = pid
        self.control = control
        self.wake = wake
        self.status: int | None = None

    def rest(self, seconds: float) -> bytes | None:
        """Sleeps until a child ends or an order arrives, which is returned; a closed socket means KILL."""
        waiting = select.poll()
        for descriptor in (self.control, self.wake):
            waiting.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in waiting.poll(max(seconds, 0) * 1000)}
        if self.wake in ready:
            os.read(self.wake, 4096)
        if self.control not in ready:
            return None
        try:
            return os.read(self.control, 1) or KILL
        except OSError:
            return KILL

    def reap(self) -> bool:
        """Reaps ended children; True if none is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return False
                if pid == self.pid:
                    self.status = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return True

    def wait_for_exit(self, seconds: float) -> bytes | None:
        """Waits for the tree to end by itself; a KILL order interrupts and is returned."""
        end = time.monotonic() + seconds
        while not self.reap() and time.monotonic() < end:
            order = self.rest(min(TICK, end - time.monotonic()))
            if order == KILL:
                return order
        return None

    def finish(self, grace: float) -> None:
        """Ends the tree: SIGTERM with a grace period, then SIGKILL until nothing is left."""
        if grace > 0 and not self.reap():
            _signal_all(signal.SIGTERM)
            self.wait_for_exit(grace)
        end = time.monotonic() + TIMEOUT
        while not self.reap() and time.monotonic() < end:
            _signal_all(signal.SIGKILL)
            for _ in range(50):
                _kill_children()
                if self.reap():
                    return
            time.sleep(0.002)


def _exec_child(argv: list[str], directory: int, terminal: bool, limit: int, memory: int) -> NoReturn:
    """In the child: a new session, default signals, the checked directory, then exec."""
    try:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        if terminal:
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        _limit_processes(limit)
        if memory:
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        os.fchdir(directory)
        os.execv(argv[0], argv)
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {error.strerror}\n".encode())
    os._exit(126)


def _limit_processes(limit: int) -> None:
    """Sets RLIMIT_NPROC; the kernel does not apply it to root (getrlimit(2)), so `_watch` counts too."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    soft = _tasks() + limit
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))


def _watch(command: SupervisedCommand, seconds: float, limit: int) -> tuple[str, float | None]:
    """Waits for the command's end, or a reason to end it; returns the reason and its grace (None: the default)."""
    parent, before = os.getppid(), _tasks()
    end = time.monotonic() + seconds if seconds > 0 else float("inf")
    while True:
        order = command.rest(min(TICK, end - time.monotonic()))
        command.reap()
        if command.status is not None:
            return "", None
        if order is not None:
            return "killed", None if order == TERMINATE else 0
        if time.monotonic() >= end:
            return "timeout", None
        if os.getppid() != parent:
            return "killed", 0
        if _tasks() - before > limit and len(_descendants()) > limit:
            return "processes", 0


def _report(control: int, text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(control, text.encode() + b"\n")


def supervise(
    control: int,
    directory: int,
    seconds: float,
    grace: float,
    limit: int,
    memory: int,
    terminal: bool,
    argv: list[str],
) -> None:
    """Runs `argv` and reports on `control`: `started <pid>`, then `ended <code> <leftover processes> <reason>`."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake, waker = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.set_inheritable(control, False)
    os.set_inheritable(directory, False)
    pid = os.fork()
    if pid == 0:
        _exec_child(argv, directory, terminal, limit, memory)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(directory)
    _report(control, f"started {pid}")
    command = SupervisedCommand(pid, control, wake)
    reason, left = _watch(command, seconds, limit), 0
    if not reason[0]:
        command.wait_for_exit(LINGER)
        left = len(_descendants())
    command.finish(grace if reason[1] is None else reason[1])
    _report(control, f"ended {'' if command.status is None else command.status} {left} {reason[0]}")


if __name__ == "__main__":
    _control, _directory, _seconds, _grace, _limit, _memory, _terminal = sys.argv[1:8]
    supervise(
        int(_control),
        int(_directory),
        float(_seconds),
        float(_grace),
        int(_limit),
        int(_memory),
        _terminal == "1",
        sys.argv[8:],
    )
