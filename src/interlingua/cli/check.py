"""`interlingua check`: what is wrong, where, and what to write instead."""

import sys

import click
from rich.text import Text

from ..conversion import sources
from ..conversion.checks import Finding, check
from ..dialects import WIRES
from . import output
from .convert import NAMES, Registered


@click.command("check")
@click.argument("inputs", nargs=-1, metavar="IN…")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option("--for", "target", type=Registered(lambda: WIRES), help="A target whose rules to apply, too.")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON, for programs.")
def command(inputs: tuple[str, ...], origin: str | None, target: str | None, as_json: bool) -> None:
    """Say what is wrong with conversations, where, and what to write instead.

    The exit code is 1 when there is an error.
    """
    problems: list[sources.Problem] = []
    rows = [
        (document.name, check(document.data, origin, target))
        for source in sources.expand(inputs)
        for document in sources.documents(source, origin, problems)
    ]
    if as_json:
        output.say_json(
            {
                "results": [
                    {"source": name, "findings": [{k: getattr(f, k) for k in f.__struct_fields__} for f in found]}
                    for name, found in rows
                ],
                "errors": [{"source": problem.name, "message": problem.message} for problem in problems],
            }
        )
    else:
        _show(rows)
    output.report_problems(problems)
    if problems or any(finding.severity == "error" for _, found in rows for finding in found):
        sys.exit(1)


def _show(rows: list[tuple[str, tuple[Finding, ...]]]) -> None:
    out = output.console()
    for name, found in rows:
        if not found:
            out.print(Text.assemble((name, "bold"), ": ", ("nothing wrong", "green")))
        for finding in found:
            colour = "red" if finding.severity == "error" else "yellow"
            out.print(
                Text.assemble((name, "bold"), f" {finding.path}: ", (finding.severity, colour), f": {finding.message}")
            )
            out.print(Text(f"    → {finding.remedy}", style="dim"))
