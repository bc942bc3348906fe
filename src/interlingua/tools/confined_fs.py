"""File access confined to a root, safe against concurrent changes of the tree.

A path is walked one component at a time, each opened relative to the directory before it with O_NOFOLLOW, so no race
between check and use exists. Links are resolved here, always from the root: a link may lead anywhere inside the root,
and is refused if it leaves it. Only regular files are read and written, never a FIFO, device or socket.

Writing creates a new file and renames it into place. The old contents are never modified, so a file outside that shares
a hard link stays as it is; reading through a hard link cannot be detected, and is allowed.
"""

import errno
import functools
import operator
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..values.errors import ToolInputError
from .access import home_below, names_below, permitted, require_permission
from .paths import (
    OutsideRoot,
    Parts,
    has_variants,
    home,
    name_bytes,
    name_text,
    root_bytes,
    shown,
    spellings,
    strip_root,
    variant,
)
from .tool import FsStat


def _flags(*names: str) -> int:
    """Flags of open(); 0 for those the system lacks, so that the module can be imported."""
    return functools.reduce(operator.or_, (getattr(os, name, 0) for name in names))


_SEARCH = _flags("O_PATH", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
_LIST = _flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
_FILE = _flags("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC")
_MAX_DETOURS = 100  # links and their `..` in one path; the kernel allows 40 links
_CHUNK = 1 << 20
_MISSING = (errno.ENOENT, errno.ENOTDIR)


class NoSuchFile(ToolInputError):
    """No file at this path."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{shown(path)}: no such file or directory")
        self.path = path


class TooLarge(ToolInputError):
    """The file exceeds the size limit."""

    def __init__(self, path: str, size: int, limit: int) -> None:
        super().__init__(f"{shown(path)}: {size:,} bytes, more than the limit of {limit:,}")
        self.path, self.size = path, size


class DirectoryEntry(NamedTuple):
    """A directory entry; links are not followed."""

    name: str
    kind: str  # file, directory, link or other


class _Place(NamedTuple):
    """The end of a walk: an open directory, a name in it ("" for the directory itself), and the path from the root."""

    directory: int
    name: str
    parts: Parts


class ConfinedTree:
    """The files below `root`. All methods block; the local bridge runs them in threads."""

    def __init__(self, root: str | Path, max_bytes: int) -> None:
        if os.open not in os.supports_dir_fd:
            raise ToolInputError("a local bridge needs a system that opens files relative to a directory (POSIX)")
        given = root_bytes(root)
        self._root = os.path.realpath(given)
        self.root = name_text(self._root)
        self.max_bytes = max_bytes
        as_written = os.path.abspath(given)  # noqa: PTH100 - links stay as written
        self._roots = tuple(dict.fromkeys((self.root, name_text(as_written))))
        if not os.path.isdir(self._root):  # noqa: PTH112 - bytes
            raise ToolInputError(f"{root}: the root is not a directory")
        self._home = home_below(self.root)

    def locate(self, path: str) -> Parts:
        """The real path of `path` from the root, with links resolved."""
        with self._place(path) as place:
            return place.parts

    def read(self, path: str) -> bytes:
        with self._place(path) as place:
            return self._read(place, path)

    def stat(self, path: str) -> FsStat | None:
        try:
            with self._place(path) as place:
                info = _lstat(place)
        except NoSuchFile:
            return None
        if info is None:
            return None
        regular, directory = stat.S_ISREG(info.st_mode), stat.S_ISDIR(info.st_mode)
        return FsStat(is_file=regular, is_directory=directory, size=info.st_size, mtime_ms=info.st_mtime_ns / 1e6)

    def kind(self, path: str) -> str | None:
        """The kind of the path itself: file, directory, link or other; None if missing or inaccessible."""
        try:
            with self._place(path, follow_last=False) as place:
                info = _lstat(place)
        except ToolInputError:
            return None
        return None if info is None else _kind(info.st_mode)

    def entries(self, path: str) -> list[DirectoryEntry]:
        """The unordered entries of a directory. Links to the directory are followed, links in it are not."""
        with self._place(path) as place:
            info = _lstat(place)
            if info is None:
                raise NoSuchFile(path)
            if not stat.S_ISDIR(info.st_mode):
                raise ToolInputError(f"{shown(path)}: not a directory")
            with _opened(place.name or ".", _LIST, place.directory) as handle, os.scandir(handle) as entries:
                listed = [DirectoryEntry(name_text(os.fsencode(entry.name)), _entry_kind(entry)) for entry in entries]
            return [one for one in listed if self._may_touch((*place.parts, one.name))]

    def write(self, path: str, data: bytes) -> None:
        """Replaces the file atomically; keeps its mode and, if permitted, owner. Creates missing directories."""
        with self._place(path, make=True, exact=True) as place:
            if not place.name:
                raise ToolInputError(f"{shown(path)}: is a directory")
            self._replace(place, path, data)

    def make_directory(self, path: str) -> None:
        with self._place(path, make=True, exact=True) as place:
            info = _lstat(place)
            if info is None:
                with suppress(FileExistsError):  # created concurrently
                    os.mkdir(name_bytes(place.name), dir_fd=place.directory)
            elif not stat.S_ISDIR(info.st_mode):
                raise ToolInputError(f"{shown(path)}: exists and is not a directory")

    def unlink(self, path: str) -> None:
        """Removes a file, or a link itself."""
        with self._place(path, follow_last=False, exact=True) as place:
            info = _lstat(place)
            if info is None:
                raise NoSuchFile(path)
            if stat.S_ISDIR(info.st_mode):
                raise ToolInputError(f"{shown(path)}: is a directory; only files are removed")
            os.unlink(name_bytes(place.name), dir_fd=place.directory)

    def rename(self, old: str, new: str) -> None:
        """Moves a file to an unused path. Creates missing directories."""
        with (
            self._place(old, follow_last=False, exact=True) as source,
            self._place(new, make=True, exact=True) as target,
        ):
            info = _lstat(source)
            if info is None:
                raise NoSuchFile(old)
            if not stat.S_ISREG(info.st_mode):
                raise ToolInputError(f"{shown(old)}: not a regular file")
            if _lstat(target) is not None:
                raise ToolInputError(f"{shown(new)}: exists already")
            names = name_bytes(source.name), name_bytes(target.name)
            os.rename(*names, src_dir_fd=source.directory, dst_dir_fd=target.directory)

    def _read(self, place: _Place, path: str) -> bytes:
        info = _lstat(place)
        if info is None:
            raise NoSuchFile(path)
        _refuse_special(info, path)
        with _opened(place.name, os.O_RDONLY | _FILE, place.directory) as handle:
            info = os.fstat(handle)
            _refuse_special(info, path)
            if info.st_size > self.max_bytes:
                raise TooLarge(path, info.st_size, self.max_bytes)
            chunks, left = [], self.max_bytes + 1
            while left and (chunk := os.read(handle, min(left, _CHUNK))):
                chunks.append(chunk)
                left -= len(chunk)
        if not left:  # it grew, or reports no size, as in /proc
            raise TooLarge(path, self.max_bytes + 1, self.max_bytes)
        return b"".join(chunks)

    def _replace(self, place: _Place, path: str, data: bytes) -> None:
        old = self._writable(place, path)
        fresh = f".{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        try:
            with _opened(fresh, flags, place.directory, 0o666 if old is None else 0o600) as handle:
                view = memoryview(data)
                while view:
                    view = view[os.write(handle, view) :]
                if old is not None:
                    with suppress(PermissionError):
                        os.fchown(handle, old.st_uid, old.st_gid)
                    os.fchmod(handle, stat.S_IMODE(old.st_mode) & 0o777)
            os.rename(fresh.encode(), name_bytes(place.name), src_dir_fd=place.directory, dst_dir_fd=place.directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=place.directory)
            raise

    def _writable(self, place: _Place, path: str) -> os.stat_result | None:
        """The current file's stat, None if missing. Opens it for writing, since a rename checks only the directory."""
        info = _lstat(place)
        if info is None:
            return None
        _refuse_special(info, path)
        with _opened(place.name, os.O_WRONLY | _FILE, place.directory) as handle:
            info = os.fstat(handle)
        _refuse_special(info, path)
        return info

    @contextmanager
    def _place(
        self, path: str, *, make: bool = False, follow_last: bool = True, exact: bool = False
    ) -> Iterator[_Place]:
        """Walks to `path`. `make` creates missing directories; `exact` matches no similar name."""
        try:
            parts = spellings(path, self._roots, home)[0] if exact else self._resolved_parts(path)
            with self._walk(parts, path, make, follow_last) as place:
                yield place
        except OSError as error:
            raise _explained(error, path, make) from None

    def variant(self, path: str) -> str | None:
        """The similar path that is read instead of `path`, if `path` does not exist."""
        literal, found = spellings(path, self._roots, home)[0], self._resolved_parts(path)
        return None if found == literal else "/".join(found)

    def _resolved_parts(self, path: str) -> Parts:
        """The path itself if it exists or nothing is similar; else the similar one."""
        literal, *others = spellings(path, self._roots, home)
        if not has_variants(path):
            return literal
        with suppress(NoSuchFile, OSError), self._walk(literal, path, False, False) as place:
            if _lstat(place) is not None:
                return literal
        found = (variant(parts, self._names_in) for parts in (*others, literal))
        return next((parts for parts in found if parts is not None), literal)

    def _names_in(self, parts: Parts) -> list[str]:
        try:
            return [entry.name for entry in self.entries("/".join((".", *parts)))]
        except ToolInputError:
            return []

    @contextmanager
    def _walk(self, parts: Parts, path: str, make: bool, follow_last: bool) -> Iterator[_Place]:
        here, names, detours = os.open(self._root, _SEARCH), list[str](), 0
        pending = list(reversed(parts))
        try:
            while pending:
                name = pending.pop()
                way = self._resolve_link(name, here, names, path) if pending or follow_last or name == ".." else None
                if way is not None:
                    detours += 1
                    if detours > _MAX_DETOURS:
                        raise OutsideRoot(path, "too many links")
                    pending += reversed(way)
                    names.clear()
                    here = _exchanged(here, os.open(self._root, _SEARCH))
                elif pending:
                    missing = (*names, name, *reversed(pending)) if make else None
                    here = _exchanged(here, self._entered(name, here, missing, path))
                    names.append(name)
                else:
                    self._require((*names, name), path)
                    yield _Place(here, name, (*names, name))
                    return
            self._require(tuple(names), path)
            yield _Place(here, "", tuple(names))
        finally:
            os.close(here)

    def _entered(self, name: str, directory: int, missing: Parts | None, path: str) -> int:
        """Opens a directory. If it does not exist and the whole path is passed as `missing`, it is created."""
        try:
            return os.open(name_bytes(name), _SEARCH, dir_fd=directory)
        except FileNotFoundError:
            if missing is None:
                raise
        self._require(missing, path)
        with suppress(FileExistsError):
            os.mkdir(name_bytes(name), dir_fd=directory)
        return os.open(name_bytes(name), _SEARCH, dir_fd=directory)

    def _require(self, parts: Parts, path: str) -> None:
        """Refuses a located path that the policy of the running call denies, and Interlingua's own folder always."""
        if self._is_home(parts):
            raise OutsideRoot(path, "it holds the keys and settings of this program")
        require_permission(path, *names_below(self.root, "/".join(parts)))

    def _may_touch(self, parts: Parts) -> bool:
        return not self._is_home(parts) and permitted(*names_below(self.root, "/".join(parts)))

    def _is_home(self, parts: Parts) -> bool:
        return self._home is not None and parts[: len(self._home)] == self._home

    def _resolve_link(self, name: str, here: int, names: list[str], path: str) -> list[str] | None:
        """The path from the root to continue at, if `name` is a link or a `..` from a link; else None."""
        if name == "..":
            if not names:
                raise OutsideRoot(path, "a link leads out of the root")
            return names[:-1]
        target = _link(name, here)
        if target is None:
            return None
        if not target.startswith("/"):
            return [*names, *_split(target)]
        inside = strip_root(target, self._roots)
        if inside is None:
            raise OutsideRoot(path, "a link leads out of the root")
        return _split(inside)


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _exchanged(old: int, new: int) -> int:
    os.close(old)
    return new


def _link(name: str, directory: int) -> str | None:
    """The target of a link; None if the name is not a link, or missing."""
    try:
        return name_text(os.readlink(name_bytes(name), dir_fd=directory))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


@contextmanager
def _opened(name: str, flags: int, directory: int, mode: int = 0o600) -> Iterator[int]:
    handle = os.open(name_bytes(name), flags, mode, dir_fd=directory)
    try:
        yield handle
    finally:
        os.close(handle)


def _lstat(place: _Place) -> os.stat_result | None:
    if not place.name:
        return os.fstat(place.directory)
    try:
        return os.stat(name_bytes(place.name), dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _refuse_special(info: os.stat_result, path: str) -> None:
    mode = info.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        raise OutsideRoot(path, "it turned into a link while it was opened")
    what = "is a directory" if stat.S_ISDIR(mode) else "is not a regular file (a device, pipe or socket)"
    raise ToolInputError(f"{shown(path)}: {what}")


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "other"


def _entry_kind(entry: "os.DirEntry[str]") -> str:
    """The kind from the directory entry, without a stat."""
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _explained(error: OSError, path: str, make: bool) -> ToolInputError:
    if make and error.errno == errno.ENOTDIR:
        return ToolInputError(f"{shown(path)}: a part of it is a file, not a directory")
    if error.errno in _MISSING:
        return NoSuchFile(path)
    if error.errno == errno.ELOOP:
        return OutsideRoot(path, "it turned into a link while it was opened")
    return ToolInputError(f"{shown(path)}: {(error.strerror or str(error)).lower()}")
