"""How the framing tests feed a body and look at what came of it."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from interlingua.dialects.framing import Frame, Framing
from interlingua.values.errors import BadWire


def outcome(framing: Framing, chunks: Iterable[bytes]) -> tuple[list[Frame], str]:
    """All frames of a body, and the fault that ended it, if any."""
    frames: list[Frame] = []
    try:
        for chunk in chunks:
            frames += framing.feed(chunk)
        frames += framing.close()
    except BadWire as fault:
        return frames, str(fault)
    return frames, ""


def read(framing: Framing, *chunks: bytes) -> list[Frame]:
    """All frames of a body that has no fault."""
    frames, fault = outcome(framing, chunks)
    assert fault == ""
    return frames


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


def cut_at(body: bytes, places: Iterable[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(borders)]


def soup(*fragments: bytes, most: int = 30) -> st.SearchStrategy[bytes]:
    """Bodies that hit the odd corners of a format, because they are made of nothing but its marks."""
    return st.lists(st.sampled_from(fragments), max_size=most).map(b"".join)


class CountingBuffer(bytearray):
    """Counts the bytes that go through it, in and out."""

    moved = 0

    def __iadd__(self, other: Any) -> "CountingBuffer":
        self.moved += len(other)
        super().__iadd__(other)
        return self

    def __bytes__(self) -> bytes:
        self.moved += len(self)
        return bytes(memoryview(self))
