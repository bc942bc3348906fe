"""Our `grep` and `find` beside ripgrep and fd, on a tree of 100,000 files.

Run with `.venv/bin/python bench/search.py [files]`. The participants take turns, round after round, so that all meet
the same weather; the first round warms the disk and is not counted. The programs print to a pipe that is read whole, as
an agent would; ours also sorts, looks up again what was found, and makes a result of it.
"""

import asyncio
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from interlingua.tools.core.find import find_tool
from interlingua.tools.core.grep import grep_tool
from interlingua.tools.tool import ToolContext

ROUNDS = 7
SLOW_ROUNDS = 1  # of our own engine, which no program helps
RESULTS = Path(__file__).parent / "results" / "search.md"
TEXTS = [f"word{number}" for number in range(500)]
Run = Callable[[], Awaitable[int]]


def build(root: Path, files: int) -> None:
    """A repository: directories of 50 files, three deep, 40 lines each; one file in a thousand has the needle."""
    chance = random.Random(1)
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("*.log\nnode_modules/\n/build\n")
    for number in range(files):
        where = root / f"area{number // 5000}" / f"part{number // 500 % 10}" / f"unit{number // 50 % 10}"
        if number % 50 == 0:
            where.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(chance.choices(TEXTS, k=6)) for _ in range(40)]
        if number % 1000 == 0:
            lines[20] = "here is the needle_in_the_haystack"
        (where / f"file{number}.{('py', 'ts', 'md', 'log')[number % 4]}").write_text("\n".join(lines))


def tool(make: Callable[..., Any], root: Path, programs: bool, **params: Any) -> Run:
    made = make(ToolContext(root=str(root)), programs=programs, seconds=600)

    async def run() -> int:
        result = await made.execute("call", params)
        return int(result.details.get("matches", len(result.details.get("paths", ()))))

    return run


def program(root: Path, *argv: str) -> Run:
    async def run() -> int:
        output = await asyncio.to_thread(
            lambda: subprocess.run(argv, cwd=root, capture_output=True, check=False, stdin=subprocess.DEVNULL).stdout
        )
        return output.count(b"\n")

    return run


def cases(root: Path, rg: str, fd: str) -> dict[str, dict[str, Run]]:
    seek = ("--hidden", "--glob=!.git", "--line-number")
    listing = ("--hidden", "--exclude=.git")
    return {
        "grep, a rare word": {
            "program": program(root, rg, *seek, "-e", "needle_in_the_haystack", "./"),
            "ours with it": tool(grep_tool, root, True, pattern="needle_in_the_haystack"),
            "ours alone": tool(grep_tool, root, False, pattern="needle_in_the_haystack"),
        },
        "grep, an expression in *.py": {
            "program": program(root, rg, *seek, "--type=py", "-e", r"n\w+_in_\w+k$", "./"),
            "ours with it": tool(grep_tool, root, True, pattern=r"n\w+_in_\w+k$", glob="*.py"),
            "ours alone": tool(grep_tool, root, False, pattern=r"n\w+_in_\w+k$", glob="*.py"),
        },
        "grep, one directory": {
            "program": program(root, rg, *seek, "-e", "needle_in", "./area3"),
            "ours with it": tool(grep_tool, root, True, pattern="needle_in", path="area3"),
            "ours alone": tool(grep_tool, root, False, pattern="needle_in", path="area3"),
        },
        "find, a few names": {
            "program": program(root, fd, *listing, "--glob", "file*000.py"),
            "ours with it": tool(find_tool, root, True, pattern="file*000.py"),
            "ours alone": tool(find_tool, root, False, pattern="file*000.py"),
        },
        "find, all names": {
            "program": program(root, fd, *listing, "--glob", "*"),
            "ours with it": tool(find_tool, root, True, pattern="*"),
            "ours alone": tool(find_tool, root, False, pattern="*", limit=10_000),
        },
    }


async def measure(runs: dict[str, Run]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(ROUNDS + 1):
        for name, run in runs.items():
            if name == "ours alone" and turn > SLOW_ROUNDS:
                continue
            start = time.perf_counter()
            await run()
            if turn or name == "ours alone":
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


async def main(files: int) -> None:
    rg, fd = shutil.which("rg"), shutil.which("fd") or shutil.which("fdfind")
    if rg is None or fd is None:
        sys.exit("ripgrep and fd are needed to compare with: apt-get install ripgrep fd-find")
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        build(root, files)
        lines = [
            f"# Search in {files:,} files",
            "",
            f"Medians of {ROUNDS} interleaved rounds, in milliseconds; the ratio is to the program (goal: at most 2).",
            "",
            "| case | program | ours with it | ratio | ours alone |",
            "|---|---|---|---|---|",
        ]
        for name, runs in cases(root, rg, fd).items():
            taken = await measure(runs)
            alone, helped, bare = (taken[key] * 1000 for key in ("ours alone", "ours with it", "program"))
            lines.append(f"| {name} | {bare:.0f} | {helped:.0f} | {helped / bare:.2f} | {alone:.0f} |")
            print(lines[-1], flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
