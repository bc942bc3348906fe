"""What every bridge does, and what only the local one has to care for."""

import asyncio
from pathlib import Path

import pytest

from interlingua.tools.fs import (
    NoSuchFile,
    OutsideRoot,
    TooLarge,
    context_bridge,
    create_node_bridge,
    local_bridge,
    memory_bridge,
)
from interlingua.tools.tool import FsBridge, MissingContext, ToolContext
from interlingua.values.errors import ToolAuthorizationError, ToolInputError

ERRORS = (ToolInputError, OSError)


async def test_what_is_written_is_read(bridge: FsBridge):
    """Text and bytes come back as they went in."""
    await bridge.write_file("a.txt", "grün\n")
    await bridge.write_bytes("b.bin", b"\x00\xff")
    assert ("grün\n", b"\x00\xff") == (await bridge.read_file("a.txt"), await bridge.read_bytes("b.bin"))


async def test_writing_makes_the_directories_on_the_way(bridge: FsBridge):
    """A file may be written where no directory is yet."""
    await bridge.write_file("x/y/z.txt", "1")
    assert ["y/"] == await bridge.readdir("x")


async def test_writing_again_replaces(bridge: FsBridge):
    """The second content is all there is."""
    await bridge.write_file("a", "long content")
    await bridge.write_file("a", "s")
    assert "s" == await bridge.read_file("a")


async def test_stat_tells_files_directories_and_nothing(bridge: FsBridge):
    """What is missing is None, also below a file."""
    await bridge.write_file("d/f", "abc")
    file, directory = await bridge.stat("d/f"), await bridge.stat("d")
    assert (True, False, 3) == (file.is_file, file.is_directory, file.size)
    assert (False, True) == (directory.is_file, directory.is_directory)
    assert [None, None] == [await bridge.stat("d/none"), await bridge.stat("d/f/deeper")]


async def test_readdir_marks_directories(bridge: FsBridge):
    """A name of a directory ends in a slash; what was made empty is there."""
    await bridge.write_file("file", "")
    await bridge.mkdir("empty/deep")
    assert ["empty/", "file"] == sorted(await bridge.readdir("."))
    assert [] == await bridge.readdir("empty/deep")


async def test_mkdir_twice_is_fine(bridge: FsBridge):
    """What is there already need not be made."""
    await bridge.mkdir("a/b")
    await bridge.mkdir("a/b")
    assert ["b/"] == await bridge.readdir("a")


async def test_unlink_removes_a_file_and_no_directory(bridge: FsBridge):
    """Only files can be removed, and only those that are there."""
    await bridge.write_file("d/f", "x")
    await bridge.unlink("d/f")
    assert None is await bridge.stat("d/f")
    for path in ("d", "d/f"):
        with pytest.raises(ERRORS):
            await bridge.unlink(path)


async def test_what_cannot_be_done_is_an_error(bridge: FsBridge):
    """Missing files, directories taken for files and files taken for directories."""
    await bridge.write_file("f", "x")
    await bridge.mkdir("d")
    attempts = [
        lambda: bridge.read_file("none"),
        lambda: bridge.read_file("d"),
        lambda: bridge.readdir("none"),
        lambda: bridge.readdir("f"),
        lambda: bridge.write_file("d", "x"),
        lambda: bridge.write_file("f/x", "x"),
        lambda: bridge.mkdir("f/x"),
    ]
    for attempt in attempts:
        with pytest.raises(ERRORS):
            await attempt()


async def test_errors_name_the_path_as_given(root: Path):
    """Not the path on the machine."""
    with pytest.raises(NoSuchFile, match=r"^a/\.\./none\.txt: no such file or directory$"):
        await local_bridge(root).read_file("a/../none.txt")
    with pytest.raises(ToolInputError, match=r"^empty: not UTF-8 text"):
        await memory_bridge({"empty": b"\xff"}).read_file("empty")


async def test_memory_files_may_be_there_from_the_start():
    """As text or bytes."""
    bridge = memory_bridge({"a/b.txt": "hello", "c": b"\x01"})
    assert (["a/", "c"], "hello") == (await bridge.readdir(""), await bridge.read_file("/a/b.txt"))
    assert isinstance(bridge, FsBridge)


async def test_both_names_make_the_same_bridge(root: Path):
    """The name of the TypeScript package works too."""
    await create_node_bridge(str(root)).write_file("a", "1")
    assert "1" == (root / "a").read_text()
    assert isinstance(local_bridge(root), FsBridge)


def test_a_root_must_be_a_directory(root: Path):
    """A missing root is an error when the bridge is made, not at the first call."""
    with pytest.raises(ToolInputError, match="not a directory"):
        local_bridge(root / "none")


def test_root_or_bridge_is_enough_and_neither_is_not(root: Path):
    """The fields that are missing are named."""
    memory = memory_bridge()
    assert memory is context_bridge(ToolContext(bridge=memory))
    assert str(root.resolve()) == context_bridge(ToolContext(root=str(root))).local_root
    with pytest.raises(MissingContext) as caught:
        context_bridge(ToolContext(workspace_dir=str(root)))
    assert ("root", "bridge") == caught.value.fields


async def test_a_write_keeps_the_mode(root: Path):
    """An executable file stays one, and no temporary file is left."""
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    await local_bridge(root).write_file("run.sh", "new")
    assert ("new", 0o750, ["run.sh"]) == (
        script.read_text(),
        script.stat().st_mode & 0o777,
        [path.name for path in root.iterdir()],
    )


async def test_a_new_file_has_the_usual_mode(root: Path):
    """As if it had been made by open()."""
    (root / "usual").touch()
    await local_bridge(root).write_file("new", "")
    assert (root / "usual").stat().st_mode == (root / "new").stat().st_mode


async def test_links_inside_the_root_are_followed(root: Path):
    """Relative and absolute, of files and directories, through `..`, for reading, listing and writing."""
    bridge = local_bridge(root)
    await bridge.write_file("a/b/c.txt", "hi")
    (root / "a" / "link").symlink_to("b/../../a/b/c.txt")
    (root / "abs").symlink_to(root / "a")
    assert "hi" == await bridge.read_file("abs/link")
    assert ["b/", "link"] == await bridge.readdir("abs")
    assert "a/b/c.txt" == await bridge.locate("abs/link")
    await bridge.write_file("abs/link", "changed")
    assert ("changed", True) == ((root / "a/b/c.txt").read_text(), (root / "a/link").is_symlink())
    assert ["a/", "abs/"] == await bridge.readdir("")


async def test_unlink_takes_the_link_not_the_file(root: Path):
    """Even a link that leads nowhere good may be removed."""
    bridge = local_bridge(root)
    await bridge.write_file("file", "x")
    (root / "inside").symlink_to("file")
    (root / "outside").symlink_to("/etc/passwd")
    await bridge.unlink("inside")
    await bridge.unlink("outside")
    assert ["file"] == await bridge.readdir(".")


async def test_absolute_paths_inside_the_root_are_taken(root: Path):
    """By the name the root was given, and by its real one."""
    link = root.parent / "link"
    link.symlink_to(root)
    bridge = local_bridge(link)
    await bridge.write_file(str(link / "a"), "1")
    assert ("1", "1") == (await bridge.read_file(str(root / "a")), await bridge.read_file((root / "a").as_uri()))


@pytest.mark.parametrize("make", [lambda root: local_bridge(root), lambda root: memory_bridge()])
async def test_names_are_read_as_written_first_and_as_meant_then(root: Path, make):
    """Reading finds a name that looks the same where there is none of that very name; writing does not."""
    bridge = make(root)
    await bridge.write_file("my notes.txt", "plain")
    assert "plain" == await bridge.read_file("@my\u202fnotes.txt")
    assert "my notes.txt" == await bridge.variant("@my\u202fnotes.txt")
    await bridge.write_file("@my\u202fnotes.txt", "new")
    assert ["@my\u202fnotes.txt", "my notes.txt"] == await bridge.readdir(".")
    assert ("new", "plain") == (await bridge.read_file("@my\u202fnotes.txt"), await bridge.read_file("my notes.txt"))
    assert None is await bridge.variant("@my\u202fnotes.txt")


COMPOSED, DECOMPOSED = "caf\u00e9/\u00fc.txt", "cafe\u0301/u\u0308.txt"


@pytest.mark.parametrize("make", [lambda root: local_bridge(root), lambda root: memory_bridge()])
@pytest.mark.parametrize(("there", "given"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
async def test_another_unicode_form_is_found_for_reading_alone(root: Path, make, there: str, given: str):
    """Nothing is written, removed or moved under a name that only looks the same."""
    bridge = make(root)
    await bridge.write_file(there, "x")
    assert ("x", there) == (await bridge.read_file(given), await bridge.variant(given))
    with pytest.raises(NoSuchFile):
        await bridge.unlink(given)
    await bridge.write_file(given, "y")
    assert ("x", "y") == (await bridge.read_file(there), await bridge.read_file(given))


@pytest.mark.parametrize("make", [lambda root: local_bridge(root), lambda root: memory_bridge()])
async def test_of_two_names_that_look_the_same_neither_is_taken(root: Path, make):
    """It could be the wrong one."""
    bridge = make(root)
    for name in ("a\u00a0b", "a\u202fb"):
        await bridge.write_file(name, name)
    assert None is await bridge.variant("a b")
    with pytest.raises(NoSuchFile):
        await bridge.read_file("a b")


async def test_a_name_that_looks_odd_is_a_name_if_it_is_there(root: Path):
    """What `ls` shows can be read."""
    for name in ("@types", "a\u202fb"):
        (root / name).write_text(name)
        assert name == await local_bridge(root).read_file(name)
        assert name == await memory_bridge({f"./{name}": name, name: name}).read_file(name)


async def test_a_home_inside_the_root_is_inside(root: Path, monkeypatch: pytest.MonkeyPatch):
    """`~` means the home directory, and is refused when that is elsewhere."""
    (root / "home").mkdir()
    monkeypatch.setenv("HOME", str(root / "home"))
    bridge = local_bridge(root)
    await bridge.write_file("~/x", "1")
    assert "1" == (root / "home/x").read_text()
    monkeypatch.setenv("HOME", str(root.parent))
    with pytest.raises(OutsideRoot):
        await bridge.read_file("~/x")


async def test_reading_has_a_limit(root: Path):
    """A file that is too large is refused with its size."""
    bridge = local_bridge(root, max_bytes=10)
    (root / "large").write_bytes(b"x" * 11)
    with pytest.raises(TooLarge, match="11 bytes"):
        await bridge.read_bytes("large")
    with pytest.raises(TooLarge):
        await bridge.write_bytes("new", b"x" * 11)
    (root / "fits").write_bytes(b"x" * 10)
    assert 10 == len(await bridge.read_bytes("fits"))


async def test_refusals_have_the_status_of_a_refusal(root: Path):
    """Leaving the root is forbidden, not merely a wrong argument."""
    with pytest.raises(ToolAuthorizationError) as caught:
        await local_bridge(root).stat("../x")
    assert 403 == caught.value.status


async def test_many_writes_at_once_leave_one_whole_file(root: Path):
    """A reader never sees half of a file."""
    bridge = local_bridge(root)
    texts = [str(number) * 20_000 for number in range(8)]
    await bridge.write_file("f", texts[0])

    async def read() -> str:
        return await bridge.read_file("f")

    seen = await asyncio.gather(*(bridge.write_file("f", text) for text in texts), *(read() for _ in range(20)))
    assert all(text in texts for text in seen if text is not None)
    assert ["f"] == [path.name for path in root.iterdir()]
