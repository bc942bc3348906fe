"""Globs over paths, matched in linear time: no pattern of a model or an ignore file can hang the search.

`*` and `?` stay within a name, `[abc]` and `[!abc]` are sets, `**` stands for any directories, `{a,b}` for either, and
a backslash takes the meaning of the next character away. A glob without a slash is compared with the name alone.
"""

import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from ...values.errors import ToolInputError

Name = Callable[[str], object]
Segments = tuple[Name | None, ...]
"""One test for each name of a path; None stands for any number of names."""

_MAX_ALTERNATIVES = 256
_MAX_CHARS = 1000


class Glob:
    def __init__(self, pattern: str) -> None:
        if not pattern.strip("/"):
            raise ToolInputError("the glob is empty")
        if len(pattern) > _MAX_CHARS:
            raise ToolInputError(f"the glob has {len(pattern):,} characters, at most {_MAX_CHARS:,} are taken")
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
    """The places, and those behind a `**` that stands for nothing."""
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
    """The globs that a glob with braces stands for."""
    done, pending = list[str](), [pattern]
    while pending:
        if len(done) + len(pending) > _MAX_ALTERNATIVES:
            raise ToolInputError(f"the glob stands for more than {_MAX_ALTERNATIVES} others; use fewer braces")
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
