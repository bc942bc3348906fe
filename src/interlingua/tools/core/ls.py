"""`ls`: the names in a directory, with sizes."""

import posixpath
from typing import Any

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ..fs import ByteBridge, context_bridge
from ..params import read_boolean_param, read_number_param
from ..paths import OutsideRoot, shown
from ..tool import Tool, ToolContext, ToolResult, as_execute, text_result
from ._files import counted, explained, from_root, path_param, stop_if_aborted, with_variant

DEFAULT_LIMIT = 500
MAX_LIMIT = 5000
MAX_BYTES = 32 * 1024
_PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Directory to list (default: the root)."},
        "all": {"type": "boolean", "description": "Also names that begin with a dot."},
        "limit": {"type": "integer", "minimum": 1, "description": f"Most names to list (default {DEFAULT_LIMIT})."},
    },
}


def ls_tool(context: ToolContext) -> Tool:
    bridge = context_bridge(context)

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        path = path_param(params, ".")
        limit = min(max(1, read_number_param(params, "limit", integer=True) or DEFAULT_LIMIT), MAX_LIMIT)
        hidden = read_boolean_param(params, "all")
        stop_if_aborted(signal)
        with explained(path):
            every = sorted(await bridge.readdir(path))
        names = [name for name in every if hidden or not name.startswith(".")]
        lines, size = list[str](), 0
        for name in names[:limit]:
            stop_if_aborted(signal)
            line = await _line(bridge, path, name)
            size += len(line.encode()) + 1
            if size > MAX_BYTES:
                break
            lines.append(line)
        details = {
            "path": path,
            "entries": [shown(name) for name in names[: len(lines)]],
            "total": len(names),
            "hidden": len(every) - len(names),
        }
        listed = text_result("\n".join(lines + _notices(len(lines), len(names), len(every))), details)
        return await with_variant(bridge, path, listed)

    return Tool(
        name="ls",
        label="List",
        description="List a directory: one name per line with its size in bytes; directories end in /.",
        parameters=_PARAMETERS,
        execute=execute,
    )


async def _line(bridge: ByteBridge, path: str, name: str) -> str:
    if name.endswith("/"):
        return shown(name)
    try:
        with explained(name):
            info = await bridge.stat(from_root(name) if path == "." else posixpath.join(path, name))
    except OutsideRoot:
        return f"{shown(name)}  (link out of the root)"
    except ToolInputError:
        return f"{shown(name)}  (cannot be looked at)"
    if info is None:
        return f"{shown(name)}  (link to nothing)"
    return f"{shown(name)}  {info.size:,}" if info.is_file else f"{shown(name)}  (no regular file)"


def _notices(given: int, names: int, every: int) -> list[str]:
    notices = []
    if not names:
        notices.append("(empty directory)" if not every else f"(only {counted(every, 'hidden name')}; use all=true)")
    if given < names:
        notices.append(f"[{given:,} of {names:,} names. List a directory in it, use find, or raise limit.]")
    return notices
