"""Deletion and garbage collection of sessions, branches and blobs. A replacement is written and verified first."""

import contextlib
import itertools
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..values import jsontext
from .blobs import NAME
from .files import FileStore
from .session import Session
from .store import Deleted, SessionDamaged, SessionError, SessionNotFound, Store, own_key, view_path
from .tree import (
    BAD,
    BLANK,
    ENTRY,
    HEAD,
    JOURNAL,
    LABEL,
    MARK,
    REVISION,
    ROOT,
    is_positional,
    parse_place,
    positional,
    read_line,
    walk,
)

# A deleted session can be restored for a period. Then it is purged: its lines and index, backups, blobs that no other
# session references, its entries in the search index, and its view state.

UNDO = 7 * 24 * 3600.0  # seconds
DELETION_GRACE = 60.0  # seconds during which a new blob is not deleted: its line may not be written yet


class Purged(NamedTuple):
    """How many sessions and blobs were removed."""

    sessions: int
    blobs: int


def delete(store: Store, agent: str, id: str, *, index: Any = None, name: str = "own") -> Deleted:
    """Deletes a session and removes it from the search `index`; `restore` undoes it until it is purged.

    Raises SessionBusy while another writer holds it, SessionNotFound if there is none.
    """
    with Session.open(id, agent=agent, store=store, create=False) as session:  # holds the write lock
        if index is not None:
            # Under the write lock, so that no line is indexed after it.
            index.forget(name, agent, id, session)
        return store.trash(agent, id)


def find_deleted(store: Store, agent: str, id: str, at: int | None = None) -> Deleted:
    """Returns a deleted session: the one deleted `at` this time, else the latest of the name."""
    found = [one for one in store.trashed(agent) if one.id == id and at in (None, one.at)]
    if not found:
        raise SessionNotFound(f"no deleted session {id!r} of agent {agent!r}")
    return max(found, key=lambda one: one.at)


def restore(store: Store, agent: str, id: str, *, at: int | None = None) -> None:
    """Restores a deleted session; of several of the same name, the latest or the one deleted `at` this time."""
    store.untrash(agent, find_deleted(store, agent, id, at))


def purge(
    store: Store,
    agent: str | None = None,
    *,
    undo: float = UNDO,
    grace: float = DELETION_GRACE,
    now: float | None = None,
    home: Path | None = None,
) -> Purged:
    """Removes sessions that were deleted more than `undo` seconds ago; their view state is below `home`."""
    before = ((time.time() if now is None else now) - undo) * 1000
    sessions = blobs = 0
    for whose in store.agents() if agent is None else [agent]:
        for one in store.trashed(whose):
            if one.at > before:
                continue
            with contextlib.suppress(SessionNotFound):  # restored or purged meanwhile
                blobs += purge_one(store, whose, one, grace=grace, home=home)
                sessions += 1
    return Purged(sessions, blobs)


def purge_one(
    store: Store, agent: str, one: Deleted, *, grace: float = DELETION_GRACE, home: Path | None = None
) -> int:
    """Removes a deleted session permanently; returns the number of removed blobs.

    The view state is below `home`, which a store of files knows itself.
    """
    # Before the session is purged: afterwards nothing tells which blobs it had.
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
    home = store.home if isinstance(store, FileStore) else home
    if home is not None and not _has_name(store, agent, one.id):
        view_path(home, own_key(agent, one.id)).unlink(missing_ok=True)
    return removed


def _has_name(store: Store, agent: str, id: str) -> bool:
    """Whether a session has this name, or a deleted one that can be restored: then the view state is theirs."""
    if any(other.id == id for other in store.trashed(agent)):
        return True
    try:
        store.open(agent, id, write=False, create=False).close()
    except SessionNotFound:
        return False
    return True


BLOB_GRACE = 3600.0  # seconds during which an unreferenced blob is kept: its line may not be written yet


class Collected(NamedTuple):
    """The removed lines or blobs, their bytes, and the backup of the original, if `kept`."""

    items: int
    size: int
    kept: str | None = None


def collect_branches(store: Store, agent: str, id: str, *, delete: bool = False) -> Collected:
    """Removes entries that are on no path to the head, a label or a branch; keeps a backup unless `delete`.

    Raises SessionDamaged if a line is unreadable, SessionError if an entry has no id.
    """
    with Session(store.open(agent, id, write=True, create=False), store, id=id, agent=agent) as session:
        _refuse(session)
        log = session._log
        lines = list(_live_lines(session))
        removed = Counter(map(log.line, range(len(log)))) - Counter(lines)
        if not removed:
            return Collected(0, 0)
        size = sum((len(line) + 1) * count for line, count in removed.items())
        name = f"{id}.gc-{secrets.token_hex(4)}"
        try:
            with contextlib.closing(store.open(agent, name, write=True, create=True)) as written:
                written.add(lines, sync=True)
            _verify(store, agent, name, session)
        except BaseException:
            store.delete(agent, name)
            raise
        return Collected(removed.total(), size, store.replace(agent, id, name, keep=not delete))


def _live_lines(session: Session) -> Iterator[bytes]:
    """The lines to keep; each call without a result on some path gets journal lines that record its execution."""
    log, labels, branches = session._log, session.labels(), session.branches()
    alive: set[int] = set()
    ends = (*labels, *(branch.head for branch in branches.values() if branch.head is not None))
    for target in (log.head, *(number for number in map(log.find, ends) if number is not None)):
        alive.update(itertools.takewhile(lambda at: at not in alive, walk(session._parent, target)))
    inner = {session._parent(number) for number in alive}
    paths = (list(walk(session._parent, end))[::-1] for end in alive - inner)
    journal = {number: notes for path in paths for number, notes in session.journal_of(path).items()}
    latest = _latest_branch_lines(session)
    head = ROOT  # of the new session
    for number in range(len(log)):
        if _is_kept(session, number, alive, labels) and (number in latest or not _is_branch(session, number)):
            yield log.line(number)
            head = number if log.place(number).kind >= ENTRY else head
            for note in journal.get(number, ()):
                yield jsontext.write({**note, "parentId": session._name(number)})
    current = session.current_branch
    if log.head != head or current is not None:
        where = {} if current is None else {"branch": current}
        yield jsontext.write({"role": "head", "target": session.head, **where})


def _latest_branch_lines(session: Session) -> set[int]:
    """The first line of each branch, which describes it, and the last, which has its head."""
    lines: dict[str, list[int]] = {}
    for number in session._log.numbers(MARK):
        line = read_line(session._log.line(number))
        if line.get("role") == "branch" and line.get("name") in session.branches():
            known = lines.setdefault(line["name"], [])
            known[:] = [number] if line.get("deleted") else [*known[:1], number]
    return {number for numbers in lines.values() for number in numbers}


def _is_branch(session: Session, number: int) -> bool:
    return session._log.place(number).kind == MARK and parse_place(session._log.line(number)).role == "branch"


def _is_kept(session: Session, number: int, alive: set[int], labels: dict[str, str]) -> bool:
    kind = session._log.place(number).kind
    if kind >= ENTRY:
        return number in alive
    if kind in (JOURNAL, LABEL):
        line = read_line(session._log.line(number))
    if kind == JOURNAL:
        return "callId" not in line
    if kind == LABEL:
        target = line.get("target", line.get("targetId"))
        return bool((session.title if target is None else labels.get(target)) == line.get("label"))
    if kind == REVISION or (kind == MARK and not _is_branch(session, number)):
        target = parse_place(session._log.line(number)).target
        return isinstance(target, str) and session._log.find(target) in alive
    return kind not in (BLANK, HEAD)


def _refuse(session: Session) -> None:
    for number in session._log.numbers(BAD, first=1):
        raise SessionDamaged(
            f"{session.where}: line {number + 1} is unreadable and would be lost;"
            " repair the file first: interlingua doctor FILE -o NEW"
        )
    for number in range(len(session._log)):
        if session._log.place(number).kind >= ENTRY:
            line = parse_place(session._log.line(number))
            if not isinstance(line.id, str) or is_positional(line.parent_id):
                raise SessionError(
                    f"{session.where}: entry {positional(number)} has no id and could not be referenced afterwards;"
                    " import the file as a new session, which assigns ids"
                )


def _verify(store: Store, agent: str, name: str, source: Session) -> None:
    """Raises SessionDamaged unless the copy reads like the source."""
    with Session(store.open(agent, name, write=False, create=False), store, id=name, agent=agent) as copy:
        same = all(
            look(copy) == look(source)
            for look in (Session.path, Session.labels, Session.branches, lambda one: (one.title, one.current_branch))
        )
    if not same:
        raise SessionDamaged(f"{source.where}: the written copy differs from the original; the session was not changed")


def collect_blobs(store: Store, agent: str, *, grace: float = BLOB_GRACE) -> Collected:
    """Removes blobs that no line of the agent's sessions and backups references."""
    blobs = store.blobs(agent)
    unnamed = set(blobs.names(unused_for=grace))
    for text in store.texts(agent) if unnamed else ():
        unnamed.difference_update(found.decode() for found in NAME.findall(text))
    unnamed.intersection_update(blobs.names(unused_for=grace))  # some were put again meanwhile
    size = sum(len(blobs.get(name) or b"") for name in unnamed)
    blobs.delete(unnamed)
    return Collected(len(unnamed), size)
