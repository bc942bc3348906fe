"""Goose's sessions: JSON lines behind a line about the session, an exported object, or rows of its database.

A message has `role`, `created` (seconds) and `content` blocks: a call is a `toolRequest` whose `toolCall` has a status
and a value, or the error of a call that could not be read; a result is a `toolResponse` with the same id.
`metadata.agentVisible: false` marks what the model does not read: at the beginning what a compaction took from it,
elsewhere a notice to the user. `userVisible: false` is what the program put in and does not show.
"""

import itertools
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import Block, Message, ToolCall, Usage
from ...values.request import Conversation
from ..codec import ANSWER
from ..residual import body_of, fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, TreeReader, read
from .program_content import (
    a_call,
    a_result,
    block_of,
    first,
    inner,
    items,
    moment,
    usage_of,
    user,
)
from .reading import kept_record, ordered_rows, read_json, rows_of
from .records import lines_of
from .templates import file_format, keep

API = "goose"

_REQUESTS = ("toolRequest", "frontendToolRequest")


def _call(item: dict[str, Any]) -> Block | None:
    made = item.get("toolCall")
    value = fields_of(inner(made, "value") if inner(made, "value") is not None else made)
    name = optional(value.get("name"))
    id = optional(item.get("id"))
    # crates/goose/src/conversation/tool_result_serde.rs: `status` with a `value`, or with an `error`.
    failure = optional(inner(made, "error")) if inner(made, "status") == "error" else None
    if id is not None and failure is not None:  # what the model wrote is not kept
        return ToolCall(id=id, name=name or "", arguments={}, parse_error=failure)
    return None if id is None or name is None else a_call(id, name, value.get("arguments"))


def _result(item: dict[str, Any], when: int | None) -> Message | None:
    id, given = optional(item.get("id")), item.get("toolResult")
    if id is None:
        return None
    value = inner(given, "value")
    failed = inner(given, "status") == "error" or inner(value, "isError") is True
    content = inner(value, "content") if isinstance(value, dict) else value
    if isinstance(content, list):
        content = [one for one in content if _is_for_model(one)]
    return a_result(id, content if content is not None else inner(given, "error"), failed=failed, when=when)


def _is_for_model(item: Any) -> bool:
    """Tools often give the same twice, for the model and for the user: message.rs, `filter_for_audience`."""
    audience = inner(item, "annotations", "audience")
    return not isinstance(audience, list) or "assistant" in audience


def _messages(wire: dict[str, Any], model: str | None) -> list[Message]:
    when = moment(wire.get("created"))
    blocks: list[Block] = []
    results: list[Message] = []
    for item in items(wire.get("content")):
        if item.get("type") == "toolResponse":
            result = _result(item, when)
            results += [result] if result is not None else []
        else:
            block = _call(item) if item.get("type") in _REQUESTS else block_of(item)
            blocks += [block] if block is not None else []
    if not blocks and not results and wire.get("content"):  # a notice
        return [kept_record(API, "notice", wire)]
    if wire.get("role") == "assistant":
        return [replace(ANSWER, extra={}, content=tuple(blocks), model=model, timestamp=when), *results]
    if wire.get("role") != "user":
        return [kept_record(API, str(wire.get("role")), wire)]
    hidden = inner(wire, "metadata", "userVisible") is False
    return [*results, user(tuple(blocks), when, program=hidden)] if blocks or not results else results


def _is_message(line: Any) -> bool:
    return isinstance(line, dict) and "role" in line and isinstance(line.get("content"), list)


def _is_read(wire: dict[str, Any]) -> bool:
    # message.rs, `MessageMetadata`: visible unless it states otherwise.
    return inner(wire, "metadata", "agentVisible") is not False


class _Reader(TreeReader):
    """Reads the messages of a session; without `about`, the first record is about it.

    `has_read`: the model reads some of them.
    """

    def __init__(self, about: Record | None, has_read: bool) -> None:
        super().__init__()
        self._about, self._has_read = about, has_read

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        records = iter(records)
        about = next(records) if self._about is None else self._about
        model, title = optional(inner(about, "model_config", "model_name")), first(about, "name", "description")
        self.fields = {"title": title, "usage": _total(about), "model": model}
        is_begun = not self._has_read  # what a compaction took from the model stands before the first that it reads
        for wire in records:
            if not is_begun and _is_read(wire):
                self.tree.cut(0)
                is_begun = True
            notice = is_begun and not _is_read(wire)
            for message in [kept_record(API, "notice", wire)] if notice else _messages(wire, model):
                yield self.tree.add(message)


def _reader(lines: ReadAgain) -> Reader:
    """Reads lines, of which the first may be about the session."""
    begin = sum(not _is_message(line) for line in itertools.islice(lines(), 1))
    return _Reader(None if begin else {}, any(map(_is_read, itertools.islice(lines(), begin, None))))


@reading(API)
def decode(data: Any) -> Conversation:
    """A session: its lines, or an exported object."""
    try:
        document = body_of(data, API)
    except BadWire:
        document = lines_of(data, API)
    if isinstance(document, dict) and isinstance(document.get("conversation"), list):
        wires = items(document["conversation"])
        return keep(read(_Reader(document, any(map(_is_read, wires))), wires), document, API)
    lines = lines_of(document, API)
    return keep(read(_reader(lambda: lines), lines), document, API, lines=isinstance(document, list))


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """The lines of a session, one entry at a time."""
    return TemplateStream(_reader(lines), lines, API)


def _total(about: Any) -> Usage | None:
    whole = usage_of(about, input="accumulated_input_tokens", output="accumulated_output_tokens")
    return whole or usage_of(about, input="input_tokens", output="output_tokens")


@reading(API)
def listed(header: Record, records: ReadAgain) -> SessionStream:
    """An exported session, one entry at a time."""
    reader = _Reader(header, any(map(_is_read, records())))
    return TemplateStream(reader, records, API, "conversation", header)


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The sessions of `sessions.db`, each as the program exports it."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"sessions", "messages"} <= tables:
        return None
    # Other programs have tables of these names: crates/goose/src/session/session_manager.rs has this column.
    columns = [column[0] for column in connection.execute("SELECT * FROM messages LIMIT 0").description]
    return _sessions(connection) if "content_json" in columns else None


def _sessions(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for row in ordered_rows(connection, "sessions", "created_at, id"):
        about = {key: value for key, value in row.items() if value is not None and not key.endswith("_json")}
        configured = read_json(row.get("model_config_json"))
        conversation = []
        for message in rows_of(connection, "SELECT * FROM messages WHERE session_id = ? ORDER BY id", row["id"]):
            wire = {"role": message.get("role"), "created": message.get("created_timestamp")}
            conversation.append({
                **wire, "content": read_json(message.get("content_json")) or [],
                "metadata": fields_of(read_json(message.get("metadata_json"))),
            })  # fmt: skip
        yield {**about, **({"model_config": configured} if configured else {}), "conversation": conversation}


def detect(value: Any) -> str | None:
    """An exported session, or lines whose first is about the session and whose others have `created` and blocks."""
    if isinstance(value, dict):
        messages = value.get("conversation")
        if isinstance(messages, list) and "working_dir" in value and all(map(_is_message, messages)):
            return "a `conversation` beside a `working_dir`"
        value = [value]
    lines = items(value) if isinstance(value, list) else []
    if not lines:
        return None
    if "working_dir" in lines[0] and "role" not in lines[0] and all(map(_is_message, lines[1:20])):
        return "messages behind a line with a `working_dir`"
    if all(_is_message(line) and isinstance(line.get("created"), int) for line in lines[:20]):
        kinds = {inner(block, "type") for line in lines for block in items(line["content"])}
        if kinds & {"toolRequest", "toolResponse"}:
            return "messages with `toolRequest` and `toolResponse`"
    return None


FORMAT = file_format(
    API,
    decode,
    detect=detect,
    database=database,
    lines=True,
    stream=stream,
    listed=ListedSession(("conversation",), listed),
)
