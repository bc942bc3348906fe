"""What the gallery shows of a session beside its name: models, cost, branches, and a sketch of its tree."""

from typing import NamedTuple

from msgspec import Struct

from ..messages import AgentMessage, AssistantMessage, CustomMessage, ToolResultMessage, UserMessage
from ..sessions import Session
from ..sessions.session import Line
from ..sessions.totals import Totals
from ..sessions.tree import ENTRY

LANES, DOTS = 4, 24
_USER, _ASSISTANT, _TOOL, _OTHER, _FAILED = 0, 1, 2, 3, 8


class Card(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`shape` has lanes of roles, the main path first; 8 is added where something failed."""

    models: tuple[str, ...] = ()
    branches: int = 0
    cost: float | None = None
    unpriced: int = 0
    shape: tuple[tuple[int, ...], ...] = ()
    rated: int = 0
    notes: int = 0
    problems: int = 0


class _Dot(NamedTuple):
    id: str
    parent: str | None
    role: int


class CardMaker:
    """Gathers a card line by line."""

    def __init__(self) -> None:
        self._totals = Totals()
        self._dots: list[_Dot] = []
        self._problems = 0

    def take(self, line: Line) -> None:
        if line.entry is None:
            self._problems += line.problem is not None
            return
        message: AgentMessage = line.entry.message
        self._totals.add(message)
        if len(self._dots) < LANES * DOTS * 4:
            self._dots.append(_Dot(line.entry.id or "", line.entry.parent_id, _role(message)))

    def card(self, session: Session) -> Card:
        marks = session.marks
        totals = self._totals
        return Card(
            models=tuple(name for name in totals.models if name != "unknown"),
            branches=len(session.leaf_ids()),
            cost=totals.cost if totals.priced else None,
            unpriced=totals.unpriced,
            shape=_lanes(self._dots),
            rated=sum(marks.rating(id) is not None for id in marks.notes),
            notes=sum(note.text is not None for notes in marks.notes.values() for note in notes.values()),
            problems=self._problems,
        )


def card_of(session: Session) -> Card:
    maker = CardMaker()
    for line in session.lines():
        if line.kind >= ENTRY or line.problem is not None:
            maker.take(line)
    return maker.card(session)


def _role(message: AgentMessage) -> int:
    match message:
        case UserMessage():
            return _USER
        case AssistantMessage():
            return _ASSISTANT + (_FAILED if message.stop_reason in ("error", "aborted") else 0)
        case ToolResultMessage():
            return _TOOL + (_FAILED if message.is_error else 0)
        case CustomMessage():
            return _OTHER
        case _:
            return _OTHER


def _lanes(dots: list[_Dot]) -> tuple[tuple[int, ...], ...]:
    """Each entry in the lane of its parent; where that lane has gone on, in the next free one."""
    lanes: list[list[int]] = []
    ends: dict[str, int] = {}  # the entry at which a lane ends, and the lane
    for dot in dots:
        lane = ends.pop(dot.parent, None) if dot.parent is not None else None
        if lane is None:
            lane = len(lanes)
            lanes.append([])
        lanes[lane].append(dot.role)
        ends[dot.id] = lane
    return tuple(tuple(lane[:DOTS]) for lane in lanes[:LANES])
