"""The storage interface of sessions, with implementations for files, SQLite and PostgreSQL.

A store opens logs. A log is one session's lines, numbered from zero: it appends, reads a line, finds an entry by its
id, and returns the place of each line in the tree. It knows nothing of messages; `Session` knows nothing of files.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote

from ..values.errors import InterlinguaError
from ..values.messages import Value
from ..values.regular import reason
from .tree import LinePlace

if TYPE_CHECKING:
    from .watching import Watch


class SessionError(InterlinguaError):
    """A session is damaged, or a request to it is invalid."""


class SessionNotFound(SessionError):
    """No such session, or no such entry in it."""


class SessionDamaged(SessionError):
    """Unreadable lines: reads skip them, operations that would drop them raise this."""


class SessionBusy(SessionError):
    """Another writer holds the session; `owner` identifies it, where known."""

    def __init__(self, where: Path | str, owner: Any) -> None:
        by = f" by {owner}" if owner is not None else ""
        super().__init__(f"{where}: locked for writing{by}; open it read-only, or fork it")
        self.owner = owner


class EntryExists(SessionError):
    """The requested entry id is in use."""


class StaleHead(SessionError):
    """A branch has moved since the caller read it; `head` is its present head."""

    def __init__(self, where: str, branch: str, head: str | None) -> None:
        super().__init__(f"{where}: branch {branch!r} has moved to {head!r}; read the new entries and retry")
        self.branch = branch
        self.head = head


class StaleVersion(SessionError):
    """An entry was revised since the caller read it; `version` is the present one."""

    def __init__(self, where: str, entry: str, version: int) -> None:
        super().__init__(f"{where}: entry {entry!r} is now at version {version}; read it again and revise that version")
        self.entry = entry
        self.version = version


@contextlib.contextmanager
def typed(where: Path | str) -> Iterator[None]:
    """Raises errors of the file system as SessionError."""
    try:
        yield
    except FileNotFoundError as error:
        raise SessionNotFound(f"{where}: no such session") from error
    except OSError as error:
        raise SessionError(f"{where}: {reason(error)}") from error
    except (ValueError, RuntimeError) as error:  # a NUL, a character that the encoding lacks; `~` of no user
        raise SessionError(f"{str(where)!r} is not a path: {error}") from None


def sync_folder(folder: Path) -> None:
    """Makes new names in a folder survive a power cut."""
    with contextlib.suppress(OSError):  # not every system can sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class SessionProblem(NamedTuple):
    """A problem in a session, with the line number in the file (from one) where it concerns one line."""

    line: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


class SpawnedBy(Value, frozen=True, kw_only=True):
    """The tool call that started this session from another."""

    session: str
    entry: str | None = None
    call_id: str | None = None


class SessionInfo(Value, frozen=True, kw_only=True):
    """A session in a list. Times are milliseconds; `messages` counts every branch.

    A `linked` session continues one that is read-only: viewers show both as one tree.
    """

    id: str
    agent: str
    title: str | None = None
    messages: int = 0
    model: str | None = None
    created: int | None = None
    modified: int = 0
    size: int = 0
    bad_lines: int = 0
    forked_from: str | None = None
    forked_at: str | None = None
    linked: bool = False
    spawned_by: SpawnedBy | None = None
    where: str | None = None


class Deleted(NamedTuple):
    """A deleted session that can still be restored: its id, and when it was deleted (milliseconds)."""

    id: str
    at: int


class Log(Protocol):
    """One session's lines."""

    where: str
    problems: list[SessionProblem]  # found and repaired on opening
    generation: int  # incremented when the log is read again from the start; earlier line numbers are then invalid

    def __len__(self) -> int: ...
    @property
    def head(self) -> int:
        """The number of the head entry after the last line; -1 before any."""
        ...

    def place(self, number: int) -> LinePlace: ...
    def line(self, number: int) -> bytes:
        """A line without its newline."""
        ...

    def find(self, id: str) -> int | None:
        """The latest entry with this id, or the entry without id that has this positional name."""
        ...

    def numbers(self, *kinds: int, first: int | None = None, last: int | None = None) -> list[int]:
        """The numbers of lines of these kinds, in order: all, or the `first` or `last` N."""
        ...

    def count(self, *kinds: int) -> int: ...

    def orphans(self) -> list[int]:
        """The lines that name a missing parent or target."""
        ...

    def children(self, number: int) -> list[int]:
        """The children of an entry, in order; of ROOT, the roots."""
        ...

    def leaves(self) -> list[int]:
        """The entries without children, in order."""
        ...

    def add(self, lines: Sequence[bytes], *, sync: bool) -> int:
        """Appends whole lines, all or none, and returns the number of the first."""
        ...

    def grouped(self) -> contextlib.AbstractContextManager[None]:
        """Lines added inside may be written together when it ends; it raises if they were not, and none exist."""
        ...

    def sync(self) -> None: ...
    def refresh(self) -> None:
        """Reads what other processes have appended."""
        ...

    def rebuild(self) -> None:
        """Discards caches and reads the log again from the start."""
        ...

    def watch(self) -> "Watch":
        """Watches for appends by other processes; create and use it on an event loop."""
        ...

    def close(self) -> None: ...


class Blobs(Protocol):
    """Content-addressed large data."""

    def put(self, name: str, data: bytes) -> None: ...
    def get(self, name: str) -> bytes | None: ...
    def names(self, unused_for: float = 0) -> list[str]:
        """All names, or only those not `put` for `unused_for` seconds."""
        ...

    def delete(self, names: Iterable[str]) -> None: ...


class Store(Protocol):
    """A place that stores sessions."""

    def agents(self) -> list[str]: ...
    def sessions(self, agent: str) -> list[SessionInfo]:
        """All sessions of an agent, the latest first."""
        ...

    def open(self, agent: str, id: str, *, write: bool, create: bool) -> Log:
        """Raises SessionNotFound, or SessionBusy where another writes."""
        ...

    def create(self, agent: str, id: str, lines: Callable[[], Sequence[bytes]]) -> bool:
        """Creates a session with these lines, atomically and without a lock. Returns False if the session exists, or
        if the store cannot; then `open` it. `sync` writes created sessions to disk."""
        ...

    def grouped(self) -> contextlib.AbstractContextManager[None]:
        """What is written inside, to any of its sessions, may be committed together when it ends. Raises SessionError
        if that fails: none of it is written then, and sessions that are open must be opened again."""
        ...

    def sync(self, agent: str, ids: Sequence[str]) -> None: ...
    def blobs(self, agent: str) -> Blobs: ...
    def texts(self, agent: str) -> Iterator[bytes]:
        """All stored lines of an agent's sessions, backups included, in chunks of whole lines."""
        ...

    def replace(self, agent: str, id: str, by: str, *, keep: bool) -> str | None:
        """Atomically replaces session `id` by session `by`; with `keep`, returns the name of the backup."""
        ...

    def delete(self, agent: str, id: str) -> None:
        """Removes a session at once; its backups and blobs stay."""
        ...

    def trash(self, agent: str, id: str) -> Deleted:
        """Removes a session from the list, to be restored or purged later."""
        ...

    def trashed(self, agent: str) -> list[Deleted]: ...
    def trashed_info(self, agent: str, one: Deleted) -> SessionInfo:
        """The list entry of a deleted session; raises SessionNotFound if it is not there any more."""
        ...

    def trashed_texts(self, agent: str, one: Deleted) -> Iterator[bytes]:
        """The lines of a deleted session and of its backups."""
        ...

    def untrash(self, agent: str, one: Deleted) -> None:
        """Restores a deleted session; raises SessionBusy if another one has its name by now."""
        ...

    def purge(self, agent: str, one: Deleted) -> None:
        """Removes a deleted session and its backups."""
        ...

    def close(self) -> None: ...


# --- view state of the canvas -----------------------------------------------------------------------------------------


def own_key(agent: str, id: str) -> str:
    """Returns the key of a session of a store, as the canvas has it in its URLs."""
    return f"own~{quote(agent, safe='')}~{quote(id, safe=':@+=')}"


def view_path(home: Path, key: str) -> Path:
    """Returns the file with the view state of the session with this key."""
    name = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    return home / "canvas" / "views" / f"{name}.json"
