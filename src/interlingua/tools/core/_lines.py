"""Lines, their endings, and what a change of some of them looks like."""

import difflib
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_CONTEXT = 3
_DIFF_BYTES = 256 * 1024


class Change(NamedTuple):
    """The lines from `first` up to `last`, counted from 0, become `lines`."""

    first: int
    last: int
    lines: list[str]


def split_lines(text: str) -> list[str]:
    """The lines without their endings; only a line feed ends a line, so that numbers agree with other programs."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def raw_lines(text: str) -> list[str]:
    """The lines without their line feed; a line that ends in CRLF keeps the carriage return."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def line_ending_at(text: str, offset: int) -> str:
    """The ending of the line at an offset; of the line before it, where that line has none."""
    end = text.find("\n", offset)
    if end < 0:
        end = text.rfind("\n", 0, offset)
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def with_endings(new: str, old: str, default: str) -> str:
    """New text, written with line feeds, with the line endings of the text whose place it takes.

    A line that stays, or takes the place of another, keeps that one's ending; one more ends as the line before it.
    """
    lines, before = new.split("\n"), old.split("\n")
    had = ["\r\n" if line.endswith("\r") else "\n" for line in before[:-1]]
    endings: list[str] = []
    if len(set(had)) < 2:
        endings = [had[0] if had else default] * (len(lines) - 1)
    else:
        texts = [line.removesuffix("\r") for line in before[:-1]]
        for _, a1, a2, b1, b2 in difflib.SequenceMatcher(None, texts, lines[:-1], autojunk=False).get_opcodes():
            for at in range(a1, a1 + b2 - b1):
                endings.append(had[at] if at < a2 else endings[-1] if endings else default)
    return "".join(map(operator.add, lines[:-1], endings)) + lines[-1]


def line_ending(text: str) -> str:
    """The ending that most lines have."""
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def trimmed(old: Sequence[str], change: Change) -> Change:
    """The same change without the lines that stay as they were at its start and end."""
    first, last, lines = change
    head = 0
    while first + head < last and head < len(lines) and old[first + head] == lines[head]:
        head += 1
    tail = 0
    while first + head < last - tail and head + tail < len(lines) and old[last - tail - 1] == lines[-tail - 1]:
        tail += 1
    return Change(first + head, last - tail, lines[head : len(lines) - tail])


def unified(path: str, old: Sequence[str], changes: Iterable[Change], new_path: str | None = None) -> str:
    """A unified diff of changes that are known: in order, apart from each other. Cut when it grows past all use."""
    out = [f"--- a/{path}", f"+++ b/{new_path or path}"]
    size, shift = 0, 0
    for group in _groups(changes):
        hunk, grown = _hunk(old, group, shift)
        shift += grown
        out += hunk
        size += sum(map(len, hunk))
        if size > _DIFF_BYTES:
            out.append("… the rest of the diff is left out")
            break
    return "\n".join(out) + "\n"


def _groups(changes: Iterable[Change]) -> list[list[Change]]:
    """Changes so near to each other that their contexts touch."""
    groups: list[list[Change]] = []
    for change in changes:
        if groups and change.first - groups[-1][-1].last <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunk(old: Sequence[str], group: list[Change], shift: int) -> tuple[list[str], int]:
    start = max(0, group[0].first - _CONTEXT)
    end = min(len(old), group[-1].last + _CONTEXT)
    body, at = list[str](), start
    for first, last, lines in group:
        body += [" " + line for line in old[at:first]]
        body += ["-" + line for line in old[first:last]]
        body += ["+" + line for line in lines]
        at = last
    body += [" " + line for line in old[at:end]]
    grown = sum(len(change.lines) - (change.last - change.first) for change in group)
    before, after = end - start, end - start + grown
    head = f"@@ -{_range(start, before)} +{_range(start + shift, after)} @@"
    return [head, *body], grown


def _range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"
