"""The worker process of a search: a pattern may take forever, and only a process can be killed.

It reads a job from stdin and writes matches to stdout, in frames of a four-byte length and msgpack. If the job has no
root, it requests directories and files the same way, and receives them on stdin.
"""

import itertools
import os
import sys
from typing import Any

import msgspec

from ...values.errors import ToolInputError
from ..confined_fs import Tree
from ..paths import name_bytes, name_text
from ._engine import FileEntry, Job, find, grep


def packed(value: Any) -> bytes:
    body = msgspec.msgpack.encode(value)
    return len(body).to_bytes(4, "big") + body


class LocalSource:
    """Files below a local directory, confined like the local bridge."""

    def __init__(self, root: bytes, max_bytes: int) -> None:
        self._tree = Tree(os.fsdecode(root), max_bytes)

    def entries(self, path: str) -> list[FileEntry] | None:
        try:
            return [FileEntry(name, kind) for name, kind in self._tree.entries(f"./{path}")]
        except ToolInputError:
            return None

    def read(self, path: str) -> bytes | None:
        try:
            return self._tree.read(f"./{path}")
        except ToolInputError:
            return None


class RemoteSource:
    """Files that the parent process fetches."""

    def entries(self, path: str) -> list[FileEntry] | None:
        names = _request("entries", path)
        if names is None:
            return None
        decoded = [name_text(name) for name in names]
        return [FileEntry(name.rstrip("/"), "directory" if name.endswith("/") else "file") for name in decoded]

    def read(self, path: str) -> bytes | None:
        data: bytes | None = _request("read", path)
        return data


def _request(what: str, path: str) -> Any:
    _send((what, name_bytes(path)))
    return msgspec.msgpack.decode(_received())


def _received() -> bytes:
    return sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(4), "big"))


def _send(value: Any) -> None:
    sys.stdout.buffer.write(packed(value))
    sys.stdout.buffer.flush()


def main() -> None:
    job = msgspec.msgpack.decode(_received(), type=Job)
    source = LocalSource(job.root, job.max_file_bytes) if job.root is not None else RemoteSource()
    search = find if job.pattern is None else grep
    for path, kind, line, text in itertools.islice(search(job, name_text(job.start), source), job.limit + 1):
        _send(("found", name_bytes(path), kind, line, text[:512]))
    _send(("done",))


if __name__ == "__main__":
    main()
