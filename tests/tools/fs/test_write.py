"""`write` and `ls`."""

from pathlib import Path

import pytest

from interlingua.tools.core import ls
from interlingua.tools.tool import FsBridge
from interlingua.values.errors import ToolInputError


async def test_a_file_is_made_with_its_directories(bridge: FsBridge, call):
    """The result has bytes and path; the details have both sizes."""
    result = await call("write", path="a/b.txt", content="grün\n")
    assert "Created a/b.txt (6 bytes)." == result.text
    assert {"path": "a/b.txt", "created": True, "oldBytes": 0, "newBytes": 6, "newLines": 1} == result.details
    assert "grün\n" == await bridge.read_file("a/b.txt")


async def test_a_file_is_replaced(bridge: FsBridge, call):
    """Empty content is content."""
    await bridge.write_file("a", "four")
    result = await call("write", file_path="a", content="")
    assert ("Replaced a (0 bytes).", 4) == (result.text, result.details["oldBytes"])
    assert "" == await bridge.read_file("a")


async def test_content_may_come_as_text_blocks(bridge: FsBridge, call):
    """Some models send it so."""
    await call("write", path="a", content=[{"type": "text", "text": "1"}, {"type": "text", "text": "2"}])
    assert "12" == await bridge.read_file("a")


async def test_what_cannot_be_written_is_an_error(bridge: FsBridge, call):
    """No content, half a character, a directory, a path through a file."""
    await bridge.write_file("f", "x")
    await bridge.mkdir("d")
    for params, expected in [
        ({"path": "a"}, "content required"),
        ({"path": "a", "content": {"no": "text"}}, "content required"),
        ({"path": "a", "content": "\ud800"}, "unpaired surrogate"),
        ({"path": "d", "content": ""}, "is a directory"),
        ({"path": "f/x", "content": ""}, "directory"),
    ]:
        with pytest.raises(ToolInputError, match=expected):
            await call("write", **params)
    assert None is await bridge.stat("a")


async def test_names_are_listed_with_sizes(bridge: FsBridge, call):
    """Directories end in a slash; hidden names come when asked for."""
    for path in ("b.txt", "dir/x", ".hidden"):
        await bridge.write_file(path, "x" * 1234)
    result = await call("ls")
    assert "b.txt  1,234\ndir/" == result.text
    assert {"path": ".", "entries": ["b.txt", "dir/"], "total": 2, "hidden": 1} == result.details
    assert ".hidden  1,234\nb.txt  1,234\ndir/" == (await call("ls", path="", all=True)).text
    assert "x  1,234" == (await call("ls", path="dir")).text


async def test_an_empty_directory_is_reported_as_empty(bridge: FsBridge, call):
    """Or to have hidden names only."""
    await bridge.mkdir("d")
    await bridge.write_file("h/.x", "")
    assert "(empty directory)" == (await call("ls", path="d")).text
    assert "(only 1 hidden name; use all=true)" == (await call("ls", path="h")).text


async def test_a_long_list_is_cut_with_a_notice(bridge: FsBridge, call):
    """By number and by size."""
    for number in range(30):
        await bridge.write_file(f"{number:02}", "")
    result = await call("ls", limit=2)
    assert "00  0\n01  0\n[2 of 30 names. List a directory in it, use find, or raise limit.]" == result.text
    for number in range(400):
        await bridge.write_file(f"long/{number:03}{'x' * 200}", "")
    assert len((await call("ls", path="long")).text) < ls.MAX_BYTES + 200


async def test_only_directories_are_listed(bridge: FsBridge, call):
    """Files and missing paths are errors."""
    await bridge.write_file("f", "")
    for path in ("f", "none"):
        with pytest.raises(ToolInputError):
            await call("ls", path=path)


async def test_links_are_distinguished(root: Path, call_local):
    """Those that lead out, those that lead nowhere, those that are fine."""
    (root / "file").write_text("x")
    (root / "in").symlink_to("file")
    (root / "nowhere").symlink_to("missing")
    (root / "out").symlink_to("/etc/passwd")
    expected = "file  1\nin  1\nnowhere  (link to nothing)\nout  (link out of the root)"
    assert expected == (await call_local("ls")).text
