"""The sessions that viewers have open, and the events for followers of the list of sessions."""

import asyncio
import contextlib
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from ..serving.problems import HttpProblem
from ..serving.sse import EventChannel, Joiner
from ..sessions import Session
from .library import Library, SessionPlace
from .session_list import Describer, Finder
from .shapes import BranchView, IndexState, LiveState, Row, SessionView, encode
from .trees import Tree

# --- one open session ------------------------------------------------------------------------------------------------
#
# An open session: its tree, the events for its viewers, and what is in progress.
#
# It belongs to one event loop; disk access runs in threads, one at a time.


ROWS_AT_ONCE = 500  # rows in one event


class Hub:
    """One open session."""

    def __init__(self, tree: Tree, epoch: str, describe: Callable[[SessionPlace], SessionView]) -> None:
        self.tree = tree
        self.place = tree.place
        self.channel = EventChannel(epoch)
        self.used = time.monotonic()
        self.live: dict[str, Any] = {}  # nodes in progress, by name
        self.runs: dict[str, Any] = {}
        self.committed: dict[str, str] = {}  # entries that a live node became
        self._describe = describe
        self._lock = asyncio.Lock()
        self._known = tree.total
        self._head = tree.head()
        self._branches = tree.branches()
        self._shown: tuple[str, bool] | None = None  # title, and whether something runs: as the viewers know them
        self._tasks: list[asyncio.Task[None]] = []
        self.deltas = Joiner(self._publish_deltas)
        tree.take_changed()

    @property
    def is_idle(self) -> bool:
        return not self.channel.viewers and not self.live and not any(run.is_active for run in self.runs.values())

    def start(self) -> None:
        """Follows appends of other processes."""
        for session in self.tree.sessions:
            self._tasks.append(asyncio.ensure_future(self._follow(session)))

    async def link(self, place: SessionPlace) -> None:
        """Shows a linked fork in this tree."""
        if await asyncio.to_thread(self.tree.link, place.key, place):
            self._tasks.append(asyncio.ensure_future(self._follow(self.tree.sessions[-1])))
        await self.update()

    async def set_spawned(self, spawned: dict[str, list[str]]) -> None:
        """Shows which sub-agents each entry started."""
        async with self._lock:
            changed = self.tree.set_spawned(spawned)
            rows = await asyncio.to_thread(lambda: [self.tree.row(id) for id in changed])
            if rows:
                self._publish_rows(rows, self._head)

    def commit(self, entry: str, node: str) -> None:
        """Reports that a live node became an entry, so that viewers replace it by the row."""
        self.committed[entry] = node
        while len(self.committed) > 1000:
            del self.committed[next(iter(self.committed))]

    async def stop(self, event: str = "shutdown") -> None:
        self.channel.close(event)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with self._lock:
            await asyncio.to_thread(self.tree.close)

    async def _follow(self, session: Session) -> None:
        watch = session.watch()
        try:
            while True:
                await watch.wait()
                await self.update()
        finally:
            watch.close()

    # --- what changed ------------------------------------------------------------------------------------------------

    async def update(self) -> None:
        """Reads new log lines and notifies the viewers before it returns."""
        async with self._lock:
            if self.channel.closing is not None:
                return
            rows, is_same, head, branches = await asyncio.to_thread(self._look)
            if not is_same:
                self.channel.close("reload")
                return
            self._publish_rows(rows, head)
            if (head, branches) != (self._head, self._branches):
                self._head, self._branches = head, branches
                self.publish("head", {"head": head, "branches": branches})

    def _look(self) -> tuple[list[Row], bool, str | None, tuple[BranchView, ...]]:
        tree = self.tree
        if not tree.refresh():
            return [], False, None, ()
        total = tree.total
        rows = tree.rows(self._known, total - self._known)
        fresh = {row.id for row in rows}
        for id in tree.take_changed():
            if id not in fresh:
                with contextlib.suppress(HttpProblem):  # a mark may reference a missing entry
                    rows.append(tree.row(id))
        self._known = total
        return rows, True, tree.head(), tree.branches()

    def _publish_rows(self, rows: list[Row], head: str | None) -> None:
        named = [replace(row, live=self.committed[row.id]) if row.id in self.committed else row for row in rows]
        for at in range(0, len(named), ROWS_AT_ONCE):
            piece = named[at : at + ROWS_AT_ONCE]
            self.publish("rows", {"rows": piece, "total": self._known, "head": head})
        self._head = head if rows else self._head

    def publish(self, event: str, data: Any) -> None:
        """Sends an event to every viewer, after earlier deltas."""
        self.deltas.flush()
        self.channel.publish(event, encode(data))

    def _publish_deltas(self, pieces: list[tuple[str, int, str]]) -> None:
        """Sends deltas since the last frame, joined by node and block."""
        nodes: dict[str, list[tuple[int, list[str]]]] = {}
        for node, block, text in pieces:
            parts = nodes.setdefault(node, [])
            if parts and parts[-1][0] == block:
                parts[-1][1].append(text)
            else:
                parts.append((block, [text]))
        for node, parts in nodes.items():
            reported = [{"block": block, "text": "".join(texts)} for block, texts in parts]
            self.channel.publish("delta", encode({"node": node, "parts": reported}))

    def notify(self, view: SessionView) -> None:
        """Publishes the session when its title changed, or a run began or ended; rows carry the rest."""
        shown = (view.title, view.live is not None)
        if shown != self._shown and self.channel.closing is None:
            self._shown = shown
            self.publish("session", view)

    async def snapshot(self) -> tuple[int, bytes]:
        """Returns a viewer's initial state, except for the rows, which are read page by page."""
        async with self._lock:
            described = await asyncio.to_thread(self._describe, self.place)
            self._shown = (described.title, described.live is not None)
            data = {
                "epoch": self.channel.epoch,
                "total": self._known,
                "head": self._head,
                "branches": self._branches,
                "session": described,
                "live": [node.view() for node in self.live.values()],
                "runs": [run.view() for run in self.runs.values()],
            }
            return self.channel.last, encode(data)


# --- all open sessions -----------------------------------------------------------------------------------------------


class LiveRun(Protocol):
    """A run in a session: one of this canvas, or one that a remote agent reports."""

    @property
    def key(self) -> str: ...
    @property
    def is_active(self) -> bool: ...
    def live_state(self) -> LiveState: ...


class OpenSessions(ABC):
    """Opens, describes and closes sessions; the canvas built on this knows their runs."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.epoch = secrets.token_hex(4)
        self.finder = Finder(library)
        self.describer = Describer(library, self.finder)
        self.events = EventChannel(self.epoch)
        self._hubs: dict[str, asyncio.Task[Hub]] = {}
        self._notifying: set[asyncio.Task[None]] = set()

    @abstractmethod
    def _all_runs(self, key: str | None = None) -> Sequence[LiveRun]:
        """Returns the runs of one session, or of all."""

    async def hub(self, key: str) -> Hub:
        """Returns the open session of a key; opens it if necessary."""
        opening = self._hubs.get(key)
        if opening is not None and opening.done() and (opening.exception() or opening.result().channel.closing):
            opening = None
        if opening is None:
            opening = self._hubs[key] = asyncio.ensure_future(self._open(key))
        hub = await asyncio.shield(opening)
        hub.used = time.monotonic()
        return hub

    async def _open(self, key: str) -> Hub:
        tree = await asyncio.to_thread(lambda: self.describer.open_tree(self.library.place(key)))
        hub = Hub(tree, self.epoch, self.describe)
        hub.start()
        return hub

    def describe(self, place: SessionPlace, *, wait: bool = True) -> SessionView:
        """Returns the list view of a session, with its current runs; slow parts are omitted unless `wait`."""
        view = self.describer.view(place if place.info is not None else self.library.current(place), wait=wait)
        live = self.live_state(place.key)
        return view if live is None else replace(view, live=live)

    def live_state(self, key: str) -> LiveState | None:
        """Returns what runs in a session now; what waits for the user comes first."""
        active = [run.live_state() for run in self._all_runs(key) if run.is_active]
        if not active:
            return None
        active.sort(key=lambda state: state.state != "waiting")
        return replace(active[0], runs=len(active))

    async def update_open(self, key: str) -> None:
        """Notifies the viewers of a session, if any, of what was just written."""
        hub = self._opened(key)
        if hub is not None:
            await hub.update()

    def _opened(self, key: str) -> Hub | None:
        """The hub of a session that is open now."""
        opening = self._hubs.get(key)
        return opening.result() if opening is not None and opening.done() and not opening.exception() else None

    async def close_hub(self, key: str) -> None:
        """Closes an open session that was deleted, and notifies its viewers."""
        opening = self._hubs.pop(key, None)
        if opening is not None:
            with contextlib.suppress(Exception):
                await (await opening).stop("deleted")

    def session_gone(self, key: str) -> None:
        self.describer.forget(key)
        self.events.publish("gone", encode({"key": key}))

    def session_changed(self, place: SessionPlace) -> None:
        """Sends the new description of a session to the viewers of the list, of the session itself, and of the one
        that started it as a sub-agent.
        """
        self.finder.wake()
        hub = self._opened(place.key)
        if not self.events.viewers and not self._hubs:
            return

        async def notify() -> None:
            view = await asyncio.to_thread(self.describe, place)
            self.events.publish("session", encode(view))
            if hub is not None:
                hub.notify(view)
            if view.spawned_by is not None and view.spawned_by.key is not None:
                await self._update_spawned(view.spawned_by.key)

        task = asyncio.ensure_future(notify())
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)

    def index_state(self) -> IndexState:
        return self.finder.state()

    def sources_changed(self) -> None:
        """Notifies followers of the list that its sessions may have changed."""
        self.describer.forget("")
        self.finder.wake()
        self.events.publish("sources", b"{}")

    async def _update_spawned(self, key: str) -> None:
        """Shows newly started sub-agents in an open tree."""
        hub = self._opened(key)
        if hub is not None:
            await hub.set_spawned(await asyncio.to_thread(self.describer.spawned_of, hub.place, hub.tree))

    def live_sessions(self) -> list[SessionView]:
        """Returns the sessions with current runs."""
        keys = dict.fromkeys(run.key for run in self._all_runs() if run.is_active)
        return [self.describe(self.library.place(key)) for key in keys]
