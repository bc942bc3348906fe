"""The session library: the user's own sessions, opened files, and other programs' histories.

Every session is one of ours on disk: files of other programs are imported into a cache first. A `key` identifies a
session everywhere and is stable across restarts: `own~AGENT~ID`, `file~ID`, `watch~SOURCE~ID`.
"""

import contextlib
import hashlib
import os
import re
import threading
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import jiter
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .. import conversion
from ..conversion import sources
from ..serving.access import write_private
from ..serving.problems import HttpProblem
from ..sessions import Session, SessionInfo, SessionNotFound, Store, save, store_at
from ..sessions.files import ENDING, FileStore
from ..sessions.repair import examine
from ..sessions.store import Deleted, SpawnedBy, own_key
from ..sessions.tree import PLACES
from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.messages import CustomMessage
from ..values.places import home as default_home
from ..values.regular import read_regular
from ..values.request import Conversation, Entry
from ..values.text import natural
from .shapes import FileProblemView, Source

# --- importing files -------------------------------------------------------------------------------------------------
#
# Files of any dialect as sessions: read once and cached as our own lines, so that everything else sees only sessions.
#
# The cache may be deleted at any time. An unchanged file is not read again. A file that has grown is appended to its
# session where possible, so that viewers receive only the new rows; else its session is replaced.


OWN = "transcript"
LINES = (".jsonl", ".ndjson")  # suffixes of files that grow line by line
_CUTS = 20  # lines dropped at the end of a truncated document until the rest can be read
_VERSION = 3  # version of the cache: incremented when reading changes


class ImportedConversation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation of a file in the cache. `where` is the file, `number` counts the conversations of one file."""

    id: str
    where: str
    number: int = 0
    dialect: str
    name: str
    size: int = 0
    modified: int = 0
    version: int = _VERSION


class FileNote(NamedTuple):
    """A problem of a file, and its line."""

    line: int | None
    message: str


class ImportedFile(Struct, frozen=True, omit_defaults=True):
    """An imported file: its conversations, and what could not be read."""

    conversations: tuple[ImportedConversation, ...]
    problems: tuple[FileNote, ...] = ()


class ImportCache:
    """Imported files, as sessions of the agents of a separate store."""

    def __init__(self, folder: Path) -> None:
        self.store = FileStore(folder)
        self._folder = folder

    def open_path(
        self, path: Path, agent: str, dialect: str | None = None, *, allow_partial: bool = False
    ) -> ImportedFile:
        """Returns the conversations of a file; from the cache if the file is unchanged.

        With `allow_partial`, an incomplete last line that another program is still writing is ignored for now.
        """
        state = path.stat()
        about = self._about(agent, str(path.absolute()))
        known = _read_about(about)
        if (
            known is not None
            and known.conversations
            and all(self._fits(one, agent, state) for one in known.conversations)
        ):
            return known
        data, unfinished = sources.read_all(sources.Source(path)), None
        if allow_partial and path.name.endswith(LINES):
            data, unfinished = _whole_lines(data)
        found = self._import(data, agent, str(path.absolute()), path.name, dialect, state.st_size, state.st_mtime_ns)
        if unfinished is not None:
            found = ImportedFile(found.conversations, (*found.problems, unfinished))
        write_private(about, msgspec.json.encode(found))
        return found

    def open_data(self, data: bytes, agent: str, name: str, dialect: str | None = None) -> ImportedFile:
        """Returns the conversations of a file's bytes; the same bytes give the same conversations."""
        where = f"upload:{hashlib.sha256(data).hexdigest()[:32]}/{name}"
        found = self._import(sources.unpacked(data), agent, where, name, dialect, len(data), 0)
        write_private(self._about(agent, where), msgspec.json.encode(found))
        return found

    def known(self, agent: str) -> Iterator[ImportedFile]:
        """Returns earlier imports that still exist."""
        folder = self._folder / "files" / agent
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            found = _read_about(path)
            if found is not None:
                yield found

    def forget(self, agent: str, id: str) -> None:
        """Removes a conversation from the cache."""
        for path in (self._folder / "files" / agent).glob("*.json"):
            found = _read_about(path)
            if found is None or all(one.id != id for one in found.conversations):
                continue
            left = tuple(one for one in found.conversations if one.id != id)
            if left:
                write_private(path, msgspec.json.encode(ImportedFile(left, found.problems)))
            else:
                path.unlink(missing_ok=True)
        self.store.delete(agent, id)

    def _fits(self, one: ImportedConversation, agent: str, state: os.stat_result) -> bool:
        """Whether a cached conversation matches the file's current state."""
        same = (one.size, one.modified, one.version) == (state.st_size, state.st_mtime_ns, _VERSION)
        return same and self.store.path(agent, one.id).exists()

    def _about(self, agent: str, where: str) -> Path:
        return self._folder / "files" / agent / f"{_digest(where)}.json"

    def _import(
        self, data: bytes, agent: str, where: str, name: str, dialect: str | None, size: int, modified: int
    ) -> ImportedFile:
        conversations: list[ImportedConversation] = []
        problems: list[FileNote] = []
        if dialect in (None, OWN) and _is_own(data):
            one = ImportedConversation(
                id=_digest(where), where=where, dialect=OWN, name=name, size=size, modified=modified
            )
            self._write_own(data, agent, one)
            return ImportedFile((one,), tuple(FileNote(found.line, found.message) for found in examine(data).findings))
        found = _conversations(data, name, dialect, problems)
        for number, (conversation, kind, line) in enumerate(_or_repaired(found, data, dialect, problems)):
            one = ImportedConversation(
                id=_digest(f"{where}#{number}"),
                where=where,
                number=number,
                dialect=kind,
                name=name if line is None else f"{name}:{line}",
                size=size,
                modified=modified,
            )
            self._save(conversation, agent, one)
            conversations.append(one)
        return ImportedFile(tuple(conversations), tuple(problems))

    def _save(self, conversation: Conversation, agent: str, one: ImportedConversation) -> None:
        """Generates ids by counting where the file has none, so that links to entries stay valid."""
        numbers = count(1)
        path = self.store.path(agent, one.id)
        part = path.with_name(f".{one.id}{ENDING}")  # not a valid session name: lists and indexes skip it
        _remove(part)
        stored = replace(conversation, entries=tuple(map(_with_free_places, conversation.entries)))
        save(stored, new_id=lambda: f"n{next(numbers)}", id=part, sync="never").close()
        try:
            lines = read_regular(part).splitlines(keepends=True) if part.exists() else []
        finally:
            _remove(part)
        lines[:1] = [_header(lines[0] if lines else b"{}", agent, one, conversation)]
        fresh = _appended(read_regular(path).splitlines(keepends=True), lines) if path.exists() else None
        if fresh is None:
            path.with_suffix(".idx").unlink(missing_ok=True)
            write_private(path, b"".join(lines))
        elif fresh:
            with path.open("ab") as stream:
                stream.write(b"".join(fresh))
        if one.modified:  # lists are sorted by when the conversation changed, not by when it was read
            os.utime(path, ns=(one.modified, one.modified))

    def _write_own(self, data: bytes, agent: str, one: ImportedConversation) -> None:
        """Writes our own lines unchanged, invalid ones too."""
        path = self.store.path(agent, one.id)
        lines = data if data.endswith(b"\n") else data + b"\n"
        if path.exists() and lines.startswith(before := read_regular(path)):
            with path.open("ab") as stream:
                stream.write(lines[len(before) :])
            return
        self.store.delete(agent, one.id)
        write_private(path, lines)


def _with_free_places(entry: Entry) -> Entry:
    """Moves foreign fields that would clash with a line's own tree keys to `record`."""
    message = entry.message
    if not isinstance(message, CustomMessage) or message.fields.keys().isdisjoint(PLACES):
        return entry
    taken = {key: value for key, value in message.fields.items() if key in PLACES}
    fields = {key: value for key, value in message.fields.items() if key not in PLACES}
    return replace(entry, message=CustomMessage(message.role, {**fields, "record": taken}))


def _header(line: bytes, agent: str, one: ImportedConversation, conversation: Conversation) -> bytes:
    """Returns the first line of a session: its time is that of the first message, so that it is deterministic."""
    times = (getattr(entry.message, "timestamp", None) for entry in conversation.entries)
    created = next((at for at in times if isinstance(at, int)), one.modified // 1_000_000)
    about = {"role": "session", "version": 1, **jsontext.read(line), "id": one.id, "createdAt": created}
    return jsontext.write({**about, "agentId": agent}) + b"\n"


_HEAD = b'{"role":"head",'


def _appended(before: list[bytes], now: list[bytes]) -> list[bytes] | None:
    """Returns the lines that extend a session to its grown version; None if it has changed otherwise.

    A `head` line gives the current entry. It is not part of the tree, and moves as the tree grows.
    """
    old = [line for line in before if not line.startswith(_HEAD)]
    new = [line for line in now if not line.startswith(_HEAD)]
    if new[: len(old)] != old:
        return None
    heads = [line for line in now[-1:] if line.startswith(_HEAD)]
    if len(new) == len(old) and heads == [line for line in before[-1:] if line.startswith(_HEAD)]:
        return []
    if len(new) == len(old) and not heads:
        return None  # it is at its last entry again
    return new[len(old) :] + heads


def _conversations(
    data: bytes, name: str, dialect: str | None, problems: list[FileNote]
) -> Iterator[tuple[Conversation, str, int | None]]:
    """Returns the conversations in a file, their dialects, and their lines if a file holds several."""
    notes: list[sources.SourceProblem] = []
    for document in sources.documents_of(data, name, dialect, notes):
        try:
            kind = dialect or document.dialect or _detected(document.data)
            yield conversion.decode(document.data, kind), kind, document.line
        except InterlinguaError as error:
            problems.append(FileNote(document.line, str(error)))
    for note in notes:
        place, _, line = note.name.rpartition(":")
        problems.append(FileNote(natural(line) if place else None, note.message))


def _or_repaired(
    found: Iterator[tuple[Conversation, str, int | None]], data: bytes, dialect: str | None, problems: list[FileNote]
) -> Iterator[tuple[Conversation, str, int | None]]:
    """The conversations found; if there are none, what can be recovered from the file, with a problem for each line."""
    nothing = True
    for one in found:
        nothing = False
        yield one
    if nothing:
        yield from _cut(data, dialect, problems) or _repaired(data, problems)


def _cut(data: bytes, dialect: str | None, problems: list[FileNote]) -> list[tuple[Conversation, str, int | None]]:
    """Returns the conversation of a document that is valid up to some byte, and the line of that byte."""
    if not data.lstrip().startswith((b"{", b"[")):
        return []
    message = _not_json(data)
    if message is None:
        return []
    place = re.search(r"\(byte (\d+)\)", message)
    end = int(place[1]) if place else len(data)
    line = data.count(b"\n", 0, end) + 1
    what = message.partition(" (byte ")[0].removeprefix("JSON is malformed: ").lower()
    for _ in range(_CUTS):
        try:
            value = jiter.from_json(data[:end], partial_mode=True)
            kind = dialect or _detected(value)
            conversation = conversion.decode(value, kind)
        except (ValueError, InterlinguaError) as error:
            # jiter is the stricter of the two: a string with a line break is invalid from there on, not where it
            # closes.
            found = re.search(r" at line (\d+) column", str(error))
            line = min(line, int(found[1])) if found else line
            end = max(data.rfind(b"\n", 0, end), 0)
            continue
        if not conversation.entries:
            break
        problems[:] = [FileNote(line, f"not JSON from here on: {what}; what comes before it is shown")]
        return [(conversation, kind, None)]
    return []


def _repaired(data: bytes, problems: list[FileNote]) -> list[tuple[Conversation, str, int | None]]:
    """Returns our own lines without the invalid ones."""
    if b"\n" not in data.strip():
        return []
    repaired = examine(data)
    conversation = conversion.decode(repaired.data, OWN) if repaired.data.strip() else Conversation()
    if not conversation.entries:
        return []
    problems[:] = [FileNote(note.line, note.message) for note in repaired.findings]
    return [(conversation, OWN, None)]


def _whole_lines(data: bytes) -> tuple[bytes, FileNote | None]:
    """Returns the data without an incomplete last line."""
    end = data.rfind(b"\n") + 1
    if not end or end == len(data):
        return data, None
    if _not_json(data[end:]) is None:
        return data, None
    return data[:end], FileNote(data.count(b"\n") + 1, "the last line is not complete")


def _not_json(data: bytes) -> str | None:
    """Returns why bytes are not a JSON value."""
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        return jsontext.reason_of(error)
    return None


def _detected(value: object) -> str:
    found = conversion.detect(value)
    if found is None:
        raise InterlinguaError("no known format; name it, or check the file with interlingua doctor")
    return found.dialect


def _is_own(data: bytes) -> bool:
    """Whether the file is one of our sessions: lines that begin with our header."""
    return data.lstrip().startswith(b'{"role":"session"') and b"\n" in data


def imported_id(path: Path) -> str:
    """Returns the id of the first conversation of a file."""
    return _digest(f"{path.absolute()}#0")


def _digest(where: str) -> str:
    return hashlib.blake2b(where.encode("utf-8", "surrogateescape"), digest_size=10).hexdigest()


def _read_about(path: Path) -> ImportedFile | None:
    try:
        return msgspec.json.decode(read_regular(path), type=ImportedFile)
    except (OSError, msgspec.MsgspecError):
        return None


def _remove(path: Path) -> None:
    for one in (path, path.with_suffix(".idx"), path.with_suffix(".lock")):
        one.unlink(missing_ok=True)


# --- the library -----------------------------------------------------------------------------------------------------


FILES = "opened"  # the agent of opened files in the cache
CLIENT = "canvas"  # the agent of sessions that canvas clients created
GATEWAY = "gateway"


class SessionPlace(Struct, frozen=True, kw_only=True):
    """The location of a session, and its role for the viewer."""

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
    spawned_by: SpawnedBy | None = None  # the parent session of a sub-agent, where another program's file has it
    problems: tuple[FileNote, ...] = ()
    info: SessionInfo | None = None


class Library:
    """The sessions of one canvas. Thread-safe."""

    def __init__(self, home: Path | None = None, store: Store | str | None = None) -> None:
        self.home = home or default_home()
        self.folder = self.home / "canvas"
        self.store: Store = store_at(store, self.home)
        self.cache = ImportCache(self.folder / "cache")
        self._opened: dict[str, SessionPlace] = {}
        self._deleted: dict[tuple[str, Deleted], SessionInfo] = {}
        self._lock = threading.RLock()
        for found in self.cache.known(FILES):
            self._register(found)

    # --- keys --------------------------------------------------------------------------------------------------------

    def own_key(self, agent: str, id: str) -> str:
        return own_key(agent, id)

    def place(self, key: str) -> SessionPlace:
        """Returns the location of the session with this key; raises 404 for an invalid one."""
        with self._lock:
            known = self._opened.get(key)
        if known is not None:
            return known
        kind, _, rest = key.partition("~")
        agent, _, id = rest.partition("~")
        if kind == "own" and agent and id:
            return self._own(unquote(agent), unquote(id))
        raise HttpProblem(404, f"no session {key!r}", code="session_not_found", remedy="reload the list of sessions")

    def current(self, place: SessionPlace) -> SessionPlace:
        """Returns the current state of a place: the problems of a file change as it is appended to."""
        with self._lock:
            return self._opened.get(place.key, place)

    def _own(self, agent: str, id: str, info: SessionInfo | None = None) -> SessionPlace:
        source: Source = "client" if agent == CLIENT else "gateway" if agent.startswith(GATEWAY) else "own"
        return SessionPlace(key=self.own_key(agent, id), agent=agent, id=id, source=source, group=agent, info=info)

    def open(self, place: SessionPlace, *, read_only: bool = True) -> Session:
        """Opens the session at a place; raises SessionNotFound, SessionBusy."""
        if not read_only and place.read_only:
            raise HttpProblem(409, f"{place.key} is read-only", code="read_only", remedy="continue in a linked fork")
        return Session.open(place.id, agent=place.agent, store=self.store_of(place), create=False, read_only=read_only)

    def store_of(self, place: SessionPlace) -> Store:
        return self.cache.store if place.read_only else self.store

    # --- lists -------------------------------------------------------------------------------------------------------

    def places(self) -> Iterator[SessionPlace]:
        """Returns all sessions, the latest of each agent first, with their list data."""
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

    def known(self) -> list[SessionPlace]:
        """Returns opened files and other programs' histories, without list data."""
        with self._lock:
            return list(self._opened.values())

    def deleted(self) -> list[tuple[SessionPlace, Deleted]]:
        """Returns the deleted sessions that can be restored, with their list data, the latest deleted first."""
        found: dict[tuple[str, Deleted], SessionInfo] = {}
        for agent in self.store.agents():
            for one in self.store.trashed(agent):
                with contextlib.suppress(SessionNotFound):  # restored or purged meanwhile
                    found[agent, one] = self._deleted.get((agent, one)) or self.store.trashed_info(agent, one)
        self._deleted = found  # a deleted session does not change
        rows = [(self._own(agent, one.id, info), one) for (agent, one), info in found.items()]
        return sorted(rows, key=lambda row: (-row[1].at, row[0].key))

    # --- files -------------------------------------------------------------------------------------------------------

    def open_path(self, path: Path, dialect: str | None = None) -> tuple[list[SessionPlace], list[FileProblemView]]:
        """Opens a file: as one of our sessions, else its conversations, read-only."""
        own = self.own_session(path)
        if own is not None:
            return [own], []
        try:
            found = self.cache.open_path(path, FILES, dialect)
        except (OSError, InterlinguaError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return [], [FileProblemView(name=str(path), message=why)]
        return self._register(found), _problems(str(path), found)

    def open_data(
        self, data: bytes, name: str, dialect: str | None
    ) -> tuple[list[SessionPlace], list[FileProblemView]]:
        """Opens the bytes of a file that was dropped on the page."""
        try:
            found = self.cache.open_data(data, FILES, name, dialect)
        except InterlinguaError as error:
            return [], [FileProblemView(name=name, message=str(error))]
        return self._register(found), _problems(name, found)

    def close_file(self, place: SessionPlace) -> None:
        """Removes an opened file from the list; the file itself is not touched."""
        with self._lock:
            self._opened.pop(place.key, None)
        self.cache.forget(FILES, place.id)

    def register_watched(
        self, agent: str, label: str, found: ImportedFile, project: str | None, spawned_by: SpawnedBy | None
    ) -> list[SessionPlace]:
        """Adds another program's conversations to the list."""
        places = self._register(found, "watch", agent, label)
        about = {place.key: replace(place, project=project, spawned_by=spawned_by) for place in places}
        with self._lock:
            self._opened.update(about)
        return list(about.values())

    def unregister(self, where: str) -> list[SessionPlace]:
        """Removes the conversations of a missing file from the list."""
        with self._lock:
            gone = [place for place in self._opened.values() if place.where == where and place.source == "watch"]
            for place in gone:
                del self._opened[place.key]
        return gone

    def own_session(self, path: Path) -> SessionPlace | None:
        """Returns the session of this home that a file is; None for other files."""
        resolved = path.resolve()
        if not isinstance(self.store, FileStore) or resolved.suffix != ENDING:
            return None
        agent = resolved.parent.parent.name
        is_ours = resolved.parent == (self.home / "agents" / agent / "sessions").resolve()
        return self._own(agent, resolved.name.removesuffix(ENDING)) if is_ours else None

    def _register(
        self, found: ImportedFile, source: Source = "file", agent: str = FILES, group: str = FILES
    ) -> list[SessionPlace]:
        places = []
        for one in found.conversations:
            key = f"file~{one.id}" if source == "file" else f"watch~{quote(agent, safe='')}~{one.id}"
            place = SessionPlace(
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


def _problems(name: str, found: ImportedFile) -> list[FileProblemView]:
    return [FileProblemView(name=name, line=note.line, message=note.message) for note in found.problems]


def expand(paths: Iterable[Path]) -> Iterator[Path]:
    """Returns files, and those in folders that may hold conversations."""
    from ..conversion import sources

    for source in sources.expand([str(path) for path in paths]):
        if source.path is not None:
            yield source.path
