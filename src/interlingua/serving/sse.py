"""Server-sent events for viewers: numbered, replayed after a reconnect, and never silently stale.

An `EventChannel` stores the latest events, encoded once for all viewers. A viewer is a position in it: a slow one costs
the others nothing, and must reload once what it missed is no longer stored. Ids are `EPOCH.NUMBER`; the epoch
identifies the server process, so that a number from before a restart is not mistaken for a current one."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from ..values import jsontext
from ..values.text import natural

HEARTBEAT = 10.0  # seconds
STALLED = 30.0  # seconds without a write to a viewer before its connection is closed
MAX_EVENTS = 4096
MAX_BYTES = 8 << 20


def frame(event: str, data: bytes, id: str | None = None) -> bytes:
    """Encodes one event; JSON has no line breaks, so `data` is one line."""
    head = f"id:{id}\n" if id is not None else ""
    return f"{head}event:{event}\ndata:".encode() + data + b"\n\n"


class EventChannel:
    """A stream of events that viewers follow. Used from one event loop."""

    def __init__(self, epoch: str, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self.epoch = epoch
        self.last = 0  # the number of the latest event
        self.viewers = 0
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._changed = asyncio.Event()
        self.closing: str | None = None  # the last event for viewers: `shutdown`, `reload`, `deleted`

    @property
    def first(self) -> int:
        """The number of the earliest stored event."""
        return self.last - len(self._frames) + 1

    def publish(self, event: str, data: bytes) -> None:
        self.last += 1
        encoded = frame(event, data, f"{self.epoch}.{self.last}")
        self._frames.append(encoded)
        self._size += len(encoded)
        # The latest event is always stored: one that exceeds the limit must still be delivered.
        while len(self._frames) > self._max_events or (self._size > self._max_bytes and len(self._frames) > 1):
            self._size -= len(self._frames.popleft())
        self._wake()

    def close(self, event: str) -> None:
        """Ends every viewer's stream with this event."""
        self.closing = event
        self._wake()

    # A new event for the next wait: all who wait on the old one go on, however late they run.
    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def position(self, id: str | None) -> int | None:
        """Parses an id of this epoch whose successors are all stored; None: start with a snapshot."""
        epoch, _, number = (id or "").rpartition(".")
        at = natural(number)
        return at if epoch == self.epoch and at is not None and self.first - 1 <= at <= self.last else None

    def after(self, at: int) -> list[bytes] | None:
        """Returns the events after a position; None if some of them are gone."""
        if at < self.first - 1:
            return None
        return [self._frames[number - self.first] for number in range(at + 1, self.last + 1)]

    async def wait(self, at: int, timeout: float) -> None:
        """Waits until there are events after the position, the channel closes, or the timeout expires."""
        if at < self.last or self.closing is not None:
            return
        changed = self._changed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await changed.wait()


async def serve_events(
    request: web.Request,
    channel: EventChannel,
    snapshot: Callable[[], Awaitable[tuple[int, bytes]]],
    *,
    heartbeat: float = HEARTBEAT,
    stalled: float = STALLED,
) -> web.StreamResponse:
    """Streams a channel to one viewer, from its `Last-Event-ID` (or `since`) on, else after a snapshot.

    `snapshot` returns the number of the last event that it includes, and its JSON.
    """
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
    )
    await response.prepare(request)
    viewer = _Viewer(response, stalled)
    channel.viewers += 1
    try:
        # html.spec.whatwg.org, 9.2.4: browsers send it when they reconnect; pages of their own use the query.
        at = channel.position(request.headers.get("Last-Event-ID") or request.query.get("since"))
        if at is None:
            # The position comes with the snapshot: events after it are followed, so that none is missing or shown
            # twice.
            at, data = await snapshot()
            await viewer.write(frame("snapshot", data, f"{channel.epoch}.{at}"))
        else:
            await viewer.write(frame("resume", b"{}", f"{channel.epoch}.{at}"))
        await _follow(viewer, channel, at, heartbeat)
    except (ConnectionResetError, TimeoutError):
        # The viewer disconnected, or was too slow: its browser reconnects with the last id that it saw.
        if request.transport is not None:
            request.transport.abort()
    finally:
        channel.viewers -= 1
    return response


class _Viewer:
    def __init__(self, response: web.StreamResponse, stalled: float) -> None:
        self._response = response
        self._stalled = stalled

    async def write(self, data: bytes) -> None:
        async with asyncio.timeout(self._stalled):
            await self._response.write(data)


async def _follow(viewer: _Viewer, channel: EventChannel, at: int, heartbeat: float) -> None:
    while True:
        await channel.wait(at, heartbeat)
        frames = channel.after(at)
        if frames is None:
            await viewer.write(frame("reload", b'{"reason":"slow"}'))
            return
        if frames:
            at += len(frames)
            await viewer.write(b"".join(frames))
        elif channel.closing is not None:
            await viewer.write(frame(channel.closing, _CLOSING.get(channel.closing, b"{}")))
            return
        else:
            await viewer.write(frame("heartbeat", jsontext.write({"at": int(time.time() * 1000)})))


_CLOSING: dict[str, bytes] = {"reload": b'{"reason":"rewritten"}'}


_ENOUGH = 256  # characters that are sent without a further wait


class Joiner:
    """Joins deltas that arrive faster than the screen is drawn. Each frame has an overhead, so a frame waits a
    little longer while there is little to send.
    """

    def __init__(
        self,
        send: Callable[[list[Any]], None],
        *,
        frame: float = 1 / 30,
        slow_frame: float = 0.12,
    ) -> None:
        self._send = send
        self._frame = frame
        self._slow_frame = slow_frame
        self._waiting: list[Any] = []
        self._size = 0
        self._sent = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, piece: Any) -> None:
        loop = asyncio.get_running_loop()
        self._waiting.append(piece)
        self._size += len(piece[-1])
        due = self._sent + (self._frame if self._size >= _ENOUGH else self._slow_frame)
        if self._timer is None or due < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(due, self.flush)

    def flush(self) -> None:
        """Sends pending deltas now: call it before any event that must come after them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting:
            self._sent = asyncio.get_running_loop().time()
            self._send(waiting)
