"""Globs and ignore rules, by themselves."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlingua.tools.core._engine import Glob, Level, ignored, parse_rules
from interlingua.values.errors import ToolInputError


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/x"]),
        ("a/*", ["a/b"], ["a", "a/b/c", "x/a/b"]),
        ("a/**", ["a/b", "a/b/c"], ["a"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["a/x"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "b"]),
        ("/a", ["a"], ["x/a"]),
        ("a?c", ["abc"], ["ac", "abbc"]),
        ("[!a]x", ["bx"], ["ax"]),
        ("[^a]x", ["bx"], ["ax"]),
        (r"\*x", ["*x"], ["ax"]),
        ("{a,b{c,d}}.x", ["a.x", "bc.x", "bd.x"], ["b.x"]),
        ("{a}", ["{a}"], ["a"]),
        ("x/{a/b,c}", ["x/a/b", "x/c"], ["x/a"]),
        ("[", ["["], ["a"]),
    ],
)
def test_globs_mean_what_they_say(glob: str, yes: list[str], no: list[str]):
    """Names that match and names that do not."""
    assert (yes, []) == tuple([path for path in paths if Glob(glob).matches(path.split("/"))] for paths in (yes, no))


def test_a_glob_needs_something_to_match():
    """Slashes alone are nothing."""
    with pytest.raises(ToolInputError):
        Glob("//")


def test_no_glob_takes_for_ever():
    """Stars upon stars are matched in one go, in names and in paths."""
    assert not Glob("*a" * 50 + "b").matches(("a" * 255,))
    assert not Glob("/".join(["**", "a"] * 50) + "/b").matches(("a",) * 200)


_NAME = st.sampled_from(["a", "b", "ab", "a.b", ".a"])
_PART = st.one_of(_NAME, st.sampled_from(["*", "**", "a*", "*.b", "?", "[ab]", "[!a]", "\\a"]))
_LINE = st.builds(
    lambda negated, lead, parts, tail: "!" * negated + "/" * lead + "/".join(parts) + "/" * tail,
    st.booleans(),
    st.booleans(),
    st.lists(_PART, min_size=1, max_size=3),
    st.booleans(),
)
_RULES = st.lists(st.one_of(_LINE, st.sampled_from(["", "# a", "a  "])), max_size=5)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=60)
@given(rules=_RULES, path=st.lists(_NAME, min_size=1, max_size=3), directory=st.booleans())
def test_rules_decide_as_git_does(
    tmp_path_factory: pytest.TempPathFactory, rules: list[str], path: list[str], directory: bool
):
    """For one ignore file, with all that a rule may say."""
    place = tmp_path_factory.mktemp("rules")
    subprocess.run(["git", "init", "-q", place], check=True, capture_output=True)
    (place / ".gitignore").write_text("\n".join(rules) + "\n")
    target = place.joinpath(*path)
    if directory:
        target.mkdir(parents=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    answer = subprocess.run(
        ["git", "-C", place, "check-ignore", "-q", "/".join(path)], check=False, capture_output=True
    )
    assert (answer.returncode == 0) == _ignored_with_parents("\n".join(rules), path, directory), Path(place)


def _ignored_with_parents(text: str, path: list[str], directory: bool) -> bool:
    level = Level(None, 0, {".gitignore": parse_rules(text)}, False)
    ways = [(path[:depth], depth < len(path) or directory) for depth in range(1, len(path) + 1)]
    return any(ignored(level, (".gitignore",), way, is_directory) for way, is_directory in ways)
