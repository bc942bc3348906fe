"""Sessions of Factory's Droid: a `session_start` line, then lines of type `message` in Anthropic's blocks.

Reminders that the program puts into a message of the user (`<system-reminder>`) are blocks of their own, and are read
as the program's. `compaction_state` has the summary from which a long session continues.
"""

import sys
from collections.abc import Sequence
from typing import Any

from ...values.losses import Encoded, SupportTable
from ...values.messages import AssistantMessage, Message
from ...values.request import Conversation
from ..residual import optional, reading
from ..wire import FileFormat
from . import records as _records
from .line_readers import BaseLineReader
from .program_content import (
    Branches,
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
from .records import lines_of
from .templates import give_back, keep

API = "droid"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


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
            usage = usage_of(
                inner(wire, "usage") or line.get("usage"),
                input="input_tokens",
                output="output_tokens",
                read="cache_read_input_tokens",
                write="cache_creation_input_tokens",
            )
            model = optional(inner(wire, "model")) or optional(line.get("model"))
            return [AssistantMessage(content=content_of(content), model=model, usage=usage, timestamp=when)]
        case "user":
            if not isinstance(content, list):
                return user_messages(content, when)
            reminders = content_of([item for item in content if _is_reminder(item)])
            rest = [item for item in content if not _is_reminder(item)]
            found: list[Message] = [user(reminders, when, program=True)] if reminders else []
            return [*found, *user_messages(rest, when)] if rest or not found else found
    return []


@reading(API)
def decode(data: Any) -> Conversation:
    """A session file: text, bytes, or the values of its lines."""
    lines = lines_of(data, API)
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
    return None


class _LineReader(BaseLineReader):
    """A session file line by line."""

    def messages(self, line: dict[str, Any]) -> list[tuple[str, Any]]:
        self.title = _title(line) or self.title
        return [("", message) for message in _summary(line) or _message(line)]


def line_reader(first: Sequence[Any], state: dict[str, Any] | None = None) -> BaseLineReader:
    """A reader of single lines."""
    return _LineReader(state)


FORMAT = FileFormat(
    name=API, codec=sys.modules[__name__], detect=detect, lines=True, writable=False, line_reader=line_reader
)
