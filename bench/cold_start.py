"""How fast the command line starts, beside `llm` in the same run; and whether 10,000 logged runs slow it down.

`run` is timed to the first byte of its request at a local server, the rest to its end. Rounds are interleaved, medians
compared. The exit code is 1 if a limit is missed.

    python bench/cold_start.py [--rounds N] [--runs N]
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OURS = Path(sys.executable).parent / "il"
THEIRS = ROOT / "interop" / ".envs" / "llm" / "bin" / "llm"
REFUSED = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
)


class FirstByte:
    """A server that notes when the first byte of a request comes, and refuses it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self.at: float | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection, contextlib.suppress(OSError):
                if connection.recv(1) and self.at is None:
                    self.at = time.perf_counter()
                connection.settimeout(0.5)
                with contextlib.suppress(TimeoutError):
                    while connection.recv(65536):
                        pass
                connection.sendall(REFUSED)


def to_the_end(command: list[str], env: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return time.perf_counter() - began


def to_the_first_byte(server: FirstByte, command: list[str], env: dict[str, str]) -> float:
    server.at = None
    began = time.perf_counter()
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if server.at is None:
        sys.exit(f"{command[0]} sent nothing: {done.stderr.decode()[-1000:]}")
    return server.at - began


def medians(rows: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Of interleaved rounds; one before them fills the caches."""
    found: dict[str, list[float]] = {name: [] for name in rows}
    for turn in range(rounds + 1):
        for name, measure in rows.items():
            seconds = measure()
            if turn:
                found[name].append(seconds)
    return {name: statistics.median(values) for name, values in found.items()}


@contextlib.contextmanager
def homes(server: FirstByte) -> Iterator[tuple[Path, dict[str, str]]]:
    with tempfile.TemporaryDirectory() as scratch:
        ours, theirs = Path(scratch) / "il", Path(scratch) / "llm"
        for home in (ours, theirs):
            home.mkdir()
        (ours / "models.toml").write_text(
            f'[aliases]\nm = "local/m"\n[providers.local]\nlabel = "Local"\napi = "openai-completions"\n'
            f'base_url = "{server.url}"\nkeyless = true\n'
        )
        model = {"model_id": "m", "model_name": "m", "api_base": server.url}
        (theirs / "extra-openai-models.yaml").write_text(json.dumps([model]))
        env = {**os.environ, "INTERLINGUA_HOME": str(ours), "LLM_USER_PATH": str(theirs)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # both as they are installed: compiled by the first round
        yield ours, env


def fill(home: Path, count: int) -> None:
    """Writes runs into the log, as `run` writes them."""
    folder = home / "agents" / "run" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    now = int(time.time() * 1000)
    usage = {"input": 10, "output": 20, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 30, "cost": {"total": 0.001}}
    for number in range(count):
        at, id = now - (count - number) * 60_000, str(uuid.uuid4())
        question = {"role": "user", "content": f"Question {number} about engines", "timestamp": at}
        answer = {"role": "assistant", "content": [{"type": "text", "text": f"Answer {number}. " * 20}], "usage": usage}
        origin = {"api": "openai-completions", "provider": "local", "model": "m", "stopReason": "stop"}
        lines: list[dict[str, Any]] = [
            {"role": "session", "version": 1, "id": id, "createdAt": at, "agentId": "run"},
            {**question, "id": "a", "parentId": None},
            {**answer, **origin, "timestamp": at + 1000, "id": "b", "parentId": "a"},
        ]
        path = folder / f"{id}.jsonl"
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        os.utime(path, (at / 1000, at / 1000))


def _many(name: str) -> str:
    return f"{name}, many runs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runs", type=int, default=10_000)
    given = parser.parse_args()
    if not THEIRS.exists():
        sys.exit("interop/.envs/llm is missing: run `make interop/.envs/llm/ready`")
    server = FirstByte()
    ours, theirs = str(OURS), str(THEIRS)
    with homes(server) as (few_home, env), homes(server) as (many_home, many_env):
        fill(few_home, 1)
        fill(many_home, given.runs)
        logs, search = [ours, "logs", "-n", "3"], [ours, "logs", "search", "engines", "-n", "3"]
        to_the_end(search, many_env)  # builds the catalogue and the index once
        # A continued run is timed to its request; it fails there, so the log has one message more each time.
        again = [ours, "run", "-c", "-q", "Hi", "-m", "m"]

        def kept(env: dict[str, str]) -> dict[str, Callable[[], float]]:
            return {
                "il logs": lambda: to_the_end(logs, env),
                "il logs search": lambda: to_the_end(search, env),
                "il run -c": lambda: to_the_first_byte(server, again, env),
            }

        rows: dict[str, Callable[[], float]] = {
            "il --help": lambda: to_the_end([ours, "--help"], env),
            "llm --help": lambda: to_the_end([theirs, "--help"], env),
            "llm logs": lambda: to_the_end([theirs, "logs"], env),
            "il run": lambda: to_the_first_byte(server, [ours, "run", "-q", "-m", "m", "Hi"], env),
            "llm run": lambda: to_the_first_byte(server, [theirs, "-m", "m", "Hi"], env),
        }
        names = tuple(kept(env))
        for name, few_row, many_row in zip(names, kept(env).values(), kept(many_env).values(), strict=True):
            rows[name], rows[_many(name)] = few_row, many_row
        found = medians(rows, given.rounds)
    limits = [
        ("il --help / llm --help", found["il --help"] / found["llm --help"], 1 / 3),
        ("il logs / llm logs", found["il logs"] / found["llm logs"], 1 / 3),
        ("il run / llm, to the first byte of the request", found["il run"] / found["llm run"], 1 / 2),
        *((f"{name}, {given.runs:,} runs / few", found[_many(name)] / found[name], 2.0) for name in names),
    ]
    for name, seconds in found.items():
        print(f"{name:32} {seconds * 1000:7.0f} ms")
    for name, ratio, limit in limits:
        print(f"{'ok  ' if ratio <= limit else 'MISS'} {name}: {ratio:.2f} (at most {limit:.2f})")
    sys.exit(any(ratio > limit for _, ratio, limit in limits))


if __name__ == "__main__":
    main()
