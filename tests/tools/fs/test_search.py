"""`find` and `grep` on every bridge, by every engine."""

import shutil
from pathlib import Path

import pytest

from interlingua.tools.core import find, grep
from interlingua.tools.tool import FsBridge
from interlingua.values.errors import ToolInputError
from tools.fs.bridges import Call

FILES = {
    "README.md": "# Title\nread me\n",
    "src/app.py": "import os\n\ndef main():\n    return os.name\n",
    "src/deep/er/util.py": "def helper():\n    pass\n",
    "src/page.tsx": "export default main\n",
    "build/out.py": "def main(): ...\n",
    ".github/ci.yml": "main: 1\n",
    ".gitignore": "build/\n*.log\n!keep.log\n",
    "a.log": "main\n",
    "keep.log": "main\n",
    ".git/config": "main\n",
    "src/.ignore": "page.tsx\n",
}
ENGINES = [
    pytest.param({"programs": True}, id="programs"),
    pytest.param({"programs": False}, id="python"),
]


@pytest.fixture
async def tree(bridge: FsBridge) -> None:
    for path, text in FILES.items():
        await bridge.write_file(path, text)


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("options", ENGINES)
class TestEveryBridge:
    async def test_names_are_found_at_any_depth(self, call: Call, options: dict):
        """Ignored files are left out, hidden ones are not, `.git` always is."""
        result = await call("find", options=options, pattern="*.py")
        assert ["src/app.py", "src/deep/er/util.py"] == result.details["paths"]
        everything = await call("find", options=options, pattern="*")
        expected = [".github/", ".github/ci.yml", ".gitignore", "README.md", "keep.log", "src/", "src/.ignore"]
        expected += ["src/app.py", "src/deep/", "src/deep/er/", "src/deep/er/util.py"]
        assert "\n".join(expected) == everything.text

    async def test_a_glob_with_a_slash_is_the_whole_path(self, call: Call, options: dict):
        """From the directory that is searched; `**` goes through any number of directories."""
        for pattern, expected in [
            ("src/*.py", ["src/app.py"]),
            ("src/**/*.py", ["src/app.py", "src/deep/er/util.py"]),
            ("**/er/*", ["src/deep/er/util.py"]),
            ("/README.md", ["README.md"]),
            ("{src,docs}/[ab]*.{py,js}", ["src/app.py"]),
        ]:
            assert expected == (await call("find", options=options, pattern=pattern)).details["paths"]
        below = await call("find", options=options, pattern="deep/**/*.py", path="src")
        assert ["src/deep/er/util.py"] == below.details["paths"]

    async def test_only_one_type_is_found_when_asked(self, call: Call, options: dict):
        """Directories end in a slash."""
        directories = await call("find", options=options, pattern="*", path="src", type="directory")
        assert ["src/deep/", "src/deep/er/"] == directories.details["paths"]
        files = await call("find", options=options, pattern="e*", type="file")
        assert "Nothing found in .." == files.text

    async def test_a_limit_gives_the_first_and_a_notice(self, call: Call, options: dict):
        """In the order of letters, whoever searched."""
        result = await call("find", options=options, pattern="*", limit=2)
        assert (".github/", ".github/ci.yml") == tuple(result.text.split("\n")[:2])
        assert "Only the first 2." in result.text
        assert result.details["truncated"]

    async def test_lines_are_found(self, call: Call, options: dict):
        """With path and number."""
        result = await call("grep", options=options, pattern=r"def \w+\(\):")
        assert "src/app.py:3: def main():\nsrc/deep/er/util.py:1: def helper():" == result.text
        assert (2, 2, False) == tuple(result.details[key] for key in ("matches", "files", "truncated"))

    async def test_context_is_shown_around(self, bridge: FsBridge, call: Call, options: dict):
        """Runs that do not touch are parted."""
        await bridge.write_file("four", "one\ntwo\nthree\nx\nfour\n")
        result = await call("grep", options=options, pattern="import|return", path="src", context=1)
        expected = (
            "src/app.py:1: import os\nsrc/app.py-2- \nsrc/app.py-3- def main():\nsrc/app.py:4:     return os.name"
        )
        assert expected == result.text
        parted = await call("grep", options=options, pattern="^one|^four", path="four", context=1)
        assert "four:1: one\nfour-2- two\n--\nfour-4- x\nfour:5: four" == parted.text

    async def test_a_glob_narrows_and_does_not_overrule_ignore_files(self, call: Call, options: dict):
        """Unlike that of ripgrep."""
        for glob, expected in [
            ("*.py", ["src/app.py"]),
            ("*.log", ["keep.log"]),
            ("src/*", ["src/app.py"]),
            ("**/*.{yml,py}", [".github/ci.yml", "src/app.py"]),
        ]:
            result = await call("grep", options=options, pattern="main", glob=glob)
            assert expected == [line.partition(":")[0] for line in result.text.split("\n")]

    async def test_case_and_plain_text(self, call: Call, options: dict):
        """A literal pattern has no signs of its own."""
        assert "No matches found." == (await call("grep", options=options, pattern="READ ME")).text
        assert "README.md:2: read me" == (await call("grep", options=options, pattern="READ ME", ignoreCase=True)).text
        assert "No matches found." == (await call("grep", options=options, pattern="m.in()", literal=True)).text
        assert "src/app.py:3: def main():" == (await call("grep", options=options, pattern="main()", literal=True)).text

    async def test_a_match_may_go_over_lines_when_asked(self, call: Call, options: dict):
        """All its lines are told."""
        pattern = r"main\(\):\n\s+return"
        assert "No matches found." == (await call("grep", options=options, pattern=pattern)).text
        result = await call("grep", options=options, pattern=pattern, multiline=True)
        assert "src/app.py:3: def main():\nsrc/app.py:4:     return os.name" == result.text
        plain = await call("grep", options=options, pattern="main():\n    return", literal=True, multiline=True)
        assert result.text == plain.text

    async def test_looking_around_and_back_works(self, call: Call, options: dict):
        """What ripgrep cannot do is done by us."""
        result = await call("grep", options=options, pattern=r"(?<=def )(\w)\w+(?=\()")
        assert (2, "python") == (result.details["matches"], result.details["engine"])

    async def test_one_file_can_be_searched_even_if_ignored(self, call: Call, options: dict):
        """Whoever names it wants it."""
        assert "a.log:1: main" == (await call("grep", options=options, pattern="main", path="a.log")).text
        assert (
            "build/out.py:1: def main(): ..."
            == (await call("grep", options=options, pattern="main", path="build")).text
        )

    async def test_matches_are_limited_with_a_notice(self, bridge: FsBridge, call: Call, options: dict):
        """The first, and how to narrow."""
        await bridge.write_file("many", "hit\n" * 500)
        result = await call("grep", options=options, pattern="hit", limit=3)
        assert "many:1: hit\nmany:2: hit\nmany:3: hit" == "\n".join(result.text.split("\n")[:3])
        assert "3 matches shown, there may be more. Narrow" in result.text

    async def test_long_lines_and_much_output_are_cut(self, bridge: FsBridge, call: Call, options: dict):
        """The budget holds."""
        await bridge.write_file("wide", f"hit{'x' * 20_000}\n" * 500)
        result = await call("grep", options=options, pattern="hit", limit=500)
        assert "… (+19,503 characters)" in result.text.split("\n")[0]
        assert len(result.text) < grep.MAX_BYTES + 300
        assert result.details["truncated"]
        for number in range(300):
            await bridge.write_file(f"names/{number:03}{'n' * 150}", "")
        names = await call("find", options=options, pattern="*n*", path="names")
        assert len(names.text) < find.MAX_BYTES + 300

    async def test_encodings_are_searched_and_binary_files_are_not(self, bridge: FsBridge, call: Call, options: dict):
        """UTF-16 is text; a NUL makes a file binary, wherever it is."""
        await bridge.write_bytes("wide.txt", b"\xff\xfe" + "grüße needle\r\n".encode("utf-16-le"))
        await bridge.write_bytes("mark.txt", b"\xef\xbb\xbfneedle at the start\r\n")
        await bridge.write_bytes("bin", b"needle\n" + b"x" * 100_000 + b"\x00needle\n")
        result = await call("grep", options=options, pattern="^needle|needle$")
        assert "mark.txt:1: needle at the start\nwide.txt:1: grüße needle" == result.text
        with pytest.raises(ToolInputError, match="bin: binary file, not searched"):
            await call("grep", options=options, pattern="needle", path="bin")

    async def test_what_cannot_be_searched_is_an_error(self, call: Call, options: dict):
        """Patterns, paths, types."""
        for name, params, reason in [
            ("grep", {"pattern": "("}, "invalid regular expression"),
            ("grep", {"pattern": "a" * 2001}, "2,001 characters"),
            ("grep", {"pattern": "x", "path": "none"}, "none: no such file"),
            ("grep", {}, "pattern required"),
            ("find", {"pattern": "*", "path": "README.md"}, "README.md: not a directory"),
            ("find", {"pattern": "*", "path": "none"}, "none: no such file"),
            ("find", {"pattern": "*", "type": "socket"}, "type must be"),
            ("find", {"pattern": "/"}, "the glob is empty"),
            ("find", {"pattern": "{a,b}" * 20}, "more than 256"),
        ]:
            with pytest.raises(ToolInputError, match=reason):
                await call(name, options=options, **params)


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
async def test_ripgrep_is_used_where_it_is(root: Path, call_local: Call):
    """And not for patterns that mean something else to it."""
    (root / "a").write_text("a && [b]\n")
    assert "ripgrep" == (await call_local("grep", pattern="a")).details["engine"]
    assert "python" == (await call_local("grep", pattern="[[b]")).details["engine"]


@pytest.mark.skipif(not (shutil.which("fd") or shutil.which("fdfind")), reason="fd is not installed")
async def test_fd_is_used_where_it_is(root: Path, call_local: Call):
    """In a repository every version of it does."""
    (root / ".git").mkdir()
    assert "fd" == (await call_local("find", pattern="a")).details["engine"]


async def test_ignore_files_above_the_root_are_not_looked_at(root: Path, call_local: Call):
    """They are outside; the same is found in a directory below as in the root."""
    (root.parent / ".gitignore").write_text("*.py\n")
    (root / "sub").mkdir()
    (root / "sub/a.py").write_text("x\n")
    (root / ".gitignore").write_text("*.txt\n")
    (root / "sub/a.txt").write_text("x\n")
    for path in (".", "sub"):
        assert ["sub/a.py"] == (await call_local("find", pattern="a.*", path=path)).details["paths"]
        assert "sub/a.py:1: x" == (await call_local("grep", pattern="^x", path=path)).text


async def test_links_are_found_and_not_followed(root: Path, call_local: Call):
    """By either engine."""
    (root / "d").mkdir()
    (root / "d/x").write_text("needle\n")
    (root / "again").symlink_to("d")
    (root / "out").symlink_to("/etc")
    (root / "d/loop").symlink_to("..")
    for programs in (True, False):
        options = {"programs": programs}
        found = await call_local("find", options=options, pattern="*")
        assert ["again", "d/", "d/loop", "d/x", "out"] == found.details["paths"]
        assert "d/x:1: needle" == (await call_local("grep", options=options, pattern="needle")).text
        assert "d/x:1: needle" == (await call_local("grep", options=options, pattern="needle", path="again")).text
