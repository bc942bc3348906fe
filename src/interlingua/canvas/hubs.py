"""A session that somebody looks at: its tree, the events that its viewers follow, and what is being written now.

All of it belongs to one event loop; what reads the disk runs in threads, one look at a time.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ..serving.problems import HttpProblem
from ..serving.sse import Channel, Joiner
from ..sessions import Session
from .library import Place
from .shapes import BranchView, Row, SessionView, encode
from .trees import Tree

ROWS_AT_ONCE = 500  # rows in one event


class Hub:
    """One open session."""

    def __init__(self, tree: Tree, epoch: str, describe: Callable[[Place], SessionView]) -> None:
        self.tree = tree
        self.place = tree.place
        self.channel = Channel(epoch)
        self.used = time.monotonic()
        self.live: dict[str, Any] = {}  # nodes that are being written, by their names
        self.runs: dict[str, Any] = {}
        self.committed: dict[str, str] = {}  # entries that a live node became
        self._describe = describe
        self._lock = asyncio.Lock()
        self._known = tree.total
        self._head = tree.head()
        self._branches = tree.branches()
        self._tasks: list[asyncio.Task[None]] = []
        self.deltas = Joiner(self._publish_deltas)
        tree.take_changed()

    @property
    def is_idle(self) -> bool:
        return not self.channel.viewers and not self.live and not any(run.is_active for run in self.runs.values())

    def start(self) -> None:
        """Follows what other processes append."""
        for session in self.tree.sessions:
            self._tasks.append(asyncio.ensure_future(self._follow(session)))

    async def link(self, place: Place) -> None:
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
        """Says that a live node became an entry, so that viewers put the row in its place."""
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
        """Takes in what the logs have gained, and has the viewers know. When it returns, they know."""
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
                with contextlib.suppress(HttpProblem):  # a mark may name what is not there
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
        """Sends an event to every viewer, after the deltas that came before it."""
        self.deltas.flush()
        self.channel.publish(event, encode(data))

    def _publish_deltas(self, pieces: list[tuple[str, int, str]]) -> None:
        """Pieces of text since the last frame, joined by node and block."""
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

    async def snapshot(self) -> tuple[int, bytes]:
        """All that a viewer needs to begin with, but the rows: those are read page by page."""
        async with self._lock:
            described = await asyncio.to_thread(self._describe, self.place)
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
