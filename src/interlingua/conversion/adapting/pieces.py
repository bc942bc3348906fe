"""Long histories in pieces: repairs of a session file that is too large to be in memory.

A history may be cut before a user message if no call before it has a result after it, no result before it a call after
it, and the last calls before it have results. Then the repairs of the pieces are those of the whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from ...dialects.foreign_blocks import understood
from ...values.compact import IdNumbers, Ids
from ...values.losses import Loss
from ...values.messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ...values.request import Context, ModelDescriptor, Request, ToolSpec
from ...values.tokens import Taken
from .adapter import Adapted, adapt_piece, repair_structure, unchanged_piece
from .pairing import call_ids
from .work import GO_ON, SHAPE, Earlier, Totals

T = TypeVar("T")
MESSAGES = 256  # of a piece, if the history can be cut there


class CallPlaces:
    """The last place of each call id: after it, nothing refers to the id."""

    def __init__(self) -> None:
        self.ids = Ids()
        self._last = IdNumbers(self.ids)

    def add(self, at: int, message: AgentMessage) -> None:
        self.add_all(at, read_as(message))

    def add_all(self, at: int, read: Iterable[Message]) -> None:
        """Adds the messages as which a message is read."""
        for one in read:
            for id in _ids_in(one):
                self._last[id] = at

    def is_last(self, id: str, at: int) -> bool:
        last = self._last.get(id)
        return last is None or last <= at

    def is_earlier(self, id: str, first: int) -> bool:
        """Whether an id was last at a place before `first`."""
        last = self._last.get(id)
        return last is not None and last < first


class _Call:
    __slots__ = ("ids", "row", "sent")

    def __init__(self, ids: tuple[str, ...], row: int, sent: bool) -> None:
        self.ids, self.row, self.sent = ids, row, sent


class _Pending:
    """Calls and results that are not paired yet, by id; see `pairing._match_results`."""

    def __init__(self, places: CallPlaces | None) -> None:
        """`places`: None if they are not known yet. Then no id is expected to return."""
        self._places = places
        self._calls: dict[str, list[_Call]] = {}
        self._early: set[str] = set()
        self._row = 0
        self._unanswered = 0  # calls of the row: what `pair` adds for them follows the next messages
        self._was_answer = False

    def __bool__(self) -> bool:
        return bool(self._unanswered or (self._places is not None and (self._calls or self._early)))

    def clear(self) -> None:
        """Forgets what a piece before this one is about."""
        self._calls.clear()
        self._early.clear()

    def add(self, at: int, message: Message) -> None:
        is_answer = isinstance(message, AssistantMessage)
        if is_answer and not self._was_answer:
            self._row, self._unanswered = self._row + 1, 0
        self._was_answer = is_answer
        if isinstance(message, ToolResultMessage):
            self._add_result(message.tool_call_id)
        elif isinstance(message, AssistantMessage):
            sent = message.stop_reason not in ("error", "aborted")
            for block in blocks_of(message.content):
                if isinstance(block, ToolCall):
                    call = _Call(call_ids(block), self._row, sent)
                    self._unanswered += 1
                    for id in call.ids:
                        self._calls.setdefault(id, []).append(call)
        for id in _ids_in(message) if self._places is not None else ():
            if self._places.is_last(id, at):  # type: ignore[union-attr]
                self._calls.pop(id, None)
                self._early.discard(id)

    def _add_result(self, id: str) -> None:
        candidates = self._calls.get(id)
        if not candidates:
            self._early.add(id)
            return
        call = max(candidates, key=lambda call: (call.ids[0] == id, call.sent, call.row))
        self._unanswered -= call.row == self._row
        for own in call.ids:
            others = self._calls.get(own, [])
            if call in others:
                others.remove(call)
            if not others:
                self._calls.pop(own, None)


class _Cutter:
    """Collects the messages of a piece."""

    def __init__(self, places: CallPlaces | None, least: int | None) -> None:
        self.piece: list[AgentMessage] = []
        self._least = MESSAGES if least is None else least
        self._pending = _Pending(places)
        self._before: Message | None = None

    def add(self, at: int, message: AgentMessage, read_as: tuple[Message, ...]) -> list[AgentMessage] | None:
        """Adds a message to the piece; returns the piece before it if the history can be cut here."""
        found = None
        may_cut = isinstance(message, UserMessage) and isinstance(self._before, AssistantMessage | ToolResultMessage)
        if may_cut and len(self.piece) >= self._least and not self._pending:
            found, self.piece = self.piece, []
            self._pending.clear()
        self.piece.append(message)
        for one in read_as:  # nothing of other roles, such as the lines that a program writes between turns
            self._pending.add(at, one)
            self._before = one
        return found


def pieces(
    messages: Iterable[tuple[int, AgentMessage]], places: CallPlaces, least: int | None = None
) -> Iterator[list[AgentMessage]]:
    """Cuts a history, given with the place of each message, into pieces of at least so many messages."""
    cutter = _Cutter(places, least)
    for at, message in messages:
        found = cutter.add(at, message, read_as(message))
        if found is not None:
            yield found
    yield cutter.piece


class FirstPass:
    """Cuts a history while its `CallPlaces` are collected.

    `is_valid` is False after an id of an earlier piece has returned, or a piece became too long. Then the pieces so far
    are wrong, and `pieces` must read the history again.
    """

    def __init__(self, least: int | None = None) -> None:
        self.places = CallPlaces()
        self.is_valid = True
        self._first = 0  # the place of the first message of the piece
        self._cutter = _Cutter(None, least)

    def add(self, at: int, message: AgentMessage, *, is_listed: bool = True) -> list[AgentMessage] | None:
        """Adds a message; returns a piece that ends before it. `is_listed`: the message is part of the history."""
        read = read_as(message)
        found = None
        if self.is_valid and is_listed:
            found = self._cutter.add(at, message, read)
            self._first = self._first if found is None else at
            self.is_valid = len(self._cutter.piece) <= _LONGEST
        for one in read:
            for id in _ids_in(one):
                self.is_valid = self.is_valid and not self.places.is_earlier(id, self._first)
        self.places.add_all(at, read)
        return found

    def close(self) -> list[AgentMessage]:
        """Returns the last piece."""
        return self._cutter.piece


_LONGEST = 64 * MESSAGES


# --- adapted pieces --------------------------------------------------------------------------------------------------

ASKED = UserMessage(content="?")
_ANSWERED = AssistantMessage(content="!", stop_reason="stop")
_CALL = ToolCall(id="call_before_this_piece", name="before", arguments={})
_RESULT = ToolResultMessage(tool_call_id=_CALL.id, tool_name=_CALL.name, content="!", is_error=False)
# What precedes a piece, as far as it matters to the piece: an answer, or a result.
_BEFORE: dict[type, tuple[Message, ...]] = {
    AssistantMessage: (ASKED, _ANSWERED),
    ToolResultMessage: (ASKED, replace(_ANSWERED, content=(_CALL,), stop_reason="toolUse"), _RESULT),
}


class AdaptedPiece(NamedTuple):
    """The messages of an adapted piece, and the index of the first one among those of all pieces."""

    first: int
    messages: tuple[Message, ...]
    adapted: Adapted


def adapt_pieces(
    request: Request,
    target: ModelDescriptor | str,
    cut: Iterable[list[AgentMessage]],
    earlier: Earlier,
    end: tuple[Message, ...] = (),
) -> Iterator[AdaptedPiece]:
    """Adapts a history that is cut into pieces; `end` are messages after it, which are none of it.

    `earlier` is that of the first piece.
    """
    count = place = 0
    before: tuple[Message, ...] = ()
    waiting: list[AgentMessage] = []
    for piece, is_last in marking_last(cut):
        waiting += piece
        following = end if is_last else (ASKED,)
        context = replace(request.context, messages=(*before, *waiting, *following))
        adapted = adapt_piece(replace(request, context=context), target, place, len(before), earlier)
        made = adapted.request.context.messages[len(before) :]
        messages = made[: len(made) - len(following)]
        # Else the next message of the user may be merged with the last one here.
        if is_last or (_is_asked(made) and messages and type(messages[-1]) in _BEFORE):
            yield AdaptedPiece(count, messages, adapted)
            place, count = place + len(waiting), count + len(messages)
            earlier.add(adapted.work, messages)  # type: ignore[arg-type]
            before, waiting = _BEFORE[type(messages[-1])] if not is_last else (), []


def unchanged_pieces(request: Request, cut: Iterable[list[AgentMessage]]) -> Iterator[AdaptedPiece]:
    """The pieces of a history that is not adapted."""
    place = 0
    before: tuple[Message, ...] = ()
    for piece in cut:
        messages: tuple[Message, ...] = (*before, *piece)  # type: ignore[arg-type]
        made = replace(request, context=replace(request.context, messages=messages))
        yield AdaptedPiece(place, messages[len(before) :], unchanged_piece(made, place, len(before)))
        place += len(piece)
        last = next((type(one) for message in reversed(piece) for one in reversed(read_as(message))), None)
        before = _BEFORE.get(last, before)  # type: ignore[arg-type]


def count_totals(
    request: Request, target: ModelDescriptor | str, cut: Iterable[list[AgentMessage]], ids: Ids
) -> Totals:
    """Adapts a history that is cut into pieces, and returns what all of them have."""
    given, sent = Taken(), Taken()
    tools: dict[str, ToolSpec] | None = None

    def counted(piece: list[AgentMessage]) -> list[AgentMessage]:
        for message in piece:
            given.add(message)
        return piece

    earlier = Earlier(ids, None)
    system = request.context.system
    for first, messages, adapted in adapt_pieces(request, target, map(counted, cut), earlier):
        context = adapted.request.context
        system = system if first else context.system
        tools = tools if context.tools is None else {**(tools or {}), **{tool.name: tool for tool in context.tools}}
        for message in messages:
            if message.content != GO_ON:  # added after the tokens are counted
                sent.add(message)
    about = replace(request.context, messages=())
    as_sent = replace(about, system=system, tools=None if tools is None else tuple(tools.values()))
    return Totals(earlier.markers.own, sent.total(as_sent), given.total(about))


def _is_asked(made: tuple[Message, ...]) -> bool:
    """Whether the last message is still `ASKED`, alone or beside results."""
    return bool(made) and made[-1] == replace(ASKED, extra=made[-1].extra)


def marking_last(cut: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Yields each item, and whether it is the last."""
    iterator = iter(cut)
    for item in iterator:
        before = item
        break
    else:
        return
    for item in iterator:
        yield before, False
        before = item
    yield before, True


class TargetRepairs:
    """What `adapt` reports of a history, given in pieces, in the order of the passes."""

    def __init__(self) -> None:
        self._losses: dict[tuple[int, bool], dict[Loss, None]] = {}
        self._warnings: dict[Loss, None] = {}

    def add(self, piece: AdaptedPiece) -> None:
        adapted = piece.adapted
        for loss, stage in zip(adapted.losses, adapted.stages, strict=True):
            if adapted.is_own(loss.path):
                self._losses.setdefault((stage, loss.what == "order"), {})[loss] = None
        self._warnings.update(dict.fromkeys(adapted.warnings))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses, then the warnings."""
        found = (loss for _, losses in sorted(self._losses.items()) for loss in losses)
        return (*dict.fromkeys(found), *self._warnings)


class StructuralRepairs:
    """What `structural_repairs` returns for a history, given in pieces."""

    def __init__(self) -> None:
        self._count = 0
        self._losses: tuple[list[Loss], ...] = ([], [], [], [])

    def add(self, piece: Sequence[AgentMessage]) -> None:
        context = Context(messages=tuple(piece))  # type: ignore[arg-type]
        work, paired = repair_structure(Request(model=_NO_MODEL, context=context), self._count)
        shapes, pairs, moves, ids = self._losses
        for at, loss in enumerate(work.losses):
            if at >= paired:
                ids.append(loss)
            elif loss.what == SHAPE:
                shapes.append(loss)
            else:
                (moves if loss.what == "order" else pairs).append(loss)
        self._count += len(piece)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """In the order of the passes, as for the whole."""
        return tuple(loss for losses in self._losses for loss in losses)


_NO_MODEL = ModelDescriptor(id="")


def read_as(message: AgentMessage) -> tuple[Message, ...]:
    """The messages as which adapting reads one."""
    meant = understood(message)
    if meant is not None:
        return tuple(one for one, _ in meant.messages)
    return () if isinstance(message, CustomMessage) else (message,)


def _ids_in(message: Message) -> Iterator[str]:
    if isinstance(message, ToolResultMessage):
        yield message.tool_call_id
    elif isinstance(message, AssistantMessage):
        for block in blocks_of(message.content):
            if isinstance(block, ToolCall):
                yield from call_ids(block)
