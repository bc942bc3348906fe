"""The elements of a large JSON array, one after the other, however large the whole is."""

import re
from collections.abc import Iterator
from typing import IO

from ..values.errors import FormatError

CHUNK = 1 << 20
_MAX_CHUNK = 64 << 20
# The next bracket, with whole strings before it. Possessive: a string that is not whole yet is no match.
_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL)
_BETWEEN = b" \t\r\n,"
_OPENING = b"[{"


class Splitter:
    """Finds the elements of an array in bytes that arrive in pieces. Only brackets and strings are looked at.

    Elements are objects or lists. `closed` once the array has ended; `rest` is what was read and is no element yet.
    """

    def __init__(self) -> None:
        self.rest = b""
        self.closed = False
        self._depth = 0
        self._at = 0  # where looking goes on in `rest`

    def feed(self, data: bytes) -> list[bytes]:
        """The elements that end in what has been read so far."""
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
    """The further elements of the array that `splitter` has begun; `FormatError` where the array is not whole."""
    size = CHUNK
    while not splitter.closed:
        data = stream.read(size)
        if not data:
            raise FormatError("the array is cut off: it has no end", "$")
        found = splitter.feed(data)
        yield from found
        # An element longer than a chunk is looked at again from its last bracket on: fewer, longer looks.
        size = CHUNK if found else min(size * 2, _MAX_CHUNK)
    if splitter.rest.strip() or stream.read(CHUNK).strip():
        raise FormatError("something follows the end of the array", "$")
