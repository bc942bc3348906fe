"""The frame, and the base class of the framings: size limit and error handling."""

import abc
from typing import Any, ClassVar

from msgspec import Struct

from ...values.errors import BadWire

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
