"""What every framing shares: the frame, the size limit, and how a stream fails."""

import abc
from typing import Any, ClassVar

from msgspec import Struct

from ...values.errors import BadWire

DEFAULT_LIMIT = 64 * 1024 * 1024


class Frame(Struct, frozen=True, gc=False):
    """One unit of a stream: a payload, and whatever name its envelope gave it.

    `data` stays bytes because the dialects decode JSON from bytes. `event` is empty where the wire has no such thing.
    `headers` is only there for AWS frames. Nothing in a frame can point back at it, so the collector need not look.
    """

    data: bytes
    event: str = ""
    headers: dict[str, Any] | None = None


class Framing(abc.ABC):
    """Bytes in, frames out, however the bytes are cut.

    A framing ends once: at `close()`, or when the peer broke the format and `BadWire` was raised. From then on `feed`
    and `close` give nothing. Frames that were whole before the fault are never lost to it: when both lie in one chunk,
    `feed` returns the frames and the next call raises, so the outcome does not depend on how the bytes were cut.

    Subclasses keep unfinished bytes in `_buffer`, `_offset` up to date for error messages, and no more than the limit
    and one chunk in memory.
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
        """The frames that only the end of the stream completes; `BadWire` if it must not end here."""
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
