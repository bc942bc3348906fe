"""The table of kills: class, kill -9 sent, acknowledged, lost, doubled. `make crash` prints it; `-k WORD` picks rows.

Each row is a test that kills real processes at random moments; INTERLINGUA_KILLS says how often. The test records
what it saw by pytest's `record_property`. The exit code is 1 if anything was lost or doubled, or if fewer were killed.
"""

import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
COLUMNS = ("kills", "acknowledged", "lost", "doubled")


class Row(NamedTuple):
    """What is killed, the test that does it, and how often."""

    what: str
    test: str
    kills: int


ROWS = (
    Row("session files", "sessions/test_crash.py::test_every_acknowledged_line_survives_a_kill", 300),
    Row("SQLite store", "sessions/test_crash.py::test_sqlite_survives_a_kill_as_well", 200),
    Row("PostgreSQL store", "sessions/test_crash.py::test_postgresql_survives_a_kill_as_well", 150),
    Row("agent runs", "agent/test_recovery.py::test_a_run_survives_being_killed_at_any_moment", 200),
    Row("durable runs", "durable/test_kills.py::test_random_kills_do_nothing_twice", 150),
    Row(
        "gateway",
        "gateway/test_crash.py::test_kill_9_under_load_loses_no_acknowledged_entry_and_counts_none_twice",
        200,
    ),
)


def killed(row: Row, kills: int, jobs: int) -> tuple[Counter[str], str]:
    """What a row's test recorded, and how it ended: passed, failed or skipped."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            "-o",
            "junit_family=xunit1",  # the other one has no place for what tests record
            "-n",
            str(jobs),
            "--timeout=3600",  # hundreds of kills take longer than a test may
        ]
        done = subprocess.run(
            [*command, f"tests/{row.test}"],
            cwd=ROOT,
            env={**os.environ, "INTERLINGUA_KILLS": str(kills)},
            capture_output=True,
            text=True,
            check=False,
        )
        found: Counter[str] = Counter()
        suites = ElementTree.parse(report).getroot() if report.exists() else None
        for case in suites.iter("testcase") if suites is not None else ():
            seen = [(one.get("name", ""), int(one.get("value", 0))) for one in case.iter("property")]
            acknowledged = max((value for name, value in seen if name == "acknowledged"), default=0)  # it only grows
            found.update({"acknowledged": acknowledged, "skipped": len(case.findall("skipped"))})
            for name in ("kills", "lost", "doubled"):
                found[name] += sum(value for one, value in seen if one == name)
    if done.returncode:
        print(done.stdout[-3000:])
        return found, "FAILED"
    return found, "skipped: not installed" if found["skipped"] else "held"


def main() -> int:
    """Runs the rows one after another and prints the table."""
    parser = ArgumentParser(description="Kill real processes at random moments and print a table.")
    parser.add_argument("-k", metavar="WORD", default="", help="only the rows whose name contains this")
    parser.add_argument("--kills", type=int, default=1000, help="of 1,000 as the table has them: fewer of each")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    rows = [row for row in ROWS if arguments.k.casefold() in row.what.casefold()]
    whole: Counter[str] = Counter()
    good = True
    print(f"{'class':18}{''.join(f'{name:>14}' for name in COLUMNS)}{'seconds':>10}")
    for row in rows:
        kills, begin = max(5, row.kills * arguments.kills // 1000), time.monotonic()
        found, end = killed(row, kills, arguments.jobs)
        good &= end != "FAILED" and (
            end != "held" or (found["kills"] >= kills and not found["lost"] + found["doubled"])
        )
        whole.update(found)
        numbers = "".join(f"{found[name]:>14,}" for name in COLUMNS)
        print(f"{row.what:18}{numbers}{time.monotonic() - begin:>10.0f}  {end}", flush=True)
    print(f"{'all':18}{''.join(f'{whole[name]:>14,}' for name in COLUMNS)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
