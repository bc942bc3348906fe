"""Shared code of the file tools: arguments, paths, and bridge errors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ...values.messages import TextBlock
from ..access import require_as_written
from ..fs import ByteBridge
from ..params import read_string_param
from ..paths import shown
from ..tool import FsStat, ToolResult

PATH = {"type": "string", "description": "Path of the file, relative to the root (absolute if inside it)."}


def path_param(params: Mapping[str, Any], default: str | None = None) -> str:
    """The path of a call. Models trained on other tools use `file_path`, which counts only without `path`, since a
    policy checks `path`.
    """
    path = read_string_param(params, "path" if "path" in params else "file_path", trim=False) or default
    if path is None:
        raise ToolInputError("path required; give the path of the file")
    return path


def stop_if_aborted(signal: Abort | None) -> None:
    if signal is not None and signal.aborted:
        raise ToolInputError(f"stopped: {signal.reason or 'aborted'}")


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Converts OSErrors of a bridge to input errors that name the path. The running call must be allowed to use it."""
    require_as_written(path)
    try:
        yield
    except FileNotFoundError:
        raise ToolInputError(f"{shown(path)}: no such file or directory") from None
    except OSError as error:
        raise ToolInputError(f"{shown(path)}: {(error.strerror or str(error)).lower()}") from None


def from_root(path: str) -> str:
    """A path found by a search, for a bridge to read: prefixed if it looks like a home directory or URL."""
    return f"./{path}" if path.startswith("~") or ":" in path else path


async def contents(bridge: ByteBridge, path: str) -> bytes:
    with explained(path):
        return await bridge.read_bytes(path)


async def variant(bridge: ByteBridge, path: str) -> str | None:
    """The similar path that the bridge reads instead of `path`, if it supports that."""
    find = getattr(bridge, "variant", None)
    with explained(path):
        found: str | None = await find(path) if callable(find) else None
        return found


async def with_variant(bridge: ByteBridge, path: str, result: ToolResult) -> ToolResult:
    """The result of reading, with a notice if a similar path was read instead."""
    found = await variant(bridge, path)
    if found is None:
        return result
    return replace(
        result,
        content=(*result.content, variant_notice(path, found)),
        details={**(result.details or {}), "variant": found},
    )


def variant_notice(path: str, found: str) -> TextBlock:
    """Returns a notice of which file was read, with escapes that distinguish names that look the same."""
    return TextBlock(text=f"[No file {path!a}; this is {found!a}, which looks the same. To change it, use that name.]")


async def exact_contents(bridge: ByteBridge, path: str) -> bytes:
    """The bytes of a file to be changed: of exactly this path."""
    found = await variant(bridge, path)
    if found is not None:
        raise ToolInputError(f"{shown(path)}: no such file; {found!a} has a similar name; use exactly that path")
    return await contents(bridge, path)


async def exact_state(bridge: ByteBridge, path: str) -> FsStat | None:
    """The metadata of exactly this path."""
    return None if await variant(bridge, path) is not None else await state(bridge, path)


async def state(bridge: ByteBridge, path: str) -> FsStat | None:
    with explained(path):
        return await bridge.stat(path)


async def store(bridge: ByteBridge, path: str, data: bytes) -> None:
    with explained(path):
        await bridge.write_bytes(path, data)


def counted(number: int, what: str) -> str:
    """`1 line`, `2 lines`, `1,234 matches`."""
    plural = what + ("es" if what.endswith("ch") else "s")
    return f"{number:,} {what if number == 1 else plural}"
