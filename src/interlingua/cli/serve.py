"""`interlingua serve`: the gateway: any model for clients of any format; keys, usage, checks, replays."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace
from rich.table import Table
from rich.text import Text

from ..values.errors import InterlinguaError, unknown
from ..values.places import has_plugins, home
from . import output
from .options import HOME, JSON, CommandGroup

if TYPE_CHECKING:
    from ..gateway.checking import TargetReport
    from ..gateway.keys import ClientKeys
    from ..gateway.ledger import Column
    from ..gateway.service import Service
    from ..gateway.settings import Listen
    from ..gateway.settings_file import RecordingSettings, ServeSettings

PORT = 8321
CONFIG = click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The settings; default: gateway.toml in home.",
)

# Which clients read which variable, and its value; `{url}` is the gateway's URL.
POINTERS = (
    ("Anthropic SDKs, Claude Code", {"ANTHROPIC_BASE_URL": "{url}"}),
    ("OpenAI SDKs, Codex", {"OPENAI_BASE_URL": "{url}/v1"}),
    ("Google SDKs, Gemini CLI", {"GOOGLE_GEMINI_BASE_URL": "{url}"}),
    ("AWS SDKs (Bedrock)", {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "{url}"}),
    ("Ollama", {"OLLAMA_HOST": "{url}"}),
)
# Variables in which clients look for a key. A program that the gateway starts gets the gateway's own in all of them.
KEY_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "OLLAMA_API_KEY",
)


class _Serve(CommandGroup):
    """Runs `run`, unless a command is given. Options of `run` may precede its name."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        is_help = args[:1] in (["--help"], ["-h"])
        return super().parse_args(context, args if is_help else self._command_first(context, args))

    def _command_first(self, context: click.Context, args: list[str]) -> list[str]:
        try:
            found, _, _ = self.commands["run"].make_parser(context).parse_args(list(args))
        except click.UsageError:
            return ["run", *args]  # which reports it
        program = found.get("program")
        at = len(args) - (len(program) if isinstance(program, tuple | list) else 0)
        if at == len(args) or "--" in args[:at]:
            return ["run", *args]
        if args[at] in self.commands:
            return [args[at], *args[:at], *args[at + 1 :]]
        if shutil.which(args[at]) is None:
            listed = f"`{context.command_path} --help` lists them; a program follows `--`"
            context.fail(unknown("command", args[at], self.commands, listed=listed))
        return ["run", *args]

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        run = self.commands["run"]
        records = [record for one in run.get_params(context) if (record := one.get_help_record(context))]
        with formatter.section("Options of run"):
            formatter.write_dl(records)
        self.format_commands(context, formatter)


@click.group("serve", cls=_Serve)
def command() -> None:
    """Serve any model to clients of any format, at one URL.

    Without a command, `run`: interlingua serve [OPTIONS] [-- PROGRAM [ARGUMENTS]…]. With a program, the gateway runs as
    long as the program, which is configured to use it: interlingua serve -- claude
    """


# --- run -------------------------------------------------------------------------------------------------------------


@command.command("run", context_settings={"allow_interspersed_args": False})  # a program's options are its own
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM [ARGUMENTS]…]")
@CONFIG
@click.option("--host", help="The address to listen on, default 127.0.0.1; other than local needs keys.")
@click.option("--port", type=click.IntRange(0, 65535), help=f"The port, default {PORT}; 0 takes any that is free.")
@click.option("--unix", type=click.Path(path_type=Path), help="Listen on a Unix socket at this path.")
@click.option("--tls-cert", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The certificate (PEM).")
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Its key (PEM).")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that serve.")
@click.option("--record/--no-record", default=None, help="Record the traffic as sessions.")
@click.option("--access-log", metavar="FILE|-", help="One JSON line per request.")
@click.option(
    "--drain", type=click.FloatRange(0), default=30.0, show_default=True, help="Seconds to end open requests."
)
@click.option("--metrics-folder", type=click.Path(path_type=Path), hidden=True)
@click.option("--worker", is_flag=True, hidden=True)
@click.option(
    "--announce", is_flag=True, hidden=True, help="Of several workers, the one that prints what a user reads."
)
@HOME
def run(
    program: tuple[str, ...],
    config: Path | None,
    workers: int,
    drain: float,
    metrics_folder: Path | None,
    worker: bool,
    announce: bool,
    **given: Any,
) -> None:
    """Start the gateway. Prints how to configure SDKs and programs for it."""
    config = _config(config)
    settings = _overridden(_loaded(config), given, is_private=bool(program), reuse_port=worker)
    if program and settings.gateway.listen.unix is not None:
        raise click.UsageError("a program is configured with a URL; omit --unix")
    if workers > 1 and not worker:
        if program:
            raise click.UsageError("a program is served by one worker; omit --workers")
        sys.exit(_Workers(workers, settings.gateway.listen, _options_of_worker(click.get_current_context())).run())

    def made() -> "Service":
        from ..gateway.service import Service

        return Service(settings, home() / "gateway", config=config, metrics_folder=metrics_folder)

    ready = _ready_file(metrics_folder, os.getpid()) if metrics_folder is not None else None
    code = _run(lambda: _serve(made, program, drain, is_quiet=worker and not announce, ready=ready))
    if code:
        sys.exit(code)


def _config(config: Path | None) -> Path | None:
    """Returns the file of the settings: the given one, or that in home, if there is one."""
    own = home() / "gateway.toml"
    return config or (own if own.exists() else None)


def _loaded(config: Path | None) -> "ServeSettings":
    from ..gateway.settings_file import ServeSettings, load_settings

    path = _config(config)
    return load_settings(path) if path is not None else ServeSettings()


def _overridden(
    settings: "ServeSettings", given: dict[str, Any], *, is_private: bool, reuse_port: bool
) -> "ServeSettings":
    """Returns the settings with those of the command line."""
    listen: dict[str, Any] = {"reuse_port": reuse_port}
    listen |= {name: given[name] for name in ("host", "port") if given.get(name) is not None}
    listen |= {name: str(given[name]) for name in ("unix", "tls_cert", "tls_key") if given.get(name) is not None}
    if is_private:
        listen = {"host": "127.0.0.1", "port": 0, "unix": None} | listen
    settings = replace(settings, gateway=replace(settings.gateway, listen=replace(settings.gateway.listen, **listen)))
    if given.get("record") is not None:
        settings = replace(settings, recording=replace(settings.recording, enabled=given["record"]))
    if given.get("access_log") is not None:
        settings = replace(settings, log=replace(settings.log, access=given["access_log"]))
    return settings


def _run(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Runs on uvloop, where it is installed."""
    try:
        from uvloop import new_event_loop  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        new_event_loop = None
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main())


async def _serve(
    made: "Callable[[], Service]", program: Sequence[str], drain: float, *, is_quiet: bool, ready: Path | None
) -> int:
    from ..gateway.service import relax_gc
    from ..serving.listener import until_signalled

    service = made()
    reloading: set[asyncio.Task[bool]] = set()

    def reload() -> None:
        reloading.add(asyncio.ensure_future(service.reload()))

    if hasattr(signal, "SIGHUP"):
        with contextlib.suppress(NotImplementedError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    emit = await _load_plugins(service)
    async with until_signalled() as stop:
        try:
            await service.start()
            relax_gc()
            await emit("gateway_start", {"url": service.gateway.url})
            if program:
                return await _run_program(service, program)
            if not is_quiet:
                _print_pointers(service)
            if ready is not None:
                ready.touch()
            await stop.wait()
            if not is_quiet:
                click.echo("draining…", err=True)
            await service.drain(drain)
        finally:
            await service.stop()
            await emit("gateway_stop", {})
    return 0


async def _load_plugins(service: "Service") -> "Callable[[str, dict[str, Any]], Coroutine[Any, Any, None]]":
    """Loads the installed plugins: their connectors and wires; returns the function that runs their hooks.

    The gateway runs no tools, so MCP servers are not opened: its clients have their own.
    """

    async def nothing(name: str, event: dict[str, Any]) -> None:
        """Without plugins there are no hooks."""

    if not has_plugins():
        return nothing
    from ..plugins.hooks import Hooks
    from ..plugins.installed import load_installed

    plugins = await load_installed(connectors=service.gateway.connectors)
    for problem in plugins.problems:
        click.echo(f"interlingua: {problem}", err=True)
    return Hooks(plugins).emit


def _url_of_clients(service: "Service") -> str:
    """Returns the gateway's URL for clients on this machine.

    0.0.0.0 and :: stand for every address: Windows refuses to connect to them, and the proxy of the user is asked to.
    """
    url = service.gateway.url
    return url.replace("//0.0.0.0:", "//127.0.0.1:", 1).replace("//[::]:", "//[::1]:", 1)


_LISTED = 12  # names at the start, at most


def _print_pointers(service: "Service") -> None:
    click.echo(service.gateway.url)
    url = _url_of_clients(service)
    out = output.console(err=True)
    names = [name for name in service.gateway.models() if not name.partition("/")[0].endswith("debug")]
    whose = list(dict.fromkeys(name.partition("/")[0] for name in names))  # an alias, or a provider
    listed = ", ".join(whose[:_LISTED]) + (", …" if len(whose) > _LISTED else "")
    found = f"{len(names)} ({listed})" if names else "no keys found; set one, or use interlingua auth"
    out.print(Text(f"models: {found}; always debug/… (offline)"))
    if not url.startswith("unix:"):
        table = Table(box=None, show_header=False)
        for who, variables in POINTERS:
            for name, value in variables.items():
                table.add_row(Text(who), Text(f"{name}={value.format(url=url)}"))
        out.print(table)
        out.print(Text("or start a program with it: interlingua serve -- claude", "dim"))
    if service.keys.is_open():
        out.print(Text("no keys: every local user may use it (interlingua serve keys add NAME)", "dim"))
    elif not service.keys.has_any():
        out.print(Text("all keys are revoked: nobody may use it (interlingua serve keys add NAME)"))
    sys.stdout.flush()


# --- a program -------------------------------------------------------------------------------------------------------


def program_environment(
    url: str, secret: str, environment: dict[str, str], settings: "ServeSettings | None" = None
) -> dict[str, str]:
    """Returns the environment of a program that uses the gateway: its URL, and its key instead of the providers'."""
    import msgspec

    from ..connect.models import load_overrides
    from ..connect.providers import ROWS

    own = [notes.env or () for notes in load_overrides().providers.values()]
    keys = {name for names in (*(row.env for row in ROWS), *own) for name in names}
    keys.update(re.findall(r'"env:([^"]+)"', msgspec.json.encode(settings).decode()))
    environment = {name: value for name, value in environment.items() if name not in keys}
    addresses = {name: value.format(url=url) for _, variables in POINTERS for name, value in variables.items()}
    # Programs read either spelling first.
    names = ("NO_PROXY", "no_proxy")
    exempt = ",".join(dict.fromkeys(filter(None, (*map(environment.get, names), "127.0.0.1", "localhost"))))
    return {**environment, **addresses, **dict.fromkeys(KEY_VARIABLES, secret), **dict.fromkeys(names, exempt)}


def program_arguments(program: Sequence[str], url: str) -> list[str]:
    """Returns the command line of a program; Codex takes a base URL from its settings, not from a variable."""
    if Path(program[0]).name != "codex":
        return list(program)
    provider = f'{{name="Interlingua",base_url="{url}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}}'
    options = ["-c", 'model_provider="interlingua"', "-c", f"model_providers.interlingua={provider}"]
    return [program[0], *options, *program[1:]]


async def _run_program(service: "Service", program: Sequence[str]) -> int:
    """Runs a program configured for the gateway until it ends; returns its exit code."""
    if shutil.which(program[0]) is None:
        raise InterlinguaError(f"no program {program[0]!r} on PATH; install it, or give its path")
    url, secret = _url_of_clients(service), service.keys.own_secret()
    environment = program_environment(url, secret, dict(os.environ), service.settings)
    if Path(program[0]).name == "claude":  # with a key of its own it would ask the user which one to use
        environment.pop("ANTHROPIC_API_KEY")
    stop = asyncio.Event()
    # The terminal sends Ctrl-C to the program, too, which decides what it means; the gateway ends with the program.
    for number, handler in ((signal.SIGINT, lambda: None), (signal.SIGTERM, stop.set)):
        with contextlib.suppress(NotImplementedError, ValueError):
            asyncio.get_running_loop().add_signal_handler(number, handler)
    process = await asyncio.create_subprocess_exec(*program_arguments(program, url), env=environment)
    ending, stopping = asyncio.ensure_future(process.wait()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((ending, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        with contextlib.suppress(ProcessLookupError):
            if process.returncode is None:
                process.terminate()
    code = await ending
    return code if code >= 0 else 128 - code  # ended by a signal: as shells report it


# --- workers ---------------------------------------------------------------------------------------------------------


class _Workers:
    """Several processes on one port. The kernel distributes the connections; a process that ends is replaced.

    The first worker starts alone: if it cannot serve, none can, and its error is printed once. Later, one that cannot
    start is tried again, while the others serve.
    """

    def __init__(self, count: int, listen: "Listen", options: list[str]) -> None:
        if listen.unix is not None or not hasattr(socket, "SO_REUSEPORT"):
            raise InterlinguaError("workers need a port that they can share; leave out --unix, or use one worker")
        self._count = count
        self._options = options
        self._socket = _reserved_port(listen.host, listen.port)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._due = {0: 0.0}  # workers to start, and when
        self._is_stopping = False

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._forward)
        with tempfile.TemporaryDirectory(prefix="interlingua-workers-") as folder:
            return self._keep(Path(folder))

    def _keep(self, folder: Path) -> int:
        """Runs until all have ended after a signal, or the first could not start."""
        is_up = False
        while self._processes or not self._is_stopping:
            for at, process in list(self._processes.items()):
                is_ready = _ready_file(folder, process.pid).exists()
                if is_ready and not is_up:
                    is_up = True
                    self._due |= dict.fromkeys(range(1, self._count), 0.0)
                if process.poll() is None:
                    continue
                del self._processes[at]
                if not is_up and not self._is_stopping:
                    return process.returncode or 1
                if not self._is_stopping:
                    click.echo(f"worker {process.pid} {_end_of(process.returncode)}; starting another", err=True)
                self._due[at] = 0.0 if is_ready else time.monotonic() + _RETRY
            for at in [at for at, when in self._due.items() if when <= time.monotonic() and not self._is_stopping]:
                del self._due[at]
                self._start(at, folder, *([] if is_up else ["--announce"]))
            time.sleep(0.1)
        return 0

    def _start(self, at: int, folder: Path, *more: str) -> None:
        port = self._socket.getsockname()[1]
        options = [*self._options, "--worker", "--metrics-folder", str(folder), "--port", str(port), *more]
        process = subprocess.Popen([sys.executable, "-m", "interlingua", "serve", "run", *options])
        self._processes[at] = process
        if self._is_stopping:  # a signal came while it was started, and was not forwarded to it
            process.terminate()

    def _forward(self, number: int, _: Any = None) -> None:
        self._is_stopping = self._is_stopping or number != signal.SIGHUP
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)


def _end_of(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


_RETRY = 5.0  # seconds until a worker that could not start is started again


def _ready_file(folder: Path, pid: int) -> Path:
    """Returns the file that a worker creates when it serves."""
    return folder / f"worker-{pid}.ready"


def _reserved_port(host: str, port: int) -> socket.socket:
    """Returns a socket that reserves the port for this gateway's processes: bound, but not listening.

    Sockets of one user share a port if all of them ask for it, so the workers of two gateways would share one. The
    first socket does not ask, and finds the port in use.
    """
    from ..serving.listener import listen_error

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reserved = socket.socket(family)
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # not in use by connections that have ended
            probe.bind((host, port))
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as above, also if those did not share it
        reserved.bind((host, port))
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # the probe of another gateway must fail
    except OSError as error:
        reserved.close()
        raise listen_error(f"{host}:{port}", error) from None
    return reserved


def _options_of_worker(context: click.Context) -> list[str]:
    """Returns the given options of `run`, except the number of workers and the port, which the parent decides.

    The home folder is in the environment.
    """
    options: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        given = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
        if not given or not isinstance(parameter, click.Option) or parameter.name in ("workers", "port", "home"):
            continue
        if parameter.is_flag:
            options.append((parameter.opts if value else parameter.secondary_opts)[-1])
        else:
            options += [parameter.opts[-1], str(value)]
    return options


# --- check, usage, replay --------------------------------------------------------------------------------------------


_DATABASES = ("sqlite", "postgresql", "postgres")
_CACHES = ("redis", "rediss", "unix", "memory")


@command.command("check")
@CONFIG
@JSON
@HOME
def check(config: Path | None, as_json: bool) -> None:
    """Check the settings: every alias, its price and fallbacks, and the losses between formats."""
    from ..gateway.checking import check_settings

    path = config or home() / "gateway.toml"
    if _config(config) is None:
        click.echo(f"no {path}: the defaults; every model whose key is found, and debug/… (offline)", err=True)
    settings = _loaded(config)
    _check_addresses(settings, path)
    found = asyncio.run(check_settings(settings.gateway))
    if as_json:
        import msgspec

        output.print_json([msgspec.to_builtins(report) for report in found])
    elif found:
        _show_targets(found)
    if unusable := sum(report.problem is not None for report in found):
        raise InterlinguaError(f"{path}: {output.counted(unusable, 'target')} cannot be used")


def _check_addresses(settings: "ServeSettings", path: Path) -> None:
    from ..gateway.settings_file import resolved_address

    state = settings.state
    for name, address, schemes in (
        ("[state] limits", state.limits, (*_DATABASES, *_CACHES)),
        ("[state] ledger", state.ledger, _DATABASES),
        ("[state] recall", state.recall, (*_DATABASES, *_CACHES)),
        ("[recording] store", settings.recording.store, _DATABASES),
        ("[log] metrics_token", settings.log.metrics_token, None),
    ):
        scheme = None if address is None else resolved_address(address).partition(":")[0]
        if scheme is not None and schemes is not None and scheme not in schemes:
            raise InterlinguaError(f"{path}: {name}: unknown kind of address {scheme!r}; use {', '.join(schemes)}")


def _show_targets(found: "Sequence[TargetReport]") -> None:
    table = Table("alias", "target", "role", "format", "context", "price", "problem", box=None)
    for report in found:
        table.add_row(
            Text(report.alias),
            Text(report.target),
            report.role,
            report.wire or "?",
            f"{report.context_window:,}" if report.context_window else "?",
            "known" if report.has_price else "unknown",
            Text(report.problem or "", "red"),
        )
    output.console().print(table)
    for report in {report.target: report for report in found}.values():
        for wire, fields in report.losses.items():
            output.console().print(Text(f"{report.target}: from {wire} loses {', '.join(fields)}", "dim"))


@command.command("usage")
@click.option("--by", default="day,key,model", show_default=True, help="Columns: day, key, model.")
@click.option("--since", metavar="DAY", help="The first day, as 2026-01-31.")
@click.option("--until", metavar="DAY", help="The last day.")
@click.option("--key", help="Only this key.")
@click.option("--model", help="Only this model (provider/model).")
@CONFIG
@JSON
@HOME
def usage(
    by: str,
    since: str | None,
    until: str | None,
    key: str | None,
    model: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Show usage and cost, by day, key and model."""
    from ..gateway.ledger import COLUMNS, Ledger
    from ..gateway.settings_file import resolved_address

    columns: list[Any] = [name.strip() for name in by.split(",") if name.strip()]
    for name in columns:
        if name not in COLUMNS:
            raise click.UsageError(f"unknown column {name!r}; choose from {', '.join(COLUMNS)}")
    for day in (since, until):
        if day is not None and not _is_day(day):
            raise click.UsageError(f"invalid day {day!r}; use 2026-01-31")
    folder, address = home(), _loaded(config).state.ledger

    async def rows() -> list[Any]:
        database = f"sqlite:{folder / 'gateway' / 'gateway.db'}"
        ledger = Ledger(resolved_address(address or database), folder / "gateway")
        try:
            ledger.recover()
            return await ledger.usage(columns, since=since, until=until, key=key, model=model)
        finally:
            await ledger.close()

    _show_usage(asyncio.run(rows()), columns, as_json)


def _is_day(given: str) -> bool:
    try:
        return date.fromisoformat(given).isoformat() == given  # not 20260131, which would be compared as a text
    except ValueError:
        return False


def _show_usage(rows: list[Any], columns: "list[Column]", as_json: bool) -> None:
    if as_json:
        import msgspec

        output.print_json([msgspec.to_builtins(row) for row in rows])
        return
    if not rows:
        output.console().print("nothing was used")
        return
    table = Table(*columns, box=None)
    numbers = ("calls", "errors", "input", "output", "cache_read", "cache_write", "cost")
    for title in numbers:
        table.add_column(title.replace("_", " "), justify="right")
    table.add_column("")
    for row in rows:
        notes = [f"{getattr(row, name)} {name}" for name in ("unpriced", "estimated", "aborted") if getattr(row, name)]
        cells = [f"${row.cost:,.4f}" if name == "cost" else f"{getattr(row, name):,}" for name in numbers]
        table.add_row(*(Text(str(getattr(row, column))) for column in columns), *cells, Text(", ".join(notes), "dim"))
    output.console().print(table)


@command.command("replay")
@click.argument("sessions", nargs=-1, metavar="[SESSION…]")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="The port.")
@click.option("--store", help="sqlite:FILE or postgresql://… in place of files.")
@click.option("--agent", default="gateway", show_default=True, help="Whose sessions: recordings are the gateway's.")
@CONFIG
@HOME
def replay(sessions: tuple[str, ...], port: int, store: str | None, agent: str, config: Path | None) -> None:
    """Serve recorded responses, offline: the same requests get the same responses, in any format.

    Without SESSION, from all recorded sessions. Requests are redacted as they were when they were recorded, by the
    settings.
    """
    from ..gateway.settings_file import resolved_address

    recording = _loaded(config).recording
    if store is None and recording.store is not None:
        store = resolved_address(recording.store)
    where = home() if recording.home is None else Path(recording.home).expanduser().absolute()
    _run(lambda: _replay(sessions, port, store, agent, where, recording))


async def _replay(
    ids: tuple[str, ...], port: int, store: str | None, agent: str, folder: Path, recording: "RecordingSettings"
) -> int:
    from ..gateway.recording import redactor_of
    from ..gateway.replay import Replay, replay_gateway
    from ..serving.listener import until_signalled
    from ..sessions import Session, store_at

    place = store_at(store, folder if store is None else None)
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(Session.open(id, agent=agent, store=place, create=False, read_only=True))
            for id in ids or [info.id for info in place.sessions(agent)]
        ]
        answers = await asyncio.to_thread(Replay, opened, redactor_of(recording))
    if not len(answers):
        raise InterlinguaError("nothing is recorded; record with: interlingua serve --record")
    async with until_signalled() as stop, replay_gateway(answers, port=port) as gateway:
        click.echo(gateway.url)
        click.echo(f"{len(answers)} recorded answers", err=True)
        sys.stdout.flush()
        await stop.wait()
    return 0


# --- keys ------------------------------------------------------------------------------------------------------------


@command.group("keys")
def keys() -> None:
    """Add, list, rotate and revoke the keys of the gateway's clients.

    A client sends its key where it would send the provider's. With at least one key, `--host` may be an address that
    other machines can reach.
    """


def _keys(config: Path | None) -> "ClientKeys":
    from ..gateway.keys import ClientKeys

    own = _loaded(config).state.keys
    return ClientKeys(Path(own).expanduser() if own is not None else home() / "gateway" / "keys.json")


@keys.command("add")
@click.argument("name")
@click.option("--model", "models", multiple=True, help="An alias or provider/model pattern it may use; default: all.")
@click.option("--losses", type=click.Choice(["any", "minor", "none"]), default="any", help="What conversion may lose.")
@click.option("--rpm", type=click.IntRange(1), help="Requests a minute.")
@click.option("--tpm", type=click.IntRange(1), help="Tokens a minute.")
@click.option("--concurrency", type=click.IntRange(1), help="Open requests.")
@click.option("--budget", type=click.FloatRange(0), help="Dollars, in a --period.")
@click.option("--period", type=click.Choice(["day", "month", "total"]), help="Of the budget; default: total.")
@click.option("--expires", metavar="WHEN", help="A duration (90d, 12h) or a date (2027-01-31, UTC).")
@click.option("--passthrough", is_flag=True, help="May use passthrough paths, such as embeddings.")
@CONFIG
@HOME
def add_key(
    name: str,
    models: tuple[str, ...],
    losses: Any,
    rpm: int | None,
    tpm: int | None,
    concurrency: int | None,
    budget: float | None,
    period: Any,
    expires: str | None,
    passthrough: bool,
    config: Path | None,
) -> None:
    """Create a key and print it, once: only its digest is stored."""
    from ..gateway.exchange import ClientKey

    if period is not None and budget is None:
        raise click.UsageError("--period is that of a budget; give one with --budget")
    made = ClientKey(
        name=name,
        models=models or None,
        max_losses=losses,
        requests_per_minute=rpm,
        tokens_per_minute=tpm,
        concurrency=concurrency,
        budget=budget,
        budget_period=period or "total",
        expires=None if expires is None else _expiry(expires),
        passthrough=passthrough,
    )
    click.echo(_keys(config).add(made))


def _end(given: str) -> float:
    """Returns the time of a duration or a date, in seconds since 1970."""
    duration = re.fullmatch(r"(\d{1,6})([smhdw])", given)
    if duration is not None:
        return time.time() + int(duration[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[duration[2]]
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise click.UsageError(f"invalid time {given!r}; use 90d, 12h or 2027-01-31") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _expiry(given: str) -> float:
    end = _end(given)
    if end <= time.time():
        raise click.UsageError(
            f"{given!r} is not in the future, and the key could not be used; use 90d or a later date"
        )
    return end


@keys.command("list")
@CONFIG
@JSON
@HOME
def list_keys(config: Path | None, as_json: bool) -> None:
    """List the keys with their limits; the keys themselves are not stored."""
    import msgspec

    clients = _keys(config)
    found = clients.keys()
    if as_json:
        output.print_json(
            [
                {
                    **msgspec.to_builtins(key.client),
                    "expires": None if key.client.expires is None else int(key.client.expires * 1000),
                    "created": int(key.created * 1000),
                    "former_until": int(key.former_until * 1000) or None,
                }
                for key in found
            ]
        )
        return
    if not found:
        stays = "" if clients.is_open() else f": every request is refused; delete {clients.path} to serve without keys"
        output.console().print(Text(f"no keys{stays}"))
        return
    from ..gateway.accounts import budget_text

    table = Table("name", "models", "losses", "rpm", "tpm", "open", "budget", "expires", "", box=None)
    for key in found:
        client = key.client
        notes = ["passthrough"] if client.passthrough else []
        notes += [f"former key until {_minute(key.former_until)}"] if key.former_until > time.time() else []
        numbers = (client.requests_per_minute, client.tokens_per_minute, client.concurrency)
        table.add_row(
            Text(client.name),
            Text(", ".join(client.models) if client.models is not None else "all"),
            client.max_losses,
            *("" if number is None else f"{number:,}" for number in numbers),
            "" if client.budget is None else f"{budget_text(client.budget)} {client.budget_period}",
            "" if client.expires is None else _minute(client.expires),
            Text(", ".join(notes), "dim"),
        )
    output.console().print(table)


def _minute(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))


@keys.command("rotate")
@click.argument("name")
@click.option("--grace", default="0s", help="How long the old key stays valid (1h).")
@CONFIG
@HOME
def rotate_key(name: str, grace: str, config: Path | None) -> None:
    """Replace a key by a new one with the same limits, and print it once."""
    click.echo(_keys(config).rotate(name, grace=max(0.0, _end(grace) - time.time())))


@keys.command("revoke")
@click.argument("name")
@CONFIG
@HOME
def revoke_key(name: str, config: Path | None) -> None:
    """Revoke a key: it is refused within a hundredth of a second."""
    if not _keys(config).remove(name):
        raise InterlinguaError(f"no key {name!r}; see: interlingua serve keys list")
