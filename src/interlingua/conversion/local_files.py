"""Atomic writes of local files."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from ..values.errors import InterlinguaError
from ..values.regular import naming, open_regular


@contextlib.contextmanager
def atomic(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Writes a file atomically: to a temporary file beside it, synced, then renamed.

    An existing file stays until then, and its permissions are kept; a new `private` one has mode 0600. A link is
    followed. An open descriptor (`/dev/stdout`), a pipe or a device is written to directly, since nothing can replace
    it.
    """
    descriptor = _OPEN.get(str(path))
    if descriptor is not None or (path.exists() and not path.is_file()):
        with naming(path), open(path if descriptor is None else os.dup(descriptor), "wb") as stream:  # noqa: PTH123
            yield stream
        return
    import tempfile  # slow to load

    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        error.filename = str(path)  # users know the target, not the temporary name
        raise
    try:
        with naming(path), os.fdopen(handle, "wb") as stream:
            yield stream
            synced(stream)
        usual = 0o600 if private else 0o666 & ~_umask()
        Path(name).chmod(path.stat().st_mode & 0o7777 if path.exists() else usual)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def resumable(path: Path, length: int = 0) -> Iterator[IO[bytes]]:
    """Like `atomic`, but the partial file is kept if the process is killed or interrupted, or the disk is full.

    The next run continues after its first `length` bytes.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    if length and not part.exists() and path.is_file() and path.stat().st_size == length:
        path.rename(part)  # it was complete already
    with naming(path), os.fdopen(open_regular(part, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as stream:
        lock(stream, path)
        if os.fstat(stream.fileno()).st_size < length:
            raise InterlinguaError(f"{part}: shorter than in the journal; run without --resume to start over")
        stream.truncate(length)
        stream.seek(length)
        try:
            yield stream
            synced(stream)
            if path.exists():
                part.chmod(path.stat().st_mode & 0o7777)
            part.replace(path)
        except (KeyboardInterrupt, OSError):
            raise
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def synced(stream: IO[bytes]) -> int:
    """Syncs a file to disk; returns its length."""
    stream.flush()
    os.fsync(stream.fileno())
    return stream.tell()


def lock(stream: IO[bytes], path: Path) -> None:
    """Locks a file while it is open; raises if another process has locked it."""
    try:
        import fcntl
    except ImportError:  # Windows: an open file cannot be opened for writing by another process
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InterlinguaError(f"{path}: another process is writing this file; wait for it, or name another") from None


def refuse_inputs(path: Path, inputs: Iterable[Path | None]) -> None:
    """Raises if an output would overwrite an input (None: standard input), under any name of either."""
    try:
        there = path.stat()
    except OSError:
        return
    if not stat.S_ISREG(there.st_mode):
        return
    for source in inputs:
        with contextlib.suppress(OSError, ValueError):
            found = source.stat() if source is not None else os.fstat(sys.stdin.fileno())
            if os.path.samestat(there, found):
                name = source if source is not None else "standard input"
                raise InterlinguaError(
                    f"{path}: the output would take the place of the input {name}; name another file"
                )


_OPEN = {f"{folder}/fd/{number}": number for folder in ("/dev", "/proc/self") for number in range(10)}
_OPEN |= {"/dev/stdout": 1, "/dev/stderr": 2}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
