"""Where a command's output goes: atomically into files, or to standard output; reports to standard error."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..losses import Loss
from .sources import Problem


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all: written beside its place, synced, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def console(*, err: bool = False) -> Console:
    """A quiet console: colours only on a terminal, no wrapping of what programs may read."""
    terminal = (sys.stderr if err else sys.stdout).isatty()
    return Console(stderr=err, highlight=False, soft_wrap=True, width=None if terminal else _WIDE)


_WIDE = 4000  # columns, where there is no screen: nothing is cut short or broken


def say_json(value: Any) -> None:
    from .. import jsontext

    sys.stdout.buffer.write(jsontext.write(value) + b"\n")


def loss_json(loss: Loss) -> dict[str, str]:
    return {"path": loss.path, "what": loss.what, "why": loss.why, "severity": loss.severity}


def report_losses(name: str, losses: Sequence[Loss], *, records: bool = False) -> None:
    """The losses of one conversion, grouped for a reader; bookkeeping is counted, not listed."""
    told = [loss for loss in losses if records or loss.severity != "record"]
    kept_quiet = len(losses) - len(told)
    out = console(err=True)
    if not told:
        out.print(Text.assemble((name, "bold"), ": nothing lost", _quietly(kept_quiet)))
        return
    out.print(Text.assemble((name, "bold"), f": {len(told)} lost", _quietly(kept_quiet)))
    table = Table(box=None, show_header=False, pad_edge=True)
    for loss in told:
        table.add_row(Text(loss.severity, style=_COLOURS[loss.severity]), Text(loss.path), Text(loss.why, style="dim"))
    out.print(table)


_COLOURS = {"dropped": "red", "weakened": "yellow", "record": "dim"}


def _quietly(count: int) -> str:
    return f" (and {count} bookkeeping fields that requests do not carry)" if count else ""


def report_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        click.echo(f"interlingua: {problem.name}: {problem.message}", err=True)
