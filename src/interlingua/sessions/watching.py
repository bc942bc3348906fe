"""File watching: inotify on Linux; elsewhere polling of file times, with increasing intervals.

A watch may report a spurious change; it never misses one. A `FolderWatch` reports which files below a folder changed.
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
RESCAN = 30.0 if sys.platform == "linux" else 2.0  # seconds; a folder's time does not change with its files
MAX_FOLDERS = 20_000  # watched at most
_MIN_INTERVAL, _MAX_INTERVAL = 0.1, 2.0  # seconds between polls, at first and at most


class Watch(Protocol):
    """Waits for changes."""

    async def wait(self, timeout: float | None = None) -> bool:
        """Waits for a change since the last reported one; False on timeout."""
        ...

    def close(self) -> None: ...


class PathWatch:
    """Watches files and folders. `paths` that do not exist are noticed when they are created."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = list(paths)
        self._changed: set[Path] = set()
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._kernel = _Kernel.start() if sys.platform == "linux" else None
        self._watched: dict[int, Path] = {}
        self._states = {path: _state(path) for path in self._paths}
        self._interval = _MIN_INTERVAL
        if self._kernel is not None:
            self._loop.add_reader(self._kernel.file, self._read)
            self._watch_all()

    def add(self, path: Path) -> None:
        """Adds a path."""
        if path not in self._states:
            self._paths.append(path)
            self._states[path] = _state(path)
            if self._kernel is not None:
                self._watch_all()

    def taken(self) -> set[Path]:
        """The paths that changed since the last call: given files, or files in given folders."""
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

    # --- inotify

    def _watch_all(self) -> None:
        """Watches each path and its folder, for creation and deletion; adding a watch twice has no effect."""
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
            # inotify(7): the queue was full and events are lost; any path may have changed.
            if mask & _OVERFLOW:
                self._changed.update(self._paths)
            elif folder is not None:
                self._note(folder, name)
            # inotify(7): the watch was removed, because the file was deleted or its file system unmounted.
            if mask & _IGNORED:
                self._watched.pop(watch, None)
        if self._changed:
            self._watch_all()  # a replaced file has a new inode
            self._event.set()

    def _note(self, where: Path, name: str) -> None:
        path = where / name if name else where
        if path in self._states or where in self._states:
            self._changed.add(path)

    # --- polling

    async def _poll(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else self._loop.time() + timeout
        while True:
            for path, before in list(self._states.items()):
                now = _state(path)
                if now != before:
                    self._states[path] = now
                    self._changed.add(path)
            if self._changed:
                self._interval = _MIN_INTERVAL
                return True
            left = self._interval if deadline is None else min(self._interval, deadline - self._loop.time())
            if left <= 0:
                return False
            await asyncio.sleep(left)
            self._interval = min(self._interval * 1.5, _MAX_INTERVAL)


class FolderWatch:
    """Which files below a folder changed, those of folders that come later included."""

    def __init__(self, root: Path, wanted: Callable[[Path], bool], depth: int | None = None) -> None:
        self.root = root
        self._wanted = wanted
        self._depth = depth
        self._watch = PathWatch([root])
        self._folders: set[Path] = set()
        self._states: dict[Path, tuple[int, int]] = {}

    async def scan(self) -> list[Path]:
        """The files that changed since the last scan, the latest first; at first, all of them."""
        while True:
            folders, found = await asyncio.to_thread(self._walked)
            states = {path: (state.st_mtime_ns, state.st_size) for path, state in found.items()}
            new, self._folders = folders - self._folders, folders
            for folder in new:
                self._watch.add(folder)
            if not new:  # else files may have changed before their folder was watched
                break
        before, self._states = self._states, states
        changed = [path for path, state in states.items() if before.get(path) != state]
        changed += [path for path in before if path not in states]
        return sorted(changed, key=lambda path: states.get(path, (0, 0)), reverse=True)

    async def wait(self, timeout: float) -> list[Path]:
        """Waits for a change, and gives the files that changed."""
        notified = await self._watch.wait(min(timeout, RESCAN))
        changed = self._watch.taken()
        known = {path for path in changed if path in self._states}
        if notified and changed and known == changed:
            return [path for path in known if self._note(path)]
        return await self.scan() if notified or timeout >= RESCAN else []

    def _note(self, path: Path) -> bool:
        try:
            found = path.stat()
        except OSError:
            self._states.pop(path, None)
            return True
        state = (found.st_mtime_ns, found.st_size)
        is_new, self._states[path] = self._states.get(path) != state, state
        return is_new

    def _walked(self) -> tuple[set[Path], dict[Path, os.stat_result]]:
        if not self.root.is_dir():  # its coming is seen from the nearest folder that is there
            return {next(folder for folder in self.root.parents if folder.is_dir())}, {}
        return walk(self.root, self._wanted, self._depth, limit=MAX_FOLDERS)

    def close(self) -> None:
        self._watch.close()


def walk(
    root: Path,
    wanted: Callable[[Path], bool],
    depth: int | None = None,
    *,
    limit: int | None = None,
    enter: Callable[[Path], bool] = lambda folder: True,
    failed: Callable[[Path, OSError], object] = lambda path, error: None,
) -> tuple[set[Path], dict[Path, os.stat_result]]:
    """Returns the folders below a root, and the matching files in them; links to folders are not followed.

    `failed` is called for a folder that is missing or unreadable.
    """
    folders: set[Path] = set()
    states: dict[Path, os.stat_result] = {}
    waiting = [(root, 0)]
    while waiting and (limit is None or len(folders) < limit):
        folder, level = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            failed(folder, error)
            continue
        folders.add(folder)
        for entry in entries:
            path = Path(entry.path)
            try:
                if entry.is_dir(follow_symlinks=False):
                    if (depth is None or level < depth) and enter(path):
                        waiting.append((path, level + 1))
                elif wanted(path):
                    states[path] = entry.stat()
            except OSError as error:
                failed(path, error)
    return folders, states


class _Kernel:
    """inotify through the C library."""

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
        return cls(library, file) if file >= 0 else None  # too many open instances: poll instead

    def watch(self, path: Path) -> int | None:
        found = self._library.inotify_add_watch(self.file, os.fsencode(path), _MASK)
        return found if found >= 0 else None

    def events(self) -> list[tuple[int, int, str]]:
        out: list[tuple[int, int, str]] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                # inotify(7): a read gives whole events, names padded with NUL bytes.
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


_STEP = 5.0  # seconds that a thread blocks at a time


class ThreadWatch:
    """A watch on a blocking function: `block(seconds)` runs in a thread and returns whether something changed."""

    def __init__(self, block: Callable[[float], bool], close: Callable[[], None]) -> None:
        self._block = block
        self._close = close
        self._task: asyncio.Task[bool] | None = None

    async def wait(self, timeout: float | None = None) -> bool:
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            if self._task is None:
                # It stays when `wait` times out: the thread cannot be stopped, and what it finds is for the next call.
                self._task = asyncio.ensure_future(asyncio.to_thread(self._block, _STEP))
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
