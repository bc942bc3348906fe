"""What may end a call from outside: the caller's signal, and silence."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from ..values.abort import Abort
from ..values.errors import Aborted, InterlinguaError, TimedOut

Result = TypeVar("Result")


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds: for the first event, and between events. Pings are not events. None: for ever.

    How long a connection may take is the transport's affair.
    """

    first: float | None = 600.0
    idle: float | None = 300.0

    @classmethod
    def of(cls, timeout: "float | Timeouts | None") -> "Timeouts":
        """A number is both."""
        if timeout is None:
            return cls()
        return timeout if isinstance(timeout, Timeouts) else cls(first=timeout, idle=timeout)


class Watch:
    """Watches one call in its event loop. When it ends the call, `why` says so, and whatever is pending is stopped.

    Progress only moves the deadline; the timer is set anew when it rings too early. So an event costs no timer.
    """

    def __init__(self, signal: Abort | None, timeouts: Timeouts) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeouts = timeouts
        self._stop: Callable[[], object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._begun = False
        self._why: InterlinguaError | None = None
        self._signal = signal
        self._forget = signal.on_abort(self._signalled) if signal is not None else None
        if signal is not None and signal.aborted:
            self._end(Aborted(signal.reason))
        self._expect(timeouts.first)

    @property
    def why(self) -> InterlinguaError | None:
        """What ended the call. A signal counts as soon as it has fired, also before the event loop comes to tell."""
        if self._why is None and self._signal is not None and self._signal.aborted:
            self._why = Aborted(self._signal.reason)
        return self._why

    async def during(self, work: "asyncio.Future[Result]") -> Result:
        """The outcome of some work, unless the call ends before: then the work is cancelled, and `why` raised."""
        self._stop = work.cancel
        try:
            if self.why is not None:
                work.cancel()
            return await work
        except asyncio.CancelledError:
            if self.why is not None and not _being_cancelled():
                raise self.why from None
            work.cancel()
            raise
        finally:
            self._stop = None

    def reading(self, stop: Callable[[], object]) -> None:
        """From now on `stop` is what ends the pending read."""
        self._stop = stop
        if self.why is not None:
            stop()

    def progress(self) -> None:
        """Something was said: the next deadline counts from here."""
        if not self._begun:
            self._begun = True
            self._expect(self._timeouts.idle)
        elif self._timeouts.idle is not None:
            self._due = self._loop.time() + self._timeouts.idle

    def end(self, why: InterlinguaError) -> None:
        """Ends the call from this side: whatever is pending is stopped, and `why` raised there."""
        self._end(why)
        self.finish()

    def finish(self) -> None:
        """The call is over."""
        self._stop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._forget is not None:
            self._forget()
            self._forget = None

    def _expect(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None and self.why is None:
            self._due = self._loop.time() + seconds
            self._timer = self._loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._ring)
            return
        seconds = self._timeouts.idle if self._begun else self._timeouts.first
        what = "nothing more was heard" if self._begun else "the answer did not begin"
        self._end(TimedOut(f"{what} within {seconds:g} s"))

    def _signalled(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the call over
            self._loop.call_soon_threadsafe(self._aborted)

    def _aborted(self) -> None:
        self._end(Aborted(self._signal.reason if self._signal is not None else None))

    def _end(self, why: InterlinguaError) -> None:
        if self._why is None:
            self._why = why
        if self._stop is not None:
            self._stop()


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
