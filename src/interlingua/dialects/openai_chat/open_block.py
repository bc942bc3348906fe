"""The block of a streamed answer that opened last."""

from collections.abc import Callable

from ...values.folding import Recorder
from ...values.messages import Block

# Blocks of these fields may go on beside others: calls of both kinds, and audio.
_SIDE_BY_SIDE = ("tool_calls", "function_call", "audio")


class OpenBlock:
    """Its key (the number of blocks before it) and its track: the field of the message that it grows in."""

    __slots__ = ("_finish", "_record", "key", "track")

    def __init__(self, record: Recorder, finish: Callable[[int, str], Block]) -> None:
        self._record = record
        self._finish = finish
        self.key = -1
        self.track = ""

    def begin(self, track: str) -> int:
        """Ends the block unless it may go on beside others, and gives the key of the next."""
        self.settle()
        self.key += 1
        self.track = track
        return self.key

    def settle(self) -> None:
        if self.track and self.track not in _SIDE_BY_SIDE and self._record.is_open(self.key):
            self._record.close(self.key, self._finish(self.key, self.track))

    def leave(self) -> None:
        """Ends the block: more of its field is another block."""
        self.settle()
        self.track = ""
