"""Wall time and memory of fresh processes that do nothing but get ready to call."""

import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

from participants import HERE, OURS, PEERS, Participant, environment

# The high-water mark of this process alone; `ru_maxrss` would start from that of the parent.
_SAY_MEMORY = "\nprint(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"

ROWS: tuple[tuple[str, Participant, str], ...] = (
    ("python alone", OURS, "pass"),
    ("interlingua", OURS, OURS.ready),
    (
        "interlingua, all dialects",
        OURS,
        "from interlingua.dialects import DIALECTS, dialect\nfor name in DIALECTS: dialect(name)",
    ),
    *((peer.name, peer, peer.ready) for peer in PEERS),
)


def measure(rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Medians of interleaved rounds; one round before them fills the bytecode and disk caches."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in ROWS}
    for turn in range(rounds + 1):
        say(f"imports, round {turn} of {rounds}")
        for name, participant, code in ROWS:
            measured = _process(participant, code)
            if turn:
                found[name].append(measured)
    return {
        name: {"ms": statistics.median(ms for ms, _ in pairs), "mb": statistics.median(mb for _, mb in pairs)}
        for name, pairs in found.items()
    }


def _process(participant: Participant, code: str) -> tuple[float, float]:
    began = time.perf_counter()
    command = [participant.python, "-I", "-c", code + _SAY_MEMORY]
    done = subprocess.run(command, cwd=HERE, env=environment(), capture_output=True, text=True, check=True)
    return (time.perf_counter() - began) * 1e3, int(done.stdout.split()[-1]) / 1024
