"""Fast path for stream frames that only repeat the previous one with another piece of text.

Most frames of a response are of this kind. On the same wire they are forwarded as bytes, and only the ledger and the
recording need their content: their texts are joined, and decoded as one frame when another kind arrives.
"""

import re
from typing import Any

from ..values.events import StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta

# Characters of a JSON string that mean themselves, and escapes that do not depend on what follows.
_PIECE = re.compile(rb'(?:[ !#-\[\]-~]|\\["\\/bfnrt])*')
_PLAIN = re.compile(rb"[ !#-\[\]-~]+")
_TRIES = 8  # consecutive frames that are checked one by one; if none repeats, the rest is decoded together


class FrameDecoder:
    """Decodes whole frames of a stream, deferring those of this kind."""

    __slots__ = ("_after", "_before", "_decoder", "_framing", "_pieces")

    def __init__(self, framing: Any, decoder: Any) -> None:
        self._framing = framing
        self._decoder = decoder
        self._before = b""  # the bytes before the text in the last decoded frame; empty if it had other content
        self._after = b""
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> tuple[list[StreamEvent], bool]:
        """Returns the events of these frames and of deferred ones before them; and whether text was deferred."""
        events: list[StreamEvent] = []
        at, end, was_left, tries = 0, len(data), False, _TRIES
        while at < end:
            before = self._before
            if before and data.startswith(before, at):
                start = at + len(before)
                stop = data.find(self._after, start)
                if stop >= 0 and _PIECE.fullmatch(data, start, stop):
                    self._pieces.append(data[start:stop])
                    at, was_left, tries = stop + len(self._after), True, _TRIES
                    continue
            if self._pieces:
                events += self.flush()
            tries -= 1
            border = data.find(b"\n\n", at) + 2
            frame = data[at:border] if border > 1 and tries else data[at:]
            at += len(frame)
            self._before = b""
            decoded = self._decoded(frame)
            if len(decoded) == 1:
                self._learn(frame, decoded[0])
            events += decoded
        return events, was_left

    def flush(self) -> list[StreamEvent]:
        """Returns the event of the deferred text."""
        pieces, self._pieces = self._pieces, []
        before, self._before = self._before, b""
        return self._decoded(before + b"".join(pieces) + self._after) if pieces else []

    def _decoded(self, data: bytes) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for frame in self._framing.feed(data):
            events += self._decoder.feed(frame)
        return events

    def _learn(self, frame: bytes, event: StreamEvent) -> None:
        """Uses a frame that has only a piece of text as the pattern of the next ones."""
        if not isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
            return
        text = event.delta.encode()
        before, mark, after = frame.partition(b'"%b"' % text)
        # A text that occurs twice in the frame is ambiguous.
        if mark and _PLAIN.fullmatch(text) and mark not in after and frame.find(b"\n\n") == len(frame) - 2:
            self._before, self._after = before + b'"', b'"' + after
