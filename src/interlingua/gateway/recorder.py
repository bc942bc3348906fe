"""The gateway's side of recording: an observer that sends exchanges to a recorder process.

Recording costs the gateway one encoding per exchange and one socket write per batch. Decoding, redaction, digests and
files are the work of `recorder_process`; each worker has one.

- An exchange is kept in memory until the recorder acknowledges it. If the recorder dies, it is restarted and all
  unacknowledged exchanges are sent again; entry ids are digests of the content, so none is written twice.
- If the gateway is killed, the recorder writes everything that was sent, then exits. `written` returns when all
  exchanges so far are sent; the access log waits for it.
- If the recorder lags, `backlog` grows, and above a limit the gateway's requests wait. If it acknowledges nothing for
  `STALLED` seconds, exchanges are skipped until it does.
- Every skipped exchange is logged and counted.
"""

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ..sessions import store_at
from .exchange import Exchange
from .recorder_process import Frames, decode_outcomes, framed
from .recording import encode_record
from .settings_file import RecordingSettings, resolved_address

STALLED = 30.0  # seconds without an acknowledgement after which exchanges are skipped
MAX_UNACKNOWLEDGED = 10_000  # unacknowledged exchanges; above that, requests wait
MAX_UNACKNOWLEDGED_BYTES = 1 << 26  # of these
DEATHS = 3  # of the recorder without an acknowledgement, after which the first exchange is skipped
_SOON = 0.05  # seconds between two writes to the socket
_LARGE = 1 << 18  # bytes that are sent without waiting
_PAUSES = (0.05, 0.2, 1.0, 5.0)  # seconds before a restart
_EXIT = 10.0  # seconds for the recorder to close its sessions

_log = logging.getLogger(__name__)


def recorder_of(settings: RecordingSettings, count: Callable[[str], None] = lambda reason: None) -> "Recorder | None":
    """Returns the configured recorder. `count` is called with `restart`, or with the reason for a skipped exchange."""
    if not settings.enabled:
        return None
    home = str(Path(settings.home).expanduser().absolute()) if settings.home is not None else None
    address = resolved_address(settings.store) if settings.store is not None else None
    store_at(address, home).close()  # reports a wrong address at start, not at the first exchange
    return Recorder(replace(settings, home=home, store=address), count)


class Recorder(asyncio.Protocol):
    """Sends exchanges to a recorder process, which is started with the first exchange and restarted if it exits."""

    def __init__(self, settings: RecordingSettings, count: Callable[[str], None] = lambda reason: None) -> None:
        self._settings = settings
        self._count = count
        self._number = 0
        self._records: dict[int, tuple[str, bytes]] = {}  # unacknowledged: exchange id and frame
        self._unsent: list[int] = []
        self._bytes = 0  # of all records
        self._unsent_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._runner: asyncio.Task[None] | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._frames = Frames()
        self._is_full = False  # the socket's buffer is full
        self._is_closing = False
        self._is_stalled = False
        self._dropped = 0  # while stalled
        self._reported = 0.0  # time of the last acknowledgement, or of the first exchange after it
        self._changed: asyncio.Event | None = None  # set when something was sent, acknowledged or lost
        self._lost: asyncio.Future[None] | None = None
        self.restarts = 0

    # --- what the gateway sees ---------------------------------------------------------------------------------------

    async def observe(self, exchange: Exchange) -> None:
        self.note(exchange)

    def note(self, exchange: Exchange) -> None:
        """Queues an exchange; it is sent soon, together with others."""
        if exchange.request is None or exchange.answer is None:
            return
        if self._is_stalled:
            self._dropped += 1
            self._count("stalled")
            return
        self._number += 1
        data = framed(encode_record(self._number, exchange))
        if not self._records:
            self._reported = time.monotonic()
        self._records[self._number] = (exchange.id, data)
        self._unsent.append(self._number)
        self._bytes += len(data)
        self._unsent_bytes += len(data)
        if self._runner is None:
            self._changed = asyncio.Event()
            self._runner = asyncio.ensure_future(self._run())
        elif self._unsent_bytes > _LARGE:
            self._send()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SOON, self._send)

    @property
    def waiting(self) -> int:
        """The number of unacknowledged exchanges."""
        return len(self._records)

    @property
    def backlog(self) -> int:
        """The share of `MAX_UNACKNOWLEDGED` in use, in thousandths; above 1,000, requests wait for `catch_up`."""
        if self._is_stalled:
            return 0
        return max(len(self._records) * 1000 // MAX_UNACKNOWLEDGED, self._bytes * 1000 // MAX_UNACKNOWLEDGED_BYTES)

    async def written(self) -> None:
        """Waits until everything so far is sent: from then on it is recorded even if this process is killed."""
        number = self._number
        while self._is_full or (self._unsent and self._unsent[0] <= number):
            if not await self._progress():
                return

    async def flush(self) -> None:
        """Waits until everything so far is acknowledged, or the recorder is stalled."""
        number = self._number
        self._send()
        while self._records and next(iter(self._records)) <= number:
            if not await self._progress():
                return

    async def catch_up(self) -> None:
        """Waits until the backlog is below its limit, or the recorder is stalled."""
        while self.backlog > 900:
            if not await self._progress():
                return

    async def close(self) -> None:
        """Waits until everything is written and the recorder has exited."""
        await self.flush()
        self._is_closing = True
        if self._records:
            _log.error(
                "%d exchanges may not be recorded: no response from the recorder for %g s", len(self._records), STALLED
            )
            for _ in self._records:
                self._count("stalled")
        if self._transport is not None:
            self._transport.close()
        if self._runner is not None:
            if self._process is None:
                self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)

    async def _progress(self) -> bool:
        """Waits for the next change; returns False if the recorder is stalled."""
        assert self._changed is not None
        self._changed.clear()
        left = self._reported + STALLED - time.monotonic()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), max(0.0, left))
        if self._records and time.monotonic() > self._reported + STALLED and not self._is_stalled:
            self._is_stalled = True
            _log.error("no response from the recorder for %g s; exchanges are not recorded until it responds", STALLED)
        return not self._is_stalled

    # --- the process -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Starts the recorder, and restarts it whenever it exits."""
        deaths = failures = 0
        while not self._is_closing:
            first = next(iter(self._records), 0)
            try:
                await self._start()
            except (OSError, ValueError, NotImplementedError) as error:  # the latter two: not on this system
                failures += 1
                _log.error("the recorder cannot be started: %s", error)
            else:
                failures = 0
                assert self._lost is not None and self._process is not None
                await self._lost
                code = await asyncio.to_thread(_end_of, self._process)
                self._process = None
                if self._is_closing:
                    return
                _log.error(
                    "the recorder exited with %s; restarting, %d exchanges are sent again", code, len(self._records)
                )
                self.restarts += 1
                self._count("restart")
                # Only deaths at the same exchange count: one that crashes the recorder must not keep all others out.
                deaths = deaths + 1 if first and first == next(iter(self._records), 0) else 0
                if deaths >= DEATHS:
                    self._forget(first, f"the recorder crashed {DEATHS} times at it", "crashed")
                    deaths = 0
            await asyncio.sleep(_PAUSES[min(deaths + failures, len(_PAUSES) - 1)])

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        # Both ways in one descriptor. When the gateway is killed, the kernel delivers what was written, then the end.
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    # `-P`: a file in the working folder must not shadow a module of the standard library.
                    [sys.executable, "-P", "-m", "interlingua.gateway.recorder_process", str(theirs.fileno())],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # signals of the terminal are for the gateway
                )
            ours.setblocking(False)
            self._frames, self._is_full, self._lost = Frames(), False, loop.create_future()
            transport, _ = await loop.create_unix_connection(lambda: self, sock=ours)
        except BaseException:
            ours.close()
            raise
        transport.set_write_buffer_limits(0)  # `pause_writing` as soon as the socket's buffer is full
        transport.write(framed(msgspec.json.encode(self._settings)))
        self._transport = transport
        if self._is_closing:
            transport.close()
        # All that is unacknowledged, in order: the recorder recognizes what it has by its digest.
        self._unsent = list(self._records)
        self._send()

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is None or not self._unsent or self._is_full:
            return
        self._transport.writelines([self._records[number][1] for number in self._unsent])
        self._unsent, self._unsent_bytes = [], 0
        self._notify()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._send()
        self._notify()

    def data_received(self, data: bytes) -> None:
        for message in self._frames.feed(data):
            for number, reason in decode_outcomes(message):
                self._forget(number, reason, "failed")
        self._reported = time.monotonic()
        if self._is_stalled:
            self._is_stalled = False
            _log.error("the recorder responds again; %d exchanges were not recorded", self._dropped)
            self._dropped = 0
        self._notify()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)
        self._notify()

    def _forget(self, number: int, reason: str | None, kind: str) -> None:
        id, data = self._records.pop(number, ("", b""))
        self._bytes -= len(data)
        if reason is not None and id:
            _log.error("%s is not recorded: %s", id, reason)
            self._count(kind)

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()


def _end_of(process: subprocess.Popen[bytes]) -> str:
    """Waits for the recorder and describes its exit. One that does not exit is not killed: it may be writing."""
    try:
        code = process.wait(_EXIT)
    except subprocess.TimeoutExpired:
        return "no exit code"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
