"""What `gemini --output-format stream-json` prints: JSON lines of `type` init, message, tool_use, tool_result, result.

An answer comes as deltas and calls; here those up to the next result or message of the user are one message. The last
line has the usage of the whole in `stats`, whose input includes the cached part.
"""

import sys
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
    UserMessage,
    text_of,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import count, fields_of, optional, reading, string
from ..wire import FileFormat
from . import records as _records
from .joining import apart, join
from .records import FILE, Records, lines_of, milliseconds, time_in

API = "gemini-stream"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


def _decode_line(line: dict[str, Any]) -> list[Any]:
    when = milliseconds(line.get("timestamp"))
    kind = line.get("type")
    if kind == "message" and line.get("role") == "user":
        return [UserMessage(content=string(line["content"]), timestamp=when)]
    if kind == "message" and line.get("role") in ("assistant", "model"):
        return [AssistantMessage(content=(TextBlock(text=string(line["content"])),), provider="google", timestamp=when)]
    if kind == "tool_use":
        arguments = line.get("parameters", {})
        call = ToolCall(id=string(line["tool_id"]), name=string(line["tool_name"]), arguments=arguments)
        return [AssistantMessage(content=(call,), provider="google", timestamp=when)] if type(arguments) is dict else []
    if kind == "tool_result":
        failed = line.get("status") == "error"
        output = line.get("output", fields_of(line.get("error")).get("message"))
        return [
            ToolResultMessage(
                tool_call_id=string(line["tool_id"]), content=string(output or ""), is_error=failed, timestamp=when
            )
        ]
    return []


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


def _records_of() -> Records:
    return Records(API, _decode_line, _encode_line)


@reading(API)
def decode(data: Any) -> Conversation:
    """What one run printed."""
    lines = lines_of(data, API)
    records = _records_of()
    entries: list[Entry] = []
    groups: list[list[int]] = []
    is_open = False
    model: str | None = None
    for line in lines:
        kind = line.get("type")
        if kind == "init":
            model = optional(line.get("model")) or model
        for entry in records.read(line, kind if isinstance(kind, str) else "line"):
            if isinstance(entry.message, AssistantMessage):
                groups += [] if is_open else [[]]
                groups[-1].append(len(entries))
                entry = replace(entry, message=replace(entry.message, model=model))
                is_open = True
            elif not isinstance(entry.message, CustomMessage):
                is_open = False
            entries.append(entry)
    return Conversation(
        entries=tuple(join(entries, groups, API, pieces=True)),
        model=ModelDescriptor(id=model, provider="google") if model else None,
        usage=_total(lines),
        extra={API: {FILE: True}},
    )


def _total(lines: list[dict[str, Any]]) -> Usage | None:
    stats = [fields_of(line.get("stats")) for line in lines if line.get("type") == "result"]
    if not stats or "output_tokens" not in stats[-1]:
        return None
    given, cached = stats[-1], count(stats[-1], "cached")
    # Thoughts are in neither of the two, but in the total: packages/core/src/output/types.ts of Gemini CLI.
    output = max(count(given, "total_tokens") - count(given, "input_tokens"), count(given, "output_tokens"))
    return Usage.of(max(count(given, "input_tokens") - cached, 0), output, cache_read=cached)


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


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, rank=40, lines=True, writable=False)
