"""Full text search in PostgreSQL: a `tsvector` for each text, in the database of the sessions.

The same interface as the index beside files. Words are not stemmed (the configuration `simple`), since sessions contain
many languages and much code.
"""

import contextlib
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ..values.errors import InterlinguaError
from ..values.text import spaced
from .cards import Card, CardState
from .session import Session
from .sql import Database, SqlStore
from .store import SessionInfo
from .text_index import COUNTED, IndexProgress, Results, TextHit, digest_of, exact_or_prefixes, part_of, text_at
from .texts import Filters, Query, SearchText, Term, is_in, snippet, texts_of

BATCH_LINES = 400
MAX_CHARS = 200_000  # a tsvector holds at most 1 MB; a longer text is several rows

_ACCENTS = re.compile("[\u0300-\u036f]")

TEXT_TABLES = (
    """CREATE TABLE IF NOT EXISTS indexed_sessions (
        n BIGSERIAL PRIMARY KEY, agent TEXT NOT NULL, id TEXT NOT NULL, title TEXT, modified BIGINT, size BIGINT,
        lines INTEGER NOT NULL, last BYTEA, state BYTEA, card BYTEA, UNIQUE (agent, id))""",
    """CREATE TABLE IF NOT EXISTS indexed_texts (
        n BIGSERIAL PRIMARY KEY, session BIGINT NOT NULL REFERENCES indexed_sessions (n) ON DELETE CASCADE,
        line INTEGER NOT NULL, part INTEGER NOT NULL, kind TEXT NOT NULL, role TEXT NOT NULL, tool TEXT, model TEXT,
        failed SMALLINT NOT NULL, at BIGINT, cost DOUBLE PRECISION, body TSVECTOR NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS indexed_texts_body ON indexed_texts USING GIN (body)",
    "CREATE INDEX IF NOT EXISTS indexed_texts_session ON indexed_texts (session, line)",
)


class PostgresTextIndex:
    """The index of the sessions of one database; results carry `name` as their store."""

    def __init__(self, store: SqlStore, name: str = "own") -> None:
        self._store = store
        self._name = name
        self._database: Database = store.database
        with self._database.transaction():
            for table in TEXT_TABLES:
                self._database.rows(table)

    # --- following ---------------------------------------------------------------------------------------------------

    def follow(
        self,
        *,
        progress: Callable[[IndexProgress], object] = lambda progress: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> IndexProgress:
        """Updates the index for every session, the latest first; `stop` may interrupt it at any time."""
        sessions = [(agent, info) for agent in self._store.agents() for info in self._store.sessions(agent)]
        sessions.sort(key=lambda one: -one[1].modified)
        there = {(agent, info.id) for agent, info in sessions}
        for n, agent, id in self._database.rows("SELECT n, agent, id FROM indexed_sessions"):
            if (agent, id) not in there:
                self._database.rows("DELETE FROM indexed_sessions WHERE n = ?", n)
        done = IndexProgress(0, len(sessions))
        for number, (agent, info) in enumerate(sessions, 1):
            if stop():
                break
            with contextlib.suppress(InterlinguaError):
                self._follow_session(agent, info, stop)
            done = IndexProgress(number, len(sessions))
            progress(done)
        return done

    def _follow_session(self, agent: str, info: SessionInfo, stop: Callable[[], bool]) -> None:
        known = self._database.rows(
            "SELECT n, lines, last, size, modified FROM indexed_sessions WHERE agent = ? AND id = ?", agent, info.id
        )
        if known and (known[0][3], known[0][4]) == (info.size, info.modified):
            return
        with Session.open(info.id, agent=agent, store=self._store, read_only=True, create=False) as session:
            number, start = self._place(session, known)
            while start < session.line_count and not stop():
                start = self._add_batch(number, session, start)
            if start >= session.line_count:
                card = self._state(number).card(session)
                self._database.rows(
                    "UPDATE indexed_sessions SET title = ?, modified = ?, size = ?, card = ? WHERE n = ? AND lines = ?",
                    info.title,
                    info.modified,
                    info.size,
                    msgspec.msgpack.encode(card),
                    number,
                    start,
                )

    def _place(self, session: Session, known: list[tuple[Any, ...]]) -> tuple[int, int]:
        """The row number of a session, and its first line that is not indexed yet."""
        if known:
            number, lines, last = known[0][:3]
            same = lines <= session.line_count and (not lines or digest_of(session, lines) == bytes(last or b""))
            if same:
                return number, lines
            self._database.rows("DELETE FROM indexed_sessions WHERE n = ?", number)
        made = self._database.rows(
            "INSERT INTO indexed_sessions (agent, id, lines) VALUES (?, ?, 0)"
            " ON CONFLICT (agent, id) DO UPDATE SET lines = indexed_sessions.lines RETURNING n, lines",
            session.agent,
            session.id,
        )
        return int(made[0][0]), int(made[0][1])

    def _add_batch(self, number: int, session: Session, start: int) -> int:
        state = self._state(number)
        end = start
        into = (
            "INSERT INTO indexed_texts (session, line, part, kind, role, tool, model, failed, at, cost, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, to_tsvector('simple', ?))"
        )
        with self._database.transaction():
            # The row is locked until the commit: another process that indexes the session waits, and then finds it
            # done.
            now = self._database.rows("SELECT lines FROM indexed_sessions WHERE n = ? FOR UPDATE", number)
            if not now or now[0][0] != start:  # another process is indexing it
                return session.line_count
            for line in session.lines(start, BATCH_LINES, revised=False):
                end = line.number + 1
                state.take(line)
                for text in texts_of(line):
                    for piece in _pieces(text):
                        about = (text.kind, _clean(text.role), _clean(text.tool), _clean(text.model))
                        failed = int(text.is_error)
                        place = (number, line.number, part_of(text))
                        self._database.rows(into, *place, *about, failed, text.at, text.cost, piece)
            self._database.rows(
                "UPDATE indexed_sessions SET lines = ?, last = ?, state = ? WHERE n = ?",
                end,
                digest_of(session, end),
                msgspec.msgpack.encode(state),
                number,
            )
        return end

    def _state(self, number: int) -> CardState:
        rows = self._database.rows("SELECT state FROM indexed_sessions WHERE n = ?", number)
        known = rows[0][0] if rows else None
        return CardState() if known is None else msgspec.msgpack.decode(bytes(known), type=CardState)

    def card(self, store: str, agent: str, id: str) -> tuple[int, int, Card] | None:
        """Size, modification time and card of a session when it was last indexed."""
        rows = self._database.rows(
            "SELECT size, modified, card FROM indexed_sessions WHERE agent = ? AND id = ?", agent, id
        )
        if not rows or rows[0][2] is None:
            return None
        return rows[0][0], rows[0][1], msgspec.msgpack.decode(bytes(rows[0][2]), type=Card)

    def forget(self, store: str, agent: str, id: str, session: Session | None = None) -> None:
        """Removes a session from the index."""
        self._database.rows("DELETE FROM indexed_sessions WHERE agent = ? AND id = ?", agent, id)

    def delete(self) -> None:
        """Empties the index; the next `follow` builds it again."""
        self._database.rows("DELETE FROM indexed_sessions")

    def close(self) -> None:
        """Does nothing: the connection belongs to the store."""

    # --- searching ---------------------------------------------------------------------------------------------------

    def search(self, query: Query) -> Results:
        """The texts that match a query, the latest first."""
        return exact_or_prefixes(query, self._search)

    def filters(self) -> Filters:
        """The roles, tools and models of the indexed texts."""

        def values(column: str) -> tuple[str, ...]:
            rows = self._database.rows(f"SELECT DISTINCT {column} FROM indexed_texts WHERE {column} <> '' ORDER BY 1")
            return tuple(row[0] for row in rows)

        return Filters(values("role"), values("tool"), values("model"))

    def _search(self, query: Query, terms: list[Term], *, exact: bool) -> Results:
        if query.project is not None or (query.stores and self._name not in query.stores):
            return Results([], 0, 0, None)  # sessions of a store have no project
        where, values = _conditions(query, terms, exact, self._by_total(query))
        found = f"FROM indexed_texts t JOIN indexed_sessions s ON s.n = t.session {where}"
        rows = self._database.rows(
            f"SELECT s.agent, s.id, s.title, t.line, t.part {found} ORDER BY t.n DESC LIMIT ? OFFSET ?",
            *values,
            query.limit + 1,
            query.offset,
        )
        counted = f"SELECT t.session {found} LIMIT ?"
        total = self._database.rows(
            f"SELECT COUNT(*), COUNT(DISTINCT session) FROM ({counted}) AS hits", *values, COUNTED
        )
        hits = list(self._shown(rows[: query.limit], terms, exact))
        more = query.offset + query.limit if len(rows) > query.limit else None
        return Results(hits, int(total[0][0]), int(total[0][1]), more)

    def _by_total(self, query: Query) -> list[int] | None:
        """The sessions whose total cost is in the range of the query; None without one."""
        if query.min_total is None and query.max_total is None:
            return None
        rows = self._database.rows("SELECT n, card FROM indexed_sessions WHERE card IS NOT NULL")
        costs = [(n, msgspec.msgpack.decode(bytes(card), type=Card).cost) for n, card in rows]
        low, high = query.min_total, query.max_total
        return [
            n
            for n, cost in costs
            if cost is not None and (low is None or cost >= low) and (high is None or cost <= high)
        ]

    def _shown(self, rows: list[tuple[Any, ...]], terms: list[Term], exact: bool) -> Iterator[TextHit]:
        opened: dict[tuple[str, str], Session] = {}
        with contextlib.ExitStack() as stack:
            for agent, id, title, line, part in rows:
                try:
                    if (agent, id) not in opened:
                        session = Session.open(id, agent=agent, store=self._store, read_only=True, create=False)
                        opened[agent, id] = stack.enter_context(session)
                    text = text_at(opened[agent, id], line, part)
                except InterlinguaError:
                    continue
                if text is not None and is_in(text.text, terms, exact=exact):
                    yield TextHit(self._name, agent, id, title, line, text, snippet(text.text, terms))


def _conditions(
    query: Query, terms: list[Term], exact: bool, sessions: list[int] | None = None
) -> tuple[str, list[Any]]:
    parts: list[str] = []
    values: list[Any] = []
    for term in terms:
        sign = "NOT " if term.excluded else ""
        # postgresql.org/docs/current/textsearch-controls.html: `phraseto_tsquery` takes any text, `to_tsquery` has a
        # syntax of its own, `:*` for prefixes and `<->` for phrases.
        way = "phraseto_tsquery('simple', ?)" if exact or term.excluded else "to_tsquery('simple', ?)"
        parts.append(f"{sign}t.body @@ {way}")
        texts = [_unaccented(word) for word in term.tokens]
        values.append(" ".join(texts) if exact or term.excluded else " <-> ".join(f"'{word}'" for word in texts) + ":*")
    for column, sign, value in (
        ("t.role", "=", _clean(query.role)),
        ("t.tool", "=", _clean(query.tool)),
        ("t.model", "=", _clean(query.model)),
        ("t.failed", "=", 1 if query.is_error else None),
        ("t.cost", ">=", query.min_cost),
        ("t.at", ">=", query.since),
        ("t.at", "<=", query.until),
        ("s.agent", "=", _clean(query.agent)),
    ):
        if value is not None:
            parts.append(f"{column} {sign} ?")
            values.append(value)
    if sessions is not None:
        parts.append("t.session = ANY(?)")
        values.append(sessions)
    if query.sessions:
        parts.append("(" + " OR ".join("(s.agent = ? AND s.id = ?)" for _ in query.sessions) + ")")
        values += [value for pair in query.sessions for value in pair]
    return (f"WHERE {' AND '.join(parts)}" if parts else ""), values


def _pieces(text: SearchText) -> Iterator[str]:
    whole = _clean(_unaccented(spaced(text.text))) or ""
    for start in range(0, len(whole), MAX_CHARS):
        yield whole[start : start + MAX_CHARS]


def _unaccented(text: str) -> str:
    """The text without accents. FTS5 does this itself; PostgreSQL would need the extension `unaccent`."""
    return text if text.isascii() else _ACCENTS.sub("", unicodedata.normalize("NFKD", text))


def _clean(text: str | None) -> str | None:
    """The text without NUL characters, which PostgreSQL text cannot contain."""
    return None if text is None else text.replace("\0", " ")
