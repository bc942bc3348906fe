"""Output of commands: results on standard output, losses and problems on standard error."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..chat.terminal import LOOK_ALIKES, behind, safe_console
from ..conversion.sources import Source, SourceProblem
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Loss

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..chat.themes import Theme


def console(*, err: bool = False, theme: "Theme | None" = None) -> Console:
    """A console with colours and wrapping only on a terminal; in the user's theme, if no other is given."""
    terminal = (sys.stderr if err else sys.stdout).isatty()
    return safe_console(theme=theme, stderr=err, soft_wrap=not terminal, width=None if terminal else _WIDE)


_WIDE = 4000  # columns without a terminal: nothing is truncated or wrapped


@contextlib.contextmanager
def paged(pager: bool | None = None) -> Iterator[Console]:
    """Returns a console that pages its output on a terminal; `pager` forces or forbids it.

    `less -RFX` prints what fits on the screen and exits; only longer output waits for keys. `PAGER` overrides it.
    """
    command = _pager() if pager or (pager is None and _is_screen()) else None
    if command is None:
        yield safe_console() if sys.stdout.isatty() else console()
        return
    size = shutil.get_terminal_size()
    # in the terminal's encoding, which the pager passes through
    encoding = behind(sys.stdout).encoding or "utf-8"
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding=encoding, errors=LOOK_ALIKES)
    assert process.stdin is not None
    out = safe_console(file=process.stdin, force_terminal=True, width=size.columns)
    out.on_broken_pipe = _left  # type: ignore[method-assign]  # rich would end the program
    try:
        yield out
    except BrokenPipeError:
        pass  # the user left before the end
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        while True:
            try:
                process.wait()
                break
            except KeyboardInterrupt:
                continue  # Ctrl-C belongs to the pager: it stops a search


def _left() -> None:
    raise BrokenPipeError


def _is_screen() -> bool:
    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _pager() -> list[str] | None:
    given = os.environ.get("PAGER")
    command = shlex.split(given) if given is not None else ["less"]
    if not command or command[0] == "cat" or shutil.which(command[0]) is None:
        return None
    return ["less", "-RFX", *command[1:]] if Path(command[0]).name == "less" else command


class Column(NamedTuple):
    """A column of a table. On a narrow terminal `cut` ones are truncated first, then those of the highest `rank`
    dropped.

    A `whole` one has names that are copied, so it is never cut: a name that is too long gets a line of its own.
    """

    name: str
    right: bool = False
    rank: int = 0
    cut: bool = False
    whole: bool = False


_SHORTEST = 24  # minimum cells of a column before others are dropped
_NAMES = 48  # cells of a `whole` column for which others are dropped


def table(out: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table that fits the terminal; in a pipe in full, without trailing padding."""
    widths = [max(map(cell_len, (column.name, *cells))) for column, *cells in zip(columns, *rows, strict=True)]
    shown = list(range(len(columns)))
    room = out.width if out.is_terminal else sys.maxsize

    def excess(widths: list[int]) -> int:
        return sum(widths[at] + 2 for at in shown) - 2 - room

    least = [
        min(width, _SHORTEST if column.cut else _NAMES if column.whole else width)
        for column, width in zip(columns, widths, strict=True)
    ]
    while excess(least) > 0:
        last = max(shown, key=lambda at: (columns[at].rank, at))
        if not columns[last].rank:
            break
        shown.remove(last)
    for at in shown:
        if columns[at].cut or columns[at].whole:
            widths[at] = max(1, widths[at] - max(0, excess(widths)))
    head = [column.name for column in columns]
    for number, row in enumerate((head, *rows)):
        long = [at for at in shown if columns[at].whole and cell_len(row[at]) > widths[at]]
        for at in long:
            out.print(Text(row[at]), soft_wrap=True)
        cells = (_cell("" if at in long else row[at], widths[at], columns[at].right) for at in shown)
        out.print(Text("  ".join(cells).rstrip(), style="" if number else "bold"), soft_wrap=True)
    if len(shown) < len(columns):
        hidden = ", ".join(column.name for at, column in enumerate(columns) if at not in shown)
        out.print(Text(f"(no room for: {hidden})", "dim"))


def _cell(text: str, width: int, right: bool) -> str:
    if cell_len(text) > width:
        text = f"{set_cell_size(text, width - 1)}…"
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


@contextlib.contextmanager
def progress(label: str, found: Sequence[Source]) -> Iterator[Callable[[int], None]]:
    """A progress bar with bytes, rate and time left, for large inputs on a terminal; yields its byte counter."""
    total = sum(map(size_of, found))
    if not sys.stderr.isatty() or total < _LARGE:
        yield lambda count: None
        return
    with progress_bar() as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)


def progress_bar() -> "Progress":
    """A bar with description, bytes, rate and time left, as wide as the terminal allows; the bar shrinks first."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    out = console(err=True)
    room = out.width - _FIGURES
    bar = (BarColumn(bar_width=min(40, room)),) if room >= _SHORTEST_BAR else ()
    columns = (TextColumn("{task.description}"), *bar, DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=out, transient=True)


_FIGURES = 60  # cells that the figures beside a bar may need
_SHORTEST_BAR = 8


_LARGE = 8 << 20  # bytes from which a bar is shown


def size_of(source: Source) -> int:
    return source.path.stat().st_size if source.path is not None and source.path.exists() else 0


def typed_in(*, line: bool = False) -> str:
    """The text on standard input, or its first line. Raises `FormatError` if it is not UTF-8."""
    try:
        return sys.stdin.readline() if line else sys.stdin.read()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"standard input is not UTF-8 (byte {error.start:,}); convert it first, for example with iconv", "-"
        ) from None


def confirm(question: str) -> None:
    """Asks on the terminal; raises after a no, and where nobody can answer."""
    if not sys.stdin.isatty():
        raise InterlinguaError(f"{question} not confirmed without a terminal; add --yes")
    click.confirm(question, abort=True, err=True)


def or_standard_output(_context: click.Context, _parameter: click.Parameter, place: Any) -> Any:
    """`-o -` is standard output, as without -o."""
    return None if str(place) == "-" else place


def print_json(value: Any) -> None:
    from ..values import jsontext

    sys.stdout.buffer.write(jsontext.write(value) + b"\n")


def loss_json(loss: Loss) -> dict[str, str]:
    return {"path": loss.path, "what": loss.what, "why": loss.why, "severity": loss.severity}


def report_losses(name: str, losses: Sequence[Loss], *, records: bool = False) -> None:
    """Prints the losses of one conversion; bookkeeping is counted, not listed."""
    reported = [loss for loss in losses if records or loss.severity != "record"]
    hidden = len(losses) - len(reported)
    out = console(err=True)
    if not reported:
        out.print(Text.assemble((name, "bold"), ": nothing lost", _hidden_note(hidden)))
        return
    out.print(Text.assemble((name, "bold"), f": {len(reported)} lost", _hidden_note(hidden)))
    table = Table(box=None, show_header=False, pad_edge=True)
    for loss in reported:
        table.add_row(Text(loss.severity, style=_COLOURS[loss.severity]), Text(loss.path), Text(loss.why, style="dim"))
    out.print(table)


_COLOURS = {"dropped": "red", "weakened": "yellow", "record": "dim"}


def _hidden_note(count: int) -> str:
    return f" (and {count} bookkeeping fields that requests do not carry)" if count else ""


EXAMPLES = 3  # examples per kind of loss in a summary
MAX_GROUPS = 500  # maximum kinds of losses in a summary
_INDEX = re.compile(r"\[\d+\]")
_OTHER = ("$", "further kinds of losses")


class LossSummary:
    """Losses of many conversations, grouped by path and reason, with a few examples of each group."""

    def __init__(self) -> None:
        self.conversations = 0
        self.lossy = 0
        self.severities: Counter[str] = Counter()
        self.groups: dict[tuple[str, str, str], tuple[int, list[str]]] = {}
        self.only: tuple[str, tuple[Loss, ...]] | None = None  # the losses of the first conversation, in full

    def add(self, name: str, losses: tuple[Loss, ...]) -> None:
        """Counts the losses of one conversation."""
        self.conversations += 1
        self.lossy += any(loss.severity != "record" for loss in losses)
        self.only = (name, losses) if self.only is None else self.only
        for loss in losses:
            self.count(name, loss)

    def count(self, name: str, loss: Loss) -> None:
        """Counts one loss."""
        self.severities[loss.severity] += 1
        self._count((loss.severity, _INDEX.sub("[]", loss.path), loss.why), 1, [f"{name} {loss.path}"])

    def merge(self, other: "LossSummary") -> None:
        """Adds the counts of another summary after this one's."""
        self.conversations += other.conversations
        self.lossy += other.lossy
        self.severities += other.severities
        self.only = other.only if self.only is None else self.only
        for key, (count, examples) in other.groups.items():
            self._count(key, count, examples)

    def _count(self, key: tuple[str, str, str], count: int, examples: list[str]) -> None:
        if key not in self.groups and len(self.groups) >= MAX_GROUPS:
            key = (key[0], *_OTHER)
        before, known = self.groups.get(key, (0, []))
        self.groups[key] = (before + count, known + examples[: EXAMPLES - len(known)])

    def as_json(self) -> dict[str, Any]:
        groups = [[*key, count, examples] for key, (count, examples) in self.groups.items()]
        only = [self.only[0], [[x.path, x.what, x.why, x.severity] for x in self.only[1]]] if self.only else None
        counts = [self.conversations, self.lossy, dict(self.severities)]
        return {"counts": counts, "groups": groups, "only": only if self.conversations == 1 else None}

    @classmethod
    def from_json(cls, value: Any) -> "LossSummary":
        made = cls()
        made.conversations, made.lossy, severities = value["counts"]
        made.severities.update(severities)
        made.groups = {(a, b, c): (count, examples) for a, b, c, count, examples in value["groups"]}
        if value["only"]:
            name, losses = value["only"]
            made.only = (name, tuple(Loss(*loss) for loss in losses))
        return made


REMEDY = "--report lists what was lost, --strict refuses"


def note_losses(name: str, losses: Sequence[Sequence[Loss]], remedy: str = REMEDY) -> None:
    """Prints one line: how much was lost in these conversations, and how to list it."""
    summary = LossSummary()
    for some in losses:
        summary.add("", tuple(some))
    note_summary(name, summary, remedy)


def note_summary(name: str, losses: LossSummary, remedy: str = REMEDY) -> None:
    """The same for a summary."""
    counts = losses.severities
    text = ", ".join(f"{counts[severity]} {severity}" for severity in ("dropped", "weakened") if counts[severity])
    if not text:
        return
    where = f" in {losses.lossy} of {losses.conversations} conversations" if losses.conversations > 1 else ""
    console(err=True).print(Text(f"{name}: {text}{where}; {remedy}", "yellow"))


def report_summary(name: str, target: str, losses: LossSummary, *, records: bool = False) -> None:
    """Prints the losses of one conversation, or of many: grouped by path and reason, with examples."""
    if losses.only is not None and losses.conversations == 1:
        first, found = losses.only
        report_losses(f"{first} → {target}", found, records=records)
        return
    hidden = 0 if records else losses.severities["record"]
    lost = losses.severities.total() - hidden
    out = console(err=True)
    where = (
        f": {lost:,} lost in {losses.lossy:,} of {losses.conversations:,} conversations" if lost else ": nothing lost"
    )
    out.print(Text.assemble((f"{name} → {target}", "bold"), where, _hidden_note(hidden)))
    groups = [(key, group) for key, group in losses.groups.items() if records or key[0] != "record"]
    table = Table(box=None, show_header=False, pad_edge=True)
    for (severity, path, why), (count, examples) in sorted(groups, key=lambda item: (_ORDER[item[0][0]], -item[1][0])):
        table.add_row(Text(severity, _COLOURS[severity]), Text(f"{count:,} ×"), Text(path), Text(why, "dim"))
        for example in examples:
            table.add_row("", "", Text(f"  {example}", "dim"), "")
    if groups:
        out.print(table)


_ORDER = {"dropped": 0, "weakened": 1, "record": 2}


MAX_SHOWN = 50
MAX_ALIKE = 10  # a folder may have many files that are no conversations


def report_problems(
    problems: Sequence[SourceProblem], count: int | None = None, *, alike: int | None = MAX_ALIKE
) -> None:
    """Prints failures, one line each; of many, and of more than `alike` with the same message, the first ones and
    their number.
    """
    shown = problems if count is None else problems[:MAX_SHOWN]
    messages = Counter[str]()
    for problem in shown:
        messages[problem.message] += 1
        if alike is None or messages[problem.message] <= alike:
            message = problem.message.removesuffix(" (at $)")  # the path of the whole value
            print(f"interlingua: {problem.name}: {message}", file=sys.stderr)
    for message, number in messages.items():
        if alike is not None and number > alike:
            print(f"interlingua: … and {number - alike:,} more: {message}", file=sys.stderr)
    if count is not None and count > len(shown):
        print(f"interlingua: … and {count - len(shown):,} more; --on-error keep writes them to a file", file=sys.stderr)


def plural(count: int, noun: str) -> str:
    """Returns the noun as it stands after a count."""
    return noun if count == 1 else f"{noun}s"


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {plural(count, noun)}"


def cost(dollars: float | None, unpriced: int) -> str:
    """Returns a sum, and how many answers have no price, so that it is too low."""
    if dollars is None:
        return "no price"
    return f"${dollars:,.4f}" + (f" + {unpriced:,} without a price" if unpriced else "")


def note(text: str, *, style: str = "dim") -> None:
    """Prints a line to standard error, beside the result."""
    console(err=True).print(Text(text, style))
