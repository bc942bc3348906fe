"""`apply_patch`: the format, the finding of places, all or nothing."""

from pathlib import Path

import pytest

from interlingua.tools.tool import FsBridge, ToolContext
from interlingua.values.errors import ToolInputError
from tools.fs.bridges import DictBridge, caller


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def test_files_are_added_updated_moved_and_deleted(bridge: FsBridge, call):
    """In one patch; the details say what became of each."""
    await bridge.write_file("a.py", "one\ntwo\nthree\n")
    await bridge.write_file("old.py", "x\n")
    await bridge.write_file("move.py", "m\n")
    text = patch(
        "*** Add File: dir/new.txt",
        "+first",
        "+",
        "*** Update File: a.py",
        "@@",
        " one",
        "-two",
        "+2",
        "*** Update File: move.py",
        "*** Move to: moved/here.py",
        "@@",
        "-m",
        "+n",
        "*** Delete File: old.py",
    )
    result = await call("apply_patch", input=text)
    expected = "added dir/new.txt\nupdated a.py\nmoved move.py to moved/here.py\ndeleted old.py"
    assert "Applied the patch:\n" + expected == result.text
    assert "first\n\n" == await bridge.read_file("dir/new.txt")
    assert "one\n2\nthree\n" == await bridge.read_file("a.py")
    assert "n\n" == await bridge.read_file("moved/here.py")
    assert [None, None] == [await bridge.stat("old.py"), await bridge.stat("move.py")]
    assert "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n" in result.details["diff"]


async def test_headers_choose_among_equal_places(bridge: FsBridge, call):
    """Several headers narrow the place step by step."""
    code = "class A:\n    def f(self):\n        pass\nclass B:\n    def f(self):\n        pass\n"
    await bridge.write_file("a", code)
    await call(
        "apply_patch",
        input=patch("*** Update File: a", "@@ class B:", "@@ def f(self):", "-        pass", "+        return 1"),
    )
    assert code[: code.rindex("pass")] + "return 1\n" == await bridge.read_file("a")


async def test_hunks_are_found_one_after_the_other(bridge: FsBridge, call):
    """The second is looked for behind the first."""
    await bridge.write_file("a", "x\ny\nx\ny\n")
    await call("apply_patch", input=patch("*** Update File: a", "@@", "-x", "+1", "@@", "-x", "+2"))
    assert "1\ny\n2\ny\n" == await bridge.read_file("a")


async def test_the_end_of_the_file_can_be_meant(bridge: FsBridge, call):
    """Then the last of equal places is changed."""
    await bridge.write_file("a", "x\ny\nx\n")
    await call("apply_patch", input=patch("*** Update File: a", "@@", "-x", "+end", "*** End of File"))
    assert "x\ny\nend\n" == await bridge.read_file("a")
    with pytest.raises(ToolInputError, match="hunk 1: the file does not end with its lines"):
        await call("apply_patch", input=patch("*** Update File: a", "@@", "-y", "+z", "*** End of File"))


async def test_lines_are_only_added_at_the_end_or_after_a_header(bridge: FsBridge, call):
    """A hunk without old lines has no other place."""
    await bridge.write_file("a", "one\ntwo\n")
    await call("apply_patch", input=patch("*** Update File: a", "@@", "+three", "*** Update File: a", "@@ one", "+1b"))
    assert "one\n1b\ntwo\nthree\n" == await bridge.read_file("a")


async def test_spaces_at_line_ends_and_typography_may_differ(bridge: FsBridge, call):
    """Lines that stay are the file's own."""
    await bridge.write_file("a", "say “hi”  \nx\n")
    await call("apply_patch", input=patch("*** Update File: a", "@@ -1,2 +1,2 @@", ' say "hi"', "-x", "+y", ""))
    assert "say “hi”  \ny\n" == await bridge.read_file("a")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\n", b"one\r\n2\r\nnew\r\n"),
        (b"one\r\ntwo", b"one\r\n2\r\nnew"),
        (b"one\ntwo", b"one\n2\nnew"),
        (b"\xef\xbb\xbfone\ntwo\n", b"\xef\xbb\xbfone\n2\nnew\n"),
    ],
)
async def test_line_endings_and_marks_stay(bridge: FsBridge, call, before: bytes, after: bytes):
    """Also those of the last line."""
    await bridge.write_bytes("a", before)
    await call("apply_patch", input=patch("*** Update File: a", "@@", " one", "-two", "+2", "+new"))
    assert after == await bridge.read_bytes("a")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["@@", " one", "-three"], r"a: hunk 1: it fits from line 1, but line 2 is 'two', not 'three'"),
        (["@@", "-nine"], r"a: hunk 1: its line 'nine' is not in the file after line 0"),
        (["@@", "-one", "+1", "@@", "-one", "+1"], r"a: hunk 2: its line 'one' is not in the file after line 1"),
        (["@@", " two", " three"], r"it fits from line 2, but the file ends before its line 'three'"),
        (["@@ class X", "-one"], r"a: hunk 1: no line 'class X' after line 0"),
    ],
)
async def test_a_hunk_that_does_not_fit_names_the_line(bridge: FsBridge, call, lines: list[str], expected: str):
    """File, hunk and line; and no other file is changed."""
    await bridge.write_file("a", "one\ntwo\n")
    with pytest.raises(ToolInputError, match=expected):
        await call("apply_patch", input=patch("*** Add File: new", "+x", "*** Update File: a", *lines))
    assert ("one\ntwo\n", None) == (await bridge.read_file("a"), await bridge.stat("new"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "input must not be blank"),
        ("hello", "must begin with the line"),
        ("*** Begin Patch\n*** Delete File: a", "must end with the line"),
        (patch(), "the patch is empty"),
        (patch("what is this"), "line 2 of the patch, 'what is this': expected"),
        (patch("*** Add File: new", "no plus"), "line 3 of the patch, 'no plus': every line of an added file"),
        (patch("*** Add File: "), "the path is missing"),
        (patch("*** Delete File: a", "-x"), "a deleted file has no lines"),
        (patch("*** Update File: a"), "the section has no hunk"),
        (patch("*** Update File: a", "@@", "what"), "line 4 of the patch, 'what': a line of a hunk"),
        (patch("*** Update File: a", "@@ header"), "a header without lines"),
        (patch("*** Add File: a", "+x"), "a: exists already"),
        (patch("*** Update File: a", "*** Move to: b"), "b: exists already"),
        (patch("*** Delete File: none"), "none: no such file"),
        (patch("*** Update File: none", "@@", "-x"), "none: no such file"),
        (patch("*** Delete File: a", "*** Update File: ./a", "@@", "-x"), "an earlier part of the patch removes"),
    ],
)
async def test_a_wrong_patch_changes_nothing(bridge: FsBridge, call, text: str, expected: str):
    """And says what is wrong with it."""
    await bridge.write_file("a", "one\n")
    await bridge.write_file("b", "two\n")
    with pytest.raises(ToolInputError, match=expected):
        await call("apply_patch", input=text)
    assert ("one\n", "two\n") == (await bridge.read_file("a"), await bridge.read_file("b"))
    assert ["a", "b"] == sorted(await bridge.readdir("."))


async def test_later_sections_see_earlier_ones(bridge: FsBridge, call):
    """A file may be replaced, or changed twice."""
    await bridge.write_file("a", "one\n")
    await call(
        "apply_patch",
        input=patch("*** Delete File: a", "*** Add File: a", "+two", "*** Update File: a", "@@", "-two", "+3"),
    )
    assert "3\n" == await bridge.read_file("a")


async def test_a_move_keeps_the_mode(root: Path, call_local):
    """And removes the old name."""
    (root / "run").write_text("a\n")
    (root / "run").chmod(0o755)
    await call_local("apply_patch", input=patch("*** Update File: run", "*** Move to: bin/run", "@@", "-a", "+b"))
    assert ("b\n", 0o755, False) == (
        (root / "bin/run").read_text(),
        (root / "bin/run").stat().st_mode & 0o777,
        (root / "run").exists(),
    )


class FailingBridge(DictBridge):
    """A disk that is full after some writes."""

    room = 3

    async def write_bytes(self, path: str, data: bytes) -> None:
        self.room -= 1
        if self.room < 0 and data != b"old\n":
            raise OSError(28, "No space left on device", path)
        await super().write_bytes(path, data)


async def test_when_the_disk_fails_half_way_all_is_put_back():
    """What was added goes, what was changed, moved or deleted comes back."""
    bridge = FailingBridge()
    for name in ("change", "delete", "move"):
        bridge.files[name] = b"old\n"
    text = patch(
        "*** Add File: added",
        "+x",
        "*** Update File: change",
        "@@",
        "-old",
        "+new",
        "*** Delete File: delete",
        "*** Update File: move",
        "*** Move to: moved",
        "*** Add File: too-much",
        "+x",
    )
    with pytest.raises(
        ToolInputError, match=r"could not be written: too-much: no space left on device\. Nothing was changed"
    ):
        await caller(ToolContext(bridge=bridge))("apply_patch", input=text)
    assert {"change": b"old\n", "delete": b"old\n", "move": b"old\n"} == bridge.files


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (["-two", "+2"], b"one\r\n2\nthree\r\nfour\n"),
        ([" one", "-two", "-three", "+2", "+3", "+4"], b"one\r\n2\n3\r\n4\r\nfour\n"),
        ([" two", "+x", " three"], b"one\r\ntwo\nx\nthree\r\nfour\n"),
        (["-one", " two"], b"two\nthree\r\nfour\n"),
    ],
)
async def test_each_line_keeps_its_own_ending(bridge: FsBridge, call, lines: list[str], after: bytes):
    """In a file of both endings; and the diff shows them."""
    await bridge.write_bytes("a", b"one\r\ntwo\nthree\r\nfour\n")
    result = await call("apply_patch", input=patch("*** Update File: a", "@@", *lines))
    assert after == await bridge.read_bytes("a")
    shown = [line[1:] for line in result.details["diff"].split("\n")[3:-1] if not line.startswith("-")]
    assert after.decode().split("\n")[:-1] == shown
