"""File systems for tools: a local directory, and one in memory.

Any object with the six methods of `FsBridge` is a bridge; `adapted_bridge` adds the two bytes methods that tools use.
Optional attributes: `local_root`, the directory on this machine (so that ripgrep and fd can search it), with `locate`
and `kinds`; and `rename`.
"""

import asyncio
import inspect
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..values.errors import ToolInputError
from ..values.interop import attribute
from .access import permitted, require_permission
from .confined_fs import ConfinedTree, NoSuchFile, TooLarge
from .paths import OutsideRoot, Parts, has_variants, shown, spellings, strip_root, variant
from .tool import FsBridge, FsStat, MissingContext, ToolContext

__all__ = [
    "AdaptedBridge",
    "ByteBridge",
    "LocalBridge",
    "MemoryBridge",
    "NoSuchFile",
    "OutsideRoot",
    "TooLarge",
    "adapted_bridge",
    "context_bridge",
    "create_node_bridge",
    "local_bridge",
    "memory_bridge",
]

MAX_BYTES = 64 * 1024 * 1024


def local_bridge(root: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> "LocalBridge":
    """A bridge confined to the files below `root`, also under concurrent changes of the tree."""
    return LocalBridge(ConfinedTree(Path(root), max_bytes))


create_node_bridge = local_bridge


def memory_bridge(files: Mapping[str, str | bytes] | None = None, *, max_bytes: int = MAX_BYTES) -> "MemoryBridge":
    """A bridge to files in memory, initially `files`."""
    bridge = MemoryBridge(max_bytes)
    for path, content in (files or {}).items():
        bridge.put(path, content if isinstance(content, bytes) else _encoded(path, content))
    return bridge


class ByteBridge(FsBridge, Protocol):
    """A bridge with the methods for bytes that tools use."""

    async def read_bytes(self, path: str) -> bytes: ...
    async def write_bytes(self, path: str, data: bytes) -> None: ...


def context_bridge(context: ToolContext) -> ByteBridge:
    """The context's bridge, or a local one below its root. Raises `MissingContext` if it has neither."""
    if context.bridge is not None:
        return adapted_bridge(context.bridge, context.root)
    if context.root is None:
        raise MissingContext("root", "bridge")
    return local_bridge(context.root)


def adapted_bridge(bridge: Any, root: str | None = None) -> ByteBridge:
    """The bridge itself if it reads and writes bytes, else an adapter over its text methods."""
    if callable(getattr(bridge, "read_bytes", None)) and callable(getattr(bridge, "write_bytes", None)):
        whole: ByteBridge = bridge
        return whole
    return AdaptedBridge(bridge, root)


class AdaptedBridge:
    """An adapter for a foreign bridge: the six methods in either spelling, results as our types.

    An absolute path inside `root` is passed to the bridge relative to the root.
    """

    def __init__(self, bridge: Any, root: str | None = None) -> None:
        self._bridge = bridge
        self._roots = (root,) if root is not None else ()
        if callable(getattr(bridge, "rename", None)):
            self.rename = self._rename

    async def read_file(self, path: str) -> str:
        return _decoded(path, await self.read_bytes(path))

    async def read_bytes(self, path: str) -> bytes:
        try:
            content = await self._call("read_file", path)
        except UnicodeDecodeError:
            raise ToolInputError(
                f"{shown(path)}: not UTF-8 text, and these files are read as text only; "
                "a bridge with read_bytes(path) reads any file"
            ) from None
        # Restores bytes that Python decoded with surrogateescape.
        return content.encode("utf-8", "surrogateescape") if isinstance(content, str) else bytes(content)

    async def write_file(self, path: str, content: str) -> None:
        await self._call("write_file", path, content)

    async def write_bytes(self, path: str, data: bytes) -> None:
        try:
            content = data.decode()
        except UnicodeDecodeError:
            raise ToolInputError(
                f"{shown(path)}: not UTF-8 text, and these files are written as text only; "
                "a bridge with write_bytes(path, data) takes any file"
            ) from None
        await self.write_file(path, content)

    async def stat(self, path: str) -> FsStat | None:
        found = await self._call("stat", path)
        if found is None or isinstance(found, FsStat):
            return found
        kind = attribute(found, "type")
        directory = bool(attribute(found, "is_directory", kind == "directory"))
        return FsStat(
            is_file=bool(attribute(found, "is_file", kind == "file" if kind else not directory)),
            is_directory=directory,
            size=int(attribute(found, "size", 0)),
            mtime_ms=float(attribute(found, "mtime_ms", 0)),
        )

    async def readdir(self, path: str) -> list[str]:
        return [str(name) for name in await self._call("readdir", path)]

    async def unlink(self, path: str) -> None:
        await self._call("unlink", path)

    async def mkdir(self, path: str) -> None:
        await self._call("mkdir", path)

    def from_root(self, path: str) -> str:
        """The path that is passed to the bridge."""
        inside = strip_root(path, self._roots) if path.startswith("/") else None
        return path if inside is None else inside or "."

    async def _rename(self, old: str, new: str) -> None:
        await self._call("rename", old, self.from_root(new))

    async def _call(self, method: str, path: str, *more: str) -> Any:
        call = attribute(self._bridge, method)
        if not callable(call):
            raise ToolInputError(f"{shown(path)}: these files have no {method}; give the bridge that method")
        try:
            answer = call(self.from_root(path), *more)
            return await answer if inspect.isawaitable(answer) else answer
        except KeyError:  # a bridge over a dict
            raise NoSuchFile(path) from None


class LocalBridge:
    """A bridge to a local directory; blocking work runs in threads."""

    def __init__(self, tree: ConfinedTree) -> None:
        self._tree = tree

    @property
    def local_root(self) -> str:
        return self._tree.root

    async def locate(self, path: str) -> str:
        """The real path of `path` from the root, with links resolved; empty for the root itself."""
        return "/".join(await asyncio.to_thread(self._tree.locate, path))

    async def variant(self, path: str) -> str | None:
        """The similar path that is read instead of `path`, if `path` does not exist."""
        return await asyncio.to_thread(self._tree.variant, path)

    async def kinds(self, paths: Sequence[str]) -> list[str | None]:
        """The kind of each path: file, directory, link or other; None if missing or inaccessible."""
        return await asyncio.to_thread(lambda: [self._tree.kind(path) for path in paths])

    async def read_file(self, path: str) -> str:
        return _decoded(path, await self.read_bytes(path))

    async def write_file(self, path: str, content: str) -> None:
        await self.write_bytes(path, _encoded(path, content))

    async def stat(self, path: str) -> FsStat | None:
        return await asyncio.to_thread(self._tree.stat, path)

    async def readdir(self, path: str) -> list[str]:
        return await asyncio.to_thread(self._names, path)

    async def unlink(self, path: str) -> None:
        await asyncio.to_thread(self._tree.unlink, path)

    async def mkdir(self, path: str) -> None:
        await asyncio.to_thread(self._tree.make_directory, path)

    async def read_bytes(self, path: str) -> bytes:
        return await asyncio.to_thread(self._tree.read, path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        if len(data) > self._tree.max_bytes:
            raise TooLarge(path, len(data), self._tree.max_bytes)
        await asyncio.to_thread(self._tree.write, path, data)

    async def rename(self, old: str, new: str) -> None:
        await asyncio.to_thread(self._tree.rename, old, new)

    def _names(self, path: str) -> list[str]:
        return sorted(
            name + "/" if kind == "directory" or (kind == "link" and self._leads_to_directory(path, name)) else name
            for name, kind in self._tree.entries(path)
        )

    def _leads_to_directory(self, path: str, name: str) -> bool:
        try:
            info = self._tree.stat(f"{path or '.'}/{name}")
        except ToolInputError:  # it leaves the root: listed, never entered
            return False
        return info is not None and info.is_directory


class MemoryBridge:
    """A bridge to files in memory."""

    def __init__(self, max_bytes: int) -> None:
        self._files: dict[Parts, tuple[bytes, float]] = {}
        self._directories: set[Parts] = {()}
        self._max_bytes = max_bytes

    def put(self, path: str, data: bytes) -> None:
        if len(data) > self._max_bytes:
            raise TooLarge(path, len(data), self._max_bytes)
        parts = self._exact(path)
        if parts in self._directories:
            raise ToolInputError(f"{shown(path)}: is a directory")
        self._make(parts[:-1], path)
        self._files[parts] = (data, time.time() * 1000)

    async def read_file(self, path: str) -> str:
        return _decoded(path, await self.read_bytes(path))

    async def write_file(self, path: str, content: str) -> None:
        self.put(path, _encoded(path, content))

    async def stat(self, path: str) -> FsStat | None:
        parts = self._parts(path)
        if parts in self._directories:
            return FsStat(is_file=False, is_directory=True, size=0, mtime_ms=0)
        if parts not in self._files:
            return None
        data, changed = self._files[parts]
        return FsStat(is_file=True, is_directory=False, size=len(data), mtime_ms=changed)

    async def readdir(self, path: str) -> list[str]:
        parts = self._parts(path)
        if parts in self._files:
            raise ToolInputError(f"{shown(path)}: not a directory")
        if parts not in self._directories:
            raise NoSuchFile(path)
        inside = [name[-1] + "/" for name in self._directories if name and name[:-1] == parts]
        names = inside + [name[-1] for name in self._files if name[:-1] == parts]
        return sorted(name for name in names if permitted("/".join((*parts, name.rstrip("/")))))

    async def unlink(self, path: str) -> None:
        parts = self._exact(path)
        if parts in self._directories:
            raise ToolInputError(f"{shown(path)}: is a directory; only files are removed")
        if self._files.pop(parts, None) is None:
            raise NoSuchFile(path)

    async def mkdir(self, path: str) -> None:
        parts = self._exact(path)
        if parts in self._files:
            raise ToolInputError(f"{shown(path)}: exists and is not a directory")
        self._make(parts, path)

    async def read_bytes(self, path: str) -> bytes:
        parts = self._parts(path)
        if parts in self._directories:
            raise ToolInputError(f"{shown(path)}: is a directory")
        if parts not in self._files:
            raise NoSuchFile(path)
        return self._files[parts][0]

    async def write_bytes(self, path: str, data: bytes) -> None:
        self.put(path, data)

    async def variant(self, path: str) -> str | None:
        """The similar path that is read instead of `path`, if `path` does not exist."""
        found = self._parts(path)
        return None if found == spellings(path)[0] else "/".join(found)

    def _exact(self, path: str) -> Parts:
        parts = spellings(path)[0]
        require_permission(path, "/".join(parts) or ".")
        return parts

    def _parts(self, path: str) -> Parts:
        parts = self._resolved_parts(path)
        require_permission(path, "/".join(parts) or ".")
        return parts

    def _resolved_parts(self, path: str) -> Parts:
        """The path itself if it exists or nothing is similar; else the similar one."""
        literal, *others = spellings(path)
        if literal in self._files or literal in self._directories or not has_variants(path):
            return literal
        found = (variant(parts, self._names_in) for parts in (*others, literal))
        return next((parts for parts in found if parts is not None), literal)

    def _names_in(self, parts: Parts) -> list[str]:
        below = (*self._files, *self._directories)
        return [path[len(parts)] for path in below if len(path) == len(parts) + 1 and path[: len(parts)] == parts]

    def _make(self, parts: Parts, path: str) -> None:
        ways = [parts[:depth] for depth in range(1, len(parts) + 1)]
        if any(way in self._files for way in ways):
            raise ToolInputError(f"{shown(path)}: a part of it is a file, not a directory")
        self._directories.update(ways)


def _decoded(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolInputError(f"{shown(path)}: not UTF-8 text (byte {error.start:,})") from None


def _encoded(path: str, content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolInputError(
            f"{shown(path)}: unpaired surrogate in the text (at {error.start:,}); send valid Unicode"
        ) from None
