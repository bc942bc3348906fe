"""`interlingua diff A B`: compares two conversations of any formats; exit code 1 if they differ."""

import sys

import click
from rich.text import Text

from ..conversion import sources
from ..sessions.comparison import Difference, differences
from . import output
from .convert import NAMES
from .options import JSON


@click.command("diff")
@click.argument("first")
@click.argument("second")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of both; each is detected if not given.")
@click.option("--all", "everything", is_flag=True, help="Also compare bookkeeping (timestamps, usage, extras).")
@JSON
def command(first: str, second: str, origin: str | None, everything: bool, as_json: bool) -> None:
    """Compare two conversations of any formats."""
    a, b = sources.only_conversation(first, origin), sources.only_conversation(second, origin)
    rows = list(differences(a, b, everything=everything))
    if as_json:
        output.print_json([{"kind": row.kind, "a": row.a, "b": row.b, "changes": row.changes} for row in rows])
    else:
        _show(rows)
    if rows:
        sys.exit(1)


def _show(rows: list[Difference]) -> None:
    out = output.console()
    if not rows:
        out.print("no differences", style="green")
    for row in rows:
        out.print(Text(row.heading, style="bold"))
        for line in row.changes:
            colour = {"-": "red", "+": "green"}.get(line[:1], "dim")
            out.print(Text(f"  {line}", style=colour))
