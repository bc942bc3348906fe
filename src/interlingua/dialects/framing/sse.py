"""Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html (sections 9.2.5 and 9.2.6).

The whole specification, with one departure: an event that the end of the stream cuts off before its blank line is
dispatched, not discarded, because providers do end that way. `id` and `retry` are for reconnection and are ignored.

Strategy: exact parsing goes line by line and is slow. Nearly all traffic is whole events of one or two lines, so while
nothing is pending at an event border, the blocks between blank lines are sliced out of the chunk directly, and only a
block of another shape is taken apart into lines. Events of one name come in runs, so the bytes before the data of the
last one, its head, are remembered: most often one comparison then tells the shape and the name of the next.
"""

from typing import ClassVar

from ...values.errors import FormatError
from ._frame import DEFAULT_LIMIT, Frame, Framing

_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "
_LF, _CR = 10, 13  # as integers: `in` on bytes is several times faster with an integer
_LONGEST_NAME_LINE = 256  # what is remembered from one event to the next does not count against the limit


class SSE(Framing):
    """Reads `text/event-stream`.

    A frame for each event that has a `data` field, even an empty one (as specified). The limit is for the data of one
    event plus the line being read, so neither an endless line nor endless lines can fill the memory.
    """

    name: ClassVar[str] = "sse"

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        super().__init__(limit)
        self._data = bytearray()  # every value followed by a newline, so "no data field" and "empty data" differ
        self._event = b""
        self._after_cr = False
        self._at_border = True
        self._head = _DATA
        self._head_event = ""

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that this chunk completes; for one whole event with a known head, by the shortest way."""
        head = self._head
        size = len(chunk)
        if (
            self._at_border
            and chunk.startswith(head)
            and chunk.find(b"\n", len(head)) == size - 2
            and chunk[-1] == _LF
            and _CR not in chunk
            and size <= self._limit
        ):
            self._offset += size
            return [Frame(chunk[len(head) : -2], self._head_event)]
        return super().feed(chunk)

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        if chunk[0] == _LF and self._at_border and not chunk.strip(b"\n"):
            self._offset += len(chunk)  # only blank lines, possibly millions
            return
        if not self._offset and chunk[0] == _BOM[0]:
            self._at_border = False  # the byte order mark is for `_read_lines` to take off
        if not self._at_border:
            border = _first_border(chunk)
            self._read_lines(chunk[:border], frames)
            chunk = chunk[border:]
        if self._at_border:
            chunk = self._read_blocks(chunk, frames)
        if chunk:
            self._read_lines(chunk, frames)

    def _read_blocks(self, chunk: bytes, frames: list[Frame]) -> bytes:
        """Take the whole events off the front of the chunk; return the rest, which is all of it where lines must do."""
        eol = _line_end(chunk)
        if not eol or len(chunk) > self._limit:
            return chunk
        blocks = chunk.split(eol + eol)
        rest = blocks.pop()
        self._offset += len(chunk) - len(rest)
        mark, head, event = eol + _DATA, self._head, self._head_event
        for block in blocks:
            if block.startswith(head) and block.find(eol, len(head)) < 0:
                frames.append(Frame(block[len(head) :], event))
                continue
            name, _, data = block.partition(mark)
            is_short = name.startswith(b"event: ") and len(name) <= _LONGEST_NAME_LINE
            if data and is_short and eol not in name and eol not in data:
                head, event = name + mark, name[7:].decode("utf-8", "replace")
                frames.append(Frame(data, event))
            elif block.startswith(_DATA) and eol not in block:
                head, event = _DATA, ""
                frames.append(Frame(block[len(_DATA) :]))
            else:
                for line in block.split(eol):
                    self._read_line(line, frames)
                self._dispatch(frames)
        self._head, self._head_event = head, event
        return rest

    def _read_lines(self, chunk: bytes, frames: list[Frame]) -> None:
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._offset += 1
        self._after_cr = chunk.endswith(b"\r")
        for line in chunk.splitlines(keepends=True):
            self._read_piece(line, frames)
        self._at_border = not (self._buffer or self._data or self._event or self._after_cr)

    def _read_piece(self, piece: bytes, frames: list[Frame]) -> None:
        """Read on in the current line; the piece may end it, and ends nothing else."""
        self._buffer += piece.rstrip(b"\r\n")
        if len(self._buffer) + len(self._data) + len(self._event) > self._limit:
            raise self._too_long("the event with the line that starts here", self._offset)
        if piece.endswith((b"\n", b"\r")):
            line = self._take()
            self._read_line(self._without_bom(line), frames)
            self._offset += len(line) + (2 if piece.endswith(b"\r\n") else 1)

    def _without_bom(self, line: bytes) -> bytes:
        return line if self._offset else line.removeprefix(_BOM)

    def _read_line(self, line: bytes, frames: list[Frame]) -> None:
        if not line:
            self._dispatch(frames)
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data += value.removeprefix(b" ")
            self._data += b"\n"
        elif field == b"event":
            self._event = value.removeprefix(b" ")

    def _dispatch(self, frames: list[Frame]) -> None:
        if self._data:
            del self._data[-1]
            frames.append(Frame(bytes(self._data), self._event.decode("utf-8", "replace")))
            self._data.clear()
        self._event = b""

    def _finish(self, frames: list[Frame]) -> None:
        self._read_line(self._without_bom(self._take()), frames)
        self._dispatch(frames)

    def _end(self) -> None:
        super()._end()
        self._data.clear()
        self._event = b""
        self._at_border = False


def _line_end(chunk: bytes) -> bytes:
    """The one line end used throughout the chunk, LF or CRLF; empty if it is another or they are mixed."""
    if _CR not in chunk:
        return b"\n"
    rest = chunk.replace(b"\r\n", b"")
    return b"" if _CR in rest or _LF in rest else b"\r\n"


def _first_border(chunk: bytes) -> int:
    """Where the first blank line ends and blocks can begin, or the end of the chunk."""
    for blank in (b"\n\n", b"\r\n\r\n"):
        at = chunk.find(blank)
        if at >= 0:
            return at + len(blank)
    return len(chunk)


def write_sse(data: bytes, event: str = "") -> bytes:
    """One event. A line break in the data starts a new `data` line and is read back as LF: no event can carry CR."""
    if _LF in data or _CR in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    if not event:
        return b"data: " + data + b"\n\n"
    if "\n" in event or "\r" in event:
        raise FormatError(f"the event name {event!r} has a line break, which would end its line")
    return b"event: " + event.encode() + b"\ndata: " + data + b"\n\n"
