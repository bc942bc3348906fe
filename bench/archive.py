"""The archive beside bare FTS5: indexing made histories, parsing included, and searching them.

Run with `.venv/bin/python bench/archive.py [megabytes] [kind …]`; 1,000 by default, of all kinds. The histories are
sessions of Claude Code, Codex and OpenClaw of several sizes and ChatGPT exports, plain and zipped, indexed by
`interlingua archive add`, the start of the program included. Bare FTS5 is one table that is given the same texts,
already parsed. Times are those of the processor, since others may use the machine.
"""

import json
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from interlingua.sessions.archive import Archive
from interlingua.sessions.archive_index import Stamp
from interlingua.sessions.archive_reading import read_file

RESULTS = Path(__file__).parent / "results" / "archive.md"
QUERIES = 200
BATCH = 2000  # rows in one transaction of the bare table
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "is", "ol")]


def vocabulary(chance: random.Random) -> list[str]:
    return ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(40_000)]


def text(chance: random.Random, terms: list[str], size: int) -> str:
    """Words by Zipf's law, about so many characters."""
    count = max(1, size // 7)
    return " ".join(terms[min(int(chance.paretovariate(0.6)), len(terms)) - 1] for _ in range(count))


def claude_lines(chance: random.Random, terms: list[str], turns: int) -> Iterator[dict[str, Any]]:
    parent = None
    for turn in range(turns):
        session = {"sessionId": "s", "cwd": f"/home/me/project{chance.randrange(20)}", "version": "2.1.0"}
        at = f"2026-0{chance.randint(1, 9)}-1{chance.randint(0, 9)}T10:00:00.000Z"
        call = {"type": "tool_use", "id": f"c{turn}", "name": "Bash", "input": {"command": text(chance, terms, 80)}}
        answer = {
            "id": f"msg_{chance.getrandbits(60):x}", "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": text(chance, terms, 400)}, call], "stop_reason": "tool_use",
            "usage": {"input_tokens": 900, "output_tokens": 90, "cache_read_input_tokens": 5000},
        }  # fmt: skip
        output = text(chance, terms, chance.choice((300, 1000, 6000)))
        block = {"type": "tool_result", "tool_use_id": f"c{turn}", "content": output}
        for kind, message, more in (
            ("user", {"role": "user", "content": text(chance, terms, 200)}, {}),
            ("assistant", answer, {}),
            ("user", {"role": "user", "content": [block]}, {"toolUseResult": {"stdout": output[:400], "stderr": ""}}),
        ):
            id = f"{chance.getrandbits(100):x}"
            yield {
                "type": kind,
                "message": message,
                "uuid": id,
                "parentUuid": parent,
                "timestamp": at,
                **session,
                **more,
            }
            parent = id


def codex_lines(chance: random.Random, terms: list[str], turns: int) -> Iterator[dict[str, Any]]:
    def line(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-05-05T10:00:00.000Z", "type": kind, "payload": payload}

    yield line("session_meta", id=f"{chance.getrandbits(60):x}", cwd="/home/me/pond")
    yield line("turn_context", model="gpt-5")
    for turn in range(turns):
        asked, answer = text(chance, terms, 200), text(chance, terms, 500)
        yield line("response_item", type="message", role="user", content=[{"type": "input_text", "text": asked}])
        yield line("response_item", type="message", role="assistant", content=[{"type": "output_text", "text": answer}])
        arguments = json.dumps({"command": text(chance, terms, 80)})
        yield line("response_item", type="function_call", name="shell", call_id=f"c{turn}", arguments=arguments)
        output = text(chance, terms, chance.choice((300, 1000, 6000)))
        yield line("response_item", type="function_call_output", call_id=f"c{turn}", output=output)
        spent = {"input_tokens": 900 * (turn + 1), "cached_input_tokens": 0, "output_tokens": 90 * (turn + 1)}
        last = {"input_tokens": 900, "cached_input_tokens": 0, "output_tokens": 90}
        yield line("event_msg", type="token_count", info={"total_token_usage": spent, "last_token_usage": last})


def openclaw_lines(chance: random.Random, terms: list[str], turns: int) -> Iterator[dict[str, Any]]:
    yield {"type": "session", "version": 3, "id": f"{chance.getrandbits(60):x}", "cwd": "/home/me/pond"}
    parent = None
    for turn in range(turns):
        call = {"type": "toolCall", "id": f"c{turn}", "name": "exec", "arguments": {"command": text(chance, terms, 80)}}
        answer = {
            "role": "assistant", "content": [{"type": "text", "text": text(chance, terms, 400)}, call],
            "api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5",
            "usage": {"input": 900, "output": 90, "cacheRead": 5000, "cacheWrite": 0, "totalTokens": 5990},
            "stopReason": "toolUse", "timestamp": 1_767_000_000_000 + turn,
        }  # fmt: skip
        output = [{"type": "text", "text": text(chance, terms, chance.choice((300, 1000, 6000)))}]
        for message in (
            {"role": "user", "content": text(chance, terms, 200), "timestamp": 1_767_000_000_000 + turn},
            answer,
            {"role": "toolResult", "toolCallId": f"c{turn}", "toolName": "exec", "content": output, "isError": False},
        ):
            id = f"{chance.getrandbits(32):08x}"
            yield {"type": "message", "id": id, "parentId": parent, "timestamp": "2026-05-05T10:00:00.000Z"} | {
                "message": message
            }
            parent = id


def chatgpt_conversation(chance: random.Random, terms: list[str], turns: int) -> dict[str, Any]:
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    parent = "root"
    for turn in range(2 * turns):
        id, role = f"{chance.getrandbits(100):x}", ("user", "assistant")[turn % 2]
        content = {"content_type": "text", "parts": [text(chance, terms, (200, 1500)[turn % 2])]}
        message = {
            "id": id, "author": {"role": role}, "create_time": 1_767_000_000.5 + turn, "content": content,
            "recipient": "all", "metadata": {"model_slug": "gpt-5"} if turn % 2 else {},
        }  # fmt: skip
        mapping[parent]["children"].append(id)
        mapping[id] = {"id": id, "message": message, "parent": parent, "children": []}
        parent = id
    title = text(chance, terms, 30)
    return {"title": title, "create_time": 1_767_000_000.5, "mapping": mapping, "current_node": parent}


def session(lines: Callable[..., Iterator[dict[str, Any]]]) -> Callable[..., None]:
    """Writes a session of lines."""

    def write(path: Path, chance: random.Random, terms: list[str], _: int) -> None:
        turns = chance.choice((5, 20, 100, 400, 2000))
        with path.with_suffix(".jsonl").open("w") as stream:
            stream.writelines(json.dumps(line) + "\n" for line in lines(chance, terms, turns))

    return write


def export(path: Path, chance: random.Random, terms: list[str], size: int) -> None:
    """Writes an export of about this size."""
    with path.with_suffix(".json").open("w") as stream:
        stream.write("[")
        while stream.tell() < size:
            stream.write(",\n" if stream.tell() > 1 else "")
            stream.write(json.dumps(chatgpt_conversation(chance, terms, chance.choice((2, 10, 100)))))
        stream.write("]")


def zipped(path: Path, chance: random.Random, terms: list[str], size: int) -> None:
    """Writes an export of about this size in a zip."""
    export(path, chance, terms, size)
    made = path.with_suffix(".json")
    with zipfile.ZipFile(path.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(made, "conversations.json")
    made.unlink()


KINDS: dict[str, Callable[..., None]] = {
    "claude-code": session(claude_lines),
    "codex-cli": session(codex_lines),
    "openclaw": session(openclaw_lines),
    "chatgpt-export": export,
    "chatgpt-zip": zipped,
}


def make(root: Path, megabytes: int, kinds: Sequence[str]) -> int:
    """Writes histories of about this size, as much of each kind (an export is one file); returns bytes, unpacked."""
    chance = random.Random(1)
    terms = vocabulary(chance)
    each = (megabytes << 20) // len(kinds)
    total = 0
    for kind in kinds:
        size = number = 0
        while size < each:
            folder = root / kind / f"{number // 200}"
            folder.mkdir(parents=True, exist_ok=True)
            KINDS[kind](folder / f"s{number}", chance, terms, each)
            (path,) = folder.glob(f"s{number}.*")
            size += _unpacked(path)
            number += 1
        total += size
    return total


def _unpacked(path: Path) -> int:
    if path.suffix != ".zip":
        return path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        return sum(info.file_size for info in archive.infolist())


def index(root: Path, home: Path) -> tuple[float, float]:
    """Runs `interlingua archive add`; returns its processor time in seconds and its peak of memory in MB."""
    command = [sys.executable, "-c", "from interlingua.cli import main; main()", "archive", "add", str(root)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "--home", str(home)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1024


def texts_of(root: Path) -> Iterator[str]:
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        for parts in read_file(path, None, Stamp.of(path)):
            for part in parts.parts:
                yield from (one.text for one in part.texts)


def bare(root: Path, place: Path) -> tuple[float, int]:
    """Inserts the same texts into one FTS5 table; returns the processor time of that alone, and the bytes of text."""
    database = sqlite3.connect(place)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    spent, size, waiting = 0.0, 0, []
    for one in texts_of(root):
        waiting.append((one,))
        size += len(one.encode())
        if len(waiting) == BATCH:
            spent += _insert(database, waiting)
            waiting = []
    spent += _insert(database, waiting)
    database.close()
    return spent, size


def _insert(database: sqlite3.Connection, rows: list[tuple[str]]) -> float:
    began = time.process_time()
    database.executemany("INSERT INTO texts VALUES (?)", rows)
    database.commit()
    return time.process_time() - began


def p95(query: Callable[[str], Any], queries: list[str]) -> float:
    """Milliseconds of processor time."""
    times = []
    for word in queries:
        began = time.process_time()
        query(word)
        times.append((time.process_time() - began) * 1000)
    return statistics.quantiles(times, n=20)[-1]


def searching(home: Path, place: Path, root: Path) -> tuple[float, float]:
    chance = random.Random(3)
    terms = [
        one.split()[chance.randrange(len(one.split()))] for one, _ in zip(texts_of(root), range(4000), strict=False)
    ]
    queries = [" ".join(chance.sample(terms, chance.choice((1, 1, 2)))) for _ in range(QUERIES)]
    database = sqlite3.connect(place)

    def plain(text: str) -> Any:
        match = " ".join(f'"{word}"' for word in text.split())
        hits = database.execute(
            "SELECT rowid, snippet(texts, 0, '[', ']', '…', 20) FROM texts WHERE texts MATCH ?"
            " ORDER BY rowid DESC LIMIT 20",
            (match,),
        ).fetchall()
        total = database.execute("SELECT COUNT(*) FROM texts WHERE texts MATCH ?", (match,)).fetchone()
        return hits, total

    with Archive(home) as archive:

        def ours(text: str) -> Any:
            return archive.search(archive.query(text, limit=20))

        for warm in queries[:20]:
            plain(warm)
            ours(warm)
        return p95(ours, queries), p95(plain, queries)


def main(megabytes: int, kinds: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, home, place = Path(folder) / "histories", Path(folder) / "home", Path(folder) / "bare.db"
        size = make(root, megabytes, kinds)
        own, memory = index(root, home)
        peer, characters = bare(root, place)
        found, plain = searching(home, place, root)
        stored = sum(path.stat().st_size for path in (home / "canvas").glob("search.db*"))
    megabyte = 1 << 20
    speeds = [f"{characters / megabyte / seconds:,.1f} MB/s" for seconds in (own, peer)]
    rows = [
        ("files", f"{size / megabyte:,.0f} MB", f"{characters / megabyte:,.0f} MB of text", ""),
        ("indexing, parsing included", *speeds, f"{peer / own:.2f}× (≥ 0.3×)"),
        ("p95 of a search with 20 snippets", f"{found:.2f} ms", f"{plain:.2f} ms", f"{found / plain:.2f}× (≤ 3×)"),
        ("peak memory", f"{memory:,.0f} MB", "", "≤ 200 MB"),
        ("index on disk", f"{stored / megabyte:,.0f} MB", "", f"{stored / size:.2f}× of the files"),
    ]
    lines = ["| | ours | bare FTS5 | |", "| --- | --- | --- | --- |", *("| " + " | ".join(row) + " |" for row in rows)]
    print("\n".join(lines))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, sys.argv[2:] or list(KINDS))
