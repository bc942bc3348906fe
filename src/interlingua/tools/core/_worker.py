"""The process that searches: a pattern may take for ever, and only a process can be stopped.

It reads a job from its input and writes what it finds to its output, in frames of four bytes of length and msgpack.
When the job has no root, it asks for directories and files the same way, and the answers come back on its input.
"""

import itertools
import os
import sys
from typing import Any

import msgspec

from ...values.errors import ToolInputError
from ..confined_fs import Tree
from ..paths import name_bytes, name_text
from ._engine import Entry, Job, find, grep


def packed(value: Any) -> bytes:
    body = msgspec.msgpack.encode(value)
    return len(body).to_bytes(4, "big") + body


class LocalSource:
    """Files beneath a directory of this machine, through the same walls as the local bridge."""

    def __init__(self, root: bytes, max_bytes: int) -> None:
        self._tree = Tree(os.fsdecode(root), max_bytes)

    def entries(self, path: str) -> list[Entry] | None:
        try:
            return [Entry(name, kind) for name, kind in self._tree.entries(f"./{path}")]
        except ToolInputError:
            return None

    def read(self, path: str) -> bytes | None:
        try:
            return self._tree.read(f"./{path}")
        except ToolInputError:
            return None


class AskingSource:
    """Files that whoever started this process has to fetch."""

    def entries(self, path: str) -> list[Entry] | None:
        names = _asked("entries", path)
        if names is None:
            return None
        decoded = [name_text(name) for name in names]
        return [Entry(name.rstrip("/"), "directory" if name.endswith("/") else "file") for name in decoded]

    def read(self, path: str) -> bytes | None:
        data: bytes | None = _asked("read", path)
        return data


def _asked(what: str, path: str) -> Any:
    _send((what, name_bytes(path)))
    return msgspec.msgpack.decode(_received())


def _received() -> bytes:
    return sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(4), "big"))


def _send(value: Any) -> None:
    sys.stdout.buffer.write(packed(value))
    sys.stdout.buffer.flush()


def main() -> None:
    job = msgspec.msgpack.decode(_received(), type=Job)
    source = LocalSource(job.root, job.max_file_bytes) if job.root is not None else AskingSource()
    search = find if job.pattern is None else grep
    for path, kind, line, text in itertools.islice(search(job, name_text(job.start), source), job.limit + 1):
        _send(("found", name_bytes(path), kind, line, text[:512]))
    _send(("done",))


if __name__ == "__main__":
    main()
