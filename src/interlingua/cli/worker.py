"""`interlingua worker`: carries out durable runs."""

import logging
import sys
from pathlib import Path

import click

AT_LEAST_ONE = click.IntRange(min=1)
SECONDS = click.FloatRange(min=0, min_open=True)


@click.command("worker")
@click.argument("agents", nargs=-1, metavar="[MODULE|FILE.py]...")
@click.option("--database", metavar="ADDRESS", help="sqlite:FILE or postgresql://…; <home>/durable.sqlite by default.")
@click.option("--sessions", metavar="ADDRESS", help="Where sessions are kept; files, or the PostgreSQL database.")
@click.option("--home", type=click.Path(), help="Where the files are; $INTERLINGUA_HOME or ~/.interlingua by default.")
@click.option("--queue", default="runs", show_default=True, help="Which runs to take.")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="How many runs each worker has at once.",
)
@click.option(
    "--total", type=click.IntRange(min=1), metavar="N", help="How many runs all workers together may have at once."
)
@click.option(
    "--poll",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look for runs.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long runs may end when stopped.",
)
@click.option("--give-up", type=AT_LEAST_ONE, default=20, show_default=True, help="Tries for a run that kills workers.")
@click.option("--drain", is_flag=True, help="End when no run is left.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of single runs.")
def command(
    agents: tuple[str, ...],
    database: str | None,
    sessions: str | None,
    home: str | None,
    queue: str,
    concurrency: int,
    total: int | None,
    poll: float,
    grace: float,
    give_up: int,
    drain: bool,
    quiet: bool,
) -> None:
    """Carry out durable runs until stopped (Ctrl-C, SIGTERM).

    AGENTS are the modules or files that name agents. Any number of workers may share a database; what one leaves when
    it is stopped or dies, another takes up.
    """
    from ..durable import run_worker

    _report(logging.WARNING if quiet else logging.INFO)
    sys.path.append(str(Path.cwd()))  # last, so that no file here stands in for an installed package
    run_worker(
        database,
        sessions=sessions,
        home=home,
        load=agents,
        queue=queue,
        concurrency=concurrency,
        total=total,
        poll=poll,
        grace=grace,
        give_up=give_up,
        drain=drain,
    )


def _report(level: int) -> None:
    """What the worker does, as lines on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("interlingua")
    log.addHandler(handler)
    log.setLevel(level)
