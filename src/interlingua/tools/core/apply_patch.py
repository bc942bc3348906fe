"""`apply_patch`: changes to several files in one patch, applied together or not at all.

    *** Begin Patch
    *** Add File: notes.txt
    +a line
    *** Update File: main.py
    *** Move to: app.py
    @@ def main():
     a line that stays
    -a line that goes
    +a line that comes
    *** End of File
    *** Delete File: old.py
    *** End Patch

The whole patch is computed in memory first. Then files are written; if one write fails, the earlier ones are undone.
A file keeps its encoding and line endings. `@@` may have a line to search first; the lines of a hunk are matched from
there on: exactly, else ignoring trailing spaces and typographic characters.
"""

import asyncio
import itertools
import posixpath
import re
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ..fs import ByteBridge, context_bridge
from ..params import read_string_param
from ..paths import PATCH_HEADERS, patch_lines, shown
from ..tool import Tool, ToolContext, ToolResult, as_execute, text_result
from ._files import exact_contents, exact_state, explained, stop_if_aborted, store
from ._text import LineChange, decode_text, line_ending_at, raw_lines, trimmed, unified

MAX_PATCH_CHARS = 4_000_000
MAX_FILES = 500
MAX_HUNKS = 2000  # in one file
_SEARCHED_CHARS = 4_000_000_000  # of one file, over all hunks: about two seconds
_COMPARED_LINES = 100  # of a hunk that does not fit, for the message
_BEGIN, _END, _LAST = "*** Begin Patch", "*** End Patch", "*** End of File"
_ADD, _UPDATE, _DELETE, _MOVE = PATCH_HEADERS
_NUMBERS = re.compile(r"-\d+(,\d+)? \+\d+(,\d+)? @@.*")  # a header of a unified diff: no line to search
_TYPOGRAPHY = str.maketrans("‘’‚‛“”„‟‐‑‒–—−\u00a0\u2009\u202f", "''''\"\"\"\"------   ")
_REPORT_WIDTH = 200

_PARAMETERS = {
    "type": "object",
    "properties": {
        "input": {
            "type": "string",
            "description": "The patch, from '*** Begin Patch' to '*** End Patch', with '*** Add File: path' (+ lines), "
            "'*** Update File: path' (optional '*** Move to: path'; hunks begin with '@@', lines with ' ', '-' or '+') "
            "and '*** Delete File: path' sections.",
        }
    },
    "required": ["input"],
}


Way = Callable[[str], str]


def _plain(line: str) -> str:
    return line.translate(_TYPOGRAPHY).rstrip()


def _stripped(line: str) -> str:
    return _plain(line).strip()


_WAYS: tuple[Way, ...] = (str, str.rstrip, _plain)


class Hunk(NamedTuple):
    """Lines with their markers; `headers` are searched before them, `at_end` if the file ends with them."""

    headers: list[str]
    body: list[tuple[str, str]]
    at_end: bool

    @property
    def old(self) -> list[str]:
        return [text for mark, text in self.body if mark != "+"]


class PatchSection(NamedTuple):
    kind: str  # add, update or delete
    path: str
    lines: list[str]
    hunks: list[Hunk]
    move_to: str | None = None


class Planned(NamedTuple):
    """One file of a valid patch: its bytes before and after (None if there is no file), and its new path."""

    path: str
    old: bytes | None
    new: bytes | None
    diff: str
    move_to: str | None = None


def apply_patch_tool(context: ToolContext) -> Tool:
    bridge = context_bridge(context)

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        text = read_string_param(params, "input", required=True, trim=False)
        if len(text) > MAX_PATCH_CHARS:
            raise ToolInputError(f"the patch has {len(text):,} characters, more than the limit of {MAX_PATCH_CHARS:,}")
        sections = await asyncio.to_thread(parse_patch, text)
        if len(sections) > MAX_FILES:
            raise ToolInputError(f"the patch changes {len(sections):,} files, more than the limit of {MAX_FILES}")
        plan = await _Plan(bridge, signal).of(sections)
        stop_if_aborted(signal)
        await _apply(bridge, plan)
        files = [_given(one) for one in plan]
        details = {"files": files, "diff": "".join(one.diff for one in plan)}
        return text_result("Applied the patch:\n" + "\n".join(_line(file) for file in files), details)

    return Tool(
        name="apply_patch",
        label="Apply patch",
        description=(
            "Change several files with one patch: add, update, move and delete. The patch is checked against all files "
            "first; if one hunk does not fit, nothing is changed and the error says which line."
        ),
        parameters=_PARAMETERS,
        execute=execute,
        sequential=True,
    )


def parse_patch(text: str) -> list[PatchSection]:
    """The sections of a patch. Raises ToolInputError with the line of the patch that is wrong."""
    lines = patch_lines(text)
    if lines[0].strip() != _BEGIN:
        raise ToolInputError(f"the patch must begin with the line {_BEGIN!r}")
    if lines[-1].strip() != _END:
        raise ToolInputError(f"the patch must end with the line {_END!r}")
    sections, at = list[PatchSection](), 1
    while at < len(lines) - 1:
        if not lines[at].strip():
            at += 1
            continue
        section, at = _section(lines, at)
        sections.append(section)
    if not sections:
        raise ToolInputError("the patch is empty: it names no file")
    return sections


def _section(lines: list[str], at: int) -> tuple[PatchSection, int]:
    head = lines[at]
    end = at + 1
    while end < len(lines) - 1 and not lines[end].startswith((_ADD, _UPDATE, _DELETE)):
        end += 1
    body = lines[at + 1 : end]
    if head.startswith(_ADD):
        return PatchSection("add", _path(head, _ADD, at), _added(body, at + 1), []), end
    if head.startswith(_DELETE):
        if any(line.strip() for line in body):
            raise _wrong(at + 1, lines[at + 1], "a deleted file has no lines")
        return PatchSection("delete", _path(head, _DELETE, at), [], []), end
    if not head.startswith(_UPDATE):
        raise _wrong(at, head, f"expected {_ADD.strip()!r}, {_UPDATE.strip()!r} or {_DELETE.strip()!r}")
    move_to, first = None, at + 1
    if body and body[0].startswith(_MOVE):
        move_to, first, body = _path(body[0], _MOVE, at + 1), at + 2, body[1:]
    hunks = _hunks(body, first)
    if not hunks and move_to is None:
        raise _wrong(at, head, "the section has no hunk")
    return PatchSection("update", _path(head, _UPDATE, at), [], hunks, move_to), end


def _path(line: str, keyword: str, at: int) -> str:
    path = line.removeprefix(keyword).strip()
    if not path:
        raise _wrong(at, line, "the path is missing")
    return path


def _added(body: list[str], at: int) -> list[str]:
    while body and not body[-1].strip():
        body = body[:-1]
    for offset, line in enumerate(body):
        if not line.startswith("+"):
            raise _wrong(at + offset, line, "every line of an added file begins with +")
    return [line[1:] for line in body]


def _hunks(body: list[str], at: int) -> list[Hunk]:
    hunks, headers, lines = list[Hunk](), list[str](), list[tuple[str, str]]()

    def close(at_end: bool) -> None:
        nonlocal headers, lines
        while lines and lines[-1] == ("", ""):  # blank lines between sections belong to no hunk
            lines.pop()
        if lines:
            hunks.append(Hunk(headers, [(mark or " ", text) for mark, text in lines], at_end))
            headers, lines = [], []

    for offset, line in enumerate(body):
        if line.startswith("@@"):
            close(False)
            header = line[2:].removeprefix(" ").rstrip()
            if header and not _NUMBERS.fullmatch(header):
                headers.append(header)
        elif line.rstrip() == _LAST:
            close(True)
        elif not line:
            lines.append(("", ""))
        elif line[0] in " +-":
            lines.append((line[0], line[1:]))
        else:
            raise _wrong(at + offset, line, "a line of a hunk begins with a space, + or -")
    close(False)
    if headers:
        raise ToolInputError(f"the patch has a header without lines: @@ {_cut(headers[0])}")
    return hunks


def _wrong(at: int, line: str, why: str) -> ToolInputError:
    return ToolInputError(f"line {at + 1} of the patch, {_cut(line)!r}: {why}")


class _Plan:
    """Works a patch out against the files, and sees the changes of earlier sections in later ones."""

    def __init__(self, bridge: ByteBridge, signal: Abort | None) -> None:
        self._bridge, self._signal = bridge, signal
        self._changed: dict[str, bytes | None] = {}

    async def of(self, sections: list[PatchSection]) -> list[Planned]:
        planned = []
        for section in sections:
            stop_if_aborted(self._signal)
            one = await self._planned(section)
            self._changed[_key(one.path)] = None if one.move_to else one.new
            if one.move_to:
                self._changed[_key(one.move_to)] = one.new
            planned.append(one)
        return planned

    async def _planned(self, section: PatchSection) -> Planned:
        path = section.path
        if section.kind == "add":
            await self._needs_nothing(path)
            text = "".join(line + "\n" for line in section.lines)
            return Planned(path, None, _encoded(text, path), unified(path, [], [LineChange(0, 0, section.lines)]))
        old = await self._bytes(path)
        if section.kind == "delete":
            return Planned(path, old, None, f"deleted {path}\n")
        if section.move_to is not None:
            await self._needs_nothing(section.move_to)
        source = decode_text(old, path)
        text, changes = await asyncio.to_thread(patched, source.text, section.hunks, path)
        diff = unified(path, raw_lines(source.text), changes, section.move_to)
        return Planned(path, old, source.encoded(text, path), diff, section.move_to)

    async def _bytes(self, path: str) -> bytes:
        key = _key(path)
        if key not in self._changed:
            return await exact_contents(self._bridge, path)
        data = self._changed[key]
        if data is None:
            raise ToolInputError(f"{shown(path)}: an earlier part of the patch removes this file")
        return data

    async def _needs_nothing(self, path: str) -> None:
        key = _key(path)
        there = self._changed[key] if key in self._changed else await exact_state(self._bridge, path)
        if there is not None:
            raise ToolInputError(f"{shown(path)}: exists already; use '{_UPDATE}' to change it")


def patched(raw: str, hunks: list[Hunk], path: str) -> tuple[str, list[LineChange]]:
    """The text after the hunks, and the changes to its lines. Each line keeps its ending."""
    whole = raw_lines(raw)
    ends = not raw or raw.endswith("\n")  # whether the last line has an ending
    if not ends:
        whole[-1] += line_ending_at(raw, len(raw))[:-1]  # removed again from the last line below
    if len(hunks) > MAX_HUNKS:
        raise ToolInputError(f"{shown(path)}: {len(hunks):,} hunks, more than the limit of {MAX_HUNKS:,}; send fewer")
    lines = _Lines([line.removesuffix("\r") for line in whole])
    new, changes, at = list[str](), list[LineChange](), 0
    for number, hunk in enumerate(hunks, 1):
        start = _start(lines, hunk, at, f"{shown(path)}: hunk {number}")
        new += whole[at:start]
        change, at = _applied(whole, hunk, start, new)
        changes.append(change)
    new += whole[at:]
    text = "".join(line + "\n" for line in new)
    changes = [trimmed(whole, change) for change in changes]
    reported = [change for change in changes if change.lines or change.first < change.last]
    return text if ends else text.removesuffix("\n").removesuffix("\r"), reported


def _applied(whole: list[str], hunk: Hunk, start: int, new: list[str]) -> tuple[LineChange, int]:
    """Adds the lines of the hunk to `new`. A replaced line keeps its ending, an additional one gets that of the line
    before it, an unchanged one is copied from the file."""
    at, given = start, list[str]()
    near = whole[start] if start < len(whole) else whole[-1] if whole else ""
    removed = list[str]()
    for mark, text in hunk.body:
        if mark == "+":
            near = removed.pop(0) if removed else near
            given.append(text + "\r" * near.endswith("\r"))
            new.append(given[-1])
            continue
        if mark == " ":
            removed, near = [], whole[at]
            given.append(whole[at])
            new.append(whole[at])
        else:
            removed.append(whole[at])
        at += 1
    return LineChange(start, at, given), at


class _Lines:
    """The lines of a file, to be searched for the lines of hunks: each way of comparing them is prepared once."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._ways: dict[Way, tuple[str, list[int]]] = {}
        self._searched = 0

    def seek(self, expected: list[str], start: int, stripped: bool = False) -> int | None:
        """Where the expected lines are, from line `start` on: exactly, else in a looser way; None if nowhere."""
        for way in (*_WAYS, _stripped) if stripped else _WAYS:
            text, starts = self._prepared(way)
            self._searched += len(text) - starts[start]
            if self._searched > _SEARCHED_CHARS:
                raise ToolInputError("the patch has too many hunks for a file of this size; send it in parts")
            sought = "".join(f"\n{way(line)}" for line in expected) + "\n"
            found = text.find(sought, starts[start])  # linear, however the text repeats itself
            if found >= 0:
                return bisect_left(starts, found)
        return None

    def _prepared(self, way: Way) -> tuple[str, list[int]]:
        """The text with a newline before each line and at the end, and where each line begins in it."""
        if way not in self._ways:
            given = [way(line) for line in self.lines]
            starts = list(itertools.accumulate((len(line) + 1 for line in given), initial=0))
            self._ways[way] = "".join(f"\n{line}" for line in given) + "\n", starts
        return self._ways[way]


def _start(lines: _Lines, hunk: Hunk, at: int, where: str) -> int:
    """The line of the file at which the hunk begins."""
    header_at = None
    for header in hunk.headers:
        header_at = lines.seek([header], at, stripped=True)
        if header_at is None:
            raise ToolInputError(f"{where}: no line {_cut(header)!r} after line {at}. Nothing was changed.")
        at = header_at + 1
    old = hunk.old
    if not old:
        return at if header_at is not None else len(lines.lines)
    if hunk.at_end:
        end = len(lines.lines) - len(old)
        if end >= at and lines.seek(old, end) == end:
            return end
        raise ToolInputError(f"{where}: the file does not end with its lines. Nothing was changed.")
    start = lines.seek(old, at)
    if start is None and header_at is not None:  # some models repeat the header as the first line
        start = lines.seek(old, header_at)
    if start is None:
        raise ToolInputError(f"{where}: {_mismatch(lines.lines, old, at)} Nothing was changed.")
    return start


def _mismatch(lines: list[str], expected: list[str], start: int) -> str:
    """The place where most lines of the hunk match, and the first that does not."""
    best, fits = start, 0
    there = [_plain(line) for line in lines]
    sought = [_plain(line) for line in expected[:_COMPARED_LINES]]
    for at in range(start, len(lines)):
        count = 0
        while count < len(sought) and at + count < len(there) and there[at + count] == sought[count]:
            count += 1
        if count > fits:
            best, fits = at, count
    missed = _cut(expected[min(fits, len(expected) - 1)])
    if not fits:
        return f"its line {missed!r} is not in the file after line {start}."
    if best + fits >= len(lines):
        return f"it fits from line {best + 1}, but the file ends before its line {missed!r}."
    return f"it fits from line {best + 1}, but line {best + fits + 1} is {_cut(lines[best + fits])!r}, not {missed!r}."


Undo = Callable[[], Awaitable[None]]


async def _apply(bridge: ByteBridge, plan: list[Planned]) -> None:
    """Applies the plan; if one step fails, undoes the earlier ones."""
    undo: list[tuple[str, Undo]] = []
    try:
        for one in plan:
            await _step(bridge, one, undo)
    except Exception as error:  # a bridge is foreign code and may raise anything
        left = [shown(path) for path, back in reversed(undo) if not await _undone(back)]
        state_now = f"These could not be put back: {', '.join(left)}." if left else "Nothing was changed."
        raise ToolInputError(f"the patch could not be written: {error}. {state_now}") from error


async def _step(bridge: ByteBridge, one: Planned, undo: list[tuple[str, Undo]]) -> None:
    path, rename = one.path, getattr(bridge, "rename", None)
    if one.move_to is not None and rename is not None:  # a rename keeps the file's mode
        with explained(one.move_to):
            await rename(path, one.move_to)
        undo.append((path, lambda: rename(one.move_to, path)))
        path = one.move_to
    elif one.move_to is not None:
        await _written(bridge, one.move_to, one.new, None, undo)
        await _removed(bridge, path, one.old, undo)
        return
    if one.new is None:
        await _removed(bridge, path, one.old, undo)
    elif one.new != one.old:
        await _written(bridge, path, one.new, one.old, undo)


async def _written(
    bridge: ByteBridge, path: str, new: bytes | None, old: bytes | None, undo: list[tuple[str, Undo]]
) -> None:
    await store(bridge, path, new or b"")
    undo.append((path, (lambda: bridge.unlink(path)) if old is None else (lambda: bridge.write_bytes(path, old))))


async def _removed(bridge: ByteBridge, path: str, old: bytes | None, undo: list[tuple[str, Undo]]) -> None:
    with explained(path):
        await bridge.unlink(path)
    undo.append((path, lambda: bridge.write_bytes(path, old or b"")))


async def _undone(back: Undo) -> bool:
    try:
        await back()
    except Exception:
        return False
    return True


def _given(one: Planned) -> dict[str, Any]:
    action = "added" if one.old is None else "deleted" if one.new is None else "moved" if one.move_to else "updated"
    file: dict[str, Any] = {"path": one.path, "action": action, "bytes": len(one.new or b"")}
    return file | ({"movedTo": one.move_to} if one.move_to else {})


def _line(file: dict[str, Any]) -> str:
    to = f" to {shown(file['movedTo'])}" if "movedTo" in file else ""
    return f"{file['action']} {shown(file['path'])}{to}"


def _key(path: str) -> str:
    return posixpath.normpath(path)


def _encoded(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolInputError(f"{shown(path)}: unpaired surrogate in the text; send valid Unicode") from None


def _cut(line: str) -> str:
    return shown(line if len(line) <= _REPORT_WIDTH else line[:_REPORT_WIDTH] + "…")
