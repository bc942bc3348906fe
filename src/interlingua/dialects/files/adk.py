"""Google's Agent Development Kit: a session with its `events`, as it is saved, sent by its server, or in a database.

An event has an author (the `user`, or the name of an agent) and content in Google's parts; its fields are spelled in
snake_case or in camelCase. A `partial` event is repeated whole later; one without content changes the state, marks a
compaction, or (`rewind_before_invocation_id`) takes back an invocation and what followed it, which stays in the tree. A
row of the table `events` has its event as JSON in `event_data`, in older versions as columns.
github.com/google/adk-python `src/google/adk/events`, `src/google/adk/sessions`
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.messages import AssistantMessage, Block, Message, TextBlock, ThinkingBlock, Usage
from ...values.request import Conversation
from ..residual import count, fields_of, optional
from .line_sessions import Record, TreeReader, read
from .program_content import a_result, attachment_of, first, inner, items, moment, user
from .reading import Documents, Pairing, columns_of, ordered_rows, read_json, rows_by_key, values_at

API = "adk"

_CAMEL = re.compile(r"_([a-z])")


def _get(value: Any, name: str) -> Any:
    """A field in either spelling."""
    fields = fields_of(value)
    return first(fields, name, _CAMEL.sub(lambda found: found[1].upper(), name))


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("author"), str)


def _is_session(value: Any) -> bool:
    events = inner(value, "events")
    named = isinstance(_get(value, "app_name"), str) and isinstance(_get(value, "user_id"), str)
    return named and isinstance(events, list) and all(map(_is_event, events))


def _usage(event: dict[str, Any]) -> Usage | None:
    """The prompt includes the cached part; thoughts are beside the candidates."""
    wire = _get(event, "usage_metadata")
    if not isinstance(wire, dict):
        return None
    counts = {name: count({"n": _get(wire, f"{name}_token_count")}, "n") for name in _COUNTS}
    cached, thought = counts["cached_content"], counts["thoughts"]
    prompt = max(counts["prompt"] - cached, 0)
    return Usage.of(prompt, counts["candidates"] + thought, cache_read=cached, reasoning=thought or None)


_COUNTS = ("prompt", "candidates", "cached_content", "thoughts")


def _block(part: dict[str, Any], pairs: Pairing) -> Block | None:
    text = optional(part.get("text"))
    if text is not None:
        return ThinkingBlock(thinking=text) if part.get("thought") is True else TextBlock(text=text)
    called = _get(part, "function_call")
    if isinstance(called, dict):
        return pairs.call(called.get("id"), called.get("name"), called.get("args"))
    ran = _get(part, "executable_code")
    if isinstance(ran, dict):
        return TextBlock(text=optional(ran.get("code")) or "")
    for key, source in (("inline_data", "data"), ("file_data", "file_uri")):
        stored = _get(part, key)
        given, mime = optional(_get(stored, source)), optional(_get(stored, "mime_type"))
        if given is not None:
            return attachment_of(f"data:{mime};base64,{given}" if key == "inline_data" else given, mime, None)
    return None


def _messages(event: dict[str, Any], pairs: Pairing) -> Iterator[Message]:
    # src/google/adk/sessions/base_session_service.py, `append_event`: a partial event is not stored.
    if event.get("partial") is True:
        return
    when, parts = moment(event.get("timestamp")), items(inner(event, "content", "parts"))
    for part in parts:
        response = _get(part, "function_response")
        if isinstance(response, dict):
            given = fields_of(response.get("response"))
            content = first(given, "result", "output", "error") if len(given) == 1 else given
            result = a_result("", content).content
            yield pairs.result(response.get("id"), response.get("name"), result, "error" in given, timestamp=when)
    blocks = tuple(block for part in parts if (block := _block(part, pairs)) is not None)
    if event.get("author") == "user":
        if blocks:
            yield user(blocks, when)
        return
    failed = optional(_get(event, "error_message"))
    if blocks or failed or _get(event, "usage_metadata"):
        answer = AssistantMessage(
            content=blocks,
            model=optional(_get(event, "model_version")),
            usage=_usage(event),
            timestamp=when,
        )
        yield replace(answer, stop_reason="error", error_message=failed) if failed else answer


class _Reader(TreeReader):
    """Reads the events of a session; invocations that were rewound stay in the tree."""

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        pairs, began = Pairing(), dict[str | None, int]()  # where an invocation began on the path
        model: str | None = None
        for event in records:
            taken_back = optional(_get(event.get("actions"), "rewind_before_invocation_id"))
            if taken_back is not None and taken_back in began:
                self.tree.cut(began[taken_back])
            began.setdefault(optional(_get(event, "invocation_id")), len(self.tree.path))
            for message in _messages(event, pairs):
                model = (message.model if isinstance(message, AssistantMessage) else None) or model
                yield self.tree.add(message)
        self.fields = {"model": model}


def _conversation(session: dict[str, Any]) -> Conversation:
    """One session."""
    title = optional(inner(session, "state", "__session_metadata__", "displayName"))
    return replace(read(_Reader(), session["events"]), title=title or None)


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The sessions of a database."""
    sessions, events = columns_of(connection, "sessions"), columns_of(connection, "events")
    known = {"app_name", "user_id", "id"} <= sessions and {"session_id", "invocation_id", "timestamp"} <= events
    return _stored(connection) if known else None


def _stored(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    # The key of an event begins with its own id: no index finds those of a session.
    found = rows_by_key(connection, "SELECT app_name, user_id, session_id, rowid FROM events ORDER BY timestamp, rowid")
    for session in ordered_rows(connection, "sessions", "rowid"):
        rows = found.get((session["app_name"], session["user_id"], session["id"]), ())
        events = [_event(row) for row in values_at(connection, "SELECT * FROM events WHERE rowid = ?", rows)]
        about = {name: session[name] for name in ("id", "app_name", "user_id")}
        yield {**about, "state": fields_of(read_json(session.get("state"))), "events": events}


def _event(row: dict[str, Any]) -> dict[str, Any]:
    whole = read_json(row.get("event_data"))
    if isinstance(whole, dict):
        return {"author": "", **whole}
    names = ("id", "author", "timestamp", "error_message")
    event = {name: row.get(name) for name in names if row.get(name) is not None}
    stored = {name: read_json(row.get(name)) for name in ("content", "usage_metadata")}
    stored["partial"] = True if row.get("partial") else None
    return {"author": "", **event, **{name: value for name, value in stored.items() if value is not None}}


FORMAT = Documents(API, _is_session, "`events` of a session with its app and user", "sessions").format(
    _conversation, database=database, rank=30
)
