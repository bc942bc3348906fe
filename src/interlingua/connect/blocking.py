"""The synchronous API, public as `interlingua.sync`.

Each call borrows an event loop, driven by the calling thread, so no event crosses threads. A returned loop keeps its
connections for the next call. Thread-safe.
"""

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from ..values.events import StreamEvent
from ..values.messages import AssistantMessage

if TYPE_CHECKING:
    from ..conversion.inputs import ContextInput
    from ..values.errors import InterlinguaError
    from .call import AskOptions, Model
    from .embeddings import Embeddings, EmbedOptions
    from .results import Result
    from .stream import Stream as AsyncStream

T = TypeVar("T")


class _Loops:
    """A pool of event loops; the last used one is reused first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[asyncio.AbstractEventLoop] = []
        self._lent: set[asyncio.AbstractEventLoop] = set()

    def borrow(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            loop = self._free.pop() if self._free else asyncio.new_event_loop()
            self._lent.add(loop)
        return loop

    def give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if loop in self._lent:
                self._lent.remove(loop)
                self._free.append(loop)

    def close(self) -> None:
        """Closes the idle loops and their connections; the next call creates another."""
        with self._lock:
            loops = [loop for loop in (*self._free, *self._lent) if not loop.is_running()]
            self._free.clear()
            self._lent.difference_update(loops)
        for loop in loops:
            _drive(loop, _shut_down(loop))
            loop.close()

    def close_free(self) -> None:
        """Before a fork: parent and child must not share connections or selectors."""
        with self._lock:
            loops, self._free = self._free, []
        for loop in loops:
            _drive(loop, _shut_down(loop))
            loop.close()

    def forked(self) -> None:
        """In the child, where the lock may be locked by a thread that does not exist."""
        self._lock = threading.Lock()


async def _shut_down(loop: asyncio.AbstractEventLoop) -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


def _drive(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Runs a loop until some work is done. An interrupt cancels the work."""
    task, interrupt = loop.create_task(work), _Interrupt()
    with interrupt:
        return interrupt.wait(loop, task, lambda: loop.run_until_complete(task))


def _is_inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Interrupt:
    """Has Ctrl-C cancel the task that is waited for, as `asyncio.Runner` does.

    Raised in the midst of the loop, `KeyboardInterrupt` would hit any task. While nothing is waited for it is raised as
    ever, so one stays in place for all the waits of a stream.
    """

    def __init__(self) -> None:
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._came = False
        self._depth = 0
        self._handles = False

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._handles = _is_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
            if self._handles:
                signal.signal(signal.SIGINT, self._handle)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._handles and _is_main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def wait(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]", run: Callable[[], T]) -> T:
        """Runs a loop that has work in a task."""
        self._waiting = loop, task
        try:
            return run() if not _is_inside_a_loop() else _run_beside(loop, task, run)
        except BaseException:
            if not task.done() and not loop.is_running():  # by the caller's own signal handler
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
            raise
        finally:
            self._waiting = None
            if self._came:
                self._came = False
                raise KeyboardInterrupt

    def _handle(self, number: int, frame: Any) -> None:
        if self._waiting is None or self._came:  # a second time: it does not end by itself
            signal.default_int_handler(number, frame)
        else:
            self._came = True
            loop, task = self._waiting
            task.cancel()
            loop.call_soon_threadsafe(int)  # wakes the loop


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _run_beside(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]", run: Callable[[], T]) -> T:
    """Runs work in another thread if this one already runs a loop."""
    with concurrent.futures.ThreadPoolExecutor(1, "interlingua-sync") as other:
        waiting = other.submit(run)
        try:
            return waiting.result()
        except BaseException:
            if not waiting.done():
                loop.call_soon_threadsafe(task.cancel)
            raise


_loops = _Loops()
close = _loops.close
atexit.register(close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_loops.close_free, after_in_child=_loops.forked)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of some work."""
    loop = _loops.borrow()
    try:
        return _drive(loop, _after_poll(work))
    finally:
        _loops.give_back(loop)


async def _after_poll(work: Coroutine[Any, Any, T]) -> T:
    """Runs work on an idle loop after it has noticed closed connections."""
    await asyncio.sleep(0)
    return await work


class SyncStream:
    """The events of one response, for a plain `for` loop. Leaving the loop closes the connection."""

    def __init__(self, stream: "AsyncStream") -> None:
        self._stream = stream
        self._loop: asyncio.AbstractEventLoop | None = None  # from the first event to the end
        self._pump: asyncio.Task[None] | None = None  # fetches events; it runs only while a reader waits
        self._pumping = False
        self._interrupt = _Interrupt()
        self._driving = threading.Lock()  # one thread drives the loop; others wait for what it brings

    def __repr__(self) -> str:
        ended = self.message
        return f"SyncStream({'under way' if ended is None else ended.stop_reason})"

    @property
    def message(self) -> AssistantMessage | None:
        """The whole message, once the stream has ended."""
        return self._stream.message

    @property
    def partial(self) -> AssistantMessage:
        """The message so far."""
        return self._stream.partial

    @property
    def failure(self) -> "InterlinguaError | None":
        """The typed error of a stream that failed, once it has ended."""
        return self._stream.failure

    @property
    def losses(self) -> Any:
        return self._stream.losses

    @property
    def partial_output(self) -> Any:
        """The output so far; see `Stream.partial_output`."""
        return self._stream.partial_output

    @property
    def output(self) -> Any:
        """The output, once the stream has ended; see `Stream.output`."""
        return self._stream.output

    def result(self) -> AssistantMessage:
        """Returns the whole message, however it ended."""
        with self._interrupt:
            while self._stream.message is None:
                self._more()
                if not self._stream.readers:
                    while self._stream.take() is not None:
                        pass
        return self._stream.message

    def close(self) -> None:
        """Closes the stream."""
        loop = self._loop
        if loop is None or loop.is_closed():
            self._stream.leave()
        elif self._driving.acquire(blocking=False):
            try:
                _drive(loop, self._stream.aclose())
                self._end(loop)
            finally:
                self._driving.release()
        else:  # another thread waits for events: that ends
            with contextlib.suppress(RuntimeError):  # the loop has just closed
                loop.call_soon_threadsafe(self._stream.leave)

    def __iter__(self) -> Iterator[StreamEvent]:
        reader = aiter(self._stream)
        take = self._stream.take
        self._interrupt.__enter__()
        try:
            while (event := take()) is not None or self._more_for_reader():
                if event is not None:
                    yield event
        finally:
            if self._stream.message is None and not sys.is_finalizing():
                self.close()
            self._interrupt.__exit__()
            del reader

    def __enter__(self) -> "SyncStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _more_for_reader(self) -> bool:
        """Waits until there are events; False at the end."""
        if self._stream.message is None:
            with self._driving:
                if self._stream.message is None and not self._stream.waiting:
                    self._wait()
        return self._stream.message is None or self._stream.waiting > 0

    def _more(self) -> None:
        """Waits for events, or for the end."""
        with self._driving:
            if self._stream.message is None:
                self._wait()
        time.sleep(0)  # lets a thread that reads the events run

    def _wait(self) -> None:
        """Drives the loop until the pump has got something."""
        loop, pump = self._loop, self._pump
        if loop is None or pump is None or loop.is_closed():
            loop = self._loop = _loops.borrow()
            pump = self._pump = loop.create_task(_after_poll(self._bring(loop)))
        self._pumping = True
        try:
            self._interrupt.wait(loop, pump, loop.run_forever)
        finally:
            self._pumping = False
            if self._stream.message is not None:
                self._end(loop)

    async def _bring(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._stream.message is None:
                await self._stream.more()
                if self._pumping:
                    loop.stop()
                if self._stream.is_ready:  # the reader gets these events before the rest is decoded
                    await asyncio.sleep(0)
        finally:
            if self._pumping:
                loop.stop()

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        """Returns the loop to the pool when the pump has ended."""
        pump, self._pump, self._loop = self._pump, None, None
        if pump is not None and not pump.done():
            self._interrupt.wait(loop, pump, lambda: loop.run_until_complete(pump))
        _loops.give_back(loop)
        if pump is not None and not pump.cancelled() and (failure := pump.exception()) is not None:
            raise failure


def stream(
    model: "Model", context: "ContextInput", *, output: Any = None, **options: "Unpack[AskOptions]"
) -> SyncStream:
    """`interlingua.stream` for a plain `for` loop."""
    from .call import GivenOptions
    from .client import stream as begin

    given: Any = GivenOptions(options)
    del options
    return SyncStream(begin(model, context, output=output, **given))


@overload
def complete(
    model: "Model", context: "ContextInput", *, output: type[T], **options: "Unpack[AskOptions]"
) -> "Result[T]": ...
@overload
def complete(
    model: "Model", context: "ContextInput", *, output: None = None, **options: "Unpack[AskOptions]"
) -> AssistantMessage: ...
@overload
def complete(
    model: "Model", context: "ContextInput", *, output: Any, **options: "Unpack[AskOptions]"
) -> "Result[Any]": ...
def complete(model: "Model", context: "ContextInput", *, output: Any = None, **options: "Unpack[AskOptions]") -> Any:
    """`interlingua.complete` without `await`."""
    from .call import GivenOptions
    from .client import complete as ask

    given: Any = GivenOptions(options)
    del options
    return run(ask(model, context, output=output, **given))


def embed(model: "Model", texts: str | Sequence[str], **options: "Unpack[EmbedOptions]") -> "Embeddings":
    """`interlingua.embed` without `await`."""
    from .call import GivenOptions
    from .embeddings import embed as ask

    given: Any = GivenOptions(options)
    del options
    return run(ask(model, texts, **given))
