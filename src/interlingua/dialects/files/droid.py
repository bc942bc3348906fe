"""Sessions of Factory's Droid, and the output of `droid exec --output-format stream-json`.

A session is a `session_start` line, then lines of type `message` in Anthropic's blocks.

Reminders that the program puts into a message of the user (`<system-reminder>`) are blocks of their own, and are read
as the program's. `compaction_state` has the summary from which a long session continues.

The output has lines `system`, `message` (a `role` with `text`), `tool_call`, `tool_result` and `completion`, whose
`finalText` repeats the last answer (docs.factory.ai, "Droid Exec").
"""

import sys
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, SupportTable
from ...values.messages import AssistantMessage, Message, TextBlock
from ...values.request import Conversation
from ..residual import optional, reading
from ..wire import FileFormat
from . import records as _records
from .line_readers import BaseLineReader
from .program_content import (
    Branches,
    a_result,
    content_of,
    conversation_of,
    first,
    inner,
    items,
    moment,
    usage_of,
    user,
    user_messages,
)
from .reading import Pairing, kept_record
from .records import lines_of
from .templates import give_back, keep

API = "droid"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT
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
            return [AssistantMessage(content=content_of(content), model=model, usage=usage, timestamp=when)]
        case "user":
            if not isinstance(content, list):
                return user_messages(content, when)
            reminders = content_of([item for item in content if _is_reminder(item)])
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


def _streamed(lines: list[dict[str, Any]]) -> Conversation:
    messages: list[Message] = []
    model = usage = None
    pairs = Pairing()
    for line in lines:
        kind, when, text = line.get("type"), moment(line.get("timestamp")), optional(line.get("text"))
        id = first(line, "toolCallId", "id")
        if kind == "system":
            model = optional(line.get("model")) or model
        elif kind == "message" and line.get("role") == "user":
            messages.append(user(text, when))
        elif kind == "message" and text is not None:
            messages.append(AssistantMessage(content=(TextBlock(text=text),), model=model, timestamp=when))
        elif kind == "tool_call":
            call = pairs.call(id, first(line, "toolName", "toolId"), line.get("parameters"))
            last = messages[-1] if messages else None
            if isinstance(last, AssistantMessage) and isinstance(last.content, tuple):
                messages[-1] = replace(last, content=(*last.content, call))
            else:
                messages.append(AssistantMessage(content=(call,), model=model, timestamp=when))
        elif kind == "tool_result":
            given = line.get("value")
            value = given if isinstance(given, str) else a_result("", given).content
            messages.append(pairs.result(id, None, value, line.get("isError"), timestamp=when))
        elif kind == "completion":
            usage = usage_of(line.get("usage"), **_USAGE)
            final = optional(line.get("finalText"))
            last = next((one for one in reversed(messages) if isinstance(one, AssistantMessage)), None)
            if final and (last is None or last.text != final):
                messages.append(AssistantMessage(content=(TextBlock(text=final),), model=model, timestamp=when))
    return conversation_of(messages, model=model, usage=usage)


@reading(API)
def decode(data: Any) -> Conversation:
    """A session file, or the output of a run: text, bytes, or the values of its lines."""
    lines = lines_of(data, API)
    if detect(lines) == OUTPUT:
        return keep(_streamed(lines), lines, API, lines=True)
    tree = Branches()
    title = None
    for line in lines:
        title = _title(line) or title
        summary = _summary(line)
        if summary:
            tree.cut(0)
        for message in summary or _message(line):
            tree.add(message)
    answers = [m.model for at in tree.path if isinstance(m := tree[at], AssistantMessage) and m.model]
    found = conversation_of((), title=title, model=answers[-1] if answers else None)
    return keep(tree.placed(found), lines, API, lines=True)


def encode(conversation: Conversation) -> Encoded:
    """The lines of a session that was read."""
    return give_back(conversation, API, decode)


def detect(value: Any) -> str | None:
    """A `session_start` line, or lines of type `message` behind one that was lost."""
    lines = items(value) if isinstance(value, list) else items([value])
    if lines and lines[0].get("type") == "session_start" and ("id" in lines[0] or "cwd" in lines[0]):
        return "a `session_start` line"
    # Slack's exports are lines of the type `message` with a `text`, too, but of a `user` and not of a role.
    known = all(line.get("type") in _STREAM and (line.get("type") != "message" or "role" in line) for line in lines)
    if known and any(map(_is_streamed, lines)):
        return OUTPUT
    return None


class _LineReader(BaseLineReader):
    """A session file line by line."""

    def messages(self, line: dict[str, Any]) -> list[tuple[str, Any]]:
        self.title = _title(line) or self.title
        return [("", message) for message in _summary(line) or _message(line)]


def line_reader(first: Sequence[Any], state: dict[str, Any] | None = None) -> BaseLineReader | None:
    """A reader of single lines; not of the output of a run, whose usage is stated at its end."""
    return None if detect(list(first)) == OUTPUT else _LineReader(state)


FORMAT = FileFormat(
    name=API,
    codec=sys.modules[__name__],
    detect=detect,
    lines=True,
    writable=False,
    line_reader=line_reader,
    rank=40,
)
