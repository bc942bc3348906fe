"""Local files, written whole or not at all."""

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from ..values.errors import InterlinguaError


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all: written beside its place, synced, then renamed.

    What is there already stays until then, and its permissions after. A link is followed. What is open already
    (`/dev/stdout`), a pipe or a device is written to directly, since nothing may take its place.
    """
    descriptor = _OPEN.get(str(path))
    if descriptor is not None or (path.exists() and not path.is_file()):
        with open(path if descriptor is None else os.dup(descriptor), "wb") as stream:  # noqa: PTH123
            yield stream
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def refuse_inputs(path: Path, inputs: Iterable[Path | None]) -> None:
    """Raises where an output would take the place of an input (None: standard input), whatever name either has."""
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
