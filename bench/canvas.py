"""The canvas server beside LLM Canvas and bare FTS5, in one run.

Run with `.venv/bin/python bench/canvas.py [--mb 1024] [--commits 300] [--chars 100000] [--only NAME…]`; the peer is in
`interop/.envs/llm_canvas`, which `make bench` makes. Parts: commits, bytes, viewers, memory, search. Each server is a
process of its own; what is compared takes turns, so that both meet the same weather.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp

import interlingua as il
from interlingua.canvas.client import CanvasClient
from interlingua.serving.access import Access
from interlingua.sessions import Session, Store
from interlingua.sessions.files import FileStore
from interlingua.sessions.text_index import TextIndex
from interlingua.sessions.texts import Query
from sessions import session as write_session

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "interop"))
from serving import free_port, running  # noqa: E402

PEER = HERE.parent / "interop" / ".envs" / "llm_canvas" / "bin"
RESULTS = HERE / "results" / "canvas.md"
ROUNDS = 3
VIEWERS = 50
QUERIES = 200

# What the published client does; it commits, or lets one message grow, and prints the seconds that it took.
CLIENT = """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
from llm_canvas.canvas_client import CanvasClient
port, act, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
canvas = CanvasClient(server_port=int(port)).create_canvas(title="bench")
main = canvas.checkout("main")
print(canvas.canvas_id, flush=True)
sys.stdin.readline()
start = time.perf_counter()
if act == "commit":
    for number in range(count):
        main.commit_message({"role": "user", "content": f"message {number}"})
else:
    node, text = main.commit_message({"role": "assistant", "content": ""}), "word " * (size // 5)
    for number in range(1, count + 1):
        node["message"]["content"] = text[: number * size // count]
        main.update_message(node["id"], node)
print(time.perf_counter() - start, flush=True)
"""


class Row:
    """One line of the report: what was measured, ours, the peer's, and whether the target is met."""

    rows: list[tuple[str, str, str, str]] = []

    def __init__(self, what: str, ours: str, peer: str, target: str, met: bool) -> None:
        verdict = f"{target}: {'met' if met else 'MISSED'}"
        self.rows.append((what, ours, peer, verdict))
        print(f"{what:<60} {ours:>22} {peer:>22}   {verdict}", flush=True)

    @classmethod
    def write(cls, path: Path, what: str, load: float) -> None:
        """The table for docs/performance.md, with how busy the machine was."""
        lines = [f"| {what}, load {load:.1f} at the start | ours | peer | target |", "|---|--:|--:|---|"]
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cls.rows)]) + "\n")


# --- servers ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def ours(home: Path) -> Iterator[tuple[str, int, int]]:
    """Our server: its address, the port for the published client, and its process id."""
    port = free_port()
    program = Path(sys.executable).parent / "interlingua"
    command = [program, "canvas", "--no-open", "--port", "0", "--client-port", str(port), "--home", str(home)]
    with running(command, f"http://127.0.0.1:{port}/api/v1/health"):
        about = json.loads((home / "canvas" / "server.json").read_bytes())
        yield about["address"], port, about["pid"]


@contextlib.contextmanager
def theirs() -> Iterator[int]:
    port = free_port()
    with running([PEER / "llm-canvas", "server", "--port", str(port)], f"http://127.0.0.1:{port}/api/v1/health"):
        yield port


def published(port: int, act: str, count: int, size: int = 0) -> "subprocess.Popen[str]":
    arguments = [str(PEER / "python"), "-c", CLIENT, str(port), act, str(count), str(size)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def took(process: "subprocess.Popen[str]") -> float:
    """Lets a client begin, and gives the seconds that it took."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    seconds = float(process.stdout.readline())
    process.wait()
    return seconds


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# --- commits ---------------------------------------------------------------------------------------------------------


def commits(count: int) -> None:
    """Through the published client to both servers, and through ours."""
    rates: dict[str, list[float]] = {"theirs": [], "published": [], "ours": []}
    many = count * 20
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as (address, port, _), theirs() as other:
        for _ in range(ROUNDS):
            for name, where in (("theirs", other), ("published", port)):
                client = published(where, "commit", count)
                first_line(client)
                rates[name].append(count / took(client))
            with CanvasClient(address, home=folder) as own:
                main = own.create_canvas("bench").checkout("main")
                own.flush()
                start = time.perf_counter()
                for number in range(many):
                    main.commit_message({"role": "user", "content": f"message {number}"})
                assert own.flush(120) and not own.failures
                rates["ours"].append(many / (time.perf_counter() - start))
    best = {name: statistics.median(values) for name, values in rates.items()}
    peer = f"{best['theirs']:,.0f}/s"
    ratio = best["published"] / best["theirs"]
    Row("commits through the published client", f"{best['published']:,.0f}/s", peer, f"≥ 1× ({ratio:.1f}×)", ratio >= 1)
    ratio = best["ours"] / best["theirs"]
    Row("commits through our client", f"{best['ours']:,.0f}/s", peer, f"≥ 20× ({ratio:.0f}×)", ratio >= 20)


# --- bytes -----------------------------------------------------------------------------------------------------------


async def _their_bytes(port: int, size: int, chunks: int) -> int:
    """What a page of LLM Canvas gets for an answer that grows: each event, and the whole canvas after each."""
    client = published(port, "stream", chunks, size)
    canvas = await asyncio.to_thread(first_line, client)
    base, total, seen = f"http://127.0.0.1:{port}/api/v1", 0, 0
    async with aiohttp.ClientSession() as http, http.get(f"{base}/canvas/{canvas}/sse") as stream:
        done = asyncio.ensure_future(asyncio.to_thread(took, client))
        async for line in stream.content:
            total += len(line)
            if line.startswith(b"event: message_"):
                seen += 1
                async with http.get(f"{base}/canvas?canvas_id={canvas}") as response:
                    total += len(await response.read())
            if seen > chunks:
                break
        await done
    return total


async def _our_bytes(address: str, home: Path, size: int) -> int:
    """What a page of ours gets for an answer of this size, from the moment before it begins."""
    headers = {"Authorization": f"Bearer {Access(home / 'canvas').local_key}", "Content-Type": "application/json"}
    name = f"answer-{size}-{time.monotonic_ns()}"
    text = "word " * (size // 5)
    with Session.open(name, home=home) as session:
        session.append(il.UserMessage(content="Hello"))
        session.append(il.AssistantMessage(content="Hi", stop_reason="stop"))
    base, total = f"{address}/api/sessions/own~main~{name}", 0
    async with aiohttp.ClientSession(headers=headers) as http, http.get(f"{base}/events") as stream:
        await stream.content.readuntil(b"\n\n")
        body = json.dumps({"text": text, "models": ["debug/echo"]})
        async with http.post(f"{base}/runs", data=body) as response:
            assert response.status == 202, await response.text()
        async for line in stream.content:
            total += len(line)
            if line.startswith(b"data:") and b'"state":"done"' in line:
                break
    return total


def bytes_to_a_viewer(size: int) -> None:
    """Of a streamed answer: ours must grow with its text, and be at most three times it."""
    sizes = [size // 10, size]
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as (address, _, _), theirs() as other:
        own = [asyncio.run(_our_bytes(address, Path(folder), one)) for one in sizes]
        peer = [asyncio.run(_their_bytes(other, one, one // 250)) for one in sizes]
    for one, mine, other_bytes in zip(sizes, own, peer, strict=True):
        times = mine / one
        Row(
            f"bytes to a viewer, answer of {one:,}", f"{mine:,}", f"{other_bytes:,}", f"≤ 3× ({times:.2f}×)", times <= 3
        )
    growth = (own[1] / own[0]) / (sizes[1] / sizes[0])
    what = f"{peer[1] / peer[0]:.0f}× for 10× the text"
    Row("growth with the text", f"{own[1] / own[0]:.1f}× for 10×", what, "linear", growth < 1.3)


# --- viewers ---------------------------------------------------------------------------------------------------------


async def _viewing(address: str, home: Path, count: int) -> tuple[float, bool]:
    headers = {"Authorization": f"Bearer {Access(home / 'canvas').local_key}"}
    connector = aiohttp.TCPConnector(limit=0)
    with Session.open("watched", home=home, sync="never") as session:
        session.append(il.UserMessage(content="first"), id="first")
        async with (
            aiohttp.ClientSession(headers=headers, connector=connector) as http,
            contextlib.AsyncExitStack() as stack,
        ):
            address += "/api/sessions/own~main~watched/events"
            streams = [await stack.enter_async_context(http.get(address)) for _ in range(VIEWERS)]
            for stream in streams:
                await stream.content.readuntil(b"\n\n")
            awake = [asyncio.ensure_future(_rows(stream, count)) for stream in streams[1:]]  # the first one sleeps
            start = time.perf_counter()
            for number in range(count):
                session.append(il.UserMessage(content=f"message {number}"), id=f"m{number}")
                if number % 20 == 0:
                    await asyncio.sleep(0)
            seen = await asyncio.gather(*awake)
            seconds = time.perf_counter() - start
    return count * len(awake) / seconds, all(ids == [f"m{n}" for n in range(count)] for ids in seen)


async def _rows(stream: Any, count: int) -> list[str]:
    ids: list[str] = []
    async for line in stream.content:
        if line.startswith(b"data:") and b'"rows"' in line:
            ids += [row["id"] for row in json.loads(line[5:])["rows"]]
        if len(ids) >= count:
            break
    return ids


def viewers(count: int = 2000) -> None:
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as (address, _, _):
        rate, whole = asyncio.run(_viewing(address, Path(folder), count))
    Row(f"rows per second to {VIEWERS} viewers, one asleep", f"{rate:,.0f}/s", "–", "none lost", whole)


# --- memory ----------------------------------------------------------------------------------------------------------


def _private(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) // 1024


async def _look(address: str, home: Path, key: str) -> None:
    headers = {"Authorization": f"Bearer {Access(home / 'canvas').local_key}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        for path in ("tree?last=2000", "entries?last=50", "tree?limit=2000", "events"):
            async with http.get(f"{address}/api/sessions/{key}/{path}") as response:
                assert response.status == 200
                await (response.content.readuntil(b"\n\n") if path == "events" else response.read())


def memory(megabytes: int) -> None:
    """Private memory of the server with a large session open, beside an empty one; the index is off its way."""
    found = []
    for size in (0, megabytes << 20):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agents" / "main" / "sessions" / "big.jsonl"
            path.parent.mkdir(parents=True)
            write_session(path, max(size, 1))
            with ours(Path(folder)) as (address, _, pid):
                asyncio.run(_look(address, Path(folder), "own~main~big"))
                found.append(_private(pid))
    empty, large = found
    ratio = large / empty
    target = f"≤ 1.5× ({ratio:.2f}×)"
    Row(f"private memory, {megabytes:,} MB session open", f"{large:,} MB", f"{empty:,} MB empty", target, ratio <= 1.5)


# --- search ----------------------------------------------------------------------------------------------------------


def _texts(megabytes: int) -> Iterator[str]:
    chance = random.Random(7)
    vocabulary = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 10))) for _ in range(30_000)]
    weights = list(itertools.accumulate(1 / (rank + 5) for rank in range(len(vocabulary))))
    size = 0
    while size < megabytes << 20:
        text = " ".join(chance.choices(vocabulary, cum_weights=weights, k=300))
        size += len(text)
        yield text


def search(megabytes: int) -> None:
    """Indexing and asking beside an FTS5 table that is given the same texts."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        texts = list(_texts(megabytes))
        for start in range(0, len(texts), 2000):
            with Session.open(f"s{start}", home=home, sync="never") as session:
                for text in texts[start : start + 2000]:
                    session.append(il.UserMessage(content=text))
        size = sum(len(text.encode()) for text in texts)
        store: Store = FileStore(home)
        index = TextIndex(home / "ours.db", {"own": store})
        began = time.process_time()  # both work in this process alone, and others may use the machine
        index.follow()
        own_seconds = time.process_time() - began
        bare = sqlite3.connect(home / "bare.db")
        bare.execute("pragma journal_mode=wal")
        bare.execute("create virtual table texts using fts5(text)")
        began = time.process_time()
        for start in range(0, len(texts), 2000):
            bare.executemany("insert into texts values (?)", ((text,) for text in texts[start : start + 2000]))
            bare.commit()
        bare_seconds = time.process_time() - began
        speed = bare_seconds / own_seconds
        mine, peer = (f"{size / (1 << 20) / one:,.1f} MB/s" for one in (own_seconds, bare_seconds))
        Row(f"indexing {megabytes:,} MB beside bare FTS5", mine, peer, f"≥ 0.7× ({speed:.2f}×)", speed >= 0.7)
        share = sum(path.stat().st_size for path in home.glob("ours.db*")) / size
        Row("size of the index beside its texts", f"{share:.2f}×", "", "≤ 0.8×", share <= 0.8)
        chance = random.Random(3)
        queries = [text.split()[chance.randrange(300)] for text in chance.sample(texts, min(QUERIES, len(texts)))]

        def own_query(word: str) -> Any:
            return index.search(Query(text=word, limit=50))

        def bare_query(word: str) -> Any:
            asked = "from texts where texts match ?"
            count = bare.execute(f"select count(*) {asked}", (f'"{word}"',)).fetchone()
            shown = "select rowid, snippet(texts, 0, '', '', '…', 12)"
            return bare.execute(f"{shown} {asked} order by rowid desc limit 50", (f'"{word}"',)).fetchall(), count

        slow, fast = (_p95(ask, queries) for ask in (own_query, bare_query))
        ratio = slow / fast
        Row("p95 of a query", f"{slow * 1000:.1f} ms", f"{fast * 1000:.1f} ms", f"≤ 3× ({ratio:.1f}×)", ratio <= 3)
        index.close()
        bare.close()


def _p95(ask: Callable[[str], Any], queries: list[str]) -> float:
    times = []
    for word in queries:
        start = time.process_time()
        ask(word)
        times.append(time.process_time() - start)
    return sorted(times)[int(len(times) * 0.95)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--chars", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", default=["commits", "bytes", "viewers", "memory", "search"])
    asked = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "commits": lambda: commits(asked.commits),
        "bytes": lambda: bytes_to_a_viewer(asked.chars),
        "viewers": viewers,
        "memory": lambda: memory(asked.mb),
        "search": lambda: search(asked.mb),
    }
    load = os.getloadavg()[0]
    for name in asked.only:
        if name in ("commits", "bytes") and not (PEER / "python").exists():
            print(f"!!!! {PEER} is missing: {name} is not measured (make bench makes it)")
            continue
        parts[name]()
    Row.write(RESULTS, "the server", load)


if __name__ == "__main__":
    main()
