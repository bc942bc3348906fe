"""Servers in a thread of their own, for callers with and without an event loop."""

import abc
import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from ..values.errors import InterlinguaError

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads, from `start` to `stop`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None

    @property
    def inside(self) -> bool:
        """Whether the caller runs in this thread, where waiting would deadlock."""
        return threading.current_thread() is self._thread

    def start(self, first: Coroutine[Any, Any, None]) -> None:
        """Starts the thread and waits for `first`; if that fails, there is no thread."""
        if self.running:
            first.close()
            raise InterlinguaError(f"{self._name} is already running; stop it first, or create another")
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name=self._name, daemon=True)
        self._thread.start()
        try:
            self.run(first)
        except BaseException:
            self.stop()
            raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the thread and waits for it."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def stop(self) -> None:
        """Cancels running tasks, and returns when the thread has ended."""
        if self._loop is None or self._thread is None:
            return
        self.run(_cancel_the_rest())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None


async def _cancel_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


class ThreadedServer(abc.ABC):
    """A server that runs from `start` to `stop`, or within `with` or `async with`."""

    def __init__(self, name: str) -> None:
        self._thread = LoopThread(name)

    def start(self) -> Self:
        self._thread.start(self._open())
        return self

    def stop(self) -> None:
        """Ends every response and connection; the record stays readable."""
        if self._thread.running:
            self._thread.run(self._close())
            self._thread.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    @abc.abstractmethod
    async def _open(self) -> None: ...

    @abc.abstractmethod
    async def _close(self) -> None: ...
