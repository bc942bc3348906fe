"""Iterates over the elements of a large JSON array in bounded memory."""

import re
from collections.abc import Container, Iterator
from typing import IO

from ..values.errors import FormatError

CHUNK = 1 << 20
_MAX_CHUNK = 64 << 20
MAX_ELEMENT = 512 << 20  # bytes: a compressed file of a few kilobytes may hold gigabytes
# The next bracket, with complete strings before it. Possessive: an incomplete string is no match.
_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL)
_BETWEEN = b" \t\r\n,"
_OPENING = b"[{"


class Splitter:
    """Splits an array into its elements as bytes arrive. Only brackets and strings are parsed.

    Elements are objects or lists. `closed` once the array has ended; `rest` is data that is not a complete element yet,
    and `tail` what stands behind the last element. Raises `FormatError` if an element becomes too large.
    """

    def __init__(self) -> None:
        self.rest = self.tail = b""
        self.closed = False
        self._depth = 0
        self._at = 0  # where scanning continues in `rest`

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the elements that are complete so far."""
        if len(self.rest) + len(data) > MAX_ELEMENT:
            raise FormatError(f"an element of the array is larger than {MAX_ELEMENT >> 20} MB", "$")
        found: list[bytes] = []
        text, start, depth = self.rest + data, 0, self._depth
        at = self._at
        while token := _BRACKET.match(text, at):
            at = token.end()
            if text[at - 1] in _OPENING:
                depth += 1
                if depth == 1:
                    start = at
            else:
                depth -= 1
                if depth == 1:
                    found.append(text[start:at].lstrip(_BETWEEN))
                    start = at
                elif depth < 1:
                    self.closed = True
                    self.tail = text[start : at - 1].strip(_BETWEEN)
                    start = at
                    break
        self.rest, self._depth, self._at = text[start:], depth, at - start
        return found


_KEY = re.compile(rb'"([A-Za-z_]+)"\s*:\s*\[\Z')


def find_array(head: bytes, keys: Container[str]) -> tuple[str, int] | None:
    """Returns the key and the place of the first array with one of these keys in the object that `head` begins."""
    depth = at = 0
    while token := _BRACKET.match(head, at):
        at = token.end()
        if head[at - 1] not in _OPENING:
            depth -= 1
            continue
        key = _KEY.search(token[0]) if depth == 1 else None
        if key is not None and key[1].decode() in keys:
            return key[1].decode(), at - 1
        depth += 1
    return None


def parts(stream: IO[bytes], splitter: Splitter) -> Iterator[bytes]:
    """Yields the elements of an array in an object; what follows the array is the rest of `splitter` then, if short."""
    size = CHUNK
    while not splitter.closed:
        data = stream.read(size)
        if not data:
            raise FormatError("the array is cut off; it has no end", "$")
        found = splitter.feed(data)
        yield from found
        # An element longer than a chunk is scanned again from its last bracket on: fewer, longer scans.
        size = CHUNK if found else min(size * 2, _MAX_CHUNK)
    splitter.rest += stream.read(_MAX_CHUNK)


def elements(stream: IO[bytes], splitter: Splitter) -> Iterator[bytes]:
    """Yields the remaining elements of the array that `splitter` has begun; raises `FormatError` if it is
    incomplete.
    """
    yield from parts(stream, splitter)
    if splitter.rest.strip() or stream.read(1):
        raise FormatError("unexpected data after the end of the array", "$")
