"""The recorder process: reads records from a socket, writes them to sessions, and acknowledges each one.

python -m interlingua.gateway.recorder_process FD

A frame in either direction is a length in four bytes and the payload. The first frame holds the settings, all others
records; the replies are lists of outcomes. A record is acknowledged when its lines are written: from then on it
survives the death of every process. At the end of the stream, the process writes what it has received and exits, so
that nothing a killed gateway had sent is lost. It ignores the signals that stop a gateway.
"""

import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Iterator

import msgspec

from ..sessions import store_at
from .recording import Outcome, SessionWriter, decode_record, redactor_of
from .settings_file import RecordingSettings

_READ = 1 << 18  # bytes at a time
_HEADER = 4  # bytes
_log = logging.getLogger(__name__)


def framed(data: bytes) -> bytes:
    """Returns a frame."""
    return len(data).to_bytes(_HEADER, "big") + data


class Frames:
    """Splits a byte stream into the payloads of its frames."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        received = self._received
        received += data
        at = 0
        while len(received) - at >= _HEADER:
            end = at + _HEADER + int.from_bytes(received[at : at + _HEADER], "big")
            if len(received) < end:
                break
            yield bytes(received[at + _HEADER : end])
            at = end
        del received[:at]


def encode_outcomes(outcomes: list[Outcome]) -> bytes:
    return msgspec.msgpack.encode(outcomes)


def decode_outcomes(data: bytes) -> list[Outcome]:
    return msgspec.msgpack.decode(data, type=list[Outcome])


def run(connection: socket.socket) -> None:
    """Serves one connection until it is closed."""
    frames, waiting = Frames(), list[bytes]()
    while not waiting:
        data = connection.recv(_READ)
        if not data:
            return
        waiting += frames.feed(data)
    settings = msgspec.json.decode(waiting.pop(0), type=RecordingSettings)
    writer = SessionWriter(store_at(settings.store, settings.home), redactor_of(settings), sample=settings.sample)
    is_connected = True
    while is_connected:
        _report(connection, writer.write([decode_record(frame) for frame in waiting]))
        writer.release()
        waiting.clear()
        # Sessions are closed after a while without lines, so the wait is bounded by the next one that is due.
        connection.settimeout(writer.due())
        try:
            data = connection.recv(_READ)
        except TimeoutError:
            continue
        except ConnectionError:  # the gateway was killed before it read everything
            data = b""
        connection.settimeout(None)
        is_connected = bool(data)
        waiting += frames.feed(data)
    _report(connection, writer.close())


def _report(connection: socket.socket, outcomes: list[Outcome]) -> None:
    if not outcomes:
        return
    try:
        connection.sendall(framed(encode_outcomes(outcomes)))
    except OSError:  # the gateway is gone: log the failures instead
        for number, reason in outcomes:
            if reason is not None:
                _log.error("record %d is not written: %s", number, reason)


def main(descriptor: int) -> None:
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            # A signal to the whole group must not end the recorder before it has written what it received.
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING, format="interlingua recorder: %(message)s")
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # records leave next to no cycles
    with socket.socket(fileno=descriptor) as connection:
        run(connection)


if __name__ == "__main__":
    main(int(sys.argv[1]))
