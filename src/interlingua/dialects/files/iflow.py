"""iFlow CLI: the lines of a session, Claude Code's fields with other rules.

Lines of one answer share their parent, each with a `message.id` of its own, and repeat calls of the line before; a call
counts once. The results of a turn name the last line of an answer as their parent, and one may stand before its call.
Results hold a `functionResponse` of Google's wire. So the order of the lines is that of the conversation.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.compact import IdMap
from ...values.errors import BadWire
from ...values.messages import Block, Message, ToolCall, ToolResultMessage
from ..codec import ANSWER
from ..residual import optional
from .line_sessions import ReadAgain, Reader, Record, RowReader, line_format
from .program_content import a_result, content_of, first, inner, items, moment, user
from .records import IFLOW

API = "iflow"


class _Lines:
    """The lines of a session. Each method returns the messages that are complete."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []  # of the answer that is being written
        self._about: dict[str, Any] = {}
        self._names = IdMap()  # of the calls of all answers
        self._early: dict[str, ToolResultMessage] = {}  # results whose calls have not come

    def feed(self, line: Record) -> Iterator[Message]:
        wire, when = line.get("message"), moment(line.get("timestamp"))
        content = inner(wire, "content")
        if line.get("type") == "assistant":
            yield from self._answer(content_of(content), optional(inner(wire, "model")), when)
        elif line.get("type") == "user":
            parts = content if isinstance(content, list) else [content]
            results = [part for part in items(parts) if part.get("type") == "tool_result"]
            for part in results:
                yield from self._result(part, when)
            rest = [part for part in parts if part not in results]
            if rest:
                yield from self._finish()
                yield user(content if isinstance(content, str) else content_of(rest), when)

    def _answer(self, content: Any, model: str | None, when: int | None) -> Iterator[Message]:
        if any(isinstance(block, ToolCall) and block.id in self._early for block in self._blocks):
            yield from self._finish()
        blocks: Any = content_of([content]) if isinstance(content, str) else content
        for block in blocks or ():
            if isinstance(block, ToolCall):
                if block.id in self._names:
                    continue
                self._names[block.id] = block.name
            elif block in self._blocks:
                continue
            self._blocks.append(block)
            self._about = self._about or {"model": model, "timestamp": when}

    def _result(self, part: dict[str, Any], when: int | None) -> Iterator[Message]:
        id = optional(part.get("tool_use_id")) or ""
        given = part.get("content")
        response = inner(given, "responseParts", "functionResponse", "response")
        if isinstance(response, dict):
            given = first(response, "output", "error") or response
        failed = part.get("is_error") is True
        result = a_result(id, given, name=self._names.get(id), failed=failed, when=when)
        if id not in self._names:
            self._early[id] = result
            return
        yield from self._finish()
        yield result

    def _finish(self) -> Iterator[Message]:
        """The answer, and the results of its calls that have come before it."""
        if not self._blocks:
            return
        yield replace(ANSWER, extra={}, content=tuple(self._blocks), **self._about)
        for block in self._blocks:
            if isinstance(block, ToolCall) and block.id in self._early:
                early = self._early.pop(block.id)
                yield a_result(block.id, early.content, name=block.name, when=early.timestamp)
        self._blocks, self._about = [], {}

    def end(self) -> Iterator[Message]:
        """The last answer, and the results whose calls are in no line."""
        yield from self._finish()
        yield from self._early.values()


class _Reader(RowReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        session = _Lines()
        for line in records:
            yield from session.feed(line)
        yield from session.end()


def _reader(lines: ReadAgain) -> Reader:
    if not any(line.get("type") in ("user", "assistant") and "message" in line for line in lines()):
        raise BadWire(API, "expected lines of type `user` and `assistant` with a `message`")
    return _Reader()


def detect(value: Any) -> str | None:
    """Lines of Claude Code's fields whose session has an id of this program."""
    lines = items(value if isinstance(value, list) else [value])[:50]
    named = any(IFLOW.fullmatch(str(line.get("sessionId"))) and isinstance(line.get("message"), dict) for line in lines)
    return "lines with a `message` and a `sessionId` of iFlow" if named else None


FORMAT = line_format(API, _reader, detect=detect, rank=40)
