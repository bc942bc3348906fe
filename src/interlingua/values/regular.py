"""Opens regular files only: never a FIFO, device, socket or folder, and never blocks on one.

Our own files (`follow=False`) are not opened through symlinks, so that a link cannot redirect a read or a write. A file
that the user names may be a link.
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
    """Returns why a file could not be read or written, and the remedy."""
    why, remedy = error.strerror or str(error), _REMEDIES.get(error.errno or 0)
    return why if remedy is None else f"{why}; {remedy}"


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Adds the file name to write errors, which the system reports without one."""
    try:
        yield
    except OSError as error:
        if error.filename is None and is_writing(error):
            error.filename = str(path)
        raise


def is_writing(error: OSError) -> bool:
    """Whether an error comes from writing to an open file."""
    return error.errno in _REMEDIES


class IrregularFile(InterlinguaError, OSError):
    """A FIFO, device, socket, folder or link where a regular file is expected."""

    def __init__(self, path: str | Path, kind: str) -> None:
        super().__init__(f"{path} is {kind}; a regular file is expected there")
        self.strerror = f"is {kind}; a regular file is expected there"


def open_regular(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o600, *, follow: bool = False) -> int:
    """Returns the descriptor of a regular file; raises IrregularFile for anything else, OSError as `os.open` does.

    With `follow`, a descriptor that this process inherited (`/dev/stdin`, `<(command)` in a shell) may be anything.
    """
    if follow and str(path).startswith(_OPEN_ALREADY):
        return os.open(path, flags)
    try:
        handle = os.open(path, flags | _FLAGS | (0 if follow else _NOFOLLOW), mode)
    except ValueError as error:  # a NUL, or a surrogate that the file system's encoding cannot represent
        raise OSError(errno.EINVAL, f"not a path: {error}", str(path)) from None
    except OSError as error:
        raise _explained(path, error) from None
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind != stat.S_IFREG:
        os.close(handle)
        raise IrregularFile(path, _KINDS.get(kind, "no regular file"))
    return handle


def kind_of(path: str | Path) -> str | None:
    """Returns the kind of a path that exists and is not a regular file: `a FIFO`, `a device`, `a folder`."""
    try:
        kind = stat.S_IFMT(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return None
    return None if kind == stat.S_IFREG else _KINDS.get(kind, "no regular file")


def _explained(path: str | Path, error: OSError) -> OSError:
    """Returns IrregularFile if that caused the error: a link (ELOOP), a socket or a FIFO without a reader (ENXIO)."""
    if error.errno == errno.EACCES:
        return error
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return error
    if error.errno == errno.ELOOP and kind == stat.S_IFLNK:
        return IrregularFile(path, "a link")
    return IrregularFile(path, _KINDS[kind]) if kind in _KINDS else error


def read_regular(path: str | Path, limit: int | None = None, *, follow: bool = True) -> bytes:
    """Returns the content of a regular file; raises InterlinguaError beyond `limit` bytes."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        data = file.read() if limit is None else file.read(limit + 1)
    if limit is not None and len(data) > limit:
        raise InterlinguaError(f"{path} is larger than {limit:,} bytes; a smaller file is expected there")
    return data


def private_database(path: str | Path) -> None:
    """Checks that a SQLite database and its companion files are regular; creates a missing one with mode 0600.

    An existing file is never opened: closing any descriptor of it drops the locks of all connections of this process
    (sqlite.org/howtocorrupt.html, section 2.2), and another one then deletes the log under them.
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
    """Opens a regular file for reading; large files are read line by line with few system calls."""
    return os.fdopen(open_regular(path, follow=True), "rb", _BUFFER)


_BUFFER = 1 << 16
