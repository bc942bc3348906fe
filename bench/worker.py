"""One participant in a process of its own: measures itself and, beside it, the limit. Lines of JSON in, lines out.

CPU time of the whole process, threads included. The limit runs in the same process, right before and after, because a
large program makes everything in its process slower (caches, the garbage collector): ratios to it hold where times
do not.
"""

import functools
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import limits
from conversation import chunks, conversation
from limits import Decoded

Call = Callable[[], Any]


def serve(rows: Mapping[str, Callable[[str, Any], Call]], decoded: Callable[[Any], Decoded] | None = None) -> None:
    """Answers tasks until its input ends.

    A row makes the call to measure from a wire and its input: the conversation for a request, the chunks for a stream.
    A request's call returns the bytes that would be sent. `decoded` reads what a stream's call returns, for comparison
    with what the limit read.
    """
    answers = _private_output()
    for line in sys.stdin:
        task = json.loads(line)
        subject, floor, units = _prepared(rows[task["row"]], task["wire"], task["case"])
        answer = _measured(subject, floor, units, task["seconds"])
        if task["check"]:
            answer |= _compared(subject(), floor(), decoded)
        print(json.dumps(answer), file=answers, flush=True)


def _private_output() -> TextIO:
    """The real standard output for answers alone; whatever a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


@functools.lru_cache(maxsize=1)
def _prepared(row: Callable[[str, Any], Call], wire: str, case: str | None) -> tuple[Call, Call, int]:
    """What to measure, the limit beside it, and how many events one call goes through."""
    if case is None:
        chat = conversation()
        subject, floor, units = row(wire, chat), limits.request(wire, chat), 1
    else:
        pieces = chunks(wire, case)
        subject, floor, units = row(wire, pieces), limits.stream(wire, pieces), len(pieces)
    subject(), floor()
    return subject, floor, units


def _measured(subject: Call, floor: Call, units: int, seconds: float) -> dict[str, Any]:
    """CPU seconds per event (or per request) of the subject and of the limit, each for about as long as asked."""
    times, floor_times = _times(subject, seconds), _times(floor, seconds / 4)
    before = _cpu(floor, floor_times)
    spent = _cpu(subject, times)
    after = _cpu(floor, floor_times)
    return {"time": spent / units, "limit": (before + after) / 2 / units}


def _times(call: Call, seconds: float) -> int:
    return max(1, round(seconds / max(_cpu(call, 1), 1e-6))) if seconds else 1


def _cpu(call: Call, times: int) -> float:
    """CPU seconds of one call."""
    gc.collect()
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times


def _compared(found: Any, expected: Any, decoded: Callable[[Any], Decoded] | None) -> dict[str, Any]:
    """The body beside the limit's, or whether the answer was read as the limit reads it."""
    if isinstance(expected, bytes):
        same = json.loads(found) == json.loads(expected)
        return {"size": len(found), "limit_size": len(expected), "same": same}
    return {"same": decoded is not None and decoded(found) == expected}
