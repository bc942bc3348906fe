"""Ignore files: what git, ripgrep and fd leave out, decided the way they do.

Each directory may have rules; those nearest to a file win, the last that fits within a file of rules decides. `.ignore`
goes before `.gitignore`, whichever is deeper, and a nested repository does not inherit git's rules from outside it.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ._globs import Segments, match_segments, segments

EXCLUDE = ".git/info/exclude"
_GIT = (".gitignore", EXCLUDE)
_TRAILING_SPACES = re.compile(r"(?<!\\)[ \t]+$")


class Rule(NamedTuple):
    ignores: bool
    directories_only: bool
    floats: bool
    tests: Segments


class Level(NamedTuple):
    """The rules of one directory, `depth` names below the root, and those above it."""

    above: "Level | None"
    depth: int
    rules: dict[str, list[Rule]]
    is_repository: bool


def parse_rules(text: str) -> list[Rule]:
    """The rules of an ignore file, the deciding ones first."""
    rules = [_rule(line) for line in text.removeprefix("\ufeff").splitlines()]
    return [rule for rule in reversed(rules) if rule is not None]


def _rule(line: str) -> Rule | None:
    if line.startswith("#"):
        return None
    pattern = _TRAILING_SPACES.sub("", line)
    ignores = not pattern.startswith("!")
    pattern = pattern if ignores else pattern[1:]
    only = pattern.endswith("/")
    pattern = pattern[:-1] if only else pattern
    tests = segments(pattern)
    return Rule(ignores, only, "/" not in pattern, tests) if tests else None


def ignored(level: Level, names: Sequence[str], parts: Sequence[str], is_directory: bool) -> bool:
    """Whether the rules leave out this path; `names` are the ignore files, the strongest first."""
    for name in names:
        at: Level | None = level
        while at is not None:
            decision = _decision(at.rules.get(name, ()), parts[at.depth :], is_directory)
            if decision is not None:
                return decision
            at = None if at.is_repository and name in _GIT else at.above
    return False


def _decision(rules: Sequence[Rule], parts: Sequence[str], is_directory: bool) -> bool | None:
    for rule in rules:
        if (is_directory or not rule.directories_only) and match_segments(
            rule.tests, parts[-1:] if rule.floats else parts
        ):
            return rule.ignores
    return None
