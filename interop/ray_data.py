"""A corpus converted by Ray Data on this machine: the same function that runs here runs on a cluster.

`ray_data.py [GIGABYTES]` makes Parquet files of that size, of conversations with calls and results and a torn row in
each file, converts them and says how long that took and what the largest process needed. `make interop` runs 0.05 in an
environment of its own.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray

from interlingua.arrow import convert_batch

PART = 64_000_000  # bytes of JSON in a file
BATCH = 2000
COLUMNS = ["conversation_converted", "conversation_error"]
RESULT = "let x = 1; // words\n" * 60
ANSWER = "The file declares x, and nothing else uses it; so it can go. " * 8
TOOL = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {}}}


def body(at: int) -> dict[str, Any]:
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "read", "input": {"path": "main.ts"}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": RESULT}
    messages = [
        {"role": "user", "content": f"Question {at}: what is in main.ts?"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": ANSWER},
    ]
    return {"model": "claude-x", "max_tokens": at + 1, "tools": [TOOL], "messages": messages}


def write(folder: Path, size: int) -> tuple[int, int]:
    """Files of `size` bytes of JSON together; returns their rows that are whole, and those that are torn."""
    rows = files = 0
    while size > 0:
        part: list[str] = []
        room = min(size, PART)
        while room > 0:
            part.append(json.dumps(body(rows)))
            room -= len(part[-1])
            rows += 1
        size -= min(size, PART)
        pq.write_table(pa.table({"conversation": [*part, "{torn"]}), folder / f"{files}.parquet", row_group_size=BATCH)
        files += 1
    return rows, files


def converted(table: pa.Table) -> pa.Table:
    """What a corpus on a cluster would keep: its column's format is known, and the source is where it was."""
    return convert_batch(table, "openai-completions", dialect="anthropic-messages").drop_columns(["conversation"])


def memory() -> Iterator[tuple[str, int]]:
    """The processes of Ray's workers with the memory that is theirs alone, in bytes."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if name.startswith("ray::"):
                pages = [int(number) for number in (process / "statm").read_text().split()]
                yield name, (pages[1] - pages[2]) * 4096  # without the object store, which all share
        except (OSError, ValueError):
            continue


def main() -> None:
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else 0.05) * 1e9)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in", Path(folder) / "out"
        source.mkdir()
        rows, torn = write(source, size)
        os.environ.setdefault(
            "RAY_worker_niceness", "0"
        )  # 15 by default, which beside other programs is no work at all
        ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
        peak, ended = [0], threading.Event()

        def watch() -> None:
            while not ended.wait(0.2):
                peak[0] = max([peak[0], *(used for _, used in memory())])

        threading.Thread(target=watch, daemon=True).start()
        began = time.perf_counter()
        data = ray.data.read_parquet(str(source)).map_batches(converted, batch_format="pyarrow", batch_size=BATCH)
        data.write_parquet(str(out))
        seconds = time.perf_counter() - began
        ended.set()
        ray.shutdown()
        good = bad = 0
        first = None
        for file in sorted(out.glob("*.parquet")):
            for batch in pq.ParquetFile(file).iter_batches(columns=COLUMNS):
                whole = batch.column(0).drop_null()
                first = first or (whole[0].as_py() if len(whole) else None)
                good, bad = good + len(whole), bad + len(batch.column(1).drop_null())
    print(
        f"Ray Data: {good} conversations converted, {bad} refused with a reason; {size / 1e9:g} GB in {seconds:.0f} s,"
        f" {size / 1e6 / seconds:.0f} MB/s, the largest process took {peak[0] / 1e6:.0f} MB"
    )
    if (good, bad) != (rows, torn):
        sys.exit(f"Ray Data: wrong counts; expected {rows} and {torn}")
    if RESULT not in [message["content"] for message in json.loads(first or "{}").get("messages", [])]:
        sys.exit("Ray Data: wrong conversion")


if __name__ == "__main__":
    main()
