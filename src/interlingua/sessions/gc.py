"""Clearing up: branches that lead nowhere, and blobs that no session names. The new is written and verified first."""

import itertools
import secrets
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ..values import jsontext
from .blobs import NAME
from .lines import read_line
from .session import Session
from .store import SessionDamaged, SessionError, Store
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

GRACE = 3600.0  # seconds for which a blob is kept that nothing names: its line may be on the way


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


def collect_blobs(store: Store, agent: str, *, grace: float = GRACE) -> Collected:
    """Removes blobs that no line of any session of the agent names; lines of kept originals count too."""
    blobs = store.blobs(agent)
    unnamed = set(blobs.names(unused_for=grace))
    for text in store.texts(agent) if unnamed else ():
        unnamed.difference_update(found.decode() for found in NAME.findall(text))
    unnamed.intersection_update(blobs.names(unused_for=grace))  # some were wanted again while we read
    size = sum(len(blobs.get(name) or b"") for name in unnamed)
    blobs.delete(unnamed)
    return Collected(len(unnamed), size)
