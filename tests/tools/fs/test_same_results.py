"""With ripgrep and fd or without them: the same answers, on trees that a search for counterexamples made."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlingua.tools.tool import ToolContext
from tools.fs.bridges import caller

_NAMES = st.sampled_from(["a", "b", "ab", "a.py", "b.py", "c.txt", ".h", "A", "a b", "ü", "@x"])
_DIRECTORIES = st.lists(_NAMES, max_size=3).map(tuple)
_LINES = st.sampled_from(["", "foo", "Foo bar", "bar()", "a.b", "  foo", "ünï", "foo\tbar", "x" * 600 + "foo"])
_TEXTS = st.lists(_LINES, max_size=6).flatmap(
    lambda lines: st.sampled_from(
        ["\n".join(lines), "".join(line + "\n" for line in lines), "\r\n".join(lines) + "\r\n"]
    )
)
_CONTENTS = st.one_of(
    _TEXTS.map(str.encode), st.sampled_from([b"foo\x00", b"\xff\xfef\x00o\x00o\x00", b"\xef\xbb\xbffoo"])
)
_RULES = st.lists(
    st.sampled_from(["a", "*.py", "b/", "/a", "!a.py", "a/*", "**/b", "a/**", "!b", "# x", "c.*", "!/a/b", "a b"]),
    min_size=1,
    max_size=3,
).map(lambda lines: ("\n".join(lines) + "\n").encode())
_RULE_FILES = st.tuples(_DIRECTORIES, st.sampled_from([".gitignore", ".ignore", ".git/info/exclude"]), _RULES)
_TREES = st.tuples(
    st.lists(st.tuples(_DIRECTORIES, _NAMES, _CONTENTS), max_size=12),
    st.lists(_RULE_FILES, max_size=3),
    st.lists(_DIRECTORIES, max_size=2),
)
_GLOBS = st.sampled_from(
    ["*", "*.py", "a*", "a/*", "**/b", "a/**", "**/*.py", "[ab].py", "*.{py,txt}", "{a,b}/*.py", "ü"]
)
_PATTERNS = st.sampled_from(
    ["foo", "^foo", "foo$", "o+", r"\bbar\b", "^$", "x*", r"a\.b", "(foo|bar)", "ü", "[f-o]{3}", "^"]
)


def build(root: Path, tree) -> None:
    files, rules, directories = tree
    entries = [("/".join((*where, name)), data) for where, name, data in (*files, *rules)]
    for path, data in entries:
        target = root / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError:  # the name is taken by a file or a directory of the same tree
            continue
    for parts in directories:
        try:
            (root / "/".join(parts)).mkdir(parents=True, exist_ok=True)
        except OSError:
            continue


def both(tree, start: tuple[str, ...], name: str, **params):
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        root.mkdir()
        build(root, tree)
        assume((root / "/".join(start)).is_dir())
        call = caller(ToolContext(root=str(root)))

        async def run() -> list:
            return [
                await call(name, options={"programs": programs}, path="/".join(start) or ".", **params)
                for programs in (True, False)
            ]

        return asyncio.run(run())


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
@settings(max_examples=40)
@given(
    tree=_TREES,
    start=_DIRECTORIES,
    pattern=_PATTERNS,
    glob=st.one_of(st.none(), _GLOBS),
    flags=st.fixed_dictionaries(
        {"ignoreCase": st.booleans(), "multiline": st.booleans(), "context": st.integers(0, 2)}
    ),
    limit=st.sampled_from([1, 3, 100]),
)
def test_ripgrep_and_our_search_find_the_same_lines(tree, start, pattern, glob, flags, limit):
    """In the same order, with the same limit, under the same ignore files."""
    with_rg, without = both(
        tree, start, "grep", pattern=pattern, limit=limit, **flags, **({"glob": glob} if glob else {})
    )
    assert without.text == with_rg.text


@pytest.mark.skipif(not (shutil.which("fd") or shutil.which("fdfind")), reason="fd is not installed")
@settings(max_examples=40)
@given(
    tree=_TREES,
    start=_DIRECTORIES,
    pattern=_GLOBS,
    kind=st.sampled_from(["any", "file", "directory"]),
    limit=st.sampled_from([1, 3, 100]),
)
def test_fd_and_our_search_find_the_same_paths(tree, start, pattern, kind, limit):
    """In a repository, where every version of fd obeys git's rules."""
    files, rules, directories = tree
    tree = (files, [((), ".git/info/exclude", b""), *rules], directories)
    with_fd, without = both(tree, start, "find", pattern=pattern, type=kind, limit=limit)
    assert without.text == with_fd.text
