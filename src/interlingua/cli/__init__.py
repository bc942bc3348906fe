"""The command line. Each command is a module; this is the group, and how errors are shown: one line, no traceback."""

import importlib
import io
import os
import sys
from typing import Any

import click

from ..values.errors import InterlinguaError

COMMANDS = {
    "run": "Ask a model and stream its answer.",
    "chat": "Talk with an agent that has tools, in the terminal.",
    "convert": "Convert conversations from any format to another, and say what was lost.",
    "check": "Say what is wrong with a conversation, where, and what to write instead.",
    "detect": "Say which format files are in, and why.",
    "dialects": "List the formats.",
    "show": "Show a conversation in the terminal.",
    "diff": "Compare two conversations, whatever their formats.",
    "stats": "Count messages, tokens, cost and tool calls.",
    "models": "List models: context window, inputs, thinking, prices.",
    "auth": "List, store, forget and check keys and logins.",
    "tools": "List the tools, show what one takes, run one, or serve them over MCP.",
    "canvas": "See, search, compare and continue conversations in the browser.",
    "sessions": "List, show, import, export, fork, compact and clear up sessions.",
    "doctor": "Say what is wrong with a session file, line by line, and repair it into a new one.",
    "worker": "Carry out durable runs from a queue that many workers share.",
    "plugins": "List plugins, check one, or begin a new one.",
    "demo": "See it all at work, offline.",
    "completion": "Print the shell completion script.",
}


class _Group(click.Group):
    """Loads a command's module when the command is used."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f".{name}", __name__).command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="interlingua", prog_name="interlingua")
def group() -> None:
    """One conversation format for LLMs, and honest codecs between it and every other."""


def main(arguments: list[str] | None = None) -> Any:
    """The entry point: what goes wrong on purpose is one line on stderr."""
    if arguments is None:
        _use_utf8()
    try:
        return group(args=arguments, prog_name="interlingua", standalone_mode=True)
    except InterlinguaError as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader went away (`| head`): not an error, but nothing more can be written.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        sys.exit(141)
    except OSError as error:
        fail(f"{error.filename or 'cannot write'}: {error.strerror or error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _use_utf8() -> None:
    """Makes names, arguments and whatever is piped in or out UTF-8, whatever the locale.

    Python fixes the encoding of names and arguments when it starts, so under a legacy locale it is started again in
    its UTF-8 mode (https://docs.python.org/3/using/cmdline.html#cmdoption-X). A terminal keeps its own encoding:
    what it cannot show is escaped.
    """
    if sys.getfilesystemencoding() != "utf-8":
        terminal = f"{_TERMINAL}={sys.stdout.encoding}"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", "-X", terminal, *sys.orig_argv[1:]])
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            own = str(sys._xoptions.get(_TERMINAL, stream.encoding))
            errors = "strict" if stream is sys.stdin else "backslashreplace"
            stream.reconfigure(encoding=own if stream.isatty() else "utf-8", errors=errors)


_TERMINAL = "interlingua-terminal"  # an option of Python's own command line: the terminal's encoding


def fail(message: str) -> None:
    print(f"interlingua: {message}", file=sys.stderr)
    sys.exit(1)
