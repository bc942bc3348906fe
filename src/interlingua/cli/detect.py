"""`interlingua detect`: which format, and why."""

import sys

import click

from ..conversion import detect, sources
from . import output


@click.command("detect")
@click.argument("inputs", nargs=-1, metavar="IN…")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(inputs: tuple[str, ...], as_json: bool) -> None:
    """Say which format files are in, and why."""
    problems: list[sources.Problem] = []
    rows = []
    for source in sources.expand(inputs):
        for document in sources.documents(source, None, problems):
            found = detect(document.data)
            if found is None:
                problems.append(sources.Problem(document.name, "no known format"))
            else:
                rows.append((document.name, found))
    if as_json:
        output.say_json(
            [
                {"source": name, "dialect": found.dialect, "reason": found.reason, "others": list(found.others)}
                for name, found in rows
            ]
        )
    else:
        for name, found in rows:
            others = f" (or {', '.join(found.others)})" if found.others else ""
            click.echo(f"{name}: {found.dialect}: {found.reason}{others}")
    output.report_problems(problems)
    if problems:
        sys.exit(1)
