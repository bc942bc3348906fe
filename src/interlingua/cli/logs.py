"""`interlingua logs`: the logged runs of `interlingua run`, each a session of the agent `run`.

The list comes from the session catalogue alone, and the other commands are those of `interlingua sessions`, imported on
use: this command must start as fast as a shell history.
"""

import sys
import time
from pathlib import Path
from typing import Any

import click

from ..values.places import has_plugins, home, private_folder
from .options import JSON, CommandGroup

RUNS = "run"  # the agent of logged runs
_SHARED = ("show", "search", "export", "delete", "restore", "purge", "totals")  # commands of `sessions`
_LISTED = 20
_WIDE, _NARROW = 100, 72  # columns from which models are shown with their provider, and below which they are omitted


def switch() -> Path:
    """The file whose presence turns logging off."""
    return home() / "logs-off"


def is_logging() -> bool:
    return not switch().exists()


def session_id(name: str | None) -> str:
    """Returns the id of a run: the latest, or by a prefix of its id. Opens no session."""
    from ..sessions.files import FileStore
    from ..sessions.store import SessionError, SessionNotFound

    ids = FileStore().ids(RUNS)
    if name is None:
        if not ids:
            raise SessionNotFound("no run to continue; `interlingua run` without --continue begins one")
        return ids[0]
    found = [name] if name in ids else [id for id in ids if id.startswith(name)]
    if len(found) > 1:
        raise SessionError(f"ambiguous run {name!r}: {', '.join(found[:5])}; give more of the id")
    if not found:
        raise SessionNotFound(f"no run {name!r}; `interlingua logs` lists them")
    return found[0]


class _Logs(CommandGroup):
    """Takes most commands from `interlingua sessions`, for the agent `run`."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """`logs -n 3` is `logs list -n 3`."""
        is_list = not args or (args[0].startswith("-") and args[0] not in context.help_option_names)
        return super().parse_args(context, ["list", *args] if is_list else args)

    def list_commands(self, context: click.Context) -> list[str]:
        return [*super().list_commands(context), *_SHARED]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _SHARED:
            return super().get_command(context, name)
        if has_plugins():  # plugins' dialects are export formats
            from .options import load_plugins

            load_plugins()
        from .sessions import of_agent

        return of_agent(name, RUNS)


@click.group("logs", cls=_Logs)
def command() -> None:
    """List, search, show, export and delete logged runs; turn logging on or off."""


@command.command("list")
@click.option("-n", "--limit", type=click.IntRange(0), default=_LISTED, show_default=True, help="0: all.")
@click.option("-m", "--model", help="Only runs whose model has this in its name.")
@JSON
def list_(limit: int, model: str | None, as_json: bool) -> None:
    """List the runs, the latest first."""
    from ..sessions.files import FileStore

    if model is None:
        shown, count = FileStore().latest(RUNS, limit or None)
    else:
        rows = [info for info in FileStore().sessions(RUNS) if model in (info.model or "")]
        shown, count = rows[:limit] if limit else rows, len(rows)
    if as_json:
        from ..values.canonical import plain
        from . import output

        output.print_json([plain(info) for info in shown])
        return
    if not is_logging():
        click.echo("interlingua: logging is off; `interlingua logs on` turns it on", err=True)
    for line in _lines(shown):
        click.echo(line)
    if count > len(shown):
        click.echo(f"… {count - len(shown):,} more; -n 0 lists all", err=True)
    if not count:
        click.echo("no runs" if model is None else f"no runs of a model {model!r}")


def _lines(rows: list[Any]) -> list[str]:
    """Returns the rows in columns, truncated to the width of the terminal; in a pipe nothing is truncated."""
    import shutil

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    # On a narrow terminal the title has priority: the provider is dropped, then the model.
    names = [(info.model or "") if width is None or width >= _WIDE else _bare(info.model) for info in rows]
    models = max(map(len, names), default=0)
    if width is not None and width < _NARROW:
        names, models = [""] * len(rows), 0
    lines = []
    for info, model in zip(rows, names, strict=True):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.modified / 1000))
        parts = [info.id if width is None else info.id[:8], when, *([f"{model:{models}}"] if models else [])]
        line = "  ".join([*parts, " ".join((info.title or "").split())]).rstrip()
        lines.append(line if width is None else _fitted(line, width))
    return lines


def _bare(model: str | None) -> str:
    return (model or "").partition("/")[2] or model or ""


def _fitted(line: str, width: int) -> str:
    """Truncates the line to this many cells; a Chinese or Japanese character takes two."""
    if len(line) <= width and line.isascii():
        return line
    if line.isascii():
        return f"{line[: width - 1]}…"
    from rich.cells import cell_len, set_cell_size

    return line if cell_len(line) <= width else f"{set_cell_size(line, width - 1).rstrip()}…"


@command.command("on")
def on() -> None:
    """Turn logging on: the default."""
    switch().unlink(missing_ok=True)
    click.echo("logging is on")


@command.command("off")
def off() -> None:
    """Turn logging off; logged runs stay."""
    private_folder(switch().parent)
    switch().touch(mode=0o600)
    click.echo("logging is off; `interlingua run --log` logs one run")


@command.command("path")
def path() -> None:
    """Print the folder of the runs."""
    from ..sessions.files import FileStore

    click.echo(str(FileStore().folder(RUNS)))
