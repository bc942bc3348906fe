"""What `gemini --output-format stream-json` prints: JSON lines of `type` init, message, tool_use, tool_result, result.

An answer comes as deltas and calls; here those up to the next result or message of the user are one message. The last
line has the usage of the whole in `stats`, whose input includes the cached part.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, Lines, Reporter, SupportTable
from ...values.messages import (
    AssistantMessage,
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
from .joining import Runs, apart
from .line_sessions import EntryStream, ReadAgain, Reader, Record, read
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

API = "gemini-stream"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


def _decode_line(line: dict[str, Any]) -> list[Any]:
    make = _MAKERS.get(line.get("type"))  # type: ignore[arg-type]
    message = make(line, milliseconds(line.get("timestamp"))) if make is not None else None
    return [] if message is None else [message]


def _spoken(line: dict[str, Any], when: int | None) -> Any:
    if line.get("role") == "user":
        return replace(USER, extra={}, content=string(line["content"]), timestamp=when)
    if line.get("role") in ("assistant", "model"):
        content = (TextBlock(text=string(line["content"])),)
        return replace(ANSWER, extra={}, content=content, provider="google", timestamp=when)
    return None


def _called(line: dict[str, Any], when: int | None) -> Any:
    arguments = line.get("parameters", {})
    call = ToolCall(id=string(line["tool_id"]), name=string(line["tool_name"]), arguments=arguments)
    if type(arguments) is not dict:
        return None
    return replace(ANSWER, extra={}, content=(call,), provider="google", timestamp=when)


def _returned(line: dict[str, Any], when: int | None) -> Any:
    output = line["output"] if "output" in line else fields_of(line.get("error")).get("message")
    return replace(
        RESULT,
        extra={},
        tool_call_id=string(line["tool_id"]),
        content=string(output or ""),
        is_error=line.get("status") == "error",
        timestamp=when,
    )


_MAKERS = {"message": _spoken, "tool_use": _called, "tool_result": _returned}


def _encode_line(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    (message,) = messages
    encoded = time_in(messages)
    match message:
        case ToolResultMessage():
            given = {"output": text_of(message.content)} if text_of(message.content) else {}
            status = "error" if message.is_error else "success"
            return {"type": "tool_result", **encoded, "tool_id": message.tool_call_id, "status": status, **given}
        case AssistantMessage() if message.tool_calls:
            call = message.tool_calls[0]
            about = {"tool_name": call.name, "tool_id": call.id, "parameters": call.arguments}
            return {"type": "tool_use", **encoded, **about}
        case _:
            role = "assistant" if isinstance(message, AssistantMessage) else "user"
            return {"type": "message", **encoded, "role": role, "content": text_of(message.content)}


# By the type of a usual line: its fields, and those that are read, with their types.
_SHAPES: dict[str, tuple[Shapes, tuple[str, ...], list[type]]] = {
    "message": (Shapes(("type", "timestamp", "role", "content")), ("content",), [str]),
    "tool_use": (
        Shapes(("type", "timestamp", "tool_name", "tool_id", "parameters")),
        ("tool_name", "tool_id", "parameters"),
        [str, str, dict],
    ),
    "tool_result": (Shapes(("type", "timestamp", "tool_id", "status", "output")), ("tool_id", "output"), [str, str]),
}


def _usual(line: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """The message of a line that is encoded as it was, and what the line says besides; None for any other line."""
    kind = line.get("type")
    if type(kind) is not str or kind not in _SHAPES:
        return None
    shapes, keys, types = _SHAPES[kind]
    others, when = shapes[tuple(line)], usual_milliseconds(line.get("timestamp"))
    if others is None or when is None or [type(line[key]) for key in keys] != types:
        return None
    if kind == "message" and line["role"] not in ("user", "assistant"):
        return None
    if kind == "tool_result" and not (line["output"] and line["status"] in ("success", "error")):
        return None
    return _MAKERS[kind](line, when), {key: line[key] for key in others}


def _records_of() -> Records:
    return Records(API, _decode_line, _encode_line, usual=_usual)


class _Reader(Reader):
    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        read_record, runs = _records_of().read, Runs(API, pieces=True)
        model: str | None = None
        stats: dict[str, Any] = {}
        for line in records:
            kind = line.get("type")
            if kind == "init":
                model = optional(line.get("model")) or model
            elif kind == "result":
                stats = fields_of(line.get("stats"))
            for entry in read_record(line, kind if isinstance(kind, str) else "line"):
                if isinstance(entry.message, AssistantMessage):
                    entry = replace(entry, message=replace(entry.message, model=model))
                yield from runs.add(entry, ends=not isinstance(entry.message, (AssistantMessage, CustomMessage)))
        yield from runs.finish()
        self.about = Conversation(
            model=ModelDescriptor(id=model, provider="google") if model else None,
            usage=_total(stats),
            extra={API: {FILE: True}},
        )


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
    return _records_of().lines(((entry, UNPLACED) for entry in apart(entries, API)), report)


def encode(conversation: Conversation) -> Encoded:
    """The lines that were read."""
    lines, losses = _records_of().write(replace(conversation, entries=tuple(apart(conversation.entries, API))))
    return Encoded(Lines(lines), tuple(losses))


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
    name=API, codec=sys.modules[__name__], detect=detect, rank=40, lines=True, writable=False, stream=stream, copy=copy
)
