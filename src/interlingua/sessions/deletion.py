"""Deleting sessions, with a period in which that can be undone; after it, everything of them is removed.

What goes with a session: its lines and index, set-aside originals, blobs that no other session names, its words in the
search index, and whatever others keep by its id (`register_forgetter`).
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from .blobs import NAME
from .session import Session
from .store import Deleted, SessionBusy, SessionNotFound, Store

UNDO = 7 * 24 * 3600.0  # seconds
GRACE = 60.0  # seconds for which a blob is left alone that somebody has just put: its line may be on the way

Forget: TypeAlias = Callable[[str, str], object]
_forgetters: list[Forget] = []


class Purged(NamedTuple):
    """What was removed for good."""

    sessions: int
    blobs: int


def register_forgetter(forget: Forget) -> Callable[[], None]:
    """Has `forget(agent, id)` called when a session is removed for good; returns a function that ends this."""
    _forgetters.append(forget)
    return lambda: _forgetters.remove(forget)


def delete(store: Store, agent: str, id: str, *, index: Any = None, name: str = "own") -> Deleted:
    """Takes a session away; `restore` brings it back until it is purged. Its words are no longer found at once.

    Raises SessionBusy while somebody writes, SessionNotFound where there is none.
    """
    with Session.open(id, agent=agent, store=store, create=False) as session:  # nobody else may write meanwhile
        if index is not None:
            index.forget(name, agent, id, session)
        return store.trash(agent, id)


def restore(store: Store, agent: str, id: str) -> None:
    """Brings a deleted session back, as it was."""
    if any(info.id == id for info in store.sessions(agent)):
        raise SessionBusy(f"{agent}/{id}", "another session that has its name by now")
    found = [one for one in store.trashed(agent) if one.id == id]
    if not found:
        raise SessionNotFound(f"no deleted session {id!r} of agent {agent!r}")
    store.untrash(agent, max(found, key=lambda one: one.at))


def purge(
    store: Store, agent: str | None = None, *, undo: float = UNDO, grace: float = GRACE, now: float | None = None
) -> Purged:
    """Removes for good what was deleted longer than the period ago."""
    before = ((time.time() if now is None else now) - undo) * 1000
    sessions = blobs = 0
    for whose in store.agents() if agent is None else [agent]:
        for one in store.trashed(whose):
            if one.at > before:
                continue
            blobs += _purge(store, whose, one, grace)
            sessions += 1
    return Purged(sessions, blobs)


def _purge(store: Store, agent: str, one: Deleted, grace: float) -> int:
    named = {found.decode() for text in store.trashed_texts(agent, one) for found in NAME.findall(text)}
    store.purge(agent, one)
    removed = 0
    if named:
        for text in store.texts(agent):
            named.difference_update(found.decode() for found in NAME.findall(text))
        blobs = store.blobs(agent)
        if grace:
            named.intersection_update(blobs.names(unused_for=grace))
        blobs.delete(named)
        removed = len(named)
    for forget in [*_forgetters]:
        forget(agent, one.id)
    return removed
