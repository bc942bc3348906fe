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
from typing import Any, NamedTuple, TextIO

import limits
from conversation import chunks, conversation
from limits import Decoded

Call = Callable[[], Any]


class Prepared(NamedTuple):
    """What to measure and the limit beside it, how often to call each, and how many events one call goes through."""

    subject: Call
    floor: Call
    times: int
    floor_times: int
    units: int
    compared: dict[str, Any]


def serve(rows: Mapping[str, Callable[[str, Any], Call]], decoded: Callable[[Any], Decoded] | None = None) -> None:
    """Answers tasks until its input ends.

    A row makes the call to measure from a wire and its input: the conversation for a request, the chunks for a stream.
    A request's call returns the bytes that would be sent. `decoded` reads what a stream's call returns, for comparison
    with what the limit read.
    """
    answers = _private_output()

    @functools.lru_cache(maxsize=1)
    def prepared(row: str, wire: str, case: str | None, seconds: float) -> Prepared:
        return _prepared(rows[row], wire, case, seconds, decoded)

    for line in sys.stdin:
        answer = _measured(prepared(**json.loads(line)))
        print(json.dumps(answer), file=answers, flush=True)


def _private_output() -> TextIO:
    """The real standard output for answers alone; whatever a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _prepared(
    row: Callable[[str, Any], Call],
    wire: str,
    case: str | None,
    seconds: float,
    decoded: Callable[[Any], Decoded] | None,
) -> Prepared:
    """Warms up, compares what subject and limit make of the input, and finds how many calls fill the time asked for."""
    given: Any = conversation() if case is None else chunks(wire, case)
    subject = row(wire, given)
    floor = limits.request(wire, given) if case is None else limits.stream(wire, given)
    compared = _compared(subject(), floor(), decoded)
    times, floor_times = (max(1, round(seconds / _cpu(call, 1))) for call in (subject, floor))
    return Prepared(subject, floor, times, max(1, floor_times // 2), 1 if case is None else len(given), compared)


def _measured(it: Prepared) -> dict[str, Any]:
    """CPU seconds per event (or per request) of the subject and, from before and after it, of the limit."""
    before = _cpu(it.floor, it.floor_times)
    spent = _cpu(it.subject, it.times)
    after = _cpu(it.floor, it.floor_times)
    return {"time": spent / it.units, "limit": (before + after) / 2 / it.units, **it.compared}


def _cpu(call: Call, times: int) -> float:
    """CPU seconds of one call."""
    gc.collect()
    began = time.process_time()
    for _ in range(times):
        call()
    return max(time.process_time() - began, 1e-9) / times


def _compared(found: Any, expected: Any, decoded: Callable[[Any], Decoded] | None) -> dict[str, Any]:
    """The body beside the limit's, or whether the answer was read as the limit reads it."""
    if isinstance(expected, bytes):
        same = json.loads(found) == json.loads(expected)
        return {"size": len(found), "limit_size": len(expected), "same": same}
    return {"same": decoded is not None and decoded(found) == expected}
