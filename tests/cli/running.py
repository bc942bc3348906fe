"""Runs the command line as a user would: a process of its own.

Two thirds of what a short command costs are the start of Python and imports. So a process that needs nothing special is
forked from one that has imported all commands; `tests/cli/test_commands.py` starts Python for each command as well.
"""

import atexit
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-c", "from interlingua.cli import main; main()"]
TIMEOUT = 120

# For each message: forks, takes the three streams that come with it, and runs the command; the parent sends its status.
_FORKING = """
import gc, importlib, json, os, pkgutil, socket, sys
import interlingua.cli, interlingua.dialects.registry
for module in pkgutil.iter_modules(interlingua.cli.__path__, "interlingua.cli."):
    importlib.import_module(module.name)
interlingua.dialects.registry.ordered()
gc.freeze()
commands = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, streams, _, _ = socket.recv_fds(commands, 2**20, 3)
    if not message:
        sys.exit()
    if (child := os.fork()) == 0:
        break
    for stream in streams:
        os.close(stream)
    commands.send(str(child).encode())
    commands.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
commands.close()
for number, stream in enumerate(streams):
    os.dup2(stream, number)
    os.close(stream)
given = json.loads(message)
os.environ.clear()
os.environ.update(given["env"])
os.umask(given["umask"])
os.chdir(given["cwd"])
sys.argv[1:] = given["arguments"]
sys.orig_argv[3:] = given["arguments"]
sys.path_importer_cache.clear()
interlingua.cli.main()
"""
_ENV = dict(os.environ)
_forking = threading.Lock()


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(
    *arguments: str | Path,
    given: bytes | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] = os.environ,
    fresh: bool = False,
    **options: Any,
) -> Outcome:
    """What a command wrote and returned. `fresh` starts Python for it, as all further options do."""
    texts = [str(argument) for argument in arguments]
    if not (fresh or options) and _interpreter(env) == _interpreter(_ENV) and _forking.acquire(blocking=False):
        try:
            return _fork(texts, given, cwd or Path.cwd(), env)
        finally:
            _forking.release()
    done = subprocess.run(
        [*COMMAND, *texts], input=given, cwd=cwd, env=env, capture_output=True, check=False, timeout=TIMEOUT, **options
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def _interpreter(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide how Python starts."""
    return {name: value for name, value in env.items() if name.startswith(("PYTHON", "LC_", "LANG", "TZ"))}


@cache
def _commands() -> socket.socket:
    """The messages of a process that forks."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [*COMMAND[:2], _FORKING, str(theirs.fileno())],
        env=_ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[theirs.fileno()],
    )  # fmt: skip
    theirs.close()
    ours.settimeout(TIMEOUT)

    @atexit.register
    def _end() -> None:
        ours.close()
        process.communicate()

    return ours


def _fork(arguments: list[str], given: bytes | None, cwd: Path, env: Mapping[str, str]) -> Outcome:
    commands = _commands()
    os.umask(umask := os.umask(0))
    message = {"arguments": arguments, "cwd": str(cwd.absolute()), "umask": umask, "env": dict(env)}
    pipes = [os.pipe() for _ in range(3)]
    theirs = [pipes[0][0] if given is not None else 0, pipes[1][1], pipes[2][1]]
    socket.send_fds(commands, [json.dumps(message).encode()], theirs)
    for end in (pipes[0][0], pipes[1][1], pipes[2][1]):
        os.close(end)
    child = int(commands.recv(100))
    with ThreadPoolExecutor(3) as pool:
        pool.submit(_write, pipes[0][1], given or b"")
        out, err = (pool.submit(_read, end) for end in (pipes[1][0], pipes[2][0]))
        try:
            code = int(commands.recv(100))
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            commands.recv(100)
            raise
        return Outcome(code, out.result().decode(), err.result().decode())


def _write(end: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(end, "wb") as stream:
        stream.write(data)


def _read(end: int) -> bytes:
    with open(end, "rb") as stream:
        return stream.read()


def on_terminal(
    *arguments: str | Path, columns: int = 80, rows: int = 24, keys: bytes = b"", after: bytes = b"", **env: str
) -> tuple[int, str]:
    """Runs the command line in a terminal of this size; `keys` are typed once `after` is on the screen."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    variables = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": "", **env}
    variables = {name: value for name, value in variables.items() if value}
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave, env=variables, start_new_session=True
    )
    os.close(slave)
    shown, deadline = b"", time.monotonic() + 120
    with contextlib.suppress(OSError):  # the terminal is closed when the last program in it has ended
        while time.monotonic() < deadline:
            if select.select([master], [], [], 0.2)[0]:
                part = os.read(master, 65536)
                if not part:
                    break
                shown += part
            elif process.poll() is not None:
                break
            if keys and after in shown:
                os.write(master, keys)
                keys = b""
    os.close(master)
    return process.wait(timeout=60), shown.decode("utf-8", "replace")
