"""Usage of responses, each counted once: programs copy responses when a session is resumed or forked."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..values.messages import AgentMessage, AssistantMessage, Usage, text_of
from ..values.request import Conversation, is_aside

Price = Callable[["Used"], float | None]
BUCKETS = ("input", "output", "cache_read", "cache_write", "reasoning")


class Used(NamedTuple):
    """The usage of one response. Copies of the response have the same `key`; without a known price there is no
    `cost`.
    """

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
