"""`Stream`: the events of one response, its result, and the aborts and timeouts of one attempt."""

import asyncio
import contextlib
import itertools
import traceback
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..dialects.provider_errors import failure_of
from ..values.abort import Abort
from ..values.errors import Aborted, InterlinguaError, OutputInvalid, TimedOut, causes
from ..values.events import Done, Error, Start, StreamEvent
from ..values.folding import CUT_OFF
from ..values.interop import must_propagate
from ..values.messages import AssistantMessage
from .results import OutputType

Batch: TypeAlias = list[StreamEvent]
Result = TypeVar("Result")

TERMINAL = (Done, Error)  # a union would be built anew at each look
LEFT = "the reader left the stream"
_PACKAGE = str(Path(__file__).parents[1])
_NEVER = float("inf")


class Source(Protocol):
    """A source of batches of events. `cut` ends it at once and returns the terminal event, if any."""

    @property
    def failure(self) -> InterlinguaError | None: ...
    @property
    def losses(self) -> Any: ...
    def batches(self) -> AsyncGenerator[Batch, None]: ...
    def cut(self, why: str) -> Batch: ...


class Observer(Protocol):
    """Observes the start and the end of a response."""

    def began(self) -> None: ...
    def ended(self, message: AssistantMessage, failure: InterlinguaError | None) -> None: ...


class Stream:
    """The events of one response. It never raises once it exists: a failure is the last event.

    Leaving a loop over it closes the connection; `message` is then the content so far, marked as aborted. `base` is the
    initial message (default: the source's `base`); `finish` completes the last one (its cost).
    """

    def __init__(
        self,
        source: Source,
        base: AssistantMessage | None = None,
        finish: Callable[[AssistantMessage], AssistantMessage] | None = None,
    ) -> None:
        self.source = source
        self._given_base = base
        self._finish = finish
        self._batches: AsyncGenerator[Batch, None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refilling = False  # several may read at once; one of them at a time fetches more
        self._refilled: asyncio.Event | None = None  # there while another waits for that
        self._readers = 0
        self._waiting: deque[StreamEvent] = deque()
        self._latest: StreamEvent | None = None
        self.message: AssistantMessage | None = None
        self.failure: InterlinguaError | None = None
        self.observer: Observer | None = None
        self.output_type: OutputType[Any] | None = None  # the requested type of the output

    def __repr__(self) -> str:
        return f"Stream({'under way' if self.message is None else self.message.stop_reason})"

    @property
    def _base(self) -> AssistantMessage:
        """The initial message. Few streams need it: most begin with their own."""
        return self._given_base or getattr(self.source, "base", None) or AssistantMessage(content=())

    @property
    def losses(self) -> Any:
        """The losses of the request for this model, once it has been sent."""
        return self.source.losses

    @property
    def partial(self) -> AssistantMessage:
        """The message so far, as the last event that was read shows it; the whole one when the last event was read."""
        if self.message is not None and not (self._waiting and self._readers):
            return self.message
        return getattr(self._latest, "partial", None) or self._base

    @property
    def partial_output(self) -> Any:
        """The output so far: the JSON that has arrived, not yet validated."""
        return None if self.output_type is None else self.output_type.partial(self.partial.text)

    @property
    def output(self) -> Any:
        """The output, once the stream has ended; raises `OutputInvalid` if it does not match."""
        if self.output_type is None or self.message is None:
            return None
        if self.failure is not None:
            raise self.failure
        value, problem = self.output_type.read(self.message)
        if problem is not None:
            failure = OutputInvalid(f"the answer does not fit the output type: {problem}")
            failure.partial = self.message
            raise failure
        return value

    def __aiter__(self) -> "Reader":
        return Reader(self)

    async def result(self) -> AssistantMessage:
        """Returns the whole message, however it ended: see its `stop_reason`.

        Unread events are discarded; loops over the stream still receive all of them.
        """
        while self.message is None:
            await self.more()
            if not self._readers:
                while self.take() is not None:
                    pass
        return self.message

    async def aclose(self) -> None:
        """Closes the stream."""
        self.leave()
        if self._batches is not None:
            with contextlib.suppress(RuntimeError):  # a pending read, which closing the connection has ended
                await self._batches.aclose()

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def next(self) -> StreamEvent | None:
        """Returns the next event; None at the end."""
        waiting = self._waiting
        while not waiting:
            if self.message is not None:
                return None
            await self.more()
        event = self._latest = waiting.popleft()
        return event

    @property
    def is_ready(self) -> bool:
        """Whether more events can perhaps be had without waiting; False where the source knows that they cannot."""
        return getattr(self.source, "is_ready", True)

    @property
    def readers(self) -> int:
        """How many loops go over it now."""
        return self._readers

    @property
    def waiting(self) -> int:
        """The number of received, unread events."""
        return len(self._waiting)

    async def more(self) -> None:
        """Waits for events, or for the end."""
        if self._refilling:
            if self._refilled is None:
                self._refilled = asyncio.Event()
            await self._refilled.wait()
            return
        self._refilling = True
        try:
            if self.message is None:
                await self._refill()
        finally:
            self._refilling = False
            if self._refilled is not None:
                self._refilled.set()
                self._refilled = None

    def take(self) -> StreamEvent | None:
        """Returns the next event if it has already arrived."""
        if not self._waiting:
            return None
        event = self._latest = self._waiting.popleft()
        return event

    def leave(self, why: str = LEFT) -> None:
        """Ends the stream immediately, without waiting."""
        if self.message is None:
            self._take(self.source.cut(why) or list(self._broken_off("aborted", why)))
            self.failure = Aborted(why)
            self.failure.partial = self.message
            self._report_end()

    async def _refill(self) -> None:
        failure: InterlinguaError | None = None
        if self._batches is None:
            self._loop = asyncio.get_running_loop()
            self._batches = self.source.batches()
        try:
            batch = await anext(self._batches, None)
        except BaseException as error:  # of a foreign callback: a source contains its own failures
            if must_propagate(error):
                self.leave("cancelled")
                raise
            failure = contained(error)
            batch = list(self._broken_off("error", str(failure)))
        if self.message is None and batch is None:
            batch = list(self._broken_off("error", CUT_OFF))
        if self.message is None and batch:
            if self.observer is not None and self._latest is None and not self._waiting:
                self.observer.began()
            self._take(batch)
            if failure is not None:
                failure.partial = self.message
                self.failure = failure
            self._report_end()
        if self.message is not None:
            await self._batches.aclose()  # releases its resources now, not when it is collected

    def _report_end(self) -> None:
        if self.message is not None and self.observer is not None:
            observer, self.observer = self.observer, None
            observer.ended(self.message, self.failure)

    def _take(self, batch: Batch) -> None:
        last = batch[-1]
        if isinstance(last, TERMINAL):
            batch[-1] = self._ended(last)
        if self._latest is None and not self._waiting and not isinstance(batch[0], Start):
            self._waiting.append(Start(self._base))
        self._waiting.extend(batch)

    def _ended(self, last: Done | Error) -> StreamEvent:
        message = last.message if isinstance(last, Done) else last.error
        if self._finish is not None:
            message = self._finish(message)
        self.message = message
        if isinstance(last, Done):
            return Done(last.reason, message)
        self.failure = self.source.failure or failure_of(message)
        self.failure.partial = message
        return Error(last.reason, message)

    def _broken_off(self, reason: Any, why: str) -> Iterator[StreamEvent]:
        yield Error(reason, replace(self.partial, stop_reason=reason, error_message=why))


class Reader:
    """One loop over a stream. When the loop is left, this is collected, and the connection is closed."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        stream._readers += 1

    def __aiter__(self) -> "Reader":
        return self

    async def __anext__(self) -> StreamEvent:
        stream = self._stream
        if stream._waiting:  # most events are: this is the shortest way
            event = stream._latest = stream._waiting.popleft()
            return event
        following = await stream.next()
        if following is None:
            raise StopAsyncIteration
        return following

    def __del__(self) -> None:
        stream = self._stream
        stream._readers -= 1
        loop = stream._loop
        if stream.message is not None or loop is None or loop.is_closed():
            return
        if loop is _running_loop():
            stream.leave()
        else:
            with contextlib.suppress(RuntimeError):  # it has just closed
                loop.call_soon_threadsafe(stream.leave)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def contained(error: BaseException) -> InterlinguaError:
    """Returns an exception of foreign code as one of our errors."""
    failure = InterlinguaError(f"the call failed: {error!r}")
    failure.__cause__ = error
    return failure


def without_frames(error: InterlinguaError) -> InterlinguaError:
    """Returns the error without our frames, whose variables hold the key and the headers; error reports may show those.

    Foreign exceptions keep their own frames, with a note of where they were raised.
    """
    error.__traceback__ = None
    for below in causes(error):
        files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(below.__traceback__)]
        # Frames of the HTTP client, and of what it calls, hold the headers as well.
        hidden = len(files) if any("/aiohttp/" in file for file in files) else 0
        hidden = hidden or len([*itertools.takewhile(lambda file: file.startswith(_PACKAGE), files)])
        if hidden:
            below.add_note("".join(traceback.format_tb(below.__traceback__)).rstrip())
        for _ in range(hidden):
            below.__traceback__ = below.__traceback__ and below.__traceback__.tb_next
    return error


# --- aborts and timeouts ----------------------------------------------------------------------------------------------


class Timeouts(Struct, frozen=True, kw_only=True):
    """Timeouts in seconds: for the first event, and between events. Keep-alives do not count. None: no timeout.

    Only waiting counts: a slow reader is not idle. Connect timeouts belong to the transport.
    """

    first: float | None = 600.0
    idle: float | None = 300.0

    @classmethod
    def of(cls, timeout: "float | Timeouts | None") -> "Timeouts":
        """A number applies to both."""
        if timeout is None:
            return _USUAL
        return timeout if isinstance(timeout, Timeouts) else cls(first=timeout, idle=timeout)


_USUAL = Timeouts()


class Alarms:
    """One timer for the watches of many calls of an event loop that have the same timeouts: the oldest is due first.

    Calls that end in time, as most do, then need no timer of their own.
    """

    def __init__(self) -> None:
        self._due: dict[Watch, float] = {}  # in the order in which they began
        self._timer: asyncio.TimerHandle | None = None

    def add(self, watch: "Watch", due: float) -> None:
        self._due[watch] = due
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due, self._ring)

    def discard(self, watch: "Watch") -> None:
        self._due.pop(watch, None)

    def _ring(self) -> None:
        self._timer, loop = None, asyncio.get_running_loop()
        now = loop.time()
        for watch, due in list(self._due.items()):
            if due > now:
                self._timer = loop.call_at(due, self._ring)
                return
            self._due.pop(watch, None)
            watch.ring()


class Watch:
    """Abort and timeout handling for one attempt. When it ends the attempt, `why` is the reason and pending work stops.

    Progress only moves the deadline; the timer is rescheduled when it fires too early. So an event costs no timer. With
    `alarms`, the first timer is shared with other attempts.
    """

    def __init__(self, signal: Abort | None, timeouts: Timeouts, alarms: "Alarms | None" = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._alarms = alarms
        self._timeouts = timeouts
        self._stop: Callable[[], object] | None = None
        self._interrupted = False  # the task that waits in `during` was cancelled from here
        self._begun = self._finished = False
        self.why: InterlinguaError | None = None  # what ended the attempt
        self._signal = signal
        self._forget = signal.on_abort(self._signalled) if signal is not None else None
        first, idle = timeouts.first, timeouts.idle
        self._step = min(_NEVER if first is None else first, _NEVER if idle is None else idle)
        now = self._loop.time()
        self._due = _NEVER if first is None else now + first
        self._timer: asyncio.TimerHandle | None = None
        if self._step != _NEVER and self.why is None:
            if alarms is not None:
                alarms.add(self, now + self._step)
            else:
                self._timer = self._loop.call_at(now + self._step, self.ring)

    async def during(self, work: Awaitable[Result]) -> Result:
        """Returns the result of some work. If the attempt ends before, the work is cancelled and `why` raised.

        Like `asyncio.timeout`: the running task is cancelled, and the cancellation is caught here.
        """
        task = asyncio.current_task(self._loop)
        assert task is not None
        if self.why is not None:
            getattr(work, "close", _nothing)()
            raise self.why
        pending = task.cancelling()
        self._interrupted, self._stop = False, lambda: self._interrupt(task)
        try:
            return await work
        except asyncio.CancelledError:
            if self._interrupted and task.cancelling() <= pending + 1 and self.why is not None:
                raise self.why from None
            raise
        finally:
            self._stop = None
            if self._interrupted:
                task.uncancel()

    def _interrupt(self, task: "asyncio.Task[Any]") -> None:
        if not self._interrupted:
            self._interrupted = True
            task.cancel()

    def reading(self, stop: Callable[[], object]) -> None:
        """Registers `stop` as the function that ends the pending read."""
        self._stop = stop
        if self.why is not None:
            stop()

    def pause(self) -> None:
        """Events have arrived: no deadline until the caller waits for more."""
        self._begun = True
        self._due = _NEVER

    def resume(self) -> None:
        """The caller waits for more: starts the next deadline. Raises the error that has ended the attempt."""
        if self.why is not None:  # what had arrived before it does not count any more
            raise self.why
        if self._timeouts.idle is not None:
            self._due = self._loop.time() + self._timeouts.idle

    def end(self, why: InterlinguaError) -> None:
        """Ends the attempt from this side: pending work is stopped, and `why` raised there."""
        self._end(why)
        self.finish()

    def finish(self) -> None:
        """Ends the watch."""
        self._finished = True
        self._stop = None
        if self._alarms is not None:
            self._alarms.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._forget is not None:
            self._forget()
            self._forget = None

    def ring(self) -> None:
        """Checks the deadline: the timer's callback."""
        if self._loop.time() >= self._due:
            # What has arrived while the loop was blocked or idle counts first.
            self._timer = None
            self._loop.call_soon(self._expire)
        else:
            self._rearm()

    def _rearm(self) -> None:
        self._timer = self._loop.call_at(min(self._due, self._loop.time() + self._step), self.ring)

    def _expire(self) -> None:
        if self._finished:
            return
        if self._loop.time() < self._due:
            self._rearm()
            return
        seconds = self._timeouts.idle if self._begun else self._timeouts.first
        what = "no further event" if self._begun else "no response"
        self._end(TimedOut(f"{what} within {seconds:g} s"))

    def _signalled(self) -> None:
        """Called in the thread that fires the signal: it takes effect before the event loop handles it."""
        why = Aborted(self._signal.reason if self._signal is not None else None)
        if self.why is None:
            self.why = why
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the call over
            self._loop.call_soon_threadsafe(self._end, why)

    def _end(self, why: InterlinguaError) -> None:
        if self.why is None:
            self.why = why
        if self._stop is not None:
            self._stop()


def _nothing() -> None:
    pass
