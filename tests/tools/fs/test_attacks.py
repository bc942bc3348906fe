"""Whoever writes the paths, the patterns and the tree is against us: nothing outside is read, changed or waited for.

Outside the root lies a file that says SECRET. `docs/security.md` lists the attacks with these tests.
"""

import asyncio
import ctypes
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from interlingua import Abort
from interlingua.tools.core import grep
from interlingua.tools.fs import OutsideRoot, local_bridge, memory_bridge
from interlingua.tools.tool import ToolContext
from interlingua.values.errors import ToolInputError
from tools.fs.bridges import Call, caller

SECONDS_OF_RACE = 1.0
CATASTROPHE = "(a+)+$"
ENGINES = [pytest.param({"programs": True}, id="programs"), pytest.param({"programs": False}, id="python")]


@pytest.fixture
def outside(root: Path) -> Path:
    """What must not be reached: a directory beside the root."""
    path = root.parent / "outside"
    path.mkdir()
    (path / "f").write_text("SECRET\n")
    return path


def untouched(outside: Path) -> bool:
    return ["f"] == [path.name for path in outside.iterdir()] and "SECRET\n" == (outside / "f").read_text()


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def attempts(path: str) -> list[tuple[str, dict]]:
    """Every tool, told to go there."""
    return [
        ("read", {"path": path}),
        ("write", {"path": path, "content": "x"}),
        ("edit", {"path": path, "oldText": "SECRET", "newText": "x"}),
        ("ls", {"path": path}),
        ("find", {"pattern": "*", "path": path}),
        ("grep", {"pattern": "SECRET", "path": path}),
        ("apply_patch", {"input": patch(f"*** Update File: {path}", "@@", "-SECRET", "+x")}),
        ("apply_patch", {"input": patch(f"*** Delete File: {path}")}),
        ("apply_patch", {"input": patch(f"*** Add File: {path}", "+x")}),
        ("apply_patch", {"input": patch("*** Update File: inside", f"*** Move to: {path}")}),
    ]


async def refused(call: Call, path: str) -> list[str]:
    """The names of the tools that did not refuse."""
    passed = []
    for name, params in attempts(path):
        try:
            await call(name, **params)
        except ToolInputError:
            continue
        passed.append(name)
    return passed


# --- spellings ------------------------------------------------------------------------------------------------------

SPELLINGS = [
    "../outside/f",
    "./../outside/f",
    "a/../../outside/f",
    "a/b/../../../outside/f",
    "{root}/../outside/f",
    "{root}evil/f",
    "{outside}/f",
    "//{outside}/f",
    "/proc/self/root{outside}/f",
    "/proc/self/cwd/f",
    "/etc/passwd",
    "~/f",
    "@{outside}/f",
    "@../outside/f",
    "@~/f",
    "\u00a0../outside/f",
    "..\u2044outside",
    "..\\outside\\f",
    "a\\..\\..\\outside\\f",
    "C:\\Windows\\win.ini",
    "c:/Windows/win.ini",
    "\\\\server\\share",
    "//server/share",
    "\\\\?\\C:\\x",
    "file://{outside}/f",
    "FILE://{outside}/f",
    "file://localhost{outside}/f",
    "file://server/share/f",
    "file:///a/..%2f..%2foutside/f",
    "file:///a%5c..%5coutside",
    "file://{root}/%2e%2e/outside/f",
    "file:..",
    "inside\0/../../outside/f",
    "../outside/f\0",
    "file://{root}/a%00",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_no_spelling_of_a_path_leads_out(root: Path, outside: Path, call_local: Call, monkeypatch, spelling: str):
    """Nothing is read, written, listed, searched, patched or moved there, and nothing is made inside by mistake."""
    (root / "inside").write_text("x\n")
    (root / "a").mkdir()
    (root.parent / "rootevil").mkdir()
    (root.parent / "rootevil/f").write_text("SECRET\n")
    monkeypatch.setenv("HOME", str(outside))
    path = spelling.format(root=root, outside=outside)
    odd_names = {"..\u2044outside", "\u00a0../outside/f"}  # names like any other: they may be written, inside
    passed = await refused(call_local, path)
    assert [] == [name for name in passed if spelling not in odd_names]
    assert untouched(outside)
    assert "SECRET\n" == (root.parent / "rootevil/f").read_text()
    assert {"root", "outside", "rootevil"} == {path.name for path in root.parent.iterdir()}


@pytest.mark.parametrize("spelling", ["../x", "a/../../x", "~/x", "c:\\x", "//x/y", "\\\\x", "file:///a%2fb", "x\0y"])
async def test_the_memory_bridge_refuses_the_same(spelling: str):
    """So that what works in a test works on a disk."""
    with pytest.raises(OutsideRoot):
        await memory_bridge().write_file(spelling, "x")


@pytest.mark.parametrize("path", [5, None, [], {"a": 1}, True])
async def test_a_path_that_is_no_text_is_refused(call_local: Call, path):
    """By the tools and by the bridge."""
    with pytest.raises(ToolInputError):
        await call_local("read", path=path)


async def test_another_name_for_the_path_does_not_hide_it(root: Path, call_local: Call):
    """Whoever judges a call sees `path`; `file_path` beside it is not used, even when `path` is empty."""
    (root / "secret").write_text("x\n")
    for path in ("", None, "missing"):
        with pytest.raises(ToolInputError):
            await call_local("read", path=path, file_path="secret")


# --- links ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def links(root: Path, outside: Path) -> list[str]:
    """Paths through links that lead out in every way."""
    (root / "inside").write_text("x\n")
    (root / "file").symlink_to(outside / "f")
    (root / "up").symlink_to("../outside/f")
    (root / "dir").symlink_to(outside)
    (root / "chain").symlink_to("chain2")
    (root / "chain2").symlink_to("dir/f")
    (root / "d").mkdir()
    (root / "d/up").symlink_to("../../outside")
    (root / "sly").symlink_to(f"{root}/../outside/f")
    (root / "proc").symlink_to(f"/proc/self/root{outside}/f")
    (root / "cwd").symlink_to("/proc/self/cwd")
    (root / "missing").symlink_to(outside / "new")
    return [
        "file",
        "up",
        "dir/f",
        "dir/new",
        "dir",
        "chain",
        "d/up/f",
        "sly",
        "proc",
        "cwd/x",
        "missing",
    ]


async def test_no_link_leads_out(root: Path, outside: Path, call_local: Call, links: list[str]):
    """Nor makes a file appear where it points to."""
    results = {path: await refused(call_local, path) for path in links}
    assert {} == {path: passed for path, passed in results.items() if passed}
    assert untouched(outside)


async def test_links_in_a_circle_end(root: Path, call_local: Call):
    """With an error, not with a hang."""
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    (root / "grow").symlink_to("grow/grow")
    for path in ("a", "grow", "grow/x"):
        with pytest.raises(OutsideRoot, match="too many links"):
            await call_local("read", path=path)


async def test_a_hard_link_keeps_the_outside_file_as_it_was(root: Path, outside: Path, call_local: Call):
    """Writing replaces the name inside; the file that the name shared is not touched."""
    os.link(outside / "f", root / "hard")
    await call_local("edit", path="hard", oldText="SECRET", newText="changed")
    await call_local("write", path="hard", content="changed again")
    assert untouched(outside)


# --- races ----------------------------------------------------------------------------------------------------------


def exchange(first: Path, second: Path) -> None:
    """The two names change places in one step, so that there is never nothing."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        pytest.skip("this system cannot exchange two names")
    here, swap = -100, 2
    if renameat2(here, os.fsencode(first), here, os.fsencode(second), swap) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@contextmanager
def swapping(door: Path, other: Path) -> Iterator[None]:
    """Another thread that turns `door` into `other` and back, as fast as it can."""
    exchange(door, other)
    exchange(door, other)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            exchange(door, other)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def racing(call: Call, name: str, params: dict) -> tuple[int, set[str]]:
    """Calls a tool until the time is over: how often it succeeded, and what it said."""
    end, done, outcomes = time.monotonic() + SECONDS_OF_RACE, 0, set()
    while time.monotonic() < end or not done:
        try:
            outcomes.add((await call(name, **params)).text)
            done += 1
        except ToolInputError as error:
            outcomes.add(str(error))
    return done, outcomes


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("read", {"path": "door/f"}),
        ("write", {"path": "door/f", "content": "inside\n"}),
        ("write", {"path": "door/new/g", "content": "inside\n"}),
        ("edit", {"path": "door/f", "edits": [{"oldText": "inside\n", "newText": "inside\n\n", "all": True}]}),
        ("ls", {"path": "door"}),
        ("find", {"pattern": "*", "path": "."}),
        ("find", {"pattern": "*", "path": "door", "options": {"programs": False}}),
        ("grep", {"pattern": "[A-Z]{6}|inside", "path": "."}),
        ("grep", {"pattern": "[A-Z]{6}|inside", "path": "door"}),
        ("grep", {"pattern": "[A-Z]{6}|inside", "options": {"programs": False}}),
    ],
)
async def test_a_directory_swapped_for_a_link_leads_nowhere(
    root: Path, outside: Path, call_local: Call, name: str, params: dict
):
    """While it happens thousands of times, no call sees or changes what is outside."""
    (outside / "f").rename(outside / "only-outside")
    (outside / "f").write_text("SECRET\n")
    (root / ".git").mkdir()
    (root / "door").mkdir()
    (root / "door/f").write_text("inside\n")
    (root / "trap").symlink_to(outside)
    with swapping(root / "door", root / "trap"):
        _, outcomes = await racing(call_local, name, params)
    assert not [text for text in outcomes if "SECRET" in text or "only-outside" in text]
    assert {"f", "only-outside"} == {path.name for path in outside.iterdir()}
    assert "SECRET\n" == (outside / "f").read_text()


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("read", {"path": "door"}),
        ("write", {"path": "door", "content": "inside\n"}),
        ("grep", {"pattern": "SECRET|inside", "path": "."}),
    ],
)
async def test_a_file_swapped_for_a_link_leads_nowhere(
    root: Path, outside: Path, call_local: Call, name: str, params: dict
):
    """The last part of a path is no weaker than the others."""
    (root / "door").write_text("inside\n")
    (root / "trap").symlink_to(outside / "f")
    with swapping(root / "door", root / "trap"):
        _, outcomes = await racing(call_local, name, params)
    assert not [text for text in outcomes if "SECRET" in text]
    assert untouched(outside)


# --- what is no file ------------------------------------------------------------------------------------------------


async def test_pipes_sockets_and_devices_are_never_opened(root: Path, call_local: Call):
    """A pipe without a writer would block for ever; a device may do anything."""
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        special = ["pipe", "socket"]
        with suppress(PermissionError):
            os.mknod(root / "zero", 0o666 | 0o020000, os.makedev(1, 5))
            special.append("zero")
        for path in special:
            for name, params in attempts(path)[:3]:
                with pytest.raises(ToolInputError, match="not a regular file"):
                    await call_local(name, **params)
        for programs in (True, False):
            result = await call_local("grep", options={"programs": programs, "seconds": 10}, pattern="x")
            assert "No matches found." == result.text
        assert "pipe  (no regular file)" in (await call_local("ls")).text


# --- size -----------------------------------------------------------------------------------------------------------


async def test_a_file_of_ten_gigabytes_is_refused_by_its_size(root: Path, call_local: Call):
    """Not one byte of it is read, though it takes no room on the disk."""
    with (root / "sparse").open("wb") as file:
        file.truncate(10 * 1024**3)
    for name, params in [
        ("read", {"path": "sparse"}),
        ("read", {"path": "sparse", "offset": 1, "limit": 1}),
        ("edit", {"path": "sparse", "oldText": "a", "newText": "b"}),
        ("grep", {"pattern": "a", "path": "sparse"}),
        ("apply_patch", {"input": patch("*** Update File: sparse", "@@", "-a")}),
    ]:
        with pytest.raises(ToolInputError, match="10,737,418,240 bytes"):
            await call_local(name, **params)
    for programs in (True, False):
        assert "No matches found." == (await call_local("grep", options={"programs": programs}, pattern="a")).text


@pytest.mark.parametrize("options", ENGINES)
async def test_a_million_matches_give_a_page(root: Path, call_local: Call, options: dict):
    """In one file and in many."""
    (root / "many").write_text("a\n" * 1_000_000)
    for number in range(300):
        (root / f"file{number}").write_text("a\n" * 2000)
    for params in ({"limit": 2000}, {"limit": 2000, "path": "many"}, {"context": 50}):
        result = await call_local("grep", options=options, pattern="a|^$", **params)
        assert result.details["truncated"]
        assert result.details["matches"] >= 100
        assert len(result.text) < grep.MAX_BYTES + 300


@pytest.mark.parametrize("options", ENGINES)
async def test_a_tree_without_a_floor_is_left_at_a_depth(root: Path, call_local: Call, options: dict):
    """Reading goes as deep as asked, searching to a limit; neither runs out of stack or handles."""
    deep = "/".join(["d"] * 600)
    await call_local("write", path=f"{deep}/leaf", content="needle\n")
    await call_local("write", path="d/d/leaf", content="needle\n")
    assert "     1\tneedle" == (await call_local("read", path=f"{deep}/leaf")).text
    assert "d/d/leaf:1: needle" == (await call_local("grep", options=options, pattern="needle")).text
    assert ["d/d/leaf"] == (await call_local("find", options=options, pattern="leaf")).details["paths"]
    shutil.rmtree(root / "d", ignore_errors=True)


async def test_a_long_patch_and_a_long_list_of_edits_are_refused(call_local: Call):
    """Before any work."""
    with pytest.raises(ToolInputError, match="limit of 4,000,000"):
        await call_local("apply_patch", input=patch("*** Add File: a", "+" + "x" * 4_000_000))
    with pytest.raises(ToolInputError, match="limit of 500"):
        await call_local("apply_patch", input=patch(*(f"*** Add File: {number}" for number in range(501))))


# --- patterns -------------------------------------------------------------------------------------------------------


async def test_a_pattern_without_end_is_stopped(root: Path, call_local: Call):
    """By the clock, while the rest of the program goes on."""
    (root / "f").write_text("a" * 60 + "!\n")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.05)
            ticks += 1

    ticking = asyncio.create_task(tick())
    with pytest.raises(ToolInputError, match="stopped after 2 seconds; simplify the pattern"):
        await call_local("grep", options={"programs": False, "seconds": 2}, pattern=CATASTROPHE)
    ticking.cancel()
    assert ticks >= 10


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
async def test_ripgrep_does_not_mind_it(root: Path, call_local: Call):
    """Its expressions are matched in linear time."""
    (root / "f").write_text("a" * 60 + "!\n")
    assert "No matches found." == (await call_local("grep", pattern=CATASTROPHE)).text


async def test_a_search_can_be_aborted(root: Path, call_local: Call):
    """The process that searches is gone when the call returns."""
    (root / "f").write_text("a" * 60 + "!\n")
    signal = Abort()
    asyncio.get_running_loop().call_later(0.5, signal.abort, "enough")
    with pytest.raises(ToolInputError, match="stopped: enough"):
        await call_local("grep", signal=signal, options={"programs": False}, pattern=CATASTROPHE)


async def test_a_search_can_be_cancelled(root: Path, call_local: Call):
    """And leaves no process behind."""
    (root / "f").write_text("a" * 60 + "!\n")
    before = children()
    task = asyncio.create_task(call_local("grep", options={"programs": False}, pattern=CATASTROPHE))
    while not children() - before:
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert set() == children() - before


def children() -> set[str]:
    """The processes that this one has begun, the ended ones that nobody has looked at among them."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {pid for task in tasks for pid in task.read_text().split()}


@pytest.mark.parametrize("options", ENGINES)
async def test_stars_upon_stars_do_not_hang(root: Path, call_local: Call, options: dict):
    """In a glob of the model, and in an ignore file of the tree."""
    stars = "*a" * 40 + "b"
    (root / ("a" * 200)).write_text("x\n")
    (root / ".gitignore").write_text(f"{stars}\n**/{stars}/**/{stars}\n")
    options = options | {"seconds": 10}
    assert [] == (await call_local("find", options=options, pattern=stars)).details["paths"]
    assert "No matches found." == (await call_local("grep", options=options, pattern="x", glob=f"**/{stars}")).text
    assert 1 == (await call_local("grep", options=options, pattern="^x$")).details["matches"]


@pytest.mark.parametrize(
    "pattern", ["((((a{1,500}){1,500}){1,500}){1,500})", "(" * 900 + ")" * 900, "a{9999999999}", "[" * 500]
)
async def test_patterns_that_are_large_in_few_signs(root: Path, call_local: Call, pattern: str):
    """An answer or an error, in time."""
    (root / "f").write_text("b\n")
    with suppress(ToolInputError):
        result = await call_local("grep", options={"seconds": 10}, pattern=pattern)
        assert "No matches found." == result.text


# --- programs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["--pre=touch pwned", "-f/etc/passwd", "--", "-e", "--files"])
async def test_a_pattern_is_never_an_option(root: Path, call_local: Call, pattern: str):
    """Nor is a path or a glob."""
    (root / "--hidden").write_text(f"say {pattern}\n")
    assert f"--hidden:1: say {pattern}" == (await call_local("grep", pattern=pattern, literal=True)).text
    assert ["--hidden"] == (await call_local("find", pattern="--hidden")).details["paths"]
    assert f"--hidden:1: say {pattern}" == (await call_local("grep", pattern="^say", path="--hidden")).text
    await call_local("grep", pattern="x", glob=pattern)
    await call_local("find", pattern=pattern)
    assert ["--hidden"] == [path.name for path in root.iterdir()]


async def test_programs_in_the_root_are_not_run(root: Path, call_local: Call, monkeypatch: pytest.MonkeyPatch):
    """A model that may only write files could put one there, first in the PATH."""
    (root / "bin").mkdir()
    for name in ("rg", "fd", "fdfind"):
        program = root / "bin" / name
        program.write_text(f"#!/bin/sh\ntouch {root}/pwned\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}/bin:{os.environ['PATH']}")
    (root.parent / "elsewhere").symlink_to(root / "bin")
    await call_local("grep", pattern="x")
    await call_local("find", pattern="x")
    monkeypatch.setenv("PATH", f"{root.parent}/elsewhere")
    await call_local("grep", pattern="x")
    await call_local("find", pattern="x")
    assert not (root / "pwned").exists()


async def test_settings_of_ripgrep_are_not_read(root: Path, call_local: Call, monkeypatch: pytest.MonkeyPatch):
    """They can name a program to run on every file."""
    script = root.parent / "pre.sh"
    script.write_text(f"#!/bin/sh\ntouch {root.parent}/pwned\n")
    script.chmod(0o755)
    config = root.parent / "config"
    config.write_text(f"--pre={script}\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    (root / "f").write_text("x\n")
    assert "f:1: x" == (await call_local("grep", pattern="x")).text
    assert not (root.parent / "pwned").exists()


async def test_modules_in_the_working_directory_are_not_imported(
    root: Path, call_local: Call, monkeypatch: pytest.MonkeyPatch
):
    """The process that searches takes its code from where we do, not from where it stands."""
    for name in ("msgspec", "os", "interlingua", "re", "fnmatch"):
        (root / f"{name}.py").write_text(f"open({str(root / 'pwned')!r}, 'w')\n")
    monkeypatch.chdir(root)
    assert sys.path[0] != str(root)
    result = await call_local("grep", options={"programs": False}, pattern="pwned")
    assert 5 == result.details["matches"]
    assert not (root / "pwned").exists()


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ENGINES)
async def test_names_are_shown_escaped(root: Path, call_local: Call, options: dict):
    """A name cannot fake a line of output, speak to a terminal, or break the text."""
    names = [b"new\nline", b"esc\x1b[31m", b"bad\xff", "bidi\u202e".encode(), b"tab\t"]
    for name in names:
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("needle\n")
    shown = ["bad\\xff", "bidi\\u202e", "esc\\x1b[31m", "new\\nline", "tab\\t"]
    assert [f"{name}  7" for name in shown] == sorted((await call_local("ls", options={})).text.split("\n"))
    assert shown == sorted((await call_local("find", options=options, pattern="*")).text.split("\n"))
    lines = (await call_local("grep", options=options, pattern="needle")).text.split("\n")
    assert [f"{name}:1: needle" for name in shown] == sorted(lines)
    for name in names:
        assert "     1\tneedle" == (await call_local("read", path=os.fsdecode(name))).text
    with pytest.raises(ToolInputError, match=r"^no\\nsuch\\x1bfile: no such file"):
        await call_local("read", path="no\nsuch\x1bfile")


# --- rights ---------------------------------------------------------------------------------------------------------


async def test_a_write_gives_no_rights(root: Path, call_local: Call):
    """Bits that would run a program as somebody else do not survive new content."""
    (root / "f").write_text("x")
    (root / "f").chmod(0o6755)
    await call_local("write", path="f", content="y")
    assert 0o755 == (root / "f").stat().st_mode & 0o7777


async def test_the_root_itself_stays(root: Path, call_local: Call):
    """It is no file to write, move or delete."""
    for path in (".", "", "/", str(root), "a/.."):
        for name, params in attempts(path):
            if name in ("write", "edit", "read", "apply_patch"):
                with pytest.raises(ToolInputError):
                    await call_local(name, **params)
    assert root.is_dir()


async def test_a_root_that_was_replaced_by_a_link_is_not_followed(root: Path, outside: Path):
    """The bridge goes to the directory that it was made for."""
    call = caller(ToolContext(bridge=local_bridge(root)))
    root.rename(root.with_name("gone"))
    root.symlink_to(outside)
    with pytest.raises(ToolInputError):
        await call("read", path="f")
    assert "SECRET" not in (await _encoded(call, "grep", pattern="SECRET"))


async def _encoded(call: Call, name: str, **params) -> str:
    try:
        return (await call(name, **params)).text
    except ToolInputError as error:
        return str(error)
