"""The output of a command: stored on disk up to a limit, both ends in memory, and cleaned for the model."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..values.text import ESCAPES

HEAD_BYTES = 16 * 1024
TAIL_BYTES = 64 * 1024
LINE_BYTES = 64 * 1024

_OVERSTRIKE = re.compile(r"[^\n\x08]\x08")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BINARY_SHARE = 0.3


class OutputBuffer:
    """A thread-safe output buffer; bytes beyond the limit are counted."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.limit = limit
        self.total = 0
        self.stored = 0
        self.problem: str | None = None
        self._head = bytearray()
        self._tail = bytearray()
        self._lock = threading.Lock()
        self._file: BinaryIO | None = path.open("xb", buffering=0)

    def append(self, data: bytes) -> None:
        with self._lock:
            self.total += len(data)
            self._head += data[: max(0, HEAD_BYTES - len(self._head))]
            self._tail += data
            if len(self._tail) > 2 * TAIL_BYTES:
                del self._tail[:-TAIL_BYTES]
            self._store(data[: self.limit - self.stored])

    def _store(self, data: bytes) -> None:
        if not data or self._file is None or self.problem:
            return
        try:
            self.stored += self._file.write(data)
        except OSError as error:
            self.problem = error.strerror

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def forget(self) -> None:
        """Closes the log and deletes it."""
        self.close()
        self.path.unlink(missing_ok=True)

    @property
    def complete(self) -> bool:
        """Whether the log contains the whole output."""
        return self.stored == self.total

    def ends(self, budget: int) -> tuple[bytes, int, bytes]:
        """The start and the end, together within `budget` bytes, and the number of bytes between them."""
        with self._lock:
            if self.total <= min(budget, len(self._tail)):
                return bytes(self._tail), 0, b""
            head = _to_line_end(bytes(self._head[: budget // 4]))
            tail = _from_line_start(bytes(self._tail[-(budget - len(head)) :]))
            return head, self.total - len(head) - len(tail), tail

    def since(self, offset: int, budget: int) -> tuple[bytes, int]:
        """The last `budget` bytes after `offset`, and the number of bytes skipped before them."""
        with self._lock:
            fresh = self.total - offset
            size = min(fresh, budget, len(self._tail))
            return (bytes(self._tail[-size:]) if size else b""), fresh - size

    def lines(self) -> Iterator[bytes]:
        """The stored lines; one longer than 64 KiB is split."""
        with self.path.open("rb") as file:
            yield from iter(lambda: file.readline(LINE_BYTES), b"")


def whole_characters(data: bytes) -> bytes:
    """`data` without an incomplete UTF-8 character at its end."""
    for back in range(1, min(4, len(data) + 1)):
        lead = data[-back]
        if lead >= 0xC0:
            width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return data[:-back] if back < width else data
        if lead < 0x80:
            return data
    return data


def plain(data: bytes) -> str:
    """The bytes as text without terminal control sequences.

    A line overwritten with carriage returns (a progress bar) shows its last state. Binary output is summarized.
    """
    text = data.decode("utf-8", "replace")
    if _looks_binary(text):
        return f"(binary output, {len(data):,} bytes)"
    text = ESCAPES.sub("", text.replace("\r\n", "\n"))
    if "\r" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    if "\b" in text:
        text = _OVERSTRIKE.sub("", text)
    return _CONTROLS.sub("", text)


def _last_state(line: str) -> str:
    return next((state for state in reversed(line.split("\r")) if state), "")


def _looks_binary(text: str) -> bool:
    odd = text.count("�") + text.count("\0")
    return odd > 8 and odd > _BINARY_SHARE * len(text)


def _to_line_end(data: bytes) -> bytes:
    end = data.rfind(b"\n")
    return data[: end + 1] if end >= 0 else whole_characters(data)


def _from_line_start(data: bytes) -> bytes:
    start = data.find(b"\n")
    if 0 <= start < len(data) - 1:
        return data[start + 1 :]
    while data and 0x80 <= data[0] < 0xC0:
        data = data[1:]
    return data
