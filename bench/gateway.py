"""The gateway beside a bare aiohttp proxy, a bare-codec proxy and LiteLLM's proxy: plain calls and 100-event streams.

python bench/gateway.py                       all rows at concurrency 1, 32 and 128; about ten minutes
python bench/gateway.py --quick               fewer and shorter rounds; about two minutes
python bench/gateway.py --rows bare,same      some rows
python bench/gateway.py --kinds stream        plain calls or streams alone
python bench/gateway.py --write               no measuring: the tables again from the last results
GATEWAY_BENCH_PROFILE=FILE python bench/…     each server leaves its profile in FILE.NAME

Each server is a process with one worker in front of the same upstream, with keys, limits and ledger on where it has
them. Row by row, round after round, they take turns, so that all meet the same weather. CPU is the processor time of
the process that serves (the kernel's work for it included), which other programs on the machine disturb least. Shares
are of CPU and of calls per second, medians over the rounds' own shares: what is measured within seconds of each other
compares best. `all` adds the processes that it started: the recorder. Load generator, upstream, gateway and recorder
share the machine's cores: on two of them, a recorder also takes calls per second from the load generator. `added` is
what the first byte of a body takes beyond the upstream's own. In the rows `new`, `recording-new` and `recording-sqlite`
(sessions in a database instead of files) each call is a conversation of its own. The rows `workers-N` are `interlingua
serve --workers N`: compare their calls per second, as far as there are processors for all; they translate, before an
upstream that writes a stream in four pieces, so that on a small machine most of the work is the gateway's. Tables go to
`results/gateway.md`, from where `run.py --write-docs` takes them.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import platform
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import interlingua as il
import participants
from gateway_servers import HELD
from interlingua.gateway.exchange import ClientKey
from interlingua.gateway.keys import ClientKeys
from interlingua.values.messages import Message
from participants import HERE

RESULTS = HERE / "results" / "gateway.json"
TABLES = HERE / "results" / "gateway.md"
SERVERS = HERE / "gateway_servers.py"
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
ASK: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}
NUMBER = b"#########"  # in a request: the number of the call, where each is another
OPEN_STREAMS = 1000


class Row(NamedTuple):
    """One way to ask: which server, by which path, beside which row."""

    server: str
    path: str = ""
    beside: str = ""
    most: int = 1000  # callers at once
    is_new: bool = False  # each call is a conversation of its own; else all ask the same
    wire: str = ""  # instead of a path: what is asked, and where, is the wire's

    def asks(self, *, stream: bool) -> tuple[str, Any]:
        if not self.wire:
            return self.path, {**ASK, "stream": stream}
        wire = il.wire(self.wire)
        request = il.Request(
            model=il.ModelDescriptor(id="m", api=self.wire),
            context=il.Context(messages=(il.UserMessage(content="Hello"),)),
            options=il.Options(max_tokens=100, stream=stream),
        )
        return wire.http.base + wire.codec.path("m", stream), json.loads(wire.codec.encode_request(request).bytes())


ROWS = {
    "upstream": Row("upstream", MESSAGES),  # nobody between
    "bare": Row("bare", MESSAGES),
    "codec": Row("codec", CHAT, "bare"),
    "same": Row("gateway", MESSAGES, "bare"),
    "translated": Row("gateway", CHAT, "codec"),
    "new": Row("gateway", CHAT, "codec", is_new=True),
    "recording": Row("recording", CHAT, "translated"),
    "recording-new": Row("recording", CHAT, "new", is_new=True),
    "recording-sqlite": Row("recording-sqlite", CHAT, "new", is_new=True),
    "redis": Row("redis", CHAT, "translated"),
    "workers-1": Row("workers-1", CHAT),
    "workers-2": Row("workers-2", CHAT, "workers-1"),
    "litellm": Row("litellm", CHAT, "translated", 32),  # with more, its calls take half a minute
}
# The same wire on both sides, for the wires besides Anthropic's.
WIRES = {
    "chat": "openai-completions",
    "responses": "openai-responses",
    "google": "google-generative-ai",
    "bedrock": "bedrock-converse-stream",
    "ollama": "ollama-chat",
}
for _name, _wire in WIRES.items():
    ROWS[f"bare-{_name}"] = Row(f"bare@{_wire}", wire=_wire)
    ROWS[f"same-{_name}"] = Row(f"gateway@{_wire}", beside=f"bare-{_name}", wire=_wire)
ROWS["sglang"] = Row("sglang@openai-completions", beside="same-chat", wire="openai-completions")


# --- asking ----------------------------------------------------------------------------------------------------------


class Caller(asyncio.Protocol):
    """One connection that asks again and again. Hand-written: the caller must cost less than what it measures."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = bytearray()
        self._done: asyncio.Future[None] | None = None
        self._length: int | None = None
        self._body_at = 0
        self.first = 0.0  # byte of the body: some send the head before there is anything else

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    async def ask(self, number: int = 0) -> None:
        self._received.clear()
        self._length, self.first = None, 0.0
        self._done = asyncio.get_running_loop().create_future()
        self.transport.write(self._request.replace(NUMBER, b"%09d" % number) if number else self._request)
        await self._done

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        if self._length is None and (end := received.find(b"\r\n\r\n")) >= 0:
            head = bytes(received[:end]).lower()
            if not head.startswith(b"http/1.1 200"):
                raise RuntimeError(bytes(received[:2000]).decode())
            marker = head.find(b"content-length:")
            self._length = end + 4 + int(head[marker + 15 :].partition(b"\r\n")[0]) if marker >= 0 else 0
            self._body_at = end + 4
        if self._length is None or len(received) <= self._body_at:
            return
        if not self.first:
            self.first = time.perf_counter()
        ended = len(received) >= self._length if self._length else received.endswith(b"\r\n0\r\n\r\n")
        if ended and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error or ConnectionError(bytes(self._received[:2000]).decode() or "closed"))


async def open_streams(server: "Server", path: str, count: int) -> float:
    """Megabytes that so many streams take while they are open."""
    loop, before = asyncio.get_running_loop(), server.memory()
    body = {**ASK, "stream": True, "messages": [{"role": "user", "content": HELD}]}
    request = request_of(path, server.key, body)
    callers = [
        (await loop.create_connection(lambda: Caller(request), "127.0.0.1", server.port))[1] for _ in range(count)
    ]
    for caller in callers:
        caller.transport.write(request)
    async with asyncio.timeout(120):
        while not all(caller.first for caller in callers):
            await asyncio.sleep(0.05)
    took = server.memory() - before
    for caller in callers:
        caller.transport.abort()
    return took


def large(path: str) -> Any:
    """A request of 201 messages with tools, calls and results, about 95 KB."""
    messages: list[Message] = []
    for at in range(50):
        call = il.ToolCall(id=f"call_{at}", name="read_file", arguments={"path": f"src/file{at}.py", "limit": 100})
        messages += [
            il.UserMessage(content=f"Please look at file {at} and repair what is wrong with it. " * 3),
            il.AssistantMessage(content=(il.TextBlock(text="I look at it now. " * 5), call), stop_reason="toolUse"),
            il.ToolResultMessage(tool_call_id=call.id, tool_name="read_file", content="x = 1\n" * 180, is_error=False),
            il.AssistantMessage(content=(il.TextBlock(text="Done: it was off by one. " * 4),), stop_reason="stop"),
        ]
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}}
    tools = tuple(
        il.ToolSpec(name=name, description="Does what its name says. " * 5, input_schema=schema)
        for name in ("read_file", *(f"tool_{at}" for at in range(15)))
    )
    context = il.Context(
        system="You repair programs. " * 50, messages=(*messages, il.UserMessage(content="?")), tools=tools
    )
    api = "anthropic-messages" if path == MESSAGES else "openai-completions"
    request = il.Request(model=il.ModelDescriptor(id="m", api=api), context=context, options=il.Options(max_tokens=100))
    return json.loads(il.wire(api).codec.encode_request(request).bytes())


def bare_json(body: Any, seconds: float = 0.2) -> float:
    """Milliseconds to decode and encode a body with the standard library."""
    data, times, end = json.dumps(body), [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.thread_time()
        json.dumps(json.loads(data)).encode()
        times.append((time.thread_time() - start) * 1000)
    return statistics.median(times)


async def large_beside_json(server: "Server", path: str, rounds: int, seconds: float) -> tuple[float, float]:
    """CPU milliseconds of a large request, and of bare JSON: medians over rounds that alternate between the two.

    Bare JSON is measured before and after each round of requests: the clock of a busy machine changes within seconds.
    """
    body, requests, bare = large(path), [], []
    before = bare_json(body)
    for _ in range(rounds):
        cpu = (await measure(server, path, body, 4, seconds)).cpu
        after = bare_json(body)
        requests.append(cpu / ((before + after) / 2))
        bare.append(after)
        before = after
    return statistics.median(requests) * statistics.median(bare), statistics.median(bare)


def request_of(path: str, key: str, body: Any) -> bytes:
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\n"
    )
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


class Measured(NamedTuple):
    calls: int
    seconds: float
    cpu: float  # milliseconds a call
    all_cpu: float  # with the processes that it started
    latencies: list[float]  # milliseconds
    firsts: list[float]


_numbers = itertools.count(1)


async def measure(
    server: "Server", path: str, body: Any, concurrency: int, seconds: float, *, is_new: bool = False
) -> Measured:
    if is_new:
        body = {**body, "messages": [{"role": "user", "content": f"Hello {NUMBER.decode()}"}]}
    loop = asyncio.get_running_loop()
    request = request_of(path, server.key, body)
    callers = [
        (await loop.create_connection(lambda: Caller(request), "127.0.0.1", server.port))[1] for _ in range(concurrency)
    ]
    latencies: list[float] = []
    firsts: list[float] = []

    async def work(caller: Caller, end: float) -> None:
        while (start := time.perf_counter()) < end:
            await caller.ask(next(_numbers) if is_new else 0)
            latencies.append((time.perf_counter() - start) * 1000)
            firsts.append((caller.first - start) * 1000)

    await asyncio.gather(*(work(caller, time.perf_counter() + seconds / 5) for caller in callers))  # warm
    latencies.clear()
    firsts.clear()
    before, all_before, start = server.cpu(), server.cpu(alone=False), time.perf_counter()
    await asyncio.gather(*(work(caller, start + seconds) for caller in callers))
    took, used, all_used = time.perf_counter() - start, server.cpu() - before, server.cpu(alone=False) - all_before
    for caller in callers:
        caller.transport.close()
    calls = max(1, len(latencies))
    return Measured(len(latencies), took, used * 1000 / calls, all_used * 1000 / calls, latencies, firsts)


# --- servers ---------------------------------------------------------------------------------------------------------


class Server:
    """A process that listens."""

    def __init__(self, command: list[str], port: int, key: str = "", env: dict[str, str] | None = None) -> None:
        self.port, self.key = port, key
        self._process = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL)

    def _pids(self) -> list[int]:
        """The process and its children."""
        found = [self._process.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
        return found

    def cpu(self, *, alone: bool = True) -> float:
        """Seconds of processor time so far, of the process alone or with its children; from nanoseconds."""
        total = 0.0
        for pid in self._pids()[: 1 if alone else None]:
            for task in Path(f"/proc/{pid}/task").iterdir():
                total += int((task / "schedstat").read_text().split()[0]) / 1e9
        return total

    def memory(self) -> float:
        """Megabytes that are its own."""
        total = 0
        for pid in self._pids():
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Private_"):
                    total += int(line.split()[1])
        return total / 1024

    async def ready(self, seconds: float = 120.0) -> None:
        async with asyncio.timeout(seconds):
            while True:
                if self._process.poll() is not None:
                    raise RuntimeError(f"{self._process.args!r} ended with {self._process.returncode}")
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.1)
                else:
                    writer.close()
                    await asyncio.sleep(0.1)
                    if self._process.poll() is None:  # else somebody else has taken its port
                        return

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            self._process.kill()
            self._process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Servers:
    """Started on first use, all in front of one upstream."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Server] = {}

    async def get(self, name: str) -> Server:
        if name not in self._running:
            port = free_port()
            kind, (_, at, wire) = re.split("[-@]", name)[0], name.partition("@")
            upstream = "upstream-quarters" if kind == "workers" else f"upstream{at}{wire}"
            behind = 0 if kind == "upstream" else (await self.get(upstream)).port
            others = {"litellm": self._litellm, "sglang": self._sglang, "workers": self._workers}
            start = others.get(kind, self._ours)
            self._running[name] = server = start(name, port, behind)
            await server.ready()
            key = self._folder / f"{name}.key"
            if key.exists():
                server.key = key.read_text()
        return self._running[name]

    def _ours(self, name: str, port: int, behind: int) -> Server:
        env = {"GATEWAY_BENCH_KEY": str(self._folder / f"{name}.key")}
        if name == "redis":
            at = free_port()
            command = ["redis-server", "--port", str(at), "--save", "", "--appendonly", "no"]
            self._running["redis-server"] = Server(command, at)
            env["GATEWAY_BENCH_REDIS"] = f"redis://127.0.0.1:{at}"
        return Server([sys.executable, str(SERVERS), name, str(port), str(behind)], port, env=env)

    def _workers(self, name: str, port: int, behind: int) -> Server:
        home = self._folder / name
        config = self._folder / f"{name}.toml"
        config.write_text(
            f'[providers.up]\napi = "anthropic-messages"\nbase_url = "http://127.0.0.1:{behind}"\n'
            'api_keys = ["env:UPSTREAM_KEY"]\n[aliases]\nm = "up/m"\n'
        )
        # As in `gateway_servers.py`: limits that are counted and never reached.
        limited = ClientKey(name="bench", requests_per_minute=10**9, tokens_per_minute=10**12, concurrency=10**6)
        (self._folder / f"{name}.key").write_text(ClientKeys(home / "gateway" / "keys.json").add(limited))
        command = [sys.executable, "-m", "interlingua", "serve", "run", "--config", str(config), "--home", str(home)]
        count = name.removeprefix("workers-")
        return Server([*command, "--port", str(port), "--workers", count], port, env={"UPSTREAM_KEY": "key"})

    def _litellm(self, _: str, port: int, behind: int) -> Server:
        peer = participants.Participant("litellm-proxy", "", "")
        participants.prepare(peer, HERE.parent / "interop" / "litellm.lock")
        parameters = {"model": "anthropic/m", "api_key": "none", "api_base": f"http://127.0.0.1:{behind}"}
        config = {
            "model_list": [{"model_name": "m", "litellm_params": parameters}],
            "general_settings": {"master_key": "sk-bench"},
            "litellm_settings": {"num_retries": 0, "telemetry": False},
        }
        path = self._folder / "litellm.yaml"
        path.write_text(json.dumps(config))  # JSON is YAML
        command = [str(peer.python.parent / "litellm"), "--config", str(path), "--host", "127.0.0.1"]
        env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PATH": f"{peer.python.parent}:{os.environ['PATH']}"}
        return Server([*command, "--port", str(port), "--num_workers", "1"], port, "sk-bench", env)

    def _sglang(self, _: str, port: int, behind: int) -> Server:
        peer = participants.Participant("sglang-router", "", "")
        participants.prepare(peer)
        command = [str(peer.python.parent / "sglang-router"), "launch", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--backend", "openai", "--worker-urls", f"http://127.0.0.1:{behind}", "--policy", "round_robin"]
        command += ["--history-backend", "none", "--disable-health-check", "--prometheus-port", str(free_port())]
        return Server(command, port)

    def stop(self) -> None:
        for server in reversed(self._running.values()):
            server.stop()


@contextlib.contextmanager
def servers() -> Iterator[Servers]:
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
        found = Servers(Path(folder))
        try:
            yield found
        finally:
            found.stop()


# --- the run ---------------------------------------------------------------------------------------------------------


async def compare(rows: list[str], levels: list[int], kinds: list[str], rounds: int, seconds: float) -> dict[str, Any]:
    results: dict[str, Any] = {"load": os.getloadavg()[0], "python": platform.python_version(), "cells": {}}
    with servers() as running:
        for row in rows:
            await measure(await running.get(ROWS[row].server), *ROWS[row].asks(stream=False), 4, 0.3)
        for concurrency in levels:
            for kind in kinds:
                stream = kind == "stream"
                found: dict[str, list[Measured]] = {row: [] for row in rows}
                for _ in range(rounds):
                    for row in rows:
                        if concurrency > ROWS[row].most:
                            continue
                        server = await running.get(ROWS[row].server)
                        asks = ROWS[row].asks(stream=stream)
                        found[row].append(await measure(server, *asks, concurrency, seconds, is_new=ROWS[row].is_new))
                for row, measured in found.items():
                    if not measured:
                        continue
                    cell = _cell(measured)
                    results["cells"][f"{row} {kind} {concurrency}"] = cell
                    shown = {name: value for name, value in cell.items() if name != "rounds"}
                    print(f"{row:12}{kind:8}{concurrency:5}  {shown}", file=sys.stderr, flush=True)
        results["memory"] = {row: (await running.get(ROWS[row].server)).memory() for row in rows}
        for row in rows:
            server, path = await running.get(ROWS[row].server), ROWS[row].path
            if row in ("bare", "same", "translated"):
                results.setdefault("held", {})[row] = await open_streams(server, path, OPEN_STREAMS)
            if row in ("same", "translated"):
                times = await large_beside_json(server, path, max(5, rounds), seconds / 2)
                results.setdefault("large", {})[row] = times
    return results


def _cell(measured: list[Measured]) -> dict[str, Any]:
    latencies = sorted(one for each in measured for one in each.latencies)
    firsts = sorted(one for each in measured for one in each.firsts)
    return {
        "rate": round(statistics.median(each.calls / each.seconds for each in measured), 1),
        "cpu": round(statistics.median(each.cpu for each in measured), 4),
        "all": round(statistics.median(each.all_cpu for each in measured), 4),
        "rounds": [
            {"cpu": 1 / each.cpu, "all": 1 / each.all_cpu, "rate": each.calls / each.seconds} for each in measured
        ],
        "p50": round(latencies[len(latencies) // 2], 2),
        "p99": round(latencies[len(latencies) * 99 // 100], 2),
        "first": round(firsts[len(firsts) // 2], 2),
    }


def _share(cell: dict[str, Any], beside: dict[str, Any], by: str) -> float:
    """The median of the rounds' shares."""
    return statistics.median(one[by] / other[by] for one, other in zip(cell["rounds"], beside["rounds"], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--concurrency", default="1,32,128")
    parser.add_argument("--kinds", default="plain,stream")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    rows, levels = asked.rows.split(","), [int(one) for one in asked.concurrency.split(",")]
    kinds = asked.kinds.split(",")
    rounds, seconds = asked.rounds or (3 if asked.quick else 5), asked.seconds or (0.7 if asked.quick else 2.0)
    if not asked.write:
        results = asyncio.run(compare(rows, levels, kinds, rounds, seconds))
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1))
    TABLES.write_text(tables(json.loads(RESULTS.read_text())))
    print(TABLES.read_text())


def tables(results: dict[str, Any]) -> str:
    """The page: a table for each way to ask, and what each server took of the memory."""
    cells = results["cells"]
    lines = []
    for kind in ("plain", "stream"):
        lines += [f"**{'Streams of 100 events' if kind == 'stream' else 'Plain calls'}**", ""]
        columns = ["row", "at once", "calls/s", "CPU ms a call", "share: CPU, calls/s", "all", "p50 ms", "p99 ms"]
        lines += [f"| {' | '.join((*columns, 'first byte ms', 'added'))} |"]
        lines += ["|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
        for key, cell in cells.items():
            row, of, level = key.split()
            if of != kind:
                continue
            beside = cells.get(f"{ROWS[row].beside} {kind} {level}")
            by = "all" if row.startswith("workers") else "cpu"  # the first process of several serves nothing
            share = f"{_share(cell, beside, by):.0%}, {_share(cell, beside, 'rate'):.0%}" if beside else ""
            share += f" of {ROWS[row].beside}" if beside else ""
            extra = f"{cell['all']:.3f}" if cell["all"] > cell["cpu"] * 1.01 else ""
            numbers = [f"{cell['rate']:.0f}", f"{cell['cpu']:.3f}", share, extra]
            numbers += [f"{cell[name]:.2f}" for name in ("p50", "p99", "first")]
            direct = cells.get(f"upstream {kind} {level}")
            numbers += [f"{cell['first'] - direct['first']:.2f}" if direct and row != "upstream" else ""]
            lines += [f"| {row} | {level} | {' | '.join(numbers)} |"]
        lines += [""]
    memory = ", ".join(f"{row} {size:.0f}" for row, size in results["memory"].items())
    for row, (cpu, bare) in results.get("large", {}).items():
        lines += [
            f"- A request of 201 messages, `{row}`: {cpu:.1f} ms, {cpu / bare:.1f} x `json.loads` and `json.dumps`."
        ]
    for row, size in results.get("held", {}).items():
        lines += [f"- {OPEN_STREAMS:,} open streams, `{row}`: {size:.0f} MB more."]
    lines += [f"- Memory after the run, in MB: {memory}. Load of the machine at the start: {results['load']:.1f}.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
