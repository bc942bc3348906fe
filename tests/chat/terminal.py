"""Drives the chat in a real terminal: tmux, with a server of its own. Screens are awaited, never slept for."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

TIMEOUT = 60.0  # seconds; machines are shared
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed: the chat was NOT tested")


class Terminal:
    """A terminal of 100 columns and 40 rows, in which one chat after the other may run."""

    def __init__(self, folder: Path, script: list[Any], *, rows: int = 40) -> None:
        self.home = folder / "home"
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        self._script = folder / "script.json"
        self._script.write_text(json.dumps(script))
        self._pid_file = folder / "pid"
        self._socket = f"interlingua-{uuid.uuid4().hex[:12]}"
        size = ("-x", "100", "-y", str(rows))
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "chat", *size, "env", "PS1=shell$ ", "bash", "--norc")
        self._tmux("set-option", "-g", "history-limit", "20000")
        self.wait_for(r"shell\$")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *arguments], capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], capture_output=True, check=False, timeout=30)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chat(self, *arguments: str, model: str = "debug/script", **variables: str) -> None:
        """Starts a chat, and waits until it can be talked to."""
        self.start(*arguments, model=model, **variables)
        self.wait_for(r"interlingua chat ·[\s\S]*\$0\.0000")

    def start(self, *arguments: str, model: str = "debug/script", **variables: str) -> None:
        """Starts a chat, and waits for nothing."""
        given = {
            "INTERLINGUA_HOME": str(self.home),
            "INTERLINGUA_DEBUG_SCRIPT": str(self._script),
            "PYTHONPATH": os.pathsep.join(sys.path),
            **variables,
        }
        program = "import os, pathlib, sys; pathlib.Path(sys.argv.pop(1)).write_text(str(os.getpid()))"
        program += "; from interlingua.cli import main; main()"
        text = [sys.executable, "-c", program, str(self._pid_file), "chat", "--root", str(self.root)]
        line = shlex.join(
            ["env", *(f"{name}={value}" for name, value in given.items()), *text, "-m", model, *arguments]
        )
        starter = self._pid_file.with_name("start.sh")
        starter.write_text(f"clear\n{line}\n")
        self._pid_file.unlink(missing_ok=True)
        self.type(f". {shlex.quote(str(starter))}")

    @property
    def pid(self) -> int:
        return int(self._pid_file.read_text())

    def kill(self) -> None:
        """The end that leaves no time for anything."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait_for(r"Killed")

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def paste(self, text: str) -> None:
        """As the terminal does it: between marks, so that programs can tell it from typing."""
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p", "-t", "chat")

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-t", "chat", "-l", text)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "chat", *keys)

    def screen(self, *, scrolled: bool = False) -> str:
        """What is seen; with `scrolled`, what has scrolled by as well."""
        return self._tmux("capture-pane", "-p", "-t", "chat", *(("-S", "-") if scrolled else ()))

    def wait_for(self, pattern: str, *, scrolled: bool = False) -> str:
        return self.wait_until(lambda text: re.search(pattern, text) is not None, pattern, scrolled=scrolled)

    def wait_until(self, wanted: Any, what: str, *, scrolled: bool = False) -> str:
        until = time.monotonic() + TIMEOUT
        while True:
            text = self.screen(scrolled=scrolled)
            if wanted(text):
                return text
            if time.monotonic() > until:
                pytest.fail(f"the screen never showed {what!r}; it shows:\n{text}")
            time.sleep(0.05)
