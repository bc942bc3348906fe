"""Large session files as sessions of another program, message by message.

The history is adapted in pieces (`adapting.pieces`). What needs all of it at once is left to `converting.encode`: media
and cache markers, which targets limit in number; ids and names that must be renamed; compacted history.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from ..dialects import FORMATS
from ..dialects.files.new_sessions import Facts, unsupported
from ..dialects.wire import FileFormat
from ..values import jsontext
from ..values.compact import IdSet
from ..values.losses import QUIET, Loss, Reporter
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ..values.request import Conversation, Entry, is_aside
from ..values.summaries import summary_of
from .adapting.adapter import Adapted, adapt_piece
from .adapting.pieces import CallPlaces, pieces
from .converting import branch_loss, conversation_losses, encoded_losses, entry_losses
from .large_sessions import LargeSession
from .media import MEDIA

BRANCHES, ADAPTING, ENCODING = range(3)  # the order in which losses are reported
_ASKED = UserMessage(content="?")
_ANSWERED = AssistantMessage(content="!", stop_reason="stop")
_CALL = ToolCall(id="call_before_this_piece", name="before", arguments={})
_RESULT = ToolResultMessage(tool_call_id=_CALL.id, tool_name=_CALL.name, content="!", is_error=False)
# What precedes a piece, as far as it matters to the piece: an answer, or a result.
_BEFORE: dict[type, tuple[Message, ...]] = {
    AssistantMessage: (_ASKED, _ANSWERED),
    ToolResultMessage: (_ASKED, replace(_ANSWERED, content=(_CALL,), stop_reason="toolUse"), _RESULT),
}


class _NotLocal(Exception):
    """A repair that concerns the whole history."""


class _Survey:
    """Finds whether a history can be adapted in pieces, and where its calls are."""

    def __init__(self) -> None:
        self.places = CallPlaces()
        self.is_local = True
        self._calls = IdSet()

    def add(self, at: int, entry: Entry) -> None:
        self.places.add(at, entry.message)
        message: Any = entry.message
        if isinstance(message, CustomMessage):
            has_result = is_aside(entry) and message.fields.get("result") is not None
            self.is_local = self.is_local and not has_result and summary_of(message) is None
            return
        for block in blocks_of(message.content):
            if isinstance(block, MEDIA) or getattr(block, "cache", None) is not None:
                self.is_local = False
            if isinstance(block, ToolCall):
                self.is_local = self.is_local and block.id not in self._calls
                self._calls.add(block.id)


class LargeEncoding:
    """A large session in another format: `lines` reads its file again and yields them."""

    def __init__(self, session: LargeSession, form: FileFormat, on_path: bytearray, places: CallPlaces) -> None:
        assert form.adapted_for is not None
        self._session, self._form, self._target = session, form, form.adapted_for
        self._on_path, self._places = on_path, places
        self._about: Conversation | None = None
        self._facts: Facts | None = None

    def survey(self, report: Callable[[int, Loss], None]) -> None:
        """Reads the file once, for what concerns all lines; reports the losses, each with its stage."""
        session, seen = self._session, set[Loss]()

        def note(stage: int, loss: Loss) -> None:
            if not loss.path.startswith(("$.messages[", "$.entries[")):
                if loss in seen:
                    return
                seen.add(loss)
            report(stage, loss)

        def branches(at: int, entry: Entry) -> None:
            if self._on_path[at]:
                for loss in entry_losses(entry, at):
                    note(BRANCHES, loss)
            else:
                note(BRANCHES, branch_loss(entry, at))

        writer: Any = None
        for first, messages, adapted in self._adapted(branches):
            if writer is None:
                about = replace(Conversation.of(adapted.request), entries=())
                kept = {"title": session.about.title, "options": session.about.options, "extra": session.about.extra}
                self._about = replace(about, **kept)
                self._facts = Facts(self._about)
                writer = self._form.writer(self._about, self._facts)
            elif adapted.request.context.tools != self._about.tools:  # type: ignore[union-attr]
                raise _NotLocal
            given: list[Loss] = []
            for at, message in enumerate(messages):
                self._facts.add(Entry(message=message))  # type: ignore[union-attr]
                losses = Reporter(f"$.messages[{at + adapted.before}]")
                for _ in writer.message(first + at, message, losses):
                    pass
                given += losses.losses
            # The call options belong to the program that resumes the session.
            changed = dict.fromkeys(
                loss for loss in adapted.losses if adapted.is_own(loss.path) and not loss.path.startswith("$.options")
            )
            for loss in changed:
                note(ADAPTING, loss)
            for loss in dict.fromkeys(encoded_losses(adapted, given)):
                if loss not in changed:
                    note(ENCODING, loss)
        assert self._about is not None
        for loss in encoded_losses(adapted, unsupported(self._about, *self._form.writer.UNSUPPORTED)):
            note(ENCODING, loss)
        for loss in conversation_losses(replace(session.about, head=session.head)):
            if loss.path != "$.title":
                note(BRANCHES, loss)

    def lines(self) -> Iterator[bytes]:
        """The lines of the new file."""
        assert self._about is not None
        writer = self._form.writer(self._about, self._facts)
        for line in writer.begin():
            yield jsontext.write(line) + b"\n"
        for first, messages, _ in self._adapted(lambda at, entry: None):
            for at, message in enumerate(messages, first):
                for line in writer.message(at, message, QUIET):
                    yield jsontext.write(line) + b"\n"
        for line in writer.end():
            yield jsontext.write(line) + b"\n"

    def _adapted(self, visit: Callable[[int, Entry], None]) -> Iterator[tuple[int, tuple[Message, ...], Adapted]]:
        """Yields the pieces, adapted: the index of the first message among all adapted ones, and the messages."""
        request = self._session.about.request()
        count = place = 0
        before: tuple[Message, ...] = ()
        waiting: list[AgentMessage] = []
        adapted: Adapted | None = None
        for piece in pieces(self._listed(visit), self._places):
            waiting += piece
            context = replace(request.context, messages=(*before, *waiting, _ASKED))
            adapted = adapt_piece(replace(request, context=context), self._target, place, len(before))
            if adapted.ids or adapted.names:
                raise _NotLocal
            messages = adapted.request.context.messages[len(before) : -1]
            if not messages or type(messages[-1]) not in _BEFORE:
                continue  # the next message of the user may be merged with the last one here
            yield count, messages, adapted
            place, count = place + len(waiting), count + len(messages)
            before, waiting, adapted = _BEFORE[type(messages[-1])], [], None
        if adapted is not None:
            yield count, adapted.request.context.messages[len(before) : -1], adapted

    def _listed(self, visit: Callable[[int, Entry], None]) -> Iterator[tuple[int, AgentMessage]]:
        for at, entry in enumerate(self._session.entries()):
            visit(at, entry)
            if self._on_path[at]:
                yield at, entry.message


def encode_large(session: LargeSession, target: str, report: Callable[[int, Loss], None]) -> LargeEncoding | None:
    """Returns a session in another format, with its losses reported; None if it must be in memory for that."""
    form = FORMATS.get(target)
    if form is None or form.writer is None or session.about.extra.get(form.name) or session.about.tools is not None:
        return None
    survey = _Survey()
    on_path = session.walk(survey.add)
    if not survey.is_local:
        return None
    encoding = LargeEncoding(session, form, on_path, survey.places)
    try:
        encoding.survey(report)
    except _NotLocal:
        return None
    return encoding
