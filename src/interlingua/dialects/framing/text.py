"""The frame, the base class of the framings, and the framings of text: server-sent events and JSON documents.

`framing_for` selects the framing of a body by its content type, `actual_type` by its first bytes if they contradict it.
"""

import abc
import functools
import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias, TypeVar

from msgspec import Struct

from ...values import jsontext
from ...values.errors import BadWire, FormatError

DEFAULT_LIMIT = 64 * 1024 * 1024


class Frame(Struct, frozen=True, gc=False):
    """One unit of a stream: a payload, and the name that its envelope has.

    `data` is bytes because the dialects decode JSON from bytes. `event` is empty if the wire has no event names.
    Only AWS frames have `headers`. A frame cannot be part of a reference cycle, hence `gc=False`.
    """

    data: bytes
    event: str = ""
    headers: dict[str, Any] | None = None


class Framing(abc.ABC):
    """Bytes in, frames out, independent of chunk boundaries.

    A framing ends once: at `close()`, or when malformed input raised `BadWire`. After that `feed` and `close` return
    nothing. Complete frames before the error are not lost: if both are in one chunk, `feed` returns the frames and the
    next call raises.

    Subclasses keep unfinished bytes in `_buffer`, maintain `_offset` for error messages, and hold no more than the
    limit and one chunk in memory.
    """

    name: ClassVar[str]

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._offset = 0
        self._ended = False
        self._fault: BadWire | None = None

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that this chunk completes."""
        if self._ended or not chunk:
            return self._afterwards()
        frames: list[Frame] = []
        try:
            self._read(chunk, frames)
        except BadWire as fault:
            self._end()
            if not frames:
                raise
            self._fault = fault
        return frames

    def close(self) -> list[Frame]:
        """The frames that the end of the stream completes; `BadWire` if the stream is incomplete."""
        if self._ended:
            return self._afterwards()
        frames: list[Frame] = []
        try:
            self._finish(frames)
        finally:
            self._end()
        return frames

    @abc.abstractmethod
    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        """Add the frames that this chunk completes."""

    @abc.abstractmethod
    def _finish(self, frames: list[Frame]) -> None:
        """Either add the last frame or raise, never both."""

    def _take(self) -> bytes:
        """Returns the buffered bytes and clears the buffer."""
        whole = bytes(self._buffer)
        self._buffer.clear()
        return whole

    def _end(self) -> None:
        self._ended = True
        self._buffer.clear()

    def _afterwards(self) -> list[Frame]:
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        return []

    def _broken(self, message: str, offset: int) -> BadWire:
        return BadWire(self.name, f"byte {offset}: {message}")

    def _too_long(self, what: str, offset: int) -> BadWire:
        return self._broken(
            f"{what} is longer than the limit of {self._limit} bytes; "
            f"pass a larger limit to {type(self).__name__} if the peer really sends this",
            offset,
        )


# --- server-sent events ----------------------------------------------------------------------------------------------
#
# Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html (sections 9.2.5 and 9.2.6).
#
# The whole specification, with one departure: an event that the end of the stream cuts off before its blank line is
# dispatched, not discarded, because providers do end that way. `id` and `retry` are for reconnection and are ignored.
#
# Strategy: exact parsing goes line by line and is slow. Nearly all traffic is whole events of one or two lines. While
# nothing is pending at an event border, the blocks between blank lines are sliced out of the chunk directly, and only a
# block of another shape is taken apart into lines. Events of one name come in runs, so the bytes before the data of the
# last one, its head, are remembered: most often one comparison then gives the shape and the name of the next.

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
            line, _, data = block.partition(mark)
            name = _event_name(line) if data and len(line) <= _LONGEST_NAME_LINE else None
            if name is not None and eol not in data:
                head, event = line + mark, name
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
        # A CRLF that two chunks divide is one line end.
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
        # 9.2.6: one space after the colon is not part of the value.
        if field == b"data":
            self._data += value.removeprefix(b" ")
            self._data += b"\n"
        elif field == b"event":
            self._event = value.removeprefix(b" ")

    def _dispatch(self, frames: list[Frame]) -> None:
        # 9.2.6: several data lines are one value with line feeds between them; an event without data is not dispatched.
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


@functools.lru_cache(maxsize=256)  # a wire has a few names
def _event_name(line: bytes) -> str | None:
    """The name in the `event` line of an event; None for anything else."""
    is_line = line.startswith(b"event: ") and _LF not in line and _CR not in line
    return line[7:].decode("utf-8", "replace") if is_line else None


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


# --- JSON documents --------------------------------------------------------------------------------------------------
#
# JSON bodies: one document, an array that is streamed element by element, or a document a line (NDJSON).
#
# Google's streamGenerateContent sends an array unless `alt=sse` is asked for; error bodies and answers that are not
# streamed are single documents. Ollama streams NDJSON.
#
# Strategy for arrays: only brackets outside strings matter. Regular expressions jump from one such byte to the next. No
# byte is scanned again when more arrive. Each pattern matches everywhere, if only the empty string, and in one way
# only, so the engine goes back at most once, over a string that has no end yet.

_PADDING = re.compile(rb"[ \t\r\n]*")
_SEPARATORS = re.compile(rb"[ \t\r\n,]*")
_REST_OF_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_TO_BRACKET = re.compile(rb'[^"\[\]{}]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"\[\]{}]*)*', re.DOTALL)

_OPENING, _CLOSING = b"[{", b"]}"

# The regex engine stores each repetition of a group until the match ends; a window bounds that memory.
_WINDOW = 64 * 1024


# Reads from a position in the window; returns the position after it.
_State: TypeAlias = "Callable[[JSONArray, bytes, int, list[Frame]], int]"


class JSONArray(Framing):
    """Reads one JSON document: a frame for each object or array in a top-level array, otherwise one frame for it all.

    Padding before the document is not buffered. Boundaries are found by depth alone; the JSON decoder checks that
    brackets match and commas are in place. A body that is neither object nor array, such as the plain text of a proxy,
    is one frame at the end. The limit is for one frame.
    """

    name: ClassVar[str] = "json"

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        super().__init__(limit)
        self._state: _State = JSONArray._before_document
        self._after_frame: _State = JSONArray._after_document
        self._open = False
        self._opened_at = 0  # offset in the stream
        self._begin = 0  # start of the open frame in this window
        self._depth = 0
        self._escaped = False

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        for start in range(0, len(chunk), _WINDOW):
            self._read_window(chunk[start : start + _WINDOW], frames)

    def _read_window(self, window: bytes, frames: list[Frame]) -> None:
        at = self._begin = 0
        while at < len(window):
            at = self._state(self, window, at, frames)
        if self._open:
            self._buffer += window[self._begin :]
            self._check_length(len(self._buffer))
        self._offset += len(window)

    def _before_document(self, window: bytes, at: int, frames: list[Frame]) -> int:
        at = _end(_PADDING, window, at)
        if at == len(window):
            return at
        if window.startswith(b"[", at):
            self._state = self._after_frame = JSONArray._between_elements
            return at + 1
        return self._open_frame(at, JSONArray._in_value if window.startswith(b"{", at) else JSONArray._in_text)

    def _between_elements(self, window: bytes, at: int, frames: list[Frame]) -> int:
        at = _end(_SEPARATORS, window, at)
        if at == len(window):
            return at
        if window.startswith(b"]", at):
            self._state = JSONArray._after_document
            return at + 1
        if window.startswith((b"{", b"["), at):
            return self._open_frame(at, JSONArray._in_value)
        raise self._broken("expected an object in the array, or its end", self._offset + at)

    def _open_frame(self, at: int, state: _State) -> int:
        self._state = state
        self._open = True
        self._opened_at = self._offset + at
        self._begin = at
        return at

    def _in_value(self, window: bytes, at: int, frames: list[Frame]) -> int:
        at = _end(_TO_BRACKET, window, at)
        while at < len(window):
            byte = window[at]
            if byte in _OPENING:
                self._depth += 1
            elif byte in _CLOSING:
                self._depth -= 1
                if not self._depth:
                    self._close_frame(window, at + 1, frames)
                    return at + 1
            else:
                self._state = JSONArray._in_string
                return at + 1
            at = _end(_TO_BRACKET, window, at + 1)
        return at

    def _in_string(self, window: bytes, at: int, frames: list[Frame]) -> int:
        """Only for a string that a window cut; complete strings are skipped at once."""
        at = _end(_REST_OF_STRING, window, at + self._escaped)
        self._escaped = window.startswith(b"\\", at)
        if window.startswith(b'"', at):
            self._state = JSONArray._in_value
        return at + 1 if at < len(window) else at

    def _in_text(self, window: bytes, at: int, frames: list[Frame]) -> int:
        return len(window)

    def _after_document(self, window: bytes, at: int, frames: list[Frame]) -> int:
        at = _end(_PADDING, window, at)
        if at < len(window):
            raise self._broken("the document has ended, but more follows", self._offset + at)
        return at

    def _close_frame(self, window: bytes, end: int, frames: list[Frame]) -> None:
        data = window[self._begin : end]
        if self._buffer:
            self._buffer += data
            data = self._take()
        self._check_length(len(data))
        frames.append(Frame(data))
        self._open = False
        self._state = self._after_frame

    def _check_length(self, length: int) -> None:
        if length > self._limit:
            raise self._too_long("the document or element that starts here", self._opened_at)

    def _finish(self, frames: list[Frame]) -> None:
        if self._state is JSONArray._in_text:
            frames.append(Frame(self._take().rstrip()))
        elif self._open:
            raise self._broken(f"the stream ends inside the value that starts at byte {self._opened_at}", self._offset)
        elif self._state is JSONArray._between_elements:
            raise self._broken("the stream ends before the array does", self._offset)


class JSONDocuments(JSONArray):
    """The same for a body with several documents: JSON lines under any content type.

    The limit is that of a whole answer, which may contain images.
    """

    def __init__(self, limit: int = 4 * DEFAULT_LIMIT) -> None:
        super().__init__(limit)
        self._after_frame = JSONArray._before_document


def _end(pattern: re.Pattern[bytes], window: bytes, at: int) -> int:
    """Where the pattern stops; each of ours matches everywhere."""
    found = pattern.match(window, at)
    return found.end() if found else at


# --- newline-delimited JSON ------------------------------------------------------------------------------------------

_WHITESPACE = b" \t\r\n"


class NDJSON(Framing):
    """Reads lines that end in LF or CRLF; blank ones are skipped, and the last needs no line end.

    The limit is for one line, a CR at its end included.
    """

    name: ClassVar[str] = "ndjson"

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        if chunk[0] == _LF and not self._buffer and not chunk.strip(b"\n"):
            self._offset += len(chunk)  # only blank lines, possibly millions
            return
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._end_line(line, frames)
        self._buffer += rest
        self._check_length(len(self._buffer))

    def _end_line(self, line: bytes, frames: list[Frame]) -> None:
        if self._buffer:
            self._buffer += line
            line = self._take()
        self._check_length(len(line))
        self._offset += len(line) + 1
        self._emit(line, frames)

    def _emit(self, line: bytes, frames: list[Frame]) -> None:
        document = line.strip(_WHITESPACE)
        if document:
            frames.append(Frame(document))

    def _check_length(self, length: int) -> None:
        if length > self._limit:
            raise self._too_long("the line that starts here", self._offset)

    def _finish(self, frames: list[Frame]) -> None:
        self._emit(self._take(), frames)


def write_ndjson(data: bytes) -> bytes:
    """One line. Line breaks between JSON tokens are insignificant and become spaces."""
    return one_line(data).replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


def json_line(value: Any) -> bytes:
    """Returns a value as JSON that any reader of lines takes for one line."""
    return one_line(jsontext.write(value))


def one_line(document: bytes) -> bytes:
    """Escapes the characters of a JSON document that only some readers take for line breaks, such as `iter_lines` of
    httpx, with which several vendors' packages read streams. Go and protobuf escape U+2028 and U+2029, too.
    """
    if not document.isascii():
        for character, escaped in _ODD_BREAKS:
            document = document.replace(character, escaped)
    return document


# NEL, LINE SEPARATOR and PARAGRAPH SEPARATOR. UTF-8 has these bytes for no other character.
_ODD_BREAKS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


# --- which framing ---------------------------------------------------------------------------------------------------

EVENTS, JSON, AWS = "text/event-stream", "application/json", "application/vnd.amazon.eventstream"
PAGE = "text/html"

Usual = TypeVar("Usual")

_BLANK = b"\xef\xbb\xbf \t\r\n"  # a byte order mark, and the padding that proxies send to keep a connection alive
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")  # fields of server-sent events
_TEXT = 9  # text starts with no lower byte; the length of an AWS frame does, up to 150 MB


@functools.lru_cache(maxsize=256)  # a host has few
def essence(content_type: str | None) -> str:
    """A content type without its parameters."""
    return (content_type or "").partition(";")[0].strip().lower()


@functools.lru_cache(maxsize=256)
def is_json(content_type: str | None) -> bool:
    """Whether a content type is one of those for JSON, one document or several."""
    return "json" in essence(content_type)


def framing_for(content_type: str | None, usual: Callable[[], Usual]) -> Usual | Framing:
    """The framing for a content type: JSON, server-sent events, or `usual` for any other."""
    if is_json(content_type):
        return JSONDocuments()
    return SSE() if essence(content_type) == EVENTS else usual()


def sse_framing(content_type: str | None = None) -> Framing:
    """`framing` of a codec whose streams are server-sent events; a host that does not stream sends JSON."""
    return framing_for(content_type, SSE)


def ndjson_framing(content_type: str | None = None) -> Framing:
    """The same of one whose streams are lines of JSON, which servers also label `application/json`."""
    return NDJSON() if content_type is not None and "ndjson" in content_type else framing_for(content_type, NDJSON)


def actual_type(head: bytes, declared: str) -> str | None:
    """The content type of a body with these first bytes; `declared` if they do not contradict it.

    None if more bytes are needed. Servers and proxies label streams `application/json`, and whole answers as streams.
    """
    text = head.lstrip(_BLANK)
    if not text:
        return None
    if head[0] < _TEXT:
        return AWS
    if text[:1] in (b"{", b"["):
        return declared if is_json(declared) else JSON
    if text[:1] == b"<":
        return PAGE
    if text.startswith(_FIELDS):
        return EVENTS
    return None if any(field.startswith(text) for field in _FIELDS) else declared
