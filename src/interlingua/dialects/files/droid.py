"""Sessions of Factory's Droid, and the output of `droid exec --output-format stream-json`.

A session is a `session_start` line, then lines of type `message` in Anthropic's blocks.

Reminders that the program puts into a message of the user (`<system-reminder>`) are blocks of their own, and are read
as the program's. `compaction_state` has the summary from which a long session continues.

The output has lines `system`, `message` (a `role` with `text`), `tool_call`, `tool_result` and `completion`, whose
`finalText` repeats the last answer (docs.factory.ai, "Droid Exec").
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from ...values.messages import AssistantMessage, Message, TextBlock, blocks_of
from ..codec import ANSWER
from ..residual import optional
from .line_readers import LineReader
from .line_sessions import ReadAgain, Reader, Record, RowReader, TreeReader, line_format
from .program_content import (
    a_result,
    content_of,
    first,
    inner,
    items,
    moment,
    usage_of,
    user,
    user_messages,
)
from .reading import Pairing, kept_record

API = "droid"
OUTPUT = "lines of `droid exec`"
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "read": "cache_read_input_tokens",
    "write": "cache_creation_input_tokens",
}


def _is_reminder(item: Any) -> bool:
    text = inner(item, "text")
    return isinstance(text, str) and text.lstrip().startswith("<system-reminder>")


def _title(line: dict[str, Any]) -> str | None:
    return optional(first(line, "sessionTitle", "title")) if line.get("type") == "session_start" else None


def _summary(line: dict[str, Any]) -> list[Message]:
    """The summary that a compaction put in the place of what came before."""
    summary = optional(first(line, "summaryText", "summary")) if line.get("type") == "compaction_state" else None
    return [] if summary is None else [user(summary, moment(line.get("timestamp")), program=True)]


def _message(line: dict[str, Any]) -> list[Message]:
    if line.get("type") != "message":
        return []
    wire, when = line.get("message"), moment(line.get("timestamp"))
    content = inner(wire, "content")
    match inner(wire, "role"):
        case "assistant":
            usage = usage_of(inner(wire, "usage") or line.get("usage"), **_USAGE)
            model = optional(inner(wire, "model")) or optional(line.get("model"))
            return [replace(ANSWER, extra={}, content=content_of(content), model=model, usage=usage, timestamp=when)]
        case "user":
            if not isinstance(content, list):
                return user_messages(content, when)
            put_in = [item for item in content if _is_reminder(item)]
            if not put_in:
                return user_messages(content, when)
            reminders = content_of(put_in)
            rest = [item for item in content if not _is_reminder(item)]
            found: list[Message] = [user(reminders, when, program=True)] if reminders else []
            return [*found, *user_messages(rest, when)] if rest or not found else found
    return [kept_record(API, str(inner(wire, "role")), wire)]


_ROLES = ("user", "assistant")
_STREAM = frozenset(("system", "message", "tool_call", "tool_result", "completion", "error"))


def _is_streamed(line: dict[str, Any]) -> bool:
    """A line of the output that no other program prints."""
    if line.get("type") == "message":
        return line.get("role") in _ROLES and isinstance(line.get("text"), str) and "content" not in line
    return (line.get("type") == "tool_call" and "parameters" in line) or (
        line.get("type") == "completion" and "finalText" in line
    )


class _OutputReader(RowReader):
    """Reads the output of a run. Calls belong to the answer before them."""

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        model = usage = None
        pairs = Pairing()
        answer: AssistantMessage | None = None  # the last one
        is_open = False  # whether it is the last message: calls may follow
        for line in records:
            kind, when, text = line.get("type"), moment(line.get("timestamp")), optional(line.get("text"))
            id = first(line, "toolCallId", "id")
            if kind == "system":
                model = optional(line.get("model")) or model
                continue
            if kind == "tool_call":
                call = pairs.call(id, first(line, "toolName", "toolId"), line.get("parameters"))
                if answer is not None and is_open:
                    answer = replace(answer, content=(*blocks_of(answer.content), call))
                    continue
                answer, is_open = replace(ANSWER, extra={}, content=(call,), model=model, timestamp=when), True
                continue
            if kind == "completion":
                usage = usage_of(line.get("usage"), **_USAGE)
                text = optional(line.get("finalText"))
                if not text or (answer is not None and answer.text == text):
                    continue
            elif kind not in ("message", "tool_result") or (kind == "message" and text is None and not _is_user(line)):
                continue
            if answer is not None and is_open:
                yield answer
            is_open = kind != "tool_result" and not _is_user(line)
            if is_open:
                answer = replace(ANSWER, extra={}, content=(TextBlock(text=text or ""),), model=model, timestamp=when)
            elif kind == "tool_result":
                given = line.get("value")
                value = given if isinstance(given, str) else a_result("", given).content
                yield pairs.result(id, None, value, line.get("isError"), timestamp=when)
            else:
                yield user(text, when)
        if answer is not None and is_open:
            yield answer
        self.fields = {"model": model, "usage": usage}


def _is_user(line: dict[str, Any]) -> bool:
    return line.get("type") == "message" and line.get("role") == "user"


class _Reader(TreeReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        title = model = None
        for line in records:
            title = _title(line) or title
            summary = _summary(line)
            if summary:
                self.tree.cut(0)
                model = None
            for message in summary or _message(line):
                model = message.model or model if isinstance(message, AssistantMessage) else model
                yield self.tree.add(message)
        self.fields = {"title": title, "model": model}


def _reader(lines: ReadAgain) -> Reader:
    return _OutputReader() if _is_output(lines) else _Reader()


def detect(value: Any) -> str | None:
    """A `session_start` line, or lines of type `message` behind one that was lost."""
    lines = items(value) if isinstance(value, list) else items([value])
    if lines and _is_start(lines[0]):
        return "a `session_start` line"
    return OUTPUT if _is_output(lambda: lines) else None


def _is_start(line: dict[str, Any]) -> bool:
    return line.get("type") == "session_start" and ("id" in line or "cwd" in line)


def _is_output(lines: ReadAgain) -> bool:
    # Slack's exports are lines of the type `message` with a `text`, too, but of a `user` and not of a role.
    return (
        not any(map(_is_start, itertools.islice(lines(), 1)))
        and all(line.get("type") in _STREAM and (line.get("type") != "message" or "role" in line) for line in lines())
        and any(map(_is_streamed, lines()))
    )


class _LineReader(LineReader):
    """A session file line by line."""

    def messages(self, line: dict[str, Any]) -> list[tuple[str, Any]]:
        self.title = _title(line) or self.title
        return [("", message) for message in _summary(line) or _message(line)]


def line_reader(first: Sequence[Any], state: dict[str, Any] | None = None) -> LineReader | None:
    """A reader of single lines; not of the output of a run, whose usage is stated at its end."""
    return None if detect(list(first)) == OUTPUT else _LineReader(state)


FORMAT = line_format(API, _reader, detect=detect, line_reader=line_reader, rank=40)
