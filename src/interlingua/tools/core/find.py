"""`find`: files and directories by name; respects ignore files."""

from typing import Any, Literal, get_args

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ..fs import ByteBridge, context_bridge
from ..params import read_number_param, read_string_param
from ..paths import name_bytes, shown
from ..tool import Tool, ToolContext, ToolResult, as_execute, text_result
from ._engine import Glob, Job
from ._files import path_param, state, stop_if_aborted, with_variant
from ._searching import MAX_FILE_BYTES, SECONDS, OnThisMachine, SearchOutcome, by_fd, by_worker, locate

DEFAULT_LIMIT = 500
MAX_LIMIT = 10_000
MAX_BYTES = 32 * 1024
IGNORE_FILES = (".fdignore", ".ignore", ".gitignore", ".git/info/exclude")
Kind = Literal["any", "file", "directory"]
_KINDS: dict[str, Kind] = {"any": "any", "file": "file", "f": "file", "directory": "directory", "d": "directory"}
_PARAMETERS = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "description": "Glob: * ? [abc] {a,b} **. Without a slash it is compared with names at any depth, with one "
            "with the path from the searched directory, as in src/**/*.py.",
        },
        "path": {"type": "string", "description": "Directory to search (default: the root)."},
        "type": {"type": "string", "enum": list(get_args(Kind)), "description": "What to find (default: any)."},
        "limit": {"type": "integer", "minimum": 1, "description": f"Most paths to list (default {DEFAULT_LIMIT})."},
    },
    "required": ["pattern"],
}


def find_tool(context: ToolContext, *, programs: bool = True, seconds: float = SECONDS) -> Tool:
    """The tool. With `programs=False`, fd is not used."""
    bridge = context_bridge(context)

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        path = path_param(params, ".")
        limit = min(max(1, read_number_param(params, "limit", integer=True) or DEFAULT_LIMIT), MAX_LIMIT)
        glob = read_string_param(params, "pattern", required=True).removeprefix("./")
        Glob(glob)  # raises for an invalid one
        stop_if_aborted(signal)
        await _directory(bridge, path)
        start = await locate(bridge, path)
        job = Job(
            start=name_bytes(start),
            is_file=False,
            limit=limit,
            ignore_names=IGNORE_FILES,
            max_file_bytes=MAX_FILE_BYTES,
            glob=glob,
            kind=_kind(params),
        )
        outcome = None
        if programs and isinstance(bridge, OnThisMachine):
            outcome = await by_fd(job, bridge, seconds, signal)
        if outcome is None:
            outcome = await by_worker(job, bridge, seconds, signal)
        stop_if_aborted(signal)
        return await with_variant(bridge, path, _result(outcome, limit, path))

    return Tool(
        name="find",
        label="Find",
        description=(
            "Find files and directories by glob. Paths are relative to the root, sorted, directories end in /. What "
            ".gitignore and .ignore leave out is left out, and so is .git."
        ),
        parameters=_PARAMETERS,
        execute=execute,
    )


def _kind(params: dict[str, Any]) -> Kind:
    kind = read_string_param(params, "type") or "any"
    if kind not in _KINDS:
        raise ToolInputError(f"type must be file, directory or any, not {shown(kind)!r}")
    return _KINDS[kind]


async def _directory(bridge: ByteBridge, path: str) -> None:
    info = await state(bridge, path)
    if info is None or not info.is_directory:
        why = "no such file or directory" if info is None else "not a directory"
        raise ToolInputError(f"{shown(path)}: {why}")


def _result(outcome: SearchOutcome, limit: int, path: str) -> ToolResult:
    paths = [found.path + "/" * (found.kind == "directory") for found in outcome.found]
    lines, size = list[str](), 0
    for line in map(shown, paths[:limit]):
        size += len(line.encode()) + 1
        if size > MAX_BYTES:
            break
        lines.append(line)
    notices = []
    if outcome.cut == "time":
        notices.append("[The search took too long and was stopped: search in a smaller directory.]")
    if len(lines) < len(paths) or outcome.cut == "size":
        notices.append(f"[Only the first {len(lines):,}. Use a longer pattern, a path below, or a higher limit.]")
    if not lines and not notices:
        notices.append(f"Nothing found in {shown(path)}.")
    details = {
        "paths": lines,
        "truncated": len(lines) < len(paths) or outcome.cut is not None,
        "engine": outcome.engine,
    }
    return text_result("\n".join(lines + notices), details)
