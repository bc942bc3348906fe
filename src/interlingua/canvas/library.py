"""Which sessions there are, and what each is called: the user's own, opened files, other programs' histories.

Every session is one of ours on disk: what other programs wrote is imported into a cache first. A `key` names a session
everywhere and stays the same over restarts: `own~AGENT~ID`, `file~ID`, `watch~SOURCE~ID`.
"""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

from ..serving.problems import HttpProblem
from ..sessions import Session, SessionInfo, Store, store_at
from ..sessions.files import ENDING, FileStore
from ..sessions.store import SpawnedBy
from ..values.errors import InterlinguaError
from ..values.places import home as default_home
from .importing import OWN, Cache, FileNote, ImportedFile
from .shapes import FileProblem, Source

FILES = "opened"  # the agent under which opened files are kept in the cache
CLIENT = "canvas"  # the agent whose sessions programs made through a canvas client
GATEWAY = "gateway"


class Place(Struct, frozen=True, kw_only=True):
    """Where a session is, and what it is to the viewer."""

    key: str
    agent: str
    id: str
    source: Source
    group: str
    written_as: str = OWN
    read_only: bool = False
    where: str | None = None
    name: str | None = None
    project: str | None = None
    spawned_by: SpawnedBy | None = None  # the session whose sub-agent this is, where another program's file says so
    problems: tuple[FileNote, ...] = ()
    info: SessionInfo | None = None


class Library:
    """The sessions of one canvas. May be asked from several threads."""

    def __init__(self, home: Path | None = None, store: Store | str | None = None) -> None:
        self.home = home or default_home()
        self.folder = self.home / "canvas"
        self.store: Store = store_at(store, self.home)
        self.cache = Cache(self.folder / "cache")
        self._opened: dict[str, Place] = {}
        self._lock = threading.RLock()
        for found in self.cache.known(FILES):
            self._register(found)

    # --- names -------------------------------------------------------------------------------------------------------

    def own_key(self, agent: str, id: str) -> str:
        return f"own~{quote(agent, safe='')}~{quote(id, safe=':@+=')}"

    def place(self, key: str) -> Place:
        """Where the session of a key is; raises 404 for one that cannot be."""
        with self._lock:
            known = self._opened.get(key)
        if known is not None:
            return known
        kind, _, rest = key.partition("~")
        agent, _, id = rest.partition("~")
        if kind == "own" and agent and id:
            return self._own(unquote(agent), unquote(id))
        raise HttpProblem(404, f"no session {key!r}", code="session_not_found", remedy="reload the list of sessions")

    def current(self, place: Place) -> Place:
        """A place as it is known now: what is wrong with a file changes as it grows."""
        with self._lock:
            return self._opened.get(place.key, place)

    def _own(self, agent: str, id: str, info: SessionInfo | None = None) -> Place:
        source: Source = "client" if agent == CLIENT else "gateway" if agent.startswith(GATEWAY) else "own"
        return Place(key=self.own_key(agent, id), agent=agent, id=id, source=source, group=agent, info=info)

    def open(self, place: Place, *, read_only: bool = True) -> Session:
        """The session at a place; raises SessionNotFound, SessionBusy."""
        if not read_only and place.read_only:
            raise HttpProblem(409, f"{place.key} is read-only", code="read_only", remedy="continue in a linked fork")
        return Session.open(place.id, agent=place.agent, store=self.store_of(place), create=False, read_only=read_only)

    def store_of(self, place: Place) -> Store:
        return self.cache.store if place.read_only else self.store

    # --- lists -------------------------------------------------------------------------------------------------------

    def places(self) -> Iterator[Place]:
        """All sessions, the latest of each agent first, with what a list shows of them."""
        for agent in self.store.agents():
            for info in self.store.sessions(agent):
                if info.messages or info.bad_lines or info.title or agent == CLIENT:
                    yield self._own(agent, info.id, info)
        with self._lock:
            opened = list(self._opened.values())
        infos = {
            (agent, info.id): info
            for agent in dict.fromkeys(place.agent for place in opened)
            for info in self.cache.store.sessions(agent)
        }
        for place in opened:
            yield replace(place, info=infos.get((place.agent, place.id)))

    def known(self) -> list[Place]:
        """Opened files and other programs' histories, without what a list shows of them."""
        with self._lock:
            return list(self._opened.values())

    # --- files -------------------------------------------------------------------------------------------------------

    def open_path(self, path: Path, dialect: str | None = None) -> tuple[list[Place], list[FileProblem]]:
        """Opens a file: a session of ours where it is one, else its conversations, read-only."""
        own = self.own_session(path)
        if own is not None:
            return [own], []
        try:
            found = self.cache.open_path(path, FILES, dialect)
        except (OSError, InterlinguaError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return [], [FileProblem(name=str(path), message=why)]
        return self._register(found), _problems(str(path), found)

    def open_data(self, data: bytes, name: str, dialect: str | None) -> tuple[list[Place], list[FileProblem]]:
        """Opens the bytes of a file that was dropped on the page."""
        try:
            found = self.cache.open_data(data, FILES, name, dialect)
        except InterlinguaError as error:
            return [], [FileProblem(name=name, message=str(error))]
        return self._register(found), _problems(name, found)

    def close_file(self, place: Place) -> None:
        """Takes an opened file out of the list; the file itself is not touched."""
        with self._lock:
            self._opened.pop(place.key, None)
        self.cache.forget(FILES, place.id)

    def register_watched(
        self, agent: str, label: str, found: ImportedFile, project: str | None, spawned_by: SpawnedBy | None
    ) -> list[Place]:
        """Adds what another program wrote to the list."""
        places = self._register(found, "watch", agent, label)
        about = {place.key: replace(place, project=project, spawned_by=spawned_by) for place in places}
        with self._lock:
            self._opened.update(about)
        return list(about.values())

    def unregister(self, where: str) -> list[Place]:
        """Takes the conversations of a file that is gone out of the list."""
        with self._lock:
            gone = [place for place in self._opened.values() if place.where == where and place.source == "watch"]
            for place in gone:
                del self._opened[place.key]
        return gone

    def own_session(self, path: Path) -> Place | None:
        """The session of this home that a file is; None for other files."""
        resolved = path.resolve()
        if not isinstance(self.store, FileStore) or resolved.suffix != ENDING:
            return None
        agent = resolved.parent.parent.name
        is_ours = resolved.parent == (self.home / "agents" / agent / "sessions").resolve()
        return self._own(agent, resolved.name.removesuffix(ENDING)) if is_ours else None

    def _register(
        self, found: ImportedFile, source: Source = "file", agent: str = FILES, group: str = FILES
    ) -> list[Place]:
        places = []
        for one in found.conversations:
            key = f"file~{one.id}" if source == "file" else f"watch~{quote(agent, safe='')}~{one.id}"
            place = Place(
                key=key,
                agent=agent,
                id=one.id,
                source=source,
                group=group,
                written_as=one.dialect,
                read_only=True,
                where=one.where,
                name=one.name,
                problems=found.problems,
            )
            places.append(place)
        with self._lock:
            self._opened.update({place.key: place for place in places})
        return places


def _problems(name: str, found: ImportedFile) -> list[FileProblem]:
    return [FileProblem(name=name, line=note.line, message=note.message) for note in found.problems]


def expand(paths: Iterable[Path]) -> Iterator[Path]:
    """Files, and those in folders that may hold conversations."""
    from ..conversion import sources

    for source in sources.expand([str(path) for path in paths]):
        if source.path is not None:
            yield source.path
