"""`Stream`: the events of one response and its result; `StreamAttempt`: one attempt over HTTP, aborts and timeouts."""

import asyncio
import contextlib
import functools
import inspect
import itertools
import re
import time
import traceback
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

import orjson
from msgspec import Meta, Struct
from msgspec.structs import replace

from ..dialects import Wire
from ..dialects.framing import Frame, actual_type
from ..dialects.provider_errors import failure_of
from ..dialects.wire import Decoding
from ..values import jsontext
from ..values.abort import Abort
from ..values.decompression import MAX_BODY
from ..values.errors import (
    Aborted,
    BadWire,
    DialectError,
    FormatError,
    InterlinguaError,
    NoConnection,
    OutputInvalid,
    ProviderError,
    TimedOut,
    TransportError,
    causes,
)
from ..values.events import Done, Error, Start, StreamEvent
from ..values.folding import CUT_OFF, unfold
from ..values.interop import must_propagate
from ..values.losses import Loss, repaired_calls, replaced
from ..values.messages import AssistantMessage, Block, blocks_of
from ..values.request import CallOptions, ModelDescriptor, Request
from .auth.credentials import Scrubber
from .providers import Provider
from .results import OutputType
from .transport import ERROR_BODY_LIMIT, Reply, Transport, whole

Batch: TypeAlias = list[StreamEvent]
Result = TypeVar("Result")

TERMINAL = (Done, Error)  # a union would be built anew at each look
LEFT = "the reader left the stream"
_PACKAGE = str(Path(__file__).parents[1])
_NEVER = float("inf")
LONGEST_MESSAGE = 4000
LARGEST_ANSWER = MAX_BODY  # of an unstreamed response, which may contain images
LARGE_ANSWER = 256 * 1024  # bytes from which a response is parsed in a thread
_MAX_VALUES = 2_000_000  # in a large response: `[],[],…` takes twenty times its size in memory
_LONGEST_PAGE = 16 * 1024
_LONGEST_CODE = 200
_LARGE_ERROR = 16 * 1024  # characters of an error that are searched for secrets
_LONGEST_ABOUT = 400  # characters of stop detail, response id and model; longer ones are searched for secrets
# Bytes that are decoded at a time: few at first, so that the first event does not wait for the rest of a burst.
_FIRST_PIECE, _LARGEST_PIECE = 2048, 16 * 1024


class EventSource(Protocol):
    """A source of batches of events. `cut` ends it at once and returns the terminal event, if any."""

    @property
    def failure(self) -> InterlinguaError | None: ...
    @property
    def losses(self) -> Any: ...
    def batches(self) -> AsyncGenerator[Batch, None]: ...
    def cut(self, why: str) -> Batch: ...


class StreamObserver(Protocol):
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
        source: EventSource,
        base: AssistantMessage | None = None,
        finish: Callable[[AssistantMessage], AssistantMessage] | None = None,
        observer: StreamObserver | None = None,
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
        self.observer = observer
        self.output_type: OutputType[Any] | None = None  # the requested type of the output

    def __repr__(self) -> str:
        return f"Stream({'under way' if self.message is None else self.message.stop_reason})"

    @property
    def _base(self) -> AssistantMessage:
        """The initial message. Few streams need it: most begin with their own."""
        return self._given_base or getattr(self.source, "base", None) or AssistantMessage(content=())

    @property
    def losses(self) -> Any:
        """The losses of the request for this model, once it has been sent; and, after the end, texts of the response
        that are no Unicode."""
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

    def __aiter__(self) -> "StreamLoop":
        return StreamLoop(self)

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
        # Another reader waits on the source; an async generator refuses a second `anext` while one runs.
        if self._refilling:
            if self._refilled is None:
                self._refilled = asyncio.Event()
            await self._refilled.wait()
            return
        if self.message is not None:
            return
        self._refilling = True
        try:
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
        if self.message is not None:
            self._report_end()
            await self._batches.aclose()  # releases its resources now, not when it is collected

    def _report_end(self) -> None:
        if self.message is not None and self.observer is not None:
            observer, self.observer = self.observer, None
            observer.ended(self.message, self.failure)

    def _take(self, batch: Batch) -> None:
        last = batch[-1]
        if isinstance(last, TERMINAL):
            batch[-1] = self._ended(last)
        # Every stream begins with a start, also one that failed before the provider answered.
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


class StreamLoop:
    """One loop over a stream. When the loop is left, this is collected, and the connection is closed."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        stream._readers += 1

    def __aiter__(self) -> "StreamLoop":
        return self

    async def __anext__(self) -> StreamEvent:
        stream = self._stream  # as `Stream.next`, without a call: the shortest way
        waiting = stream._waiting
        while not waiting:
            if stream.message is not None:
                raise StopAsyncIteration
            await stream.more()
        event = stream._latest = waiting.popleft()
        return event

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

    first: Annotated[float, Meta(gt=0)] | None = 600.0
    idle: Annotated[float, Meta(gt=0)] | None = 300.0

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
        self._due: dict[AttemptWatch, float] = {}  # in the order in which they began
        self._timer: asyncio.TimerHandle | None = None

    def add(self, watch: "AttemptWatch", due: float) -> None:
        self._due[watch] = due
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due, self._ring)

    def discard(self, watch: "AttemptWatch") -> None:
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


class AttemptWatch:
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
            # Cancelled from outside as well: that cancellation must reach the caller, as with asyncio.timeout.
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


# --- one attempt -----------------------------------------------------------------------------------------------------


Restore: TypeAlias = Callable[[Block], Block]


class Prepared(Struct, frozen=True, kw_only=True):
    """An outgoing request, and what the response's decoder must know of it."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    restore: Restore | None = None  # restores the conversation's form of a block of the response
    losses: Any = ()
    renewable: bool = False  # the key is a login's token: if it is refused, there may be a newer one

    def __repr__(self) -> str:
        return f"Prepared(body of {len(self.body)} bytes)"  # the headers hold the key


class StreamAttempt:
    """One attempt: request out, batches of events in.

    The output is always one well-formed stream; `failure` is the typed error afterwards.
    """

    def __init__(
        self,
        row: Provider,
        target: Wire,
        request: Request,
        options: CallOptions,
        transport: Transport,
        prepare: "Callable[..., Awaitable[Prepared]]",
        secrets: list[str | None],
    ) -> None:
        self._row = row
        self._wire = target
        self._request = request
        self._options = options
        self._transport = transport
        self._prepare = prepare
        self._secrets = secrets  # `prepare` adds the key that it finds
        self._restore: Restore | None = None
        self._timestamp = now()
        self._decoding: Decoding | None = None
        self._reply: Reply | None = None
        self._is_cleaned = True  # the decoder takes secrets out of its messages
        self._head = b""  # of the body: what was read to see what it is
        self._watch: AttemptWatch | None = None
        self.is_ready = False
        self.failure: InterlinguaError | None = None
        self._sent_losses: Sequence[Loss] = ()
        self._repaired: list[str] = []  # texts of the response that are no Unicode
        self._ended: Done | None = None

    @property
    def losses(self) -> Sequence[Loss]:
        """The losses of the request, then what could not be read of the response as it was."""
        paths = [*self._repaired, *getattr(self._decoding, "repaired", ())]
        if self._ended is not None:
            paths += repaired_calls(self._ended.message.content)
        return (*self._sent_losses, *map(replaced, dict.fromkeys(paths))) if paths else self._sent_losses

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yields the events, in batches as they arrive, but small ones at first."""
        watch = self._watch = AttemptWatch(self._options.signal, Timeouts.of(self._options.timeout))
        size = _FIRST_PIECE
        try:
            reply = await self._begin(watch)
            frames = await self._framing(reply, watch)
            if frames is None:
                answer = await self._whole_answer(watch)
                await self._settle(reply)
                yield self._last(answer)
                return
            decoder = self._decoder
            # A decoder of a plugin may take one frame at a time only, and not note what it repairs.
            feed_all = getattr(decoder, "feed_all", None) or functools.partial(_feed_each, decoder)
            if not hasattr(decoder, "repaired"):
                feed_all = functools.partial(_feed_noting, feed_all, self._repaired)
            chunk, self._head = self._head or await self._chunk(watch), b""
            while chunk:
                at, length = 0, len(chunk)
                while at < length:
                    end = at + size
                    if end < length and (border := chunk.find(b"\n\n", end - 2, end + size)) >= 0:
                        end = border + 2  # the end of an event: a framing takes whole ones faster than parts
                    events: Batch = feed_all(frames.feed(chunk[at:end]))
                    at = end
                    if size < _LARGEST_PIECE:
                        size *= 2
                    self.is_ready = at < length
                    if not events:
                        continue
                    if isinstance(events[-1], TERMINAL):
                        await self._settle(reply)
                        yield self._last(events)
                        return
                    watch.pause()
                    yield events
                    watch.resume()
                try:  # as `_chunk`, without a call for each event
                    chunk = await reply.chunk()
                except InterlinguaError as error:
                    raise watch.why or error from None
                if watch.why is not None:
                    raise watch.why  # noqa: TRY301 - see above
            events = feed_all(frames.close())
            ended = bool(events) and isinstance(events[-1], TERMINAL)
            yield self._last(events if ended else events + decoder.close())
        except GeneratorExit:  # the reader needs no more
            raise
        except InterlinguaError as failure:
            yield self._failed(failure)
        except BaseException as error:  # of a foreign callback, transport or auth resolver
            if must_propagate(error):
                raise
            yield self._failed(contained(error))
        finally:
            watch.finish()
            self.close()

    def close(self) -> None:
        """Closes the connection at once. Pending reads fail."""
        if self._reply is not None:
            self._reply.close()

    def cut(self, why: str) -> Batch:
        """Returns the terminal event for a caller that leaves now; nothing if the stream has ended."""
        if self._watch is not None:
            self._watch.end(Aborted(why))
        self.close()
        return self._decoder.close(why, aborted=True)

    @property
    def _decoder(self) -> Decoding:
        if self._decoding is None:
            model = self._request.model
            self._decoding = self._wire.codec.StreamDecoder(
                model=model.id,
                provider=self._row.id,
                timestamp=self._timestamp,
                mint=unique_id,
                quirks=quirks_of(self._wire, model),
            )
            self._decoding.restoring(self._restore)
            scrubbing = getattr(self._decoding, "scrubbing", None)
            if scrubbing is not None:
                scrubbing(functools.partial(_cleaned, self._secrets))  # not a method: that would be a cycle
            self._is_cleaned = scrubbing is not None  # a wire of a plugin may have none
        return self._decoding

    async def _begin(self, watch: AttemptWatch) -> Reply:
        """Sends the request. A login's token that is refused is renewed once."""
        prepared, reply = await watch.during(self._send(watch))
        # Once: a token that is refused twice is refused for another reason than its age.
        if reply.status == 401 and prepared.renewable:
            reply.close()
            _, reply = await watch.during(self._send(watch, renew=True))
        watch.reading(reply.close)
        return reply

    async def _send(self, watch: AttemptWatch, *, renew: bool = False) -> tuple[Prepared, Reply]:
        options = self._options
        prepared = await self._prepare(self._wire, self._request, options, self._secrets, renew=renew)
        self._sent_losses = prepared.losses
        self._restore = prepared.restore
        if watch.why is not None:  # aborted by a callback: nothing is sent
            raise watch.why
        try:
            reply = await self._transport.send("POST", prepared.url, prepared.headers, prepared.body)
        except TransportError as error:
            raise unreachable(error, self._row, prepared.url) from error.__cause__
        self._reply = reply
        if options.on_response is not None:
            options.on_response(reply.status, reply.headers)
        return prepared, reply

    async def _framing(self, reply: Reply, watch: AttemptWatch) -> Any:
        """Returns the framing of the body; None for an unstreamed response, which some proxies send for any request."""
        codec = self._wire.codec
        # RFC 9110, 8.3: the type is case-insensitive, and parameters follow a semicolon.
        kind = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if reply.status != 200:
            body = await self._whole(watch)
            raise codec.decode_error(reply.status, page_text(body) if kind == "text/html" else body, reply.headers)
        declared, found = kind, None
        while found is None and (chunk := await self._chunk(watch)):
            self._head = (self._head + chunk).lstrip()  # padding before the first byte means nothing
            found = actual_type(self._head, declared)
        kind = found or declared
        if kind == "text/html":
            page = (await self._whole(watch))[:200].decode(errors="replace")
            raise BadWire(codec.API, f"got a web page instead of an answer; check the base URL: {page!r}")
        framing = codec.framing(kind)
        if kind == "application/json" and (not self._request.options.stream or framing.name == "sse"):
            return None
        return framing

    async def _whole_answer(self, watch: AttemptWatch) -> Batch:
        """Returns the events of an unstreamed response; only the last one if the others are not needed."""
        body = await self._whole(watch, LARGEST_ANSWER + 1)
        # Parsing a few hundred kilobytes takes less time than the change to a thread and back.
        if len(body) <= LARGE_ANSWER:
            return self._decoded(body)
        check_size(body, self._wire.codec.API)
        return await watch.during(asyncio.to_thread(self._decoded, body))

    def _decoded(self, body: bytes) -> Batch:
        about = {"provider": self._row.id, "timestamp": self._timestamp}
        with jsontext.Repairs() as repaired:
            answer = decode_answer(self._wire, self._request.model, body, unique_id, **about)
        self._repaired += repaired
        if self._restore is not None:
            answer = replace(answer, content=tuple(map(self._restore, blocks_of(answer.content))))
        answer = _cleaned(self._secrets, answer)
        if answer.stop_reason == "error" and (given := error_in(body)) is not None:
            self._decoder.failure = self._wire.codec.decode_error(0, {"error": given})
        events = list(unfold(answer))
        return events if self._request.options.stream else events[-1:]

    async def _whole(self, watch: AttemptWatch, limit: int = ERROR_BODY_LIMIT) -> bytes:
        assert self._reply is not None
        head, self._head = self._head, b""
        try:
            return head + await whole(self._reply, limit - len(head))
        except InterlinguaError as error:
            raise watch.why or error from None

    async def _chunk(self, watch: AttemptWatch) -> bytes:
        assert self._reply is not None
        try:
            chunk = await self._reply.chunk()
        except InterlinguaError as error:
            raise watch.why or error from None
        if watch.why is not None:  # what had arrived before it does not count any more
            raise watch.why
        return chunk

    async def _settle(self, reply: Reply) -> None:
        """Reads the rest of a body that is almost complete, so that the connection can be reused."""
        if getattr(reply, "ended", False):
            self._reply = None  # the connection is already free for others
            return
        try:
            # `data: [DONE]` and the last chunk usually arrive with the terminal event; to wait longer costs more than a
            # new connection.
            async with asyncio.timeout(0.05):
                while await reply.chunk():
                    pass
        except (TimeoutError, InterlinguaError):
            reply.close()

    def _last(self, events: Batch) -> Batch:
        last = events[-1] if events else None
        if isinstance(last, Done):
            if not self._is_cleaned:
                events[-1] = last = Done(last.reason, _cleaned(self._secrets, last.message))
            self._ended = last
        elif isinstance(last, Error):
            events[-1] = last = Error(last.reason, _without_secrets(self._secrets, last.error))
            self.failure = self._scrubbed(self._decoder.failure or failure_of(last.error))
        return events

    def _failed(self, failure: InterlinguaError) -> Batch:
        self.failure = self._scrubbed(failure)
        events = self._decoder.close(str(failure), aborted=isinstance(failure, Aborted))
        if events and isinstance(last := events[-1], Error):
            events[-1] = Error(last.reason, _without_secrets(self._secrets, last.error))
        return events

    def _scrubbed(self, failure: InterlinguaError) -> InterlinguaError:
        return without_frames(scrubbed(failure, self._secrets))


def _feed_each(decoder: Decoding, frames: Iterable[Frame]) -> Batch:
    return [event for frame in frames for event in decoder.feed(frame)]


def _feed_noting(feed_all: Callable[[list[Frame]], Batch], repaired: list[str], frames: list[Frame]) -> Batch:
    with jsontext.Repairs() as found:
        events = feed_all(frames)
    repaired += found
    return events


def quirks_of(target: Wire, model: ModelDescriptor) -> dict[str, Any] | None:
    """Returns the quirks of the variant and of the model's host for the codec."""
    own = getattr(target.codec, "quirks", {})
    return {"api": model.api, **own, **(model.compat or {})} if own or model.compat else None


def decode_answer(
    target: Wire, model: ModelDescriptor, body: Any, mint: Callable[[int], str], **about: Any
) -> AssistantMessage:
    """Decodes an unstreamed response. `mint` and quirks are passed to codecs that take them; a plugin's may not."""
    decode = target.codec.decode_response
    takes = parameters_of(getattr(decode, "func", decode))
    more = {"mint": mint, "quirks": quirks_of(target, model)}
    about |= {name: value for name, value in more.items() if value is not None and name in takes}
    answer: AssistantMessage = decode(body, model=model.id, **about)
    return answer


def unique_id(number: int) -> str:
    """Returns a unique id for a call without one: responses of several turns share a conversation."""
    return f"call_{uuid.uuid4().hex}"


def now() -> int:
    """Returns the time in milliseconds since the epoch."""
    return int(time.time() * 1000)


def _cleaned(secrets: Sequence[str | None], message: AssistantMessage) -> AssistantMessage:
    """Returns the message without secrets. Most have none, which a search of a few short fields shows."""
    about = f"{message.stop_detail} {message.response_id} {message.response_model}"
    if len(about) > _LONGEST_ABOUT:
        return _without_secrets(secrets, message)
    usage = message.usage.extra if message.usage is not None else None
    if message.extra or usage:
        try:
            about += orjson.dumps([message.extra, usage]).decode()
        except TypeError:  # huge integers, half surrogates, what a plugin's codec keeps
            about += f"{message.extra}{usage}"
    for key in secrets:
        if key and (key in about or '"' in key or "\\" in key):  # those are escaped
            return _without_secrets(secrets, message)
    return message


def _without_secrets(secrets: Sequence[str | None], message: AssistantMessage) -> AssistantMessage:
    """Returns the message without secrets in its metadata; its content comes from the model and is not changed."""
    clean = Scrubber(secrets)
    fields = ("error_message", "stop_detail", "response_id", "response_model")
    changed: dict[str, Any] = {name: clean(text) for name in fields if isinstance(text := getattr(message, name), str)}
    if message.usage is not None and message.usage.extra:
        changed["usage"] = replace(message.usage, extra=_scrubbed_value(message.usage.extra, clean))
    return replace(message, **changed, extra=_scrubbed_value(message.extra, clean))


def check_size(body: bytes, api: str, *, largest: int = LARGEST_ANSWER, values: int = _MAX_VALUES) -> None:
    """Refuses a response that would take gigabytes of memory, before it is parsed."""
    if len(body) > largest or body.count(b",") + body.count(b"[") > values:
        raise BadWire(
            api, f"the answer has more than {largest >> 20} MB or {values:,} values; ask for less, or a stream"
        )


def unreachable(error: TransportError, row: Provider, url: str) -> TransportError:
    """Returns the error for an unreachable server; for a local one, it suggests starting it."""
    if not row.keyless or not isinstance(error, NoConnection):
        return error
    address = urlsplit(url)
    return TransportError(f"no connection to {row.label} at {address.scheme}://{address.netloc}; is it running?")


@functools.lru_cache(maxsize=64)
def parameters_of(function: Any) -> frozenset[str]:
    """The names of a function's parameters."""
    return frozenset(inspect.signature(function).parameters)


def page_text(page: bytes) -> bytes:
    """Returns the text of an HTML page, in one line."""
    return b" ".join(re.sub(rb"(?is)<(script|style)\b.*?</\1>|<[^>]*>", b" ", page[:_LONGEST_PAGE]).split())


def error_in(body: bytes) -> Any:
    """Returns the error inside an unstreamed response: OpenAI's `error`, or OpenRouter's inside a choice."""
    wire = jsontext.read(body)
    if not isinstance(wire, dict):
        return None
    choices = wire.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return wire.get("error") or (first.get("error") if isinstance(first, dict) else None)


def scrubbed(failure: InterlinguaError, secrets: Iterable[str | None]) -> InterlinguaError:
    """Returns the same error, without secrets in its message and body, and truncated. Of a large body, the beginning of
    its text is left."""
    scrub = Scrubber(secrets)
    text = _beginning(str(failure), scrub)
    if text != str(failure):
        failure.args = (text,)
        if isinstance(failure, ProviderError | DialectError):
            failure.message = text
    if isinstance(failure, ProviderError):
        failure.code = failure.code and scrub(failure.code)[:_LONGEST_CODE]
        failure.body = _scrubbed_body(failure.body, scrub)
    return failure


def _scrubbed_body(body: Any, scrub: Callable[[str], str]) -> Any:
    try:
        text = body if isinstance(body, str) else jsontext.compact(body)
    except FormatError:  # a connector may raise an error with any value
        text = ""
    return _beginning(text, scrub) if len(text) > _LARGE_ERROR else _scrubbed_value(body, scrub)


def _beginning(text: str, scrub: Callable[[str], str]) -> str:
    """Returns a text without secrets, truncated. Only its beginning is searched: a provider may quote megabytes."""
    searched = scrub(text[:_LARGE_ERROR])
    if len(text) > _LARGE_ERROR:
        searched = searched[:-LONGEST_MESSAGE]  # where a secret may be cut, so that it is not found
    elif len(searched) <= LONGEST_MESSAGE:
        return searched
    return f"{searched[:LONGEST_MESSAGE]}… ({len(text)} characters)"


def _scrubbed_value(value: Any, scrub: Callable[[str], str], name: str = "") -> Any:
    """Returns a JSON value without secrets. A string is searched with its key before it, which may mark it as one."""
    if isinstance(value, dict):
        return {scrub(str(key)): _scrubbed_value(item, scrub, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed_value(item, scrub, name) for item in value]
    if not isinstance(value, str):
        return value
    head = f"{name}="
    text = scrub(head + value)
    return text.removeprefix(head) if text.startswith(head) else scrub(value)
