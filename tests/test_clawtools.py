"""The names of the clawtools documents, as docs/plugins.md lists them, are importable from `interlingua.clawtools`."""

import re
from pathlib import Path

import pytest

from interlingua import clawtools
from interlingua.values.interop import snake_case

PAGE = Path(__file__).parents[1] / "docs/plugins.md"
SEEDS = Path(__file__).parents[2] / "shared/seeds"
# What the module has beside the documents' names; the page names these below its table.
BESIDE = {"aload_plugins", "mistakes", "project", "unproject"}


def rows() -> list[tuple[str, str]]:
    table = PAGE.read_text().split("| | names of the documents |")[1].split("\n\n")[0]
    cells = [line.split("|")[2:4] for line in table.splitlines()[2:]]
    return [(documents, here) for documents, here in cells]


def documented() -> list[str]:
    return [name for documents, _ in rows() for name in re.findall(r"`(\w+)`", documents)]


def ours(name: str) -> str:
    return name if name[0].isupper() else snake_case(name)


@pytest.mark.parametrize("name", documented())
def test_every_documented_name_is_importable(name: str) -> None:
    """Types under their own name, functions in snake_case."""
    assert ours(name) in clawtools.__all__
    assert getattr(clawtools, ours(name)) is not None


@pytest.mark.parametrize("documents, here", rows())
def test_the_table_gives_the_python_name_of_each_function(documents: str, here: str) -> None:
    """What a reader copies from the last column exists."""
    functions = [name for name in re.findall(r"`(\w+)`", documents) if not name[0].isupper()]
    assert [ours(name) for name in functions] == re.findall(r"`(\w+)`", here)


def test_the_table_is_complete() -> None:
    """The module has no name that the page does not explain."""
    assert sorted({ours(name) for name in documented()} | BESIDE) == sorted(clawtools.__all__)
    assert [] == [name for name in BESIDE if f"`{name}`" not in PAGE.read_text()]


@pytest.mark.parametrize("page", sorted(SEEDS.glob("00[02]*")), ids=lambda page: page.name[:3])
def test_the_table_has_every_name_of_the_documents(page: Path) -> None:
    """Headings, imports and functions in their examples."""
    text = page.read_text()
    imported = {
        name for names in re.findall(r'import (?:type )?\{([^}]*)\} from "clawtools', text) for name in names.split(",")
    }
    headings = set(re.findall(r"^### .*$", text, re.MULTILINE))
    types = {name for line in headings for name in re.findall(r"`([A-Z]\w+)", line)}
    assert set() == {name.strip() for name in imported | types} - set(documented())
