"""An LRU cache, bounded by age, number of entries and bytes."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """`size` measures a value in bytes; a value above a quarter of `max_bytes` is not cached."""

    def __init__(
        self,
        *,
        seconds: float,
        size: Callable[[V], int],
        max_entries: int = 64,
        max_bytes: int = 16_000_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._size = size
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[Hashable, tuple[float, int, V]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._clock() >= entry[0]:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry[2]

    def put(self, key: Hashable, value: V) -> None:
        size = self._size(value)
        if self._seconds <= 0 or size > self._max_bytes // 4:
            return
        self._drop(key)
        self._entries[key] = (self._clock() + self._seconds, size, value)
        self._bytes += size
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def __len__(self) -> int:
        return len(self._entries)

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry[1]
