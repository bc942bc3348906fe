"""The least that is a bridge, and a short way to call a tool."""

import importlib
import posixpath
from collections.abc import Awaitable, Callable
from typing import Any

from interlingua.tools.tool import FsStat, ToolContext, ToolResult


class DictBridge:
    """The least that is a bridge: a dict of files, directories made of their paths, errors as the system has them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.directories = {"."}

    async def read_file(self, path: str) -> str:
        return (await self.read_bytes(path)).decode()

    async def write_file(self, path: str, content: str) -> None:
        await self.write_bytes(path, content.encode())

    async def stat(self, path: str) -> FsStat | None:
        path = posixpath.normpath(path)
        if path in self.directories:
            return FsStat(is_file=False, is_directory=True, size=0, mtime_ms=0)
        data = self.files.get(path)
        return None if data is None else FsStat(is_file=True, is_directory=False, size=len(data), mtime_ms=0)

    async def readdir(self, path: str) -> list[str]:
        path = posixpath.normpath(path)
        if path not in self.directories:
            raise (NotADirectoryError if path in self.files else FileNotFoundError)(path)
        inside = [name + "/" for name in self.directories if name != "." and (posixpath.dirname(name) or ".") == path]
        inside += [name for name in self.files if (posixpath.dirname(name) or ".") == path]
        return [posixpath.basename(name.rstrip("/")) + "/" * name.endswith("/") for name in inside]

    async def unlink(self, path: str) -> None:
        path = posixpath.normpath(path)
        if path in self.directories:
            raise IsADirectoryError(21, "Is a directory", path)
        if path not in self.files:
            raise FileNotFoundError(path)
        del self.files[path]

    async def mkdir(self, path: str) -> None:
        path = posixpath.normpath(path)
        while path not in self.directories:
            if path in self.files:
                raise NotADirectoryError(20, "Not a directory", path)
            self.directories.add(path)
            path = posixpath.dirname(path) or "."

    async def read_bytes(self, path: str) -> bytes:
        path = posixpath.normpath(path)
        if path in self.directories:
            raise IsADirectoryError(21, "Is a directory", path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    async def write_bytes(self, path: str, data: bytes) -> None:
        path = posixpath.normpath(path)
        if path in self.directories:
            raise IsADirectoryError(21, "Is a directory", path)
        await self.mkdir(posixpath.dirname(path) or ".")
        self.files[path] = data


Call = Callable[..., Awaitable[ToolResult]]


def caller(context: ToolContext) -> Call:
    async def call(name: str, signal: Any = None, options: dict[str, Any] | None = None, **params: Any) -> ToolResult:
        module = importlib.import_module(f"interlingua.tools.core.{name}")
        tool = getattr(module, f"{name}_tool")(context, **(options or {}))
        return await tool.execute("call_1", params, signal)

    return call
