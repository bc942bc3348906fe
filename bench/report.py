"""Results as tables, and the targets they are held against."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from participants import OURS

LIMIT = "limit: by hand + msgspec"
ORJSON = "limit: by hand + orjson"
NULL = "interlingua: `null` in the text"
STREAM_LIMIT = "limit: split + msgspec, no events"
TITLES = {
    "anthropic": "Anthropic Messages",
    "openai": "OpenAI Chat Completions",
    "responses": "OpenAI Responses",
    "gemini": "Gemini",
    "bedrock": "Bedrock Converse",
    "ollama": "Ollama",
}

REQUEST_LIMIT, STREAM_TIMES, FASTER = 3, 4, 10
GROWTH, IMPORT_MS, IMPORT_MB = 1.2, 100, 25  # the first: how many times dearer an event may be at 2 MB than at 20 KB


class Target(NamedTuple):
    """One number against its bar."""

    group: str
    cell: str
    value: float
    bar: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.bar if self.at_least else self.value <= self.bar


def targets(results: dict[str, Any]) -> Iterator[Target]:
    yield from _sameness(results)
    for wire, rows in results["requests"].items():
        yield Target(f"request: at most {REQUEST_LIMIT} x the limit", wire, rows[OURS.name]["ratio"], REQUEST_LIMIT)
        yield from _faster(f"request: {FASTER} x faster than the fastest peer", wire, rows)
    for wire, cases in results["streams"].items():
        for case, rows in cases.items():
            cell = f"{wire} {case}"
            yield Target(f"stream: at most {STREAM_TIMES} x the limit", cell, rows[OURS.name]["ratio"], STREAM_TIMES)
            yield from _faster(f"stream: {FASTER} x faster than the fastest peer", cell, rows)
    for wire, shapes in results["growth"].items():
        for shape, sizes in shapes.items():
            yield Target(
                f"stream: an event at most {GROWTH} x dearer in long arguments",
                f"{wire} {shape}",
                _growth(sizes),
                GROWTH,
            )
    ready = results["imports"][OURS.name]
    yield Target(f"import: at most {IMPORT_MS} ms", OURS.name, ready["ms"], IMPORT_MS)
    yield Target(f"import: at most {IMPORT_MB} MB", OURS.name, ready["mb"], IMPORT_MB)


def _sameness(results: dict[str, Any]) -> Iterator[Target]:
    """The limit is one only if it does the same work."""
    for wire, rows in results["requests"].items():
        yield Target("request: the very body that the limit writes", wire, rows[OURS.name]["same"], 1, at_least=True)
    for wire, cases in results["streams"].items():
        for case, rows in cases.items():
            same = rows[OURS.name]["same"]
            yield Target("stream: the very message that the limit reads", f"{wire} {case}", same, 1, at_least=True)


def _faster(group: str, cell: str, rows: dict[str, Any]) -> Iterator[Target]:
    peer = fastest(rows)
    if peer is not None:
        times = rows[peer]["time"] / rows[OURS.name]["time"]
        yield Target(group, f"{cell} ({peer})", times, FASTER, at_least=True)


def fastest(rows: dict[str, Any]) -> str | None:
    """The fastest peer that ends with a message."""
    peers = [name for name in rows if name != OURS.name and ":" not in name]  # a colon marks what is no peer
    return min(peers, key=lambda name: rows[name]["time"], default=None)


def _growth(sizes: dict[str, Any]) -> float:
    """How much dearer an event is at the largest size than at the smallest."""
    times = [row["time"] for row in sizes.values()]
    return float(times[-1] / times[0])


# --- tables ----------------------------------------------------------------------------------------------------------


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]

    def drawn(line: list[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        return f"| {' | '.join([line[0].ljust(widths[0]), *padded[1:]])} |"

    rule = "|".join("-" * (width + 1) + (":" if at else "-") for at, width in enumerate(widths))
    return "\n".join([drawn(lines[0]), f"|{rule}|", *map(drawn, lines[1:])])


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _cell(row: dict[str, Any] | None, unit: float) -> str:
    return "" if row is None else f"{number(row['time'] * unit)} (x{number(row['ratio'])})"


def _columns(columns: dict[str, dict[str, Any]], unit: float, limit: str) -> Iterator[list[str]]:
    names = list(dict.fromkeys(name for rows in columns.values() for name in rows))
    for name in names:
        yield [name, *(_cell(rows.get(name), unit) for rows in columns.values())]
    yield [limit, *(number(rows[OURS.name]["limit"] * unit) for rows in columns.values())]
    yield ["fastest peer : interlingua", *(_times_faster(rows) for rows in columns.values())]


def _times_faster(rows: dict[str, Any]) -> str:
    peer = fastest(rows)
    return "" if peer is None else f"{number(rows[peer]['time'] / rows[OURS.name]['time'])}"


def requests(results: dict[str, Any]) -> str:
    found = results["requests"]
    return table(["CPU ms per request (x limit)", *(TITLES[wire] for wire in found)], _columns(found, 1e3, LIMIT))


def streams(results: dict[str, Any], wire: str) -> str:
    found = results["streams"][wire]
    return table(["CPU µs per event (x limit)", *found], _columns(found, 1e6, STREAM_LIMIT))


def growth(results: dict[str, Any]) -> str:
    shapes = [(wire, shape, sizes) for wire, found in results["growth"].items() for shape, sizes in found.items()]
    head = [f"{size.upper()}B" for size in shapes[0][2]]
    rows = [
        [f"{wire}, {_SHAPES[shape]}", *(_cell(row, 1e6) for row in sizes.values()), f"{_growth(sizes):.2f}"]
        for wire, shape, sizes in shapes
    ]
    return table(["CPU µs per event (x limit)", *head, "last : first"], rows)


_SHAPES = {"tool": "one long string", "rows": "many small objects"}


def ready(results: dict[str, Any]) -> str:
    rows = [[name, number(row["ms"]), f"{row['mb']:.1f}"] for name, row in results["imports"].items()]
    return table(["ready to call", "wall ms", "peak MB"], rows)


def _groups(results: dict[str, Any]) -> Iterator[tuple[str, list[Target], Target]]:
    """The targets by group, with the worst of each."""
    groups: dict[str, list[Target]] = {}
    for target in targets(results):
        groups.setdefault(target.group, []).append(target)
    for group, members in groups.items():
        yield group, members, (min if members[0].at_least else max)(members, key=lambda target: target.value)


def summary(results: dict[str, Any]) -> str:
    rows = [
        [
            group,
            "yes" if all(target.met for target in members) else "no",
            f"{sum(target.met for target in members)} of {len(members)}",
            f"{number(worst.value)}, {worst.cell}",
        ]
        for group, members, worst in _groups(results)
    ]
    return table(["target", "held", "cells", "worst"], rows)


def verdict(results: dict[str, Any]) -> str:
    """Each group of targets on a line, and each that is missed on a line of its own."""
    lines = []
    for group, members, worst in _groups(results):
        missed = [target for target in members if not target.met]
        lines.append(
            f"{'MISS' if missed else 'PASS'}  {group}: {len(members) - len(missed)} of {len(members)};"
            f" worst {number(worst.value)} at {worst.cell}"
        )
        lines.extend(f"      missed at {target.cell}: {number(target.value)}" for target in missed)
    return "\n".join(lines)


def text(results: dict[str, Any]) -> str:
    """Everything, for the terminal."""
    about = results["about"]
    parts = [
        f"{about['date']}, Python {about['python']}, {about['machine']}, load {about['load']:.1f}; "
        f"medians of {about['rounds']} interleaved rounds",
        requests(results),
        *(f"{TITLES[wire]}\n{streams(results, wire)}" for wire in results["streams"]),
        *([growth(results)] if results["growth"] else []),
        ready(results),
        verdict(results),
    ]
    return "\n\n".join(parts)


def show_progress(progress: str) -> None:
    """Shows progress on standard error: one changing line on a terminal, one line per cell in a log."""
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}", end="", file=sys.stderr, flush=True)
    elif ", round 1 of " in progress:
        print(progress.split(", round")[0], file=sys.stderr, flush=True)
