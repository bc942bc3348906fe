"""`interlingua dialects`: the formats there are."""

import click
from rich.table import Table

from ..dialects import DIALECTS, FORMATS, dialect
from . import output


@click.command("dialects")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(as_json: bool) -> None:
    """List the formats: provider wires (requests, answers, streams) and files."""
    rows = [(name, "file" if name in FORMATS else "wire", _summary(name)) for name in DIALECTS]
    if as_json:
        output.say_json([{"name": name, "kind": kind, "summary": summary} for name, kind, summary in rows])
        return
    table = Table(box=None)
    for column in ("name", "kind", "what it is"):
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    output.console().print(table)


def _summary(name: str) -> str:
    found = dialect(name)
    module = getattr(found, "module", found)
    first = (module.__doc__ or "").strip().split("\n", 1)[0].split(". ", 1)[0].rstrip(".")
    return first if module is found else f"{first} (variant)"
