"""The write lock of a session: a lock file that names its owner, released by the system when the owner dies.

The kernel's `flock` decides where it is supported. The content (process, host, start time) is for error messages, and
for file systems without such locks, where an owner is dead if its process no longer runs.
"""

import contextlib
import errno
import functools
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from ..values.places import private_folder
from ..values.regular import open_regular
from .store import SessionBusy, SessionError

try:
    import fcntl
except ImportError:  # Windows: the file's existence is the lock
    fcntl = None  # type: ignore[assignment]

_UNSUPPORTED = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL}
_RETRIES = 20
_BREAK_DELAY = 0.25  # seconds before the lock of a dead owner is broken: the next owner may be writing its name
_STALE = 30 * 60  # seconds without a heartbeat after which an owner on another host counts as dead


class Owner(Struct, frozen=True, omit_defaults=True):
    """The lock's owner; `started` distinguishes a process from a later one with the same pid."""

    pid: int
    host: str
    started: str | None
    token: str
    since: float

    @classmethod
    def current(cls) -> "Owner":
        pid = os.getpid()
        return cls(pid, socket.gethostname(), _own_start(pid), secrets.token_hex(8), time.time())

    @property
    def is_dead(self) -> bool:
        """Whether the process certainly no longer runs; unknown for another host."""
        if self.host != socket.gethostname():
            return False
        try:
            # kill(2): signal 0 sends nothing, and fails with ESRCH if there is no such process.
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        # EPERM: it exists, and is another user's.
        except PermissionError:
            pass
        return self.started is not None and _started(self.pid) not in (None, self.started)

    def __str__(self) -> str:
        who = "this process" if self.pid == os.getpid() else f"process {self.pid}"
        return f"{who} on {self.host}, since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.since))}"


class Lease:
    """A write lock that this process owns until `release`."""

    def __init__(self, path: Path, file: int, owner: Owner, after: Owner | None) -> None:
        self._path = path
        self._file = file
        self.owner = owner
        self.after = after  # the previous owner, if it died with the lock

    @classmethod
    def take(cls, path: Path) -> "Lease":
        """Takes the lock at `path`, also from a dead owner; raises SessionBusy if a live one has it."""
        private_folder(path.parent)
        if fcntl is None:
            return cls._take_by_existence(path)
        seen: Owner | None = None
        for _ in range(_RETRIES):
            with _opened(path) as lock:
                before, locked = _read(lock.file), _locked(lock.file)
                if locked and (owner := _signed(lock.file, path)) is not None:
                    return cls(path, lock.keep(), owner, before)
            if locked is None:
                if before is None:
                    path.unlink(missing_ok=True)  # created just now, to try the lock
                return cls._take_by_existence(path)
            if not locked:
                seen = _broken_or_busy(path, before, seen)
        raise SessionBusy(path, None)

    @classmethod
    def _take_by_existence(cls, path: Path) -> "Lease":
        for _ in range(_RETRIES):
            try:
                file = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                _clear_dead(path)
                continue
            return cls(path, file, _write(file), None)
        raise SessionBusy(path, None)

    @property
    def is_owned(self) -> bool:
        """Whether it is still ours: the lock file may be deleted, or this is a fork of the owner."""
        return self.owner.pid == os.getpid() and _is_at(self._file, self._path)

    def check(self) -> None:
        if not self.is_owned:
            raise SessionError(
                f"{self._path}: the write lock was lost (the lock file was removed, or this is a forked process);"
                " open the session again"
            )

    def beat(self) -> None:
        """A heartbeat, for hosts without kernel locks on this file system."""
        os.utime(self._file)

    def release(self) -> None:
        if self._file < 0:
            return
        # Removed while it is locked: afterwards the name could be another owner's file.
        if self.is_owned:
            self._path.unlink(missing_ok=True)
        os.close(self._file)
        self._file = -1


def is_locked(path: Path) -> bool:
    """Whether a live writer has the lock; does not take it."""
    try:
        file = open_regular(path)
    except OSError:
        return False
    try:
        owner = _read(file)
    finally:
        os.close(file)
    return owner is not None and not owner.is_dead


class _Handle:
    """An open file that is closed unless `keep` was called."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.keeps_open = False

    def keep(self) -> int:
        self.keeps_open = True
        return self.file


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Handle]:
    handle = _Handle(open_regular(path, os.O_RDWR | os.O_CREAT))
    try:
        _refuse_others(handle.file, path)
        yield handle
    finally:
        if not handle.keeps_open:
            os.close(handle.file)


def _signed(file: int, path: Path) -> Owner | None:
    """Writes this process as owner into a locked file; None if the file is no longer the one at its path."""
    # A lock on a file that its former owner has removed excludes nobody: checked before and after the write.
    owner = _write(file) if _is_at(file, path) else None
    return owner if _is_at(file, path) else None


def _locked(file: int) -> bool | None:
    """Whether the kernel granted the lock; None if it supports none."""
    try:
        # flock(2) belongs to the open file, not to the process as fcntl(2) locks do: two sessions of one process
        # exclude each other.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return None
        raise
    return True


def _broken_or_busy(path: Path, owner: Owner | None, seen: Owner | None) -> Owner | None:
    """Breaks a lock that outlives its owner (a fork of it has the file open) on the second try; raises SessionBusy."""
    if owner is not None and not owner.is_dead:
        raise SessionBusy(path, owner)
    if owner is not None and owner == seen:
        path.unlink(missing_ok=True)
        return None
    time.sleep(_BREAK_DELAY)
    return owner


def _clear_dead(path: Path) -> None:
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return
    try:
        _refuse_others(file, path)
        owner, age = _read(file), time.time() - os.fstat(file).st_mtime
    finally:
        os.close(file)
    if owner is None and age < 1:
        time.sleep(_BREAK_DELAY)  # it is being written
    elif owner is None or owner.is_dead or (owner.host != socket.gethostname() and age > _STALE):
        path.unlink(missing_ok=True)
    else:
        raise SessionBusy(path, owner)


def _refuse_others(file: int, path: Path) -> None:
    """Raises SessionError unless the file is empty or was written as a lock: it may be a foreign file."""
    # A hard link that somebody else made here would have its target overwritten.
    if os.fstat(file).st_nlink > 1:
        raise SessionError(f"{path} is a link to another file and cannot be a lock; move it away")
    found = os.pread(file, 4097, 0)
    text = found.strip(b"\0")  # a power cut may leave zeros
    if len(found) > 4096 or (text and not text.startswith(b'{"pid":')):
        raise SessionError(f"{path} is needed for a lock and is not a lock file; move it away, or rename the session")


def _is_at(file: int, path: Path) -> bool:
    try:
        there = path.lstat()
    except OSError:
        return False
    return file >= 0 and os.path.samestat(os.fstat(file), there)


def _read(file: int) -> Owner | None:
    try:
        return msgspec.json.decode(os.pread(file, 4096, 0), type=Owner)
    except msgspec.MsgspecError:
        return None


def _write(file: int) -> Owner:
    owner = Owner.current()
    data = msgspec.json.encode(owner) + b"\n"
    os.pwrite(file, data, 0)
    os.ftruncate(file, len(data))
    return owner


@functools.cache
def _own_start(pid: int) -> str | None:
    """The start time of this process; a fork of it has another pid."""
    return _started(pid)


def _started(pid: int) -> str | None:
    """The start time of a process in clock ticks since boot (field 22 of /proc/PID/stat)."""
    try:
        # proc_pid_stat(5): the name is in parentheses, and may itself contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return fields[19].decode()
