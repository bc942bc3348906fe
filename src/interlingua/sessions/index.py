"""The index of a session file: the position of each line in the file and in the tree; 24 bytes a line, 6 in memory.

It is a cache. The header has the bytes covered and a fingerprint of the file (size, time, first and last bytes); later
lines are read from the file, and an index that does not match is rebuilt. Header and records are authenticated with the
key in `<home>/index.key`, so an index that is corrupt, truncated or not this user's is rebuilt too. It is read into
memory, not mapped: another process may truncate the file at any time. Readers verify each line that they look up
through the index.
"""

import functools
import hashlib
import os
import secrets
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import NamedTuple
from weakref import WeakValueDictionary

from ..values.places import home, private_folder
from ..values.regular import open_regular
from .tree import ENTRY, ROOT, head_after

_RECORD = struct.Struct("<QIiIBB2x")  # offset, length, parent, checksum of the id, kind, flags
# Magic, records, bytes, time, first and last bytes; authentication codes of the records and of the header.
_HEADER = struct.Struct("<8sQQq16s16s16s16s")
_FAMILY = b"ILIDX\x00\x00"  # of every version
_MAGIC = _FAMILY + b"\x04"
_PARENT_AT, _CHECK_AT, _KIND_AT, _FLAGS_AT = 12, 16, 20, 21
_PARENT = struct.Struct("<i")
_CHECK = struct.Struct("<I")
_SIZE = _RECORD.size
_SAMPLE = 4096  # bytes of the session file hashed at either end
_CODE = 16
_COUNT = 1024  # records in a segment
_SEGMENT = _COUNT * _SIZE  # bytes of records per authentication step, each including the previous code

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


class _Columns(NamedTuple):
    """The compressed parts of a segment."""

    offsets: tuple[int, ...]
    lengths: tuple[int, ...]
    parents: bytes


class _Segment:
    """1024 final records. Searched columns are plain, the rest is compressed.

    Lengths and parents are compressed byte by byte (all first bytes, all second bytes, …): that is mostly repetition.
    """

    __slots__ = ("__weakref__", "_packed", "_start", "checks", "flags", "kinds")

    def __init__(self, raw: bytes | bytearray) -> None:
        self._start = int.from_bytes(raw[:8], "little")
        self._packed = zlib.compress(b"".join(raw[at::_SIZE] for at in _PACKED), 1)
        self.checks = _joined([raw[at::_SIZE] for at in range(_CHECK_AT, _CHECK_AT + 4)])
        self.kinds = bytes(raw[_KIND_AT::_SIZE])
        flags = bytes(raw[_FLAGS_AT::_SIZE])
        self.flags = flags if any(flags) else _NO_FLAGS

    def columns(self) -> _Columns:
        data = zlib.decompress(self._packed)
        lengths, parents = (
            _joined([data[at : at + _COUNT] for at in range(first, first + 4 * _COUNT, _COUNT)])
            for first in (0, 4 * _COUNT)
        )
        sizes = struct.unpack(f"<{_COUNT}I", lengths)
        return _Columns(tuple(accumulate(sizes, lambda at, size: at + size + 1, initial=self._start)), sizes, parents)

    def __getitem__(self, at: int) -> Record:
        offsets, lengths, parents = _unpacked(self)
        parent, check = _PARENT.unpack_from(parents, at * 4)[0], _CHECK.unpack_from(self.checks, at * 4)[0]
        return Record(offsets[at], lengths[at], parent, check, self.kinds[at], self.flags[at])

    def raw(self) -> bytes:
        """The records as they are on disk."""
        return b"".join(_RECORD.pack(*self[at]) for at in range(_COUNT))


_PACKED = range(8, 16)  # the bytes of lengths and parents in a record
_NO_FLAGS = bytes(_COUNT)
_shared: WeakValueDictionary[bytes, _Segment] = WeakValueDictionary()


def _joined(planes: Sequence[bytes | bytearray]) -> bytes:
    """Joins multi-byte values from all their first bytes, all their second bytes, and so on."""
    out = bytearray(len(planes) * len(planes[0]))
    for at, plane in enumerate(planes):
        out[at :: len(planes)] = plane
    return bytes(out)


@functools.lru_cache(maxsize=16)
def _unpacked(segment: _Segment) -> _Columns:
    return segment.columns()


def _segment(raw: bytes | bytearray, name: bytes) -> _Segment:
    """Returns the segment of these records, with the digest `name`; shared by the readers of one file."""
    found = _shared.get(name)
    if found is None:
        found = _shared[name] = _Segment(raw)
    return found


class Index:
    """Records by line number."""

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._tail = bytearray()  # the records behind the last whole segment
        self._tail_checks = bytearray()  # only their checksums: a new id is searched in all of them
        self._on_disk = 0  # bytes of records in the index file
        self._sealed = (0, bytes(_CODE))  # the bytes in whole segments, and the code of the last of them
        self.lines = 0  # of the session file that are indexed
        self.covered = 0  # and their bytes
        self.head = ROOT  # the head after the last line

    def __getitem__(self, number: int) -> Record:
        at, within = divmod(number, _COUNT)
        if 0 <= at < len(self._segments):
            return self._segments[at][within]
        try:
            return Record._make(_RECORD.unpack_from(self._tail, (number - len(self._segments) * _COUNT) * _SIZE))
        except struct.error:
            raise StaleIndex from None

    def _head(self) -> int:
        if not self.lines:
            return ROOT
        last = self[self.lines - 1]
        return head_after(self.lines - 1, last.kind, last.parent)

    def add(self, length: int, parent: int, id: str | None, kind: int, flags: int = 0) -> None:
        """Adds the next line; `length` is without its newline."""
        self.head = self.lines if kind >= ENTRY else parent
        check = check_of(id)
        self._tail += _RECORD.pack(self.covered, length, parent, check, kind, flags)
        self._tail_checks += _CHECK.pack(check)
        self.lines += 1
        self.covered += length + 1
        if len(self._tail) == _SEGMENT:
            self._segments.append(_segment(self._tail, hashlib.blake2b(self._tail, digest_size=_CODE).digest()))
            self._tail, self._tail_checks = bytearray(), bytearray()

    def candidates(self, id: str) -> Iterator[int]:
        """Numbers of entries that may have this id, the latest first."""
        key = _CHECK.pack(check_of(id))
        last = len(self._segments)
        for at in range(last, -1, -1):
            checks = self._tail_checks if at == last else self._segments[at].checks
            for place in _places(checks, key, 4, 0):
                number = at * _COUNT + place
                if self._kind(number) >= ENTRY:
                    yield number

    def _kind(self, number: int) -> int:
        at, within = divmod(number, _COUNT)
        return self._segments[at].kinds[within] if at < len(self._segments) else self[number].kind

    def numbers(self, *kinds: int, first: int | None = None, last: int | None = None) -> list[int]:
        """Numbers of the lines of these kinds, in order: all, or the `first` or `last` N."""
        column = self._kinds()
        if last is not None:
            found = (number for kind in kinds for number in islice(_backwards(column, kind), last))
            return sorted(found)[-last:] if last else []
        return sorted(number for kind in kinds for number in islice(_positions(column, kind), first))[:first]

    def count(self, *kinds: int) -> int:
        column = self._kinds()
        return sum(column.count(kind) for kind in kinds)

    def orphans(self) -> list[int]:
        flags = b"".join(segment.flags for segment in self._segments) + self._tail[_FLAGS_AT::_SIZE]
        return list(_positions(flags, ORPHAN))

    def children(self, parent: int) -> list[int]:
        """The entries with this parent."""
        after = range(max(parent, 0) // _COUNT, len(self._segments))  # children are later lines
        columns = ((number, self._segments[number].columns().parents) for number in after)
        key, first = _PARENT.pack(parent), len(self._segments) * _COUNT
        found = [first + at for at in _places(self._tail, key, _SIZE, _PARENT_AT)]
        found += [number * _COUNT + at for number, values in columns for at in _places(values, key, 4, 0)]
        return sorted(number for number in found if self._kind(number) >= ENTRY)

    def leaves(self) -> list[int]:
        """The entries without children."""
        is_leaf = bytearray(self.lines)
        number = 0
        tail = b"".join(self._tail[at : at + 4] for at in range(_PARENT_AT, len(self._tail), _SIZE))
        parts = ((segment.columns().parents, segment.kinds) for segment in self._segments)
        for parents, kinds in chain(parts, [(tail, self._tail[_KIND_AT::_SIZE])]):
            for (parent,), kind in zip(_PARENT.iter_unpack(parents), kinds, strict=True):
                if kind >= ENTRY:
                    is_leaf[number] = 1
                    if parent > ROOT:
                        is_leaf[parent] = 0
                number += 1
        return list(_positions(bytes(is_leaf), 1))

    def _kinds(self) -> bytes:
        return b"".join(segment.kinds for segment in self._segments) + self._tail[_KIND_AT::_SIZE]

    # --- on disk -----------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: Path, file: int, size: int, modified: int) -> "Index | None":
        """The saved index, if it is ours and matches the open session file."""
        try:
            handle = open_regular(path)
        except OSError:
            return None
        try:
            return cls._loaded(handle, file, size, modified)
        except OSError:
            return None
        finally:
            os.close(handle)

    @classmethod
    def _loaded(cls, handle: int, file: int, size: int, modified: int) -> "Index | None":
        raw = os.read(handle, _HEADER.size)
        if len(raw) < _HEADER.size:
            return None
        magic, count, covered, then, first, last, code, header_code = _HEADER.unpack(raw)
        key = _key(home())
        if magic != _MAGIC or key is None or not _is_same(header_code, _authenticated(key, raw[:-_CODE])):
            return None
        if covered > size or (covered == size and then != modified) or (first, last) != _samples(file, covered):
            return None
        loaded = cls()
        for at in range(0, count * _SIZE, _SEGMENT):
            records = _read(handle, min(_SEGMENT, count * _SIZE - at))
            if records is None:
                return None
            loaded._load(records, key)
        loaded.lines, loaded.covered, loaded._on_disk = count, covered, count * _SIZE
        loaded.head = loaded._head()
        return loaded if _is_same(code, loaded._code(key)) else None

    def _load(self, records: bytearray, key: bytes) -> None:
        if len(records) < _SEGMENT:
            self._tail = records
            self._tail_checks = bytearray(_joined([records[at::_SIZE] for at in range(_CHECK_AT, _CHECK_AT + 4)]))
            return
        done, code = self._sealed
        self._sealed = done + _SEGMENT, _authenticated(key, code, records)
        self._segments.append(_segment(records, self._sealed[1]))

    def _code(self, key: bytes) -> bytes:
        """The code of all records. Whole segments are hashed once."""
        done, code = self._sealed
        for segment in self._segments[done // _SEGMENT :]:
            code = _authenticated(key, code, segment.raw())
            done += _SEGMENT
        self._sealed = done, code
        return _authenticated(key, code, self._tail)

    @property
    def _size(self) -> int:
        return len(self._segments) * _SEGMENT + len(self._tail)

    def _since(self, saved: int) -> Iterator[tuple[int, bytes | bytearray]]:
        """Yields the unsaved records, each piece with its offset."""
        for at in range(saved // _SEGMENT, len(self._segments)):
            skipped = max(saved - at * _SEGMENT, 0)
            yield at * _SEGMENT + skipped, self._segments[at].raw()[skipped:]
        first = len(self._segments) * _SEGMENT
        skipped = max(saved - first, 0)
        yield first + skipped, self._tail[skipped:]

    def save(self, path: Path, file: int) -> None:
        """Writes the records that are not on disk, then the header; raises OSError.

        Not synced: after a power cut the code in the header does not match the lost records, and appends need not wait
        for a disk.

        A foreign file in its place is not overwritten, and nothing is saved.
        """
        there = _existing(path)
        saved = self._on_disk if there == _HEADER.size + self._on_disk else 0
        key = _key(home(), create=True)
        if saved == self._size or key is None:
            return
        place = path if saved else path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        handle = open_regular(place, os.O_RDWR if saved else os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            for at, records in self._since(saved):
                _write_at(handle, records, _HEADER.size + at)
            given = (self.lines, self.covered, os.fstat(file).st_mtime_ns, *_samples(file, self.covered))
            raw = _HEADER.pack(_MAGIC, *given, self._code(key), bytes(_CODE))[:-_CODE]
            _write_at(handle, raw + _authenticated(key, raw), 0)
            if not saved:
                place.replace(path)
        except BaseException:
            if not saved:
                place.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        self._on_disk = self._size

    def close(self) -> None:
        self._segments, self._tail, self._tail_checks, self.lines = [], bytearray(), bytearray(), 0


def discard(path: Path) -> None:
    """Removes the index at `path`, unless it is another file."""
    try:
        _existing(path)
    except OSError:
        return
    path.unlink(missing_ok=True)


def _existing(path: Path) -> int:
    """The size of the index at `path`, 0 for none; raises OSError if the file there is no index of any version."""
    try:
        handle = open_regular(path)
    except FileNotFoundError:
        return 0
    try:
        found = os.fstat(handle)
        if (found.st_size and os.read(handle, len(_FAMILY)) != _FAMILY) or found.st_nlink > 1:
            raise FileExistsError(f"{path} is not an index; nothing was written")
        return found.st_size
    finally:
        os.close(handle)


@functools.lru_cache(maxsize=8)
def _known_key(folder: Path) -> bytes:
    """Reads or creates the key; raises OSError."""
    place = folder / "index.key"
    try:
        handle = open_regular(place)
    except FileNotFoundError:
        private_folder(folder)
        part = place.with_name(f".{place.name}.{secrets.token_hex(8)}.part")
        with os.fdopen(open_regular(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as stream:
            stream.write(secrets.token_bytes(32))
        try:
            os.link(part, place)  # the first of two processes wins
        except FileExistsError:
            pass
        finally:
            part.unlink()
        handle = open_regular(place)
    try:
        found = os.fstat(handle)
        key = os.read(handle, 33)
        mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
        if len(key) != 32 or not mine or found.st_mode & 0o077:
            raise PermissionError(f"{place} is not a private key file of this user; remove it")
        return key
    finally:
        os.close(handle)


def _key(folder: Path, *, create: bool = False) -> bytes | None:
    """Returns the key of indexes; None if there is none and it cannot be created, in which case no index is used."""
    try:
        return _known_key(folder) if create or (folder / "index.key").exists() else None
    except OSError:
        return None


_is_same = secrets.compare_digest


def _authenticated(key: bytes, *parts: bytes | bytearray) -> bytes:
    code = hashlib.blake2b(key=key, digest_size=_CODE)
    for part in parts:
        code.update(part)
    return code.digest()


def authenticate(data: bytes) -> bytes:
    """Returns the data of another cache, prefixed with its code; raises OSError if there is no key."""
    key = _key(home(), create=True)
    if key is None:
        raise FileNotFoundError(f"{home()} has no key for caches")
    return _authenticated(key, b"cache", data) + data


def authenticated(data: bytes) -> bytes | None:
    """Returns the data after a valid code of this user; None otherwise."""
    key, code, data = _key(home()), data[:_CODE], data[_CODE:]
    return data if key is not None and _is_same(code, _authenticated(key, b"cache", data)) else None


def _places(values: bytes | bytearray, key: bytes, size: int, field: int) -> Iterator[int]:
    """Yields the records of this size that have the key at a field, the last first."""
    end = len(values)
    while (found := values.rfind(key, 0, end)) >= 0:
        number, where = divmod(found, size)
        if where == field:
            yield number
        end = found + len(key) - 1


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


def _read(handle: int, size: int) -> bytearray | None:
    """The next bytes of a file; None if there are fewer."""
    data = bytearray(size)
    with memoryview(data) as view:
        done = 0
        while done < size:
            read = os.readv(handle, [view[done:]])
            if not read:
                return None
            done += read
    return data


def _samples(file: int, covered: int) -> tuple[bytes, bytes]:
    """Digests of the first and last covered bytes."""
    size = min(_SAMPLE, covered)
    first, last = os.pread(file, size, 0), os.pread(file, size, covered - size)
    return tuple(hashlib.blake2b(part, digest_size=16).digest() for part in (first, last))  # type: ignore[return-value]


def _write_at(handle: int, data: bytes | bytearray, at: int) -> None:
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            done += os.pwrite(handle, view[done:], at + done)
