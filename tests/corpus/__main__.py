"""Prints how the dialects fare on recorded traffic. Exit code 1: something fails that should not."""

import argparse
import re
import sys
import time
from collections import Counter, defaultdict

from .cases import DIALECT_OF, corpus, find_case
from .checks import CHECKS, findings
from .differences import MOST
from .runner import Failure, Report, exceptions, run
from .sessions import run_sessions, sessions


def main() -> int:
    asked = _arguments()
    if asked.sessions:
        return _judge_sessions(asked.jobs)
    if not corpus().is_dir():
        print(f"There is no corpus of recorded traffic at {corpus()}: nothing was checked.")
        print("Put it there, or say where it is with INTERLINGUA_CORPUS.")
        return 0
    if asked.case:
        return _show_case(asked.case)
    began = time.monotonic()
    report = run(asked.api or DIALECT_OF, asked.jobs)
    print(table(report))
    if asked.groups:
        _list_groups(report.failures)
    else:
        _list_failures(report.failures, None if asked.all else asked.first)
    print(
        f"{sum(report.passed.values())} passed, {len(report.failures)} failed, "
        f"{sum(report.excepted.values())} excepted, in {time.monotonic() - began:.0f} s"
    )
    failed = bool(report.failures)
    if not (asked.api or asked.groups):
        failed |= bool(_judge_sessions(asked.jobs))
    return 1 if failed else 0


def _judge_sessions(jobs: int) -> int:
    """The files of programs, exports and data sets."""
    if not sessions().is_dir():
        print(f"There are no session files at {sessions()}: say where they are with INTERLINGUA_SESSIONS.")
        return 0
    report = run_sessions(jobs)
    failures = report.failures()
    print(report.table(), *failures, sep="\n")
    passed, every = report.counts()
    print(f"{len(report.judged)} session files: {passed} of {every} checks pass ({100 * passed / max(every, 1):.2f} %)")
    for (file, check), why in report.excepted.items():
        print(f"excepted: {file} {check}: {why}")
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument(
        "--api", action="append", choices=sorted(DIALECT_OF), help="only this directory; may be repeated"
    )
    parser.add_argument("--case", help="one case, with all that each check finds")
    parser.add_argument("--sessions", action="store_true", help="only the files of programs, exports and data sets")
    parser.add_argument("--all", action="store_true", help="list every failure")
    parser.add_argument("--groups", action="store_true", help="list the failures by their likeness, with examples")
    parser.add_argument("--first", type=int, default=40, help="how many failures to list (%(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (%(default)s)")
    return parser.parse_args()


def table(report: Report) -> str:
    """Rows: directories of the corpus; columns: checks; cells: passed/all, and how many are excepted."""
    seen = {api for counter in _counters(report) for api, _ in counter}
    apis = [api for api in DIALECT_OF if api in seen]
    rows = [["", *CHECKS], *([api, *(_cell(report, api, name) for name in CHECKS)] for api in apis)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)


def _counters(report: Report) -> tuple[Counter[tuple[str, str]], ...]:
    return report.passed, report.failed, report.excepted


def _cell(report: Report, api: str, name: str) -> str:
    passed, failed, excepted = (counter[api, name] for counter in _counters(report))
    if not passed + failed + excepted:
        return "-"
    return f"{passed}/{passed + failed + excepted}" + (f" ({excepted} ex.)" if excepted else "")


def _list_failures(failures: list[Failure], first: int | None) -> None:
    for failure in failures[:first]:
        print(
            f"{failure.api} {failure.case} {failure.check}: {failure.findings[0]}"
            + (f" (+{len(failure.findings) - 1})" if len(failure.findings) > 1 else "")
        )
    if first is not None and len(failures) > first:
        print(f"… and {len(failures) - first} more: --all lists them, --case ID explains one")


def _list_groups(failures: list[Failure]) -> None:
    groups: dict[tuple[str, str, str], list[Failure]] = defaultdict(list)
    for failure in failures:
        groups[failure.api, failure.check, _alike(failure.findings[0])].append(failure)
    for (api, check, _), alike in sorted(groups.items(), key=lambda group: (group[0][:2], -len(group[1]))):
        examples = " ".join(failure.case for failure in alike[:3])
        print(f"{api} {check}, {len(alike)} ({examples}): {alike[0].findings[0]}")


def _alike(finding: str) -> str:
    """A finding without its particulars: quoted values and numbers."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "_", finding)[:60]


def _show_case(id: str) -> int:
    case = find_case(id)
    print(f"{case.api} {case.id}: status {case.status}, {case.content_type}, through {case.dialect_name}")
    failed = False
    for name, check in CHECKS.items():
        found = findings(case, name)
        excepted = exceptions().get((id, name))
        if found is None:
            continue
        about = (check.__doc__ or "").splitlines()[0]
        print(f"  {name}: {'failed' if found else 'passed'}  ({about})")
        for line in found[:MOST]:
            print(f"      {line}")
        if len(found) > MOST:
            print(f"      … and {len(found) - MOST} more")
        if excepted:
            print(f"      excepted: {excepted.why}")
        failed |= bool(found) != bool(excepted)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
