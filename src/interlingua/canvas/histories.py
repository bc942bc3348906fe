"""Sessions that the canvas writes, and the histories of its agents in them: several may grow in one session at once."""

import asyncio
import contextlib
import time
from typing import Any

from ..agent.batch import Journal
from ..sessions import Session, SessionBusy, StaleHead, UnfinishedCall, compaction
from ..values.canonical import build, plain
from ..values.messages import AgentMessage, CustomMessage, ToolCall, ToolResultMessage
from ..values.request import Entry
from .library import Library, Place

AGENT = "main"  # whose sessions linked forks are


class Writers:
    """Sessions open for writing, each once, as long as somebody writes."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._open: dict[str, tuple[Session, int]] = {}
        self._lock = asyncio.Lock()

    async def take(self, place: Place) -> Session:
        """The session at a place, open for writing; raises SessionBusy. Give it back."""
        async with self._lock:
            known = self._open.get(place.key)
            session = known[0] if known is not None else await asyncio.to_thread(self._opened, place)
            self._open[place.key] = (session, known[1] + 1 if known is not None else 1)
            return session

    def _opened(self, place: Place) -> Session:
        return self._library.open(place, read_only=False)

    async def keep(self, key: str, session: Session) -> None:
        """Takes over a session that was just made, open for writing. Give it back."""
        async with self._lock:
            self._open[key] = (session, 1)

    def current(self, key: str) -> Session:
        """A session that is open for writing already."""
        return self._open[key][0]

    async def give_back(self, key: str) -> None:
        async with self._lock:
            session, users = self._open[key]
            if users > 1:
                self._open[key] = (session, users - 1)
                return
            del self._open[key]
            await asyncio.to_thread(session.close)

    @contextlib.asynccontextmanager
    async def writing(self, place: Place) -> Any:
        session = await self.take(place)
        try:
            yield session
        finally:
            await self.give_back(place.key)

    async def close(self) -> None:
        async with self._lock:
            for session, _ in self._open.values():
                await asyncio.to_thread(session.close)
            self._open.clear()


class Lingering:
    """Sessions that stay open for writing for a while after each use: commits come in rows."""

    def __init__(self, writers: Writers, seconds: float = 10.0) -> None:
        self._writers = writers
        self._seconds = seconds
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def take(self, place: Place) -> Session:
        """A session to write now; it need not be given back."""
        timer = self._timers.pop(place.key, None)
        if timer is not None:
            timer.cancel()
            session = self._writers.current(place.key)
        else:
            session = await self._writers.take(place)
        loop = asyncio.get_running_loop()
        self._timers[place.key] = loop.call_later(self._seconds, self._later, place.key)
        return session

    def _later(self, key: str) -> None:
        task = asyncio.ensure_future(self.let_go(key))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def let_go(self, key: str) -> None:
        """Closes a session now, if it was kept open."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
            await self._writers.give_back(key)

    async def close(self) -> None:
        for key in list(self._timers):
            await self.let_go(key)


class BranchHistory(Journal):
    """An agent's history on one branch of a session: what it says follows what it said, whatever others append."""

    def __init__(self, session: Session, at: str | None, branch: str | None = None) -> None:
        self.session = session
        self.at = at
        self.branch = branch
        self.journal: Journal = self
        self.messages: list[AgentMessage] = []
        self._open: dict[str, UnfinishedCall] = {}
        self.reload()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.session.context_entries(to=self.at) if self.at is not None else ()

    def append(self, message: AgentMessage) -> None:
        self.at = self._append(message).id
        self.messages.append(message)
        if isinstance(message, ToolResultMessage):
            self._open.pop(message.tool_call_id, None)

    def _append(self, message: AgentMessage) -> Entry:
        if self.branch is not None:
            try:
                return self.session.append(message, branch=self.branch, expect=self.at)
            except StaleHead:  # somebody moved the branch: it is theirs now, and this goes on without a name
                self.branch = None
        return self.session.append(message, parent_id=self.at)

    def note_begun(self, call: ToolCall) -> None:
        self.session.journal("tool_start", call_id=call.id, name=call.name, at=self.at)

    def note_finished(self, call: ToolCall, result: ToolResultMessage) -> None:
        self.session.journal("tool_end", call_id=call.id, name=call.name, at=self.at, result=plain(result))

    def begun(self, call_id: str) -> bool:
        found = self._open.get(call_id)
        return found is not None and found.started

    def finished(self, call_id: str) -> ToolResultMessage | None:
        found = self._open.get(call_id)
        if found is None or not isinstance(found.result, dict):
            return None
        result: ToolResultMessage = build(found.result, ToolResultMessage)
        return result

    def sync(self) -> None:
        self.session.sync()

    def compact(self, summary: str, first_kept: str | None, **about: Any) -> None:
        names = {"tokens_before": "tokensBefore"}
        fields = {"summary": summary, "firstKept": first_kept, "timestamp": int(time.time() * 1000)}
        fields |= {names.get(key, key): value for key, value in about.items()}
        given = {key: value for key, value in fields.items() if value is not None}
        self.at = self._append(CustomMessage(compaction.ROLE, given)).id
        self.sync()
        self.reload()

    def reload(self) -> None:
        self.messages[:] = [] if self.at is None else self.session.context_messages(to=self.at)
        unfinished = () if self.at is None else self.session.unfinished_calls(to=self.at)
        self._open = {found.call.id: found for found in unfinished}


__all__ = ["AGENT", "BranchHistory", "SessionBusy", "Writers"]
