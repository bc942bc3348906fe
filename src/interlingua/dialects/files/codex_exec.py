"""What `codex exec --json` prints: JSON lines `thread.started`, `turn.started`, `item.completed`, `turn.completed`, ….

An item that is completed holds a message, a thought, or a call with what it gave; `item.started` and `item.updated` are
the same item on its way and are kept as they are, as is what the person asked, which is not printed at all. Messages,
thoughts and calls up to the first result are one answer. Usage is that of the turns, its input with the cached part.
The events are in codex-rs/exec/src/exec_events.rs.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, Loss, Reporter, SupportTable, places
from ...values.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    blocks_of,
    text_of,
)
from ...values.request import Conversation, Entry
from ..codec import ANSWER, RESULT
from ..residual import HINTS, JOINED, count, fields_of, list_of, reading, string
from ..wire import FileFormat, SessionStream
from . import records as _records
from .joining import join_runs
from .line_sessions import EntryStream, ReadAgain, Reader, Record, read, read_lines
from .records import FILE, UNPLACED, Records, Shapes, lines_of, unreported
from .single_blocks import records_of, report_other, write

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
    failed = item.get("status") == "failed" or (kind == "command_execution" and bool(item.get("exit_code")))
    text = given if isinstance(given, str) else _text_in(given)
    details = None if isinstance(given, str) else given
    result = replace(
        RESULT, extra={}, tool_call_id=call.id, tool_name=kind, content=text, details=details, is_error=failed
    )
    return [answer, result]


def _text_in(given: Any) -> str:
    """The text of what a tool of a server gave: its `content` is a list of parts."""
    content = fields_of(given).get("content")
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(fields_of(part).get("text"), str))


def _encode_line(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    answer: Any = messages[0]
    results: list[Any] = [*messages[1:]]
    block = blocks_of(answer.content)[0]
    if isinstance(block, ToolCall):
        return {"type": "item.completed", "item": _encode_call(block, results, report)}
    if results:
        raise ValueError("the result of a call that is not there")
    if isinstance(block, ThinkingBlock):
        return {"type": "item.completed", "item": {"type": "reasoning", "text": block.thinking}}
    report_other(answer.content, report)
    return {"type": "item.completed", "item": {"type": "agent_message", "text": text_of(answer.content)}}


def _encode_call(call: ToolCall, results: Sequence[ToolResultMessage], report: Reporter) -> dict[str, Any]:
    names, field = _CALLS[call.name]
    for key in call.arguments:
        if key not in names:
            report.lost("arguments", f"an item of the type {call.name} has no field {key!r} of its call")
    item = {"id": call.id, "type": call.name, **{key: call.arguments[key] for key in names if key in call.arguments}}
    for result in results:
        if result.tool_call_id != call.id:
            raise ValueError("the result of another call")
        report_other(result.content, report)
        if field is None:
            report.lost("ToolResultMessage", f"an item of the type {call.name} has no result")
        else:
            item |= _encode_result(call.name, field, result, report)
    return item


def _encode_result(kind: str, field: str, result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    text = text_of(result.content)
    if field == "status":
        if result.is_error != (text == "failed"):
            report.lost("is_error", "the status is the text of the result", "weakened", field="isError")
        return {field: text}
    given: Any = text
    if result.details is not None:
        given = result.details
        if text != _text_in(given):  # the text was changed, and stands here, too
            if kind != "mcp_tool_call":
                report.lost("content", f"an item of the type {kind} has no text of its result", field="content")
            else:
                parts = [part for part in list_of(fields_of(given).get("content")) if "text" not in fields_of(part)]
                given = {**fields_of(given), "content": [{"type": "text", "text": text}, *parts]}
    code = {"exit_code": int(result.is_error)} if kind == "command_execution" else {}
    return {field: given, **code, "status": "failed" if result.is_error else "completed"}


# By the type of a usual item: its fields, and those of them that must be texts.
_SHAPES = {
    "agent_message": (Shapes(("type", "text")), ("text",)),
    "reasoning": (Shapes(("type", "text")), ("text",)),
    "command_execution": (
        Shapes(("id", "type", "command", "aggregated_output", "exit_code", "status")),
        ("id", "aggregated_output", "status"),
    ),
}
_ENDS = {"completed": 0, "failed": 1}  # the exit codes of usual commands, by their status


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
    if "exit_code" in item and (type(item["exit_code"]) is not int or _ENDS.get(item["status"]) != item["exit_code"]):
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


def _in_order(entries: Iterable[Entry], moved: list[int]) -> Iterator[Entry]:
    """The entries; the call that a result belongs to is the last of its answer. `moved` receives where it was not."""
    waiting: list[Entry] = []  # from an answer with something behind a call to the result
    begun = 0
    for at, entry in enumerate(entries):
        message = entry.message
        if type(message) is AssistantMessage:
            yield from waiting
            waiting = []
            content = blocks_of(message.content)
            if len(content) < 2 or not any(isinstance(block, ToolCall) for block in content[:-1]):
                yield entry
            else:
                waiting, begun = [entry], at
        elif not waiting:
            yield entry
        elif isinstance(message, ToolResultMessage) and JOINED in entry.extra.get(API, {}):
            answer = _with_last(waiting[0], message.tool_call_id)
            if answer is not waiting[0]:
                moved.append(begun)
            yield from (answer, *waiting[1:], entry)
            waiting = []
        else:
            waiting.append(entry)
    yield from waiting


def _with_last(answer: Entry, call: str) -> Entry:
    """The answer with this call as its last block."""
    message: Any = answer.message
    calls = [block for block in message.content if isinstance(block, ToolCall) and block.id == call]
    if not calls or message.content[-1] is calls[-1]:
        return answer
    others = [block for block in message.content if block is not calls[-1]]
    return replace(answer, message=replace(message, content=(*others, calls[-1])))


def _moved(place: str) -> Loss:
    why = "an item is a call with its result: what followed the call is before it"
    return Loss(place, "content", why, "weakened")


def copy(about: Conversation, entries: Iterable[Entry], report: Reporter) -> Iterator[dict[str, Any]]:
    """The lines that were read, given the entries one at a time."""
    report.add(unreported(about, system=False))
    moved: list[int] = []
    ordered = _in_order(entries, moved)
    yield from _records_of().lines(((entry, UNPLACED) for entry in records_of(ordered, API)), report)
    report.add(_moved(UNPLACED) for _ in moved)


def encode(conversation: Conversation) -> Encoded:
    """The lines that were read."""
    moved: list[int] = []
    ordered = tuple(_in_order(conversation.entries, moved))
    body, losses = write(replace(conversation, entries=ordered), _records_of(), API)
    found = places(conversation) if moved else []
    return Encoded(body, (*(_moved(found[at]) for at in moved), *losses))


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
