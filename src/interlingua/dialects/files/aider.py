"""Aider's chat history (`.aider.chat.history.md`): Markdown, with a section appended per session.

A session begins with `# aider chat started at …`. Lines that begin with `####` and a space are the user's (a command
such as `/ask` is written once as it was typed and once as it was sent), lines that begin with `>` and a space are the
program's, and all else is the answer of the model, among it edits that end in `>>>>>>> REPLACE`. The program names its
models at the start; nothing else has a time or an id.
"""

import re
import sys
from collections.abc import Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.losses import Encoded, SupportTable, Text
from ...values.messages import AssistantMessage, Message
from ...values.request import Conversation
from ..residual import reading
from ..wire import FileFormat
from . import records as _records
from .program_content import conversation_of, moment, user
from .templates import give_back, keep

API = "aider"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT

_STARTED = re.compile(r"^# aider chat started at (.+?)[ \t]*\r?$", re.MULTILINE)
_MODEL = re.compile(r"^> (?:Main model|Model): (\S+)", re.MULTILINE)
_USER = re.compile(r"(####[ \t]?)(.*?)(\s*)\Z", re.DOTALL)


def _text(data: Any) -> str:
    if isinstance(data, bytes | bytearray):
        return bytes(data).decode("utf-8", "replace")
    if not isinstance(data, str):
        raise BadWire(API, f"expected the text of a chat history, got {type(data).__name__}")
    return data


def _kind(line: str) -> str:
    # `#####` is a heading in an answer, `>>>>>>> REPLACE` the end of an edit in it.
    if line.startswith(("#### ", "####\t")) or line.rstrip() == "####":
        return "user"
    if line.startswith("> ") or line.rstrip() == ">":
        return "program"
    return "start" if _STARTED.match(line) else "answer" if line.strip() else "blank"


def _runs(text: str) -> Iterator[tuple[str, str]]:
    """Lines of one kind that stand together; a blank line ends what the user wrote, and not an answer."""
    kind, run = "blank", ""
    for line in text.splitlines(keepends=True):
        found = _kind(line)
        continues = found == kind or (found == "blank" and kind == "answer")
        if not continues and run:
            yield kind, run
            run = ""
        kind = kind if continues else found
        run += line
    if run:
        yield kind, run


def _asked(run: str) -> tuple[str, list[str]]:
    """What the user wrote, and the pieces of its lines: a single line is found again as one of them."""
    lines = [found.groups() for line in run.splitlines(keepends=True) if (found := _USER.match(line))]
    if len(lines) == 1:
        return lines[0][1], list(lines[0])
    return "\n".join(written for _, written, _ in lines), [run]


@reading(API)
def decode(data: Any) -> Conversation:
    """One session of a history, or a history as one conversation."""
    text = _text(data)
    if not _STARTED.search(text):
        raise BadWire(API, "a chat history begins with `# aider chat started at`")
    named = _MODEL.search(text)
    pieces: list[str] = []
    messages: list[Message] = []
    when: int | None = None  # only the start of a session has a time
    for kind, run in _runs(text):
        if kind == "user":
            written, parts = _asked(run)
            pieces += parts
            messages.append(user(written, when))
            when = None
        elif kind == "answer":
            text = run.rstrip()
            pieces += [text, run[len(text) :]]
            messages.append(AssistantMessage(content=text, model=named[1] if named else None))
        else:
            pieces.append(run)
            started = _STARTED.match(run)
            when = moment(started[1].replace(" ", "T", 1)) if started else when
    return keep(conversation_of(messages), pieces, API)


def encode(conversation: Conversation) -> Encoded:
    """The history that was read."""
    body, losses = give_back(conversation, API, lambda pieces: decode("".join(pieces)))
    return Encoded(Text("".join(body)), losses)


def split(value: Any) -> list[str] | None:
    """The sessions of a history."""
    if not isinstance(value, str):
        return None
    starts = [found.start() for found in _STARTED.finditer(value)]
    if len(starts) < 2:
        return None
    ends = [*starts[1:], len(value)]
    return [value[0 if at == 0 else start : end] for at, (start, end) in enumerate(zip(starts, ends, strict=True))]


def detect(value: Any) -> str | None:
    """The heading of a session."""
    if isinstance(value, str) and _STARTED.match(value.lstrip()):
        return "a heading `# aider chat started at`"
    return None


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, split=split, text=True, writable=False)
