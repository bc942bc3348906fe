"""Measures the package beside the hand-written limits and its peers, in one interleaved run.

python bench/run.py                  everything; about half an hour
python bench/run.py --quick          fewer rounds and shorter streams; about four minutes
python bench/run.py --only gemini    one wire (may be given more than once)
python bench/run.py --write-docs     no measuring: docs/performance.md from the last results (without: calls, canvas)
python bench/run.py --lock           no measuring: resolve the peers' lock files anew
"""

import argparse
import datetime
import json
import os
import platform
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import imports
import page
import participants
import report
from conversation import CASES, SIZES, WIRES
from participants import HERE, OURS, PEERS, Participant, Worker

RESULTS = HERE / "results" / "latest.json"
DOCS = HERE.parent / "docs" / "performance.md"
QUICK_CASES = ("text5k", "think1k", "tool20k", "rows20k")
ACCUMULATING = ("anthropic", "openai", "responses")  # the wires that send arguments in pieces
LONGEST = 15.0  # seconds: what one call of a peer may take before its cell is left out


def main() -> None:
    asked = _arguments()
    if asked.lock:
        participants.relock()
    elif asked.write_docs:
        measured = json.loads(RESULTS.read_text()) if RESULTS.exists() else None
        written = page.with_sections(DOCS.read_text()) if measured is None else page.document(measured, LONGEST)
        DOCS.write_text(written)
    else:
        results = Run(asked).results()
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1))
        print(report.text(results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", choices=OURS.request, default=[])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--lock", action="store_true")
    return parser.parse_args()


class Run:
    """One run. Cell by cell, the participants take turns, round after round, so that all meet the same weather."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self._quick = asked.quick
        self._wires = tuple(asked.only) or OURS.request
        self._rounds = asked.rounds or (3 if asked.quick else 7)
        self._seconds = 0.05 if asked.quick else 0.2
        self._workers: dict[str, Worker] = {}

    def results(self) -> dict[str, Any]:
        for peer in PEERS:
            participants.prepare(peer)
        with ExitStack() as stack:
            for one in (OURS, *PEERS):
                self._workers[one.name] = Worker(one.python, "-m", one.module)
                stack.callback(self._workers[one.name].close)
            found = {
                "about": self._about(),
                "requests": {wire: self._requests(wire) for wire in self._wires},
                "streams": {wire: self._streams(wire) for wire in self._wires if wire in WIRES},
                "growth": {wire: self._growth(wire) for wire in self._wires if wire in ACCUMULATING},
            }
        found["imports"] = imports.measure(3 if self._quick else 15, report.show_progress)
        report.show_progress("")
        return found

    def _about(self) -> dict[str, Any]:
        return {
            "date": datetime.date.today().isoformat(),
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "load": os.getloadavg()[0],
            "rounds": self._rounds,
            "quick": self._quick,
            "versions": {one.name: participants.version(one) for one in (OURS, *PEERS)},
        }

    def _requests(self, wire: str) -> dict[str, Any]:
        rows = [(OURS, "request"), (OURS, "null"), (OURS, "orjson")]
        rows += [(peer, "request") for peer in PEERS if wire in peer.request]
        return self._cell(rows, wire, None)

    def _streams(self, wire: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for case in QUICK_CASES if self._quick else CASES:
            rows = [row for row in _stream_rows(wire) if not _too_long(found, row, case)]
            found[case] = self._cell(rows, wire, case)
        return found

    def _growth(self, wire: str) -> dict[str, Any]:
        sizes = SIZES[:2] if self._quick else SIZES
        return {
            shape: {size: self._cell([(OURS, "stream")], wire, shape + size)[OURS.name] for size in sizes}
            for shape in ("tool", "rows")
        }

    def _cell(self, rows: list[tuple[Participant, str]], wire: str, case: str | None) -> dict[str, Any]:
        """The rows of one column: medians over the rounds."""
        measured: dict[str, list[dict[str, Any]]] = {_label(*row): [] for row in rows}
        for turn in range(self._rounds):
            report.show_progress(f"{wire} {case or 'request'}, round {turn + 1} of {self._rounds}")
            for one, row in rows[turn % len(rows) :] + rows[: turn % len(rows)]:
                answer = self._workers[one.name].do(row=row, wire=wire, case=case, seconds=self._seconds)
                measured[_label(one, row)].append(answer)
        return {label: _median(answers) for label, answers in measured.items()}


def _stream_rows(wire: str) -> Iterator[tuple[Participant, str]]:
    yield OURS, "stream"
    for peer in PEERS:
        if wire in peer.stream:
            yield peer, "stream"
        if wire in peer.raw:
            yield peer, "raw"


def _label(one: Participant, row: str) -> str:
    return {"raw": f"{one.name}: raw events", "orjson": report.ORJSON, "null": report.NULL}.get(row, one.name)


def _too_long(found: dict[str, Any], row: tuple[Participant, str], case: str) -> bool:
    """Whether a call is sure to take too long, by what the shorter text took."""
    return case == "text50k" and found["text5k"][_label(*row)]["time"] * 50_000 > LONGEST


def _median(answers: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = [answer["time"] / answer["limit"] for answer in answers]
    middle = {
        "time": statistics.median(answer["time"] for answer in answers),
        "limit": statistics.median(answer["limit"] for answer in answers),
        "ratio": statistics.median(ratios),
        "ratios": [round(ratio, 2) for ratio in ratios],
    }
    return middle | {key: value for key, value in answers[0].items() if key not in ("time", "limit")}


if __name__ == "__main__":
    main()
