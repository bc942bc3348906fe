"""A streamed call through a connector, beside the vendors' packages, pydantic-ai and LiteLLM, over one local server.

python bench/connectors.py                    everything; about ten minutes
python bench/connectors.py --quick            fewer and shorter rounds; about three minutes
python bench/connectors.py --limits           only what a call costs above its floor, without peers; three minutes
python bench/connectors.py --only gemini      one wire (may be given more than once)
python bench/connectors.py --write            no measuring: the tables again from the last results

Each participant runs in a process of its own, from its own lock file, and the server in another, so only the caller's
work is counted. Tables go to `results/connectors.md`, from where `run.py --write-docs` takes them.

The floor, aiohttp plus bare codecs, does less than a call: it adapts, retries, times out, prices and hides nothing. It
has aiohttp's HTTP, though, and we have our own: a ratio below 1 is no mistake. Ratios to it are medians over many more
rounds, in which the two take turns within one process: see `calls.compared`.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import participants
from conversation import chunks
from participants import HERE, OURS, PEERS, Participant, Worker, pin
from report import TITLES, number, show_progress, table

RESULTS = HERE / "results" / "connectors.json"
TABLES = HERE / "results" / "connectors.md"
AIM = 5  # times less CPU than the best peer
CASES = {  # what it is called -> the answer, and whether one event comes at a time
    "2,000 pieces": "text2k",
    "200 pieces": "text200",
    "20 KB call": "tool20k",
    "one at a time": "text200.slowly",
    "short answer": "text3",
}
PER_CALL = ("short answer",)
FIRST = ("2,000 pieces", "200 pieces", "one at a time")


class Row(NamedTuple):
    """One way to call: whose, by which function of `calls`, on which wires; `whole` if it ends with a message."""

    label: str
    of: Participant
    function: str
    wires: tuple[str, ...]
    whole: bool = True


WIRES = ("anthropic", "openai", "responses", "gemini", "ollama")
_PEER = {peer.name: peer for peer in PEERS}
_OLLAMA = Participant("ollama", "", "")
_GPT, _HOSTED = ("openai", "responses"), WIRES[:4]
ALONE = Row("aiohttp alone, nothing read", OURS, "aiohttp", WIRES)
FLOOR = Row("aiohttp plus bare codecs", OURS, "aiohttp_codecs", WIRES)
ROWS = (
    Row("interlingua", OURS, "interlingua", WIRES),
    Row("interlingua, sync", OURS, "interlingua_sync", WIRES),
    Row("anthropic", _PEER["anthropic"], "anthropic", ("anthropic",)),
    Row("anthropic, async", _PEER["anthropic"], "anthropic_async", ("anthropic",)),
    Row("anthropic: raw events", _PEER["anthropic"], "anthropic_raw", ("anthropic",), whole=False),
    Row("openai", _PEER["openai"], "openai", _GPT),
    Row("openai, async", _PEER["openai"], "openai_async", _GPT),
    Row("openai: raw events", _PEER["openai"], "openai_raw", _GPT, whole=False),
    Row("google-genai: raw events", _PEER["google-genai"], "google_genai", ("gemini",), whole=False),
    Row("google-genai, async: raw events", _PEER["google-genai"], "google_genai_async", ("gemini",), whole=False),
    Row("ollama: raw events", _OLLAMA, "ollama", ("ollama",), whole=False),
    Row("ollama, async: raw events", _OLLAMA, "ollama_async", ("ollama",), whole=False),
    Row("pydantic-ai", _PEER["pydantic-ai"], "pydantic_ai", _HOSTED),
    Row("litellm", _PEER["litellm"], "litellm", _HOSTED),
    FLOOR,
    ALONE,
)
OWN = ROWS[:2]
CLOSE = (*OWN, FLOOR, ALONE)  # compared within a few per cent, so measured longer than the peers
COMPARED = (OWN[0], FLOOR, ALONE)  # one after the other in every round, for ratios
# What a call of ours may cost in the CPU of the floor, or of aiohttp alone.
LIMITS = {"one at a time": (FLOOR, 1.1), "short answer": (ALONE, 2.5)}


class Effort(NamedTuple):
    """How long to measure: rounds of all rows and CPU seconds in each, rounds of the compared rows, and how many calls
    to make before the memory is measured again.
    """

    rounds: int
    seconds: float
    compared: int
    many: int


FULL, QUICK = Effort(5, 0.2, 40, 50), Effort(2, 0.05, 15, 10)
_FEW_CALLS = 0.01  # seconds in a round of the compared rows: one paced call, or twenty short ones


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of a server that lives as long as this, on a processor of its own if there are two."""
    pin(0)
    with subprocess.Popen(
        [sys.executable, "replay.py"], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        pin(-1)
        assert process.stdin and process.stdout
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


def measure(wires: tuple[str, ...], effort: Effort) -> dict[str, Any]:
    """Results of all cells."""
    owners = {row.of.name: row.of for row in ROWS if set(row.wires) & set(wires)}
    for of in owners.values():
        if of is not OURS:
            participants.prepare(of)
    with _running(owners) as (callers, url):
        found = {wire: {case: _cell(callers, url, wire, case, effort) for case in CASES} for wire in wires}
        ratios = {wire: {case: _ratios(callers, url, wire, case, effort) for case in CASES} for wire in wires}
        memory = {wire: _memory(url, wire, effort.many) for wire in wires}
    return {"about": _about(owners, effort), "calls": found, "ratios": ratios, "memory": memory}


def measure_limits(wires: tuple[str, ...], effort: Effort) -> dict[str, Any]:
    """Ratios of the cases that have a limit, without peers."""
    with _running({OURS.name: OURS}) as (callers, url):
        return {wire: {case: _ratios(callers, url, wire, case, effort) for case in LIMITS} for wire in wires}


@contextlib.contextmanager
def _running(owners: dict[str, Participant]) -> Iterator[tuple[dict[str, Worker], str]]:
    """A process of each participant, and the address of the server."""
    pin(-1)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(server())
        callers = {name: Worker(of.python, "calls.py") for name, of in owners.items()}
        for caller in callers.values():
            stack.callback(caller.close)
        yield callers, url


def _about(owners: dict[str, Participant], effort: Effort) -> dict[str, Any]:
    return {
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg()[0],
        "rounds": effort.rounds,
        "compared": effort.compared,
        "many": effort.many,
        "versions": {name: participants.version(of) for name, of in owners.items()},
    }


def _cell(callers: dict[str, Worker], url: str, wire: str, case: str, effort: Effort) -> dict[str, dict[str, float]]:
    """Medians over rounds in which the participants take turns, in an order that changes."""
    rows = [row for row in ROWS if wire in row.wires]
    events = len(chunks(wire, CASES[case].removesuffix(".slowly")))
    answers: dict[str, list[dict[str, float]]] = {row.label: [] for row in rows}
    for turn in range(effort.rounds):
        show_progress(f"{wire}, {case}, round {turn + 1} of {effort.rounds}")
        for row in rows[turn % len(rows) :] + rows[: turn % len(rows)]:
            seconds = effort.seconds if row in CLOSE else effort.seconds / 2
            answer = callers[row.of.name].do(**_task(row, url, wire, case), seconds=seconds)
            if row is not ALONE and answer["seen"] < 0.9 * events - 8:
                raise RuntimeError(f"{row.label} saw {answer['seen']} of {events} events of {wire}, {case}")
            answers[row.label].append(answer)
    return {
        label: {"events": events, **{key: statistics.median(one[key] for one in taken) for key in ("cpu", "first")}}
        for label, taken in answers.items()
    }


def _ratios(callers: dict[str, Worker], url: str, wire: str, case: str, effort: Effort) -> dict[str, float]:
    """What our call takes in the CPU of the floor, and of aiohttp alone."""
    show_progress(f"{wire}, {case}, ratios")
    ours, *others = COMPARED
    beside = [row.function for row in others]
    rounds = effort.compared if case == "one at a time" else 5 * effort.compared  # the others are shorter
    task = _task(ours, url, wire, case) | {"beside": beside, "rounds": rounds, "seconds": _FEW_CALLS}
    return dict(zip((row.label for row in others), callers[OURS.name].do(**task), strict=True))


def _task(row: Row, url: str, wire: str, case: str) -> dict[str, Any]:
    return {"row": row.function, "wire": wire, "url": f"{url}/{wire}/{CASES[case]}", "memory": 0}


def _memory(url: str, wire: str, many: int) -> dict[str, dict[str, float]]:
    """Megabytes in a fresh process, after one call and after many. No time counts here: the processes run at once."""
    show_progress(f"{wire}, memory")

    def measured(row: Row) -> dict[str, float]:
        worker = Worker(row.of.python, "calls.py")
        task = {"row": row.function, "wire": wire, "url": f"{url}/{wire}/text200", "memory": many}
        found: dict[str, float] = worker.do(**task, seconds=0)
        worker.close()
        return found

    rows = [row for row in ROWS if wire in row.wires]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {row.label: found for row, found in zip(rows, pool.map(measured, rows), strict=True)}


# --- tables ----------------------------------------------------------------------------------------------------------


def tables(results: dict[str, Any]) -> str:
    about = results["about"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    parts = [_verdict(results), _overhead(results)]
    parts += [f"**{TITLES[wire]}**\n\n{_wire(results, wire)}" for wire in results["calls"]]
    parts.append(
        f"Medians of {about['rounds']} interleaved rounds, ratios to aiohttp of {about['compared']}; memory in a fresh "
        "process, after answers of 200 pieces. "
        f"{about['date']}, Python {about['python']}, {about['machine']}, load {about['load']:.1f}. "
        f"Versions: {versions}."
    )
    return "\n\n".join(parts) + "\n"


def _wire(results: dict[str, Any], wire: str) -> str:
    cells, memory = results["calls"][wire], results["memory"][wire]
    header = [
        "CPU µs per event",
        *(case for case in CASES if case not in PER_CALL),
        *(f"{case}, ms per call" for case in PER_CALL),
        f"first event, ms: {', '.join(FIRST)}",
        f"MB after 1, {results['about']['many']} calls",
    ]
    rows = []
    for row in (row for row in ROWS if wire in row.wires):
        cpu = [_shown(case, cells[case][row.label]) for case in CASES]
        first = ", ".join(number(cells[case][row.label]["first"] * 1e3) for case in FIRST)
        used = memory[row.label]
        rows.append([row.label, *cpu, first, f"{used['once']:.0f}, {used['many']:.0f}"])
    for other in (FLOOR, ALONE):
        beside = [results["ratios"][wire][case][other.label] for case in CASES]
        rows.append([f"interlingua : {other.label}", *map(number, beside), "", ""])
    for label, raw in (("best message : interlingua", False), ("best of all : interlingua", True)):
        ratios = [_ratio(cells[case], wire, raw=raw) for case in CASES]
        if any(ratios):
            rows.append([label, *(number(ratio) if ratio else "" for ratio in ratios), "", ""])
    return table(header, rows)


def _shown(case: str, cell: dict[str, float]) -> str:
    return number(cell["cpu"] * 1e3 if case in PER_CALL else cell["cpu"] * 1e6 / cell["events"])


def _ratio(cell: dict[str, Any], wire: str, *, raw: bool, ours: Row = OWN[0]) -> float | None:
    """How many times dearer the cheapest peer is; None where there is none."""
    peers = [row for row in ROWS if wire in row.wires and row not in CLOSE and (row.whole or raw)]
    if not peers:
        return None
    return min(cell[row.label]["cpu"] for row in peers) / cell[ours.label]["cpu"]


def _verdict(results: dict[str, Any]) -> str:
    """For each kind of answer, over the wires: the worst ratio, and whether the aim is held."""
    rows = []
    for case in CASES:
        whole, all_of_them = (_worst(results, case, raw=raw) for raw in (False, True))
        rows.append([case, *whole, *all_of_them])
    aim = f"{AIM} x less CPU than the best peer"
    header = [aim, "that builds a message", "worst at", "of all, raw events too", "worst at"]
    return table(header, rows)


def _overhead(results: dict[str, Any]) -> str:
    """What a call costs above what it cannot do without, and whether its first event is the first of all."""
    rows = []
    for case, (other, limit) in LIMITS.items():
        ratios = {wire: found[case][other.label] for wire, found in results["ratios"].items()}
        worst = max(ratios, key=ratios.__getitem__)
        within = "yes" if ratios[worst] <= limit else "no"
        rows.append([f"{case}: at most {limit} x {other.label}", f"{within}, {number(ratios[worst])}", TITLES[worst]])
    for case in FIRST:
        behind = [TITLES[wire] for wire, cells in results["calls"].items() if not _is_first(cells[case], wire)]
        rows.append([f"{case}: first event before all peers", "no" if behind else "yes", ", ".join(behind)])
    return table(["above the floor", "held", "worst at"], rows)


def limits_table(ratios: dict[str, Any]) -> str:
    """For each wire, what a call costs in the CPU of its floor and of aiohttp alone."""
    header = ["x CPU", *(f"{case} : {other.label}" for case in LIMITS for other in COMPARED[1:])]
    rows = []
    for wire, found in ratios.items():
        beside = [found[case][other.label] for case in LIMITS for other in COMPARED[1:]]
        rows.append([TITLES[wire], *map(number, beside)])
    return table(header, rows)


def _is_first(cell: dict[str, Any], wire: str) -> bool:
    peers = [row for row in ROWS if wire in row.wires and row not in CLOSE]
    return all(cell[OWN[0].label]["first"] <= cell[row.label]["first"] for row in peers)


def _worst(results: dict[str, Any], case: str, *, raw: bool) -> tuple[str, str]:
    found = {wire: ratio for wire, cells in results["calls"].items() if (ratio := _ratio(cells[case], wire, raw=raw))}
    if not found:
        return "", ""
    wire = min(found, key=found.__getitem__)
    return f"{'yes' if found[wire] >= AIM else 'no'}, {number(found[wire])}", TITLES[wire]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--only", action="append", choices=WIRES, default=[])
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    wires, effort = tuple(asked.only) or WIRES, QUICK if asked.quick else FULL
    if asked.limits:
        ratios = measure_limits(wires, effort)
        show_progress("")
        print(limits_table(ratios))
        return
    if not asked.write:
        results = measure(wires, effort)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1))
        show_progress("")
    text = tables(json.loads(RESULTS.read_text()))
    TABLES.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
