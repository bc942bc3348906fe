"""Codex's rollout files: JSON lines of `timestamp`, `type` and `payload`; in old files bare items behind a first line.

A `response_item` holds one item of the Responses wire, and is read by that dialect: each item is a message of its own.
The first line (`session_meta`) belongs to the whole session, and so do the instructions in it. All other lines (events
for the screen, the settings of a turn, compactions, …) are kept in their places as messages of their own role.
"""

import sys
from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, Lines, Reporter, SupportTable
from ...values.messages import Message, ToolResultMessage, text_of
from ...values.request import Conversation, Entry, ModelDescriptor
from .. import dialect
from ..residual import put_back, reading, residual
from ..wire import FileFormat
from . import records as _records
from .records import FILE, Records, lines_of, milliseconds, time_in, with_time

API = "codex-cli"
RETURNED = True  # read and returned, not made from other formats
WIRE = "openai-responses"
HEADER = "~header"  # of a conversation: residual of the first line
OLD = "~old"  # of a conversation: items stand bare in their lines
OUTPUT = "~output"  # of a result: its output was wrapped with whether the tool succeeded

ITEMS = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "web_search_call",
)

FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


def _decode_item(item: dict[str, Any], when: int | None) -> list[Any]:
    """The message in one item of the wire."""
    wrapped = item.get("output")
    if not isinstance(wrapped, dict) or not isinstance(wrapped.get("content"), str):
        return [with_time(message, when) for message in dialect(WIRE).decode_messages([item])]  # type: ignore[attr-defined]
    # Some versions write a result with its success: `{"content": …, "success": …}`.
    (result,) = dialect(WIRE).decode_messages([{**item, "output": wrapped["content"]}])  # type: ignore[attr-defined]
    result = replace(result, is_error=wrapped.get("success") is False)
    extra = {**result.extra, API: {OUTPUT: residual(wrapped, _wrapper(result))}}
    return [with_time(replace(result, extra=extra), when)]


def _wrapper(result: ToolResultMessage) -> dict[str, Any]:
    return {"content": text_of(result.content), "success": not result.is_error}


def _say_item(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    (message,) = messages
    extra_fields = message.extra.get(API, {}).get(OUTPUT)
    wrapped = isinstance(message, ToolResultMessage) and extra_fields is not None
    plain = replace(message, is_error=False) if wrapped else message  # the wrapper says it
    items: list[dict[str, Any]] = dialect(WIRE).encode_messages((plain,), report)  # type: ignore[attr-defined]
    (item,) = items
    return {**item, "output": put_back(_wrapper(message), extra_fields)} if wrapped else item  # type: ignore[arg-type]


def _decode_line(line: dict[str, Any]) -> list[Any]:
    payload = line.get("payload")
    if line.get("type") != "response_item" or not isinstance(payload, dict) or payload.get("type") not in ITEMS:
        return []
    return _decode_item(payload, milliseconds(line.get("timestamp")))


def _say_line(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    return {**time_in(messages), "type": "response_item", "payload": _say_item(messages, report)}


def _decode_bare(line: dict[str, Any]) -> list[Any]:
    return _decode_item(line, milliseconds(line.get("timestamp"))) if line.get("type") in ITEMS else []


def _say_bare(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    return {**_say_item(messages, report), **time_in(messages)}


def _records_of(old: bool) -> Records:
    return Records(API, _decode_bare, _say_bare) if old else Records(API, _decode_line, _say_line)


@reading(API)
def decode(data: Any) -> Conversation:
    """A rollout file: text, bytes, or the values of its lines."""
    lines = lines_of(data, API)
    old = not any("payload" in line for line in lines)
    extra_fields: dict[str, Any] = {FILE: True, OLD: True} if old else {FILE: True}
    system: str | None = None
    if lines and _is_header(lines[0], old):
        header = lines.pop(0)
        system = _instructions(header, old)
        extra_fields[HEADER] = residual(header, _say_header(system, old))
    records = _records_of(old)
    entries: list[Entry] = []
    model: str | None = None
    for line in lines:
        kind = line.get("record_type" if old and "type" not in line else "type")
        entries += records.read(line, kind if isinstance(kind, str) else "line")
        if kind == "turn_context" and isinstance(line.get("payload"), dict):
            given = line["payload"].get("model")
            model = given if isinstance(given, str) else model
    return Conversation(
        entries=tuple(entries),
        system=system,
        model=ModelDescriptor(id=model, provider="openai") if model else None,
        extra={API: extra_fields},
    )


def _is_header(line: dict[str, Any], old: bool) -> bool:
    if old:
        return "id" in line and "type" not in line and "record_type" not in line
    return line.get("type") == "session_meta" and isinstance(line.get("payload"), dict)


def _instructions(header: dict[str, Any], old: bool) -> str | None:
    base = header.get("base_instructions") if old else header["payload"].get("base_instructions")
    text = base.get("text") if isinstance(base, dict) else None
    return text if isinstance(text, str) else None


def _say_header(system: str | None, old: bool) -> dict[str, Any]:
    given = {} if system is None else {"base_instructions": {"text": system}}
    return given if old else {"type": "session_meta", "payload": given}


def encode(conversation: Conversation) -> Encoded:
    """The lines of a rollout file that was read."""
    extra_fields = conversation.extra.get(API, {})
    old = bool(extra_fields.get(OLD))
    lines, losses = _records_of(old).write(conversation, system=True)
    if HEADER in extra_fields:
        system = None if conversation.system is None else text_of(conversation.system)
        lines.insert(0, put_back(_say_header(system, old), extra_fields[HEADER]))
    return Encoded(Lines(lines), tuple(losses))


def detect(value: Any) -> str | None:
    """Whether lines are a rollout: a header of either age, or lines of `timestamp`, `type` and `payload`."""
    lines = value if isinstance(value, list) else [value]
    if not lines or not all(isinstance(line, dict) for line in lines):
        return None
    first = lines[0]
    if first.get("type") in ("session_meta", "response_item", "turn_context", "event_msg") and "payload" in first:
        return f"a `{first['type']}` line with its `payload`"
    if first.keys() >= {"id", "timestamp", "instructions"} and "type" not in first and "role" not in first:
        return "a first line with `id`, `timestamp` and `instructions`"
    return None


FORMAT = FileFormat(name="codex-cli", codec=sys.modules[__name__], detect=detect, lines=True, writable=False)
