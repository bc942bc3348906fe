"""OpenAI Agents SDK: the sessions of a `SQLiteSession`, items of the Responses API in the order they were added.

A document of the database is `{"session_id": …, "items": […]}`. Each branch of an `AdvancedSQLiteSession` is one, with
its name in `branch_id`. github.com/openai/openai-agents-python `src/agents/memory`, `src/agents/extensions/memory`
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from ...values.request import Entry
from .. import dialect
from .line_sessions import Reader, document_format
from .reading import columns_of, read_json, rows_by_key, values_at

API = "agents-sdk"
WIRE = "openai-responses"


def _is_session(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("session_id"), str) and isinstance(value.get("items"), list)


class _Reader(Reader):
    def entries(self, records: Iterable[Any]) -> Iterator[Entry]:
        return (Entry(message=one) for one in dialect(WIRE).messages_in(records))  # type: ignore[attr-defined]


def detect(value: Any) -> str | None:
    """Whether a document is a session of a database."""
    return "`items` of a `session_id`" if _is_session(value) else None


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The sessions of a database."""
    known = columns_of(connection, "agent_messages")
    return _sessions(connection) if {"session_id", "message_data"} <= known else None


def _sessions(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """The sessions one by one, in the order of their first items; a branch refers to those it has from another."""
    query = "SELECT session_id, rowid FROM agent_messages ORDER BY id"
    if {"branch_id", "message_id", "sequence_number"} <= columns_of(connection, "message_structure"):
        # Sessions of the plain class may be in the same file; they have no structure.
        query = (
            "SELECT session_id, branch_id, message_id FROM (SELECT session_id, branch_id, message_id, sequence_number,"
            " id FROM message_structure UNION ALL SELECT session_id, NULL, id, id, id FROM agent_messages WHERE"
            " session_id NOT IN (SELECT session_id FROM message_structure)) ORDER BY sequence_number, id"
        )
    for (id, *key), rows in rows_by_key(connection, query).items():
        branch = {"branch_id": str(key[0])} if key and key[0] is not None else {}
        data = values_at(connection, "SELECT message_data FROM agent_messages WHERE rowid = ?", rows)
        items = [item for one in data if isinstance(item := read_json(one["message_data"]), dict)]
        if items:
            yield {"session_id": str(id), **branch, "items": items}


FORMAT = document_format(
    API,
    "items",
    lambda session, items: _Reader() if _is_session(session) else None,
    "a `session_id` and `items`",
    detect=detect,
    database=database,
    rank=20,
)
