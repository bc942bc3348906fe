"""What commands print: results on standard output, losses and problems on standard error."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..chat.terminal import safe_console
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
