"""Listener: an aiohttp application on a local port, started and stopped gracefully."""

import asyncio
import contextlib
import errno
import ipaddress
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from ..values.errors import InterlinguaError

GRACE = 3.0  # seconds for open requests to finish on stop


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen_error(where: str, error: OSError, kind: str = "address") -> InterlinguaError:
    """Returns the error for an address, or the path of a socket, on which a server cannot listen."""
    is_port = kind == "address" and error.errno in (errno.EADDRINUSE, errno.EACCES)
    known = error.errno is not None and error.errno > 0  # asyncio repeats the address in `strerror`
    why = os.strerror(error.errno or 0) if known else error.strerror or str(error)
    return InterlinguaError(f"cannot listen on {where}: {why}; choose another {'port' if is_port else kind}")


def refuse_socket_in_use(path: str) -> None:
    """Raises if a server listens on this Unix socket, whose place asyncio would take; the file alone is not in use."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            # The file of a socket stays when its server is killed: only a connection shows whether anyone listens.
            probe.connect(path)
        except BlockingIOError:  # it listens, and its queue is full
            pass
        except OSError:
            return  # nobody listens, or it is no socket: `bind` reports that
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


async def stop_accepting(*listening: socket.socket) -> None:
    """Makes listening sockets accept no more, once each connection that they accepted has its transport.

    asyncio accepts a connection first and makes its transport in a task. If the server is closed between the two, the
    client is left without an answer, up to Python 3.11 (github.com/python/cpython/issues/109564).
    """
    loop = asyncio.get_running_loop()
    for one in listening:
        with contextlib.suppress(NotImplementedError, RuntimeError, OSError):  # loops of others, which accept at once
            if loop.remove_reader(one.fileno()):
                one.shutdown(socket.SHUT_RDWR)  # new connections are refused, not reset later
    await asyncio.sleep(0)


class Listener:
    """One application on one port. `port` 0 takes any free one; with `fallback`, so does a port in use."""

    def __init__(self, app: web.Application, host: str = "127.0.0.1", port: int = 0, *, fallback: bool = False) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._fallback = fallback
        self._runner: web.AppRunner | None = None
        self._bound: socket.socket | None = None
        self.port = port

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=GRACE, handle_signals=False)
        await self._runner.setup()
        try:
            self._bound = self._bind()
            self.port = self._bound.getsockname()[1]
            await web.SockSite(self._runner, self._bound).start()
        except BaseException:
            await self._runner.cleanup()
            raise

    def _bind(self) -> socket.socket:
        """Binds the socket here, so that a port in use is an error and never shared."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        for port in (self._port, 0) if self._fallback and self._port else (self._port,):
            bound = socket.socket(family, socket.SOCK_STREAM)
            if os.name == "posix":
                # Else a port stays taken for a minute after a restart, while old connections are in TIME_WAIT. On
                # Windows it would share the port.
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                bound.bind((self._host, port))
            except OSError as error:
                bound.close()
                if error.errno == errno.EADDRINUSE and port and self._fallback:
                    continue
                raise listen_error(f"{self._host}:{port}", error) from None
            return bound
        raise InterlinguaError(f"cannot listen on {self._host}: no port is free")

    async def stop(self) -> None:
        if self._runner is not None:
            if self._bound is not None:
                await stop_accepting(self._bound)
            server = self._runner.server
            transports = [one.transport for one in server.connections] if server is not None else []
            await self._runner.cleanup()
            self._runner = None
            for transport in transports:
                if transport is not None:
                    transport.abort()  # a viewer that does not read would keep it open
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def until_signalled() -> AsyncIterator[asyncio.Event]:
    """Returns an event that SIGINT and SIGTERM set; a second signal ends the process as usual."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stopping(number: int) -> Callable[[], None]:
        def stopped() -> None:
            stop.set()
            loop.remove_signal_handler(number)

        return stopped

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        with contextlib.suppress(NotImplementedError, ValueError):  # not on this system, or not in the main thread
            loop.add_signal_handler(number, stopping(number))
    try:
        yield stop
    finally:
        for number in numbers:
            with contextlib.suppress(NotImplementedError, ValueError):
                loop.remove_signal_handler(number)
