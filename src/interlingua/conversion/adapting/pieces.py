"""Long histories in pieces: repairs of a session file that is too large to be in memory.

A history may be cut before a user message, and between two rounds of calls and results (a run of many hours may have
one user message), if no call before it has a result after it, no result before it a call after it, and the last calls
before it have results. Then the repairs of the pieces are those of the whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from ...dialects.foreign_blocks import understood
from ...values.compact import IdNumbers, StringTable
from ...values.losses import Loss
from ...values.messages import (
    AgentMessage,
    AssistantMessage,
    Block,
    CustomMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ...values.request import Context, ModelDescriptor, Request
from ...values.tokens import Taken
from .adapter import Adapted, adapt_piece, repair_structure, unchanged_piece
from .pairing import UNASKED, call_ids, is_sent
from .work import GO_ON, SHAPE, Earlier, HistoryTotals

T = TypeVar("T")
# From so many messages or characters on, a history is cut where it can be.
MESSAGES = 256
CHARACTERS = 4 << 20
MAX_CHARACTERS = 512 << 20


class TooLong(Exception):
    """A history cannot be cut, and has more than `MAX_CHARACTERS` in one piece."""


class CallPlaces:
    """The last place of each call id: after it, nothing refers to the id."""

    def __init__(self) -> None:
        self.ids = StringTable()
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
        self._was_answer = False
        self._unanswered = 0  # calls of the row: formats without ids give them the next results

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
            self._add_calls(message)
        for id in _ids_in(message) if self._places is not None else ():
            if self._places.is_last(id, at):  # type: ignore[union-attr]
                self._calls.pop(id, None)
                self._early.discard(id)

    def _add_calls(self, message: AssistantMessage) -> None:
        sent = is_sent(message)
        for block in blocks_of(message.content):
            if isinstance(block, ToolCall):
                call = _Call(call_ids(block), self._row, sent)
                self._unanswered += 1
                for id in call.ids:
                    self._calls.setdefault(id, []).append(call)

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
    """Collects the messages of a piece; raises TooLong."""

    def __init__(self, places: CallPlaces | None, least: int | None, in_turns: bool = True) -> None:
        self.piece: list[AgentMessage] = []
        self._size = 0
        self._in_turns = in_turns
        self._least = MESSAGES if least is None else least
        self._pending = _Pending(places)
        self._before: Message | None = None
        self._answer: Message | None = None  # the last one

    def add(self, at: int, message: AgentMessage, read_as: tuple[Message, ...]) -> list[AgentMessage] | None:
        """Adds a message to the piece; returns the piece before it if the history can be cut here."""
        found = None
        is_full = len(self.piece) >= self._least or self._size >= CHARACTERS
        if is_full and self._is_border(message, read_as) and not self._pending:
            found, self.piece, self._size = self.piece, [], 0
            self._pending.clear()
        self.piece.append(message)
        self._size += _size_of(message)
        if self._size > MAX_CHARACTERS:
            raise TooLong
        for one in read_as:  # nothing of other roles, such as the lines that a program writes between turns
            self._pending.add(at, one)
            self._before = one
            if isinstance(one, AssistantMessage):
                self._answer = one
        return found

    def _is_border(self, message: AgentMessage, read_as: tuple[Message, ...]) -> bool:
        """Whether a turn or a round begins with this message.

        Answers are only cut off from others by results of calls that are sent: else they may be joined to the next one.
        """
        if isinstance(message, UserMessage):
            return isinstance(self._before, AssistantMessage | ToolResultMessage)
        if not self._in_turns or not isinstance(message, AssistantMessage):
            return False
        is_next = isinstance(self._before, ToolResultMessage) and _has_calls(self._answer)
        return is_next and bool(read_as) and _has_calls(read_as[0])


def _size_of(message: AgentMessage) -> int:
    """Characters in memory, roughly."""
    if isinstance(message, CustomMessage):
        return _FIELDS
    content = message.content
    return _FIELDS + (len(content) if isinstance(content, str) else sum(map(_length, content or ())))


def _length(block: Block) -> int:
    if isinstance(block, ToolCall):
        return sum(len(value) for value in block.arguments.values() if isinstance(value, str))
    return len(getattr(block, "text", None) or getattr(block, "data", None) or "")


_FIELDS = 500


def _has_calls(message: Message | None) -> bool:
    """Whether a message has calls, and is sent."""
    if not isinstance(message, AssistantMessage) or not is_sent(message):
        return False
    return any(isinstance(block, ToolCall) for block in blocks_of(message.content))


def pieces(
    messages: Iterable[tuple[int, AgentMessage]],
    places: CallPlaces,
    least: int | None = None,
    *,
    in_turns: bool = True,
) -> Iterator[list[AgentMessage]]:
    """Cuts a history, given with the place of each message, into pieces of at least so many messages; raises TooLong.

    `in_turns`: also between the rounds of a turn.
    """
    cutter = _Cutter(places, least, in_turns)
    for at, message in messages:
        found = cutter.add(at, message, read_as(message))
        if found is not None:
            yield found
    yield cutter.piece


class FirstPass:
    """Cuts a history while its `CallPlaces` are collected.

    `is_valid` is False after an id of an earlier piece has returned. Then the pieces so far are wrong, and `pieces`
    must read the history again.
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
        for one in read:
            for id in _ids_in(one):
                self.is_valid = self.is_valid and not self.places.is_earlier(id, self._first)
        self.places.add_all(at, read)
        return found

    def close(self) -> list[AgentMessage]:
        """Returns the last piece."""
        return self._cutter.piece


# --- adapted pieces --------------------------------------------------------------------------------------------------

ASKED = UserMessage(content="?")
_ANSWERED = AssistantMessage(content="!", stop_reason="stop")
_CALL = ToolCall(id="call_before_this_piece", name="before", arguments={})
_RESULT = ToolResultMessage(tool_call_id=_CALL.id, tool_name=_CALL.name, content="!", is_error=False)
# What precedes a piece, as far as it matters to the piece, by its last message.
_BEFORE: dict[type, tuple[Message, ...]] = {
    AssistantMessage: (ASKED, _ANSWERED),
    ToolResultMessage: (ASKED, replace(_ANSWERED, content=(_CALL,), stop_reason="toolUse"), _RESULT),
    UserMessage: (ASKED,),
}
# What follows a piece, and the last messages of a piece that no message after them changes, by what follows.
_FOLLOWING: dict[type, tuple[Message, ...]] = {UserMessage: (ASKED,), AssistantMessage: (_ANSWERED, ASKED)}
_LAST: dict[type, tuple[type, ...]] = {
    UserMessage: (AssistantMessage, ToolResultMessage),
    AssistantMessage: (ToolResultMessage, UserMessage),
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
    for piece, after in with_next(cut):
        waiting += piece
        kind = None if after is None else type(after[0])
        following = end if kind is None else _FOLLOWING[kind]
        context = replace(request.context, messages=(*before, *waiting, *following))
        adapted = adapt_piece(replace(request, context=context), target, place, len(before), earlier)
        made = adapted.request.context.messages[len(before) :]
        messages = made[: len(made) - len(following)]
        # Else the next message may be merged with the last one here.
        if kind is None or (_is_kept(following, made) and messages and type(messages[-1]) in _LAST[kind]):
            yield AdaptedPiece(count, messages, adapted)
            place, count = place + len(waiting), count + len(messages)
            assert adapted.work is not None
            earlier.add(adapted.work, messages)
            before, waiting = () if kind is None else _BEFORE[type(messages[-1])], []


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
    request: Request, target: ModelDescriptor | str, cut: Iterable[list[AgentMessage]], ids: StringTable
) -> HistoryTotals:
    """Adapts a history that is cut into pieces, and returns what all of them have."""
    given, sent = Taken(), Taken()

    def counted(piece: list[AgentMessage]) -> list[AgentMessage]:
        for message in piece:
            given.add(message)
        return piece

    earlier = Earlier(ids, None)
    about = as_sent = replace(request.context, messages=())
    for first, messages, adapted in adapt_pieces(request, target, map(counted, cut), earlier):
        context = adapted.request.context
        as_sent = replace(about, system=as_sent.system if first else context.system, tools=context.tools)
        for message in messages:
            if message.content != GO_ON:  # added after the tokens are counted
                sent.add(message)
    return HistoryTotals(earlier.markers.own, sent.total(as_sent), given.total(about))


def _is_kept(following: tuple[Message, ...], made: tuple[Message, ...]) -> bool:
    """Whether the last messages are still those that follow, alone or beside results."""
    last = made[len(made) - len(following) :]
    return tuple(replace(one, extra={}) for one in last) == following


def with_next(cut: Iterable[T]) -> Iterator[tuple[T, T | None]]:
    """Yields each item with the next one; None after the last."""
    iterator = iter(cut)
    for item in iterator:
        before = item
        break
    else:
        return
    for item in iterator:
        yield before, item
        before = item
    yield before, None


_END = 2


def _rank(loss: Loss) -> int:
    """When a pass reports a loss: those of results without a call are after those of messages, then these."""
    return _END if loss.what in ("order", "beginning", "system") else loss.why == UNASKED


def is_of_options(loss: Loss) -> bool:
    """Whether a loss is of the options, which depend on how the history ends: only those of the last piece are true."""
    return loss.path.startswith("$.options")


class TargetRepairs:
    """What `adapt` reports of a history, given in pieces, in the order of the passes."""

    def __init__(self) -> None:
        self._losses: dict[tuple[int, int], dict[Loss, None]] = {}
        self._options: dict[tuple[int, int], dict[Loss, None]] = {}  # those of the last piece
        self._warnings: dict[Loss, None] = {}

    def add(self, piece: AdaptedPiece) -> None:
        adapted = piece.adapted
        self._options = {}
        for loss, stage in zip(adapted.losses, adapted.stages, strict=True):
            if is_of_options(loss):
                self._options.setdefault((stage, _END), {})[loss] = None
            elif adapted.is_own(loss.path):
                self._losses.setdefault((stage, _rank(loss)), {})[loss] = None
        self._warnings.update(dict.fromkeys(adapted.warnings))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses, then the warnings."""
        parts = sorted([*self._losses.items(), *self._options.items()], key=itemgetter(0))
        return (*dict.fromkeys(loss for _, losses in parts for loss in losses), *self._warnings)


class StructuralRepairs:
    """What `structural_repairs` returns for a history, given in pieces."""

    def __init__(self) -> None:
        self._count = 0
        self._shapes: list[Loss] = []
        self._pairs: tuple[list[Loss], ...] = ([], [], [])  # by rank
        self._ids: list[Loss] = []

    def add(self, piece: Sequence[AgentMessage]) -> None:
        context = Context(messages=tuple(piece))  # type: ignore[arg-type]
        work, paired = repair_structure(Request(model=_NO_MODEL, context=context), self._count)
        for at, loss in enumerate(work.losses):
            if at >= paired:
                self._ids.append(loss)
            else:
                (self._shapes if loss.what == SHAPE else self._pairs[_rank(loss)]).append(loss)
        self._count += len(piece)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """In the order of the passes, as for the whole."""
        return tuple(loss for losses in (self._shapes, *self._pairs, self._ids) for loss in losses)


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
