"""`interlingua doctor`: diagnoses a session file, and writes a repaired one."""

import sys
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from ..conversion import local_files, sources
from ..sessions.repair import Examined, RepairFinding, examine
from . import output


@click.command("doctor")
@click.argument("file", metavar="FILE")
@click.option("-o", "--output", "place", type=click.Path(dir_okay=False), help="Write the repaired session here.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(file: str, place: str | None, force: bool, as_json: bool) -> None:
    """Diagnose a session file line by line, and repair it into a new one.

    The file itself is never changed. The exit code is 0 if it is healthy or was repaired, 1 if it needs repair.
    """
    source = sources.Source(None if file == sources.STDIN else Path(file))
    found = examine(sources.read_all(source))
    if place is not None:
        _write(Path(place), source, found.data, force)
    if as_json:
        output.say_json(_shown(source, found, place))
    else:
        _say(source, found, place)
    if found.findings and place is None:
        sys.exit(1)


def _write(place: Path, source: sources.Source, data: bytes, force: bool) -> None:
    if source.path is not None and place.exists() and place.samefile(source.path):
        raise click.UsageError("the output is the input file; give another file with -o")
    if place.exists() and not force:
        raise click.UsageError(f"{place} already exists; give another file, or overwrite it with --force")
    with local_files.atomic(place) as stream:
        stream.write(data)


def _shown(source: sources.Source, found: Examined, place: str | None) -> dict[str, Any]:
    return {
        "source": source.name,
        "healthy": not found.findings,
        "findings": [finding._asdict() for finding in found.findings],
        "repaired": place,
    }


def _say(source: sources.Source, found: Examined, place: str | None) -> None:
    out = output.console()
    for finding in found.findings:
        out.print(_line(finding, done=place is not None))
    count = len(found.findings)
    if not count:
        out.print(Text(f"{source.name}: healthy"))
    elif place is not None:
        out.print(Text(f"{source.name}: {_findings(count)}, repaired into {place}"))
    else:
        out.print(Text(f"{source.name}: {_findings(count)}; repair into a new file with -o"))


def _line(finding: RepairFinding, *, done: bool) -> Text:
    where = "end" if finding.line is None else f"line {finding.line}"
    remedy = finding.repair if done else f"would be: {finding.repair}"
    return Text.assemble((where, "bold"), f": {finding.message} ", ("→ ", "dim"), (remedy, "green" if done else "dim"))


def _findings(count: int) -> str:
    return f"{count} finding{'' if count == 1 else 's'}"
