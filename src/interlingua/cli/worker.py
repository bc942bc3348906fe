"""`interlingua worker`: executes durable runs."""

import logging
import sys
from pathlib import Path
from typing import Any

import click

AT_LEAST_ONE = click.IntRange(min=1)
SECONDS = click.FloatRange(min=0, min_open=True)


@click.command("worker")
@click.argument("agents", nargs=-1, metavar="[MODULE|FILE.py]...")
@click.option("--database", metavar="ADDRESS", help="sqlite:FILE or postgresql://…; <home>/durable.sqlite by default.")
@click.option("--sessions", metavar="ADDRESS", help="The session store; default: files, or the PostgreSQL database.")
@click.option(
    "--home", type=click.Path(), help="The directory of the files; default: $INTERLINGUA_HOME or ~/.interlingua."
)
@click.option("--queue", default="runs", show_default=True, help="The queue to take runs from.")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="Maximum number of concurrent runs per worker.",
)
@click.option(
    "--total", type=click.IntRange(min=1), metavar="N", help="Maximum number of concurrent runs of all workers."
)
@click.option(
    "--poll",
    type=SECONDS,
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Interval between polls of the queue.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Grace period for running runs on shutdown.",
)
@click.option(
    "--give-up", type=AT_LEAST_ONE, default=20, show_default=True, help="Maximum attempts for a run whose workers die."
)
@click.option("--drain", is_flag=True, help="Exit when the queue is empty.")
@click.option("-q", "--quiet", is_flag=True, help="Do not log individual runs.")
def command(agents: tuple[str, ...], quiet: bool, **options: Any) -> None:
    """Execute durable runs until stopped (Ctrl-C, SIGTERM).

    AGENTS are the modules or files that define agents. Any number of workers may share a database; runs of a stopped or
    crashed worker are resumed by another.
    """
    from ..durable import run_worker

    _report(logging.WARNING if quiet else logging.INFO)
    sys.path.append(str(Path.cwd()))  # last, so that no file here shadows an installed package
    run_worker(load=agents, **options)


def _report(level: int) -> None:
    """Logs to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("interlingua")
    log.addHandler(handler)
    log.setLevel(level)
