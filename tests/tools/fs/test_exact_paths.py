"""Tools that change files take exactly the path that was given; tools that read say which file they took instead."""

from typing import Any

import pytest

from interlingua.tools.tool import FsBridge
from interlingua.values.errors import ToolInputError

OURS = pytest.mark.parametrize("bridge", ["local", "memory"], indirect=True)  # others find what they find
ALIKE = [
    ("a b.txt", "a\u00a0b.txt"),
    ("a\u00a0b.txt", "a b.txt"),
    ("caf\u00e9.txt", "cafe\u0301.txt"),
    ("cafe\u0301.txt", "caf\u00e9.txt"),
    ("x.txt", "@x.txt"),
]


@pytest.mark.parametrize(("there", "given"), ALIKE, ids=ascii)
async def test_write_makes_the_file_that_was_named(bridge: FsBridge, call: Any, there: str, given: str) -> None:
    """And leaves alone the one that looks like it."""
    await bridge.write_file(there, "old")
    result = await call("write", path=given, content="new")
    assert result.details["created"] and result.text.startswith("Created")
    assert sorted([there, given]) == sorted(await bridge.readdir("."))
    assert ("old", "new") == (await bridge.read_file(there), await bridge.read_file(given))


@OURS
@pytest.mark.parametrize(("there", "given"), ALIKE, ids=ascii)
async def test_edit_and_apply_patch_change_no_file_that_looks_like_it(
    bridge: FsBridge, call: Any, there: str, given: str
) -> None:
    """They say which file there is."""
    await bridge.write_file(there, "old\n")
    patch = f"*** Begin Patch\n*** Update File: {given}\n@@\n-old\n+new\n*** End Patch"
    delete = f"*** Begin Patch\n*** Delete File: {given}\n*** End Patch"
    for tool, params in (
        ("edit", {"path": given, "oldText": "old", "newText": "new"}),
        ("apply_patch", {"input": patch}),
        ("apply_patch", {"input": delete}),
    ):
        with pytest.raises(ToolInputError) as caught:
            await call(tool, **params)
        assert "no such file" in str(caught.value) and ascii(there) in str(caught.value)
    assert ([there], "old\n") == (await bridge.readdir("."), await bridge.read_file(there))


@OURS
@pytest.mark.parametrize(("there", "given"), ALIKE, ids=ascii)
async def test_read_finds_it_and_says_so(bridge: FsBridge, call: Any, there: str, given: str) -> None:
    """In the result, with escapes; and nothing is said where the name is the right one."""
    await bridge.write_file(there, "old")
    result = await call("read", path=given)
    assert there == result.details["variant"]
    assert "old" in result.text and f"No file {given!a}; this is {there!a}" in result.text
    assert "variant" not in (await call("read", path=there)).details


@OURS
async def test_ls_grep_and_find_say_so_too(bridge: FsBridge, call: Any) -> None:
    """For the directory that they look into."""
    await bridge.write_file("caf\u00e9/a.txt", "needle")
    for tool, params in (("ls", {}), ("grep", {"pattern": "needle"}), ("find", {"pattern": "*.txt"})):
        result = await call(tool, path="cafe\u0301", **params)
        assert "caf\u00e9" == result.details["variant"] and "a.txt" in result.text
