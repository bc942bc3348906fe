"""Claude Code's session files: JSON lines, each an event of the session; those of people and models hold a message.

Lines form a tree through `uuid` and `parentUuid`; sub-agents (`isSidechain`) are branches of it. A message is in the
words of Anthropic's wire, and is read by that dialect: an answer as it streamed, so that several lines may share one
`message.id`; results of tools in lines of the user, with what the tool told the program in `toolUseResult`. All other
lines (summaries, snapshots of files, notices, …) are kept in their places as messages of their own role.
"""

import sys
from typing import Any

from msgspec.structs import replace

from ...values.losses import QUIET, Encoded, Lines, Reporter, SupportTable
from ...values.messages import AssistantMessage, Message, ToolResultMessage
from ...values.request import Conversation, Entry, ModelDescriptor
from .. import dialect
from ..residual import JOINED, reading
from ..wire import FileFormat
from . import records as _records
from .records import FILE, Records, lines_of, milliseconds, time_in, with_time

API = "claude-code"
RETURNED = True  # read and returned, not made from other formats
WIRE = "anthropic-messages"

SYNTHETIC = "<synthetic>"  # the program's own words in place of an answer

FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


def _wire() -> Any:
    """The dialect in whose words the messages are."""
    return dialect(WIRE)


def _decode_line(line: dict[str, Any]) -> list[Any]:
    """The messages in a line; none if it is of another kind."""
    inner = line.get("message")
    if line.get("type") not in ("user", "assistant") or not isinstance(inner, dict):
        return []
    if inner.get("role") != line["type"]:
        return []
    when = milliseconds(line.get("timestamp"))
    if line["type"] == "assistant" and inner.get("type") == "message":
        return [_wire().decode_response(inner, provider="anthropic", timestamp=when)]
    messages = [with_time(message, when) for message in _wire().decode_messages([inner])]
    messages[0] = _open(messages[0])
    # What a tool told the program belongs to its result; beside several results, to none of them in particular.
    if len(messages) == 1 and isinstance(messages[0], ToolResultMessage):
        messages = [replace(messages[0], details=line.get("toolUseResult"))]
    return messages


def _open(message: Any) -> Any:
    """A result that may share its wire message with others: lines divide what the model reads as one turn."""
    residual = message.extra.get(WIRE, {}) if isinstance(message, ToolResultMessage) else {}
    if JOINED not in residual:
        return message
    rest = {key: value for key, value in residual.items() if key != JOINED}
    extra = {owner: given for owner, given in message.extra.items() if owner != WIRE}
    return replace(message, extra={**extra, WIRE: rest} if rest else extra)


def _say_line(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    first = messages[0]
    encoded: dict[str, Any]
    if isinstance(first, AssistantMessage) and first.stop_reason is not None:
        encoded = {"type": "assistant", "message": _wire().encode_response(first).body}
        if report is not QUIET:
            _wire().encode_messages(messages, report)  # for what it reports of the content
    else:
        (inner,) = _wire().encode_messages(messages, report)
        encoded = {"type": "assistant" if isinstance(first, AssistantMessage) else "user", "message": inner}
    encoded |= time_in(messages)
    if isinstance(first, ToolResultMessage) and len(messages) == 1 and first.details is not None:
        encoded["toolUseResult"] = first.details
    return encoded


def _records_of() -> Records:
    return Records(API, _decode_line, _say_line, keys=("uuid", "parentUuid"), lines=True)


@reading(API)
def decode(data: Any) -> Conversation:
    """A session file: text, bytes, or the values of its lines."""
    records = _records_of()
    entries: list[Entry] = []
    head: str | None = None
    model: str | None = None
    for line in lines_of(data, API):
        kind = line.get("type")
        read = records.read(line, kind if isinstance(kind, str) else "line")
        entries += read
        if read[-1].id is not None and line.get("isSidechain") is not True:
            head = read[-1].id  # a session stands at the last line that is not a sub-agent's
            given = getattr(read[-1].message, "model", None)
            model = given if isinstance(given, str) and given != SYNTHETIC else model
    last = entries[-1].id if entries else None
    return Conversation(
        entries=tuple(entries),
        head=head if head != last else None,
        model=ModelDescriptor(id=model, provider="anthropic") if model else None,
        extra={API: {FILE: True}},
    )


def encode(conversation: Conversation) -> Encoded:
    """The lines of a session file that was read."""
    lines, losses = _records_of().write(conversation)
    return Encoded(Lines(lines), tuple(losses))


def detect(value: Any) -> str | None:
    """Whether lines are a session: messages with `uuid` and `sessionId`, or the kinds of lines that only it has."""
    lines = value if isinstance(value, list) else [value]
    if not all(isinstance(line, dict) for line in lines):
        return None
    for line in lines:
        encoded = line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict)
        encoded = encoded and "parts" not in line["message"]  # those are Qwen Code's
        if encoded and "sessionId" in line and ("uuid" in line or "parentUuid" in line):
            return "lines with a `message`, `uuid` and `sessionId`"
        if line.get("type") == "summary" and "leafUuid" in line:
            return "a `summary` line with a `leafUuid`"
        if line.get("type") == "file-history-snapshot" and "snapshot" in line:
            return "a `file-history-snapshot` line"
    return None


FORMAT = FileFormat(name="claude-code", codec=sys.modules[__name__], detect=detect, lines=True, writable=False)
