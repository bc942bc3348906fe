"""Runs the checks over the corpus and holds the result against the list of exceptions."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from .cases import DIALECT_OF, Case, corpus, read_case
from .checks import CHECKS, findings

_BATCH = 40  # cases per task of a worker


@dataclass(frozen=True)
class Excepted:
    """A check that is right not to pass: each finding holds one of `faults`; `why` says why nothing is to be mended."""

    case: str
    check: str
    faults: list[str]
    why: str

    def covers(self, found: list[str]) -> bool:
        return all(any(fault in line for fault in self.faults) for line in found)


@dataclass
class Failure:
    """A check that did not pass and should have."""

    api: str
    case: str
    check: str
    findings: list[str]


@dataclass
class Report:
    """What came of the checks: `passed` and `failed` count by `(api, check)`."""

    passed: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    excepted: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.excepted += other.excepted
        self.failures += other.failures

    def of(self, api: str) -> list[Failure]:
        return [failure for failure in self.failures if failure.api == api]


@cache
def exceptions() -> dict[tuple[str, str], Excepted]:
    listed = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text())
    rows = [Excepted(**row) for row in listed.get("exception", [])]
    return {(row.case, row.check): row for row in rows}


def check_case(case: Case) -> Report:
    """All checks of one case."""
    report = Report()
    for name in CHECKS:
        found = findings(case, name)
        excepted = exceptions().get((case.id, name))
        key = (case.api, name)
        if found and excepted and excepted.covers(found):
            report.excepted[key] += 1
            continue
        if excepted and not found:
            found = [f"no longer fails: take it out of exceptions.toml ({excepted.why})"]
        if found is None:
            continue
        if not found:
            report.passed[key] += 1
        else:
            report.failed[key] += 1
            report.failures.append(Failure(case.api, case.id, name, found))
    return report


def run(apis: Iterable[str] = tuple(DIALECT_OF), jobs: int = 2) -> Report:
    """The checks over these directories of the corpus, in `jobs` processes."""
    total = Report()
    batches = [batch for api in apis for batch in _batches(sorted((corpus() / api).glob("*.json")))]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for result in pool.map(_run_batch, batches):
            total.add(result)
    return total


def _batches(paths: list[Path]) -> Iterator[list[Path]]:
    for at in range(0, len(paths), _BATCH):
        yield paths[at : at + _BATCH]


def _run_batch(paths: list[Path]) -> Report:
    report = Report()
    for path in paths:
        case = read_case(path)
        if case.is_ours:
            report.add(check_case(case))
    return report
