"""A corpus converted by Ray Data on this machine: the same function that runs here runs on a cluster.

Run by `make interop`, in an environment of its own.
"""

import json
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import ray

from interlingua.arrow import convert_batch

ROWS = 20_000
BODY = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in", Path(folder) / "out"
        source.mkdir()
        for part in range(4):
            rows = [json.dumps({**BODY, "max_tokens": part * ROWS + at + 1}) for at in range(ROWS // 4)]
            pq.write_table(pa.table({"conversation": [*rows, "{torn"]}), source / f"{part}.parquet")
        ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
        data = ray.data.read_parquet(str(source)).map_batches(
            lambda table: convert_batch(table, "openai-completions"), batch_format="pyarrow", batch_size=2000
        )
        data.write_parquet(str(out))
        done = pq.read_table(out)
        ray.shutdown()
    good = done.column("conversation_converted").drop_null()
    bad = done.column("conversation_error").drop_null()
    print(f"Ray Data: {len(good)} conversations converted, {len(bad)} refused with a reason")
    if (len(good), len(bad)) != (ROWS, 4):
        sys.exit("Ray Data: wrong counts")
    if json.loads(good[0].as_py())["messages"] != BODY["messages"]:
        sys.exit("Ray Data: wrong conversion")


if __name__ == "__main__":
    main()
