"""Sessions of 10 MB, 100 MB and 1 GB opened, read and continued; 10,000 sessions listed.

Run with `.venv/bin/python bench/sessions.py [MB…]`. Each measurement is a process of its own, so that its memory can be
told; the smallest size is the yardstick for the others.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 5
SESSIONS = 10_000
RESULTS = Path(__file__).parent / "results" / "sessions.md"

# What a process does with a session: its time without imports, and how much its memory grew.
MEASURED = """
import resource, sys, time
import interlingua as il
from interlingua.sessions import Session
from interlingua.sessions.files import FileStore
il.load(b'{}')
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
{act}
seconds = time.perf_counter() - start
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
ACTS = {
    "first open (no index yet)": "Session.open(sys.argv[1]).close()",
    "open and close": "Session.open(sys.argv[1]).close()",
    "open, what a model reads": "with Session.open(sys.argv[1]) as s: assert len(s.context_messages()) > 10",
    "open read-only, last 100 entries": """
with Session.open(sys.argv[1], read_only=True) as s: assert len(s.path(last=100)) == 100""",
    "open, one message on disk": """
with Session.open(sys.argv[1]) as s: s.append(il.UserMessage(content="Go on."), sync=True)""",
    "open, find an early entry": "with Session.open(sys.argv[1]) as s: s.entry('e3')",
}
LISTS = {
    "list, for the first time": "assert len(FileStore(sys.argv[1]).sessions('main')) == int(sys.argv[2])",
    "list again": "assert len(FileStore(sys.argv[1]).sessions('main')) == int(sys.argv[2])",
}


def session(path: Path, size: int) -> int:
    """Turns of an agent with a 2 KB result each, a compaction every 200; returns the number of lines."""
    generated = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-6"}
    output = [{"type": "text", "text": "let x = 1; // words\n" * 100}]
    with path.open("wb") as stream:
        stream.write(b'{"role":"session","version":1,"id":"big"}\n')
        number = written = turns = 0
        parent: dict[str, str] = {}
        while written < size:
            turn = [
                {"role": "user", "content": "Read the file main.ts", "timestamp": 1740000000000},
                {"role": "assistant", "content": [
                    {"type": "toolCall", "id": "call_1", "name": "read", "arguments": {"path": "main.ts"}}
                ], **generated, "stopReason": "toolUse"},
                {"role": "toolResult", "toolCallId": "call_1", "toolName": "read", "content": output, "isError": False},
                {"role": "assistant", "content": [{"type": "text", "text": "It declares x. " * 20}], **generated},
            ]  # fmt: skip
            turns += 1
            if turns % 200 == 190:
                turn.append({"role": "compaction", "summary": "So far. " * 100, "firstKept": f"e{number - 60}"})
            for line in turn:
                raw = json.dumps({**line, "id": f"e{number}", **parent}, separators=(",", ":")).encode() + b"\n"
                parent = {"parentId": f"e{number}"}
                number += 1
                written += stream.write(raw)
    return number


def small_sessions(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    for at in range(count):
        lines = [
            {"role": "session", "version": 1, "id": str(at), "createdAt": 1740000000000},
            {"role": "user", "content": f"Question {at}", "id": "a"},
            {"role": "assistant", "content": "Answer", "model": "m", "id": "b", "parentId": "a"},
        ]
        (folder / f"{at}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def measured(act: str, *arguments: str) -> tuple[float, float]:
    """Milliseconds and MB of a process that does it."""
    program = MEASURED.replace("{act}", act)
    done = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
    seconds, grown = done.stdout.split()
    return float(seconds) * 1000, int(grown) / 1024


def median(act: str, *arguments: str, rounds: int = ROUNDS) -> tuple[float, float]:
    taken = [measured(act, *arguments) for _ in range(rounds)]
    return statistics.median(t for t, _ in taken), max(m for _, m in taken)


def sized(folder: Path, megabytes: int) -> dict[str, tuple[float, float]]:
    path = folder / f"{megabytes}.jsonl"
    session(path, megabytes * 1_000_000)
    os.sync()
    found = {}
    for name, act in ACTS.items():
        found[name] = median(act, str(path), rounds=1 if name.startswith("first") else ROUNDS)
    path.unlink()
    return found


def table(sizes: list[int], results: list[dict[str, tuple[float, float]]]) -> list[str]:
    heads = " | ".join(f"{size} MB: ms | MB" for size in sizes)
    lines = [f"| | {heads} | largest : smallest |", "|---|" + "--:|" * (2 * len(sizes) + 1)]
    for name in ACTS:
        cells = " | ".join(f"{time:,.1f} | {memory:.1f}" for time, memory in (result[name] for result in results))
        lines.append(f"| {name} | {cells} | {results[-1][name][0] / results[0][name][0]:.1f} |")
    return lines


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or [10, 100, 1000]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        results = [sized(folder, size) for size in sizes]
        small_sessions(folder / "agents/main/sessions", SESSIONS)
        lists = {
            name: median(act, str(folder), str(SESSIONS), rounds=1 if "first" in name else ROUNDS)
            for name, act in LISTS.items()
        }
    lines = [
        f"Median of {ROUNDS} processes each; MB is what the process grew by. A line is about 1 KB.",
        "",
        *table(sizes, results),
        "",
        f"| {SESSIONS:,} sessions | ms | MB |",
        "|---|--:|--:|",
        *(f"| {name} | {time:,.0f} | {memory:.1f} |" for name, (time, memory) in lists.items()),
    ]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
