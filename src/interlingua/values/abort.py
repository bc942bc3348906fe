"""`Abort`: a one-shot signal that stops running calls, safe across threads and event loops."""

import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


class Abort:
    """A one-shot abort signal. Pass it as `signal=`; call `abort()` to stop every call that received it."""

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
        """The reason passed to `abort`; None before it fires, or if none was given."""
        return self._reason

    def abort(self, reason: Any = None) -> None:
        """Fires the signal; later calls do nothing. Raises the first exception of a callback after all have run."""
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
        """Runs `call` when the signal fires, in the thread that fires it; immediately if it has fired already.

        Returns a function that removes the callback.
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
        import asyncio  # importing asyncio takes as long as the rest of the package

        loop = asyncio.get_running_loop()
        fired = asyncio.Event()
        forget = self.on_abort(lambda: _emit(loop, fired))
        try:
            await fired.wait()
        finally:
            forget()
        return self._reason

    def child(self) -> "Abort":
        """Returns a signal that fires with this one while it is referenced, and can be fired on its own."""
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
    except Exception as failure:  # foreign callback: the others must still run
        return failure
    return None


def _emit(loop: "asyncio.AbstractEventLoop", fired: "asyncio.Event") -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits there
        loop.call_soon_threadsafe(fired.set)
