"""Runs the command line as a user would: a process of its own."""

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-c", "from interlingua.cli import main; main()"]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str | Path, given: bytes | None = None, cwd: Path | None = None, **options: Any) -> Outcome:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], input=given, cwd=cwd, capture_output=True, check=False, timeout=120, **options
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


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
