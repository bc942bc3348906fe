"""`grep`: lines that match a regular expression; respects ignore files.

The syntax is Python's. Where ripgrep's differs (nested sets), or does not support it (lookaround, backreferences), our
own search runs instead.
"""

import asyncio
import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ..fs import ByteBridge, context_bridge
from ..params import read_boolean_param, read_number_param, read_string_param
from ..paths import name_bytes, name_text, shown
from ..tool import Tool, ToolContext, ToolResult, as_execute, text_result
from ._engine import Found, Glob, Job, compiled, searchable
from ._files import contents, counted, from_root, path_param, state, stop_if_aborted, with_variant
from ._searching import MAX_FILE_BYTES, SECONDS, OnThisMachine, SearchOutcome, by_ripgrep, by_worker, locate

DEFAULT_LIMIT = 100
MAX_LIMIT = 2000
MAX_CONTEXT = 50
MAX_BYTES = 32 * 1024
MAX_LINE_CHARS = 500
MAX_PATTERN_CHARS = 2000
IGNORE_FILES = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
_COMPARED = 256
_SEPARATOR = "--"
_PARAMETERS = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "description": "Regular expression (or plain text, with literal)."},
        "path": {"type": "string", "description": "File or directory to search (default: the root)."},
        "glob": {"type": "string", "description": "Only files that match, as *.py or src/**/*.{ts,tsx}."},
        "ignoreCase": {"type": "boolean", "description": "Upper and lower case are the same."},
        "literal": {"type": "boolean", "description": "Take the pattern as plain text."},
        "context": {"type": "integer", "minimum": 0, "description": "Lines to show before and after each match."},
        "multiline": {"type": "boolean", "description": "Let a match go over several lines."},
        "limit": {"type": "integer", "minimum": 1, "description": f"Most lines that match (default {DEFAULT_LIMIT})."},
    },
    "required": ["pattern"],
}


class Seen(NamedTuple):
    """A file with matching lines, as the bridge reads it; numbers count from 1."""

    path: str
    lines: list[str]
    numbers: list[int]


def grep_tool(context: ToolContext, *, programs: bool = True, seconds: float = SECONDS) -> Tool:
    """The tool. With `programs=False`, ripgrep is not used."""
    bridge = context_bridge(context)

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        path = path_param(params, ".")
        around = min(max(0, read_number_param(params, "context", integer=True) or 0), MAX_CONTEXT)
        limit = min(max(1, read_number_param(params, "limit", integer=True) or DEFAULT_LIMIT), MAX_LIMIT)
        stop_if_aborted(signal)
        job, ours = await _job(bridge, path, params, limit)
        outcome = await _searched(job, bridge, programs and not ours, seconds, signal)
        seen = await _seen(bridge, outcome, limit, signal)
        if outcome.cut == "time" and not seen:
            raise ToolInputError(
                f"the search was stopped after {seconds:g} seconds; simplify the pattern (nested repeats take "
                "exponential time), or give a path or glob"
            )
        return await with_variant(bridge, path, _result(seen, outcome, limit, around))

    return Tool(
        name="grep",
        label="Search",
        description=(
            "Search file contents for a regular expression. Prints path:line: text; with context, other lines as "
            f"path-line- text. Binary files, files over {MAX_FILE_BYTES >> 20} MiB, .git and what .gitignore and "
            ".ignore leave out are not searched."
        ),
        parameters=_PARAMETERS,
        execute=execute,
    )


async def _job(bridge: ByteBridge, path: str, params: dict[str, Any], limit: int) -> tuple[Job, bool]:
    """The search job, and whether ripgrep cannot run it."""
    pattern = read_string_param(params, "pattern", required=True, trim=False)
    glob = read_string_param(params, "glob")
    literal, ignore_case = read_boolean_param(params, "literal"), read_boolean_param(params, "ignoreCase")
    ours = _checked(pattern, ignore_case, literal)
    if glob:
        Glob(glob.removeprefix("./"))
    info = await state(bridge, path)
    if info is None or not (info.is_file or info.is_directory):
        raise ToolInputError(f"{shown(path)}: no such file or directory")
    if info.is_file and info.size > MAX_FILE_BYTES:
        raise ToolInputError(f"{shown(path)}: {info.size:,} bytes, more than the limit of {MAX_FILE_BYTES:,}")
    if info.is_file and await asyncio.to_thread(searchable, await contents(bridge, path)) is None:
        raise ToolInputError(f"{shown(path)}: binary file, not searched")
    start = await locate(bridge, path)
    job = Job(
        start=name_bytes(start),
        is_file=info.is_file,
        limit=limit,
        ignore_names=IGNORE_FILES,
        max_file_bytes=MAX_FILE_BYTES,
        glob=glob.removeprefix("./") if glob else None,
        pattern=pattern,
        ignore_case=ignore_case,
        literal=literal,
        multiline=read_boolean_param(params, "multiline"),
    )
    return job, ours


def _checked(pattern: str, ignore_case: bool, literal: bool) -> bool:
    """Raises for an invalid pattern; returns whether ripgrep would interpret it differently."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ToolInputError(f"pattern has {len(pattern):,} characters, more than the limit of {MAX_PATTERN_CHARS:,}")
    try:
        pattern.encode()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled(pattern, ignore_case, literal)
    except (FutureWarning, DeprecationWarning):
        return True
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolInputError(f"invalid regular expression: {error}; for plain text set literal to true") from None
    except UnicodeEncodeError:
        raise ToolInputError("unpaired surrogate in pattern; send valid Unicode") from None
    return "\0" in pattern


async def _searched(
    job: Job, bridge: ByteBridge, programs: bool, seconds: float, signal: Abort | None
) -> SearchOutcome:
    if programs and isinstance(bridge, OnThisMachine):
        outcome = await by_ripgrep(job, bridge, seconds, signal)
        if outcome is not None:
            found = await asyncio.to_thread(_fitting, job, outcome.found)
            return SearchOutcome(found=found, engine=outcome.engine, cut=outcome.cut)
    return await by_worker(job, bridge, seconds, signal)


def _fitting(job: Job, found: list[Found]) -> list[Found]:
    if job.glob and not job.is_file:
        glob, start = Glob(job.glob), name_text(job.start)
        skip = len(start) + 1 if start else 0
        fits = {path: glob.matches(path[skip:].split("/")) for path in {one.path for one in found}}
        found = [one for one in found if fits[one.path]]
    return sorted(found, key=lambda one: (name_bytes(one.path), one.line))


async def _seen(bridge: ByteBridge, outcome: SearchOutcome, limit: int, signal: Abort | None) -> list[Seen]:
    """The matches as the bridge reads them: missing or changed lines are dropped."""
    seen, count = list[Seen](), 0
    for path, group in groupby(outcome.found, key=lambda one: one.path):
        stop_if_aborted(signal)
        file = await _file(bridge, path, group)
        if file is not None and file.numbers:
            seen.append(file)
            count += len(file.numbers)
        if count > limit:
            break
    return seen


async def _file(bridge: ByteBridge, path: str, found: Iterable[Found]) -> Seen | None:
    try:
        read = await asyncio.to_thread(searchable, await contents(bridge, from_root(path)))
    except ToolInputError:
        return None
    if read is None:
        return None
    lines, encoding = read
    numbers = {one.line for one in found if _is_line(lines, encoding, one)}
    return Seen(path, lines, sorted(numbers))


def _is_line(lines: list[str], encoding: str, one: Found) -> bool:
    if one.line > len(lines):
        return False
    line = lines[one.line - 1].encode(encoding, errors="replace")
    return line[:_COMPARED] == one.text.removesuffix(b"\r")[:_COMPARED]


def _result(seen: list[Seen], outcome: SearchOutcome, limit: int, around: int) -> ToolResult:
    out, size, matches, files, full = list[str](), 0, 0, 0, False
    for file in seen:
        numbers = set(file.numbers[: limit - matches])
        files += bool(numbers)
        for line, is_match in _given(file, numbers, around):
            if line == _SEPARATOR and not out:
                continue
            size += len(line.encode()) + 1
            full = size > MAX_BYTES
            if full:
                break
            out.append(line)
            matches += is_match
        full = full or len(numbers) < len(file.numbers)
        if full:
            break
    notices = []
    if full or outcome.cut is not None:
        why = "The search took too long and was stopped. " if outcome.cut == "time" else ""
        notices.append(
            f"[{why}{counted(matches, 'match')} shown, there may be more. Narrow with path, glob or a longer pattern, "
            "or raise limit.]"
        )
    elif not out:
        notices.append("No matches found.")
    details = {
        "matches": matches,
        "files": files,
        "truncated": full or outcome.cut is not None,
        "engine": outcome.engine,
    }
    return text_result("\n".join(out + notices), details)


def _given(file: Seen, numbers: set[int], around: int) -> Iterator[tuple[str, bool]]:
    """The lines to show and whether they match; with context, a separator before each group."""
    last = 0
    for number in sorted(numbers):
        first = max(last + 1, number - around)
        if around and (first > last + 1 or not last):
            yield _SEPARATOR, False
        end = min(len(file.lines), number + around)
        for at in range(first, end + 1):
            yield _line(file, at, at in numbers), at in numbers
        last = max(last, end)


def _line(file: Seen, number: int, matches: bool) -> str:
    text = file.lines[number - 1]
    if len(text) > MAX_LINE_CHARS:
        text = f"{text[:MAX_LINE_CHARS]}… (+{len(text) - MAX_LINE_CHARS:,} characters)"
    mark = ":" if matches else "-"
    return f"{shown(file.path)}{mark}{number}{mark} {text}"
