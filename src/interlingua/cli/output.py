"""What commands print: results on standard output, losses and problems on standard error."""

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..chat.terminal import behind, safe_console
from ..conversion.sources import Problem
from ..values.errors import FormatError
from ..values.losses import Loss
from ..values.spelling import unknown


def console(*, err: bool = False) -> Console:
    """A console with colours and wrapping only on a terminal."""
    terminal = (sys.stderr if err else sys.stdout).isatty()
    return safe_console(stderr=err, soft_wrap=True, width=None if terminal else _WIDE)


class Group(click.Group):
    """A group of commands that suggests the one that was meant."""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = arguments[0], self.list_commands(context)
        if name not in known and not name.startswith("-"):
            listed = f"`{context.command_path} --help` lists them"
            context.fail(unknown("command", name, known, listed=listed))
        return super().resolve_command(context, arguments)


Group.group_class = Group  # of groups within

_WIDE = 4000  # columns without a terminal: nothing is truncated or wrapped


@contextlib.contextmanager
def paged(pager: bool | None = None) -> Iterator[Console]:
    """A console whose output goes through the pager on a terminal; `pager` forces or forbids it.

    `less -RFX` shows what fits on the screen and ends; only what is longer waits for keys. `PAGER` names another.
    """
    command = _pager() if pager or (pager is None and _is_screen()) else None
    if command is None:
        yield safe_console()
        return
    size = shutil.get_terminal_size()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8", errors="backslashreplace")
    assert process.stdin is not None
    legacy = not (behind(sys.stdout).encoding or "").lower().startswith("utf")
    colours = "NO_COLOR" not in os.environ
    out = safe_console(
        file=process.stdin, force_terminal=True, no_color=not colours, width=size.columns, safe_box=legacy
    )
    try:
        yield out
    except BrokenPipeError:
        pass  # left before the end
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        while True:
            try:
                process.wait()
                break
            except KeyboardInterrupt:
                continue  # Ctrl-C is the pager's: it stops a search


def _is_screen() -> bool:
    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _pager() -> list[str] | None:
    given = os.environ.get("PAGER")
    words = shlex.split(given) if given is not None else ["less"]
    if not words or words[0] == "cat" or shutil.which(words[0]) is None:
        return None
    return ["less", "-RFX", *words[1:]] if Path(words[0]).name == "less" else words


class Column(NamedTuple):
    """A column of a table. Those with the highest `rank` are left out first where the terminal is narrow."""

    name: str
    right: bool = False
    rank: int = 0


def table(out: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table that fits the terminal; in a pipe all of it, without padding at the ends of lines."""
    widths = [max(map(cell_len, (column.name, *cells))) for column, *cells in zip(columns, *rows, strict=True)]
    shown = list(range(len(columns)))
    while out.is_terminal and sum(widths[at] + 2 for at in shown) - 2 > out.width:
        last = max(shown, key=lambda at: (columns[at].rank, at))
        if not columns[last].rank:
            break
        shown.remove(last)
    head = [column.name for column in columns]
    for number, row in enumerate((head, *rows)):
        cells = (_cell(row[at], widths[at], columns[at].right) for at in shown)
        out.print(Text("  ".join(cells).rstrip(), style="" if number else "bold"), soft_wrap=True)
    if len(shown) < len(columns):
        hidden = ", ".join(column.name for at, column in enumerate(columns) if at not in shown)
        console(err=True).print(Text(f"hidden in this width: {hidden}", "dim"))


def _cell(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def typed_in(*, line: bool = False) -> str:
    """The text on standard input, or its first line. Raises `FormatError` if it is not UTF-8."""
    try:
        return sys.stdin.readline() if line else sys.stdin.read()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"standard input is not UTF-8 (byte {error.start:,}); convert it first, for example with iconv", "-"
        ) from None


def say_json(value: Any) -> None:
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


REMEDY = "--report lists what was lost, --strict refuses"


def note_losses(name: str, losses: Sequence[Sequence[Loss]], remedy: str = REMEDY) -> None:
    """Prints one line: how much was lost in these conversations, and how to list it."""
    counts = Counter(loss.severity for some in losses for loss in some)
    text = ", ".join(f"{counts[severity]} {severity}" for severity in ("dropped", "weakened") if counts[severity])
    if not text:
        return
    lossy = sum(any(loss.severity != "record" for loss in some) for some in losses)
    where = f" in {lossy} of {len(losses)} conversations" if len(losses) > 1 else ""
    console(err=True).print(Text(f"{name}: {text}{where}; {remedy}", "yellow"))


def report_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        print(f"interlingua: {problem.name}: {problem.message}", file=sys.stderr)


def note(text: str, *, style: str = "dim") -> None:
    """Prints a line beside the result, on standard error."""
    console(err=True).print(Text(text, style))
