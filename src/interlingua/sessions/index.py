"""The index of a session file: for each line its place in the file and in the tree, 24 bytes a line.

It is a cache. The header has the bytes covered and a fingerprint of the file (size, time, first and last bytes); later
lines are read from the file, and an index that does not match is rebuilt. The header is written after the records are
on disk, and has the checksum of the last of them. Readers verify each line that they look up through the index.
"""

import hashlib
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from .tree import ENTRY, ROOT, head_after

_RECORD = struct.Struct("<QIiIBB2x")  # offset, length, parent, checksum of the id, kind, flags
_HEADER = struct.Struct("<8sQQq16s16sII")  # magic, records, bytes, time, first and last bytes, last records, itself
_MAGIC = b"ILIDX\x00\x00\x03"
_LINK = struct.Struct("<12xi4xB3x")  # parent and kind of a record
_PARENT_AT, _CHECK_AT, _KIND_AT, _FLAGS_AT = 12, 16, 20, 21
_SIZE = _RECORD.size
_SAMPLE = 4096  # bytes of the session file hashed at either end
_LAST = 512  # records verified on loading: they determine the head

ORPHAN = 1


class StaleIndex(Exception):
    """The index does not match the file: rebuild it and read again."""


class Record(NamedTuple):
    offset: int
    length: int
    parent: int
    check: int
    kind: int
    flags: int


def check_of(id: str | None) -> int:
    return 0 if id is None else zlib.crc32(id.encode("utf-8", "surrogatepass")) or 1


class Index:
    """Records by line number: saved ones are memory-mapped, later ones in memory."""

    def __init__(self, saved: mmap.mmap | None = None, count: int = 0, covered: int = 0) -> None:
        self._saved = saved
        self._base = count
        self._tail = bytearray()
        self._on_disk = count  # records in the index file
        self.covered = covered  # bytes of the session file that are indexed
        self.head = self._head()  # the head after the last line

    def __len__(self) -> int:
        return self._base + len(self._tail) // _SIZE

    def __getitem__(self, number: int) -> Record:
        if number < self._base:
            assert self._saved is not None
            return Record._make(_RECORD.unpack_from(self._saved, _HEADER.size + number * _SIZE))
        return Record._make(_RECORD.unpack_from(self._tail, (number - self._base) * _SIZE))

    def _head(self) -> int:
        if not len(self):
            return ROOT
        last = self[len(self) - 1]
        return head_after(len(self) - 1, last.kind, last.parent)

    def add(self, length: int, parent: int, id: str | None, kind: int, flags: int = 0) -> None:
        """Adds the next line; `length` is without its newline."""
        self.head = len(self) if kind >= ENTRY else parent
        self._tail += _RECORD.pack(self.covered, length, parent, check_of(id), kind, flags)
        self.covered += length + 1

    def candidates(self, id: str) -> Iterator[int]:
        """Numbers of entries that may have this id, the latest first."""
        key = check_of(id).to_bytes(4, "little")
        for number in self._matches(key):
            if self[number].kind >= ENTRY:
                yield number

    def _matches(self, key: bytes, field: int = _CHECK_AT) -> Iterator[int]:
        for data, start, first in ((self._tail, 0, self._base), (self._saved, _HEADER.size, 0)):
            if data is None:
                continue
            end = len(data)
            while (at := data.rfind(key, start, end)) >= 0:
                number, where = divmod(at - start, _SIZE)
                if where == field:
                    yield first + number
                end = at + len(key) - 1

    def numbers(self, *kinds: int, first: int | None = None, last: int | None = None) -> list[int]:
        """Numbers of the lines of these kinds, in order: all, or the `first` or `last` N."""
        column = self._column(_KIND_AT)
        if last is not None:
            found = (number for kind in kinds for number in islice(_backwards(column, kind), last))
            return sorted(found)[-last:] if last else []
        return sorted(number for kind in kinds for number in islice(_positions(column, kind), first))[:first]

    def count(self, *kinds: int) -> int:
        column = self._column(_KIND_AT)
        return sum(column.count(kind) for kind in kinds)

    def orphans(self) -> list[int]:
        return list(_positions(self._column(_FLAGS_AT), ORPHAN))

    def children(self, parent: int) -> list[int]:
        """The entries with this parent."""
        key = parent.to_bytes(4, "little", signed=True)
        return sorted(number for number in self._matches(key, _PARENT_AT) if self[number].kind >= ENTRY)

    def leaves(self) -> list[int]:
        """The entries without children."""
        is_leaf = bytearray(len(self))
        for number, (parent, kind) in enumerate(self._links()):
            if kind >= ENTRY:
                is_leaf[number] = 1
                if parent > ROOT:
                    is_leaf[parent] = 0
        return list(_positions(bytes(is_leaf), 1))

    def _links(self) -> Iterator[tuple[int, int]]:
        """Parent and kind of every record."""
        if self._saved is not None:
            with memoryview(self._saved) as saved:
                yield from _LINK.iter_unpack(saved[_HEADER.size : _HEADER.size + self._base * _SIZE])
        yield from _LINK.iter_unpack(bytes(self._tail))

    def _column(self, at: int) -> bytes:
        saved = self._saved
        first = saved[_HEADER.size + at : _HEADER.size + self._base * _SIZE : _SIZE] if saved is not None else b""
        return first + bytes(self._tail[at::_SIZE])

    # --- on disk -----------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: Path, file: int, size: int, modified: int) -> "Index | None":
        """The saved index, if it matches the open session file."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return cls._loaded(handle, file, size, modified)
        finally:
            os.close(handle)

    @classmethod
    def _loaded(cls, handle: int, file: int, size: int, modified: int) -> "Index | None":
        raw = os.read(handle, _HEADER.size)
        if len(raw) < _HEADER.size:
            return None
        magic, count, covered, then, first, last, records, crc = _HEADER.unpack(raw)
        if magic != _MAGIC or crc != zlib.crc32(raw[:-4]) or os.fstat(handle).st_size < _HEADER.size + count * _SIZE:
            return None
        if covered > size or (covered == size and then != modified) or (first, last) != _samples(file, covered):
            return None
        loaded = cls(_mapped(handle, count), count, covered) if count else cls()
        if records == zlib.crc32(loaded._last()):
            return loaded
        loaded.close()
        return None

    def _last(self) -> bytes:
        """The bytes of the last records."""
        first = max(len(self) - _LAST, 0)
        start, at = _HEADER.size + first * _SIZE, max(first - self._base, 0) * _SIZE
        saved = self._saved[start : _HEADER.size + self._base * _SIZE] if self._saved is not None else b""
        return saved + self._tail[at:]

    def save(self, path: Path, file: int) -> None:
        """Writes the records that are not on disk, syncs, then writes the header."""
        saved = self._on_disk if _size(path) == _HEADER.size + self._on_disk * _SIZE else 0
        if saved == len(self):
            return
        place = path if saved else path.with_name(f".{path.name}.{os.getpid()}.part")
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (0 if saved else os.O_TRUNC), 0o600)
        try:
            self._write_records(handle, saved)
            os.fsync(handle)
            given = (len(self), self.covered, os.fstat(file).st_mtime_ns, *_samples(file, self.covered))
            raw = _HEADER.pack(_MAGIC, *given, zlib.crc32(self._last()), 0)[:-4]
            _write_at(handle, raw + zlib.crc32(raw).to_bytes(4, "little"), 0)
        finally:
            os.close(handle)
        if not saved:
            place.replace(path)
        self._on_disk = len(self)

    def _write_records(self, handle: int, since: int) -> None:
        """Writes the records from `since` on, without copying: there may be a million."""
        if self._saved is not None and since < self._base:
            start, end = (_HEADER.size + number * _SIZE for number in (since, self._base))
            _write_at(handle, self._saved[start:end], start)
        first = max(since, self._base)
        with memoryview(self._tail) as tail:
            _write_at(handle, tail[(first - self._base) * _SIZE :], _HEADER.size + first * _SIZE)

    def close(self) -> None:
        if self._saved is not None:
            self._saved.close()
            self._saved = None


def _positions(column: bytes, value: int) -> Iterator[int]:
    at = column.find(value)
    while at >= 0:
        yield at
        at = column.find(value, at + 1)


def _backwards(column: bytes, value: int) -> Iterator[int]:
    at = column.rfind(value)
    while at >= 0:
        yield at
        at = column.rfind(value, 0, at)


def _mapped(handle: int, count: int) -> mmap.mmap:
    return mmap.mmap(handle, _HEADER.size + count * _SIZE, access=mmap.ACCESS_READ)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _samples(file: int, covered: int) -> tuple[bytes, bytes]:
    """Digests of the first and last covered bytes."""
    size = min(_SAMPLE, covered)
    first, last = os.pread(file, size, 0), os.pread(file, size, covered - size)
    return tuple(hashlib.blake2b(part, digest_size=16).digest() for part in (first, last))  # type: ignore[return-value]


def _write_at(handle: int, data: bytes | memoryview, at: int) -> None:
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            done += os.pwrite(handle, view[done:], at + done)
