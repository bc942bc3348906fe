"""A folder of Parquet files converted with Ray Data on this machine; the same code runs on a cluster and on a bucket.

`ray_data.py [GIGABYTES [PLACE]]` writes Parquet files with that much JSON, converts them and verifies the output: the
number of rows, the sums of their ids and lengths, their grouped losses and a sample of their text must match plain
`convert`. It prints the speed, the memory of the workers and of the object store, and for comparison the speed of
`interlingua convert` on one core. The place is a temporary folder, or a bucket such as `s3://bucket/test`; the size is
0.05 by default, as in `make interop`.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray
from pyarrow import fs

import interlingua as il
from interlingua.arrow import BLOCK, convert_batches, count_losses

SOURCE, TARGET = "anthropic-messages", "openai-completions"
PART = 64_000_000  # bytes of JSON in a file
ROW_GROUP = 5000
COMPARED = 40_000_000  # bytes for `interlingua convert` on one core
SAMPLE = 20_000  # rows per row whose text is compared with that of `convert`
REPORT_EVERY = 15.0  # seconds
KINDS = 12  # of conversations: row n is of kind n % KINDS, so the expected sums follow from one row of each kind
SETTINGS = {
    # 15 by default: beside other programs the workers would starve.
    "RAY_worker_niceness": "0",
    # Bytes of row groups per task, which holds all that it writes: 32 MB take 400 MB of memory, the default 560 MB.
    "RAY_DATA_PARQUET_BIN_PACKING_BYTES": str(BLOCK),
    # Actors that read only the footers. The default is 32, each a process of 190 MB that is started before the work.
    "RAY_DATA_PARQUET_FOOTER_NUM_ACTORS": "1",
}
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

RESULT = "".join(f"{line:>4}: let x{line} = read(y{line * 7 % 61}); // step {line * 13 % 97}\n" for line in range(28))
ANSWER = "The file declares x, and nothing else uses it; it can be removed. " * 8
TOOL = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {}}}
NUMBER = "%08d"  # the place of a row's number, always eight digits: all rows of a kind have the same length


def body(kind: int) -> dict[str, Any]:
    """A request with one to four calls and results; some with thinking, which the target cannot verify."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Question {NUMBER}: what is in main.ts?"}]
    for at in range(1 + kind % 4):
        call = {"type": "tool_use", "id": f"toolu_{NUMBER}_{at}", "name": "read", "input": {"path": "main.ts"}}
        thought = {"type": "thinking", "thinking": "Which file is it?", "signature": "c2lnbmF0dXJl"}
        blocks = [{"type": "text", "text": "I will read the file."}, call]
        messages.append({"role": "assistant", "content": [thought, *blocks] if kind % 3 == 0 else blocks})
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": RESULT}
        messages.append({"role": "user", "content": [result]})
    messages.append({"role": "assistant", "content": ANSWER})
    return {"model": "claude-x", "max_tokens": 1024, "tools": [TOOL], "messages": messages}


TEMPLATES = [json.dumps(body(kind)).split(NUMBER) for kind in range(KINDS)]


def text(number: int) -> str:
    return (NUMBER % number).join(TEMPLATES[number % KINDS])


class Store(NamedTuple):
    """A folder of Parquet files, on this machine or in a bucket."""

    system: fs.FileSystem
    path: str

    def files(self) -> list[str]:
        found = self.system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.path for info in found if info.path.endswith(".parquet"))


def write(into: Store, size: int) -> tuple[int, int]:
    """Writes files with `size` bytes of JSON in total; returns the numbers of their valid and of their torn rows."""
    rows = files = 0
    lengths = [len(text(kind)) for kind in range(KINDS)]
    while size > 0:
        count = max(1, min(size, PART) * KINDS // sum(lengths))
        part = [text(number) for number in range(rows, rows + count)]
        table = pa.table({"id": [*range(rows, rows + count), -1], "conversation": [*part, "{torn"]})
        with into.system.open_output_stream(f"{into.path}/{files:05}.parquet") as stream:
            pq.write_table(table, stream, row_group_size=ROW_GROUP, use_dictionary=False, compression="none")
        rows += count
        size -= min(size, PART)
        files += 1
    return rows, files


def converted(batch: pa.Table) -> Iterator[pa.Table]:
    """Converts a batch of any size part by part; the source stays where it is."""
    for part in convert_batches(batch, TARGET, dialect=SOURCE):
        yield part.drop_columns(["conversation"])


class Totals(NamedTuple):
    """What a correct output contains."""

    rows: int
    errors: int
    ids: int
    length: int
    losses: Counter[tuple[str, str, str]]


def expected(rows: int, torn: int) -> Totals:
    """Computes the totals from one plain conversion of each kind."""
    length, losses = 0, Counter[tuple[str, str, str]]()
    for kind in range(min(KINDS, rows)):
        count = len(range(kind, rows, KINDS))
        encoded = il.convert(text(kind), TARGET, SOURCE)
        length += count * len(encoded.bytes())
        for loss in encoded.losses:
            losses[loss.severity, re.sub(r"\[\d+\]", "[]", loss.path), loss.why] += count
    return Totals(rows, torn, rows * (rows - 1) // 2 - torn, length, losses)


def found(out: Store) -> tuple[Totals, int]:
    """Reads the totals of the output, and how many texts were compared; exits if one of those is wrong."""
    rows = errors = ids = length = compared = 0
    losses = Counter[tuple[str, str, str]]()
    for file in out.files():
        for batch in pq.ParquetFile(file, filesystem=out.system).iter_batches(ROW_GROUP):
            texts = batch.column("conversation_converted")
            rows += len(texts) - texts.null_count
            errors += len(batch) - batch.column("conversation_error").null_count
            ids += pc.sum(batch.column("id")).as_py()
            length += pc.sum(pc.binary_length(texts)).as_py() or 0
            for group in count_losses(batch).to_pylist():
                losses[group["severity"], group["path"], group["why"]] += group["count"]
            for at, number in enumerate(batch.column("id").to_pylist()):
                if number % SAMPLE == 0:
                    compared += 1
                    if texts[at].as_py() != il.convert(text(number), TARGET, SOURCE).bytes().decode():
                        sys.exit(f"Ray Data: row {number} differs from plain `convert`")
    return Totals(rows, errors, ids, length, losses), compared


class Monitor(threading.Thread):
    """Samples the workers of this session and the object store, and prints the progress."""

    def __init__(self, out: Store, rows: int, size: int) -> None:
        super().__init__(daemon=True)
        self.memory = self.store = 0
        self._cpu: dict[int, float] = {}
        self._out, self._rows, self._size = out, rows, size
        self._done: dict[str, int] = {}
        self._ended = threading.Event()
        self._before = _shared_memory()

    def run(self) -> None:
        began = last = time.monotonic()
        while not self._ended.wait(0.2):
            self._sample()
            if time.monotonic() - last >= REPORT_EVERY:
                last = time.monotonic()
                share = self._rows_written() / self._rows
                rate = share * self._size / (last - began)
                left = f", {(1 - share) * self._size / rate:.0f} s left" if rate else ""
                print(f"{share:.0%} of {self._size / 1e9:g} GB, {rate / 1e6:.1f} MB/s{left}", flush=True)

    def end(self) -> float:
        """Stops; returns the processor time of all workers."""
        self._sample()
        self._ended.set()
        return sum(self._cpu.values())

    def _sample(self) -> None:
        self.store = max(self.store, _shared_memory() - self._before)
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if not (process / "cmdline").read_bytes().startswith(b"ray::"):
                    continue
                pages = [int(number) for number in (process / "statm").read_text().split()]
                times = (process / "stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):  # it has ended
                continue
            if int(times[3]) != os.getsid(0):  # of another program
                continue
            self.memory = max(self.memory, (pages[1] - pages[2]) * PAGE)  # without the object store, which all share
            self._cpu[int(process.name)] = (int(times[11]) + int(times[12])) / TICK

    def _rows_written(self) -> int:
        for file in set(self._out.files()) - self._done.keys():
            try:
                self._done[file] = pq.read_metadata(file, filesystem=self._out.system).num_rows
            except (OSError, pa.ArrowInvalid):  # not complete yet
                continue
        return sum(self._done.values())


def _shared_memory() -> int:
    state = os.statvfs("/dev/shm")
    return (state.f_blocks - state.f_bfree) * state.f_frsize


def compare(folder: Path, size: int) -> float:
    """Returns the MB per second of processor time of `interlingua convert` on one core, with the same rows."""
    lines = folder / "lines.jsonl"
    with lines.open("w") as file:
        number = 0
        while file.tell() < size:
            file.write(text(number) + "\n")
            number += 1
    code = "from interlingua.cli import main; main()"
    options = ["-j", "1", "-f", SOURCE, "-t", TARGET, "-o", str(folder / "converted.jsonl")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, "convert", str(lines), *options], check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return size / 1e6 / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else 0.05) * 1e9)
    with tempfile.TemporaryDirectory() as folder:
        place = sys.argv[2] if len(sys.argv) > 2 else folder
        if place == folder and shutil.disk_usage(folder).free < 2.5 * size:
            sys.exit(f"Ray Data: {2.5 * size / 1e9:g} GB of disk are needed; set TMPDIR to a larger one")
        system, path = fs.FileSystem.from_uri(place)
        source, out = Store(system, f"{path}/in"), Store(system, f"{path}/out")
        for store in (source, out):
            system.create_dir(store.path)
        try:
            run(size, source, out, Path(folder))
        finally:
            for store in (source, out):
                system.delete_dir(store.path)


def run(size: int, source: Store, out: Store, folder: Path) -> None:
    began = time.perf_counter()
    rows, torn = write(source, size)
    print(f"{rows} rows in {torn} files written in {time.perf_counter() - began:.0f} s", flush=True)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    ray.init(include_dashboard=False, logging_level="error", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False  # in a log they are many lines
    monitor = Monitor(out, rows, size)
    monitor.start()
    began = time.perf_counter()
    # With a number as `batch_size`, reading would be an operator of its own: Ray would reserve a core for it, and keep
    # its blocks in the object store.
    data = ray.data.read_parquet(source.path, filesystem=source.system)
    data = data.map_batches(converted, batch_format="pyarrow", batch_size=None)
    data.write_parquet(out.path, filesystem=out.system, row_group_size=ROW_GROUP)
    seconds = time.perf_counter() - began
    cpu = monitor.end()
    ray.shutdown()
    result, compared = found(out)
    plain = compare(folder, min(size, COMPARED))
    print(
        f"Ray Data: {result.rows} conversations converted, {result.errors} refused with a reason, {compared} compared;"
        f" {size / 1e9:g} GB in {seconds:.0f} s, {size / 1e6 / seconds:.1f} MB/s; {cpu:.0f} s of processor time,"
        f" {size / 1e6 / cpu:.1f} MB/s (`convert` on one core: {plain:.1f}); the largest worker took"
        f" {monitor.memory / 1e6:.0f} MB, the object store {monitor.store / 1e6:.0f} MB"
    )
    for (severity, place, why), count in sorted(result.losses.items()):
        print(f"  {count:>10} {severity}: {place}: {why}")
    if result != (right := expected(rows, torn)):
        sys.exit(f"Ray Data: wrong totals; expected {right}, found {result}")


if __name__ == "__main__":
    main()
