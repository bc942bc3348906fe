"""Table of attacks: class, inputs tried and withstood. `make attack` prints it; `-k WORD` runs the rows that match.
`--write` puts their numbers into docs/security.md.

Each row of ROWS is data: a class of attack and the tests that make it, as pytest names them (a file, `file::test`, or a
directory). To add a row, write the attack as tests and add one `Row` at the end of its group; nothing else.

What counts as one input: a test, each case of a parametrised test, and each example that hypothesis tried. A test that
makes its attacks in a loop says how many by pytest's own fixture: `record_property("tried", 2864)`.

A row is withstood if every one of its tests passed. A skipped test was not tried: it is named below the table with its
reason. The exit code is 1 if a row is not withstood, or nothing of it was tried. docs/security.md has the numbers.
"""

import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = re.compile(r"(\d+) passing, (\d+) failing")


class Row(NamedTuple):
    """A class of attack and the tests that make it, relative to tests/."""

    attack: str
    tests: tuple[str, ...]


ROWS = (
    # files and paths
    Row("paths and links that leave the root", ("tools/fs/test_attacks.py", "tools/fs/test_links.py")),
    Row("spellings and links to paths that a policy denies", ("tools/test_path_access.py",)),
    Row("the folder of keys inside the root", ("tools/test_home_reach.py",)),
    Row("globs that take for ever", ("tools/fs/test_globs.py",)),
    # commands
    Row("commands: keys, escapes, floods, leftovers", ("tools/exec/test_attacks.py",)),
    Row("keyring, set-uid files, memory in the sandbox", ("tools/exec/test_confinement.py",)),
    Row("files, processes, sockets and mounts past Landlock", ("tools/exec/test_landlock.py",)),
    Row("command lines that hide what they run", ("tools/test_policy.py",)),
    Row("programs told to run another one", ("tools/test_carriers.py",)),
    Row("arguments that take long to judge", ("tools/test_policy_time.py",)),
    Row("terminal sequences in output of commands", ("tools/exec/test_output.py",)),
    # sessions and files
    Row("links, FIFOs and hostile indexes in place of sessions; full disks", ("sessions/test_attacks.py",)),
    Row("durable runs: ids that are paths, poison, exits, locks, logs", ("durable/test_attacks.py",)),
    Row("FIFOs, devices and sockets where a file is read; schemas that are none; full disks", ("test_untyped.py",)),
    Row("power cuts that drop what was not synced", ("sessions/test_power_loss.py",)),
    Row("two processes and one session, in any order", ("sessions/test_lease_machine.py",)),
    Row("files that others on the machine may read", ("cli/test_private_files.py",)),
    Row("random and grown inputs into every reader", ("fuzz",)),
    # bombs
    Row("bodies that are small to send and large to read", ("connect/test_bombs.py", "framing/test_blank_lines.py")),
    Row("schemas that take for ever", ("tools/test_schema_cost.py",)),
    Row("streams that are fed, cut, aborted, left in any order", ("connect/test_stream_machine.py",)),
    # web
    Row("addresses that are not public (SSRF)", ("tools/web/test_addresses.py", "tools/web/test_fetch.py")),
    Row("pages that instruct the model", ("tools/web/test_untrusted.py",)),
    Row("hidden text and terminal sequences", ("test_visible_text.py",)),
    Row("printers given hostile text", ("cli/test_hostile_text.py",)),
    # secrets
    Row("keys that a provider repeats, passwords in addresses", ("connect/test_echoed_keys.py",)),
    # plugins and MCP
    Row("programs of strangers that look for keys", ("mcp_tools/test_seclusion.py",)),
    Row("hostile plugins", ("plugins/test_attacks.py",)),
    Row("hostile MCP servers", ("mcp_tools/test_client.py",)),
    # servers of ours
    Row("clients, web pages and providers against the gateway", ("gateway/test_security.py",)),
    Row("web pages and conversations against the canvas", ("canvas/test_attacks.py",)),
)
PAGE = ROOT / "docs/security.md"
MARKS = ("<!-- attacks: written by tests/attack_table.py --write -->\n", "<!-- end of attacks -->")


class Count:
    """Counts the inputs of one pytest run, row by row."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.tried = dict.fromkeys(rows, 0)
        self.withstood = dict.fromkeys(rows, 0)
        self.notes: list[str] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Counts a test when it has run; a failure while it is set up or cleaned up is a failure too."""
        outcome: Any = yield
        report = outcome.get_result()
        for row in self.rows_of(item.nodeid):
            if report.skipped:
                self.notes.append(f"not tried: {item.nodeid}: {report.longrepr[-1]}")
            elif report.when == "call":
                tried, withstood = inputs(item, report)
                self.tried[row] += tried
                self.withstood[row] += withstood
            elif report.failed:
                self.tried[row] += 1
            if report.failed:
                self.notes.append(f"NOT HELD: {item.nodeid}")

    def rows_of(self, nodeid: str) -> list[Row]:
        """The rows that name a test, its file or its directory."""
        name = nodeid.removeprefix("tests/")
        return [row for row in self.rows if any(re.match(re.escape(test) + r"($|[/:\[])", name) for test in row.tests)]


def inputs(item: pytest.Item, report: pytest.TestReport) -> tuple[int, int]:
    """How many inputs a test tried, and how many of them were withstood."""
    counted = sum(int(value) for name, value in report.user_properties if name == "tried")
    examples = EXAMPLES.findall(getattr(item, "hypothesis_statistics", ""))
    tried = counted or sum(int(passed) + int(failed) for passed, failed in examples) or 1
    return tried, tried if report.passed else tried - 1


def main() -> int:
    """Runs the tests of all rows once and prints the table."""
    parser = ArgumentParser(description="Attack the package and print a table: class, tried, withstood.")
    parser.add_argument("-k", metavar="WORD", default="", help="only the rows whose class contains this")
    parser.add_argument("--write", action="store_true", help="write the numbers of these rows into docs/security.md")
    arguments = parser.parse_args()
    rows = [row for row in ROWS if arguments.k.casefold() in row.attack.casefold()]
    count = Count(rows)
    tests = dict.fromkeys(f"{ROOT}/tests/{test}" for row in rows for test in row.tests)
    code = pytest.main(
        ["-q", "--no-header", "--tb=short", "--timeout=1200", f"--rootdir={ROOT}", *tests], plugins=[count]
    )
    width = max(len(row.attack) for row in rows)
    print(f"\n{'class':{width}}  {'tried':>9}  {'withstood':>9}")
    for row in rows:
        print(f"{row.attack:{width}}  {count.tried[row]:>9,}  {count.withstood[row]:>9,}")
    print(f"{'all':{width}}  {sum(count.tried.values()):>9,}  {sum(count.withstood.values()):>9,}")
    print(*count.notes, sep="\n")
    if arguments.write:
        write_page(count)
    return 0 if code == 0 and all(count.tried[row] == count.withstood[row] > 0 for row in rows) else 1


def write_page(count: Count) -> None:
    """Puts the numbers into the page, between its marks. Rows that were not run keep those that they have."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    table, _, after = rest.partition(MARKS[1])
    numbers = {row: (count.tried[row], count.withstood[row]) for row in count.rows}
    for row in set(ROWS) - numbers.keys():
        found = re.search(rf"^\| {re.escape(row.attack)} \| ([\d,]+) \| ([\d,]+) \|", table, re.MULTILINE)
        if found is not None:
            numbers[row] = int(found[1].replace(",", "")), int(found[2].replace(",", ""))
    lines = ["| class of attack | tried | withstood | tests |", "|---|---|---|---|"]
    for row in ROWS:
        tried, withstood = numbers.get(row, (0, 0))
        lines.append(f"| {row.attack} | {tried:,} | {withstood:,} | {', '.join(f'`{test}`' for test in row.tests)} |")
    tried, withstood = (sum(column) for column in zip(*numbers.values(), strict=True))
    lines.append(f"| all | {tried:,} | {withstood:,} | |")
    PAGE.write_text(f"{before}{MARKS[0]}{chr(10).join(lines)}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
