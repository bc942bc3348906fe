"""The log of a stream, and snapshots of the message at any position.

A decoder appends to one list; nothing is joined or parsed until a snapshot is read. An entry is one of:

- `str`: a fragment for the current block;
- `int`: this content index becomes current;
- `(index, block, open)`: a block opened (as far as it is known) or closed (finished);
- `AssistantMessage`: the fields beside the content, from here on.

Partial arguments are JSON, parsed again at each event that is read. Beyond `_EXACT` characters they are parsed only
when they have grown by a sixteenth: the work stays proportional to the text, and the finished call is complete.
"""

from typing import Any

import jiter
from msgspec.structs import replace

from .messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall


class PartialLog(list[Any]):
    """The entries, and the latest snapshot: reading the partial of each event visits each entry once."""

    _latest: "_Snapshot | None" = None  # removed while it is advanced, so that threads do not share it

    def taken(self, at: int) -> "_Snapshot":
        """Removes and returns the latest snapshot if it is not beyond `at`; else a new one."""
        latest: _Snapshot | None = self.__dict__.pop("_latest", None)
        if latest is None:
            return _Snapshot()
        if latest.at <= at:
            return latest
        self.keep(latest)
        return _Snapshot()

    def keep(self, one: "_Snapshot") -> None:
        latest = self._latest
        if latest is None or latest.at < one.at:
            self._latest = one


def snapshot(log: PartialLog, at: int) -> AssistantMessage:
    """Returns the message after the first `at` entries of the log."""
    found = log.taken(at)
    message = found.advanced(log, at)
    log.keep(found)
    return message


class _Snapshot:
    """The message after some entries, and the state needed to continue from there."""

    __slots__ = ("_base", "_blocks", "_content", "_current", "_parsed", "_texts", "at")

    def __init__(self) -> None:
        self.at = 0
        self._base = AssistantMessage(content=())
        self._blocks: dict[int, Block] = {}  # as opened or closed, in index order
        self._content: dict[int, Block] = {}  # the same, with the text so far
        self._texts: dict[int, str] = {}  # of open blocks
        self._parsed: dict[int, int] = {}  # how much of the arguments of open calls is in the content
        self._current = 0

    def advanced(self, log: PartialLog, at: int) -> AssistantMessage:
        fresh: dict[int, list[str]] = {}
        current = self._current
        for entry in log[self.at : at]:
            kind = type(entry)
            if kind is str:
                fresh.setdefault(current, []).append(entry)
            elif kind is int:
                current = entry
            elif kind is tuple:
                index, block, is_open = entry
                if fresh.pop(index, None) is not None and index not in self._texts:
                    raise KeyError(index)
                self._put(index, block, is_open)
                current = index if is_open else current
            else:
                self._base = entry
        for index, pieces in fresh.items():
            text = self._texts[index] = self._texts[index] + "".join(pieces)
            self._append_text(index, text)
        self.at, self._current = at, current
        return replace(self._base, content=tuple(self._content.values()))

    def _append_text(self, index: int, text: str) -> None:
        block = self._blocks[index]
        if isinstance(block, ToolCall) and len(text) > _EXACT:
            size = _coarse(len(text))
            if self._parsed.get(index) == size:
                return
            self._parsed[index], text = size, text[:size]
        self._content[index] = extended(block, text)

    def _put(self, index: int, block: Block, is_open: bool) -> None:
        is_last = not self._blocks or index in self._blocks or index > next(reversed(self._blocks))
        self._blocks[index] = self._content[index] = block
        self._parsed.pop(index, None)
        if is_open:
            self._texts[index] = ""
        else:
            self._texts.pop(index, None)
        if not is_last:
            self._blocks = {key: self._blocks[key] for key in sorted(self._blocks)}
            self._content = {key: self._content[key] for key in self._blocks}


_EXACT = 16 * 1024  # characters of arguments that are parsed in full at each event


def _coarse(size: int) -> int:
    """Rounds the size down to its first five bits, so that snapshots do not depend on earlier reads."""
    return size >> (size.bit_length() - 5) << (size.bit_length() - 5)


def extended(block: Block, text: str) -> Block:
    """Returns an open block with the text so far; arguments as far as they can be parsed."""
    if isinstance(block, TextBlock):
        return replace(block, text=block.text + text)
    if isinstance(block, ThinkingBlock):
        return replace(block, thinking=block.thinking + text)
    if isinstance(block, ToolCall) and text:
        return replace(block, arguments=partial_arguments(text))
    return block


def partial_arguments(text: str) -> dict[str, Any]:
    """Parses an unfinished JSON text as an object; `{}` if that fails."""
    value = partial_value(text)
    return value if isinstance(value, dict) else {}


def partial_value(text: str) -> Any:
    """Parses an unfinished JSON text; None if that fails."""
    try:
        return jiter.from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings", cache_mode="none")
    except ValueError:
        return None
