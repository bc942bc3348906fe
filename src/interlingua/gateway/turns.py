"""Fair scheduling of streams: responses that are starting take precedence over running ones.

An event loop runs everything that is ready before it polls its sockets again. When many streams have much to translate
or to forward, a new request would wait for all of them at each of its steps. So one pass of the loop handles a few
kilobytes of the streams that have begun, first come first served; the rest waits for the next pass.
"""

import asyncio
from collections import deque

_FREE = 256  # bytes of a chunk that needs no turn
_BUDGET = 2048  # bytes per pass; the chunk that exceeds it is still handled as a whole


class Turns:
    """The streams of one event loop that have something to translate or to forward."""

    def __init__(self) -> None:
        self._left = _BUDGET
        self._is_counting = False  # `_begin_pass` is scheduled
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Waits until `size` bytes may be handled. A few events do not wait: they take less time than a pass."""
        if size <= _FREE:
            return
        loop = asyncio.get_running_loop()
        if not self._is_counting:
            self._is_counting = True
            loop.call_soon(self._begin_pass, loop)
        # Not past those that wait: a small chunk would otherwise always overtake a large one.
        if self._left > 0 and not self._waiting:
            self._left -= size
            return
        turn = loop.create_future()
        self._waiting.append((size, turn))
        await turn

    def _begin_pass(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = _BUDGET
        while self._waiting and self._left > 0:
            size, turn = self._waiting.popleft()
            if not turn.done():  # the exchange may have been cancelled
                self._left -= size
                turn.set_result(None)
        self._is_counting = self._left < _BUDGET
        if self._is_counting:
            loop.call_soon(self._begin_pass, loop)
