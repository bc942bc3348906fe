"""What the archive reads of a file: its conversations, with their texts and what their answers used."""

from collections.abc import Iterator
from pathlib import Path

from .. import conversion
from ..conversion import sources
from ..values.errors import InterlinguaError
from ..values.messages import AssistantMessage, CustomMessage, UserMessage, text_of
from ..values.regular import stream_regular
from ..values.request import Conversation, is_aside
from .archive_index import FAILED, SKIPPED, FileParts, FileProblem, Part, Stamp
from .programs import HEAD, project_of
from .spending import used_in
from .texts import Text, message_texts

MAX_BODY = 512 << 20  # bytes of a file that must be read as a whole
FLUSH_CHARS = 4 << 20  # characters that are handed on at once
UNKNOWN = "no known format"
_TITLE = 80


def read_file(path: Path, dialect: str | None, stamp: Stamp, *, searched: bool = False) -> Iterator[FileParts]:
    """The parts of a file, in portions. What cannot be read is a problem of the file; nothing is raised.

    A file that was `searched`, found in a folder, need not be a conversation.
    """
    problems: list[FileProblem] = []
    waiting: list[Part] = []
    size, first, count = 0, True, 0
    try:
        project = project_of(path, _head(path))
        for number, (kind, conversation) in enumerate(conversations(path, dialect, problems)):
            part = part_of(number, kind, conversation, project)
            problems += (FileProblem(note.message, note.line) for note in conversation.problems)
            waiting.append(part)
            size, count = size + part.size, count + 1
            if size > FLUSH_CHARS:
                yield FileParts(str(path), stamp, waiting, first=first, last=False)
                waiting, size, first = [], 0, False
    except Exception as error:  # whatever is wrong with one file must not end the reading of the others
        problems.append(FileProblem(_reason(error, path)))
    if not count:
        problems = [_failure(path, problems, searched)]
    yield FileParts(str(path), stamp, waiting, list(dict.fromkeys(problems)), first=first)


def _failure(path: Path, problems: list[FileProblem], searched: bool) -> FileProblem:
    """Why nothing could be read of a file; it is skipped if it need not be a conversation."""
    found = problems[0] if problems else FileProblem("no conversation in it")
    plain = path.suffix.lower() in (".txt", ".md", ".log")  # any text may be in these
    return found._replace(kind=SKIPPED if searched and (plain or found.message.startswith(UNKNOWN)) else FAILED)


def conversations(path: Path, dialect: str | None, problems: list[FileProblem]) -> Iterator[tuple[str, Conversation]]:
    """The conversations of a file with their dialects, numbered like those of an opened file on the canvas."""
    notes: list[sources.Problem] = []
    for document in sources.documents(sources.Source(path), dialect, notes, limit=MAX_BODY):
        try:
            kind = dialect or document.dialect or _detected(document.data)
            yield kind, conversion.decode(document.data, kind)
        except InterlinguaError as error:
            problems.append(FileProblem(str(error), document.line))
        problems += (FileProblem(note.message, note.line) for note in notes)
        notes.clear()
    problems += (FileProblem(note.message, note.line) for note in notes)


def _detected(value: object) -> str:
    found = conversion.detect(value)
    if found is None:
        raise InterlinguaError(f"{UNKNOWN}; `interlingua dialects` lists those that can be read")
    return found.dialect


def part_of(number: int, dialect: str, conversation: Conversation, project: str | None) -> Part:
    """A whole conversation."""
    messages = [entry.message for entry in conversation.entries if not is_aside(entry)]
    times = [at for message in messages if isinstance(at := getattr(message, "timestamp", None), int)]
    models = dict.fromkeys(m.model for m in messages if isinstance(m, AssistantMessage) and m.model)
    texts: list[Text] = []
    system = text_of(conversation.system) if conversation.system else ""
    if system:
        texts.append(Text("", None, "system", "system", system))
    if conversation.title:
        texts.append(Text("", None, "title", "", conversation.title))
    for entry in conversation.entries:
        texts += message_texts(entry.id or "", entry.message)
    return Part(
        number=number,
        dialect=dialect,
        title=_short(conversation.title or _first_text(conversation)),
        project=project,
        messages=sum(not isinstance(message, CustomMessage) for message in messages),
        models=tuple(models),
        started=min(times, default=None),
        ended=max(times, default=None),
        texts=texts,
        used=used_in(conversation),
    )


def _first_text(conversation: Conversation) -> str:
    """What a person asked first."""
    asked = (e.message for e in conversation.entries if isinstance(e.message, UserMessage))
    return next((text for m in asked if m.origin is None and (text := text_of(m.content)).strip()), "")


def _short(text: str) -> str | None:
    line = " ".join(text[: 8 * _TITLE].split())
    return (line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…") or None


def _head(path: Path) -> bytes:
    with stream_regular(path) as stream:
        return stream.read(HEAD)


def _reason(error: Exception, path: Path) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, InterlinguaError):
        return str(error).removeprefix(f"{path}: ").removeprefix(f"{path} ")
    return f"cannot be read: {type(error).__name__}: {error}"
