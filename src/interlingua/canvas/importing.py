"""Files of any dialect as sessions: read once, kept in a cache as our own lines, so that all else sees sessions alone.

The cache may be deleted at any time. A file that did not change since is not read again. One that has grown is appended
to its session where that is enough, so that viewers receive the new rows alone; else its session is replaced.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import jiter
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .. import conversion
from ..conversion import sources
from ..sessions import Session, save
from ..sessions.files import ENDING, FileStore
from ..sessions.repair import examine
from ..sessions.tree import PLACES
from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.messages import CustomMessage
from ..values.request import Conversation, Entry

OWN = "transcript"
LINES = (".jsonl", ".ndjson")  # endings of files that grow line by line
_CUTS = 20  # lines that are left out at the end of a broken document until the rest can be read
_VERSION = 2  # of what is cached: raised when reading changes


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

    def open_path(self, path: Path, agent: str, dialect: str | None = None, *, growing: bool = False) -> ImportedFile:
        """The conversations of a file; from the cache where the file is as it was.

        Of a file that is `growing`, a last line that another program is still writing is left for later.
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
        if growing and path.name.endswith(LINES):
            data, unfinished = _whole_lines(data)
        found = self._import(data, agent, str(path.absolute()), path.name, dialect, state.st_size, state.st_mtime_ns)
        if unfinished is not None:
            found = ImportedFile(found.conversations, (*found.problems, unfinished))
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

    def _fits(self, one: Imported, agent: str, state: os.stat_result) -> bool:
        """Whether a conversation in the cache is the file's as it is now."""
        same = (one.size, one.modified, one.version) == (state.st_size, state.st_mtime_ns, _VERSION)
        return same and self.store.path(agent, one.id).exists()

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
        for number, (conversation, kind, line) in enumerate(_or_repaired(found, data, dialect, problems)):
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
        path = self.store.path(agent, one.id)
        part = path.with_name(f".{one.id}{ENDING}")  # no name of a session: lists and indexes pass it over
        _remove(part)
        stored = replace(conversation, entries=tuple(map(_with_free_places, conversation.entries)))
        save(stored, new_id=lambda: f"n{next(numbers)}", id=part, sync="never").close()
        try:
            lines = part.read_bytes().splitlines(keepends=True) if part.exists() else []
        finally:
            _remove(part)
        lines[:1] = [_header(lines[0] if lines else b"{}", agent, one, conversation)]
        fresh = _appended(path.read_bytes().splitlines(keepends=True), lines) if path.exists() else None
        if fresh is None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.with_suffix(".idx").unlink(missing_ok=True)
            _write(path, b"".join(lines))
        elif fresh:
            with path.open("ab") as stream:
                stream.write(b"".join(fresh))
        if one.modified:  # lists are sorted by when the conversation changed, not by when it was read
            os.utime(path, ns=(one.modified, one.modified))

    def _write_own(self, data: bytes, agent: str, one: Imported) -> None:
        """Our own lines stay as they are, bad ones too."""
        path = self.store.path(agent, one.id)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lines = data if data.endswith(b"\n") else data + b"\n"
        if path.exists() and lines.startswith(before := path.read_bytes()):
            with path.open("ab") as stream:
                stream.write(lines[len(before) :])
            return
        self.store.delete(agent, one.id)
        _write(path, lines)


def _with_free_places(entry: Entry) -> Entry:
    """A line's own keys name its place in the tree: what a foreign record has under these names moves to `record`."""
    message = entry.message
    if not isinstance(message, CustomMessage) or message.fields.keys().isdisjoint(PLACES):
        return entry
    taken = {key: value for key, value in message.fields.items() if key in PLACES}
    fields = {key: value for key, value in message.fields.items() if key not in PLACES}
    return replace(entry, message=CustomMessage(message.role, {**fields, "record": taken}))


def _header(line: bytes, agent: str, one: Imported, conversation: Conversation) -> bytes:
    """The first line of a session: its time is that of the first message, so that it is the same each time."""
    times = (getattr(entry.message, "timestamp", None) for entry in conversation.entries)
    created = next((at for at in times if isinstance(at, int)), one.modified // 1_000_000)
    about = {"role": "session", "version": 1, **jsontext.read(line), "id": one.id, "createdAt": created}
    return jsontext.write({**about, "agentId": agent}) + b"\n"


_HEAD = b'{"role":"head",'


def _appended(before: list[bytes], now: list[bytes]) -> list[bytes] | None:
    """The lines that lead from a session to the same one grown; None where it is another by now.

    A `head` line says where a conversation stands. It is no part of the tree, and moves as the tree grows.
    """
    old = [line for line in before if not line.startswith(_HEAD)]
    new = [line for line in now if not line.startswith(_HEAD)]
    if new[: len(old)] != old:
        return None
    heads = [line for line in now[-1:] if line.startswith(_HEAD)]
    if len(new) == len(old) and heads == [line for line in before[-1:] if line.startswith(_HEAD)]:
        return []
    if len(new) == len(old) and not heads:
        return None  # it stands at its last entry again
    return new[len(old) :] + heads


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
    found: Iterator[tuple[Conversation, str, int | None]], data: bytes, dialect: str | None, problems: list[FileNote]
) -> Iterator[tuple[Conversation, str, int | None]]:
    """What was found; if that is nothing, as much as can be made of the file, with what is wrong with each line."""
    nothing = True
    for one in found:
        nothing = False
        yield one
    if nothing:
        yield from _cut(data, dialect, problems) or _repaired(data, problems)


def _cut(data: bytes, dialect: str | None, problems: list[FileNote]) -> list[tuple[Conversation, str, int | None]]:
    """The conversation of a document that is sound up to some byte, and the line of that byte."""
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
            # jiter is the stricter of the two: a text in which a line ends is wrong from there on, not where it closes.
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
    """What lines of our own amount to without the broken ones."""
    if b"\n" not in data.strip():
        return []
    repaired = examine(data)
    conversation = conversion.decode(repaired.data, OWN) if repaired.data.strip() else Conversation()
    if not conversation.entries:
        return []
    problems[:] = [FileNote(note.line, note.message) for note in repaired.findings]
    return [(conversation, OWN, None)]


def _whole_lines(data: bytes) -> tuple[bytes, FileNote | None]:
    """The data without a last line that is being written."""
    end = data.rfind(b"\n") + 1
    if not end or end == len(data):
        return data, None
    if _not_json(data[end:]) is None:
        return data, None
    return data[:end], FileNote(data.count(b"\n") + 1, "the last line is not complete")


def _not_json(data: bytes) -> str | None:
    """Why bytes are no JSON value."""
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        return str(error)
    return None


def _detected(value: object) -> str:
    found = conversion.detect(value)
    if found is None:
        raise InterlinguaError("no known format; name it, or check the file with interlingua doctor")
    return found.dialect


def _is_own(data: bytes) -> bool:
    """Whether the file is a session of ours: lines, of which the first says so."""
    return data.lstrip().startswith(b'{"role":"session"') and b"\n" in data


def imported_id(path: Path) -> str:
    """The id of the first conversation of a file."""
    return _digest(f"{path.absolute()}#0")


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


def _remove(path: Path) -> None:
    for one in (path, path.with_suffix(".idx"), path.with_suffix(".lock")):
        one.unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
    part.replace(path)


def session_of(cache: Cache, agent: str, one: Imported) -> Session:
    return Session.open(one.id, agent=agent, store=cache.store, read_only=True, create=False)
