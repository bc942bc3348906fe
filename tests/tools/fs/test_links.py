"""Links in every combination: what the bridge reads is what the system would, if that lies inside, and nothing else."""

import asyncio
import os
import posixpath
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from interlingua.tools.fs import local_bridge
from interlingua.values.errors import ToolInputError

_NAMES = st.sampled_from(["a", "b", "c"])
_WAYS = st.lists(st.sampled_from(["a", "b", "c", "..", ".", "f"]), min_size=1, max_size=5).map("/".join)
_TARGETS = st.one_of(
    _WAYS,
    _WAYS.map("{root}/".__add__),
    st.sampled_from(
        ["..", "../..", "../outside", "../outside/f", "{outside}", "{outside}/f", "{root}", "{root}/../outside/f"]
    ),
)
_PLACES = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)


def build(root: Path, outside: Path, links: list[tuple[str, str]]) -> None:
    for place in ("f", "a/f", "a/b/f", "c/f"):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(f"inside {place}")
    outside.mkdir()
    (outside / "f").write_text("SECRET")
    for place, target in links:
        link = root / place
        if not os.path.lexists(link) and link.parent.is_dir() and link.parent.resolve().is_relative_to(root):
            link.symlink_to(target.format(root=root, outside=outside))


def expected(root: Path, path: str) -> str | None:
    """What the system reads there, if that is a file inside."""
    real = Path(os.path.realpath(root / posixpath.normpath(path)))
    return real.read_text() if real.is_relative_to(root) and real.is_file() else None


def read(root: Path, path: str) -> str | None:
    try:
        return asyncio.run(local_bridge(root).read_file(path))
    except ToolInputError:
        return None


@settings(max_examples=150)
@given(links=st.lists(st.tuples(_PLACES, _TARGETS), max_size=5), path=_WAYS)
def test_a_link_is_followed_exactly_when_it_stays_inside(links: list[tuple[str, str]], path: str):
    """Chains, circles, `..` after links, absolute targets: the kernel's answer is ours, cut at the root.

    Going out and coming back in is going out: there we refuse what the system would read.
    """
    with tempfile.TemporaryDirectory() as place:
        root, outside = Path(place).resolve() / "root", Path(place).resolve() / "outside"
        root.mkdir()
        build(root, outside, links)
        seen, there = read(root, path), expected(root, path)
        assert seen is None or seen.startswith("inside")
        assert seen == there or (seen is None and goes_out(links, path))


def goes_out(links: list[tuple[str, str]], path: str) -> bool:
    """Whether any link could have led above the root on the way."""
    return path.startswith("..") or any(".." in target for _, target in links)


@settings(max_examples=50)
@given(links=st.lists(st.tuples(_PLACES, _TARGETS), max_size=5), path=_WAYS)
def test_a_write_through_links_stays_inside(links: list[tuple[str, str]], path: str):
    """Whatever is written, what is outside is as it was."""
    with tempfile.TemporaryDirectory() as place:
        root, outside = Path(place).resolve() / "root", Path(place).resolve() / "outside"
        root.mkdir()
        build(root, outside, links)
        try:
            asyncio.run(local_bridge(root).write_file(path, "written"))
        except ToolInputError:
            written = False
        else:
            written = True
        assert {"root", "outside"} == {entry.name for entry in Path(place).iterdir()}
        assert ["f"] == [entry.name for entry in outside.iterdir()]
        assert "SECRET" == (outside / "f").read_text()
        assert not written or "written" == read(root, path)
