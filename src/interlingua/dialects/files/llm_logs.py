"""Simon Willison's `llm`: the conversations of its `logs.db`, and the rows that `llm logs --json` prints.

A row is a prompt with its response. Results of tools stand in the row whose prompt sent them back. A document of the
database is the list of a conversation's rows, which is what the command prints. llm.datasette.io/en/stable/logging.html
From version 0.32 on, the database has a conversation as a thread of `turns`, which delimit what each of them added to
a tree of `messages` with `parts`; it has both, and a thread may continue an older conversation.
"""

import base64
import itertools
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import Block, Message, TextBlock, ThinkingBlock, Usage
from ...values.request import Conversation
from ..residual import body_of, fields_of, optional, reading
from ..wire import Parts
from . import templates
from .program_content import attachment_of, conversation_of, items, moment, user
from .reading import (
    Pairing,
    columns_of,
    json_value,
    openai_usage,
    plain_usage,
    read_json,
    rounds,
    rows_by_key,
    rows_of,
    several,
    values_at,
)

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


def _usage(row: dict[str, Any]) -> Usage | None:
    """The counts of a row; `token_details` are what else the provider stated, in its own names."""
    if plain_usage(row.get("input_tokens"), row.get("output_tokens")) is None:
        return None
    details = fields_of(json_value(row.get("token_details")))
    is_chat = not details.keys().isdisjoint(("prompt_tokens_details", "completion_tokens_details"))
    names = ("prompt_tokens", "completion_tokens") if is_chat else ("input_tokens", "output_tokens")
    return openai_usage({**details, names[0]: row.get("input_tokens"), names[1]: row.get("output_tokens")})


def _with_fragments(row: dict[str, Any], key: str) -> str | None:
    """A text behind its fragments, which the rows of newer versions repeat in it."""
    text = optional(row.get(key)) or ""
    fragments = [optional(one.get("content")) or "" for one in items(row.get(f"{key}_fragments"))]
    return "\n".join(part for part in (*(one for one in fragments if one not in text), text) if part) or None


def _attachments(given: Any) -> list[Block]:
    found = []
    for one in items(given):
        mime, content = optional(one.get("type")), optional(one.get("content"))
        url = f"data:{mime};base64,{content}" if content else optional(one.get("url")) or optional(one.get("path"))
        if url or one.get("id"):
            found.append(attachment_of(url or str(one["id"]), mime, None))
    return found


def _messages(rows: list[dict[str, Any]]) -> Iterator[Message]:
    pairs = Pairing()
    for row in sorted(rows, key=lambda row: moment(row["datetime_utc"]) or 0):
        when = moment(row["datetime_utc"])
        for one in items(row.get("tool_results")):
            content: Any = optional(one.get("output"))
            if given := _attachments(one.get("attachments")):
                content = (TextBlock(text=content or ""), *given)
            failed = one.get("exception") is not None
            yield pairs.result(one.get("tool_call_id"), one.get("name"), content, failed, timestamp=when)
        prompt, response = _with_fragments(row, "prompt"), optional(row["response"])
        files = _attachments(row.get("attachments"))
        if prompt or files:
            yield user((*files, *([TextBlock(text=prompt)] if prompt else ())) if files else prompt, when)
        reasoned = optional(row.get("reasoning"))
        blocks: list[Any] = [ThinkingBlock(thinking=reasoned)] if reasoned else []
        blocks += [TextBlock(text=response)] if response else []
        blocks += [
            pairs.call(c.get("tool_call_id"), c.get("name"), c.get("arguments")) for c in items(row.get("tool_calls"))
        ]
        yield from rounds(blocks, {"usage": _usage(row)}, model=optional(row["model"]), timestamp=when)


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
    system = next((text for row in rows if (text := _with_fragments(row, "system"))), None)
    return templates.keep(conversation_of(_messages(rows), title=title, system=optional(system)), body, API)


def split(value: Any) -> list[Any] | None:
    """The conversations of rows, if there are several."""
    return several(PARTS, value) if _is_rows(value) else None


def detect(value: Any) -> str | None:
    """Whether a document is one row, or several."""
    return "rows of `prompt` and `response` with a `conversation_id`" if _is_row(value) or _is_rows(value) else None


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The conversations of a `logs.db`."""
    is_known = columns_of(connection, "responses") >= _ROW or columns_of(connection, "turns") >= _TURN
    return _conversations(connection) if is_known else None


_TURN = frozenset(("thread_id", "parent_message_hash", "tip_message_hash", "model", "datetime_utc"))


def _conversations(connection: sqlite3.Connection) -> Iterator[list[dict[str, Any]]]:
    """The conversations one by one, in the order of their first rows."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    names: dict[Any, Any] = {}
    for table in ("conversations", "threads"):
        names |= dict(connection.execute(f"SELECT id, name FROM {table}")) if table in tables else {}
    beside = {
        table: rows_by_key(connection, f"SELECT response_id, rowid FROM {table} ORDER BY id")
        for table in ("tool_calls", "tool_results")
        if table in tables
    }
    responses, turns = (
        rows_by_key(
            connection,
            f"SELECT coalesce(nullif({column}, ''), id), rowid FROM {table} ORDER BY datetime_utc, id",
        )
        if table in tables
        else {}
        for table, column in (("responses", "conversation_id"), ("turns", "thread_id"))
    )
    for key in dict.fromkeys((*responses, *turns)):
        rows = list(values_at(connection, "SELECT * FROM responses WHERE rowid = ?", responses.get(key, ())))
        for row in rows:
            row["conversation_name"] = names.get(row["conversation_id"])
            row |= _legacy_inputs(connection, row["id"], tables)
            for table, numbers in beside.items():
                if one := numbers.get((row["id"],)):
                    query = f"SELECT * FROM {table} WHERE rowid = ?"
                    row[table] = list(values_at(connection, query, one))
        rows += (
            {**_turn(connection, turn), "conversation_name": names.get(turn["thread_id"])}
            for turn in values_at(connection, "SELECT * FROM turns WHERE rowid = ?", turns.get(key, ()))
        )
        yield rows


def _legacy_inputs(connection: sqlite3.Connection, response: str, tables: set[str]) -> dict[str, Any]:
    """The attachments and fragments of a prompt."""
    found: dict[str, Any] = {}
    if {"attachments", "prompt_attachments"} <= tables:
        query = """SELECT a.* FROM prompt_attachments p JOIN attachments a ON a.id = p.attachment_id
                   WHERE p.response_id = ? ORDER BY p."order" """
        found["attachments"] = list(map(_attachment, rows_of(connection, query, response)))
    for key in ("prompt_fragments", "system_fragments"):
        if {"fragments", key} <= tables:
            query = f"""SELECT f.hash, f.content FROM {key} p JOIN fragments f ON f.id = p.fragment_id
                        WHERE p.response_id = ? ORDER BY p."order" """
            found[key] = list(rows_of(connection, query, response))
    return {key: rows for key, rows in found.items() if rows}


def _attachment(row: dict[str, Any]) -> dict[str, Any]:
    content = row.get("content")
    encoded = base64.b64encode(content).decode() if isinstance(content, bytes) and content else None
    return {**row, "content": encoded}


def _turn(connection: sqlite3.Connection, turn: dict[str, Any]) -> dict[str, Any]:
    """A turn as the row that the command prints: llm/logs.py, `_LogRowBuilder`."""
    before = turn["parent_message_hash"]
    given = list(itertools.takewhile(lambda one: one["role"] in ("user", "tool"), _chain(connection, before)))
    above = next(_chain(connection, given[-1]["parent_hash"] if given else before), None)
    is_system = above is not None and above["role"] == "system"
    system = _text_in(_parts(connection, above), "text") if above is not None and is_system else None
    added = list(itertools.takewhile(lambda one: one["hash"] != before, _chain(connection, turn["tip_message_hash"])))
    inputs = [part for message in reversed(given) for part in _parts(connection, message)]
    outputs = [part for message in reversed(added) for part in _parts(connection, message)]
    return {
        **{key: value for key, value in turn.items() if key not in ("thread_id", "response_json")},
        "conversation_id": turn["thread_id"],
        "prompt": _text_in(inputs, "text"),
        "system": system,
        "response": _text_in(outputs, "text"),
        "reasoning": _text_in(outputs, "reasoning") or None,
        "attachments": [file for part in inputs if part["type"] == "attachment" for file in part["attachments"]],
        "tool_results": [part for part in inputs if part["type"] == "tool_result"],
        "tool_calls": [part for part in outputs if part["type"] == "tool_call" and not part.get("server_executed")],
    }


def _chain(connection: sqlite3.Connection, hash: Any) -> Iterator[dict[str, Any]]:
    """A message and those above it."""
    seen = set()
    while hash is not None and hash not in seen:
        seen.add(hash)
        message = next(rows_of(connection, "SELECT * FROM messages WHERE hash = ?", hash), None)
        if message is None:
            return
        yield message
        hash = message["parent_hash"]


def _text_in(parts: Iterable[dict[str, Any]], kind: str) -> str:
    return "".join(optional(part.get("text")) or "" for part in parts if part["type"] == kind)


def _parts(connection: sqlite3.Connection, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a message, with the fragments and attachments that they refer to."""
    for row in rows_of(connection, "SELECT * FROM parts WHERE message_hash = ? ORDER BY position", message["hash"]):
        part = {**fields_of(read_json(row["payload"])), "type": row["type"]}
        if row["text"] is not None:
            part["text"] = row["text"]
        pieces = items(part.pop("text_ref", None))
        if pieces:
            texts = (optional(one.get("literal")) or _fragment(connection, one.get("fragment")) for one in pieces)
            part["text"] = "".join(map(str, texts))
        references = items([part.pop("attachment", None), *items(part.pop("attachments", None))])
        part["attachments"] = [
            _attachment(file)
            for one in references
            for file in rows_of(connection, "SELECT * FROM attachments WHERE id = ?", one.get("id"))
        ]
        yield part


def _fragment(connection: sqlite3.Connection, id: Any) -> str:
    row = connection.execute("SELECT content FROM fragments WHERE id = ?", (id,)).fetchone()
    return row[0] if row is not None else ""


FORMAT = templates.file_format(API, decode, detect=detect, split=split, parts=PARTS, database=database, rank=20)
