"""A server process that does with each connection what it is told: fail, answer piece by piece, end, or break."""

import multiprocessing
import socket
import struct
from multiprocessing.connection import Connection
from typing import Any

_FORKS = multiprocessing.get_context("fork")  # the others import everything anew for each process
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class StreamServer:
    """The other side of the wire, in a process of its own. It first fails as `plan` says, then obeys."""

    def __init__(self, plan: list[str]) -> None:
        self._ours, theirs = _FORKS.Pipe()
        self._process = _FORKS.Process(target=serve, args=(theirs, plan), daemon=True)
        self._process.start()
        theirs.close()
        self.port = int(self._answer())

    def do(self, *command: Any) -> None:
        """Has the server do something to the connection that is open, and waits until it is done."""
        self._ours.send(command)
        assert "done" == self._answer()

    def requests(self) -> int:
        """How many requests came."""
        self._ours.send(("requests",))
        return int(self._answer())

    def _answer(self) -> Any:
        assert self._ours.poll(60), "no answer within a minute"
        return self._ours.recv()

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._ours.close()


def serve(commands: Connection, plan: list[str]) -> None:
    """In the process."""
    listening = socket.create_server(("127.0.0.1", 0))
    commands.send(listening.getsockname()[1])
    connection: socket.socket | None = None
    count = 0
    while True:
        name, *arguments = commands.recv()
        if name == "requests":
            commands.send(count)
            continue
        if name == "accept":
            for failure in plan:
                count += _refused(listening, failure)
            connection, count = _accepted(listening), count + 1
            connection.sendall(_HEAD)
        elif connection is not None:
            try:
                if name == "send":
                    connection.sendall(b"%x\r\n%b\r\n" % (len(arguments[0]), arguments[0]))
                elif name == "end":
                    connection.sendall(b"0\r\n\r\n")
                elif name == "reset":
                    _reset(connection)
                    connection = None
            except OSError:
                connection = None  # the client has left
        commands.send("done")


def _accepted(listening: socket.socket) -> socket.socket:
    """A connection whose request has been read."""
    connection, _ = listening.accept()
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += connection.recv(65536)
    return connection


def _refused(listening: socket.socket, failure: str) -> int:
    connection = _accepted(listening)
    if failure == "reset":
        _reset(connection)
        return 1
    if failure == "nothing":
        connection.sendall(_HEAD + b"0\r\n\r\n")
    else:
        body = b'{"error": {"message": "not now", "type": "server_error"}}'
        connection.sendall(b"HTTP/1.1 %b X\r\nContent-Length: %d\r\n\r\n" % (failure.encode(), len(body)) + body)
    connection.close()
    return 1


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
