"""Fast conversion of large session files, line by line: bounded memory, all cores, atomic output.

A transcript and an OpenClaw session have the same lines unless ids or signatures are packed. Plain lines are copied at
C speed; the others are converted one by one. The file is split at line ends into pieces, converted in parallel.
"""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import IO

from .. import conversion
from ..conversion import local_files
from ..conversion.sources import PACKED, Problem, Source, as_utf8
from ..dialects.files import transcript
from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.losses import Lines
from ..values.regular import stream_regular

PIECE = 16 * 1024 * 1024
SMALL = 8 * 1024 * 1024
TWINS = frozenset({"transcript", "openclaw"})


def applies(source: Source, origin: str | None, target: str) -> bool:
    """Whether a source can be converted line by line: a large plain session file to a format with the same lines."""
    if target != "transcript" or source.path is None or not source.path.is_file():
        return False
    if source.path.suffix in PACKED or source.path.stat().st_size < SMALL:
        return False
    if origin is not None:
        return origin in TWINS
    with stream_regular(source.path) as stream:
        head = [line for line in as_utf8(stream.read(1 << 20)).split(b"\n")[:-1] if line.strip()][:8]
    try:
        found = conversion.detect(Lines(jsontext.read(line) for line in head))
    except InterlinguaError:
        return False
    return found is not None and found.dialect in TWINS and all(b'"role"' in line for line in head)


def convert(source: Source, target: str, out: Path, workers: int) -> list[Problem]:
    """Converts a large session file; returns the unreadable lines as problems."""
    assert source.path is not None
    problems: list[Problem] = []
    tasks = [(source.path, start, end) for start, end in _pieces(source.path)]
    with contextlib.ExitStack() as stack:
        stream: IO[bytes] | None = None
        run = map if workers == 1 else stack.enter_context(ProcessPoolExecutor(min(workers, len(tasks)))).map
        before = 0
        for converted, lines, bad in run(_piece, tasks):
            if stream is None and converted:  # an entirely unreadable file overwrites nothing
                stream = stack.enter_context(local_files.atomic(out))
            if stream is not None:
                stream.write(converted)
            problems.extend(Problem(f"{source.name}:{before + number}", message) for number, message in bad)
            before += lines
    return problems


def _pieces(path: Path) -> Iterator[tuple[int, int]]:
    """Byte ranges of whole lines."""
    size = path.stat().st_size
    start = 0
    with stream_regular(path) as stream:
        while start < size:
            stream.seek(min(start + PIECE, size))
            stream.readline()
            end = stream.tell()
            yield start, end
            start = end


def _piece(task: tuple[Path, int, int]) -> tuple[bytes, int, list[tuple[int, str]]]:
    path, start, end = task
    with stream_regular(path) as stream:
        stream.seek(start)
        data = stream.read(end - start)
    out: list[bytes] = []
    bad: list[tuple[int, str]] = []
    copy = transcript.copy_line
    packed = b"|" in data or b'ignature"' in data
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            out.append(_unpacked(line) if packed and (b"|" in line or b'ignature"' in line) else copy(line))
        except InterlinguaError as error:
            bad.append((number, str(error)))
    return b"".join(line + b"\n" for line in out), len(lines) - 1, bad


def _unpacked(line: bytes) -> bytes:
    """Converts a line that may have packed ids or signatures."""
    conversation = conversion.decode(Lines([jsontext.read(line)]), "openclaw")
    return conversion.encode(conversation, "transcript").bytes().rstrip(b"\n")
