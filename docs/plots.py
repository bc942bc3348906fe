"""Draws docs/images/speed-*.svg from the tables of docs/performance.md: `make docs` does it.

The drawings follow the reader's light or dark scheme, load nothing, and have their numbers as text.
"""

import math
import re
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
STYLE = """text{font:13px system-ui,sans-serif;fill:#24292f}.head{font-weight:600}.unit{fill:#6e7781}
.ours{fill:#2f6fde}.peer{fill:#c3c9d1}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.unit{fill:#8b949e}.ours{fill:#5b9bff}.peer{fill:#4b535d}}"""
LABEL, WIDTH, ROW = 130, 640, 22


def tables(heading: str) -> dict[str, list[list[str]]]:
    """The tables of a section by the bold line before them ("" for the first), as rows of cells."""
    section = (HERE / "performance.md").read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found: dict[str, list[list[str]]] = {}
    title = ""
    for line in section.splitlines():
        if line.startswith("**"):
            title = line.strip("*")
        elif line.startswith("|") and not line.startswith("|-"):
            found.setdefault(title, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def measures(rows: list[list[str]], column: int) -> dict[str, float]:
    """The packages with a number in a column; limits, ratios and variants of a row are left out."""
    numbers = {row[0]: re.match(r"[\d.]+", row[column]) for row in rows[1:] if ":" not in row[0]}
    return {name: float(match[0]) for name, match in numbers.items() if match}


def chart(groups: dict[str, dict[str, float]], unit: str) -> str:
    """Bars on a logarithmic scale, one group per wire."""
    values = [value for group in groups.values() for value in group.values()]
    low, high = math.floor(math.log10(min(values))), math.log10(max(values))
    scale = (WIDTH - LABEL - 110) / (high - low)
    parts, y = [], 0
    for title, group in groups.items():
        y += ROW + 6
        parts.append(f'<text class="head" x="0" y="{y - 6}">{escape(title)}</text>')
        for name, value in sorted(group.items(), key=lambda item: item[1]):
            width = max(2, (math.log10(value) - low) * scale)
            kind = "ours" if name == "interlingua" else "peer"
            times = "" if kind == "ours" else f" ({value / group['interlingua']:.0f}×)"
            parts.append(
                f'<text x="{LABEL - 8}" y="{y + 11}" text-anchor="end">{escape(name)}</text>'
                f'<rect class="{kind}" x="{LABEL}" y="{y}" width="{width:.1f}" height="14" rx="2"/>'
                f'<text x="{LABEL + width + 6:.1f}" y="{y + 11}">{value:g}{times}</text>'
            )
            y += ROW
    y += ROW
    parts.append(f'<text class="unit" x="0" y="{y - 6}">{escape(unit)}, logarithmic; shorter is better</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img">'
    return f"{head}<style>{STYLE}</style>{''.join(parts)}</svg>\n"


def drawings() -> dict[Path, str]:
    """The drawings by their file."""
    requests = tables("Requests")[""]
    wires = {title: measures(requests, column) for column, title in enumerate(requests[0]) if column}
    streams = {title: measures(rows, 1) for title, rows in tables("Streams").items()}
    return {
        HERE / "images/speed-requests.svg": chart(
            {title: group for title, group in wires.items() if len(group) > 1},
            "CPU milliseconds to write a request of 101 messages",
        ),
        HERE / "images/speed-streams.svg": chart(
            {title: group for title, group in streams.items() if len(group) > 1},
            "CPU microseconds to read an event of a stream",
        ),
    }


if __name__ == "__main__":
    for path, drawing in drawings().items():
        path.write_text(drawing, "utf-8")
