"""Fast path for stream frames that only repeat the previous one with another piece of text.

Most frames of a response are of this kind. On the same wire they are forwarded as bytes, and only the ledger and the
recording need their content: their texts are joined, and decoded as one frame when another kind arrives.
"""

import re
from functools import lru_cache
from operator import itemgetter
from typing import Any

from ..dialects.framing import Frame
from ..values.events import StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta

# Characters of a JSON string that mean themselves, and escapes that do not depend on what follows.
_PIECE = re.compile(rb'[ !#-\[\]-~]*+(?:\\["\\/bfnrt][ !#-\[\]-~]*+)*+')
_PLAIN = re.compile(rb"[ !#-\[\]-~]+")
_VALUE = re.compile(rb'\d{1,15}|"[ !#-\[\]-~]*"')
# The same for many, with line breaks between them, which none of them has.
_MANY = {one: re.compile(rb"(?:(?:%b)\n)*+" % one.pattern) for one in (_PIECE, _VALUE)}
_TRIES = 8  # consecutive frames that are checked one by one; if none repeats, the rest is decoded together
_RUNS = 4  # runs of frames in one piece of a stream that are checked together
_RUN = 4  # frames at least


class FrameDecoder:
    """Decodes whole frames of a stream, deferring those of this kind.

    `varying` are keys whose values (numbers or plain texts) may differ from frame to frame: of deferred frames, the
    last ones are decoded.
    """

    __slots__ = (
        "_between", "_border", "_decoder", "_envelope", "_first", "_framing", "_pieces", "_rest", "_text_at", "_values",
        "_varying",
    )  # fmt: skip

    def __init__(self, framing: Any, decoder: Any, *, varying: tuple[str, ...] = (), border: bytes = b"\n\n") -> None:
        self._framing = framing
        self._decoder = decoder
        self._varying = _finder(varying)
        self._border = border
        # The last decoded frame, split at its text and its varying values; empty if it had other content.
        self._first = b""
        self._rest: list[tuple[re.Pattern[bytes], bytes]] = []
        self._between = b""  # from the last value of such a frame to the first one of the next
        self._values: list[bytes] = []  # of the last deferred frame
        self._text_at = 0
        self._pieces: list[bytes] = []
        self._envelope: Frame | None = None  # if frames have one beside their data

    def feed(self, data: bytes) -> tuple[list[StreamEvent], bool]:
        """Returns the events of these frames and of deferred ones before them; and whether text was deferred."""
        events: list[StreamEvent] = []
        at, end, was_left, tries, runs = 0, len(data), False, _TRIES, _RUNS
        while at < end:
            if self._first and runs and data.startswith(self._first, at):
                at, runs = self._all_but_last(data, at), runs - 1
            if self._first and (following := self._repeats(data, at)):
                at, was_left, tries = following, True, _TRIES
                continue
            if self._pieces:
                events += self.flush()
            tries -= 1
            size = self._size(data, at) if tries else 0
            frame = data[at : at + size] if size else data[at:]
            at += len(frame)
            decoded = self._decoded(frame)
            self._first = b""
            if size and len(decoded) == 1:
                self._learn(frame, decoded[0])
            events += decoded
        return events, was_left

    def feed_frames(self, frames: list[Frame]) -> tuple[list[StreamEvent], bool]:
        """The same for frames that have an envelope beside their data."""
        events: list[StreamEvent] = []
        was_left = False
        for frame in frames:
            data, last = frame.data, self._envelope
            alike = self._first and last is not None and last.event == frame.event and last.headers == frame.headers
            if alike and self._repeats(data, 0, whole=True):
                was_left = True
                continue
            if self._pieces:
                events += self.flush()
            decoded = self._decoder.feed(frame)
            self._first, self._envelope = b"", frame
            if len(decoded) == 1:
                self._learn(data, decoded[0])
            events += decoded
        return events, was_left

    def flush(self) -> list[StreamEvent]:
        """Returns the event of the deferred text."""
        pieces, self._pieces = self._pieces, []
        first, self._first = self._first, b""
        if not pieces:
            return []
        self._values[self._text_at] = b"".join(pieces)
        parts = [first]
        for value, (_, literal) in zip(self._values, self._rest, strict=True):
            parts += (value, literal)
        if self._envelope is not None:
            whole = Frame(b"".join(parts), self._envelope.event, self._envelope.headers)
            return list(self._decoder.feed(whole))
        return self._decoded(b"".join(parts))

    def _repeats(self, data: bytes, at: int, *, whole: bool = False) -> int:
        """Returns where the frame ends that begins here, and defers its text; 0 if it is of another kind."""
        if not data.startswith(self._first, at):
            return 0
        start, values = at + len(self._first), []
        for pattern, literal in self._rest:
            stop = data.find(literal, start)
            if stop < 0 or not pattern.fullmatch(data, start, stop):
                return 0
            values.append(data[start:stop])
            start = stop + len(literal)
        if whole and start < len(data):
            return 0
        self._values = values
        self._pieces.append(values[self._text_at])
        return start

    def _all_but_last(self, data: bytes, at: int) -> int:
        """Defers the frames of a run that begins here, without the last one; returns where that begins."""
        rest = data[at + len(self._first) :].split(self._between)
        last = rest.pop()
        if len(rest) < _RUN:
            return at
        columns = []
        for _, literal in self._rest[:-1]:
            cells = [value.partition(literal) for value in rest]
            columns.append([value for value, _, _ in cells])
            rest = [value for _, found, value in cells if found]
            if len(rest) < len(cells):
                return at
        columns.append(rest)
        for (pattern, _), column in zip(self._rest, columns, strict=True):
            text = b"\n".join((*column, b""))
            if text.count(b"\n") > len(column) or not _MANY[pattern].fullmatch(text):
                return at
        self._values = [column[-1] for column in columns]
        self._pieces += columns[self._text_at]
        return len(data) - len(last) - len(self._first)

    def _size(self, data: bytes, at: int) -> int:
        """Returns the length of the frame that begins here; 0 if it does not end in the usual way."""
        border = data.find(self._border, at)
        if border < 0 and self._border == b"\n\n" and (border := data.find(b"\r\n\r\n", at)) >= 0:
            self._border = b"\r\n\r\n"
        return border + len(self._border) - at if border >= 0 else 0

    def _decoded(self, data: bytes) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for frame in self._framing.feed(data):
            events += self._decoder.feed(frame)
        return events

    def _learn(self, frame: bytes, event: StreamEvent) -> None:
        """Uses a frame that has only a piece of text as the pattern of the next ones."""
        # Only deltas may be joined: any other event would be missing in between.
        if not isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
            return
        text = event.delta.encode()
        before, mark, after = frame.partition(b'"%b"' % text)
        # A text that occurs twice in the frame is ambiguous.
        if not mark or mark in after or not _PLAIN.fullmatch(text):
            return
        start = len(before) + 1
        spans = [(start, start + len(text), _PIECE)]
        if self._varying is not None:
            spans += [(*found.span(1), _VALUE) for found in self._varying.finditer(frame)]
            spans.sort(key=itemgetter(0))
        ends = [*(span[0] for span in spans[1:]), len(frame)]
        rest = [(pattern, frame[stop:end]) for (_, stop, pattern), end in zip(spans, ends, strict=True)]
        if all(literal for _, literal in rest):
            self._first, self._rest = frame[: spans[0][0]], rest
            self._between = rest[-1][1] + self._first
            self._text_at = [span[0] for span in spans].index(start)


@lru_cache(maxsize=32)
def _finder(keys: tuple[str, ...]) -> re.Pattern[bytes] | None:
    """Finds the values of these keys. The quotes of a key in a text have backslashes."""
    names = b"|".join(re.escape(key.encode()) for key in keys)
    return re.compile(rb'"(?:%b)"[ ]?:[ ]?(%b)' % (names, _VALUE.pattern)) if keys else None
