"""`interlingua chat`: an agent in the terminal."""

import asyncio
import os
import sys
from pathlib import Path

import click
from msgspec.structs import replace
from rich.text import Text

from ..chat import opening
from ..chat.chat import Chat, Screen, Settings
from ..chat.commands import COMMANDS, model_names
from ..chat.plain import PlainScreen
from ..dialects import DIALECTS
from ..sessions import Session
from ..tools.policy import ALLOW, ASK, READ_ONLY
from ..tools.registry import PROFILES
from ..values.errors import FormatError
from ..values.places import home
from . import output
from .run import MODEL_VARIABLE, usual_model

_POLICIES = {"yes": ALLOW, "ask": ASK, "read-only": READ_ONLY}


@click.command("chat")
@click.argument("prompt", required=False)
@click.option("-m", "--model", help=f"provider/id, or an alias of models.toml; {MODEL_VARIABLE} if not given.")
@click.option(
    "--session", "name", metavar="ID", help="Go on with this session: its id, the beginning of it, or a file."
)
@click.option("--resume", is_flag=True, help="Go on with the latest session.")
@click.option("--new", is_flag=True, help="Begin a new session: the default.")
@click.option("--tools", "profile", type=click.Choice([*PROFILES, "none"]), default="coding", show_default=True)
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="The folder it works in; its tools see no other.",
)
@click.option("--yes", "policy", flag_value="yes", help="Allow every call without asking.")
@click.option(
    "--ask", "policy", flag_value="ask", default="ask", help="Ask before a call changes something: the default."
)
@click.option("--read-only", "policy", flag_value="read-only", help="Allow reading alone.")
@click.option("-s", "--system", help="The system prompt.")
@click.option(
    "--plugins", multiple=True, type=click.Path(path_type=Path, exists=True), help="Load the plugins of this directory."
)
def command(
    prompt: str | None,
    model: str | None,
    name: str | None,
    resume: bool,
    new: bool,
    profile: str,
    root: Path,
    policy: str,
    system: str | None,
    plugins: tuple[Path, ...],
) -> None:
    """Talk with an agent that has tools; the session is kept and can be taken up again.

    /help lists what can be typed. Without a terminal (a pipe, TERM=dumb) it reads lines and writes plain text.
    """
    if (name is not None) + resume + new > 1:
        raise FormatError("choose one of --session, --resume and --new", "--session")
    place = root.resolve()
    settings = Settings(
        root=place,
        policy=replace(_POLICIES[policy], root=str(place)),
        model=model,
        usual_model=usual_model,
        profile=profile,
        system=system,
        plugins=plugins,
    )
    with opening.open_session(name, resume=resume, system=system) as session:
        code, kept = asyncio.run(_talk(settings, session, prompt))
    if kept is not None:
        output.console(err=True).print(Text(f"to go on: interlingua chat --session {kept}", "dim"))
    sys.exit(code)


async def _talk(settings: Settings, session: Session, prompt: str | None) -> tuple[int, str | None]:
    screen = _screen(settings)
    chat = Chat(screen, settings, session, COMMANDS)
    return await screen.run(chat, prompt), chat.kept


def _screen(settings: Settings) -> Screen:
    """The terminal's, where there is one that understands it."""
    able = os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    if not (able and sys.stdin.isatty() and sys.stdout.isatty()):
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
        return PlainScreen(sys.stdin.fileno(), sys.stdout, sys.stderr, interactive=sys.stdin.isatty())
    from ..chat.completion import ChatCompleter
    from ..chat.screen import TerminalScreen

    arguments = {
        "model": model_names,
        "export": lambda: sorted(DIALECTS),
        "resume": lambda: [info.id for info in opening.recent()],
    }
    return TerminalScreen(history=home() / "chat-history", completer=ChatCompleter(COMMANDS, settings.root, arguments))
