"""The built-in search, for bridges that ripgrep and fd cannot read, and for machines without them.

It reads a `FileAccess` of directories and files. As a program it is the worker process of a search: a pattern may take
forever, and only a process can be killed.
"""

import fnmatch
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from ...values.errors import ToolInputError
from ..confined_fs import ConfinedTree
from ..paths import name_bytes, name_text
from ._text import DecodedText, decode, split_lines

# Globs over paths, matched in linear time: no pattern of a model or an ignore file can hang the search.
#
# `*` and `?` match within a name, `[abc]` and `[!abc]` are sets, `**` matches any directories, `{a,b}` either, and a
# backslash escapes the next character. A glob without a slash is compared with the name only.


Name = Callable[[str], object]
Segments = tuple[Name | None, ...]
"""One test for each name of a path; None matches any number of names."""

_MAX_ALTERNATIVES = 256
_MAX_CHARS = 1000


class Glob:
    def __init__(self, pattern: str) -> None:
        if not pattern.strip("/"):
            raise ToolInputError("the glob is empty")
        if len(pattern) > _MAX_CHARS:
            raise ToolInputError(f"the glob has {len(pattern):,} characters, more than the limit of {_MAX_CHARS:,}")
        self._ways = [(segments(way), "/" not in way) for way in _alternatives(pattern.rstrip("/"))]

    def matches(self, parts: Sequence[str]) -> bool:
        return any(match_segments(way, parts[-1:] if floats else parts) for way, floats in self._ways)


def segments(pattern: str) -> Segments:
    """The tests for a glob without braces."""
    names = [name for name in pattern.split("/") if name]
    tests = [None if name == "**" else _test(name) for name in names]
    if tests and tests[-1] is None:  # `a/**` is what is in `a`, not `a`
        tests.append(_test("*"))
    return tuple(tests)


def match_segments(tests: Segments, parts: Sequence[str]) -> bool:
    if len(tests) == 1 and len(parts) == 1 and tests[0] is not None:
        return bool(tests[0](parts[0]))
    places = _skipped({0}, tests)
    for part in parts:
        after = set[int]()
        for place in places:
            if place == len(tests):
                continue
            test = tests[place]
            if test is None:
                after.add(place)
            elif test(part):
                after.add(place + 1)
        places = _skipped(after, tests)
    return len(tests) in places


def _skipped(places: set[int], tests: Segments) -> set[int]:
    """The places, and those after a `**` that matches nothing."""
    for place in sorted(places):
        while place < len(tests) and tests[place] is None:
            place += 1
            places.add(place)
    return places


@lru_cache(maxsize=4096)
def _test(name: str) -> Name:
    # `fnmatch` writes expressions that never look back past a star.
    unescaped = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], name)
    return re.compile(fnmatch.translate(unescaped.replace("[^", "[!"))).match


def _alternatives(pattern: str) -> list[str]:
    """The globs that a glob with braces expands to."""
    done, pending = list[str](), [pattern]
    while pending:
        if len(done) + len(pending) > _MAX_ALTERNATIVES:
            raise ToolInputError(f"the glob expands to more than {_MAX_ALTERNATIVES} globs; use fewer braces")
        glob = pending.pop()
        braces = _braces(glob)
        if braces is None:
            done.append(glob)
        else:
            start, end, options = braces
            pending += [glob[:start] + option + glob[end:] for option in options]
    return done


def _braces(glob: str) -> tuple[int, int, list[str]] | None:
    """The first outer braces with a comma in them: where they begin and end, and the options inside."""
    depth, start, cuts, at = 0, -1, list[int](), 0
    while at < len(glob):
        match glob[at]:
            case "\\":
                at += 1
            case "{":
                depth += 1
                if depth == 1:
                    start, cuts = at, [at]
            case "," if depth == 1:
                cuts.append(at)
            case "}" if depth:
                depth -= 1
                if depth == 0 and len(cuts) > 1:
                    ends = [*cuts[1:], at]
                    return start, at + 1, [glob[cut + 1 : end] for cut, end in zip(cuts, ends, strict=True)]
        at += 1
    return None


# Ignore files, with the semantics of git, ripgrep and fd (gitignore(5)).
#
# Each directory may have rules; those nearest to a file win, and within a file the last match. `.ignore` has precedence
# over `.gitignore` at any depth, and a nested repository does not inherit git's rules from outside.

EXCLUDE = ".git/info/exclude"
_GIT = (".gitignore", EXCLUDE)
_TRAILING_SPACES = re.compile(r"(?<!\\)[ \t]+$")


class IgnoreRule(NamedTuple):
    ignores: bool
    directories_only: bool
    floats: bool
    tests: Segments


class Level(NamedTuple):
    """The rules of one directory, `depth` names below the root, and those above it."""

    above: "Level | None"
    depth: int
    rules: dict[str, list[IgnoreRule]]
    is_repository: bool


def parse_rules(text: str) -> list[IgnoreRule]:
    """The rules of an ignore file, the deciding ones first."""
    rules = [_rule(line) for line in text.removeprefix("\ufeff").splitlines()]
    return [rule for rule in reversed(rules) if rule is not None]


def _rule(line: str) -> IgnoreRule | None:
    if line.startswith("#"):
        return None
    pattern = _TRAILING_SPACES.sub("", line)
    ignores = not pattern.startswith("!")
    pattern = pattern if ignores else pattern[1:]
    only = pattern.endswith("/")
    pattern = pattern[:-1] if only else pattern
    tests = segments(pattern)
    return IgnoreRule(ignores, only, "/" not in pattern, tests) if tests else None


def ignored(level: Level, names: Sequence[str], parts: Sequence[str], is_directory: bool) -> bool:
    """Whether the rules ignore this path; `names` are the ignore files in order of precedence."""
    for name in names:
        at: Level | None = level
        while at is not None:
            decision = _decision(at.rules.get(name, ()), parts[at.depth :], is_directory)
            if decision is not None:
                return decision
            at = None if at.is_repository and name in _GIT else at.above
    return False


def _decision(rules: Sequence[IgnoreRule], parts: Sequence[str], is_directory: bool) -> bool | None:
    for rule in rules:
        if (is_directory or not rule.directories_only) and match_segments(
            rule.tests, parts[-1:] if rule.floats else parts
        ):
            return rule.ignores
    return None


MAX_DEPTH = 200


class Job(Struct, frozen=True, kw_only=True, array_like=True):
    """A search below `start` (a path from the root; a file is searched even if ignored).

    `root` is a local directory; without it, the parent process provides the files. Paths are bytes, since names may not
    be valid text.
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


class FileEntry(NamedTuple):
    name: str
    kind: str  # file, directory, link or other


class Found(NamedTuple):
    """A matching path; or, in a content search, a matching line."""

    path: str
    kind: str
    line: int = 0
    text: bytes = b""


class FileAccess(Protocol):
    """Access to files; None for what is missing or not accessible."""

    def entries(self, path: str) -> list[FileEntry] | None: ...
    def read(self, path: str) -> bytes | None: ...


def find(job: Job, start: str, source: FileAccess) -> Iterator[Found]:
    """The matching paths, sorted."""
    glob = Glob(job.glob or "*")
    base = len(_parts(start))
    for path, kind in walk(source, start, job.ignore_names):
        if job.kind in ("any", kind) and glob.matches(_parts(path)[base:]):
            yield Found(path, kind)


def grep(job: Job, start: str, source: FileAccess) -> Iterator[Found]:
    """The matching lines, file by file."""
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
    """The lines of a file, and the encoding for comparison; None if it is binary."""
    text = decode(data)
    if text is None:
        return None
    return split_lines(text.text), _compared_in(text)


def _compared_in(text: DecodedText) -> str:
    return "latin-1" if text.encoding == "latin-1" else "utf-8"


def _needle(job: Job) -> str:
    """Plain text that every match contains; empty if unknown."""
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
    """The lines that matches in the whole text span, each once."""
    text, next_line, line, at = "\n".join(lines) + "\n" * bool(lines), 0, 0, 0
    for match in matcher.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        last = line + text.count("\n", at, max(at, match.end() - 1))
        yield from range(max(line, next_line), min(last + 1, len(lines)))
        next_line = max(next_line, last + 1)


def walk(source: FileAccess, start: str, ignore_names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """All paths below a directory that are not ignored, with their kinds, sorted; links are not followed."""
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
    source: FileAccess, parts: tuple[str, ...], above: Level | None, ignore_names: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], str, Level]]:
    entries = source.entries("/".join(parts)) or []
    level = _level(source, parts, entries, above, ignore_names)
    for name, kind in sorted(entries, key=_in_order):
        inside = (*parts, name)
        if name != ".git" and not ignored(level, ignore_names, inside, kind == "directory"):
            yield inside, kind, level


def _level(
    source: FileAccess,
    parts: tuple[str, ...],
    entries: list[FileEntry],
    above: Level | None,
    ignore_names: Sequence[str],
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


def _in_order(entry: FileEntry) -> bytes:
    """The sort key of an entry: directories with their slash, so that full paths are sorted."""
    return name_bytes(entry.name) + b"/" * (entry.kind == "directory")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")) if path else ()


# --- the worker process -----------------------------------------------------------------------------------------------
# It reads a job from stdin and writes matches to stdout, in frames of a four-byte length and msgpack. If the job has no
# root, it requests directories and files the same way, and receives them on stdin.


def packed(value: Any) -> bytes:
    body = msgspec.msgpack.encode(value)
    return len(body).to_bytes(4, "big") + body


class LocalSource:
    """Files below a local directory, confined like the local bridge."""

    def __init__(self, root: bytes, max_bytes: int) -> None:
        self._tree = ConfinedTree(os.fsdecode(root), max_bytes)

    def entries(self, path: str) -> list[FileEntry] | None:
        try:
            return [FileEntry(name, kind) for name, kind in self._tree.entries(f"./{path}")]
        except ToolInputError:
            return None

    def read(self, path: str) -> bytes | None:
        try:
            return self._tree.read(f"./{path}")
        except ToolInputError:
            return None


class RemoteSource:
    """Files that the parent process fetches."""

    def entries(self, path: str) -> list[FileEntry] | None:
        names = _request("entries", path)
        if names is None:
            return None
        decoded = [name_text(name) for name in names]
        return [FileEntry(name.rstrip("/"), "directory" if name.endswith("/") else "file") for name in decoded]

    def read(self, path: str) -> bytes | None:
        data: bytes | None = _request("read", path)
        return data


def _request(what: str, path: str) -> Any:
    _send((what, name_bytes(path)))
    return msgspec.msgpack.decode(_received())


def _received() -> bytes:
    return sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(4), "big"))


def _send(value: Any) -> None:
    sys.stdout.buffer.write(packed(value))
    sys.stdout.buffer.flush()


def main() -> None:
    job = msgspec.msgpack.decode(_received(), type=Job)
    source = LocalSource(job.root, job.max_file_bytes) if job.root is not None else RemoteSource()
    search = find if job.pattern is None else grep
    for path, kind, line, text in itertools.islice(search(job, name_text(job.start), source), job.limit + 1):
        _send(("found", name_bytes(path), kind, line, text[:512]))
    _send(("done",))


if __name__ == "__main__":
    main()
