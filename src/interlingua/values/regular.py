"""Opening of regular files: never a FIFO, a device, a socket or a folder, and never waiting for one.

Files that we keep ourselves (`follow=False`) are not reached through a link either, so that nobody can lead a read or a
write to another file. A file that a user names may be a link.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .errors import InterlinguaError

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# A FIFO without a writer, or a terminal line without a carrier, would otherwise block `open`.
_FLAGS = os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) if os.name == "posix" else 0
_OPEN_ALREADY = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


_SPACE = "free some space there, or use another place"
_REMEDIES = {
    errno.ENOSPC: _SPACE,
    getattr(errno, "EDQUOT", errno.ENOSPC): _SPACE,
    errno.EFBIG: "raise the limit on the size of files (`ulimit -f`), or use another place",
    errno.EROFS: "use another place",
    errno.EACCES: "check its permissions, or use another place",
    errno.EIO: "check the disk",
}


def reason(error: OSError) -> str:
    """Why a file could not be read or written, and what to do about it."""
    why, remedy = error.strerror or str(error), _REMEDIES.get(error.errno or 0)
    return why if remedy is None else f"{why}; {remedy}"


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Adds the file to errors of writing to it, which the system reports without a name."""
    try:
        yield
    except OSError as error:
        if error.filename is None and is_writing(error):
            error.filename = str(path)
        raise


def is_writing(error: OSError) -> bool:
    """Whether an error is of the kind that writing to an open file has."""
    return error.errno in _REMEDIES


class IrregularFile(InterlinguaError, OSError):
    """A FIFO, device, socket, folder or link where a regular file is expected."""

    def __init__(self, path: str | Path, kind: str) -> None:
        super().__init__(f"{path} is {kind}; a regular file is expected there")
        self.strerror = f"is {kind}; a regular file is expected there"


def open_regular(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o600, *, follow: bool = False) -> int:
    """The descriptor of a regular file; raises IrregularFile for anything else, OSError as `os.open` does.

    With `follow`, a descriptor that this process was given (`/dev/stdin`, `<(command)` in a shell) may be anything.
    """
    if follow and str(path).startswith(_OPEN_ALREADY):
        return os.open(path, flags)
    try:
        handle = os.open(path, flags | _FLAGS | (0 if follow else _NOFOLLOW), mode)
    except ValueError as error:  # a NUL, or a surrogate that the file system's encoding has no bytes for
        raise OSError(errno.EINVAL, f"not a path: {error}", str(path)) from None
    except OSError as error:
        raise _explained(path, error) from None
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind != stat.S_IFREG:
        os.close(handle)
        raise IrregularFile(path, _KINDS.get(kind, "no regular file"))
    return handle


def kind_of(path: str | Path) -> str | None:
    """What a path leads to if it is there and no regular file: `a FIFO`, `a device`, `a folder`."""
    try:
        kind = stat.S_IFMT(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return None
    return None if kind == stat.S_IFREG else _KINDS.get(kind, "no regular file")


def _explained(path: str | Path, error: OSError) -> OSError:
    """The error, or IrregularFile if that is its cause: a link (ELOOP), a socket or a FIFO without a reader (ENXIO)."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return error
    if error.errno == errno.ELOOP and kind == stat.S_IFLNK:
        return IrregularFile(path, "a link")
    return IrregularFile(path, _KINDS[kind]) if kind in _KINDS else error


def read_regular(path: str | Path, limit: int | None = None, *, follow: bool = True) -> bytes:
    """The content of a regular file, of at most `limit` bytes; longer ones raise InterlinguaError."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        data = file.read() if limit is None else file.read(limit + 1)
    if limit is not None and len(data) > limit:
        raise InterlinguaError(f"{path} is larger than {limit:,} bytes; a smaller file is expected there")
    return data


def private_database(path: str | Path) -> None:
    """Sees that a SQLite database and the files beside it are regular; a missing one is created for its owner alone.

    None that exists is opened: closing any descriptor of it drops the locks of all connections that this process has
    to it (sqlite.org/howtocorrupt.html, section 2.2), and another one then deletes the log under them.
    """
    for place in (str(path), f"{path}-wal", f"{path}-shm", f"{path}-journal"):
        try:
            kind = stat.S_IFMT(os.lstat(place).st_mode)
        except FileNotFoundError:
            continue
        except ValueError as error:
            raise OSError(errno.EINVAL, f"not a path: {error}", place) from None
        if kind != stat.S_IFREG:
            raise IrregularFile(place, _KINDS.get(kind, "a link"))
    with contextlib.suppress(FileExistsError):
        os.close(open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))


def stream_regular(path: str | Path) -> BinaryIO:
    """A regular file, open for reading; large ones are read line by line, in few calls of the system."""
    return os.fdopen(open_regular(path, follow=True), "rb", _BUFFER)


_BUFFER = 1 << 16
