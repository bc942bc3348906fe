"""Sessions that the canvas writes: shared writers, agent histories, merges, canvases of clients."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Sequence
from typing import Any, Literal

from ..agent.history import StoredHistory
from ..dialects import dialect
from ..dialects.files.llm_canvas import decode_node
from ..serving.problems import HttpProblem
from ..sessions import EntryExists, Session, SessionError, SessionNotFound, StaleHead, UnfinishedCall, compaction
from ..sessions.compaction import is_bookkeeping
from ..values.errors import InterlinguaError
from ..values.messages import AgentMessage, CustomMessage, ToolCall, UserMessage, text_of
from ..values.request import Conversation, Entry
from .library import CLIENT, Library, SessionPlace

# --- writers ---------------------------------------------------------------------------------------------------------
#
# Sessions that the canvas writes, and the histories of its agents in them: several may grow in one session at once.


AGENT = "main"  # the agent of linked forks


class Writers:
    """Sessions open for writing, each once, as long as there is a writer."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._open: dict[str, tuple[Session, int]] = {}
        self._lock = asyncio.Lock()

    async def take(self, place: SessionPlace) -> Session:
        """Opens the session at a place for writing; raises SessionBusy. Release it afterwards."""
        async with self._lock:
            known = self._open.get(place.key)
            session = known[0] if known is not None else await asyncio.to_thread(self._opened, place)
            self._open[place.key] = (session, known[1] + 1 if known is not None else 1)
            return session

    def _opened(self, place: SessionPlace) -> Session:
        return self._library.open(place, read_only=False)

    async def keep(self, key: str, session: Session) -> None:
        """Takes over a new session, open for writing. Release it afterwards."""
        async with self._lock:
            self._open[key] = (session, 1)

    def current(self, key: str) -> Session:
        """Returns a session that is already open for writing."""
        return self._open[key][0]

    async def release(self, key: str) -> None:
        async with self._lock:
            session, users = self._open[key]
            if users > 1:
                self._open[key] = (session, users - 1)
                return
            del self._open[key]
            await asyncio.to_thread(session.close)

    @contextlib.asynccontextmanager
    async def writing(self, place: SessionPlace) -> Any:
        session = await self.take(place)
        try:
            yield session
        finally:
            await self.release(place.key)

    async def close(self) -> None:
        async with self._lock:
            for session, _ in self._open.values():
                await asyncio.to_thread(session.close)
            self._open.clear()


_LINGER = 10.0  # seconds


class Lingering:
    """Sessions that stay open for writing for a while after each use: commits come in bursts."""

    def __init__(self, writers: Writers) -> None:
        self._writers = writers
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()

    async def take(self, place: SessionPlace) -> Session:
        """Returns a session for writing; it need not be released."""
        if place.key not in self._timers:
            async with self._opening:  # requests that arrive together count as one user
                if place.key not in self._timers:
                    await self._writers.take(place)
                    self._restart(place.key)
        self._restart(place.key)
        return self._writers.current(place.key)

    def _restart(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(_LINGER, self._later, key)

    def _later(self, key: str) -> None:
        task = asyncio.ensure_future(self.close_one(key))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close_one(self, key: str) -> None:
        """Closes a session now, if it was kept open."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
            await self._writers.release(key)

    async def close(self) -> None:
        for key in list(self._timers):
            await self.close_one(key)
        await asyncio.gather(*self._closing, return_exceptions=True)


class BranchHistory(StoredHistory):
    """An agent's history on one branch of a session: its messages are consecutive, even if others append."""

    def __init__(self, session: Session, at: str | None, branch: str | None = None) -> None:
        self.at = at
        self.branch = branch
        super().__init__(session)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.session.context_entries(to=self.at) if self.at is not None else ()

    def _append(self, message: AgentMessage) -> None:
        if self.branch is not None:
            try:
                entry = self.session.append(message, branch=self.branch, expect=self.at)
            except StaleHead:  # the branch was moved concurrently: leave it, and continue without a name
                self.branch = None
            else:
                self.at = entry.id
                return
        self.at = self.session.append(message, parent_id=self.at).id

    def _note(self, kind: str, call: ToolCall, **fields: Any) -> None:
        super()._note(kind, call, at=self.at, **fields)

    def compact(self, summary: str, first_kept: str | None, **about: Any) -> None:
        names = {"tokens_before": "tokensBefore"}
        fields = {"summary": summary, "firstKept": first_kept, "timestamp": int(time.time() * 1000)}
        fields |= {names.get(key, key): value for key, value in about.items()}
        self._append(CustomMessage(compaction.ROLE, {key: value for key, value in fields.items() if value is not None}))
        self.sync()
        self.reload()

    def _read(self) -> tuple[Sequence[AgentMessage], Sequence[UnfinishedCall]]:
        if self.at is None:
            return (), ()
        return self.session.context_messages(to=self.at), self.session.unfinished_calls(to=self.at)


# --- merging ---------------------------------------------------------------------------------------------------------
#
# Merging branches of a session: as an entry with several parents, as a continuation, or as one message.
#
# - *explicit*: the new entry follows the target and has the heads of the sources as further parents;
# - *linear*: the new entry follows the target only; its sources are noted with it;
# - *squash*: the sources' messages since they diverged from the target are joined in one message after the target.


SELF = "interlingua"


def merged(
    session: Session,
    into: str,
    sources: Sequence[str],
    message: AgentMessage | None,
    strategy: Literal["explicit", "linear", "squash"],
) -> Entry:
    """The entry that merges branches (or entries) into a branch, which moves there; the sources are unchanged."""
    branches = session.branches()
    if into not in branches:
        raise HttpProblem(404, f"no branch {into!r}", code="branch_not_found", path="$.into", remedy="make it first")
    if not sources:
        raise HttpProblem(422, "nothing to merge", path="$.from", remedy="name at least one branch")
    heads = [_head(session, source, at) for at, source in enumerate(sources)]
    target = branches[into].head
    given = message if message is not None else _squashed(session, target, heads, strategy)
    reported = [
        {"branch": source, "head": head} if source in branches else {"head": head}
        for source, head in zip(sources, heads, strict=True)
    ]
    about = {SELF: {"merge": {"strategy": strategy, "into": into, "target": target, "sources": reported}}}
    parents = [head for head in dict.fromkeys(heads) if head != target] if strategy == "explicit" else []
    return session.append(given, branch=into, expect=target, parents=parents, extra=about)


def _head(session: Session, source: str, at: int) -> str:
    known = session.branches().get(source)
    head = known.head if known is not None else source
    if known is not None and head is None:
        raise HttpProblem(422, f"branch {source!r} has no messages", path=f"$.from[{at}]", remedy="leave it out")
    session.line_of(head or "")
    return head or ""


def _squashed(session: Session, target: str | None, heads: Sequence[str], strategy: str) -> UserMessage:
    if strategy != "squash":
        raise HttpProblem(422, "a merge needs a message", path="$.message", remedy="send a message for the merge")
    known = {entry.id for entry in session.path(to=target)} if target is not None else set()
    parts = []
    for head in heads:
        for entry in session.path(to=head):
            message: AgentMessage = entry.message
            if entry.id not in known and not is_bookkeeping(message) and not isinstance(message, CustomMessage):
                parts.append(f"{message.role}: {text_of(message.content)}")
            known.add(entry.id)
    extra: dict[str, Any] = {}
    return UserMessage(content="\n\n".join(parts), timestamp=int(time.time() * 1000), extra=extra)


# --- canvases of clients ---------------------------------------------------------------------------------------------
#
# Canvases in the `llm-canvas` format, stored as sessions without loss.
#
# A canvas is a session of the agent `canvas`. A node is an entry, or several where one message of that format is
# several of ours; the last of them has the node's id. All methods block: use threads.


API = "llm-canvas"


class Nodes:
    """The canvases of a library."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._pending: dict[tuple[str, str], list[str]] = {}  # merges that were named before they were committed

    def key(self, id: str) -> str:
        return self._library.own_key(CLIENT, id)

    def place(self, id: str) -> SessionPlace:
        return self._library.place(self.key(id))

    def reading(self, id: str) -> Session:
        try:
            return self._library.open(self.place(id))
        except InterlinguaError:
            raise no_canvas(id) from None

    def create(self, title: str | None, description: str | None, id: str | None = None) -> str:
        """Creates a canvas; an existing one is not created twice, and may be open for writing."""
        name = str(uuid.uuid4()) if id is None else id
        if not name:
            raise HttpProblem(422, "the id of a canvas is empty", path="$.canvas", remedy="use another id, or none")
        try:
            with Session.open(name, agent=CLIENT, store=self._library.store, create=False, read_only=True) as known:
                if known.line_count:
                    return name
        except SessionNotFound:
            pass
        except SessionError as error:
            raise HttpProblem(422, str(error), path="$.canvas", remedy="use another id, or none") from None
        about = {key: value for key, value in (("title", title), ("description", description)) if value}
        given = Conversation(extra={"interlingua": {"canvas": about}})
        with Session.open(name, agent=CLIENT, store=self._library.store, about=given) as session:
            if not session.line_count:
                session.label(None, title or "Untitled canvas")
        return name

    def summaries(self) -> list[dict[str, Any]]:
        """All canvases, the oldest first."""
        store = self._library.store
        infos = store.sessions(CLIENT) if CLIENT in store.agents() else []
        found = [self.summary(info.id) for info in sorted(infos, key=lambda info: (info.created or 0, info.id))]
        return [one for one in found if one is not None]

    def append(
        self,
        session: Session,
        id: str,
        name: str,
        node: dict[str, Any],
        parents: Sequence[str] = (),
        branch: str | None = None,
    ) -> None:
        """Commits a node. The same node again is the same commit; another with its id is refused.

        `branch` is at the node's parent, and moves along if the node is one entry.
        """
        *parts, last = _entries(name, node)
        parent = node.get("parent_id")
        further = self._pending.get((id, name), ())
        named = dict.fromkeys((*last.parents, *further, *parents))
        merged = tuple(other for other in named if other != parent and _has(session, other))
        alone = branch is not None and not parts
        where: dict[str, Any] = {"branch": branch} if alone else {"parent_id": last.parent_id}
        try:
            for part in () if parts and _has(session, name) else parts:
                with contextlib.suppress(EntryExists):
                    session.append(part.message, id=part.id, parent_id=part.parent_id, extra=part.extra)
            session.append(last.message, id=name, parents=merged, extra=last.extra, **where)
        except SessionNotFound:
            raise HttpProblem(
                422, f"no node {parent!r} to hang from", path="$.data.data.parent_id", remedy="commit the parent first"
            ) from None
        except EntryExists:
            if session.entry(name).message != last.message:
                raise HttpProblem(
                    400,
                    f"Message with ID {name} already exists",
                    code="node_already_exists",
                    path="$.data.data.id",
                    remedy="choose another id, or update the message",
                ) from None
        self._pending.pop((id, name), None)

    def revise(self, session: Session, id: str, name: str, node: dict[str, Any]) -> list[str]:
        """Applies the current state of a node; returns the nodes that changed.

        The client sends the whole parent with each new child, whose id it has not committed yet: children follow from
        parents, so that alone changes nothing. A child with another parent is a merge.
        """
        if not _has(session, name):
            raise HttpProblem(
                404, f"Message with ID {name} not found", code="message_not_found", remedy="commit it first"
            )
        changed: list[str] = []
        entries = _entries(name, {**node, "parent_id": session.entry(name, media=False).parent_id})
        for entry in entries:
            there = entry.id or ""
            if not _has(session, there):
                continue
            before = session.entry(there)
            if (before.message, before.extra) != (entry.message, entry.extra):
                session.revise(there, entry.message, extra=entry.extra)
                changed.append(name)
        children = node.get("child_ids")
        named = [child for child in children if isinstance(child, str)] if isinstance(children, list) else []
        changed += [child for child in named if self._merge(session, id, name, child)]
        return list(dict.fromkeys(changed))

    def _merge(self, session: Session, id: str, source: str, child: str) -> bool:
        """Whether a child that a node names is a merge without that parent."""
        if not _has(session, child):
            waiting = self._pending.setdefault((id, child), [])
            if source not in waiting:
                waiting.append(source)
            while len(self._pending) > 10_000:
                del self._pending[next(iter(self._pending))]
            return False
        entry = session.entry(child)
        if entry.parent_id == source or source in entry.parents or source == child:
            return False
        session.revise(child, entry.message, parents=(*entry.parents, source))
        return True

    def data(self, id: str) -> dict[str, Any]:
        """Returns a whole canvas, as the client reads it."""
        with self.reading(id) as session:
            about = session.about.get("canvas")
            conversation = session.conversation()
            kept = tuple(entry for entry in conversation.entries if entry.id is not None)
            whole = Conversation(entries=kept, extra={API: {"~canvas": True}}) if kept else None
            nodes = dialect(API).encode(whole).body["nodes"] if whole is not None else {}
            created = session.about.get("createdAt")
            given = about if isinstance(about, dict) else {}
            return {
                "canvas_id": id,
                "title": given.get("title", session.title),
                "description": given.get("description"),
                "created_at": created / 1000 if isinstance(created, int) else 0.0,
                "last_updated": self._last_updated(id, created),
                "nodes": nodes,
            }

    def summary(self, id: str) -> dict[str, Any] | None:
        try:
            with self.reading(id) as session:
                about, created = session.about.get("canvas"), session.about.get("createdAt")
                roots = [entry.id for entry in session.roots()]
                count = sum(1 for entry in session.entries() if entry.id is not None and "/" not in entry.id)
                given = about if isinstance(about, dict) else {}
                return {
                    "canvas_id": id,
                    "created_at": created / 1000 if isinstance(created, int) else 0.0,
                    "root_ids": roots,
                    "node_count": count,
                    "title": given.get("title", session.title),
                    "description": given.get("description"),
                    "meta": {"last_updated": self._last_updated(id, created)},
                }
        except HttpProblem:
            return None

    def _last_updated(self, id: str, created: Any) -> float:
        infos = self._library.store.sessions(CLIENT)
        modified = next((info.modified for info in infos if info.id == id), created if isinstance(created, int) else 0)
        return modified / 1000


def _entries(name: str, node: dict[str, Any]) -> Sequence[Entry]:
    """Returns the entries of a node, the last of which has its id."""
    return decode_node(name, {**node, "id": name, "child_ids": []})


def _has(session: Session, id: str) -> bool:
    try:
        session.line_of(id)
    except SessionNotFound:
        return False
    return True


def no_canvas(id: str) -> HttpProblem:
    return HttpProblem(404, f"Canvas with ID {id} not found", code="canvas_not_found", remedy="list the canvases")
