"""A bridge with exactly the six methods of the documents carries every tool, under either spelling of their names."""

import posixpath
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import interlingua as il
from interlingua.tools import ToolContext, call_tool, discover_core_tools
from interlingua.tools.fs import adapted_bridge
from interlingua.tools.tool import FsBridge, Tool
from interlingua.values.interop import camel_case

NAMES = ("read_file", "write_file", "stat", "readdir", "unlink", "mkdir")


class Files:
    """Text files in a dict: no bytes, no root, and Python's own errors."""

    def __init__(self) -> None:
        self.files = {
            "src/main.py": "def main():\n    return 1\n",
            "src/.gitignore": "ignored.txt\n",
            "src/ignored.txt": "main\n",
            "MEMORY.md": "# Memory\n\nThe cat is called Tom.\n",
            "memory/pets/dog.md": "The dog is called Rex.\n",
        }

    async def read_file(self, path: str) -> str:
        return self.files[posixpath.normpath(path)]

    async def write_file(self, path: str, content: str) -> None:
        self.files[posixpath.normpath(path)] = content

    async def stat(self, path: str) -> Any:
        name = posixpath.normpath(path)
        if name in self.files:
            return {"isFile": True, "isDirectory": False, "size": len(self.files[name]), "mtimeMs": 1}
        if name == "." or any(one.startswith(f"{name}/") for one in self.files):
            return SimpleNamespace(is_file=False, is_directory=True, size=0, mtime_ms=1)
        return None

    async def readdir(self, path: str) -> list[str]:
        start = "" if posixpath.normpath(path) == "." else f"{posixpath.normpath(path)}/"
        inside = [name[len(start) :] for name in self.files if name.startswith(start)]
        if not inside:
            raise FileNotFoundError(path)
        return sorted({name.partition("/")[0] + "/" * ("/" in name) for name in inside})

    async def unlink(self, path: str) -> None:
        del self.files[posixpath.normpath(path)]

    async def mkdir(self, path: str) -> None:
        pass


def in_camel_case(files: Files) -> Any:
    return SimpleNamespace(**{camel_case(name): getattr(files, name) for name in NAMES})


def in_a_mapping(files: Files) -> Any:
    return {camel_case(name): getattr(files, name) for name in NAMES}


def without_coroutines(files: Files) -> Any:
    def now(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            coroutine = method(*args)
            try:
                coroutine.send(None)
            except StopIteration as end:
                return end.value

        return call

    return SimpleNamespace(**{name: now(getattr(files, name)) for name in NAMES})


WAYS = [lambda files: files, in_camel_case, in_a_mapping, without_coroutines]


def tools_of(bridge: Any, **more: Any) -> dict[str, Tool]:
    registry = il.ToolRegistry()
    discover_core_tools(registry)
    found = registry.resolve_all({"root": "/my/project", "bridge": bridge, **more})
    return {tool.name: tool for tool in found}


PATCH = """*** Begin Patch
*** Add File: new.txt
+a line
*** Update File: src/main.py
*** Move to: src/app.py
@@
-    return 1
+    return 2
*** Delete File: src/ignored.txt
*** End Patch"""


@pytest.mark.parametrize("way", WAYS)
async def test_six_methods_are_enough_for_every_file_tool(way: Any) -> None:
    """Reading, writing, editing, patching, listing, finding, searching."""
    files = Files()
    tools = tools_of(way(files))

    async def run(name: str, **params: Any) -> str:
        result = await call_tool(tools[name], "c", params)
        assert not result.is_error, result.text
        return result.text

    assert "def main" in await run("read", path="src/main.py", offset=0)
    assert "def main" in await run("read", path="/my/project/src/main.py")
    await run("write", path="deep/er/x.txt", content="é\n")
    assert "é\n" == files.files["deep/er/x.txt"]
    await run("edit", path="deep/er/x.txt", oldText="é", newText="ü")
    assert "ü\n" == files.files["deep/er/x.txt"]
    assert "main.py  25" in await run("ls", path="src")
    assert "src/" in await run("ls")
    assert ["src/main.py"] == (await run("find", pattern="**/*.py")).splitlines()
    assert ["src/main.py"] == (await run("find", pattern="*.py", path="/my/project/src")).splitlines()
    assert ["src/main.py:1: def main():"] == (await run("grep", pattern="main", path="src")).splitlines()
    await run("apply_patch", input=PATCH)
    assert ("a line\n", "def main():\n    return 2\n") == (files.files["new.txt"], files.files["src/app.py"])
    assert {"src/main.py", "src/ignored.txt"}.isdisjoint(files.files)


@pytest.mark.parametrize("way", WAYS)
async def test_six_methods_are_enough_for_the_memory(way: Any) -> None:
    """Notes behind a bridge are found and read through it, and what changed there is seen."""
    files = Files()
    tools = tools_of(way(files), workspaceDir="/my/project")
    found = await call_tool(tools["memory_search"], "c", {"query": "dog called"})
    assert ("memory/pets/dog.md", 2) == (found.details["results"][0]["path"], found.details["notes"])
    got = await call_tool(tools["memory_get"], "c", {"path": "MEMORY.md", "from": 3})
    assert "The cat is called Tom." == got.details["text"]
    files.files["memory/bird.md"] = "The bird is called Kiki.\n"
    again = await call_tool(tools["memory_search"], "c", {"query": "bird"})
    assert ["memory/bird.md"] == [hit["path"] for hit in again.details["results"]]
    outside = await call_tool(tools["memory_get"], "c", {"path": "src/main.py"})
    assert outside.is_error


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("read", {"path": "nothing"}),
        ("edit", {"path": "nothing", "oldText": "a", "newText": "b"}),
        ("ls", {"path": "nothing"}),
        ("grep", {"path": "nothing", "pattern": "x"}),
        ("find", {"path": "nothing", "pattern": "x"}),
        ("apply_patch", {"input": PATCH.replace("src/main.py", "nothing")}),
        ("image", {"image": "nothing"}),
    ],
)
async def test_missing_files_are_reported_in_the_tools_own_wording(name: str, params: dict[str, Any]) -> None:
    """Whatever the bridge raises for it."""

    async def complete(*args: Any, **options: Any) -> Any:
        raise AssertionError("nothing to look at")

    result = await call_tool(
        tools_of(Files(), complete=complete, config={"tools": {"image": {"model": "debug/parrot-1"}}})[name],
        "c",
        params,
    )
    assert result.is_error
    assert "no such file" in result.text or "no file" in result.text


PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82"
)


@pytest.mark.parametrize("name", ["read", "image"])
@pytest.mark.parametrize("kept", [True, False])
async def test_a_picture_is_seen_where_the_text_kept_its_bytes_and_refused_where_not(name: str, kept: bool) -> None:
    """A bridge that reads with `surrogateescape` loses nothing; of another one it is said what it would need."""
    files = Files()

    async def read_file(path: str) -> str:
        return PIXEL.decode("utf-8", "surrogateescape" if kept else "strict")

    async def complete(*args: Any, **options: Any) -> Any:
        return il.AssistantMessage(content=(il.TextBlock(text="A pixel."),))

    files.files["x.png"] = "?"
    files.read_file = read_file  # type: ignore[method-assign]
    tools = tools_of(files, complete=complete, config={"tools": {"image": {"model": "debug/parrot-1"}}})
    result = await call_tool(tools[name], "c", {"path": "x.png"} if name == "read" else {"image": "x.png"})
    assert kept == (not result.is_error), result.text
    if not kept:
        assert "a bridge with read_bytes(path) reads any file" in result.text


async def test_bytes_that_are_no_text_are_not_written_as_text() -> None:
    """An error that says what the bridge would need; the file stays as it is."""
    files = Files()
    bridge = adapted_bridge(files)
    with pytest.raises(il.ToolInputError, match="a bridge with write_bytes"):
        await bridge.write_bytes("src/main.py", b"\xff\xfe")
    assert files.files["src/main.py"].startswith("def")


async def test_a_patch_is_taken_back_whatever_the_bridge_raises() -> None:
    """Not only for the errors of a disk."""
    files = Files()

    async def unlink(path: str) -> None:
        raise RuntimeError("no")

    files.unlink = unlink  # type: ignore[method-assign]
    before = dict(files.files)
    patch = PATCH.replace("*** Add File: new.txt\n+a line\n", "").replace("*** Move to: src/app.py\n", "")
    result = await call_tool(tools_of(files)["apply_patch"], "c", {"input": patch})
    assert result.is_error
    assert before == files.files


def test_the_six_methods_are_the_protocol() -> None:
    """Whoever has them is a bridge."""
    assert isinstance(Files(), FsBridge)


async def test_a_bridge_that_lacks_a_method_says_which() -> None:
    """In the result of the call that needed it."""
    bridge = SimpleNamespace(read_file=Files().read_file)
    result = await call_tool(tools_of(bridge)["write"], "c", {"path": "a", "content": "b"})
    assert "these files have no stat; give the bridge that method" in result.text


def test_a_context_has_no_files_without_a_bridge_or_a_root() -> None:
    """The file tools are skipped, and say what they miss."""
    registry = il.ToolRegistry()
    discover_core_tools(registry, include=["read"])
    assert [] == registry.resolve_all(ToolContext())
    assert [("root", "bridge")] == [skipped.missing for skipped in registry.skipped]
