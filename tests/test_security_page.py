"""The page about attacks names a test for each; this sees that they are there."""

import re
from pathlib import Path

from attack_table import MARKS, ROWS

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"\b(test_\w+)(?!\.py)\b")


def test_every_test_that_the_security_page_names_exists() -> None:
    """A row whose test was renamed or removed proves nothing."""
    page = (ROOT / "docs/security.md").read_text()
    named = {name for name in NAMED.findall(page) if f"{name}.py" not in page}
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(named) > 150
    assert set() == named - there


def test_the_page_has_a_row_for_each_class_of_attack_and_all_of_it_held() -> None:
    """`tests/attack_table.py --write` writes the table, with the numbers of its run."""
    table = (ROOT / "docs/security.md").read_text().partition(MARKS[0])[2].partition(MARKS[1])[0]
    for row in ROWS:
        found = re.search(rf"^\| {re.escape(row.attack)} \| ([\d,]+) \| ([\d,]+) \|", table, re.MULTILINE)
        assert found is not None, row.attack
        assert found[1] == found[2] != "0", row.attack


def test_every_test_that_the_table_of_attacks_names_exists() -> None:
    """A row of `make attack` without tests would hold by trying nothing."""
    for test in (test for row in ROWS for test in row.tests):
        path, _, name = test.partition("::")
        assert (ROOT / "tests" / path).exists(), test
        assert not name or re.search(rf"def {name}\(", (ROOT / "tests" / path).read_text()), test
