"""The search itself, for bridges that no other program can look into, and for machines without such a program.

It knows a `Source` of directories and files, nothing of processes: `_worker` runs it where a pattern without end can be
killed.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from ._globs import Glob
from ._ignore import EXCLUDE, Level, ignored, parse_rules
from ._lines import split_lines
from ._text import Text, decode

MAX_DEPTH = 200


class Job(Struct, frozen=True, kw_only=True, array_like=True):
    """What to look for, beneath `start` (a path from the root; a file is searched whatever ignore files say).

    With `root`, a directory of this machine; without, the files are asked for. Paths are bytes: names may be no text.
    """

    start: bytes
    is_file: bool
    limit: int
    ignore_names: tuple[str, ...]
    max_file_bytes: int
    root: bytes | None = None
    glob: str | None = None
    kind: Literal["any", "file", "directory"] = "any"
    pattern: str | None = None
    ignore_case: bool = False
    literal: bool = False
    multiline: bool = False


class Entry(NamedTuple):
    name: str
    kind: str  # file, directory, link or other


class Found(NamedTuple):
    """A path that matched; or, of a content search, one of its lines."""

    path: str
    kind: str
    line: int = 0
    text: bytes = b""


class Source(Protocol):
    """Where files come from; None for what is not there or may not be seen."""

    def entries(self, path: str) -> list[Entry] | None: ...
    def read(self, path: str) -> bytes | None: ...


def find(job: Job, start: str, source: Source) -> Iterator[Found]:
    """The paths that match, in the order of their letters."""
    glob = Glob(job.glob or "*")
    base = len(_parts(start))
    for path, kind in walk(source, start, job.ignore_names):
        if job.kind in ("any", kind) and glob.matches(_parts(path)[base:]):
            yield Found(path, kind)


def grep(job: Job, start: str, source: Source) -> Iterator[Found]:
    """The lines that match, file by file."""
    matcher = compiled(job.pattern or "", job.ignore_case, job.literal)
    needle = _needle(job)
    glob = Glob(job.glob) if job.glob else None
    base = len(_parts(start))
    paths = [(start, "file")] if job.is_file else walk(source, start, job.ignore_names)
    for path, kind in paths:
        if kind != "file" or (glob and not job.is_file and not glob.matches(_parts(path)[base:])):
            continue
        data = source.read(path)
        if data is None or len(data) > job.max_file_bytes:
            continue
        for number, line in _lines(data, matcher, needle, job.multiline, job.limit):
            yield Found(path, kind, number, line)


def compiled(pattern: str, ignore_case: bool, literal: bool) -> re.Pattern[str]:
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0)
    return re.compile(re.escape(pattern) if literal else pattern, flags)


def searchable(data: bytes) -> tuple[list[str], str] | None:
    """The lines of a file, and the encoding to compare them in; None when it is binary."""
    text = decode(data)
    if text is None:
        return None
    return split_lines(text.text), _compared_in(text)


def _compared_in(text: Text) -> str:
    return "latin-1" if text.encoding == "latin-1" else "utf-8"


def _needle(job: Job) -> str:
    """Plain text that every match contains; empty when there is none to be seen."""
    pattern = job.pattern or ""
    plain = (job.literal and "\n" not in pattern) or re.fullmatch(r"[\w ]*", pattern)
    return pattern if plain and not job.ignore_case else ""


def _lines(
    data: bytes, matcher: re.Pattern[str], needle: str, multiline: bool, limit: int
) -> Iterator[tuple[int, bytes]]:
    text = decode(data)
    if text is None or needle not in text.text:
        return
    lines, encoding = split_lines(text.text), _compared_in(text)
    numbers = _spanning(lines, matcher) if multiline else (at for at, line in enumerate(lines) if matcher.search(line))
    for count, at in enumerate(numbers):
        if count > limit:
            return
        yield at + 1, lines[at].encode(encoding)


def _spanning(lines: list[str], matcher: re.Pattern[str]) -> Iterator[int]:
    """The lines that matches of the whole text touch, each once."""
    text, next_line, line, at = "\n".join(lines) + "\n" * bool(lines), 0, 0, 0
    for match in matcher.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        last = line + text.count("\n", at, max(at, match.end() - 1))
        yield from range(max(line, next_line), min(last + 1, len(lines)))
        next_line = max(next_line, last + 1)


def walk(source: Source, start: str, ignore_names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """All that is beneath a directory and not ignored, with its kind; sorted by path; links are told, not followed."""
    level = None
    parts = _parts(start)
    for depth in range(len(parts)):
        level = _level(source, parts[:depth], source.entries("/".join(parts[:depth])) or [], level, ignore_names)
    stack = [_directory(source, parts, level, ignore_names)]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            continue
        inside, kind, above = step
        yield "/".join(inside), kind
        if kind == "directory" and len(stack) < MAX_DEPTH:
            stack.append(_directory(source, inside, above, ignore_names))


def _directory(
    source: Source, parts: tuple[str, ...], above: Level | None, ignore_names: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], str, Level]]:
    entries = source.entries("/".join(parts)) or []
    level = _level(source, parts, entries, above, ignore_names)
    for name, kind in sorted(entries, key=_in_order):
        inside = (*parts, name)
        if name != ".git" and not ignored(level, ignore_names, inside, kind == "directory"):
            yield inside, kind, level


def _level(
    source: Source, parts: tuple[str, ...], entries: list[Entry], above: Level | None, ignore_names: Sequence[str]
) -> Level:
    there = {entry.name for entry in entries}
    rules = {}
    for name in ignore_names:
        data = source.read("/".join((*parts, name))) if name in there or (name == EXCLUDE and ".git" in there) else None
        if data is not None:
            rules[name] = parse_rules(data.decode(errors="replace"))
    if above is not None and not rules and ".git" not in there:
        return above
    return Level(above, len(parts), rules, ".git" in there)


def _in_order(entry: Entry) -> bytes:
    """A directory counts with its slash, which what is in it has too: so the paths come out sorted."""
    return os.fsencode(entry.name) + b"/" * (entry.kind == "directory")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")) if path else ()
