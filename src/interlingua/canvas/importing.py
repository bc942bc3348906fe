"""Files of any dialect as sessions: read once, kept in a cache as our own lines, so that all else sees sessions alone.

The cache may be deleted at any time. A file that did not change since is not read again.
"""

import hashlib
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .. import conversion
from ..conversion import sources
from ..sessions import Session, save
from ..sessions.files import FileStore
from ..sessions.lines import PLACES
from ..sessions.repair import examine
from ..values.errors import InterlinguaError
from ..values.messages import CustomMessage
from ..values.request import Conversation, Entry

OWN = "transcript"
_VERSION = 1  # of what is cached: raised when reading changes


class Imported(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    """Something wrong with a file, and the line it is about."""

    line: int | None
    message: str


class ImportedFile(Struct, frozen=True, omit_defaults=True):
    """What came of a file: its conversations, and what could not be read."""

    conversations: tuple[Imported, ...]
    problems: tuple[FileNote, ...] = ()


class Cache:
    """Imported files, as sessions of the agents of a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.store = FileStore(folder)
        self._folder = folder

    def open_path(self, path: Path, agent: str, dialect: str | None = None) -> ImportedFile:
        """The conversations of a file; from the cache where the file is as it was."""
        state = path.stat()
        about = self._about(agent, str(path.absolute()))
        known = _read_about(about)
        if known is not None and all(_fits(one, state) for one in known.conversations) and known.conversations:
            return known
        data = sources.read_all(sources.Source(path))
        found = self._import(data, agent, str(path.absolute()), path.name, dialect, state.st_size, state.st_mtime_ns)
        _write_about(about, found)
        return found

    def open_data(self, data: bytes, agent: str, name: str, dialect: str | None = None) -> ImportedFile:
        """The conversations of a file's bytes; the same bytes are the same conversations."""
        where = f"upload:{hashlib.sha256(data).hexdigest()[:32]}/{name}"
        found = self._import(sources.unpacked(data), agent, where, name, dialect, len(data), 0)
        _write_about(self._about(agent, where), found)
        return found

    def known(self, agent: str) -> Iterator[ImportedFile]:
        """What was imported before and is still here."""
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
                _write_about(path, ImportedFile(left, found.problems))
            else:
                path.unlink(missing_ok=True)
        self.store.delete(agent, id)

    def _about(self, agent: str, where: str) -> Path:
        return self._folder / "files" / agent / f"{_digest(where)}.json"

    def _import(
        self, data: bytes, agent: str, where: str, name: str, dialect: str | None, size: int, modified: int
    ) -> ImportedFile:
        conversations: list[Imported] = []
        problems: list[FileNote] = []
        if dialect in (None, OWN) and _is_own(data):
            one = Imported(id=_digest(where), where=where, dialect=OWN, name=name, size=size, modified=modified)
            self._write_own(data, agent, one)
            return ImportedFile((one,), tuple(FileNote(found.line, found.message) for found in examine(data).findings))
        found = _conversations(data, name, dialect, problems)
        for number, (conversation, kind, line) in enumerate(_or_repaired(found, data, problems)):
            one = Imported(
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

    def _save(self, conversation: Conversation, agent: str, one: Imported) -> None:
        """Ids that the file does not have are counted, so that a link to an entry stays good."""
        numbers = count(1)
        self.store.delete(agent, one.id)
        save(
            replace(conversation, entries=tuple(map(_with_free_places, conversation.entries))),
            new_id=lambda: f"n{next(numbers)}",
            id=one.id,
            agent=agent,
            store=self.store,
            sync="never",
        ).close()

    def _write_own(self, data: bytes, agent: str, one: Imported) -> None:
        """Our own lines stay as they are, bad ones too."""
        path = self.store.path(agent, one.id)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.store.delete(agent, one.id)
        _write(path, data if data.endswith(b"\n") else data + b"\n")


def _with_free_places(entry: Entry) -> Entry:
    """A line's own keys name its place in the tree: what a foreign record has under these names moves to `record`."""
    message = entry.message
    if not isinstance(message, CustomMessage) or message.fields.keys().isdisjoint(PLACES):
        return entry
    taken = {key: value for key, value in message.fields.items() if key in PLACES}
    fields = {key: value for key, value in message.fields.items() if key not in PLACES}
    return replace(entry, message=CustomMessage(message.role, {**fields, "record": taken}))


def _conversations(
    data: bytes, name: str, dialect: str | None, problems: list[FileNote]
) -> Iterator[tuple[Conversation, str, int | None]]:
    """The conversations in a file, their dialects, and their lines where a file holds several."""
    notes: list[sources.Problem] = []
    for document in sources.documents_of(data, name, dialect, notes):
        try:
            kind = dialect or _detected(document.data)
            yield conversion.decode(document.data, kind), kind, document.line
        except InterlinguaError as error:
            problems.append(FileNote(document.line, str(error)))
    for note in notes:
        place, _, line = note.name.rpartition(":")
        problems.append(FileNote(int(line) if place and line.isdecimal() else None, note.message))


def _or_repaired(
    found: Iterator[tuple[Conversation, str, int | None]], data: bytes, problems: list[FileNote]
) -> Iterator[tuple[Conversation, str, int | None]]:
    """What was found; if that is nothing, as much as can be made of the lines, with what is wrong with each."""
    nothing = True
    for one in found:
        nothing = False
        yield one
    if nothing and b"\n" in data.strip():
        repaired = examine(data)
        conversation = conversion.decode(repaired.data, OWN) if repaired.data.strip() else Conversation()
        if conversation.entries:
            problems[:] = [FileNote(note.line, note.message) for note in repaired.findings]
            yield conversation, OWN, None


def _detected(value: object) -> str:
    found = conversion.detect(value)
    if found is None:
        raise InterlinguaError("no known format; name it, or check the file with interlingua doctor")
    return found.dialect


def _is_own(data: bytes) -> bool:
    """Whether the file is a session of ours: lines, of which the first says so."""
    return data.lstrip().startswith(b'{"role":"session"') and b"\n" in data


def _fits(one: Imported, state: os.stat_result) -> bool:
    return (one.size, one.modified, one.version) == (state.st_size, state.st_mtime_ns, _VERSION)


def _digest(where: str) -> str:
    return hashlib.blake2b(where.encode("utf-8", "surrogateescape"), digest_size=10).hexdigest()


def _read_about(path: Path) -> ImportedFile | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ImportedFile)
    except (OSError, msgspec.MsgspecError):
        return None


def _write_about(path: Path, found: ImportedFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(path, msgspec.json.encode(found))


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
    part.replace(path)


def session_of(cache: Cache, agent: str, one: Imported) -> Session:
    return Session.open(one.id, agent=agent, store=cache.store, read_only=True, create=False)
