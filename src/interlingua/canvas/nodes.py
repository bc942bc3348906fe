"""Canvases as the `llm-canvas` format has them, kept as sessions: nodes in, nodes out, nothing lost between.

A canvas is a session of the agent `canvas`. A node is an entry, or several where one message of that format is several
of ours; the last of them has the node's id. All of it blocks: use threads.
"""

import contextlib
import uuid
from collections.abc import Sequence
from typing import Any

from ..dialects import dialect
from ..serving.problems import HttpProblem
from ..sessions import EntryExists, Session, SessionNotFound
from ..values.errors import InterlinguaError
from ..values.request import Conversation, Entry
from .library import CLIENT, Library, Place

API = "llm-canvas"
_OTHER = "~other"  # the id of a node that keeps a first system message a message


class Nodes:
    """The canvases of a library."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._pending: dict[tuple[str, str], list[str]] = {}  # merges that were named before they were committed

    def key(self, id: str) -> str:
        return self._library.own_key(CLIENT, id)

    def place(self, id: str) -> Place:
        return self._library.place(self.key(id))

    def reading(self, id: str) -> Session:
        try:
            return self._library.open(self.place(id))
        except InterlinguaError:
            raise no_canvas(id) from None

    def create(self, title: str | None, description: str | None, id: str | None = None) -> str:
        """A new canvas. One that is there already is not made twice."""
        name = id or str(uuid.uuid4())
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

    def append(self, session: Session, id: str, name: str, node: dict[str, Any], parents: Sequence[str] = ()) -> None:
        """Commits a node. The same node again is the same commit; another with its id is refused."""
        entries = _entries(name, node)
        parent = node.get("parent_id")
        if isinstance(parent, str) and not _has(session, parent):
            raise HttpProblem(
                422, f"no node {parent!r} to hang from", path="$.data.data.parent_id", remedy="commit the parent first"
            )
        if _has(session, name):
            if session.entry(name).message == entries[-1].message:
                return
            raise HttpProblem(
                400,
                f"Message with ID {name} already exists",
                code="node_already_exists",
                path="$.data.data.id",
                remedy="choose another id, or update the message",
            )
        further = self._pending.pop((id, name), [])
        named = dict.fromkeys((*entries[-1].parents, *further, *parents))
        merged = tuple(other for other in named if other != parent and _has(session, other))
        for entry in entries:
            last = entry is entries[-1]
            with contextlib.suppress(EntryExists):
                session.append(
                    entry.message,
                    id=entry.id,
                    parent_id=entry.parent_id,
                    parents=merged if last else (),
                    extra=entry.extra,
                )

    def revise(self, session: Session, id: str, name: str, node: dict[str, Any]) -> list[str]:
        """Takes in what a node says now; gives the nodes that changed by it.

        The client sends the whole parent with each new child, whose id it has not committed yet: children follow from
        parents, so that alone changes nothing. A child that hangs elsewhere is a merge.
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
        """Whether a child that a node names is a merge that did not know of it."""
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
        """A canvas as a whole, as the client reads it."""
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
    """The entries of a node. A system message alone would be read as a canvas's system text: so it is not alone."""
    other = {"id": _OTHER, "message": {"role": "user", "content": ""}, "child_ids": []}
    decoded = dialect(API).decode({"nodes": {_OTHER: other, name: {**node, "id": name, "child_ids": []}}})
    return [entry for entry in decoded.entries if entry.id != _OTHER]


def _has(session: Session, id: str) -> bool:
    try:
        session.line_of(id)
    except SessionNotFound:
        return False
    return True


def no_canvas(id: str) -> HttpProblem:
    return HttpProblem(404, f"Canvas with ID {id} not found", code="canvas_not_found", remedy="list the canvases")
