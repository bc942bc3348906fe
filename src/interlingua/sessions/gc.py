"""Clearing up: branches that lead nowhere, and blobs that no session names. The new is written and verified first."""

import itertools
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from ..values import jsontext
from .blobs import NAME
from .lines import read_line
from .session import Session
from .store import Deleted, SessionBusy, SessionDamaged, SessionError, SessionNotFound, Store
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
    walk,
)

# Deleting sessions, with a period in which that can be undone; after it, everything of them is removed.
#
# What goes with a session: its lines and index, set-aside originals, blobs that no other session names, its words in
# the search index, and whatever others keep by its id (`register_forgetter`).


UNDO = 7 * 24 * 3600.0  # seconds
DELETION_GRACE = 60.0  # seconds for which a blob is left alone that somebody has just put: its line may be on the way

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
    store: Store,
    agent: str | None = None,
    *,
    undo: float = UNDO,
    grace: float = DELETION_GRACE,
    now: float | None = None,
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


BLOB_GRACE = 3600.0  # seconds for which a blob is kept that nothing names: its line may be on the way


class Collected(NamedTuple):
    """What was cleared: lines of a session or blobs, how many bytes, and where the original is kept."""

    items: int
    size: int
    kept: str | None = None


def collect_branches(store: Store, agent: str, id: str, *, delete: bool = False) -> Collected:
    """Leaves in a session the ways to its head, its labels and its branches; the original is kept unless `delete`.

    Refuses while lines cannot be read, and where entries have no ids to be found by afterwards.
    """
    with Session(store.open(agent, id, write=True, create=False), store, id=id, agent=agent) as session:
        _refuse(session)
        log = session._log
        lines = list(_living(session))
        gone = Counter(map(log.line, range(len(log)))) - Counter(lines)
        if not gone:
            return Collected(0, 0)
        size = sum((len(line) + 1) * count for line, count in gone.items())
        name = f"{id}.gc-{secrets.token_hex(4)}"
        try:
            _write(store, agent, name, lines)
            _verify(store, agent, name, session)
        except BaseException:
            store.delete(agent, name)
            raise
        return Collected(gone.total(), size, store.replace(agent, id, name, keep=not delete))


def _living(session: Session) -> Iterator[bytes]:
    """The lines that stay, the journal behind each call that has no result on some way: a result that goes is in it."""
    log, labels, branches = session._log, session.labels(), session.branches()
    alive: set[int] = set()
    ends = (*labels, *(branch.head for branch in branches.values() if branch.head is not None))
    for target in (log.stand, *(number for number in map(log.find, ends) if number is not None)):
        alive.update(itertools.takewhile(lambda at: at not in alive, walk(session._parent, target)))
    inner = {session._parent(number) for number in alive}
    paths = (list(walk(session._parent, end))[::-1] for end in alive - inner)
    journal = {number: notes for path in paths for number, notes in session.journal_of(path).items()}
    latest = _latest_branch_lines(session)
    stand = ROOT  # of the new session
    for number in range(len(log)):
        if _lives(session, number, alive, labels) and (number in latest or not _is_branch(session, number)):
            yield log.line(number)
            stand = number if log.place(number).kind >= ENTRY else stand
            for note in journal.get(number, ()):
                yield jsontext.write({**note, "parentId": session._name(number)})
    current = session.current_branch
    if log.stand != stand or current is not None:
        where = {} if current is None else {"branch": current}
        yield jsontext.write({"role": "head", "target": session.head, **where})


def _latest_branch_lines(session: Session) -> set[int]:
    """Of each branch that there is, the first line, which says what it is, and the last, which says where it stands."""
    lines: dict[str, list[int]] = {}
    for number in session._log.numbers(MARK):
        line = read_line(session._log.line(number))
        if line.get("role") == "branch" and line.get("name") in session.branches():
            known = lines.setdefault(line["name"], [])
            known[:] = [number] if line.get("deleted") else [*known[:1], number]
    return {number for numbers in lines.values() for number in numbers}


def _is_branch(session: Session, number: int) -> bool:
    return session._log.place(number).kind == MARK and parse_place(session._log.line(number)).role == "branch"


def _lives(session: Session, number: int, alive: set[int], labels: dict[str, str]) -> bool:
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
            f"{session.where}: line {number + 1} cannot be read and would be lost;"
            " repair the file first: interlingua doctor FILE -o NEW"
        )
    for number in range(len(session._log)):
        if session._log.place(number).kind >= ENTRY:
            line = parse_place(session._log.line(number))
            if not isinstance(line.id, str) or is_positional(line.parent_id):
                raise SessionError(
                    f"{session.where}: {positional(number)} has no id, so nothing could be found by it afterwards;"
                    " import the file as a new session, which gives its entries ids"
                )


def _write(store: Store, agent: str, name: str, lines: list[bytes]) -> None:
    log = store.open(agent, name, write=True, create=True)
    try:
        log.add(lines, sync=True)
    finally:
        log.close()


def _verify(store: Store, agent: str, name: str, source: Session) -> None:
    """Reads what was written as the source is read."""
    copy = Session(store.open(agent, name, write=False, create=False), store, id=name, agent=agent)
    try:
        same = all(
            look(copy) == look(source)
            for look in (Session.path, Session.labels, Session.branches, lambda one: (one.title, one.current_branch))
        )
    finally:
        copy.close()
    if not same:
        raise SessionDamaged(f"{source.where}: what was written reads otherwise; the session was left as it is")


def collect_blobs(store: Store, agent: str, *, grace: float = BLOB_GRACE) -> Collected:
    """Removes blobs that no line of any session of the agent names; lines of kept originals count too."""
    blobs = store.blobs(agent)
    unnamed = set(blobs.names(unused_for=grace))
    for text in store.texts(agent) if unnamed else ():
        unnamed.difference_update(found.decode() for found in NAME.findall(text))
    unnamed.intersection_update(blobs.names(unused_for=grace))  # some were wanted again while we read
    size = sum(len(blobs.get(name) or b"") for name in unnamed)
    blobs.delete(unnamed)
    return Collected(len(unnamed), size)
