"""`interlingua canvas`: views, searches, compares and continues conversations in the browser."""

import asyncio
import contextlib
import sys
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from ..conversion import local_files
from ..dialects import DIALECTS
from ..tools.registry import PROFILES
from ..values.errors import InterlinguaError
from ..values.places import home as default_home
from ..values.text import natural
from . import output
from .convert import Registered
from .options import JSON, CommandGroup

if TYPE_CHECKING:
    from ..canvas.library import Library, SessionPlace
    from ..canvas.server import Canvas
    from ..canvas.shapes import FindView
    from ..serving.access import KeyRing

HOME = click.option("--home", type=click.Path(path_type=Path, file_okay=False), help="The directory of the sessions.")
STORE = click.option("--store", help="sqlite:FILE or postgresql://… in place of files.")


class _Canvas(CommandGroup):
    """Runs `open`, unless the first argument is a command."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        given = args if args and args[0] in self.commands else ["open", *args]
        return super().parse_args(context, given)


@click.group("canvas", cls=_Canvas)
def command() -> None:
    """View, search, compare and continue conversations in the browser.

    Without a command, `open`: interlingua canvas [FILES, SESSIONS or FOLDERS]…
    """


@command.command("open")
@click.argument("inputs", nargs=-1, metavar="[FILES, SESSIONS or FOLDERS]…")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="The port; 8642, or any that is free.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen on; other than local needs keys."
)
@click.option("--no-open", is_flag=True, help="Print the URL and open no browser.")
@click.option(
    "--client-port",
    type=click.IntRange(0, 65535),
    help="Port for programs that use the llm-canvas package.",
)
@click.option(
    "--watch",
    multiple=True,
    metavar="PROGRAM|FOLDER",
    help="Follow claude-code, codex-cli, gemini-cli or a folder of conversations, live and read-only.",
)
@click.option("--tools", "profile", type=click.Choice(PROFILES), help="Let answers use the tools of this profile.")
@click.option(
    "--root", type=click.Path(path_type=Path, exists=True, file_okay=False), help="The root directory of the tools."
)
@HOME
@STORE
def open_(
    inputs: tuple[str, ...],
    port: int | None,
    host: str,
    no_open: bool,
    client_port: int | None,
    watch: tuple[str, ...],
    profile: str | None,
    root: Path | None,
    home: Path | None,
    store: str | None,
) -> None:
    """Open conversations of any format in the browser: view, search, compare and continue them.

    Prints a one-time login URL for one browser. Further commands: interlingua canvas export,
    interlingua canvas keys.
    """
    if root is not None and profile is None:
        raise click.UsageError("--root without --tools; select the tools with --tools")
    from ..canvas.library import Library
    from ..canvas.runs import Toolbox
    from ..canvas.server import PORT, Canvas

    _limit_arenas()
    library = Library(home.expanduser().absolute() if home is not None else None, store)
    canvas = Canvas(
        library,
        host=host,
        port=PORT if port is None else port,
        fallback_port=port is None,
        toolbox=Toolbox(profile, root) if profile is not None else None,
        client_port=client_port,
        watch=watch,
    )
    asyncio.run(_serve(canvas, inputs, no_open))


async def _serve(canvas: "Canvas", inputs: tuple[str, ...], no_open: bool) -> None:
    from ..serving.listener import until_signalled

    places = await asyncio.to_thread(_opened, canvas.library, inputs)
    async with until_signalled() as stop, canvas:
        address = canvas.link(f"/s/{places[0].key}/canvas" if len(places) == 1 else "/")
        click.echo(address)
        if canvas.client_listener is not None:
            click.echo(f"llm-canvas clients: {canvas.client_listener.address}", err=True)
        sys.stdout.flush()
        if not no_open:
            with contextlib.suppress(webbrowser.Error):
                await asyncio.to_thread(webbrowser.open, address)
        await stop.wait()


def _limit_arenas() -> None:
    """Makes threads share two heaps: glibc creates up to eight per core, and each retains freed memory."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(-8, 2)  # M_ARENA_MAX


def _opened(library: "Library", inputs: tuple[str, ...]) -> "list[SessionPlace]":
    """The given sessions; reports those that cannot be opened, and continues."""
    from ..canvas.library import expand

    places: list[SessionPlace] = []
    out = output.console(err=True)
    for given in inputs:
        session = _session(library, given)
        if session is not None:
            places.append(session)
            continue
        file, number = _numbered(given)
        for path in expand([file]):
            found, problems = library.open_path(path)
            places += found if number is None else found[number - 1 : number]
            for problem in problems[:20]:
                line = "" if problem.line is None else f"{problem.line}: "
                out.print(Text(f"{problem.name}: {line}{problem.message}", "yellow"))
    if inputs and not places:
        raise InterlinguaError(f"nothing to open in {', '.join(inputs)}; name files, folders or sessions")
    return places


def _numbered(given: str) -> tuple[Path, int | None]:
    """Returns the file of `FILE#3`, and the number of the conversation in it."""
    name, _, number = given.rpartition("#")
    if name and natural(number) and not Path(given).exists() and Path(name).is_file():
        return Path(name), natural(number)
    return Path(given), None


def _session(library: "Library", given: str) -> "SessionPlace | None":
    """A session of this home, by its id or a prefix of it."""
    if Path(given).exists():
        return None
    found = [place for place in library.places() if place.source != "file" and place.id.startswith(given)]
    exact = [place for place in found if place.id == given]
    if len(exact or found) > 1:
        raise InterlinguaError(
            f"ambiguous session {given!r}: {', '.join(p.id for p in found[:5])}; give more of the id"
        )
    return next(iter(exact or found), None)


# --- export ----------------------------------------------------------------------------------------------------------


@command.command("export")
@click.argument("given", metavar="FILE|SESSION")
@click.option("-o", "--output", "out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file.")
@click.option(
    "-t",
    "--to",
    "format",
    type=Registered(lambda: ("html", "markdown", "json", "preferences", *DIALECTS), writable=True),
    metavar="FORMAT",
    help="html, markdown, json, preferences or a dialect; default: by the file extension.",
)
@click.option("--at", help="The last entry of the path; default: the head.")
@click.option("--path", "path_alone", is_flag=True, help="Only the path to the head, without other branches.")
@click.option("--number", type=click.IntRange(1), help="Which conversation of a file with several.")
@click.option(
    "--redact",
    type=click.Choice(["suggested", "all", "none"]),
    help="Which findings to replace; a terminal prompts for it.",
)
@click.option("--also", multiple=True, metavar="TEXT", help="Another text to find.")
@click.option("--no-thinking", is_flag=True, help="Omit the models' reasoning.")
@click.option("--no-media", is_flag=True, help="Omit images, audio and files.")
@HOME
@STORE
def export(
    given: str,
    out: Path,
    format: str | None,
    at: str | None,
    path_alone: bool,
    number: int | None,
    redact: str | None,
    also: tuple[str, ...],
    no_thinking: bool,
    no_media: bool,
    home: Path | None,
    store: str | None,
) -> None:
    """Write a conversation as one HTML file, as Markdown, or in any dialect.

    Lists what looks private (keys, tokens, addresses, home directories, numbers) with its context first. Writes nothing
    until you decide what to replace.
    """
    from ..canvas.export import PREFERENCES, finds_of, material_of, redacted, write
    from ..canvas.library import Library
    from ..canvas.session_list import Describer, Finder
    from ..canvas.shapes import ScanRequest

    library = Library(home.expanduser().absolute() if home is not None else None, store)
    place = _one(_opened(library, (given,)), given, number)
    chosen = ScanRequest(
        format=format or _format_of(out),
        to=at,
        all=at is None and not path_alone,
        thinking=not no_thinking,
        media=not no_media,
    )
    describer = Describer(library, Finder(library))
    with contextlib.closing(describer.open_tree(place)) as tree:
        view = describer.view(place)
        material = material_of(tree, view, chosen, describer)
        finds = finds_of(material, also)
        ids = _decided(finds, redact)
        if ids:
            material = redacted(material, ids, also)
        written = write(material, view, chosen)
    if chosen.format == PREFERENCES and not written.data:
        raise InterlinguaError(
            f"{given}: no two answers to one message are rated differently, nothing was written; rate some in a canvas"
        )
    if place.where is not None:
        local_files.refuse_inputs(out, [Path(place.where)])
    with local_files.atomic(out) as stream:
        stream.write(written.data)
    output.note_losses(f"{given} → {chosen.format}", [written.losses])
    what = f", {len(ids)} of {len(finds)} findings replaced" if finds else ""
    output.console(err=True).print(Text(f"{out}: {len(written.data):,} bytes{what}"))


def _one(places: "list[SessionPlace]", given: str, number: int | None) -> "SessionPlace":
    if number is not None and number > len(places):
        raise InterlinguaError(f"{given}: {len(places)} conversations; choose --number 1 to {len(places)}")
    if number is None and len(places) > 1:
        raise InterlinguaError(f"{given}: {len(places)} conversations; choose one with --number")
    return places[(number or 1) - 1]


def _format_of(out: Path) -> str:
    found = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown", ".json": "json"}
    if out.suffix.lower() not in found:
        raise click.UsageError(f"unknown file extension of {out.name!r}; give the format with --to")
    return found[out.suffix.lower()]


def _decided(finds: "list[FindView]", redact: str | None) -> list[str]:
    """The findings to replace, after listing all; without a terminal, --redact is required."""
    out = output.console(err=True)
    for find in finds:
        line = Text(f"{find.kind}: ", "yellow")
        line.append(" ".join(find.before.split()), "dim").append(" ").append(find.text, "bold red")
        line.append(" ").append(" ".join(find.after.split()), "dim").append(f"  {find.where}", "dim")
        out.print(line)
    suggested = [find.id for find in finds if find.suggested]
    if not finds or redact == "none":
        return []
    if redact is None:
        if not sys.stdin.isatty():
            raise InterlinguaError(
                f"{len(finds)} findings look private, nothing was written; give --redact suggested, all or none"
            )
        redact = click.prompt(
            f"{len(finds)} findings, {len(suggested)} of them almost certain. Replace",
            type=click.Choice(["suggested", "all", "none"]),
            default="suggested",
            err=True,
        )
    return {"suggested": suggested, "all": [find.id for find in finds], "none": []}[redact]


# --- keys ------------------------------------------------------------------------------------------------------------


@command.group("keys")
def keys() -> None:
    """Create, list and remove keys, for programs and for a shared canvas.

    A program sends a key as `Authorization: Bearer KEY`; a browser exchanges it for a login on the page. With at least
    one key, `--host` may be an address that other machines can reach.
    """


def _ring(home: Path | None) -> "KeyRing":
    from ..serving.access import KeyRing

    return KeyRing((home.expanduser().absolute() if home is not None else default_home()) / "canvas" / "keys.json")


@keys.command("add")
@click.argument("name")
@click.option(
    "--scope",
    type=click.Choice(["read", "write"]),
    default="read",
    show_default=True,
    help="The permissions of the key.",
)
@HOME
def add_key(name: str, scope: Any, home: Path | None) -> None:
    """Create a key and print it, once: only its digest is stored."""
    if not name.strip() or not name.isprintable() or len(name) > 100:
        raise InterlinguaError(f"invalid key name {name!r}; use up to 100 printable characters")
    click.echo(_ring(home).add(name, scope))


@keys.command("list")
@JSON
@HOME
def list_keys(as_json: bool, home: Path | None) -> None:
    """List the keys: names, scopes, and creation times."""
    found = _ring(home).keys()
    if as_json:
        output.print_json([{"name": key.name, "scope": key.scope, "created": int(key.created * 1000)} for key in found])
        return
    if not found:
        output.console().print("no keys")
        return
    table = Table("name", "scope", "created", box=None)
    for key in found:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(key.created))
        table.add_row(Text(key.name), key.scope, made)
    output.console().print(table)


@keys.command("remove")
@click.argument("name")
@HOME
def remove_key(name: str, home: Path | None) -> None:
    """Remove a key, and log out its users."""
    if not _ring(home).remove(name):
        raise InterlinguaError(f"no key {name!r}; see: interlingua canvas keys list")
