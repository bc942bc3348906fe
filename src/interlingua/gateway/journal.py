"""A journal of entries that outlive the process: what has been written is in the system's memory, whatever ends it.

Each process appends to a file of its own, which it keeps locked. A file that nobody locks belonged to a process that
was killed, and is adopted by the next one that looks: at its start, and now and then while it runs. A file is deleted
when all of its entries are done.
"""

import contextlib
import errno
import logging
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from ..values.places import private_folder
from ..values.regular import open_regular, read_regular

_log = logging.getLogger(__name__)


class _Named(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_Named)
_FULL = 1 << 20  # bytes, after which another file is begun


class _File(Struct, eq=False):
    path: Path
    handle: int
    size: int = 0
    open: int = 0  # entries that are not done

    def delete(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()
        os.close(self.handle)


class Journal(Generic[T]):
    """The journals called `name` in a folder: one to write to, and those of processes that were killed. `kind` is a
    `Struct` with an `id`.
    """

    def __init__(self, folder: Path, name: str, kind: type[T]) -> None:
        self._folder = folder
        self._name = name
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(kind).decode
        self._current: _File | None = None
        self._files: dict[str, _File] = {}  # by the id of an entry that is not done

    def add(self, entry: T) -> None:
        """Writes an entry. Raises OSError."""
        file = self._current
        if file is None or file.size > _FULL:
            file = self._current = self._created()
        # The line end comes first: an entry that was cut by a full disk does not spoil the next.
        line = b"\n" + self._encode(entry)
        written = os.write(file.handle, line)
        file.size += written
        if written < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file.path))
        file.open += 1
        self._files[entry.id] = file

    def done(self, entries: Iterable[T]) -> None:
        """Forgets entries that are stored elsewhere."""
        touched = set()
        for entry in entries:
            file = self._files.pop(entry.id, None)
            if file is not None:
                file.open -= 1
                touched.add(file)
        for file in touched:
            if file.open:
                continue
            if file is self._current:
                os.ftruncate(file.handle, 0)
                file.size = 0
            else:
                file.delete()

    def adopt(self) -> list[T]:
        """Takes over the files of processes that were killed, and returns their entries."""
        found: list[T] = []
        own = {file.path for file in (self._current, *self._files.values()) if file is not None}
        for path in sorted(set(self._folder.glob(f"{self._name}-*.journal")) - own):
            handle = None
            try:
                handle = open_regular(path, os.O_RDWR)
                is_ours = _try_lock(handle) and _is_at(handle, path)  # else its process lives, or another was faster
                entries = self._entries(path) if is_ours else None
            except OSError as error:
                entries = None
                if not isinstance(error, FileNotFoundError):
                    _log.error("%s: cannot be adopted: %s", path, error)
            if entries is None:
                if handle is not None:
                    os.close(handle)
                continue
            assert handle is not None
            file = _File(path, handle, open=len(entries))
            if not entries:
                file.delete()
            self._files |= dict.fromkeys(entries, file)
            found += entries.values()
        return found

    def _entries(self, path: Path) -> dict[str, T]:
        entries = {}
        for line in read_regular(path).split(b"\n"):
            try:
                entry = self._decode(line) if line else None
            except msgspec.MsgspecError as error:
                # No client received its end: the process ended, or the disk was full, while it was written.
                _log.warning("%s: an entry is not whole: %s", path, error)
                continue
            if entry is not None:
                entries[entry.id] = entry
        return entries

    def close(self) -> None:
        """Deletes the files whose entries are all done; the next process adopts the others."""
        for file in {self._current, *self._files.values()} - {None}:
            assert file is not None
            if file.open:
                os.close(file.handle)
            else:
                file.delete()
        self._current, self._files = None, {}

    def _created(self) -> _File:
        private_folder(self._folder)
        while True:
            path = self._folder / f"{self._name}-{secrets.token_hex(8)}.journal"
            handle = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            if _try_lock(handle) and _is_at(handle, path):
                return _File(path, handle)
            os.close(handle)  # a process that looked for journals took it


def _try_lock(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: an entry that two processes adopt is still stored once, by its id
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether a file is still at its path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
