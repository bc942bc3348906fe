"""The reading of line formats beside the bare cost of their lines: msgspec decoding and encoding them, in the same run.

`python bench/files.py [--read] [MEGABYTES] [FORMAT…]`; each format's file is made of our own samples, its lines
repeated under new ids. A row reads the file with `il.read` (for a session file: one conversation), and converts it with
the command unless only reading is asked for. Each time in a new process, what is compared in turns; medians.

`python bench/files.py --scale [MEGABYTES…]` goes through files of 10, 100 and 1000 MB in the ways that need no more
memory for a larger file: what a line costs, and how much memory the process took. Each way is gone once before, with
the first lines of the file, so that what starting costs is not counted.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

WORDS = "The file declares x, and nothing else uses it; so it can go. " * 8
RESULT = "let x = 1; // words\n" * 60
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}


def sharegpt(at: int) -> Iterator[Any]:
    turns = [("human", f"Question {at}: what is in main.ts?"), ("gpt", WORDS), ("human", "And then?"), ("gpt", WORDS)]
    yield {"id": f"row-{at}", "conversations": [{"from": who, "value": text} for who, text in turns]}


def finetune(at: int) -> Iterator[Any]:
    call = {"id": f"call_{at}", "type": "function", "function": {"name": "read", "arguments": '{"path":"main.ts"}'}}
    messages = [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": f"Question {at}: what is in main.ts?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": RESULT},
        {"role": "assistant", "content": WORDS, "weight": 1},
    ]
    yield {"messages": messages, "tools": [TOOL]}


def batch(at: int) -> Iterator[Any]:
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "read", "input": {"path": "main.ts"}}
    messages = [
        {"role": "user", "content": f"Question {at}: what is in main.ts?"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": RESULT}]},
    ]
    tool = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {}}}
    body = {"model": "claude-x", "max_tokens": 1024, "system": WORDS, "tools": [tool], "messages": messages}
    yield {"custom_id": f"row-{at}", "params": body}


def openai_batch(at: int) -> Iterator[Any]:
    for row in finetune(at):
        body = {"model": "gpt-x", **row}
        yield {"custom_id": f"row-{at}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def alpaca(at: int) -> Iterator[Any]:
    yield {"instruction": f"Question {at}", "input": RESULT, "output": WORDS}


def anthropic(at: int) -> Iterator[Any]:
    content = [{"type": "text", "text": RESULT}]
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": WORDS}]
    yield {"model": "claude-x", "max_tokens": at + 1, "messages": messages}


def claude_code(at: int) -> Iterator[Any]:
    stamp = f"2026-01-{at // 86400 % 28 + 1:02}T{at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}.000Z"
    common = {"isSidechain": False, "userType": "external", "cwd": "/home/u/p", "sessionId": "s-1", "version": "2.1.0"}
    common["gitBranch"] = "main"
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 100, "output_tokens": 50}
    usage |= {"cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}}  # type: ignore[dict-item]
    answer = {"id": f"msg_{at}", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "usage": usage}
    answer["stop_sequence"] = None
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "Read", "input": {"file_path": "main.ts"}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": RESULT}
    messages = [
        ("user", {"role": "user", "content": f"Question {at}: what is in main.ts?"}),
        ("assistant", {**answer, "content": [{"type": "text", "text": WORDS}], "stop_reason": None}),
        ("assistant", {**answer, "content": [call], "stop_reason": "tool_use"}),
        ("user", {"role": "user", "content": [result]}),
    ]
    for number, (kind, message) in enumerate(messages):
        before = f"u-{at}-{number - 1}" if number else (f"u-{at - 1}-{len(messages) - 1}" if at else None)
        place = {"parentUuid": before, "uuid": f"u-{at}-{number}", "timestamp": stamp, "type": kind}
        more: dict[str, Any] = {"requestId": f"req_{at}"} if kind == "assistant" else {}
        if number == 3:
            more["toolUseResult"] = {"type": "text", "file": {"filePath": "main.ts", "content": RESULT, "numLines": 60}}
        yield {**place, **common, **more, "message": message}


def codex(at: int) -> Iterator[Any]:
    def line(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "payload": payload}

    if at == 0:
        yield line("session_meta", {"id": "s-1", "cwd": "/home/u/p", "cli_version": "0.80.0", "originator": "codex"})
    yield line("turn_context", {"cwd": "/home/u/p", "model": "gpt-5.2-codex", "approval_policy": "never"})
    asked = [{"type": "input_text", "text": f"Question {at}"}]
    yield line("response_item", {"type": "message", "role": "user", "content": asked})
    call = {"type": "function_call", "name": "shell", "arguments": '{"command":["cat"]}', "call_id": f"call_{at}"}
    yield line("response_item", call)
    yield line("response_item", {"type": "function_call_output", "call_id": f"call_{at}", "output": RESULT})
    content = [{"type": "output_text", "text": WORDS}]
    yield line("response_item", {"type": "message", "role": "assistant", "content": content})


def openclaw(at: int) -> Iterator[Any]:
    if at == 0:
        yield {"type": "session", "version": 3, "id": "s-1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/home/u"}
    usage = {"input": 10, "output": 50, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 60}
    made = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-6", "usage": usage}
    call = {"type": "toolCall", "id": f"toolu_{at}", "name": "read", "arguments": {"path": "main.ts"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": f"Question {at}"}], "timestamp": 1},
        {"role": "assistant", "content": [call], **made, "stopReason": "toolUse", "timestamp": 2},
        {
            "role": "toolResult",
            "toolCallId": f"toolu_{at}",
            "toolName": "read",
            "content": [{"type": "text", "text": RESULT}],
            "isError": False,
            "timestamp": 3,
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": WORDS}],
            **made,
            "stopReason": "stop",
            "timestamp": 4,
        },
    ]
    for number, message in enumerate(messages):
        before = f"{at}-{number - 1}" if number else (f"{at - 1}-{len(messages) - 1}" if at else None)
        place = {"type": "message", "id": f"{at}-{number}", "parentId": before, "timestamp": "2026-01-01T00:00:00.000Z"}
        yield {**place, "message": message}


def gemini(at: int) -> Iterator[Any]:
    if at == 0:
        yield {"sessionId": "s-1", "projectHash": "p", "startTime": "2026-01-01T00:00:00.000Z", "kind": "main"}
    tokens = {"input": 10, "output": 5, "cached": 0, "thoughts": 0, "tool": 0, "total": 15}
    common = {"timestamp": "2026-01-01T00:00:00.000Z"}
    yield {"id": f"u-{at}", **common, "type": "user", "content": [{"text": RESULT}]}
    yield {"id": f"g-{at}", **common, "type": "gemini", "content": WORDS, "tokens": tokens, "model": "gemini-2.5-pro"}


def transcript(at: int) -> Iterator[Any]:
    for line in openclaw(at):
        if line["type"] == "message":
            yield {**line["message"], "id": line["id"], "parentId": line["parentId"]}


FORMATS: dict[str, Callable[[int], Iterator[Any]]] = {
    "sharegpt": sharegpt,
    "openai-finetune": finetune,
    "alpaca": alpaca,
    "anthropic-messages": anthropic,
    "anthropic-batch": batch,
    "openai-batch": openai_batch,
    "transcript": transcript,
    "openclaw": openclaw,
    "claude-code": claude_code,
    "codex-cli": codex,
    "gemini-cli": gemini,
}
ROUNDS = 5
SESSIONS = {"transcript", "openclaw", "claude-code", "codex-cli", "gemini-cli"}


def write(path: Path, name: str, size: int) -> int:
    """A file of a format, of about `size` bytes; returns its lines."""
    written = lines = 0
    with path.open("wb") as stream:
        for at in itertools.count():
            for line in FORMATS[name](at):
                data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
                stream.write(data)
                written += len(data)
                lines += 1
            if written >= size:
                return lines
    raise AssertionError


# Each prints its CPU seconds and its peak in MB, without those of the imports.
MEASURE = """
import resource, sys, time
path, name = sys.argv[1:3]
{setup}
began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{work}
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(time.process_time() - began, used / 1024, count)
"""
BARE = MEASURE.format(
    setup="import msgspec; decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode",
    work="count = sum(len(encode(decode(line))) > 0 for line in open(path, 'rb'))",
)
READ = MEASURE.format(
    setup="import interlingua as il; il.detect({'messages': []}); il.read",
    work="count = sum(len(c.entries) for c in il.read(path, name if name != '-' else None))",
)


# Ways through files of any size. The archive reads session files line by line: texts, usage, titles.
FIRST = """
import itertools
def go(path):
    {go}
with open(path, "rb") as file, open(path + ".first", "wb") as first:
    first.writelines(itertools.islice(file, 100))
go(path + ".first")
"""
CONVERT = """
    command.main([path, "-t", name, "-o", path + ".out", "-j", "1"], standalone_mode=False)
    return 1"""
ARCHIVE = "return sum(part.messages for one in read_file(Path(path), name, Stamp.of(Path(path))) for part in one.parts)"
SCALE = {
    "transcript": ("`convert -t transcript`", "from interlingua.cli.convert import command", CONVERT),
    "sharegpt": (
        "`il.read`",
        "import interlingua as il",
        "return sum(len(one.entries) for one in il.read(path, name))",
    ),
    "claude-code": (
        "the archive",
        "from pathlib import Path\nfrom interlingua.sessions.archive_index import Stamp\n"
        "from interlingua.sessions.archive_reading import read_file",
        ARCHIVE,
    ),
}


def measured(script: str, path: Path, name: str) -> tuple[float, float, int]:
    done = subprocess.run([sys.executable, "-c", script, str(path), name], check=True, capture_output=True, text=True)
    seconds, peak, count = done.stdout.split()
    return float(seconds), float(peak), int(count)


def converted(path: Path, out: Path, target: str, jobs: int) -> tuple[float, float]:
    """Wall seconds, and CPU seconds of all its processes."""
    command = [sys.executable, "-c", "from interlingua.cli import main; main()", "convert", str(path), "-t", target]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "-o", str(out), "-j", str(jobs)], check=True, stderr=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime


def scale(sizes: list[float]) -> None:
    """What a line costs in files of several sizes."""
    print(f"CPU µs a line, and peak MB of the process; load {os.getloadavg()[0]:.1f} at the start\n")
    print(f"| | by | {' | '.join(f'{size:g} MB' for size in sizes)} | last : first |")
    print(f"|---|---|{'--:|' * len(sizes)}--:|")
    for name, (by, setup, go) in SCALE.items():
        script = MEASURE.format(setup=setup + FIRST.format(go=go), work="count = go(path)")
        found = []
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"{name}.jsonl"
                lines = write(path, name, int(size * 1e6))
                seconds, peak, _ = measured(script, path, name)
                found.append((seconds / lines * 1e6, peak))
        cells = [f"{cost:.1f} µs, {peak:.0f} MB" for cost, peak in found]
        print(f"| {name} | {by} | {' | '.join(cells)} | {found[-1][0] / found[0][0]:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("megabytes", type=float, nargs="?", default=20)
    parser.add_argument("formats", nargs="*", metavar="FORMAT")
    parser.add_argument("--read", action="store_true", help="do not convert")
    parser.add_argument("--scale", type=float, nargs="*", metavar="MEGABYTES")
    asked = parser.parse_args()
    if asked.scale is not None:
        scale(asked.scale or [10, 100, 1000])
        return
    megabytes, reading, names = asked.megabytes, asked.read, asked.formats or list(FORMATS)
    if unknown := set(names) - FORMATS.keys():
        parser.error(f"unknown formats: {', '.join(sorted(unknown))}; known: {', '.join(FORMATS)}")
    print(f"{megabytes:g} MB of each; load {os.getloadavg()[0]:.1f} at the start.")
    print("CPU seconds for reading, wall seconds for converting (start included).\n")
    heads = ["bare MB/s", "read MB/s", "× bare", "µs a line", "peak MB"]
    heads += [] if reading else ["convert, 1 and 2 processes MB/s", "×", "CPU of 2 : 1"]
    print(f"| | {' | '.join(heads)} |")
    print(f"|---|{'--:|' * len(heads)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path, out = Path(folder) / f"{name}.jsonl", Path(folder) / "out.jsonl"
            lines = write(path, name, int(megabytes * 1e6))
            size = path.stat().st_size / 1e6
            rounds = [(measured(BARE, path, name), measured(READ, path, name)) for _ in range(ROUNDS)]
            bare, read = (median(one[at][0] for one in rounds) for at in (0, 1))
            share = median(one[0][0] / one[1][0] for one in rounds)
            cells = [f"{size / bare:.0f}", f"{size / read:.1f}", f"{share:.3f}", f"{read / lines * 1e6:.0f}"]
            cells.append(f"{max(one[1][1] for one in rounds):.0f}")
            if not reading and name not in SESSIONS - {"transcript", "openclaw"}:
                target = "transcript" if name in SESSIONS else "openai-completions"
                (one, once), (two, twice) = (converted(path, out, target, jobs) for jobs in (1, 2))
                cells += [f"{size / one:.1f}, {size / two:.1f}", f"{one / two:.2f}", f"{twice / once:.2f}"]
            cells += [""] * (len(heads) - len(cells))
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
            path.unlink()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nThe largest process took {peak:.0f} MB.")


if __name__ == "__main__":
    main()
