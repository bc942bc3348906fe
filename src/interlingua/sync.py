"""The same calls for programs without an event loop: `sync.complete`, `sync.stream`.

One event loop in a thread of its own drives them all, so connections are pooled, and any number of threads may call.
"""

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from .values.errors import InterlinguaError
from .values.events import StreamEvent
from .values.messages import AssistantMessage

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .connect.stream import Stream as AsyncStream

Result = TypeVar("Result")


class _Driver:
    """The event loop behind the calls, begun when first needed; a forked process gets its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._inherited: list[asyncio.AbstractEventLoop | None] = []

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_drive, args=(loop,), name="interlingua-sync", daemon=True)
                self._thread.start()
            return self._loop

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The outcome of some work; whoever interrupts the wait cancels it."""
        future = self.begin(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Has work done that nobody waits for yet."""
        if threading.current_thread() is self._thread:
            work.close()
            raise InterlinguaError("a callback of a sync call cannot wait for another one: it would wait for itself")
        return asyncio.run_coroutine_threadsafe(work, self.loop())

    def close(self) -> None:
        """Ends the loop and what is open on it; the next call begins another."""
        with self._lock:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def forked(self) -> None:
        """Leaves the parent's loop alone: its thread is not here, and its sockets are the parent's."""
        self._lock = threading.Lock()
        self._inherited.append(self._loop)
        self._loop = self._thread = None


def _drive(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(_wind_up(loop))
    loop.close()


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


_driver = _Driver()
run = _driver.run
close = _driver.close
atexit.register(close)  # while threads still run: a stream that is left later closes nothing, and waits for nobody
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_driver.forked)


_AHEAD = 1000  # events that may wait for a slow reader


class Stream:
    """The events of one answer, for a plain `for` loop. Leaving the loop closes the connection."""

    def __init__(self, stream: "AsyncStream") -> None:
        self._stream = stream
        self._pump: Future[None] | None = None
        self._come = threading.Event()
        self._room = asyncio.Event()
        self._paused = False

    @property
    def message(self) -> AssistantMessage | None:
        """The whole message, once the stream has ended."""
        return self._stream.message

    @property
    def partial(self) -> AssistantMessage:
        """The message so far."""
        return self._stream.partial

    @property
    def failure(self) -> InterlinguaError | None:
        """What went wrong, typed, once the stream has ended in an error."""
        return self._stream.failure

    @property
    def losses(self) -> Any:
        return self._stream.losses

    def result(self) -> AssistantMessage:
        """The whole message, however it ended."""
        return run(self._stream.result())

    def close(self) -> None:
        """Leaves the stream."""
        run(self._stream.aclose())

    def __iter__(self) -> Iterator[StreamEvent]:
        reader = aiter(self._stream)
        try:
            while (event := self._next()) is not None:
                yield event
        finally:
            if self._stream.message is None and not sys.is_finalizing():
                self.close()
            if self._pump is not None:
                self._pump.cancel()  # it may be waiting for room
            del reader

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> StreamEvent | None:
        """The next event. The other thread brings them without being asked for each, and stays a little ahead."""
        while (event := self._stream.take()) is None:
            if self._stream.message is not None:
                return self._stream.take()
            if self._pump is None:
                self._pump = _driver.begin(self._bring())
            elif self._pump.done():
                self._pump.result()
            self._come.wait()
            self._come.clear()  # before the next look: what comes now is seen, or announced again
        if self._paused and self._stream.waiting < _AHEAD // 2:
            self._paused = False
            _driver.loop().call_soon_threadsafe(self._room.set)
        return event

    async def _bring(self) -> None:
        try:
            while self._stream.message is None:
                await self._stream.more()
                self._room.clear()
                self._paused = self._stream.waiting > _AHEAD
                self._come.set()
                if self._paused:
                    await self._room.wait()
        finally:
            self._come.set()


def stream(model: Any, context: Any, **options: Any) -> Stream:
    """As `interlingua.stream`, for a plain `for` loop."""
    from .connect.client import stream as begin

    return Stream(begin(model, context, **options))


def complete(model: Any, context: Any, **options: Any) -> AssistantMessage:
    """As `interlingua.complete`, without `await`."""
    from .connect.client import complete as ask

    return run(ask(model, context, **options))
