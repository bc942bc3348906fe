"""What keeps sessions: the small interface behind which files, SQLite and PostgreSQL do the same.

A store opens logs. A log is one session's lines, numbered from zero: it appends, reads a line, finds an entry by its
id, and says of each line where it stands. It knows nothing of messages; `Session` knows nothing of files.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..values.errors import InterlinguaError
from ..values.messages import Value
from .tree import Place
from .watching import Watch


class SessionError(InterlinguaError):
    """Something is wrong with a session, or with what was asked of it."""


class SessionNotFound(SessionError):
    """There is no such session, or no such entry in it."""


class SessionDamaged(SessionError):
    """Lines that cannot be read: reading skips them, and what would drop them refuses."""


class SessionBusy(SessionError):
    """Another writer has the session; `owner` says who, where that is known."""

    def __init__(self, where: Path | str, owner: Any) -> None:
        by = f" by {owner}" if owner is not None else ""
        super().__init__(f"{where}: the session is being written{by}; open it read-only, or fork it")
        self.owner = owner


class EntryExists(SessionError):
    """An entry has the id that was asked for."""


class StaleHead(SessionError):
    """A branch stands elsewhere than the caller thought; `head` says where."""

    def __init__(self, where: str, branch: str, head: str | None) -> None:
        super().__init__(f"{where}: the branch {branch!r} stands at {head!r} by now; look at what is new and try again")
        self.branch = branch
        self.head = head


class StaleVersion(SessionError):
    """An entry was revised since the caller read it; `version` is the present one."""

    def __init__(self, where: str, entry: str, version: int) -> None:
        super().__init__(f"{where}: {entry!r} is at version {version} by now; read it again, then revise that")
        self.entry = entry
        self.version = version


class Problem(NamedTuple):
    """Something found in a session: the line in the file (from one), if it is about one, and what it is."""

    line: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


class SpawnedBy(Value, frozen=True, kw_only=True):
    """The call by which a session was started from another."""

    session: str
    entry: str | None = None
    call_id: str | None = None


class SessionInfo(Value, frozen=True, kw_only=True):
    """A session in a list. Times are milliseconds; `messages` counts every branch.

    A `linked` session goes on where another could not be written: viewers show both as one tree.
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
    """A session that was deleted and can still be brought back: its id, and when (in milliseconds)."""

    id: str
    at: int


class Log(Protocol):
    """One session's lines."""

    where: str
    problems: list[Problem]  # what opening it met and mended
    generation: int  # counts how often everything was read anew: line numbers of before may mean other lines

    def __len__(self) -> int: ...
    @property
    def stand(self) -> int:
        """The entry at which the session stands after the last line; -1 before any."""
        ...

    def place(self, number: int) -> Place: ...
    def line(self, number: int) -> bytes:
        """A line without its newline."""
        ...

    def find(self, id: str) -> int | None:
        """The latest entry with this id, or the entry without id that has this positional name."""
        ...

    def numbers(self, *kinds: int, first: int | None = None, last: int | None = None) -> list[int]:
        """The lines of these kinds, in order: all of them, the first or the last so many."""
        ...

    def count(self, *kinds: int) -> int: ...

    def orphans(self) -> list[int]:
        """The lines that name a parent or target which is not there."""
        ...

    def children(self, number: int) -> list[int]:
        """The entries that follow an entry, in order; of ROOT, the roots."""
        ...

    def leaves(self) -> list[int]:
        """The entries that no entry follows, in order."""
        ...

    def add(self, lines: Sequence[bytes], *, sync: bool) -> int:
        """Appends whole lines, all or none, and returns the number of the first."""
        ...

    def sync(self) -> None: ...
    def refresh(self) -> None:
        """Takes in what others have appended since."""
        ...

    def rebuild(self) -> None:
        """Reads everything anew, where what is remembered turned out to be wrong."""
        ...

    def watch(self) -> Watch:
        """Waits for what others append; to be made and used on an event loop."""
        ...

    def close(self) -> None: ...


class Blobs(Protocol):
    """Large data, each piece once, by the hash of its content."""

    def put(self, name: str, data: bytes) -> None: ...
    def get(self, name: str) -> bytes | None: ...
    def names(self, unused_for: float = 0) -> list[str]:
        """All names, or of those pieces alone that nobody has put for so many seconds."""
        ...

    def delete(self, names: Iterable[str]) -> None: ...


class Store(Protocol):
    """Where sessions are kept."""

    def agents(self) -> list[str]: ...
    def sessions(self, agent: str) -> list[SessionInfo]:
        """All sessions of an agent, the latest first."""
        ...

    def open(self, agent: str, id: str, *, write: bool, create: bool) -> Log:
        """Raises SessionNotFound, or SessionBusy where another writes."""
        ...

    def blobs(self, agent: str) -> Blobs: ...
    def texts(self, agent: str) -> Iterator[bytes]:
        """Everything that is kept of an agent's sessions, set-aside originals too, in pieces of whole lines."""
        ...

    def replace(self, agent: str, id: str, by: str, *, keep: bool) -> str | None:
        """Puts session `by` in the place of `id`, at once; says under which name the old one is kept, if it is."""
        ...

    def delete(self, agent: str, id: str) -> None:
        """Removes a session at once, and nothing else that belongs to it."""
        ...

    def trash(self, agent: str, id: str) -> Deleted:
        """Takes a session out of the list, to be brought back or purged."""
        ...

    def trashed(self, agent: str) -> list[Deleted]: ...
    def trashed_texts(self, agent: str, one: Deleted) -> Iterator[bytes]:
        """The lines of a deleted session and of its set-aside originals."""
        ...

    def untrash(self, agent: str, one: Deleted) -> None: ...
    def purge(self, agent: str, one: Deleted) -> None:
        """Removes a deleted session and its set-aside originals."""
        ...

    def close(self) -> None: ...
