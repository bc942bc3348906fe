"""Frames of a stream that need no decoding of their own: they repeat the one before with another piece of text.

Most frames of an answer are of this kind. On the same wire they pass as bytes, and only the ledger and the record want
their content: their texts are joined, and decoded as one frame when something else comes.
"""

import re
from typing import Any

from ..values.events import StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta

# Characters of a JSON string that mean themselves, and escapes that do not depend on what follows.
_PIECE = re.compile(rb'(?:[ !#-\[\]-~]|\\["\\/bfnrt])*')
_PLAIN = re.compile(rb"[ !#-\[\]-~]+")


class Skimmer:
    """Decodes whole frames of a stream, those of this kind late."""

    __slots__ = ("_after", "_before", "_decoder", "_framing", "_pieces")

    def __init__(self, framing: Any, decoder: Any) -> None:
        self._framing = framing
        self._decoder = decoder
        self._before = b""  # the text, in a frame that was decoded; empty where the last one brought something else
        self._after = b""
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> tuple[list[StreamEvent], bool]:
        """The events of these frames and of those that were left before them; and whether text was left for later."""
        before, after, at = self._before, self._after, 0
        while before and data.startswith(before, at):
            start = at + len(before)
            end = data.find(after, start)
            if end < 0 or not _PIECE.fullmatch(data, start, end):
                break
            self._pieces.append(data[start:end])
            at = end + len(after)
        if at == len(data):
            return [], at > 0
        data = data[at:]
        if self._pieces:
            return self.flush() + self._decoded(data), at > 0
        self._before = b""
        events = self._decoded(data)
        if len(events) == 1:
            self._learn(data, events[0])
        return events, False

    def flush(self) -> list[StreamEvent]:
        """The events of what was left: one, for all of its text."""
        pieces, self._pieces = self._pieces, []
        before, self._before = self._before, b""
        return self._decoded(before + b"".join(pieces) + self._after) if pieces else []

    def _decoded(self, data: bytes) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for frame in self._framing.feed(data):
            events += self._decoder.feed(frame)
        return events

    def _learn(self, frame: bytes, event: StreamEvent) -> None:
        """Takes a frame that brought a piece of text and nothing else as the pattern of those to come."""
        if not isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
            return
        text = event.delta.encode()
        before, mark, after = frame.partition(b'"%b"' % text)
        # One frame; and where the text stands in it twice, it is not known which of the two it is.
        if mark and _PLAIN.fullmatch(text) and mark not in after and frame.find(b"\n\n") == len(frame) - 2:
            self._before, self._after = before + b'"', b'"' + after
