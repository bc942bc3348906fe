"""Iterates over the elements of a large JSON array in bounded memory."""

import re
from collections.abc import Iterator
from typing import IO

from ..values.errors import FormatError

CHUNK = 1 << 20
_MAX_CHUNK = 64 << 20
# The next bracket, with complete strings before it. Possessive: an incomplete string is no match.
_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL)
_BETWEEN = b" \t\r\n,"
_OPENING = b"[{"


class Splitter:
    """Splits an array into its elements as bytes arrive. Only brackets and strings are parsed.

    Elements are objects or lists. `closed` once the array has ended; `rest` is data that is not a complete element yet.
    """

    def __init__(self) -> None:
        self.rest = b""
        self.closed = False
        self._depth = 0
        self._at = 0  # where scanning continues in `rest`

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the elements that are complete so far."""
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
                    start = at
                    break
        self.rest, self._depth, self._at = text[start:], depth, at - start
        return found


def elements(stream: IO[bytes], splitter: Splitter) -> Iterator[bytes]:
    """Yields the remaining elements of the array that `splitter` has begun; raises `FormatError` if it is
    incomplete.
    """
    size = CHUNK
    while not splitter.closed:
        data = stream.read(size)
        if not data:
            raise FormatError("the array is cut off: it has no end", "$")
        found = splitter.feed(data)
        yield from found
        # An element longer than a chunk is scanned again from its last bracket on: fewer, longer scans.
        size = CHUNK if found else min(size * 2, _MAX_CHUNK)
    if splitter.rest.strip() or stream.read(CHUNK).strip():
        raise FormatError("something follows the end of the array", "$")
