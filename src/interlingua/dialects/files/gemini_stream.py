"""What `gemini --output-format stream-json` prints: JSON lines of `type` init, message, tool_use, tool_result, result.

An answer comes as deltas and calls; here those up to the next result or message of the user are one message. The last
line has the usage of the whole in `stats`, whose input includes the cached part.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, Reporter, SupportTable
from ...values.messages import (
    AssistantMessage,
    Block,
    CustomMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    text_of,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from ..codec import ANSWER, RESULT, USER
from ..residual import count, fields_of, optional, reading, string
from ..wire import FileFormat, SessionStream
from . import records as _records
from .joining import join_runs
from .line_sessions import EntryStream, ReadAgain, Reader, Record, read, read_lines
from .records import (
    FILE,
    UNPLACED,
    Records,
    Shapes,
    lines_of,
    milliseconds,
    time_in,
    unreported,
    usual_milliseconds,
)
from .single_blocks import records_of, report_other, write

API = "gemini-stream"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


class _Lines:
    """The messages of lines; the model and the usage are those that the lines so far have named."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.stats: dict[str, Any] = {}
        self._makers = {"message": self._spoken, "tool_use": self._called, "tool_result": self._returned}

    def decode(self, line: dict[str, Any]) -> list[Any]:
        make = self._makers.get(line.get("type"))  # type: ignore[arg-type]
        message = make(line, milliseconds(line.get("timestamp"))) if make is not None else None
        return [] if message is None else [message]

    def _spoken(self, line: dict[str, Any], when: int | None) -> Any:
        if line.get("role") == "user":
            return replace(USER, extra={}, content=string(line["content"]), timestamp=when)
        if line.get("role") in ("assistant", "model"):
            return self._answer(TextBlock(text=string(line["content"])), when)
        return None

    def _called(self, line: dict[str, Any], when: int | None) -> Any:
        arguments = line.get("parameters", {})
        call = ToolCall(id=string(line["tool_id"]), name=string(line["tool_name"]), arguments=arguments)
        return self._answer(call, when) if type(arguments) is dict else None

    def _answer(self, block: Block, when: int | None) -> AssistantMessage:
        return replace(ANSWER, extra={}, content=(block,), provider="google", model=self.model, timestamp=when)

    def _returned(self, line: dict[str, Any], when: int | None) -> Any:
        output = line["output"] if "output" in line else fields_of(line.get("error")).get("message")
        return replace(
            RESULT,
            extra={},
            tool_call_id=string(line["tool_id"]),
            content=string(output or ""),
            is_error=line.get("status") == "error",
            timestamp=when,
        )

    def usual(self, line: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        """The message of a line that is encoded as it was, and its other fields; None for any other line."""
        kind = line.get("type")
        shapes = _SHAPES.get(kind) if type(kind) is str else None
        others = None if shapes is None else shapes[tuple(line)]
        when = None if others is None else usual_milliseconds(line["timestamp"])
        if others is None or when is None:
            return None
        message: Any
        if kind == "message":
            role, text = line["role"], line["content"]
            if type(text) is not str:
                return None
            if role == "assistant":
                message = self._answer(TextBlock(text=text), when)
            elif role == "user":
                message = replace(USER, extra={}, content=text, timestamp=when)
            else:
                return None
        elif kind == "tool_use":
            id, name, arguments = line["tool_id"], line["tool_name"], line["parameters"]
            if not (type(id) is type(name) is str and type(arguments) is dict):
                return None
            message = self._answer(ToolCall(id=id, name=name, arguments=arguments), when)
        else:
            id, output, status = line["tool_id"], line["output"], line["status"]
            if not (type(id) is type(output) is str and status in ("success", "error")):
                return None
            failed = status == "error"
            message = replace(RESULT, extra={}, tool_call_id=id, content=output, is_error=failed, timestamp=when)
        return message, {key: line[key] for key in others}


# The fields of usual lines, by their type.
_SHAPES = {
    "message": Shapes(("type", "timestamp", "role", "content")),
    "tool_use": Shapes(("type", "timestamp", "tool_name", "tool_id", "parameters")),
    "tool_result": Shapes(("type", "timestamp", "tool_id", "status", "output")),
}


def _encode_line(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    (message,) = messages
    encoded = time_in(messages)
    match message:
        case ToolResultMessage():
            report_other(message.content, report)
            status = "error" if message.is_error else "success"
            given = {"tool_id": message.tool_call_id, "status": status, "output": text_of(message.content)}
            return {"type": "tool_result", **encoded, **given}
        case AssistantMessage() if message.tool_calls:
            call = message.tool_calls[0]
            about = {"tool_name": call.name, "tool_id": call.id, "parameters": call.arguments}
            return {"type": "tool_use", **encoded, **about}
        case _:
            report_other(message.content, report)
            role = "assistant" if isinstance(message, AssistantMessage) else "user"
            return {"type": "message", **encoded, "role": role, "content": text_of(message.content)}


def _records_of(lines: _Lines) -> Records:
    return Records(API, lines.decode, _encode_line, usual=lines.usual)


class _Reader(Reader):
    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        lines = _Lines()
        yield from join_runs(self._entries(records, lines), API, pieces=True)
        self.about = Conversation(
            model=ModelDescriptor(id=lines.model, provider="google") if lines.model else None,
            usage=_total(lines.stats),
            extra={API: {FILE: True}},
        )

    def _entries(self, records: Iterable[Record], lines: _Lines) -> Iterator[tuple[Entry, bool]]:
        """The entries of lines, and whether each ends an answer."""
        read_record = _records_of(lines).read
        for line in records:
            kind = line.get("type")
            if kind == "init":
                lines.model = optional(line.get("model")) or lines.model
            elif kind == "result":
                lines.stats = fields_of(line.get("stats"))
            for entry in read_record(line, kind if isinstance(kind, str) else "line"):
                yield entry, not isinstance(entry.message, CustomMessage)


@reading(API)
def decode(data: Any) -> Conversation:
    """What one run printed."""
    return read(_Reader(), lines_of(data, API))


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """The same, one entry at a time."""
    return EntryStream(_Reader(), lines)


def _total(given: dict[str, Any]) -> Usage | None:
    if "output_tokens" not in given:
        return None
    cached = count(given, "cached")
    # Thoughts are in neither of the two, but in the total: packages/core/src/output/types.ts of Gemini CLI.
    output = max(count(given, "total_tokens") - count(given, "input_tokens"), count(given, "output_tokens"))
    return Usage.of(max(count(given, "input_tokens") - cached, 0), output, cache_read=cached)


def copy(about: Conversation, entries: Iterable[Entry], report: Reporter) -> Iterator[dict[str, Any]]:
    """The lines that were read, given the entries one at a time."""
    report.add(unreported(about, system=False))
    return _records_of(_Lines()).lines(((entry, UNPLACED) for entry in records_of(entries, API)), report)


def encode(conversation: Conversation) -> Encoded:
    """The lines that were read."""
    return write(conversation, _records_of(_Lines()), API)


def detect(value: Any) -> str | None:
    """An `init` line with a model and `session_id`, before or among messages with a role."""
    lines = value if isinstance(value, list) else [value]
    if not all(isinstance(line, dict) for line in lines):
        return None
    for line in lines[:20]:
        if line.get("type") == "init" and "session_id" in line and "model" in line:
            return "an `init` line with `session_id` and `model`"
        if line.get("type") == "tool_use" and "tool_id" in line and "tool_name" in line:
            return "a `tool_use` line with `tool_id` and `tool_name`"
    return None


FORMAT = FileFormat(
    name=API,
    codec=sys.modules[__name__],
    detect=detect,
    rank=40,
    lines=True,
    writable=False,
    read=lambda raws: read_lines(_Reader(), raws, API),
    stream=stream,
    copy=copy,
)
