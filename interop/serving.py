"""Somebody else's server in a process of its own, and a list of what was checked against it."""

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def environment(name: str) -> Path:
    """The folder of the programs of an environment that `make interop` has made."""
    folder = HERE / ".envs" / name / "bin"
    if not (folder / "python").exists():
        sys.exit(f"interop/.envs/{name} is missing: run `make interop`")
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(
    command: Sequence[str | Path], ready: str, *, env: Mapping[str, str] | None = None, retry_policy: float = 120.0
) -> Iterator[None]:
    """The server while it runs, from when `ready` (a URL) answers. What it printed is shown if it never does."""
    with tempfile.TemporaryFile() as said:
        server = subprocess.Popen(command, env=env, stdout=said, stderr=subprocess.STDOUT)
        try:
            if not _answers(ready, server, retry_policy):
                said.seek(0)
                sys.exit(f"{Path(command[0]).name} did not start:\n{said.read().decode(errors='replace')[-3000:]}")
            yield
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _answers(url: str, server: "subprocess.Popen[bytes]", retry_policy: float) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + retry_policy
    while time.monotonic() < until and server.poll() is None:
        try:
            direct.open(url, timeout=5).close()
        except urllib.error.HTTPError:
            return True  # an answer, if not a kind one
        except OSError:
            time.sleep(0.2)
        else:
            return True
    return False


class Checks:
    """What was found beside what was expected."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._made = 0
        self._failed = 0

    def same(self, what: str, expected: Any, actual: Any) -> None:
        self._made += 1
        if expected == actual:
            print(f"  ok   {what}")
        else:
            self._failed += 1
            print(f"  BAD  {what}: expected {expected!r}, found {actual!r}")

    def finish(self) -> None:
        """Ends the program, badly if anything was not as expected."""
        print(f"{self._name}: {self._made - self._failed} of {self._made} as expected")
        if self._failed or not self._made:
            sys.exit(1)
