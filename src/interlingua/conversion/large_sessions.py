"""Session files too large to be one conversation in memory: their messages, one line at a time.

Only formats whose lines stand for themselves can be read so (those that have a `skim`). What a line says is what the
whole file would say of it, except for the place in the tree: no path and no branches.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from ..dialects import FORMATS
from ..dialects.wire import Skim
from ..values import jsontext
from ..values.errors import FormatError
from ..values.losses import Lines
from ..values.messages import AgentMessage, AssistantMessage, CustomMessage, SystemMessage
from .detection import Detection, detect
from .sources import DAMAGED, DEFAULT_LIMIT, Problem, Source, first_objects, open_binary, read_lines, too_long

LARGE = 32 << 20  # bytes: a conversation takes four to five times the size of its file
_ANSWERS = 20  # ids of answers to which further lines may belong: results of parallel calls stand between them


class Skimmed(NamedTuple):
    """A message of a line, and whether it is one of its own or a further part of the answer before."""

    message: AgentMessage
    is_new: bool


def is_large(source: Source, least: int = LARGE) -> bool:
    """Whether a source is a file of at least so many bytes."""
    try:
        return source.path is not None and source.member is None and source.path.stat().st_size >= least
    except OSError:
        return False


def detect_large(source: Source) -> Detection | None:
    """The format of a session file, by its first lines; None for a file that is no session in lines."""
    with contextlib.suppress(*DAMAGED, OSError), open_binary(source) as stream:
        found = detect(Lines(first_objects(stream)))
        form = FORMATS.get(found.dialect) if found is not None else None
        return found if form is not None and form.lines else None
    return None


def skimmed(
    source: Source,
    dialect: str | None,
    problems: list[Problem],
    *,
    limit: int = DEFAULT_LIMIT,
    advance: Callable[[int], None] | None = None,
) -> Iterator[Skimmed] | None:
    """The messages of a session file; None where its format is not read line by line. Torn lines go to `problems`."""
    try:
        with open_binary(source) as stream:
            first = Lines(first_objects(stream))
    except (*DAMAGED, OSError):
        return None  # reading it as a whole says why
    found = detect(first) if dialect is None else None
    form = FORMATS.get(dialect or (found.dialect if found is not None else ""))
    skim = form.skim(first, None) if first and form is not None and form.skim is not None else None
    if skim is None:
        return None
    return _messages(source, open_binary(source, advance), skim, problems, limit)


def _messages(source: Source, stream: IO[bytes], skim: Skim, problems: list[Problem], limit: int) -> Iterator[Skimmed]:
    answers = _Answers(skim.joins)
    with stream:
        try:
            for number, line in enumerate(read_lines(stream, limit), 1):
                if not line.strip():
                    continue
                value: Any = None
                message = too_long(limit)
                try:
                    value = jsontext.read(line) if len(line) <= limit else None
                    message = "expected an object" if len(line) <= limit else message
                except FormatError as error:
                    message = error.message
                if not isinstance(value, dict):
                    problems.append(Problem(f"{source.name}:{number}", message, number))
                    continue
                for _, one in skim.read(value):
                    # Records of a program are no messages, nor are the instructions of the whole session.
                    if not isinstance(one, CustomMessage) and not (
                        isinstance(one, SystemMessage) and one.timestamp is None
                    ):
                        yield Skimmed(one, answers.is_new(one))
        except DAMAGED as error:
            problems.append(Problem(source.name, f"damaged archive: {error}"))


class _Answers:
    """Knows which lines are further parts of an answer."""

    def __init__(self, joins: bool) -> None:
        self._joins = joins
        self._known: dict[str, None] = {}
        self._is_answering = False

    def is_new(self, message: AgentMessage) -> bool:
        if not isinstance(message, AssistantMessage):
            self._is_answering = False
            return True
        if message.response_id is None:
            if not self._joins:
                return True
            is_usage = message.content == () and message.usage is not None
            is_new = not is_usage and not self._is_answering
            self._is_answering = self._is_answering or not is_usage
            return is_new
        if message.response_id in self._known:
            return False
        self._known[message.response_id] = None
        if len(self._known) > _ANSWERS:
            del self._known[next(iter(self._known))]
        return True
