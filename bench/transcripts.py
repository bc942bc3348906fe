"""A large session file converted by the command line: speed beside msgspec alone, memory, one process and two.

Run with `.venv/bin/python bench/transcripts.py [MB]`. The limit reads the file line by line, decodes each line into the
typed structs and writes it again: no command line, no checks, no atomic output.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 3
RESULTS = Path(__file__).parent / "results" / "transcripts.md"
LIMIT = """
import sys, msgspec
from interlingua.values.messages import Message
decode, encode = msgspec.json.Decoder(Message).decode, msgspec.json.Encoder().encode
with open(sys.argv[1], "rb") as source, open(sys.argv[2], "wb") as out:
    for line in source:
        out.write(encode(decode(line)) + b"\\n")
"""


def session(path: Path, size: int) -> None:
    """Turns of an agent: a question, a call, a 2 KB result, an answer."""
    usage = {"input": 100, "output": 50, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 150}
    generated = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-6", "usage": usage}
    turn = [
        {"role": "user", "content": "Read the file main.ts", "timestamp": 1740000000000},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me read that file."},
                {"type": "toolCall", "id": "call_1", "name": "read", "arguments": {"file_path": "main.ts"}},
            ],
            **generated,
            "stopReason": "toolUse",
            "timestamp": 1740000001000,
        },
        {
            "role": "toolResult",
            "toolCallId": "call_1",
            "toolName": "read",
            "content": [{"type": "text", "text": "let x = 1; // words\n" * 100}],
            "isError": False,
            "timestamp": 1740000002000,
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "The file declares x. " * 20}],
            **generated,
            "stopReason": "stop",
            "timestamp": 1740000003000,
        },
    ]
    text = "".join(json.dumps(message, separators=(",", ":")) + "\n" for message in turn).encode()
    with path.open("wb") as stream:
        for _ in range(size // len(text)):
            stream.write(text)


def timed(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command and its workers."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    ours = [sys.executable, "-c", "from interlingua.cli import main; main()", "convert"]
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        session(source, megabytes * 1_000_000)
        commands = {
            "limit: msgspec decode + encode": [sys.executable, "-c", LIMIT, str(source), str(out)],
            "convert, one process": [*ours, str(source), "-t", "transcript", "-o", str(out), "-j", "1"],
            "convert, two processes": [*ours, str(source), "-t", "transcript", "-o", str(out), "-j", "2"],
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                times[name].append(timed(command))
        assert source.read_bytes() == out.read_bytes() if megabytes <= 200 else True
    medians = {
        name: [statistics.median(column) for column in zip(*taken, strict=True)] for name, taken in times.items()
    }
    wall, _ = medians["limit: msgspec decode + encode"]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    lines = [
        f"{megabytes} MB, median of {ROUNDS} interleaved rounds; the largest process took {peak:.0f} MB.",
        "",
        "| | wall s | MB/s | x the limit's speed | CPU s |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, (seconds, used) in medians.items():
        row = f"{seconds:.2f} | {megabytes / seconds:.0f} | {wall / seconds:.2f} | {used:.2f}"
        lines.append(f"| {name} | {row} |")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
