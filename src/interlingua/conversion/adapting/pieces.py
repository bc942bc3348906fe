"""Long histories in pieces: repairs of a session file that is too large to be in memory.

A history may be cut before a user message if no call before it has a result after it, no result before it a call after
it, and the last calls before it have results. Then the repairs of the pieces are those of the whole.
"""

from collections.abc import Iterable, Iterator, Sequence

from ...dialects.foreign_blocks import understood
from ...values.compact import IdNumbers
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
from ...values.request import Context, ModelDescriptor, Request
from .adapter import repair_structure
from .pairing import call_ids
from .work import SHAPE

MESSAGES = 256  # of a piece, if the history can be cut there


class CallPlaces:
    """The last place of each call id: after it, nothing refers to the id."""

    def __init__(self) -> None:
        self._last = IdNumbers()

    def add(self, at: int, message: AgentMessage) -> None:
        for one in _read_as(message):
            for id in _ids_in(one):
                self._last[id] = at

    def is_last(self, id: str, at: int) -> bool:
        last = self._last.get(id)
        return last is None or last <= at


class _Call:
    __slots__ = ("ids", "row", "sent")

    def __init__(self, ids: tuple[str, ...], row: int, sent: bool) -> None:
        self.ids, self.row, self.sent = ids, row, sent


class _Pending:
    """Calls and results that are not paired yet, by id; see `pairing._match_results`."""

    def __init__(self, places: CallPlaces) -> None:
        self._places = places
        self._calls: dict[str, list[_Call]] = {}
        self._early: set[str] = set()
        self._row = 0
        self._unanswered = 0  # calls of the row: what `pair` adds for them follows the next messages
        self._was_answer = False

    def __bool__(self) -> bool:
        return bool(self._calls or self._early or self._unanswered)

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
        for id in _ids_in(message):
            if self._places.is_last(id, at):
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


def pieces(
    messages: Iterable[tuple[int, AgentMessage]], places: CallPlaces, least: int | None = None
) -> Iterator[list[AgentMessage]]:
    """Cuts a history, given with the place of each message, into pieces of at least so many messages."""
    least = MESSAGES if least is None else least
    piece: list[AgentMessage] = []
    pending = _Pending(places)
    before: AgentMessage | None = None
    for at, message in messages:
        may_cut = isinstance(message, UserMessage) and isinstance(before, AssistantMessage | ToolResultMessage)
        if may_cut and len(piece) >= least and not pending:
            yield piece
            piece = []
        piece.append(message)
        for one in _read_as(message):  # nothing of other roles, such as the lines that a program writes between turns
            pending.add(at, one)
            before = one
    yield piece


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


def _read_as(message: AgentMessage) -> tuple[Message, ...]:
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
