"""Sessions as JSON lines in files: `<home>/agents/<agent>/sessions/<id>.jsonl`.

A line is valid once its newline is written, and an append is one write of whole lines. After a crash, the next writer
moves what follows the last newline to another file; after a failed write (disk full) the file is truncated at once.
Only regular files are opened, and none through a link: others may be able to write to the folder.
"""

import contextlib
import errno
import itertools
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ..values.errors import FormatError, InterlinguaError
from ..values.places import home as default_home
from ..values.places import private_folder
from ..values.regular import IrregularFile, open_regular, read_regular, reason
from . import lease
from .index import ORPHAN, Index, Record, StaleIndex, authenticate, authenticated, check_of, discard
from .store import (
    Deleted,
    Log,
    SessionBusy,
    SessionDamaged,
    SessionError,
    SessionInfo,
    SessionProblem,
    sync_folder,
    typed,
)
from .summary import foreign_summary, summary
from .tree import BAD, BLANK, ENTRY, ROOT, LinePlace, parse_place, place, position

if TYPE_CHECKING:
    from .blobs import FileBlobs
    from .watching import Watch

ENDING = ".jsonl"
CATALOGUE = ".sessions-3.idx"
_DELETED = ".deleted-"
_CHUNK = 1 << 20
_INDEXED = 32  # lines from which on an index is faster to load than the lines to read
_SAVED_EVERY = 512  # lines between two saves of the index
_MAX_CATALOGUE = 1 << 28  # bytes
_MAX_LINE = 1 << 28  # bytes; large media are blobs
_MAX_BLANK = 1_000_000  # blank lines in one file: each costs a record of the index
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})  # of file systems without hard links
_PART_NAME = re.compile(r"\..+-[0-9a-f]{8}\.part")  # a new session that is not complete
_ABANDONED = 86_400.0  # seconds after which its writer is surely gone
_OURS = (".lock", ".idx")  # suffixes of files beside a session, which cannot be one
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@+=-]{0,200}")


class _Group:
    """Lines that are written together: their bytes, and where in the file they begin."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.data = bytearray()
        self.sync = False


class FileLog:
    """One session file: any number of readers, and one writer that holds the lease."""

    def __init__(self, path: Path, *, write: bool = False, create: bool = False) -> None:
        if path.suffix in _OURS:
            raise SessionError(f"{path}: the name of a lock or an index; a session has another ending")
        self.path = path
        self.where = str(path)
        self.problems: list[SessionProblem] = []
        self.generation = 0
        self._index = Index()
        self._file = -1
        self._unsaved = 0
        self._head_id: str | None = None  # the id of the head, if just read
        self._is_new = False
        self._blank = 0
        self._group: _Group | None = None
        self._lease: lease.Lease | None = None
        with typed(path):
            if not (write and create):
                os.close(open_regular(path))  # before a lock is made beside it
            self._lease = _lease_at(path) if write else None
            try:
                self._open()
            except BaseException:
                self.close()
                raise

    def _open(self) -> None:
        if self._lease is None:
            self._file = open_regular(self.path)
        else:
            if self._lease.after is not None:
                self.problems.append(
                    SessionProblem(None, f"the last writer exited without closing: {self._lease.after}")
                )
            try:
                self._file = open_regular(self.path, os.O_RDWR | os.O_APPEND)
            except FileNotFoundError:
                try:
                    self._file = open_regular(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
                    self._is_new = True
                except FileExistsError:  # `FileStore.create` takes no lease
                    self._file = open_regular(self.path, os.O_RDWR | os.O_APPEND)
        found = os.fstat(self._file)
        self._index = Index.load(self._index_path, self._file, found.st_size, found.st_mtime_ns) or Index()
        self.refresh()

    @property
    def _index_path(self) -> Path:
        return self.path.with_suffix(".idx")

    # --- reading -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._index.lines

    @property
    def head(self) -> int:
        return self._index.head

    @property
    def size(self) -> int:
        return self._index.covered

    def place(self, number: int) -> LinePlace:
        record = self._index[number]
        if record.parent >= number:
            raise StaleIndex
        return LinePlace(record.kind, record.parent, bool(record.flags & ORPHAN))

    def line(self, number: int) -> bytes:
        record = self._index[number]
        group = self._group
        if group is not None and record.offset >= group.start:
            at = record.offset - group.start
            return bytes(group.data[at : at + record.length])
        # With the newlines around it: an index that belongs to another state of the file is noticed.
        raw = os.pread(self._file, record.length + 2, max(record.offset - 1, 0))
        if not record.offset:
            raw = b"\n" + raw
        if len(raw) < record.length + 2 or raw[0] != 10 or raw[record.length + 1] != 10:
            raise StaleIndex
        raw = raw[1 : record.length + 1]
        if record.kind >= ENTRY:
            self._check(record, raw)
        return raw

    def _check(self, record: Record, raw: bytes) -> None:
        """Raises StaleIndex unless the line has the id and the parent in the index."""
        try:
            line = parse_place(raw)
        except FormatError:
            raise StaleIndex from None
        if check_of(line.id if isinstance(line.id, str) else None) != record.check:
            raise StaleIndex
        if isinstance(line.parent_id, str) and not record.flags & ORPHAN:
            above = self._index[record.parent] if record.parent > ROOT else None
            if above is None or above.kind < ENTRY or above.check not in (0, check_of(line.parent_id)):
                raise StaleIndex

    def find(self, id: str) -> int | None:
        if id == self._head_id:  # the usual case: the last entry
            return self._index.head
        for number in self._index.candidates(id):
            if parse_place(self.line(number)).id == id:
                return number
        at = position(id)
        if at is None or at >= self._index.lines:
            return None
        record = self._index[at]
        return at if record.kind >= ENTRY and not record.check else None

    def numbers(self, *kinds: int, first: int | None = None, last: int | None = None) -> list[int]:
        return self._index.numbers(*kinds, first=first, last=last)

    def count(self, *kinds: int) -> int:
        return self._index.count(*kinds)

    def orphans(self) -> list[int]:
        return self._index.orphans()

    def children(self, number: int) -> list[int]:
        return self._index.children(number)

    def leaves(self) -> list[int]:
        return self._index.leaves()

    def refresh(self) -> None:
        if self._group is not None:  # the index is ahead of the file until the group is written
            return
        if self._lease is None and self._was_replaced():
            os.close(self._file)
            self._file = -1
            self._file = open_regular(self.path)
            self.rebuild()
            return
        size = os.fstat(self._file).st_size
        if size < self._index.covered:
            self.rebuild()
            return
        rest = self._read_lines(size)
        if rest and self._lease is not None:
            self._repair(rest)
        # Beside a live writer, a line without its newline is one that is being written.
        elif rest and not lease.is_locked(self.path.with_suffix(".lock")):
            self._report(f"the last line has no newline ({rest} bytes): ignored")

    def _was_replaced(self) -> bool:
        try:
            return not os.path.samestat(os.fstat(self._file), self.path.lstat())
        except OSError:
            return self._lease is not None

    def rebuild(self) -> None:
        group, self._group = self._group, None
        if group is not None and group.data:
            self._write_group(group)
        self._reread()

    def _reread(self) -> None:
        self._index.close()
        self._index, self._head_id, self._blank = Index(), None, 0
        self.generation += 1
        self.refresh()

    def _read_lines(self, size: int) -> int:
        """Indexes the whole lines up to `size`; returns the number of bytes behind the last newline."""
        chunk = _CHUNK
        while self._index.covered < size:
            data = os.pread(self._file, min(chunk, size - self._index.covered), self._index.covered)
            lines = data.split(b"\n")
            lines.pop()
            for line in lines:
                self._index_line(line)
            if not lines:
                if len(data) < chunk:
                    return size - self._index.covered
                if chunk > _MAX_LINE:
                    number = self._index.lines + 1
                    raise SessionDamaged(f"{self.path}: line {number} has more than {_MAX_LINE >> 20} MB; cut it out")
                chunk *= 2  # read a long line in few chunks
        return 0

    def _index_line(self, raw: bytes) -> None:
        if not raw or raw.isspace():
            self._blank += 1
            if self._blank > _MAX_BLANK:
                raise SessionDamaged(f"{self.path}: more than {_MAX_BLANK:,} blank lines; remove them")
            self._index.add(len(raw), self._index.head, None, BLANK)
            return
        try:
            line = parse_place(raw)
        except FormatError:
            self._index.add(len(raw), self._index.head, None, BAD)
            return
        head = self._index.head
        kind, parent, orphan = place(line, head, self.find)
        id = line.id if kind >= ENTRY and isinstance(line.id, str) else None
        self._index.add(len(raw), parent, id, kind, ORPHAN if orphan else 0)
        if kind >= ENTRY:
            self._head_id = id
        elif parent != head:
            self._head_id = None

    # --- writing -----------------------------------------------------------------------------------------------------

    def add(self, lines: Sequence[bytes], *, sync: bool) -> int:
        first = self._index.lines
        data = b"".join(line + b"\n" for line in lines)
        if self._group is not None:
            self._group.data += data
            self._group.sync |= sync
        else:
            self._check_writable()
            # Line numbers are positions in the file: they must count what came between.
            if os.fstat(self._file).st_size != self._index.covered:
                self.refresh()  # a writer without a lease has appended
                first = self._index.lines
            self._write_or_truncate(data, self._index.covered, sync)
        for line in lines:
            self._index_line(line)
        self._unsaved += len(lines)
        self._save_index_if_due()
        return first

    @contextlib.contextmanager
    def grouped(self) -> Iterator[None]:
        if self._group is not None:
            yield
            return
        self._check_writable()
        self.refresh()
        group = self._group = _Group(self._index.covered)
        try:
            yield
        finally:
            if self._group is group:
                self._group = None
                if group.data:
                    self._write_group(group)

    def _write_group(self, group: "_Group") -> None:
        """Writes the lines of a group; if that fails, the index forgets them."""
        with typed(self.path):
            try:
                self._check_writable()
                # The parents in the group were computed for this place in the file.
                self._check_size(group.start)
                self._write_or_truncate(group.data, group.start, group.sync)
            except BaseException:
                self._reread()
                raise
        self._save_index_if_due()

    def _check_writable(self) -> None:
        self._writer().check()
        if self._was_replaced():
            raise SessionError(f"{self.path}: the file was removed or replaced; open the session again")

    def _check_size(self, expected: int) -> None:
        if os.fstat(self._file).st_size != expected:
            raise SessionError(f"{self.path}: not saved: another program wrote to the file; append again")

    def _write_or_truncate(self, data: bytes | bytearray, start: int, sync: bool) -> None:
        try:
            self._write(data)
            if sync:
                self._fsync()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, start)
            raise SessionError(f"{self.path}: not saved, earlier lines are intact: {reason(error)}") from error

    def _save_index_if_due(self) -> None:
        if self._unsaved >= _SAVED_EVERY and self._group is None:
            self._save_index()

    def _writer(self) -> lease.Lease:
        if self._lease is None:
            raise SessionError(f"{self.path}: opened read-only; open it for writing, or fork it")
        return self._lease

    def _write(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def _repair(self, rest: int) -> None:
        """Adds the missing newline to the last line if it is complete; otherwise moves it to a `.torn-N` file."""
        start = self._index.covered
        tail = os.pread(self._file, rest, start)
        try:
            parse_place(tail)
        except FormatError:
            # First saved, then cut off: a crash in between leaves it twice, not nowhere.
            place = self._set_aside(tail)
            os.ftruncate(self._file, start)
            self._report(f"the last line was truncated ({rest} bytes): moved to {place.name}")
        else:
            self._write(b"\n")
            self._report("the last line had no newline: one was added")
            self._index_line(tail)

    def _set_aside(self, tail: bytes) -> Path:
        number = 1
        while True:
            place = self.path.with_suffix(f".torn-{number}")
            try:
                handle = open_regular(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                number += 1
                continue
            with os.fdopen(handle, "wb") as stream:
                stream.write(tail)
                stream.flush()
                os.fsync(stream.fileno())
            return place

    def _report(self, message: str) -> None:
        problem = SessionProblem(self._index.lines + 1, message)
        if problem not in self.problems:
            self.problems.append(problem)

    def sync(self) -> None:
        if self._group is not None:
            self._group.sync = True
        elif self._lease is not None and self._file >= 0:
            self._fsync()
            self._lease.beat()

    def _fsync(self) -> None:
        os.fsync(self._file)
        if self._is_new and self._index.lines:
            # fsync(2) of a file does not make its name survive.
            sync_folder(self.path.parent)
            self._is_new = False

    def _save_index(self) -> None:
        with contextlib.suppress(OSError):  # only a cache
            self._index.save(self._index_path, self._file)
        self._unsaved = 0

    def watch(self) -> "Watch":
        from .watching import PathWatch

        return PathWatch([self.path])

    def close(self) -> None:
        if self._file >= 0:
            if self._lease is not None and self._index.lines >= _INDEXED and not self._was_replaced():
                self._save_index()
            os.close(self._file)
            self._file = -1
            if self._is_new and not self._index.lines:
                with contextlib.suppress(OSError):
                    self.path.unlink()  # no line was ever written
        self._index.close()
        if self._lease is not None:
            self._lease.release()


def _lease_at(path: Path) -> lease.Lease:
    try:
        return lease.Lease.take(path.with_suffix(".lock"))
    except SessionBusy as busy:
        raise SessionBusy(path, busy.owner) from None


class FileStore:
    """Session files under a home; or, with `folder`, those of one folder."""

    def __init__(self, home: Path | str | None = None, *, folder: Path | None = None) -> None:
        with typed(home or ""):
            self.home = Path(home).expanduser() if home is not None else default_home()
            if b"\0" in os.fsencode(self.home):
                raise ValueError("it contains a NUL character")
        self._folder = folder
        self._folders: dict[str, Path] = {}
        self._blobs: dict[str, FileBlobs] = {}

    def folder(self, agent: str) -> Path:
        if self._folder is not None:
            return self._folder
        found = self._folders.get(check_name(agent, "agent"))
        if found is None:
            found = self._folders[agent] = self.home / "agents" / agent / "sessions"
        return found

    def path(self, agent: str, id: str) -> Path:
        return self.folder(agent) / f"{check_name(id, 'session')}{ENDING}"

    def agents(self) -> list[str]:
        base = self.home / "agents"
        with typed(base):
            return sorted(entry.name for entry in base.iterdir() if entry.is_dir()) if base.is_dir() else []

    def open(self, agent: str, id: str, *, write: bool, create: bool) -> Log:
        path = self.path(agent, id)
        if write and create:
            with typed(path):
                make_folder(path.parent)
        return FileLog(path, write=write, create=create)

    def create(self, agent: str, id: str, lines: Callable[[], Sequence[bytes]]) -> bool:
        folder = self.folder(agent)
        path = f"{folder}{os.sep}{check_name(id, 'session')}{ENDING}"
        # Not through the session's own file: others would see it before it is complete.
        part = f"{folder}{os.sep}.{id}-{secrets.token_hex(4)}.part"
        with typed(path):
            data = b"".join([line + b"\n" for line in lines()])
            try:
                handle = os.open(part, _NEW, 0o600)
            except FileNotFoundError:
                make_folder(folder)
                handle = os.open(part, _NEW, 0o600)
            try:
                try:
                    view = memoryview(data)
                    while view:
                        view = view[os.write(handle, view) :]
                finally:
                    os.close(handle)
                try:
                    # link(2) fails if the name exists, where rename(2) would replace what another process has created.
                    os.link(part, path)
                except FileExistsError:
                    return False
                except OSError as error:
                    if error.errno in _NO_LINKS:
                        return False
                    raise
            finally:
                os.unlink(part)  # noqa: PTH108 (with every new session: `Path.unlink` takes longer)
        return True

    def grouped(self) -> contextlib.AbstractContextManager[None]:
        """Each write is one of its own: no file system commits changes of several files together."""
        return contextlib.nullcontext()

    def sync(self, agent: str, ids: Sequence[str]) -> None:
        for id in ids:
            with contextlib.suppress(FileNotFoundError):  # it was deleted
                handle = open_regular(self.path(agent, id))
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        if ids:
            sync_folder(self.folder(agent))

    def blobs(self, agent: str) -> "FileBlobs":
        found = self._blobs.get(agent)
        if found is None:
            from .blobs import FileBlobs  # on first use: a list of sessions needs no dialects

            folder = self.folder(agent)
            found = FileBlobs((folder.parent if folder.name == "sessions" else folder) / "blobs")
            self._blobs[agent] = found
        return found

    def texts(self, agent: str) -> Iterator[bytes]:
        folder = self.folder(agent)
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            # Deleted sessions and backups too: what they refer to must stay.
            if ENDING in path.name or ".torn-" in path.name:
                yield from _lines(path)

    def replace(self, agent: str, id: str, by: str, *, keep: bool) -> str | None:
        old, new = self.path(agent, id), self.path(agent, by)
        with typed(old):
            backup = _backup(old) if keep else None
            # Before the file changes its name: an index of the other file must never be found beside it.
            for path in (old, new):
                discard(path.with_suffix(".idx"))
            new.replace(old)
            sync_folder(old.parent)
        return None if backup is None else str(backup)

    def delete(self, agent: str, id: str) -> None:
        path = self.path(agent, id)
        with typed(path):
            path.unlink(missing_ok=True)
        discard(path.with_suffix(".idx"))

    # --- deleting ----------------------------------------------------------------------------------------------------

    def trash(self, agent: str, id: str) -> Deleted:
        path = self.path(agent, id)
        discard(path.with_suffix(".idx"))
        one = Deleted(id, int(time.time() * 1000))
        with typed(path):
            while not _move(path, self._trash_path(agent, one)):
                one = Deleted(id, one.at + 1)  # another session of the name was deleted in the same millisecond
        sync_folder(path.parent)
        return one

    def _trash_path(self, agent: str, one: Deleted) -> Path:
        return self.path(agent, one.id).with_name(f"{check_name(one.id, 'session')}{ENDING}{_DELETED}{one.at}")

    def trashed(self, agent: str) -> list[Deleted]:
        folder = self.folder(agent)
        with typed(folder):
            names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        found = (name.partition(f"{ENDING}{_DELETED}") for name in sorted(names))
        return [Deleted(id, int(at)) for id, sign, at in found if sign and at.isdecimal()]

    def trashed_info(self, agent: str, one: Deleted) -> SessionInfo:
        path = self._trash_path(agent, one)
        with typed(path):
            found = path.lstat()
        return replace(_info(path, agent, found.st_size, found.st_mtime_ns), id=one.id)

    def trashed_texts(self, agent: str, one: Deleted) -> Iterator[bytes]:
        for path in self._remains(agent, one):
            with typed(path):
                yield from _lines(path)

    def _remains(self, agent: str, one: Deleted) -> list[Path]:
        """The file and its backups, unless a new session has taken its name."""
        path = self.path(agent, one.id)
        backups = (
            []
            if path.exists()
            else [*path.parent.glob(f"{one.id}{ENDING}.before-gc-*"), *path.parent.glob(f"{one.id}.torn-*")]
        )
        return [self._trash_path(agent, one), *backups]

    def untrash(self, agent: str, one: Deleted) -> None:
        path = self.path(agent, one.id)
        with typed(path):
            if not _move(self._trash_path(agent, one), path):
                raise SessionBusy(f"{agent}/{one.id}", "another session of the same name")

    def purge(self, agent: str, one: Deleted) -> None:
        for path in self._remains(agent, one):
            with typed(path):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        pass

    # --- listing -----------------------------------------------------------------------------------------------------

    def sessions(self, agent: str) -> list[SessionInfo]:
        """All sessions of an agent, the latest first."""
        return self.latest(agent)[0]

    def latest(self, agent: str, limit: int | None = None) -> tuple[list[SessionInfo], int]:
        """The latest sessions of an agent, and how many there are: from the catalogue, updated for changed files."""
        folder = self.folder(agent)
        place = folder / CATALOGUE
        known = _read_catalogue(place)
        parts: list[str] = []
        files = sorted(_session_files(folder, parts), key=lambda one: (-(one[2] // 1_000_000), one[0]))
        # The folder of OpenClaw is another program's: nothing is created or removed there.
        if parts and self.home.name != ".openclaw":
            _discard_abandoned(folder, parts)
        found: list[SessionInfo] = []
        changed: dict[str, _Row] = {}
        for name, size, modified in files[:limit]:
            row = _row(known.get(name))
            if row is None or (row.size, row.modified, row.version) != (size, modified, _ROW_VERSION):
                row = _Row(size, modified, _info(folder / f"{name}{ENDING}", agent, size, modified), _ROW_VERSION)
                changed[name] = row
            found.append(row.info)
        if (changed or len(known) > len(files)) and self.home.name != ".openclaw":
            rows = {name: changed.get(name) or known.get(name) for name, _, _ in files}
            _write_catalogue(place, {name: row for name, row in rows.items() if row is not None})
        return found, len(files)

    def ids(self, agent: str) -> list[str]:
        """The ids of an agent's sessions, the latest first, without reading any of them."""
        files = sorted(_session_files(self.folder(agent)), key=lambda one: (-one[2], one[0]))
        return [name for name, _, _ in files]


_ROW_VERSION = 1  # incremented when the description of an unchanged file changes


class _Row(msgspec.Struct, array_like=True):
    size: int
    modified: int
    info: SessionInfo
    version: int = 0


_ROW = msgspec.msgpack.Decoder(_Row)


def _row(raw: msgspec.Raw | None) -> _Row | None:
    try:
        return None if raw is None else _ROW.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _discard_abandoned(folder: Path, parts: Iterable[str]) -> None:
    """Removes the files of `create` that a killed process left: writing one takes milliseconds, these are a day old."""
    latest = time.time() - _ABANDONED
    for name in parts:
        path = folder / name
        with contextlib.suppress(OSError):  # another process was faster, or nothing may be written here
            facts = path.lstat()
            if stat.S_ISREG(facts.st_mode) and facts.st_mtime < latest:
                path.unlink()


def _session_files(folder: Path, parts: list[str] | None = None) -> list[tuple[str, int, int]]:
    """Names, sizes and times. There may be many: each is looked up relative to the folder, where the system can.

    The names of new sessions that are not complete are added to `parts`.
    """
    try:
        names = os.listdir(folder)  # noqa: PTH208
        place = os.open(folder, os.O_RDONLY) if os.stat in os.supports_dir_fd else None
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SessionError(f"{folder}: {reason(error)}") from error
    base, cut, found = "" if place is not None else f"{folder}{os.sep}", -len(ENDING), []
    try:
        for name in names:
            if name.endswith(ENDING) and not name.startswith("."):
                try:
                    facts = os.stat(base + name, dir_fd=place, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(facts.st_mode):
                    found.append((name[:cut], facts.st_size, facts.st_mtime_ns))
            elif parts is not None and _PART_NAME.fullmatch(name):
                parts.append(name)
    finally:
        if place is not None:
            os.close(place)
    return found


def _info(path: Path, agent: str, size: int, modified: int) -> SessionInfo:
    id = path.name.removesuffix(ENDING)
    base = SessionInfo(id=id, agent=agent, modified=modified // 1_000_000, size=size, where=str(path))
    try:
        log = FileLog(path)
    except (OSError, InterlinguaError):
        return base
    try:
        return foreign_summary(path, base) or _summary(log, base)
    except (OSError, InterlinguaError, StaleIndex):  # it changes while it is read
        return base
    finally:
        log.close()


def _summary(log: FileLog, base: SessionInfo) -> SessionInfo:
    try:
        return summary(log, base)
    except StaleIndex:
        log.rebuild()
        return summary(log, base)


def _read_catalogue(place: Path) -> dict[str, msgspec.Raw]:
    """Returns the rows by session, each decoded on demand."""
    try:
        data = authenticated(read_regular(place, _MAX_CATALOGUE, follow=False))
        return {} if data is None else msgspec.msgpack.decode(data, type=dict[str, msgspec.Raw])
    except (OSError, InterlinguaError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _write_catalogue(place: Path, rows: Mapping[str, _Row | msgspec.Raw]) -> None:
    part = place.with_name(f".{place.name}.{secrets.token_hex(8)}.part")
    with contextlib.suppress(OSError):  # only a cache
        # Mode 0600: titles are private, they quote the conversations.
        with os.fdopen(open_regular(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as stream:
            stream.write(authenticate(msgspec.msgpack.encode(rows)))
        part.replace(place)
        return
    with contextlib.suppress(OSError):  # a file system that is mounted read-only refuses this, too
        part.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[bytes]:
    """Returns the lines of a file; none if it is not a regular file."""
    with contextlib.suppress(IrregularFile), os.fdopen(open_regular(path), "rb") as stream:
        yield from stream


def check_name(name: str, what: str) -> str:
    """The name of an agent or a session, which becomes a file name; raises SessionError for any other text."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SessionError(f"invalid {what} name {name!r}; use letters, digits and ._-")
    return name


def _move(path: Path, target: Path) -> bool:
    """Renames a file; returns False if the target exists. A plain rename would replace it."""
    try:
        os.link(path, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            return False
        path.rename(target)
        return True
    path.unlink()
    return True


def _backup(path: Path) -> Path:
    """Links or copies the file to an unused name beside it."""
    for number in itertools.count(1):
        target = path.with_name(f"{path.name}.before-gc-{number}")
        try:
            os.link(path, target)
        except FileExistsError:
            continue
        except OSError:  # the file system has no hard links
            shutil.copy2(path, target)
        break
    return target


def make_folder(folder: Path) -> None:
    """Creates a folder and those above it, synced, for this user alone."""
    missing = list(itertools.takewhile(lambda one: not one.is_dir(), (folder, *folder.parents)))
    private_folder(folder)
    for one in reversed(missing):
        sync_folder(one.parent)
