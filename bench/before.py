"""This tree beside an earlier commit of it, in one interleaved run: did encoding, decoding or a call become slower?

python bench/before.py COMMIT                 all cells; about eight minutes
python bench/before.py COMMIT --quick         fewer and shorter rounds
python bench/before.py COMMIT --only gemini   one wire (may be given more than once)

The cells are those of `run.py` (requests, streams) and `connectors.py` (calls). Each tree runs in a process of its own;
round after round they take turns. A ratio is the median over the rounds of this tree's processor time divided by that
of the commit. A cell that is more than 10 % slower is measured again. The exit code is 1 if one is slower twice, or if
the median over all cells is above 1.02.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import connectors
from conversation import CASES, WIRES
from participants import HERE, OURS, Worker, pin

ROOT = HERE.parent
SLOWER = 1.10
NOISE = 1.02


class Cell(NamedTuple):
    """One comparison: its name, and a measurement of either tree (0: the commit, 1: this tree)."""

    name: str
    measure: Callable[[int], float]


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def cells(trees: tuple[Path, Path], wires: tuple[str, ...], seconds: float, stack: contextlib.ExitStack) -> list[Cell]:
    """All comparisons of these wires."""
    codecs = [Worker(sys.executable, "-m", OURS.module, source=tree / "src") for tree in trees]
    callers = [Worker(sys.executable, "calls.py", source=tree / "src") for tree in trees]
    for worker in (*codecs, *callers):
        stack.callback(worker.close)
    url = stack.enter_context(connectors.server())

    def codec(row: str, wire: str, case: str | None) -> Callable[[int], float]:
        return lambda tree: codecs[tree].do(row=row, wire=wire, case=case, seconds=seconds)["time"]

    def call(row: str, wire: str, case: str) -> Callable[[int], float]:
        place = f"{url}/{wire}/{case}"
        return lambda tree: callers[tree].do(row=row, wire=wire, url=place, memory=0, seconds=seconds)["cpu"]

    found = [Cell(f"request, {wire}", codec("request", wire, None)) for wire in OURS.request if wire in wires]
    found += [
        Cell(f"stream, {wire}, {case}", codec("stream", wire, case))
        for wire in WIRES
        if wire in wires
        for case in CASES
    ]
    found += [
        Cell(f"{row.label}, {wire}, {case}", call(row.function, wire, name))
        for row in connectors.OWN
        for wire in row.wires
        if wire in wires
        for case, name in connectors.CASES.items()
    ]
    return found


def ratio(cell: Cell, rounds: int) -> float:
    """This tree's time divided by the commit's: the median over rounds in which they take turns."""
    cell.measure(0), cell.measure(1)  # warm
    found = []
    for turn in range(rounds):
        times = {tree: cell.measure(tree) for tree in ((0, 1) if turn % 2 else (1, 0))}
        found.append(times[1] / times[0])
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    asked = parser.parse_args()
    rounds, seconds = (5, 0.03) if asked.quick else (7, 0.08)
    wires = tuple(asked.only) or (*OURS.request,)
    pin(-1)
    with checked_out(asked.commit) as before, contextlib.ExitStack() as stack:
        compared = cells((before, ROOT), wires, seconds, stack)
        found = {}
        for cell in compared:
            found[cell.name] = ratio(cell, rounds)
            print(f"{found[cell.name]:6.3f}  {cell.name}", flush=True)
        again = {cell.name: ratio(cell, rounds) for cell in compared if found[cell.name] > SLOWER}
    slower = {name: value for name, value in again.items() if value > SLOWER}
    middle = statistics.median(found.values())
    print(f"{len(found)} cells, median {middle:.3f}, load {os.getloadavg()[0]:.1f}")
    print(f"above {SLOWER} in the first run: {', '.join(again) or 'none'}; in both: {slower or 'none'}")
    sys.exit(1 if slower or middle > NOISE else 0)


if __name__ == "__main__":
    main()
