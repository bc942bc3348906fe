"""`interlingua diff A B`: compares two conversations of any formats; exit code 1 if they differ."""

import difflib
import json
import sys
from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from .. import conversion
from ..conversion import sources
from ..sessions.comparison import aligned, comparable
from ..values.errors import InterlinguaError
from ..values.messages import text_of
from ..values.request import Conversation
from . import output
from .convert import NAMES


@click.command("diff")
@click.argument("first")
@click.argument("second")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of both; each is detected if not given.")
@click.option("--all", "everything", is_flag=True, help="Also compare bookkeeping (timestamps, usage, extras).")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(first: str, second: str, origin: str | None, everything: bool, as_json: bool) -> None:
    """Compare two conversations of any formats."""
    a, b = _one(first, origin), _one(second, origin)
    rows = list(_compare(a, b, everything))
    if as_json:
        output.say_json([{"kind": kind, "a": at, "b": bt, "changes": changes} for kind, at, bt, changes in rows])
    else:
        _show(rows)
    if rows:
        sys.exit(1)


def _one(name: str, origin: str | None) -> Conversation:
    problems: list[sources.Problem] = []
    (source,) = sources.expand([name])
    documents = list(sources.documents(source, origin, problems))
    if problems or len(documents) != 1:
        why = problems[0].message if problems else f"{len(documents)} conversations; give a file with one"
        raise InterlinguaError(f"{name}: {why}")
    return conversion.decode(documents[0].data, origin or documents[0].dialect)


Row = tuple[str, int | None, int | None, list[str]]


def _compare(a: Conversation, b: Conversation, everything: bool) -> Iterator[Row]:
    before, after = text_of(a.system), text_of(b.system)
    if before != after:
        yield "changed", None, None, _lines(before, after)
    left = [comparable(message, everything=everything) for message in a.messages]
    right = [comparable(message, everything=everything) for message in b.messages]
    for kind, at, bt in aligned(left, right):
        if at is not None and bt is not None:
            if kind == "changed":
                yield kind, at, bt, _lines(_pretty(left[at]), _pretty(right[bt]))
        elif at is not None:
            yield kind, at, None, [f"- {line}" for line in _pretty(left[at]).splitlines()]
        elif bt is not None:
            yield kind, None, bt, [f"+ {line}" for line in _pretty(right[bt]).splitlines()]


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _lines(a: str, b: str) -> list[str]:
    diff = difflib.unified_diff(a.splitlines(), b.splitlines(), lineterm="", n=1)
    return [line for line in diff if not line.startswith(("---", "+++", "@@"))]


def _show(rows: list[Row]) -> None:
    out = output.console()
    if not rows:
        out.print("no differences", style="green")
    for kind, at, bt, changes in rows:
        places = " ↔ ".join(
            "system" if at is bt is None else "–" if place is None else f"[{place}]" for place in (at, bt)
        )
        out.print(Text(f"{kind} {places}", style="bold"))
        for line in changes:
            colour = {"-": "red", "+": "green"}.get(line[:1], "dim")
            out.print(Text(f"  {line}", style=colour))
