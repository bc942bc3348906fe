"""Opens files beneath a root and nowhere else, even while somebody changes the tree.

A path is walked one component at a time, each opened relative to the directory before it and never through a link, so
no check can grow old: what was looked at is what is open. Links are read and walked by hand, always from the root, and
`..` in a link only shortens the way from there: a link may lead anywhere in the root, and is refused where it leaves.
Only regular files are read and written: no FIFO, device or socket is ever opened.

Writing makes a new file beside the old one and renames it into place. The old contents are never touched, so a hard
link to a file outside keeps the outside file as it was; reading through a hard link cannot be told from reading a file,
and is allowed.
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
    """Flags of open(); where the system has them not, no tree can be made, but the module can be imported."""
    return functools.reduce(operator.or_, (getattr(os, name, 0) for name in names))


_SEARCH = _flags("O_PATH", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
_LIST = _flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
_FILE = _flags("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC")
_TURNS = 100  # links and their `..` on the way; the kernel takes 40 links
_CHUNK = 1 << 20
_GONE = (errno.ENOENT, errno.ENOTDIR)


class NoSuchFile(ToolInputError):
    """There is nothing at this path."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{shown(path)}: no such file or directory")
        self.path = path


class TooLarge(ToolInputError):
    """The file is larger than may be read at once."""

    def __init__(self, path: str, size: int, most: int) -> None:
        super().__init__(f"{shown(path)}: {size:,} bytes, more than the {most:,} that are read at once")
        self.path, self.size = path, size


class Listed(NamedTuple):
    """An entry of a directory: links are told apart, not followed."""

    name: str
    kind: str  # file, directory, link or other


class _Place(NamedTuple):
    """Where a walk ended: an open directory, a name in it ("" for the directory itself), and the way from the root."""

    directory: int
    name: str
    parts: Parts


class Tree:
    """The files beneath `root`. Everything here blocks; the local bridge runs it in threads."""

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
            raise ToolInputError(f"{root}: the root is no directory")

    def locate(self, path: str) -> Parts:
        """The real way to `path` from the root, through no link."""
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
        """What is at the path itself: file, directory, link or other; None when nothing is, or it is out of reach."""
        try:
            with self._place(path, follow_last=False) as place:
                info = _lstat(place)
        except ToolInputError:
            return None
        return None if info is None else _kind(info.st_mode)

    def entries(self, path: str) -> list[Listed]:
        """What is in a directory, in no order. Links may lead to the directory; those in it are not followed."""
        with self._place(path) as place:
            info = _lstat(place)
            if info is None:
                raise NoSuchFile(path)
            if not stat.S_ISDIR(info.st_mode):
                raise ToolInputError(f"{shown(path)}: not a directory")
            with _opened(place.name or ".", _LIST, place.directory) as handle, os.scandir(handle) as entries:
                return [Listed(name_text(os.fsencode(entry.name)), _entry_kind(entry)) for entry in entries]

    def write(self, path: str, data: bytes) -> None:
        """Replaces the file in one step; mode and, where allowed, owner stay. Makes missing directories."""
        with self._place(path, make=True, exact=True) as place:
            if not place.name:
                raise ToolInputError(f"{shown(path)}: is a directory")
            self._replace(place, path, data)

    def make_directory(self, path: str) -> None:
        with self._place(path, make=True, exact=True) as place:
            info = _lstat(place)
            if info is None:
                with suppress(FileExistsError):  # somebody was faster, which is as good
                    os.mkdir(name_bytes(place.name), dir_fd=place.directory)
            elif not stat.S_ISDIR(info.st_mode):
                raise ToolInputError(f"{shown(path)}: exists and is no directory")

    def unlink(self, path: str) -> None:
        """Removes a file, or a link itself rather than what it leads to."""
        with self._place(path, follow_last=False, exact=True) as place:
            info = _lstat(place)
            if info is None:
                raise NoSuchFile(path)
            if stat.S_ISDIR(info.st_mode):
                raise ToolInputError(f"{shown(path)}: is a directory; only files are removed")
            os.unlink(name_bytes(place.name), dir_fd=place.directory)

    def rename(self, old: str, new: str) -> None:
        """Moves a file to a place where there is none. Makes missing directories."""
        with (
            self._place(old, follow_last=False, exact=True) as source,
            self._place(new, make=True, exact=True) as target,
        ):
            info = _lstat(source)
            if info is None:
                raise NoSuchFile(old)
            if not stat.S_ISREG(info.st_mode):
                raise ToolInputError(f"{shown(old)}: is no regular file")
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
        if not left:  # it grew, or its size is not told, as in /proc
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
        """What is there now, None if nothing. A rename needs no right to the file itself, so that is asked for here."""
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
        """Walks to `path`. With `make`, missing directories on the way are made; `exact` takes no name like it."""
        try:
            parts = spellings(path, self._roots, home)[0] if exact else self._meant(path)
            with self._walk(parts, path, make, follow_last) as place:
                yield place
        except OSError as error:
            raise _explained(error, path, make) from None

    def variant(self, path: str) -> str | None:
        """The path that is read in place of `path`, where nothing is at `path` itself and one looks like it."""
        literal, found = spellings(path, self._roots, home)[0], self._meant(path)
        return None if found == literal else "/".join(found)

    def _meant(self, path: str) -> Parts:
        """The path itself if something is there, or if nothing looks like it; else what looks like it."""
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
        here, names, turns = os.open(self._root, _SEARCH), list[str](), 0
        pending = list(reversed(parts))
        try:
            while pending:
                name = pending.pop()
                way = self._detour(name, here, names, path) if pending or follow_last or name == ".." else None
                if way is not None:
                    turns += 1
                    if turns > _TURNS:
                        raise OutsideRoot(path, "too many links")
                    pending += reversed(way)
                    names.clear()
                    here = _exchanged(here, os.open(self._root, _SEARCH))
                elif pending:
                    here = _exchanged(here, _entered(name, here, make))
                    names.append(name)
                else:
                    yield _Place(here, name, (*names, name))
                    return
            yield _Place(here, "", tuple(names))
        finally:
            os.close(here)

    def _detour(self, name: str, here: int, names: list[str], path: str) -> list[str] | None:
        """The way to go instead, from the root, when `name` is a link or, said by a link, `..`; else None."""
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
    """What the link says; None when the name is no link, or nothing."""
    try:
        return name_text(os.readlink(name_bytes(name), dir_fd=directory))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _entered(name: str, directory: int, make: bool) -> int:
    try:
        return os.open(name_bytes(name), _SEARCH, dir_fd=directory)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name_bytes(name), dir_fd=directory)
    return os.open(name_bytes(name), _SEARCH, dir_fd=directory)


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
    what = "is a directory" if stat.S_ISDIR(mode) else "is no regular file (a device, pipe or socket)"
    raise ToolInputError(f"{shown(path)}: {what}")


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "other"


def _entry_kind(entry: "os.DirEntry[str]") -> str:
    """The same, from what the directory tells: no look at the file is needed."""
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _explained(error: OSError, path: str, make: bool) -> ToolInputError:
    if make and error.errno == errno.ENOTDIR:
        return ToolInputError(f"{shown(path)}: a part of it is a file, not a directory")
    if error.errno in _GONE:
        return NoSuchFile(path)
    if error.errno == errno.ELOOP:
        return OutsideRoot(path, "it turned into a link while it was opened")
    return ToolInputError(f"{shown(path)}: {(error.strerror or str(error)).lower()}")
