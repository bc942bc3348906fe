"""`interlingua canvas`: conversations in the browser, to be seen, searched, compared and continued."""

import asyncio
import contextlib
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from ..values.errors import InterlinguaError
from . import output

if TYPE_CHECKING:
    from ..canvas.library import Place


@click.command("canvas")
@click.argument("inputs", nargs=-1, metavar="[FILES, SESSIONS or FOLDERS]…")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="The port; 8642, or any that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; further than here needs keys.")
@click.option("--no-open", is_flag=True, help="Print the address and open no browser.")
@click.option("--home", type=click.Path(path_type=Path, file_okay=False), help="Where the sessions are.")
@click.option("--store", help="sqlite:FILE or postgresql://… in place of files.")
def command(
    inputs: tuple[str, ...], port: int | None, host: str, no_open: bool, home: Path | None, store: str | None
) -> None:
    """Open conversations of any format in the browser: a tree to see, search, compare and continue."""
    asyncio.run(_serve(inputs, port, host, no_open, home, store))


async def _serve(
    inputs: tuple[str, ...], port: int | None, host: str, no_open: bool, home: Path | None, store: str | None
) -> None:
    from ..canvas.library import Library
    from ..canvas.server import PORT, Canvas
    from ..serving.listener import until_signalled

    library = Library(home.expanduser().absolute() if home is not None else None, store)
    places = await asyncio.to_thread(_opened, library, inputs)
    canvas = Canvas(library, host=host, port=PORT if port is None else port, fallback_port=port is None)
    async with until_signalled() as stop, canvas:
        address = canvas.link(f"/s/{places[0].key}/canvas" if len(places) == 1 else "/")
        click.echo(address)
        if not no_open:
            with contextlib.suppress(webbrowser.Error):
                await asyncio.to_thread(webbrowser.open, address)
        await stop.wait()


def _opened(library: "Library", inputs: tuple[str, ...]) -> "list[Place]":
    """The sessions that were named; what cannot be opened is said, and the rest goes on."""
    from ..canvas.library import expand

    places: list[Place] = []
    out = output.console(err=True)
    for given in inputs:
        session = _session(library, given)
        if session is not None:
            places.append(session)
            continue
        for path in expand([Path(given)]):
            found, problems = library.open_path(path)
            places += found
            for problem in problems[:20]:
                line = "" if problem.line is None else f"{problem.line}: "
                out.print(Text(f"{problem.name}: {line}{problem.message}", "yellow"))
    if inputs and not places:
        raise InterlinguaError(f"nothing to open in {', '.join(inputs)}; name files, folders or sessions")
    return places


def _session(library: "Library", given: str) -> "Place | None":
    """A session of this home, by its id or the beginning of it."""
    if Path(given).exists():
        return None
    found = [place for place in library.places() if place.source != "file" and place.id.startswith(given)]
    exact = [place for place in found if place.id == given]
    if len(exact or found) > 1:
        raise InterlinguaError(f"{given!r} could be {', '.join(p.id for p in found[:5])}; write more of it")
    return next(iter(exact or found), None)


if TYPE_CHECKING:
    from ..canvas.library import Library
