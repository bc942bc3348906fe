"""JSON bodies: one document, an array that is streamed element by element, or a document a line (NDJSON).

Google's streamGenerateContent sends an array unless `alt=sse` is asked for; error bodies and answers that are not
streamed are single documents. Ollama streams NDJSON.

Strategy for arrays: only brackets outside strings matter. Regular expressions jump from one such byte to the next, and
no byte is scanned again when more arrive. Each pattern matches everywhere, if only the empty string, and in one way
only, so the engine goes back at most once, over a string that has no end yet.
"""

import re
from collections.abc import Callable
from typing import ClassVar, TypeAlias

from ._frame import DEFAULT_LIMIT, Frame, Framing

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
_LF = 10


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
    return data.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
