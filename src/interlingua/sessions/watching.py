"""Waiting for files to change, without asking again and again where the system can tell.

On Linux the kernel tells (inotify); elsewhere the files' times are looked at, less often the longer nothing happens.
A watch may report a change that is none; it never misses one.
"""

import asyncio
import contextlib
import ctypes
import ctypes.util
import os
import struct
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_MODIFY, _ATTRIB, _MOVED, _CREATE, _DELETE, _SELF = 0x2, 0x4, 0xC0, 0x100, 0x200, 0xC00
_MASK = _MODIFY | _ATTRIB | _MOVED | _CREATE | _DELETE | _SELF
_IGNORED = 0x8000
_OVERFLOW = 0x4000
_FIRST_LOOK, _LAST_LOOK = 0.1, 2.0  # seconds between looks where the system does not tell


class Watch(Protocol):
    """Something to wait on."""

    async def wait(self, timeout: float | None = None) -> bool:
        """Waits for a change since the last one that was reported; False when the time is over."""
        ...

    def close(self) -> None: ...


class PathWatch:
    """Changes of files and of what is in folders. `paths` may be missing: their folders are watched for them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = list(paths)
        self._changed: set[Path] = set()
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._kernel = _Kernel.start() if sys.platform == "linux" else None
        self._watched: dict[int, Path] = {}
        self._states = {path: _state(path) for path in self._paths}
        self._pause = _FIRST_LOOK
        if self._kernel is not None:
            self._loop.add_reader(self._kernel.file, self._read)
            self._watch_all()

    def add(self, path: Path) -> None:
        """Watches one more path from now on."""
        if path not in self._states:
            self._paths.append(path)
            self._states[path] = _state(path)
            if self._kernel is not None:
                self._watch_all()

    def taken(self) -> set[Path]:
        """The paths that changed since this was last asked: files as given, or files in folders that were given."""
        changed, self._changed = self._changed, set()
        return changed

    async def wait(self, timeout: float | None = None) -> bool:
        if self._kernel is None:
            return await self._poll(timeout)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
        found = self._event.is_set()
        self._event.clear()
        return found

    def close(self) -> None:
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.file)
            self._kernel.close()
            self._kernel = None

    # --- told by the kernel

    def _watch_all(self) -> None:
        """Watches the paths, and the folder of each for its coming and going. To ask twice is to ask once."""
        assert self._kernel is not None
        for path in self._paths:
            for one in (path, path.parent):
                watch = self._kernel.watch(one)
                if watch is not None:
                    self._watched[watch] = one

    def _read(self) -> None:
        if self._kernel is None:
            return
        for watch, mask, name in self._kernel.events():
            folder = self._watched.get(watch)
            if mask & _OVERFLOW:
                self._changed.update(self._paths)
            elif folder is not None:
                self._note(folder, name)
            if mask & _IGNORED:
                self._watched.pop(watch, None)
        if self._changed:
            self._watch_all()  # a file that was replaced is another to the kernel
            self._event.set()

    def _note(self, where: Path, name: str) -> None:
        path = where / name if name else where
        if path in self._states or where in self._states:
            self._changed.add(path)

    # --- seen by looking

    async def _poll(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else self._loop.time() + timeout
        while True:
            for path, before in list(self._states.items()):
                now = _state(path)
                if now != before:
                    self._states[path] = now
                    self._changed.add(path)
            if self._changed:
                self._pause = _FIRST_LOOK
                return True
            left = self._pause if deadline is None else min(self._pause, deadline - self._loop.time())
            if left <= 0:
                return False
            await asyncio.sleep(left)
            self._pause = min(self._pause * 1.5, _LAST_LOOK)


class _Kernel:
    """The system's own watching, through the C library."""

    def __init__(self, library: Any, file: int) -> None:
        self._library = library
        self.file = file

    @classmethod
    def start(cls) -> "_Kernel | None":
        try:
            library = ctypes.CDLL(ctypes.util.find_library("c") or "libc.so.6", use_errno=True)
            file = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return None
        return cls(library, file) if file >= 0 else None  # too many of them are open: look instead

    def watch(self, path: Path) -> int | None:
        found = self._library.inotify_add_watch(self.file, os.fsencode(path), _MASK)
        return found if found >= 0 else None

    def events(self) -> list[tuple[int, int, str]]:
        out: list[tuple[int, int, str]] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                data = os.read(self.file, 64 * 1024)
                at = 0
                while at < len(data):
                    watch, mask, _, length = _EVENT.unpack_from(data, at)
                    at += _EVENT.size
                    out.append((watch, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))))
                    at += length
        return out

    def close(self) -> None:
        os.close(self.file)


class ThreadWatch:
    """A watch whose waiting blocks: `block(seconds)` says whether something changed, in a thread of its own."""

    def __init__(self, block: Callable[[float], bool], close: Callable[[], None], step: float = 5.0) -> None:
        self._block = block
        self._close = close
        self._step = step
        self._task: asyncio.Task[bool] | None = None

    async def wait(self, timeout: float | None = None) -> bool:
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            if self._task is None:
                self._task = asyncio.ensure_future(asyncio.to_thread(self._block, self._step))
            left = None if deadline is None else max(0.0, deadline - loop.time())
            done, _ = await asyncio.wait({self._task}, timeout=left)
            if not done:
                return False
            changed, self._task = self._task.result(), None
            if changed:
                return True

    def close(self) -> None:
        self._close()


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
