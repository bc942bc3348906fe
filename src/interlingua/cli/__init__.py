"""The command line: the command group, one module per command, errors as one line without traceback."""

import contextlib
import ctypes
import importlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import click

from ..chat.terminal import LOOK_ALIKES, install_safe_streams, safe_streams
from ..values.errors import InterlinguaError, unknown
from ..values.places import has_plugins
from ..values.regular import is_writing, reason

COMMANDS = {
    "run": "Send a prompt to a model and stream the answer.",
    "logs": "List, search, show, export and delete logged runs.",
    "templates": "List, show, edit and delete prompt templates.",
    "chat": "Chat with an agent that has tools, in the terminal.",
    "batch": "Send many requests to a model, at the batch price.",
    "convert": "Convert conversations between formats and report losses.",
    "check": "Report problems of a conversation and how to fix them.",
    "detect": "Detect the format of files.",
    "dialects": "List the formats.",
    "show": "Show a conversation in the terminal.",
    "diff": "Compare two conversations of any formats.",
    "stats": "Count messages, tokens, cost and tool calls.",
    "models": "List models: context window, inputs, thinking, prices.",
    "auth": "List, store, remove and check keys and logins.",
    "tools": "List, show, run or serve (MCP) the tools.",
    "canvas": "View, search, compare and continue conversations in the browser.",
    "serve": "Serve any model to clients of any format (gateway).",
    "sessions": "List, show, import, export, fork, compact and clean up sessions.",
    "archive": "Search every program's conversations; totals of tokens and cost.",
    "doctor": "Check the installation, or diagnose and repair a session file.",
    "worker": "Execute durable runs from a shared queue.",
    "plugins": "List, install, check or create plugins.",
    "demo": "Run an offline demonstration.",
    "completion": "Print the shell completion script.",
}

# Commands that are not `command` in a module of their name.
_IN_FORMATS = ("check", "detect", "diff", "dialects", "stats", "completion")
_MODULES = {name: ("formats", f"{name}_command") for name in _IN_FORMATS}

# Commands that load plugins themselves, with their tools, or need none. All others load the plugins' dialects and
# connectors.
_WITHOUT_PLUGINS = (
    *("run", "logs", "templates", "chat", "tools", "serve", "plugins"),
    *("auth", "demo", "completion", "doctor"),
)


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Prints a wrong option or argument in one line, and where its help is; click prints the usage in four.

    Ctrl-C ends the command with the exit code of shells.
    """
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.ClickException as error:
        message = " ".join(error.format_message().split()).rstrip(".")
        context = getattr(error, "ctx", None) or click.get_current_context(silent=True)
        if context is not None and "--help" not in message:
            message = f"{message} (see {context.command_path} --help)"
        print(f"interlingua: {message[:1].lower()}{message[1:]}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:  # click would print "Aborted!" and exit with 1
        sys.exit(130)


class _Group(click.Group):
    """Imports a command's module when the command is used."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Runs a command with safe output: text of models, files and servers cannot control the terminal."""
        with safe_streams():
            return super().main(*arguments, **options)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _one_line_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, context: click.Context) -> Any:
        with _one_line_errors():
            return super().invoke(context)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute = _MODULES.get(name, (name, "command"))
        command: click.Command = getattr(importlib.import_module(f".{module}", __name__), attribute)
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if arguments and arguments[0] not in COMMANDS and not arguments[0].startswith("-"):
            context.fail(unknown("command", arguments[0], COMMANDS, listed="`interlingua --help` lists the commands"))
        return super().resolve_command(context, arguments)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="interlingua", prog_name="interlingua")
@click.pass_context
def group(context: click.Context) -> None:
    """One conversation format for LLMs, and honest codecs between it and every other."""
    if context.invoked_subcommand not in _WITHOUT_PLUGINS and has_plugins():
        from .options import load_plugins

        load_plugins()


def main(arguments: list[str] | None = None) -> Any:
    """The entry point: expected errors are one line on stderr."""
    if arguments is None:
        _end_on_sigterm()
        _open_closed_streams()
        _buffer_output()
        _use_utf8()
        install_safe_streams()  # until exit, for tracebacks too
        hide_process()
    try:
        try:
            return group(args=arguments, prog_name="interlingua", standalone_mode=True)
        finally:
            sys.stdout.flush()  # Python would do it too late to report a failure
    except InterlinguaError as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader closed the pipe (`| head`).
        _drop_output()
        sys.exit(141)
    except OSError as error:
        is_output = error.filename is None and is_writing(error)
        if is_output:
            _drop_output()
        where = "standard output" if is_output else error.filename
        fail(reason(error) if where is None else f"{where}: {reason(error)}")


def _drop_output() -> None:
    """Standard output from now on goes nowhere, so that what it could not take is not tried again."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def _end_on_sigterm() -> None:
    """Ends on SIGTERM as the first process of a container, too, also before a command handles it.

    The kernel delivers to that process only signals that it handles (pid_namespaces(7)).
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _open_closed_streams() -> None:
    """Opens /dev/null for standard streams that the caller closed (`>&-`): else a later file gets their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                null = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so usually this one
                setattr(sys, name, os.fdopen(null, "r" if number == 0 else "w", encoding="utf-8"))


def _buffer_output() -> None:
    """Buffers standard output under PYTHONUNBUFFERED, too: an unbuffered write may silently write only a part."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and isinstance(out.buffer, io.RawIOBase):
        sys.stdout = open(  # noqa: SIM115
            out.fileno(), "w", buffering=1, encoding=out.encoding, errors=out.errors, closefd=False
        )


def hide_process() -> None:
    """Makes this process non-dumpable (prctl(2)): other processes of the user can read neither its environment nor
    memory.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def _use_utf8() -> None:
    """Uses UTF-8 for file names, arguments and pipes under every locale.

    Python determines the encoding of names and arguments at startup, so under a legacy locale it is restarted in UTF-8
    mode (https://docs.python.org/3/using/cmdline.html#cmdoption-X). A terminal keeps its own encoding: symbols that it
    cannot show are written as ASCII, other characters are escaped.
    """
    if sys.getfilesystemencoding() != "utf-8":
        terminal = f"{_TERMINAL}={sys.stdout.encoding}"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", "-X", terminal, *sys.orig_argv[1:]])
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            own = str(sys._xoptions.get(_TERMINAL, stream.encoding))
            errors = "strict" if stream is sys.stdin else LOOK_ALIKES
            stream.reconfigure(encoding=own if stream.isatty() else "utf-8", errors=errors)


_TERMINAL = "interlingua-terminal"  # a `-X` option of Python: the terminal's encoding


def fail(message: str) -> None:
    with safe_streams():
        print(f"interlingua: {message.removesuffix(' (at $)')}", file=sys.stderr)  # the path of the whole value
    sys.exit(1)
