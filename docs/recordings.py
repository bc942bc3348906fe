"""Records `il` in a real terminal for these pages: `python docs/recordings.py [NAME…]`, with tmux installed.

Each scene is played in tmux at 60, 80 and 140 columns and written as SVG to docs/images/terminal. The programs are
real; the models are scripted, and the home folder has the same content each time. What differs between two runs (ids,
durations) is replaced by text of the same width, except for the figures of a progress bar and of `doctor`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from rich.ansi import AnsiDecoder  # noqa: E402
from rich.cells import cell_len  # noqa: E402
from rich.color import Color  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.segment import Segment  # noqa: E402
from rich.style import Style  # noqa: E402
from rich.terminal_theme import TerminalTheme  # noqa: E402

import interlingua as il  # noqa: E402
from interlingua.sessions import save  # noqa: E402
from sessions.histories import answered, asked, result, write_lines  # noqa: E402

IMAGES = HERE / "images" / "terminal"
WIDTHS = (60, 80, 140)
TIMEOUT = 40.0  # seconds until a screen must have come

# --- a screen as SVG -------------------------------------------------------------------------------------------------

CELL, LINE, SIZE, MARGIN = 8.4, 18, 14, 14
FONT = "ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"


def _palette(background: str, text: str, *colours: str) -> TerminalTheme:
    def rgb(colour: str) -> tuple[int, int, int]:
        return int(colour[:2], 16), int(colour[2:4], 16), int(colour[4:], 16)

    return TerminalTheme(rgb(background), rgb(text), [*map(rgb, colours[:8])], [*map(rgb, colours[8:])])


PALETTES = {
    "dark": _palette(
        *("17191e", "d4d7dd"),
        *("2b2f37", "e06c75", "98c379", "e5c07b", "61afef", "c678dd", "56b6c2", "d4d7dd"),
        *("6b7280", "ef8b93", "b5d89a", "f0d399", "8cc5f5", "d79ae8", "7fcbd4", "ffffff"),
    ),
    # The colours that xterm has on white.
    "light": _palette(
        *("ffffff", "24292f"),
        *("000000", "cd0000", "00cd00", "cdcd00", "0000ee", "cd00cd", "00cdcd", "e5e5e5"),
        *("7f7f7f", "ff0000", "00ff00", "ffff00", "5c5cff", "ff00ff", "00ffff", "ffffff"),
    ),
}

Row = tuple[Segment, ...]


def rows_of(captured: str) -> list[Row]:
    """The rows of a screen that tmux has captured with its escapes, without the empty ones at the end."""
    console = Console(width=1000, color_system="truecolor")
    decoder = AnsiDecoder()  # one for all lines: tmux writes only what changes, from line to line
    rows: list[Row] = [
        tuple(part for part in decoder.decode_line(line).render(console) if part.text != "\n")
        for line in captured.split("\n")
    ]
    while rows and not "".join(segment.text for segment in rows[-1]).strip():
        rows.pop()
    return rows


def _drawn(row: Row, palette: TerminalTheme) -> str:
    """The row at the origin: backgrounds, then runs of text, each as wide as its cells."""
    behind, before, at = [], [], 0
    for segment in row:
        style, start = segment.style or Style(), at
        front, back = _rgb(style.color, palette, True), _rgb(style.bgcolor, palette, False)
        if style.reverse:
            front, back = back, front
        marks = ";".join(f"{name}:{value}" for name, value in _marks(style, front, palette))
        marks = f' style="{marks}"' if marks else ""
        for text in _RUNS.findall(segment.text):
            width = cell_len(text)
            if not text.isspace():
                where = f'x="{at * CELL:.1f}" y="{LINE - 5}" textLength="{width * CELL:.1f}"'
                before.append(f"<text {where}{marks}>{escape(text)}</text>")
            at += width
        if back != _rgb(None, palette, False):
            place = f'x="{start * CELL:.1f}" width="{(at - start) * CELL:.1f}"'
            behind.append(f'<rect {place} height="{LINE}" fill="{back}"/>')
    return "".join(behind + before)


# Text without the spaces around it, wide characters (of two cells each), or spaces.
_WIDE = (
    "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\U0001f300-\U0001faff"
)
_RUNS = re.compile(rf"[{_WIDE}]+|[^\s{_WIDE}]+(?: [^\s{_WIDE}]+)*|\s+")


def _rgb(colour: Color | None, palette: TerminalTheme, is_front: bool) -> str:
    found = (colour or Color.default()).get_truecolor(palette, is_front)
    return f"#{found.red:02x}{found.green:02x}{found.blue:02x}"


def _marks(style: Style, front: str, palette: TerminalTheme) -> Iterator[tuple[str, str]]:
    if front != _rgb(None, palette, True):
        yield "fill", front
    if style.bold:
        yield "font-weight", "bold"
    if style.italic:
        yield "font-style", "italic"
    if style.dim:
        yield "opacity", ".62"
    if style.underline or style.strike:
        yield "text-decoration", "underline" if style.underline else "line-through"


def svg(frames: Sequence[tuple[list[Row], float]], columns: int, theme: str, title: str) -> str:
    """The frames one after the other, each for its seconds, again and again; who wants no motion sees the last."""
    palette = PALETTES[theme]
    height = max(len(rows) for rows, _ in frames) * LINE + 2 * MARGIN
    width = round(columns * CELL + 2 * MARGIN)
    known: dict[str, str] = {}
    pictures = []
    for rows, _ in frames:
        uses = []
        for number, row in enumerate(rows):
            if drawn := _drawn(row, palette):
                name = known.setdefault(drawn, f"r{len(known)}")
                uses.append(f'<use href="#{name}" y="{number * LINE}"/>')
        pictures.append("".join(uses))
    lines = "".join(f'<g id="{name}">{drawn}</g>' for drawn, name in known.items())
    shown = "".join(f'<g class="f f{number}">{picture}</g>' for number, picture in enumerate(pictures))
    background, text = _rgb(None, palette, False), _rgb(None, palette, True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{escape(title)}</title><style>text{{font:{SIZE}px {FONT};white-space:pre}}'
        f"{_animation([seconds for _, seconds in frames])}</style><defs>{lines}</defs>"
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="{background}" stroke="#8883"/>'
        f'<g fill="{text}" transform="translate({MARGIN} {MARGIN})">{shown}</g></svg>\n'
    )


def _animation(seconds: list[float]) -> str:
    if len(seconds) == 1:
        return ""
    total, start, rules = sum(seconds), 0.0, []
    for number, length in enumerate(seconds):
        begin, end = 100 * start / total, 100 * (start + length) / total
        start += length
        hidden = "0%{visibility:hidden}" if number else ""
        rules.append(
            f"@keyframes k{number}{{{hidden}{begin:.2f}%{{visibility:visible}}{end:.2f}%{{visibility:hidden}}}}"
        )
        rules.append(f".f{number}{{animation:k{number} {total:.1f}s step-end infinite}}")
    still = f".f{{visibility:hidden}}.f{len(seconds) - 1}{{visibility:visible}}"
    return f"{still}@media(prefers-reduced-motion:no-preference){{{''.join(rules)}}}"


# --- a terminal ------------------------------------------------------------------------------------------------------


class Terminal:
    """A shell in a tmux server of its own. Screens are awaited, never slept for."""

    def __init__(self, home: Path, columns: int, rows: int, **variables: str) -> None:
        self._socket = f"recording-{uuid.uuid4().hex[:12]}"
        given = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "TERM": "tmux-256color",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "PS1": "$ ",
            "HISTFILE": "/dev/null",
            "ANTHROPIC_API_KEY": "unused",
            "INTERLINGUA_DEBUG_SCRIPT": str(home / "script.json"),
            "INTERLINGUA_MODEL": "debug/script",
            **variables,
        }
        shell = ["env", "-i", *(f"{name}={value}" for name, value in given.items()), "bash", "--norc", "--noprofile"]
        size = ("-x", str(columns), "-y", str(rows), "-c", str(home / "tides"))
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "it", *size, *shell)
        self._tmux("set-option", "-g", "default-terminal", "tmux-256color")
        self.wait(PROMPT)

    def _tmux(self, *arguments: str) -> str:
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        command = ["tmux", "-u", "-L", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-t", "it", "-l", text)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "it", *keys)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-e", "-N", "-t", "it")

    def wait(self, pattern: str) -> str:
        """The screen with its escapes, once its text has this pattern; `$` is the end of a line."""
        until = time.monotonic() + TIMEOUT
        while True:
            text = self._tmux("capture-pane", "-p", "-t", "it")
            if re.search(pattern, text, re.MULTILINE):
                return self.screen()
            if time.monotonic() > until:
                sys.exit(f"the screen never showed {pattern!r}; it shows:\n{text}")
            time.sleep(0.05)

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], capture_output=True, check=False)


# --- scenes ----------------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """Types a text, waits for a pattern, and keeps the screen as a frame for some seconds; 0: it is not kept."""

    text: str = ""
    wait: str = ""
    seconds: float = 1.5
    keys: tuple[str, ...] = ("Enter",)
    settled: bool = True  # whether to wait until the screen rests


class Scene(NamedTuple):
    """A recording: what is done, in a terminal of so many rows. `script` are the answers of the model."""

    title: str
    steps: tuple[Step, ...]
    rows: int = 40
    script: tuple[Any, ...] = ()
    widths: tuple[int, ...] = WIDTHS
    theme: str = "dark"
    variables: dict[str, str] = {}
    large: bool = False  # whether it needs a file that takes a while


PROMPT = r"^\$ ?$"
RAINBOW = (
    "## How a rainbow forms\n\nSunlight enters a drop, is **reflected once** at its back, and leaves it bent by "
    "about *42°*: ",
    "red a little more than blue.\n\n"
    "1. Each drop sends one colour to your eye.\n2. Drops at the same angle make a circle; ",
    "the ground hides half of it.\n\n| colour | angle |\n|---|---:|\n| red | 42.4° |\n| blue | 40.5° |\n\n",
    "The angle follows from `n = 1.33`:\n\n```python\nfrom math import asin, degrees, sqrt\n\n"
    'def angle(n):\n    """Of the brightest ray."""\n    i = asin(sqrt((4 - n**2) / 3))\n'
    "    return degrees(4 * asin(sqrt((4 - n**2) / 3) / n) - 2 * i)\n```\n",
)
TIDES = '''\
"""High water at Bergen, from the harmonics of the station."""

from datetime import datetime, timedelta

OFFSET = timedelta(hours=1)  # of the local time to UTC


def local(moment: datetime) -> datetime:
    return moment + OFFSET
'''
FIXED = "    return moment.replace(tzinfo=UTC).astimezone(BERGEN)\n"
CHECK = "python3 -c 'import tides; print(tides.local(tides.datetime(2026, 7, 1, 4, 12)))'"
REPAIR = (
    {
        "thinking": "The offset is constant, so summer time is ignored. Let me read the file first.",
        "text": "The table is an hour late **only in summer**, so I look at how times are converted.",
        "calls": [{"name": "read", "arguments": {"path": "tides.py"}}],
    },
    {
        "text": "`OFFSET` is a constant hour; Norway has two from March to October. A zone knows that.",
        "calls": [
            {
                "name": "edit",
                "arguments": {
                    "path": "tides.py",
                    "edits": [
                        {
                            "oldText": "from datetime import datetime, timedelta\n\n"
                            "OFFSET = timedelta(hours=1)  # of the local time to UTC\n",
                            "newText": "from datetime import UTC, datetime\nfrom zoneinfo import ZoneInfo\n\n"
                            'BERGEN = ZoneInfo("Europe/Oslo")\n',
                        },
                        {"oldText": "    return moment + OFFSET\n", "newText": FIXED},
                    ],
                },
            }
        ],
    },
    {"text": "Now I check a day in July.", "calls": [{"name": "exec", "arguments": {"command": CHECK}}]},
    {
        "text": "High water on 1 July is at **06:12** now, as the harbour office says.\n\n"
        "| | before | after |\n|---|---|---|\n| January | +1 h | +1 h |\n| July | +1 h | **+2 h** |\n",
        "usage": {"input": 4180, "output": 212},
    },
)
ASKED = "The tide table is an hour late in summer. Find out why and fix it."
INDEX = (Step("il archive add claude-code", PROMPT, 0), Step("clear", PROMPT, 0))


def shown(command: str) -> tuple[Step, ...]:
    """A command, and what it prints."""
    return (Step(command, PROMPT),)


SCENES = {
    "run": Scene(
        "il run: Markdown while it is written",
        (
            Step('il run "How does a rainbow form?"', r"about 42°", 1, settled=False),
            Step(wait=r"same angle", seconds=1, keys=(), settled=False),
            Step(wait=r"ground hides", seconds=1, keys=(), settled=False),
            Step(wait=r"40\.5", seconds=1, keys=(), settled=False),
            Step(wait=r"debug/script · .*\n\$ ?$", seconds=6, keys=()),
        ),
        script=({"text": RAINBOW, "delay": 0.8},),
        rows=44,
    ),
    "chat": Scene(
        "il chat: a tool that asks first, and what it changed",
        (
            Step("il chat", r"\$0\.0000", 1),
            Step(ASKED, "", 1, ()),
            Step(wait=r"allow edit\?", seconds=4),
            Step("y", r"allow exec\?", 3),
            Step("y", r"harbour office[\s\S]*July.*\+2 h", 4),
            Step("/diff 1", r"differences", 6),
        ),
        script=REPAIR,
        rows=36,
    ),
    "picker": Scene(
        "il chat --resume: picking a session",
        (
            Step("il chat --resume", r"type to search", 2),
            Step("tide", r"session › tide", 4, ()),
        ),
    ),
    "logs": Scene("il logs: the runs that were kept", shown("il logs")),
    "archive": Scene(
        "il archive search: every program's conversations",
        (*INDEX, *shown("il archive search summer time")),
    ),
    "totals": Scene(
        "il archive totals: tokens and cost, each answer counted once",
        (*INDEX, *shown("il archive totals")),
    ),
    "models": Scene("il models: what you can use, and what it costs", shown("il models sonnet")),
    "show": Scene("il show: a conversation to read", shown("il show repair.jsonl"), rows=60),
    "stats": Scene("il stats: messages, tokens, cost, tools", shown("il stats ~/.claude/projects/*/*.jsonl")),
    "doctor": Scene(
        "il doctor: the installation", shown("il doctor"), variables={"ANTHROPIC_API_KEY": "", "INTERLINGUA_MODEL": ""}
    ),
    "convert": Scene(
        "il convert: bytes, rate and time left",
        (Step("il convert big.jsonl -t gemini -o out.jsonl", r"MB/s", settled=False),),
        large=True,
    ),
    "theme-light": Scene(
        "The theme light, on white",
        (
            Step("il chat --theme light", r"\$0\.0000", 0),
            Step(ASKED, r"allow edit\?", 0),
            Step("y", r"allow exec\?", 0),
            Step("y", r"harbour office[\s\S]*July.*\+2 h", 4),
        ),
        script=REPAIR,
        rows=60,
        widths=(80,),
        theme="light",
    ),
    "no-color": Scene("NO_COLOR", shown("il show repair.jsonl"), widths=(80,), variables={"NO_COLOR": "1"}, rows=60),
    "pipe": Scene("In a pipe", shown("il show repair.jsonl | cat"), widths=(80,), rows=60),
    "dumb": Scene("TERM=dumb", shown("TERM=dumb il show repair.jsonl"), widths=(80,), rows=60),
    "ascii": Scene(
        "A terminal that knows ASCII alone",
        shown("il show repair.jsonl; il doctor"),
        widths=(80,),
        rows=60,
        variables={"LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
}

# What differs from run to run, and text of the same width in its place.
STEADY = (
    (re.compile(r"(?<=session )[0-9a-f]{8}"), "5f3a9c1e"),
    (re.compile(r"(?<=  )\d\.\d(?= s\b)"), "0.2"),
    (re.compile(r"(?<=thought for )\d\.\d(?= s\b)"), "0.3"),
)


# --- the home folder -------------------------------------------------------------------------------------------------

DAY = 1_772_440_000  # 2 March 2026, in seconds


def furnish(home: Path, scene: Scene) -> None:
    """Sessions, runs, another program's history and a few files: the same each time."""
    work = home / "tides"
    work.mkdir(parents=True)
    (work / "tides.py").write_text(TIDES)
    _histories(home / ".claude" / "projects" / "-home-ada-tides")
    (work / "repair.jsonl").write_bytes((home / ".claude/projects/-home-ada-tides/9b1f6a52.jsonl").read_bytes())
    _sessions(home / ".interlingua")
    (home / "script.json").write_text(json.dumps(scene.script))
    turns = [{"from": name, "value": "high water and low water " * 40} for name in ("human", "gpt")]
    (work / "big.jsonl").write_text(f"{json.dumps({'conversations': turns})}\n" * (10_000 if scene.large else 1))


def _histories(folder: Path) -> None:
    where = {"cwd": "/home/ada/tides"}
    look = {"type": "tool_use", "id": "call_1", "name": "Read", "input": {"file_path": "tides.py"}}
    run = {"type": "tool_use", "id": "call_2", "name": "Bash", "input": {"command": "python3 -m pytest -q"}}
    thought = {"type": "thinking", "thinking": "A constant offset cannot know of summer time.", "signature": "c2ln"}
    texts = [{"type": "text", "text": "The offset is **constant**, so summer time is missing:"}, look]
    repaired = (
        'Fixed: times are converted with `ZoneInfo("Europe/Oslo")`, which knows summer time.\n\n'
        "- January stays at +1 h\n- July is at +2 h now\n\n```python\nreturn moment.astimezone(BERGEN)\n```"
    )
    lines = [
        asked("u1", None, ASKED, "2026-03-02T08:00:00.000Z"),
        answered("a1", "u1", [thought, *texts], at="2026-03-02T08:00:05.000Z", input=2140, output=96),
        result("r1", "a1", "call_1", "OFFSET = timedelta(hours=1)\n\ndef local(moment):\n    return moment + OFFSET"),
        answered("a2", "r1", [run], at="2026-03-02T08:00:20.000Z", input=2390, output=240),
        result("r2", "a2", "call_2", "4 passed in 0.12s"),
        answered("a3", "r2", repaired, at="2026-03-02T08:00:31.000Z", input=2710, output=128),
    ]
    write_lines(folder / "9b1f6a52.jsonl", [{**line, **where} for line in lines])
    lines = [
        asked("v1", None, "Which harbours change to summer time on another day?", "2026-02-27T14:10:00.000Z"),
        answered(
            "b1", "v1", "None in Europe: summer time begins on the last Sunday of March everywhere in the EU.",
            at="2026-02-27T14:10:08.000Z", model="claude-opus-4-5", input=880, output=61,
        ),
    ]  # fmt: skip
    write_lines(folder / "c07d33e8.jsonl", [{**line, **where} for line in lines])


def _sessions(home: Path) -> None:
    """Runs and chats with the times of a morning."""
    titles = {
        "run": (
            ("3e8f10a7c2d4", "anthropic/claude-sonnet-4-5", "Explain the harmonic constants M2 and S2"),
            ("a41c77e09b35", "openai/gpt-5-mini", "A regular expression for ISO 8601 durations"),
            ("77d0c9e4b128", "google/gemini-2.5-flash", "潮汐表の英語の題名を三つ提案してください"),
            (
                "0c5be1f2a996",
                "ollama/llama3.2",
                "Summarize CHANGELOG.md in a sentence, for people who read no further",
            ),
        ),
        "main": (
            ("5f3a9c1e7b02", "anthropic/claude-sonnet-4-5", "The tide table is an hour late in summer"),
            ("81b2e6d04fa3", "openai/gpt-5-mini", "Draw the tide as a curve in the terminal"),
            ("d92f4c7710be", "anthropic/claude-sonnet-4-5", "Why does the nightly job fail on the first of the month?"),
            ("2ab7f0c3e651", "google/gemini-2.5-flash", "Translate the tide report to Norwegian"),
        ),
    }
    for agent, rows in titles.items():
        for number, (id, model, title) in enumerate(rows):
            provider, _, name = model.partition("/")
            moment = DAY - number * 5_460
            at = moment * 1000
            usage = il.Usage(
                input=900,
                output=120,
                cache_read=0,
                cache_write=0,
                total_tokens=1020,
                cost=il.Cost(input=0.0027, output=0.0018, total=0.0045),
            )
            answer = il.AssistantMessage(
                content="Done.", provider=provider, model=name, usage=usage, timestamp=at, stop_reason="stop"
            )
            model_of = il.ModelDescriptor(id=name, provider=provider)
            messages = (il.UserMessage(content=title, timestamp=at), answer)
            entries = tuple(il.Entry(message=message) for message in messages)
            with save(il.Conversation(model=model_of, entries=entries), id=id, agent=agent, home=home) as session:
                where = session.where
            os.utime(where, (moment, moment))


# --- recording -------------------------------------------------------------------------------------------------------


def record(scene: Scene, columns: int) -> list[tuple[list[Row], float]]:
    home = Path(tempfile.gettempdir()) / "il-recordings"  # ids in the archive are made from paths
    shutil.rmtree(home, ignore_errors=True)
    furnish(home, scene)
    terminal = Terminal(home, columns, scene.rows, **scene.variables)
    try:
        return [*_frames(terminal, scene)]
    finally:
        terminal.close()
        shutil.rmtree(home, ignore_errors=True)


def _frames(terminal: Terminal, scene: Scene) -> Iterator[tuple[list[Row], float]]:
    for step in scene.steps:
        terminal.type(step.text)
        if step.text:
            terminal.wait(re.escape(step.text[:20]))
        if step.keys:
            terminal.press(*step.keys)
        screen = terminal.wait(step.wait) if step.wait else terminal.screen()
        while step.settled:
            time.sleep(0.4)
            before, screen = screen, terminal.screen()
            if screen == before:
                break
        for pattern, steady in STEADY:
            screen = pattern.sub(steady, screen)
        if step.seconds:
            yield rows_of(screen), step.seconds


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or SCENES:
        scene = SCENES[name]
        for columns in scene.widths:
            frames = record(scene, columns)
            (IMAGES / f"{name}-{columns}.svg").write_text(svg(frames, columns, scene.theme, scene.title), "utf-8")
            print(f"{name}-{columns}: {len(frames)} frames")


if __name__ == "__main__":
    main()
