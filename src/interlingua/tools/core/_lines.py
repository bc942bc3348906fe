"""Lines, their endings, and what a change of some of them looks like."""

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
