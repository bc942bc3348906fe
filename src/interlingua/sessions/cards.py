"""Usage of responses, each counted once; totals over messages; and cards, the gallery's summary of a session.

Programs copy responses when a session is resumed or forked. A card states models, cost, branches, and the shape of the
tree.
"""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from ..values.messages import (
    PROGRAM_MARKS,
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    blocks_of,
    model_of,
    text_of,
)
from ..values.request import Conversation, Entry, is_aside
from .reader import Line
from .session import Session

Price = Callable[["Used"], float | None]
BUCKETS = ("input", "output", "cache_read", "cache_write", "reasoning")


class Used(NamedTuple):
    """The usage of one response. Copies of the response share its `key`; without a known price there is no `cost`."""

    key: bytes
    at: int | None
    provider: str | None
    model: str | None
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    cost: float | None

    def usage(self) -> Usage:
        return Usage.of(
            self.input,
            self.output,
            cache_read=self.cache_read,
            cache_write=self.cache_write,
            reasoning=self.reasoning or None,
        )


def used_by(message: AgentMessage) -> Iterator[Used]:
    """Returns the usage of a message, if it is a response that has one."""
    usage = message.usage if isinstance(message, AssistantMessage) else None
    if isinstance(message, AssistantMessage) and usage is not None:
        numbers = _numbers(usage)
        cost = usage.cost.total if usage.cost is not None else None
        if any(numbers) or cost:
            key = answer_key(message.response_id, message.timestamp, message.model, numbers, text_of(message.content))
            yield Used(key, message.timestamp, message.provider, message.model, *numbers, cost)


def answer_key(id: str | None, at: int | None, model: str | None, numbers: tuple[int, ...], text: str) -> bytes:
    """Identifies a response: by the provider's id, else by its time, content and usage."""
    identity = ("id", id) if id else (at, model, numbers, text)
    return hashlib.blake2b(repr(identity).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def used_in(conversation: Conversation) -> list[Used]:
    """Returns the usage of all responses, and what the file's own total states beyond them."""
    found = [one for entry in conversation.entries if not is_aside(entry) for one in used_by(entry.message)]
    answers = (e.message for e in reversed(conversation.entries) if isinstance(e.message, AssistantMessage))
    rest = unattributed(conversation, found, next(answers, None))
    return found if rest is None else [*found, rest]


def unattributed(conversation: Conversation, found: list[Used], last: AssistantMessage | None) -> Used | None:
    """Returns the difference between a stated total and the sum over the responses, as used by the last of them."""
    stated = conversation.usage
    if stated is None:
        return None
    once = {one.key: one for one in found}.values()
    sums = [sum(getattr(one, bucket) for one in once) for bucket in BUCKETS]
    numbers = [max(0, total - counted) for total, counted in zip(_numbers(stated), sums, strict=True)]
    cost = None if stated.cost is None else max(0.0, stated.cost.total - sum(one.cost or 0.0 for one in once))
    if not any(numbers) and not cost:
        return None
    last = last or AssistantMessage(content="")
    model = last.model or (conversation.model.id if conversation.model is not None else None)
    key = answer_key(None, last.timestamp, model, tuple(numbers), "in all\0" + text_of(last.content))
    provider = last.provider or (conversation.model.provider if conversation.model is not None else None)
    return Used(key, last.timestamp, provider or None, model, *numbers, cost)  # type: ignore[call-arg]


def _numbers(usage: Usage) -> tuple[int, int, int, int, int]:
    return usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning or 0


def add_usage(database: sqlite3.Connection, session: int, used: Iterable[Used], price: Price | None = None) -> None:
    """Writes the usage of a session's responses; `price` returns the cost of those that state none."""
    database.executemany(
        "INSERT INTO usage (session, key, at, model, input, output, cache_read, cache_write, reasoning, cost)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (session, one.key, one.at, one.model, *one[4:9], price(one) if one.cost is None and price else one.cost)
            for one in used
        ),
    )


class Total(NamedTuple):
    """A sum over responses; `unpriced` counts those with an unknown cost."""

    name: str | None
    answers: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    cost: float | None
    unpriced: int


# Of copies the one with the most output counts: a line written during streaming has less of it.
_ONCE = (
    "SELECT usage.*, sessions.project, sessions.store, sessions.agent, MAX(output) FROM usage"
    " JOIN sessions ON sessions.n = usage.session WHERE {where} GROUP BY key"
)
GROUPS = {
    "day": "date(at / 1000, 'unixepoch', 'localtime')",
    "model": "model",
    "project": "project",
    "tool": "CASE store WHEN 'archive' THEN agent ELSE 'interlingua' END",
    "all": "NULL",
}


def totals(database: sqlite3.Connection, group: str, where: str = "TRUE", values: Iterable[object] = ()) -> list[Total]:
    """Returns sums by one of `GROUPS`, each response counted once."""
    sums = ", ".join(f"SUM({bucket})" for bucket in BUCKETS)
    rows = database.execute(
        f"SELECT {GROUPS[group]} AS name, COUNT(*), {sums}, SUM(cost), SUM(cost IS NULL)"
        f" FROM ({_ONCE.format(where=where)}) GROUP BY name ORDER BY name",
        tuple(values),
    )
    return [Total(*row) for row in rows if row[1]]


TOKENS = ("input", "cache_read", "cache_write", "output", "reasoning", "total_tokens")


class Totals:
    """Counts over messages, in total and per model; `unpriced` counts responses without a known cost."""

    def __init__(self) -> None:
        self.conversations = 0
        self.messages: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.tools: Counter[str] = Counter()
        self.failed_tools: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        self.thinking = 0
        self.cost = 0.0
        self.priced = 0
        self.unpriced = 0
        self.models: dict[str, Totals] = {}
        self._used: dict[bytes, Used] = {}

    def add_conversation(
        self, conversation: Conversation, price: Price | None = None, entries: Iterable[Entry] | None = None
    ) -> None:
        """Counts a conversation as the archive does: the usage of each response once, even if copies were added.

        `price` returns the cost of responses that state none. `entries` are given if the conversation is without them.
        """
        self.conversations += 1
        found: list[Used] = []
        last: AssistantMessage | None = None
        for entry in conversation.entries if entries is None else entries:
            if not is_aside(entry):
                self._count(entry.message)
                found += used_by(entry.message)
                if isinstance(entry.message, AssistantMessage):
                    last = entry.message
                    for model in self._of(entry.message.model):
                        model._count(entry.message)
        rest = unattributed(conversation, found, last)
        for one in found if rest is None else (*found, rest):
            self._spend_once(one, price)

    def _spend_once(self, one: Used, price: Price | None) -> None:
        known = self._used.get(one.key)
        if known is not None and known.output >= one.output:
            return
        given = one._replace(cost=price(one)) if one.cost is None and price is not None else one
        self._used[one.key] = given
        for used, sign in ((known, -1), (given, 1)):
            if used is not None:
                for totals in (self, *self._of(used.model)):
                    totals._spend(used, sign)

    def add(self, message: AgentMessage) -> None:
        """Counts a message and its usage."""
        self._count(message)
        if isinstance(message, AssistantMessage):
            models = self._of(message.model)
            for model in models:
                model._count(message)
            if message.usage is not None:
                for totals in (self, *models):
                    totals._use(message.usage)

    def _of(self, model: str | None) -> tuple["Totals", ...]:
        """Returns the totals of a model; none if a program wrote the message."""
        return () if model in PROGRAM_MARKS else (self.models.setdefault(model or "unknown", Totals()),)

    def _count(self, message: AgentMessage) -> None:
        self.messages[message.role] += 1
        if isinstance(message, ToolResultMessage) and message.is_error:
            self.failed_tools[message.tool_name or "unknown"] += 1
        if not isinstance(message, AssistantMessage):
            return
        if message.stop_reason:
            self.stops[message.stop_reason] += 1
        for block in blocks_of(message.content):
            if isinstance(block, ToolCall):
                self.tools[block.name] += 1
            elif isinstance(block, ThinkingBlock):
                self.thinking += 1

    def _spend(self, used: Used, sign: int) -> None:
        for name in TOKENS:
            count = getattr(used, name) if name != "total_tokens" else used.usage().total_tokens
            self.tokens[name] += sign * count
        if used.cost is not None:
            self.cost += sign * used.cost
            self.priced += sign
        else:
            self.unpriced += sign

    def _use(self, usage: Usage) -> None:
        for name in TOKENS:
            self.tokens[name] += getattr(usage, name) or 0
        if usage.cost is not None:
            self.cost += usage.cost.total
            self.priced += 1
        else:
            self.unpriced += 1

    def plain(self) -> dict[str, Any]:
        return {
            "conversations": self.conversations,
            "messages": dict(self.messages),
            "tokens": {name: self.tokens[name] for name in TOKENS},
            "cost": self.cost if self.priced else None,
            "unpriced": self.unpriced,
            "thinking": self.thinking,
            "tools": dict(self.tools.most_common()),
            "failedTools": dict(self.failed_tools.most_common()),
            "stopReasons": dict(self.stops.most_common()),
            "models": {name: totals.plain() for name, totals in self.models.items()},
        }


LANES, DOTS = 4, 24
_MAX_DOTS = LANES * DOTS * 4
_MAX_RECORDS = 256  # records that are remembered because messages may follow them
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


class CardState(Struct, omit_defaults=True):
    """The state of a card that is computed line by line; serializable, so that indexing can resume."""

    models: dict[str, int] = {}
    cost: float = 0.0
    priced: int = 0
    unpriced: int = 0
    problems: int = 0
    dots: list[tuple[str, str | None, int]] = []  # id, parent and role of the first messages
    ends: dict[str, None] = {}  # messages that no message follows
    records: dict[str, str | None] = {}  # the latest records of a program, and the message that each follows

    def take(self, line: Line) -> None:
        if line.entry is None:
            self.problems += line.problem is not None
            return
        message: AgentMessage = line.entry.message
        if isinstance(message, AssistantMessage):
            self._answer(message)
        id, parent = line.entry.id or "", line.entry.parent_id
        parent = self.records.get(parent, parent) if parent is not None else None
        if is_record(message):
            self.records[id] = parent
            if len(self.records) > _MAX_RECORDS:
                del self.records[next(iter(self.records))]
            return
        self.ends.pop(parent or "", None)
        self.ends[id] = None
        if len(self.dots) < _MAX_DOTS:
            self.dots.append((id, parent, _role(message)))

    def _answer(self, message: AssistantMessage) -> None:
        model = model_of(message)
        if model is not None:
            self.models[model] = self.models.get(model, 0) + 1
        if message.usage is None:
            return
        if message.usage.cost is None:
            self.unpriced += 1
        else:
            self.cost += message.usage.cost.total
            self.priced += 1

    def card(self, session: Session) -> Card:
        marks = session.marks
        return Card(
            models=tuple(self.models),
            branches=len(self.ends) or len(session.leaf_ids()),
            cost=self.cost if self.priced else None,
            unpriced=self.unpriced,
            shape=_lanes(self.dots),
            rated=sum(marks.rating(id) is not None for id in marks.notes),
            notes=sum(note.text is not None for notes in marks.notes.values() for note in notes.values()),
            problems=self.problems,
        )


def card_of(session: Session) -> Card:
    """The card of a session, from a full read."""
    state = CardState()
    for line in session.lines():
        state.take(line)
    return state.card(session)


def is_record(message: AgentMessage) -> bool:
    """Whether a message is a program's record of its own work: it is no step of the conversation and starts no path."""
    return isinstance(message, CustomMessage) and message.role != "compaction"


def _role(message: Any) -> int:
    match message:
        case UserMessage():
            return _OTHER if message.origin == "program" else _USER
        case AssistantMessage():
            return _ASSISTANT + (_FAILED if message.stop_reason in ("error", "aborted") else 0)
        case ToolResultMessage():
            return _TOOL + (_FAILED if message.is_error else 0)
        case _:
            return _OTHER


def _lanes(dots: list[tuple[str, str | None, int]]) -> tuple[tuple[int, ...], ...]:
    """Puts each entry in the lane of its parent, or in a new lane where that one has continued."""
    lanes: list[list[int]] = []
    ends: dict[str, int] = {}  # the last entry of a lane, and the lane
    for id, parent, role in dots:
        lane = ends.pop(parent, None) if parent is not None else None
        if lane is None:
            lane = len(lanes)
            lanes.append([])
        lanes[lane].append(role)
        ends[id] = lane
    return tuple(tuple(lane[:DOTS]) for lane in lanes[:LANES])
