"""`edit`: exact, once, together, and helpful when it fails."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.tools.core._text import raw_lines
from interlingua.tools.core.edit import Edit, edit_text
from interlingua.tools.tool import FsBridge
from interlingua.values.errors import ToolInputError

CODE = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"


async def test_one_piece_is_replaced(bridge: FsBridge, call):
    """The details have a unified diff."""
    await bridge.write_file("a.py", CODE)
    result = await call("edit", path="a.py", oldText="return 2", newText="return 3")
    assert "Edited a.py: 1 replacement, the first on line 6." == result.text
    assert CODE.replace("2", "3") == await bridge.read_file("a.py")
    diff = "--- a/a.py\n+++ b/a.py\n@@ -3,4 +3,4 @@\n \n \n def g():\n-    return 2\n+    return 3\n"
    assert diff == result.details["diff"]


async def test_other_tools_names_work(bridge: FsBridge, call):
    """`file_path`, `old_string`, `new_string`."""
    await bridge.write_file("a", "one")
    await call("edit", file_path="a", old_string="one", new_string="")
    assert "" == await bridge.read_file("a")


async def test_several_edits_are_made_together(bridge: FsBridge, call):
    """Each is looked for in the file as it was; far apart they are hunks of their own."""
    await bridge.write_file("a", "".join(f"{number}\n" for number in range(30)))
    edits = [{"oldText": "25\n", "newText": ""}, {"oldText": "3\n4\n", "newText": "4\n3\nnew\n"}]
    result = await call("edit", path="a", edits=edits)
    numbers = [str(number) for number in range(30) if number != 25]
    assert [*numbers[:3], "4", "3", "new", *numbers[5:]] == (await bridge.read_file("a")).split()
    assert ["@@ -1,8 +1,9 @@", "@@ -23,7 +24,6 @@"] == re.findall("@@.*@@", result.details["diff"])


async def test_if_one_fails_none_is_made(bridge: FsBridge, call):
    """The file is as it was, and the error says which edit failed."""
    await bridge.write_file("a", CODE)
    edits = [{"oldText": "return 1", "newText": "x"}, {"oldText": "return 9", "newText": "y"}]
    with pytest.raises(ToolInputError, match=r"^a: edits\[1\] was not found\. Nothing was changed\."):
        await call("edit", path="a", edits=edits)
    assert CODE == await bridge.read_file("a")


async def test_all_replaces_every_place(bridge: FsBridge, call):
    """In one edit of several too."""
    await bridge.write_file("a", "x y x\nx\n")
    result = await call("edit", path="a", edits=[{"oldText": "x", "newText": "zz", "all": True}])
    assert ("zz y zz\nzz\n", 3) == (await bridge.read_file("a"), result.details["replacements"])


async def test_a_text_that_occurs_twice_is_an_error_with_its_lines(bridge: FsBridge, call):
    """The model can see which lines to add."""
    await bridge.write_file("a", CODE)
    with pytest.raises(ToolInputError, match=r"occurs 2 times \(lines 2, 6\); add lines around it"):
        await call("edit", path="a", oldText="    return", newText="x")


async def test_edits_may_not_overlap(bridge: FsBridge, call):
    """Which of them should win cannot be known."""
    await bridge.write_file("a", CODE)
    edits = [{"oldText": "def f():\n    return", "newText": "x"}, {"oldText": "return 1", "newText": "y"}]
    with pytest.raises(ToolInputError, match=r"edits\[0\] and edits\[1\] overlap on line 2"):
        await call("edit", path="a", edits=edits)


@pytest.mark.parametrize(
    ("text", "old", "expected"),
    [
        (
            "def f():\n\treturn 1\n",
            "def f():\n    return 1\n",
            "Nearest is line 1, which differs in spacing only (- your text, + the file):\n"
            "  def f():\n- ····return·1\n+ →return·1",
        ),
        (
            "a\nprint(“hi”)\n",
            'print("hi")',
            "Nearest is line 2, which differs in quotes, dashes or spaces only (- your text, + the file):\n"
            '- print("hi")\n+ print(“hi”)',
        ),
        (
            "first = 1\nsecond = 2\nthird = 3\n",
            "second = 2\nthird = 4\n",
            "Nearest is line 2 (- your text, + the file):\n  second = 2\n- third = 4\n+ third = 3",
        ),
        (
            "value = compute(alpha, beta)\n",
            "value = compute(alpha, gamma)",
            "Nearest is line 1 (- your text, + the file):\n"
            "- value = compute(alpha, gamma)\n+ value = compute(alpha, beta)",
        ),
        ("nothing of it\n", "quite another thing 12345", "No line is like it; read the file again."),
    ],
)
async def test_a_mismatch_shows_what_is_nearest(bridge: FsBridge, call, text: str, old: str, expected: str):
    """The line, and what differs there."""
    await bridge.write_file("a", text)
    with pytest.raises(ToolInputError) as caught:
        await call("edit", path="a", oldText=old, newText="x")
    assert f"a: oldText was not found. Nothing was changed. {expected}" == str(caught.value)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"oldText": "", "newText": "x"}, "oldText is empty; use write"),
        ({"oldText": "x", "newText": "x"}, "nothing would change"),
        ({"newText": "x"}, "oldText required"),
        ({"oldText": "x"}, "newText required"),
        ({"edits": []}, "edits must be a list"),
        ({"edits": "x"}, "edits must be a list"),
        ({"edits": [{"oldText": "x", "newText": "y"}] * 201}, "limit of 200"),
        ({"edits": [{"oldText": "x", "newText": "y"}], "oldText": "z", "newText": ""}, "not both"),
    ],
)
async def test_edits_without_sense_are_refused(bridge: FsBridge, call, params: dict, expected: str):
    """Before anything is read."""
    await bridge.write_file("a", "x")
    with pytest.raises(ToolInputError, match=expected):
        await call("edit", path="a", **params)


async def test_line_endings_mark_and_encoding_stay(bridge: FsBridge, call):
    """The model writes line feeds; the file keeps what it has."""
    await bridge.write_bytes("a", b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    await call("edit", path="a", oldText="one\ntwo\n", newText="1\n2\n2b\n")
    assert b"\xef\xbb\xbf1\r\n2\r\n2b\r\nthree" == await bridge.read_bytes("a")
    await bridge.write_bytes("b", b"\xff\xfe" + "ä\r\nö".encode("utf-16-le"))
    await call("edit", path="b", oldText="ö", newText="ü\nß")
    assert b"\xff\xfe" + "ä\r\nü\r\nß".encode("utf-16-le") == await bridge.read_bytes("b")


async def test_a_latin_1_file_takes_only_its_letters(bridge: FsBridge, call):
    """It stays latin-1, or stays as it is."""
    await bridge.write_bytes("a", "grün".encode("latin-1"))
    with pytest.raises(ToolInputError, match="the file is latin-1, which has no '€'"):
        await call("edit", path="a", oldText="grün", newText="€")
    await call("edit", path="a", oldText="grün", newText="größer")
    assert "größer".encode("latin-1") == await bridge.read_bytes("a")


async def test_the_mode_stays(root: Path, call_local):
    """A script can still be run."""
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    await call_local("edit", path="run", oldText="sh", newText="bash")
    assert ("#!/bin/bash\n", 0o755) == ((root / "run").read_text(), (root / "run").stat().st_mode & 0o777)


async def test_binary_files_are_not_edited(bridge: FsBridge, call):
    """They could only be broken."""
    await bridge.write_bytes("a", b"x\x00x")
    with pytest.raises(ToolInputError, match="binary file"):
        await call("edit", path="a", oldText="x", newText="y", all=True)


@given(
    lines=st.lists(st.text("ab ", max_size=3), min_size=1, max_size=8),
    endings=st.lists(st.sampled_from(["\n", "\r\n"]), min_size=8, max_size=8),
    cut=st.tuples(st.integers(0, 30), st.integers(1, 10)),
    new=st.text("xy\n", max_size=5),
)
def test_only_the_piece_that_was_named_changes(lines: list[str], endings: list[str], cut: tuple[int, int], new: str):
    """Whatever the line endings around it are; and the diff tells the same."""
    raw = "".join(line + ending for line, ending in zip(lines, endings, strict=False))
    text = raw.replace("\r\n", "\n")
    start = min(cut[0], len(text) - 1)
    old = text[start : start + cut[1]]
    if text.count(old) != 1 or new == old:  # an edit that changes nothing is refused, which is another test's business
        return
    edited = edit_text(raw, [Edit(old, new, False, "edit")], "a")
    assert text.replace(old, new) == edited.text.replace("\r\n", "\n")
    removed = [line[1:] for line in edited.diff.split("\n")[2:] if line.startswith("-")]
    added = [line[1:] for line in edited.diff.split("\n")[2:] if line.startswith("+")]
    before, after = raw_lines(raw), raw_lines(edited.text)  # the diff shows the endings, too
    assert len(after) - len(before) == len(added) - len(removed)
    assert all(line in before for line in removed)
    assert all(line in after for line in added)


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("two", "2", b"one\r\n2\nthree\r\nfour\n"),
        ("one\ntwo\n", "1\n2\n", b"1\r\n2\nthree\r\nfour\n"),
        ("two\nthree", "2\n2b\n3", b"one\r\n2\n2b\n3\r\nfour\n"),
        ("three\n", "", b"one\r\ntwo\nfour\n"),
        ("one", "one\nand a half", b"one\r\nand a half\r\ntwo\nthree\r\nfour\n"),
        ("two\nthree\nfour", "two\nx\nthree\nfour", b"one\r\ntwo\nx\nthree\r\nfour\n"),
    ],
)
async def test_each_line_keeps_its_own_ending(bridge: FsBridge, call, old: str, new: str, after: bytes):
    """In a file of both endings: those around the edit, and those in it; a new line ends as the one before it."""
    await bridge.write_bytes("a", b"one\r\ntwo\nthree\r\nfour\n")
    result = await call("edit", path="a", oldText=old, newText=new)
    assert after == await bridge.read_bytes("a")
    shown = [line[1:] for line in result.details["diff"].split("\n")[3:-1] if not line.startswith("-")]
    assert after.decode().split("\n")[:-1] == shown


@given(
    lines=st.lists(st.text("ab", max_size=2), min_size=1, max_size=8),
    endings=st.lists(st.sampled_from(["\n", "\r\n"]), min_size=8, max_size=8),
    at=st.integers(0, 7),
)
def test_no_other_line_gets_another_ending(lines: list[str], endings: list[str], at: int):
    """Whichever whole line is replaced."""
    at = min(at, len(lines) - 1)
    lines[at] = "X"
    raw = "".join(line + ending for line, ending in zip(lines, endings, strict=False))
    edited = edit_text(raw, [Edit("X", "Y", False, "edit")], "a")
    assert raw.replace("X", "Y") == edited.text
