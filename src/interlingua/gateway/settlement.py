"""Settlement of exchanges that have ended: their cost, their reservations, and the observers that see them."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from ..connect.models import Catalogue
from .costs import charge
from .exchange import Exchange, Observer, Reservation
from .replying import log_defect

_BACKLOG = 1000  # ended exchanges that are not yet settled


class Settlement:
    """Counts each exchange once, and notifies the observers. `observers` may grow; `catalogue` has the prices."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = list(observers)
        self.catalogue: Catalogue | None = None
        self._found = _Hooks.of(self.observers)
        self._ended: list[tuple[Exchange, Reservation | None]] = []  # not yet settled
        self._writing: asyncio.Task[None] | None = None

    def before_end(self, exchange: Exchange) -> None:
        """Counts an exchange and notifies the observers that must know it before the client has the end."""
        self._count(exchange)
        _call_each(self._hooks().before_end, exchange)

    def close(self, exchange: Exchange, reservation: Reservation | None) -> None:
        """Queues an ended exchange for settlement. Exchanges that end together are written together, and the client's
        next request does not wait for the disk."""
        self._count(exchange)
        settle = getattr(reservation, "settle_soon", None)
        if settle is not None:
            try:
                settle(exchange)
            except Exception as error:
                log_defect(f"the reservation of {exchange.id} could not be settled", error)
            reservation = None
        if self._note(exchange) or reservation is not None:
            self._ended.append((exchange, reservation))
            if self._writing is None or self._writing.done():
                self._writing = asyncio.ensure_future(self._write_ended())

    async def close_refused(self, exchange: Exchange) -> None:
        """Notifies the observers of an exchange that ended before any provider was called."""
        if exchange.finished is None:
            exchange.finished = time.time()
            if self._note(exchange):
                await self._notify(exchange)

    def is_behind(self) -> bool:
        """Whether too many ended exchanges are unsettled."""
        for observer in self._hooks().writing:
            if observer.backlog > _BACKLOG:
                return True
        return len(self._ended) > _BACKLOG

    async def flush(self) -> None:
        """Waits until everything that has ended is written."""
        while self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])
        for observer in self.observers:
            if getattr(observer, "backlog", 0):
                await (getattr(observer, "catch_up", None) or observer.flush)()  # type: ignore[attr-defined]

    def _count(self, exchange: Exchange) -> None:
        exchange.finished = time.time()
        if exchange.is_counted:
            return
        exchange.is_counted = True
        try:
            charge(exchange, self.catalogue)
        except Exception as error:  # the reserved amount counts as spent
            log_defect(f"the use of {exchange.id} cannot be counted", error)

    def _hooks(self) -> "_Hooks":
        """The functions of the observers, found again where these have changed."""
        if self._found.observers != self.observers:
            self._found = _Hooks.of(self.observers)
        return self._found

    def _note(self, exchange: Exchange) -> bool:
        """Notifies the synchronous observers; returns whether there are others."""
        hooks = self._hooks()
        _call_each(hooks.note, exchange)
        return len(hooks.note) < len(hooks.observers)

    async def _write_ended(self) -> None:
        """Settles the reservation and notifies the observers. A failing observer loses only its own record."""
        while self._ended:
            ended, self._ended = self._ended, []
            # All at once, so that they are one write.
            await asyncio.gather(*(self._settle(exchange, hold) for exchange, hold in ended if hold is not None))
            await self._notify(*(exchange for exchange, _ in ended))

    async def _settle(self, exchange: Exchange, reservation: Reservation) -> None:
        try:
            await reservation.settle(exchange)
        except Exception as error:
            log_defect(f"the reservation of {exchange.id} could not be settled", error)

    async def _notify(self, *exchanges: Exchange) -> None:
        """Notifies the slow observers, after the exchange is in the ledger."""
        for observer in self.observers:
            written = getattr(observer, "written", None)
            if written is not None:
                await written()
        for observer in self.observers:
            if hasattr(observer, "note"):
                continue
            together = getattr(observer, "observe_all", None)
            calls = [together(exchanges)] if together is not None else map(observer.observe, exchanges)
            for call in calls:
                try:
                    await call
                except Exception as error:
                    log_defect(f"an observer failed for {', '.join(one.id for one in exchanges)}", error)


class _Hooks(NamedTuple):
    """What observers have beside `observe`: functions that wait for nothing, and those that write later."""

    observers: list[Observer]
    before_end: tuple[Callable[[Exchange], None], ...]
    note: tuple[Callable[[Exchange], None], ...]
    writing: tuple[Any, ...]

    @classmethod
    def of(cls, observers: Sequence[Observer]) -> Self:
        def found(name: str) -> tuple[Any, ...]:
            return tuple(getattr(one, name) for one in observers if getattr(one, name, None) is not None)

        writing = tuple(one for one in observers if hasattr(one, "backlog"))
        return cls([*observers], found("before_end"), found("note"), writing)


def _call_each(functions: Sequence[Callable[[Exchange], None]], exchange: Exchange) -> None:
    """Calls functions of observers. A failing one loses only its own record."""
    for function in functions:
        try:
            function(exchange)
        except Exception as error:
            log_defect(f"an observer failed for {exchange.id}", error)
