"""Simon Willison's `llm`: the conversations of its `logs.db`, and the rows that `llm logs --json` prints.

A row is a prompt with its response. Results of tools stand in the row whose prompt sent them back. A document of the
database is the list of a conversation's rows, which is what the command prints. llm.datasette.io/en/stable/logging.html
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import Message, TextBlock
from ...values.request import Conversation
from ..residual import body_of, optional, reading
from ..wire import Parts
from . import templates
from .program_content import conversation_of, items, moment, user
from .reading import Pairing, columns_of, plain_usage, rounds, rows_by_key, several, values_at

API = "llm-logs"

_ROW = frozenset(("model", "prompt", "response", "conversation_id", "datetime_utc"))


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() >= _ROW


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_row, value))


def _conversation_of(row: dict[str, Any]) -> Any:
    if not _is_row(row):
        raise BadWire(API, "expected `prompt`, `response` and `conversation_id`")
    return row["conversation_id"] or row.get("id")


PARTS = Parts(lambda header, lists: iter(lists.grouped(_conversation_of, "").values()), ("",))


def _messages(rows: list[dict[str, Any]]) -> Iterator[Message]:
    pairs = Pairing()
    for row in sorted(rows, key=lambda row: moment(row["datetime_utc"]) or 0):
        when = moment(row["datetime_utc"])
        for one in items(row.get("tool_results")):
            yield pairs.result(one.get("tool_call_id"), one.get("name"), optional(one.get("output")), timestamp=when)
        prompt, response = optional(row["prompt"]), optional(row["response"])
        if prompt:
            yield user(prompt, when)
        blocks: list[Any] = [TextBlock(text=response)] if response else []
        blocks += [
            pairs.call(c.get("tool_call_id"), c.get("name"), c.get("arguments")) for c in items(row.get("tool_calls"))
        ]
        usage = plain_usage(row.get("input_tokens"), row.get("output_tokens"))
        yield from rounds(blocks, {"usage": usage}, model=optional(row["model"]), timestamp=when)


@reading(API)
def decode(data: Any) -> Conversation:
    """The rows of one conversation."""
    body = body_of(data, API)
    rows = [body] if _is_row(body) else body
    if not _is_rows(rows):
        raise BadWire(API, "expected rows with `prompt`, `response` and `conversation_id`")
    if several(PARTS, rows) is not None:
        raise BadWire(API, "rows of several conversations: take one of them")
    title = next((row["conversation_name"] for row in rows if row.get("conversation_name")), None)
    system = next((row["system"] for row in rows if row.get("system")), None)
    return templates.keep(conversation_of(_messages(rows), title=title, system=optional(system)), body, API)


def split(value: Any) -> list[Any] | None:
    """The conversations of rows, if there are several."""
    return several(PARTS, value) if _is_rows(value) else None


def detect(value: Any) -> str | None:
    """Whether a document is one row, or several."""
    return "rows of `prompt` and `response` with a `conversation_id`" if _is_row(value) or _is_rows(value) else None


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The conversations of a `logs.db`."""
    return _conversations(connection) if columns_of(connection, "responses") >= _ROW else None


def _conversations(connection: sqlite3.Connection) -> Iterator[list[dict[str, Any]]]:
    """The conversations one by one, in the order of their first rows."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    names = dict(connection.execute("SELECT id, name FROM conversations")) if "conversations" in tables else {}
    beside = {
        table: rows_by_key(connection, f"SELECT response_id, rowid FROM {table} ORDER BY id")
        for table in ("tool_calls", "tool_results")
        if table in tables
    }
    key = "coalesce(nullif(conversation_id, ''), id)"
    found = rows_by_key(connection, f"SELECT {key}, rowid FROM responses ORDER BY datetime_utc, id")
    for rows in found.values():
        responses = list(values_at(connection, "SELECT * FROM responses WHERE rowid = ?", rows))
        for response in responses:
            response["conversation_name"] = names.get(response["conversation_id"])
            for table, numbers in beside.items():
                if one := numbers.get((response["id"],)):
                    query = f"SELECT * FROM {table} WHERE rowid = ?"
                    response[table] = list(values_at(connection, query, one))
        yield responses


FORMAT = templates.file_format(API, decode, detect=detect, split=split, parts=PARTS, database=database, rank=20)
