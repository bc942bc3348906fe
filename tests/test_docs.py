"""What the documents say is true: examples run, and every name in the type table exists."""

import re
from pathlib import Path

import pytest

import interlingua
import interlingua.events
import interlingua.request

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


def named() -> list[str]:
    table = (ROOT / "docs/format.md").read_text().split("## Where the founding")[1].split("## Beyond")[0]
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
