"""The sessions that viewers have open, and the events for whoever follows the list of all sessions."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from ..serving.sse import Channel
from .finding import Finder
from .hubs import Hub
from .library import Library, Place
from .listing import Describer
from .shapes import IndexState, LiveState, SessionView, encode
from .trees import Tree


class LiveRun(Protocol):
    """A run in a session: one of this canvas, or one that an agent elsewhere reports."""

    @property
    def key(self) -> str: ...
    @property
    def is_active(self) -> bool: ...
    def live_state(self) -> LiveState: ...


class OpenSessions:
    """Opens, describes and closes sessions; what runs in them is known to the canvas built on this."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.epoch = secrets.token_hex(4)
        self.finder = Finder(library)
        self.describer = Describer(library, self.finder)
        self.events = Channel(self.epoch)
        self._hubs: dict[str, asyncio.Task[Hub]] = {}
        self._emitter: set[asyncio.Task[None]] = set()

    def _all_runs(self, key: str | None = None) -> Sequence[LiveRun]:
        """The runs of one session, or of all."""
        raise NotImplementedError

    async def hub(self, key: str) -> Hub:
        """The open session of a key; opened if it is not."""
        opening = self._hubs.get(key)
        if opening is not None and opening.done() and (opening.exception() or opening.result().channel.closing):
            opening = None
        if opening is None:
            opening = self._hubs[key] = asyncio.ensure_future(self._open(key))
        hub = await asyncio.shield(opening)
        hub.used = time.monotonic()
        return hub

    async def _open(self, key: str) -> Hub:
        tree = await asyncio.to_thread(self._opened, key)
        hub = Hub(tree, self.epoch, self.describe)
        hub.start()
        return hub

    def _opened(self, key: str) -> Tree:
        place = self.library.place(key)
        tree = Tree(self.library, place)
        for link in self.describer.links_of(place):
            tree.link(link.key, link)
        tree.set_spawned(self.describer.spawned_of(place, tree))
        tree.refresh()
        return tree

    def describe(self, place: Place) -> SessionView:
        """What the list says of a session, with what runs in it now."""
        view = self.describer.view(place if place.info is not None else self.library.current(place))
        live = self.live_state(place.key)
        return view if live is None else replace(view, live=live)

    def live_state(self, key: str) -> LiveState | None:
        """What runs in a session now; what waits for a person comes first."""
        active = [run.live_state() for run in self._all_runs(key) if run.is_active]
        if not active:
            return None
        active.sort(key=lambda state: state.state != "waiting")
        return replace(active[0], runs=len(active))

    async def update_open(self, key: str) -> None:
        """Has the viewers of a session know what was just written, if it has any."""
        opening = self._hubs.get(key)
        if opening is not None and opening.done() and not opening.exception():
            await opening.result().update()

    async def close_hub(self, key: str, event: str) -> None:
        """Closes an open session; its viewers are told why."""
        opening = self._hubs.pop(key, None)
        if opening is not None:
            with contextlib.suppress(Exception):
                await (await opening).stop(event)

    def session_gone(self, key: str) -> None:
        self.events.publish("gone", encode({"key": key}))

    def session_changed(self, place: Place) -> None:
        """Has whoever follows the list know that a session is another by now."""
        self.finder.poke()
        if not self.events.viewers:
            return

        async def tell() -> None:
            view = await asyncio.to_thread(self.describe, place)
            self.events.publish("session", encode(view))

        task = asyncio.ensure_future(tell())
        self._emitter.add(task)
        task.add_done_callback(self._emitter.discard)

    def index_state(self) -> IndexState:
        return self.finder.state()

    def sources_changed(self) -> None:
        """Has whoever follows the list know that there may be other sessions in it."""
        self.describer.forget("")
        self.finder.poke()
        self.events.publish("sources", b"{}")

    async def update_spawned(self, key: str) -> None:
        """Shows the sub-agents that were started since in an open tree."""
        opening = self._hubs.get(key)
        if opening is not None and opening.done() and not opening.exception():
            hub = opening.result()
            await hub.set_spawned(await asyncio.to_thread(self.describer.spawned_of, hub.place, hub.tree))

    def live_sessions(self) -> list[SessionView]:
        """The sessions in which something runs now."""
        keys = dict.fromkeys(run.key for run in self._all_runs() if run.is_active)
        return [self.describe(self.library.place(key)) for key in keys]
