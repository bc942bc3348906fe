"""`edit`: exact replacements in a file, all or none.

Every edit is matched against the original file, so their order does not matter. Line endings are ignored when matching,
and each line keeps its own; the file keeps its encoding, byte order mark and mode.
"""

import asyncio
import difflib
import itertools
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Any, NamedTuple

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ..fs import context_bridge
from ..params import read_boolean_param
from ..paths import shown
from ..tool import Tool, ToolContext, ToolResult, as_execute, text_result
from ._files import PATH, counted, exact_contents, path_param, stop_if_aborted, store
from ._text import LineChange, decode_text, line_ending_at, raw_lines, split_lines, trimmed, unified, with_endings

MAX_EDITS = 200
_REPORT_PLACES = 10
_REPORT_LINES = 20
_REPORT_WIDTH = 200
_SEARCHED_LINES = 20_000
_COMPARED_WIDTH = 200
_ALIKE = 0.5  # minimum similarity (0 to 1) of a line to be shown
_QUOTES = str.maketrans("‘’‚‛“”„‟–—−\u00a0", "''''\"\"\"\"--- ")

_TEXTS = {
    "oldText": {"type": "string", "description": "Exact text to replace; must occur once, whitespace included."},
    "newText": {"type": "string", "description": "Text to put there; empty deletes."},
}
_ALL = {"type": "boolean", "description": "Replace every occurrence of oldText."}
_PARAMETERS = {
    "type": "object",
    "properties": {
        "path": PATH,
        **_TEXTS,
        "all": _ALL,
        "edits": {
            "type": "array",
            "description": "Several replacements, made together or not at all; use instead of oldText and newText.",
            "items": {"type": "object", "properties": {**_TEXTS, "all": _ALL}, "required": ["oldText", "newText"]},
        },
    },
    "required": ["path"],
}


class Edit(NamedTuple):
    old: str
    new: str
    all: bool
    label: str


class EditSpan(NamedTuple):
    """A range of the text, by offsets, and its replacement."""

    start: int
    end: int
    new: str
    label: str


class Edited(NamedTuple):
    text: str
    diff: str
    spans: int
    first_line: int


def edit_tool(context: ToolContext) -> Tool:
    bridge = context_bridge(context)

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        path, edits = path_param(params), _edits(params)
        stop_if_aborted(signal)
        data = await exact_contents(bridge, path)
        new, edited = await asyncio.to_thread(_edited_bytes, data, edits, path)
        stop_if_aborted(signal)
        await store(bridge, path, new)
        details = {
            "path": path,
            "replacements": edited.spans,
            "firstChangedLine": edited.first_line,
            "oldBytes": len(data),
            "newBytes": len(new),
            "diff": edited.diff,
        }
        text = f"Edited {shown(path)}: {counted(edited.spans, 'replacement')}, the first on line {edited.first_line}."
        return text_result(text, details)

    return Tool(
        name="edit",
        label="Edit",
        description=(
            "Replace exact text in a file: one replacement (oldText, newText) or several at once (edits). Each oldText "
            "must occur exactly once, unless all is true; add lines around it to make it unique. Line numbers that "
            "read prints are not part of the text. If one replacement fails, the file stays as it is."
        ),
        parameters=_PARAMETERS,
        execute=execute,
        sequential=True,
    )


def _edited_bytes(data: bytes, edits: list[Edit], path: str) -> tuple[bytes, Edited]:
    source = decode_text(data, path)
    edited = edit_text(source.text, edits, path)
    return source.encoded(edited.text, path), edited


def edit_text(raw: str, edits: list[Edit], path: str) -> Edited:
    """The text after the edits. Raises ToolInputError, with the nearest text, for one that does not match."""
    text = raw.replace("\r\n", "\n")
    spans = sorted(span for edit in edits for span in _spans(text, edit, path))
    for before, after in itertools.pairwise(spans):
        if after.start < before.end:
            line = _line_of(text, after.start)
            raise ToolInputError(f"{shown(path)}: {before.label} and {after.label} overlap on line {line}; join them")
    moved = _moved(raw, text, spans)
    changed = _replaced(raw, moved)
    if changed == raw:
        raise ToolInputError(f"{shown(path)}: the edit changes nothing; the new text equals the old one")
    changes = _changes(raw, moved)
    return Edited(changed, unified(path, raw_lines(raw), changes), len(spans), changes[0].first + 1)


def _edits(params: dict[str, Any]) -> list[Edit]:
    given = params.get("edits")
    if given is None:
        return [_edit(params, "oldText")]
    if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in given):
        raise ToolInputError("edits must be a list of objects with oldText and newText")
    if len(given) > MAX_EDITS:
        raise ToolInputError(f"edits has {len(given):,} entries, more than the limit of {MAX_EDITS}")
    if any(key in params for key in ("oldText", "old_string", "old_text")):
        raise ToolInputError("give either oldText and newText, or edits, not both")
    return [_edit(one, f"edits[{at}]") for at, one in enumerate(given)]


def _edit(params: dict[str, Any], label: str) -> Edit:
    old = _text(params, ("oldText", "old_string", "old_text"), label)
    new = _text(params, ("newText", "new_string", "new_text"), label)
    if not old:
        raise ToolInputError(f"{label}: oldText is empty; use write to make a file")
    if old == new:
        raise ToolInputError(f"{label}: oldText and newText are the same; nothing would change")
    every = read_boolean_param(params, "all") or read_boolean_param(params, "replaceAll")
    return Edit(old.replace("\r\n", "\n"), new.replace("\r\n", "\n"), every, label)


def _text(params: dict[str, Any], keys: tuple[str, ...], label: str) -> str:
    for key in keys:
        if isinstance(params.get(key), str):
            return str(params[key])
    raise ToolInputError(f"{label}: {keys[0]} required; give it as text, then try again")


def _spans(text: str, edit: Edit, path: str) -> list[EditSpan]:
    starts = [match.start() for match in re.finditer(re.escape(edit.old), text)]
    if not starts:
        raise ToolInputError(_mismatch(text, edit, path))
    if len(starts) > 1 and not edit.all:
        lines = ", ".join(str(_line_of(text, start)) for start in starts[:_REPORT_PLACES])
        more = ", …" if len(starts) > _REPORT_PLACES else ""
        raise ToolInputError(
            f"{shown(path)}: {edit.label} occurs {counted(len(starts), 'time')} (lines {lines}{more}); "
            "add lines around it so that it occurs once, or set all to true. Nothing was changed."
        )
    return [EditSpan(start, start + len(edit.old), edit.new, edit.label) for start in starts]


def _line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _replaced(text: str, spans: list[EditSpan]) -> str:
    pieces, at = list[str](), 0
    for span in spans:
        pieces += [text[at : span.start], span.new]
        at = span.end
    return "".join([*pieces, text[at:]])


def _moved(raw: str, text: str, spans: list[EditSpan]) -> list[EditSpan]:
    """The spans in `raw`, with its original line endings: each line keeps its ending."""
    if len(raw) == len(text):
        return spans
    dropped = [match.start() - at for at, match in enumerate(re.finditer("\r\n", raw))]
    moved = []
    for span in spans:
        start, end = (offset + bisect_left(dropped, offset) for offset in (span.start, span.end))
        new = with_endings(span.new, raw[start:end], line_ending_at(raw, start))
        moved.append(EditSpan(start, end, new, span.label))
    return moved


def _changes(text: str, spans: list[EditSpan]) -> list[LineChange]:
    """The changed lines: each span extended to whole lines, overlapping ones merged."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    lines = raw_lines(text)
    groups: list[list[EditSpan]] = []
    last_line = -1
    for span in spans:
        if groups and bisect_right(starts, span.start) - 1 <= last_line:
            groups[-1].append(span)
        else:
            groups.append([span])
        last_line = bisect_right(starts, span.end) - 1
    changes = []
    for group in groups:
        first, last = bisect_right(starts, group[0].start) - 1, bisect_right(starts, group[-1].end)
        begin, end = starts[first], starts[last] if last < len(starts) else len(text)
        moved = [span._replace(start=span.start - begin, end=span.end - begin) for span in group]
        change = LineChange(first, min(last, len(lines)), raw_lines(_replaced(text[begin:end], moved)))
        changes.append(trimmed(lines, change))
    return changes


def _mismatch(text: str, edit: Edit, path: str) -> str:
    head = f"{shown(path)}: {edit.label} was not found. Nothing was changed."
    expected, lines = split_lines(edit.old), split_lines(text)
    at = _nearest(expected, lines)
    if at is None:
        return f"{head} No line is like it; read the file again."
    there = lines[at : at + len(expected)]
    reason = "\n".join(_difference(expected, there))
    return f"{head} Nearest is line {at + 1}{_why(expected, there)} (- your text, + the file):\n{reason}"


def _nearest(expected: list[str], lines: list[str]) -> int | None:
    """The line where most lines of the expected text match, ignoring spacing and quotes."""
    lines = lines[:_SEARCHED_LINES]
    places: dict[str, list[int]] = {}
    for at, line in enumerate(expected[:_REPORT_PLACES]):
        if line.strip():
            places.setdefault(_loose(line), []).append(at)
    votes = Counter(max(0, row - at) for row, line in enumerate(lines) for at in places.get(_loose(line), ()))
    if votes:
        best = max(votes.values())
        return min(at for at, count in votes.items() if count == best)
    return _closest(next((line for line in expected if line.strip()), ""), lines)


def _closest(expected: str, lines: list[str]) -> int | None:
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(expected.strip()[:_COMPARED_WIDTH])
    best, found = _ALIKE, None
    for at, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:_COMPARED_WIDTH])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, found = matcher.ratio(), at
    return found


def _loose(line: str) -> str:
    return " ".join(line.translate(_QUOTES).replace('"', "'").split())


def _why(expected: list[str], there: list[str]) -> str:
    if ["".join(line.split()) for line in expected] == ["".join(line.split()) for line in there]:
        return ", which differs in spacing only"
    if [_loose(line) for line in expected] == [_loose(line) for line in there]:
        return ", which differs in quotes, dashes or spaces only"
    return ""


def _difference(expected: list[str], there: list[str]) -> list[str]:
    """A line diff; spaces and tabs are made visible if nothing else differs."""
    given = list[str]()
    for at in range(max(len(expected), len(there))):
        mine, theirs = (lines[at] if at < len(lines) else None for lines in (expected, there))
        if mine == theirs:
            given.append(f"  {_cut(mine or '')}")
            continue
        drawn = mine is not None and theirs is not None and mine.split() == theirs.split()
        given += [
            f"{mark} {_cut(_drawn(line) if drawn else line)}"
            for mark, line in (("-", mine), ("+", theirs))
            if line is not None
        ]
    return given if len(given) <= _REPORT_LINES else [*given[:_REPORT_LINES], "…"]


def _drawn(line: str) -> str:
    return line.replace(" ", "·").replace("\t", "→")


def _cut(line: str) -> str:
    return line if len(line) <= _REPORT_WIDTH else line[:_REPORT_WIDTH] + "…"
