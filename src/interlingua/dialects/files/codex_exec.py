"""What `codex exec --json` prints: JSON lines `thread.started`, `turn.started`, `item.completed`, `turn.completed`, ….

An item that is completed holds a message, a thought, or a call with what it gave; `item.started` and `item.updated` are
the same item on its way and are kept as they are, as is what the person asked, which is not printed at all. Messages,
thoughts and calls up to the first result are one answer. Usage is that of the turns, its input with the cached part.
The events are in codex-rs/exec/src/exec_events.rs.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, Lines, Reporter, SupportTable
from ...values.messages import (
    CustomMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    text_of,
)
from ...values.request import Conversation, Entry
from ..codec import ANSWER, RESULT
from ..residual import HINTS, count, fields_of, reading, string
from ..wire import FileFormat, SessionStream
from . import records as _records
from .joining import apart, join_runs
from .line_sessions import EntryStream, ReadAgain, Reader, Record, read, read_lines
from .records import FILE, UNPLACED, Records, Shapes, lines_of, unreported

API = "codex-exec-stream"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT

# By the type of an item that is a call: the fields that are its arguments, and the one that is what it gave.
_CALLS = {
    "command_execution": (("command",), "aggregated_output"),
    "mcp_tool_call": (("server", "tool", "arguments"), "result"),
    "file_change": (("changes",), "status"),
    "web_search": (("query",), None),
    "collab_tool_call": (("tool", "receiver_thread_ids", "prompt"), "agents_states"),
}


def _decode_line(line: dict[str, Any]) -> list[Any]:
    item = fields_of(line.get("item"))
    kind = item.get("type")
    if line.get("type") != "item.completed":
        return []
    if kind == "agent_message":
        return [replace(ANSWER, extra={}, content=(TextBlock(text=string(item["text"])),), provider="openai")]
    if kind == "reasoning":
        return [replace(ANSWER, extra={}, content=(ThinkingBlock(thinking=string(item["text"])),), provider="openai")]
    if kind not in _CALLS:
        return []
    names, field = _CALLS[kind]
    call = ToolCall(id=string(item["id"]), name=kind, arguments={key: item[key] for key in names if key in item})
    answer = replace(ANSWER, extra={}, content=(call,), provider="openai")
    given = item.get(field) if field is not None else None
    if given is None:
        return [answer]
    failed = item.get("status") == "failed" or bool(item.get("exit_code"))
    text = given if isinstance(given, str) else ""
    details = None if isinstance(given, str) else given
    if isinstance(given, dict) and isinstance(given.get("content"), list):
        text = "\n".join(part["text"] for part in given["content"] if isinstance(fields_of(part).get("text"), str))
    result = replace(
        RESULT, extra={}, tool_call_id=call.id, tool_name=kind, content=text, details=details, is_error=failed
    )
    return [answer, result]


def _encode_line(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    first: Any = messages[0]
    block = first.content[0]
    if isinstance(block, ThinkingBlock):
        return {"type": "item.completed", "item": {"type": "reasoning", "text": block.thinking}}
    if not isinstance(block, ToolCall):
        return {"type": "item.completed", "item": {"type": "agent_message", "text": text_of(first.content)}}
    item = {"id": block.id, "type": block.name, **block.arguments}
    field = _CALLS[block.name][1]
    for result in messages[1:]:
        if field is not None and isinstance(result, ToolResultMessage):
            item[field] = text_of(result.content) if result.details is None else result.details
    return {"type": "item.completed", "item": item}


# By the type of a usual item: its fields, and those of them that must be texts.
_SHAPES = {
    "agent_message": (Shapes(("type", "text")), ("text",)),
    "reasoning": (Shapes(("type", "text")), ("text",)),
    "command_execution": (Shapes(("id", "type", "command", "aggregated_output")), ("id", "aggregated_output")),
}


def _usual(line: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """The messages of an item that is encoded as it was, and the other fields of the line; None for any other line."""
    item: Any = line.get("item")
    if line.get("type") != "item.completed" or len(line) != 2 or type(item) is not dict:
        return None
    kind = item.get("type")
    if type(kind) is not str or kind not in _SHAPES:
        return None
    shapes, texts = _SHAPES[kind]
    others = shapes[tuple(item)]
    if others is None or {type(item[key]) for key in texts} != {str}:
        return None
    kept = {key: item[key] for key in others}
    return tuple(_decode_line(line)), {HINTS: {"item": {"in": kept}}} if kept else {}


def _records_of() -> Records:
    return Records(API, _decode_line, _encode_line, usual=_usual)


class _Reader(Reader):
    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        total: Counter[str] = Counter()  # the sum over the turns
        yield from join_runs(self._entries(records, total), API)
        self.about = Conversation(usage=_total(total), extra={API: {FILE: True}})

    def _entries(self, records: Iterable[Record], total: Counter[str]) -> Iterator[tuple[Entry, bool]]:
        """The entries of lines, and whether each ends an answer."""
        read_record = _records_of().read
        for line in records:
            kind = line.get("type")
            is_end = kind == "turn.completed"
            if is_end and type(line.get("usage")) is dict:
                total.update({key: count(line["usage"], key) for key in _COUNTS})
            for entry in read_record(line, kind if isinstance(kind, str) else "line"):
                yield entry, is_end or not isinstance(entry.message, CustomMessage)


@reading(API)
def decode(data: Any) -> Conversation:
    """What one run printed."""
    return read(_Reader(), lines_of(data, API))


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """The same, one entry at a time."""
    return EntryStream(_Reader(), lines)


_COUNTS = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens")


def _total(given: Mapping[str, int]) -> Usage | None:
    if not given:
        return None
    prompt, read, written, output = (given[key] for key in _COUNTS)
    return Usage.of(max(prompt - read - written, 0), output, cache_read=read, cache_write=written)


def copy(about: Conversation, entries: Iterable[Entry], report: Reporter) -> Iterator[dict[str, Any]]:
    """The lines that were read, given the entries one at a time."""
    report.add(unreported(about, system=False))
    return _records_of().lines(((entry, UNPLACED) for entry in apart(entries, API)), report)


def encode(conversation: Conversation) -> Encoded:
    """The lines that were read."""
    lines, losses = _records_of().write(replace(conversation, entries=tuple(apart(conversation.entries, API))))
    return Encoded(Lines(lines), tuple(losses))


def detect(value: Any) -> str | None:
    """A `thread.started` line, or items that are completed."""
    lines = value if isinstance(value, list) else [value]
    if not lines or not all(isinstance(line, dict) for line in lines):
        return None
    for line in lines[:20]:
        if line.get("type") == "thread.started" and "thread_id" in line:
            return "a `thread.started` line"
        if line.get("type") == "item.completed" and isinstance(line.get("item"), dict):
            return "an `item.completed` line"
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
