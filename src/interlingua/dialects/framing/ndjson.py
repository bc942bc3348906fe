"""Newline-delimited JSON: one document per line, as Ollama streams it."""

from typing import ClassVar

from interlingua.dialects.framing._frame import Frame, Framing

_WHITESPACE = b" \t\r\n"
_LF = 10


class NDJSON(Framing):
    """Reads lines that end in LF or CRLF; blank ones are skipped, and the last needs no line end.

    The limit is for one line, a CR at its end included.
    """

    name: ClassVar[str] = "ndjson"

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        if chunk[0] == _LF and not self._buffer and not chunk.strip(b"\n"):
            self._offset += len(chunk)  # nothing but blank lines, of which there may be millions
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
    """One line. Line breaks between the tokens of a JSON document mean nothing, so they become spaces."""
    return data.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
