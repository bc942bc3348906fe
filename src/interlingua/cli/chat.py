"""`interlingua chat`: an agent in the terminal."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any, TextIO, cast

import click
from msgspec.structs import replace

from ..chat import opening
from ..chat.chat import Chat, ChatSettings, Screen, tool_context
from ..chat.commands import COMMANDS, model_names
from ..chat.plain import PlainScreen
from ..chat.terminal import LOOK_ALIKES, TextStream, behind
from ..chat.themes import DARK, THEMES, VARIABLE, usual_theme
from ..dialects import DIALECTS
from ..plugins.installed import open_installed
from ..sessions import Session
from ..tools.policy import ALLOW, ASK, BUILD, EDIT, READ_ONLY
from ..tools.registry import PROFILES
from ..values.errors import FormatError, InterlinguaError
from ..values.places import home
from ..values.text import natural
from . import output
from .options import BARE, HOME, MCP, PLUGINS, complete_models, complete_sessions
from .run import MODEL_VARIABLE, usual_model

NOTIFY_AFTER = 10.0  # seconds
_QUIET = "INTERLINGUA_NO_NOTIFY"
_POLICIES = {"yes": ALLOW, "ask": ASK, "read-only": READ_ONLY, "edit": EDIT, "build": BUILD}


@click.command("chat")
@click.argument("prompt", required=False)
@click.option(
    "-m",
    "--model",
    shell_complete=complete_models,
    help=f"provider/id, or an alias of models.toml; {MODEL_VARIABLE} if not given.",
)
@click.option(
    "--session",
    "name",
    metavar="ID",
    shell_complete=complete_sessions,
    help="Continue this session: its id, a prefix of it, or a file.",
)
@click.option("--resume", is_flag=True, help="Continue a session: pick one on a terminal, else the latest.")
@click.option("--new", is_flag=True, help="Start a new session: the default.")
@click.option("--tools", "profile", type=click.Choice([*PROFILES, "none"]), default="coding", show_default=True)
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="The working folder; the tools are confined to it.",
)
@click.option("--yes", "policy", flag_value="yes", help="Allow every call without asking.")
@click.option(
    "--ask", "policy", flag_value="ask", default="ask", help="Ask before calls that change something: the default."
)
@click.option("--read-only", "policy", flag_value="read-only", help="Allow reading only.")
@click.option("--edit", "policy", flag_value="edit", help="Allow changes of files in the root; ask before commands.")
@click.option("--build", "policy", flag_value="build", help="Allow changes of files, and commands in the sandbox only.")
@click.option("--acp", is_flag=True, help="Serve an editor over standard input and output (Agent Client Protocol).")
@click.option("-s", "--system", help="The system prompt.")
@click.option(
    "--reasoning",
    metavar="LEVEL",
    help="Reasoning effort: off, minimal, low, medium, high, xhigh, max, or a number of tokens.",
)
@click.option("--temperature", type=float, help="The sampling temperature.")
@click.option("--base-url", help="Another base URL of the provider.")
@click.option(
    "--theme",
    type=click.Choice([*THEMES]),
    help=f"Colours for a dark or light background, or none; {VARIABLE} or settings.toml if not given.",
)
@click.option(
    "--no-notify", is_flag=True, help=f"No bell or notification when a long run ends; also if {_QUIET} is set."
)
@HOME
@PLUGINS
@MCP
@BARE
def command(
    prompt: str | None,
    model: str | None,
    name: str | None,
    resume: bool,
    new: bool,
    profile: str,
    root: Path,
    policy: str,
    acp: bool,
    system: str | None,
    theme: str | None,
    no_notify: bool,
    plugins: tuple[Path, ...],
    servers: tuple[str, ...],
    bare: bool,
    **options: Any,
) -> None:
    """Chat with an agent that has tools; the session is saved and can be resumed.

    /help lists the commands. Without a terminal (a pipe, TERM=dumb) it reads lines and writes plain text.
    """
    if (name is not None) + resume + new > 1:
        raise FormatError("--session, --resume and --new exclude each other; give one", "--session")
    place = root.resolve()
    settings = ChatSettings(
        root=place,
        policy=replace(_POLICIES[policy], root=str(place)),
        sandboxed=True if policy == "build" else None,
        model=model,
        usual_model=usual_model,
        profile=profile,
        system=system,
        options=call_options(**options),
        notify_after=None if no_notify or os.environ.get(_QUIET) else NOTIFY_AFTER,
        theme=THEMES[theme] if theme is not None else usual_theme() if _is_terminal() else DARK,
    )
    if acp:
        if prompt is not None or name is not None or resume:
            raise FormatError("--acp takes no prompt and no session; the editor provides them", "--acp")
        _serve_editor(settings, policy, plugins, () if bare else servers or None)
        return
    if resume and _is_terminal():
        name = _picked()
    with opening.open_session(name, resume=resume, system=system) as session:
        code, resumable = asyncio.run(_chat(settings, session, prompt, None if bare else (plugins, servers or None)))
    if resumable is not None:
        output.note(f"resume with: interlingua chat --session {resumable}")
    sys.exit(code)


def _serve_editor(
    settings: ChatSettings, policy: str, plugins: tuple[Path, ...], servers: tuple[str, ...] | None
) -> None:
    try:
        from ..chat.acp import MODES, EditorAgent, run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("interlingua"):
            raise
        raise InterlinguaError(
            f'--acp needs a package that is not installed ({error.name}); pip install "interlingua[acp]"'
        ) from None
    if policy not in MODES:
        raise FormatError(f"--{policy} is not offered to editors; use one of {', '.join(MODES)}", "--acp")
    asyncio.run(run(EditorAgent(settings, policy, plugins, servers)))


async def _chat(
    settings: ChatSettings,
    session: Session,
    prompt: str | None,
    wanted: tuple[tuple[Path, ...], tuple[str, ...] | None] | None,
) -> tuple[int, str | None]:
    """Runs the chat with the installed plugins, those of further directories, and all or some of the MCP servers."""
    chat: Chat | None = None

    async def elicit(form: Any) -> Any:
        return None if chat is None else await chat.elicit(form)

    async with contextlib.AsyncExitStack() as stack:
        if wanted is not None:
            paths, servers = wanted
            found = await stack.enter_async_context(open_installed(paths=paths, servers=servers, elicit=elicit))
            settings = replace(
                settings,
                added=tuple(await found.resolve(tool_context(settings))),
                hooks=found.hooks,
                servers={**found.servers},
                problems=tuple(found.problems),
            )
        screen = _screen(settings)
        chat = Chat(screen, settings, session, COMMANDS)
        about = {"sessionId": session.id}
        await settings.hooks.emit("session_start", about)
        try:
            return await screen.run(chat, prompt), chat.resumable
        finally:
            await settings.hooks.emit("session_end", about)


def call_options(*, reasoning: str | None, temperature: float | None, base_url: str | None) -> dict[str, Any]:
    """Returns the call options of the command line; a number as reasoning is a token budget."""
    from ..connect.call import options_of

    budget = natural(reasoning)
    level = reasoning if budget is None else budget
    named = {"reasoning": level, "temperature": temperature, "base_url": base_url}
    given = {name: value for name, value in named.items() if value is not None}
    options_of(given)  # a wrong value is an error before the chat begins
    return given


def _is_terminal() -> bool:
    """Whether input and output are a terminal that can move its cursor."""
    able = os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    return able and sys.stdin.isatty() and sys.stdout.isatty()


def _picked() -> str | None:
    """Returns the session that the user picks; None if there is no choice, so that the latest is used."""
    infos = opening.recent(None)
    if len(infos) < 2:
        return None
    from ..chat.screen import SessionPicker

    id = asyncio.run(SessionPicker(infos, output=_terminal()).run())
    if id is None:
        sys.exit(130)
    return id


def _terminal() -> Any:
    """Standard output for prompt-toolkit, whose text is already sanitized."""
    from prompt_toolkit.output import create_output

    return create_output(cast(TextIO, TextStream(behind(sys.stdout))))


def _screen(settings: ChatSettings) -> Screen:
    """The terminal screen, or the plain one without a capable terminal."""
    if not _is_terminal():
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(errors=LOOK_ALIKES)  # type: ignore[union-attr]
        return PlainScreen(sys.stdin.fileno(), sys.stdout, sys.stderr, interactive=sys.stdin.isatty())
    from ..chat.screen import ChatCompleter, TerminalScreen

    arguments = {
        "model": model_names,
        "export": lambda: sorted(DIALECTS),
        "theme": lambda: [*THEMES],
        "resume": lambda: [info.id for info in opening.recent()],
    }
    return TerminalScreen(
        history=home() / "chat-history",
        theme=settings.theme,
        completer=ChatCompleter(COMMANDS, settings.root, arguments),
        output=_terminal(),
    )
