"""Changes on their way to a canvas server: kept on disk until they are acknowledged, sent in batches, sent again.

A file of lines, and beside it the number of bytes that were acknowledged. When everything was, both are emptied.
"""

import os
import threading
from pathlib import Path
from typing import Any

from ..values import jsontext

MAX_BATCH = 1_000  # changes sent at once
MAX_BATCH_BYTES = 4 << 20


class Outbox:
    """A queue of changes. Any thread may add; one sender takes and acknowledges."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._file = -1
        self._done = 0
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._waiting = self._recovered(path)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _recovered(self, path: Path) -> list[bytes]:
        """What an earlier process left behind; half a line at the end was never promised to anybody."""
        try:
            data = path.read_bytes()
            self._done = int(self._mark(path).read_text("ascii") or 0)
        except (OSError, ValueError):
            data, self._done = path.read_bytes() if path.exists() else b"", 0
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) != len(data):
            os.truncate(path, len(whole))
        return [line for line in whole[self._done :].split(b"\n") if line]

    @staticmethod
    def _mark(path: Path) -> Path:
        return path.with_suffix(".done")

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, change: dict[str, Any]) -> None:
        """Keeps a change; when it returns, the change survives this process."""
        line = jsontext.write(change)
        with self._lock:
            if self._file >= 0:
                os.write(self._file, line + b"\n")
            self._waiting.append(line)

    def batch(self, limit: int = MAX_BATCH) -> list[bytes]:
        """The oldest changes that wait, as JSON; they stay until they are acknowledged."""
        with self._lock:
            taken: list[bytes] = []
            size = 0
            for line in self._waiting[:limit]:
                if taken and size + len(line) > MAX_BATCH_BYTES:
                    break
                taken.append(line)
                size += len(line)
            return taken

    def acknowledge(self, count: int) -> None:
        """Forgets the oldest changes: the server has them."""
        with self._lock:
            self._done += sum(len(line) + 1 for line in self._waiting[:count])
            del self._waiting[:count]
            if self._path is None or self._file < 0:
                return
            if not self._waiting:
                os.ftruncate(self._file, 0)
                self._done = 0
            self._mark(self._path).write_text(str(self._done), encoding="ascii")

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
