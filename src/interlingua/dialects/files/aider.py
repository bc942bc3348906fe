"""Aider's chat history (`.aider.chat.history.md`): Markdown, with a section appended per session.

A session begins with `# aider chat started at …`. Lines that begin with `####` and a space are the user's (a command
such as `/ask` is written once as it was typed and once as it was sent, and `<blank>` stands for nothing), lines that
begin with `>` and a space are the program's, and all else is the answer of the model, among it edits that end in
`>>>>>>> REPLACE`. The program names its models at the start, which has the only time, and after `/model`. aider/io.py
`user_input`, aider/coders/base_coder.py `get_announcements`
"""

import io
import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.losses import Encoded, SupportTable, Text
from ...values.messages import AssistantMessage, Message
from ...values.request import Conversation
from ..residual import reading
from ..wire import FileFormat, SessionStream
from . import records as _records
from .line_sessions import ReadAgain, RowReader, TemplateStream, read
from .program_content import moment, user
from .templates import give_back, keep

API = "aider"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT

_STARTED = re.compile(r"^# aider chat started at (.+?)[ \t]*\r?$", re.MULTILINE)
_MODEL = re.compile(r"^> (?:Main model|Model): (\S+)", re.MULTILINE)
BLANK = "<blank>"  # an empty line of the user, which is not sent
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


def _runs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Lines of one kind that stand together; a blank line ends what the user wrote, and not an answer."""
    kind: str = "blank"
    run: list[str] = []
    for line in itertools.chain.from_iterable(line.splitlines(keepends=True) for line in lines):
        found = _kind(line)
        continues = found == kind or (found == "blank" and kind == "answer")
        if not continues and run:
            yield kind, "".join(run)
            run = []
        kind = kind if continues else found
        run.append(line)
    if run:
        yield kind, "".join(run)


def _pieces(lines: Iterable[str]) -> Iterator[list[str] | str]:
    """The parts of a text: those of a line of the user (3), all lines of the user (1), an answer and what follows it
    (2), or another text.
    """
    for kind, run in _runs(lines):
        if kind == "user":
            written = [found.groups() for line in run.splitlines(keepends=True) if (found := _USER.match(line))]
            yield list(written[0]) if len(written) == 1 else [run]
        elif kind == "answer":
            text = run.rstrip()
            yield [text, run[len(text) :]]
        else:
            yield run


class _Reader(RowReader):
    """Reads the pieces of a session; only its start has a time."""

    def messages(self, records: Iterable[Any]) -> Iterator[Message]:
        when: int | None = None
        model: str | None = None
        for piece in records:
            match piece:
                case [_, written, _] if written != BLANK:
                    yield user(written, when)
                    when = None
                case [run]:
                    lines = (_USER.match(line) for line in run.splitlines(keepends=True))
                    yield user("\n".join(found[2] for found in lines if found), when)
                    when = None
                case [text, _]:
                    yield AssistantMessage(content=text, model=model)
                case str():
                    started = _STARTED.match(piece)
                    when = moment(started[1].replace(" ", "T", 1)) if started else when
                    model = next(reversed(_MODEL.findall(piece)), None if started else model)


def _lines(text: str) -> Iterator[str]:
    return iter(io.StringIO(text, newline="\n"))


@reading(API)
def decode(data: Any) -> Conversation:
    """One session of a history, or a history as one conversation."""
    text = _text(data)
    if not _STARTED.search(text):
        raise BadWire(API, "a chat history begins with `# aider chat started at`")
    pieces = list(_pieces(_lines(text)))
    return keep(read(_Reader(), pieces), pieces, API)


@reading(API)
def stream(lines: ReadAgain) -> SessionStream | None:
    """One session of a history, one entry at a time; None for another number of them."""
    if len(list(itertools.islice(filter(_STARTED.match, lines()), 2))) != 1:
        return None
    return TemplateStream(_Reader(), lambda: _pieces(lines()), API, "")


def encode(conversation: Conversation) -> Encoded:
    """The history that was read."""
    body, losses = give_back(conversation, API, lambda pieces: decode(_joined(pieces)))
    return Encoded(Text(_joined(body)), losses)


def _joined(pieces: Iterable[list[str] | str]) -> str:
    return "".join(piece if isinstance(piece, str) else "".join(piece) for piece in pieces)


def sections(lines: Iterable[str]) -> Iterator[str]:
    """The sessions of a history, one at a time; what is before the first is part of it."""
    section: list[str] = []
    has_begun = False
    for line in lines:
        begins = _STARTED.match(line) is not None
        if begins and has_begun:
            yield "".join(section)
            section = []
        has_begun = has_begun or begins
        section.append(line)
    if section:
        yield "".join(section)


def split(value: Any) -> list[str] | None:
    """The sessions of a history."""
    found = list(sections(_lines(value))) if isinstance(value, str) else []
    return found if len(found) > 1 else None


def detect(value: Any) -> str | None:
    """The heading of a session."""
    if isinstance(value, str) and _STARTED.match(value.lstrip()):
        return "a heading `# aider chat started at`"
    return None


FORMAT = FileFormat(
    name=API,
    codec=sys.modules[__name__],
    detect=detect,
    split=split,
    sections=sections,
    text=True,
    writable=False,
    stream=stream,
)
