"""Agno: a session with its `runs`, as JSON or in the table of sessions of a database (`agno.db`).

A run has the messages of its requests; those `from_history` repeat earlier runs, and runs of members of a team stand
beside it. github.com/agno-agi/agno `libs/agno/agno/session/agent.py`, `models/message.py`, `db/sqlite/schemas.py`
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.messages import AssistantMessage, Message, ToolResultMessage, Usage
from ...values.request import Conversation
from ..residual import count, fields_of, optional
from .chat_programs import chat, turn
from .program_content import inner, items
from .reading import Documents, Pairing, columns_of, ordered_rows, read_json

API = "agno"


def _is_session(value: Any) -> bool:
    runs = inner(value, "runs")
    known = isinstance(inner(value, "session_id"), str) and isinstance(runs, list)
    return known and all(isinstance(run, dict) and ("run_id" in run or "messages" in run) for run in runs)


def _usage(metrics: Any) -> Usage | None:
    """The input of most providers includes what was read from the cache; where it is less than that, it does not."""
    if not isinstance(metrics, dict) or not (metrics.get("input_tokens") or metrics.get("output_tokens")):
        return None
    given, output, read, written = (count(metrics, f"{name}_tokens") for name in _COUNTS)
    cached = read + written
    return Usage.of(given - cached if given >= cached else given, output, cache_read=read, cache_write=written)


_COUNTS = ("input", "output", "cache_read", "cache_write")


def _messages(runs: list[dict[str, Any]]) -> Iterator[Message]:
    pairs = Pairing()
    for run in runs:
        if run.get("parent_run_id"):  # of a member: the run of its team has what it gave
            continue
        model = optional(run.get("model"))
        for record in items(run.get("messages")):
            if record.get("from_history") is not True:
                for message in turn({**record, "usage": None}, pairs, model=model):
                    yield _completed(message, record)


def _completed(message: Message, record: dict[str, Any]) -> Message:
    if isinstance(message, AssistantMessage):
        return replace(message, usage=_usage(record.get("metrics")))
    if isinstance(message, ToolResultMessage):
        return replace(message, is_error=record.get("tool_call_error") is True)
    return message


def _conversation(session: dict[str, Any]) -> Conversation:
    """One session."""
    title = inner(session, "session_data", "session_name")
    return chat(_once(_messages(items(session["runs"]))), title=title)


def _once(messages: Iterator[Message]) -> Iterator[Message]:
    """The messages without the system prompts of later runs, which repeat the first."""
    seen: set[str] = set()
    for message in messages:
        text = getattr(message, "text", "") if message.role == "system" else None
        if text is None or text not in seen:
            yield message
        if text is not None:
            seen.add(text)


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The sessions of a database: its user names the table."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    known = [name for name in tables if {"session_id", "session_type", "runs"} <= columns_of(connection, name)]
    return _stored(connection, known) if known else None


def _stored(connection: sqlite3.Connection, tables: list[str]) -> Iterator[dict[str, Any]]:
    for table in tables:
        quoted = table.replace('"', '""')
        for row in ordered_rows(connection, f'"{quoted}"', "created_at"):
            runs, data = _value(row["runs"]), _value(row.get("session_data"))
            if isinstance(runs, list) or row["runs"]:  # none yet, or damaged ones
                about = {key: row.get(key) for key in ("session_id", "session_type", "agent_id", "created_at")}
                yield {**about, "session_data": fields_of(data), "runs": runs}


def _value(text: Any) -> Any:
    """A value that is JSON, in older versions as a string in JSON."""
    found = read_json(text)
    return read_json(found) if isinstance(found, str) else found


FORMAT = Documents(API, _is_session, "`runs` of a session", "sessions").format(
    _conversation, database=database, rank=30
)
