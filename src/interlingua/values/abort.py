"""The signal that stops a running call: fired once, seen everywhere it was handed to, from any thread or event loop."""

import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


class Abort:
    """A switch that goes on once. Hand it over as `signal=`; call `abort()` to stop what it was given to."""

    __slots__ = ("__weakref__", "_aborted", "_callbacks", "_children", "_lock", "_reason")

    def __init__(self) -> None:
        self._aborted = False
        self._reason: Any = None
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._children: weakref.WeakSet[Abort] | None = None
        self._lock = threading.Lock()

    @property
    def aborted(self) -> bool:
        return self._aborted

    @property
    def reason(self) -> Any:
        """What `abort` was given; None before, and when nothing was given."""
        return self._reason

    def abort(self, reason: Any = None) -> None:
        """Fires the signal. Later calls change nothing. What a callback raises is raised when all have been called."""
        with self._lock:
            if self._aborted:
                return
            self._aborted = True
            self._reason = reason
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
            children = list(self._children or ())
        failures = [failure for call in callbacks if (failure := _failure_of(call))]
        for child in children:
            child.abort(reason)
        if failures:
            raise failures[0]

    def on_abort(self, call: Callable[[], object]) -> Callable[[], None]:
        """Has `call` run when the signal fires, in the thread that fires it; at once if it already has.

        Returns a function that takes the wish back.
        """
        with self._lock:
            if not self._aborted:
                key = object()
                self._callbacks[key] = call
                return lambda: self._forget(key)
        call()
        return _nothing

    async def wait(self) -> Any:
        """Waits until the signal fires, and returns its reason."""
        import asyncio  # loading it takes as long as all the rest of the package

        loop = asyncio.get_running_loop()
        fired = asyncio.Event()
        forget = self.on_abort(lambda: _emit(loop, fired))
        try:
            await fired.wait()
        finally:
            forget()
        return self._reason

    def child(self) -> "Abort":
        """A signal that fires with this one as long as somebody holds it, and may be fired alone."""
        other = Abort()
        with self._lock:
            if not self._aborted:
                if self._children is None:
                    self._children = weakref.WeakSet()
                self._children.add(other)
                return other
        other.abort(self._reason)
        return other

    def _forget(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)

    def __repr__(self) -> str:
        return f"Abort(aborted, reason={self._reason!r})" if self._aborted else "Abort()"


def _nothing() -> None:
    pass


def _failure_of(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as failure:  # somebody else's callback: the others must still be called
        return failure
    return None


def _emit(loop: "asyncio.AbstractEventLoop", fired: "asyncio.Event") -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        loop.call_soon_threadsafe(fired.set)
