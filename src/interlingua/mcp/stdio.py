"""The stdio transport: a server program, with JSON lines over its standard streams.

The official transport buffers an unlimited line, and leaves stderr to the caller. This one limits both, keeps the last
lines of stderr for the error message, and scrubs the environment.
"""

import asyncio
import contextlib
import errno
import logging
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import anyio
import msgspec
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from msgspec import Struct

from ..tools.sandbox import isolated_command, scrubbed
from ..values.errors import FormatError
from ..values.text import visible
from .oauth import OAuth

# MCP servers: a command to run, or a URL.


class StdioServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server program that we start and stop, over its standard streams.

    It gets the environment of the `exec` tool's commands, which holds no keys; pass what it needs beyond that in `env`,
    or name it in `inherit`. With bubblewrap, it sees no other process (so no environment of one) and nothing of
    Interlingua's own folder; with Landlock alone it sees no environment of another process. `secluded=False` lets it
    see both.
    """

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    inherit: tuple[str, ...] = ()
    cwd: str | None = None
    secluded: bool = True

    @property
    def label(self) -> str:
        return self.command.rsplit("/", 1)[-1]


class HttpServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server at a URL, over streamable HTTP, with `headers` such as a key, or a login by `oauth`."""

    url: str
    headers: dict[str, str] = {}
    oauth: OAuth = OAuth()

    @property
    def label(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]


Server: TypeAlias = StdioServer | HttpServer


def server_of(given: Server | str | Mapping[str, Any]) -> Server:
    """A server from a URL, or from a mapping as in configuration files, with `command` or `url`."""
    if isinstance(given, StdioServer | HttpServer):
        return given
    if isinstance(given, str):
        given = {"url": given}
    value = {name: item for name, item in given.items() if name not in ("type", "transport", "disabled")}
    try:
        server = msgspec.convert(value, HttpServer) if "url" in value else msgspec.convert(value, StdioServer)
    except msgspec.ValidationError as error:
        raise FormatError(f"not an MCP server: {error}; give command and args, or url and headers", "server") from None
    if isinstance(server, HttpServer) and urlsplit(server.url).scheme not in ("http", "https"):
        raise FormatError(f"not an http URL: {server.url}; give a program as a mapping with its command", "server")
    return server


GRACE = 2.0  # seconds for a server to exit after its input is closed, and again after SIGTERM
LAST_TEXT = 2000
BAD_LINES = 100

_log = logging.getLogger(__name__)


def _one_line(text: str) -> str:
    """What a server wrote, as part of an error in one line; of a Python traceback its last line, the exception."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines and lines[0].startswith("Traceback (") else " ".join(lines)


class Ending:
    """The end of a connection: the reason, and the last stderr output."""

    def __init__(self) -> None:
        self.over = False
        self.reason: str | None = None
        self._text = b""

    def feed(self, data: bytes) -> None:
        self._text = (self._text + data)[-LAST_TEXT:]

    def end(self, reason: str | None = None) -> None:
        self.over = True
        self.reason = self.reason or reason

    def __str__(self) -> str:
        text = _one_line(visible(self._text.decode(errors="replace")).strip())
        return "".join((f": {self.reason}" if self.reason else "", f"; stderr: {text}" if text else ""))


@contextlib.asynccontextmanager
async def stdio_transport(server: StdioServer, ending: Ending, max_bytes: int) -> AsyncGenerator[tuple[Any, Any], None]:
    """Starts the program and yields its message streams. On exit, ends it and its descendants."""
    argv = [_program(server), *server.args]
    process = await asyncio.create_subprocess_exec(
        *(await asyncio.to_thread(isolated_command, argv) if server.secluded else argv),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**scrubbed(os.environ, server.inherit), **server.env},
        cwd=server.cwd,
        # A process group of its own: signals reach the descendants, and Ctrl-C at the terminal does not end the server.
        start_new_session=True,
        limit=max_bytes,
    )
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process, incoming, ending, max_bytes)
            tasks.start_soon(_write, process, outgoing)
            tasks.start_soon(_read_stderr, process, ending)
            try:
                yield read_stream, write_stream
            finally:
                with anyio.CancelScope(shield=True):
                    await write_stream.aclose()
                    await read_stream.aclose()
                    await _ended(process)
                tasks.cancel_scope.cancel()
    finally:
        ending.end()
        for stream in (incoming, outgoing, read_stream, write_stream):
            stream.close()


def _program(server: StdioServer) -> str:
    """Returns the program's path: a missing one is our error, not that of the sandbox around it."""
    if server.command.count("/"):
        return server.command
    found = shutil.which(server.command, path=server.env.get("PATH"))
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), server.command)
    return found


async def _read(process: asyncio.subprocess.Process, incoming: Any, ending: Ending, max_bytes: int) -> None:
    """Reads messages until the program ends or sends a line that is too long. Other lines are skipped."""
    assert process.stdout is not None
    bad = 0
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with incoming:
            while bad < BAD_LINES:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    ending.end(f"it sent more than {max_bytes:,} bytes without a line end")
                    return
                if not line:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(process.wait(), GRACE)
                    ending.end(None if process.returncode is None else f"exit status {process.returncode}")
                    return
                try:
                    # A server must write only messages to stdout (basic/transports, stdio); some print logs there.
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    bad += 1
                    _log.warning("an MCP server wrote a line that is not a message: %r", line[:200])
                    continue
                bad = 0
                await incoming.send(SessionMessage(message))
            ending.end(f"it wrote {bad} lines in a row that are not messages")


async def _write(process: asyncio.subprocess.Process, outgoing: Any) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError, RuntimeError):
        async with outgoing:
            async for sent in outgoing:
                # One line is one message, without line ends inside (basic/transports, stdio): JSON escapes those of
                # texts.
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode(errors="replace") + b"\n")
                await process.stdin.drain()


async def _read_stderr(process: asyncio.subprocess.Process, ending: Ending) -> None:
    assert process.stderr is not None
    # stderr is for logs (basic/transports, stdio). It is read to the end: a full pipe would block the server.
    while data := await process.stderr.read(4096):
        ending.feed(data)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Closes the program's input and waits; then SIGTERM, then SIGKILL for it and its process group."""
    assert process.stdin is not None
    # This order is the protocol's (basic/lifecycle, Shutdown).
    process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            _signal(process.pid, number)
        if await _has_ended(process):
            break
    _signal(process.pid, signal.SIGKILL)
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()  # otherwise a descendant with the pipe keeps it open


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    """Whether the program ended in time. Not `wait`, which also waits for the pipes of descendants."""
    for _ in range(int(GRACE / 0.02)):
        if process.returncode is not None:
            return True
        await asyncio.sleep(0.02)
    return process.returncode is not None


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
