"""What the documents say is true: examples run, and every name in the type table exists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import interlingua
import interlingua.values.events
import interlingua.values.request

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
EXAMPLES = [
    (page, at, code)
    for page in PAGES
    for at, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
]


@pytest.mark.parametrize("page", sorted({page for page, _, _ in EXAMPLES}), ids=lambda page: page.name)
def test_the_examples_of_a_page_run_in_order(page: Path) -> None:
    """A page's Python blocks run as one program, asserts included."""
    names: dict[str, object] = {}
    for where, at, code in EXAMPLES:
        if where == page:
            exec(compile(code, f"{page.name}#{at}", "exec"), names)


@pytest.mark.parametrize("program", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_program_runs(program: Path) -> None:
    """Offline, without warnings, and every round trip that it shows is exact."""
    command = [sys.executable, "-W", "error", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ("", 0) == (done.stderr, done.returncode)
    assert "exact" in done.stdout and "CHANGED" not in done.stdout and "NOT" not in done.stdout


BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.DOTALL | re.MULTILINE)


SESSIONS = [page for page in PAGES if "```console" in page.read_text()]


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    """Blocks with a file name become files; in a console block, `$` lines run and the others are their output."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "110"}
    for kind, name, text in BLOCK.findall(page.read_text()):
        if name:
            (tmp_path / name).write_text(text)
        elif kind == "console":
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                done = subprocess.run(
                    command, shell=True, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
                )
                printed = [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]
                assert printed == [line.rstrip() for line in shown.splitlines()], command


def named() -> list[str]:
    page = (ROOT / "docs/format.md").read_text()
    table = page.split("## Types of the specification")[1].split("## Additional types")[0]
    cells = [line.rstrip("|").rsplit("|", 1)[1] for line in table.splitlines() if line.startswith("|")][2:]
    return sorted({name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)})


@pytest.mark.parametrize("name", named())
def test_every_name_in_the_type_table_exists(name: str) -> None:
    """`Class.field` is a field (or property) of a class that can be imported."""
    first, *rest = name.split(".")
    value = getattr(interlingua, first)
    for part in rest:
        value = getattr(value, part)
    assert value is not None


def test_the_loss_tables_are_as_the_code_has_them() -> None:
    """`make docs` has been run since a dialect changed."""
    done = subprocess.run([sys.executable, ROOT / "docs/generate.py", "--check"], check=False)
    assert done.returncode == 0, "docs/dialects.md is out of date: run `make docs`"


def test_every_module_is_in_the_module_table() -> None:
    """CONTRIBUTING has one line each, from the first sentence of the module's docstring, and no line too many."""
    package = Path(interlingua.__file__).parent
    files = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    named = set(re.findall(r"^\| `([\w./]+\.py)` \| .+ \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert (set(), set()) == (files - named, named - files), "the module table is out of date: run `make docs`"


def test_the_site_has_every_page() -> None:
    """A page that is not in the navigation of mkdocs.yml would be found by nobody."""
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages == set(re.findall(r"[\w/-]+\.md", navigation))
